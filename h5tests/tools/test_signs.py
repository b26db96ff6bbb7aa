#!/usr/bin/env python3
"""terp repack keeps limits beside the bound: values that are never negative
stay so, and values stay within a variable's valid range."""
import json
import sys
import unittest

from tool_case import OK, TROUBLE, ToolTest, terp

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

SHAPE = (24, 24, 24)
BOUNDS = ["--rel=1e-2", "--abs=1e-2", "--psnr=40", "--pwr=0.1"]


def cube():
    return np.meshgrid(*[np.linspace(0, 1, n) for n in SHAPE], indexing="ij")


def amount():
    """Smooth, never negative, and near 0 in large regions."""
    x, y, z = cube()
    return (x**4 * y**3 * z).astype("f4")


def fraction():
    """From 0 to 1, both in large regions."""
    x, y, _ = cube()
    return np.clip(2 * x + 0.3 * np.sin(9 * y) - 0.5, 0, 1).astype("f4")


def wave():
    """Smooth, with both signs."""
    x, y, z = cube()
    return (np.sin(7 * x + z) * np.cos(5 * y + 2 * x * z)).astype("f4")


class Limits(ToolTest):
    def write(self, values, **attributes):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file["x"] = values
            for name, value in attributes.items():
                file["x"].attrs[name] = value
        return path

    def repack(self, path, *arguments):
        """The values after the repack."""
        out = self.path("out.h5")
        result = terp("repack", path, out, "-v", *arguments)
        self.assertEqual(result.returncode, OK, result.stderr)
        self.said = result.stdout
        with h5py.File(out, "r") as file:
            self.assertIn("46117", file["x"]._filters)
            return file["x"][()]

    def parameters(self):
        result = terp("info", "--json", self.path("out.h5"))
        file = json.loads(result.stdout)["files"][0]
        return file["datasets"][0]["parameters"]

    def test_amounts_do_not_become_negative(self):
        path = self.write(amount())
        nnegative = 0
        for bound in BOUNDS:
            self.assertGreaterEqual(self.repack(path, bound).min(), 0, bound)
            free = self.repack(path, bound, "--keep-sign=none")
            nnegative += np.count_nonzero(free < 0)
        self.assertGreater(nnegative, 0)

    def test_amounts_with_fill_values_do_not_become_negative(self):
        values = amount()
        values[:5] = -999
        path = self.write(values, _FillValue=np.float32(-999))
        back = self.repack(path, "--rel=1e-2")
        self.assertTrue(np.array_equal(back == -999, values == -999))
        self.assertGreaterEqual(back[values != -999].min(), 0)

    def test_negative_amounts_do_not_become_positive(self):
        path = self.write(-amount().astype("f8"))
        self.assertLessEqual(self.repack(path, "--rel=1e-2").max(), 0)

    def test_bound_holds_within_limits(self):
        values = fraction()
        path = self.write(values, valid_range=np.float32([0, 1]))
        error = np.abs(self.repack(path, "--abs=1e-2").astype("f8") - values)
        self.assertLessEqual(error.max(), 1e-2)
        self.assertGreater(error.max(), 0)

    def test_fractions_stay_in_their_valid_range(self):
        path = self.write(fraction(), valid_range=np.float32([0, 1]))
        nabove = 0
        for bound in BOUNDS:
            back = self.repack(path, bound)
            self.assertIn(", valid range 0 to 1", self.said)
            self.assertGreaterEqual(back.min(), 0, bound)
            self.assertLessEqual(back.max(), 1, bound)
            free = self.repack(path, bound, "--valid-range=none")
            self.assertNotIn("valid range", self.said)
            nabove += np.count_nonzero(free > 1)
        self.assertGreater(nabove, 0)

    def test_either_end_counts_by_itself(self):
        path = self.write(wave(), valid_min=wave().min())
        self.assertGreaterEqual(
            self.repack(path, "--rel=1e-2").min(), wave().min())
        path = self.write(wave(), valid_max=wave().max())
        free = self.repack(path, "--rel=1e-2", "--valid-range=none")
        self.assertGreater(free.max(), wave().max())
        self.assertLess(free.min(), wave().min())
        self.assertLessEqual(
            self.repack(path, "--rel=1e-2").max(), wave().max())

    def test_limit_of_a_wider_type_is_rounded_like_the_values(self):
        """0.7 is rounded up to float32, and 0.1 down."""
        for end in (0.1, 0.7):
            values = fraction() * np.float32(end)
            back = self.repack(
                self.write(values, valid_max=np.float64(end)), "--rel=1e-2")
            self.assertEqual(values.max(), np.float32(end))
            self.assertLessEqual(back.max(), np.float32(end))

    def test_packed_values_stay_in_their_range(self):
        packed = np.round(fraction() * 4000 - 2000).astype("i2")
        scale = {"scale_factor": 0.1, "add_offset": 300.0}
        for limits in (np.int16([-2000, 2000]), np.float64([100, 500])):
            path = self.write(packed, valid_range=limits, **scale)
            back = self.repack(path, "--dataset=x=abs:30")
            self.assertGreater(np.count_nonzero(back != packed), 0)
            self.assertGreaterEqual(back.min(), -2000)
            self.assertLessEqual(back.max(), 2000)

    def test_option_counts_before_attributes(self):
        path = self.write(fraction() * 2 - 1, valid_min=-7.0, valid_max=7.0)
        back = self.repack(path, "--rel=1e-2", "--valid-range=-1:")
        self.assertGreaterEqual(back.min(), -1)
        parameters = self.parameters()
        self.assertEqual(parameters["valid_min"], -1)
        self.assertIsNone(parameters["valid_max"])

    def test_all_signs_are_kept_where_that_is_asked_for(self):
        values = wave()
        path = self.write(values)
        back = self.repack(path, "--rel=1e-2", "--keep-sign")
        self.assertIn(", signs kept", self.said)
        self.assertTrue(np.all(back[values >= 0] >= 0))
        self.assertTrue(np.all(back[values <= 0] <= 0))
        back = self.repack(path, "--rel=1e-2")
        self.assertTrue(np.any(back[values >= 0] < 0))

    def test_parameters_tell_limits_that_there_are(self):
        path = self.write(fraction(), valid_range=np.float32([0, 1]))
        for bound, signs, end in (("--rel=1e-2", "chunk", 1),
                                  ("--pwr=1e-2", "none", 1),
                                  ("--lossless", "none", None)):
            self.repack(path, bound)
            parameters = self.parameters()
            self.assertEqual(parameters["keep_sign"], signs)
            self.assertEqual(parameters["valid_max"], end)

    def test_wrong_limits_are_refused(self):
        path = self.write(amount())
        for wrong in ("--valid-range=1", "--valid-range=2:1",
                      "--valid-range=a:1", "--keep-sign=some"):
            result = terp("repack", path, self.path("out.h5"), "--rel=1e-2",
                          wrong)
            self.assertEqual(result.returncode, TROUBLE, wrong)
            result = terp("advise", path, wrong)
            self.assertEqual(result.returncode, TROUBLE, wrong)

    def test_advise_measures_with_limits(self):
        path = self.write(wave())
        ratios = []
        for signs in ("none", "values"):
            result = terp("advise", "--json", f"--keep-sign={signs}", path)
            self.assertEqual(result.returncode, OK, result.stderr)
            choices = json.loads(result.stdout)["datasets"][0]["choices"]
            ratios.append([choice["ratio"] for choice in choices])
        self.assertNotEqual(*ratios)


if __name__ == "__main__":
    unittest.main()
