/* A tile's tokens (tokens.h) to symbols, by a block of many threads
 * where there are few tiles: by maps of stretches, as for words
 * (gpu/entropy/decode_small_batch.cuh). */
#ifndef TERP_GPU_ENTROPY_DECODE_TOKENS_SMALL_BATCH_CUH
#define TERP_GPU_ENTROPY_DECODE_TOKENS_SMALL_BATCH_CUH

#include "gpu/entropy/decode_small_batch.cuh"
#include "gpu/entropy/decode_tokens.cuh"

/* A map has a byte for each of the first bits of a stretch: if a token begins
 * there, how far behind the stretch the first token behind it begins. This is
 * less than a token's bits. Rows of so many bytes are in different banks. */
#define MAP_NBITS 36
#define TOKEN_MAX_NBITS (TERP_MAX_CODE_NBITS + TERP_TOKEN_PLAIN_MAX_NBITS)
#define MAP_BATCH 6
static_assert(MAP_NBITS >= TOKEN_MAX_NBITS && MAP_NBITS / 4 % 2 == 1 &&
                  MAP_NBITS % MAP_BATCH == 0,
              "a stretch has all bits that a token may end at");
#define MAPS_NGROUPS (FEW_TILES_NTHREADS / 32)

struct few_tokens_shared {
    uint32_t bits[TOKENS_NWORDS];
    struct cuda_token_decode_table book;
    union {
        uint8_t map[FEW_TILES_NTHREADS][MAP_NBITS];
        uint32_t map_words[FEW_TILES_NTHREADS][MAP_NBITS / 4];
        union tile_symbols symbols;
    };
    uint8_t group[MAPS_NGROUPS][MAP_NBITS]; /* maps of warps' stretches */
};

/* Until wait_async. */
static __device__ __forceinline__ void
stage_token_book(struct few_tokens_shared &s,
                 const struct cuda_token_decode_table *book)
{
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < sizeof s.book / 16;
         i += FEW_TILES_NTHREADS)
        copy_async((uint4 *)&s.book + i, (const uint4 *)book + i);
}

/* The map of the thread's stretch of n times MAP_NBITS bits. From the last bit
 * to the first; what is known of the bits behind a bit is the map so far. */
static __device__ __forceinline__ void
make_token_map(struct few_tokens_shared &s, unsigned at, unsigned n)
{
    uint8_t *map = s.map[threadIdx.x];

#pragma unroll
    for (unsigned i = 0; i < MAP_NBITS / 4; i++)
        s.map_words[threadIdx.x][i] = 0x03020100 + 0x04040404 * i;
#pragma unroll 1
    while (n-- > 0) {
        const unsigned begin = at + n * MAP_NBITS;
        uint64_t bits = (uint64_t)bits_at(s.bits, begin) << 32 |
                        bits_at(s.bits, begin + 32);
        bits >>= 64 - (MAP_NBITS - 1) - TERP_MAX_CODE_NBITS;
#pragma unroll 1
        for (unsigned end = MAP_NBITS; end > 0; end -= MAP_BATCH) {
            unsigned to[MAP_BATCH];
#pragma unroll
            for (unsigned k = 0; k < MAP_BATCH; k++, bits >>= 1) {
                const unsigned bits15 =
                    (unsigned)bits & ((1u << TERP_MAX_CODE_NBITS) - 1);
                to[k] = s.book.nbits[token_place(s.book.end, bits15)];
            }
#pragma unroll
            for (unsigned k = 0; k < MAP_BATCH; k++) {
                const unsigned i = end - 1 - k, next = i + to[k];
                map[i] = map[next < MAP_NBITS ? next : next - MAP_NBITS];
            }
        }
    }
}

/* Behind which bit of the thread's stretch its first token begins, when the
 * tile's begins with the first one. The first `nmaps` stretches have maps. A
 * warp turns its maps into those from its first stretch on; lanes have
 * entries. */
static __device__ __forceinline__ unsigned
find_token_entry(struct few_tokens_shared &s, unsigned nmaps)
{
    const unsigned lane = threadIdx.x % 32, group = threadIdx.x / 32;
    const unsigned begin = 32 * group, end = min(begin + 32, nmaps);
    unsigned at = lane, beyond = 32;

    static_assert(TOKEN_MAX_NBITS == 32 + 1, "a lane an entry, and one more");
    __syncwarp();
#pragma unroll 1
    for (unsigned k = begin; k < end; k++) {
        at = s.map[k][at];
        beyond = s.map[k][beyond];
        __syncwarp();
        s.map[k][lane] = (uint8_t)at;
        if (lane == 0)
            s.map[k][32] = (uint8_t)beyond;
    }
    s.group[group][lane] = (uint8_t)at;
    if (lane == 0)
        s.group[group][32] = (uint8_t)beyond;
    __syncthreads();
    at = 0;
#pragma unroll 1
    for (unsigned g = 0; g < group; g++)
        at = s.group[g][at];
    return lane > 0 ? s.map[threadIdx.x - 1][at] : at;
}

/* Bits and book are there when all threads come here. */
static __device__ __forceinline__ bool
decode_few_tokens(struct few_tokens_shared &s,
                  tile_scan<FEW_TILES_NTHREADS> &s_scan,
                  const struct tile_bits &bits, uint16_t *symbols,
                  unsigned nsymbols)
{
    __syncthreads();
    const unsigned last_byte = bits_at(s.bits, bits.end - 8) >> 24;
    const unsigned tile_end = bits.end - padding_nbits(last_byte);
    const unsigned nbits = tile_end - bits.begin;
    const unsigned share = (nbits - 1) / (MAP_NBITS * FEW_TILES_NTHREADS) + 1;
    const unsigned stretch = share * MAP_NBITS;
    const unsigned last = (nbits - 1) / stretch; /* stretch */
    const unsigned begin = bits.begin + threadIdx.x * stretch;
    const unsigned end = min(begin + stretch, tile_end);
    unsigned n = 0, first, nall;
    bool valid = true;

    if (threadIdx.x < last)
        make_token_map(s, begin, share);
    const unsigned at = begin + find_token_entry(s, last);
    if (threadIdx.x <= last) {
        const unsigned stop =
            pass_tokens(s.bits, s.book.token, s.book.end, at, end, &n);
        valid = threadIdx.x < last || stop <= bits.end;
    }
    block_sum<FEW_TILES_NTHREADS>(s_scan).ExclusiveSum(n, first, nall);
    /* All have come from the maps. */
    clear_symbols<FEW_TILES_NTHREADS>(s.symbols);
    __syncthreads();
    valid &= nall <= nsymbols;
    if (threadIdx.x <= last && nall <= nsymbols)
        valid &= write_tokens(s.bits, s.book.token, s.book.end, at, end, first,
                              s.symbols.at);
    valid = !__syncthreads_or(!valid);
    store_symbols<FEW_TILES_NTHREADS>(s.symbols, symbols, nsymbols);
    return valid;
}

#endif
