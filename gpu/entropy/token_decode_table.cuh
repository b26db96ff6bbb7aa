/* A codebook of the pipeline `ratio`, whose words are tokens
 * (tokens.h), in a form that decodes on the device. */
#ifndef TERP_GPU_ENTROPY_TOKEN_DECODE_TABLE_CUH
#define TERP_GPU_ENTROPY_TOKEN_DECODE_TABLE_CUH

#include "codebooks/codebooks.h"
#include "gpu/engine/platform.cuh"

/* Words of up to so many bits are found by the first bits, longer ones by all
 * that words have: these stand last, and close together. */
#define CUDA_TOKEN_NBITS 11
#define CUDA_TOKEN_NSHORT (1 << CUDA_TOKEN_NBITS)
#define CUDA_TOKEN_NLONG 1152 /* entries of the dictionary have no more */
#define CUDA_TOKEN_NPLACES (CUDA_TOKEN_NSHORT + CUDA_TOKEN_NLONG)

/* What is found:
 *  0-3   bits of the word
 *  4-7   bits of the run, behind the word
 *  8-9   the run is (these << its bits) + its bits
 *  10-12 the magnitude is 1 + (these << its bits) + its bits
 *  13-15 bits of the magnitude, behind the run and a sign; 0: no sign either,
 *        an escape; 1: none */
#define CUDA_TOKEN_WORD_NBITS(token) ((token)&15)
#define CUDA_TOKEN_RUN_NBITS(token) ((token) >> 4 & 15)
#define CUDA_TOKEN_RUN(token) ((token) >> 8 & 3)
#define CUDA_TOKEN_CODE(token) ((token) >> 10 & 7)
#define CUDA_TOKEN_CODE_NBITS(token) ((token) >> 13)
static_assert(TERP_RUN_SINGLES_LOG2 == 2 && TERP_CODE_SINGLES_LOG2 == 3,
              "first numbers of classes in two and three bits");

/* 9.4 KB. */
struct __align__(16) cuda_token_decode_table
{
    uint16_t token[CUDA_TOKEN_NPLACES];
    uint8_t nbits[CUDA_TOKEN_NPLACES]; /* of a token, with all of its bits */
    uint32_t end; /* words below it, left-aligned to 15 bits, are short */
    uint32_t padding[3];
};
static_assert(sizeof(struct cuda_token_decode_table) % 16 == 0, "for wide loads");

/* Where a book has what a word stands for, of which `bits15` are the first
 * bits. Each number of 15 bits begins with a word. */
static __host__ __device__ __forceinline__ unsigned
token_place(uint32_t end, unsigned bits15)
{
    return bits15 < end ? bits15 >> (TERP_MAX_CODE_NBITS - CUDA_TOKEN_NBITS)
                        : CUDA_TOKEN_NSHORT + (bits15 - end);
}

/* Bits of the run and of the code that `token` has behind its word. */
static __host__ __device__ __forceinline__ unsigned
token_plain_nbits(unsigned token)
{
    const unsigned code_nbits = CUDA_TOKEN_CODE_NBITS(token);
    return CUDA_TOKEN_RUN_NBITS(token) + code_nbits + (code_nbits > 1);
}

/* Of class numbers, and the bits of the word. */
static inline unsigned
token_of(unsigned run, unsigned code, unsigned word_nbits)
{
    unsigned run_nbits = (unsigned)terp_class_nbits(run, TERP_RUN_SINGLES_LOG2);
    unsigned code_nbits =
        (unsigned)terp_class_nbits(code, TERP_CODE_SINGLES_LOG2);
    unsigned run_first = terp_class_first(run, TERP_RUN_SINGLES_LOG2);
    unsigned code_first = terp_class_first(code, TERP_CODE_SINGLES_LOG2);
    unsigned token = run_first >> run_nbits << 8 | run_nbits << 4 | word_nbits;

    if (code == TERP_CODE_CLASS_ESCAPE)
        return token;
    return (code_nbits == 0 ? 1 : code_nbits) << 13 |
           code_first >> code_nbits << 10 | token;
}

/* The books of the dictionary's entries. */
static inline void
cuda_token_decode_tables_fill(struct cuda_token_decode_table books[TERP_NENTRIES])
{
    for (int e = 0; e < TERP_NENTRIES; e++) {
        struct cuda_token_decode_table *book = &books[e];
        unsigned bits15 = 0; /* of the next word */
        book->end = 0;
        for (int length = 1; length <= TERP_MAX_CODE_NBITS; length++) {
            for (unsigned t = 0; t < TERP_NTOKENS; t++) {
                if (terp_entry_token_nbits[t][e] != length)
                    continue;
                unsigned end = bits15 + (1u << (TERP_MAX_CODE_NBITS - length));
                unsigned token =
                    token_of(t / TERP_NCODE_CLASSES, t % TERP_NCODE_CLASSES,
                             (unsigned)length);
                if (length <= CUDA_TOKEN_NBITS)
                    book->end = end;
                for (; bits15 < end; bits15++) {
                    unsigned place = token_place(book->end, bits15);
                    book->token[place] = (uint16_t)token;
                    book->nbits[place] =
                        (uint8_t)((unsigned)length + token_plain_nbits(token));
                }
            }
        }
    }
}

#endif
