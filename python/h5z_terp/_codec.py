"""The codec, libterp, and its structs in Python."""

from __future__ import annotations

import ctypes
from math import inf, prod
import operator
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PREFIX = Path(__file__).resolve().parent
MAX_RANK = 4
SETTINGS_MAX_NWORDS = 15
SETTINGS_TEXT_NBYTES = 512

# A wheel's own library, or the system's.
_path = PREFIX / "lib" / {"win32": "libterp.dll", "darwin": "libterp.1.dylib"
                          }.get(sys.platform, "libterp.so.1")
LIBRARY_PATH = str(_path) if _path.exists() else _path.name
try:
    _library = ctypes.CDLL(LIBRARY_PATH)
except OSError as error:
    raise ImportError(
        f"cannot load terp's library: {error}. If h5z-terp was installed for "
        "another system or C library, run pip install --force-reinstall "
        "h5z-terp") from error

# enum terp_type, by numpy's names in the host's byte order.
TYPES = {"f4": 0, "f8": 1, "i1": 3, "i2": 4, "i4": 5, "i8": 6, "u1": 7,
          "u2": 8, "u4": 9, "u8": 10, "f2": 11, "c8": 13, "c16": 14}
_BFLOAT16 = 12
_DTYPES = {2: "u1", _BFLOAT16: "V2",
           **{number: name for name, number in TYPES.items()}}


class Chunk(ctypes.Structure):
    """struct terp_chunk"""

    _fields_ = [("type", ctypes.c_int), ("big_endian", ctypes.c_bool),
                ("stack", ctypes.c_bool), ("rank", ctypes.c_int),
                ("dims", ctypes.c_uint64 * MAX_RANK)]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.dims[:self.rank])

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype((">" if self.big_endian else "<") +
                        _DTYPES[self.type])


class Params(ctypes.Structure):
    """struct terp_params"""

    _fields_ = [("size", ctypes.c_size_t), ("bound_mode", ctypes.c_int),
                ("bound", ctypes.c_double), ("pipeline", ctypes.c_int),
                ("predictor", ctypes.c_int), ("has_fill", ctypes.c_bool),
                ("fill_bits", ctypes.c_uint64), ("effort", ctypes.c_int),
                ("floor", ctypes.c_double), ("has_missing", ctypes.c_bool),
                ("missing_bits", ctypes.c_uint64),
                ("keep_sign", ctypes.c_int),
                ("has_valid_range", ctypes.c_bool),
                ("valid_min", ctypes.c_double),
                ("valid_max", ctypes.c_double), ("format", ctypes.c_int)]


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


def _declare(name: str, result: type, *arguments: type) -> Any:
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
chunk_nbytes = _declare("terp_chunk_nbytes", _size, ctypes.POINTER(Chunk))
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
# For _device.py.
encode_batch = _declare("terp_encode_batch", ctypes.c_int, _at,
                        ctypes.POINTER(Params), ctypes.POINTER(Chunk), _size,
                        _at, _at, _at, _at)
decode_coarse_batch = _declare("terp_decode_coarse_batch", ctypes.c_int, _at,
                               ctypes.POINTER(Chunk), _size, _size, _at, _at,
                               _at, _at, _at)
_inspect = _declare("terp_inspect", ctypes.c_int, _at, _size,
                    ctypes.POINTER(Info))


class TerpError(ValueError):
    """A stream is damaged or not terp's, or a call of the codec failed."""


# enum terp_status
ERR_ARGUMENT = 1
ERR_DEVICE = 11
CONTAINER = b"TERPR"  # of several streams; doc/format.md


def status_text(status: int) -> str:
    text: bytes = _status_text(status)
    return text.decode()


def _check(status: int) -> None:
    if status != 0:
        raise TerpError(status_text(status))


def numbers(of: str) -> dict[str, int]:
    """The numbers of pipelines, predictors or efforts, by their names."""
    name_of = getattr(_library, f"terp_{of}_name")
    name_of.restype = ctypes.c_char_p
    return {name.decode(): number for number in range(16)
            if (name := name_of(number)) is not None}


def version() -> str:
    text: bytes = _version()
    return text.decode()


def instructions() -> str | None:
    """The instructions of the CPU's code; None if the library is older."""
    if not hasattr(_library, "terp_cpu_instructions"):
        return None
    _library.terp_cpu_instructions.restype = ctypes.c_char_p
    text: bytes = _library.terp_cpu_instructions()
    return text.decode()


def _of_later(name: str) -> Any:
    """A function that libterp 1.0 lacks."""
    if not hasattr(_library, name):
        raise RuntimeError(f"this libterp, of version {version()}, has no {name}")
    return getattr(_library, name)


def read_settings(text: str) -> tuple[int, ...]:
    """The cd_values of settings as text. ValueError says what is wrong."""
    words = (ctypes.c_uint * SETTINGS_MAX_NWORDS)()
    count, reason = ctypes.c_size_t(), ctypes.c_char_p()
    if _of_later("terp_settings_read")(text.encode(), words, ctypes.byref(count),
                                       ctypes.byref(reason)) != 0:
        raise ValueError(f"{(reason.value or b'').decode()}: {text!r}")
    return tuple(words[:count.value])


def write_settings(options: tuple[int, ...]) -> str:
    """The text of cd_values. ValueError says what is wrong."""
    words = (ctypes.c_uint * max(len(options), 1))(*options)
    text = ctypes.create_string_buffer(SETTINGS_TEXT_NBYTES)
    reason = ctypes.c_char_p()
    if _of_later("terp_settings_write")(ctypes.c_size_t(len(options)), words,
                                        text, ctypes.byref(reason)) != 0:
        raise ValueError((reason.value or b"").decode())
    return text.value.decode()


def check(params: Params) -> None:
    """Raises ValueError if the codec refuses the parameters."""
    reason = ctypes.c_char_p()
    if _params_check(params, ctypes.byref(reason)) != 0:
        text = (reason.value or b"").decode()
        raise ValueError(text.replace("terp_params.", ""))


# Advice for arrays of other kinds of dtypes.
_REMEDIES = {
    "f": 'use array.astype("f8"), with fewer digits',
    "c": 'use array.astype("c16"), with fewer digits',
    "M": 'use array.view("i8") with lossless=True to keep its times',
    "m": 'use array.view("i8") with lossless=True to keep its times',
    "O": "use np.asarray(array, float) to make numbers of Python's objects",
    "V": "compress its fields one by one, such as array[name]",
}


def type_of(dtype: np.dtype[Any]) -> int:
    """The codec's number of a dtype; TypeError if there is none."""
    kind = "u" if dtype.kind == "b" else dtype.kind
    number = TYPES.get(f"{kind}{dtype.itemsize}")
    if number is None:
        remedy = _REMEDIES.get(dtype.kind, "give numbers instead of text")
        raise TypeError(f"terp does not compress arrays of {dtype}: {remedy}")
    return number


def whole(name: str, value: Any, least: int, most: float = inf) -> int:
    """A whole number in these limits. ValueError names a wrong argument."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or not least <= number <= most:
        limits = (f"of at least {least}" if most == inf else
                  f"from {least} to {most}")
        raise ValueError(f"{name} {value!r} must be a whole number {limits}")
    return number


def thread_count(count: int | None) -> int:
    """`count`, or for None and 0 all processors that this process may use."""
    if count is not None and (number := whole("threads", count, 0)) > 0:
        return number
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def chunk_of(dtype: np.dtype[Any], shape: tuple[int, ...],
             box: tuple[int, ...], is_plain: bool) -> Chunk | None:
    """The chunk of an array: a stack if `box` has dims; with `is_plain` a chunk
    as in HDF5, without unit dims. None for an array without values."""
    number = type_of(dtype)
    if 0 in shape:
        if is_plain:
            raise ValueError(f"an array of shape {shape} has no values and "
                             "cannot be a chunk of HDF5")
        return None
    chunk = Chunk(type=number)
    count, rest = divmod(prod(shape), prod(box))
    if rest:
        raise ValueError(f"an array of shape {shape} must be a stack of boxes "
                         f"of {box}")
    if box and count > 1:
        shape, chunk.stack = (count, *box), True
    if chunk.stack or (0 < len(shape) <= MAX_RANK and not is_plain):
        chunk.rank = len(shape)
        chunk.dims[:len(shape)] = shape
    else:
        shape = shape or (1,)
        dims = (_size * len(shape))(*shape)
        _check(_chunk_make(number, len(shape), dims, chunk))
    chunk.big_endian = dtype.newbyteorder("<") != dtype
    return chunk


def bits_of_missing(missing: float, component: np.dtype[Any]) -> int | None:
    """The bits of a missing value in a dtype, as the filter converts it; None
    for a dtype of integers that do not have the value."""
    if component.kind in "iub":
        integers = np.iinfo(component if component.kind != "b" else np.uint8)
        if not integers.min <= missing <= integers.max or missing % 1:
            return None
        return int(missing) & ((1 << 8 * component.itemsize) - 1)
    with np.errstate(over="ignore"):
        number = np.array(missing, "f8")
        if component.itemsize < 8:
            number = number.astype("f4")
        data = number.astype(component).tobytes()
    return int.from_bytes(data, "little")


def encode(params: Params, chunk: Chunk | None, array: NDArray[Any],
           header: bytes, threads: int | None) -> bytes:
    """The header and, unless chunk is None, the stream."""
    if chunk is None:
        return header
    array = np.require(array, requirements=("C", "A"))
    stream = np.empty(encode_bound(chunk), np.uint8)
    nbytes = _size()
    _check(_encode(params, chunk, array.ctypes.data, stream.ctypes.data,
                   stream.nbytes, nbytes, thread_count(threads)))
    return header + stream[:nbytes.value].tobytes()


def bytes_of(stream: Any) -> NDArray[np.uint8]:
    return np.frombuffer(stream, np.uint8)


def _refuse_container(stream: NDArray[np.uint8]) -> None:
    if stream[:len(CONTAINER)].tobytes() == CONTAINER:
        raise TerpError("the bytes are a container of several streams: read "
                        "its dataset with HDF5")


def decoded_chunk(stream: NDArray[np.uint8]) -> Chunk:
    _refuse_container(stream)
    chunk = Chunk()
    _check(_decoded_chunk(stream.ctypes.data, stream.nbytes, chunk))
    return chunk


def check_step(step: int) -> None:
    if (not hasattr(step, "__index__") or step < 1 or step & (step - 1) or
            step >= 2**64):
        raise ValueError(f"the step {step} must be a power of two")


def coarse_chunk(chunk: Chunk, step: int) -> Chunk:
    check_step(step)
    coarse = Chunk()
    _check(_coarse_chunk(chunk, step, coarse))
    return coarse


def check_out(out: NDArray[Any], dtype: np.dtype[Any],
              shape: tuple[int, ...]) -> None:
    """ValueError unless values of this dtype can be decoded into `out`."""
    if not (out.flags.c_contiguous and out.flags.writeable
            and out.ctypes.data % dtype.alignment == 0):
        raise ValueError("out must be C-contiguous, aligned and writable: use "
                         "out[...] = decompress(stream) for other arrays")
    nbytes = dtype.itemsize * prod(shape)
    if out.nbytes != nbytes:
        raise ValueError(f"out has {out.nbytes} bytes, but must have {nbytes}")


def decode(stream: NDArray[np.uint8], out: NDArray[Any] | None,
           threads: int | None, step: int = 1) -> NDArray[Any]:
    nbytes = _size()
    chunk = coarse_chunk(decoded_chunk(stream), step)
    if out is None:
        out = np.empty(chunk.shape, chunk.dtype)
    check_out(out, chunk.dtype, chunk.shape)
    _check(_decode_coarse(stream.ctypes.data, stream.nbytes, step,
                          out.ctypes.data, out.nbytes, nbytes,
                          thread_count(threads)))
    return out


# For _datasets.py: from and to addresses. They return a status first.


def try_decoded_chunk(at: int, nbytes: int) -> tuple[int, Chunk]:
    chunk = Chunk()
    return _decoded_chunk(at, nbytes, chunk), chunk


def try_decode(at: int, nbytes: int, step: int, to: int, capacity: int,
               threads: int) -> int:
    status: int = _decode_coarse(at, nbytes, step, to, capacity, _size(),
                                 threads)
    return status


def try_encode(params: Params, chunk: Chunk, at: int, to: int, capacity: int,
               threads: int) -> tuple[int, int]:
    nbytes = _size()
    status: int = _encode(params, chunk, at, to, capacity, nbytes, threads)
    return status, nbytes.value


def inspect(stream: NDArray[np.uint8]) -> Info:
    _refuse_container(stream)
    info = Info(size=ctypes.sizeof(Info))
    _check(_inspect(stream.ctypes.data, stream.nbytes, info))
    return info
