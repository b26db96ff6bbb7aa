/* Chunks that netCDF will overwrite in a Zarr store.
 *
 * netCDF (all versions up to 4.10.1) writes a new stream over the old one in
 * the chunk's file, and does not cut the file: if the new stream is shorter,
 * the end of the old one stays behind it. The checksum of a stream covers all
 * bytes of the file, so nobody could read the chunk. Before netCDF overwrites a
 * chunk, it decodes the old stream and changes the values in the buffer. So
 * this table remembers how long the stream was that was decoded to a buffer,
 * and the filter then writes no shorter one. Where netCDF has dropped a buffer
 * unchanged and allocated another at its address, a new chunk may be stored
 * uncompressed without need.
 *
 * netCDF does not allow calls from several threads; the lock here only keeps
 * the table intact. */
#pragma once

#include "codec/api/cd_values.h"

/* Words that the codec for NCZarr adds behind the filter's cd_values: a mark,
 * which HDF5 never passes, and a number for each variable that netCDF opens. */
#define TERP_OVERWRITE_NWORDS 2

/* Writes the words for a variable that netCDF has opened. Safe for threads. */
void
terp_overwrite_mark(unsigned words_ret[TERP_OVERWRITE_NWORDS]);

/* Remembers that a stream of `stream_nbytes` was decoded to the buffer
 * `values`, if the `words`, which were parsed to `cd`, have the mark. Forgets
 * the oldest stream where the table is full. */
void
terp_overwrite_note(const struct terp_cd *cd, size_t nwords,
                    const unsigned *words, const void *values,
                    uint64_t stream_nbytes);

/* Returns the length of the stream that was decoded to the buffer `values`; 0:
 * no such stream, or `words` without the mark. Forgets the buffer, because
 * netCDF releases it after encoding. */
uint64_t
terp_overwrite_take(const struct terp_cd *cd, size_t nwords,
                    const unsigned *words, const void *values);
