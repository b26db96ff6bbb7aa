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

/* Where a body has its parts, from its begin. */
struct terp_parts_places {
    double bound;
    uint64_t at[TERP_NPARTS], nbytes[TERP_NPARTS];
};

/* By a body's first bytes, which suffice; `body_nbytes` of all.
 * TERP_ERR_TRUNCATED, or TERP_ERR_CORRUPT. */
#define TERP_PARTS_HEAD_MAX_NBYTES (8 + 9)
enum terp_status
terp_parts_find(const uint8_t *body, uint64_t body_nbytes,
                struct terp_parts_places *places_ret);

/* Writes the begin of a part's frame as a stream has it that is no part: what
 * the part has behind its first TERP_PART_NKEPT `bytes` comes next. Returns how
 * long it is. */
int
terp_part_write_frame(const struct terp_chunk *part, const uint8_t *bytes,
                      uint8_t frame[TERP_FRAME_MAX_NBYTES]);

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
