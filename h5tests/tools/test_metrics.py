#!/usr/bin/env python3
"""Compares `terp compare --metrics` with the formulas of doc/metrics.md, as
numpy and, if installed, scipy and scikit-image compute them."""
import os
import sys
import unittest

from tool_case import OK, ToolTest, terp

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
try:
    import scipy.ndimage
    import scipy.stats
except ImportError:
    scipy = None
try:
    from skimage.metrics import structural_similarity
except ImportError:
    structural_similarity = None

NLAGS, SIDES = 16, {1: 65536, 2: 1024, 3: 128}


def pair(*shape, seed=1, dtype="f8", error=0.01):
    """A smooth field, and a copy with spatially correlated errors."""
    random = np.random.default_rng(seed)
    axes = np.meshgrid(
        *[np.linspace(0, 5, n) for n in shape], indexing="ij", sparse=True
    )
    a = sum(np.sin((i + 2) * x + i) for i, x in enumerate(axes))
    a = a + 0.05 * random.standard_normal(shape)
    e = random.standard_normal(shape)
    for axis in range(len(shape)):
        e = e + 0.5 * np.roll(e, 1, axis)
    return a.astype(dtype), (a + error * e + error / 7).astype(dtype)


def window_weights():
    g = np.exp(-np.arange(-5, 6) ** 2 / (2 * 1.5**2))
    w = np.outer(g, g)
    return w / w.sum()


def ssim(a, b):
    """The metric of a 2-D slice, window by window; missing values are NAN."""
    low = min(np.nanmin(a), np.nanmin(b))
    high = max(np.nanmax(a), np.nanmax(b))
    if high > low:
        a, b = (a - low) / (high - low), (b - low) / (high - low)
    elif high != 0:
        a, b = a / high, b / high
    a, b = np.round(a * 255) / 255, np.round(b * 255) / 255
    weights, found = window_weights(), []
    for y in range(a.shape[0] - 10):
        for x in range(a.shape[1] - 10):
            p, q = a[y : y + 11, x : x + 11], b[y : y + 11, x : x + 11]
            if np.isnan(p[5, 5]):
                continue
            there = ~np.isnan(p)
            w, p, q = weights[there], p[there], q[there]
            w = w / w.sum()
            mp, mq = (w * p).sum(), (w * q).sum()
            vp, vq = (w * p * p).sum() - mp**2, (w * q * q).sum() - mq**2
            both = (w * p * q).sum() - mp * mq
            found.append(
                (2 * mp * mq + 1e-8)
                / (mp**2 + mq**2 + 1e-8)
                * (2 * both + 1e-8)
                / (vp + vq + 1e-8)
            )
    return np.mean(found) if found else None


def spectrum(e):
    """The mean over blocks of the power at each wave number, and the
    divisor."""
    e = np.where(np.isnan(e), 0, e)
    side = SIDES[e.ndim]
    shape = [n // -(-n // side) for n in e.shape]
    divisor = min(max(shape), 1024)
    waves = np.sqrt(
        sum(
            f**2
            for f in np.meshgrid(*[np.fft.fftfreq(n) for n in shape], indexing="ij")
        )
    )
    bins = np.rint(waves * divisor).astype(int)
    power, nblocks = np.zeros(bins.max() + 1), 0
    for corner in np.ndindex(*[n // s for n, s in zip(e.shape, shape)]):
        block = e[tuple(slice(i * s, i * s + s) for i, s in zip(corner, shape))]
        p = np.abs(np.fft.fftn(block)) ** 2 / block.size**2
        power += np.bincount(bins.ravel(), p.ravel())
        nblocks += 1
    return power / nblocks, divisor


def shifted(x, axis, lag):
    n = x.shape[axis]
    return (
        np.take(x, range(lag, n), axis),
        np.take(x, range(n - lag), axis),
    )


class Metrics(ToolTest):
    def write(self, a, b, **options):
        with h5py.File(self.path("a.h5"), "w") as f:
            f.create_dataset("x", data=a, **options)
        with h5py.File(self.path("b.h5"), "w") as f:
            f.create_dataset("x", data=b, **options)
        return self.path("a.h5"), self.path("b.h5")

    def measure(self, a, b, **options):
        document = self.json(
            OK, "compare", *self.write(a, b, **options), "--metrics",
            "--allow-unjudged"
        )
        return document["datasets"][0]["metrics"]

    def near(self, found, expected, relative=1e-9):
        if expected is None or not np.isfinite(expected):
            self.assertIsNone(found)
        else:
            self.assertAlmostEqual(
                found, expected, delta=relative * (abs(expected) + 1e-12)
            )

    def check(self, m, a, b):
        """All metrics of a pair with NAN in both where values are missing."""
        a, b = a.astype("f8"), b.astype("f8")
        there = ~np.isnan(a)
        p, q = a[there], b[there]
        e = q - p
        self.assertEqual(m["values"], p.size)
        self.near(m["rmse"], np.sqrt(np.mean(e**2)))
        self.near(m["correlation"], np.corrcoef(p, q)[0, 1])
        self.near(m["mean_a"], p.mean())
        self.near(m["mean_b"], q.mean())
        self.near(m["drift"], e.mean(), 1e-8)
        self.near(m["drift_of_range"], e.mean() / np.ptp(p), 1e-8)
        self.near(m["drift_of_deviation"], e.mean() / p.std(), 1e-8)
        for name, values, find in (
            ("min_a", a, np.nanargmin),
            ("max_a", a, np.nanargmax),
            ("min_b", b, np.nanargmin),
            ("max_b", b, np.nanargmax),
        ):
            at = np.unravel_index(find(values), a.shape)
            self.assertEqual(m[name], {"value": values[at], "at": list(at)})
        self.check_neighbours(m, a, b, e.mean(), e.var())

    def check_neighbours(self, m, a, b, mean, variance):
        axes = [i for i, n in enumerate(a.shape) if n > 1][-3:]
        self.assertEqual([d["dimension"] for d in m["dimensions"]], axes)
        for d, axis in zip(m["dimensions"], axes):
            da, db = np.diff(a, axis=axis), np.diff(b, axis=axis)
            rmse = np.sqrt(np.nanmean((db - da) ** 2))
            self.near(d["gradient_rmse"], rmse)
            self.near(d["gradient_max_error"], np.nanmax(np.abs(db - da)))
            self.near(
                d["gradient_rmse_of_rms"], rmse / np.sqrt(np.nanmean(da**2))
            )
            nlags = min(NLAGS, a.shape[axis] - 1)
            self.assertEqual(len(d["autocorrelation"]), nlags)
            for lag in range(1, nlags + 1):
                s, t = shifted(b - a - mean, axis, lag)
                self.near(
                    d["autocorrelation"][lag - 1],
                    np.nanmean(s * t) / variance,
                    1e-7,
                )
        mean_a = a[~np.isnan(b - a)].mean()
        for key, values in (
            ("power", b - a),
            ("power_a", np.where(np.isnan(b), b, a) - mean_a),
            ("power_b", np.where(np.isnan(a), a, b) - mean_a),
        ):
            fields = values.reshape(-1, *[a.shape[i] for i in axes])
            power = np.mean([spectrum(e)[0] for e in fields], axis=0)
            self.assertEqual(len(m["spectrum"][key]), len(power))
            np.testing.assert_allclose(
                m["spectrum"][key], power, rtol=1e-8, atol=1e-13 * power.max()
            )
        divisor = spectrum(fields[0])[1]
        np.testing.assert_allclose(
            m["spectrum"]["wave_number"], np.arange(len(power)) / divisor
        )
        if len(axes) > 1:
            self.check_ssim(m, a, b, [a.shape[i] for i in axes[-2:]])

    def check_ssim(self, m, a, b, shape):
        slices = [
            ssim(p, q)
            for p, q in zip(a.reshape(-1, *shape), b.reshape(-1, *shape))
            if not np.isnan(p).all()
        ]
        slices = [s for s in slices if s is not None]
        self.assertEqual(m["ssim_slices"], len(slices))
        self.near(m["ssim"], np.mean(slices) if slices else None, 1e-6)
        self.near(m["ssim_min"], min(slices) if slices else None, 1e-6)

    def test_fields_of_one_to_four_dimensions_are_as_numpy_has_them(self):
        for shape in (
            (5,),
            (1000,),
            (37, 41),
            (1, 64, 1, 32),
            (12, 19, 16),
            (3, 5, 13, 17),
            (9, 10),
        ):
            with self.subTest(shape):
                a, b = pair(*shape)
                self.check(self.measure(a, b), a, b)

    def test_fields_of_several_blocks_are_as_numpy_has_them(self):
        for shape, chunks in (
            ((131077,), (10000,)),
            ((1040, 23), (64, 23)),
            ((11, 1031), None),
            ((141, 5, 6), (50, 5, 6)),
        ):
            with self.subTest(shape):
                a, b = pair(*shape, dtype="f4")
                self.check(self.measure(a, b, chunks=chunks), a, b)

    def test_missing_values_are_left_out(self):
        a, b = pair(3, 30, 25)
        a[0, 3:17, 4:9] = b[0, 3:17, 4:9] = np.nan
        a[1] = b[1] = np.nan
        self.check(self.measure(a, b), a, b)
        for fill, declared in ((-5e20, -5e20), (1e20, None)):
            with self.subTest(fill):
                p, q = np.where(np.isnan(a), fill, a), np.where(
                    np.isnan(b), fill, b
                )
                options = {"fillvalue": declared} if declared else {}
                self.check(self.measure(p, q, **options), a, b)

    def test_values_that_only_b_lacks_are_left_out(self):
        a, b = pair(30, 25)
        holes = b.copy()
        holes[4, 5], holes[6, 7] = np.nan, np.inf
        found = self.measure(a, holes)
        lost = ~np.isfinite(holes)
        self.check(
            found, np.where(lost, np.nan, a), np.where(lost, np.nan, b)
        )

    def test_constants_and_single_values_have_what_is_defined(self):
        for value in (0.0, 3.0):
            a = np.full((20, 20), value)
            m = self.measure(a, a)
            self.assertEqual(m["rmse"], 0)
            self.assertEqual(m["ssim"], 1)
            self.assertIsNone(m["correlation"])
            self.assertIsNone(m["drift_of_range"])
            self.assertIsNone(m["dimensions"][0]["gradient_rmse_of_rms"])
            self.assertEqual(m["dimensions"][0]["autocorrelation"], [None] * 16)
            for key in ("power", "power_a", "power_b"):
                self.assertEqual(set(m["spectrum"][key]), {0})
        m = self.measure(np.array(2.0), np.array(2.5))
        self.assertEqual((m["rmse"], m["drift"]), (0.5, 0.5))
        self.assertEqual(m["dimensions"], [])
        self.assertEqual(m["spectrum"]["power"], [0.25])
        self.assertEqual(m["spectrum"]["power_a"], [0])
        self.assertEqual(m["spectrum"]["power_b"], [0.25])

    def test_small_errors_do_not_drown_in_the_values(self):
        a = pair(64, 64)[0]
        b = a + 1e-13 * pair(64, 64, seed=2)[0]
        m = self.measure(a, b)
        power = spectrum(b - a)[0]
        np.testing.assert_allclose(m["spectrum"]["power"], power, rtol=1e-8,
                                   atol=1e-13 * power.max())

    def test_power_adds_up_to_the_mean_square_error(self):
        for shape in ((8, 8, 8), (30, 31), (97,)):
            a, b = pair(*shape)
            m = self.measure(a, b)
            self.near(sum(m["spectrum"]["power"]), m["rmse"] ** 2)

    def test_integers_and_all_nan_have_none(self):
        for values in (np.arange(400), np.full((20, 20), np.nan)):
            document = self.json(
                OK, "compare", *self.write(values, values), "--metrics"
            )
            self.assertNotIn("metrics", document["datasets"][0])

    def test_table_tells_them_and_only_when_asked(self):
        a, b = pair(20, 30)
        files = (*self.write(a, b), "--allow-unjudged")
        self.assertEqual(len(self.expect(OK, "compare", *files).splitlines()), 2)
        text = self.expect(OK, "compare", *files, "--metrics")
        for word in ("RMSE", "SSIM", "drift", "dimension 1", "power"):
            self.assertIn(word, text)
        at = np.unravel_index(a.argmin(), a.shape)
        self.assertIn(f"at [{at[0]}, {at[1]}]", text)

    def test_picture_grows_by_panels(self):
        files = (*self.write(*pair(40, 50)), "--allow-unjudged")
        directory = self.path("png")
        heights = []
        for options in ([], ["--metrics"]):
            result = terp("compare", *files, f"--png={directory}", *options)
            if "built without" in result.stderr:
                self.skipTest(result.stderr)
            self.assertEqual(result.returncode, OK, result.stderr)
            with open(os.path.join(directory, "x.png"), "rb") as file:
                heights.append(int.from_bytes(file.read(24)[20:], "big"))
        self.assertEqual(heights, [720, 960])

    @unittest.skipUnless(scipy, "needs scipy")
    def test_correlation_and_windows_are_scipys(self):
        a, b = pair(40, 33)
        m = self.measure(a, b)
        self.near(
            m["correlation"], scipy.stats.pearsonr(a.ravel(), b.ravel())[0]
        )
        low, high = min(a.min(), b.min()), max(a.max(), b.max())
        p, q = (np.round((x - low) / (high - low) * 255) / 255 for x in (a, b))

        def mean(x):
            return scipy.ndimage.gaussian_filter(x, 1.5, truncate=3.5)

        mp, mq = mean(p), mean(q)
        index = (
            (2 * mp * mq + 1e-8)
            / (mp**2 + mq**2 + 1e-8)
            * (2 * (mean(p * q) - mp * mq) + 1e-8)
            / (mean(p * p) - mp**2 + mean(q * q) - mq**2 + 1e-8)
        )
        self.near(m["ssim"], index[5:-5, 5:-5].mean(), 1e-6)

    @unittest.skipUnless(structural_similarity, "needs scikit-image")
    def test_ssim_is_that_of_scikit_image(self):
        a, b = pair(40, 33)
        low, high = min(a.min(), b.min()), max(a.max(), b.max())
        p, q = (np.round((x - low) / (high - low) * 255) / 255 for x in (a, b))
        expected = structural_similarity(
            p,
            q,
            data_range=1,
            K1=1e-4,
            K2=1e-4,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
        )
        self.near(self.measure(a, b)["ssim"], expected, 1e-6)


if __name__ == "__main__":
    # numpy warns of slices without values, which have no mean.
    unittest.main(warnings="ignore")
