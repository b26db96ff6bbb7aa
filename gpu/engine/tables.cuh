/* Tables that follow from the dictionary, on their way to the device. */
#pragma once

#include "gpu/engine/state.cuh"

/* Makes them in one piece of device memory, which cudaFree releases. Returns
 * when they are there. */
cudaError_t
cuda_tables_make(struct cuda_tables *tables, uint8_t **d_memory_ret,
                 cudaStream_t stream);
