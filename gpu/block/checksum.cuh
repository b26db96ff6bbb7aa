/* The checksum of a stream, by one block of threads or by a grid of blocks. */
#ifndef TERP_GPU_BLOCK_CHECKSUM_CUH
#define TERP_GPU_BLOCK_CHECKSUM_CUH

#include "codec/format/bytes.h"
#include "codec/format/frame.h"
#include "gpu/block/warp.cuh"
#include "gpu/block/xxh3.cuh"
#include "gpu/engine/state.cuh"

static_assert(CUDA_SHORT_NBYTES - TERP_FRAME_DIMS_AT + 1 >= XXH3_MIN_NBYTES &&
                  TERP_CHECKSUM_PIECE_NBYTES >= XXH3_MIN_NBYTES,
              "XXH3 hashes shorter inputs in another way.");

/* Blocks of XXH3 that a piece has at most. */
#define PIECE_MAX_NBLOCKS (2 * TERP_CHECKSUM_PIECE_NBYTES / XXH3_BLOCK_NBYTES)

/* What a block of threads shares: the seed's secret; sums of the blocks of a
 * piece and of the next; and what each warp has summed up. */
struct checksum_shared {
    uint64_t secret[XXH3_TABLE_NWORDS];
    uint64_t sums[2][PIECE_MAX_NBLOCKS][XXH3_NLANES];
    uint64_t of_warp[32];
};

static __device__ __forceinline__ uint2
halves_of(uint64_t word)
{
    return make_uint2((uint32_t)word, (uint32_t)(word >> 32));
}

/* A warp chains the sums of a piece's blocks: each is added to the scrambled
 * accumulators. Returns the piece's hash. */
static __device__ __forceinline__ uint64_t
hash_of_sums(const uint64_t (*s_sums)[XXH3_NLANES], uint64_t nbytes,
             const uint64_t *s_secret)
{
    const unsigned i = threadIdx.x % XXH3_NLANES;
    const unsigned nblocks = (unsigned)xxh3_nblocks(nbytes);
    const uint2 key = halves_of(s_secret[XXH3_SCRAMBLE_AT / 8 + i]);
    uint2 value = halves_of(xxh3_first(s_secret) + s_sums[0][i]);

#pragma unroll 4
    for (unsigned b = 1; b <= nblocks; b++)
        value = xxh3_scramble_add(value, key, halves_of(s_sums[b][i]));
    return xxh3_end((uint64_t)value.y << 32 | value.x, s_secret, nbytes);
}

/* What the last stripe adds, which ends where the piece ends. */
static __device__ __forceinline__ uint64_t
sum_last_stripe(const uint8_t *end, const uint64_t *s_secret)
{
    unsigned i = threadIdx.x % XXH3_NLANES;
    uint64_t word = xxh3_load(end - XXH3_STRIPE_NBYTES + 8 * i);

    return xxh3_product(word,
                        xxh3_key(s_secret, XXH3_LAST_STRIPE_AT + 8 * i)) +
           __shfl_xor_sync(FULL_WARP_MASK, word, 1);
}

/* The warps of a block of threads sum up the blocks of a piece. */
template <unsigned NTHREADS>
static __device__ __forceinline__ void
sum_blocks(const uint8_t *piece, uint64_t nbytes, const uint64_t *s_secret,
           uint64_t (*s_sums)[XXH3_NLANES])
{
    const unsigned nblocks = (unsigned)xxh3_nblocks(nbytes);
    uint64_t key[XXH3_BLOCK_NSTRIPES / 4];

    xxh3_stripe_keys(s_secret, key);
#pragma unroll 1
    for (unsigned b = threadIdx.x / 32; b <= nblocks; b += NTHREADS / 32) {
        const unsigned at = b * XXH3_BLOCK_NBYTES;
        const unsigned nstripes =
            b < nblocks ? XXH3_BLOCK_NSTRIPES
                        : (unsigned)((nbytes - 1 - at) / XXH3_STRIPE_NBYTES);
        uint64_t sum = xxh3_sum_stripes(piece + at, nstripes, key);
        if (b == nblocks)
            sum += sum_last_stripe(piece + nbytes, s_secret);
        if (threadIdx.x % 32 < XXH3_NLANES)
            s_sums[b][threadIdx.x % 32] = sum;
    }
}

/* Returns, in the first warp, what every nblocks-th piece from number `block`
 * on adds to the checksum. The secret is in shared memory. Warps take turns
 * chaining a piece, while the others sum up the next. */
template <unsigned NTHREADS>
static __device__ __forceinline__ uint64_t
sum_pieces(const uint8_t *input, uint64_t nbytes, unsigned block,
           unsigned nblocks, struct checksum_shared *s)
{
    const unsigned warp = threadIdx.x / 32;
    const uint64_t npieces = terp_checksum_npieces(nbytes);
    uint64_t sum = 0;
    unsigned turn = 0;

#pragma unroll 1
    for (uint64_t i = block; i < npieces; i += nblocks, turn++) {
        const uint64_t at = i * TERP_CHECKSUM_PIECE_NBYTES;
        const uint64_t n =
            i + 1 < npieces ? TERP_CHECKSUM_PIECE_NBYTES : nbytes - at;
        sum_blocks<NTHREADS>(input + at, n, s->secret, s->sums[turn % 2]);
        __syncthreads();
        if (warp == turn % (NTHREADS / 32))
            sum += terp_checksum_share(
                hash_of_sums(s->sums[turn % 2], n, s->secret), i);
    }
    if (npieces <= nblocks) /* there was one turn at most */
        return sum;
    if (threadIdx.x % 32 == 0)
        s->of_warp[warp] = sum;
    __syncthreads();
    return warp_sum(threadIdx.x < NTHREADS / 32 ? s->of_warp[threadIdx.x]
                                                : UINT64_C(0));
}

/* Returns the checksum of a stream in all threads of the first warp of the
 * block that ends last, and false in all other threads. Grid: x blocks of a
 * stream, y chunks; a block takes a piece at a time. */
template <unsigned NTHREADS>
static __device__ bool
checksum(struct cuda_chunk &chunk, const uint8_t *stream,
         uint64_t stream_nbytes, uint64_t *hash_ret)
{
    __shared__ struct checksum_shared s;
    const uint64_t nbytes = stream_nbytes - TERP_FRAME_DIMS_AT;
    const unsigned nactive =
        (unsigned)min_u64(gridDim.x, terp_checksum_npieces(nbytes));

    if (blockIdx.x >= nactive)
        return false;
    xxh3_make_secret(load_le(stream, TERP_FRAME_CHECKSUM_AT), s.secret);
    __syncthreads();
    *hash_ret = sum_pieces<NTHREADS>(stream + TERP_FRAME_DIMS_AT, nbytes,
                                     blockIdx.x, nactive, &s);
    if (nactive > 1) {
        if (threadIdx.x == 0)
            atomicAdd(&chunk.checksum, (unsigned long long)*hash_ret);
        if (!is_last_block(&chunk.progress[CUDA_PROGRESS_CHECKSUM], nactive))
            return false;
        *hash_ret = *(volatile unsigned long long *)&chunk.checksum;
    }
    return threadIdx.x < 32;
}

/* Writes the checksum into a chunk's stream, unless there is no stream or the
 * host seals it, since it is short. */
template <unsigned NTHREADS>
static __device__ __forceinline__ void
seal_stream(struct cuda_chunk &chunk)
{
    uint8_t *stream = (uint8_t *)chunk.dst;
    const uint64_t nbytes = chunk.stream_nbytes;
    uint64_t hash;

    if ((chunk.status != TERP_OK) | (nbytes <= CUDA_SHORT_NBYTES))
        return;
    if (checksum<NTHREADS>(chunk, stream, nbytes, &hash) && threadIdx.x == 0)
        store_le(stream + TERP_FRAME_CHECKSUM_AT, hash, 8);
}

#endif
