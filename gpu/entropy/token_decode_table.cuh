/* What decodes a codebook of tokens (codec/format/tokens.h) on the device. */
#pragma once

#include "codebooks/codebooks.h"
#include "gpu/engine/platform.cuh"

/* Codewords of up to so many bits are found by the first bits, longer ones by
 * all 15 bits that codewords may have: these stand last among all numbers of 15
 * bits, and close together. */
#define CUDA_TOKEN_NBITS 11
#define CUDA_TOKEN_NSHORT (1 << CUDA_TOKEN_NBITS)
#define CUDA_TOKEN_NLONG 1152 /* entries of the dictionary have no more */
#define CUDA_TOKEN_NPLACES (CUDA_TOKEN_NSHORT + CUDA_TOKEN_NLONG)

/* What is found:
 *  0-3   bits of the codeword
 *  4-7   bits of the run, behind the codeword
 *  8-9   the run is (these << its bits) + its bits
 *  10-12 the magnitude is 1 + (these << its bits) + its bits
 *  13-15 bits of the magnitude, behind the run and a sign; 0: no sign either,
 *        an escape; 1: none */
#define CUDA_TOKEN_CODEWORD_NBITS(token) ((token)&15)
#define CUDA_TOKEN_RUN_NBITS(token) ((token) >> 4 & 15)
#define CUDA_TOKEN_RUN(token) ((token) >> 8 & 3)
#define CUDA_TOKEN_CODE(token) ((token) >> 10 & 7)
#define CUDA_TOKEN_CODE_NBITS(token) ((token) >> 13)
static_assert(TERP_RUN_SINGLES_LOG2 == 2 && TERP_CODE_SINGLES_LOG2 == 3,
              "The first numbers of classes have two and three bits.");

/* 9.4 KB. */
struct __align__(16) cuda_token_decode_table
{
    uint16_t token[CUDA_TOKEN_NPLACES];
    uint8_t nbits[CUDA_TOKEN_NPLACES]; /* of a token, with all of its bits */
    uint32_t end; /* codewords below it, left-aligned to 15 bits, are short */
    uint32_t padding[3];
};
static_assert(sizeof(struct cuda_token_decode_table) % 16 == 0,
              "The table is loaded in units of 16 bytes.");

/* Where a table has what a codeword stands for, of which `bits15` are the first
 * bits. Codes are complete: each number of 15 bits begins with a codeword. */
static __host__ __device__ __forceinline__ unsigned
token_place(uint32_t end, unsigned bits15)
{
    return bits15 < end ? bits15 >> (TERP_MAX_CODE_NBITS - CUDA_TOKEN_NBITS)
                        : CUDA_TOKEN_NSHORT + (bits15 - end);
}

/* Plain bits of the run and of the code that `token` has behind its codeword.
 */
static __host__ __device__ __forceinline__ unsigned
token_plain_nbits(unsigned token)
{
    const unsigned code_nbits = CUDA_TOKEN_CODE_NBITS(token);
    return CUDA_TOKEN_RUN_NBITS(token) + code_nbits + (code_nbits > 1);
}

/* What is found for the token of these classes. */
static inline unsigned
token_of(unsigned run, unsigned code, unsigned codeword_nbits)
{
    unsigned run_nbits = (unsigned)terp_class_nbits(run, TERP_RUN_SINGLES_LOG2);
    unsigned code_nbits =
        (unsigned)terp_class_nbits(code, TERP_CODE_SINGLES_LOG2);
    unsigned run_first = terp_class_first(run, TERP_RUN_SINGLES_LOG2);
    unsigned code_first = terp_class_first(code, TERP_CODE_SINGLES_LOG2);
    unsigned token =
        run_first >> run_nbits << 8 | run_nbits << 4 | codeword_nbits;

    if (code == TERP_CODE_CLASS_ESCAPE)
        return token;
    return (code_nbits == 0 ? 1 : code_nbits) << 13 |
           code_first >> code_nbits << 10 | token;
}

/* The tables of the dictionary's entries. */
static inline void
cuda_token_decode_tables_fill(
    struct cuda_token_decode_table tables[TERP_NENTRIES])
{
    for (int e = 0; e < TERP_NENTRIES; e++) {
        struct cuda_token_decode_table *table = &tables[e];
        unsigned bits15 = 0; /* of the next word */
        table->end = 0;
        for (int length = 1; length <= TERP_MAX_CODE_NBITS; length++) {
            for (unsigned t = 0; t < TERP_NTOKENS; t++) {
                if (terp_entry_token_nbits[t][e] != length)
                    continue;
                unsigned end = bits15 + (1u << (TERP_MAX_CODE_NBITS - length));
                unsigned token =
                    token_of(t / TERP_NCODE_CLASSES, t % TERP_NCODE_CLASSES,
                             (unsigned)length);
                if (length <= CUDA_TOKEN_NBITS)
                    table->end = end;
                for (; bits15 < end; bits15++) {
                    unsigned place = token_place(table->end, bits15);
                    table->token[place] = (uint16_t)token;
                    table->nbits[place] =
                        (uint8_t)((unsigned)length + token_plain_nbits(token));
                }
            }
        }
    }
}
