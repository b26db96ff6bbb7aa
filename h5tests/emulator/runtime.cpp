/* The host side of the emulated runtime and driver: contexts, memory, streams,
 * graphs and failures. */
#include "cuda_runtime.h"
#include "emulator_failures.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cuda.h>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <vector>

/* A context. It owns all that a thread makes while it is current. */
struct emulator_context {
    bool is_active; /* primary context: used or retained */
    unsigned flags;
};

struct emulator_stream {
    emulator_context *context;
    emulator_graph *captured; /* null, or the stream that captures the work */
    bool is_held; /* work waits in `queue` until a call waits for it */
    std::vector<std::function<void()>> queue;
};

struct emulator_event {
    emulator_stream *stream; /* the delayed stream, or null */
    size_t nqueued;          /* its items before the event */
    std::chrono::steady_clock::time_point time;
};

/* A kernel of a graph and the kernels that it depends on. */
struct emulator_node {
    std::function<void()> work;
    std::vector<const emulator_node *> before;
};

struct emulator_graph {
    std::deque<emulator_node> nodes;
};

/* A graph's work, in an order that its edges allow. */
struct emulator_executable {
    std::vector<std::function<void()>> work;
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
    emulator_context *context;
    unsigned long long id;
};

std::mutex lock; /* of all below, but not of thread_local data */
std::map<uintptr_t, allocation> allocations;
std::map<uintptr_t, emulator_context *> registered; /* memory of the host */
std::map<const void *, int> shared_limits;
std::map<const void *, emulator_bind *> kernels;
std::set<emulator_stream *> streams;
emulator_context primary = {false, 0};
size_t device_nbytes, device_limit_nbytes = DEVICE_NBYTES;
unsigned long long nallocations;
int64_t nlive;
uint64_t ncalls, nreleases;
uint64_t fails_at = UINT64_MAX;
cudaError_t failure = cudaSuccess;
bool failure_is_sticky;
std::atomic<cudaError_t> graph_failure = cudaSuccess;
std::atomic<uint64_t> ngraphs;

thread_local cudaError_t last_error = cudaSuccess;
thread_local std::vector<emulator_context *> stack; /* last: current */
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

/* The failure that a test wants, or success. Every call of the runtime or the
 * driver begins with this. */
cudaError_t
begin_call(void)
{
    std::lock_guard<std::mutex> guard(lock);
    uint64_t at = ncalls++;
    return at == fails_at || (at > fails_at && failure_is_sticky) ? failure
                                                                  : cudaSuccess;
}

/* Begins a call of the runtime. */
template <typename Act>
cudaError_t
call(Act act)
{
    cudaError_t error = begin_call();
    if (error == cudaSuccess)
        error = act();
    if (error != cudaSuccess && error != cudaErrorNotReady)
        last_error = error;
    return error;
}

/* Begins a call of the driver, which has no last error. */
template <typename Act>
CUresult
call_driver(Act act)
{
    cudaError_t error = begin_call();
    return (CUresult)(error == cudaSuccess ? act() : error);
}

/* A call of the runtime that has released something, and may still fail. */
cudaError_t
call_to_release(cudaError_t error)
{
    {
        std::lock_guard<std::mutex> guard(lock);
        nreleases++;
    }
    return call([=] { return error; });
}

/* A call of the driver that has released something, and may still fail. */
CUresult
call_driver_to_release(void)
{
    {
        std::lock_guard<std::mutex> guard(lock);
        nreleases++;
    }
    return call_driver([] { return cudaSuccess; });
}

/* A call that always succeeds. */
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

/* The current context of the thread. A thread without one gets the primary
 * context. */
emulator_context *
use_context(void)
{
    if (stack.empty())
        stack.push_back(&primary);
    std::lock_guard<std::mutex> guard(lock);
    stack.back()->is_active = true;
    return stack.back();
}

cudaError_t
allocate(void **at_ret, size_t nbytes, bool is_device)
{
    emulator_context *context = use_context();
    std::lock_guard<std::mutex> guard(lock);
    *at_ret = nullptr;
    if (nbytes == 0)
        return cudaSuccess;
    if (is_device && (device_nbytes > device_limit_nbytes ||
                      nbytes > device_limit_nbytes - device_nbytes))
        return cudaErrorMemoryAllocation;
    void *at = aligned_alloc(256, (nbytes + 255) / 256 * 256);
    if (at == nullptr)
        return cudaErrorMemoryAllocation;
    memset(at, 0xA5, nbytes);
    allocations[(uintptr_t)at] = {nbytes, is_device, context, ++nallocations};
    device_nbytes += is_device ? nbytes : 0;
    nlive++;
    *at_ret = at;
    return cudaSuccess;
}

/* The caller holds `lock`. */
void
forget(std::map<uintptr_t, allocation>::iterator found)
{
    device_nbytes -= found->second.is_device ? found->second.nbytes : 0;
    free((void *)found->first); // NOLINT(performance-no-int-to-ptr)
    allocations.erase(found);
    nlive--;
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
    forget(found);
    return cudaSuccess;
}

/* Frees all that the context owns. */
void
empty_context(emulator_context *context)
{
    std::lock_guard<std::mutex> guard(lock);
    for (auto at = allocations.begin(); at != allocations.end();) {
        auto next = std::next(at);
        if (at->second.context == context)
            forget(at);
        at = next;
    }
    for (auto at = registered.begin(); at != registered.end();) {
        const bool is_own = at->second == context;
        nlive -= is_own;
        at = is_own ? registered.erase(at) : std::next(at);
    }
    for (auto at = streams.begin(); at != streams.end();) {
        emulator_stream *stream = *at;
        at = stream->context == context ? streams.erase(at) : std::next(at);
    }
    context->is_active = false;
}

/* The stream itself, or the default stream of the current context. Ends the
 * program if the stream's context is gone, as CUDA does. */
emulator_stream *
check_stream(cudaStream_t stream)
{
    static emulator_stream default_stream = {&primary, nullptr, false, {}};
    if (stream == nullptr || stream == cudaStreamLegacy ||
        stream == cudaStreamPerThread)
        return &default_stream;
    std::lock_guard<std::mutex> guard(lock);
    if (streams.count(stream) == 0) {
        fputs("emulator: a stream is used that is gone\n", stderr);
        abort();
    }
    return stream;
}

/* The allocation that contains all of these bytes, or null. The caller holds
 * `lock`. */
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

/* Runs the first `n` items of a delayed stream. */
void
flush(emulator_stream *stream, size_t n)
{
    std::vector<std::function<void()>> work(stream->queue.begin(),
                                            stream->queue.begin() + (long)n);
    stream->queue.erase(stream->queue.begin(), stream->queue.begin() + (long)n);
    for (const std::function<void()> &one : work)
        one();
}

/* Runs the work now, or queues it in a delayed stream. */
cudaError_t
enqueue(cudaStream_t at, std::function<void()> work)
{
    emulator_stream *stream = check_stream(at);
    use_context();
    if (stream->captured != nullptr) {
        auto &nodes = stream->captured->nodes;
        const emulator_node *last = nodes.empty() ? nullptr : &nodes.back();
        nodes.push_back({std::move(work), {}});
        if (last != nullptr)
            nodes.back().before.push_back(last);
    } else if (stream->is_held) {
        stream->queue.push_back(std::move(work));
    } else {
        work();
    }
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
is_valid(dim3 grid, dim3 block, size_t shared_nbytes, const void *kernel)
{
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
           shared_nbytes <= (size_t)limit;
}

/* Of the nodes that can run next, chooses the one that was added last. So if a
 * dependency is missing, work runs before the work that it needs. */
std::vector<std::function<void()>>
order(const emulator_graph &graph)
{
    std::vector<std::function<void()>> work;
    std::set<const emulator_node *> done;
    while (work.size() < graph.nodes.size()) {
        size_t nbefore = work.size();
        for (auto node = graph.nodes.rbegin();
             node != graph.nodes.rend() && work.size() == nbefore; node++) {
            bool is_ready = done.count(&*node) == 0;
            for (const emulator_node *before : node->before)
                is_ready = is_ready && done.count(before) != 0;
            if (is_ready) {
                done.insert(&*node);
                work.push_back(node->work);
            }
        }
        if (work.size() == nbefore)
            break; /* the graph has a circle */
    }
    return work;
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
emulator_fail_graphs(int error)
{
    graph_failure = (cudaError_t)error;
}

uint64_t
emulator_ngraphs(void)
{
    return ngraphs;
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

void
emulator_limit_memory(uint64_t nbytes)
{
    std::lock_guard<std::mutex> guard(lock);
    device_limit_nbytes = std::min(nbytes, (uint64_t)DEVICE_NBYTES);
}

void
emulator_hold(void *stream)
{
    check_stream((cudaStream_t)stream)->is_held = true;
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

/* Makes the device's primary context current in this thread. */
cudaError_t
cudaSetDevice(int device)
{
    return call([=] {
        if (device != 0)
            return cudaErrorInvalidDevice;
        if (stack.empty())
            stack.push_back(nullptr);
        stack.back() = &primary;
        use_context();
        return cudaSuccess;
    });
}

cudaError_t
cudaGetDevice(int *device_ret)
{
    return call([=] { return *device_ret = 0, cudaSuccess; });
}

cudaError_t
cudaDeviceReset(void)
{
    return call([] {
        empty_context(&primary);
        return cudaSuccess;
    });
}

/* The values of an H200. */
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
cudaHostRegister(void *at, size_t, unsigned)
{
    return call([=] {
        emulator_context *context = use_context();
        std::lock_guard<std::mutex> guard(lock);
        const bool is_new = registered.insert({(uintptr_t)at, context}).second;
        nlive += is_new;
        return is_new ? cudaSuccess : cudaErrorInvalidValue;
    });
}

cudaError_t
cudaHostUnregister(void *at)
{
    bool is_known;
    {
        std::lock_guard<std::mutex> guard(lock);
        is_known = registered.erase((uintptr_t)at) == 1;
        nlive -= is_known;
    }
    return call_to_release(is_known ? cudaSuccess : cudaErrorInvalidValue);
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
        emulator_context *context = use_context();
        *stream_ret = new emulator_stream{context, nullptr, false, {}};
        std::lock_guard<std::mutex> guard(lock);
        streams.insert(*stream_ret);
        nlive++;
        return cudaSuccess;
    });
}

cudaError_t
cudaStreamDestroy(cudaStream_t at)
{
    emulator_stream *stream = check_stream(at);
    flush(stream, stream->queue.size());
    {
        std::lock_guard<std::mutex> guard(lock);
        streams.erase(stream);
        nlive--;
    }
    delete stream;
    return call_to_release(cudaSuccess);
}

cudaError_t
cudaStreamSynchronize(cudaStream_t at)
{
    emulator_stream *stream = check_stream(at);
    return call([=] {
        if (stream->captured != nullptr)
            return cudaErrorStreamCaptureUnsupported;
        flush(stream, stream->queue.size());
        return cudaSuccess;
    });
}

cudaError_t
cudaStreamQuery(cudaStream_t stream)
{
    return cudaStreamSynchronize(stream);
}

cudaError_t
cudaStreamIsCapturing(cudaStream_t at, cudaStreamCaptureStatus *status_ret)
{
    emulator_stream *stream = check_stream(at);
    return call([=] {
        *status_ret = stream->captured != nullptr
                          ? cudaStreamCaptureStatusActive
                          : cudaStreamCaptureStatusNone;
        return cudaSuccess;
    });
}

cudaError_t
cudaStreamBeginCapture(cudaStream_t at, cudaStreamCaptureMode)
{
    emulator_stream *stream = check_stream(at);
    return cudaGraphCreate(&stream->captured, 0);
}

cudaError_t
cudaStreamEndCapture(cudaStream_t at, cudaGraph_t *graph_ret)
{
    emulator_stream *stream = check_stream(at);
    return call([=] {
        *graph_ret = stream->captured;
        stream->captured = nullptr;
        return cudaSuccess;
    });
}

cudaError_t
cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode)
{
    return call([=] { return std::swap(*mode, capture_mode), cudaSuccess; });
}

/* In a delayed stream, runs all work before the event now: the latest possible
 * time. */
cudaError_t
cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    check_stream(stream);
    return call([=] {
        if (event->stream != nullptr)
            flush(event->stream, event->nqueued);
        event->stream = nullptr;
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
        use_context();
        *event_ret = new emulator_event{};
        count_live(1);
        return cudaSuccess;
    });
}

cudaError_t
cudaEventRecord(cudaEvent_t event, cudaStream_t at)
{
    emulator_stream *stream = check_stream(at);
    return call([=] {
        event->stream = stream->is_held ? stream : nullptr;
        event->nqueued = stream->queue.size();
        event->time = std::chrono::steady_clock::now();
        return cudaSuccess;
    });
}

cudaError_t
cudaEventSynchronize(cudaEvent_t event)
{
    return cudaStreamWaitEvent(nullptr, event, 0);
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
cudaGraphCreate(cudaGraph_t *graph_ret, unsigned)
{
    return call([=] {
        if (graph_failure != cudaSuccess)
            return graph_failure.load();
        *graph_ret = new emulator_graph;
        count_live(1);
        return cudaSuccess;
    });
}

cudaError_t
cudaGraphAddKernelNode(cudaGraphNode_t *node_ret, cudaGraph_t graph,
                       const cudaGraphNode_t *before, size_t nbefore,
                       const cudaKernelNodeParams *kernel)
{
    return call([=] {
        dim3 grid = kernel->gridDim, block = kernel->blockDim;
        size_t shared_nbytes = kernel->sharedMemBytes;
        if (!is_valid(grid, block, shared_nbytes, kernel->func))
            return cudaErrorInvalidConfiguration;
        std::shared_ptr<const emulator_work> bound;
        {
            std::lock_guard<std::mutex> guard(lock);
            bound.reset(
                kernels.at(kernel->func)(kernel->func, kernel->kernelParams));
        }
        graph->nodes.push_back(
            {[=] { emulator_run_grid(grid, block, shared_nbytes, *bound); },
             {before, before + nbefore}});
        *node_ret = &graph->nodes.back();
        return cudaSuccess;
    });
}

cudaError_t
cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t *from,
                         const cudaGraphNode_t *to, const cudaGraphEdgeData *,
                         size_t n)
{
    return call([=] {
        for (size_t i = 0; i < n; i++)
            to[i]->before.push_back(from[i]);
        return cudaSuccess;
    });
}

cudaError_t
cudaGraphInstantiate(cudaGraphExec_t *executable_ret, cudaGraph_t graph,
                     unsigned long long)
{
    return call([=] {
        use_context();
        (stack.empty() ? &primary : stack.back())->flags |=
            CU_CTX_LMEM_RESIZE_TO_MAX; /* as CUDA 13.0 does it */
        *executable_ret = new emulator_executable{order(*graph)};
        count_live(1);
        return cudaSuccess;
    });
}

cudaError_t
cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    check_stream(stream);
    return call([=] {
        if (graph_failure != cudaSuccess)
            return graph_failure.load();
        ngraphs++;
        for (const std::function<void()> &work : executable->work)
            enqueue(stream, work);
        return cudaSuccess;
    });
}

cudaError_t
cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    delete executable;
    count_live(-1);
    return call_to_release(cudaSuccess);
}

cudaError_t
cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    count_live(-1);
    return call_to_release(cudaSuccess);
}

/* ---- the driver ---- */

CUresult
cuDeviceGet(CUdevice *device_ret, int ordinal)
{
    return call_driver([=] {
        *device_ret = ordinal;
        return ordinal == 0 ? cudaSuccess : cudaErrorInvalidDevice;
    });
}

CUresult
cuDevicePrimaryCtxRetain(CUcontext *context_ret, CUdevice)
{
    return call_driver([=] {
        std::lock_guard<std::mutex> guard(lock);
        *context_ret = &primary;
        primary.is_active = true;
        nlive++;
        return cudaSuccess;
    });
}

CUresult
cuDevicePrimaryCtxRelease(CUdevice)
{
    count_live(-1);
    return call_driver_to_release();
}

CUresult
cuDevicePrimaryCtxGetState(CUdevice, unsigned *flags_ret, int *is_active_ret)
{
    return call_driver([=] {
        std::lock_guard<std::mutex> guard(lock);
        *flags_ret = 0;
        *is_active_ret = primary.is_active;
        return cudaSuccess;
    });
}

CUresult
cuCtxCreate(CUcontext *context_ret, void *, unsigned, CUdevice)
{
    return call_driver([=] {
        stack.push_back(new emulator_context{true, 0});
        *context_ret = stack.back();
        count_live(1);
        return cudaSuccess;
    });
}

/* Keeps the context itself, to detect a later use. */
CUresult
cuCtxDestroy(CUcontext context)
{
    empty_context(context);
    count_live(-1);
    stack.erase(std::remove(stack.begin(), stack.end(), context), stack.end());
    return call_driver_to_release();
}

CUresult
cuCtxGetCurrent(CUcontext *context_ret)
{
    return call_driver([=] {
        *context_ret = stack.empty() ? nullptr : stack.back();
        return cudaSuccess;
    });
}

CUresult
cuCtxGetFlags(unsigned *flags_ret)
{
    return call_driver([=] {
        *flags_ret = stack.empty() ? 0 : stack.back()->flags;
        return cudaSuccess;
    });
}

CUresult
cuCtxSetFlags(unsigned flags)
{
    return call_driver([=] {
        stack.back()->flags = flags;
        return cudaSuccess;
    });
}

CUresult
cuCtxPushCurrent(CUcontext context)
{
    return call_driver([=] {
        stack.push_back(context);
        return cudaSuccess;
    });
}

/* Takes the context from the thread, even if this call fails. */
CUresult
cuCtxPopCurrent(CUcontext *context_ret)
{
    if (!stack.empty()) {
        *context_ret = stack.back();
        stack.pop_back();
    }
    return call_driver_to_release();
}

CUresult
cuStreamGetCtx(CUstream stream, CUcontext *context_ret)
{
    emulator_context *context = check_stream(stream)->context;
    return call_driver([=] { return *context_ret = context, cudaSuccess; });
}

CUresult
cuPointerGetAttribute(void *value_ret, CUpointer_attribute which,
                      CUdeviceptr at)
{
    return call_driver([=] {
        std::lock_guard<std::mutex> guard(lock);
        // NOLINTNEXTLINE(performance-no-int-to-ptr)
        const allocation *found = find_allocation((const void *)at, 1);
        if (found == nullptr)
            return cudaErrorInvalidValue;
        if (which == CU_POINTER_ATTRIBUTE_BUFFER_ID)
            memcpy(value_ret, &found->id, sizeof found->id);
        else
            *(unsigned *)value_ret =
                found->is_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        return cudaSuccess;
    });
}

cudaError_t
cudaGetDriverEntryPointByVersion(const char *name, void **function_ret,
                                 unsigned, unsigned long long,
                                 cudaDriverEntryPointQueryResult *result_ret)
{
    static const std::map<std::string, void *> functions = {
        {"cuDeviceGet", (void *)cuDeviceGet},
        {"cuDevicePrimaryCtxRetain", (void *)cuDevicePrimaryCtxRetain},
        {"cuDevicePrimaryCtxRelease", (void *)cuDevicePrimaryCtxRelease},
        {"cuDevicePrimaryCtxGetState", (void *)cuDevicePrimaryCtxGetState},
        {"cuCtxGetCurrent", (void *)cuCtxGetCurrent},
        {"cuCtxGetFlags", (void *)cuCtxGetFlags},
        {"cuCtxSetFlags", (void *)cuCtxSetFlags},
        {"cuCtxPushCurrent", (void *)cuCtxPushCurrent},
        {"cuCtxPopCurrent", (void *)cuCtxPopCurrent},
        {"cuStreamGetCtx", (void *)cuStreamGetCtx},
        {"cuPointerGetAttribute", (void *)cuPointerGetAttribute}};
    return call([=] {
        auto found = functions.find(name);
        bool is_there = found != functions.end();
        *function_ret = is_there ? found->second : nullptr;
        *result_ret = is_there ? cudaDriverEntryPointSuccess
                               : cudaDriverEntryPointSymbolNotFound;
        return cudaSuccess;
    });
}

/* ---- launches ---- */

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

void
emulator_know_at(const void *kernel_at, emulator_bind *bind)
{
    std::lock_guard<std::mutex> guard(lock);
    kernels.emplace(kernel_at, bind);
}

cudaError_t
emulator_launch(const cudaLaunchConfig_t *config, const void *kernel_at,
                const emulator_work *kernel)
{
    const std::shared_ptr<const emulator_work> own(kernel);

    return call([&] {
        dim3 grid = config->gridDim;
        dim3 block = config->blockDim;
        size_t shared_nbytes = config->dynamicSmemBytes;
        if (!is_valid(grid, block, shared_nbytes, kernel_at) ||
            config->numAttrs != 0)
            return cudaErrorInvalidConfiguration;
        return enqueue(config->stream, [=] {
            emulator_run_grid(grid, block, shared_nbytes, *own);
        });
    });
}
