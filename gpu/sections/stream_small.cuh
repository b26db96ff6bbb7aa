/* How streams of small chunks are written: by one block each. */
#ifndef TERP_GPU_SECTIONS_STREAM_SMALL_CUH
#define TERP_GPU_SECTIONS_STREAM_SMALL_CUH

#include "gpu/engine/state.cuh"

/* A small chunk has no more partitions than this. */
#define CUDA_SMALL_CHUNK_NPARTITIONS 4

/* Does what cuda_stream_write and cuda_seal do, for small chunks. */
cudaError_t
cuda_small_stream_write(const struct cuda_batch *batch, cudaStream_t stream);

#endif
