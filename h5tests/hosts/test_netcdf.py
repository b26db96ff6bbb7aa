"""h5py and netCDF4 from PyPI: two libhdf5 in one process with one plugin.
TEST_IMPORTS names the modules to import first, with commas."""
import ctypes
import importlib
import os
import re
import tempfile
import unittest

for first in os.environ["TEST_IMPORTS"].split(","):
    importlib.import_module(first)

import h5py
import netCDF4
import numpy as np

from terp_files import ABSOLUTE, FILTER, Stderr, check, damage, smooth

FILL = np.float32(9.96921e36)


def libraries():
    """The libhdf5 of this process."""
    with open("/proc/self/maps") as maps:
        return set(re.findall(r"/\S*/libhdf5-\S+", maps.read()))


class NetcdfTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "two.nc")
        self.field = smooth((40, 50), "f4")
        self.field[::5] = FILL
        # netCDF writes only to groups that track the creation order.
        with h5py.File(self.path, "w", track_order=True) as file:
            dataset = file.create_dataset(
                "x", data=self.field, chunks=(16, 50), fillvalue=FILL,
                maxshape=(None, 50), compression=FILTER,
                compression_opts=(ABSOLUTE, 1, 3))
            for name, size in ("t", 40), ("y", 50):
                scale = file.create_dataset(
                    name, data=np.arange(size),
                    maxshape=(None if name == "t" else size,), chunks=(size,))
                scale.make_scale(name)
                dataset.dims["ty".index(name)].attach_scale(scale)

    def test_process_holds_two_libraries(self):
        self.assertEqual(len(libraries()), 2)

    def test_filters_that_netcdf_puts_before_terp(self):
        """The plugin moves a checksum behind terp; deflate stays, with a
        warning."""
        field = smooth((40, 50), "f4")
        define = ctypes.CDLL(netCDF4._netCDF4.__file__).nc_def_var_filter
        words = (ctypes.c_uint * 3)(ABSOLUTE, 1, 2)
        for more, filters in (({}, [str(FILTER)]),
                              ({"fletcher32": True},
                               [str(FILTER), "fletcher32"]),
                              ({"zlib": True},
                               ["shuffle", "gzip", str(FILTER)])):
            with Stderr() as said, netCDF4.Dataset(self.path, "w") as file:
                file.createDimension("y", 40)
                file.createDimension("x", 50)
                variable = file.createVariable("v", "f4", ("y", "x"), **more)
                self.assertEqual(define(file._grpid, variable._varid, FILTER,
                                        3, words), 0)
                variable[...] = field
            self.assertEqual("deflate comes before it" in said.text,
                             "zlib" in more, said.text)
            with h5py.File(self.path) as file:
                self.assertEqual(list(file["v"]._filters), filters)
                check(self, field, file["v"][()], 1e-2)
            with netCDF4.Dataset(self.path) as file:
                check(self, field, file["v"][:].filled(), 1e-2)

    def test_netcdf_reads_and_appends(self):
        with netCDF4.Dataset(self.path, "a") as file:
            variable = file["x"]
            variable.set_auto_mask(False)
            check(self, self.field, variable[:], 1e-3, FILL)
            variable[40:56] = self.field[:16]
        with h5py.File(self.path, "r") as file:
            check(self, self.field[:32], file["x"][:32], 1e-3, FILL)
            check(self, self.field[8:16], file["x"][48:56], 1e-3, FILL)
            self.assertLess(file["x"].id.get_storage_size(), 56 * 50 * 4 / 2)

    def read_damaged(self):
        """What stderr gets when netCDF reads damaged chunks."""
        with h5py.File(self.path, "a") as file:
            damage(file["x"])
        with netCDF4.Dataset(self.path) as file:
            for row in 0, 20:
                with Stderr() as stderr:
                    with self.assertRaisesRegex(RuntimeError, "HDF error"):
                        file["x"][row]
                yield stderr.text

    # netCDF does not show the error stack, and stops HDF5 from printing it.
    def test_reason_is_said_once(self):
        first, second = self.read_damaged()
        self.assertRegex(first, "^H5Z-TERP: .*checksum.*\n$")
        self.assertEqual(second, "")

    def test_reason_is_on_the_error_stack(self):
        (path,) = [path for path in libraries() if "netcdf4.libs" in path]
        hdf5 = ctypes.CDLL(path)
        default = ctypes.c_int64(0)
        self.addCleanup(hdf5.H5Eset_auto2, default, None, None)
        hdf5.H5Eset_auto2(default, hdf5.H5Eprint2, None)
        for text in self.read_damaged():
            self.assertRegex(text, "HDF5-DIAG")
            self.assertRegex(text, "H5Z-TERP: .*checksum")
            self.assertNotIn("printed once", text)


if __name__ == "__main__":
    print("h5py", h5py.version.version, "HDF5", h5py.version.hdf5_version,
          "netCDF4", netCDF4.__version__, "HDF5", netCDF4.__hdf5libversion__)
    unittest.main()
