/* The dictionary: precomputed distributions of codes, and tables that follow
 * from them. doc/format.md, "Dictionary"; idea: Shah et al., "Lightweight
 * Huffman Coding for Efficient GPU Compression", ICS 2023.
 *
 * Entry ids run from 0: 25 Cauchy, then 25 Laplace, then 25 Gaussian entries.
 * The first 19 of each 25 are the distribution itself, from narrow to wide.
 * Then come mixtures at 3 scales, from narrow to wide: 3 of 1/4 zeros and 3/4
 * the distribution, and 3 of 7/8 zeros and 1/8 the distribution.
 * generate_frequencies.c has the scales, and the rule that turns probabilities
 * into frequencies. The frequencies are part of the format and frozen since the
 * first release; later versions may only add entries. All other tables follow
 * from the frequencies by integer arithmetic. */
#pragma once

#include <stdint.h>

#include "codec/format/limits.h"
#include "codec/format/tokens.h"

#define TERP_FAMILY_NENTRIES 25
#define TERP_NENTRIES (3 * TERP_FAMILY_NENTRIES)

/* A stream's tiles select among 2^w entries. The width w is at least 0 and at
 * most the width that numbers all entries. */
#define TERP_PALETTE_MAX_WIDTH 7
#define TERP_PALETTE_NWIDTHS (TERP_PALETTE_MAX_WIDTH + 1)
_Static_assert(TERP_NENTRIES > 1 << (TERP_PALETTE_MAX_WIDTH - 1) &&
                   TERP_NENTRIES <= 1 << TERP_PALETTE_MAX_WIDTH,
               "The largest width numbers all entries, and no smaller does.");

/* Rows of the tables below: magnitudes 0 .. TERP_MAX_CODE of a code, then the
 * escape. Both signs of a magnitude have the same frequency. */
#define TERP_ROW_ESCAPE TERP_RADIUS
#define TERP_NROWS (TERP_RADIUS + 1)

/* The sum of an entry's frequencies: row 0, the escape, and twice every other
 * row. All frequencies are at least 1, and none exceeds that of a smaller
 * magnitude. */
#define TERP_FREQUENCY_TOTAL (1u << 24)

/* -log2(frequency / total) in units of 2^-10 bit, rounded to nearest, at most
 * 24 * 2^10. Indexed [row][entry]; entries past TERP_NENTRIES are zero, and pad
 * the row for vector loops. */
#define TERP_COST_FRACTION_NBITS 10
#define TERP_ENTRY_STRIDE 80

extern const uint32_t terp_entry_frequency[TERP_NENTRIES][TERP_NROWS];
extern const uint16_t terp_entry_cost[TERP_NROWS][TERP_ENTRY_STRIDE];

/* The mean cost of each half octave of magnitudes: 0, 1, 2, then from 2 to 3, 3
 * to 4, 4 to 6, 6 to 8 and so on. Both ends count half, since values of one
 * size round to either. The last row is the escape. */
#define TERP_NHALF_OCTAVES 20
#define TERP_HALF_OCTAVE_ESCAPE (TERP_NHALF_OCTAVES - 1)
extern const uint16_t terp_entry_half_octave_cost[TERP_NHALF_OCTAVES]
                                                 [TERP_ENTRY_STRIDE];

/* Lengths of the entries' canonical Huffman codewords in bits, 1 to
 * TERP_MAX_CODE_NBITS, padded like the costs. Each code is complete (Kraft sum
 * 1). Indexed [symbol][entry]. */
extern const uint8_t terp_entry_code_nbits[TERP_NSYMBOLS][TERP_ENTRY_STRIDE];

/* Lengths of the codewords of tokens (codec/format/tokens.h), as if codes were
 * independent of each other. Indexed [token][entry]. */
extern const uint8_t terp_entry_token_nbits[TERP_NTOKENS][TERP_ENTRY_STRIDE];
