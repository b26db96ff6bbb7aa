/* Chunks of few different values: a table of these, and the rank of each value
 * in the table, are streams of their own. */
#pragma once

#include "codec/compose/coder.h"

/* Has streams of ranks of the chunks at[0] to at[n - 1] of a batch, of which
 * all bits may come back, where they are worth it. A device leaves to the CPU
 * the chunks whose samples have few different values. */
enum terp_status
terp_ranks_encode(const struct terp_coder *coder,
                  const struct terp_batch *batch, uint64_t n, uint64_t *at);

/* Of the chunks at[0] to at[*n - 1] leaves those that have few different values
 * so far from each other that to lose nothing takes about as many bytes as the
 * bound does. A device leaves them to the CPU, and none in the list. */
enum terp_status
terp_ranks_choose(const struct terp_coder *coder,
                  const struct terp_batch *batch,
                  const struct terp_facts *facts, uint64_t *n, uint64_t *at);
