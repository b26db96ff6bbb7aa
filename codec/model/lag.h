/* Whether values are about as large as the values a fixed distance before them:
 * the rows of a matrix that has a block for each atom, say. Nothing else tells
 * such values, whose mantissas are noise. doc/design/06-lossless.md,
 * "Repeats". */
#pragma once

#include "codec/model/repeats.h"

/* Lags of up to TERP_LAG_MAX are tried on as many pairs of values, which follow
 * one another. */
#define TERP_LAG_MAX 256
#define TERP_LAG_NVALUES (2 * TERP_LAG_MAX)

/* So many bits of a float64 tell its size: its exponent and 8 bits. */
#define TERP_LAG_TOP_SHIFT 44

/* At least one pair in so many must agree in these bits. Of noise, one in some
 * hundred does. */
#define TERP_LAG_ONE_IN 16

/* Only chunks of float64 are sampled whose streams hold nearly all mantissas.
 * Smaller chunks stay as they were. */
#define TERP_LAG_MIN_NVALUES (UINT64_C(1) << 16)

static inline bool
terp_lag_is_possible(const struct terp_params *params,
                     const struct terp_chunk *chunk, uint64_t stream_nbytes)
{
    const uint64_t nvalues = terp_chunk_nvalues(chunk);

    return chunk->type == TERP_FLOAT64 && terp_is_lossless(params) &&
           terp_may_refer_exactly(params, chunk->type) &&
           nvalues >= TERP_LAG_MIN_NVALUES && stream_nbytes / 7 >= nvalues;
}

/* The first of the values that are sampled, in the middle of the chunk. */
static inline uint64_t
terp_lag_sample_at(uint64_t nvalues)
{
    return nvalues / 2 - TERP_LAG_MAX;
}

/* The lag at which the most values agree with those before them; 0: too few do.
 * `tops`: the upper bits of the values, without the sign. */
static inline uint64_t
terp_lag_find(const uint32_t tops[TERP_LAG_NVALUES])
{
    const uint32_t *last = tops + TERP_LAG_MAX;
    unsigned most = TERP_LAG_MAX / TERP_LAG_ONE_IN - 1;
    uint64_t best = 0;

    for (uint64_t lag = 1; lag <= TERP_LAG_MAX; lag++) {
        unsigned nequal = 0;
        for (int i = 0; i < TERP_LAG_MAX; i++)
            nequal += last[i] == (last - lag)[i];
        if (nequal > most) {
            most = nequal;
            best = lag;
        }
    }
    return best;
}

/* A value refers only if it has at least this many bits more than its
 * difference from the source. The surplus pays for the bits that code the width
 * of the difference, and for the marker, which interrupts the prediction of
 * other values. */
#define TERP_LAG_SAVED_NBITS 14
