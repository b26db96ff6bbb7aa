"""Advice for the shapes of chunks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import DTypeLike

from . import _codec

_NVALUES = 64**3  # of tools/common/chunk_shape.c, which this follows
_NINNER = 3


def _side(dims: Sequence[int]) -> int:
    """The largest side of a cube that holds _NVALUES values of an array with
    these dims."""
    low, high = 1, _NVALUES
    while low < high:
        side = (low + high + 1) // 2
        if prod(min(dim, side) for dim in dims) <= _NVALUES:
            low = side
        else:
            high = side - 1
    return low


def _share(dim: int, side: int) -> int:
    """Cuts a dim into equal shares of about `side` values."""
    count = (dim + side // 2) // side
    return dim if count <= 1 else -(-dim // count)


def chunks(shape: Sequence[int | None], dtype: DTypeLike = np.float32
           ) -> tuple[int, ...]:
    """A shape of chunks that terp compresses well, for a dataset of this shape:
    about 64^3 values, such as (64, 64, 64) of a cube, (512, 512) of a map, and
    one step of a slow fourth dimension. ``terp advise`` and ``terp repack`` take
    the same; only for one dimension, and from the values, they may find a better
    length.

    ``shape`` has the slowest dim first; None or 0 is a dim that begins empty and
    grows. Readers of few values decode whole chunks, so choose smaller chunks
    for a program that reads few values at a time. The size does not depend on
    ``dtype``, a type of numpy, also a structured one; TypeError if terp does not
    compress it. ValueError for a shape without dims, because HDF5 does not
    compress scalars.
    """
    base = np.dtype(dtype).base
    if base.names is None:
        _codec.type_of(base)
    try:
        dims = [0 if dim is None else _codec.whole("shape", dim, 0)
                for dim in shape]
    except (TypeError, ValueError):
        dims = []
    if not dims:
        raise ValueError(f"a dataset of shape {shape!r} has no chunks") from None
    inner = [dim or _NVALUES for dim in dims[-_NINNER:]]
    side = _side(inner)
    found = [_share(dim, side) for dim in inner]
    left = _NVALUES
    for share in found:
        left //= share
    # If the inner dims leave values, a chunk covers several steps of slower dims.
    for dim in reversed(dims[:-_NINNER]):
        share = dim or 1
        if share > left:
            share = _share(share, left) if left > 1 else 1
        found.insert(0, share)
        left //= share
    return tuple(found)
