#!/usr/bin/env python3
"""Compares two engines: `cuda_turns.py CUDA_SPEED FIELD LIBRARY LIBRARY
[PART...]` runs cuda_speed's parts with both libterp_cuda.so in turns, three
times or TERP_BENCH_TURNS times. Prints for each figure the least medians in
us, and the ratio of the second library's to the first's. Fails unless
streams have the same sizes."""
import csv
import io
import os
import subprocess
import sys

KEY = ("what memory type extent chunks pipeline predictor direction").split()


def medians_of(program, field, library, parts):
    """Runs a library once. Returns, by the columns that identify a row, its
    median and its compression ratio."""
    got = subprocess.run([program, field, *parts], stdout=subprocess.PIPE,
                         text=True, check=True,
                         env=os.environ | {"TERP_CUDA_LIBRARY": library})
    return {tuple(row[name] for name in KEY):
            (float(row["median_us"]), row["ratio"])
            for row in csv.DictReader(io.StringIO(got.stdout))
            if row["engine"] == "cuda"}


def main():
    program, field, *libraries = sys.argv[1:5]
    least = [{}, {}]
    for _ in range(int(os.environ.get("TERP_BENCH_TURNS", "3"))):
        for best, library in zip(least, libraries):
            for key, (us, ratio) in medians_of(program, field, library,
                                               sys.argv[5:]).items():
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
