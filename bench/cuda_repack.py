#!/usr/bin/env python3
"""Compares the times of `terp repack` with the CPU's threads, with the GPU, and
with both: `cuda_repack.py TERP FIELD COPIES FOLDER [DEVICES]` makes a file in
FOLDER with COPIES copies of a raw float32 cube, repacks it in turns, and prints
CSV. A process uses one GPU: with DEVICES, it also repacks as much in as many
files, by a process a GPU at the same time. Fails if the files' chunks differ,
or if the CPU replaces the GPU."""
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

ENGINES = ("cpu", "cuda", "auto")
REPS = 3
NTHREADS = len(os.sched_getaffinity(0))


def make_file(path, field, ncopies):
    """Makes a dataset of `ncopies` cubes, each slightly different from the one
    before."""
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset(
            "field", (ncopies * len(field), *field.shape[1:]), "f4")
        for i in range(ncopies):
            dataset[i * len(field):(i + 1) * len(field)] = \
                field * np.float32(1 + i / 100)
        return dataset.nbytes


def repack(tool, sources, outs, engine):
    """Repacks all sources at once, each with a GPU and a share of the threads.
    Returns seconds, and the smallest percentage of parts that a GPU coded."""
    nthreads = max(1, NTHREADS // len(sources))
    begin = time.perf_counter()
    running = [subprocess.Popen(
        [tool, "repack", source, out, "--rel=1e-3", "--chunk=64x64x64",
         f"--engine={engine}", f"--threads={nthreads}", "--verbose"],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "TERP_DEVICE": str(device)})
        for device, (source, out) in enumerate(zip(sources, outs))]
    said = [process.communicate() for process in running]
    seconds = time.perf_counter() - begin
    for process, (_, errors) in zip(running, said):
        if process.returncode or "replaces the GPU" in errors:
            sys.exit(f"{engine}: {errors}")
    shares = [re.search(r"([0-9]+) % by the GPU", out) for out, _ in said]
    return seconds, min(int(share[1]) if share else 0 for share in shares)


def require_same_chunks(paths):
    files = [h5py.File(path, "r") for path in paths]
    ids = [file["field"].id for file in files]
    for i in range(ids[0].get_num_chunks()):
        where = ids[0].get_chunk_info(i).chunk_offset
        first, *others = (id_.read_direct_chunk(where) for id_ in ids)
        if any(other != first for other in others):
            sys.exit(f"the chunk at {where} is not the same")
    for file in files:
        file.close()


def measure(tool, sources):
    """A row's end for each engine."""
    outs = {engine: [f"{source}.{engine}" for source in sources]
            for engine in ENGINES}
    runs = {engine: [] for engine in ENGINES}
    for _ in range(REPS):
        for engine in ENGINES:
            runs[engine].append(repack(tool, sources, outs[engine], engine))
    for paths in zip(*outs.values()):
        require_same_chunks(paths)
        for path in paths:
            os.remove(path)
    for engine in ENGINES:
        seconds, share = sorted(runs[engine])[REPS // 2]
        if engine == "cuda" and share < 100:
            sys.exit(f"{engine}: the GPU coded {share} % of the parts")
        yield engine, seconds, share


def main():
    tool, field_path, ncopies, folder, *devices = sys.argv[1:]
    values = np.fromfile(field_path, "<f4")
    side = round(len(values) ** (1 / 3))
    field = values.reshape(side, side, side)
    print("gb,threads,devices,engine,s,gb_per_s,gpu_percent")
    for ndevices in range(1, int(devices[0] if devices else 1) + 1):
        with tempfile.TemporaryDirectory(dir=folder) as inside:
            sources = [str(Path(inside) / f"{i}.h5") for i in range(ndevices)]
            nbytes = sum(make_file(source, field, int(ncopies) // ndevices)
                         for source in sources)
            for engine, seconds, share in measure(tool, sources):
                print(f"{nbytes / 1e9:.2f},{NTHREADS},"
                      f"{0 if engine == 'cpu' else ndevices},{engine},"
                      f"{seconds:.3f},{nbytes / 1e9 / seconds:.2f},{share}",
                      flush=True)


if __name__ == "__main__":
    main()
