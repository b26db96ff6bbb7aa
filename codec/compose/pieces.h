/* Assembles a stream from its frame, from numbers, and from other streams. Of
 * another stream's frame only the fields are copied that can differ from the
 * outer frame. */
#pragma once

#include "codec/compose/coder.h"
#include "codec/format/parts.h"

/* Host bytes of a stream: a frame, a bound or a marker, and numbers. */
#define TERP_PIECES_HOST_NBYTES (TERP_FRAME_MAX_NBYTES + 64)
#define TERP_MAX_NPIECES 12

struct terp_pieces {
    uint8_t host[TERP_PIECES_HOST_NBYTES];
    struct writer writer; /* writes to `host` */
    const uint8_t *begin; /* of host bytes that are not yet in `piece` */
    int n;
    struct terp_piece piece[TERP_MAX_NPIECES];
    uint64_t nbytes; /* of all pieces */
    void *dst;       /* the stream's place; NULL: it is not written */
};

/* A part's stream, or its stored values. */
struct terp_coded_part {
    const uint8_t *at;
    uint64_t stream_nbytes; /* 0: the values are stored */
};

void
terp_pieces_begin(struct terp_pieces *pieces);

/* Adds a frame. */
void
terp_pieces_add_frame(struct terp_pieces *pieces,
                      const struct terp_frame *frame);

/* Adds bytes from the engine's memory. */
void
terp_pieces_add(struct terp_pieces *pieces, const void *at, uint64_t nbytes);

/* Adds a part of shape `chunk`, preceded by its size unless it is the last. */
void
terp_pieces_add_part(struct terp_pieces *pieces, const struct terp_chunk *chunk,
                     struct terp_coded_part part, bool is_last);

/* Gives the stream the version of an inner stream, if that is higher. On a
 * device all inner streams have version 1. */
void
terp_pieces_raise_version(const struct terp_coder *coder,
                          struct terp_pieces *pieces,
                          struct terp_coded_part part);

/* Ends the list, and returns the size of the stream. */
uint64_t
terp_pieces_end(struct terp_pieces *pieces);

/* Writes n streams to their `dst`, with checksums. */
enum terp_status
terp_pieces_write(const struct terp_coder *coder, uint64_t n,
                  const struct terp_pieces *pieces);
