/* The section of escapes. Escapes are few, or the chunk compresses
 * badly: kernels are quick to see that a range has none, and a block looks
 * through one that has some at once. */
#include "codec/format/bytes.h"
#include "gpu/entropy/order.cuh"
#include "gpu/predict/lorenzo.cuh"
#include "gpu/sections/escapes.cuh"

#define ALL_LANES 0xFFFFFFFFu
/* A thread has a position of a range. */
#define NTHREADS CUDA_RANGE_NVALUES
#define NWARPS (NTHREADS / 32)
static_assert(NWARPS == 32, "a lane has a warp's sum");

static __device__ __forceinline__ bool
chunk_applies(const struct cuda_chunk &chunk)
{
    return chunk.status == TERP_OK && chunk.prediction != TERP_PREDICTION_NONE;
}

/* ---- where escapes of a range begin ---- */

/* Ranges are summed in groups: `ranges` says how many escapes of its group are
 * before a range, and `group_begins`, in the region `begin`, how many are
 * before a group; one more is the end. */
#define RANGES_PER_THREAD 2
#define GROUP_NRANGES (NTHREADS * RANGES_PER_THREAD)
static_assert(TERP_TILE_NSYMBOLS * TERP_PARTITION_NTILES <=
                  CUDA_RANGE_NVALUES * GROUP_NRANGES,
              "no more groups than partitions");

static __device__ __forceinline__ uint64_t *
group_begins(const struct cuda_batch &batch)
{
    return region<uint64_t>(batch, blockIdx.y, batch.at.begin);
}

/* The sum of `value` in all lanes up to this one. */
static __device__ __forceinline__ uint64_t
warp_inclusive_sum(uint64_t value)
{
    const unsigned lane = threadIdx.x % 32;

    for (unsigned distance = 1; distance < 32; distance *= 2) {
        uint64_t below = __shfl_up_sync(ALL_LANES, value, distance);
        value += lane >= distance ? below : 0;
    }
    return value;
}

/* The sum of `value` in all threads before, and in *total_ret of all. Shared:
 * a word a warp, which may be used again after the next barrier. */
static __device__ uint64_t
block_exclusive_sum(uint64_t value, uint64_t *s_warps, uint64_t *total_ret)
{
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint64_t sum = warp_inclusive_sum(value);

    if (lane == 31)
        s_warps[warp] = sum;
    __syncthreads();
    uint64_t of_warp = s_warps[lane];
    uint64_t of_warps = warp_inclusive_sum(of_warp);
    *total_ret = __shfl_sync(ALL_LANES, of_warps, 31);
    return __shfl_sync(ALL_LANES, of_warps - of_warp, (int)warp) + sum - value;
}

/* What the number of escapes means for the chunk; by one thread. */
static __device__ void
finish_encode(const struct cuda_batch &batch, struct cuda_chunk &chunk,
              uint64_t nescapes)
{
    uint8_t *dst = (uint8_t *)chunk.dst;
    struct writer writer = {dst + chunk.specials_end,
                            dst + batch.raw_nbytes - 1, false};

    chunk.nescapes = nescapes;
    if (chunk.specials_end >= batch.raw_nbytes) {
        chunk.status = TERP_ERR_CAPACITY;
        return;
    }
    write_uleb(&writer, nescapes);
    if (nescapes > 0) {
        const unsigned lengths = chunk.numbers_nbytes;
        chunk.number_nbytes =
            lengths & 1 ? 0 : (unsigned)bit_width(lengths) - 1;
        write_le(&writer, chunk.number_nbytes, 1);
        writer_take(&writer,
                    nescapes *
                        escape_nbytes(chunk, (unsigned)batch.value_nbytes));
    }
    if (writer.overflow)
        chunk.status = TERP_ERR_CAPACITY;
    chunk.escapes_end = (uint64_t)(writer.at - dst);
}

template <bool decode>
static __device__ __forceinline__ void
finish(const struct cuda_batch &batch, struct cuda_chunk &chunk,
       uint64_t nescapes)
{
    if (!decode)
        finish_encode(batch, chunk, nescapes);
    else if (nescapes != chunk.nescapes)
        chunk.status = TERP_ERR_CORRUPT;
}

/* Grid: (groups, chunks). The block whose group is done last sums groups. */
template <bool decode>
static __global__ void
__launch_bounds__(NTHREADS) escapes_sum(const struct cuda_batch batch)
{
    begin_kernel();
    __shared__ uint64_t s_warps[2][NWARPS];
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    unsigned long long *ranges =
        region<unsigned long long>(batch, blockIdx.y, batch.at.ranges);
    uint64_t *begins = group_begins(batch);
    const uint64_t first =
        (uint64_t)blockIdx.x * GROUP_NRANGES + threadIdx.x * RANGES_PER_THREAD;
    uint64_t count[RANGES_PER_THREAD], sum = 0, total;

    if (!chunk_applies(chunk))
        return;
    for (int i = 0; i < RANGES_PER_THREAD; i++) {
        count[i] = first + i < batch.nranges ? ranges[first + i] : 0;
        sum += count[i];
    }
    uint64_t before = block_exclusive_sum(sum, s_warps[0], &total);
    for (int i = 0; total > 0 && i < RANGES_PER_THREAD; i++) {
        if (first + i < batch.nranges)
            ranges[first + i] = before;
        before += count[i];
    }
    if (threadIdx.x == 0)
        begins[blockIdx.x] = total;
    if (!is_last_block(&chunk.progress[CUDA_PROGRESS_ESCAPES], gridDim.x))
        return;
    uint64_t nescapes = 0;
    for (unsigned group = 0, k = 0; group < gridDim.x;
         group += NTHREADS, k ^= 1) {
        unsigned i = group + threadIdx.x;
        before = block_exclusive_sum(i < gridDim.x ? begins[i] : 0, s_warps[k],
                                     &total);
        if (i < gridDim.x)
            begins[i] = nescapes + before;
        nescapes += total;
    }
    if (threadIdx.x == 0) {
        begins[gridDim.x] = nescapes;
        finish<decode>(batch, chunk, nescapes);
    }
}

/* ---- words ---- */

/* The word of an escape of Lorenzo at a position in C order. Apart from the
 * rest, which should not need as many registers. */
template <typename W>
static __device__ __attribute__((noinline)) W
lorenzo_word(const struct terp_layout *layout, const struct cuda_chunk &chunk,
             const W *levels, uint64_t position)
{
    const int means_dim = means_dim_of(chunk, layout);
    unsigned dims = dims_to_subtract(chunk, means_dim);
    uint64_t left = position, stride[TERP_NDIMS], inner = 1, i = 0;

    for (int d = 0; d < TERP_NDIMS; d++) {
        stride[d] = inner;
        inner *= layout->dims[d];
        uint64_t at = split(&left, layout->dims[d]);
        if (at == 0)
            dims &= ~(1u << d);
        if (d > 0 && d == means_dim)
            i = at;
    }
    const W word = lorenzo_difference(levels + position, dims, stride);
    return i == 0 ? word
                  : word - lorenzo_mean<W, true>(levels + position, dims,
                                                 layout, means_dim, i);
}

/* A position's symbol, and where its value is in C order. */
static __device__ __forceinline__ struct level_point
point_at(const struct terp_layout *layout, bool lorenzo, uint64_t position)
{
    struct level_point point = {0, position};
    uint64_t left = position, at[TERP_NDIMS];

    if (!lorenzo)
        return level_point_at(layout, position);
    for (int d = 0; d < TERP_NDIMS; d++)
        at[d] = split(&left, layout->dims[d]);
    struct tiled_row row = tiled_row_at(layout->rank, layout->dims, at, left);
    point.tiled = tiled_at(row, layout->rank, layout->dims[0], at[0]);
    return point;
}

/* The range of a thread. Escapes are often close together: blocks take turns,
 * by the eight ranges whose counts are read together. */
static __device__ __forceinline__ uint64_t
range_of_thread(unsigned thread)
{
    return ((uint64_t)(thread / 8) * gridDim.x + blockIdx.x) * 8 + thread % 8;
}

/* What the block knows of the ranges of its threads. */
struct range_list {
    uint64_t escape[NTHREADS]; /* the first of each */
    uint32_t some[NWARPS];     /* a bit a thread: its range has escapes */
    uint32_t nescapes[2][NWARPS];
};

/* The number, or word, of an escape at a position of level order, or C order.
 */
template <typename T>
static __device__ __forceinline__ uint64_t
escape_bits(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
            const struct value_grid<T> &grid, uint64_t position,
            uint64_t raster)
{
    if (chunk.prediction == TERP_PREDICTION_LORENZO) {
        const word_of<T> word = lorenzo_word(
            batch.d_layout, chunk,
            region<const word_of<T>>(batch, blockIdx.y, batch.at.work),
            position);
        return zigzag((int64_t)(int_of<T>)word);
    }
    const T value = ((const T *)chunk.src)[raster];
    const struct grid_point<T> point = find_on_grid(grid, value);
    return chunk.number_nbytes > 0 ? zigzag((int64_t)point.nsteps)
                                   : bits_of(point.fits ? point.value : value);
}

/* Escapes to the stream, or from the stream to `work`. Thread i tells of a
 * range, those of blocks take turns by eight, that it has escapes
 * and which is the first. The block takes one such range after another, a
 * thread a position. */
template <typename T, bool decode>
static __device__ void
move_words(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
           bool some, uint64_t first_escape, struct range_list *s_list)
{
    const bool lorenzo = chunk.prediction == TERP_PREDICTION_LORENZO;
    const uint16_t *symbols =
        region<uint16_t>(batch, blockIdx.y, batch.at.symbols);
    const unsigned nbytes = escape_nbytes(chunk, sizeof(T));
    const uint64_t section_at = chunk.escapes_end - chunk.nescapes * nbytes;
    const struct value_grid<T> grid =
        grid_of<T>(chunk, limit_of<T>(chunk.bound));
    const T step =
        constants_of<T>(chunk.step, chunk.bound, batch.max_code).step;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    word_of<T> *work = region<word_of<T>>(batch, blockIdx.y, batch.at.work);
    unsigned turn = 0;

    const unsigned all_some = __ballot_sync(ALL_LANES, some);
    if (lane == 0)
        s_list->some[warp] = all_some;
    s_list->escape[threadIdx.x] = first_escape;
    __syncthreads();
    for (unsigned i = 0; i < NTHREADS; i++) {
        const unsigned left = s_list->some[i / 32] >> (i % 32);
        if (left == 0) {
            i |= 31;
            continue;
        }
        i += (unsigned)__ffs((int)left) - 1;
        const uint64_t position =
            range_of_thread(i) * CUDA_RANGE_NVALUES + threadIdx.x;
        struct level_point point = {0, 0};
        bool escaped = false;
        if (position < batch.nvalues) {
            point = point_at(batch.d_layout, lorenzo, position);
            escaped = symbols[point.tiled] == TERP_ESCAPE;
        }
        const unsigned all = __ballot_sync(ALL_LANES, escaped);
        if (lane == 0)
            s_list->nescapes[turn][warp] = (unsigned)__popc(all);
        __syncthreads();
        unsigned before = lane < warp ? s_list->nescapes[turn][lane] : 0;
        for (int distance = 16; distance > 0; distance /= 2)
            before += __shfl_xor_sync(ALL_LANES, before, distance);
        turn ^= 1;
        if (!escaped)
            continue;
        const uint64_t nth = s_list->escape[i] + before +
                             (unsigned)__popc(all & ((1u << lane) - 1));
        if (nth >= chunk.nescapes)
            continue;
        if (decode)
            work[position] = read_escape<T>(chunk, step, nth);
        else
            store_le((uint8_t *)chunk.dst + section_at + nth * nbytes,
                     escape_bits<T>(batch, chunk, grid, position, point.raster),
                     (int)nbytes);
    }
}

/* Grid: (blocks of NTHREADS ranges, chunks). */
template <typename T, bool decode>
static __global__ void
__launch_bounds__(NTHREADS) escapes_move(const struct cuda_batch batch)
{
    begin_kernel();
    __shared__ struct range_list s_list;
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const unsigned long long *ranges =
        region<unsigned long long>(batch, blockIdx.y, batch.at.ranges);
    const uint64_t *begins = group_begins(batch);
    const uint64_t range = range_of_thread(threadIdx.x), next = range + 1;
    const uint64_t group = range / GROUP_NRANGES;
    uint64_t escape = 0, end = 0;

    if (!chunk_applies(chunk) || chunk.nescapes == 0)
        return;
    if (range < batch.nranges) {
        escape = begins[group] + ranges[range];
        end = next / GROUP_NRANGES != group || next == batch.nranges
                  ? begins[group + 1]
                  : begins[group] + ranges[next];
    }
    move_words<T, decode>(batch, chunk, escape < end, escape, &s_list);
}

/* A layout of few levels, as far as it says something: in shared memory, to be
 * looked up quickly. */
#define STAGED_NLEVELS 12
#define STAGED_NBYTES (offsetof(struct terp_layout, level[STAGED_NLEVELS + 1]))
union staged_layout {
    struct terp_layout layout;
    uint64_t words[STAGED_NBYTES / 8];
};

/* Listed escapes: their places in level order, or C order, and the words, which
 * stand in the order of these. */
template <typename T> struct listed_words {
    __align__(16) uint32_t position[CUDA_MAX_NLISTED];
    word_of<T> word[CUDA_MAX_NLISTED];
};
static_assert(CUDA_ALONE_MAX_NRANGES * CUDA_RANGE_NVALUES < UINT32_MAX,
              "positions of 32 bits, and one of none");
static_assert(CUDA_MAX_NLISTED <= NTHREADS && CUDA_MAX_NLISTED % 4 == 0,
              "a thread an escape, four looked at together");

/* Words from the stream to work, a thread each. */
template <typename T>
static __device__ __forceinline__ void
place_listed(const struct terp_layout *layout, const struct cuda_chunk &chunk,
             T step, uint64_t tiled, word_of<T> *work,
             struct listed_words<T> *s_listed)
{
    const unsigned i = threadIdx.x, n = (unsigned)chunk.nescapes;
    uint32_t position = UINT32_MAX;

    if (i < n) {
        const word_of<T> word = read_escape<T>(chunk, step, i);
        position = (uint32_t)(chunk.prediction == TERP_PREDICTION_LORENZO
                                  ? raster_position_of_tiled(layout, tiled)
                                  : level_position_of_tiled(layout, tiled));
        s_listed->word[i] = word;
    }
    if (i < CUDA_MAX_NLISTED)
        s_listed->position[i] = position;
    __syncthreads();
    if (i >= n)
        return;
    unsigned nth = 0;
#pragma unroll 2
    for (unsigned k = 0; k < n; k += 4) {
        const uint4 four = *(const uint4 *)&s_listed->position[k];
        nth += (four.x < position) + (four.y < position) + (four.z < position) +
               (four.w < position);
    }
    work[position] = s_listed->word[nth];
}

/* What the block of a small chunk has in shared memory. */
template <typename T> struct alone_shared {
    union {
        struct range_list list;
        struct listed_words<T> listed;
    };
    union staged_layout layout;
    uint64_t state[sizeof(struct cuda_chunk) / 8];
    uint64_t warps[NWARPS];
};

/* All of it, where a thread has a range; or an escape, of those that are
 * listed. What each needs is loaded at once; and, by volatile words, from
 * memory: a multiprocessor's own cache may still have what was there before
 * tiles were decoded, as long as this kernel has not waited. */
template <typename T, bool decode>
static __device__ __forceinline__ void
do_all(const struct cuda_batch &batch, const struct terp_layout *layout,
       struct alone_shared<T> *s)
{
    static_assert(sizeof s->state / 8 <= NTHREADS, "a thread a word");
    const struct cuda_chunk &state = *(const struct cuda_chunk *)s->state;
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const unsigned i = threadIdx.x;
    uint64_t count = 0, total = 0, before = 0, tiled = 0;

    if (decode && i < CUDA_MAX_NLISTED)
        tiled = ((const volatile uint64_t *)listed_escapes(batch))[i];
    if (i < batch.nranges)
        count = region<const volatile uint64_t>(batch, blockIdx.y,
                                                batch.at.ranges)[i];
    if (i < sizeof state / 8)
        s->state[i] = ((const volatile uint64_t *)&chunk)[i];
    __syncthreads();
    if (!chunk_applies(state))
        return;
    if (decode && escapes_are_listed(batch, state)) {
        const unsigned n = (unsigned)state.nescapes;
        if (state.progress[CUDA_PROGRESS_LISTED] != n)
            chunk.status = TERP_ERR_CORRUPT;
        else if (n > 0)
            place_listed<T>(
                layout, state,
                constants_of<T>(state.step, state.bound, batch.max_code).step,
                tiled, region<word_of<T>>(batch, blockIdx.y, batch.at.work),
                &s->listed);
        return;
    }
    if (__syncthreads_or(count != 0))
        before = block_exclusive_sum(count, s->warps, &total);
    if (i == 0)
        finish<decode>(batch, chunk, total);
    if (total == 0)
        return;
    __syncthreads();
    if (chunk.status == TERP_OK)
        move_words<T, decode>(batch, decode ? state : chunk, count != 0, before,
                              &s->list);
}

/* Grid: (1, chunks). With `beside` it goes on beside the kernel before it: that
 * is spline_coarse, which lets this one come when all before it have ended. */
template <typename T, bool decode>
static __global__ void
__launch_bounds__(NTHREADS)
    escapes_alone(const struct cuda_batch batch, bool beside)
{
    __shared__ struct alone_shared<T> s;
    const struct terp_layout *layout = &s.layout.layout;

    let_next_kernel_come();
    if (decode) {
        if (threadIdx.x < STAGED_NBYTES / 8)
            copy_async(&s.layout.words[threadIdx.x],
                       (const uint64_t *)batch.d_layout + threadIdx.x);
        wait_async();
        __syncthreads();
        if (layout->nlevels > STAGED_NLEVELS)
            layout = batch.d_layout;
    }
    if (!beside)
        wait_for_kernels();
    do_all<T, decode>(batch, layout, &s);
    if (beside)
        wait_for_kernels();
}

template <typename T, bool decode>
static cudaError_t
launch_words(const struct cuda_batch *batch, cudaStream_t stream)
{
    const unsigned nchunks = (unsigned)batch->nchunks;
    const dim3 groups((unsigned)div_up(batch->nranges, GROUP_NRANGES), nchunks);
    const dim3 blocks((unsigned)div_up(batch->nranges, NTHREADS), nchunks);

    if (batch->nranges <= CUDA_ALONE_MAX_NRANGES)
        return launch(escapes_alone<T, decode>, dim3(1, nchunks),
                      dim3(NTHREADS), 0, stream, *batch,
                      decode && cuda_spline_begins(batch));
    cudaError_t err =
        launch(escapes_sum<decode>, groups, dim3(NTHREADS), 0, stream, *batch);
    if (err != cudaSuccess)
        return err;
    return launch(escapes_move<T, decode>, blocks, dim3(NTHREADS), 0, stream,
                  *batch);
}

template <bool decode>
static cudaError_t
launch_escapes(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->value_nbytes == 4
               ? launch_words<float, decode>(batch, stream)
               : launch_words<double, decode>(batch, stream);
}

cudaError_t
cuda_escapes_write(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_escapes<false>(batch, stream);
}

cudaError_t
cuda_escapes_place(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_escapes<true>(batch, stream);
}
