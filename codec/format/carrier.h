/* What a stream says of the floats that are coded in place of a chunk's parts,
 * where these are neither float32 nor float64, or are those of complex values.
 * doc/format.md, "Carrier". */
#pragma once

#include "codec/format/bytes.h"
#include "codec/format/types.h"

/* Values are pinned. */
enum terp_carrier_form {
    TERP_CARRIER_FLOATS = 0,   /* of float types: the values themselves */
    TERP_CARRIER_INTS_F32 = 1, /* integers, as float32 */
    TERP_CARRIER_INTS_F64 = 2,
    TERP_CARRIER_INTS_BITS = 3, /* integers, as the bits of float64 */
};

/* The first byte; other bits are 0. */
#define TERP_CARRIER_FORM 0x03u
#define TERP_CARRIER_SCALE_SHIFT 4 /* bytes of the scale, less one */
#define TERP_CARRIER_SCALE 0x70u

/* Integers are offset + scale * n, modulo 2^64, of n that are coded. */
struct terp_carrier_head {
    enum terp_carrier_form form;
    uint64_t offset, scale; /* of integers */
    double bound;           /* of others: the caller's, absolute or pointwise */
};

/* Integers that stand for the values of a 16-bit float type in their order are
 * those of an int16. */
static inline TERP_HOST_DEVICE enum terp_type
terp_carried_integer(enum terp_type part)
{
    return terp_type_is_integer(part) ? part : TERP_INT16;
}

/* A two's complement number of the type's width, as one of 64 bits. */
static inline TERP_HOST_DEVICE uint64_t
terp_integer_of_word(enum terp_type type, uint64_t word)
{
    const int nunused = 64 - 8 * terp_part_nbytes(type);

    return terp_type_is_signed(type)
               ? (uint64_t)((int64_t)(word << nunused) >> nunused)
               : word << nunused >> nunused;
}

/* The lowest integer of a type; the highest is as far from it as all bits of
 * the type are from zero. */
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

/* Of chunks whose type is `type`: that of the values that are coded. */
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

/* False where the stream ends too early or no stream has such a head. */
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
