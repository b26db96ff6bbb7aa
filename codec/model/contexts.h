/* The context of a point's code in the pipeline `ratio`: how large the codes of
 * the even points around it were. doc/format.md, "Context order". */
#pragma once

#include <math.h>

#include "codec/format/layout.h"
#include "codec/format/low_bits.h"

/* Levels 1 to this one have contexts; coarser levels have few points. */
#define TERP_NCONTEXT_LEVELS 3
#define TERP_NCONTEXTS 8

/* The groups into which a level's points are sorted: contexts, and behind them
 * the special points, which need no code. */
#define TERP_GROUP_SPECIALS TERP_NCONTEXTS
#define TERP_NGROUPS (TERP_NCONTEXTS + 1)

/* The weight of an even point of the next finer level: this many for each unit
 * of its code's magnitude, up to a limit. Each further level halves the weight,
 * rounded down. When codes are wide, the weight is the square root, rounded
 * down, because wide magnitudes differ more than eight contexts can tell
 * apart. */
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

/* The context of a point that is odd in n dimensions. `sum` adds the
 * weights of its 2^n corners (the even points around it) and multiplies them by
 * 2^(TERP_NDIMS - n). */
static inline TERP_HOST_DEVICE uint16_t
terp_context_of(int16_t sum)
{
    return (uint16_t)((sum >= 1) + (sum >= 8) + (sum >= 16) + (sum >= 32) +
                      (sum >= 64) + (sum >= 128) + (sum >= 256));
}
