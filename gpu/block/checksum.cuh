/* The checksum of a stream, by one block of threads or by a grid of blocks. */
#ifndef TERP_GPU_BLOCK_CHECKSUM_CUH
#define TERP_GPU_BLOCK_CHECKSUM_CUH

#include "codec/format/bytes.h"
#include "gpu/block/xxh3.cuh"
#include "gpu/engine/state.cuh"

/* The least blocks of XXH3 for a warp to sum up. So a short stream has only one
 * block of threads, which need not wait for others. */
#define CHECKSUM_WARP_NBLOCKS 2

static_assert(CUDA_SHORT_NBYTES - TERP_FRAME_DIMS_AT + 1 >= XXH3_MIN_NBYTES,
              "XXH3 hashes shorter inputs in another way.");

static __device__ __forceinline__ uint2
halves_of(uint64_t word)
{
    return make_uint2((uint32_t)word, (uint32_t)(word >> 32));
}

/* A warp chains the sums of blocks: each is added to the scrambled
 * accumulators. `sums` has eight words for each of nblocks + 1 blocks; those of
 * NAHEAD blocks are loaded before they are needed. */
template <unsigned NAHEAD>
static __device__ uint64_t
chain_sums(const uint2 *sums, uint64_t nblocks, const uint64_t *secret)
{
    const unsigned i = threadIdx.x % XXH3_NLANES;
    const uint2 key = halves_of(secret[XXH3_SCRAMBLE_AT / 8 + i]);
    const uint2 none = make_uint2(0, 0), first = sums[i];
    uint2 value =
        halves_of(xxh3_first(secret) + ((uint64_t)first.y << 32 | first.x));
    uint2 ahead[NAHEAD], now[NAHEAD];
    uint64_t b = 1;

    sums += i;
#pragma unroll
    for (unsigned k = 0; k < NAHEAD; k++)
        ahead[k] = b + k <= nblocks ? sums[(b + k) * XXH3_NLANES] : none;
    for (; b + NAHEAD - 1 <= nblocks; b += NAHEAD) {
#pragma unroll
        for (unsigned k = 0; k < NAHEAD; k++) {
            uint64_t next = b + NAHEAD + k;
            now[k] = ahead[k];
            ahead[k] = next <= nblocks ? sums[next * XXH3_NLANES] : none;
        }
#pragma unroll
        for (unsigned k = 0; k < NAHEAD; k++)
            value = xxh3_scramble_add(value, key, now[k]);
    }
#pragma unroll
    for (unsigned k = 0; k < NAHEAD; k++)
        if (b + k <= nblocks)
            value = xxh3_scramble_add(value, key, ahead[k]);
    return (uint64_t)value.y << 32 | value.x;
}

/* What the last stripe adds, which ends where the input ends. */
static __device__ __forceinline__ uint64_t
sum_last_stripe(const uint8_t *end, const uint64_t *secret)
{
    unsigned i = threadIdx.x % XXH3_NLANES;
    uint64_t word = xxh3_load(end - XXH3_STRIPE_NBYTES + 8 * i);

    return xxh3_product(word, xxh3_key(secret, XXH3_LAST_STRIPE_AT + 8 * i)) +
           __shfl_xor_sync(FULL_WARP_MASK, word, 1);
}

/* A warp sums up blocks of XXH3, every `step`-th from block `first` on, each to
 * eight words of `sums`. `secret` is in shared memory. */
static __device__ __forceinline__ void
sum_blocks(const uint8_t *input, uint64_t nbytes, const uint64_t *secret,
           uint64_t first, uint64_t step, uint64_t *sums)
{
    const uint64_t nblocks = xxh3_nblocks(nbytes);
    uint64_t key[XXH3_BLOCK_NSTRIPES / 4];

    xxh3_stripe_keys(secret, key);
#pragma unroll 1
    for (uint64_t b = first; b <= nblocks; b += step) {
        uint64_t at = b * XXH3_BLOCK_NBYTES;
        unsigned nstripes =
            b < nblocks ? XXH3_BLOCK_NSTRIPES
                        : (unsigned)((nbytes - 1 - at) / XXH3_STRIPE_NBYTES);
        uint64_t sum = xxh3_sum_stripes(input + at, nstripes, key);
        if (b == nblocks)
            sum += sum_last_stripe(input + nbytes, secret);
        if (threadIdx.x % 32 < XXH3_NLANES)
            sums[b * XXH3_NLANES + threadIdx.x % 32] = sum;
    }
}

/* A warp finds the hash of an input from the sums of its blocks. */
template <unsigned NAHEAD>
static __device__ __forceinline__ uint64_t
hash_of_sums(const uint64_t *sums, uint64_t nbytes, const uint64_t *secret)
{
    return xxh3_end(
        chain_sums<NAHEAD>((const uint2 *)sums, xxh3_nblocks(nbytes), secret),
        secret, nbytes);
}

/* Returns the checksum of a stream in all threads of the first warp of the
 * block that ends last, and false in all other threads. Grid: x blocks of a
 * stream, y chunks. A warp sums up a block of XXH3 at a time. */
template <unsigned NTHREADS, unsigned NAHEAD>
static __device__ bool
checksum(struct cuda_chunk &chunk, const uint8_t *stream,
         uint64_t stream_nbytes, uint64_t *sums, uint64_t *hash_ret)
{
    constexpr unsigned NWARPS = NTHREADS / 32;
    __shared__ uint64_t s_secret[XXH3_TABLE_NWORDS];
    uint64_t nbytes = stream_nbytes - TERP_FRAME_DIMS_AT;
    unsigned nactive =
        (unsigned)min_u64(gridDim.x, div_up(xxh3_nblocks(nbytes) + 1,
                                            NWARPS * CHECKSUM_WARP_NBLOCKS));

    if (blockIdx.x >= nactive)
        return false;
    xxh3_make_secret(load_le(stream, TERP_FRAME_CHECKSUM_AT), s_secret);
    __syncthreads();
    sum_blocks(stream + TERP_FRAME_DIMS_AT, nbytes, s_secret,
               (uint64_t)blockIdx.x * NWARPS + threadIdx.x / 32,
               (uint64_t)nactive * NWARPS, sums);
    if (nactive == 1)
        __syncthreads();
    else if (!is_last_block(&chunk.progress[CUDA_PROGRESS_CHECKSUM], nactive))
        return false;
    if (threadIdx.x >= 32)
        return false;
    *hash_ret = hash_of_sums<NAHEAD>(sums, nbytes, s_secret);
    return true;
}

/* Writes the checksum into a chunk's stream, unless there is no stream or the
 * host seals it, since it is short. `sums`: eight words for each 1024 bytes of
 * the stream, and eight more. */
template <unsigned NTHREADS, unsigned NAHEAD>
static __device__ __forceinline__ void
seal_stream(struct cuda_chunk &chunk, uint64_t *sums)
{
    uint8_t *stream = (uint8_t *)chunk.dst;
    const uint64_t nbytes = chunk.stream_nbytes;
    uint64_t hash;

    if ((chunk.status != TERP_OK) | (nbytes <= CUDA_SHORT_NBYTES))
        return;
    if (checksum<NTHREADS, NAHEAD>(chunk, stream, nbytes, sums, &hash) &&
        threadIdx.x == 0)
        store_le(stream + TERP_FRAME_CHECKSUM_AT, hash, 8);
}

#endif
