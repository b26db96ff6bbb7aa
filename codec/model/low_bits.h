/* Wide codes. Under a tight bound, codes are wider than the dictionary's
 * symbols. Such a code is split: its low bits, which are noise, go to a section
 * of their own, and the high part is the symbol. Each tile chooses its number
 * of low bits from its codes. The tuner and contexts use one number for the
 * whole chunk, the unit, which is found by interpolating sampled values.
 * doc/format.md, "Low bits". */
#pragma once

#include "codebooks/codebooks.h"
#include "codec/format/layout.h"
#include "codec/format/low_bits.h"
#include "codec/model/range.h"

/* ---- prices ---- */

/* The dictionary's row of the high part of a predictor's symbol. */
static inline TERP_HOST_DEVICE uint32_t
terp_row_of_wide(unsigned symbol, int wide)
{
    const int high =
        terp_high_of((int)symbol - terp_radius_of(wide), terp_unit_nbits(wide));
    const uint32_t row = (uint32_t)(high < 0 ? -high : high);

    return symbol == TERP_ESCAPE || row > TERP_MAX_CODE ? TERP_ROW_ESCAPE : row;
}

/* The largest row of a sampled code that is not an escape. */
static inline TERP_HOST_DEVICE int
terp_sampled_max_code(int wide)
{
    const int most = terp_max_code_of(wide) >> terp_unit_nbits(wide);

    return most < TERP_MAX_CODE ? most : TERP_MAX_CODE;
}

/* The cost of a chunk: the cost of its symbols, plus the bits below them. */
static inline TERP_HOST_DEVICE uint64_t
terp_cost_with_low_bits(uint64_t cost, uint64_t nvalues, int nbits_below)
{
    return cost + (nvalues << TERP_COST_FRACTION_NBITS) * (unsigned)nbits_below;
}

/* ---- how many bits are low ---- */

/* Values are sampled in runs of consecutive values along the fastest dimension.
 * Each is interpolated along every dimension from two values and from four.
 * After Lorenzo is chosen, its differences along the chosen dimensions are
 * sampled in more runs. */
#define TERP_LOW_BITS_RUN_NVALUES 8
#define TERP_LOW_BITS_NRUNS 64
#define TERP_LOW_BITS_NVALUES (TERP_LOW_BITS_NRUNS * TERP_LOW_BITS_RUN_NVALUES)
#define TERP_LOW_BITS_NINTERPOLANTS (2 * TERP_NDIMS)
#define TERP_DIFFERENCES_NRUNS 256
#define TERP_DIFFERENCES_NVALUES \
    (TERP_DIFFERENCES_NRUNS * TERP_LOW_BITS_RUN_NVALUES)

/* Codes are wide only if the range has at least this many steps. */
#define TERP_LOW_BITS_MIN_NSTEPS 1024

/* Whether the range of some values has so many steps under the bound. A step is
 * at least the bound, except for rounding. */
static inline TERP_HOST_DEVICE bool
terp_bound_may_have_low_bits(enum terp_bound_mode mode, double bound)
{
    return mode == TERP_BOUND_ABSOLUTE ||
           TERP_LOW_BITS_MIN_NSTEPS * bound < 1.001;
}

/* Whether the range has at least TERP_LOW_BITS_MIN_NSTEPS steps. NaN, for a
 * step of 0, counts as large. */
static inline TERP_HOST_DEVICE bool
terp_may_be_wide(double nsteps)
{
    return !(nsteps < TERP_LOW_BITS_MIN_NSTEPS);
}

/* Widths of codes are 0 to this, or one more for all larger ones. */
#define TERP_MAX_WIDTH 62

/* The largest number of bits below symbols: of a code's low bits and its tail.
 * A spline's codes have no tails. */
static inline TERP_HOST_DEVICE int
terp_below_max_nbits(int value_nbytes, enum terp_predictor wanted)
{
    return wanted == TERP_PREDICTOR_SPLINE
               ? TERP_LOW_MAX_NBITS
               : TERP_LOW_MAX_NBITS + terp_tail_max_nbits(value_nbytes);
}
#define TERP_BELOW_MAX_NBITS (TERP_LOW_MAX_NBITS + 48) /* of any type */

/* The index of sample i of `nruns` runs; it may lie behind the last value. Runs
 * are evenly spread, with an offset that reaches every coordinate of dims that
 * divide the distance. */
static inline TERP_HOST_DEVICE uint64_t
terp_low_bits_sample_at(uint64_t nvalues, uint64_t nruns, uint64_t i)
{
    const uint64_t distance = nvalues / nruns + 1;
    const uint64_t run = i / TERP_LOW_BITS_RUN_NVALUES;

    return (run * distance + run * 7919 % distance) % nvalues +
           i % TERP_LOW_BITS_RUN_NVALUES;
}

/* Single values that are sampled to find the bits that all values have in
 * common. */
#define TERP_COMMON_BITS_NSAMPLES 4096

static inline TERP_HOST_DEVICE uint64_t
terp_common_bits_sample_at(uint64_t nvalues, uint64_t i)
{
    const uint64_t distance = nvalues / TERP_COMMON_BITS_NSAMPLES + 1;

    return (i * distance + i * 7919 % distance) % nvalues;
}

/* Widths of the codes of the values of all runs, under each interpolation; -1
 * if the interpolation does not exist. */
struct terp_code_widths {
    int8_t at[TERP_LOW_BITS_NINTERPOLANTS][TERP_LOW_BITS_NVALUES];
};

/* How many of the bits below a symbol are low bits; the others are a tail. */
static inline TERP_HOST_DEVICE int
terp_low_of(int nbits_below)
{
    return nbits_below < TERP_LOW_MAX_NBITS ? nbits_below : TERP_LOW_MAX_NBITS;
}

/* The bits of the number below a symbol, with its sign, for a code of `width`
 * bits. */
static inline TERP_HOST_DEVICE int
terp_number_width(int width, int nbits_below)
{
    return width < nbits_below ? width + (width > 0) : nbits_below;
}

/* Bits of a listed code: its number, a sign, and its share of the list and its
 * groups. */
static inline TERP_HOST_DEVICE unsigned
terp_listed_nbits(int width)
{
    return (unsigned)width + 4;
}

/* The cost, in 1/16 bit, of a code of `width` bits when `nbits_below` are below
 * the symbol in all tiles. The high part costs its logarithm and 2.2 bits.
 * Numbers below are packed in groups, whose widest number counts: its width is
 * between that of a run's widest number and that of all. A code without a
 * symbol is an escape, whose codeword has six bits. */
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

/* The same when each tile chooses its number of low bits. A code costs its
 * bits, however many are low; the bits of a tail are packed in groups; a code
 * too large for a predictor's symbol is an escape with a number. A code that
 * would have no symbol with `nbits_below` low bits costs four bits more, which
 * keeps the tuner's samples in a range that tells how wide codes are. */
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

/* The cost in own tiles decides; the cost in all tiles breaks ties. */
static inline TERP_HOST_DEVICE uint32_t
terp_cost_of_width(int width, int run_width, int all_width, int nbits_below,
                   unsigned escape_nbytes)
{
    return terp_cost_in_all_tiles(width, run_width, all_width, nbits_below,
                                  escape_nbytes) +
           4 * terp_cost_in_own_tiles(width, run_width, all_width, nbits_below,
                                      escape_nbytes);
}

/* Whether the codes of one interpolation have fewer bits on average than those
 * of another. */
static inline TERP_HOST_DEVICE bool
terp_has_fewer_bits(uint32_t sum, uint32_t n, uint32_t other_sum,
                    uint32_t other_n)
{
    return n > 0 && (other_n == 0 || sum * other_n < other_sum * n);
}

TERP_C_BEGIN

/* Returns how many bits below symbols give a chunk's codes the lowest estimated
 * cost, at most `most`. `widths` are the widths of sampled codes, in whole
 * runs; negative: no code. `escape_nbytes` is the size of an escape's number.
 */
int
terp_nbits_below(const int8_t *widths, int nwidths, int most,
                 unsigned escape_nbytes);

/* Calls terp_nbits_below for the interpolation whose codes have the fewest bits
 * on average. */
int
terp_nbits_below_of_interpolants(const struct terp_code_widths *widths,
                                 int most, unsigned escape_nbytes);

TERP_C_END

/* ---- the low bits of a tile ---- */

/* The size of a code, in half octaves: for a magnitude of w bits 2w - 1, or 2w
 * if the second highest bit is set, too (1 has none); 0 for 0;
 * TERP_TILE_SIZE_ESCAPE for a predictor's escape. A bit mask holds the sizes of
 * a group. */
#define TERP_TILE_SIZE_ESCAPE 31
#define TERP_TILE_NSIZES (TERP_TILE_SIZE_ESCAPE + 1)

static inline TERP_HOST_DEVICE int
terp_width_of_size(int size)
{
    return (size + 1) / 2;
}

/* The width of the largest size in a mask, without escapes. */
static inline TERP_HOST_DEVICE int
terp_width_of_sizes(uint32_t sizes)
{
    return bit_width(sizes & ~(UINT32_C(1) << TERP_TILE_SIZE_ESCAPE)) / 2;
}

/* Bits that are ignored when means are compared with differences: four fewer
 * than there are below symbols, because those may be all the bits there are. */
static inline TERP_HOST_DEVICE int
terp_nbits_not_weighed(int nbits_below)
{
    return nbits_below > 4 ? nbits_below - 4 : 0;
}

/* In a tile whose codes all have fewer bits than this, no bits are low: the
 * dictionary has entries for such codes. */
#define TERP_TILE_MIN_WIDTH 7

/* The half octave of the high part of a code, which is rounded. */
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
               "High parts up to this size have symbols.");

/* The surcharge on a nonzero symbol, in 1/1024 bit: a token takes time, and
 * more low bits leave fewer tokens. Prices alone would choose few low bits and
 * a token for nearly every code. */
#define TERP_PRICE_OF_TOKEN 192u

/* Bits of a group's low numbers. The widest number that does not escape
 * counts. */
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
