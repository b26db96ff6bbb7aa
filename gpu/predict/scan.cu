/* Swaps the byte order of values, and scans a chunk: finds its special values,
 * the range of the other values, and the parameters that follow from both. */
#include "codec/model/psnr.h"
#include "gpu/block/swap.cuh"
#include "gpu/predict/scan_small.cuh"

/* Threads, and warps, of a block. */
#define NTHREADS 256
#define NWARPS (NTHREADS / 32)

/* Loads of 16 bytes that a thread issues before it uses the first. A block
 * loads a *unit* of UNIT_NBYTES at a time. */
#define NLOADS 4
#define UNIT_NBYTES (NTHREADS * NLOADS * 16)

/* The most blocks for all chunks of a batch together. SCAN_MAX_NBLOCKS fills a
 * device several times over; each block updates the chunk's state by atomics,
 * so more blocks would cost time. The search for isolated extremes is rarely
 * needed: it has at most ISOLATE_MAX_NBLOCKS blocks, and each has at least
 * ISOLATE_MIN_NUNITS units. */
#define SCAN_MAX_NBLOCKS 8192
#define ISOLATE_MAX_NBLOCKS 2048
#define ISOLATE_MIN_NUNITS 4

/* The scan of small batches (scan_small.cuh) is faster up to this number of
 * blocks. Tests can set another number. */
#ifndef CUDA_SCAN_SMALL_MAX_NBLOCKS
#define CUDA_SCAN_SMALL_MAX_NBLOCKS 1024
#endif

/* Values per thread that the last block of a scan tests; a single one can show
 * that an extreme is not isolated. */
#define NPROBES 8

/* ---- byte order ---- */

/* Grid: x = units of NTHREADS * NLOADS values, y = chunks. A thread owns the
 * values that it reads. No shared memory. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) swap_values(const struct cuda_batch batch, bool src)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    if (chunk.status != TERP_OK)
        return;
    const word_of<T> *from =
        (const word_of<T> *)(src ? chunk.original : chunk.values);
    word_of<T> *to = src ? region<word_of<T>>(batch, batch.at.swapped)
                         : (word_of<T> *)chunk.values;
    uint64_t first = (uint64_t)blockIdx.x * (NTHREADS * NLOADS) + threadIdx.x;
    word_of<T> words[NLOADS];

    for (int i = 0; i < NLOADS; i++)
        if (first + i * NTHREADS < batch.nvalues)
            words[i] = from[first + i * NTHREADS];
    for (int i = 0; i < NLOADS; i++)
        if (first + i * NTHREADS < batch.nvalues)
            to[first + i * NTHREADS] = swapped(words[i]);
}

/* Grid: x = 1, y = chunks; one thread. The swapped values become the chunk's
 * values. */
static __global__ void
adopt_swapped(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);

    chunk.values = region<uint8_t>(batch, batch.at.swapped);
    if (batch.carrier_head_nbytes == 0)
        chunk.src = chunk.values;
}

static cudaError_t
launch_swap(const struct cuda_batch *batch, bool src, cudaStream_t stream)
{
    struct stage_launches launches = {batch, stream};

    if (!batch->chunk.big_endian || batch->own_nbytes == 1)
        return cudaSuccess;
    launches.add(batch->own_nbytes == 2   ? swap_values<uint16_t>
                 : batch->own_nbytes == 4 ? swap_values<float>
                                          : swap_values<double>,
                 div_up(batch->nvalues, NTHREADS * NLOADS), NTHREADS, src);
    if (src)
        launches.add(adopt_swapped, 1, 1);
    return launches.error;
}

cudaError_t
cuda_swap_src(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_swap(batch, true, stream);
}

cudaError_t
cuda_swap_dst(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_swap(batch, false, stream);
}

/* ---- loads ---- */

/* The units of a chunk that a block scans. Units begin at multiples of 16 bytes
 * in memory, but values are aligned only to their own size: `lead` values would
 * fit between the first unit's begin and the first value. */
template <typename T> struct share {
    const T *src;
    uint64_t nvalues;
    unsigned lead;
    uint64_t unit, end_unit;
};

template <typename T>
static __device__ __forceinline__ share<T>
share_of(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
         uint64_t block_nunits)
{
    const T *src = (const T *)chunk.src;
    unsigned lead = (unsigned)((uintptr_t)src % 16 / sizeof(T));
    uint64_t nunits =
        div_up((lead + batch.nvalues) * sizeof(T), (uint64_t)UNIT_NBYTES);
    uint64_t unit = blockIdx.x * block_nunits;
    return {src, batch.nvalues, lead, unit,
            min_u64(nunits, unit + block_nunits)};
}

/* Loads a thread's values of a unit. Values that do not exist are NaN. */
template <typename T>
static __device__ __forceinline__ void
load_values(const share<T> &share, uint64_t unit, vector16<T> values[NLOADS])
{
    const int64_t n = 16 / sizeof(T);
    const int64_t unit_nvalues = UNIT_NBYTES / sizeof(T);
    int64_t begin = (int64_t)unit * unit_nvalues - share.lead;
    int64_t first = begin + threadIdx.x * n;

    if (begin >= 0 && begin + unit_nvalues <= (int64_t)share.nvalues) {
        for (int i = 0; i < NLOADS; i++)
            values[i] =
                *(const vector16<T> *)(share.src + first + i * NTHREADS * n);
        return;
    }
    for (int i = 0; i < NLOADS; i++) {
        for (int j = 0; j < n; j++) {
            int64_t at = first + i * NTHREADS * n + j;
            bool is_there = at >= 0 && at < (int64_t)share.nvalues;
            values[i].at[j] = is_there ? share.src[at] : (T)NAN;
        }
    }
}

/* Returns how many values a block scans. */
template <typename T>
static __device__ __forceinline__ uint64_t
share_nvalues(const share<T> &share)
{
    const uint64_t unit_nvalues = UNIT_NBYTES / sizeof(T);
    uint64_t begin = share.unit * unit_nvalues;
    uint64_t end =
        min_u64(share.end_unit * unit_nvalues, share.lead + share.nvalues);
    return end - (begin < share.lead ? share.lead : begin);
}

/* ---- scans ---- */

/* Returns the range that the scans have found. */
static __device__ struct value_range
range_of_chunk(const struct cuda_chunk &chunk)
{
    struct value_range range = {};

    range.min = chunk.min;
    range.max = chunk.max;
    range.inner = chunk.scan.inner_min_key != 0;
    range.inner_min = value_of_key(~chunk.scan.inner_min_key);
    range.inner_max = value_of_key(chunk.scan.inner_max_key);
    range.nmin = chunk.nmin;
    range.nmax = chunk.nmax;
    range.nspecials = chunk.nspecials;
    for (int i = 0; i < TERP_NFILLS; i++)
        range.fills[i] = chunk.fills[i];
    range.of_bound = {chunk.min, chunk.max, 0};
    return range;
}

/* Completes a chunk that needs no further scan: either all values are equal or
 * special, or tested values show that no extreme is isolated. The last block of
 * a chunk calls it. */
template <typename T, bool halves>
static __device__ void
end_scan(const struct cuda_batch &batch, struct cuda_chunk &chunk,
         const fill_words<T> &fills)
{
    __shared__ double s_min, s_max;
    const T *src = (const T *)chunk.src;
    uint64_t distance = batch.nvalues / (NTHREADS * NPROBES) + 1;
    unsigned found = 0;
    T probes[NPROBES];

    if (threadIdx.x == 0) {
        unsigned long long max_key = chunk.scan.max_key;
        s_min = max_key == 0 ? value_traits<T>::MAX
                             : value_of_key(~chunk.scan.min_key);
        s_max = max_key == 0 ? -value_traits<T>::MAX : value_of_key(max_key);
        chunk.min = s_min;
        chunk.max = s_max;
        for (int i = 0; i < TERP_NFILLS; i++)
            chunk.fills[i] = fills.at[i];
    }
    __syncthreads();
    for (int i = 0; i < NPROBES; i++) {
        uint64_t at = (uint64_t)(i * NTHREADS + threadIdx.x) * distance;
        probes[i] = at < batch.nvalues ? src[at] : (T)NAN;
    }
    for (int i = 0; i < NPROBES; i++) {
        bool inner = !is_special(probes[i], fills) & (probes[i] != s_min) &
                     (probes[i] != s_max);
        found |= inner ? not_isolated(probes[i], s_min, s_max) : 0;
    }
    bool of_min = __syncthreads_or((found & MIN_IS_NOT_ISOLATED) != 0) != 0;
    bool of_max = __syncthreads_or((found & MAX_IS_NOT_ISOLATED) != 0) != 0;
    found =
        (of_min ? MIN_IS_NOT_ISOLATED : 0) | (of_max ? MAX_IS_NOT_ISOLATED : 0);
    if (threadIdx.x != 0)
        return;
    if (s_min < s_max && found != NONE_IS_ISOLATED) {
        chunk.progress[CUDA_PROGRESS_NOT_ISOLATED] = found;
        return;
    }
    struct value_range range = range_of_chunk(chunk);
    if (s_min >= s_max)
        take_fills<T>(batch, &range);
    finish_range<T, halves>(batch, chunk, range, src[0]);
}

/* Grid: x = shares of block_nunits units, y = chunks. A thread owns the values
 * that it loads. A block reduces its share through shared memory and adds it to
 * the chunk's state by atomics; the order of blocks does not matter for
 * extremes and counts. The last block of a chunk completes the scan.
 * magnitudes: also find the least magnitude. halves: values are 16-bit floats.
 */
template <typename T, bool magnitudes, bool halves>
static __global__ void
__launch_bounds__(NTHREADS)
    scan_values(const struct cuda_batch batch, uint64_t block_nunits)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    if (chunk.status != TERP_OK)
        return;
    share<T> share = share_of<T>(batch, chunk, block_nunits);
    extremes<T> own = no_extremes<T>();
    const fill_words<T> fills = given_fills<T>(batch);
    unsigned nvalid = 0;
    T least = value_traits<T>::MAX;

    for (uint64_t unit = share.unit; unit < share.end_unit; unit++) {
        vector16<T> values[NLOADS];
        load_values(share, unit, values);
        for (int i = 0; i < NLOADS; i++) {
            for (int j = 0; j < (int)(16 / sizeof(T)); j++) {
                T value = with_one_zero(values[i].at[j]);
                bool special = is_special(value, fills);
                own.min = smaller(own.min, special ? own.min : value);
                own.max = larger(own.max, special ? own.max : value);
                nvalid += !special;
                if (magnitudes)
                    least = special ? least : lesser_magnitude(value, least);
            }
        }
    }
    if (magnitudes)
        note_least(chunk, least);
    own.n[0] = nvalid;
    own = reduce_extremes<NWARPS>(own);
    if (threadIdx.x == 0 && share.unit < share.end_unit) {
        uint64_t nspecials = share_nvalues(share) - own.n[0];
        if (own.min <= own.max) {
            raise_key(&chunk.scan.min_key, ~key_of((double)own.min));
            raise_key(&chunk.scan.max_key, key_of((double)own.max));
        }
        if (nspecials > 0)
            atomicAdd(&chunk.nspecials, (unsigned long long)nspecials);
    }
    if (is_last_block(&chunk.progress[CUDA_PROGRESS_SCAN], gridDim.x))
        end_scan<T, halves>(batch, chunk, fills);
}

/* Grid and ownership as for scan_values. A block finds the values nearest to
 * the extremes in its share, and how many values are equal to the extremes. It
 * does nothing once neither extreme is isolated. The last block of a chunk
 * finds the chunk's parameters. */
template <typename T, bool halves>
static __global__ void
__launch_bounds__(NTHREADS)
    isolate_extremes(const struct cuda_batch batch, uint64_t block_nunits)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    __shared__ unsigned s_flags;
    volatile unsigned *flags = &chunk.progress[CUDA_PROGRESS_NOT_ISOLATED];

    if (threadIdx.x == 0)
        s_flags = chunk.status == TERP_OK ? *flags : RANGE_IS_FINAL;
    __syncthreads();
    if (s_flags & RANGE_IS_FINAL)
        return;
    if (s_flags != NONE_IS_ISOLATED) {
        share<T> share = share_of<T>(batch, chunk, block_nunits);
        extremes<T> own = no_extremes<T>();
        fill_words<T> fills = fills_of<T>(chunk);
        T min = (T)chunk.min, max = (T)chunk.max;
        unsigned found = 0;
        for (uint64_t unit = share.unit; unit < share.end_unit; unit++) {
            vector16<T> values[NLOADS];
            load_values(share, unit, values);
            for (int i = 0; i < NLOADS; i++) {
                for (int j = 0; j < (int)(16 / sizeof(T)); j++) {
                    T value = with_one_zero(values[i].at[j]);
                    bool valid = !is_special(value, fills);
                    bool inner = valid && value > min && value < max;
                    own.min = smaller(own.min, inner ? value : own.min);
                    own.max = larger(own.max, inner ? value : own.max);
                    own.n[0] += valid && value == min;
                    own.n[1] += valid && value == max;
                }
            }
        }
        own = reduce_extremes<NWARPS>(own);
        if (threadIdx.x == 0) {
            if (own.min <= own.max) {
                found = (not_isolated(own.min, chunk.min, chunk.max) &
                         MIN_IS_NOT_ISOLATED) |
                        (not_isolated(own.max, chunk.min, chunk.max) &
                         MAX_IS_NOT_ISOLATED);
                raise_key(&chunk.scan.inner_min_key, ~key_of((double)own.min));
                raise_key(&chunk.scan.inner_max_key, key_of((double)own.max));
            }
            if (found != 0)
                atomicOr(&chunk.progress[CUDA_PROGRESS_NOT_ISOLATED], found);
            if (own.n[0] > 0)
                atomicAdd(&chunk.nmin, own.n[0]);
            if (own.n[1] > 0)
                atomicAdd(&chunk.nmax, own.n[1]);
        }
    }
    if (!is_last_block(&chunk.progress[CUDA_PROGRESS_ISOLATE], gridDim.x) ||
        threadIdx.x != 0)
        return;
    struct value_range range = range_of_chunk(chunk);
    if (*flags != NONE_IS_ISOLATED)
        take_fills<T>(batch, &range);
    finish_range<T, halves>(batch, chunk, range, *(const T *)chunk.src);
}

/* Every block of a chunk has a share; the last block's may be empty. */
template <typename T, bool magnitudes, bool halves>
static cudaError_t
launch_scan(const struct cuda_batch *batch, cudaStream_t stream)
{
    if (scan_small_nblocks(batch) * (uint64_t)batch->nchunks <=
        CUDA_SCAN_SMALL_MAX_NBLOCKS)
        return launch_scan_small<T, magnitudes, halves>(batch, stream);
    uint64_t nunits = div_up(batch->nvalues * sizeof(T) + 15, UNIT_NBYTES);
    uint64_t all_nunits = nunits * (uint64_t)batch->nchunks;
    uint64_t scan_nunits =
        min_u64(nunits, div_up(all_nunits, SCAN_MAX_NBLOCKS));
    uint64_t isolate_nunits = div_up(all_nunits, ISOLATE_MAX_NBLOCKS);

    isolate_nunits =
        min_u64(nunits, isolate_nunits < ISOLATE_MIN_NUNITS ? ISOLATE_MIN_NUNITS
                                                            : isolate_nunits);
    struct stage_launches launches = {batch, stream};
    launches.add(scan_values<T, magnitudes, halves>,
                 div_up(nunits, scan_nunits), NTHREADS, scan_nunits);
    launches.add(isolate_extremes<T, halves>, div_up(nunits, isolate_nunits),
                 NTHREADS, isolate_nunits);
    return launches.error;
}

/* ---- bounds that the host sets ---- */

/* Grid: x = 1, y = chunks; one thread. Computes the bound of a chunk that was
 * scanned. */
template <typename T>
static __global__ void
finish_bounds(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    struct value_range range = range_of_chunk(chunk);

    if (chunk.status != TERP_OK)
        return;
    range.of_bound = chunk.bound_range;
    const double bound =
        is_bound(chunk.bound)
            ? chunk.bound
            : terp_absolute_bound(batch.encoding.params.bound_mode,
                                  batch.encoding.params.bound,
                                  range.of_bound.min, range.of_bound.max);
    finalize_params<T>(batch, chunk, range, *(const T *)chunk.src, bound, true);
}

cudaError_t
cuda_scan(const struct cuda_batch *batch, cudaStream_t stream)
{
    const bool magnitudes = cuda_form_is_pointwise(batch->form);

    if (batch->encoding.has_bounds) {
        const bool wide = batch->carrier_nbytes == 8;
        struct stage_launches launches = {batch, stream};
        launches.add_stage(wide ? launch_scan<double, false, false>
                                : launch_scan<float, false, false>,
                           batch);
        launches.add(wide ? finish_bounds<double> : finish_bounds<float>, 1, 1);
        return launches.error;
    }
    if (batch->carrier_nbytes == 8)
        return magnitudes ? launch_scan<double, true, false>(batch, stream)
                          : launch_scan<double, false, false>(batch, stream);
    return magnitudes ? launch_scan<float, true, false>(batch, stream)
           : terp_type_is_half(batch->chunk.type)
               ? launch_scan<float, false, true>(batch, stream)
               : launch_scan<float, false, false>(batch, stream);
}
