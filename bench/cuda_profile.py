#!/usr/bin/env python3
"""Measures where the CUDA engine spends its time.
`cuda_profile.py CUDA_SPEED FIELD [PIPELINE:EXTENT:NCHUNKS...]`, or
`cuda_profile.py CUDA_SHAPES FIELD PIPELINE:BOUND...`, runs one encode and one decode
under Nsight Compute (ncu), and prints a table of their kernels. Each kernel is
measured twice, and the shorter time counts: the first may have had cold clocks.

Kernels are measured alone, one after another, without the gaps between them.
`limit` is what bounds a kernel: instructions, if more than 60 % of the issue slots
have one; memory, if it moves more than 2.5 TB/s (a copy moves 4.3 on an H200, 3.0
on an H100); otherwise it waits."""
import csv
import io
import subprocess
import sys

CASES = "huffman:512:1 huffman:64:1 huffman:64:512"
TIME = "gpu__time_duration.sum"
READ = "dram__bytes_read.sum"
WRITTEN = "dram__bytes_write.sum"
ISSUED = "smsp__inst_executed.sum"
BUSY = "smsp__issue_active.avg.pct_of_peak_sustained_elapsed"
NCU = ("ncu --csv --page raw --print-units base --kernel-name-base function "
       "--clock-control none --cache-control none "
       "--profile-from-start off --metrics "
       f"{TIME},{READ},{WRITTEN},{ISSUED},{BUSY}")


def number(text):
    return float(text.replace(",", "") or 0)


def launches(text):
    """The launches in ncu's output, in order: name, grid, ns, bytes read and
    written, warp instructions, percent of the issue slots."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    # The first row holds the units.
    return [(row["Kernel Name"], row["Grid Size"].replace(" ", ""),
             number(row[TIME]), number(row[READ]), number(row[WRITTEN]),
             number(row[ISSUED]), number(row[BUSY])) for row in rows[1:]]


def best_of_two(found):
    """Merges two equal runs: each launch with its shorter time."""
    half = len(found) // 2
    first, second = found[:half], found[half:]
    if [one[0] for one in first] != [one[0] for one in second]:
        sys.exit("the two runs launched different kernels")
    return [min(pair, key=lambda one: one[2]) for pair in zip(first, second)]


def split(found):
    """Encoding and decoding begin with the same kernel."""
    for i, one in enumerate(found):
        if i > 0 and one[0] == found[0][0]:
            return found[:i], found[i:]
    return found, []


def limit(busy, gb_per_s):
    """What bounds a kernel."""
    if busy > 60:
        return "instructions"
    return "memory" if gb_per_s > 2500 else "waiting"


def table(found):
    """A line per kernel with the sums of its launches, in the order of first
    launches."""
    by_name = {}
    for one in found:
        by_name.setdefault(one[0], []).append(one)
    yield (f"{'kernel':28} {'n':>3} {'grid':>15} {'us':>9} {'MB read':>9} "
           f"{'written':>9} {'GB/s':>6} {'M instr':>8} {'slots %':>7} limit")
    for name, same in [*by_name.items(), ("all", found)]:
        ns, read, written, issued = (sum(one[i] for one in same)
                                     for i in (2, 3, 4, 5))
        busy = sum(one[6] * one[2] for one in same) / ns if ns else 0
        gb_per_s = (read + written) / ns if ns else 0
        grid = max(same, key=lambda one: one[2])[1] if name != "all" else ""
        yield (f"{name[:28]:28} {len(same):3} {grid:>15} {ns / 1e3:9.1f} "
               f"{read / 1e6:9.2f} {written / 1e6:9.2f} "
               f"{gb_per_s:6.0f} {issued / 1e6:8.2f} {busy:7.0f} "
               f"{limit(busy, gb_per_s) if name != 'all' else ''}".rstrip())


def main():
    program, field, *cases = sys.argv[1:]
    for case in cases or CASES.split():
        run = subprocess.run(
            [*NCU.split(), program, field, "profile", *case.split(":")],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode != 0:
            sys.exit(f"{case}: {run.stdout}")
        found = best_of_two(launches(run.stdout))
        for direction, part in zip(("compress", "decompress"), split(found)):
            print(f"\n{case}, {direction}")
            print("\n".join(table(part)), flush=True)


if __name__ == "__main__":
    main()
