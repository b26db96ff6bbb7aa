/* The emulated runtime's host side: memory, streams, graphs and failures. */
#include "cuda_runtime.h"
#include "emulator_failures.h"
#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <stdlib.h>
#include <vector>

/* Streams that are being captured share a graph with the first of them. */
struct emulator_graph {
    std::vector<std::function<void()>> work;
    std::vector<emulator_stream *> streams;
};

struct emulator_stream {
    emulator_graph *capture; /* null: work is done at once */
};

struct emulator_event {
    emulator_graph *capture; /* of the stream that it was recorded in */
    std::chrono::steady_clock::time_point time;
};

namespace
{

constexpr size_t DEVICE_NBYTES = (size_t)140 << 30;
constexpr int MAX_SHARED_NBYTES = 227 << 10;
constexpr int DEFAULT_SHARED_NBYTES = 48 << 10;
constexpr unsigned MAX_BLOCK_NTHREADS = 1024;

struct allocation {
    size_t nbytes;
    bool is_device;
};

std::mutex lock; /* for all that follows but last_error */
std::map<uintptr_t, allocation> allocations;
std::map<const void *, int> shared_limits;
size_t device_nbytes;
int64_t nlive;
uint64_t ncalls, nreleases;
uint64_t fails_at = UINT64_MAX;
cudaError_t failure = cudaSuccess;
bool failure_is_sticky;

thread_local cudaError_t last_error = cudaSuccess;

/* A call of the runtime: the failure that a test asked for, or what it does. */
template <typename Act>
cudaError_t
call(Act act)
{
    cudaError_t error = cudaSuccess;
    {
        std::lock_guard<std::mutex> guard(lock);
        uint64_t at = ncalls++;
        if (at == fails_at || (at > fails_at && failure_is_sticky))
            error = failure;
    }
    if (error == cudaSuccess)
        error = act();
    if (error != cudaSuccess && error != cudaErrorNotReady)
        last_error = error;
    return error;
}

/* A call that has released something; it may fail all the same. */
cudaError_t
call_to_release(cudaError_t error)
{
    {
        std::lock_guard<std::mutex> guard(lock);
        nreleases++;
    }
    return call([=] { return error; });
}

/* What a call does that always succeeds. */
cudaError_t
nothing(void)
{
    return cudaSuccess;
}

void
count_live(int64_t change)
{
    std::lock_guard<std::mutex> guard(lock);
    nlive += change;
}

cudaError_t
allocate(void **at_ret, size_t nbytes, bool is_device)
{
    std::lock_guard<std::mutex> guard(lock);
    *at_ret = nullptr;
    if (nbytes == 0)
        return cudaSuccess;
    if (is_device && nbytes > DEVICE_NBYTES - device_nbytes)
        return cudaErrorMemoryAllocation;
    void *at = aligned_alloc(256, (nbytes + 255) / 256 * 256);
    if (at == nullptr)
        return cudaErrorMemoryAllocation;
    memset(at, 0xA5, nbytes);
    allocations[(uintptr_t)at] = {nbytes, is_device};
    device_nbytes += is_device ? nbytes : 0;
    nlive++;
    *at_ret = at;
    return cudaSuccess;
}

cudaError_t
release(void *at, bool is_device)
{
    std::lock_guard<std::mutex> guard(lock);
    if (at == nullptr)
        return cudaSuccess;
    auto found = allocations.find((uintptr_t)at);
    if (found == allocations.end() || found->second.is_device != is_device)
        return cudaErrorInvalidValue;
    device_nbytes -= is_device ? found->second.nbytes : 0;
    allocations.erase(found);
    nlive--;
    free(at);
    return cudaSuccess;
}

/* The allocation that all of these bytes lie in, or null; `lock` is held. */
const allocation *
find_allocation(const void *at, size_t nbytes)
{
    auto next = allocations.upper_bound((uintptr_t)at);
    if (next == allocations.begin())
        return nullptr;
    auto found = std::prev(next);
    size_t offset = (uintptr_t)at - found->first;
    if (offset >= found->second.nbytes ||
        nbytes > found->second.nbytes - offset)
        return nullptr;
    return &found->second;
}

bool
is_on_device(const void *at, size_t nbytes)
{
    std::lock_guard<std::mutex> guard(lock);
    const allocation *found = find_allocation(at, nbytes);
    return found != nullptr && found->is_device;
}

/* Does the work, or keeps it for the graph that the stream is captured in. */
cudaError_t
enqueue(cudaStream_t stream, std::function<void()> work)
{
    if (stream != nullptr && stream->capture != nullptr)
        stream->capture->work.push_back(std::move(work));
    else
        work();
    return cudaSuccess;
}

cudaError_t
copy(void *dst, const void *src, size_t nbytes, cudaMemcpyKind kind,
     cudaStream_t stream)
{
    bool to_device =
        kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device =
        kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (nbytes > 0 && kind != cudaMemcpyDefault &&
        (is_on_device(dst, nbytes) != to_device ||
         is_on_device(src, nbytes) != from_device))
        return cudaErrorInvalidValue;
    return enqueue(stream, [=] { memmove(dst, src, nbytes); });
}

cudaError_t
fill(void *dst, int byte, size_t nbytes, cudaStream_t stream)
{
    if (nbytes > 0 && !is_on_device(dst, nbytes))
        return cudaErrorInvalidValue;
    return enqueue(stream, [=] { memset(dst, byte, nbytes); });
}

bool
is_valid(const cudaLaunchConfig_t *config, const void *kernel)
{
    const dim3 &grid = config->gridDim;
    const dim3 &block = config->blockDim;
    uint64_t nthreads = (uint64_t)block.x * block.y * block.z;
    int limit = DEFAULT_SHARED_NBYTES;
    {
        std::lock_guard<std::mutex> guard(lock);
        auto found = shared_limits.find(kernel);
        if (found != shared_limits.end())
            limit = std::max(limit, found->second);
    }
    return grid.x >= 1 && grid.y >= 1 && grid.z >= 1 && grid.x <= INT32_MAX &&
           grid.y <= UINT16_MAX && grid.z <= UINT16_MAX && nthreads >= 1 &&
           block.x <= MAX_BLOCK_NTHREADS && block.y <= MAX_BLOCK_NTHREADS &&
           block.z <= 64 && nthreads <= MAX_BLOCK_NTHREADS &&
           config->dynamicSmemBytes <= (size_t)limit && config->numAttrs == 0;
}

} // namespace

void
emulator_fail_after(uint64_t n, int error, int sticky)
{
    std::lock_guard<std::mutex> guard(lock);
    fails_at = ncalls + n;
    failure = (cudaError_t)error;
    failure_is_sticky = sticky != 0;
}

void
emulator_fail_never(void)
{
    std::lock_guard<std::mutex> guard(lock);
    fails_at = UINT64_MAX;
    last_error = cudaSuccess;
}

uint64_t
emulator_ncalls(void)
{
    std::lock_guard<std::mutex> guard(lock);
    return ncalls;
}

uint64_t
emulator_nreleases(void)
{
    std::lock_guard<std::mutex> guard(lock);
    return nreleases;
}

int64_t
emulator_nlive(void)
{
    std::lock_guard<std::mutex> guard(lock);
    return nlive;
}

cudaError_t
cudaPeekAtLastError(void)
{
    return last_error;
}

cudaError_t
cudaGetLastError(void)
{
    return std::exchange(last_error, cudaSuccess);
}

const char *
cudaGetErrorName(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "cudaSuccess";
    case cudaErrorInvalidValue:
        return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
        return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
        return "cudaErrorInvalidConfiguration";
    case cudaErrorNoDevice:
        return "cudaErrorNoDevice";
    default:
        return "another CUDA error";
    }
}

const char *
cudaGetErrorString(cudaError_t error)
{
    return cudaGetErrorName(error);
}

cudaError_t
cudaGetDeviceCount(int *count_ret)
{
    *count_ret = 0;
    return call([=] { return *count_ret = 1, cudaSuccess; });
}

cudaError_t
cudaSetDevice(int device)
{
    return call(
        [=] { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; });
}

cudaError_t
cudaGetDevice(int *device_ret)
{
    return call([=] { return *device_ret = 0, cudaSuccess; });
}

/* As an H200 says. */
cudaError_t
cudaGetDeviceProperties(cudaDeviceProp *properties_ret, int device)
{
    return call([=] {
        if (device != 0)
            return cudaErrorInvalidDevice;
        *properties_ret = {"emulator", 0, 0x4e, 0};
        return cudaSuccess;
    });
}

cudaError_t
cudaDeviceGetAttribute(int *value_ret, cudaDeviceAttr attribute, int device)
{
    static const std::map<cudaDeviceAttr, int> values = {
        {cudaDevAttrMaxThreadsPerBlock, (int)MAX_BLOCK_NTHREADS},
        {cudaDevAttrMultiProcessorCount, 132},
        {cudaDevAttrL2CacheSize, 60 << 20},
        {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
        {cudaDevAttrComputeCapabilityMajor, 9},
        {cudaDevAttrComputeCapabilityMinor, 0},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, 228 << 10},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, MAX_SHARED_NBYTES},
        {cudaDevAttrMemoryPoolsSupported, 0}};
    return call([=] {
        auto found = values.find(attribute);
        if (device != 0 || found == values.end())
            return cudaErrorInvalidValue;
        *value_ret = found->second;
        return cudaSuccess;
    });
}

cudaError_t
cudaDeviceSynchronize(void)
{
    return call(nothing);
}

cudaError_t
cudaDriverGetVersion(int *version_ret)
{
    return call([=] { return *version_ret = CUDART_VERSION, cudaSuccess; });
}

cudaError_t
cudaRuntimeGetVersion(int *version_ret)
{
    return call([=] { return *version_ret = CUDART_VERSION, cudaSuccess; });
}

cudaError_t
cudaMalloc(void **at_ret, size_t nbytes)
{
    return call([=] { return allocate(at_ret, nbytes, true); });
}

cudaError_t
cudaMallocHost(void **at_ret, size_t nbytes)
{
    return call([=] { return allocate(at_ret, nbytes, false); });
}

cudaError_t
cudaHostAlloc(void **at_ret, size_t nbytes, unsigned)
{
    return cudaMallocHost(at_ret, nbytes);
}

cudaError_t
cudaFree(void *at)
{
    return call_to_release(release(at, true));
}

cudaError_t
cudaFreeHost(void *at)
{
    return call_to_release(release(at, false));
}

cudaError_t
cudaMemGetInfo(size_t *free_ret, size_t *total_ret)
{
    return call([=] {
        std::lock_guard<std::mutex> guard(lock);
        *total_ret = DEVICE_NBYTES;
        *free_ret = DEVICE_NBYTES - device_nbytes;
        return cudaSuccess;
    });
}

cudaError_t
cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *at)
{
    return call([=] {
        std::lock_guard<std::mutex> guard(lock);
        const allocation *found = find_allocation(at, 1);
        void *there = const_cast<void *>(at);
        if (found == nullptr)
            *attributes = {cudaMemoryTypeUnregistered, -1, nullptr, there};
        else if (found->is_device)
            *attributes = {cudaMemoryTypeDevice, 0, there, nullptr};
        else
            *attributes = {cudaMemoryTypeHost, 0, there, there};
        return cudaSuccess;
    });
}

cudaError_t
cudaMemcpy(void *dst, const void *src, size_t nbytes, cudaMemcpyKind kind)
{
    return cudaMemcpyAsync(dst, src, nbytes, kind, nullptr);
}

cudaError_t
cudaMemcpyAsync(void *dst, const void *src, size_t nbytes, cudaMemcpyKind kind,
                cudaStream_t stream)
{
    return call([=] { return copy(dst, src, nbytes, kind, stream); });
}

cudaError_t
cudaMemset(void *dst, int byte, size_t nbytes)
{
    return cudaMemsetAsync(dst, byte, nbytes, nullptr);
}

cudaError_t
cudaMemsetAsync(void *dst, int byte, size_t nbytes, cudaStream_t stream)
{
    return call([=] { return fill(dst, byte, nbytes, stream); });
}

cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *stream_ret, unsigned)
{
    return call([=] {
        *stream_ret = new emulator_stream{nullptr};
        count_live(1);
        return cudaSuccess;
    });
}

cudaError_t
cudaStreamDestroy(cudaStream_t stream)
{
    delete stream;
    count_live(-1);
    return call_to_release(cudaSuccess);
}

cudaError_t
cudaStreamSynchronize(cudaStream_t stream)
{
    return call([=] {
        return stream != nullptr && stream->capture != nullptr
                   ? cudaErrorStreamCaptureUnsupported
                   : cudaSuccess;
    });
}

cudaError_t
cudaStreamQuery(cudaStream_t stream)
{
    return cudaStreamSynchronize(stream);
}

/* Waiting for work that is being captured captures the waiting stream too. */
cudaError_t
cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    return call([=] {
        if (event->capture != nullptr && stream->capture == nullptr) {
            stream->capture = event->capture;
            stream->capture->streams.push_back(stream);
        }
        return cudaSuccess;
    });
}

cudaError_t
cudaEventCreate(cudaEvent_t *event_ret)
{
    return cudaEventCreateWithFlags(event_ret, 0);
}

cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *event_ret, unsigned)
{
    return call([=] {
        *event_ret = new emulator_event{};
        count_live(1);
        return cudaSuccess;
    });
}

cudaError_t
cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return call([=] {
        event->capture = stream == nullptr ? nullptr : stream->capture;
        event->time = std::chrono::steady_clock::now();
        return cudaSuccess;
    });
}

cudaError_t
cudaEventQuery(cudaEvent_t)
{
    return call(nothing);
}

cudaError_t
cudaEventSynchronize(cudaEvent_t)
{
    return call(nothing);
}

cudaError_t
cudaEventElapsedTime(float *milliseconds_ret, cudaEvent_t from, cudaEvent_t to)
{
    return call([=] {
        std::chrono::duration<float, std::milli> time = to->time - from->time;
        *milliseconds_ret = time.count();
        return cudaSuccess;
    });
}

cudaError_t
cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    count_live(-1);
    return call_to_release(cudaSuccess);
}

cudaError_t
cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode)
{
    return call([=] {
        if (stream == nullptr || stream->capture != nullptr)
            return cudaErrorStreamCaptureUnsupported;
        stream->capture = new emulator_graph;
        stream->capture->streams.push_back(stream);
        count_live(1);
        return cudaSuccess;
    });
}

cudaError_t
cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph_ret)
{
    return call([=] {
        *graph_ret = stream->capture;
        if (stream->capture == nullptr)
            return cudaErrorInvalidValue;
        for (cudaStream_t captured : (*graph_ret)->streams)
            captured->capture = nullptr;
        return cudaSuccess;
    });
}

cudaError_t
cudaGraphInstantiate(cudaGraphExec_t *executable_ret, cudaGraph_t graph,
                     unsigned long long)
{
    return call([=] {
        *executable_ret = new emulator_graph(*graph);
        count_live(1);
        return cudaSuccess;
    });
}

cudaError_t
cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    return call([=] {
        for (const std::function<void()> &work : executable->work)
            enqueue(stream, work);
        return cudaSuccess;
    });
}

cudaError_t
cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    return cudaGraphDestroy(executable);
}

cudaError_t
cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    count_live(-1);
    return call_to_release(cudaSuccess);
}

cudaError_t
emulator_set_shared_limit(const void *kernel, int nbytes)
{
    return call([=] {
        std::lock_guard<std::mutex> guard(lock);
        if (nbytes < 0 || nbytes > MAX_SHARED_NBYTES)
            return cudaErrorInvalidValue;
        shared_limits[kernel] = nbytes;
        return cudaSuccess;
    });
}

cudaError_t
emulator_launch(const cudaLaunchConfig_t *config, const void *kernel_at,
                std::function<void()> kernel)
{
    return call([&] {
        if (!is_valid(config, kernel_at))
            return cudaErrorInvalidConfiguration;
        dim3 grid = config->gridDim;
        dim3 block = config->blockDim;
        size_t shared_nbytes = config->dynamicSmemBytes;
        return enqueue(config->stream, [=] {
            emulator_run_grid(grid, block, shared_nbytes, kernel);
        });
    });
}
