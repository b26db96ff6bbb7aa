/* Streams that were decoded lately, in the whole process: when HDF5 writes a
 * part of a chunk, it has the chunk decoded, and encoded again once it is
 * changed. The filter then knows what the values were (codec/api/rewrite.h).
 *
 * All functions may be called from any thread. A child that was forked while
 * another thread held the lock remembers nothing more. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/api/terp.h"

/* What is kept at most, of streams and what describes them. */
#define TERP_HISTORY_NBYTES (UINT64_C(64) << 20)

struct terp_remembered;

/* Remembers a copy of the stream that `values`, which HDF5 gets, were decoded
 * from under these cd_values. Where there is no memory, it is not. */
void
terp_history_add(size_t nwords, const unsigned *words,
                 const struct terp_chunk *chunk, const void *stream,
                 uint64_t stream_nbytes, const void *values);

/* The stream that `values` may be a change of, by the same cd_values and of a
 * chunk like this: that whose decoded values HDF5 got at the same place, else
 * one of which sampled values are equal. NULL: there is none. To be given to
 * terp_history_end. */
struct terp_remembered *
terp_history_find(size_t nwords, const unsigned *words,
                  const struct terp_chunk *chunk, const void *values);

const void *
terp_history_stream(const struct terp_remembered *remembered,
                    uint64_t *nbytes_ret);

/* Ends the use of what was found for `values`, and forgets it where they are at
 * the place of the decoded ones: HDF5 hands them over. */
void
terp_history_end(struct terp_remembered *remembered, const void *values);
