/* Floor 3: what the tuner's blocks count, and what counts cost. */
#ifndef TERP_CUDA_TUNER_CUH
#define TERP_CUDA_TUNER_CUH

#include "cuda_values.cuh"

/* A block takes the samples of a small chunk's class, or of its part of one,
 * in a round or two. */
#define TUNER_NTHREADS 512
#define TUNER_NWARPS (TUNER_NTHREADS / 32)

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
load(const struct source<T> &source, const T *at)
{
    T value = *at;
    return source.has_specials && is_special(value, source.fills) ? (T)NAN
                                                                  : value;
}

/* ---- histograms ---- */

/* A histogram counts slots: 0 the escape, 1 .. the magnitudes of codes. Two
 * slots share a word. Most samples fall into the first few slots, which each
 * lane counts for itself until all are counted. Afterwards the lanes' words
 * hold costs by entry. */
#define NSLOTS TERP_NROWS
#define NCOUNT_WORDS ((NSLOTS + 1) / 2)
#define NCOMMON_WORDS 4
#define NLANE_WORDS (NCOMMON_WORDS * 32)
#define HISTOGRAM_NWORDS (NCOUNT_WORDS + NLANE_WORDS)
#define COSTS_NWORDS TERP_ENTRY_STRIDE
_Static_assert(COSTS_NWORDS <= NLANE_WORDS, "costs replace lanes' counts");

#define MAX_NHISTOGRAMS (TERP_NSPLINES * (TERP_NCLASSES - 1))

/* The costs of eight entries are one load. */
#define NOCTETS (TERP_ENTRY_STRIDE / 8)
_Static_assert(MAX_NHISTOGRAMS *NOCTETS <= TUNER_NTHREADS, "a thread each");

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
    unsigned word = slot / 2;
    unsigned at = word < NCOMMON_WORDS
                      ? NCOUNT_WORDS + word * 32 + threadIdx.x % 32
                      : word;
    atomicAdd(s_histogram + at, 1u << (16 * (slot % 2)));
}

static __device__ __forceinline__ uint32_t
count_of(const uint32_t *s_histogram, unsigned slot)
{
    return s_histogram[slot / 2] >> (16 * (slot % 2)) & 0xFFFF;
}

static __device__ void
clear_histograms(uint32_t *s_histograms, unsigned n, struct findings *s_found)
{
    for (unsigned i = threadIdx.x; i < n * HISTOGRAM_NWORDS;
         i += TUNER_NTHREADS)
        s_histograms[i] = 0;
    if (threadIdx.x == 0) {
        s_found->nsampled = 0;
        s_found->njoined = 0;
        s_found->nused = 0;
    }
}

/* Adds up what lanes counted. Lists the slots in use, in any order. */
static __device__ void
gather_counts(uint32_t *s_histograms, unsigned n, struct findings *s_found)
{
    for (unsigned i = threadIdx.x; i < n * NCOMMON_WORDS; i += TUNER_NTHREADS) {
        uint32_t *s_histogram =
            s_histograms + i / NCOMMON_WORDS * HISTOGRAM_NWORDS;
        unsigned word = i % NCOMMON_WORDS;
        uint32_t sum = 0;
        /* Each thread begins at another bank. */
        for (unsigned k = 0; k < 32; k++)
            sum += s_histogram[NCOUNT_WORDS + word * 32 + (k + i) % 32];
        s_histogram[word] = sum;
    }
    __syncthreads();
    for (unsigned first = 0; first < NCOUNT_WORDS; first += TUNER_NTHREADS) {
        unsigned word = first + threadIdx.x;
        uint32_t counts = 0;
        for (unsigned h = 0; word < NCOUNT_WORDS && h < n; h++)
            counts |= s_histograms[h * HISTOGRAM_NWORDS + word];
        unsigned low = __ballot_sync(ALL_LANES, (counts & 0xFFFF) != 0);
        unsigned high = __ballot_sync(ALL_LANES, counts >> 16 != 0);
        unsigned lane = threadIdx.x % 32, before = (1u << lane) - 1;
        unsigned at = 0;
        if (lane == 0 && (low | high) != 0)
            at = atomicAdd(&s_found->nused,
                           (unsigned)(__popc(low) + __popc(high)));
        at = __shfl_sync(ALL_LANES, at, 0) +
             (unsigned)(__popc(low & before) + __popc(high & before));
        if (low >> lane & 1)
            s_found->used[at++] = (uint16_t)(2 * word);
        if (high >> lane & 1)
            s_found->used[at] = (uint16_t)(2 * word + 1);
    }
    for (unsigned i = threadIdx.x; i < n * COSTS_NWORDS; i += TUNER_NTHREADS)
        s_histograms[i / COSTS_NWORDS * HISTOGRAM_NWORDS + NCOUNT_WORDS +
                     i % COSTS_NWORDS] = 0;
    __syncthreads();
}

/* Costs of each histogram under each entry, in place of the lanes' counts. A
 * thread has eight entries and, with others, one histogram. */
static __device__ void
cost_histograms(const uint16_t *d_cost, uint32_t *s_histograms, unsigned n,
                const struct findings *s_found)
{
    unsigned octet = threadIdx.x % NOCTETS, rest = threadIdx.x / NOCTETS;
    unsigned nslices = TUNER_NTHREADS / NOCTETS / n;
    unsigned slice = rest / n, nused = s_found->nused;
    uint32_t *s_histogram = s_histograms + rest % n * HISTOGRAM_NWORDS;
    uint32_t sums[8] = {0};

    for (unsigned i = slice; slice < nslices && i < nused; i += 4 * nslices) {
        uint4 costs[4];
        uint32_t counts[4];
#pragma unroll
        for (unsigned k = 0; k < 4; k++) {
            unsigned at = i + k * nslices;
            unsigned slot = at < nused ? s_found->used[at] : 0;
            unsigned row = slot == 0 ? TERP_ROW_ESCAPE : slot - 1;
            counts[k] = at < nused ? count_of(s_histogram, slot) : 0;
            costs[k] = make_uint4(0, 0, 0, 0);
            if (counts[k] != 0)
                costs[k] = *(const uint4 *)(d_cost + row * TERP_ENTRY_STRIDE +
                                            octet * 8);
        }
#pragma unroll
        for (unsigned k = 0; k < 4; k++) {
            const uint32_t words[4] = {costs[k].x, costs[k].y, costs[k].z,
                                       costs[k].w};
#pragma unroll
            for (unsigned e = 0; e < 4; e++) {
                sums[2 * e] += counts[k] * (words[e] & 0xFFFF);
                sums[2 * e + 1] += counts[k] * (words[e] >> 16);
            }
        }
    }
    for (unsigned e = 0; e < 8; e++)
        if (sums[e] != 0)
            atomicAdd(s_histogram + NCOUNT_WORDS + octet * 8 + e, sums[e]);
    __syncthreads();
}

/* A histogram's least cost, of codes and escaped words, by a warp. */
static __device__ __forceinline__ uint64_t
least_cost(const uint32_t *s_histogram)
{
    unsigned least = 0xFFFFFFFF;
    for (unsigned e = threadIdx.x % 32; e < TERP_NENTRIES; e += 32)
        least = min(least, s_histogram[NCOUNT_WORDS + e]);
    for (int lanes = 16; lanes > 0; lanes /= 2)
        least = min(least, __shfl_xor_sync(ALL_LANES, least, lanes));
    return least + count_of(s_histogram, 0) * TERP_ESCAPE_COST;
}

#endif
