"""Prepares a benchmark before numpy and h5py load: packages, environment, and
the columns that tell where and when a figure was measured."""

import argparse
import csv
import datetime
import functools
import importlib.util
import multiprocessing
import os
import platform
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
VENV = PROJECT / "build" / "bench-venv"
PACKAGES = ("numpy", "scipy", "h5py", "hdf5plugin", "pysz")
PLUGIN_DIR = PROJECT / "build" / "release" / "plugin"


def fail(message):
    sys.exit(f"bench: {message}")


def note(message):
    print(f"bench: {message}", file=sys.stderr, flush=True)


def missing_packages(packages=PACKAGES):
    return [p for p in packages if importlib.util.find_spec(p) is None]


def use_packages(install=True, packages=PACKAGES):
    """Returns if this interpreter has the packages; otherwise restarts the
    script in the benchmarks' own virtual environment."""
    missing = missing_packages(packages)
    if not missing:
        return
    python = VENV / "bin" / "python3"
    if Path(sys.prefix) != VENV and has_packages(python, packages):
        os.execv(python, [str(python), *sys.argv])
    if not install:
        return
    note(f"installing {' '.join(packages)} from PyPI into {VENV}")
    made = subprocess.run([sys.executable, "-m", "venv", str(VENV)],
                          capture_output=True, text=True)
    if made.returncode:
        fail(f"cannot make {VENV}: {last_line(made)}\n"
             "bench: on Debian, apt install python3-venv")
    got = subprocess.run([str(python), "-m", "pip", "install", "-q",
                          "--disable-pip-version-check", *packages],
                         capture_output=True, text=True)
    if got.returncode:
        fail(f"PyPI cannot be reached, or lacks {', '.join(missing)}: "
             f"{last_line(got)}\nbench: without a network, run this script "
             "with a python3 that has them")
    os.execv(python, [str(python), *sys.argv])


def has_packages(python, packages):
    if not python.exists():
        return False
    probe = "import " + ", ".join(packages)
    return not subprocess.run([str(python), "-c", probe],
                              capture_output=True).returncode


def last_line(process):
    lines = (process.stderr or process.stdout).strip().splitlines()
    return lines[-1] if lines else "no message"


def parser(doc, codecs, chunks, bounds):
    """Makes a parser with the arguments that every benchmark has."""
    out = argparse.ArgumentParser(description=doc)
    out.add_argument("--fields", required=True, metavar="F,F,...",
                     help="raw files like name_256x256x256.f32, directories "
                     "of them, FILE.h5, FILE.h5:/dataset, or names that "
                     "gen_fields.py knows (pres, vel, ...)")
    out.add_argument("--bounds", default=bounds, metavar="B,B,...",
                     help="relative to the range of the whole field's valid "
                     "values (default %(default)s)")
    out.add_argument("--chunks", default=chunks, metavar="C,C,...",
                     help="'whole', '64' (64^3 values) or '32x64x64' "
                     "(default %(default)s)")
    out.add_argument("--codecs", default=codecs, metavar="C,C,...",
                     help="terp[:PIPELINE[:PREDICTOR]] or a peer "
                     "(default %(default)s)")
    out.add_argument("--plugin", type=Path, default=PLUGIN_DIR, metavar="DIR",
                     help="where the filter plugin was built "
                     "(default %(default)s)")
    out.add_argument("--fill", type=float,
                     help="fill value of raw files; HDF5 files say their own")
    return out


def prepare(args, threads, packages=PACKAGES):
    """Sets up packages and environment. Call it before importing h5py."""
    use_packages(packages=packages)
    args.bounds = [float(b) for b in args.bounds.split(",")]
    args.chunks = args.chunks.split(",")
    args.codecs = args.codecs.split(",")
    wants_terp = any(c.split(":")[0] == "terp" for c in args.codecs)
    if wants_terp and not any(args.plugin.glob("*.so")):
        fail(f"no plugin in {args.plugin}: build it, or say --plugin DIR, "
             "or leave terp out of --codecs")
    terp_version()  # now: the checkout may change during the run
    os.environ["HDF5_PLUGIN_PATH"] = str(args.plugin)
    for name in ("TERP_NUM_THREADS", "OMP_NUM_THREADS", "BLOSC_NTHREADS"):
        os.environ[name] = str(threads)


def machine():
    """CPU, cores and system, for one cell."""
    cpu = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        system = platform.platform()
    return f"{cpu} / {os.cpu_count()} cores / {system}"


def apart(function, *arguments):
    """Calls function(*arguments) in a child process, so that a codec that
    crashes does not end the run. Returns (result, None) or (None, reason)."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)

    def child():
        try:
            sender.send((function(*arguments), None))
        except Exception as error:
            while error.__context__:  # the first error, not those of clean-up
                error = error.__context__
            sender.send((None, f"fails: {error}"))
        # HDF5 tries again to close files that failed to close, and may crash.
        sender.close()
        os._exit(0)

    process = fork.Process(target=child)
    process.start()
    sender.close()
    try:
        answer = receiver.recv()
    except EOFError:
        answer = None
    process.join()
    if process.exitcode > 0:  # fail() has printed a message
        sys.exit(process.exitcode)
    return answer or (None, f"crashes, signal {-process.exitcode}")


@functools.cache
def terp_version():
    """The commit that was checked out when the run began; '+' marks local
    changes. Assumes that the plugin was built from it."""
    def git(*words):
        return subprocess.run(["git", "-C", str(PROJECT), *words],
                              capture_output=True, text=True).stdout.strip()
    commit = git("rev-parse", "--short", "HEAD") or "unknown"
    dirty = git("status", "--porcelain", "-uno", "--", "codec", "codebooks",
                "filter")
    return "terp " + commit + ("+" if dirty else "")


class Table:
    """Writes CSV to stdout, each line at once."""

    def __init__(self, columns):
        self.rows = []
        self.common = {"date": datetime.date.today().isoformat(),
                       "machine": machine()}
        self.writer = csv.DictWriter(
            sys.stdout, ["date", "machine", *columns], lineterminator="\n")
        self.writer.writeheader()

    def add(self, **row):
        self.rows.append(row)
        self.writer.writerow({**self.common, **row})
        sys.stdout.flush()


if __name__ == "__main__":
    # python3 common.py only makes the virtual environment.
    use_packages()
    note(f"{', '.join(PACKAGES)} are there: {sys.executable}")
