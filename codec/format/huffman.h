/* Canonical Huffman codes limited to TERP_MAX_CODE_NBITS. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "codec/format/limits.h"

TERP_C_BEGIN

/* Items of the longest list of package-merge. */
#define TERP_HUFFMAN_MAX_NITEMS (2 * TERP_NSYMBOLS - 2)

struct terp_huffman_leaf {
    uint64_t weight;
    uint16_t symbol;
};

/* What lengths are found in: too much for a thread's stack. */
struct terp_huffman_work {
    struct terp_huffman_leaf leaves[TERP_NSYMBOLS], other[TERP_NSYMBOLS];
    uint64_t lists[2][TERP_HUFFMAN_MAX_NITEMS];
    uint16_t is_leaf[TERP_HUFFMAN_MAX_NITEMS]; /* a bit a level */
};

/* Code lengths of an optimal length-limited code for `frequency` (package-
 * merge, Larmore and Hirschberg 1990). Of equal frequencies the lower symbol
 * has no shorter a codeword; of equal weights a symbol goes before a package. A
 * symbol of frequency 0 gets length 0; a lone symbol gets length 1.
 * Frequencies sum to less than 2^58. */
void
terp_huffman_lengths(const uint64_t frequency[TERP_NSYMBOLS],
                     struct terp_huffman_work *work,
                     uint8_t nbits_ret[TERP_NSYMBOLS]);

/* Canonical codewords: ascending by (length, symbol), first codeword all zeros.
 * A codeword is right-aligned; the stream holds it most significant bit first.
 * False when the lengths overfill the code space. */
bool
terp_huffman_codewords(const uint8_t nbits[TERP_NSYMBOLS],
                       uint16_t codewords_ret[TERP_NSYMBOLS]);

/* A codeword and how many bits it has in one number, as encoders look them up.
 */
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
