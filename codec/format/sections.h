/* Constants and arithmetic of a stream's sections that both engines use: model,
 * specials, escapes, index of tiles. doc/format.md describes the sections. */
#pragma once

#include "codec/format/bytes.h"
#include "codec/format/coding.h"
#include "codec/format/frame.h"
#include "codec/format/layout.h"
#include "codec/format/limits.h"
#include "codec/format/lossless.h"

/* ---- model ---- */

/* Bytes of the exact quants in Lorenzo's model, if it has them. */
#define TERP_EXACT_NBYTES 4

/* Bytes of the model. The center of a lossless model is not counted. */
static inline TERP_HOST_DEVICE uint64_t
terp_model_nbytes(enum terp_prediction prediction, int value_nbytes,
                  int nlevels, bool exact, bool tails)
{
    return prediction == TERP_PREDICTION_SPLINE
               ? 1 + (uint64_t)value_nbytes + 2 * (uint64_t)nlevels
           : prediction == TERP_PREDICTION_LOSSLESS
               ? 1 + TERP_LOSSLESS_MODEL_NBYTES
               : 2 + (uint64_t)(exact ? TERP_EXACT_NBYTES : 0) + tails;
}

/* ---- specials ---- */

/* The most distinct special values (colors) that runs can tell apart. If there
 * are more, the section stores every special value and its head has 0 colors.
 */
#define TERP_SPECIALS_MAX_NCOLORS 15

/* The head's byte of colors holds the dimension of the mask delta from this bit
 * on. */
#define TERP_SPECIALS_DELTA_SHIFT 4

/* The numbers that describe runs are packed in groups of this many, each with
 * its own width. */
#define TERP_SPECIALS_GROUP_NNUMBERS 64
#define TERP_SPECIALS_MAX_NBITS 56

/* The fields of a run: values between the last run and this one, its length - 1
 * and, if there are several colors, its color. */
enum terp_specials_field {
    TERP_SPECIALS_GAP,
    TERP_SPECIALS_MORE,
    TERP_SPECIALS_COLOR,
    TERP_SPECIALS_NFIELDS
};

static inline TERP_HOST_DEVICE int
terp_specials_nfields(int ncolors)
{
    return ncolors > 1 ? TERP_SPECIALS_NFIELDS : TERP_SPECIALS_COLOR;
}

/* The distance of a mask delta, in values: one step along dimension d, or one
 * brick if d is the last dimension + 1. The stored mask is then the XOR of the
 * mask and the mask shifted by this distance. Returns 0 when the distance would
 * be too short to save bytes, or would reach beyond the chunk. */
#define TERP_MIN_MASK_DELTA_DISTANCE 64
static inline TERP_HOST_DEVICE uint64_t
terp_mask_delta_distance(const struct terp_layout *layout, int d)
{
    uint64_t distance = 1;
    for (int e = 0; e < d; e++)
        distance *= layout->dims[e];
    return distance >= TERP_MIN_MASK_DELTA_DISTANCE &&
                   distance < layout->nvalues
               ? distance
               : 0;
}

/* The head of a section. */
struct terp_specials_head {
    uint64_t nruns;
    uint64_t mask_delta_distance; /* 0: runs of the mask itself */
    int ncolors;                  /* 0: every special value is stored */
    int nfields;                  /* of a run */
};

static inline TERP_HOST_DEVICE void
terp_specials_write_head(struct writer *writer, uint64_t nruns, int ncolors,
                         int mask_delta_dim)
{
    write_uleb(writer, nruns);
    write_le(writer,
             (uint64_t)(ncolors | mask_delta_dim << TERP_SPECIALS_DELTA_SHIFT),
             1);
}

/* Returns false when the stream ends too early or the head is invalid. */
static inline TERP_HOST_DEVICE bool
terp_specials_read_head(struct reader *reader, const struct terp_layout *layout,
                        struct terp_specials_head *head_ret)
{
    uint64_t nruns = read_uleb(reader);
    unsigned byte = (unsigned)read_le(reader, 1);
    unsigned ncolors = byte & TERP_SPECIALS_MAX_NCOLORS;
    unsigned mask_delta_dim = byte >> TERP_SPECIALS_DELTA_SHIFT;
    bool valid = !reader->underflow && nruns <= layout->nvalues &&
                 mask_delta_dim <= TERP_NDIMS;

    head_ret->nruns = nruns;
    head_ret->mask_delta_distance = 0;
    head_ret->ncolors = (int)ncolors;
    head_ret->nfields = terp_specials_nfields((int)ncolors);
    if (valid && mask_delta_dim > 0) {
        head_ret->mask_delta_distance =
            terp_mask_delta_distance(layout, (int)mask_delta_dim);
        valid = ncolors == 1 && head_ret->mask_delta_distance > 0;
    }
    return valid;
}

/* ---- escapes ---- */

/* Bytes that hold the largest of some numbers; `all` is the bitwise OR of all
 * of them. */
static inline TERP_HOST_DEVICE int
terp_number_nbytes(uint64_t all)
{
    return (bit_width(all | 1) + 7) / 8;
}

/* Bytes of an escape. `number_nbytes` comes from the section's head; 0: the
 * section holds raw values. */
static inline TERP_HOST_DEVICE int
terp_escape_nbytes(int number_nbytes, int value_nbytes)
{
    return number_nbytes == 0 ? value_nbytes : number_nbytes;
}

static inline TERP_HOST_DEVICE bool
terp_escapes_are_valid(uint64_t nescapes, int number_nbytes, uint64_t nvalues,
                       int value_nbytes)
{
    return nescapes <= nvalues && number_nbytes <= value_nbytes;
}

/* ---- index of tiles ---- */

/* A partition's control byte: the width of its tiles' lengths in bits, and a
 * flag: whether the partition is reduced. */
#define TERP_CONTROL_WIDTH 0x7Fu
#define TERP_CONTROL_REDUCED 0x80u
#define TERP_LENGTH_MAX_NBITS 16

#define TERP_OFFSET_MAX_NBYTES 8

static inline TERP_HOST_DEVICE uint8_t
terp_partition_control(unsigned width, bool reduced)
{
    return (uint8_t)(width | (reduced ? TERP_CONTROL_REDUCED : 0));
}

static inline TERP_HOST_DEVICE int
terp_offset_nbytes(uint64_t payload_nbytes)
{
    return (bit_width(payload_nbytes) + 7) / 8;
}
