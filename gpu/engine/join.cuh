/* Streams that are put together of pieces. */
#pragma once

#include "gpu/sections/seal.cuh"

/* Bytes on the host or the device. */
struct cuda_piece {
    const void *at;
    uint64_t nbytes;
};

/* Puts pieces one behind the other to `dst`, which is host memory or the
 * device's, and seals them as a stream. Waits for all. */
cudaError_t
cuda_stream_join(void *dst, bool is_on_host, const struct cuda_piece *pieces,
                 int npieces, struct cuda_sealed *d_sealed,
                 cudaStream_t stream);
