"""Compares types other than float32 and float64, on whole fields of an HDF5
file:

integers   each field rounded to int16 and to int32, lossless, beside bitshuffle
           with zstd, blosc2 with zstd, and shuffle with deflate. Valid values are
           mapped to all integers of the type but the lowest, which marks all
           other values (not finite, or beyond 1e19); int32 also to 2^24 integers,
           as many as a float32 can tell apart.
masks      whether values are above their median, as h5py's bool
float16    each field scaled to at most 1024, beside float32 of the same values
complex    pairs of fields of one shape, beside both parts coded separately at
           1 / sqrt(2) of the bound
"""
import itertools

import common

PEERS = ("bitshuffle", "blosc2", "deflate")
COLUMNS = ("figure", "field", "bound_rel", "raw_bytes", "terp_bytes", "peer",
           "peer_bytes", "terp_version")
HALF_BOUNDS = (1e-1, 1e-2, 1e-3, 1e-4, 0)
COMPLEX_BOUNDS = (1e-2, 1e-3, 1e-4, 1e-6, 0)
MISSING = 1e19


def main():
    out = common.argparse.ArgumentParser(description=__doc__)
    out.add_argument("--fields", required=True, metavar="FILE.h5")
    out.add_argument("--plugin", type=common.Path, default=common.PLUGIN_DIR)
    args = out.parse_args()
    args.codecs, args.bounds, args.chunks = "terp", "0", "whole"
    common.prepare(args, 1)
    measure(args.fields)


def valid_of(field):
    """A field in float64 and the mask of its valid values. The least valid value
    replaces invalid ones."""
    import numpy as np
    wide = field.astype("f8")
    valid = np.isfinite(wide) & (np.abs(wide) < MISSING)
    return np.where(valid, wide, wide[valid].min()), valid


def integers_of(field):
    """A field as integers, as (figure, array)."""
    import numpy as np
    wide, valid = valid_of(field)
    least, most = wide.min(), wide.max()
    for figure, dtype, nsteps in (("int16", "i2", 2.0 ** 16 - 2),
                                  ("int32", "i4", 2.0 ** 32 - 2),
                                  ("int32, 24 bits", "i4", 2.0 ** 24)):
        lowest = np.iinfo(dtype).min
        steps = np.rint((wide - least) / ((most - least) or 1) * nsteps)
        first = -nsteps // 2 if nsteps == 2.0 ** 24 else lowest + 1
        yield figure, np.where(valid, steps + first, lowest).astype(dtype)


def half_of(field):
    """A field in float16, scaled to at most 1024."""
    import numpy as np
    wide, _ = valid_of(field)
    largest = np.abs(wide).max() or 1
    return (wide * 2.0 ** (10 - np.ceil(np.log2(largest)))).astype("f2")


def measure(path):
    import h5py
    import hdf5plugin
    import numpy as np

    table = common.Table(COLUMNS)
    options = {
        "bitshuffle": hdf5plugin.Bitshuffle(cname="zstd"),
        "blosc2": hdf5plugin.Blosc2(cname="zstd",
                                    filters=hdf5plugin.Blosc2.SHUFFLE),
        "deflate": {"shuffle": True, "compression": "gzip"}}

    def stored(values, **how):
        with h5py.File("x", "w", driver="core", backing_store=False) as file:
            data = file.create_dataset("x", data=values, chunks=values.shape,
                                       **how)
            return data.id.get_storage_size(), data[()]

    def terp(values, bound=0.0):
        low, high = np.array([bound]).view("<u4").tolist()
        size, back = stored(values, compression=46117,
                            compression_opts=(1 | 65536, low, high))
        error = np.abs(back.astype("c16") - values)[np.isfinite(values)]
        assert error.max() <= bound
        return size

    def add(figure, name, values, size, peer, peer_size, bound=0.0):
        table.add(figure=figure, field=name, bound_rel=bound,
                  raw_bytes=values.nbytes, terp_bytes=size, peer=peer,
                  peer_bytes=peer_size, terp_version=common.terp_version())

    def add_lossless(figure, name, values):
        sizes = {peer: stored(values, **options[peer])[0] for peer in PEERS}
        best = min(sizes, key=sizes.get)
        add(figure, name, values, terp(values), best, sizes[best])

    fields = {}
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, item: fields.update({name: item[()]})
                        if isinstance(item, h5py.Dataset)
                        and item.dtype.kind == "f" else None)
    for name, field in fields.items():
        for figure, whole in integers_of(field):
            add_lossless(figure, name, whole)
        wide, _ = valid_of(field)
        add_lossless("mask", name, wide > np.median(wide))
        half = half_of(field)
        for bound in HALF_BOUNDS:
            absolute = bound * float(np.ptp(half.astype("f8")))
            add("float16", name, half, terp(half, absolute), "float32",
                terp(half.astype("f4"), absolute), bound)
    for (a, real), (b, imaginary) in itertools.pairwise(fields.items()):
        if real.shape != imaginary.shape or real.dtype != imaginary.dtype \
                or not (np.isfinite(real) & np.isfinite(imaginary)).all():
            continue
        both = np.empty(real.shape, "c%d" % (2 * real.itemsize))
        both.real, both.imag = real, imaginary
        for bound in COMPLEX_BOUNDS:
            absolute = bound * float(max(np.ptp(real.astype("f8")),
                                         np.ptp(imaginary.astype("f8"))))
            apart = (terp(real, absolute / 2 ** 0.5)
                     + terp(imaginary, absolute / 2 ** 0.5))
            add("complex", a + " " + b, both, terp(both, absolute), "apart",
                apart, bound)
    summarize(table.rows)


def summarize(rows):
    for figure in dict.fromkeys((row["figure"], row["bound_rel"])
                                for row in rows):
        some = [row for row in rows
                if (row["figure"], row["bound_rel"]) == figure]
        parts = [row["terp_bytes"] / row["peer_bytes"] for row in some]
        total = (sum(row["terp_bytes"] for row in some)
                 / sum(row["peer_bytes"] for row in some))
        print("%-15s bound %-6g total %.3f of the peer's bytes, worst %.3f, "
              "%d of %d above 1.02" % (*figure, total, max(parts),
                                       sum(p > 1.02 for p in parts),
                                       len(parts)), file=common.sys.stderr)


if __name__ == "__main__":
    main()
