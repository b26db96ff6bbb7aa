"""terp and its peers on HDF5 datasets in memory: as filters; and SZ3's own
Python package, newer than the filter, chunk by chunk."""

import importlib.metadata
import itertools
import re
import struct

import h5py
import hdf5plugin
import numpy as np

from common import PROJECT, fail, terp_version

HEADER = PROJECT / "filter" / "plugin" / "h5z_terp.h"
TERP_ID = int(re.search(r"#define H5Z_FILTER_TERP (\d+)",
                        HEADER.read_text())[1])
# The mode word: doc/cd_values.md.
MODE_ABSOLUTE, MODE_POINTWISE, MODE_EXACT = 1, 3, 0x10000
PIPELINES = {"auto": 0, "huffman": 1, "speed": 3, "ratio": 4}
PREDICTORS = {"auto": 0, "spline": 1, "lorenzo": 2}
EFFORTS = {"default": 0, "fast": 1, "best": 2}

# Peers by name: create_dataset's arguments for an absolute bound. The last
# group is lossless, for context.
PEERS = {
    "none": lambda bound: {},
    "sz3": lambda bound: hdf5plugin.SZ3(absolute=bound),
    "sz2": lambda bound: hdf5plugin.SZ(absolute=bound),
    "zfp": lambda bound: hdf5plugin.Zfp(accuracy=bound),
    "sperr": lambda bound: hdf5plugin.Sperr(absolute=bound),
    "zfp_lossless": lambda bound: hdf5plugin.Zfp(reversible=True),
    "blosc2": lambda bound: hdf5plugin.Blosc2(
        cname="zstd", clevel=5, filters=hdf5plugin.Blosc2.SHUFFLE),
    "bitshuffle": lambda bound: hdf5plugin.Bitshuffle(cname="zstd"),
    "bitshuffle_lz4": lambda bound: hdf5plugin.Bitshuffle(cname="lz4"),
    "gzip": lambda bound: {"compression": "gzip", "compression_opts": 4,
                           "shuffle": True},
}

# The peers that have a bound relative to each value.
POINTWISE_PEERS = {
    "sz2": lambda bound: hdf5plugin.SZ(pointwise_relative=bound),
}

# These codecs are not HDF5 filters: the benchmark compresses chunks and stores
# the bytes by HDF5's direct chunk write. The dataset names a filter that every
# chunk skips, because HDF5 stores only whole chunks in a dataset without
# filters.
DIRECT_ALGORITHMS = {"pysz": None, "pysz:lorenzo": "LORENZO_REG",
                     "pysz:lossless": "LOSSLESS"}
SKIPPED = {"compression": "gzip"}
SKIP_MASK = 1

# In-memory files grow by this much, so that no growth is timed.
GROWTH_NBYTES = 64 << 20

file_numbers = itertools.count()


def is_terp(codec):
    return codec.split(":")[0] == "terp"


def is_direct(codec):
    return codec in DIRECT_ALGORITHMS


def filter_of(codec, bound, pointwise=False):
    """create_dataset's arguments for a codec, by name, under an absolute or
    pointwise bound."""
    if pointwise and not is_terp(codec):
        if codec not in POINTWISE_PEERS:
            fail(f"{codec} has no bound relative to each value; "
                 f"{', '.join(POINTWISE_PEERS)} has")
        return POINTWISE_PEERS[codec](bound)
    if codec in PEERS:
        return PEERS[codec](bound)
    if is_direct(codec):
        return SKIPPED
    name, pipeline, predictor, effort, *more = (codec + ":::").split(":")
    try:
        mode = (MODE_POINTWISE if pointwise else MODE_ABSOLUTE) | MODE_EXACT
        mode |= (PIPELINES[pipeline or "auto"] << 4 |
                 PREDICTORS[predictor or "auto"] << 8 |
                 EFFORTS[effort or "default"] << 12)
    except KeyError:
        mode = None
    if any(more):
        mode = None
    if name != "terp" or mode is None:
        fail(f"no codec {codec}: terp[:{'|'.join(PIPELINES)}"
             f"[:{'|'.join(PREDICTORS)}[:{'|'.join(EFFORTS)}]]], "
             f"{', '.join([*PEERS, *DIRECT_ALGORITHMS])}")
    if not h5py.h5z.filter_avail(TERP_ID):
        fail("HDF5 cannot load the terp plugin; see --plugin")
    low_high = struct.unpack("<2I", struct.pack("<d", bound))
    return {"compression": TERP_ID, "compression_opts": (mode, *low_high)}


def version_of(codec):
    if is_terp(codec):
        return terp_version()
    if is_direct(codec):
        return f"pysz {importlib.metadata.version('pysz')}"
    return f"hdf5plugin {hdf5plugin.version}" if codec in (
        "sz3", "sz2", "zfp", "sperr", "zfp_lossless", "blosc2",
        "bitshuffle", "bitshuffle_lz4") else f"HDF5 {h5py.version.hdf5_version}"


def memory_file():
    return h5py.File(f"terp-bench-{next(file_numbers)}", "w", driver="core",
                     backing_store=False, block_size=GROWTH_NBYTES)


def create(file, field, chunks, codec, bound, pointwise=False):
    """Makes an empty dataset. Its fill value is the field's, as in netCDF-C's
    files, so that padded edge chunks look as they do in real files."""
    shape = field.data.shape
    if is_reversed(codec, chunks):
        nblocks = sum(1 for _ in blocks(shape, chunks))
        chunks = chunks[::-1]
        shape = (nblocks * chunks[0], *chunks[1:])
    return file.create_dataset("field", shape, field.data.dtype, chunks=chunks,
                               fillvalue=field.fill,
                               **filter_of(codec, bound, pointwise))


def is_reversed(codec, chunks):
    """Whether a codec needs reversed dims. hdf5plugin passes HDF5's dims on to
    SPERR, which reads them in Fortran's order. So the dataset has chunks with
    reversed dims, one behind the other along its first dimension."""
    return codec == "sperr" and chunks != chunks[::-1]


def blocks(shape, chunks):
    """The slices of all chunks, in C order."""
    for starts in itertools.product(*(range(0, n, c)
                                      for n, c in zip(shape, chunks))):
        yield tuple(slice(s, min(s + c, n))
                    for s, c, n in zip(starts, chunks, shape))


def write(dataset, data, codec, bound):
    """Writes all values; when it returns, every byte is in the file."""
    if is_direct(codec):
        write_direct_chunks(dataset, data, bound, DIRECT_ALGORITHMS[codec])
    elif is_reversed(codec, dataset.chunks):
        chunks, extent = dataset.chunks[::-1], dataset.chunks[0]
        for i, place in enumerate(blocks(data.shape, chunks)):
            block = np.full(chunks, dataset.fillvalue, data.dtype)
            part = data[place]
            block[tuple(slice(n) for n in part.shape)] = part
            dataset[i * extent:(i + 1) * extent] = block.reshape(dataset.chunks)
    else:
        dataset.write_direct(data)
    dataset.file.flush()


def read(dataset, data, codec):
    if is_direct(codec):
        read_direct_chunks(dataset, data)
    elif is_reversed(codec, dataset.chunks):
        chunks, extent = dataset.chunks[::-1], dataset.chunks[0]
        for i, place in enumerate(blocks(data.shape, chunks)):
            block = dataset[i * extent:(i + 1) * extent].reshape(chunks)
            part = data[place]
            part[...] = block[tuple(slice(n) for n in part.shape)]
    else:
        dataset.read_direct(data)


def write_direct_chunks(dataset, data, bound, algorithm):
    import pysz
    config = pysz.szConfig()
    if algorithm:
        config.cmprAlgo = getattr(pysz.szAlgorithm, algorithm)
    config.errorBoundMode = pysz.szErrorBoundMode.ABS
    config.absErrorBound = bound
    for place in dataset.iter_chunks():
        chunk = data[place]
        if chunk.shape != dataset.chunks:
            padded = np.full(dataset.chunks, dataset.fillvalue, data.dtype)
            padded[tuple(slice(n) for n in chunk.shape)] = chunk
            chunk = padded
        packed, _ = pysz.sz.compress(np.ascontiguousarray(chunk), config)
        dataset.id.write_direct_chunk([s.start for s in place],
                                      packed.tobytes(), SKIP_MASK)


def read_direct_chunks(dataset, data):
    import pysz
    for place in dataset.iter_chunks():
        _, packed = dataset.id.read_direct_chunk([s.start for s in place])
        chunk, _ = pysz.sz.decompress(np.frombuffer(packed, np.uint8),
                                      data.dtype.type, dataset.chunks)
        part = data[place]
        part[...] = chunk[tuple(slice(n) for n in part.shape)]


def unfiltered_nchunks(dataset, codec):
    """The number of chunks that an optional filter failed to compress."""
    if is_direct(codec):
        return 0
    return sum(dataset.id.get_chunk_info(i).filter_mask != 0
               for i in range(dataset.id.get_num_chunks()))


def measure_error(field, copy, pointwise=False):
    """The largest error (relative to each value if `pointwise`), and the PSNR
    in dB. The error is infinite if a value that is not finite, or pointwise
    a zero, did not come back. Computed with more bits than the data have."""
    wide = np.longdouble if field.data.dtype == np.float64 else np.float64
    worst, square_sum, count = 0.0, 0.0, 0
    flat, flat_copy = field.data.reshape(-1), copy.reshape(-1)
    step = 1 << 22
    for at in range(0, flat.size, step):
        x, y = flat[at:at + step], flat_copy[at:at + step]
        odd = ~np.isfinite(x)
        if odd.any() and not ((x[odd] == y[odd]) |
                              (np.isnan(x[odd]) & np.isnan(y[odd]))).all():
            worst = np.inf
        with np.errstate(invalid="ignore"):
            error = np.abs(x.astype(wide) - y.astype(wide))[~odd]
        if error.size:
            times = error
            if pointwise:
                with np.errstate(divide="ignore"):
                    times = np.divide(error, np.abs(x[~odd].astype(wide)),
                                      where=error > 0, out=np.zeros_like(error))
            top = times.max()
            worst = max(worst, np.inf if np.isnan(top) else top)
        counted = error[field.valid(x)[~odd]]
        square_sum += float(np.sum(counted * counted, dtype=wide))
        count += counted.size
    return float(worst), psnr_db(field.value_range, square_sum, count)


def psnr_db(value_range, square_sum, count):
    if square_sum == 0 or value_range == 0:
        return float("inf")
    return float(20 * np.log10(value_range) -
                 10 * np.log10(square_sum / count))
