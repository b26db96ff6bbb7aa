/* The state of a chunk that encoding and decoding share: what lies between its
 * values and the body of its plain stream. */
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

    /* Values of types other than float32 and float64 are carried by floats
     * (codec/model/carrier.h). All fields below speak of the carrying values.
     * The section of special values alone holds the chunk's own values. */
    struct terp_carrier_head carrier;
    int part_nbytes;
    void *carried; /* the carrying values; NULL if the chunk's own are coded */

    /* A pointwise bound may code other values than the chunk's, such as
     * logarithms, which may have another type: prediction.stages are theirs,
     * chunk_stages those of the chunk's values. Special values are always the
     * chunk's own. */
    const struct cpu_stages *chunk_stages;
    struct terp_pointwise_head pointwise;
    void *coded;     /* memory of the coded values; NULL if they share the
                      * values' memory */
    uint64_t *signs; /* if the chunk has both signs */
};

void
terp_cpu_body_make(const struct terp_frame *frame, struct cpu_pool *pool,
                   struct cpu_body *body_ret);

/* Releases the memory of a prediction. The prediction can be made anew. */
void
terp_cpu_body_free_prediction(struct cpu_body *body);

void
terp_cpu_body_free(struct cpu_body *body);

/* Sets the stages of the carrying values. */
void
terp_cpu_body_take_stages(struct cpu_body *body);

/* Allocates the carrying values. */
enum terp_status
terp_cpu_body_make_carried(struct cpu_body *body);

static inline int
cpu_body_wide(const struct cpu_body *body)
{
    return body->prediction.quantizer.wide;
}

/* The type of the carrying values; float32 if that is still undecided. */
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
