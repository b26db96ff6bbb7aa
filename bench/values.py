#!/usr/bin/env python3
"""Measures whether terp finds the structure of values, whether a stream under a
bound is ever larger than a lossless one, and whether terp chooses the better
predictor. Each figure compares terp's bytes with a limit, array by array. Rows
go to stdout as CSV, and a verdict on each figure to stderr. An array is one
chunk. A limit such as 1.02 is a factor of the bytes or times that follow it.

lossless    gen_values.py, lossless, beside pcodec at level 12, OpenZL, blosc2 and
            fpzip: no ratio is below 0.98 of the best peer's, and the geometric
            mean of all ratios should be at least 11
real        real_dev.h5, lossless: at most 1.02 of the best of pcodec, OpenZL and
            blosc2 for each array, and at most 0.90 for the sum
integers    real_dev.h5 as integers (number_types.py), lossless: at most 1.02 of
            the best of the same peers
half        real_dev.h5 as float16, lossless: at most 1.01 of the same values as
            float32
bounds      structures.h5 and real_dev.h5 at 1e-2 to 1e-9: at most the lossless
            stream and, with --before, at most the stream of that plugin
peers       gen_values.py at 1e-3 and 1e-5: at most the best of terp's lossless
            stream, SZ3's and pcodec's
monotone    the arrays `bounds/` of gen_values.py at 1e-2 to 1e-4: at most 1.01 of
            the stream of each tighter bound, and at most the lossless one;
            `trigger` takes at most 400 bytes
choice      real_dev.h5, structures.h5, nyx_z255_32.h5 and gen_values.py at 1e-2
            to 1e-6: at most 1.05 of the better of both predictors
time        real_dev.h5 where streams are of version 1 in any case: the time to
            encode is at most 1.03 of that where version 2 is forbidden.
            gen_values.py where streams are of version 2: the time to decode is at
            most that of streams of version 1

Bounds are relative to the range of values that are finite and below 1e19. The
bounds of `monotone` are relative bounds of terp: their range is the range of all
finite values, unless terp takes a value for a fill value.
"""
import itertools
import math
import time

import common

PACKAGES = ("numpy", "scipy", "h5py", "hdf5plugin", "pysz", "pcodec", "openzl",
            "blosc2", "fpzip")
COLUMNS = ("figure", "field", "bound_rel", "raw_bytes", "terp", "beside",
           "beside_is", "limit", "terp_version")
MISSING = 1e19

# cd_values: doc/cd_values.md.
EXACT, FORMAT_1, RELATIVE, ABSOLUTE = 0x10000, 0x400000, 2, 1
PREDICTORS = {"spline": 0x100, "lorenzo": 0x200}

# The peers of the figure `lossless`, and the peers of figures of real data.
PEERS = ("pcodec", "openzl", "blosc2", "fpzip")
REAL_PEERS = PEERS[:3]


def main():
    out = common.argparse.ArgumentParser(
        description=__doc__,
        formatter_class=common.argparse.RawDescriptionHelpFormatter)
    out.add_argument("figures", nargs="*", help="the figures to measure, all by "
                     "default")
    out.add_argument("--values", type=common.Path, required=True,
                     metavar="values.h5", help="of gen_values.py")
    out.add_argument("--structures", type=common.Path, metavar="structures.h5")
    out.add_argument("--real", type=common.Path, metavar="real_dev.h5")
    out.add_argument("--nyx", type=common.Path, metavar="nyx_z255_32.h5")
    out.add_argument("--plugin", type=common.Path, default=common.PLUGIN_DIR)
    out.add_argument("--before", type=common.Path, metavar="DIR",
                     help="the folder of an earlier plugin")
    args = out.parse_args()
    args.codecs, args.bounds, args.chunks = "terp", "0", "whole"
    common.prepare(args, 1, PACKAGES)
    for name in args.figures:
        if name not in FIGURES:
            common.fail(f"no figure {name}: {', '.join(FIGURES)}")
    table = common.Table(COLUMNS)
    for name in args.figures or FIGURES:
        rows = []
        for field, bound, nbytes, terp, beside, what, limit in \
                FIGURES[name](args):
            row = {"figure": name, "field": field, "bound_rel": f"{bound:g}",
                   "raw_bytes": nbytes, "terp": terp, "beside": beside,
                   "beside_is": what, "limit": limit,
                   "terp_version": common.terp_version()}
            table.add(**row)
            rows.append(row)
        summarize(name, rows)


# ---- arrays ----


def arrays_of(path, group=None):
    """The arrays of a file, as (name, array). If `group` is given, those whose
    name begins with bounds/ (True), or the others (False)."""
    import h5py
    if path is None or not path.exists():
        common.note(f"left out: {path}")
        return
    names = []
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, item: names.append(name)
                        if isinstance(item, h5py.Dataset)
                        and item.dtype.kind in "fc" and item.size else None)
        for name in names:
            if group is not None and name.startswith("bounds/") != group:
                continue
            data = file[name][()]
            yield name, data.astype(data.dtype.newbyteorder("="))


def parts_of(data):
    """Real and imaginary parts, for codecs without complex values."""
    import numpy as np
    if data.dtype.kind != "c":
        return [data]
    return [np.ascontiguousarray(data.real), np.ascontiguousarray(data.imag)]


def range_of(data):
    import numpy as np
    ranges = []
    for part in parts_of(data):
        valid = part[np.isfinite(part) & (np.abs(part) < MISSING)]
        ranges.append(float(valid.max()) - float(valid.min())
                      if valid.size else 0.0)
    return max(ranges)


# ---- codecs ----


def stored(data, bound=0.0, mode=ABSOLUTE, plugin=None):
    """The bytes of terp's stream of a chunk. Checks that the values come back
    within the bound."""
    result, reason = common.apart(store, data, bound, mode, plugin)
    if result is None:
        common.fail(f"terp {reason}")
    return result


def store(data, bound, mode, plugin):
    import filters
    import h5py
    import numpy as np
    if plugin is not None:
        while h5py.h5pl.size():
            h5py.h5pl.remove(0)
        h5py.h5pl.append(str(plugin).encode())
    low, high = np.array([bound]).view("<u4").tolist()
    with filters.memory_file() as file:
        made = file.create_dataset("x", data=data, chunks=data.shape,
                                   compression=filters.TERP_ID,
                                   compression_opts=(mode | EXACT, low, high))
        size, back = made.id.get_storage_size(), made[()]
    if mode & 0xF == RELATIVE:
        bound *= max(float(np.ptp(part[np.isfinite(part)]))
                     for part in parts_of(data))
    check(data, back, bound)
    return size


def check(data, back, bound):
    import numpy as np
    if bound == 0:
        if data.tobytes() != back.tobytes():
            raise ValueError("a bit changed without loss")
        return
    wide = "clongdouble" if data.dtype.kind == "c" else "longdouble"
    finite = np.isfinite(data)
    error = np.abs(data[finite].astype(wide) - back[finite].astype(wide))
    if not (np.isfinite(back) == finite).all() or error.max() > bound:
        raise ValueError("the bound is exceeded")


def pcodec(data):
    from pcodec import ChunkConfig, standalone
    flat = data.reshape(-1)
    packed = standalone.simple_compress(flat, ChunkConfig(compression_level=12))
    assert standalone.simple_decompress(packed).tobytes() == flat.tobytes()
    return len(packed)


def openzl(data):
    """Compresses numbers with the generic graph."""
    import openzl.ext as zl
    compressor = zl.Compressor()
    compressor.set_parameter(zl.CParam.FormatVersion, zl.MAX_FORMAT_VERSION)
    compressor.select_starting_graph(zl.graphs.Compress()(compressor))
    context = zl.CCtx()
    context.ref_compressor(compressor)
    flat = data.reshape(-1).view(f"u{data.itemsize}")
    packed = context.compress([zl.Input(zl.Type.Numeric, flat)])
    back = zl.DCtx().decompress(packed)[0].content.as_nparray()
    assert back.tobytes() == data.tobytes()
    return len(packed)


def blosc2(data):
    """The smaller of shuffle and bitshuffle, each with zstd 9."""
    import blosc2 as library
    sizes = []
    for filter in (library.Filter.SHUFFLE, library.Filter.BITSHUFFLE):
        packed = library.compress2(
            data.reshape(-1), codec=library.Codec.ZSTD, clevel=9,
            filters=[filter], typesize=data.itemsize, nthreads=1)
        assert library.decompress2(packed) == data.tobytes()
        sizes.append(len(packed))
    return min(sizes)


def fpzip(data):
    import fpzip as library
    import numpy as np
    packed = library.compress(np.atleast_2d(data), precision=0, order="C")
    back = library.decompress(packed, order="C")
    assert back.reshape(data.shape).tobytes() == data.tobytes()
    return len(packed)


def sz3(data, bound):
    """The smaller of SZ3's default and its Lorenzo mode."""
    import numpy as np
    import pysz
    sizes = []
    for algorithm in (None, pysz.szAlgorithm.LORENZO_REG):
        config = pysz.szConfig()
        if algorithm is not None:
            config.cmprAlgo = algorithm
        config.errorBoundMode = pysz.szErrorBoundMode.ABS
        config.absErrorBound = bound
        packed, _ = pysz.sz.compress(np.ascontiguousarray(data), config)
        back, _ = pysz.sz.decompress(packed, data.dtype.type, data.shape)
        finite = np.isfinite(data)
        error = np.abs(data[finite].astype("longdouble") - back[finite])
        if (np.isfinite(back) == finite).all() and error.max() <= bound:
            sizes.append(len(packed))
    return min(sizes) if sizes else None


def peer_size(peer, data):
    """A lossless peer's bytes, or None if it fails. Complex values are compressed
    as two arrays and as one array of pairs; the fewer bytes count."""
    import numpy as np
    ways = [parts_of(data)]
    if data.dtype.kind == "c":
        ways.append([np.ascontiguousarray(data).reshape(-1).view(
            f"f{data.itemsize // 2}")])
    sizes = []
    for parts in ways:
        each = [common.apart(globals()[peer], part) for part in parts]
        if all(size is not None for size, _ in each):
            sizes.append(sum(size for size, _ in each))
        else:
            common.note(f"{peer} {[why for _, why in each if why][0]}")
    return min(sizes) if sizes else None


def peers_of(peers, data):
    sizes = {peer: peer_size(peer, data) for peer in peers}
    return {peer: size for peer, size in sizes.items() if size is not None}


# ---- figures: (field, bound, raw bytes, terp, beside, beside_is, limit) ----


def lossless(args):
    for name, data in arrays_of(args.values, False):
        size = stored(data)
        for peer, other in peers_of(PEERS, data).items():
            yield name, 0, data.nbytes, size, other, peer, 1 / 0.98


def real(args):
    for name, data in arrays_of(args.real):
        size = stored(data)
        for peer, other in peers_of(REAL_PEERS, data).items():
            yield name, 0, data.nbytes, size, other, peer, 1.02


def integers(args):
    import number_types
    for name, data in arrays_of(args.real):
        for kind, whole in number_types.integers_of(data):
            others = peers_of(REAL_PEERS, whole)
            best = min(others, key=others.get)
            yield (f"{name} {kind}", 0, whole.nbytes, stored(whole),
                   others[best], best, 1.02)


def half(args):
    import number_types
    for name, data in arrays_of(args.real):
        narrow = number_types.half_of(data)
        yield (name, 0, narrow.nbytes, stored(narrow),
               stored(narrow.astype("f4")), "float32", 1.01)


def bounds(args):
    for name, data in itertools.chain(arrays_of(args.structures),
                                      arrays_of(args.real)):
        exact, width = stored(data), range_of(data)
        for bound in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-9):
            if width == 0:
                continue
            size = stored(data, bound * width)
            yield name, bound, data.nbytes, size, exact, "lossless", 1.0
            if args.before is not None:
                earlier = stored(data, bound * width, plugin=args.before)
                yield name, bound, data.nbytes, size, earlier, "before", 1.0


def peers(args):
    for name, data in arrays_of(args.values):
        exact, width = stored(data), range_of(data)
        beside = {"lossless": exact, "pcodec": peer_size("pcodec", data)}
        for bound in (1e-3, 1e-5):
            absolute = bound * width
            parts = parts_of(data)
            each = [common.apart(sz3, part, absolute / len(parts) ** 0.5)[0]
                    for part in parts]
            beside["sz3"] = None if None in each else sum(each)
            some = {k: v for k, v in beside.items() if v is not None}
            best = min(some, key=some.get)
            yield (name, bound, data.nbytes, stored(data, absolute), some[best],
                   best, 1.0)


def monotone(args):
    relative = (1e-2, 1e-3, 1e-4)
    for name, data in arrays_of(args.values, True):
        exact = stored(data)
        sizes = [stored(data, bound, RELATIVE) for bound in relative]
        for i, bound in enumerate(relative):
            yield name, bound, data.nbytes, sizes[i], exact, "lossless", 1.0
            for j in range(i + 1, len(relative)):
                yield (name, bound, data.nbytes, sizes[i], sizes[j],
                       f"{relative[j]:g}", 1.01)
            if name.endswith("trigger"):
                yield name, bound, data.nbytes, sizes[i], 400, "400", 1.0


def choice(args):
    files = (args.nyx, args.values, args.real, args.structures)
    for name, data in itertools.chain(*map(arrays_of, files)):
        width = range_of(data)
        for bound in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6) if width else ():
            forced = {predictor: stored(data, bound * width, ABSOLUTE | number)
                      for predictor, number in PREDICTORS.items()}
            best = min(forced, key=forced.get)
            yield (name, bound, data.nbytes, stored(data, bound * width),
                   forced[best], best, 1.05)


def speed(args):
    for name, data in arrays_of(args.real):
        for bound in (0, 1e-3):
            absolute = bound * range_of(data)
            if stored(data, absolute) == \
                    stored(data, absolute, ABSOLUTE | FORMAT_1):
                with_2, without = times(data, absolute, True)
                yield (name + " encode", bound, data.nbytes, with_2, without,
                       "format 1", 1.03)
    for name, data in arrays_of(args.values, False):
        if stored(data) < stored(data, 0.0, ABSOLUTE | FORMAT_1):
            with_2, without = times(data, 0.0, False)
            yield (name + " decode", 0, data.nbytes, with_2, without,
                   "format 1", 1.0)


def times(data, bound, encode):
    """The seconds that version 2 allowed and version 2 forbidden take, each the
    least of 9. Both take turns."""
    import filters
    import numpy as np
    low, high = np.array([bound]).view("<u4").tolist()
    least = [math.inf, math.inf]
    for _ in range(9):
        for i, mode in enumerate((ABSOLUTE, ABSOLUTE | FORMAT_1)):
            with filters.memory_file() as file:
                made = file.create_dataset(
                    "x", data.shape, data.dtype, chunks=data.shape,
                    compression=filters.TERP_ID,
                    compression_opts=(mode | EXACT, low, high))
                start = time.process_time()
                made.write_direct(data)
                made.file.flush()
                middle = time.process_time()
                del made
                file["x"][()]
                end = time.process_time()
            least[i] = min(least[i], middle - start if encode else end - middle)
    return least


FIGURES = {"lossless": lossless, "real": real, "integers": integers,
           "half": half, "bounds": bounds, "peers": peers,
           "monotone": monotone, "choice": choice, "time": speed}


def summarize(name, rows):
    import numpy as np
    if not rows:
        return
    by_field = {}
    for row in rows:
        key = row["field"], row["bound_rel"]
        part = row["terp"] / row["beside"]
        worst = by_field.setdefault(key, (0, row))
        if part / row["limit"] > worst[0]:
            by_field[key] = part / row["limit"], row
    above = sorted((item for item in by_field.values() if item[0] > 1),
                   key=lambda item: -item[0])

    def say(text):
        print(text, file=common.sys.stderr)

    say(f"{name}: {'does not hold' if above else 'holds'}, {len(above)} of "
        f"{len(by_field)} cases above the limit")
    for _, row in above[:20]:
        say(f"    {row['field']} at {row['bound_rel']}: {row['terp']:.6g}, "
            f"{row['beside']:.6g} {row['beside_is']}, "
            f"{row['terp'] / row['beside']:.3f}")
    if name in ("lossless", "real"):
        ratios = {"terp": {}}
        for row in rows:
            ratios["terp"][row["field"]] = row["raw_bytes"] / row["terp"]
            ratios.setdefault(row["beside_is"], {})[row["field"]] = (
                row["raw_bytes"] / row["beside"])
        say("    geometric means: " + ", ".join(
            f"{codec} {math.exp(np.mean(np.log(list(some.values())))):.2f}"
            f" ({len(some)})" for codec, some in ratios.items()))
        best = {}
        for row in rows:
            best[row["field"]] = min(row["beside"],
                                     best.get(row["field"], math.inf))
        terp = {row["field"]: row["terp"] for row in rows}
        say(f"    sum {sum(terp.values()) / sum(best.values()):.3f} of the best "
            "peer's for each array")
    if name == "time":
        for kind in ("encode", "decode"):
            some = [row for row in rows if row["field"].endswith(kind)]
            if some:
                say(f"    {kind}: {sum(row['terp'] for row in some):.3f} s, "
                    f"{sum(row['beside'] for row in some):.3f} s with format 1")


if __name__ == "__main__":
    main()
