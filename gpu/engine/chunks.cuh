/* Sets up the states of chunks on the device, and returns results to the host.
 */
#pragma once

#include <string.h>

#include "gpu/engine/context.cuh"

/* Clears the members that the host fills in. */
static inline void
cuda_chunk_clear(struct cuda_chunk *h_chunk)
{
    memset((void *)h_chunk, 0, CUDA_HOST_NBYTES);
}

/* Copies the states from batch.h_chunks and zeroes regions. decode: reads
 * frames. TERP_ERR_DEVICE for a frame of another shape or kind than the batch
 * expects, a damaged frame, or a raw stream of a wrong length: the CPU decodes
 * it and says what is wrong. */
cudaError_t
cuda_chunks_begin(const struct cuda_slot *slot);

/* Copies results (status, coding, stream_nbytes, facts for the host) to
 * batch.h_chunks, and streams of up to CUDA_SHORT_NBYTES, whose checksums the
 * host computes, to slot->h_short. */
cudaError_t
cuda_chunks_end(const struct cuda_slot *slot);
