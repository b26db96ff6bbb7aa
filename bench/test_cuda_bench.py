"""Runs the CUDA engine's benchmarks on an emulated device and tiny fields.
Checks that they run, that their results are right, and the columns of their
tables. Times have no meaning here. TERP_BENCH_PROGRAMS names the folder of
the programs. With TERP_TEST_FEWER=N, one test in N runs. The seed of the
choice is TERP_TEST_SEED or, without it, the date."""

import array
import csv
import io
import math
import os
import random
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

import cuda_profile

PROGRAMS = Path(os.environ.get("TERP_BENCH_PROGRAMS", "."))
HERE = Path(__file__).parent

NCU = """#!/bin/sh
cat <<'EOF'
==PROF== Connected to process 1
"ID","Kernel Name","Grid Size","{read}","{written}","{time}","{issued}","{busy}"
"","","","byte","byte","ns","inst","%"
"0","begin_chunks","(7, 1, 1)","1,000","0","3000","2,000,000","10"
"1","scan","(8, 1, 1)","4000000","1000","9000","2,000,000","50"
"2","scan","(9, 2, 1)","4000000","1000","2000","2,000,000","50"
"3","end_chunks","(1, 1, 1)","256","0","1500","2,000,000","1"
"4","begin_chunks","(7, 1, 1)","1,000","0","3000","2,000,000","10"
"5","end_chunks","(1, 1, 1)","256","0","1500","2,000,000","1"
"6","begin_chunks","(7, 1, 1)","1,000","0","2000","2,000,000","10"
"7","scan","(8, 1, 1)","4000000","1000","8000","2,000,000","50"
"8","scan","(9, 2, 1)","4000000","1000","2500","2,000,000","50"
"9","end_chunks","(1, 1, 1)","256","0","1600","2,000,000","1"
"10","begin_chunks","(7, 1, 1)","1,000","0","3000","2,000,000","10"
"11","end_chunks","(1, 1, 1)","256","0","1500","2,000,000","1"
EOF
""".format(read=cuda_profile.READ, written=cuda_profile.WRITTEN,
           time=cuda_profile.TIME, issued=cuda_profile.ISSUED,
           busy=cuda_profile.BUSY)


def make_field(folder, n):
    """Waves with some noise."""
    path = Path(folder) / f"wave_{n}x{n}x{n}.f32"
    wave = [math.sin(0.2 * i) + 1e-3 * (i * 7919 % 101) for i in range(3 * n)]
    values = array.array("f", (wave[x + y] * wave[y + z] + wave[z]
                               for z in range(n) for y in range(n)
                               for x in range(n)))
    with open(path, "wb") as file:
        values.tofile(file)
    return path


class CudaBench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def rows_of(self, program, extent, *words):
        field = make_field(self.folder, extent)
        got = subprocess.run([PROGRAMS / program, field, *words],
                             capture_output=True, text=True, timeout=300,
                             env=os.environ | {"TERP_BENCH_REPS": "1",
                                               "TERP_BENCH_CHUNKS": "16"})
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual(got.stderr, "")
        return list(csv.DictReader(io.StringIO(got.stdout)))

    def test_speed_has_a_line_a_figure(self):
        rows = self.rows_of("cuda_speed", 32, "host", "crossover")
        for row in rows:
            self.assertGreater(float(row["median_us"]), 0, row)
            if row["what"] == "terp":
                self.assertGreater(float(row["ratio"]), 1.5, row)
        self.assertEqual(
            [row["extent"] for row in rows if row["what"] == "terp" and
             row["pipeline"] == "huffman" and row["direction"] == "compress"],
            ["32", "16", "8", "4"])
        self.assertEqual({row["memory"] for row in rows},
                         {"host", "pageable", "pinned"})
        crossover = [(row["extent"], row["engine"]) for row in rows
                     if row["pipeline"] == "auto" and
                     row["direction"] == "decompress"]
        self.assertEqual(crossover, [(extent, engine)
                                     for extent in ("16", "24", "32")
                                     for engine in ("cpu", "cuda")])

    def test_speed_of_bounds_relative_to_each_value(self):
        rows = self.rows_of("cuda_speed", 16, "pointwise")
        self.assertEqual(
            [(row["what"], row["extent"], row["chunks"]) for row in rows
             if row["pipeline"] == "huffman" and
             row["direction"] == "decompress"],
            [(what, *size) for what in ("pwr", "pwr of both signs")
             for size in (("16", "1"), ("2", "1"), ("2", "16"))])

    def test_speed_of_tight_bounds(self):
        rows = self.rows_of("cuda_speed", 16, "tight")
        self.assertEqual(
            [(row["what"], row["extent"], row["chunks"]) for row in rows
             if row["pipeline"] == "ratio" and
             row["direction"] == "compress"],
            [(what, *size) for what in ("bound 1e-5", "bound 1e-6")
             for size in (("16", "1"), ("2", "16"), ("2", "1"))])

    def test_speed_of_complex_values_and_of_a_psnr(self):
        for part, size in (("complex", "8"), ("psnr", "16")):
            rows = self.rows_of("cuda_speed", 16, part)
            self.assertEqual(
                [(row["extent"], row["chunks"]) for row in rows
                 if row["pipeline"] == "ratio" and
                 row["direction"] == "compress"],
                [(size, "1"), ("2", "1"), ("2", "16")])

    def test_speed_of_every_nth_value(self):
        rows = self.rows_of("cuda_speed", 16, "coarse")
        self.assertEqual(
            [row["direction"] for row in rows],
            ["step 1", "step 2", "step 4", "step 8"] * 12)
        self.assertEqual({row["what"] for row in rows},
                         {"terp", "special values", "pwr of both signs"})

    def test_speed_of_shapes(self):
        values = array.array("d", (math.sin(0.1 * i) for i in range(600)))
        values[17] = 1e20
        path = self.folder / "wave_3x10x20.f64"
        path.write_bytes(values.tobytes())
        got = subprocess.run([PROGRAMS / "cuda_shapes", path, "1e20"],
                             capture_output=True, text=True,
                             env=os.environ | {"TERP_BENCH_REPS": "1"})
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        rows = list(csv.DictReader(io.StringIO(got.stdout)))
        self.assertEqual([(row["bound"], row["pipeline"]) for row in rows],
                         [(bound, pipeline) for bound in ("1e-3", "lossless")
                          for pipeline in ("ratio", "huffman", "speed")])
        for row in rows:
            self.assertEqual((row["field"], row["type"], row["shape"]),
                             ("wave", "float64", "3x10x20"))
            if row["bound"] == "1e-3":
                self.assertGreater(float(row["max_err_over_bound"]), 0.1, row)

    def test_fields_of_shapes_have_fill_values(self):
        try:
            import numpy as np
            import scipy.fft  # noqa: F401
        except ImportError:
            self.skipTest("needs numpy and scipy")
        import cuda_shapes
        shapes = {"plain": ((10, 20), "f64", 5, None),
                  "filled": ((5, 6, 7), "f32", 2, 1e20)}
        with unittest.mock.patch.dict(cuda_shapes.FIELDS, shapes, clear=True):
            plain = cuda_shapes.write(self.folder, "plain")
            filled = cuda_shapes.write(self.folder, "filled")
        self.assertEqual(plain.name, "plain_10x20.f64")
        self.assertAlmostEqual(np.fromfile(plain, "<f8").std(), 1, places=5)
        fills = (np.fromfile(filled, "<f4") == np.float32(1e20)).mean()
        self.assertTrue(0.1 < fills < 0.6, fills)

    def test_batch_in_device_memory_can_be_profiled(self):
        self.assertEqual(
            self.rows_of("cuda_speed", 32, "profile", "huffman", "8", "5"), [])

    def test_forms_of_the_index_say_the_same(self):
        rows = self.rows_of("cuda_index", 64)
        self.assertEqual(len(rows), 4)
        nbytes = {row["form"]: int(row["index_bytes"]) for row in rows}
        self.assertLess(nbytes["lengths"], nbytes["offsets"])

    def test_codebooks_are_selected_and_built_on_both(self):
        rows = self.rows_of("cuda_books", 64)
        for row in rows:
            self.assertGreater(float(row["us"]), 0, row)
        self.assertEqual({row["where"] for row in rows}, {"device", "host"})
        self.assertEqual(len(rows), 2 + 2 + 2)

    def test_blocks_are_written_and_read_in_every_way(self):
        program = os.environ.get("TERP_BENCH_H5")
        if program is None:
            self.skipTest("built without HDF5")
        rows = self.rows_of(program, 16, "8", self.folder)
        self.assertEqual(
            [(row["direction"], row["what"], row["engine"]) for row in rows],
            [(direction, *way) for direction in ("write", "read")
             for way in (("filter", "cpu"), ("filter", "cpu"),
                         ("filter", "cuda"), ("terp_h5_host", "cuda"), ("terp_h5_host", "cuda"),
                         ("terp_h5", "cuda"))])
        self.assertEqual(len({row["ratio"] for row in rows}), 1)
        for row in rows:
            self.assertGreater(float(row["ratio"]), 1.5, row)
            self.assertGreater(float(row["median_ms"]), 0, row)

    def test_profile_adds_up_kernels_and_takes_the_shorter_time(self):
        ncu = self.folder / "ncu"
        ncu.write_text(NCU)
        ncu.chmod(0o755)
        path = f"{self.folder}:{os.environ['PATH']}"
        got = subprocess.run(
            [sys.executable, "-B", HERE / "cuda_profile.py", "program",
             "field", "huffman:8:1"], capture_output=True, text=True,
            env=os.environ | {"PATH": path})
        self.assertEqual(got.returncode, 0, got.stderr)
        lines = [line.split() for line in got.stdout.splitlines() if line]
        self.assertEqual(lines[0], ["huffman:8:1,", "compress"])
        self.assertEqual(lines[2][:4],
                         ["begin_chunks", "1", "(7,1,1)", "2.0"])
        self.assertEqual(lines[3][:6],
                         ["scan", "2", "(8,1,1)", "10.0", "8.00", "0.00"])
        self.assertEqual(lines[3][7:], ["4.00", "50", "waiting"])
        self.assertEqual(lines[4][:2], ["end_chunks", "1"])
        self.assertEqual(lines[5][:3], ["all", "4", "13.5"])
        self.assertEqual(lines[6], ["huffman:8:1,", "decompress"])
        self.assertEqual([line[0] for line in lines[8:]],
                         ["begin_chunks", "end_chunks", "all"])

    def test_engines_take_turns(self):
        build = Path(self.folder, "build")
        for path, of in ((build / "bench/cuda_speed", PROGRAMS / "cuda_speed"),
                         (build / "lib/libterp_cuda.so",
                          os.environ["TERP_CUDA_LIBRARY"])):
            path.parent.mkdir(parents=True)
            path.symlink_to(of)
        got = subprocess.run(
            [sys.executable, "-B", HERE / "cuda_turns.py",
             make_field(self.folder, 16), build, build, "tight"],
            capture_output=True, text=True,
            env=os.environ | {"TERP_BENCH_REPS": "1", "TERP_BENCH_TURNS": "1",
                              "TERP_BENCH_CHUNKS": "2"})
        self.assertEqual(got.returncode, 0, got.stderr)
        rows = list(csv.DictReader(io.StringIO(got.stdout)))
        self.assertEqual({row["direction"] for row in rows},
                         {"compress", "decompress"})
        for row in rows:
            self.assertAlmostEqual(
                float(row["second_over_first"]),
                float(row["second_us"]) / float(row["first_us"]), places=3)

    def test_field_has_mean_0_and_deviation_1(self):
        try:
            import numpy as np
            import scipy.fft  # noqa: F401
        except ImportError:
            self.skipTest("needs numpy and scipy")
        got = subprocess.run(
            [sys.executable, "-B", HERE / "cuda_field.py", self.folder, "32"],
            capture_output=True, text=True)
        self.assertEqual(got.returncode, 0, got.stderr)
        field = np.fromfile(got.stdout.strip(), "<f4").astype("f8")
        self.assertEqual(field.size, 32 ** 3)
        self.assertAlmostEqual(field.mean(), 0, places=5)
        self.assertAlmostEqual(field.std(), 1, places=5)


def load_tests(_loader, suites, _pattern):
    tests = [test for suite in suites for test in suite]
    fewer = int(os.environ.get("TERP_TEST_FEWER", 1))
    seed = int(os.environ.get("TERP_TEST_SEED", time.time() // 86400))
    print(f"TERP_TEST_SEED={seed} tries the same tests again", file=sys.stderr)
    return unittest.TestSuite(
        random.Random(seed).sample(tests, -(-len(tests) // fewer)))


if __name__ == "__main__":
    unittest.main()
