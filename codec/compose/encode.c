/* Encodes chunks by their type, and stores what does not become smaller. */
#include "codec/compose/encode.h"

#include "codec/compose/complex.h"
#include "codec/compose/pieces.h"
#include "codec/compose/values.h"

static enum terp_status
store(const struct terp_coder *coder, const struct terp_batch *batch,
      uint64_t i)
{
    const struct terp_chunk *chunk = batch->source.chunk;
    const struct terp_frame frame = {.chunk = *chunk,
                                     .coding = TERP_CODING_RAW};
    struct terp_pieces pieces;

    terp_pieces_begin(&pieces);
    terp_pieces_add_frame(&pieces, &frame);
    terp_pieces_add(&pieces, batch->source.src[i], terp_chunk_nbytes(chunk));
    batch->nbytes[i] = terp_pieces_end(&pieces);
    return terp_pieces_seal(coder, &pieces, batch->dst[i]);
}

enum terp_status
terp_chunks_encode(const struct terp_coder *coder,
                   const struct terp_batch *batch)
{
    const enum terp_type type = batch->source.chunk->type;
    enum terp_status st = TERP_OK;

    if (type == TERP_BYTES)
        memset(batch->nbytes, 0, batch->source.n * sizeof *batch->nbytes);
    else if (terp_type_nparts(type) > 1)
        st = terp_complex_encode(coder, batch);
    else
        st = terp_values_encode(coder, batch);
    for (uint64_t i = 0; st == TERP_OK && i < batch->source.n; i++)
        if (batch->nbytes[i] == 0)
            st = store(coder, batch, i);
    return st;
}
