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
    int type, value_nbytes, rank;
    bool big_endian, stack;
    uint64_t dims[4], nvalues;
};

/* Says what a stream of any bytes holds and, unless `values` is NULL, decodes
 * it, with some 50 bytes of memory for each value. What is in `values` says
 * nothing where it fails. */
enum terp_reader_status
terp_reader_decode(const void *stream, size_t nbytes,
                   struct terp_reader_chunk *chunk_ret, void *values,
                   size_t values_cap_nbytes);

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

/* Where a rule is broken, and the memory of the running call. */
static jmp_buf refused;
struct block {
    struct block *next;
};
static struct block *blocks;

/* Every rule of the document goes through here. */
static void
require(bool holds)
{
    if (!holds)
        longjmp(refused, TERP_READER_DAMAGED);
}

/* Zeros, until the call ends. */
static void *
reserve(uint64_t count, size_t size)
{
    const size_t head = 16;
    struct block *block = NULL;

    if (count < (SIZE_MAX - head) / size)
        block = calloc(1, head + (size_t)count * size);
    if (block == NULL)
        longjmp(refused, TERP_READER_MEMORY);
    block->next = blocks;
    blocks = block;
    return (uint8_t *)block + head;
}

/* ---- bytes, numbers, bit field arrays ---- */

struct input {
    const uint8_t *at;
    size_t left;
};

static const uint8_t *
take(struct input *in, uint64_t nbytes)
{
    const uint8_t *at = in->at;
    require(nbytes <= in->left);
    in->at += nbytes;
    in->left -= (size_t)nbytes;
    return at;
}

static uint64_t
load(const uint8_t *at, int nbytes)
{
    uint64_t value = 0;
    while (nbytes > 0)
        value = value << 8 | at[--nbytes];
    return value;
}

static void
store(uint8_t *at, int nbytes, bool big_endian, uint64_t value)
{
    for (int i = 0; i < nbytes; i++, value >>= 8)
        at[big_endian ? nbytes - 1 - i : i] = (uint8_t)value;
}

static uint64_t
take_number(struct input *in, int nbytes)
{
    return load(take(in, (uint64_t)nbytes), nbytes);
}

static int
take_byte(struct input *in)
{
    return *take(in, 1);
}

static uint64_t
take_uleb(struct input *in)
{
    uint64_t value = 0, byte = 128;
    for (int i = 0; byte >= 128; i++) {
        require(i < 9);
        byte = take_number(in, 1);
        value |= (byte & 127) << (7 * i);
    }
    return value;
}

static bool
bit_of(const uint8_t *bytes, uint64_t i)
{
    return bytes[i / 8] >> i % 8 & 1;
}

static uint64_t
divided_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static uint64_t
least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The largest number of `nbits`, at least 1. */
static uint64_t
mask_of(int nbits)
{
    return ~UINT64_C(0) >> (64 - nbits);
}

/* The integer that 2v, for v, or -2v - 1 stands for; modulo 2^64. */
static uint64_t
unfolded(uint64_t number)
{
    return number & 1 ? ~(number >> 1) : number >> 1;
}

/* Numbers in groups, each of which is a bit field array. Its width is one of
 * `widths`, or where there are none a byte before it. */
static uint64_t *
take_groups(struct input *in, uint64_t count, uint64_t group,
            const uint64_t *widths, int max_width)
{
    uint64_t *numbers = reserve(count, sizeof *numbers);

    for (uint64_t first = 0; first < count; first += group) {
        const uint64_t n = least(group, count - first);
        const uint64_t width =
            widths != NULL ? widths[first / group] : take_number(in, 1);
        require(width <= (uint64_t)max_width);
        require(width == 0 || n <= 8 * (uint64_t)in->left / width);
        const uint8_t *fields = take(in, divided_up(n * width, 8));
        for (uint64_t i = 0; i < n; i++)
            for (uint64_t b = 0; b < width; b++)
                numbers[first + i] |= (uint64_t)bit_of(fields, i * width + b)
                                      << b;
    }
    return numbers;
}

static uint64_t *
take_fields(struct input *in, uint64_t count, int width)
{
    const uint64_t widths[] = {(uint64_t)width};
    return take_groups(in, count, count, widths, width);
}

/* ---- checksum: XXH3 of 64 bits, seeded; xxhash's doc/xxhash_spec.md ---- */

static const uint64_t default_secret[24] = {
    0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de,
    0x1f67b3b7a4a44072, 0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82,
    0x8e2443f7744608b8, 0x4c263a81e69035e0, 0xcb00c391bb52283c,
    0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
    0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a,
    0x647378d9c97e9fc8, 0xc3ebd33483acc5ea, 0xeb6313faffa081c5,
    0x49daf0b751dd0d17, 0x9e68d429265516d3, 0xfca1477d58be162b,
    0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af};

static const uint64_t prime32[] = {0x9e3779b1, 0x85ebca77, 0xc2b2ae3d};
static const uint64_t prime64[] = {0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f,
                                   0x165667b19e3779f9, 0x85ebca77c2b2ae63,
                                   0x27d4eb2f165667c5};
static const uint64_t prime_mx[] = {0x165667919e3779f9, 0x9fb21c651e98df25};

/* The high half of a product, xor the low one. */
static uint64_t
folded(uint64_t a, uint64_t b)
{
    const uint64_t half = 0xffffffff, low = (a & half) * (b & half);
    const uint64_t mid = (a >> 32) * (b & half) + (low >> 32);
    const uint64_t cross = (a & half) * (b >> 32) + (mid & half);
    return ((a >> 32) * (b >> 32) + (mid >> 32) + (cross >> 32)) ^ a * b;
}

/* Two words, xor what is the secret there. */
static uint64_t
mixed(const uint8_t *at, const uint8_t *secret, uint64_t seed)
{
    return folded(load(at, 8) ^ (load(secret, 8) + seed),
                  load(at + 8, 8) ^ (load(secret + 8, 8) - seed));
}

static uint64_t
avalanche(uint64_t h)
{
    h = (h ^ h >> 37) * prime_mx[0];
    return h ^ h >> 32;
}

static uint64_t
hash_up_to_16(const uint8_t *at, size_t n, const uint8_t *key, uint64_t seed)
{
    uint8_t swapped[8];
    uint64_t h, high;

    if (n > 8) {
        h = load(at, 8) ^ ((load(key + 24, 8) ^ load(key + 32, 8)) + seed);
        high = load(key + 40, 8) ^ load(key + 48, 8);
        high = load(at + n - 8, 8) ^ (high - seed);
        store(swapped, 8, true, h);
        return avalanche(n + load(swapped, 8) + high + folded(h, high));
    }
    if (n >= 4) {
        store(swapped, 4, true, seed);
        seed ^= load(swapped, 4) << 32;
        h = load(at + n - 4, 4) + (load(at, 4) << 32);
        h ^= (load(key + 8, 8) ^ load(key + 16, 8)) - seed;
        h ^= (h << 49 | h >> 15) ^ (h << 24 | h >> 40);
        h *= prime_mx[1];
        h = (h ^ ((h >> 35) + n)) * prime_mx[1];
        return h ^ h >> 28;
    }
    h = (uint64_t)at[0] << 16 | (uint64_t)at[n / 2] << 24 | at[n - 1] | n << 8;
    h ^= (load(key, 4) ^ load(key + 4, 4)) + seed;
    h = (h ^ h >> 33) * prime64[1];
    h = (h ^ h >> 29) * prime64[2];
    return h ^ h >> 32;
}

static uint64_t
hash_up_to_240(const uint8_t *at, size_t n, const uint8_t *key, uint64_t seed)
{
    uint64_t h = n * prime64[0];

    for (size_t i = 0; n <= 128 && i <= (n - 1) / 32; i++)
        h += mixed(at + 16 * i, key + 32 * i, seed) +
             mixed(at + n - 16 * (i + 1), key + 32 * i + 16, seed);
    if (n <= 128)
        return avalanche(h);
    for (size_t i = 0; i < n / 16; i++) {
        h += mixed(at + 16 * i, key + (i < 8 ? 16 * i : 16 * i - 125), seed);
        h = i == 7 ? avalanche(h) : h;
    }
    return avalanche(h + mixed(at + n - 16, key + 119, seed));
}

static uint64_t
hash_long(const uint8_t *at, size_t n, const uint8_t *key)
{
    uint64_t sums[8] = {prime32[2], prime64[0], prime64[1], prime64[2],
                        prime64[3], prime32[1], prime64[4], prime32[0]};
    uint64_t h = n * prime64[0];
    const size_t last = (n - 1) / 64;

    for (size_t stripe = 0; stripe <= last; stripe++) {
        const uint8_t *from = at + (stripe < last ? 64 * stripe : n - 64);
        const size_t key_at = stripe < last ? 8 * (stripe % 16) : 121;
        for (size_t i = 0; i < 8; i++) {
            const uint64_t value = load(from + 8 * i, 8);
            const uint64_t keyed = value ^ load(key + key_at + 8 * i, 8);
            sums[i ^ 1] += value;
            sums[i] += (keyed & 0xffffffff) * (keyed >> 32);
        }
        for (size_t i = 0; i < 8 && stripe < last && stripe % 16 == 15; i++) {
            sums[i] ^= sums[i] >> 47 ^ load(key + 128 + 8 * i, 8);
            sums[i] *= prime32[0];
        }
    }
    for (size_t i = 0; i < 8; i += 2)
        h += folded(sums[i] ^ load(key + 11 + 8 * i, 8),
                    sums[i + 1] ^ load(key + 19 + 8 * i, 8));
    return avalanche(h);
}

static uint64_t
hash(const uint8_t *at, size_t n, uint64_t seed)
{
    uint8_t key[192];

    for (int i = 0; i < 24; i++) { /* seeded, where the bytes are many */
        const uint64_t added = i % 2 == 0 ? seed : 0 - seed;
        store(key + 8 * i, 8, false, default_secret[i] + (n > 240 ? added : 0));
    }
    if (n > 240)
        return hash_long(at, n, key);
    return n > 16 ? hash_up_to_240(at, n, key, seed)
                  : hash_up_to_16(at, n, key, seed);
}

static uint64_t
checksum(const uint8_t *at, size_t n, uint64_t seed)
{
    const size_t piece = 16384, npieces = n < 2 * piece ? 1 : n / piece;
    uint64_t sum = 0;

    for (size_t i = 0; i < npieces; i++) {
        const size_t left = n - i * piece,
                     count = i + 1 < npieces ? piece : left;
        sum += (2 * i + 1) * hash(at + i * piece, count, seed);
    }
    return sum;
}

/* ---- arithmetic of T, which has 32 or 64 bits ---- */

/* The nearest number of T. Each operation stands in one of these: `volatile`
 * keeps compilers from merging two, or from more digits than there are. That
 * what is made of two float32 is first rounded to float64 makes no difference
 * to a sum, a difference, a product or a quotient. */
static double
fl(int nbits, double x)
{
    volatile float narrow = nbits == 32 ? (float)x : 0;
    volatile double wide = x;
    return nbits == 32 ? (double)narrow : wide;
}

static double
value_of(int nbits, uint64_t word)
{
    const uint32_t low = (uint32_t)word;
    float narrow;
    double wide;
    memcpy(&narrow, &low, sizeof narrow);
    memcpy(&wide, &word, sizeof wide);
    return nbits == 32 ? (double)narrow : wide;
}

static uint64_t
word_of(int nbits, double value)
{
    const float narrow = nbits == 32 ? (float)value : 0;
    uint32_t low;
    uint64_t word;
    memcpy(&low, &narrow, sizeof low);
    memcpy(&word, &value, sizeof word);
    return nbits == 32 ? low : word;
}

static double
take_double(struct input *in)
{
    return value_of(64, take_number(in, 8));
}

static double
largest_of(int nbits)
{
    return nbits == 32 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
}

/* A word as a signed integer. */
static int64_t
signed_of(int nbits, uint64_t word)
{
    const uint64_t sign = UINT64_C(1) << (nbits - 1);
    return (int64_t)(((word & mask_of(nbits)) ^ sign) - sign);
}

/* Whether this program's doubles are those of IEEE 754: no more digits, to
 * nearest even, subnormal ones too, no operation merged with another. */
static bool
is_ieee(void)
{
    const double a = fl(64, 0x1.0000001p0), square = fl(64, a * a);
    return word_of(64, -2.5) == UINT64_C(0xc004000000000000) &&
           word_of(32, -2.5) == 0xc0200000 &&
           fl(64, fl(64, 1) + fl(64, 0x1.001p-53)) > 1 &&
           fl(64, square - fl(64, 0x1.0000002p0)) == 0 &&
           word_of(64, fl(64, fl(64, 0x1p-1074) * fl(64, 1.5))) == 2;
}

/* ---- codes of symbols, or of tokens ---- */

enum {
    NSYMBOLS = 1024,
    NTOKENS = 504,
    WORD_MAX_NBITS = 15,
    NENTRIES = 75,
    TILE_NSYMBOLS = 4096
};

/* A canonical code: how many words have each length, and whose they are, by
 * (length, symbol). */
struct codebook {
    uint16_t nwords[WORD_MAX_NBITS + 1];
    uint16_t symbol[NSYMBOLS];
};

/* Makes a codebook of the words' lengths; 0: no word. */
static void
make_codebook(struct codebook *book, const uint8_t *nbits, int nsymbols)
{
    uint16_t *symbol = book->symbol;
    for (int length = 1; length <= WORD_MAX_NBITS; length++)
        for (int s = 0; s < nsymbols; s++)
            if (nbits[s] == length) {
                book->nwords[length]++;
                *symbol++ = (uint16_t)s;
            }
}

/* Package-merge (Larmore and Hirschberg). Of the symbols, by weight, a level's
 * list has the first ones, `nleaves` of them before its n-th item; each that is
 * among the items taken of the list has a bit more. */
static void
make_optimal(struct codebook *book, const uint64_t *weight, int nsymbols)
{
    const int most = 2 * nsymbols - 2;
    uint64_t list[2 * NSYMBOLS], merged[2 * NSYMBOLS];
    int nleaves[WORD_MAX_NBITS][2 * NSYMBOLS], by_weight[NSYMBOLS], nlist = 0;
    uint8_t nbits[NSYMBOLS] = {0};

    for (int s = 0; s < nsymbols; s++) {
        int at = s;
        for (; at > 0 && weight[by_weight[at - 1]] > weight[s]; at--)
            by_weight[at] = by_weight[at - 1];
        by_weight[at] = s;
    }
    for (int level = 0; level < WORD_MAX_NBITS; level++) {
        int leaf = 0, pair = 0, n = 0;
        for (;; n++) {
            const uint64_t alone =
                leaf < nsymbols ? weight[by_weight[leaf]] : UINT64_MAX;
            const uint64_t both =
                pair + 1 < nlist ? list[pair] + list[pair + 1] : UINT64_MAX;
            nleaves[level][n] = leaf;
            merged[n] = least(alone, both);
            if (n == most || merged[n] == UINT64_MAX)
                break;
            leaf += alone <= both;
            pair += alone <= both ? 0 : 2;
        }
        memcpy(list, merged, sizeof list);
        nlist = n;
    }
    for (int level = WORD_MAX_NBITS - 1, n = most; level >= 0; level--) {
        for (int i = 0; i < nleaves[level][n]; i++)
            nbits[by_weight[i]]++;
        n = 2 * (n - nleaves[level][n]);
    }
    make_codebook(book, nbits, nsymbols);
}

/* ---- dictionary: frequencies, by the distributions that they follow ---- */

/* What of a distribution is beyond an edge, on both sides. */
static double
tail_of(int family, double scale, double edge)
{
    if (family == 0) /* Cauchy */
        return 2 / 3.14159265358979323846 * atan(scale / edge);
    return family == 1 ? exp(-edge / scale) : erfc(edge / scale / sqrt(2));
}

/* Of the magnitudes 0 to 511, and of the escape behind them. The C library's
 * functions need not be exact: no rounding is near to a tie. */
static void
make_frequencies(int entry, uint64_t frequency[513])
{
    static const double scales[3][4] = {
        {0.0005, 64, 1, 32}, {0.05, 200, 0.5, 8}, {0.12, 256, 0.5, 8}};
    static const double zeros[] = {0, 0.25, 0.875};
    const int family = entry / 25, place = entry % 25;
    const int mixture = place < 19 ? 0 : 1 + (place - 19) / 3;
    const double *range = scales[family] + (mixture > 0 ? 2 : 0);
    const double nth = mixture > 0 ? (place - 19) % 3 / 2. : place / 18.;
    const double scale = range[0] * pow(range[1] / range[0], nth);
    const double beyond = tail_of(family, scale, 511.5);
    const double rest = 1 - zeros[mixture], unit = rest / (1 - beyond);
    const double escape = fmin(fmax(rest * beyond, 0x1p-16), 0x1p-6);
    double remainder[512];

    frequency[512] = (uint64_t)(escape * 0x1p24 + 0.5);
    uint64_t left = (UINT64_C(1) << 24) - frequency[512];
    const double shared = (double)(left - 1023);
    const double zero =
        zeros[mixture] + unit * (1 - tail_of(family, scale, 0.5));
    frequency[0] = 1 + (uint64_t)ceil(shared * zero);
    frequency[0] += (left - frequency[0]) % 2;
    left = (left - frequency[0]) / 2;
    for (int m = 1; m < 512; m++) {
        const double inner = tail_of(family, scale, m - 0.5);
        const double outer = tail_of(family, scale, m + 0.5);
        const double share = shared * (unit * (inner - outer) / 2);
        frequency[m] = 1 + (uint64_t)share;
        remainder[m] = share - floor(share);
        left -= frequency[m];
    }
    for (; left > 0; left--) {
        int largest = 1;
        for (int m = 2; m < 512; m++)
            largest = remainder[m] > remainder[largest] ? m : largest;
        frequency[largest]++;
        remainder[largest] = -1;
    }
}

/* ---- tokens ---- */

/* Classes of runs and, of which the last is the escape, of magnitudes less one:
 * `nalone` classes of one number, then two an octave. */
enum {
    RUNS_ALONE = 4,
    MAGNITUDES_ALONE = 8,
    NCODE_CLASSES = 21,
    ESCAPE_CLASS = 20
};

static int
class_nbits(int class, int nalone)
{
    return class < nalone ? 0 : nalone / 4 + (class - nalone) / 2;
}

static uint64_t
class_first(int class, int nalone)
{
    const int scaled = class < nalone ? class : 2 + class % 2;
    return (uint64_t)scaled << class_nbits(class, nalone);
}

static void
make_token_weights(const uint64_t frequency[513], uint64_t weight[NTOKENS])
{
    uint64_t of_code[NCODE_CLASSES] = {0}, runs[TILE_NSYMBOLS + 1];

    runs[0] = UINT64_C(1) << 32;
    for (int i = 0; i < TILE_NSYMBOLS; i++)
        runs[i + 1] = runs[i] * (256 * frequency[0]) >> 32;
    for (int c = 0; c < ESCAPE_CLASS; c++) {
        const uint64_t first = class_first(c, MAGNITUDES_ALONE) + 1;
        const int nbits = class_nbits(c, MAGNITUDES_ALONE);
        for (uint64_t m = first; m < first + (1u << nbits) && m < 512; m++)
            of_code[c] += 2 * frequency[m];
    }
    of_code[ESCAPE_CLASS] = frequency[512];
    for (int token = 0; token < NTOKENS; token++) {
        const int class = token / NCODE_CLASSES;
        const uint64_t first = class_first(class, RUNS_ALONE);
        const uint64_t end = first + (1u << class_nbits(class, RUNS_ALONE));
        weight[token] =
            (runs[first] - runs[end]) * of_code[token % NCODE_CLASSES];
        weight[token] += weight[token] == 0;
    }
}

/* Entries stay, once they are made. */
static const struct codebook *
dictionary(int entry, bool of_tokens)
{
    static struct codebook *books[2][NENTRIES];
    uint64_t frequency[513], weight[NSYMBOLS];
    struct codebook **book = &books[of_tokens][entry];

    if (*book != NULL)
        return *book;
    *book = calloc(1, sizeof **book);
    if (*book == NULL)
        longjmp(refused, TERP_READER_MEMORY);
    make_frequencies(entry, frequency);
    weight[0] = frequency[512];
    for (int m = 0; m < 512; m++)
        weight[512 + m] = weight[512 - m] = frequency[m];
    if (of_tokens)
        make_token_weights(frequency, weight);
    make_optimal(*book, weight, of_tokens ? NTOKENS : NSYMBOLS);
    return *book;
}

/* ---- frame ---- */

enum { /* types */
    FLOAT64 = 1,
    BYTES = 2,
    INT64 = 6,
    UINT8 = 7,
    UINT32 = 9,
    FLOAT16 = 11,
    COMPLEX64 = 13,
    COMPLEX128 = 14
};

enum { /* codings */
    RAW = 0,
    CONSTANT = 1,
    HUFFMAN = 2,
    CUSTOM = 3,
    RATIO = 5,
    COPIES = 13,
    REFERENCES = 14,
    PARTS = 15
};

enum { /* predictions, and the bits beside them */
    SPLINE = 1,
    LORENZO = 2,
    LOSSLESS = 3,
    HAS_SPECIALS = 0x10,
    HAS_DOMAIN = 0x20,
    IS_POINTWISE = 0x40,
    HAS_PREFIXES = 0x80
};

/* What stands before a body. */
struct head {
    int coding, prediction, flags;
    struct terp_reader_chunk domain;
    double bound;
};

/* The dims that `layout` tells of. */
static void
take_dims(struct input *in, int layout, struct terp_reader_chunk *chunk)
{
    chunk->stack = layout >> 7;
    chunk->rank = (layout & 3) + 1;
    chunk->nvalues = 1;
    require(!chunk->stack || chunk->rank > 1);
    for (int i = 0; i < chunk->rank; i++) {
        const uint64_t dim = take_number(in, 1 << (layout >> 2 & 3));
        require(dim > 0 && chunk->nvalues <= mask_of(63) / dim);
        chunk->dims[i] = dim;
        chunk->nvalues *= dim;
    }
}

/* The layout, checksum, dims and type, which a stream within a stream lacks. */
static void
take_chunk(struct input *in, int layout, struct terp_reader_chunk *chunk)
{
    static const int nbytes[] = {4, 8, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 8, 16};

    take(in, 8);
    take_dims(in, layout, chunk);
    chunk->big_endian = layout >> 6 & 1;
    chunk->type = layout >> 4 & 3;
    if (chunk->type == 3) {
        chunk->type = take_byte(in);
        require(chunk->type >= 3 && chunk->type <= COMPLEX128);
    }
    chunk->value_nbytes = nbytes[chunk->type];
    require(chunk->type != BYTES || chunk->rank == 1);
    require(chunk->nvalues <= mask_of(63) / (uint64_t)chunk->value_nbytes);
}

static struct head
take_head(struct input *in, struct terp_reader_chunk *chunk, bool is_inner)
{
    struct head head = {0};
    int layout = 0;

    if (!is_inner) {
        require(memcmp(take(in, 5), "TERP\1", 5) == 0); /* and version 1 */
        layout = take_byte(in);
    }
    const int coding = head.coding = take_byte(in), byte = take_byte(in);
    head.prediction = byte & 0xf;
    head.flags = byte & 0xf0;
    if (!is_inner)
        take_chunk(in, layout, chunk);
    if (coding == HUFFMAN || coding == RATIO)
        require(head.prediction >= SPLINE && head.prediction <= LOSSLESS);
    else
        require(coding <= CONSTANT || (coding >= COPIES && coding <= PARTS));
    const bool is_coded = coding == HUFFMAN || coding == RATIO;
    require(is_coded || byte == 0 ||
            (coding == CONSTANT && byte == HAS_SPECIALS));
    require(coding == RAW || chunk->type != BYTES);
    require(coding == RAW || (coding == PARTS) == (chunk->type >= COMPLEX64));
    require(coding != REFERENCES || chunk->value_nbytes > 1);
    require(!(byte & HAS_PREFIXES) || (!is_inner && head.prediction == SPLINE));
    head.domain = *chunk;
    if (byte & HAS_DOMAIN) {
        struct terp_reader_chunk *domain = &head.domain;
        layout = take_byte(in);
        require((layout & 0x70) == 0);
        take_dims(in, layout, domain);
        require(domain->nvalues == chunk->nvalues);
        require(domain->stack != chunk->stack || domain->rank != chunk->rank ||
                memcmp(domain->dims, chunk->dims, sizeof chunk->dims) != 0);
    }
    if (is_coded) {
        head.bound = take_double(in);
        require(head.bound >= 0 && head.bound < INFINITY);
        require(head.bound > 0 || head.prediction != SPLINE);
    }
    take(in, byte & HAS_PREFIXES ? 24 : 0);
    return head;
}

/* ---- a coded stream ---- */

enum spline {
    CUBIC = 0,
    NATURAL = 1,
    LINEAR = 2,
    LONG = 3,
    MEAN
};

/* Of a level. */
struct plan {
    double step;
    enum spline spline;
    int priorities;
};

/* A code beyond all others: an escape, until it is known to be listed. */
enum {
    ESCAPE = -32768
};

/* Dimensions are numbered from the fastest; `pitch` is how far apart neighbours
 * are, pitch[4] how far bricks. */
struct stream {
    const struct terp_reader_chunk *chunk;
    struct head head;
    int rank, nlevels, slowest; /* dimension of more than one value */
    uint64_t nvalues, nbricks, extent[4], pitch[5];
    int carrier, carried_nbits, nbits; /* T: of the carrier; of what is coded */
    uint64_t offset, scale;
    int form, signs, center; /* of a pointwise bound */
    double joint, shift;     /* 0: no floor */
    double step, reference;
    int wide;
    struct plan plan[64];
    /* Of lorenzo and lossless: N; S, or 0 where quants are not exact. */
    int mask, twice, lossless_form, zeros, tail_nbits;
    bool has_means;
    uint64_t limit, lossless_center;
    double unit;
    uint8_t *mark;                 /* 0: not special, else color + 1 */
    const uint8_t *special_values; /* of the colors, or of all specials */
    int ncolors, escape_nbytes;    /* 0: words */
    uint8_t *is_minus;
    uint64_t *extra; /* tails, or the numbers that belong to shifts */
    uint64_t *group_shift, *group_zeros;
    struct input remainders, escapes;
    int32_t *code;  /* of each point */
    uint64_t *word; /* of T, or integers on their way there */
};

static void
set_domain(struct stream *s)
{
    const struct terp_reader_chunk *domain = &s->head.domain;

    s->rank = domain->rank - domain->stack;
    s->nbricks = domain->stack ? domain->dims[0] : 1;
    s->nvalues = domain->nvalues;
    s->pitch[0] = 1;
    for (int d = 0; d < 4; d++) {
        s->extent[d] = d < s->rank ? domain->dims[domain->rank - 1 - d] : 1;
        s->pitch[d + 1] = s->pitch[d] * s->extent[d];
        s->slowest = s->extent[d] > 1 ? d : s->slowest;
        while (UINT64_C(1) << s->nlevels < s->extent[d])
            s->nlevels++;
    }
}

static uint64_t
coordinate(const struct stream *s, uint64_t point, int dimension)
{
    return point / s->pitch[dimension] % s->extent[dimension];
}

/* ---- carrier ---- */

static void
read_carrier(struct stream *s, struct input *in)
{
    const int byte = take_byte(in), nbytes = (byte >> 4) + 1;

    require((byte & 0x8c) == 0);
    s->carrier = byte & 3;
    s->carried_nbits = s->carrier > 1 ? 64 : 32;
    if (s->carrier == 0) {
        require(s->chunk->type >= FLOAT16 && nbytes == 1);
        const double bound = take_double(in);
        require(bound >= 0 && bound < INFINITY);
        return;
    }
    require(!(s->head.flags & IS_POINTWISE));
    s->offset = take_number(in, s->chunk->value_nbytes);
    s->scale = take_number(in, nbytes);
    require(s->scale > 0);
}

/* An integer, or the bits of a 16-bit float, of what carries it. */
static uint64_t
carried_integer(const struct stream *s, uint64_t word)
{
    const int type = s->chunk->type, nbits = 8 * s->chunk->value_nbytes;
    const uint64_t sign = UINT64_C(1) << (nbits - 1);
    const bool is_unsigned = type >= UINT8 && type < FLOAT16;
    const uint64_t above = s->offset ^ (is_unsigned ? 0 : sign);
    const double y = value_of(s->carried_nbits, word), below = floor(fabs(y));
    const bool is_minus = s->carrier == 3 ? word >> 63 : !(y >= 0);
    uint64_t n = (is_minus ? above : mask_of(nbits) - above) / s->scale;

    if (s->carrier == 3)
        n = least(n, word & mask_of(63));
    else
        n = least(n, UINT64_C(1) << (s->carrier == 1 ? 24 : 53));
    if (s->carrier < 3 && fabs(y) < (double)n) /* which a NaN is not */
        n = (uint64_t)below + (fabs(y) - below > 0.5);
    n = s->offset + (is_minus ? 0 - s->scale * n : s->scale * n);
    n &= mask_of(nbits);
    return type >= FLOAT16 && n >= sign ? n ^ (sign - 1) : n;
}

/* A 16-bit float; there is no infinity and no NaN. */
static uint64_t
carried_half(const struct stream *s, double y)
{
    const int nfraction = s->chunk->type == FLOAT16 ? 10 : 7;
    const int bias = s->chunk->type == FLOAT16 ? 15 : 127;
    const uint64_t sign = signbit(y) && !isnan(y) ? 0x8000 : 0;
    const uint64_t largest = (UINT64_C(0x7fff) >> nfraction << nfraction) - 1;
    int exponent;

    if (!(fabs(y) < 0x1p+128))
        return sign | largest;
    frexp(y, &exponent);
    exponent = y == 0 || exponent + bias < 2 ? 1 : exponent + bias - 1;
    /* To nearest even; the highest digit of what is not subnormal, or a carry,
     * counts on. */
    const double digits = rint(ldexp(fabs(y), nfraction + bias - exponent));
    const uint64_t above = (uint64_t)(exponent - 1) << nfraction;
    return sign | least(above + (uint64_t)digits, largest);
}

/* ---- pointwise ---- */

static void
read_pointwise(struct stream *s, struct input *in)
{
    const int byte = take_byte(in), most = s->carried_nbits == 64 ? 1024 : 128;
    const double e = take_double(in);
    const bool has_floor = byte >> 4;

    s->form = byte & 3;
    s->signs = byte >> 2 & 3;
    require(byte < 32 && s->form < 3 && s->signs < 3 && e > 0 && e < 1);
    require((s->form > 0 && !has_floor) || s->signs == 0);
    require(s->form > 0 || !has_floor);
    if (s->form == 0)
        return;
    s->nbits = s->form == 1 ? 32 : 64;
    s->center = (int)signed_of(16, take_number(in, 2));
    require(-most <= s->center && s->center <= most);
    if (!has_floor)
        return;
    const double a = take_double(in);
    require(a > 0 && a < INFINITY);
    s->joint = fl(64, a / e);
    s->shift = take_double(in);
    require(s->joint >= ldexp(1, 4 - most) && s->joint <= ldexp(1, most - 3));
    require(s->shift > 0 && s->shift <= 2);
}

/* 2^(y + center), as carried. */
static double
power_of_two(const struct stream *s, double y)
{
    static const double q32[] = {0x1.62e430p-1, 0x1.ebfbe0p-3,  0x1.c6af6cp-5,
                                 0x1.3b2a54p-7, 0x1.5f0890p-10, 0x1.44138ap-13};
    static const double q64[] = {
        0x1.62e42fefa39efp-1,  0x1.ebfbdff82c598p-3,  0x1.c6b08d704a0c2p-5,
        0x1.3b2ab6fba1ddap-7,  0x1.5d87fe78a5276p-10, 0x1.430913096fd9fp-13,
        0x1.ffcbfc670dcd4p-17, 0x1.62bfd47773353p-20, 0x1.b524fae627834p-24,
        0x1.e6063f7217bc6p-28, 0x1.e9d3fe3952179p-32};
    const int t = s->nbits, most = s->carried_nbits == 64 ? 1024 : 128;
    const double low = 3 - most - s->center, high = most - s->center;
    const double large = t == 32 ? 0x1.8p23 : 0x1.8p52;
    double q = 0;

    y = y > low ? y : low; /* of a NaN, too */
    y = y < high ? y : high;
    const double n = fl(t, fl(t, y + large) - large), r = fl(t, y - n);
    for (int i = t == 32 ? 5 : 10; i >= 0; i--)
        q = fl(t, (t == 32 ? q32[i] : q64[i]) + fl(t, r * q));
    const double p = fl(t, 1 + fl(t, r * q));
    const double power = ldexp(p, (int)n + s->center);
    return fl(s->carried_nbits, fmin(power, largest_of(s->carried_nbits)));
}

/* A value, as carried, of what is coded. */
static double
pointwise_value(const struct stream *s, double y, bool is_minus)
{
    const double unit = 0x1.71547652b82fep+0; /* L */
    const double factor = fl(64, s->joint / unit);
    const int t = s->nbits, carried = s->carried_nbits;
    double x = fabs(y);

    if (s->joint > 0) /* which -0.0 and NaN are not */
        is_minus = y < 0;
    if (s->joint == 0)
        x = power_of_two(s, y);
    else if (!(x <= fl(t, unit)))
        x = power_of_two(s, fl(t, x - fl(t, s->shift)));
    else if (t == 32 && carried == 32)
        x = fl(32, x * fl(32, factor));
    else
        x = fl(carried, fl(64, x * factor));
    return is_minus ? -x : x;
}

/* ---- model ---- */

static double
quantizer_step(int nbits, double step)
{
    return fl(nbits, fmin(step, largest_of(nbits) / 2048));
}

/* n steps, n being a signed integer of T's width. */
static double
steps(int nbits, uint64_t n, double step)
{
    return fl(nbits, fl(nbits, (double)signed_of(nbits, n)) * step);
}

static void
read_plans(struct stream *s, struct input *in, double step)
{
    s->reference = value_of(s->nbits, take_number(in, s->nbits / 8));
    for (int level = s->nlevels; level > 0; level--) {
        struct plan *plan = &s->plan[level];
        const int byte = take_byte(in);
        const double share = fl(64, step * ldexp((byte & 63) + 1, -6));
        plan->step = quantizer_step(s->nbits, share);
        plan->priorities = take_byte(in);
        plan->spline = (enum spline)(byte >> 6);
        if (plan->spline == LONG && plan->priorities == 170)
            plan->spline = MEAN;
    }
}

/* Zeros and the exponent, of exact quants and of lossless. */
static void
read_exact(struct stream *s, struct input *in, int significand)
{
    const bool is_float = s->nbits == 32;
    const int nfraction = is_float ? 23 : 52, lowest = is_float ? -149 : -1074;

    s->zeros = take_byte(in);
    const int e = (int)signed_of(16, take_number(in, 2));
    require(significand > 0 && s->zeros <= nfraction);
    require(e == lowest ||
            (is_float ? e >= -126 && e <= 103 : e >= -1022 && e <= 970));
    s->unit = fl(s->nbits, ldexp(significand, e));
    s->limit = e == lowest ? 0 : UINT64_C(1) << (nfraction - s->zeros);
}

static void
read_lorenzo(struct stream *s, struct input *in)
{
    const int byte = take_byte(in);

    s->mask = byte & 15;
    s->has_means = byte >> 4 & 1;
    require(byte < 128 && (!(byte & 0x40) || s->wide == 13));
    require(!s->has_means ||
            (!(s->head.flags & HAS_SPECIALS) && s->slowest > 0 &&
             s->mask >> s->slowest & 1 && s->extent[s->slowest] >= 8));
    if (byte & 0x20)
        read_exact(s, in, take_byte(in));
    require(byte & 0x20 || s->head.bound > 0);
    if (byte & 0x40) {
        s->tail_nbits = take_byte(in);
        require(s->tail_nbits > 0 &&
                s->tail_nbits <= (s->nbits == 32 ? 16 : 48));
    }
}

static void
read_lossless(struct stream *s, struct input *in)
{
    const int byte = take_byte(in), form = take_byte(in);

    s->mask = byte & 15;
    s->twice = byte >> 4;
    s->lossless_form = form & 3;
    require((s->twice & ~s->mask) == 0 && s->wide == 0);
    require(s->lossless_form < 3 && form < 8);
    read_exact(s, in, 1);
    if (form & 4)
        s->lossless_center = take_number(in, s->nbits / 8);
}

static void
read_model(struct stream *s, struct input *in)
{
    const int byte = take_byte(in), slack = byte & 15;
    const double two = fl(64, s->head.bound + s->head.bound);
    double taken = two;

    for (int i = 0; i < slack; i++)
        taken = fl(64, taken / 2);
    s->wide = byte >> 4;
    require(slack >= 1 && slack <= 12 && s->wide <= 13);
    s->step = quantizer_step(s->nbits, fl(64, two - taken));
    if (s->head.prediction == SPLINE)
        read_plans(s, in, fl(64, two - taken));
    else if (s->head.prediction == LORENZO)
        read_lorenzo(s, in);
    else
        read_lossless(s, in);
}

/* ---- specials ---- */

/* How far before a value that is from which a mask differs; 0: from none. */
static uint64_t
delta_distance(const struct stream *s, int delta)
{
    const uint64_t distance = delta > 0 && delta <= 4 ? s->pitch[delta] : 0;

    require(delta == 0 || (distance >= 64 && distance < s->nvalues));
    return distance;
}

static void
undo_delta(uint8_t *mask, uint64_t n, uint64_t distance)
{
    for (uint64_t i = distance; distance > 0 && i < n; i++)
        mask[i] ^= mask[i - distance];
}

static void
read_specials(struct stream *s, struct input *in)
{
    const uint64_t nruns = take_uleb(in);
    const int byte = take_byte(in), ncolors = byte & 15;
    uint64_t count = 0, at = 0;

    require(nruns <= s->nvalues && (byte >> 4 == 0 || ncolors == 1));
    const uint64_t distance = delta_distance(s, byte >> 4);
    const uint64_t *gap = take_groups(in, nruns, 64, NULL, 56);
    const uint64_t *more = take_groups(in, nruns, 64, NULL, 56);
    const uint64_t *color =
        take_groups(in, ncolors > 1 ? nruns : 0, 64, NULL, 56);
    for (uint64_t run = 0; run < nruns; run++) {
        const uint64_t mark = ncolors > 1 ? color[run] + 1 : 1;
        require(ncolors < 2 || mark <= (uint64_t)ncolors);
        require(gap[run] < s->nvalues - at);
        at += gap[run];
        require(more[run] < s->nvalues - at);
        memset(s->mark + at, (int)mark, (size_t)more[run] + 1);
        at += more[run] + 1;
    }
    undo_delta(s->mark, s->nvalues, distance);
    for (uint64_t i = 0; i < s->nvalues; i++)
        count += s->mark[i] != 0;
    count = ncolors > 0 ? (uint64_t)ncolors : count;
    s->ncolors = ncolors;
    s->special_values = take(in, count * (uint64_t)s->chunk->value_nbytes);
}

/* ---- shifts, escapes ---- */

static void
read_shifts(struct stream *s, struct input *in)
{
    const int flags = take_byte(in), width = s->nbits == 32 ? 5 : 6;
    uint64_t n = 0;

    for (uint64_t i = 0; i < s->nvalues; i++)
        n += s->mark[i] == 0;
    const uint64_t ngroups = divided_up(n, 256);
    require(flags < 4);
    s->group_shift = take_fields(in, ngroups, flags & 1 ? width : 0);
    s->group_zeros = take_fields(in, ngroups, flags & 2 ? width : 0);
    s->extra = take_groups(in, n, 256, s->group_shift, s->nbits - 2);
}

static void
read_escapes(struct stream *s, struct input *in)
{
    const uint64_t n = take_uleb(in);
    uint64_t nbytes = (uint64_t)s->nbits / 8;

    require(n <= s->nvalues);
    s->escape_nbytes = n > 0 ? take_byte(in) : 0;
    require((uint64_t)s->escape_nbytes <= nbytes);
    nbytes = n * (s->escape_nbytes > 0 ? (uint64_t)s->escape_nbytes : nbytes);
    s->escapes.at = take(in, nbytes);
    s->escapes.left = (size_t)nbytes;
}

/* The next escape: an integer, or, of a spline, a value. */
static uint64_t
next_escape(struct stream *s)
{
    const int t = s->nbits, nbytes = s->escape_nbytes;
    uint64_t word = take_number(&s->escapes, nbytes > 0 ? nbytes : t / 8);

    if (nbytes > 0)
        word = unfolded(word);
    if (nbytes > 0 && s->head.prediction == SPLINE)
        word = word_of(t, fl(t, s->reference + steps(t, word, s->step)));
    return word;
}

/* ---- low bits ---- */

/* Of a tile. */
struct low {
    int nbits;
    uint64_t nsymbols, *widths, *numbers;
    struct input list;
};

static struct low *
read_low_bits(struct stream *s, struct input *in)
{
    const uint64_t ntiles = divided_up(s->nvalues, TILE_NSYMBOLS);
    const uint64_t *has = take_fields(in, ntiles, 2);
    struct low *low = reserve(ntiles, sizeof *low);

    for (uint64_t i = 0; i < ntiles; i++) {
        low[i].nsymbols = least(s->nvalues - i * TILE_NSYMBOLS, TILE_NSYMBOLS);
        if (has[i] & 1) {
            low[i].nbits = take_byte(in);
            require(low[i].nbits >= 1 && low[i].nbits <= 12);
            low[i].widths =
                take_fields(in, divided_up(low[i].nsymbols, 256), 4);
        }
        if (has[i] & 2) {
            low[i].list.left = (size_t)take_number(in, 2);
            require(low[i].list.left > 0);
        }
    }
    for (uint64_t i = 0; i < ntiles; i++) {
        if (has[i] & 1)
            low[i].numbers = take_groups(in, low[i].nsymbols, 256,
                                         low[i].widths, low[i].nbits);
        low[i].list.at = take(in, low[i].list.left);
    }
    return low;
}

static int32_t
limited_code(int64_t code)
{
    return (int32_t)(code > 32767 ? 32767 : code < -32767 ? -32767 : code);
}

/* Makes whole codes of a tile's high parts; symbols 0 come as ESCAPE. */
static void
add_low_bits(const struct low *low, int32_t *code)
{
    struct input list = low->list;
    uint64_t nzeros = 0, zero = 0, next = 0;

    for (uint64_t i = 0; i < low->nsymbols; i++) {
        nzeros += code[i] == ESCAPE;
        if (code[i] != ESCAPE && low->nbits > 0)
            code[i] = limited_code((int64_t)code[i] * (1 << low->nbits) +
                                   (int64_t)unfolded(low->numbers[i]));
    }
    if (list.left == 0)
        return;
    const uint64_t head = take_number(&list, 2), ncodes = head & 0x7fff;
    const bool is_told = head >> 15;
    require(ncodes >= 1 && ncodes <= TILE_NSYMBOLS);
    const uint64_t *widths = take_fields(&list, divided_up(ncodes, 32), 8);
    const uint64_t *numbers = take_groups(&list, ncodes, 32, widths, 16);
    const uint64_t *is_listed = take_fields(&list, is_told ? nzeros : 0, 1);
    for (uint64_t i = 0; i < low->nsymbols; i++)
        if (code[i] == ESCAPE && (!is_told || is_listed[zero++])) {
            require(next < ncodes);
            code[i] = limited_code((int64_t)unfolded(numbers[next++]));
        }
    require(next == ncodes && list.left == 0);
}

/* ---- bit maps and stages ---- */

/* A bit map of n bits: the innermost one is stored, and each tells which bytes
 * of the next are not those before them. */
static const uint8_t *
take_map(struct input *in, uint64_t nbits)
{
    uint64_t nbytes[32] = {divided_up(nbits, 8)};
    int depth = 0;

    for (; nbytes[depth] > 8; depth++)
        nbytes[depth + 1] = divided_up(nbytes[depth], 8);
    const uint8_t *map = take(in, nbytes[depth]);
    while (depth-- > 0) {
        uint8_t *next = reserve(nbytes[depth], 1);
        for (uint64_t i = 0; i < nbytes[depth]; i++)
            next[i] = bit_of(map, i) ? *take(in, 1) : i > 0 ? next[i - 1] : 0;
        map = next;
    }
    return map;
}

/* Undoes RRE4-TCMS8-RZE1; all of `in` makes n bytes. */
static const uint8_t *
take_stages(struct input *in, uint64_t n)
{
    const uint64_t nwords = divided_up(n, 4);
    const uint8_t *changes = take_map(in, nwords);
    uint8_t *bytes = reserve(nwords + 1, 4); /* behind a word of zeros */
    uint64_t nkept = 0;

    for (uint64_t i = 0; i < nwords; i++)
        nkept += bit_of(changes, i);
    nkept = divided_up(nkept, 2);
    const uint8_t *is_kept = take_map(in, 8 * nkept);
    uint8_t *kept = reserve(nkept, 8);
    for (uint64_t i = 0; i < 8 * nkept; i++)
        kept[i] = bit_of(is_kept, i) ? *take(in, 1) : 0;
    for (uint64_t i = 0; i < nkept; i++)
        store(kept + 8 * i, 8, false, unfolded(load(kept + 8 * i, 8)));
    for (uint64_t i = 0; i < nwords; i++) {
        memcpy(bytes + 4 * i + 4, bit_of(changes, i) ? kept : bytes + 4 * i, 4);
        kept += bit_of(changes, i) ? 4 : 0;
    }
    require(in->left == 0);
    return bytes + 4;
}

/* ---- tiles ---- */

/* Bits, the most significant ones of a byte first. */
struct bits {
    const uint8_t *at;
    uint64_t n, next;
};

static uint64_t
take_bits(struct bits *bits, int n)
{
    uint64_t value = 0;
    require((uint64_t)n <= bits->n - bits->next);
    for (; n > 0; n--)
        value = value << 1 | bit_of(bits->at, bits->next++ ^ 7);
    return value;
}

/* The symbol of a canonical word. */
static int
take_symbol(struct bits *bits, const struct codebook *book)
{
    const uint16_t *symbol = book->symbol;
    uint64_t word = take_bits(bits, 1);

    for (int length = 1; word >= book->nwords[length]; length++) {
        require(length < WORD_MAX_NBITS);
        word = (word - book->nwords[length]) << 1 | take_bits(bits, 1);
        symbol += book->nwords[length];
    }
    return symbol[word];
}

/* The next code of a ratio tile at `*at` or behind; false at its end. */
static bool
take_token(struct bits *bits, const struct codebook *book, int32_t *code,
           uint64_t *at, uint64_t n)
{
    const uint64_t left = bits->n - bits->next;
    struct bits rest = *bits;

    if (left < 8 && take_bits(&rest, (int)left) == mask_of(8) >> (8 - left))
        return false;
    const int token = take_symbol(bits, book), run = token / NCODE_CLASSES;
    const int class = token % NCODE_CLASSES;
    *at += class_first(run, RUNS_ALONE);
    *at += take_bits(bits, class_nbits(run, RUNS_ALONE));
    require(*at < n);
    code[*at] = ESCAPE;
    if (class < ESCAPE_CLASS) {
        const bool is_minus = take_bits(bits, 1);
        uint64_t magnitude = class_first(class, MAGNITUDES_ALONE) + 1;
        magnitude += take_bits(bits, class_nbits(class, MAGNITUDES_ALONE));
        require(magnitude < 512);
        code[*at] = is_minus ? -(int32_t)magnitude : (int32_t)magnitude;
    }
    ++*at;
    return true;
}

static void
decode_tile(struct bits *bits, int coding, const struct codebook *book,
            int32_t *code, uint64_t n)
{
    uint64_t i = 0;

    while (coding == RATIO && take_token(bits, book, code, &i, n))
        ;
    for (; coding != RATIO && i < n; i++) {
        const int symbol = take_symbol(bits, book);
        code[i] = symbol == 0 ? ESCAPE : symbol - 512;
    }
    require(bits->n - bits->next < 8);
}

static const struct codebook *
take_custom(struct input *in)
{
    struct codebook *book = reserve(1, sizeof *book);
    uint8_t nbits[NSYMBOLS] = {0};
    const uint64_t low = take_number(in, 2), high = take_number(in, 2);
    uint64_t kraft = 0;

    require(low >= 1 && low <= high && high < NSYMBOLS);
    const uint64_t *length = take_fields(in, high - low + 2, 4);
    nbits[0] = (uint8_t)*length++;
    for (uint64_t s = low; s <= high; s++)
        nbits[s] = (uint8_t)*length++;
    for (int s = 0; s < NSYMBOLS; s++)
        kraft += nbits[s] > 0 ? 1u << (WORD_MAX_NBITS - nbits[s]) : 0;
    require(kraft <= 1u << WORD_MAX_NBITS);
    make_codebook(book, nbits, NSYMBOLS);
    return book;
}

/* A tile that is not a zero tile. */
struct tile {
    uint64_t first, nsymbols; /* its symbols */
    uint64_t nbytes;
    const struct codebook *book;
};

static void
take_codebooks(struct input *in, int coding, struct tile *tile, uint64_t ntiles)
{
    const bool is_custom = coding == CUSTOM;
    const struct codebook *custom = is_custom ? take_custom(in) : NULL;
    const int n = is_custom ? 1 : take_byte(in);
    const uint8_t *entry = take(in, is_custom ? 0 : (uint64_t)n);
    int width = 0;

    require(n >= 1 && n <= NENTRIES);
    while ((n - 1) >> width != 0)
        width++;
    const uint64_t *number = take_fields(in, ntiles, width);
    for (uint64_t i = 0; i < ntiles; i++) {
        require(is_custom ||
                (number[i] < (uint64_t)n && entry[number[i]] < NENTRIES));
        tile[i].book =
            is_custom ? custom : dictionary(entry[number[i]], coding == RATIO);
    }
}

/* All that is left of a stream, which is tiles: the codes of n symbols. */
static int32_t *
decode_tiles(struct input *in, int coding, uint64_t n)
{
    const uint64_t ntiles = divided_up(n, TILE_NSYMBOLS);
    const uint8_t *map = take_map(in, ntiles);
    struct tile *tile = reserve(ntiles, sizeof *tile);
    uint64_t *first = reserve(ntiles + 1, sizeof *first); /* of partitions */
    int32_t *code = reserve(n, sizeof *code);
    uint64_t ncoded = 0, nparts = 0, part = UINT64_MAX, begin = 0;

    for (uint64_t i = 0; i < 8 * divided_up(ntiles, 8); i++) {
        require(i < ntiles || !bit_of(map, i));
        if (!bit_of(map, i))
            continue;
        if (i / 16 != part)
            first[nparts++] = ncoded;
        part = i / 16;
        tile[ncoded].first = i * TILE_NSYMBOLS;
        tile[ncoded++].nsymbols = least(n - i * TILE_NSYMBOLS, TILE_NSYMBOLS);
    }
    first[nparts] = ncoded;
    require(ncoded > 0 || in->left == 0);
    if (ncoded == 0)
        return code;
    take_codebooks(in, coding, tile, ncoded);
    const uint8_t *control = take(in, nparts);
    const int nbytes = take_byte(in);
    require(nbytes >= 1 && nbytes <= 8);
    const uint8_t *offset = take(in, (nparts - 1) * (uint64_t)nbytes);
    for (uint64_t p = 0; p < nparts; p++) {
        const int width = control[p] & 127;
        require(width <= 16);
        const uint64_t *more = take_fields(in, first[p + 1] - first[p], width);
        for (uint64_t i = first[p]; i < first[p + 1]; i++) {
            tile[i].nbytes =
                coding == RATIO ? 1 : divided_up(tile[i].nsymbols, 8);
            tile[i].nbytes += *more++;
            require(tile[i].nbytes <= (coding == RATIO ? 11776 : 7680));
        }
    }
    for (uint64_t p = 0; p < nparts; p++) {
        const bool is_last = p + 1 == nparts, is_reduced = control[p] >> 7;
        const uint64_t end = is_last ? begin + in->left : load(offset, nbytes);
        uint64_t total = 0;
        require(end >= begin && end - begin <= in->left);
        struct input payload = {in->at, (size_t)(end - begin)};
        take(in, end - begin);
        for (uint64_t i = first[p]; i < first[p + 1]; i++)
            total += tile[i].nbytes;
        require(is_reduced || payload.left == total);
        const uint8_t *at =
            is_reduced ? take_stages(&payload, total) : payload.at;
        for (uint64_t i = first[p]; i < first[p + 1]; i++) {
            struct bits bits = {at, 8 * tile[i].nbytes, 0};
            decode_tile(&bits, coding, tile[i].book, code + tile[i].first,
                        tile[i].nsymbols);
            at += tile[i].nbytes;
        }
        offset += nbytes;
        begin = end;
    }
    return code;
}

/* A mixed pointwise bound's signs. */
static void
read_signs(struct stream *s, struct input *in)
{
    const uint64_t distance = delta_distance(s, take_byte(in));
    const uint64_t nbytes = take_number(in, 8);
    struct input tiles = {take(in, nbytes), (size_t)nbytes};
    const int32_t *code =
        decode_tiles(&tiles, CUSTOM, divided_up(s->nvalues, 8));

    s->is_minus = reserve(s->nvalues, 1);
    for (uint64_t i = 0; i < s->nvalues; i++) {
        require(code[i / 8] >= -128 && code[i / 8] <= 127);
        s->is_minus[i] = (uint32_t)code[i / 8] >> i % 8 & 1;
    }
    undo_delta(s->is_minus, s->nvalues, distance);
}

/* ---- order of symbols ---- */

/* Lists points of all bricks: those of a class of the lattice of a stride, box
 * by box, or with no edge in C order. Returns how many. */
static uint64_t
list_points(const struct stream *s, uint64_t stride, int class, uint64_t edge,
            uint64_t *list)
{
    uint64_t first[4], count[4], size[4], nboxes[4], n = 0, most = s->nbricks;

    for (int d = 0; d < 4; d++) {
        first[d] = class >> d & 1 ? stride / 2 : 0;
        if (s->extent[d] <= first[d])
            return 0;
        count[d] = divided_up(s->extent[d] - first[d], stride);
        size[d] = edge > 0 ? least(count[d], edge) : count[d];
        nboxes[d] = divided_up(count[d], size[d]);
        most *= size[d] * nboxes[d];
    }
    for (uint64_t i = 0; i < most; i++) {
        uint64_t rest = i, x[4], point = 0;
        bool is_inside = true;
        for (int d = 0; d < 4; rest /= size[d++])
            x[d] = rest % size[d];
        for (int d = 0; d < 4; rest /= nboxes[d++]) {
            x[d] += rest % nboxes[d] * size[d];
            is_inside &= x[d] < count[d];
            point += s->pitch[d] * (first[d] + stride * x[d]);
        }
        if (is_inside)
            list[n++] = point + rest * s->pitch[4];
    }
    return n;
}

/* The points of a level, class by class. */
static uint64_t
list_level(const struct stream *s, int level, uint64_t edge, uint64_t *list)
{
    static const int classes[] = {1,  2,  4, 8,  3,  5,  6, 9,
                                  10, 12, 7, 11, 13, 14, 15};
    uint64_t n = 0;
    for (int c = 0; c < 15; c++)
        n += list_points(s, UINT64_C(1) << level, classes[c], edge, list + n);
    return n;
}

/* ---- contexts ---- */

static uint8_t
weight_of(int32_t code, int wide)
{
    uint64_t weight = 4 * (uint64_t)(code < 0 ? -code : code), root = 0;

    if (wide == 0) /* where an escape has the code -512 */
        return (uint8_t)least(weight, 252);
    weight >>= wide - 1;
    while (root < 252 && (root + 1) * (root + 1) <= weight)
        root++;
    return (uint8_t)root;
}

static int
context_of(const struct stream *s, const uint8_t *weight, uint64_t point,
           int level)
{
    const uint64_t step = UINT64_C(1) << (level - 1);
    uint64_t total = 0, before[4], after[4];
    int nodd = 0, context = 0;

    if (s->mark[point] != 0)
        return 8;
    for (int d = 0; d < 4; d++) {
        const uint64_t x = coordinate(s, point, d), far = step * s->pitch[d];
        if ((x & step) == 0)
            continue;
        before[nodd] = 0 - far;
        after[nodd++] = x + step < s->extent[d] ? far : 0 - far;
    }
    for (int corner = 0; corner < 1 << nodd; corner++) {
        uint64_t at = point;
        for (int i = 0; i < nodd; i++)
            at += corner >> i & 1 ? after[i] : before[i];
        total += weight[at];
    }
    total <<= 4 - nodd;
    while (context < 7 && total >= (context > 0 ? 4u << context : 1))
        context++;
    return context;
}

/* Puts points in context order. */
static void
sort_by_context(const struct stream *s, const uint8_t *weight, int level,
                uint64_t *list, uint64_t n)
{
    uint64_t *sorted = reserve(n, sizeof *sorted), next = 0;

    for (int context = 0; context <= 8; context++)
        for (uint64_t i = 0; i < n; i++)
            if (context_of(s, weight, list[i], level) == context)
                sorted[next++] = list[i];
    memcpy(list, sorted, (size_t)n * sizeof *list);
}

/* Gives points their codes, which are in the order of symbols. */
static void
place_codes(struct stream *s, const int32_t *code)
{
    static const uint64_t edges[] = {TILE_NSYMBOLS, 64, 16, 8};
    const uint64_t edge = edges[s->rank - 1];
    const bool has_contexts = s->head.coding == RATIO;
    const bool has_levels = has_contexts || s->head.prediction == SPLINE;
    const uint64_t stride = UINT64_C(1) << (has_levels ? s->nlevels : 0);
    uint64_t *list = reserve(s->nvalues, sizeof *list), next = 0;
    uint64_t n = list_points(s, stride, 0, edge, list); /* anchors, or all */
    uint8_t *weight = reserve(s->nvalues, 1);

    s->code = reserve(s->nvalues, sizeof *s->code);
    for (int level = s->nlevels;; level--) {
        for (uint64_t i = 0; has_contexts && i < s->nvalues; i++)
            weight[i] /= 2;
        for (uint64_t i = 0; i < n; i++, next++) {
            s->code[list[i]] = code[next];
            weight[list[i]] = weight_of(code[next], s->wide);
        }
        if (next == s->nvalues)
            return;
        n = list_level(s, level, edge, list);
        if (has_contexts && level <= 3)
            sort_by_context(s, weight, level, list, n);
    }
}

/* ---- spline ---- */

/* What a point sees along an odd dimension: even points 1, 3, 5 and 7 `pitch`
 * away; i and e as in the document. Lines are listed slowest first. */
struct line {
    uint64_t pitch, i, e;
    int priority;
};

/* F, E or C, for k = 1, 2, 3: the sums of the points around that differ in k of
 * the n dimensions. */
static double
around(const struct stream *s, uint64_t p, const struct line *line, int n,
       int k)
{
    double total = -0.0; /* and x make x, be it -0.0 or 0.0 */

    for (int mask = 1; mask < 1 << n; mask++) {
        uint64_t pitch[4];
        double value[16];
        int ndims = 0;
        for (int i = 0; i < n; i++)
            if (mask >> i & 1)
                pitch[ndims++] = line[i].pitch;
        if (ndims != k)
            continue;
        for (int c = 0; c < 1 << k; c++) {
            uint64_t point = p;
            for (int i = 0; i < k; i++)
                point += c >> (k - 1 - i) & 1 ? pitch[i] : 0 - pitch[i];
            value[c] = value_of(s->nbits, s->word[point]);
        }
        for (int half = 1 << (k - 1); half > 0; half /= 2)
            for (int c = 0; c < half; c++)
                value[c] = fl(s->nbits, value[2 * c] + value[2 * c + 1]);
        total = fl(s->nbits, total + value[0]);
    }
    return total;
}

/* What linear interpolants predict along n dimensions, 1 to 3. */
static double
boolean_sum(const struct stream *s, uint64_t p, const struct line *line, int n)
{
    const int t = s->nbits;
    double value = fl(t, 0.5 * around(s, p, line, n, 1));

    if (n > 1)
        value = fl(t, value - fl(t, 0.25 * around(s, p, line, n, 2)));
    if (n > 2)
        value = fl(t, value + fl(t, 0.125 * around(s, p, line, n, 3)));
    return value;
}

/* The prediction along the last of n lines, and its order; of values that are
 * each less what the other lines predict of it. */
static double
predict_along(const struct stream *s, uint64_t p, const struct line *line,
              int n, enum spline spline, int *order_ret)
{
    const int t = s->nbits;
    const uint64_t i = line[n - 1].i, e = line[n - 1].e;
    const bool has_a = i >= 1, has_d = i + 2 < e;
    const bool has_yu = i >= 2 && i + 3 < e, has_zv = i >= 3 && i + 4 < e;
    double v[8] = {0}; /* at even points i-3 to i+4: z, y, a, b, c, d, u, v */

    for (uint64_t k = 0; k < 8; k++) {
        const uint64_t at = p + line[n - 1].pitch * (2 * k - 7);
        if (i + k < 3 || i + k - 3 >= e)
            continue;
        v[k] = value_of(t, s->word[at]);
        if (n > 1)
            v[k] = fl(t, v[k] - boolean_sum(s, at, line, n - 1));
    }
    const double a = v[2], b = v[3], c = v[4], d = v[5];
    const double bc = fl(t, b + c), ad = fl(t, a + d);
    const double yu = fl(t, v[1] + v[6]), zv = fl(t, v[0] + v[7]);
    *order_ret = has_a;
    if (i + 1 == e)
        return has_a ? fl(t, fl(t, 1.5 * b) - fl(t, 0.5 * a)) : b;
    *order_ret = 2;
    if (spline == LINEAR || (!has_a && !has_d) || (spline == MEAN && !has_zv))
        return fl(t, bc * 0.5);
    *order_ret = 3;
    if (!has_d)
        return fl(t, fl(t, fl(t, fl(t, 6 * b) + fl(t, 3 * c)) - a) * 0.125);
    if (!has_a)
        return fl(t, fl(t, fl(t, fl(t, 3 * b) + fl(t, 6 * c)) - d) * 0.125);
    *order_ret = 4;
    if (spline == MEAN)
        return fl(t, fl(t, fl(t, bc + ad) + fl(t, yu + zv)) * 0.125);
    if (spline == NATURAL)
        return fl(t, fl(t, fl(t, 23 * bc) - fl(t, 3 * ad)) * fl(t, 1. / 40));
    if (spline == LONG && has_zv) {
        const double inner = fl(t, fl(t, 1225 * bc) - fl(t, 245 * ad));
        const double outer = fl(t, fl(t, 49 * yu) - fl(t, 5 * zv));
        return fl(t, fl(t, inner + outer) * 0x1p-11);
    }
    if (spline == LONG && has_yu) {
        const double inner = fl(t, fl(t, 150 * bc) - fl(t, 25 * ad));
        return fl(t, fl(t, inner + fl(t, 3 * yu)) * 0x1p-8);
    }
    return fl(t, fl(t, fl(t, 9 * bc) - ad) * 0.0625);
}

/* Blends, where the plan has it and there is room; else false. */
static bool
blend(const struct stream *s, uint64_t p, const struct line *line, int n,
      const struct plan *plan, double *value_ret)
{
    const int t = s->nbits;
    const bool of_all = plan->priorities == 255;
    int nabove = 0, order;

    if (plan->spline == MEAN || (!of_all && plan->priorities != 170) || n < 2 ||
        n > 3)
        return false;
    while (nabove < n && line[nabove].i + 1 < line[nabove].e)
        nabove++;
    if (of_all && plan->spline == LONG && nabove >= n - 1) {
        const double along = predict_along(s, p, line, n, LONG, &order);
        *value_ret = fl(t, along + boolean_sum(s, p, line, n - 1));
        return true;
    }
    if (nabove < n)
        return false;
    *value_ret = boolean_sum(s, p, line, n);
    if (n == 3 && !of_all) {
        const double f = fl(t, fl(t, 1. / 3) * around(s, p, line, 3, 1));
        const double e = fl(t, fl(t, 1. / 12) * around(s, p, line, 3, 2));
        *value_ret = fl(t, f - e);
    }
    return true;
}

static double
predict(const struct stream *s, uint64_t p, int level)
{
    const struct plan *plan = &s->plan[level];
    const uint64_t step = UINT64_C(1) << (level - 1);
    struct line line[4];
    int n = 0, highest = 0, best = -1, nbest = 0, order;
    double value = 0;

    for (int d = 3; d >= 0; d--) {
        const uint64_t x = coordinate(s, p, d);
        const int priority = plan->priorities >> (2 * d) & 3;
        if ((x & step) == 0)
            continue;
        line[n++] = (struct line){step * s->pitch[d], x / step / 2,
                                  divided_up(s->extent[d], 2 * step), priority};
        highest = priority > highest ? priority : highest;
    }
    if (blend(s, p, line, n, plan, &value))
        return value;
    for (int i = 0; i < n; i++) {
        if (line[i].priority < highest)
            continue;
        const double next =
            predict_along(s, p, line + i, 1, plan->spline, &order);
        if (order < best)
            continue;
        nbest = order > best ? 1 : nbest + 1;
        value = nbest > 1 ? fl(s->nbits, value + next) : next;
        best = order;
    }
    return nbest > 1 ? fl(s->nbits, value * fl(s->nbits, 1. / nbest)) : value;
}

static void
restore(struct stream *s, uint64_t point, double prediction, double step)
{
    const int t = s->nbits;
    const double added = fl(t, s->code[point] * step);
    s->word[point] = s->code[point] == ESCAPE
                         ? next_escape(s)
                         : word_of(t, fl(t, prediction + added));
}

static void
decode_spline(struct stream *s)
{
    uint64_t *list = reserve(s->nvalues, sizeof *list);
    double anchor = s->reference;

    for (uint64_t brick = 0; brick < s->nbricks; brick++) {
        restore(s, brick * s->pitch[4], anchor, s->step);
        anchor = value_of(s->nbits, s->word[brick * s->pitch[4]]);
    }
    for (int level = s->nlevels; level > 0; level--) {
        const uint64_t n = list_level(s, level, 0, list);
        for (uint64_t i = 0; i < n; i++)
            restore(s, list[i], predict(s, list[i], level),
                    s->plan[level].step);
    }
}

/* ---- lorenzo and lossless ---- */

static void
sum_along(struct stream *s, int dimension, uint64_t from)
{
    for (uint64_t i = 0; i < s->nvalues; i++) {
        if (s->mark[i] != 0)
            s->word[i] = 0;
        if (coordinate(s, i, dimension) > from)
            s->word[i] += s->word[i - s->pitch[dimension]];
    }
}

/* Along the slowest dimension: to points an odd multiple of h from the begin,
 * the mean of those 1, 3, 5 and 7 `h` away. */
static void
add_means(struct stream *s, uint64_t h)
{
    const uint64_t pitch = s->pitch[s->slowest], n = s->extent[s->slowest];

    for (uint64_t i = 0; i < s->nvalues; i++) {
        const uint64_t x = coordinate(s, i, s->slowest);
        uint64_t total = 0;
        int64_t count = 0;
        for (uint64_t far = h; x % (2 * h) == h && far <= 7 * h; far += 2 * h) {
            total += far <= x ? s->word[i - far * pitch] : 0;
            total += far < n - x ? s->word[i + far * pitch] : 0;
            count += (far <= x) + (far < n - x);
        }
        if (count == 0)
            continue;
        /* Rounded down: what is divided last is above 0. */
        const int64_t sum = signed_of(s->nbits, total);
        const int64_t rest = (sum % count + count / 2 + count) / count;
        s->word[i] += (uint64_t)(sum / count + rest - 1);
    }
}

/* Codes, with what belongs to them, become differences. */
static void
take_differences(struct stream *s)
{
    uint64_t nth = 0; /* of the points that are not special */

    for (uint64_t i = 0; i < s->nvalues; i++) {
        uint64_t difference = (uint64_t)(int64_t)s->code[i];
        if (s->tail_nbits > 0)
            difference = (difference << s->tail_nbits) + unfolded(s->extra[i]);
        if (s->head.prediction == LOSSLESS && s->mark[i] == 0) {
            const uint64_t unit = UINT64_C(1) << s->group_shift[nth / 256];
            difference = difference * unit + s->extra[nth] - unit / 2;
            difference <<= s->group_zeros[nth++ / 256];
        }
        s->word[i] = s->code[i] == ESCAPE ? next_escape(s) : difference;
    }
}

/* The word of the least magnitude that an integer's, a, stands for: W(a). */
static uint64_t
exact_word(const struct stream *s, uint64_t a)
{
    const uint64_t n = least(a, s->limit);
    return word_of(s->nbits, fl(s->nbits, (double)n * s->unit)) +
           ((a - n) << s->zeros);
}

/* What the remainder of the integer of magnitude a adds to its word. */
static uint64_t
take_remainder(struct stream *s, uint64_t *next, uint64_t a)
{
    uint64_t between = 0, r = 0;
    int nbits = a == 0;

    if (a >= s->limit)
        return 0;
    between = (exact_word(s, a + 1) - 1 - exact_word(s, a)) >> s->zeros;
    for (; between != 0; between /= 2)
        nbits++;
    for (int b = 0; b < nbits; b++, ++*next) {
        require(*next / 8 < s->remainders.left);
        r |= (uint64_t)bit_of(s->remainders.at, *next) << b;
    }
    return a > 0 ? r << s->zeros
                 : (r >> 1 << s->zeros) + ((r & 1) << (s->nbits - 1));
}

static void
decode_integers(struct stream *s)
{
    const int t = s->nbits;
    const uint64_t sign = UINT64_C(1) << (t - 1);
    uint64_t next = 0, h = 1; /* bit of remainders */

    take_differences(s);
    while (2 * h < s->extent[s->slowest])
        h *= 2;
    for (; s->has_means && h > 0; h /= 2)
        add_means(s, h);
    for (int d = 0; d < 4; d++) {
        if (s->twice >> d & 1)
            sum_along(s, d, 1);
        if (s->mask >> d & 1 && !(s->has_means && d == s->slowest))
            sum_along(s, d, 0);
    }
    for (uint64_t i = 0; i < s->nvalues; i++) {
        const uint64_t q = (s->word[i] + s->lossless_center) & mask_of(t);
        const bool is_minus = q & sign;
        const uint64_t a = (is_minus ? 0 - q : q) & mask_of(t);
        uint64_t word = word_of(t, steps(t, q, s->step));
        if (s->lossless_form == 2)
            word = ((q / 2 + word_of(t, s->unit)) & (sign - 1)) | q << (t - 1);
        else if (s->unit > 0)
            word = exact_word(s, a) | (is_minus ? sign : 0);
        if (i % TILE_NSYMBOLS == 0)
            next = 8 * divided_up(next, 8);
        if (s->lossless_form == 1 && s->mark[i] == 0)
            word += take_remainder(s, &next, a);
        s->word[i] = word & mask_of(t);
    }
    require(divided_up(next, 8) == s->remainders.left);
}

/* ---- a coded stream, whole ---- */

static struct stream *
read_sections(struct input *in, const struct terp_reader_chunk *chunk,
              const struct head *head)
{
    struct stream *s = reserve(1, sizeof *s);
    const uint64_t n = chunk->nvalues, ngroups = divided_up(n, 256);
    const struct low *low = NULL;

    s->chunk = chunk;
    s->head = *head;
    set_domain(s);
    s->mark = reserve(n, sizeof *s->mark);
    s->word = reserve(n, sizeof *s->word);
    s->carried_nbits = chunk->type == FLOAT64 ? 64 : 32;
    if (chunk->type > BYTES)
        read_carrier(s, in);
    s->nbits = s->carried_nbits;
    if (head->coding == CONSTANT)
        s->word[0] = take_number(in, s->nbits / 8);
    for (uint64_t i = 1; i < n; i++)
        s->word[i] = s->word[0];
    if (head->flags & IS_POINTWISE)
        read_pointwise(s, in);
    if (head->coding != CONSTANT)
        read_model(s, in);
    if (head->flags & HAS_SPECIALS)
        read_specials(s, in);
    if (head->coding == CONSTANT)
        return s;
    if (s->signs == 2)
        read_signs(s, in);
    if (s->tail_nbits > 0)
        s->extra =
            take_groups(in, n, 256, take_fields(in, ngroups, 8), s->tail_nbits);
    if (head->prediction == LOSSLESS)
        read_shifts(s, in);
    if (s->lossless_form == 1) {
        const uint64_t nbytes = take_uleb(in);
        s->remainders.at = take(in, nbytes);
        s->remainders.left = (size_t)nbytes;
    }
    read_escapes(s, in);
    if (s->wide > 0)
        low = read_low_bits(s, in);
    int32_t *code = decode_tiles(in, head->coding, n);
    for (uint64_t i = 0; low != NULL && i < n; i += TILE_NSYMBOLS)
        add_low_bits(low++, code + i);
    place_codes(s, code);
    return s;
}

/* The bits of a value of the chunk's type that is not special. */
static uint64_t
finished(const struct stream *s, uint64_t i)
{
    const bool is_minus = s->is_minus != NULL ? s->is_minus[i] : s->signs == 1;
    uint64_t word = s->word[i];

    if (s->form > 0)
        word = word_of(s->carried_nbits,
                       pointwise_value(s, value_of(s->nbits, word), is_minus));
    if (s->chunk->type <= BYTES)
        return word;
    return s->carrier == 0 ? carried_half(s, value_of(32, word))
                           : carried_integer(s, word);
}

/* Raw, constant, huffman, custom, ratio: all of `in` makes a chunk. */
static void
decode_coded(struct input *in, struct terp_reader_chunk *chunk,
             const struct head *head, uint8_t *values)
{
    const int nbytes = chunk->value_nbytes;
    const uint64_t n = chunk->nvalues;
    const uint8_t *special = NULL;

    require(head->coding < COPIES);
    if (head->coding == RAW) {
        require(in->left == n * (uint64_t)nbytes);
        memcpy(values, in->at, in->left);
        return;
    }
    struct stream *s = read_sections(in, chunk, head);
    if (head->prediction == SPLINE)
        decode_spline(s);
    else if (head->coding != CONSTANT)
        decode_integers(s);
    require(in->left == 0 && s->escapes.left == 0);
    for (uint64_t i = 0; i < n; i++, values += nbytes) {
        if (s->mark[i] != 0 && s->ncolors > 0)
            special = s->special_values + (s->mark[i] - 1) * nbytes;
        else if (s->mark[i] != 0)
            special = special != NULL ? special + nbytes : s->special_values;
        store(values, nbytes, chunk->big_endian,
              s->mark[i] != 0 ? load(special, nbytes) : finished(s, i));
    }
}

/* ---- references, copies, parts: streams within a stream ---- */

/* The values of a chunk of which the stream is within a stream. */
static uint8_t *
take_inner(struct input *in, uint64_t nbytes, struct terp_reader_chunk *chunk,
           void (*decode)(struct input *, struct terp_reader_chunk *,
                          const struct head *, uint8_t *))
{
    struct input inner = {take(in, nbytes), (size_t)nbytes};
    const struct head head = take_head(&inner, chunk, true);
    uint8_t *values = reserve(chunk->nvalues, (size_t)chunk->value_nbytes);

    decode(&inner, chunk, &head, values);
    return values;
}

static void
decode_references(struct input *in, struct terp_reader_chunk *chunk,
                  const struct head *head, uint8_t *values)
{
    const int nbytes = chunk->value_nbytes, nbits = 8 * nbytes;
    const bool is_integer = chunk->type > BYTES && chunk->type < FLOAT16;
    struct terp_reader_chunk list = {
        .type = UINT32, .value_nbytes = 4, .rank = 1};
    struct terp_reader_chunk whole = *chunk;

    if (head->coding != REFERENCES) {
        decode_coded(in, chunk, head, values);
        return;
    }
    const uint64_t sign = UINT64_C(1) << (nbits - 1);
    const uint64_t marker = take_number(in, nbytes), n = take_uleb(in);
    require(n >= 1 && n <= chunk->nvalues);
    list.nvalues = list.dims[0] = n;
    const uint8_t *distance =
        take_inner(in, take_uleb(in), &list, decode_coded);
    const uint8_t *end = distance + 4 * n;
    list.type = INT64;
    list.value_nbytes = 8;
    const uint8_t *added = take_inner(in, take_uleb(in), &list, decode_coded);
    whole.big_endian = false;
    const uint8_t *from = take_inner(in, in->left, &whole, decode_coded);
    for (uint64_t i = 0; i < chunk->nvalues; i++, from += nbytes) {
        uint64_t v = load(from, nbytes);
        if (v == marker) {
            require(distance < end);
            const uint64_t back = load(distance, 4), d = load(added, 8);
            distance += 4;
            added += 8;
            require(back >= 1 && back <= i);
            v = load(from - back * (uint64_t)nbytes, nbytes);
            require(v != marker);
            const uint64_t magnitude = (v + (d >> 1)) & (sign - 1);
            v = is_integer ? v + d
                           : magnitude | ((v ^ d << (nbits - 1)) & sign);
        }
        store(values, nbytes, chunk->big_endian, v);
        values += nbytes;
    }
    require(distance == end);
}

static void
decode_copies(struct input *in, struct terp_reader_chunk *chunk,
              const struct head *head, uint8_t *values)
{
    const size_t nbytes = (size_t)chunk->value_nbytes;
    struct terp_reader_chunk left = *chunk;
    uint64_t pitch[4] = {0};

    if (head->coding != COPIES) {
        decode_references(in, chunk, head, values);
        return;
    }
    const int mask = take_byte(in), rank = chunk->rank;
    require(mask > 0 && mask < 1 << rank && !chunk->stack);
    left.nvalues = 1;
    left.rank = 0;
    for (int d = rank - 1; d >= 0; d--) {
        const bool is_copied = mask >> (rank - 1 - d) & 1;
        require(!is_copied || chunk->dims[d] > 1);
        pitch[d] = is_copied ? 0 : left.nvalues;
        left.nvalues *= is_copied ? 1 : chunk->dims[d];
    }
    for (int d = 0; d < rank; d++)
        if (pitch[d] > 0)
            left.dims[left.rank++] = chunk->dims[d];
    if (left.rank == 0)
        left.dims[left.rank++] = 1;
    const uint8_t *from = take_inner(in, in->left, &left, decode_references);
    for (uint64_t i = 0; i < chunk->nvalues; i++) {
        uint64_t rest = i, source = 0;
        for (int d = rank - 1; d >= 0; rest /= chunk->dims[d--])
            source += rest % chunk->dims[d] * pitch[d];
        memcpy(values + i * nbytes, from + source * nbytes, nbytes);
    }
}

static void
decode_parts(struct input *in, struct terp_reader_chunk *chunk,
             const struct head *head, uint8_t *values)
{
    struct terp_reader_chunk real = *chunk;
    const int nbytes = real.value_nbytes = chunk->value_nbytes / 2;

    if (head->coding != PARTS) {
        decode_copies(in, chunk, head, values);
        return;
    }
    const double bound = take_double(in);
    require(bound >= 0 && bound < INFINITY);
    real.type = chunk->type - COMPLEX64;
    real.big_endian = false;
    for (int part = 0; part < 2; part++, values += nbytes) {
        const uint64_t left = part == 0 ? take_uleb(in) : in->left;
        const uint8_t *from = take_inner(in, left, &real, decode_copies);
        for (size_t i = 0; i < real.nvalues; i++, from += nbytes)
            store(values + 2 * i * (size_t)nbytes, nbytes, chunk->big_endian,
                  load(from, nbytes));
    }
}

/* ---- the library's function ---- */

static void
decode_stream(struct input in, struct terp_reader_chunk *chunk, uint8_t *values,
              size_t cap_nbytes)
{
    const uint8_t *at = in.at;
    const size_t nbytes = in.left;
    const struct head head = take_head(&in, chunk, false);

    if (values == NULL)
        return;
    require(checksum(at + 16, nbytes - 16, load(at, 8)) == load(at + 8, 8));
    if (chunk->nvalues > cap_nbytes / (uint64_t)chunk->value_nbytes)
        longjmp(refused, TERP_READER_CAPACITY);
    decode_parts(&in, chunk, &head, values);
}

enum terp_reader_status
terp_reader_decode(const void *stream, size_t nbytes,
                   struct terp_reader_chunk *chunk_ret, void *values,
                   size_t values_cap_nbytes)
{
    const struct input in = {stream, nbytes};
    const int status = is_ieee() ? setjmp(refused) : TERP_READER_ARITHMETIC;

    if (status == TERP_READER_OK) {
        memset(chunk_ret, 0, sizeof *chunk_ret);
        decode_stream(in, chunk_ret, values, values_cap_nbytes);
    }
    while (blocks != NULL) {
        struct block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
    return (enum terp_reader_status)status;
}

#ifdef TERP_READER_MAIN
#include <stdio.h>

int
main(int argc, char **argv)
{
    static const char *const why[] = {
        "cannot read or write it", "not a whole stream of version 1",
        "too large", "no memory", "this program does not round as IEEE 754"};
    struct terp_reader_chunk chunk = {0};
    size_t nbytes = 0, cap_nbytes = 0, values_nbytes = 0;
    uint8_t *stream = NULL, *values = NULL;
    enum terp_reader_status status;

    if (argc != 3 || freopen(argv[1], "rb", stdin) == NULL) {
        fputs("usage: terp_decode STREAM VALUES\n", stderr);
        return EXIT_FAILURE;
    }
    while (nbytes == cap_nbytes) {
        cap_nbytes = 2 * cap_nbytes + 65536;
        uint8_t *more = realloc(stream, cap_nbytes);
        if (more == NULL) {
            free(stream);
            return EXIT_FAILURE;
        }
        stream = more;
        nbytes += fread(stream + nbytes, 1, cap_nbytes - nbytes, stdin);
    }
    status = terp_reader_decode(stream, nbytes, &chunk, NULL, 0);
    if (status == TERP_READER_OK) {
        values_nbytes = (size_t)chunk.nvalues * (size_t)chunk.value_nbytes;
        values = malloc(values_nbytes);
        status = TERP_READER_MEMORY;
    }
    if (values != NULL)
        status =
            terp_reader_decode(stream, nbytes, &chunk, values, values_nbytes);
    if (status == TERP_READER_OK && freopen(argv[2], "wb", stdout) != NULL &&
        fwrite(values, values_nbytes, 1, stdout) == 1 && fclose(stdout) == 0)
        return EXIT_SUCCESS;
    fprintf(stderr, "terp_decode: %s: %s\n", argv[1], why[status]);
    return EXIT_FAILURE;
}
#endif
#endif
