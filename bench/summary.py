#!/usr/bin/env python3
"""Reads CSV files of ratio.py and compares codecs:
summary.py FILE... [--against sz3,pysz,anchors]"""

import argparse
import csv
import math
import sys
from pathlib import Path

# Stands for the best peer: in each case, the codec other than terp with the
# largest ratio.
PEERS = "peers"

ANCHORS = Path(__file__).resolve().parent / "anchors.csv"


def anchor_rows():
    """The rows of anchors.csv, as those of a codec that compressed whole
    fields."""
    with open(ANCHORS, newline="") as file:
        return [{**row, "codec": "anchors", "chunk": row["dims"],
                 "bound_rel": f"{float(row['bound_rel']):g}"}
                for row in csv.DictReader(file)]


def key(row):
    return row["field"], row["dims"], row["bound_rel"], row["chunk"]


def print_ratios(rows, references, out=sys.stderr):
    """Prints a table per reference and chunk shape: the ratio of every codec
    over the reference's, a line per field and bound, geometric means below.
    Then prints every codec's worst error."""
    rows = rows + anchor_rows()
    ratio = {(key(row), row["codec"]): float(row["ratio"]) for row in rows}
    codecs = list(dict.fromkeys(row["codec"] for row in rows))
    for (k, codec), value in list(ratio.items()):
        if codec != "anchors" and codec.split(":")[0] != "terp":
            ratio[k, PEERS] = max(value, ratio.get((k, PEERS), 0))
    codecs.remove("anchors")
    keys = list(dict.fromkeys(key(row) for row in rows
                              if row["codec"] != "anchors"))
    for reference in references:
        # Whole fields and chunks have separate tables.
        for whole in (True, False):
            have = [k for k in keys if (k[1] == k[3]) == whole and
                    (k, reference) in ratio]
            others = [c for c in codecs if c != reference]
            if have and others:
                name = "whole fields" if whole else "chunks"
                print_table(f"ratio over {reference}, {name}", have, others,
                            reference, ratio, out)
    print_totals(rows, codecs, out)
    print_worst_errors(rows, codecs, out)


def print_table(title, keys, codecs, reference, ratio, out):
    widths = [max(9, len(c)) for c in codecs]
    labels = {k: f"{k[0]} {k[2]}" + ("" if k[1] == k[3] else f" {k[3]}")
              for k in keys}
    left = max(14, *map(len, labels.values()))
    print(f"\n{title}\n{'':{left}}", *(f"{c:>{w}}" for c, w in
                                      zip(codecs, widths)), file=out)
    columns = {c: [] for c in codecs}
    for k in keys:
        cells = []
        for c, width in zip(codecs, widths):
            times = ratio.get((k, c))
            if times is not None:
                times /= ratio[k, reference]
                columns[c].append(times)
            cells.append(f"{'-' if times is None else f'{times:.3f}':>{width}}")
        print(f"{labels[k]:{left}}", *cells, file=out)
    means = (f"{geometric_mean(columns[c]):>{w}.3f}" if columns[c] else
             f"{'-':>{w}}" for c, w in zip(codecs, widths))
    wins = (f"{f'{sum(t >= 1 for t in columns[c])}/{len(columns[c])}':>{w}}"
            for c, w in zip(codecs, widths))
    print(f"{'geometric mean':{left}}", *means, file=out)
    print(f"{'at least equal':{left}}", *wins, file=out)


def print_totals(rows, codecs, out):
    """Prints the bytes of all lossless fields that every codec compressed, the
    bytes with the best peer per field, and how often each codec exceeds 1.02
    times the best peer."""
    fields = {}
    for row in rows:
        if row["codec"] in codecs and row["bound_rel"] == "0":
            fields.setdefault(key(row), {})[row["codec"]] = \
                int(row["stored_bytes"])
    peers = [c for c in codecs if c.split(":")[0] != "terp"]
    sizes = [s for s in fields.values() if len(s) == len(codecs)]
    if not sizes or not peers:
        return
    best = [min(s[c] for c in peers) for s in sizes]
    print(f"\nlossless: bytes of {len(sizes)} fields, over those of the best "
          "peer of each, and above 1.02 of these", file=out)
    for codec in codecs:
        total = sum(s[codec] for s in sizes)
        above = sum(s[codec] > 1.02 * b for s, b in zip(sizes, best))
        print(f"{codec:24} {total:10d} {total / sum(best):.3f} {above:3d}",
              file=out)


def print_worst_errors(rows, codecs, out):
    print("\nlargest error / bound, and how often the bound was exceeded",
          file=out)
    for codec in codecs:
        errors = [float(row["max_err_over_bound"]) for row in rows
                  if row["codec"] == codec]
        print(f"{codec:24} {max(errors):.9g}  "
              f"{sum(e > 1 for e in errors)}/{len(errors)}", file=out)


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--against", default="sz3,pysz,anchors")
    args = parser.parse_args()
    rows = []
    for name in args.files:
        with open(name, newline="") as file:
            rows += csv.DictReader(file)
    print_ratios(rows, args.against.split(","), sys.stdout)


if __name__ == "__main__":
    main()
