/* A decoder of terp streams, version 1: one file of C99 that asks for nothing
 * but the C library, which an archive can keep beside its data. It follows
 * doc/format.md, whose sections its own are named after, and shares no line
 * with the codec; tests hold the two against each other. It is not fast, and
 * decodes one stream at a time, in one thread.
 *
 *   cc -O2 -DTERP_READER_MAIN -o terp_decode terp_decode.c -lm
 *   ./terp_decode STREAM VALUES
 *
 * makes a program that writes the values of the stream in a file to another
 * file, as they were in memory. Without the definition this is a library of one
 * function; define TERP_READER_HEADER to include what declares it. */
#ifndef TERP_READER_H
#define TERP_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum terp_reader_status {
    TERP_READER_OK = 0,
    TERP_READER_DAMAGED,   /* not a valid stream of version 1 */
    TERP_READER_CAPACITY,  /* the values need more bytes than there are */
    TERP_READER_MEMORY,    /* the C library has no more memory */
    TERP_READER_ARITHMETIC /* this program does not round as IEEE 754 does */
};

/* What a stream holds: `rank` dims, slowest first, of which with `stack` the
 * first counts bricks. The numbers of types are the document's. */
struct terp_reader_chunk {
    uint64_t type, value_nbytes, rank, dims[4], nvalues;
    bool big_endian, stack;
};

/* Says what a stream of any bytes holds and, unless `values` is NULL, decodes it, with
 * some 60 bytes of memory a value. What is in `values` says nothing where it fails. */
enum terp_reader_status terp_reader_decode(const void *stream, size_t nbytes,
                                           struct terp_reader_chunk *chunk_ret,
                                           void *values, size_t values_cap_nbytes);

#endif
#ifndef TERP_READER_HEADER

/* GCC for x86 of 32 bits would use registers with more digits than doubles. */
#if defined(__GNUC__) && defined(__i386__) && !defined(__clang__)
#pragma GCC target("sse2,fpmath=sse")
#endif

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

/* ---- bytes, numbers, bit field arrays ---- */

#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define MOST(a, b) ((a) > (b) ? (a) : (b))
#define DIVIDED_UP(a, b) ((a) / (b) + ((a) % (b) != 0))
#define POWER(n) (UINT64_C(1) << (n))
#define ONES(n) (UINT64_MAX >> (64 - (n))) /* n bits, at least 1 */
#define BIT(bytes, i) ((bytes)[(i) / 8] >> (i) % 8 & 1)
#define BYTES_LEFT ((uint64_t)(in.end - in.at))

/* The integer v that 2v, or -2v - 1, stands for; modulo 2^64. */
#define UNFOLDED(n) ((n)&1 ? ~((n) >> 1) : (n) >> 1)

/* Where the running call goes when it cannot go on, and why; its memory; and
 * the bytes that it has not read, of the first of which `nbits` bits are. */
static jmp_buf refused;
static enum terp_reader_status status;
static void **blocks; /* each begins with where the next one is */
static struct input {
    const uint8_t *at, *end;
    uint64_t nbits;
} in;

static void require_or(bool holds, enum terp_reader_status otherwise)
{
    status = otherwise;
    if (!holds) longjmp(refused, 1);
}

/* Every rule of the document goes through here. */
#define require(rule) require_or(rule, TERP_READER_DAMAGED)

/* Zeros, until the call ends. */
static void *reserve(uint64_t count, size_t size)
{
    const size_t n = (size_t)count + 16; /* with room for that */
    void **block = count < SIZE_MAX / 2 ? calloc(n, size) : NULL;
    status = TERP_READER_MEMORY;
    if (block == NULL) longjmp(refused, 1);
    block[0] = blocks;
    blocks = block;
    return block + 2;
}

/* Whole bytes; what is left of one of which bits were taken says nothing. */
static const uint8_t *take(uint64_t nbytes)
{
    in.at += DIVIDED_UP(in.nbits, 8);
    in.nbits = 0;
    require(nbytes <= BYTES_LEFT);
    in.at += nbytes;
    return in.at - nbytes;
}

/* Turns to other bytes, and back to those before when these are all read. */
static struct input enter(const uint8_t *bytes, uint64_t nbytes)
{
    const struct input outer = in;
    const uint8_t *at = nbytes > 0 ? bytes : (const uint8_t *)""; /* not NULL + 0 */
    in = (struct input){at, at + nbytes, 0};
    return outer;
}

static void leave(struct input outer)
{
    require(take(0) == in.end);
    in = outer;
}

static uint64_t load(const uint8_t *at, uint64_t nbytes)
{
    uint64_t value = 0;
    while (nbytes > 0) value = value << 8 | at[--nbytes];
    return value;
}

static void store(uint8_t *at, uint64_t nbytes, uint64_t value)
{
    for (; nbytes > 0; nbytes--, value >>= 8) *at++ = (uint8_t)value;
}

/* How many bits a number has. */
static uint64_t width_of(uint64_t number)
{
    return number == 0 ? 0 : 1 + width_of(number / 2);
}

/* The same bytes in the other order. */
static uint64_t swapped(uint64_t value, uint64_t nbytes)
{
    const uint64_t rest = nbytes > 1 ? swapped(value >> 8, nbytes - 1) : 0;
    return (value & 255) << 8 * (nbytes - 1) | rest;
}

#define take_number(nbytes) load(take(nbytes), nbytes)

static uint64_t take_within(uint64_t nbytes, uint64_t least, uint64_t most)
{
    const uint64_t number = take_number(nbytes);
    require(number >= least && number <= most);
    return number;
}

/* Of at most so many bytes. */
static uint64_t take_uleb(uint64_t nbytes)
{
    const uint64_t byte = take_within(1, 0, nbytes > 1 ? 255 : 127);
    return byte < 128 ? byte : (byte & 127) | take_uleb(nbytes - 1) << 7;
}

/* A number of n bits: the lowest of it and of each byte first, or the highest. */
static uint64_t take_bits(uint64_t n, bool highest_first)
{
    uint64_t value = 0;
    require(n <= 8 * BYTES_LEFT - in.nbits);
    for (uint64_t i = 0; i < n; i++, in.nbits++)
        if (highest_first)
            value = value << 1 | BIT(in.at, in.nbits ^ 7);
        else
            value |= (uint64_t)BIT(in.at, in.nbits) << i;
    return value;
}

/* n numbers in groups, bit field arrays of `widths`, or of what a byte before each
 * says. */
static uint64_t *take_groups(uint64_t n, uint64_t group, const uint64_t *widths,
                             uint64_t most)
{
    uint64_t *numbers = reserve(n, sizeof *numbers), width = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (i % group == 0) {
            take(0);
            width = widths != NULL ? widths[i / group] : take_number(1);
            require(width <= most);
        }
        numbers[i] = take_bits(width, false);
    }
    take(0);
    return numbers;
}

/* In one group. */
#define take_fields(n, width) take_groups(n, UINT64_MAX, (uint64_t[]){width}, 64)

/* ---- checksum: XXH3 of 64 bits, seeded; xxhash's doc/xxhash_spec.md ---- */

static const uint64_t default_secret[24] = {
    0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
    0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
    0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
    0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
    0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
    0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af};

static const uint64_t prime32[] = {0x9e3779b1, 0x85ebca77, 0xc2b2ae3d};
static const uint64_t prime64[] = {0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f,
                                   0x165667b19e3779f9, 0x85ebca77c2b2ae63,
                                   0x27d4eb2f165667c5};
static const uint64_t prime_mx[] = {0x165667919e3779f9, 0x9fb21c651e98df25};

#define WORD(at) load(at, 8)

/* The high half of a product, xor the low one. */
static uint64_t folded(uint64_t a, uint64_t b)
{
    const uint64_t half = 0xffffffff, low = (a & half) * (b & half);
    const uint64_t mid = (a >> 32) * (b & half) + (low >> 32);
    const uint64_t cross = (a & half) * (b >> 32) + (mid & half);
    return ((a >> 32) * (b >> 32) + (mid >> 32) + (cross >> 32)) ^ a * b;
}

/* Two words, each xor what is the key there. */
#define mixed(at, key, seed) \
    folded(WORD(at) ^ (WORD(key) + (seed)), WORD((at) + 8) ^ (WORD((key) + 8) - (seed)))

static uint64_t avalanche(uint64_t h)
{
    h = (h ^ h >> 37) * prime_mx[0];
    return h ^ h >> 32;
}

/* Of at least one byte; the key has the seed added where they are many. */
static uint64_t hash(const uint8_t *at, size_t n, uint64_t seed)
{
    uint64_t sums[8] = {prime32[2], prime64[0], prime64[1], prime64[2],
                        prime64[3], prime32[1], prime64[4], prime32[0]};
    const uint64_t added = n > 240 ? seed : 0;
    uint64_t h = n * prime64[0], high;
    const size_t last = (n - 1) / 64;
    uint8_t key[192];
    for (int i = 0; i < 24; i++)
        store(key + 8 * i, 8, default_secret[i] + (i % 2 ? 0 - added : added));
    for (size_t stripe = 0; n > 240 && stripe <= last; stripe++) {
        const uint8_t *from = at + (stripe < last ? 64 * stripe : n - 64);
        const uint8_t *part = key + (stripe < last ? 8 * (stripe % 16) : 121);
        for (size_t i = 0; i < 8; i++) {
            const uint64_t value = WORD(from + 8 * i);
            const uint64_t keyed = value ^ WORD(part + 8 * i);
            sums[i ^ 1] += value;
            sums[i] += (keyed & 0xffffffff) * (keyed >> 32);
        }
        for (size_t i = 0; i < 8 && stripe < last && stripe % 16 == 15; i++) {
            sums[i] ^= sums[i] >> 47 ^ WORD(key + 128 + 8 * i);
            sums[i] *= prime32[0];
        }
    }
    if (n > 240) {
        for (size_t i = 0; i < 8; i += 2)
            h += folded(sums[i] ^ WORD(key + 11 + 8 * i),
                        sums[i + 1] ^ WORD(key + 19 + 8 * i));
        return avalanche(h);
    }
    if (n > 128) {
        for (size_t i = 0; i < n / 16; i++) {
            h += mixed(at + 16 * i, key + (16 * i - (i < 8 ? 0 : 125)), seed);
            h = i == 7 ? avalanche(h) : h;
        }
        return avalanche(h + mixed(at + n - 16, key + 119, seed));
    }
    if (n > 16) {
        for (size_t i = 0; i <= (n - 1) / 32; i++)
            h += mixed(at + 16 * i, key + 32 * i, seed) +
                 mixed(at + n - 16 * (i + 1), key + 32 * i + 16, seed);
        return avalanche(h);
    }
    if (n > 8) {
        h = WORD(at) ^ ((WORD(key + 24) ^ WORD(key + 32)) + seed);
        high = WORD(key + 40) ^ WORD(key + 48);
        high = WORD(at + n - 8) ^ (high - seed);
        return avalanche(n + swapped(h, 8) + high + folded(h, high));
    }
    if (n > 3) {
        seed ^= swapped(seed, 4) << 32;
        h = load(at + n - 4, 4) + (load(at, 4) << 32);
        h ^= (WORD(key + 8) ^ WORD(key + 16)) - seed;
        h = (h ^ (h << 49 | h >> 15) ^ (h << 24 | h >> 40)) * prime_mx[1];
        h = (h ^ ((h >> 35) + n)) * prime_mx[1];
        return h ^ h >> 28;
    }
    h = (uint64_t)at[0] << 16 | (uint64_t)at[n / 2] << 24 | at[n - 1] | n << 8;
    h ^= (load(key, 4) ^ load(key + 4, 4)) + seed;
    h = (h ^ h >> 33) * prime64[1];
    h = (h ^ h >> 29) * prime64[2];
    return h ^ h >> 32;
}

static uint64_t checksum(const uint8_t *at, size_t n, uint64_t seed)
{
    const size_t piece = 16384;
    uint64_t sum = 0, factor = 1;
    for (; n >= 2 * piece; at += piece, n -= piece, factor += 2)
        sum += factor * hash(at, piece, seed);
    return sum + factor * hash(at, n, seed);
}

/* ---- arithmetic ---- */

#define LARGEST(nbits) ((nbits) == 32 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023)

/* A number and its bits. */
union number {
    double wide;
    uint64_t wide_bits;
    float narrow;
    uint32_t narrow_bits;
};

/* The nearest number of 32 or 64 bits. Each operation stands in one of these:
 * `volatile` keeps compilers from merging two, or from more digits. That what is made
 * of two float32 is first rounded to float64 makes no difference to a sum, product or
 * quotient. */
static double rounded(uint64_t nbits, double x)
{
    volatile double wide = x;
    volatile float narrow = nbits == 32 ? (float)wide : 0;
    return nbits == 32 ? (double)narrow : wide;
}

static double value_of(uint64_t nbits, uint64_t word)
{
    const union number narrow = {.narrow_bits = (uint32_t)word};
    const union number wide = {.wide_bits = word};
    return nbits == 32 ? (double)narrow.narrow : wide.wide;
}

static uint64_t word_of(uint64_t nbits, double value)
{
    const union number narrow = {.narrow = nbits == 32 ? (float)value : 0};
    const union number wide = {.wide = value};
    return nbits == 32 ? narrow.narrow_bits : wide.wide_bits;
}

/* A word as a signed integer. */
#define SIGNED(nbits, word) \
    ((int64_t)((((word)&ONES(nbits)) ^ POWER((nbits)-1)) - POWER((nbits)-1)))

/* Whether this program's numbers are those of IEEE 754: no more digits, to nearest
 * even, subnormal ones too, no operation merged with another. */
static bool is_ieee(void)
{
    const double a = rounded(64, 0x1.0000001p0), square = rounded(64, a * a);
    return rounded(64, rounded(64, 1) + rounded(64, 0x1.001p-53)) > 1 &&
           rounded(64, square - rounded(64, 0x1.0000002p0)) == 0 &&
           word_of(32, rounded(32, 0x1p-149) * rounded(32, 1.5)) == 2 &&
           word_of(64, rounded(64, 0x1p-1074) * rounded(64, 1.5)) == 2;
}

/* ---- dictionary ---- */

#define NENTRIES 75
#define NSYMBOLS 1024
#define NTOKENS 504
#define NCODE_CLASSES 21
#define WORD_MAX_NBITS 15
#define TILE_NSYMBOLS UINT64_C(4096)

/* A canonical code: how many words have each length; whose, by (length, symbol). */
struct codebook {
    uint16_t nwords[WORD_MAX_NBITS + 1], symbol[NSYMBOLS];
    bool is_made;
};

/* Makes a codebook of the words' lengths; 0: no word. */
static void make_codebook(struct codebook *book, const uint8_t nbits[NSYMBOLS])
{
    uint64_t nleft = POWER(WORD_MAX_NBITS), n = 0; /* words of 15 bits */
    for (int length = 1; length <= WORD_MAX_NBITS; length++)
        for (int i = 0; i < NSYMBOLS; i++)
            if (nbits[i] == length) {
                require(nleft >= POWER(WORD_MAX_NBITS - length));
                nleft -= POWER(WORD_MAX_NBITS - length);
                book->nwords[length]++;
                book->symbol[n++] = (uint16_t)i;
            }
}

/* Package-merge. A level's list has all symbols, and the pairs of the list
 * before, by weight, and ends in items that weigh more than all. Of the last
 * list the first items are taken, of a pair that is, both, and a symbol's word
 * has a bit each time: so what counts is how many of them are symbols. */
static void make_optimal(struct codebook *book, const uint64_t *weight, int nsymbols)
{
    static uint64_t list[WORD_MAX_NBITS + 1][2 * NSYMBOLS];
    static int nsingle[WORD_MAX_NBITS + 1][2 * NSYMBOLS];
    const int nitems = 2 * nsymbols - 2;
    int order[NSYMBOLS] = {0}, n = nitems;
    uint8_t nbits[NSYMBOLS] = {0};
    for (int at, i = 0; i < nsymbols; order[at] = i++)
        for (at = i; at > 0 && weight[order[at - 1]] > weight[i]; at--)
            order[at] = order[at - 1];
    memset(list, 0x3f, sizeof list);
    for (int level = 1; level <= WORD_MAX_NBITS; level++)
        for (int i = 0, k = 0; k < nitems; nsingle[level][++k] = i) {
            const uint64_t *two = list[level - 1] + 2 * (k - i);
            const uint64_t pair = LEAST(two[0] + two[1], list[0][0]);
            const bool is_pair = i == nsymbols || pair < weight[order[i]];
            list[level][k] = is_pair ? pair : weight[order[i]];
            i += !is_pair;
        }
    for (int level = WORD_MAX_NBITS; level > 0; level--) {
        const int taken = nsingle[level][n];
        for (int i = 0; i < taken; i++) nbits[order[i]]++;
        n = 2 * (n - taken);
    }
    make_codebook(book, nbits);
}

/* What of a Cauchy, Laplace or Gauss distribution is beyond x of both signs. */
#define TAIL(x)                                                     \
    (family == 0   ? 2 / 3.14159265358979323846 * atan(scale / (x)) \
     : family == 1 ? exp(-(x) / scale)                              \
                   : erfc((x) / scale / sqrt(2)))

/* Classes of numbers: `alone` of one number, then two an octave. Those of runs
 * are 4, those of magnitudes less one, of which the last is the escape, 8. */
#define CLASS_NBITS(nth, alone) \
    ((nth) < (alone) ? 0 : (alone) / 4 + ((nth) - (alone)) / 2)
#define CLASS_FIRST(nth, alone) \
    ((nth) < (alone) ? (nth) : (2 + (nth) % 2) << CLASS_NBITS(nth, alone))

/* An entry's codebook, of symbols or of tokens; it stays, once it is made. */
static const struct codebook *dictionary(uint64_t entry, bool of_tokens)
{
    static const double scales[3][4] = {
        {0.0005, 64, 1, 32}, {0.05, 200, 0.5, 8}, {0.12, 256, 0.5, 8}};
    static struct codebook books[2][NENTRIES];
    require(entry < NENTRIES);
    struct codebook *book = &books[of_tokens][entry];
    if (book->is_made) return book;
    const int family = (int)entry / 25, place = (int)entry % 25;
    const int mixture = place < 19 ? 0 : 1 + (place - 19) / 3;
    const double *range = scales[family] + (mixture > 0 ? 2 : 0);
    const double nth = mixture > 0 ? (place - 19) % 3 / 2. : place / 18.;
    const double scale = range[0] * pow(range[1] / range[0], nth);
    const double rest = mixture == 0 ? 1 : mixture == 1 ? 0.75 : 0.125;
    const double beyond = TAIL(511.5), unit = rest / (1 - beyond);
    const double escape = fmin(fmax(rest * beyond, 0x1p-16), 0x1p-6);
    double outer = TAIL(0.5), remainder[512];
    uint64_t weight[NSYMBOLS] = {(uint64_t)(escape * 0x1p24 + 0.5)};
    uint64_t *of = weight + 512, left = POWER(24) - weight[0]; /* magnitudes */
    const double shared = (double)(left - 1023);
    of[0] = 1 + (uint64_t)ceil(shared * (1 - rest + unit * (1 - outer)));
    of[0] += (left - of[0]) % 2;
    left = (left - of[0]) / 2;
    for (int m = 1; m < 512; m++) {
        const double inner = outer;
        outer = TAIL(m + 0.5);
        const double share = shared * (unit * (inner - outer) / 2);
        of[m] = 1 + (uint64_t)share;
        remainder[m] = share - floor(share);
        left -= of[m];
    }
    for (; left > 0; left--) {
        int largest = 1;
        for (int m = 2; m < 512; m++)
            largest = remainder[m] > remainder[largest] ? m : largest;
        of[largest]++;
        remainder[largest] = -1;
    }
    uint64_t of_runs[TILE_NSYMBOLS + 1] = {POWER(32)};
    uint64_t of_code[NCODE_CLASSES] = {[NCODE_CLASSES - 1] = weight[0]};
    for (uint64_t i = 0; i < TILE_NSYMBOLS; i++)
        of_runs[i + 1] = of_runs[i] * (256 * of[0]) >> 32;
    for (int m = 1, nth_class = 0; m < 512; m++) {
        weight[512 - m] = of[m];
        nth_class += m > CLASS_FIRST(nth_class + 1, 8);
        of_code[nth_class] += 2 * of[m];
    }
    for (int token = 0; of_tokens && token < NTOKENS; token++) {
        const int run = token / NCODE_CLASSES;
        weight[token] = of_runs[CLASS_FIRST(run, 4)];
        weight[token] -= of_runs[CLASS_FIRST(run + 1, 4)];
        weight[token] *= of_code[token % NCODE_CLASSES];
        weight[token] += weight[token] == 0;
    }
    make_optimal(book, weight, of_tokens ? NTOKENS : NSYMBOLS);
    book->is_made = true;
    return book;
}

/* ---- frame ---- */

/* Types, codings, predictions, and the bits beside these. */
static const uint64_t FLOAT64 = 1, BYTES = 2, INT64 = 6, UINT8 = 7, UINT32 = 9,
                      FLOAT16 = 11, COMPLEX64 = 13, COMPLEX128 = 14;
static const uint64_t RAW = 0, CONSTANT = 1, HUFFMAN = 2, CUSTOM = 3, RATIO = 5,
                      COPIES = 13, REFERENCES = 14, PARTS = 15;
static const uint64_t SPLINE = 1, LORENZO = 2, LOSSLESS = 3;
static const uint64_t HAS_SPECIALS = 0x10, HAS_DOMAIN = 0x20, IS_POINTWISE = 0x40,
                      HAS_PREFIXES = 0x80;
static const uint64_t CUBIC = 0, LINEAR = 2, LONG = 3, MEAN = 4, SIX = 5;

/* Bytes of a type's values; complex values have two parts. */
static const uint8_t nbytes_of[] = {4, 8, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 8, 16};
#define NPARTS(type) ((type) >= COMPLEX64 ? UINT64_C(2) : UINT64_C(1))

/* The code that stands for an escape. */
#define ESCAPE (-32768)

/* The stream that is decoded, or the one within it. */
static struct {
    struct terp_reader_chunk chunk;
    uint64_t coding, prediction, flags;
    /* The domain. Dimensions are numbered from the fastest; `slowest` is one of
     * more than one value; neighbours are `pitch` apart, bricks pitch[4]. There
     * are no levels where neither prediction nor contexts ask for them. */
    uint64_t rank, nvalues, nbricks, slowest, extent[4], pitch[5], nlevels;
    uint64_t t, carried; /* bits of T; of what carries a value */
    uint64_t carrier, offset, scale;
    uint64_t form, signs; /* of a pointwise bound, without a floor joint is 0 */
    double bound, joint, shift, step, reference;
    int center;
    struct {
        double step;
        uint64_t spline, priorities;
    } plan[66]; /* of levels; of anchors above them */
    /* Of lorenzo and lossless: N; S, or 0 where quants are not exact. */
    uint64_t mask, twice, has_means, zeros, limit, tail_nbits, wide;
    double unit;
    uint64_t lossless_form, lossless_center;
    uint8_t *mark, *is_minus;              /* mark: 0: not special, else color + 1 */
    uint64_t nspecials, ncolors, *special; /* of colors, or of all specials */
    uint64_t *extra; /* tails, or the numbers that belong to shifts */
    uint64_t *group_shift, *group_zeros;
    const uint8_t *remainders;
    uint64_t remainders_nbytes, nescapes, *escape;
    bool are_words; /* escapes */
    int32_t *code;  /* of each point */
    uint64_t *word; /* of T, or integers on their way there */
} s;

/* The nearest number of T; a value of T; a point's coordinate. */
#define fl(x) rounded(s.t, x)
#define VALUE_AT(point) value_of(s.t, s.word[point])
#define COORDINATE(point, d) ((point) / s.pitch[d] % s.extent[d])

/* The dims that `layout` tells of. */
static void take_dims(uint64_t layout, struct terp_reader_chunk *chunk)
{
    chunk->stack = layout >> 7;
    chunk->rank = (layout & 3) + 1;
    chunk->nvalues = 1;
    require(!chunk->stack || chunk->rank > 1);
    for (uint64_t i = 0; i < chunk->rank; i++) {
        const uint64_t most = ONES(63) / chunk->nvalues;
        chunk->dims[i] = take_within(POWER(layout >> 2 & 3), 1, most);
        chunk->nvalues *= chunk->dims[i];
    }
}

static double take_bound(void)
{
    const double bound = value_of(64, take_number(8));
    require(bound >= 0 && bound < INFINITY);
    return bound;
}

/* What stands before the body of a whole stream, `outer` being RAW, or of one within
 * a stream of that coding, whose chunk is known. */
static void take_head(struct terp_reader_chunk *chunk, uint64_t outer)
{
    const bool is_whole = outer == RAW;
    const uint8_t *head = is_whole ? take(16) : take(2) - 6;
    const uint64_t coding = head[6];
    memset(&s, 0, sizeof s);
    s.coding = coding;
    s.prediction = head[7] & 15;
    s.flags = head[7] & 0xf0;
    if (is_whole) {
        const uint64_t type = head[5] >> 4 & 3;
        require(memcmp(head, "TERP\1", 5) == 0); /* and version 1 */
        take_dims(head[5], chunk);
        chunk->big_endian = head[5] >> 6 & 1;
        chunk->type = type < 3 ? type : take_within(1, 3, COMPLEX128);
        require(chunk->type != BYTES || chunk->rank == 1);
    }
    chunk->value_nbytes = nbytes_of[chunk->type];
    require(chunk->nvalues <= ONES(63) / chunk->value_nbytes);
    const bool is_coded = coding == HUFFMAN || coding == RATIO;
    require(is_coded || coding <= CONSTANT || (coding >= COPIES && coding <= PARTS));
    require(coding < COPIES || (coding != outer && outer != REFERENCES));
    require(coding != REFERENCES || chunk->value_nbytes > 1);
    require(coding == RAW ||
            (chunk->type != BYTES && (coding == PARTS) == (chunk->type >= COMPLEX64)));
    require(s.prediction <= LOSSLESS && is_coded == (s.prediction > 0));
    const uint64_t may[] = {coding == CONSTANT ? HAS_SPECIALS : 0,
                            is_whole ? 0xf0 : 0x70, 0x70, 0x30};
    require((s.flags & ~may[s.prediction]) == 0);
    struct terp_reader_chunk domain = s.chunk = *chunk;
    if (s.flags & HAS_DOMAIN) {
        const uint64_t layout = take_number(1);
        take_dims(layout, &domain);
        require((layout & 0x70) == 0 && domain.nvalues == chunk->nvalues);
        require(domain.stack != chunk->stack || domain.rank != chunk->rank ||
                memcmp(domain.dims, chunk->dims, sizeof domain.dims) != 0);
    }
    s.bound = is_coded ? take_bound() : 0;
    require(s.bound > 0 || s.prediction != SPLINE);
    take(s.flags & HAS_PREFIXES ? 24 : 0);
    s.rank = domain.rank - domain.stack;
    s.nbricks = domain.stack ? domain.dims[0] : 1;
    s.nvalues = domain.nvalues;
    s.pitch[0] = 1;
    for (uint64_t d = 0; d < 4; d++) {
        s.extent[d] = d < s.rank ? domain.dims[domain.rank - 1 - d] : 1;
        s.pitch[d + 1] = s.pitch[d] * s.extent[d];
        s.slowest = s.extent[d] > 1 ? d : s.slowest;
        if (coding == RATIO || s.prediction == SPLINE)
            s.nlevels = MOST(s.nlevels, width_of(s.extent[d] - 1));
    }
}

/* ---- carrier, pointwise, model ---- */

/* An integer, or the bits of a 16-bit float, of the word that carries it. */
static uint64_t carried(uint64_t word)
{
    const uint64_t nbits = 8 * s.chunk.value_nbytes, sign = POWER(nbits - 1);
    const double y = value_of(s.carried, word), magnitude = fabs(y);
    if (s.carrier == 0) {
        const int nfraction = s.chunk.type == FLOAT16 ? 10 : 7;
        const int bias = s.chunk.type == FLOAT16 ? 15 : 127;
        uint64_t n = (ONES(15) >> nfraction << nfraction) - 1; /* the largest */
        if (magnitude < 0x1p+128) {
            const int exponent = MOST(ilogb(y), 1 - bias);
            const double digits = rint(ldexp(magnitude, nfraction - exponent));
            const int above = (exponent + bias - 1) * (1 << nfraction);
            /* The first digit, or a carry, counts on. */
            n = LEAST(n, (uint64_t)above + (uint64_t)digits);
        }
        return n | (signbit(y) && !isnan(y) ? sign : 0);
    }
    const bool is_unsigned = s.chunk.type >= UINT8 && s.chunk.type < FLOAT16;
    const uint64_t above = s.offset ^ (is_unsigned ? 0 : sign); /* the lowest */
    const bool is_minus = s.carrier == 3 ? word >> 63 : !(y >= 0);
    const uint64_t most = POWER(s.carrier == 1 ? 24 : 53);
    uint64_t n = (is_minus ? above : ONES(nbits) - above) / s.scale;
    n = LEAST(n, s.carrier == 3 ? word & ONES(63) : most);
    if (s.carrier < 3 && magnitude < (double)n) /* which a NaN is not */
        n = (uint64_t)magnitude + (magnitude - floor(magnitude) > 0.5);
    n = (s.offset + (is_minus ? 0 - s.scale * n : s.scale * n)) & ONES(nbits);
    return s.chunk.type >= FLOAT16 && n >= sign ? n ^ (sign - 1) : n;
}

/* Above the exponents of what carries a value; of T: bits of a fraction. */
#define MAX_EXPONENT(nbits) ((nbits) == 32 ? 128 : 1024)
#define NFRACTION(nbits) ((nbits) == 32 ? 23 : 52)

static void read_carrier(void)
{
    s.t = s.carried = s.chunk.type == FLOAT64 ? 64 : 32;
    if (s.chunk.type > BYTES) {
        const uint64_t byte = take_number(1);
        s.carrier = byte & 3;
        s.t = s.carried = s.carrier > 1 ? 64 : 32;
        if (s.carrier == 0) {
            require(byte == 0 && s.chunk.type >= FLOAT16);
            take_bound();
        } else {
            require((byte & 0x8c) == 0 && !(s.flags & IS_POINTWISE));
            s.offset = take_number(s.chunk.value_nbytes);
            s.scale = take_within((byte >> 4) + 1, 1, UINT64_MAX);
        }
    }
    if (!(s.flags & IS_POINTWISE)) return;
    const int most = MAX_EXPONENT(s.carried);
    const uint64_t byte = take_number(1), has_floor = byte >> 4;
    const double e = take_bound();
    s.form = byte & 3;
    s.signs = byte >> 2 & 3;
    require(byte < 32 && s.form < 3 && s.signs < 3 && e > 0 && e < 1);
    require((s.form > 0 || byte == 0) && (s.signs == 0 || !has_floor));
    if (s.form > 0) {
        s.t = s.form == 1 ? 32 : 64;
        s.center = (int)SIGNED(16, take_number(2));
        require(-most <= s.center && s.center <= most);
    }
    if (has_floor) {
        s.joint = rounded(64, take_bound() / e);
        s.shift = take_bound();
        require(s.joint >= ldexp(1, 4 - most) && s.joint <= ldexp(1, most - 3));
        require(s.shift > 0 && s.shift <= 2);
    }
}

/* The word of a value, as carried, of what is coded: of |y| s, or of 2^z. */
static uint64_t pointwise_word(double y, bool is_minus)
{
    static const double q[2][11] = {
        {0x1.62e430p-1, 0x1.ebfbe0p-3, 0x1.c6af6cp-5, 0x1.3b2a54p-7, 0x1.5f0890p-10,
         0x1.44138ap-13},
        {0x1.62e42fefa39efp-1, 0x1.ebfbdff82c598p-3, 0x1.c6b08d704a0c2p-5,
         0x1.3b2ab6fba1ddap-7, 0x1.5d87fe78a5276p-10, 0x1.430913096fd9fp-13,
         0x1.ffcbfc670dcd4p-17, 0x1.62bfd47773353p-20, 0x1.b524fae627834p-24,
         0x1.e6063f7217bc6p-28, 0x1.e9d3fe3952179p-32}};
    const int most = MAX_EXPONENT(s.carried);
    const double low = 3 - most - s.center, high = most - s.center;
    const double large = s.t == 32 ? 0x1.8p23 : 0x1.8p52;
    const double unit = 0x1.71547652b82fep+0; /* L */
    double z = s.joint > 0 ? fl(fabs(y) - fl(s.shift)) : y, sum = 0;
    z = fmin(fmax(z, low), high); /* of a NaN low */
    const double n = fl(fl(z + large) - large), r = fl(z - n);
    for (int i = 11; i > 0; i--) sum = fl(q[s.t == 64][i - 1] + fl(r * sum));
    double x = ldexp(fl(1 + fl(r * sum)), (int)n + s.center);
    if (s.joint > 0) {
        const uint64_t nbits = s.t == s.carried ? s.t : 64;
        const double factor = rounded(nbits, rounded(64, s.joint / unit));
        x = fabs(y) <= fl(unit) ? rounded(nbits, fabs(y) * factor) : x;
        is_minus = y < 0; /* which -0.0 and NaN are not */
    }
    x = rounded(s.carried, fmin(x, LARGEST(s.carried)));
    return word_of(s.carried, is_minus ? -x : x);
}

/* A quantizer's step; n steps, n being a signed integer of T's width. */
#define QUANTIZER_STEP(step) fl(fmin(step, LARGEST(s.t) / 2048))
#define STEPS(n, step) fl(fl((double)SIGNED(s.t, n)) * (step))

static void read_model(void)
{
    const uint64_t byte = take_number(1), slack = byte & 15;
    const double two = rounded(64, s.bound + s.bound);
    double taken = two;
    for (uint64_t i = 0; i < slack; i++) taken = rounded(64, taken / 2);
    const double step = rounded(64, two - taken);
    s.step = s.plan[s.nlevels + 1].step = QUANTIZER_STEP(step);
    s.wide = byte >> 4;
    require(slack >= 1 && slack <= 12 && s.wide <= 13);
    if (s.prediction == SPLINE) {
        s.reference = value_of(s.t, take_number(s.t / 8));
        for (uint64_t level = s.nlevels; level > 0; level--) {
            const uint64_t plan = take_number(2), is_mean = LONG | 170 << 2;
            const double share = (double)((plan & 63) + 1) / 64;
            s.plan[level].step = QUANTIZER_STEP(rounded(64, step * share));
            s.plan[level].spline = plan >> 6 == is_mean ? MEAN : plan >> 6 & 3;
            s.plan[level].priorities = plan >> 8;
        }
        return;
    }
    const bool is_lossless = s.prediction == LOSSLESS;
    const uint64_t bits = take_number(is_lossless ? 2 : 1), form = bits >> 8;
    const uint64_t flags = is_lossless ? 2 : bits >> 4, d = s.slowest;
    const bool is_exact = flags & 2, has_tails = flags & 4;
    s.mask = bits & 15;
    s.twice = is_lossless ? bits >> 4 & 15 : 0;
    s.lossless_form = form & 3;
    s.has_means = flags & 1;
    require((s.twice & ~s.mask) == 0 && s.lossless_form < 3 && form < 8);
    require(flags < 8 && !(is_lossless && s.wide > 0));
    require(!s.has_means || (!(s.flags & HAS_SPECIALS) && d > 0 && s.mask >> d & 1 &&
                             s.extent[d] >= 8));
    s.mask &= s.has_means ? ~POWER(d) : ONES(4); /* means come first, instead */
    require(is_exact || s.bound > 0);
    if (is_exact) {
        const int nfraction = NFRACTION(s.t), most = MAX_EXPONENT(s.t) - 1;
        const uint64_t significand = is_lossless ? 1 : take_within(1, 1, 255);
        s.zeros = take_within(1, 0, (uint64_t)nfraction);
        const int e = (int)SIGNED(16, take_number(2));
        const bool is_lowest = e == 1 - most - nfraction;
        require(is_lowest || (e > -most && e < most - nfraction));
        s.unit = fl(ldexp((double)significand, e));
        s.limit = is_lowest ? 0 : POWER((uint64_t)nfraction - s.zeros);
    }
    s.lossless_center = form & 4 ? take_number(s.t / 8) : 0;
    require(!has_tails || s.wide == 13);
    s.tail_nbits = has_tails ? take_within(1, 1, s.t == 32 ? 16 : 48) : 0;
}

/* ---- specials, signs, low bits ---- */

/* Undoes the mask delta d. */
static void undo_delta(uint8_t *mask, uint64_t d)
{
    require(d == 0 || (d <= 4 && s.pitch[d] >= 64 && s.pitch[d] < s.nvalues));
    for (uint64_t i = s.pitch[d]; d > 0 && i < s.nvalues; i++)
        mask[i] ^= mask[i - s.pitch[d]];
}

static void read_specials(void)
{
    const uint64_t nruns = take_uleb(9), byte = take_number(1), n = byte & 15;
    uint64_t at = 0;
    require(nruns <= s.nvalues && (byte < 16 || n == 1));
    const uint64_t *gap = take_groups(nruns, 64, NULL, 56);
    const uint64_t *more = take_groups(nruns, 64, NULL, 56);
    const uint64_t *color = take_groups(n > 1 ? nruns : 0, 64, NULL, 56);
    for (uint64_t run = 0; run < nruns; run++) {
        require((n < 2 || color[run] < n) && gap[run] < s.nvalues - at);
        require(more[run] < s.nvalues - at - gap[run]);
        at += gap[run];
        for (uint64_t end = at + more[run] + 1; at < end; at++)
            s.mark[at] = (uint8_t)(n > 1 ? color[run] + 1 : 1);
    }
    undo_delta(s.mark, byte >> 4);
    for (uint64_t i = 0; i < s.nvalues; i++) s.nspecials += s.mark[i] != 0;
    s.ncolors = n;
    s.special = take_fields(n > 0 ? n : s.nspecials, 8 * s.chunk.value_nbytes);
}

/* Of a tile. */
struct low {
    uint64_t n, nbits, *widths, *numbers, list_nbytes;
    const uint8_t *list;
};

/* Of tiles; nothing is read where codes are not wide. */
static struct low *read_low_bits(void)
{
    const uint64_t ntiles = DIVIDED_UP(s.nvalues, TILE_NSYMBOLS);
    const uint64_t *has = take_fields(ntiles, s.wide > 0 ? 2 : 0);
    struct low *low = reserve(ntiles, sizeof *low);
    for (uint64_t i = 0; i < ntiles; i++) {
        low[i].n = LEAST(s.nvalues - i * TILE_NSYMBOLS, TILE_NSYMBOLS);
        low[i].nbits = has[i] & 1 ? take_within(1, 1, 12) : 0;
        low[i].widths = take_fields(DIVIDED_UP(low[i].n, 256), has[i] & 1 ? 4 : 0);
        low[i].list_nbytes = has[i] & 2 ? take_within(2, 1, UINT16_MAX) : 0;
    }
    for (struct low *at = low; at < low + ntiles; at++) {
        at->numbers = take_groups(at->n, 256, at->widths, at->nbits);
        at->list = take(at->list_nbytes);
    }
    return low;
}

/* Makes whole codes of a tile's high parts, of which -512 are symbols 0. */
static void add_low_bits(const struct low *low, int32_t *code)
{
    for (uint64_t i = 0; i < low->n; i++) {
        const int32_t rest = (int32_t)UNFOLDED(low->numbers[i]);
        const int32_t whole = code[i] * (1 << low->nbits) + rest;
        code[i] = code[i] == -512 ? ESCAPE : LEAST(MOST(whole, -32767), 32767);
    }
    if (low->list_nbytes == 0) return;
    const struct input outer = enter(low->list, low->list_nbytes);
    const uint64_t head = take_number(2), nlisted = head & 0x7fff;
    require(nlisted >= 1 && nlisted <= TILE_NSYMBOLS);
    const uint64_t *widths = take_fields(DIVIDED_UP(nlisted, 32), 8);
    const uint64_t *number = take_groups(nlisted, 32, widths, 16);
    uint64_t next = 0;
    for (uint64_t i = 0; i < low->n; i++)
        if (code[i] == ESCAPE && (head >> 15 == 0 || take_bits(1, false))) {
            require(next < nlisted);
            code[i] = MOST((int32_t)UNFOLDED(number[next]), -32767);
            next++;
        }
    require(next == nlisted);
    leave(outer);
}

/* ---- bit maps, stages, tiles ---- */

/* n items of k bytes, of which those that a bit map tells of are there. Others
 * are the one before, or zeros, as is what is before the first. */
static uint8_t *take_kept(const uint8_t *is_kept, uint64_t n, uint64_t k, bool repeats)
{
    uint8_t *zeros = reserve(n + 1, (size_t)k), *item = zeros;
    for (uint64_t i = 0; i < n; i++, item += k) {
        const uint8_t *other = repeats ? item : zeros;
        memcpy(item + k, BIT(is_kept, i) ? take(k) : other, (size_t)k);
    }
    return zeros + k;
}

static const uint8_t *take_map(uint64_t nbits)
{
    const uint64_t n = DIVIDED_UP(nbits, 8);
    return n <= 8 ? take(n) : take_kept(take_map(n), n, 1, true);
}

/* Undoes RRE4-TCMS8-RZE1, of n bytes. */
static const uint8_t *take_stages(uint64_t n)
{
    const uint64_t nwords = DIVIDED_UP(n, 4);
    const uint8_t *is_other = take_map(nwords);
    uint64_t nkept = 0;
    for (uint64_t i = 0; i < nwords; i++) nkept += BIT(is_other, i);
    nkept = 8 * DIVIDED_UP(nkept, 2); /* bytes */
    uint8_t *kept = take_kept(take_map(nkept), nkept, 1, false);
    for (uint64_t i = 0; i < nkept; i += 8)
        store(kept + i, 8, UNFOLDED(load(kept + i, 8)));
    const struct input outer = enter(kept, nkept);
    const uint8_t *bytes = take_kept(is_other, nwords, 4, true);
    in = outer;
    return bytes;
}

/* The symbol of a canonical word. */
static uint64_t take_symbol(const struct codebook *book)
{
    const uint16_t *symbol = book->symbol;
    uint64_t word = take_bits(1, true);
    for (int length = 1; word >= book->nwords[length]; length++) {
        require(length < WORD_MAX_NBITS);
        word = (word - book->nwords[length]) << 1 | take_bits(1, true);
        symbol += book->nwords[length];
    }
    return symbol[word];
}

/* n codes, which come as zeros, of so many bytes, in the nth partition. */
struct tile {
    int32_t *code;
    uint64_t n, nbytes, nth;
    const struct codebook *book;
};

/* Decodes a tile of the bytes that are left. */
static void decode_tile(const struct tile *tile, bool is_ratio)
{
    for (uint64_t i = 0; !is_ratio && i < tile->n; i++)
        tile->code[i] = (int32_t)take_symbol(tile->book) - 512;
    for (uint64_t i = 0; is_ratio; i++) {
        const uint64_t left = 8 * BYTES_LEFT - in.nbits;
        if (left < 8 && (~in.end[-1] & ((1 << left) - 1)) == 0)
            return; /* but ones are left */
        const uint64_t token = take_symbol(tile->book);
        const uint64_t run = token / NCODE_CLASSES, nth = token % NCODE_CLASSES;
        i += CLASS_FIRST(run, 4) + take_bits(CLASS_NBITS(run, 4), true);
        require(i < tile->n);
        tile->code[i] = -512;
        if (nth == NCODE_CLASSES - 1) continue;
        const bool is_minus = take_bits(1, true);
        const uint64_t more = take_bits(CLASS_NBITS(nth, 8), true);
        const int32_t magnitude = (int32_t)(CLASS_FIRST(nth, 8) + more + 1);
        require(magnitude < 512);
        tile->code[i] = is_minus ? -magnitude : magnitude;
    }
}

/* The codes of n symbols, of tiles that are all that is left. */
static int32_t *decode_tiles(uint64_t coding, uint64_t n)
{
    const uint64_t ntiles = DIVIDED_UP(n, TILE_NSYMBOLS);
    const bool is_custom = coding == CUSTOM, is_ratio = coding == RATIO;
    const uint8_t *map = take_map(ntiles);
    int32_t *code = reserve(n, sizeof *code);
    struct tile *tile = reserve(ntiles, sizeof *tile); /* that are not zero */
    uint64_t *total = reserve(ntiles, sizeof *total);  /* of a partition */
    uint64_t ntaken = 0, nparts = 0, begin = 0, last = UINT64_MAX;
    for (uint64_t i = 0; i < 8 * DIVIDED_UP(ntiles, 8); i++)
        if (BIT(map, i)) {
            require(i < ntiles);
            nparts += i / 16 != last;
            last = i / 16;
            tile[ntaken].n = LEAST(n - i * TILE_NSYMBOLS, TILE_NSYMBOLS);
            tile[ntaken].nth = nparts - 1;
            tile[ntaken++].code = code + i * TILE_NSYMBOLS;
        }
    if (ntaken == 0) return code;
    struct codebook *custom = reserve(1, sizeof *custom);
    if (is_custom) {
        const uint64_t low = take_within(2, 1, NSYMBOLS - 1);
        const uint64_t high = take_within(2, low, NSYMBOLS - 1);
        uint8_t nbits[NSYMBOLS] = {(uint8_t)take_bits(4, false)};
        for (uint64_t i = low; i <= high; i++) nbits[i] = (uint8_t)take_bits(4, false);
        make_codebook(custom, nbits);
    }
    const uint64_t nentries = is_custom ? 1 : take_within(1, 1, NENTRIES);
    const uint8_t *entry = take(is_custom ? 0 : nentries), *at = NULL;
    const uint64_t *nth = take_fields(ntaken, width_of(nentries - 1));
    for (uint64_t i = 0; i < ntaken; i++) {
        require(nth[i] < nentries);
        tile[i].book = is_custom ? custom : dictionary(entry[nth[i]], is_ratio);
    }
    const uint8_t *control = take(nparts);
    const uint64_t offset_nbytes = take_within(1, 1, 8);
    const uint64_t *end = take_fields(nparts - 1, 8 * offset_nbytes);
    for (uint64_t i = 0; i < ntaken; i++) {
        const uint64_t p = tile[i].nth, width = control[p] & 127;
        if (i > 0 && p != tile[i - 1].nth) take(0);
        require(width <= 16);
        tile[i].nbytes = is_ratio ? 1 : DIVIDED_UP(tile[i].n, 8);
        tile[i].nbytes += take_bits(width, false);
        require(tile[i].nbytes <= (is_ratio ? 11776 : 7680));
        total[p] += tile[i].nbytes;
    }
    take(0);
    for (uint64_t i = 0; i < ntaken; i++) {
        const uint64_t p = tile[i].nth;
        if (i == 0 || p != tile[i - 1].nth) {
            const uint64_t size = p + 1 < nparts ? end[p] - begin : BYTES_LEFT;
            const struct input rest = enter(take(size), size);
            at = control[p] >> 7 ? take_stages(total[p]) : take(total[p]);
            leave(rest);
            begin += size;
        }
        const struct input outer = enter(at, tile[i].nbytes);
        decode_tile(&tile[i], is_ratio);
        leave(outer);
        at += tile[i].nbytes;
    }
    return code;
}

/* ---- spline ---- */

/* What a point sees along an odd dimension: even points 1, 3, 5 and 7 `pitch`
 * away; i and e as in the document. Lines are listed slowest first. */
struct line {
    uint64_t pitch, i, e;
};

/* The sum of the points that differ along each line of a set. */
static double around(uint64_t p, const struct line *line, unsigned set)
{
    if (set % 2 == 0) return set == 0 ? VALUE_AT(p) : around(p, line + 1, set / 2);
    return fl(around(p - line->pitch, line + 1, set / 2) +
              around(p + line->pitch, line + 1, set / 2));
}

/* The boolean sum of what linear interpolants predict along n lines: F, E and C
 * of the document, weighed; of all lines, or of pairs of three. */
static double boolean_sum(uint64_t p, const struct line *line, int n, bool of_pairs)
{
    static const int nlines[] = {0, 1, 1, 2, 1, 2, 2, 3}; /* of sets */
    static const double weight[2][3] = {{0.5, -0.25, 0.125}, {1. / 3, -1. / 12}};
    double sum = -0.0; /* and x make x, be it -0.0 or 0.0 */
    for (int k = 1; k <= (of_pairs ? 2 : n); k++) {
        double total = -0.0;
        for (unsigned set = 1; set < 1u << n; set++)
            if (nlines[set] == k) total = fl(total + around(p, line, set));
        sum = fl(sum + fl(fl(weight[of_pairs][k - 1]) * total));
    }
    return sum;
}

/* The prediction along the last of n lines, and its order; of values that are
 * each less what the other lines predict of it. */
static double predict_along(uint64_t p, const struct line *line, int n, uint64_t spline,
                            int *order_ret)
{
    /* The weights of b + c, a + d, y + u and z + v, and of their sum: of cubic,
     * natural, linear and long ones, the mean, and six. */
    static const double weights[][5] = {
        {9, 1, 0, 0, 0x1p-4},        {23, 3, 0, 0, 1. / 40}, {1, 0, 0, 0, 0.5},
        {1225, 245, 49, 5, 0x1p-11}, {1, -1, 1, -1, 0x1p-3}, {150, 25, 3, 0, 0x1p-8}};
    const uint64_t i = line[n - 1].i, e = line[n - 1].e;
    double v[8] = {0}; /* at even points i-3 to i+4: z, y, a, b, c, d, u, v */
    for (uint64_t k = 0; k < 8; k++)
        if (i + k >= 3 && i + k - 3 < e) {
            const uint64_t at = p + line[n - 1].pitch * (2 * k - 7);
            v[k] = VALUE_AT(at);
            if (n > 1) v[k] = fl(v[k] - boolean_sum(at, line, n - 1, false));
        }
    const double a = v[2], b = v[3], c = v[4], d = v[5];
    *order_ret = i > 0;
    if (i + 1 == e) return i > 0 ? fl(fl(1.5 * b) - fl(0.5 * a)) : b;
    const uint64_t reach = LEAST(i, e - i - 2); /* a and d, y and u, z and v */
    if (spline == LONG && reach < 3) spline = reach == 2 ? SIX : CUBIC;
    if ((i == 0 && e == 2) || (spline == MEAN && reach < 3)) spline = LINEAR;
    *order_ret = spline == LINEAR ? 2 : reach > 0 ? 4 : 3;
    if (*order_ret == 3) {
        const double x = i > 0 ? fl(6 * b) + fl(3 * c) : fl(3 * b) + fl(6 * c);
        return fl(fl(fl(x) - (i > 0 ? a : d)) * 0.125);
    }
    const double *w = weights[spline], ad = spline == LINEAR ? 0 : fl(a + d);
    const double yu = fl(v[1] + v[6]), zv = reach > 2 ? fl(v[0] + v[7]) : 0;
    double sum = fl(fl(w[0] * fl(b + c)) - fl(w[1] * ad));
    if (w[2] != 0) sum = fl(sum + fl(fl(w[2] * yu) - fl(w[3] * zv)));
    return fl(sum * fl(w[4]));
}

static double predict(uint64_t p, uint64_t level)
{
    const uint64_t step = POWER(level - 1), spline = s.plan[level].spline;
    const uint64_t priorities = s.plan[level].priorities;
    const bool is_all = priorities == 255, blends = is_all || priorities == 170;
    struct line line[4];
    int n = 0, nabove = 0, order, best = 0, count[5] = {0}; /* of an order */
    uint64_t highest = 0;
    double total[5];
    for (uint64_t d = 4; d-- > 0;) {
        const uint64_t x = COORDINATE(p, d), priority = priorities >> 2 * d & 3;
        if ((x & step) == 0 || priority < highest) continue;
        n = priority > highest ? 0 : n;
        highest = priority;
        line[n] = (struct line){step * s.pitch[d], x / step / 2,
                                DIVIDED_UP(s.extent[d], 2 * step)};
        nabove += nabove == n && line[n].i + 1 < line[n].e;
        n++;
    }
    if (!blends || spline == MEAN || n == 1 || n == 4) nabove = -1;
    if (is_all && spline == LONG && nabove >= n - 1)
        return fl(predict_along(p, line, n, LONG, &order) +
                  boolean_sum(p, line, n - 1, false));
    if (nabove == n) return boolean_sum(p, line, n, !is_all && n == 3);
    for (int i = 0; i < n; i++) {
        const double next = predict_along(p, line + i, 1, spline, &order);
        total[order] = count[order]++ == 0 ? next : fl(total[order] + next);
        best = MOST(best, order);
    }
    return fl(total[best] * fl(1. / count[best]));
}

/* ---- order of symbols ---- */

/* Lists the points that a level adds, class by class and box by box; those of
 * the level above the highest one are anchors, or all. Returns how many. */
static uint64_t list_points(uint64_t level, uint64_t edge, uint64_t *list)
{
    static const int classes[] = {0, 1, 2, 4, 8, 3, 5, 6, 9, 10, 12, 7, 11, 13, 14, 15};
    const bool is_first = level > s.nlevels;
    const uint64_t stride = POWER(is_first ? s.nlevels : level);
    uint64_t n = 0;
    for (int c = is_first ? 0 : 1; c < (is_first ? 1 : 16); c++) {
        uint64_t first[4], count[4], most = s.nbricks;
        uint64_t radix[8]; /* points in a box, and boxes, along a dimension */
        for (int d = 0; d < 4; d++) {
            first[d] = classes[c] >> d & 1 ? stride / 2 : 0;
            count[d] = (s.extent[d] - first[d] + stride - 1) / stride;
            radix[d] = count[d] > 0 ? LEAST(count[d], edge) : 1;
            radix[4 + d] = DIVIDED_UP(count[d], radix[d]);
            most *= radix[d] * radix[4 + d];
        }
        for (uint64_t i = 0; i < most; i++) {
            uint64_t rest = i, x[4] = {0}, point = 0;
            bool is_inside = true;
            for (int k = 0; k < 8; rest /= radix[k++])
                x[k % 4] += rest % radix[k] * (k < 4 ? 1 : radix[k - 4]);
            for (int d = 0; d < 4; d++) {
                is_inside &= x[d] < count[d];
                point += s.pitch[d] * (first[d] + stride * x[d]);
            }
            if (is_inside) list[n++] = point + rest * s.pitch[4];
        }
    }
    return n;
}

/* What the corners of a point weigh, from dimension d on; of 16, so that each
 * counts as often as there are even dimensions to double it. */
static uint64_t weigh_corners(const uint8_t *weight, uint64_t point, uint64_t step,
                              uint64_t d)
{
    if (d == 4) return weight[point];
    const uint64_t x = COORDINATE(point, d), far = step * s.pitch[d];
    if ((x & step) == 0) return 2 * weigh_corners(weight, point, step, d + 1);
    const uint64_t above = x + step < s.extent[d] ? point + far : point - far;
    return weigh_corners(weight, point - far, step, d + 1) +
           weigh_corners(weight, above, step, d + 1);
}

/* The next escape: a difference, or, of a spline, a value. */
static uint64_t next_escape(void)
{
    require(s.nescapes-- > 0);
    const uint64_t number = *s.escape++, n = UNFOLDED(number);
    if (s.are_words || s.prediction != SPLINE) return s.are_words ? number : n;
    return word_of(s.t, fl(s.reference + STEPS(n, s.step)));
}

/* Gives points their codes, in tile or context order, and a spline's their values. */
static void decode_levels(const int32_t *code)
{
    static const uint64_t edges[] = {TILE_NSYMBOLS, 64, 16, 8};
    uint64_t *list = reserve(s.nvalues, sizeof *list), n, t;
    uint8_t *weight = reserve(s.nvalues, 1), *context = reserve(s.nvalues, 1);
    double prediction = s.reference; /* of an anchor: the one before */
    for (uint64_t level = s.nlevels + 1; level > 0; level--) {
        n = list_points(level, edges[s.rank - 1], list);
        for (uint64_t i = 0; i < n && s.coding == RATIO && level <= LEAST(s.nlevels, 3);
             i++) {
            t = weigh_corners(weight, list[i], POWER(level - 1), 0);
            t = t < 8 ? t > 0 : LEAST(width_of(t) - 2, 7);
            context[i] = s.mark[list[i]] == 0 ? (uint8_t)t : 8;
        }
        for (int c = 0; c <= 8; c++)
            for (uint64_t i = 0; i < n; i++)
                if (context[i] == c) s.code[list[i]] = *code++;
        for (uint64_t i = 0; i < s.nvalues; i++) weight[i] /= 2;
        for (uint64_t i = 0; i < n; i++) {
            t = 4 * (uint64_t)abs(s.code[list[i]]);
            t = s.wide > 0 ? (uint64_t)sqrt((double)(t >> (s.wide - 1))) : t;
            weight[list[i]] = (uint8_t)LEAST(t, 252);
        }
        n = s.prediction == SPLINE ? list_points(level, UINT64_MAX, list) : 0;
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t p = list[i];
            if (level <= s.nlevels) prediction = predict(p, level);
            prediction = fl(prediction + fl(s.code[p] * s.plan[level].step));
            s.word[p] = s.code[p] == ESCAPE ? next_escape() : word_of(s.t, prediction);
            prediction = VALUE_AT(p);
        }
    }
}

/* ---- lorenzo and lossless ---- */

/* Along the slowest dimension: to odd multiples of h, means of 1, 3, 5, 7 h away. */
static void add_means(uint64_t h)
{
    const uint64_t pitch = s.pitch[s.slowest], n = s.extent[s.slowest];
    for (uint64_t i = 0; i < s.nvalues; i++) {
        const uint64_t x = COORDINATE(i, s.slowest);
        uint64_t total = 0;
        int64_t count = 0;
        if (x % (2 * h) != h) continue;
        for (uint64_t far = h; far <= 7 * h; far += 2 * h) {
            total += far <= x ? s.word[i - far * pitch] : 0;
            total += far < n - x ? s.word[i + far * pitch] : 0;
            count += (far <= x) + (far < n - x);
        }
        /* Rounded down: what is divided last is above 0. */
        const int64_t sum = SIGNED(s.t, total);
        const int64_t rest = (sum % count + count / 2 + count) / count;
        s.word[i] += (uint64_t)(sum / count + rest - 1);
    }
}

/* The word of the least magnitude that an integer's, a, stands for: W(a). */
static uint64_t exact_word(uint64_t a)
{
    const uint64_t n = LEAST(a, s.limit);
    return word_of(s.t, fl((double)n * s.unit)) + ((a - n) << s.zeros);
}

static void decode_integers(void)
{
    const uint64_t sign = POWER(s.t - 1);
    uint64_t nth = 0; /* of the points that are not special */
    for (uint64_t i = 0; i < s.nvalues; i++) {
        uint64_t difference = (uint64_t)(int64_t)s.code[i];
        if (s.prediction == LORENZO)
            difference = (difference << s.tail_nbits) + UNFOLDED(s.extra[i]);
        else if (s.mark[i] == 0) {
            const uint64_t unit = POWER(s.group_shift[nth / 256]);
            difference = difference * unit + s.extra[nth] - unit / 2;
            difference <<= s.group_zeros[nth++ / 256];
        }
        s.word[i] = s.code[i] == ESCAPE ? next_escape() : difference;
    }
    const uint64_t reach = s.has_means ? s.extent[s.slowest] - 1 : 0;
    for (uint64_t level = width_of(reach); level > 0; level--)
        add_means(POWER(level - 1));
    for (uint64_t d = 0; d < 4; d++)
        for (uint64_t from = 2; from-- > 0;)
            for (uint64_t i = 0; i < s.nvalues; i++) {
                if (((from > 0 ? s.twice : s.mask) >> d & 1) == 0) break;
                s.word[i] = s.mark[i] != 0 ? 0 : s.word[i];
                if (COORDINATE(i, d) > from) s.word[i] += s.word[i - s.pitch[d]];
            }
    const struct input outer = enter(s.remainders, s.remainders_nbytes);
    for (uint64_t i = 0; i < s.nvalues; i++) {
        const uint64_t q = (s.word[i] + s.lossless_center) & ONES(s.t);
        const uint64_t a = (q & sign ? 0 - q : q) & ONES(s.t);
        uint64_t word = word_of(s.t, STEPS(q, s.step));
        if (s.lossless_form == 2)
            word = ((q / 2 + word_of(s.t, s.unit)) & ~sign) | q << (s.t - 1);
        else if (s.unit > 0)
            word = exact_word(a) | (q & sign);
        if (i % TILE_NSYMBOLS == 0) take(0);
        if (s.lossless_form == 1 && s.mark[i] == 0 && a < s.limit) {
            const uint64_t nwords = exact_word(a + 1) - exact_word(a);
            word += a == 0 ? take_bits(1, false) << (s.t - 1) : 0;
            const uint64_t nbits = width_of((nwords - 1) >> s.zeros);
            word += take_bits(nbits, false) << s.zeros;
        }
        s.word[i] = word & ONES(s.t);
    }
    leave(outer);
}

/* ---- a coded stream: its sections, one after another ---- */

static void read_sections(void)
{
    const uint64_t n = s.nvalues;
    s.mark = reserve(n, sizeof *s.mark);
    s.word = reserve(n, sizeof *s.word);
    s.is_minus = reserve(n, sizeof *s.is_minus);
    s.code = reserve(n, sizeof *s.code);
    read_carrier();
    memset(s.is_minus, s.signs == 1, (size_t)n);
    if (s.coding != CONSTANT)
        read_model();
    else
        for (uint64_t i = 0, constant = take_number(s.t / 8); i < n; i++)
            s.word[i] = constant;
    if (s.flags & HAS_SPECIALS) read_specials();
    if (s.coding == CONSTANT) return;
    if (s.signs == 2) {
        const uint64_t delta = take_number(1), nbytes = take_number(8);
        const struct input outer = enter(take(nbytes), nbytes);
        const int32_t *code = decode_tiles(CUSTOM, DIVIDED_UP(n, 8));
        leave(outer);
        for (uint64_t i = 0; i < n; i++) {
            require(code[i / 8] >= -128 && code[i / 8] <= 127);
            s.is_minus[i] = (uint32_t)code[i / 8] >> i % 8 & 1;
        }
        undo_delta(s.is_minus, delta);
    }
    if (s.prediction == LORENZO) {
        const uint64_t width = s.tail_nbits > 0 ? 8 : 0;
        const uint64_t *widths = take_fields(DIVIDED_UP(n, 256), width);
        s.extra = take_groups(n, 256, widths, s.tail_nbits);
    } else if (s.prediction == LOSSLESS) {
        const uint64_t flags = take_within(1, 0, 3), width = s.t == 32 ? 5 : 6;
        const uint64_t m = n - s.nspecials, ngroups = DIVIDED_UP(m, 256);
        s.group_shift = take_fields(ngroups, flags & 1 ? width : 0);
        s.group_zeros = take_fields(ngroups, flags & 2 ? width : 0);
        s.extra = take_groups(m, 256, s.group_shift, s.t - 2);
    }
    s.remainders_nbytes = s.lossless_form == 1 ? take_uleb(9) : 0;
    s.remainders = take(s.remainders_nbytes);
    s.nescapes = take_uleb(9);
    require(s.nescapes <= n);
    const uint64_t w = s.nescapes > 0 ? take_within(1, 0, s.t / 8) : 0;
    s.are_words = w == 0;
    s.escape = take_fields(s.nescapes, w == 0 ? s.t : 8 * w);
    const struct low *low = read_low_bits();
    int32_t *code = decode_tiles(s.coding, n);
    for (uint64_t i = 0; i < n; i += TILE_NSYMBOLS) add_low_bits(low++, code + i);
    decode_levels(code);
}

static uint64_t *decode_coded(void)
{
    read_sections();
    if (s.prediction > SPLINE) decode_integers();
    require(s.nescapes == 0);
    for (uint64_t i = 0; i < s.nvalues; i++) {
        uint64_t word = s.word[i];
        if (s.form > 0) word = pointwise_word(value_of(s.t, word), s.is_minus[i]);
        if (s.chunk.type > BYTES) word = carried(word);
        if (s.mark[i] != 0)
            word = s.ncolors > 0 ? s.special[s.mark[i] - 1] : *s.special++;
        s.word[i] = word;
    }
    return s.word;
}

/* ---- copies, references, parts: streams within a stream ---- */

/* The words of the values that a body tells; of complex ones of each part. */
static uint64_t *decode_body(void);

static uint64_t *decode_inner(struct terp_reader_chunk chunk, uint64_t nbytes,
                              uint64_t outer)
{
    const struct input rest = enter(take(nbytes), nbytes);
    chunk.big_endian = chunk.big_endian && outer == COPIES;
    take_head(&chunk, outer);
    uint64_t *word = decode_body();
    leave(rest);
    return word;
}

static uint64_t *decode_copies(const struct terp_reader_chunk chunk)
{
    const uint64_t rank = chunk.rank, mask = take_within(1, 1, POWER(rank) - 1);
    struct terp_reader_chunk left = chunk;
    require(!chunk.stack);
    left.rank = 0;
    left.nvalues = left.dims[0] = 1;
    for (uint64_t d = 0; d < rank; d++)
        if (mask >> (rank - 1 - d) & 1)
            require(chunk.dims[d] > 1);
        else
            left.nvalues *= left.dims[left.rank++] = chunk.dims[d];
    left.rank += left.rank == 0;
    uint64_t *word = decode_inner(left, BYTES_LEFT, COPIES), n = left.nvalues;
    for (uint64_t d = rank, pitch = 1; d-- > 0; pitch *= chunk.dims[d])
        if (mask >> (rank - 1 - d) & 1) {
            const uint64_t *from = word, ncopied = pitch * chunk.dims[d];
            word = reserve(n *= chunk.dims[d], sizeof *word);
            for (uint64_t i = 0; i < n; i++)
                word[i] = from[i / ncopied * pitch + i % pitch];
        }
    return word;
}

static uint64_t *decode_references(const struct terp_reader_chunk chunk)
{
    const uint64_t nbits = 8 * chunk.value_nbytes, sign = POWER(nbits - 1);
    const uint64_t marker = take_number(nbits / 8);
    uint64_t n = take_uleb(9);
    require(n >= 1 && n <= chunk.nvalues);
    struct terp_reader_chunk list = {UINT32, 0, 1, {n}, n, false, false};
    const uint64_t *distance = decode_inner(list, take_uleb(9), REFERENCES);
    list.type = INT64;
    const uint64_t *added = decode_inner(list, take_uleb(9), REFERENCES);
    uint64_t *word = decode_inner(chunk, BYTES_LEFT, REFERENCES);
    /* From the last one, so that what is before it is as it was decoded. */
    for (uint64_t i = chunk.nvalues; i-- > 0;) {
        if (word[i] != marker) continue;
        require(n-- > 0 && distance[n] >= 1 && distance[n] <= i);
        const uint64_t d = added[n], v = word[i - distance[n]];
        require(v != marker);
        word[i] = (v + d) & ONES(nbits);
        if (chunk.type < BYTES || chunk.type >= FLOAT16)
            word[i] = ((v + d / 2) & (sign - 1)) | ((v ^ d << (nbits - 1)) & sign);
    }
    require(n == 0);
    return word;
}

static uint64_t *decode_body(void)
{
    struct terp_reader_chunk chunk = s.chunk;
    const uint64_t nparts = NPARTS(chunk.type), n = nparts * chunk.nvalues;
    const uint64_t nbytes = chunk.value_nbytes / nparts;
    if (s.coding == COPIES) return decode_copies(chunk);
    if (s.coding == REFERENCES) return decode_references(chunk);
    if (s.prediction > 0 || s.coding == CONSTANT) return decode_coded();
    if (s.coding == RAW) {
        uint64_t *word = take_fields(n, 8 * nbytes);
        for (uint64_t i = 0; chunk.big_endian && i < n; i++)
            word[i] = swapped(word[i], nbytes);
        return word;
    }
    take_bound();
    uint64_t *word = reserve(n, sizeof *word);
    chunk.type -= COMPLEX64; /* of the parts */
    for (uint64_t part = 0; part < 2; part++) {
        const uint64_t nleft = part == 0 ? take_uleb(9) : BYTES_LEFT;
        const uint64_t *from = decode_inner(chunk, nleft, PARTS);
        for (uint64_t i = 0; i < chunk.nvalues; i++) word[2 * i + part] = from[i];
    }
    return word;
}

/* ---- the library's function ---- */

enum terp_reader_status terp_reader_decode(const void *stream, size_t nbytes,
                                           struct terp_reader_chunk *chunk_ret,
                                           void *values, size_t values_cap_nbytes)
{
    const uint8_t *at = stream;
    memset(chunk_ret, 0, sizeof *chunk_ret);
    if (setjmp(refused) == 0) {
        require_or(is_ieee(), TERP_READER_ARITHMETIC);
        enter(at, nbytes);
        take_head(chunk_ret, RAW);
        const uint64_t nparts = NPARTS(chunk_ret->type);
        const uint64_t size = chunk_ret->value_nbytes / nparts;
        const uint64_t n = values != NULL ? chunk_ret->nvalues * nparts : 0;
        require_or(n <= values_cap_nbytes / size, TERP_READER_CAPACITY);
        if (n > 0) require(WORD(at + 8) == checksum(at + 16, nbytes - 16, WORD(at)));
        const uint64_t *word = n > 0 ? decode_body() : NULL;
        require(n == 0 || BYTES_LEFT == 0);
        for (uint64_t i = 0; i < n; i++)
            store((uint8_t *)values + i * size, size,
                  chunk_ret->big_endian ? swapped(word[i], size) : word[i]);
        status = TERP_READER_OK;
    }
    while (blocks != NULL) {
        void **next = blocks[0];
        free(blocks);
        blocks = next;
    }
    return status;
}

#ifdef TERP_READER_MAIN
#include <stdio.h>

int main(int argc, char **argv)
{
    static const char *const why[] = {
        "cannot read or write it", "not a whole stream of version 1", "too large",
        "no memory", "this program does not round as IEEE 754"};
    struct terp_reader_chunk chunk = {0};
    if (argc != 3 || freopen(argv[1], "rb", stdin) == NULL ||
        fseek(stdin, 0, SEEK_END) != 0) {
        fputs("usage: terp_decode STREAM VALUES\n", stderr);
        return EXIT_FAILURE;
    }
    const long end = ftell(stdin);
    const size_t nbytes = end > 0 ? (size_t)end : 0;
    uint8_t *stream = malloc(nbytes + 1), *values = NULL;
    rewind(stdin);
    if (stream != NULL && fread(stream, 1, nbytes, stdin) == nbytes)
        status = terp_reader_decode(stream, nbytes, &chunk, NULL, 0);
    const size_t size = (size_t)(chunk.nvalues * chunk.value_nbytes);
    if (status == TERP_READER_OK && size > 0) values = malloc(size);
    if (values != NULL)
        status = terp_reader_decode(stream, nbytes, &chunk, values, size);
    const bool is_written = values != NULL && status == TERP_READER_OK &&
                            freopen(argv[2], "wb", stdout) != NULL &&
                            fwrite(values, size, 1, stdout) == 1 && fclose(stdout) == 0;
    if (!is_written) fprintf(stderr, "terp_decode: %s: %s\n", argv[1], why[status]);
    free(values);
    free(stream);
    return is_written ? EXIT_SUCCESS : EXIT_FAILURE;
}
#endif
#endif
