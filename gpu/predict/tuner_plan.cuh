/* The costs that the tuner has found, and the choice by these costs. */
#pragma once

#include "codec/model/low_bits.h"
#include "gpu/predict/tuner.cuh"

/* ---- tasks of blocks ---- */

/* The tasks of a launch's blocks by blockIdx.y. First come Lorenzo's blocks,
 * then the blocks of level 1, level 2 and so on. Within a level the last class
 * comes first. Within a class, blocks that average come before blocks that
 * blend. */
struct tune_grid {
    unsigned nblocks;
    unsigned dims_in_use;
    unsigned nlorenzo;
    unsigned lorenzo_record; /* index of Lorenzo's first record */
    int nlevels;             /* levels to plan */
    unsigned nhistograms;    /* the most of a block */
    unsigned first_block[TERP_MAX_LEVELS + 1];
    /* blocks per class; 0: one block has the whole level */
    unsigned nparts[TERP_MAX_LEVELS + 1];
    uint8_t active[TERP_MAX_LEVELS + 1]; /* dimensions with odd points */
    bool is_large[TERP_MAX_LEVELS + 1];  /* the level may have a long spline */
    bool blends[TERP_MAX_LEVELS + 1];    /* the level may blend */
    bool is_joint; /* a block of a class averages and blends */
    /* if a class has several blocks */
    unsigned first_record[TERP_MAX_LEVELS + 1];
};

/* Returns the costs of level l in the region `tune`: a cost for each histogram
 * of each class, in the order of the histograms, then the costs of blending,
 * class by class. */
static __device__ __forceinline__ uint64_t *
costs_of_level(const struct cuda_batch &batch, int l)
{
    return region<uint64_t>(batch, blockIdx.x, batch.at.tune) +
           (unsigned)l * CUDA_LEVEL_NCOSTS;
}

/* ---- candidates ---- */

/* A candidate: priorities of a level's active dimensions, numbered without
 * gaps. at[number] is the index of the cost of class `number` under the cubic
 * spline, if the dimensions of highest priority predict it. */
struct candidate {
    uint8_t priorities;
    bool is_canonical;
    uint8_t at[TERP_NCLASSES];
};

/* Returns the number of candidates for levels with fewer active dimensions. A
 * level with n active dimensions has n^n candidates. */
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

/* Makes the candidates of all levels. A thread handles one candidate and class
 * at a time. Level 1 has the most active dimensions. */
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

/* Threads, and warps, of the block that chooses. */
#define CHOICE_NTHREADS 512
#define CHOICE_NWARPS (CHOICE_NTHREADS / 32)

/* Returns the number of costs of a level with `nactive` active dimensions.
 * Costs of blending do not count. */
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
    "A class has a cost for each set of dimensions that may predict it; a "
    "class of one dimension has one for each spline.");

#define LEVEL_MAX_NCOSTS (ncosts_of(TERP_NDIMS) + blends_before(TERP_NCLASSES))
_Static_assert(LEVEL_MAX_NCOSTS <= CUDA_LEVEL_NCOSTS,
               "A level's costs fit its space in the region.");

struct choice_shared {
    struct cuda_chunk chunk; /* the state, up to its plan */
    struct candidate candidates[CANDIDATES_MAX_N];
    uint64_t spline_cost[TERP_MAX_LEVELS + 1]; /* of each level */
    uint64_t lorenzo_weight[TERP_NCLASSES];    /* of each set of dimensions */
    struct terp_price lorenzo_price[TERP_NCLASSES];
    alignas(16) uint32_t lorenzo_record[TERP_NCLASSES * TUNE_COSTS_NWORDS];
    /* of the level that a warp plans */
    uint64_t costs[CHOICE_NWARPS][LEVEL_MAX_NCOSTS];
};

/* A warp starts to copy the costs of a level to shared memory; they are there
 * after wait_async. */
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

/* Sums up the costs of a level that may blend. A warp calls it. */
static __device__ __forceinline__ struct terp_blend_costs
cost_blends(unsigned nactive, const uint64_t *s_costs)
{
    const unsigned lane = threadIdx.x % 32;
    const uint64_t *s_blends = s_costs + ncosts_of(nactive);
    uint64_t cost = 0;

    /* The first lanes have one spline each, the next four one kind of blending
     * each. */
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
    costs.ndims = (int)nactive;
    return costs;
}

/* Returns the cost of a level under a spline other than the cubic one. The
 * spline is in the lowest SPLINE_NBITS bits, so a minimum of such numbers also
 * selects the spline. A warp calls it. */
#define SPLINE_NBITS 3
static __device__ __forceinline__ uint64_t
cost_spline(unsigned nactive, const uint64_t *s_costs,
            const struct candidate &candidate, unsigned spline)
{
    const unsigned odd = threadIdx.x % 32;
    uint64_t cost = 0, of_spline = 0, of_cubic = 0;

    /* Each lane has a class. */
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
               "The cubic spline is number 0, and all numbers fit "
               "SPLINE_NBITS.");

/* Plans a level, except its bound; returns its cost. A warp calls it. It finds
 * the minimum of keys that hold a cost and, in the bits below it, the order of
 * ties. A chunk on a device has fewer than 2^40 values, and each costs less
 * than 2^16 units, so a key fits 64 bits. */
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
        /* The first candidate has equal priorities. */
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

/* Weighs Lorenzo along the h-th set of dimensions; a warp calls it. *weight_ret
 * holds the cost and, in the bits below it, the order of ties, in favour of the
 * larger set. It is the largest number if there are no samples. *price_ret also
 * counts the cost of runs. */
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

/* Chooses the bound of each level, and the prediction. The first warp calls it.
 */
static __device__ __forceinline__ void
decide(const struct cuda_batch &batch, const struct tune_grid &grid,
       const struct choice_shared *shared, struct cuda_chunk &chunk)
{
    const enum terp_predictor predictor = batch.encoding.params.predictor;
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
    chunk.prediction = terp_choose_prediction(predictor, price, batch.nvalues);
    /* Without samples, all dimensions in use are taken. */
    if (predictor != TERP_PREDICTOR_SPLINE)
        chunk.model.lorenzo_dims = subset_at(any ? set : 15, grid.dims_in_use);
    chunk.spline_cost = spline_cost;
    chunk.lorenzo_cost = lorenzo.cost;
}

/* Grid: x = chunks. Block: CHOICE_NTHREADS threads. A warp plans a level at a
 * time, or weighs Lorenzo along a set of dimensions; the first warp decides.
 * Shared memory: struct choice_shared; one barrier after it is filled, and one
 * before the decision.
 *
 * The kernel triggers the next launch at once, since `tune` triggers this one
 * only after the kernels before `tune` have ended. The next kernel may
 * therefore read their results before it waits itself: for example the chunk's
 * state, except prediction, plan and lorenzo_dims. */
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
    /* The last warps seldom have a level to plan. */
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
