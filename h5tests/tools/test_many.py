#!/usr/bin/env python3
"""Runs terp repack on many files: into a directory, and in place."""
import os
import re
import resource
import signal
import subprocess
import sys
import time
import unittest

from tool_case import FOUND, OK, TOOL, TROUBLE, ToolTest, terp

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ABS = "--abs=1e-3"
FAULTS = os.environ.get("TEST_WRITE_FAULTS")


def noise(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).cumsum(-1)


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


class Many(ToolTest):
    def write(self, name, values=None, **options):
        """A file with a dataset that terp compresses, and a small one."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with h5py.File(path, "w", **options) as file:
            file["x"] = noise(len(name), 20, 30, 40) if values is None else values
            file["few"] = np.arange(5)
        return path

    def tree(self):
        """Four HDF5 files of different names, and others."""
        self.write("runs/1.h5")
        self.write("runs/a/2.nc")
        self.write("runs/a/b/3", userblock_size=1024)
        self.write("runs/b/4.dat")
        with open(self.path("runs/a/notes.h5"), "w", encoding="ascii") as file:
            file.write("no HDF5")
        os.symlink("1.h5", self.path("runs/link.h5"))
        os.symlink("..", self.path("runs/a/up"))
        return ["1.h5", "a/2.nc", "a/b/3", "b/4.dat"]

    def run_many(self, *arguments, code=OK, **options):
        """What a run in the test's directory prints; no file is unfinished."""
        result = terp("repack", *arguments, cwd=self.directory, **options)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertEqual(self.unfinished(), [])
        return result.stderr

    def states(self, *arguments, code=OK):
        """The JSON summary, and the state of each file by its input."""
        summary = self.json(code, "repack", *arguments)
        return summary, {file["in"]: file["state"] for file in summary["files"]}

    def unfinished(self):
        return [name for _, _, names in os.walk(self.directory)
                for name in names if ".part-" in name]

    def check_copy(self, original, copy):
        with h5py.File(original, "r") as one, h5py.File(copy, "r") as other:
            self.assertLessEqual(abs(one["x"][:] - other["x"][:]).max(), 1e-3)
            np.testing.assert_array_equal(one["few"][:], other["few"][:])
            self.assertIsNotNone(other["x"].chunks)
        self.assertLess(os.path.getsize(copy), os.path.getsize(original))


class Tree(Many):
    def test_hdf5_files_are_found_by_signature_and_keep_their_paths(self):
        names = self.tree()
        out = self.run_many("runs", "--output-dir=small/er", ABS, "--jobs=3")
        self.assertIn("files: 4, 4 copied; not HDF5: 1; symbolic links: 2; ", out)
        for name in names:
            self.check_copy(self.path(f"runs/{name}"),
                            self.path(f"small/er/runs/{name}"))
        found = [os.path.join(folder, name) for folder, _, files
                 in os.walk(self.path("small")) for name in files]
        self.assertEqual(len(found), len(names))

    def test_copies_do_not_depend_on_jobs(self):
        names = self.tree()
        self.run_many("runs", "--output-dir=one", ABS)
        self.run_many("runs", "--output-dir=three", ABS, "--jobs=3",
                      "--threads=1")
        for name in names:
            self.assertEqual(bytes_of(self.path(f"one/runs/{name}")),
                             bytes_of(self.path(f"three/runs/{name}")), name)

    def test_patterns_and_absolute_paths(self):
        self.tree()
        self.run_many("runs/*/*.dat", "./runs/1.h5", self.path("runs/a/b"),
                      "runs/1.h5", "--output-dir=small", ABS)
        for name in "runs/b/4.dat", "runs/1.h5", "b/3":
            self.assertTrue(os.path.exists(self.path(f"small/{name}")), name)

    def test_directory_of_copies_is_not_searched(self):
        self.tree()
        for _ in range(2):
            out = self.run_many(".", "--output-dir=small", ABS)
            self.assertIn("files: 4,", out)

    def test_two_files_never_become_one(self):
        one, other = self.write("one/x.h5"), self.write("other/x.h5")
        out = self.run_many(one, other, "--output-dir=small", ABS, code=TROUBLE)
        self.assertIn("would both become small/x.h5", out)
        self.assertFalse(os.path.exists(self.path("small")))

    def test_summary_of_one_copy(self):
        path = self.write("in.h5")
        summary, states = self.states(path, self.path("out.h5"), ABS)
        self.assertEqual(states, {path: "copied"})
        self.assertEqual(summary["out_bytes"],
                         os.path.getsize(self.path("out.h5")))
        # A copy by IN and OUT has no note: it stays as it was.
        with h5py.File(self.path("out.h5"), "r") as file:
            self.assertNotIn("terp_repack", file.attrs)

    def test_verbose_lines_name_their_file(self):
        self.tree()
        result = terp("repack", "runs", "--output-dir=small", ABS, "-v",
                      cwd=self.directory)
        self.assertEqual(len(re.findall(
            r"(?m)^runs/\S+: /x: absolute bound", result.stdout)), 4)
        result = terp("repack", "runs", "--output-dir=small", ABS, "-v", "--redo",
                      "--json", cwd=self.directory)
        if "built without" not in result.stderr:
            self.assertEqual(result.stdout[0], "{")
            self.assertIn(": /x: absolute bound", result.stderr)

    def test_arguments_that_contradict(self):
        path = self.write("in.h5")
        for arguments, message in (
            (("--output-dir=a", "--in-place"), "only one of"),
            (("--in-place", "--salvage"), "--salvage needs OUT"),
            (("b", "--jobs=2"), "--jobs and --redo need"),
            (("b", "--redo"), "--jobs and --redo need"),
            (("b", "c"), "too many files"),
            ((), "give two files"),
            (("--output-dir=",), "needs the name"),
            (("--in-place", "--jobs=0"), "must be 1 to"),
        ):
            out = self.run_many(path, ABS, *arguments, code=TROUBLE)
            self.assertIn(message, out)


class Failures(Many):
    def break_tree(self):
        self.tree()
        path = self.path("runs/a/2.nc")
        os.truncate(path, os.path.getsize(path) // 2)

    def test_a_failed_file_does_not_stop_the_others(self):
        self.break_tree()
        for place in ("--output-dir=small",), ("--in-place",):
            old = bytes_of(self.path("runs/a/2.nc"))
            out = self.run_many("runs", "gone.h5", "runs/a/notes.h5", *place, ABS,
                                code=TROUBLE)
            self.assertIn("files: 6, 3 failed, 3 copied;", out)
            for name, reason in (("runs/a/2.nc", "truncated"),
                                 ("gone.h5", "No such file"),
                                 ("runs/a/notes.h5", "not an HDF5 file")):
                self.assertRegex(out, f"\nfailed: {name}: .*{reason}")
            self.assertEqual(bytes_of(self.path("runs/a/2.nc")), old)

    def test_json_names_failures(self):
        self.break_tree()
        summary, states = self.states(self.path("runs"), "--in-place", ABS,
                                      code=TROUBLE)
        self.assertEqual(summary["states"]["failed"], 1)
        self.assertEqual(states[self.path("runs/a/2.nc")], "failed")
        self.assertEqual(sorted(states.values()), ["copied"] * 3 + ["failed"])

    def test_a_rule_must_match_in_some_file(self):
        names = self.tree()
        with h5py.File(self.path("runs/1.h5"), "a") as file:
            file["extra"] = noise(1, 5000)
        old = [bytes_of(self.path(f"runs/{name}")) for name in names]
        out = self.run_many("runs", "--in-place", ABS, "--dataset=y=lossless",
                            code=TROUBLE)
        self.assertIn("--dataset y=lossless: no dataset", out)
        self.assertEqual(old, [bytes_of(self.path(f"runs/{name}"))
                               for name in names])
        self.run_many("runs", "--in-place", ABS, "--dataset=extra=lossless")

    def test_full_disk_leaves_the_file(self):
        path = self.write("in.h5", noise(1, 64, 64, 64))
        old = bytes_of(path)

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))

        out = self.run_many("in.h5", "--in-place", "--abs=1e-9", code=TROUBLE,
                            preexec_fn=limit)
        self.assertIn("File too large", out)
        self.assertEqual(bytes_of(path), old)

    def start(self, *arguments):
        """A run, and its process of a file once that writes."""
        run = subprocess.Popen([TOOL, "repack", "runs", "--in-place", ABS,
                                *arguments], cwd=self.directory, text=True,
                               stderr=subprocess.PIPE)
        self.addCleanup(run.stderr.close)
        path = f"/proc/{run.pid}/task/{run.pid}/children"
        while run.poll() is None and not self.unfinished():
            time.sleep(0.001)
        with open(path, encoding="ascii") as file:
            return run, [int(pid) for pid in file.read().split()]

    def test_a_process_that_dies_fails_only_its_file(self):
        for i in range(3):
            self.write(f"runs/{i}.h5", noise(i, 64, 64, 128))
        old = bytes_of(self.path("runs/0.h5"))
        run, children = self.start("--threads=1")
        os.kill(children[0], signal.SIGKILL)
        out = run.communicate(timeout=60)[1]
        self.assertEqual(run.returncode, TROUBLE)
        self.assertIn("failed: runs/0.h5: signal 9 ended its process", out)
        self.assertIn("1 failed, 2 copied", out)
        self.assertEqual(bytes_of(self.path("runs/0.h5")), old)
        # The next run removes what the dead process has left.
        self.run_many("runs", "--in-place", ABS)

    def test_a_stopped_run_leaves_whole_files(self):
        old = {}
        for i in range(3):
            path = self.write(f"runs/{i}.h5", noise(i, 64, 64, 128))
            old[path] = bytes_of(path)
        run, _ = self.start("--jobs=2", "--threads=2")
        run.send_signal(signal.SIGTERM)
        out = run.communicate(timeout=60)[1]
        self.assertEqual(run.returncode, -signal.SIGTERM)
        self.assertRegex(out, r"files: 3, .*\b[123] stopped")
        self.assertNotIn("failed", out)
        self.assertEqual(self.unfinished(), [])
        for path, content in old.items():
            if bytes_of(path) != content:
                with h5py.File(path, "r") as file:
                    self.assertIn("terp_repack", file.attrs)


class Again(Many):
    def test_finished_files_are_skipped(self):
        names = self.tree()
        paths = [self.path(f"runs/{name}") for name in names]
        arguments = (self.path("runs"), f"--output-dir={self.path('small')}", ABS)
        first, _ = self.states(*arguments)
        second, states = self.states(*arguments)
        self.assertEqual(states, dict.fromkeys(paths, "done"))
        for key in "in_bytes", "out_bytes":
            self.assertEqual(first[key], second[key])

        # A changed input, a changed copy, and a missing copy.
        with h5py.File(paths[0], "a") as file:
            file["x"][0, 0, 0] = 7
        with h5py.File(self.path("small/runs/a/2.nc"), "a") as file:
            file["more"] = 1
        os.remove(self.path("small/runs/a/b/3"))
        _, states = self.states(*arguments)
        self.assertEqual([states[path] for path in paths],
                         ["copied", "copied", "copied", "done"])
        with h5py.File(self.path("small/runs/1.h5"), "r") as file:
            self.assertAlmostEqual(file["x"][0, 0, 0], 7, 3)

        # Values that a program writes to a copy.
        with h5py.File(self.path("small/runs/b/4.dat"), "a") as file:
            file["x"][...] = noise(9, 20, 30, 40)
        _, states = self.states(*arguments)
        self.assertEqual([states[path] for path in paths],
                         ["done", "done", "done", "copied"])

    def test_other_options_make_other_copies(self):
        self.write("runs/1.h5")
        arguments = (self.path("runs"), f"--output-dir={self.path('small')}")
        for options, state in (
            ((ABS,), "copied"),
            ((ABS, "--threads=1", "--engine=cpu", "--trusted"), "done"),
            (("--abs=2e-3",), "copied"),
            (("--rel=2e-3",), "copied"),
            (("--rel=2e-3", "--dataset=x=pwr:1e-2"), "copied"),
            (("--rel=2e-3", "--dataset=x=pwr:1e-2", "--effort=fast"), "copied"),
            (("--lossless", "--chunk=10x10x10"), "copied"),
            (("--lossless", "--chunk=10x10x20"), "copied"),
            (("--lossless", "--chunk=10x10x20"), "done"),
            (("--lossless", "--chunk=10x10x20", "--redo"), "copied"),
        ):
            _, states = self.states(*arguments, *options)
            self.assertEqual(list(states.values()), [state], options)

    def test_copies_with_losses_are_made_again(self):
        path = self.write("runs/1.h5", noise(1, 20, 30, 40))
        self.run_many("runs", "--in-place", ABS, "--chunk=10x10x10")
        with h5py.File(path, "r") as file:
            offset = file["x"].id.get_chunk_info(3).byte_offset
        with open(path, "r+b") as file:
            file.seek(offset + 40)
            file.write(b"\xff" * 30)
        for _ in range(2):
            out = self.run_many("runs", "--output-dir=small", ABS, "--salvage",
                                code=FOUND)
            self.assertIn("files: 1, 1 copied;", out)

    def test_a_copy_of_a_copy_has_no_note(self):
        path = self.write("in.h5")
        self.run_many("in.h5", "--in-place", ABS)
        for command in ("repack", path, self.path("out.h5"), "--lossless"), (
                "preview", path, self.path("out.h5")):
            self.expect(OK, *command)
            with h5py.File(self.path("out.h5"), "r") as file:
                self.assertNotIn("terp_repack", file.attrs)


class InPlace(Many):
    def test_copies_replace_their_files_once(self):
        names = self.tree()
        old = self.path("old")
        self.run_many("runs", f"--output-dir={old}", "--lossless",
                      "--dataset=x=none")
        paths = [self.path(f"runs/{name}") for name in names]
        os.chmod(paths[0], 0o640)
        try:
            os.setxattr(paths[0], "user.terp", b"kept")
            has_extended = True
        except OSError:
            has_extended = False
        self.run_many("runs", "--in-place", ABS, "--jobs=2")
        for name, path in zip(names, paths):
            self.check_copy(f"{old}/runs/{name}", path)
        self.assertEqual(os.stat(paths[0]).st_mode & 0o7777, 0o640)
        if has_extended:
            self.assertEqual(os.getxattr(paths[0], "user.terp"), b"kept")
        new = [bytes_of(path) for path in paths]
        self.assertIn("files: 4, 4 done;",
                      self.run_many("runs", "--in-place", ABS))
        self.assertEqual([bytes_of(path) for path in paths], new)
        # Whoever appends to a file gets it compressed.
        with h5py.File(paths[0], "a") as file:
            file["more"] = noise(1, 30, 30, 30)
        self.assertIn("1 copied", self.run_many("runs", "--in-place", ABS))

    def check_refused(self, name, reason, *arguments):
        path = self.path(name)
        old, inode = bytes_of(path), os.stat(path).st_ino
        out = self.run_many(name, "--in-place", ABS, *arguments, code=TROUBLE)
        self.assertIn(reason, out)
        self.assertEqual(bytes_of(path), old)
        self.assertEqual(os.stat(path).st_ino, inode)

    def test_links_are_refused(self):
        self.write("in.h5")
        os.symlink("in.h5", self.path("soft.h5"))
        self.check_refused("soft.h5", "a symbolic link")
        os.link(self.path("in.h5"), self.path("hard.h5"))
        self.check_refused("hard.h5", "has 2 hard links")

    def test_a_file_that_is_open_for_writing_is_refused(self):
        path = self.write("in.h5")
        with h5py.File(path, "a"):
            self.check_refused("in.h5", "unable to lock file")
        # HDF5 1.10 marks the file itself.
        with h5py.File(path, "w", libver="latest") as file:
            file["x"] = noise(1, 20, 30, 40)
            file.flush()
            old = os.environ.get("HDF5_USE_FILE_LOCKING")
            os.environ["HDF5_USE_FILE_LOCKING"] = "FALSE"
            try:
                self.check_refused("in.h5", "already open for write")
            finally:
                os.environ.pop("HDF5_USE_FILE_LOCKING")
                if old is not None:
                    os.environ["HDF5_USE_FILE_LOCKING"] = old

    def test_a_file_with_nothing_to_compress_stays(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            file["few"] = np.arange(5)
            # terp does not make it smaller.
            file["noise"] = np.random.default_rng(1).integers(
                -1 << 63, 1 << 63, 5000, dtype="i8")
        old, inode = bytes_of(path), os.stat(path).st_ino
        _, states = self.states(path, "--in-place", ABS)
        self.assertEqual(states, {path: "unchanged"})
        self.assertEqual((bytes_of(path), os.stat(path).st_ino), (old, inode))

    @unittest.skipUnless(FAULTS, "needs Linux and a build without sanitizers")
    def test_a_wrong_byte_on_the_disk_leaves_the_file(self):
        path = self.write("in.h5")
        faults = {**os.environ, "LD_PRELOAD": FAULTS, "TEST_FAULT": "flip",
                  "TEST_FAULT_AT": "1", "TEST_FAULT_FILES": ".part-"}
        # Into a directory nothing is compared: the original is still there.
        self.run_many("in.h5", "--output-dir=small", ABS, env=faults)
        old = bytes_of(path)
        out = self.run_many("in.h5", "--in-place", ABS, env=faults, code=TROUBLE)
        self.assertIn("failed: in.h5: /x: ", out)
        self.assertEqual(bytes_of(path), old)
        self.run_many("in.h5", "--in-place", ABS)


if __name__ == "__main__":
    unittest.main()
