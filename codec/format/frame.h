/* The frame of a stream: the bytes before the body. doc/format.md, "Frame". */
#pragma once

#include <assert.h>

#include "codec/api/terp.h"
#include "codec/format/coding.h"

TERP_C_BEGIN

/* The first version, and the newest one, which an encoder writes only if the
 * first one lacks a coding that the stream uses. */
#define TERP_FORMAT_FIRST_VERSION 1
#define TERP_FORMAT_VERSION 2

/* A stream exceeds its chunk by at most this many bytes. */
#define TERP_MAX_FRAME_NBYTES 64

/* The predictor of a frame. Values are pinned. */
enum terp_prediction {
    TERP_PREDICTION_NONE = 0,
    TERP_PREDICTION_SPLINE = 1,
    TERP_PREDICTION_LORENZO = 2,
    TERP_PREDICTION_LOSSLESS = 3, /* chosen by encoders only */
    TERP_NPREDICTIONS
};

/* Whether symbols stand in C order; otherwise they stand in level order. */
static inline TERP_HOST_DEVICE bool
terp_prediction_is_raster(enum terp_prediction prediction)
{
    return prediction >= TERP_PREDICTION_LORENZO;
}

/* Whether an escape stores a value, as its number on a grid of steps if
 * possible. Otherwise an escape stores an integer. */
static inline TERP_HOST_DEVICE bool
terp_prediction_has_grid(enum terp_prediction prediction)
{
    return prediction == TERP_PREDICTION_SPLINE;
}

/* Whether quantizing finds unpredictable values, and so completes the mask of
 * special values. */
static inline TERP_HOST_DEVICE bool
terp_prediction_makes_mask(enum terp_prediction prediction)
{
    return prediction >= TERP_PREDICTION_LORENZO;
}

/* A prefix: how many of a stream's first bytes suffice to decode every 2nd, 4th
 * or 8th value, and their checksum. It is the upper half of the checksum of a
 * stream of `nbytes` bytes, with zeros in place of the table of prefixes. */
struct terp_prefix {
    uint32_t nbytes, checksum;
};
#define TERP_NPREFIXES 3
#define TERP_PREFIX_NBYTES 8
#define TERP_PREFIXES_NBYTES (TERP_NPREFIXES * TERP_PREFIX_NBYTES)

struct terp_frame {
    struct terp_chunk chunk;
    /* The shape in which the chunk is predicted: that of the chunk, or another
     * with as many values. A writer may leave its rank 0 for the chunk's shape.
     * Raw and constant streams have no other shape. */
    struct terp_chunk domain;
    enum terp_coding coding;
    enum terp_prediction prediction;
    bool has_specials;
    bool is_pointwise; /* the body begins with a terp_pointwise_head; false for
                          raw and constant */
    double bound;      /* absolute; not stored for raw and constant */
    /* Set by terp_frame_read: the frame ends with a table of prefixes. An
     * encoder adds the table when the stream is complete. */
    bool has_prefixes;
    struct terp_prefix prefix[TERP_NPREFIXES];
    /* 0, when a frame is written, is the first one. Of a part: that of the
     * stream around it. */
    int version;
};

/* Offsets of the fixed fields: magic, version, layout, coding, prediction,
 * checksum. */
#define TERP_FRAME_VERSION_AT 4
#define TERP_FRAME_CODING_AT 6
#define TERP_FRAME_PREDICTION_AT 7
#define TERP_FRAME_PREDICTION 0x0F /* the other bits are flags: */
#define TERP_FRAME_SPECIALS 0x10
#define TERP_FRAME_DOMAIN 0x20
#define TERP_FRAME_POINTWISE 0x40
#define TERP_FRAME_PREFIXES 0x80
#define TERP_FRAME_CHECKSUM_AT 8
#define TERP_FRAME_DIMS_AT 16
#define TERP_FRAME_RAW_MAX_NBYTES (TERP_FRAME_DIMS_AT + 8 * TERP_MAX_RANK + 1)
static_assert(TERP_FRAME_RAW_MAX_NBYTES <= TERP_MAX_FRAME_NBYTES,
              "No stored chunk is longer than terp.h promises.");
/* With bound, domain and prefixes. */
#define TERP_FRAME_MAX_NBYTES                                \
    (TERP_FRAME_RAW_MAX_NBYTES + 8 + 1 + 8 * TERP_MAX_RANK + \
     TERP_PREFIXES_NBYTES)
static_assert(TERP_FRAME_MAX_NBYTES <= TERP_STREAM_HEAD_NBYTES,
              "terp.h promises that no frame is longer.");

/* Whether rank, stack flag and dims are equal. */
bool
terp_shapes_are_equal(const struct terp_chunk *a, const struct terp_chunk *b);

/* Whether type, byte order and shape are equal. */
bool
terp_chunks_are_alike(const struct terp_chunk *a, const struct terp_chunk *b);

/* Bytes of a frame, without prefixes. */
int
terp_frame_nbytes(const struct terp_frame *frame);

/* Writes the frame without checksum and prefixes. Returns its number of
 * bytes. */
int
terp_frame_write(const struct terp_frame *frame, uint8_t *dst);

/* The checksum is a sum over pieces of this many bytes; the last piece ends
 * with the stream and is shorter than two pieces. Each piece's hash is
 * multiplied by an odd number of its own: any changed hash, and any swap of
 * pieces, changes the sum. Engines hash pieces in parallel. */
#define TERP_CHECKSUM_PIECE_NBYTES (UINT64_C(1) << 14)

static inline TERP_HOST_DEVICE uint64_t
terp_checksum_npieces(uint64_t nbytes)
{
    const uint64_t n = nbytes / TERP_CHECKSUM_PIECE_NBYTES;
    return n > 0 ? n : 1;
}

static inline TERP_HOST_DEVICE uint64_t
terp_checksum_share(uint64_t hash, uint64_t piece)
{
    return hash * (2 * piece + 1);
}

/* Writes the checksum. All other bytes of the stream must be complete. */
void
terp_frame_seal(uint8_t *stream, uint64_t stream_nbytes);

/* ---- prefixes ---- */

/* A shorter stream has no table of prefixes, because the table would be more
 * than half a percent of it. To decode any lattice of a shorter stream, or of a
 * stream without levels, all its bytes are needed. */
#define TERP_PREFIXES_MIN_STREAM_NBYTES (200 * TERP_PREFIXES_NBYTES)

/* Shorter prefixes are stored as this many bytes: prefixes of at least this
 * length are all hashed in one way. */
#define TERP_PREFIX_MIN_NBYTES 512

/* The stored length of a prefix of which `needed_nbytes` are needed. */
static inline TERP_HOST_DEVICE uint32_t
terp_prefix_nbytes(uint64_t needed_nbytes)
{
    return (uint32_t)(needed_nbytes > TERP_PREFIX_MIN_NBYTES
                          ? needed_nbytes
                          : TERP_PREFIX_MIN_NBYTES);
}

static inline TERP_HOST_DEVICE uint32_t
terp_prefix_checksum(uint64_t checksum)
{
    return (uint32_t)(checksum >> 32);
}

/* Fills the table of prefixes at the end of a frame of `frame_nbytes`, which
 * must be zero. */
void
terp_frame_seal_prefixes(uint8_t *stream, int frame_nbytes,
                         const uint32_t nbytes[TERP_NPREFIXES]);

/* TERP_OK when the prefix is complete and its checksum is right. */
enum terp_status
terp_frame_verify_prefix(const uint8_t *src, uint64_t src_nbytes,
                         const struct terp_prefix *prefix, int frame_nbytes);

/* Reads a frame; does not verify the checksum. */
enum terp_status
terp_frame_read(const uint8_t *src, uint64_t src_nbytes,
                struct terp_frame *frame_ret, int *frame_nbytes_ret);

/* A frame read from a stream, and its number of bytes. */
struct terp_read_frame {
    struct terp_frame frame;
    int nbytes;
};

/* TERP_OK when the checksum of the whole stream is right. `src` must have at
 * least TERP_FRAME_DIMS_AT bytes. */
enum terp_status
terp_frame_verify(const uint8_t *src, uint64_t src_nbytes);

TERP_C_END
