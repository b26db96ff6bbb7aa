/* The emulator has no profiler. */
#ifndef TERP_EMULATED_CUDA_PROFILER_API_H
#define TERP_EMULATED_CUDA_PROFILER_API_H

#include "cuda_runtime.h"

static inline cudaError_t
cudaProfilerStart(void)
{
    return cudaSuccess;
}

#endif
