/* Chunks that do not change along some dimensions: the values without the
 * copies are coded as a stream of their own. */
#pragma once

#include "codec/compose/coder.h"

/* Encodes the values that remain without copies. */
typedef enum terp_status
terp_copies_encoder(const struct terp_coder *coder,
                    const struct terp_batch *batch);

/* Encodes chunk i of a batch without the copies along dimensions facts->copied,
 * and replaces the chunk's stream if the result is shorter. `encode` encodes
 * the values that remain. */
enum terp_status
terp_copies_encode(const struct terp_coder *coder,
                   const struct terp_batch *batch, uint64_t i,
                   const struct terp_facts *facts, terp_copies_encoder *encode);
