/* Tries lossless streams on slabs of chunks. */
#include "codec/compose/slabs.h"

#include "codec/model/slab.h"

/* The most slabs that are encoded at once. */
#define MAX_NSLABS 256

/* Copies slabs to aligned memory, and encodes them. */
static enum terp_status
encode_slabs(const struct terp_coder *coder, const struct terp_batch *batch,
             const struct terp_params *lossless, terp_batch_encoder *encode,
             const struct terp_slab *slab, uint64_t n, const uint64_t *at,
             uint64_t *nbytes_ret)
{
    const struct terp_chunk *chunk = batch->source.chunk;
    const uint64_t values_nbytes = terp_chunk_nbytes(&slab->chunk);
    const uint64_t at_nbytes =
        slab->at * (uint64_t)terp_value_nbytes(chunk->type);
    const uint64_t values_stride = terp_aligned_nbytes(values_nbytes);
    const uint64_t stride =
        values_stride + terp_aligned_nbytes(terp_encode_bound(&slab->chunk));
    const void *from[MAX_NSLABS], *src[MAX_NSLABS];
    void *to[MAX_NSLABS], *dst[MAX_NSLABS];
    uint64_t sizes[MAX_NSLABS];
    uint8_t *memory = terp_coder_allocate(coder, n * stride);
    struct terp_batch slabs = {batch->source, dst, nbytes_ret};

    if (memory == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t k = 0; k < n; k++) {
        from[k] = (const uint8_t *)batch->source.src[at[k]] + at_nbytes;
        src[k] = to[k] = memory + k * stride;
        dst[k] = memory + k * stride + values_stride;
        sizes[k] = values_nbytes;
    }
    slabs.source.chunk = &slab->chunk;
    slabs.source.params = lossless;
    slabs.source.bounds = NULL;
    slabs.source.n = n;
    slabs.source.src = src;
    enum terp_status st =
        coder->engine->copy(coder->session, n, to, from, sizes);
    if (st == TERP_OK)
        st = encode(coder, &slabs);
    terp_coder_release(coder, memory);
    return st;
}

/* Keeps the chunks of a portion that slabs suggest. A chunk whose slab is left
 * to the CPU is left as a whole. */
static uint64_t
keep(const struct terp_batch *batch, uint64_t slab_nvalues, uint64_t n,
     const uint64_t *at, const uint64_t *nbytes, uint64_t *kept)
{
    const uint64_t nvalues = terp_chunk_nvalues(batch->source.chunk);
    uint64_t nkept = 0;

    for (uint64_t k = 0; k < n; k++) {
        if (nbytes[k] == TERP_LEFT_NBYTES)
            batch->nbytes[at[k]] = TERP_LEFT_NBYTES;
        else if (terp_slab_is_smaller(nbytes[k], slab_nvalues,
                                      terp_least_nbytes(batch, at[k]), nvalues))
            kept[nkept++] = at[k];
    }
    return nkept;
}

enum terp_status
terp_slabs_choose(const struct terp_coder *coder,
                  const struct terp_batch *batch,
                  const struct terp_params *lossless,
                  terp_batch_encoder *encode, uint64_t *n_ret, uint64_t *at)
{
    const struct terp_chunk *chunk = batch->source.chunk;
    const struct terp_slab slab =
        terp_slab_of(chunk, terp_chunk_nvalues(chunk));
    const uint64_t most =
        min_u64(MAX_NSLABS, terp_portion_nchunks(&slab.chunk));
    uint64_t nbytes[MAX_NSLABS], nkept = 0;
    enum terp_status st = TERP_OK;

    for (uint64_t k = 0; st == TERP_OK && k < *n_ret; k += most) {
        const uint64_t n = min_u64(most, *n_ret - k);
        st = encode_slabs(coder, batch, lossless, encode, &slab, n, at + k,
                          nbytes);
        if (st == TERP_ERR_MEMORY && coder->engine->is_device) {
            for (uint64_t i = 0; i < n; i++)
                nbytes[i] = TERP_LEFT_NBYTES;
            st = TERP_OK;
        }
        if (st == TERP_OK)
            nkept += keep(batch, terp_chunk_nvalues(&slab.chunk), n, at + k,
                          nbytes, at + nkept);
    }
    *n_ret = nkept;
    return st;
}
