#!/usr/bin/env python3
"""Kills terp repack and preview at random times, and checks which files are
left, then and after the next run."""
import os
import random
import re
import signal
import subprocess
import sys
import time
import unittest

from tool_case import OK, TOOL, ToolTest, terp, warnings_of

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

# For each program.
NKILLS = int(os.environ.get("TEST_NKILLS", 30))
BLOCKS = os.environ["TEST_WRITE_BLOCKS"]
OLD = b"what was there before"
COMMANDS = (("repack", "--abs=1e-3", "--threads=2"), ("preview", "--step=2"))


class Leftovers(ToolTest):
    def setUp(self):
        super().setUp()
        self.out = self.path("out.h5")
        self.source = self.path("in.h5")
        noise = np.random.default_rng(5).normal(size=(64, 64, 64))
        with h5py.File(self.source, "w") as file:
            for i in range(4):
                file[f"x{i}"] = noise + i

    def parts(self):
        return sorted(n for n in os.listdir(self.directory) if ".part-" in n)

    def command(self, arguments):
        name, *options = arguments
        return [TOOL, name, self.source, self.out, *options]

    def start(self, arguments):
        return subprocess.Popen(
            self.command(arguments),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def stop_once_it_writes(self):
        """A run that is killed, and its temporary file."""
        for _ in range(100):
            process = self.start(COMMANDS[0])
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            while process.poll() is None and not self.parts():
                time.sleep(0.0005)
            process.send_signal(signal.SIGSTOP)
            if process.poll() is None and self.parts():
                return process, self.parts()
        return self.fail("it always ends too soon")

    def values(self):
        with h5py.File(self.out, "r") as file:
            return {name: file[name][()].tobytes() for name in file}

    def check_kills(self, arguments, seed):
        begin = time.monotonic()
        self.expect(OK, *self.command(arguments)[1:])
        seconds = time.monotonic() - begin
        whole = self.values()
        pick = random.Random(seed)
        nkept = nparts = 0
        for _ in range(NKILLS):
            with open(self.out, "wb") as file:
                file.write(OLD)
            process = self.start(arguments)
            time.sleep(pick.uniform(0, 1.2 * seconds))
            process.kill()
            process.wait()
            with open(self.out, "rb") as file:
                is_old = file.read(len(OLD) + 1) == OLD
            nkept += is_old
            nparts += len(self.parts())
            if not is_old:
                self.assertTrue(self.values() == whole, "other values")
            self.assertLessEqual(len(self.parts()), 1)
            if pick.random() < 0.5:
                self.expect(OK, *self.command(arguments)[1:])
                self.assertEqual(self.parts(), [])
                self.assertTrue(self.values() == whole, "other values")
            else:
                # The next run is killed too, after it has removed the
                # temporary file of the last.
                process = self.start(arguments)
                time.sleep(pick.uniform(0, seconds))
                process.kill()
                process.wait()
                self.expect(OK, *self.command(arguments)[1:])
                self.assertEqual(self.parts(), [])
        # Otherwise no kill came at a useful time.
        self.assertGreater(nkept, 0)
        self.assertGreater(nparts, 0)

    def test_kills_at_random_leave_the_old_file_or_the_new_one(self):
        for seed, arguments in enumerate(COMMANDS):
            with self.subTest(command=arguments[0]):
                self.check_kills(arguments, seed)

    def test_kills_of_a_program_that_writes_blocks(self):
        """HDF5 promises nothing for a file that was not closed: it may not
        open. A file that opens has only values that were written, and the next
        run repairs it."""
        command = [BLOCKS, self.out]
        begin = time.monotonic()
        subprocess.run(command, check=True)
        seconds = time.monotonic() - begin
        whole = self.values()
        with h5py.File(self.out, "r") as file:
            written = file["x"][...]
        pick = random.Random(7)
        nended = nread = 0
        for _ in range(NKILLS):
            os.remove(self.out)
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            time.sleep(pick.uniform(0, 1.2 * seconds))
            process.kill()
            nended += process.wait() == 0
            try:
                with h5py.File(self.out, "r") as file:
                    values = file["x"][...]
            except (OSError, KeyError):
                pass
            else:
                nread += 1
                # The first chunk before and after it was written again.
                values[:100, :100][
                    np.abs(values[:100, :100] - written[:100, :100] / 2) < 4e-3
                ] = 0
                known = (values == 0) | (values == written)
                self.assertTrue(known.all())
            # The file is whole again.
            subprocess.run(command, check=True)
            self.assertTrue(self.values() == whole)
        self.assertLess(nended, NKILLS)
        self.assertLessEqual(nended, nread)

    def test_file_of_a_live_run_is_left_alone(self):
        stopped, parts = self.stop_once_it_writes()
        for arguments in COMMANDS:
            result = terp(*self.command(arguments)[1:])
            self.assertEqual((result.returncode, warnings_of(result)), (OK, ""))
            self.assertEqual(self.parts(), parts)
        os.remove(self.out)
        stopped.send_signal(signal.SIGCONT)
        self.assertEqual(stopped.wait(), OK)
        self.assertEqual(self.parts(), [])
        self.assertEqual(len(self.values()), 4)

    def test_name_tells_host_and_process(self):
        stopped, (part,) = self.stop_once_it_writes()
        match = re.fullmatch(
            r"out\.h5\.part-([\w.]*)-[0-9a-f]{12}-([0-9a-f]+)-([0-9a-f]+)-\w{6}",
            part,
        )
        self.assertIsNotNone(match, part)
        host = re.sub(r"[^A-Za-z0-9.]", "_", os.uname().nodename)[:16]
        self.assertEqual(match[1], host)
        self.assertEqual(int(match[2], 16), stopped.pid)
        with open(f"/proc/{stopped.pid}/stat", encoding="ascii") as file:
            started = int(file.read().rsplit(")", 1)[1].split()[19])
        self.assertEqual(int(match[3], 16), started)

    def test_number_that_another_process_has_now_saves_nothing(self):
        stopped, (part,) = self.stop_once_it_writes()
        head, start, rest = part.rsplit("-", 2)
        earlier = f"{head}-{int(start, 16) - 1:x}-{rest}"
        with open(self.path(earlier), "wb"):
            pass
        self.expect(OK, *self.command(COMMANDS[0])[1:])
        self.assertEqual(self.parts(), [part])
        stopped.kill()

    def test_what_cannot_be_judged_is_told_and_left_alone(self):
        stopped, (part,) = self.stop_once_it_writes()
        stopped.kill()
        stopped.wait()
        os.remove(self.path(part))
        host, machine, *rest = part.split("-", 1)[1].rsplit("-", 4)
        other = f"{int(machine, 16) ^ 1:012x}"
        elsewhere = "-".join(["out.h5.part", host, other, *rest])
        untold = ["out.h5.part-abcdef", "out.h5.part-", "out.h5.part-a-b-c-d-e",
                  "other.h5.part-" + part.split("-", 1)[1]]
        for name in [elsewhere, *untold]:
            with open(self.path(name), "wb"):
                pass
        result = terp(*self.command(COMMANDS[0])[1:])
        self.assertEqual(result.returncode, OK)
        self.assertEqual(self.parts(), sorted([elsewhere, *untold]))
        self.assertIn(elsewhere, result.stderr)
        self.assertEqual(result.stderr.count(".part-"), 1)

    def test_link_to_the_output_is_swept_where_it_points(self):
        folder = self.path("there")
        os.mkdir(folder)
        target = os.path.join(folder, "real.h5")
        with open(target, "wb") as file:
            file.write(OLD)
        os.symlink(target, self.out)
        process = self.start(COMMANDS[0])
        while process.poll() is None and len(os.listdir(folder)) < 2:
            time.sleep(0.0005)
        process.kill()
        process.wait()
        self.expect(OK, *self.command(COMMANDS[0])[1:])
        self.assertEqual(os.listdir(folder), ["real.h5"])
        self.assertTrue(os.path.islink(self.out))


if __name__ == "__main__":
    unittest.main()
