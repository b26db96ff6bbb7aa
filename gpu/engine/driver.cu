/* Looks up the driver's functions, each in the version whose parameters
 * driver.cuh declares: a newer version may have other parameters. */
#include "gpu/engine/driver.cuh"

#include <string.h>

static cudaError_t
find(const char *name, unsigned version, void *function_ret)
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
    memcpy(function_ret, (void *)&found, sizeof found);
    return error;
}

cudaError_t
cuda_driver_find(struct cuda_driver *driver)
{
    const struct {
        const char *name;
        unsigned version;
        void *function_ret;
    } wanted[] = {
        {"cuDeviceGet", 2000, &driver->device_get},
        {"cuDevicePrimaryCtxRetain", 7000, &driver->primary_retain},
        {"cuDevicePrimaryCtxRelease", 11000, &driver->primary_release},
        {"cuDevicePrimaryCtxGetState", 7000, &driver->primary_state},
        {"cuCtxGetCurrent", 4000, &driver->current_context},
        {"cuCtxGetFlags", 7000, &driver->context_flags},
        {"cuCtxPushCurrent", 4000, &driver->push_context},
        {"cuCtxPopCurrent", 4000, &driver->pop_context},
        {"cuStreamGetCtx", 9020, &driver->stream_context},
        {"cuPointerGetAttribute", 4000, &driver->pointer_attribute},
    };
    cudaError_t error = cudaSuccess;

    for (const auto &one : wanted)
        if (error == cudaSuccess)
            error = find(one.name, one.version, one.function_ret);
    if (error == cudaSuccess)
        (void)find("cuCtxSetFlags", 12010, &driver->set_context_flags);
    return error;
}
