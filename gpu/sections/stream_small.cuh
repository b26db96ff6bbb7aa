/* Streams of small chunks. */
#ifndef TERP_GPU_SECTIONS_STREAM_SMALL_CUH
#define TERP_GPU_SECTIONS_STREAM_SMALL_CUH

#include "gpu/engine/state.cuh"

/* cuda_stream_write and cuda_seal for chunks of CUDA_FEW_PARTITIONS or less:
 * one block writes and seals a stream. */
cudaError_t
cuda_small_stream_write(const struct cuda_batch *batch, cudaStream_t stream);

#endif
