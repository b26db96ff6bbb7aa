"""Tables: h5py's structured arrays, and where they are installed PyTables and
pandas, which read and append to tables that the tool has compressed. PyTables
and h5py bring HDF5 libraries of their own."""
import os
import subprocess
import tempfile
import unittest

import h5py
import numpy as np

from terp_files import FILTER, RELATIVE

try:
    import tables
except ImportError:
    tables = None
try:
    import pandas
except ImportError:
    pandas = None

N = 20000
TOOL = os.environ.get("TEST_TOOL")


def columns(n=N, first=0):
    """Columns of a table, as a simulation or a logger writes them."""
    t = np.arange(first, first + n) / 200
    return {"time": 1.7e9 + t, "x": np.sin(t).astype("f4"),
            "y": np.exp(-t / 50), "id": np.arange(first, first + n),
            "name": np.array([b"station %d" % (i % 30) for i in
                              range(first, first + n)], "S12")}


def table_of(values):
    table = np.zeros(len(values["id"]),
                     [(name, column.dtype) for name, column in values.items()])
    for name, column in values.items():
        table[name] = column
    return table


def compress(source, target, *options):
    subprocess.run([TOOL, "repack", source, target, *options], check=True,
                   stderr=subprocess.PIPE)


class TablesTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "in.h5")
        self.out = os.path.join(directory.name, "out.h5")

    def check(self, got, want, bound):
        for name in "time", "id", "name":
            self.assertTrue((got[name] == want[name]).all(), name)
        for name in "x", "y":
            error = np.abs(got[name] - want[name]).max()
            self.assertTrue(0 < error <= bound, name)


class H5py(TablesTest):
    """Through cd_values, without the tool."""

    def write(self, table, words, **options):
        with h5py.File(self.path, "w") as file:
            file.create_dataset("t", data=table, compression=FILTER,
                                compression_opts=words, **options)
        with h5py.File(self.path) as file:
            data = file["t"]
            self.assertEqual(data.dtype, table.dtype)
            self.assertLess(data.id.get_storage_size(), table.nbytes)
            return data[...]

    def test_structured_arrays(self):
        table = table_of(columns())
        got = self.write(table, (1, 1, 3), chunks=(4096,))
        for name in "id", "name":
            self.assertTrue((got[name] == table[name]).all())
        for name in "time", "x", "y":
            error = np.abs(got[name] - table[name]).max()
            self.assertTrue(0 < error <= 1e-3)

    def test_any_dtype_without_loss(self):
        rng = np.random.default_rng(1)
        for align in False, True:
            dtype = np.dtype([("a", "?"), ("b", ">i2", (2, 3)), ("c", "f2"),
                              ("d", [("e", "c16"), ("f", "S3")]),
                              ("g", "V5"), ("h", ">u8"), ("i", "c8", 2)],
                             align=align)
            table = np.zeros((70, 9), dtype)
            table["b"] = rng.integers(-9, 9, (70, 9, 2, 3))
            table["c"] = rng.normal(size=(70, 9))
            table["d"]["e"] = rng.normal(size=(70, 9))
            table["d"]["f"] = b"xy"
            table["h"] = np.arange(630).reshape(70, 9).astype("u8") << 50
            got = self.write(table, (1, 0, 0), chunks=(32, 9))
            self.assertEqual(got.tobytes(), table.tobytes())

    def test_complex_numbers_that_h5py_cannot_hold(self):
        """{r, i} of float16 and of integers, as radar products have them."""
        t = np.arange(5000) / 90
        for part, scale in ("f2", 1), ("<i2", 300), (">i2", 300):
            pairs = np.zeros(5000, [("r", part), ("i", part)])
            pairs["r"], pairs["i"] = np.cos(t) * scale, np.sin(t) * scale
            try:
                got = self.write(pairs, (RELATIVE, 1, 2), chunks=(1000,))
            except TypeError as error:  # h5py before 3.10 cannot read float16
                self.assertIn("c4", str(error))
                continue
            if part == "f2":
                self.assertTrue(0 < np.abs(got["r"] - pairs["r"]).max() <= .02)
            else:
                self.assertEqual(got.tobytes(), pairs.tobytes())

    def test_tables_that_grow(self):
        """Each append decodes and encodes the last chunk."""
        with h5py.File(self.path, "w") as file:
            data = file.create_dataset(
                "t", (0,), table_of(columns(1)).dtype, maxshape=(None,),
                chunks=(1000,), compression=FILTER, compression_opts=(1, 1, 3))
        for first in range(0, 2400, 300):
            with h5py.File(self.path, "r+") as file:
                data = file["t"]
                data.resize(first + 300, 0)
                data[first:] = table_of(columns(300, first))
        want = table_of(columns(2400))
        with h5py.File(self.path) as file:
            got = file["t"][...]
        for name in "time", "x", "y":
            self.assertLessEqual(np.abs(got[name] - want[name]).max(), 1e-3)
        self.assertTrue((got["name"] == want["name"]).all())


@unittest.skipIf(tables is None or not TOOL, "PyTables is not installed")
class PyTables(TablesTest):
    def write(self):
        with tables.open_file(self.path, "w") as file:
            table = file.create_table("/", "t", table_of(columns()),
                                      expectedrows=N)
            table.cols.y.create_index()
        compress(self.path, self.out, "--member", "x=abs:1e-3", "--member",
                 "y=abs:1e-3", "--chunk", "8192")

    def test_tables_are_read_and_searched(self):
        self.write()
        with h5py.File(self.out) as file:
            self.assertIn(str(FILTER), file["t"]._filters)
        with tables.open_file(self.out) as file:
            self.check(file.root.t[:], columns(), 1e-3)
            rows = file.root.t.read_where("(id >= 100) & (name == b'station 7')")
            self.assertEqual(rows["id"].tolist(), list(range(127, N, 30)))
            self.assertEqual(file.root.t.attrs.CLASS, "TABLE")

    def test_tables_are_appended_to(self):
        self.write()
        want = table_of(columns(N + 900))
        with tables.open_file(self.out, "a") as file:
            # HDF5 loads the filter when it reads, but not when it extends a
            # dataset that has a fill value.
            file.root.t[0]
            for first in range(N, N + 900, 90):
                file.root.t.append(table_of(columns(90, first)))
                file.root.t.flush()
            file.root.t.modify_column(5, column=np.array([42]), colname="id")
        want["id"][5] = 42
        with tables.open_file(self.out) as file:
            self.check(file.root.t[:], want, 1e-3)


@unittest.skipIf(pandas is None or tables is None or not TOOL,
                 "pandas is not installed")
class Pandas(TablesTest):
    def frame(self, n=N, first=0):
        values = columns(n, first)
        values["name"] = values["name"].astype(str)
        return pandas.DataFrame(values, index=np.arange(first, first + n))

    def test_frames(self):
        self.frame().to_hdf(self.path, key="t", format="table")
        compress(self.path, self.out, "--member", "values_block_0=abs:1e-3",
                 "--member", "values_block_1=abs:1e-3", "--chunk", "8192")
        pandas.read_hdf(self.out, "t", stop=1)  # loads the filter, as above
        self.frame(500, N).to_hdf(self.out, key="t", format="table",
                                  append=True, mode="a")
        got = pandas.read_hdf(self.out, "t")
        want = self.frame(N + 500)
        self.assertEqual(list(got.columns), list(want.columns))
        self.assertTrue((got.index == want.index).all())
        self.assertTrue((got["name"] == want["name"]).all())
        for name in "time", "x", "y":
            self.assertLessEqual(np.abs(got[name] - want[name]).max(), 1e-3)
        some = pandas.read_hdf(self.out, "t", where="index > 19990")
        self.assertEqual(len(some), N + 500 - 19991)


if __name__ == "__main__":
    for module, name in (tables, "PyTables"), (pandas, "pandas"):
        if module is None:
            print("left out: %s is not installed" % name)
    unittest.main()
