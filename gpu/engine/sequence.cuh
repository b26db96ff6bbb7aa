/* Launches the kernels of a batch: begin_chunks, all stages, end_chunks. */
#pragma once

#include "gpu/engine/context.cuh"

/* Launches the kernels for slot->batch, whose h_chunks are filled in. If a
 * batch comes twice in a row, its launches become a graph, which is replayed
 * from then on; if the graph cannot be made or launched, the kernels are
 * launched one by one. may_wait: the caller has nothing else to do meanwhile,
 * so the host may wait for the plans of large chunks; slot->batch.plans then
 * has them. */
cudaError_t
cuda_sequence_run(const struct terp_cuda_device *device, struct cuda_slot *slot,
                  bool may_wait);

/* Destroys all graphs: their kernels refer to memory that will be released. */
void
cuda_sequences_drop(struct cuda_sequences *sequences);
