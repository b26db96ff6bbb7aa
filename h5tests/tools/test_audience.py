#!/usr/bin/env python3
"""Runs the commands of the pages in doc/audience, in their order.

Blocks of Python run in this process, other blocks in bash. The comment behind a
print is what it must print."""
import contextlib
import glob
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest

from tool_case import TOOL

try:
    import h5py  # noqa: F401
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

SOURCE = os.environ["TERP_SOURCE"]
PAGES = sorted(glob.glob(os.path.join(SOURCE, "doc/audience/*.md")))


def blocks(text):
    """The indented blocks of a page, without their indentation."""
    for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE):
        yield re.sub(r"^    ", "", block, flags=re.MULTILINE).strip("\n") + "\n"


class Audience(unittest.TestCase):
    def run_python(self, code, names):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, "block", "exec"), names)
        told = re.findall(r"(?m)^ *print\(.*\)  +# (.*)$", code)
        self.assertEqual(out.getvalue().splitlines(), told)

    def run_page(self, text):
        names = {}
        # The python3 of the commands is this one.
        os.mkdir("bin")
        with open("bin/python3", "w", encoding="utf-8") as script:
            script.write(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        os.chmod("bin/python3", 0o755)
        environment = {**os.environ, "PATH": os.pathsep.join((
            os.path.abspath("bin"), os.path.dirname(TOOL), os.environ["PATH"]))}
        for block in blocks(text):
            if re.match(r"(import|from|with) ", block):
                self.run_python(block, names)
                continue
            result = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block], text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=environment, check=False)
            self.assertEqual(result.returncode, 0, block + result.stdout)

    def test_commands_do_what_the_pages_tell(self):
        self.assertGreaterEqual(len(PAGES), 6)
        before = os.getcwd()
        for page in PAGES:
            with open(page, encoding="utf-8") as file:
                text = file.read()
            with self.subTest(os.path.basename(page)), \
                    tempfile.TemporaryDirectory() as folder:
                self.assertLessEqual(text.count("\n"), 100)
                os.symlink(os.path.join(SOURCE, "examples"),
                           os.path.join(folder, "examples"))
                os.chdir(folder)
                try:
                    self.run_page(text)
                finally:
                    os.chdir(before)


if __name__ == "__main__":
    unittest.main()
