/* Wide codes. Where the bound is tight, codes are wider than the dictionary's
 * symbols. Of such a chunk a code is split: its low bits, of which nothing can
 * be known, go to a section of their own, and what is above them is the
 * symbol. How many bits are low is chosen for each tile, by its codes. What the
 * tuner takes for it, and contexts, is found by interpolating sampled values,
 * the same for a whole chunk. doc/format.md, "Low bits". */
#pragma once

#include "codebooks/codebooks.h"
#include "codec/format/layout.h"
#include "codec/format/low_bits.h"
#include "codec/model/range.h"

/* ---- prices ---- */

/* The dictionary's row of what is above the low bits of a predictor's symbol.
 */
static inline TERP_HOST_DEVICE uint32_t
terp_row_of_wide(unsigned symbol, int wide)
{
    const int high =
        terp_high_of((int)symbol - terp_radius_of(wide), terp_unit_nbits(wide));
    const uint32_t row = (uint32_t)(high < 0 ? -high : high);

    return symbol == TERP_ESCAPE || row > TERP_MAX_CODE ? TERP_ROW_ESCAPE : row;
}

/* The largest row of a code that is none of an escape, be it from the tile. */
static inline TERP_HOST_DEVICE int
terp_sampled_max_code(int wide)
{
    const int most = terp_max_code_of(wide) >> terp_unit_nbits(wide);

    return most < TERP_MAX_CODE ? most : TERP_MAX_CODE;
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

/* Bits of a listed code: its number, a sign and all, and what a list and its
 * groups take besides. */
static inline TERP_HOST_DEVICE unsigned
terp_listed_nbits(int width)
{
    return (unsigned)width + 4;
}

/* What a code of `width` bits costs, in 1/16 bit, where `nbits_below` are below
 * its symbol in all tiles: what is above these has the cost of its logarithm
 * and 2.2 bits. Those below are packed in groups, whose widest number counts:
 * it is between the widest of a run and that of all. Codes that have no symbols
 * are escapes, whose words have six bits. */
static inline TERP_HOST_DEVICE uint32_t
terp_cost_in_all_tiles(int width, int run_width, int all_width, int nbits_below,
                       unsigned escape_nbytes)
{
    const int low_nbits = terp_low_of(nbits_below);
    const int code_width = width - (nbits_below - low_nbits);
    const int high = width - nbits_below;
    const int of_run = terp_number_width(run_width, nbits_below);
    const int of_all = terp_number_width(all_width, nbits_below);
    const bool fits = code_width < bit_width(TERP_WIDE_MAX_CODE) &&
                      code_width < TERP_MAX_CODE_WIDTH + low_nbits;

    return (nbits_below > 0 ? 8u : 0) + 8 * (uint32_t)(of_run + of_all) +
           (!fits       ? 16 * (8 * escape_nbytes + 6)
            : high <= 0 ? 8
            : high == 1 ? 40
                        : 35 + 16 * (uint32_t)high);
}

/* The same where tiles choose how many bits are low: a code costs its bits,
 * however many these are, but for those of a tail, and has a number where it is
 * none of a predictor's symbol. Four bits more of a code that no symbol of a
 * tile holds, with so many low bits, keep the tuner's samples in sight of how
 * wide codes are. */
static inline TERP_HOST_DEVICE uint32_t
terp_cost_in_own_tiles(int width, int run_width, int all_width, int nbits_below,
                       unsigned escape_nbytes)
{
    const int tail_nbits = nbits_below - terp_low_of(nbits_below);
    const int code_width = width - tail_nbits;
    const int of_run = terp_number_width(run_width, tail_nbits);
    const int of_all = terp_number_width(all_width, tail_nbits);
    const bool is_listed = width - nbits_below >= TERP_MAX_CODE_WIDTH;

    return 8 * (uint32_t)(of_run + of_all) +
           (code_width > bit_width(TERP_WIDE_MAX_CODE)
                ? 16 * (8 * escape_nbytes + 6)
            : width == 0 ? 8
            : code_width <= 0
                ? 24
                : 24 + 16 * (uint32_t)code_width + (is_listed ? 64u : 0u));
}

/* What decides is the second; where numbers are alike by it, the first does. */
static inline TERP_HOST_DEVICE uint32_t
terp_cost_of_width(int width, int run_width, int all_width, int nbits_below,
                   unsigned escape_nbytes)
{
    return terp_cost_in_all_tiles(width, run_width, all_width, nbits_below,
                                  escape_nbytes) +
           4 * terp_cost_in_own_tiles(width, run_width, all_width, nbits_below,
                                      escape_nbytes);
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
 * widths of samples, whole runs of them. Escapes' numbers have so many bytes.
 */
int
terp_nbits_below(const int8_t *widths, int nwidths, int most,
                 unsigned escape_nbytes);

/* By the interpolation whose codes have the fewest. */
int
terp_nbits_below_of_forms(const struct terp_code_widths *widths, int most,
                          unsigned escape_nbytes);

/* ---- the low bits of a tile ---- */

/* A tile's codes are told by their sizes, in half octaves: of magnitudes of
 * w bits 2w - 1, or 2w if the second highest bit is set too, which 1 has not; 0
 * of 0. A predictor's escape has the last. A group's are a bit each. */
#define TERP_TILE_SIZE_ESCAPE 31
#define TERP_TILE_NSIZES (TERP_TILE_SIZE_ESCAPE + 1)

static inline TERP_HOST_DEVICE int
terp_width_of_size(int size)
{
    return (size + 1) / 2;
}

/* The bits of the largest of some sizes that are none of an escape. */
static inline TERP_HOST_DEVICE int
terp_width_of_sizes(uint32_t sizes)
{
    return bit_width(sizes & ~(UINT32_C(1) << TERP_TILE_SIZE_ESCAPE)) / 2;
}

/* Bits that do not count where means are weighed against differences: somewhat
 * fewer than are below symbols, which may be all there are. */
static inline TERP_HOST_DEVICE int
terp_nbits_not_weighed(int nbits_below)
{
    return nbits_below > 4 ? nbits_below - 4 : 0;
}

/* Where all codes have fewer bits than this, none of them are low: the
 * dictionary has entries for such. */
#define TERP_TILE_MIN_WIDTH 7

/* The half octave of what is above the low bits of a code, which is rounded. */
static inline TERP_HOST_DEVICE int
terp_half_octave_of_size(int size, int low_nbits)
{
    const int row = size - 2 * low_nbits;

    return size == TERP_TILE_SIZE_ESCAPE || row >= TERP_HALF_OCTAVE_ESCAPE
               ? TERP_HALF_OCTAVE_ESCAPE
           : size == 0 || row < -1 ? 0
           : row < 1               ? 1
                                   : row;
}
_Static_assert(TERP_HALF_OCTAVE_ESCAPE == 2 * TERP_MAX_CODE_WIDTH + 1,
               "What is above low bits has a symbol up to this size.");

/* What a symbol that is not zero counts more, in 1/1024 bit: a token takes
 * time, and more low bits leave fewer of them. */
#define TERP_PRICE_OF_TOKEN 192u

/* Bits of a group's low numbers: the widest counts of those that do not escape.
 */
static inline TERP_HOST_DEVICE unsigned
terp_low_group_nbits(uint32_t sizes, unsigned nnumbers, int low_nbits)
{
    const int most = 2 * (low_nbits + TERP_MAX_CODE_WIDTH);
    const int width = terp_width_of_sizes(
        most < TERP_TILE_SIZE_ESCAPE ? sizes & ((UINT32_C(2) << most) - 1)
                                     : sizes);

    return low_nbits == 0
               ? 0
               : TERP_LOW_WIDTH_NBITS +
                     nnumbers * (unsigned)terp_number_width(width, low_nbits);
}
