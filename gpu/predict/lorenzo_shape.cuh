/* How Lorenzo's kernels divide a chunk: into blocks of threads, lines along a
 * dimension above 0, and segments of rows. */
#pragma once

#include "gpu/block/warp.cuh"
#include "gpu/predict/lorenzo.cuh"
#include "gpu/predict/values.cuh"

/* Threads, and warps, of a block. */
#define LORENZO_NTHREADS 256
#define LORENZO_NWARPS (LORENZO_NTHREADS / 32)

/* Blocks of a launch take work in turns, so that a chunk of another prediction
 * costs only few blocks that end at once. CUDA_LORENZO_MAX_NBLOCKS bounds the
 * blocks of a launch, but each chunk has CUDA_LORENZO_MIN_NBLOCKS. Tests set
 * lower numbers. */
#ifndef CUDA_LORENZO_MAX_NBLOCKS
#define CUDA_LORENZO_MAX_NBLOCKS 2048 /* of a launch */
#define CUDA_LORENZO_MIN_NBLOCKS 4u   /* of a chunk */
#endif

static inline unsigned
nblocks_for(const struct cuda_batch *batch, uint64_t nshares)
{
    unsigned most = CUDA_LORENZO_MAX_NBLOCKS / (unsigned)batch->nchunks;
    most = most > CUDA_LORENZO_MIN_NBLOCKS ? most : CUDA_LORENZO_MIN_NBLOCKS;
    return (unsigned)min_u64(nshares, most);
}

static __device__ __forceinline__ bool
chunk_applies(const struct cuda_chunk &chunk)
{
    return chunk.status == TERP_OK &&
           chunk.prediction == TERP_PREDICTION_LORENZO;
}

/* ---- lines ---- */

/* A line of values along a dimension above 0. */
struct line {
    uint64_t at, stride, extent;
};

/* Finds line `number` along dimension d. Returns false if there is no such
 * line. */
static __device__ __forceinline__ bool
find_line(const struct terp_layout *layout, int d, uint64_t number,
          struct line *line_ret)
{
    line_ret->stride = 1;
    line_ret->extent = layout->dims[d];
    for (int e = 0; e < d; e++)
        line_ret->stride *= layout->dims[e];
    bool exists = number < layout->nvalues / line_ret->extent;
    uint64_t inner = split(&number, line_ret->stride);
    line_ret->at = number * line_ret->stride * line_ret->extent + inner;
    return exists;
}

/* Returns the first line of the thread, and how many lines later its next one
 * is. */
static __device__ __forceinline__ uint64_t
line_of_thread(void)
{
    return (uint64_t)blockIdx.x * LORENZO_NTHREADS + threadIdx.x;
}

static __device__ __forceinline__ uint64_t
lines_at_once(void)
{
    return (uint64_t)gridDim.x * LORENZO_NTHREADS;
}

static inline unsigned
blocks_of_lines(const struct cuda_batch *batch, int d)
{
    uint64_t nlines = batch->h_layout->nvalues / batch->h_layout->dims[d];
    return nblocks_for(batch, div_up(nlines, LORENZO_NTHREADS));
}

/* Values of a line that a thread loads before it uses the first. */
#define LINE_NAHEAD 8

/* Takes differences along a line, each from the last point before it that is
 * not special; with `twice`, also the differences of these differences. Special
 * points keep 0. mask: nullptr if no point is special. */
template <typename W, bool twice>
static __device__ __forceinline__ void
subtract_line(const struct line &line, const uint32_t *mask, W *quants)
{
    W last = 0, last_difference = 0;

    for (uint64_t first = 0; first < line.extent; first += LINE_NAHEAD) {
        W *at = quants + line.at + first * line.stride, ahead[LINE_NAHEAD];
        bool counts[LINE_NAHEAD];
#pragma unroll
        for (unsigned i = 0; i < LINE_NAHEAD; i++) {
            counts[i] = first + i < line.extent &&
                        !(mask != nullptr &&
                          is_set(mask, line.at + (first + i) * line.stride));
            ahead[i] = counts[i] ? at[i * line.stride] : 0;
        }
#pragma unroll
        for (unsigned i = 0; i < LINE_NAHEAD; i++) {
            if (!counts[i])
                continue;
            const W difference = ahead[i] - last;
            last = ahead[i];
            at[i * line.stride] =
                twice ? difference - last_difference : difference;
            /* The first difference is the first value itself. Second
             * differences leave it out. */
            last_difference = first + i > 0 ? difference : 0;
        }
    }
}

/* ---- segments ---- */

/* Values of a segment. Rows are cut into segments, and a warp makes a segment.
 */
#define SEGMENT_NVALUES 1024

/* A segment of a row, as its warp needs it. */
struct segment {
    uint64_t at;    /* of the row, in C order */
    uint64_t x, nx; /* begin in the row, and extent */
    uint64_t coordinate[TERP_NDIMS];
    struct tiled_row tiled;
};

static __host__ __device__ __forceinline__ uint64_t
nsegments_of(const struct terp_layout *layout)
{
    return div_up(layout->dims[0], SEGMENT_NVALUES);
}

/* Finds the segment of this warp of the block-th block of segments. Returns
 * false if there is none. */
static __device__ __forceinline__ bool
find_segment(const struct terp_layout *layout, uint64_t block,
             struct segment *segment_ret)
{
    uint64_t left = block * (LORENZO_NTHREADS / 32) + threadIdx.x / 32;
    uint64_t x = split(&left, nsegments_of(layout)) * SEGMENT_NVALUES;

    segment_ret->at = left * layout->dims[0];
    segment_ret->x = x;
    segment_ret->nx = min_u64(SEGMENT_NVALUES, layout->dims[0] - x);
    for (int d = 1; d < TERP_NDIMS; d++)
        segment_ret->coordinate[d] = split(&left, layout->dims[d]);
    segment_ret->tiled =
        tiled_row_at(layout->rank, layout->dims, segment_ret->coordinate, left);
    return left < layout->nbricks;
}

/* Returns the number of blocks of segments; each warp of a block has one
 * segment. */
static inline uint64_t
nblocks_of_segments(const struct terp_layout *layout)
{
    return div_up(layout->nvalues / layout->dims[0] * nsegments_of(layout),
                  LORENZO_NTHREADS / 32);
}

/* Turns the sum of each segment into the sum of all segments before it in its
 * row. A warp handles a row, and blocks take rows in turns. */
template <typename W>
static __device__ __forceinline__ void
scan_segments(const struct terp_layout *layout, W *all_sums)
{
    const uint64_t nrows = layout->nvalues / layout->dims[0];
    const uint64_t nsegments = nsegments_of(layout);
    const unsigned lane = threadIdx.x % 32;

    for (uint64_t row = warp_of_chunk<LORENZO_NWARPS>(); row < nrows;
         row += warps_of_chunk<LORENZO_NWARPS>()) {
        W *sums = all_sums + row * nsegments;
        W carry = 0;
        for (uint64_t first = 0; first < nsegments; first += 32) {
            const bool exists = first + lane < nsegments;
            const W own = exists ? sums[first + lane] : 0;
            const W sum = warp_inclusive_sum(own);
            if (exists)
                sums[first + lane] = carry + sum - own;
            carry += __shfl_sync(FULL_WARP_MASK, sum, 31);
        }
    }
}

/* Returns the blocks of scan_segments; MAX_NROW_BLOCKS bounds them, since
 * blocks take rows in turns. */
#define MAX_NROW_BLOCKS 4096
static inline uint64_t
nblocks_of_rows(const struct terp_layout *layout)
{
    return min_u64(div_up(layout->nvalues / layout->dims[0], LORENZO_NWARPS),
                   MAX_NROW_BLOCKS);
}
