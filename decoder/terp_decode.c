/* A decoder of terp streams of versions 1 and 2, in one file of C99 that needs
 * only the C library. An archive can keep the file beside its data and compile
 * it when terp itself no longer builds:
 *
 *   cc -O2 -DTERP_READER_MAIN -o terp_decode terp_decode.c -lm
 *   ./terp_decode STREAM VALUES
 *
 * The program reads a stream from the file STREAM and writes the values, as
 * they were in memory, to the file VALUES. Without TERP_READER_MAIN the file
 * is a library of one function, terp_reader_decode. A source file that
 * defines TERP_READER_HEADER and includes this file gets its declaration only.
 *
 * The decoder follows doc/format.md and shares no code with the codec; tests
 * compare the two. Comments name sections of that document in quotation
 * marks. Single letters in comments, such as T, N and S, are the document's.
 * The decoder is plain rather than fast. It decodes one stream at a time, in
 * one thread. All state of a call is in its struct call, so several threads
 * may decode at once.
 *
 * A stream is decoded in this order, which is also the order of the file from
 * "Frame" on:
 *
 *   1. The frame says what the chunk is and how it is coded.
 *   2. A coded stream has sections: carrier, pointwise, model, specials,
 *      signs, tails, shifts, remainders, escapes, low bits, tiles.
 *   3. Tiles are entropy-coded. They give a code for each point.
 *   4. The prediction (spline, lorenzo or lossless) and the codes give numbers.
 *   5. Logarithms, carriers and special values turn numbers into values.
 *   6. Columns, grids, ranks, copies, references and parts put values of inner
 *      streams together.
 *
 * A speed stream has tiles of its own, which "Speed" describes, in place of
 * steps 2 to 5. */
#ifndef TERP_READER_H
#define TERP_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum terp_reader_status {
    TERP_READER_OK = 0,
    TERP_READER_DAMAGED,   /* not a valid stream of these versions */
    TERP_READER_CAPACITY,  /* the values do not fit into the buffer */
    TERP_READER_MEMORY,    /* the C library has no more memory */
    TERP_READER_ARITHMETIC /* this program does not round as IEEE 754 does */
};

/* The chunk that a stream holds. */
struct terp_reader_chunk {
    uint64_t type; /* its number in "Frame", Types */
    uint64_t value_nbytes;
    uint64_t rank;
    uint64_t dims[4]; /* slowest first; only the first `rank` have a meaning */
    uint64_t nvalues;
    bool big_endian;
    bool stack; /* dims[0] counts bricks */
};

/* Describes the chunk of a stream and, unless `values` is NULL, decodes it.
 * The stream may be any bytes. Decoding takes about 60 bytes of memory for
 * each value. The contents of `values` have no meaning after an error. */
enum terp_reader_status
terp_reader_decode(const void *stream, size_t nbytes,
                   struct terp_reader_chunk *chunk_ret, void *values,
                   size_t values_cap_nbytes);

#endif
#ifndef TERP_READER_HEADER

/* On 32-bit x86, GCC would otherwise compute in registers that hold more
 * digits than a double. */
#if defined(__GNUC__) && defined(__i386__) && !defined(__clang__)
#pragma GCC target("sse2,fpmath=sse")
#endif

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------- *
 * A call: its input, its memory, and its way out of a damaged stream
 * ------------------------------------------------------------------------- */

#define NENTRIES 75
#define NSYMBOLS 1024
#define NMAGNITUDES 512 /* of codes: 0 to 511 */
#define WORD_MAX_NBITS 15

/* A canonical prefix code. Its words ascend by (length, symbol). */
struct codebook {
    uint16_t nwords[WORD_MAX_NBITS + 1]; /* of each length */
    uint16_t symbol[NSYMBOLS];           /* of each word, in that order */
};

/* The lists of package-merge, one for each word length. */
struct merge_lists {
    uint64_t weight[WORD_MAX_NBITS + 1][2 * NSYMBOLS];
    /* nsymbols[level][k]: symbols among the first k items of a list */
    int nsymbols[WORD_MAX_NBITS + 1][2 * NSYMBOLS];
};

/* Bytes that are being read. `nbits` bits from `at` on are already taken. */
struct input {
    const uint8_t *at;
    const uint8_t *end;
    uint64_t nbits;
};

/* The head of a block of memory. The union aligns what follows it. */
union block {
    union block *next;
    uint64_t number;
};

struct call {
    jmp_buf refused; /* where a call continues that cannot decode its stream */
    enum terp_reader_status status;
    union block *blocks; /* all memory of the call */
    struct input in;
    uint64_t version; /* of the stream, and so of its inner streams */
    /* The dictionary, as far as it is made: books of symbols, of tokens. */
    const struct codebook *dictionary[2][NENTRIES];
    struct merge_lists *lists;
};

static void
stop(struct call *call, enum terp_reader_status status)
{
    call->status = status;
    longjmp(call->refused, 1);
}

/* Refuses the stream unless a rule of the document holds. */
static void
require(struct call *call, bool holds)
{
    if (!holds)
        stop(call, TERP_READER_DAMAGED);
}

/* Returns memory that holds zeros and lasts until the call ends. */
static void *
reserve(struct call *call, uint64_t count, size_t size)
{
    union block *block = NULL;
    if (count <= (SIZE_MAX - sizeof *block) / size)
        block = calloc(1, sizeof *block + (size_t)count * size);
    if (block == NULL)
        stop(call, TERP_READER_MEMORY);
    block->next = call->blocks;
    call->blocks = block;
    return block + 1;
}

static void
release(struct call *call)
{
    while (call->blocks != NULL) {
        union block *next = call->blocks->next;
        free(call->blocks);
        call->blocks = next;
    }
}

/* ------------------------------------------------------------------------- *
 * Numbers and bit fields: the conventions before "Frame"
 *
 * Integers of a stream are uint64_t here, and so are words of 32 bits. Signed
 * integers are in two's complement. Arithmetic is modulo 2^64, and the
 * callers cut results to fewer bits where the document says modulo 2^32.
 * ------------------------------------------------------------------------- */

static uint64_t
least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t
most_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t
divided_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static uint64_t
two_to(uint64_t n)
{
    return UINT64_C(1) << n;
}

/* A number of n bits that are all 1; n is 1 to 64. */
static uint64_t
ones(uint64_t n)
{
    return UINT64_MAX >> (64 - n);
}

/* The number of bits that a number needs; 0 needs none. */
static uint64_t
nbits_of(uint64_t number)
{
    uint64_t nbits = 0;
    for (; number != 0; number /= 2)
        nbits++;
    return nbits;
}

/* The integer that an unsigned number stands for in escapes, tails, low bits
 * and lists: n / 2 where n is even, else -(n + 1) / 2. */
static uint64_t
unfolded(uint64_t n)
{
    return n % 2 == 0 ? n / 2 : ~(n / 2);
}

/* The lowest `nbits` of a word as a signed integer. */
static int64_t
signed_of(uint64_t word, uint64_t nbits)
{
    const uint64_t sign = two_to(nbits - 1);
    return (int64_t)(((word & ones(nbits)) ^ sign) - sign);
}

static uint64_t
load(const uint8_t *at, uint64_t nbytes)
{
    uint64_t value = 0;
    while (nbytes > 0) {
        nbytes--;
        value = value << 8 | at[nbytes];
    }
    return value;
}

static void
store(uint8_t *at, uint64_t nbytes, uint64_t value)
{
    for (uint64_t i = 0; i < nbytes; i++) {
        at[i] = (uint8_t)value;
        value >>= 8;
    }
}

/* A number with its bytes in the opposite order. */
static uint64_t
swapped(uint64_t value, uint64_t nbytes)
{
    uint64_t result = 0;
    for (uint64_t i = 0; i < nbytes; i++) {
        result = result << 8 | (value & 255);
        value >>= 8;
    }
    return result;
}

static bool
bit_at(const uint8_t *bytes, uint64_t i)
{
    return bytes[i / 8] >> i % 8 & 1;
}

/* Bytes that are not taken as a whole. */
static uint64_t
nbytes_left(const struct call *call)
{
    return (uint64_t)(call->in.end - call->in.at);
}

/* Skips the bits that fill up a byte. */
static void
skip_to_byte(struct call *call)
{
    call->in.at += divided_up(call->in.nbits, 8);
    call->in.nbits = 0;
}

static const uint8_t *
take(struct call *call, uint64_t nbytes)
{
    skip_to_byte(call);
    require(call, nbytes <= nbytes_left(call));
    const uint8_t *bytes = call->in.at;
    call->in.at += nbytes;
    return bytes;
}

/* Reads other bytes from now on. Returns the input to continue with later. */
static struct input
enter(struct call *call, const uint8_t *bytes, uint64_t nbytes)
{
    const struct input outer = call->in;
    call->in.at = nbytes > 0 ? bytes : (const uint8_t *)""; /* not NULL + 0 */
    call->in.end = call->in.at + nbytes;
    call->in.nbits = 0;
    return outer;
}

/* Goes back to the outer input. No byte of the inner one may be left. */
static void
leave(struct call *call, struct input outer)
{
    skip_to_byte(call);
    require(call, nbytes_left(call) == 0);
    call->in = outer;
}

static uint64_t
take_number(struct call *call, uint64_t nbytes)
{
    return load(take(call, nbytes), nbytes);
}

static uint64_t
take_in_range(struct call *call, uint64_t nbytes, uint64_t first, uint64_t last)
{
    const uint64_t number = take_number(call, nbytes);
    require(call, number >= first && number <= last);
    return number;
}

/* "ULEB", of at most nine bytes. */
static uint64_t
take_uleb(struct call *call)
{
    uint64_t number = 0;
    for (uint64_t nbits = 0; nbits < 63; nbits += 7) {
        const uint64_t byte = take_number(call, 1);
        number |= (byte & 127) << nbits;
        if (byte < 128)
            return number;
    }
    stop(call, TERP_READER_DAMAGED);
    return 0;
}

static void
require_bits(struct call *call, uint64_t nbits)
{
    require(call, nbits <= 8 * nbytes_left(call) - call->in.nbits);
}

/* A number of a bit field array. Its lowest bit comes first; the first bit of a
 * byte is its lowest. */
static uint64_t
take_bits(struct call *call, uint64_t nbits)
{
    uint64_t number = 0;
    require_bits(call, nbits);
    for (uint64_t i = 0; i < nbits; i++) {
        number |= (uint64_t)bit_at(call->in.at, call->in.nbits) << i;
        call->in.nbits++;
    }
    return number;
}

/* A number of a tile. Its highest bit comes first; the first bit of a byte is
 * its highest. */
static uint64_t
take_high_bits(struct call *call, uint64_t nbits)
{
    uint64_t number = 0;
    require_bits(call, nbits);
    for (uint64_t i = 0; i < nbits; i++) {
        number = number << 1 | bit_at(call->in.at, call->in.nbits ^ 7);
        call->in.nbits++;
    }
    return number;
}

/* Puts a bit field array of n numbers into `numbers`. */
static void
take_array(struct call *call, uint64_t *numbers, uint64_t n, uint64_t width)
{
    skip_to_byte(call);
    for (uint64_t i = 0; i < n; i++)
        numbers[i] = take_bits(call, width);
    skip_to_byte(call);
}

/* A bit field array of n numbers. */
static uint64_t *
take_fields(struct call *call, uint64_t n, uint64_t width)
{
    uint64_t *numbers = reserve(call, n, sizeof *numbers);
    take_array(call, numbers, n, width);
    return numbers;
}

/* n numbers in groups. Each group is a bit field array of its own width, which
 * is at most `max_width`. The last group may be shorter. */
static uint64_t *
take_groups(struct call *call, uint64_t n, uint64_t group_size,
            const uint64_t *widths, uint64_t max_width)
{
    uint64_t *numbers = reserve(call, n, sizeof *numbers);
    for (uint64_t i = 0; i < n; i += group_size) {
        const uint64_t width = widths[i / group_size];
        require(call, width <= max_width);
        take_array(call, numbers + i, least_of(n - i, group_size), width);
    }
    return numbers;
}

/* ------------------------------------------------------------------------- *
 * "Frame", Checksum: XXH3 of 64 bits with a seed, as xxhash's
 * doc/xxhash_spec.md describes it
 * ------------------------------------------------------------------------- */

#define SECRET_NBYTES 192
#define STRIPE_NBYTES 64
#define STRIPES_OF_BLOCK 16

static const uint64_t default_secret[SECRET_NBYTES / 8] = {
    0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de,
    0x1f67b3b7a4a44072, 0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82,
    0x8e2443f7744608b8, 0x4c263a81e69035e0, 0xcb00c391bb52283c,
    0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
    0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a,
    0x647378d9c97e9fc8, 0xc3ebd33483acc5ea, 0xeb6313faffa081c5,
    0x49daf0b751dd0d17, 0x9e68d429265516d3, 0xfca1477d58be162b,
    0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af};

static const uint64_t prime32_1 = 0x9e3779b1, prime32_2 = 0x85ebca77,
                      prime32_3 = 0xc2b2ae3d;
static const uint64_t prime64_1 = 0x9e3779b185ebca87,
                      prime64_2 = 0xc2b2ae3d27d4eb4f,
                      prime64_3 = 0x165667b19e3779f9,
                      prime64_4 = 0x85ebca77c2b2ae63,
                      prime64_5 = 0x27d4eb2f165667c5;
static const uint64_t prime_mx1 = 0x165667919e3779f9,
                      prime_mx2 = 0x9fb21c651e98df25;

/* The secret's bytes. Only inputs of more than 240 bytes add the seed. */
static void
make_secret(uint8_t secret[SECRET_NBYTES], uint64_t seed)
{
    for (int i = 0; i < SECRET_NBYTES / 8; i++) {
        const uint64_t added = i % 2 == 0 ? seed : 0 - seed;
        store(secret + 8 * i, 8, default_secret[i] + added);
    }
}

/* The high half of a product of 128 bits, xor its low half. */
static uint64_t
folded_product(uint64_t a, uint64_t b)
{
    const uint64_t a_low = a & 0xffffffff, a_high = a >> 32;
    const uint64_t b_low = b & 0xffffffff, b_high = b >> 32;
    const uint64_t middle = a_high * b_low + (a_low * b_low >> 32);
    const uint64_t other = a_low * b_high + (middle & 0xffffffff);
    const uint64_t high = a_high * b_high + (middle >> 32) + (other >> 32);
    return high ^ a * b;
}

/* Mixes 16 bytes of the input with 16 bytes of the secret. */
static uint64_t
mixed(const uint8_t *at, const uint8_t *secret, uint64_t seed)
{
    return folded_product(load(at, 8) ^ (load(secret, 8) + seed),
                          load(at + 8, 8) ^ (load(secret + 8, 8) - seed));
}

static uint64_t
avalanche(uint64_t h)
{
    h = (h ^ h >> 37) * prime_mx1;
    return h ^ h >> 32;
}

static uint64_t
hash_1_to_3(const uint8_t *at, size_t n, uint64_t seed, const uint8_t *secret)
{
    uint64_t h = (uint64_t)at[0] << 16 | (uint64_t)at[n / 2] << 24 |
                 (uint64_t)at[n - 1] | (uint64_t)n << 8;
    h ^= (load(secret, 4) ^ load(secret + 4, 4)) + seed;
    h = (h ^ h >> 33) * prime64_2;
    h = (h ^ h >> 29) * prime64_3;
    return h ^ h >> 32;
}

static uint64_t
hash_4_to_8(const uint8_t *at, size_t n, uint64_t seed, const uint8_t *secret)
{
    seed ^= swapped(seed, 4) << 32;
    uint64_t h = load(at + n - 4, 4) + (load(at, 4) << 32);
    h ^= (load(secret + 8, 8) ^ load(secret + 16, 8)) - seed;
    h ^= (h << 49 | h >> 15) ^ (h << 24 | h >> 40);
    h *= prime_mx2;
    h ^= (h >> 35) + n;
    h *= prime_mx2;
    return h ^ h >> 28;
}

static uint64_t
hash_9_to_16(const uint8_t *at, size_t n, uint64_t seed, const uint8_t *secret)
{
    const uint64_t low_key = load(secret + 24, 8) ^ load(secret + 32, 8);
    const uint64_t high_key = load(secret + 40, 8) ^ load(secret + 48, 8);
    const uint64_t low = load(at, 8) ^ (low_key + seed);
    const uint64_t high = load(at + n - 8, 8) ^ (high_key - seed);
    return avalanche(n + swapped(low, 8) + high + folded_product(low, high));
}

static uint64_t
hash_17_to_128(const uint8_t *at, size_t n, uint64_t seed,
               const uint8_t *secret)
{
    uint64_t h = n * prime64_1;
    for (size_t i = 0; i <= (n - 1) / 32; i++) {
        h += mixed(at + 16 * i, secret + 32 * i, seed);
        h += mixed(at + n - 16 * (i + 1), secret + 32 * i + 16, seed);
    }
    return avalanche(h);
}

static uint64_t
hash_129_to_240(const uint8_t *at, size_t n, uint64_t seed,
                const uint8_t *secret)
{
    uint64_t h = n * prime64_1;
    for (size_t i = 0; i < 8; i++)
        h += mixed(at + 16 * i, secret + 16 * i, seed);
    h = avalanche(h);
    for (size_t i = 8; i < n / 16; i++)
        h += mixed(at + 16 * i, secret + 16 * (i - 8) + 3, seed);
    h += mixed(at + n - 16, secret + 136 - 17, seed);
    return avalanche(h);
}

static void
accumulate(uint64_t sums[8], const uint8_t *stripe, const uint8_t *secret)
{
    for (size_t i = 0; i < 8; i++) {
        const uint64_t value = load(stripe + 8 * i, 8);
        const uint64_t keyed = value ^ load(secret + 8 * i, 8);
        sums[i ^ 1] += value;
        sums[i] += (keyed & 0xffffffff) * (keyed >> 32);
    }
}

static void
scramble(uint64_t sums[8], const uint8_t *secret)
{
    for (size_t i = 0; i < 8; i++) {
        sums[i] ^= sums[i] >> 47;
        sums[i] ^= load(secret + 8 * i, 8);
        sums[i] *= prime32_1;
    }
}

/* More than 240 bytes. The last stripe ends with the input, and overlaps the
 * stripe before where the input has no whole number of stripes. */
static uint64_t
hash_long(const uint8_t *at, size_t n, const uint8_t *secret)
{
    uint64_t sums[8] = {prime32_3, prime64_1, prime64_2, prime64_3,
                        prime64_4, prime32_2, prime64_5, prime32_1};
    const size_t last = (n - 1) / STRIPE_NBYTES;
    for (size_t i = 0; i < last; i++) {
        const size_t nth = i % STRIPES_OF_BLOCK;
        accumulate(sums, at + STRIPE_NBYTES * i, secret + 8 * nth);
        if (nth == STRIPES_OF_BLOCK - 1)
            scramble(sums, secret + SECRET_NBYTES - STRIPE_NBYTES);
    }
    accumulate(sums, at + n - STRIPE_NBYTES,
               secret + SECRET_NBYTES - STRIPE_NBYTES - 7);
    uint64_t h = n * prime64_1;
    for (size_t i = 0; i < 8; i += 2)
        h += folded_product(sums[i] ^ load(secret + 11 + 8 * i, 8),
                            sums[i + 1] ^ load(secret + 19 + 8 * i, 8));
    return avalanche(h);
}

/* The hash of n bytes, n being at least 1. */
static uint64_t
hash(const uint8_t *at, size_t n, uint64_t seed)
{
    uint8_t secret[SECRET_NBYTES];
    make_secret(secret, n > 240 ? seed : 0);
    if (n > 240)
        return hash_long(at, n, secret);
    if (n > 128)
        return hash_129_to_240(at, n, seed, secret);
    if (n > 16)
        return hash_17_to_128(at, n, seed, secret);
    if (n > 8)
        return hash_9_to_16(at, n, seed, secret);
    if (n > 3)
        return hash_4_to_8(at, n, seed, secret);
    return hash_1_to_3(at, n, seed, secret);
}

/* The sum of (2i + 1) h over the hashes h of pieces i; the rest belongs to the
 * last piece. */
static uint64_t
checksum(const uint8_t *at, size_t n, uint64_t seed)
{
    const size_t piece_nbytes = 16384;
    uint64_t sum = 0, factor = 1;
    while (n >= 2 * piece_nbytes) {
        sum += factor * hash(at, piece_nbytes, seed);
        at += piece_nbytes;
        n -= piece_nbytes;
        factor += 2;
    }
    return sum + factor * hash(at, n, seed);
}

/* ------------------------------------------------------------------------- *
 * Arithmetic: IEEE 754, in the type T, each operation rounded to nearest even
 *
 * Values of T are doubles here. `width` is the number of bits of T.
 * ------------------------------------------------------------------------- */

/* A number and its bits. */
union number {
    double wide;
    uint64_t wide_bits;
    float narrow;
    uint32_t narrow_bits;
};

static double
value_of(uint64_t width, uint64_t word)
{
    union number number;
    if (width == 64) {
        number.wide_bits = word;
        return number.wide;
    }
    number.narrow_bits = (uint32_t)word;
    return (double)number.narrow;
}

static uint64_t
word_of(uint64_t width, double value)
{
    union number number;
    if (width == 64) {
        number.wide = value;
        return number.wide_bits;
    }
    number.narrow = (float)value;
    return number.narrow_bits;
}

/* Rounds x to the type T. `x` is the result of one operation of doc/format.md,
 * because each operation is rounded. `volatile` keeps compilers from
 * contracting two operations, and from more digits than a double has. C
 * computes an operation on two float32 in double here, and rounds its result
 * twice. That gives the same sum, product or quotient as rounding once, since a
 * double has more than twice the digits of a float32. */
static double
rounded(uint64_t width, double x)
{
    volatile double wide = x;
    if (width == 64)
        return wide;
    volatile float narrow = (float)wide;
    return (double)narrow;
}

/* The largest finite number of T. */
static double
largest_of(uint64_t width)
{
    return width == 32 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
}

/* The least exponent whose power of two is not finite. */
static int
end_of_exponents(uint64_t width)
{
    return width == 32 ? 128 : 1024;
}

/* Stored bits of a significand. */
static int
nfraction_of(uint64_t width)
{
    return width == 32 ? 23 : 52;
}

/* Tests that this program computes as IEEE 754 says: with no more digits than
 * a double has, without contraction, rounding to nearest even, and with
 * subnormal numbers. */
static bool
is_ieee(void)
{
    const double one = rounded(64, 1);
    const bool is_double = rounded(64, one + rounded(64, 0x1.001p-53)) > 1;
    const double a = rounded(64, 0x1.0000001p0);
    const double square = rounded(64, a * a);
    const bool is_uncontracted =
        rounded(64, square - rounded(64, 0x1.0000002p0)) == 0;
    const double tiny = rounded(32, 0x1p-149) * rounded(32, 1.5);
    const double tiniest = rounded(64, 0x1p-1074) * rounded(64, 1.5);
    return is_double && is_uncontracted && word_of(32, tiny) == 2 &&
           word_of(64, tiniest) == 2;
}

/* ------------------------------------------------------------------------- *
 * "Dictionary": 75 entries. Each has a codebook of the 1024 symbols, and one
 * of the 504 tokens.
 * ------------------------------------------------------------------------- */

#define TILE_NSYMBOLS UINT64_C(4096)
#define NRUN_CLASSES 24
#define NCODE_CLASSES 21
#define ESCAPE_CLASS (NCODE_CLASSES - 1)
#define NTOKENS (NRUN_CLASSES * NCODE_CLASSES)

/* Classes of numbers, from "ratio tiles": first `nalone` classes of one number
 * each, then two classes an octave. `nalone` is RUNS_ALONE for the classes of
 * runs, and CODES_ALONE for those of a code's magnitude less one. */
#define RUNS_ALONE 4
#define CODES_ALONE 8

/* The bits b of a class: it has 2^b numbers. */
static uint64_t
class_nbits(uint64_t class, uint64_t nalone)
{
    return class < nalone ? 0 : nalone / 4 + (class - nalone) / 2;
}

/* The first number of a class. */
static uint64_t
class_first(uint64_t class, uint64_t nalone)
{
    if (class < nalone)
        return class;
    return (2 + class % 2) << class_nbits(class, nalone);
}

/* Makes a codebook of the lengths of all words. The length 0 means that a
 * symbol has no word. The Kraft sum must not be above 1. */
static const struct codebook *
make_codebook(struct call *call, const uint8_t nbits[NSYMBOLS])
{
    struct codebook *book = reserve(call, 1, sizeof *book);
    uint64_t nleft = two_to(WORD_MAX_NBITS); /* words of the longest length */
    uint64_t nwords = 0;
    for (uint64_t length = 1; length <= WORD_MAX_NBITS; length++)
        for (int symbol = 0; symbol < NSYMBOLS; symbol++) {
            if (nbits[symbol] != length)
                continue;
            const uint64_t share = two_to(WORD_MAX_NBITS - length);
            require(call, nleft >= share);
            nleft -= share;
            book->nwords[length]++;
            book->symbol[nwords] = (uint16_t)symbol;
            nwords++;
        }
    return book;
}

/* A symbol and its weight. */
struct weighed {
    uint64_t weight;
    int symbol;
};

/* For qsort: by weight. Of equal weights the lower symbol goes first. */
static int
compare_weights(const void *first, const void *second)
{
    const struct weighed *a = first, *b = second;
    if (a->weight != b->weight)
        return a->weight < b->weight ? -1 : 1;
    return a->symbol - b->symbol;
}

/* Package-merge: adds the lengths of optimal words of at most WORD_MAX_NBITS
 * bits to `nbits`, which holds zeros.
 *
 * The list of each level holds all symbols, and packages of two neighbours in
 * the list of the level before, by weight. Only the first 2S - 2 items of a
 * list count. The first 2S - 2 items of the last list are taken. Where a
 * package is taken, its two items of the level before are taken too. A symbol
 * is taken once for each bit of its word. So it suffices to know how many
 * symbols and how many packages are taken of each list. */
static void
find_word_lengths(struct merge_lists *lists, const uint64_t *weight,
                  int nsymbols, uint8_t *nbits)
{
    const uint64_t infinite = two_to(62); /* the weight behind a list's end */
    const int nitems = 2 * nsymbols - 2;
    struct weighed sorted[NSYMBOLS];
    for (int symbol = 0; symbol < nsymbols; symbol++) {
        sorted[symbol].weight = weight[symbol];
        sorted[symbol].symbol = symbol;
    }
    qsort(sorted, (size_t)nsymbols, sizeof *sorted, compare_weights);
    for (int k = 0; k < 2 * NSYMBOLS; k++)
        lists->weight[0][k] = infinite;
    for (int level = 1; level <= WORD_MAX_NBITS; level++) {
        uint64_t *list = lists->weight[level];
        int i = 0; /* symbols so far */
        for (int k = 0; k < nitems; k++) {
            const uint64_t *pair = &lists->weight[level - 1][2 * (k - i)];
            const uint64_t package = least_of(pair[0] + pair[1], infinite);
            const bool is_symbol = i < nsymbols && sorted[i].weight <= package;
            list[k] = is_symbol ? sorted[i].weight : package;
            i += is_symbol;
            lists->nsymbols[level][k + 1] = i;
        }
        for (int k = nitems; k < 2 * NSYMBOLS; k++)
            list[k] = infinite;
    }
    int ntaken = nitems;
    for (int level = WORD_MAX_NBITS; level > 0; level--) {
        const int nsingle = lists->nsymbols[level][ntaken];
        for (int i = 0; i < nsingle; i++)
            nbits[sorted[i].symbol]++;
        ntaken = 2 * (ntaken - nsingle);
    }
}

enum family {
    CAUCHY,
    LAPLACE,
    GAUSSIAN
};

/* A distribution of codes. */
struct distribution {
    enum family family;
    double scale; /* s */
    double zeros; /* w, the share of additional zeros */
};

static struct distribution
distribution_of(uint64_t entry)
{
    /* The first and last scale of the first 19 entries, and of the others. */
    static const double scales[3][2][2] = {{{0.0005, 64}, {1, 32}},
                                           {{0.05, 200}, {0.5, 8}},
                                           {{0.12, 256}, {0.5, 8}}};
    const int family = (int)entry / 25, nth = (int)entry % 25;
    struct distribution result = {CAUCHY, 0, 0};
    double place; /* from 0 for the first scale to 1 for the last */
    if (nth < 19) {
        place = nth / 18.;
    } else {
        place = (nth - 19) % 3 / 2.;
        result.zeros = nth < 22 ? 0.25 : 0.875;
    }
    const double *range = scales[family][nth < 19 ? 0 : 1];
    result.family = family == 0 ? CAUCHY : family == 1 ? LAPLACE : GAUSSIAN;
    result.scale = range[0] * pow(range[1] / range[0], place);
    return result;
}

/* t(x): the share of the distribution beyond x on both sides. */
static double
share_beyond(const struct distribution *distribution, double x)
{
    const double scale = distribution->scale;
    switch (distribution->family) {
    case CAUCHY:
        return 2 / 3.14159265358979323846 * atan(scale / x);
    case LAPLACE:
        return exp(-x / scale);
    default:
        return erfc(x / scale / sqrt(2));
    }
}

struct frequencies {
    uint64_t escape;
    uint64_t magnitude[NMAGNITUDES]; /* of each code, either sign */
};

/* The fraction of a magnitude's share that rounding down has dropped. */
struct fraction {
    double size;
    int magnitude;
};

/* For qsort: the largest first. Of equal fractions the lower magnitude goes
 * first. */
static int
compare_fractions(const void *first, const void *second)
{
    const struct fraction *a = first, *b = second;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    return a->magnitude - b->magnitude;
}

/* The frequencies of an entry, steps 1 to 5 of "Dictionary". Both signs
 * counted, they sum to 2^24. */
static void
find_frequencies(uint64_t entry, struct frequencies *result)
{
    const struct distribution distribution = distribution_of(entry);
    const double rest = 1 - distribution.zeros;
    const double u = share_beyond(&distribution, 511.5);
    const double unit = rest / (1 - u);
    uint64_t *frequency = result->magnitude;
    struct fraction fractions[NMAGNITUDES - 1]; /* of magnitudes from 1 on */

    /* 1. The escape. */
    const double escape = fmin(fmax(rest * u, 0x1p-16), 0x1p-6);
    result->escape = (uint64_t)(escape * 0x1p24 + 0.5);

    /* 2. One for each code; the others are shared by mass. */
    uint64_t left = two_to(24) - result->escape;
    const double shared = (double)(left - (2 * NMAGNITUDES - 1));

    /* 3. Magnitude 0. */
    double outer = share_beyond(&distribution, 0.5);
    const double zero_mass = distribution.zeros + unit * (1 - outer);
    frequency[0] = 1 + (uint64_t)ceil(shared * zero_mass);
    frequency[0] += (left - frequency[0]) % 2;
    left = (left - frequency[0]) / 2;

    /* 4. The other magnitudes. */
    for (int m = 1; m < NMAGNITUDES; m++) {
        const double inner = outer;
        outer = share_beyond(&distribution, m + 0.5);
        const double share = shared * (unit * (inner - outer) / 2);
        frequency[m] = 1 + (uint64_t)share;
        fractions[m - 1].size = share - floor(share);
        fractions[m - 1].magnitude = m;
        left -= frequency[m];
    }

    /* 5. One each for the magnitudes with the largest fractions. */
    qsort(fractions, NMAGNITUDES - 1, sizeof *fractions, compare_fractions);
    for (uint64_t i = 0; i < left; i++)
        frequency[fractions[i].magnitude]++;
}

/* The weights of the 1024 symbols: code + 512, and 0 for the escape. */
static void
weigh_symbols(const struct frequencies *frequencies, uint64_t *weight)
{
    weight[0] = frequencies->escape;
    for (int m = 0; m < NMAGNITUDES; m++) {
        weight[512 + m] = frequencies->magnitude[m];
        weight[512 - m] = frequencies->magnitude[m];
    }
}

/* The weights of the 504 tokens: that of the run's class times that of the
 * code's class, at least 1. */
static void
weigh_tokens(const struct frequencies *frequencies, uint64_t *weight)
{
    const uint64_t f = frequencies->magnitude[0];
    uint64_t c[TILE_NSYMBOLS + 1]; /* of runs of i zeros and more */
    uint64_t of_code[NCODE_CLASSES] = {0};
    c[0] = two_to(32);
    for (uint64_t i = 0; i < TILE_NSYMBOLS; i++)
        c[i + 1] = c[i] * (256 * f) >> 32;
    uint64_t class = 0;
    for (uint64_t m = 1; m < NMAGNITUDES; m++) {
        if (m - 1 == class_first(class + 1, CODES_ALONE))
            class ++;
        of_code[class] += 2 * frequencies->magnitude[m];
    }
    of_code[ESCAPE_CLASS] = frequencies->escape;
    for (uint64_t token = 0; token < NTOKENS; token++) {
        const uint64_t run = token / NCODE_CLASSES;
        const uint64_t of_run = c[class_first(run, RUNS_ALONE)] -
                                c[class_first(run + 1, RUNS_ALONE)];
        weight[token] = most_of(of_run * of_code[token % NCODE_CLASSES], 1);
    }
}

/* The codebook of an entry, of its symbols or of its tokens. */
static const struct codebook *
codebook_of_entry(struct call *call, uint64_t entry, bool of_tokens)
{
    require(call, entry < NENTRIES);
    if (call->dictionary[of_tokens][entry] != NULL)
        return call->dictionary[of_tokens][entry];
    struct frequencies frequencies;
    uint64_t weight[NSYMBOLS];
    uint8_t nbits[NSYMBOLS] = {0};
    find_frequencies(entry, &frequencies);
    if (of_tokens)
        weigh_tokens(&frequencies, weight);
    else
        weigh_symbols(&frequencies, weight);
    if (call->lists == NULL)
        call->lists = reserve(call, 1, sizeof *call->lists);
    find_word_lengths(call->lists, weight, of_tokens ? NTOKENS : NSYMBOLS,
                      nbits);
    call->dictionary[of_tokens][entry] = make_codebook(call, nbits);
    return call->dictionary[of_tokens][entry];
}

/* ------------------------------------------------------------------------- *
 * "Frame"
 * ------------------------------------------------------------------------- */

enum {
    TYPE_FLOAT32 = 0,
    TYPE_FLOAT64 = 1,
    TYPE_BYTES = 2,
    TYPE_INT8 = 3,
    TYPE_INT64 = 6,
    TYPE_UINT8 = 7,
    TYPE_UINT16 = 8,
    TYPE_UINT32 = 9,
    TYPE_UINT64 = 10,
    TYPE_FLOAT16 = 11,
    TYPE_BFLOAT16 = 12,
    TYPE_COMPLEX64 = 13,
    TYPE_COMPLEX128 = 14
};

static const uint8_t nbytes_of_type[] = {4, 8, 1, 1, 2, 4, 8, 1,
                                         2, 4, 8, 2, 2, 8, 16};

enum {
    CODING_RAW = 0,
    CODING_CONSTANT = 1,
    CODING_HUFFMAN = 2,
    CODING_CUSTOM = 3, /* of "Signs"; a frame does not have it */
    CODING_SPEED = 4,
    CODING_RATIO = 5,
    CODING_GRID = 10,
    CODING_COLUMNS = 11,
    CODING_RANKS = 12,
    CODING_COPIES = 13,
    CODING_REFERENCES = 14,
    CODING_PARTS = 15
};

enum {
    NO_PREDICTION = 0,
    SPLINE = 1,
    LORENZO = 2,
    LOSSLESS = 3
};

/* Bits 4 to 7 of the prediction byte. */
enum {
    HAS_SPECIALS = 0x10,
    HAS_DOMAIN = 0x20,
    IS_POINTWISE = 0x40,
    HAS_PREFIXES = 0x80
};

/* The first four are numbers of a plan; the others follow from the plan and
 * from the points around. */
enum {
    CUBIC = 0,
    NATURAL = 1,
    LINEAR = 2,
    LONG = 3,
    MEAN,
    SIX,
    QUADRATIC,
    EXTRAPOLATE,
    COPY
};

/* Priorities that mean blending. */
enum {
    BLENDS_PAIRS = 170,
    BLENDS_ALL = 255
};

/* The code of an escape, once low bits are added. */
#define ESCAPE (-32768)

/* The domain: the shape in which values are predicted. Dimensions are numbered
 * from the fastest here. Unused ones have the extent 1. */
struct domain {
    uint64_t rank, nbricks, nvalues;
    uint64_t extent[4];
    uint64_t
        pitch[5]; /* from a value to its neighbour; [4]: to the next brick */
    uint64_t slowest; /* the slowest dimension of more than one value */
};

/* "Carrier". */
struct carrier {
    uint64_t number, offset, scale;
};

enum {
    HALF_IN_FLOAT32 = 0,
    INTEGERS_IN_FLOAT32 = 1,
    INTEGERS_AS_BITS = 3
};

/* "Pointwise". */
struct pointwise {
    uint64_t form; /* 0: values; 1, 2: logarithms */
    uint64_t signs;
    int center;
    double joint; /* 0: there is no floor */
    double shift;
};

enum {
    ALL_POSITIVE = 0,
    ALL_NEGATIVE = 1,
    MIXED_SIGNS = 2
};

struct level_plan {
    double step; /* s' of the level */
    uint64_t spline, priorities;
};

/* "Exact quants" of lorenzo, and the same of lossless. */
struct exact {
    bool is_set;
    double unit;    /* S */
    uint64_t limit; /* N */
    uint64_t zeros; /* z */
};

/* "Model". */
struct model {
    double step; /* s' */
    uint64_t wide;
    /* Spline. plan[level] is that of a level, from 1 to nlevels. Anchors have
     * plan[nlevels + 1], of which only the step counts. */
    double reference;
    struct level_plan plan[66];
    /* Lorenzo and lossless. */
    uint64_t mask;  /* dimensions to sum along, without that of means */
    uint64_t twice; /* dimensions to sum along twice */
    bool has_means; /* along the slowest dimension */
    bool has_tails;
    uint64_t tail_nbits;
    struct exact exact;
    uint64_t form; /* of lossless */
    uint64_t center;
};

enum {
    STEPS = 0,
    STEPS_WITH_REMAINDERS = 1,
    MAGNITUDES = 2
};

/* "Specials". */
struct specials {
    uint64_t nspecials, ncolors;
    /* Of each point: 0 if it is not special, else its color + 1, or 1 where
     * there are no colors. */
    uint8_t *mark;
    /* Of each color or, where there are no colors, of each special point. */
    const uint64_t *value;
};

/* "Shifts". */
struct shifts {
    const uint64_t *shift, *zeros; /* of each group of 256 differences */
    const uint64_t *number;        /* of each difference */
};

/* "Escapes". */
struct escapes {
    uint64_t n, nused;
    bool are_words; /* raw values, not numbers */
    const uint64_t *number;
};

/* A stream, or an inner stream. */
struct stream {
    struct call *call;
    struct terp_reader_chunk chunk;
    uint64_t coding, prediction, flags;
    double bound;
    struct domain domain;
    uint64_t nlevels; /* 0 where neither prediction nor contexts have levels */
    uint64_t carrier_width; /* bits of the number that carries a value */
    uint64_t width;         /* bits of T */
    struct carrier carrier;
    struct pointwise pointwise;
    struct model model;
    struct specials specials;
    uint8_t *is_negative; /* "Signs" of each point */
    const uint64_t *tail; /* tail numbers of each point */
    struct shifts shifts;
    const uint8_t *remainders;
    uint64_t remainders_nbytes;
    struct escapes escapes;
    int32_t *code;  /* of each point */
    uint64_t *word; /* of each point: a number of T, or an integer of lorenzo */
};

/* x rounded to T. */
static double
fl(const struct stream *s, double x)
{
    return rounded(s->width, x);
}

static double
value_at(const struct stream *s, uint64_t point)
{
    return value_of(s->width, s->word[point]);
}

static uint64_t
coordinate(const struct stream *s, uint64_t point, uint64_t d)
{
    return point / s->domain.pitch[d] % s->domain.extent[d];
}

/* Complex values have two parts, all others one. */
static uint64_t
nparts_of(uint64_t type)
{
    return type >= TYPE_COMPLEX64 ? 2 : 1;
}

static bool
is_integer(uint64_t type)
{
    return type >= TYPE_INT8 && type <= TYPE_UINT64;
}

/* Takes the dims that a layout byte describes, of a chunk or of a domain. */
static void
take_dims(struct call *call, uint64_t layout, struct terp_reader_chunk *chunk)
{
    const uint64_t dim_nbytes = two_to(layout >> 2 & 3);
    chunk->stack = layout >> 7;
    chunk->rank = (layout & 3) + 1;
    chunk->nvalues = 1;
    require(call, !chunk->stack || chunk->rank > 1);
    for (uint64_t i = 0; i < chunk->rank; i++) {
        const uint64_t most = ones(63) / chunk->nvalues;
        chunk->dims[i] = take_in_range(call, dim_nbytes, 1, most);
        chunk->nvalues *= chunk->dims[i];
    }
}

/* A bound of any stage: finite and not negative. */
static double
take_bound(struct call *call)
{
    const double bound = value_of(64, take_number(call, 8));
    require(call, bound >= 0 && bound < INFINITY);
    return bound;
}

/* Coding, prediction and flags must go together, and with the chunk's type.
 * `outer` is the coding of the stream around an inner stream, and raw for a
 * whole stream. */
static void
check_coding(const struct stream *s, uint64_t outer)
{
    struct call *call = s->call;
    const uint64_t coding = s->coding, type = s->chunk.type;
    const bool is_whole = outer == CODING_RAW;
    const bool is_coded = coding == CODING_HUFFMAN || coding == CODING_RATIO;
    const bool is_new = coding == CODING_RANKS || coding == CODING_GRID ||
                        coding == CODING_COLUMNS;
    const bool has_inner = is_new || coding == CODING_COPIES ||
                           coding == CODING_REFERENCES ||
                           coding == CODING_PARTS;
    require(call, is_coded || has_inner || coding == CODING_RAW ||
                      coding == CODING_CONSTANT || coding == CODING_SPEED);
    if (has_inner)
        require(call, coding != outer && outer != CODING_REFERENCES);
    if (outer == CODING_RANKS || outer == CODING_GRID)
        require(call, coding != CODING_COPIES && coding != CODING_COLUMNS &&
                          coding != CODING_RANKS && coding != CODING_GRID);
    if (outer == CODING_COLUMNS)
        require(call, coding != CODING_COPIES);
    if (is_new || coding == CODING_SPEED)
        require(call, call->version == 2);
    if (coding == CODING_SPEED)
        require(call, is_whole || outer == CODING_PARTS);
    if (coding == CODING_COLUMNS) {
        const uint64_t last = s->chunk.dims[s->chunk.rank - 1];
        require(call, s->chunk.rank >= 2 && !s->chunk.stack);
        require(call, last >= 2 && last <= 16);
    }
    if (coding == CODING_GRID)
        require(call, type == TYPE_FLOAT32 || type == TYPE_FLOAT64);
    if (coding == CODING_REFERENCES || coding == CODING_RANKS)
        require(call, s->chunk.value_nbytes > 1);
    if (coding != CODING_RAW) {
        require(call, type != TYPE_BYTES);
        require(call, (coding == CODING_PARTS) == (type >= TYPE_COMPLEX64));
    }
    require(call, s->prediction <= LOSSLESS);
    require(call, is_coded == (s->prediction != NO_PREDICTION));
    uint64_t allowed = 0;
    if (coding == CODING_CONSTANT)
        allowed = HAS_SPECIALS;
    else if (s->prediction == SPLINE)
        allowed = HAS_SPECIALS | HAS_DOMAIN | IS_POINTWISE |
                  (is_whole ? HAS_PREFIXES : 0);
    else if (s->prediction == LORENZO)
        allowed = HAS_SPECIALS | HAS_DOMAIN | IS_POINTWISE;
    else if (s->prediction == LOSSLESS)
        allowed = HAS_SPECIALS | HAS_DOMAIN;
    require(call, (s->flags & ~allowed) == 0);
}

/* The coding byte and the prediction byte. */
static void
take_coding(struct stream *s)
{
    s->coding = take_number(s->call, 1);
    const uint64_t byte = take_number(s->call, 1);
    s->prediction = byte & 15;
    s->flags = byte & 0xf0;
}

/* The frame of a whole stream, up to the domain. */
static void
take_whole_frame(struct stream *s)
{
    struct call *call = s->call;
    struct terp_reader_chunk *chunk = &s->chunk;
    const uint8_t *magic = take(call, 4);
    require(call, memcmp(magic, "TERP", 4) == 0);
    call->version = take_in_range(call, 1, 1, 2);
    const uint64_t layout = take_number(call, 1), type = layout >> 4 & 3;
    take_coding(s);
    take(call, 8); /* the checksum, which decode_whole checks */
    take_dims(call, layout, chunk);
    chunk->big_endian = layout >> 6 & 1;
    chunk->type = type;
    if (type == 3)
        chunk->type = take_in_range(call, 1, 3, TYPE_COMPLEX128);
    require(call, chunk->type != TYPE_BYTES || chunk->rank == 1);
}

/* The shape of the domain. */
static void
take_domain(struct stream *s)
{
    struct call *call = s->call;
    const struct terp_reader_chunk *chunk = &s->chunk;
    struct terp_reader_chunk shape = *chunk;
    struct domain *domain = &s->domain;
    if (s->flags & HAS_DOMAIN) {
        const uint64_t layout = take_number(call, 1);
        require(call, (layout & 0x70) == 0);
        take_dims(call, layout, &shape);
        require(call, shape.nvalues == chunk->nvalues);
        require(call,
                shape.stack != chunk->stack || shape.rank != chunk->rank ||
                    memcmp(shape.dims, chunk->dims, sizeof shape.dims) != 0);
    }
    domain->rank = shape.rank - shape.stack;
    domain->nbricks = shape.stack ? shape.dims[0] : 1;
    domain->nvalues = shape.nvalues;
    domain->pitch[0] = 1;
    for (uint64_t d = 0; d < 4; d++) {
        domain->extent[d] = 1;
        if (d < domain->rank)
            domain->extent[d] = shape.dims[shape.rank - 1 - d];
        domain->pitch[d + 1] = domain->pitch[d] * domain->extent[d];
        if (domain->extent[d] > 1)
            domain->slowest = d;
    }
}

/* Takes all bytes of a frame. A whole stream's frame tells its chunk; for an
 * inner stream, the outer one has told it ("Inner streams"). */
static void
take_frame(struct call *call, struct stream *s,
           const struct terp_reader_chunk *chunk, uint64_t outer)
{
    memset(s, 0, sizeof *s);
    s->call = call;
    if (outer == CODING_RAW) {
        take_whole_frame(s);
    } else {
        s->chunk = *chunk;
        take_coding(s);
    }
    s->chunk.value_nbytes = nbytes_of_type[s->chunk.type];
    require(call, s->chunk.nvalues <= ones(63) / s->chunk.value_nbytes);
    check_coding(s, outer);
    take_domain(s);
    if (s->prediction != NO_PREDICTION || s->coding == CODING_SPEED)
        s->bound = take_bound(call);
    require(call, s->bound > 0 || s->prediction != SPLINE);
    if (s->flags & HAS_PREFIXES)
        take(call, 24);
    if (s->coding == CODING_RATIO || s->prediction == SPLINE)
        for (uint64_t d = 0; d < 4; d++)
            s->nlevels = most_of(s->nlevels, nbits_of(s->domain.extent[d] - 1));
}

/* ------------------------------------------------------------------------- *
 * "Carrier"
 * ------------------------------------------------------------------------- */

static void
take_carrier(struct stream *s)
{
    struct call *call = s->call;
    struct carrier *carrier = &s->carrier;
    s->width = s->chunk.type == TYPE_FLOAT64 ? 64 : 32;
    if (s->chunk.type > TYPE_BYTES) {
        const uint64_t byte = take_number(call, 1);
        carrier->number = byte & 3;
        s->width = carrier->number > INTEGERS_IN_FLOAT32 ? 64 : 32;
        if (carrier->number == HALF_IN_FLOAT32) {
            require(call, byte == 0 && !is_integer(s->chunk.type));
            take_bound(call);
        } else {
            require(call, (byte & 0x8c) == 0);
            require(call, !(s->flags & IS_POINTWISE));
            carrier->offset = take_number(call, s->chunk.value_nbytes);
            carrier->scale =
                take_in_range(call, (byte >> 4) + 1, 1, UINT64_MAX);
        }
    }
    s->carrier_width = s->width;
}

/* The 16-bit float nearest to y, of two nearest ones the even one. */
static uint64_t
half_of(const struct stream *s, double y)
{
    const bool is_float16 = s->chunk.type == TYPE_FLOAT16;
    const int nfraction = is_float16 ? 10 : 7, bias = is_float16 ? 15 : 127;
    /* The bits below those of infinity are those of the largest value. */
    uint64_t bits = (ones(15) >> nfraction << nfraction) - 1;
    if (isnan(y))
        return bits;
    if (fabs(y) < 0x1p+128) {
        const int normal = ilogb(y), least = 1 - bias;
        const int exponent = normal > least ? normal : least;
        const double digits = rint(ldexp(fabs(y), nfraction - exponent));
        /* The first digit of a normal number, and a carry of the rounding,
         * add one to the exponent field. */
        const int field = (exponent - least) * (1 << nfraction);
        bits = least_of(bits, (uint64_t)field + (uint64_t)digits);
    }
    return signbit(y) ? bits | 0x8000 : bits;
}

/* The integer o + g n of the word that carries n, as bits of its type. For
 * 16-bit floats, the bits of the value that has this place among all values. */
static uint64_t
integer_of(const struct stream *s, uint64_t word)
{
    const struct carrier *carrier = &s->carrier;
    const uint64_t nbits = 8 * s->chunk.value_nbytes, sign = two_to(nbits - 1);
    const uint64_t type = s->chunk.type;
    const bool is_unsigned = type >= TYPE_UINT8 && type <= TYPE_UINT64;
    const double y = value_of(s->carrier_width, word), magnitude = fabs(y);
    /* o - least; most - o is the rest. */
    const uint64_t below =
        is_unsigned ? carrier->offset : carrier->offset ^ sign;
    const uint64_t above = ones(nbits) - below;
    uint64_t n; /* its magnitude */
    bool is_negative;
    if (carrier->number == INTEGERS_AS_BITS) {
        is_negative = word >> 63;
        n = least_of((is_negative ? below : above) / carrier->scale,
                     word & ones(63));
    } else {
        const bool is_narrow = carrier->number == INTEGERS_IN_FLOAT32;
        is_negative = !(y >= 0); /* a NaN becomes -low */
        n = least_of((is_negative ? below : above) / carrier->scale,
                     two_to(is_narrow ? 24 : 53));
        if (magnitude < (double)n) {
            const double whole = floor(magnitude);
            n = (uint64_t)whole + (magnitude - whole > 0.5);
        }
    }
    const uint64_t distance = carrier->scale * n;
    const uint64_t integer =
        ones(nbits) &
        (is_negative ? carrier->offset - distance : carrier->offset + distance);
    if (!is_integer(type) && integer >= sign)
        return integer ^ (sign - 1);
    return integer;
}

/* The value of the word that carries it, for types from 3 on. */
static uint64_t
carried_value(const struct stream *s, uint64_t word)
{
    if (s->carrier.number == HALF_IN_FLOAT32)
        return half_of(s, value_of(s->carrier_width, word));
    return integer_of(s, word);
}

/* ------------------------------------------------------------------------- *
 * "Pointwise"
 * ------------------------------------------------------------------------- */

static void
take_pointwise(struct stream *s)
{
    struct call *call = s->call;
    struct pointwise *pointwise = &s->pointwise;
    const int end = end_of_exponents(s->carrier_width);
    const uint64_t byte = take_number(call, 1);
    const bool has_floor = byte >> 4 & 1;
    const double e = take_bound(call);
    pointwise->form = byte & 3;
    pointwise->signs = byte >> 2 & 3;
    require(call, byte < 32 && pointwise->form < 3 && pointwise->signs < 3);
    require(call, e > 0 && e < 1);
    require(call, pointwise->form > 0 || byte == 0);
    require(call, pointwise->signs == ALL_POSITIVE || !has_floor);
    if (pointwise->form > 0) {
        s->width = pointwise->form == 1 ? 32 : 64;
        pointwise->center = (int)signed_of(take_number(call, 2), 16);
        require(call, -end <= pointwise->center && pointwise->center <= end);
    }
    if (has_floor) {
        pointwise->joint = rounded(64, take_bound(call) / e);
        pointwise->shift = take_bound(call);
        require(call, pointwise->joint >= ldexp(1, 4 - end));
        require(call, pointwise->joint <= ldexp(1, end - 3));
        require(call, pointwise->shift > 0 && pointwise->shift <= 2);
    }
}

/* 2^(z + c), steps 1 to 4, without the limit of step 4. */
static double
power_of(const struct stream *s, double z)
{
    static const double narrow[] = {0x1.62e430p-1,  0x1.ebfbe0p-3,
                                    0x1.c6af6cp-5,  0x1.3b2a54p-7,
                                    0x1.5f0890p-10, 0x1.44138ap-13};
    static const double wide[] = {
        0x1.62e42fefa39efp-1,  0x1.ebfbdff82c598p-3,  0x1.c6b08d704a0c2p-5,
        0x1.3b2ab6fba1ddap-7,  0x1.5d87fe78a5276p-10, 0x1.430913096fd9fp-13,
        0x1.ffcbfc670dcd4p-17, 0x1.62bfd47773353p-20, 0x1.b524fae627834p-24,
        0x1.e6063f7217bc6p-28, 0x1.e9d3fe3952179p-32};
    const bool is_narrow = s->width == 32;
    const double *coefficient = is_narrow ? narrow : wide;
    const int center = s->pointwise.center;
    const int end = end_of_exponents(s->carrier_width);
    const double low = 3 - end - center, high = end - center;
    const double large = is_narrow ? 0x1.8p23 : 0x1.8p52; /* R */

    z = fmin(fmax(z, low), high); /* fmax makes low of a NaN */
    const double n = fl(s, fl(s, z + large) - large);
    const double r = fl(s, z - n);
    double q = 0;
    for (int i = is_narrow ? 6 : 11; i > 0; i--)
        q = fl(s, coefficient[i - 1] + fl(s, r * q));
    const double p = fl(s, 1 + fl(s, r * q));
    return ldexp(p, (int)n + center);
}

/* The word of the value, as carried, that a coded y stands for. */
static uint64_t
pointwise_value(const struct stream *s, double y, bool is_negative)
{
    const struct pointwise *pointwise = &s->pointwise;
    const uint64_t carrier_width = s->carrier_width;
    double magnitude;
    if (pointwise->joint > 0) {
        /* "Floor". */
        const double l = 0x1.71547652b82fep+0;
        const uint64_t width = s->width == carrier_width ? s->width : 64;
        if (fabs(y) <= fl(s, l)) {
            const double ratio = rounded(64, pointwise->joint / l);
            const double factor = rounded(width, ratio);
            magnitude = rounded(width, fabs(y) * factor);
        } else {
            const double shift = fl(s, pointwise->shift);
            magnitude = power_of(s, fl(s, fabs(y) - shift));
        }
        is_negative = y < 0;
    } else {
        magnitude = power_of(s, y);
    }
    magnitude = fmin(magnitude, largest_of(carrier_width));
    magnitude = rounded(carrier_width, magnitude);
    return word_of(carrier_width, is_negative ? -magnitude : magnitude);
}

/* ------------------------------------------------------------------------- *
 * "Model", and "Step" of "Codes"
 * ------------------------------------------------------------------------- */

/* s', the step of a quantizer of step s. */
static double
quantizer_step(const struct stream *s, double step)
{
    return fl(s, fmin(step, largest_of(s->width) / 2048));
}

/* q s', q being a signed integer of T's width. */
static double
steps(const struct stream *s, uint64_t q, double step)
{
    return fl(s, fl(s, (double)signed_of(q, s->width)) * step);
}

static void
take_spline_plans(struct stream *s, double step)
{
    struct call *call = s->call;
    struct model *model = &s->model;
    model->reference = value_of(s->width, take_number(call, s->width / 8));
    model->plan[s->nlevels + 1].step = model->step;
    for (uint64_t level = s->nlevels; level > 0; level--) {
        struct level_plan *plan = &model->plan[level];
        const uint64_t byte = take_number(call, 1);
        const double share = (double)((byte & 63) + 1) / 64;
        plan->step = quantizer_step(s, rounded(64, step * share));
        plan->priorities = take_number(call, 1);
        plan->spline = byte >> 6;
        if (plan->spline == LONG && plan->priorities == BLENDS_PAIRS)
            plan->spline = MEAN;
    }
}

/* Zeros and exponent, which lorenzo's exact quants and lossless have alike. */
static void
take_exact(struct stream *s, uint64_t significand)
{
    struct call *call = s->call;
    struct exact *exact = &s->model.exact;
    const int nfraction = nfraction_of(s->width);
    const int max_exponent = end_of_exponents(s->width) - 1;
    const int lowest = 1 - max_exponent - nfraction; /* -149 or -1074 */
    exact->is_set = true;
    exact->zeros = take_in_range(call, 1, 0, (uint64_t)nfraction);
    const int e = (int)signed_of(take_number(call, 2), 16);
    require(call, e == lowest ||
                      (e > -max_exponent && e <= max_exponent - nfraction - 1));
    exact->unit = fl(s, ldexp((double)significand, e));
    if (e != lowest)
        exact->limit = two_to((uint64_t)nfraction - exact->zeros);
}

static void
take_lossless_model(struct stream *s)
{
    struct call *call = s->call;
    struct model *model = &s->model;
    const uint64_t dimensions = take_number(call, 1);
    const uint64_t byte = take_number(call, 1);
    model->mask = dimensions & 15;
    model->twice = dimensions >> 4;
    model->form = byte & 3;
    require(call, (model->twice & ~model->mask) == 0);
    require(call, model->form <= MAGNITUDES && byte < 8);
    require(call, model->wide == 0);
    take_exact(s, 1);
    if (byte & 4)
        model->center = take_number(call, s->width / 8);
}

static void
take_lorenzo_model(struct stream *s)
{
    struct call *call = s->call;
    struct model *model = &s->model;
    const uint64_t byte = take_number(call, 1);
    const uint64_t slowest = s->domain.slowest;
    const bool is_exact = byte >> 5 & 1;
    model->mask = byte & 15;
    model->has_means = byte >> 4 & 1;
    model->has_tails = byte >> 6 & 1;
    require(call, byte < 128);
    if (model->has_means) {
        require(call, !(s->flags & HAS_SPECIALS) && slowest > 0 &&
                          model->mask >> slowest & 1 &&
                          s->domain.extent[slowest] >= 8);
        model->mask &= ~two_to(slowest);
    }
    require(call, is_exact || s->bound > 0);
    if (is_exact)
        take_exact(s, take_in_range(call, 1, 1, 255));
    if (model->has_tails) {
        require(call, model->wide == 12 + 1);
        model->tail_nbits = take_in_range(call, 1, 1, s->width == 32 ? 16 : 48);
    }
}

static void
take_model(struct stream *s)
{
    struct call *call = s->call;
    struct model *model = &s->model;
    const uint64_t byte = take_number(call, 1), slack = byte & 15;
    model->wide = byte >> 4;
    require(call, slack >= 1 && slack <= 12 && model->wide <= 13);
    const double two_bounds = rounded(64, s->bound + s->bound);
    double absorbed = two_bounds; /* t, which absorbs rounding */
    for (uint64_t i = 0; i < slack; i++)
        absorbed = rounded(64, absorbed / 2);
    const double step = rounded(64, two_bounds - absorbed);
    model->step = quantizer_step(s, step);
    if (s->prediction == SPLINE)
        take_spline_plans(s, step);
    else if (s->prediction == LORENZO)
        take_lorenzo_model(s);
    else
        take_lossless_model(s);
}

/* ------------------------------------------------------------------------- *
 * "Specials" and "Signs"
 * ------------------------------------------------------------------------- */

/* Undoes the mask delta d: a mark first says whether the point differs from the
 * point that is pitch[d] values earlier. */
static void
undo_mask_delta(const struct stream *s, uint8_t *mask, uint64_t d)
{
    if (d == 0)
        return;
    require(s->call, d <= 4);
    const uint64_t distance = s->domain.pitch[d];
    require(s->call, distance >= 64 && distance < s->domain.nvalues);
    for (uint64_t i = distance; i < s->domain.nvalues; i++)
        mask[i] ^= mask[i - distance];
}

/* A "per run" list: groups of 64 numbers, each behind a byte with its width. */
static uint64_t *
take_run_list(struct call *call, uint64_t nruns)
{
    const uint64_t group_size = 64, max_width = 56;
    uint64_t *numbers = reserve(call, nruns, sizeof *numbers);
    for (uint64_t i = 0; i < nruns; i += group_size) {
        const uint64_t width = take_in_range(call, 1, 0, max_width);
        take_array(call, numbers + i, least_of(nruns - i, group_size), width);
    }
    return numbers;
}

static void
take_specials(struct stream *s)
{
    struct call *call = s->call;
    struct specials *specials = &s->specials;
    const uint64_t nvalues = s->domain.nvalues;
    const uint64_t nruns = take_uleb(call);
    const uint64_t byte = take_number(call, 1);
    const uint64_t ncolors = byte & 15, mask_delta = byte >> 4;
    require(call, nruns <= nvalues);
    require(call, mask_delta == 0 || ncolors == 1);
    const uint64_t *gap = take_run_list(call, nruns);
    const uint64_t *length = take_run_list(call, nruns); /* less one */
    const uint64_t *color = NULL;
    if (ncolors > 1)
        color = take_run_list(call, nruns);
    uint64_t at = 0;
    for (uint64_t run = 0; run < nruns; run++) {
        uint8_t mark = 1;
        if (ncolors > 1) {
            require(call, color[run] < ncolors);
            mark = (uint8_t)(color[run] + 1);
        }
        require(call, gap[run] < nvalues - at);
        at += gap[run];
        require(call, length[run] < nvalues - at);
        memset(specials->mark + at, mark, (size_t)(length[run] + 1));
        at += length[run] + 1;
    }
    undo_mask_delta(s, specials->mark, mask_delta);
    for (uint64_t i = 0; i < nvalues; i++)
        specials->nspecials += specials->mark[i] != 0;
    specials->ncolors = ncolors;
    specials->value =
        take_fields(call, ncolors > 0 ? ncolors : specials->nspecials,
                    8 * s->chunk.value_nbytes);
}

static bool
is_special(const struct stream *s, uint64_t point)
{
    return s->specials.mark[point] != 0;
}

static int32_t *
decode_tiles(struct call *call, uint64_t coding, uint64_t ncodes);

/* The codes of signs are signed bytes, of eight bits of points each. */
static void
take_signs(struct stream *s)
{
    struct call *call = s->call;
    const uint64_t nvalues = s->domain.nvalues;
    const uint64_t mask_delta = take_number(call, 1);
    const uint64_t nbytes = take_number(call, 8);
    const struct input outer = enter(call, take(call, nbytes), nbytes);
    const int32_t *code =
        decode_tiles(call, CODING_CUSTOM, divided_up(nvalues, 8));
    leave(call, outer);
    for (uint64_t i = 0; i < nvalues; i++) {
        const int32_t byte = code[i / 8];
        require(call, byte >= -128 && byte <= 127);
        s->is_negative[i] = (uint32_t)byte >> i % 8 & 1;
    }
    undo_mask_delta(s, s->is_negative, mask_delta);
}

/* ------------------------------------------------------------------------- *
 * "Tails", "Shifts", "Remainders" and "Escapes"
 * ------------------------------------------------------------------------- */

#define GROUP_NVALUES UINT64_C(256)

static void
take_tails(struct stream *s)
{
    struct call *call = s->call;
    const uint64_t nvalues = s->domain.nvalues;
    const uint64_t ngroups = divided_up(nvalues, GROUP_NVALUES);
    const uint64_t *widths = take_fields(call, ngroups, 8);
    s->tail =
        take_groups(call, nvalues, GROUP_NVALUES, widths, s->model.tail_nbits);
}

static void
take_shifts(struct stream *s)
{
    struct call *call = s->call;
    struct shifts *shifts = &s->shifts;
    const uint64_t ndifferences = s->domain.nvalues - s->specials.nspecials;
    const uint64_t ngroups = divided_up(ndifferences, GROUP_NVALUES);
    const uint64_t width = s->width == 32 ? 5 : 6;
    const uint64_t flags = take_in_range(call, 1, 0, 3);
    const bool has_shifts = flags & 1, has_zeros = flags & 2;
    shifts->shift = take_fields(call, ngroups, has_shifts ? width : 0);
    shifts->zeros = take_fields(call, ngroups, has_zeros ? width : 0);
    shifts->number = take_groups(call, ndifferences, GROUP_NVALUES,
                                 shifts->shift, s->width - 2);
}

static void
take_remainders(struct stream *s)
{
    s->remainders_nbytes = take_uleb(s->call);
    s->remainders = take(s->call, s->remainders_nbytes);
}

static void
take_escapes(struct stream *s)
{
    struct call *call = s->call;
    struct escapes *escapes = &s->escapes;
    uint64_t nbytes = 0; /* w */
    escapes->n = take_uleb(call);
    require(call, escapes->n <= s->domain.nvalues);
    if (escapes->n > 0)
        nbytes = take_in_range(call, 1, 0, s->width / 8);
    escapes->are_words = nbytes == 0;
    escapes->number = take_fields(call, escapes->n,
                                  escapes->are_words ? s->width : 8 * nbytes);
}

/* The next escape: a difference of lorenzo or lossless, or a value of spline.
 */
static uint64_t
next_escape(struct stream *s)
{
    struct escapes *escapes = &s->escapes;
    require(s->call, escapes->nused < escapes->n);
    const uint64_t number = escapes->number[escapes->nused];
    escapes->nused++;
    if (escapes->are_words)
        return number;
    const uint64_t d = unfolded(number);
    if (s->prediction != SPLINE)
        return d;
    const double v = s->model.reference;
    return word_of(s->width, fl(s, v + steps(s, d, s->model.step)));
}

/* ------------------------------------------------------------------------- *
 * "Low bits", and "Wide codes" of "Codes"
 * ------------------------------------------------------------------------- */

#define LIST_GROUP_NCODES UINT64_C(32)

/* The low bits of a tile. */
struct low_bits {
    uint64_t ncodes; /* of the tile */
    uint64_t nbits;  /* n */
    const uint64_t *widths;
    const uint64_t *numbers; /* low numbers, one for each code */
    const uint8_t *list;
    uint64_t list_nbytes;
};

/* The low bits of all tiles. Codes that are not wide have none, and then the
 * section is absent. */
static const struct low_bits *
take_low_bits(struct stream *s)
{
    struct call *call = s->call;
    const uint64_t nvalues = s->domain.nvalues;
    const uint64_t ntiles = divided_up(nvalues, TILE_NSYMBOLS);
    struct low_bits *tiles = reserve(call, ntiles, sizeof *tiles);
    const uint64_t *has = take_fields(call, ntiles, s->model.wide > 0 ? 2 : 0);
    for (uint64_t i = 0; i < ntiles; i++) {
        struct low_bits *tile = &tiles[i];
        const bool has_low_bits = has[i] & 1, has_list = has[i] & 2;
        tile->ncodes = least_of(nvalues - i * TILE_NSYMBOLS, TILE_NSYMBOLS);
        if (has_low_bits)
            tile->nbits = take_in_range(call, 1, 1, 12);
        tile->widths =
            take_fields(call, divided_up(tile->ncodes, GROUP_NVALUES),
                        has_low_bits ? 4 : 0);
        if (has_list)
            tile->list_nbytes = take_in_range(call, 2, 1, UINT16_MAX);
    }
    for (uint64_t i = 0; i < ntiles; i++) {
        struct low_bits *tile = &tiles[i];
        tile->numbers = take_groups(call, tile->ncodes, GROUP_NVALUES,
                                    tile->widths, tile->nbits);
        tile->list = take(call, tile->list_nbytes);
    }
    return tiles;
}

/* A code, limited to 32767 of either sign. */
static int32_t
limited_code(int64_t code)
{
    return (int32_t)(code < -32767 ? -32767 : code > 32767 ? 32767 : code);
}

/* Replaces the escapes of a tile that its list has codes for. */
static void
take_listed_codes(struct call *call, const struct low_bits *tile, int32_t *code)
{
    const struct input outer = enter(call, tile->list, tile->list_nbytes);
    const uint64_t head = take_number(call, 2);
    const uint64_t nlisted = head & 0x7fff;
    const bool are_all = head >> 15 == 0;
    require(call, nlisted >= 1 && nlisted <= TILE_NSYMBOLS);
    const uint64_t *widths =
        take_fields(call, divided_up(nlisted, LIST_GROUP_NCODES), 8);
    const uint64_t *number =
        take_groups(call, nlisted, LIST_GROUP_NCODES, widths, 16);
    uint64_t nused = 0;
    for (uint64_t i = 0; i < tile->ncodes; i++) {
        if (code[i] != ESCAPE)
            continue;
        if (are_all || take_bits(call, 1)) {
            require(call, nused < nlisted);
            code[i] = limited_code((int64_t)unfolded(number[nused]));
            nused++;
        }
    }
    require(call, nused == nlisted);
    leave(call, outer);
}

/* Makes whole codes of the high parts of a tile. The high part -512 is symbol
 * 0, which is an escape unless it is listed. */
static void
add_low_bits(struct call *call, const struct low_bits *tile, int32_t *code)
{
    for (uint64_t i = 0; i < tile->ncodes; i++) {
        const int64_t rest = (int64_t)unfolded(tile->numbers[i]);
        const int64_t whole = code[i] * ((int64_t)1 << tile->nbits) + rest;
        code[i] = code[i] == -512 ? ESCAPE : limited_code(whole);
    }
    if (tile->list_nbytes > 0)
        take_listed_codes(call, tile, code);
}

/* ------------------------------------------------------------------------- *
 * "Bit maps" and "Stages"
 * ------------------------------------------------------------------------- */

/* Undoes RREk and RZEk: takes those of n items of k bytes whose bit in a map
 * is 1. Another item is a copy of the item before it (`repeats`, for RRE) or
 * zeros (for RZE). Before the first item there are zeros. */
static uint8_t *
take_kept(struct call *call, const uint8_t *map, uint64_t n, uint64_t k,
          bool repeats)
{
    uint8_t *zeros = reserve(call, n + 1, (size_t)k);
    uint8_t *items = zeros + k;
    for (uint64_t i = 0; i < n; i++) {
        uint8_t *item = items + i * k;
        if (bit_at(map, i))
            memcpy(item, take(call, k), (size_t)k);
        else if (repeats)
            memcpy(item, item - k, (size_t)k);
    }
    return items;
}

/* A map of more than 8 bytes is RRE1 of itself. */
static const uint8_t *
take_map(struct call *call, uint64_t nbits)
{
    const uint64_t nbytes = divided_up(nbits, 8);
    if (nbytes <= 8)
        return take(call, nbytes);
    const uint8_t *map = take_map(call, nbytes);
    return take_kept(call, map, nbytes, 1, true);
}

/* Undoes RRE4-TCMS8-RZE1 of n bytes. */
static const uint8_t *
take_stages(struct call *call, uint64_t nbytes)
{
    const uint64_t nwords = divided_up(nbytes, 4);
    const uint8_t *word_map = take_map(call, nwords);
    uint64_t nkept = 0; /* words that RRE4 keeps */
    for (uint64_t i = 0; i < nwords; i++)
        nkept += bit_at(word_map, i);
    /* RZE1. TCMS8 fills words of 4 bytes up to whole words of 8. */
    const uint64_t kept_nbytes = 8 * divided_up(nkept, 2);
    const uint8_t *byte_map = take_map(call, kept_nbytes);
    uint8_t *kept = take_kept(call, byte_map, kept_nbytes, 1, false);
    /* TCMS8. */
    for (uint64_t i = 0; i < kept_nbytes; i += 8)
        store(kept + i, 8, unfolded(load(kept + i, 8)));
    /* RRE4. Bytes that fill up the last word of TCMS8 stay unread. */
    const struct input outer = enter(call, kept, kept_nbytes);
    const uint8_t *bytes = take_kept(call, word_map, nwords, 4, true);
    call->in = outer;
    return bytes;
}

/* ------------------------------------------------------------------------- *
 * "Tiles"
 * ------------------------------------------------------------------------- */

#define PARTITION_NTILES 16

/* A tile that is not a zero tile. */
struct tile {
    int32_t *code; /* ncodes of them; they are 0 before decoding */
    uint64_t ncodes;
    uint64_t nbytes;
    uint64_t partition; /* its index among the partitions that have tiles */
    const struct codebook *book;
};

/* The tiles of a payload. */
struct tiles {
    uint64_t coding;
    struct tile *tile; /* without zero tiles */
    uint64_t ntiles;
    uint64_t npartitions; /* that have tiles */
    const uint8_t *control;
    const uint64_t *offset; /* of each partition but the first */
};

/* The symbol of the next canonical word. Words of one length are consecutive
 * numbers. The first number of a length is twice the number behind the last
 * word that is one bit shorter. */
static uint64_t
take_symbol(struct call *call, const struct codebook *book)
{
    const uint16_t *symbol = book->symbol; /* of this length and longer */
    uint64_t nth = 0; /* the word so far, less the first word of its length */
    for (int length = 1; length <= WORD_MAX_NBITS; length++) {
        nth = nth << 1 | take_high_bits(call, 1);
        if (nth < book->nwords[length])
            return symbol[nth];
        nth -= book->nwords[length];
        symbol += book->nwords[length];
    }
    stop(call, TERP_READER_DAMAGED);
    return 0;
}

/* "huffman, custom tiles". */
static void
decode_symbols(struct call *call, const struct tile *tile)
{
    for (uint64_t i = 0; i < tile->ncodes; i++)
        tile->code[i] = (int32_t)take_symbol(call, tile->book) - 512;
}

/* A ratio tile ends where fewer than eight bits are left, all of them ones. */
static bool
is_end_of_tokens(const struct call *call)
{
    const uint64_t nleft = 8 * nbytes_left(call) - call->in.nbits;
    if (nleft >= 8)
        return false;
    const uint64_t filler = two_to(nleft) - 1;
    return (call->in.end[-1] & filler) == filler;
}

/* "ratio tiles": a token is a run of zero codes and the code behind it. */
static void
decode_tokens(struct call *call, const struct tile *tile)
{
    uint64_t at = 0;
    while (!is_end_of_tokens(call)) {
        const uint64_t token = take_symbol(call, tile->book);
        const uint64_t run_class = token / NCODE_CLASSES;
        const uint64_t code_class = token % NCODE_CLASSES;
        at += class_first(run_class, RUNS_ALONE);
        at += take_high_bits(call, class_nbits(run_class, RUNS_ALONE));
        require(call, at < tile->ncodes);
        if (code_class == ESCAPE_CLASS) {
            tile->code[at] = -512;
        } else {
            const bool is_negative = take_high_bits(call, 1);
            const uint64_t rest =
                take_high_bits(call, class_nbits(code_class, CODES_ALONE));
            const int32_t magnitude =
                (int32_t)(class_first(code_class, CODES_ALONE) + rest + 1);
            require(call, magnitude < NMAGNITUDES);
            tile->code[at] = is_negative ? -magnitude : magnitude;
        }
        at++;
    }
}

/* The bit map of tiles. */
static void
take_tile_map(struct call *call, struct tiles *tiles, int32_t *code,
              uint64_t ncodes)
{
    const uint64_t n = divided_up(ncodes, TILE_NSYMBOLS);
    const uint8_t *map = take_map(call, n);
    uint64_t partition = UINT64_MAX; /* the last one that has tiles */
    tiles->tile = reserve(call, n, sizeof *tiles->tile);
    for (uint64_t i = 0; i < 8 * divided_up(n, 8); i++) {
        if (!bit_at(map, i))
            continue;
        require(call, i < n);
        if (i / PARTITION_NTILES != partition)
            tiles->npartitions++;
        partition = i / PARTITION_NTILES;
        struct tile *tile = &tiles->tile[tiles->ntiles];
        tile->code = code + i * TILE_NSYMBOLS;
        tile->ncodes = least_of(ncodes - i * TILE_NSYMBOLS, TILE_NSYMBOLS);
        tile->partition = tiles->npartitions - 1;
        tiles->ntiles++;
    }
}

/* "custom codebook". */
static const struct codebook *
take_custom_codebook(struct call *call)
{
    uint8_t nbits[NSYMBOLS] = {0};
    const uint64_t low = take_in_range(call, 2, 1, NSYMBOLS - 1);
    const uint64_t high = take_in_range(call, 2, low, NSYMBOLS - 1);
    nbits[0] = (uint8_t)take_bits(call, 4);
    for (uint64_t symbol = low; symbol <= high; symbol++)
        nbits[symbol] = (uint8_t)take_bits(call, 4);
    skip_to_byte(call);
    return make_codebook(call, nbits);
}

/* The codebook of each tile. */
static void
take_codebooks(struct call *call, struct tiles *tiles)
{
    if (tiles->coding == CODING_CUSTOM) {
        const struct codebook *book = take_custom_codebook(call);
        for (uint64_t i = 0; i < tiles->ntiles; i++)
            tiles->tile[i].book = book;
        return;
    }
    const uint64_t nentries = take_in_range(call, 1, 1, NENTRIES);
    const uint8_t *entry = take(call, nentries);
    const uint64_t *nth =
        take_fields(call, tiles->ntiles, nbits_of(nentries - 1));
    for (uint64_t i = 0; i < tiles->ntiles; i++) {
        require(call, nth[i] < nentries);
        tiles->tile[i].book = codebook_of_entry(call, entry[nth[i]],
                                                tiles->coding == CODING_RATIO);
    }
}

/* Control bytes, offsets, and lengths of tiles. */
static void
take_index(struct call *call, struct tiles *tiles)
{
    const bool is_ratio = tiles->coding == CODING_RATIO;
    const uint64_t most = is_ratio ? 11776 : 7680;
    tiles->control = take(call, tiles->npartitions);
    const uint64_t offset_nbytes = take_in_range(call, 1, 1, 8);
    tiles->offset =
        take_fields(call, tiles->npartitions - 1, 8 * offset_nbytes);
    for (uint64_t i = 0; i < tiles->ntiles; i++) {
        struct tile *tile = &tiles->tile[i];
        const uint64_t width = tiles->control[tile->partition] & 127;
        const uint64_t least = is_ratio ? 1 : divided_up(tile->ncodes, 8);
        require(call, width <= 16);
        if (i > 0 && tile->partition != tile[-1].partition)
            skip_to_byte(call); /* another bit field array */
        tile->nbytes = least + take_bits(call, width);
        require(call, tile->nbytes <= most);
    }
    skip_to_byte(call);
}

/* Decodes the tiles of a partition, which `bytes` holds one after another. */
static void
decode_partition(struct call *call, const struct tiles *tiles, uint64_t first,
                 uint64_t end, const uint8_t *bytes)
{
    for (uint64_t i = first; i < end; i++) {
        const struct tile *tile = &tiles->tile[i];
        const struct input outer = enter(call, bytes, tile->nbytes);
        if (tiles->coding == CODING_RATIO)
            decode_tokens(call, tile);
        else
            decode_symbols(call, tile);
        leave(call, outer);
        bytes += tile->nbytes;
    }
}

/* Decodes the payload, which is all that is left. */
static void
decode_payload(struct call *call, const struct tiles *tiles)
{
    uint64_t first = 0; /* tile of the partition */
    uint64_t begin = 0; /* of the partition in the payload */
    for (uint64_t p = 0; p < tiles->npartitions; p++) {
        uint64_t end = first, nbytes = 0; /* of its tiles together */
        while (end < tiles->ntiles && tiles->tile[end].partition == p) {
            nbytes += tiles->tile[end].nbytes;
            end++;
        }
        uint64_t stored_nbytes = nbytes_left(call);
        if (p + 1 < tiles->npartitions) {
            require(call, tiles->offset[p] >= begin);
            stored_nbytes = tiles->offset[p] - begin;
        }
        const uint8_t *stored = take(call, stored_nbytes);
        const bool is_reduced = tiles->control[p] >> 7;
        const struct input outer = enter(call, stored, stored_nbytes);
        const uint8_t *bytes =
            is_reduced ? take_stages(call, nbytes) : take(call, nbytes);
        leave(call, outer);
        decode_partition(call, tiles, first, end, bytes);
        first = end;
        begin += stored_nbytes;
    }
}

/* Decodes tiles, which are all bytes that are left. Returns their codes in tile
 * order or context order. */
static int32_t *
decode_tiles(struct call *call, uint64_t coding, uint64_t ncodes)
{
    struct tiles tiles = {.coding = coding};
    int32_t *code = reserve(call, ncodes, sizeof *code);
    take_tile_map(call, &tiles, code, ncodes);
    if (tiles.ntiles > 0) {
        take_codebooks(call, &tiles);
        take_index(call, &tiles);
        decode_payload(call, &tiles);
    }
    return code;
}

/* ------------------------------------------------------------------------- *
 * "Spline"
 * ------------------------------------------------------------------------- */

/* An odd dimension of a point, along which even points are around it. */
struct line {
    uint64_t pitch; /* from the point to the even points before and behind it */
    uint64_t i;     /* the even points before it, less one */
    uint64_t e;     /* the even points of the line */
};

/* The even points at i-3 to i+4 on a line, named by the letters in
 * doc/format.md. Points beyond the ends of the line are 0. */
struct neighbours {
    double z, y, a, b, c, d, u, v;
};

static bool
has_point_above(const struct line *line)
{
    return line->i + 1 < line->e;
}

/* The sum of the points around p that differ by one lattice step along each
 * line of a set. Bit 0 of the set is line[0]. */
static double
sum_around(const struct stream *s, uint64_t p, const struct line *line,
           unsigned set)
{
    if (set == 0)
        return value_at(s, p);
    if (set % 2 == 0)
        return sum_around(s, p, line + 1, set / 2);
    const double before = sum_around(s, p - line->pitch, line + 1, set / 2);
    const double behind = sum_around(s, p + line->pitch, line + 1, set / 2);
    return fl(s, before + behind);
}

/* F, E or C of "Blending": the sum over all sets of `size` of n lines. */
static double
sum_of_sets(const struct stream *s, uint64_t p, const struct line *line, int n,
            int size)
{
    static const int size_of_set[] = {0, 1, 1, 2, 1, 2, 2, 3};
    double sum = -0.0; /* -0.0 + x is x, whatever the sign of a zero x */
    for (unsigned set = 1; set < 1u << n; set++)
        if (size_of_set[set] == size)
            sum = fl(s, sum + sum_around(s, p, line, set));
    return sum;
}

/* The boolean sum of what linear interpolants predict along 1 to 3 lines. */
static double
boolean_sum(const struct stream *s, uint64_t p, const struct line *line, int n)
{
    double sum = fl(s, 0.5 * sum_of_sets(s, p, line, n, 1));
    if (n > 1)
        sum = fl(s, sum - fl(s, 0.25 * sum_of_sets(s, p, line, n, 2)));
    if (n > 2)
        sum = fl(s, sum + fl(s, 0.125 * sum_of_sets(s, p, line, n, 3)));
    return sum;
}

/* The mean of the boolean sums of each two of three lines. */
static double
boolean_sum_of_pairs(const struct stream *s, uint64_t p,
                     const struct line *line)
{
    const double third = fl(s, 1. / 3), twelfth = fl(s, 1. / 12);
    const double f = fl(s, third * sum_of_sets(s, p, line, 3, 1));
    const double e = fl(s, twelfth * sum_of_sets(s, p, line, 3, 2));
    return fl(s, f - e);
}

/* The even points on the last of n lines, each less what linear interpolants
 * along the other lines predict of it: G of "Blending by a long spline". With
 * one line, the points themselves. */
static struct neighbours
find_neighbours(const struct stream *s, uint64_t p, const struct line *line,
                int n)
{
    const struct line *along = &line[n - 1];
    double value[8] = {0};
    for (uint64_t k = 0; k < 8; k++) {
        if (along->i + k < 3 || along->i + k - 3 >= along->e)
            continue;
        const uint64_t at = p + along->pitch * (2 * k - 7);
        value[k] = value_at(s, at);
        if (n > 1)
            value[k] = fl(s, value[k] - boolean_sum(s, at, line, n - 1));
    }
    const struct neighbours result = {value[0], value[1], value[2], value[3],
                                      value[4], value[5], value[6], value[7]};
    return result;
}

/* The stencil of the prediction along a line: a row of the table in "Spline".
 */
static uint64_t
stencil_of(const struct line *line, uint64_t spline)
{
    const bool has_a = line->i > 0;
    if (!has_point_above(line))
        return has_a ? EXTRAPOLATE : COPY;
    const uint64_t below = line->i, above = line->e - line->i - 2;
    const uint64_t reach = least_of(below, above);
    const bool has_y_and_u = reach >= 2, has_z_and_v = reach >= 3;
    if (spline == LINEAR || (below == 0 && above == 0))
        return LINEAR;
    if (spline == MEAN)
        return has_z_and_v ? MEAN : LINEAR;
    if (reach == 0)
        return QUADRATIC;
    if (spline == LONG)
        return has_z_and_v ? LONG : has_y_and_u ? SIX : CUBIC;
    return spline;
}

static int
order_of(uint64_t stencil)
{
    switch (stencil) {
    case COPY:
        return 0;
    case EXTRAPOLATE:
        return 1;
    case LINEAR:
        return 2;
    case QUADRATIC:
        return 3;
    default:
        return 4;
    }
}

/* The prediction of a stencil. */
static double
interpolate(const struct stream *s, const struct line *line, uint64_t stencil,
            const struct neighbours *at)
{
    const double a = at->a, b = at->b, c = at->c, d = at->d;
    const double bc = fl(s, b + c), ad = fl(s, a + d);
    const double yu = fl(s, at->y + at->u), zv = fl(s, at->z + at->v);
    double inner, outer;
    switch (stencil) {
    case COPY:
        return b;
    case EXTRAPOLATE:
        return fl(s, fl(s, 1.5 * b) - fl(s, 0.5 * a));
    case LINEAR:
        return fl(s, bc * 0.5);
    case QUADRATIC:
        if (line->i > 0) /* a exists, not d */
            inner = fl(s, fl(s, fl(s, 6 * b) + fl(s, 3 * c)) - a);
        else
            inner = fl(s, fl(s, fl(s, 3 * b) + fl(s, 6 * c)) - d);
        return fl(s, inner * 0.125);
    case CUBIC:
        return fl(s, fl(s, fl(s, 9 * bc) - ad) * 0.0625);
    case NATURAL:
        inner = fl(s, fl(s, 23 * bc) - fl(s, 3 * ad));
        return fl(s, inner * fl(s, 1. / 40));
    case SIX:
        inner = fl(s, fl(s, 150 * bc) - fl(s, 25 * ad));
        outer = fl(s, 3 * yu);
        return fl(s, fl(s, inner + outer) * 0x1p-8);
    case LONG: /* "eight" */
        inner = fl(s, fl(s, 1225 * bc) - fl(s, 245 * ad));
        outer = fl(s, fl(s, 49 * yu) - fl(s, 5 * zv));
        return fl(s, fl(s, inner + outer) * 0x1p-11);
    default: /* MEAN */
        inner = fl(s, bc + ad);
        outer = fl(s, yu + zv);
        return fl(s, fl(s, inner + outer) * 0.125);
    }
}

/* Finds the lines of a point along its odd dimensions of the highest priority,
 * slowest first. Returns how many there are. */
static int
find_lines(const struct stream *s, uint64_t p, uint64_t level,
           struct line lines[4])
{
    const uint64_t stride = two_to(level - 1);
    const uint64_t priorities = s->model.plan[level].priorities;
    uint64_t highest = 0;
    int n = 0;
    for (uint64_t d = 4; d-- > 0;) {
        const uint64_t x = coordinate(s, p, d);
        const uint64_t priority = priorities >> 2 * d & 3;
        const bool is_odd = (x & stride) != 0;
        if (!is_odd || priority < highest)
            continue;
        if (priority > highest)
            n = 0;
        highest = priority;
        lines[n].pitch = stride * s->domain.pitch[d];
        lines[n].i = x / stride / 2;
        lines[n].e = divided_up(s->domain.extent[d], 2 * stride);
        n++;
    }
    return n;
}

/* The mean of the predictions of the highest order along n lines. */
static double
average(const struct stream *s, uint64_t p, const struct line *lines, int n,
        uint64_t spline)
{
    double sum = 0;
    int count = 0, highest = -1;
    for (int k = 0; k < n; k++) {
        const uint64_t stencil = stencil_of(&lines[k], spline);
        const int order = order_of(stencil);
        if (order < highest)
            continue;
        const struct neighbours at = find_neighbours(s, p, &lines[k], 1);
        const double prediction = interpolate(s, &lines[k], stencil, &at);
        if (order > highest) {
            highest = order;
            sum = prediction;
            count = 1;
        } else {
            sum = fl(s, sum + prediction);
            count++;
        }
    }
    return count > 1 ? fl(s, sum * fl(s, 1. / count)) : sum;
}

/* Predicts a point that a level adds. */
static double
predict(const struct stream *s, uint64_t p, uint64_t level)
{
    const struct level_plan *plan = &s->model.plan[level];
    const bool blends_all = plan->priorities == BLENDS_ALL;
    const bool blends_pairs =
        plan->priorities == BLENDS_PAIRS && plan->spline != MEAN;
    struct line lines[4];
    const int n = find_lines(s, p, level, lines);
    int nabove = 0; /* lines that have the point above, but for the fastest */
    for (int k = 0; k < n - 1; k++)
        nabove += has_point_above(&lines[k]);
    const bool is_blended =
        (blends_all || blends_pairs) && (n == 2 || n == 3) && nabove == n - 1;
    const struct line *fastest = &lines[n - 1];
    if (is_blended && blends_all && plan->spline == LONG) {
        const struct neighbours at = find_neighbours(s, p, lines, n);
        const uint64_t stencil = stencil_of(fastest, LONG);
        return fl(s, interpolate(s, fastest, stencil, &at) +
                         boolean_sum(s, p, lines, n - 1));
    }
    if (is_blended && has_point_above(fastest)) {
        if (blends_pairs && n == 3)
            return boolean_sum_of_pairs(s, p, lines);
        return boolean_sum(s, p, lines, n);
    }
    return average(s, p, lines, n, plan->spline);
}

/* ------------------------------------------------------------------------- *
 * Orders: "Level order", "Tile order" and "Context order"
 * ------------------------------------------------------------------------- */

#define NCONTEXTS 9 /* 0 to 7, and that of special points */
#define SPECIAL_CONTEXT 8

/* The coordinates of the nth point of a box, in C order. Dimension 0 is the
 * fastest. */
static void
find_coordinates(uint64_t nth, const uint64_t size[4], uint64_t x[4])
{
    for (int d = 0; d < 4; d++) {
        x[d] = nth % size[d];
        nth /= size[d];
    }
}

/* The points of a class in a brick: count[d] along each dimension, `stride`
 * apart from first[d] on. */
struct lattice {
    uint64_t stride, first[4], count[4];
};

/* Lists the points of a lattice box by box. Returns their number. */
static uint64_t
list_lattice(const struct domain *domain, const struct lattice *lattice,
             uint64_t edge, uint64_t brick, uint64_t *list)
{
    uint64_t nboxes[4], nall_boxes = 1, n = 0;
    for (int d = 0; d < 4; d++) {
        nboxes[d] = divided_up(lattice->count[d], edge);
        nall_boxes *= nboxes[d];
    }
    for (uint64_t box = 0; box < nall_boxes; box++) {
        uint64_t box_at[4], size[4], npoints = 1;
        find_coordinates(box, nboxes, box_at);
        for (int d = 0; d < 4; d++) {
            box_at[d] *= edge;
            size[d] = least_of(lattice->count[d] - box_at[d], edge);
            npoints *= size[d];
        }
        for (uint64_t i = 0; i < npoints; i++) {
            uint64_t x[4], point = brick * domain->pitch[4];
            find_coordinates(i, size, x);
            for (int d = 0; d < 4; d++)
                point +=
                    domain->pitch[d] *
                    (lattice->first[d] + lattice->stride * (box_at[d] + x[d]));
            list[n] = point;
            n++;
        }
    }
    return n;
}

/* Lists the points that a level adds: class by class, brick by brick, in boxes
 * of `edge` points along each dimension. The level above the highest one adds
 * the anchors, which are all points where there are no levels. Returns the
 * number of points. */
static uint64_t
list_level(const struct stream *s, uint64_t level, uint64_t edge,
           uint64_t *list)
{
    static const int classes[] = {1,  2,  4, 8,  3,  5,  6, 9,
                                  10, 12, 7, 11, 13, 14, 15};
    static const int nclasses = sizeof classes / sizeof classes[0];
    const bool are_anchors = level > s->nlevels;
    const uint64_t stride = two_to(are_anchors ? s->nlevels : level);
    uint64_t n = 0;
    for (int k = 0; k < (are_anchors ? 1 : nclasses); k++) {
        const int odd_dimensions = are_anchors ? 0 : classes[k];
        struct lattice lattice = {.stride = stride};
        for (int d = 0; d < 4; d++) {
            const uint64_t extent = s->domain.extent[d];
            const uint64_t first = odd_dimensions >> d & 1 ? stride / 2 : 0;
            lattice.first[d] = first;
            if (extent > first)
                lattice.count[d] = divided_up(extent - first, stride);
        }
        for (uint64_t brick = 0; brick < s->domain.nbricks; brick++)
            n += list_lattice(&s->domain, &lattice, edge, brick, list + n);
    }
    return n;
}

/* The sum of the weights of a point's corners, along dimensions from d on.
 * Each even dimension doubles the sum. So the sum from dimension 0 on is t, the
 * sum of the corners' weights times 2^(4-n). */
static uint64_t
weigh_corners(const struct stream *s, const uint8_t *weight, uint64_t point,
              uint64_t stride, uint64_t d)
{
    if (d == 4)
        return weight[point];
    const uint64_t x = coordinate(s, point, d);
    const uint64_t far = stride * s->domain.pitch[d];
    if ((x & stride) == 0)
        return 2 * weigh_corners(s, weight, point, stride, d + 1);
    const uint64_t before = point - far;
    const uint64_t behind =
        x + stride < s->domain.extent[d] ? point + far : before;
    return weigh_corners(s, weight, before, stride, d + 1) +
           weigh_corners(s, weight, behind, stride, d + 1);
}

static uint8_t
context_of(const struct stream *s, const uint8_t *weight, uint64_t point,
           uint64_t level)
{
    if (is_special(s, point))
        return SPECIAL_CONTEXT;
    const uint64_t t = weigh_corners(s, weight, point, two_to(level - 1), 0);
    if (t < 8)
        return t > 0;
    return (uint8_t)least_of(nbits_of(t) - 2, 7);
}

/* The weight of a point that is a corner of a point in the next finer level.
 * Without wide codes an escape weighs 252, as the code -512 in doc/format.md
 * does. */
static uint8_t
weight_of(const struct stream *s, int32_t code)
{
    uint64_t weight = 4 * (uint64_t)abs(code);
    if (s->model.wide > 0) {
        const uint64_t u = s->model.wide - 1;
        weight = (uint64_t)sqrt((double)(weight >> u));
    }
    return (uint8_t)least_of(weight, 252);
}

/* Gives the n listed points of a level their codes, context by context.
 * Returns the first code that is left. */
static const int32_t *
place_codes(struct stream *s, const uint64_t *list, uint64_t n,
            const uint8_t *context, const int32_t *code)
{
    for (int c = 0; c < NCONTEXTS; c++)
        for (uint64_t i = 0; i < n; i++)
            if (context[i] == c) {
                s->code[list[i]] = *code;
                code++;
            }
    return code;
}

/* Predicts the n listed points of a level of spline, and adds their codes.
 * `*anchor` is the value that predicts the next anchor. */
static void
reconstruct_level(struct stream *s, uint64_t level, const uint64_t *list,
                  uint64_t n, double *anchor)
{
    const double step = s->model.plan[level].step;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t p = list[i];
        const bool is_anchor = level > s->nlevels;
        const double prediction = is_anchor ? *anchor : predict(s, p, level);
        if (s->code[p] == ESCAPE) {
            s->word[p] = next_escape(s);
        } else {
            const double distance = fl(s, s->code[p] * step);
            s->word[p] = word_of(s->width, fl(s, prediction + distance));
        }
        if (is_anchor)
            *anchor = value_at(s, p);
    }
}

/* Gives points their codes, which come in tile order or context order, and a
 * spline's points their values, in level order. */
static void
decode_levels(struct stream *s, const int32_t *code)
{
    static const uint64_t edges[] = {TILE_NSYMBOLS, 64, 16, 8}; /* by rank */
    struct call *call = s->call;
    const uint64_t nvalues = s->domain.nvalues;
    const uint64_t edge = edges[s->domain.rank - 1];
    uint64_t *list = reserve(call, nvalues, sizeof *list);
    uint8_t *weight = reserve(call, nvalues, 1);  /* of each point */
    uint8_t *context = reserve(call, nvalues, 1); /* of each listed point */
    double anchor = s->model.reference;
    for (uint64_t level = s->nlevels + 1; level > 0; level--) {
        uint64_t n = list_level(s, level, edge, list);
        const bool has_contexts =
            s->coding == CODING_RATIO && level <= s->nlevels && level <= 3;
        for (uint64_t i = 0; has_contexts && i < n; i++)
            context[i] = context_of(s, weight, list[i], level);
        code = place_codes(s, list, n, context, code);
        for (uint64_t i = 0; i < nvalues; i++)
            weight[i] /= 2;
        for (uint64_t i = 0; i < n; i++)
            weight[list[i]] = weight_of(s, s->code[list[i]]);
        if (s->prediction == SPLINE) {
            n = list_level(s, level, UINT64_MAX, list);
            reconstruct_level(s, level, list, n, &anchor);
        }
    }
}

/* ------------------------------------------------------------------------- *
 * "Lorenzo" and "Lossless"
 * ------------------------------------------------------------------------- */

/* Puts the differences of all points, in C order, into s->word. */
static void
find_differences(struct stream *s)
{
    const struct shifts *shifts = &s->shifts;
    uint64_t nth = 0; /* of the points that are not special */
    for (uint64_t i = 0; i < s->domain.nvalues; i++) {
        uint64_t difference = (uint64_t)(int64_t)s->code[i];
        if (s->model.has_tails) {
            difference <<= s->model.tail_nbits;
            difference += unfolded(s->tail[i]);
        }
        if (s->prediction == LOSSLESS && !is_special(s, i)) {
            const uint64_t group = nth / GROUP_NVALUES;
            const uint64_t unit = two_to(shifts->shift[group]);
            difference = difference * unit + shifts->number[nth] - unit / 2;
            difference <<= shifts->zeros[group];
            nth++;
        }
        s->word[i] = s->code[i] == ESCAPE ? next_escape(s) : difference;
    }
}

/* floor(a / b), b being positive. */
static int64_t
floor_divided(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* "Means", one h: adds to each odd multiple of h, along the slowest dimension,
 * the mean of the integers 1, 3, 5 and 7 h away. */
static void
add_means(struct stream *s, uint64_t h)
{
    const uint64_t pitch = s->domain.pitch[s->domain.slowest];
    const uint64_t n = s->domain.extent[s->domain.slowest];
    for (uint64_t p = 0; p < s->domain.nvalues; p++) {
        const uint64_t i = coordinate(s, p, s->domain.slowest);
        if (i % (2 * h) != h)
            continue;
        uint64_t word = 0;
        int64_t count = 0;
        for (uint64_t far = h; far <= 7 * h; far += 2 * h) {
            if (far <= i) {
                word += s->word[p - far * pitch];
                count++;
            }
            if (far < n - i) {
                word += s->word[p + far * pitch];
                count++;
            }
        }
        /* The mean is floor((sum + count / 2) / count). The sum is divided
         * first, since sum + count / 2 may need more than 64 bits. */
        const int64_t sum = signed_of(word, s->width);
        const int64_t rest = sum % count + count / 2;
        s->word[p] += (uint64_t)(sum / count + floor_divided(rest, count));
    }
}

/* Sums along dimension d of each brick, from coordinate `from` on. */
static void
sum_along(struct stream *s, uint64_t d, uint64_t from)
{
    for (uint64_t p = 0; p < s->domain.nvalues; p++) {
        if (is_special(s, p))
            s->word[p] = 0;
        if (coordinate(s, p, d) >= from)
            s->word[p] += s->word[p - s->domain.pitch[d]];
    }
}

/* Makes integers of differences. */
static void
sum_differences(struct stream *s)
{
    const struct model *model = &s->model;
    if (model->has_means) {
        uint64_t h = 1; /* the largest power of two below n */
        while (2 * h < s->domain.extent[s->domain.slowest])
            h *= 2;
        for (; h > 0; h /= 2)
            add_means(s, h);
    }
    for (uint64_t d = 0; d < 4; d++) {
        if (model->twice >> d & 1)
            sum_along(s, d, 2);
        if (model->mask >> d & 1)
            sum_along(s, d, 1);
    }
}

/* W(a): the word of the least magnitude that the magnitude a of an integer
 * stands for. F is the word of N S. */
static uint64_t
exact_word(const struct stream *s, uint64_t a)
{
    const struct exact *exact = &s->model.exact;
    const uint64_t nsteps = least_of(a, exact->limit);
    const double value = fl(s, (double)nsteps * exact->unit);
    return word_of(s->width, value) + ((a - nsteps) << exact->zeros);
}

/* The word of the value that an integer stands for, but for its remainder. */
static uint64_t
word_of_integer(const struct stream *s, uint64_t q, uint64_t magnitude)
{
    const struct exact *exact = &s->model.exact;
    const uint64_t sign = two_to(s->width - 1);
    if (!exact->is_set)
        return word_of(s->width, steps(s, q, s->model.step));
    if (s->model.form == MAGNITUDES) {
        const uint64_t first = word_of(s->width, exact->unit);
        const uint64_t sign_bit = (q & 1) << (s->width - 1);
        return ((q / 2 + first) & (sign - 1)) | sign_bit;
    }
    return exact_word(s, magnitude) | (q & sign);
}

/* The remainder of an integer, which is added to its word. */
static uint64_t
take_remainder(const struct stream *s, uint64_t magnitude)
{
    struct call *call = s->call;
    const uint64_t zeros = s->model.exact.zeros;
    uint64_t sign = 0;
    if (magnitude >= s->model.exact.limit)
        return 0;
    const uint64_t nwords =
        exact_word(s, magnitude + 1) - exact_word(s, magnitude);
    if (magnitude == 0)
        sign = take_bits(call, 1) << (s->width - 1);
    return sign + (take_bits(call, nbits_of((nwords - 1) >> zeros)) << zeros);
}

/* Makes words of values of codes, tails, shifts and remainders. */
static void
decode_integers(struct stream *s)
{
    struct call *call = s->call;
    const uint64_t sign = two_to(s->width - 1), all = ones(s->width);
    const bool has_remainders = s->model.form == STEPS_WITH_REMAINDERS;
    find_differences(s);
    sum_differences(s);
    const struct input outer = enter(call, s->remainders, s->remainders_nbytes);
    for (uint64_t i = 0; i < s->domain.nvalues; i++) {
        const uint64_t q = (s->word[i] + s->model.center) & all;
        const uint64_t magnitude = (q & sign ? 0 - q : q) & all;
        uint64_t word = word_of_integer(s, q, magnitude);
        if (i % TILE_NSYMBOLS == 0)
            skip_to_byte(call);
        if (has_remainders && !is_special(s, i))
            word += take_remainder(s, magnitude);
        s->word[i] = word & all;
    }
    leave(call, outer);
}

/* ------------------------------------------------------------------------- *
 * Coded and constant streams: their sections, one after another
 * ------------------------------------------------------------------------- */

static void
take_constant(struct stream *s)
{
    const uint64_t constant = take_number(s->call, s->width / 8);
    for (uint64_t i = 0; i < s->domain.nvalues; i++)
        s->word[i] = constant;
}

/* Takes all sections up to tiles, and decodes the codes and what follows from
 * them level by level. */
static void
decode_sections(struct stream *s)
{
    struct call *call = s->call;
    const uint64_t nvalues = s->domain.nvalues;
    s->specials.mark = reserve(call, nvalues, sizeof *s->specials.mark);
    s->is_negative = reserve(call, nvalues, sizeof *s->is_negative);
    s->code = reserve(call, nvalues, sizeof *s->code);
    s->word = reserve(call, nvalues, sizeof *s->word);
    take_carrier(s);
    if (s->coding == CODING_CONSTANT) {
        take_constant(s);
        if (s->flags & HAS_SPECIALS)
            take_specials(s);
        return;
    }
    if (s->flags & IS_POINTWISE)
        take_pointwise(s);
    take_model(s);
    if (s->flags & HAS_SPECIALS)
        take_specials(s);
    if (s->pointwise.signs == ALL_NEGATIVE)
        memset(s->is_negative, 1, (size_t)nvalues);
    if (s->pointwise.signs == MIXED_SIGNS)
        take_signs(s);
    if (s->model.has_tails)
        take_tails(s);
    if (s->prediction == LOSSLESS)
        take_shifts(s);
    if (s->model.form == STEPS_WITH_REMAINDERS)
        take_remainders(s);
    take_escapes(s);
    const struct low_bits *low_bits = take_low_bits(s);
    int32_t *code = decode_tiles(call, s->coding, nvalues);
    for (uint64_t i = 0; i * TILE_NSYMBOLS < nvalues; i++)
        add_low_bits(call, &low_bits[i], code + i * TILE_NSYMBOLS);
    decode_levels(s, code);
}

/* Makes values of numbers of T: first those that logarithms stand for, then
 * those that are carried. In the end special values replace others. */
static void
finish_values(struct stream *s)
{
    const struct specials *specials = &s->specials;
    uint64_t nth_special = 0;
    for (uint64_t i = 0; i < s->domain.nvalues; i++) {
        if (is_special(s, i)) {
            const uint64_t color = (uint64_t)specials->mark[i] - 1;
            s->word[i] =
                specials->value[specials->ncolors > 0 ? color : nth_special];
            nth_special++;
            continue;
        }
        if (s->pointwise.form > 0)
            s->word[i] = pointwise_value(s, value_at(s, i), s->is_negative[i]);
        if (s->chunk.type > TYPE_BYTES)
            s->word[i] = carried_value(s, s->word[i]);
    }
}

static uint64_t *
decode_coded(struct stream *s)
{
    decode_sections(s);
    if (s->prediction == LORENZO || s->prediction == LOSSLESS)
        decode_integers(s);
    require(s->call, s->escapes.nused == s->escapes.n);
    finish_values(s);
    return s->word;
}

/* ------------------------------------------------------------------------- *
 * "Speed"
 * ------------------------------------------------------------------------- */

/* The array that tiles cut. */
struct grid {
    uint64_t x, y, z, nvolumes; /* "Grid" */
    uint64_t tiles_x, tiles_y, tiles_z, ntiles;
};

/* The index of the value at a place of a tile; NONE where there is none. A
 * place is 16 times its group plus its row; a group is 64 times its slab plus
 * its column. */
#define NONE UINT64_MAX
#define SPEED_NPLACES 4096
#define SPEED_NGROUPS 256

struct speed_tile {
    const struct grid *grid;
    uint64_t number;
    uint64_t nslabs, ncolumns; /* that widths count, of 8 columns at a time */
    uint64_t nbits;            /* of its integers */
    uint64_t width[SPEED_NGROUPS];
    uint64_t integer[SPEED_NPLACES]; /* at each place */
};

static void
make_grid(const struct terp_reader_chunk *chunk, struct grid *grid)
{
    const uint64_t stacked = chunk->stack || chunk->rank == 4;
    uint64_t n[4] = {1, 1, 1, 1};
    for (uint64_t i = stacked; i < chunk->rank; i++)
        n[chunk->rank - 1 - i] = chunk->dims[i];
    if (stacked)
        n[3] = chunk->dims[0];
    while (n[0] < 32 && n[1] * n[2] * n[3] > 1) {
        n[0] *= n[1];
        n[1] = n[2];
        n[2] = n[3];
        n[3] = 1;
    }
    while (n[1] < 8 && n[2] * n[3] > 1) {
        n[1] *= n[2];
        n[2] = n[3];
        n[3] = 1;
    }
    if (n[2] < 4) {
        n[2] *= n[3];
        n[3] = 1;
    }
    grid->x = n[0];
    grid->y = n[1];
    grid->z = n[2];
    grid->nvolumes = n[3];
    const bool is_flat = n[2] * n[3] == 1;
    grid->tiles_x =
        divided_up(grid->x, is_flat && grid->y == 1 ? SPEED_NPLACES : 64);
    grid->tiles_y = divided_up(grid->y, is_flat ? 64 : 16);
    grid->tiles_z = divided_up(grid->z, 4);
    grid->ntiles =
        grid->tiles_x * grid->tiles_y * grid->tiles_z * grid->nvolumes;
}

static bool
is_flat(const struct grid *grid)
{
    return grid->z * grid->nvolumes == 1;
}

static bool
is_line(const struct grid *grid)
{
    return is_flat(grid) && grid->y == 1;
}

static uint64_t
value_of_place(const struct speed_tile *tile, uint64_t place)
{
    const struct grid *grid = tile->grid;
    const uint64_t slab = place / 1024, column = place / 16 % 64,
                   row = place % 16;
    if (is_line(grid)) {
        const uint64_t i =
            tile->number * SPEED_NPLACES + slab * 1024 + row * 64 + column;
        return i < grid->x ? i : NONE;
    }
    uint64_t number = tile->number;
    const uint64_t x = number % grid->tiles_x * 64 + column;
    number /= grid->tiles_x;
    uint64_t y = number % grid->tiles_y * 16 + row, z = 0;
    if (is_flat(grid))
        y = number % grid->tiles_y * 64 + slab * 16 + row;
    number /= grid->tiles_y;
    if (!is_flat(grid))
        z = number % grid->tiles_z * 4 + slab;
    const uint64_t volume = number / grid->tiles_z;
    if (x >= grid->x || y >= grid->y || z >= grid->z)
        return NONE;
    return ((volume * grid->z + z) * grid->y + y) * grid->x + x;
}

/* Slabs and columns whose widths a tile has. */
static void
measure_tile(struct speed_tile *tile)
{
    tile->nslabs = tile->ncolumns = 0;
    for (uint64_t place = 0; place < SPEED_NPLACES; place++) {
        if (value_of_place(tile, place) == NONE)
            continue;
        tile->nslabs = most_of(tile->nslabs, place / 1024 + 1);
        tile->ncolumns = most_of(tile->ncolumns, place / 16 % 64 + 1);
    }
    tile->ncolumns = divided_up(tile->ncolumns, 8) * 8;
}

/* The checksum of a speed stream, whose tiles are found by the index. */
static uint64_t
speed_sum(const uint8_t *at, uint64_t nbytes, uint64_t seed)
{
    uint64_t sum = 0, key = seed;
    for (uint64_t i = 0; i < nbytes; i += 8) {
        const uint64_t word = load(at + i, 8);
        key += 0x9e3779b97f4a7c15;
        const uint64_t x = word + key;
        sum += (x & 0xffffffff) * (x >> 32) + (word << 32 | word >> 32);
    }
    return sum;
}

static uint64_t
speed_share(uint64_t sum, uint64_t place, uint64_t number)
{
    uint64_t h = sum + place * prime64_2;
    h = (h ^ h >> 33) * prime64_2;
    h = (h ^ h >> 29) * prime64_3;
    return (h ^ h >> 32) * (2 * number + 1);
}

/* What a speed stream's body holds. */
struct speed {
    bool has_steps;
    uint64_t step; /* bits of a float64, or an integer */
    struct grid grid;
    const uint8_t *index; /* places of tiles, in units of 8 bytes */
    const uint8_t *tiles;
    uint64_t nunits; /* of tiles */
};

static uint64_t
speed_place(const struct speed *speed, uint64_t tile)
{
    return tile == speed->grid.ntiles ? speed->nunits
                                      : load(speed->index + 4 * tile, 4);
}

static void
take_zeros(struct call *call, uint64_t nbytes)
{
    for (uint64_t i = 0; i < nbytes; i++)
        take_in_range(call, 1, 0, 0);
}

/* Takes a body to its end. `frame_nbytes`: of a stream that is no inner one. */
static void
take_speed(struct stream *s, uint64_t frame_nbytes, struct speed *speed)
{
    struct call *call = s->call;
    memset(speed, 0, sizeof *speed);
    speed->has_steps = take_in_range(call, 1, 0, 1);
    take_zeros(call, 7 - frame_nbytes % 8);
    if (speed->has_steps)
        speed->step = take_number(call, 8);
    if (speed->has_steps && is_integer(s->chunk.type))
        require(call, speed->step > 0);
    if (speed->has_steps && !is_integer(s->chunk.type)) {
        const double step = value_of(64, speed->step);
        require(call, step > 0 && step < INFINITY);
        if (s->chunk.value_nbytes < 8)
            require(call, step >= 0x1p-126 && step <= 0x1p127 &&
                              rounded(32, step) == step);
    }
    make_grid(&s->chunk, &speed->grid);
    const uint64_t ntiles = speed->grid.ntiles;
    require(call, ntiles <= nbytes_left(call) / 12);
    speed->index = take(call, 4 * ntiles);
    take_zeros(call, ntiles % 2 * 4);
    require(call, nbytes_left(call) % 8 == 0);
    speed->nunits = nbytes_left(call) / 8;
    speed->tiles = take(call, nbytes_left(call));
    require(call, speed_place(speed, 0) == 0);
    for (uint64_t i = 0; i < ntiles; i++)
        require(call, speed_place(speed, i) < speed_place(speed, i + 1));
}

/* The frame of a stream that is no inner one has dims in the fewest bytes. */
static uint64_t
speed_frame_nbytes(const struct terp_reader_chunk *chunk)
{
    uint64_t most = 0;
    for (uint64_t i = 0; i < chunk->rank; i++)
        most = most_of(most, chunk->dims[i]);
    const uint64_t dim_nbytes = most >= two_to(32)   ? 8
                                : most >= two_to(16) ? 4
                                : most >= two_to(8)  ? 2
                                                     : 1;
    return 16 + chunk->rank * dim_nbytes + (chunk->type > TYPE_BYTES) + 8;
}

static void
check_speed(struct stream *s, const uint8_t *stream)
{
    struct call *call = s->call;
    struct speed speed;
    const uint64_t seed = load(stream, 8);
    const struct input body = call->in;
    take_speed(s, (uint64_t)(body.at - stream), &speed);
    uint64_t sum = speed_share(
        speed_sum(stream + 16, (uint64_t)(speed.index - stream) - 16, seed), 0,
        speed.grid.ntiles);
    for (uint64_t i = 0; i < speed.grid.ntiles; i++) {
        const uint64_t place = speed_place(&speed, i);
        const uint64_t nunits = speed_place(&speed, i + 1) - place;
        sum += speed_share(speed_sum(speed.tiles + 8 * place, 8 * nunits, seed),
                           place, i);
    }
    require(call, load(stream + 8, 8) == sum);
    call->in = body;
}

/* Numbers of the groups, unfolded into differences. */
static void
take_differences(struct stream *s, struct speed_tile *tile)
{
    struct call *call = s->call;
    for (uint64_t group = 0; group < SPEED_NGROUPS; group++)
        for (uint64_t row = 0; row < 16; row++)
            tile->integer[16 * group + row] =
                unfolded(take_bits(call, tile->width[group]));
}

static void
take_speed_widths(struct stream *s, struct speed_tile *tile, uint64_t form)
{
    struct call *call = s->call;
    const uint64_t n = tile->nslabs * tile->ncolumns;
    memset(tile->width, 0, sizeof tile->width);
    if (form == 0)
        return;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t group = i / tile->ncolumns * 64 + i % tile->ncolumns;
        const uint64_t width = take_bits(call, form == 1 ? 4 : 8);
        require(call, width <= tile->nbits);
        bool is_used = false;
        for (uint64_t row = 0; row < 16; row++)
            is_used |= value_of_place(tile, 16 * group + row) != NONE;
        require(call, is_used || width == 0);
        tile->width[group] = width;
    }
}

/* Makes integers of differences: sums along rows, columns and slabs. */
static void
sum_tile(struct speed_tile *tile, uint64_t base)
{
    uint64_t *integer = tile->integer;
    const bool in_line = is_line(tile->grid), in_plane = is_flat(tile->grid);
    integer[0] += base;
    for (uint64_t place = 1; place < SPEED_NPLACES; place++) {
        const uint64_t column = place / 16 % 64;
        if (in_line && column > 0)
            continue;
        if (place % 16 > 0)
            integer[place] += integer[place - 1];
        else if (in_plane && place >= 1024)
            integer[place] += integer[place - 1024 + 15];
    }
    for (uint64_t place = 0; place < SPEED_NPLACES; place++)
        if (place / 16 % 64 > 0)
            integer[place] += integer[place - 16];
    for (uint64_t place = 1024; place < SPEED_NPLACES && !in_plane; place++)
        integer[place] += integer[place - 1024];
}

/* The value of an integer: bits, or that many steps. */
static uint64_t
speed_value(const struct stream *s, const struct speed *speed, bool is_exact,
            uint64_t level, uint64_t integer)
{
    static const double factor[] = {1, 1 - 0x1p-5, 1 - 0x1p-2, 0.5};
    const uint64_t nbits = 8 * s->chunk.value_nbytes;
    const uint64_t width = nbits == 64 ? 64 : 32, type = s->chunk.type;
    const uint64_t sign = two_to(nbits - 1);
    if (!speed->has_steps || is_exact) {
        integer &= ones(nbits);
        return is_integer(type) ? integer
               : integer & sign ? integer ^ sign
                                : integer ^ ones(nbits);
    }
    const int64_t q = signed_of(integer, width);
    if (is_integer(type)) {
        const uint64_t product = (uint64_t)q * speed->step;
        int64_t value = (int64_t)product;
        if (nbits == 64)
            return product;
        const bool is_unsigned = type >= TYPE_UINT8;
        const int64_t least = is_unsigned ? 0 : -(int64_t)sign;
        const int64_t most = (int64_t)(is_unsigned ? ones(nbits) : sign - 1);
        value = value < least ? least : value > most ? most : value;
        return (uint64_t)value & ones(nbits);
    }
    const double step =
        rounded(width, value_of(64, speed->step) * factor[level]);
    const double value = rounded(width, rounded(width, (double)q) * step);
    return nbits == 16 ? half_of(s, value) : word_of(width, value);
}

/* Exceptions: fill values, then others. */
static void
take_exceptions(struct stream *s, const struct speed_tile *tile,
                uint64_t nlisted, uint64_t *word)
{
    struct call *call = s->call;
    const uint64_t nbytes = s->chunk.value_nbytes;
    const uint64_t fill =
        take_number(call, nbytes == 8 ? 8 : 4) & ones(8 * nbytes);
    const uint64_t n = tile->nslabs * tile->ncolumns;
    uint64_t state[SPEED_NGROUPS];
    take_array(call, state, n, 2);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t group = i / tile->ncolumns * 64 + i % tile->ncolumns;
        require(call, state[i] < 3);
        const uint64_t rows = state[i] == 0   ? 0
                              : state[i] == 1 ? 0xffff
                                              : take_number(call, 2);
        bool is_used = false;
        for (uint64_t row = 0; row < 16; row++) {
            const uint64_t at = value_of_place(tile, 16 * group + row);
            is_used |= at != NONE;
            if (at != NONE && rows >> row & 1)
                word[at] = fill;
        }
        require(call, is_used || state[i] == 0);
    }
    const uint64_t *place = take_fields(call, nlisted, 16);
    const uint64_t *value = take_fields(call, nlisted, 8 * nbytes);
    for (uint64_t i = 0; i < nlisted; i++) {
        require(call, place[i] < SPEED_NPLACES &&
                          (i == 0 || place[i] > place[i - 1]));
        const uint64_t at = value_of_place(tile, place[i]);
        require(call, at != NONE);
        word[at] = value[i];
    }
}

static void
decode_speed_tile(struct stream *s, const struct speed *speed,
                  struct speed_tile *tile, uint64_t *word)
{
    struct call *call = s->call;
    const uint64_t word_nbytes = s->chunk.value_nbytes == 8 ? 8 : 4;
    const uint64_t flags = take_in_range(call, 1, 0, 0x3f);
    const uint64_t form = flags & 3, level = flags >> 2 & 3;
    const bool is_exact = flags >> 4 & 1, has_exceptions = flags >> 5 & 1;
    take_zeros(call, 1);
    const uint64_t nlisted =
        take_in_range(call, 2, 0, has_exceptions ? 256 : 0);
    if (word_nbytes == 8)
        take_zeros(call, 4);
    const uint64_t base = take_number(call, word_nbytes);
    require(call, form < 3);
    require(call, speed->has_steps || !is_exact);
    if (!speed->has_steps || is_exact)
        require(call, level == 0 && !has_exceptions);
    if (is_integer(s->chunk.type))
        require(call, level == 0);
    tile->nbits = 8 * (speed->has_steps && !is_exact ? word_nbytes
                                                     : s->chunk.value_nbytes);
    measure_tile(tile);
    take_speed_widths(s, tile, form);
    take_differences(s, tile);
    sum_tile(tile, base);
    for (uint64_t place = 0; place < SPEED_NPLACES; place++) {
        const uint64_t at = value_of_place(tile, place);
        if (at != NONE)
            word[at] =
                speed_value(s, speed, is_exact, level, tile->integer[place]);
    }
    if (has_exceptions)
        take_exceptions(s, tile, nlisted, word);
    skip_to_byte(call);
    require(call, nbytes_left(call) < 8);
    take(call, nbytes_left(call));
}

static uint64_t *
decode_speed(struct stream *s)
{
    struct call *call = s->call;
    struct speed speed;
    struct speed_tile *tile = reserve(call, 1, sizeof *tile);
    take_speed(s, speed_frame_nbytes(&s->chunk), &speed);
    uint64_t *word = reserve(call, s->chunk.nvalues, sizeof *word);
    tile->grid = &speed.grid;
    for (uint64_t i = 0; i < speed.grid.ntiles; i++) {
        const uint64_t place = speed_place(&speed, i);
        const struct input outer =
            enter(call, speed.tiles + 8 * place,
                  8 * (speed_place(&speed, i + 1) - place));
        tile->number = i;
        decode_speed_tile(s, &speed, tile, word);
        leave(call, outer);
    }
    return word;
}

/* ------------------------------------------------------------------------- *
 * "Copies", "References", "Ranks", "Grid", "Columns" and "Complex values":
 * streams within a stream
 *
 * Functions return the words of a chunk's values in C order. A complex value
 * has two words.
 * ------------------------------------------------------------------------- */

static uint64_t *
decode_body(struct stream *s);

/* Decodes an inner stream, whose chunk the outer stream tells. */
static uint64_t *
decode_inner(const struct stream *outer, struct terp_reader_chunk chunk,
             uint64_t nbytes)
{
    struct call *call = outer->call;
    struct stream inner;
    const struct input rest = enter(call, take(call, nbytes), nbytes);
    if (outer->coding != CODING_COPIES)
        chunk.big_endian = false;
    take_frame(call, &inner, &chunk, outer->coding);
    uint64_t *word = decode_body(&inner);
    leave(call, rest);
    return word;
}

/* Repeats values along a dimension that has n points. `pitch` values are
 * faster than the dimension. */
static uint64_t *
repeat_along(struct call *call, const uint64_t *word, uint64_t nvalues,
             uint64_t n, uint64_t pitch)
{
    uint64_t *repeated = reserve(call, nvalues * n, sizeof *repeated);
    for (uint64_t i = 0; i < nvalues * n; i++)
        repeated[i] = word[i / (pitch * n) * pitch + i % pitch];
    return repeated;
}

static uint64_t *
decode_copies(struct stream *s)
{
    struct call *call = s->call;
    const struct terp_reader_chunk *chunk = &s->chunk;
    const uint64_t rank = chunk->rank;
    const uint64_t mask = take_in_range(call, 1, 1, two_to(rank) - 1);
    struct terp_reader_chunk remaining = *chunk;
    remaining.rank = 0;
    remaining.nvalues = 1;
    require(call, !chunk->stack);
    for (uint64_t i = 0; i < rank; i++) {
        const uint64_t dim = chunk->dims[i];
        if (mask >> (rank - 1 - i) & 1) {
            require(call, dim > 1);
        } else {
            remaining.dims[remaining.rank] = dim;
            remaining.rank++;
            remaining.nvalues *= dim;
        }
    }
    if (remaining.rank == 0) {
        remaining.rank = 1;
        remaining.dims[0] = 1;
    }
    uint64_t *word = decode_inner(s, remaining, nbytes_left(call));
    uint64_t nvalues = remaining.nvalues, pitch = 1;
    for (uint64_t d = 0; d < rank; d++) { /* the fastest first */
        const uint64_t dim = chunk->dims[rank - 1 - d];
        if (mask >> d & 1) {
            word = repeat_along(call, word, nvalues, dim, pitch);
            nvalues *= dim;
        }
        pitch *= dim;
    }
    return word;
}

/* The value of a reference: that of its source v and of a difference d. */
static uint64_t
followed(uint64_t type, uint64_t nbits, uint64_t v, uint64_t d)
{
    if (is_integer(type))
        return (v + d) & ones(nbits);
    const uint64_t sign = two_to(nbits - 1);
    const uint64_t magnitude = (v + d / 2) & (sign - 1);
    return magnitude | ((v ^ d << (nbits - 1)) & sign);
}

static uint64_t *
decode_references(struct stream *s)
{
    struct call *call = s->call;
    const struct terp_reader_chunk *chunk = &s->chunk;
    const uint64_t nbits = 8 * chunk->value_nbytes;
    const uint64_t marker = take_number(call, chunk->value_nbytes);
    const uint64_t n = take_uleb(call);
    require(call, n >= 1 && n <= chunk->nvalues);
    struct terp_reader_chunk list = {
        .type = TYPE_UINT32, .rank = 1, .dims = {n}, .nvalues = n};
    const uint64_t *distance = decode_inner(s, list, take_uleb(call));
    list.type = TYPE_INT64;
    const uint64_t *difference = decode_inner(s, list, take_uleb(call));
    uint64_t *word = decode_inner(s, *chunk, nbytes_left(call));
    /* From the last marker on, so that a source still is as it was decoded,
     * and a marker as a source is found. */
    uint64_t nleft = n;
    for (uint64_t i = chunk->nvalues; i-- > 0;) {
        if (word[i] != marker)
            continue;
        require(call, nleft > 0);
        nleft--;
        require(call, distance[nleft] >= 1 && distance[nleft] <= i);
        const uint64_t source = word[i - distance[nleft]];
        require(call, source != marker);
        word[i] = followed(chunk->type, nbits, source, difference[nleft]);
    }
    require(call, nleft == 0);
    return word;
}

/* A number that rises with the values of a type. */
static uint64_t
key_of(uint64_t type, uint64_t nbits, uint64_t word)
{
    const uint64_t top = two_to(nbits - 1);
    if (is_integer(type))
        return type < TYPE_UINT8 ? word ^ top : word;
    return word & top ? word ^ ones(nbits) : word | top;
}

static uint64_t *
decode_ranks(struct stream *s)
{
    struct call *call = s->call;
    const uint64_t nbits = 8 * s->chunk.value_nbytes;
    const uint64_t nvalues = s->chunk.nvalues, n = take_uleb(call);
    require(call, n >= 2 && n <= nvalues && n <= ones(32));
    require(call, nbits > 16 || n <= two_to(16));
    const struct terp_reader_chunk list = {
        .type = s->chunk.type, .rank = 1, .dims = {n}, .nvalues = n};
    struct terp_reader_chunk ranks = s->chunk;
    ranks.type = n <= two_to(16) ? TYPE_UINT16 : TYPE_UINT32;
    const uint64_t *table = decode_inner(s, list, take_uleb(call));
    uint64_t *word = decode_inner(s, ranks, nbytes_left(call));
    for (uint64_t i = 1; i < n; i++)
        require(call, key_of(s->chunk.type, nbits, table[i - 1]) <
                          key_of(s->chunk.type, nbits, table[i]));
    for (uint64_t i = 0; i < nvalues; i++) {
        require(call, word[i] < n);
        word[i] = table[word[i]];
    }
    return word;
}

/* The product of two numbers: its upper and its lower half. */
struct product {
    uint64_t upper, lower;
};

static struct product
multiplied(uint64_t a, uint64_t b)
{
    struct product product = {0, 0};
    for (uint64_t i = 64; i-- > 0;) {
        product.upper = product.upper << 1 | product.lower >> 63;
        product.lower <<= 1;
        if ((b >> i & 1) != 0) {
            product.lower += a;
            product.upper += product.lower < a;
        }
    }
    return product;
}

/* The float k m 2^e, rounded to nearest even, as its bits. The leading bit of
 * m is set. */
static uint64_t
on_grid(struct call *call, int64_t k, uint64_t m, int64_t e, uint64_t nbits)
{
    const uint64_t kept = nbits == 64 ? 53 : 24;
    const int64_t bias = nbits == 64 ? 1023 : 127;
    if (k == 0)
        return 0;
    struct product p = multiplied(k < 0 ? 0 - (uint64_t)k : (uint64_t)k, m);
    int64_t exponent = e + 127; /* of the leading bit of `p` */
    while (p.upper >> 63 == 0) {
        p.upper = p.upper << 1 | p.lower >> 63;
        p.lower <<= 1;
        exponent--;
    }
    uint64_t significand = p.upper >> (64 - kept);
    const uint64_t rest = p.upper << kept | (p.lower != 0 ? 1 : 0);
    if (rest > two_to(63) || (rest == two_to(63) && significand % 2 == 1))
        significand++;
    if (significand == two_to(kept)) {
        significand /= 2;
        exponent++;
    }
    require(call, exponent >= 1 - bias && exponent <= bias);
    return (k < 0 ? two_to(nbits - 1) : 0) |
           (((uint64_t)(exponent + bias) << (kept - 1)) +
            (significand - two_to(kept - 1)));
}

static uint64_t *
decode_grid(struct stream *s)
{
    struct call *call = s->call;
    const uint64_t nbits = 8 * s->chunk.value_nbytes;
    const uint64_t nvalues = s->chunk.nvalues, n = take_uleb(call);
    require(call, n >= 1 && n <= nvalues && n <= ones(32));
    const uint64_t width = take_number(call, 1), m = take_number(call, 8);
    const int64_t e = (int64_t)take_in_range(call, 2, 0, 8190) - 4095;
    const int64_t first = (int64_t)take_number(call, 8);
    const uint64_t gap = take_number(call, 8);
    const int64_t drift = (int64_t)take_number(call, 8);
    const int64_t most = (int64_t)two_to(61);
    const uint64_t speed = drift < 0 ? 0 - (uint64_t)drift : (uint64_t)drift;
    require(call, width == 2 || width == 4 || width == 8);
    require(call, m >= two_to(63));
    require(call, first >= -most && first <= most);
    require(call, gap >= 1 && gap <= two_to(61));
    require(call, drift == 0 ||
                      (s->chunk.rank == 1 && speed <= two_to(61) / nvalues));
    const struct terp_reader_chunk list = {
        .type = s->chunk.type, .rank = 1, .dims = {n}, .nvalues = n};
    struct terp_reader_chunk numbers = s->chunk;
    numbers.type = width == 2   ? TYPE_UINT16
                   : width == 4 ? TYPE_UINT32
                                : TYPE_UINT64;
    const uint64_t *table = decode_inner(s, list, take_uleb(call));
    uint64_t *word = decode_inner(s, numbers, nbytes_left(call));
    for (uint64_t i = 1; i < n; i++)
        require(call, key_of(s->chunk.type, nbits, table[i - 1]) <
                          key_of(s->chunk.type, nbits, table[i]));
    for (uint64_t i = 0; i < nvalues; i++) {
        if (word[i] < n) {
            word[i] = table[word[i]];
            continue;
        }
        const uint64_t j = word[i] - n;
        require(call, j <= two_to(61) / gap);
        const int64_t k = first + (int64_t)(j * gap) + drift * (int64_t)i;
        word[i] = on_grid(call, k, m, e, nbits);
    }
    return word;
}

/* Columns: each group is a chunk without the fastest dimension, or with that
 * dimension as the slowest. */
static uint64_t *
decode_columns(struct stream *s)
{
    struct call *call = s->call;
    const struct terp_reader_chunk *chunk = &s->chunk;
    const uint64_t ncolumns = chunk->dims[chunk->rank - 1];
    const uint64_t mask = take_in_range(call, 2, 1, two_to(ncolumns) - 1);
    require(call, mask % 2 == 1);
    const uint64_t nrows = chunk->nvalues / ncolumns;
    uint64_t *word = reserve(call, chunk->nvalues, sizeof *word);
    for (uint64_t first = 0, end; first < ncolumns; first = end) {
        end = first + 1;
        while (end < ncolumns && (mask >> end & 1) == 0)
            end++;
        struct terp_reader_chunk group = *chunk;
        group.nvalues = nrows * (end - first);
        group.rank = chunk->rank - 1;
        if (end > first + 1) {
            group.rank = chunk->rank;
            group.dims[0] = end - first;
            for (uint64_t i = 1; i < chunk->rank; i++)
                group.dims[i] = chunk->dims[i - 1];
        }
        const uint64_t *column = decode_inner(
            s, group, end < ncolumns ? take_uleb(call) : nbytes_left(call));
        for (uint64_t i = 0; i < group.nvalues; i++)
            word[i % nrows * ncolumns + first + i / nrows] = column[i];
    }
    return word;
}

/* Parts: the real and the imaginary parts of complex values. */
static uint64_t *
decode_parts(struct stream *s)
{
    struct call *call = s->call;
    const uint64_t nvalues = s->chunk.nvalues;
    struct terp_reader_chunk chunk = s->chunk;
    chunk.type = s->chunk.type == TYPE_COMPLEX64 ? TYPE_FLOAT32 : TYPE_FLOAT64;
    uint64_t *word = reserve(call, 2 * nvalues, sizeof *word);
    take_bound(call);
    const uint64_t *real = decode_inner(s, chunk, take_uleb(call));
    const uint64_t *imaginary = decode_inner(s, chunk, nbytes_left(call));
    for (uint64_t i = 0; i < nvalues; i++) {
        word[2 * i] = real[i];
        word[2 * i + 1] = imaginary[i];
    }
    return word;
}

static uint64_t *
take_raw(struct stream *s)
{
    const uint64_t nparts = nparts_of(s->chunk.type);
    const uint64_t nbytes = s->chunk.value_nbytes / nparts;
    const uint64_t n = nparts * s->chunk.nvalues;
    uint64_t *word = take_fields(s->call, n, 8 * nbytes);
    for (uint64_t i = 0; s->chunk.big_endian && i < n; i++)
        word[i] = swapped(word[i], nbytes);
    return word;
}

static uint64_t *
decode_body(struct stream *s)
{
    switch (s->coding) {
    case CODING_RAW:
        return take_raw(s);
    case CODING_COLUMNS:
        return decode_columns(s);
    case CODING_SPEED:
        return decode_speed(s);
    case CODING_RANKS:
        return decode_ranks(s);
    case CODING_GRID:
        return decode_grid(s);
    case CODING_COPIES:
        return decode_copies(s);
    case CODING_REFERENCES:
        return decode_references(s);
    case CODING_PARTS:
        return decode_parts(s);
    default:
        return decode_coded(s);
    }
}

/* ------------------------------------------------------------------------- *
 * The public function
 * ------------------------------------------------------------------------- */

static void
decode_whole(struct call *call, const uint8_t *stream, size_t nbytes,
             struct terp_reader_chunk *chunk_ret, uint8_t *values,
             size_t values_cap_nbytes)
{
    struct stream s;
    if (!is_ieee())
        stop(call, TERP_READER_ARITHMETIC);
    enter(call, stream, nbytes);
    take_frame(call, &s, NULL, CODING_RAW);
    *chunk_ret = s.chunk;
    if (values == NULL)
        return;
    const uint64_t nparts = nparts_of(s.chunk.type);
    const uint64_t part_nbytes = s.chunk.value_nbytes / nparts;
    const uint64_t n = s.chunk.nvalues * nparts;
    if (n > values_cap_nbytes / part_nbytes)
        stop(call, TERP_READER_CAPACITY);
    /* The seed is bytes 0 to 7; the checksum covers all bytes from 16 on. That
     * of a speed stream is a sum over its tiles. */
    if (s.coding == CODING_SPEED)
        check_speed(&s, stream);
    else
        require(call, load(stream + 8, 8) ==
                          checksum(stream + 16, nbytes - 16, load(stream, 8)));
    const uint64_t *word = decode_body(&s);
    skip_to_byte(call);
    require(call, nbytes_left(call) == 0);
    for (uint64_t i = 0; i < n; i++)
        store(values + i * part_nbytes, part_nbytes,
              s.chunk.big_endian ? swapped(word[i], part_nbytes) : word[i]);
}

/* Decodes a stream, or comes back early where `stop` ends the call. The call
 * is not a local variable here, because setjmp would not preserve it. */
static void
run_call(struct call *call, const void *stream, size_t nbytes,
         struct terp_reader_chunk *chunk_ret, void *values,
         size_t values_cap_nbytes)
{
    if (setjmp(call->refused) == 0)
        decode_whole(call, stream, nbytes, chunk_ret, values,
                     values_cap_nbytes);
}

enum terp_reader_status
terp_reader_decode(const void *stream, size_t nbytes,
                   struct terp_reader_chunk *chunk_ret, void *values,
                   size_t values_cap_nbytes)
{
    struct call call;
    memset(&call, 0, sizeof call);
    memset(chunk_ret, 0, sizeof *chunk_ret);
    run_call(&call, stream, nbytes, chunk_ret, values, values_cap_nbytes);
    release(&call);
    return call.status;
}

/* ------------------------------------------------------------------------- *
 * The program
 * ------------------------------------------------------------------------- */

#ifdef TERP_READER_MAIN
#include <stdio.h>

/* Returns the bytes of an open file, or NULL. */
static uint8_t *
read_file(FILE *file, size_t *nbytes_ret)
{
    if (fseek(file, 0, SEEK_END) != 0)
        return NULL;
    const long end = ftell(file);
    if (end < 0 || fseek(file, 0, SEEK_SET) != 0)
        return NULL;
    const size_t nbytes = (size_t)end;
    uint8_t *bytes = malloc(nbytes + 1); /* malloc(0) may return NULL */
    if (bytes != NULL && fread(bytes, 1, nbytes, file) != nbytes) {
        free(bytes);
        return NULL;
    }
    *nbytes_ret = nbytes;
    return bytes;
}

static bool
write_file(const char *path, const uint8_t *bytes, size_t nbytes)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return false;
    const bool is_written = fwrite(bytes, 1, nbytes, file) == nbytes;
    return fclose(file) == 0 && is_written;
}

/* Decodes a stream and writes its values to a file. Returns NULL, or why it
 * cannot. */
static const char *
decode_to_file(const uint8_t *stream, size_t nbytes, const char *path)
{
    static const char *const reason_of_status[] = {
        NULL, "not a whole stream of version 1 or 2", "too large", "no memory",
        "this program does not round as IEEE 754"};
    struct terp_reader_chunk chunk;
    enum terp_reader_status status =
        terp_reader_decode(stream, nbytes, &chunk, NULL, 0);
    if (status != TERP_READER_OK)
        return reason_of_status[status];
    const uint64_t values_nbytes = chunk.nvalues * chunk.value_nbytes;
    if (values_nbytes >= SIZE_MAX)
        return reason_of_status[TERP_READER_MEMORY];
    uint8_t *values = malloc((size_t)values_nbytes + 1);
    if (values == NULL)
        return reason_of_status[TERP_READER_MEMORY];
    status = terp_reader_decode(stream, nbytes, &chunk, values,
                                (size_t)values_nbytes);
    const char *reason = reason_of_status[status];
    if (reason == NULL && !write_file(path, values, (size_t)values_nbytes))
        reason = "cannot write the values";
    free(values);
    return reason;
}

int
main(int argc, char **argv)
{
    FILE *file = argc == 3 ? fopen(argv[1], "rb") : NULL;
    if (file == NULL) {
        fputs("usage: terp_decode STREAM VALUES\n", stderr);
        return EXIT_FAILURE;
    }
    size_t nbytes = 0;
    uint8_t *stream = read_file(file, &nbytes);
    fclose(file);
    const char *reason = "cannot read the stream";
    if (stream != NULL)
        reason = decode_to_file(stream, nbytes, argv[2]);
    free(stream);
    if (reason != NULL) {
        fprintf(stderr, "terp_decode: %s: %s\n", argv[1], reason);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
#endif
#endif
