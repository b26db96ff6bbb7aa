#!/usr/bin/env python3
"""Datasets of a terabyte with a few stored chunks: no subcommand visits all
chunks, and stored values do not change."""
import os
import sys
import time
import unittest

from tool_case import FOUND, OK, ToolTest

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

FILTER = 46117
BOUND = 1e-3
ABSOLUTE = {"compression": FILTER, "compression_opts": (1, 1, 3)}
NBYTES = 1 << 40
CHUNK = 1024
# Trying 2^28 chunks one by one takes minutes.
SHAPE = (NBYTES // 4 + 5,)
NCHUNKS = NBYTES // 4 // CHUNK + 1
# Positions of chunks: the first two, some between, and the last, which is cut.
PLACES = (0, 1, NCHUNKS // 3, NCHUNKS // 2, NCHUNKS - 1)


def values_at(number):
    n = min(CHUNK, SHAPE[0] - number * CHUNK)
    noise = np.random.default_rng(number).normal(size=n)
    return (number % 1000 + noise.cumsum() / 8).astype("f4")


class Sparse(ToolTest):
    def write(self, libver=None, chunk=CHUNK, **options):
        path = self.path("in.h5")
        with h5py.File(path, "w", libver=libver) as file:
            x = file.create_dataset(
                "x", shape=SHAPE, dtype="f4", chunks=(chunk,), **options
            )
            for number in PLACES:
                values = values_at(number)
                x[number * CHUNK:number * CHUNK + len(values)] = values
        return path

    def check(self, path, bound, fill=0.0):
        with h5py.File(path, "r") as file:
            x = file["x"]
            self.assertEqual(x.shape, SHAPE)
            for number in PLACES:
                values = values_at(number)
                got = x[number * CHUNK:number * CHUNK + len(values)]
                self.assertLessEqual(np.abs(got - values).max(), bound)
            for at in (2, NCHUNKS // 4, NCHUNKS - 2):
                got = x[at * CHUNK:at * CHUNK + 10]
                self.assertTrue((got == fill).all())

    def test_info_and_verify(self):
        # With a fixed array as index, HDF5 itself visits all chunks.
        for libver, chunk in (None, CHUNK), ("latest", CHUNK << 8):
            with self.subTest(libver=libver):
                nchunks = -(-SHAPE[0] // chunk)
                nstored = len({n * CHUNK // chunk for n in PLACES})
                path = self.write(libver, chunk, **ABSOLUTE)
                begin = time.monotonic()
                self.assertRegex(
                    self.expect(OK, "info", "-v", path),
                    f"chunks +{nchunks}: .*, {nchunks - nstored} not written",
                )
                self.assertIn(
                    f"{nstored} whole, {nchunks - nstored} not written",
                    self.expect(OK, "verify", path),
                )
                self.assertLess(time.monotonic() - begin, 30)

    def test_damage_is_found(self):
        path = self.write(**ABSOLUTE)
        with h5py.File(path, "r") as file:
            info = file["x"].id.get_chunk_info(len(PLACES) - 2)
        with open(path, "r+b") as file:
            file.seek(info.byte_offset + info.size // 2)
            byte = file.read(1)[0]
            file.seek(-1, 1)
            file.write(bytes([byte ^ 4]))
        at = info.chunk_offset[0]
        self.assertIn(f"x[{at}:{at + CHUNK}]", self.expect(FOUND, "verify", path))
        out = self.path("out.h5")
        self.expect(FOUND, "repack", "--lossless", "--salvage", "-dx=none", path, out)
        with h5py.File(out, "r") as file:
            self.assertTrue(np.isnan(file["x"][at:at + CHUNK]).all())

    def test_repack(self):
        for options in (
            {},
            {"compression": "gzip"},
            {"fillvalue": 7.0, "compression": "gzip"},
        ):
            with self.subTest(**options):
                path = self.write(**options)
                out = self.path("out.h5")
                self.expect(OK, "repack", f"--abs={BOUND}", path, out)
                self.check(out, BOUND, options.get("fillvalue", 0.0))
                # Empty regions stay unwritten.
                self.assertLess(512 * os.stat(out).st_blocks, 64 << 20)

    def test_repack_in_other_chunks(self):
        path = self.write(compression="gzip")
        out = self.path("out.h5")
        self.expect(OK, "repack", f"--abs={BOUND}", "--chunk=3000", path, out)
        self.check(out, BOUND)

    def test_repack_of_what_stays(self):
        path = self.write(**ABSOLUTE)
        out = self.path("out.h5")
        for arguments in ("-dx=none",), ("-dx=none", "--rest=deflate"):
            self.expect(OK, "repack", "--lossless", *arguments, path, out)
            self.check(out, BOUND)

    def test_preview(self):
        step = 64
        path = self.write(**ABSOLUTE)
        out = self.path("out.h5")
        self.expect(OK, "preview", f"--step={step}", path, out)
        with h5py.File(path, "r") as whole, h5py.File(out, "r") as file:
            x = file["x"]
            self.assertEqual(x.shape, ((SHAPE[0] + step - 1) // step,))
            for number in PLACES:
                first = number * CHUNK
                expected = whole["x"][first:first + CHUNK:step]
                got = x[first // step:first // step + len(expected)]
                self.assertTrue((got == expected).all())
            self.assertTrue((x[1000:2000] == 0).all())

    def test_few_large_chunks(self):
        """Few enough chunks to try one by one, but 64 GiB of values."""
        n, chunk, step = 1 << 34, 1 << 23, 64
        path, out = self.path("in.h5"), self.path("out.h5")
        with h5py.File(path, "w") as file:
            x = file.create_dataset(
                "x", shape=(n,), dtype="f4", chunks=(chunk,), **ABSOLUTE)
            x[n // 2:n // 2 + chunk] = 2.5
        begin = time.monotonic()
        self.expect(OK, "preview", f"--step={step}", path, out)
        with h5py.File(out, "r") as file:
            x = file["x"]
            at, size = n // 2 // step, chunk // step
            self.assertTrue((x[at:at + size] == 2.5).all())
            self.assertTrue((x[at - size:at] == 0).all())
            self.assertTrue((x[at + size:at + 2 * size] == 0).all())
        self.expect(OK, "repack", "--lossless", path, out)
        self.expect(OK, "compare", path, out)
        self.assertIn("only stored values",
                      self.expect(OK, "advise", path))
        for files in (path,), (path, out):
            page = self.path("page.html")
            self.expect(OK, "report", *files, "--html", page)
            with open(page, encoding="utf-8") as file:
                self.assertIn("never written", file.read())
        self.assertLess(time.monotonic() - begin, 40)

    def test_preview_whose_step_does_not_divide_chunks(self):
        """Few enough values to compare all."""
        shape, chunks, step = (30, 30000), (7, 31), 4
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            x = file.create_dataset(
                "x", shape=shape, dtype="f4", chunks=chunks, fillvalue=2.5,
                **ABSOLUTE
            )
            for row, column in (0, 0), (14, 9300), (28, 29977):
                part = x[row:row + 7, column:column + 31]
                noise = np.random.default_rng(row).normal(size=part.shape)
                x[row:row + 7, column:column + 31] = noise
        out = self.path("out.h5")
        self.expect(OK, "preview", f"--step={step}", path, out)
        with h5py.File(path, "r") as whole, h5py.File(out, "r") as file:
            self.assertTrue(
                (file["x"][...] == whole["x"][::step, ::step]).all()
            )

    def test_relative_bound_counts_what_is_not_written(self):
        """The bound of a dataset whose fill values are written."""
        n, chunk = 5000 * 256, 256
        nstored = 300  # few chunks, but enough to compress
        for values, fill in (5, None), (0.5, None), (5, 3.0):
            path, out = self.path("in.h5"), self.path("out.h5")
            walk = values + np.random.default_rng(1).random(chunk * nstored)
            with h5py.File(path, "w") as file:
                for name in "sparse", "dense":
                    x = file.create_dataset(
                        name, shape=(n,), dtype="f4", chunks=(chunk,),
                        fillvalue=fill
                    )
                    if name == "dense":
                        x[...] = x[...]
                    x[chunk * 2:chunk * (2 + nstored)] = walk
            self.expect(OK, "repack", "--rel=1e-3", f"--chunk={chunk}", path,
                        out)
            report = self.json(OK, "info", out)["files"][0]["datasets"]
            dense, sparse = (dataset["parameters"] for dataset in report)
            self.assertEqual(dense, sparse)
            with h5py.File(out, "r") as file:
                self.assertTrue(
                    (file["sparse"][...] == file["dense"][...]).all()
                )
                self.assertLessEqual(
                    file["sparse"].id.get_num_chunks(),
                    file["dense"].id.get_num_chunks(),
                )
                for number in 2, 3, 1 + nstored:
                    at = (number * chunk,)
                    self.assertEqual(
                        *(file[name].id.read_direct_chunk(at)
                          for name in ("sparse", "dense"))
                    )


if __name__ == "__main__":
    unittest.main()
