/* Copies pieces of memory: on the device by one kernel, and between host and
 * device by few transfers. */
#pragma once

#include "gpu/engine/session.cuh"

/* A range of bytes to copy. */
struct cuda_piece {
    const uint8_t *src;
    uint8_t *dst;
    uint64_t nbytes;
};

/* A stream's pieces: `npieces` entries, from `first` on, in the list of all
 * pieces. */
struct cuda_transfer {
    uint64_t first;
    unsigned npieces;
};

/* Starts the copy of the pieces of n streams, at most CUDA_LAUNCH_MAX_NROWS, in
 * device memory. No stream has more than about `most_nbytes`. Without
 * `transfers`, each stream has one piece. */
cudaError_t
cuda_pieces_copy(uint64_t n, uint64_t most_nbytes,
                 const struct cuda_transfer *transfers,
                 const struct cuda_piece *pieces, cudaStream_t stream);

table_function<decltype(terp_cuda_engine::copy)> cuda_pieces_copy_all;
