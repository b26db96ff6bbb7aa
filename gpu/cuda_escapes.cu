/* Floor 3: the section of escapes. Escapes are few, or the chunk compresses
 * badly: kernels are quick to see that a range has none. */
#include "bytes.h"
#include "cuda_lorenzo.cuh"
#include "cuda_order.cuh"

#define ALL_LANES 0xFFFFFFFFu
#define NTHREADS 256
#define NWARPS (NTHREADS / 32)

static __device__ __forceinline__ bool
chunk_applies(const struct cuda_chunk &chunk)
{
    return chunk.status == TERP_OK && chunk.prediction != TERP_PREDICTION_NONE;
}

/* ---- where escapes of a range begin ---- */

/* Ranges are summed in groups: `ranges` says how many escapes of its group are
 * before a range, and `group_begins`, in the region `staging`, how many are
 * before a group; one more is the end. */
#define RANGES_PER_THREAD 8
#define GROUP_NRANGES (NTHREADS * RANGES_PER_THREAD)

static __device__ __forceinline__ uint64_t *
group_begins(const struct cuda_batch &batch)
{
    return region<uint64_t>(batch, blockIdx.y, batch.at.staging);
}

/* The sum of `value` in all threads before, and in *total_ret of all. Shared:
 * a word a warp. */
static __device__ uint64_t
block_exclusive_sum(uint64_t value, uint64_t *s_warps, uint64_t *total_ret)
{
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint64_t sum = value, before = 0;

    for (unsigned distance = 1; distance < 32; distance *= 2) {
        uint64_t below = __shfl_up_sync(ALL_LANES, sum, distance);
        sum += lane >= distance ? below : 0;
    }
    __syncthreads(); /* s_warps may still be read */
    if (lane == 31)
        s_warps[warp] = sum;
    __syncthreads();
    *total_ret = 0;
    for (unsigned i = 0; i < NWARPS; i++) {
        before += i < warp ? s_warps[i] : 0;
        *total_ret += s_warps[i];
    }
    return before + sum - value;
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
    writer_take(&writer, nescapes * (uint64_t)batch.value_nbytes);
    if (writer.overflow)
        chunk.status = TERP_ERR_CAPACITY;
    chunk.escapes_end = (uint64_t)(writer.at - dst);
}

/* Grid: (groups, chunks). The block whose group is done last sums groups. */
template <bool decode>
static __global__ void
__launch_bounds__(NTHREADS) escapes_sum(struct cuda_batch batch)
{
    __shared__ uint64_t s_warps[NWARPS];
    __shared__ bool s_is_last;
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
    uint64_t before = block_exclusive_sum(sum, s_warps, &total);
    for (int i = 0; total > 0 && i < RANGES_PER_THREAD; i++) {
        if (first + i < batch.nranges)
            ranges[first + i] = before;
        before += count[i];
    }
    if (threadIdx.x == 0) {
        begins[blockIdx.x] = total;
        __threadfence();
        s_is_last = atomicAdd(&chunk.progress[CUDA_PROGRESS_ESCAPES], 1u) ==
                    gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (!s_is_last)
        return;
    uint64_t nescapes = 0;
    for (unsigned group = 0; group < gridDim.x; group += NTHREADS) {
        unsigned i = group + threadIdx.x;
        before =
            block_exclusive_sum(i < gridDim.x ? begins[i] : 0, s_warps, &total);
        if (i < gridDim.x)
            begins[i] = nescapes + before;
        nescapes += total;
    }
    if (threadIdx.x == 0) {
        begins[gridDim.x] = nescapes;
        if (!decode)
            finish_encode(batch, chunk, nescapes);
        else if (nescapes != chunk.nescapes)
            chunk.status = TERP_ERR_CORRUPT;
    }
}

/* ---- words ---- */

/* What a block looks through; a warp takes every NWARPS-th range. */
#define BLOCK_NRANGES 256

/* The word of an escape of Lorenzo at a position in C order. */
template <typename W>
static __device__ W
lorenzo_word(const struct terp_layout *layout, unsigned dims, const W *levels,
             uint64_t position)
{
    uint64_t left = position, stride[TERP_NDIMS], inner = 1;

    for (int d = 0; d < TERP_NDIMS; d++) {
        stride[d] = inner;
        inner *= layout->dims[d];
        if (split(&left, layout->dims[d]) == 0)
            dims &= ~(1u << d);
    }
    return lorenzo_difference(levels + position, dims, stride);
}

/* Words to the stream, or from the stream to `work`: W is a word.
 * Grid: (blocks of BLOCK_NRANGES, chunks). */
template <typename W, bool decode>
static __global__ void
__launch_bounds__(NTHREADS) escapes_move(struct cuda_batch batch)
{
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const struct terp_layout *layout = batch.d_layout;

    if (!chunk_applies(chunk) || chunk.nescapes == 0)
        return;
    const bool lorenzo = chunk.prediction == TERP_PREDICTION_LORENZO;
    const uint16_t *symbols =
        region<uint16_t>(batch, blockIdx.y, batch.at.symbols);
    const unsigned long long *ranges =
        region<unsigned long long>(batch, blockIdx.y, batch.at.ranges);
    const uint64_t *begins = group_begins(batch);
    W *work = region<W>(batch, blockIdx.y, batch.at.work);
    const uint64_t words_at = chunk.escapes_end - chunk.nescapes * sizeof(W);
    const unsigned lane = threadIdx.x % 32;

    for (unsigned i = threadIdx.x / 32; i < BLOCK_NRANGES; i += NWARPS) {
        const uint64_t range = (uint64_t)blockIdx.x * BLOCK_NRANGES + i;
        const uint64_t next = range + 1, group = range / GROUP_NRANGES;
        if (range >= batch.nranges)
            break;
        uint64_t escape = begins[group] + ranges[range];
        uint64_t end = next / GROUP_NRANGES != group || next == batch.nranges
                           ? begins[group + 1]
                           : begins[group] + ranges[next];
        for (unsigned j = lane; j - lane < CUDA_RANGE_NVALUES && escape < end;
             j += 32) {
            const uint64_t position = range * CUDA_RANGE_NVALUES + j;
            bool escaped = false;
            struct work_point point = {0, 0};
            if (position < batch.nvalues && lorenzo) {
                uint64_t left = position, at[TERP_NDIMS];
                for (int d = 0; d < TERP_NDIMS; d++)
                    at[d] = split(&left, layout->dims[d]);
                struct tiled_row row =
                    tiled_row_at(layout->rank, layout->dims, at, left);
                point.tiled =
                    tiled_at(row, layout->rank, layout->dims[0], at[0]);
            } else if (position < batch.nvalues) {
                point = work_point_at(layout, position);
            }
            if (position < batch.nvalues)
                escaped = symbols[point.tiled] == TERP_ESCAPE;
            unsigned all = __ballot_sync(ALL_LANES, escaped);
            uint64_t nth = escape + __popc(all & ((1u << lane) - 1));
            uint64_t at = words_at + nth * sizeof(W);
            escape += __popc(all);
            if (escaped && decode)
                work[position] =
                    (W)load_le((const uint8_t *)chunk.src + at, sizeof(W));
            else if (escaped)
                store_le((uint8_t *)chunk.dst + at,
                         lorenzo ? lorenzo_word(layout, chunk.lorenzo_dims,
                                                (const W *)work, position)
                                 : ((const W *)chunk.src)[point.raster],
                         sizeof(W));
        }
    }
}

template <bool decode>
static cudaError_t
launch_escapes(const struct cuda_batch *batch, cudaStream_t stream)
{
    const unsigned nchunks = (unsigned)batch->nchunks;
    const dim3 groups((unsigned)div_up(batch->nranges, GROUP_NRANGES), nchunks);
    const dim3 blocks((unsigned)div_up(batch->nranges, BLOCK_NRANGES), nchunks);

    cudaError_t err =
        launch(escapes_sum<decode>, groups, dim3(NTHREADS), 0, stream, *batch);
    if (err != cudaSuccess)
        return err;
    return launch(batch->value_nbytes == 4 ? escapes_move<uint32_t, decode>
                                           : escapes_move<uint64_t, decode>,
                  blocks, dim3(NTHREADS), 0, stream, *batch);
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
