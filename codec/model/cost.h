/* What sampled codes would cost in a stream. All costs are integers, in the
 * units of the dictionary's cost table, so that every engine finds the same. */
#pragma once

#include "codebooks/codebooks.h"
#include "codec/format/bytes.h"
#include "codec/format/low_bits.h"
#include "codec/model/range.h"

/* Samples are priced together, by one entry of the dictionary, but tiles have
 * one each: lorenzo's codes, which vary more from place to place than those of
 * splines, gain by that. How much they gain is estimated on runs of this many
 * values of a row, each of which is priced by its own mean. Rows no longer than
 * a run are too short for an estimate: those at the edge of a brick, which have
 * fewer neighbours, would look like places with larger codes, but no tile has
 * them alone. */
#define TERP_LORENZO_RUN_NVALUES 32

static inline TERP_HOST_DEVICE bool
terp_lorenzo_has_runs(uint64_t row_nvalues)
{
    return row_nvalues > TERP_LORENZO_RUN_NVALUES;
}

/* What a code costs where `mean` is 1 + 2e times the codes' mean magnitude: its
 * logarithm, a straight line between powers of two and a parabola on top. Both
 * in 1/1024. */
static inline TERP_HOST_DEVICE uint32_t
terp_cost_of_mean(uint32_t mean)
{
    uint32_t octave = (uint32_t)bit_width(mean) - 1;
    uint32_t x = (mean << (31 - octave) >> 21) - 1024;
    return ((octave - 10) << 10) + x + (352 * x * (1024 - x) >> 20);
}
#define TERP_2E 5567 /* in 1/1024 */

/* What n codes cost by the sum of their magnitudes, of which an escape's is
 * TERP_ROW_ESCAPE: at most TERP_MAX_RUN_COST a code. */
static inline TERP_HOST_DEVICE uint64_t
terp_cost_of_sum(uint64_t sum, uint64_t n)
{
    return n == 0 ? 0
                  : n * terp_cost_of_mean(
                            (uint32_t)(((n << 10) + TERP_2E * sum) / n));
}
#define TERP_MAX_RUN_COST (12 << 10)
_Static_assert(
    1024 + (uint64_t)TERP_2E * TERP_ROW_ESCAPE < 1 << 22,
    "A mean that a code can have is below 2^22, so that its octave is 12 at "
    "most.");

/* The same cost of a run, in 32 bits. */
static inline TERP_HOST_DEVICE uint32_t
terp_cost_of_run(uint32_t sum, uint32_t n)
{
    return n == 0 ? 0 : n * terp_cost_of_mean(((n << 10) + TERP_2E * sum) / n);
}
_Static_assert((uint64_t)TERP_LORENZO_RUN_NVALUES *(1024 +
                                                    TERP_2E * TERP_ROW_ESCAPE) <
                   (uint64_t)1 << 32,
               "What a run of escapes sums up to fits 32 bits.");

/* The cost of sampled codes where their runs' costs sum up to `of_runs`, and
 * `of_all` is the cost of all of them as one run. Tiles are longer than runs
 * and gain less, and where values differ much from place to place, splines gain
 * too: so there is a limit. */
static inline TERP_HOST_DEVICE uint64_t
terp_cost_in_runs(uint64_t cost, uint64_t of_runs, uint64_t of_all)
{
    uint64_t least = cost - cost / 18;

    if (of_runs >= of_all)
        return cost;
    cost = cost * ((3 * of_runs + of_all) / 4) / of_all;
    return cost > least ? cost : least;
}

/* The cost of `nvalues` values by that of `nsampled`. */
static inline TERP_HOST_DEVICE uint64_t
terp_scale_cost(uint64_t cost, uint64_t nvalues, uint64_t nsampled)
{
    return cost * (nvalues / nsampled) + cost * (nvalues % nsampled) / nsampled;
}

/* A spline's samples are rows of the dictionary, or one of these. A special
 * value costs nothing. What will stand in its place as a neighbour is not known
 * while values are sampled, and neither is the code of a value that such a
 * neighbour predicts. */
#define TERP_ROW_UNKNOWN TERP_NROWS
#define TERP_ROW_SPECIAL (TERP_NROWS + 1)

/* Samples of a class that is predicted along so many dimensions, and the cost
 * of those whose codes are known. */
struct terp_class_samples {
    unsigned npredicting;
    bool blends, blends_long;
    uint64_t nsampled, nunknown, nspecial;
    uint64_t cost;
};

/* The cost of a class of `nvalues` by its samples. An unknown code costs what
 * the known ones do on the mean, or two bits where none is known, and more: the
 * more so the fewer neighbours predict it, of which one is not known. A long
 * spline meets such neighbours where others do not. */
static inline TERP_HOST_DEVICE uint64_t
terp_cost_of_class(const struct terp_class_samples *samples, uint64_t nvalues)
{
    const uint64_t nunknown = samples->nunknown;
    const uint64_t nknown = samples->nsampled - nunknown - samples->nspecial;
    const uint64_t more_half_bits = samples->blends_long       ? 5
                                    : samples->blends          ? 2
                                    : samples->npredicting > 1 ? 4
                                                               : 5;
    const uint64_t of_unknown =
        (more_half_bits << TERP_COST_FRACTION_NBITS >> 1) +
        (nknown == 0 ? UINT64_C(2) << TERP_COST_FRACTION_NBITS
                     : samples->cost / nknown);

    return samples->nsampled == 0
               ? 0
               : terp_scale_cost(samples->cost + nunknown * of_unknown, nvalues,
                                 samples->nsampled);
}

/* What a class costs under a spline, by what it costs under the cubic one. It
 * is told by what classes of one odd dimension cost under either, of all
 * dimensions that predict this one: only those are sampled under every spline.
 */
static inline TERP_HOST_DEVICE uint64_t
terp_cost_under_spline(uint64_t cost, uint64_t of_spline, uint64_t of_cubic)
{
    /* At most so much that a cost stays a 64-bit number. */
    double most = 16 * (double)of_cubic, wanted = (double)of_spline;

    return of_cubic == 0
               ? cost
               : (uint64_t)((double)cost * ((wanted < most ? wanted : most) /
                                            (double)of_cubic));
}

/* Bytes that the number of an escape likely has, in a chunk whose range is so
 * many steps. */
static inline TERP_HOST_DEVICE unsigned
terp_likely_escape_nbytes(double nsteps, int value_nbytes)
{
    const int nbytes = (terp_exponent_of(nsteps) - 1022 + 8) / 8;

    return (unsigned)(nbytes < 2              ? 2
                      : nbytes > value_nbytes ? value_nbytes
                                              : nbytes);
}

/* What is known of sampled codes that no symbol holds: how wide codes may be,
 * and how many bytes the number of an escape likely has. */
struct terp_beyond {
    int wide;
    unsigned number_nbytes;
};

/* Where most codes are wide, a tile has low bits of its own: its codes take
 * about so many bits at least, and those that are none of a symbol with the
 * samples' unit so many more than that. In half bits. */
#define TERP_BROAD_CODE_HALF_BITS 15
#define TERP_BEYOND_HALF_BITS 16

/* Where numbers have more bytes than this, escapes are likely none of a code of
 * 16 bits. */
#define TERP_CODED_MAX_NUMBER_NBYTES 3

/* The cost of `ncodes` sampled codes, in units of the dictionary's cost table:
 * what they cost under the best entry, and the numbers of the `nescapes` among
 * them that no symbol holds. If these may be codes nevertheless, they are such
 * in tiles whose low bits suit them, where that is cheaper. */
static inline TERP_HOST_DEVICE uint64_t
terp_cost_of_codes(uint64_t of_entry, uint64_t ncodes, uint64_t nescapes,
                   struct terp_beyond beyond)
{
    const int unit_nbits = terp_unit_nbits(beyond.wide);
    const uint64_t half_bit = UINT64_C(1) << TERP_COST_FRACTION_NBITS >> 1;
    const uint64_t broad = ncodes * TERP_BROAD_CODE_HALF_BITS * half_bit;
    const uint64_t escaping =
        of_entry + nescapes * beyond.number_nbytes * 16 * half_bit;
    const uint64_t coded =
        (of_entry > broad ? of_entry : broad) +
        nescapes * (2 * (unsigned)unit_nbits + TERP_BEYOND_HALF_BITS) *
            half_bit;

    const bool may_be_coded =
        terp_max_code_of(beyond.wide) >> unit_nbits > TERP_MAX_CODE &&
        beyond.number_nbytes <= TERP_CODED_MAX_NUMBER_NBYTES;

    return may_be_coded && coded < escaping ? coded : escaping;
}

/* What a value costs that lorenzo cannot reproduce. */
#define TERP_UNPREDICTABLE_COST (UINT64_C(64) << TERP_COST_FRACTION_NBITS)

/* What differences along some dimensions cost, by samples of them. */
struct terp_difference_samples {
    uint64_t nsampled;       /* values, of which */
    uint64_t nunpredictable; /* so many are not reproduced by their integer */
    uint64_t nnear;          /* and so many of the others nearly exactly */
    uint64_t cost;           /* of the codes under one entry */
    uint64_t run_costs;      /* of runs, each by its own mean */
    uint64_t sum, ncodes;    /* of the codes' magnitudes; codes */
};

/* The cost of a chunk of `nvalues` by its samples, of which there is one at
 * least; `in_runs` tells tiles apart, which the choice of dimensions does not.
 */
static inline TERP_HOST_DEVICE uint64_t
terp_cost_of_differences(const struct terp_difference_samples *samples,
                         uint64_t nvalues, bool in_runs)
{
    const uint64_t cost =
        in_runs
            ? terp_cost_in_runs(samples->cost, samples->run_costs,
                                terp_cost_of_sum(samples->sum, samples->ncodes))
            : samples->cost;

    return terp_scale_cost(cost + samples->nunpredictable *
                                      TERP_UNPREDICTABLE_COST,
                           nvalues, samples->nsampled);
}

/* What a predictor is chosen by. */
struct terp_price {
    uint64_t cost;  /* of the chunk, UINT64_MAX if that cannot be known */
    uint64_t nnear; /* values that it reproduces nearly exactly, as is known */
};
