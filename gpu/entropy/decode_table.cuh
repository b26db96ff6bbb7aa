/* What decodes a codebook on the device. The blocks of a large batch copy the
 * look-up to shared memory, and find longer codewords where the table is. Those
 * of a small batch copy the rest, by which any codeword is decoded. */
#pragma once

#include "codebooks/codebooks.h"
#include "gpu/engine/platform.cuh"

/* Bits that a look-up sees. They may hold a burst of codewords: any number of
 * code 0, and some of other codes of small magnitude. */
#define CUDA_LOOKUP_NBITS 10
#define CUDA_LOOKUP_NENTRIES (1 << CUDA_LOOKUP_NBITS)
#define CUDA_BURST_MAX_NOTHERS 4

/* What a look-up finds. The low word:
 *  0-3   bits of all codewords; 0: the first is longer, or there is none
 *  4-7   how many codewords
 *  8-17  a bit for each bit that is the last of a codeword, the first lowest
 *  18-27 a bit for each codeword, the first lowest: its code is not 0
 *  28    one codeword of any symbol, which the high word holds
 *  29    all bits are zeros, and each is a codeword of code 0: more may follow
 * The high word: else the codes that are not 0, signed bytes, first lowest. */
#define CUDA_FOUND_NBITS(low) ((low)&15)
#define CUDA_FOUND_NCODEWORDS(low) ((low) >> 4 & 15)
#define CUDA_FOUND_ENDS(low) ((low) >> 8 & (CUDA_LOOKUP_NENTRIES - 1))
#define CUDA_FOUND_OTHERS(low) ((low) >> 18 & (CUDA_LOOKUP_NENTRIES - 1))
#define CUDA_FOUND_IS_WIDE(low) (((low) >> 28 & 1) != 0)
#define CUDA_FOUND_IS_RUN(low) (((low) >> 29 & 1) != 0)

/* 10.3 KB. The halves of what is found are apart: counting codewords takes only
 * the low one, from all banks of shared memory. */
struct __align__(16) cuda_decode_table
{
    uint32_t low[CUDA_LOOKUP_NENTRIES];
    uint32_t high[CUDA_LOOKUP_NENTRIES];
    /* By length: codewords below end[l] (left-aligned to 15 bits) have up to l
     * bits; codeword w of l bits stands for sorted[base[l] + w]. */
    uint32_t end[TERP_MAX_CODE_NBITS + 1];
    int32_t base[TERP_MAX_CODE_NBITS + 1];
    uint16_t sorted[TERP_NSYMBOLS];
};

/* The end of a table, which is enough to decode single codewords. */
struct __align__(16) cuda_codeword_table
{
    uint32_t end[TERP_MAX_CODE_NBITS + 1];
    int32_t base[TERP_MAX_CODE_NBITS + 1];
    uint16_t sorted[TERP_NSYMBOLS];
};
static_assert(sizeof(struct cuda_codeword_table) ==
                  sizeof(struct cuda_decode_table) -
                      offsetof(struct cuda_decode_table, end),
              "The end of a table decodes single codewords.");

/* Bits of the codeword that `bits15` begins with, if it has more than
 * `shortest`. 0: there is none. */
static __host__ __device__ __forceinline__ unsigned
find_codeword_nbits(const uint32_t *end, unsigned bits15, unsigned shortest)
{
    unsigned length = shortest + 1;
    while (length <= TERP_MAX_CODE_NBITS && bits15 >= end[length])
        length++;
    return length <= TERP_MAX_CODE_NBITS ? length : 0;
}

template <typename Book>
static __host__ __device__ __forceinline__ unsigned
symbol_of_codeword(const Book *table, unsigned bits15, unsigned length)
{
    return table->sorted[table->base[length] +
                         (int)(bits15 >> (TERP_MAX_CODE_NBITS - length))];
}

/* Fills in `end` and `base` by the number of codewords of each length. False
 * when they overfill the code space, as terp_huffman_codewords finds. */
static __host__ __device__ inline bool
cuda_decode_table_fill_ends(const uint32_t ncodewords[TERP_MAX_CODE_NBITS + 1],
                            struct cuda_decode_table *table)
{
    uint32_t next = 0, nsorted = 0;

    table->end[0] = 0;
    table->base[0] = 0;
    for (unsigned length = 1; length <= TERP_MAX_CODE_NBITS; length++) {
        next <<= 1;
        table->base[length] = (int32_t)nsorted - (int32_t)next;
        next += ncodewords[length];
        nsorted += ncodewords[length];
        table->end[length] = next << (TERP_MAX_CODE_NBITS - length);
        if (next > 1u << length)
            return false;
    }
    return true;
}

/* Fills in what is found for these bits, when all else is filled in. */
static __host__ __device__ inline void
cuda_decode_table_fill_lookup(struct cuda_decode_table *table, unsigned bits)
{
    unsigned left = CUDA_LOOKUP_NBITS, ncodewords = 0, nothers = 0;
    unsigned ends = 0, others = 0, codes = 0, is_wide = 0;

    while (left > 0 && !is_wide) {
        /* Bits that were not looked at yet, then zeros. */
        unsigned next = bits << (TERP_MAX_CODE_NBITS - left) &
                        ((1u << TERP_MAX_CODE_NBITS) - 1);
        unsigned length = find_codeword_nbits(table->end, next, 0);
        if (length == 0 || length > left)
            break;
        unsigned symbol = symbol_of_codeword(table, next, length);
        int code = (int)symbol - TERP_RADIUS;
        if (code != 0) {
            bool wide = code < INT8_MIN || code > INT8_MAX;
            if (nothers == CUDA_BURST_MAX_NOTHERS || (wide && ncodewords > 0))
                break;
            is_wide = wide;
            codes |= wide ? symbol : ((unsigned)code & 255) << (8 * nothers);
            others |= 1u << ncodewords;
            nothers++;
        }
        ncodewords++;
        left -= length;
        ends |= 1u << (CUDA_LOOKUP_NBITS - left - 1);
    }
    unsigned is_run =
        bits == 0 && ncodewords == CUDA_LOOKUP_NBITS && others == 0;
    table->low[bits] = is_run << 29 | is_wide << 28 | others << 18 | ends << 8 |
                       ncodewords << 4 | (CUDA_LOOKUP_NBITS - left);
    table->high[bits] = codes;
}

/* The tables of the dictionary's entries. */
static inline void
cuda_decode_tables_fill(struct cuda_decode_table tables[TERP_NENTRIES])
{
    for (int e = 0; e < TERP_NENTRIES; e++) {
        struct cuda_decode_table *table = &tables[e];
        uint32_t ncodewords[TERP_MAX_CODE_NBITS + 1] = {0};
        uint16_t *sorted = table->sorted;
        for (int s = 0; s < TERP_NSYMBOLS; s++)
            ncodewords[terp_entry_code_nbits[s][e]]++;
        cuda_decode_table_fill_ends(ncodewords, table);
        for (int length = 1; length <= TERP_MAX_CODE_NBITS; length++)
            for (int s = 0; s < TERP_NSYMBOLS; s++)
                if (terp_entry_code_nbits[s][e] == length)
                    *sorted++ = (uint16_t)s;
        for (unsigned bits = 0; bits < CUDA_LOOKUP_NENTRIES; bits++)
            cuda_decode_table_fill_lookup(table, bits);
    }
}
