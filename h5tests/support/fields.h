/* Deterministic contents for chunks. Every value comes from integer
 * arithmetic and one exact scaling, with no call of libm, so that a field has
 * the same bits with every compiler and option. */
#pragma once

#include "codec/api/terp.h"

#ifdef __cplusplus
extern "C" {
#endif

enum terp_field {
    TERP_FIELD_CONSTANT,
    TERP_FIELD_RAMP,      /* linear along every dim */
    TERP_FIELD_SMOOTH,    /* products of parabolas, in [-1, 1] */
    TERP_FIELD_ROUGH,     /* smooth, and noise of a 64th of its range */
    TERP_FIELD_NOISE,     /* white, in [-1, 1] */
    TERP_FIELD_SPIKES,    /* zero but for one value in 61 */
    TERP_FIELD_STEPS,     /* plateaus with sharp edges */
    TERP_FIELD_INTEGERS,  /* small whole numbers: ties at bounds 0.5 and 1 */
    TERP_FIELD_DENORMALS, /* below the smallest normal number */
    TERP_FIELD_HUGE,      /* to the largest number of either sign */
    TERP_FIELD_OUTLIERS,  /* near 1, and 1e20 for one value in 97 */
    TERP_FIELD_COAST,     /* smooth, and 1e20 on land: about a third */
    TERP_FIELD_GAPS,      /* rough, with NaN, infinities and -0.0 */
    TERP_FIELD_MAPS,      /* along the slowest dim the same white noise, and
                             other noise of a 64th of its range */
    TERP_FIELD_FINE,      /* rough, with digits to the last bit */
    TERP_FIELD_ROUNDED,   /* the same, but the last 12 bits, of float64 29, are
                             0: float64 of float32 */
    TERP_NFIELDS,
    /* Asked for by name. */
    TERP_FIELD_SINES = TERP_NFIELDS, /* nearly, of some ten points a period: for
                                        long splines */
    TERP_FIELD_MIRRORS, /* noise, and the same mirrored along the fastest dim:
                           of floats its negative, of float64 with other last
                           bits
                         */
    TERP_FIELD_GRIDS,   /* of each slice whole steps from another value */
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

/* A well mixed word of `counter` (the finalizer of splitmix64). */
uint64_t
terp_field_mix(uint64_t counter);

/* A digest with one word more. */
static inline uint64_t
terp_field_digest(uint64_t digest, uint64_t word)
{
    return terp_field_mix(digest ^ word) + word;
}

#ifdef __cplusplus
}
#endif
