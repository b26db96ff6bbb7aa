/* Floor 3: what to predict with, estimated on samples of the original values.
 * The same samples, costs and ties as in cpu_tuner.c.
 *
 * Samples are predicted from original values, so nothing waits for anything:
 * one launch estimates all classes of all levels under all splines, and the
 * dimensions of lorenzo. Blocks count codes in shared memory and turn counts
 * into costs under each entry of the dictionary, which are sums: where blocks
 * share a class, the one that ends last adds theirs up. The last of the chunk
 * chooses. */
#include "cuda_tuner_lorenzo.cuh"
#include "cuda_tuner_plan.cuh"
#include "cuda_tuner_spline.cuh"

/* A block takes this many samples or more; blocks that share a class leave
 * records to add up, so there is a limit to them. */
#define SPLINE_PART_NVALUES 2048
#define LORENZO_PART_NVALUES 1024
#define MAX_NPARTS 8

/* Of many chunks one block takes all classes of a level that has so many values
 * a class: it is slow, but there are fewer. */
#define SMALL_NVALUES STORED_STRIDE

/* Lorenzo samples twice as much; its blocks' costs are added in 32 bits. */
_Static_assert((uint64_t)4 * TERP_MAX_NSAMPLES *
                       (24 << TERP_COST_FRACTION_NBITS) <
                   (uint64_t)1 << 32,
               "costs of samples are 32-bit numbers");

/* ---- histograms ---- */

/* One histogram for each set of dimensions that may predict a class of so
 * many odd dimensions, and each spline. */
static __host__ __device__ __forceinline__ unsigned
nhistograms_of(unsigned nodd)
{
    return TERP_NSPLINES * ((1u << nodd) - 1);
}

/* Histograms of the classes with lower numbers. */
static __host__ __device__ __forceinline__ unsigned
histograms_before(unsigned number)
{
    unsigned n = 0;
    for (unsigned i = 1; i < number; i++)
        n += nhistograms_of(count_bits(i));
    return n;
}

static unsigned
dims_in_use(const struct terp_layout *layout)
{
    unsigned dims = 0;
    for (int d = 0; d < TERP_NDIMS; d++)
        dims |= (unsigned)(layout->dims[d] > 1) << d;
    return dims;
}

static unsigned
active_dims(const uint64_t nodd[TERP_NDIMS])
{
    unsigned active = 0;
    for (int d = 0; d < TERP_NDIMS; d++)
        active |= (unsigned)(nodd[d] > 0) << d;
    return active;
}

/* ---- classes that blocks share ---- */

/* Costs of a block's histograms, behind one another. */
static __device__ void
write_records(uint32_t *records, const uint32_t *s_histograms, unsigned n)
{
    for (unsigned i = threadIdx.x; i < n * COSTS_NWORDS; i += blockDim.x)
        records[i] = s_histograms[i / COSTS_NWORDS * HISTOGRAM_NWORDS +
                                  COSTS_AT + i % COSTS_NWORDS];
}

/* Records [nparts][n] to costs of n histograms. */
static __device__ void
add_records(const uint32_t *records, unsigned n, unsigned nparts,
            uint32_t *s_histograms)
{
    const unsigned nquads = COSTS_NWORDS / 4;

    for (unsigned i = threadIdx.x; i < n * nquads; i += blockDim.x) {
        const uint4 *quads = (const uint4 *)records + i;
        uint4 sum = make_uint4(0, 0, 0, 0);
#pragma unroll 8
        for (unsigned part = 0; part < nparts; part++) {
            uint4 quad = quads[part * n * nquads];
            sum.x += quad.x;
            sum.y += quad.y;
            sum.z += quad.z;
            sum.w += quad.w;
        }
        uint32_t *s_costs =
            s_histograms + i / nquads * HISTOGRAM_NWORDS + COSTS_AT;
        *(uint4 *)(s_costs + i % nquads * 4) = sum;
    }
    __syncthreads();
}

/* Costs of all samples by those of this block's. False unless it is the last
 * of nparts. They count themselves in a word that others take for zero. */
static __device__ bool
join_parts(const struct cuda_batch &batch, unsigned class_at, uint32_t *records,
           unsigned part, unsigned nparts, uint32_t *s_histograms, unsigned n)
{
    if (nparts == 1)
        return true;
    unsigned *progress =
        region<unsigned>(batch, blockIdx.y, batch.at.frequency) + class_at;
    write_records(records + part * n * COSTS_NWORDS, s_histograms, n);
    if (!is_last_block(progress, nparts))
        return false;
    if (threadIdx.x == 0)
        *progress = 0;
    add_records(records, n, nparts, s_histograms);
    return true;
}
_Static_assert((TERP_MAX_LEVELS + 1) * TERP_NCLASSES * sizeof(unsigned) <=
                   TERP_NSYMBOLS * sizeof(uint64_t),
               "the region has a word for each class");

/* ---- a block's task ---- */

struct tune_task {
    int l;           /* 0: lorenzo */
    unsigned number; /* of the class; 0: all of a small level */
    unsigned part, nparts;
    unsigned nhistograms; /* 0: of a small level, which stores rows */
};

/* What it samples. */
union tune_samples {
    struct sampled_stretches stretches;
    struct {
        struct sampled_class cls;
        struct sampled_run runs[MAX_NRUNS];
    } of_class;
    struct sampled_class classes[TERP_NCLASSES];
};

static __device__ struct tune_task
find_task(const struct tune_grid &grid)
{
    struct tune_task task = {0, 0, blockIdx.x, grid.nlorenzo, 0};

    if (blockIdx.x < grid.nlorenzo) {
        task.nhistograms = (1u << count_bits(grid.dims_in_use)) - 1;
        return task;
    }
    task.l = 1;
    while (task.l < grid.nlevels && blockIdx.x >= grid.first_block[task.l + 1])
        task.l++;
    task.nparts = grid.nparts[task.l];
    if (task.nparts == 0)
        return task;
    unsigned index = blockIdx.x - grid.first_block[task.l];
    task.part = index % task.nparts;
    task.number =
        (1u << count_bits(grid.active[task.l])) - 1 - index / task.nparts;
    task.nhistograms = nhistograms_of(count_bits(task.number));
    return task;
}

/* Takes only what stays the same as long as the device has the batch's
 * layout. */
static __device__ void
find_samples(const struct cuda_batch &batch, const struct tune_grid &grid,
             const struct tune_task &task, union tune_samples *s_samples)
{
    const struct terp_layout *layout = batch.d_layout;
    const unsigned active = grid.active[task.l], i = threadIdx.x;

    if (task.l == 0) {
        if (i == 0)
            find_stretches(layout, task.part, task.nparts,
                           &s_samples->stretches);
    } else if (task.number == 0) {
        if (i > 0 && i < 1u << count_bits(active))
            find_class(layout, task.l, subset_at(i, active), 0, 1,
                       &s_samples->classes[i]);
    } else {
        if (i == 0)
            find_class(layout, task.l, subset_at(task.number, active),
                       task.part, task.nparts, &s_samples->of_class.cls);
        __syncthreads();
        find_runs(s_samples->of_class.cls, 0, s_samples->of_class.runs);
    }
}

/* ---- the kernel ---- */

/* Costs of the counts. False unless they are those of all parts. */
static __device__ bool
find_costs(const struct cuda_batch &batch, unsigned class_at, unsigned record,
           unsigned part, unsigned nparts, uint32_t *s_histograms, unsigned n,
           struct findings *s_found)
{
    uint32_t *records = region<uint32_t>(batch, blockIdx.y, batch.at.staging) +
                        record * COSTS_NWORDS;

    __syncthreads();
    cost_histograms(batch.tables.d_cost, (unsigned)batch.max_code, s_histograms,
                    n, s_found);
    if (!join_parts(batch, class_at, records, part, nparts, s_histograms, n))
        return false;
    find_least(s_histograms, n);
    return true;
}

/* The dimensions, if there is a sample, and their cost. False unless this was
 * the last part. */
template <typename T>
static __device__ bool
tune_lorenzo(const struct cuda_batch &batch, const struct tune_grid &grid,
             const struct tune_task &task,
             const struct sampled_stretches &s_stretches,
             const struct source<T> &source, const struct constants<T> &k,
             struct cuda_chunk &chunk, uint32_t *s_histograms,
             struct findings *s_found)
{
    const unsigned n = task.nhistograms;

    __syncthreads();
    sample_lorenzo(s_stretches, source, k, batch.max_code, s_histograms,
                   s_found);
    if (!find_costs(batch, 0, grid.lorenzo_record, task.part, task.nparts,
                    s_histograms, n, s_found))
        return false;
    if (threadIdx.x >= 32)
        return true;
    uint64_t least = ~UINT64_C(0);
    if (threadIdx.x < n) {
        const uint32_t *s_costs =
            s_histograms + threadIdx.x * HISTOGRAM_NWORDS + COSTS_AT;
        uint64_t cost =
            cost_of_codes(s_costs) + s_costs[RECORD_NJOINED] * TERP_JOINED_COST;
        /* Ties go to the larger set. */
        if (s_costs[RECORD_NSAMPLED] > 0)
            least =
                terp_scale_cost(cost, batch.nvalues, s_costs[RECORD_NSAMPLED])
                    << 4 |
                (14 - threadIdx.x);
    }
    for (int lanes = 16; lanes > 0; lanes /= 2)
        least = min_u64(least, __shfl_xor_sync(ALL_LANES, least, lanes));
    if (threadIdx.x == 0) {
        uint64_t *costs = region<uint64_t>(batch, blockIdx.y, batch.at.tune);
        bool any = least != ~UINT64_C(0);
        costs[COST_LORENZO] = any ? least >> 4 : least;
        if (any)
            chunk.lorenzo_dims =
                subset_at(15 - (unsigned)(least & 15), grid.dims_in_use);
    }
    return true;
}

/* The costs of a class. False unless this was the last part. */
template <typename T>
static __device__ bool
tune_class(const struct cuda_batch &batch, const struct tune_grid &grid,
           const struct tune_task &task, const struct sampled_class &s_class,
           struct sampled_run s_runs[MAX_NRUNS], const struct source<T> &source,
           const struct constants<T> &k, uint32_t *s_histograms,
           struct findings *s_found)
{
    const unsigned odd = subset_at(task.number, grid.active[task.l]);
    const unsigned nsets = (1u << count_bits(odd)) - 1, n = task.nhistograms;
    const unsigned record = grid.first_record[task.l] +
                            task.nparts * histograms_before(task.number);

    sample_class(s_class, s_runs, source, k, s_histograms, s_found);
    if (!find_costs(batch, (unsigned)task.l * TERP_NCLASSES + odd, record,
                    task.part, task.nparts, s_histograms, n, s_found))
        return false;
    uint64_t *costs = region<uint64_t>(batch, blockIdx.y, batch.at.tune);
    for (unsigned h = threadIdx.x; h < n; h += blockDim.x) {
        const uint32_t *s_costs =
            s_histograms + h * HISTOGRAM_NWORDS + COSTS_AT;
        uint32_t nsampled = s_costs[RECORD_NSAMPLED];
        unsigned predicting = subset_at(h % nsets + 1, odd);
        int spline = (int)(h / nsets);
        costs[cost_at(task.l, spline, odd, predicting)] =
            nsampled == 0 ? 0
                          : terp_scale_cost(cost_of_codes(s_costs),
                                            s_class.nvalues, nsampled);
    }
    return true;
}

/* The cost of what `n` values' rows say, by a warp. */
static __device__ __forceinline__ uint64_t
cost_of_rows(const uint16_t *cost, const uint16_t *s_rows, unsigned n)
{
    const unsigned lane = threadIdx.x % 32;
    uint32_t sums[NLANE_ENTRIES] = {0}, least = 0xFFFFFFFF;
    unsigned nescapes = 0;

    for (unsigned i = 0; i < STORED_STRIDE; i += 32)
        nescapes += (unsigned)__popc(__ballot_sync(
            ALL_LANES, i + lane < n && s_rows[i + lane] == ESCAPE_ROW_AT));
#pragma unroll 1
    for (unsigned first = 0; first < n; first += 8) {
        uint4 eight = *(const uint4 *)(s_rows + first);
        uint32_t pairs[4] = {eight.x, eight.y, eight.z, eight.w};
        uint32_t costs[8][NLANE_ENTRIES];
#pragma unroll
        for (unsigned k = 0; k < 8; k++) {
            const uint16_t *row =
                cost + (pairs[k / 2] >> (16 * (k % 2)) & 0xFFFF) + lane;
#pragma unroll
            for (unsigned e = 0; e < NLANE_ENTRIES; e++)
                costs[k][e] = first + k < n && 32 * e + lane < TERP_NENTRIES
                                  ? row[32 * e]
                                  : 0u;
        }
#pragma unroll
        for (unsigned k = 0; k < 8; k++)
#pragma unroll
            for (unsigned e = 0; e < NLANE_ENTRIES; e++)
                sums[e] += costs[k][e];
    }
    for (unsigned e = 0; e < NLANE_ENTRIES; e++)
        if (32 * e + lane < TERP_NENTRIES)
            least = min(least, sums[e]);
    return warp_least(least) + nescapes * TERP_ESCAPE_COST;
}

/* The costs of a small level's classes, all of whose values are samples: the
 * rows of each histogram are stored, then their costs added. */
template <typename T>
static __device__ void
tune_level(const struct cuda_batch &batch, const struct tune_grid &grid, int l,
           const struct sampled_class s_classes[TERP_NCLASSES],
           const struct source<T> &source, const struct constants<T> &k,
           uint16_t *s_rows)
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
                         s_rows + histograms_before(number) * STORED_STRIDE);
    }
    __syncthreads();

    uint64_t *costs = region<uint64_t>(batch, blockIdx.y, batch.at.tune);
    unsigned n = histograms_before(nclasses);
#pragma unroll 1
    for (unsigned h = threadIdx.x / 32; h < n; h += blockDim.x / 32) {
        unsigned number = 1, first = 0, end;
        while (h >= (end = first + nhistograms_of(count_bits(number)))) {
            first = end;
            number++;
        }
        unsigned odd = subset_at(number, active);
        uint64_t cost_of_h =
            cost_of_rows(batch.tables.d_cost, s_rows + h * STORED_STRIDE,
                         (unsigned)s_classes[number].nvalues);
        unsigned nsets = (1u << count_bits(odd)) - 1;
        unsigned predicting = subset_at((h - first) % nsets + 1, odd);
        int spline = (int)((h - first) / nsets);
        if (threadIdx.x % 32 == 0)
            costs[cost_at(l, spline, odd, predicting)] = cost_of_h;
    }
}

/* Grid: struct tune_grid. Block: up to TUNER_MAX_NTHREADS; in dynamic shared
 * memory the histograms of its class, or of lorenzo, or the rows of a small
 * level. Blocks do not wait for each other: the last of a class, by the class's
 * counter, adds up what the others left, and the last of those, by the chunk's,
 * chooses. */
template <typename T>
static __global__ void
__launch_bounds__(TUNER_MAX_NTHREADS, sizeof(T) == 4 ? 2 : 1)
    tune(const struct cuda_batch batch, const struct tune_grid grid)
{
    __shared__ union tune_samples s_samples;
    __shared__ struct findings s_found;
    const struct tune_task task = find_task(grid);
    uint32_t *s_histograms = dynamic_shared<uint32_t>();

    /* Before the kernels before it have ended: what they do not change. */
    if (grid.nblocks > 0) {
        clear_histograms(s_histograms, task.nhistograms, &s_found);
        find_samples(batch, grid, task, &s_samples);
    }
    begin_kernel();

    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    /* Volatile: the loads are not put off until the first has come. */
    const volatile struct cuda_chunk &state = chunk;
    const double step = state.step, bound = state.bound;
    struct source<T> source;
    source.values = (const T *)state.src;
    source.has_specials = state.has_specials;
    for (int i = 0; i < TERP_NFILLS; i++)
        source.fills.at[i] = (word_of<T>)state.fills[i];
    const enum terp_status status = state.status;
    const enum terp_coding coding = state.coding;
    if (status != TERP_OK || coding == TERP_CODING_CONSTANT)
        return;
    if (grid.nblocks > 0) {
        const struct constants<T> k =
            constants_of<T>(step, bound, batch.max_code);
        bool complete = true;
        if (task.l == 0)
            complete = tune_lorenzo(batch, grid, task, s_samples.stretches,
                                    source, k, chunk, s_histograms, &s_found);
        else if (task.number > 0)
            complete = tune_class(batch, grid, task, s_samples.of_class.cls,
                                  s_samples.of_class.runs, source, k,
                                  s_histograms, &s_found);
        else
            tune_level(batch, grid, task.l, s_samples.classes, source, k,
                       (uint16_t *)s_histograms);
        if (!complete ||
            !is_last_block(&chunk.progress[CUDA_PROGRESS_TUNE], grid.ntasks))
            return;
    }
    choose(batch, grid, dynamic_shared<uint64_t>(), chunk);
}

/* ---- the launch ---- */

/* Parts for so many samples. */
static unsigned
nparts_of(uint64_t nsamples, uint64_t part_nvalues, unsigned most)
{
    return (unsigned)min_u64(div_up(nsamples, part_nvalues), most);
}

/* No class of a level has more. */
static uint64_t
class_max_nvalues(const struct terp_layout *layout, int l)
{
    uint64_t nvalues = layout->nbricks;

    for (int d = 0; d < TERP_NDIMS; d++)
        nvalues *= layout->level[l].neven[d];
    return nvalues;
}

/* Returns how many records there are. */
static uint64_t
deal_blocks(const struct cuda_batch *batch, unsigned most_parts,
            struct tune_grid *grid)
{
    const struct terp_layout *layout = batch->h_layout;
    enum terp_predictor asked = batch->params.predictor;
    unsigned nrecords = 0;

    *grid = tune_grid{};
    grid->dims_in_use = dims_in_use(layout);
    /* A row of one value has no difference that could be sampled. */
    if (asked != TERP_PREDICTOR_SPLINE && layout->dims[0] > 1) {
        grid->nlorenzo = nparts_of(2 * terp_nsamples_of(layout->nvalues),
                                   LORENZO_PART_NVALUES,
                                   most_parts == 1 ? 2 : 4 * most_parts);
        grid->nhistograms = (1u << count_bits(grid->dims_in_use)) - 1;
        grid->nblocks = grid->nlorenzo;
        grid->ntasks = 1;
        nrecords = grid->nlorenzo * grid->nhistograms;
    }
    if (asked != TERP_PREDICTOR_LORENZO)
        grid->nlevels = layout->nlevels;
    for (int l = 1; l <= grid->nlevels; l++) {
        uint64_t nvalues = class_max_nvalues(layout, l);
        grid->nparts[l] =
            batch->nchunks > 1 && nvalues <= SMALL_NVALUES
                ? 0
                : nparts_of(min_u64(nvalues, terp_nsamples_of(nvalues)),
                            SPLINE_PART_NVALUES, most_parts);
        grid->active[l] = (uint8_t)active_dims(layout->level[l].nodd);
        unsigned nodd = count_bits(grid->active[l]);
        unsigned ntasks = grid->nparts[l] == 0 ? 1 : (1u << nodd) - 1;
        if (l == 1)
            grid->nhistograms = max(grid->nhistograms, nhistograms_of(nodd));
        grid->first_block[l] = grid->nblocks;
        grid->ntasks += ntasks;
        grid->nblocks += ntasks * max(grid->nparts[l], 1u);
        if (grid->nparts[l] <= 1)
            continue;
        grid->first_record[l] = nrecords;
        nrecords += histograms_before(1u << nodd) * grid->nparts[l];
    }
    return nrecords;
}

/* Histograms of four odd dimensions under all splines. */
#define SHARED_MAX_NBYTES \
    (TERP_NSPLINES * (TERP_NCLASSES - 1) * HISTOGRAM_NWORDS * 4)

template <typename T>
static cudaError_t
launch_tune(const struct cuda_batch *batch, const struct tune_grid *grid,
            cudaStream_t stream)
{
    size_t shared_nbytes = grid->nhistograms * HISTOGRAM_NWORDS * 4;
    unsigned nthreads =
        batch->nchunks == 1 ? TUNER_MAX_NTHREADS : TUNER_MAX_NTHREADS / 2;
    dim3 blocks(grid->nblocks > 0 ? grid->nblocks : 1,
                (unsigned)batch->nchunks);

    /* The same of all calls, which may come from several threads. */
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
    const uint64_t room = batch->npartitions * CUDA_PARTITION_MAX_NBYTES;
    struct tune_grid grid;
    /* Many chunks keep the device busy with one block a class. */
    unsigned most_parts =
        batch->nchunks < MAX_NPARTS ? MAX_NPARTS / (unsigned)batch->nchunks : 1;

    while (deal_blocks(batch, most_parts, &grid) * COSTS_NWORDS * 4 > room &&
           most_parts > 1)
        most_parts /= 2;
    return batch->chunk.type == TERP_FLOAT32
               ? launch_tune<float>(batch, &grid, stream)
               : launch_tune<double>(batch, &grid, stream);
}
