"""exchange_one.py write|read FILE: one side of test_exchange.py."""
import sys
import unittest

import h5py
import numpy as np

from terp_files import (ABSOLUTE, FILTER, check, smooth, with_specials)

TYPES = "<f4", ">f4", "<f8", ">f8"
BOUND = 1e-3


def fields():
    for phase, dtype in enumerate(TYPES):
        yield dtype, with_specials(smooth((30, 31, 32), dtype, phase))
    yield "integer", np.arange(5000).reshape(50, 100)


def write(path):
    with h5py.File(path, "w") as file:
        for name, field in fields():
            chunks = tuple((size + 1) // 2 for size in field.shape)
            file.create_dataset(name, data=field, chunks=chunks,
                                compression=FILTER,
                                compression_opts=(ABSOLUTE, 1, 3))


def read(path):
    test = unittest.TestCase()
    with h5py.File(path, "r") as file:
        for name, field in fields():
            if name == "integer":
                np.testing.assert_array_equal(file[name][()], field)
                continue
            native = field.dtype.newbyteorder("=")
            check(test, field.astype(native), file[name][()].astype(native),
                  BOUND)


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](sys.argv[2])
    print(h5py.version.hdf5_version)
