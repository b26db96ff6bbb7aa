"""The plugin beside hdf5plugin, which has filters of its own and sets a path
to them. TEST_IMPORTS names the modules to import first, with commas; the test
writes and reads a file after each."""
import importlib
import os
import tempfile
import unittest

from terp_files import ABSOLUTE, FILTER, check, smooth

FIELD = smooth((32, 32, 32), "f4")


def write(path, **others):
    """A file with a terp dataset and one of each other filter."""
    import h5py

    filters = {"terp": {"compression": FILTER,
                        "compression_opts": (ABSOLUTE, 1, 3)}, **others}
    with h5py.File(path, "w") as file:
        for name, options in filters.items():
            file.create_dataset(name, data=FIELD, chunks=(16, 32, 32),
                                **options)


def read(test, path):
    import h5py

    with h5py.File(path, "r") as file:
        for dataset in file.values():
            check(test, FIELD, dataset[()], 1e-3)
            test.assertLess(dataset.id.get_storage_size(), FIELD.nbytes)
        test.assertIn(str(FILTER), file["terp"]._filters)
        test.assertLess(10 * file["terp"].id.get_storage_size(), FIELD.nbytes)


class BesideTest(unittest.TestCase):
    def test_both_write_and_read_in_any_order(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        paths = []
        for name in os.environ["TEST_IMPORTS"].split(","):
            importlib.import_module(name)
            paths.append(os.path.join(directory.name, name + ".h5"))
            write(paths[-1])
            for path in paths:
                read(self, path)
        import hdf5plugin
        both = os.path.join(directory.name, "both.h5")
        write(both, zfp=hdf5plugin.Zfp(accuracy=1e-3), zstd=hdf5plugin.Zstd(),
              sz3=hdf5plugin.SZ3(absolute=1e-3), blosc=hdf5plugin.Blosc())
        read(self, both)
        print("hdf5plugin", hdf5plugin.version)


if __name__ == "__main__":
    unittest.main()
