/* Writes and reads the section of remainders. The remainders of a tile of
 * points fill whole bytes, and where each tile's begin is found first. A block
 * has a tile. Its warps load and store 32 consecutive points at a time; each of
 * its threads codes consecutive points, and so few words of packed bits. */
#include "gpu/block/concatenate.cuh"
#include "gpu/block/load_bits.cuh"
#include "gpu/block/sum.cuh"
#include "gpu/predict/lorenzo_shape.cuh"
#include "gpu/predict/lossless.cuh"

/* Threads of a block with tiles, and of the block that sums; points of a thread
 * in a tile. */
#define NTHREADS 256
#define SUM_NTHREADS 1024
#define NWARPS (NTHREADS / 32)
#define NPOINTS (TERP_REMAINDERS_NVALUES / NTHREADS)
static_assert(TERP_REMAINDERS_NVALUES == TERP_TILE_NSYMBOLS,
              "The region `remainders` has a number for each tile.");
static_assert(32 % NPOINTS == 0, "The mask of a thread's points is in a word.");

static __device__ __forceinline__ bool
has_remainders(const struct cuda_chunk &chunk)
{
    return chunk_is_lossless(chunk) &&
           chunk.model.lossless.form == TERP_LOSSLESS_REMAINDERS;
}

/* The arrays of the block's chunk. T is the type of its values. */
template <typename T> struct remainders_view {
    lossless_quants<T> k;
    const uint32_t *mask;
    const T *values;          /* encode */
    const word_of<T> *quants; /* decode */
    word_of<T> center;
    uint64_t *begins; /* of tiles */
    uint64_t nvalues;
};

template <typename T>
static __device__ __forceinline__ remainders_view<T>
remainders_of(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    return {quants_of_model<T>(chunk),
            lossless_mask(batch, chunk),
            (const T *)chunk.src,
            region<word_of<T>>(batch, batch.at.work),
            (word_of<T>)chunk.model.lossless.center,
            region<uint64_t>(batch, batch.at.remainders),
            batch.nvalues};
}

/* The word of a value (encode), or of an integer. */
template <typename T, bool decode>
static __device__ __forceinline__ word_of<T>
word_at(const remainders_view<T> &view, uint64_t at)
{
    return decode ? view.quants[at] + view.center : bits_of(view.values[at]);
}

/* The bits of the remainder of such a word. */
template <typename T, bool decode>
static __device__ __forceinline__ int
nbits_of_word(word_of<T> word, const lossless_quants<T> &k)
{
    return decode ? nbits_of_remainder<T>((int_of<T>)word, k)
                  : (int)nbits_of_values_remainder(value_of_bits(word), k);
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
    const remainders_view<T> view = remainders_of<T>(batch, chunk);
    for (uint64_t tile = blockIdx.x; tile < batch.ntiles; tile += gridDim.x) {
        unsigned sum = 0;
#pragma unroll
        for (unsigned k = 0; k < NPOINTS; k++) {
            const uint64_t at =
                tile * TERP_REMAINDERS_NVALUES + k * NTHREADS + threadIdx.x;
            if (at < view.nvalues &&
                (view.mask == nullptr || !is_set(view.mask, at)))
                sum += (unsigned)nbits_of_word<T, decode>(
                    word_at<T, decode>(view, at), view.k);
        }
        sum = warp_sum(sum);
        __syncthreads();
        if (threadIdx.x % 32 == 0)
            s_warps[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (unsigned warp = 1; warp < NWARPS; warp++)
                sum += s_warps[warp];
            view.begins[tile] = div_up(sum, 8);
        }
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
    __shared__ block_scan<unsigned long long, SUM_NTHREADS> s_scan;
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

/* Shared memory of a block with a tile. A thread's points have a row, and a
 * word more, so that threads use different banks. */
template <typename T> struct tile_shared {
    unsigned warps[NWARPS];
    union {
        word_of<T> points[NTHREADS][NPOINTS + 1];
        uint32_t packed[TERP_REMAINDERS_NVALUES * sizeof(T) / 4 + 1];
    };
};

/* Where point k * NTHREADS + threadIdx.x of the tile is in shared memory. */
template <typename T>
static __device__ __forceinline__ word_of<T> *
point_of_warp(tile_shared<T> *s, unsigned k)
{
    const unsigned point = k * NTHREADS + threadIdx.x;

    return &s->points[point / NPOINTS][point % NPOINTS];
}

/* The bits of the remainder of the thread's point k: 0 for special points, and
 * behind the array. `special`: a bit for each point of the thread. */
template <typename T, bool decode>
static __device__ __forceinline__ int
nbits_of_point(const remainders_view<T> &view, uint64_t tile, unsigned k,
               uint32_t special, word_of<T> word)
{
    const uint64_t at =
        tile * TERP_REMAINDERS_NVALUES + threadIdx.x * NPOINTS + k;

    return at < view.nvalues && (special >> k & 1) == 0
               ? nbits_of_word<T, decode>(word, view.k)
               : 0;
}

/* Where the bits of the thread's points begin in their tile, the sum of the
 * tile's bits, and which of the points are special. */
struct thread_points {
    unsigned at, all;
    uint32_t special;
};

/* Loads a tile to shared memory, and the thread's points from there to `own`.
 * Begins and ends with a barrier. */
template <typename T, bool decode>
static __device__ __forceinline__ struct thread_points
load_points(const remainders_view<T> &view, uint64_t tile, tile_shared<T> *s,
            word_of<T> own[NPOINTS])
{
    const uint64_t begin = tile * TERP_REMAINDERS_NVALUES;
    const uint64_t first = begin + threadIdx.x * NPOINTS;
    struct thread_points points = {0, 0, 0};
    unsigned nbits = 0;

    __syncthreads();
#pragma unroll
    for (unsigned k = 0; k < NPOINTS; k++) {
        const uint64_t at = begin + k * NTHREADS + threadIdx.x;
        *point_of_warp(s, k) =
            at < view.nvalues ? word_at<T, decode>(view, at) : 0;
    }
    __syncthreads();
    if (view.mask != nullptr && first < view.nvalues)
        points.special = view.mask[first / 32] >> first % 32;
#pragma unroll
    for (unsigned k = 0; k < NPOINTS; k++) {
        own[k] = s->points[threadIdx.x][k];
        nbits += (unsigned)nbits_of_point<T, decode>(view, tile, k,
                                                     points.special, own[k]);
    }
    const unsigned sum = warp_inclusive_sum(nbits);
    if (threadIdx.x % 32 == 31)
        s->warps[threadIdx.x / 32] = sum;
    __syncthreads();
    points.at = sum - nbits;
    for (unsigned warp = 0; warp < NWARPS; warp++) {
        points.at += warp < threadIdx.x / 32 ? s->warps[warp] : 0;
        points.all += s->warps[warp];
    }
    return points;
}

/* Packs numbers that follow each other; other threads pack those before and
 * after them in the same words, which must be 0 before. */
struct bit_packer {
    uint32_t *s_words; /* the next word */
    uint64_t bits;     /* that no word has yet */
    int nbits;         /* below 32 */
};

/* Appends up to 32 bits. */
static __device__ __forceinline__ void
pack_bits(struct bit_packer *packer, uint32_t number, int nbits)
{
    packer->bits |= (uint64_t)number << packer->nbits;
    packer->nbits += nbits;
    if (packer->nbits >= 32) {
        atomicOr(packer->s_words++, (uint32_t)packer->bits);
        packer->bits >>= 32;
        packer->nbits -= 32;
    }
}

/* Packs a tile's remainders in shared memory. Returns their bytes. Begins and
 * ends with a barrier. */
template <typename T>
static __device__ __forceinline__ unsigned
pack_tile(const remainders_view<T> &view, uint64_t tile, tile_shared<T> *s)
{
    word_of<T> own[NPOINTS];
    const struct thread_points points =
        load_points<T, false>(view, tile, s, own);

    for (unsigned i = threadIdx.x; i < div_up(points.all, 32); i += NTHREADS)
        s->packed[i] = 0;
    __syncthreads();
    struct bit_packer packer = {&s->packed[points.at / 32], 0,
                                (int)(points.at % 32)};
#pragma unroll
    for (unsigned k = 0; k < NPOINTS; k++) {
        const int nbits =
            nbits_of_point<T, false>(view, tile, k, points.special, own[k]);
        const word_of<T> number =
            nbits == 0 ? 0
                       : remainder_of_value(value_of_bits(own[k]),
                                            (word_of<T>)nbits, view.k);
        pack_bits(&packer, (uint32_t)number, min(nbits, 32));
        if constexpr (sizeof(T) == 8)
            if (nbits > 32)
                pack_bits(&packer, (uint32_t)(number >> 32), nbits - 32);
    }
    if ((uint32_t)packer.bits != 0)
        atomicOr(packer.s_words, (uint32_t)packer.bits);
    __syncthreads();
    return (unsigned)div_up(points.all, 8);
}

/* Writes remainders. Grid: (some blocks, chunks). Blocks take tiles in turn.
 * Shared: a tile's values, then its packed remainders, 17 or 34 KB. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS, 4) write_remainders(const struct cuda_batch batch)
{
    __shared__ tile_shared<T> s;
    const struct cuda_chunk &chunk = begin_chunk(batch);

    if (!has_remainders(chunk) || chunk.specials_end >= batch.raw_nbytes)
        return;
    const remainders_view<T> view = remainders_of<T>(batch, chunk);
    uint8_t *dst = (uint8_t *)chunk.dst + chunk.remainders_at;
    for (uint64_t tile = blockIdx.x; tile < batch.ntiles; tile += gridDim.x) {
        const unsigned nbytes = pack_tile(view, tile, &s);
        copy_bytes(dst + view.begins[tile], (const uint8_t *)s.packed, nbytes,
                   threadIdx.x, NTHREADS);
    }
}

/* Makes values of integers and remainders. Grid: (some blocks, chunks). Blocks
 * take tiles in turn. Shared: a tile's integers, then its values, 17 or 34
 * KB. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS, 4) place_remainders(const struct cuda_batch batch)
{
    __shared__ tile_shared<T> s;
    const struct cuda_chunk &chunk = begin_chunk(batch);

    if (!has_remainders(chunk))
        return;
    const remainders_view<T> view = remainders_of<T>(batch, chunk);
    const uint8_t *src = (const uint8_t *)chunk.src;
    T *values = (T *)chunk.dst;
    for (uint64_t tile = blockIdx.x; tile < batch.ntiles; tile += gridDim.x) {
        word_of<T> own[NPOINTS]; /* loaded again, to take fewer registers */
        const struct thread_points points =
            load_points<T, true>(view, tile, &s, own);
        struct bit_stream stream =
            bit_stream_at(src + chunk.remainders_at + view.begins[tile],
                          points.at, src + chunk.src_nbytes);
#pragma unroll
        for (unsigned k = 0; k < NPOINTS; k++) {
            word_of<T> *const point = &s.points[threadIdx.x][k];
            const int nbits =
                nbits_of_point<T, true>(view, tile, k, points.special, *point);
            *point = bits_of(value_of_lossless<T>(
                (int_of<T>)*point, take_number<word_of<T>>(&stream, nbits),
                view.k));
        }
        __syncthreads();
#pragma unroll
        for (unsigned k = 0; k < NPOINTS; k++) {
            const uint64_t to =
                tile * TERP_REMAINDERS_NVALUES + k * NTHREADS + threadIdx.x;
            if (to < batch.nvalues)
                values[to] = value_of_bits(*point_of_warp(&s, k));
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
    launches.add_typed(CUDA_TYPED(write_remainders), nblocks, NTHREADS);
    return launches.error;
}

cudaError_t
cuda_remainders_place(const struct cuda_batch *batch, cudaStream_t stream)
{
    const unsigned nblocks = nblocks_for(batch, batch->ntiles);
    struct stage_launches launches = {batch, stream};

    launches.add_typed(measure_remainders<float, true>,
                       measure_remainders<double, true>, nblocks, NTHREADS);
    launches.add(place_tiles<true>, 1, SUM_NTHREADS);
    launches.add_typed(CUDA_TYPED(place_remainders), nblocks, NTHREADS);
    return launches.error;
}
