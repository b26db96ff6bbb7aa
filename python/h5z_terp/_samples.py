"""Samples for training from HDF5 datasets: reads blocks of chunks ahead with all
cores, or on a GPU, in an order that a seed shuffles."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
import itertools
from math import prod
import os
from typing import Any, NamedTuple, Union, cast

import numpy as np
from numpy.typing import NDArray

from . import _codec, _device
from ._datasets import read

_Dims = tuple  # of ints
_Path = Union[str, "os.PathLike[str]"]

# What a task reads at least, if the dataset has so much: less would cost more in
# Python than in the codec, or leave a device idle.
_BLOCK_NBYTES = {None: 1 << 20, "cpu": 1 << 20, "cuda": 64 << 20}
# Blocks that are read ahead hold at most this, but at least two blocks are.
_AHEAD_NBYTES = 256 << 20


class _Window(NamedTuple):
    """The samples of a dataset. They lie along its first dims."""

    size: _Dims
    stride: _Dims
    is_row: bool  # a sample lacks the first dim


def _dims(name: str, value: int | Sequence[int]) -> _Dims:
    dims = (value,) if isinstance(value, (int, np.integer)) else tuple(value)
    if not dims or any(int(dim) != dim or dim < 1 for dim in dims):
        raise ValueError(f"{name} {value!r} must be positive numbers")
    return tuple(int(dim) for dim in dims)


def _window_of(window: Any, stride: Any) -> _Window:
    size = (1,) if window is None else _dims("window", window)
    if isinstance(stride, (int, np.integer)):
        stride = len(size) * (stride,)
    steps = size if stride is None else _dims("stride", stride)
    if len(steps) != len(size):
        raise ValueError("window and stride must have the same number of dims")
    return _Window(size, steps, window is None)


def _counts(window: _Window, shape: _Dims) -> _Dims:
    """The number of samples along each dim of the window."""
    if len(window.size) > len(shape):
        raise ValueError(f"a window of {len(window.size)} dims does not fit a "
                         f"dataset of {len(shape)} dims")
    return tuple(max(0, (dim - size) // step + 1)
                 for dim, size, step in zip(shape, window.size, window.stride))


def _groups(window: _Window, counts: _Dims, chunk: _Dims
            ) -> list[NDArray[np.int64]]:
    """For each dim of the window the first samples of groups that begin in one
    chunk, and the number of samples."""
    found = []
    for count, step, length in zip(counts, window.stride, chunk):
        begins = np.arange(count, dtype=np.int64) * step // length
        firsts = np.flatnonzero(np.diff(begins, prepend=-1))
        found.append(np.append(firsts, count))
    return found


class _Plan:
    """The blocks of one file: boxes of samples, each of whole groups."""

    def __init__(self, path: str, dataset: Any, window: _Window,
                 nbytes: int) -> None:
        shape = dataset.shape
        counts = _counts(window, shape)
        self.path = path
        # A contiguous dataset is cut like one whose chunks are rows.
        chunk = dataset.chunks or (1,) * len(window.size) + shape[
            len(window.size):]
        bounds = _groups(window, counts, chunk)
        block = dataset.dtype.itemsize * prod(shape[len(counts):]) * prod(
            (bound[1] - bound[0] - 1) * step + size if len(bound) > 1 else 0
            for bound, step, size in zip(bounds, window.stride, window.size))
        # Larger blocks hold neighbours along the fastest dims.
        for i in reversed(range(len(bounds))):
            merged = min(max(1, nbytes // max(int(block), 1)),
                         max(1, len(bounds[i]) - 1))
            if merged > 1:
                bounds[i] = np.append(bounds[i][:-1:merged], counts[i])
                block *= merged
        self.bounds = bounds
        self.block_nbytes = int(block)
        self.nblocks = prod(len(bound) - 1 for bound in bounds)
        self.counts = counts

    def box(self, block: int) -> list[range]:
        """The samples of a block along each dim."""
        places = np.unravel_index(block, [len(b) - 1 for b in self.bounds])
        return [range(int(bound[place]), int(bound[place + 1]))
                for bound, place in zip(self.bounds, places)]

    def sizes(self) -> NDArray[np.int64]:
        """The number of samples of each block."""
        found = np.ones((), np.int64)
        for bound in self.bounds:
            found = np.multiply.outer(found, np.diff(bound))
        return found.ravel()


def _cut(order: NDArray[np.int64], start: int, count: int
         ) -> NDArray[np.int64]:
    """The samples from `start` to `start + count` of an order of blocks."""
    sizes = order[:, 3]
    begins = sizes.cumsum() - sizes
    first = np.clip(start - begins, 0, sizes)
    last = np.clip(start + count - begins, 0, sizes)
    return np.stack([*order[:, :2].T, order[:, 2] + first, last - first], axis=1)


class _Block(NamedTuple):
    """The values of a block, for each dataset, and where its samples lie."""

    values: list[Any]
    box: list[range]
    taken: range  # the numbers of the samples that are taken

    def sample(self, window: _Window, number: int) -> list[Any]:
        if window.is_row:
            return [values[number] for values in self.values]
        place = np.unravel_index(number, [len(along) for along in self.box])
        part = tuple(slice(int(i) * step, int(i) * step + size) for i, step, size
                     in zip(place, window.stride, window.size))
        return [values[part] for values in self.values]


class _File:
    """An open file, in the process and thread that iterates."""

    def __init__(self, path: str, names: list[str]) -> None:
        import h5py

        self._file = h5py.File(path, "r")
        self.datasets = [self._file[name] for name in names]

    def close(self) -> None:
        self._file.close()


class Samples:
    """Samples for training, which an iteration reads from HDF5 datasets::

        samples = h5z_terp.Samples("train.h5", ["x", "y"], batch=32, seed=0)
        for epoch in range(10):
            samples.set_epoch(epoch)
            for x, y in samples:  # arrays of 32 rows each
                ...

    ``paths``: a path, or a list of paths; samples come from all files. ``names``:
    the name of a dataset, or a list of names; a sample then is a tuple of arrays,
    one for each name. All datasets of a file must have the same number of
    samples.

    A sample is a row, ``dataset[i]``; or with ``window`` a box of these dims along
    the first dims, ``dataset[a:a + window[0], b:b + window[1], ...]``. ``stride``
    is the distance of windows, one number for all dims or one for each; None: the
    window, so windows do not overlap. Windows that reach beyond the dataset are
    left out.

    ``batch``: the number of samples that are stacked along a new first dim; the
    last batch may be smaller unless ``drop_last``. None: single samples, which
    may share memory.

    ``shuffle`` reads blocks of chunks in random order, and mixes the samples of
    ``mix`` blocks. ``seed`` and the epoch give the order; None: another order in
    each iteration. Without ``shuffle``, rows come in their order, and windows in
    the order of blocks.

    ``device`` and ``library`` are those of ``read``: with ``"cuda"`` samples are
    arrays on the GPU, which decodes. ``threads`` is the number of threads that
    read ahead and decode on the CPU; None means all that the process may use.
    Blocks that are read ahead hold at most about 256 MiB, ``mix`` blocks aside.

    Datasets may have any filter or none; those of terp are fastest. Each
    iteration opens the files in its process, so an object may be pickled, and
    used after a fork. ``shard`` divides the samples among processes. Arrays of
    numpy, CuPy and PyTorch have DLPack for other libraries.

    Raises KeyError, OSError and ValueError, when it is made, for wrong numbers
    and for datasets that are missing or do not fit; and in an iteration the
    errors of ``read``.
    Threads may iterate at the same time.
    """

    def __init__(self, paths: _Path | Sequence[_Path],
                 names: str | Sequence[str], *, window: int | Sequence[int] |
                 None = None, stride: int | Sequence[int] | None = None,
                 batch: int | None = None, drop_last: bool = False,
                 shuffle: bool = True, mix: int = 8, seed: int | None = None,
                 device: str | None = None, library: Any = None,
                 threads: int | None = None) -> None:
        _device.check_names(device, library)
        mix = _codec.whole("mix", mix, 1)
        batch = None if batch is None else _codec.whole("batch", batch, 1)
        seed = None if seed is None else _codec.whole("seed", seed, 0)
        _codec.thread_count(threads)
        self.paths = [os.fspath(path) for path in (
            [paths] if isinstance(paths, (str, os.PathLike)) else paths)]
        self.is_single = isinstance(names, str)
        self.names = [names] if isinstance(names, str) else list(names)
        if not self.paths or not self.names:
            raise ValueError("give at least one path and one name")
        self.window = _window_of(window, stride)
        self.batch, self.drop_last = batch, drop_last
        self.shuffle, self.mix, self.seed = shuffle, mix, seed
        self.device, self.library, self.threads = device, library, threads
        self.epoch = 0
        self._shards: list[tuple[int, int, bool]] = []
        self._plans = [self._plan(path) for path in self.paths]

    def _plan(self, path: str) -> _Plan:
        file = _File(path, self.names)
        try:
            plans = [_Plan(path, dataset, self.window, _BLOCK_NBYTES[self.device])
                     for dataset in file.datasets]
        finally:
            file.close()
        for name, plan in zip(self.names, plans):
            if plan.counts != plans[0].counts:
                raise ValueError(
                    f"{path}: {self.names[0]!r} has {plans[0].counts} samples "
                    f"along its dims, but {name!r} has {plan.counts}")
        # The dataset with the largest blocks decides where blocks begin.
        return max(plans, key=lambda plan: plan.block_nbytes)

    # ---- which samples ----

    def set_epoch(self, epoch: int) -> None:
        """Sets the number that together with the seed gives the order."""
        self.epoch = _codec.whole("epoch", epoch, 0)

    def shard(self, index: int, count: int, *, equal: bool = True) -> Samples:
        """A copy that has the ``index``-th of ``count`` shares of the samples.
        With ``equal`` all shares have the same number of samples, as
        processes that train together need; fewer than ``count`` samples are then left out, others
        in each order, and two shares may read one block, each for samples of its
        own. Without it each share has blocks of its own. Shards of shards are
        possible. Needs a seed if ``shuffle``, so that all shares have one order;
        ValueError otherwise."""
        if not 0 <= index < count:
            raise ValueError(f"the index {index} must be below the count {count}")
        if self.shuffle and self.seed is None and count > 1:
            raise ValueError("shards of shuffled samples need a seed")
        return self._with(_shards=[*self._shards, (index, count, equal)])

    def _with(self, **members: Any) -> Samples:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__, **members)
        return other

    def _generator(self, use: int) -> np.random.Generator:
        seed = None if self.seed is None else [self.seed, self.epoch, use]
        return np.random.default_rng(seed)

    def _order(self) -> NDArray[np.int64]:
        """What an iteration reads: rows of the file, the block, the first of its
        samples that are taken, and their number."""
        order = np.concatenate([np.stack(
            [np.full(plan.nblocks, i), np.arange(plan.nblocks),
             np.zeros(plan.nblocks, np.int64), plan.sizes()],
            axis=1) for i, plan in enumerate(self._plans)])
        if self.shuffle:
            order = self._generator(0).permutation(order)
        for index, count, equal in self._shards:
            if equal:
                share = order[:, 3].sum() // count
                order = _cut(order, index * share, share)
            else:
                order = order[index::count]
        return order[order[:, 3] > 0]

    def __len__(self) -> int:
        """The number of samples, or of batches, of an iteration."""
        total = int(self._order()[:, 3].sum())
        if self.batch is None:
            return total
        return total // self.batch if self.drop_last else -(-total // self.batch)

    # ---- reading ----

    def _load(self, files: Mapping[int, _File], number: int, block: int,
              first: int, count: int) -> _Block:
        box = self._plans[number].box(block)
        selection = tuple(
            slice(along[0] * step, along[-1] * step + size)
            for along, step, size in
            zip(box, self.window.stride, self.window.size))
        values = [read(dataset, selection, device=self.device,
                       library=self.library, threads=1)
                  for dataset in files[number].datasets]
        if self.device == "cuda":
            _device.Library(values[0]).finish()
        return _Block(values, box, range(first, first + count))

    def _blocks(self, order: list[list[int]]) -> Iterator[_Block]:
        """Reads blocks ahead, and hands them over in their order."""
        # A device decodes a block by itself.
        threads = (1 if self.device == "cuda" else
                   _codec.thread_count(self.threads))
        nbytes = len(self.names) * max(plan.block_nbytes for plan in self._plans)
        ahead = max(2, min(4 * threads, _AHEAD_NBYTES // max(nbytes, 1)))
        files = {i: _File(self.paths[i], self.names)
                 for i in {row[0] for row in order}}
        pool = ThreadPoolExecutor(threads, "h5z_terp")
        waiting: deque[Future[_Block]] = deque()
        left = iter(order)
        try:
            while True:
                for row in itertools.islice(left, ahead - len(waiting)):
                    waiting.append(pool.submit(self._load, files, *row))
                if not waiting:
                    return
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            pool.shutdown()
            for file in files.values():
                file.close()

    def _samples(self) -> Iterator[list[Any]]:
        # Each shard mixes its samples in another way.
        dice = self._generator(1 + sum(index for index, _, _ in self._shards))
        blocks = self._blocks(self._order().tolist())
        try:
            while group := list(itertools.islice(
                    blocks, self.mix if self.shuffle else 1)):
                places = [(block, i) for block in group for i in block.taken]
                if self.shuffle:
                    places = [places[i] for i in dice.permutation(len(places))]
                for block, i in places:
                    yield block.sample(self.window, i)
        finally:
            cast(Any, blocks).close()

    def _stack(self, samples: list[list[Any]]) -> list[Any]:
        stacked = []
        for parts in zip(*samples):
            shape = (len(parts), *parts[0].shape)
            if self.device == "cuda":
                whole = _device.Library(parts[0]).empty(
                    shape, np.dtype(_device.View(parts[0], True).dtype))
            else:
                whole = np.empty(shape, parts[0].dtype)
            for i, part in enumerate(parts):
                whole[i] = part
            stacked.append(whole)
        return stacked

    def __iter__(self) -> Iterator[Any]:
        samples = self._samples()
        try:
            while True:
                taken = list(itertools.islice(samples, self.batch or 1))
                if not taken or (self.drop_last and len(taken) <
                                 (self.batch or 1)):
                    return
                found = taken[0] if self.batch is None else self._stack(taken)
                yield found[0] if self.is_single else tuple(found)
        finally:
            cast(Any, samples).close()
