/* Canonical Huffman codes limited to TERP_MAX_CODE_NBITS. */
#ifndef TERP_CODEC_FORMAT_HUFFMAN_H
#define TERP_CODEC_FORMAT_HUFFMAN_H

#include <stdbool.h>
#include <stdint.h>

#include "codec/format/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Code lengths of an optimal length-limited code for `frequency` (package-
 * merge, Larmore and Hirschberg 1990). Of equal frequencies the lower symbol
 * has no shorter a word; of equal weights a symbol goes before a package. A
 * symbol of frequency 0 gets length 0; a lone symbol gets length 1.
 * Frequencies sum to less than 2^58. Takes under 64 KiB of stack and nothing
 * else. */
void
terp_huffman_lengths(const uint64_t frequency[TERP_NSYMBOLS],
                     uint8_t nbits_ret[TERP_NSYMBOLS]);

/* Canonical code words: ascending by (length, symbol), first word all zeros.
 * A word is right-aligned; the stream holds it most significant bit first.
 * False when the lengths overfill the code space. */
bool
terp_huffman_codewords(const uint8_t nbits[TERP_NSYMBOLS],
                       uint16_t words_ret[TERP_NSYMBOLS]);

#ifdef __cplusplus
}
#endif

#endif
