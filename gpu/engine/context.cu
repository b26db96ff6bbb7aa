/* Opens and closes devices, enters and leaves their contexts, gives out slots
 * and memory, and tells errors of one call from the loss of the device. */
#include "gpu/engine/context.cuh"

#include <new>
#include <utility>

#include <stdio.h>

#include "gpu/engine/device.h"
#include "gpu/engine/sequence.cuh"
#include "gpu/engine/tables.cuh"

/* ---- reasons ---- */

static thread_local char reason[256];

/* Sets the text that says why the thread's last call failed: "action: why". */
static void
set_reason(const char *action, const char *why)
{
    snprintf(reason, sizeof reason, "%s: %s", action, why);
}

const char *
cuda_reason(void)
{
    return reason;
}

enum terp_status
cuda_status_of(const char *action, cudaError_t error)
{
    if (error == cudaSuccess)
        return TERP_OK;
    set_reason(action, cudaGetErrorString(error));
    return error == cudaErrorMemoryAllocation ? TERP_ERR_MEMORY
                                              : TERP_ERR_DEVICE;
}

/* CUresult and cudaError_t use the same numbers. */
static cudaError_t
error_of(CUresult result)
{
    return (cudaError_t)result;
}

static void
pop_context(const struct cuda_driver *driver)
{
    CUcontext popped;

    driver->pop_context(&popped);
}

static void
lose(struct terp_cuda_device *device, const char *why)
{
    const cuda_lock lock(&device->mutex);

    if (!device->is_lost)
        snprintf(device->loss, sizeof device->loss, "%s", why);
    device->is_lost = true;
}

/* ---- opening ---- */

static cudaError_t
open_slot(struct cuda_slot *slot)
{
    const unsigned beside = cudaStreamNonBlocking,
                   untimed = cudaEventDisableTiming;

    cudaError_t error = cudaStreamCreateWithFlags(&slot->stream, beside);
    if (error == cudaSuccess)
        error = cudaMallocHost((void **)&slot->h_lists, CUDA_LISTS_NBYTES);
    for (struct cuda_side &side : slot->side) {
        if (error == cudaSuccess)
            error = cudaStreamCreateWithFlags(&side.stream, beside);
        if (error == cudaSuccess)
            error = cudaEventCreateWithFlags(&side.forked, untimed);
        if (error == cudaSuccess)
            error = cudaEventCreateWithFlags(&side.joined, untimed);
    }
    return error;
}

#ifdef __CUDACC__
static __global__ void
wait_only(void)
{
    begin_kernel();
}
#endif

/* wait_for_kernels is empty in code for compute capability below 9.0, and such
 * code may run on a newer device. The function therefore checks the code that
 * will run, not the device. */
static cudaError_t
find_whether_kernels_wait(bool *wait_ret)
{
#ifdef __CUDACC__
    cudaFuncAttributes attributes;
    cudaError_t error = cudaFuncGetAttributes(&attributes, wait_only);
    *wait_ret = error == cudaSuccess && attributes.ptxVersion >= 90;
    return error;
#else
    *wait_ret = false;
    return cudaSuccess;
#endif
}

/* Chooses the device and sets handle, driver and name. `*reason_ret` is set if
 * CUDA has no text for the error. */
static cudaError_t
find_device(struct terp_cuda_device *device, int wanted,
            const char **reason_ret)
{
    int ndevices, major = 0;
    cudaDeviceProp properties;

    cudaError_t error = cudaGetDeviceCount(&ndevices);
    if (error == cudaSuccess && ndevices == 0)
        error = cudaErrorNoDevice;
    if (error != cudaSuccess)
        return error;
    int ordinal = wanted < 0 ? cuda_device_choose(ndevices) : wanted;
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                                   ordinal);
    if (error == cudaSuccess && major < 8) {
        *reason_ret = "the device is older than compute capability 8.0";
        return cudaErrorInvalidDevice;
    }
    if (error == cudaSuccess)
        error = cudaGetDeviceProperties(&properties, ordinal);
    if (error == cudaSuccess)
        error = cuda_driver_find(&device->driver);
    if (error == cudaSuccess)
        error = error_of(device->driver.device_get(&device->handle, ordinal));
    /* The name includes the place on the bus, since ordinals differ between
     * processes. */
    if (error == cudaSuccess)
        snprintf(device->name, sizeof device->name, "%s at %04x:%02x:%02x.0",
                 properties.name, (unsigned)properties.pciDomainID,
                 (unsigned)properties.pciBusID,
                 (unsigned)properties.pciDeviceID);
    return error;
}

/* Makes streams and tables in the device's context, which is current. */
static cudaError_t
fill_device(struct terp_cuda_device *device)
{
    cudaError_t error = find_whether_kernels_wait(&device->kernels_wait);

    for (int i = 0; error == cudaSuccess && i < CUDA_NSLOTS; i++)
        error = open_slot(&device->slot[i]);
    if (error == cudaSuccess)
        error = cuda_tables_make(&device->tables, &device->d_tables,
                                 device->slot[0].stream);
    return error == cudaSuccess
               ? error_of(device->driver.pointer_attribute(
                     &device->d_tables_id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                     (CUdeviceptr)device->d_tables))
               : error;
}

void
cuda_slot_release(struct terp_cuda_device *device, struct cuda_slot *slot)
{
    for (struct cuda_sequences &sequences : slot->sequences)
        cuda_sequences_drop(&sequences);
    slot->has_layout = false;
    cudaFree(slot->d_memory);
    cudaFreeHost(slot->h_memory);
    device->held_nbytes -= slot->d_nbytes;
    slot->d_memory = slot->h_memory = NULL;
    slot->d_nbytes = slot->h_nbytes = 0;
}

/* Releases streams and memory, also after fill_device has failed halfway. */
static void
empty_device(struct terp_cuda_device *device)
{
    for (struct cuda_slot &slot : device->slot) {
        cuda_slot_release(device, &slot);
        for (struct cuda_side &side : slot.side) {
            if (side.joined != NULL)
                cudaEventDestroy(side.joined);
            if (side.forked != NULL)
                cudaEventDestroy(side.forked);
            if (side.stream != NULL)
                cudaStreamDestroy(side.stream);
        }
        if (slot.stream != NULL)
            cudaStreamDestroy(slot.stream);
        cudaFreeHost(slot.h_lists);
    }
    for (const struct cuda_block &spare : device->spare)
        cudaFree(spare.at);
    cudaFree(device->d_tables);
}

/* Enters the retained context for the first time. cuda_device_enter cannot do
 * so yet: it checks the tables' memory, which fill_device makes. */
static cudaError_t
visit_to_fill(struct terp_cuda_device *device)
{
    const struct cuda_driver *driver = &device->driver;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;

    cudaError_t error = error_of(driver->push_context(device->context));
    if (error != cudaSuccess)
        return error;
    error = cudaThreadExchangeStreamCaptureMode(&mode);
    if (error == cudaSuccess) {
        error = fill_device(device);
        if (error != cudaSuccess)
            empty_device(device);
        cudaThreadExchangeStreamCaptureMode(&mode);
    }
    cudaGetLastError(); /* clears the error: the host must not see it */
    pop_context(driver);
    return error;
}

enum terp_status
cuda_device_open(const struct terp_cuda_options *options,
                 struct terp_cuda_device **device_ret, const char **name_ret,
                 const char **reason_ret)
{
    struct terp_cuda_device *device =
        new (std::nothrow) struct terp_cuda_device();

    *reason_ret = NULL;
    if (device == NULL) {
        *reason_ret = "there is no memory on the host";
        return TERP_ERR_MEMORY;
    }
    device->memory_limit_nbytes = options->memory_limit_nbytes;
    cudaError_t error = find_device(device, options->device, reason_ret);
    if (error == cudaSuccess) {
        error = error_of(
            device->driver.primary_retain(&device->context, device->handle));
        if (error == cudaSuccess) {
            error = visit_to_fill(device);
            if (error != cudaSuccess)
                device->driver.primary_release(device->handle);
        }
    }
    if (error != cudaSuccess) {
        delete device;
        cudaGetLastError(); /* clears the error: the host must not see it */
        if (*reason_ret == NULL)
            *reason_ret = cudaGetErrorString(error);
        return error == cudaErrorMemoryAllocation ? TERP_ERR_MEMORY
                                                  : TERP_ERR_DEVICE;
    }
    *name_ret = device->name;
    *device_ret = device;
    return TERP_OK;
}

/* A lost device has no streams or memory left to release, but its context must
 * still be released. */
void
cuda_device_close(struct terp_cuda_device *device)
{
    if (device == NULL)
        return;
    cuda_device_do(device, [=](const struct cuda_visit &) {
        empty_device(device);
        return TERP_OK;
    });
    device->driver.primary_release(device->handle);
    delete device;
}

/* ---- entering and leaving ---- */

/* Makes the context current if it is still the one that was opened. After
 * cudaDeviceReset the context has lost our memory, and using one of the old
 * streams would be an error. The driver never reuses the number of an
 * allocation, so the number of d_tables tells whether a reset occurred. */
static bool
push_context(struct terp_cuda_device *device)
{
    const struct cuda_driver *driver = &device->driver;
    unsigned long long id = 0;
    unsigned flags;
    int is_active = 0;

    if (driver->primary_state(device->handle, &flags, &is_active) !=
            CUDA_SUCCESS ||
        !is_active || driver->push_context(device->context) != CUDA_SUCCESS)
        return false;
    if (driver->pointer_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                  (CUdeviceptr)device->d_tables) ==
            CUDA_SUCCESS &&
        id == device->d_tables_id)
        return true;
    pop_context(driver);
    return false;
}

enum terp_status
cuda_device_enter(struct terp_cuda_device *device, struct cuda_visit *visit)
{
    visit->caller = NULL;
    if (!device->is_lost) {
        device->driver.current_context(&visit->caller);
        if (!push_context(device))
            lose(device, "its context was reset or destroyed");
    }
    if (device->is_lost) {
        const cuda_lock lock(&device->mutex);
        set_reason("the device is lost", device->loss);
        return TERP_ERR_DEVICE;
    }
    /* Allow cudaMalloc and cudaFree while the host captures a stream. */
    visit->mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&visit->mode);
    kernels_wait = device->kernels_wait;
    return TERP_OK;
}

void
cuda_device_leave(struct terp_cuda_device *device,
                  const struct cuda_visit *visit)
{
    cudaStreamCaptureMode mode = visit->mode;

    cudaThreadExchangeStreamCaptureMode(&mode);
    cudaGetLastError(); /* clears the error: the host must not see it */
    pop_context(&device->driver);
}

enum terp_status
cuda_device_judge(struct terp_cuda_device *device, struct cuda_slot *slot,
                  const char *action, cudaError_t error)
{
    if (error == cudaSuccess)
        return TERP_OK;
    enum terp_status st = cuda_status_of(action, error);
    cudaError_t first = cuda_slot_await(slot);
    cudaError_t now = cudaStreamSynchronize(slot->stream);
    /* After an error that has ended the context, every later call fails too. */
    if (first != cudaSuccess && now != cudaSuccess)
        lose(device, cudaGetErrorString(now));
    cudaGetLastError();
    return st;
}

/* ---- slots ---- */

cudaError_t
cuda_slot_await(const struct cuda_slot *slot)
{
    cudaError_t error = cudaSuccess;

    for (const struct cuda_side &side : slot->side) {
        cudaError_t now = cudaStreamSynchronize(side.stream);
        error = error == cudaSuccess ? now : error;
    }
    cudaError_t now = cudaStreamSynchronize(slot->stream);
    return error == cudaSuccess ? now : error;
}

struct cuda_slot *
cuda_slot_take(struct terp_cuda_device *device, bool optional)
{
    const cuda_lock lock(&device->mutex);

    for (;;) {
        for (struct cuda_slot &slot : device->slot) {
            if (!slot.busy) {
                slot.busy = true;
                return &slot;
            }
        }
        if (optional)
            return NULL;
        pthread_cond_wait(&device->slot_is_free, &device->mutex);
    }
}

void
cuda_slot_give(struct terp_cuda_device *device, struct cuda_slot *slot)
{
    const cuda_lock lock(&device->mutex);

    slot->busy = false;
    pthread_cond_signal(&device->slot_is_free);
}

/* The context of the caller's stream. The two default streams belong to the
 * caller's current context, or to the device's if there is none; the driver
 * knows the context of any other stream. */
static cudaError_t
find_context(const struct terp_cuda_device *device,
             const struct cuda_visit *visit, cudaStream_t stream,
             CUcontext *context_ret)
{
    *context_ret = visit->caller != NULL ? visit->caller : device->context;
    return stream == NULL || stream == cudaStreamLegacy ||
                   stream == cudaStreamPerThread
               ? cudaSuccess
               : error_of(device->driver.stream_context(stream, context_ret));
}

/* Records an event in the caller's stream and lets the slot's stream wait for
 * it. The context of the caller's stream must be current. */
static cudaError_t
follow(cudaStream_t stream, struct cuda_slot *slot)
{
    cudaStreamCaptureStatus capture;
    cudaEvent_t event;

    cudaError_t error = cudaStreamIsCapturing(stream, &capture);
    if (error == cudaSuccess && capture != cudaStreamCaptureStatusNone)
        error = cudaErrorStreamCaptureUnsupported;
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (error != cudaSuccess)
        return error;
    error = cudaEventRecord(event, stream);
    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(slot->stream, event, 0);
    cudaEventDestroy(event); /* CUDA releases it once it has occurred */
    return error;
}

/* `follow` in the context of the caller's stream. */
static cudaError_t
follow_anywhere(struct terp_cuda_device *device, const struct cuda_visit *visit,
                struct cuda_slot *slot, cudaStream_t stream)
{
    const struct cuda_driver *driver = &device->driver;
    CUcontext context;

    cudaError_t error = find_context(device, visit, stream, &context);
    if (error == cudaSuccess)
        error = error_of(driver->push_context(context));
    if (error != cudaSuccess)
        return error;
    error = follow(stream, slot);
    pop_context(driver);
    return error;
}

enum terp_status
cuda_slot_follow(struct terp_cuda_device *device,
                 const struct cuda_visit *visit, struct cuda_slot *slot,
                 const struct terp_cuda_call *call)
{
    if (!call->has_stream || call->memory != TERP_MEMORY_DEVICE)
        return TERP_OK;
    cudaError_t error =
        follow_anywhere(device, visit, slot, (cudaStream_t)call->stream);
    enum terp_status st =
        cuda_device_judge(device, slot, "waiting for the stream", error);
    return error == cudaErrorStreamCaptureUnsupported ||
                   error == cudaErrorStreamCaptureImplicit ||
                   error == cudaErrorInvalidResourceHandle
               ? TERP_ERR_ARGUMENT
               : st;
}

/* ---- memory beside slots ---- */

bool
cuda_device_hold(struct terp_cuda_device *device, uint64_t nbytes)
{
    uint64_t limit_nbytes = device->memory_limit_nbytes;
    uint64_t held_nbytes = device->held_nbytes;

    do {
        if (limit_nbytes > 0 &&
            (held_nbytes > limit_nbytes || nbytes > limit_nbytes - held_nbytes))
            return false;
    } while (!device->held_nbytes.compare_exchange_weak(held_nbytes,
                                                        held_nbytes + nbytes));
    return true;
}

static void
release_block(struct terp_cuda_device *device, struct cuda_block block)
{
    cudaFree(block.at);
    device->held_nbytes -= block.nbytes;
}

/* Removes and returns the smallest spare block of at least `nbytes` bytes. If
 * there is no such block, returns a block of 0 bytes. */
static struct cuda_block
take_spare(struct terp_cuda_device *device, uint64_t nbytes)
{
    const cuda_lock lock(&device->mutex);
    struct cuda_block *best = NULL;

    for (struct cuda_block &spare : device->spare)
        if (spare.nbytes > 0 && spare.nbytes >= nbytes &&
            (best == NULL || spare.nbytes < best->nbytes))
            best = &spare;
    if (best == NULL)
        return {};
    const struct cuda_block block = *best;
    *best = {};
    return block;
}

/* Releases all spare blocks. False: there was none. */
static bool
release_spares(struct terp_cuda_device *device)
{
    struct cuda_block spare;
    bool is_released = false;

    while ((spare = take_spare(device, 0)).nbytes > 0) {
        release_block(device, spare);
        is_released = true;
    }
    return is_released;
}

static cudaError_t
make_block(struct terp_cuda_device *device, uint64_t nbytes,
           struct cuda_block *block_ret)
{
    struct cuda_block block = {NULL, nbytes};

    if (!cuda_device_hold(device, nbytes))
        return cudaErrorMemoryAllocation;
    const cudaError_t error = cudaMalloc((void **)&block.at, nbytes);
    if (error == cudaSuccess)
        *block_ret = block;
    else
        device->held_nbytes -= nbytes;
    return error;
}

enum terp_status
cuda_block_take(struct terp_cuda_device *device, uint64_t nbytes,
                struct cuda_block *block_ret)
{
    *block_ret = take_spare(device, nbytes);
    if (block_ret->nbytes > 0)
        return TERP_OK;
    return cuda_device_do(device, [=](const struct cuda_visit &) {
        cudaError_t error = make_block(device, nbytes, block_ret);
        if (error == cudaErrorMemoryAllocation && release_spares(device))
            error = make_block(device, nbytes, block_ret);
        return cuda_status_of("allocating", error);
    });
}

/* Keeps the larger blocks. */
void
cuda_block_give(struct terp_cuda_device *device, struct cuda_block block)
{
    {
        const cuda_lock lock(&device->mutex);
        struct cuda_block *least = &device->spare[0];
        for (struct cuda_block &spare : device->spare)
            if (spare.nbytes < least->nbytes)
                least = &spare;
        if (least->nbytes < block.nbytes)
            std::swap(*least, block);
    }
    if (block.nbytes > 0)
        cuda_device_do(device, [=](const struct cuda_visit &) {
            release_block(device, block);
            return TERP_OK;
        });
}

bool
cuda_device_trim(struct terp_cuda_device *device)
{
    struct cuda_slot *idle[CUDA_NSLOTS];
    bool is_released = false;
    int n = 0;

    while (n < CUDA_NSLOTS && (idle[n] = cuda_slot_take(device, true)) != NULL)
        n++;
    is_released = release_spares(device);
    for (int i = 0; i < n; i++) {
        is_released = idle[i]->d_nbytes > 0 || is_released;
        cuda_slot_release(device, idle[i]);
        cuda_slot_give(device, idle[i]);
    }
    return is_released;
}
