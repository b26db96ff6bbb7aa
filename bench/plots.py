#!/usr/bin/env python3
"""Draws the figures in bench/results/: bench/plots.py [DIRECTORY]

Writes SVG files, into doc/plots if no directory is named. Each plot names the number
of fields behind a point; machines and dates are in the rows of bench/results.
"""
import collections
import csv
import math
import sys
from pathlib import Path

import common

common.use_packages(packages=("matplotlib",))
import matplotlib  # noqa: E402

matplotlib.use("svg")
matplotlib.rcParams.update({
    "svg.hashsalt": "terp", "svg.fonttype": "none",
    "axes.axisbelow": True, "font.size": 10, "axes.grid": True,
    "grid.color": "0.9", "axes.spines.top": False, "axes.spines.right": False})
import matplotlib.pyplot as plt  # noqa: E402

RESULTS = Path(__file__).resolve().parent / "results"
PLOTS = common.PROJECT / "doc" / "plots"

# Okabe and Ito's colours, which colour-blind readers can tell apart; each codec
# also has a marker, for print.
STYLES = {
    "terp": ("terp (ratio)", "#D55E00", "o"),
    "terp:ratio": ("terp (ratio)", "#D55E00", "o"),
    "terp:huffman": ("terp (huffman)", "#E69F00", "D"),
    "terp:speed": ("terp (speed)", "#882255", "p"),
    "pysz": ("SZ3 3.4 (pysz)", "#0072B2", "s"),
    "sz3": ("SZ3's filter", "#56B4E9", "^"),
    "sperr": ("SPERR", "#009E73", "v"),
    "zfp": ("zfp", "#CC79A7", "X"),
    "bitshuffle": ("bitshuffle, zstd (lossless)", "#000000", "*"),
    "none": ("no filter", "#999999", "_"),
}
GPU_STYLES = {
    "cuSZ-Hi": ("#0072B2", "s"), "cuSZ-I": ("#000000", "*"),
    "PFPL": ("#009E73", "v"), "FZ-GPU": ("#CC79A7", "X"),
    "FSZ": ("#F0E442", "^"), "cuSZp3": ("#56B4E9", "P"),
    "Bitcomp": ("#999999", "d"),
}


def rows(name):
    with open(RESULTS / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def mean(numbers):
    """The geometric mean."""
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def ratios_of_all(found, codecs):
    """{bound: {codec: ratios}} of the fields that all these codecs compressed."""
    cells = collections.defaultdict(dict)
    for row in found:
        if row["codec"] in codecs:
            key = float(row["bound_rel"]), row["field"]
            cells[key][row["codec"]] = float(row["ratio"])
    of_bound = collections.defaultdict(lambda: collections.defaultdict(list))
    for (bound, _), of_codec in cells.items():
        if len(of_codec) == len(codecs):
            for codec, ratio in of_codec.items():
                of_bound[bound][codec].append(ratio)
    return of_bound


def draw_ratios(axes, found, codecs):
    of_bound = ratios_of_all(found, codecs)
    bounds = sorted(of_bound)
    for codec in codecs:
        label, colour, marker = STYLES[codec]
        axes.plot(bounds, [mean(of_bound[b][codec]) for b in bounds],
                  label=label, color=colour, marker=marker)
    nfields = {len(r) for c in of_bound.values() for r in c.values()}
    axes.set(xscale="log", yscale="log", xlabel="bound / range of the field",
             ylabel="ratio, geometric mean")
    axes.invert_xaxis()
    low, high = axes.get_ylim()
    axes.set_ylim(low, 2 * high)  # room for the legend
    axes.set_title(f"{'-'.join(map(str, sorted(nfields)))} real arrays",
                   loc="left")
    axes.yaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
    axes.yaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    axes.set_yticks([n for n in (1, 2, 5, 10, 20, 50, 100, 200)
                     if axes.get_ylim()[0] <= n <= axes.get_ylim()[1]])
    axes.legend(frameon=False)


def real_ratios():
    figure, (loose, tight) = plt.subplots(1, 2, figsize=(9, 4))
    draw_ratios(loose, rows("real"),
                ("terp:ratio", "terp:huffman", "pysz", "sz3", "sperr", "zfp"))
    draw_ratios(tight, rows("real_tight"), ("terp", "pysz", "bitshuffle"))
    return figure


def speed_and_ratio():
    """Plots h5py's calls in chunks of 64^3 at 1e-3, one thread, against ratios."""
    points, fields = collections.defaultdict(list), set()
    for row in rows("speed"):
        if row["chunk"] == "64x64x64":
            points[row["op"], row["codec"]].append(
                (float(row["mb_per_s"]), float(row["ratio"])))
            fields.add(row["field"])
    figure, both = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
    for axes, op in zip(both, ("write", "read")):
        for codec, (label, colour, marker) in STYLES.items():
            if codec != "none" and (op, codec) in points:
                axes.scatter(*map(mean, zip(*points[op, codec])), s=70,
                             label=label, color=colour, marker=marker,
                             edgecolor="black", linewidth=0.5)
        axes.margins(0.15)
        axes.set(xlabel="MB/s", xlim=(0, None), ylim=(0, None))
        axes.set_title(f"H5D{op}: {', '.join(sorted(fields))}", loc="left")
    both[0].set_ylabel("ratio, geometric mean")
    both[1].legend(frameon=False)
    return figure


def device_rows():
    """terp's rows for data on the device."""
    return [r for r in rows("cuda_speed_device")
            if r["what"] == "terp" and r["engine"] == "cuda"
            and r["memory"] == "device" and r["type"] == "float32"
            and r["predictor"] == "auto"]


def gpu_peers():
    """Plots one call for 512^3 values on the device against ratios."""
    figure, both = plt.subplots(1, 2, figsize=(9, 4.5), sharey=True)
    found = device_rows() + [r for r in rows("cuda_speed_tiles")
                             if r["what"] == "speed relative"
                             and r["type"] == "float32"]
    whole = [r for r in found if (r["extent"], r["chunks"]) == ("512", "1")]
    for axes, direction in zip(both, ("compress", "decompress")):
        points = {}
        for row in rows("cuda_peers"):
            name = row["codec"].split()[0].rstrip(",")
            points.setdefault((name, *GPU_STYLES[name]), []).append(
                (float(row[f"{direction}_gb_per_s"]), float(row["ratio"])))
        for row in whole:
            codec = f"terp:{row['pipeline']}"
            if row["direction"] == direction and codec in STYLES:
                points[STYLES[codec]] = [(float(row["gb_per_s"]),
                                          float(row["ratio"]))]
        for (label, colour, marker), of_codec in points.items():
            axes.scatter(*zip(*of_codec), s=70, label=label, color=colour,
                         marker=marker, edgecolor="black", linewidth=0.5)
        axes.set(xscale="log", yscale="log", xlabel="GB/s",
                 xlim=(50, 2500), ylim=(3, 400))
        axes.set_title(f"H200, pres 512^3, 1e-3: {direction}", loc="left")
        for axis, ticks in ((axes.xaxis, (50, 100, 200, 500, 1000, 2000)),
                            (axes.yaxis, (3, 10, 30, 100, 300))):
            axis.set_major_locator(matplotlib.ticker.FixedLocator(ticks))
            axis.set_major_formatter(
                matplotlib.ticker.FormatStrFormatter("%g"))
            axis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    both[0].set_ylabel("ratio")
    both[1].legend(frameon=False, ncol=2, fontsize=9, loc=(0.38, 0.36))
    return figure


def gpu_speed():
    """Plots data on the device, one call."""
    found = device_rows()
    cases = [("512", "1", "512^3"), ("64", "512", "512 chunks of 64^3")]
    pipelines = ("ratio", "huffman")
    figure, both = plt.subplots(1, 2, figsize=(9, 3.2), sharex=True)
    for axes, (extent, chunks, title) in zip(both, cases):
        for i, pipeline in enumerate(pipelines):
            _, colour, _ = STYLES[f"terp:{pipeline}"]
            of = {r["direction"]: r for r in found if r["pipeline"] == pipeline
                  and (r["extent"], r["chunks"]) == (extent, chunks)}
            for direction, offset, hatch in (("compress", -0.2, None),
                                             ("decompress", 0.2, "//")):
                if direction in of:
                    speed = float(of[direction]["gb_per_s"])
                    axes.barh(i + offset, speed, 0.36, color=colour,
                              edgecolor="black", linewidth=0.5, hatch=hatch)
                    axes.text(speed + 5, i + offset, f"{direction}",
                              va="center", fontsize=8)
        axes.set_yticks(range(len(pipelines)), [
            f"{p}\nratio {float(r['ratio']):.0f}" for p in pipelines
            for r in found if r["pipeline"] == p
            and r["direction"] == "compress"
            and (r["extent"], r["chunks"]) == (extent, chunks)])
        axes.set(xlabel="GB/s", title=title)
        axes.margins(x=0.25)
        axes.grid(axis="y", visible=False)
    return figure


def h5py_time():
    """Plots unchanged h5py by what codes its chunks."""
    kinds = (("filter", "filter, 1 CPU", "#999999"),
             ("connector", "connector, 16 CPUs", "#56B4E9"),
             ("connector-cuda", "connector, GPU", "#E69F00"),
             ("connector-cuda-device", "connector, GPU,\nvalues on it",
              "#D55E00"))
    found = {(r["kind"], r["what"]): 1000 * float(r["median_s"])
             for r in rows("cuda_wheels")}
    figure, both = plt.subplots(1, 2, figsize=(9, 2.6), sharey=True)
    for axes, what in zip(both, ("write", "read")):
        for i, (kind, _, colour) in enumerate(kinds):
            axes.barh(i, found[kind, what], 0.7, color=colour,
                      edgecolor="black", linewidth=0.5)
            axes.text(found[kind, what] * 1.1, i,
                      f"{found[kind, what]:.0f} ms", va="center", fontsize=8)
        axes.set(xscale="log", xlim=(5, 5000), xlabel="ms")
        axes.set_title(f"h5py {what}s 512^3 float32", loc="left")
        axes.xaxis.set_major_formatter(
            matplotlib.ticker.FormatStrFormatter("%g"))
        axes.grid(axis="y", visible=False)
    both[0].set_yticks(range(len(kinds)), [label for _, label, _ in kinds])
    both[0].invert_yaxis()
    return figure


def main():
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else PLOTS
    directory.mkdir(parents=True, exist_ok=True)
    for draw in (real_ratios, speed_and_ratio, gpu_peers, gpu_speed,
                 h5py_time):
        figure = draw()
        figure.tight_layout()
        # Without a date, the same rows make the same file.
        figure.savefig(directory / f"{draw.__name__}.svg",
                       metadata={"Date": None})


if __name__ == "__main__":
    main()
