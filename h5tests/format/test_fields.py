"""Replaces each field of a stream by other values. The codec and the decoder
of decoder/terp_decode.c must do what doc/format.md says. The streams are the
document's examples, and streams that this file makes byte by byte. TEST_PAIRS
names make_pairs, TEST_DOCUMENT the document."""
import os
import pathlib
import re
import struct
import subprocess
import unittest

REFUSED, SAME, TAKEN, ANY = "refused", "ignored: the same values", "taken", None
ALL = range(256)
EXAMPLES = ("huffman", "default", "exact", "listed", "tails", "pointwise", "integers", "lossless",
            "references", "copies", "floor", "speed", "ranks", "grid", "columns")


def hexed(text):
    return bytes.fromhex(text)


def put(stream, at, replacement, nbytes=None):
    """The stream with `replacement` in place of as many bytes, or of nbytes."""
    end = at + (len(replacement) if nbytes is None else nbytes)
    return stream[:at] + replacement + stream[end:]


def float64(number):
    return struct.pack("<d", number)


# ---- streams that this file makes ----

RAW, CONSTANT, HUFFMAN, PARTS = 0, 1, 2, 15
LORENZO = 2
OTHER_TYPE, BIG_ENDIAN, STACK = 0x30, 0x40, 0x80


def frame(layout, coding, prediction, dims, behind=b"", width=1):
    """A frame. `behind` follows the dims: the type, the domain, the bound."""
    layout |= len(dims) - 1 | (width.bit_length() - 1) << 2
    return (b"TERP\1" + bytes([layout, coding, prediction]) + bytes(8)
            + b"".join(dim.to_bytes(width, "little") for dim in dims) + behind)


def fields(numbers, width):
    """A bit field array."""
    number = sum(n << i * width for i, n in enumerate(numbers))
    return number.to_bytes((len(numbers) * width + 7) // 8, "little")


def groups(numbers, width):
    """A list of a section of specials, of at most 64 numbers."""
    return bytes([width]) + fields(numbers, width) if numbers else b""


def specials(runs, colors, head=None):
    """Runs of (gap, length less one, color), each number in a byte of its
    own."""
    head = len(colors) if head is None else head
    section = bytes([len(runs), head]) + groups([r[0] for r in runs], 8)
    section += groups([r[1] for r in runs], 8)
    if head & 15 > 1:
        section += groups([r[2] for r in runs], 8)
    return section + b"".join(colors)


def lorenzo(nvalues, tiles, behind=b"\0"):
    """A stream of float32 values of rank 1 under the bound 1. `behind` follows
    the model; it has the sections, without escapes."""
    return frame(0, HUFFMAN, LORENZO, [nvalues], float64(1) + b"\x01\x01", 4) + behind + tiles


CODE_0 = hexed("01 02")  # one entry; its word for the code 0 is one bit, 0


def partitioned(*, kept=(0, 16), ntiles=17, width=2, offsets=(512,), controls=None, lengths=b"",
                payload=None):
    """Tiles of codes 0, some of which are not marked as zero tiles."""
    numbers = [sum((tile in kept) << (tile - first) for tile in range(first, first + 8))
               for first in range(0, ntiles, 8)]
    controls = bytes(len(offsets) + 1) if controls is None else controls
    tiles = (bytes(numbers) + CODE_0 + controls + bytes([width])
             + b"".join(at.to_bytes(width, "little") for at in offsets) + lengths)
    payload = bytes(512 * len(kept)) if payload is None else payload
    return lorenzo(4096 * ntiles, tiles + payload)


def reduced(words="01", kept="00", of_bytes=b"", behind=b""):
    """64 values in a reduced tile of 8 bytes: bit maps of the two words of
    RRE4 and of the bytes of RZE1."""
    tiles = b"\x01" + CODE_0 + hexed("80 01") + hexed(words) + hexed(kept) + of_bytes + behind
    return lorenzo(64, tiles)


def constant(dims, section, layout=0):
    return frame(layout, CONSTANT, 0x10 if section else 0, dims) + struct.pack("<f", 1.5) + section


def made_streams():
    raw4 = frame(0, RAW, 0, [1, 2, 1, 3]) + bytes(range(24))
    half = (frame(OTHER_TYPE, CONSTANT, 0, [4], b"\x0b") + b"\0" + float64(0.5)
            + struct.pack("<f", 1.25))
    parts = (frame(OTHER_TYPE, PARTS, 0, [2], b"\x0d") + float64(0.5) + b"\x0a"
             + b"\0\0" + bytes(range(8)) + b"\0\0" + bytes(range(8, 16)))
    return {
        "raw": raw4,
        "stack": put(raw4, 5, bytes([0x83])),
        "bytes": frame(0x20, RAW, 0, [5]) + b"bytes",
        "int8": frame(OTHER_TYPE, RAW, 0, [5], b"\x03") + b"bytes",
        "constant": constant([100], b""),
        "colored": constant([100], specials([(3, 4, 0), (5, 6, 1), (0, 0, 0)],
                                            [b"ABCD", b"EFGH"])),
        "listed specials": constant([100], specials([(3, 1, 0), (5, 0, 0)], [b"ABCD"] * 3, 0)),
        "no runs": constant([100], specials([], [b"ABCD"])),
        "mask delta": constant([3, 64], specials([(3, 1, 0)], [b"ABCD"], 0x11), STACK),
        "half": half,
        "parts": parts,
        "partitions": partitioned(),
        "three partitions": partitioned(kept=(0, 16, 32), ntiles=33, offsets=(512, 1024)),
        "long map": lorenzo(4096 * 65, b"\0\0"),
        "five": lorenzo(5, b"\x01" + CODE_0 + hexed("00 01 00")),
        "reduced": reduced(),
        "signs": signs(hexed("0002 1c02") + fields([0] + [1] + [0] * 27 + [1], 4), 0x80),
        "more signs": signs(hexed("fc01 0002") + fields([0] + [1] + [0] * 3 + [1], 4), 0),
    }


def signs(codebook, words):
    """Five float32 values, the first two positive and the others negative,
    under a pointwise bound, with logarithms that are all 0. The one symbol of
    signs has the word 1 in the first stream, or 0."""
    of_signs = b"\x01" + codebook + b"\0\x01" + bytes([words])
    return (frame(0, HUFFMAN, LORENZO | 0x40, [5], float64(0.125)) + b"\x09" + float64(0.125)
            + b"\0\0" + b"\x01\x01" + b"\0" + len(of_signs).to_bytes(8, "little") + of_signs
            + b"\0" + b"\x01" + CODE_0 + hexed("00 01 00"))


# ---- what doc/format.md says of each field ----

# Positions of fields in the document's examples of rank 1, in its order.
BOUND, BODY = 17, 25


def allowed(*values):
    """The given values are valid, others are refused."""
    return lambda v: TAKEN if v in values else REFUSED


def sweep(title, stream, at, expected):
    """All other values of a byte."""
    for value in ALL:
        if value != stream[at]:
            yield ("%s: %#04x" % (title, value), stream,
                   put(stream, at, bytes([value])), expected(value))


def each(title, stream, at, cases):
    """Replaces bytes by as many other bytes, or by (nbytes, others)."""
    for replacement, expected in cases:
        nbytes, new = replacement if isinstance(replacement, tuple) else (None, replacement)
        new = hexed(new) if isinstance(new, str) else new
        yield ("%s: %s" % (title, new.hex()), stream, put(stream, at, new, nbytes), expected)


def bounds(title, stream, at, *, zero, others=TAKEN):
    """Every class of float64 as a bound."""
    yield from each(title, stream, at, [
        (float64(0.0), zero), (float64(-0.0), zero), (float64(-0.5), REFUSED),
        (float64(-5e-324), REFUSED), (float64(5e-324), others), (float64(1.5), others),
        (float64(1.7976931348623157e308), others), (float64(float("inf")), REFUSED),
        (float64(float("-inf")), REFUSED), (float64(float("nan")), REFUSED),
        (hexed("010000000000f0ff"), REFUSED)])


def frame_cases(s):
    example = s["huffman"]
    for at in range(4):
        yield from sweep("magic, byte %d" % at, example, at, lambda v: REFUSED)
    yield from sweep("version", example, 4, lambda v: SAME if v == 2 else REFUSED)
    for name in s:
        stream = s[name]
        layout = stream[5]
        yield ("byte order of " + name, stream, put(stream, 5, bytes([layout ^ BIG_ENDIAN])),
               SAME if name in ("bytes", "int8", "raw", "stack") else TAKEN)
        if layout & 3 == 0:
            yield ("a stack of rank 1 of " + name, stream,
                   put(stream, 5, bytes([layout | STACK])), REFUSED)
    # Raw streams: the layout matters only for the order of bytes.
    yield "a stack", s["raw"], s["stack"], SAME
    for rank in range(1, 5):
        for width in (1, 2, 4, 8):
            dims = [6] + [1] * (rank - 1)
            yield ("dims of %d bytes, rank %d" % (width, rank), s["raw"],
                   frame(0, RAW, 0, dims, width=width) + s["raw"][20:], SAME)
    for dim in ALL:
        if dim != 5:
            yield ("a dim of %d" % dim, s["bytes"],
                   put(s["bytes"], 16, bytes([dim])), REFUSED)
    yield ("bytes of rank 2", s["bytes"], frame(0x20, RAW, 0, [5, 1]) + b"bytes", REFUSED)
    for dims in ([2 ** 62, 2], [2 ** 63], [2 ** 61], [2 ** 32, 2 ** 31], [0], [0, 5]):
        yield ("dims %s" % dims, s["raw"],
               frame(0, RAW, 0, dims, width=8) + bytes(24), REFUSED)
    # Types: all types of raw streams, with the same number of bytes each.
    for number in ALL:
        size = {3: 1, 4: 2, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8, 11: 2, 12: 2, 13: 8,
                14: 16}.get(number)
        yield ("type %d" % number, s["int8"],
               frame(OTHER_TYPE, RAW, 0, [3], bytes([number])) + bytes(3 * (size or 4)),
               TAKEN if size else REFUSED)
    # Coding and prediction; the body would have to fit both.
    yield from sweep("coding of a spline", example, 6,
                     lambda v: ANY if v in (2, 3, 5) else REFUSED)
    yield from sweep("coding of a stored chunk", s["raw"], 6, lambda v: REFUSED)
    yield from sweep("coding of a constant", s["constant"], 6, lambda v: REFUSED)
    yield from sweep("coding of complex values", s["parts"], 6, lambda v: REFUSED)
    for name in ("raw", "bytes", "stack", "parts", "references", "copies", "speed", "ranks", "grid", "columns"):
        yield from sweep("prediction of " + name, s[name], 7, lambda v: REFUSED)
    yield from sweep("prediction of a constant", s["constant"], 7, lambda v: REFUSED)
    yield from sweep("prediction", example, 7,
                     lambda v: ANY if v & 15 in (1, 2, 3)
                     and (v < 0x80 or v & 15 == 1) else REFUSED)
    # The domain: the example's 32 values as 4 x 8, which gives the same codes.
    inner = put(put(example, 5, b"\x01"), 7, b"\x21")
    domain = put(inner, 16, hexed("0408" "0020"), 1)
    yield "a domain", example, domain, SAME
    yield ("a domain of wide dims", domain, put(domain, 18, hexed("0c20" + "00" * 7), 2), SAME)
    yield ("a domain that is the chunk", domain, put(domain, 18, hexed("010408"), 2), REFUSED)
    yield ("the same in wider dims", domain, put(domain, 18, hexed("0504000800"), 2), REFUSED)
    yield ("a domain of bricks", domain, put(domain, 18, hexed("810408"), 2), ANY)
    yield ("a domain of 2 x 16", domain, put(domain, 18, hexed("010210"), 2), ANY)
    yield from sweep("layout of a domain", domain, 18, lambda v: ANY if v == 0 else REFUSED)
    yield from sweep("dim of a domain", domain, 19, lambda v: REFUSED)
    # Bounds.
    yield from bounds("bound of a spline", example, BOUND, zero=REFUSED)
    yield from bounds("bound of exact quants", s["exact"], BOUND, zero=SAME, others=SAME)
    yield from bounds("bound of a lossless stream", s["lossless"], BOUND, zero=SAME, others=SAME)
    yield from bounds("bound of lorenzo", s["five"], BOUND + 3, zero=REFUSED)
    # Prefixes: a decoder of the whole stream ignores the table.
    prefixes = put(put(example, 7, b"\x81"), BODY, bytes(24), 0)
    yield "prefixes", example, prefixes, SAME
    yield ("other prefixes", prefixes, put(prefixes, BODY, b"\xff" * 24), SAME)
    yield "prefixes that end", prefixes, prefixes[:BODY + 23], REFUSED


def model_cases(s):
    slack = BODY
    example, exact, tails, lossless = s["huffman"], s["exact"], s["tails"], s["lossless"]
    yield from sweep("slack of a spline", example, slack,
                     lambda v: REFUSED if not 1 <= v & 15 <= 12 or v >> 4 > 13
                     else TAKEN if v < 16 else ANY)
    yield from sweep("slack and unit of exact quants", exact, slack,
                     lambda v: REFUSED if not 1 <= v & 15 <= 12 or v >> 4 > 13
                     else SAME if v >> 4 else ANY)
    yield from sweep("slack and unit of lossless", lossless, slack,
                     lambda v: SAME if 1 <= v <= 12 else REFUSED)
    yield from each("reference value", example, slack + 1, [
        ("0000803f", TAKEN), ("0000c07f", TAKEN), ("000080ff", TAKEN), ("00000080", TAKEN)])
    for level in range(5):
        at = slack + 5 + 2 * level
        yield from sweep("plan %d" % level, example, at, lambda v: TAKEN)
        yield from sweep("priorities of plan %d" % level, example, at + 1,
                         lambda v: SAME if v & 3 == 0 else TAKEN)
    yield from sweep("dimensions of lorenzo", exact, slack + 1,
                     lambda v: REFUSED if v & 0xd0 else ANY if v & 0x20 == 0
                     else SAME if v & 1 else TAKEN)
    yield from sweep("slack and unit of tails", tails, slack,
                     lambda v: REFUSED if v >> 4 != tails[slack] >> 4 else ANY)
    yield from sweep("dimensions of lorenzo, tails", tails, slack + 1,
                     lambda v: REFUSED if v & 0x90 or v & 0x40 == 0 else ANY if v & 0x20 == 0
                     else SAME if v & 1 else TAKEN)
    yield from sweep("significand", exact, slack + 2, lambda v: TAKEN if v else REFUSED)
    yield from sweep("zeros of float32", exact, slack + 3, allowed(*range(24)))
    yield from sweep("zeros of float64", tails, slack + 3, allowed(*range(53)))
    steps = put(s["lossless"], slack + 2, b"\0")
    steps = steps[:37] + steps[48:]
    yield "lossless steps", steps, put(steps, slack, b"\x02"), SAME
    for stream, at, lowest, least, most in ((exact, slack + 4, -149, -126, 103),
                                            (tails, slack + 4, -1074, -1022, 970),
                                            (steps, slack + 4, -149, -126, 103)):
        for e in sorted({lowest - 1, lowest, lowest + 1, least - 1, least, least + 1, -1, 0, 1,
                         most - 1, most, most + 1, 32767, -32768, *range(-1100, 1000, 7)}):
            yield ("exponent %d" % e, stream, put(stream, at, struct.pack("<h", e)),
                   TAKEN if least <= e <= most or e == lowest else REFUSED)
    yield from sweep("bits of tails", tails, slack + 6, allowed(*range(7, 49)))
    yield from sweep("dimensions of lossless", steps, slack + 1,
                     lambda v: REFUSED if v >> 4 & ~v else TAKEN)
    yield from sweep("form of lossless", steps, slack + 2,
                     lambda v: TAKEN if v in (0, 2) else ANY if v in (1, 4, 5, 6) else REFUSED)
    yield from sweep("zeros of lossless", steps, slack + 3, allowed(*range(24)))


def carrier_cases(s):
    at = BODY + 1
    example, half = s["integers"], s["half"]
    yield from sweep("carrier of integers", example, at,
                     lambda v: REFUSED if v & 0x8c or v & 3 == 0 else ANY)
    for carrier in (1, 2, 3):
        yield from sweep("scale", put(example, at, bytes([carrier])), at + 3,
                         lambda v: TAKEN if v else REFUSED)
    yield ("a scale of more bytes", example, put(example, at, hexed("71380103" + "00" * 7), 4),
           SAME)
    yield ("a scale of the most bits", example, put(example, at, hexed("713801" + "ff" * 8), 4),
           TAKEN)
    for offset in ("0000", "ff7f", "0080", "ffff"):
        yield ("offset " + offset, example, put(example, at + 1, hexed(offset)), TAKEN)
    yield from sweep("carrier of a 16-bit float", half, 18,
                     lambda v: ANY if v & 3 and not v & 0x8c else REFUSED)
    yield from bounds("bound of 16-bit floats", half, 19, zero=SAME, others=SAME)
    for value in ("0000c07f", "000080ff", "ffff7f7f", "00000080"):
        yield ("a constant " + value, half, put(half, 27, hexed(value)), TAKEN)
        yield ("a constant " + value, s["constant"],
               put(s["constant"], 17, hexed(value)), TAKEN)
    parts = s["parts"]
    yield from bounds("bound of complex values", parts, 18, zero=SAME, others=SAME)
    yield ("a long ULEB of parts", parts, put(parts, 26, hexed("8a00"), 1), SAME)
    yield ("the longest ULEB", parts, put(parts, 26, hexed("8a" + "80" * 7 + "00"), 1), SAME)
    yield ("a ULEB of ten bytes", parts, put(parts, 26, hexed("8a" + "80" * 8 + "00"), 1),
           REFUSED)
    yield from sweep("bytes of the real parts", parts, 26, lambda v: REFUSED)
    for at in (27, 37):
        yield from sweep("coding of a part", parts, at, lambda v: REFUSED)
        yield from sweep("prediction of a part", parts, at + 1, lambda v: REFUSED)


def inner_cases(s):
    """A spline as a part, and as the remaining chunk of copies, without
    prefixes."""
    spline = s["huffman"]
    body = bytes([2, 1]) + spline[BOUND:]
    prefixed = bytes([2, 0x81]) + spline[BOUND:BODY] + bytes(24) + spline[BODY:]
    of_raw = b"\0\0" + bytes(4 * 32)

    def parts(real, imaginary):
        return (frame(OTHER_TYPE, PARTS, 0, [32], b"\x0d") + float64(1.0)
                + uleb(len(real)) + real + imaginary)

    def copies(inner):
        return frame(0, 13, 0, [32, 2]) + b"\x01" + inner

    example = parts(body, of_raw)
    yield "prefixes of a real part", example, parts(prefixed, of_raw), REFUSED
    yield "prefixes of an imaginary part", example, parts(of_raw, prefixed), REFUSED
    yield "another part", example, parts(of_raw, body), TAKEN
    yield "prefixes of copied values", copies(body), copies(prefixed), REFUSED


def uleb(number):
    return bytes([number & 127]) if number < 128 else bytes([number & 127 | 128, number >> 7])


def pointwise_cases(s):
    at = BODY
    example = s["pointwise"]
    yield from sweep("form and signs", example, at,
                     lambda v: ANY if v < 32 and v & 3 < 3 and v >> 2 & 3 < 3 else REFUSED)
    yield from bounds("pointwise bound", s["signs"], at + 1, zero=REFUSED, others=ANY)
    yield from each("pointwise bound", s["signs"], at + 1, [
        (float64(0.5), SAME), (float64(5e-324), SAME), (float64(1 - 2 ** -53), SAME),
        (float64(1.0), REFUSED), (float64(1.5), REFUSED)])
    for center in range(-140, 141, 1):
        yield ("center %d" % center, s["signs"],
               put(s["signs"], at + 9, struct.pack("<h", center)),
               REFUSED if abs(center) > 128 else SAME if center == 0 else TAKEN)
    # Signs: the mask delta, the bytes, and the bits behind the last value.
    signs = s["signs"]
    delta = at + 14
    yield from sweep("mask delta of signs", signs, delta, lambda v: REFUSED)
    yield from sweep("bytes of signs", signs, delta + 1, lambda v: REFUSED)
    yield from sweep("bytes of signs, byte 7", signs, delta + 8, lambda v: REFUSED)
    yield "signs behind the last value", signs, s["more signs"], SAME


def sign_symbol_cases(s):
    """Symbols of signs: bytes, and symbols that are not bytes."""
    for symbol in (1, 383, 384, 511, 513, 639, 640, 1023):
        low, high = min(symbol, 512), max(symbol, 512)
        lengths = [0] * (high - low + 2)
        lengths[symbol - low + 1] = lengths[512 - low + 1] = 1
        words = 0 if symbol < 512 else 0x80
        yield ("a symbol of signs of %d" % symbol, s["signs"],
               signs(struct.pack("<HH", low, high) + fields(lengths, 4), words),
               TAKEN if 384 <= symbol <= 639 else REFUSED)


def specials_cases(s):
    default, colored, listed = s["default"], s["colored"], s["listed specials"]
    yield from sweep("colors and mask delta", default, 39,
                     lambda v: REFUSED if v >> 4 not in (0, 2) or (v >> 4 and v & 15 != 1)
                     else ANY)
    yield ("a long ULEB of runs", colored, put(colored, 21, hexed("8300"), 1), SAME)
    yield "no runs", s["constant"], s["no runs"], SAME
    yield ("more runs than values", colored,
           constant([2], specials([(0, 0, 0)] * 3, [b"ABCD"])), REFUSED)
    yield ("runs that touch", colored,
           constant([100], specials([(3, 4, 0), (5, 2, 1), (0, 3, 1), (0, 0, 0)],
                                    [b"ABCD", b"EFGH"])), SAME)
    yield ("a run of all values", colored,
           constant([100], specials([(0, 99, 0)], [b"ABCD", b"EFGH"])), TAKEN)
    yield ("a run beyond", colored,
           constant([100], specials([(0, 100, 0)], [b"ABCD", b"EFGH"])), REFUSED)
    yield ("a run at the end", colored,
           constant([100], specials([(99, 0, 0)], [b"ABCD", b"EFGH"])), TAKEN)
    yield ("a run behind the end", colored,
           constant([100], specials([(100, 0, 0)], [b"ABCD", b"EFGH"])), REFUSED)
    yield ("a color that there is not", colored,
           constant([100], specials([(3, 4, 2)], [b"ABCD", b"EFGH"])), REFUSED)
    three = constant([100], specials([(3, 4, 0), (5, 6, 1), (0, 0, 0)],
                                     [b"ABCD", b"EFGH", b"IJKL"]))
    yield "a color that no run has", colored, three, SAME
    fifteen = specials([(3, 4, 0), (5, 6, 1), (0, 0, 0)], [b"ABCD", b"EFGH"] + [b"...."] * 13)
    yield "15 colors", colored, constant([100], fifteen), SAME
    yield ("two colors that are the same", colored,
           constant([100], specials([(3, 4, 0), (5, 6, 2), (0, 0, 0)],
                                    [b"ABCD", b"ABCD", b"EFGH"])), SAME)
    yield ("all specials in order", s["constant"], listed, TAKEN)
    yield from sweep("a value of those", listed, len(listed) - 1, lambda v: TAKEN)
    # Widths: one of a byte, wider than necessary, too wide.
    section = b"\x01\x01" + bytes([56]) + (3).to_bytes(7, "little") + b"\x08\x01" + b"ABCD"
    wide = constant([100], section)
    yield ("a width of 56", wide, constant([100], specials([(3, 1, 0)], [b"ABCD"])), SAME)
    for width in (57, 64, 128, 255):
        yield ("a width of %d" % width, wide,
               constant([100], b"\x01\x01" + bytes([width])
                        + (3).to_bytes((width + 7) // 8, "little") + b"\x08\x01" + b"ABCD"),
               REFUSED)
    narrow = constant([100], b"\x01\x01" + b"\x03\x03" + b"\x01\x01" + b"ABCD")
    yield "bits behind a group", narrow, constant(
        [100], b"\x01\x01" + b"\x03\xfb" + b"\x01\xff" + b"ABCD"), SAME
    # Mask deltas, in three bricks of 64 values.
    stack = s["mask delta"]
    yield from sweep("a mask delta of bricks", stack, 23,
                     lambda v: SAME if v in (0x21, 0x31, 0x41) else REFUSED if v >> 4 else ANY)
    yield ("a mask delta as long as the chunk", stack,
           put(stack, 5, b"\x01"), ANY)


def escape_cases(s):
    """The tails of the document's example, with all symbols turned into
    escapes with numbers of one byte."""
    tails = s["tails"]
    before, behind = tails[:40], tails[41:55]
    tile = hexed("01" "0112" "030105" "000000000000")  # six zeros a word, entry 18

    def stream(section):
        return before + section + behind + tile

    numbers = [1, 2, 3, 4, 5, 6, 7, 8]
    example = stream(b"\x08\x01" + bytes(numbers))
    yield "a long ULEB of escapes", example, stream(b"\x88\x00\x01" + bytes(numbers)), SAME
    for width in range(1, 9):
        yield ("numbers of %d bytes" % width, example,
               stream(b"\x08" + bytes([width])
                      + b"".join(n.to_bytes(width, "little") for n in numbers)), SAME)
    for width in range(9, 256):
        yield ("numbers of %d bytes" % width, example,
               stream(b"\x08" + bytes([width]) + bytes(8 * width)), REFUSED)
    words = b"".join((n // 2 if n % 2 == 0 else 2 ** 64 - (n + 1) // 2).to_bytes(8, "little")
                     for n in numbers)
    yield "words", example, stream(b"\x08\x00" + words), SAME
    for n in (0, 7, 9):
        yield ("%d escapes" % n, example,
               stream(bytes([n]) + (b"\x01" + bytes(n) if n else b"")), REFUSED)
    yield "no width", tails, put(tails, 40, b"\0\0", 1), REFUSED
    # Numbers of escapes in shifts and tails are ignored.
    yield ("tails of escapes", example, put(example, 33, b"\xff" * 7), SAME)
    yield ("low numbers of escapes", example,
           put(example, example.index(behind) + 3, b"\xff" * 11), SAME)


def low_bits_cases(s):
    exact, listed, tails = s["exact"], s["listed"], s["tails"]
    kinds, nbits, widths = 32, 33, 34
    yield from sweep("kinds", exact, kinds, lambda v: SAME if v & 3 == 1 else ANY)
    yield from sweep("low bits", exact, nbits,
                     lambda v: REFUSED if not 3 <= v <= 12 else TAKEN)
    yield from sweep("widths of groups", exact, widths,
                     lambda v: SAME if v & 15 == 3 else REFUSED)
    for width in range(13):
        fit = put(exact, nbits, bytes([12, width]) + bytes(4 * width), 14)
        yield ("low numbers of %d bits" % width, exact, fit, TAKEN)
    # A list: its number of codes, its widths, and its bits.
    def with_list(content):
        content = hexed(content)
        return put(listed, 33, len(content).to_bytes(2, "little") + content, 7)

    yield "a list in a wider field", with_list("0100" "10" "4200"), with_list(
        "0100" "07" "42"), SAME
    yield "bits behind a list's codes", with_list("0100" "07" "42"), with_list(
        "0100" "07" "c2"), SAME
    for width in ALL:
        yield ("a list's width of %d" % width, listed,
               with_list("0100" + "%02x" % width + "00" * ((width + 7) // 8)),
               TAKEN if width <= 16 else REFUSED)
    for bits in ALL:
        yield ("bits of a list: %#x" % bits, listed,
               with_list("0180" "10" "429c" "%02x" % bits), SAME if bits & 1 else REFUSED)
    yield "a list of no bytes", listed, with_list(""), REFUSED
    yield ("a list of no bytes, nor an escape", exact,
           put(put(exact, kinds, b"\x03"), widths + 1, b"\0\0", 0), REFUSED)
    for behind in (1, 2, 511, 512, 513, 600):
        yield ("%d bytes behind the bits of a list" % behind, listed,
               with_list("0180" "10" "429c" "01" + "00" * behind), REFUSED)
    for n in (0, 2, 3, 4096, 4097, 32767):
        ngroups = (n + 31) // 32
        yield ("a list of %d codes" % n, listed,
               with_list(struct.pack("<H", n).hex() + "00" * ngroups), REFUSED)
    # Tails.
    yield from sweep("width of tails", tails, 32, lambda v: REFUSED)
    for width in range(8):
        yield ("tails of %d bits" % width, tails,
               put(tails, 32, bytes([width]) + bytes(width), 8), TAKEN)


def shift_cases(s):
    """Lossless: the model, shifts, zeros, numbers, remainders."""
    example = s["lossless"]
    told, shift, remainders = 31, 32, 37
    yield from sweep("what is told of groups", example, told,
                     lambda v: REFUSED if v > 3 else ANY)
    yield from sweep("shift", example, shift,
                     lambda v: SAME if v & 31 == 1 else REFUSED)
    steps = put(example[:remainders] + example[48:], 27, b"\0")
    for w in range(32):
        yield ("a shift of %d" % w, steps,
               put(steps, shift, bytes([w]) + bytes(4 * w), 5), TAKEN if w < 31 else REFUSED)
    zeros = put(put(steps, told, b"\x03"), shift + 1, b"\0", 0)
    yield "no zeros", steps, zeros, SAME
    yield from sweep("zeros", zeros, shift + 1,
                     lambda v: SAME if v & 31 == 0 else TAKEN)
    yield ("a long ULEB of remainders", example,
           put(example, remainders, hexed("8a00"), 1), SAME)
    yield from sweep("bytes of remainders", example, remainders, lambda v: REFUSED)
    # 0 to 4, 6 to 10 and 12 to 31 have remainders; the last two of 80 bits
    # fill up.
    yield ("bits behind the last remainder", example,
           put(example, remainders + 10, bytes([example[remainders + 10] ^ 0x80])), SAME)


def reference_cases(s):
    references, copies = s["references"], s["copies"]
    yield "a long ULEB", references, put(references, 21, hexed("8200"), 1), SAME
    yield "a long ULEB of distances", references, put(references, 22, hexed("8a00"), 1), SAME
    yield "a long ULEB of differences", references, put(references, 33, hexed("9200"), 1), SAME
    yield from sweep("references", references, 21, lambda v: REFUSED)
    yield from sweep("bytes of distances", references, 22, lambda v: REFUSED)
    yield from sweep("bytes of differences", references, 33, lambda v: REFUSED)
    for at in (23, 34, 52):
        yield from sweep("coding within references", references, at, lambda v: REFUSED)
        yield from sweep("prediction within references", references, at + 1, lambda v: REFUSED)
    yield from sweep("dimensions of copies", copies, 18, lambda v: REFUSED)
    yield from sweep("coding of copied values", copies, 19,
                     lambda v: REFUSED)
    yield from sweep("prediction of copied values", copies, 20, lambda v: REFUSED)


def speed_cases(s):
    """Fields of the example, a stream of version 2 of one tile."""
    example = s["speed"]
    for name, at in (("version of speed", 4), ("kind", 26), ("a zero behind the kind", 27),
                     ("the last zero", 31), ("first place", 32), ("a zero behind the index", 36),
                     ("widths and flags", 40), ("second byte", 41), ("listed values", 42),
                     ("widths of two groups", 48), ("widths of groups without values", 51)):
        yield from sweep(name, example, at, lambda v: REFUSED)
    yield from sweep("base", example, 44, lambda v: TAKEN)
    yield from sweep("a width of more", example, 49,
                     lambda v: TAKEN if (v & 15) + (v >> 4) <= 3 else REFUSED)
    yield from sweep("differences", example, 52, lambda v: TAKEN)


def ranks_cases(s):
    """Streams of version 2: the example, and streams of 4 int16 that are made
    here."""
    example = s["ranks"]
    yield from sweep("version of ranks", example, 4, lambda v: REFUSED)
    yield "a long ULEB", example, put(example, 17, hexed("8200"), 1), SAME
    yield "a long ULEB of the table", example, put(example, 18, hexed("8a00"), 1), SAME
    yield from sweep("size of the table", example, 17, lambda v: REFUSED)
    yield from sweep("bytes of the table", example, 18, lambda v: REFUSED)
    for at in (19, 29):
        yield from sweep("coding within ranks", example, at, lambda v: REFUSED)
        yield from sweep("prediction within ranks", example, at + 1, lambda v: REFUSED)
    yield from sweep("a rank", example, 31, lambda v: TAKEN if v < 2 else REFUSED)
    yield from sweep("a rank, upper byte", example, 32, lambda v: REFUSED)
    for low, high, rises in ((b"\x00\x00\x00\x80", b"\x00\x00\x00\x00", True),
                             (b"\x00\x00\x00\x00", b"\x00\x00\x00\x80", False),
                             (b"\xff\xff\xff\xff", b"\x00\x00\x80\xff", True),
                             (b"\x00\x00\x80\x7f", b"\x01\x00\x80\x7f", True),
                             (b"\x00\x00\xc0\x3f", b"\x00\x00\xc0\x3f", False),
                             (b"\x00\x00\x10\x40", b"\x00\x00\xc0\x3f", False)):
        yield ("a table of %s, %s" % (low.hex(), high.hex()), example,
               put(example, 21, low + high), TAKEN if rises else REFUSED)

    def ranks(type_number, table, list_of, n=None, width=2, order=0):
        nbytes = len(table) // 2
        stream = bytes(frame(OTHER_TYPE | order, 12, 0, [4], bytes([type_number])))
        inner = b"\0\0" + table
        return (put(stream, 4, b"\x02") + uleb(n or nbytes) + uleb(len(inner)) + inner + b"\0\0"
                + b"".join(rank.to_bytes(width, "little") for rank in list_of))

    int16 = ranks(4, struct.pack("<3h", -5, 0, 7), (2, 0, 1, 1))
    yield ("signed values", int16,
           ranks(4, struct.pack("<3h", -32768, -1, 32767), (2, 0, 1, 1)), TAKEN)
    yield "signed values, big-endian", int16, ranks(4, struct.pack("<3h", -5, 0, 7), (2, 0, 1, 1),
                                                    order=BIG_ENDIAN), TAKEN
    yield "falling values", int16, ranks(4, struct.pack("<3h", 0, -5, 7), (2, 0, 1, 1)), REFUSED
    yield "unsigned values", int16, ranks(8, struct.pack("<3H", 5, 7, 40000), (2, 0, 1, 1)), TAKEN
    yield ("unsigned as signed", int16,
           ranks(4, struct.pack("<3H", 5, 7, 40000), (2, 0, 1, 1)), REFUSED)
    yield "a value without a rank", int16, ranks(4, struct.pack("<4h", -5, 0, 7, 9),
                                                 (2, 0, 1, 1)), SAME
    yield "more values than the chunk", int16, ranks(4, struct.pack("<5h", -5, 0, 7, 9, 11),
                                                     (2, 0, 1, 1)), REFUSED
    yield "one value", int16, ranks(4, struct.pack("<1h", -5), (0, 0, 0, 0)), REFUSED
    yield "bytes", int16, ranks(3, b"\1\2\3\4", (1, 0, 1, 1), n=4), REFUSED
    yield "complex values", int16, ranks(13, bytes(32), (1, 0, 1, 1), n=4), REFUSED
    yield "ranks of 32 bits", int16, ranks(4, struct.pack("<3h", -5, 0, 7), (2, 0, 1, 1),
                                           width=4), REFUSED
    copies = put(frame(0, 13, 0, [6, 2]), 4, b"\x02") + b"\x01"
    yield "ranks without copies", example, copies + example[6:8] + example[17:], TAKEN
    yield ("ranks in a stream of version 1", example,
           put(copies, 4, b"\x01") + example[6:8] + example[17:], REFUSED)
    yield ("ranks within ranks", example,
           example[:29] + b"\x0c\0\x02\x06\0\0" + bytes((0, 0, 1, 0)) + b"\0\0" + example[31:],
           REFUSED)
    # A chunk of 1 x 6 ranks that are all 0, and of 2 that are copies.
    yield ("constant ranks", example, example[:29] + b"\x01\0\x01" + struct.pack("<HBf", 0, 1, 0),
           ANY)
    yield ("copies within ranks", example, example[:29] + b"\x0d\0\x01" + b"\0\0\x01\0", REFUSED)
    references = s["references"]
    yield ("ranks within references", references,
           put(references[:-18] + b"\x0c\0" + s["ranks"][17:29] + b"\0\0" + bytes(8), 4, b"\x02"),
           REFUSED)


def grid_cases(s):
    """The example, and its streams with other heads."""
    example = s["grid"]
    width, mantissa, exponent, first, drift, table, numbers = 18, 19, 27, 29, 45, 53, 64
    yield from sweep("version of grid", example, 4, lambda v: REFUSED)
    yield from sweep("values of the table", example, 17, lambda v: REFUSED)
    yield from sweep("bytes of a number", example, width, lambda v: REFUSED)
    yield from sweep("upper byte of m", example, mantissa + 7,
                     lambda v: TAKEN if v >= 128 else REFUSED)
    yield from sweep("lower byte of m", example, mantissa, lambda v: ANY)

    def scaled(e):
        return put(example, exponent, struct.pack("<H", e + 4095))

    # The values lie between m 2^e and 6 m 2^e, where m is 0.8 times 2^64.
    for e, kind in ((-1085, TAKEN), (-1086, REFUSED), (957, TAKEN), (958, REFUSED),
                    (-4095, REFUSED), (4095, REFUSED), (4096, REFUSED), (61440, REFUSED)):
        yield "a step of 2^%d" % e, example, scaled(e), kind

    def integers(f, g=1):
        return put(example, first, struct.pack("<qQ", f, g))

    most = 1 << 61
    for f, g, kind in ((-3, 1, TAKEN), (most, 1, TAKEN), (-most, 1, TAKEN), (most + 1, 1, REFUSED),
                       (-most - 1, 1, REFUSED), (1, 0, REFUSED), (1, 7, TAKEN),
                       (-most, most // 5, TAKEN), (-most, most // 5 + 1, REFUSED),
                       (-most, most, REFUSED), (1, most + 1, REFUSED), (1, 1 << 63, REFUSED)):
        yield "first %d, gap %d" % (f, g), example, integers(f, g), kind
    for d, kind in ((1, TAKEN), (-7, TAKEN), (most // 6, TAKEN), (most // 6 + 1, REFUSED),
                    (-(most // 6), TAKEN), (-(most // 6) - 1, REFUSED), (most, REFUSED),
                    (-(1 << 63), REFUSED)):
        yield "drift %d" % d, example, put(example, drift, struct.pack("<q", d)), kind
    yield ("drift in a plane", example,
           put(example, 5, b"\x11")[:17] + b"\1" + put(example, drift, b"\1")[17:], REFUSED)
    yield ("a plane without drift", example, put(example, 5, b"\x11")[:17] + b"\1" + example[17:],
           SAME)
    for at in (table + 1, numbers):
        # The table of one value may be constant.
        yield from sweep("coding within a grid", example, at,
                         lambda v, at=at: SAME if v == 1 and at < numbers else REFUSED)
        yield from sweep("prediction within a grid", example, at + 1, lambda v: REFUSED)
    yield from sweep("a number", example, numbers + 2, lambda v: TAKEN)
    as_float32 = put(example, 5, b"\0", 1)
    yield ("float32", example,
           put(as_float32[:table] + b"\x06\0\0" + bytes(4) + as_float32[numbers:], 4, b"\2"), TAKEN)

    def table_of(*values):
        inner = b"\0\0" + struct.pack("<%dd" % len(values), *values)
        return (example[:17] + uleb(len(values)) + example[18:table] + uleb(len(inner)) + inner
                + example[numbers:])

    yield "a table of two", example, table_of(-1, 1), TAKEN
    yield "a falling table", example, table_of(1, -1), REFUSED
    yield "more values than the chunk", example, table_of(1, 2, 3, 4, 5, 6, 7), REFUSED
    yield "as many values", example, table_of(1, 2, 3, 4, 5, 6), TAKEN
    yield "integers", example, put(example, 5, b"\x30", 1)[:17] + b"\6" + example[17:], REFUSED


def columns_cases(s):
    """The example, and streams of 3 x 3 uint8 that are made here."""
    example = s["columns"]
    mask, first, second = 19, 21, 27
    yield from sweep("version of columns", example, 4, lambda v: REFUSED)
    yield "a long ULEB of a column", example, put(example, first, hexed("8500"), 1), SAME
    yield from sweep("groups", example, mask, lambda v: REFUSED)
    yield from sweep("groups, upper byte", example, mask + 1, lambda v: REFUSED)
    yield from sweep("size of a column", example, first, lambda v: REFUSED)
    for at in (first + 1, second):
        yield from sweep("coding within columns", example, at, lambda v: REFUSED)
        yield from sweep("prediction within columns", example, at + 1, lambda v: REFUSED)
    yield ("one group", example,
           put(example[:first], mask, b"\x01") + bytes((0, 0, 1, 1, 1, 2, 3, 4)), SAME)
    yield "a short table", example, example[:-1], REFUSED
    yield "a long table", example, example + b"\0", REFUSED

    def columns(dims, groups, bodies, layout=0, of_type=b"\x07"):
        stream = put(frame(OTHER_TYPE | layout, 11, 0, dims, of_type), 4, b"\x02")
        stream += groups.to_bytes(2, "little")
        for i, body in enumerate(bodies):
            last = i + 1 == len(bodies)
            stream += (b"" if last else uleb(len(body) + 2)) + b"\0\0" + body
        return stream

    rows = columns([3, 3], 7, (b"abc", b"def", b"ghi"))
    yield "two groups", rows, columns([3, 3], 5, (b"abcdef", b"ghi")), SAME
    yield "two other groups", rows, columns([3, 3], 3, (b"abc", b"defghi")), SAME
    yield "one group of three", rows, columns([3, 3], 1, (b"abcdefghi",)), SAME
    yield "no first group", rows, columns([3, 3], 6, (b"abc", b"defghi")), REFUSED
    yield "a group too many", rows, columns([3, 3], 15, (b"abc", b"def", b"ghi", b"")), REFUSED
    yield "three dims", rows, columns([3, 1, 3], 7, (b"abc", b"def", b"ghi")), TAKEN
    yield "four dims", rows, columns([1, 3, 1, 3], 3, (b"abc", b"defghi")), TAKEN
    yield "one dim", rows, columns([9], 1, (b"abcdefghi",)), REFUSED
    yield "a stack of tables", rows, columns([1, 3, 3], 7, (b"abc", b"def", b"ghi"), STACK), REFUSED
    yield "a column alone", rows, columns([9, 1], 1, (b"abcdefghi",)), REFUSED
    yield "16 columns", rows, columns([1, 16], 65535, [b"a"] * 16), TAKEN
    yield "17 columns", rows, columns([1, 17], 65535, [b"a"] * 15 + [b"bc"]), REFUSED
    yield "wide values", rows, columns([1, 3], 5, (b"abcd", b"ef"), BIG_ENDIAN, b"\x08"), TAKEN
    yield "columns of complex values", rows, columns([1, 2], 3, (bytes(8), bytes(8)), 0,
                                                     b"\x0d"), REFUSED
    copies = put(frame(OTHER_TYPE, 13, 0, [2, 3, 2], b"\x07"), 4, b"\x02") + b"\x04"
    yield "columns without copies", example, copies + example[6:8] + example[19:], TAKEN
    yield ("columns in a stream of version 1", example,
           put(copies, 4, b"\x01") + example[6:8] + example[19:], REFUSED)
    table, head = columns([3, 2, 2], 3, (b"abcdef", b"ghijkl")), columns([3, 2, 2], 3, ())
    for name, inner in (("columns", b"\x0b\0" + example[mask:]),
                        ("copies", b"\x0d\0\x01\0\0abc")):
        yield (name + " within columns", table, head + uleb(len(inner)) + inner + b"\0\0ghijkl",
               REFUSED)
    ranks = s["ranks"]
    of_type = put(frame(OTHER_TYPE, 12, 0, [3, 2], b"\x08"), 4, b"\x02")
    table = b"\x02\x06\0\0\1\0\2\0"
    yield ("columns within ranks", ranks, of_type + table + b"\x0b\0\3\0\x08\0\0" + bytes(6)
           + b"\0\0" + bytes(6), REFUSED)


def tile_cases(s):
    example, default, five = s["huffman"], s["default"], s["five"]
    bits, entries, control, offsets, lengths = 41, 42, 44, 45, 46
    yield from sweep("map of tiles", example, bits, lambda v: REFUSED)
    yield from sweep("number of entries", example, entries, lambda v: REFUSED)
    yield from sweep("entry", example, entries + 1,
                     lambda v: ANY if v < 75 else REFUSED)
    for n in range(2, 256):
        width = (n - 1).bit_length()
        numbers = bytes((width + 7) // 8)
        yield ("%d entries" % n, example,
               put(example, entries, bytes([n, 23]) + b"\xff" * (n - 1) + numbers, 2),
               SAME if n <= 75 else REFUSED)
    for number in range(8):
        yield ("entry %d of 3, and bits behind it" % number, example,
               put(example, entries, bytes([3, 23, 23, 99, number | 0xfc if number < 4 else 0xfc]),
                   2), SAME if number in (0, 1, 4, 5, 6, 7) else REFUSED)
    yield from sweep("control", example, control, lambda v: SAME if 3 < v < 9 else REFUSED)
    for width in range(128):
        packed = bytes((width + 7) // 8 or 1)
        packed = bytes([5]) + packed[1:]
        yield ("lengths of %d bits" % width, example,
               put(example, control, bytes([width, 1]) + packed, 3),
               SAME if 3 <= width <= 16 else REFUSED)
    yield from sweep("bytes of an offset", example, offsets, lambda v: SAME if v < 9 and v
                     else REFUSED)
    yield from sweep("length", example, lengths,
                     lambda v: SAME if v & 7 == 5 else REFUSED)
    # The end of a tile: bits of its last byte.
    yield from sweep("bits behind the last word", five, len(five) - 1,
                     lambda v: SAME if v < 8 else ANY)
    for flipped in (1, 2, 3):
        yield ("bits behind the last token, %d of them others" % flipped, default,
               default[:-1] + bytes([default[-1] ^ flipped]), REFUSED)
    yield "a byte behind words", five, put(five, len(five) - 3, b"\x01\x01\x01") + b"\0", REFUSED


def codebook_cases(s):
    """The codebook of signs, whose only symbol is 508."""
    base = s["more signs"]
    book = hexed("fc01 0002") + fields([0] + [1] + [0] * 3 + [1], 4)
    at = base.index(book)
    for i, name in enumerate(("low symbol", "low symbol, byte 1", "high symbol",
                              "high symbol, byte 1")):
        yield from sweep(name, base, at + i, lambda v: ANY if v == 0xfd else REFUSED)
    for low, high, is_book in ((0, 512, False), (1, 1023, True), (508, 1023, True), (1, 508, True),
                               (508, 1024, False), (509, 508, False), (1, 1, False)):
        number = [0] * (max(high - low, 0) + 2)
        if low <= 508 <= high:
            number[508 - low + 1] = 1
        yield ("symbols %d to %d" % (low, high), base,
               signs(struct.pack("<HH", low, high) + fields(number, 4), 0),
               SAME if is_book else REFUSED)
    # Kraft sums: below 1 a codebook is valid unless a symbol has no word;
    # above 1 it is refused.
    for escape in range(16):
        for one in range(16):
            is_book = (escape and 2.0 ** -escape) + (one and 2.0 ** -one) <= 1
            yield ("words of %d and %d bits" % (escape, one), base,
                   signs(struct.pack("<HH", 508, 508) + bytes([escape | one << 4]), 0),
                   SAME if is_book and one == 1 and escape != 1 else ANY if is_book else REFUSED)
    yield ("bits behind the lengths of words", base,
           signs(struct.pack("<HH", 508, 509) + hexed("10f0"), 0), SAME)
    yield ("a length behind those", base,
           signs(struct.pack("<HH", 508, 509) + hexed("1010"), 0), ANY)


def partition_cases(s):
    two, three, zero_map = s["partitions"], s["three partitions"], s["long map"]
    for width in range(256):
        at = struct.pack("<Q", 512)[:max(width, 2)] if width <= 8 else bytes(width)
        stream = partitioned()
        place = stream.index(CODE_0) + len(CODE_0) + 2
        yield ("offsets of %d bytes" % width, two,
               put(stream, place, bytes([width]) + at[:width].ljust(width, b"\0"), 3),
               SAME if 2 <= width <= 8 else REFUSED)
    for at in (0, 1, 511, 513, 1023, 1024, 1025, 65535):
        yield "an offset of %d" % at, two, partitioned(offsets=(at,)), REFUSED
    for first, second in ((1024, 512), (512, 512), (0, 1024), (512, 1536), (512, 1537), (0, 0)):
        yield ("offsets %d and %d" % (first, second), three,
               partitioned(kept=(0, 16, 32), ntiles=33, offsets=(first, second)), REFUSED)
    # Reduced partitions may have any length: 512 bytes of zeros are 128 words
    # that repeat.
    zeros = b"\0\0"  # which of the word map's 16 bytes differ
    none = partitioned(kept=(0, 16, 32), ntiles=33, controls=b"\x80\x80\x80",
                       offsets=(len(zeros), 2 * len(zeros)), payload=zeros * 3)
    yield "reduced partitions", three, none, SAME
    mixed = partitioned(kept=(0, 16, 32), ntiles=33, controls=b"\x80\0\x80",
                        offsets=(len(zeros), 512 + len(zeros)),
                        payload=zeros + bytes(512) + zeros)
    yield "reduced and other partitions", three, mixed, SAME
    yield ("a reduced partition of no bytes", three,
           partitioned(kept=(0, 16, 32), ntiles=33, controls=b"\x80\0\x80", offsets=(0, 512),
                       payload=bytes(512) + zeros), REFUSED)
    # A map of 9 bytes and its own map: repeated bytes are left out.
    yield "a map of zeros", zero_map, lorenzo(4096 * 65, b"\0\xfe"), SAME
    yield "a byte that is told though it repeats", zero_map, lorenzo(4096 * 65, b"\x01\0\0"), SAME
    yield "a map that ends", zero_map, lorenzo(4096 * 65, b"\x01\0"), REFUSED
    yield "a bit behind the last tile", zero_map, lorenzo(4096 * 65, b"\0\x01\x02"), REFUSED


def stage_cases(s):
    """Eight bytes in two words."""
    example = s["reduced"]
    yield "reduced", lorenzo(64, b"\x01" + CODE_0 + hexed("00 01") + bytes(8)), example, SAME
    none = reduced("00", "")
    yield "words that repeat", example, none, SAME
    yield "bits behind the map of words", none, reduced("fc", ""), SAME
    yield "a word that is told though it repeats", none, reduced("03", "00"), SAME
    yield "a byte that is told though it is zero", none, reduced("03", "01", b"\0"), SAME
    # One word fills up to eight bytes. Its upper bytes are ignored: 2^32 * 2.
    yield "bytes behind the last word", example, reduced("01", "20", b"\x02"), SAME
    yield "bytes behind the stages", example, reduced("01", "00", b"", b"\0"), REFUSED
    yield "no bytes of a word", example, reduced("01", "01"), REFUSED
    yield "no map of bytes", example, reduced("01", ""), REFUSED
    yield "no map of words", example, reduced("", ""), REFUSED
    # 62 values: the tile also has eight bytes, and bits behind its last word.
    short = lorenzo(62, b"\x01" + CODE_0 + hexed("80 01") + hexed("00"))
    yield ("the end of a tile that is reduced", short,
           lorenzo(62, b"\x01" + CODE_0 + hexed("80 01") + hexed("02 08") + b"\x06"), SAME)


def end_cases(s):
    """A stream that lacks its last byte or has one more is refused."""
    for name, stream in s.items():
        for n in range(5 if len(stream) < 2000 else len(stream) - 600, len(stream)):
            yield "%s, %d bytes of it" % (name, n), stream, stream[:n], REFUSED
        for behind in (b"\0", b"\xff", bytes(8)):
            yield name + " and more", stream, stream + behind, REFUSED


class FieldsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        document = pathlib.Path(os.environ["TEST_DOCUMENT"])
        blocks = re.findall(r"((?:^    (?:[0-9a-f]{2} ?)+\n)+)",
                            document.read_text(encoding="utf-8"), re.MULTILINE)
        streams = [stream for stream in map(bytes.fromhex, blocks)
                   if not stream.startswith(b"TERPR")]  # no containers
        cls.streams = dict(zip(EXAMPLES, streams))
        assert len(streams) == len(EXAMPLES)
        cls.streams.update(made_streams())

    def try_streams(self, streams):
        """The codec's results. make_pairs checks that the other decoder
        agrees."""
        done = subprocess.run(
            [os.environ["TEST_PAIRS"], "--try"], check=False, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            input=b"".join(struct.pack("<I", len(stream)) + stream for stream in streams))
        self.assertEqual((done.returncode, done.stderr), (0, b""), len(streams))
        return done.stdout.decode().splitlines()

    def check(self, cases):
        cases = list(cases)
        originals = list({case[1] for case in cases})
        said = dict(zip(originals, self.try_streams(originals)))
        try:
            found = self.try_streams([case[2] for case in cases])
        except AssertionError as error:
            at = re.search(r"stream (\d+)", str(error))
            self.fail("the decoders differ: %s" % (cases[int(at[1])][0] if at else error))
        for original in originals:
            self.assertRegex(said[original], "^[0-9a-f]{16}$", original.hex()[:200])
        for (title, original, changed, expected), got in zip(cases, found):
            is_taken = re.fullmatch("[0-9a-f]{16}", got) is not None
            is_same = got == said[original]
            with self.subTest(title, stream=changed.hex()[:300], got=got):
                if expected == REFUSED:
                    self.assertFalse(is_taken)
                elif expected == SAME:
                    self.assertTrue(is_same)
                elif expected == TAKEN:
                    self.assertTrue(is_taken)

    def test_frame(self):
        self.check(frame_cases(self.streams))

    def test_model(self):
        self.check(model_cases(self.streams))

    def test_carrier_and_complex_values(self):
        self.check(carrier_cases(self.streams))
        self.check(inner_cases(self.streams))

    def test_pointwise_and_signs(self):
        self.check(pointwise_cases(self.streams))
        self.check(sign_symbol_cases(self.streams))

    def test_specials(self):
        self.check(specials_cases(self.streams))

    def test_escapes(self):
        self.check(escape_cases(self.streams))

    def test_low_bits_and_tails(self):
        self.check(low_bits_cases(self.streams))

    def test_shifts_and_remainders(self):
        self.check(shift_cases(self.streams))

    def test_references_and_copies(self):
        self.check(reference_cases(self.streams))

    def test_speed(self):
        self.check(speed_cases(self.streams))

    def test_ranks(self):
        self.check(ranks_cases(self.streams))

    def test_grid(self):
        self.check(grid_cases(self.streams))

    def test_columns(self):
        self.check(columns_cases(self.streams))

    def test_tiles(self):
        self.check(tile_cases(self.streams))

    def test_codebooks(self):
        self.check(codebook_cases(self.streams))

    def test_partitions(self):
        self.check(partition_cases(self.streams))

    def test_stages(self):
        self.check(stage_cases(self.streams))

    def test_ends(self):
        self.check(end_cases(self.streams))


if __name__ == "__main__":
    unittest.main()
