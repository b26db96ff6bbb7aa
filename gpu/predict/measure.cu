/* Sums up squares of errors, in the same order as cpu/predict/measure.c. */
#include "gpu/predict/measure.cuh"

#include "codec/format/types.h"
#include "codec/model/psnr.h"
#include "gpu/block/swap.cuh"
#include "gpu/predict/values.cuh"

#define NTHREADS TERP_SQUARES_NLANES

/* Returns the sum over all threads in the first thread. Has a barrier in each
 * step. */
static __device__ __forceinline__ double
sum_of_lanes(double own)
{
    __shared__ double s_lanes[NTHREADS];

    s_lanes[threadIdx.x] = own;
    for (unsigned n = NTHREADS / 2; n > 0; n /= 2) {
        __syncthreads();
        if (threadIdx.x < n)
            s_lanes[threadIdx.x] += s_lanes[threadIdx.x + n];
    }
    return s_lanes[0];
}

template <typename T, bool SWAPS>
static __device__ __forceinline__ T
loaded_value(const void *values, uint64_t i)
{
    const word_of<T> word = ((const word_of<T> *)values)[i];

    return value_of_bits(SWAPS ? swapped(word) : word);
}

/* Sums up the squares of a block of values. Grid: x = blocks of
 * TERP_SQUARES_BLOCK_NVALUES values, y = chunks. A thread takes every
 * NTHREADS-th value of its block. Shared memory: a sum per thread. SWAPS:
 * values have the other byte order. */
template <typename T, bool SWAPS>
static __global__ void
__launch_bounds__(NTHREADS)
    square_errors(struct cuda_measured *measured, uint64_t nvalues)
{
    begin_kernel();
    const struct cuda_measured &own = measured[blockIdx.y];
    const double half_range = own.half_range;
    double sum = 0;
    fill_words<T> fills;

    for (int k = 0; k < TERP_NFILLS; k++)
        fills.at[k] = (word_of<T>)own.fills[k];
    const uint64_t first =
        (uint64_t)blockIdx.x * TERP_SQUARES_BLOCK_NVALUES + threadIdx.x;
#pragma unroll 4
    for (unsigned k = 0; k < TERP_SQUARES_BLOCK_NVALUES / NTHREADS; k++) {
        const uint64_t i = first + k * NTHREADS;
        if (i >= nvalues)
            break;
        const T value = loaded_value<T, SWAPS>(own.values, i);
        const T other = loaded_value<T, SWAPS>(own.decoded, i);
        if (!is_special(value, fills))
            sum +=
                terp_square_of_error((double)value, (double)other, half_range);
    }
    sum = sum_of_lanes(sum);
    if (threadIdx.x == 0)
        own.sums[blockIdx.x] = sum;
}

/* Adds up the sums of all blocks of a chunk. Grid: x = 1, y = chunks. A thread
 * takes every NTHREADS-th sum. Shared memory: a sum per thread. */
static __global__ void
__launch_bounds__(NTHREADS)
    add_up_blocks(struct cuda_measured *measured, uint64_t nblocks)
{
    begin_kernel();
    struct cuda_measured &own = measured[blockIdx.y];
    double sum = 0;

#pragma unroll 8
    for (uint64_t b = threadIdx.x; b < nblocks; b += NTHREADS)
        sum += own.sums[b];
    sum = sum_of_lanes(sum);
    if (threadIdx.x == 0)
        own.sum = sum;
}

cudaError_t
cuda_measure(struct cuda_measured *d_measured, uint64_t n,
             const struct terp_chunk *chunk, cudaStream_t stream)
{
    const bool wide = chunk->type == TERP_FLOAT64, swaps = chunk->big_endian;
    const uint64_t nvalues = terp_chunk_nvalues(chunk);
    const uint64_t nblocks = div_up(nvalues, TERP_SQUARES_BLOCK_NVALUES);
    struct cuda_work work = {stream};

    work.run(wide ? (swaps ? square_errors<double, true>
                           : square_errors<double, false>)
                  : (swaps ? square_errors<float, true>
                           : square_errors<float, false>),
             dim3((unsigned)nblocks, (unsigned)n), NTHREADS, d_measured,
             nvalues);
    work.run(add_up_blocks, dim3(1, (unsigned)n), NTHREADS, d_measured,
             nblocks);
    return work.error;
}
