/* Removes copies from a chunk, and writes the stream of the values that remain.
 */
#include "codec/compose/copies.h"

#include "codec/compose/pieces.h"
#include "codec/format/copies.h"

/* Keeps the stream of `values` if it is shorter than the chunk's stream. */
static enum terp_status
write_stream(const struct terp_coder *coder, const struct terp_batch *batch,
             uint64_t i, unsigned dims, const struct terp_chunk *left,
             struct terp_coded_part values)
{
    const struct terp_frame frame = {.chunk = *batch->source.chunk,
                                     .coding = TERP_CODING_COPIES};
    const uint64_t most_nbytes =
        (uint64_t)terp_frame_nbytes(&frame) + 1 + values.stream_nbytes;
    struct terp_pieces pieces;

    if (most_nbytes >= terp_least_nbytes(batch, i))
        return TERP_OK;
    terp_pieces_begin(&pieces);
    terp_pieces_add_frame(&pieces, &frame);
    write_le(&pieces.writer, dims, 1);
    terp_pieces_raise_version(coder, &pieces, values);
    terp_pieces_add_part(&pieces, left, values, true);
    batch->nbytes[i] = terp_pieces_end(&pieces);
    pieces.dst = batch->dst[i];
    return terp_pieces_write(coder, 1, &pieces);
}

enum terp_status
terp_copies_encode(const struct terp_coder *coder,
                   const struct terp_batch *batch, uint64_t i,
                   const struct terp_facts *facts, terp_copies_encoder *encode)
{
    const struct terp_chunk *chunk = batch->source.chunk;
    const struct terp_chunk left = terp_copies_chunk(chunk, facts->copied);
    void *values = terp_coder_allocate(coder, terp_chunk_nbytes(chunk) / 2);
    void *stream = terp_coder_allocate(coder, terp_encode_bound(&left));
    const void *const src[] = {values};
    void *const dst[] = {stream};
    uint64_t nbytes = 0;
    const struct terp_params params =
        terp_params_of_rest(batch->source.params, facts);
    const struct terp_batch rest = {{.chunk = &left,
                                     .params = &params,
                                     .limits = batch->source.limits,
                                     .is_part = true,
                                     .n = 1,
                                     .src = src},
                                    dst,
                                    &nbytes};
    enum terp_status st =
        values == NULL || stream == NULL ? TERP_ERR_MEMORY : TERP_OK;

    if (st == TERP_OK)
        st = coder->engine->leave_out(coder->session, chunk, facts->copied, 1,
                                      &batch->source.src[i], &values);
    if (st == TERP_OK)
        st = encode(coder, &rest);
    if (st == TERP_OK && nbytes == TERP_LEFT_NBYTES)
        batch->nbytes[i] = nbytes;
    else if (st == TERP_OK && nbytes != 0)
        st = write_stream(coder, batch, i, facts->copied, &left,
                          (struct terp_coded_part){stream, nbytes});
    terp_coder_release(coder, stream);
    terp_coder_release(coder, values);
    return terp_leave_if_short(coder, batch, i, st);
}
