/* An emulation of the CUDA driver functions that terp's engine uses. */
#pragma once

#include "cuda_runtime.h"

struct emulator_context;
typedef emulator_context *CUcontext;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef cudaStream_t CUstream;

/* The numbers are those of the runtime's errors. */
enum CUresult {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_OUT_OF_MEMORY = 2
};

enum CUpointer_attribute {
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    CU_POINTER_ATTRIBUTE_BUFFER_ID = 7
};

enum CUmemorytype {
    CU_MEMORYTYPE_HOST = 1,
    CU_MEMORYTYPE_DEVICE = 2
};

#pragma GCC visibility push(default)
#define CU_CTX_LMEM_RESIZE_TO_MAX 0x10

extern "C" {

CUresult
cuDeviceGet(CUdevice *device_ret, int ordinal);
CUresult
cuDevicePrimaryCtxRetain(CUcontext *context_ret, CUdevice device);
CUresult
cuDevicePrimaryCtxRelease(CUdevice device);
CUresult
cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags_ret,
                           int *is_active_ret);
CUresult
cuCtxCreate(CUcontext *context_ret, void *parameters, unsigned flags,
            CUdevice device);
CUresult
cuCtxDestroy(CUcontext context);
CUresult
cuCtxGetCurrent(CUcontext *context_ret);
CUresult
cuCtxGetFlags(unsigned *flags_ret);
CUresult
cuCtxSetFlags(unsigned flags);
CUresult
cuCtxPushCurrent(CUcontext context);
CUresult
cuCtxPopCurrent(CUcontext *context_ret);
CUresult
cuStreamGetCtx(CUstream stream, CUcontext *context_ret);
CUresult
cuPointerGetAttribute(void *value_ret, CUpointer_attribute which,
                      CUdeviceptr at);
}
#pragma GCC visibility pop
