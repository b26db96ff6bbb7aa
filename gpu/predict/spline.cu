/* The spline predictor over all levels of a chunk.
 *
 * The points of a level are made row by row. A row is the points of the level's
 * fine lattice along dimension 0, even and odd. Rows differ in *type*: the set
 * of dimensions above 0 in which their coordinate is odd. The even points of a
 * row of type 0 come from the coarse lattice. The points of other rows are
 * predicted from rows with one odd dimension less. Odd points are also
 * predicted from the even points of their row. A level therefore takes one step
 * for each number of odd dimensions, 0 to 3, and each step writes whole rows of
 * the fine lattice, in C order. A level above 1 has them in the region
 * `lattice`, level 1 in `dst` or, when encoding, in `work`.
 *
 * Only large levels take a launch for each step. A small level takes one launch
 * for all steps, by tiles (spline_tile.cuh). All coarse levels take one launch
 * together, with one block per chunk (spline_coarse.cuh). Levels of long
 * splines have launches of their own (spline_long.cuh). The finest level of
 * large chunks has them, too, if the plan allows marching (march.cuh). */
#include "gpu/predict/spline_long.cuh"
#include "gpu/predict/spline_march_linear.cuh"
#include "gpu/predict/spline_march_ragged.cuh"
#include "gpu/predict/spline_march_small.cuh"
#include "gpu/predict/spline_rows.cuh"
#include "gpu/predict/spline_tile.cuh"

/* ---- a step of a large level: one launch ---- */

/* Makes the points of a group: up to nruns_per_block runs of a type. */
template <typename T, int nodd_dims, bool decode, int width>
static __device__ __forceinline__ void
make_group(const struct level_shape &shape, const struct row_type &type,
           const struct terp_level_plan &plan, const level_view<T> &view,
           uint64_t first, unsigned nruns_per_block, bool vector)
{
    const unsigned nthreads = blockDim.x * blockDim.y;
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    const struct place place = {blockDim.y, threadIdx.y, threadIdx.x};
    run<T> *s_runs = dynamic_shared<run<T>>();
    T *s_even = (T *)(s_runs + nruns_per_block);
    const unsigned nruns =
        (unsigned)min_u64(nruns_per_block, type.nruns - first);
    const unsigned nturns = (nruns - 1) / place.nat_once + 1;
    const int capacity = (int)nthreads * width;

    if (thread < nruns) {
        struct predictors p = predictors_of(plan, type);
        for (unsigned i = thread; i < nruns; i += nthreads)
            make_run(shape, type, p, first + i, &s_runs[i]);
    }
    __syncthreads();
    if constexpr (nodd_dims > 0) {
        if (view.blend_order > 1) {
            if (vector)
                make_points<T, nodd_dims, decode, width, true, true>(
                    shape, type, view, s_runs, nruns, nturns, place, s_even,
                    capacity);
            else
                make_points<T, nodd_dims, decode, width, false, true>(
                    shape, type, view, s_runs, nruns, nturns, place, s_even,
                    capacity);
            return;
        }
    }
    if (vector)
        make_points<T, nodd_dims, decode, width, true, false>(
            shape, type, view, s_runs, nruns, nturns, place, s_even, capacity);
    else
        make_points<T, nodd_dims, decode, width, false, false>(
            shape, type, view, s_runs, nruns, nturns, place, s_even, capacity);
}

/* Whether these steps make the level of the chunk. */
template <typename T>
static __device__ __forceinline__ bool
takes_steps(const struct cuda_chunk &chunk, const struct level_shape &shape)
{
    return chunk_applies(chunk) && !level_is_long(chunk, shape.l) &&
           !(shape.marches && (plan_marches<T>(chunk, shape.l) ||
                               plan_marches_linear(chunk, shape.l)));
}

/* Makes every `nblocks`-th group of chunk c, from group `first` on.
 * Neighbouring groups have different types, which read the same rows. */
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
    if (!takes_steps<T>(*s_chunk, shape))
        return;
    level_view<T> view = view_of<T>(batch, *s_chunk, c);
    view_level<T, decode>(*s_chunk, shape, &view);
    const bool vector = is_vector<T, decode, width>(shape, view);
#pragma unroll 1
    for (unsigned group = first; group < ngroups; group += nblocks) {
        const struct row_type &type = step.type[group % ntypes];
        const uint64_t run = (uint64_t)(group / ntypes) * nruns_per_block;
        if (group > first)
            __syncthreads();
        if (run < type.nruns)
            make_group<T, nodd_dims, decode, width>(
                shape, type, s_chunk->model.plan[shape.l], view, run,
                nruns_per_block, vector);
    }
}

/* If a level is marched through, few chunks are left to these steps, or all.
 * Each block finds out which ones, STEP_NCHUNKS chunks at a time, and all
 * blocks share the groups of these chunks. Sets one bit per chunk. */
#define STEP_NCHUNKS 256u

template <typename T>
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
        if (takes_steps<T>(batch.d_chunks[first + i], shape))
            atomicOr(&s_left[i / 32], 1u << i % 32);
    __syncthreads();
}

/* Grid: x = ngroups groups of nruns_per_block runs, y = chunks; for a level
 * that is marched through any number of blocks, y = 1. Block: (shape.span
 * threads of a segment, runs at a time); a thread owns `width` even and odd
 * points. Four blocks fit on a multiprocessor if a thread needs few registers,
 * otherwise three. Dynamic shared memory: the runs of a group, then even points
 * of two turns. Barriers: around the preparation of a group's runs, and one in
 * each turn. */
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
    /* the block that takes the first group of the next chunk */
    unsigned turn = 0;

#pragma unroll 1
    for (unsigned first = 0; first < nchunks; first += STEP_NCHUNKS) {
        if (shares)
            find_left<T>(batch, shape, first, s_left);
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

/* CUDA_BUSY_NTHREADS: threads that keep a large device busy twice over; tests
 * set a smaller number. If a launch has more, each thread does several runs, up
 * to MAX_NRUNS_PER_THREAD; a block has up to MAX_NRUNS_PER_BLOCK, which bounds
 * its shared memory.
 *
 * WIDE_NVALUES: if a batch has at least this many values (4194304) and rows can
 * be read in words of 16 bytes, threads have SPLINE_WIDE points instead of one.
 * Marching (is_marched) starts at the same size. */
#ifndef CUDA_BUSY_NTHREADS
#define CUDA_BUSY_NTHREADS (1u << 19)
#endif
#define WIDE_NVALUES (8 * CUDA_BUSY_NTHREADS)
#define MAX_NRUNS_PER_THREAD 16
#define MAX_NRUNS_PER_BLOCK 64

/* The most blocks for all chunks of a level that is marched through, since most
 * blocks may have nothing to do. */
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
    size_t shared_nbytes = nruns_per_block * sizeof(run<T>) +
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

/* Whether threads have SPLINE_WIDE points of a level's rows. */
static bool
is_wide(const struct cuda_batch *batch, const struct level_shape &shape)
{
    return batch->value_nbytes == 4 && shape.neven == shape.nodd &&
           shape.neven % SPLINE_WIDE == 0 &&
           shape.fine_at % (2 * SPLINE_WIDE) == 0 &&
           shape.fine_nvalues * (uint64_t)batch->nchunks >= WIDE_NVALUES;
}

/* Whether a level is marched through, in chunks whose plan allows it. For fewer
 * values the steps are faster. */
static bool
is_marched(const struct cuda_batch *batch, const struct level_shape &shape)
{
    return shape_marches(batch->h_layout, shape.l) &&
           shape.fine_nvalues * (uint64_t)batch->nchunks >= WIDE_NVALUES;
}

/* ---- all levels ---- */

/* Whether a level is made by tiles. Tiles compute more points than steps, but
 * wait less often. TILE_MIN_NEVEN: in shorter rows most lanes of a warp would
 * have no points. TILE_MAX_NVALUES: with more values steps keep the device
 * busy. */
#define TILE_MIN_NEVEN 8
#define TILE_MAX_NVALUES (2 * CUDA_BUSY_NTHREADS)
static bool
is_tiled(const struct cuda_batch *batch, const struct level_shape &shape)
{
    return shape.rank > 1 && shape.rank <= TILE_NDIMS &&
           shape.neven >= TILE_MIN_NEVEN &&
           shape.fine_nvalues * (uint64_t)batch->nchunks <= TILE_MAX_NVALUES;
}

template <typename T, bool decode>
static cudaError_t
launch_tiles(const struct cuda_batch *batch, int l, cudaStream_t stream)
{
    struct tile_work work;

    unsigned ntiles = make_tile_work(batch->h_layout, l, &work);
    return launch_shared(batch, stream, spline_tile<T, decode>, ntiles,
                         TILE_NTHREADS, sizeof(tile_shared<T>), work);
}

/* Returns the number of coarse levels; -1: the chunk is too long for extents of
 * 32 bits. */
static int
ncoarse_of(const struct cuda_batch *batch)
{
    const struct terp_layout *layout = batch->h_layout;
    struct level_shape shape;
    int n = 0;

    for (int d = 0; d < TERP_NDIMS; d++)
        if (layout->dims[d] > UINT32_MAX)
            return -1;
    for (; n < layout->nlevels; n++) {
        make_shape(layout, layout->nlevels - n, 1, SPLINE_LEFT, SPLINE_RIGHT,
                   &shape);
        if (shape.fine_nvalues > COARSE_NVALUES)
            break;
    }
    return n;
}

template <typename T, bool decode>
static cudaError_t
launch_coarse(const struct cuda_batch *batch, int ncoarse, cudaStream_t stream)
{
    struct coarse_work work;

    make_coarse_work(batch->h_layout, ncoarse, &work);
    return launch_shared(batch, stream, spline_coarse<T, decode>, 1,
                         COARSE_NTHREADS, sizeof(coarse_shared<T>), work);
}

/* Launches the kernels that march through level l, which is 1. */
template <typename T, bool decode>
static cudaError_t
launch_marches(const struct cuda_batch *batch, int l, cudaStream_t stream)
{
    const bool is_even = shape_is_even(batch->h_layout, l);
    const unsigned tiled = CUDA_MARCH_CUBIC | CUDA_MARCH_NATURAL |
                           CUDA_MARCH_LONG | CUDA_MARCH_BLENDED;
    cudaError_t err = cudaSuccess;

    if (may_march(batch, is_even ? (unsigned)CUDA_UNEVEN : tiled))
        err = launch_march_ragged<T, decode>(batch, l, stream);
    if (err == cudaSuccess && may_march(batch, CUDA_MARCH_LINEAR))
        err = launch_march_linear<T, decode>(batch, l, stream);
    if (err == cudaSuccess && is_even && may_march(batch, tiled))
        err = has_small_planes(batch, l)
                  ? launch_march_small<decode>(batch, l, stream)
                  : launch_march<T, decode>(batch, l, stream);
    if (err == cudaSuccess && may_march(batch, CUDA_MARCH_BLENDED))
        err = launch_march_last<T, decode>(batch, l, stream);
    return err;
}

/* Whether chunks may have a long spline, or else another one, at level l, for
 * which no other kernels march. */
static bool
may_have_long(const struct cuda_batch *batch, int l, bool marches)
{
    return marches ? may_march(batch, CUDA_LONG_STEPS)
                   : cuda_plans_may_have(batch->plans, batch->plans.long_levels,
                                         cuda_level_bit(l));
}

static bool
may_have_other(const struct cuda_batch *batch, int l, bool marches)
{
    return marches
               ? may_march(batch, CUDA_STEPS)
               : cuda_plans_may_have(batch->plans, batch->plans.other_levels,
                                     cuda_level_bit(l));
}

/* Launches all levels that cuda_spline_begin has not made. A chunk that has
 * only anchors is decoded here, because its escapes must be in place. */
template <typename T, bool decode>
static cudaError_t
launch_levels(const struct cuda_batch *batch, cudaStream_t stream)
{
    const struct terp_layout *layout = batch->h_layout;
    const int ncoarse = ncoarse_of(batch);
    struct level_shape shape;
    cudaError_t err = cudaSuccess;

    if (decode && ncoarse <= 0)
        err = launch_coarse<T, decode>(batch, ncoarse, stream);
    if (ncoarse < 0)
        return err;
    for (int l = layout->nlevels - ncoarse; l >= 1 && err == cudaSuccess; l--) {
        make_shape(layout, l, 1, SPLINE_LEFT, SPLINE_RIGHT, &shape);
        if (is_tiled(batch, shape)) {
            if (may_have_other(batch, l, false))
                err = launch_tiles<T, decode>(batch, l, stream);
        } else {
            const bool marches = is_marched(batch, shape);
            const bool wide = is_wide(batch, shape);
            if (wide)
                make_shape(layout, l, SPLINE_WIDE, SPLINE_LEFT, SPLINE_RIGHT,
                           &shape);
            shape.marches = marches;
            if (marches)
                err = launch_marches<T, decode>(batch, l, stream);
            if (err == cudaSuccess && may_have_other(batch, l, marches))
                err = wide ? launch_level<float, decode, SPLINE_WIDE>(
                                 batch, shape, stream)
                           : launch_level<T, decode, 1>(batch, shape, stream);
        }
        if (err == cudaSuccess && may_have_long(batch, l, shape.marches))
            err = launch_long<T, decode>(batch, l, shape.marches, stream);
    }
    return err;
}

cudaError_t
cuda_spline_quantize(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->value_nbytes == 4
               ? launch_levels<float, false>(batch, stream)
               : launch_levels<double, false>(batch, stream);
}

bool
cuda_spline_begins(const struct cuda_batch *batch)
{
    return ncoarse_of(batch) > 0;
}

template <typename T>
static cudaError_t
begin_levels(const struct cuda_batch *batch, cudaStream_t stream)
{
    const int ncoarse = ncoarse_of(batch);

    if (!batch->decodes)
        return launch_coarse<T, false>(batch, ncoarse, stream);
    return ncoarse > 0 ? launch_coarse<T, true>(batch, ncoarse, stream)
                       : cudaSuccess;
}

cudaError_t
cuda_spline_begin(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->value_nbytes == 4 ? begin_levels<float>(batch, stream)
                                    : begin_levels<double>(batch, stream);
}

cudaError_t
cuda_spline_reconstruct(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->value_nbytes == 4
               ? launch_levels<float, true>(batch, stream)
               : launch_levels<double, true>(batch, stream);
}
