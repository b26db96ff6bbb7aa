/* The section of signs: eight signs are a symbol, and symbols are coded in
 * tiles as those of a chunk are. So the stages of tiles do their work a second
 * time, on a batch of as many chunks whose values are these symbols: a chunk's
 * state there is in d_sign_chunks, its regions are behind the chunk's own.
 * doc/format.md, "Signs"; cpu/sections/signs.c does the same. */
#pragma once

#include "gpu/engine/state.cuh"

/* What an encoder notes of as many values, in the region sign_pieces: how many
 * of the first of them are special or tiny, so that their sign is told by a
 * piece before this one; and which sign goes on behind the piece, where that
 * is known. */
#define SIGN_PIECE_NVALUES 2048
#define SIGN_PIECE_NOPEN 0xFFFu
#define SIGN_PIECE_NEGATIVE (1u << 30)
#define SIGN_PIECE_KNOWN (1u << 31)

/* The dim of the mask delta stands first, then the length. */
#define SIGNS_HEAD_NBYTES (1 + TERP_SIGNS_LENGTH_NBYTES)

/* The batch of the signs' symbols. */
struct cuda_batch
cuda_signs_batch(const struct cuda_batch *batch);

/* Has room for them in a chunk's scratch memory: what is zeroed when a call
 * begins, and what is not. */
void
cuda_signs_lay_out_zeroed(struct cuda_batch *batch, uint64_t *at);
void
cuda_signs_lay_out(struct cuda_batch *batch, uint64_t *at);

/* encode: the dim whose mask delta leaves the fewest differences; 0 where signs
 * are more alike than these. */
static __device__ inline int
signs_choose_dim(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    uint64_t least = min_u64(chunk.nsigns[0], batch.nvalues - chunk.nsigns[0]);
    int best = 0;

    for (int d = 1; d <= TERP_NDIMS; d++) {
        if (terp_mask_delta_distance(batch.d_layout, d) == 0 ||
            chunk.nsigns[d] >= least)
            continue;
        least = chunk.nsigns[d];
        best = d;
    }
    return best;
}

/* ---- steps that stand where the rest of a stream is written and read ---- */

/* encode: the section, once tiles and partitions are coded. */
cudaError_t
cuda_signs_place(const struct cuda_batch *batch, const struct cuda_batch *signs,
                 cudaStream_t stream);

/* decode: the states of the batch of signs, and what the index says of tiles.
 */
cudaError_t
cuda_signs_index_read(const struct cuda_batch *batch,
                      const struct cuda_batch *signs, cudaStream_t stream);
