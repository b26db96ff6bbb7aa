"""VTK, yt, PyTables and xarray from PyPI read files that h5py has written. VTK
uses its own libhdf5, whose names have a prefix, as in ParaView; that libhdf5
also writes."""
import ctypes
import os
import tempfile
import unittest

import h5py
import numpy as np
import tables
import vtkmodules
import xarray
import yt
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkIOHDF import vtkHDFReader

from terp_files import ABSOLUTE, FILTER, check, smooth

FIELD = smooth((64, 64, 64), "f4")


class VtkHdf5:
    """VTK's libhdf5: functions by their usual names, and ids."""

    def __init__(self):
        self.library = ctypes.CDLL(os.path.join(
            os.path.dirname(vtkmodules.__file__), "libvtkhdf5.so"))

    def __getattr__(self, name):
        function = getattr(self.library, "vtkhdf5_" + name)
        function.restype = ctypes.c_int64

        def call(*arguments):
            result = function(*[ctypes.c_int64(x) if isinstance(x, int) else x
                                for x in arguments])
            if ctypes.c_int(result).value < 0:
                raise OSError(name)
            return result
        return call

    def id(self, name):
        return ctypes.c_int64.in_dll(self.library,
                                     "vtkhdf5_%s_g" % name).value

    def version(self):
        parts = [ctypes.c_uint() for _ in range(3)]
        self.H5get_libversion(*map(ctypes.byref, parts))
        return ".".join(str(part.value) for part in parts)

    def write(self, path, name, field, chunk):
        """The contents of a file with one compressed dataset."""
        dims = (ctypes.c_uint64 * field.ndim)
        words = (ctypes.c_uint * 3)(ABSOLUTE, 1, 3)
        self.H5open()
        f4 = self.id("H5T_IEEE_F32LE")
        dcpl = self.H5Pcreate(self.id("H5P_CLS_DATASET_CREATE_ID"))
        self.H5Pset_chunk(dcpl, field.ndim, dims(*chunk))
        self.H5Pset_filter(dcpl, FILTER, 0, 3, words)
        truncate = 2
        file = self.H5Fcreate(path.encode(), truncate, 0, 0)
        space = self.H5Screate_simple(field.ndim, dims(*field.shape), None)
        dataset = self.H5Dcreate2(file, name.encode(), f4, space, 0, dcpl, 0)
        self.H5Dwrite(dataset, f4, 0, 0, 0,
                      field.ctypes.data_as(ctypes.c_void_p))
        self.H5Dclose(dataset)
        self.H5Fclose(file)


class ReadersTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "field.vtkhdf")

    def write_field(self, name):
        with h5py.File(self.path, "w") as file:
            self.write(file, name)

    def write(self, file, name):
        dataset = file.create_dataset(
            name, data=FIELD, chunks=(32, 32, 32), compression=FILTER,
            compression_opts=(ABSOLUTE, 1, 3))
        self.assertLess(10 * dataset.id.get_storage_size(), FIELD.nbytes)

    def test_vtk_reads_through_its_own_hdf5(self):
        with h5py.File(self.path, "w") as file:
            image = file.create_group("VTKHDF")
            image.attrs["Version"] = 2, 0
            image.attrs["Type"] = np.bytes_("ImageData")
            image.attrs["WholeExtent"] = 0, 63, 0, 63, 0, 63
            image.attrs["Origin"] = 0.0, 0.0, 0.0
            image.attrs["Spacing"] = 1.0, 1.0, 1.0
            image.attrs["Direction"] = np.eye(3).ravel()
            self.write(image, "PointData/field")
        reader = vtkHDFReader()
        reader.SetFileName(self.path)
        reader.Update()
        values = reader.GetOutput().GetPointData().GetArray("field")
        check(self, FIELD, vtk_to_numpy(values).reshape(FIELD.shape), 1e-3)

    def test_vtks_hdf5_writes(self):
        VtkHdf5().write(self.path, "field", FIELD, (32, 32, 32))
        with h5py.File(self.path, "r") as file:
            check(self, FIELD, file["field"][()], 1e-3)
            self.assertIn(str(FILTER), file["field"]._filters)
            self.assertLess(10 * file["field"].id.get_storage_size(),
                            FIELD.nbytes)

    def test_yt_reads_through_h5py(self):
        self.write_field("density")
        dataset = yt.load_hdf5_file(self.path, nchunks=8)
        grid = dataset.covering_grid(0, dataset.domain_left_edge,
                                     dataset.domain_dimensions)
        values = np.asarray(grid["stream", "density"])
        check(self, FIELD.astype("f8"), values.astype("f8"), 1e-3)

    def test_pytables_reads_through_its_own_hdf5(self):
        self.write_field("field")
        with tables.open_file(self.path) as file:
            check(self, FIELD, file.root.field[...], 1e-3)

    def test_xarray_reads_through_both_netcdf_engines(self):
        self.write_field("field")
        for engine, options in [("netcdf4", {}),
                                ("h5netcdf", {"phony_dims": "sort"})]:
            with xarray.open_dataset(self.path, engine=engine,
                                     **options) as dataset:
                check(self, FIELD, dataset["field"].values, 1e-3)


if __name__ == "__main__":
    yt.set_log_level("error")
    print("h5py", h5py.version.version, "HDF5", h5py.version.hdf5_version,
          "vtk", vtkmodules.__version__, "HDF5", VtkHdf5().version(),
          "yt", yt.__version__, "tables", tables.__version__, "HDF5",
          tables.hdf5_version, "xarray", xarray.__version__)
    unittest.main()
