/* The loops over values, for each type. cpu/predict/stages_f32.c and
 * cpu/predict/stages_f64.c each include cpu/predict/stages_impl.h, which fills
 * a struct cpu_stages with the loops of one type. */
#pragma once

#include "codec/format/layout.h"
#include "codec/model/domain.h"
#include "codec/model/exact.h"
#include "codec/model/lorenzo.h"
#include "codec/model/lossless.h"
#include "codec/model/lossless_samples.h"
#include "codec/model/low_bits.h"
#include "codec/model/range.h"
#include "codec/model/repeats.h"
#include "codec/model/sample.h"
#include "codec/model/spline.h"
#include "codec/model/valid_range.h"

struct cpu_fills {
    uint64_t bits[TERP_NFILLS];
};

/* The extremes of values that are not special (`min` > `max`: there are none),
 * and the number of special values. */
struct cpu_stats {
    double min, max;
    uint64_t nspecials;
};

/* The points that a thread predicts at a time, along dimension 0. */
#define CPU_RUN_NVALUES TERP_SAMPLE_RUN_NVALUES

/* The length of a run's line in memory. Not a power of two: loads of lines that
 * are 4096 bytes apart would wait for each other's stores. */
#define CPU_LINE_NVALUES (CPU_RUN_NVALUES + 16)

/* Scratch memory of a worker, in values: of a run that is predicted, and of a
 * run that is sampled. Too large for a thread's stack. */
#define CPU_RUN_SCRATCH_NVALUES (10 * CPU_LINE_NVALUES)
#define CPU_SAMPLE_SCRATCH_NVALUES \
    (CPU_RUN_SCRATCH_NVALUES + (TERP_NCLASSES + 3) * CPU_LINE_NVALUES + 16)
_Static_assert(CPU_SAMPLE_SCRATCH_NVALUES % 16 == 0,
               "That of each worker is aligned for vectors.");

/* Scratch memory for the estimates of the lossless prediction, in bytes. */
#define CPU_LOSSLESS_SCRATCH_NBYTES ((size_t)32 << 10)

/* The values of a vector loop over lanes: enough for compilers to make vectors
 * of either type instead of unrolling the loop. */
#define CPU_VECTOR_NVALUES 16

/* A class of a level, ready to be predicted. */
struct cpu_class {
    unsigned predicting; /* dimensions, a subset of the class's odd ones */
    enum terp_spline spline;
    int blend_order; /* terp_blend_order; 1: no blending */
    uint64_t extent[TERP_NDIMS];
    uint64_t nrows;
    uint64_t nruns_per_row;
    void *values;
    const void *before; /* the decoded values before the program changed some;
                           values that equal them must keep their bits. NULL:
                           encode as always */
    uint16_t *symbols;
    struct {
        const void *values;
        uint64_t extent[TERP_NDIMS];
        uint64_t stride[TERP_NDIMS + 1]; /* the last stride is that of bricks */
    } source[TERP_NCLASSES]; /* the class without these odd dimensions */
};

static inline void
cpu_set_source(struct cpu_class *cls, unsigned lack, const void *values,
               const uint64_t extent[TERP_NDIMS])
{
    cls->source[lack].values = values;
    cls->source[lack].stride[0] = 1;
    for (int d = 0; d < TERP_NDIMS; d++) {
        cls->source[lack].extent[d] = extent[d];
        cls->source[lack].stride[d + 1] =
            cls->source[lack].stride[d] * extent[d];
    }
}

/* The step and the limits of a level's quantizer. */
struct cpu_quantizer {
    double step;
    double grid_step; /* of bound ratio one */
    double bound;
    int max_code;            /* of the predictor's codes */
    int wide;                /* terp_unit_nbits */
    int tail_nbits;          /* of lorenzo's differences, below the codes */
    int radius;              /* terp_radius_of */
    bool may_be_wide;        /* terp_may_be_wide */
    struct terp_exact exact; /* lorenzo's exact integers */
    unsigned escape_nbytes;  /* expected size of an escaped value */
    const struct terp_limits *limits; /* NULL: none */
    bool has_exact_escapes; /* escapes are put on the grid only if that is
                             * exact */
    bool has_specials;      /* a NaN among the values is a special value */
    double reference;       /* prediction of the first anchor; a value of the
                             * type */
};

/* Sets the members that depend on how many bits codes have below their symbols.
 */
static inline void
cpu_set_nbits_below(struct cpu_quantizer *quantizer, int nbits_below)
{
    const int unit_nbits = terp_low_of(nbits_below);

    quantizer->wide = quantizer->may_be_wide ? unit_nbits + 1 : 0;
    quantizer->tail_nbits = nbits_below - unit_nbits;
    quantizer->max_code = terp_max_code_of(quantizer->wide);
    quantizer->radius = terp_radius_of(quantizer->wide);
}

/* How many bits lorenzo's differences have below their symbols. */
static inline int
cpu_nbits_below(const struct cpu_quantizer *quantizer)
{
    return terp_unit_nbits(quantizer->wide) + quantizer->tail_nbits;
}

/* The grid of escaped values: whole steps of bound ratio one from the reference
 * value. All members are values of the type. */
struct cpu_grid {
    double reference, step, inverse, limit;
    const struct terp_limits *limits; /* of decoded values; NULL: none */
    bool has_exact_escapes;
};

/* Returns a word with the high bit of each of four symbols set, unless that
 * symbol is an escape. */
static inline uint64_t
cpu_not_escapes(uint64_t symbols)
{
    const uint64_t low = UINT64_C(0x7FFF7FFF7FFF7FFF);

    _Static_assert(TERP_ESCAPE == 0, "A sum tells whether a symbol is zero.");
    return (((symbols & low) + low) | symbols) & ~low;
}

/* The first escape of symbols [first, end); `end` if there is none. */
static inline uint64_t
cpu_find_escape(const uint16_t *symbols, uint64_t first, uint64_t end)
{
    uint64_t i = first, word;

    for (; i + 64 <= end; i += 64) {
        uint16_t found = 0;
        for (uint64_t j = 0; j < 64; j++)
            found |= symbols[i + j] == TERP_ESCAPE;
        if (found)
            break;
    }
    for (; i + 4 <= end; i += 4) {
        memcpy(&word, symbols + i, sizeof word);
        if (cpu_not_escapes(word) != UINT64_C(0x8000800080008000))
            break;
    }
    while (i < end && symbols[i] != TERP_ESCAPE)
        i++;
    return i;
}

/* The model of the lossless prediction. */
struct cpu_lossless {
    struct terp_exact exact; /* its significand is 1 */
    enum terp_lossless_form form;
    unsigned dims;  /* terp_lossless_dims_are_valid */
    int64_t center; /* subtracted from integers */
};

/* The bits of sampled differences, for each order along each dimension. */
struct cpu_order_weights {
    uint64_t nbits[TERP_LOSSLESS_NORDERS];
    uint64_t remainder_nbits;
    uint64_t nsampled;
};

/* A dimension of an array [nouter][extent][ninner]. */
struct cpu_axis {
    uint64_t nouter, extent, ninner;
    uint64_t first;      /* the first point with a difference: usually 0 */
    uint64_t begin, end; /* of the `ninner` lines side by side: usually all of
                          * them */
};

/* Sampled values, by their keys. */
struct cpu_repeats_table {
    uint64_t entry[TERP_REPEATS_NSLOTS];
    bool is_found[TERP_REPEATS_NSLOTS];
};

struct cpu_stages {
    int value_nbytes;
    uint64_t negative_zero_bits;

    void (*scan)(const void *values, uint64_t nvalues,
                 const struct cpu_fills *fills, struct cpu_stats *stats_ret);

    /* The errors of the samples by which a domain is searched
     * (codec/model/domain.h), with steps of 1 / inverse_step. */
    void (*lag_errors)(const void *values, uint64_t nvalues,
                       const struct cpu_fills *fills, double inverse_step,
                       uint64_t lag, uint64_t set,
                       struct terp_lag_errors *errors_ret);

    /* Counts samples that repeat others, compared with `reach` values on each
     * side (codec/model/repeats.h). */
    uint64_t (*count_repeats)(const void *values, uint64_t nvalues,
                              uint64_t reach, int near_nbits,
                              struct cpu_repeats_table *table);

    /* The widths of the codes of a chunk's samples (codec/model/low_bits.h),
     * with steps of 1 / inverse_step. */
    void (*code_widths)(const void *values, const struct terp_layout *layout,
                        const struct cpu_fills *fills, double inverse_step,
                        int nzeros, struct terp_code_widths *widths_ret);

    /* The widths of lorenzo's differences along `dims` of
     * TERP_DIFFERENCES_NVALUES samples. `fills` is NULL if no value is
     * special. */
    void (*difference_widths)(const void *values,
                              const struct terp_layout *layout,
                              const struct cpu_fills *fills,
                              const struct cpu_quantizer *quantizer,
                              unsigned dims, int8_t *widths_ret);

    /* The sum of the squared errors of `others` in one block, as fractions of
     * the range, without special values (codec/model/psnr.h). */
    double (*squares)(const void *values, const void *others, uint64_t nvalues,
                      const struct cpu_fills *fills, double half_range);

    /* The least exponent and the fewest trailing zeros of sampled values, for
     * terp_exact_of. */
    void (*common_bits)(const void *values, uint64_t nvalues,
                        const struct cpu_fills *fills, int *exponent_ret,
                        int *nzeros_ret);

    /* Finds a value that fills runs of samples and is not special yet; returns
     * false if there is none. */
    bool (*common_value)(const void *values, uint64_t nvalues,
                         const struct cpu_fills *fills, uint64_t *bits_ret);

    /* Sets bit i of `mask` (64 a word) if value i is special. Works on whole
     * words: `first` is a multiple of 64. */
    void (*mask)(const void *values, uint64_t first, uint64_t end,
                 const struct cpu_fills *fills, uint64_t *mask);

    /* `deinterleave` separates the values of a lattice into even and odd
     * points, and `interleave` joins them. Special values become NaN unless
     * `fills` is NULL. */
    void (*deinterleave)(const void *lattice, uint64_t nlattice,
                         const struct cpu_fills *fills, void *even, void *odd);
    void (*interleave)(const void *even, const void *odd, uint64_t nlattice,
                       void *lattice);

    /* Predicts and quantizes, or predicts and reconstructs, runs [first, end)
     * of a class in place. Escaped values are put on the grid if that keeps the
     * bound. `scratch` holds CPU_RUN_SCRATCH_NVALUES. */
    void (*quantize)(const struct cpu_class *cls,
                     const struct cpu_quantizer *quantizer, uint64_t first,
                     uint64_t end, void *scratch);
    void (*reconstruct)(const struct cpu_class *cls,
                        const struct cpu_quantizer *quantizer, uint64_t first,
                        uint64_t end, void *scratch);

    /* Predicts one in `every` runs of a class from original values, and returns
     * the rows of the dictionary that the codes belong to: along each set of
     * the class's dimensions, or along all of them if they are blended,
     * [dims][capacity]. Returns the number of rows of each set. `scratch` holds
     * CPU_SAMPLE_SCRATCH_NVALUES. */
    uint64_t (*sample)(const struct cpu_class *cls,
                       const struct cpu_quantizer *quantizer, uint64_t every,
                       uint64_t capacity, void *scratch, uint16_t *rows_ret);

    /* Quantizes or reconstructs anchors. The first is predicted by the
     * reference value, each other by the anchor before it. `before` is as in
     * struct cpu_class. */
    void (*quantize_chain)(void *values, const void *before, uint64_t nvalues,
                           const struct cpu_quantizer *quantizer,
                           uint16_t *symbols);
    void (*reconstruct_chain)(void *values, uint64_t nvalues,
                              const struct cpu_quantizer *quantizer,
                              const uint16_t *symbols);

    struct cpu_grid (*grid)(const struct cpu_quantizer *quantizer);
    /* `to_grid` counts the steps from the grid's reference to an escaped value;
     * it returns false if the value is not on the grid. `from_grid` makes the
     * value from the number of steps. */
    bool (*to_grid)(const void *value, const struct cpu_grid *grid,
                    int64_t *nsteps_ret);
    void (*from_grid)(int64_t nsteps, const struct cpu_grid *grid,
                      void *value_ret);

    /* Dual quantization: makes integers of the values' width in `quants`. A
     * value that its integer does not reproduce within the bound is
     * unpredictable: its bit is set in `mask`. Special values get 0. Returns
     * the number of unpredictable values. */
    uint64_t (*prequantize)(const void *values, uint64_t nvalues,
                            const struct cpu_quantizer *quantizer,
                            uint64_t *mask, void *quants);
    void (*dequantize)(const void *quants, uint64_t nvalues,
                       const struct cpu_quantizer *quantizer, void *values);

    /* Counts the values of [first, end) that are not special and nearly equal
     * their integers; `end` is at most TERP_LORENZO_NVALUES. */
    uint64_t (*count_near)(const void *values, const void *quants,
                           const uint64_t *mask, uint64_t first, uint64_t end,
                           const struct cpu_quantizer *quantizer);

    /* For special points, whose bits in `mask` are set: `repeat` copies the
     * integer that is `distance` points earlier (points [first, end), in
     * order); `clear` writes 0 (points [0, end)). */
    void (*repeat)(void *quants, const uint64_t *mask, uint64_t first,
                   uint64_t end, uint64_t distance);
    void (*clear)(void *quants, const uint64_t *mask, uint64_t end);

    /* quants[i] -= (or +=) quants[i - distance] along a dimension of an array,
     * modulo 2^width. */
    void (*difference)(void *quants, struct cpu_axis axis);
    void (*accumulate)(void *quants, struct cpu_axis axis);
    /* Sums of sums along rows: those from the second point on, then those from
     * the first one on. */
    void (*accumulate_twice)(void *quants, struct cpu_axis axis);

    /* inout[i] = quants[i] - inout[i], modulo 2^width. */
    void (*subtract_from)(const void *quants, uint64_t n, void *inout);

    /* Like `difference` and `accumulate`, but with means in place of quants[i -
     * distance] (codec/model/lorenzo.h). */
    void (*difference_means)(void *quants, struct cpu_axis axis);
    void (*accumulate_means)(void *quants, struct cpu_axis axis);

    /* Adds up how large differences and means would be, at point i of `n` lines
     * side by side; n is at most TERP_LORENZO_NVALUES. */
    void (*weigh_means)(const void *line, uint64_t i, struct cpu_axis axis,
                        uint64_t n, int low_nbits, uint64_t *differences,
                        uint64_t *means);

    /* `symbols_of_quants` makes symbols from differences; a difference too
     * large for a code escapes and stays in `quants`. `quants_of_symbols` makes
     * differences from symbols; `quants` must hold the tails, if there are any.
     */
    void (*symbols_of_quants)(const void *quants, uint64_t nvalues,
                              const struct cpu_quantizer *quantizer,
                              uint16_t *symbols);
    void (*quants_of_symbols)(const uint16_t *symbols, uint64_t nvalues,
                              const struct cpu_quantizer *quantizer,
                              void *quants);

    /* `numbers_of_tails` makes the numbers that encode the tails of `n`
     * differences; `tails_of_numbers` makes the tails. */
    void (*numbers_of_tails)(const void *quants, const uint16_t *symbols,
                             uint64_t n, const struct cpu_quantizer *quantizer,
                             uint64_t *numbers);
    void (*tails_of_numbers)(const uint64_t *numbers, uint64_t n, void *quants);

    /* Makes the integers of the lossless prediction, as prequantize makes
     * lorenzo's; and from integers their values without remainders. */
    uint64_t (*lossless_quantize)(const void *values, uint64_t nvalues,
                                  const struct cpu_lossless *model,
                                  uint64_t *mask, void *quants);
    uint64_t (*count_unpredictable)(const void *values, uint64_t nvalues,
                                    const struct cpu_fills *fills,
                                    const struct cpu_lossless *model);
    void (*lossless_restore)(const void *quants, uint64_t nvalues,
                             const struct cpu_lossless *model, void *values);

    /* Remainders of points [first, end), where `first` is a multiple of 64.
     * Special points have none; `mask` NULL: there are none. The first two
     * functions count the bits of all remainders. `put_remainders` writes
     * remainders to `bytes_ret`, and `join_remainders` makes values from
     * integers and from the remainders at `bytes`. CPU_BITS_PADDING_NBYTES
     * after them are written or read, too. */
    uint64_t (*nbits_of_remainders_of_values)(const void *values,
                                              uint64_t first, uint64_t end,
                                              const struct cpu_lossless *model,
                                              const uint64_t *mask);
    uint64_t (*nbits_of_remainders)(const void *quants, uint64_t first,
                                    uint64_t end,
                                    const struct cpu_lossless *model,
                                    const uint64_t *mask);
    void (*put_remainders)(const void *values, uint64_t first, uint64_t end,
                           const struct cpu_lossless *model,
                           const uint64_t *mask, uint8_t *bytes_ret);
    void (*join_remainders)(const void *quants, uint64_t first, uint64_t end,
                            const struct cpu_lossless *model,
                            const uint64_t *mask, const uint8_t *bytes,
                            void *values);

    /* `gather` copies the differences at `n` positions out of `quants`;
     * `scatter` copies differences to these positions. */
    void (*gather)(const void *quants, const uint64_t *positions, uint64_t n,
                   void *differences_ret);
    void (*scatter)(const void *differences, const uint64_t *positions,
                    uint64_t n, void *quants);

    /* Groups of `n` differences, at most TERP_SHIFT_GROUP_NVALUES.
     * `split_shift` chooses a group's zeros, if it may have them, and its
     * shift, which it returns; it makes symbols of the codes above the shift.
     * `put_below_shift` writes the bits below the shift, and `join_shift` makes
     * the differences. CPU_BITS_PADDING_NBYTES after the bytes are written or
     * read, too. */
    int (*split_shift)(const void *differences, uint64_t n, bool has_zeros,
                       const struct cpu_quantizer *quantizer, int *nzeros_ret,
                       uint16_t *symbols_ret);
    void (*put_below_shift)(const void *differences, const uint16_t *symbols,
                            uint64_t n, int nzeros, int shift,
                            uint8_t *bytes_ret);
    void (*join_shift)(const uint16_t *symbols, uint64_t n, int nzeros,
                       int shift, const uint8_t *bytes, void *differences_ret);

    /* All functions below need CPU_LOSSLESS_SCRATCH_NBYTES of scratch memory.
     * The median of the integers of samples. */
    int64_t (*center)(const void *values, uint64_t nvalues,
                      const struct cpu_fills *fills,
                      const struct cpu_lossless *model, void *scratch);

    /* Adds the bits of a run's differences for every order; the cost, in 1/16
     * bit, of a run's differences under the model's order. Adds nothing for a
     * run of special values. */
    void (*weigh_orders)(const void *values, const struct terp_layout *layout,
                         const struct cpu_fills *fills,
                         const struct cpu_lossless *model,
                         const struct terp_lossless_run *run, void *scratch,
                         struct cpu_order_weights *weights);
    uint64_t (*cost_of_run)(const void *values,
                            const struct terp_layout *layout,
                            const struct cpu_fills *fills,
                            const struct cpu_lossless *model,
                            const struct terp_lossless_run *run, void *scratch);
};

/* The bits of a value that was widened to a double, and back. */
static inline uint64_t
cpu_value_bits(const struct cpu_stages *stages, double value)
{
    if (stages->value_nbytes == 8)
        return double_bits(value);
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return bits;
}

static inline double
cpu_value_of_bits(const struct cpu_stages *stages, uint64_t bits)
{
    if (stages->value_nbytes == 8)
        return double_of_bits(bits);
    uint32_t narrow_bits = (uint32_t)bits;
    float narrow;
    memcpy(&narrow, &narrow_bits, sizeof narrow);
    return (double)narrow;
}

extern const struct cpu_stages terp_cpu_stages_f32, terp_cpu_stages_f64;

/* The stages of float32 or of float64. */
static inline const struct cpu_stages *
cpu_stages_of(enum terp_type type)
{
    return type == TERP_FLOAT32 ? &terp_cpu_stages_f32 : &terp_cpu_stages_f64;
}

/* The fill values of the caller's parameters. */
static inline struct cpu_fills
cpu_fills_of(const struct cpu_stages *stages, const struct terp_params *params)
{
    return (struct cpu_fills){{terp_fill_of(params, stages->value_nbytes),
                               terp_missing_of(params, stages->value_nbytes),
                               stages->negative_zero_bits}};
}

static inline void
cpu_stats_add(struct cpu_stats *all, const struct cpu_stats *some)
{
    all->min = some->min < all->min ? some->min : all->min;
    all->max = some->max > all->max ? some->max : all->max;
    all->nspecials += some->nspecials;
}
