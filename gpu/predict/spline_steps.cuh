/* A step of a large level as a launch: the rows with so many odd dimensions, as
 * gpu/predict/spline.cu says. */
#pragma once

#include "gpu/predict/spline_march.cuh"
#include "gpu/predict/spline_rows.cuh"

/* Whether a level of the chunk is made by these steps. */
template <typename T, bool decode>
static __device__ __forceinline__ bool
takes_steps(const struct cuda_chunk &chunk, const struct level_shape &shape)
{
    return chunk_applies(chunk) && !level_is_long(chunk, shape.l) &&
           !(shape.marches && plan_marches<T, decode>(chunk, shape.l));
}

/* Every `nblocks`-th group of the chunk, from the first on; neighbouring groups
 * are of all types, which read the same rows. */
template <typename T, int nodd_dims, bool decode, int width>
static __device__ __forceinline__ void
make_groups(const struct cuda_batch &batch, const struct level_shape &shape,
            const struct step &step, unsigned c, unsigned first,
            unsigned nblocks, unsigned ngroups, unsigned nruns_per_block,
            struct cuda_chunk *s_chunk)
{
    const unsigned ntypes = (unsigned)step.ntypes;

    if (first >= ngroups)
        return;
    copy_state(batch, threadIdx.y * blockDim.x + threadIdx.x,
               blockDim.x * blockDim.y, s_chunk, c);
    if (!takes_steps<T, decode>(*s_chunk, shape))
        return;
    struct level_view<T> view = view_of<T>(batch, *s_chunk, c);
    view_level<T, decode>(*s_chunk, shape, &view);
    const bool vector = rows_are_whole<T, decode, width>(shape, view);
    const struct place place = {blockDim.y, threadIdx.y, threadIdx.x};
    struct run<T> *s_runs = dynamic_shared<struct run<T>>();
    T *s_even = (T *)(s_runs + nruns_per_block);
    struct no_wait wait;
#pragma unroll 1
    for (unsigned group = first; group < ngroups; group += nblocks) {
        const struct row_type &type = step.type[group % ntypes];
        const uint64_t run = (uint64_t)(group / ntypes) * nruns_per_block;
        if (group > first)
            __syncthreads();
        if (run < type.nruns)
            make_group<T, nodd_dims, decode, width>(
                shape, type, s_chunk->model.plan[shape.l], view, place, run,
                (unsigned)min_u64(nruns_per_block, type.nruns - run), vector,
                s_runs, s_even, wait);
    }
}

/* Of a level that is marched through few chunks are left, or all: blocks find
 * out which, of so many at a time, and share their groups. A bit a chunk. */
#define STEP_NCHUNKS 256u

template <typename T, bool decode>
static __device__ __forceinline__ void
find_left(const struct cuda_batch &batch, const struct level_shape &shape,
          unsigned first, uint32_t s_left[STEP_NCHUNKS / 32])
{
    const unsigned nthreads = blockDim.x * blockDim.y;
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    const unsigned n =
        (unsigned)min_u64(STEP_NCHUNKS, (uint64_t)batch.nchunks - first);

    __syncthreads();
    for (unsigned i = thread; i < STEP_NCHUNKS / 32; i += nthreads)
        s_left[i] = 0;
    __syncthreads();
    for (unsigned i = thread; i < n; i += nthreads)
        if (takes_steps<T, decode>(batch.d_chunks[first + i], shape))
            atomicOr(&s_left[i / 32], 1u << i % 32);
    __syncthreads();
}

/* Grid: (ngroups groups of nruns_per_block runs, chunks), or any number of
 * blocks for a level that is marched through. Block: (shape.span, runs at
 * once), four of which a multiprocessor has where they have little to hold.
 * Shared: runs, then even points. */
template <typename T, int nodd_dims, bool decode, int width>
static __global__ void
__launch_bounds__(SPLINE_MAX_SPAN,
                  sizeof(T) == 4 && nodd_dims <= (width == 1 ? 2 : decode) ? 4
                                                                           : 3)
    spline_step(const __grid_constant__ struct cuda_batch batch,
                const __grid_constant__ struct level_shape shape,
                const __grid_constant__ struct step step, unsigned ngroups,
                unsigned nruns_per_block)
{
    begin_kernel();
    __shared__ struct cuda_chunk chunk;
    __shared__ uint32_t s_left[STEP_NCHUNKS / 32];
    const bool shares = shape.marches && batch.nchunks > 1;
    const unsigned nchunks = shares ? (unsigned)batch.nchunks : 1;
    const unsigned nwords = shares ? STEP_NCHUNKS / 32 : 1;
    unsigned turn = 0; /* of the block that has the next chunk's first group */

#pragma unroll 1
    for (unsigned first = 0; first < nchunks; first += STEP_NCHUNKS) {
        if (shares)
            find_left<T, decode>(batch, shape, first, s_left);
#pragma unroll 1
        for (unsigned word = 0; word < nwords; word++) {
#pragma unroll 1
            for (uint32_t left = shares ? s_left[word] : 1; left != 0;
                 left &= left - 1) {
                const unsigned c = blockIdx.y + first + 32 * word +
                                   (unsigned)__ffs((int)left) - 1;
                const unsigned own =
                    blockIdx.x + (blockIdx.x < turn ? gridDim.x : 0) - turn;
                make_groups<T, nodd_dims, decode, width>(
                    batch, shape, step, c, own, gridDim.x, ngroups,
                    nruns_per_block, &chunk);
                if (!shares)
                    return;
                turn = (turn + ngroups) % gridDim.x;
                __syncthreads();
            }
        }
    }
}

/* Threads that keep a large device busy twice over; tests make it small.
 * With more than that each thread does several runs; with far more, twice as
 * many points, where rows may be read in words of 16 bytes. */
#ifndef CUDA_BUSY_NTHREADS
#define CUDA_BUSY_NTHREADS (1u << 19)
#endif
#define WIDE_NVALUES (8 * CUDA_BUSY_NTHREADS)
#define MAX_NRUNS_PER_THREAD 16
#define MAX_NRUNS_PER_BLOCK 64

/* Blocks for all chunks where most may have nothing to do. */
#define MARCHED_MAX_NBLOCKS 528

template <typename T, int nodd_dims, bool decode, int width>
static cudaError_t
launch_step(const struct cuda_batch *batch, const struct level_shape &shape,
            cudaStream_t stream)
{
    struct step step = {};
    uint64_t most = 0, nruns = 0;

    make_step(batch->h_layout, &shape, nodd_dims, &step);
    for (int i = 0; i < step.ntypes; i++) {
        most = step.type[i].nruns > most ? step.type[i].nruns : most;
        nruns += step.type[i].nruns;
    }
    if (nruns == 0)
        return cudaSuccess;
    unsigned nat_once = (unsigned)min_u64(SPLINE_MAX_SPAN / shape.span, most);
    uint64_t per_thread =
        nruns * shape.span * (uint64_t)batch->nchunks / CUDA_BUSY_NTHREADS;
    per_thread = min_u64(per_thread, MAX_NRUNS_PER_THREAD);
    per_thread = min_u64(per_thread, MAX_NRUNS_PER_BLOCK / nat_once);
    unsigned nruns_per_block =
        nat_once * (per_thread > 1 ? (unsigned)per_thread : 1);
    size_t shared_nbytes = nruns_per_block * sizeof(struct run<T>) +
                           2 * nat_once * shape.span * width * sizeof(T);
    const uint64_t ngroups =
        (uint64_t)step.ntypes * div_up(most, nruns_per_block);
    const uint64_t nblocks = ngroups * (uint64_t)batch->nchunks;
    const dim3 grid =
        shape.marches ? dim3((unsigned)min_u64(nblocks, MARCHED_MAX_NBLOCKS))
                      : dim3((unsigned)ngroups, (unsigned)batch->nchunks);
    return launch(spline_step<T, nodd_dims, decode, width>, grid,
                  dim3(shape.span, nat_once), shared_nbytes, stream, *batch,
                  shape, step, (unsigned)ngroups, nruns_per_block);
}

template <typename T, bool decode, int width>
static cudaError_t
launch_level(const struct cuda_batch *batch, const struct level_shape &shape,
             cudaStream_t stream)
{
    cudaError_t err = launch_step<T, 0, decode, width>(batch, shape, stream);
    if (err == cudaSuccess)
        err = launch_step<T, 1, decode, width>(batch, shape, stream);
    if (err == cudaSuccess)
        err = launch_step<T, 2, decode, width>(batch, shape, stream);
    if (err == cudaSuccess)
        err = launch_step<T, 3, decode, width>(batch, shape, stream);
    return err;
}
