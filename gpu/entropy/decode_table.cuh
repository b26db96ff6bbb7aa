/* The table by which the device decodes a codebook of symbols. A block of a
 * large batch copies the look-up (low, high, end) to shared memory, and decodes
 * codewords that are too long for it by the table in global memory. A block of
 * a small batch copies the other members, which decode any codeword. */
#pragma once

#include "codebooks/codebooks.h"
#include "gpu/engine/platform.cuh"

/* A look-up takes the next 10 bits and finds a burst: all codewords that end in
 * these bits, any number of them for code 0 and up to CUDA_BURST_MAX_NOTHERS
 * for other codes. 10 bits make two tables of 4 KiB, which fit into shared
 * memory for eight blocks; the fields of an entry below are as wide as the
 * bits. The four other codes are the bytes of the high word. */
#define CUDA_LOOKUP_NBITS 10
#define CUDA_LOOKUP_NENTRIES (1 << CUDA_LOOKUP_NBITS)
#define CUDA_BURST_MAX_NOTHERS 4

/* An entry of the look-up. Bits of the low word:
 *  0-3   bits of all codewords; 0: the first is longer or not valid
 *  4-7   number of codewords
 *  8-17  bit 8 + i is set if a codeword ends with bit i of the burst
 *  18-27 bit 18 + i is set if codeword i has a code other than 0
 *  28    the burst is one codeword, whose symbol is the high word
 *  29    all bits are zeros, and each is a codeword of code 0; more zeros may
 *        follow
 * The high word, unless bit 28 is set: codes other than 0, as signed bytes, the
 * first lowest. Example: if codeword 0 is code 0, codeword 10 is code 1, and
 * other codewords have more than 6 bits, then bits 0100110111 hold the burst 0,
 * 10, 0: 4 bits, 3 codewords, ends at bits 0, 2 and 3, codeword 1 with a code
 * other than 0, and 1 in the high word. */
#define CUDA_FOUND_NBITS(low) ((low)&15)
#define CUDA_FOUND_NCODEWORDS(low) ((low) >> 4 & 15)
#define CUDA_FOUND_ENDS(low) ((low) >> 8 & (CUDA_LOOKUP_NENTRIES - 1))
#define CUDA_FOUND_OTHERS(low) ((low) >> 18 & (CUDA_LOOKUP_NENTRIES - 1))
#define CUDA_FOUND_IS_WIDE(low) (((low) >> 28 & 1) != 0)
#define CUDA_FOUND_IS_RUN(low) (((low) >> 29 & 1) != 0)

/* 10.3 KB. Low and high words are separate arrays: counting codewords reads
 * only low words, which then lie in all banks of shared memory. */
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

/* The last members of cuda_decode_table, which decode single codewords. */
struct __align__(16) cuda_codeword_table
{
    uint32_t end[TERP_MAX_CODE_NBITS + 1];
    int32_t base[TERP_MAX_CODE_NBITS + 1];
    uint16_t sorted[TERP_NSYMBOLS];
};
static_assert(sizeof(struct cuda_codeword_table) ==
                  sizeof(struct cuda_decode_table) -
                      offsetof(struct cuda_decode_table, end),
              "A codeword table must be the end of a decode table.");

/* Bits of the codeword at the beginning of `bits15`, if it has more than
 * `shortest`. 0: no such codeword. */
static __host__ __device__ __forceinline__ unsigned
find_codeword_nbits(const uint32_t *end, unsigned bits15, unsigned shortest)
{
    unsigned length = shortest + 1;
    while (length <= TERP_MAX_CODE_NBITS && bits15 >= end[length])
        length++;
    return length <= TERP_MAX_CODE_NBITS ? length : 0;
}

/* The symbol of the codeword of `length` bits at the beginning of `bits15`.
 * Book is cuda_decode_table or cuda_codeword_table. */
template <typename Book>
static __host__ __device__ __forceinline__ unsigned
symbol_of_codeword(const Book *table, unsigned bits15, unsigned length)
{
    return table->sorted[table->base[length] +
                         (int)(bits15 >> (TERP_MAX_CODE_NBITS - length))];
}

/* Fills in `end` and `base` from the number of codewords of each length. False:
 * there are too many for a prefix code, as in terp_huffman_codewords. */
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

/* Fills in the look-up's entry for `bits`. The members behind `high` must be
 * filled in before. */
static __host__ __device__ inline void
cuda_decode_table_fill_lookup(struct cuda_decode_table *table, unsigned bits)
{
    unsigned left = CUDA_LOOKUP_NBITS, ncodewords = 0, nothers = 0;
    unsigned ends = 0, others = 0, codes = 0, is_wide = 0;

    while (left > 0 && !is_wide) {
        /* The bits that remain, followed by zeros. */
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

/* Makes the tables of all entries of the dictionary. */
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
