/* The table by which the device decodes a codebook of tokens
 * (codec/format/tokens.h). */
#pragma once

#include "codebooks/codebooks.h"
#include "gpu/engine/platform.cuh"

/* Codewords of up to 11 bits are looked up by the next 11 bits. Longer ones are
 * looked up by all 15 bits that a codeword may have: as 15-bit numbers they are
 * the highest ones, and in each entry of the dictionary they take at most
 * CUDA_TOKEN_NLONG numbers. Both tables together have 3200 places where one of
 * 15 bits would have 32768. */
#define CUDA_TOKEN_NBITS 11
#define CUDA_TOKEN_NSHORT (1 << CUDA_TOKEN_NBITS)
#define CUDA_TOKEN_NLONG 1152
#define CUDA_TOKEN_NPLACES (CUDA_TOKEN_NSHORT + CUDA_TOKEN_NLONG)

/* Bits of an entry:
 *  0-3   bits of the codeword
 *  4-7   plain bits of the run, behind the codeword: r
 *  8-9   a: the run is (a << r) + the plain bits
 *  10-12 b: the magnitude is 1 + (b << m) + the plain bits
 *  13-15 plain bits of the magnitude, behind the run and a sign: m; 0: an
 *        escape, without sign and magnitude; 1: a sign, but m = 0 */
#define CUDA_TOKEN_CODEWORD_NBITS(token) ((token)&15)
#define CUDA_TOKEN_RUN_NBITS(token) ((token) >> 4 & 15)
#define CUDA_TOKEN_RUN(token) ((token) >> 8 & 3)
#define CUDA_TOKEN_CODE(token) ((token) >> 10 & 7)
#define CUDA_TOKEN_CODE_NBITS(token) ((token) >> 13)
static_assert(TERP_RUN_SINGLES_LOG2 == 2 && TERP_CODE_SINGLES_LOG2 == 3,
              "a and b must fit into two and three bits.");

/* 9.4 KB. Large batches copy only `token` to shared memory. */
struct __align__(16) cuda_token_decode_table
{
    uint16_t token[CUDA_TOKEN_NPLACES];
    uint8_t nbits[CUDA_TOKEN_NPLACES]; /* of a token, with all of its bits */
    uint32_t end; /* codewords below it, left-aligned to 15 bits, are short */
    uint32_t padding[3];
};
static_assert(sizeof(struct cuda_token_decode_table) % 16 == 0,
              "The table is loaded in units of 16 bytes.");

/* The place in a table of the codeword at the beginning of `bits15`. Codes are
 * complete: each 15-bit number begins with a codeword. */
static __host__ __device__ __forceinline__ unsigned
token_place(uint32_t end, unsigned bits15)
{
    return bits15 < end ? bits15 >> (TERP_MAX_CODE_NBITS - CUDA_TOKEN_NBITS)
                        : CUDA_TOKEN_NSHORT + (bits15 - end);
}

/* The plain bits (run, sign and magnitude) behind the codeword of `token`. */
static __host__ __device__ __forceinline__ unsigned
token_plain_nbits(unsigned token)
{
    const unsigned code_nbits = CUDA_TOKEN_CODE_NBITS(token);
    return CUDA_TOKEN_RUN_NBITS(token) + code_nbits + (code_nbits > 1);
}

/* The entry of the token with these classes of run and code. */
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

/* Makes the tables of all entries of the dictionary. */
static inline void
cuda_token_decode_tables_fill(
    struct cuda_token_decode_table tables[TERP_NENTRIES])
{
    for (int e = 0; e < TERP_NENTRIES; e++) {
        struct cuda_token_decode_table *table = &tables[e];
        unsigned bits15 = 0; /* the next codeword, left-aligned */
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
