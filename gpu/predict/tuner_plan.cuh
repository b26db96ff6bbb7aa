/* The tuner's costs, and what is chosen by them. */
#pragma once

#include "codec/model/low_bits.h"
#include "gpu/predict/tuner.cuh"

/* ---- what blocks work on ---- */

/* How a launch's blocks, the blockIdx.y of each chunk, are assigned: first
 * lorenzo's, then by level from 1, class from the last, splines and then
 * blending, part. */
struct tune_grid {
    unsigned nblocks;
    unsigned dims_in_use;
    unsigned nlorenzo;
    unsigned lorenzo_record; /* first of them, of [nlorenzo] blocks */
    int nlevels;             /* to be planned */
    unsigned nhistograms;    /* of a block, at most */
    unsigned first_block[TERP_MAX_LEVELS + 1];
    unsigned nparts[TERP_MAX_LEVELS + 1]; /* 0: a small level, one block */
    uint8_t active[TERP_MAX_LEVELS + 1];  /* dimensions with odd points */
    bool is_large[TERP_MAX_LEVELS + 1];   /* may have a long spline */
    bool blends[TERP_MAX_LEVELS + 1];     /* whether a level may */
    bool is_joint; /* a class's block averages and blends */
    unsigned first_record[TERP_MAX_LEVELS + 1]; /* where parts are many */
};

/* Costs in the region `tune`: of each level, by class, as histograms stand
 * behind one another; then, by class, those of blending. */
static __device__ __forceinline__ uint64_t *
costs_of_level(const struct cuda_batch &batch, int l)
{
    return region<uint64_t>(batch, blockIdx.x, batch.at.tune) +
           (unsigned)l * CUDA_LEVEL_NCOSTS;
}

/* ---- candidates ---- */

/* Priorities of a level's active dimensions, pushed together, and by the
 * number of a class where its cost is, under the cubic spline, when these
 * dimensions predict it. */
struct candidate {
    uint8_t priorities;
    bool is_canonical;
    uint8_t at[TERP_NCLASSES];
};

/* Of levels with fewer active dimensions: n^n of those with n. */
static __device__ __forceinline__ constexpr unsigned
candidates_before(unsigned nactive)
{
    return nactive <= 1   ? 0
           : nactive == 2 ? 1
           : nactive == 3 ? 5
           : nactive == 4 ? 32
                          : 288;
}

#define CANDIDATES_MAX_N (candidates_before(TERP_NDIMS + 1))

/* Those of all levels, of which level 1 has the most: a thread a candidate and
 * class. */
static __device__ __forceinline__ void
find_candidates(const struct tune_grid &grid, struct candidate *s_candidates)
{
    const unsigned end = candidates_before(count_bits(grid.active[1]) + 1);

#pragma unroll 1
    for (unsigned i = threadIdx.x; i < end * TERP_NCLASSES; i += blockDim.x) {
        const unsigned nth = i / TERP_NCLASSES, odd = i % TERP_NCLASSES;
        unsigned nactive = 1, priorities = 0, set = 0, ndims = 0;
        while (nth >= candidates_before(nactive + 1))
            nactive++;
        unsigned left = nth - candidates_before(nactive);
        for (unsigned d = 0; d < nactive; d++) {
            priorities |= left % nactive << (2 * d);
            left /= nactive;
        }
        struct candidate &candidate = s_candidates[nth];
        if (odd == 0) {
            candidate.priorities = (uint8_t)priorities;
            candidate.is_canonical =
                terp_priorities_are_canonical(priorities, (1u << nactive) - 1);
            continue;
        }
        unsigned dims = terp_predicting_dims(odd, priorities);
        for (unsigned d = 0; d < TERP_NDIMS; d++)
            if (odd >> d & 1)
                set |= (dims >> d & 1) << ndims++;
        candidate.at[odd] = (uint8_t)(histograms_before(odd) + set - 1);
    }
}

/* ---- choices ---- */

#define CHOICE_NTHREADS 512
#define CHOICE_NWARPS (CHOICE_NTHREADS / 32)

/* Costs of a level of so many active dimensions. */
static __host__ __device__ __forceinline__ constexpr unsigned
ncosts_of(unsigned nactive)
{
    return UINT64_C(0x511F0D0500) >> (8 * nactive) & 0xFF;
}
_Static_assert(
    ncosts_of(4) == 81 - 16 + 4 * (TERP_NSPLINES - 1) &&
        ncosts_of(3) == 27 - 8 + 3 * (TERP_NSPLINES - 1) &&
        ncosts_of(2) == 9 - 4 + 2 * (TERP_NSPLINES - 1) &&
        ncosts_of(1) == TERP_NSPLINES,
    "Costs are of subsets of subsets, but for empty ones, and of the "
    "other splines for single dimensions.");

#define LEVEL_MAX_NCOSTS (ncosts_of(TERP_NDIMS) + blends_before(TERP_NCLASSES))
_Static_assert(LEVEL_MAX_NCOSTS <= CUDA_LEVEL_NCOSTS,
               "A level's costs fit its part of the region.");

struct choice_shared {
    struct cuda_chunk chunk; /* its state, up to the plan */
    struct candidate candidates[CANDIDATES_MAX_N];
    uint64_t spline_cost[TERP_MAX_LEVELS + 1]; /* of a level */
    uint64_t lorenzo_weight[TERP_NCLASSES];    /* of a set of dimensions */
    struct terp_price lorenzo_price[TERP_NCLASSES];
    alignas(16) uint32_t lorenzo_record[TERP_NCLASSES * TUNE_COSTS_NWORDS];
    uint64_t costs[CHOICE_NWARPS][LEVEL_MAX_NCOSTS]; /* a warp's level */
};

/* Costs of a level, for a warp: on their way to shared memory until
 * wait_async. */
static __device__ __forceinline__ void
fetch_costs(const struct cuda_batch &batch, const struct tune_grid &grid, int l,
            uint64_t *s_costs)
{
    const unsigned nactive = count_bits(grid.active[l]);
    const unsigned n = ncosts_of(nactive) +
                       (grid.blends[l] ? blends_before(1u << nactive) : 0);
    const uint64_t *costs = costs_of_level(batch, l);

#pragma unroll 1
    for (unsigned i = threadIdx.x % 32; i < n; i += 32)
        copy_async(s_costs + i, costs + i);
}

/* Costs of a level that blends: by a warp. */
static __device__ __forceinline__ struct terp_blend_costs
cost_blends(unsigned nactive, const uint64_t *s_costs)
{
    const unsigned lane = threadIdx.x % 32;
    const uint64_t *s_blends = s_costs + ncosts_of(nactive);
    uint64_t cost = 0;

    /* A lane a spline, then one a kind of blending. */
    if (lane < TERP_NSPLINES) {
#pragma unroll
        for (unsigned i = 0; i < TERP_NDIMS; i++)
            if (i < nactive)
                cost += s_costs[histograms_before(1u << i) + lane];
    } else if (lane < TERP_NSPLINES + 4) {
        const unsigned kind = lane - TERP_NSPLINES, nodd = 2 + kind / 2;
#pragma unroll
        for (unsigned number = 3; number < TERP_NCLASSES; number++)
            if (count_bits(number) == nodd && number < 1u << nactive)
                cost += s_blends[blends_before(number) + kind % 2];
    }
    struct terp_blend_costs costs;
#pragma unroll
    for (int s = 0; s < TERP_NSPLINES; s++)
        costs.single[s] = __shfl_sync(FULL_WARP_MASK, cost, s);
    costs.two = __shfl_sync(FULL_WARP_MASK, cost, TERP_NSPLINES);
    costs.two_long = __shfl_sync(FULL_WARP_MASK, cost, TERP_NSPLINES + 1);
    costs.three_pairs = __shfl_sync(FULL_WARP_MASK, cost, TERP_NSPLINES + 2);
    costs.three_full = __shfl_sync(FULL_WARP_MASK, cost, TERP_NSPLINES + 3);
    costs.average =
        nactive < TERP_NDIMS
            ? 0
            : s_costs[histograms_before(TERP_NCLASSES - 1) + TERP_NCLASSES - 2];
    return costs;
}

/* The cost of a level under a spline other than the cubic, and below it, in so
 * many bits, that spline: by a warp. */
#define SPLINE_NBITS 3
static __device__ __forceinline__ uint64_t
cost_spline(unsigned nactive, const uint64_t *s_costs,
            const struct candidate &candidate, unsigned spline)
{
    const unsigned odd = threadIdx.x % 32;
    uint64_t cost = 0, of_spline = 0, of_cubic = 0;

    /* A lane a class. */
    if (odd > 0 && odd < 1u << nactive) {
        unsigned dims = terp_predicting_dims(odd, candidate.priorities);
#pragma unroll
        for (unsigned i = 0; i < TERP_NDIMS; i++) {
            if (!(dims >> i & 1))
                continue;
            const uint64_t *s_single = s_costs + histograms_before(1u << i);
            of_spline += s_single[spline];
            of_cubic += s_single[TERP_SPLINE_CUBIC];
        }
        cost = terp_cost_under_spline(s_costs[candidate.at[odd]], of_spline,
                                      of_cubic);
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        cost += __shfl_xor_sync(FULL_WARP_MASK, cost, lanes);
    return terp_price_under_spline(cost, (int)spline) << SPLINE_NBITS | spline;
}
_Static_assert(TERP_SPLINE_CUBIC == 0 && TERP_NSPLINES <= 1 << SPLINE_NBITS,
               "Splines other than the cubic come after it, and have numbers "
               "of so many bits.");

/* A level's plan but for its bound, and its cost: by a warp. Least are found
 * among keys of a cost and, below it, what ties go to; a chunk on a device has
 * fewer than 2^40 values, whose costs have less than 2^16 units each. */
static __device__ __forceinline__ uint64_t
plan_level(unsigned active, bool is_large, bool blends, const uint64_t *s_costs,
           const struct candidate *s_candidates, struct terp_level_plan *plan)
{
    const unsigned nactive = count_bits(active), lane = threadIdx.x % 32;
    const unsigned end = candidates_before(nactive + 1);
    unsigned nth = 0;
    uint64_t least = ~UINT64_C(0);

#pragma unroll 1
    for (unsigned i = candidates_before(nactive) + lane; i < end; i += 32) {
        const struct candidate &candidate = s_candidates[i];
        uint64_t cost = 0;
        if (!candidate.is_canonical)
            continue;
#pragma unroll 4
        for (unsigned odd = 1; odd < 1u << nactive; odd++)
            cost += s_costs[candidate.at[odd]];
        uint64_t key = cost << 8 | candidate.priorities;
        if (key < least) {
            least = key;
            nth = i;
        }
    }
    uint64_t key = least;
#pragma unroll 1
    for (int lanes = 16; lanes > 0; lanes /= 2)
        least = min_u64(least, __shfl_xor_sync(FULL_WARP_MASK, least, lanes));
    unsigned winners = __ballot_sync(FULL_WARP_MASK, key == least);
    nth = __shfl_sync(FULL_WARP_MASK, nth, __ffs((int)winners) - 1);
    uint64_t least_spline = least >> 8 << SPLINE_NBITS;
    const unsigned nsplines = is_large ? TERP_NSPLINES : TERP_SPLINE_LONG;
    for (unsigned spline = 1; spline < nsplines; spline++) {
        /* The first candidate's priorities are equal. */
        const unsigned at =
            spline == TERP_SPLINE_MEAN ? candidates_before(nactive) : nth;
        least_spline =
            min_u64(least_spline,
                    cost_spline(nactive, s_costs, s_candidates[at], spline));
    }
    const unsigned taken = least_spline & ((1 << SPLINE_NBITS) - 1);
    unsigned pushed =
        terp_priorities_under_spline((unsigned)(least & 0xFF), (int)taken);
    unsigned priorities = 0;
    for (int d = 0; d < TERP_NDIMS; d++) {
        if (!(active >> d & 1))
            continue;
        priorities |= (pushed & 3) << (2 * d);
        pushed >>= 2;
    }
    struct terp_level_plan best = {(uint8_t)taken, (uint8_t)priorities, 0};
    uint64_t cost = least_spline >> SPLINE_NBITS;
    if (blends) {
        const struct terp_blend_costs costs = cost_blends(nactive, s_costs);
        cost = terp_choose_blending(&costs, cost, &best);
    }
    if (lane == 0) {
        plan->priorities = best.priorities;
        plan->spline = best.spline;
    }
    return cost;
}

/* What lorenzo costs along the h-th set of dimensions: by a warp. What it
 * weighs has below it what ties go to, the larger set; it is the largest number
 * if there is no sample. Of the set that is taken the cost in runs counts. */
static __device__ __forceinline__ void
weigh_lorenzo(const struct cuda_batch &batch, const uint32_t *s_record,
              const struct terp_beyond &beyond, int nbits_below, unsigned h,
              uint64_t *weight_ret, struct terp_price *price_ret)
{
    const struct terp_difference_samples samples = {
        s_record[RECORD_NSAMPLED],
        s_record[RECORD_NUNPREDICTABLE],
        s_record[RECORD_NNEAR],
        cost_of_codes(s_record, s_record[RECORD_NCOUNTED], beyond),
        s_record[RECORD_RUN_COST],
        s_record[RECORD_SUM],
        s_record[RECORD_NCOUNTED]};

    if (threadIdx.x % 32 > 0)
        return;
    if (samples.nsampled == 0) {
        *weight_ret = ~UINT64_C(0);
        return;
    }
    *weight_ret = terp_cost_of_differences(&samples, batch.nvalues, false)
                      << 4 |
                  (15 - h);
    *price_ret = {
        terp_cost_with_low_bits(
            terp_cost_of_differences(&samples, batch.nvalues, true),
            batch.nvalues, nbits_below),
        terp_scale_cost(samples.nnear, batch.nvalues, samples.nsampled)};
}

/* The bound of each level, and the prediction: by the first warp. */
static __device__ __forceinline__ void
decide(const struct cuda_batch &batch, const struct tune_grid &grid,
       const struct choice_shared *shared, struct cuda_chunk &chunk)
{
    const enum terp_predictor asked = batch.params.predictor;
    const int lane = (int)threadIdx.x;
    const int unit_nbits = terp_unit_nbits(shared->chunk.model.wide);
    uint64_t spline_cost = 0, least = ~UINT64_C(0);

    for (int l = 1; l <= grid.nlevels; l++)
        spline_cost += shared->spline_cost[l];
    spline_cost =
        terp_cost_with_low_bits(spline_cost, batch.nvalues, unit_nbits);
    for (int l = 1 + lane; l <= grid.nlevels; l += 32)
        chunk.model.plan[l].bound_ratio = (uint8_t)terp_bound_ratio_of(
            l, (int)count_bits(grid.dims_in_use), spline_cost, batch.nvalues);
    if (grid.nlorenzo > 0 && lane < 1 << count_bits(grid.dims_in_use))
        least = shared->lorenzo_weight[lane];
#pragma unroll 1
    for (int lanes = 16; lanes > 0; lanes /= 2)
        least = min_u64(least, __shfl_xor_sync(FULL_WARP_MASK, least, lanes));
    if (lane > 0)
        return;
    const bool any = least != ~UINT64_C(0);
    const unsigned set = 15 - (unsigned)(least & 15);
    const struct terp_price lorenzo =
        any ? shared->lorenzo_price[set] : terp_price{least, 0};
    const struct terp_price price[TERP_NPREDICTIONS] = {
        {0, 0}, {spline_cost, 0}, lorenzo};
    chunk.prediction = terp_choose_prediction(asked, price, batch.nvalues);
    /* Without a sample all dimensions in use are taken. */
    if (asked != TERP_PREDICTOR_SPLINE)
        chunk.model.lorenzo_dims = subset_at(any ? set : 15, grid.dims_in_use);
    chunk.spline_cost = spline_cost;
    chunk.lorenzo_cost = lorenzo.cost;
}

/* Grid: x chunks. A warp plans a level, or weighs lorenzo along a set of
 * dimensions. It lets the next kernel come at once, since `tune` let this one
 * come only when the kernels before `tune` had ended: what these wrote the next
 * kernel may read before it waits itself, such as the chunk's state, but for
 * prediction, plan and lorenzo_dims. */
static __global__ void
__launch_bounds__(CHOICE_NTHREADS)
    choose(const __grid_constant__ struct cuda_batch batch,
           const __grid_constant__ struct tune_grid grid)
{
    __shared__ struct choice_shared s;
    const int warp = (int)threadIdx.x / 32;
    const unsigned nsets =
        grid.nlorenzo > 0 ? 1u << count_bits(grid.dims_in_use) : 0;
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.x];
    uint64_t *s_costs = s.costs[warp];

    if (grid.nblocks > 0)
        let_next_kernel_come();
    find_candidates(grid, s.candidates);
    wait_for_kernels();
    let_next_kernel_come();
    fetch_state(&chunk, &s.chunk);
    if (1 + warp <= grid.nlevels)
        fetch_costs(batch, grid, 1 + warp, s_costs);
    add_records(region<uint32_t>(batch, blockIdx.x, batch.at.staging) +
                    grid.lorenzo_record * TUNE_COSTS_NWORDS,
                nsets, grid.nlorenzo, s.lorenzo_record, TUNE_COSTS_NWORDS);
    wait_async();
    __syncthreads();
    if (!is_tuned(s.chunk))
        return;
#pragma unroll 1
    for (int l = 1 + warp; l <= grid.nlevels; l += CHOICE_NWARPS) {
        if (l > 1 + warp) {
            __syncwarp();
            fetch_costs(batch, grid, l, s_costs);
            wait_async();
            __syncwarp();
        }
        uint64_t cost =
            plan_level(grid.active[l], grid.is_large[l], grid.blends[l],
                       s_costs, s.candidates, &chunk.model.plan[l]);
        if (threadIdx.x % 32 == 0)
            s.spline_cost[l] = cost;
    }
    /* The last warps seldom have levels. */
#pragma unroll 1
    for (int h = CHOICE_NWARPS - 1 - warp; h < (int)nsets; h += CHOICE_NWARPS) {
        weigh_lorenzo(batch, s.lorenzo_record + (unsigned)h * TUNE_COSTS_NWORDS,
                      beyond_of(s.chunk), cuda_nbits_below(s.chunk.model),
                      (unsigned)h, &s.lorenzo_weight[h], &s.lorenzo_price[h]);
    }
    __syncthreads();
    if (warp == 0)
        decide(batch, grid, &s, chunk);
}
