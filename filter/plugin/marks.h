/* Streams that HDF5 gets instead of values. In a collective write HDF5 copies
 * the values of a chunk, exchanges chunks between processes, and then calls the
 * filter. Where no other process writes to a chunk, the connector encodes it
 * first, and lets HDF5 write a mark: 16 bytes in place of the chunk's first
 * values. HDF5 hands this chunk to the filter in the same thread, and the
 * filter returns the stream that the mark stands for. */
#pragma once

#include <stdbool.h>

#include "codec/api/terp.h"

#define TERP_MARK_NBYTES 16

/* The marks of one call of H5Dwrite; none (`nchunks` 0) where this process has
 * nothing to mark, but may get marks of others. */
struct terp_marks {
    uint32_t name;    /* differs from that of other calls */
    uint32_t nchunks; /* and streams: */
    void **stream;    /* the host's memory; NULL: was taken */
    const uint64_t *stream_nbytes;
    const struct terp_run_result *result; /* of encoding */
    bool replace_all;  /* no value of a chunk that HDF5 decodes is kept */
    uint64_t ntaken;   /* streams that the filter has returned */
    uint64_t nforeign; /* marks of other calls that the filter has got */
};

void
terp_marks_write(const struct terp_marks *marks, uint32_t number,
                 uint8_t mark_ret[TERP_MARK_NBYTES]);

/* Offers marks to the filter's calls in this thread, until NULL is offered.
 * The filter counts the marks that it finds. */
void
terp_marks_offer(struct terp_marks *marks);

/* What this thread was offered, or NULL. */
const struct terp_marks *
terp_marks_offered(void);

enum terp_mark {
    TERP_MARK_NONE,   /* the chunk begins with values */
    TERP_MARK_FOUND,  /* the stream is taken */
    TERP_MARK_FOREIGN /* another process has marked the chunk */
};

/* Looks for a mark at the beginning of a chunk of `nbytes`, and takes its
 * stream, which the caller releases. */
enum terp_mark
terp_marks_take(const void *chunk, uint64_t nbytes, void **stream_ret,
                uint64_t *stream_nbytes_ret);
