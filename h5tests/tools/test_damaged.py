#!/usr/bin/env python3
"""HDF5 files with random damage: terp info, verify, report, repack and
preview end with a message and an exit code, unless HDF5 itself crashes.

The damage has a fixed seed: changed bytes, an overwritten run of bytes, a part
copied elsewhere, or a cut file. TEST_NDAMAGED is the number of files; the
default takes some seconds. A crash counts as HDF5's own if h5dump also crashes
or hangs, or if a sanitizer's report says so."""
import collections
import os
import random
import re
import shutil
import subprocess
import sys
import unittest

from tool_case import CUBE, FOUND, OK, TOOL, TROUBLE, ToolTest

NFILES = int(os.environ.get("TEST_NDAMAGED", 60))
SECONDS = 20
H5DUMP = shutil.which("h5dump")
COMMANDS = (
    ("info",),
    ("verify", "--threads=2"),
    ("report",),
    ("repack", "--abs=1e-3", "--salvage", "--threads=2"),
    ("preview", "--step=2"),
)
# The exit code of a sanitizer, unlike the tool's own codes and signals.
SANITIZED = 99


def damage(bytes_, pick):
    """The bytes with random damage."""
    bytes_ = bytearray(bytes_)
    kind = pick.randrange(5)
    # A file's structure is a small part, near the beginning.
    end = pick.choice((96, 2048, 4096, 16384, len(bytes_)))
    end = min(end, len(bytes_))
    if kind < 2:
        for _ in range(pick.choice((1, 1, 2, 8))):
            bytes_[pick.randrange(end)] ^= 1 << pick.randrange(8)
    elif kind == 2:
        at, n = pick.randrange(end), pick.choice((1, 2, 4, 8, 16))
        word = pick.choice((b"\0", b"\xff", b"\x7f", b"\x80"))
        bytes_[at:at + n] = (word * n)[: len(bytes_) - at]
    elif kind == 3:
        n = pick.choice((8, 64, 512))
        a, b = pick.randrange(end), pick.randrange(end)
        bytes_[a:a + n] = bytes_[b:b + n]
    else:
        del bytes_[pick.randrange(len(bytes_)):]
    return bytes(bytes_)


class Damaged(ToolTest):
    def setUp(self):
        super().setUp()
        self.in_ = self.path("in.h5")
        self.counts = collections.Counter()

    def is_of_hdf5(self, stderr):
        """Whether HDF5 itself has crashed: the first frame outside of the
        sanitizer and the C library, or h5dump, tells."""
        for line in stderr.splitlines():
            match = re.match(r"\s*#\d+ 0x[0-9a-f]+ +(.*)", line)
            if match and not re.search(
                r"in __?(interceptor|asan|sanitizer)|libc\.so|in (mem|str)\w+ ",
                match[1],
            ):
                if "libhdf5" in match[1]:
                    return True
                break
        if H5DUMP is None:
            return False
        try:
            dump = subprocess.run(
                [H5DUMP, self.in_], timeout=SECONDS,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return True
        return dump.returncode < 0

    def check(self, arguments):
        out = self.path("out.h5")
        outs = ([out] if arguments[0] in ("repack", "preview") else
                ["--html", out] if arguments[0] == "report" else [])
        environment = {
            **os.environ,
            "ASAN_OPTIONS": f"exitcode={SANITIZED}:detect_leaks=0:"
            "allocator_may_return_null=1",
            "UBSAN_OPTIONS": f"exitcode={SANITIZED}",
        }
        # A damaged file may announce any size.
        environment.setdefault("TERP_MAX_MEMORY", "256M")
        try:
            result = subprocess.run(
                [TOOL, *arguments, self.in_, *outs], env=environment,
                capture_output=True, text=True, errors="replace",
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            self.assertTrue(self.is_of_hdf5(""), "it hangs")
            self.counts["hangs in HDF5"] += 1
            return
        code = result.returncode
        if code not in (OK, FOUND, TROUBLE):
            self.assertTrue(
                self.is_of_hdf5(result.stderr), f"{code}: {result.stderr}"
            )
            self.counts["crashes in HDF5"] += 1
            return
        self.counts[code] += 1
        if code == TROUBLE:
            self.assertRegex(result.stderr, f"terp {arguments[0]}: .")
        elif code == FOUND:
            self.assertNotEqual(result.stdout + result.stderr, "")

    def check_all(self, *instructions, seed):
        whole = self.make("whole.h5", *instructions)
        with open(whole, "rb") as file:
            bytes_ = file.read()
        for i in range(NFILES):
            pick = random.Random(seed * 1000003 + i)
            with open(self.in_, "wb") as file:
                file.write(damage(bytes_, pick))
            # One command that only reads, and one that copies.
            chosen = pick.sample(COMMANDS[:3], 1) + pick.sample(COMMANDS[3:], 1)
            for arguments in chosen:
                with self.subTest(i=i, command=arguments[0]):
                    self.check(arguments)
        print(dict(self.counts), file=sys.stderr)
        # Otherwise nothing was damaged, or nothing could be read.
        for code in OK, FOUND, TROUBLE:
            self.assertGreater(self.counts[code], 0)

    def test_any_damage_ends_in_a_message(self):
        self.check_all(
            f"new x f32 {CUBE} terp=2,1,3 -",
            "new group/y f64 40x9 10x9 terp=1,1,3+fletcher32 3=nan",
            "new z i32 50 25 gzip -",
            "new t text 1 - - -",
            "new s f32 scalar - - -",
            seed=1,
        )


if __name__ == "__main__":
    unittest.main()
