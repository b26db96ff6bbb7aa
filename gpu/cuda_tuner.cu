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
#define LORENZO_PART_NVALUES 2048
#define MAX_NPARTS 8

/* Lorenzo samples twice as much; its blocks' costs are added in 32 bits. */
_Static_assert((uint64_t)4 * TERP_MAX_NSAMPLES *
                       (24 << TERP_COST_FRACTION_NBITS) <
                   (uint64_t)1 << 32,
               "costs of samples are 32-bit numbers");

/* ---- what a block works on ---- */

/* How a launch's blocks, the blockIdx.x of each chunk, are dealt out: first
 * lorenzo's, then by level from 1, class from the last, part. */
struct tune_grid {
    unsigned nblocks;
    unsigned nclasses; /* one more with lorenzo */
    unsigned nlorenzo;
    unsigned lorenzo_record; /* first of them */
    int nlevels;             /* to be planned */
    unsigned nhistograms;    /* of a block, at most */
    unsigned first_block[TERP_MAX_LEVELS + 1];
    unsigned nparts[TERP_MAX_LEVELS + 1];
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

static __host__ __device__ __forceinline__ unsigned
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
plan_level(const struct terp_layout *layout, int l, const uint64_t *costs,
           struct cuda_level_plan *plan)
{
    const unsigned active = active_dims(layout->level[l].nodd);
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
plan_levels(const struct terp_layout *layout, int nlevels,
            const uint64_t *costs, struct cuda_level_plan *plan)
{
    __shared__ uint64_t s_cost[TERP_MAX_LEVELS + 1];
    uint64_t cost = 0;

    for (int l = 1 + (int)threadIdx.x / 32; l <= nlevels;
         l += (int)blockDim.x / 32) {
        uint64_t cost_of_level = plan_level(layout, l, costs, &plan[l]);
        if (threadIdx.x % 32 == 0)
            s_cost[l] = cost_of_level;
    }
    __syncthreads();
    for (int l = 1; l <= nlevels; l++)
        cost += s_cost[l];
    for (int l = 1 + (int)threadIdx.x; l <= nlevels; l += (int)blockDim.x)
        plan[l].ratio = (uint8_t)terp_ratio_of_level(l, cost, layout->nvalues);
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
    uint64_t spline_cost =
        plan_levels(batch.d_layout, grid.nlevels, costs, chunk.plan);

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
    list_used(s_histograms, n, s_found);
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
             const struct source<T> &source, const struct constants<T> &k,
             struct cuda_chunk &chunk, uint32_t *s_histograms,
             struct findings *s_found)
{
    __shared__ struct sampled_stretches s_stretches;
    const struct terp_layout *layout = batch.d_layout;
    const unsigned active = dims_in_use(layout);
    const unsigned n = (1u << count_bits(active)) - 1;

    if (threadIdx.x == 0)
        find_stretches(layout, blockIdx.x, grid.nlorenzo, &s_stretches);
    clear_histograms(s_histograms, n, s_found);
    __syncthreads();
    sample_lorenzo(s_stretches, source, k, batch.max_code, s_histograms,
                   s_found);
    if (!find_costs(batch, 0, grid.lorenzo_record, blockIdx.x, grid.nlorenzo,
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
                terp_scale_cost(cost, layout->nvalues, s_costs[RECORD_NSAMPLED])
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
           const struct source<T> &source, const struct constants<T> &k,
           uint32_t *s_histograms, struct findings *s_found)
{
    __shared__ struct sampled_class s_class;
    const struct terp_layout *layout = batch.d_layout;
    int l = 1;

    while (l < grid.nlevels && blockIdx.x >= grid.first_block[l + 1])
        l++;
    unsigned nparts = grid.nparts[l];
    unsigned index = blockIdx.x - grid.first_block[l], part = index % nparts;
    unsigned active = active_dims(layout->level[l].nodd);
    unsigned nclasses = 1u << count_bits(active);
    unsigned number = nclasses - 1 - index / nparts;
    unsigned odd = subset_at(number, active);
    unsigned n = nhistograms_of(count_bits(odd));
    unsigned record = grid.first_record[l] + nparts * histograms_before(number);

    if (threadIdx.x == 0)
        find_class(layout, l, odd, part, nparts, &s_class);
    clear_histograms(s_histograms, n, s_found);
    __syncthreads();
    sample_class(s_class, source, k.inverse, k.max_code, s_histograms, s_found);
    if (!find_costs(batch, (unsigned)l * TERP_NCLASSES + odd, record, part,
                    nparts, s_histograms, n, s_found))
        return false;
    uint64_t *costs = region<uint64_t>(batch, blockIdx.y, batch.at.tune);
    for (unsigned h = threadIdx.x; h < n; h += blockDim.x) {
        const uint32_t *s_costs =
            s_histograms + h * HISTOGRAM_NWORDS + COSTS_AT;
        uint32_t nsampled = s_costs[RECORD_NSAMPLED];
        unsigned predicting = subset_at(h / TERP_NSPLINES + 1, odd);
        costs[cost_at(l, (int)(h % TERP_NSPLINES), odd, predicting)] =
            nsampled == 0 ? 0
                          : terp_scale_cost(cost_of_codes(s_costs),
                                            s_class.nvalues, nsampled);
    }
    return true;
}

/* Grid: struct tune_grid. Block: up to TUNER_MAX_NTHREADS; histograms of its
 * class, or of lorenzo, in dynamic shared memory. Blocks do not wait for each
 * other: the last of a class, by the class's counter, adds up what the others
 * left, and the last of those, by the chunk's, chooses. */
template <typename T>
static __global__ void
__launch_bounds__(TUNER_MAX_NTHREADS, sizeof(T) == 4 ? 2 : 1)
    tune(const struct cuda_batch batch, const struct tune_grid grid)
{
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
    if (state.status != TERP_OK || state.coding == TERP_CODING_CONSTANT)
        return;
    if (grid.nblocks > 0) {
        struct constants<T> k = constants_of<T>(step, bound, batch.max_code);
        uint32_t *s_histograms = dynamic_shared<uint32_t>();
        bool complete =
            blockIdx.x < grid.nlorenzo
                ? tune_lorenzo(batch, grid, source, k, chunk, s_histograms,
                               &s_found)
                : tune_class(batch, grid, source, k, s_histograms, &s_found);
        if (!complete ||
            !is_last_block(&chunk.progress[CUDA_PROGRESS_TUNE], grid.nclasses))
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
                                   LORENZO_PART_NVALUES, 4 * most_parts);
        grid->nhistograms = (1u << count_bits(dims_in_use(layout))) - 1;
        grid->nblocks = grid->nlorenzo;
        grid->nclasses = 1;
        nrecords = grid->nlorenzo * grid->nhistograms;
    }
    if (asked != TERP_PREDICTOR_LORENZO)
        grid->nlevels = layout->nlevels;
    for (int l = 1; l <= grid->nlevels; l++) {
        const struct terp_level *level = &layout->level[l];
        unsigned nodd = count_bits(active_dims(level->nodd));
        uint64_t nvalues = layout->nbricks; /* no class has more */
        for (int d = 0; d < TERP_NDIMS; d++)
            nvalues *= level->neven[d];
        grid->nparts[l] = nparts_of(min_u64(nvalues, terp_nsamples_of(nvalues)),
                                    SPLINE_PART_NVALUES, most_parts);
        grid->first_block[l] = grid->nblocks;
        grid->nclasses += (1u << nodd) - 1;
        grid->nblocks += ((1u << nodd) - 1) * grid->nparts[l];
        if (l == 1)
            grid->nhistograms = nhistograms_of(nodd);
        if (grid->nparts[l] == 1)
            continue;
        grid->first_record[l] = nrecords;
        nrecords += histograms_before(1u << nodd) * grid->nparts[l];
    }
    return nrecords;
}

template <typename T>
static cudaError_t
launch_tune(const struct cuda_batch *batch, const struct tune_grid *grid,
            cudaStream_t stream)
{
    const size_t always_nbytes = 40 << 10; /* of 48 KiB, the rest is static */
    size_t shared_nbytes = grid->nhistograms * HISTOGRAM_NWORDS * 4;
    unsigned nthreads =
        batch->nchunks == 1 ? TUNER_MAX_NTHREADS : TUNER_MAX_NTHREADS / 2;
    dim3 blocks(grid->nblocks > 0 ? grid->nblocks : 1,
                (unsigned)batch->nchunks);
    cudaError_t error = cudaSuccess;

    if (shared_nbytes > always_nbytes)
        error = cudaFuncSetAttribute(
            tune<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
            (int)shared_nbytes);
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
