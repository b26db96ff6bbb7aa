#!/usr/bin/env python3
"""Reads, without HDF5, an HDF5 file that terp compressed: kerchunk lists the
positions of the chunks, Zarr fetches the chunks, and h5z_terp decodes them.

    pip install h5z-terp kerchunk "zarr>=3"
    ./kerchunk_reference.py FILE REFERENCES.json
"""
import json
import sys

import h5z_terp  # noqa: F401, tells kerchunk of terp's filter
import zarr
from fsspec.implementations.reference import ReferenceFileSystem
from kerchunk.hdf import SingleHdf5ToZarr


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    path, references = sys.argv[1:]
    with open(path, "rb") as file:
        found = SingleHdf5ToZarr(file, path, inline_threshold=0).translate()
    with open(references, "w") as file:
        json.dump(found, file)

    files = ReferenceFileSystem(references, asynchronous=True)
    store = zarr.storage.FsspecStore(files, read_only=True)
    group = zarr.open_group(store, mode="r", zarr_format=2)
    for name, array in group.arrays():
        values = array[...]
        print(f"{name}: {'x'.join(map(str, array.shape))} {array.dtype}, "
              f"mean {values.mean():.6g}")


if __name__ == "__main__":
    main()
