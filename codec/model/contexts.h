/* In which context a point's code is put by the pipeline `ratio`:
 * how large the codes of the even points around it were. doc/format.md,
 * "Context order". */
#pragma once

#include <math.h>

#include "codec/format/layout.h"
#include "codec/format/low_bits.h"

/* Levels that have contexts, from 1 on; those above have few points. */
#define TERP_NCONTEXT_LEVELS 3
#define TERP_NCONTEXTS 8

/* What a level's points are sorted by: their context; special points, which
 * need no code, come behind all others. */
#define TERP_GROUP_SPECIALS TERP_NCONTEXTS
#define TERP_NGROUPS (TERP_NCONTEXTS + 1)

/* A point weighs this for each unit of its code's magnitude, up to a limit,
 * when it is an even point of the next finer level, and half of that, rounded
 * down, of each level further down. Where codes are wide it weighs the root of
 * that, rounded down: magnitudes differ by more there than contexts could tell.
 */
#define TERP_CONTEXT_UNIT 4
#define TERP_CONTEXT_MAX_WEIGHT 252

static inline TERP_HOST_DEVICE uint8_t
terp_context_weight(unsigned symbol, int wide)
{
    const int code = (int)symbol - terp_radius_of(wide);
    const int units =
        (code < 0 ? -code : code) * TERP_CONTEXT_UNIT >> terp_unit_nbits(wide);
    const int weight = wide > 0 ? (int)sqrtf((float)units) : units;

    return (uint8_t)(weight < TERP_CONTEXT_MAX_WEIGHT
                         ? weight
                         : TERP_CONTEXT_MAX_WEIGHT);
}

/* By the weights of the 2^n corners around a point of n odd dimensions: their
 * sum times 2^(TERP_NDIMS - n). */
static inline TERP_HOST_DEVICE uint16_t
terp_context_of(int16_t sum)
{
    return (uint16_t)((sum >= 1) + (sum >= 8) + (sum >= 16) + (sum >= 32) +
                      (sum >= 64) + (sum >= 128) + (sum >= 256));
}
