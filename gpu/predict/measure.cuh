/* The error of decoded values. */
#pragma once

#include "gpu/engine/state.cuh"

/* A chunk and its decoded values, in device memory. */
struct cuda_measured {
    const void *values, *decoded;
    uint64_t fills[TERP_NFILLS];
    double half_range;
    /* per block: div_up(nvalues, TERP_SQUARES_BLOCK_NVALUES) */
    double *sums;
    double sum; /* result: sum of squares, see codec/model/psnr.h */
};

/* Measures n chunks of one shape. */
cudaError_t
cuda_measure(struct cuda_measured *d_measured, uint64_t n,
             const struct terp_chunk *chunk, cudaStream_t stream);
