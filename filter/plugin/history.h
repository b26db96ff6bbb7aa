/* Streams that the process decoded recently. When a program writes some values
 * of a chunk, HDF5 decodes the chunk, changes it and encodes it. The filter
 * then finds the old stream here, and so what the values were
 * (codec/api/rewrite.h).
 *
 * All functions may be called from any thread. In a child process that was
 * forked while another thread held the lock, nothing is remembered any more. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/api/terp.h"

/* Bounds the memory that a process spends on remembered streams and their
 * descriptions; the oldest streams go first. A larger bound would help only
 * programs that change a chunk after 64 MiB of other streams were decoded. */
#define TERP_HISTORY_NBYTES (UINT64_C(64) << 20)

struct terp_remembered;

/* Remembers a copy of `stream`, which was decoded to `values` under these
 * cd_values; HDF5 gets `values` next. Does nothing where memory is missing. */
void
terp_history_add(size_t nwords, const unsigned *words,
                 const struct terp_chunk *chunk, const void *stream,
                 uint64_t stream_nbytes, const void *values);

/* The stream, with the same cd_values and the same kind of chunk, whose decoded
 * values the program may have changed to `values`. The stream with the most
 * equal sampled values wins; then the stream that was decoded to the same
 * address; then the newest. NULL: no stream has an equal sample or the same
 * address. The caller passes the result to terp_history_end. */
struct terp_remembered *
terp_history_find(size_t nwords, const unsigned *words,
                  const struct terp_chunk *chunk, const void *values);

const void *
terp_history_stream(const struct terp_remembered *remembered,
                    uint64_t *nbytes_ret);

/* Ends the use of the stream that was found for `values`. Forgets the stream
 * where HDF5 passed the very buffer that it was decoded to: HDF5 will not
 * encode that buffer once more. */
void
terp_history_end(struct terp_remembered *remembered, const void *values);
