/* Properties of the types of values. A value of a complex type has two parts. A
 * value of another type is its own part. */
#pragma once

#include "codec/api/terp.h"
#include "codec/format/base.h"

static inline TERP_HOST_DEVICE bool
terp_type_is_known(int type)
{
    return type >= 0 && type < TERP_NTYPES;
}

static inline TERP_HOST_DEVICE bool
terp_type_is_half(enum terp_type type)
{
    return type == TERP_FLOAT16 || type == TERP_BFLOAT16;
}

/* Whether values are coded directly. Values of other types are coded as floats
 * that stand for them; TERP_BYTES are stored. */
static inline TERP_HOST_DEVICE bool
terp_type_is_plain(enum terp_type type)
{
    return type == TERP_FLOAT32 || type == TERP_FLOAT64;
}

static inline TERP_HOST_DEVICE bool
terp_type_is_integer(enum terp_type type)
{
    return type >= TERP_INT8 && type <= TERP_UINT64;
}

static inline TERP_HOST_DEVICE bool
terp_type_is_signed(enum terp_type type)
{
    return type >= TERP_INT8 && type <= TERP_INT64;
}

#define TERP_NPARTS 2 /* of a complex value */

static inline TERP_HOST_DEVICE int
terp_type_nparts(enum terp_type type)
{
    return type == TERP_COMPLEX64 || type == TERP_COMPLEX128 ? TERP_NPARTS : 1;
}

static inline TERP_HOST_DEVICE enum terp_type
terp_type_of_part(enum terp_type type)
{
    return type == TERP_COMPLEX64    ? TERP_FLOAT32
           : type == TERP_COMPLEX128 ? TERP_FLOAT64
                                     : type;
}

static inline TERP_HOST_DEVICE int
terp_part_nbytes(enum terp_type type)
{
    switch (type) {
    case TERP_BYTES:
    case TERP_INT8:
    case TERP_UINT8:
        return 1;
    case TERP_INT16:
    case TERP_UINT16:
    case TERP_FLOAT16:
    case TERP_BFLOAT16:
        return 2;
    case TERP_FLOAT32:
    case TERP_INT32:
    case TERP_UINT32:
    case TERP_COMPLEX64:
        return 4;
    default:
        return 8;
    }
}

static inline TERP_HOST_DEVICE int
terp_value_nbytes(enum terp_type type)
{
    return terp_part_nbytes(type) * terp_type_nparts(type);
}

/* Whether values of a type may be references (codec/format/references.h). */
static inline TERP_HOST_DEVICE bool
terp_references_are_possible(enum terp_type type)
{
    return terp_type_nparts(type) == 1 && type != TERP_BYTES &&
           terp_value_nbytes(type) > 1;
}

/* The chunk of all real or all imaginary parts of a chunk, little-endian. */
static inline TERP_HOST_DEVICE struct terp_chunk
terp_chunk_of_part(const struct terp_chunk *chunk)
{
    struct terp_chunk part = *chunk;

    part.type = terp_type_of_part(chunk->type);
    part.big_endian = false;
    return part;
}

/* A complex value counts as one. */
static inline uint64_t
terp_chunk_nvalues(const struct terp_chunk *chunk)
{
    return terp_chunk_nbytes(chunk) / (uint64_t)terp_value_nbytes(chunk->type);
}
