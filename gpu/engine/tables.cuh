/* Makes the tables derived from the dictionary in device memory. */
#pragma once

#include "gpu/engine/state.cuh"

/* Makes all tables in one allocation, which cudaFree releases. Returns when
 * they are complete. */
cudaError_t
cuda_tables_make(struct cuda_tables *tables, uint8_t **d_memory_ret,
                 cudaStream_t stream);
