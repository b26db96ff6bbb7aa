"""doc/format.md once more, as a program: a decoder that shares nothing with
the C code but codebooks/frequencies.c, which belongs to the document. Plain
rather than fast. Checksums are left to the C tests. ValueError: a stream is
not valid."""

import functools
import itertools
import math
import re

import numpy as np

RADIUS, ESCAPE, NSYMBOLS, MAX_NBITS = 512, 0, 1024, 15
TILE_NSYMBOLS, PARTITION_NTILES = 4096, 16
RAW, CONSTANT, HUFFMAN, CUSTOM, RATIO = 0, 1, 2, 3, 5
NRUN_CLASSES, NCODE_CLASSES = 24, 21
NCONTEXTS, NCONTEXT_LEVELS = 8, 3
SPLINE, LORENZO, LOSSLESS = 1, 2, 3
LORENZO_MEANS, LORENZO_EXACT, LORENZO_TAILS = 16, 32, 64  # beside dimensions
WIDE_RADIUS, LOW_MAX_NBITS, GROUP_NNUMBERS = 32768, 12, 256
# Types by their numbers, 16-bit floats as integers of their order.
TYPES = ("f4", "f8", "u1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8",
         "i2", "i2", "c8", "c16")
FLOAT16, BFLOAT16, COMPLEX64 = 11, 12, 13
COPIES, REFERENCES, PARTS = 13, 14, 15
REMAINDERS, MAGNITUDES = 1, 2  # forms of lossless prediction
REMAINDERS_NVALUES = 4096
BLEND_PAIRS, BLEND_FULL = 170, 255
LONG = 3
MEAN = 4
CLASSES = (1, 2, 4, 8, 3, 5, 6, 9, 10, 12, 7, 11, 13, 14, 15)
BOXES = {1: (4096, 1, 1, 1), 2: (64, 64, 1, 1), 3: (16, 16, 16, 1),
         4: (8, 8, 8, 8)}


def check(holds, what):
    if not holds:
        raise ValueError("%s is not valid" % what)


def unpack(data, n, width):
    """n numbers of a bit field array."""
    number = int.from_bytes(data, "little")
    return [number >> i * width & (1 << width) - 1 for i in range(n)]


def bit_array(data, n):
    return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[:n]


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if n > len(self.data) - self.at:
            raise ValueError("the stream ends too early")
        self.at += n
        return self.data[self.at - n:self.at]

    def rest(self):
        return self.take(len(self.data) - self.at)

    def uint(self, nbytes=1):
        return int.from_bytes(self.take(nbytes), "little")

    def uleb(self):
        value = 0
        for shift in range(0, 63, 7):
            byte = self.uint()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("a number of more than 63 bits")

    def expect_end(self):
        if self.at != len(self.data):
            raise ValueError("bytes are left over")

    def array(self, dtype, n):
        return np.frombuffer(self.take(n * np.dtype(dtype).itemsize), dtype)

    def packed(self, n, width):
        return unpack(self.take((n * width + 7) // 8), n, width)

    def bit_map(self, nbytes):
        if nbytes <= 8:
            return self.take(nbytes)
        return self.rre1(nbytes, self.bit_map((nbytes + 7) // 8))

    def rre1(self, nbytes, bit_map):
        differs = bit_array(bit_map, nbytes)
        kept = self.array("u1", int(differs.sum()))
        values = np.concatenate([np.zeros(1, np.uint8), kept])
        return values[np.cumsum(differs)].tobytes()


# ---- frame ----

class Frame:
    def __init__(self, reader):
        if reader.take(4) != b"TERP" or reader.uint() != 0:
            raise ValueError("not a terp stream of version 0")
        layout, self.coding, prediction = reader.take(3)
        reader.take(8)
        rank, width = (layout & 3) + 1, 1 << (layout >> 2 & 3)
        check(self.coding <= RATIO or COPIES <= self.coding <= PARTS, "coding")
        check(prediction & 0xF <= LOSSLESS
              and (prediction & 0x80 == 0 or prediction & 0xF == SPLINE)
              and (prediction & 0xF > 0) == (CONSTANT < self.coding <= RATIO),
              "prediction")
        self.order = ">" if layout & 0x40 else "<"
        self.prediction = prediction & 0xF
        self.has_specials = bool(prediction & 0x10)
        self.is_pointwise = bool(prediction & 0x40)
        check(self.coding <= RATIO or prediction == 0, "prediction of parts")
        check(not self.is_pointwise or self.coding > CONSTANT, "pointwise")
        dims = [reader.uint(width) for _ in range(rank)]
        number = layout >> 4 & 3
        if number == 3:
            number = reader.uint()
            check(3 <= number < len(TYPES), "type")
        self.type, self.number, self.layout = TYPES[number], number, layout
        self.is_carried = number > 2
        check(self.coding == RAW
              or (self.coding == PARTS) == (number >= COMPLEX64), "parts")
        check(self.coding == RAW or number != 2, "coding of bytes")
        self.take_domain(dims, layout)
        nvalues, own_dims = self.nvalues, dims
        if prediction & 0x20:
            check(self.coding not in (RAW, CONSTANT), "domain")
            other = reader.uint()
            check(other & 0x70 == 0, "domain")
            own = dims, layout & 0x80
            dims = [reader.uint(1 << (other >> 2 & 3))
                    for _ in range((other & 3) + 1)]
            check((dims, other & 0x80) != own, "domain")
            self.take_domain(dims, other)
            check(self.nvalues == nvalues, "domain")
        self.chunk_dims = own_dims
        if CONSTANT < self.coding <= RATIO:
            self.bound = float(reader.array("<f8", 1)[0])
            check(0 < self.bound < np.inf
                  or self.bound == 0 and self.prediction >= LORENZO, "bound")
        reader.take(24 if prediction & 0x80 else 0)

    def take_domain(self, dims, layout):
        check(not layout & 0x80 or len(dims) > 1, "rank of a stack")
        self.nbricks = dims[0] if layout & 0x80 else 1
        dims = dims[1:] if layout & 0x80 else dims
        self.rank = len(dims)
        self.dims = [1] * (4 - len(dims)) + dims  # slowest first
        self.nvalues = self.nbricks * int(np.prod(self.dims))


# ---- dictionary ----

def read_frequencies(path):
    """Per entry the frequencies of magnitudes 0 to 511 and of the escape."""
    with open(path, encoding="ascii") as file:
        table = file.read().split("= {", 1)[1]
    table = re.sub(r"/\*.*?\*/", "", table, flags=re.DOTALL)
    return [[int(n) for n in re.findall(r"\d+", entry)]
            for entry in re.findall(r"\{([^{}]*)\}", table)]


def number_class(i, nsingle):
    """First number and bits of a class of numbers."""
    if i < nsingle:
        return i, 0
    octave, half = divmod(i - nsingle, 2)
    nbits = nsingle.bit_length() - 2 + octave
    return (2 + half) << nbits, nbits


def token_classes(token):
    """First run and bits of it, first code (None: escape) and bits of it."""
    run, code = divmod(token, NCODE_CLASSES)
    if code == NCODE_CLASSES - 1:
        return *number_class(run, 4), None, 0
    first, nbits = number_class(code, 8)
    return *number_class(run, 4), first + 1, nbits


def symbol_weights(entry):
    return [entry[RADIUS]] + [entry[abs(s - RADIUS)]
                              for s in range(1, NSYMBOLS)]


def token_weights(entry):
    chances = [1 << 32]
    for _ in range(TILE_NSYMBOLS):
        chances.append(chances[-1] * (entry[0] << 8) >> 32)
    weights = []
    for token in range(NRUN_CLASSES * NCODE_CLASSES):
        run, run_nbits, code, code_nbits = token_classes(token)
        frequency = (entry[RADIUS] if code is None else
                     2 * sum(entry[code:min(code + (1 << code_nbits),
                                            RADIUS)]))
        chance = chances[run] - chances[run + (1 << run_nbits)]
        weights.append(max(chance * frequency, 1))
    return weights


def huffman_lengths(weights):
    """Package-merge; a symbol goes before a package of its weight."""
    symbols = sorted(range(len(weights)), key=lambda s: (weights[s], s))
    leaves = [(weights[s], True) for s in symbols]
    levels, packages = [], []
    for _ in range(MAX_NBITS):
        # Sorting is stable, and leaves come first.
        level = sorted(leaves + packages, key=lambda item: item[0])
        level = level[:2 * len(weights) - 2]
        levels.append(level)
        packages = [(level[i][0] + level[i + 1][0], False)
                    for i in range(0, len(level) - 1, 2)]
    nbits, ntaken = [0] * len(weights), 2 * len(weights) - 2
    for level in reversed(levels):
        nleaves = sum(is_leaf for _, is_leaf in level[:ntaken])
        for s in symbols[:nleaves]:
            nbits[s] += 1
        ntaken = 2 * (ntaken - nleaves)
    return nbits


def decode_table(nbits):
    """Symbol and length of the word that the next 15 bits begin with."""
    table, at = [None] * (1 << MAX_NBITS), 0
    for length, s in sorted((n, s) for s, n in enumerate(nbits) if n > 0):
        size = 1 << (MAX_NBITS - length)
        table[at:at + size] = [(s, length)] * size
        at += size
    check(at <= 1 << MAX_NBITS, "a codebook")
    return table


# ---- tiles ----

def decode_words(data, n, table):
    bits = np.unpackbits(np.frombuffer(data + b"\0\0", np.uint8))
    nwindows = len(bits) - MAX_NBITS + 1
    windows = np.zeros(nwindows, np.int64)
    for i in range(MAX_NBITS):
        windows = 2 * windows + bits[i:i + nwindows]
    windows, at, symbols = windows.tolist(), 0, []
    for _ in range(n):
        check(at < nwindows and table[windows[at]], "a codeword")
        symbol, length = table[windows[at]]
        symbols.append(symbol)
        at += length
    check((at + 7) // 8 == len(data), "a tile's length")
    return np.array(symbols)


def decode_tokens(data, n, table):
    bits = "".join(f"{byte:08b}" for byte in data)
    symbols, at, i = np.full(n, RADIUS), 0, 0

    def take(nbits):
        nonlocal at
        at += nbits
        if at > len(bits):
            raise ValueError("a tile ends within a token")
        return int("0" + bits[at - nbits:at], 2)

    while len(bits) - at >= 8 or "0" in bits[at:]:
        token, length = table[int((bits[at:] + "0" * 15)[:MAX_NBITS], 2)]
        take(length)
        run, run_nbits, code, code_nbits = token_classes(token)
        i += run + take(run_nbits)
        check(i < n, "a run")
        if code is None:
            symbols[i] = ESCAPE
        else:
            sign = -1 if take(1) else 1
            magnitude = code + take(code_nbits)
            check(magnitude < RADIUS, "a magnitude")
            symbols[i] = RADIUS + sign * magnitude
        i += 1
    return symbols


def expand_partition(data, nbytes):
    """The inverse of RRE4-TCMS8-RZE1."""
    reader, nwords = Reader(data), (nbytes + 3) // 4
    words_kept = bit_array(reader.bit_map((nwords + 7) // 8), nwords)
    nlong = (int(words_kept.sum()) + 1) // 2
    bytes_kept = bit_array(reader.bit_map(nlong), 8 * nlong)
    longs = np.zeros(8 * nlong, np.uint8)
    longs[bytes_kept == 1] = reader.array("u1", int(bytes_kept.sum()))
    reader.expect_end()
    longs = longs.view("<u8")
    longs = longs >> np.uint64(1) ^ (0 - (longs & np.uint64(1)))
    words = np.concatenate([np.zeros(1, "<u4"), longs.view("<u4")])
    return words[np.cumsum(words_kept)].tobytes()[:nbytes]


def read_books(reader, coding, ntiles, frequencies):
    """A table for each of the tiles that are not zero tiles."""
    if coding == CUSTOM:
        low, high = reader.uint(2), reader.uint(2)
        check(1 <= low <= high < NSYMBOLS, "a codebook's range")
        lengths = reader.packed(high - low + 2, 4)
        nbits = [0] * NSYMBOLS
        nbits[ESCAPE], nbits[low:high + 1] = lengths[0], lengths[1:]
        return [decode_table(nbits)] * ntiles
    used = list(reader.take(reader.uint()))
    width = (len(used) - 1).bit_length()
    check(1 <= len(used) <= len(frequencies), "the number of entries")
    numbers = reader.packed(ntiles, width)
    check(all(i < len(used) and used[i] < len(frequencies)
              for i in numbers), "an entry")
    weights = token_weights if coding == RATIO else symbol_weights
    tables = {i: decode_table(huffman_lengths(weights(frequencies[used[i]])))
              for i in set(numbers)}
    return [tables[i] for i in numbers]


def read_tiles(reader, coding, nsymbols, frequencies):
    """All symbols in tile order."""
    ntiles = -(-nsymbols // TILE_NSYMBOLS)
    sizes = [min(TILE_NSYMBOLS, nsymbols - i * TILE_NSYMBOLS)
             for i in range(ntiles)]
    bits = bit_array(reader.bit_map((ntiles + 7) // 8), -(-ntiles // 8) * 8)
    check(not bits[ntiles:].any(), "the bit map of tiles")
    tiles = np.flatnonzero(bits).tolist()
    symbols = np.full(nsymbols, RADIUS)
    if not tiles:
        reader.expect_end()
        return symbols
    books = dict(zip(tiles, read_books(reader, coding, len(tiles),
                                       frequencies)))
    partitions = {}
    for tile in tiles:
        partitions.setdefault(tile // PARTITION_NTILES, []).append(tile)
    controls = reader.take(len(partitions))
    offset_nbytes = reader.uint()
    check(1 <= offset_nbytes <= 8, "an offset's width")
    check(all(control & 0x7F <= 16 for control in controls), "a width")
    begins = [0] + [reader.uint(offset_nbytes) for _ in controls[1:]]
    lengths = {}
    for control, members in zip(controls, partitions.values()):
        numbers = reader.packed(len(members), control & 0x7F)
        for tile, number in zip(members, numbers):
            least = 1 if coding == RATIO else (sizes[tile] + 7) // 8
            lengths[tile] = least + number
            check(lengths[tile] <= (11776 if coding == RATIO else 7680),
                  "a length")
    payload = reader.rest()
    ends = begins[1:] + [len(payload)]
    check(all(begin <= end for begin, end in zip(begins, ends)), "an offset")
    for control, members, begin, end in zip(controls, partitions.values(),
                                            begins, ends):
        data = payload[begin:end]
        if control & 0x80:
            data = expand_partition(data, sum(lengths[t] for t in members))
        part = Reader(data)
        for tile in members:
            code = part.take(lengths[tile])
            at = tile * TILE_NSYMBOLS
            symbols[at:at + sizes[tile]] = (
                decode_tokens(code, sizes[tile], books[tile])
                if coding == RATIO
                else decode_words(code, sizes[tile], books[tile]))
        part.expect_end()
    return symbols


# ---- orders: arrays of points are [brick][dim 3][dim 2][dim 1][dim 0] ----

def spline_nlevels(dims):
    return (max(dims) - 1).bit_length()


def class_slices(level, odd):
    """Where the points of a class stand in the whole array."""
    stride = 1 << level - 1
    return (slice(None),) + tuple(
        slice(stride if odd >> d & 1 else 0, None, 2 * stride)
        for d in (3, 2, 1, 0))


def boxes(points, rank):
    """Points of an array, box by box."""
    extent = BOXES[rank][::-1]
    listed = [np.zeros(0, np.int64)]
    for brick in points:
        grid = [range(0, n, e) for n, e in zip(brick.shape, extent)]
        for corner in np.array(np.meshgrid(*grid, indexing="ij")
                               ).reshape(4, -1).T:
            box = tuple(slice(at, at + e) for at, e in zip(corner, extent))
            listed.append(brick[box].reshape(-1))
    return np.concatenate(listed)


def point_orders(frame):
    """Places in C order of the symbols as listed, and of the escapes."""
    points = np.arange(frame.nvalues).reshape(frame.nbricks, *frame.dims)
    if frame.prediction >= LORENZO:
        return boxes(points, frame.rank), points.reshape(-1)
    listed = [points[:, 0, 0, 0, 0]]
    work = [points[:, 0, 0, 0, 0]]
    for level in range(spline_nlevels(frame.dims), 0, -1):
        for odd in CLASSES:
            places = points[class_slices(level, odd)]
            listed.append(boxes(places, frame.rank))
            work.append(places.reshape(-1))
    return np.concatenate(listed), np.concatenate(work)


def contexts_of(weights, level, odd, shape):
    """Contexts of a class's points by the weights of even points."""
    even = weights[class_slices(level, 0)]
    total = np.zeros(shape, np.int64)
    for corner in range(16):
        if corner & ~odd:
            continue
        at = even
        for d in range(4):
            axis = 4 - d
            places = np.arange(shape[axis]) + (corner >> d & 1)
            at = np.take(at, np.minimum(places, even.shape[axis] - 1), axis)
        total += at
    total *= 16 >> bin(odd).count("1")
    widths = np.ceil(np.log2(total + 1)).astype(int)
    return np.where(total == 0, 0, np.clip(widths - 2, 1, NCONTEXTS - 1))


def place_by_context(frame, special, unit, sorted_codes, codes):
    """Codes in C order of those in context order. A code is the escape's
    where it is the least there is. `unit` is None unless codes are wide."""
    points = np.arange(frame.nvalues).reshape(frame.nbricks, *frame.dims)
    weights = np.zeros(points.shape, np.int64)

    def weigh(places):
        weight = 4 * abs(codes[places])
        if unit is not None:
            weight = np.floor(np.sqrt(weight >> unit)).astype(np.int64)
        weights.reshape(-1)[places] = np.minimum(weight, 252)

    at = frame.nbricks
    anchors = points[:, 0, 0, 0, 0]
    codes[anchors] = sorted_codes[:at]
    weigh(anchors)
    for level in range(spline_nlevels(frame.dims), 0, -1):
        listed, contexts = [], []
        for odd in CLASSES:
            places = points[class_slices(level, odd)]
            listed.append(boxes(places, frame.rank))
            found = np.zeros(places.shape, int)
            if level <= NCONTEXT_LEVELS and places.size > 0:
                found = contexts_of(weights, level, odd, places.shape)
                found[special[places]] = NCONTEXTS
            contexts.append(boxes(found, frame.rank))
        listed, contexts = np.concatenate(listed), np.concatenate(contexts)
        listed = listed[np.argsort(contexts, kind="stable")]
        codes[listed] = sorted_codes[at:at + len(listed)]
        at += len(listed)
        weights //= 2
        weigh(listed)


# ---- prediction ----

def step_of(dtype, step):
    return dtype.type(min(step, float(np.finfo(dtype).max) / 2048))


def predict_along(even, nodd, axis, kind, dtype):
    """Predictions from the even points along an axis, and their orders."""
    even = np.moveaxis(even, axis, 0)
    neven = len(even)
    number = dtype.type
    predictions, orders = [], []
    for i in range(nodd):
        has_a, has_c, has_d = i > 0, i + 1 < neven, i + 2 < neven
        is_six = kind == LONG and i >= 2 and i + 3 < neven
        is_eight = is_six and i >= 3 and i + 4 < neven
        a = even[i - 1] if has_a else None
        b = even[i]
        c = even[i + 1] if has_c else None
        d = even[i + 2] if has_d else None
        if not has_c:
            order, p = ((1, number(1.5) * b - number(0.5) * a) if has_a
                        else (0, b))
        elif kind == MEAN and i >= 3 and i + 4 < neven:
            order = 4
            p = (((b + c) + (a + d))
                 + ((even[i - 2] + even[i + 3]) + (even[i - 3] + even[i + 4]))
                 ) * number(0.125)
        elif kind in (2, MEAN) or not (has_a or has_d):
            order, p = 2, (b + c) * number(0.5)
        elif not has_d:
            order = 3
            p = (number(6) * b + number(3) * c - a) * number(0.125)
        elif not has_a:
            order = 3
            p = (number(3) * b + number(6) * c - d) * number(0.125)
        elif is_six:
            order = 4
            y, u = even[i - 2], even[i + 3]
            if is_eight:
                z, v = even[i - 3], even[i + 4]
                p = (((number(1225) * (b + c) - number(245) * (a + d))
                      + (number(49) * (y + u) - number(5) * (z + v)))
                     * number(2.0 ** -11))
            else:
                p = (((number(150) * (b + c) - number(25) * (a + d))
                      + number(3) * (y + u)) * number(2.0 ** -8))
        elif kind != 1:
            order = 4
            p = (number(9) * (b + c) - (a + d)) * number(0.0625)
        else:
            order = 4
            p = ((number(23) * (b + c) - number(3) * (a + d))
                 * number(1 / 40))
        predictions.append(p)
        orders.append(order)
    shape = [1] * 5
    shape[axis] = nodd
    return (np.moveaxis(np.array(predictions, dtype), 0, axis),
            np.array(orders).reshape(shape))


def spline_of(plan):
    """And the priorities."""
    kind, priorities = plan[0] >> 6, plan[1]
    return ((MEAN, 0) if kind == LONG and priorities == BLEND_PAIRS
            else (kind, priorities))


def predict_class(values, level, odd, kind, priorities):
    shape = values[class_slices(level, odd)].shape
    priority = {d: priorities >> 2 * d & 3 for d in range(4) if odd >> d & 1}
    highest = max(priority.values())
    along = []
    for d in (3, 2, 1, 0):
        if d in priority and priority[d] == highest:
            even = values[class_slices(level, odd & ~(1 << d))]
            along.append(predict_along(even, shape[4 - d], 4 - d, kind,
                                       values.dtype))
    best = np.zeros(shape, int)
    for _, orders in along:
        best = np.maximum(best, orders)
    total, n = np.zeros(shape, values.dtype), np.zeros(shape, int)
    for prediction, orders in along:
        counts = orders == best
        total = np.where(counts, np.where(n == 0, prediction,
                                          total + prediction), total)
        n = n + counts
    shares = np.array([1, 1, 1 / 2, 1 / 3, 1 / 4], values.dtype)
    average = np.where(n > 1, total * shares[n], total)
    if priorities not in (BLEND_PAIRS, BLEND_FULL) or len(priority) not in (
            2, 3):
        return average
    dims = [d for d in (3, 2, 1, 0) if odd >> d & 1]
    if kind != LONG:
        return np.where(is_inside(values, level, odd, dims),
                        blend_class(values, level, odd, dims, priorities),
                        average)
    others, fastest = dims[:-1], dims[-1]
    below = odd & ~(1 << fastest)
    even = values[class_slices(level, below)]
    missed = even - blend_class(values, level, below, others, priorities)
    along, _ = predict_along(missed, shape[4 - fastest], 4 - fastest, kind,
                             values.dtype)
    blended = along + blend_class(values, level, odd, others, priorities)
    return np.where(is_inside(values, level, odd, others), blended, average)


def is_inside(values, level, odd, dims):
    """Whether points of a class have an even point above in `dims`."""
    shape = values[class_slices(level, odd)].shape
    inside = np.ones(shape, bool)
    for d in dims:
        nbelow = values[class_slices(level, odd & ~(1 << d))].shape[4 - d] - 1
        axis_shape = [1] * 5
        axis_shape[4 - d] = -1
        inside &= (np.arange(shape[4 - d]) < nbelow).reshape(axis_shape)
    return inside


def blend_class(values, level, odd, dims, priorities):
    """What linear interpolants along odd dimensions predict of a class. At far
    ends it says nothing."""
    dtype = values.dtype.type
    shape = values[class_slices(level, odd)].shape

    def around(differing):
        """Points that differ in these dimensions, slowest first."""
        lack = sum(1 << d for d in differing)
        found = []
        for above in itertools.product((0, 1), repeat=len(differing)):
            at = values[class_slices(level, odd & ~lack)]
            for d, up in zip(differing, above):
                places = np.arange(shape[4 - d]) + up
                at = np.take(at, np.minimum(places, at.shape[4 - d] - 1),
                             4 - d)
            found.append(at)
        while len(found) > 1:  # neighbours first
            found = [a + b for a, b in zip(found[::2], found[1::2])]
        return found[0]

    faces = functools.reduce(np.add, [around((d,)) for d in dims])
    if len(dims) == 1:
        return faces * dtype(0.5)
    edges = functools.reduce(np.add, [
        around(pair) for pair in itertools.combinations(dims, 2)])
    if len(dims) == 3 and priorities == BLEND_PAIRS:
        return faces * dtype(1 / 3) - edges * dtype(1 / 12)
    blended = faces * dtype(0.5) - edges * dtype(0.25)
    if len(dims) == 3:
        blended = blended + around(dims) * dtype(0.125)
    return blended


def reconstruct_spline(frame, model, codes, escaped, values):
    """`values` holds the escaped ones."""
    dtype = values.dtype
    prediction = model["reference"]
    step = step_of(dtype, model["step"])
    for brick in range(frame.nbricks):
        at = (brick, 0, 0, 0, 0)
        if not escaped[at]:
            values[at] = prediction + dtype.type(codes[at]) * step
        prediction = values[at]
    for level, plan in zip(range(len(model["plans"]), 0, -1), model["plans"]):
        step = step_of(dtype, model["step"] * (((plan[0] & 63) + 1) / 64))
        for odd in CLASSES:
            at = class_slices(level, odd)
            if values[at].size == 0:
                continue
            predicted = predict_class(values, level, odd, *spline_of(plan))
            predicted = predicted + codes[at].astype(dtype) * step
            values[at] = np.where(escaped[at], values[at], predicted)


def read_escapes(reader, frame, model, dtype):
    """As words of the type."""
    word = np.dtype("<u%d" % dtype.itemsize)
    n = reader.uleb()
    nbytes = reader.uint() if n > 0 else 0
    check(nbytes <= dtype.itemsize and n <= frame.nvalues, "an escape")
    if nbytes == 0:
        return reader.array(word, n)
    numbers = np.zeros((n, 8), np.uint8)
    numbers[:, :nbytes] = reader.array("u1", n * nbytes).reshape(n, nbytes)
    numbers = numbers.view("<u8").reshape(n)
    numbers = numbers >> np.uint64(1) ^ (0 - (numbers & np.uint64(1)))
    numbers = numbers.astype(word)
    if frame.prediction >= LORENZO:
        return numbers
    nsteps = numbers.view("<i%d" % dtype.itemsize).astype(dtype)
    values = model["reference"] + nsteps * step_of(dtype, model["step"])
    return values.view(word)


def add_means(integers, axis):
    """From means of a hierarchy, in place."""
    lines = np.moveaxis(integers, axis, 0)
    signed = np.dtype("i%d" % lines.dtype.itemsize)
    n = len(lines)
    for level in range((n - 1).bit_length() - 1, -1, -1):
        step = 1 << level
        for i in range(step, n, 2 * step):
            near = [lines[i + k * step] for k in (-7, -5, -3, -1, 1, 3, 5, 7)
                    if 0 <= i + k * step < n]
            total = sum(near[1:], near[0]) + lines.dtype.type(len(near) // 2)
            lines[i] += (total.view(signed) // len(near)).view(lines.dtype)


def means_dim(frame, dims):
    """The dimension along which means were taken, if any."""
    if not dims & LORENZO_MEANS:
        return None
    slowest = max(d for d in range(4) if frame.dims[3 - d] > 1)
    if (frame.has_specials or slowest == 0
            or not dims >> slowest & 1 or frame.dims[3 - slowest] < 8):
        raise ValueError("means where none may be")
    return slowest


def exact_exponents(dtype):
    """That by which all values are counted, the least other one, the most."""
    return (-149, -126, 103) if dtype.itemsize == 4 else (-1074, -1022, 970)


def exact_words(integers, dtype, significand, nzeros, exponent):
    """The words of values that exact quants stand for."""
    word = integers.dtype.type
    top = word(1 << 8 * dtype.itemsize - 1)
    negative = integers & top != 0
    magnitudes = np.where(negative, 0 - integers, integers)
    step = dtype.type(significand * 2.0 ** exponent)
    count = word(0 if exponent == exact_exponents(dtype)[0] else
                 1 << (23 if dtype.itemsize == 4 else 52) - nzeros)
    first = np.array(dtype.type(count) * step).view(integers.dtype)
    steps = (magnitudes.astype(dtype) * step).view(integers.dtype)
    words = np.where(magnitudes < count, steps,
                     first + ((magnitudes - count) << word(nzeros)))
    return np.where(negative, words | top, words)


def reconstruct_lorenzo(model, tails, codes, escaped, special, values):
    """`values` holds the escaped differences."""
    word = np.dtype("u%d" % values.dtype.itemsize)
    integers = (codes.astype(word) << word.type(model["tail_nbits"])) + tails
    integers = np.where(escaped, values.view(word), integers)
    if model["means"] is not None:
        add_means(integers, 4 - model["means"])
    for d in range(4):
        if model["dims"] >> d & 1 and d != model["means"]:
            integers[special] = 0
            integers = np.cumsum(integers, axis=4 - d, dtype=word)
    if model["exact"] is not None:
        values.view(word)[...] = exact_words(integers, values.dtype,
                                             *model["exact"])
        return
    integers = integers.view("i%d" % word.itemsize)
    values[...] = (integers.astype(values.dtype)
                   * step_of(values.dtype, model["step"]))


# ---- lossless prediction ----

def read_lossless(reader, unit, dtype):
    dims, form, nzeros = reader.take(3)
    exponent = int(reader.array("<i2", 1)[0])
    of_all, least, most = exact_exponents(dtype)
    word = "<u%d" % dtype.itemsize
    check(dims >> 4 & ~dims == 0, "dimensions")
    check(form < 8 and form & 3 <= MAGNITUDES, "a form")
    check(nzeros <= (23 if dtype.itemsize == 4 else 52), "a number of zeros")
    check(exponent == of_all or least <= exponent <= most, "an exponent")
    check(unit is None, "the unit of contexts")
    center = reader.array(word, 1)[0] if form & 4 else np.dtype(word).type(0)
    return {"dims": dims, "form": form & 3, "nzeros": nzeros,
            "exponent": exponent, "center": center, "means": None,
            "exact": None}


def read_shifts(reader, nvalues, word):
    """The shift and the zeros of each value's group, and what is below its
    code."""
    sizes = group_sizes(nvalues)
    width = 5 if word.itemsize == 4 else 6
    has = reader.uint()
    check(has < 4, "what is told of groups")
    shifts, zeros = [reader.packed(len(sizes), width) if has >> i & 1
                     else [0] * len(sizes) for i in range(2)]
    check(max(shifts, default=0) <= 8 * word.itemsize - 2, "a shift")
    below = [number for n, shift in zip(sizes, shifts)
             for number in reader.packed(n, shift)]
    return [np.repeat(np.array(numbers, word), sizes)
            for numbers in (shifts, zeros)] + [np.array(below, word)]


def bit_length(words):
    lengths = np.zeros(words.shape, np.int64)
    for i in range(8 * words.itemsize):
        lengths[words >> words.dtype.type(i) > 0] = i + 1
    return lengths


def lossless_words(model, integers, valid, dtype, section):
    """The words of values, of integers and the section of remainders."""
    word = integers.dtype.type
    top = word(1 << 8 * dtype.itemsize - 1)
    integers = integers + model["center"]
    nzeros = word(model["nzeros"])
    of_all = exact_exponents(dtype)[0]
    step = dtype.type(1 if model["exponent"] == of_all
                      else 2.0 ** model["exponent"])
    if model["form"] == MAGNITUDES:
        center = np.array(step).view(integers.dtype)
        sign = integers & word(1)
        return ((integers >> word(1)) + center) % top | sign * top
    negative = integers & top != 0
    magnitudes = np.where(negative, 0 - integers, integers)
    count = word(0 if model["exponent"] == of_all else
                 (1 << (23 if dtype.itemsize == 4 else 52)) >> model["nzeros"])
    first = np.array(dtype.type(count) * step).view(integers.dtype)

    def least_word(magnitudes):
        steps = (magnitudes.astype(dtype) * step).view(integers.dtype)
        return np.where(magnitudes < count, steps,
                        first + ((magnitudes - count) << nzeros))

    words = least_word(magnitudes)
    sign = negative
    if model["form"] == REMAINDERS:
        last = least_word(magnitudes + word(1)) - word(1) - words
        nbits = bit_length(last >> nzeros) + (magnitudes == 0)
        nbits[(magnitudes >= count) | ~valid] = 0
        numbers = read_remainders(section, nbits, integers.dtype)
        is_zero = (magnitudes == 0) & (count > 0)
        sign = np.where(is_zero, numbers & word(1) == 1, negative)
        words = words + (np.where(is_zero, numbers >> word(1), numbers)
                         << nzeros)
    return np.where(sign, words | top, words)


def read_remainders(section, nbits, word):
    numbers = []
    for at in range(0, len(nbits), REMAINDERS_NVALUES):
        widths = nbits[at:at + REMAINDERS_NVALUES].tolist()
        bits = int.from_bytes(section.take((sum(widths) + 7) // 8), "little")
        for width in widths:
            numbers.append(bits & (1 << width) - 1)
            bits >>= width
    section.expect_end()
    return np.array(numbers, np.uint64).astype(word)


def reconstruct_lossless(model, groups, codes, escaped, special, section,
                         values):
    """`values` holds the escaped differences."""
    word = np.dtype("u%d" % values.dtype.itemsize)
    integers = np.zeros(values.size, word)
    valid = ~special.reshape(-1)
    shifts, zeros, below = groups
    half = (word.type(1) << shifts) >> word.type(1)
    integers[valid] = ((codes.reshape(-1)[valid].astype(word) << shifts)
                       + below - half) << zeros
    integers = np.where(escaped, values.view(word),
                        integers.reshape(values.shape))
    for d in range(4):
        for order in 2, 1:
            if model["dims"] >> (d + 4 * (order - 1)) & 1 == 0:
                continue
            integers[special] = 0
            lines = np.moveaxis(integers, 4 - d, 0)[order - 1:]
            lines[...] = np.cumsum(lines, axis=0, dtype=word)
    integers[special] = 0
    words = lossless_words(model, integers.reshape(-1), valid, values.dtype,
                           section)
    values.reshape(-1).view(word)[...] = words


# ---- sections ----

def read_model(reader, frame, dtype):
    wide, step_slack_log2 = divmod(reader.uint(), 16)
    check(1 <= step_slack_log2 <= 12, "the step slack")
    check(wide <= LOW_MAX_NBITS + 1, "the unit of contexts")
    unit = wide - 1 if wide > 0 else None
    taken = 2 * frame.bound
    for _ in range(step_slack_log2):
        taken *= 0.5
    step = 2 * frame.bound - taken
    model = {"step": step, "unit": unit}
    if frame.prediction == LORENZO:
        dims = reader.uint()
        check(dims < 2 * LORENZO_TAILS, "a dimension")
        check(frame.bound > 0 or dims & LORENZO_EXACT, "bound")
        model.update(dims=dims, means=means_dim(frame, dims),
                     exact=(read_exact(reader, dtype)
                            if dims & LORENZO_EXACT else None),
                     tail_nbits=(read_tail_nbits(reader, unit, dtype)
                                 if dims & LORENZO_TAILS else 0))
        return model
    if frame.prediction == LOSSLESS:
        model.update(read_lossless(reader, unit, dtype))
        return model
    reference = reader.array(dtype, 1)[0]
    plans = [reader.take(2) for _ in range(spline_nlevels(frame.dims))]
    model.update(reference=reference, plans=plans)
    return model


def read_exact(reader, dtype):
    """Significand, zeros, exponent."""
    significand, nzeros = reader.take(2)
    exponent = int(reader.array("<i2", 1)[0])
    of_all, least, most = exact_exponents(dtype)
    check(significand > 0, "a significand")
    check(nzeros <= (23 if dtype.itemsize == 4 else 52), "a number of zeros")
    check(exponent == of_all or least <= exponent <= most, "an exponent")
    return significand, nzeros, exponent


def read_tail_nbits(reader, unit, dtype):
    tail_nbits = reader.uint()
    check(1 <= tail_nbits <= 8 * dtype.itemsize - 16 and
          unit == LOW_MAX_NBITS, "the number of tails' bits")
    return tail_nbits


def group_sizes(n):
    return [min(GROUP_NNUMBERS, n - at) for at in range(0, n, GROUP_NNUMBERS)]


def read_groups(reader, sizes, widths, max_width):
    """The numbers of groups."""
    check(max(widths) <= max_width, "a group's width")
    return np.concatenate([np.array(reader.packed(n, width), np.int64)
                           for n, width in zip(sizes, widths)])


def integers_of(numbers):
    """What low numbers and tail numbers stand for."""
    return np.where(numbers % 2 == 1, -(numbers + 1) // 2, numbers // 2)


def read_tails(reader, model, nvalues, word):
    """The tail of each value's difference, in C order."""
    tail_nbits = model.get("tail_nbits", 0)
    if tail_nbits == 0:
        return np.zeros(nvalues, word)
    sizes = group_sizes(nvalues)
    numbers = read_groups(reader, sizes, reader.take(len(sizes)), tail_nbits)
    return integers_of(numbers).astype(word)


class LowBits:
    """What the section of low bits has of a tile."""

    def __init__(self, reader, kind, nsymbols):
        self.nbits, self.list_nbytes = 0, 0
        self.sizes = group_sizes(nsymbols)
        self.widths = [0] * len(self.sizes)
        if kind & 1:
            self.nbits = reader.uint()
            check(1 <= self.nbits <= LOW_MAX_NBITS, "the number of low bits")
            self.widths = reader.packed(len(self.sizes), 4)
        if kind & 2:
            self.list_nbytes = reader.uint(2)
            check(self.list_nbytes > 0, "a list's length")

    def read(self, reader):
        self.numbers = read_groups(reader, self.sizes, self.widths, self.nbits)
        self.list = reader.take(self.list_nbytes)

    def join(self, symbols):
        """Codes of the tile's symbols; an escape's is -WIDE_RADIUS."""
        codes = (symbols - RADIUS) * (1 << self.nbits)
        codes += integers_of(self.numbers)
        escaped = np.flatnonzero(symbols == ESCAPE)
        codes = np.clip(codes, 1 - WIDE_RADIUS, WIDE_RADIUS - 1)
        codes[escaped] = -WIDE_RADIUS
        if self.list_nbytes > 0:
            listed, places = self.read_list(Reader(self.list), escaped)
            codes[places] = np.clip(integers_of(listed), 1 - WIDE_RADIUS,
                                    WIDE_RADIUS - 1)
        return codes

    def read_list(self, reader, escaped):
        """The numbers of listed codes, and their places."""
        head = reader.uint(2)
        n, places = head & 0x7FFF, escaped
        check(1 <= n <= TILE_NSYMBOLS, "a list's number of codes")
        sizes = [min(32, n - at) for at in range(0, n, 32)]
        numbers = read_groups(reader, sizes, reader.take(len(sizes)), 16)
        if head & 0x8000:
            check(len(escaped) > 0, "a list's bits")
            bits = np.array(reader.packed(len(escaped), 1), bool)
            places = escaped[bits]
        reader.expect_end()
        check(len(places) == n, "a list's number of codes")
        return numbers, places


def read_low_bits(reader, nsymbols):
    """What there is of each tile."""
    sizes = [min(TILE_NSYMBOLS, nsymbols - at)
             for at in range(0, nsymbols, TILE_NSYMBOLS)]
    kinds = reader.packed(len(sizes), 2)
    tiles = [LowBits(reader, kind, n) for kind, n in zip(kinds, sizes)]
    for tile in tiles:
        tile.read(reader)
    return tiles


def join_codes(symbols, tiles):
    """Codes of the tiles' symbols; an escape's is the least there is, -RADIUS
    or, of wide codes, -WIDE_RADIUS."""
    if tiles is None:
        return symbols - RADIUS
    return np.concatenate([
        tile.join(symbols[i * TILE_NSYMBOLS:(i + 1) * TILE_NSYMBOLS])
        for i, tile in enumerate(tiles)])


def read_list(reader, n):
    numbers = []
    while len(numbers) < n:
        width = reader.uint()
        check(width <= 56, "a width")
        numbers += reader.packed(min(64, n - len(numbers)), width)
    return numbers


def read_specials(reader, frame, word):
    """Places and words of special values."""
    nruns, byte = reader.uleb(), reader.uint()
    ncolors, delta_dim = byte & 15, byte >> 4
    check(delta_dim == 0 or (ncolors == 1 and delta_dim <= 4), "a mask delta")
    check(nruns <= frame.nvalues, "the number of runs")
    gaps = read_list(reader, nruns)
    lengths = [more + 1 for more in read_list(reader, nruns)]
    colors = read_list(reader, nruns) if ncolors > 1 else [0] * nruns
    check(sum(gaps) + sum(lengths) <= frame.nvalues, "a run")
    check(all(color < max(ncolors, 1) for color in colors), "a color")
    ends = np.cumsum(np.add(gaps, lengths), dtype=np.int64)
    places = np.concatenate(
        [np.zeros(0, np.int64)] +
        [np.arange(end - n, end) for end, n in zip(ends, lengths)])
    if delta_dim > 0:
        distance = int(np.prod(frame.dims[4 - delta_dim:]))
        check(64 <= distance < frame.nvalues, "a mask delta")
        mask = np.zeros(-(-frame.nvalues // distance) * distance, bool)
        mask[places] = True
        mask = np.logical_xor.accumulate(mask.reshape(-1, distance))
        mask = mask.reshape(-1)
        places = np.flatnonzero(mask[:frame.nvalues])
        return places, reader.array(word, 1)[0]
    if ncolors == 0:
        return places, reader.array(word, len(places))
    return places, reader.array(word, ncolors)[np.repeat(colors, lengths)]


# ---- bounds relative to each value ----

EXP_F32 = [float.fromhex(text) for text in """
    0x1.62e430p-1 0x1.ebfbe0p-3 0x1.c6af6cp-5 0x1.3b2a54p-7 0x1.5f0890p-10
    0x1.44138ap-13""".split()]
EXP_F64 = [float.fromhex(text) for text in """
    0x1.62e42fefa39efp-1 0x1.ebfbdff82c598p-3 0x1.c6b08d704a0c2p-5
    0x1.3b2ab6fba1ddap-7 0x1.5d87fe78a5276p-10 0x1.430913096fd9fp-13
    0x1.ffcbfc670dcd4p-17 0x1.62bfd47773353p-20 0x1.b524fae627834p-24
    0x1.e6063f7217bc6p-28 0x1.e9d3fe3952179p-32""".split()]


LOG2_E = float.fromhex("0x1.71547652b82fep+0")
def round_to_half(values, number):
    """The words of the nearest finite values of a 16-bit type."""
    words = values.view("<u4").astype("u8")
    sign, words = words >> 16 & 0x8000, words & 0x7FFFFFFF
    sign[words > 0x7F800000] = 0
    if number == BFLOAT16:
        rounded = words + 0x7FFF + (words >> 16 & 1) >> 16
        largest = 0x7F7F
    else:
        magnitudes = words.astype("<u4").view("<f4").astype("f8")
        with np.errstate(all="ignore"):
            rounded = np.minimum(magnitudes, 65504).astype("<f2")
        rounded, largest = rounded.view("<u2").astype("u8"), 0x7BFF
    return (sign | np.minimum(rounded, largest)).astype("<u2")


class Carrier:
    """What stands for values of other types than float32 and float64; for
    these, they themselves."""

    def __init__(self, reader, frame):
        self.type, self.form = np.dtype("<" + frame.type), 0
        self.dtype, self.half = self.type, 0
        if not frame.is_carried:
            return
        byte = reader.uint()
        self.form, scale_nbytes = byte & 3, (byte >> 4) + 1
        self.half = frame.number if frame.number >= FLOAT16 else 0
        if self.form == 0:
            check(byte == 0 and self.half, "a carrier")
            bound = float(reader.array("<f8", 1)[0])
            check(0 <= bound < np.inf, "a carrier's bound")
            self.dtype = np.dtype("<f4")
            return
        check(byte & 0x8C == 0, "a carrier")
        check(not frame.is_pointwise, "a pointwise bound")
        self.dtype = np.dtype("<f4" if self.form == 1 else "<f8")
        self.offset = int(reader.array(self.type, 1)[0])
        self.scale = reader.uint(scale_nbytes)
        check(self.scale > 0, "a scale")

    def values_of(self, coded):
        """Values, those of 16-bit floats as words."""
        if self.form == 0:
            return round_to_half(coded, self.half) if self.half else coded
        integers = self.integers_of(coded)
        if not self.half:
            return integers
        words = integers.view("<u2")
        return np.where(words & 0x8000, words ^ 0x7FFF, words)

    def integers_of(self, coded):
        limits = np.iinfo(self.type)
        most = {1: 1 << 24, 2: 1 << 53, 3: (1 << 63) - 1}[self.form]
        low = -min((self.offset - int(limits.min)) // self.scale, most)
        high = min((int(limits.max) - self.offset) // self.scale, most)
        if self.form == 3:
            words = coded.reshape(-1).view("<u8").tolist()
            numbers = [-(w & most) if w >> 63 else w for w in words]
        else:
            y = np.where(coded > low, coded, low).astype("f8")
            y = np.where(y < high, y, high).reshape(-1)
            rest = np.abs(y) - np.floor(np.abs(y))
            nearest = np.floor(np.abs(y)) + (rest > 0.5)
            numbers = [int(n) for n in np.copysign(nearest, y).tolist()]
        values = [self.offset + self.scale * min(max(n, low), high)
                  for n in numbers]
        return np.array(values, self.type).reshape(coded.shape)


class Pointwise:
    """What a stream says of such a bound; without one, as if it was form 0."""

    def __init__(self, reader, frame, chunk_type):
        self.form = self.signs = self.center = 0
        self.slope = None
        self.chunk_type = chunk_type
        if frame.is_pointwise:
            byte = reader.uint()
            self.form, self.signs = byte & 3, byte >> 2 & 3
            check(byte < 32 and self.form < 3 and self.signs < 3, "a form")
            check(self.form > 0 or self.signs == 0, "signs")
            bound = float(reader.array("<f8", 1)[0])
            check(0 < bound < 1, "a pointwise bound")
        most = 128 if chunk_type.itemsize == 4 else 1024
        if self.form > 0:
            self.center = int(reader.array("<i2", 1)[0])
            check(abs(self.center) <= most, "a center")
        if frame.is_pointwise and byte & 16:
            floor, self.shift = reader.array("<f8", 2)
            with np.errstate(all="ignore"):
                joint = floor / np.float64(bound)
            check(self.form > 0 and self.signs == 0, "a floor")
            check(0 < floor < np.inf and 0 < self.shift <= 2, "a floor")
            check(2.0 ** (4 - most) <= joint <= 2.0 ** (most - 3), "a joint")
            self.slope = joint / LOG2_E
        self.dtype = (self.chunk_type if self.form == 0
                      else np.dtype("<f4" if self.form == 1 else "<f8"))

    def values_of(self, coded):
        """The values of what was coded, but for their signs."""
        if self.form == 0:
            return coded
        if self.slope is None:
            return self.powers_of(coded)
        number, chunk = self.dtype.type, self.chunk_type.type
        magnitudes = np.abs(coded)
        both = number if self.form == 1 and chunk == np.float32 else np.float64
        multiples = (magnitudes.astype(both) * both(self.slope)).astype(chunk)
        values = np.where(magnitudes <= number(LOG2_E), multiples,
                          self.powers_of(magnitudes - number(self.shift)))
        return np.where(coded < 0, -values, values)

    def powers_of(self, coded):
        """Powers of two, and of the center."""
        number, chunk = self.dtype.type, self.chunk_type.type
        narrow = self.chunk_type.itemsize == 4
        low = number((-125 if narrow else -1021) - self.center)
        high = number((128 if narrow else 1024) - self.center)
        rounder = number(1.5 * 2.0 ** (23 if self.form == 1 else 52))
        y = np.where(coded > low, coded, low)
        y = np.where(y < high, y, high)
        n = (y + rounder) - rounder
        r = y - n
        coefficients = EXP_F32 if self.form == 1 else EXP_F64
        q = np.full(y.shape, number(coefficients[-1]))
        for coefficient in reversed(coefficients[:-1]):
            q = number(coefficient) + r * q
        p = number(1) + r * q
        wide = not narrow or self.form == 2
        p = p.astype("f8" if wide else "f4")
        word = "u8" if wide else "u4"
        exponents = n.astype("i8") + self.center
        shifted = (exponents.astype(word) << p.dtype.type(0).view(word).dtype
                   .type(52 if wide else 23))
        values = (p.view(word) + shifted).view(p.dtype)
        largest = p.dtype.type(np.finfo(chunk).max)
        return np.where(values < largest, values, largest).astype(chunk)


def read_signs(reader, frame, frequencies):
    """Whether each value is negative."""
    delta_dim, nbytes = reader.uint(), reader.uint(8)
    section = Reader(reader.take(nbytes))
    check(delta_dim <= 4, "a mask delta")
    distance = int(np.prod(frame.dims[4 - delta_dim:]))
    check(delta_dim == 0 or 64 <= distance < frame.nvalues, "a mask delta")
    codes = read_tiles(section, CUSTOM, (frame.nvalues + 7) // 8,
                       frequencies) - RADIUS
    check(codes.min() >= -128 and codes.max() <= 127, "a byte of signs")
    bits = bit_array(codes.astype("i1").tobytes(), frame.nvalues)
    if delta_dim == 0:
        return bits == 1
    padded = np.zeros(-(-frame.nvalues // distance) * distance, bool)
    padded[:frame.nvalues] = bits
    padded = np.logical_xor.accumulate(padded.reshape(-1, distance))
    return padded.reshape(-1)[:frame.nvalues]


def decode_parts(reader, frame, frequencies):
    """The chunk of complex values, of streams of its parts."""
    bound = float(reader.array("<f8", 1)[0])
    check(0 <= bound < np.inf, "a bound of parts")
    real = reader.take(reader.uleb())
    width = 1 << (frame.layout >> 2 & 3)
    layout = frame.layout & 0x8F | frame.number - COMPLEX64 << 4
    dims = b"".join(n.to_bytes(width, "little") for n in frame.chunk_dims)
    parts = []
    for part in real, reader.rest():
        check(len(part) >= 2 and part[1] & 0x80 == 0, "a part")
        data = decode(b"TERP\0" + bytes([layout]) + part[:2] + bytes(8)
                      + dims + part[2:], frequencies)
        parts.append(np.frombuffer(data, "<f4" if frame.type == "c8"
                                   else "<f8"))
        check(len(parts[-1]) == frame.nvalues, "a part's size")
    pairs = np.stack(parts, axis=1)
    return pairs.astype(pairs.dtype.newbyteorder(frame.order)).tobytes()


def decode_references(reader, frame, frequencies):
    """The chunk of values some of which repeat earlier ones."""
    size = np.dtype(frame.type).itemsize
    word = np.dtype("<u%d" % size)
    marker, n = reader.array(word, 1)[0], reader.uleb()
    check(0 < n <= frame.nvalues, "the number of references")
    width = 1 << (frame.layout >> 2 & 3)
    nwidth = next(i for i in range(4) if n >> 8 * (1 << i) == 0)
    line = n.to_bytes(1 << nwidth, "little")
    dims = b"".join(i.to_bytes(width, "little") for i in frame.chunk_dims)
    own = bytes([frame.number]) if frame.is_carried else b""
    heads = ((0x30 | nwidth << 2, line + bytes([9])),   # uint32
             (0x30 | nwidth << 2, line + bytes([6])),   # int64
             (frame.layout & 0xBF, dims + own))
    parts = []
    for i, (layout, behind) in enumerate(heads):
        part = reader.rest() if i == 2 else reader.take(reader.uleb())
        check(len(part) >= 2 and part[0] not in (COPIES, REFERENCES)
              and part[1] & 0x80 == 0, "a part")
        parts.append(decode(b"TERP\0" + bytes([layout]) + part[:2] + bytes(8)
                            + behind + part[2:], frequencies))
    distances = np.frombuffer(parts[0], "<u4").astype(np.int64)
    differences = np.frombuffer(parts[1], "<i8")
    words = np.frombuffer(parts[2], word).copy()
    places = np.flatnonzero(words == marker)
    check(len(distances) == len(differences) == len(places) == n,
          "the number of references")
    check((distances > 0).all() and (distances <= places).all(), "a distance")
    sources = words[places - distances]
    check((sources != marker).all(), "a source")
    if frame.number in (0, 1, FLOAT16, BFLOAT16):
        top = word.type(1 << 8 * size - 1)
        signs = sources & top ^ (differences & 1).astype(word) * top
        words[places] = ((sources & ~top) + (differences >> 1).astype(word)
                         ) & ~top | signs
    else:
        words[places] = sources + differences.astype(word)
    return words.astype(word.newbyteorder(frame.order)).tobytes()


def decode_copies(reader, frame, frequencies):
    """The chunk that is the same along some dimensions."""
    dims, shape = reader.array("u1", 1)[0], list(frame.chunk_dims)
    rank = len(shape)
    copied = [dims >> rank - 1 - i & 1 for i in range(rank)]
    check(dims > 0 and dims >> rank == 0 and frame.layout >> 7 == 0,
          "dimensions of copies")
    check(all(n > 1 for n, is_copied in zip(shape, copied) if is_copied),
          "a dimension of copies")
    left = [n for n, is_copied in zip(shape, copied) if not is_copied] or [1]
    width = next(i for i in range(4) if max(left) >> 8 * (1 << i) == 0)
    line = b"".join(n.to_bytes(1 << width, "little") for n in left)
    own = bytes([frame.number]) if frame.is_carried else b""
    part = reader.rest()
    check(len(part) >= 2 and part[0] != COPIES and part[1] & 0x80 == 0,
          "values of copies")
    layout = frame.layout & 0x70 | width << 2 | len(left) - 1
    values = decode(b"TERP\0" + bytes([layout]) + part[:2] + bytes(8) + line
                    + own + part[2:], frequencies)
    word = np.dtype("V%d" % (len(values) // math.prod(left)))
    single = [1 if is_copied else n for n, is_copied in zip(shape, copied)]
    return np.broadcast_to(np.frombuffer(values, word).reshape(single),
                           shape).tobytes()


def forget(frame, nskipped, tiled):
    """Symbols of the finest levels become any, but the escape."""
    n = frame.nbricks
    for extent in frame.dims:
        n *= -(-extent >> nskipped)
    tiled[n:] = 77


def decode(stream, frequencies, nskipped=0):
    """The bytes of a stream's chunk. Those values are right that need none of
    the finest nskipped levels, which a spline's stream must have."""
    reader = Reader(stream)
    frame = Frame(reader)
    if frame.coding == RAW:
        return reader.rest()
    if frame.coding == PARTS:
        return decode_parts(reader, frame, frequencies)
    if frame.coding == REFERENCES:
        return decode_references(reader, frame, frequencies)
    if frame.coding == COPIES:
        return decode_copies(reader, frame, frequencies)
    carrier = Carrier(reader, frame)
    word = np.dtype("<u%d" % carrier.type.itemsize)
    values = np.zeros((frame.nbricks, *frame.dims), carrier.dtype)
    places, exact = np.zeros(0, np.int64), []
    if frame.coding == CONSTANT:
        values.reshape(-1).view("<u%d" % values.itemsize)[:] = reader.array(
            "<u%d" % values.itemsize, 1)[0]
        if frame.has_specials:
            places, exact = read_specials(reader, frame, word)
        reader.expect_end()
    else:
        pointwise = Pointwise(reader, frame, carrier.dtype)
        dtype = pointwise.dtype
        model = read_model(reader, frame, dtype)
        if frame.has_specials:
            places, exact = read_specials(reader, frame, word)
        negative = np.full(frame.nvalues, pointwise.signs == 1)
        if pointwise.signs == 2:
            negative = read_signs(reader, frame, frequencies)
        tails = read_tails(reader, model, frame.nvalues,
                           np.dtype("<u%d" % dtype.itemsize))
        groups = section = None
        if frame.prediction == LOSSLESS:
            groups = read_shifts(reader, frame.nvalues - len(places),
                                 np.dtype("u%d" % dtype.itemsize))
            if model["form"] == REMAINDERS:
                section = Reader(reader.take(reader.uleb()))
        values = np.zeros(values.shape, dtype)
        words = values.reshape(-1).view("<u%d" % dtype.itemsize)
        with np.errstate(all="ignore"):
            escapes = read_escapes(reader, frame, model, dtype)
        listed, work = point_orders(frame)
        codes = np.zeros(frame.nvalues, np.int64)
        unit = model["unit"]
        low_bits = (None if unit is None
                    else read_low_bits(reader, frame.nvalues))
        tiled = join_codes(
            read_tiles(reader, frame.coding, frame.nvalues, frequencies),
            low_bits)
        if nskipped > 0:
            forget(frame, nskipped, tiled)
        if frame.coding == RATIO:
            special = np.zeros(frame.nvalues, bool)
            special[places] = True
            place_by_context(frame, special, unit, tiled, codes)
        else:
            codes[listed] = tiled
        escaped = codes == -(RADIUS if unit is None else WIDE_RADIUS)
        check(escaped.sum() == len(escapes)
              or nskipped > 0 and escaped.sum() < len(escapes), "an escape")
        words[work[escaped[work]]] = escapes[:escaped.sum()]
        codes = codes.reshape(values.shape)
        escaped = escaped.reshape(values.shape)
        with np.errstate(all="ignore"):
            if frame.prediction == LORENZO:
                special = np.zeros(frame.nvalues, bool)
                special[places] = True
                reconstruct_lorenzo(model, tails.reshape(values.shape), codes,
                                    escaped, special.reshape(values.shape),
                                    values)
            elif frame.prediction == LOSSLESS:
                special = np.zeros(frame.nvalues, bool)
                special[places] = True
                reconstruct_lossless(model, groups, codes, escaped,
                                     special.reshape(values.shape), section,
                                     values)
            else:
                reconstruct_spline(frame, model, codes, escaped, values)
            values = pointwise.values_of(values)
        values = values.astype(carrier.dtype, copy=False)
        values.reshape(-1)[negative] *= -1
    values = carrier.values_of(values)
    values.reshape(-1).view(word)[places] = exact
    return values.astype(frame.order + frame.type, copy=False).tobytes()
