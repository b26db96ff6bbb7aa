/* Checksums of streams that are no batch's. */
#pragma once

#include "gpu/engine/platform.cuh"

/* A stream; of CUDA_SHORT_NBYTES and fewer nothing is done. What follows begins
 * as zeros. */
struct cuda_sealed {
    uint8_t *stream;
    uint64_t nbytes;
    unsigned long long sum; /* of blocks that are done */
    unsigned progress;
    bool is_bad; /* to be verified: it has another checksum */
};

cudaError_t
cuda_streams_seal(struct cuda_sealed *d_streams, uint64_t n,
                  cudaStream_t stream);
cudaError_t
cuda_streams_verify(struct cuda_sealed *d_streams, uint64_t n,
                    cudaStream_t stream);
