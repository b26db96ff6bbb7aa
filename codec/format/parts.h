/* The body of a stream of complex values: streams of their real and of their
 * imaginary parts. doc/format.md, "Complex values". */
#pragma once

#include "codec/format/bytes.h"
#include "codec/format/frame.h"
#include "codec/format/types.h"

TERP_C_BEGIN

/* Of a part's frame its stream has the coding, the prediction, and what comes
 * behind the dims. */
#define TERP_PART_NKEPT 2

/* What of it is read to tell where it is and how it is coded: the bytes that
 * tell its length, and the frame. */
#define TERP_PART_HEAD_NBYTES (9 + TERP_FRAME_MAX_NBYTES)

/* A part's stream without what its frame has in common with the chunk's. */
struct terp_part {
    struct terp_frame frame;
    const uint8_t *bytes;
    uint64_t nbytes;
    const uint8_t *body;
    uint64_t body_nbytes;
};

/* Adds the caller's bound, which comes first. */
void
terp_parts_write_bound(struct writer *writer, double bound);

/* Bytes of the frames of such parts, up to behind the dims. */
uint64_t
terp_part_common_nbytes(const struct terp_chunk *part);

/* Adds how long a part is, of a stream of its chunk: before all but the last.
 */
void
terp_part_write_nbytes(struct writer *writer, const struct terp_chunk *part,
                       uint64_t stream_nbytes);

/* Adds a part, of a stream of its chunk; before all but the last how long it
 * is. */
void
terp_parts_write(struct writer *writer, const struct terp_chunk *part,
                 const uint8_t *stream, uint64_t stream_nbytes, bool last);

/* Reads the frame of a part, which is such a chunk. What stands behind
 * TERP_PART_HEAD_NBYTES is not looked at. */
enum terp_status
terp_part_read(const struct terp_chunk *part, const uint8_t *bytes,
               uint64_t nbytes, struct terp_part *part_ret);

/* Reads the frames of both parts of `chunk`. TERP_ERR_TRUNCATED, or
 * TERP_ERR_CORRUPT. */
enum terp_status
terp_parts_read(const struct terp_chunk *chunk, const uint8_t *body,
                uint64_t body_nbytes, double *bound_ret,
                struct terp_part parts_ret[TERP_NPARTS]);

TERP_C_END
