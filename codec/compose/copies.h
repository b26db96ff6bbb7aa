/* Chunks that do not change along some dimensions: what is left without copies
 * is a stream of its own. */
#pragma once

#include "codec/compose/coder.h"

/* Encodes what is left of a chunk. */
typedef enum terp_status
terp_copies_encoder(const struct terp_coder *coder,
                    const struct terp_batch *batch);

/* Has a shorter stream of chunk i of a batch, without copies along the
 * dimensions that the facts tell, where there is one; `encode` encodes what is
 * left of the chunk. */
enum terp_status
terp_copies_encode(const struct terp_coder *coder,
                   const struct terp_batch *batch, uint64_t i,
                   const struct terp_facts *facts, terp_copies_encoder *encode);
