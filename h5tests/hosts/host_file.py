"""h5tests/hosts/host_file.py write|read FILE...: h5py as a host of the plugin.
The files are those of h5tests/filter/host_file.c: each field is uncompressed
in the group "plain" and compressed in "terp", so that any host can check the
file of any other."""
import sys
import unittest

import h5py
import numpy as np

from terp_files import ABSOLUTE, FILTER, check, smooth, with_specials

BOUND = 1e-3
SHAPE = 30, 31, 32


def fields():
    for phase, dtype in enumerate(("<f4", ">f4", "<f8", ">f8")):
        yield dtype, with_specials(smooth(SHAPE, dtype, phase))
    yield "integer", np.arange(np.prod(SHAPE)).reshape(SHAPE)


def write(path):
    with h5py.File(path, "w") as file:
        for name, field in fields():
            file["plain/" + name] = field
            file.create_dataset("terp/" + name, data=field, chunks=(15, 16, 16),
                                compression=FILTER,
                                compression_opts=(ABSOLUTE, 1, 3))


def read(path):
    test = unittest.TestCase()
    with h5py.File(path, "r") as file:
        for name, _ in fields():
            plain, dataset = file["plain/" + name], file["terp/" + name]
            want, got = plain[()], dataset[()]
            if name == "integer":
                np.testing.assert_array_equal(got, want)
                continue
            native = want.dtype.newbyteorder("=")
            check(test, want.astype(native), got.astype(native), BOUND)
            test.assertIn(str(FILTER), dataset._filters)
            test.assertLess(2 * dataset.id.get_storage_size(), want.nbytes)


if __name__ == "__main__":
    for path in sys.argv[2:]:
        {"write": write, "read": read}[sys.argv[1]](path)
    print("h5py %s, HDF5 %s" % (h5py.version.version,
                                h5py.version.hdf5_version))
