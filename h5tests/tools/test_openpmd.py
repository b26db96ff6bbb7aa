"""openPMD-api, whose wheels contain their own HDF5, compresses with the
parameters that `terp args --chunk` prints (TEST_TERP). Needs openpmd-api and
numpy."""
import os
import re
import subprocess
import tempfile
import unittest

import numpy as np
import openpmd_api

DIM, CHUNK = 48, "24x24x24"


def config(dtype, rel):
    said = subprocess.run(
        [os.environ["TEST_TERP"], "args", f"--rel={rel}", f"--chunk={CHUNK}",
         f"--type={dtype}"], stdout=subprocess.PIPE, text=True, check=True)
    return re.search("^openPMD +(.*)$", said.stdout, re.MULTILINE)[1]


class MeshTest(unittest.TestCase):
    def check(self, dtype, rel):
        z, y, x = np.meshgrid(*[np.arange(DIM)] * 3, indexing="ij")
        want = (np.sin(0.1 * x) * np.cos(0.07 * y + 0.05 * z)).astype(dtype)
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "mesh.h5")
            series = openpmd_api.Series(
                path, openpmd_api.Access.create, config(dtype, rel))
            mesh = series.iterations[0].meshes["E"]["x"]
            mesh.reset_dataset(openpmd_api.Dataset(want.dtype, want.shape))
            mesh.store_chunk(want)
            series.close()
            self.assertLess(5 * os.path.getsize(path), want.nbytes)
            series = openpmd_api.Series(
                path, openpmd_api.Access.read_only)
            got = series.iterations[0].meshes["E"]["x"].load_chunk()
            series.flush()
            error = np.abs(got.astype("f8") - want).max()
            self.assertTrue(0 < error <= rel * np.ptp(want.astype("f8")))
            series.close()

    def test_float32_is_compressed_within_its_bound(self):
        self.check("float32", 1e-3)

    def test_float64_is_compressed_within_its_bound(self):
        self.check("float64", 1e-2)


if __name__ == "__main__":
    print("openPMD-api", openpmd_api.__version__)
    unittest.main()
