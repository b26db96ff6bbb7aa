"""Reads and writes the filter's cd_values (doc/cd_values.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import struct
from typing import NamedTuple

from . import _codec

EXACT = 0x10000
FLOOR = 0x20000
MISSING = 0x40000
VALID_RANGE = 0x80000
FORMAT_1 = 0x400000
MEMBERS = 0x800000
OWN_BOUNDS = 0x1000000
_PERSISTED = 0x80000000
# Where the mode holds the numbers of these members, and how many bits they take.
FIELDS = {"bound_mode": (0, 4), "pipeline": (4, 4), "predictor": (8, 4),
          "effort": (12, 4), "keep_sign": (20, 2)}
_OF_FIELDS = sum(((1 << nbits) - 1) << at for at, nbits in FIELDS.values())
_KNOWN = (_PERSISTED | EXACT | FLOOR | MISSING | VALID_RANGE | FORMAT_1 |
          MEMBERS | OWN_BOUNDS | _OF_FIELDS)
_ABSOLUTE, _POINTWISE = 1, 3
_MAX_NLOGICAL = _codec.MAX_RANK - 1
_LAYOUT_VERSION, _LAYOUT_BY_MEMBER = 1, 2
# The words of a member's bound, and how many members may have one.
_RULE_NWORDS = 4
MAX_NMEMBERS = 16
_BIG_ENDIAN, _HAS_FILL, _STACK = 1, 2, 4


class Words(NamedTuple):
    """The contents of cd_values. `params` holds the fill value of the form in
    the file, but not the missing value, whose bits depend on the type."""

    params: _codec.Params
    missing: float | None
    logical: tuple[int, ...]
    # The form in the file: the chunk, None if data passes through or is coded by
    # member.
    chunk: _codec.Chunk | None
    # The bounds of members, by the hash of their names.
    members: Mapping[int, _codec.Params]
    # Streams have smaller bounds of their own, and new chunks are lossless.
    has_own_bounds: bool = False


def hash_of(name: str) -> int:
    """The hash of a member's name: FNV-1a of 32 bits."""
    number = 0x811C9DC5
    for byte in name.encode():
        number = (number ^ byte) * 0x01000193 & 0xFFFFFFFF
    return number


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


def _set_mode(params: _codec.Params, mode: int) -> None:
    for member, (at, nbits) in FIELDS.items():
        setattr(params, member, mode >> at & ((1 << nbits) - 1))


def _read_rules(reader: _Reader, count: int) -> dict[int, _codec.Params]:
    rules = {}
    for _ in range(count):
        name_hash, mode = reader.take(2)
        if mode & ~(_OF_FIELDS | EXACT):
            raise ValueError(f"the mode {mode} of a member has more than a bound")
        params = _codec.Params(size=_codec.PARAMS_NBYTES)
        _set_mode(params, mode)
        params.bound = _Reader(reader.take(2), not mode & EXACT).number(
            is_signed=False)
        rules[name_hash] = params
    return rules


def _read_layout(reader: _Reader, params: _codec.Params
                 ) -> tuple[_codec.Chunk | None, int]:
    """The chunk, and the number of members with bounds."""
    layout, why_passed = reader.take(2)
    version, number, flags, rank = struct.pack("<I", layout)
    if version == _LAYOUT_BY_MEMBER:
        _, counts = reader.take(2)
        reader.take(2 * rank)
        return None, counts >> 16
    if version != _LAYOUT_VERSION:
        raise ValueError("a newer version of terp wrote the filter options")
    params.fill_bits = reader.pair()
    params.has_fill = bool(flags & _HAS_FILL)
    if why_passed:
        return None, 0
    if not 0 < rank <= _codec.MAX_RANK:
        raise ValueError("the filter options have no dims")
    chunk = _codec.Chunk(type=number, big_endian=bool(flags & _BIG_ENDIAN),
                         stack=bool(flags & _STACK), rank=rank)
    chunk.dims[:rank] = [reader.pair() for _ in range(rank)]
    if _codec.encode_bound(chunk) == 0:
        raise ValueError("the filter options have dims or a type that terp does "
                         "not know")
    return chunk, 0


def parse(options: Sequence[int]) -> Words:
    """Reads any form of cd_values. ValueError if terp refuses the words."""
    params = _codec.Params(size=_codec.PARAMS_NBYTES, bound_mode=_ABSOLUTE)
    # Some programs read words as signed numbers.
    words = [_codec.whole("the filter option", word, -2**31, 2**32 - 1) & 0xFFFFFFFF
             for word in options]
    if not words:
        return Words(params, None, (), None, {})
    mode = words[0]
    if mode & ~_KNOWN:
        raise ValueError(f"the mode {mode} has bits that this version of terp "
                         "does not know")
    reader = _Reader(words[1:], not mode & (_PERSISTED | EXACT))
    _set_mode(params, mode)
    params.bound = reader.number(is_signed=False)
    chunk, nrules = (_read_layout(reader, params) if mode & _PERSISTED else
                     (None, 0))
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
    if mode & MEMBERS:
        nrules, rest = divmod(len(reader.left), _RULE_NWORDS)
        if rest or not nrules:
            raise ValueError("the filter options must end with four words for "
                             "each member that has a bound")
    if nrules > MAX_NMEMBERS:
        raise ValueError(f"the filter options have bounds for {nrules} members, "
                         f"but terp takes at most {MAX_NMEMBERS}")
    return Words(params, missing, logical, chunk, _read_rules(reader, nrules),
                 bool(mode & OWN_BOUNDS))


def _mode_of(params: _codec.Params) -> int:
    mode = EXACT
    for member, (at, _) in FIELDS.items():
        mode |= getattr(params, member) << at
    return mode


def make(params: _codec.Params, missing: float | None, logical: Sequence[int],
         members: Mapping[int, _codec.Params]) -> tuple[int, ...]:
    """The exact form."""
    mode = _mode_of(params)
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
    if members:
        mode |= MEMBERS
    if logical or members:
        words += (len(logical), *logical)
    for name_hash, own in members.items():
        words += (name_hash, _mode_of(own), *of_double(own.bound))
    return (mode, *words)
