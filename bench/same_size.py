#!/usr/bin/env python3
"""Compares errors at equal size: for each codec, finds by bisection the largest bound
whose chunks take at least as many bytes as terp's at a given bound, and measures the
largest error, the PSNR and the error of gradients. CSV on stdout, a summary on
stderr."""

import sys

import common

CODECS = "sz3,pysz,zfp,sperr"
COLUMNS = ("version", "field", "dims", "type", "chunk", "codec", "bound_abs",
           "stored_bytes", "bytes_of_terp", "max_err_of_range", "psnr_db",
           "gradient_rmse_of_rms")
STEPS = 14  # of the bisection
LARGEST = 10  # the factors between a codec's bound and terp's: 2^-10 to 2^10


def compressed(field, shape, codec, bound):
    """The stored bytes, and the values that come back."""
    import filters
    import numpy as np
    with filters.memory_file() as file:
        dataset = filters.create(file, field, shape, codec, bound)
        filters.write(dataset, field.data, codec, bound)
        stored_nbytes = dataset.id.get_storage_size()
        del dataset
        copy = np.full_like(field.data, -7.25)
        filters.read(file["field"], copy, codec)
    return stored_nbytes, copy


def bound_for(field, shape, codec, bound, nbytes):
    """The largest bound whose chunks take at least `nbytes`."""
    low, high = -LARGEST, LARGEST  # logarithms of the factor
    for _ in range(STEPS):
        middle = (low + high) / 2
        stored_nbytes, _ = compressed(field, shape, codec, bound * 2**middle)
        if stored_nbytes >= nbytes:
            low = middle
        else:
            high = middle
    return bound * 2**low


def gradient_rmse_of_rms(a, b):
    """The error of differences of neighbours over the differences, root mean
    squares over all dimensions."""
    import numpy as np
    errors = values = 0.0
    for axis in range(a.ndim):
        slope = np.diff(a.astype("f8"), axis=axis)
        values += np.sum(slope**2)
        errors += np.sum((np.diff(b.astype("f8"), axis=axis) - slope)**2)
    return (errors / values)**0.5


def print_summary(rows):
    print(f"{'field':16} {'bytes':>9} {'codec':6} {'size':>6} {'error/range':>11} "
          f"{'PSNR dB':>7} {'gradient':>8}", file=sys.stderr)
    for row in rows:
        print(f"{row['field']:16} {row['stored_bytes']:9} {row['codec']:6} "
              f"{row['bytes_of_terp']:>6} {row['max_err_of_range']:>11} "
              f"{row['psnr_db']:>7} {row['gradient_rmse_of_rms']:>8}",
              file=sys.stderr)


def main():
    parser = common.parser(__doc__, CODECS, "64", "1e-3,1e-4")
    args = parser.parse_args()
    args.codecs = "terp," + args.codecs
    common.prepare(args, threads=1)
    import fields
    import filters

    table = common.Table(COLUMNS)
    for source in fields.find_fields(args.fields):
        field = source.load(args.fill)
        for bound_rel in args.bounds:
            shape = fields.chunk_shape(args.chunks[0], field.data)
            nbytes = None
            for codec in args.codecs:
                bound = bound_rel * field.value_range
                if nbytes is not None:
                    bound = bound_for(field, shape, codec, bound, nbytes)
                stored_nbytes, copy = compressed(field, shape, codec, bound)
                nbytes = nbytes or stored_nbytes
                worst, psnr = filters.measure_error(field, copy)
                table.add(version=filters.version_of(codec), field=field.name,
                          dims=fields.text_of_dims(field.data.shape),
                          type=field.data.dtype.name,
                          chunk=fields.text_of_dims(shape), codec=codec,
                          bound_abs=repr(bound), stored_bytes=stored_nbytes,
                          bytes_of_terp=f"{stored_nbytes / nbytes:.4f}",
                          max_err_of_range=f"{worst / field.value_range:.4g}",
                          psnr_db=f"{psnr:.2f}", gradient_rmse_of_rms=(
                              f"{gradient_rmse_of_rms(field.data, copy):.4g}"))
    print_summary(table.rows)


if __name__ == "__main__":
    main()
