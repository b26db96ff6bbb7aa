/* Functions of CUDA's driver for which the runtime has no equivalent. The
 * runtime looks them up when a device is opened, so libterp_cuda.so can be
 * loaded on a machine without a driver. */
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

struct cuda_driver {
    CUresult (*device_get)(CUdevice *device_ret, int ordinal);
    CUresult (*primary_retain)(CUcontext *context_ret, CUdevice device);
    CUresult (*primary_release)(CUdevice device);
    CUresult (*primary_state)(CUdevice device, unsigned *flags_ret,
                              int *is_active_ret);
    CUresult (*current_context)(CUcontext *context_ret);
    CUresult (*context_flags)(unsigned *flags_ret);
    CUresult (*set_context_flags)(unsigned flags); /* NULL before CUDA 12.1 */
    CUresult (*push_context)(CUcontext context);
    CUresult (*pop_context)(CUcontext *context_ret);
    CUresult (*stream_context)(CUstream stream, CUcontext *context_ret);
    CUresult (*pointer_attribute)(void *value_ret, CUpointer_attribute which,
                                  CUdeviceptr at);
};

/* Looks up all functions. Returns an error if one is missing, except
 * set_context_flags, which is then NULL. */
cudaError_t
cuda_driver_find(struct cuda_driver *driver);
