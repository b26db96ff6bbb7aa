/* Canonical Huffman codes limited to TERP_MAX_CODE_NBITS. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "codec/format/limits.h"

TERP_C_BEGIN

#define TERP_HUFFMAN_MAX_NITEMS (2 * TERP_NSYMBOLS - 2)

struct terp_huffman_leaf {
    uint64_t weight;
    uint16_t symbol;
};

/* Working memory of terp_huffman_lengths, too large for a thread's stack. */
struct terp_huffman_work {
    struct terp_huffman_leaf leaves[TERP_NSYMBOLS], other[TERP_NSYMBOLS];
    uint64_t lists[2][TERP_HUFFMAN_MAX_NITEMS];
    uint16_t is_leaf[TERP_HUFFMAN_MAX_NITEMS]; /* one bit for each level */
};

/* Computes the lengths of an optimal length-limited code (package-merge,
 * Larmore and Hirschberg 1990). Among equal frequencies, a lower symbol never
 * has a shorter codeword; among equal weights a symbol goes before a package. A
 * symbol of frequency 0 gets length 0; a lone symbol gets length 1. The sum of
 * frequencies must be below 2^58. */
void
terp_huffman_lengths(const uint64_t frequency[TERP_NSYMBOLS],
                     struct terp_huffman_work *work,
                     uint8_t nbits_ret[TERP_NSYMBOLS]);

/* Computes canonical codewords: ascending by (length, symbol), the first one
 * all zeros. A codeword is right-aligned; the stream holds its most significant
 * bit first. Returns false when a length is too large or the lengths overfill
 * the code space. */
bool
terp_huffman_codewords(const uint8_t nbits[TERP_NSYMBOLS],
                       uint16_t codewords_ret[TERP_NSYMBOLS]);

/* A codeword and its length in one number, for the encoders' tables. */
_Static_assert(TERP_MAX_CODE_NBITS < 1 << 4, "A length takes four bits.");

static inline TERP_HOST_DEVICE uint32_t
terp_codeword_pack(uint32_t codeword, unsigned nbits)
{
    return codeword << 4 | nbits;
}

static inline TERP_HOST_DEVICE unsigned
terp_codeword_nbits(uint32_t packed)
{
    return packed & 15;
}

static inline TERP_HOST_DEVICE uint32_t
terp_codeword_bits(uint32_t packed)
{
    return packed >> 4;
}

TERP_C_END
