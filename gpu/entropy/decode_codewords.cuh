/* Decodes tiles of codewords in batches of many tiles: a block of few threads
 * decodes each tile.
 *
 * Only the first codeword of a tile has a known place. But codewords
 * synchronize themselves: a decoder that starts at any bit soon meets the
 * beginning of a codeword (Weissenberger and Schmidt, "Massively parallel
 * Huffman decoding on GPUs", ICPP 2018). Each thread decodes a subsequence of
 * the tile's bits from a guess. It decodes again if the thread before it ended
 * elsewhere. The first thread's guess is right, so the second thread is right
 * after one round, and in the end all are (synchronize_subsequences). */
#pragma once

#include "gpu/entropy/decode_bits.cuh"

/* The place of symbol `i` in shared memory. Threads write runs of about 32
 * symbols at once; eight unused places behind every 64 symbols spread the runs
 * over the banks, and keep units of 16 bytes whole. */
static constexpr __host__ __device__ unsigned
spaced(unsigned i)
{
    return i + i / 64 * DECODE_UNIT_NSYMBOLS;
}

template <unsigned NTHREADS> struct codewords_shared {
    uint32_t bits[TILE_BITS_NWORDS];
    __align__(16) uint32_t low[CUDA_LOOKUP_NENTRIES];
    __align__(16) uint32_t high[CUDA_LOOKUP_NENTRIES];
    uint32_t end[TERP_MAX_CODE_NBITS + 1];
    /* 64 more than a tile: a burst may go on behind the last symbol. */
    union {
        uint16_t at[spaced(TERP_TILE_NSYMBOLS + 64)];
        uint4 unit[spaced(TERP_TILE_NSYMBOLS + 64) / DECODE_UNIT_NSYMBOLS];
    } symbols;
    uint32_t stop[NTHREADS];
};

/* The stop of a thread that met bits that are not a codeword, or a codeword
 * that leaves the tile. */
#define NO_CODEWORD UINT32_MAX

/* Bits of a codeword of more than CUDA_LOOKUP_NBITS; 0: not a codeword. */
template <unsigned NTHREADS>
static __device__ __forceinline__ unsigned
find_long_codeword(const codewords_shared<NTHREADS> &s, uint32_t next)
{
    return find_codeword_nbits(s.end, next >> (32 - TERP_MAX_CODE_NBITS),
                               CUDA_LOOKUP_NBITS);
}

/* Counts the codewords that begin in bits [at, end). Returns where the next
 * begins, or NO_CODEWORD. */
template <unsigned NTHREADS>
static __device__ __forceinline__ unsigned
count_codewords(const codewords_shared<NTHREADS> &s, unsigned at, unsigned end,
                unsigned tile_end, unsigned *ncodewords_ret)
{
    unsigned ncodewords = 0;

    while (at < end) {
        uint32_t next = bits_at(s.bits, at);
        uint32_t low = s.low[next >> (32 - CUDA_LOOKUP_NBITS)];
        unsigned length = CUDA_FOUND_NBITS(low), n = CUDA_FOUND_NCODEWORDS(low);
        if (length == 0) {
            length = find_long_codeword(s, next);
            if (length == 0) {
                at = NO_CODEWORD;
                break;
            }
            n = 1;
        } else if (CUDA_FOUND_IS_RUN(low)) {
            length = n = min((unsigned)__clz((int)next), end - at);
        } else if (at + length > end) {
            /* Only codewords up to the first that ends at `end` or behind. */
            unsigned ends = CUDA_FOUND_ENDS(low);
            unsigned behind = ends >> (end - at - 1) << (end - at - 1);
            unsigned last = behind & (0 - behind);
            length = (unsigned)__ffs((int)last);
            n = (unsigned)__popc(ends & (2 * last - 1));
        }
        at += length;
        ncodewords += n;
    }
    if (at > tile_end && at != NO_CODEWORD) {
        at = NO_CODEWORD;
        ncodewords--;
    }
    *ncodewords_ret = ncodewords;
    return at;
}

/* The number of bits up to the end of codeword `n` (from 1) of a burst. */
static __device__ __forceinline__ unsigned
end_of_codeword(unsigned ends, unsigned n)
{
#pragma unroll 1
    for (; n > 1; n--)
        ends &= ends - 1;
    return (unsigned)__ffs((int)ends);
}

/* Writes the symbols of the codewords that begin in bits [at, end), from symbol
 * `i` of the tile on. s.symbols already holds code 0 everywhere. A burst may
 * reach into the next thread's symbols, where both write the same values.
 * False: the tile's last codeword does not end in its last byte. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
write_codewords(codewords_shared<NTHREADS> &s,
                const struct cuda_decode_table *table, unsigned at,
                unsigned end, unsigned tile_end, unsigned i, unsigned nsymbols)
{
    bool valid = true;

    while (at < end && i < nsymbols) {
        uint32_t next = bits_at(s.bits, at);
        unsigned place = next >> (32 - CUDA_LOOKUP_NBITS);
        uint32_t low = s.low[place];
        unsigned length = CUDA_FOUND_NBITS(low), n = CUDA_FOUND_NCODEWORDS(low);
        unsigned ends = CUDA_FOUND_ENDS(low), others = CUDA_FOUND_OTHERS(low);
        if (CUDA_FOUND_IS_RUN(low)) {
            length = n = (unsigned)__clz((int)next);
            ends = UINT32_MAX;
        } else if (length == 0 || CUDA_FOUND_IS_WIDE(low)) {
            unsigned symbol = s.high[place];
            if (length == 0) {
                length = find_long_codeword(s, next);
                if (length == 0)
                    break; /* not reached: such codewords were not counted */
                symbol = symbol_of_codeword(
                    table, next >> (32 - TERP_MAX_CODE_NBITS), length);
                n = 1;
                ends = 1u << (length - 1);
            }
            s.symbols.at[spaced(i)] = (uint16_t)symbol;
        } else if (others != 0) {
            uint32_t codes = s.high[place];
#pragma unroll 1
            for (; others != 0; others &= others - 1, codes >>= 8) {
                unsigned to = i + (unsigned)__ffs((int)others) - 1;
                s.symbols.at[spaced(to)] =
                    (uint16_t)((int8_t)codes + TERP_RADIUS);
            }
        }
        if (i + n >= nsymbols)
            valid = tile_end - (at + end_of_codeword(ends, nsymbols - i)) < 8;
        at += length;
        i += n;
    }
    return valid;
}

/* Copies the look-up and the ends of a table to shared memory. */
template <unsigned NTHREADS>
static __device__ __forceinline__ void
stage_table(codewords_shared<NTHREADS> &s,
            const struct cuda_decode_table *table)
{
    const unsigned nunits = CUDA_LOOKUP_NENTRIES / 4;

    static_assert(2 * nunits % NTHREADS == 0,
                  "All threads must copy as many units.");
#pragma unroll
    for (unsigned k = 0; k < 2 * nunits; k += NTHREADS) {
        const unsigned i = k + threadIdx.x, at = i % nunits;
        const uint32_t *from = i < nunits ? table->low : table->high;
        uint32_t *to = i < nunits ? s.low : s.high;
        ((uint4 *)to)[at] = ((const uint4 *)from)[at];
    }
    if (threadIdx.x <= TERP_MAX_CODE_NBITS)
        s.end[threadIdx.x] = table->end[threadIdx.x];
}

/* Decodes a tile, and counts or lists its escapes; each thread has a
 * subsequence of its bits. NTHREADS is the block's size. With `stage` copies
 * the table to shared memory first, else it is there from the tile before.
 * False: the tile is not valid. All threads of a block call it; barriers
 * separate staging, rounds, writing and storing. */
template <unsigned NTHREADS>
static __device__ bool
decode_codewords(const struct cuda_batch &batch, struct cuda_chunk &chunk,
                 codewords_shared<NTHREADS> &s,
                 block_scan<unsigned, NTHREADS> &s_scan,
                 const struct cuda_decode_table *table, bool stage,
                 uint64_t tile, const uint8_t *src, unsigned nbytes,
                 uint16_t *symbols, unsigned nsymbols)
{
    const struct tile_bits bits = stage_bits<NTHREADS>(s.bits, src, nbytes);
    const unsigned subsequence_nbits =
        max(32u, (8 * nbytes + NTHREADS - 1) / NTHREADS);
    unsigned begin =
        min(bits.end, bits.begin + threadIdx.x * subsequence_nbits);
    const unsigned end = min(bits.end, begin + subsequence_nbits);
    const bool is_idle = begin == end;
    unsigned ncodewords, first, nall;
    bool valid;

    if (stage)
        stage_table(s, table);
#pragma unroll 1
    for (unsigned i = threadIdx.x;
         i < spaced(TERP_TILE_NSYMBOLS) / DECODE_UNIT_NSYMBOLS; i += NTHREADS)
        s.symbols.unit[i] = eight_zero_codes();
    __syncthreads();
    begin = synchronize_subsequences(
        s.stop, bits.begin, begin, is_idle, [&](unsigned at) {
            return count_codewords(s, at, end, bits.end, &ncodewords);
        });
    first = scan_block(s_scan, ncodewords, &nall);
    valid = nall >= nsymbols;
    if (valid)
        valid =
            write_codewords(s, table, begin, end, bits.end, first, nsymbols);
    valid = !__syncthreads_or(!valid);
#pragma unroll 1
    for (unsigned i = threadIdx.x; i * DECODE_UNIT_NSYMBOLS < nsymbols;
         i += NTHREADS) {
        uint4 unit =
            s.symbols
                .unit[spaced(i * DECODE_UNIT_NSYMBOLS) / DECODE_UNIT_NSYMBOLS];
        ((uint4 *)symbols)[i] = unit;
        unsigned escapes =
            find_escapes_of_two(unit.x) | find_escapes_of_two(unit.y) << 2 |
            find_escapes_of_two(unit.z) << 4 | find_escapes_of_two(unit.w) << 6;
        if (escapes != 0)
            note_escapes_of_tile(
                batch, chunk,
                tile * TERP_TILE_NSYMBOLS + DECODE_UNIT_NSYMBOLS * i, escapes);
    }
    return valid;
}
