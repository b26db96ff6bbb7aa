/* Makes and releases the state that encoding and decoding share. */
#include "cpu/body.h"

#include <stdlib.h>

void
terp_cpu_body_take_stages(struct cpu_body *body)
{
    body->chunk_stages = cpu_stages_of(cpu_body_carrier_type(body));
    body->prediction.stages = body->chunk_stages;
}

void
terp_cpu_body_make(const struct terp_frame *frame, struct cpu_pool *pool,
                   struct cpu_body *body_ret)
{
    body_ret->frame = *frame;
    terp_layout_make(&frame->domain, &body_ret->layout);
    body_ret->prediction.layout = &body_ret->layout;
    body_ret->prediction.pool = pool;
    body_ret->part_nbytes = terp_part_nbytes(frame->chunk.type);
    terp_cpu_body_take_stages(body_ret);
}

enum terp_status
terp_cpu_body_make_carried(struct cpu_body *body)
{
    body->carried = terp_cpu_memory_make(
        body->prediction.pool,
        body->layout.nvalues * (uint64_t)body->chunk_stages->value_nbytes);
    return body->carried == NULL ? TERP_ERR_MEMORY : TERP_OK;
}

void
terp_cpu_body_free_prediction(struct cpu_body *body)
{
    terp_cpu_prediction_free(&body->prediction);
    free(body->prediction.mask);
    body->prediction.mask = NULL;
}

void
terp_cpu_body_free(struct cpu_body *body)
{
    terp_cpu_body_free_prediction(body);
    terp_cpu_memory_free(body->prediction.pool, body->carried);
    terp_cpu_memory_free(body->prediction.pool, body->coded);
    free(body->signs);
}
