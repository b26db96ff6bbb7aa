#!/usr/bin/env python3
"""Measures the time to write and read a dataset through each filter, beside SZ3
and beside no filter. Repetitions alternate between codecs, on files in
memory. CSV on stdout, summary on stderr."""

import statistics
import sys
import time

import common

CODECS = "terp:ratio,terp:huffman,pysz,zfp"
# Always measured: the codec that all are compared with, and HDF5's own cost.
BASELINES = ("sz3", "none")
COLUMNS = ("version", "field", "dims", "type", "bound_rel", "chunk", "codec",
           "threads", "clock", "op", "median_s", "mb_per_s", "ratio",
           "ratio_vs_sz3",
           "ratio_q1", "ratio_q3", "net_ratio_vs_sz3", "reps")
OPS = ("write", "read")
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def write_and_read(field, shape, codec, bound, clock):
    """Returns the seconds to write and to read, the values that came back, the
    number of chunks that are not compressed, and the bytes of all chunks.
    The dataset is opened anew before reading, so that no chunk is in HDF5's
    cache; `copy` is touched before, so that no page fault is timed."""
    import filters
    import numpy as np
    now = CLOCKS[clock]
    copy = np.full_like(field.data, -7.25)
    with filters.memory_file() as file:
        dataset = filters.create(file, field, shape, codec, bound)
        start = now()
        filters.write(dataset, field.data, codec, bound)
        write_s = now() - start
        unfiltered = filters.unfiltered_nchunks(dataset, codec)
        stored = dataset.id.get_storage_size()
        del dataset
        dataset = file["field"]
        start = now()
        filters.read(dataset, copy, codec)
        read_s = now() - start
    return (write_s, read_s), copy, unfiltered, stored


def check(field, codec, bound, shape):
    """Returns what is wrong with a codec's values. The speed of a wrong result
    means nothing."""
    import filters
    _, copy, unfiltered, _ = write_and_read(field, shape, codec, bound, "wall")
    worst, _ = filters.measure_error(field, copy)
    if not worst <= bound:
        return f"exceeds the bound: {worst / bound:g}"
    if unfiltered:
        return f"leaves {unfiltered} chunks uncompressed"
    return ""


def usable(field, bound, shape, codecs):
    """The codecs that can compress the field, whether or not they keep the
    bound; the others would end the run."""
    import filters
    good = []
    for codec in codecs:
        wrong, reason = common.apart(check, field, codec, bound, shape)
        if wrong or reason:
            common.note(f"{codec} on {field.name} {wrong or reason}")
            if filters.is_terp(codec):
                common.fail("terp's times would mean nothing")
        if reason is None:
            good.append(codec)
    return good


def measure(field, bound_rel, shape, codecs, reps, clock):
    """Returns seconds by codec and operation, as lists of repetitions; and
    ratios by codec."""
    bound = bound_rel * field.value_range
    codecs = usable(field, bound, shape, codecs)
    seconds = {(codec, op): [] for codec in codecs for op in OPS}
    ratios = {}
    # The first round loads plugins and touches memory, and is not counted.
    for rep in range(reps + 1):
        for codec in codecs:
            times, _, _, stored = write_and_read(field, shape, codec, bound,
                                                 clock)
            ratios[codec] = field.data.nbytes / stored
            for op, one in zip(OPS, times):
                if rep > 0:
                    seconds[codec, op].append(one)
    return seconds, ratios


def rows_of(seconds, ratios, nbytes):
    """Statistics of every codec and operation. Ratios are SZ3's time over the
    codec's, repetition by repetition; net ratios subtract the time of an
    unfiltered dataset first."""
    for (codec, op), times in seconds.items():
        median_s = statistics.median(times)
        row = {"codec": codec, "op": op, "median_s": f"{median_s:.5f}",
               "mb_per_s": f"{nbytes / 1e6 / median_s:.1f}",
               "ratio": f"{ratios[codec]:.6g}",
               "reps": len(times)}
        sz3 = seconds.get(("sz3", op))
        if sz3:
            times_sz3 = [a / b for a, b in zip(sz3, times)]
            low, middle, high = statistics.quantiles(
                times_sz3, n=4, method="inclusive")
            row |= {"ratio_vs_sz3": f"{middle:.3f}",
                    "ratio_q1": f"{low:.3f}", "ratio_q3": f"{high:.3f}"}
            none_s = statistics.median(seconds["none", op])
            if median_s > none_s:
                net = (statistics.median(sz3) - none_s) / (median_s - none_s)
                row["net_ratio_vs_sz3"] = f"{net:.3f}"
        yield row


def print_summary(rows):
    print(f"\n{'field chunk':28} {'codec':24} {'op':6} {'MB/s':>8} "
          f"{'vs sz3':>7} {'q1':>7} {'q3':>7} {'net':>7}", file=sys.stderr)
    for row in rows:
        where = f"{row['field']} {row['bound_rel']} {row['chunk']}"
        print(f"{where:28} {row['codec']:24} {row['op']:6} "
              f"{row['mb_per_s']:>8}",
              *(f"{row.get(c, '-'):>7}" for c in (
                  "ratio_vs_sz3", "ratio_q1", "ratio_q3",
                  "net_ratio_vs_sz3")), file=sys.stderr)


def main():
    parser = common.parser(__doc__, CODECS, "64,128", "1e-3")
    parser.add_argument("--reps", type=int, default=7,
                        help="counted repetitions (default %(default)s)")
    parser.add_argument("--threads", type=int, default=1,
                        help="for every codec that has threads (default 1)")
    parser.add_argument("--clock", choices=CLOCKS, default="wall",
                        help="'cpu' counts this process's time: steadier on "
                        "a busy machine, for one thread only")
    args = parser.parse_args()
    if args.reps < 2 or args.threads < 1:
        parser.error("at least 2 repetitions and 1 thread")
    if args.clock == "cpu" and args.threads > 1:
        parser.error("--clock cpu adds up threads")
    common.prepare(args, args.threads)
    import fields
    import filters

    names = [*BASELINES, *(c for c in args.codecs if c not in BASELINES)]
    table = common.Table(COLUMNS)
    for source in fields.find_fields(args.fields):
        field = source.load(args.fill)
        if not field.value_range > 0:
            common.note(f"{field.name} is constant or has no valid value: a "
                        "relative bound would be 0; skipped")
            continue
        for bound_rel in args.bounds:
            for chunk in args.chunks:
                shape = fields.chunk_shape(chunk, field.data)
                seconds, ratios = measure(field, bound_rel, shape, names,
                                          args.reps, args.clock)
                for row in rows_of(seconds, ratios, field.data.nbytes):
                    table.add(version=filters.version_of(row["codec"]),
                              field=field.name,
                              dims=fields.text_of_dims(field.data.shape),
                              type=field.data.dtype.name,
                              bound_rel=f"{bound_rel:g}",
                              chunk=fields.text_of_dims(shape),
                              threads=args.threads, clock=args.clock, **row)
    print_summary(table.rows)


if __name__ == "__main__":
    main()
