/* Encodes and decodes blocks. */
#include "adios2/block.h"

#include <stdlib.h>
#include <string.h>

#include "codec/api/run.h"
#include "codec/format/base.h"
#include "codec/format/types.h"

#define MAGIC UINT64_C(0x6B6C6274) /* "tblk" */
#define VERSION 1
#define TABLE_AT 24

/* ---- pieces ---- */

/* How a block is cut: into runs of at most `step` indices of the dim `axis`,
 * and of all indices of the dims behind it. */
struct pieces {
    int axis;
    uint64_t inner_nvalues; /* of one index of `axis` */
    uint64_t step;
    uint64_t naxis; /* pieces along `axis` */
    uint64_t n;     /* pieces of the block; 0: the block has no values */
    uint64_t nbytes;
};

/* Returns false if the block is too large to address. */
static bool
cut(const struct terp_block *block, struct pieces *pieces_ret)
{
    const uint64_t limit = block->piece_nvalues != 0 ? block->piece_nvalues
                                                     : TERP_BLOCK_PIECE_NVALUES;
    struct pieces pieces = {.axis = block->ndims,
                            .inner_nvalues = 1,
                            .step = 1,
                            .naxis = 1,
                            .n = 1};
    uint64_t nvalues = 1;

    if (block->ndims < 0 || block->ndims > TERP_BLOCK_MAX_NDIMS ||
        (block->type != TERP_BYTES &&
         block->value_nbytes != (uint64_t)terp_value_nbytes(block->type)))
        return false;
    for (int i = 0; i < block->ndims; i++)
        if (!mul_fits(nvalues, block->dims[i], &nvalues))
            return false;
    if (!mul_fits(nvalues, block->value_nbytes, &pieces.nbytes))
        return false;
    if (nvalues == 0)
        pieces.n = 0;
    /* The slowest dim of which one index fits the limit. */
    if (nvalues > 0 && block->ndims > 0) {
        const uint64_t *dims = block->dims;
        pieces.axis = block->ndims - 1;
        while (pieces.axis > 0 &&
               pieces.inner_nvalues * dims[pieces.axis] <= limit)
            pieces.inner_nvalues *= dims[pieces.axis--];
        const uint64_t nfitting = limit / pieces.inner_nvalues;
        const uint64_t naxis =
            div_up(dims[pieces.axis], nfitting == 0 ? 1 : nfitting);
        pieces.step = div_up(dims[pieces.axis], naxis);
        pieces.naxis = div_up(dims[pieces.axis], pieces.step);
        pieces.n = pieces.naxis;
        for (int i = 0; i < pieces.axis; i++)
            pieces.n *= dims[i];
    }
    *pieces_ret = pieces;
    return true;
}

/* The dims of a piece, and its first value. Returns the number of dims. */
static int
piece_dims(const struct terp_block *block, const struct pieces *pieces,
           uint64_t i, uint64_t *dims_ret, uint64_t *at_ret)
{
    *at_ret = 0;
    if (pieces->axis == block->ndims)
        return 0;
    const uint64_t first = i % pieces->naxis * pieces->step;
    const uint64_t nindices = block->dims[pieces->axis];
    const int ndims = block->ndims - pieces->axis;
    *at_ret = (i / pieces->naxis * nindices + first) * pieces->inner_nvalues;
    memcpy(dims_ret, block->dims + pieces->axis,
           (size_t)ndims * sizeof *dims_ret);
    dims_ret[0] =
        nindices - first < pieces->step ? nindices - first : pieces->step;
    return ndims;
}

uint64_t
terp_block_bound(const struct terp_block *block)
{
    struct pieces pieces;
    uint64_t table_nbytes;

    if (!cut(block, &pieces) ||
        !mul_fits(pieces.n, 8 + TERP_MAX_FRAME_NBYTES, &table_nbytes))
        return 0;
    return TABLE_AT + table_nbytes + pieces.nbytes;
}

/* ---- encoding ---- */

static bool
is_aligned(const void *at, enum terp_type type)
{
    return type == TERP_BYTES ||
           (uintptr_t)at % (uintptr_t)terp_part_nbytes(type) == 0;
}

/* The chunk of a piece, and its parameters. */
static enum terp_status
prepare(const struct terp_cd *cd, const struct terp_block *block, int ndims,
        const uint64_t *dims, struct terp_cd *own_ret)
{
    const bool is_big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

    *own_ret = *cd;
    if (block->type != TERP_BYTES) {
        terp_cd_apply_dims(own_ret, block->type, is_big_endian, ndims, dims);
        return own_ret->pass == TERP_PASS_NONE ? TERP_OK : TERP_ERR_ARGUMENT;
    }
    own_ret->chunk = (struct terp_chunk){
        .type = TERP_BYTES, .rank = 1, .dims = {block->value_nbytes}};
    for (int i = 0; i < ndims; i++)
        own_ret->chunk.dims[0] *= dims[i];
    return TERP_OK;
}

/* Encodes a piece, and copies its stream to `dst`. */
static enum terp_status
encode_piece(struct terp_run *run, const struct terp_cd *cd, const void *src,
             uint8_t *dst, uint64_t *dst_nbytes_ret)
{
    const uint64_t nbytes = terp_chunk_nbytes(&cd->chunk);
    const uint64_t cap_nbytes = terp_encode_bound(&cd->chunk);
    const uint64_t copied_nbytes = is_aligned(src, cd->chunk.type) ? 0 : nbytes;
    enum terp_status st =
        terp_budget_hold(run->budget, cap_nbytes + copied_nbytes);

    if (st != TERP_OK)
        return st;
    /* ADIOS2's older engines have no room behind an encoded block. */
    void *stream = malloc(cap_nbytes);
    void *copy = copied_nbytes > 0 ? malloc(copied_nbytes) : NULL;
    if (stream == NULL || (copied_nbytes > 0 && copy == NULL)) {
        st = TERP_ERR_MEMORY;
    } else {
        if (copy != NULL)
            memcpy(copy, src, copied_nbytes);
        const void *values = copy != NULL ? copy : src;
        st = terp_run_encode(run, &cd->params, &cd->chunk, 1, &values, &stream,
                             dst_nbytes_ret);
    }
    if (st == TERP_OK)
        memcpy(dst, stream, *dst_nbytes_ret);
    free(copy);
    free(stream);
    return st;
}

enum terp_status
terp_block_encode(const struct terp_run_options *options,
                  const struct terp_cd *cd, const struct terp_block *block,
                  const void *src, void *dst, uint64_t *dst_nbytes_ret)
{
    uint8_t *const bytes = dst;
    struct pieces pieces;
    enum terp_status st = TERP_OK;

    if (terp_block_bound(block) == 0 || !cut(block, &pieces))
        return TERP_ERR_ARGUMENT;
    uint64_t nbytes = TABLE_AT + 8 * pieces.n;
    store_le(bytes, MAGIC | (uint64_t)VERSION << 32, 8);
    store_le(bytes + 8, pieces.nbytes, 8);
    store_le(bytes + 16, pieces.n, 8);
    for (uint64_t i = 0; i < pieces.n && st == TERP_OK; i++) {
        uint64_t dims[TERP_BLOCK_MAX_NDIMS], at, stream_nbytes = 0;
        struct terp_run run;
        struct terp_cd own;
        const int ndims = piece_dims(block, &pieces, i, dims, &at);
        st = prepare(cd, block, ndims, dims, &own);
        if (st != TERP_OK)
            return st;
        st = terp_run_begin(options, NULL, &run);
        if (st == TERP_OK)
            st = encode_piece(&run, &own,
                              (const uint8_t *)src + at * block->value_nbytes,
                              bytes + nbytes, &stream_nbytes);
        st = terp_run_end(&run, st, NULL);
        store_le(bytes + TABLE_AT + 8 * i, stream_nbytes, 8);
        nbytes += stream_nbytes;
    }
    *dst_nbytes_ret = nbytes;
    return st;
}

/* ---- decoding ---- */

/* Reads the head. The table and the streams fill the rest of the block. */
static enum terp_status
read_head(const uint8_t *src, uint64_t src_nbytes, uint64_t *nbytes_ret,
          uint64_t *npieces_ret)
{
    if (src_nbytes < 8)
        return TERP_ERR_TRUNCATED;
    if (load_le(src, 4) != MAGIC)
        return TERP_ERR_MAGIC;
    if (load_le(src + 4, 4) != VERSION)
        return TERP_ERR_VERSION;
    if (src_nbytes < TABLE_AT)
        return TERP_ERR_TRUNCATED;
    *nbytes_ret = load_le(src + 8, 8);
    *npieces_ret = load_le(src + 16, 8);
    return *npieces_ret <= (src_nbytes - TABLE_AT) / 8 ? TERP_OK
                                                       : TERP_ERR_TRUNCATED;
}

/* Checks that the streams fill the block, and that their values fill
 * `nbytes`. */
static enum terp_status
check_pieces(const uint8_t *src, uint64_t src_nbytes, uint64_t nbytes,
             uint64_t npieces)
{
    uint64_t at = TABLE_AT + 8 * npieces, found_nbytes = 0;
    struct terp_chunk chunk = {.rank = 0}, first = {.rank = 0};

    for (uint64_t i = 0; i < npieces; i++) {
        const uint64_t n = load_le(src + TABLE_AT + 8 * i, 8);
        if (n > src_nbytes - at)
            return TERP_ERR_TRUNCATED;
        const enum terp_status st = terp_decoded_chunk(src + at, n, &chunk);
        if (st != TERP_OK)
            return st;
        if (i == 0)
            first = chunk;
        const uint64_t chunk_nbytes = terp_chunk_nbytes(&chunk);
        if (chunk.type != first.type || chunk.big_endian != first.big_endian ||
            chunk_nbytes > nbytes - found_nbytes)
            return TERP_ERR_CORRUPT;
        found_nbytes += chunk_nbytes;
        at += n;
    }
    return at == src_nbytes && found_nbytes == nbytes ? TERP_OK
                                                      : TERP_ERR_CORRUPT;
}

/* Decodes a stream to a destination that may lack alignment. */
static enum terp_status
decode_piece(const struct terp_run_options *options,
             const struct terp_chunk *chunk, const void *src,
             uint64_t src_nbytes, uint8_t *dst)
{
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const bool copies = !is_aligned(dst, chunk->type);
    void *to = copies ? malloc(nbytes) : dst;
    enum terp_status status;

    if (to == NULL)
        return TERP_ERR_MEMORY;
    const enum terp_status st = terp_decode_batch(
        options, chunk, 1, &src, &src_nbytes, &to, &status, NULL);
    if (copies) {
        if (st == TERP_OK)
            memcpy(dst, to, nbytes);
        free(to);
    }
    return st;
}

enum terp_status
terp_block_decode(const struct terp_run_options *options, const void *src,
                  uint64_t src_nbytes, void *dst, uint64_t dst_cap_nbytes,
                  uint64_t *dst_nbytes_ret)
{
    const uint8_t *const bytes = src;
    uint8_t *to = dst;
    uint64_t nbytes, npieces;
    enum terp_status st = read_head(bytes, src_nbytes, &nbytes, &npieces);

    *dst_nbytes_ret = 0;
    if (st == TERP_OK)
        st = check_pieces(bytes, src_nbytes, nbytes, npieces);
    if (st == TERP_OK && nbytes > dst_cap_nbytes)
        st = TERP_ERR_CAPACITY;
    uint64_t at = st == TERP_OK ? TABLE_AT + 8 * npieces : 0;
    for (uint64_t i = 0; st == TERP_OK && i < npieces; i++) {
        const uint64_t n = load_le(bytes + TABLE_AT + 8 * i, 8);
        struct terp_chunk chunk;
        st = terp_decoded_chunk(bytes + at, n, &chunk);
        if (st == TERP_OK)
            st = decode_piece(options, &chunk, bytes + at, n, to);
        if (st != TERP_OK)
            return st;
        to += terp_chunk_nbytes(&chunk);
        at += n;
    }
    if (st == TERP_OK)
        *dst_nbytes_ret = nbytes;
    return st;
}
