/* How streams of small chunks are written: by one block each. */
#ifndef TERP_GPU_SECTIONS_STREAM_SMALL_CUH
#define TERP_GPU_SECTIONS_STREAM_SMALL_CUH

#include "gpu/engine/state.cuh"

/* cuda_stream_write and cuda_seal for chunks of CUDA_SMALL_CHUNK_NPARTITIONS or
 * less: one block writes and seals a stream. */
cuda_stage cuda_small_stream_write;

#endif
