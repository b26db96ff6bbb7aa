/* The Lorenzo predictor with dual quantization. Integers lie in the
 * region `work` in C order. */
#include "gpu/predict/lorenzo_means.cuh"
#include "gpu/predict/values.cuh"

/* ---- values to integers ---- */

/* Values are taken in pieces, which blocks take in turns: a chunk of another
 * prediction should cost few blocks that have nothing to do. */
#define PIECE_NVALUES 4096
#define PIECE_NWORDS (PIECE_NVALUES / 32)
#ifndef CUDA_LORENZO_MAX_NBLOCKS
#define CUDA_LORENZO_MAX_NBLOCKS 2048 /* of a launch, but */
#define CUDA_LORENZO_MIN_NBLOCKS 4u   /* of a chunk */
#endif

static unsigned
nblocks_for(const struct cuda_batch *batch, uint64_t npieces)
{
    unsigned most = CUDA_LORENZO_MAX_NBLOCKS / (unsigned)batch->nchunks;
    most = most > CUDA_LORENZO_MIN_NBLOCKS ? most : CUDA_LORENZO_MIN_NBLOCKS;
    return (unsigned)min_u64(npieces, most);
}

/* Where a chunk's pieces tell which of their values that is not special comes
 * last: its position plus one, or 0. */
static __device__ __forceinline__ uint64_t *
last_valid(const struct cuda_batch &batch)
{
    return region<uint64_t>(batch, blockIdx.y, batch.at.staging);
}

/* Integers of values that they reproduce; the mask of all others, which have
 * 0.
 * Grid: (nblocks_for pieces, chunks). A thread takes every NTHREADS-th value of
 * a piece, a warp makes 32 bits of the mask. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) lorenzo_prequantize(struct cuda_batch batch)
{
    begin_kernel();
    __shared__ unsigned s_last, s_nunpredictable;
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];

    if (!chunk_applies(chunk))
        return;
    const T *src = (const T *)chunk.src;
    int_of<T> *quants = region<int_of<T>>(batch, blockIdx.y, batch.at.work);
    uint32_t *mask = region<uint32_t>(batch, blockIdx.y, batch.at.mask);
    const struct constants<T> k =
        constants_of<T>(chunk.step, chunk.bound, batch.max_code);
    const fill_words<T> fills = fills_of<T>(chunk);
    /* Where no value is special, none looks so: what other blocks add to the
     * count does not matter here. */
    const bool has_specials = chunk.has_specials;
    /* Words of 64 bits are whole. */
    const uint64_t end = div_up(batch.nvalues, 64) * 64;

    for (uint64_t piece = blockIdx.x; piece * PIECE_NVALUES < batch.nvalues;
         piece += gridDim.x) {
        const uint64_t first = piece * PIECE_NVALUES;
        if (threadIdx.x == 0)
            s_last = s_nunpredictable = 0;
        __syncthreads();
        for (unsigned i = threadIdx.x; i < PIECE_NVALUES; i += NTHREADS) {
            uint64_t at = first + i;
            bool special = false, miss = false;
            if (at < batch.nvalues) {
                T value = src[at];
                special = has_specials && is_special(value, fills);
                bool fits;
                T quant = nearest_quant(value, k, &fits);
                miss = !fits;
                quants[at] = miss || special ? 0 : (int_of<T>)quant;
            }
            unsigned word = __ballot_sync(FULL_WARP_MASK, special | miss);
            unsigned joined = __ballot_sync(FULL_WARP_MASK, miss && !special);
            unsigned valid = ~word;
            if (at - threadIdx.x % 32 + 32 >
                batch.nvalues) /* the warp's last */
                valid &= batch.nvalues > at - threadIdx.x % 32
                             ? (1u << (batch.nvalues % 32)) - 1
                             : 0;
            if (threadIdx.x % 32 == 0 && at < end) {
                mask[at / 32] = word;
                if (joined != 0)
                    atomicAdd(&s_nunpredictable, (unsigned)__popc(joined));
                if (valid != 0)
                    atomicMax(&s_last, i + 32 - (unsigned)__clz((int)valid));
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            last_valid(batch)[piece] = s_last == 0 ? 0 : first + s_last;
            if (s_nunpredictable != 0)
                atomicAdd(&chunk.nspecials,
                          (unsigned long long)s_nunpredictable);
        }
        __syncthreads();
    }
}

/* ---- lines along a dimension above 0 ---- */

/* A thread a line, and further ones in turn. */
static __device__ __forceinline__ uint64_t
line_of_thread(void)
{
    return (uint64_t)blockIdx.x * NTHREADS + threadIdx.x;
}

static __device__ __forceinline__ uint64_t
lines_at_once(void)
{
    return (uint64_t)gridDim.x * NTHREADS;
}

static dim3
blocks_of_lines(const struct cuda_batch *batch, int d)
{
    uint64_t nlines = batch->h_layout->nvalues / batch->h_layout->dims[d];
    return dim3(nblocks_for(batch, div_up(nlines, NTHREADS)),
                (unsigned)batch->nchunks);
}

/* Integers of a line that are loaded together. */
#define NAHEAD 8

template <typename W>
static __device__ __forceinline__ void
subtract_line(const struct line &line, const uint32_t *mask, W *quants)
{
    W last = 0;

    for (uint64_t first = 0; first < line.extent; first += NAHEAD) {
        W *at = quants + line.at + first * line.stride, ahead[NAHEAD];
        bool counts[NAHEAD];
#pragma unroll
        for (unsigned i = 0; i < NAHEAD; i++) {
            counts[i] = first + i < line.extent &&
                        !is_set(mask, line.at + (first + i) * line.stride);
            ahead[i] = counts[i] ? at[i * line.stride] : 0;
        }
#pragma unroll
        for (unsigned i = 0; i < NAHEAD; i++) {
            if (!counts[i])
                continue;
            at[i * line.stride] = ahead[i] - last;
            last = ahead[i];
        }
    }
}

/* Where points are special: differences along a dimension above 0, each to the
 * last point before it that is not special. Special ones keep 0.
 * Grid: blocks_of_lines. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS)
    lorenzo_subtract_lines(struct cuda_batch batch, int d)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    struct line line;

    if (!chunk_applies(chunk) || chunk.nspecials == 0 ||
        !(chunk.lorenzo_dims >> d & 1))
        return;
    const uint32_t *mask = region<uint32_t>(batch, blockIdx.y, batch.at.mask);
    word_of<T> *quants = region<word_of<T>>(batch, blockIdx.y, batch.at.work);
    for (uint64_t number = line_of_thread();
         find_line(batch.d_layout, d, number, &line); number += lines_at_once())
        subtract_line(line, mask, quants);
}

/* ---- rows ---- */

/* Where differences along dimension 0 follow, special values repeat the
 * integer of the nearest other one before them in the row, if there is one.
 * Where no value is special, means are weighed.
 * Grid and ownership as of lorenzo_prequantize; reads only integers that are
 * not written. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS, 4) lorenzo_repeat(struct cuda_batch batch)
{
    begin_kernel();
    __shared__ uint32_t s_mask[PIECE_NWORDS];
    __shared__ unsigned long long s_before;
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];

    if (!chunk_applies(chunk))
        return;
    if (chunk.nspecials == 0) {
        weigh_means(batch.d_layout,
                    region<word_of<T>>(batch, blockIdx.y, batch.at.work),
                    &chunk);
        return;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        chunk.has_specials = true;
    if (!(chunk.lorenzo_dims & 1))
        return;
    const uint32_t *mask = region<uint32_t>(batch, blockIdx.y, batch.at.mask);
    const uint64_t *last = last_valid(batch);
    int_of<T> *quants = region<int_of<T>>(batch, blockIdx.y, batch.at.work);
    const uint64_t nwords = div_up(batch.nvalues, 32);

    for (uint64_t piece = blockIdx.x; piece * PIECE_NVALUES < batch.nvalues;
         piece += gridDim.x) {
        const uint64_t first = piece * PIECE_NVALUES;
        bool some = false;
        __syncthreads();
        if (threadIdx.x < PIECE_NWORDS) {
            uint64_t at = first / 32 + threadIdx.x;
            s_mask[threadIdx.x] = at < nwords ? mask[at] : 0;
            some = s_mask[threadIdx.x] != 0;
        }
        if (threadIdx.x == 0)
            s_before = 0;
        if (!__syncthreads_or(some))
            continue;
        /* The last valid one of the pieces before, NTHREADS at a time. */
        for (uint64_t end = piece; end > 0;) {
            uint64_t n = min_u64(end, NTHREADS);
            unsigned long long found =
                threadIdx.x < n ? last[end - 1 - threadIdx.x] : 0;
            if (__syncthreads_or(found != 0)) {
                if (found != 0)
                    atomicMax(&s_before, found);
                break;
            }
            end -= n;
        }
        __syncthreads();
        for (unsigned i = threadIdx.x; i < PIECE_NVALUES; i += NTHREADS) {
            int word = (int)(i / 32);
            if (!(s_mask[word] >> (i % 32) & 1) || first + i >= batch.nvalues)
                continue;
            uint32_t valid = ~s_mask[word] & ((1u << (i % 32)) - 1);
            while (valid == 0 && word > 0)
                valid = ~s_mask[--word];
            uint64_t from = valid != 0 ? first + 32 * (unsigned)word + 32 -
                                             (unsigned)__clz((int)valid)
                                       : s_before;
            uint64_t at = first + i, row = at;
            uint64_t row_at = at - split(&row, batch.d_layout->dims[0]);
            if (from > row_at)
                quants[at] = quants[from - 1];
        }
    }
}

/* Rows are cut into segments, a warp each. */
#define SEGMENT_NVALUES 1024

/* A segment of a row, as a warp sees it. */
struct segment {
    uint64_t at;    /* of the row, in C order */
    uint64_t x, nx; /* of the segment, in the row */
    uint64_t coordinate[TERP_NDIMS];
    struct tiled_row tiled;
};

static __host__ __device__ __forceinline__ uint64_t
nsegments_of(const struct terp_layout *layout)
{
    return div_up(layout->dims[0], SEGMENT_NVALUES);
}

/* The warp's segment of a row of blocks. False when there is none. */
static __device__ __forceinline__ bool
find_segment(const struct terp_layout *layout, uint64_t block,
             struct segment *segment_ret)
{
    uint64_t left = block * (NTHREADS / 32) + threadIdx.x / 32;
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

/* Blocks of segments, a warp each. */
static uint64_t
nblocks_of_segments(const struct terp_layout *layout)
{
    return div_up(layout->nvalues / layout->dims[0] * nsegments_of(layout),
                  NTHREADS / 32);
}

/* ---- integers to symbols ---- */

/* Where a chunk's symbols are made of what, by the grid of lorenzo_symbols. */
template <typename T> struct symbol_maker {
    const struct terp_layout *layout;
    struct cuda_chunk *chunk;
    const word_of<T> *quants;
    uint16_t *symbols;
    unsigned long long *ranges;
    int max_code;
};

template <typename T, bool means>
static __device__ __forceinline__ void
make_symbols(const struct symbol_maker<T> &maker)
{
    const struct terp_layout *layout = maker.layout;
    const int means_dim = means ? terp_means_dim(layout) : 0;
    uint64_t stride[TERP_NDIMS], inner = 1;
    struct segment segment;

    for (int d = 0; d < TERP_NDIMS; d++) {
        stride[d] = inner;
        inner *= layout->dims[d];
    }
    for (uint64_t block = blockIdx.x; find_segment(layout, block, &segment);
         block += gridDim.x) {
        unsigned dims = dims_to_subtract(*maker.chunk, means_dim);
        uint64_t nth = 0; /* along means_dim */
        for (int d = 1; d < TERP_NDIMS; d++) {
            if (segment.coordinate[d] == 0)
                dims &= ~(1u << d);
            if (means && d == means_dim)
                nth = segment.coordinate[d];
        }
        for (uint64_t i = threadIdx.x % 32; i < segment.nx; i += 32) {
            uint64_t x = segment.x + i, at = segment.at + x;
            const unsigned dims_here = x > 0 ? dims : dims & ~1u;
            word_of<T> word =
                lorenzo_difference(maker.quants + at, dims_here, stride);
            if (means && nth > 0)
                word -= lorenzo_mean<word_of<T>, true>(
                    maker.quants + at, dims_here, layout, means_dim, nth);
            int_of<T> code = (int_of<T>)word;
            bool fits = code >= -maker.max_code && code <= maker.max_code;
            maker.symbols[tiled_at(segment.tiled, layout->rank, layout->dims[0],
                                   x)] =
                (uint16_t)(fits ? (int)code + TERP_RADIUS : TERP_ESCAPE);
            if (!fits) {
                atomicAdd(&maker.ranges[at / CUDA_RANGE_NVALUES], 1ull);
                note_number(maker.chunk, true, zigzag((int64_t)code));
            }
        }
    }
}

/* Apart from the rest, which should not need as many registers. */
template <typename T>
static __device__ __attribute__((noinline)) void
make_symbols_of_means(const struct symbol_maker<T> &maker)
{
    make_symbols<T, true>(maker);
}

/* Grid: (nblocks_for nblocks_of_segments, chunks). */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS, 4) lorenzo_symbols(struct cuda_batch batch)
{
    begin_kernel();
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];

    if (!chunk_applies(chunk))
        return;
    const struct symbol_maker<T> maker = {
        batch.d_layout, &chunk,
            region<word_of<T>>(batch, blockIdx.y, batch.at.work),
            region<uint16_t>(batch, blockIdx.y, batch.at.symbols),
            region<unsigned long long>(batch, blockIdx.y, batch.at.ranges),
            batch.max_code
    };
    if (means_dim_of(chunk, batch.d_layout) > 0)
        make_symbols_of_means(maker);
    else
        make_symbols<T, false>(maker);
}

cudaError_t
cuda_lorenzo_quantize(const struct cuda_batch *batch, cudaStream_t stream)
{
    const bool wide = batch->value_nbytes == 8;
    const unsigned nchunks = (unsigned)batch->nchunks;
    const dim3 values(nblocks_for(batch, div_up(batch->nvalues, PIECE_NVALUES)),
                      nchunks);
    const dim3 rows(nblocks_for(batch, nblocks_of_segments(batch->h_layout)),
                    nchunks);

    if (batch->params.predictor == TERP_PREDICTOR_SPLINE)
        return cudaSuccess;
    cudaError_t err =
        launch(wide ? lorenzo_prequantize<double> : lorenzo_prequantize<float>,
               values, dim3(NTHREADS), 0, stream, *batch);
    for (int d = TERP_NDIMS - 1; d > 0 && err == cudaSuccess; d--)
        if (batch->h_layout->dims[d] > 1)
            err = launch(wide ? lorenzo_subtract_lines<double>
                              : lorenzo_subtract_lines<float>,
                         blocks_of_lines(batch, d), dim3(NTHREADS), 0, stream,
                         *batch, d);
    if (err == cudaSuccess)
        err = launch(wide ? lorenzo_repeat<double> : lorenzo_repeat<float>,
                     values, dim3(NTHREADS), 0, stream, *batch);
    if (err == cudaSuccess)
        err = launch(wide ? lorenzo_symbols<double> : lorenzo_symbols<float>,
                     rows, dim3(NTHREADS), 0, stream, *batch);
    return err;
}

/* ---- symbols to values ---- */

/* Dimensions to sum along: those of the chunk that have more than one value,
 * but for one of means, which come first. */
static __device__ __forceinline__ unsigned
dims_to_sum(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    unsigned dims = 0;
    for (int d = 0; d < TERP_NDIMS; d++)
        if (batch.d_layout->dims[d] > 1)
            dims |= chunk.lorenzo_dims & 1u << d;
    return dims & ~(1u << means_dim_of(chunk, batch.d_layout) & ~1u);
}

/* The chunk's symbols; NULL where means have made integers of them. */
static __device__ __forceinline__ const uint16_t *
symbols_to_sum(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    return chunk.lorenzo_dims & TERP_LORENZO_MEANS
               ? nullptr
               : region<uint16_t>(batch, blockIdx.y, batch.at.symbols);
}

/* Of special points, or NULL when there are none. */
static __device__ __forceinline__ const uint32_t *
mask_of(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    return chunk.has_specials
               ? region<uint32_t>(batch, blockIdx.y, batch.at.mask)
               : nullptr;
}

/* The difference at x of a segment's row; 0 at special points. */
template <typename T>
static __device__ __forceinline__ word_of<T>
difference_at(const struct cuda_batch &batch, const struct segment &segment,
              const uint32_t *mask, const word_of<T> *quants,
              const uint16_t *symbols, uint64_t x)
{
    const struct terp_layout *layout = batch.d_layout;
    if (symbols == nullptr)
        return quants[segment.at + x];
    if (mask != nullptr && is_set(mask, segment.at + x))
        return 0;
    unsigned symbol =
        symbols[tiled_at(segment.tiled, layout->rank, layout->dims[0], x)];
    return symbol == TERP_ESCAPE
               ? quants[segment.at + x]
               : (word_of<T>)(int_of<T>)((int)symbol - TERP_RADIUS);
}

/* Of rows of several segments: each segment's sum, by a warp.
 * Grid: (nblocks_for nblocks_of_segments, chunks). */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) lorenzo_sum_segments(struct cuda_batch batch)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    struct segment segment;

    if (!chunk_applies(chunk) || !(dims_to_sum(batch, chunk) & 1))
        return;
    const uint32_t *mask = mask_of(batch, chunk);
    const word_of<T> *quants =
        region<word_of<T>>(batch, blockIdx.y, batch.at.work);
    const uint16_t *symbols = symbols_to_sum(batch, chunk);
    word_of<T> *sums = region<word_of<T>>(batch, blockIdx.y, batch.at.staging);
    for (uint64_t block = blockIdx.x;
         find_segment(batch.d_layout, block, &segment); block += gridDim.x) {
        word_of<T> sum = 0;
        for (uint64_t i = threadIdx.x % 32; i < segment.nx; i += 32)
            sum += difference_at<T>(batch, segment, mask, quants, symbols,
                                    segment.x + i);
        for (int distance = 16; distance > 0; distance /= 2)
            sum += __shfl_xor_sync(FULL_WARP_MASK, sum, distance);
        if (threadIdx.x % 32 == 0)
            sums[block * (NTHREADS / 32) + threadIdx.x / 32] = sum;
    }
}

/* The sums of all segments before, in their row. Grid: (rows, chunks), at most
 * MAX_NROW_BLOCKS of rows, whose blocks take turns; a warp a row. */
#define MAX_NROW_BLOCKS 4096
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) lorenzo_scan_segments(struct cuda_batch batch)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const struct terp_layout *layout = batch.d_layout;
    const uint64_t nrows = layout->nvalues / layout->dims[0];
    const uint64_t nsegments = nsegments_of(layout);
    const unsigned nwarps = NTHREADS / 32, lane = threadIdx.x % 32;

    if (!chunk_applies(chunk) || !(dims_to_sum(batch, chunk) & 1))
        return;
    for (uint64_t row = (uint64_t)blockIdx.x * nwarps + threadIdx.x / 32;
         row < nrows; row += (uint64_t)gridDim.x * nwarps) {
        word_of<T> *sums =
            region<word_of<T>>(batch, blockIdx.y, batch.at.staging) +
            row * nsegments;
        word_of<T> carry = 0;
        for (uint64_t first = 0; first < nsegments; first += 32) {
            bool exists = first + lane < nsegments;
            word_of<T> own = exists ? sums[first + lane] : 0, sum = own;
            for (int distance = 1; distance < 32; distance *= 2) {
                word_of<T> below =
                    __shfl_up_sync(FULL_WARP_MASK, sum, distance);
                sum += (int)lane >= distance ? below : 0;
            }
            if (exists)
                sums[first + lane] = carry + sum - own;
            carry += __shfl_sync(FULL_WARP_MASK, sum, 31);
        }
    }
}

/* Symbols to integers, summed along dimension 0; to values, if that is all.
 * Grid: (nblocks_for nblocks_of_segments, chunks). */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) lorenzo_sum_rows(struct cuda_batch batch)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const unsigned lane = threadIdx.x % 32;
    struct segment segment;

    if (!chunk_applies(chunk))
        return;
    const unsigned dims = dims_to_sum(batch, chunk);
    const uint32_t *mask = mask_of(batch, chunk);
    const bool is_split = (dims & 1) && nsegments_of(batch.d_layout) > 1;
    word_of<T> *quants = region<word_of<T>>(batch, blockIdx.y, batch.at.work);
    const word_of<T> *sums =
        region<word_of<T>>(batch, blockIdx.y, batch.at.staging);
    const uint16_t *symbols = symbols_to_sum(batch, chunk);
    const T step =
        constants_of<T>(chunk.step, chunk.bound, batch.max_code).step;
    T *dst = (T *)chunk.dst;
    for (uint64_t block = blockIdx.x;
         find_segment(batch.d_layout, block, &segment); block += gridDim.x) {
        word_of<T> carry =
            is_split ? sums[block * (NTHREADS / 32) + threadIdx.x / 32] : 0;
        for (uint64_t first = 0; first < segment.nx; first += 32) {
            bool exists = first + lane < segment.nx;
            uint64_t x = segment.x + first + lane;
            word_of<T> sum = 0;
            if (exists)
                sum =
                    difference_at<T>(batch, segment, mask, quants, symbols, x);
            if (dims & 1) {
                for (int distance = 1; distance < 32; distance *= 2) {
                    word_of<T> below =
                        __shfl_up_sync(FULL_WARP_MASK, sum, distance);
                    sum += (int)lane >= distance ? below : 0;
                }
                sum += carry;
                carry = __shfl_sync(FULL_WARP_MASK, sum, 31);
            }
            if (exists && dims >> 1 == 0)
                dst[segment.at + x] = (T)(int_of<T>)sum * step;
            else if (exists)
                quants[segment.at + x] = sum;
        }
    }
}

/* Sums along a line, of its points that are not special; to values, if that is
 * all. */
template <typename T, bool masked>
static __device__ __forceinline__ void
sum_line(const struct line &line, const uint32_t *mask, word_of<T> *quants,
         bool is_last, T step, T *dst)
{
    uint64_t at = line.at;
    word_of<T> sum = 0;
#pragma unroll 8
    for (uint64_t i = 0; i < line.extent; i++, at += line.stride) {
        word_of<T> quant = quants[at];
        sum += masked && is_set(mask, at) ? 0 : quant;
        if (is_last)
            dst[at] = (T)(int_of<T>)sum * step;
        else
            quants[at] = sum;
    }
}

/* Sums along a dimension above 0; to values, if it is the last.
 * Grid: blocks_of_lines. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) lorenzo_sum_lines(struct cuda_batch batch, int d)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    struct line line;

    if (!chunk_applies(chunk))
        return;
    const unsigned dims = dims_to_sum(batch, chunk);
    if (!(dims >> d & 1))
        return;
    const uint32_t *mask = mask_of(batch, chunk);
    word_of<T> *quants = region<word_of<T>>(batch, blockIdx.y, batch.at.work);
    const bool is_last = dims >> (d + 1) == 0;
    const T step =
        constants_of<T>(chunk.step, chunk.bound, batch.max_code).step;
    T *dst = (T *)chunk.dst;
    for (uint64_t number = line_of_thread();
         find_line(batch.d_layout, d, number, &line);
         number += lines_at_once()) {
        if (mask != nullptr)
            sum_line<T, true>(line, mask, quants, is_last, step, dst);
        else
            sum_line<T, false>(line, mask, quants, is_last, step, dst);
    }
}

cudaError_t
cuda_lorenzo_reconstruct(const struct cuda_batch *batch, cudaStream_t stream)
{
    const struct terp_layout *layout = batch->h_layout;
    const bool wide = batch->value_nbytes == 8;
    const unsigned nchunks = (unsigned)batch->nchunks;
    const dim3 block(NTHREADS);
    const dim3 rows(nblocks_for(batch, nblocks_of_segments(layout)), nchunks);
    const int means_dim = terp_means_dim(layout);
    cudaError_t err = cudaSuccess;

    if (means_dim > 0)
        err =
            launch(wide ? lorenzo_add_means<double> : lorenzo_add_means<float>,
                   dim3(nblocks_for(batch, nblocks_of_means(layout)), nchunks),
                   block, 0, stream, *batch, means_dim);
    if (err == cudaSuccess && nsegments_of(layout) > 1) {
        uint64_t nblocks =
            div_up(layout->nvalues / layout->dims[0], NTHREADS / 32);
        err = launch(wide ? lorenzo_sum_segments<double>
                          : lorenzo_sum_segments<float>,
                     rows, block, 0, stream, *batch);
        if (err == cudaSuccess)
            err = launch(
                wide ? lorenzo_scan_segments<double>
                     : lorenzo_scan_segments<float>,
                dim3((unsigned)min_u64(nblocks, MAX_NROW_BLOCKS), nchunks),
                block, 0, stream, *batch);
    }
    if (err == cudaSuccess)
        err = launch(wide ? lorenzo_sum_rows<double> : lorenzo_sum_rows<float>,
                     rows, block, 0, stream, *batch);
    for (int d = 1; d < TERP_NDIMS && err == cudaSuccess; d++)
        if (layout->dims[d] > 1)
            err = launch(
                wide ? lorenzo_sum_lines<double> : lorenzo_sum_lines<float>,
                blocks_of_lines(batch, d), block, 0, stream, *batch, d);
    return err;
}
