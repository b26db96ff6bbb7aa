/* Marches through a level by ragged tiles (gpu/predict/march.cuh): any extents,
 * any alignment, special values. One kernel serves all kinds of plans, so that
 * a batch without such chunks waits for one launch only. Blocks of all kinds
 * therefore have the same number of threads, and one block fits on a
 * multiprocessor. */
#pragma once

#include "gpu/predict/spline_march.cuh"

/* The tiles of all kinds: 32 cubes along x, and as many along y as the threads
 * of a block have, with those around the tile. */
template <typename T, bool decode, typename kind, int ny>
using ragged_tile = march_tile<T, decode, kind, 32, ny, 2, 1, false, true>;

#define RAGGED_CUBIC_NY 22
#define RAGGED_LONG_NY 16

template <typename T, bool decode> struct ragged_tiles {
    typedef ragged_tile<T, decode, march_cubic, RAGGED_CUBIC_NY> cubic;
    typedef ragged_tile<T, decode, march_far, RAGGED_LONG_NY> far;
    typedef ragged_tile<T, decode, march_blended, RAGGED_LONG_NY> blended;
    static constexpr int nthreads = cubic::nthreads;
    /* `far` needs less than `blended`, which has one more class there. */
    static constexpr int shared_nbytes =
        cubic::shared_nbytes > blended::shared_nbytes ? cubic::shared_nbytes
                                                      : blended::shared_nbytes;

    static_assert(far::nthreads == nthreads && blended::nthreads == nthreads &&
                      far::shared_nbytes <= shared_nbytes,
                  "Blocks of all kinds have equally many threads and bytes.");
};

/* Marches by a spline of `kind` whose tiles have ny cubes along y. The launch
 * has room for RAGGED_LONG_NY; other tiles may be fewer. */
template <bool decode, typename kind, int ny, enum terp_spline spline,
          typename T>
static __device__ __forceinline__ void
march_ragged(const struct cuda_batch &batch, const struct march_work &launched,
             int l, march_shared<T> *s_block)
{
    struct march_work work = launched;

    work.ntiles_y = (uint32_t)((work.ny - 1) / ny + 1);
    if (blockIdx.x >= (uint64_t)work.ntiles_x * work.ntiles_y * work.nsegments *
                          batch.d_layout->nbricks)
        return;
    march_block<ragged_tile<T, decode, kind, ny>, spline>(batch, work, l,
                                                          s_block);
}

/* Grid: x = tiles along x, then y, then segments, then bricks; y = chunks.
 * Block: tiles::nthreads threads, which own two cubes each. Dynamic shared
 * memory: the most of all tiles. Barriers: see make_step and make_blended_step.
 * is_even: even tiles serve chunks whose values allow it. */
template <typename T, bool decode>
static __global__ void
__launch_bounds__(ragged_tiles<T, decode>::nthreads, 1)
    spline_march_ragged(const __grid_constant__ struct cuda_batch batch,
                        const __grid_constant__ struct march_work work, int l,
                        bool is_even)
{
    begin_kernel();
    __shared__ march_shared<T> s_block;
    const struct cuda_chunk &state = batch.d_chunks[blockIdx.y];
    const unsigned spline = state.model.plan[l].spline;

    if (!chunk_applies(state) || (is_even && values_are_even<decode>(state)))
        return;
    if (plan_marches_blended(state, l)) {
        march_block<typename ragged_tiles<T, decode>::blended,
                    TERP_SPLINE_LONG>(batch, work, l, &s_block);
    } else if (!plan_marches<T>(state, l)) {
        return;
    } else if (spline == TERP_SPLINE_CUBIC) {
        march_ragged<decode, march_cubic, RAGGED_CUBIC_NY, TERP_SPLINE_CUBIC>(
            batch, work, l, &s_block);
    } else if (spline == TERP_SPLINE_NATURAL) {
        march_ragged<decode, march_cubic, RAGGED_CUBIC_NY, TERP_SPLINE_NATURAL>(
            batch, work, l, &s_block);
    } else if constexpr (sizeof(T) == 4) {
        march_ragged<decode, march_far, RAGGED_LONG_NY, TERP_SPLINE_LONG>(
            batch, work, l, &s_block);
    }
}

template <typename T, bool decode>
static cudaError_t
launch_march_ragged(const struct cuda_batch *batch, int l, cudaStream_t stream)
{
    typedef ragged_tiles<T, decode> tiles;
    struct march_work work;
    const uint64_t nblocks =
        make_march_work<typename tiles::blended>(batch, l, &work);

    return launch_shared(batch, stream, spline_march_ragged<T, decode>, nblocks,
                         tiles::nthreads, tiles::shared_nbytes, work, l,
                         shape_is_even(batch->h_layout, l));
}
