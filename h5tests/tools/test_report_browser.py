#!/usr/bin/env python3
"""Opens the pages of `terp report` in headless Chromium: no width makes them
scroll sideways, every picture is drawn, and they print. Skipped without
Chromium."""
import html
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from tool_case import FOUND, ToolTest

BROWSER = next(filter(None, map(shutil.which, (
    "chromium", "chromium-browser", "google-chrome",
    "chrome-headless-shell"))), None)
if BROWSER is None:
    print("skipped: needs Chromium")
    sys.exit(77)
try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

WIDTHS = (320, 360, 768, 1200)

# Reports what each frame looks like. The page's policy forbids scripts, so the
# document around the frames has it.
SCRIPT = """
onload = () => {
  const found = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, root = page.documentElement;
    const all = [...page.body.querySelectorAll("*")];
    const right = all.filter(e => e.closest("thead") === null).map(
        e => [e.getBoundingClientRect().right, e.tagName + "." +
              (e.getAttribute("class") || "")]).sort((a, b) => b[0] - a[0])[0];
    const images = [...page.images];
    const texts = [...page.querySelectorAll(".chart text")];
    return {width: root.clientWidth, scroll: root.scrollWidth,
            height: root.scrollHeight, right: right, title: page.title,
            images: images.length,
            sides: Math.max(...images.map(i => Math.max(
                i.getBoundingClientRect().width,
                i.getBoundingClientRect().height))),
            drawn: images.filter(i => i.complete && i.naturalWidth > 0 &&
                                 i.getBoundingClientRect().width > 0).length,
            charts: page.querySelectorAll("svg path, svg rect.inside").length,
            letters: Math.min(...texts.map(
                t => t.getBoundingClientRect().height)),
            scripts: page.scripts.length};
  });
  document.getElementById("found").textContent = JSON.stringify(found);
};
"""


class Browser(ToolTest):
    def run_browser(self, *arguments):
        result = subprocess.run(
            [BROWSER, "--headless", "--disable-gpu", "--no-first-run",
             "--disable-extensions", f"--user-data-dir={self.path('profile')}",
             *(["--no-sandbox"] if os.geteuid() == 0 else []), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300,
            check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.decode()

    def make_page(self):
        """A page with all that may be wide: long names, units and shapes,
        failures, and numbers of many digits."""
        random = np.random.default_rng(1)
        a, b, page = map(self.path, ("a.h5", "b.h5", "page.html"))
        values = {
            "cube": random.random((12, 40, 50)), "line": random.random(3000),
            "tall": random.random((300, 4)), "wide": random.random((3, 700)),
            "w" * 900: random.random((12, 12)) * -1.23456e-300,
            "group/" * 60 + "x": random.random((1, 2, 3, 4, 5, 6, 7, 8)),
            "<img src=x onerror=document.title='broken'>": random.random((9, 9)),
            "nan": np.full((8, 8), np.nan), "one": np.array(2.5),
        }
        for path in (a, b):
            with h5py.File(path, "w") as file:
                for name, data in values.items():
                    new = file.create_dataset(
                        name, data=data * (1 + 1e-6 * (path == b)))
                    new.attrs["units"] = "kilogramsPerSquareMetre" * 4
                    new.attrs["long_name"] = "unbroken" * 60
                file.create_dataset(f"only_in_{path[-4]}" * 9, data=np.ones(3))
        self.expect(FOUND, "report", a, b, "--rel=1e-5", f"--html={page}")
        with open(page, encoding="utf-8") as file:
            return page, file.read()

    def test_page_fits_every_width_and_prints(self):
        page, source = self.make_page()
        frames = "".join(
            f'<iframe style="border:0;width:{width}px;height:900px" '
            f'srcdoc="{html.escape(source)}"></iframe>' for width in WIDTHS)
        around = self.path("around.html")
        with open(around, "w", encoding="utf-8") as file:
            file.write(f"<!DOCTYPE html><meta charset=utf-8><body>{frames}"
                       f"<pre id=found></pre><script>{SCRIPT}</script>")
        shown = self.run_browser("--dump-dom", "--virtual-time-budget=20000",
                                 f"file://{around}")
        found = json.loads(html.unescape(
            re.search(r'<pre id="found">(.*?)</pre>', shown)[1]))
        self.assertEqual(len(found), len(WIDTHS))
        for width, frame in zip(WIDTHS, found):
            with self.subTest(width=width):
                # A scroll bar may take a part of the width.
                self.assertGreaterEqual(frame["width"], width - 20)
                self.assertLessEqual(frame["scroll"], frame["width"])
                self.assertLessEqual(frame["right"][0], width, frame["right"])
                self.assertEqual(frame["title"], "terp report: b.h5")
                self.assertGreater(frame["images"], 12)
                self.assertEqual(frame["drawn"], frame["images"])
                self.assertLessEqual(frame["sides"], 341)
                self.assertGreater(frame["charts"], 20)
                self.assertGreater(frame["letters"], 10)
                self.assertEqual(frame["scripts"], 0)
        printed = self.path("page.pdf")
        self.run_browser(f"--print-to-pdf={printed}", f"file://{page}")
        with open(printed, "rb") as file:
            data = file.read()
        self.assertEqual(data[:5], b"%PDF-")
        self.assertGreater(len(re.findall(rb"/Type\s*/Page\b", data)), 4)


if __name__ == "__main__":
    unittest.main()
