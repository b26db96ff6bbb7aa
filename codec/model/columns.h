/* Decides by a sample of rows whether the columns of a table differ so much
 * that separate streams may be smaller. The decisions use integers only, so all
 * engines decide alike. doc/design/06-lossless.md, "Columns". */
#pragma once

#include "codec/format/bytes.h"
#include "codec/format/columns.h"
#include "codec/format/ranks.h"

TERP_C_BEGIN

/* In smaller tables, the heads of streams take more bytes than columns save. */
#define TERP_COLUMNS_MIN_NVALUES 1024
#define TERP_COLUMNS_MIN_NROWS 128

/* Streams of at most this many bytes hold a constant, or nearly one. */
#define TERP_COLUMNS_MIN_NBYTES 128

/* A stream of columns is kept if its size is below this fraction of the
 * smallest other stream's size, because only readers of version 2 can read it.
 */
#define TERP_COLUMNS_WORTH_NUMERATOR 49
#define TERP_COLUMNS_WORTH_DENOMINATOR 50

/* The most bytes that a stream of columns may have, if the smallest other
 * stream has `nbytes`. */
static inline uint64_t
terp_columns_most(uint64_t nbytes)
{
    return nbytes > 0 ? (nbytes * TERP_COLUMNS_WORTH_NUMERATOR - 1) /
                            TERP_COLUMNS_WORTH_DENOMINATOR
                      : 0;
}

/* The most bytes that groups without references may have, if the smallest other
 * stream without references has `nbytes`. Columns may find more references than
 * the whole chunk does, so half of the required saving suffices. */
static inline uint64_t
terp_columns_most_unreferred(uint64_t nbytes)
{
    return nbytes - nbytes / (2 * TERP_COLUMNS_WORTH_DENOMINATOR);
}

/* Whether references save so many more bits in groups than in the whole chunk
 * that groups may be smaller for that reason alone. */
static inline bool
terp_columns_refer_more(uint64_t nbits, uint64_t nbits_of_chunk)
{
    return nbits > nbits_of_chunk + nbits_of_chunk / 50;
}

/* Whether streams of columns are allowed for a chunk with these parameters. */
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
#define TERP_COLUMNS_SAMPLE_EVERY 4

static inline TERP_HOST_DEVICE uint64_t
terp_columns_npairs(uint64_t nrows)
{
    return min_u64(nrows / TERP_COLUMNS_SAMPLE_EVERY, TERP_COLUMNS_MAX_NPAIRS);
}

/* The number of values of a sample. */
static inline TERP_HOST_DEVICE uint64_t
terp_columns_nkeys(const struct terp_chunk *chunk, uint64_t nvalues)
{
    const uint64_t n = (uint64_t)terp_columns_n(chunk);

    return 2 * n * terp_columns_npairs(nvalues / n);
}

/* The first row of a pair. */
static inline TERP_HOST_DEVICE uint64_t
terp_columns_sampled_row(uint64_t nrows, uint64_t pair)
{
    const uint64_t distance = (nrows - 1) / terp_columns_npairs(nrows);

    return pair * distance + pair * 7919 % distance;
}

/* The key of a value, which has the chunk's byte order. */
static inline TERP_HOST_DEVICE uint64_t
terp_columns_key(const struct terp_chunk *chunk, const uint8_t *at)
{
    const int nbytes = terp_value_nbytes(chunk->type);
    uint64_t bits = 0;

    for (int b = 0; b < nbytes; b++)
        bits |= (uint64_t)at[chunk->big_endian ? nbytes - 1 - b : b] << (8 * b);
    return terp_rank_key(chunk->type, nbytes, bits);
}

/* Writes the keys of a pair: of its first row, then of the next row. */
static inline TERP_HOST_DEVICE void
terp_columns_sample_pair(const struct terp_chunk *chunk, const void *values,
                         uint64_t nvalues, uint64_t pair, uint64_t *keys_ret)
{
    const int nbytes = terp_value_nbytes(chunk->type);
    const uint64_t n = (uint64_t)terp_columns_n(chunk);
    const uint8_t *at =
        (const uint8_t *)values +
        terp_columns_sampled_row(nvalues / n, pair) * n * (uint64_t)nbytes;

    for (uint64_t i = 0; i < 2 * n; i++, at += nbytes)
        keys_ret[i] = terp_columns_key(chunk, at);
}

/* Writes the keys of all pairs. */
static inline void
terp_columns_sample(const struct terp_chunk *chunk, const void *values,
                    uint64_t nvalues, uint64_t *keys_ret)
{
    const uint64_t n = (uint64_t)terp_columns_n(chunk);

    for (uint64_t p = 0; p < terp_columns_npairs(nvalues / n); p++)
        terp_columns_sample_pair(chunk, values, nvalues, p,
                                 keys_ret + 2 * n * p);
}

/* The groups of columns (the mask of the body) that a sample suggests; 0: a
 * stream of columns is not worth a trial. *are_cheaper_ret: whether the sample
 * tells that columns save bits; otherwise, only that they are unlike. */
unsigned
terp_columns_groups(const struct terp_chunk *chunk, uint64_t nvalues,
                    const uint64_t *keys, bool *are_cheaper_ret);

TERP_C_END
