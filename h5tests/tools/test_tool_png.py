#!/usr/bin/env python3
"""Tests the pictures of `terp compare --png` and `terp advise --png`, pixel by
pixel."""
import math
import os
import resource
import subprocess
import unittest

from tool_case import CUBE, FOUND, OK, TROUBLE, ToolTest, terp

# Positions in tools/compare/plot.c and tools/advise/plot.c, and colours of
# tools/common/plot_draw.c.
SIDE = 320
ORIGINAL, COPY, ERROR = (20, 100), (356, 100), (800, 100)
CHART_X, CHART_WIDTH = 80, 1060
CURVE, ERROR_CURVE, BINS = (100, 170), (310, 110), (480, 170)
NBINS, INSIDE = 49, 20
GREY, BLACK = (0x80, 0x80, 0x80), (0, 0, 0)
ADVICE_Y, ADVICE_WIDTH, ADVICE_HEIGHT = 120, 400, 280
ADVICE_RATIO_X, ADVICE_PSNR_X = 70, 560
SERIES = {
    "ratio": (0x00, 0x72, 0xB2),
    "huffman": (0xD5, 0x5E, 0x00),
}
BAR, RED = (0x3B, 0x6F, 0xB6), (0xD5, 0x5E, 0x00)


class Rows:
    """Rows of (red, green, blue) pixels."""

    def __init__(self, path):
        found = subprocess.run(
            [os.environ["TERP_PNG_PIXELS"], path],
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        size, self.bytes = found.split(b"\n", 1)
        self.width, self.height = map(int, size.split())

    def __getitem__(self, y):
        if isinstance(y, slice):
            return [self[i] for i in range(self.height)[y]]
        row = self.bytes[3 * self.width * y : 3 * self.width * (y + 1)]
        return list(zip(row[::3], row[1::3], row[2::3]))


class Picture(ToolTest):
    def draw(self, code, a, b, *options):
        """Pictures by their names."""
        directory = self.path("png")
        result = terp(
            "compare",
            f"--png={directory}",
            "--allow-unjudged",
            *options,
            self.make("a.h5", *([a] if isinstance(a, str) else a)),
            self.make("b.h5", *([b] if isinstance(b, str) else b)),
        )
        if "built without" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, code, result.stderr)
        return sorted(os.listdir(directory))

    def draw_x(self, code, a, b, *options):
        self.assertEqual(self.draw(code, a, b, *options), ["x.png"])
        return Rows(self.path("png/x.png"))

    def cells(self, rows, panel, n):
        """Colours in the centres of the n x n values of an image."""
        x, y = panel
        step = SIDE / n
        return [
            [row[int(x + (i + 0.5) * step)] for i in range(n)]
            for row in (rows[int(y + (j + 0.5) * step)] for j in range(n))
        ]

    def box(self, rows, top, height):
        return [
            row[CHART_X : CHART_X + CHART_WIDTH]
            for row in rows[top : top + height]
        ]

    def bars(self, rows):
        """Heights and colours of the bars, by bin from the middle."""
        box = self.box(rows, *BINS)
        found = {}
        for k in range(NBINS):
            x = int((k + 0.25) * CHART_WIDTH / NBINS)
            column = [row[x] for row in box if row[x] in (BAR, RED)]
            if column:
                found[k - NBINS // 2] = (len(column), column[0])
        return found


class Images(Picture):
    def test_values_of_a_middle_slice_are_drawn(self):
        a = "new x f32 3x8x8 - - 64=-4,127=4,100=0"
        rows = self.draw_x(OK, a, a.replace("100=0", "100=0.5"), "--abs=1")
        original = self.cells(rows, ORIGINAL, 8)
        copy = self.cells(rows, COPY, 8)
        brightness = [sum(cell) for row in original for cell in row]
        self.assertEqual(min(brightness), brightness[0])
        self.assertEqual(max(brightness), brightness[63])
        for i in range(64):
            same = original[i // 8][i % 8] == copy[i // 8][i % 8]
            self.assertEqual(same, i != 36)

    def test_error_is_red_above_and_blue_below(self):
        rows = self.draw_x(
            OK,
            "new x f64 8x8 - - 9=0,20=0",
            "new x f64 8x8 - - 9=0.5,20=-0.5",
            "--abs=0.5",
        )
        cells = self.cells(rows, ERROR, 8)
        none = cells[0][0]
        self.assertGreater(min(none), 235)
        red, blue = cells[1][1], cells[2][4]
        self.assertGreater(red[0], red[2] + 100)
        self.assertGreater(blue[2], blue[0] + 100)
        self.assertEqual(
            sum(cell != none for row in cells for cell in row), 2
        )

    def test_north_is_up(self):
        try:
            import h5py
        except ImportError:
            self.skipTest("no h5py")
        values = [[0.0] * 8 for _ in range(8)]
        values[0] = [-1.0] * 8
        cases = (
            ([1.0 * i for i in range(8)], "degrees_north", None, True),
            ([1.0 * i for i in range(8)], b"1", "latitude", True),
            ([1.0 * i for i in range(8)], "degrees_east", None, False),
            ([-1.0 * i for i in range(8)], "degrees_north", None, False),
            (None, None, None, False),
        )
        for places, units, name, first_is_below in cases:
            paths = self.path("scaled.h5"), self.path("changed.h5")
            for path in paths:
                with h5py.File(path, "w") as file:
                    x = file.create_dataset("x", data=values)
                    if places is not None:
                        scale = file.create_dataset("lat", data=places)
                        scale.attrs["units"] = units
                        if name is not None:
                            scale.attrs["standard_name"] = name
                        scale.make_scale("lat")
                        x.dims[0].attach_scale(scale)
                    if path == paths[1]:
                        x[0, 0] = -0.5
            directory = self.path("png")
            result = terp("compare", f"--png={directory}", "--abs=1", *paths)
            if "built without" in result.stderr:
                self.skipTest(result.stderr)
            self.assertEqual(result.returncode, OK, result.stderr)
            rows = Rows(self.path("png/x.png"))
            original = self.cells(rows, ORIGINAL, 8)
            errors = self.cells(rows, ERROR, 8)
            below, above = (7, 0) if first_is_below else (0, 7)
            self.assertLess(sum(original[below][1]), sum(original[above][1]))
            self.assertNotEqual(errors[below][0], errors[above][0])
            self.assertEqual(errors[below][1], errors[above][1])

    def test_worse_copy_has_darker_errors(self):
        def brightness(terp_words):
            rows = self.draw_x(
                OK,
                "new x f32 40x40 - - -",
                f"new x f32 40x40 40x40 terp={terp_words} -",
                "--abs=1",
            )
            self.assertTrue(all(c == BAR for _, c in self.bars(rows).values()))
            cells = self.cells(rows, ERROR, 40)
            return sum(sum(cell) for row in cells for cell in row)

        # The scale is the larger of bound and worst error. Both pictures are
        # full.
        self.assertLess(brightness("1,2,1"), 40 * 40 * 3 * 250)
        exact = self.draw_x(
            OK, "new x f32 40x40 - - -", "new x f32 40x40 40x40 terp=1,1,30 -"
        )
        cells = self.cells(exact, ERROR, 40)
        self.assertEqual(len({cell for row in cells for cell in row}), 1)

    def test_special_values_are_grey_and_changed_ones_black(self):
        rows = self.draw_x(
            FOUND,
            "new x f32 8x8 - fill=-7 0=nan,1=inf,2=-7,3=nan,4=1e20,5=1e20",
            "new x f32 8x8 - fill=-7 0=nan,1=inf,2=-7,3=1,4=1e20,5=1e20",
            "--abs=1",
        )
        for panel, changed in ((ORIGINAL, GREY), (COPY, BLACK), (ERROR, BLACK)):
            row = self.cells(rows, panel, 8)[0]
            self.assertEqual(row[:3], [GREY] * 3)
            self.assertEqual(row[3], changed)
            self.assertEqual(row[4:6], [GREY] * 2)
            self.assertNotIn(GREY, row[6:])

    def test_values_of_many_decades_are_told_apart(self):
        # The same share of the smallest and of the largest values.
        errors = f"3={1.4 * 10 ** (3 / 4 - 8)!r},60=6e6"
        values = "f64 %s - - decades=4@-8"
        rows = self.draw_x(
            OK, "new x " + values % "8x8", f"new x {values % '8x8'},{errors}",
            "--pwr=0.5")
        original = sum(self.cells(rows, ORIGINAL, 8), [])
        brightness = [sum(cell) for cell in original]
        self.assertEqual(brightness, sorted(brightness))
        self.assertGreater(len(set(original)), 55)
        errors = sum(self.cells(rows, ERROR, 8), [])
        red, blue = errors[3], errors[60]
        self.assertGreater(red[0], red[2] + 100)
        self.assertGreater(blue[2], blue[0] + 100)
        self.assertEqual(len(set(errors)), 3)
        # Also the curves: the line rises evenly.
        rows = self.draw_x(
            OK, "new x " + values % "64", f"new x {values % '64'},3=1e-7",
            "--abs=1")
        box = self.box(rows, *CURVE)
        for part in range(1, 8):
            column = [row[CHART_WIDTH * part // 8] for row in box]
            drawn = [y for y, c in enumerate(column) if c != (255, 255, 255)]
            self.assertAlmostEqual(
                sum(drawn) / len(drawn), CURVE[1] * (1 - part / 8), delta=6)

    def test_values_around_zero_are_told_apart_evenly(self):
        """A wave has few small values."""
        wave = "new x f64 40x40 - - "
        rows = self.draw_x(OK, wave + "-", wave + "0=1", "--abs=2")
        brightness = [sum(cell) for cell in
                      sum(self.cells(rows, ORIGINAL, 40), [])]
        values = [math.sin(i * 0.01) + 0.3 * math.cos(i * 0.002)
                  for i in range(1600)]
        low, high = min(values), max(values)
        # The brightness rises by equal steps from end to end.
        for i in range(0, 1600, 7):
            at = (values[i] - low) / (high - low)
            near = [b for b, v in zip(brightness, values)
                    if abs((v - low) / (high - low) - at) < 0.004]
            self.assertLess(max(near) - min(near), 20)
        self.assertGreater(len(set(brightness)), 150)

    def test_constant_data_has_one_number(self):
        a = "new x f64 8x8 - - all=3.25"
        b = "new x f64 8x8 8x8 terp=2,1,3 all=3.25"
        rows = self.draw_x(OK, a, b)
        white = (255, 255, 255)
        for bar_x in (704, 1148):  # behind the bars
            def has_ink(y):
                return any(c != white for row in rows[y:y + 16]
                           for c in row[bar_x:bar_x + 60])
            self.assertFalse(has_ink(ORIGINAL[1]))
            self.assertTrue(has_ink(ORIGINAL[1] + SIDE // 2 - 8))
            self.assertFalse(has_ink(ORIGINAL[1] + SIDE - 12))
        # "no error" has no PSNR behind it, because that would not be a number.
        title = rows[44:62]
        self.assertTrue(any(c != white for row in title for c in row[20:180]))
        self.assertFalse(any(c != white for row in title for c in row[300:]))

    def test_long_images_keep_their_shape(self):
        rows = self.draw_x(
            OK, "new x f32 1x10x40x1 - - -", "new x f32 1x10x40x1 - - 0=9"
        )
        white = (255, 255, 255)
        x, y = ORIGINAL
        self.assertNotEqual(rows[y + SIDE // 4 - 1][x + SIDE - 1], white)
        self.assertEqual(rows[y + SIDE // 4][x], white)
        self.assertEqual(rows[y][x + SIDE], white)

    def test_large_images_are_thinned(self):
        rows = self.draw_x(
            OK, "new x f32 20x3000 - - -", "new x f32 20x3000 - - 0=9"
        )
        x, y = ORIGINAL
        self.assertNotEqual(rows[y][x], rows[y][x + 160])


class Histogram(Picture):
    def test_bars_stand_where_the_errors_are(self):
        # The bound is halfway between bins 20 and 21.
        for error, place in (
            ("0.1", 2),
            ("-0.5", -10),
            ("1", 20),
            ("-1", -20),
            ("1.001", 21),
            ("-99", -24),
        ):
            with self.subTest(error):
                inside = abs(float(error)) <= 1
                bars = self.bars(
                    self.draw_x(
                        OK if inside else FOUND,
                        "new x f64 2x2 - - 0=0,1=0,2=0,3=0",
                        f"new x f64 2x2 - - 0=0,1=0,2=0,3={error}",
                        "--abs=1",
                    )
                )
                self.assertEqual(sorted(bars), sorted([0, place]))
                self.assertEqual(bars[0], (BINS[1], BAR))
                height, colour = bars[place]
                self.assertAlmostEqual(height, BINS[1] / 3, delta=1)
                self.assertEqual(colour, BAR if inside else RED)

    def test_errors_of_each_chunk_are_over_its_own_bound(self):
        tiny = ",".join(f"{i}={i}e-9" for i in range(400, 410))
        a = f"new x f64 410 10 - {tiny}"
        bars = self.bars(
            self.draw_x(
                FOUND,
                a,
                f"new x f64 410 10 terp=2,1,3 {tiny}".replace(
                    "=405e-9", "=406e-9"
                ),
            )
        )
        self.assertIn(24, bars)
        self.assertEqual(bars[24][1], RED)
        self.assertGreater(sum(colour == BAR for _, colour in bars.values()), 9)

    def test_compressed_copy_fills_the_bars_inside(self):
        bars = self.bars(
            self.draw_x(
                OK, f"new x f32 {CUBE} - -", f"new x f32 {CUBE} terp=2,1,5 -"
            )
        )
        self.assertEqual(
            sorted(bars), list(range(-INSIDE, INSIDE + 1))
        )


class Curves(Picture):
    def test_peak_stands_where_the_values_differ(self):
        rows = self.draw_x(
            OK, "new x f64 100 - - 30=0", "new x f64 100 - - 30=0.01", "--abs=1"
        )
        box = self.box(rows, *ERROR_CURVE)
        columns = {
            x for row in box[:50] for x, c in enumerate(row) if c == RED
        }
        # The scale is the bound, so nothing is near the top.
        self.assertEqual(columns, set())
        rows = self.draw_x(
            OK, "new x f64 100 - - 30=0", "new x f64 100 - - 30=0.01"
        )
        top = self.box(rows, *ERROR_CURVE)[:20]
        columns = {
            x
            for row in top
            for x, (red, green, blue) in enumerate(row)
            if red > blue + 60
        }
        self.assertTrue(columns)
        middle = 30.5 / 100 * CHART_WIDTH
        self.assertLess(max(abs(x - middle) for x in columns), 10)

    def test_curve_is_interrupted_at_special_values(self):
        edits = ",".join(f"{i}=nan" for i in range(40, 60))
        rows = self.draw_x(
            OK, f"new x f64 100 - - {edits}", f"new x f64 100 - - {edits},0=1"
        )
        box = self.box(rows, *CURVE)
        drawn = [
            any(c != (255, 255, 255) for c in column) for column in zip(*box)
        ]
        middle = range(int(CHART_WIDTH * 0.41), int(CHART_WIDTH * 0.59))
        self.assertFalse(any(drawn[x] for x in middle))
        self.assertTrue(all(drawn[x] for x in range(20, 400)))

    def test_middle_of_long_data_is_shown(self):
        for index, shown in ((100, False), (2000, True), (3900, False)):
            rows = self.draw_x(
                OK, "new x f64 4000 - - -", f"new x f64 4000 - - {index}=50"
            )
            # A flat line covers only a few rows.
            tall = sum(
                any(red > blue + 60 for red, _, blue in row)
                for row in self.box(rows, *ERROR_CURVE)
            )
            self.assertEqual(tall > 20, shown)


class Files(Picture):
    def test_names_are_safe_and_differ(self):
        names = {
            "a/b": "a+b.png",
            "a+b": "a%2Bb.png",
            "level_0/data:datatype=0": "level_0+data%3Adatatype=0.png",
            ".hidden": "%2Ehidden.png",
            "%": "%25.png",
        }
        a = [f"new {name} f32 4 - - 0=1" for name in names]
        b = [f"new {name} f32 4 - - 0=2" for name in names]
        self.assertEqual(self.draw(OK, a, b), sorted(names.values()))

    def test_long_names_are_cut_and_differ(self):
        names = ["x" * 220 + "1", "x" * 220 + "2"]
        files = self.draw(
            OK,
            [f"new {name} f32 4 - - 0=1" for name in names],
            [f"new {name} f32 4 - - 0=2" for name in names],
        )
        self.assertEqual(len(files), 2)
        self.assertTrue(all(len(name) < 256 for name in files))

    def test_only_float_data_that_changed_or_was_compressed_is_drawn(self):
        datasets = (
            "new same f32 4 - - -",
            "new one f32 scalar - - -",
            "new empty f32 0x3 5x3 terp=2,1,3 -",
            "new unit f32 1x1 1x1 terp=2,1,3 -",
            "new i i32 100 50 terp=2,1,3 -",
            "new text text 1 - - -",
            f"new constant f32 {CUBE} fill=1+terp=2,1,3 only=0",
            "new nan f32 4 4 terp=2,1,3 0=nan,1=nan,2=nan,3=nan",
        )
        self.assertEqual(
            self.draw(OK, datasets, datasets), ["constant.png", "nan.png"]
        )

    def test_paths_are_in_the_json(self):
        self.draw(OK, "new x f32 4 - - 0=1", "new x f32 4 - - 0=2")
        document = self.json(
            OK,
            "compare",
            "--allow-unjudged",
            "--png=" + self.path("png"),
            self.path("a.h5"),
            self.path("b.h5"),
        )
        self.assertEqual(
            document["datasets"][0]["png"], self.path("png/x.png")
        )

    def test_full_disk_is_trouble_and_leaves_no_file(self):
        self.draw(OK, "new x f32 4 - - 0=1", "new x f32 4 - - 0=2")
        directory = self.path("png")

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        for command in (
            ["compare", "--allow-unjudged", self.path("a.h5"),
             self.path("b.h5")],
            ["advise", "-dx", self.path("a.h5")],
        ):
            result = terp(*command, "--png", directory, preexec_fn=limit)
            self.assertEqual(result.returncode, TROUBLE, result.stderr)
            self.assertRegex(
                result.stderr, r"no picture of /x: .*x\.png: File too large")
            self.assertEqual(os.listdir(directory), [])
            # A path that is not a regular file stays.
            if os.path.exists("/dev/full"):
                os.symlink("/dev/full", self.path("png/x.png"))
                result = terp(*command, "--png", directory)
                self.assertEqual(result.returncode, TROUBLE, result.stderr)
                self.assertIn("No space left on device", result.stderr)
                self.assertTrue(os.path.islink(self.path("png/x.png")))
                os.remove(self.path("png/x.png"))

    def test_directory_that_is_none_is_trouble(self):
        self.draw(OK, "new x f32 4 - - 0=1", "new x f32 4 - - 0=2")
        for directory, reason in (
            (self.path("a.h5"), "no picture of /x"),
            (self.path("no/such"), "No such file"),
        ):
            text = self.expect(
                TROUBLE,
                "compare",
                f"--png={directory}",
                self.path("a.h5"),
                self.path("b.h5"),
            )
            self.assertIn(reason, text)


class Advice(Picture):
    """Compares the marks of `terp advise --png` with its numbers."""

    def draw(self, *instructions, options=()):
        self.pictures = self.path("png")
        path = self.make("a.h5", *instructions)
        result = terp("advise", path, f"--png={self.pictures}", *options)
        if "built without" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, OK, result.stderr)
        document = self.json(
            OK, "advise", path, f"--png={self.pictures}", *options
        )
        return {d["path"]: d for d in document["datasets"]}

    def marked(self, rows, left, bound, pipeline):
        """From 0, the lower edge, to 1: where a bound's column has a
        pipeline's colour."""
        x = left + int((bound + 0.5) / 4 * ADVICE_WIDTH)
        found = [
            y
            for y in range(ADVICE_Y - 6, ADVICE_Y + ADVICE_HEIGHT + 6)
            if rows[y][x] == SERIES[pipeline]
        ]
        self.assertTrue(found, (bound, pipeline))
        middle = (found[0] + found[-1] + 1) / 2
        return 1 - (middle - ADVICE_Y) / ADVICE_HEIGHT

    def test_marks_stand_where_the_numbers_are(self):
        for options in ([], ["--pwr"]):
            x = self.draw("new x f32 40x40x40 - - -", options=options)["/x"]
            self.assertEqual(x["png"], self.path("png/x.png"))
            rows = Rows(x["png"])
            ratios = [c["ratio"] for c in x["choices"]]
            psnrs = [c["psnr"] for c in x["choices"]]
            steps = [m * 10**k for k in range(-1, 7) for m in (1, 2, 5)]
            low = max(s for s in steps if s <= min(ratios))
            high = min(s for s in steps if s > max(ratios))
            bottom = 20 * (min(psnrs) // 20)
            top = 20 * (max(psnrs) // 20 + 1)
            for i, choice in enumerate(x["choices"]):
                # The last pipeline's marks cover those of others.
                if choice["pipeline"] != "huffman":
                    continue
                place = math.log(choice["ratio"] / low) / math.log(high / low)
                with self.subTest(options=options, bound=i // 2):
                    self.assertAlmostEqual(
                        self.marked(rows, ADVICE_RATIO_X, i // 2, "huffman"),
                        place,
                        delta=0.02,
                    )
                    self.assertAlmostEqual(
                        self.marked(rows, ADVICE_PSNR_X, i // 2, "huffman"),
                        (choice["psnr"] - bottom) / (top - bottom),
                        delta=0.02,
                    )

    def test_series_have_a_legend(self):
        rows = Rows(self.draw("new x f32 40x40x40 - - -")["/x"]["png"])
        for k, colour in enumerate(SERIES.values()):
            self.assertEqual(rows[80][ADVICE_RATIO_X + 120 * k], colour)

    def test_what_is_not_measured_is_not_drawn(self):
        found = self.draw(
            "new x f32 40x40x40 - - -",
            "new few f32 100 - - -",
            "new i i32 40x40x40 - - -",
        )
        self.assertEqual(
            {path for path, d in found.items() if d["png"]}, {"/x"}
        )
        self.assertEqual(os.listdir(self.pictures), ["x.png"])

    def test_directory_that_is_none_is_trouble(self):
        self.draw("new x f32 40x40x40 - - -")
        a = self.path("a.h5")
        for directory, reason in (
            (a, "no picture of /x"),
            (self.path("no/such"), "No such file"),
        ):
            text = self.expect(TROUBLE, "advise", a, f"--png={directory}")
            self.assertIn(reason, text)


if __name__ == "__main__":
    unittest.main()
