/* How the pipeline `ratio` cuts a tile's codes up. A token is a run
 * of zero codes, which may be empty, and the code behind it, which is not
 * zero. Long runs share tokens, and so do large magnitudes; plain bits behind
 * the token's word tell them apart. doc/format.md, "ratio tiles". */
#ifndef TERP_CODEC_FORMAT_TOKENS_H
#define TERP_CODEC_FORMAT_TOKENS_H

#include "codec/format/bytes.h"
#include "codec/format/limits.h"

/* Numbers from 0 on in classes: the first 2^n have one each, then every octave
 * has two. */
#define TERP_RUN_SINGLES_LOG2 2
#define TERP_CODE_SINGLES_LOG2 3 /* of a code's magnitude less one */

#define TERP_NRUN_CLASSES 24  /* up to 4095 zeros */
#define TERP_NCODE_CLASSES 21 /* up to 512, and last the escape */
#define TERP_CODE_CLASS_ESCAPE (TERP_NCODE_CLASSES - 1)

/* Token = class of the run * TERP_NCODE_CLASSES + class of the code. */
#define TERP_NTOKENS (TERP_NRUN_CLASSES * TERP_NCODE_CLASSES)
_Static_assert(TERP_NTOKENS <= TERP_NSYMBOLS, "tokens have canonical codes");

static inline TERP_HOST_DEVICE unsigned
terp_class_of(unsigned number, int singles_log2)
{
    int octave = bit_width(number) - 1;

    if (octave < singles_log2)
        return number;
    return (1u << singles_log2) + 2 * (unsigned)(octave - singles_log2) +
           (number >> (octave - 1) & 1);
}

/* Bits that tell the numbers of a class apart. */
static inline TERP_HOST_DEVICE int
terp_class_nbits(unsigned cls, int singles_log2)
{
    unsigned nsingles = 1u << singles_log2;

    return cls < nsingles ? 0 : singles_log2 - 1 + (int)(cls - nsingles) / 2;
}

/* Its least number. */
static inline TERP_HOST_DEVICE unsigned
terp_class_first(unsigned cls, int singles_log2)
{
    return cls < 1u << singles_log2
               ? cls
               : (2 + (cls & 1)) << terp_class_nbits(cls, singles_log2);
}

#endif
