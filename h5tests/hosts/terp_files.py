"""Shared by the Python tests: fields, and checks of decoded values."""
import os
import struct
import tempfile

import numpy as np

FILTER = 46117
ABSOLUTE, RELATIVE = 1, 2

# Files of real fields; they are optional and lie beside the project.
REAL_DATA = os.path.join(
    os.path.dirname(os.path.abspath(__file__)),
    *[os.pardir] * 3, "shared", "data", "real_dev.h5")


class Stderr:
    """Collects what C code prints to stderr inside a with statement."""

    def __enter__(self):
        self.file = tempfile.TemporaryFile()
        self.saved = os.dup(2)
        os.dup2(self.file.fileno(), 2)
        return self

    def __exit__(self, *_):
        os.dup2(self.saved, 2)
        os.close(self.saved)
        self.file.seek(0)
        self.text = self.file.read().decode()
        self.file.close()


def damage(dataset):
    """Changes the last byte of each chunk."""
    for at in np.ndindex(*[-(-size // chunk) for size, chunk
                           in zip(dataset.shape, dataset.chunks)]):
        offset = tuple(np.multiply(at, dataset.chunks).tolist())
        _, stream = dataset.id.read_direct_chunk(offset)
        dataset.id.write_direct_chunk(
            offset, stream[:-1] + bytes([stream[-1] ^ 1]))


def terp_words(dataset):
    """The stored cd_values."""
    dcpl = dataset.id.get_create_plist()
    return next(dcpl.get_filter(i)[2] for i in range(dcpl.get_nfilters())
                if dcpl.get_filter(i)[0] == FILTER)


def replace_words(path, old, new):
    """Makes a file that deceives: replaces the first len(new) of the cd_values
    `old`."""
    with open(path, "rb") as file:
        text = file.read()
    old, new = (struct.pack("<%dI" % len(words), *words)
                for words in (old, new))
    assert text.count(old) == 1
    at = text.index(old)
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(new)


def write_short_chunk(path, words, dtype="<f4", others=0):
    """A dataset of 64x64 values whose only chunk is a stream of 2x2 values.
    Its first cd_values become `words`, from a dataset of 2x2, or those of the
    small dataset itself if None. There are `others` further datasets."""
    import h5py  # some tests load another library before it

    with h5py.File(path, "w", libver="earliest") as file:
        small = file.create_dataset(
            "small", data=np.full((2, 2), 3.25, dtype), chunks=(2, 2),
            compression=FILTER, compression_opts=(ABSOLUTE, 1, 3))
        short = file.create_dataset(
            "short", (64, 64), dtype, chunks=(64, 64), compression=FILTER,
            compression_opts=(ABSOLUTE, 1, 4))
        short.id.write_direct_chunk((0, 0),
                                    small.id.read_direct_chunk((0, 0))[1])
        for i in range(others):
            file.create_dataset(
                "other%d" % i, data=smooth((30, 9 + i), dtype),
                chunks=(10, 9 + i), compression=FILTER,
                compression_opts=(ABSOLUTE, 1, 3))
        small, short = terp_words(small), terp_words(short)
    replace_words(path, short, words or small)


def smooth(shape, dtype, phase=0):
    """A smooth field in [-1, 1]."""
    field = np.ones(shape)
    for axis, size in enumerate(shape):
        x = np.arange(size).reshape([-1 if a == axis else 1
                                     for a in range(len(shape))])
        field = field * np.sin(x / 9.0 + phase + axis)
    return field.astype(dtype)


def with_specials(field):
    """A copy in which every 11th value is special."""
    field = field.copy()
    flat = field.reshape(-1)
    flat[::11] = np.nan
    flat[5::11] = np.inf
    flat[7::22] = -np.inf
    return field


def words(field):
    """The bits of the values, as integers."""
    return np.ascontiguousarray(field).view("u%d" % field.dtype.itemsize)


def check(test, want, got, bound, fill=None):
    """Whether |want - got| <= bound, and the same bits where want is
    special."""
    test.assertEqual(want.dtype, got.dtype)
    special = ~np.isfinite(want)
    if fill is not None:
        special |= want == want.dtype.type(fill)
    np.testing.assert_array_equal(words(want)[special], words(got)[special])
    want, got = want[~special], got[~special]
    test.assertTrue(np.isfinite(got).all())
    # In a wider type, so that the difference is exact.
    wide = np.float64 if want.dtype.itemsize == 4 else np.longdouble
    error = np.abs(want.astype(wide) - got.astype(wide))
    if error.size:
        test.assertLessEqual(error.max(), bound)


def value_range(field, fill=None):
    """max - min of the valid values."""
    valid = np.isfinite(field)
    if fill is not None:
        valid &= field != field.dtype.type(fill)
    valid = field[valid].astype(np.float64)
    return float(valid.max() - valid.min()) if valid.size else 0.0
