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
#include "cuda_tuner_spline.cuh"

/* A block takes this many samples or more; blocks that share a class leave
 * records to add up, so there is a limit to them. */
#define SPLINE_PART_NVALUES 2048
#define LORENZO_PART_NVALUES 1024
#define MAX_NPARTS 8

/* One block takes all classes of a level that has so many values a class. */
#define SMALL_NVALUES STORED_STRIDE

/* Lorenzo samples twice as much; its blocks' costs are added in 32 bits. */
_Static_assert((uint64_t)4 * TERP_MAX_NSAMPLES *
                       (24 << TERP_COST_FRACTION_NBITS) <
                   (uint64_t)1 << 32,
               "costs of samples are 32-bit numbers");

/* ---- what a block works on ---- */

/* How a launch's blocks, the blockIdx.x of each chunk, are dealt out: first
 * lorenzo's, then by level from 1, class from the last, splines, part. */
struct tune_grid {
    unsigned nblocks;
    unsigned ntasks; /* lorenzo, and what several parts or one block do */
    unsigned nlorenzo;
    unsigned lorenzo_record; /* first of them */
    int nlevels;             /* to be planned */
    unsigned nhistograms;    /* of a block, at most */
    /* A small chunk's blocks are many and short: each takes one spline, and
     * has the table of costs in shared memory. */
    bool is_small;
    unsigned first_block[TERP_MAX_LEVELS + 1];
    unsigned nparts[TERP_MAX_LEVELS + 1]; /* 0: a small level, one block */
    uint8_t active[TERP_MAX_LEVELS + 1];  /* dimensions with odd points */
    unsigned first_record[TERP_MAX_LEVELS + 1]; /* where parts are many */
};

/* Costs in the region `tune`: of each level, by spline, class and dimensions
 * that predict. Of level 0, which there is not, the sums. */
#define COST_SPLINE 0
#define COST_LORENZO 1

static __device__ __forceinline__ unsigned
cost_at(int l, int spline, unsigned odd, unsigned predicting)
{
    return (((unsigned)l * TERP_NSPLINES + (unsigned)spline) * TERP_NCLASSES +
            odd) *
               TERP_NCLASSES +
           predicting;
}

/* Subsets of a set of dimensions are numbered by pushing its bits together. */
static __host__ __device__ __forceinline__ unsigned
subset_at(unsigned number, unsigned dims)
{
    unsigned subset = 0;
    for (int d = 0; d < TERP_NDIMS; d++) {
        if (!(dims >> d & 1))
            continue;
        subset |= (number & 1) << d;
        number >>= 1;
    }
    return subset;
}

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
active_dims(const uint64_t nodd[TERP_NDIMS])
{
    unsigned active = 0;
    for (int d = 0; d < TERP_NDIMS; d++)
        active |= (unsigned)(nodd[d] > 0) << d;
    return active;
}

static __host__ __device__ __forceinline__ unsigned
dims_in_use(const struct terp_layout *layout)
{
    unsigned dims = 0;
    for (int d = 0; d < TERP_NDIMS; d++)
        dims |= (unsigned)(layout->dims[d] > 1) << d;
    return dims;
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

/* ---- choices: the block that ends last ---- */

/* A level's plan but for its ratio, and its cost: by a warp. Least are found
 * among keys of a cost and, below it, what ties go to; a chunk on a device has
 * fewer than 2^40 values, whose costs have less than 2^16 units each. */
static __device__ __forceinline__ uint64_t
plan_level(const struct tune_grid &grid, int l, const uint64_t *costs,
           struct cuda_level_plan *plan)
{
    const unsigned active = grid.active[l];
    const unsigned nactive = count_bits(active), lane = threadIdx.x % 32;
    unsigned ncandidates = 1;
    uint64_t least = ~UINT64_C(0), least_spline = 0;

    for (unsigned i = 0; i < nactive; i++)
        ncandidates *= nactive;
    for (unsigned i = lane; i < ncandidates; i += 32) {
        uint64_t cost[TERP_NSPLINES] = {0};
        unsigned priorities = 0, left = i;
        for (int d = 0; d < TERP_NDIMS; d++) {
            if (!(active >> d & 1))
                continue;
            priorities |= left % nactive << (2 * d);
            left /= nactive;
        }
        if (!terp_priorities_are_canonical(priorities, active))
            continue;
#pragma unroll 5
        for (unsigned odd = 1; odd < TERP_NCLASSES; odd++) {
            unsigned predicting = terp_predicting_dims(odd, priorities);
            for (int s = 0; s < TERP_NSPLINES; s++)
                if ((odd & ~active) == 0)
                    cost[s] += costs[cost_at(l, s, odd, predicting)];
        }
        uint64_t key = cost[TERP_SPLINE_CUBIC] << 8 | priorities;
        if (key < least) {
            least = key;
            least_spline = ~UINT64_C(0);
            for (unsigned s = 0; s < TERP_NSPLINES; s++)
                least_spline = min_u64(least_spline, cost[s] << 2 | s);
        }
    }
    uint64_t key = least;
    for (int lanes = 16; lanes > 0; lanes /= 2)
        least = min_u64(least, __shfl_xor_sync(ALL_LANES, least, lanes));
    unsigned winners = __ballot_sync(ALL_LANES, key == least);
    least_spline =
        __shfl_sync(ALL_LANES, least_spline, __ffs((int)winners) - 1);
    if (lane == 0) {
        plan->priorities = (uint8_t)(least & 0xFF);
        plan->spline = (uint8_t)(least_spline & 3);
    }
    return least_spline >> 2;
}

/* All levels' plans. Returns the cost. */
static __device__ uint64_t
plan_levels(const struct cuda_batch &batch, const struct tune_grid &grid,
            const uint64_t *costs, struct cuda_level_plan *plan)
{
    const int nlevels = grid.nlevels;
    __shared__ uint64_t s_cost[TERP_MAX_LEVELS + 1];
    uint64_t cost = 0;

    for (int l = 1 + (int)threadIdx.x / 32; l <= nlevels;
         l += (int)blockDim.x / 32) {
        uint64_t cost_of_level = plan_level(grid, l, costs, &plan[l]);
        if (threadIdx.x % 32 == 0)
            s_cost[l] = cost_of_level;
    }
    __syncthreads();
    for (int l = 1; l <= nlevels; l++)
        cost += s_cost[l];
    for (int l = 1 + (int)threadIdx.x; l <= nlevels; l += (int)blockDim.x)
        plan[l].ratio = (uint8_t)terp_ratio_of_level(l, cost, batch.nvalues);
    return cost;
}

static __device__ void
choose(const struct cuda_batch &batch, const struct tune_grid &grid,
       struct cuda_chunk &chunk)
{
    uint64_t *costs = region<uint64_t>(batch, blockIdx.y, batch.at.tune);
    enum terp_predictor asked = batch.params.predictor;
    uint64_t lorenzo_cost =
        grid.nlorenzo > 0 ? costs[COST_LORENZO] : ~UINT64_C(0);
    uint64_t spline_cost = plan_levels(batch, grid, costs, chunk.plan);

    if (threadIdx.x == 0) {
        bool lorenzo =
            asked == TERP_PREDICTOR_LORENZO ||
            (asked == TERP_PREDICTOR_AUTO && lorenzo_cost < spline_cost);
        chunk.prediction =
            lorenzo ? TERP_PREDICTION_LORENZO : TERP_PREDICTION_SPLINE;
        /* Without a sample all dimensions in use are taken. */
        if (asked != TERP_PREDICTOR_SPLINE && lorenzo_cost == ~UINT64_C(0))
            chunk.lorenzo_dims = dims_in_use(batch.d_layout);
        costs[COST_SPLINE] = spline_cost;
        costs[COST_LORENZO] = lorenzo_cost;
    }
}

/* ---- a block's task ---- */

struct tune_task {
    int l;           /* 0: lorenzo */
    unsigned number; /* of the class; 0: all of a small level */
    unsigned share;  /* of the splines */
    unsigned part, nparts;
};

static __device__ struct tune_task
find_task(const struct tune_grid &grid)
{
    struct tune_task task = {0, 0, 0, 0, grid.nlorenzo};

    if (blockIdx.x < grid.nlorenzo) {
        task.part = blockIdx.x;
        return task;
    }
    task.l = 1;
    while (task.l < grid.nlevels && blockIdx.x >= grid.first_block[task.l + 1])
        task.l++;
    task.nparts = grid.nparts[task.l];
    if (task.nparts == 0)
        return task;
    unsigned nshares = grid.is_small ? TERP_NSPLINES : 1;
    unsigned index = blockIdx.x - grid.first_block[task.l];
    task.part = index % task.nparts;
    index /= task.nparts;
    task.share = index % nshares;
    task.number = (1u << count_bits(grid.active[task.l])) - 1 - index / nshares;
    return task;
}

/* What blocks sample: the stretches, the class, or all of a level. */
static __device__ void
describe_task(const struct cuda_batch &batch, const struct tune_grid &grid,
              const struct tune_task &task,
              struct sampled_class s_classes[TERP_NCLASSES],
              struct sampled_stretches *s_stretches)
{
    const struct terp_layout *layout = batch.d_layout;
    const unsigned active = grid.active[task.l];

    if (task.l == 0) {
        if (threadIdx.x == 0)
            find_stretches(layout, task.part, task.nparts, s_stretches);
        return;
    }
    bool is_level = task.number == 0;
    unsigned number = is_level ? threadIdx.x : task.number;
    if (is_level ? number > 0 && number < 1u << count_bits(active)
                 : threadIdx.x == 0)
        find_class(layout, task.l, subset_at(number, active), task.part,
                   is_level ? 1 : task.nparts,
                   &s_classes[is_level ? number : 0]);
}

/* ---- the kernel ---- */

/* The table of costs: on its way to shared memory, until wait_async and a
 * barrier, where the chunk is small. */
static __device__ const uint16_t *
get_costs(const struct cuda_batch &batch, const struct tune_grid &grid)
{
    const unsigned nquads = TERP_NROWS * TERP_ENTRY_STRIDE / 8;
    const uint4 *quads = (const uint4 *)batch.tables.d_cost;
    uint4 *s_quads = (uint4 *)(dynamic_shared<uint32_t>() +
                               grid.nhistograms * HISTOGRAM_NWORDS);

    if (!grid.is_small)
        return batch.tables.d_cost;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < nquads; i += blockDim.x)
        copy_async(s_quads + i, quads + i);
    return (const uint16_t *)s_quads;
}
_Static_assert(TERP_NROWS *TERP_ENTRY_STRIDE % 8 == 0, "copied by quads");

/* Costs of the counts. False unless they are those of all parts. */
static __device__ bool
find_costs(const struct cuda_batch &batch, const uint16_t *cost,
           unsigned class_at, unsigned record, unsigned part, unsigned nparts,
           uint32_t *s_histograms, unsigned n, struct findings *s_found)
{
    uint32_t *records = region<uint32_t>(batch, blockIdx.y, batch.at.staging) +
                        record * COSTS_NWORDS;

    wait_async();
    __syncthreads();
    cost_histograms(cost, (unsigned)batch.max_code, s_histograms, n, s_found);
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
             const struct sampled_stretches &s_stretches,
             const struct source<T> &source, const struct constants<T> &k,
             const uint16_t *cost, struct cuda_chunk &chunk,
             uint32_t *s_histograms, struct findings *s_found)
{
    const struct terp_layout *layout = batch.d_layout;
    const unsigned active = dims_in_use(layout);
    const unsigned n = (1u << count_bits(active)) - 1;

    clear_histograms(s_histograms, n, s_found);
    __syncthreads();
    sample_lorenzo(s_stretches, source, k, batch.max_code, s_histograms,
                   s_found);
    if (!find_costs(batch, cost, 0, grid.lorenzo_record, blockIdx.x,
                    grid.nlorenzo, s_histograms, n, s_found))
        return false;
    if (threadIdx.x >= 32)
        return true;
    uint64_t least = ~UINT64_C(0);
    if (threadIdx.x < n) {
        const uint32_t *s_costs =
            s_histograms + threadIdx.x * HISTOGRAM_NWORDS + COSTS_AT;
        uint64_t all =
            cost_of_codes(s_costs) + s_costs[RECORD_NJOINED] * TERP_JOINED_COST;
        /* Ties go to the larger set. */
        if (s_costs[RECORD_NSAMPLED] > 0)
            least =
                terp_scale_cost(all, layout->nvalues, s_costs[RECORD_NSAMPLED])
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
            chunk.lorenzo_dims = subset_at(15 - (unsigned)(least & 15), active);
    }
    return true;
}

/* The costs of a class. False unless this was the last part. */
template <typename T>
static __device__ bool
tune_class(const struct cuda_batch &batch, const struct tune_grid &grid,
           const struct tune_task &task, const struct sampled_class &s_class,
           const struct source<T> &source, const struct constants<T> &k,
           const uint16_t *cost, uint32_t *s_histograms,
           struct findings *s_found)
{
    const unsigned nsplines = grid.is_small ? 1 : TERP_NSPLINES;
    const unsigned odd = subset_at(task.number, grid.active[task.l]);
    const unsigned nsets = (1u << count_bits(odd)) - 1, n = nsets * nsplines;
    const unsigned record = grid.first_record[task.l] +
                            task.nparts * histograms_before(task.number);
    const struct sampling<T> sampling = {
        (int)(task.share *nsplines),
            (int)((task.share + 1) * nsplines), k.inverse, k.max_code
    };

    clear_histograms(s_histograms, n, s_found);
    __syncthreads();
    sample_class(s_class, source, sampling, s_histograms, s_found);
    if (!find_costs(batch, cost, (unsigned)task.l * TERP_NCLASSES + odd, record,
                    task.part, task.nparts, s_histograms, n, s_found))
        return false;
    uint64_t *costs = region<uint64_t>(batch, blockIdx.y, batch.at.tune);
    for (unsigned h = threadIdx.x; h < n; h += blockDim.x) {
        const uint32_t *s_costs =
            s_histograms + h * HISTOGRAM_NWORDS + COSTS_AT;
        uint32_t nsampled = s_costs[RECORD_NSAMPLED];
        unsigned predicting = subset_at(h % nsets + 1, odd);
        int spline = sampling.first_spline + (int)(h / nsets);
        costs[cost_at(task.l, spline, odd, predicting)] =
            nsampled == 0 ? 0
                          : terp_scale_cost(cost_of_codes(s_costs),
                                            s_class.nvalues, nsampled);
    }
    return true;
}

/* The cost of `n` slots, by a warp. */
static __device__ __forceinline__ uint64_t
cost_of_slots(const uint16_t *cost, unsigned max_code, const uint16_t *s_slots,
              unsigned n)
{
    const unsigned lane = threadIdx.x % 32;
    uint32_t sums[NLANE_ENTRIES] = {0}, least = 0xFFFFFFFF, nescapes = 0;

#pragma unroll 1
    for (unsigned first = 0; first < n; first += NAHEAD) {
        uint32_t costs[NAHEAD][NLANE_ENTRIES];
#pragma unroll
        for (unsigned k = 0; k < NAHEAD; k++) {
            bool exists = first + k < n;
            unsigned slot = exists ? s_slots[first + k] : 0;
            unsigned row = slot > max_code ? TERP_ROW_ESCAPE : slot;
            nescapes += slot > max_code;
#pragma unroll
            for (unsigned e = 0; e < NLANE_ENTRIES; e++)
                costs[k][e] =
                    exists && 32 * e + lane < TERP_NENTRIES
                        ? cost[row * TERP_ENTRY_STRIDE + 32 * e + lane]
                        : 0u;
        }
#pragma unroll
        for (unsigned k = 0; k < NAHEAD; k++)
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
 * slots of each histogram are stored, then their costs added. */
template <typename T>
static __device__ void
tune_level(const struct cuda_batch &batch, const struct tune_grid &grid, int l,
           const struct sampled_class s_classes[TERP_NCLASSES],
           const struct source<T> &source, const struct constants<T> &k,
           const uint16_t *cost, uint16_t *s_slots)
{
    const unsigned active = grid.active[l];
    const unsigned nclasses = 1u << count_bits(active);
    const struct sampling<T> sampling = {
        0, TERP_NSPLINES, k.inverse, k.max_code
    };

    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < (nclasses - 1) * SMALL_NVALUES;
         i += blockDim.x) {
        unsigned number = 1 + i / SMALL_NVALUES, point = i % SMALL_NVALUES;
        if (point < s_classes[number].nvalues)
            sample_point(s_classes[number], point, source, sampling,
                         s_slots + histograms_before(number) * STORED_STRIDE);
    }
    wait_async();
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
        uint64_t cost_of_h = cost_of_slots(cost, (unsigned)batch.max_code,
                                           s_slots + h * STORED_STRIDE,
                                           (unsigned)s_classes[number].nvalues);
        unsigned nsets = (1u << count_bits(odd)) - 1;
        unsigned predicting = subset_at((h - first) % nsets + 1, odd);
        int spline = (int)((h - first) / nsets);
        if (threadIdx.x % 32 == 0)
            costs[cost_at(l, spline, odd, predicting)] = cost_of_h;
    }
}

/* Grid: struct tune_grid. Block: up to TUNER_MAX_NTHREADS; in dynamic shared
 * memory the histograms of its class, or of lorenzo, or the slots of a small
 * level, then a small chunk's table of costs. Blocks do not wait for each
 * other: the last of a class, by the class's counter, adds up what the others
 * left, and the last of those, by the chunk's, chooses. */
template <typename T>
static __global__ void
__launch_bounds__(TUNER_MAX_NTHREADS, sizeof(T) == 4 ? 2 : 1)
    tune(const struct cuda_batch batch, const struct tune_grid grid)
{
    __shared__ struct sampled_class s_classes[TERP_NCLASSES];
    __shared__ struct sampled_stretches s_stretches;
    __shared__ struct findings s_found;
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
    /* Meanwhile. */
    const struct tune_task task = find_task(grid);
    if (grid.nblocks > 0)
        describe_task(batch, grid, task, s_classes, &s_stretches);
    if (status != TERP_OK || coding == TERP_CODING_CONSTANT)
        return;
    if (grid.nblocks > 0) {
        const struct constants<T> k =
            constants_of<T>(step, bound, batch.max_code);
        const uint16_t *cost = get_costs(batch, grid);
        uint32_t *s_histograms = dynamic_shared<uint32_t>();
        bool complete = true;
        if (task.l == 0)
            complete = tune_lorenzo(batch, grid, s_stretches, source, k, cost,
                                    chunk, s_histograms, &s_found);
        else if (task.number > 0)
            complete = tune_class(batch, grid, task, s_classes[0], source, k,
                                  cost, s_histograms, &s_found);
        else
            tune_level(batch, grid, task.l, s_classes, source, k, cost,
                       (uint16_t *)s_histograms);
        if (!complete ||
            !is_last_block(&chunk.progress[CUDA_PROGRESS_TUNE], grid.ntasks))
            return;
    }
    choose(batch, grid, chunk);
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
    /* A row of one value has no difference that could be sampled. */
    if (asked != TERP_PREDICTOR_SPLINE && layout->dims[0] > 1) {
        grid->nlorenzo = nparts_of(2 * terp_nsamples_of(layout->nvalues),
                                   LORENZO_PART_NVALUES,
                                   most_parts == 1 ? 2 : 4 * most_parts);
        grid->nhistograms = (1u << count_bits(dims_in_use(layout))) - 1;
        grid->nblocks = grid->nlorenzo;
        grid->ntasks = 1;
        nrecords = grid->nlorenzo * grid->nhistograms;
    }
    if (asked != TERP_PREDICTOR_LORENZO)
        grid->nlevels = layout->nlevels;
    grid->is_small = batch->nchunks == 1;
    for (int l = 1; l <= grid->nlevels; l++) {
        uint64_t nvalues = class_max_nvalues(layout, l);
        grid->nparts[l] =
            nvalues <= SMALL_NVALUES
                ? 0
                : nparts_of(min_u64(nvalues, terp_nsamples_of(nvalues)),
                            SPLINE_PART_NVALUES, most_parts);
        grid->is_small &= grid->nparts[l] <= 1;
    }
    unsigned nshares = grid->is_small ? TERP_NSPLINES : 1;
    for (int l = 1; l <= grid->nlevels; l++) {
        grid->active[l] = (uint8_t)active_dims(layout->level[l].nodd);
        unsigned nodd = count_bits(grid->active[l]);
        unsigned ntasks =
            grid->nparts[l] == 0 ? 1 : ((1u << nodd) - 1) * nshares;
        if (l == 1)
            grid->nhistograms =
                max(grid->nhistograms, nhistograms_of(nodd) / nshares);
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

/* Of a small chunk: histograms of four odd dimensions under one spline, and the
 * table of costs. Under all splines without the table it is less. */
#define SHARED_MAX_NBYTES \
    ((TERP_NCLASSES - 1) * HISTOGRAM_NWORDS * 4 + (int)sizeof terp_entry_cost)
_Static_assert(TERP_NSPLINES *(TERP_NCLASSES - 1) * HISTOGRAM_NWORDS * 4 <=
                   SHARED_MAX_NBYTES,
               "it suffices for all");

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

    if (grid->is_small)
        shared_nbytes += sizeof terp_entry_cost;
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
