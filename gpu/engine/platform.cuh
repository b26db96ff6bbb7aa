/* What differs between CUDA's compiler and the tests' emulator of it, and the
 * one way in which kernels are launched. */
#pragma once

#ifdef __CUDACC__
#include <cuda_pipeline_primitives.h>
#endif
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>
#include <tuple>
#include <type_traits>

/* A kernel's parameter that stays where it was passed. */
#ifndef __CUDACC__
#define __grid_constant__
#endif

/* All lanes of a warp take part. */
#define FULL_WARP_MASK 0xFFFFFFFFu

/* The codec's headers are C11. */
#define _Static_assert static_assert

/* The block's dynamic shared memory, aligned to 16 bytes. */
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

/* True for all threads of the one block that comes last of `nblocks`, which
 * count themselves in *progress; it sees what the others wrote before. */
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

/* Lets the next kernel of the stream take its place to wait. */
static __device__ __forceinline__ void
let_next_kernel_come(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/* Waits for the kernels before this one in its stream and what they wrote. */
static __device__ __forceinline__ void
wait_for_kernels(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

/* The first statement of every kernel, unless it does something first that
 * needs nothing which a kernel before it may still write. */
static __device__ __forceinline__ void
begin_kernel(void)
{
    let_next_kernel_come();
    wait_for_kernels();
}

#ifdef __CUDACC__
/* A thread tells the others of its block's cluster that it has come so far, and
 * is to wait for them before it comes to such a place again. */
static __device__ __forceinline__ void
arrive_at_cluster(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}

/* Waits until all have, or have ended, and so for what they wrote before. */
static __device__ __forceinline__ void
wait_for_cluster(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}
#endif

/* Copies a value to shared memory without waiting for it. */
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

/* Makes one group of the thread's copies since the last one. */
static __device__ __forceinline__ void
commit_async(void)
{
#ifdef __CUDACC__
    __pipeline_commit();
#endif
}

/* Until the thread's own copies are there, but for so many groups that were
 * made last. */
template <int ngroups>
static __device__ __forceinline__ void
wait_async_but(void)
{
#ifdef __CUDACC__
    __pipeline_wait_prior(ngroups);
#endif
}

/* Until all are. */
static __device__ __forceinline__ void
wait_async(void)
{
    commit_async();
    wait_async_but<0>();
}

/* On the device that the thread works on, kernels wait for each other by
 * wait_for_kernels. */
inline thread_local bool kernels_wait = false;

/* Blocks that a cluster of kernels made for it may have on that device, as
 * cuda_spline_find_clusters has found; 0: there are no clusters. */
inline thread_local unsigned max_cluster_nblocks = 0;

/* What an attribute of a launch, or of a graph's node, says: so many
 * neighbouring blocks along x are a cluster. */
static inline cudaLaunchAttributeValue
cluster_dimension(unsigned nblocks)
{
    cudaLaunchAttributeValue value = {};

    value.clusterDim.x = nblocks;
    value.clusterDim.y = value.clusterDim.z = 1;
    return value;
}

/* Takes a thread's launches instead of the device. */
struct launch_recorder {
    cudaError_t (*add)(struct launch_recorder *recorder, cudaStream_t stream,
                       const cudaKernelNodeParams *kernel,
                       unsigned cluster_nblocks);
};

/* The one that takes this thread's launches; NULL: the device does. */
inline thread_local struct launch_recorder *thread_recorder = NULL;

/* Launches kernel(arguments...), which are converted to its parameters' types,
 * in clusters of so many blocks; 1: in none. Returns what the launch returned;
 * errors of the kernel itself come later. */
template <typename... Expected, typename... Actual>
static inline cudaError_t
launch_clusters(void (*kernel)(Expected...), unsigned cluster_nblocks,
                dim3 grid, dim3 block, size_t shared_nbytes,
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
                return thread_recorder->add(thread_recorder, stream, &node,
                                            cluster_nblocks);
            },
            values);
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_nbytes;
    config.stream = stream;
    cudaLaunchAttribute attributes[2] = {};
    config.attrs = attributes;
    if (cluster_nblocks > 1) {
        attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
        attributes[config.numAttrs++].val = cluster_dimension(cluster_nblocks);
    }
#ifdef __CUDACC__
    if (kernels_wait) {
        cudaLaunchAttribute *early = &attributes[config.numAttrs++];
        early->id = cudaLaunchAttributeProgrammaticStreamSerialization;
        early->val.programmaticStreamSerializationAllowed = 1;
    }
#endif
    return cudaLaunchKernelEx(&config, kernel, arguments...);
}

template <typename... Expected, typename... Actual>
static inline cudaError_t
launch(void (*kernel)(Expected...), dim3 grid, dim3 block, size_t shared_nbytes,
       cudaStream_t stream, Actual... arguments)
{
    return launch_clusters(kernel, 1, grid, block, shared_nbytes, stream,
                           arguments...);
}
