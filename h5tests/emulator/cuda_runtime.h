/* An emulator of the part of CUDA that terp's engine uses. It runs the kernels
 * on machines without a GPU, so that tests can compare their bytes with the CPU
 * engine's. The .cu files of gpu/ are compiled with it as C++17.
 * h5tests/emulator/emulator.h says what the device side can show and what it
 * cannot.
 *
 * The host side: device memory is host memory, filled with 0xA5. Copies and
 * launches run at once, in every stream except those that a test delays
 * (emulator_failures.h). The kernels of a graph run in an order that its edges
 * allow and that differs as much as possible from the order in which they were
 * added. Resetting or destroying a context frees all that it owns; a later use
 * of one of its streams ends the program. */
#pragma once

#include "emulator.h"
#include <math.h>
#include <string.h>
#include <tuple>
#include <utility>

#define CUDART_VERSION 13000

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInitializationError = 3,
    cudaErrorCudartUnloading = 4,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorContextIsDestroyed = 709,
    cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureImplicit = 906,
    cudaErrorUnknown = 999
};

enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};

enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
    cudaDevAttrMemoryPoolsSupported = 115
};

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};

enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed
};

enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone,
    cudaStreamCaptureStatusActive,
    cudaStreamCaptureStatusInvalidated
};

enum cudaDriverEntryPointQueryResult {
    cudaDriverEntryPointSuccess,
    cudaDriverEntryPointSymbolNotFound,
    cudaDriverEntryPointVersionNotSufficent
};

enum cudaGraphDependencyType {
    cudaGraphDependencyTypeDefault,
    cudaGraphDependencyTypeProgrammatic
};

#define cudaEnableDefault 0U
#define cudaGraphKernelNodePortProgrammatic 1
#define cudaStreamNonBlocking 1U
#define cudaEventDisableTiming 2U
#define cudaHostRegisterPortable 1U

struct emulator_stream;
struct emulator_event;
struct emulator_graph;
struct emulator_node;
struct emulator_executable;
typedef emulator_stream *cudaStream_t;
typedef emulator_event *cudaEvent_t;
typedef emulator_graph *cudaGraph_t;
typedef emulator_node *cudaGraphNode_t;
typedef emulator_executable *cudaGraphExec_t;

#define cudaStreamLegacy ((cudaStream_t)1)
#define cudaStreamPerThread ((cudaStream_t)2)

struct cudaKernelNodeParams {
    void *func;
    dim3 gridDim, blockDim;
    unsigned sharedMemBytes;
    void **kernelParams, **extra;
};

struct cudaGraphEdgeData {
    unsigned char from_port, to_port, type, reserved[5];
};

struct cudaLaunchAttribute;
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};

struct cudaDeviceProp {
    char name[256];
    int pciDomainID, pciBusID, pciDeviceID;
};

/* As in CUDA, also for C, and exported by shared libraries that contain the
 * emulator. */
#pragma GCC visibility push(default)
extern "C" {

cudaError_t
cudaGetLastError(void);
cudaError_t
cudaPeekAtLastError(void);
const char *
cudaGetErrorName(cudaError_t error);
const char *
cudaGetErrorString(cudaError_t error);

cudaError_t
cudaGetDeviceCount(int *count_ret);
cudaError_t
cudaSetDevice(int device);
cudaError_t
cudaGetDevice(int *device_ret);
cudaError_t
cudaDeviceGetAttribute(int *value_ret, cudaDeviceAttr attribute, int device);
cudaError_t
cudaGetDeviceProperties(cudaDeviceProp *properties_ret, int device);
cudaError_t
cudaDeviceSynchronize(void);
cudaError_t
cudaDeviceReset(void);
cudaError_t
cudaGetDriverEntryPointByVersion(const char *name, void **function_ret,
                                 unsigned version, unsigned long long flags,
                                 cudaDriverEntryPointQueryResult *result_ret);

cudaError_t
cudaMalloc(void **at_ret, size_t nbytes);
cudaError_t
cudaFree(void *at);
cudaError_t
cudaMallocHost(void **at_ret, size_t nbytes);
cudaError_t
cudaFreeHost(void *at);
cudaError_t
cudaHostRegister(void *at, size_t nbytes, unsigned flags);
cudaError_t
cudaHostUnregister(void *at);
cudaError_t
cudaMemGetInfo(size_t *free_ret, size_t *total_ret);
cudaError_t
cudaMemcpy(void *dst, const void *src, size_t nbytes, cudaMemcpyKind kind);
cudaError_t
cudaMemcpyAsync(void *dst, const void *src, size_t nbytes, cudaMemcpyKind kind,
                cudaStream_t stream = nullptr);
cudaError_t
cudaMemset(void *dst, int byte, size_t nbytes);
cudaError_t
cudaMemsetAsync(void *dst, int byte, size_t nbytes,
                cudaStream_t stream = nullptr);

cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *stream_ret, unsigned flags);
cudaError_t
cudaStreamDestroy(cudaStream_t stream);
cudaError_t
cudaStreamSynchronize(cudaStream_t stream);
cudaError_t
cudaStreamQuery(cudaStream_t stream);
cudaError_t
cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t
cudaEventCreate(cudaEvent_t *event_ret);
cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *event_ret, unsigned flags);
cudaError_t
cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t
cudaEventSynchronize(cudaEvent_t event);
cudaError_t
cudaEventElapsedTime(float *milliseconds_ret, cudaEvent_t from, cudaEvent_t to);
cudaError_t
cudaEventDestroy(cudaEvent_t event);

cudaError_t
cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t
cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph_ret);
cudaError_t
cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status_ret);
cudaError_t
cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode);
cudaError_t
cudaGraphCreate(cudaGraph_t *graph_ret, unsigned flags);
cudaError_t
cudaGraphAddKernelNode(cudaGraphNode_t *node_ret, cudaGraph_t graph,
                       const cudaGraphNode_t *before, size_t nbefore,
                       const cudaKernelNodeParams *kernel);
cudaError_t
cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                         const cudaGraphNode_t *to,
                         const cudaGraphEdgeData *edges, size_t n);
cudaError_t
cudaGraphInstantiate(cudaGraphExec_t *executable_ret, cudaGraph_t graph,
                     unsigned long long flags = 0);
cudaError_t
cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t
cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t
cudaGraphDestroy(cudaGraph_t graph);
}
#pragma GCC visibility pop

cudaError_t
emulator_set_shared_limit(const void *kernel, int nbytes);
/* Deletes `kernel` at the end. */
cudaError_t
emulator_launch(const cudaLaunchConfig_t *config, const void *kernel_at,
                const emulator_work *kernel);

/* A kernel with its arguments; a graph's node points to it. */
typedef const emulator_work *
emulator_bind(const void *kernel_at, void **arguments);

void
emulator_know_at(const void *kernel_at, emulator_bind *bind);

template <typename... Parameters>
class emulator_kernel final : public emulator_work
{
  public:
    typedef std::tuple<std::decay_t<Parameters>...> values;

    emulator_kernel(void (*kernel_)(Parameters...), values copies_)
        : kernel(kernel_), copies(std::move(copies_))
    {
    }
    void run() const override
    {
        std::apply(kernel, copies);
    }

  private:
    void (*kernel)(Parameters...);
    values copies;
};

template <typename... Values, size_t... I>
std::tuple<Values...>
emulator_arguments(void **at, std::index_sequence<I...>)
{
    return {*(Values *)at[I]...};
}

/* Registers a kernel for graphs, because a node does not give the types of its
 * parameters. */
template <typename... Parameters>
void
emulator_know(void (*kernel)(Parameters...))
{
    emulator_know_at(
        (const void *)kernel,
        [](const void *kernel_at, void **at) -> const emulator_work * {
            return new emulator_kernel<Parameters...>(
                (void (*)(Parameters...))kernel_at,
                emulator_arguments<std::decay_t<Parameters>...>(
                    at, std::index_sequence_for<Parameters...>()));
        });
}

template <typename Kernel>
cudaError_t
cudaFuncSetAttribute(Kernel *kernel, cudaFuncAttribute attribute, int value)
{
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaSuccess;
    return emulator_set_shared_limit((const void *)kernel, value);
}

template <typename... Expected, typename... Actual>
cudaError_t
cudaLaunchKernelEx(const cudaLaunchConfig_t *config,
                   void (*kernel)(Expected...), Actual &&...arguments)
{
    return emulator_launch(
        config, (const void *)kernel,
        new emulator_kernel<Expected...>(
            kernel, typename emulator_kernel<Expected...>::values(
                        std::forward<Actual>(arguments)...)));
}

template <typename T>
cudaError_t
cudaMalloc(T **at_ret, size_t nbytes)
{
    return cudaMalloc((void **)at_ret, nbytes);
}

template <typename T>
cudaError_t
cudaMallocHost(T **at_ret, size_t nbytes)
{
    return cudaMallocHost((void **)at_ret, nbytes);
}
