/* How a stream describes its carrier: the float32 or float64 values that are
 * coded in place of integers, 16-bit floats and complex values. A *part* is a
 * value, or the real or the imaginary part of a complex value. doc/format.md,
 * "Carrier". */
#pragma once

#include "codec/format/bytes.h"
#include "codec/format/types.h"

/* Values are pinned. */
enum terp_carrier_form {
    TERP_CARRIER_FLOATS = 0,   /* values of a float type, unchanged */
    TERP_CARRIER_INTS_F32 = 1, /* integers as float32 */
    TERP_CARRIER_INTS_F64 = 2,
    TERP_CARRIER_INTS_BITS = 3, /* integers as the bits of float64 */
};

/* Bits of the first byte; its other bits are 0. */
#define TERP_CARRIER_FORM 0x03u
#define TERP_CARRIER_SCALE_SHIFT 4 /* bytes of the scale - 1 */
#define TERP_CARRIER_SCALE 0x70u

/* An integer is offset + scale * n, modulo 2^64; the stream codes n. */
struct terp_carrier_head {
    enum terp_carrier_form form;
    uint64_t offset, scale; /* of the integer forms */
    double bound;           /* of TERP_CARRIER_FLOATS: the caller's bound,
                               absolute or pointwise */
};

/* The integer type that a carrier stands for. 16-bit floats are numbered in the
 * order of their values, which gives integers of the type int16. */
static inline TERP_HOST_DEVICE enum terp_type
terp_carried_integer(enum terp_type part)
{
    return terp_type_is_integer(part) ? part : TERP_INT16;
}

/* Extends an integer of a type to 64 bits: with its sign if the type has
 * one. */
static inline TERP_HOST_DEVICE uint64_t
terp_integer_of_word(enum terp_type type, uint64_t word)
{
    const int nunused = 64 - 8 * terp_part_nbytes(type);

    return terp_type_is_signed(type)
               ? (uint64_t)((int64_t)(word << nunused) >> nunused)
               : word << nunused >> nunused;
}

/* The lowest integer of a type. */
static inline TERP_HOST_DEVICE uint64_t
terp_lowest_integer(enum terp_type type)
{
    const uint64_t top = UINT64_C(1) << (8 * terp_part_nbytes(type) - 1);
    return terp_type_is_signed(type) ? terp_integer_of_word(type, top) : 0;
}

static inline TERP_HOST_DEVICE uint64_t
terp_integer_range(enum terp_type type)
{
    return UINT64_MAX >> (64 - 8 * terp_part_nbytes(type));
}

/* The type of the coded values of a chunk of the type `type`. */
static inline TERP_HOST_DEVICE enum terp_type
terp_carrier_type(enum terp_carrier_form form, enum terp_type type)
{
    const enum terp_type part = terp_type_of_part(type);

    return form == TERP_CARRIER_INTS_F32 ? TERP_FLOAT32
           : form != TERP_CARRIER_FLOATS ? TERP_FLOAT64
           : terp_type_is_plain(part)    ? part
                                         : TERP_FLOAT32;
}

static inline TERP_HOST_DEVICE void
terp_carrier_write_head(struct writer *writer, enum terp_type type,
                        const struct terp_carrier_head *head)
{
    const enum terp_type part = terp_type_of_part(type);
    const int scale_nbytes = (bit_width(head->scale) + 7) / 8;

    if (head->form == TERP_CARRIER_FLOATS) {
        write_le(writer, 0, 1);
        write_le(writer, double_bits(head->bound), 8);
        return;
    }
    write_le(writer,
             (uint64_t)head->form | (uint64_t)(scale_nbytes - 1)
                                        << TERP_CARRIER_SCALE_SHIFT,
             1);
    write_le(writer, head->offset, terp_part_nbytes(part));
    write_le(writer, head->scale, scale_nbytes);
}

/* Returns false when the stream ends too early or the header is invalid. */
static inline TERP_HOST_DEVICE bool
terp_carrier_read_head(struct reader *reader, enum terp_type type,
                       struct terp_carrier_head *head_ret)
{
    const enum terp_type part = terp_type_of_part(type);
    const unsigned byte = (unsigned)read_le(reader, 1);
    const int scale_nbytes =
        (int)((byte & TERP_CARRIER_SCALE) >> TERP_CARRIER_SCALE_SHIFT) + 1;

    head_ret->form = (enum terp_carrier_form)(byte & TERP_CARRIER_FORM);
    head_ret->offset = 0;
    head_ret->scale = 1;
    head_ret->bound = 0;
    if (head_ret->form == TERP_CARRIER_FLOATS) {
        head_ret->bound = double_of_bits(read_le(reader, 8));
        return !reader->underflow && byte == 0 && !terp_type_is_integer(part) &&
               (is_bound(head_ret->bound) || is_zero_bound(head_ret->bound));
    }
    const enum terp_type integer = terp_carried_integer(part);
    head_ret->offset = terp_integer_of_word(
        integer, read_le(reader, terp_part_nbytes(integer)));
    head_ret->scale = read_le(reader, scale_nbytes);
    return !reader->underflow &&
           (byte & ~(TERP_CARRIER_FORM | TERP_CARRIER_SCALE)) == 0 &&
           head_ret->scale > 0 && !terp_type_is_plain(part);
}
