"""Measures chunks that several H5Dwrite calls share.

h5py writes a dataset of one chunk of 64^3 values in parts, and the result is
compared with the values that were written last. Without HDF5's chunk cache each
write reads the chunk back, changes a part, and codes the whole chunk again; the
same writes are also made with the cache.

planes    64 writes, each of a plane that was not written before
rows      50 writes of random blocks of 3 x 9 rows over a whole chunk
"""
import os
import sys
import tempfile

import common

COLUMNS = ("field", "type", "writes", "bound", "cache", "max_err_over_bound",
           "ratio", "terp_version")
# The words of cd_values by kind of bound: its mode, and a bound of 1e-3, or 60
# dB.
BOUNDS = {"abs": (1, 1, 3), "rel": (2, 1, 3), "pwr": (3, 1, 3),
          "psnr": (4, 60, 0)}


def main():
    out = common.argparse.ArgumentParser(description=__doc__)
    out.add_argument("--plugin", type=common.Path, default=common.PLUGIN_DIR)
    args = out.parse_args()
    args.codecs, args.bounds, args.chunks = "terp", "0", "whole"
    common.prepare(args, 1, ("numpy", "h5py"))
    measure()


def measure():
    import h5py
    import numpy as np

    def fields(rng):
        axis = np.linspace(0, 1, 64)
        z, y, x = np.meshgrid(axis, axis, axis, indexing="ij")
        smooth = np.sin(5 * z) * np.cos(7 * y) + x ** 2
        noise = rng.normal(0, 0.05, smooth.shape)
        return {"smooth": smooth.astype("f4"),
                "noisy": (smooth + noise).astype("f4"),
                "nonnegative": np.maximum(smooth, 0) ** 3,
                "wide": np.exp(8 * smooth) * np.sign(smooth)}

    def planes(rng, field):
        for i in range(len(field)):
            yield np.s_[i], field[i]

    def rows(rng, field):
        yield np.s_[:], field
        for i in range(50):
            z, y = rng.integers(0, field.shape[:2])
            part = np.s_[z:z + 3, y:y + 9]
            yield part, field[part] * field.dtype.type(1 + .1 * np.sin(i))

    def error_over_bound(name, written, read):
        errors = np.abs(read.astype("f8") - written)
        largest = np.ptp(written.astype("f8"))
        if name == "pwr":
            zeros = written == 0
            assert not errors[zeros].any()
            return (errors[~zeros] / np.abs(written[~zeros])).max() / 1e-3
        if name == "psnr":  # root mean square error over that of 60 dB
            return np.sqrt((errors ** 2).mean()) / (largest * 1e-3)
        return errors.max() / (1e-3 * (largest if name == "rel" else 1))

    def row(path, field, writes, name, cache):
        words, rng = BOUNDS[name], np.random.default_rng(1)
        written = np.zeros_like(field)
        with h5py.File(path, "w", rdcc_nbytes=cache) as file:
            data = file.create_dataset(
                "x", field.shape, field.dtype, chunks=field.shape,
                compression=46117, compression_opts=words)
            for part, values in writes(rng, field):
                data[part] = values
                written[part] = values
            file.flush()
            ratio = field.nbytes / data.id.get_storage_size()
        with h5py.File(path, "r") as file:
            read = file["x"][()]
        return error_over_bound(name, written, read), ratio

    table = common.Table(COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        for field, values in fields(np.random.default_rng(1)).items():
            for writes in (planes, rows):
                for name in BOUNDS:
                    for cache in (0, 1 << 26):
                        # In a process of its own, because the plugin keeps
                        # streams of earlier chunks.
                        (error, ratio), _ = common.apart(
                            row, os.path.join(folder, "x.h5"), values, writes,
                            name, cache)
                        table.add(field=field, type=values.dtype.name,
                                  writes=writes.__name__, bound=name,
                                  cache="yes" if cache else "no",
                                  max_err_over_bound="%.4g" % error,
                                  ratio="%.4g" % ratio,
                                  terp_version=common.terp_version())
    for cache in ("no", "yes"):
        some = [float(row["max_err_over_bound"]) for row in table.rows
                if row["cache"] == cache]
        print(f"cache: {cache}, largest error over its bound {max(some):.3f}",
              file=sys.stderr)


if __name__ == "__main__":
    main()
