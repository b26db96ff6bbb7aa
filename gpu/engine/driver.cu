/* Finds the driver's functions, each in the version that driver.cuh writes
 * down, since a newer one may have other parameters. */
#include "gpu/engine/driver.cuh"

#include <string.h>

template <typename Function>
static cudaError_t
find(const char *name, unsigned version, Function *function_ret)
{
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    void *found = NULL;

#if CUDART_VERSION >= 12050
    cudaError_t error = cudaGetDriverEntryPointByVersion(
        name, &found, version, cudaEnableDefault, &result);
#else
    (void)version;
    cudaError_t error =
        cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
    if (error == cudaSuccess && result != cudaDriverEntryPointSuccess)
        error = cudaErrorInsufficientDriver;
    memcpy((void *)function_ret, (void *)&found, sizeof found);
    return error;
}

cudaError_t
cuda_driver_find(struct cuda_driver *driver)
{
    cudaError_t error = find("cuDeviceGet", 2000, &driver->device_get);

    if (error == cudaSuccess)
        error = find("cuDevicePrimaryCtxRetain", 7000, &driver->primary_retain);
    if (error == cudaSuccess)
        error =
            find("cuDevicePrimaryCtxRelease", 11000, &driver->primary_release);
    if (error == cudaSuccess)
        error =
            find("cuDevicePrimaryCtxGetState", 7000, &driver->primary_state);
    if (error == cudaSuccess)
        error = find("cuCtxGetCurrent", 4000, &driver->current_context);
    if (error == cudaSuccess)
        error = find("cuCtxGetFlags", 7000, &driver->context_flags);
    if (error == cudaSuccess)
        (void)find("cuCtxSetFlags", 12010, &driver->set_context_flags);
    if (error == cudaSuccess)
        error = find("cuCtxPushCurrent", 4000, &driver->push_context);
    if (error == cudaSuccess)
        error = find("cuCtxPopCurrent", 4000, &driver->pop_context);
    if (error == cudaSuccess)
        error = find("cuStreamGetCtx", 9020, &driver->stream_context);
    if (error == cudaSuccess)
        error = find("cuPointerGetAttribute", 4000, &driver->pointer_attribute);
    return error;
}
