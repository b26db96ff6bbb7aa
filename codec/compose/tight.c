/* Finds chunks under tight bounds whose lossless streams may be smaller. */
#include "codec/compose/tight.h"

#include <stdlib.h>

#include "codec/model/tight.h"

/* So many chunks at most are sampled at once. */
#define MAX_NCHUNKS 4096

static bool
is_tested(const struct terp_batch *batch, uint64_t i,
          const struct terp_facts *facts)
{
    return !terp_is_left(batch, i) && !facts->is_settled && facts->bound > 0 &&
           facts->copied == 0 && !facts->may_be_lossless &&
           terp_is_tight(batch->source.chunk, batch->nbytes[i]);
}

static enum terp_status
test_sampled(const struct terp_coder *coder, const struct terp_batch *batch,
             struct terp_facts *facts, uint64_t n, const uint64_t *at,
             const void **src, uint64_t *keys)
{
    const struct terp_chunk *chunk = batch->source.chunk;

    for (uint64_t k = 0; k < n; k++)
        src[k] = batch->source.src[at[k]];
    const enum terp_status st =
        coder->engine->sample_grid(coder->session, chunk, n, src, keys);
    for (uint64_t k = 0; st == TERP_OK && k < n; k++)
        facts[at[k]].may_be_lossless = terp_tight_may_be_lossless(
            chunk->type, facts[at[k]].bound, keys + k * TERP_GRID_NSAMPLES);
    return st;
}

enum terp_status
terp_tight_choose(const struct terp_coder *coder,
                  const struct terp_batch *batch, struct terp_facts *facts)
{
    enum terp_status st = TERP_OK;
    uint64_t n = 0;

    if (!terp_tight_is_possible(batch->source.params, batch->source.chunk))
        return TERP_OK;
    for (uint64_t i = 0; i < batch->source.n; i++)
        n += is_tested(batch, i, &facts[i]);
    if (n == 0)
        return TERP_OK;
    const uint64_t most = min_u64(n, MAX_NCHUNKS);
    uint64_t *keys = terp_items_allocate(
        most, (TERP_GRID_NSAMPLES + 1) * sizeof *keys + sizeof(void *));
    if (keys == NULL)
        return TERP_ERR_MEMORY;
    uint64_t *at = keys + most * TERP_GRID_NSAMPLES;
    const void **src = (const void **)(at + most);
    for (uint64_t i = 0; st == TERP_OK && i < batch->source.n;) {
        for (n = 0; i < batch->source.n && n < most; i++)
            if (is_tested(batch, i, &facts[i]))
                at[n++] = i;
        if (n > 0)
            st = test_sampled(coder, batch, facts, n, at, src, keys);
    }
    free(keys);
    return st;
}
