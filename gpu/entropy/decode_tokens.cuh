/* Decodes tiles of tokens (codec/format/tokens.h) in batches of many tiles: a
 * block of few threads decodes each tile. Tokens synchronize themselves as
 * codewords do (gpu/entropy/decode_codewords.cuh): a codeword alone tells where
 * the next token begins, and the bits of its run tell how many symbols a token
 * stands for. */
#pragma once

#include "gpu/entropy/decode_bits.cuh"
#include "gpu/entropy/token_decode_table.cuh"

/* Words for a tile's bytes, as in TILE_BITS_NWORDS. A valid tile does not need
 * the last word. */
#define TILE_TOKENS_NWORDS (TERP_TOKENS_MAX_NBYTES / 4 + 3)

/* The number of ones at the end of a tile's last byte, at most seven: padding.
 * If some of these bits belong to the last token, the token still begins before
 * them: no token is so short. */
static __device__ __forceinline__ unsigned
padding_nbits(unsigned last_byte)
{
    return min(7u, (unsigned)__ffs((int)~last_byte) - 1);
}

/* ---- tokens ---- */

/* The table's entry for the token that `next` begins with. */
static __device__ __forceinline__ unsigned
find_token(const uint16_t *s_token, unsigned short_end, uint32_t next)
{
    const unsigned bits15 = next >> (32 - TERP_MAX_CODE_NBITS);
    return s_token[token_place(short_end, bits15)];
}

/* The first `nbits` bits of `next`, at most 31. */
static __device__ __forceinline__ unsigned
first_bits(uint32_t next, unsigned nbits)
{
    return next >> 1 >> (31 - nbits);
}

/* The run of zeros of the token that `next` begins with. */
static __device__ __forceinline__ unsigned
run_of(unsigned token, uint32_t next)
{
    const unsigned nbits = CUDA_TOKEN_RUN_NBITS(token);
    return (CUDA_TOKEN_RUN(token) << nbits) +
           first_bits(next << CUDA_TOKEN_CODEWORD_NBITS(token), nbits);
}

/* Counts the symbols of the tokens that begin in bits [at, end). Returns where
 * the next token begins. */
static __device__ __forceinline__ unsigned
count_tokens(const uint32_t *s_bits, const uint16_t *s_token,
             unsigned short_end, unsigned at, unsigned end,
             unsigned *nsymbols_ret)
{
    unsigned nsymbols = 0;

#pragma unroll 1
    while (at < end) {
        const uint32_t next = bits_at(s_bits, at);
        const unsigned token = find_token(s_token, short_end, next);
        nsymbols += run_of(token, next) + 1;
        at += CUDA_TOKEN_CODEWORD_NBITS(token) + token_plain_nbits(token);
    }
    *nsymbols_ret = nsymbols;
    return at;
}

/* Writes the codes of the tokens that begin in bits [at, end); symbol `i` of
 * the tile is the first of theirs. s_symbols already holds code 0 everywhere.
 * False: a magnitude exceeds TERP_MAX_CODE. */
static __device__ __forceinline__ bool
write_tokens(const uint32_t *s_bits, const uint16_t *s_token,
             unsigned short_end, unsigned at, unsigned end, unsigned i,
             uint16_t *s_symbols)
{
    bool valid = true;

#pragma unroll 1
    while (at < end) {
        const uint32_t next = bits_at(s_bits, at);
        const unsigned token = find_token(s_token, short_end, next);
        const unsigned kind = CUDA_TOKEN_CODE_NBITS(token);
        unsigned symbol = TERP_ESCAPE;
        i += run_of(token, next);
        at += CUDA_TOKEN_CODEWORD_NBITS(token) + CUDA_TOKEN_RUN_NBITS(token);
        if (kind > 0) {
            const uint32_t code = bits_at(s_bits, at);
            const unsigned nbits = kind > 1 ? kind : 0;
            const unsigned magnitude = 1 + (CUDA_TOKEN_CODE(token) << nbits) +
                                       first_bits(code << 1, nbits);
            valid &= magnitude <= TERP_MAX_CODE;
            symbol = TERP_RADIUS + (code >> 31 ? 0 - magnitude : magnitude);
            at += 1 + nbits;
        }
        s_symbols[i++] = (uint16_t)symbol;
    }
    return valid;
}

/* ---- symbols ---- */

/* A tile's symbols in shared memory, from which they are stored in units. */
union tile_symbols {
    uint16_t at[TERP_TILE_NSYMBOLS];
    uint4 unit[TERP_TILE_NSYMBOLS / DECODE_UNIT_NSYMBOLS];
};

template <unsigned NTHREADS>
static __device__ __forceinline__ void
clear_symbols(union tile_symbols &s_symbols)
{
#pragma unroll 1
    for (unsigned i = threadIdx.x;
         i < TERP_TILE_NSYMBOLS / DECODE_UNIT_NSYMBOLS; i += NTHREADS)
        s_symbols.unit[i] = eight_zero_codes();
}

/* Stores the symbols, without counting escapes: the symbols are in context
 * order, and cuda_context_restore counts escapes in tile order. */
template <unsigned NTHREADS>
static __device__ __forceinline__ void
store_symbols(const union tile_symbols &s_symbols, uint16_t *symbols,
              unsigned nsymbols)
{
#pragma unroll 1
    for (unsigned i = threadIdx.x; i * DECODE_UNIT_NSYMBOLS < nsymbols;
         i += NTHREADS)
        ((uint4 *)symbols)[i] = s_symbols.unit[i];
}

/* ---- a tile ---- */

template <unsigned NTHREADS> struct tokens_shared {
    uint32_t bits[TILE_TOKENS_NWORDS];
    __align__(16) uint16_t token[CUDA_TOKEN_NPLACES];
    union tile_symbols symbols;
    uint32_t stop[NTHREADS];
};

/* Decodes a tile; each thread has a subsequence of its bits. NTHREADS is the
 * block's size, a multiple of 32. With `stage` copies
 * the table to s.token first, else it is there from the tile before. False: the
 * tile is not valid. All threads of a block call it; barriers separate staging,
 * rounds, writing and storing. */
template <unsigned NTHREADS>
static __device__ bool
decode_tokens(tokens_shared<NTHREADS> &s,
              block_scan<unsigned, NTHREADS> &s_scan,
              const struct cuda_token_decode_table *table, bool stage,
              const uint8_t *src, unsigned nbytes, uint16_t *symbols,
              unsigned nsymbols)
{
    const unsigned last_byte = src[nbytes - 1], short_end = table->end;
    const struct tile_bits bits = stage_bits<NTHREADS>(s.bits, src, nbytes);
    const unsigned tile_end = bits.end - padding_nbits(last_byte);
    const unsigned subsequence_nbits =
        max(64u, (8 * nbytes + NTHREADS - 1) / NTHREADS);
    unsigned begin =
        min(tile_end, bits.begin + threadIdx.x * subsequence_nbits);
    const unsigned end = min(tile_end, begin + subsequence_nbits);
    const bool is_idle = begin == end, is_last = !is_idle && end == tile_end;
    unsigned n, first, nall;

    if (stage)
#pragma unroll 1
        for (unsigned i = threadIdx.x; i < sizeof s.token / 16; i += NTHREADS)
            ((uint4 *)s.token)[i] = ((const uint4 *)table->token)[i];
    clear_symbols<NTHREADS>(s.symbols);
    __syncthreads();
    begin = synchronize_subsequences(
        s.stop, bits.begin, begin, is_idle, [&](unsigned at) {
            return count_tokens(s.bits, s.token, short_end, at, end, &n);
        });
    first = scan_block(s_scan, n, &nall);
    bool valid =
        nall <= nsymbols && (!is_last || s.stop[threadIdx.x] <= bits.end);
    if (nall <= nsymbols)
        valid &= write_tokens(s.bits, s.token, short_end, begin, end, first,
                              s.symbols.at);
    valid = !__syncthreads_or(!valid);
    store_symbols<NTHREADS>(s.symbols, symbols, nsymbols);
    return valid;
}
