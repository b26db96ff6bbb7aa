/* Values that repeat earlier values: their distances, their differences, and
 * all other values are streams of their own. */
#pragma once

#include "codec/compose/coder.h"

/* Encodes chunk i of a batch with references, and replaces the chunk's stream
 * if the result is shorter. *saved_nbits_ret: the bits that references
 * save, estimated. */
enum terp_status
terp_references_encode(const struct terp_coder *coder,
                       const struct terp_batch *batch, uint64_t i,
                       struct terp_reference_bound bound,
                       uint64_t *saved_nbits_ret);

/* Encodes chunk i likewise if a sample tells that values are about as large as
 * those a fixed distance before them. A device leaves such a chunk to the
 * CPU. *saved_nbits changes only if the chunk's stream is replaced. */
enum terp_status
terp_references_encode_at_lag(const struct terp_coder *coder,
                              const struct terp_batch *batch, uint64_t i,
                              uint64_t *saved_nbits);
