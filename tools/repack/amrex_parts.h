/* Chunks of a level that are containers: a chunk is cut into parts, and each
 * part has a stream with a shape and a bound of its own. So the length of
 * chunks need not divide the boxes. doc/format.md, "Containers of compound
 * values". */
#pragma once

#include <string.h>

#include "codec/format/base.h"
#include "tools/repack/amrex.h"

/* Chooses the length of chunks, and sets level->has_parts and
 * level->nstacked. False where chunks of one stream are as small: boxes are
 * equal, and large or of one component. */
bool
amrex_parts_choose_chunk(struct amrex_level *level, uint64_t value_nbytes);

/* Encodes all chunks of a block, as amrex_level_encode does. The batch holds
 * their values: slot i those of chunk i. */
enum terp_status
amrex_parts_encode(const struct amrex_level *level, struct terp_h5_batch *batch,
                   const struct terp_h5_block *block,
                   const struct terp_params *params);

/* The parameters of a component, with the fill values of the dataset. */
static inline struct terp_params
amrex_params(const struct terp_h5_block *block,
             const struct terp_params *component)
{
    struct terp_params params = *component;

    terp_cd_copy_fills(&block->cd, &params);
    params.keep_sign = component->keep_sign; /* not that of the dataset */
    return params;
}

/* Whether one call can encode both chunks. */
static inline bool
amrex_is_alike(const struct terp_chunk *a, const struct terp_params *a_params,
               const struct terp_chunk *b, const struct terp_params *b_params)
{
    return a->rank == b->rank && a->stack == b->stack &&
           memcmp(a->dims, b->dims, sizeof a->dims) == 0 &&
           a_params->bound_mode == b_params->bound_mode &&
           double_bits(a_params->bound) == double_bits(b_params->bound) &&
           a_params->keep_sign == b_params->keep_sign;
}
