"""Compresses and decompresses arrays on a GPU, of CuPy, PyTorch or another
library with ``__cuda_array_interface__``, without copying them to the host.

The stream is an array of bytes of the same library on the same device.
"""

from __future__ import annotations

import ctypes
from math import prod
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _codec, _header

CUDA = 1  # enum terp_engine_kind; the CPU replaces the GPU where necessary
_DEVICE = 1  # enum terp_memory
_ALIGNMENT = 16  # of streams
# Enough for the header and the frame, which describe the stream's chunk.
_HEAD_NBYTES = _header.MAX_NBYTES + 256


class RunOptions(ctypes.Structure):
    """struct terp_run_options"""

    _fields_ = [("size", ctypes.c_size_t), ("context", ctypes.c_void_p),
                ("engine", ctypes.c_int), ("memory", ctypes.c_int),
                ("nthreads", ctypes.c_int), ("has_stream", ctypes.c_bool),
                ("stream", ctypes.c_void_p)]


class RunResult(ctypes.Structure):
    """struct terp_run_result"""

    _fields_ = [("size", ctypes.c_size_t), ("used", ctypes.c_int),
                ("device", ctypes.c_char_p), ("reason", ctypes.c_char_p)]


def has(array: Any) -> bool:
    """Whether an array is on a device. PyTorch's arrays on the host raise."""
    return hasattr(array, "__cuda_array_interface__")


class View:
    """An array on a device."""

    def __init__(self, array: Any) -> None:
        found = array.__cuda_array_interface__
        self.dtype = np.dtype(found["typestr"])
        self.shape = tuple(found["shape"])
        self.nbytes = self.dtype.itemsize * prod(self.shape)
        self.at, self.is_readonly = found["data"]
        self.library = sys.modules[type(array).__module__.partition(".")[0]]
        strides = found.get("strides")
        size = self.dtype.itemsize
        expected: list[int] = []
        for dim in reversed(self.shape):
            expected.insert(0, size)
            size *= dim
        if strides is not None and any(
                have != want for have, want, dim in
                zip(strides, expected, self.shape) if dim > 1):
            raise ValueError("the array on the device must be C-contiguous")
        # The CUDA stream that computes the values; 1 and 2 are default streams.
        self.stream = found.get("stream")
        if self.library.__name__ == "torch":
            self.device = {"device": array.device}
            self.stream = self.library.cuda.current_stream(
                array.device).cuda_stream or 1
        else:
            self.device = {}

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """A new array of the same library on the same device."""
        if self.library.__name__ == "torch":
            return self.library.empty(
                shape, dtype=getattr(self.library, dtype.name), **self.device)
        return self.library.empty(shape, dtype=dtype)

    def fill(self, array: Any, data: bytes) -> None:
        """Copies bytes of the host to an array of uint8 of this library."""
        values = np.frombuffer(bytearray(data), np.uint8)
        if self.device:
            array.copy_(self.library.from_numpy(values))
        elif hasattr(array, "set"):
            array.set(values)
        else:
            array.copy_to_device(values)


def pointers(*addresses: int) -> Any:
    return (ctypes.c_void_p * len(addresses))(*addresses)


def _run(view: View,
         threads: int | None) -> tuple[RunOptions, RunResult]:
    options = RunOptions(size=ctypes.sizeof(RunOptions), engine=CUDA,
                          memory=_DEVICE,
                          nthreads=_codec.thread_count(threads),
                          has_stream=view.stream is not None,
                          stream=view.stream)
    return options, RunResult(size=ctypes.sizeof(RunResult))


def _check(status: int, result: RunResult) -> None:
    if status != 0:
        why = f": {result.reason.decode()}" if result.reason else ""
        raise _codec.TerpError(_codec.status_text(status) + why)


def encode(params: _codec.Params, chunk: _codec.Chunk | None, view: View,
           header: bytes, threads: int | None) -> Any:
    capacity = len(header)
    if chunk is not None:
        capacity += _codec.encode_bound(chunk)
    stream = view.empty((capacity,), np.dtype(np.uint8))
    nbytes = ctypes.c_uint64()
    if chunk is not None:
        options, result = _run(view, threads)
        ref = ctypes.byref
        _check(_codec.encode_batch(
            ref(options), params, chunk, 1, pointers(view.at),
            pointers(View(stream).at + len(header)), ref(nbytes),
            ref(result)), result)
    if header:
        view.fill(stream[:len(header)], header)
    return stream[:len(header) + nbytes.value]


def _head_of(stream: Any, view: View) -> NDArray[np.uint8]:
    """A host array of the stream's size. Only its head is copied from the device;
    the rest is undefined."""
    head = stream[:_HEAD_NBYTES]
    if view.device:
        head = head.cpu().numpy()
    elif hasattr(head, "get"):
        head = head.get()
    else:
        head = head.copy_to_host()
    host = np.empty(view.nbytes, np.uint8)
    host[:len(head)] = head
    return host


def decode(stream: Any, out: Any, threads: int | None, step: int) -> Any:
    view = View(stream)
    if view.dtype != np.uint8 or len(view.shape) != 1:
        raise TypeError("a stream on the device must be an array of uint8")
    if view.at % _ALIGNMENT != 0:
        raise ValueError("a stream on the device must be aligned to 16 bytes")
    head = _head_of(stream, view)
    header = _header.read(head)
    if header is None:
        chunk = _codec.decoded_chunk(head)
        few = _codec.coarse_chunk(chunk, step)
        return _decode_chunk(view, chunk, 0, few.shape, few.dtype, out, threads,
                             step)
    shape = _header.coarse_shape(header.shape, step)
    if 0 in shape:
        return view.empty(shape, header.dtype) if out is None else out
    chunk = _codec.decoded_chunk(head[header.nbytes:])
    _header.check(header, chunk)
    if step > 1 and _header.nfolded(header, chunk) not in (0, 1):
        if out is not None:
            raise ValueError("for a step above 1, and an array of more than four "
                             "dims, omit `out`")
        whole = decode(stream, None, threads, 1)
        return whole[(slice(None, None, step),) * len(shape)]
    if out is None and header.dtype.kind == "b":
        return _decode_chunk(view, chunk, header.nbytes, shape, chunk.dtype,
                             None, threads, step) != 0
    return _decode_chunk(view, chunk, header.nbytes, shape, header.dtype, out,
                         threads, step)


def _decode_chunk(view: View, chunk: _codec.Chunk, begin: int,
                  shape: tuple[int, ...], dtype: np.dtype[Any], out: Any,
                  threads: int | None, step: int) -> Any:
    """Decodes the stream that begins at byte `begin` of the view."""
    if out is None:
        if chunk.big_endian:
            raise ValueError("the values are big-endian, which arrays on the "
                             "device cannot be: give an `out` of bytes")
        out = view.empty(shape, dtype)
    to = View(out)
    nbytes = dtype.itemsize * prod(shape)
    if to.is_readonly or to.nbytes != nbytes:
        raise ValueError(f"out has {to.nbytes} bytes or is read-only; it must "
                         f"be writable and have {nbytes} bytes")
    options, result = _run(view, threads)
    ref = ctypes.byref
    _check(_codec.decode_coarse_batch(
        ref(options), chunk, step, 1, pointers(view.at + begin),
        ref(ctypes.c_uint64(view.nbytes - begin)), pointers(to.at),
        ref(ctypes.c_int()), ref(result)), result)
    return out
