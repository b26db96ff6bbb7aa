/* Decodes a batch on a device: first all plain streams, then the streams that
 * hold other streams. */
#include "codec/compose/streams.h"

#include <stdlib.h>

#include "codec/compose/decode.h"

/* Streams that the first pass has left. */
struct left {
    const struct terp_coder *coder;
    const struct terp_chunk *chunk;
    uint64_t step, n;
    enum terp_status *result; /* of all streams of the batch */
    uint64_t *at, *nbytes;
    const void **src;
    void **dst, **own; /* the caller's places of values; places in device memory
                        */
    struct terp_open_stream *streams;
    enum terp_status *status;
};

static bool
make_left(uint64_t n, struct left *left)
{
    uint8_t *memory =
        terp_items_allocate(n, sizeof *left->streams + 2 * sizeof(uint64_t) +
                                   3 * sizeof(void *) + sizeof *left->status);

    left->streams = (struct terp_open_stream *)memory;
    if (memory == NULL)
        return false;
    left->at = (uint64_t *)(left->streams + n);
    left->nbytes = left->at + n;
    left->src = (const void **)(left->nbytes + n);
    left->dst = (void **)(left->src + n);
    left->own = left->dst + n;
    left->status = (enum terp_status *)(left->own + n);
    return true;
}

/* Removes the items k whose keeps[k] is not TERP_OK. */
static void
keep(struct left *left, const enum terp_status *keeps)
{
    uint64_t n = 0;

    for (uint64_t k = 0; k < left->n; k++) {
        if (keeps[k] != TERP_OK)
            continue;
        left->at[n] = left->at[k];
        left->nbytes[n] = left->nbytes[k];
        left->src[n] = left->src[k];
        left->streams[n] = left->streams[k];
        left->dst[n++] = left->dst[k];
    }
    left->n = n;
}

static bool
is_raw(const struct left *left, const struct terp_open_stream *stream)
{
    return stream->frame.coding == TERP_CODING_RAW && left->step == 1 &&
           terp_type_nparts(left->chunk->type) > 1 &&
           stream->body_nbytes == terp_chunk_nbytes(left->chunk);
}

/* Reads a stream's frame. TERP_ERR_DEVICE: the frame is not of this chunk, or
 * the stream neither holds other streams nor stores complex values. */
static enum terp_status
read_frame(const struct left *left, uint64_t k, const uint8_t *seen)
{
    struct terp_open_stream *stream = &left->streams[k];
    int nbytes;

    if (terp_frame_read(seen, left->nbytes[k], &stream->frame, &nbytes) !=
            TERP_OK ||
        !terp_chunks_are_alike(&stream->frame.chunk, left->chunk))
        return TERP_ERR_DEVICE;
    stream->whole = left->src[k];
    stream->body = stream->whole + nbytes;
    stream->body_nbytes = left->nbytes[k] - (uint64_t)nbytes;
    return terp_coding_holds(stream->frame.coding) || is_raw(left, stream)
               ? TERP_OK
               : TERP_ERR_DEVICE;
}

/* Keeps the streams that hold other streams or store complex values. */
static enum terp_status
keep_holders(struct left *left)
{
    const struct terp_coder *coder = left->coder;
    const size_t n = (size_t)left->n;
    uint8_t *memory = terp_items_allocate(
        n, sizeof(uint64_t) + sizeof(uint8_t *) + TERP_PEEK_NBYTES);

    if (memory == NULL)
        return TERP_ERR_MEMORY;
    uint64_t *nbytes = (uint64_t *)memory;
    const uint8_t **seen = (const uint8_t **)(nbytes + n);
    for (uint64_t k = 0; k < left->n; k++)
        nbytes[k] = min_u64(left->nbytes[k], TERP_PEEK_NBYTES);
    const enum terp_status st =
        coder->engine->peek(coder->session, left->n, left->src, nbytes,
                            (uint8_t *)(seen + n), seen);
    for (uint64_t k = 0; st == TERP_OK && k < left->n; k++)
        left->status[k] = read_frame(left, k, seen[k]);
    if (st == TERP_OK)
        keep(left, left->status);
    free(memory);
    return st;
}

/* Allocates device memory for values that go to the host. *values_ret is NULL
 * if the caller's places are in device memory, which need no copy. */
static bool
place_values(struct left *left, void **values_ret)
{
    const struct terp_coder *coder = left->coder;
    const struct terp_chunk wanted =
        terp_coarse_chunk_of(left->chunk, left->step);
    const uint64_t stride = terp_aligned_nbytes(terp_chunk_nbytes(&wanted));

    *values_ret = NULL;
    if (coder->engine->has(coder->session, left->dst[0])) {
        memcpy(left->own, left->dst, (size_t)left->n * sizeof *left->own);
        return true;
    }
    uint8_t *values = terp_coder_allocate(coder, left->n * stride);
    for (uint64_t k = 0; values != NULL && k < left->n; k++)
        left->own[k] = values + k * stride;
    *values_ret = values;
    return values != NULL;
}

static enum terp_status
copy_values(struct left *left)
{
    const struct terp_coder *coder = left->coder;
    const struct terp_chunk wanted =
        terp_coarse_chunk_of(left->chunk, left->step);
    uint64_t n = 0;

    for (uint64_t k = 0; k < left->n; k++) {
        if (left->status[k] != TERP_OK)
            continue;
        left->src[n] = left->own[k];
        left->dst[n] = left->dst[k];
        left->nbytes[n++] = terp_chunk_nbytes(&wanted);
    }
    return coder->engine->copy(coder->session, n, left->dst, left->src,
                               left->nbytes);
}

/* Copies stored complex values, and removes their streams from the list. */
static enum terp_status
copy_stored(struct left *left)
{
    const struct terp_coder *coder = left->coder;
    const uint64_t nbytes = terp_chunk_nbytes(left->chunk);
    const size_t cap = (size_t)left->n;
    uint8_t *memory =
        terp_items_allocate(cap, 2 * sizeof(void *) + sizeof(uint64_t));
    uint64_t n = 0;

    if (memory == NULL)
        return TERP_ERR_MEMORY;
    void **dst = (void **)memory;
    const void **src = (const void **)(dst + cap);
    uint64_t *sizes = (uint64_t *)(src + cap);
    for (uint64_t k = 0; k < left->n; k++) {
        left->status[k] = TERP_OK;
        if (!is_raw(left, &left->streams[k]))
            continue;
        left->status[k] = TERP_ERR_DEVICE; /* removes the item */
        left->result[left->at[k]] = TERP_OK;
        dst[n] = left->dst[k];
        src[n] = left->streams[k].body;
        sizes[n++] = nbytes;
    }
    const enum terp_status st =
        n == 0 ? TERP_OK
               : coder->engine->copy(coder->session, n, dst, src, sizes);
    keep(left, left->status);
    free(memory);
    return st;
}

/* Decodes the listed streams. */
static enum terp_status
decode_left(struct left *left)
{
    const struct terp_coder *coder = left->coder;
    void *values = NULL;
    enum terp_status st = coder->engine->verify(
        coder->session, left->n, left->src, left->nbytes, left->status);

    if (st == TERP_OK)
        keep(left, left->status);
    if (st == TERP_OK && left->n > 0)
        st = copy_stored(left);
    if (st != TERP_OK || left->n == 0)
        return st;
    st = place_values(left, &values) ? TERP_OK : TERP_ERR_MEMORY;
    if (st == TERP_OK)
        st = terp_chunks_decode(coder, left->n, left->streams, left->step,
                                left->own, left->status);
    if (st == TERP_OK && values != NULL)
        st = copy_values(left);
    terp_coder_release(coder, values);
    return st;
}

/* Lists at most `most` streams, from *next on, that are still undecoded. */
static void
list_left(struct left *left, uint64_t most, uint64_t n, const void *const *src,
          const uint64_t *nbytes, void *const *dst, uint64_t *next)
{
    uint64_t i = *next;

    left->n = 0;
    for (; i < n && left->n < most; i++) {
        if (left->result[i] != TERP_ERR_DEVICE || nbytes[i] == 0 ||
            nbytes[i] > terp_encode_bound(left->chunk))
            continue;
        left->at[left->n] = i;
        left->src[left->n] = src[i];
        left->nbytes[left->n] = nbytes[i];
        left->dst[left->n++] = dst[i];
    }
    *next = i;
}

static enum terp_status
decode_portion(struct left *left)
{
    enum terp_status st = left->n == 0 ? TERP_OK : keep_holders(left);

    if (st == TERP_OK && left->n > 0)
        st = decode_left(left);
    for (uint64_t k = 0; st == TERP_OK && k < left->n; k++)
        if (left->status[k] == TERP_OK)
            left->result[left->at[k]] = TERP_OK;
    return st;
}

enum terp_status
terp_streams_decode(const struct terp_coder *coder,
                    const struct terp_chunk *chunk, uint64_t step, uint64_t n,
                    const void *const *src, const uint64_t *nbytes,
                    void *const *dst, enum terp_status *status_ret)
{
    uint64_t most = min_u64(terp_portion_nchunks(chunk), n);
    struct left left = {
        .coder = coder, .chunk = chunk, .step = step, .result = status_ret};
    enum terp_status st = TERP_OK;

    for (uint64_t k = 0; k < n; k++)
        status_ret[k] = TERP_ERR_DEVICE;
    if (terp_type_nparts(chunk->type) == 1)
        st = coder->engine->decode_whole(coder->session, chunk, step, n, src,
                                         nbytes, dst, status_ret);
    if (st == TERP_OK && !make_left(most, &left))
        st = TERP_ERR_MEMORY;
    for (uint64_t i = 0; st == TERP_OK && i < n;) {
        const uint64_t first = i;
        list_left(&left, most, n, src, nbytes, dst, &i);
        const uint64_t listed = left.n;
        st = decode_portion(&left);
        if (st != TERP_ERR_MEMORY)
            continue;
        st = TERP_OK; /* a stream that alone lacks memory is left to the CPU */
        if (listed > 1) {
            most = listed / 2;
            i = first;
        }
    }
    free(left.streams);
    return st;
}
