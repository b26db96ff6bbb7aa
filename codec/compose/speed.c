/* Streams of coding SPEED: one attempt, whatever its size. */
#include "codec/compose/speed.h"

#include "codec/model/bound.h"

bool
terp_batch_has_speed(const struct terp_batch *batch)
{
    return batch->source.limits == NULL &&
           terp_params_have_speed(batch->source.chunk->type,
                                  batch->source.params);
}

enum terp_status
terp_speed_encode(const struct terp_coder *coder,
                  const struct terp_batch *batch)
{
    return coder->engine->encode_speed(coder->session, &batch->source,
                                       batch->dst, batch->nbytes);
}
