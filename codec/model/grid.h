/* Finds the step of a chunk whose values are integers times a step: decimals,
 * scaled integers, times. The search uses plain operations of double without
 * libm, so all engines decide alike. doc/design/06-lossless.md, "Grids". */
#pragma once

#include "codec/model/ranks.h"

TERP_C_BEGIN

/* The head of the stream takes more bytes than smaller chunks can save. */
#define TERP_GRID_MIN_NVALUES 4096

/* Sampled values. */
#define TERP_GRID_NSAMPLES 128
_Static_assert(TERP_GRID_NSAMPLES <= TERP_RANKS_MIN_NSAMPLES,
               "No value is sampled twice.");

/* At most one value of so many may stand in the table. */
#define TERP_GRID_FITS_OF 8

/* Whether streams of grids are allowed for a chunk with these parameters. */
static inline bool
terp_grids_are_possible(const struct terp_params *params,
                        const struct terp_chunk *chunk, uint64_t nvalues)
{
    return terp_ranks_are_possible(params, chunk, nvalues) &&
           chunk->type <= TERP_FLOAT64 && nvalues >= TERP_GRID_MIN_NVALUES;
}

/* The key of sample i of TERP_GRID_NSAMPLES. */
static inline TERP_HOST_DEVICE uint64_t
terp_grid_sampled_key(const struct terp_chunk *chunk, const void *values,
                      uint64_t nvalues, uint64_t i)
{
    const uint64_t every = terp_ranks_nsamples(nvalues) / TERP_GRID_NSAMPLES;

    return terp_ranks_sampled_key(chunk, values, nvalues, i * every);
}

/* The integer whose value a float may be: the quotient of the float and the
 * step, rounded. False: the float is not on the grid. `inverse` is
 * terp_grid_inverse. */
static inline bool
terp_grid_integer(const struct terp_grid *grid, double inverse, int nbytes,
                  uint64_t bits, int64_t *k_ret)
{
    /* Larger integers save too few bits of a value. */
    const double most = nbytes == 8 ? 0x1p50 : 0x1p20;
    const double magic = 0x1.8p52; /* its sum with x rounds x */
    const double quotient = terp_rank_float(nbytes, bits) * inverse;
    uint64_t made;

    if (!(quotient > -most && quotient < most))
        return false;
    const double rounded = quotient + magic - magic;
    *k_ret = (int64_t)rounded;
    return terp_grid_bits(grid, *k_ret, nbytes, &made) && made == bits;
}

/* ---- drift ---- */

/* The number of sampled differences between an integer and the one before. It
 * is odd, so the median is one of them. */
#define TERP_GRID_NDIFFERENCES 255

/* The index of the first integer of sampled difference d. */
static inline uint64_t
terp_grid_difference_at(uint64_t nvalues, uint64_t d)
{
    const uint64_t distance = (nvalues - 1) / TERP_GRID_NDIFFERENCES;

    return d * distance + d * 7919 % distance;
}
_Static_assert(TERP_GRID_MIN_NVALUES > TERP_GRID_NDIFFERENCES,
               "No difference is sampled twice.");

/* Returns the median of n sampled differences if at least 7 of 8 have one sign,
 * otherwise 0. Sorts the differences. Integers that rise and fall may repeat,
 * and a drift would make the repeats differ. */
int64_t
terp_grid_drift(int n, int64_t *differences);

/* The inverse of the step. */
double
terp_grid_inverse(const struct terp_grid *grid);

/* Finds the step of the sampled values of a chunk of floats, whose keys are
 * changed. grid_ret->mantissa is 0 if the values are on no grid, or if a grid
 * would hardly make the stream smaller. Only the step is set. */
void
terp_grid_find(enum terp_type type, uint64_t *keys, struct terp_grid *grid_ret);

/* Whether `nnumbers` numbers may take less than ranks in a stream of
 * `stream_nbytes`, which has a table of `ntable` values. Where nearly all
 * numbers have a value, ranks are the same numbers, and a grid only saves the
 * table. */
static inline bool
terp_grid_may_beat_ranks(const struct terp_grid *grid, uint64_t nnumbers,
                         uint64_t ntable, uint64_t table_nbytes,
                         uint64_t stream_nbytes)
{
    return grid->drift != 0 || nnumbers > ntable + ntable / 64 ||
           table_nbytes * TERP_RANKS_WORTH_DENOMINATOR >
               stream_nbytes *
                   (TERP_RANKS_WORTH_DENOMINATOR - TERP_RANKS_WORTH_NUMERATOR);
}

TERP_C_END
