/* The sections of the lossless predictor: its model, the groups of differences
 * with a shift for each group, and remainders. doc/format.md, "Lossless". */
#pragma once

#include "codec/format/bytes.h"
#include "codec/format/layout.h"
#include "codec/format/limits.h"

/* ---- the model ---- */

/* Bytes of the model: dimensions, form, zeros, exponent. If there is a center,
 * it follows them. */
#define TERP_LOSSLESS_MODEL_NBYTES 5

/* The byte of dimensions: one bit for each dimension along which differences
 * are taken, and from this bit on one for each along which they are taken
 * twice. */
#define TERP_LOSSLESS_TWICE_SHIFT TERP_NDIMS

/* The byte of the form: how integers are made from values, and whether a center
 * was subtracted from them. */
#define TERP_LOSSLESS_FORM 3u
#define TERP_LOSSLESS_CENTER 4u
enum terp_lossless_form {
    TERP_LOSSLESS_STEPS = 0,      /* numbers of steps without remainders */
    TERP_LOSSLESS_REMAINDERS = 1, /* numbers of steps with remainders */
    TERP_LOSSLESS_MAGNITUDES = 2, /* bits of magnitudes, with signs */
    TERP_LOSSLESS_NFORMS
};

static inline TERP_HOST_DEVICE bool
terp_lossless_dims_are_valid(unsigned dims)
{
    const unsigned once = dims & ((1u << TERP_LOSSLESS_TWICE_SHIFT) - 1);
    return (dims >> TERP_LOSSLESS_TWICE_SHIFT & ~once) == 0;
}

/* ---- groups ---- */

/* The differences of the points that are not special come in groups of this
 * many. */
#define TERP_SHIFT_GROUP_NVALUES 256

/* Flags in the section's first byte: groups have shifts, groups have zeros. */
#define TERP_SHIFTS_SHIFTS 1u
#define TERP_SHIFTS_ZEROS 2u

/* Width of the fields that hold a group's shift and its zeros. */
static inline TERP_HOST_DEVICE int
terp_shift_nbits(int value_nbytes)
{
    return value_nbytes == 4 ? 5 : 6;
}

/* Largest shift: a difference has at least two bits above it. */
static inline TERP_HOST_DEVICE int
terp_max_shift(int value_nbytes)
{
    return 8 * value_nbytes - 2;
}

/* ---- remainders ---- */

/* The remainders of this many points fill whole bytes. */
#define TERP_REMAINDERS_NVALUES 4096
