/* Inner streams (*parts* in names), and the body of a stream of complex values,
 * which holds one inner stream of the real and one of the imaginary parts.
 * doc/format.md, "Inner streams", "Complex values". */
#pragma once

#include "codec/format/bytes.h"
#include "codec/format/frame.h"
#include "codec/format/types.h"

TERP_C_BEGIN

/* An inner stream keeps only two bytes of the fixed part of its frame (coding
 * and prediction), and the bytes behind the dims. The rest follows from the
 * outer chunk. */
#define TERP_PART_NKEPT 2

/* Bytes that suffice to read an inner stream's length and frame. */
#define TERP_PART_HEAD_NBYTES (9 + TERP_FRAME_MAX_NBYTES)

/* An inner stream: its frame, all its bytes, and its body. */
struct terp_part {
    struct terp_frame frame;
    const uint8_t *bytes;
    uint64_t nbytes;
    const uint8_t *body;
    uint64_t body_nbytes;
};

/* Appends the caller's bound, the first field of the body. */
void
terp_parts_write_bound(struct writer *writer, double bound);

/* Bytes of the frame of an inner stream of the chunk `part`, up to the end of
 * the dims: an inner stream leaves these out but for TERP_PART_NKEPT. */
uint64_t
terp_part_common_nbytes(const struct terp_chunk *part);

/* Appends the length of an inner stream, which precedes each but the last.
 * `stream_nbytes` is the length as a stream with a complete frame. */
void
terp_part_write_nbytes(struct writer *writer, const struct terp_chunk *part,
                       uint64_t stream_nbytes);

/* Appends an inner stream, made from a stream with a complete frame, and before
 * each but the last its length. */
void
terp_parts_write(struct writer *writer, const struct terp_chunk *part,
                 const uint8_t *stream, uint64_t stream_nbytes, bool last);

/* Reads the frame of an inner stream of the chunk `part`; `version` is the
 * outer stream's. Bytes behind the first TERP_PART_HEAD_NBYTES are not read. */
enum terp_status
terp_part_read(const struct terp_chunk *part, int version, const uint8_t *bytes,
               uint64_t nbytes, struct terp_part *part_ret);

/* Reads the frames of both inner streams of `chunk`; `version` is the outer
 * stream's. Errors: TERP_ERR_TRUNCATED, TERP_ERR_CORRUPT. */
enum terp_status
terp_parts_read(const struct terp_chunk *chunk, int version,
                const uint8_t *body, uint64_t body_nbytes, double *bound_ret,
                struct terp_part parts_ret[TERP_NPARTS]);

TERP_C_END
