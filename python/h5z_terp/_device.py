"""Arrays on a GPU, of CuPy, PyTorch or others that have
``__cuda_array_interface__``: coded there, and never copied to the host.

A stream of one is an array of bytes of the same library on the same device.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from . import _codec

_CUDA = 1  # enum terp_engine_kind, which also codes on the CPU where it must
_DEVICE = 1  # enum terp_memory
_ALIGNMENT = 16  # of streams
_HEAD_NBYTES = 256  # the frame, from which a stream's chunk is known


class _RunOptions(ctypes.Structure):
    """struct terp_run_options"""

    _fields_ = [("size", ctypes.c_size_t), ("context", ctypes.c_void_p),
                ("engine", ctypes.c_int), ("memory", ctypes.c_int),
                ("nthreads", ctypes.c_int), ("has_stream", ctypes.c_bool),
                ("stream", ctypes.c_void_p)]


class _RunResult(ctypes.Structure):
    """struct terp_run_result"""

    _fields_ = [("size", ctypes.c_size_t), ("used", ctypes.c_int),
                ("device", ctypes.c_char_p), ("reason", ctypes.c_char_p)]


def has(array: Any) -> bool:
    """Whether it is on a device. PyTorch's raise where they are not."""
    return hasattr(array, "__cuda_array_interface__")


class _View:
    """What is known of an array on a device."""

    def __init__(self, array: Any) -> None:
        found = array.__cuda_array_interface__
        self.dtype = np.dtype(found["typestr"])
        self.shape = tuple(found["shape"])
        self.nbytes = self.dtype.itemsize * int(np.prod(self.shape))
        self.at, self.is_readonly = found["data"]
        self.library = sys.modules[type(array).__module__.partition(".")[0]]
        strides = found.get("strides")
        size, expected = self.dtype.itemsize, []
        for dim in reversed(self.shape):
            expected.insert(0, size)
            size *= dim
        if strides is not None and any(
                have != want for have, want, dim in
                zip(strides, expected, self.shape) if dim > 1):
            raise ValueError("the array on the device is not C-contiguous")
        # What the array's values wait for: 1 and 2 are CUDA's own streams.
        self.stream = found.get("stream")
        if self.library.__name__ == "torch":
            self.device = {"device": array.device}
            self.stream = self.library.cuda.current_stream(
                array.device).cuda_stream or 1
        else:
            self.device = {}

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """A new array of the same library, on the same device."""
        if self.library.__name__ == "torch":
            return self.library.empty(
                shape, dtype=getattr(self.library, dtype.name), **self.device)
        return self.library.empty(shape, dtype=dtype)


def _pointers(*addresses: int) -> ctypes.Array:
    return (ctypes.c_void_p * len(addresses))(*addresses)


def _run(view: _View, threads: int | None):
    options = _RunOptions(size=ctypes.sizeof(_RunOptions), engine=_CUDA,
                          memory=_DEVICE,
                          nthreads=_codec.thread_count(threads),
                          has_stream=view.stream is not None,
                          stream=view.stream)
    return options, _RunResult(size=ctypes.sizeof(_RunResult))


def _check(status: int, result: _RunResult) -> None:
    if status != 0:
        why = f": {result.reason.decode()}" if result.reason else ""
        raise _codec.TerpError(_codec.status_text(status) + why)


def encode(params: _codec.Params, array: Any, dims: tuple[int, ...],
           threads: int | None) -> Any:
    view = _View(array)
    shape = view.shape
    if dims:
        count = int(np.prod(shape)) // int(np.prod(dims))
        if count * int(np.prod(dims)) != int(np.prod(shape)):
            raise ValueError(f"{shape} is no stack of {dims}")
        shape = (count, *dims)
    chunk = _codec.chunk_of(view.dtype, shape, bool(dims))
    stream = view.empty((_codec.encode_bound(chunk),), np.dtype(np.uint8))
    nbytes = ctypes.c_uint64()
    options, result = _run(view, threads)
    ref = ctypes.byref
    _check(_codec.encode_batch(ref(options), params, chunk, 1,
                               _pointers(view.at), _pointers(_View(stream).at),
                               ref(nbytes), ref(result)), result)
    return stream[:nbytes.value]


def _chunk_of_stream(stream: Any, view: _View) -> _codec.Chunk:
    """The chunk that a stream on the device holds: no more than its head is
    copied."""
    head = stream[:_HEAD_NBYTES]
    if view.device:
        head = head.cpu().numpy()
    elif hasattr(head, "get"):
        head = head.get()
    else:
        head = head.copy_to_host()
    # As long as the stream: what is behind the head is not read.
    host = np.empty(view.nbytes, np.uint8)
    host[:len(head)] = head
    return _codec.decoded_chunk(host)


def decode(stream: Any, out: Any, threads: int | None, step: int) -> Any:
    view = _View(stream)
    if view.dtype != np.uint8 or len(view.shape) != 1:
        raise TypeError("a stream on the device is an array of uint8")
    if view.at % _ALIGNMENT != 0:
        raise ValueError("a stream on the device is aligned to 16 bytes")
    chunk = _chunk_of_stream(stream, view)
    few = _codec.coarse_chunk(chunk, step)
    if out is None:
        if few.big_endian:
            raise ValueError("its values are big-endian, which arrays on the "
                             "device are not: give an `out` of bytes")
        out = view.empty(few.shape, few.dtype)
    to = _View(out)
    if to.is_readonly or to.nbytes != _codec.chunk_nbytes(few):
        raise ValueError(f"out has {to.nbytes} bytes or cannot be written to; "
                         f"the stream has {_codec.chunk_nbytes(few)}")
    options, result = _run(view, threads)
    ref = ctypes.byref
    _check(_codec.decode_coarse_batch(
        ref(options), chunk, step, 1, _pointers(view.at),
        ref(ctypes.c_uint64(view.nbytes)), _pointers(to.at),
        ref(ctypes.c_int()), ref(result)), result)
    return out
