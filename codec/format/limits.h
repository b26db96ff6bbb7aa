/* Constants of the stream format. doc/format.md. */
#pragma once

#include "codec/format/base.h"

/* Codes are -TERP_MAX_CODE to TERP_MAX_CODE. Symbol = code + TERP_RADIUS;
 * symbol 0 is the escape. */
#define TERP_MAX_CODE 511
#define TERP_MAX_CODE_WIDTH 9 /* in bits */
#define TERP_RADIUS (TERP_MAX_CODE + 1)
#define TERP_ESCAPE 0
#define TERP_ZERO_SYMBOL TERP_RADIUS
#define TERP_NSYMBOLS (2 * TERP_RADIUS)
_Static_assert(TERP_NSYMBOLS == 1024, "Symbols are 1023 codes and the escape.");
_Static_assert(TERP_MAX_CODE == (1 << TERP_MAX_CODE_WIDTH) - 1,
               "Each code of this width has a symbol.");

/* Longest codeword of any codebook: a length fits in four bits. */
#define TERP_MAX_CODE_NBITS 15

/* Symbols in a tile, tiles in a partition. */
#define TERP_TILE_NSYMBOLS 4096
#define TERP_PARTITION_NTILES 16

/* The step is 2 * bound * (1 - 2^-step_slack_log2). The rest of the two bounds
 * absorbs the rounding of reconstructed values. */
#define TERP_MIN_STEP_SLACK_LOG2 1
#define TERP_MAX_STEP_SLACK_LOG2 12

static inline TERP_HOST_DEVICE double
terp_step_of(double bound, int step_slack_log2)
{
    double step = 2 * bound;
    double taken = step;
    for (int i = 0; i < step_slack_log2; i++)
        taken *= 0.5;
    return step - taken;
}
