/* Finds common values, which repeat in runs. A lossless encoder treats them as
 * fill values. cpu/survey.c, find_common, does the same. */
#include "codec/model/lossless.h"
#include "gpu/predict/lorenzo_shape.cuh"
#include "gpu/predict/range.cuh"

/* NTHREADS: one thread per sampled run. SCAN_NTHREADS: threads of a block that
 * scans all values. */
#define NTHREADS TERP_COMMON_VALUE_NRUNS
#define RUN_NVALUES TERP_COMMON_VALUE_RUN_NVALUES
#define SCAN_NTHREADS 256

/* Whether the chunk has a range and may have further common values. */
static __device__ __forceinline__ bool
may_have_more(const struct cuda_chunk &chunk)
{
    return chunk.status == TERP_OK && chunk.coding != TERP_CODING_CONSTANT &&
           !chunk.common.is_done;
}

/* The results of a block over all sampled runs. */
struct found_runs {
    /* values that are alike, and the complement of the first such run */
    unsigned best;
    unsigned nfound, nruns, nsampled;
};

/* Returns how many runs begin with the value `own`. */
template <typename W>
static __device__ __forceinline__ unsigned
count_alike(const W *s_firsts, W own)
{
    unsigned n = 0;

    for (unsigned i = 0; i < NTHREADS; i++)
        n += s_firsts[i] == own;
    return n;
}

/* A thread counts in its run how often the value `found` occurs, and how often
 * it begins anew. */
template <typename T>
static __device__ __forceinline__ void
take_run(const T *values, uint64_t nvalues, uint64_t at, word_of<T> found,
         struct found_runs *s)
{
    const uint64_t end = min_u64(nvalues, at + RUN_NVALUES);
    unsigned nfound = 0, nruns = 0;
    bool before = true;

    for (uint64_t i = at; i < end; i++) {
        const bool is_found = bits_of(with_one_zero(values[i])) == found;
        nfound += is_found;
        nruns += is_found && !before;
        before = is_found;
    }
    atomicAdd(&s->nfound, nfound);
    atomicAdd(&s->nruns, nruns);
    atomicAdd(&s->nsampled, (unsigned)(end - at));
}

/* Looks for one more common value and stores it as common.bits;
 * common.is_found: there is one. Grid: x = 1, y = chunks. A thread owns a run
 * of samples. Shared memory: the first value of each run, and counts; barriers
 * separate the steps that write and read them. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) find_common(const struct cuda_batch batch, int slot)
{
    __shared__ word_of<T> s_firsts[NTHREADS];
    __shared__ struct found_runs s;
    struct cuda_chunk &chunk = begin_chunk(batch);
    const T *values = (const T *)chunk.src;
    const word_of<T> none = bits_of((T)-0.0);
    const bool is_free = (word_of<T>)chunk.fills[slot] == none;

    if (!may_have_more(chunk) || !is_free) {
        if (threadIdx.x == 0)
            chunk.common.is_found = false;
        return;
    }
    const uint64_t at = terp_common_value_run_at(batch.nvalues, threadIdx.x);
    const T first = values[at];
    if (threadIdx.x == 0)
        s = {0, 0, 0, 0};
    s_firsts[threadIdx.x] = bits_of(with_one_zero(first));
    __syncthreads();
    if (!is_special(first, fills_of<T>(chunk)))
        atomicMax(&s.best, count_alike(s_firsts, s_firsts[threadIdx.x]) << 16 |
                               (NTHREADS - 1 - threadIdx.x));
    __syncthreads();
    const word_of<T> found = s_firsts[NTHREADS - 1 - (s.best & 0xFFFF)];
    take_run(values, batch.nvalues, at, found, &s);
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    chunk.common = {};
    chunk.common.bits = found;
    chunk.common.is_found =
        s.best >> 16 >= TERP_COMMON_VALUE_NRUNS / TERP_COMMON_VALUE_ONE_IN &&
        terp_value_is_common(s.nfound, s.nruns, s.nsampled);
    chunk.common.is_done = !chunk.common.is_found;
}

/* Makes the common value a fill value, unless the remaining values would then
 * all be equal. The last block of a chunk calls it. */
template <typename T>
static __device__ __forceinline__ void
take_common(struct cuda_chunk &chunk, int slot, T first)
{
    const double min = value_of_key(~chunk.common.min_key);
    const double max = value_of_key(chunk.common.max_key);

    chunk.common_progress = 0; /* for the next common value */
    if (chunk.common.max_key == 0 || !(min < max)) {
        chunk.common.is_done = true;
        return;
    }
    chunk.fills[slot] = chunk.common.bits;
    chunk.min = min;
    chunk.max = max;
    chunk.nspecials = chunk.common.nspecials;
    chunk.has_specials = chunk.nspecials > 0;
    take_range(chunk, first);
}

/* Finds the range of the values without the common one. Grid: x = shares of
 * values, y = chunks. A thread takes every gridDim.x * SCAN_NTHREADS-th value;
 * blocks combine their results by atomics. */
template <typename T>
static __global__ void
__launch_bounds__(SCAN_NTHREADS)
    scan_others(const struct cuda_batch batch, int slot)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    const T *values = (const T *)chunk.src;

    if (!may_have_more(chunk) || !chunk.common.is_found)
        return;
    fill_words<T> fills = fills_of<T>(chunk);
    fills.at[slot] = (word_of<T>)chunk.common.bits;
    extremes<T> own = no_extremes<T>();
    for (uint64_t i = (uint64_t)blockIdx.x * SCAN_NTHREADS + threadIdx.x;
         i < batch.nvalues; i += (uint64_t)gridDim.x * SCAN_NTHREADS) {
        const T value = with_one_zero(values[i]);
        const bool special = is_special(value, fills);
        own.n[0] += special;
        own.min = special ? own.min : smaller(own.min, value);
        own.max = special ? own.max : larger(own.max, value);
    }
    own = reduce_extremes<SCAN_NTHREADS / 32>(own);
    if (threadIdx.x == 0 && own.n[0] > 0)
        atomicAdd(&chunk.common.nspecials, own.n[0]);
    if (threadIdx.x == 0 && own.min <= own.max) {
        raise_key(&chunk.common.min_key, ~key_of((double)own.min));
        raise_key(&chunk.common.max_key, key_of((double)own.max));
    }
    if (is_last_block(&chunk.common_progress, gridDim.x) && threadIdx.x == 0)
        take_common<T>(chunk, slot, values[0]);
}

cudaError_t
cuda_lossless_find_common(const struct cuda_batch *batch, cudaStream_t stream)
{
    const unsigned nblocks =
        nblocks_for(batch, div_up(batch->nvalues, 8 * SCAN_NTHREADS));
    struct stage_launches launches = {batch, stream};

    for (int slot = 0; slot < TERP_NFILLS; slot++) {
        launches.add_typed(CUDA_TYPED(find_common), 1, NTHREADS, slot);
        launches.add_typed(CUDA_TYPED(scan_others), nblocks, SCAN_NTHREADS,
                           slot);
    }
    return launches.error;
}
