#!/usr/bin/env python3
"""Compares the CUDA engines of two builds: `cuda_turns.py FIELD BUILD BUILD
[PART...]` runs the parts of both builds' bench/cuda_speed in turns, three
times or TERP_BENCH_TURNS times, each with its own lib/libterp_cuda.so. Prints
for each figure the least medians in us, and the ratio of the second build's
to the first's. Fails unless streams have the same sizes."""
import csv
import io
import os
import subprocess
import sys

KEY = ("what memory type extent chunks pipeline predictor direction").split()


def medians_of(build, field, parts):
    """Runs a build once. Returns, by the columns that identify a row, its
    median and its compression ratio."""
    library = os.path.abspath(os.path.join(build, "lib/libterp_cuda.so"))
    got = subprocess.run([os.path.join(build, "bench/cuda_speed"), field,
                          *parts], stdout=subprocess.PIPE, text=True,
                         check=True,
                         env=os.environ | {"TERP_CUDA_LIBRARY": library})
    return {tuple(row[name] for name in KEY):
            (float(row["median_us"]), row["ratio"])
            for row in csv.DictReader(io.StringIO(got.stdout))
            if row["engine"] == "cuda"}


def main():
    field, *builds = sys.argv[1:4]
    least = [{}, {}]
    for _ in range(int(os.environ.get("TERP_BENCH_TURNS", "3"))):
        for best, build in zip(least, builds):
            for key, (us, ratio) in medians_of(build, field,
                                               sys.argv[4:]).items():
                best[key] = min(best.get(key, (us, ratio)), (us, ratio))
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*KEY, "first_us", "second_us", "second_over_first"])
    for key, (us, ratio) in least[0].items():
        other_us, other_ratio = least[1][key]
        if other_ratio != ratio:
            sys.exit(f"{' '.join(key)}: streams of {ratio} and {other_ratio}")
        writer.writerow([*key, us, other_us, f"{other_us / us:.3f}"])


if __name__ == "__main__":
    main()
