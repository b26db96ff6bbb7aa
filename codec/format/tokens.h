/* How the pipeline `ratio` codes a tile. A token is a run of zero codes, which
 * may be empty, and the nonzero code behind it. Long runs share tokens, and so
 * do large magnitudes; plain bits behind the token's codeword tell them apart.
 * doc/format.md, "ratio tiles". */
#pragma once

#include "codec/format/bytes.h"
#include "codec/format/limits.h"

/* Classes of numbers: each of the first 2^n numbers is a class of its own;
 * every octave above has two classes. */
#define TERP_RUN_SINGLES_LOG2 2
#define TERP_CODE_SINGLES_LOG2 3 /* of a code's magnitude - 1 */

#define TERP_NRUN_CLASSES 24  /* up to 4095 zeros */
#define TERP_NCODE_CLASSES 21 /* up to 512; the last is the escape */
#define TERP_CODE_CLASS_ESCAPE (TERP_NCODE_CLASSES - 1)

/* Plain bits of the longest run, and of the largest magnitude. */
#define TERP_RUN_MAX_NBITS 10
#define TERP_MAGNITUDE_MAX_NBITS 7

/* Plain bits of a token: run, sign, magnitude. */
#define TERP_TOKEN_PLAIN_MAX_NBITS \
    (TERP_RUN_MAX_NBITS + 1 + TERP_MAGNITUDE_MAX_NBITS)

/* Largest tile of tokens. In the worst case each symbol has a token of its own,
 * without a run. */
#define TERP_TOKENS_MAX_NBYTES \
    (TERP_TILE_NSYMBOLS *      \
     (TERP_MAX_CODE_NBITS + 1 + TERP_MAGNITUDE_MAX_NBITS) / 8)

/* Token = class of the run * TERP_NCODE_CLASSES + class of the code. */
#define TERP_NTOKENS (TERP_NRUN_CLASSES * TERP_NCODE_CLASSES)
_Static_assert(TERP_NTOKENS <= TERP_NSYMBOLS,
               "The code of symbols has a codeword for each token.");

static inline TERP_HOST_DEVICE unsigned
terp_class_of(unsigned number, int singles_log2)
{
    int octave = bit_width(number) - 1;

    if (octave < singles_log2)
        return number;
    return (1u << singles_log2) + 2 * (unsigned)(octave - singles_log2) +
           (number >> (octave - 1) & 1);
}

/* Plain bits of a number in a class. */
static inline TERP_HOST_DEVICE int
terp_class_nbits(unsigned cls, int singles_log2)
{
    unsigned nsingles = 1u << singles_log2;

    return cls < nsingles ? 0 : singles_log2 - 1 + (int)(cls - nsingles) / 2;
}

/* The least number of a class. */
static inline TERP_HOST_DEVICE unsigned
terp_class_first(unsigned cls, int singles_log2)
{
    return cls < 1u << singles_log2
               ? cls
               : (2 + (cls & 1)) << terp_class_nbits(cls, singles_log2);
}

struct terp_token {
    unsigned number;
    unsigned nbits;
    uint32_t bits;
};

/* The token of a run and of the symbol behind it, whose code is not 0. */
static inline TERP_HOST_DEVICE struct terp_token
terp_token_of(unsigned run, unsigned symbol)
{
    const bool is_negative = symbol < TERP_RADIUS;
    const unsigned above =
        (is_negative ? TERP_RADIUS - symbol : symbol - TERP_RADIUS) - 1;
    const unsigned of_run = terp_class_of(run, TERP_RUN_SINGLES_LOG2);
    unsigned of_code = TERP_CODE_CLASS_ESCAPE;
    unsigned nbits = (unsigned)terp_class_nbits(of_run, TERP_RUN_SINGLES_LOG2);
    uint32_t bits = run & ((1u << nbits) - 1);

    if (symbol != TERP_ESCAPE) {
        of_code = terp_class_of(above, TERP_CODE_SINGLES_LOG2);
        const unsigned code_nbits =
            (unsigned)terp_class_nbits(of_code, TERP_CODE_SINGLES_LOG2);
        bits = (bits << 1 | is_negative) << code_nbits |
               (above & ((1u << code_nbits) - 1));
        nbits += 1 + code_nbits;
    }
    const struct terp_token token = {of_run * TERP_NCODE_CLASSES + of_code,
                                     nbits, bits};
    return token;
}
