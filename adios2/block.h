/* A block of an array as one run of bytes: the streams of its pieces, and a
 * table of them. ADIOS2 calls a block what one Put writes. A block may have any
 * size; pieces of a limited size bound the working memory.
 *
 * | at | bytes  | field                                |
 * |----|--------|--------------------------------------|
 * | 0  | 4      | `74 62 6C 6B`, "tblk"                |
 * | 4  | 4      | version, 1                           |
 * | 8  | 8      | bytes of the block's values          |
 * | 16 | 8      | number of pieces                     |
 * | 24 | 8 each | bytes of each piece's stream         |
 * |    |        | the streams, one behind another      |
 *
 * Integers are little-endian and unsigned. The streams are those of
 * doc/format.md, and have checksums; the values of one follow those of the one
 * before. A block without values has no pieces. */
#pragma once

#include "codec/api/cd_values.h"

/* Values of a piece, at most. The working memory of terp is up to four times
 * that of a piece's values. */
#define TERP_BLOCK_PIECE_NVALUES (UINT64_C(1) << 24)

#define TERP_BLOCK_MAX_NDIMS 32

/* An array in memory in C order. A dim may be 0. */
struct terp_block {
    enum terp_type type;    /* TERP_BYTES: stored unchanged */
    uint64_t value_nbytes;  /* of a value; any number for TERP_BYTES */
    int ndims;              /* at most TERP_BLOCK_MAX_NDIMS; 0: one value */
    const uint64_t *dims;   /* slowest first */
    uint64_t piece_nvalues; /* 0: TERP_BLOCK_PIECE_NVALUES */
};

/* The bytes that hold any encoded block of this shape; 0 if the block is too
 * large to address, or has too many dims. */
uint64_t
terp_block_bound(const struct terp_block *block);

/* Encodes `src` under the settings of `cd`; a bound that is relative to a range
 * refers to each piece. `dst` holds terp_block_bound bytes, and terp writes no
 * byte behind the encoded block. */
enum terp_status
terp_block_encode(const struct terp_run_options *options,
                  const struct terp_cd *cd, const struct terp_block *block,
                  const void *src, void *dst, uint64_t *dst_nbytes_ret);

/* Decodes a block. Any contents of `src` are safe: a block that contradicts
 * itself, or holds more than `dst_cap_nbytes`, is refused before `dst` is
 * written. */
enum terp_status
terp_block_decode(const struct terp_run_options *options, const void *src,
                  uint64_t src_nbytes, void *dst, uint64_t dst_cap_nbytes,
                  uint64_t *dst_nbytes_ret);
