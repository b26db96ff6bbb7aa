#!/usr/bin/env python3
"""Compares the time of `terp repack` with h5repack and SZ3's filter. Runs
alternate, on files in memory-backed storage. With --large, measures time and
peak memory of `terp repack` on a large dataset in a sparse file. CSV on
stdout, summary on stderr."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import common

COLUMNS = ("version", "field", "dims", "type", "bound_rel", "chunk", "tool",
           "threads", "median_s", "time_vs_sz3", "q1", "q3", "ratio",
           "peak_mib", "reps")
SZ3_ID = 32024


def chunk_words(shape):
    return "x".join(str(n) for n in shape)


def terp_command(tool, source, out, bound_rel, chunk, threads):
    return [str(tool), "repack", source, out, f"--rel={bound_rel}",
            f"--chunk={chunk}", f"--threads={threads}"]


def sz3_command(source, out, bound, chunk):
    import hdf5plugin
    words = hdf5plugin.SZ3(absolute=bound)["compression_opts"]
    return ["h5repack", "-l", f"CHUNK={chunk}", "-f",
            f"UD={SZ3_ID},0,{len(words)}," + ",".join(map(str, words)),
            source, out]


# Runs its arguments as a command. A new process's peak memory starts at that of
# its parent, so the parent must be small.
LAUNCHER = """
import os, sys, time
start = time.perf_counter()
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print(time.perf_counter() - start, usage.ru_maxrss, status)
"""


def timed(command, plugin_dir):
    """The wall-clock seconds and the peak memory (MiB) of a command."""
    process = subprocess.run(
        [sys.executable, "-S", "-c", LAUNCHER, *command], text=True,
        env={**os.environ, "HDF5_PLUGIN_PATH": str(plugin_dir)},
        capture_output=True)
    seconds, peak_kib, status = process.stdout.split()
    if int(status) != 0:
        common.fail(f"{' '.join(command)}: {process.stderr}")
    return float(seconds), float(peak_kib) / 1024


def stored_nbytes(path):
    import h5py
    with h5py.File(path, "r") as file:
        return file["field"].id.get_storage_size()


def compare_tools(table, field, bound_rel, args, folder):
    """Runs both tools in turns; the first round, which loads files, is not
    counted."""
    import fields
    import h5py
    import hdf5plugin
    source = str(folder / "in.h5")
    outs = {"terp repack": str(folder / "terp.h5"),
            "h5repack sz3": str(folder / "sz3.h5")}
    with h5py.File(source, "w") as file:
        file["field"] = field.data
    for word in args.chunks:
        chunk = chunk_words(fields.chunk_shape(word, field.data))
        commands = {
            "terp repack": (terp_command(
                args.tool, source, outs["terp repack"], bound_rel, chunk,
                args.threads), args.plugin),
            "h5repack sz3": (sz3_command(
                source, outs["h5repack sz3"], bound_rel * field.value_range,
                chunk), hdf5plugin.PLUGIN_PATH),
        }
        seconds = {tool: [] for tool in commands}
        peaks = {tool: [] for tool in commands}
        for rep in range(args.reps + 1):
            for tool, (command, plugin_dir) in commands.items():
                one, peak = timed(command, plugin_dir)
                if rep > 0:
                    seconds[tool].append(one)
                    peaks[tool].append(peak)
        subprocess.run([str(args.tool), "compare", source,
                        outs["terp repack"]], check=True,
                       stdout=subprocess.DEVNULL)
        for tool, times in seconds.items():
            parts = [a / b for a, b in zip(times, seconds["h5repack sz3"])]
            low, middle, high = statistics.quantiles(
                parts, n=4, method="inclusive")
            ratio = field.data.nbytes / stored_nbytes(outs[tool])
            table.add(
                version=common.terp_version() if tool == "terp repack"
                else f"hdf5plugin {hdf5plugin.version}",
                field=field.name, dims=fields.text_of_dims(field.data.shape),
                type=field.data.dtype.name, bound_rel=bound_rel, chunk=chunk,
                tool=tool,
                threads=args.threads if tool == "terp repack" else 1,
                median_s=f"{statistics.median(times):.3f}",
                time_vs_sz3=f"{middle:.3f}", q1=f"{low:.3f}",
                q3=f"{high:.3f}", ratio=f"{ratio:.2f}",
                peak_mib=f"{max(peaks[tool]):.0f}", reps=args.reps)


def make_sparse(path, shape):
    """Makes a contiguous float32 dataset whose storage is a hole, except for
    some planes of noise that give it a range."""
    import h5py
    import numpy as np
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    dcpl.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    noise = np.random.default_rng(1).normal(size=1 << 20).astype("f4")
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create_simple(shape)
        h5py.h5d.create(file.id, b"field", h5py.h5t.IEEE_F32LE, space, dcpl)
        where = file["field"].id.get_offset()
    with open(path, "r+b") as file:
        for part in range(4):
            at = part * 4 * shape[0] // 4
            for dim in shape[1:]:
                at *= dim
            file.seek(where + at // 4 * 4)
            file.write(noise.tobytes())


def large_shapes(nbytes):
    """Shapes of a cube, a line, and a stack of maps with about `nbytes` bytes."""
    nvalues = nbytes // 4
    side = round(nvalues ** (1 / 3))
    return ((side, side, side), (nvalues,),
            (10, round((nvalues / 10) ** 0.5), round((nvalues / 10) ** 0.5)))


def measure_large(table, args, bound_rel, folder):
    source, out = str(folder / "large.h5"), str(folder / "large_out.h5")
    for shape in large_shapes(round(args.large * 1e9)):
        make_sparse(source, shape)
        seconds, peak = timed(
            terp_command(args.tool, source, out, bound_rel, "auto",
                         args.threads), args.plugin)
        nbytes = os.path.getsize(source)
        table.add(version=common.terp_version(), field="sparse",
                  dims=chunk_words(shape), type="float32",
                  bound_rel=bound_rel, chunk="auto", tool="terp repack",
                  threads=args.threads, median_s=f"{seconds:.3f}",
                  ratio=f"{nbytes / stored_nbytes(out):.2f}",
                  peak_mib=f"{peak:.0f}", reps=1)
        os.remove(source)
        os.remove(out)


def print_summary(rows):
    print(f"\n{'field chunk':34} {'tool':13} {'s':>8} {'of sz3':>7} "
          f"{'ratio':>8} {'MiB':>6}", file=sys.stderr)
    for row in rows:
        where = f"{row['field']} {row['dims']} {row['chunk']}"
        print(f"{where:34} {row['tool']:13} {row['median_s']:>8} "
              f"{row.get('time_vs_sz3', '-'):>7} {row['ratio']:>8} "
              f"{row['peak_mib']:>6}", file=sys.stderr)


def main():
    parser = common.parser(__doc__, "terp,sz3", "64", "1e-3")
    parser.add_argument("--tool", type=Path, default=common.PROJECT / "build" /
                        "release" / "tools" / "terp",
                        help="the terp tool (default %(default)s)")
    parser.add_argument("--reps", type=int, default=7,
                        help="counted repetitions (default %(default)s)")
    parser.add_argument("--threads", type=int, default=2,
                        help="of terp repack (default %(default)s)")
    parser.add_argument("--large", type=float, default=0, metavar="GB",
                        help="also repack sparse files of this size")
    parser.add_argument("--folder", metavar="DIR", help="where the files are "
                        "(default: /dev/shm, and /tmp for --large)")
    args = parser.parse_args()
    if args.reps < 2 or args.threads < 1:
        parser.error("at least 2 repetitions and 1 thread")
    common.prepare(args, 1)
    if not args.tool.exists():
        common.fail(f"no {args.tool}: build it, or say --tool FILE")
    if shutil.which("h5repack") is None:
        common.fail("h5repack is needed (Debian: hdf5-tools)")
    import fields

    table = common.Table(COLUMNS)
    with tempfile.TemporaryDirectory(
            dir=args.folder or "/dev/shm") as folder:
        for source in fields.find_fields(args.fields):
            field = source.load(args.fill)
            for bound_rel in args.bounds:
                compare_tools(table, field, bound_rel, args, Path(folder))
    if args.large:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            measure_large(table, args, args.bounds[0], Path(folder))
    print_summary(table.rows)


if __name__ == "__main__":
    main()
