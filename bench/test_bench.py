"""Runs the benchmarks on tiny fields. Skipped if the packages are neither
installed nor in build/bench-venv (python3 bench/common.py makes it).
TERP_BENCH_PLUGIN names the plugin's folder."""

import csv
import io
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import common

if __name__ == "__main__":
    common.use_packages(install=False)
MISSING = common.missing_packages()
PLUGIN = os.environ.get("TERP_BENCH_PLUGIN", "")
if not MISSING:
    import numpy as np

    import fields
    import filters


def run(script, *words):
    return subprocess.run(
        [sys.executable, str(Path(__file__).parent / script), *words],
        capture_output=True, text=True, timeout=300)


def rows_of(process):
    return list(csv.DictReader(io.StringIO(process.stdout)))


class Results(unittest.TestCase):
    def test_every_row_has_the_columns_of_the_first(self):
        files = sorted((Path(__file__).parent / "results").glob("*.csv"))
        self.assertTrue(files)
        for path in files:
            with open(path, newline="") as file:
                head, *rest = csv.reader(file)
            for line, row in enumerate(rest, 2):
                self.assertEqual(len(row), len(head), f"{path}:{line}")


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        axis = np.linspace(0, 3, 20)
        self.data = np.float32(
            np.sin(axis)[:, None, None] * axis[:, None] + np.cos(axis))
        self.raw = self.folder / "wave_20x20x20.f32"
        self.data.tofile(self.raw)

    def test_raw_name_gives_shape_and_type(self):
        source, = fields.find_fields(str(self.raw))
        field = source.load(None)
        self.assertEqual(field.name, "wave")
        np.testing.assert_array_equal(field.data, self.data)

    def test_sperr_gets_each_chunk_with_its_dims_reversed(self):
        data = np.float32(np.sin(np.arange(12 * 30 * 50) / 900)
                          ).reshape(12, 30, 50)
        field = fields.Field("wave", data)
        with filters.memory_file() as file:
            dataset = filters.create(file, field, (5, 30, 40), "sperr", 1e-3)
            self.assertEqual(dataset.chunks, (40, 30, 5))
            filters.write(dataset, data, "sperr", 1e-3)
            del dataset
            copy = np.empty_like(data)
            filters.read(file["field"], copy, "sperr")
        self.assertLess(np.abs(copy - data).max(), 1.1e-3)
        self.assertGreater(np.abs(copy - data).max(), 0)

    def test_h5_file_gives_every_float_array(self):
        path = self.folder / "some.h5"
        with filters.h5py.File(path, "w") as file:
            file["a/wave"] = self.data.astype(">f8")
            file["a/wave"].attrs["_FillValue"] = 1e20
            file["count"] = np.arange(5)
        source, = fields.find_fields(str(path))
        field = source.load(None)
        self.assertEqual((field.name, field.fill), ("a/wave", 1e20))
        self.assertEqual(field.data.dtype, np.dtype("=f8"))
        named, = fields.find_fields(f"{path}:/a/wave")
        self.assertEqual(named.name, "a/wave")

    def test_fill_and_nan_do_not_widen_the_range(self):
        data = np.array([1, 2, np.nan, 1e20, 3], "f4")
        self.assertEqual(fields.Field("x", data, fill=1e20).value_range, 2)

    def test_chunk_is_clipped_and_keeps_its_volume(self):
        for word, shape, chunk in (("64", (256, 256, 10), (64, 64, 10)),
                                   ("64", (1 << 20,), (64 ** 3,)),
                                   ("64", (900, 900), (512, 512)),
                                   ("whole", (9, 8), (9, 8)),
                                   ("4x8", (9, 8), (4, 8)),
                                   ("auto", (9, 8), (9, 8))):
            self.assertEqual(
                fields.chunk_shape(word, np.empty(shape, "f4")), chunk)

    def test_lost_nan_is_an_infinite_error(self):
        data = np.array([0, 1, np.nan], "f4")
        field = fields.Field("x", data)
        self.assertEqual(filters.measure_error(field, data)[0], 0)
        lost = np.array([0, 1, 0], "f4")
        self.assertEqual(filters.measure_error(field, lost)[0], np.inf)
        gained = np.array([0, np.nan, np.nan], "f4")
        self.assertEqual(filters.measure_error(field, gained)[0], np.inf)

    def test_error_and_psnr_are_those_of_the_definition(self):
        data = np.array([0, 4, 8, 10], "f8")
        copy = data + np.array([0, 0.5, -1, 0])
        worst, psnr = filters.measure_error(fields.Field("x", data), copy)
        self.assertEqual(worst, 1)
        self.assertAlmostEqual(psnr, 10 * np.log10(100 / (1.25 / 4)))

    def test_ratio_gives_a_row_a_codec(self):
        got = run("ratio.py", "--fields", str(self.raw), "--bounds", "1e-3",
                  "--chunks", "whole,8", "--codecs", "none,sz3,pysz,zfp")
        self.assertEqual(got.returncode, 0, got.stderr)
        rows = rows_of(got)
        self.assertEqual(len(rows), 8)
        by_codec = {r["codec"]: r for r in rows if r["chunk"] == "20x20x20"}
        self.assertEqual(int(by_codec["none"]["stored_bytes"]),
                         self.data.nbytes)
        self.assertGreater(float(by_codec["sz3"]["ratio"]), 2)
        for row in rows:
            error = float(row["max_err_over_bound"])
            self.assertLessEqual(error, 1, row)
            # Values that were read back had been compressed: they are not
            # HDF5's cache.
            self.assertEqual(error == 0, row["codec"] == "none", row)

    def test_bound_of_nothing_is_lossless(self):
        codecs = ["none", "gzip"] + (["terp", "terp:huffman"] if PLUGIN else [])
        self.data[3, 4, 5:9] = np.nan, -0.0, 1e-40, np.inf
        self.data.tofile(self.raw)
        np.full(5000, 7, "f4").tofile(self.folder / "same_5000.f32")
        got = run("ratio.py", "--plugin", PLUGIN or ".", "--fields",
                  str(self.folder), "--bounds", "0", "--chunks", "whole",
                  "--codecs", ",".join(codecs), "--against", "peers")
        self.assertEqual(got.returncode, 0, got.stderr)
        rows = rows_of(got)
        self.assertEqual(len(rows), 2 * len(codecs))
        for row in rows:
            self.assertEqual(float(row["max_err_over_bound"]), 0, row)
        self.assertIn("lossless: bytes of 2 fields", got.stderr)

    @unittest.skipUnless(PLUGIN, "needs the plugin")
    def test_same_size_takes_at_least_the_bytes_of_terp(self):
        got = run("same_size.py", "--plugin", PLUGIN, "--fields",
                  str(self.raw), "--bounds", "1e-3", "--codecs", "sz3")
        self.assertEqual(got.returncode, 0, got.stderr)
        rows = rows_of(got)
        self.assertEqual([row["codec"] for row in rows], ["terp", "sz3"])
        self.assertTrue(1 <= float(rows[1]["bytes_of_terp"]) < 1.2, rows[1])
        self.assertGreater(float(rows[1]["gradient_rmse_of_rms"]), 0)

    def test_speed_gives_a_row_a_codec_and_operation(self):
        got = run("speed.py", "--fields", str(self.raw), "--chunks", "8",
                  "--codecs", "zfp", "--reps", "2")
        self.assertEqual(got.returncode, 0, got.stderr)
        rows = rows_of(got)
        self.assertEqual({(r["codec"], r["op"]) for r in rows},
                         {(c, o) for c in ("sz3", "none", "zfp")
                          for o in ("write", "read")})
        for row in rows:
            self.assertGreater(float(row["median_s"]), 0)
            if row["codec"] == "sz3":
                self.assertEqual(float(row["ratio_vs_sz3"]), 1)

    @unittest.skipUnless(PLUGIN and shutil.which("h5repack"),
                         "TERP_BENCH_PLUGIN is not set, or no h5repack")
    def test_repack_gives_a_row_a_tool_and_shape(self):
        tool = Path(PLUGIN).parent / "tools" / "terp"
        if not tool.exists():
            self.skipTest(f"no {tool}")
        got = run("repack.py", "--plugin", PLUGIN, "--tool", str(tool),
                  "--fields", str(self.raw), "--chunks", "8", "--reps", "2",
                  "--large", "0.01", "--folder", str(self.folder))
        self.assertEqual(got.returncode, 0, got.stderr)
        rows = rows_of(got)
        self.assertEqual([(r["field"], r["tool"]) for r in rows],
                         [("wave", "terp repack"), ("wave", "h5repack sz3")] +
                         3 * [("sparse", "terp repack")])
        for row in rows:
            self.assertGreater(float(row["ratio"]), 2)
            self.assertGreater(float(row["peak_mib"]), 1)

    def test_unknown_codec_is_named(self):
        got = run("ratio.py", "--fields", str(self.raw), "--codecs", "sz99")
        self.assertNotEqual(got.returncode, 0)
        self.assertIn("sz99", got.stderr)

    @unittest.skipUnless(PLUGIN, "TERP_BENCH_PLUGIN is not set")
    def test_every_pipeline_and_predictor_keeps_the_bound(self):
        names = [f"terp:{pipeline}:{predictor}"
                 for pipeline in filters.PIPELINES
                 for predictor in filters.PREDICTORS]
        got = run("ratio.py", "--plugin", PLUGIN, "--fields", str(self.raw),
                  "--chunks", "whole,8", "--codecs", ",".join(names))
        self.assertEqual(got.returncode, 0, got.stderr)
        rows = rows_of(got)
        self.assertEqual(len(rows), 2 * 3 * len(names))
        for row in rows:
            self.assertLessEqual(float(row["max_err_over_bound"]), 1, row)

    def test_pointwise_bound_is_of_each_value(self):
        codecs = ["sz2"] + ["terp"] * bool(PLUGIN)
        got = run("ratio.py", "--pointwise", "--plugin", PLUGIN or ".",
                  "--fields", str(self.raw), "--bounds", "1e-2", "--chunks",
                  "whole", "--codecs", ",".join(codecs), "--against", "sz2")
        self.assertEqual(got.returncode, 0, got.stderr)
        rows = rows_of(got)
        self.assertEqual([row["codec"] for row in rows], codecs)
        for row in rows:
            # Compared with the pointwise bound, the error of a bound relative
            # to the range would be far too large.
            self.assertLessEqual(float(row["max_err_over_bound"]), 1, row)
            self.assertGreater(float(row["max_err_over_bound"]), 0.5, row)

    def test_pointwise_error_of_a_zero_is_infinite(self):
        field = fields.Field("x", np.array([0, 1], "f4"), fill=None)
        for copy, worst in (((0, 1.5), 0.5), ((0.25, 1), np.inf)):
            self.assertEqual(
                filters.measure_error(field, np.array(copy, "f4"), True)[0],
                worst)


if __name__ == "__main__":
    unittest.main()
