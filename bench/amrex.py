#!/usr/bin/env python3
"""Ratios of `terp repack --rel 1e-3` for levels of AMReX plotfiles:

    HDF5_PLUGIN_PATH=DIRECTORY_OF_THE_PLUGIN bench/amrex.py TERP

For boxes of several kinds and both of AMReX's layouts: the ratio of the files
with the default, and with --format=1, where each chunk is one stream.
"""
import os
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                os.pardir, "examples"))
import amrex_plotfile as amrex

DOMAIN = 128
# The sides of boxes, and the number of boxes of one cell in the middle.
KINDS = (((8, 16, 32), 0), ((16, 32, 64), 0), ((32, 64), 0), ((12, 20, 44), 0),
         ((8,), 0), ((16,), 0), ((32,), 0), ((32,), 1), ((16, 32, 64), 1))


def write(path, sizes, ncells, multi):
    random = np.random.default_rng(3)
    boxes = amrex.cut(0, DOMAIN, sizes, random)
    boxes[len(boxes) // 2:len(boxes) // 2] = [((0, 0, 0), (1, 1, 1))] * ncells
    level = amrex.make_level(DOMAIN, boxes)
    level.values = [box.astype("f8") for box in level.values]
    amrex.write_plotfile(path, [level])
    if not multi:
        return
    with h5py.File(path, "r+") as file:
        group = file["level_0"]
        del group["data:datatype=0"]
        group["data:offsets=0"][...] //= len(amrex.COMPONENTS)
        for i in range(len(amrex.COMPONENTS)):
            group[f"data:datatype={i}"] = np.concatenate(
                [box[i].reshape(-1) for box in level.values])


def read(path):
    """Reads all values; returns their bytes."""
    with h5py.File(path, "r") as file:
        group = file["level_0"]
        return sum(group[name][()].nbytes for name in group
                   if name.startswith("data:datatype="))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print("sides, layout: ratio and seconds to read, --format=1; default")
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "plain.h5")
        for sizes, ncells in KINDS:
            for multi in False, True:
                write(plain, sizes, ncells, multi)
                results = []
                for options in ["--format=1"], []:
                    small = os.path.join(folder, "small.h5")
                    subprocess.run([sys.argv[1], "repack", "--rel=1e-3", plain,
                                    small, *options], check=True,
                                   stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
                    begin = time.perf_counter()
                    nbytes = read(small)
                    seconds = time.perf_counter() - begin
                    results.append(f"{nbytes / os.path.getsize(small):6.1f} "
                                   f"{seconds:5.2f}")
                    os.unlink(small)
                cells = f" and {ncells} of 1" if ncells else ""
                print(f"{str(sizes) + cells:>22} "
                      f"{'multi' if multi else 'single'}: "
                      f"{'; '.join(results)}", flush=True)
                os.unlink(plain)


if __name__ == "__main__":
    main()
