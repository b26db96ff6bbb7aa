/* Hides the differences between CUDA's compiler and the tests' emulator, and
 * defines `launch`, by which all kernels are launched. */
#pragma once

#ifdef __CUDACC__
#include <cuda_pipeline_primitives.h>
#endif
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>
#include <tuple>
#include <type_traits>

/* Marks a kernel's parameter that is read in place, without a copy per
 * thread. */
#ifndef __CUDACC__
#define __grid_constant__
#endif

/* The mask of a warp operation in which all 32 lanes take part. */
#define FULL_WARP_MASK 0xFFFFFFFFu

/* The codec's headers are C11. */
#define _Static_assert static_assert

/* The block's dynamic shared memory as an array of T, aligned to 16 bytes.
 * Example: uint32_t *s_rows = dynamic_shared<uint32_t>(). */
template <typename T>
static __device__ inline T *
dynamic_shared(void)
{
#ifdef __CUDACC__
    extern __shared__ __align__(16) unsigned char s_dynamic[];
#else
    unsigned char *s_dynamic = emulator_dynamic_shared();
#endif
    return reinterpret_cast<T *>(s_dynamic);
}

/* Counts the block in *progress. Returns true in all threads of the last of
 * `nblocks` blocks, and false in all other blocks. The last block sees what the
 * others wrote to global memory before. Every thread must call this; it has
 * two barriers. */
static __device__ inline bool
is_last_block(unsigned *progress, unsigned nblocks)
{
    __shared__ bool s_is_last;

    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        s_is_last = atomicAdd(progress, 1u) == nblocks - 1;
        __threadfence();
    }
    __syncthreads();
    return s_is_last;
}

/* Lets the next kernel of the stream start: its blocks may become resident and
 * run up to wait_for_kernels (programmatic dependent launch). */
static __device__ __forceinline__ void
let_next_kernel_come(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/* Waits until the kernels before this one in its stream have ended and their
 * writes are visible. */
static __device__ __forceinline__ void
wait_for_kernels(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

/* The first statement of a kernel. A kernel that can do work before it reads
 * results of earlier kernels calls let_next_kernel_come first, does that work,
 * and then calls wait_for_kernels. */
static __device__ __forceinline__ void
begin_kernel(void)
{
    let_next_kernel_come();
    wait_for_kernels();
}

/* Starts a copy of one value to shared memory. T has 4, 8 or 16 bytes. The copy
 * is complete after wait_async, and other threads see it after a barrier. */
template <typename T>
static __device__ __forceinline__ void
copy_async(T *s_to, const T *from)
{
#ifdef __CUDACC__
    __pipeline_memcpy_async(s_to, from, sizeof *s_to);
#else
    *s_to = *from;
#endif
}

/* Makes one group of the copies that the thread has started since its last
 * group. */
static __device__ __forceinline__ void
commit_async(void)
{
#ifdef __CUDACC__
    __pipeline_commit();
#endif
}

/* Waits for the thread's own copies, except those of its last `ngroups` groups.
 * Example: a loop that prefetches one step ahead commits a group each step and
 * calls wait_async_but<1>() before it uses the step before. */
template <int ngroups>
static __device__ __forceinline__ void
wait_async_but(void)
{
#ifdef __CUDACC__
    __pipeline_wait_prior(ngroups);
#endif
}

/* Waits for all of the thread's own copies. */
static __device__ __forceinline__ void
wait_async(void)
{
    commit_async();
    wait_async_but<0>();
}

/* Whether kernels of the device in which the thread works were compiled to wait
 * by wait_for_kernels, so that launches may overlap. cuda_device_enter sets
 * it. */
inline thread_local bool kernels_wait = false;

/* Receives a thread's launches instead of the device, to make a graph of
 * them. */
struct launch_recorder {
    cudaError_t (*add)(struct launch_recorder *recorder, cudaStream_t stream,
                       const cudaKernelNodeParams *kernel);
};

/* The recorder of this thread's launches; NULL: launches go to the device. */
inline thread_local struct launch_recorder *thread_recorder = NULL;

/* Launches kernel(arguments...). Expected are the kernel's parameter types and
 * Actual those of the arguments; both are deduced. Each argument is converted
 * to its parameter's type, since a launch takes the addresses of parameters:
 * launch(kernel, grid, block, 0, stream, 7) works for a parameter of type
 * uint64_t. Returns the error of the launch; errors of the kernel itself
 * appear later. */
template <typename... Expected, typename... Actual>
static inline cudaError_t
launch(void (*kernel)(Expected...), dim3 grid, dim3 block, size_t shared_nbytes,
       cudaStream_t stream, Actual... arguments)
{
    if (thread_recorder != NULL) {
#ifndef __CUDACC__
        emulator_know(kernel);
#endif
        std::tuple<std::remove_const_t<Expected>...> values(arguments...);
        return std::apply(
            [&](auto &...value) {
                void *at[] = {&value..., NULL};
                cudaKernelNodeParams node = {};
                node.func = (void *)kernel;
                node.gridDim = grid;
                node.blockDim = block;
                node.sharedMemBytes = (unsigned)shared_nbytes;
                node.kernelParams = at;
                return thread_recorder->add(thread_recorder, stream, &node);
            },
            values);
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_nbytes;
    config.stream = stream;
#ifdef __CUDACC__
    cudaLaunchAttribute early;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &early;
    config.numAttrs = kernels_wait ? 1 : 0;
#endif
    return cudaLaunchKernelEx(&config, kernel, arguments...);
}

/* Calls that are started in a CUDA stream one after another. After the first
 * error, further calls do nothing, and `error` keeps the error. */
struct cuda_work {
    cudaStream_t stream;
    cudaError_t error = cudaSuccess;

    /* Each of the two pointers is to memory of the host or of the device. */
    void copy(void *to, const void *from, uint64_t nbytes)
    {
        if (error == cudaSuccess)
            error =
                cudaMemcpyAsync(to, from, nbytes, cudaMemcpyDefault, stream);
    }
    void fill(void *d_at, int byte, uint64_t nbytes)
    {
        if (error == cudaSuccess)
            error = cudaMemsetAsync(d_at, byte, nbytes, stream);
    }
    void zero(void *d_at, uint64_t nbytes)
    {
        fill(d_at, 0, nbytes);
    }
    /* Calls start(arguments..., stream). */
    template <typename Start, typename... Arguments>
    void add(Start start, Arguments... arguments)
    {
        if (error == cudaSuccess)
            error = start(arguments..., stream);
    }
    template <typename... Expected, typename... Actual>
    void run(void (*kernel)(Expected...), dim3 grid, dim3 block,
             Actual... arguments)
    {
        if (error == cudaSuccess)
            error = launch(kernel, grid, block, 0, stream, arguments...);
    }
};

/* Selects one of four kernels, or functions, by the bytes of a value. */
template <typename Function>
static inline Function *
cuda_of_width(int value_nbytes, Function *of_1, Function *of_2, Function *of_4,
              Function *of_8)
{
    return value_nbytes == 1   ? of_1
           : value_nbytes == 2 ? of_2
           : value_nbytes == 4 ? of_4
                               : of_8;
}
