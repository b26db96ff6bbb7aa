#!/usr/bin/env python3
"""Reads an HDF5 file that terp compressed, and prints a summary of it.

The program has no line about terp: HDF5 finds the filter through
HDF5_PLUGIN_PATH.

    HDF5_PLUGIN_PATH=DIRECTORY_OF_THE_PLUGIN ./read_h5.py FILE
"""
import sys

import h5py
import numpy as np


def show(name, item):
    if not isinstance(item, h5py.Dataset) or item.dtype.kind != "f":
        return
    values = item[...]
    stored_nbytes = item.id.get_storage_size()
    valid = values[np.isfinite(values)].astype("f8")
    if valid.size == 0 or stored_nbytes == 0:
        print(f"{name}: no values")
        return
    print(
        f"{name}: {'x'.join(map(str, item.shape))} {item.dtype}, "
        f"min {valid.min():.6g}, max {valid.max():.6g}, "
        f"mean {valid.mean():.6g}, "
        f"ratio {values.nbytes / stored_nbytes:.1f}"
    )


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with h5py.File(sys.argv[1], "r") as file:
        for name, value in file.attrs.items():
            print(f"{name} = {value}")
        file.visititems(show)


if __name__ == "__main__":
    main()
