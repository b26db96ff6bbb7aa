/* The kernels of a batch, from its states' setting up to their reading. */
#pragma once

#include "gpu/engine/context.cuh"

/* Launches them for slot->batch, whose h_chunks are filled in. A batch that
 * comes twice in a row becomes a graph; where that cannot be made or launched,
 * the kernels are launched one by one. */
cudaError_t
cuda_sequence_run(const struct terp_cuda_device *device,
                  struct cuda_slot *slot);

/* Forgets its graph, whose kernels work in memory that is given up. */
void
cuda_sequence_drop(struct cuda_sequence *sequence);
