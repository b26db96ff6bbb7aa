#!/usr/bin/env python3
"""Copies HDF5 files of random structure by terp repack and terp preview with
all options, and compares each copy with its original, object by object.

test_structures.py [--seed N] [--files N] [--first N] [--keep FOLDER]
[OTHERS...]

The default seed is 1; "day" is the number of the day, so that each night has
its own files. Prints the seed, and a command that repeats a failure. ctest
uses the variables TEST_SEED and TEST_NFILES. All HDF5 files in the folders
OTHERS are copied, too, with all options, or one in TERP_TEST_FEWER of them,
which the day or TERP_TEST_SEED chooses."""
import argparse
import datetime
import os
import random
import shutil
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy

    import hdf5_raw
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

if hdf5_raw.LIBRARY is None:
    print("skipped: HDF5's library cannot be found in this process")
    sys.exit(77)

from same_structure import Difference, Mode, compare
from structures import make
from tool_case import FOUND, OK, TOOL, TROUBLE

# The options to copy files with; each file gets a few random ones.
WAYS = (
    (("repack", "--dataset=*=none"), Mode()),
    (("repack", "--lossless"), Mode("lossless")),
    (("repack", "--lossless", "--chunk=auto"), Mode("lossless")),
    (("repack", "--lossless", "--salvage"), Mode("lossless")),
    (("repack", "--lossless", "--record"), Mode("lossless")),
    (("repack", "--dataset=*=lossless", "--chunk=3x100", "--effort=fast"),
     Mode("lossless")),
    (("repack", "--lossless", "--rest=deflate"),
     Mode("lossless", deflates=True)),
    (("repack", "--rel=1e-3"), Mode("rel", 1e-3)),
    (("repack", "--rel=1e-2", "--chunk=auto", "--rest=deflate"),
     Mode("rel", 1e-2, deflates=True)),
    (("repack", "--abs=0.01", "--pipeline=huffman"), Mode("abs", 0.01)),
    (("repack", "--abs=1e-5", "--effort=best", "--threads=1"),
     Mode("abs", 1e-5)),
    (("repack", "--pwr=1e-2"), Mode("pwr", 1e-2)),
    (("repack", "--pwr=1e-3", "--floor=1e-4"), Mode("pwr", 1e-3, floor=1e-4)),
    (("repack", "--abs=0.5", "--keep-sign=values"),
     Mode("abs", 0.5, keeps_signs=True)),
    (("repack", "--rel=1e-1", "--keep-sign=none", "--valid-range=none"),
     Mode("rel", 1e-1)),
    (("repack", "--abs=0.01", "--no-amrex"), Mode("abs", 0.01)),
    (("repack", "--psnr=60"), Mode("rel", 3**0.5 * 1e-3)),
    (("repack", "--digits=3"), Mode("pwr", 5e-4)),
    (("preview", "--step=1"), Mode(step=1)),
    (("preview", "--step=2"), Mode(step=2)),
    (("preview", "--step=4"), Mode(step=4)),
)
NWAYS = 3


def terp(*arguments):
    return subprocess.run(
        [TOOL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, errors="replace", timeout=300, check=False)


class Failure(Exception):
    pass


def copy(in_, out, way, lacks_filters):
    """How many datasets were compressed, or None if a filter is missing."""
    arguments, mode = way
    result = terp(*arguments, in_, out)
    said = (result.stdout + result.stderr).strip()
    if (lacks_filters and " filter " in result.stderr and
            result.returncode in (FOUND, TROUBLE)):
        return None
    if result.returncode != OK:
        raise Failure(f"exit code {result.returncode}: {said}")
    return compare(in_, out, mode, "its fill value refers" in result.stderr)


def look(path):
    """Other commands accept the copy."""
    for arguments in ("info", path), ("verify", path):
        result = terp(*arguments)
        if result.returncode != OK:
            raise Failure(f"terp {arguments[0]}: {result.stdout}"
                          f"{result.stderr}")


class Run:
    def __init__(self, folder):
        self.folder = folder
        self.ncopies = self.ncompressed = self.nlacking = self.nfailed = 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def try_ways(self, in_, ways, lacks_filters, repeat):
        for i, way in enumerate(ways):
            out = self.path("out.h5")
            if os.path.exists(out):
                os.unlink(out)
            try:
                ncompressed = copy(in_, out, way, lacks_filters)
                if ncompressed is None:
                    self.nlacking += 1
                    continue
                look(out)
                # terp can copy a file that terp has written.
                if i == 0 and way[1].step == 0:
                    copy(out, self.path("again.h5"), ways[-1], lacks_filters)
            except (Failure, Difference, hdf5_raw.Failed, OSError, ValueError,
                    KeyError, RuntimeError,
                    subprocess.TimeoutExpired) as error:
                self.nfailed += 1
                print(f"FAILED: terp {' '.join(way[0])}: {error!r:.2000}\n"
                      f"  {repeat}", flush=True)
                continue
            self.ncopies += 1
            self.ncompressed += ncompressed

    def try_seed(self, seed, keep):
        # HDF5 keeps files open as long as an exception refers to them.
        in_ = self.path(f"in{seed}.h5")
        maker = make(in_, seed)
        pick = random.Random(seed)
        failed = self.nfailed
        self.try_ways(in_, pick.sample(WAYS, NWAYS), maker.lacks_filters,
                      f"{sys.argv[0]} --first {seed} --files 1")
        if keep and self.nfailed > failed:
            shutil.copy(in_, os.path.join(keep, f"{seed}.h5"))
        for name in os.listdir(self.folder):
            os.unlink(self.path(name))


def ways_of_day():
    fewer = int(os.environ.get("TERP_TEST_FEWER", 1))
    day = int(os.environ.get("TERP_TEST_SEED",
                             datetime.date.today().toordinal()))
    if fewer > 1:
        print(f"some options of many: TERP_TEST_SEED={day} tries the same ones "
              "again", flush=True)
    return WAYS[day % fewer::fewer]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", default=os.environ.get("TEST_SEED", "1"))
    parser.add_argument("--files", type=int,
                        default=int(os.environ.get("TEST_NFILES", 8)))
    parser.add_argument("--first", type=int,
                        help="the number of the first file, instead of a seed")
    parser.add_argument("--keep", help="where files of failures are copied to")
    parser.add_argument("others", nargs="*", help="folders of files that are there")
    arguments = parser.parse_args()
    seed = (datetime.date.today().toordinal() if arguments.seed == "day"
            else int(arguments.seed))
    first = (arguments.first if arguments.first is not None
             else seed * 1000003)
    print(f"seed {seed}, files {arguments.files}, HDF5 "
          f"{h5py.version.hdf5_version}, numpy {numpy.__version__}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(folder)
        for seed in range(first, first + arguments.files):
            run.try_seed(seed, arguments.keep)
        for other in arguments.others:
            for parent, _, names in os.walk(other):
                for name in sorted(names):
                    path = os.path.join(parent, name)
                    if h5py.is_hdf5(path):
                        run.try_ways(path, ways_of_day(), False, path)
    print(f"{run.ncopies} copies, {run.ncompressed} datasets compressed, "
          f"{run.nlacking} refused for missing filters, {run.nfailed} failed")
    # Otherwise the run has tested nothing.
    return 1 if run.nfailed > 0 or run.ncompressed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
