/* Deterministic contents for chunks. Each value comes from integer arithmetic
 * and one exact scaling, without libm, so a field has the same bits with every
 * compiler and option. */
#pragma once

#include "codec/api/terp.h"

#ifdef __cplusplus
extern "C" {
#endif

enum terp_field {
    TERP_FIELD_CONSTANT,
    TERP_FIELD_RAMP,      /* linear along every dim */
    TERP_FIELD_SMOOTH,    /* products of parabolas, in [-1, 1] */
    TERP_FIELD_ROUGH,     /* smooth, plus noise of a 64th of its range */
    TERP_FIELD_NOISE,     /* white noise in [-1, 1] */
    TERP_FIELD_SPIKES,    /* zero, except one value in 61 */
    TERP_FIELD_STEPS,     /* plateaus with sharp edges */
    TERP_FIELD_INTEGERS,  /* small whole numbers: ties at bounds 0.5 and 1 */
    TERP_FIELD_DENORMALS, /* subnormal numbers */
    TERP_FIELD_HUGE,      /* up to the largest number of either sign */
    TERP_FIELD_OUTLIERS,  /* near 1, except one value of 1e20 in 97 */
    TERP_FIELD_COAST,     /* smooth, with 1e20 on land, about a third */
    TERP_FIELD_GAPS,      /* rough, with NaN, infinities and -0.0 */
    TERP_FIELD_MAPS, /* the same white noise in each slice, plus other noise of
                        a 64th of its range */
    TERP_FIELD_FINE, /* rough, with digits to the last bit */
    TERP_FIELD_ROUNDED, /* FINE with the last 12 bits, in float64 29, set to 0:
                           float64 from float32 */
    TERP_NFIELDS,
    /* Fields that tests choose by name. */
    TERP_FIELD_SINES = TERP_NFIELDS, /* near-sines of about ten points a period,
                                        for long splines */
    TERP_FIELD_MIRRORS, /* noise mirrored along the fastest dim: floats get
                           the negative, float64 also other last bits */
    TERP_FIELD_GRIDS,   /* slices on grids of one step, each with an offset */
    TERP_FIELD_DECADES, /* noise of all magnitudes from 1e-12 to 1 */
    TERP_FIELD_PROFILE, /* rough, but the same along the fastest dim */
    TERP_NNAMED_FIELDS
};

extern const char *const terp_field_name[TERP_NNAMED_FIELDS];

/* Writes terp_chunk_nbytes(chunk) bytes, in the chunk's byte order. In a
 * stack every brick has its own phase. */
void
terp_field_make(enum terp_field field, const struct terp_chunk *chunk,
                uint8_t *values_ret);

/* A hash of `counter` (the finalizer of splitmix64). */
uint64_t
terp_field_mix(uint64_t counter);

/* Adds a word to a digest. */
static inline uint64_t
terp_field_digest(uint64_t digest, uint64_t word)
{
    return terp_field_mix(digest ^ word) + word;
}

#ifdef __cplusplus
}
#endif
