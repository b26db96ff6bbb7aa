/* Encodes under each kind of bound: a PSNR needs a search, a floor a second
 * attempt, all other bounds neither. */
#include "codec/compose/bounds.h"

#include <stdlib.h>

#include "codec/compose/encode.h"
#include "codec/compose/psnr.h"
#include "codec/compose/values.h"

/* Encodes with the floor and without it, and keeps the smaller stream: the
 * logarithms of a pointwise bound without a floor predict some fields better,
 * and keep the bound with the floor as well. */
static enum terp_status
encode_with_floor(const struct terp_coder *coder,
                  const struct terp_batch *batch)
{
    struct terp_params without = *batch->source.params;
    enum terp_status st = terp_chunks_encode(coder, batch);

    without.floor = 0;
    if (st != TERP_OK || batch->source.params->effort == TERP_EFFORT_FAST)
        return st;
    uint64_t *at = terp_items_allocate(batch->source.n, sizeof *at), n = 0;
    if (at == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t i = 0; i < batch->source.n; i++)
        if (!terp_is_left(batch, i))
            at[n++] = i;
    st = terp_encode_if_smaller(coder, batch, n, at, &without,
                                terp_chunks_encode);
    free(at);
    return st;
}

enum terp_status
terp_bounded_encode(const struct terp_coder *coder,
                    const struct terp_batch *batch)
{
    const struct terp_params *params = batch->source.params;

    if (batch->source.chunk->type == TERP_BYTES)
        return terp_chunks_encode(coder, batch);
    return params->bound_mode == TERP_BOUND_PSNR
               ? terp_psnr_encode(coder, batch)
           : params->floor > 0 ? encode_with_floor(coder, batch)
                               : terp_chunks_encode(coder, batch);
}
