/* Estimates the cost of sampled codes in a stream. All costs are integers in
 * the unit of the dictionary's cost table, so that both engines find the same.
 * doc/design/03-tuner.md. */
#pragma once

#include "codebooks/codebooks.h"
#include "codec/format/bytes.h"
#include "codec/format/low_bits.h"
#include "codec/model/range.h"

/* Samples are priced together by one entry of the dictionary, while each tile
 * has its own. Lorenzo's codes vary more from place to place than a spline's,
 * and gain by that. The gain is estimated from runs of this many values of a
 * row, each priced by its own mean. Rows that are not longer than a run give no
 * estimate: the runs at the edge of a brick have fewer neighbours and larger
 * codes, but no tile consists of them alone. */
#define TERP_LORENZO_RUN_NVALUES 32

static inline TERP_HOST_DEVICE bool
terp_lorenzo_has_runs(uint64_t row_nvalues)
{
    return row_nvalues > TERP_LORENZO_RUN_NVALUES;
}

/* The cost of a code, in 1/1024 bit, from `mean` = 1 + 2e * (mean magnitude of
 * the codes), in 1/1024. It approximates the logarithm by a straight line
 * between powers of two plus a parabola. */
static inline TERP_HOST_DEVICE uint32_t
terp_cost_of_mean(uint32_t mean)
{
    uint32_t octave = (uint32_t)bit_width(mean) - 1;
    uint32_t x = (mean << (31 - octave) >> 21) - 1024;
    return ((octave - 10) << 10) + x + (352 * x * (1024 - x) >> 20);
}
#define TERP_2E 5567 /* in 1/1024 */

/* The cost of n codes from the sum of their magnitudes. An escape counts as
 * TERP_ROW_ESCAPE. The cost is at most TERP_MAX_RUN_COST for each code. */
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
    "The mean of any codes is below 2^22, so its octave is at most 12.");

/* The same for a run, in 32 bits. */
static inline TERP_HOST_DEVICE uint32_t
terp_cost_of_run(uint32_t sum, uint32_t n)
{
    return n == 0 ? 0 : n * terp_cost_of_mean(((n << 10) + TERP_2E * sum) / n);
}
_Static_assert((uint64_t)TERP_LORENZO_RUN_NVALUES *(1024 +
                                                    TERP_2E * TERP_ROW_ESCAPE) <
                   (uint64_t)1 << 32,
               "The sum of a run of escapes fits in 32 bits.");

/* Corrects the cost of sampled codes for tiles that vary. `of_runs` is the sum
 * of the costs of runs, `of_all` the cost of all codes as one run. The gain
 * counts for three quarters because tiles are longer than runs. It is at most
 * an eighteenth because splines gain too where values differ much from place to
 * place. */
static inline TERP_HOST_DEVICE uint64_t
terp_cost_in_runs(uint64_t cost, uint64_t of_runs, uint64_t of_all)
{
    uint64_t least = cost - cost / 18;

    if (of_runs >= of_all)
        return cost;
    cost = cost * ((3 * of_runs + of_all) / 4) / of_all;
    return cost > least ? cost : least;
}

/* Scales the cost of `nsampled` values to `nvalues`. */
static inline TERP_HOST_DEVICE uint64_t
terp_scale_cost(uint64_t cost, uint64_t nvalues, uint64_t nsampled)
{
    return cost * (nvalues / nsampled) + cost * (nvalues % nsampled) / nsampled;
}

/* A spline's sample is a row of the dictionary or one of these. A special value
 * costs nothing. Its replacement as a neighbour is not yet known when values
 * are sampled, so a value that it predicts has an unknown code. */
#define TERP_ROW_UNKNOWN TERP_NROWS
#define TERP_ROW_SPECIAL (TERP_NROWS + 1)

/* Samples of a class that `npredicting` dimensions predict. `cost` is that of
 * the known codes. */
struct terp_class_samples {
    unsigned npredicting;
    bool blends, blends_long;
    uint64_t nsampled, nunknown, nspecial;
    uint64_t cost;
};

/* The cost of a class of `nvalues` from its samples. An unknown code costs as
 * much as the mean known code (two bits if no code is known) plus one to two
 * and a half bits: more when fewer neighbours predict it, since one of them is
 * unknown. Long splines have such neighbours where other splines do not. */
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

/* The cost of a class under a spline, from its cost under the cubic one. Only
 * classes of one odd dimension are sampled under every spline. `of_spline` and
 * `of_cubic` are their costs, summed over the dimensions that predict this
 * class. */
static inline TERP_HOST_DEVICE uint64_t
terp_cost_under_spline(uint64_t cost, uint64_t of_spline, uint64_t of_cubic)
{
    /* The limit keeps costs within 64 bits. */
    double most = 16 * (double)of_cubic, wanted = (double)of_spline;

    return of_cubic == 0
               ? cost
               : (uint64_t)((double)cost * ((wanted < most ? wanted : most) /
                                            (double)of_cubic));
}

/* The likely bytes of an escape's number in a chunk whose range is `nsteps`
 * steps. */
static inline TERP_HOST_DEVICE unsigned
terp_likely_escape_nbytes(double nsteps, int value_nbytes)
{
    const int nbytes = (terp_exponent_of(nsteps) - 1022 + 8) / 8;

    return (unsigned)(nbytes < 2              ? 2
                      : nbytes > value_nbytes ? value_nbytes
                                              : nbytes);
}

/* Facts about sampled codes that no symbol holds: how wide codes may be, and
 * the likely bytes of an escape's number. */
struct terp_beyond {
    int wide;
    unsigned number_nbytes;
};

/* Prices, in half bits, in a tile that chooses its own low bits because most
 * codes are wide. Each code costs at least TERP_BROAD_CODE_HALF_BITS. A code
 * that has no symbol under the samples' unit costs the unit's bits and
 * TERP_BEYOND_HALF_BITS more. */
#define TERP_BROAD_CODE_HALF_BITS 15
#define TERP_BEYOND_HALF_BITS 16

/* When numbers have more bytes than this, escapes are likely too large for a
 * code of 16 bits. */
#define TERP_CODED_MAX_NUMBER_NBYTES 3

/* The cost of `ncodes` sampled codes, in units of the dictionary's cost table.
 * Of these, `nescapes` have no symbol. Two prices are compared and the lower
 * counts: the best entry's cost plus the escapes' numbers; or, if codes may
 * hold the escapes, a tile with low bits of its own. */
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

/* The price of a value that Lorenzo cannot reproduce: 64 bits. */
#define TERP_UNPREDICTABLE_COST (UINT64_C(64) << TERP_COST_FRACTION_NBITS)

/* Samples of the differences along some dimensions. */
struct terp_difference_samples {
    uint64_t nsampled;       /* values */
    uint64_t nunpredictable; /* values whose integer does not reproduce them */
    uint64_t nnear;          /* other values that are reproduced nearly
                                exactly */
    uint64_t cost;           /* cost of the codes under one entry */
    uint64_t run_costs;      /* cost of runs, each by its own mean */
    uint64_t sum, ncodes;    /* sum of the codes' magnitudes; number of codes */
};

/* The cost of a chunk of `nvalues` from its samples, at least one. `in_runs`:
 * allow for tiles that vary; the choice of dimensions does not. */
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

/* The price by which a predictor is chosen. */
struct terp_price {
    uint64_t cost;  /* of the chunk; UINT64_MAX: unknown */
    uint64_t nnear; /* values known to be reproduced nearly exactly */
};
