/* Samples the differences of the Lorenzo predictor. terp_cpu_lorenzo_tune takes
 * the same samples. */
#pragma once

#include "codec/model/low_bits.h"
#include "gpu/predict/tuner.cuh"

/* The stretches of rows that a block samples. */
struct sampled_stretches {
    uint64_t dims[TERP_NDIMS];
    uint64_t stride[TERP_NDIMS];
    uint64_t nper_row;
    uint64_t every;
    uint32_t first, end;
    unsigned slower; /* bit d - 1: dimension d is in use */
};

static __device__ void
find_stretches(const struct terp_layout *layout, unsigned part, unsigned nparts,
               struct sampled_stretches *some)
{
    uint64_t stride = 1;

    some->slower = 0;
    for (int d = 0; d < TERP_NDIMS; d++) {
        some->dims[d] = layout->dims[d];
        some->stride[d] = stride;
        stride *= layout->dims[d];
        if (d > 0)
            some->slower |= (unsigned)(layout->dims[d] > 1) << (d - 1);
    }
    some->nper_row = div_up(layout->dims[0], TERP_LORENZO_NVALUES);
    some->every = terp_lorenzo_distance(layout->nvalues);
    uint64_t nstretches = layout->nvalues / layout->dims[0] * some->nper_row;
    uint32_t nsampled =
        (uint32_t)div_up(nstretches - some->every / 2, some->every);
    some->first = nsampled * part / nparts;
    some->end = nsampled * (part + 1) / nparts;
}

/* The rows whose values make a difference along dimensions above 0. Bit d - 1
 * of a *corner* is set if the row is one step back along dimension d. */
#define TUNE_MAX_NCORNERS (1 << (TERP_NDIMS - 1))
_Static_assert(TUNE_MAX_NCORNERS <= 32, "Each corner has a lane.");
_Static_assert(TERP_LORENZO_RUN_NVALUES == 32,
               "The values that a warp takes at a time are a run.");

static __device__ constexpr unsigned
lowest_bit(unsigned corner)
{
    unsigned bit = 0;

    while ((corner >> bit & 1) == 0)
        bit++;
    return bit;
}

template <typename T> struct stretch {
    const T *values;
    uint32_t nvalues;
    uint32_t first;  /* index of the first value that counts */
    unsigned exists; /* bit d - 1: there is a row before it along dimension d */
};

template <typename T>
static __device__ __forceinline__ stretch<T>
find_stretch(const volatile struct sampled_stretches &some, const T *values,
             uint32_t nth)
{
    uint64_t at = some.every / 2 + nth * some.every;
    uint64_t nper_row = some.nper_row;
    uint64_t row = nper_row == 1 ? at : at / nper_row, left = row;
    uint64_t x = (at - row * nper_row) * TERP_LORENZO_NVALUES;
    struct stretch<T> stretch;

    stretch.values = values + row * some.dims[0] + x;
    stretch.nvalues = (uint32_t)min_u64(TERP_LORENZO_NVALUES, some.dims[0] - x);
    stretch.first = (uint32_t)terp_lorenzo_first(x);
    stretch.exists = 0;
    for (int d = 1; d < TERP_NDIMS; d++) {
        uint64_t dim = some.dims[d], slower = dim == 1 ? left : left / dim;
        stretch.exists |= (unsigned)(left - slower * dim > 0) << (d - 1);
        left = slower;
    }
    return stretch;
}

/* Returns the quant of a value; K says how, see quant_of. Special values, and
 * values that their quant does not reproduce, are not valid. They repeat the
 * quant of the lane before them in `group`, or `last` if no lane of the group
 * is valid. The result is 0 if `exists` is false. The whole warp calls it. */
template <typename T, typename K>
static __device__ __forceinline__ int_of<T>
integer_of(const source<T> &source, T value, bool exists, const K &k,
           unsigned group, int_of<T> last, bool *valid_ret,
           bool *is_unpredictable_ret)
{
    bool special = source.has_specials && is_special(value, source.fills);
    bool fits;
    int_of<T> quant = quant_of(value, k, &fits);
    int_of<T> integer = exists ? quant : 0;
    bool valid = !exists || (fits && !special);

    *valid_ret = valid;
    *is_unpredictable_ret = exists && !fits && !special;
    unsigned valids = __ballot_sync(FULL_WARP_MASK, valid);
    if (valids != FULL_WARP_MASK) {
        unsigned lane = threadIdx.x % 32;
        unsigned until = valids & group & (FULL_WARP_MASK >> (31 - lane));
        int from = until != 0 ? 31 - __clz((int)until) : (int)lane;
        int_of<T> before = __shfl_sync(FULL_WARP_MASK, integer, from);
        integer = until != 0 ? before : last;
    }
    return integer;
}

/* Turns the quants of the corners into differences along each set of
 * dimensions. */
template <int NCORNERS, typename W>
static __device__ __forceinline__ void
difference_corners(W corners[NCORNERS], unsigned slower)
{
#pragma unroll
    for (int d = 0; d < TERP_NDIMS - 1; d++) {
#pragma unroll
        for (unsigned corner = 0; corner < NCORNERS; corner++)
            if ((corner >> d & 1) && (slower >> d & 1))
                corners[corner] = corners[corner ^ (1u << d)] - corners[corner];
    }
}

/* The codes of a chunk. Plain codes are symbols of the dictionary, without low
 * bits or tails. */
struct wide_codes {
    int max_code, wide, tail_nbits;
    bool are_plain;
};

static __device__ __forceinline__ struct wide_codes
wide_codes_of(const struct cuda_chunk &chunk)
{
    return {terp_max_code_of(chunk.model.wide), chunk.model.wide,
            chunk.model.tail_nbits,
            chunk.model.wide == 0 && chunk.model.tail_nbits == 0};
}

/* Returns the slot of a difference, which is the number of its row in the
 * dictionary. */
template <typename T>
static __device__ __forceinline__ unsigned
slot_of_difference(word_of<T> difference, const struct wide_codes &codes)
{
    static_assert(TERP_ROW_ESCAPE == TERP_MAX_CODE + 1,
                  "The row of escapes follows the row of the largest code.");
    if (codes.are_plain) {
        const word_of<T> magnitude =
            (int_of<T>)difference < 0 ? 0 - difference : difference;
        return (unsigned)min(magnitude, (word_of<T>)TERP_ROW_ESCAPE);
    }
    const int_of<T> code = code_above_tail<T>(difference, codes.tail_nbits);
    const bool fits = code >= -codes.max_code && code <= codes.max_code;
    const unsigned symbol = (unsigned)((int)code + terp_radius_of(codes.wide));

    return fits ? terp_row_of_wide(symbol, codes.wide) : TERP_ROW_ESCAPE;
}

/* Counts the codes of a value under each set of dimensions, if `counts`. `row`
 * holds differences along dimension 0, if there are rows, `column` does not.
 * The whole warp calls it. Returns the sum of the magnitudes of the warp's
 * codes under the set of this lane; each corner has two lanes. */
template <typename T, int NCORNERS>
static __device__ __forceinline__ uint32_t
count_differences(word_of<T> row[NCORNERS], word_of<T> column[NCORNERS],
                  unsigned slower, bool has_rows, bool counts,
                  const struct wide_codes &codes, uint32_t *s_histogram)
{
    const unsigned lane = threadIdx.x % 32;
    uint32_t sum_of_lane = 0;

    difference_corners<NCORNERS>(row, slower);
    difference_corners<NCORNERS>(column, slower);
#pragma unroll
    for (unsigned corner = 0; corner < NCORNERS; corner++) {
        if ((corner & ~slower) != 0)
            continue;
        uint32_t sums = 0; /* two sums of 16 bits */
        if (counts) {
            unsigned slot = slot_of_difference<T>(column[corner], codes);
            count_slot(s_histogram, slot);
            sums = slot;
            if (has_rows) {
                slot = slot_of_difference<T>(row[corner], codes);
                count_slot(s_histogram + TUNE_HISTOGRAM_NWORDS, slot);
                sums |= slot << 16;
            }
        }
        sums = __reduce_add_sync(FULL_WARP_MASK, sums);
        if (lane / 2 == corner)
            sum_of_lane = lane % 2 ? sums >> 16 : sums & 0xFFFF;
        s_histogram += (has_rows ? 2 : 1) * TUNE_HISTOGRAM_NWORDS;
    }
    return sum_of_lane;
}
_Static_assert(32 * TERP_ROW_ESCAPE < 1 << 16 && 2 * TUNE_MAX_NCORNERS <= 32,
               "A warp's sum of magnitudes fits 16 bits, and each set of "
               "dimensions has a lane.");

/* Sums over the runs of a lane's set of dimensions. */
struct lane_runs {
    uint32_t sum, n, cost;
};

static __device__ __forceinline__ void
add_run(struct lane_runs &runs, uint32_t sum, uint32_t n)
{
    runs.sum += sum;
    runs.n += n;
    runs.cost += terp_cost_of_run(sum, n);
}

/* Adds a lane's runs to the record of its set. Each corner has two records if
 * there are rows, otherwise one. */
static __device__ __forceinline__ void
add_runs(const struct lane_runs &runs, unsigned slower, bool has_rows,
         uint32_t *s_histograms)
{
    const unsigned lane = threadIdx.x % 32, nsets = has_rows ? 2 : 1;
    unsigned number = lane % 2;

    if ((lane / 2 & ~slower) != 0 || number >= nsets)
        return;
    for (unsigned corner = 0; corner < lane / 2; corner++)
        number += (corner & ~slower) == 0 ? nsets : 0;
    uint32_t *s_record =
        s_histograms + number * TUNE_HISTOGRAM_NWORDS + TUNE_COSTS_AT;
    atomicAdd(s_record + RECORD_SUM, runs.sum);
    atomicAdd(s_record + RECORD_NCOUNTED, runs.n);
    atomicAdd(s_record + RECORD_RUN_COST, runs.cost);
}

/* The stretch that a lane samples together with its group of lanes. */
template <int NCORNERS, typename T> struct lane_stretch {
    struct stretch<T> stretch;
    const T *rows[NCORNERS];
    /* lanes of a group, and this lane's index in it */
    unsigned nlanes, in_group;
    unsigned group; /* mask of the lanes of the group */
    /* The quant before the warp's values, in the row of the corner with the
     * number of this lane. Only groups of 32 lanes take a row in several turns.
     */
    int_of<T> last;
};

/* Returns the lanes of a group: a power of two, not more than a stretch needs.
 */
static __device__ __forceinline__ unsigned
group_nlanes(uint32_t stretch_nvalues)
{
    unsigned nlanes = 32;

    while (nlanes / 2 >= stretch_nvalues)
        nlanes /= 2;
    return nlanes;
}

/* Makes the quants of the values at `at` for each corner, and their differences
 * along dimension 0. Returns whether the lane's value counts. */
template <int NCORNERS, typename T, typename K>
static __device__ __forceinline__ bool
integers_at(const source<T> &source, const K &k, unsigned slower, uint32_t at,
            lane_stretch<NCORNERS, T> &own, word_of<T> row[NCORNERS],
            word_of<T> column[NCORNERS], struct findings *found)
{
    const unsigned lane = threadIdx.x % 32;
    const uint32_t x = at + own.in_group;
    const bool inside = x < own.stretch.nvalues;
    bool counts = inside && x >= own.stretch.first;
    T values[NCORNERS];

#pragma unroll
    for (unsigned corner = 0; corner < NCORNERS; corner++) {
        bool exists = inside && (corner & ~own.stretch.exists) == 0;
        values[corner] = exists ? __ldg(own.rows[corner] + x) : (T)0;
    }
#pragma unroll
    for (unsigned corner = 0; corner < NCORNERS; corner++) {
        bool exists = inside && (corner & ~own.stretch.exists) == 0;
        bool valid, is_unpredictable;
        if ((corner & ~slower) != 0)
            continue;
        int_of<T> last = __shfl_sync(FULL_WARP_MASK, own.last, (int)corner);
        int_of<T> integer =
            integer_of(source, values[corner], exists, k, own.group, last,
                       &valid, &is_unpredictable);
        int_of<T> before = __shfl_up_sync(FULL_WARP_MASK, integer, 1);
        before = own.in_group == 0 ? last : before;
        column[corner] = (word_of<T>)integer;
        row[corner] = (word_of<T>)integer - (word_of<T>)before;
        integer = __shfl_sync(FULL_WARP_MASK, integer, 31);
        own.last = lane == corner ? integer : own.last;
        if (corner == 0) {
            found->nsampled += counts;
            counts &= valid; /* special values cost nothing */
            found->nunpredictable += is_unpredictable;
            found->nnear +=
                counts &&
                is_near(values[0], value_of_quant<T>((int_of<T>)column[0], k),
                        k.limit);
        }
    }
    return counts;
}

/* Samples a block's stretches. A warp takes a stretch, 32 values at a time, or
 * one short stretch per group of lanes. The values that it takes at a time are
 * a run, unless stretches are too short for runs. `some` is volatile, so its
 * fields are read again instead of being kept in registers, which are scarce.
 * NCORNERS is at least the number of corners; a third dimension above 0 doubles
 * NCORNERS, and so the registers of a lane. */
template <int NCORNERS, typename T, typename K>
static __device__ void
sample_corners(const volatile struct sampled_stretches &some,
               const source<T> &source, const K &k,
               const struct wide_codes &codes, uint32_t *s_histograms,
               struct findings *s_found)
{
    const uint32_t most = (uint32_t)min_u64(TERP_LORENZO_NVALUES, some.dims[0]);
    const unsigned slower = some.slower, lane = threadIdx.x % 32;
    lane_stretch<NCORNERS, T> own;
    struct findings found = {0, 0, 0};
    struct lane_runs runs = {0, 0, 0};

    own.nlanes = group_nlanes(most);
    own.in_group = lane % own.nlanes;
    own.group = (FULL_WARP_MASK >> (32 - own.nlanes)) << (lane - own.in_group);
    const uint32_t nat_once = 32 / own.nlanes;
    for (uint32_t first = some.first + threadIdx.x / 32 * nat_once;
         first < some.end; first += blockDim.x / 32 * nat_once) {
        uint32_t nth = first + lane / own.nlanes;
        own.stretch =
            find_stretch(some, source.values, nth < some.end ? nth : first);
        own.last = 0;
        if (nth >= some.end)
            own.stretch.nvalues = 0;
        own.rows[0] = own.stretch.values;
#pragma unroll
        for (unsigned corner = 1; corner < NCORNERS; corner++)
            own.rows[corner] = own.rows[corner & (corner - 1)] -
                               some.stride[1 + lowest_bit(corner)];
        for (uint32_t at = 0; at < most; at += own.nlanes) {
            word_of<T> row[NCORNERS], column[NCORNERS];
            const bool counts = integers_at<NCORNERS>(source, k, slower, at,
                                                      own, row, column, &found);
            uint32_t sum = count_differences<T, NCORNERS>(
                row, column, slower, most > 1, counts, codes, s_histograms);
            uint32_t n =
                (uint32_t)__popc(__ballot_sync(FULL_WARP_MASK, counts));
            add_run(runs, sum, n);
        }
    }
    if (!terp_lorenzo_has_runs(most))
        runs.sum = runs.cost = 0; /* there are no runs, so they save nothing */
    add_runs(runs, slower, most > 1, s_histograms);
    found.nsampled = __reduce_add_sync(FULL_WARP_MASK, found.nsampled);
    found.nunpredictable =
        __reduce_add_sync(FULL_WARP_MASK, found.nunpredictable);
    found.nnear = __reduce_add_sync(FULL_WARP_MASK, found.nnear);
    if (lane == 0) {
        atomicAdd(&s_found->nsampled, found.nsampled);
        atomicAdd(&s_found->nunpredictable, found.nunpredictable);
        atomicAdd(&s_found->nnear, found.nnear);
    }
}

template <typename T, typename K>
static __device__ void
sample_lorenzo(const struct sampled_stretches &some, const source<T> &source,
               const K &k, const struct wide_codes &codes,
               uint32_t *s_histograms, struct findings *s_found)
{
    if (some.slower < TUNE_MAX_NCORNERS / 2)
        sample_corners<TUNE_MAX_NCORNERS / 2>(some, source, k, codes,
                                              s_histograms, s_found);
    else
        sample_corners<TUNE_MAX_NCORNERS>(some, source, k, codes, s_histograms,
                                          s_found);
}

/* Not inlined and with few parameters, so that the kernel needs fewer registers
 * for other chunks. */
template <typename T>
static __device__ __attribute__((noinline)) void
sample_lorenzo_exactly(const struct sampled_stretches &some,
                       const struct cuda_chunk &s_chunk, uint32_t *s_histograms,
                       struct findings *s_found)
{
    sample_lorenzo(some, source_of<T>(s_chunk), exact_quants_of<T>(s_chunk),
                   wide_codes_of(s_chunk), s_histograms, s_found);
}
