"""Reads and writes the filter's cd_values (doc/cd_values.md)."""

from __future__ import annotations

from collections.abc import Sequence
import struct
from typing import NamedTuple

from . import _codec

EXACT = 0x10000
FLOOR = 0x20000
MISSING = 0x40000
VALID_RANGE = 0x80000
FORMAT_1 = 0x400000
_PERSISTED = 0x80000000
# Where the mode holds the numbers of these members, and how many bits they take.
FIELDS = {"bound_mode": (0, 4), "pipeline": (4, 4), "predictor": (8, 4),
          "effort": (12, 4), "keep_sign": (20, 2)}
_KNOWN = (_PERSISTED | EXACT | FLOOR | MISSING | VALID_RANGE | FORMAT_1 |
          sum(((1 << nbits) - 1) << at for at, nbits in FIELDS.values()))
_ABSOLUTE, _POINTWISE = 1, 3
_MAX_NLOGICAL = _codec.MAX_RANK - 1
_LAYOUT_VERSION = 1
_BIG_ENDIAN, _HAS_FILL, _STACK = 1, 2, 4


class Words(NamedTuple):
    """The contents of cd_values. `params` holds the fill value of the form in
    the file, but not the missing value, whose bits depend on the type."""

    params: _codec.Params
    missing: float | None
    logical: tuple[int, ...]
    # The form in the file: the chunk, None if data passes through.
    chunk: _codec.Chunk | None


def of_double(number: float) -> tuple[int, ...]:
    return struct.unpack("<2I", struct.pack("<d", number))


def _double(words: Sequence[int]) -> float:
    number: float = struct.unpack("<d", struct.pack("<2I", *words))[0]
    return number


def _signed(word: int) -> int:
    return word - (1 << 32) if word >= 1 << 31 else word


def _decimal(mantissa: int, exponent: int) -> float:
    """mantissa * 10^-exponent, with the roundings of the plugin."""
    number = float(mantissa)
    left = min(abs(exponent), 700)
    while left > 0:
        step = min(left, 22)  # up to here powers of ten are exact
        if exponent < 0:
            number *= float(10**step)
        else:
            number /= float(10**step)
        left -= step
    return number


class _Reader:
    """Takes words from the front."""

    def __init__(self, words: Sequence[int], is_typed: bool) -> None:
        self.left = list(words)
        self.is_typed = is_typed

    def take(self, count: int) -> list[int]:
        if len(self.left) < count:
            raise ValueError("the filter options end too early")
        taken, self.left = self.left[:count], self.left[count:]
        return taken

    def number(self, is_signed: bool = True) -> float:
        """A number in the notation of the form."""
        low, high = self.take(2)
        if not self.is_typed:
            return _double((low, high))
        return _decimal(_signed(low) if is_signed else low, _signed(high))

    def pair(self) -> int:
        low, high = self.take(2)
        return low | high << 32


def _read_layout(reader: _Reader, params: _codec.Params
                 ) -> _codec.Chunk | None:
    layout, why_passed = reader.take(2)
    version, number, flags, rank = struct.pack("<I", layout)
    if version != _LAYOUT_VERSION:
        raise ValueError("a newer version of terp wrote the filter options")
    params.fill_bits = reader.pair()
    params.has_fill = bool(flags & _HAS_FILL)
    if why_passed:
        return None
    if not 0 < rank <= _codec.MAX_RANK:
        raise ValueError("the filter options have no dims")
    chunk = _codec.Chunk(type=number, big_endian=bool(flags & _BIG_ENDIAN),
                         stack=bool(flags & _STACK), rank=rank)
    chunk.dims[:rank] = [reader.pair() for _ in range(rank)]
    if _codec.encode_bound(chunk) == 0:
        raise ValueError("the filter options have dims or a type that terp does "
                         "not know")
    return chunk


def parse(options: Sequence[int]) -> Words:
    """Reads any form of cd_values. ValueError if terp refuses the words."""
    params = _codec.Params(size=_codec.PARAMS_NBYTES, bound_mode=_ABSOLUTE)
    words = [int(word) & 0xFFFFFFFF for word in options]
    if not words:
        return Words(params, None, (), None)
    mode = words[0]
    if mode & ~_KNOWN:
        raise ValueError(f"the mode {mode} has bits that this version of terp "
                         "does not know")
    reader = _Reader(words[1:], not mode & (_PERSISTED | EXACT))
    for member, (at, nbits) in FIELDS.items():
        setattr(params, member, mode >> at & ((1 << nbits) - 1))
    params.bound = reader.number(is_signed=False)
    chunk = _read_layout(reader, params) if mode & _PERSISTED else None
    if mode & FLOOR:
        params.floor = reader.number(is_signed=False)
    missing = reader.number() if mode & MISSING else None
    if mode & VALID_RANGE:
        params.has_valid_range = True
        params.valid_min, params.valid_max = reader.number(), reader.number()
    if mode & FORMAT_1 or (mode & _PERSISTED and reader.left[:1] == [1]):
        params.format = 1
    logical: tuple[int, ...] = ()
    if chunk is not None and chunk.stack:
        logical = chunk.shape[1:]
    elif not mode & _PERSISTED and reader.left:
        (count,) = reader.take(1)
        if count > _MAX_NLOGICAL:
            raise ValueError(f"the filter options have {count} logical dims, "
                             f"but terp takes at most {_MAX_NLOGICAL}")
        logical = tuple(reader.take(count))
    return Words(params, missing, logical, chunk)


def make(params: _codec.Params, missing: float | None,
         logical: Sequence[int]) -> tuple[int, ...]:
    """The exact form."""
    mode = EXACT
    for member, (at, _) in FIELDS.items():
        mode |= getattr(params, member) << at
    words = of_double(params.bound)
    if params.floor:
        mode |= FLOOR
        words += of_double(params.floor)
    if missing is not None:
        mode |= MISSING
        words += of_double(missing)
    if params.has_valid_range:
        mode |= VALID_RANGE
        words += of_double(params.valid_min) + of_double(params.valid_max)
    if params.format:
        mode |= FORMAT_1
    return (mode, *words, *((len(logical), *logical) if logical else ()))
