"""Shared by the tests of the terp tool.

ctest sets TERP_TOOL, TERP_TOOL_FILES (h5tests/tools/test_tool_files.c, which
makes the files), HDF5_PLUGIN_PATH and, where it works, TERP_H5REPACK."""
import json
import os
import re
import subprocess
import tempfile
import unittest

TOOL = os.environ["TERP_TOOL"]
FILES = os.environ["TERP_TOOL_FILES"]
H5REPACK = os.environ.get("TERP_H5REPACK")

OK, FOUND, TROUBLE = 0, 1, 2
EXACT = 0x10000
FLOOR = 0x20000
MISSING = 0x40000


def terp(*arguments, **options):
    return subprocess.run(
        [TOOL, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        timeout=60,
        **options,
    )


def warnings_of(result):
    """What a command prints to standard error, without the last line of repack
    and preview."""
    return re.sub(r"^.* -> .*, ratio .* s\n\Z", "", result.stderr, flags=re.M)


class ToolTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def path(self, name):
        return os.path.join(self.directory, name)

    def make(self, name, *instructions):
        path = self.path(name)
        subprocess.run([FILES, path, *instructions], check=True)
        return path

    def expect(self, code, *arguments, **options):
        result = terp(*arguments, **options)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout if code != TROUBLE else result.stderr

    def json(self, code, *arguments):
        """The document that a command prints with --json."""
        result = terp(*arguments, "--json")
        if "built without" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, code, result.stderr)
        return json.loads(result.stdout)


# A dataset in eight chunks, for ToolTest.make.
CUBE = "20x20x20 10x10x10"
