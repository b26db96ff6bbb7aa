/* Encodes tiles of the coding ratio: symbols to tokens (codec/format/tokens.h)
 * and their bytes, as cpu/entropy/tokens.c does. */
#pragma once

#include "gpu/engine/state.cuh"

/* Items of the table of summands of packed tokens: item s is the summand of
 * symbol s, and item TERP_NSYMBOLS + r is the summand of a run of r zeros. */
#define TOKEN_NPARTS (TERP_NSYMBOLS + TERP_TILE_NSYMBOLS)

/* Makes the table of summands, once per context. */
void
cuda_token_parts_fill(uint32_t parts[TOKEN_NPARTS]);

/* Does the work of cuda_tiles_histogram for this coding: finds zero tiles, the
 * costs of the other tiles, and ntiles_best. */
cuda_stage cuda_tokens_histogram;

/* After entries are selected: writes each tile's bytes, their number, and the
 * tile's entry. */
cuda_stage cuda_tokens_encode;

/* Records the partitions, which are concatenations of tiles. For small chunks
 * cuda_stream_write does so. */
cuda_stage cuda_tokens_note;
