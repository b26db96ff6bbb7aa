/* The section of signs. Eight signs make a symbol, and symbols are coded in
 * tiles like those of a chunk. So the stages of tiles run a second time, on a
 * batch whose chunks have these symbols as values: the batch of signs. Its
 * states are in d_sign_chunks, and its regions lie behind those of the chunk.
 * doc/format.md, "Signs"; cpu/sections/signs.c does the same. */
#pragma once

#include "gpu/engine/state.cuh"

/* A special or tiny value has no sign of its own, and takes that of the value
 * before it. An encoder records a word in the region `sign_pieces` for each
 * SIGN_PIECE_NVALUES values: how many of its first values take the sign of an
 * earlier piece (NOPEN), and, if KNOWN, whether the sign behind the piece is
 * NEGATIVE. */
#define SIGN_PIECE_NVALUES 2048
#define SIGN_PIECE_NOPEN 0xFFFu
#define SIGN_PIECE_NEGATIVE (1u << 30)
#define SIGN_PIECE_KNOWN (1u << 31)

/* Bytes of the section's head: the dimension of the mask delta, and the
 * section's length. */
#define SIGNS_HEAD_NBYTES (1 + TERP_SIGNS_LENGTH_NBYTES)

/* Lays out the regions of signs in a chunk's scratch memory: first the regions
 * that are zeroed when a call begins, then the other regions. */
void
cuda_signs_lay_out_zeroed(struct cuda_batch *batch, uint64_t *at);
void
cuda_signs_lay_out(struct cuda_batch *batch, uint64_t *at);

/* encode: the dimension whose mask delta leaves the fewest differences, or
 * TERP_NDIMS for bricks; 0 if the signs themselves have fewer of the rarer
 * sign. Dimension 0 has no mask delta. */
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

/* ---- steps in stream_write.cu and stream_read.cu ---- */

/* encode: writes the section, after tiles and partitions are coded. */
cudaError_t
cuda_signs_place(const struct cuda_batch *batch, const struct cuda_batch *signs,
                 cudaStream_t stream);

/* decode: sets up the states of the batch of signs, and reads the index of its
 * tiles. */
cudaError_t
cuda_signs_index_read(const struct cuda_batch *batch,
                      const struct cuda_batch *signs, cudaStream_t stream);
