"""Compares a copy that terp has made with its original, object by object.

Nothing here depends on how the tool works. Both files are walked with h5py and
HDF5's own functions. Differences are reported as text."""
import ctypes
import math

import h5py
import numpy as np
from h5py import h5, h5a, h5d, h5g, h5l, h5s, h5t

from hdf5_raw import (Failed, Values, call, call_id, describe_selection, get,
                      has_addresses, object_info, open_object, opened, type_of)

TERP, SHUFFLE, DEFLATE = 46117, 2, 1
UINT, SIZE = ctypes.c_uint, ctypes.c_size_t
# Bounds are multiplied by this, for the rounding of the comparison.
ROUNDED = 1 + 1e-9
# Attributes that terp itself adds to datasets.
NOTES = b"terp_"


class Mode:
    """The options of the copy."""

    def __init__(self, kind="keep", number=0.0, floor=0.0, step=0,
                 deflates=False, keeps_signs=False):
        self.kind = kind  # keep, lossless, abs, rel or pwr
        self.number = number
        self.floor = floor
        self.step = step
        self.deflates = deflates
        self.keeps_signs = keeps_signs


class File:
    """A file's objects by their addresses. Each has a name that both files
    share: the first of its paths in the order of names."""

    def __init__(self, path):
        self.file = h5py.File(path, "r")
        root = open_object(self.file.id, b"/")
        self.names = {object_info(root).addr: b"/"}
        self.values = Values(self.file, self.name_of)
        self.groups = []
        self.objects = [(b"/", root)]
        waiting = [(b"/", root)]
        while waiting:
            path, group = waiting.pop()
            self.groups.append((path, group))
            for name in self.links_of(group, h5.INDEX_NAME):
                info = group.links.get_info(name)
                if info.type != h5l.TYPE_HARD:
                    continue
                below = path.rstrip(b"/") + b"/" + name
                object_ = open_object(group, name)
                address = object_info(object_).addr
                if address in self.names:
                    continue
                self.names[address] = below
                self.objects.append((below, object_))
                if isinstance(object_, h5g.GroupID):
                    waiting.append((below, object_))

    def name_of(self, address):
        return self.names.get(address, b"an object without links")

    @staticmethod
    def links_of(group, index):
        names = []
        group.links.iterate(names.append, idx_type=index, order=h5.ITER_INC)
        return names

    def close(self):
        self.objects = self.groups = self.values = None
        self.file.close()


class Difference(Exception):
    pass


def same(what, a, b):
    if a != b:
        raise Difference(f"{what}: {shorten(a)} became {shorten(b)}")


def shorten(value):
    text = repr(value)
    return text if len(text) < 300 else text[:300] + "..."


# ---- properties ----


def object_properties(list_):
    return {
        "attribute order": get("H5Pget_attr_creation_order", list_, UINT),
        "attribute phases": get("H5Pget_attr_phase_change", list_, UINT, UINT),
    }


def filters_of(list_):
    filters = []
    for i in range(call("H5Pget_nfilters", list_)):
        flags, config = UINT(), UINT()
        nwords = SIZE(64)
        words = (UINT * 64)()
        name = ctypes.create_string_buffer(64)
        id_ = call("H5Pget_filter2", list_, i, ctypes.byref(flags),
                   ctypes.byref(nwords), words, 64, name, ctypes.byref(config))
        filters.append((id_, flags.value, tuple(words[:nwords.value]),
                        name.value))
    return filters


def group_properties(group):
    list_ = opened("H5Gget_create_plist", group)
    return {
        **object_properties(list_),
        "link order": get("H5Pget_link_creation_order", list_, UINT),
        "link phases": get("H5Pget_link_phase_change", list_, UINT, UINT),
        "expected links": get("H5Pget_est_link_info", list_, UINT, UINT),
        "filters": filters_of(list_),
    }


def file_properties(file):
    list_ = opened("H5Fget_create_plist", file.id)
    nindexes, = get("H5Pget_shared_mesg_nindexes", list_, UINT)
    indexes = []
    for i in range(nindexes):
        types, nbytes = UINT(), UINT()
        call("H5Pget_shared_mesg_index", list_, i, ctypes.byref(types),
             ctypes.byref(nbytes))
        indexes.append((types.value, nbytes.value))
    return {
        "user block": get("H5Pget_userblock", list_, ctypes.c_uint64),
        "sizes": get("H5Pget_sizes", list_, SIZE, SIZE),
        "K of groups": get("H5Pget_sym_k", list_, UINT, UINT),
        "K of chunks": get("H5Pget_istore_k", list_, UINT),
        "shared messages": indexes,
        "phases of shared messages":
            get("H5Pget_shared_mesg_phase_change", list_, UINT, UINT),
        "file space": get("H5Pget_file_space_strategy", list_, ctypes.c_int,
                          ctypes.c_ubyte, ctypes.c_uint64),
        "pages": get("H5Pget_file_space_page_size", list_, ctypes.c_uint64),
    }


def dataset_list(dataset):
    return dataset.get_create_plist()


def external_of(list_):
    return [list_.get_external(i) for i in range(list_.get_external_count())]


def name_in(function, list_, i):
    length = call(function, list_, i, 0, 0, result=ctypes.c_int64)
    text = ctypes.create_string_buffer(length + 1)
    call(function, list_, i, text, length + 1, result=ctypes.c_int64)
    return text.value


def mappings_of(list_):
    mappings = []
    nmappings, = get("H5Pget_virtual_count", list_, SIZE)
    for i in range(nmappings):
        spaces = [h5s.SpaceID(call_id(name, list_, i)) for name in (
            "H5Pget_virtual_vspace", "H5Pget_virtual_srcspace")]
        mappings.append((
            name_in("H5Pget_virtual_filename", list_, i),
            name_in("H5Pget_virtual_dsetname", list_, i),
            *map(describe_selection, spaces)))
    return mappings


def storage_properties(list_):
    layout = list_.get_layout()
    properties = {"layout": layout, "filters": filters_of(list_),
                  "external files": external_of(list_),
                  "time of allocation":
                      get("H5Pget_alloc_time", list_, ctypes.c_int)}
    if layout == h5d.CHUNKED:
        properties["chunks"] = list_.get_chunk()
        properties["chunk options"] = get("H5Pget_chunk_opts", list_, UINT)
    if layout == h5d.VIRTUAL:
        properties["mappings"] = mappings_of(list_)
    return properties


def fill_properties(values, list_, type_):
    status, = get("H5Pfill_value_defined", list_, ctypes.c_int)
    return {
        "state of the fill value": status,
        "fill value": values.fill_of(list_, type_) if status == 2 else None,
        "fill time": get("H5Pget_fill_time", list_, ctypes.c_int),
    }


def extent_of(space):
    kind = space.get_simple_extent_type()
    if kind != h5s.SIMPLE:
        return kind
    return kind, space.get_simple_extent_dims(), space.get_simple_extent_dims(
        True)


def same_all(what, a, b):
    for key in a:
        same(f"{what}: {key}", a[key], b[key])


# ---- types ----


def same_type(what, a, b, files):
    """Whether both types are equal and, if committed, the same object."""
    if not a.equal(b):
        raise Difference(f"{what}: the types differ")
    same(f"{what}: type is committed", a.committed(), b.committed())
    if a.committed():
        names = [file.name_of(object_info(type_).addr)
                 for file, type_ in zip(files, (a, b))]
        same(f"{what}: committed type", *names)


# ---- values ----


def numbers_of(type_, bytes_):
    """An array whose last dimension holds the real parts; None for other
    types."""
    if type_.dtype is None:
        return None
    array = np.frombuffer(bytes_, type_.dtype)
    if type_.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    else:
        array = array[:, None]
    with np.errstate(invalid="ignore"):
        return array.astype("f8")


def specials_of(a, dataset, list_, type_, numbers):
    """The values that stay bit for bit, and do not count for the range."""
    special = ~np.isfinite(numbers)
    if numbers.shape[1] > 1 or type_.get_size() < 4:
        return special
    kept = []
    if get("H5Pfill_value_defined", list_, ctypes.c_int)[0] == 2:
        kept.append(np.frombuffer(a.values.fill_of(list_, type_),
                                  type_.dtype)[0])
    attributes = h5py.Dataset(dataset).attrs
    for name in "_FillValue", "missing_value":
        if name in attributes:
            kept.extend(np.ravel(attributes[name]))
    for value in kept:
        special |= numbers == float(value)
    return special


def same_numbers(what, a, mode, dataset, list_, type_, old, new):
    numbers = numbers_of(type_, old)
    if mode.kind == "lossless" or numbers is None:
        if old != new:
            raise Difference(f"{what}: values differ")
        return
    got = numbers_of(type_, new)
    special = specials_of(a, dataset, list_, type_, numbers)
    size = type_.get_size() // numbers.shape[1]
    bits = [np.frombuffer(b, f"V{size}").reshape(numbers.shape)
            for b in (old, new)]
    if np.any((bits[0] != bits[1]) & special):
        raise Difference(f"{what}: special values differ")
    valid = numbers[~special]
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(special, 0, abs(got - numbers))
        if mode.kind == "abs":
            bound = mode.number
        elif mode.kind == "rel":
            bound = mode.number * np.ptp(valid) if valid.size else 0
        else:
            bound = np.maximum(mode.number * abs(numbers), mode.floor)
            bound = np.where(special, 0, bound)
    if mode.keeps_signs and numbers.shape[1] == 1 and np.any(
            ~special & ((got < 0) & (numbers > 0) | (got > 0) & (numbers < 0))):
        raise Difference(f"{what}: a sign differs")
    if np.any(error > bound * ROUNDED):
        raise Difference(f"{what}: an error of {np.max(error)} exceeds the "
                         f"bound {np.min(bound)}")


def sampled(shape, step, type_, values):
    """Every step-th value of each dimension."""
    indexes = np.arange(math.prod(shape)).reshape(shape)
    indexes = indexes[(slice(None, None, step),) * len(shape)].ravel()
    if isinstance(values, tuple):
        return tuple(values[i] for i in indexes)
    nbytes = type_.get_size()
    return np.frombuffer(values, f"V{nbytes}")[indexes].tobytes()


def stored_chunk(dataset, first):
    """The filter mask and the bytes of a stored chunk, or None."""
    nbytes = ctypes.c_uint64()
    place = (ctypes.c_uint64 * len(first))(*first)
    try:
        call("H5Dget_chunk_storage_size", dataset, place, ctypes.byref(nbytes))
    except Failed:
        return None
    return dataset.read_direct_chunk(first) if nbytes.value > 0 else None


# ---- objects ----


def may_be_sampled(type_, space):
    def has_text(type_):
        kind = type_.get_class()
        if kind == h5t.COMPOUND:
            return any(has_text(type_.get_member_type(i))
                       for i in range(type_.get_nmembers()))
        if kind in (h5t.ARRAY, h5t.VLEN):
            return has_text(type_.get_super())
        return kind == h5t.STRING
    if space.get_simple_extent_ndims() == 0:
        return False
    if type_.get_class() == h5t.STRING:
        return True
    return not has_addresses(type_) and not has_text(type_)


class Comparison:
    def __init__(self, a, b, mode, changed_fills):
        self.files = a, b
        self.mode = mode
        self.changed_fills = changed_fills
        self.ncompressed = 0
        self.shapes = {}
        if mode.step > 1:
            a.values.change_region = self.thin_region

    def thin_region(self, name, selection):
        """The selection of a region after only every step-th value is left."""
        if name not in self.shapes:
            self.shapes[name] = [
                dict(file.objects)[name].shape for file in self.files]
        before, after = self.shapes[name]
        if before == after or isinstance(selection, int):
            return selection
        step = self.mode.step
        left = tuple(tuple(i // step for i in point) for point in selection[1]
                     if all(i % step == 0 for i in point))
        return (selection[0], left) if left else h5s.SEL_NONE

    def compare_links(self, name, a, b):
        same(f"{name}: links", *(
            file.links_of(group, h5.INDEX_NAME)
            for file, group in zip(self.files, (a, b))))
        order, = get("H5Pget_link_creation_order",
                     opened("H5Gget_create_plist", a), UINT)
        names = self.files[0].links_of(a, h5.INDEX_NAME)
        if order & 1:
            names = self.files[0].links_of(a, h5.INDEX_CRT_ORDER)
            same(f"{name}: order of links", names,
                 self.files[1].links_of(b, h5.INDEX_CRT_ORDER))
        for i, link in enumerate(names):
            self.compare_link(name + b"/" + link, link, a, b,
                              i if order & 1 else None)

    def compare_link(self, what, link, a, b, number):
        infos = [group.links.get_info(link) for group in (a, b)]
        same(f"{what}: kind", *(info.type for info in infos))
        same(f"{what}: characters", *(info.cset for info in infos))
        same(f"{what}: has a number", *(info.corder_valid for info in infos))
        if number is not None:
            same(f"{what}: number", number, infos[1].corder)
        if infos[0].type == h5l.TYPE_HARD:
            same(f"{what}: target", *(
                file.name_of(object_info(open_object(group, link)).addr)
                for file, group in zip(self.files, (a, b))))
            return
        values = []
        for group, info in zip((a, b), infos):
            buffer = ctypes.create_string_buffer(info.u + 1)
            call("H5Lget_val", group, link, buffer, info.u, 0)
            values.append(buffer.raw[:info.u])
        same(f"{what}: value", *values)

    def compare_group(self, name, a, b):
        same_all(name, group_properties(a), group_properties(b))
        self.compare_links(name, a, b)

    def compare_committed(self, name, a, b):
        if not a.equal(b):
            raise Difference(f"{name}: the types differ")
        lists = [opened("H5Tget_create_plist", type_)
                 for type_ in (a, b)]
        same_all(name, *map(object_properties, lists))

    def compare_dataset(self, name, a, b):
        types = type_of(a), type_of(b)
        same_type(name, *types, self.files)
        lists = dataset_list(a), dataset_list(b)
        same_all(name, *map(object_properties, lists))
        fills = [fill_properties(file.values, list_, type_)
                 for file, list_, type_ in zip(self.files, lists, types)]
        if self.changed_fills:
            fills[0]["fill value"] = fills[1]["fill value"]
        same_all(name, *fills)
        spaces = a.get_space(), b.get_space()
        storage = [storage_properties(list_) for list_ in lists]
        if self.mode.step > 0 and may_be_sampled(types[0], spaces[0]):
            self.compare_sample(name, a, b)
            return
        same(f"{name}: extent", *map(extent_of, spaces))
        ids = [[f[0] for f in s["filters"]] for s in storage]
        if ids[1] == [TERP] and self.mode.kind != "keep":
            self.compare_compressed(name, a, b, storage)
        elif (self.mode.deflates and ids[1] == [SHUFFLE, DEFLATE] and
              storage[0]["filters"] != storage[1]["filters"]):
            self.compare_values(name, a, b)
        else:
            same_all(name, *storage)
            is_elsewhere = (storage[0]["layout"] == h5d.VIRTUAL or
                            storage[0]["external files"])
            has_other_fill = (self.changed_fills and
                              fills[0]["state of the fill value"] == 2)
            if not is_elsewhere and not has_other_fill:
                self.compare_stored(name, a, b, storage[0])
                self.compare_values(name, a, b)

    def values_of(self, a, b):
        return [file.values.of_dataset(dataset)
                for file, dataset in zip(self.files, (a, b))]

    def compare_values(self, name, a, b):
        try:
            self.files[0].values.of_dataset(a)
        except Failed:
            return  # HDF5 cannot read what it has written
        same(f"{name}: values", *self.values_of(a, b))

    def compare_sample(self, name, a, b):
        step = self.mode.step
        shape = a.get_space().get_simple_extent_dims()
        most = a.get_space().get_simple_extent_dims(True)
        same(f"{name}: extent",
             (tuple(-(-n // step) for n in shape),
              tuple(n if n == h5s.UNLIMITED else -(-n // step)
                    for n in most)),
             (b.get_space().get_simple_extent_dims(),
              b.get_space().get_simple_extent_dims(True)))
        values = self.values_of(a, b)
        if math.prod(shape) > 0:
            values[0] = sampled(shape, step, type_of(a), values[0])
        same(f"{name}: values", *values)

    def compare_compressed(self, name, a, b, storage):
        self.ncompressed += 1
        same(f"{name}: layout", h5d.CHUNKED, storage[1]["layout"])
        type_ = type_of(a)
        old, new = self.values_of(a, b)
        same_numbers(name, self.files[0], self.mode, a, dataset_list(a), type_,
                     old, new)

    def compare_stored(self, name, a, b, storage):
        """Both files store the same bytes of chunks, unless they hold
        addresses."""
        if storage["layout"] != h5d.CHUNKED or has_addresses(type_of(a)):
            return
        same(f"{name}: stored bytes", a.get_storage_size(),
             b.get_storage_size())
        if not storage["filters"]:
            return  # values outside of the extent may differ
        chunk = storage["chunks"]
        for at in np.ndindex(*(-(-n // c) for n, c in zip(a.shape, chunk))):
            first = tuple(i * c for i, c in zip(at, chunk))
            same(f"{name}{list(first)}", *(
                stored_chunk(dataset, first) for dataset in (a, b)))

    def compare_attributes(self, name, a, b):
        order, = get("H5Pget_attr_creation_order", self.list_of(a), UINT)
        names = []
        for object_ in (a, b):
            found = []
            h5a.iterate(object_, lambda n, *_: found.append(n),
                        index_type=h5.INDEX_CRT_ORDER if order & 1
                        else h5.INDEX_NAME, order=h5.ITER_INC)
            names.append([n for n in found if not n.startswith(NOTES)])
        same(f"{name}: attributes", *names)
        for attribute in names[0]:
            self.compare_attribute(
                name + b"@" + attribute,
                *(h5a.open(object_, attribute) for object_ in (a, b)))

    def compare_attribute(self, what, a, b):
        same_type(what, type_of(a), type_of(b), self.files)
        same(f"{what}: extent", extent_of(a.get_space()),
             extent_of(b.get_space()))
        lists = [opened("H5Aget_create_plist", attribute)
                 for attribute in (a, b)]
        same(f"{what}: characters", *(
            get("H5Pget_char_encoding", list_, ctypes.c_int)
            for list_ in lists))
        same(f"{what}: values", *(file.values.of_attribute(attribute)
                                  for file, attribute in
                                  zip(self.files, (a, b))))

    @staticmethod
    def list_of(object_):
        kind = {h5g.GroupID: "G", h5d.DatasetID: "D"}
        letter = kind.get(type(object_), "T")
        return opened(f"H5{letter}get_create_plist", object_)

    def compare(self):
        a, b = self.files
        same_all("the file", file_properties(a.file), file_properties(b.file))
        objects = [{name: object_ for name, object_ in file.objects}
                   for file in self.files]
        same("objects", *(sorted(o) for o in objects))
        for name, one in a.objects:
            other = objects[1][name]
            same(f"{name}: kind", type(one).__name__, type(other).__name__)
            # Objects of a committed type count too. HDF5 also counts some
            # objects that it refused to make.
            if isinstance(one, (h5g.GroupID, h5d.DatasetID)):
                same(f"{name}: links to it", object_info(one).rc,
                     object_info(other).rc)
            same(f"{name}: has a time", object_info(one).ctime > 0,
                 object_info(other).ctime > 0)
            if isinstance(one, h5g.GroupID):
                self.compare_group(name, one, other)
            elif isinstance(one, h5d.DatasetID):
                self.compare_dataset(name, one, other)
            else:
                self.compare_committed(name, one, other)
            self.compare_attributes(name, one, other)


def compare(path_a, path_b, mode, changed_fills=False):
    """Returns how many datasets terp has compressed. Raises Difference. Fill
    values may differ if terp has said so."""
    a, b = File(path_a), File(path_b)
    comparison = Comparison(a, b, mode, changed_fills)
    try:
        comparison.compare()
        nbytes, = file_properties(a.file)["user block"]
    finally:
        a.close()
        b.close()
    with open(path_a, "rb") as one, open(path_b, "rb") as other:
        same("user block", one.read(nbytes), other.read(nbytes))
    return comparison.ncompressed
