/* Tiles of the coding ratio: symbols to tokens (codec/format/tokens.h) and
 * their bytes, as cpu/entropy/tokens.c writes them. */
#pragma once

#include "gpu/engine/state.cuh"

/* What a symbol adds to a token, then what a run of so many zeros does. */
#define TOKEN_NPARTS (TERP_NSYMBOLS + TERP_TILE_NSYMBOLS)

/* Of all symbols and runs; made once a context. */
void
cuda_token_parts_fill(uint32_t parts[TOKEN_NPARTS]);

/* cuda_tiles_histogram for this coding: which tiles are zero, the others'
 * costs, and ntiles_best. */
cuda_stage cuda_tokens_histogram;

/* Once entries are selected: each tile's bytes, their number, its entry. */
cuda_stage cuda_tokens_encode;

/* Notes the partitions, which are their tiles one after another.
 * cuda_stream_write notes those of small chunks itself. */
cuda_stage cuda_tokens_note;
