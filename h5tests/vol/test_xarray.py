"""netCDF4, h5netcdf and xarray through the connector, whose rules compress
what they write."""
import os
import sys
import tempfile
import unittest

# The order decides which of the two HDF5 in the process is found first.
import netCDF4
import h5netcdf
import h5py
import numpy as np
import xarray

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                os.pardir, "hosts"))
from terp_files import FILTER, Stderr, check, smooth  # noqa: E402


class XarrayTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "file.nc")
        os.environ["TERP_RULES"] = "lat=lossless; t*=abs:1e-3"
        self.addCleanup(os.environ.pop, "TERP_RULES")
        self.field = smooth((80, 90, 100), "f8")

    def read(self, path="temperature"):
        """What each reader gets for a variable."""
        with h5py.File(self.path) as file:
            yield file[path][()]
        with netCDF4.Dataset(self.path) as file:
            yield file[path][...].filled()
        with h5netcdf.File(self.path) as file:
            yield file[path][...]
        for engine in "netcdf4", "h5netcdf":
            with xarray.open_dataset(self.path, engine=engine) as file:
                yield file[path].values

    def check(self):
        with h5py.File(self.path) as file:
            filters = file["temperature"]._filters
            stored = file["temperature"].id.get_storage_size()
        self.assertIn(str(FILTER), filters)
        self.assertLess(5 * stored, self.field.nbytes)
        for values in self.read():
            check(self, self.field, values, 1e-3)

    def test_netcdf4_writes_what_rules_say(self):
        with netCDF4.Dataset(self.path, "w") as file:
            for name, size in zip("zyx", self.field.shape):
                file.createDimension(name, size)
            variable = file.createVariable("temperature", "f8", tuple("zyx"))
            variable[...] = self.field
            variable.units = "K"
        self.check()

    def test_netcdf4_appends_to_an_unlimited_dimension(self):
        with netCDF4.Dataset(self.path, "w") as file:
            file.createDimension("z", None)
            for name, size in zip("yx", self.field.shape[1:]):
                file.createDimension(name, size)
            variable = file.createVariable("temperature", "f8", tuple("zyx"),
                                           chunksizes=(8, 45, 50))
            for at in range(0, len(self.field), 8):
                variable[at:at + 8] = self.field[at:at + 8]
        self.check()

    def test_records_of_netcdf4_are_coded_once(self):
        """netCDF-C's default chunk of an unlimited dimension is one record."""
        os.environ["TERP_RULES"] = "t*=abs:1e-3,chunk,replace-filters"
        os.environ["TERP_VERBOSE"] = "1"
        self.addCleanup(os.environ.pop, "TERP_VERBOSE", None)
        with Stderr() as said, netCDF4.Dataset(self.path, "w") as file:
            file.createDimension("z", None)
            for name, size in zip("yx", self.field.shape[1:]):
                file.createDimension(name, size)
            variable = file.createVariable("temperature", "f8", tuple("zyx"),
                                           zlib=True)
            for at, record in enumerate(self.field):
                variable[at] = record
        del os.environ["TERP_VERBOSE"]
        with h5py.File(self.path) as file:
            dataset = file["temperature"]
            self.assertEqual(list(dataset._filters), [str(FILTER)])
            self.assertGreater(dataset.chunks[0], 8)
            self.assertEqual(said.text.count("H5Z-TERP: write:"),
                             dataset.id.get_num_chunks())
        self.check()

    def test_xarray_writes_what_rules_say(self):
        for engine in "netcdf4", "h5netcdf":
            data = xarray.Dataset(
                {"temperature": (("z", "y", "x"), self.field)},
                coords={"y": np.arange(90.0)})
            data.to_netcdf(self.path, engine=engine)
            self.check()

    def test_both_libraries_go_in_batches(self):
        with h5netcdf.File(self.path, "w") as file:
            file.dimensions = dict(zip("zyx", self.field.shape))
            file.create_variable("temperature", ("z", "y", "x"), data=self.field)
        os.environ["TERP_VERBOSE"] = "1"
        self.addCleanup(os.environ.pop, "TERP_VERBOSE")
        with Stderr() as said:
            values = list(self.read())
        batches = [line for line in said.text.splitlines()
                   if "connector: read of" in line]
        self.assertEqual(len(batches), len(values), said.text)
        self.assertEqual(len({line.split()[-1] for line in batches}), 2)


if __name__ == "__main__":
    print("netCDF4", netCDF4.__version__, "HDF5", netCDF4.__hdf5libversion__,
          "h5py", h5py.version.version, "HDF5", h5py.version.hdf5_version,
          "xarray", xarray.__version__, "h5netcdf", h5netcdf.__version__)
    unittest.main()
