/* Streams that hold other streams: what their bodies tell of these. A body is
 * read part by part, of each part only the first bytes: a device shows the host
 * no more of a stream. */
#pragma once

#include "codec/format/parts.h"

TERP_C_BEGIN

#define TERP_HELD_MAX_NPARTS 3

/* Bytes from which a part is read: what comes before the first part, and the
 * head of a part. */
#define TERP_HELD_HEAD_NBYTES (8 + 9 + TERP_PART_HEAD_NBYTES)

/* Of a stream whose coding is TERP_CODING_PARTS, _COPIES or _REFERENCES. */
struct terp_held {
    struct terp_chunk chunk;
    enum terp_coding coding;
    int nparts, next;
    double bound;                 /* of complex values */
    unsigned dims;                /* of copies */
    uint64_t marker, nreferences; /* of references */
};

void
terp_held_begin(const struct terp_frame *frame, struct terp_held *held_ret);

/* Reads the next part, which begins at `seen`, the body's first byte for the
 * first one; `left_nbytes` of the body are from there on, of which
 * TERP_HELD_HEAD_NBYTES suffice. part_ret points behind `seen`. `*read_nbytes`
 * is the distance to the next part. TERP_ERR_TRUNCATED, or TERP_ERR_CORRUPT. */
enum terp_status
terp_held_read(struct terp_held *held, const uint8_t *seen,
               uint64_t left_nbytes, struct terp_part *part_ret,
               uint64_t *read_nbytes);

TERP_C_END
