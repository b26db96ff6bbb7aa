/* Looks for the domain of each chunk, the shape in which it predicts best
 * (codec/model/domain.h): how many slow dims count bricks. Of a chunk of one
 * dimension it only finds out if it may be rows, planes or boxes; then the host
 * searches. */
#include "codec/model/lag_errors.h"
#include "gpu/block/warp.cuh"
#include "gpu/predict/values.cuh"

#define NTHREADS 256
#define NWARPS (NTHREADS / 32)

struct survey {
    struct terp_price_sum sum[TERP_NDIMS][TERP_MAX_LEVELS];
    struct terp_domain_prices prices;
};

/* A warp sums the errors of all samples along a dimension of `extent` values
 * that are `stride` apart. */
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
        const uint64_t at = terp_domain_sample_at(batch.nvalues, i);
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

/* Prices along all dimensions; a warp takes a distance at a time. */
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

/* In each warp: whether rows of some length seem to repeat, of those that the
 * warp looks at. */
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

/* Grid: y chunks. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) find_domains(const struct cuda_batch batch)
{
    begin_kernel();
    __shared__ struct survey s;
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    int nslow = 0;

    if (chunk.status != TERP_OK || chunk.coding == TERP_CODING_CONSTANT)
        return;
    price_dims<T>(batch, chunk, &s);
    if (batch.chunk.rank == 1) {
        if (__syncthreads_or(find_period<T>(batch, chunk, &s)) &&
            threadIdx.x == 0)
            chunk.is_periodic = true;
        return;
    }
    if (threadIdx.x != 0)
        return;
    s.prices.anchor =
        terp_price_of_anchor(chunk.min, chunk.max, chunk.model.step);
    chunk.domain_verdict =
        terp_domain_choose_split(&batch.chunk, &s.prices, &nslow);
    chunk.domain_nslow = nslow;
}

cudaError_t
cuda_find_domains(const struct cuda_batch *batch, cudaStream_t stream)
{
    if (!batch->finds_domains)
        return cudaSuccess;
    return batch->value_nbytes == 4
               ? launch_stage(batch, stream, find_domains<float>, 1, NTHREADS)
               : launch_stage(batch, stream, find_domains<double>, 1, NTHREADS);
}
