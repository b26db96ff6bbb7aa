#!/usr/bin/env python3
"""Each write to a file fails once, or is short, in terp repack and preview and
in programs that write through the filter, the connector or terp_h5_write. A
command that succeeds has written everything; one that fails leaves the old
file unchanged.

ctest sets TEST_WRITE_FAULTS (h5tests/support/write_faults.c) and the variables
of tool_case.py."""
import os
import subprocess
import sys
import unittest

from tool_case import OK, TOOL, TROUBLE, ToolTest

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

FAULTS = os.environ["TEST_WRITE_FAULTS"]
BLOCKS = os.environ["TEST_WRITE_BLOCKS"]
# For an HDF5 with connectors. Elsewhere HDF5 ignores the variable that names
# one, or all tests run through it.
ONLY_CONNECTOR = "TEST_ONLY_CONNECTOR" in os.environ
OLD = b"what was there before"
REASONS = {"ENOSPC": "No space left on device", "EIO": "Input/output error"}

# Writes a dataset of four chunks, and one chunk again, by h5py.
HOST = """
import h5py, numpy as np, sys
values = np.sin(np.arange(40000, dtype="f4") / 100).reshape(200, 200)
with h5py.File(sys.argv[1], "w") as file:
    x = file.create_dataset("x", shape=values.shape, dtype="f4",
                            chunks=(100, 100), compression=46117,
                            compression_opts=(2, 1, 3))
    x[...] = values
    file.flush()
    x[:100, :100] = 2 * values[:100, :100]
"""


def run(command, kind="none", at=1, **environment):
    environment = {
        **os.environ,
        "LD_PRELOAD": FAULTS,
        "TEST_FAULT": kind,
        "TEST_FAULT_AT": str(at),
        "TEST_FAULT_FILES": "out.h5",
        **environment,
    }
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60
    )


def read(path):
    """The values of all datasets."""
    values = {}

    def take(name, item):
        if isinstance(item, h5py.Dataset):
            values[name] = (
                [item.file[ref].name for ref in item]
                if h5py.check_ref_dtype(item.dtype)
                else item[...].tolist()
            )

    with h5py.File(path, "r") as file:
        file.visititems(take)
    return values


class Faults(ToolTest):
    def setUp(self):
        super().setUp()
        self.out = self.path("out.h5")

    def count(self, command, **environment):
        """How often a command writes, and the results without a failure."""
        counted = self.path("count")
        result = run(command, TEST_FAULT_COUNT=counted, **environment)
        self.assertEqual(result.returncode, OK, result.stderr)
        with open(counted, encoding="ascii") as file:
            ncalls = int(file.read())
        os.remove(counted)
        self.assertGreater(ncalls, 5)
        return ncalls, read(self.out)

    def check_tool(self, *arguments):
        path = self.path("in.h5")
        waves = np.sin(np.arange(48000) / 300).reshape(40, 30, 40)
        with h5py.File(path, "w") as file:
            file["group/x"] = waves.astype("f4")
            file.create_dataset(
                "y", data=waves, chunks=(20, 30, 40), compression="gzip"
            )
            file["counts"] = np.arange(1000)
            file["texts"] = [b"abc"] * 3000
            file.create_dataset(
                "names", data=[file["y"].ref] * 100, dtype=h5py.ref_dtype,
                chunks=(10,),
            )
        command = [TOOL, *arguments, path, self.out]
        ncalls, whole = self.count(command)
        names = sorted(os.listdir(self.directory))
        for kind in ("ENOSPC", "EIO", "short"):
            for at in range(1, ncalls + 1):
                with self.subTest(kind=kind, at=at):
                    with open(self.out, "wb") as file:
                        file.write(OLD)
                    result = run(command, kind, at)
                    self.assertEqual(
                        sorted(os.listdir(self.directory)), names
                    )
                    if kind == "short" or result.returncode == OK:
                        self.assertEqual(result.returncode, OK, result.stderr)
                        self.assertTrue(read(self.out) == whole, "other values")
                        continue
                    self.assertEqual(result.returncode, TROUBLE)
                    self.assertIn(REASONS[kind], result.stderr)
                    with open(self.out, "rb") as file:
                        self.assertEqual(file.read(), OLD)

    def test_repack(self):
        self.check_tool("repack", "--abs=1e-3", "--rest=deflate")

    def test_repack_of_what_stays(self):
        self.check_tool("repack", "--abs=1e-3", "-dy=none")

    def test_preview(self):
        self.check_tool("preview", "--step=2")

    # After a failed write HDF5 may do anything: with its own filters, too,
    # h5py then ends by a signal.
    def check_host(self, command, **environment):
        ncalls, whole = self.count(command, **environment)
        nfailed = 0
        for kind in ("ENOSPC", "EIO", "short"):
            for at in range(1, ncalls + 1):
                with self.subTest(kind=kind, at=at):
                    os.remove(self.out)
                    result = run(command, kind, at, **environment)
                    if kind == "short" or result.returncode == OK:
                        self.assertEqual(result.returncode, OK, result.stderr)
                        self.assertTrue(read(self.out) == whole, "other values")
                    elif result.returncode > 0:
                        nfailed += 1
                        self.assertIn("errno = ", result.stderr)
        self.assertGreater(nfailed, 0)

    def test_filter(self):
        self.check_host([sys.executable, "-c", HOST, self.out])

    def test_connector(self):
        self.check_host(
            [sys.executable, "-c", HOST, self.out], HDF5_VOL_CONNECTOR="terp"
        )

    def test_blocks(self):
        """terp_h5_write with several threads."""
        self.check_host([BLOCKS, self.out])
        waves = np.sin(np.arange(40000, dtype="f4") / 100).reshape(200, 200)
        waves[:100, :100] *= 2
        run([BLOCKS, self.out])
        with h5py.File(self.out, "r") as file:
            self.assertLess(np.abs(file["x"][...] - waves).max(), 4e-3)


def load_tests(loader, tests, pattern):
    if ONLY_CONNECTOR:
        return loader.loadTestsFromName("Faults.test_connector", sys.modules[__name__])
    return tests


if __name__ == "__main__":
    unittest.main()
