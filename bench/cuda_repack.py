#!/usr/bin/env python3
"""Compares the times of `terp repack` with the CPU's threads, with the GPU, and
with both: `cuda_repack.py TERP FIELD COPIES FOLDER` makes a file in FOLDER
with COPIES copies of a raw float32 cube, repacks it in turns, and prints
CSV. Fails if the files' chunks differ, or if the GPU was not used."""
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


def repack(tool, source, out, engine):
    """Returns seconds, and the percentage of parts that the GPU coded."""
    begin = time.perf_counter()
    done = subprocess.run(
        [tool, "repack", source, out, "--rel=1e-3", "--chunk=64x64x64",
         f"--engine={engine}", "--verbose"], text=True, capture_output=True)
    seconds = time.perf_counter() - begin
    if done.returncode or "replaces the GPU" in done.stderr:
        sys.exit(f"{engine}: {done.stderr or done.returncode}")
    share = re.search(r"([0-9]+) % by the GPU", done.stdout)
    return seconds, int(share[1]) if share else 0


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


def main():
    tool, field_path, ncopies, folder = sys.argv[1:]
    values = np.fromfile(field_path, "<f4")
    side = round(len(values) ** (1 / 3))
    with tempfile.TemporaryDirectory(dir=folder) as folder:
        source = str(Path(folder) / "in.h5")
        nbytes = make_file(source, values.reshape(side, side, side),
                           int(ncopies))
        outs = {e: str(Path(folder) / f"{e}.h5") for e in ENGINES}
        runs = {e: [] for e in ENGINES}
        for _ in range(REPS):
            for engine in ENGINES:
                runs[engine].append(repack(tool, source, outs[engine], engine))
        require_same_chunks(outs.values())
    print("gb,threads,engine,s,gb_per_s,gpu_percent")
    for engine in ENGINES:
        seconds, share = sorted(runs[engine])[REPS // 2]
        print(f"{nbytes / 1e9:.2f},{len(os.sched_getaffinity(0))},{engine},"
              f"{seconds:.3f},{nbytes / 1e9 / seconds:.2f},{share}")
        if (engine == "cpu") != (share == 0):
            sys.exit(f"{engine}: the GPU coded {share} % of the parts")


if __name__ == "__main__":
    main()
