#!/usr/bin/env python3
"""Reads, without HDF5, an HDF5 file that terp compressed: kerchunk lists the
positions of the chunks, Zarr fetches the chunks, and h5z_terp decodes them.

    pip install h5z-terp kerchunk "zarr>=3"
    ./kerchunk_reference.py FILE REFERENCES.json
"""
import json
import sys

import zarr
from fsspec.implementations.reference import ReferenceFileSystem
from h5z_terp import FILTER_ID
from h5z_terp.numcodecs import TerpCodec
from kerchunk.hdf import SingleHdf5ToZarr


class Hdf5ToZarr(SingleHdf5ToZarr):
    """kerchunk's class, which has no registry of filters, with terp's."""

    def _decode_filters(self, h5obj):
        if str(FILTER_ID) not in h5obj._filters:
            return super()._decode_filters(h5obj)
        return [TerpCodec()]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    path, references = sys.argv[1:]
    with open(path, "rb") as file:
        found = Hdf5ToZarr(file, path, inline_threshold=0).translate()
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
