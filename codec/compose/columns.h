/* Streams of columns: tables whose columns are unlike each other. */
#pragma once

#include "codec/compose/coder.h"

/* Encodes the chunks of a batch, other than as columns. */
typedef enum terp_status
terp_columns_encoder(const struct terp_coder *coder,
                     const struct terp_batch *batch);

/* Tries columns for chunks at[0] to at[n - 1] of a batch, which may be tables,
 * and keeps the streams that are smaller by at least 2 %. `encode` encodes
 * groups of columns, under the absolute bound in the facts of their chunk. If
 * samples suggest a trial of a chunk, a device leaves that chunk to the CPU. */
enum terp_status
terp_columns_encode(const struct terp_coder *coder,
                    const struct terp_batch *batch,
                    const struct terp_facts *facts, uint64_t n,
                    const uint64_t *at, terp_columns_encoder *encode);
