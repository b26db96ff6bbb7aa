#!/usr/bin/env python3
"""terp repack makes no dataset larger: it keeps filters that compress better,
and chooses chunks if the input's are tiny."""
import os
import sys
import unittest

from tool_case import OK, ToolTest

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

FILTER = 46117


def filters(dataset):
    plist = dataset.id.get_create_plist()
    return [plist.get_filter(i)[0] for i in range(plist.get_nfilters())]


def few_values(n=300):
    """A map of few different values, which dictionary coders compress well."""
    random = np.random.default_rng(3)
    y, x = np.mgrid[0:n, 0:n]
    values = np.zeros((n, n))
    for _ in range(60):
        at, reach = random.integers(0, n, 2), random.integers(3, n // 8)
        inside = (y - at[0])**2 + (x - at[1])**2 < reach**2
        values[inside] = np.minimum(
            1, values[inside] + random.integers(1, 5) / 10)
    noisy = (random.random((n, n)) < 0.1) & (values > 0)
    values[noisy] = random.integers(0, 11, noisy.sum()) / 10
    return np.round(values, 1).astype("f4")


class Growth(ToolTest):
    # Format 2 has ranks, which make few_values smaller than deflate does.
    def repack(self, path, *arguments):
        out = self.path("out.h5")
        said = self.expect(OK, "repack", path, out, "--format=1", "--verbose",
                           *arguments)
        return out, said

    def test_filters_that_do_better_are_kept(self):
        path = self.path("in.h5")
        values = few_values()
        smooth = np.sin(np.add.outer(np.arange(300) / 50, np.arange(300) / 70))
        with h5py.File(path, "w") as file:
            for name, data in ("few", values), ("smooth", smooth):
                file.create_dataset(name, data=data, chunks=(100, 100),
                                    compression="gzip", shuffle=name == "smooth",
                                    compression_opts=9, fillvalue=-1)
            file["few"].attrs["note"] = "kept"
        for option in "--lossless", "--rel=1e-4":
            out, said = self.repack(path, option, "--rest=deflate")
            self.assertIn("/few: copied: its own filters make it smaller\n",
                          said)
            with h5py.File(path, "r") as a, h5py.File(out, "r") as b:
                self.assertEqual(filters(b["few"]), filters(a["few"]))
                self.assertEqual(filters(b["smooth"]), [FILTER])
                for name in a:
                    self.assertLessEqual(b[name].id.get_storage_size(),
                                         a[name].id.get_storage_size())
                self.assertEqual(b["few"].attrs["note"], "kept")
                self.assertEqual(b["few"].fillvalue, -1)
                np.testing.assert_array_equal(b["few"][()], values)
            # Streams that were written and replaced leave no gap in the file.
            self.assertLess(os.path.getsize(out), os.path.getsize(path))

    # Also with --chunk; datasets that keep their filters keep their chunks.
    def test_chunks_that_are_kept_are_the_inputs(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file.create_dataset("few", data=few_values(), chunks=(100, 100),
                                compression="gzip", compression_opts=9)
        out, _ = self.repack(path, "--lossless", "--chunk=50x50")
        with h5py.File(out, "r") as file:
            self.assertEqual(file["few"].chunks, (100, 100))
            self.assertEqual(filters(file["few"]), [1])

    def test_noise_stays_as_it_is(self):
        path = self.path("in.h5")
        bits = np.random.default_rng(1).integers(0, 1 << 32, 100000, "u4")
        with h5py.File(path, "w") as file:
            file["noise"] = bits
            file.create_dataset("chunked", data=bits, chunks=(25000,))
        out, said = self.repack(path, "--lossless")
        self.assertEqual(said.count("copied: terp does not make it smaller"), 2)
        with h5py.File(out, "r") as file:
            for name in file:
                np.testing.assert_array_equal(file[name][()], bits)
                self.assertEqual(filters(file[name]), [])
            self.assertIsNone(file["noise"].chunks)

    # A user who chooses a pipeline gets it.
    def test_streams_of_terp_are_replaced(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file["x"] = np.sin(np.arange(100000) / 50)
        small, _ = self.repack(path, "--abs=1e-3", "--pipeline=ratio")
        os.replace(small, path)
        out, _ = self.repack(path, "--lossless")
        with h5py.File(path, "r") as a, h5py.File(out, "r") as b:
            self.assertEqual(filters(b["x"]), [FILTER])
            self.assertGreater(b["x"].id.get_storage_size(),
                               a["x"].id.get_storage_size())

    def test_lost_chunks_are_noted_where_filters_are_kept(self):
        path = self.path("in.h5")
        values = few_values()
        with h5py.File(path, "w") as file:
            file.create_dataset("few", data=values, chunks=(100, 100),
                                compression="gzip", compression_opts=9)
            info = file["few"].id.get_chunk_info(5)
        with open(path, "r+b") as file:
            file.seek(info.byte_offset)
            file.write(bytes(info.size))
        out = self.path("out.h5")
        said = self.expect(1, "repack", path, out, "--lossless", "--format=1",
                           "--salvage", "--verbose")
        self.assertIn("/few: copied: its own filters", said)
        with h5py.File(out, "r") as file:
            self.assertEqual(list(file["few"].attrs["terp_lost"]),
                             [b"100:200, 200:300"])
            got = file["few"][()]
        self.assertTrue(np.isnan(got[100:200, 200:300]).all())
        got[100:200, 200:300] = values[100:200, 200:300]
        np.testing.assert_array_equal(got, values)

    def test_tiny_chunks_are_replaced(self):
        path = self.path("in.h5")
        values = np.random.default_rng(0).normal(0, 100, (20000, 2)).astype(
            "f4")
        with h5py.File(path, "w") as file:
            file.create_dataset("v", data=values, chunks=(1, 2),
                                maxshape=(None, 2))
        for option, bound in ("--lossless", 0), ("--rel=1e-3", 1):
            out, said = self.repack(path, option)
            self.assertIn("chunks 20000x2 in place of 1x2", said)
            self.assertLess(os.path.getsize(out), 0.3 * os.path.getsize(path))
            with h5py.File(out, "r+") as file:
                self.assertLessEqual(np.abs(file["v"][()] - values).max(),
                                     bound)
                self.assertEqual(file["v"].maxshape, (None, 2))
                file["v"].resize(30000, axis=0)
                file["v"][20000:] = 7
                self.assertTrue((file["v"][20000:] == 7).all())

    def test_chunks_that_hold_all_or_are_few_stay(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file.create_dataset("whole", data=np.arange(500.0), chunks=(500,))
            x = file.create_dataset("sparse", (20000, 2), "f4", chunks=(10, 2))
            x[:100] = 1.5
        out, _ = self.repack(path, "-d", "*=lossless")
        with h5py.File(out, "r") as file:
            self.assertEqual(file["whole"].chunks, (500,))
            self.assertEqual(file["sparse"].chunks, (10, 2))
            self.assertEqual(file["sparse"].id.get_num_chunks(), 10)

    def test_tiny_chunks_of_the_rest_are_replaced(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file.create_dataset("text", data=np.full(3000, b"text"),
                                chunks=(2,), maxshape=(None,))
        out, _ = self.repack(path, "--lossless", "--rest=deflate")
        with h5py.File(out, "r") as file:
            self.assertEqual(file["text"].chunks, (3000,))
            self.assertEqual(file["text"].maxshape, (None,))
            self.assertTrue((file["text"][()] == b"text").all())


if __name__ == "__main__":
    unittest.main()
