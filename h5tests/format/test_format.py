"""The codec and the decoder of decoder/terp_decode.c, which follows
doc/format.md, agree on streams of all kinds, on the document's examples, and
on streams that break its rules. TEST_PAIRS names make_pairs, which compares
the two; TEST_DECODER names the decoder as a program, TEST_DOCUMENT the
document."""
import hashlib
import math
import os
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest

# Positions of fields in the examples. BOUND is that of examples of rank 1.
LAYOUT, CODING, PREDICTION, BOUND = 5, 6, 7, 17
HUFFMAN = {"slack": 25, "plans": 30, "escapes": 40, "map": 41, "entries": 42,
           "control": 44, "offsets": 45, "lengths": 46}
DEFAULT = {"dims": 16, "bound": 19, "slack": 27, "plans": 32, "runs": 38,
           "colors": 39, "gaps": 40, "more": 44, "escapes": 50, "map": 51,
           "entries": 52, "control": 54, "offsets": 55, "lengths": 56,
           "tile": 57}
EXACT = {"slack": 25, "dims": 26, "significand": 27, "zeros": 28,
         "exponent": 29, "escapes": 31, "kinds": 32, "low bits": 33,
         "widths": 34, "numbers": 35, "map": 47}
LISTED = {"escapes": 31, "kinds": 32, "length": 33, "map": 40}
TAILS = {"slack": 25, "dims": 26, "zeros": 28, "exponent": 29, "nbits": 31,
         "width": 32, "tails": 33, "escapes": 40, "low bits": 41, "map": 55}
POINTWISE = {"head": 25, "bound": 26, "center": 34, "signs": 47, "length": 48,
             "map": 56, "low": 57, "words": 80, "end": 81}


def put(stream, at, replacement, nbytes=None):
    """The stream with `replacement` in place of as many bytes, or of nbytes."""
    new = bytes.fromhex(replacement)
    return stream[:at] + new + stream[at + (len(new) if nbytes is None
                                            else nbytes):]


def reduce_tile(tile):
    """RRE4-TCMS8-RZE1 of a tile of up to 32 bytes without repeated words."""
    tile = tile + bytes(-len(tile) % 8)
    longs = []
    for at in range(0, len(tile), 8):
        word = int.from_bytes(tile[at:at + 8], "little")
        sign = (1 << 64) - 1 if word >> 63 else 0
        longs.append(((word << 1 & (1 << 64) - 1) ^ sign).to_bytes(8, "little"))
    kept = [sum((byte != 0) << i for i, byte in enumerate(long))
            for long in longs]
    return (bytes([(1 << len(tile) // 4) - 1]) + bytes(kept)
            + bytes(byte for byte in b"".join(longs) if byte != 0))


def pointwise_variants(example):
    p = POINTWISE
    unsigned = example[:p["signs"]] + example[p["end"]:]
    values = put(example[:p["signs"]] + example[p["end"]:], p["center"], "", 2)

    def with_floor(head="11", floor=0.125, shift=1.4):
        at = p["center"] + 2
        numbers = struct.pack("<dd", floor, shift)
        return put(unsigned[:at] + numbers + unsigned[at:], p["head"], head)

    return [
        ("all positive", put(unsigned, p["head"], "01"), True),
        ("all negative", put(unsigned, p["head"], "05"), True),
        ("signs of no kind", put(example, p["head"], "0d"), False),
        ("a bit of no meaning", put(example, p["head"], "29"), False),
        ("logarithms of no form", put(example, p["head"], "0b"), False),
        ("values", put(values, p["head"], "00"), True),
        ("values with signs", put(values, p["head"], "04"), False),
        ("a bound of 1", put(example, p["bound"], "000000000000f03f"), False),
        ("a bound of 0", put(example, p["bound"], "0000000000000000"), False),
        ("a bound that is no number",
         put(example, p["bound"], "000000000000f87f"), False),
        ("the greatest center", put(example, p["center"], "8000"), True),
        ("a greater center", put(example, p["center"], "8100"), False),
        ("the least center", put(example, p["center"], "80ff"), True),
        ("a lesser center", put(example, p["center"], "7fff"), False),
        ("a floor", with_floor(), True),
        ("a floor and signs", with_floor(head="19"), False),
        ("a floor of values", put(with_floor(head="10"), p["center"], "", 2),
         False),
        ("a floor of 0", with_floor(floor=0), False),
        ("a negative floor", with_floor(floor=-0.125), False),
        ("a floor that is no number", with_floor(floor=math.nan), False),
        ("a floor that is infinite", with_floor(floor=math.inf), False),
        ("the least joint", with_floor(floor=2.0 ** -127), True),
        ("a lesser joint", with_floor(floor=2.0 ** -127.1), False),
        ("the greatest joint", with_floor(floor=2.0 ** 122), True),
        ("a greater joint", with_floor(floor=2.0 ** 122.1), False),
        ("the greatest shift", with_floor(shift=2), True),
        ("a greater shift", with_floor(shift=2.1), False),
        ("no shift", with_floor(shift=0), False),
        ("no end of a floor", with_floor()[:p["signs"] - 10], False),
        ("signs with a mask delta", put(example, p["signs"], "01"), False),
        ("too many bytes of signs", put(example, p["length"], "1a"), False),
        ("too few bytes of signs", put(example, p["length"], "18"), False),
        ("signs without end", put(example, p["length"], "ff" * 8), False),
        ("symbols that are no bytes",
         put(example, p["low"], "00021f0200", 5), None),
        ("symbols that are no bytes, either",
         put(example, p["low"], "ff003f01"), None),
        ("signs that are one zero tile",
         put(put(example, p["map"], "00", p["end"] - p["map"]),
             p["length"], "01"), True),
    ]


def integer_variants(example):
    """Int16: the layout, the type's number, form, offset and scale."""
    at, form = 17, 26
    return [
        ("integers", example, True),
        ("a type of less than 3", put(example, at, "02"), False),
        ("a type that does not exist", put(example, at, "1f"), False),
        ("integers of another type", put(example, at, "08"), True),
        ("integers that are pointwise", put(example, PREDICTION, "52"), False),
        ("integers in float64", put(example, form, "02"), True),
        ("integers by bits of float64", put(example, form, "03"), True),
        ("no carrier", put(example, form, "00"), False),
        ("a bit of no carrier", put(example, form, "05"), False),
        ("another bit of no carrier", put(example, form, "81"), False),
        ("a scale of two bytes", put(example, form, "113801" + "0300", 4),
         True),
        ("a scale of eight bytes",
         put(example, form, "713801" + "ff" * 8, 4), True),
        ("a scale of nothing", put(example, form + 3, "00"), False),
        ("the lowest offset", put(example, form + 1, "0080"), True),
        ("the highest offset", put(example, form + 1, "ff7f"), True),
        ("a large scale", put(example, form, "1138010011", 4), True),
    ]


def lossless_variants(example):
    """Lossless float32: the model, shifts, numbers, remainders and escapes."""
    dims, form, zeros, exponent, told, shift = 26, 27, 28, 29, 31, 32
    remainders, escapes = 37, 48
    without = example[:remainders] + example[escapes:]
    return [
        ("lossless", example, True),
        ("dimensions that are taken twice only", put(example, dims, "10"),
         False),
        ("dimensions that are taken once", put(example, dims, "01"), None),
        ("dimensions of one value", put(example, dims, "33"), None),
        ("no dimensions", put(put(without, form, "00"), dims, "00"), True),
        ("a center", put(without, form, "04")[:told]
         + bytes.fromhex("01020384") + without[told:], True),
        ("a center that is not there", put(without, form, "04"), False),
        ("another bit of the form", put(without, form, "08"), False),
        ("steps", put(without, form, "00"), True),
        ("magnitudes", put(without, form, "02"), True),
        ("a form that does not exist", put(without, form, "03"), False),
        ("remainders that nobody asks for", put(example, form, "00"), False),
        ("no remainders", without, False),
        ("low bits", put(example, 25, "11"), False),
        ("zeros of all bits", put(put(without, form, "00"), zeros, "17"),
         True),
        ("zeros of more bits", put(without, zeros, "18"), False),
        ("integers that count all values",
         put(put(without, form, "00"), exponent, "6bff"), True),
        ("remainders where all values are counted",
         put(example[:remainders] + b"\0" + example[escapes:], exponent,
             "6bff"), True),
        ("an exponent below the least", put(example, exponent, "81ff"), False),
        ("the most", put(put(without, form, "00"), exponent, "6700"), True),
        ("a greater one", put(example, exponent, "6800"), False),
        ("another bit told of groups", put(example, told, "05"), False),
        ("zeros told", put(put(example[:shift + 1] + b"\3"
                               + example[shift + 1:], told, "03"), form, "00"),
         None),
        ("no shifts, but numbers", put(example, told, "00", 2), False),
        ("a shift of 31", put(example, shift, "1f"), False),
        ("a byte of remainders too few",
         put(example, remainders, "09", 2), False),
        ("a byte of remainders too many",
         put(example, remainders, "0b00", 1), False),
        ("remainders without end", put(example, remainders, "ffff03", 1),
         False),
    ]


def reference_variants(example):
    """References: the marker, their number, distances, differences and
    values."""
    marker, n, distances, differences, values = 17, 21, 25, 36, 54
    return [
        ("references", example, True),
        ("a marker that is nowhere", put(example, marker, "00"), False),
        ("no references", put(example, n, "00"), False),
        ("more references than values", put(example, n, "05"), False),
        ("fewer references than markers",
         put(example[:n] + bytes.fromhex("01" + "060000" + "01000000"
                                         + "0a0000" + "01" + "00" * 7)
             + example[values - 2:], n, "01"), False),
        ("more references than markers",
         put(example, values + 8, "00000000"), False),
        ("a distance of 0", put(example, distances, "00"), False),
        ("a distance to before the first value",
         put(example, distances, "03"), False),
        ("the longest distance", put(example, distances, "02"), True),
        ("a source that is a marker", put(example, distances + 4, "01"),
         False),
        ("other differences", put(example, differences, "fe" + "ff" * 7),
         True),
        ("a prediction", put(example, PREDICTION, "01"), False),
        ("specials", put(example, PREDICTION, "10"), False),
        ("references of values of one byte",
         put(put(example, LAYOUT, "30"), 17, "07", 0), False),
        ("references of references", put(example, values - 2, "0e"), False),
        ("parts of references", put(example, values - 2, "0f"), False),
        ("no end of values", example[:-1], False),
        ("no end of differences", example[:differences + 5], False),
        ("references of bytes", put(put(example, LAYOUT, "20"), 16, "10"),
         False),
    ]


def copy_variants(example):
    """Copies: the dimensions, and the values."""
    dims, values = 18, 19
    return [
        ("copies", example, True),
        ("copies along both dimensions",
         put(example[:-4], dims, "03"), True),
        ("copies along no dimension", put(example, dims, "00"), False),
        ("copies along a third dimension", put(example, dims, "05"), False),
        ("copies along a dimension of one point",
         put(put(example, dims - 1, "01"), dims, "01"), False),
        ("copies of bricks", put(example, LAYOUT, "81"), False),
        ("copies of other values", put(example, dims, "02"), False),
        ("copies of copies", put(example, values, "0d"), False),
        ("copies of constants", put(example, values, "01")[:-4], True),
        ("copies of parts", put(example, values, "0f"), False),
        ("a prediction of copies", put(example, PREDICTION, "01"), False),
        ("specials of copies", put(example, PREDICTION, "10"), False),
        ("no end of copies", example[:-1], False),
    ]


def list_variants(example):
    """The list of a tile that has one symbol 0."""
    p = LISTED

    def with_list(listed):
        length = len(bytes.fromhex(listed)).to_bytes(2, "little").hex()
        return put(example, p["length"], length + listed, 7)

    unlisted = put(example, p["kinds"], "00", 8)
    return [
        ("a list", example, True),
        ("the same list", with_list("0100" + "10" + "429c"), True),
        ("a list of no bytes", with_list(""), False),
        ("a list of a byte", with_list("01"), False),
        ("a list and a byte", with_list("0100" + "10" + "429c" + "00"), False),
        ("a list that lacks a byte", with_list("0100" + "10" + "42"), False),
        ("a list of no code", with_list("0000"), False),
        ("a list of two codes", with_list("0200" + "10" + "429c" * 2), False),
        ("a list of 4097 codes", with_list("0110" + "00" * 129), False),
        ("numbers of 17 bits", with_list("0100" + "11" + "429c00"), False),
        ("a small code", with_list("0100" + "01" + "01"), True),
        ("a code of no bits", with_list("0100" + "00"), True),
        ("the largest number", with_list("0100" + "10" + "ffff"), True),
        ("a bit of the code", with_list("0180" + "10" + "429c" + "ff"), True),
        ("no bit of the code", with_list("0180" + "10" + "429c" + "fe"), False),
        ("no bits", with_list("0180" + "10" + "429c"), False),
        ("bits and a byte", with_list("0180" + "10" + "429c" + "0100"), False),
        ("a list of a zero tile",
         put(example, p["map"], "00")[:p["map"] + 1], False),
        ("an escape without a number", unlisted, False),
        ("an escape", put(unlisted, p["escapes"], "010107", 1), True),
        ("an escape that is listed",
         put(example, p["escapes"], "010107", 1), False),
    ]


def variants(huffman, default, exact, listed, tails, pointwise, integers,
             lossless, references, copies, floor):
    """Yields name, stream, and whether the stream is valid."""
    h, d, e, t = HUFFMAN, DEFAULT, EXACT, TAILS
    reduced = reduce_tile(default[d["tile"]:])
    # Eight escapes with numbers of a byte. Entry 18 makes the tile eight words
    # of six zeros.
    escapes = (tails[:t["escapes"]]
               + bytes.fromhex("0801" + "0102030405060708")
               + tails[t["low bits"]:t["map"]]
               + bytes.fromhex("01" + "0112" + "030105" + "00" * 6))
    float32 = put(put(tails, LAYOUT, "00"), t["zeros"], "17")
    return [
        ("as it is", default, True),
        ("no coding", put(default, CODING, "04"), False),
        ("wide dims",
         put(put(default, LAYOUT, "06"), d["dims"], "030008000800", 3), True),
        ("a long ULEB of runs", put(default, d["runs"], "8400", 1), True),
        ("a long ULEB of escapes",
         put(default, d["escapes"], "80" * 8 + "00", 1), True),
        ("a ULEB of ten bytes",
         put(default, d["escapes"], "80" * 9 + "00", 1), False),
        ("bits behind lengths", put(default, d["lengths"], "fd"), True),
        ("wide lengths", put(put(default, d["control"], "09"), d["lengths"],
                             "1d00", 1), True),
        ("lengths of 17 bits", put(put(default, d["control"], "11"),
                                   d["lengths"], "1d0000", 1), False),
        ("wide offsets", put(default, d["offsets"], "08"), True),
        ("offsets of no bytes", put(default, d["offsets"], "00"), False),
        ("offsets of nine bytes", put(default, d["offsets"], "09"), False),
        ("entries that descend, or do not exist",
         put(default, d["entries"], "03ff090200", 2), False),
        ("the same, and none of them is used",
         put(default, d["entries"], "03ff090201", 2), True),
        ("a number of no entry",
         put(default, d["entries"], "03ff090203", 2), False),
        ("no entries", put(default, d["entries"], "00", 2), False),
        ("a bit behind the last tile", put(default, d["map"], "03"), False),
        ("a zero tile and more", put(default, d["map"], "00"), False),
        ("zero tiles", put(default, d["map"], "00")[:d["map"] + 1], True),
        ("a byte too many", default + b"\xff", False),
        ("a byte too few", default[:-1], False),
        ("a tile's end that is not all ones",
         default[:-1] + bytes([default[-1] ^ 1]), False),
        ("a reduced ratio tile",
         put(default, d["control"], "85")[:d["tile"]] + reduced, True),
        ("a reduced ratio tile and a byte",
         put(default, d["control"], "85")[:d["tile"]] + reduced + b"\0", False),
        ("a natural spline", put(default, d["plans"], "63"), True),
        ("a linear spline", put(default, d["plans"], "a3"), True),
        ("a long spline", put(default, d["plans"], "e3"), True),
        ("a long spline that blends",
         put(default, d["plans"], "e3ff"), True),
        ("the mean", put(default, d["plans"], "e3aa"), True),
        ("a bound with a floor", floor, True),
        ("a priority of no dimension",
         put(huffman, h["plans"] + 1, "40"), True),
        ("no step slack", put(default, d["slack"], "00"), False),
        ("a step slack of 13", put(default, d["slack"], "0d"), False),
        ("a bit of the prediction", put(default, PREDICTION, "31"), False),
        ("a prediction of no such number", put(default, PREDICTION, "13"),
         False),
        ("a coding of no such number", put(default, CODING, "06"), False),
        ("a mask delta that is too short", put(default, d["colors"], "11"),
         False),
        ("a mask delta that is too long", put(default, d["colors"], "31"),
         False),
        ("a mask delta of no dimension", put(default, d["colors"], "51"),
         False),
        ("a mask delta of two colors", put(default, d["colors"], "22"), False),
        ("no mask delta", put(default, d["colors"], "01"), None),
        ("runs that touch", put(default, d["gaps"], "06a70100", 4), None),
        ("a run beyond the chunk", put(default, d["gaps"], "08ff060504", 4),
         False),
        ("numbers of 57 bits", put(default, d["gaps"], "39" + "00" * 29, 4),
         False),
        ("no runs, and bytes of their lists", put(default, d["runs"], "00"),
         False),
        ("an escape that no symbol has",
         put(default, d["escapes"], "010100", 1), False),
        ("an escape that is too wide",
         put(default, d["escapes"], "01050000000000", 1), False),
        ("a codeword's end", put(huffman, len(huffman) - 1, "ff"), None),
        ("a huffman tile that is too short",
         put(huffman, h["lengths"], "04")[:-1], False),
        ("a huffman tile that is too long",
         put(huffman, h["lengths"], "06") + b"\0", False),
        ("exact quants", exact, True),
        ("a step slack of 13, and wide codes", put(exact, e["slack"], "cd"),
         False),
        ("a unit of 12", put(exact, e["slack"], "d8"), True),
        ("a unit of 13", put(exact, e["slack"], "e8"), False),
        ("a unit of 14", put(exact, e["slack"], "f8"), False),
        ("wide codes that the model does not announce",
         put(exact, e["slack"], "08"), False),
        ("no wide codes",
         put(put(exact, e["kinds"], "", 15), e["slack"], "08"), True),
        ("bits behind kinds", put(exact, e["kinds"], "fd"), True),
        ("a tile without low bits", put(exact, e["kinds"], "00", 15), True),
        ("low bits of no width", put(exact, e["widths"], "00", 13), True),
        ("a width above the low bits", put(exact, e["widths"], "04"), False),
        ("a record of no low bits", put(exact, e["low bits"], "00"), False),
        ("12 low bits", put(exact, e["low bits"], "0c"), True),
        ("13 low bits", put(exact, e["low bits"], "0d"), False),
        ("a width that leaves too few bytes",
         put(exact, e["low bits"], "0c0c"), False),
        ("wide low bits", put(exact, e["low bits"], "0c0c" + "108842" * 16, 14),
         True),
        ("low bits end too early", exact[:e["map"] - 1], False),
        ("no record", exact[:e["low bits"]], False),
        ("all low bits", put(exact, e["numbers"], "ff" * 12), True),
        ("low bits of zero tiles",
         put(exact, e["map"], "00")[:e["map"] + 1], True),
        ("a step of nothing", put(exact, e["significand"], "00"), False),
        ("a step of eight bits", put(exact, e["significand"], "ff"), True),
        ("no zeros", put(exact, e["zeros"], "00"), True),
        ("23 zeros", put(exact, e["zeros"], "17"), True),
        ("24 zeros", put(exact, e["zeros"], "18"), False),
        ("the least exponent", put(exact, e["exponent"], "82ff"), True),
        ("a less exponent", put(exact, e["exponent"], "81ff"), False),
        ("the greatest exponent", put(exact, e["exponent"], "6700"), True),
        ("a greater exponent", put(exact, e["exponent"], "6800"), False),
        ("the exponent of the smallest value",
         put(exact, e["exponent"], "6bff"), True),
        ("the same of float64, for float32",
         put(exact, e["exponent"], "cefb"), False),
        ("one more", put(exact, e["exponent"], "6cff"), False),
        ("one less", put(exact, e["exponent"], "6aff"), False),
        ("the same, of no step",
         put(put(exact, e["exponent"], "6bff"), e["significand"], "00"), False),
        ("the same, of a step and no zeros",
         put(put(exact, e["exponent"], "6bff"), e["significand"], "ff00"),
         True),
        ("the exponent of the smallest float64",
         put(tails, t["exponent"], "cefb"), True),
        ("one more, of float64", put(tails, t["exponent"], "cffb"), False),
        ("one less, of float64", put(tails, t["exponent"], "cdfb"), False),
        ("the least exponent of float64",
         put(tails, t["exponent"], "02fc"), True),
        ("a less exponent of float64",
         put(tails, t["exponent"], "01fc"), False),
        ("lossless", put(exact, BOUND, "00" * 8), True),
        ("lossless, of the other zero",
         put(exact, BOUND, "00" * 7 + "80"), True),
        ("lossless tails", put(tails, BOUND, "00" * 8), True),
        ("lossless, by a spline", put(huffman, BOUND, "00" * 8), False),
        ("lossless, by quants that are not exact",
         put(put(put(exact, e["significand"], "", 4), e["dims"], "01"), BOUND,
             "00" * 8), False),
        ("the smallest bound", put(exact, BOUND, "01" + "00" * 7), True),
        ("a bound below zero", put(exact, BOUND + 7, "bf"), False),
        ("a bound that is infinite", put(exact, BOUND + 6, "f07f"), False),
        ("a bound that is no number", put(exact, BOUND + 6, "f8ff"), False),
        ("means of one dimension", put(exact, e["dims"], "31"), False),
        ("tails of such", put(exact, e["dims"], "61"), False),
        ("a bit of no dimension", put(tails, t["dims"], "e1"), False),
        ("quants that are not exact",
         put(put(exact, e["significand"], "", 4), e["dims"], "01"), True),
        ("tails", tails, True),
        ("tails of no bits", put(tails, t["nbits"], "00"), False),
        ("tails of fewer bits than a width", put(tails, t["nbits"], "06"),
         False),
        ("tails of 48 bits", put(tails, t["nbits"], "30"), True),
        ("tails of 49 bits", put(tails, t["nbits"], "31"), False),
        ("tail numbers of 48 bits",
         put(put(tails, t["nbits"], "30"), t["width"],
             "30" + "fedcba9876ff" * 8, 8), True),
        ("tails of 16 bits of float32", put(float32, t["nbits"], "10"), True),
        ("tails of 17 bits of float32", put(float32, t["nbits"], "11"), False),
        ("tails below a unit of 11", put(tails, t["slack"], "cc"), False),
        ("tails of no width", put(tails, t["width"], "00", 8), True),
        ("tails that the model does not announce",
         put(tails, t["dims"], "21"), False),
        ("no tails",
         put(put(tails, t["nbits"], "", 9), t["dims"], "21"), True),
        ("all tails", put(tails, t["tails"], "ff" * 7), True),
        ("tails end too early", tails[:t["escapes"] - 1], False),
        ("no width of tails", tails[:t["width"]], False),
        ("tails of zero tiles", put(tails, t["map"], "00")[:t["map"] + 1],
         True),
        ("tails of escapes", escapes, True),
        ("tails of quants that are not exact",
         put(put(tails, t["dims"] + 1, "", 4), t["dims"], "41"), True),
    ] + (list_variants(listed) + pointwise_variants(pointwise)
         + integer_variants(integers) + lossless_variants(lossless)
         + reference_variants(references) + copy_variants(copies))


def needed_kinds():
    """The properties that the streams must cover, as h5tests/format/inside.c
    names them."""
    coded = ["coding %d, prediction %d" % (coding, prediction)
             for coding in (2, 5) for prediction in (1, 2, 3)]
    of_all = ["lossless, form 0", "lossless, form 1", "lossless, form 2",
              "tails, coding 2", "tails, coding 5", "floor", "exact, zeros",
              "exact, specials",
              "pointwise, form 0, signs 0", "pointwise, form 1, signs 2",
              "pointwise, form 2, signs 2"]
    of_all += ["low bits, " + name for name in
               ("specials", "exact", "stack", "several groups",
                *(kind for kind in coded if not kind.endswith("3")))]
    of_all += ["tails, " + name for name in
               ("means", "exact", "not exact", "stack", "specials",
                "several groups")]
    of_all += ["lossless, " + name for name in
               ("specials", "stack", "shifts", "zeros", "no dimensions",
                "twice", "center", "counted", "escapes")]
    needed = {"%d: %s" % (nbits, kind) for nbits in (32, 64)
              for kind in of_all}
    needed |= {"coding %d, prediction 0" % coding
               for coding in (0, 1, 11, 12, 13, 14, 15)}
    needed |= {"coding %d, type %d" % kind for kind in (
        (13, 0), (13, 1), (14, 0), (14, 1), (14, 8), (14, 11), (15, 13),
        (15, 14))}
    needed |= {"type %d, carrier %d" % kind for kind in (
        (3, 1), (8, 1), (5, 2), (9, 2), (6, 1), (6, 3), (11, 0), (12, 0))}
    needed |= {"long, blends, %d dimensions" % n for n in (2, 3, 4)}
    needed |= {"mean, %d dimensions" % n for n in (1, 2, 3)}
    return needed | set(coded) | {"long, averages, 4 dimensions",
                                  "32: exact, means", "32: exact, steps"}


class FormatTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run([os.environ["TEST_PAIRS"], cls.folder], check=True)
        document = pathlib.Path(os.environ["TEST_DOCUMENT"])
        cls.document = document.read_text(encoding="utf-8")
        # In the document's order; test_members has the container.
        examples = map(bytes.fromhex, re.findall(
            r"((?:^    (?:[0-9a-f]{2} ?)+\n)+)", cls.document, re.MULTILINE))
        cls.examples = [example for example in examples
                        if not example.startswith(b"TERPR")]

    def test_lengths_of_words_are_as_described(self):
        lengths = (self.folder / "lengths").read_bytes()
        of_symbols = 75 * 1024
        self.assertEqual(re.findall(r"SHA-256\s+`(\w+)`", self.document),
                         [hashlib.sha256(n).hexdigest() for n in
                          (lengths[:of_symbols], lengths[of_symbols:])])

    def test_examples_are_what_the_codec_makes(self):
        for name, example in zip(
                ("huffman", "default", "exact", "listed", "tails",
                 "pointwise", "integers", "lossless", None, None, "floor",
                 None, None, None, None),
                self.examples, strict=True):
            if name is not None:  # no encoder makes the others
                self.assertEqual(
                    (self.folder / (name + ".terp")).read_bytes(), example)

    def test_variants_are_refused_or_decoded_by_both(self):
        made = []
        for i, (name, stream, valid) in enumerate(variants(*self.examples[:-4])):
            path = self.folder / ("variant%d" % i)
            path.write_bytes(stream)
            made.append((name, valid, path))
        subprocess.run([os.environ["TEST_PAIRS"], self.folder,
                        *(path for *_, path in made)], check=True)
        for name, valid, path in made:
            if valid is not None:
                with self.subTest(name):
                    self.assertEqual(path.with_suffix(".values").exists(),
                                     valid)

    def test_streams_are_of_all_kinds(self):
        found = set((self.folder / "kinds").read_text().splitlines())
        self.assertEqual(needed_kinds() - found, set())

    def test_program_writes_the_values(self):
        output = self.folder / "output"
        for path in sorted(self.folder.glob("[0-9]*0.terp")):
            subprocess.run([os.environ["TEST_DECODER"], path, output],
                           check=True)
            with self.subTest(path.name):
                self.assertEqual(output.read_bytes(),
                                 path.with_suffix(".values").read_bytes())
        whole = path.read_bytes()
        for stream, target, why in (
                (whole[:-1], output, b"not a whole stream"),
                (b"", output, b"not a whole stream"),
                (whole, "/dev/full", b"cannot write"),
                (whole, self.folder / "missing/output", b"cannot write")):
            path.write_bytes(stream)
            with self.subTest(target=target, nbytes=len(stream)):
                self.check_refused(why, path, target)
        self.check_refused(b"usage", path)
        self.check_refused(b"usage", self.folder / "missing", output)

    def check_refused(self, why, *arguments):
        refused = subprocess.run([os.environ["TEST_DECODER"], *arguments],
                                 stderr=subprocess.PIPE, check=False)
        self.assertIn(why, refused.stderr)
        self.assertEqual(refused.returncode, 1)


if __name__ == "__main__":
    unittest.main()
