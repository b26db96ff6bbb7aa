"""Makes HDF5 files of random structure. A seed gives the same file with the
same version of HDF5.

Combinations that HDF5 refuses are left out."""
import ctypes
import os
import random

import h5py
import numpy as np
from h5py import h5a, h5d, h5f, h5g, h5l, h5p, h5s, h5t, h5z

from hdf5_raw import (Failed, Packer, call, call_id, has_addresses,
                      list_of_class, open_object)

REFUSED = (ValueError, RuntimeError, Failed, KeyError, TypeError, OSError)
TERP, LZF, ZLIB = 46117, 32000, 1
USER_LINK = 187
OWN_FILTER = 310  # an id that no other program uses

NAMES = (
    b"x", b"y", b"rho", b"level_0", b"data:datatype=0", b"a b", b".hidden",
    b"..", b"a.b", b"100%", b"back\\slash", b"quote\"'", b"*", b"[x]?",
    b"tab\tnew\nline", b"\x1b[31mred", "größe".encode(), "温度".encode(),
    "e\u0301".encode(), b"\xff\xfe", b"n" * 300, b"%b", b"CLASS", b"t" * 60,
)


def open_flags(low):
    fapl = h5p.create(h5p.FILE_ACCESS)
    fapl.set_fclose_degree(h5f.CLOSE_STRONG)  # objects that Python still holds
    fapl.set_libver_bounds(low, h5f.LIBVER_V110)
    return fapl


def is_there(filter_):
    """Whether HDF5 has the filter."""
    return call("H5Zfilter_avail", filter_) > 0


def is_fragile(type_):
    """Whether HDF5 before 1.14.4 mixes up values of this type when it writes
    several: compound values with addresses, in arrays."""
    kind = type_.get_class()
    if kind == h5t.COMPOUND:
        return any(is_fragile(type_.get_member_type(i))
                   for i in range(type_.get_nmembers()))
    if kind not in (h5t.ARRAY, h5t.VLEN):
        return False
    super_ = type_.get_super()
    return is_fragile(super_) or (
        kind == h5t.ARRAY and super_.get_class() == h5t.COMPOUND and
        has_addresses(super_))


class Maker:
    def __init__(self, path, seed):
        self.pick = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.path = path
        self.packer = Packer()
        self.groups = []  # (path, id)
        self.objects = []  # paths of all objects that references may point to
        self.datasets = []  # (path, shape) of datasets with dims
        self.types = []  # committed
        self.counter = 0
        self.later = []  # values to write when all objects exist
        self.refused = 0
        self.may_grow = True
        # Whether the tool lacks some of the filters.
        self.lacks_filters = self.chance(0.15)

    # ---- random choices ----

    def chance(self, probability):
        return self.pick.random() < probability

    def choose(self, *choices):
        return self.pick.choice(choices)

    def name(self):
        self.counter += 1
        if self.chance(0.6):
            return b"%s%d" % (self.choose(b"d", b"Name ", b"v"), self.counter)
        return self.pick.choice(NAMES) + (
            b"" if self.chance(0.3) else b"%d" % self.counter)

    def tries(self, function, *arguments):
        """Whether HDF5 accepts the call."""
        try:
            function(*arguments)
            return True
        except REFUSED:
            self.refused += 1
            return False

    # ---- property lists ----

    def set_object(self, list_):
        if self.chance(0.4):
            order = self.choose(1, 3)
            call("H5Pset_attr_creation_order", list_, order)
        if self.chance(0.3):
            most = self.choose(0, 1, 4, 8, 20)
            call("H5Pset_attr_phase_change", list_, most,
                 self.pick.randint(0, most))
        call("H5Pset_obj_track_times", list_, self.chance(0.5))

    def set_group(self, list_):
        self.set_object(list_)
        if self.chance(0.5):
            call("H5Pset_link_creation_order", list_, self.choose(1, 3))
        if self.chance(0.3):
            most = self.choose(0, 2, 8, 30)
            call("H5Pset_link_phase_change", list_, most,
                 self.pick.randint(0, most))
        if self.chance(0.2):
            call("H5Pset_est_link_info", list_, self.choose(0, 3, 50),
                 self.choose(1, 8, 100))
        if self.chance(0.1):
            call("H5Pset_local_heap_size_hint", list_, 1000)
        if self.chance(0.1) and is_there(ZLIB):
            call("H5Pset_deflate", list_, 3)

    def group_list(self):
        list_ = h5p.create(h5p.GROUP_CREATE)
        self.set_group(list_)
        return list_

    def file_list(self):
        list_ = h5p.create(h5p.FILE_CREATE)
        self.userblock = self.choose(0, 0, 0, 512, 2048)
        call("H5Pset_userblock", list_, self.userblock)
        self.tries(self.set_group, list_)
        if self.chance(0.2):
            # If sizes have 4 bytes, HDF5 cannot distinguish unlimited dims.
            self.may_grow = self.chance(0.5)
            call("H5Pset_sizes", list_, 8, 8 if self.may_grow else 4)
        if self.chance(0.15):
            call("H5Pset_sym_k", list_, self.choose(4, 16, 40),
                 self.choose(2, 4, 9))
        if self.chance(0.15):
            call("H5Pset_istore_k", list_, self.choose(2, 16, 100))
        if self.chance(0.25):
            self.set_shared(list_)
        if self.chance(0.2):
            strategy = self.choose(0, 1, 2, 3)
            self.tries(call, "H5Pset_file_space_strategy", list_, strategy,
                       self.chance(0.5), 1)
            if strategy == 1 and self.userblock:  # whole pages
                self.userblock = 4096
                call("H5Pset_userblock", list_, self.userblock)
        return list_

    def set_shared(self, list_):
        """Messages that several objects share: all types of messages, or
        some."""
        # Dataspaces, types, fill values and attributes. HDF5 1.10 damages
        # files that share filter pipelines.
        kinds = (0x2, 0x8, 0x20, 0x1000)
        count = self.pick.randint(1, 3)
        call("H5Pset_shared_mesg_nindexes", list_, count)
        drawn = self.pick.sample(kinds, count)
        for i, kind in enumerate(drawn):
            call("H5Pset_shared_mesg_index", list_, i,
                 sum(kinds) if count == 1 else kind,
                 self.choose(10, 40, 200))
        if self.chance(0.3):
            call("H5Pset_shared_mesg_phase_change", list_,
                 *self.choose((0, 0), (2, 1), (50, 40)))

    # ---- types ----

    def integer_type(self):
        type_ = self.choose(
            h5t.STD_I8LE, h5t.STD_I16BE, h5t.STD_I32LE, h5t.STD_I64LE,
            h5t.STD_U8LE, h5t.STD_U16LE, h5t.STD_U32BE, h5t.STD_U64LE).copy()
        if self.chance(0.1) and type_.get_size() > 1:
            type_.set_precision(type_.get_size() * 8 - 3)
        return type_

    def float_type(self):
        return self.choose(
            h5t.IEEE_F32LE, h5t.IEEE_F32LE, h5t.IEEE_F64LE, h5t.IEEE_F64LE,
            h5t.IEEE_F32BE, h5t.IEEE_F64BE, h5t.IEEE_F16LE).copy()

    def string_type(self, fixed=False):
        type_ = h5t.C_S1.copy()
        type_.set_size(self.choose(1, 7, 30) if fixed or self.chance(0.5)
                       else h5t.VARIABLE)
        type_.set_cset(self.choose(h5t.CSET_ASCII, h5t.CSET_UTF8))
        type_.set_strpad(self.choose(h5t.STR_NULLTERM, h5t.STR_NULLPAD,
                                     h5t.STR_SPACEPAD))
        return type_

    def enum_type(self):
        type_ = h5t.enum_create(self.choose(h5t.STD_I8LE, h5t.STD_U16BE,
                                            h5t.STD_I32LE))
        for i, name in enumerate((b"RED", b"green \xc3\xa4", b"b" * 40)):
            type_.enum_insert(name, i * 3)
        return type_

    def opaque_type(self):
        type_ = h5t.create(h5t.OPAQUE, self.choose(1, 5, 24))
        type_.set_tag(self.choose(b"", b"a tag"))
        return type_

    def complex_type(self):
        part = self.choose(h5t.IEEE_F32LE, h5t.IEEE_F64LE, h5t.IEEE_F64BE)
        type_ = h5t.create(h5t.COMPOUND, 2 * part.get_size())
        type_.insert(b"r", 0, part)
        type_.insert(b"i", part.get_size(), part)
        return type_

    def compound_type(self, depth):
        parts = [self.type(depth + 1) for _ in range(self.pick.randint(1, 4))]
        gap = self.choose(0, 0, 3)
        size = sum(part.get_size() + gap for part in parts)
        type_ = h5t.create(h5t.COMPOUND, size)
        at = 0
        for i, part in enumerate(parts):
            type_.insert(self.choose(b"m", b"a/b ", b"\xc3\xb6") + b"%d" % i,
                         at, part)
            at += part.get_size() + gap
        return type_

    def type(self, depth=0):
        """A type of any class, nested at most three levels deep."""
        simple = (self.integer_type, self.float_type, self.string_type,
                  self.enum_type, self.opaque_type, self.complex_type,
                  lambda: self.choose(h5t.STD_B8LE, h5t.STD_B32BE).copy(),
                  lambda: h5t.STD_REF_OBJ.copy(),
                  lambda: h5t.STD_REF_DSETREG.copy())
        nested = (lambda: self.compound_type(depth),
                  lambda: h5t.vlen_create(self.whole_type(depth + 1)),
                  lambda: h5t.array_create(
                      self.whole_type(depth + 1),
                      self.choose((1,), (3,), (2, 2))))
        if depth < 3 and self.chance(0.3):
            return self.pick.choice(nested)()
        return self.pick.choice(simple)()

    def whole_type(self, depth):
        """A type whose values HDF5 can write several at a time."""
        type_ = self.type(depth)
        return self.integer_type() if is_fragile(type_) else type_

    def any_type(self):
        """A new type, or one of the committed ones."""
        if self.types and self.chance(0.25):
            return self.pick.choice(self.types)
        return self.type()

    def commit(self, group, path):
        type_ = self.type()
        list_ = list_of_class("DATATYPE_CREATE")
        self.set_object(list_)
        name = self.name()
        call("H5Tcommit2", group, name, type_, self.link_list(), list_, 0)
        self.types.append(type_)
        self.objects.append(path + b"/" + name)
        self.attributes(type_, 0.3)
        if self.chance(0.2):  # a type without links that is still in use
            self.later.append(lambda: self.unlink(group, name,
                                                  path + b"/" + name))

    def unlink(self, group, name, path):
        group.unlink(name)
        if path in self.objects:
            self.objects.remove(path)

    # ---- values ----

    def bytes(self, nbytes):
        return self.pick.getrandbits(8 * nbytes).to_bytes(nbytes, "little") \
            if nbytes else b""

    def reference(self, is_region):
        nbytes = 12 if is_region else 8
        if not self.objects or self.chance(0.2):
            return bytes(nbytes)
        buffer = ctypes.create_string_buffer(nbytes)
        file = self.groups[0][1]
        if not is_region:
            call("H5Rcreate", buffer, file, self.pick.choice(self.objects), 0,
                 -1)
        elif self.datasets:
            path, shape = self.pick.choice(self.datasets)
            call("H5Rcreate", buffer, file, path, 1, self.selection(shape))
        return buffer.raw

    def selection(self, shape):
        space = h5s.create_simple(shape)
        if 0 in shape or self.chance(0.1):
            return space
        kind = self.pick.randrange(3)
        if kind == 0:
            points = [[self.pick.randrange(n) for n in shape]
                      for _ in range(self.pick.randint(1, 5))]
            space.select_elements(points)
            return space
        for i in range(kind):
            first = [self.pick.randrange(n) for n in shape]
            count = [self.pick.randint(1, min(n - at, 6))
                     for n, at in zip(shape, first)]
            space.select_hyperslab(tuple(first), tuple(count),
                                   op=h5s.SELECT_SET if i == 0
                                   else h5s.SELECT_OR)
        return space

    def value(self, type_):
        """A value for Packer.pack."""
        kind = type_.get_class()
        size = type_.get_size()
        if kind == h5t.COMPOUND and has_addresses(type_):
            return tuple(self.value(type_.get_member_type(i))
                         for i in range(type_.get_nmembers()))
        if kind == h5t.ARRAY and has_addresses(type_):
            n = int(np.prod(type_.get_array_dims()))
            return tuple(self.value(type_.get_super()) for _ in range(n))
        if kind == h5t.VLEN:
            return tuple(self.value(type_.get_super())
                         for _ in range(self.choose(0, 1, 3)))
        if kind == h5t.STRING and type_.is_variable_str():
            return self.choose(None, b"", b"text", "ä€".encode(), b"l" * 500)
        if kind == h5t.REFERENCE:
            return self.reference(size != 8)
        if kind == h5t.ENUM:
            value = self.choose(0, 3, 6)
            return value.to_bytes(size, "little" if type_.get_super().equal(
                h5t.STD_I32LE) else "big")
        return self.bytes(size)

    def values(self, type_, count):
        """The bytes of several values in memory."""
        kind = type_.get_class()
        if kind == h5t.FLOAT or (kind == h5t.COMPOUND and
                                 not has_addresses(type_) and
                                 type_.get_size() % 8 == 0 and
                                 type_.get_nmembers() == 2 and
                                 type_.get_member_name(0) == b"r"):
            return self.floats(type_.dtype, count)
        if kind == h5t.INTEGER and count > 20:
            walk = np.cumsum(self.numbers.integers(-3, 4, count))
            return walk.astype(type_.dtype).tobytes()
        if count > 200 and not has_addresses(type_):
            some = b"".join(self.value(type_) for _ in range(200))
            return (some * (count // 200 + 1))[:count * type_.get_size()]
        return b"".join(self.packer.pack(type_, self.value(type_))
                        for _ in range(count))

    def floats(self, dtype, count):
        if self.chance(0.2):  # stored like bytes
            dtype_bytes = self.numbers.bytes(count * dtype.itemsize)
            return dtype_bytes
        x = np.linspace(0, self.choose(3, 40), count)
        values = self.choose(1.0, 1e-3, 300.0) * (
            np.sin(x) + 0.01 * self.numbers.normal(size=count))
        if dtype.kind == "c":
            values = values * (1 + 0.5j)
        if self.chance(0.3) and count > 3:
            values[self.pick.randrange(count)] = np.nan
            values[self.pick.randrange(count)] = -np.inf
        if self.chance(0.3):
            values[: count // 3] = self.choose(-999.0, 0.0, -0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(dtype).tobytes()

    # ---- attributes ----

    def attributes(self, object_, probability=0.5):
        if not self.chance(probability):
            return
        for _ in range(self.choose(1, 2, 3, 12)):
            if not self.tries(self.attribute, object_):
                break

    def attribute(self, object_):
        type_ = self.any_type()
        big = self.chance(0.03)
        shape = ((9000,) if big else () if is_fragile(type_) else
                 self.choose((), (1,), (3,), (2, 3), (0,)))
        space = (h5s.create(h5s.NULL) if self.chance(0.1)
                 else h5s.create_simple(shape) if shape
                 else h5s.create(h5s.SCALAR))
        if big:
            type_ = h5t.IEEE_F64LE.copy()
        list_ = list_of_class("ATTRIBUTE_CREATE")
        call("H5Pset_char_encoding", list_, self.choose(0, 1))
        name = self.name()
        attribute = call_id("H5Acreate2", object_, name, type_, space, list_, 0)
        attribute = h5a.AttrID(attribute)
        if space.get_simple_extent_type() == h5s.NULL or 0 in shape:
            return
        count = int(np.prod(shape))

        def write():
            bytes_ = self.values(type_, count)
            call("H5Awrite", attribute, type_, bytes_)
        if has_addresses(type_):
            self.later.append(write)  # references may point to any object
        else:
            write()

    # ---- datasets ----

    def extent(self):
        kind = self.pick.random()
        if kind < 0.08:
            return (), None
        if kind < 0.12:
            return None, None
        rank = self.choose(1, 1, 2, 3, 4)
        if self.chance(0.35):
            sizes = {1: (4096, 5000, 12345), 2: (70, 100), 3: (17, 20),
                     4: (8, 9)}[rank]
            shape = tuple(self.choose(*sizes) for _ in range(rank))
        else:
            shape = tuple(self.choose(0, 1, 2, 3, 7, 12) for _ in range(rank))
        most = tuple(self.choose(n, n, n + 5, h5s.UNLIMITED if self.may_grow
                                 else n + 100) for n in shape)
        return shape, most if self.chance(0.4) else shape

    def set_filters(self, list_, type_):
        numbers = type_.get_class() in (h5t.INTEGER, h5t.FLOAT, h5t.ENUM)
        # Filters that depend on the values' type come first. Elsewhere they
        # could not read back.
        first = [
            lambda: list_.set_scaleoffset(h5z_of(type_), 2),
            lambda: call("H5Pset_nbit", list_),
            lambda: list_.set_szip(32, 8),
            lambda: list_.set_filter(TERP, self.choose(0, 1), (1, 1, 3)),
        ]
        others = [
            lambda: list_.set_shuffle(),
            lambda: list_.set_deflate(self.choose(0, 1, 9)),
            lambda: list_.set_fletcher32(),
            lambda: self.set_own_filter(list_),
            lambda: list_.set_filter(LZF, h5z.FLAG_OPTIONAL, ()),
        ]
        if numbers and self.chance(0.4):
            self.tries(self.pick.choice(first))
        if not self.lacks_filters:
            del others[3:]
        for set_one in self.pick.sample(others, self.pick.randint(0, 3)):
            self.tries(set_one)

    def set_own_filter(self, list_):
        register_filter()
        list_.set_filter(OWN_FILTER, self.choose(0, 1),
                         self.choose((), (1, 2, 3)))

    def set_fill(self, list_, type_):
        kind = self.pick.randrange(4)
        if kind == 0 and not has_addresses(type_):
            call("H5Pset_fill_value", list_, type_, self.value(type_))
        elif kind == 0 and self.chance(0.5):
            call("H5Pset_fill_value", list_, type_,
                 self.packer.pack(type_, self.value(type_)))
        elif kind == 1 and self.chance(0.3):
            call("H5Pset_fill_value", list_, type_, None)
            self.needs_all = True
        if self.chance(0.3):
            time = self.choose(0, 1, 2)
            call("H5Pset_fill_time", list_, time)
            self.needs_all |= time == 1

    def dataset_list(self, type_, shape, most):
        list_ = h5p.create(h5p.DATASET_CREATE)
        self.set_object(list_)
        self.needs_all = False
        self.tries(self.set_fill, list_, type_)
        if self.chance(0.3):
            list_.set_alloc_time(self.choose(
                h5d.ALLOC_TIME_EARLY, h5d.ALLOC_TIME_LATE,
                h5d.ALLOC_TIME_INCR))
        small = shape is not None and np.prod(
            shape, dtype=int) * type_.get_size() < 4000
        if shape and (most != shape or self.chance(0.6)):
            chunk = tuple(
                max(1, min(self.choose(1, 2, 4, 7, 10, 40, 1000),
                           n if m == n else max(n, 1) + 5 if m != n else n))
                for n, m in zip(shape, most))
            chunk = tuple(min(c, m) if m not in (0, h5s.UNLIMITED) else c
                          for c, m in zip(chunk, most))
            if np.prod([-(-max(n, 1) // c) for n, c in zip(shape, chunk)]) > 3000:
                chunk = tuple(max(1, n) for n in shape)
            list_.set_chunk(chunk)
            if self.chance(0.6):
                self.set_filters(list_, type_)
            if self.chance(0.15):
                call("H5Pset_chunk_opts", list_, 2)
        elif small and self.chance(0.4):
            list_.set_layout(h5d.COMPACT)
            list_.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        elif shape and self.chance(0.2) and not has_addresses(type_):
            self.set_external(list_, type_, shape)
        return list_

    def set_external(self, list_, type_, shape):
        nbytes = int(np.prod(shape)) * type_.get_size()
        if nbytes == 0:
            return
        self.counter += 1
        base = f"{self.path}.raw{self.counter}".encode()
        for name in b"", b"a", b"b":
            with open(base + name, "wb"):
                pass
        first = nbytes // 2
        if first > 0 and self.chance(0.5):
            list_.set_external(base + b"a", 0, first)
            list_.set_external(base + b"b", 16, nbytes - first)
        else:
            list_.set_external(base, self.choose(0, 100), nbytes)

    def dataset(self, group, path):
        type_ = self.any_type()
        shape, most = self.extent()
        list_ = self.dataset_list(type_, shape, most)
        space = (h5s.create(h5s.NULL) if shape is None
                 else h5s.create(h5s.SCALAR) if shape == ()
                 else h5s.create_simple(shape, most))
        name = self.name()
        dataset = h5d.DatasetID(call_id(
            "H5Dcreate2", group, name, type_, space, self.link_list(), list_,
            0))
        self.objects.append(path + b"/" + name)
        if shape:
            self.datasets.append((path + b"/" + name, shape))
        self.attributes(dataset)
        needs_all = self.needs_all
        if shape is None or 0 in shape:
            return

        def write():
            self.tries(self.write, dataset, type_, shape, needs_all)
        if has_addresses(type_):
            self.later.append(write)
        else:
            write()

    def write(self, dataset, type_, shape, needs_all):
        part = self.pick.random()
        if part < 0.15 and not needs_all:
            return
        if part < 0.4 and not needs_all and shape and not is_fragile(type_):
            space = self.selection(shape)
            count = space.get_select_npoints()
            if 0 < count <= 5000:
                memory = h5s.create_simple((count,))
                call("H5Dwrite", dataset, type_, memory, space, 0,
                     self.values(type_, count))
            return
        count = int(np.prod(shape, dtype=int))
        if is_fragile(type_):
            self.write_each(dataset, type_, shape)
            return
        if has_addresses(type_) and count > 300:
            space = h5s.create_simple(shape)
            space.select_hyperslab(
                (0,) * len(shape), tuple(min(n, 4) for n in shape))
            count = space.get_select_npoints()
            call("H5Dwrite", dataset, type_, h5s.create_simple((count,)),
                 space, 0, self.values(type_, count))
            return
        call("H5Dwrite", dataset, type_, 0, 0, 0, self.values(type_, count))

    def write_each(self, dataset, type_, shape):
        one = h5s.create(h5s.SCALAR)
        for at in list(np.ndindex(*shape))[:50]:
            space = dataset.get_space()
            if shape:
                space.select_hyperslab(at, (1,) * len(shape))
            call("H5Dwrite", dataset, type_, one, space, 0,
                 self.values(type_, 1))

    def virtual(self, group, path):
        """A virtual dataset of parts of others, in this file or another."""
        n, length = self.pick.randint(1, 3), 10
        file = self.choose(b".", b"absent.h5", os.path.basename(
            self.path).encode())
        grows = self.may_grow and self.chance(0.3)
        list_ = h5p.create(h5p.DATASET_CREATE)
        self.set_object(list_)
        type_ = self.choose(h5t.IEEE_F32LE, h5t.STD_I16LE)
        for i in range(n):
            here = h5s.create_simple((n, length),
                                     (n, h5s.UNLIMITED if grows else length))
            source = self.choose(b"/always", b"/s%d" % i)
            if grows:
                source = b"/s%d" % i
                there = h5s.create_simple((length,), (h5s.UNLIMITED,))
                ones = (ctypes.c_uint64 * 2)(1, 1)
                start = (ctypes.c_uint64 * 2)(i, 0)
                count = (ctypes.c_uint64 * 2)(1, 2**64 - 1)
                call("H5Sselect_hyperslab", here, 0, start, ones, count, ones)
                call("H5Sselect_hyperslab", there, 0,
                     (ctypes.c_uint64 * 1)(0), (ctypes.c_uint64 * 1)(1),
                     (ctypes.c_uint64 * 1)(2**64 - 1),
                     (ctypes.c_uint64 * 1)(1))
            else:
                here.select_hyperslab((i, 0), (1, length))
                there = h5s.create_simple((4500,))
                there.select_hyperslab((3 * i,), (length,))
                if source != b"/always" and self.chance(0.5):
                    there = h5s.create_simple((length,))
            list_.set_virtual(here, file, source, there)
        if self.may_grow and self.chance(0.2):  # a series of sources
            list_ = h5p.create(h5p.DATASET_CREATE)
            here = h5s.create_simple((1, length), (h5s.UNLIMITED, length))
            one = (ctypes.c_uint64 * 2)
            call("H5Sselect_hyperslab", here, 0, one(0, 0), one(1, 1),
                 one(2**64 - 1, 1), one(1, length))
            list_.set_virtual(here, b"series_%b.h5", b"/s",
                              h5s.create_simple((length,)))
            grows, n = False, 1
            space = h5s.create_simple((1, length), (h5s.UNLIMITED, length))
        else:
            space = h5s.create_simple(
                (n, length), (n, h5s.UNLIMITED if grows else length))
        if self.chance(0.3):
            call("H5Pset_fill_value", list_, type_, bytes(
                range(type_.get_size())))
        name = self.name()
        dataset = h5d.DatasetID(call_id(
            "H5Dcreate2", group, name, type_, space, self.link_list(), list_,
            0))
        self.attributes(dataset)
        self.objects.append(path + b"/" + name)

    def scales(self):
        """Attaches dimension scales, as netCDF does."""
        file = h5py.File(self.groups[0][1])
        known = [(p, s) for p, s in self.datasets
                 if 0 not in s and b"\xff" not in p]
        for path, shape in self.pick.sample(known, min(2, len(known))):
            dataset = file[path.decode()]
            dim = self.pick.randrange(len(shape))
            self.counter += 1
            scale = file.create_dataset(f"scale{self.counter}",
                                        data=np.arange(shape[dim]))
            scale.make_scale(self.choose("", "a scale"))
            dataset.dims[dim].attach_scale(scale)
            if self.chance(0.5):
                dataset.dims[dim].label = "label"

    # ---- links ----

    def link_list(self):
        list_ = h5p.create(h5p.LINK_CREATE)
        list_.set_char_encoding(self.choose(h5t.CSET_ASCII, h5t.CSET_UTF8))
        return list_

    def link(self, group):
        kind = self.pick.randrange(4)
        name = self.name()
        if kind == 0:
            group.links.create_soft(name, self.choose(
                b"/", b"x", b"/nowhere/at all", b"../up", b"l" * 3000),
                self.link_list())
        elif kind == 1:
            group.links.create_external(
                name, self.choose(b"other.h5", b"/a/b c.h5"),
                self.choose(b"/", b"/x/y"), self.link_list())
        elif kind == 2:
            target = self.pick.choice(self.objects)
            group.links.create_hard(name, self.groups[0][1], target,
                                    self.link_list())
        else:
            self.user_link(group, name)

    def user_link(self, group, name):
        register_links()
        value = self.bytes(self.choose(0, 1, 40))
        call("H5Lcreate_ud", group, name, USER_LINK, value, len(value),
             self.link_list(), 0)

    # ---- all of it ----

    def group(self, parent, path):
        name = self.name()
        group = h5g.create(parent, name, self.link_list(), self.group_list())
        below = path + b"/" + name
        self.groups.append((below, group))
        self.objects.append(below)
        self.attributes(group)

    def fill(self):
        nobjects = self.choose(3, 10, 25, 60)
        dense = self.chance(0.3)
        for _ in range(nobjects):
            path, group = (self.groups[-1] if dense and self.chance(0.7)
                           else self.pick.choice(self.groups))
            draw = self.pick.random()
            if draw < 0.15:
                self.tries(self.group, group, path)
            elif draw < 0.22:
                self.tries(self.commit, group, path)
            elif draw < 0.27:
                self.tries(self.virtual, group, path)
            elif draw < 0.7:
                self.tries(self.dataset, group, path)
            else:
                self.tries(self.link, group)
        if self.chance(0.1):
            self.deep(self.choose(5, 40, 300))
        if self.chance(0.2):
            self.tries(self.scales)

    def deep(self, nlevels):
        path, group = self.pick.choice(self.groups)
        for _ in range(nlevels):
            group = h5g.create(group, b"g", None, self.group_list())
            path += b"/g"
        self.groups.append((path, group))

    def remove_some(self):
        """Makes gaps in the numbers of links and attributes, and in heaps."""
        for path, group in self.groups:
            names = []
            group.links.iterate(names.append)
            for name in names:
                info = group.links.get_info(name)
                if info.type != h5l.TYPE_HARD and self.chance(0.2):
                    group.unlink(name)
            del path
        for path in self.pick.sample(self.objects,
                                     min(3, len(self.objects))):
            object_ = open_object(self.groups[0][1], path)
            names = []
            h5a.iterate(object_, lambda name, *_: names.append(name))
            for name in names:
                if self.chance(0.3) and not name.isupper():
                    h5a.delete(object_, name)

    def make(self):
        low = self.choose(h5f.LIBVER_EARLIEST, h5f.LIBVER_EARLIEST,
                          h5f.LIBVER_V18, h5f.LIBVER_V110)
        list_ = self.file_list()
        file = h5f.create(self.path.encode(), h5f.ACC_TRUNC, list_,
                          open_flags(low))
        self.groups.append((b"", h5g.open(file, b"/")))
        self.attributes(self.groups[0][1])
        dataset = h5d.create(self.groups[0][1], b"always", h5t.IEEE_F64LE,
                             h5s.create_simple((4500,)))
        dataset.write(h5s.ALL, h5s.ALL, np.frombuffer(
            self.values(h5t.IEEE_F64LE, 4500), "f8"))
        del dataset
        self.objects.append(b"/always")
        self.datasets.append((b"/always", (4500,)))
        self.fill()
        for act in self.later:
            self.tries(act)
        self.later = []
        self.tries(self.remove_some)
        self.groups = self.types = None
        file.close()
        if self.userblock:
            with open(self.path, "r+b") as bytes_:
                bytes_.write(self.bytes(self.userblock))


def h5z_of(type_):
    return (h5z.SO_INT if type_.get_class() != h5t.FLOAT
            else h5z.SO_FLOAT_DSCALE)


# Keeps alive the objects that HDF5 has pointers to.
_REGISTERED = {}


def register_links():
    """Registers USER_LINK with HDF5, as programs that make such links do."""
    if "links" in _REGISTERED:
        return
    traverse = ctypes.CFUNCTYPE(ctypes.c_int64)(lambda: -1)

    class LinkClass(ctypes.Structure):
        _fields_ = [("version", ctypes.c_int), ("id", ctypes.c_int),
                    ("comment", ctypes.c_char_p),
                    ("create", ctypes.c_void_p), ("move", ctypes.c_void_p),
                    ("copy", ctypes.c_void_p), ("traverse", ctypes.c_void_p),
                    ("delete", ctypes.c_void_p), ("query", ctypes.c_void_p)]
    class_ = LinkClass(1, USER_LINK, b"of a test", None, None,
                       None, ctypes.cast(traverse, ctypes.c_void_p), None, None)
    call("H5Lregister", ctypes.byref(class_))
    _REGISTERED["links"] = traverse, class_


def register_filter():
    """A filter that inverts all bits, registered in this process only."""
    if "filter" in _REGISTERED:
        return
    prototype = ctypes.CFUNCTYPE(
        ctypes.c_size_t, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p,
        ctypes.c_size_t, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))

    table = bytes(range(255, -1, -1))

    def turn(_flags, _nwords, _words, nbytes, _cap, place):
        bytes_ = ctypes.string_at(place[0], nbytes)
        ctypes.memmove(place[0], bytes_.translate(table), nbytes)
        return nbytes

    class FilterClass(ctypes.Structure):
        _fields_ = [("version", ctypes.c_int), ("id", ctypes.c_int),
                    ("encodes", ctypes.c_uint), ("decodes", ctypes.c_uint),
                    ("name", ctypes.c_char_p), ("can_apply", ctypes.c_void_p),
                    ("set_local", ctypes.c_void_p), ("filter", prototype)]
    class_ = FilterClass(1, OWN_FILTER, 1, 1, b"of a test", None, None,
                         prototype(turn))
    call("H5Zregister", ctypes.byref(class_))
    _REGISTERED["filter"] = class_


def make(path, seed):
    """Makes the file of a seed. Returns its maker."""
    maker = Maker(path, seed)
    maker.make()
    return maker
