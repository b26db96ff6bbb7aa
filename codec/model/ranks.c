/* Counts different values of a sample, and sorts tables. */
#include "codec/model/ranks.h"

#include <float.h>
#include <string.h>

/* ---- sorting ---- */

#define DIGIT_NBITS 8
#define NDIGITS (1 << DIGIT_NBITS)

void
terp_ranks_sort(uint64_t n, int key_nbytes, uint64_t *keys,
                uint64_t *key_scratch, uint32_t *order, uint32_t *order_scratch)
{
    uint64_t *from = keys, *to = key_scratch;
    uint32_t *order_from = order, *order_to = order_scratch;

    for (int shift = 0; shift < 8 * key_nbytes; shift += DIGIT_NBITS) {
        uint64_t next[NDIGITS] = {0}, sum = 0;
        for (uint64_t i = 0; i < n; i++)
            next[from[i] >> shift & (NDIGITS - 1)]++;
        if (n == 0 || next[from[0] >> shift & (NDIGITS - 1)] == n)
            continue; /* all have the same digit */
        for (int d = 0; d < NDIGITS; d++) {
            const uint64_t count = next[d];
            next[d] = sum;
            sum += count;
        }
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t at = next[from[i] >> shift & (NDIGITS - 1)]++;
            to[at] = from[i];
            if (order != NULL)
                order_to[at] = order_from[i];
        }
        uint64_t *const keys_before = from;
        uint32_t *const order_before = order_from;
        from = to;
        to = keys_before;
        order_from = order_to;
        order_to = order_before;
    }
    if (from != keys) {
        memcpy(keys, from, n * sizeof *keys);
        if (order != NULL)
            memcpy(order, order_from, n * sizeof *order);
    }
}

/* ---- prices ---- */

/* The logarithm of a number above 0, in 1/16: exact at powers of two, linear
 * between them. */
static uint64_t
log2_16(uint64_t x)
{
    const int nbits = bit_width(x) - 1;
    const uint64_t fraction =
        nbits >= 4 ? x >> (nbits - 4) & 15 : x << (4 - nbits) & 15;

    return 16 * (uint64_t)nbits + fraction;
}

/* The mean logarithm, in 1/16, of the distances between sorted keys, in units
 * of the largest power of two that divides all of them. If the keys are
 * consecutive multiples of a number, the mean is 0, and ranks save nothing that
 * a prediction of integers does not save. */
static uint64_t
mean_distance(uint64_t n, const uint64_t *keys)
{
    uint64_t bits = 0, sum = 0;
    int nzeros = 0;

    for (uint64_t i = 1; i < n; i++)
        bits |= keys[i] - keys[i - 1];
    while ((bits >> nzeros & 1) == 0)
        nzeros++;
    for (uint64_t i = 1; i < n; i++)
        sum += log2_16((keys[i] - keys[i - 1]) >> nzeros);
    return sum / (n - 1);
}

/* A rank must be shorter than a value by at least this many bits, in 1/16. */
#define MIN_GAIN 32

/* The bits of a value in the table, in 1/16, beyond the bits that a rank saves.
 */
#define TABLE_COST 48

/* A table of at most SMALL_NTABLE values is small beside any chunk, so it is
 * worth a trial if ranks save MIN_SMALL_GAIN / 16 bits per value. Even if most
 * distinct values are consecutive, a few distant ones make values long but
 * ranks short. */
#define SMALL_NTABLE 256
#define MIN_SMALL_GAIN 8

/* `gain` is in 1/16 bits. Small tables of floats are always worth a trial: no
 * prediction finds a common step of floats. Tables of 16-bit floats are always
 * worth a trial too: ranks are dense in each binade, while multiples of a
 * common step end in zero bits in the upper binades. */
static bool
is_worth(enum terp_type type, uint64_t nvalues, uint64_t ntable, int64_t gain)
{
    if (terp_type_is_half(type))
        return true;
    if (ntable <= SMALL_NTABLE)
        return !terp_type_is_integer(type) || gain >= MIN_SMALL_GAIN;
    return gain >= MIN_GAIN &&
           nvalues * (uint64_t)gain > ntable * ((uint64_t)gain + TABLE_COST);
}

bool
terp_ranks_are_worth(enum terp_type type, uint64_t nvalues, uint64_t ncommon,
                     uint64_t ntable, const uint64_t *keys)
{
    return ntable >= TERP_RANKS_MIN_NTABLE &&
           is_worth(type, nvalues - ncommon, ntable,
                    (int64_t)mean_distance(ntable, keys));
}

/* ---- samples ---- */

/* The parts of the memory that terp_ranks_scratch_nwords measures. */
struct scratch {
    int nbits; /* of the number of slots */
    uint64_t *slots;
    uint16_t *numbers;
    uint32_t *counts;
};

static struct scratch
divide_scratch(uint64_t nsamples, uint64_t *at)
{
    const int nbits = terp_ranks_slots_nbits(nsamples);
    uint16_t *numbers = (uint16_t *)(at + (UINT64_C(1) << nbits));
    const struct scratch scratch = {
        nbits, at, numbers, (uint32_t *)(numbers + (UINT64_C(1) << nbits))};

    return scratch;
}

/* Removes repeated keys and counts each key. Returns the number of different
 * keys. */
static uint64_t
count(uint64_t nsamples, uint64_t *keys, const struct scratch *scratch)
{
    const uint64_t mask = (UINT64_C(1) << scratch->nbits) - 1;
    uint64_t *slots = scratch->slots;
    uint16_t *numbers = scratch->numbers;
    uint32_t *counts = scratch->counts;
    uint64_t n = 0;

    /* Numbers of keys, plus one; 0: the slot is free. */
    memset(numbers, 0, sizeof *numbers << scratch->nbits);
    for (uint64_t i = 0; i < nsamples; i++) {
        const uint64_t key = keys[i];
        uint64_t slot = terp_ranks_slot(key, scratch->nbits);
        while (numbers[slot] != 0 && slots[slot] != key)
            slot = (slot + 1) & mask;
        if (numbers[slot] == 0) {
            slots[slot] = keys[n] = key;
            counts[n++] = 0;
            numbers[slot] = (uint16_t)n;
        }
        counts[numbers[slot] - 1]++;
    }
    return n;
}
_Static_assert(TERP_RANKS_MAX_NSAMPLES <= UINT16_MAX,
               "16 bits hold the number of a key.");

bool
terp_may_be_few(const struct terp_chunk *chunk, const void *values,
                uint64_t nvalues, uint64_t *memory)
{
    const uint64_t nsamples = terp_few_nsamples(nvalues);
    const struct scratch scratch = divide_scratch(nsamples, memory + nsamples);
    uint64_t *keys = memory, nrepeated = 0;

    for (uint64_t i = 0; i < nsamples; i++)
        keys[i] = terp_few_sampled_key(chunk, values, nvalues, i);
    const uint64_t n = count(nsamples, keys, &scratch);
    for (uint64_t i = 0; i < n; i++)
        nrepeated += scratch.counts[i] > 1;
    return terp_ranks_estimate(nvalues, n, nrepeated) > 0;
}

/* ---- distances against a bound ---- */

/* A step of quantization may exceed the mean distance by at most this many
 * bits, in 1/16. */
#define MAX_LACK 16

/* The value of a key of a float. */
static double
value_of_key(enum terp_type type, uint64_t key)
{
    const int nbytes = terp_value_nbytes(type);

    return terp_rank_float(nbytes, terp_rank_float_bits(nbytes, key));
}

/* The logarithm of a positive number, in 1/16, linear between powers of two. */
static int64_t
log2_16_of(double x)
{
    return (int64_t)(double_bits(x) >> 48) - 16 * INT64_C(1023);
}

bool
terp_ranks_are_far(enum terp_type type, uint64_t nvalues, double bound,
                   bool is_pointwise, uint64_t *keys, uint64_t *memory)
{
    const uint64_t nsamples = terp_ranks_nsamples(nvalues);
    const struct scratch scratch = divide_scratch(nsamples, memory);
    const uint64_t n = count(nsamples, keys, &scratch);
    uint64_t nrepeated = 0;
    int64_t sum = 0, ndistances = 0;

    for (uint64_t i = 0; i < n; i++)
        nrepeated += scratch.counts[i] > 1;
    const uint64_t ntable = terp_ranks_estimate(nvalues, n, nrepeated);
    if (ntable == 0)
        return false;
    terp_ranks_sort(n, 8, keys, memory, NULL, NULL);
    for (uint64_t i = 1; i < n; i++) {
        const double low = value_of_key(type, keys[i - 1]);
        const double high = value_of_key(type, keys[i]);
        const double most = -low > high ? -low : high;
        const double step = 2 * bound * (is_pointwise ? most : 1);
        if (!(high - low <= DBL_MAX) || !(high > low) || !is_bound(step))
            continue; /* infinities, NaN, zeros of both signs */
        sum += log2_16_of(high - low) - log2_16_of(step);
        ndistances++;
    }
    /* The chunk has more values than the sample, at smaller distances. */
    return ndistances > 0 &&
           sum / ndistances + (int64_t)log2_16(n) - (int64_t)log2_16(ntable) >=
               -MAX_LACK;
}

bool
terp_ranks_are_few(enum terp_type type, uint64_t nvalues, uint64_t *keys,
                   uint64_t *memory)
{
    const uint64_t nsamples = terp_ranks_nsamples(nvalues);
    const struct scratch scratch = divide_scratch(nsamples, memory);
    const uint64_t n = count(nsamples, keys, &scratch);
    const uint64_t ncommon = terp_ranks_ncommon(n, scratch.counts);
    uint64_t nrepeated = 0;

    for (uint64_t i = 0; i < n; i++)
        nrepeated += scratch.counts[i] > 1;
    const uint64_t ntable = terp_ranks_estimate(nvalues, n, nrepeated);
    if (ntable == 0)
        return false;
    terp_ranks_sort(n, 8, keys, memory, NULL, NULL);
    /* The chunk has more values than the sample, at smaller distances. */
    return is_worth(type, nvalues / nsamples * (nsamples - ncommon), ntable,
                    (int64_t)(mean_distance(n, keys) + log2_16(n)) -
                        (int64_t)log2_16(ntable));
}
