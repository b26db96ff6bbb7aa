#!/usr/bin/env python3
"""Compression ratio and error of terp and its peers, through HDF5, on the
same chunks and the same absolute bound. CSV on stdout, summary on stderr."""

import common

CODECS = "terp:huffman,terp:custom,terp:speed,sz3,pysz,zfp,sperr"
COLUMNS = ("version", "field", "dims", "type", "bound_rel", "bound_abs",
           "chunk", "codec", "stored_bytes", "ratio", "max_err_over_bound",
           "psnr_db")


def measure(field, bound_rel, chunk, codec):
    """The row of one codec, or None when the codec cannot do it."""
    import fields
    import filters
    import numpy as np
    bound = bound_rel * field.value_range
    shape = fields.chunk_shape(chunk, field.data.shape)
    with filters.memory_file() as file:
        try:
            dataset = filters.create(file, field, shape, codec, bound)
            filters.write(dataset, field.data, codec, bound)
            unfiltered = filters.unfiltered_nchunks(dataset, codec)
            stored_nbytes = dataset.id.get_storage_size()
            # Opened anew: an open dataset keeps chunks uncompressed in its
            # cache. And not fresh memory, which may hold an older copy.
            del dataset
            copy = np.full_like(field.data, -7.25)
            filters.read(file["field"], copy, codec)
        except (OSError, ValueError, RuntimeError) as error:
            common.note(f"{codec} fails on {field.name}: {error}")
            return None
    if unfiltered:
        common.note(f"{codec} left {unfiltered} chunks of {field.name} "
                    f"uncompressed at {bound_rel:g}, chunk {chunk}")
    worst, psnr = filters.measure_error(field, copy)
    return {"version": filters.version_of(codec), "field": field.name,
            "dims": fields.text_of_dims(field.data.shape),
            "type": field.data.dtype.name, "bound_rel": f"{bound_rel:g}",
            "bound_abs": repr(bound), "chunk": fields.text_of_dims(shape),
            "codec": codec, "stored_bytes": stored_nbytes,
            "ratio": f"{field.data.nbytes / stored_nbytes:.6g}",
            "max_err_over_bound": f"{worst / bound:.9g}",
            "psnr_db": f"{psnr:.2f}"}


def main():
    parser = common.parser(__doc__, CODECS, "whole,64", "1e-2,1e-3,1e-4")
    parser.add_argument("--against", default="sz3,pysz,terp:custom,anchors",
                        metavar="C,C,...", help="codecs of this run, or "
                        "'anchors' (anchors.csv), that the summary compares "
                        "with (default %(default)s)")
    args = parser.parse_args()
    common.prepare(args, threads=1)
    import fields
    import filters
    import summary

    table = common.Table(COLUMNS)
    exceeded = crashed = False
    for source in fields.find_fields(args.fields):
        field = source.load(args.fill)
        if not field.value_range > 0:
            common.note(f"{field.name} is constant or has no valid value: a "
                        "relative bound would be 0; skipped")
            continue
        for bound_rel in args.bounds:
            for chunk in args.chunks:
                for codec in args.codecs:
                    row, signal = common.apart(measure, field, bound_rel,
                                               chunk, codec)
                    if signal:
                        common.note(f"{codec} crashes on {field.name}, "
                                    f"signal {signal}")
                        crashed |= filters.is_terp(codec)
                    if row is None:
                        continue
                    table.add(**row)
                    exceeded |= filters.is_terp(codec) and \
                        float(row["max_err_over_bound"]) > 1
    summary.print_ratios(table.rows, args.against.split(","))
    if exceeded or crashed:
        common.fail("terp " + ("crashed" if crashed else "exceeded its bound"))


if __name__ == "__main__":
    main()
