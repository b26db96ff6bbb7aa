/* Decodes a batch on a device: first all plain streams, then the streams that
 * hold other streams. */
#include "codec/compose/streams.h"

#include <stdlib.h>

#include "codec/compose/decode.h"

/* Streams that the first pass did not decode. */
struct remaining {
    const struct terp_coder *coder;
    const struct terp_chunk *chunk;
    uint64_t step, n;
    enum terp_status *result; /* of all streams of the batch */
    uint64_t *at, *nbytes;
    const void **src;
    void **dst, **own; /* the caller's addresses; addresses in device memory */
    struct terp_open_stream *streams;
    enum terp_status *status;
};

static bool
make_remaining(uint64_t n, struct remaining *remaining)
{
    uint8_t *memory = terp_items_allocate(
        n, sizeof *remaining->streams + 2 * sizeof(uint64_t) +
               3 * sizeof(void *) + sizeof *remaining->status);

    remaining->streams = (struct terp_open_stream *)memory;
    if (memory == NULL)
        return false;
    remaining->at = (uint64_t *)(remaining->streams + n);
    remaining->nbytes = remaining->at + n;
    remaining->src = (const void **)(remaining->nbytes + n);
    remaining->dst = (void **)(remaining->src + n);
    remaining->own = remaining->dst + n;
    remaining->status = (enum terp_status *)(remaining->own + n);
    return true;
}

/* Removes the items k whose keeps[k] is not TERP_OK. */
static void
keep(struct remaining *remaining, const enum terp_status *keeps)
{
    uint64_t n = 0;

    for (uint64_t k = 0; k < remaining->n; k++) {
        if (keeps[k] != TERP_OK)
            continue;
        remaining->at[n] = remaining->at[k];
        remaining->nbytes[n] = remaining->nbytes[k];
        remaining->src[n] = remaining->src[k];
        remaining->streams[n] = remaining->streams[k];
        remaining->dst[n++] = remaining->dst[k];
    }
    remaining->n = n;
}

static bool
is_raw(const struct remaining *remaining, const struct terp_open_stream *stream)
{
    return stream->frame.coding == TERP_CODING_RAW && remaining->step == 1 &&
           terp_type_nparts(remaining->chunk->type) > 1 &&
           stream->body_nbytes == terp_chunk_nbytes(remaining->chunk);
}

/* Reads a stream's frame. TERP_ERR_DEVICE: the frame is not of this chunk, or
 * the stream neither holds other streams nor stores complex values. */
static enum terp_status
read_frame(const struct remaining *remaining, uint64_t k, const uint8_t *seen)
{
    struct terp_open_stream *stream = &remaining->streams[k];
    int nbytes;

    if (terp_frame_read(seen, remaining->nbytes[k], &stream->frame, &nbytes) !=
            TERP_OK ||
        !terp_chunks_are_alike(&stream->frame.chunk, remaining->chunk))
        return TERP_ERR_DEVICE;
    stream->whole = remaining->src[k];
    stream->body = stream->whole + nbytes;
    stream->body_nbytes = remaining->nbytes[k] - (uint64_t)nbytes;
    return terp_coding_holds(stream->frame.coding) || is_raw(remaining, stream)
               ? TERP_OK
               : TERP_ERR_DEVICE;
}

/* Keeps the streams that hold other streams or store complex values. */
static enum terp_status
keep_holders(struct remaining *remaining)
{
    const struct terp_coder *coder = remaining->coder;
    const size_t n = (size_t)remaining->n;
    uint8_t *memory = terp_items_allocate(
        n, sizeof(uint64_t) + sizeof(uint8_t *) + TERP_PEEK_NBYTES);

    if (memory == NULL)
        return TERP_ERR_MEMORY;
    uint64_t *nbytes = (uint64_t *)memory;
    const uint8_t **seen = (const uint8_t **)(nbytes + n);
    for (uint64_t k = 0; k < remaining->n; k++)
        nbytes[k] = min_u64(remaining->nbytes[k], TERP_PEEK_NBYTES);
    const enum terp_status st =
        coder->engine->peek(coder->session, remaining->n, remaining->src,
                            nbytes, (uint8_t *)(seen + n), seen);
    for (uint64_t k = 0; st == TERP_OK && k < remaining->n; k++)
        remaining->status[k] = read_frame(remaining, k, seen[k]);
    if (st == TERP_OK)
        keep(remaining, remaining->status);
    free(memory);
    return st;
}

/* Allocates device memory for values that go to the host. *values_ret is NULL
 * if the caller's places are in device memory, which need no copy. */
static bool
place_values(struct remaining *remaining, void **values_ret)
{
    const struct terp_coder *coder = remaining->coder;
    const struct terp_chunk wanted =
        terp_coarse_chunk_of(remaining->chunk, remaining->step);
    const uint64_t stride = terp_aligned_nbytes(terp_chunk_nbytes(&wanted));

    *values_ret = NULL;
    if (coder->engine->has(coder->session, remaining->dst[0])) {
        memcpy(remaining->own, remaining->dst,
               (size_t)remaining->n * sizeof *remaining->own);
        return true;
    }
    uint8_t *values = terp_coder_allocate(coder, remaining->n * stride);
    for (uint64_t k = 0; values != NULL && k < remaining->n; k++)
        remaining->own[k] = values + k * stride;
    *values_ret = values;
    return values != NULL;
}

static enum terp_status
copy_values(struct remaining *remaining)
{
    const struct terp_coder *coder = remaining->coder;
    const struct terp_chunk wanted =
        terp_coarse_chunk_of(remaining->chunk, remaining->step);
    uint64_t n = 0;

    for (uint64_t k = 0; k < remaining->n; k++) {
        if (remaining->status[k] != TERP_OK)
            continue;
        remaining->src[n] = remaining->own[k];
        remaining->dst[n] = remaining->dst[k];
        remaining->nbytes[n++] = terp_chunk_nbytes(&wanted);
    }
    return coder->engine->copy(coder->session, n, remaining->dst,
                               remaining->src, remaining->nbytes);
}

/* Copies stored complex values, and removes their streams from the list. */
static enum terp_status
copy_stored(struct remaining *remaining)
{
    const struct terp_coder *coder = remaining->coder;
    const uint64_t nbytes = terp_chunk_nbytes(remaining->chunk);
    const size_t cap = (size_t)remaining->n;
    uint8_t *memory =
        terp_items_allocate(cap, 2 * sizeof(void *) + sizeof(uint64_t));
    uint64_t n = 0;

    if (memory == NULL)
        return TERP_ERR_MEMORY;
    void **dst = (void **)memory;
    const void **src = (const void **)(dst + cap);
    uint64_t *sizes = (uint64_t *)(src + cap);
    for (uint64_t k = 0; k < remaining->n; k++) {
        remaining->status[k] = TERP_OK;
        if (!is_raw(remaining, &remaining->streams[k]))
            continue;
        remaining->status[k] = TERP_ERR_DEVICE; /* removes the item */
        remaining->result[remaining->at[k]] = TERP_OK;
        dst[n] = remaining->dst[k];
        src[n] = remaining->streams[k].body;
        sizes[n++] = nbytes;
    }
    const enum terp_status st =
        n == 0 ? TERP_OK
               : coder->engine->copy(coder->session, n, dst, src, sizes);
    keep(remaining, remaining->status);
    free(memory);
    return st;
}

/* Decodes the listed streams. */
static enum terp_status
decode_remaining(struct remaining *remaining)
{
    const struct terp_coder *coder = remaining->coder;
    void *values = NULL;
    enum terp_status st =
        coder->engine->verify(coder->session, remaining->n, remaining->src,
                              remaining->nbytes, remaining->status);

    if (st == TERP_OK)
        keep(remaining, remaining->status);
    if (st == TERP_OK && remaining->n > 0)
        st = copy_stored(remaining);
    if (st != TERP_OK || remaining->n == 0)
        return st;
    st = place_values(remaining, &values) ? TERP_OK : TERP_ERR_MEMORY;
    if (st == TERP_OK)
        st = terp_chunks_decode(coder, remaining->n, remaining->streams,
                                remaining->step, remaining->own,
                                remaining->status);
    if (st == TERP_OK && values != NULL)
        st = copy_values(remaining);
    terp_coder_release(coder, values);
    return st;
}

/* Lists at most `most` streams, from *next on, that are still undecoded. */
static void
list_remaining(struct remaining *remaining, uint64_t most, uint64_t n,
               const void *const *src, const uint64_t *nbytes, void *const *dst,
               uint64_t *next)
{
    uint64_t i = *next;

    remaining->n = 0;
    for (; i < n && remaining->n < most; i++) {
        if (remaining->result[i] != TERP_ERR_DEVICE || nbytes[i] == 0 ||
            nbytes[i] > terp_encode_bound(remaining->chunk))
            continue;
        remaining->at[remaining->n] = i;
        remaining->src[remaining->n] = src[i];
        remaining->nbytes[remaining->n] = nbytes[i];
        remaining->dst[remaining->n++] = dst[i];
    }
    *next = i;
}

static enum terp_status
decode_portion(struct remaining *remaining)
{
    enum terp_status st = remaining->n == 0 ? TERP_OK : keep_holders(remaining);

    if (st == TERP_OK && remaining->n > 0)
        st = decode_remaining(remaining);
    for (uint64_t k = 0; st == TERP_OK && k < remaining->n; k++)
        if (remaining->status[k] == TERP_OK)
            remaining->result[remaining->at[k]] = TERP_OK;
    return st;
}

enum terp_status
terp_streams_decode(const struct terp_coder *coder,
                    const struct terp_chunk *chunk, uint64_t step, uint64_t n,
                    const void *const *src, const uint64_t *nbytes,
                    void *const *dst, enum terp_status *status_ret)
{
    uint64_t most = min_u64(terp_portion_nchunks(chunk), n);
    struct remaining remaining = {
        .coder = coder, .chunk = chunk, .step = step, .result = status_ret};
    enum terp_status st = TERP_OK;

    for (uint64_t k = 0; k < n; k++)
        status_ret[k] = TERP_ERR_DEVICE;
    if (terp_type_nparts(chunk->type) == 1)
        st = coder->engine->decode_whole(coder->session, chunk, step, n, src,
                                         nbytes, dst, status_ret);
    if (st == TERP_OK && !make_remaining(most, &remaining))
        st = TERP_ERR_MEMORY;
    for (uint64_t i = 0; st == TERP_OK && i < n;) {
        const uint64_t first = i;
        list_remaining(&remaining, most, n, src, nbytes, dst, &i);
        const uint64_t listed = remaining.n;
        st = decode_portion(&remaining);
        if (st != TERP_ERR_MEMORY)
            continue;
        st = TERP_OK; /* a stream that alone lacks memory is left to the CPU */
        if (listed > 1) {
            most = listed / 2;
            i = first;
        }
    }
    free(remaining.streams);
    return st;
}
