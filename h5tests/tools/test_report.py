#!/usr/bin/env python3
"""Tests the pages of `terp report`: their figures are those of `terp compare`,
their pictures show the values, and no name of a file gets out of its text."""
import os
import re
import sys
import unittest

from report_page import Page, gif_pixels
from tool_case import FOUND, OK, TROUBLE, ToolTest, terp

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</title></style></section><script>alert(2)</script>",
    "\"'&amp;&#60;b onclick='x'",
    "-->]]><!--",
    "日本語 équation",
    "שלום",
    "line\nfeed\x1b[31m",
    "turned\u202earound",
    "a" * 2000,
    "é" * 700,
)


def field(*shape, seed=1):
    random = np.random.default_rng(seed)
    axes = np.meshgrid(*[np.linspace(0, 6, n) for n in shape], indexing="ij",
                       sparse=True)
    return (sum(np.sin((i + 2) * x + i) for i, x in enumerate(axes))
            + 0.02 * random.standard_normal(shape)).astype("f4")


class ReportTest(ToolTest):
    def write(self, name, **datasets):
        path = self.path(name)
        with h5py.File(path, "w") as file:
            for key, values in datasets.items():
                file[key] = values
        return path

    def repack(self, path, *options):
        out = self.path("out.h5")
        self.expect(OK, "repack", path, out, *options)
        return out

    def report(self, code, *arguments):
        path = self.path("page.html")
        self.expect(code, "report", *arguments, f"--html={path}")
        with open(path, encoding="utf-8") as file:
            source = file.read()
        page = Page(source)
        self.assertEqual(page.policy.split(";")[0], "default-src 'none'")
        self.assertNotRegex(page.styles, r"url\(|@import|http")
        self.assertEqual(len(set(page.ids)), len(page.ids))
        for link in page.links:
            self.assertIn(link[1:], page.ids)
        return page


class Figures(ReportTest):
    def test_figures_are_those_of_compare(self):
        masked = field(60, 70)
        masked[20:30, 5:40] = np.nan
        masked[50:, :] = 1e20
        values = {
            "cube": field(30, 40, 50), "line": field(9000), "map": masked,
            "power": np.exp(9 * field(64, 64)).astype("f8"),
            "half": field(64, 64).astype("f2"), "same": field(64, 64),
            "flat": np.full((64, 64), 7.0), "none": np.full((64, 64), np.nan),
        }
        a = self.write("a.h5", **values)
        b = self.repack(a, "--dataset=power=pwr:1e-2", "--dataset=same=lossless",
                        "--dataset=*=rel:1e-3", "--chunk=auto")
        told = self.json(OK, "compare", a, b, "--metrics")["datasets"]
        page = self.report(OK, a, b)
        self.assertEqual(len(page.sections) - 1, len(values))
        for section, dataset in zip(list(page.sections.values())[1:], told):
            with self.subTest(dataset["path"]):
                self.assertTrue(section.text.strip().startswith(dataset["path"]))
                self.assertEqual(section.verdicts, ["ok"])
                found = {name: values[0] for name, values in
                         section.figures.items()}
                for name in ("ratio", "psnr", "max_error", "error_of_bound",
                             "chunks_exceeded", "min", "max"):
                    if name in found:
                        self.assertEqual(found.pop(name), dataset[name], name)
                metrics = dataset.get("metrics") or {}
                for name in ("ssim", "ssim_min", "rmse", "drift", "mean_a"):
                    if name in found:
                        self.assertEqual(found.pop(name), metrics[name], name)
                for name in ("bound", "least_bound", "largest_bound", "saving"):
                    found.pop(name, None)
                self.assertEqual(found, {})
        cube = page.sections[1]
        for name in ("max_error", "psnr", "ssim", "rmse", "ratio"):
            self.assertIsNotNone(cube.one(name))
        top = page.sections[0].figures
        self.assertEqual(top["ratio"], [d["ratio"] for d in told])
        self.assertEqual(top["psnr"], [d["psnr"] for d in told])
        self.assertEqual(top["error_of_bound"],
                         [d["error_of_bound"] for d in told])
        self.assertEqual(top["worst"], [max(d["error_of_bound"] or 0
                                            for d in told)])
        self.assertEqual(top["bytes_before"],
                         [sum(v.nbytes for v in values.values())])
        self.assertEqual(top["bytes_after"],
                         [sum(d["stored_bytes"] for d in told)])
        self.assertEqual(top["file_bytes"],
                         [os.path.getsize(a), os.path.getsize(b)])
        self.assertIn("Every dataset of the copy is identical or keeps its "
                      "bound.", page.text)

    def test_pictures_show_the_values(self):
        a = field(3, 40, 64)
        a[1, 0, 0] = np.nan
        b = a + 0.25
        b[1, 7, 9] = np.nan
        b[1, :, 30] = a[1, :, 30]
        page = self.report(FOUND, self.write("a.h5", x=a),
                           self.write("b.h5", x=b), "--abs=0.25")
        section = page.sections[1]
        self.assertEqual([alt for alt, _ in section.images],
                         ["Original, slice [1, :, :]", "", "Copy, slice [1, :, :]",
                          "", "Error: copy minus original, slice [1, :, :]", ""])
        original, copy, error = (np.array(gif_pixels(uri)[0])
                                 for _, uri in section.images[::2])
        kept, changed = 64, 65
        low, high = np.nanmin(a[1]), np.nanmax(a[1])
        for values, pixels in ((a[1], original), (b[1], copy)):
            there = np.isfinite(values)
            expected = np.rint(np.clip((values - low) / (high - low), 0, 1) * 63)
            self.assertLessEqual(
                np.abs(expected[there] - pixels[there]).max(), 1)
        self.assertEqual((original[0, 0], copy[0, 0], error[0, 0]),
                         (kept, kept, kept))
        self.assertEqual((copy[7, 9], error[7, 9]), (changed, changed))
        # 33 colours; zero is in the middle.
        self.assertEqual(set(error[:, 30]), {16})
        self.assertEqual(set(error[1:, 40]), {32})
        palette = gif_pixels(section.images[0][1])[1]
        brightness = [sum(c) for c in palette[:64]]
        self.assertEqual(brightness, sorted(brightness))
        self.assertEqual(palette[kept], (0x80, 0x80, 0x80))
        self.assertEqual(palette[changed], (0, 0, 0))

    def test_noise_of_all_sizes_is_a_valid_picture(self):
        random = np.random.default_rng(3)
        for shape in ((2, 2), (2, 300), (320, 320), (700, 33)):
            with self.subTest(shape):
                values = random.random(shape).astype("f4")
                page = self.report(OK, self.write("a.h5", x=values))
                pixels, _ = gif_pixels(page.sections[1].images[0][1])
                steps = [-(-n // 320) for n in shape]
                self.assertEqual(np.array(pixels).shape,
                                 values[:: steps[0], :: steps[1]].shape)

    def test_chunk_advice_is_what_repack_reaches(self):
        a = self.write("a.h5", x=field(48, 48, 48))
        good = self.repack(a, "--abs=1e-3", "--chunk=auto")
        stored = {}
        for name, path in (("good", good), ("flat", self.path("flat.h5"))):
            if name == "flat":
                self.expect(OK, "repack", a, path, "--abs=1e-3",
                            "--chunk=1x48x48")
            with h5py.File(path, "r") as file:
                stored[name] = file["x"].id.get_storage_size()
        section = self.report(OK, a, path).sections[1]
        saving = 100 * (1 - stored["good"] / stored["flat"])
        self.assertGreater(saving, 5)
        self.assertAlmostEqual(section.one("saving"), saving, delta=1)
        self.assertIn("48 × 48 × 48 would take", section.text)
        self.assertIn("fewer bytes", section.text)
        self.assertIn("--chunk 48x48x48", section.text)
        section = self.report(OK, a, good).sections[1]
        self.assertIn("the shape that terp would choose", section.text)

    def test_one_file_tells_what_it_can(self):
        values = field(40, 40, 40)
        a = self.write("a.h5", x=values)
        b = self.repack(a, "--rel=1e-3", "--record")
        measured = self.json(OK, "compare", a, b)["datasets"][0]
        page = self.report(OK, b)
        section = page.sections[1]
        self.assertEqual(section.one("ratio"), measured["ratio"])
        self.assertEqual(section.one("bound"), measured["bound"])
        self.assertEqual(section.one("record_max_error"), measured["max_error"])
        self.assertLess(section.one("least_psnr"), measured["psnr"])
        self.assertGreater(section.one("least_psnr"), measured["psnr"] - 8)
        for name in ("max_error", "psnr", "ssim", "error_of_bound"):
            self.assertNotIn(name, section.figures)
        self.assertIn("needs the original", page.text)
        self.assertEqual(section.charts, ["Power spectrum"])
        advised = self.json(OK, "advise", a)["datasets"][0]["choices"]
        section = self.report(OK, a).sections[1]
        self.assertEqual(
            section.figures["choice_ratio"],
            [c["ratio"] for c in advised if c["pipeline"] == "ratio"])
        self.assertIn("no chunks", section.text)


class Names(ReportTest):
    def make_hostile(self):
        with h5py.File(self.path("a.h5"), "w") as file:
            for i, name in enumerate(HOSTILE):
                data = file.create_dataset("g/" + name.replace("/", "\u2044"),
                                           data=field(12, 12, seed=i))
                data.attrs["units"] = name[:60]
                data.attrs["long_name"] = name[:800]
            file.create_dataset(b"g/bad\xff\xfe", data=field(12, 12))
        return self.path("a.h5")

    def test_names_stay_text(self):
        a = self.make_hostile()
        for arguments in ((a,), (a, a)):
            page = self.report(OK, *arguments)
            for name in HOSTILE[:3]:
                self.assertIn("/g/" + name.replace("/", "\u2044"), page.text)
            self.assertIn("/g/日本語 équation", page.text)
            self.assertIn("/g/line\\nfeed\\x1b[31m", page.text)
            self.assertIn("/g/turned\\xe2\\x80\\xaearound", page.text)
            self.assertIn("/g/bad\\xff\\xfe", page.text)
            self.assertRegex(page.text, r"/g/a{30,400}…a{30,400}")
            self.assertRegex(page.text, r"/g/é{10,400}…é{10,400}")
            self.assertNotRegex(page.text, "a{500}|é{500}")
            self.assertEqual(page.title, "terp report: a.h5")

    def test_paths_of_files_stay_text(self):
        path = self.path("<b>&\"x.h5")
        os.rename(self.write("a.h5", x=field(8, 8)), path)
        page = self.report(OK, path)
        self.assertEqual(page.title, 'terp report: <b>&"x.h5')
        self.assertIn(path, page.text)


class Failures(ReportTest):
    def test_verdicts_are_those_of_compare(self):
        good, bad = field(20, 20), field(20, 20)
        bad[3, 4] += 1
        gone = good.copy()
        gone[2] = np.nan
        a = self.write("a.h5", bad=good, good=good, gone=good, missing=good,
                       shape=good, type=good, text=b"a", whole=np.arange(9))
        b = self.write("b.h5", bad=bad, good=good, gone=gone, extra=good,
                       shape=good[1:], type=good.astype("f8"), text=b"b",
                       whole=np.arange(9))
        for options in ((), ("--abs=0.1",), ("--abs=2", "--allow-unjudged")):
            with self.subTest(options):
                code = terp("compare", a, b, *options).returncode
                told = self.json(code, "compare", a, b, *options)["datasets"]
                page = self.report(code, a, b, *options)
                self.assertEqual(
                    page.sections[0].verdicts, [d["verdict"] for d in told])
                self.assertEqual(len(page.rows), len(told))
                for row, dataset in zip(page.rows, told):
                    self.assertIn(dataset["path"], row)
                failing = re.search(r"(\d+) of 9 datasets fail", page.text)
                accepted = {"ok"} if len(options) < 2 else {
                    "ok", "unjudged", "extra"}
                self.assertEqual(
                    int(failing[1]),
                    sum(d["verdict"] not in accepted for d in told))
        section = self.report(FOUND, a, b, "--abs=0.1").sections[1]
        self.assertIn("1 lie outside the bound", section.text)
        self.assertIn("bound exceeded", section.text)
        self.assertGreater(section.one("error_of_bound"), 9)

    def test_chunks_above_their_bound_are_counted(self):
        path = self.write("a.h5", x=field(40, 40))
        b = self.repack(path, "--abs=1e-3", "--chunk=20x20", "--dataset=x=abs:1e-3")
        with h5py.File(path, "r+") as file:
            file["x"][0, 0] += 1
        page = self.report(FOUND, path, b)
        self.assertEqual(page.sections[1].one("chunks_exceeded"), 1)
        self.assertIn("All bounds keptno", page.text)

    def test_damaged_chunk_is_told(self):
        path = self.write("a.h5", x=field(64, 64), y=field(64, 64))
        b = self.repack(path, "--abs=1e-3")
        with h5py.File(b, "r") as file:
            at = file["x"].id.get_chunk_info(0).byte_offset
        with open(b, "r+b") as file:
            file.seek(at + 60)
            file.write(b"\xff\0\xff\0")
        for arguments in ((path, b), (b,)):
            with self.subTest(arguments):
                page = self.report(FOUND, *arguments)
                self.assertEqual(page.sections[0].verdicts,
                                 ["unreadable", "ok"])
                self.assertIn("cannot be read", page.text)
                self.assertEqual(len(page.sections), 2)

    def test_file_that_cannot_be_opened_is_told(self):
        good = self.write("a.h5", x=field(8, 8))
        text, gone = self.path("text.h5"), self.path("gone.h5")
        with open(text, "w", encoding="ascii") as file:
            file.write("<b>")
        for arguments in ((text,), (good, text), (gone, good)):
            with self.subTest(arguments):
                page = self.report(TROUBLE, *arguments)
                self.assertRegex(page.text, "not an HDF5 file|No such file")
                self.assertEqual(page.rows, [])

    def test_wrong_usage_writes_no_page(self):
        a = self.write("a.h5", x=field(8, 8))
        page = self.path("page.html")
        for arguments in (
            (a,), (), (a, a, a, "--html", page), (a, "--html", page, "--abs=1"),
            (a, "--html", page, "--limit=0"), (a, a, "--html", page, "--floor=1"),
            (a, "--html", a), (a, "--html", self.directory),
            (a, "--html", self.path("no/page.html")),
        ):
            with self.subTest(arguments):
                self.expect(TROUBLE, "report", *arguments)
                self.assertEqual(os.listdir(self.directory), ["a.h5"])
        with h5py.File(a, "r") as file:
            self.assertEqual(file["x"].shape, (8, 8))

    def test_pattern_without_dataset_is_told(self):
        a = self.write("a.h5", x=field(8, 8), y=field(8, 8))
        page = self.report(OK, a, a, "--dataset=x")
        self.assertEqual(len(page.rows), 1)
        page = self.report(TROUBLE, a, a, "--dataset=x", "--dataset=<z>")
        self.assertIn("<z>: no dataset has this name", page.text)

    def test_failed_write_keeps_the_old_page(self):
        a, page = self.write("a.h5", x=field(64, 64)), self.path("page.html")
        self.report(OK, a)
        with open(page, encoding="utf-8") as file:
            old = file.read()
        if os.path.exists("/dev/full"):
            self.assertIn("No space", self.expect(
                TROUBLE, "report", a, "--html=/dev/full"))
        result = terp("report", a, "--html=/dev/stdout")
        self.assertEqual(result.returncode, OK)
        self.assertEqual(re.sub("Made by.*", "", result.stdout),
                         re.sub("Made by.*", "", old))
        self.assertEqual(sorted(os.listdir(self.directory)),
                         ["a.h5", "page.html"])


class Kinds(ReportTest):
    def test_every_kind_of_dataset_has_a_row(self):
        path = self.path("a.h5")
        kinds = {
            "bool": np.ones(4, bool), "complex": np.ones((20, 20), "c8"),
            "empty": np.zeros((0, 5), "f4"), "fill": np.full((20, 20), 1e20, "f4"),
            "integers": np.arange(50), "nan": np.full((20, 20), np.nan),
            "null": h5py.Empty("f4"), "one": np.float32(2),
            "same": np.full(100, 3.0), "strings": np.array([b"a", b"bc"]),
            "thin": field(1, 1, 90), "wide": field(2, 900),
        }
        with h5py.File(path, "w") as file:
            for name, values in kinds.items():
                file.create_dataset(name, data=values)
        for arguments in ((path,), (path, path)):
            page = self.report(OK, *arguments)
            self.assertEqual(len(page.rows), len(kinds))
            self.assertEqual(page.sections[0].verdicts, ["ok"] * len(kinds))
            names = [s.text.split()[0] for s in list(page.sections.values())[1:]]
            self.assertEqual(names, [f"/{n}" for n in
                                     ("fill", "nan", "one", "same", "thin",
                                      "wide")])
            self.assertIn("only special values",
                          page.sections[2].text)

    def test_file_without_datasets_is_told(self):
        path = self.path("a.h5")
        h5py.File(path, "w").close()
        page = self.report(OK, path)
        self.assertIn("no dataset", page.text)
        self.assertEqual(page.rows, [])

    def test_many_datasets_are_limited_and_counted(self):
        a, b = self.path("a.h5"), self.path("b.h5")
        for path in (a, b):
            with h5py.File(path, "w") as file:
                for i in range(1100):
                    file[f"x{i:04}"] = field(3, 3) + (path == b and i == 1099)
                file["y"] = field(9, 9)
                file["z"] = field(8, 8)
        page = self.report(FOUND, a, b, "--limit=2", "--abs=0.5")
        names = [s.text.split()[0] for s in list(page.sections.values())[1:]]
        self.assertEqual(names, ["/x1099", "/y", "/z"])
        self.assertEqual(len(page.rows), 1001)
        self.assertIn("101 more datasets are not listed", page.text)
        self.assertIn("1 of 1102 datasets fails", page.text)
        self.assertRegex(page.text, "failing and the largest, 3 of 1102")
        page = self.report(OK, a, "--limit=2")
        self.assertEqual(len(page.sections), 3)
        self.assertIn("102 more datasets are not listed", page.text)
        page = self.report(OK, a, a, "--dataset=x000*")
        self.assertEqual(len(page.sections), 11)
        self.assertNotIn("not listed", page.text)

    def test_page_suits_paper_and_dark_screens(self):
        page = self.report(OK, self.write("a.h5", x=field(8, 8)))
        for media in ("@media print", "prefers-color-scheme:dark",
                      "max-width:760px"):
            self.assertIn(media, page.styles)


if __name__ == "__main__":
    unittest.main()
