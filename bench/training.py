#!/usr/bin/env python3
"""Measures how fast samples for training come from HDF5 files and Zarr stores.
Prints CSV.

    training.py [--rows N] [--extent N] [--turns N] [--threads N] [--cold]
                [--folder DIR] [--loader WORKERS | --rows-apart]

Makes N rows of N x N float32, chunks of 1 MiB, in each format, and reads all rows
in batches of 32, in random order of blocks. Formats take turns. Needs numpy, h5py
and h5z_terp; zarr 3 if it is installed. --loader reads HDF5 files through PyTorch's
DataLoader with so many workers. --rows-apart reads HDF5 files by h5py, row by row
in random order, as most datasets for PyTorch do. --cold drops the files from the page cache before
each turn."""
import argparse
from concurrent.futures import ThreadPoolExecutor
import csv
import datetime
import os
from pathlib import Path
import statistics
import sys
import tempfile
import time

import h5py
import h5z_terp
import numpy as np

try:
    import zarr
except ImportError:
    zarr = None

BATCH = 32
ROWS_APART = "h5py"  # in place of the number of workers
CHUNK_NBYTES = 1 << 20


def field(nrows, extent):
    """Turbulence-like rows: waves of all lengths, drifting from row to row."""
    dice = np.random.default_rng(1)
    y, x = np.meshgrid(np.arange(extent), np.arange(extent), indexing="ij")
    rows = np.zeros((nrows, extent, extent), "f4")
    for i in range(24):
        angle, phase = dice.uniform(0, 2 * np.pi, 2)
        wave = 2 * np.pi * 1.25 ** i / extent
        along = wave * (np.cos(angle) * x + np.sin(angle) * y)
        for t in range(nrows):
            rows[t] += (1.25 ** -i) * np.sin(along + phase + 0.02 * t * (i + 1))
    rows += dice.normal(0, 1e-4, rows.shape).astype("f4")
    return rows


def make(folder, rows):
    """Writes the formats; returns a dict of paths."""
    nrows = max(1, CHUNK_NBYTES // rows[0].nbytes)
    chunks = (nrows, *rows.shape[1:])
    filters = {
        "hdf5": {}, "hdf5 gzip": {"compression": "gzip", "shuffle": True},
        "terp rel 1e-3": h5z_terp.Terp(rel=1e-3),
        "terp rel 1e-3 speed": h5z_terp.Terp(rel=1e-3, pipeline="speed"),
        "terp lossless": h5z_terp.Terp(lossless=True)}
    paths = {}
    for name, filter in filters.items():
        paths[name] = os.path.join(folder, name.replace(" ", "_") + ".h5")
        with h5py.File(paths[name], "w") as file:
            dataset = file.create_dataset("x", rows.shape, "f4", chunks=chunks,
                                          **filter)
            h5z_terp.write(dataset, rows)
    if zarr is not None:
        for name, compressors in ("zarr", None), ("zarr zstd", "auto"):
            paths[name] = os.path.join(folder, name.replace(" ", "_") + ".zarr")
            zarr.create_array(paths[name], shape=rows.shape, chunks=chunks,
                              dtype="f4", compressors=compressors)[:] = rows
    return paths


def files_of(path):
    path = Path(path)
    return [path] if path.is_file() else [f for f in path.rglob("*")
                                          if f.is_file()]


def drop_cache(path):
    os.sync()
    for file in files_of(path):
        descriptor = os.open(file, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def read_zarr(path, threads, seed):
    """Batches as h5z_terp.Samples makes them, by threads that read chunks
    ahead."""
    store = zarr.open(path, mode="r")
    nrows = store.chunks[0]
    starts = np.random.default_rng(seed).permutation(
        np.arange(0, store.shape[0], nrows))
    dice, left = np.random.default_rng(seed + 1), []
    with ThreadPoolExecutor(threads) as pool:
        mixed = []
        for block in pool.map(lambda at: store[at:at + nrows], starts):
            mixed += list(block)
            if len(mixed) >= 8 * nrows:
                left += [mixed[i] for i in dice.permutation(len(mixed))]
                mixed = []
            while len(left) >= BATCH:
                yield np.stack(left[:BATCH])
                left = left[BATCH:]
        left += mixed
    for i in range(0, len(left), BATCH):
        yield np.stack(left[i:i + BATCH])


def read_rows(path, seed):
    with h5py.File(path) as file:
        order = np.random.default_rng(seed).permutation(len(file["x"]))
        for i in range(0, len(order), BATCH):
            yield np.stack([file["x"][row] for row in order[i:i + BATCH]])


def batches(path, threads, seed, workers):
    if path.endswith(".zarr"):
        return read_zarr(path, threads, seed)
    if workers == ROWS_APART:
        return read_rows(path, seed)
    if workers is None:
        return h5z_terp.Samples(path, "x", batch=BATCH, seed=seed,
                                threads=threads)
    from h5z_terp.torch import SampleDataset
    from torch.utils.data import DataLoader

    return DataLoader(SampleDataset(path, "x", batch=BATCH, seed=seed,
                                    threads=threads),
                      batch_size=None, num_workers=workers)


def cpu_seconds():
    used = os.times()
    return (used.user + used.system + used.children_user +
            used.children_system)


def measure(path, nrows, threads, seed, workers):
    """Seconds, and seconds of processors."""
    begin, cpu = time.perf_counter(), cpu_seconds()
    count = sum(len(batch) for batch in batches(path, threads, seed, workers))
    if count != nrows:
        sys.exit(f"training.py: {path} gave {count} rows of {nrows}")
    return time.perf_counter() - begin, cpu_seconds() - cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--extent", type=int, default=128)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--folder")
    parser.add_argument("--loader", type=int)
    parser.add_argument("--rows-apart", dest="loader", action="store_const",
                        const=ROWS_APART)
    options = parser.parse_args()
    threads = options.threads or len(os.sched_getaffinity(0))
    rows = field(options.rows, options.extent)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["date", "format", "loader", "cold", "threads",
                    "mib", "ratio", "rows_per_s", "speed_of_hdf5", "cpu_s_per_gib",
                    "load"])
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        paths = make(folder, rows)
        seconds = {name: [] for name in paths}
        for turn in range(options.turns):
            for name, path in paths.items():
                if options.cold:
                    drop_cache(path)
                seconds[name].append(measure(path, options.rows, threads, turn,
                                             options.loader))
        for name, path in paths.items():
            nbytes = sum(file.stat().st_size for file in files_of(path))
            # Formats that were read in the same turn met the same load.
            speed = statistics.median(
                other[0] / own[0] for own, other in
                zip(seconds[name], seconds["hdf5"]))
            cpu = min(turn[1] for turn in seconds[name])
            table.writerow([
                datetime.date.today(), name,
                "" if options.loader is None or path.endswith(".zarr")
                else options.loader, int(options.cold), threads,
                f"{nbytes / 2**20:.1f}", f"{rows.nbytes / nbytes:.2f}",
                f"{options.rows / min(seconds[name])[0]:.0f}", f"{speed:.2f}",
                f"{cpu * 2**30 / rows.nbytes:.2f}",
                f"{os.getloadavg()[0]:.1f}"])


if __name__ == "__main__":
    main()
