/* Replaces references by values, all at once, since no reference leads to
 * another; finds dimensions along which values repeat, and restores them. */
#include "gpu/predict/repeats.cuh"

#include "codec/format/references.h"
#include "gpu/block/sum.cuh"
#include "gpu/block/swap.cuh"

/* Threads, and warps, of a block. */
#define NTHREADS 256
#define NWARPS (NTHREADS / 32)

/* ---- references ---- */

/* Values in which a warp counts markers. */
#define WARP_NVALUES (CUDA_FOLLOW_NVALUES / NWARPS)
static_assert(WARP_NVALUES % 32 == 0, "Lanes have equally many values.");

/* Counts the markers in each share of CUDA_FOLLOW_NVALUES values. Grid: x =
 * shares, y = chunks. A thread reads every NTHREADS-th value of its block's
 * share. Shared memory: a count per warp; one barrier before the first thread
 * adds them up. */
template <typename Word>
static __global__ void
__launch_bounds__(NTHREADS) count_markers(const struct cuda_follow *follow,
                                          const struct cuda_follow_kind kind)
{
    begin_kernel();
    __shared__ unsigned s_n[NWARPS];
    const struct cuda_follow &chunk = follow[blockIdx.y];
    const Word *values = (const Word *)chunk.values;
    const uint64_t first = (uint64_t)blockIdx.x * CUDA_FOLLOW_NVALUES;
    const uint64_t end = min_u64(first + CUDA_FOLLOW_NVALUES, kind.nvalues);
    unsigned n = 0;

    for (uint64_t i = first + threadIdx.x; i < end; i += NTHREADS)
        n += values[i] == (Word)chunk.marker;
    n = warp_sum(n);
    if (threadIdx.x % 32 == 0)
        s_n[threadIdx.x / 32] = n;
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    for (int w = 1; w < NWARPS; w++)
        n += s_n[w];
    chunk.nbefore[blockIdx.x] = n;
}

/* Sums up the counts, so that nbefore[i] is the number of markers before share
 * i. Grid: x = 1, y = chunks; the block owns all shares of its chunk. */
static __global__ void
__launch_bounds__(NTHREADS)
    sum_markers(struct cuda_follow *follow, const uint64_t nshares)
{
    begin_kernel();
    __shared__ block_scan<unsigned long long, NTHREADS> s_scan;
    struct cuda_follow &chunk = follow[blockIdx.y];
    uint64_t *nbefore = chunk.nbefore;

    const uint64_t n = sum_numbers<NTHREADS>(
        nshares, s_scan, [=](uint64_t i) { return nbefore[i]; },
        [=](uint64_t i, uint64_t before) { nbefore[i] = before; });
    if (threadIdx.x == 0 && n != chunk.nreferences)
        chunk.is_bad = 1;
}

/* Returns the value of the reference at index `i`, which is reference `number`
 * of the chunk, and whether its source exists. */
template <typename Word>
static __device__ __forceinline__ Word
value_of_reference(const struct cuda_follow &chunk,
                   const struct cuda_follow_kind &kind, uint64_t i,
                   uint64_t number, bool *has_source_ret)
{
    const Word *values = (const Word *)chunk.values;
    const uint64_t distance =
        number < chunk.nreferences ? chunk.distances[number] : 0;
    const bool leads = distance > 0 && distance <= i;
    const Word source = leads ? values[i - distance] : (Word)chunk.marker;

    *has_source_ret = source != (Word)chunk.marker;
    return *has_source_ret
               ? (Word)terp_reference_value(kind.is_float, sizeof(Word), source,
                                            chunk.differences[number])
               : 0;
}

/* Replaces markers by values. Grid as for count_markers. A warp owns
 * WARP_NVALUES consecutive values, a lane every 32nd of them. Shared memory: a
 * count of markers per warp; one barrier before the warps add up the counts
 * before them. */
template <typename Word>
static __global__ void
__launch_bounds__(NTHREADS)
    follow_references(struct cuda_follow *follow,
                      const struct cuda_follow_kind kind)
{
    begin_kernel();
    __shared__ unsigned s_n[NWARPS];
    struct cuda_follow &chunk = follow[blockIdx.y];
    const Word *values = (const Word *)chunk.values;
    Word *dst = (Word *)chunk.dst;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint64_t first =
        (uint64_t)blockIdx.x * CUDA_FOLLOW_NVALUES + warp * WARP_NVALUES + lane;
    uint64_t number = chunk.nbefore[blockIdx.x];
    Word value[WARP_NVALUES / 32];
    unsigned n = 0;
    bool is_bad = false;

    for (unsigned k = 0; k < WARP_NVALUES / 32; k++) {
        const uint64_t i = first + 32 * k;
        value[k] = i < kind.nvalues ? values[i] : (Word)~chunk.marker;
        n += (unsigned)__popc(
            __ballot_sync(FULL_WARP_MASK, value[k] == (Word)chunk.marker));
    }
    if (lane == 0)
        s_n[warp] = n;
    __syncthreads();
    for (unsigned w = 0; w < warp; w++)
        number += s_n[w];
    for (unsigned k = 0; k < WARP_NVALUES / 32; k++) {
        const uint64_t i = first + 32 * k;
        const bool refers = value[k] == (Word)chunk.marker;
        const unsigned others = __ballot_sync(FULL_WARP_MASK, refers);
        bool has_source = true;
        if (refers)
            value[k] = value_of_reference<Word>(
                chunk, kind, i,
                number + (unsigned)__popc(others & ((1u << lane) - 1)),
                &has_source);
        number += (unsigned)__popc(others);
        is_bad |= !has_source;
        if (i < kind.nvalues)
            dst[i] = kind.big_endian ? swapped(value[k]) : value[k];
    }
    if (is_bad)
        chunk.is_bad = 1;
}

template <typename Word>
static cudaError_t
follow_all(struct cuda_follow *d_follow, uint64_t n,
           const struct cuda_follow_kind *kind, cudaStream_t stream)
{
    const uint64_t nshares = div_up(kind->nvalues, CUDA_FOLLOW_NVALUES);
    const dim3 grid((unsigned)nshares, (unsigned)n);

    struct cuda_work work = {stream};

    work.run(count_markers<Word>, grid, NTHREADS, d_follow, *kind);
    work.run(sum_markers, dim3(1, (unsigned)n), NTHREADS, d_follow, nshares);
    work.run(follow_references<Word>, grid, NTHREADS, d_follow, *kind);
    return work.error;
}

cudaError_t
cuda_references_follow(struct cuda_follow *d_follow, uint64_t n,
                       const struct cuda_follow_kind *kind, cudaStream_t stream)
{
    return kind->value_nbytes == 2
               ? follow_all<uint16_t>(d_follow, n, kind, stream)
           : kind->value_nbytes == 4
               ? follow_all<uint32_t>(d_follow, n, kind, stream)
               : follow_all<uint64_t>(d_follow, n, kind, stream);
}

/* ---- copies ---- */

/* The most blocks for a chunk; blocks take further pieces in turns. */
#define MAX_NBLOCKS 1024

/* Restores copies. Grid: x = up to MAX_NBLOCKS, y = chunks. No shared memory.
 */
template <typename Word>
static __global__ void
__launch_bounds__(NTHREADS) spread_rows(const struct cuda_spread *spread,
                                        const struct cuda_spread_shape shape)
{
    begin_kernel();
    const Word *from = (const Word *)spread[blockIdx.y].from;
    Word *to = (Word *)spread[blockIdx.y].to;

    for_spread<NWARPS>(
        shape, [=](uint64_t to_at, uint64_t at) { to[to_at] = from[at]; });
}

static uint64_t
nvalues_of(const struct cuda_spread_shape *shape)
{
    uint64_t nvalues = 1;

    for (uint64_t extent : shape->dims)
        nvalues *= extent;
    return nvalues;
}

static unsigned
nblocks_of(const struct cuda_spread_shape *shape)
{
    return (unsigned)min_u64(div_up(nvalues_of(shape), NTHREADS), MAX_NBLOCKS);
}

cudaError_t
cuda_copies_spread(const struct cuda_spread *d_spread, uint64_t n,
                   const struct cuda_spread_shape *shape, cudaStream_t stream)
{
    const dim3 grid(nblocks_of(shape), (unsigned)n);

    return launch(cuda_of_width(shape->value_nbytes, spread_rows<uint8_t>,
                                spread_rows<uint16_t>, spread_rows<uint32_t>,
                                spread_rows<uint64_t>),
                  grid, dim3(NTHREADS), 0, stream, d_spread, *shape);
}

/* Sets a bit for each dimension along which some value differs from the one
 * before it. Grid: x = up to MAX_NBLOCKS. A thread takes every gridDim.x *
 * NTHREADS-th value. No shared memory; warps combine their bits by atomics. */
template <typename Word>
static __global__ void
__launch_bounds__(NTHREADS)
    find_copies(const Word *values, const uint64_t nvalues,
                const struct cuda_spread_shape shape, unsigned *differs)
{
    begin_kernel();
    const uint64_t step = (uint64_t)gridDim.x * NTHREADS;
    unsigned own = 0;

    for (uint64_t i = (uint64_t)blockIdx.x * NTHREADS + threadIdx.x;
         i < nvalues; i += step) {
        uint64_t stride = 1;
        for (int d = 0; d < TERP_MAX_RANK; d++) {
            const uint64_t extent = shape.dims[d];
            if ((own >> d & 1) == 0 && extent > 1 && i / stride % extent > 0 &&
                values[i] != values[i - stride])
                own |= 1u << d;
            stride *= extent;
        }
    }
    own = warp_or(own);
    if (threadIdx.x % 32 == 0 && own != 0)
        atomicOr(differs, own);
}

cudaError_t
cuda_copies_find(const void *values, const struct cuda_spread_shape *shape,
                 unsigned *d_differs, cudaStream_t stream)
{
    const dim3 grid(nblocks_of(shape)), block(NTHREADS);
    const uint64_t nvalues = nvalues_of(shape);

    return shape->value_nbytes == 4
               ? launch(find_copies<uint32_t>, grid, block, 0, stream,
                        (const uint32_t *)values, nvalues, *shape, d_differs)
               : launch(find_copies<uint64_t>, grid, block, 0, stream,
                        (const uint64_t *)values, nvalues, *shape, d_differs);
}
