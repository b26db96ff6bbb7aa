/* Whether a table's columns are so unlike each other that streams of their own
 * may be smaller: a sample of rows tells. Integers alone decide.
 * doc/design/11-lossless.md, "Columns". */
#pragma once

#include "codec/format/bytes.h"
#include "codec/format/columns.h"
#include "codec/format/ranks.h"

TERP_C_BEGIN

/* Smaller tables save less than the heads of their columns take. */
#define TERP_COLUMNS_MIN_NVALUES 1024
#define TERP_COLUMNS_MIN_NROWS 65

/* A stream of so many bytes is that of a constant, or next to it. */
#define TERP_COLUMNS_MIN_NBYTES 128

/* A stream of columns is kept where it is smaller than this part of the best
 * other one, since only readers of version 2 read it. */
#define TERP_COLUMNS_WORTH_NUMERATOR 49
#define TERP_COLUMNS_WORTH_DENOMINATOR 50

/* Whether chunks may be tables for callers that want these parameters. */
static inline bool
terp_columns_are_allowed(const struct terp_params *params,
                         const struct terp_chunk *chunk, uint64_t nvalues)
{
    return params->effort != TERP_EFFORT_FAST &&
           params->format != TERP_FORMAT_FIRST_VERSION &&
           terp_columns_are_possible(chunk) &&
           nvalues >= TERP_COLUMNS_MIN_NVALUES &&
           nvalues / chunk->dims[chunk->rank - 1] >= TERP_COLUMNS_MIN_NROWS;
}

/* The sample: pairs of neighbouring rows, spread over the table. */
#define TERP_COLUMNS_MAX_NPAIRS 256

static inline TERP_HOST_DEVICE uint64_t
terp_columns_npairs(uint64_t nrows)
{
    return min_u64(nrows - 1, TERP_COLUMNS_MAX_NPAIRS);
}

/* The values of a sample. */
static inline TERP_HOST_DEVICE uint64_t
terp_columns_nkeys(const struct terp_chunk *chunk, uint64_t nvalues)
{
    const uint64_t n = (uint64_t)terp_columns_n(chunk);

    return 2 * n * terp_columns_npairs(nvalues / n);
}

/* The key of value i of the sample: the first row of a pair, the second row, and
 * then the next pair. */
static inline TERP_HOST_DEVICE uint64_t
terp_columns_sampled_key(const struct terp_chunk *chunk, const void *values,
                         uint64_t nvalues, uint64_t i)
{
    const int nbytes = terp_value_nbytes(chunk->type);
    const uint64_t n = (uint64_t)terp_columns_n(chunk), nrows = nvalues / n;
    const uint64_t distance = (nrows - 1) / terp_columns_npairs(nrows);
    const uint64_t pair = i / (2 * n);
    const uint64_t row = pair * distance + pair * 7919 % distance;
    const uint8_t *at = (const uint8_t *)values +
                        (row * n + i % (2 * n)) * (uint64_t)nbytes;
    uint64_t bits = 0;

    for (int b = 0; b < nbytes; b++)
        bits |= (uint64_t)at[chunk->big_endian ? nbytes - 1 - b : b] << (8 * b);
    return terp_rank_key(chunk->type, nbytes, bits);
}

/* The groups of columns (the mask of the body) that a sample suggests; 0: a
 * stream of columns is not worth a trial. */
unsigned
terp_columns_groups(const struct terp_chunk *chunk, uint64_t nvalues,
                    const uint64_t *keys);

TERP_C_END
