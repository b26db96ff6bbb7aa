/* Whether methods of lossless coding may pay under a bound above 0, too:
 * references, if many values of a chunk repeat others, and the lossless
 * predictor, if the bound is tiny. doc/design/06-lossless.md, "Under bounds
 * above 0". */
#pragma once

#include "codec/format/references.h"
#include "codec/model/carrier.h"
#include "codec/model/domain.h"
#include "codec/model/low_bits.h"

/* Whether the encoder examines a chunk's values: floats only; under a pointwise
 * bound, for repeats only. */
static inline TERP_HOST_DEVICE bool
terp_is_open_to_more(const struct terp_params *params,
                     const struct terp_chunk *chunk, uint64_t nvalues)
{
    const bool is_pointwise = params->bound_mode == TERP_BOUND_POINTWISE;

    return (!is_pointwise || params->floor == 0) && !terp_is_lossless(params) &&
           (chunk->type <= TERP_FLOAT64 ||
            (!is_pointwise &&
             (chunk->type == TERP_FLOAT16 || chunk->type == TERP_BFLOAT16))) &&
           params->predictor == TERP_PREDICTOR_AUTO &&
           terp_domain_is_open(chunk, nvalues, params);
}

/* ---- the lossless prediction ---- */

/* Whether a lossless stream may be smaller. It may if the step is smaller than
 * two units in the last place of the largest value, because codes then keep
 * most bits anyway. With the effort `best`, it may whenever codes may be wide.
 */
static inline TERP_HOST_DEVICE bool
terp_may_be_lossless(enum terp_effort effort, double min, double max,
                     double step, int mantissa_nbits)
{
    return effort == TERP_EFFORT_BEST
               ? terp_may_be_wide(terp_nsteps_of(min, max, step))
               : terp_exponent_of(step) + mantissa_nbits <=
                     terp_exponent_of_range(min, max);
}

/* ---- repeats ---- */

/* Whether values must be lossless, and their type allows references. */
static inline bool
terp_may_refer_exactly(const struct terp_params *params, enum terp_type type)
{
    return params->effort != TERP_EFFORT_FAST &&
           terp_references_are_possible(type) &&
           (terp_is_lossless(params) ||
            (terp_type_is_half(type) && terp_half_is_exact(type, params)) ||
            (terp_type_is_integer(type) && terp_integer_bound(params) == 0));
}

/* Sampled points are looked up among a part of all points. If enough are found,
 * the encoder searches, which takes longer than all other steps together. In
 * smaller chunks sampling takes too large a share of the time, in larger ones
 * the search takes too long. */
#define TERP_REPEATS_MIN_NVALUES (1 << 16)
#define TERP_REPEATS_MAX_NVALUES (1 << 22)

/* Number of samples, and slots of the table that holds them by their keys. */
#define TERP_REPEATS_NSAMPLES 1024
#define TERP_REPEATS_SLOT_NBITS 11
#define TERP_REPEATS_NSLOTS (1 << TERP_REPEATS_SLOT_NBITS)

/* In each stretch of values, one span is searched for the samples. So of 1024
 * samples that are all repeated once, 32 are found. The encoder searches for
 * references if at least TERP_REPEATS_MIN_NFOUND are found. */
#define TERP_REPEATS_STRETCH_NVALUES 2048
#define TERP_REPEATS_SPAN_NVALUES 64
#define TERP_REPEATS_MIN_NFOUND 5

/* With fewer steps in the range, values are too cheap to replace. */
#define TERP_REPEATS_MIN_NSTEPS 256

static inline TERP_HOST_DEVICE bool
terp_may_repeat(uint64_t nvalues, double min, double max, double step)
{
    return nvalues >= TERP_REPEATS_MIN_NVALUES &&
           nvalues <= TERP_REPEATS_MAX_NVALUES &&
           terp_nsteps_of(min, max, step) >= TERP_REPEATS_MIN_NSTEPS;
}

/* Matching values may differ by this fraction of the bound, as log2: a 64th. */
#define TERP_REPEATS_NEAR_PART_NBITS 6

/* The bits in which matching magnitudes may differ: less than a 64th of the
 * bound, and so few that values rarely match by chance. 16-bit floats must be
 * equal. */
static inline TERP_HOST_DEVICE int
terp_repeats_near_nbits(double bound, double min, double max, int value_nbytes)
{
    const int most = value_nbytes == 8 ? 28 : value_nbytes == 4 ? 6 : 0;
    const int nbits = terp_exponent_of(bound) - TERP_REPEATS_NEAR_PART_NBITS -
                      terp_exponent_of_range(min, max) +
                      terp_mantissa_nbits(value_nbytes);

    return nbits < 0 ? 0 : nbits < most ? nbits : most;
}

/* The bits in which matching magnitudes may differ under a pointwise bound. */
static inline TERP_HOST_DEVICE int
terp_repeats_near_nbits_of_each(double bound, int value_nbytes)
{
    return terp_repeats_near_nbits(bound, 0, 1, value_nbytes);
}

/* Neighbours on each side that belong to a key. 16-bit floats need three,
 * because three consecutive values match by chance. */
static inline TERP_HOST_DEVICE uint64_t
terp_repeats_reach(enum terp_type type)
{
    return terp_type_is_half(type) ? 3 : 1;
}

/* Indexes of samples and spans. They avoid the first and the last value. */
static inline TERP_HOST_DEVICE uint64_t
terp_repeats_sample_at(uint64_t nvalues, uint64_t i)
{
    const uint64_t distance = (nvalues - 2) / TERP_REPEATS_NSAMPLES;
    return 1 + i * distance + i * 7919 % distance;
}

static inline TERP_HOST_DEVICE uint64_t
terp_repeats_span_at(uint64_t i)
{
    return 1 + i * TERP_REPEATS_STRETCH_NVALUES +
           i * 7919 %
               (TERP_REPEATS_STRETCH_NVALUES - TERP_REPEATS_SPAN_NVALUES - 2);
}

/* ---- the table ---- */

static inline TERP_HOST_DEVICE unsigned
terp_repeats_slot(uint64_t key)
{
    return (unsigned)(key >> (64 - TERP_REPEATS_SLOT_NBITS));
}

/* The entry of a sample in its slot. Of several samples the largest entry is
 * kept, that of the last point. 0: empty. */
static inline TERP_HOST_DEVICE uint64_t
terp_repeats_entry(uint64_t key, uint64_t point)
{
    return (point + 1) << 32 |
           (uint32_t)(key >> (32 - TERP_REPEATS_SLOT_NBITS));
}

/* Whether an entry has the key of `point` and is another point. */
static inline TERP_HOST_DEVICE bool
terp_repeats_match(uint64_t entry, uint64_t key, uint64_t point)
{
    const uint64_t own = terp_repeats_entry(key, point);

    return entry != 0 && (uint32_t)entry == (uint32_t)own && entry != own;
}
