#!/usr/bin/env python3
"""Writes an AMReX plotfile in HDF5, with and without the shape of its boxes.

AMReX, and so Nyx, keeps a level in one dataset of one dimension: box after box,
in a box component after component, in a component x fastest. A filter sees a
line of numbers. With logical dims (doc/cd_values.md), terp gets the shape of
the boxes and compresses 3-D bricks.

    HDF5_PLUGIN_PATH=DIRECTORY_OF_THE_PLUGIN ./amrex_plotfile.py DIRECTORY

writes the same two levels to plain.h5, lines.h5 and bricks.h5, prints the size
of each file's data, and reads a component as yt would. Layout and names are
the same as from AMReX's WriteMultiLevelPlotfileHDF5SingleDset.
"""
import os
import sys

import h5py
import numpy as np

TERP = 46117
BOUND = (2, 1, 3)  # relative, 1e-3 of the range of a chunk
DOMAIN = 128  # cells along each side of the domain, on level 0
BOX = 32
REFINEMENT = 2
COMPONENTS = ("density", "Temp", "xmom")


class Level:
    """Boxes, as inclusive corners in x, y, z, and the values of their cells.
    values[box] has the shape (component, z, y, x)."""

    def __init__(self, domain, low, high, values):
        self.domain = domain
        self.low = np.asarray(low)
        self.high = np.asarray(high)
        self.values = values

    def offsets(self):
        sizes = [box.size for box in self.values]
        return np.concatenate(([0], np.cumsum(sizes))).astype("i8")


def fields(position):
    """Smooth components in a unit cube, of very different ranges."""
    x, y, z = (2 * np.pi * p for p in position)
    wave = (np.sin(2 * x + 1) * np.cos(y) + np.sin(3 * y + z) * np.cos(2 * z) +
            0.5 * np.sin(4 * z + x) * np.cos(3 * y + 2 * x))
    density = np.exp(wave)
    return np.stack((density, 1e4 * density**0.6 * (2 + np.cos(x - z)),
                     1e7 * density * np.sin(y + z))).astype("f4")


def make_level(domain, boxes):
    """A level of `domain` cells along each side; a box is (low, shape)."""
    low = np.array([box[0] for box in boxes])
    high = low + np.array([box[1] for box in boxes]) - 1
    values = []
    for first, last in zip(low, high):
        z, y, x = np.meshgrid(*((np.arange(a, b + 1) + 0.5) / domain
                                for a, b in zip(first[::-1], last[::-1])),
                              indexing="ij")
        values.append(fields((x, y, z)))
    return Level(domain, low, high, values)


def tiled(first, last, size):
    """Cubic boxes that tile the cube of cells [first, last)."""
    corners = range(first, last, size)
    return [((x, y, z), (size, size, size))
            for z in corners for y in corners for x in corners]


def cut(first, last, sizes, random):
    """Boxes that tile the cube of cells [first, last), with sides that are
    drawn from `sizes`, as AMReX's clustering makes them."""
    def lengths():
        at = first
        while at < last:
            length = min(last - at, int(random.choice(sizes)))
            yield at, length
            at += length
    return [((x, y, z), (nx, ny, nz)) for z, nz in lengths()
            for y, ny in lengths() for x, nx in lengths()]


def example_levels(domain=DOMAIN, box=BOX):
    """Level 0 covers the domain; level 1 is its middle, twice as fine."""
    fine = domain * REFINEMENT
    return [make_level(domain, tiled(0, domain, box)),
            make_level(fine, tiled(fine // 4, fine * 3 // 4, box))]


def corner_type(names):
    return np.dtype([(name, "i4") for name in names])


BOX_TYPE = corner_type(("lo_i", "lo_j", "lo_k", "hi_i", "hi_j", "hi_k"))
CENTER_TYPE = corner_type("ijk")


def write_level(file, number, level, finest, options):
    group = file.create_group(f"level_{number}")
    size = 1.0 / level.domain
    group.attrs["ref_ratio"] = np.array([1 if finest else REFINEMENT], "i4")
    group.attrs["Vec_dx"] = np.full(3, size)
    group.attrs["dx"] = np.array([size])
    group.attrs["prob_lo"], group.attrs["prob_hi"] = np.zeros(3), np.ones(3)
    last = level.domain - 1
    group.attrs["prob_domain"] = np.array((0, 0, 0, last, last, last), BOX_TYPE)
    group.attrs["domain_type"] = np.zeros(3, "i4")
    for name, value in (("steps", 0), ("ngrid", len(level.low)), ("ngrow", 0)):
        group.attrs[name] = np.array([value], "i4")
    group.attrs["time"] = np.array([0.0])

    corners = np.concatenate((level.low, level.high), axis=1).astype("i4")
    group["boxes"] = np.ascontiguousarray(corners).view(BOX_TYPE).reshape(-1)
    group["data:offsets=0"] = level.offsets()
    group["boxcenter"] = np.zeros(len(level.low), CENTER_TYPE)
    # The values of a box are (component, z, y, x) in C order already.
    data = np.concatenate([box.reshape(-1) for box in level.values])
    group.create_dataset("data:datatype=0", data=data, **options)


def write_plotfile(path, levels, names=COMPONENTS, **options):
    """`options` go to h5py's create_dataset, for the data."""
    with h5py.File(path, "w") as file:
        file.attrs["version_name"] = np.bytes_("HyperCLaw-V1.1")
        file.attrs["plotfile_type"] = np.bytes_("VanillaHDF5")
        for i, name in enumerate(names):
            file.attrs[f"component_{i}"] = np.bytes_(name)
        for name, value in (("num_components", len(names)), ("dim", 3),
                            ("finest_level", len(levels) - 1),
                            ("coordinate_system", 0),
                            ("num_levels", len(levels))):
            file.attrs[name] = np.array([value], "i4")
        file.attrs["time"] = np.array([0.0])
        group = file.create_group("Chombo_global")
        group.attrs["SpaceDim"] = np.array([3], "i4")
        for number, level in enumerate(levels):
            write_level(file, number, level, number == len(levels) - 1, options)


def read_boxes(path, number, name):
    """Yields, for each box of a level, the low corner (x, y, z) and the values
    of component `name` as (z, y, x)."""
    with h5py.File(path, "r") as file:
        index = next(i for i in range(int(file.attrs["num_components"][0]))
                     if file.attrs[f"component_{i}"].decode() == name)
        group = file[f"level_{number}"]
        data = group["data:datatype=0"]
        for box, offset in zip(group["boxes"][()], group["data:offsets=0"][()]):
            low, high = np.array(box.tolist()).reshape(2, 3)
            shape = (high - low + 1)[::-1]
            begin = offset + index * shape.prod()
            yield low, data[begin:begin + shape.prod()].reshape(shape)


def stored(path):
    """The bytes of all values, uncompressed and in the file."""
    with h5py.File(path, "r") as file:
        data = [file[name]["data:datatype=0"] for name in file
                if name.startswith("level_")]
        return (sum(d.nbytes for d in data),
                sum(d.id.get_storage_size() for d in data))


def largest_errors(path, level, number, name):
    """The largest error of each box, relative to the box's range."""
    index = COMPONENTS.index(name)
    for want, (_, got) in zip(level.values, read_boxes(path, number, name)):
        want = want[index].astype("f8")
        yield np.abs(want - got).max() / np.ptp(want)


def brick_options(box, boxes_per_chunk=1):
    """Options of h5py: a chunk is a stack of bricks, one for each component."""
    return {"chunks": (boxes_per_chunk * box**3,), "compression": TERP,
            "compression_opts": (*BOUND, 3, box, box, box)}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    levels = example_levels()
    # A chunk is one component of a box, as with AMReX's HDF5_CHUNK_SIZE=32768.
    bricks = brick_options(BOX)
    for name, options in (("plain", {}),
                          ("lines", dict(bricks, compression_opts=BOUND)),
                          ("bricks", bricks)):
        path = os.path.join(sys.argv[1], name + ".h5")
        write_plotfile(path, levels, **options)
        nbytes, stored_nbytes = stored(path)
        error = max(max(largest_errors(path, level, number, "Temp"))
                    for number, level in enumerate(levels))
        print(f"{name}.h5: {nbytes} bytes in {stored_nbytes}, ratio "
              f"{nbytes / stored_nbytes:.1f}, largest error of Temp "
              f"{error:.3g} of a box's range")
        if error > 1e-3:
            sys.exit("the bound does not hold")


if __name__ == "__main__":
    main()
