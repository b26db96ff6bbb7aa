/* The checksum of a stream, by one block of threads or by a grid of blocks. */
#pragma once

#include "codec/format/bytes.h"
#include "codec/format/frame.h"
#include "gpu/block/warp.cuh"
#include "gpu/block/xxh3.cuh"
#include "gpu/engine/state.cuh"

static_assert(CUDA_SHORT_NBYTES - TERP_FRAME_DIMS_AT + 1 >= XXH3_MIN_NBYTES &&
                  TERP_CHECKSUM_PIECE_NBYTES >= XXH3_MIN_NBYTES,
              "XXH3 hashes shorter inputs in another way.");

/* Blocks of XXH3 that the last piece has at most, and warps that share a piece,
 * a block each of the others. */
#define PIECE_MAX_NBLOCKS (2 * TERP_CHECKSUM_PIECE_NBYTES / XXH3_BLOCK_NBYTES)
#define PIECE_NWARPS (PIECE_MAX_NBLOCKS / 2)

/* What a block of threads shares: the seed's secret; sums of the blocks of a
 * piece and of the next, for each of the pieces at once; and what each warp has
 * summed up. */
template <unsigned NTHREADS> struct checksum_shared {
    static constexpr unsigned NWARPS = NTHREADS / 32;
    static constexpr unsigned NAT_ONCE = NWARPS / PIECE_NWARPS;
    uint64_t secret[XXH3_TABLE_NWORDS];
    uint64_t sums[2][NAT_ONCE][PIECE_MAX_NBLOCKS][XXH3_NLANES];
    uint64_t of_warp[NWARPS];
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

    return xxh3_product(word, xxh3_key(s_secret, XXH3_LAST_STRIPE_AT + 8 * i)) +
           __shfl_xor_sync(FULL_WARP_MASK, word, 1);
}

/* The warps of a piece, so many, sum up its blocks. Its first block is taken
 * from `s_first` unless that is NULL; it does not end in it then. */
template <unsigned NWARPS>
static __device__ __forceinline__ void
sum_blocks(const uint8_t *piece, uint64_t nbytes, const uint64_t *s_secret,
           uint64_t (*s_sums)[XXH3_NLANES], const uint8_t *s_first = NULL)
{
    const unsigned nblocks = (unsigned)xxh3_nblocks(nbytes);
    uint64_t key[XXH3_BLOCK_NSTRIPES / 4];

    xxh3_stripe_keys(s_secret, key);
#pragma unroll 1
    for (unsigned b = threadIdx.x / 32 % NWARPS; b <= nblocks; b += NWARPS) {
        const unsigned at = b * XXH3_BLOCK_NBYTES;
        const unsigned nstripes =
            b < nblocks ? XXH3_BLOCK_NSTRIPES
                        : (unsigned)((nbytes - 1 - at) / XXH3_STRIPE_NBYTES);
        uint64_t sum = xxh3_sum_stripes(
            s_first != NULL && b == 0 ? s_first : piece + at, nstripes, key);
        if (b == nblocks)
            sum += sum_last_stripe(piece + nbytes, s_secret);
        if (threadIdx.x % 32 < XXH3_NLANES)
            s_sums[b][threadIdx.x % 32] = sum;
    }
}

/* Returns, in the first warp, what a block of threads adds to the checksum,
 * which is one of so many that share the pieces. The secret is in shared
 * memory. A piece's warps take turns chaining its sums, while the others sum up
 * the next. The first block of all is taken from `s_first` unless that is NULL.
 */
template <unsigned NTHREADS>
static __device__ __forceinline__ uint64_t
sum_pieces(const uint8_t *input, uint64_t nbytes, unsigned block,
           unsigned nblocks, struct checksum_shared<NTHREADS> *s,
           const uint8_t *s_first = NULL)
{
    constexpr unsigned NWARPS = checksum_shared<NTHREADS>::NWARPS;
    constexpr unsigned NAT_ONCE = checksum_shared<NTHREADS>::NAT_ONCE;
    const unsigned warp = threadIdx.x / 32, which = warp / PIECE_NWARPS;
    const uint64_t npieces = terp_checksum_npieces(nbytes);
    uint64_t sum = 0;
    unsigned turn = 0;

#pragma unroll 1
    for (uint64_t first = block * NAT_ONCE; first < npieces;
         first += nblocks * NAT_ONCE, turn++) {
        const uint64_t i = first + which;
        const uint64_t at = i * TERP_CHECKSUM_PIECE_NBYTES;
        const uint64_t n =
            i + 1 < npieces ? TERP_CHECKSUM_PIECE_NBYTES : nbytes - at;
        uint64_t(*sums)[XXH3_NLANES] = s->sums[turn % 2][which];
        if (i < npieces)
            sum_blocks<PIECE_NWARPS>(input + at, n, s->secret, sums,
                                     i == 0 ? s_first : NULL);
        __syncthreads();
        if (i < npieces && warp % PIECE_NWARPS == turn % PIECE_NWARPS)
            sum += terp_checksum_share(hash_of_sums(sums, n, s->secret), i);
    }
    if (npieces <= nblocks) /* the first warp alone has taken one */
        return sum;
    if (threadIdx.x % 32 == 0)
        s->of_warp[warp] = sum;
    __syncthreads();
    return warp_sum(threadIdx.x < NWARPS ? s->of_warp[threadIdx.x]
                                         : UINT64_C(0));
}

/* Adds up the checksums of a stream's prefixes, all at once: half as many warps
 * have a piece of one of them each, and chain its sums side by side. The sums
 * are zero before. Ends with a barrier. */
template <unsigned NTHREADS>
static __device__ __forceinline__ void
sum_prefixes(const uint8_t *stream,
             const struct terp_prefix s_prefix[TERP_NPREFIXES],
             struct checksum_shared<NTHREADS> *s,
             unsigned long long s_sum[TERP_NPREFIXES])
{
    constexpr unsigned NAT_ONCE = checksum_shared<NTHREADS>::NAT_ONCE;
    constexpr unsigned NWARPS = PIECE_NWARPS / 2;
    const unsigned warp = threadIdx.x / 32, group = warp / NWARPS;
    uint64_t(*sums)[XXH3_NLANES] = s->sums[group / NAT_ONCE][group % NAT_ONCE];

#pragma unroll 1
    for (uint64_t first = group;; first += 2 * NAT_ONCE) {
        uint64_t i = first, nbytes = 0, npieces = 0;
        unsigned k = 0;
#pragma unroll 1
        for (; k < TERP_NPREFIXES; k++, i -= npieces) {
            nbytes = s_prefix[k].nbytes - TERP_FRAME_DIMS_AT;
            npieces = terp_checksum_npieces(nbytes);
            if (i < npieces)
                break;
        }
        const bool is_there = k < TERP_NPREFIXES;
        const uint64_t at = i * TERP_CHECKSUM_PIECE_NBYTES;
        const uint64_t n =
            i + 1 < npieces ? TERP_CHECKSUM_PIECE_NBYTES : nbytes - at;
        if (is_there)
            sum_blocks<NWARPS>(stream + TERP_FRAME_DIMS_AT + at, n, s->secret,
                               sums);
        if (!__syncthreads_or(is_there))
            return;
        if (is_there && warp % NWARPS == 0) {
            const uint64_t hash = hash_of_sums(sums, n, s->secret);
            if (threadIdx.x % 32 == 0)
                atomicAdd(&s_sum[k],
                          (unsigned long long)terp_checksum_share(hash, i));
        }
        __syncthreads();
    }
}

/* Copies what is hashed first of a prefix, but a table of prefixes that ends
 * `table_end` bytes behind its begin as zeros. */
template <unsigned NTHREADS>
static __device__ __forceinline__ void
copy_without_table(const uint8_t *input, uint64_t nbytes, uint64_t table_end,
                   uint8_t s_first[XXH3_BLOCK_NBYTES])
{
    const unsigned n = (unsigned)min_u64(nbytes, XXH3_BLOCK_NBYTES);

    static_assert(TERP_PREFIX_MIN_NBYTES - TERP_FRAME_DIMS_AT -
                          XXH3_STRIPE_NBYTES >=
                      TERP_FRAME_MAX_NBYTES - TERP_FRAME_DIMS_AT,
                  "The last stripe begins behind the table.");
    for (unsigned i = threadIdx.x; i < n; i += NTHREADS)
        s_first[i] = i >= table_end - TERP_PREFIXES_NBYTES && i < table_end
                         ? 0
                         : input[i];
}

/* Returns the checksum of a stream in all threads of the first warp of the
 * block that ends last, and false in all other threads. `block` is one of so
 * many that share the stream; it takes a piece at a time. `sum` and `progress`
 * are theirs. A table of prefixes that begins at `table_at`, unless that is 0,
 * counts as zeros. */
template <unsigned NTHREADS, bool MAY_BE_PREFIX = false>
static __device__ bool
checksum(unsigned long long *sum, unsigned *progress, const uint8_t *stream,
         uint64_t stream_nbytes, unsigned block, unsigned nblocks,
         uint64_t *hash_ret, uint64_t table_at = 0)
{
    __shared__ struct checksum_shared<NTHREADS> s;
    __align__(8)
        __shared__ uint8_t s_first[MAY_BE_PREFIX ? XXH3_BLOCK_NBYTES : 1];
    const bool has_table = MAY_BE_PREFIX && table_at > 0;
    const uint64_t nbytes = stream_nbytes - TERP_FRAME_DIMS_AT;
    const unsigned nactive =
        (unsigned)min_u64(nblocks, terp_checksum_npieces(nbytes));

    if (block >= nactive)
        return false;
    xxh3_make_secret(load_le(stream, TERP_FRAME_CHECKSUM_AT), s.secret);
    if (has_table && block == 0)
        copy_without_table<NTHREADS>(
            stream + TERP_FRAME_DIMS_AT, nbytes,
            table_at + TERP_PREFIXES_NBYTES - TERP_FRAME_DIMS_AT, s_first);
    __syncthreads();
    *hash_ret = sum_pieces<NTHREADS>(stream + TERP_FRAME_DIMS_AT, nbytes, block,
                                     nactive, &s, has_table ? s_first : NULL);
    if (nactive > 1) {
        if (threadIdx.x == 0)
            atomicAdd(sum, (unsigned long long)*hash_ret);
        if (!is_last_block(progress, nactive))
            return false;
        *hash_ret = *(volatile unsigned long long *)sum;
    }
    return threadIdx.x < 32;
}

/* Writes the checksum into a chunk's stream, unless there is no stream or the
 * host seals it, since it is short. Grid: x blocks of a stream, y chunks. */
template <unsigned NTHREADS>
static __device__ __forceinline__ void
seal_stream(struct cuda_chunk &chunk)
{
    uint8_t *stream = (uint8_t *)chunk.dst;
    const uint64_t nbytes = chunk.stream_nbytes;
    uint64_t hash;

    if ((chunk.status != TERP_OK) | (nbytes <= CUDA_SHORT_NBYTES))
        return;
    if (checksum<NTHREADS>(&chunk.checksum,
                           &chunk.progress[CUDA_PROGRESS_CHECKSUM], stream,
                           nbytes, blockIdx.x, gridDim.x, &hash) &&
        threadIdx.x == 0)
        store_le(stream + TERP_FRAME_CHECKSUM_AT, hash, 8);
}
