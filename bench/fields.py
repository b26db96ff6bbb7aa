"""The fields to compress: raw files, HDF5 datasets, and generated fields."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from common import PROJECT, fail, note

GENERATOR = PROJECT.parent / "shared" / "data" / "gen_fields.py"
GENERATED_DIR = PROJECT / "build" / "bench-fields"
RAW_NAME = re.compile(r"(.+)_(\d+(?:x\d+)*)\.(f32|f64)$")
RAW_TYPES = {"f32": "<f4", "f64": "<f8"}


@dataclass
class Source:
    """A field that is read on demand."""
    name: str
    path: Path
    dataset: str = None  # None: a raw file

    def load(self, fill):
        if self.dataset is None:
            return load_raw(self, fill)
        return load_dataset(self)


@dataclass
class Field:
    name: str
    data: np.ndarray
    fill: float = None
    value_range: float = 0.0

    def __post_init__(self):
        valid = self.data[self.valid(self.data)]
        if valid.size:
            self.value_range = float(valid.max()) - float(valid.min())

    def valid(self, values):
        """A mask of the values that count for range and PSNR."""
        mask = np.isfinite(values)
        if self.fill is not None:
            mask &= values != values.dtype.type(self.fill)
        return mask


def find_fields(words):
    """The sources of every comma-separated word of --fields."""
    found = []
    for word in words.split(","):
        path, colon, dataset = word.partition(".h5:")
        if colon:
            found.append(h5_source(Path(path + ".h5"), dataset))
        elif Path(word).is_dir():
            found += [raw_source(p) for p in sorted(Path(word).iterdir())
                      if RAW_NAME.match(p.name)]
        elif Path(word).exists():
            found += sources_of_file(Path(word))
        elif "/" in word or "." in word:
            fail(f"no such field: {word}")
        else:
            found.append(raw_source(generated(word)))
    return found


def sources_of_file(path):
    if RAW_NAME.match(path.name):
        return [raw_source(path)]
    if not h5py.is_hdf5(path):
        fail(f"{path}: neither HDF5 nor named like name_256x256x256.f32")
    names = []
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, item: names.append(name)
                        if is_float_array(item) else None)
    return [h5_source(path, name) for name in names]


def is_float_array(item):
    return isinstance(item, h5py.Dataset) and item.size and item.ndim > 0 \
        and item.dtype.newbyteorder("=") in (np.float32, np.float64)


def raw_source(path):
    return Source(RAW_NAME.match(path.name)[1], path)


def h5_source(path, dataset):
    return Source(dataset.strip("/"), path, dataset)


def generated(name):
    """A raw file of the project's generator, made on first use."""
    made = sorted(GENERATED_DIR.glob(f"{name}_*"))
    if not made and not GENERATOR.exists():
        fail(f"no such file: {name}, and {GENERATOR} is not there to make it")
    if not made:
        note(f"generating {name} into {GENERATED_DIR}")
        # The generator makes pres64 together with pres.
        subprocess.run([sys.executable, str(GENERATOR),
                        name.removesuffix("64")], check=True,
                       stdout=subprocess.DEVNULL,
                       env={**os.environ, "OUT": str(GENERATED_DIR)})
        made = sorted(GENERATED_DIR.glob(f"{name}_*"))
    if not made:
        fail(f"{GENERATOR} does not know a field {name}")
    return made[0]


def load_raw(source, fill):
    _, dims, extension = RAW_NAME.match(source.path.name).groups()
    shape = [int(d) for d in dims.split("x")]
    data = np.fromfile(source.path, RAW_TYPES[extension])
    if data.size != np.prod(shape):
        fail(f"{source.path} holds {data.size} values, its name says {dims}")
    return Field(source.name, data.reshape(shape), fill)


def load_dataset(source):
    with h5py.File(source.path, "r") as file:
        dataset = file[source.dataset]
        data = dataset[...]
        fill = dataset.attrs.get("_FillValue")
    fill = None if fill is None else float(np.ravel(fill)[0])
    if fill is not None and not np.isfinite(fill):
        fill = None  # not finite, so the mask has excluded it
    return Field(source.name,
                 data.astype(data.dtype.newbyteorder("="), copy=False), fill)


def chunk_shape(word, data):
    """The dims of a chunk: 'whole', 'auto' (h5py's guess), explicit 'AxBxC', or
    'N' for about N^3 values with equal dims; a dim never exceeds the
    field's."""
    shape = data.shape
    if word == "whole":
        return tuple(shape)
    if word == "auto":
        with h5py.File("guess", "w", driver="core",
                       backing_store=False) as file:
            return file.create_dataset("field", shape, data.dtype,
                                       chunks=True).chunks
    if "x" in word:
        dims = [int(d) for d in word.split("x")]
        if len(dims) != len(shape):
            fail(f"chunk {word} does not have the field's {len(shape)} dims")
    else:
        dims = [max(1, round(int(word) ** (3 / len(shape))))] * len(shape)
    return tuple(min(d, n) for d, n in zip(dims, shape))


def text_of_dims(dims):
    return "x".join(str(d) for d in dims)
