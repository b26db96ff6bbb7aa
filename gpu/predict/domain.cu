/* Finds the domain of each chunk, the shape in which it predicts best
 * (codec/model/domain.h): how many slow dimensions count bricks. For a chunk of
 * one dimension it only finds whether the chunk may consist of rows, planes or
 * boxes; the host then searches.
 *
 * A second block finds whether other encodings are worth a trial: whether
 * values repeat, whether lossless coding may be smaller
 * (codec/model/repeats.h), and whether the chunk may be constant along some
 * dimension. */
#include "codec/model/lag_errors.h"
#include "codec/model/ranks.h"
#include "codec/model/repeat_keys.h"
#include "gpu/block/count_keys.cuh"
#include "gpu/block/warp.cuh"
#include "gpu/predict/values.cuh"

/* Threads, and warps, of a block. */
#define NTHREADS 256
#define NWARPS (NTHREADS / 32)

/* The errors along each dimension at distances 2^j, and the prices that follow.
 */
struct survey {
    struct terp_price_sum sum[TERP_NDIMS][TERP_MAX_LEVELS];
    struct terp_domain_prices prices;
};

/* A warp sums up the errors of all samples along a dimension of `extent` values
 * that are `stride` apart, at one distance. */
template <typename T>
static __device__ struct terp_price_sum
sum_errors(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
           uint64_t stride, uint64_t extent, uint64_t distance)
{
    const T *values = (const T *)chunk.src;
    const fill_words<T> fills = fills_of<T>(chunk);
    const double inverse_step = 1 / chunk.model.step;
    struct terp_price_sum sum = {0, 0, 0};

#pragma unroll 1
    for (unsigned i = threadIdx.x % 32; i < TERP_DOMAIN_NSAMPLES; i += 32) {
        const uint64_t at = terp_domain_sample_at(batch.nvalues, 0, i);
        const struct terp_lag_errors errors =
            lag_errors_of(values, batch.nvalues, fills.at, at,
                          stride * distance, inverse_step);
        terp_price_add(&errors, at / stride % extent, extent, distance, &sum);
    }
    sum.linear = warp_sum(sum.linear);
    sum.cubic = warp_sum(sum.cubic);
    sum.n = warp_sum(sum.n);
    return sum;
}

/* Prices all dimensions. A warp handles one distance at a time. Has barriers
 * before and after the prices are made from the errors. */
template <typename T>
static __device__ void
price_dims(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
           struct survey *s)
{
    const int rank = batch.chunk.rank;
    unsigned turn = 0;
    uint64_t stride = 1;

    for (int d = 0; d < rank; d++) {
        const uint64_t extent = batch.chunk.dims[rank - 1 - d];
        for (int j = 0; UINT64_C(1) << j < extent; j++, turn++) {
            if (turn % NWARPS != threadIdx.x / 32)
                continue;
            const struct terp_price_sum sum =
                sum_errors<T>(batch, chunk, stride, extent, UINT64_C(1) << j);
            if (threadIdx.x % 32 == 0)
                s->sum[d][j] = sum;
        }
        stride *= extent;
    }
    __syncthreads();
    if (threadIdx.x < (unsigned)rank) {
        const unsigned d = threadIdx.x;
        uint32_t before = TERP_PRICE_UNKNOWN;
        for (int j = 0; UINT64_C(1) << j < batch.chunk.dims[rank - 1 - (int)d];
             j++)
            before = s->prices.along[d][j] =
                terp_price_of(&s->sum[d][j], before);
    }
    __syncthreads();
}

/* Whether rows of some length seem to repeat; each warp tests its own lengths
 * and gets its own result. */
template <typename T>
static __device__ bool
find_period(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
            const struct survey *s)
{
    const unsigned lane = threadIdx.x % 32;
    const uint64_t n = batch.nvalues;

    for (uint64_t first = TERP_MIN_PERIOD + threadIdx.x - lane;
         first <= min_u64(TERP_MAX_PERIOD, n / 2); first += NTHREADS) {
        const uint64_t own = first + lane;
        unsigned divisors =
            __ballot_sync(FULL_WARP_MASK, terp_may_be_period(n, own));
        for (; divisors != 0; divisors &= divisors - 1) {
            const uint64_t period = first + (unsigned)__ffs((int)divisors) - 1;
            const struct terp_price_sum sum =
                sum_errors<T>(batch, chunk, period, n / period, 1);
            if (terp_seems_periodic(&s->sum[0][terp_half_period_log2(period)],
                                    &sum))
                return true;
        }
    }
    return false;
}

template <typename T>
static __device__ void
find_domain(const struct cuda_batch &batch, struct cuda_chunk &chunk,
            struct survey &s)
{
    int nslow = 0;

    price_dims<T>(batch, chunk, &s);
    if (batch.chunk.rank == 1) {
        if (__syncthreads_or(find_period<T>(batch, chunk, &s)) &&
            threadIdx.x == 0)
            chunk.facts.is_periodic = true;
        return;
    }
    if (threadIdx.x != 0)
        return;
    s.prices.anchor =
        terp_price_of_anchor(chunk.min, chunk.max, chunk.model.step);
    chunk.facts.domain_verdict =
        terp_domain_choose_split(&batch.chunk, &s.prices, &nslow);
    chunk.facts.domain_nslow = nslow;
}

/* The keys of sampled values, and a bit for each slot: another point has the
 * same key. */
struct repeats_table {
    unsigned long long entry[TERP_REPEATS_NSLOTS];
    uint32_t is_found[TERP_REPEATS_NSLOTS / 32];
};
/* NSPANS_AT_ONCE: spans that the threads of a block handle at a time. NSPANS:
 * spans whose values a thread loads before it uses the first one. With four of
 * them the choice ended 75 us after the tuner in place of 86. */
#define NSPANS_AT_ONCE (NTHREADS / TERP_REPEATS_SPAN_NVALUES)
#define NSPANS 4
static_assert(TERP_REPEATS_NSLOTS / 32 <= NTHREADS &&
                  NTHREADS % TERP_REPEATS_SPAN_NVALUES == 0,
              "Each word of bits has a thread, and spans are whole.");

template <typename T>
static __device__ void
find_repeats(const struct cuda_batch &batch, struct cuda_chunk &chunk,
             const T *values, const int near_nbits, struct repeats_table &s)
{
    const uint64_t nstretches = batch.nvalues / TERP_REPEATS_STRETCH_NVALUES;
    const uint64_t reach = terp_repeats_reach(batch.chunk.type);
    uint64_t key;

    if (!terp_may_repeat(batch.nvalues, chunk.min, chunk.max, chunk.model.step))
        return;
    for (unsigned slot = threadIdx.x; slot < TERP_REPEATS_NSLOTS;
         slot += NTHREADS)
        s.entry[slot] = 0;
    if (threadIdx.x < TERP_REPEATS_NSLOTS / 32)
        s.is_found[threadIdx.x] = 0;
    __syncthreads();
    for (unsigned j = threadIdx.x; j < TERP_REPEATS_NSAMPLES; j += NTHREADS) {
        const uint64_t i = terp_repeats_sample_at(batch.nvalues, j);
        if (repeat_key_of(values, batch.nvalues, i, reach, near_nbits, &key))
            atomicMax(&s.entry[terp_repeats_slot(key)],
                      (unsigned long long)terp_repeats_entry(key, i));
    }
    __syncthreads();
#pragma unroll 1
    for (uint64_t k = threadIdx.x / TERP_REPEATS_SPAN_NVALUES; k < nstretches;
         k += NSPANS * NSPANS_AT_ONCE) {
        uint64_t keys[NSPANS], at[NSPANS];
        bool has_key[NSPANS];
#pragma unroll
        for (unsigned j = 0; j < NSPANS; j++) {
            const uint64_t own = k + j * NSPANS_AT_ONCE;
            at[j] = terp_repeats_span_at(min_u64(own, nstretches - 1)) +
                    threadIdx.x % TERP_REPEATS_SPAN_NVALUES;
            has_key[j] = repeat_key_of(values, batch.nvalues, at[j], reach,
                                       near_nbits, &keys[j]) &&
                         own < nstretches;
        }
#pragma unroll
        for (unsigned j = 0; j < NSPANS; j++) {
            const unsigned slot = terp_repeats_slot(keys[j]);
            if (terp_repeats_match(s.entry[slot], keys[j], at[j]) && has_key[j])
                atomicOr(&s.is_found[slot / 32], 1u << slot % 32);
        }
    }
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    unsigned nfound = 0;
    for (unsigned k = threadIdx.x; k < TERP_REPEATS_NSLOTS / 32; k += 32)
        nfound += (unsigned)__popc(s.is_found[k]);
    nfound = warp_sum(nfound);
    if (threadIdx.x == 0 && nfound >= TERP_REPEATS_MIN_NFOUND)
        chunk.facts.may_repeat = true;
}

/* Whether the chunk may be constant along some dimension: sampled values, one
 * per thread, all equal their neighbours along it. All threads of the block
 * call it. */
template <typename T>
static __device__ bool
may_be_copies(const struct cuda_batch &batch, const T *values)
{
    const int rank = batch.chunk.rank;
    const uint64_t at = batch.nvalues / NTHREADS * threadIdx.x +
                        threadIdx.x * 7919 % (batch.nvalues / NTHREADS);
    uint64_t stride = 1;
    bool any = false;

    for (int d = 0; d < rank; d++) {
        const uint64_t extent = batch.chunk.dims[rank - 1 - d];
        const bool is_last = at / stride % extent == extent - 1;
        const uint64_t other = extent == 1 ? at
                               : is_last   ? at - stride
                                           : at + stride;
        const bool differs = bits_of(values[at]) != bits_of(values[other]);
        any |= !__syncthreads_or(differs) && extent > 1;
        stride *= extent;
    }
    return any;
}

/* Searches the chunk's own values, of type V. Under a bound relative to each
 * value, values of another type may be coded. */
template <typename V>
static __device__ void
find_repeats_of_each(const struct cuda_batch &batch, struct cuda_chunk &chunk,
                     struct repeats_table &s)
{
    find_repeats<V>(
        batch, chunk, (const V *)chunk.values,
        terp_repeats_near_nbits_of_each(batch.encoding.caller_bound, sizeof(V)),
        s);
}

/* The keys of sampled values, and the slots of count_keys. */
struct few_table {
    uint64_t keys[TERP_FEW_MAX_NSAMPLES];
    unsigned slots[2 * TERP_FEW_MAX_NSAMPLES];
    struct key_counts counts;
};

/* Finds whether there may be few different values (terp_may_be_few). All
 * threads of the block call it. */
static __device__ void
find_few(const struct cuda_batch &batch, struct cuda_chunk &chunk,
         struct few_table &s)
{
    const uint64_t nsamples = terp_few_nsamples(batch.nvalues);
    const int nbits = terp_ranks_slots_nbits(nsamples);
    struct terp_chunk swapped = batch.chunk;

    if (!terp_few_are_possible(&batch.chunk, batch.nvalues))
        return;
    swapped.big_endian = false;
    if (threadIdx.x == 0)
        s.counts = {0, 0};
    for (unsigned i = threadIdx.x; i < 1u << nbits; i += NTHREADS)
        s.slots[i] = 0;
    for (unsigned i = threadIdx.x; i < nsamples; i += NTHREADS)
        s.keys[i] =
            terp_few_sampled_key(&swapped, chunk.values, batch.nvalues, i);
    __syncthreads();
    const struct key_counts own =
        count_keys<NTHREADS>(s.keys, nsamples, s.slots, nbits);
    atomicAdd(&s.counts.ndistinct, own.ndistinct);
    atomicAdd(&s.counts.nrepeated, own.nrepeated);
    __syncthreads();
    if (threadIdx.x == 0 &&
        terp_ranks_estimate(batch.nvalues, s.counts.ndistinct,
                            s.counts.nrepeated) > 0)
        chunk.facts.may_be_few = true;
}

/* Grid: x = 3 blocks, or only the first; y = chunks. The first block finds the
 * domain, the second looks for other encodings, the third for few different
 * values. Shared memory: struct survey, struct repeats_table or struct
 * few_table; barriers separate filling and reading it. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) find_domains(const struct cuda_batch batch)
{
    begin_kernel();
    __shared__ union {
        struct survey survey;
        struct repeats_table repeats;
        struct few_table few;
    } s;
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];

    if (chunk.status != TERP_OK || chunk.coding == TERP_CODING_CONSTANT)
        return;
    const bool is_half = terp_type_is_half(batch.chunk.type);
    if (blockIdx.x == 0) {
        find_domain<T>(batch, chunk, s.survey);
        return;
    }
    if (blockIdx.x == 2) {
        find_few(batch, chunk, s.few);
        return;
    }
    if (cuda_form_is_pointwise(batch.form)) {
        if (batch.chunk.type == TERP_FLOAT64)
            find_repeats_of_each<double>(batch, chunk, s.repeats);
        else
            find_repeats_of_each<float>(batch, chunk, s.repeats);
        return;
    }
    if (terp_may_be_lossless(batch.encoding.params.effort, chunk.min, chunk.max,
                             chunk.model.step,
                             is_half
                                 ? terp_half_mantissa_nbits(batch.chunk.type)
                                 : terp_mantissa_nbits(sizeof(T))))
        chunk.facts.may_be_lossless = true;
    if (!is_half && may_be_copies(batch, (const T *)chunk.src))
        chunk.facts.may_be_copies = true;
    else
        find_repeats<T>(
            batch, chunk, (const T *)chunk.src,
            terp_repeats_near_nbits(chunk.bound, chunk.min, chunk.max,
                                    terp_value_nbytes(batch.chunk.type)),
            s.repeats);
}

cudaError_t
cuda_find_domains(const struct cuda_batch *batch, cudaStream_t stream)
{
    struct stage_launches launches = {batch, stream};

    if (batch->encoding.finds_domains)
        launches.add_typed(CUDA_TYPED(find_domains),
                           batch->encoding.finds_more ? 3 : 1, NTHREADS);
    return launches.error;
}
