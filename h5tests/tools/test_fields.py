#!/usr/bin/env python3
"""Several fields in one dataset, such as records of particles: terp repack
reports their ranges, and makes chunks of whole records."""
import re
import sys
import unittest

from tool_case import OK, ToolTest, terp, warnings_of

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def particles(n=60000):
    """Position, velocity, mass, weight and energy of each particle, in SI
    units."""
    random = np.random.default_rng(1)
    cell = np.sort(random.integers(0, 64**3, n))
    x, y, z = ((c + random.random(n)) / 64
               for c in (cell % 64, cell // 64 % 64, cell // 4096))
    noise = 1e3 * random.normal(size=(3, n))
    return np.stack([
        x, y, z, 1e5 * np.sin(7 * x) + noise[0], 1e5 * np.cos(5 * y) + noise[1],
        1e5 * np.sin(x + 3 * z) + noise[2], 1e-27 * (1 + 0.1 * np.sin(9 * x)),
        1e9 * (1 + 0.2 * np.cos(3 * x)), 1e-3 * np.exp(np.sin(4 * y))
    ], axis=1)


class Fields(ToolTest):
    def repack(self, arguments, **datasets):
        """The output file and the messages."""
        path, out = self.path("in.h5"), self.path("out.h5")
        with h5py.File(path, "w") as file:
            for name, values in datasets.items():
                file[name] = values
        result = terp("repack", path, out, *arguments)
        self.assertEqual(result.returncode, OK, result.stderr)
        return out, warnings_of(result)

    def check_warning(self, said, n, ranges):
        found = re.search(rf"/x: it seems to hold {n}.* fields.* with the "
                          r"ranges (.*); one bound of \S+ for all leaves "
                          r"little of the smallest: use --pwr", said)
        self.assertTrue(found, said)
        told = [float(text) for text in re.split(", | and ", found[1])]
        # The ranges are those of a sample.
        np.testing.assert_array_less(0.3 * ranges, told)
        np.testing.assert_array_less(told, 1.01 * ranges)

    def test_relative_bound_of_records_tells_ranges(self):
        records = particles()
        for n in 2, 7, 9:
            some = records[:, 9 - n:]
            ranges = np.ptp(some, axis=0)
            for values in (some.reshape(-1), some,
                           some.astype("f4").reshape(-1)):
                with self.subTest(f"{n} {values.shape} {values.dtype}"):
                    _, said = self.repack(["--rel=1e-3"], x=values)
                    self.check_warning(said, n, ranges)
        for bound in "--psnr=60", "--abs=1e5":
            _, said = self.repack([bound], x=records)
            self.check_warning(said, n, ranges)

    def test_vectors_and_odd_fields_are_no_gradual_change(self):
        random = np.random.default_rng(5)
        vectors = np.repeat([1, 30, 1e-3, 2e4], 3)
        odd = np.ones(16)
        odd[7] = 1e-6
        for scale in vectors, odd, np.append(np.ones(40), 1e4):
            with self.subTest(n=len(scale)):
                _, said = self.repack(
                    ["--rel=1e-3"],
                    x=scale * random.normal(size=(8192, len(scale))))
                self.assertIn(f"it seems to hold {len(scale)} interleaved", said)

    def test_fields_behind_each_other_are_told(self):
        records = particles().T
        for values in records, records[3:].reshape(6, 60, 1000):
            _, said = self.repack(["--rel=1e-3"], x=values)
            self.check_warning(
                said, len(values),
                np.ptp(values.reshape(len(values), -1), axis=1))

    def test_fill_values_do_not_make_fields(self):
        values = np.random.default_rng(2).random(40000)
        values[::4] = 1e30
        path, out = self.path("in.h5"), self.path("out.h5")
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=values, fillvalue=1e30)
            file["y"] = values
            file["y"].attrs["_FillValue"] = 1e30
            file["z"] = np.where(values == 1e30, np.nan, values)
        result = terp("repack", path, out, "--rel=1e-3")
        self.assertEqual((result.returncode, warnings_of(result)), (OK, ""))

    def test_one_field_is_no_reason_to_warn(self):
        random = np.random.default_rng(3)
        walk = np.cumsum(random.normal(size=300000))
        height = np.exp(-np.arange(12) / 1.5)  # like water in the air
        spikes = random.normal(size=50000)
        spikes[::9973] = 1e9
        # An amplitude that passes through 0.
        wave = np.cos(2 * np.pi * np.arange(64) / 64)
        crossing = wave * (1 + 1e-3 * random.normal(size=(4096, 64)))
        bell = np.exp(-((np.arange(64) - 20) / 6.0)**2)
        for name, values in {
                "walk": walk,
                "noise": random.lognormal(0, 3, 100000),
                "narrow": walk[:60000].reshape(-1, 6),
                "spikes": spikes,
                "zeros": np.zeros(10000),
                "levels": height[:, None, None] * (1 + random.random(
                    (12, 50, 50))),
                "alike": random.random((4000, 9)),
                "wave": np.sin(np.arange(100000) / 7.3),
                "crossing": crossing,
                "crossing line": crossing.reshape(-1),
                "crossing first": crossing.T[::4].reshape(16, 64, 64),
                "crossing noise": wave * random.normal(size=(4096, 64)),
                "short crossing": wave[::8] * random.uniform(1, 2, (4096, 8)),
                "bell": bell * random.uniform(1, 2, (4096, 64)),
        }.items():
            with self.subTest(name):
                self.assertEqual(self.repack(["--rel=1e-3"], x=values)[1], "")

    # A netCDF variable is one field, whatever its dimensions are.
    def test_dimensions_with_scales_are_no_fields(self):
        path, out = self.path("in.h5"), self.path("out.h5")
        with h5py.File(path, "w") as file:
            file["x"] = particles()
            file["index"] = np.arange(9.0)
            file["index"].make_scale("index")
            file["x"].dims[1].attach_scale(file["index"])
        result = terp("repack", path, out, "--rel=1e-3")
        self.assertEqual((result.returncode, warnings_of(result)), (OK, ""))

    def test_bounds_that_suit_all_fields_are_not_warned_of(self):
        records = particles()
        for bound in "--pwr=1e-3", "--lossless", "--abs=1e-30":
            self.assertEqual(self.repack([bound], x=records)[1], "")

    def test_chunks_hold_whole_records(self):
        records = particles()
        # If chunk shapes are equally good, each field has an equal share.
        line = np.cumsum(np.random.default_rng(4).normal(size=500000))
        for n, dtype in (9, "f8"), (7, "f4"), (11, "f8"):
            some = np.concatenate([records, records[:, 3:5] ** 2], axis=1)[:, :n]
            flat = np.resize(some.astype(dtype).reshape(-1), 500000 // n * n)
            out, _ = self.repack(["--pwr=1e-3"], x=flat, line=line)
            with h5py.File(out, "r") as file:
                chunk, = file["x"].chunks
                self.assertEqual(chunk % n, 0)
                self.assertTrue(230000 < chunk < 290000, chunk)
                self.assertEqual(file["line"].chunks, (250000,))
                stored = file["x"].id.get_storage_size()
                error = np.abs(file["x"][()] / flat.astype("f8") - 1)
                self.assertLessEqual(error.max(), 1.001e-3)
            # Chunks that cut records take more bytes.
            out, _ = self.repack(["--pwr=1e-3", "--chunk=250000"], x=flat)
            with h5py.File(out, "r") as file:
                self.assertLess(stored,
                                0.75 * file["x"].id.get_storage_size())

    def test_boxes_in_a_line_stay_whole(self):
        axes = np.meshgrid(*[np.arange(64) / 9.0] * 3, indexing="ij")
        box = np.sin(axes[0]) * np.cos(axes[1]) + np.sin(axes[2])
        flat = np.concatenate([box.reshape(-1) * k for k in (1, 1.1, 1.2)])
        out, _ = self.repack(["--rel=1e-3"], x=flat[:700000])
        with h5py.File(out, "r") as file:
            self.assertEqual(file["x"].chunks, (64**3,))

    def test_advise_tells_of_fields(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file["x"] = particles().reshape(-1)
            file["y"] = np.cumsum(particles()[:, 0])
        said = self.expect(OK, "advise", path)
        self.assertEqual(said.count("it seems to hold 9 fields with the ranges"),
                         1)
        self.assertIn("terp repack IN OUT --rel 1e-3", said)
        self.assertIn("terp repack IN OUT --pwr 1e-3",
                      self.expect(OK, "advise", path, "--pwr"))
        found = self.json(OK, "advise", path)["datasets"]
        self.assertIn("9 fields", found[0]["note"])
        self.assertIsNone(found[1]["note"])


if __name__ == "__main__":
    unittest.main()
