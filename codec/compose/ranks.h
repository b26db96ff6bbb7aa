/* Encodes chunks of few different values: a table of the values, and the rank
 * of each value in the table, as two inner streams. */
#pragma once

#include "codec/compose/coder.h"

/* Tries streams of ranks for chunks at[0] to at[n - 1] of a batch, all of which
 * may be coded losslessly, keeps them where they are smaller, and records that
 * in the facts. A device leaves chunks to the CPU whose samples have few
 * different values. */
enum terp_status
terp_ranks_encode(const struct terp_coder *coder,
                  const struct terp_batch *batch, struct terp_facts *facts,
                  uint64_t n, uint64_t *at);

/* Tries streams of grids for such chunks, unless they have the same numbers as
 * ranks that were kept, and keeps them where they are smaller. A device leaves
 * chunks to the CPU whose samples are on a grid. */
enum terp_status
terp_grids_encode(const struct terp_coder *coder,
                  const struct terp_batch *batch, struct terp_facts *facts,
                  uint64_t n, const uint64_t *at);

/* Keeps in the list at[0] to at[*n - 1] only chunks with few different values
 * that are far from each other: a lossless stream of such a chunk takes about
 * as many bytes as a stream under the bound. A device leaves the chunks that
 * remain to the CPU and empties the list. */
enum terp_status
terp_ranks_choose(const struct terp_coder *coder,
                  const struct terp_batch *batch,
                  const struct terp_facts *facts, uint64_t *n, uint64_t *at);
