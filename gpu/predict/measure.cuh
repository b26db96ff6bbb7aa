/* How far decoded values are from those that were encoded. */
#pragma once

#include "gpu/engine/state.cuh"

/* A chunk and what was decoded of it, in device memory. */
struct cuda_measured {
    const void *values, *decoded;
    uint64_t fills[TERP_NFILLS];
    double half_range;
    double *sums; /* of blocks: div_up(nvalues, TERP_SQUARES_BLOCK_NVALUES) */
    double sum;   /* of squares, as codec/model/psnr.h says: the result */
};

/* Measures n of them, of one shape. */
cudaError_t
cuda_measure(struct cuda_measured *d_measured, uint64_t n,
             const struct terp_chunk *chunk, cudaStream_t stream);
