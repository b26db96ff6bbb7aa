#!/usr/bin/env python3
"""Compares h5py's writes and reads through the connector with the filter alone.
Runs alternate, each in a process of its own, on files in memory-backed
storage. With --cuda, also the connector with the CUDA engine, and values in
device memory. With --suite, instead the time of h5py's own tests, whose
files do not use terp, with and without the connector. CSV on stdout, summary
on stderr."""

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common

COLUMNS = ("version", "what", "field", "dims", "type", "bound_rel", "chunk",
           "kind", "median_s", "min_s", "ratio", "filter_vs_connector", "reps")
KINDS = {"filter": {}, "connector": {"HDF5_VOL_CONNECTOR": "terp"}}
CUDA = {**KINDS["connector"], "TERP_ENGINE": "cuda"}
FILTER_ID = 46117


def on_device(values):
    """An array in device memory that h5py accepts; numpy must not read it.
    Without a device it is in host memory."""
    runtime = os.environ.get("TERP_BENCH_CUDART")
    if runtime is None:
        return values
    import ctypes
    import numpy as np
    cuda, at = ctypes.CDLL(runtime), ctypes.c_void_p()
    if cuda.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(values.nbytes)) or \
            cuda.cudaMemcpy(at, ctypes.c_void_p(values.ctypes.data),
                            ctypes.c_size_t(values.nbytes), 4):
        common.fail("no device memory")
    memory = (ctypes.c_char * values.nbytes).from_address(at.value)
    return np.frombuffer(memory, values.dtype).reshape(values.shape)


def work(path, raw, shape, extent, bound):
    """Writes and reads the field once. Returns the seconds of each, and the
    stored bytes. An untimed write and read come first: they open the device,
    if there is one."""
    import h5py
    import numpy as np
    data = on_device(np.load(raw).reshape(shape))
    out = on_device(np.zeros(data.shape, data.dtype))
    how = {"chunks": (extent,) * data.ndim, "compression": FILTER_ID,
           "compression_opts": (2, 1, round(-np.log10(bound)))}
    with h5py.File(path, "w") as file:
        first = file.create_dataset("first", data.shape, data.dtype, **how)
        first.write_direct(data)
        first.read_direct(out)
        dataset = file.create_dataset("d", data.shape, data.dtype, **how)
        start = time.perf_counter()
        dataset.write_direct(data)
        file.flush()
        written = time.perf_counter() - start
        stored = dataset.id.get_storage_size()
    with h5py.File(path) as file:
        start = time.perf_counter()
        file["d"].read_direct(out)
        read = time.perf_counter() - start
    print(written, read, stored)


def run(kind, words, plugin_dir):
    env = {**os.environ, "HDF5_PLUGIN_PATH": str(plugin_dir), **KINDS[kind]}
    if kind == "filter":
        env.pop("HDF5_VOL_CONNECTOR", None)
    done = subprocess.run([sys.executable, *words], env=env, text=True,
                          capture_output=True)
    return done, env


def measure_field(source, args, folder):
    import numpy as np
    field = source.load(None)
    raw = Path(folder) / "field.npy"
    np.save(raw, field.data)
    shape = "x".join(map(str, field.data.shape))
    times = {(kind, what): [] for kind in KINDS for what in ("write", "read")}
    stored = {}
    for _ in range(args.reps):
        for kind in KINDS:
            done, _ = run(kind, [__file__, "--work", f"{folder}/{kind}.h5",
                                 str(raw), shape, str(args.chunk),
                                 str(args.bound)], args.plugin)
            if done.returncode:
                common.fail(done.stderr)
            written, read, stored[kind] = map(float, done.stdout.split())
            times[kind, "write"].append(written)
            times[kind, "read"].append(read)
    if len(set(stored.values())) > 1:
        common.fail(f"{source.name}: {stored} bytes are stored")
    for (kind, what), seconds in times.items():
        speedup = statistics.median(times["filter", what]) / \
            statistics.median(seconds)
        yield (what, source.name, shape, field.data.dtype, args.bound,
               args.chunk, kind, f"{statistics.median(seconds):.4f}",
               f"{min(seconds):.4f}",
               f"{field.data.nbytes / stored[kind]:.2f}", f"{speedup:.2f}",
               args.reps)


def measure_suite(args, folder):
    seconds = {kind: [] for kind in KINDS}
    for _ in range(args.suite):
        for kind in KINDS:
            start = time.perf_counter()
            done, _ = run(kind, ["-m", "pytest", "-q", "-p", "no:cacheprovider",
                                 "--pyargs", "h5py.tests"], args.plugin)
            seconds[kind].append(time.perf_counter() - start)
            print(kind, f"{seconds[kind][-1]:.2f} s:",
                  done.stdout.strip().splitlines()[-1], file=sys.stderr)
    for kind, all_seconds in seconds.items():
        speedup = statistics.median(seconds["filter"]) / \
            statistics.median(all_seconds)
        yield ("h5py.tests", "", "", "", "", "", kind,
               f"{statistics.median(all_seconds):.2f}",
               f"{min(all_seconds):.2f}", "", f"{speedup:.3f}", args.suite)


def main():
    if sys.argv[1:2] == ["--work"]:
        path, raw, shape, extent, bound = sys.argv[2:]
        work(path, raw, [int(n) for n in shape.split("x")], int(extent),
             float(bound))
        return
    parser = common.parser(__doc__, "terp", "64", "1e-3")
    parser.add_argument("--reps", type=int, default=7, metavar="N",
                        help="processes of each kind (default %(default)s)")
    parser.add_argument("--suite", type=int, default=0, metavar="N",
                        help="runs of h5py's own tests of each kind")
    parser.add_argument("--cuda", metavar="LIBRARY",
                        help="CUDA's runtime: libcudart.so")
    args = parser.parse_args()
    common.prepare(args, 1, common.PACKAGES if args.suite else
                   ("numpy", "h5py"))
    if args.cuda:
        KINDS["connector-cuda"] = CUDA
        KINDS["connector-cuda-device"] = {**CUDA,
                                            "TERP_BENCH_CUDART": args.cuda}
    for name in ("TERP_NUM_THREADS", "HDF5_VOL_CONNECTOR"):
        os.environ.pop(name, None)
    args.chunk, args.bound = int(args.chunks[0]), args.bounds[0]
    if args.suite and not importlib.util.find_spec("pytest"):
        common.fail("--suite needs pytest and pytest-mpi beside h5py")
    import fields
    print(",".join(COLUMNS))
    version = common.terp_version()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        rows = []
        for source in fields.find_fields(args.fields):
            rows += measure_field(source, args, folder)
        if args.suite:
            rows += measure_suite(args, folder)
    for row in rows:
        print(",".join(map(str, (version, *row))))
        common.note(" ".join(map(str, row)))


if __name__ == "__main__":
    main()
