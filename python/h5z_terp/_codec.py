"""The codec, libterp, and what its structs are in Python."""

import ctypes
import os
import sys
from pathlib import Path

import numpy as np

PREFIX = Path(__file__).resolve().parent
MAX_RANK = 4

# A wheel's own library, or the system's.
_path = PREFIX / "lib" / {"win32": "libterp.dll", "darwin": "libterp.1.dylib"
                          }.get(sys.platform, "libterp.so.1")
try:
    _library = ctypes.CDLL(str(_path) if _path.exists() else _path.name)
except OSError as error:
    raise ImportError(
        f"terp's library cannot be loaded: {error}. If h5z-terp was installed for "
        "another system or C library, pip install --force-reinstall h5z-terp "
        "brings this one's") from error

# enum terp_type, by numpy's names in the host's byte order.
_TYPES = {"f4": 0, "f8": 1, "i1": 3, "i2": 4, "i4": 5, "i8": 6, "u1": 7,
          "u2": 8, "u4": 9, "u8": 10, "f2": 11, "c8": 13, "c16": 14}
_DTYPES = {number: name for name, number in _TYPES.items()}


class Chunk(ctypes.Structure):
    """struct terp_chunk"""

    _fields_ = [("type", ctypes.c_int), ("big_endian", ctypes.c_bool),
                ("stack", ctypes.c_bool), ("rank", ctypes.c_int),
                ("dims", ctypes.c_uint64 * MAX_RANK)]

    @property
    def shape(self):
        return tuple(self.dims[:self.rank])

    @property
    def dtype(self):
        return np.dtype((">" if self.big_endian else "<") +
                        _DTYPES.get(self.type, "u1"))


class Params(ctypes.Structure):
    """struct terp_params"""

    _fields_ = [("size", ctypes.c_size_t), ("bound_mode", ctypes.c_int),
                ("bound", ctypes.c_double), ("pipeline", ctypes.c_int),
                ("predictor", ctypes.c_int), ("has_fill", ctypes.c_bool),
                ("fill_bits", ctypes.c_uint64), ("effort", ctypes.c_int),
                ("floor", ctypes.c_double), ("has_missing", ctypes.c_bool),
                ("missing_bits", ctypes.c_uint64)]


PARAMS_NBYTES = ctypes.sizeof(Params)


class Info(ctypes.Structure):
    """struct terp_info"""

    _fields_ = [("size", ctypes.c_size_t), ("chunk", Chunk),
                ("chunk_nbytes", ctypes.c_uint64),
                ("stream_nbytes", ctypes.c_uint64), ("version", ctypes.c_int),
                ("pipeline", ctypes.c_char_p), ("predictor", ctypes.c_char_p),
                ("bound", ctypes.c_double), ("nescapes", ctypes.c_uint64),
                ("nspecials", ctypes.c_uint64), ("ntiles", ctypes.c_uint64),
                ("ntiles_zero", ctypes.c_uint64),
                ("index_nbytes", ctypes.c_uint64),
                ("ntiles_with_entry", ctypes.c_uint64 * 256),
                ("domain", Chunk), ("pointwise_bound", ctypes.c_double),
                ("floor", ctypes.c_double),
                ("prefix_nbytes", ctypes.c_uint64 * 3)]


def _declare(name, result, *arguments):
    function = getattr(_library, name)
    function.restype = result
    function.argtypes = arguments
    return function


_at = ctypes.c_void_p
_size = ctypes.c_uint64
_version = _declare("terp_version", ctypes.c_char_p)
_status_text = _declare("terp_status_text", ctypes.c_char_p, ctypes.c_int)
_params_check = _declare("terp_params_check", ctypes.c_int,
                         ctypes.POINTER(Params),
                         ctypes.POINTER(ctypes.c_char_p))
_chunk_make = _declare("terp_chunk_make", ctypes.c_int, ctypes.c_int,
                       ctypes.c_int, ctypes.POINTER(ctypes.c_uint64),
                       ctypes.POINTER(Chunk))
encode_bound = _declare("terp_encode_bound", _size, ctypes.POINTER(Chunk))
_encode = _declare("terp_encode", ctypes.c_int, ctypes.POINTER(Params),
                   ctypes.POINTER(Chunk), _at, _at, _size,
                   ctypes.POINTER(_size), ctypes.c_int)
_decoded_chunk = _declare("terp_decoded_chunk", ctypes.c_int, _at, _size,
                          ctypes.POINTER(Chunk))
_coarse_chunk = _declare("terp_coarse_chunk", ctypes.c_int,
                         ctypes.POINTER(Chunk), _size, ctypes.POINTER(Chunk))
_decode_coarse = _declare("terp_decode_coarse", ctypes.c_int, _at, _size, _size,
                          _at, _size, ctypes.POINTER(_size), ctypes.c_int)
chunk_nbytes = _declare("terp_chunk_nbytes", _size, ctypes.POINTER(Chunk))
# On devices: _device.py.
encode_batch = _declare("terp_encode_batch", ctypes.c_int, _at,
                        ctypes.POINTER(Params), ctypes.POINTER(Chunk), _size,
                        _at, _at, _at, _at)
decode_coarse_batch = _declare("terp_decode_coarse_batch", ctypes.c_int, _at,
                               ctypes.POINTER(Chunk), _size, _size, _at, _at,
                               _at, _at, _at)
_inspect = _declare("terp_inspect", ctypes.c_int, _at, _size,
                    ctypes.POINTER(Info))


class TerpError(ValueError):
    """A stream that is damaged or none of terp's, or a call that cannot be."""


def status_text(status):
    return _status_text(status).decode()


def _check(status):
    if status != 0:
        raise TerpError(status_text(status))


def numbers(of):
    """The numbers of pipelines, predictors or efforts, by their names."""
    name_of = getattr(_library, f"terp_{of}_name")
    name_of.restype = ctypes.c_char_p
    return {name.decode(): number for number in range(16)
            if (name := name_of(number)) is not None}


def version():
    return _version().decode()


def check(params):
    """Raises ValueError where the codec does not take them."""
    reason = ctypes.c_char_p()
    if _params_check(params, ctypes.byref(reason)) != 0:
        raise ValueError(reason.value.decode().replace("terp_params.", ""))


def type_of(dtype):
    """The codec's number of a dtype; TypeError where there is none."""
    kind = "u" if dtype.kind == "b" else dtype.kind
    number = _TYPES.get(f"{kind}{dtype.itemsize}")
    if number is None:
        raise TypeError(f"terp does not compress {dtype}")
    return number


def thread_count(count):
    """As asked for, or all processors that this process may use."""
    if count is not None:
        return count
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def chunk_of(dtype, shape, is_stack):
    number = type_of(dtype)
    shape = shape or (1,)
    chunk = Chunk()
    if is_stack and shape[0] > 1:
        chunk.type, chunk.stack, chunk.rank = number, True, len(shape)
        chunk.dims[:len(shape)] = shape
    else:
        dims = (ctypes.c_uint64 * len(shape))(*shape)
        _check(_chunk_make(number, len(shape), dims, chunk))
    chunk.big_endian = dtype.newbyteorder("<") != dtype
    return chunk


def encode(params, array, is_stack, threads):
    chunk = chunk_of(array.dtype, array.shape, is_stack)
    array = np.require(array, requirements="CA")
    stream = np.empty(encode_bound(chunk), np.uint8)
    nbytes = _size()
    _check(_encode(params, chunk, array.ctypes.data, stream.ctypes.data,
                   stream.nbytes, nbytes, thread_count(threads)))
    return stream[:nbytes.value].tobytes()


def _bytes_of(stream):
    return np.frombuffer(stream, np.uint8)


def decoded_chunk(stream):
    chunk = Chunk()
    _check(_decoded_chunk(stream.ctypes.data, stream.nbytes, chunk))
    return chunk


def coarse_chunk(chunk, step):
    if step < 1 or step & (step - 1) or step >= 2**64:
        raise ValueError(f"the step {step} is no power of two")
    coarse = Chunk()
    _check(_coarse_chunk(chunk, step, coarse))
    return coarse


def decode(stream, out, threads, step=1):
    stream = _bytes_of(stream)
    nbytes = _size()
    chunk = coarse_chunk(decoded_chunk(stream), step)
    if out is None:
        out = np.empty(chunk.shape, chunk.dtype)
    elif not (out.flags.c_contiguous and out.flags.writeable
              and out.flags.aligned):
        raise ValueError("out is not contiguous, or cannot be written to")
    _check(_decode_coarse(stream.ctypes.data, stream.nbytes, step,
                          out.ctypes.data, out.nbytes, nbytes,
                          thread_count(threads)))
    if nbytes.value != out.nbytes:
        raise ValueError(f"out has {out.nbytes} bytes, the stream "
                         f"{nbytes.value}")
    return out


def inspect(stream):
    stream = _bytes_of(stream)
    info = Info(size=ctypes.sizeof(Info))
    _check(_inspect(stream.ctypes.data, stream.nbytes, info))
    return info
