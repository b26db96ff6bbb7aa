#!/usr/bin/env python3
"""Files of some kB that announce GiB: every subcommand refuses them unless an
option allows them, and does not refuse real files."""
import multiprocessing
import os
import subprocess
import sys
import unittest
import zlib

from tool_case import FOUND, OK, TOOL, TROUBLE, ToolTest

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

FILTER = 46117
RELATIVE = {"compression": FILTER, "compression_opts": (2, 1, 2)}
MIB = 1 << 20


class Limits(ToolTest):
    def setUp(self):
        super().setUp()
        # Variables of the user must not replace the defaults.
        self.environment = {k: v for k, v in os.environ.items()
                            if k != "TERP_MAX_MEMORY"}

    def run_tool(self, *arguments, **variables):
        """The result, and the largest memory in MiB."""
        process = subprocess.Popen(
            [TOOL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**self.environment, **variables})
        out, err = process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        for stream in process.stdout, process.stderr:
            stream.close()
        return process.returncode, out, err, usage.ru_maxrss / 1024

    def write(self, *arguments):
        """The path. Another process writes it, because a new process begins
        with the memory of the one that starts it."""
        writer = multiprocessing.get_context("fork").Process(
            target=self.write_here, args=arguments)
        writer.start()
        writer.join()
        self.assertEqual(writer.exitcode, 0)
        return self.path(arguments[0])

    def write_here(self, name, chunk_mib, nchunks, values):
        """All chunks have the stream of the first one."""
        n = chunk_mib * MIB // 4
        path = self.path(name)
        with h5py.File(path, "w", libver="latest") as file:
            x = file.create_dataset("x", (n * nchunks,), "f4", chunks=(n,),
                                    **RELATIVE)
            x[:n] = values(n)
            x.flush()
            mask, stream = x.id.read_direct_chunk((0,))
            for i in range(1, nchunks):
                x.id.write_direct_chunk((i * n,), stream, mask)

    def ramp(self, n):
        return np.arange(n, dtype="f4")

    def commands(self, path):
        out = self.path("out.h5")
        return (
            ("verify", path),
            ("compare", path, path),
            ("repack", "--lossless", path, out),
            ("repack", "--lossless", "--salvage", path, out),
        )

    def test_large_chunks_of_small_files_are_not_decoded(self):
        path = self.write("in.h5", 200, 1, self.ramp)
        nbytes = os.path.getsize(path)
        self.assertLess(nbytes, 10000)
        for command in (*self.commands(path), ("advise", path)):
            with self.subTest(command):
                code, out, err, mib = self.run_tool(*command)
                self.assertIn(code, (FOUND, TROUBLE))
                said = out + err
                self.assertIn("TERP_MAX_MEMORY", said)
                self.assertIn("--trusted", said)
                self.assertLess(mib, 300)
                self.assertFalse(os.path.exists(self.path("out.h5")))
        page = self.path("page.html")
        for files in (path,), (path, path):
            code, _, _, mib = self.run_tool("report", *files, "--html", page)
            self.assertEqual(code, FOUND)
            self.assertLess(mib, 300)
            with open(page, encoding="utf-8") as file:
                self.assertRegex(file.read(), "TERP_MAX_MEMORY.*--trusted")
        # No decoding is needed to report it.
        self.assertEqual(self.run_tool("info", path)[0], OK)
        code, out, _, _ = self.run_tool("verify", "--trusted", path)
        self.assertEqual((code, "1 whole" in out), (OK, True))
        # A set variable counts, whatever the option says.
        for options in (), ("--trusted",):
            code, out, err, _ = self.run_tool("verify", *options, path,
                                              TERP_MAX_MEMORY="50M")
            self.assertEqual(code, TROUBLE)
            self.assertNotIn("--trusted", err)
            code, out, err, _ = self.run_tool("verify", *options, path,
                                              TERP_MAX_MEMORY="4G")
            self.assertEqual(code, OK, err)

    def test_many_chunks_of_small_files_are_not_decoded(self):
        path = self.write("in.h5", 64, 24, self.ramp)
        nbytes = os.path.getsize(path)
        self.assertGreater(24 * 64 * MIB, 256 * MIB + 100000 * nbytes)
        for command in (*self.commands(path), ("preview", path,
                                               self.path("out.h5"))):
            with self.subTest(command):
                if command[0] == "compare":
                    continue  # the limit is twice the file
                code, out, err, mib = self.run_tool(*command)
                self.assertEqual(code, TROUBLE)
                self.assertIn("--trusted", err)
                self.assertLess(mib, 300)
        other = self.write("other.h5", 64, 64, self.ramp)
        code, out, err, _ = self.run_tool("compare", other, other)
        self.assertEqual(code, FOUND)
        self.assertRegex(out, "skipped .*--trusted")
        self.assertEqual(self.run_tool("info", path)[0], OK)

    def test_chunks_of_one_value_are_decoded(self):
        """With a higher ratio than any real file."""
        path = self.write("in.h5", 64, 16, lambda n: np.full(n, 2.5, "f4"))
        nbytes = os.path.getsize(path)
        self.assertGreater(16 * 64 * MIB, 256 * MIB + 100000 * nbytes)
        code, out, err, _ = self.run_tool("verify", path)
        self.assertEqual((code, "16 whole" in out), (OK, True), err)
        code, out, err, _ = self.run_tool("compare", path, path)
        self.assertEqual(code, OK, err)

    def test_virtual_datasets_may_be_as_large_as_their_sources_allow(self):
        n = 1 << 34
        source = self.path("source.h5")
        with h5py.File(source, "w") as file:
            file["y"] = np.arange(1000, dtype="f4")
        for name, dims, code in (("none.h5", n, FOUND), ("source.h5", 1000, OK)):
            path = self.path("virtual.h5")
            layout = h5py.VirtualLayout((dims,), "f4")
            layout[:1000] = h5py.VirtualSource(name, "y", (1000,))
            with h5py.File(path, "w", libver="latest") as file:
                file.create_virtual_dataset("x", layout)
            found, out, err, _ = self.run_tool("compare", path, path)
            self.assertEqual(found, code, out + err)
            self.assertEqual("--trusted" in out, code == FOUND)

    def test_text_that_refers_to_one_place_takes_no_more_than_allowed(self):
        """A million references to one text of 1 kB, in some kB."""
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            x = file.create_dataset("x", (1 << 20,), h5py.string_dtype(),
                                    chunks=(1 << 20,), compression="gzip")
            x[0] = "a" * (1 << 10)
            mask, stream = x.id.read_direct_chunk((0,))
            first = zlib.decompress(stream)[:16]
            x.id.write_direct_chunk((0,), zlib.compress(first * (1 << 20)), 0)
        self.assertLess(os.path.getsize(path), 70000)
        code, out, err, mib = self.run_tool("compare", path, path,
                                            TERP_MAX_MEMORY="100M")
        self.assertEqual(code, FOUND)
        self.assertLess(mib, 400)


if __name__ == "__main__":
    unittest.main()
