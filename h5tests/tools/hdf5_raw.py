"""HDF5's C functions from the library that h5py has loaded, and values as they
lie in memory.

h5py converts values to numpy's, and lacks names for some properties. Here
values are bytes, or tuples of bytes for types that hold addresses, so that two
files can be compared to the last bit."""
import ctypes
import struct

import h5py  # loads the library  # pylint: disable=unused-import
import numpy as np
from h5py import h5d, h5g, h5s, h5t

EXTENT_LIMIT = 100000


def _library():
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            paths = {line.split()[-1] for line in maps if "libhdf5" in line}
    except OSError:
        return None
    for path in sorted(paths):
        if "libhdf5_hl" not in path and "cpp" not in path:
            return ctypes.CDLL(path)
    return None


LIBRARY = _library()


class Failed(Exception):
    """Raised when a function of HDF5 fails."""


def _argument(value):
    if isinstance(value, (int, bool)):
        return ctypes.c_int64(value)  # also for C's int
    if hasattr(value, "id") and isinstance(value.id, int):
        return ctypes.c_int64(value.id)
    return value


def call(name, *arguments, result=ctypes.c_int):
    function = getattr(LIBRARY, name)
    function.restype = result
    value = function(*map(_argument, arguments))
    if value is not None and value < 0:
        raise Failed(name)
    return value


def call_id(name, *arguments):
    return call(name, *arguments, result=ctypes.c_int64)


def get(name, id_, *types):
    """Returns what a function writes through pointers to these types."""
    places = [type_() for type_ in types]
    call(name, id_, *map(ctypes.byref, places))
    return tuple(place.value for place in places)


class Id:
    """Ids that a function has opened. They close when this object dies."""

    def __init__(self, id_):
        self.id = id_

    def __del__(self):
        call("H5Idec_ref", self.id)


def opened(name, *arguments):
    return Id(call_id(name, *arguments))


def list_of_class(name):
    return opened("H5Pcreate", ctypes.c_int64.in_dll(
        LIBRARY, f"H5P_CLS_{name}_ID_g").value)


# ---- types ----


class Type(h5t.TypeID):
    """A type of any class, some of which h5py does not support."""

    def get_class(self):
        return call("H5Tget_class", self)

    def get_size(self):
        return call("H5Tget_size", self, result=ctypes.c_int64)

    def get_super(self):
        return Type(call_id("H5Tget_super", self))

    def get_nmembers(self):
        return call("H5Tget_nmembers", self)

    def get_member_type(self, i):
        return Type(call_id("H5Tget_member_type", self, i))

    def get_member_offset(self, i):
        return call("H5Tget_member_offset", self, i, result=ctypes.c_int64)

    def is_variable_str(self):
        return call("H5Tis_variable_str", self) > 0

    def committed(self):
        return call("H5Tcommitted", self) > 0

    def equal(self, other):
        return call("H5Tequal", self, other) > 0

    @property
    def dtype(self):
        """The types of the parts of complex values as h5py stores them, or
        None."""
        kind = self.get_class()
        if kind == h5t.COMPOUND:
            if (self.get_nmembers() != 2 or
                    call("H5Tget_member_index", self, b"r") != 0):
                return None
            part = self.get_member_type(0).dtype
            return part and np.dtype(part.str.replace("f4", "c8").replace(
                "f8", "c16"))
        if kind != h5t.FLOAT:
            return None
        order = ">" if call("H5Tget_order", self) == 1 else "<"
        return np.dtype(f"{order}f{self.get_size()}")


def open_object(place, name):
    """A group, a dataset or a committed type."""
    id_ = call_id("H5Oopen", place, name, 0)
    return {2: h5g.GroupID, 3: Type, 5: h5d.DatasetID}[
        call("H5Iget_type", id_)](id_)


def type_of(object_):
    """The type of a dataset or attribute."""
    letter = "D" if isinstance(object_, h5d.DatasetID) else "A"
    return Type(call_id(f"H5{letter}get_type", object_))


def has_addresses(type_):
    kind = type_.get_class()
    if kind in (h5t.VLEN, h5t.REFERENCE):
        return True
    if kind == h5t.STRING:
        return type_.is_variable_str()
    if kind == h5t.ARRAY:
        return has_addresses(type_.get_super())
    if kind == h5t.COMPOUND:
        return any(has_addresses(type_.get_member_type(i))
                   for i in range(type_.get_nmembers()))
    return False


def array_length(type_):
    return type_.get_size() // type_.get_super().get_size()


# ---- values ----


def describe_selection(space):
    """The selected points, however the selection is stored."""
    kind = space.get_select_type()
    if kind in (h5s.SEL_ALL, h5s.SEL_NONE):
        return kind
    if kind == h5s.SEL_POINTS:
        return kind, tuple(map(tuple, space.get_select_elem_pointlist()))
    rank = space.get_simple_extent_ndims()
    if call("H5Sis_regular_hyperslab", space) > 0:
        parts = [(ctypes.c_uint64 * rank)() for _ in range(4)]
        call("H5Sget_regular_hyperslab", space, *parts)
        count = tuple(parts[2])
        if 2**64 - 1 in count + tuple(parts[3]):
            return (kind, *map(tuple, parts))
    assert space.get_select_npoints() <= EXTENT_LIMIT
    points = set()
    for first, last in space.get_select_hyper_blocklist():
        block = [()]
        for low, high in zip(first, last):
            block = [at + (i,) for at in block
                     for i in range(int(low), int(high) + 1)]
        points.update(block)
    return kind, tuple(sorted(points))


def unpack_text(bytes_):
    address, = struct.unpack("@P", bytes_)
    return ctypes.string_at(address) if address else None


class Values:
    """Reads values of a file. `name_of` gives the name of the object at an
    address. `change_region`, if set, changes selections."""

    def __init__(self, file, name_of):
        self.file = file.id
        self.name_of = name_of
        self.change_region = None
        self.known = {}  # references

    def reference(self, bytes_, is_region):
        """The object that the reference points to, or None."""
        if bytes_ not in self.known:
            self.known[bytes_] = (self.follow(bytes_, is_region)
                                  if any(bytes_) else None)
        return self.known[bytes_]

    def follow(self, bytes_, is_region):
        buffer = ctypes.create_string_buffer(bytes_, len(bytes_))
        try:
            target = call_id("H5Rdereference2", self.file, 0, int(is_region),
                             buffer)
        except Failed:
            return None  # the object was deleted
        object_ = Id(target)
        name = self.name_of(object_info(object_).addr)
        if not is_region:
            return name
        space = h5s.SpaceID(
            call_id("H5Rget_region", self.file, 1, buffer))
        selection = describe_selection(space)
        if self.change_region is not None:
            selection = self.change_region(name, selection)
        return name, selection

    def unpacker(self, type_):
        """Returns the function that makes a value from the bytes of a type in
        memory."""
        if not has_addresses(type_):
            return bytes
        kind = type_.get_class()
        if kind == h5t.COMPOUND:
            members = []
            for i in range(type_.get_nmembers()):
                member = type_.get_member_type(i)
                at = type_.get_member_offset(i)
                members.append((slice(at, at + member.get_size()),
                                self.unpacker(member)))
            return lambda bytes_: tuple(
                unpack(bytes_[place]) for place, unpack in members)
        if kind == h5t.ARRAY:
            return self.unpacker_of_many(type_.get_super())
        if kind == h5t.REFERENCE:
            is_region = type_.get_size() != 8
            return lambda bytes_: self.reference(bytes_, is_region)
        if kind == h5t.STRING:
            return unpack_text
        many = self.unpacker_of_many(type_.get_super())
        super_nbytes = type_.get_super().get_size()

        def unpack_sequence(bytes_):
            nvalues, address = struct.unpack("@NP", bytes_)
            nbytes = nvalues * super_nbytes
            return many(ctypes.string_at(address, nbytes) if nbytes else b"")
        return unpack_sequence

    def unpacker_of_many(self, type_):
        nbytes = type_.get_size()
        unpack = self.unpacker(type_)
        return lambda bytes_: tuple(
            unpack(bytes_[at:at + nbytes])
            for at in range(0, len(bytes_), nbytes))

    def _read(self, type_, space, read):
        """The bytes of all values, or a tuple for types that hold
        addresses."""
        nvalues = space.get_simple_extent_npoints()
        if space.get_simple_extent_type() == h5s.NULL or nvalues == 0:
            return b""
        nbytes = nvalues * type_.get_size()
        buffer = ctypes.create_string_buffer(nbytes)
        read(buffer)
        if not has_addresses(type_):
            return buffer.raw
        values = self.unpacker_of_many(type_)(buffer.raw)
        call("H5Dvlen_reclaim", type_, space, 0, buffer)
        return values

    def of_dataset(self, dataset):
        type_ = type_of(dataset)
        try:
            return self._read(
                type_, dataset.get_space(),
                lambda buffer: call("H5Dread", dataset, type_, 0, 0, 0, buffer))
        except Failed:
            if not has_addresses(type_):
                raise
            return self._by_chunks(dataset, type_)

    def _by_chunks(self, dataset, type_):
        """HDF5 1.10 cannot read chunks that were never written if the fill
        value is a text or a sequence."""
        shape = dataset.shape
        list_ = dataset.get_create_plist()
        chunk = list_.get_chunk()
        values = np.empty(shape, object)
        fill, = self.fill_of(list_, type_)
        for i in range(values.size):
            values.flat[i] = fill
        for at in np.ndindex(*(-(-n // c) for n, c in zip(shape, chunk))):
            first = tuple(i * c for i, c in zip(at, chunk))
            count = tuple(min(c, n - i)
                          for i, c, n in zip(first, chunk, shape))
            nbytes = ctypes.c_uint64()
            place = (ctypes.c_uint64 * len(first))(*first)
            try:
                call("H5Dget_chunk_storage_size", dataset, place,
                     ctypes.byref(nbytes))
            except Failed:
                continue
            if nbytes.value == 0:
                continue
            space = h5s.create_simple(shape)
            space.select_hyperslab(first, count)
            memory = h5s.create_simple(count)
            found = self._read(
                type_, memory, lambda buffer, memory=memory, space=space: call(
                    "H5Dread", dataset, type_, memory, space, 0, buffer))
            for i, where in enumerate(np.ndindex(*count)):
                values[tuple(a + b for a, b in zip(first, where))] = found[i]
        return tuple(values.ravel())

    def of_attribute(self, attribute):
        type_ = type_of(attribute)
        return self._read(
            type_, attribute.get_space(),
            lambda buffer: call("H5Aread", attribute, type_, buffer))

    def fill_of(self, dcpl, type_):
        def read(buffer):
            call("H5Pget_fill_value", dcpl, type_, buffer)
        return self._read(type_, h5s.create(h5s.SCALAR), read)


class Packer:
    """Makes values in memory. Their parts live as long as this object."""

    def __init__(self):
        self.parts = []

    def keep(self, bytes_):
        part = ctypes.create_string_buffer(bytes_, len(bytes_))
        self.parts.append(part)
        return ctypes.addressof(part)

    def pack(self, type_, value):
        """The reverse of Values.unpacker, except that references are given as
        bytes."""
        if isinstance(value, bytes) and not (
                type_.get_class() == h5t.STRING and has_addresses(type_)):
            return value
        kind = type_.get_class()
        if kind == h5t.COMPOUND:
            bytes_ = bytearray(type_.get_size())
            for i, member in enumerate(value):
                part = self.pack(type_.get_member_type(i), member)
                at = type_.get_member_offset(i)
                bytes_[at:at + len(part)] = part
            return bytes(bytes_)
        if kind == h5t.ARRAY:
            return b"".join(self.pack(type_.get_super(), v) for v in value)
        if kind == h5t.STRING:
            address = 0 if value is None else self.keep(value + b"\0")
            return address.to_bytes(8, "little")
        super_ = type_.get_super()
        part = b"".join(self.pack(super_, v) for v in value)
        address = self.keep(part) if part else 0
        return (len(value).to_bytes(8, "little") +
                address.to_bytes(8, "little"))


class _Info(ctypes.Structure):
    """H5O_info_t of HDF5 1.10, which later versions also fill in."""
    _fields_ = [("fileno", ctypes.c_ulong), ("addr", ctypes.c_uint64),
                ("type", ctypes.c_int), ("rc", ctypes.c_uint),
                ("atime", ctypes.c_int64), ("mtime", ctypes.c_int64),
                ("ctime", ctypes.c_int64), ("btime", ctypes.c_int64),
                ("rest", ctypes.c_uint64 * 32)]


def object_info(object_):
    info = _Info()
    call("H5Oget_info2", object_, ctypes.byref(info), 3)
    return info
