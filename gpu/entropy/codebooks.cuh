/* Chooses the codebooks of a stream, as cpu/entropy/codebooks.c does.
 * doc/format.md, "Tiles". An entry is a codebook of the dictionary. A palette
 * of width w is the first 2^w entries in order of popularity; each tile selects
 * one entry of the palette. */
#pragma once

#include "codec/format/huffman.h"
#include "gpu/engine/state.cuh"

/* The bits of a tile's codewords by entry. best[w], for palette width w: bits
 * << 7 | entry for the entry that the tile selects; 0 for a zero tile. */
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
              "The region `cost` must hold a tile's costs.");

/* The codebook of a chunk with coding custom, in the region `codebook`. low and
 * high: the range of symbols that have codewords, without the escape. */
struct cuda_custom_codebook {
    uint32_t codeword[TERP_NSYMBOLS]; /* packed */
    uint16_t low, high;
};

/* Whether the chunk has tiles to encode. All threads of a block get the same
 * answer, even if a stage on another stream sets the status meanwhile. Has a
 * barrier. */
static __device__ __forceinline__ bool
has_tiles(const struct cuda_chunk &chunk)
{
    /* The operator | lets both loads start at once. */
    return !__syncthreads_or((chunk.status != TERP_OK) |
                             (chunk.coding < TERP_CODING_HUFFMAN));
}

/* The palette width with the fewest bits for codewords and entry numbers. */
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

/* Counts the symbols of tiles: which tiles are zero; huffman, ratio: costs of
 * the other tiles, and ntiles_best; custom: frequencies. */
cuda_stage cuda_tiles_histogram;

/* huffman, ratio: finds each tile's best entry for each palette width, and
 * width_nbits, from costs and ntiles_best. */
cuda_stage cuda_entries_select;

/* custom: makes the codebook from the frequencies. */
cuda_stage cuda_custom_make;

/* Writes the packed codewords of all entries to host memory: those of symbols,
 * [TERP_NENTRIES][TERP_NSYMBOLS], or of tokens, [TERP_NENTRIES][TERP_NTOKENS].
 */
void
cuda_codewords_fill(uint32_t *words);
void
cuda_token_codewords_fill(uint32_t *words);
