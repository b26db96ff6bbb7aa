"""The header before a stream, for arrays that a stream cannot describe: arrays
of 0 or more than four dims, without values, or of bool, and stacks of boxes
whose array has other dims. doc/python.md, "The header", describes it.
"""

from __future__ import annotations

from math import prod
import struct
from typing import Any, NamedTuple
import zlib

import numpy as np
from numpy.typing import NDArray

from . import _codec

MAGIC = b"terp"  # a stream begins with "TERP"
VERSION = 1
_ALIGNMENT = 16  # of a stream on a device
_MAX_RANK = 64  # of numpy's arrays
_FIXED = struct.Struct("<4sIBB6s")  # magic, CRC-32, version, rank, dtype
_NAMES = {np.dtype(order + name).str for order in "<>"
          for name in ("?", *_codec.TYPES)}
_CRC_AT = 8  # the checksum covers the header from here on
MAX_NBYTES = _FIXED.size + 8 * _MAX_RANK


class Header(NamedTuple):
    """Type and shape of an array, and the size of the header."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    nbytes: int


NONE = Header(np.dtype(np.uint8), (), 0)  # the stream describes its array


def _nbytes(rank: int) -> int:
    return -(-(_FIXED.size + 8 * rank) // _ALIGNMENT) * _ALIGNMENT


def make(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    dims = struct.pack(f"<{len(shape)}Q", *shape)
    head = _FIXED.pack(MAGIC, 0, VERSION, len(shape), dtype.str.encode())
    head = (head + dims).ljust(_nbytes(len(shape)), b"\0")
    return (MAGIC + struct.pack("<I", zlib.crc32(head[_CRC_AT:])) +
            head[_CRC_AT:])


def read(stream: NDArray[np.uint8]) -> Header | None:
    """The header of a stream, or None. Reads at most MAX_NBYTES bytes. TerpError
    if the header is damaged."""
    head = stream[:MAX_NBYTES].tobytes()
    if not head.startswith(MAGIC):
        return None
    damaged = _codec.TerpError("the header before the stream is damaged")
    if len(head) < _FIXED.size:
        raise damaged
    _, checksum, version, rank, name = _FIXED.unpack_from(head)
    nbytes = _nbytes(rank)
    if len(head) < nbytes or zlib.crc32(head[_CRC_AT:nbytes]) != checksum:
        raise damaged
    if version != VERSION:
        raise _codec.TerpError("a newer version of terp wrote the header before "
                               "the stream: update terp")
    name = name.rstrip(b"\0").decode("latin-1")
    if name not in _NAMES:
        raise damaged
    return Header(np.dtype(name), struct.unpack_from(f"<{rank}Q", head, _FIXED.size),
                  nbytes)


def check(header: Header, chunk: _codec.Chunk) -> None:
    """TerpError unless the stream's chunk has the array of the header."""
    dtype = np.dtype(np.uint8) if header.dtype.kind == "b" else header.dtype
    if dtype != chunk.dtype or prod(header.shape) != prod(chunk.shape):
        raise _codec.TerpError("the header belongs to another stream")


def coarse_shape(shape: tuple[int, ...], step: int) -> tuple[int, ...]:
    return tuple(-(-dim // step) for dim in shape)


def nfolded(header: Header, chunk: _codec.Chunk) -> int:
    """How many dims of the array the chunk has merged into its slowest dim,
    without unit dims; below 0 if the chunk has other dims."""
    dims, fast = _long(header.shape), _long(chunk.shape[1:])
    count = len(dims) - len(fast)
    return count if dims[max(count, 0):] == fast else -1


def _long(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dim for dim in shape if dim > 1)


def _decode_coarse(header: Header, plain: NDArray[np.uint8], step: int,
                   threads: int | None) -> NDArray[Any]:
    count = nfolded(header, _codec.decoded_chunk(plain))
    if count < 0:
        whole = _codec.decode(plain, None, threads)
        return whole.reshape(header.shape)[(slice(None, None, step),) *
                                           len(header.shape)]
    values = _codec.decode(plain, None, threads, step)
    # The merged dim has every step-th index: select those that are multiples of
    # step in each of its dims.
    positions = np.zeros((), np.int64)
    for dim in _long(header.shape)[:count]:
        positions = np.add.outer(positions * dim, np.arange(0, dim, step))
    return values[positions.ravel() // step]


def decode(stream: NDArray[np.uint8], out: NDArray[Any] | None,
           threads: int | None, step: int) -> NDArray[Any]:
    """_codec.decode for streams with or without header."""
    header = read(stream)
    if header is None:
        return _codec.decode(stream, out, threads, step)
    _codec.check_step(step)
    shape = coarse_shape(header.shape, step)
    plain = stream[header.nbytes:]
    has_values = 0 not in shape
    if has_values:
        check(header, _codec.decoded_chunk(plain))
    elif len(plain) > 0:
        raise _codec.TerpError("the header belongs to another stream")
    if out is None:
        out = np.empty(shape, header.dtype)
    _codec.check_out(out, header.dtype, shape)
    if not has_values:
        return out
    raw = out.reshape(-1).view(np.uint8)
    if step == 1:
        _codec.decode(plain, raw, threads)
    else:
        values = _decode_coarse(header, plain, step, threads)
        raw[...] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    if header.dtype.kind == "b":
        np.not_equal(raw, 0, out=raw.view(np.bool_))
    return out
