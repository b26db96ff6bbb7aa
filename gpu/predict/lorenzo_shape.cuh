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

/* ---- lines ---- */

/* A stretch: consecutive values of a line along a dimension above 0. */
struct line {
    uint64_t at, stride, extent; /* of the stretch */
    uint64_t first;  /* the number of values of the line before the stretch */
    uint64_t number; /* of the stretch; a line's stretches have consecutive
                      * numbers */
};

/* A thread handles the values of a line one after another. If the chunks of a
 * batch have few lines, and long ones, a line is cut into several stretches,
 * and a thread handles a stretch. Otherwise a line is one stretch. */
#ifndef CUDA_LINES_ENOUGH
#define CUDA_LINES_ENOUGH (1u << 16)
#define CUDA_STRETCH_MIN_NVALUES 64u
#endif

/* Returns the number of values of a stretch along dimension d. If a line is
 * cut, that is at least half the square root of the line's length, so that a
 * line has few stretches and a warp soon knows what precedes each. `layout`:
 * that of the batch, on the host or the device. */
static __host__ __device__ __forceinline__ uint64_t
stretch_nvalues(const struct cuda_batch &batch,
                const struct terp_layout *layout, int d)
{
    const uint64_t extent = layout->dims[d];
    const uint64_t nlines = batch.nvalues / extent * (uint64_t)batch.nchunks;
    uint64_t n = CUDA_STRETCH_MIN_NVALUES;

    if (nlines >= CUDA_LINES_ENOUGH || extent < 4 * n)
        return extent;
    while (4 * n * n < extent)
        n *= 2;
    return n;
}

static __host__ __device__ __forceinline__ uint64_t
nstretches_of(const struct cuda_batch &batch, const struct terp_layout *layout,
              int d)
{
    return div_up(layout->dims[d], stretch_nvalues(batch, layout, d));
}

/* Finds the stretch that thread `number` handles, along dimension d, if
 * stretches have `nvalues` values. Returns false if there is none. */
static __device__ __forceinline__ bool
find_line(const struct terp_layout *layout, int d, uint64_t nvalues,
          uint64_t number, struct line *line_ret)
{
    const uint64_t extent = layout->dims[d], nlines = layout->nvalues / extent;
    uint64_t left = number;

    line_ret->stride = 1;
    for (int e = 0; e < d; e++)
        line_ret->stride *= layout->dims[e];
    /* Neighbouring threads have neighbouring lines. */
    const uint64_t line = split(&left, nlines), first = left * nvalues;
    line_ret->first = first;
    line_ret->number = line * div_up(extent, nvalues) + left;
    line_ret->extent = first < extent ? min_u64(nvalues, extent - first) : 0;
    left = line;
    const uint64_t inner = split(&left, line_ret->stride);
    line_ret->at =
        left * line_ret->stride * extent + inner + first * line_ret->stride;
    return first < extent;
}

/* line_of_thread is the number of the thread's first stretch, and lines_at_once
 * is the distance to the number of its next one. */
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
    const struct terp_layout *layout = batch->h_layout;
    const uint64_t nlines = layout->nvalues / layout->dims[d];
    return nblocks_for(batch, div_up(nlines * nstretches_of(*batch, layout, d),
                                     LORENZO_NTHREADS));
}

/* Values of a line that a thread loads before it uses the first. */
#define LINE_NAHEAD 8

/* What precedes a stretch in its line. `last` is the last value that is not
 * special. last_difference is its difference from the value before that is not
 * special, or 0 if `last` is the line's first value. Both are 0 if no value
 * precedes. */
template <typename W> struct line_before {
    W last, last_difference;
};

/* The end of a stretch, which later stretches need: its last `n` values that
 * are not special. n is 2 or less. */
template <typename W> struct line_end {
    W last, before_last;
    uint32_t n;
    bool is_first; /* `last` is the line's first value */
};

/* Takes differences along a line, each from the last point before it that is
 * not special; with `twice`, also the differences of these differences. Special
 * points keep 0. mask: nullptr if no point is special. */
template <typename W, bool twice>
static __device__ __forceinline__ void
subtract_line(const struct line &line, const uint32_t *mask,
              line_before<W> before, W *quants)
{
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
            const W difference = ahead[i] - before.last;
            before.last = ahead[i];
            at[i * line.stride] =
                twice ? difference - before.last_difference : difference;
            /* The first difference is the first value itself. Second
             * differences leave it out. */
            before.last_difference =
                line.first + first + i > 0 ? difference : 0;
        }
    }
}

/* Finds the last values of a stretch that are not special. */
template <typename W>
static __device__ __forceinline__ line_end<W>
end_of_line(const struct line &line, const uint32_t *mask, const W *quants)
{
    line_end<W> end = {0, 0, 0, false};

    for (uint64_t i = line.extent; i-- > 0 && end.n < 2;) {
        const uint64_t at = line.at + i * line.stride;
        if (mask != nullptr && is_set(mask, at))
            continue;
        if (end.n == 0) {
            end.last = quants[at];
            end.is_first = line.first + i == 0;
        } else {
            end.before_last = quants[at];
        }
        end.n++;
    }
    return end;
}

/* Replaces the ends of a line's stretches by what precedes each stretch. */
template <typename W>
static __device__ __forceinline__ void
carry_along_line(uint64_t nstretches, line_end<W> *ends)
{
    line_before<W> before = {0, 0};

#pragma unroll 8
    for (uint64_t k = 0; k < nstretches; k++) {
        const line_end<W> end = ends[k];
        ends[k].last = before.last;
        ends[k].before_last = before.last_difference;
        if (end.n > 0) {
            const W from = end.n > 1 ? end.before_last : before.last;
            before.last_difference = end.is_first ? 0 : end.last - from;
            before.last = end.last;
        }
    }
}

/* Returns the sum of a stretch; special points count as 0. */
template <typename W>
static __device__ __forceinline__ W
sum_of_line(const struct line &line, const uint32_t *mask, const W *quants)
{
    W sum = 0;

#pragma unroll 8
    for (uint64_t i = 0; i < line.extent; i++) {
        const uint64_t at = line.at + i * line.stride;
        sum += mask != nullptr && is_set(mask, at) ? 0 : quants[at];
    }
    return sum;
}

/* Stores the ends of all stretches along dimension d. */
template <typename W>
static __device__ __forceinline__ void
note_ends(const struct cuda_batch &batch, int d, const uint32_t *mask,
          line_end<W> *ends)
{
    const uint64_t nvalues = stretch_nvalues(batch, batch.d_layout, d);
    const W *quants = region<W>(batch, batch.at.work);
    struct line line;

    for (uint64_t number = line_of_thread();
         find_line(batch.d_layout, d, nvalues, number, &line);
         number += lines_at_once())
        ends[line.number] = end_of_line(line, mask, quants);
}

/* Replaces the ends of all stretches along dimension d by what precedes each
 * stretch. */
template <typename W>
static __device__ __forceinline__ void
carry_ends(const struct cuda_batch &batch, int d, line_end<W> *ends)
{
    const struct terp_layout *layout = batch.d_layout;
    const uint64_t nstretches = nstretches_of(batch, layout, d);

    for (uint64_t k = line_of_thread(); k < layout->nvalues / layout->dims[d];
         k += lines_at_once())
        carry_along_line(nstretches, ends + k * nstretches);
}

/* Takes differences along dimension d. If lines are cut, `ends` has what
 * precedes each stretch. */
template <typename W, bool twice>
static __device__ __forceinline__ void
subtract_lines(const struct cuda_batch &batch, int d, const uint32_t *mask,
               const line_end<W> *ends)
{
    const uint64_t nvalues = stretch_nvalues(batch, batch.d_layout, d);
    const bool is_cut = nvalues < batch.d_layout->dims[d];
    W *quants = region<W>(batch, batch.at.work);
    struct line line;

    for (uint64_t number = line_of_thread();
         find_line(batch.d_layout, d, nvalues, number, &line);
         number += lines_at_once()) {
        line_before<W> before = {0, 0};
        if (is_cut)
            before = {ends[line.number].last, ends[line.number].before_last};
        subtract_line<W, twice>(line, mask, before, quants);
    }
}

/* The steps that make differences along a dimension, a launch each. Only lines
 * that are cut need the first two. */
enum lines_step {
    NOTE_ENDS,
    CARRY_ENDS,
    SUBTRACT
};

/* Takes a step; kernels call it. Grid: x = blocks_of_lines, y = chunks. A
 * thread owns whole stretches, and in CARRY_ENDS whole lines. */
template <typename W>
static __device__ __forceinline__ void
take_lines_step(const struct cuda_batch &batch, int d, enum lines_step step,
                bool twice, const uint32_t *mask, line_end<W> *ends)
{
    if (step == NOTE_ENDS)
        note_ends<W>(batch, d, mask, ends);
    else if (step == CARRY_ENDS)
        carry_ends<W>(batch, d, ends);
    else if (twice)
        subtract_lines<W, true>(batch, d, mask, ends);
    else
        subtract_lines<W, false>(batch, d, mask, ends);
}

/* Launches the steps along all dimensions above 0, from the last one on. */
template <typename Kernel>
static void
launch_lines_steps(struct stage_launches &launches, Kernel *floats,
                   Kernel *doubles)
{
    const struct cuda_batch *batch = launches.batch;
    const struct terp_layout *layout = batch->h_layout;

    for (int d = TERP_NDIMS - 1; d > 0; d--) {
        const bool is_cut = nstretches_of(*batch, layout, d) > 1;
        for (int step = is_cut ? NOTE_ENDS : SUBTRACT;
             layout->dims[d] > 1 && step <= SUBTRACT; step++)
            launches.add_typed(floats, doubles, blocks_of_lines(batch, d),
                               LORENZO_NTHREADS, d, (enum lines_step)step);
    }
}

/* ---- segments ---- */

/* The most values of a segment. Rows are cut into segments, and a warp handles
 * a segment. */
#define SEGMENT_NVALUES 1024

/* Rows of at most PACKED_MAX_NVALUES values, such as positions of three
 * coordinates, are one segment each, and a warp handles several at a time. */
#define PACKED_MAX_NVALUES 16

/* A segment of a row, as a thread of its warp needs it. */
struct segment {
    uint64_t at;    /* of the row, in C order */
    uint64_t x, nx; /* begin in the row, and extent */
    uint64_t coordinate[TERP_NDIMS];
    struct tiled_row tiled;
    uint64_t warp_at; /* of the warp's first value, in C order */
    /* The thread handles every 32nd value of the segment from value `lane` on;
     * `lane` is `nx` if it has none. from: the lane of the warp that has the
     * first value of the same segment. */
    unsigned lane, from;
};

static __host__ __device__ __forceinline__ uint64_t
nsegments_of(const struct terp_layout *layout)
{
    return div_up(layout->dims[0], SEGMENT_NVALUES);
}

/* Returns the number of segments that a warp handles at a time. */
static __host__ __device__ __forceinline__ unsigned
nsegments_of_warp(const struct terp_layout *layout)
{
    return layout->dims[0] > PACKED_MAX_NVALUES
               ? 1
               : 32 / (unsigned)layout->dims[0];
}

/* Finds the segments of this warp of the block-th block of segments. Returns
 * false if there is none. */
static __device__ __forceinline__ bool
find_segment(const struct terp_layout *layout, uint64_t block,
             struct segment *segment_ret)
{
    const unsigned n = nsegments_of_warp(layout), lane = threadIdx.x % 32;
    const uint64_t nx = layout->dims[0];
    uint64_t left = block * (LORENZO_NTHREADS / 32) + threadIdx.x / 32;
    uint64_t x = split(&left, nsegments_of(layout)) * SEGMENT_NVALUES;

    left *= n;
    const uint64_t first = left, nrows = layout->nvalues / nx;
    segment_ret->warp_at = first * nx + x;
    segment_ret->lane = lane;
    segment_ret->from = 0;
    if (n > 1) {
        const unsigned nth = lane / (unsigned)nx;
        const bool exists = nth < n && first + nth < nrows;
        left = min_u64(first + nth, nrows - 1);
        segment_ret->lane = exists ? lane - nth * (unsigned)nx : (unsigned)nx;
        segment_ret->from = nth * (unsigned)nx;
    }
    segment_ret->at = left * nx;
    segment_ret->x = x;
    segment_ret->nx = min_u64(SEGMENT_NVALUES, nx - x);
    for (int d = 1; d < TERP_NDIMS; d++)
        segment_ret->coordinate[d] = split(&left, layout->dims[d]);
    segment_ret->tiled =
        tiled_row_at(layout->rank, layout->dims, segment_ret->coordinate, left);
    return first < nrows;
}

/* Returns the number of blocks of segments. */
static inline uint64_t
nblocks_of_segments(const struct terp_layout *layout)
{
    return div_up(layout->nvalues / layout->dims[0] * nsegments_of(layout),
                  LORENZO_NWARPS * nsegments_of_warp(layout));
}

/* Returns the sum of `own` over the lanes of the warp, up to this one, that
 * have values of the same row. */
template <typename W>
static __device__ __forceinline__ W
sum_in_row(const struct terp_layout *layout, const struct segment &segment,
           W own)
{
    const W sum = warp_inclusive_sum(own);

    return nsegments_of_warp(layout) == 1
               ? sum
               : sum -
                     __shfl_sync(FULL_WARP_MASK, sum - own, (int)segment.from);
}

/* Turns the sum of each segment or stretch into the sum of all before it in the
 * same row or line. A warp handles a row or line, and blocks take rows in
 * turns. A lane loads several sums at a time: an array of one row has one warp,
 * which would wait for each load. */
#define SCAN_NTURNS 16
template <typename W>
static __device__ __forceinline__ void
scan_sums(uint64_t nrows, uint64_t nsegments, W *all_sums)
{
    const unsigned lane = threadIdx.x % 32;

    for (uint64_t row = warp_of_chunk<LORENZO_NWARPS>(); row < nrows;
         row += warps_of_chunk<LORENZO_NWARPS>()) {
        W *sums = all_sums + row * nsegments;
        W carry = 0;
        for (uint64_t first = 0; first < nsegments; first += SCAN_NTURNS * 32) {
            W own[SCAN_NTURNS];
#pragma unroll
            for (unsigned k = 0; k < SCAN_NTURNS; k++) {
                const uint64_t i = first + 32 * k + lane;
                if (i - lane >= nsegments)
                    break;
                own[k] = i < nsegments ? sums[i] : 0;
            }
#pragma unroll
            for (unsigned k = 0; k < SCAN_NTURNS; k++) {
                const uint64_t i = first + 32 * k + lane;
                if (i - lane >= nsegments)
                    break;
                const W sum = warp_inclusive_sum(own[k]);
                if (i < nsegments)
                    sums[i] = carry + sum - own[k];
                carry += __shfl_sync(FULL_WARP_MASK, sum, 31);
            }
        }
    }
}

/* Calls scan_sums for all rows along dimension 0, or all lines along dimension
 * d above 0. */
template <typename W>
static __device__ __forceinline__ void
scan_segments(const struct cuda_batch &batch, int d, W *all_sums)
{
    const struct terp_layout *layout = batch.d_layout;

    scan_sums(layout->nvalues / layout->dims[d],
              d == 0 ? nsegments_of(layout) : nstretches_of(batch, layout, d),
              all_sums);
}

/* Returns the number of blocks for scan_segments. It has a limit, because
 * blocks take rows in turns. */
#define MAX_NROW_BLOCKS 4096
static inline uint64_t
nblocks_of_rows(const struct terp_layout *layout, int d)
{
    return min_u64(div_up(layout->nvalues / layout->dims[d], LORENZO_NWARPS),
                   MAX_NROW_BLOCKS);
}
