/* Writes streams of small chunks, by a block each. */
#pragma once

#include "gpu/engine/state.cuh"

/* Does the work of cuda_stream_write, cuda_low_bits_write and cuda_seal for
 * chunks of up to CUDA_SMALL_CHUNK_NPARTITIONS: a block writes and seals a
 * stream. */
cuda_stage cuda_small_stream_write;
