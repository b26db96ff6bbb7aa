/* Sizes of chunks, and chunks made from the dims of arrays. */
#include "codec/api/terp.h"
#include "codec/format/base.h"
#include "codec/format/frame.h"
#include "codec/format/types.h"

enum terp_status
terp_chunk_make(enum terp_type type, int ndims, const uint64_t *dims,
                struct terp_chunk *chunk_ret)
{
    struct terp_chunk chunk = {.type = type, .rank = 0};
    int nkept = 0, seen = 0;

    if (ndims < 0)
        return TERP_ERR_ARGUMENT;
    for (int i = 0; i < ndims; i++)
        nkept += dims[i] != 1;
    for (int i = 0; i < ndims; i++) {
        if (dims[i] == 1)
            continue;
        /* The last three dims stay; all dims before them are merged into
         * one. */
        if (nkept - seen > TERP_MAX_RANK - 1 && seen > 0) {
            if (!mul_fits(chunk.dims[0], dims[i], &chunk.dims[0]))
                return TERP_ERR_ARGUMENT;
        } else {
            chunk.dims[chunk.rank++] = dims[i];
        }
        seen++;
    }
    if (chunk.rank == 0)
        chunk.dims[chunk.rank++] = 1;
    if (terp_chunk_nbytes(&chunk) == 0)
        return TERP_ERR_ARGUMENT;
    *chunk_ret = chunk;
    return TERP_OK;
}

uint64_t
terp_chunk_nbytes(const struct terp_chunk *chunk)
{
    uint64_t nbytes = (uint64_t)terp_value_nbytes(chunk->type);

    if (chunk->rank < 1 || chunk->rank > TERP_MAX_RANK ||
        !terp_type_is_known((int)chunk->type) ||
        (chunk->type == TERP_BYTES && chunk->rank != 1) ||
        (chunk->stack && chunk->rank < 2))
        return 0;
    for (int i = 0; i < chunk->rank; i++)
        if (!mul_fits(nbytes, chunk->dims[i], &nbytes))
            return 0;
    return nbytes;
}

uint64_t
terp_encode_bound(const struct terp_chunk *chunk)
{
    uint64_t nbytes = terp_chunk_nbytes(chunk);
    return nbytes == 0 ? 0 : nbytes + TERP_MAX_FRAME_NBYTES;
}
