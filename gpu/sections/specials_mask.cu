/* Makes the mask of special values from their runs. With a mask delta runs tell
 * where the mask differs from itself so many values before. Such differences
 * are summed up (modulo 2): the chunk is cut into rows as long as the mask
 * delta's distance and into columns of 32 values, and a thread goes down a
 * column from row to row. Long columns are cut into parts: first each part's
 * sum is found, then all parts are done side by side. */
#include "gpu/sections/specials_runs.cuh"

static_assert(SPECIALS_SHARE_NVALUES == 32 * SPECIALS_READ_NTHREADS,
              "Each thread makes one word of its block's share.");

/* The last block of the first launch sums up a chunk of no more values than
 * this by itself. */
#ifndef CUDA_SINGLE_BLOCK_MAX_NSUMMED
#define CUDA_SINGLE_BLOCK_MAX_NSUMMED (1 << 20)
#endif
#define MAX_NSUM_BLOCKS 264

/* The most parts of a column: each part reads the sums of all before it. A
 * device is busy with so many parts of all columns together. */
#define MAX_NPARTS 512
#define BUSY_NITEMS (UINT64_C(1) << 17)

/* Rows whose loads a thread has on their way at once. */
#define NROWS_AHEAD 8

/* ---- words of the share ---- */

/* Toggles the bits where the runs of a batch begin and end. */
static __device__ void
toggle_ends(const struct specials_view &view, uint64_t i, uint32_t *s_word)
{
    struct specials_own_runs runs;

    specials_read_runs(view, i, runs);
    for (int k = 0; k < SPECIALS_READ_NRUNS; k++) {
        uint64_t end = runs.begin[k] + runs.length[k];
        uint64_t begin =
            runs.begin[k] < view.begin ? view.begin : runs.begin[k];
        if (begin >= end || begin >= view.end || end <= view.begin)
            continue;
        unsigned from = (unsigned)(begin - view.begin);
        atomicXor(&s_word[from / 32], 1u << from % 32);
        if (end >= view.end)
            continue;
        unsigned to = (unsigned)(end - view.begin);
        atomicXor(&s_word[to / 32], 1u << to % 32);
    }
}

/* Whether an odd number of the threads before this one have an odd word. */
static __device__ bool
parity_before(bool odd)
{
    __shared__ unsigned s_odd[SPECIALS_READ_NTHREADS / 32];
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned odds = __ballot_sync(FULL_WARP_MASK, odd);

    if (lane == 0)
        s_odd[warp] = odds;
    __syncthreads();
    unsigned before = odds & ((1u << lane) - 1);
    for (unsigned i = 0; i < warp; i++)
        before ^= s_odd[i];
    return __popc(before) & 1;
}

static __device__ void
fill_share(const struct cuda_batch &batch, const struct specials_view &view)
{
    __shared__ uint32_t s_word[SPECIALS_READ_NTHREADS];
    uint32_t *mask = region<uint32_t>(batch, blockIdx.y, batch.at.mask);
    const uint64_t at = view.begin / 32 + threadIdx.x;

    s_word[threadIdx.x] = 0;
    __syncthreads();
    for (uint64_t i = specials_first_batch(view);
         i < view.nbatches && view.batches[i].end < view.end; i++)
        toggle_ends(view, i, s_word);
    __syncthreads();
    uint32_t word = s_word[threadIdx.x];
    for (int distance = 1; distance < 32; distance *= 2)
        word ^= word << distance;
    if (parity_before(word >> 31))
        word = ~word;
    if (view.end < 32 * (at + 1))
        word &= view.end <= 32 * at ? 0 : (1u << (view.end - 32 * at)) - 1;
    if (at < 2 * div_up(batch.nvalues, 64))
        mask[at] = word;
}

/* ---- sums of a mask delta ---- */

/* How the mask is cut for threads: each takes every so many of the parts of all
 * columns. */
struct mask_cut {
    uint32_t *mask, *sums; /* sums[nparts][ncolumns] */
    uint64_t distance, nvalues;
    uint64_t ncolumns, nrows, nparts, part_nrows;
};

static __device__ struct mask_cut
cut_mask(const struct cuda_batch &batch, uint64_t distance)
{
    struct mask_cut cut;
    uint64_t nwords = div_up(batch.nvalues, 32);

    cut.mask = region<uint32_t>(batch, blockIdx.y, batch.at.mask);
    /* The batches of runs are no longer needed. */
    cut.sums = region<uint32_t>(batch, blockIdx.y, batch.at.runs);
    cut.distance = distance;
    cut.nvalues = batch.nvalues;
    cut.ncolumns = div_up(distance, 32);
    cut.nrows = div_up(batch.nvalues, distance);
    cut.nparts = min_u64(nwords / 4, BUSY_NITEMS) / cut.ncolumns;
    cut.nparts = cut.nparts > 0 ? min_u64(cut.nparts, MAX_NPARTS) : 1;
    cut.part_nrows = div_up(cut.nrows, cut.nparts);
    return cut;
}

/* The bits of a column in a row. */
static __device__ __forceinline__ unsigned
bits_at(const struct mask_cut &cut, uint64_t row, uint64_t column)
{
    const uint64_t at = row * cut.distance + 32 * column;
    const uint64_t end = min_u64((row + 1) * cut.distance, cut.nvalues);
    const unsigned shift = (unsigned)(at % 32);

    if (at >= end)
        return 0;
    const unsigned nbits = (unsigned)min_u64(32, end - at);
    const uint32_t *word = cut.mask + at / 32;
    const unsigned bits =
        __funnelshift_r(word[0], shift + nbits > 32 ? word[1] : 0, shift);
    return nbits == 32 ? bits : bits & ((1u << nbits) - 1);
}

/* Toggles bits of a column in a row, and atomically: columns share words. */
static __device__ __forceinline__ void
toggle_bits(const struct mask_cut &cut, uint64_t row, uint64_t column,
            unsigned bits)
{
    const uint64_t at = row * cut.distance + 32 * column;
    const uint64_t end = min_u64((row + 1) * cut.distance, cut.nvalues);
    const unsigned shift = (unsigned)(at % 32);

    if (at >= end)
        return;
    if (end - at < 32)
        bits &= (1u << (end - at)) - 1;
    if (bits << shift != 0)
        atomicXor(&cut.mask[at / 32], bits << shift);
    if (shift > 0 && bits >> (32 - shift) != 0)
        atomicXor(&cut.mask[at / 32 + 1], bits >> (32 - shift));
}

/* The sum of a part of a column and of `before`, the sum of the parts before
 * it. SUM_UP: the part's bits become the sums up to each. */
template <bool SUM_UP>
static __device__ unsigned
sum_part(const struct mask_cut &cut, uint64_t part, uint64_t column,
         unsigned before)
{
    const uint64_t end = min_u64((part + 1) * cut.part_nrows, cut.nrows);
    unsigned bits[NROWS_AHEAD], sum = before;

    for (uint64_t row = part * cut.part_nrows; row < end; row += NROWS_AHEAD) {
        for (unsigned k = 0; k < NROWS_AHEAD; k++)
            bits[k] = row + k < end ? bits_at(cut, row + k, column) : 0;
        for (unsigned k = 0; k < NROWS_AHEAD; k++) {
            if (SUM_UP && row + k < end)
                toggle_bits(cut, row + k, column, sum);
            sum ^= bits[k];
        }
    }
    return sum;
}

/* The sums of all parts but the last. The caller is thread `first` of
 * `nthreads`. */
static __device__ void
sum_parts(const struct mask_cut &cut, uint64_t first, uint64_t nthreads)
{
    for (uint64_t i = first; i < cut.ncolumns * (cut.nparts - 1); i += nthreads)
        cut.sums[i] =
            sum_part<false>(cut, i / cut.ncolumns, i % cut.ncolumns, 0);
}

/* Sums up all parts, once the sum of each is known. */
static __device__ void
sum_up(const struct mask_cut &cut, uint64_t first, uint64_t nthreads)
{
    for (uint64_t i = first; i < cut.ncolumns * cut.nparts; i += nthreads) {
        const uint64_t part = i / cut.ncolumns, column = i % cut.ncolumns;
        unsigned before = 0;
#pragma unroll 8
        for (uint64_t k = 0; k < part; k++)
            before ^= cut.sums[k * cut.ncolumns + column];
        sum_part<true>(cut, part, column, before);
    }
}

/* ---- kernels ---- */

/* The same in all threads, though other stages may change the state
 * meanwhile. */
static __device__ bool
has_mask(const struct cuda_chunk &chunk)
{
    bool ready = chunk.status == TERP_OK && chunk.has_specials;
    return !__syncthreads_or(!ready);
}

/* Grid: x shares of a chunk, y chunks. A block owns the words of its share.
 * SINGLE_BLOCK: then the last block sums up the chunk by itself. */
template <bool SINGLE_BLOCK>
static __global__ void
__launch_bounds__(SPECIALS_READ_NTHREADS)
    fill_mask(const struct cuda_batch batch)
{
    begin_kernel();
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];

    if (!has_mask(chunk))
        return;
    const struct specials_view view =
        specials_view_of(batch, chunk, blockIdx.x);
    fill_share(batch, view);
    if (!SINGLE_BLOCK || view.head.mask_delta_distance == 0 ||
        !is_last_block(&chunk.progress[CUDA_PROGRESS_MASK], gridDim.x))
        return;
    const struct mask_cut cut = cut_mask(batch, view.head.mask_delta_distance);
    sum_parts(cut, threadIdx.x, SPECIALS_READ_NTHREADS);
    __syncthreads();
    sum_up(cut, threadIdx.x, SPECIALS_READ_NTHREADS);
}

/* Grid: x blocks whose threads take parts of columns in turn, y chunks. First
 * launch: the sums of parts; second one, SUM_UP: their bits. */
template <bool SUM_UP>
static __global__ void
__launch_bounds__(SPECIALS_READ_NTHREADS)
    sum_mask(const struct cuda_batch batch)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const uint64_t nthreads = (uint64_t)gridDim.x * SPECIALS_READ_NTHREADS;
    const uint64_t first =
        (uint64_t)blockIdx.x * SPECIALS_READ_NTHREADS + threadIdx.x;

    if (!has_mask(chunk))
        return;
    const uint64_t distance =
        specials_view_of(batch, chunk, 0).head.mask_delta_distance;
    if (distance == 0)
        return;
    const struct mask_cut cut = cut_mask(batch, distance);
    if (SUM_UP)
        sum_up(cut, first, nthreads);
    else
        sum_parts(cut, first, nthreads);
}

cudaError_t
cuda_specials_mask(const struct cuda_batch *batch, cudaStream_t stream)
{
    const uint64_t nshares = div_up(batch->nvalues, SPECIALS_SHARE_NVALUES);
    const uint64_t nsums = min_u64(nshares, MAX_NSUM_BLOCKS);

    if (batch->nvalues <= CUDA_SINGLE_BLOCK_MAX_NSUMMED)
        return launch_stage(batch, stream, fill_mask<true>, nshares,
                            SPECIALS_READ_NTHREADS);
    cudaError_t error = launch_stage(batch, stream, fill_mask<false>, nshares,
                                     SPECIALS_READ_NTHREADS);
    if (error == cudaSuccess)
        error = launch_stage(batch, stream, sum_mask<false>, nsums,
                             SPECIALS_READ_NTHREADS);
    return error == cudaSuccess ? launch_stage(batch, stream, sum_mask<true>,
                                               nsums, SPECIALS_READ_NTHREADS)
                                : error;
}
