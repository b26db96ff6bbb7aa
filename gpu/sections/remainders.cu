/* Writes and reads the section of remainders. The remainders of a tile of
 * points fill whole bytes, and where each tile's begin is found first. A block
 * has a tile; a warp has consecutive points of it, 32 at a time. */
#include "gpu/block/load_bits.cuh"
#include "gpu/block/put_bits.cuh"
#include "gpu/block/sum.cuh"
#include "gpu/predict/lorenzo_shape.cuh"
#include "gpu/predict/lossless.cuh"

/* Threads of a block with tiles, and of the block that sums; points of a thread
 * in a tile. */
#define NTHREADS 256
#define SUM_NTHREADS 1024
#define NWARPS (NTHREADS / 32)
#define NROUNDS (TERP_REMAINDERS_NVALUES / NTHREADS)
static_assert(TERP_REMAINDERS_NVALUES == TERP_TILE_NSYMBOLS,
              "The region `remainders` has a number for each tile.");

static __device__ __forceinline__ bool
has_remainders(const struct cuda_chunk &chunk)
{
    return chunk_is_lossless(chunk) &&
           chunk.model.lossless.form == TERP_LOSSLESS_REMAINDERS;
}

/* The arrays of the block's chunk. T is the type of its values. */
template <typename T> struct remainders_view {
    struct lossless_quants<T> k;
    const uint32_t *mask;
    const T *values;          /* encode */
    const word_of<T> *quants; /* decode */
    word_of<T> center;
    uint64_t *begins; /* of tiles */
    uint64_t nvalues;
};

template <typename T>
static __device__ __forceinline__ struct remainders_view<T>
remainders_of(const struct cuda_batch &batch, const struct cuda_chunk &chunk) {
    return {quants_of_model<T>(chunk),
            lossless_mask(batch, chunk),
            (const T *)chunk.src,
            region<word_of<T>>(batch, batch.at.work),
            (word_of<T>)chunk.model.lossless.center,
            region<uint64_t>(batch, batch.at.remainders),
            batch.nvalues};
}

/* decode: the integer of a point. */
template <typename T>
static __device__ __forceinline__ int_of<T>
quant_at(const struct remainders_view<T> &view, uint64_t at)
{
    return (int_of<T>)(view.quants[at] + view.center);
}

/* The bits of a point's remainder: 0 for special points. An encoder also gets
 * the remainder. */
template <typename T, bool decode>
static __device__ __forceinline__ int
nbits_at(const struct remainders_view<T> &view, uint64_t at,
         word_of<T> *remainder_ret)
{
    int_of<T> quant;
    bool fits;

    *remainder_ret = 0;
    if (at >= view.nvalues || (view.mask != nullptr && is_set(view.mask, at)))
        return 0;
    if (decode)
        quant = quant_at(view, at);
    else
        quant =
            lossless_quant_of(view.values[at], view.k, remainder_ret, &fits);
    return nbits_of_remainder<T>(quant, view.k);
}

/* A thread's first point of a tile; its points are 32 apart. */
static __device__ __forceinline__ uint64_t
first_of_thread(uint64_t tile)
{
    return tile * TERP_REMAINDERS_NVALUES + threadIdx.x / 32 * 32 * NROUNDS +
           threadIdx.x % 32;
}

/* Finds the bits of each of the thread's points. Returns the sum of bits in the
 * warps before; *all_ret is the sum of all. All threads call it together, after
 * a barrier since its last call, as it overwrites s_warps. */
template <typename T, bool decode>
static __device__ __forceinline__ unsigned
find_nbits(const struct remainders_view<T> &view, uint64_t tile,
           int nbits[NROUNDS], unsigned s_warps[NWARPS], unsigned *all_ret)
{
    const uint64_t first = first_of_thread(tile);
    unsigned sum = 0, before = 0, all = 0;

#pragma unroll
    for (unsigned k = 0; k < NROUNDS; k++) {
        word_of<T> remainder;
        nbits[k] = nbits_at<T, decode>(view, first + 32 * k, &remainder);
        sum += (unsigned)nbits[k];
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        s_warps[threadIdx.x / 32] = sum;
    __syncthreads();
    for (unsigned warp = 0; warp < NWARPS; warp++) {
        before += warp < threadIdx.x / 32 ? s_warps[warp] : 0;
        all += s_warps[warp];
    }
    *all_ret = all;
    return before;
}

/* Finds the bytes of each tile's remainders. Grid: (some blocks, chunks).
 * Blocks take tiles in turn. */
template <typename T, bool decode>
static __global__ void
__launch_bounds__(NTHREADS) measure_remainders(const struct cuda_batch batch)
{
    __shared__ unsigned s_warps[NWARPS];
    const struct cuda_chunk &chunk = begin_chunk(batch);

    if (!has_remainders(chunk))
        return;
    const struct remainders_view<T> view = remainders_of<T>(batch, chunk);
    for (uint64_t tile = blockIdx.x; tile < batch.ntiles; tile += gridDim.x) {
        int nbits[NROUNDS];
        unsigned all;
        __syncthreads();
        find_nbits<T, decode>(view, tile, nbits, s_warps, &all);
        if (threadIdx.x == 0)
            view.begins[tile] = div_up(all, 8);
    }
}

/* One thread writes the section's head: the bytes of all remainders. */
static __device__ void
begin_section(const struct cuda_batch &batch, struct cuda_chunk &chunk,
              uint64_t nbytes)
{
    uint8_t *dst = (uint8_t *)chunk.dst;
    struct writer writer = {dst + chunk.specials_end,
                            dst + batch.raw_nbytes - 1, false};

    /* If the stream does not fit, cuda_escapes_write finds that out. */
    if (chunk.specials_end < batch.raw_nbytes) {
        write_uleb(&writer, nbytes);
        chunk.specials_end = (uint64_t)(writer.at - dst);
    }
    chunk.remainders_at = chunk.specials_end;
    chunk.specials_end += nbytes;
}

/* Replaces the bytes of tiles by where each begins, and writes the section's
 * head or checks it (decode). Grid: (1, chunks). Shared: the sums of a scan. */
template <bool decode>
static __global__ void
__launch_bounds__(SUM_NTHREADS) place_tiles(const struct cuda_batch batch)
{
    __shared__ struct block_scan<unsigned long long, SUM_NTHREADS> s_scan;
    struct cuda_chunk &chunk = begin_chunk(batch);
    uint64_t *begins = region<uint64_t>(batch, batch.at.remainders);

    /* Stages on other streams may change the state meanwhile. */
    if (__syncthreads_or(!has_remainders(chunk)))
        return;
    const uint64_t nbytes = sum_numbers<SUM_NTHREADS>(
        batch.ntiles, s_scan, [&](uint64_t i) { return begins[i]; },
        [&](uint64_t i, uint64_t before) { begins[i] = before; });
    if (threadIdx.x > 0)
        return;
    if (!decode)
        begin_section(batch, chunk, nbytes);
    else if (nbytes != chunk.remainders_nbytes)
        chunk.status = TERP_ERR_CORRUPT;
}

template <typename T> struct remainders_shared {
    unsigned warps[NWARPS];
    uint32_t words[TERP_REMAINDERS_NVALUES * sizeof(T) / 4 + 1];
};

/* Packs a tile's remainders in shared memory. Returns their bytes. Ends with a
 * barrier. */
template <typename T>
static __device__ __forceinline__ unsigned
pack_tile(const struct remainders_view<T> &view, uint64_t tile,
          remainders_shared<T> *s)
{
    const uint64_t first = first_of_thread(tile);
    int nbits[NROUNDS];
    unsigned all;

    for (unsigned i = threadIdx.x; i < sizeof s->words / 4; i += NTHREADS)
        s->words[i] = 0;
    unsigned at = find_nbits<T, false>(view, tile, nbits, s->warps, &all);
#pragma unroll
    for (unsigned k = 0; k < NROUNDS; k++) {
        const unsigned sum = warp_inclusive_sum((unsigned)nbits[k]);
        const unsigned own = at + sum - (unsigned)nbits[k];
        word_of<T> remainder;
        nbits_at<T, false>(view, first + 32 * k, &remainder);
        put_bits(s->words, own, (uint32_t)remainder);
        if constexpr (sizeof(T) == 8)
            if (nbits[k] > 32)
                put_bits(s->words, own + 32, (uint32_t)(remainder >> 32));
        at += __shfl_sync(FULL_WARP_MASK, sum, 31);
    }
    __syncthreads();
    return (unsigned)div_up(all, 8);
}

/* Writes remainders. Grid: (some blocks, chunks). Blocks take tiles in turn.
 * Shared: the packed remainders of a tile, 16 or 32 KB. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) write_remainders(const struct cuda_batch batch)
{
    __shared__ remainders_shared<T> s;
    const struct cuda_chunk &chunk = begin_chunk(batch);

    if (!has_remainders(chunk) || chunk.specials_end >= batch.raw_nbytes)
        return;
    const struct remainders_view<T> view = remainders_of<T>(batch, chunk);
    uint8_t *dst = (uint8_t *)chunk.dst + chunk.remainders_at;
    for (uint64_t tile = blockIdx.x; tile < batch.ntiles; tile += gridDim.x) {
        __syncthreads();
        const unsigned nbytes = pack_tile(view, tile, &s);
        for (unsigned i = threadIdx.x; i < nbytes; i += NTHREADS)
            dst[view.begins[tile] + i] = ((const uint8_t *)s.words)[i];
    }
}

/* Makes values of integers and remainders. Grid: (some blocks, chunks). Blocks
 * take tiles in turn. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) place_remainders(const struct cuda_batch batch)
{
    __shared__ unsigned s_warps[NWARPS];
    const struct cuda_chunk &chunk = begin_chunk(batch);

    if (!has_remainders(chunk))
        return;
    const struct remainders_view<T> view = remainders_of<T>(batch, chunk);
    const uint8_t *src = (const uint8_t *)chunk.src;
    T *values = (T *)chunk.dst;
    for (uint64_t tile = blockIdx.x; tile < batch.ntiles; tile += gridDim.x) {
        const uint8_t *numbers = src + chunk.remainders_at + view.begins[tile];
        int nbits[NROUNDS];
        unsigned all;
        __syncthreads();
        unsigned at = find_nbits<T, true>(view, tile, nbits, s_warps, &all);
#pragma unroll
        for (unsigned k = 0; k < NROUNDS; k++) {
            const uint64_t point = first_of_thread(tile) + 32 * k;
            const unsigned sum = warp_inclusive_sum((unsigned)nbits[k]);
            if (point < batch.nvalues)
                values[point] = value_of_lossless<T>(
                    quant_at(view, point),
                    (word_of<T>)load_bits_by_words(
                        numbers, at + sum - (unsigned)nbits[k], nbits[k],
                        src + chunk.src_nbytes),
                    view.k);
            at += __shfl_sync(FULL_WARP_MASK, sum, 31);
        }
    }
}

cudaError_t
cuda_remainders_write(const struct cuda_batch *batch, cudaStream_t stream)
{
    const unsigned nblocks = nblocks_for(batch, batch->ntiles);
    struct stage_launches launches = {batch, stream};

    launches.add_typed(measure_remainders<float, false>,
                       measure_remainders<double, false>, nblocks, NTHREADS);
    launches.add(place_tiles<false>, 1, SUM_NTHREADS);
    launches.add_typed(write_remainders<float>, write_remainders<double>,
                       nblocks, NTHREADS);
    return launches.error;
}

cudaError_t
cuda_remainders_place(const struct cuda_batch *batch, cudaStream_t stream)
{
    const unsigned nblocks = nblocks_for(batch, batch->ntiles);
    struct stage_launches launches = {batch, stream};

    if (!batch->may_be_lossless)
        return cudaSuccess;
    launches.add_typed(measure_remainders<float, true>,
                       measure_remainders<double, true>, nblocks, NTHREADS);
    launches.add(place_tiles<true>, 1, SUM_NTHREADS);
    launches.add_typed(place_remainders<float>, place_remainders<double>,
                       nblocks, NTHREADS);
    return launches.error;
}
