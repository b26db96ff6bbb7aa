/* Which codebooks a stream uses: the choices of cpu/entropy/codebooks.c.
 * doc/format.md, "Tiles". */
#pragma once

#include "codec/format/huffman.h"
#include "gpu/engine/state.cuh"

/* What a tile's codewords cost by entry. `best`, by the width of the palette:
 * bits << 7 | entry for the entry that the tile selects; 0 for a zero tile. */
struct cuda_tile_cost {
    uint16_t nbits[TERP_ENTRY_STRIDE];
    uint32_t best[TERP_PALETTE_NWIDTHS];
};
static_assert(TERP_CODEWORDS_MAX_NBYTES * 8 <= UINT16_MAX,
              "A cost holds the bits of a tile's codewords.");
static_assert(TERP_NENTRIES <= 1 << 7, "An entry has seven bits.");
static_assert(sizeof(struct cuda_tile_cost) % 16 == 0,
              "Costs are loaded in units of 16 bytes.");
static_assert(sizeof(struct cuda_tile_cost) <= 4 * TERP_NENTRIES,
              "The region of costs holds a tile's.");

/* The chunk's own codebook, in the region of that name. */
struct cuda_custom_codebook {
    uint32_t codeword[TERP_NSYMBOLS]; /* packed */
    uint16_t low, high;               /* symbols with words, but the escape */
};

/* Whether the chunk has tiles to encode. The answer is the same for all threads
 * of a block, though stages of sections may set the status meanwhile. */
static __device__ __forceinline__ bool
has_tiles(const struct cuda_chunk &chunk)
{
    /* Both are loaded at once. */
    return !__syncthreads_or((chunk.status != TERP_OK) |
                             (chunk.coding < TERP_CODING_HUFFMAN));
}

/* The width of the palette whose codewords and numbers of entries take the
 * fewest bits. */
static __device__ __forceinline__ unsigned
palette_width(const struct cuda_chunk &chunk)
{
    unsigned long long least = chunk.width_nbits[0];
    unsigned width = 0;

#pragma unroll
    for (unsigned w = 1; w < TERP_PALETTE_NWIDTHS; w++) {
        const unsigned long long nbits = chunk.width_nbits[w];
        width = nbits < least ? w : width;
        least = min(least, nbits);
    }
    return width;
}

/* The histogram pass: which tiles are zero; huffman, ratio: the others' costs
 * and ntiles_best; custom: the frequencies. */
cuda_stage cuda_tiles_histogram;

/* huffman, ratio: from the tiles' costs and ntiles_best to each tile's best
 * entries and width_nbits. */
cuda_stage cuda_entries_select;

/* custom: from the frequencies to the codebook. */
cuda_stage cuda_custom_make;

/* Packed codewords of all entries in host memory: of symbols,
 * [TERP_NENTRIES][TERP_NSYMBOLS], and of tokens, [TERP_NENTRIES][TERP_NTOKENS].
 */
void
cuda_codewords_fill(uint32_t *words);
void
cuda_token_codewords_fill(uint32_t *words);
