/* What the kinds of bounds ask for: a search, a second attempt, or neither. */
#include "codec/compose/bounds.h"

#include <stdlib.h>

#include "codec/compose/encode.h"
#include "codec/compose/psnr.h"
#include "codec/compose/values.h"

/* Logarithms predict some fields better than what a floor makes of them, and
 * keep its bound as well: the smaller stream counts. */
static enum terp_status
encode_with_floor(const struct terp_coder *coder,
                  const struct terp_batch *batch)
{
    struct terp_params without = *batch->source.params;
    enum terp_status st = terp_chunks_encode(coder, batch);

    without.floor = 0;
    if (st != TERP_OK || batch->source.params->effort == TERP_EFFORT_FAST)
        return st;
    uint64_t *at = malloc((size_t)batch->source.n * sizeof *at), n = 0;
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
