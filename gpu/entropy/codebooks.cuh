/* Which codebooks a stream uses. doc/format.md, "Tiles"; the choices
 * are those of cpu/entropy/codebooks.c. */
#ifndef TERP_GPU_ENTROPY_CODEBOOKS_CUH
#define TERP_GPU_ENTROPY_CODEBOOKS_CUH

#include "codec/format/bytes.h"
#include "gpu/engine/state.cuh"

/* What a tile's words cost. `best`, by the width of the palette: bits << 7 |
 * entry for the entry that the tile selects; 0 for a zero tile. */
struct cuda_tile_cost {
    uint16_t nbits[TERP_ENTRY_STRIDE];
    uint32_t best[TERP_PALETTE_NWIDTHS];
};
static_assert(TERP_CODEWORDS_MAX_NBYTES * 8 <= UINT16_MAX,
              "bits of a tile's words");
static_assert(TERP_NENTRIES <= 1 << 7, "an entry has seven bits");
static_assert(sizeof(struct cuda_tile_cost) % 16 == 0, "for wide loads");
static_assert(sizeof(struct cuda_tile_cost) <= 4 * TERP_NENTRIES,
              "the region of costs holds it");

/* The chunk's own codebook, in the region of books. */
struct cuda_custom_codebook {
    uint32_t word[TERP_NSYMBOLS]; /* word << 4 | bits */
    uint16_t low, high;           /* symbols with words, but the escape */
};

/* Whether the chunk has tiles to encode: the same for all threads of a block,
 * while the stages of sections may set the status. */
static __device__ __forceinline__ bool
has_tiles(const struct cuda_chunk &chunk)
{
    /* Both are loaded at once. */
    return !__syncthreads_or((chunk.status != TERP_OK) |
                             (chunk.coding < TERP_CODING_HUFFMAN));
}

/* The width of palette whose words and numbers take the fewest bits. */
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

/* What codebooks are chosen by: which tiles are zero; huffman, ratio: the
 * others' costs and ntiles_best; custom: the frequencies. */
cudaError_t
cuda_tiles_histogram(const struct cuda_batch *batch, cudaStream_t stream);

/* huffman, ratio: from the tiles' costs and ntiles_best to each tile's best
 * entries and width_nbits. */
cudaError_t
cuda_entries_select(const struct cuda_batch *batch, cudaStream_t stream);

/* custom: from the frequencies to the codebook. */
cudaError_t
cuda_custom_make(const struct cuda_batch *batch, cudaStream_t stream);

/* Words of all entries in host memory: of symbols, [TERP_NENTRIES]
 * [TERP_NSYMBOLS], and of tokens, [TERP_NENTRIES][TERP_NTOKENS]. */
void
cuda_codewords_fill(uint32_t *words);
void
cuda_token_codewords_fill(uint32_t *words);

#endif
