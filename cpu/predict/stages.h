/* The stages that touch values, once per type.
 * cpu/predict/stages_f32.c and cpu/predict/stages_f64.c instantiate
 * cpu/predict/stages_impl.h. */
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

/* What a pass over values finds: the extremes of those that are not special,
 * where `min` > `max` when there are none, and the number of the others. */
struct cpu_stats {
    double min, max;
    uint64_t nspecials;
};

/* Threads take points in runs of this many along dimension 0. */
#define CPU_RUN_NVALUES TERP_SAMPLE_RUN_NVALUES

/* A line of such a run in memory: lines that are 4096 bytes apart would wait
 * for each other. */
#define CPU_LINE_NVALUES (CPU_RUN_NVALUES + 16)

/* Values that stages work in, of a worker's own memory: of a run that is
 * predicted, and of one that is sampled. A thread's stack is too small. */
#define CPU_RUN_SCRATCH_NVALUES (10 * CPU_LINE_NVALUES)
#define CPU_SAMPLE_SCRATCH_NVALUES \
    (CPU_RUN_SCRATCH_NVALUES + (TERP_NCLASSES + 3) * CPU_LINE_NVALUES + 16)
_Static_assert(CPU_SAMPLE_SCRATCH_NVALUES % 16 == 0,
               "That of each worker is aligned for vectors.");

/* Bytes of the same for the estimates of the lossless prediction. */
#define CPU_LOSSLESS_SCRATCH_NBYTES ((size_t)32 << 10)

/* Values of a vector loop over lanes: so many that compilers make vectors of
 * it, in either type, before they unroll it. */
#define CPU_VECTOR_NVALUES 16

/* One class of one level, ready to be predicted. */
struct cpu_class {
    unsigned predicting; /* dimensions, of those odd in the class */
    enum terp_spline spline;
    int blend_order; /* terp_blend_order; 1 where nothing is blended */
    uint64_t extent[TERP_NDIMS];
    uint64_t nrows;
    uint64_t nruns_per_row;
    void *values;
    const void
        *before; /* earlier values, of which the same ones stay; or NULL */
    uint16_t *symbols;
    struct {
        const void *values;
        uint64_t extent[TERP_NDIMS];
        uint64_t stride[TERP_NDIMS + 1]; /* the last one of bricks */
    } source[TERP_NCLASSES]; /* the class that lacks these odd dimensions */
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

/* Step and limits of a level's quantizer. */
struct cpu_quantizer {
    double step;
    double grid_step; /* of bound ratio one */
    double bound;
    int max_code;            /* of the predictor's codes */
    int wide;                /* terp_unit_nbits */
    int tail_nbits;          /* of lorenzo's differences, below codes */
    int radius;              /* terp_radius_of */
    bool may_be_wide;        /* terp_may_be_wide */
    struct terp_exact exact; /* lorenzo */
    unsigned escape_nbytes;  /* likely, of a number */
    const struct terp_limits *limits; /* NULL: none */
    bool has_exact_escapes; /* they are put on the grid as they are, or not */
    bool has_specials;      /* NaN among the values stands for a special */
    double reference;       /* predicts the first anchor; a value of the type */
};

/* Of codes that have so many bits below symbols. */
static inline void
cpu_set_nbits_below(struct cpu_quantizer *quantizer, int nbits_below)
{
    const int unit_nbits = terp_low_of(nbits_below);

    quantizer->wide = quantizer->may_be_wide ? unit_nbits + 1 : 0;
    quantizer->tail_nbits = nbits_below - unit_nbits;
    quantizer->max_code = terp_max_code_of(quantizer->wide);
    quantizer->radius = terp_radius_of(quantizer->wide);
}

/* Bits of lorenzo's differences below symbols. */
static inline int
cpu_nbits_below(const struct cpu_quantizer *quantizer)
{
    return terp_unit_nbits(quantizer->wide) + quantizer->tail_nbits;
}

/* Where escaped values are put: whole steps of bound ratio one from the
 * reference value. All are values of the type. */
struct cpu_grid {
    double reference, step, inverse, limit;
    const struct terp_limits *limits; /* of decoded values; NULL: none */
    bool has_exact_escapes;
};

/* Has the high bit of each of four symbols that is not an escape. */
static inline uint64_t
cpu_not_escapes(uint64_t symbols)
{
    const uint64_t low = UINT64_C(0x7FFF7FFF7FFF7FFF);

    _Static_assert(TERP_ESCAPE == 0, "A sum tells whether a symbol is zero.");
    return (((symbols & low) + low) | symbols) & ~low;
}

/* The first escape of symbols [first, end), or end. */
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
    struct terp_exact exact; /* whose significand is 1 */
    enum terp_lossless_form form;
    unsigned dims;  /* terp_lossless_dims_are_valid */
    int64_t center; /* what integers are told from */
};

/* The bits of samples' differences of each order along each dimension. */
struct cpu_order_weights {
    uint64_t nbits[TERP_LOSSLESS_NORDERS];
    uint64_t remainder_nbits;
    uint64_t nsampled;
};

/* A dimension of an array [nouter][extent][ninner]. */
struct cpu_axis {
    uint64_t nouter, extent, ninner;
    uint64_t first;      /* that differences are taken to: usually 0 */
    uint64_t begin, end; /* of the `ninner` lines side by side: usually all */
};

/* What is looked up of sampled values. */
struct cpu_repeats_table {
    uint64_t entry[TERP_REPEATS_NSLOTS];
    bool is_found[TERP_REPEATS_NSLOTS];
};

struct cpu_stages {
    int value_nbytes;
    uint64_t negative_zero_bits;

    void (*scan)(const void *values, uint64_t nvalues,
                 const struct cpu_fills *fills, struct cpu_stats *stats_ret);

    /* Errors of the samples of a search for the domain (codec/model/domain.h),
     * with steps of 1 / inverse_step. */
    void (*lag_errors)(const void *values, uint64_t nvalues,
                       const struct cpu_fills *fills, double inverse_step,
                       uint64_t lag, uint64_t set,
                       struct terp_lag_errors *errors_ret);

    /* How many samples are found to repeat others, told apart by `reach` values
     * on each side (codec/model/repeats.h). */
    uint64_t (*count_repeats)(const void *values, uint64_t nvalues,
                              uint64_t reach, int near_nbits,
                              struct cpu_repeats_table *table);

    /* The bits of the codes of a chunk's samples (codec/model/low_bits.h), with
     * steps of 1 / inverse_step. */
    void (*code_widths)(const void *values, const struct terp_layout *layout,
                        const struct cpu_fills *fills, double inverse_step,
                        int nzeros, struct terp_code_widths *widths_ret);

    /* The bits of lorenzo's differences along `dims` of
     * TERP_DIFFERENCES_NVALUES samples. `fills` is NULL where no value is
     * special. */
    void (*difference_widths)(const void *values,
                              const struct terp_layout *layout,
                              const struct cpu_fills *fills,
                              const struct cpu_quantizer *quantizer,
                              unsigned dims, int8_t *widths_ret);

    /* The sum of the squares of how far `others` are from values that are not
     * special, as parts of the range: of one block (codec/model/psnr.h). */
    double (*squares)(const void *values, const void *others, uint64_t nvalues,
                      const struct cpu_fills *fills, double half_range);

    /* What sampled values have in common, for terp_exact_of. */
    void (*common_bits)(const void *values, uint64_t nvalues,
                        const struct cpu_fills *fills, int *exponent_ret,
                        int *nzeros_ret);

    /* The bits of a value that is not special yet and stands in runs, if
     * samples show one. */
    bool (*common_value)(const void *values, uint64_t nvalues,
                         const struct cpu_fills *fills, uint64_t *bits_ret);

    /* Bit i of `mask` (nvalues bits, 64 a word) tells if value i is special.
     * Works on whole words: `first` is a multiple of 64. */
    void (*mask)(const void *values, uint64_t first, uint64_t end,
                 const struct cpu_fills *fills, uint64_t *mask);

    /* A run of 2 * n (or one less) lattice values to their even and odd
     * points, and back. `fills` is NULL when no special must become a NaN. */
    void (*deinterleave)(const void *lattice, uint64_t nlattice,
                         const struct cpu_fills *fills, void *even, void *odd);
    void (*interleave)(const void *even, const void *odd, uint64_t nlattice,
                       void *lattice);

    /* Runs [first, end) of a class, values in place: predict and quantize,
     * predict and reconstruct. What escapes is put on the grid if that is
     * within the bound. `scratch` has CPU_RUN_SCRATCH_NVALUES. */
    void (*quantize)(const struct cpu_class *cls,
                     const struct cpu_quantizer *quantizer, uint64_t first,
                     uint64_t end, void *scratch);
    void (*reconstruct)(const struct cpu_class *cls,
                        const struct cpu_quantizer *quantizer, uint64_t first,
                        uint64_t end, void *scratch);

    /* One in `every` runs of a class, predicted from original values: rows of
     * the dictionary that its codes would be, along each set of its dimensions,
     * or all of them where they are blended, [dims][capacity]. Returns how many
     * there are of each. `scratch` has CPU_SAMPLE_SCRATCH_NVALUES. */
    uint64_t (*sample)(const struct cpu_class *cls,
                       const struct cpu_quantizer *quantizer, uint64_t every,
                       uint64_t capacity, void *scratch, uint16_t *rows_ret);

    /* Anchors, each predicted by the one before, the first by the reference
     * value. `before`: as of a class. */
    void (*quantize_chain)(void *values, const void *before, uint64_t nvalues,
                           const struct cpu_quantizer *quantizer,
                           uint16_t *symbols);
    void (*reconstruct_chain)(void *values, uint64_t nvalues,
                              const struct cpu_quantizer *quantizer,
                              const uint16_t *symbols);

    struct cpu_grid (*grid)(const struct cpu_quantizer *quantizer);
    /* How many steps an escaped value is from the reference; false if it is
     * not on the grid. */
    bool (*to_grid)(const void *value, const struct cpu_grid *grid,
                    int64_t *nsteps_ret);
    void (*from_grid)(int64_t nsteps, const struct cpu_grid *grid,
                      void *value_ret);

    /* Dual quantization: integers of the values' own width in `quants`. A
     * value that its integer does not reproduce within the bound is
     * unpredictable: it becomes special in `mask`. Special values take 0.
     * Returns how many values are unpredictable. */
    uint64_t (*prequantize)(const void *values, uint64_t nvalues,
                            const struct cpu_quantizer *quantizer,
                            uint64_t *mask, void *quants);
    void (*dequantize)(const void *quants, uint64_t nvalues,
                       const struct cpu_quantizer *quantizer, void *values);

    /* How many values of [first, end) are not special and nearly what their
     * quants stand for; `end` is at most TERP_LORENZO_NVALUES. */
    uint64_t (*count_near)(const void *values, const void *quants,
                           const uint64_t *mask, uint64_t first, uint64_t end,
                           const struct cpu_quantizer *quantizer);

    /* Special points take the integer `distance` before them, those of
     * [first, end) one after another; or 0, those of [0, end). */
    void (*repeat)(void *quants, const uint64_t *mask, uint64_t first,
                   uint64_t end, uint64_t distance);
    void (*clear)(void *quants, const uint64_t *mask, uint64_t end);

    /* quants[i] -= (or +=) quants[i - distance] along one dimension of an
     * array, modulo 2^width. */
    void (*difference)(void *quants, struct cpu_axis axis);
    void (*accumulate)(void *quants, struct cpu_axis axis);

    /* inout[i] = quants[i] - inout[i], modulo 2^width. */
    void (*subtract_from)(const void *quants, uint64_t n, void *inout);

    /* The same by means (codec/model/lorenzo.h). */
    void (*difference_means)(void *quants, struct cpu_axis axis);
    void (*accumulate_means)(void *quants, struct cpu_axis axis);

    /* Adds up how large both would be, at i of `n` lines side by side, at most
     * TERP_LORENZO_NVALUES. */
    void (*weigh_means)(const void *line, uint64_t i, struct cpu_axis axis,
                        uint64_t n, int low_nbits, uint64_t *differences,
                        uint64_t *means);

    /* Differences to symbols and back; what no code can hold escapes and
     * stays in `quants`, where tails, if there are any, are to be before they
     * go back. */
    void (*symbols_of_quants)(const void *quants, uint64_t nvalues,
                              const struct cpu_quantizer *quantizer,
                              uint16_t *symbols);
    void (*quants_of_symbols)(const uint16_t *symbols, uint64_t nvalues,
                              const struct cpu_quantizer *quantizer,
                              void *quants);

    /* The numbers that stand for the tails of `n` differences, and back. */
    void (*numbers_of_tails)(const void *quants, const uint16_t *symbols,
                             uint64_t n, const struct cpu_quantizer *quantizer,
                             uint64_t *numbers);
    void (*tails_of_numbers)(const uint64_t *numbers, uint64_t n, void *quants);

    /* The lossless prediction's integers, as prequantize has lorenzo's, and
     * the values that they stand for but for remainders. */
    uint64_t (*lossless_quantize)(const void *values, uint64_t nvalues,
                                  const struct cpu_lossless *model,
                                  uint64_t *mask, void *quants);
    uint64_t (*count_unpredictable)(const void *values, uint64_t nvalues,
                                    const struct cpu_fills *fills,
                                    const struct cpu_lossless *model);
    void (*lossless_restore)(const void *quants, uint64_t nvalues,
                             const struct cpu_lossless *model, void *values);

    /* Remainders of points [first, end) and their bits: of values, without
     * those that are special, which returns how many are left; and to join
     * them to integers. */
    uint64_t (*remainders_of_values)(const void *values, uint64_t first,
                                     uint64_t end,
                                     const struct cpu_lossless *model,
                                     const uint64_t *mask,
                                     uint64_t *numbers_ret, uint8_t *nbits_ret);
    void (*nbits_of_remainders)(const void *quants, uint64_t first,
                                uint64_t end, const struct cpu_lossless *model,
                                uint8_t *nbits_ret);
    void (*join_remainders)(const void *quants, uint64_t first, uint64_t end,
                            const struct cpu_lossless *model,
                            const uint64_t *numbers, void *values);

    /* Differences at places, and back. */
    void (*gather)(const void *quants, const uint64_t *places, uint64_t n,
                   int64_t *differences_ret);
    void (*scatter)(const int64_t *differences, const uint64_t *places,
                    uint64_t n, void *quants);

    /* In all that follows `scratch` has CPU_LOSSLESS_SCRATCH_NBYTES. The
     * integer in the middle of samples'. */
    int64_t (*center)(const void *values, uint64_t nvalues,
                      const struct cpu_fills *fills,
                      const struct cpu_lossless *model, void *scratch);

    /* Adds what differences of a run take up by every order; what they cost, in
     * 1/16 bit, by the model's. Nothing where that is not known. */
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

/* Those of float32, or of float64. */
static inline const struct cpu_stages *
cpu_stages_of(enum terp_type type)
{
    return type == TERP_FLOAT32 ? &terp_cpu_stages_f32 : &terp_cpu_stages_f64;
}

/* The fill values that a caller's parameters name. */
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
