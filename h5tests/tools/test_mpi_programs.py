"""Programs of several processes, which know nothing of the connector: h5py for
MPI, netCDF (TEST_MPI_NETCDF), and AMReX (TEST_PLOTFILE, examples/amrex). Tests
skip where a program is absent."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

from test_mpi import ALLOWED, FILTER, mpiexec

H5PY = """
import sys
import h5py
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
if not h5py.get_config().mpi:
    sys.exit("h5py is without MPI")
shape = 150, 70, 90
first, end = (shape[0] * (comm.rank + i) // comm.size // 16 * 16 for i in (0, 1))
if comm.rank == comm.size - 1:
    end = shape[0]
z, y, x = np.meshgrid(np.arange(first, end), *map(np.arange, shape[1:]),
                      indexing="ij")
values = (np.sin(z / 9) * np.cos(y / 13) + x / 50).astype("f4")
how = dict(chunks=(16, 32, 32), compression=46117, compression_opts=(1, 1, 3))
with h5py.File(sys.argv[1], "w", driver="mpio", comm=comm) as file:
    data = file.create_dataset("field", shape, "f4",
                               **how if len(sys.argv) > 2 else {})
    with data.collective:
        data[first:end] = values
    with data.collective:
        got = data[first:end]
assert abs(got.astype("f8") - values).max() <= 1e-3
"""
OPENPMD = """
import sys
try:
    import openpmd_api as io
except ImportError:
    sys.exit("no openPMD-api for MPI")
import numpy as np
from mpi4py import MPI

if not io.variants.get("mpi", False):
    sys.exit("no openPMD-api for MPI")
comm = MPI.COMM_WORLD
first, end = (128 * (comm.rank + i) // comm.size for i in (0, 1))
z, y, x = np.meshgrid(np.arange(first, end), np.arange(64), np.arange(96),
                      indexing="ij")
values = (np.sin(z / 9) * np.cos(y / 13) + x / 50).astype("f4")
series = io.Series(sys.argv[1], io.Access.create, comm)
step = series.iterations[1]
step.open()
rho = step.meshes["field"]
rho.reset_dataset(io.Dataset(values.dtype, [128, 64, 96]))
rho.store_chunk(values, [first, 0, 0], values.shape)
series.flush()
step.close()
series.close()
series = io.Series(sys.argv[1], io.Access.read_only, comm)
step = series.iterations[1]
step.open()
got = step.meshes["field"].load_chunk([first, 0, 0], values.shape)
series.flush()
assert abs(got.astype("f8") - values).max() <= 1e-3
series.close()
"""
RULES = {"HDF5_VOL_CONNECTOR": "terp", "TERP_VERBOSE": "1",
         "TERP_RULES": "field=abs:1e-3", "TERP_RULES_MPI": "collective"}
ABSENT = re.compile("h5py is without MPI|No module named 'mpi4py'|"
                    "no openPMD-api for MPI")
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        os.pardir, os.pardir, "examples")


class ProgramsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def path(self, name):
        return os.path.join(self.directory, name)

    def run_program(self, nranks, program, *arguments, **environment):
        result = mpiexec(nranks, program, *arguments, **environment)
        absent = ABSENT.search(result.stdout)
        if absent:
            self.skipTest(absent[0])
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()

    # Without a connector, before HDF5 1.14, only the first part applies.
    def check(self, program, *arguments):
        want = None
        for nranks in 1, 2, 4:
            path = self.path("filter.h5")
            for connector in {}, {"HDF5_VOL_CONNECTOR": "terp",
                                  "TERP_VERBOSE": "1"}:
                said = self.run_program(nranks, program, *arguments, path,
                                        "filter", **connector)
                want = want or self.read(path)
                self.assertEqual(self.read(path), want)
            if "connector: " not in said:
                self.skipTest("the HDF5 for MPI has no connectors: it is older "
                              "than 1.14")
            self.assertTrue("were encoded ahead" in said, said[-1000:])
            path = self.path("rules.h5")
            self.run_program(nranks, program, *arguments, path, **RULES)
            with h5py.File(path) as file:
                self.assertEqual(list(file["field"]._filters), [str(FILTER)])

    def script(self, text):
        """The arguments of run_program for a script of Python."""
        path = self.path("write.py")
        with open(path, "w") as file:
            file.write(text)
        os.environ["TEST_PYTHON"] = sys.executable
        return "TEST_PYTHON", path

    def test_h5py_writes_and_reads_through_the_connector(self):
        self.check(*self.script(H5PY))

    def test_rules_compress_meshes_of_openpmd(self):
        program = self.script(OPENPMD)
        for nranks in 1, 2, 4:
            path = self.path("openpmd.h5")
            said = self.run_program(nranks, *program, path, **RULES,
                                    OPENPMD_HDF5_INDEPENDENT="OFF")
            if "connector: " not in said:
                self.skipTest("the HDF5 of openPMD-api has no connectors")
            with h5py.File(path) as file:
                field = file["data/1/meshes/field"]
                self.assertEqual(list(field._filters), [str(FILTER)])

    def test_netcdf_writes_and_reads_through_the_connector(self):
        if "TEST_MPI_NETCDF" not in os.environ:
            self.skipTest("no netCDF for MPI")
        self.check("TEST_MPI_NETCDF")

    # ---- AMReX ----

    def plotfile(self, nranks, layout, **environment):
        if not os.environ.get("TEST_PLOTFILE"):
            self.skipTest("no AMReX: TERP_AMREX_PLOTFILE is not set")
        name = self.path(f"{layout}_{len(environment)}")
        said = self.run_program(
            nranks, "TEST_PLOTFILE", f"name={name}", f"layout={layout}",
            "boxes=mixed", "ncells=64", "particles=5000", **environment)
        self.assertNotIn("failed", said)
        return name + ".h5", said

    def check_plotfile(self, layout, rules, *options):
        """Returns the ratio of the plotfile."""
        plain, _ = self.plotfile(1, layout)
        for nranks in 1, 2, 3:
            path, said = self.plotfile(
                nranks, layout, HDF5_VOL_CONNECTOR="terp", TERP_RULES=rules,
                TERP_RULES_MPI="collective", TERP_VERBOSE="1")
            if "rules: " not in said:
                self.skipTest("the HDF5 of AMReX has no connectors")
            checked = subprocess.run(
                [sys.executable, os.path.join(EXAMPLES, "amrex", "check.py"),
                 *options, plain, path, "1e-3"], stdout=subprocess.PIPE,
                text=True, env={**os.environ, **ALLOWED})
            self.assertEqual(checked.returncode, 0, checked.stdout)
        self.assertTrue(glob.glob(os.path.splitext(path)[0] + "_particles*"))
        return float(re.search("ratio (.*)", checked.stdout)[1]), said

    def test_rules_compress_datasets_of_a_component(self):
        ratio, _ = self.check_plotfile(
            "multi", "level_*/data*=rel:1e-3,components;*=none")
        self.assertGreater(ratio, 20)

    def test_rules_compress_lines_of_components_pointwise(self):
        ratio, _ = self.check_plotfile("single", "*=pwr:1e-3", "--pwr")
        self.assertGreater(ratio, 8)

    def test_rules_leave_lines_of_components_under_one_range(self):
        ratio, said = self.check_plotfile("single", "*=rel:1e-3")
        self.assertEqual(ratio, 1)
        self.assertIn("it may hold several components", said)


if __name__ == "__main__":
    unittest.main()
