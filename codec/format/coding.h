/* The codings of a chunk, and the properties of a coding that both engines
 * need. Each engine has a table of the steps of each coding:
 * cpu/entropy/tiles_encode.c and cpu/entropy/tiles_decode.c,
 * gpu/entropy/tiles_encode.cu and gpu/entropy/tiles_decode.cu. doc/format.md,
 * "Tiles". */
#pragma once

#include "codec/api/terp.h"
#include "codec/format/tokens.h"

/* The coding byte of a frame. Values are pinned. CUSTOM, whose codebook is made
 * from the coded symbols, never stands in a frame: only the section of signs
 * uses it. */
enum terp_coding {
    TERP_CODING_RAW = 0,
    TERP_CODING_CONSTANT = 1,
    TERP_CODING_HUFFMAN = 2,
    TERP_CODING_CUSTOM = 3, /* codec/format/pointwise.h, signs */
    TERP_CODING_SPEED = 4,  /* codec/format/speed.h; of version 2 */
    TERP_CODING_RATIO = 5,
    TERP_CODING_GRID = 10,       /* codec/format/grid.h; of version 2 */
    TERP_CODING_COLUMNS = 11,    /* codec/format/columns.h; of version 2 */
    TERP_CODING_RANKS = 12,      /* codec/format/ranks.h; of version 2 */
    TERP_CODING_COPIES = 13,     /* codec/format/copies.h */
    TERP_CODING_REFERENCES = 14, /* codec/format/references.h */
    TERP_CODING_PARTS = 15       /* of complex values: real and imaginary parts
                                    are streams */
};

/* The coding of a predicted chunk under a pipeline. SPEED is for chunks that
 * cannot have TERP_CODING_SPEED (codec/model/speed.h). */
static inline enum terp_coding
terp_coding_of(enum terp_pipeline pipeline)
{
    return pipeline == TERP_PIPELINE_AUTO    ? TERP_CODING_RATIO
           : pipeline == TERP_PIPELINE_SPEED ? TERP_CODING_HUFFMAN
                                             : (enum terp_coding)(pipeline + 1);
}
_Static_assert((int)TERP_CODING_HUFFMAN == TERP_PIPELINE_HUFFMAN + 1 &&
                   (int)TERP_CODING_RATIO == TERP_PIPELINE_RATIO + 1,
               "The coding of a pipeline is its number plus one.");

/* Whether a frame may have this coding. */
static inline bool
terp_coding_is_valid(unsigned coding)
{
    return coding <= TERP_CODING_HUFFMAN || coding == TERP_CODING_SPEED ||
           coding == TERP_CODING_RATIO ||
           (coding >= TERP_CODING_GRID && coding <= TERP_CODING_PARTS);
}

/* Whether only streams of version 2 have the coding. */
static inline bool
terp_coding_is_new(enum terp_coding coding)
{
    return coding == TERP_CODING_SPEED || coding == TERP_CODING_RANKS ||
           coding == TERP_CODING_COLUMNS || coding == TERP_CODING_GRID;
}

/* The stream holds other streams. */
static inline bool
terp_coding_holds(enum terp_coding coding)
{
    return coding >= TERP_CODING_GRID;
}

/* Whether each tile selects its codebook from the dictionary. */
static inline TERP_HOST_DEVICE bool
terp_coding_selects_entries(enum terp_coding coding)
{
    return coding == TERP_CODING_HUFFMAN || coding == TERP_CODING_RATIO;
}

/* Whether a tile has one codeword for each symbol. A partition of such tiles is
 * reduced (codec/format/reduce.h) when that makes it smaller. */
static inline TERP_HOST_DEVICE bool
terp_coding_reduces(enum terp_coding coding)
{
    return coding == TERP_CODING_HUFFMAN || coding == TERP_CODING_CUSTOM;
}

/* Whether symbols are sorted into context order before they are cut into
 * tiles. */
static inline TERP_HOST_DEVICE bool
terp_coding_has_contexts(enum terp_coding coding)
{
    return coding == TERP_CODING_RATIO;
}

/* ---- sizes ---- */

/* Largest tile with one codeword for each symbol. */
#define TERP_CODEWORDS_MAX_NBYTES (TERP_TILE_NSYMBOLS * TERP_MAX_CODE_NBITS / 8)

static inline TERP_HOST_DEVICE unsigned
terp_tile_max_nbytes(enum terp_coding coding)
{
    return coding == TERP_CODING_RATIO ? TERP_TOKENS_MAX_NBYTES
                                       : TERP_CODEWORDS_MAX_NBYTES;
}

/* Symbols of a tile. Only the last tile may have fewer than
 * TERP_TILE_NSYMBOLS. */
static inline TERP_HOST_DEVICE unsigned
terp_tile_nsymbols(uint64_t nsymbols, uint64_t tile)
{
    return (unsigned)min_u64(TERP_TILE_NSYMBOLS,
                             nsymbols - tile * TERP_TILE_NSYMBOLS);
}

/* The fewest bytes of a tile whose length is not 0: a codeword has at least one
 * bit. */
static inline TERP_HOST_DEVICE unsigned
terp_tile_min_nbytes(enum terp_coding coding, unsigned nsymbols)
{
    return terp_coding_reduces(coding) ? (nsymbols + 7) / 8 : 1;
}
