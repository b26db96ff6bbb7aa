/* How streams of small chunks are written: by one block each. */
#pragma once

#include "gpu/engine/state.cuh"

/* cuda_stream_write and cuda_seal for chunks of CUDA_SMALL_CHUNK_NPARTITIONS or
 * less: one block writes and seals a stream. */
cuda_stage cuda_small_stream_write;
