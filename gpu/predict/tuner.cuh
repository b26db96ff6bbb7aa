/* Histograms of the tuner's blocks, and the costs of their counts. */
#pragma once

#include <stddef.h>

#include "codec/model/cost.h"
#include "gpu/predict/values.cuh"

/* Threads of a block. A single chunk has few blocks, and the slowest decides,
 * so each has many threads. Batches have many blocks. */
template <typename T>
static constexpr unsigned TUNE_SINGLE_NTHREADS = sizeof(T) == 4 ? 1024 : 512;
#define TUNE_BATCH_NTHREADS 256

/* Returns the number of dimensions of a set. */
static __host__ __device__ __forceinline__ constexpr unsigned
count_bits(unsigned dims)
{
    return (0x4332322132212110ull >> (4 * dims) & 15);
}

/* Returns a subset of a set of dimensions by its number. The bits of the number
 * are the bits of the subset, without gaps. Example: subset_at(2, dimensions 0
 * and 3) is dimension 3. */
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

/* ---- state ---- */

/* Starts to copy the chunk's state, up to its plan, to shared memory; it is
 * there after wait_async and a barrier. Each thread copies one word, since all
 * blocks read the same cache lines. */
static __device__ __forceinline__ void
fetch_state(const struct cuda_chunk *chunk, struct cuda_chunk *s_chunk)
{
    constexpr unsigned NWORDS =
        offsetof(struct cuda_chunk, model.plan) / sizeof(uint64_t);

    static_assert(NWORDS <= 32, "Each word has a thread of the first warp.");
    if (threadIdx.x < NWORDS)
        copy_async((uint64_t *)s_chunk + threadIdx.x,
                   (const uint64_t *)chunk + threadIdx.x);
}

static __device__ __forceinline__ bool
is_tuned(const struct cuda_chunk &chunk)
{
    return chunk.status == TERP_OK && chunk.coding != TERP_CODING_CONSTANT;
}

/* The values that are sampled. Special values are read as NaN. */
template <typename T> struct source {
    const T *values;
    bool has_specials;
    fill_words<T> fills;
    /* 1 / 2^(bits of the unit): a step as a multiple of the unit above the low
     * bits */
    T noise_scale;
};

template <typename T>
static __device__ __forceinline__ source<T>
source_of(const struct cuda_chunk &chunk)
{
    return {(const T *)chunk.src, chunk.has_specials, fills_of<T>(chunk),
            (T)1 / (T)(1 << terp_unit_nbits(chunk.model.wide))};
}

template <typename T>
static __device__ __forceinline__ T
known(const source<T> &source, T value)
{
    return source.has_specials && is_special(value, source.fills) ? (T)NAN
                                                                  : value;
}

/* ---- histograms ---- */

/* A histogram counts *slots*: one for each magnitude of codes, one for larger
 * magnitudes, which escape, and then slots for values without a code. Each of a
 * warp's lanes has TUNE_NROUNDS slots. After the counts follows a *record* of
 * TUNE_COSTS_NWORDS words: the cost under each entry of the dictionary, and the
 * counts of the enum below. RECORD_SUM, RECORD_NCOUNTED and RECORD_RUN_COST are
 * Lorenzo's: the sum of the codes that are counted, their number, and the cost
 * of their runs. */
#define TUNE_NSLOTS TERP_NROWS
#define TUNE_NROUNDS ((TUNE_NSLOTS + 31) / 32)
#define TUNE_COSTS_AT (32 * TUNE_NROUNDS)
#define TUNE_COSTS_NWORDS 84
#define TUNE_HISTOGRAM_NWORDS (TUNE_COSTS_AT + TUNE_COSTS_NWORDS)

enum {
    RECORD_NSAMPLED = TERP_NENTRIES,
    RECORD_NESCAPES,
    RECORD_NUNPREDICTABLE,
    RECORD_NNEAR,
    RECORD_NUNKNOWN,
    RECORD_NSPECIAL,
    RECORD_SUM,
    RECORD_NCOUNTED,
    RECORD_RUN_COST,
    RECORD_END
};
_Static_assert(RECORD_END <= TUNE_COSTS_NWORDS && TUNE_COSTS_NWORDS % 4 == 0,
               "A record holds all counts and is copied four words at a time.");

/* Returns the number of histograms of a class with `nodd` odd dimensions. A
 * class of one odd dimension has one for each spline. Other classes have one,
 * under the cubic spline, for each set of dimensions that may predict them. */
static __host__ __device__ __forceinline__ constexpr unsigned
nhistograms_of(unsigned nodd)
{
    return nodd == 1 ? TERP_NSPLINES : (1u << nodd) - 1;
}

/* Returns the number of dimensions that predict in the h-th histogram of class
 * `number`. */
static __device__ __forceinline__ unsigned
npredicting_of(unsigned number, unsigned h)
{
    return count_bits(number) == 1 ? 1 : count_bits(h + 1);
}

/* Returns the number of histograms of classes with lower numbers. */
static __host__ __device__ __forceinline__ unsigned
histograms_before(unsigned number)
{
    unsigned n = 0;
    for (unsigned i = 1; i < number; i++)
        n += nhistograms_of(count_bits(i));
    return n;
}

/* Returns the number of histograms of blended predictions, for levels that may
 * blend. Classes of three odd dimensions: blended in pairs, and fully. Classes
 * of two: linear, for which both are the same, and by a long spline. */
static __host__ __device__ __forceinline__ constexpr unsigned
nblends_of(unsigned nodd)
{
    return nodd == 2 || nodd == 3 ? 2 : 0;
}

/* Returns the number of such histograms of classes with lower numbers. */
static __host__ __device__ __forceinline__ constexpr unsigned
blends_before(unsigned number)
{
    unsigned n = 0;
    for (unsigned i = 1; i < number; i++)
        n += nblends_of(count_bits(i));
    return n;
}

/* Further counts of a block, besides its histograms. */
struct findings {
    uint32_t nsampled;
    uint32_t nunpredictable;
    uint32_t nnear;
};

/* The slots of TERP_ROW_UNKNOWN and TERP_ROW_SPECIAL are words of the record.
 */
#define TUNE_SLOT_UNKNOWN (TUNE_COSTS_AT + RECORD_NUNKNOWN)
#define TUNE_SLOT_SPECIAL (TUNE_COSTS_AT + RECORD_NSPECIAL)

static __device__ __forceinline__ void
count_slot(uint32_t *s_histogram, unsigned slot)
{
    atomicAdd(s_histogram + slot, 1u);
}

static __device__ void
clear_histograms(uint32_t *s_histograms, unsigned n, struct findings *s_found)
{
    uint4 *s_quads = (uint4 *)s_histograms;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < n * (TUNE_HISTOGRAM_NWORDS / 4);
         i += blockDim.x)
        s_quads[i] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x == 0) {
        s_found->nsampled = 0;
        s_found->nunpredictable = 0;
        s_found->nnear = 0;
    }
}

/* TUNE_NTOGETHER: histograms that a warp prices together. TUNE_NAHEAD: slots
 * whose costs a lane loads before it uses the first. TUNE_NLANE_ENTRIES:
 * entries of the dictionary per lane. */
#define TUNE_NTOGETHER 3
#define TUNE_NAHEAD 4
#define TUNE_NLANE_ENTRIES ((TERP_NENTRIES + 31) / 32)

/* A slice is the slots that one warp prices. Of each lane's TUNE_NROUNDS
 * consecutive slots, it has every nslices-th. Often only the first slots are in
 * use, so all slices have about the same number of used slots. */
_Static_assert(TUNE_NROUNDS % 2 == 1,
               "Lanes read different banks: their distance is odd.");

static __device__ __forceinline__ unsigned
slot_of_slice(unsigned i, unsigned slice, unsigned nslices)
{
    return i % 32 * TUNE_NROUNDS + slice + i / 32 * nslices;
}

/* A count is stored in one word with the number of its slot. */
#define TUNE_SLOT_NBITS 10
_Static_assert(TUNE_NSLOTS <= 1 << TUNE_SLOT_NBITS,
               "A slot's number fits its bits.");
_Static_assert((uint64_t)4 * TERP_MAX_NSAMPLES << TUNE_SLOT_NBITS <= (uint64_t)1
                                                                         << 32,
               "A count fits the bits that the slot's number leaves.");

/* Moves the counts of a slice to the front of the slice, for slots that are in
 * use in any of n histograms. Returns the number of such slots. A warp calls
 * it. */
static __device__ __forceinline__ unsigned
gather_slots(unsigned max_code, uint32_t *s_histograms, unsigned n,
             unsigned slice, unsigned nslices)
{
    const unsigned lane = threadIdx.x % 32;
    unsigned nused = 0;

#pragma unroll 1
    for (unsigned round = slice; round < TUNE_NROUNDS; round += nslices) {
        unsigned slot = lane * TUNE_NROUNDS + round;
        uint32_t counts[TUNE_NTOGETHER], any = 0;
#pragma unroll
        for (unsigned h = 0; h < TUNE_NTOGETHER; h++) {
            counts[h] =
                h < n ? s_histograms[h * TUNE_HISTOGRAM_NWORDS + slot] : 0;
            any |= counts[h];
        }
        unsigned used = __ballot_sync(FULL_WARP_MASK, any != 0);
        unsigned before = (unsigned)__popc(used & ((1u << lane) - 1));
        unsigned to = slot_of_slice(nused + before, slice, nslices);
        __syncwarp(); /* other lanes have read these words */
#pragma unroll
        for (unsigned h = 0; h < TUNE_NTOGETHER; h++) {
            if (any == 0 || h >= n)
                continue;
            uint32_t *s_histogram = s_histograms + h * TUNE_HISTOGRAM_NWORDS;
            s_histogram[to] = counts[h] << TUNE_SLOT_NBITS | slot;
            if (slot > max_code)
                s_histogram[TUNE_COSTS_AT + RECORD_NESCAPES] = counts[h];
        }
        nused += (unsigned)__popc(used);
    }
    __syncwarp();
    return nused;
}

/* A warp adds the costs of a slice to the records of n histograms. */
static __device__ __forceinline__ void
cost_slots(const uint16_t *cost, unsigned max_code, uint32_t *s_histograms,
           unsigned n, unsigned slice, unsigned nslices)
{
    const unsigned lane = threadIdx.x % 32;
    unsigned nused = gather_slots(max_code, s_histograms, n, slice, nslices);
    uint32_t sums[TUNE_NTOGETHER][TUNE_NLANE_ENTRIES] = {{0}};

#pragma unroll 1
    for (unsigned first = 0; first < nused; first += TUNE_NAHEAD) {
        uint32_t costs[TUNE_NAHEAD][TUNE_NLANE_ENTRIES];
        unsigned at[TUNE_NAHEAD];
#pragma unroll
        for (unsigned k = 0; k < TUNE_NAHEAD; k++) {
            at[k] = slot_of_slice(min(first + k, nused - 1), slice, nslices);
            unsigned slot = s_histograms[at[k]] & ((1u << TUNE_SLOT_NBITS) - 1);
            unsigned row = slot > max_code ? TERP_ROW_ESCAPE : slot;
            const uint16_t *costs_of_row =
                cost + row * TERP_ENTRY_STRIDE + lane;
#pragma unroll
            for (unsigned e = 0; e < TUNE_NLANE_ENTRIES; e++)
                costs[k][e] =
                    32 * e + lane < TERP_NENTRIES ? costs_of_row[32 * e] : 0u;
        }
#pragma unroll
        for (unsigned k = 0; k < TUNE_NAHEAD; k++) {
#pragma unroll
            for (unsigned h = 0; h < TUNE_NTOGETHER; h++) {
                uint32_t count =
                    h < n && first + k < nused
                        ? s_histograms[h * TUNE_HISTOGRAM_NWORDS + at[k]] >>
                              TUNE_SLOT_NBITS
                        : 0;
#pragma unroll
                for (unsigned e = 0; e < TUNE_NLANE_ENTRIES; e++)
                    sums[h][e] += count * costs[k][e];
            }
        }
    }
#pragma unroll
    for (unsigned h = 0; h < TUNE_NTOGETHER; h++)
#pragma unroll
        for (unsigned e = 0; e < TUNE_NLANE_ENTRIES; e++)
            if (h < n && 32 * e + lane < TERP_NENTRIES)
                atomicAdd(s_histograms + h * TUNE_HISTOGRAM_NWORDS +
                              TUNE_COSTS_AT + 32 * e + lane,
                          sums[h][e]);
}

/* Prices n histograms under each entry of the dictionary, by whole warps, and
 * completes their records. The counts are overwritten. Begins and ends with a
 * barrier. */
static __device__ void
cost_histograms(const uint16_t *cost, unsigned max_code, uint32_t *s_histograms,
                unsigned n, const struct findings *s_found)
{
    const unsigned nwarps = blockDim.x / 32;
    unsigned ngroups = (n + TUNE_NTOGETHER - 1) / TUNE_NTOGETHER;
    unsigned nslices = min(max(nwarps / ngroups, 1u), (unsigned)TUNE_NROUNDS);

    __syncthreads();
#pragma unroll 1
    for (unsigned task = threadIdx.x / 32; task < ngroups * nslices;
         task += nwarps) {
        unsigned first = task % ngroups * TUNE_NTOGETHER;
        cost_slots(cost, max_code, s_histograms + first * TUNE_HISTOGRAM_NWORDS,
                   n - first, task / ngroups, nslices);
    }
    for (unsigned h = threadIdx.x; h < n; h += blockDim.x) {
        uint32_t *s_histogram = s_histograms + h * TUNE_HISTOGRAM_NWORDS;
        s_histogram[TUNE_COSTS_AT + RECORD_NSAMPLED] = s_found->nsampled;
        s_histogram[TUNE_COSTS_AT + RECORD_NUNPREDICTABLE] =
            s_found->nunpredictable;
        s_histogram[TUNE_COSTS_AT + RECORD_NNEAR] = s_found->nnear;
    }
    __syncthreads();
}

/* Adds up records [nparts][n] to n records; record h goes to s_costs + h *
 * stride. */
static __device__ __forceinline__ void
add_records(const uint32_t *records, unsigned n, unsigned nparts,
            uint32_t *s_costs, unsigned stride)
{
    const unsigned nquads = TUNE_COSTS_NWORDS / 4;

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
        *(uint4 *)(s_costs + i / nquads * stride + i % nquads * 4) = sum;
    }
}

static __device__ __forceinline__ struct terp_beyond
beyond_of(const struct cuda_chunk &chunk)
{
    return {chunk.model.wide, chunk.escape_nbytes};
}

/* Returns the cost of the codes of a histogram under the best entry. A warp
 * calls it. */
static __device__ __forceinline__ uint64_t
cost_of_codes(const uint32_t *s_costs, unsigned ncodes,
              const struct terp_beyond &beyond)
{
    const unsigned lane = threadIdx.x % 32;
    uint32_t least = 0xFFFFFFFF;

#pragma unroll
    for (unsigned e = 0; e < TUNE_NLANE_ENTRIES; e++)
        if (32 * e + lane < TERP_NENTRIES)
            least = min(least, s_costs[32 * e + lane]);
    return terp_cost_of_codes(__reduce_min_sync(FULL_WARP_MASK, least), ncodes,
                              s_costs[RECORD_NESCAPES], beyond);
}
