/* Floor 3: what to predict with, estimated on samples of the original values.
 * The same samples, costs and ties as in cpu_tuner.c.
 *
 * Samples are predicted from original values, so nothing waits for anything:
 * one launch estimates all classes of all levels under all splines, and the
 * dimensions of lorenzo. Blocks count codes in shared memory and turn counts
 * into costs under each entry of the dictionary, which are sums: where blocks
 * share a class, the block that ends last adds theirs up. It also chooses. */
#include "cuda_tuner_lorenzo.cuh"
#include "cuda_tuner_spline.cuh"

/* A block takes this many samples or more; blocks that share a class leave
 * records to add up, so there is a limit to them. */
#define SPLINE_PART_NVALUES 512
#define LORENZO_PART_NVALUES 2048
#define MAX_NPARTS 8

/* The most that one block may be given: counts have 16 bits. Up to half as
 * many again are sampled where rows end with a short run. */
#define MAX_PART_NVALUES 32768
_Static_assert(TERP_MAX_NSAMPLES <= MAX_PART_NVALUES &&
                   3 * MAX_PART_NVALUES / 2 + 8 * TERP_SAMPLE_RUN_NVALUES <=
                       UINT16_MAX,
               "a class of one part can be counted");
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
    unsigned nlorenzo;
    unsigned lorenzo_record; /* first of them */
    int nlevels;             /* to be planned */
    unsigned nhistograms;    /* of a block, at most */
    unsigned first_block[TERP_MAX_LEVELS + 1];
    unsigned nparts[TERP_MAX_LEVELS + 1];
    unsigned first_record[TERP_MAX_LEVELS + 1]; /* where parts are many */
};

/* What a block leaves of a histogram, in the region `staging`: costs of its
 * codes by entry, and these. */
enum {
    RECORD_NSAMPLED = TERP_NENTRIES,
    RECORD_NESCAPES,
    RECORD_NJOINED,
    RECORD_NWORDS = COSTS_NWORDS
};
_Static_assert(RECORD_NJOINED < RECORD_NWORDS, "padding has room for these");

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

static __device__ void
write_records(uint32_t *records, const uint32_t *s_histograms, unsigned n,
              const struct findings *s_found)
{
    for (unsigned i = threadIdx.x; i < n * RECORD_NWORDS; i += TUNER_NTHREADS) {
        const uint32_t *s_histogram =
            s_histograms + i / RECORD_NWORDS * HISTOGRAM_NWORDS;
        unsigned word = i % RECORD_NWORDS;
        records[i] = word == RECORD_NSAMPLED   ? s_found->nsampled
                     : word == RECORD_NESCAPES ? count_of(s_histogram, 0)
                     : word == RECORD_NJOINED
                         ? s_found->njoined
                         : s_histogram[NCOUNT_WORDS + word];
    }
}

/* ---- choices: the block that ends last ---- */

/* A histogram of several blocks: costs of codes, escapes, values. */
struct sums {
    uint32_t least;
    uint32_t nsampled, nescapes, njoined;
};
_Static_assert(5 * sizeof(struct sums) <= 4 * HISTOGRAM_NWORDS,
               "a level's classes together have less than five times the "
               "histograms of the one that has most, whose memory this is");

/* Records [nparts][n] to n sums. */
static __device__ void
add_records(const uint32_t *records, unsigned n, unsigned nparts,
            struct sums *s_sums)
{
    const unsigned nquads = RECORD_NWORDS / 4;

    for (unsigned i = threadIdx.x; i < n; i += TUNER_NTHREADS) {
        s_sums[i].least = 0xFFFFFFFF;
        s_sums[i].nsampled = 0;
        s_sums[i].nescapes = 0;
        s_sums[i].njoined = 0;
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n * nquads; i += TUNER_NTHREADS) {
        const uint4 *quads = (const uint4 *)records + i;
        struct sums *s_sum = &s_sums[i / nquads];
        unsigned first = i % nquads * 4;
        uint32_t words[4] = {0}, least = 0xFFFFFFFF;
#pragma unroll 8
        for (unsigned part = 0; part < nparts; part++) {
            uint4 quad = quads[part * n * nquads];
            words[0] += quad.x;
            words[1] += quad.y;
            words[2] += quad.z;
            words[3] += quad.w;
        }
#pragma unroll
        for (unsigned w = 0; w < 4; w++) {
            if (first + w < TERP_NENTRIES)
                least = min(least, words[w]);
            else if (first + w == RECORD_NSAMPLED)
                s_sum->nsampled = words[w];
            else if (first + w == RECORD_NESCAPES)
                s_sum->nescapes = words[w];
            else if (first + w == RECORD_NJOINED)
                s_sum->njoined = words[w];
        }
        atomicMin(&s_sum->least, least);
    }
    __syncthreads();
}

static __device__ __forceinline__ uint64_t
cost_of_class(const struct terp_layout *layout, int l, unsigned odd,
              uint64_t cost, uint32_t nsampled)
{
    const struct terp_level *level = &layout->level[l];
    uint64_t nvalues = layout->nbricks;

    for (int d = 0; d < TERP_NDIMS; d++)
        nvalues *= odd >> d & 1 ? level->nodd[d] : level->neven[d];
    return nsampled == 0 ? 0 : terp_scale_cost(cost, nvalues, nsampled);
}

static __device__ void
add_level(const struct terp_layout *layout, int l, const uint32_t *records,
          unsigned nparts, struct sums *s_sums, uint64_t *costs)
{
    unsigned active = active_dims(layout->level[l].nodd);
    unsigned n = histograms_before(1u << count_bits(active));

    add_records(records, n, nparts, s_sums);
    for (unsigned i = threadIdx.x; i < n; i += TUNER_NTHREADS) {
        unsigned number = 1, h = i;
        while (h >= nhistograms_of(count_bits(number)))
            h -= nhistograms_of(count_bits(number++));
        unsigned odd = subset_at(number, active);
        unsigned predicting = subset_at(h / TERP_NSPLINES + 1, odd);
        uint64_t cost = s_sums[i].least + s_sums[i].nescapes * TERP_ESCAPE_COST;
        costs[cost_at(l, (int)(h % TERP_NSPLINES), odd, predicting)] =
            cost_of_class(layout, l, odd, cost, s_sums[i].nsampled);
    }
    __syncthreads();
}

static __device__ __forceinline__ uint64_t
cost_of_priorities(const uint64_t *costs, int l, int spline, unsigned active,
                   unsigned priorities)
{
    uint64_t cost = 0;
    for (unsigned odd = active; odd > 0; odd = (odd - 1) & active)
        cost += costs[cost_at(l, spline, odd,
                              terp_predicting_dims(odd, priorities))];
    return cost;
}

/* All levels' plans but for ratios. Returns the cost. Least are found among
 * keys of a cost and, below it, what ties go to; a chunk on a device has fewer
 * than 2^40 values, whose costs have less than 2^16 units each. */
static __device__ uint64_t
plan_levels(const struct terp_layout *layout, int nlevels,
            const uint64_t *costs, struct cuda_level_plan *plan)
{
    __shared__ unsigned long long s_least[TERP_MAX_LEVELS + 1];
    __shared__ unsigned long long s_cost;
    __shared__ uint8_t s_active[TERP_MAX_LEVELS + 1];

    for (int l = 1 + (int)threadIdx.x; l <= nlevels; l += TUNER_NTHREADS) {
        s_least[l] = ~0ull;
        s_active[l] = (uint8_t)active_dims(layout->level[l].nodd);
    }
    if (threadIdx.x == 0)
        s_cost = 0;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < nlevels * 256; i += TUNER_NTHREADS) {
        int l = i / 256 + 1;
        unsigned priorities = (unsigned)i % 256;
        if (!terp_priorities_are_canonical(priorities, s_active[l]))
            continue;
        uint64_t cost = cost_of_priorities(costs, l, TERP_SPLINE_CUBIC,
                                           s_active[l], priorities);
        atomicMin(&s_least[l], (unsigned long long)(cost << 8 | priorities));
    }
    __syncthreads();
    /* Four lanes a level, one for each spline. */
    for (int first = 0; first < 4 * nlevels; first += TUNER_NTHREADS) {
        int i = first + (int)threadIdx.x;
        int l = min(i / 4 + 1, nlevels), spline = i % 4;
        unsigned priorities = (unsigned)s_least[l] & 0xFF;
        uint64_t least = ~UINT64_C(0);
        if (spline < TERP_NSPLINES)
            least =
                cost_of_priorities(costs, l, spline, s_active[l], priorities)
                    << 2 |
                (unsigned)spline;
        for (int lanes = 2; lanes > 0; lanes /= 2)
            least = min_u64(least, __shfl_xor_sync(ALL_LANES, least, lanes));
        if (spline == 0 && i < 4 * nlevels) {
            plan[l].priorities = (uint8_t)priorities;
            plan[l].spline = (uint8_t)(least & 3);
            atomicAdd(&s_cost, (unsigned long long)(least >> 2));
        }
    }
    __syncthreads();
    return s_cost;
}

/* Returns the cost. Without a sample there is none, and all dimensions in use
 * are taken. */
static __device__ uint64_t
choose_dims(const struct terp_layout *layout, const uint32_t *records,
            unsigned nparts, struct sums *s_sums, unsigned *dims_ret)
{
    __shared__ unsigned long long s_least;
    unsigned active = dims_in_use(layout);
    unsigned n = nparts > 0 ? (1u << count_bits(active)) - 1 : 0;
    if (threadIdx.x == 0)
        s_least = ~0ull;
    add_records(records, n, nparts, s_sums);
    if (threadIdx.x < n && s_sums[threadIdx.x].nsampled > 0) {
        const struct sums *sums = &s_sums[threadIdx.x];
        uint64_t cost = sums->least + sums->nescapes * TERP_ESCAPE_COST +
                        sums->njoined * TERP_JOINED_COST;
        cost = terp_scale_cost(cost, layout->nvalues, sums->nsampled);
        /* Ties go to the larger set. */
        atomicMin(&s_least,
                  (unsigned long long)(cost << 4 | (14 - threadIdx.x)));
    }
    __syncthreads();
    uint64_t least = s_least;
    *dims_ret = least == ~UINT64_C(0)
                    ? active
                    : subset_at(15 - (unsigned)(least & 15), active);
    return least == ~UINT64_C(0) ? least : least >> 4;
}

static __device__ void
choose(const struct cuda_batch &batch, const struct tune_grid &grid,
       struct cuda_chunk &chunk)
{
    const struct terp_layout *layout = batch.d_layout;
    const uint32_t *records =
        region<uint32_t>(batch, blockIdx.y, batch.at.staging);
    uint64_t *costs = region<uint64_t>(batch, blockIdx.y, batch.at.tune);
    struct sums *s_sums = dynamic_shared<struct sums>();
    enum terp_predictor asked = batch.params.predictor;
    unsigned dims = 0;

    for (int l = 1; l <= grid.nlevels && grid.nparts[l] > 1; l++)
        add_level(layout, l, records + grid.first_record[l] * RECORD_NWORDS,
                  grid.nparts[l], s_sums, costs);
    uint64_t spline_cost = plan_levels(layout, grid.nlevels, costs, chunk.plan);
    uint64_t lorenzo_cost = ~UINT64_C(0);
    if (asked != TERP_PREDICTOR_SPLINE)
        lorenzo_cost =
            choose_dims(layout, records + grid.lorenzo_record * RECORD_NWORDS,
                        grid.nlorenzo, s_sums, &dims);
    for (int l = 1 + (int)threadIdx.x; l <= grid.nlevels; l += TUNER_NTHREADS)
        chunk.plan[l].ratio =
            (uint8_t)terp_ratio_of_level(l, spline_cost, layout->nvalues);
    if (threadIdx.x == 0) {
        bool lorenzo =
            asked == TERP_PREDICTOR_LORENZO ||
            (asked == TERP_PREDICTOR_AUTO && lorenzo_cost < spline_cost);
        chunk.prediction =
            lorenzo ? TERP_PREDICTION_LORENZO : TERP_PREDICTION_SPLINE;
        chunk.lorenzo_dims = dims;
        costs[COST_SPLINE] = spline_cost;
        costs[COST_LORENZO] = lorenzo_cost;
    }
}

/* ---- the kernel ---- */

template <typename T>
static __device__ void
tune_lorenzo(const struct cuda_batch &batch, const struct tune_grid &grid,
             const struct source<T> &source, const struct constants<T> &k,
             uint32_t *s_histograms, struct findings *s_found)
{
    __shared__ struct sampled_stretches s_stretches;
    const struct terp_layout *layout = batch.d_layout;
    unsigned n = (1u << count_bits(dims_in_use(layout))) - 1;

    if (threadIdx.x == 0)
        find_stretches(layout, blockIdx.x, grid.nlorenzo, &s_stretches);
    clear_histograms(s_histograms, n, s_found);
    __syncthreads();
    sample_lorenzo(s_stretches, source, k, batch.max_code, s_histograms,
                   s_found);
    __syncthreads();
    gather_counts(s_histograms, n, s_found);
    cost_histograms(batch.tables.d_cost, s_histograms, n, s_found);
    write_records(region<uint32_t>(batch, blockIdx.y, batch.at.staging) +
                      (grid.lorenzo_record + blockIdx.x * n) * RECORD_NWORDS,
                  s_histograms, n, s_found);
}

template <typename T>
static __device__ void
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

    if (threadIdx.x == 0)
        find_class(layout, l, odd, part, nparts, &s_class);
    clear_histograms(s_histograms, n, s_found);
    __syncthreads();
    sample_class(s_class, source, k.inverse, k.max_code, s_histograms, s_found);
    __syncthreads();
    gather_counts(s_histograms, n, s_found);
    cost_histograms(batch.tables.d_cost, s_histograms, n, s_found);
    if (nparts > 1) {
        unsigned record = grid.first_record[l] +
                          part * histograms_before(nclasses) +
                          histograms_before(number);
        write_records(region<uint32_t>(batch, blockIdx.y, batch.at.staging) +
                          record * RECORD_NWORDS,
                      s_histograms, n, s_found);
        return;
    }
    uint64_t *costs = region<uint64_t>(batch, blockIdx.y, batch.at.tune);
    for (unsigned h = threadIdx.x / 32; h < n; h += TUNER_NWARPS) {
        uint64_t cost = least_cost(s_histograms + h * HISTOGRAM_NWORDS);
        unsigned predicting = subset_at(h / TERP_NSPLINES + 1, odd);
        if (threadIdx.x % 32 == 0)
            costs[cost_at(l, (int)(h % TERP_NSPLINES), odd, predicting)] =
                cost_of_class(layout, l, odd, cost, s_found->nsampled);
    }
}

/* Grid: struct tune_grid. Block: TUNER_NTHREADS; histograms of its class, or of
 * lorenzo, in dynamic shared memory. Blocks do not wait for each other; the
 * last of a chunk, by its counter, reads what the others left. Registers let
 * two blocks of float32 share a multiprocessor, or one of float64. */
template <typename T>
static __global__ void
__launch_bounds__(TUNER_NTHREADS, sizeof(T) == 4 ? 2 : 1)
    tune(const struct cuda_batch batch, const struct tune_grid grid)
{
    begin_kernel();
    __shared__ struct findings s_found;
    __shared__ bool s_is_last;
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];

    if (chunk.status != TERP_OK || chunk.coding == TERP_CODING_CONSTANT)
        return;
    if (blockIdx.x < grid.nblocks) {
        struct source<T> source = {
            (const T *)chunk.src, chunk.has_specials, fills_of<T>(chunk)
        };
        struct constants<T> k =
            constants_of<T>(chunk.step, chunk.bound, batch.max_code);
        uint32_t *s_histograms = dynamic_shared<uint32_t>();
        if (blockIdx.x < grid.nlorenzo)
            tune_lorenzo(batch, grid, source, k, s_histograms, &s_found);
        else
            tune_class(batch, grid, source, k, s_histograms, &s_found);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        s_is_last =
            atomicAdd(&chunk.progress[CUDA_PROGRESS_TUNE], 1u) == gridDim.x - 1;
    __syncthreads();
    if (!s_is_last)
        return;
    __threadfence();
    choose(batch, grid, chunk);
}

/* ---- the launch ---- */

/* Parts for so many samples. */
static unsigned
nparts_of(uint64_t nsamples, uint64_t part_nvalues, unsigned most)
{
    uint64_t nparts = min_u64(div_up(nsamples, part_nvalues), most);
    uint64_t least = div_up(nsamples, MAX_PART_NVALUES);
    return (unsigned)(nparts < least ? least : nparts);
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
    dim3 blocks(grid->nblocks > 0 ? grid->nblocks : 1,
                (unsigned)batch->nchunks);
    cudaError_t error = cudaSuccess;

    if (shared_nbytes > always_nbytes)
        error = cudaFuncSetAttribute(
            tune<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
            (int)shared_nbytes);
    return error != cudaSuccess ? error
                                : launch(tune<T>, blocks, TUNER_NTHREADS,
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

    while (deal_blocks(batch, most_parts, &grid) * RECORD_NWORDS * 4 > room &&
           most_parts > 1)
        most_parts /= 2;
    return batch->chunk.type == TERP_FLOAT32
               ? launch_tune<float>(batch, &grid, stream)
               : launch_tune<double>(batch, &grid, stream);
}
