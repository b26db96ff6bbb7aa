/* Decodes streams that hold other streams; an engine decodes plain ones. */
#include "codec/compose/decode.h"

#include "codec/compose/complex.h"
#include "codec/compose/references.h"
#include "codec/format/copies.h"

/* What is left of a chunk without copies is plain, or has references. */
static enum terp_status
decode_copies(const struct terp_coder *coder,
              const struct terp_open_stream *stream, void *dst)
{
    const struct terp_chunk *chunk = &stream->frame.chunk;
    struct terp_copies copies;
    enum terp_status st =
        terp_copies_read(chunk, stream->body, stream->body_nbytes, &copies);

    if (st != TERP_OK)
        return st;
    const struct terp_open_stream left = {
        copies.values.frame, copies.values.body, copies.values.body_nbytes,
        NULL};
    st = left.frame.coding == TERP_CODING_REFERENCES
             ? terp_references_decode(coder, &left, dst)
             : terp_coder_decode(coder, &left, 1, dst);
    return st == TERP_OK ? coder->engine->put_back(coder->session, chunk,
                                                   copies.dims, 1, &dst)
                         : st;
}

/* All values. */
static enum terp_status
decode_whole(const struct terp_coder *coder,
             const struct terp_open_stream *stream, void *dst)
{
    return stream->frame.coding == TERP_CODING_COPIES
               ? decode_copies(coder, stream, dst)
               : terp_references_decode(coder, stream, dst);
}

/* A stream of values of one part. */
static enum terp_status
decode_values(const struct terp_coder *coder,
              const struct terp_open_stream *stream, uint64_t step, void *dst)
{
    const struct terp_frame *frame = &stream->frame;
    struct terp_coarse coarse;

    if (frame->coding != TERP_CODING_COPIES &&
        frame->coding != TERP_CODING_REFERENCES)
        return terp_coder_decode(coder, stream, step, dst);
    terp_coarse_make(frame, step, &coarse);
    if (coarse.is_all)
        return decode_whole(coder, stream, dst);
    const int value_nbytes = terp_value_nbytes(frame->chunk.type);
    void *values =
        terp_coder_allocate(coder, coarse.nvalues * (uint64_t)value_nbytes);
    if (values == NULL)
        return TERP_ERR_MEMORY;
    enum terp_status st = decode_whole(coder, stream, values);
    if (st == TERP_OK)
        st = coder->engine->gather(coder->session, &coarse, value_nbytes, 1,
                                   &(const void *){values}, &dst);
    terp_coder_release(coder, values);
    return st;
}

enum terp_status
terp_chunk_decode(const struct terp_coder *coder,
                  const struct terp_open_stream *stream, uint64_t step,
                  void *dst)
{
    return stream->frame.coding == TERP_CODING_PARTS
               ? terp_complex_decode(coder, stream, step, dst, decode_values)
               : decode_values(coder, stream, step, dst);
}

enum terp_status
terp_chunks_decode(const struct terp_coder *coder, uint64_t n,
                   const struct terp_open_stream *streams, uint64_t step,
                   void *const *dst, enum terp_status *status_ret)
{
    for (uint64_t k = 0; k < n; k++)
        status_ret[k] = terp_chunk_decode(coder, &streams[k], step, dst[k]);
    return TERP_OK;
}
