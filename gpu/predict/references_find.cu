/* Finds whether enough sampled values repeat to make a search for references
 * worth its time. cpu/predict/references_find.c, match_all, does the same. */
#include "gpu/predict/references_find.cuh"

#include "gpu/block/warp.cuh"
#include "gpu/predict/lorenzo_shape.cuh"
#include "gpu/predict/values.cuh"

/* Threads of a block that goes through all values, and of the block that takes
 * samples, one per thread. */
#define NTHREADS 256
#define SAMPLES_NTHREADS TERP_REFERENCE_NSAMPLES

/* Values of a thread whose loads overlap. */
#define NVALUES_AT_ONCE 4

/* A chunk's values and how they are compared.
 * cpu/predict/references_search.c, find_words, does the same. */
template <typename T> struct repeat_values {
    const word_of<T> *values;
    uint64_t nvalues;
    word_of<T> fill[2];
    bool has_fill[2];
    word_of<T> mask; /* bits that are compared: without the sign of floats */
    word_of<T> most; /* the largest word that is finite */
};

template <typename T>
static __device__ __forceinline__ word_of<T>
largest_of(const struct cuda_batch &batch)
{
    if constexpr (sizeof(T) == 2)
        return (word_of<T>)(terp_half_infinity(batch.chunk.type) - 1);
    else
        return bits_of(value_traits<T>::MAX);
}

template <typename T>
static __device__ __forceinline__ repeat_values<T>
repeat_values_of(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    const struct terp_params &params = batch.encoding.params;
    const word_of<T> all = (word_of<T>)~(word_of<T>)0;

    if (cuda_form_is_of_integers(batch.form))
        return {(const word_of<T> *)chunk.values,
                batch.nvalues,
                {(word_of<T>)batch.encoding.fill[0],
                 (word_of<T>)batch.encoding.fill[1]},
                {batch.encoding.nfills > 0, batch.encoding.nfills > 1},
                all,
                all};
    return {(const word_of<T> *)chunk.values,
            batch.nvalues,
            {(word_of<T>)terp_own_fill(batch.chunk.type, params.fill_bits),
             (word_of<T>)terp_own_fill(batch.chunk.type, params.missing_bits)},
            {params.has_fill, params.has_missing},
            (word_of<T>)(all >> 1),
            largest_of<T>(batch)};
}

template <typename T>
static __device__ __forceinline__ word_of<T>
word_at(const repeat_values<T> &v, uint64_t i)
{
    return (word_of<T>)(v.values[i] & v.mask);
}

/* Whether a point is usable, as a reference or as a source. Zeros, values that
 * are not finite, and values that equal their neighbour are not: they cost
 * little anyway. */
template <typename T>
static __device__ __forceinline__ bool
is_usable(const repeat_values<T> &v, uint64_t i)
{
    const word_of<T> word = word_at(v, i), before = word_at(v, i - (i > 0));
    /* All tests are made, so that loads of several points overlap. */
    bool usable =
        (word != 0) & (word <= v.most) & ((i == 0) | (before != word));

    for (int f = 0; f < 2; f++)
        usable &= !(v.has_fill[f] & (v.values[i] == v.fill[f]));
    return usable;
}

/* Finds the key of a point, or of a window of points from it on, in steps of
 * `step`. Returns false if there is none. */
template <typename T>
static __device__ __forceinline__ bool
key_of_point(const repeat_values<T> &v,
             const struct cuda_repeat_samples &samples, uint64_t i, int step,
             uint64_t *key_ret)
{
    uint64_t key = 0;

    *key_ret = (uint64_t)word_at(v, i) >> samples.near_nbits;
    if (samples.lone)
        return is_usable(v, i);
    for (int j = 0; j < TERP_WINDOW_NVALUES;
         j++, i += (uint64_t)(int64_t)step) {
        if (i >= v.nvalues || !is_usable(v, i))
            return false;
        key = terp_window_key(key, word_at(v, i));
    }
    *key_ret = key;
    return true;
}

/* The bit of a sample whose first word is that of point i. */
template <typename T>
static __device__ __forceinline__ unsigned
first_bit_of(const repeat_values<T> &v, int near_nbits, uint64_t i)
{
    const uint64_t word = (uint64_t)word_at(v, i) >> near_nbits;
    const uint32_t mixed =
        ((uint32_t)word ^ (uint32_t)(word >> 32)) * 0x9E3779B1u;

    return mixed >> (32 - REPEAT_FIRST_NBITS);
}

/* Returns the number of bits that are compared. */
template <typename T>
static __device__ __forceinline__ int
word_nbits(const repeat_values<T> &v)
{
    return 8 * sizeof(T) - (v.mask >> (8 * sizeof(T) - 1) ? 0 : 1);
}

static __device__ __forceinline__ bool
may_refer(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    return chunk.status == TERP_OK && batch.nvalues < UINT32_MAX;
}

static __device__ __forceinline__ struct cuda_repeat_samples *
samples_of(const struct cuda_batch &batch)
{
    return region<struct cuda_repeat_samples>(batch, blockIdx.y,
                                              batch.at.samples);
}

/* Clears the samples. Grid: x = 1, y = chunks. A thread clears every
 * NTHREADS-th word. */
static __global__ void
__launch_bounds__(NTHREADS) clear_samples(const struct cuda_batch batch)
{
    begin_kernel();
    static_assert(sizeof(struct cuda_repeat_samples) % 8 == 0,
                  "Samples are cleared by words.");
    uint64_t *words = (uint64_t *)samples_of(batch);

    for (unsigned i = threadIdx.x; i < sizeof(struct cuda_repeat_samples) / 8;
         i += NTHREADS)
        words[i] = 0;
}

/* Calls visit(i) for each of a thread's values for which test(i) holds: of
 * every gridDim.x * NTHREADS-th value. Several tests come first, so that their
 * loads overlap. Test and Visit are lambdas. */
template <typename Test, typename Visit>
static __device__ __forceinline__ void
for_values(uint64_t nvalues, Test test, Visit visit)
{
    const uint64_t step = (uint64_t)gridDim.x * NTHREADS;

    for (uint64_t first = (uint64_t)blockIdx.x * NTHREADS + threadIdx.x;
         first < nvalues; first += NVALUES_AT_ONCE * step) {
        unsigned passed = 0;
#pragma unroll
        for (unsigned k = 0; k < NVALUES_AT_ONCE; k++)
            if (first + k * step < nvalues)
                passed |= (unsigned)test(first + k * step) << k;
        for (; passed != 0; passed &= passed - 1)
            visit(first + (unsigned)(__ffs((int)passed) - 1) * step);
    }
}

/* Counts the usable points. Grid: x = shares of values, y = chunks. A thread
 * takes the values of for_values. No shared memory; warps add their counts by
 * atomics. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) count_usable(const struct cuda_batch batch)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const repeat_values<T> v = repeat_values_of<T>(batch, chunk);
    unsigned n = 0;

    if (!may_refer(batch, chunk))
        return;
    for_values(
        v.nvalues, [&](uint64_t i) { return is_usable(v, i); },
        [&](uint64_t) { n++; });
    n = warp_sum(n);
    if (threadIdx.x % 32 == 0 && n > 0)
        atomicAdd(&samples_of(batch)->nusable, (unsigned long long)n);
}

/* Takes the samples. Grid: x = 1, y = chunks. A thread owns a sample. If
 * several samples fall into a slot, the last one counts. Shared memory: the
 * sample of each slot; barriers separate clearing, filling and reading it. */
template <typename T>
static __global__ void
__launch_bounds__(SAMPLES_NTHREADS) take_samples(const struct cuda_batch batch)
{
    begin_kernel();
    __shared__ unsigned s_sample[TERP_REFERENCE_NSLOTS];
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const repeat_values<T> v = repeat_values_of<T>(batch, chunk);
    struct cuda_repeat_samples *samples = samples_of(batch);
    const unsigned j = threadIdx.x;
    uint64_t key;

    if (!may_refer(batch, chunk) || samples->nusable == 0)
        return;
    for (unsigned i = j; i < TERP_REFERENCE_NSLOTS; i += SAMPLES_NTHREADS)
        s_sample[i] = 0;
    if (j == 0) {
        const uint64_t value_nbits =
            16 * 8 * chunk.stream_nbytes / samples->nusable;
        samples->window_nvalues = terp_reference_window(value_nbits, v.nvalues);
        samples->lone = terp_references_are_lone(
            word_nbits(v), value_nbits / 16, &samples->near_nbits);
    }
    __syncthreads();
    if (key_of_point(v, *samples, terp_reference_sample_at(v.nvalues, j), 1,
                     &key)) {
        const unsigned first = first_bit_of(
            v, samples->near_nbits, terp_reference_sample_at(v.nvalues, j));
        atomicOr(&samples->is_first[first / 32], 1u << first % 32);
        samples->key[j] = key;
        atomicMax(&s_sample[terp_reference_slot(terp_reference_mixed(key))],
                  j + 1);
    }
    __syncthreads();
    for (unsigned i = j; i < TERP_REFERENCE_NSLOTS; i += SAMPLES_NTHREADS)
        samples->sample[i] = (uint16_t)s_sample[i];
}

/* Whether the values from `i` on, in steps of `step`, equal those of a sample,
 * for as many values as make a reference worth its cost. */
template <typename T>
static __device__ __forceinline__ bool
is_sample(const repeat_values<T> &v, uint64_t window_nvalues, uint64_t sample,
          uint64_t i, int step)
{
    uint64_t left = window_nvalues;

    while (left > 0 && i < v.nvalues && sample < v.nvalues &&
           word_at(v, i) == word_at(v, sample) && is_usable(v, i) &&
           is_usable(v, sample)) {
        i += (uint64_t)(int64_t)step;
        sample++;
        left--;
    }
    return left == 0;
}

/* Sets the bit of a sample's slot if the sample equals the point `i`. */
template <typename T>
static __device__ __forceinline__ void
match_samples(const repeat_values<T> &v, struct cuda_repeat_samples *samples,
              uint64_t i, int step)
{
    uint64_t key;

    if (!key_of_point(v, *samples, i, step, &key))
        return;
    const uint64_t slot = terp_reference_slot(terp_reference_mixed(key));
    const unsigned number = samples->sample[slot], bit = 1u << slot % 32;
    if (number == 0 || samples->key[number - 1] != key)
        return;
    const uint64_t sample = terp_reference_sample_at(v.nvalues, number - 1);
    const volatile uint32_t *noted = &samples->is_repeated[slot / 32];
    if (sample != i && (*noted & bit) == 0 &&
        (samples->lone ||
         is_sample(v, samples->window_nvalues, sample, i, step)))
        atomicOr(&samples->is_repeated[slot / 32], bit);
}

/* Compares all values with the samples; the last block of a chunk decides.
 * Grid: x = shares of values, y = chunks. A thread takes the values of
 * for_values. Shared memory: the bits of first words, and the count of the last
 * block. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) match_all(const struct cuda_batch batch)
{
    begin_kernel();
    __shared__ unsigned s_nrepeated;
    __shared__ uint32_t s_is_first[REPEAT_NFIRST / 32];
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const repeat_values<T> v = repeat_values_of<T>(batch, chunk);
    struct cuda_repeat_samples *samples = samples_of(batch);

    if (__syncthreads_or(!may_refer(batch, chunk) || samples->nusable == 0))
        return;
    for (unsigned i = threadIdx.x; i < REPEAT_NFIRST / 32; i += NTHREADS)
        s_is_first[i] = samples->is_first[i];
    __syncthreads();
    const int near_nbits = samples->near_nbits;
    const bool lone = samples->lone;
    for_values(
        v.nvalues,
        [&](uint64_t i) {
            const unsigned first = first_bit_of(v, near_nbits, i);
            return s_is_first[first / 32] >> first % 32 & 1;
        },
        [&](uint64_t i) {
            match_samples(v, samples, i, 1);
            if (!lone)
                match_samples(v, samples, i, -1);
        });
    if (!is_last_block(&chunk.references_progress, gridDim.x))
        return;
    if (threadIdx.x == 0)
        s_nrepeated = 0;
    __syncthreads();
    for (unsigned i = threadIdx.x; i < TERP_REFERENCE_NSLOTS / 32;
         i += NTHREADS)
        atomicAdd(&s_nrepeated, (unsigned)__popc(samples->is_repeated[i]));
    __syncthreads();
    if (threadIdx.x == 0 && s_nrepeated >= TERP_REFERENCE_MIN_NREPEATED)
        chunk.facts.may_repeat = true;
}

template <typename T>
static cudaError_t
launch_match(const struct cuda_batch *batch, cudaStream_t stream)
{
    const unsigned nblocks =
        nblocks_for(batch, div_up(batch->nvalues, 8 * NTHREADS));
    struct stage_launches launches = {batch, stream};

    launches.add(clear_samples, 1, NTHREADS);
    launches.add(count_usable<T>, nblocks, NTHREADS);
    launches.add(take_samples<T>, 1, SAMPLES_NTHREADS);
    launches.add(match_all<T>, nblocks, NTHREADS);
    return launches.error;
}

cudaError_t
cuda_references_find(const struct cuda_batch *batch, cudaStream_t stream)
{
    if (batch->encoding.params.effort == TERP_EFFORT_FAST ||
        batch->own_nbytes == 1 ||
        (cuda_form_is_of_integers(batch->form) &&
         batch->encoding.integer_bound > 0))
        return cudaSuccess;
    return batch->own_nbytes == 8   ? launch_match<double>(batch, stream)
           : batch->own_nbytes == 4 ? launch_match<float>(batch, stream)
                                    : launch_match<uint16_t>(batch, stream);
}
