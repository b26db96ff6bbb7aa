"""Measures tables: compound values, which terp codes by member, beside shuffle
with deflate, blosc2 with zstd and bitshuffle with zstd, through h5py in one
thread.

cells      2^20 particles in cells: x, y, z, vx, vy, vz (float32) and id (int64),
           sorted by cell, as a particle-in-cell or N-body code keeps them
random     the same particles in random order
log        2^19 records of a logger: time (float64), three readings (float32), a
           state (uint8) and the station's name (12 bytes)
real       with --fields, a file with these float64 datasets of equal length, the
           particles of a small Nyx output: nyx_particles/x, y and vx, as one record

Bounds are relative to the range of each member in each chunk of 65536 records;
times of the log are lossless.
"""
import os
import tempfile
import time

import common

COLUMNS = ("table", "records", "record_bytes", "codec", "bound_rel", "ratio",
           "write_mb_s", "read_mb_s", "error_over_bound", "terp_version")
CHUNK = 1 << 16
BOUNDS = (1e-2, 1e-3, 1e-4, 0)


def main():
    out = common.argparse.ArgumentParser(description=__doc__)
    out.add_argument("--fields", metavar="FILE.h5")
    out.add_argument("--log2", type=int, default=20, metavar="N",
                     help="log2 of the number of particles (default 20)")
    out.add_argument("--plugin", type=common.Path, default=common.PLUGIN_DIR)
    args = out.parse_args()
    args.codecs, args.bounds, args.chunks = "terp", "0", "whole"
    common.prepare(args, 1, ("numpy", "h5py", "hdf5plugin"))
    measure(args)


def tables(args):
    import h5py
    import numpy as np

    rng = np.random.default_rng(5)
    n, side = 1 << args.log2, 32
    cells = np.sort(rng.integers(0, side ** 3, n))
    at = np.stack(np.unravel_index(cells, (side,) * 3), 1)
    flow = np.sin(2 * np.pi * at / side)
    particles = np.zeros(n, [(name, "f4") for name in
                             ("x", "y", "z", "vx", "vy", "vz")] + [("id", "i8")])
    for i, name in enumerate("xyz"):
        particles[name] = (at[:, i] + rng.random(n)) / side
        particles["v" + name] = (flow[:, (i + 1) % 3] +
                                 rng.normal(scale=0.05, size=n))
    particles["id"] = rng.permutation(n)
    yield "cells", particles
    yield "random", particles[np.argsort(particles["id"])]
    half = n // 2
    log = np.zeros(half, [("time", "f8"), ("t", "f4"), ("p", "f4"), ("u", "f4"),
                          ("state", "u1"), ("name", "S12")])
    t = np.arange(half)
    log["time"] = 1.7e9 + t / 8
    log["t"] = (15 + 10 * np.sin(t / 9000) +
                rng.normal(scale=.05, size=half)).round(2)
    log["p"] = 1000 + np.cumsum(rng.normal(scale=.02, size=half))
    log["u"] = np.abs(rng.normal(scale=4, size=half))
    log["state"] = rng.random(half) < .01
    log["name"] = [b"station-%03d" % i for i in t % 40]
    yield "log", log
    if args.fields:
        with h5py.File(args.fields) as file:
            columns = {name: file["nyx_particles/" + name][()]
                       for name in ("x", "y", "vx")}
        real = np.zeros(len(columns["x"]), [(name, "f8") for name in columns])
        for name, column in columns.items():
            real[name] = column
        yield "real", real


def measure(args):
    import h5py
    import hdf5plugin
    import numpy as np

    out = common.Table(COLUMNS)
    peers = {
        "shuffle+deflate": {"shuffle": True, "compression": "gzip",
                            "compression_opts": 6},
        "blosc2+zstd": hdf5plugin.Blosc2(cname="zstd", clevel=5,
                                         filters=hdf5plugin.Blosc2.SHUFFLE),
        "bitshuffle+zstd": hdf5plugin.Bitshuffle(cname="zstd")}

    def fnv(name):
        number = 0x811C9DC5
        for byte in name.encode():
            number = (number ^ byte) * 0x01000193 & 0xFFFFFFFF
        return number

    def terp(table, bound):
        if bound == 0:
            return {"compression": 46117, "compression_opts": (1, 0, 0)}
        low, high = np.array([bound]).view("<u4").tolist()
        words = (2 | 65536, low, high)
        if "time" in table.dtype.names:
            words = (words[0] | 8388608, low, high, 0, fnv("time"), 1, 0, 0)
        return {"compression": 46117, "compression_opts": words}

    def error(table, back, bound):
        """The largest error of a member over its bound."""
        worst = 0
        for name in table.dtype.names:
            a, b = table[name], back[name]
            if bound == 0 or a.dtype.kind != "f" or name == "time":
                assert a.tobytes() == b.tobytes(), name
                continue
            for at in range(0, len(a), CHUNK):
                part = a[at:at + CHUNK].astype("f8")
                worst = max(worst, np.abs(part - b[at:at + CHUNK]).max() /
                            np.ptp(part) / bound)
        assert worst <= 1.000001
        return worst

    def once(table, path, how):
        chunk = min(CHUNK, len(table))
        start = time.process_time()
        with h5py.File(path, "w") as file:
            file.create_dataset("t", data=table, chunks=(chunk,), **how)
        middle = time.process_time()
        with h5py.File(path) as file:
            data = file["t"]
            size, back = data.id.get_storage_size(), data[()]
        return (size, back, middle - start, time.process_time() - middle)

    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm")
                                     else None) as folder:
        path = os.path.join(folder, "t.h5")
        for name, table in tables(args):
            codecs = [("terp", bound, terp(table, bound)) for bound in BOUNDS]
            codecs += [(peer, 0, how) for peer, how in peers.items()]
            for codec, bound, how in codecs:
                # The better of two runs.
                runs = [once(table, path, how) for _ in range(2)]
                size, back = runs[0][:2]
                megabytes = table.nbytes / 1e6
                out.add(
                    table=name, records=len(table),
                    record_bytes=table.itemsize, codec=codec, bound_rel=bound,
                    ratio=f"{table.nbytes / size:.3f}",
                    write_mb_s=round(megabytes / min(run[2] for run in runs)),
                    read_mb_s=round(megabytes / min(run[3] for run in runs)),
                    error_over_bound=f"{error(table, back, bound):.4f}",
                    terp_version=common.terp_version())


main()
