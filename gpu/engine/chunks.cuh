/* How chunks' states come to the device, and back. */
#pragma once

#include "gpu/engine/context.cuh"

/* Clears what the host fills in. */
void
cuda_chunk_ask(struct cuda_chunk *h_chunk);

/* Takes the states from batch.h_chunks; zeroes regions. decode: reads frames.
 * One that is not of the batch's shape, is damaged, or of a raw stream of a
 * wrong length, makes TERP_ERR_DEVICE: the CPU tells what is wrong. */
cudaError_t
cuda_chunks_begin(const struct cuda_slot *slot);

/* status, coding and stream_nbytes to batch.h_chunks, and streams of up to
 * CUDA_SHORT_NBYTES, whose checksums are the host's, to slot->h_short. */
cudaError_t
cuda_chunks_end(const struct cuda_slot *slot);
