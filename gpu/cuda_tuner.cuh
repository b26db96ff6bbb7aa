/* Floor 3: what the tuner's blocks count, and what counts cost. */
#ifndef TERP_CUDA_TUNER_CUH
#define TERP_CUDA_TUNER_CUH

#include "cuda_values.cuh"

/* Blocks of a single chunk have this many threads, those of a batch half as
 * many. */
#define TUNER_MAX_NTHREADS 512

#define ALL_LANES 0xFFFFFFFFu

static __device__ __forceinline__ unsigned
warp_sum(unsigned n)
{
    for (int lanes = 16; lanes > 0; lanes /= 2)
        n += __shfl_xor_sync(ALL_LANES, n, lanes);
    return n;
}

/* Dimensions of a set. */
static __host__ __device__ __forceinline__ unsigned
count_bits(unsigned dims)
{
    return (0x4332322132212110ull >> (4 * dims) & 15);
}

/* Special values are taken for NaN. */
template <typename T> struct source {
    const T *values;
    bool has_specials;
    fill_words<T> fills;
};

template <typename T>
static __device__ __forceinline__ T
known(const struct source<T> &source, T value)
{
    return source.has_specials && is_special(value, source.fills) ? (T)NAN
                                                                  : value;
}

/* ---- histograms ---- */

/* A histogram counts slots: the magnitudes of codes, and behind the largest the
 * escape. Behind the counts are costs by entry, and what its record holds
 * besides. */
#define NSLOTS TERP_NROWS
#define COSTS_AT ((NSLOTS + 3) / 4 * 4)
#define COSTS_NWORDS TERP_ENTRY_STRIDE
#define HISTOGRAM_NWORDS (COSTS_AT + COSTS_NWORDS)

enum {
    RECORD_NSAMPLED = TERP_NENTRIES,
    RECORD_NESCAPES,
    RECORD_NJOINED,
    RECORD_LEAST /* of the costs */
};
_Static_assert(RECORD_LEAST < COSTS_NWORDS, "padding has room for these");

/* What a block found besides its histograms. */
struct findings {
    uint32_t nsampled;
    uint32_t njoined;
    uint32_t nused; /* slots in use in any histogram */
    uint16_t used[NSLOTS];
};

static __device__ __forceinline__ void
count_slot(uint32_t *s_histogram, unsigned slot)
{
    atomicAdd(s_histogram + slot, 1u);
}

static __device__ void
clear_histograms(uint32_t *s_histograms, unsigned n, struct findings *s_found)
{
    uint4 *s_quads = (uint4 *)s_histograms;
    for (unsigned i = threadIdx.x; i < n * (HISTOGRAM_NWORDS / 4);
         i += blockDim.x)
        s_quads[i] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x == 0) {
        s_found->nsampled = 0;
        s_found->njoined = 0;
        s_found->nused = 0;
    }
}

/* Lists the slots in use, in any order. */
static __device__ void
list_used(const uint32_t *s_histograms, unsigned n, struct findings *s_found)
{
    for (unsigned first = 0; first < NSLOTS; first += blockDim.x) {
        unsigned slot = first + threadIdx.x;
        uint32_t counts = 0;
        for (unsigned h = 0; slot < NSLOTS && h < n; h++)
            counts |= s_histograms[h * HISTOGRAM_NWORDS + slot];
        unsigned used = __ballot_sync(ALL_LANES, counts != 0);
        unsigned lane = threadIdx.x % 32, at = 0;
        if (lane == 0 && used != 0)
            at = atomicAdd(&s_found->nused, (unsigned)__popc(used));
        at = __shfl_sync(ALL_LANES, at, 0);
        if (used >> lane & 1)
            s_found->used[at + (unsigned)__popc(used & ((1u << lane) - 1))] =
                (uint16_t)slot;
    }
    __syncthreads();
}

/* Histograms that a warp costs together, slots whose costs it loads together,
 * and entries of a lane. */
#define NTOGETHER 3
#define NAHEAD 6
#define NLANE_ENTRIES ((TERP_NENTRIES + 31) / 32)

/* Adds a warp's share of the used slots to the costs of its histograms. */
static __device__ __forceinline__ void
cost_slots(const uint16_t *d_cost, unsigned max_code, uint32_t *s_histograms,
           unsigned n, unsigned slice, unsigned nslices,
           const struct findings *s_found)
{
    const unsigned lane = threadIdx.x % 32, nused = s_found->nused;
    uint32_t sums[NTOGETHER][NLANE_ENTRIES] = {{0}};

    for (unsigned first = slice; first < nused; first += NAHEAD * nslices) {
        uint32_t costs[NAHEAD][NLANE_ENTRIES];
        unsigned slots[NAHEAD];
#pragma unroll
        for (unsigned k = 0; k < NAHEAD; k++) {
            slots[k] = s_found->used[min(first + k * nslices, nused - 1)];
            unsigned row = slots[k] > max_code ? TERP_ROW_ESCAPE : slots[k];
            const uint16_t *cost = d_cost + row * TERP_ENTRY_STRIDE + lane;
#pragma unroll
            for (unsigned e = 0; e < NLANE_ENTRIES; e++)
                costs[k][e] = 32 * e + lane < TERP_NENTRIES ? cost[32 * e] : 0u;
        }
#pragma unroll
        for (unsigned k = 0; k < NAHEAD; k++) {
            if (first + k * nslices >= nused)
                break;
#pragma unroll
            for (unsigned h = 0; h < NTOGETHER; h++) {
                uint32_t count =
                    h < n ? s_histograms[h * HISTOGRAM_NWORDS + slots[k]] : 0;
#pragma unroll
                for (unsigned e = 0; e < NLANE_ENTRIES; e++)
                    sums[h][e] += count * costs[k][e];
            }
        }
    }
#pragma unroll
    for (unsigned h = 0; h < NTOGETHER; h++)
#pragma unroll
        for (unsigned e = 0; e < NLANE_ENTRIES; e++)
            if (h < n && 32 * e + lane < TERP_NENTRIES)
                atomicAdd(s_histograms + h * HISTOGRAM_NWORDS + COSTS_AT +
                              32 * e + lane,
                          sums[h][e]);
}

/* Costs of each histogram under each entry, by whole warps. */
static __device__ void
cost_histograms(const uint16_t *d_cost, unsigned max_code,
                uint32_t *s_histograms, unsigned n,
                const struct findings *s_found)
{
    const unsigned nwarps = blockDim.x / 32;
    unsigned ngroups = (n + NTOGETHER - 1) / NTOGETHER;
    unsigned nslices = max(nwarps / ngroups, 1u);

    for (unsigned task = threadIdx.x / 32; task < ngroups * nslices;
         task += nwarps) {
        unsigned first = task % ngroups * NTOGETHER;
        cost_slots(d_cost, max_code, s_histograms + first * HISTOGRAM_NWORDS,
                   n - first, task / ngroups, nslices, s_found);
    }
    for (unsigned h = threadIdx.x; h < n; h += blockDim.x) {
        uint32_t *s_histogram = s_histograms + h * HISTOGRAM_NWORDS;
        s_histogram[COSTS_AT + RECORD_NSAMPLED] = s_found->nsampled;
        s_histogram[COSTS_AT + RECORD_NESCAPES] = s_histogram[max_code + 1];
        s_histogram[COSTS_AT + RECORD_NJOINED] = s_found->njoined;
    }
    __syncthreads();
}

/* The least of each histogram's costs. */
static __device__ void
find_least(uint32_t *s_histograms, unsigned n)
{
    for (unsigned h = threadIdx.x / 32; h < n; h += blockDim.x / 32) {
        uint32_t *s_costs = s_histograms + h * HISTOGRAM_NWORDS + COSTS_AT;
        uint32_t least = 0xFFFFFFFF;
        for (unsigned e = threadIdx.x % 32; e < TERP_NENTRIES; e += 32)
            least = min(least, s_costs[e]);
        for (int lanes = 16; lanes > 0; lanes /= 2)
            least = min(least, __shfl_xor_sync(ALL_LANES, least, lanes));
        if (threadIdx.x % 32 == 0)
            s_costs[RECORD_LEAST] = least;
    }
    __syncthreads();
}

/* What a histogram's codes cost, with the words of escapes. */
static __device__ __forceinline__ uint64_t
cost_of_codes(const uint32_t *s_costs)
{
    return s_costs[RECORD_LEAST] + s_costs[RECORD_NESCAPES] * TERP_ESCAPE_COST;
}

#endif
