/* A chunk between its values and the body of its plain stream, in either
 * direction. */
#pragma once

#include "codec/engine.h"
#include "codec/format/carrier.h"
#include "codec/format/pointwise.h"
#include "codec/format/types.h"
#include "codec/model/carrier.h"
#include "cpu/predict/predictor.h"

struct cpu_body {
    struct terp_frame frame;
    struct terp_layout layout;
    const struct cpu_predictor *predictor; /* NULL: the chunk is constant */
    struct cpu_prediction prediction;
    int step_slack_log2;

    /* Parts of types that are not plain are carried by values of one that is
     * (codec/model/carrier.h), which is that of the chunk in all that follows.
     * Special values alone are parts. */
    struct terp_carrier_head carrier;
    int part_nbytes;
    void *carried; /* the values, where they are not the parts */

    /* Under a bound relative to each value other values may be coded than the
     * chunk's, by another type's stages than its own: special values alone are
     * of the chunk. Elsewhere both are the same. */
    const struct cpu_stages *chunk_stages;
    struct terp_pointwise_head pointwise;
    void *coded;     /* what is coded instead, where that needs memory */
    uint64_t *signs; /* where they are mixed */
};

void
terp_cpu_body_make(const struct terp_frame *frame, struct cpu_pool *pool,
                   struct cpu_body *body_ret);

/* Releases the memory of a prediction, which may be made again. */
void
terp_cpu_body_free_prediction(struct cpu_body *body);

void
terp_cpu_body_free(struct cpu_body *body);

/* Has the stages of what carries the parts. */
void
terp_cpu_body_take_stages(struct cpu_body *body);

/* Has memory for what carries the parts. */
enum terp_status
terp_cpu_body_make_carried(struct cpu_body *body);

static inline int
cpu_body_wide(const struct cpu_body *body)
{
    return body->prediction.quantizer.wide;
}

/* Of what a chunk's parts are coded as, by float32 where that is still open. */
static inline enum terp_type
cpu_body_carrier_type(const struct cpu_body *body)
{
    return terp_carrier_type(body->carrier.form, body->frame.chunk.type);
}

/* ---- which sections there are ---- */

/* Whether lorenzo's differences have tails. */
static inline bool
cpu_body_has_tails(const struct cpu_body *body)
{
    return body->frame.prediction == TERP_PREDICTION_LORENZO &&
           body->prediction.quantizer.tail_nbits > 0;
}

static inline bool
cpu_body_has_shifts(const struct cpu_body *body)
{
    return body->frame.prediction == TERP_PREDICTION_LOSSLESS;
}

static inline bool
cpu_body_has_remainders(const struct cpu_body *body)
{
    return cpu_body_has_shifts(body) &&
           body->prediction.lossless.form == TERP_LOSSLESS_REMAINDERS;
}
