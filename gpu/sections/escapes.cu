/* Writes and reads the section of escapes. A chunk that compresses well has few
 * escapes, so kernels skip ranges without escapes quickly, and all threads of a
 * block share a range that has some. First, the escapes of ranges are summed,
 * which tells where in the section each range has its own; then escapes are
 * moved to the stream or from it. */
#include "gpu/block/warp.cuh"
#include "gpu/entropy/order.cuh"
#include "gpu/predict/predictor.cuh"
#include "gpu/sections/escapes.cuh"

/* A block has a thread for each position of a range. */
#define NTHREADS CUDA_RANGE_NVALUES
#define NWARPS (NTHREADS / 32)
static_assert(NWARPS == 32, "A warp has a lane for the sum of each warp.");

/* ---- the first escape of each range ---- */

/* Ranges are summed in groups, a block each. Then `ranges` holds the escapes of
 * a group before each of its ranges, and group_begins, in the region `begin`,
 * the escapes before each group, and last the number of all escapes. */
#define RANGES_PER_THREAD 2
#define GROUP_NRANGES (NTHREADS * RANGES_PER_THREAD)
static_assert(TERP_TILE_NSYMBOLS * TERP_PARTITION_NTILES <=
                  CUDA_RANGE_NVALUES * GROUP_NRANGES,
              "The region `begin` must hold a number for each group.");

static __device__ __forceinline__ uint64_t *
group_begins(const struct cuda_batch &batch)
{
    return region<uint64_t>(batch, batch.at.begin);
}

/* The sum of the values of all threads before this one; *total_ret is the sum
 * of all. s_warps: shared memory for a number of each warp. All threads call it
 * together, and need a barrier before they use s_warps again. */
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
    *total_ret = __shfl_sync(FULL_WARP_MASK, of_warps, 31);
    return __shfl_sync(FULL_WARP_MASK, of_warps - of_warp, (int)warp) + sum -
           value;
}

/* One thread writes the section's head and finds where the section ends. */
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

/* After all escapes are counted: writes the section's head, or checks their
 * number (decode). One thread calls it. */
template <bool decode>
static __device__ __forceinline__ void
finish(const struct cuda_batch &batch, struct cuda_chunk &chunk,
       uint64_t nescapes)
{
    if (!decode)
        finish_encode(batch, chunk, nescapes);
    else if (nescapes > chunk.nescapes ||
             (nescapes < chunk.nescapes && batch.decoding.nskipped == 0))
        chunk.status = TERP_ERR_CORRUPT;
}

/* Sums the escapes of ranges. Grid: (groups, chunks). A thread has two ranges
 * of the block's group; the last block of a chunk sums the groups and calls
 * `finish`. Shared: the sums of warps, twice, so that one barrier a scan
 * suffices. */
template <bool decode>
static __global__ void
__launch_bounds__(NTHREADS) escapes_sum(const struct cuda_batch batch)
{
    __shared__ uint64_t s_warps[2][NWARPS];
    struct cuda_chunk &chunk = begin_chunk(batch);
    unsigned long long *ranges =
        region<unsigned long long>(batch, batch.at.ranges);
    uint64_t *begins = group_begins(batch);
    const uint64_t first =
        (uint64_t)blockIdx.x * GROUP_NRANGES + threadIdx.x * RANGES_PER_THREAD;
    uint64_t count[RANGES_PER_THREAD], sum = 0, total;

    if (!is_predicted(chunk))
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

/* ---- moving escapes ---- */

/* The places of the symbol and of the value in C order at a position. */
static __device__ __forceinline__ struct level_point
point_at(const struct terp_layout *layout, bool raster, uint64_t position)
{
    struct level_point point = {0, position};
    uint64_t left = position, at[TERP_NDIMS];

    if (!raster)
        return level_point_at(layout, position);
    for (int d = 0; d < TERP_NDIMS; d++)
        at[d] = split(&left, layout->dims[d]);
    struct tiled_row row = tiled_row_at(layout->rank, layout->dims, at, left);
    point.tiled = tiled_at(row, layout->rank, layout->dims[0], at[0]);
    return point;
}

/* The range of a thread. Escapes are often close together, so blocks take
 * ranges in turn, eight at a time, whose counts one memory access loads. */
static __device__ __forceinline__ uint64_t
range_of_thread(unsigned thread)
{
    return ((uint64_t)(thread / 8) * gridDim.x + blockIdx.x) * 8 + thread % 8;
}

/* The ranges of a block's threads, in shared memory. */
struct range_list {
    uint64_t escape[NTHREADS];    /* number of each range's first escape */
    uint32_t some[NWARPS];        /* a bit a thread: its range has escapes */
    uint32_t nescapes[2][NWARPS]; /* of the current range, by warp */
};

/* Moves escapes to the stream, or (decode) from the stream to `work`. Each
 * thread passes whether its own range has escapes, and the number of the first.
 * Then the block takes one range with escapes after another, and each thread a
 * position of it. One barrier a range: nescapes is used by turns. T is the type
 * of coded values. */
template <typename T, bool decode>
static __device__ void
move_escapes(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
             bool some, uint64_t first_escape, struct range_list *s_list)
{
    const bool raster = terp_prediction_is_raster(chunk.prediction);
    const uint16_t *symbols = region<uint16_t>(batch, batch.at.symbols);
    const unsigned nbytes = escape_nbytes(chunk, sizeof(T));
    const uint64_t section_at = chunk.escapes_end - chunk.nescapes * nbytes;
    const value_grid<T> grid = grid_of<T>(chunk, limit_of<T>(chunk.bound));
    const T step =
        constants_of<T>(chunk.model.step, chunk.bound, TERP_MAX_CODE).step;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    word_of<T> *work = region<word_of<T>>(batch, batch.at.work);
    unsigned turn = 0;

    const unsigned all_some = __ballot_sync(FULL_WARP_MASK, some);
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
            point = point_at(batch.d_layout, raster, position);
            escaped = symbols[point.tiled] == TERP_ESCAPE;
        }
        const unsigned all = __ballot_sync(FULL_WARP_MASK, escaped);
        if (lane == 0)
            s_list->nescapes[turn][warp] = (unsigned)__popc(all);
        __syncthreads();
        unsigned before = lane < warp ? s_list->nescapes[turn][lane] : 0;
        before = warp_sum(before);
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
                     predictor_escape_bits(batch, chunk, grid, position,
                                           point.raster),
                     (int)nbytes);
    }
}

/* Moves escapes of large chunks. Grid: (nranges / NTHREADS rounded up, chunks).
 * A thread has a range; then all threads share each range that has escapes.
 * Shared: struct range_list, 8.5 KB. */
template <typename T, bool decode>
static __global__ void
__launch_bounds__(NTHREADS) escapes_move(const struct cuda_batch batch)
{
    __shared__ struct range_list s_list;
    const struct cuda_chunk &chunk = begin_chunk(batch);
    const unsigned long long *ranges =
        region<unsigned long long>(batch, batch.at.ranges);
    const uint64_t *begins = group_begins(batch);
    const uint64_t range = range_of_thread(threadIdx.x), next = range + 1;
    const uint64_t group = range / GROUP_NRANGES;
    uint64_t escape = 0, end = 0;

    if (!is_predicted(chunk) || chunk.nescapes == 0)
        return;
    if (range < batch.nranges) {
        escape = begins[group] + ranges[range];
        end = next / GROUP_NRANGES != group || next == batch.nranges
                  ? begins[group + 1]
                  : begins[group] + ranges[next];
    }
    move_escapes<T, decode>(batch, chunk, escape < end, escape, &s_list);
}

/* A layout of up to STAGED_NLEVELS levels, without the members of further
 * levels. It is small enough to copy to shared memory, where reads are faster.
 * A layout of more levels is read from global memory. */
#define STAGED_NLEVELS 12
#define STAGED_LAYOUT_NBYTES \
    (offsetof(struct terp_layout, level[STAGED_NLEVELS + 1]))
union staged_layout {
    struct terp_layout layout;
    uint64_t words[STAGED_LAYOUT_NBYTES / 8];
};

/* Listed escapes, in shared memory: their positions in level order (C order for
 * lorenzo), in the sequence of the list; and their values, in the section's
 * sequence, which is that of positions. */
template <typename T> struct listed_values {
    __align__(16) uint32_t position[CUDA_MAX_NLISTED];
    word_of<T> raw[CUDA_MAX_NLISTED];
};
static_assert(CUDA_SINGLE_BLOCK_MAX_NRANGES * CUDA_RANGE_NVALUES < UINT32_MAX,
              "A position has 32 bits, and UINT32_MAX means none.");
static_assert(CUDA_MAX_NLISTED <= NTHREADS && CUDA_MAX_NLISTED % 4 == 0,
              "Each escape has a thread, and four are compared together.");

/* Moves listed escapes from the stream to `work`. A thread has an escape of the
 * list; the number of lower positions tells which value of the section is its
 * own. Has a barrier. */
template <typename T>
static __device__ __forceinline__ void
place_listed(const struct terp_layout *layout, const struct cuda_chunk &chunk,
             T step, uint64_t tiled, word_of<T> *work,
             listed_values<T> *s_listed)
{
    const unsigned i = threadIdx.x, n = (unsigned)chunk.nescapes;
    uint32_t position = UINT32_MAX;

    if (i < n) {
        const word_of<T> raw = read_escape<T>(chunk, step, i);
        position = (uint32_t)(terp_prediction_is_raster(chunk.prediction)
                                  ? raster_position_of_tiled(layout, tiled)
                                  : level_position_of_tiled(layout, tiled));
        s_listed->raw[i] = raw;
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
    work[position] = s_listed->raw[nth];
}

/* Shared memory of a block that handles all escapes of a small chunk. */
template <typename T> struct single_block_shared {
    union {
        struct range_list list;
        listed_values<T> listed;
    };
    union staged_layout layout;
    uint64_t state[sizeof(struct cuda_chunk) / 8];
    uint64_t warps[NWARPS];
};

/* Handles all escapes of a small chunk, with a thread for each range or, if
 * escapes are listed, for each escape. All loads start at once, to overlap.
 * They are volatile and so bypass the multiprocessor's own cache, which may
 * hold old contents: this kernel may run without having waited for the one
 * before it. */
template <typename T, bool decode>
static __device__ __forceinline__ void
do_all(const struct cuda_batch &batch, const struct terp_layout *layout,
       single_block_shared<T> *s)
{
    static_assert(sizeof s->state / 8 <= NTHREADS,
                  "Each thread copies a part of the state.");
    const struct cuda_chunk &state = *(const struct cuda_chunk *)s->state;
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const unsigned i = threadIdx.x;
    uint64_t count = 0, total = 0, before = 0, tiled = 0;

    if (decode && i < CUDA_MAX_NLISTED)
        tiled = ((const volatile uint64_t *)listed_escapes(batch))[i];
    if (i < batch.nranges)
        count = region<const volatile uint64_t>(batch, batch.at.ranges)[i];
    if (i < sizeof state / 8)
        s->state[i] = ((const volatile uint64_t *)&chunk)[i];
    __syncthreads();
    if (!is_predicted(state))
        return;
    if (decode && escapes_are_listed(batch, state)) {
        const unsigned n = (unsigned)state.nescapes;
        if (state.progress[CUDA_PROGRESS_LISTED] != n)
            chunk.status = TERP_ERR_CORRUPT;
        else if (n > 0)
            place_listed<T>(
                layout, state,
                constants_of<T>(state.model.step, state.bound, TERP_MAX_CODE)
                    .step,
                tiled, region<word_of<T>>(batch, batch.at.work), &s->listed);
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
        move_escapes<T, decode>(batch, decode ? state : chunk, count != 0,
                                before, &s->list);
}

/* Handles all escapes of small chunks. Grid: (1, chunks). With `beside` this
 * kernel runs beside the one before it, spline_coarse: it does not wait for
 * that kernel, which lets it begin only after all earlier kernels have ended.
 * Shared: struct single_block_shared. */
template <typename T, bool decode>
static __global__ void
__launch_bounds__(NTHREADS)
    escapes_single_block(const struct cuda_batch batch, bool beside)
{
    __shared__ single_block_shared<T> s;
    const struct terp_layout *layout = &s.layout.layout;

    let_next_kernel_come();
    if (decode) {
        if (threadIdx.x < STAGED_LAYOUT_NBYTES / 8)
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
launch_typed(const struct cuda_batch *batch, cudaStream_t stream)
{
    if (batch->nranges <= CUDA_SINGLE_BLOCK_MAX_NRANGES)
        return launch_stage(batch, stream, escapes_single_block<T, decode>, 1,
                            NTHREADS, decode && cuda_spline_begins(batch));
    struct stage_launches launches = {batch, stream};
    launches.add(escapes_sum<decode>, div_up(batch->nranges, GROUP_NRANGES),
                 NTHREADS);
    launches.add(escapes_move<T, decode>, div_up(batch->nranges, NTHREADS),
                 NTHREADS);
    return launches.error;
}

cudaError_t
cuda_escapes_write(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->value_nbytes == 4
               ? launch_typed<float, false>(batch, stream)
               : launch_typed<double, false>(batch, stream);
}

cudaError_t
cuda_escapes_place(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->value_nbytes == 4 ? launch_typed<float, true>(batch, stream)
                                    : launch_typed<double, true>(batch, stream);
}
