/* What a stream has of the lossless prediction: its model, the groups of
 * differences, each with a shift of its own, and remainders. doc/format.md,
 * "Lossless". */
#pragma once

#include "codec/format/bytes.h"
#include "codec/format/layout.h"
#include "codec/format/limits.h"

/* ---- the model ---- */

/* Bytes of dimensions, form, zeros and exponent; a center stands behind them.
 */
#define TERP_LOSSLESS_MODEL_NBYTES 5

/* The byte of dimensions: those along which differences are taken, and from
 * this bit on those along which they are taken twice. */
#define TERP_LOSSLESS_TWICE_SHIFT TERP_NDIMS

/* The byte of the form: what integers are of values, and whether they are told
 * from a center. */
#define TERP_LOSSLESS_FORM 3u
#define TERP_LOSSLESS_CENTER 4u
enum terp_lossless_form {
    TERP_LOSSLESS_STEPS = 0,      /* whole steps, without a remainder */
    TERP_LOSSLESS_REMAINDERS = 1, /* with one */
    TERP_LOSSLESS_MAGNITUDES = 2, /* magnitudes by their bits, and signs */
    TERP_LOSSLESS_NFORMS
};

static inline TERP_HOST_DEVICE bool
terp_lossless_dims_are_valid(unsigned dims)
{
    const unsigned once = dims & ((1u << TERP_LOSSLESS_TWICE_SHIFT) - 1);
    return (dims >> TERP_LOSSLESS_TWICE_SHIFT & ~once) == 0;
}

/* ---- groups ---- */

/* Differences of points that are not special come in groups of so many. */
#define TERP_SHIFT_GROUP_NVALUES 256

/* The section's first byte: what is told of groups. */
#define TERP_SHIFTS_SHIFTS 1u
#define TERP_SHIFTS_ZEROS 2u

/* The bits of a group's shift, and of its zeros. */
static inline TERP_HOST_DEVICE int
terp_shift_nbits(int value_nbytes)
{
    return value_nbytes == 4 ? 5 : 6;
}

/* Above a shift a difference has two bits at least. */
static inline TERP_HOST_DEVICE int
terp_max_shift(int value_nbytes)
{
    return 8 * value_nbytes - 2;
}

/* ---- remainders ---- */

/* Remainders of so many points fill whole bytes. */
#define TERP_REMAINDERS_NVALUES 4096
