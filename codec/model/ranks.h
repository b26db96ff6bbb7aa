/* Decides whether a chunk has so few different values that a stream of ranks
 * may be smaller: first by a sample, then by all values. The decisions use
 * integers only, so all engines decide alike. doc/design/06-lossless.md, "Few
 * different values". */
#pragma once

#include "codec/format/bytes.h"
#include "codec/format/ranks.h"
#include "codec/model/bound.h"

TERP_C_BEGIN

/* In chunks of fewer values, the table and the heads of two streams take more
 * bytes than ranks save. */
#define TERP_RANKS_MIN_NVALUES 1024

/* Streams of at most this many bytes hold a constant, or nearly one; ranks
 * could not make them smaller. */
#define TERP_RANKS_MIN_NBYTES 128

/* Values of a sample: a 128th of all, within limits, so that the sample takes
 * about one percent of an encoder's time. */
#define TERP_RANKS_SAMPLE_EVERY 128
#define TERP_RANKS_MIN_NSAMPLES 256
#define TERP_RANKS_MAX_NSAMPLES 8192

/* A table has at most half as many values as the chunk, and at most this many.
 */
#define TERP_RANKS_MAX_NTABLE (UINT64_C(1) << 20)

/* A stream of ranks is kept if its size is below this fraction of the smallest
 * other stream's size, because only readers of version 2 can read it. */
#define TERP_RANKS_WORTH_NUMERATOR 49
#define TERP_RANKS_WORTH_DENOMINATOR 50

/* Whether streams of ranks are allowed for a chunk with these parameters. */
static inline bool
terp_ranks_are_possible(const struct terp_params *params,
                        const struct terp_chunk *chunk, uint64_t nvalues)
{
    return params->effort != TERP_EFFORT_FAST &&
           params->format != TERP_FORMAT_FIRST_VERSION &&
           terp_references_are_possible(chunk->type) &&
           nvalues >= TERP_RANKS_MIN_NVALUES;
}

static inline TERP_HOST_DEVICE uint64_t
terp_ranks_nsamples(uint64_t nvalues)
{
    const uint64_t n = nvalues / TERP_RANKS_SAMPLE_EVERY;

    return n < TERP_RANKS_MIN_NSAMPLES ? TERP_RANKS_MIN_NSAMPLES
                                       : min_u64(n, TERP_RANKS_MAX_NSAMPLES);
}
_Static_assert(TERP_RANKS_MIN_NSAMPLES <= TERP_RANKS_MIN_NVALUES,
               "No value is sampled twice.");

/* The place of sample i. Samples are spread over the chunk; an offset that
 * changes from sample to sample lets them fall on all coordinates of a
 * dimension. */
static inline TERP_HOST_DEVICE uint64_t
terp_ranks_sample_at(uint64_t nvalues, uint64_t i)
{
    const uint64_t distance = nvalues / terp_ranks_nsamples(nvalues);

    return i * distance + i * 7919 % distance;
}

/* The key of sample i. `values` have the chunk's byte order. */
static inline TERP_HOST_DEVICE uint64_t
terp_ranks_sampled_key(const struct terp_chunk *chunk, const void *values,
                       uint64_t nvalues, uint64_t i)
{
    const int nbytes = terp_value_nbytes(chunk->type);
    const uint8_t *at = (const uint8_t *)values +
                        terp_ranks_sample_at(nvalues, i) * (uint64_t)nbytes;
    uint64_t bits = 0;

    for (int b = 0; b < nbytes; b++)
        bits |= (uint64_t)at[chunk->big_endian ? nbytes - 1 - b : b] << (8 * b);
    return terp_rank_key(chunk->type, nbytes, bits);
}

/* The bits of the float of a key (terp_rank_key). */
static inline uint64_t
terp_rank_float_bits(int nbytes, uint64_t key)
{
    const uint64_t top = UINT64_C(1) << (8 * nbytes - 1);

    return key & top ? key ^ top : key ^ (top | (top - 1));
}

/* The value of a float. */
static inline double
terp_rank_float(int nbytes, uint64_t bits)
{
    const uint32_t narrow_bits = (uint32_t)bits;
    float narrow;

    if (nbytes == 8)
        return double_of_bits(bits);
    memcpy(&narrow, &narrow_bits, sizeof narrow);
    return (double)narrow;
}

static inline TERP_HOST_DEVICE uint64_t
terp_ranks_max_ntable(uint64_t nvalues)
{
    return min_u64(nvalues / 2, TERP_RANKS_MAX_NTABLE);
}

/* The number of slots of a hash table for all samples, as a power of two. */
static inline TERP_HOST_DEVICE int
terp_ranks_slots_nbits(uint64_t nsamples)
{
    return bit_width(2 * nsamples - 1);
}

static inline TERP_HOST_DEVICE uint64_t
terp_ranks_slot(uint64_t key, int nbits)
{
    return key * UINT64_C(0x9E3779B97F4A7C15) >> (64 - nbits);
}

/* Estimates the number of different values of a chunk from a sample with
 * `ndistinct` different values, of which `nrepeated` occur more than once in
 * the sample. 0: a table would be too small or too large. The number of values
 * that the sample has missed is twice the estimate of Chao (Scand. J. Statist.
 * 11, 1984), because some values are more frequent than others. The two most
 * frequent values, which may be fill values, do not count as repeated. */
static inline TERP_HOST_DEVICE uint64_t
terp_ranks_estimate(uint64_t nvalues, uint64_t ndistinct, uint64_t nrepeated)
{
    const uint64_t nonce = ndistinct - nrepeated;
    const uint64_t nmore = nrepeated < 2 ? 0 : nrepeated - 2;
    const uint64_t most = terp_ranks_max_ntable(nvalues);

    if (ndistinct < TERP_RANKS_MIN_NTABLE || ndistinct > most ||
        nonce * nonce > nmore * (most - ndistinct))
        return 0;
    return nonce == 0 ? ndistinct : ndistinct + nonce * nonce / nmore;
}

/* The largest sample under a bound above 0. It is smaller than the sample for
 * lossless chunks, because most chunks take less time to encode under a bound.
 */
#define TERP_FEW_MAX_NSAMPLES 1024

static inline TERP_HOST_DEVICE uint64_t
terp_few_nsamples(uint64_t nvalues)
{
    return min_u64(terp_ranks_nsamples(nvalues), TERP_FEW_MAX_NSAMPLES);
}

static inline TERP_HOST_DEVICE bool
terp_few_are_possible(const struct terp_chunk *chunk, uint64_t nvalues)
{
    return chunk->type <= TERP_FLOAT64 && nvalues >= TERP_RANKS_MIN_NVALUES;
}

/* Sample i of terp_few_nsamples. */
static inline TERP_HOST_DEVICE uint64_t
terp_few_sampled_key(const struct terp_chunk *chunk, const void *values,
                     uint64_t nvalues, uint64_t i)
{
    const uint64_t every =
        terp_ranks_nsamples(nvalues) / terp_few_nsamples(nvalues);

    return terp_ranks_sampled_key(chunk, values, nvalues, i * every);
}

/* Words of memory that terp_ranks_are_few needs: slots of keys, their numbers
 * of 16 bits, and one count of 32 bits per sample. */
static inline uint64_t
terp_ranks_scratch_nwords(uint64_t nsamples)
{
    const uint64_t nslots = UINT64_C(1) << terp_ranks_slots_nbits(nsamples);

    return nslots + nslots / 4 + nslots / 4;
}

/* Decides from the samples of a chunk of `nvalues` whether a count of all
 * values is worth its time. Changes `keys` (terp_rank_key). `memory` holds
 * terp_ranks_scratch_nwords. */
bool
terp_ranks_are_few(enum terp_type type, uint64_t nvalues, uint64_t *keys,
                   uint64_t *memory);

/* Words of memory that terp_may_be_few needs. */
static inline uint64_t
terp_few_scratch_nwords(uint64_t nvalues)
{
    const uint64_t nsamples = terp_few_nsamples(nvalues);

    return nsamples + terp_ranks_scratch_nwords(nsamples);
}

/* Whether a chunk of floats may have few different values. `memory` holds
 * terp_few_scratch_nwords. */
bool
terp_may_be_few(const struct terp_chunk *chunk, const void *values,
                uint64_t nvalues, uint64_t *memory);

/* Whether the samples suggest that a chunk of floats has few different values
 * whose distances are so large that quantization would hardly merge any of
 * them. A lossless stream, or ranks, may then take fewer bytes than a stream
 * under the bound. is_pointwise: the bound is relative to each value. `keys`
 * and `memory` are those of terp_ranks_are_few. */
bool
terp_ranks_are_far(enum terp_type type, uint64_t nvalues, double bound,
                   bool is_pointwise, uint64_t *keys, uint64_t *memory);

/* Whether a trial of ranks is worth its time. It compares the bits that a rank
 * saves per value with the bits of the table. `keys` is the sorted table.
 * `ncommon` values of the chunk equal one of its two most frequent values,
 * which take few bits in any stream. */
bool
terp_ranks_are_worth(enum terp_type type, uint64_t nvalues, uint64_t ncommon,
                     uint64_t ntable, const uint64_t *keys);

/* The sum of the two largest of n counts. */
static inline uint64_t
terp_ranks_ncommon(uint64_t n, const uint32_t *counts)
{
    uint64_t first = 0, second = 0;

    for (uint64_t i = 0; i < n; i++) {
        const uint64_t count = counts[i];
        second = count > first ? first : count > second ? count : second;
        first = count > first ? count : first;
    }
    return first + second;
}

/* Whether ranks are coded as lines, too: where they take at most a quarter of a
 * bit each, most tiles hold few codes but zeros. */
static inline bool
terp_ranks_try_lines(uint64_t nvalues, uint64_t nbytes)
{
    return nbytes > 0 && nbytes <= nvalues / 32;
}

/* Sorts n keys of `key_nbytes` bytes in ascending order. If `order` is not
 * NULL, its items are moved like the keys. `key_scratch` and `order_scratch`
 * hold n items each. */
void
terp_ranks_sort(uint64_t n, int key_nbytes, uint64_t *keys,
                uint64_t *key_scratch, uint32_t *order,
                uint32_t *order_scratch);

TERP_C_END
