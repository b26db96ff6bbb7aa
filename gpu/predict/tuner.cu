/* Chooses the predictor of a chunk, by estimates on samples of the original
 * values. Samples, costs and ties are the same as in cpu/predict/spline_tuner.c
 * and lorenzo_tuner.c.
 *
 * Samples are predicted from original values, so all estimates are independent.
 * One launch estimates all classes of all levels under all splines, and all
 * sets of dimensions of Lorenzo. Blocks count codes in shared memory and turn
 * counts into costs under each entry of the dictionary. Costs are sums: if
 * several blocks share a class, the last of them adds up the costs of all. A
 * second launch chooses. */
#include "gpu/predict/tuner_lorenzo.cuh"
#include "gpu/predict/tuner_plan.cuh"
#include "gpu/predict/tuner_spline.cuh"

/* SPLINE_PART_NVALUES, LORENZO_PART_NVALUES: the fewest samples of a block.
 * MAX_NPARTS: the most blocks of a class; each block leaves records that the
 * last one must add up. */
#define SPLINE_PART_NVALUES 2048
#define LORENZO_PART_NVALUES 1024
#define MAX_NPARTS 8

/* In batches one block handles all classes of a level if each class has at most
 * this many values. Such a block is slow, but there are fewer blocks. */
#define SMALL_NVALUES TUNE_STORED_STRIDE

/* Lorenzo takes twice as many samples as splines. The costs of its blocks are
 * added in 32 bits. */
_Static_assert((uint64_t)4 * TERP_MAX_NSAMPLES *
                       (24 << TERP_COST_FRACTION_NBITS) <
                   (uint64_t)1 << 32,
               "The costs of all samples fit 32 bits.");
_Static_assert((uint64_t)4 * TERP_MAX_NSAMPLES * TERP_MAX_RUN_COST < (uint64_t)1
                                                                         << 32,
               "The costs of all samples' runs fit 32 bits.");

/* ---- dimensions ---- */

/* Returns the dimensions whose extent is above n. */
static unsigned
dims_above(uint64_t n, const uint64_t extent[TERP_NDIMS])
{
    unsigned dims = 0;
    for (int d = 0; d < TERP_NDIMS; d++)
        dims |= (unsigned)(extent[d] > n) << d;
    return dims;
}

/* ---- classes that several blocks share ---- */

/* Stores the records of a block's histograms one after another. */
static __device__ void
write_records(uint32_t *records, const uint32_t *s_histograms, unsigned n)
{
    for (unsigned i = threadIdx.x; i < n * TUNE_COSTS_NWORDS; i += blockDim.x)
        records[i] =
            s_histograms[i / TUNE_COSTS_NWORDS * TUNE_HISTOGRAM_NWORDS +
                         TUNE_COSTS_AT + i % TUNE_COSTS_NWORDS];
}

/* Adds up the records of all blocks of a class. Returns false in all but the
 * last of nparts blocks. The blocks count themselves in a word that later
 * stages expect to be zero; the last block clears it. */
static __device__ bool
sum_parts(const struct cuda_batch &batch, unsigned class_at, uint32_t *records,
          unsigned part, unsigned nparts, uint32_t *s_histograms, unsigned n)
{
    if (nparts == 1)
        return true;
    unsigned *progress =
        region<unsigned>(batch, blockIdx.x, batch.at.frequency) + class_at;
    write_records(records + part * n * TUNE_COSTS_NWORDS, s_histograms, n);
    if (!is_last_block(progress, nparts))
        return false;
    if (threadIdx.x == 0)
        *progress = 0;
    add_records(records, n, nparts, s_histograms + TUNE_COSTS_AT,
                TUNE_HISTOGRAM_NWORDS);
    __syncthreads();
    return true;
}
_Static_assert(2 * (TERP_MAX_LEVELS + 1) * TERP_NCLASSES * sizeof(unsigned) <=
                   TERP_NSYMBOLS * sizeof(uint64_t),
               "The region has two words for each class of each level.");

/* ---- the task of a block ---- */

struct tune_task {
    int l;           /* level; 0: Lorenzo */
    unsigned number; /* of the class; 0: all classes of a small level */
    unsigned part, nparts;
    bool blends;          /* it only blends */
    unsigned first_cost;  /* index of its first cost in the level */
    unsigned nhistograms; /* 0: a small level, which stores rows */
    /* histograms of blending that follow, if one block does both */
    unsigned njoint;
    unsigned first_joint; /* index of the first cost of these */
};

/* The samples of a task. */
union tune_samples {
    struct sampled_stretches stretches;
    struct {
        struct sampled_class cls;
        struct sampled_run runs[TUNE_MAX_NRUNS];
    } of_class;
    struct sampled_class classes[TERP_NCLASSES];
};

/* Returns the number of blocks that only blend a class. There are half as many
 * as blocks that average, since they count less. */
static __host__ __device__ __forceinline__ unsigned
nblending_of(const struct tune_grid &grid, int l, unsigned number)
{
    return grid.blends[l] && !grid.is_joint &&
                   nblends_of(count_bits(number)) > 0
               ? (grid.nparts[l] + 1) / 2
               : 0;
}

static __device__ struct tune_task
find_task(const struct tune_grid &grid)
{
    struct tune_task task = {};

    task.part = blockIdx.y;
    task.nparts = grid.nlorenzo;

    if (blockIdx.y < grid.nlorenzo) {
        task.nhistograms = 1u << count_bits(grid.dims_in_use);
        return task;
    }
    task.l = 1;
    while (task.l < grid.nlevels && blockIdx.y >= grid.first_block[task.l + 1])
        task.l++;
    task.nparts = grid.nparts[task.l];
    if (task.nparts == 0)
        return task;
    unsigned index = blockIdx.y - grid.first_block[task.l];
    unsigned nblending;
    const unsigned nactive = count_bits(grid.active[task.l]);
    task.number = 1u << nactive;
    for (;;) {
        task.number--;
        nblending = nblending_of(grid, task.l, task.number);
        if (index < task.nparts + nblending)
            break;
        index -= task.nparts + nblending;
    }
    const unsigned nodd = count_bits(task.number);
    const unsigned first_blend =
        ncosts_of(nactive) + blends_before(task.number);
    task.blends = index >= task.nparts;
    if (task.blends) {
        task.part = index - task.nparts;
        task.nparts = nblending;
        task.nhistograms = nblends_of(nodd);
        task.first_cost = first_blend;
        return task;
    }
    task.part = index;
    task.nhistograms = nhistograms_of(nodd);
    task.first_cost = histograms_before(task.number);
    if (grid.is_joint && grid.blends[task.l]) {
        task.njoint = nblends_of(nodd);
        task.first_joint = first_blend;
    }
    return task;
}

/* Finds the class of a task, or Lorenzo's stretches, or all classes of a small
 * level. Threads of the last warp do that. The function reads only the layout,
 * which does not change between batches of a shape, so it need not wait for
 * previous kernels. */
static __device__ __forceinline__ void
find_classes(const struct cuda_batch &batch, const struct tune_grid &grid,
             const struct tune_task &task, union tune_samples *s_samples)
{
    const struct terp_layout *layout = batch.d_layout;
    const unsigned active = grid.active[task.l];
    const unsigned i = blockDim.x - 1 - threadIdx.x;

    if (task.l == 0) {
        if (i == 0)
            find_stretches(layout, task.part, task.nparts,
                           &s_samples->stretches);
    } else if (task.number == 0) {
        if (i > 0 && i < 1u << count_bits(active))
            find_class(layout, task.l, subset_at(i, active), 0, 1,
                       &s_samples->classes[i]);
    } else if (i == 0) {
        find_class(layout, task.l, subset_at(task.number, active), task.part,
                   task.nparts, &s_samples->of_class.cls);
    }
}

/* ---- kernel ---- */

/* Stores the records of one block of Lorenzo. */
template <typename T>
static __device__ void
tune_lorenzo(const struct cuda_batch &batch, const struct tune_grid &grid,
             const struct tune_task &task,
             const struct sampled_stretches &s_stretches,
             const source<T> &source, const constants<T> &k,
             const struct cuda_chunk &s_chunk, uint32_t *s_histograms,
             struct findings *s_found)
{
    const unsigned n = task.nhistograms;

    if (s_chunk.model.exact.significand > 0)
        sample_lorenzo_exactly<T>(s_stretches, s_chunk, s_histograms, s_found);
    else
        sample_lorenzo(s_stretches, source, k, wide_codes_of(s_chunk),
                       s_histograms, s_found);
    cost_histograms(batch.tables.d_cost, TERP_MAX_CODE, s_histograms, n,
                    s_found);
    write_records(region<uint32_t>(batch, blockIdx.x, batch.at.staging) +
                      (grid.lorenzo_record + task.part * n) * TUNE_COSTS_NWORDS,
                  s_histograms, n);
}

/* Prices a class. The last of its blocks stores the costs. */
template <typename T>
static __device__ void
tune_class(const struct cuda_batch &batch, const struct tune_grid &grid,
           const struct tune_task &task, const struct sampled_class &s_class,
           struct sampled_run s_runs[TUNE_MAX_NRUNS], const source<T> &source,
           const constants<T> &k, const struct terp_beyond &beyond,
           uint32_t *s_histograms, struct findings *s_found)
{
    const unsigned n = task.nhistograms + task.njoint;
    uint32_t *records =
        region<uint32_t>(batch, blockIdx.x, batch.at.staging) +
        (grid.first_record[task.l] + grid.nparts[task.l] * task.first_cost) *
            TUNE_COSTS_NWORDS;

#pragma unroll 1
    for (unsigned joint = 0; joint <= (task.njoint > 0); joint++)
        sample_class(
            s_class, s_runs, source, k, task.blends || joint > 0, joint > 0,
            s_histograms + joint * task.nhistograms * TUNE_HISTOGRAM_NWORDS,
            s_found);
    cost_histograms(batch.tables.d_cost, (unsigned)k.max_code, s_histograms, n,
                    s_found);
    const unsigned class_at =
        (2 * (unsigned)task.l + task.blends) * TERP_NCLASSES + s_class.odd;
    if (!sum_parts(batch, class_at, records, task.part, task.nparts,
                   s_histograms, n))
        return;
    uint64_t *costs = costs_of_level(batch, task.l);
    for (unsigned h = threadIdx.x / 32; h < n; h += blockDim.x / 32) {
        const uint32_t *s_costs =
            s_histograms + h * TUNE_HISTOGRAM_NWORDS + TUNE_COSTS_AT;
        const int blend = task.blends             ? (int)h
                          : h >= task.nhistograms ? (int)(h - task.nhistograms)
                                                  : -1;
        const struct terp_class_samples samples = {
            npredicting_of(task.number, h),
            blend >= 0,
            blend == 1 && count_bits(task.number) == 2,
            s_costs[RECORD_NSAMPLED],
            s_costs[RECORD_NUNKNOWN],
            s_costs[RECORD_NSPECIAL],
            cost_of_codes(s_costs,
                          s_costs[RECORD_NSAMPLED] - s_costs[RECORD_NUNKNOWN] -
                              s_costs[RECORD_NSPECIAL],
                          beyond)};
        if (threadIdx.x % 32 > 0)
            continue;
        costs[h < task.nhistograms ? task.first_cost + h
                                   : task.first_joint + h - task.nhistograms] =
            terp_cost_of_class(&samples, s_class.nvalues);
    }
}

/* Returns how many of n values have the row at `row_at`. A warp calls it. */
static __device__ __forceinline__ unsigned
count_rows(const uint16_t *s_rows, unsigned n, unsigned row_at)
{
    const unsigned lane = threadIdx.x % 32;
    unsigned found = 0;

    for (unsigned i = 0; i < TUNE_STORED_STRIDE; i += 32)
        found += (unsigned)__popc(__ballot_sync(
            FULL_WARP_MASK, i + lane < n && s_rows[i + lane] == row_at));
    return found;
}

/* Returns the cost of a class of n values from the rows of its values. A warp
 * calls it. */
static __device__ __forceinline__ uint64_t
cost_of_rows(const uint16_t *cost, const uint16_t *s_rows, unsigned n,
             unsigned npredicting, const struct terp_beyond &beyond)
{
    const unsigned lane = threadIdx.x % 32;
    uint32_t sums[TUNE_NLANE_ENTRIES] = {0}, least = 0xFFFFFFFF;
    struct terp_class_samples samples = {npredicting,
                                         false,
                                         false,
                                         n,
                                         count_rows(s_rows, n, UNKNOWN_ROW_AT),
                                         count_rows(s_rows, n, SPECIAL_ROW_AT),
                                         0};

#pragma unroll 1
    for (unsigned first = 0; first < n; first += 8) {
        uint4 eight = *(const uint4 *)(s_rows + first);
        uint32_t pairs[4] = {eight.x, eight.y, eight.z, eight.w};
        uint32_t costs[8][TUNE_NLANE_ENTRIES];
#pragma unroll
        for (unsigned k = 0; k < 8; k++) {
            const unsigned row_at = pairs[k / 2] >> (16 * (k % 2)) & 0xFFFF;
            const bool counts = first + k < n && row_at <= ESCAPE_ROW_AT;
            const uint16_t *row = cost + row_at + lane;
#pragma unroll
            for (unsigned e = 0; e < TUNE_NLANE_ENTRIES; e++)
                costs[k][e] =
                    counts && 32 * e + lane < TERP_NENTRIES ? row[32 * e] : 0u;
        }
#pragma unroll
        for (unsigned k = 0; k < 8; k++)
#pragma unroll
            for (unsigned e = 0; e < TUNE_NLANE_ENTRIES; e++)
                sums[e] += costs[k][e];
    }
    for (unsigned e = 0; e < TUNE_NLANE_ENTRIES; e++)
        if (32 * e + lane < TERP_NENTRIES)
            least = min(least, sums[e]);
    samples.cost =
        terp_cost_of_codes(__reduce_min_sync(FULL_WARP_MASK, least),
                           n - samples.nunknown - samples.nspecial,
                           count_rows(s_rows, n, ESCAPE_ROW_AT), beyond);
    return terp_cost_of_class(&samples, n);
}

/* Prices all classes of a small level; all their values are samples. First the
 * threads store the row of each value in each histogram, then warps add up the
 * costs of the rows. */
template <typename T>
static __device__ void
tune_level(const struct cuda_batch &batch, const struct tune_grid &grid, int l,
           const struct sampled_class s_classes[TERP_NCLASSES],
           const source<T> &source, const constants<T> &k,
           const struct terp_beyond &beyond, uint16_t *s_rows)
{
    const unsigned active = grid.active[l];
    const unsigned nclasses = 1u << count_bits(active);

    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < (nclasses - 1) * SMALL_NVALUES;
         i += blockDim.x) {
        unsigned number = 1 + i / SMALL_NVALUES, point = i % SMALL_NVALUES;
        if (point < s_classes[number].nvalues)
            sample_point(s_classes[number], point, source, k,
                         s_rows +
                             histograms_before(number) * TUNE_STORED_STRIDE);
    }
    __syncthreads();

    uint64_t *costs = costs_of_level(batch, l);
    unsigned n = histograms_before(nclasses);
#pragma unroll 1
    for (unsigned h = threadIdx.x / 32; h < n; h += blockDim.x / 32) {
        unsigned number = 1, first = 0, end;
        while (h >= (end = first + nhistograms_of(count_bits(number)))) {
            first = end;
            number++;
        }
        uint64_t cost =
            cost_of_rows(batch.tables.d_cost, s_rows + h * TUNE_STORED_STRIDE,
                         (unsigned)s_classes[number].nvalues,
                         npredicting_of(number, h - first), beyond);
        if (threadIdx.x % 32 == 0)
            costs[h] = cost;
    }
}

/* Grid: x = chunks, y = tasks (struct tune_grid). Blocks of one task run at the
 * same time: the instruction cache of a multiprocessor could not hold all the
 * different tasks of a chunk. Block: TUNE_SINGLE_NTHREADS or
 * TUNE_BATCH_NTHREADS threads; a thread owns the samples that it takes. Dynamic
 * shared memory: the histograms of the class, or of Lorenzo, or the rows of a
 * small level. Barriers separate clearing, counting and pricing. Blocks do not
 * wait for each other: the last block of a class, according to the counter of
 * the class, adds up the records of all. The kernel triggers the next launch
 * only after the kernels before it have ended, see `choose`. */
template <typename T>
static __global__ void
__launch_bounds__(TUNE_SINGLE_NTHREADS<T>, 1)
    tune(const __grid_constant__ struct cuda_batch batch,
         const __grid_constant__ struct tune_grid grid)
{
    __shared__ union tune_samples s_samples;
    __shared__ struct findings s_found;
    __shared__ struct cuda_chunk s_chunk;
    uint32_t *s_histograms = dynamic_shared<uint32_t>();
    const struct tune_task task = find_task(grid);

    find_classes(batch, grid, task, &s_samples);
    clear_histograms(s_histograms, task.nhistograms + task.njoint, &s_found);
    __syncthreads();
    if (task.number > 0)
        find_runs(s_samples.of_class.cls, 0, s_samples.of_class.runs);
    wait_for_kernels();
    let_next_kernel_come();
    fetch_state(&batch.d_chunks[blockIdx.x], &s_chunk);
    wait_async();
    __syncthreads();
    if (!is_tuned(s_chunk))
        return;
    const source<T> source = source_of<T>(s_chunk);
    const int wide = s_chunk.model.wide;
    /* Lorenzo's quants are multiples of the step. Splines are sampled in
     * multiples of the unit above the low bits. */
    const constants<T> k =
        task.l == 0
            ? constants_of<T>(s_chunk.model.step, s_chunk.bound,
                              terp_max_code_of(s_chunk.model.wide))
            : constants_of<T>(s_chunk.model.step * (1 << terp_unit_nbits(wide)),
                              s_chunk.bound, terp_sampled_max_code(wide));
    if (task.l == 0)
        tune_lorenzo(batch, grid, task, s_samples.stretches, source, k, s_chunk,
                     s_histograms, &s_found);
    else if (task.number > 0)
        tune_class(batch, grid, task, s_samples.of_class.cls,
                   s_samples.of_class.runs, source, k, beyond_of(s_chunk),
                   s_histograms, &s_found);
    else
        tune_level(batch, grid, task.l, s_samples.classes, source, k,
                   beyond_of(s_chunk), (uint16_t *)s_histograms);
}

/* ---- launch ---- */

/* Returns the number of blocks for nsamples samples, at most `most`. */
static unsigned
nparts_of(uint64_t nsamples, uint64_t part_nvalues, unsigned most)
{
    return (unsigned)min_u64(div_up(nsamples, part_nvalues), most);
}

/* Whether a level has enough points for blending and for long splines. */
static bool
is_large(const struct terp_layout *layout, int l)
{
    const struct terp_level *level = &layout->level[l];
    uint64_t nvalues = layout->nbricks;

    for (int d = 0; d < TERP_NDIMS; d++)
        nvalues *= level->neven[d] + level->nodd[d];
    return nvalues > TERP_BLEND_MIN_NVALUES;
}
_Static_assert(SMALL_NVALUES *TERP_NCLASSES <= TERP_BLEND_MIN_NVALUES,
               "A small level has too few points to be blended.");

/* Returns the values of the level's largest class. */
static uint64_t
class_max_nvalues(const struct terp_layout *layout, int l)
{
    uint64_t nvalues = layout->nbricks;

    for (int d = 0; d < TERP_NDIMS; d++)
        nvalues *= layout->level[l].neven[d];
    return nvalues;
}

/* Fills the grid. Returns the number of records. */
static uint64_t
assign_blocks(const struct cuda_batch *batch, unsigned most_parts,
              struct tune_grid *grid)
{
    const struct terp_layout *layout = batch->h_layout;
    enum terp_predictor predictor = batch->encoding.params.predictor;
    unsigned nrecords = 0;

    *grid = tune_grid{};
    grid->dims_in_use = dims_above(1, layout->dims);
    /* Single chunks have few blocks, and the slowest decides, so they do not
     * blend as well. */
    grid->is_joint = most_parts == 1;
    if (predictor != TERP_PREDICTOR_SPLINE) {
        grid->nlorenzo = nparts_of(2 * terp_nsamples_of(layout->nvalues),
                                   LORENZO_PART_NVALUES,
                                   most_parts == 1 ? 2 : 4 * most_parts);
        grid->nhistograms = 1u << count_bits(grid->dims_in_use);
        grid->nblocks = grid->nlorenzo;
        nrecords = grid->nlorenzo * grid->nhistograms;
    }
    if (predictor != TERP_PREDICTOR_LORENZO)
        grid->nlevels = layout->nlevels;
    for (int l = 1; l <= grid->nlevels; l++) {
        uint64_t nvalues = class_max_nvalues(layout, l);
        grid->nparts[l] =
            batch->nchunks > 1 && nvalues <= SMALL_NVALUES
                ? 0
                : nparts_of(min_u64(nvalues, terp_nsamples_of(nvalues)),
                            SPLINE_PART_NVALUES, most_parts);
        grid->active[l] = (uint8_t)dims_above(0, layout->level[l].nodd);
        unsigned nodd = count_bits(grid->active[l]);
        grid->is_large[l] = is_large(layout, l);
        grid->blends[l] = nodd >= 2 && grid->is_large[l];
        if (l == 1)
            grid->nhistograms = max(
                grid->nhistograms,
                max(nhistograms_of(1), nhistograms_of(nodd)) +
                    (grid->is_joint && grid->blends[l] ? nblends_of(nodd) : 0));
        grid->first_block[l] = grid->nblocks;
        for (unsigned number = 1; number < 1u << nodd; number++)
            grid->nblocks += grid->nparts[l] + nblending_of(*grid, l, number);
        grid->nblocks += grid->nparts[l] == 0;
        if (grid->nparts[l] <= 1)
            continue;
        grid->first_record[l] = nrecords;
        nrecords +=
            (ncosts_of(nodd) + blends_before(1u << nodd)) * grid->nparts[l];
    }
    return nrecords;
}

/* Shared memory for the most histograms of a block: of a class of four odd
 * dimensions, or of Lorenzo. */
#define SHARED_MAX_NBYTES (TERP_NCLASSES * TUNE_HISTOGRAM_NWORDS * 4)

template <typename T>
static cudaError_t
launch_tune(const struct cuda_batch *batch, const struct tune_grid *grid,
            cudaStream_t stream)
{
    size_t shared_nbytes = grid->nhistograms * TUNE_HISTOGRAM_NWORDS * 4;
    unsigned nthreads =
        batch->nchunks == 1 ? TUNE_SINGLE_NTHREADS<T> : TUNE_BATCH_NTHREADS;
    dim3 blocks((unsigned)batch->nchunks, grid->nblocks);

    /* The same value in all calls, because calls may come from several threads.
     */
    cudaError_t error = cudaFuncSetAttribute(
        tune<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
        SHARED_MAX_NBYTES);
    return error != cudaSuccess ? error
                                : launch(tune<T>, blocks, nthreads,
                                         shared_nbytes, stream, *batch, *grid);
}

cudaError_t
cuda_tune(const struct cuda_batch *batch, cudaStream_t stream)
{
    const uint64_t staging_nbytes =
        batch->npartitions * CUDA_PARTITION_MAX_NBYTES;
    struct tune_grid grid;
    /* Many chunks keep the device busy with one block per class. */
    unsigned most_parts =
        batch->nchunks < MAX_NPARTS ? MAX_NPARTS / (unsigned)batch->nchunks : 1;
    cudaError_t error = cudaSuccess;

    while (assign_blocks(batch, most_parts, &grid) * TUNE_COSTS_NWORDS * 4 >
               staging_nbytes &&
           most_parts > 1)
        most_parts /= 2;
    if (grid.nblocks > 0)
        error = batch->value_nbytes == 4
                    ? launch_tune<float>(batch, &grid, stream)
                    : launch_tune<double>(batch, &grid, stream);
    return error == cudaSuccess
               ? launch(choose, dim3((unsigned)batch->nchunks),
                        dim3(CHOICE_NTHREADS), 0, stream, *batch, grid)
               : error;
}
