/* Wide codes. Where the bound is tight, codes are wider than the dictionary's
 * symbols. Of such a chunk a code is split: its low bits, of which nothing can
 * be known, go to a section of their own, and what is above them is the
 * symbol. How many bits are low is found by interpolating sampled values, the
 * same for a whole chunk. doc/format.md, "Low bits". */
#ifndef TERP_CODEC_MODEL_LOW_BITS_H
#define TERP_CODEC_MODEL_LOW_BITS_H

#include "codebooks/codebooks.h"
#include "codec/format/layout.h"
#include "codec/format/low_bits.h"
#include "codec/model/range.h"

/* ---- prices ---- */

/* The dictionary's row of what is above the low bits of a predictor's symbol.
 */
static inline TERP_HOST_DEVICE uint32_t
terp_row_of_wide(unsigned wide, int low_nbits)
{
    const int high =
        terp_high_of((int)wide - terp_radius_of(low_nbits), low_nbits);

    return wide == TERP_ESCAPE ? TERP_ROW_ESCAPE
                               : (uint32_t)(high < 0 ? -high : high);
}

/* A chunk's cost by that of its symbols: what is below them is in addition. */
static inline TERP_HOST_DEVICE uint64_t
terp_cost_with_low_bits(uint64_t cost, uint64_t nvalues, int nbits_below)
{
    return cost + (nvalues << TERP_COST_FRACTION_NBITS) * (unsigned)nbits_below;
}

/* ---- how many bits are low ---- */

/* Values are sampled in runs along the fastest dimension, as far as it goes on;
 * the interpolations of each are along every dimension from two values and from
 * four. Where lorenzo is chosen, its differences along the chosen dimensions
 * are sampled then, in more runs. */
#define TERP_LOW_BITS_RUN_NVALUES 8
#define TERP_LOW_BITS_NRUNS 64
#define TERP_LOW_BITS_NVALUES (TERP_LOW_BITS_NRUNS * TERP_LOW_BITS_RUN_NVALUES)
#define TERP_LOW_BITS_NFORMS (2 * TERP_NDIMS)
#define TERP_DIFFERENCES_NRUNS 256
#define TERP_DIFFERENCES_NVALUES \
    (TERP_DIFFERENCES_NRUNS * TERP_LOW_BITS_RUN_NVALUES)

/* Codes can be wide only if the range has at least this many steps. */
#define TERP_LOW_BITS_MIN_NSTEPS 1024

/* Whether the values may be such that this is so. A step is no smaller than the
 * bound, but for rounding. */
static inline TERP_HOST_DEVICE bool
terp_bound_may_have_low_bits(enum terp_bound_mode mode, double bound)
{
    return mode == TERP_BOUND_ABSOLUTE ||
           TERP_LOW_BITS_MIN_NSTEPS * bound < 1.001;
}

/* Whether they are. A step may be 0, whose number nobody knows. */
static inline TERP_HOST_DEVICE bool
terp_may_be_wide(double nsteps)
{
    return !(nsteps < TERP_LOW_BITS_MIN_NSTEPS);
}

/* Magnitudes of codes are told by their bits: so many, or more. */
#define TERP_MAX_WIDTH 62

/* The most bits below symbols. A spline's codes have no tails. */
static inline TERP_HOST_DEVICE int
terp_below_max_nbits(int value_nbytes, enum terp_predictor asked)
{
    return asked == TERP_PREDICTOR_SPLINE
               ? TERP_LOW_MAX_NBITS
               : TERP_LOW_MAX_NBITS + terp_tail_max_nbits(value_nbytes);
}
#define TERP_BELOW_MAX_NBITS (TERP_LOW_MAX_NBITS + 48) /* of any type */

/* Where sample i of so many runs is, which may be behind the last value. Runs
 * are evenly spread, but for an offset that meets every coordinate of dims that
 * divide the distance. */
static inline TERP_HOST_DEVICE uint64_t
terp_low_bits_sample_at(uint64_t nvalues, uint64_t nruns, uint64_t i)
{
    const uint64_t distance = nvalues / nruns + 1;
    const uint64_t run = i / TERP_LOW_BITS_RUN_NVALUES;

    return (run * distance + run * 7919 % distance) % nvalues +
           i % TERP_LOW_BITS_RUN_NVALUES;
}

/* Values of which is asked what bits they have in common, one by one. */
#define TERP_COMMON_BITS_NSAMPLES 4096

static inline TERP_HOST_DEVICE uint64_t
terp_common_bits_sample_at(uint64_t nvalues, uint64_t i)
{
    const uint64_t distance = nvalues / TERP_COMMON_BITS_NSAMPLES + 1;

    return (i * distance + i * 7919 % distance) % nvalues;
}

/* Of the values of all runs, the bits of their codes by each interpolation; -1
 * where there is none. */
struct terp_code_widths {
    int8_t at[TERP_LOW_BITS_NFORMS][TERP_LOW_BITS_NVALUES];
};

/* Of bits below symbols, those that are a code's low bits: the others are a
 * tail. */
static inline TERP_HOST_DEVICE int
terp_low_of(int nbits_below)
{
    return nbits_below < TERP_LOW_MAX_NBITS ? nbits_below : TERP_LOW_MAX_NBITS;
}

/* The bits of a number of what is below symbols, which has a sign too, where a
 * code has so many. */
static inline TERP_HOST_DEVICE int
terp_number_width(int width, int nbits_below)
{
    return width < nbits_below ? width + (width > 0) : nbits_below;
}

/* What a code of `width` bits costs of which `nbits_below` are below its
 * symbol, in 1/16 bit: above these its logarithm and 2.2 bits. Those below are
 * packed in groups, whose widest number counts: it is between the widest of a
 * run and that of all. Codes of `max_code` and less have symbols; others are
 * escapes, whose words have six bits. */
static inline TERP_HOST_DEVICE uint32_t
terp_cost_of_width(int width, int run_width, int all_width, int nbits_below,
                   int max_code, unsigned escape_nbytes)
{
    const int low_nbits = terp_low_of(nbits_below);
    const int high = width - nbits_below;
    const int of_run = terp_number_width(run_width, nbits_below);
    const int of_all = terp_number_width(all_width, nbits_below);
    const bool escapes =
        width - (nbits_below - low_nbits) >=
        bit_width((unsigned)terp_wide_max_code(max_code, low_nbits));

    return (nbits_below > 0 ? 8u : 0) + 8 * (uint32_t)(of_run + of_all) +
           (escapes     ? 16 * (8 * escape_nbytes + 6)
            : high <= 0 ? 8
            : high == 1 ? 40
                        : 35 + 16 * (uint32_t)high);
}

/* Whether an interpolation's codes have fewer bits on the mean than another's,
 * by the sums of some. */
static inline TERP_HOST_DEVICE bool
terp_has_fewer_bits(uint32_t sum, uint32_t n, uint32_t other_sum,
                    uint32_t other_n)
{
    return n > 0 && (other_n == 0 || sum * other_n < other_sum * n);
}

/* How many bits of a chunk's codes are below symbols, `most` of them, by the
 * widths of samples, whole runs of them. Symbols of tiles go up to `max_code`;
 * escapes' numbers have so many bytes. */
int
terp_nbits_below(const int8_t *widths, int nwidths, int most, int max_code,
                 unsigned escape_nbytes);

/* By the interpolation whose codes have the fewest. */
int
terp_nbits_below_of_forms(const struct terp_code_widths *widths, int most,
                          int max_code, unsigned escape_nbytes);

#endif
