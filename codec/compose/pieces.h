/* A stream that is put together: its frame, numbers, and other streams of which
 * it has all but what their frames have in common with its own. */
#pragma once

#include "codec/compose/coder.h"
#include "codec/format/parts.h"

/* Bytes on the host: a frame, a bound or a marker, and numbers. */
#define TERP_PIECES_HOST_NBYTES (TERP_FRAME_MAX_NBYTES + 64)
#define TERP_MAX_NPIECES 12

struct terp_pieces {
    uint8_t host[TERP_PIECES_HOST_NBYTES];
    struct writer writer; /* to `host` */
    const uint8_t *begin; /* of what is not yet a piece */
    int n;
    struct terp_piece piece[TERP_MAX_NPIECES];
    uint64_t nbytes; /* of the pieces */
    void *dst;       /* where the stream goes; NULL: nowhere */
};

/* A part's stream, or its values where these are stored. */
struct terp_coded_part {
    const uint8_t *at;
    uint64_t stream_nbytes; /* 0: they are stored */
};

void
terp_pieces_begin(struct terp_pieces *pieces);

/* Adds a frame. */
void
terp_pieces_add_frame(struct terp_pieces *pieces,
                      const struct terp_frame *frame);

/* Adds bytes of the engine's memory. */
void
terp_pieces_add(struct terp_pieces *pieces, const void *at, uint64_t nbytes);

/* Adds a part of such a chunk; before all but the last how long it is. */
void
terp_pieces_add_part(struct terp_pieces *pieces, const struct terp_chunk *chunk,
                     struct terp_coded_part part, bool is_last);

/* Ends the list, of so many bytes. */
uint64_t
terp_pieces_end(struct terp_pieces *pieces);

/* Puts streams together at their `dst`, with their checksums. */
enum terp_status
terp_pieces_write(const struct terp_coder *coder, uint64_t n,
                  const struct terp_pieces *pieces);
