"""Bounds and modes, for all users of the codec in Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
import functools
import inspect
import math
from typing import (TYPE_CHECKING, Any, Literal, Optional, Tuple, TypedDict,
                    TypeVar, Union, cast, get_args)

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _codec, _device, _header, _words

if TYPE_CHECKING:
    from typing_extensions import Unpack

FILTER_ID = 46117

Pipeline = Literal["auto", "huffman", "speed", "ratio"]
Predictor = Literal["auto", "spline", "lorenzo"]
Effort = Literal["default", "fast", "best"]
KeepSign = Literal["none", "chunk", "values"]
ValidRange = Tuple[Optional[float], Optional[float]]
Format = Literal[1]
# Keys: names of members, or the hashes of unknown names. Values: Terp, or its
# arguments.
Members = Mapping[Union[str, int], Mapping[str, Any]]

_MODES = {"abs": 1, "rel": 2, "pwr": 3, "psnr": 4, "lossless": 1}
# The pointwise bounds of netCDF's quantization: half a unit of the last digit of
# the largest value of so many digits, and half of the last bit.
_MAX_DIGITS, _MAX_BITS = 15, 52
_MAX_WORD = 2**32 - 1  # of the filter's options

# What a member's bound may have.
_OF_MEMBERS = {"abs", "rel", "pwr", "psnr", "lossless", "keep_sign", "pipeline",
               "predictor", "effort"}

_Function = TypeVar("_Function", bound=Any)


class Settings(TypedDict, total=False):
    """The arguments of Terp, for functions that pass them on."""

    abs: float | None
    rel: float | None
    pwr: float | None
    psnr: float | None
    digits: int | None
    bits: int | None
    lossless: bool
    floor: float | None
    keep_sign: KeepSign
    valid_range: ValidRange | None
    missing: float | None
    pipeline: Pipeline
    predictor: Predictor
    effort: Effort
    dims: Sequence[int]
    format: Format | None
    members: Members | None


def _unnamed(value: object) -> TypeError:
    shown = repr(value) if isinstance(value, (int, float)) else "1e-3"
    return TypeError(f"the bound {value!r} has no name: name it, such as "
                     f"abs={shown} or rel={shown}, or give Terp(abs={shown})")


def bound_is_named(function: _Function) -> _Function:
    """Makes a method report unnamed arguments: it takes only named ones."""
    @functools.wraps(function)
    def call(self: Any, *unnamed: Any, **named: Any) -> Any:
        if unnamed:
            raise _unnamed(unnamed[0])
        return function(self, **named)

    return cast(_Function, call)


def shows_settings(function: _Function) -> _Function:
    """Lets help() show the arguments of Terp in place of ``**bound``."""
    own = inspect.signature(function)
    settings = list(inspect.signature(Terp.__init__).parameters.values())[1:]
    function.__signature__ = own.replace(parameters=[
        *(p for p in own.parameters.values() if p.kind != p.VAR_KEYWORD),
        *settings])
    return function


def _number(name: str, value: Any) -> float | int:
    """A number of Python, for JSON. ValueError for anything else."""
    if isinstance(value, (np.generic, np.ndarray)) and np.ndim(value) == 0:
        value = value.item()
    if (isinstance(value, (bool, np.ndarray)) or
            not hasattr(type(value), "__float__")):
        raise ValueError(f"{name} {value!r} must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    return value if isinstance(value, int) and number < math.inf else number


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)) or value in (0, 1):
        return bool(value)
    raise ValueError(f"{name} {value!r} must be True or False")


def _numbers(of: str) -> Mapping[str, int]:
    if of == "keep_sign":  # enum terp_keep_sign, in its order
        return {name: i for i, name in enumerate(get_args(KeepSign))}
    return _codec.numbers(of)


def _pointwise(name: str, count: Any) -> float:
    """The pointwise bound that keeps `count` digits or bits."""
    if name == "digits":
        return float(f"5e-{_codec.whole(name, count, 1, _MAX_DIGITS) + 1}")
    return math.ldexp(1, -_codec.whole(name, count, 1, _MAX_BITS) - 1)


def _ends_of(valid_range: Any) -> ValidRange:
    """Both ends as numbers; None: no limit."""
    try:
        least, largest = (None if end is None else
                          float(_number("valid_range", end))
                          for end in valid_range)
    except (TypeError, ValueError):
        raise ValueError(
            f"valid_range {valid_range!r} must be a pair of numbers, such as "
            "(0, 1); one of them may be None") from None
    return (None if least == -math.inf else least,
            None if largest == math.inf else largest)


def _dims_of(dims: Any) -> tuple[int, ...]:
    try:
        found = tuple(_codec.whole("dims", dim, 1, _MAX_WORD) for dim in dims)
    except TypeError:
        found = (0,) * _codec.MAX_RANK
    if len(found) >= _codec.MAX_RANK:
        raise ValueError(f"dims {dims!r} must be one to three positive numbers")
    return found


def _members_of(members: Any) -> dict[str | int, Terp]:
    found = {}
    if not isinstance(members or {}, Mapping):
        raise ValueError(f"members {members!r} must be a dict of names and bounds")
    for name, bound in (members or {}).items():
        if not isinstance(name, str):
            _codec.whole("the hash of a member", name, 0, _MAX_WORD)
        if not isinstance(bound, Mapping):
            raise ValueError(f"the bound {bound!r} of member {name!r} must be a "
                             "Terp, such as Terp(abs=0.1), or its arguments")
        own = bound if isinstance(bound, Terp) else Terp(**bound)
        more = sorted(set(own.config) - _OF_MEMBERS)
        if more:
            raise ValueError(f"the bound of member {name!r} must have no "
                             f"{' and no '.join(more)}")
        found[name] = own
    if len(found) > _words.MAX_NMEMBERS:
        raise ValueError(f"at most {_words.MAX_NMEMBERS} members may have bounds")
    return found


def _hash_of(name: str | int) -> int:
    return name if isinstance(name, int) else _words.hash_of(name)


def _names_of(dtype: np.dtype[Any], around: str = "") -> Iterator[str]:
    """The names of all members of a structured dtype."""
    for name, (member, *_) in (dtype.base.fields or {}).items():
        yield around + name
        yield from _names_of(member, f"{around}{name}.")


class Terp(Mapping[str, Any]):
    """A bound, and how to keep it.

    Give exactly one bound: ``abs``, ``|x - x'| <= abs``; ``rel``,
    ``|x - x'| <= rel * (max - min)`` of each chunk; ``pwr``,
    ``|x - x'| <= max(pwr * |x|, floor)``, where ``floor`` is optional;
    ``psnr``, the PSNR of each chunk in dB; or ``lossless=True``.

    ``digits=D``, 1 to 15 significant decimal digits, is ``pwr=0.5 * 10**-D``:
    half a unit of the last digit of the largest value of D digits, and less than
    that for all others. ``bits=B``, 1 to 52 bits of the mantissa without its
    leading 1, is ``pwr=0.5 * 2**-B``, the largest error of rounding to B bits.
    Both take a ``floor``, and ``config`` and ``repr`` show the ``pwr``.

    Limits hold beside the bound. With ``keep_sign="values"`` no value at or
    above 0 becomes negative, and no value at or below 0 positive;
    ``keep_sign="chunk"`` does so in chunks whose values all have one sign. With
    ``valid_range=(least, largest)`` no value inside moves outside; least or
    largest may be None. Complex values have no limits.

    ``missing`` is a value for "no data", beside the dataset's fill value. It
    stays exact, and ranges and prediction ignore it. NaN and infinities do so
    without it.

    ``pipeline``, ``predictor`` and ``effort`` are names of doc/cd_values.md.
    ``dims``: a chunk is a stack of boxes of these dims, slowest first; at most
    three. ``format=1`` writes only streams that terp 1 reads: version 1 of the
    format.

    ``members`` gives members of structured dtypes (HDF5's compounds, such as
    tables and particles) bounds of their own, by name::

        Terp(rel=1e-3, members={"mass": Terp(lossless=True),
                                "position.x": Terp(abs=0.01)})

    Such a bound has a pipeline, a predictor, an effort and a ``keep_sign``, but
    no other arguments; an absolute bound of 1 or more makes integers lossy. The
    other float members keep the first bound, and all other bytes stay exact. At
    most 16 members have bounds. Creating a dataset that lacks a member fails.

    Terp is a mapping of arguments for h5py's ``create_dataset``::

        file.create_dataset("rho", data=rho, chunks=(64, 64, 64),
                            **h5z_terp.Terp(rel=1e-3))

    ``compression=h5z_terp.Terp(rel=1e-3)`` does the same. ``shuffle=True`` and
    ``fletcher32=True`` do no harm. ``filter_id``, ``filter_options``,
    ``filter_name`` and ``get_config()`` are those of hdf5plugin's classes. An
    object does not change; threads may share it.

    Raises ValueError for an impossible bound or an unknown name.
    """

    @bound_is_named
    def __init__(self, *, abs: float | None = None, rel: float | None = None,
                 pwr: float | None = None, psnr: float | None = None,
                 digits: int | None = None, bits: int | None = None,
                 lossless: bool = False, floor: float | None = None,
                 keep_sign: KeepSign = "none",
                 valid_range: ValidRange | None = None,
                 missing: float | None = None, pipeline: Pipeline = "auto",
                 predictor: Predictor = "auto", effort: Effort = "default",
                 dims: Sequence[int] = (),
                 format: Format | None = None,
                 members: Members | None = None) -> None:
        bounds = {"abs": abs, "rel": rel, "pwr": pwr, "psnr": psnr,
                  "digits": digits, "bits": bits,
                  "lossless": _flag("lossless", lossless) or None}
        given = {name: bound for name, bound in bounds.items()
                 if bound is not None}
        if len(given) != 1:
            raise ValueError(f"give exactly one of {', '.join(bounds)}, not "
                             f"{' and '.join(given) or 'none'}")
        name, bound = given.popitem()
        if name in ("digits", "bits"):
            name, bound = "pwr", _pointwise(name, bound)
        elif name != "lossless":
            bound = _number(name, bound)
        floor = None if floor is None else _number("floor", floor)
        missing = None if missing is None else _number("missing", missing)
        self._dims = _dims_of(dims)
        self._params = params = _codec.Params()
        params.bound_mode = _MODES[name]
        params.bound = 0.0 if name == "lossless" else float(bound)
        params.size = _codec.PARAMS_NBYTES
        if floor is not None:
            params.floor = float(floor)
        if valid_range is not None:
            least, largest = valid_range = _ends_of(valid_range)
            params.valid_min = -math.inf if least is None else least
            params.valid_max = math.inf if largest is None else largest
            params.has_valid_range = valid_range != (None, None)
        for member, value in (("pipeline", pipeline), ("predictor", predictor),
                              ("effort", effort), ("keep_sign", keep_sign)):
            known = _numbers(member)
            if not isinstance(value, str) or value not in known:
                raise ValueError(f"{member} {value!r} must be one of "
                                 f"{', '.join(known)}")
            setattr(params, member, known[value])
        if format is not None:
            if format is True or format != 1:
                raise ValueError(f"format {format!r} must be 1 or None")
            params.format = 1
        _codec.check(params)
        if missing is not None and not math.isfinite(missing):
            missing = None
        self._missing = None if missing is None else float(missing)
        self._members = _members_of(members)
        words = {name: bound, "floor": floor,
                 "keep_sign": keep_sign,
                 "valid_range": valid_range if params.has_valid_range else None,
                 "missing": missing, "pipeline": pipeline,
                 "predictor": predictor, "effort": effort,
                 "dims": self._dims, "format": params.format or None,
                 "members": {name: own.config
                             for name, own in self._members.items()} or None}
        self._config: dict[str, Any] = {
            key: word for key, word in words.items()
            if word not in (None, "none", "auto", "default", ())}

    # The names of h5py's and hdf5plugin's classes of filters.
    filter_id = FILTER_ID
    filter_name = "terp"

    @property
    def filter_options(self) -> tuple[int, ...]:
        return self.cd_values

    def get_config(self) -> dict[str, Any]:
        """The same as ``config``."""
        return self.config

    @property
    def cd_values(self) -> tuple[int, ...]:
        """The filter's parameters, with exact numbers."""
        return _words.make(
            self._params, self._missing, self._dims,
            {_hash_of(name): own._params for name, own in self._members.items()})

    @classmethod
    def from_filter_options(cls, options: Sequence[int]) -> Terp:
        """The settings that filter options (cd_values) of terp describe, in the
        forms that users give, or in the form that a file keeps::

            h5z_terp.Terp.from_filter_options((2, 1, 3))  # Terp(rel=0.001)

        The type, the dims and the fill value of the form in the file belong to
        its dataset, and are left out. Members are known by the hashes of their
        names (doc/cd_values.md). Raises ValueError if terp does not know
        the options.
        """
        found = _words.parse(options)
        settings = _settings_of(found.params)
        if found.params.floor:
            settings["floor"] = found.params.floor
        if found.params.has_valid_range:
            settings["valid_range"] = (found.params.valid_min,
                                       found.params.valid_max)
        if found.params.format:
            settings["format"] = found.params.format
        members: Members = {name: _settings_of(params)
                            for name, params in found.members.items()}
        return cls(**settings, missing=found.missing, dims=found.logical,
                   members=members)

    @classmethod
    def from_text(cls, text: str) -> Terp:
        """The settings that a text describes (doc/cd_values.md)::

            h5z_terp.Terp.from_text('mode="rel", bound=1e-3')  # Terp(rel=0.001)

        ``text`` gives a text back. Raises ValueError if the text is not valid.
        """
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is not a text")
        return cls.from_filter_options(_codec.read_settings(text))

    @property
    def text(self) -> str:
        """The settings as text, such as ``mode="rel", bound=0.001``. Equal
        settings have the same text."""
        return _codec.write_settings(self.cd_values)

    @classmethod
    def from_dataset(cls, dataset: Any) -> Terp:
        """The settings of the terp filter of an HDF5 dataset: an h5py.Dataset, or
        a variable of h5netcdf or netCDF4. A single chunk may have another bound,
        if a program stored its stream itself.

        Raises ValueError if the dataset has no terp filter, and TypeError if
        the object is not a dataset.
        """
        from . import _hdf5

        found = cls.from_filter_options(_hdf5.options_of(dataset))
        if not found._members:
            return found
        names = {_words.hash_of(name): name for name in
                 _names_of(np.dtype(getattr(dataset, "dtype", np.void)))}
        return cls(**{**found.config, "members": {
            names.get(_hash_of(name), name): own
            for name, own in found._members.items()}})

    @property
    def config(self) -> dict[str, Any]:
        """The arguments of this object, without those that have defaults."""
        return dict(self._config)

    def compress(self, array: ArrayLike, *, fill: Any = None,
                 threads: int | None = None, plain: bool = False) -> bytes:
        """Compresses an array. Returns its stream, one chunk of the filter.

        ``array`` may have either byte order, any shape and any layout in memory;
        TypeError if terp does not compress its dtype. Values that equal
        ``fill`` stay exact, and prediction and range ignore them. Masked values
        raise ValueError: keep them with ``array.filled(v)`` and ``fill=v``.
        ``threads`` is the number of CPU threads; None means all that the process
        may use. The bytes do not depend on it.

        A stream has one to four dims, and no type for bool. For other arrays,
        and for arrays without values, a header before the stream describes the
        array to ``decompress`` (doc/python.md). With ``plain`` there is never a
        header, and the bytes are those of an HDF5 chunk of these values: unit
        dims are dropped, the slowest of more than four dims are merged, and
        bool becomes uint8.

        An array on a GPU, of CuPy, PyTorch or another library with
        ``__cuda_array_interface__``, is compressed on the GPU if the CUDA engine
        is installed. The stream is then an array of uint8 on the same device.
        """
        view = (_device.View(array) if _device.has(array) else
                _unmasked(array))
        chunk = _codec.chunk_of(view.dtype, view.shape, self._dims, plain)
        is_described = (chunk is not None and chunk.shape == view.shape and
                        view.dtype.kind != "b")
        header = (b"" if plain or is_described else
                  _header.make(view.dtype, view.shape))
        encode: Any = (_device.encode if _device.has(array) else
                       _codec.encode)
        stream: bytes = encode(self._params_with(fill, view.dtype), chunk, view, header,
                               threads)
        return stream

    def _params_with(self, fill: Any, dtype: np.dtype[Any]) -> _codec.Params:
        params = _codec.Params.from_buffer_copy(self._params)
        component = dtype.type(0).real.dtype.newbyteorder("<")
        missing = None
        if self._missing is not None:
            missing = _codec.bits_of_missing(self._missing, component)
        if fill is not None:
            # Each component of a complex value has its own fill value.
            fills = [int.from_bytes(np.asarray(value, component).tobytes(),
                                    "little")
                     for value in (np.real(fill), np.imag(fill))]
            params.has_fill, params.fill_bits = True, fills[0]
            if np.iscomplexobj(fill) and fills[1] != fills[0]:
                if missing is not None:
                    raise ValueError("a complex fill value with two different "
                                     "parts leaves no room for `missing`")
                missing = fills[1]
        if missing is not None:
            params.has_missing, params.missing_bits = True, missing
        return params

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
        return hash(tuple((key, frozenset(word) if key == "members" else word)
                          for key, word in self._config.items()))

    @property
    def arguments(self) -> str:
        """The arguments of this object as Python code."""
        return ", ".join(f"{k}={v!r}" for k, v in self._config.items())

    def __repr__(self) -> str:
        return f"Terp({self.arguments})"


def _settings_of(params: _codec.Params) -> dict[str, Any]:
    """The bound and the modes of parameters."""
    name = next((name for name, number in _MODES.items()
                 if number == params.bound_mode), None)
    if name is None:
        raise ValueError(f"the bound mode {params.bound_mode} is unknown")
    is_lossless = name == "abs" and params.bound == 0
    settings: dict[str, Any] = {
        "lossless" if is_lossless else name: is_lossless or params.bound}
    for member in "pipeline", "predictor", "effort", "keep_sign":
        names = {number: word for word, number in _numbers(member).items()}
        number = getattr(params, member)
        if number not in names:
            raise ValueError(f"the {member} {number} is unknown")
        settings[member] = names[number]
    return settings


def for_arrays(**bound: Any) -> Terp:
    """Terp(**bound) for codecs of arrays, which have no members."""
    settings = Terp(**bound)
    if settings._members:
        raise ValueError("members: arrays of Zarr have none; only HDF5's "
                         "compounds do")
    return settings


def _unmasked(array: ArrayLike) -> NDArray[Any]:
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise ValueError(
            "a stream has no mask: use compress(array.filled(v), fill=v) with a "
            "v that differs from all values")
    return np.asarray(array)


def settings_of(settings: Terp | None, bound: Settings) -> Terp:
    if settings is None:
        return Terp(**bound)
    if not isinstance(settings, Terp):
        raise _unnamed(settings)
    if bound:
        raise TypeError("give settings or a bound, not both")
    return settings


@shows_settings
def compress(array: ArrayLike, settings: Terp | None = None, *,
             fill: Any = None, threads: int | None = None, plain: bool = False,
             **bound: Unpack[Settings]) -> bytes:
    """``Terp(**bound).compress(array)``; see Terp.compress."""
    return settings_of(settings, bound).compress(array, fill=fill,
                                                 threads=threads, plain=plain)


def decompress(stream: Any, out: NDArray[Any] | None = None, *,
               step: int = 1, threads: int | None = None) -> NDArray[Any]:
    """Decompresses a stream. Returns the array in its original shape, type and
    byte order; or ``out``, a C-contiguous array of the same number of bytes.

    With ``step``, a power of two, the result has every step-th value of each
    dimension; of the spline predictor's streams terp decodes only these values.

    ``stream`` is any object with the buffer protocol, or a stream that
    ``compress`` made on a GPU; the array, and ``out``, are then on the same
    device. TerpError if the stream is damaged or not terp's.
    """
    if _device.has(stream):
        array: NDArray[Any] = _device.decode(stream, out, threads, step)
        return array
    return _header.decode(_codec.bytes_of(stream), out, threads, step)


def info(stream: Any) -> dict[str, Any]:
    """A dict that describes a stream: shape, dtype, bound, pipeline, predictor,
    counts, the size of its header, and by step the number of first bytes that
    suffice for a preview, if the stream has them. TerpError if the stream is
    damaged or not terp's."""
    data = _codec.bytes_of(stream)
    header = _header.read(data) or _header.NONE
    array = {"shape": header.shape, "dtype": header.dtype,
             "stream_nbytes": len(data), "header_nbytes": header.nbytes}
    if header.nbytes and 0 in header.shape:
        return {**array, "nbytes": 0, "version": None, "pipeline": "raw",
                "predictor": "none", "abs": 0.0, "pwr": 0.0, "floor": 0.0,
                "predicted_shape": header.shape, "prefix_nbytes": {},
                "nescapes": 0, "nspecials": 0, "ntiles": 0}
    found = _codec.inspect(data[header.nbytes:])
    if header.nbytes:
        _header.check(header, found.chunk)
    else:
        array.update(shape=found.chunk.shape, dtype=found.chunk.dtype)
    unknown = 2**64 - 1

    def count(name: str) -> int | None:
        number = getattr(found, name)
        return None if number == unknown else number

    return {
        **array,
        "nbytes": found.chunk_nbytes,
        "version": found.version,
        "pipeline": found.pipeline.decode(),
        "predictor": found.predictor.decode(),
        "abs": found.bound,
        "pwr": found.pointwise_bound,
        "floor": found.floor,
        "predicted_shape": found.domain.shape,
        "prefix_nbytes": {2 << i: header.nbytes + n
                          for i, n in enumerate(found.prefix_nbytes) if n > 0},
        **{name: count(name) for name in ("nescapes", "nspecials", "ntiles")},
    }


@shows_settings
def encoding(settings: Terp | None = None,
             **bound: Unpack[Settings]) -> dict[str, Any]:
    """The encoding of a variable for xarray's ``to_netcdf(path, encoding={name:
    ...})``, with the engines h5netcdf and netcdf4."""
    return dict(settings_of(settings, bound))
