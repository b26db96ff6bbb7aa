"""Bounds and modes, as every host of terp takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
import struct
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _codec, _device

FILTER_ID = 46117

_MODES = {"abs": 1, "rel": 2, "pwr": 3, "psnr": 4, "lossless": 1}
# doc/cd_values.md, "Exact form"
_EXACT = 0x10000
_FLOOR = 0x20000
_SHIFTS = {"pipeline": 4, "predictor": 8, "effort": 12}


def _words_of(number: float) -> tuple[int, ...]:
    return struct.unpack("<2I", struct.pack("<d", number))


class Terp(Mapping[str, Any]):
    """A bound, and how to keep it.

    Exactly one bound is given: ``abs``, ``|x - x'| <= abs``; ``rel``,
    ``|x - x'| <= rel * (max - min)`` of each chunk; ``pwr``,
    ``|x - x'| <= pwr * |x|``, or with ``floor`` at most that where it is more;
    ``psnr``, in dB, of each chunk; or ``lossless=True``. ``pipeline``,
    ``predictor`` and ``effort`` are names as in doc/cd_values.md. ``dims``: a
    chunk is a stack of boxes of these dims, slowest first; at most three.

    It is the mapping that h5py's ``create_dataset`` takes::

        file.create_dataset("rho", data=rho, chunks=(64, 64, 64),
                            **h5z_terp.Terp(rel=1e-3))

    Raises ValueError for a bound that is none, or an unknown name.
    """

    def __init__(self, *, abs: float | None = None, rel: float | None = None,
                 pwr: float | None = None, psnr: float | None = None,
                 lossless: bool = False, floor: float | None = None,
                 pipeline: str = "auto", predictor: str = "auto",
                 effort: str = "default", dims: Sequence[int] = ()) -> None:
        bounds = {"abs": abs, "rel": rel, "pwr": pwr, "psnr": psnr,
                  "lossless": lossless or None}
        given = {name: bound for name, bound in bounds.items()
                 if bound is not None}
        if len(given) != 1:
            raise ValueError(f"exactly one of {', '.join(bounds)} is a bound, "
                             f"not {' and '.join(given) or 'none'}")
        name, bound = given.popitem()
        self._dims = tuple(int(d) for d in dims)
        if len(self._dims) >= _codec.MAX_RANK or min(self._dims, default=1) < 1:
            raise ValueError("dims are one to three positive numbers")
        self._params = params = _codec.Params()
        params.bound_mode = _MODES[name]
        params.bound = 0.0 if lossless else float(bound)
        params.size = _codec.PARAMS_NBYTES
        if floor is not None:
            params.floor = float(floor)
        for member, value in (("pipeline", pipeline), ("predictor", predictor),
                              ("effort", effort)):
            known = _codec.numbers(member)
            if value not in known:
                raise ValueError(f"{member} {value!r} is none of "
                                 f"{', '.join(known)}")
            setattr(params, member, known[value])
        _codec.check(params)
        words = {name: bound, "floor": floor, "pipeline": pipeline,
                 "predictor": predictor, "effort": effort,
                 "dims": self._dims}
        self._config = {key: word for key, word in words.items()
                        if word not in (None, "auto", "default", ())}

    @property
    def cd_values(self) -> tuple[int, ...]:
        """The filter's parameters, in their exact form."""
        mode = self._params.bound_mode | _EXACT
        for member, shift in _SHIFTS.items():
            mode |= getattr(self._params, member) << shift
        words = _words_of(self._params.bound)
        if self._params.floor:
            mode |= _FLOOR
            words += _words_of(self._params.floor)
        return (mode, *words, *((len(self._dims), *self._dims)
                                if self._dims else ()))

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that make this object, those with no default."""
        return dict(self._config)

    def compress(self, array: ArrayLike, *, fill: Any = None,
                 threads: int | None = None) -> bytes:
        """The stream, as bytes, of an array: one chunk of the filter.

        ``array``: of a dtype that terp compresses (TypeError otherwise), in
        either byte order, of any shape; unit dims are dropped, and of more
        than four dims the slowest are one in the stream. Values that equal
        ``fill`` come back exactly and are ignored by prediction and range.
        ``threads``: of the CPU; None stands for all that the process may use.
        The bytes do not depend on it.

        An array on a GPU, of CuPy, PyTorch or others that have
        ``__cuda_array_interface__``, is compressed there where the CUDA engine
        is installed, and the stream is an array of uint8 on the same device.
        """
        is_on_device = _device.has(array)
        if not is_on_device:
            array = np.asarray(array)
        params = _codec.Params.from_buffer_copy(self._params)
        if fill is not None:
            # Of complex values, both parts.
            dtype = (np.dtype(array.__cuda_array_interface__["typestr"])
                     if is_on_device else array.dtype)
            part = dtype.type(0).real.dtype
            bits = np.asarray(fill, part.newbyteorder("<")).tobytes()
            params.has_fill = True
            params.fill_bits = int.from_bytes(bits, "little")
        if is_on_device:
            return _device.encode(params, array, self._dims, threads)
        if self._dims:
            array = array.reshape(-1, *self._dims)
        return _codec.encode(params, array, bool(self._dims), threads)

    def __getitem__(self, key: str) -> Any:
        return {"compression": FILTER_ID,
                "compression_opts": self.cd_values}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(("compression", "compression_opts"))

    def __len__(self) -> int:
        return 2

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Terp) and self._config == other._config

    def __hash__(self) -> int:
        return hash(tuple(self._config.items()))

    def __repr__(self) -> str:
        words = ", ".join(f"{k}={v!r}" for k, v in self._config.items())
        return f"Terp({words})"


def settings_of(settings: Terp | None, bound: Mapping[str, Any]) -> Terp:
    if settings is None:
        return Terp(**bound)
    if bound:
        raise TypeError("settings hold the bound already")
    return settings


def compress(array: ArrayLike, settings: Terp | None = None, *,
             fill: Any = None, threads: int | None = None,
             **bound: Any) -> bytes:
    """``Terp(**bound).compress(array)``; see there."""
    return settings_of(settings, bound).compress(array, fill=fill,
                                                 threads=threads)


def decompress(stream: Any, out: NDArray[Any] | None = None, *,
               step: int = 1, threads: int | None = None) -> NDArray[Any]:
    """The array of a stream, in the shape and byte order it has there, or in
    ``out``, a C-contiguous array of as many bytes, which is returned.

    With ``step``, a power of two, every step-th value of each dimension alone:
    of the spline predictor's streams no more is decoded than that.

    ``stream``: anything with the buffer protocol; or what ``compress`` made on
    a GPU, whose array, and ``out``, are on the same device. TerpError where it
    is damaged, or none of terp's.
    """
    if _device.has(stream):
        return _device.decode(stream, out, threads, step)
    return _codec.decode(stream, out, threads, step)


def info(stream: Any) -> dict[str, Any]:
    """What a stream holds, as a dict: shape, dtype, bound, pipeline, predictor,
    counts, and by step the first bytes that suffice for a preview, where the
    stream tells. TerpError where it is damaged, or none of terp's."""
    found = _codec.inspect(stream)
    unknown = 2**64 - 1

    def count(name):
        number = getattr(found, name)
        return None if number == unknown else number

    return {
        "shape": found.chunk.shape,
        "dtype": found.chunk.dtype,
        "nbytes": found.chunk_nbytes,
        "stream_nbytes": found.stream_nbytes,
        "version": found.version,
        "pipeline": found.pipeline.decode(),
        "predictor": found.predictor.decode(),
        "abs": found.bound,
        "pwr": found.pointwise_bound,
        "floor": found.floor,
        "predicted_shape": found.domain.shape,
        "prefix_nbytes": {2 << i: n for i, n in enumerate(found.prefix_nbytes)
                          if n > 0},
        **{name: count(name) for name in ("nescapes", "nspecials", "ntiles")},
    }


def encoding(settings: Terp | None = None, **bound: Any) -> dict[str, Any]:
    """What xarray's ``to_netcdf(engine="h5netcdf", encoding={name: ...})`` takes
    for a variable."""
    return dict(settings_of(settings, bound))
