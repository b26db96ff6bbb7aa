/* Encodes tiles of the coding ratio: symbols to tokens (codec/format/tokens.h)
 * and their bytes, as cpu/entropy/tokens.c does. */
#pragma once

#include "gpu/engine/state.cuh"

/* Items of a table of summands: item s is what symbol s adds to its token, and
 * item TERP_NSYMBOLS + r what a run of r zeros adds. */
#define TOKEN_NPARTS (TERP_NSYMBOLS + TERP_TILE_NSYMBOLS)

/* Makes the table of summands, once per context. */
void
cuda_token_parts_fill(uint32_t parts[TOKEN_NPARTS]);

/* The form of cuda_tiles_histogram for this coding: which tiles are zero, costs
 * of the other tiles, and ntiles_best. */
cuda_stage cuda_tokens_histogram;

/* After entries are selected: writes each tile's bytes, their number, and the
 * tile's entry. */
cuda_stage cuda_tokens_encode;

/* Records the partitions, which are concatenations of tiles. For small chunks
 * cuda_stream_write does so. */
cuda_stage cuda_tokens_note;
