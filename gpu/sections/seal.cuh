/* Checksums of streams in device memory that do not belong to a batch. */
#pragma once

#include "gpu/engine/platform.cuh"

/* A stream to seal or verify. Streams of up to CUDA_SHORT_NBYTES are skipped.
 * The caller zeroes the members behind nbytes. */
struct cuda_sealed {
    uint8_t *stream;
    uint64_t nbytes;
    unsigned long long sum; /* over finished blocks */
    unsigned progress;      /* finished blocks */
    bool is_bad;            /* cuda_streams_verify: the checksum is wrong */
};

cudaError_t
cuda_streams_seal(struct cuda_sealed *d_streams, uint64_t n,
                  cudaStream_t stream);
cudaError_t
cuda_streams_verify(struct cuda_sealed *d_streams, uint64_t n,
                    cudaStream_t stream);
