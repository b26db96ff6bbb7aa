#!/usr/bin/env python3
"""Measures compression ratio and error of terp and its peers, through HDF5, on
the same chunks and under the same bound: absolute (0: lossless), or relative
to each value. CSV on stdout, summary on stderr."""

import itertools

import common

CODECS = "terp:huffman,sz3,pysz,zfp,sperr"
COLUMNS = ("version", "field", "dims", "type", "bound_rel", "bound_abs",
           "chunk", "codec", "stored_bytes", "ratio", "max_err_over_bound",
           "psnr_db")


def measure(field, bound_rel, chunk, codec, pointwise):
    """Measures one codec, and returns its row."""
    import fields
    import filters
    import numpy as np
    bound = bound_rel if pointwise else bound_rel * field.value_range
    shape = fields.chunk_shape(chunk, field.data)
    with filters.memory_file() as file:
        dataset = filters.create(file, field, shape, codec, bound,
                                 pointwise)
        filters.write(dataset, field.data, codec, bound)
        unfiltered = filters.unfiltered_nchunks(dataset, codec)
        stored_nbytes = dataset.id.get_storage_size()
        # The dataset is opened anew, because an open dataset keeps uncompressed
        # chunks in its cache. The buffer is not fresh memory, which could hold
        # an older copy of the values.
        del dataset
        copy = np.full_like(field.data, -7.25)
        filters.read(file["field"], copy, codec)
    if unfiltered:
        common.note(f"{codec} left {unfiltered} chunks of {field.name} "
                    f"uncompressed at {bound_rel:g}, chunk {chunk}")
    worst, psnr = filters.measure_error(field, copy, pointwise)
    if bound > 0:
        worst /= bound
    elif field.data.tobytes() != copy.tobytes():
        worst = np.inf
    return {"version": filters.version_of(codec), "field": field.name,
            "dims": fields.text_of_dims(field.data.shape),
            "type": field.data.dtype.name, "bound_rel": f"{bound_rel:g}",
            "bound_abs": "" if pointwise else repr(bound),
            "chunk": fields.text_of_dims(shape),
            "codec": codec, "stored_bytes": stored_nbytes,
            "ratio": f"{field.data.nbytes / stored_nbytes:.6g}",
            "max_err_over_bound": f"{worst:.9g}",
            "psnr_db": f"{psnr:.2f}"}


def main():
    parser = common.parser(__doc__, CODECS, "whole,64", "1e-2,1e-3,1e-4")
    parser.add_argument("--against", default="sz3,pysz,anchors",
                        metavar="C,C,...", help="codecs of this run, 'peers' "
                        "(the best of them but terp) or 'anchors' "
                        "(anchors.csv), that the summary compares with "
                        "(default %(default)s)")
    parser.add_argument("--pointwise", action="store_true", help="bounds are "
                        "relative to each value")
    args = parser.parse_args()
    common.prepare(args, threads=1)
    import fields
    import filters
    import summary

    table = common.Table(COLUMNS)
    broken = False
    for source in fields.find_fields(args.fields):
        field = source.load(args.fill)
        if not field.value_range > 0 and any(args.bounds) and \
                not args.pointwise:
            common.note(f"{field.name} is constant or has no valid value: a "
                        "relative bound would be 0; skipped")
            continue
        for bound_rel, chunk, codec in itertools.product(
                args.bounds, args.chunks, args.codecs):
            row, reason = common.apart(measure, field, bound_rel, chunk, codec,
                                       args.pointwise)
            if row is None:
                common.note(f"{codec} on {field.name} {reason}")
            else:
                table.add(**row)
            broken |= filters.is_terp(codec) and \
                (row is None or float(row["max_err_over_bound"]) > 1)
    summary.print_ratios(table.rows, args.against.split(","))
    if broken:
        common.fail("terp failed or exceeded its bound")


if __name__ == "__main__":
    main()
