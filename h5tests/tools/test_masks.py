#!/usr/bin/env python3
"""terp repack --mask: values that another variable masks."""
import sys
import unittest

from tool_case import FOUND, OK, TROUBLE, ToolTest, terp, warnings_of

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

SHAPE = 3, 4, 30, 40  # time, level, latitude, longitude


class Masks(ToolTest):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(3)
        self.x = random.normal(size=SHAPE).cumsum(-1).astype("f4")
        self.land = random.random(SHAPE[2:]) < 0.3
        self.land[:10, :15] = True

    def write(self, land=0.0, fillvalue=None, mask=None, dtype="f4", **variables):
        """x has `land` under the mask, a number or an array."""
        path = self.path("in.h5")
        x = np.where(self.land, land, self.x).astype(dtype)
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=x, fillvalue=fillvalue,
                                chunks=(1, 4, 30, 40))
            file["land"] = self.land.astype("i1") if mask is None else mask
            for name, values in variables.items():
                file[name] = values
        return path, x

    def repack(self, path, *arguments, code=OK):
        out = self.path("out.h5")
        message = self.expect(code, "repack", path, out, *arguments)
        if code != OK:
            return message
        with h5py.File(out, "r") as file:
            return file["x"][:]

    def bound(self):
        """The absolute bound of x in the output."""
        dataset = self.json(OK, "info", self.path("out.h5"))["files"][0]
        return next(d for d in dataset["datasets"]
                    if d["path"] == "/x")["parameters"]["bound"]

    def span(self):
        valid = self.x[:, :, ~self.land]
        return float(valid.max()) - float(valid.min())

    def check_valid(self, got, rel=1e-3):
        """The bound is of the range of the values that are not masked."""
        self.assertAlmostEqual(self.bound() / (rel * self.span()), 1, 6)
        error = abs(got.astype("f8") - self.x)[:, :, ~self.land]
        self.assertTrue(0.5 * self.bound() < error.max() <= self.bound())

    def test_masked_values_are_kept_and_do_not_count(self):
        for land in 0.0, -1e5:
            for dtype in "f4", ">f8":
                path, x = self.write(land, dtype=dtype)
                got = self.repack(path, "--rel=1e-3", "--mask=land", "--record")
                self.check_valid(got)
                np.testing.assert_array_equal(got[:, :, self.land],
                                              x[:, :, self.land])
                self.expect(OK, "compare", path, self.path("out.h5"))
        # Without the mask the range is much larger.
        self.repack(path, "--rel=1e-3")
        self.assertGreater(self.bound(), 100 * self.span() * 1e-3)

    def test_fill_values_and_one_more_number_are_kept(self):
        land = np.where(np.arange(40) < 10, np.nan, 1e20)
        land[20:] = 7
        path, x = self.write(land, fillvalue=1e20)
        for bound in "--rel=1e-3", "--abs=0.01", "--pwr=1e-2":
            got = self.repack(path, bound, "--mask=land:1")
            np.testing.assert_array_equal(got[:, :, self.land],
                                          x[:, :, self.land])

    def test_different_masked_values_are_refused(self):
        for path, _ in (self.write(np.arange(40.0)),
                        self.write(np.where(np.arange(40) < 9, 0.0, -0.0))):
            out = self.repack(path, "--rel=1e-3", "--mask=land", code=TROUBLE)
            self.assertIn("--mask land: the values that it masks are different "
                          "numbers", out)
            self.assertIn("use --mask-fill", out)

    def test_masked_values_are_replaced_on_request(self):
        noise = np.random.default_rng(4).normal(size=(30, 40)) * 1e6
        for fillvalue, attribute, fill in (
            (-99, None, -99), (None, 1e30, np.float32(1e30)), (None, None, np.nan),
        ):
            for dtype in "f4", ">f8":
                path, _ = self.write(noise, fillvalue, dtype=dtype)
                if attribute is not None:
                    with h5py.File(path, "a") as file:
                        file["x"].attrs["_FillValue"] = np.float32(attribute)
                # Slabs of one chunk, and one slab.
                for threads in "--threads=1", "--threads=2":
                    got = self.repack(path, "--rel=1e-3", "--mask=land",
                                      "--mask-fill", "--record", threads)
                    self.check_valid(got)
                    np.testing.assert_array_equal(
                        got[:, :, self.land],
                        np.full_like(got[:, :, self.land], fill))
        # The input has other values there, which compare tells.
        self.expect(FOUND, "compare", path, self.path("out.h5"))
        got = self.repack(path, "--abs=0.01", "--mask=land", "--mask-fill")
        self.assertTrue(np.isnan(got[:, :, self.land]).all())
        self.expect(OK, "repack", path, "--in-place", "--abs=0.01", "--mask=land",
                    "--mask-fill")

    def test_values_of_masks(self):
        for mask, text in (
            (self.land, "land"), (self.land, "land:1"), (~self.land, "land:0"),
            (np.where(self.land, 2, 5).astype("i2"), "/land:2"),
            (np.where(self.land, 0.1, 1).astype("f4"), "land:0.1"),
            (np.where(self.land, np.nan, 1), "land:fill"),
            (self.land[None, None], "land"),
            (np.broadcast_to(self.land, SHAPE[1:]), "land"),
            (np.broadcast_to(self.land, SHAPE), "x=land"),
            (self.land, "*x=land:1"),
        ):
            with self.subTest(text):
                path, x = self.write(-1e5, mask=mask)
                got = self.repack(path, "--rel=1e-3", f"--mask={text}")
                self.check_valid(got)
                np.testing.assert_array_equal(got[:, :, self.land],
                                              x[:, :, self.land])
        path, _ = self.write(-1e5, mask=np.where(self.land, -7.0, 1))
        with h5py.File(path, "a") as file:
            file["land"].attrs["_FillValue"] = -7.0
        self.check_valid(self.repack(path, "--rel=1e-3", "--mask=land:fill"))

    def test_the_last_mask_that_fits_counts(self):
        path, _ = self.write(-1e5, none=np.zeros(SHAPE[2:], "i1"),
                             other=np.ones((5, 7), "i1"),
                             y=np.ones((200, 5, 7), "f4"))
        self.check_valid(self.repack(
            path, "--rel=1e-3", "--mask=none", "--mask=land", "--mask=other"),)

    def test_grids_of_the_same_shape_are_told_apart_by_their_scales(self):
        path, _ = self.write(-1e5)
        with h5py.File(path, "a") as file:
            for name in "u", "v":
                file[f"lat_{name}"] = np.arange(30.0)
                file[f"lat_{name}"].make_scale()
            file["x"].dims[2].attach_scale(file["lat_u"])
            file["land"].dims[0].attach_scale(file["lat_v"])
        out = self.repack(path, "--rel=1e-3", "--mask=land", code=TROUBLE)
        self.assertIn("--mask land: no dataset that terp compresses with loss has "
                      "its dimensions", out)
        with h5py.File(path, "a") as file:
            file["land"].dims[0].detach_scale(file["lat_v"])
            file["land"].dims[0].attach_scale(file["lat_u"])
        self.check_valid(self.repack(path, "--rel=1e-3", "--mask=land"))

    def test_masks_of_no_or_all_values_are_told(self):
        path, _ = self.write(-1e5, sea=np.ones((30, 40), "i1"))
        for mask, message in (("land:2", "land: --mask land:2 masks no value\n"),
                              ("sea:1", "sea: --mask sea:1 masks all values\n"),
                              ("land:1", "")):
            result = terp("repack", path, self.path("out.h5"), "--rel=1e-3",
                          f"--mask={mask}", "--mask-fill")
            self.assertEqual(result.returncode, OK, result.stderr)
            self.assertEqual(warnings_of(result),
                             message and f"terp repack: {message}")

    def test_wrong_masks_are_trouble(self):
        path, _ = self.write(name=np.bytes_(b"text"))
        for arguments, message in (
            (["--mask=sea"], "--mask sea: the file has no such dataset"),
            (["--mask=name"], "must be an array of numbers"),
            (["--mask=x=name"], "must be an array of numbers"),
            (["--mask=land", "--lossless"], "no dataset that terp compresses"),
            (["--mask=x=x:fill", "--mask=land", "--dataset=x=none"],
             "no dataset that terp compresses"),
            (["--mask="], "must be [GLOB=]VARIABLE"),
            (["--mask==land"], "must be [GLOB=]VARIABLE"),
            (["--mask-fill"], "--mask-fill needs --mask"),
        ):
            bound = [] if "--lossless" in arguments else ["--rel=1e-3"]
            self.assertIn(message, self.repack(path, *bound, *arguments,
                                               code=TROUBLE))
        with h5py.File(path, "a") as file:
            file["small"] = np.ones((5, 7))
        self.assertIn("its last dimensions are not those of the mask",
                      self.repack(path, "--rel=1e-3", "--mask=x=small",
                                  code=TROUBLE))


if __name__ == "__main__":
    unittest.main()
