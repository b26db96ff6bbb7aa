/* Decodes tiles of tokens (codec/format/tokens.h) in batches of few tiles: a
 * block of many threads decodes each tile, by transition tables of subsequences
 * as for codewords (gpu/entropy/decode_small_batch.cuh). */
#pragma once

#include "gpu/entropy/decode_small_batch.cuh"
#include "gpu/entropy/decode_tokens.cuh"

/* A transition table has a byte for each of the first bits of a subsequence:
 * the offset, from the subsequence's end, of the first token behind it, if a
 * token begins at that bit. The offset is less than the bits of a token, 33, so
 * a table needs 33 bytes. It has 36: nine words, an odd number, so that the
 * tables of different threads begin in different banks. Entries are made in
 * groups of TRANSITIONS_BATCH, whose look-ups are loaded at once. */
#define TRANSITIONS_NBITS 36
#define TOKEN_MAX_NBITS (TERP_MAX_CODE_NBITS + TERP_TOKEN_PLAIN_MAX_NBITS)
#define TRANSITIONS_BATCH 6
static_assert(TRANSITIONS_NBITS >= TOKEN_MAX_NBITS &&
                  TRANSITIONS_NBITS / 4 % 2 == 1 &&
                  TRANSITIONS_NBITS % TRANSITIONS_BATCH == 0,
              "A table must have an entry for each bit of a token.");
#define TRANSITIONS_NGROUPS (SMALL_BATCH_NTHREADS / 32)

struct small_batch_tokens {
    uint32_t bits[TILE_TOKENS_NWORDS];
    struct cuda_token_decode_table table;
    union {
        uint8_t transitions[SMALL_BATCH_NTHREADS][TRANSITIONS_NBITS];
        uint32_t transition_words[SMALL_BATCH_NTHREADS][TRANSITIONS_NBITS / 4];
        union tile_symbols symbols;
    };
    uint8_t group[TRANSITIONS_NGROUPS]
                 [TRANSITIONS_NBITS]; /* tables of warps' subsequences */
};

/* Starts to copy the table. The copy is complete after wait_async. */
static __device__ __forceinline__ void
stage_token_table(struct small_batch_tokens &s,
                  const struct cuda_token_decode_table *table)
{
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < sizeof s.table / 16;
         i += SMALL_BATCH_NTHREADS)
        copy_async((uint4 *)&s.table + i, (const uint4 *)table + i);
}

/* Makes the transition table of the thread's subsequence of n *
 * TRANSITIONS_NBITS bits from bit `at` on, from the last bit to the first: at
 * each bit, the entries made so far are the table of the bits behind it. */
static __device__ __forceinline__ void
make_token_transitions(struct small_batch_tokens &s, unsigned at, unsigned n)
{
    uint8_t *transitions = s.transitions[threadIdx.x];

#pragma unroll
    for (unsigned i = 0; i < TRANSITIONS_NBITS / 4; i++)
        s.transition_words[threadIdx.x][i] = 0x03020100 + 0x04040404 * i;
#pragma unroll 1
    while (n-- > 0) {
        const unsigned begin = at + n * TRANSITIONS_NBITS;
        uint64_t bits = (uint64_t)bits_at(s.bits, begin) << 32 |
                        bits_at(s.bits, begin + 32);
        bits >>= 64 - (TRANSITIONS_NBITS - 1) - TERP_MAX_CODE_NBITS;
#pragma unroll 1
        for (unsigned end = TRANSITIONS_NBITS; end > 0;
             end -= TRANSITIONS_BATCH) {
            unsigned to[TRANSITIONS_BATCH];
#pragma unroll
            for (unsigned k = 0; k < TRANSITIONS_BATCH; k++, bits >>= 1) {
                const unsigned bits15 =
                    (unsigned)bits & ((1u << TERP_MAX_CODE_NBITS) - 1);
                to[k] = s.table.nbits[token_place(s.table.end, bits15)];
            }
#pragma unroll
            for (unsigned k = 0; k < TRANSITIONS_BATCH; k++) {
                const unsigned i = end - 1 - k, next = i + to[k];
                transitions[i] = transitions[next < TRANSITIONS_NBITS
                                                 ? next
                                                 : next - TRANSITIONS_NBITS];
            }
        }
    }
}

/* The offset of the first token in the thread's subsequence; the tile's first
 * token begins with its first bit. The first `ntables` subsequences have
 * tables. Each warp replaces the table of each of its 32 subsequences by the
 * table from the warp's first subsequence to that one; lane i follows entry i,
 * and lane 0 also entry 32. One barrier, between the tables of warps and their
 * use. */
static __device__ __forceinline__ unsigned
find_token_entry(struct small_batch_tokens &s, unsigned ntables)
{
    const unsigned lane = threadIdx.x % 32, group = threadIdx.x / 32;
    const unsigned begin = 32 * group, end = min(begin + 32, ntables);
    unsigned at = lane, beyond = 32;

    static_assert(TOKEN_MAX_NBITS == 32 + 1,
                  "Each lane has an entry, and one lane has two.");
    __syncwarp();
#pragma unroll 1
    for (unsigned k = begin; k < end; k++) {
        at = s.transitions[k][at];
        beyond = s.transitions[k][beyond];
        __syncwarp();
        s.transitions[k][lane] = (uint8_t)at;
        if (lane == 0)
            s.transitions[k][32] = (uint8_t)beyond;
    }
    s.group[group][lane] = (uint8_t)at;
    if (lane == 0)
        s.group[group][32] = (uint8_t)beyond;
    __syncthreads();
    at = 0;
#pragma unroll 1
    for (unsigned g = 0; g < group; g++)
        at = s.group[g][at];
    return lane > 0 ? s.transitions[threadIdx.x - 1][at] : at;
}

/* Decodes a tile. All threads of a block call it when the tile's bits and the
 * table are in shared memory. False: the tile is not valid. */
static __device__ __forceinline__ bool
decode_small_batch_tokens(struct small_batch_tokens &s,
                          block_scan<unsigned, SMALL_BATCH_NTHREADS> &s_scan,
                          const struct tile_bits &bits, uint16_t *symbols,
                          unsigned nsymbols)
{
    __syncthreads();
    const unsigned last_byte = bits_at(s.bits, bits.end - 8) >> 24;
    const unsigned tile_end = bits.end - padding_nbits(last_byte);
    const unsigned nbits = tile_end - bits.begin;
    const unsigned share =
        (nbits - 1) / (TRANSITIONS_NBITS * SMALL_BATCH_NTHREADS) + 1;
    const unsigned subsequence = share * TRANSITIONS_NBITS;
    const unsigned last = (nbits - 1) / subsequence; /* the last subsequence */
    const unsigned begin = bits.begin + threadIdx.x * subsequence;
    const unsigned end = min(begin + subsequence, tile_end);
    unsigned n = 0, first, nall;
    bool valid = true;

    if (threadIdx.x < last)
        make_token_transitions(s, begin, share);
    const unsigned at = begin + find_token_entry(s, last);
    if (threadIdx.x <= last) {
        const unsigned stop =
            count_tokens(s.bits, s.table.token, s.table.end, at, end, &n);
        valid = threadIdx.x < last || stop <= bits.end;
    }
    first = scan_block(s_scan, n, &nall);
    /* Symbols overwrite the tables, which no thread reads after scan_block's
     * barrier. */
    clear_symbols<SMALL_BATCH_NTHREADS>(s.symbols);
    __syncthreads();
    valid &= nall <= nsymbols;
    if (threadIdx.x <= last && nall <= nsymbols)
        valid &= write_tokens(s.bits, s.table.token, s.table.end, at, end,
                              first, s.symbols.at);
    valid = !__syncthreads_or(!valid);
    store_symbols<SMALL_BATCH_NTHREADS>(s.symbols, symbols, nsymbols);
    return valid;
}
