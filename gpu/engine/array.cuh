/* An array in device memory and its chunks, for a caller whose other
 * end is the host. All functions work on the context's device, wait until it
 * is done, and may be called by any thread. */
#ifndef TERP_GPU_ENGINE_ARRAY_CUH
#define TERP_GPU_ENGINE_ARRAY_CUH

#include "codec/format/array.h"
#include "gpu/engine/context.cuh"

/* Device memory, aligned for everything. */
cudaError_t
cuda_array_allocate(uint64_t nbytes, void **at_ret);
cudaError_t
cuda_array_release(void *at);

/* Copies n parts of nbytes[i] from src[i] to dst[i], on host or device. */
cudaError_t
cuda_array_copy(uint64_t n, void *const *dst, const void *const *src,
                const uint64_t *nbytes);

/* As terp_array_gather, or scatter, with both ends on the device. */
cudaError_t
cuda_array_move(const struct terp_array *array, uint64_t first, uint64_t n,
                const void *src, void *dst, bool gather);

#endif
