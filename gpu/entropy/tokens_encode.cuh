/* Tiles of the coding `ratio`. tokens.h, doc/format.md, "ratio tiles";
 * cpu/entropy/tokens.c writes the same bytes. */
#ifndef TERP_GPU_ENTROPY_TOKENS_ENCODE_CUH
#define TERP_GPU_ENTROPY_TOKENS_ENCODE_CUH

#include "gpu/engine/state.cuh"

/* What cuda_tiles_histogram says: which tiles are zero, the others' costs, and
 * ntiles_best. */
cudaError_t
cuda_tokens_histogram(const struct cuda_batch *batch, cudaStream_t stream);

/* Once entries are selected: a tile's bytes, their number, its entry. */
cudaError_t
cuda_tokens_encode(const struct cuda_batch *batch, cudaStream_t stream);

/* Partitions, which are their tiles one after another. Those of small chunks
 * are noted by cuda_stream_write. */
cudaError_t
cuda_tokens_note(const struct cuda_batch *batch, cudaStream_t stream);

#endif
