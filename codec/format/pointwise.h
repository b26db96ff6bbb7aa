/* How a stream describes a bound relative to each value. doc/format.md,
 * "Pointwise". */
#pragma once

#include "codec/api/terp.h"
#include "codec/format/bytes.h"
#include "codec/format/coding.h"

/* The coded values. The numbers are pinned. */
enum terp_pointwise_form {
    TERP_POINTWISE_ROUNDED = 0, /* rounded values */
    TERP_POINTWISE_LOG_F32 = 1, /* logarithms of values, as float32 */
    TERP_POINTWISE_LOG_F64 = 2,
    TERP_NPOINTWISE_FORMS
};

/* The signs of values whose logarithms are coded. The numbers are pinned. */
enum terp_pointwise_signs {
    TERP_SIGNS_POSITIVE = 0,
    TERP_SIGNS_NEGATIVE = 1,
    TERP_SIGNS_MIXED = 2, /* stored in a section */
    TERP_NSIGNS
};

/* Bits of the first byte; its other bits are 0. With a floor, coded values have
 * signs themselves, and this field must be POSITIVE. */
#define TERP_POINTWISE_FORM 0x03u
#define TERP_POINTWISE_SIGNS_SHIFT 2
#define TERP_POINTWISE_SIGNS 0x0Cu
#define TERP_POINTWISE_FLOOR 0x10u

#define TERP_POINTWISE_MAX_SHIFT 2

struct terp_pointwise_head {
    enum terp_pointwise_form form;
    enum terp_pointwise_signs signs;
    double bound; /* relative to each value */
    int center;   /* added to coded values to give logarithms */
    /* The least bound of a value; 0: none. */
    double floor;
    double shift; /* with a floor: subtracted from logarithms */
};

/* The magnitude at which the floor equals the bound relative to a value.
 * Smaller magnitudes are coded as multiples, larger ones as logarithms. */
static inline TERP_HOST_DEVICE double
terp_pointwise_joint(double floor, double bound)
{
    return floor / bound;
}

/* Limits of a joint, near the ends of the type's range. A smaller joint leaves
 * no room for the multiples below it; a larger one makes the inverse of a step
 * too small. */
static inline TERP_HOST_DEVICE bool
terp_pointwise_joint_is_large(double joint, int value_nbytes)
{
    return joint >= (value_nbytes == 4 ? 0x1p-124 : 0x1p-1020);
}

static inline TERP_HOST_DEVICE bool
terp_pointwise_joint_is_small(double joint, int value_nbytes)
{
    return joint <= (value_nbytes == 4 ? 0x1p125 : 0x1p1021);
}

static inline TERP_HOST_DEVICE bool
terp_pointwise_floor_is_valid(const struct terp_pointwise_head *head,
                              int value_nbytes)
{
    const double joint = terp_pointwise_joint(head->floor, head->bound);

    return head->form != TERP_POINTWISE_ROUNDED &&
           head->signs == TERP_SIGNS_POSITIVE && is_bound(head->floor) &&
           terp_pointwise_joint_is_large(joint, value_nbytes) &&
           terp_pointwise_joint_is_small(joint, value_nbytes) &&
           is_bound(head->shift) && head->shift <= TERP_POINTWISE_MAX_SHIFT;
}

static inline TERP_HOST_DEVICE void
terp_pointwise_write_head(struct writer *writer,
                          const struct terp_pointwise_head *head)
{
    write_le(writer,
             (uint64_t)head->form |
                 (uint64_t)head->signs << TERP_POINTWISE_SIGNS_SHIFT |
                 (head->floor > 0 ? TERP_POINTWISE_FLOOR : 0),
             1);
    write_le(writer, double_bits(head->bound), 8);
    if (head->form != TERP_POINTWISE_ROUNDED)
        write_le(writer, (uint64_t)head->center & 0xFFFF, 2);
    if (head->floor > 0) {
        write_le(writer, double_bits(head->floor), 8);
        write_le(writer, double_bits(head->shift), 8);
    }
}

/* Returns false when the stream ends too early or the header is invalid. */
static inline TERP_HOST_DEVICE bool
terp_pointwise_read_head(struct reader *reader, int value_nbytes,
                         struct terp_pointwise_head *head_ret)
{
    const unsigned byte = (unsigned)read_le(reader, 1);
    const int max_center = value_nbytes == 4 ? 128 : 1024;
    const bool has_floor = (byte & TERP_POINTWISE_FLOOR) != 0;

    head_ret->form = (enum terp_pointwise_form)(byte & TERP_POINTWISE_FORM);
    head_ret->signs =
        (enum terp_pointwise_signs)(byte >> TERP_POINTWISE_SIGNS_SHIFT & 3);
    head_ret->bound = double_of_bits(read_le(reader, 8));
    head_ret->center = head_ret->form == TERP_POINTWISE_ROUNDED
                           ? 0
                           : (int16_t)read_le(reader, 2);
    head_ret->floor = has_floor ? double_of_bits(read_le(reader, 8)) : 0;
    head_ret->shift = has_floor ? double_of_bits(read_le(reader, 8)) : 0;
    return !reader->underflow &&
           (byte & ~(TERP_POINTWISE_FORM | TERP_POINTWISE_SIGNS |
                     TERP_POINTWISE_FLOOR)) == 0 &&
           head_ret->form < TERP_NPOINTWISE_FORMS &&
           head_ret->signs < TERP_NSIGNS &&
           (head_ret->form != TERP_POINTWISE_ROUNDED ||
            head_ret->signs == TERP_SIGNS_POSITIVE) &&
           is_bound(head_ret->bound) && head_ret->bound < 1 &&
           head_ret->center >= -max_center && head_ret->center <= max_center &&
           (!has_floor ||
            terp_pointwise_floor_is_valid(head_ret, value_nbytes));
}

/* ---- signs ---- */

/* Eight signs make a byte, and a byte is a symbol of tiles of this coding. The
 * section's length in this many bytes precedes them. */
#define TERP_SIGNS_CODING TERP_CODING_CUSTOM
#define TERP_SIGNS_LENGTH_NBYTES 8

static inline TERP_HOST_DEVICE unsigned
terp_sign_symbol(uint8_t byte)
{
    return (unsigned)(TERP_RADIUS + (int8_t)byte);
}

static inline TERP_HOST_DEVICE bool
terp_sign_symbol_is_valid(unsigned symbol)
{
    return symbol - (TERP_RADIUS + INT8_MIN) <= UINT8_MAX;
}

static inline TERP_HOST_DEVICE uint8_t
terp_sign_byte(unsigned symbol)
{
    return (uint8_t)(symbol - TERP_RADIUS);
}

/* ---- what is coded ---- */

/* The type of the coded values. */
static inline TERP_HOST_DEVICE enum terp_type
terp_pointwise_type(enum terp_pointwise_form form, enum terp_type type)
{
    return form == TERP_POINTWISE_ROUNDED   ? type
           : form == TERP_POINTWISE_LOG_F32 ? TERP_FLOAT32
                                            : TERP_FLOAT64;
}
