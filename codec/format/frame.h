/* The frame of a stream: the bytes before the body. doc/format.md, "Frame". */
#pragma once

#include <assert.h>

#include "codec/api/terp.h"
#include "codec/format/coding.h"

TERP_C_BEGIN

#define TERP_FORMAT_VERSION 1

/* Largest number of bytes by which a stream can exceed its chunk. */
#define TERP_MAX_FRAME_NBYTES 64

/* Predictors as the stream numbers them. Values are pinned. */
enum terp_prediction {
    TERP_PREDICTION_NONE = 0,
    TERP_PREDICTION_SPLINE = 1,
    TERP_PREDICTION_LORENZO = 2,
    TERP_PREDICTION_LOSSLESS = 3, /* no caller asks for it */
    TERP_NPREDICTIONS
};

/* Symbols come in C order, not in level order. */
static inline TERP_HOST_DEVICE bool
terp_prediction_is_raster(enum terp_prediction prediction)
{
    return prediction >= TERP_PREDICTION_LORENZO;
}

/* What escapes is a value, on the grid if it can be; else an integer. */
static inline TERP_HOST_DEVICE bool
terp_prediction_has_grid(enum terp_prediction prediction)
{
    return prediction == TERP_PREDICTION_SPLINE;
}

/* Quantizing finds values that cannot be predicted, and makes the mask of
 * special ones. */
static inline TERP_HOST_DEVICE bool
terp_prediction_makes_mask(enum terp_prediction prediction)
{
    return prediction >= TERP_PREDICTION_LORENZO;
}

/* How many of a stream's first bytes tell every 2nd, 4th or 8th value, and
 * their checksum: the upper half of that of a stream of so many bytes, the
 * table itself being zeros. */
struct terp_prefix {
    uint32_t nbytes, checksum;
};
#define TERP_NPREFIXES 3
#define TERP_PREFIX_NBYTES 8
#define TERP_PREFIXES_NBYTES (TERP_NPREFIXES * TERP_PREFIX_NBYTES)

struct terp_frame {
    struct terp_chunk chunk;
    /* The shape in which the chunk is predicted: the chunk's, which rank 0
     * stands for when a frame is written, or another one of as many values.
     * Raw and constant streams have no other. */
    struct terp_chunk domain;
    enum terp_coding coding;
    enum terp_prediction prediction;
    bool has_specials;
    bool is_pointwise; /* the body begins with codec/format/pointwise.h's head;
                          not of raw and constant */
    double bound;      /* absolute; not stored for raw and constant */
    /* Of a frame that was read: it ends with a table of prefixes, which an
     * encoder puts there once the stream is whole. */
    bool has_prefixes;
    struct terp_prefix prefix[TERP_NPREFIXES];
};

/* Fixed part: magic, version, layout, coding, prediction, checksum. */
#define TERP_FRAME_VERSION_AT 4
#define TERP_FRAME_CODING_AT 6
#define TERP_FRAME_PREDICTION_AT 7
#define TERP_FRAME_PREDICTION 0x0F /* of this byte; and flags: */
#define TERP_FRAME_SPECIALS 0x10
#define TERP_FRAME_DOMAIN 0x20
#define TERP_FRAME_POINTWISE 0x40
#define TERP_FRAME_PREFIXES 0x80
#define TERP_FRAME_CHECKSUM_AT 8
#define TERP_FRAME_DIMS_AT 16
#define TERP_FRAME_RAW_MAX_NBYTES (TERP_FRAME_DIMS_AT + 8 * TERP_MAX_RANK + 1)
static_assert(TERP_FRAME_RAW_MAX_NBYTES <= TERP_MAX_FRAME_NBYTES,
              "No stored chunk is longer than terp.h promises.");
/* With the bound, the domain and prefixes. */
#define TERP_FRAME_MAX_NBYTES                                \
    (TERP_FRAME_RAW_MAX_NBYTES + 8 + 1 + 8 * TERP_MAX_RANK + \
     TERP_PREFIXES_NBYTES)
static_assert(TERP_FRAME_MAX_NBYTES <= TERP_STREAM_HEAD_NBYTES,
              "terp.h promises that no frame is longer.");

/* Whether two chunks of one type have the same shape. */
bool
terp_shapes_are_equal(const struct terp_chunk *a, const struct terp_chunk *b);

/* Whether they are chunks of one type, byte order and shape. */
bool
terp_chunks_are_alike(const struct terp_chunk *a, const struct terp_chunk *b);

/* Of a frame that is written. */
int
terp_frame_nbytes(const struct terp_frame *frame);

/* Writes the frame, its checksum left open and without prefixes. Returns its
 * number of bytes. */
int
terp_frame_write(const struct terp_frame *frame, uint8_t *dst);

/* The checksum is that of the stream's pieces, of so many bytes each: the last
 * one ends where the stream does, and is shorter than two. Each hash counts an
 * odd number of times, so that a change of any one shows, and so does their
 * order. So engines hash pieces side by side. */
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

/* Completes a stream whose other bytes are all in place. */
void
terp_frame_seal(uint8_t *stream, uint64_t stream_nbytes);

/* ---- prefixes ---- */

/* A stream has the table where that is no more than half a percent of it. Of
 * streams below, and such as have no levels, all is needed. */
#define TERP_PREFIXES_MIN_STREAM_NBYTES (200 * TERP_PREFIXES_NBYTES)

/* No prefix is told to be shorter, so that all are hashed in one way. */
#define TERP_PREFIX_MIN_NBYTES 512

/* What is told of a prefix of which `needed_nbytes` are needed. */
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

/* The bytes of a table that ends a frame of `frame_nbytes`, which are zero. */
void
terp_frame_seal_prefixes(uint8_t *stream, int frame_nbytes,
                         const uint32_t nbytes[TERP_NPREFIXES]);

/* TERP_OK when a prefix is there and has its checksum. */
enum terp_status
terp_frame_verify_prefix(const uint8_t *src, uint64_t src_nbytes,
                         const struct terp_prefix *prefix, int frame_nbytes);

/* Reads a frame without verifying the checksum. */
enum terp_status
terp_frame_read(const uint8_t *src, uint64_t src_nbytes,
                struct terp_frame *frame_ret, int *frame_nbytes_ret);

/* A frame that was read, and how long it is. */
struct terp_read_frame {
    struct terp_frame frame;
    int nbytes;
};

/* TERP_OK when the checksum of the whole stream holds. Needs at least
 * TERP_FRAME_DIMS_AT bytes. */
enum terp_status
terp_frame_verify(const uint8_t *src, uint64_t src_nbytes);

TERP_C_END
