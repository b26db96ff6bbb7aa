/* The interface of a predictor: a table of functions for each predictor of the
 * format, and the state of a chunk that they work on. */
#pragma once

#include "codec/api/terp_status.h"
#include "codec/format/bytes.h"
#include "codec/format/frame.h"
#include "codec/model/plan.h"
#include "cpu/pool/pool.h"
#include "cpu/predict/stages.h"

/* A chunk between its values and its symbols. The caller fills in the members
 * up to `before` and, when decoding, `mask` and `nspecials`. */
struct cpu_prediction {
    const struct cpu_stages *stages;
    const struct terp_layout *layout;
    struct cpu_pool *pool;
    struct cpu_quantizer quantizer; /* of bound ratio one */

    /* encode: the values; fill values, or NULL if there are none. */
    const void *values;
    const struct cpu_fills *fills;
    /* encode, spline: the decoded values of an earlier stream, in level order.
     * A value that equals its earlier one decodes to exactly that value. Or
     * NULL. */
    const void *before;

    /* Special points, a bit each in C order, and their number. Lorenzo adds
     * values that it cannot predict. decode: `mask` is NULL if there are
     * none. */
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

    /* The models of the predictors, chosen by `tune` or read from a stream. */
    struct terp_level_plan plan[TERP_MAX_LEVELS + 1];
    unsigned lorenzo_dims; /* bit 0: dim 0, the fastest;
                            * terp_lorenzo_dims_are_valid */
    struct cpu_lossless lossless;
    bool has_markers;                   /* encode: terp_source.has_markers */
    uint64_t spline_cost, lorenzo_cost; /* encode: the estimates */
    bool may_be_splines;                /* encode: terp_may_be_splines */

    /* encode: candidate steps of the lossless prediction */
    struct terp_lossless_step steps[TERP_LOSSLESS_MAX_NSTEPS];
    int nsteps; /* 0: the lossless prediction is ruled out */
};

/* A worker's scratch memory. */
static inline void *
cpu_prediction_scratch(const struct cpu_prediction *prediction, int worker)
{
    return prediction->scratch + (size_t)worker * prediction->scratch_nbytes;
}

/* The quantizer's facts about codes too wide for a symbol, for the tuners. */
static inline struct terp_beyond
cpu_beyond_of(const struct cpu_quantizer *quantizer)
{
    return (struct terp_beyond){quantizer->wide, quantizer->escape_nbytes};
}

struct cpu_predictor {
    /* Chooses the model. The price decides between predictors. */
    enum terp_status (*tune)(struct cpu_prediction *prediction,
                             struct terp_price *price_ret);

    /* Makes symbols from values; escaped values are in `work` at their symbol's
     * index. Called after `tune`; may overwrite `work` and `lattice`. */
    void (*quantize)(struct cpu_prediction *prediction);

    void (*write_model)(const struct cpu_prediction *prediction,
                        struct writer *writer);

    /* TERP_ERR_CORRUPT if the bytes are no valid model for the chunk. */
    enum terp_status (*read_model)(struct cpu_prediction *prediction,
                                   struct reader *reader);

    /* Makes values in C order from symbols and from the escaped values in
     * `work`. Special points get any value. */
    void (*reconstruct)(struct cpu_prediction *prediction, void *values);
};

extern const struct cpu_predictor terp_cpu_spline, terp_cpu_lorenzo,
    terp_cpu_lossless;

/* By enum terp_prediction; NULL for codings without a prediction. */
extern const struct cpu_predictor *const terp_cpu_predictors[TERP_NPREDICTIONS];

/* Finds the extremes of values that are not special, and counts special
 * ones. Slot 0 of `fills` has the caller's fill value; slots without a fill
 * value have -0.0. Extremes that look like fill values are put into the free
 * slots. `type` is the type for which the values stand; *range_ret is the range
 * of its bounds. */
void
terp_cpu_scan(const struct cpu_stages *stages, struct cpu_pool *pool,
              enum terp_type type, const void *values, uint64_t nvalues,
              struct cpu_fills *fills, struct cpu_stats *stats_ret,
              struct terp_bound_range *range_ret);

/* Chooses the dimensions of differences (not those of means), and estimates the
 * chunk's cost. */
enum terp_status
terp_cpu_lorenzo_tune(struct cpu_prediction *lorenzo,
                      struct terp_price *price_ret);

/* Chooses one of the candidate steps, and the dimensions and orders of
 * differences. */
enum terp_status
terp_cpu_lossless_tune(struct cpu_prediction *lossless,
                       struct terp_price *price_ret);

/* Allocates work, lattice, symbols and scratch. */
enum terp_status
terp_cpu_prediction_make(struct cpu_prediction *prediction);

void
terp_cpu_prediction_free(struct cpu_prediction *prediction);

/* Tunes the permitted predictors, and chooses one. */
enum terp_status
terp_cpu_predictor_choose(struct cpu_prediction *prediction,
                          enum terp_predictor predictor,
                          enum terp_prediction *prediction_ret);
