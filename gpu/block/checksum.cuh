/* Computes the checksum of a stream with one block of threads or with several
 * blocks. */
#pragma once

#include "codec/format/bytes.h"
#include "codec/format/frame.h"
#include "gpu/block/warp.cuh"
#include "gpu/block/xxh3.cuh"
#include "gpu/engine/state.cuh"

static_assert(CUDA_SHORT_NBYTES - TERP_FRAME_DIMS_AT + 1 >= XXH3_MIN_NBYTES &&
                  TERP_CHECKSUM_PIECE_NBYTES >= XXH3_MIN_NBYTES,
              "XXH3 hashes shorter inputs in another way.");

/* The last piece of a stream is shorter than two pieces, so it has at most
 * PIECE_MAX_NBLOCKS blocks of XXH3. PIECE_NWARPS warps share a piece; in every
 * piece but the last, each warp has one block. */
#define PIECE_MAX_NBLOCKS (2 * TERP_CHECKSUM_PIECE_NBYTES / XXH3_BLOCK_NBYTES)
#define PIECE_NWARPS (PIECE_MAX_NBLOCKS / 2)

/* Shared memory of a block of NTHREADS threads, which hashes NAT_ONCE pieces at
 * a time. secret: the secret that follows from the seed. sums: the sums of the
 * XXH3 blocks of each piece; the first index alternates between the pieces that
 * the warps sum up and the pieces before them. of_warp: the share of the
 * checksum that each warp has added up. */
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

/* Hashes a piece whose blocks are already summed up. A warp calls it; lane i
 * works on accumulator i % XXH3_NLANES. The warp adds the sum of each block to
 * the accumulators and scrambles them between two blocks. Returns the hash of
 * the piece in all lanes. */
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

/* Returns the summand of the last stripe for accumulator lane % XXH3_NLANES.
 * The last stripe ends where the piece ends. */
static __device__ __forceinline__ uint64_t
sum_last_stripe(const uint8_t *end, const uint64_t *s_secret)
{
    unsigned i = threadIdx.x % XXH3_NLANES;
    uint64_t word = xxh3_load(end - XXH3_STRIPE_NBYTES + 8 * i);

    return xxh3_product(word, xxh3_key(s_secret, XXH3_LAST_STRIPE_AT + 8 * i)) +
           __shfl_xor_sync(FULL_WARP_MASK, word, 1);
}

/* NWARPS warps sum up the blocks of a piece; warp w has the blocks w, w +
 * NWARPS and so on. If `s_first` is not NULL, the first block is read from
 * there; the piece must then have more than one block. A barrier must follow
 * before other warps read `s_sums`. */
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

/* Adds up the checksum shares of the pieces that a block of threads hashes.
 * `block` is its number among the `nblocks` blocks of threads that share the
 * stream. The secret is in shared memory. In each turn one warp per piece
 * chains the sums, while the other warps already sum up the next pieces. The
 * first block of the stream is read from `s_first` if that is not NULL. Returns
 * the sum in the first warp; the result in other warps has no meaning. */
template <unsigned NTHREADS>
static __device__ __forceinline__ uint64_t
sum_pieces(const uint8_t *input, uint64_t nbytes, unsigned block,
           unsigned nblocks, checksum_shared<NTHREADS> *s,
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
    if (npieces <= nblocks) /* only the first warp has hashed a piece */
        return sum;
    if (threadIdx.x % 32 == 0)
        s->of_warp[warp] = sum;
    __syncthreads();
    return warp_sum(threadIdx.x < NWARPS ? s->of_warp[threadIdx.x]
                                         : UINT64_C(0));
}

/* Adds up the checksums of all prefixes of a stream. Half of PIECE_NWARPS warps
 * hash a piece of one prefix while other warps hash pieces of the same or
 * another prefix. `s_sum` must be zero before the call. Ends with a barrier. */
template <unsigned NTHREADS>
static __device__ __forceinline__ void
sum_prefixes(const uint8_t *stream,
             const struct terp_prefix s_prefix[TERP_NPREFIXES],
             checksum_shared<NTHREADS> *s,
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

/* Copies the first block of a prefix to shared memory. The table of prefixes,
 * which ends at byte `table_end`, is copied as zeros. A barrier must follow. */
template <unsigned NTHREADS>
static __device__ __forceinline__ void
copy_without_table(const uint8_t *input, uint64_t nbytes, uint64_t table_end,
                   uint8_t s_first[XXH3_BLOCK_NBYTES])
{
    const unsigned n = (unsigned)min_u64(nbytes, XXH3_BLOCK_NBYTES);

    static_assert(TERP_PREFIX_MIN_NBYTES - TERP_FRAME_DIMS_AT -
                          XXH3_STRIPE_NBYTES >=
                      TERP_FRAME_MAX_NBYTES - TERP_FRAME_DIMS_AT,
                  "The last stripe begins after the table.");
    for (unsigned i = threadIdx.x; i < n; i += NTHREADS)
        s_first[i] = i >= table_end - TERP_PREFIXES_NBYTES && i < table_end
                         ? 0
                         : input[i];
}

/* Computes the checksum of a stream. `block` is the number of this block of
 * threads among the `nblocks` blocks that share the stream; each block hashes a
 * piece at a time. `sum` and `progress` belong to the stream and must be zero
 * before. Returns true, and the checksum, in the first warp of the block that
 * finishes last; returns false in all other threads. If `table_at` is not 0, a
 * table of prefixes begins there and counts as zeros.
 *
 * MAY_BE_PREFIX: whether `table_at` may differ from 0. Without it no shared
 * memory is needed for the copy of the first block. */
template <unsigned NTHREADS, bool MAY_BE_PREFIX = false>
static __device__ bool
checksum(unsigned long long *sum, unsigned *progress, const uint8_t *stream,
         uint64_t stream_nbytes, unsigned block, unsigned nblocks,
         uint64_t *hash_ret, uint64_t table_at = 0)
{
    __shared__ checksum_shared<NTHREADS> s;
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

/* Writes the checksum into a chunk's stream. Does nothing if the chunk has no
 * stream, or if the stream is so short that the host writes the checksum. Grid:
 * x blocks per stream, y chunks. */
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
