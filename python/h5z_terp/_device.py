"""Compresses and decompresses arrays on a GPU, of CuPy, PyTorch or another
library with ``__cuda_array_interface__``, without copying them to the host.

The stream is an array of bytes of the same library on the same device.
"""

from __future__ import annotations

import ctypes
import importlib
from math import prod
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _codec, _header

CUDA = 1  # enum terp_engine_kind; the CPU replaces the GPU where necessary
_DEVICE = 1  # enum terp_memory
ALIGNMENT = 16  # of streams
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

    def __init__(self, array: Any, any_strides: bool = False) -> None:
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
        if strides is not None and not any_strides and any(
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


_PACKAGES = {"cupy": "CuPy", "torch": "PyTorch"}
# PyTorch has no device arrays of other types, or not with all functions.
_TORCH_KINDS = "fcib"


def _find_library(library: Any) -> Any:
    """The module of arrays that a caller of `read` or `write` means."""
    if library is not None and not isinstance(library, str):
        return library
    if library is not None and library not in _PACKAGES:
        raise ValueError(f"library {library!r} must be None, \"cupy\" or "
                         "\"torch\"")
    names = [library] if library else sorted(
        _PACKAGES, key=lambda name: name not in sys.modules)
    for name in names:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if not module.cuda.is_available():
            raise RuntimeError(f"device=\"cuda\": {_PACKAGES[name]} finds no GPU")
        return module
    wanted = " or ".join(_PACKAGES[name] for name in names)
    raise RuntimeError(f"device=\"cuda\" needs {wanted}, which cannot be imported")


def check_names(device: Any, library: Any) -> None:
    """ValueError for a wrong device, and for a library without one."""
    if device not in (None, "cpu", "cuda"):
        raise ValueError(f"device {device!r} must be None, \"cpu\" or \"cuda\"")
    if library is not None and device != "cuda":
        raise ValueError(f"library {library!r} is for device=\"cuda\"")


class Library:
    """A library of arrays on a device: CuPy, PyTorch, or a module with the
    functions `empty` and `asarray` of CuPy."""

    def __init__(self, library: Any) -> None:
        """`library`: a name, a module, an array, or None."""
        if has(library):
            library = sys.modules[type(library).__module__.partition(".")[0]]
        self.module = _find_library(library)
        self.is_torch = self.module.__name__ == "torch"

    def can_hold(self, dtype: np.dtype[Any]) -> bool:
        """Whether arrays have this dtype and its byte order."""
        return dtype.isnative and (
            not self.is_torch or dtype.kind in _TORCH_KINDS or dtype == np.uint8)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        if self.is_torch:
            return self.module.empty(shape, device="cuda",
                                     dtype=getattr(self.module, dtype.name))
        return self.module.empty(shape, dtype=dtype)

    def of_host(self, values: NDArray[Any]) -> Any:
        """A copy on the device, in native byte order."""
        values = np.require(values, values.dtype.newbyteorder("="),
                            ["C", "A", "W"])
        if self.is_torch:
            return self.module.from_numpy(values).to("cuda")
        return self.module.asarray(values)

    def finish(self) -> None:
        """Waits for the work in the current stream, so that other threads and
        streams may use its results."""
        if self.is_torch:
            self.module.cuda.current_stream().synchronize()
        elif hasattr(self.module, "cuda"):
            self.module.cuda.get_current_stream().synchronize()

    def to_host(self, array: Any) -> NDArray[Any]:
        host: NDArray[Any]
        if self.is_torch:
            host = array.cpu().numpy()
        elif hasattr(array, "get"):
            host = array.get()
        else:
            host = array.copy_to_host()
        return host


_CUDA_OF_DLPACK = 2  # kDLCUDA


def of_dlpack(array: Any) -> Any:
    """An array with __cuda_array_interface__ for an array on a device that has
    only DLPack; other objects unchanged."""
    if has(array) or not hasattr(array, "__dlpack_device__"):
        return array
    kind, _ = array.__dlpack_device__()
    if kind != _CUDA_OF_DLPACK:
        return array
    return Library(None).module.from_dlpack(array)


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
    if view.at % ALIGNMENT != 0:
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


def decode_streams(streams: Any, starts: list[int], sizes: list[int],
                   chunks: Any, chunk: _codec.Chunk, nbytes: int,
                   threads: int | None) -> tuple[int, list[int], str]:
    """Decodes the streams that begin at `starts` of an array of bytes to the
    chunks of an array, `nbytes` each. Returns the status of the call, the
    statuses of the chunks, and a reason."""
    source = View(streams)
    return decode_at(source, [source.at + start for start in starts], sizes,
                     chunks, chunk, nbytes, threads)


def decode_at(source: View, addresses: list[int], sizes: list[int], chunks: Any,
              chunk: _codec.Chunk, nbytes: int, threads: int | None
              ) -> tuple[int, list[int], str]:
    """The same for streams at addresses on the device, which are multiples of
    16. The work follows earlier work in the CUDA stream of `source`."""
    target = View(chunks)
    count = len(addresses)
    options, result = _run(source, threads)
    statuses = (ctypes.c_int * count)()
    ref = ctypes.byref
    status: int = _codec.decode_coarse_batch(
        ref(options), chunk, 1, count, pointers(*addresses),
        (ctypes.c_uint64 * count)(*sizes),
        pointers(*(target.at + i * nbytes for i in range(count))), statuses,
        ref(result))
    why = f": {result.reason.decode()}" if result.reason else ""
    return status, list(statuses), why


def encode_chunks(arrays: Library, chunks: Any, params: _codec.Params,
                  chunk: _codec.Chunk, nbytes: int, threads: int | None
                  ) -> tuple[int, list[bytes], str]:
    """Encodes the chunks of an array, `nbytes` each. Returns the status of the
    call, the streams and a reason."""
    source = View(chunks)
    count = source.shape[0]
    stride = -(-_codec.encode_bound(chunk) // ALIGNMENT) * ALIGNMENT
    streams = arrays.empty((count * stride,), np.dtype(np.uint8))
    target = View(streams)
    options, result = _run(source, threads)
    sizes = (ctypes.c_uint64 * count)()
    ref = ctypes.byref
    status: int = _codec.encode_batch(
        ref(options), params, chunk, count,
        pointers(*(source.at + i * nbytes for i in range(count))),
        pointers(*(target.at + i * stride for i in range(count))), sizes,
        ref(result))
    why = f": {result.reason.decode()}" if result.reason else ""
    if status != 0:
        return status, [], why
    return status, [
        arrays.to_host(streams[i * stride:i * stride + sizes[i]]).tobytes()
        for i in range(count)], why
