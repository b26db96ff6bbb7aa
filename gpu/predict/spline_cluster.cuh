/* Levels of few small chunks by thread block clusters, whose blocks wait for
 * each other where gpu/predict/spline.cu would launch the next step: a launch
 * takes longer than the work of such a step. The steps are the same.
 *
 * What a cluster can do is one launch for all levels that are small enough. Of
 * a larger one the rows with an even coordinate along the slowest dimension lie
 * in planes that need nothing of each other, and so do those with an odd one
 * once the even planes are made: two launches, whose clusters have some planes
 * each. Either goes for plans of all kinds. */
#pragma once

#include "gpu/predict/spline_long.cuh"
#include "gpu/predict/spline_steps.cuh"

/* Chunks of a batch; tests leave other launches something to do. */
#ifndef CUDA_CLUSTER_MAX_NCHUNKS
#define CUDA_CLUSTER_MAX_NCHUNKS 4
#endif
/* Values of a chunk; of the fine lattice of a level that one cluster makes. */
#define CLUSTER_MAX_NVALUES CUDA_BUSY_NTHREADS
#ifndef CUDA_CLUSTER_ALONE_NVALUES
#define CUDA_CLUSTER_ALONE_NVALUES (1u << 16)
#endif

/* Threads of a block where one cluster does all, and for how many its
 * multiprocessor is to have registers: the blocks of a cluster come all at
 * once, which no small block of other kernels need keep them from. */
#define CLUSTER_NTHREADS 512
template <typename T>
constexpr unsigned CLUSTER_BOUND = sizeof(T) == 4 ? 640 : CLUSTER_NTHREADS;
#define CLUSTER_PLANE_NTHREADS 256
/* Blocks of it; for more than 8 a kernel is to ask. */
#ifndef CUDA_CLUSTER_MAX_NBLOCKS
#define CUDA_CLUSTER_MAX_NBLOCKS 16
#endif
#define CLUSTER_PORTABLE_NBLOCKS 8
#define CLUSTER_MAX_NLEVELS 8
#define CLUSTER_MAX_NRUNS 128 /* that a block finds at once */

/* Blocks of all clusters of all chunks, about: two a multiprocessor of a large
 * device. */
#define CLUSTER_PLANES_NBLOCKS 264u

static_assert(SPLINE_MAX_SPAN <= CLUSTER_PLANE_NTHREADS,
              "A block has a row, or a segment of one.");

/* Types of rows: odd >> 1. */
#define NROW_TYPES (1 << NUPPER)

struct cluster_work {
    int finest, nlevels; /* from level finest + nlevels - 1 down to that one */
    /* Of a level: masks of types that are made at once. Blocks of a cluster
     * wait between two of these. */
    int nrounds;
    uint8_t types[TERP_NDIMS];
    unsigned nblocks, nclusters; /* of a cluster; of a chunk */
    int across; /* the dimension that planes lie across; 0: runs are apart */
};

/* Some of a type's runs. */
struct run_range {
    unsigned first, n;
};

struct cluster_level {
    struct level_shape shape;
    struct row_type type[NROW_TYPES];
    struct run_range runs[NROW_TYPES]; /* that are the cluster's */
};

template <typename T> struct cluster_shared {
    struct run<T> runs[CLUSTER_MAX_NRUNS];
    T even[2 * CLUSTER_NTHREADS];
    struct cuda_chunk chunk;                         /* a copy of the state */
    struct cluster_level level[CLUSTER_MAX_NLEVELS]; /* the coarsest first */
};

/* ---- what a cluster and its blocks do ---- */

static __device__ __forceinline__ struct run_range
range_of(unsigned n, unsigned part, unsigned nparts)
{
    const unsigned first = n * part / nparts;

    return {first, n * (part + 1) / nparts - first};
}

/* What each level's rows are, by a thread for each type of each level. */
template <typename T>
static __device__ __forceinline__ void
find_rows(const struct terp_layout &layout, const struct cluster_work &work,
          struct cluster_shared<T> *shared)
{
    const int i = (int)(threadIdx.x / NROW_TYPES);
    const unsigned t = threadIdx.x % NROW_TYPES;
    struct cluster_level &level = shared->level[i < work.nlevels ? i : 0];
    const int l = work.finest + work.nlevels - 1 - i;

    static_assert(CLUSTER_MAX_NLEVELS * NROW_TYPES <= CLUSTER_PLANE_NTHREADS,
                  "A thread finds a type's rows.");
    if (i < work.nlevels && t == 0) {
        const bool is_long = level_is_long(shared->chunk, l);
        make_shape(&layout, l, 1, is_long ? LONG_LEFT : SPLINE_LEFT,
                   is_long ? LONG_RIGHT : SPLINE_RIGHT, &level.shape);
    }
    __syncthreads();
    if (i < work.nlevels) {
        struct row_type &type = level.type[t];
        make_type(&layout, &level.shape, 2 * t, &type);
        const unsigned nruns = (unsigned)type.nruns;
        const unsigned nplanes =
            work.across == 0
                ? nruns
                : (unsigned)layout.nbricks * type.extent[work.across];
        const unsigned nruns_per_plane = nplanes > 0 ? nruns / nplanes : 0;
        const struct run_range planes =
            range_of(nplanes, blockIdx.x / work.nblocks, work.nclusters);
        level.runs[t] = {planes.first * nruns_per_plane,
                         planes.n * nruns_per_plane};
    }
    __syncthreads();
}

/* What a block waits for once a round, before it looks at what others have
 * made: other kernels at first, then the other blocks of its cluster. All its
 * threads come by, each time or never. */
struct cluster_wait {
    bool is_due, is_first;

    __device__ __forceinline__ void operator()()
    {
        if (is_due && is_first)
            wait_for_kernels();
        else if (is_due)
            wait_for_cluster();
        is_due = false;
    }
};

/* A block's runs of a type, so many at a time. */
template <typename T, int nodd_dims, bool decode>
static __device__ __forceinline__ void
make_runs(const struct level_shape &shape, const struct row_type &type,
          const struct level_view<T> &view, struct run_range range,
          struct cluster_shared<T> *shared, struct cluster_wait *wait)
{
    const struct terp_level_plan &plan = shared->chunk.model.plan[shape.l];
    const bool is_long = level_is_long(shared->chunk, shape.l);
    const bool vector = rows_are_whole<T, decode, 1>(shape, view);
    const struct place place = {
        min_u32(blockDim.x / shape.span, CLUSTER_MAX_NRUNS),
        threadIdx.x / shape.span, threadIdx.x % shape.span};
    const unsigned nat_most =
        CLUSTER_MAX_NRUNS - CLUSTER_MAX_NRUNS % place.nat_once;

#pragma unroll 1
    for (unsigned i = 0; i < range.n; i += nat_most) {
        const uint64_t first = range.first + i;
        const unsigned n = min_u32(nat_most, range.n - i);
        __syncthreads();
        if (is_long)
            make_long_group<T, nodd_dims, decode>(shape, type, plan, view,
                                                  place, first, n, shared->runs,
                                                  shared->even, *wait);
        else
            make_group<T, nodd_dims, decode, 1>(shape, type, plan, view, place,
                                                first, n, vector, shared->runs,
                                                shared->even, *wait);
    }
}

/* What is made at once of a level. The cluster's blocks have equal parts of the
 * runs of all its types together. */
template <typename T, bool decode>
static __device__ __forceinline__ void
make_round(const struct cluster_work &work, const struct cluster_level &level,
           unsigned types, const struct level_view<T> &view,
           struct cluster_shared<T> *shared, struct cluster_wait *wait)
{
    unsigned nruns = 0, end = 0;

    for (unsigned t = 0; t < NROW_TYPES; t++)
        nruns += types >> t & 1 ? level.runs[t].n : 0;
    const struct run_range own =
        range_of(nruns, blockIdx.x % work.nblocks, work.nblocks);
#pragma unroll 1
    for (unsigned left = types; left != 0; left &= left - 1) {
        const unsigned t = (unsigned)__ffs((int)left) - 1, begin = end;
        end += level.runs[t].n;
        const unsigned first = max_u32(own.first, begin);
        const unsigned stop = min_u32(own.first + own.n, end);
        if (first >= stop)
            continue;
        const struct run_range range = {level.runs[t].first + first - begin,
                                        stop - first};
        switch (__popc(t)) {
        case 0:
            make_runs<T, 0, decode>(level.shape, level.type[t], view, range,
                                    shared, wait);
            break;
        case 1:
            make_runs<T, 1, decode>(level.shape, level.type[t], view, range,
                                    shared, wait);
            break;
        case 2:
            make_runs<T, 2, decode>(level.shape, level.type[t], view, range,
                                    shared, wait);
            break;
        default:
            make_runs<T, 3, decode>(level.shape, level.type[t], view, range,
                                    shared, wait);
        }
    }
}

/* Grid: (work.nclusters clusters of work.nblocks blocks, chunks). Shared:
 * struct cluster_shared, and nothing besides (see h5tests/emulator). What it
 * does before it waits for kernels is as in spline_tile; what it does of a
 * round before it waits for its cluster needs nothing that a round makes. */
template <typename T, bool decode>
static __global__ void
__launch_bounds__(CLUSTER_BOUND<T>, 1)
    spline_cluster(const __grid_constant__ struct cuda_batch batch,
                   const __grid_constant__ struct cluster_work work)
{
    let_next_kernel_come();
    struct cluster_shared<T> *shared =
        dynamic_shared<struct cluster_shared<T>>();
    const int nrounds = work.nlevels * work.nrounds;
    struct cluster_wait wait = {true, true};

    copy_state_early(batch, threadIdx.x, blockDim.x, &shared->chunk);
    if (!chunk_applies(shared->chunk)) {
        wait_for_kernels();
        return;
    }
    find_rows(*batch.d_layout, work, shared);
    struct level_view<T> view = view_of<T>(batch, shared->chunk);
#pragma unroll 1
    for (int i = 0; i < nrounds; i++) {
        const struct cluster_level &level = shared->level[i / work.nrounds];
        view_level<T, decode>(shared->chunk, level.shape, &view);
        make_round<T, decode>(work, level, work.types[i % work.nrounds], view,
                              shared, &wait);
        wait(); /* a block that had nothing to do */
        if (i + 1 < nrounds)
            arrive_at_cluster();
        wait = {true, false};
    }
}

/* ---- launches ---- */

/* Whether they are for this batch, of whose chunks so many levels are coarse;
 * -1: chunks are too long. */
static bool
is_clustered(const struct cuda_batch *batch, int ncoarse)
{
    const struct terp_layout *layout = batch->h_layout;

    return max_cluster_nblocks > 0 && ncoarse >= 0 &&
           batch->nchunks <= CUDA_CLUSTER_MAX_NCHUNKS &&
           layout->nvalues <= CLUSTER_MAX_NVALUES &&
           layout->nlevels - ncoarse <= CLUSTER_MAX_NLEVELS;
}

/* Adds a type of level l, if it has rows, to what is made at once. Returns
 * pairs of an even and an odd point that it has. */
static uint64_t
add_type(const struct terp_layout *layout, int l, unsigned t, int round,
         struct cluster_work *work)
{
    const struct terp_level *level = &layout->level[l];
    uint64_t npairs = layout->nbricks * level->neven[0];

    for (int d = 1; d < TERP_NDIMS; d++)
        npairs *= terp_class_extent(level, 2 * t, d);
    if (npairs > 0) {
        work->types[round] |= (uint8_t)(1u << t);
        work->nrounds = round + 1 > work->nrounds ? round + 1 : work->nrounds;
    }
    return npairs;
}

static unsigned
power_of_two_from(uint64_t n)
{
    unsigned power = 1;

    while (power < n)
        power *= 2;
    return power;
}

template <typename T, bool decode>
static cudaError_t
launch_cluster(const struct cuda_batch *batch, const struct cluster_work &work,
               unsigned nthreads, cudaStream_t stream)
{
    return launch_clusters(
        spline_cluster<T, decode>, work.nblocks,
        dim3(work.nclusters * work.nblocks, (unsigned)batch->nchunks),
        dim3(nthreads), sizeof(struct cluster_shared<T>), stream, *batch, work);
}

/* Levels l, l - 1, ... of a chunk by one cluster. */
template <typename T, bool decode>
static cudaError_t
launch_alone(const struct cuda_batch *batch, int l, int nlevels,
             cudaStream_t stream)
{
    struct cluster_work work = {};
    uint64_t npairs[TERP_NDIMS] = {}, most = 0;

    work.finest = l - nlevels + 1;
    work.nlevels = nlevels;
    work.nclusters = 1;
    for (int coarser = 0; coarser < nlevels; coarser++)
        for (unsigned t = 0; t < NROW_TYPES; t++) {
            const int round = __builtin_popcount(t);
            const uint64_t n = add_type(batch->h_layout, work.finest + coarser,
                                        t, round, &work);
            if (coarser == 0)
                npairs[round] += n;
        }
    for (int round = 0; round < work.nrounds; round++)
        most = npairs[round] > most ? npairs[round] : most;
    work.nblocks = (unsigned)min_u64(
        max_cluster_nblocks, power_of_two_from(div_up(most, CLUSTER_NTHREADS)));
    return launch_cluster<T, decode>(batch, work, CLUSTER_NTHREADS, stream);
}

/* The planes of level l with even or odd coordinates. */
template <typename T, bool decode>
static cudaError_t
launch_planes(const struct cuda_batch *batch, int l, bool odd,
              cudaStream_t stream)
{
    const struct terp_layout *layout = batch->h_layout;
    const struct terp_level *level = &layout->level[l];
    struct cluster_work work = {};
    uint64_t npairs[TERP_NDIMS] = {}, most = 0;
    int across = TERP_NDIMS - 1;

    while (across > 0 && level->nodd[across] == 0)
        across--;
    work.finest = l;
    work.nlevels = 1;
    for (unsigned t = 0; t < NROW_TYPES; t++) {
        const int round = __builtin_popcount(t) - odd;
        if (((2 * t >> across & 1) != 0 && across > 0) == odd)
            npairs[round] += add_type(layout, l, t, round, &work);
    }
    if (work.nrounds == 0)
        return cudaSuccess;
    for (int round = 0; round < work.nrounds; round++)
        most = npairs[round] > most ? npairs[round] : most;
    uint64_t nblocks = cuda_nblocks(batch, div_up(most, CLUSTER_PLANE_NTHREADS),
                                    CLUSTER_PLANES_NBLOCKS);
    work.nblocks = 1;
    if (work.nrounds > 1) {
        const uint64_t nplanes = layout->nbricks * (odd ? level->nodd[across]
                                                        : level->neven[across]);
        work.across = across;
        work.nblocks =
            (unsigned)min_u64(CLUSTER_PORTABLE_NBLOCKS,
                              power_of_two_from(div_up(nblocks, nplanes)));
        nblocks = min_u64(nplanes, div_up(nblocks, work.nblocks));
    }
    work.nclusters = (unsigned)nblocks;
    return launch_cluster<T, decode>(batch, work, CLUSTER_PLANE_NTHREADS,
                                     stream);
}

/* Level l and all finer ones. */
template <typename T, bool decode>
static cudaError_t
launch_clustered(const struct cuda_batch *batch, int l, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;

    while (l >= 1 && error == cudaSuccess) {
        int n = 0;
        for (; n < l; n++) {
            struct level_shape shape;
            make_shape(batch->h_layout, l - n, 1, SPLINE_LEFT, SPLINE_RIGHT,
                       &shape);
            if (shape.fine_nvalues > CUDA_CLUSTER_ALONE_NVALUES)
                break;
        }
        if (n > 0) {
            error = launch_alone<T, decode>(batch, l, n, stream);
            l -= n;
            continue;
        }
        error = launch_planes<T, decode>(batch, l, false, stream);
        if (error == cudaSuccess)
            error = launch_planes<T, decode>(batch, l, true, stream);
        l--;
    }
    return error;
}

/* Whether the device can have clusters of so many blocks of a kernel. */
template <typename T, bool decode>
static bool
can_cluster(unsigned nblocks)
{
    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t config = {};
    int nclusters = 0;

    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val = cluster_dimension(nblocks);
    config.gridDim = dim3(nblocks);
    config.blockDim = dim3(CLUSTER_NTHREADS);
    config.dynamicSmemBytes = sizeof(struct cluster_shared<T>);
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaFuncSetAttribute(spline_cluster<T, decode>,
                                cudaFuncAttributeNonPortableClusterSizeAllowed,
                                1) == cudaSuccess &&
           cudaOccupancyMaxActiveClusters(&nclusters, spline_cluster<T, decode>,
                                          &config) == cudaSuccess &&
           nclusters > 0;
}
