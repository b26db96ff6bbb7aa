/* The Lorenzo predictor when encoding: turns values into quants, which are in
 * the region `work` in C order, and quants into symbols. */
#include "codec/model/low_bits.h"
#include "gpu/predict/lorenzo_shape.cuh"

/* ---- values to quants ---- */

/* A piece is the values that a block turns into quants at a time. */
#define PIECE_NVALUES 4096
#define PIECE_NWORDS (PIECE_NVALUES / 32)

/* Returns an array with an element for each piece: the position of its last
 * value that is not special, plus 1; 0 if there is none. */
static __device__ __forceinline__ uint64_t *
last_valid(const struct cuda_batch &batch)
{
    return region<uint64_t>(batch, batch.at.staging);
}

/* The input and output of a block that turns values into quants. K: struct
 * constants or struct exact_quants, see quant_of. */
template <typename T, typename K> struct prequantizer {
    const T *src;
    uint64_t nvalues; /* of the chunk */
    int_of<T> *quants;
    uint32_t *mask;
    K k;
    fill_words<T> fills;
    /* Whether to test for special values. Other blocks may meanwhile count
     * unpredictable values; that does not matter here. */
    bool has_specials;
};

/* The results of a block for a piece. */
struct piece_found {
    unsigned last; /* last value that is not special, plus 1 */
    unsigned nunpredictable;
};

/* Turns the values of the piece that begins at `first` into quants. A thread
 * takes every LORENZO_NTHREADS-th value; a warp makes 32 bits of the mask at a
 * time. */
template <typename T, typename K>
static __device__ __forceinline__ void
prequantize_piece(const prequantizer<T, K> &p, uint64_t first,
                  struct piece_found *s_found)
{
    const unsigned lane = threadIdx.x % 32;
    /* The mask consists of whole words of 64 bits. */
    const uint64_t end = div_up(p.nvalues, 64) * 64;

    for (unsigned i = threadIdx.x; i < PIECE_NVALUES; i += LORENZO_NTHREADS) {
        const uint64_t at = first + i;
        bool special = false, miss = false;
        if (at < p.nvalues) {
            T value = p.src[at];
            bool fits;
            special = p.has_specials && is_special(value, p.fills);
            int_of<T> quant = quant_of(value, p.k, &fits);
            miss = !fits;
            p.quants[at] = miss || special ? 0 : quant;
        }
        const unsigned word = __ballot_sync(FULL_WARP_MASK, special | miss);
        const unsigned unpredictable =
            __ballot_sync(FULL_WARP_MASK, miss && !special);
        unsigned valid = ~word;
        if (at - lane + 32 > p.nvalues) /* the last warp of the chunk */
            valid &= p.nvalues > at - lane ? (1u << (p.nvalues % 32)) - 1 : 0;
        if (lane == 0 && at < end) {
            p.mask[at / 32] = word;
            if (unpredictable != 0)
                atomicAdd(&s_found->nunpredictable,
                          (unsigned)__popc(unpredictable));
            if (valid != 0)
                atomicMax(&s_found->last, i + 32 - (unsigned)__clz((int)valid));
        }
    }
}

template <typename T, typename K>
static __device__ __forceinline__ void
prequantize(const struct cuda_batch &batch, struct cuda_chunk &chunk,
            const K &k, struct piece_found *s_found)
{
    const prequantizer<T, K> p = {(const T *)chunk.src,
                                  batch.nvalues,
                                  region<int_of<T>>(batch, batch.at.work),
                                  region<uint32_t>(batch, batch.at.mask),
                                  k,
                                  fills_of<T>(chunk),
                                  chunk.has_specials};

    for (uint64_t piece = blockIdx.x; piece * PIECE_NVALUES < batch.nvalues;
         piece += gridDim.x) {
        const uint64_t first = piece * PIECE_NVALUES;
        if (threadIdx.x == 0)
            *s_found = {0, 0};
        __syncthreads();
        prequantize_piece(p, first, s_found);
        __syncthreads();
        if (threadIdx.x == 0) {
            last_valid(batch)[piece] =
                s_found->last == 0 ? 0 : first + s_found->last;
            if (s_found->nunpredictable != 0)
                atomicAdd(&chunk.nspecials,
                          (unsigned long long)s_found->nunpredictable);
        }
        __syncthreads();
    }
}

/* Not inlined, so that the kernel needs fewer registers for other chunks. */
template <typename T>
static __device__ __attribute__((noinline)) void
prequantize_exactly(const struct cuda_batch &batch, struct cuda_chunk &chunk,
                    struct piece_found *s_found)
{
    prequantize<T>(batch, chunk, exact_quants_of<T>(chunk), s_found);
}

/* Turns values into quants, and makes the mask of values that quants do not
 * reproduce; their quant is 0. Grid: x = pieces, nblocks_for of them at a time,
 * y = chunks. A thread owns the values that it reads. Shared memory: struct
 * piece_found; barriers before and after each piece. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS, 8)
    lorenzo_prequantize(const __grid_constant__ struct cuda_batch batch)
{
    __shared__ struct piece_found s_found;
    struct cuda_chunk &chunk = begin_chunk(batch);

    if (!is_predicted_by(chunk, TERP_PREDICTION_LORENZO))
        return;
    if (is_exact(chunk))
        prequantize_exactly<T>(batch, chunk, &s_found);
    else
        prequantize<T>(batch, chunk,
                       constants_of<T>(chunk.model.step, chunk.bound,
                                       terp_max_code_of(chunk.model.wide)),
                       &s_found);
}

/* ---- differences along a dimension above 0 ---- */

/* Returns the memory for the ends of stretches, which follows last_valid. */
template <typename W>
static __device__ __forceinline__ line_end<W> *
ends_of_lines(const struct cuda_batch &batch)
{
    const uint64_t npieces = div_up(batch.nvalues, PIECE_NVALUES);

    return region<line_end<W>>(batch, batch.at.staging + 8 * npieces);
}

/* If some points are special: takes one of the steps that make differences
 * along dimension d above 0. A difference is that from the last point before
 * that is not special. Special points keep 0. Grid and threads are those of
 * take_lines_step. No shared memory. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS)
    lorenzo_subtract_lines(struct cuda_batch batch, int d, enum lines_step step)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);

    if (!is_predicted_by(chunk, TERP_PREDICTION_LORENZO) ||
        chunk.nspecials == 0 || !(chunk.model.lorenzo_dims >> d & 1))
        return;
    take_lines_step(batch, d, step, false,
                    region<uint32_t>(batch, batch.at.mask),
                    ends_of_lines<word_of<T>>(batch));
}

/* ---- whether means are subtracted ---- */

/* Adds to the chunk's sums the residuals of the samples, once after differences
 * and once after means; the CPU takes the same samples. Any number of blocks of
 * LORENZO_NTHREADS threads calls it; a warp takes a stretch of a row. Not
 * inlined, so that the kernel needs fewer registers for other chunks. */
template <typename W>
static __device__ __attribute__((noinline)) void
weigh_means(const struct terp_layout *layout, const W *quants,
            struct cuda_chunk *chunk)
{
    const uint64_t nx = layout->dims[0];
    const uint64_t nper_row = div_up(nx, TERP_LORENZO_NVALUES);
    const uint64_t nstretches = layout->nvalues / nx * nper_row;
    const uint64_t every = terp_lorenzo_distance(layout->nvalues);
    const int means_dim = terp_means_dim(layout);
    const int nbits_below =
        terp_nbits_not_weighed(cuda_nbits_below(chunk->model));
    const unsigned lane = threadIdx.x % 32;
    unsigned long long differences = 0, means = 0;
    uint64_t stride[TERP_NDIMS], inner = 1, line_stride = 1;

    if (!terp_means_are_possible(layout, chunk->model.lorenzo_dims, false))
        return;
    for (int d = 0; d < TERP_NDIMS; d++) {
        stride[d] = inner;
        line_stride = d == means_dim ? inner : line_stride;
        inner *= layout->dims[d];
    }
    for (uint64_t k = warp_of_chunk<LORENZO_NWARPS>();
         every / 2 + k * every < nstretches; k += gridDim.x * LORENZO_NWARPS) {
        uint64_t left = every / 2 + k * every, i = 0;
        const uint64_t x = split(&left, nper_row) * TERP_LORENZO_NVALUES;
        const W *row = quants + left * nx;
        unsigned dims = chunk->model.lorenzo_dims & ~(1u << means_dim);
        for (int d = 1; d < TERP_NDIMS; d++) {
            uint64_t at = split(&left, layout->dims[d]);
            if (at == 0)
                dims &= ~(1u << d);
            if (d == means_dim)
                i = at;
        }
        const uint64_t end = min_u64(nx, x + TERP_LORENZO_NVALUES);
        for (uint64_t at = x + lane; at < end; at += 32) {
            const unsigned dims_here = at > 0 ? dims : dims & ~1u;
            W own = lorenzo_difference(row + at, dims_here, stride);
            W before = 0, mean = 0;
            if (i > 0) {
                before = lorenzo_difference(row + at - line_stride, dims_here,
                                            stride);
                mean = lorenzo_mean<W, true>(row + at, dims_here, layout,
                                             means_dim, i);
            }
            differences += weight_of_difference<W>(own - before, nbits_below);
            means += weight_of_difference<W>(own - mean, nbits_below);
        }
    }
    differences = warp_sum(differences);
    means = warp_sum(means);
    if (lane == 0 && differences != 0)
        atomicAdd(&chunk->differences_sum, differences);
    if (lane == 0 && means != 0)
        atomicAdd(&chunk->means_sum, means);
}

/* ---- rows ---- */

/* Finds the last valid position, plus 1, of all pieces before `piece`.
 * *s_before must be 0, and stays 0 if no position is valid. The block looks at
 * LORENZO_NTHREADS pieces at a time. Ends with a barrier. */
static __device__ __forceinline__ void
find_last_before(const uint64_t *last, uint64_t piece,
                 unsigned long long *s_before)
{
    for (uint64_t end = piece; end > 0;) {
        uint64_t n = min_u64(end, LORENZO_NTHREADS);
        unsigned long long found =
            threadIdx.x < n ? last[end - 1 - threadIdx.x] : 0;
        if (__syncthreads_or(found != 0)) {
            if (found != 0)
                atomicMax(s_before, found);
            break;
        }
        end -= n;
    }
    __syncthreads();
}

/* Gives special values of the piece that begins at `first` the quant of the
 * nearest value before them in their row that is not special. */
template <typename I>
static __device__ __forceinline__ void
repeat_in_piece(const struct cuda_batch &batch, uint64_t first,
                const uint32_t s_mask[PIECE_NWORDS], uint64_t before, I *quants)
{
    for (unsigned i = threadIdx.x; i < PIECE_NVALUES; i += LORENZO_NTHREADS) {
        int word = (int)(i / 32);
        if (!(s_mask[word] >> (i % 32) & 1) || first + i >= batch.nvalues)
            continue;
        uint32_t valid = ~s_mask[word] & ((1u << (i % 32)) - 1);
        while (valid == 0 && word > 0)
            valid = ~s_mask[--word];
        uint64_t from = valid != 0 ? first + 32 * (unsigned)word + 32 -
                                         (unsigned)__clz((int)valid)
                                   : before;
        uint64_t at = first + i, row = at;
        uint64_t row_at = at - split(&row, batch.d_layout->dims[0]);
        if (from > row_at)
            quants[at] = quants[from - 1];
    }
}

/* Prepares differences along dimension 0. If some values are special, they get
 * the quant of the nearest value before them in their row that is not special,
 * if there is one. Otherwise the kernel weighs means. Grid and ownership as for
 * lorenzo_prequantize. The kernel reads only quants that it does not write, so
 * blocks need not wait for each other. Shared memory: the mask of a piece;
 * barriers around its use. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS, 4) lorenzo_repeat(struct cuda_batch batch)
{
    __shared__ uint32_t s_mask[PIECE_NWORDS];
    __shared__ unsigned long long s_before;
    struct cuda_chunk &chunk = begin_chunk(batch);

    if (!is_predicted_by(chunk, TERP_PREDICTION_LORENZO))
        return;
    if (chunk.nspecials == 0) {
        weigh_means(batch.d_layout, region<word_of<T>>(batch, batch.at.work),
                    &chunk);
        return;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        chunk.has_specials = true;
    if (!(chunk.model.lorenzo_dims & 1))
        return;
    const uint32_t *mask = region<uint32_t>(batch, batch.at.mask);
    int_of<T> *quants = region<int_of<T>>(batch, batch.at.work);
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
        find_last_before(last_valid(batch), piece, &s_before);
        repeat_in_piece(batch, first, s_mask, s_before, quants);
    }
}

/* ---- quants to symbols ---- */

/* The input of a chunk's symbols, and where they are stored. */
template <typename T> struct symbol_maker {
    const struct terp_layout *layout;
    struct cuda_chunk *chunk;
    const word_of<T> *quants;
    uint16_t *symbols;
    unsigned long long *ranges;
    int max_code, radius, tail_nbits;
};

template <typename T, bool means>
static __device__ __forceinline__ void
make_symbols(const symbol_maker<T> &maker)
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
        for (uint64_t i = segment.lane; i < segment.nx; i += 32) {
            uint64_t x = segment.x + i, at = segment.at + x;
            const unsigned dims_here = x > 0 ? dims : dims & ~1u;
            word_of<T> word =
                lorenzo_difference(maker.quants + at, dims_here, stride);
            if (means && nth > 0)
                word -= lorenzo_mean<word_of<T>, true>(
                    maker.quants + at, dims_here, layout, means_dim, nth);
            const int_of<T> code = code_above_tail<T>(word, maker.tail_nbits);
            bool fits = code >= -maker.max_code && code <= maker.max_code;
            maker.symbols[tiled_at(segment.tiled, layout->rank, layout->dims[0],
                                   x)] =
                (uint16_t)(fits ? (int)code + maker.radius : TERP_ESCAPE);
            if (!fits) {
                atomicAdd(&maker.ranges[at / CUDA_RANGE_NVALUES], 1ull);
                note_number(maker.chunk, true,
                            zigzag((int64_t)(int_of<T>)word));
            }
        }
    }
}

/* Not inlined, so that the kernel needs fewer registers for chunks without
 * means. */
template <typename T>
static __device__ __attribute__((noinline)) void
make_symbols_of_means(const symbol_maker<T> &maker)
{
    make_symbols<T, true>(maker);
}

/* Turns quants into symbols. Grid: x = blocks of segments, nblocks_for of them
 * at a time, y = chunks. A warp owns a segment, a lane every 32nd value of it.
 * No shared memory. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS, 4) lorenzo_symbols(struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);

    if (!is_predicted_by(chunk, TERP_PREDICTION_LORENZO))
        return;
    const symbol_maker<T> maker = {
        batch.d_layout,
        &chunk,
        region<word_of<T>>(batch, batch.at.work),
        region<uint16_t>(batch, batch.at.symbols),
        region<unsigned long long>(batch, batch.at.ranges),
        terp_max_code_of(chunk.model.wide),
        terp_radius_of(chunk.model.wide),
        chunk.model.tail_nbits};
    if (means_dim_of(chunk, batch.d_layout) > 0)
        make_symbols_of_means(maker);
    else
        make_symbols<T, false>(maker);
}

cudaError_t
cuda_lorenzo_quantize(const struct cuda_batch *batch, cudaStream_t stream)
{
    const unsigned nblocks =
        nblocks_for(batch, div_up(batch->nvalues, PIECE_NVALUES));
    struct stage_launches launches = {batch, stream};

    if (batch->encoding.params.predictor == TERP_PREDICTOR_SPLINE)
        return cudaSuccess;
    launches.add_typed(CUDA_TYPED(lorenzo_prequantize), nblocks,
                       LORENZO_NTHREADS);
    launch_lines_steps(launches, CUDA_TYPED(lorenzo_subtract_lines));
    launches.add_typed(CUDA_TYPED(lorenzo_repeat), nblocks, LORENZO_NTHREADS);
    launches.add_typed(CUDA_TYPED(lorenzo_symbols),
                       nblocks_for(batch, nblocks_of_segments(batch->h_layout)),
                       LORENZO_NTHREADS);
    return launches.error;
}
