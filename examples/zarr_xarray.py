#!/usr/bin/env python3
"""Writes a Zarr store through xarray and dask, compressed by terp, and reads
it. Each chunk is encoded in the worker in which dask computes it.

    pip install h5z-terp xarray "dask[array]" "zarr>=3"
    ./zarr_xarray.py STORE
"""
import sys

import dask.array as da
import numpy as np
import xarray as xr
from h5z_terp.zarr import TerpCodec

BOUND = 1e-3


def plane(block_info=None):
    """Waves in one block of the array; dask passes the block's position."""
    boxes = block_info[None]["array-location"]
    x, y, z = np.meshgrid(*(np.arange(*box) for box in boxes), indexing="ij")
    return np.sin(x / 9 + np.cos(y / 7) + z / 11).astype("f4")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    store = sys.argv[1]
    values = da.map_blocks(plane, chunks=((32, 32), (32, 32), (32, 32)),
                           dtype="f4")
    written = xr.Dataset({"wave": (("x", "y", "z"), values)})
    written.to_zarr(store, mode="w", zarr_format=3, consolidated=False,
                    encoding={"wave": {"serializer": TerpCodec(abs=BOUND),
                                       "compressors": None}})
    read = xr.open_zarr(store, consolidated=False)
    error = float(abs(read["wave"] - written["wave"]).max())
    print(f"largest error {error:.6f}, bound {BOUND}")
    if error > BOUND:
        sys.exit(1)


if __name__ == "__main__":
    main()
