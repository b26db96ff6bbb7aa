/* What a predictor is to the CPU's pipeline: a table of functions, one for each
 * predictor of the format, over what a chunk is predicted with. */
#pragma once

#include "codec/api/terp_status.h"
#include "codec/format/bytes.h"
#include "codec/format/frame.h"
#include "codec/model/plan.h"
#include "cpu/pool/pool.h"
#include "cpu/predict/stages.h"

/* A chunk between its values and its symbols. The caller fills in the first
 * part, and what a decoder knows of special points. */
struct cpu_prediction {
    const struct cpu_stages *stages;
    const struct terp_layout *layout;
    struct cpu_pool *pool;
    struct cpu_quantizer quantizer; /* of bound ratio one */

    /* encode: what is predicted. NULL, or which fill values there are. */
    const void *values;
    const struct cpu_fills *fills;
    /* encode, spline: `work` of an earlier chunk, with its values in level
     * order, of which those that are the same now stay as they are; or NULL. */
    const void *before;

    /* Special points, a bit each in C order, and their number. Lorenzo adds
     * those that it cannot predict. decode: `mask` is NULL if there are none.
     */
    uint64_t *mask;
    uint64_t nspecials;

    /* Of terp_cpu_prediction_make: values in level order, or lorenzo's integers
     * in C order; the even points of each level; symbols in the predictor's
     * order. */
    void *work;
    void *lattice;
    uint16_t *symbols;
    uint8_t *scratch; /* of all workers */
    /* of each: CPU_RUN_SCRATCH_NVALUES; encode: CPU_SAMPLE_SCRATCH_NVALUES */
    size_t scratch_nbytes;

    /* The predictors' models, chosen by `tune` or read from a stream. */
    struct terp_level_plan plan[TERP_MAX_LEVELS + 1];
    unsigned lorenzo_dims; /* bit 0 the fastest; terp_lorenzo_dims_are_valid */
    struct cpu_lossless lossless;

    /* encode: the steps that the lossless prediction chooses from */
    struct terp_lossless_step steps[TERP_LOSSLESS_MAX_NSTEPS];
    int nsteps; /* 0: it is not for this chunk */
};

/* A worker's own memory. */
static inline void *
cpu_prediction_scratch(const struct cpu_prediction *prediction, int worker)
{
    return prediction->scratch + (size_t)worker * prediction->scratch_nbytes;
}

/* What the tuners' samples know of codes that no symbol holds. */
static inline struct terp_beyond
cpu_beyond_of(const struct cpu_quantizer *quantizer)
{
    return (struct terp_beyond){quantizer->wide, quantizer->escape_nbytes};
}

struct cpu_predictor {
    /* Chooses the model; what the predictor is chosen by. */
    enum terp_status (*tune)(struct cpu_prediction *prediction,
                             struct terp_price *price_ret);

    /* Values to symbols; what escapes stands in `work` beside its symbol.
     * Follows `tune`, and may take up `work` and `lattice`. */
    void (*quantize)(struct cpu_prediction *prediction);

    void (*write_model)(const struct cpu_prediction *prediction,
                        struct writer *writer);

    /* TERP_ERR_CORRUPT unless the bytes are a model of such a chunk. */
    enum terp_status (*read_model)(struct cpu_prediction *prediction,
                                   struct reader *reader);

    /* Symbols, and what has escaped in `work`, to values in C order; those of
     * special points do not count. */
    void (*reconstruct)(struct cpu_prediction *prediction, void *values);
};

extern const struct cpu_predictor terp_cpu_spline, terp_cpu_lorenzo,
    terp_cpu_lossless;

/* By enum terp_prediction; NULL where nothing is predicted. */
extern const struct cpu_predictor *const terp_cpu_predictors[TERP_NPREDICTIONS];

/* Extremes of `nvalues` that are not special, and the number of those that
 * are. Slot 0 of `fills` has the fill value that the caller knows; slots
 * without one have -0.0. Extremes that look like fill values take the other
 * slots. */
void
terp_cpu_scan(const struct cpu_stages *stages, struct cpu_pool *pool,
              const void *values, uint64_t nvalues, struct cpu_fills *fills,
              struct cpu_stats *stats_ret);

/* Chooses the dimensions along which differences are taken, without means, and
 * estimates the chunk's cost. */
enum terp_status
terp_cpu_lorenzo_tune(struct cpu_prediction *lorenzo,
                      struct terp_price *price_ret);

/* Chooses the step, of those given, and the dimensions and how often. */
enum terp_status
terp_cpu_lossless_tune(struct cpu_prediction *lossless,
                       struct terp_price *price_ret);

/* Allocates work, lattice, symbols and scratch. */
enum terp_status
terp_cpu_prediction_make(struct cpu_prediction *prediction);

void
terp_cpu_prediction_free(struct cpu_prediction *prediction);

/* Tunes the predictors that may be taken and chooses among them. */
enum terp_status
terp_cpu_predictor_choose(struct cpu_prediction *prediction,
                          enum terp_predictor asked,
                          enum terp_prediction *prediction_ret);
