/* Marches through the finest level of small chunks. A block has all cubes of a
 * plane, so points are computed twice only along z.
 *
 * One kernel for each kind of plan would run after the other, each with a last
 * wave of few blocks. Blocks of all kinds have the same number of threads, and
 * one block fits on a multiprocessor, so one kernel serves all kinds. An
 * exception is decoding averaged long splines, which would take a fifth longer;
 * it has its own kernel. */
#pragma once

#include "gpu/predict/spline_march.cuh"

/* Cubes of a plane along x and y: a plane of 64 x 64 values. A thread has two
 * cubes, so a block has 512 threads. One block runs on a multiprocessor; two
 * blocks, with 64 registers a thread, took 1.1 to 1.3 times as long. */
#define SMALL_MARCH_EXTENT 32

/* The tile of a whole plane. `kind` is march_cubic, march_far or march_blended;
 * nstages is that of march_tile. Example: small_tile<true, march_cubic, 3>
 * decodes a plane by a cubic spline, with the input of three steps in shared
 * memory or on its way there. */
template <bool decode, typename kind, int nstages = 2>
using small_tile = march_tile<float, decode, kind, SMALL_MARCH_EXTENT,
                              SMALL_MARCH_EXTENT, nstages, 1, true>;

template <bool decode> struct small_tiles {
    typedef small_tile<decode, march_cubic, decode ? 3 : 2> cubic;
    typedef small_tile<decode, march_far> far;
    typedef small_tile<decode, march_blended> blended;
    static constexpr int nthreads = cubic::nthreads;
    static constexpr int averaged_nbytes =
        cubic::shared_nbytes > far::shared_nbytes ? cubic::shared_nbytes
                                                  : far::shared_nbytes;
    static constexpr int shared_nbytes =
        averaged_nbytes > blended::shared_nbytes ? averaged_nbytes
                                                 : blended::shared_nbytes;

    static_assert(far::nthreads == nthreads && blended::nthreads == nthreads,
                  "Blocks of all kinds have equally many threads.");
};

/* Grid: x = segments along z, then bricks; y = chunks. Block: tiles::nthreads
 * threads, which own two cubes each. Dynamic shared memory: the most of all
 * three tiles. Barriers: see make_step and make_blended_step. */
template <bool decode>
static __global__ void
__launch_bounds__(small_tiles<decode>::nthreads, 1)
    spline_march_small(const __grid_constant__ struct cuda_batch batch,
                       const __grid_constant__ struct march_work work, int l)
{
    begin_kernel();
    __shared__ march_shared<float> s_block;
    typedef small_tiles<decode> tiles;

    const struct cuda_chunk &state = batch.d_chunks[blockIdx.y];
    if (!chunk_applies(state) || !values_are_even<decode>(state))
        return;
    if (plan_marches_blended(state, l)) {
        march_block<typename tiles::blended, TERP_SPLINE_LONG>(batch, work, l,
                                                               &s_block);
    } else if (plan_marches<float>(state, l)) {
        const unsigned spline = state.model.plan[l].spline;
        if (spline == TERP_SPLINE_NATURAL)
            march_block<typename tiles::cubic, TERP_SPLINE_NATURAL>(
                batch, work, l, &s_block);
        else if (spline == TERP_SPLINE_CUBIC)
            march_block<typename tiles::cubic, TERP_SPLINE_CUBIC>(batch, work,
                                                                  l, &s_block);
        else if constexpr (!decode)
            march_block<typename tiles::far, TERP_SPLINE_LONG>(batch, work, l,
                                                               &s_block);
    }
}

/* Whether a plane of level l fits a block, and values have 4 bytes. */
static inline bool
has_small_planes(const struct cuda_batch *batch, int l)
{
    const struct terp_level *level = &batch->h_layout->level[l];

    return batch->value_nbytes == 4 && level->neven[0] <= SMALL_MARCH_EXTENT &&
           level->neven[1] <= SMALL_MARCH_EXTENT;
}

template <bool decode>
static cudaError_t
launch_march_small(const struct cuda_batch *batch, int l, cudaStream_t stream)
{
    typedef small_tiles<decode> tiles;
    typedef std::conditional_t<decode, typename tiles::blended,
                               typename tiles::far>
        cut; /* the kind whose segments all kinds use */
    struct march_work work;
    cudaError_t error = cudaSuccess;

    if constexpr (decode)
        error = launch_march_by<float, typename tiles::far, TERP_SPLINE_LONG>(
            batch, l, stream);
    if (error != cudaSuccess)
        return error;
    if (!may_march(batch, CUDA_MARCH_CUBIC | CUDA_MARCH_NATURAL |
                              CUDA_MARCH_BLENDED |
                              (decode ? 0 : CUDA_MARCH_LONG)))
        return cudaSuccess;
    const uint64_t nblocks = make_march_work<cut>(batch, l, &work);
    return launch_shared(batch, stream, spline_march_small<decode>, nblocks,
                         tiles::nthreads, tiles::shared_nbytes, work, l);
}
