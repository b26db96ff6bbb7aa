/* Floor 3: the tuner's costs, and what is chosen by them. */
#ifndef TERP_CUDA_TUNER_PLAN_CUH
#define TERP_CUDA_TUNER_PLAN_CUH

#include "cuda_tuner.cuh"

/* ---- what blocks work on ---- */

/* How a launch's blocks, the blockIdx.x of each chunk, are dealt out: first
 * lorenzo's, then by level from 1, class from the last, part. */
struct tune_grid {
    unsigned nblocks;
    unsigned ntasks; /* lorenzo, and what several parts or one block do */
    unsigned dims_in_use;
    unsigned nlorenzo;
    unsigned lorenzo_record; /* first of them */
    int nlevels;             /* to be planned */
    unsigned nhistograms;    /* of a block, at most */
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

/* ---- choices ---- */

/* A level's costs by set of odd dimensions, set that predicts, spline. */
static __host__ __device__ __forceinline__ constexpr unsigned
ncosts_of(unsigned nodd)
{
    return TERP_NSPLINES << (2 * nodd);
}
/* With each dimension less a quarter of the costs are left, but a third of the
 * histograms or more. */
_Static_assert(TUNER_MAX_NTHREADS / 32 * ncosts_of(TERP_NDIMS) * 8 <=
                   TERP_NSPLINES * (TERP_NCLASSES - 1) * HISTOGRAM_NWORDS * 4,
               "costs of each warp have room where histograms were");

/* A level's plan but for its ratio, and its cost: by a warp, which copies the
 * level's costs to `s_costs` first. Dimensions are those that are active,
 * pushed together. Least are found among keys of a cost and, below it, what
 * ties go to; a chunk on a device has fewer than 2^40 values, whose costs have
 * less than 2^16 units each. */
static __device__ __forceinline__ uint64_t
plan_level(const struct tune_grid &grid, int l, const uint64_t *costs,
           uint64_t *s_costs, struct cuda_level_plan *plan)
{
    const unsigned active = grid.active[l];
    const unsigned nactive = count_bits(active), lane = threadIdx.x % 32;
    const unsigned nsets = 1u << nactive;
    unsigned ncandidates = 1;
    uint64_t least = ~UINT64_C(0), least_spline = 0;

#pragma unroll 2
    for (unsigned i = lane; i < nsets * nsets; i += 32) {
        unsigned odd = i / nsets, predicting = i % nsets;
        bool exists = predicting != 0 && (predicting & ~odd) == 0;
        odd = subset_at(odd, active);
        predicting = subset_at(predicting, active);
#pragma unroll
        for (int s = 0; s < TERP_NSPLINES; s++)
            s_costs[i * TERP_NSPLINES + s] =
                exists ? costs[cost_at(l, s, odd, predicting)] : 0;
    }
    __syncwarp();
    for (unsigned i = 0; i < nactive; i++)
        ncandidates *= nactive;
#pragma unroll 1
    for (unsigned i = lane; i < ncandidates; i += 32) {
        uint64_t cost[TERP_NSPLINES] = {0};
        unsigned priorities = 0, left = i;
        for (unsigned d = 0; d < nactive; d++) {
            priorities |= left % nactive << (2 * d);
            left /= nactive;
        }
        if (!terp_priorities_are_canonical(priorities, nsets - 1))
            continue;
#pragma unroll 1
        for (unsigned odd = 1; odd < nsets; odd++) {
            unsigned at = odd * nsets + terp_predicting_dims(odd, priorities);
            for (int s = 0; s < TERP_NSPLINES; s++)
                cost[s] += s_costs[at * TERP_NSPLINES + s];
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
#pragma unroll 1
    for (int lanes = 16; lanes > 0; lanes /= 2)
        least = min_u64(least, __shfl_xor_sync(ALL_LANES, least, lanes));
    unsigned winners = __ballot_sync(ALL_LANES, key == least);
    least_spline =
        __shfl_sync(ALL_LANES, least_spline, __ffs((int)winners) - 1);
    if (lane == 0) {
        unsigned pushed = (unsigned)(least & 0xFF), priorities = 0;
        for (int d = 0; d < TERP_NDIMS; d++) {
            if (!(active >> d & 1))
                continue;
            priorities |= (pushed & 3) << (2 * d);
            pushed >>= 2;
        }
        plan->priorities = (uint8_t)priorities;
        plan->spline = (uint8_t)(least_spline & 3);
    }
    __syncwarp();
    return least_spline >> 2;
}

/* All levels' plans. Returns the cost. Level 1 has as many active dimensions as
 * any. */
static __device__ uint64_t
plan_levels(const struct cuda_batch &batch, const struct tune_grid &grid,
            const uint64_t *costs, uint64_t *s_costs,
            struct cuda_level_plan *plan)
{
    const int nlevels = grid.nlevels;
    __shared__ uint64_t s_cost[TERP_MAX_LEVELS + 1];
    uint64_t cost = 0;

    for (int l = 1 + (int)threadIdx.x / 32; l <= nlevels;
         l += (int)blockDim.x / 32) {
        uint64_t *s_costs_of_warp =
            s_costs + threadIdx.x / 32 * ncosts_of(count_bits(grid.active[1]));
        uint64_t cost_of_level =
            plan_level(grid, l, costs, s_costs_of_warp, &plan[l]);
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

/* Of the dynamic shared memory each warp takes a level's costs. */
static __device__ void
choose(const struct cuda_batch &batch, const struct tune_grid &grid,
       uint64_t *s_costs, struct cuda_chunk &chunk)
{
    uint64_t *costs = region<uint64_t>(batch, blockIdx.y, batch.at.tune);
    enum terp_predictor asked = batch.params.predictor;
    uint64_t lorenzo_cost =
        grid.nlorenzo > 0 ? costs[COST_LORENZO] : ~UINT64_C(0);
    uint64_t spline_cost = plan_levels(batch, grid, costs, s_costs, chunk.plan);

    if (threadIdx.x == 0) {
        bool lorenzo =
            asked == TERP_PREDICTOR_LORENZO ||
            (asked == TERP_PREDICTOR_AUTO && lorenzo_cost < spline_cost);
        chunk.prediction =
            lorenzo ? TERP_PREDICTION_LORENZO : TERP_PREDICTION_SPLINE;
        /* Without a sample all dimensions in use are taken. */
        if (asked != TERP_PREDICTOR_SPLINE && lorenzo_cost == ~UINT64_C(0))
            chunk.lorenzo_dims = grid.dims_in_use;
        costs[COST_SPLINE] = spline_cost;
        costs[COST_LORENZO] = lorenzo_cost;
    }
}

#endif
