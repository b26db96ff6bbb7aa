/* Streams of small chunks. */
#ifndef TERP_GPU_SECTIONS_STREAM_SMALL_CUH
#define TERP_GPU_SECTIONS_STREAM_SMALL_CUH

#include "gpu/engine/state.cuh"

/* One block writes and seals the stream of a chunk of so few partitions. */
#define CUDA_FEW_PARTITIONS 4

/* cuda_stream_write and cuda_seal for such chunks. */
cudaError_t
cuda_small_stream_write(const struct cuda_batch *batch, cudaStream_t stream);

#endif
