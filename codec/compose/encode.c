/* Encodes chunks by their type, and stores chunks that do not become smaller.
 */
#include "codec/compose/encode.h"

#include <stdlib.h>

#include "codec/compose/complex.h"
#include "codec/compose/pieces.h"
#include "codec/compose/values.h"

/* Stores each chunk for which no stream was smaller than the chunk. */
static enum terp_status
store_others(const struct terp_coder *coder, const struct terp_batch *batch)
{
    const struct terp_chunk *chunk = batch->source.chunk;
    const struct terp_frame frame = {.chunk = *chunk,
                                     .coding = TERP_CODING_RAW};
    uint64_t n = 0, k = 0;

    for (uint64_t i = 0; i < batch->source.n; i++)
        n += batch->nbytes[i] == 0;
    if (n == 0)
        return TERP_OK;
    struct terp_pieces *pieces = terp_items_allocate(n, sizeof *pieces);
    if (pieces == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t i = 0; i < batch->source.n; i++) {
        if (batch->nbytes[i] != 0)
            continue;
        struct terp_pieces *stored = &pieces[k++];
        terp_pieces_begin(stored);
        terp_pieces_add_frame(stored, &frame);
        terp_pieces_add(stored, batch->source.src[i], terp_chunk_nbytes(chunk));
        batch->nbytes[i] = terp_pieces_end(stored);
        stored->dst = batch->dst[i];
    }
    const enum terp_status st = terp_pieces_write(coder, n, pieces);
    free(pieces);
    return st;
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
    return st == TERP_OK ? store_others(coder, batch) : st;
}
