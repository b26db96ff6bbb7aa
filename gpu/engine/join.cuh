/* Concatenates pieces of memory to one stream. */
#pragma once

#include "gpu/sections/seal.cuh"

/* Consecutive bytes on the host or the device. */
struct cuda_piece {
    const void *at;
    uint64_t nbytes;
};

/* Copies the pieces one behind the other to `dst`, in host or device memory,
 * and writes the checksum of the resulting stream. d_sealed is scratch. Returns
 * when all is done. */
cudaError_t
cuda_stream_join(void *dst, bool is_on_host, const struct cuda_piece *pieces,
                 int npieces, struct cuda_sealed *d_sealed,
                 cudaStream_t stream);
