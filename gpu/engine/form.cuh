/* Forms: how coded values follow from a chunk's own values. They may be the own
 * values, rounded values or logarithms under a pointwise bound
 * (codec/format/pointwise.h), or floats that stand for integers
 * (codec/format/carrier.h). All chunks of a batch have one form. */
#pragma once

#include "codec/format/types.h"
#include "codec/model/carrier.h"
#include "codec/model/pointwise.h"

/* ---- forms ---- */

enum cuda_form {
    CUDA_VALUES = 0,
    CUDA_ROUNDED,
    CUDA_LOG_F32,
    CUDA_LOG_F64,
    CUDA_FLOORED_F32,
    CUDA_FLOORED_F64,
    /* this form and the ones behind it: only for integers */
    CUDA_INTS_F32,
    CUDA_INTS_F64,
    CUDA_INTS_BITS
};

static constexpr TERP_HOST_DEVICE enum cuda_form
cuda_form_of(enum terp_pointwise_form form, bool has_floor)
{
    const enum cuda_form plain = form == TERP_POINTWISE_ROUNDED ? CUDA_ROUNDED
                                 : form == TERP_POINTWISE_LOG_F32
                                     ? CUDA_LOG_F32
                                     : CUDA_LOG_F64;

    return !has_floor              ? plain
           : plain == CUDA_LOG_F32 ? CUDA_FLOORED_F32
                                   : CUDA_FLOORED_F64;
}

/* The form of a stream, from the first byte of its pointwise head. */
static constexpr TERP_HOST_DEVICE enum cuda_form
cuda_form_of_head(unsigned byte)
{
    return cuda_form_of((enum terp_pointwise_form)(byte & TERP_POINTWISE_FORM),
                        (byte & TERP_POINTWISE_FLOOR) != 0);
}

static constexpr TERP_HOST_DEVICE enum cuda_form
cuda_form_of_carrier(enum terp_carrier_form form)
{
    return form == TERP_CARRIER_INTS_F32   ? CUDA_INTS_F32
           : form == TERP_CARRIER_INTS_F64 ? CUDA_INTS_F64
           : form == TERP_CARRIER_FLOATS   ? CUDA_VALUES
                                           : CUDA_INTS_BITS;
}

static constexpr TERP_HOST_DEVICE bool
cuda_form_is_of_integers(enum cuda_form form)
{
    return form >= CUDA_INTS_F32;
}

/* Whether the form belongs to a pointwise bound. */
static constexpr TERP_HOST_DEVICE bool
cuda_form_is_pointwise(enum cuda_form form)
{
    return form != CUDA_VALUES && !cuda_form_is_of_integers(form);
}

static constexpr TERP_HOST_DEVICE bool
cuda_form_is_floored(enum cuda_form form)
{
    return form == CUDA_FLOORED_F32 || form == CUDA_FLOORED_F64;
}

/* Whether logarithms are coded, with a floor or without. */
static constexpr TERP_HOST_DEVICE bool
cuda_form_has_logarithms(enum cuda_form form)
{
    return form >= CUDA_LOG_F32 && !cuda_form_is_of_integers(form);
}

/* Whether chunks of the form may have a section of signs. */
static constexpr TERP_HOST_DEVICE bool
cuda_form_may_have_signs(enum cuda_form form)
{
    return form == CUDA_LOG_F32 || form == CUDA_LOG_F64;
}

/* The type of the carrier: that of floats itself, float32 for 16-bit floats,
 * and the form's type for integers (codec/model/carrier.h). */
static constexpr TERP_HOST_DEVICE enum terp_type
cuda_carrier_type(enum cuda_form form, enum terp_type type)
{
    return form == CUDA_INTS_F64 || form == CUDA_INTS_BITS ||
                   type == TERP_FLOAT64
               ? TERP_FLOAT64
               : TERP_FLOAT32;
}

/* Bytes of a carrier's head, with which a stream's body begins, without the
 * scale of integers. */
#define CUDA_CARRIER_HEAD_MAX_NBYTES (1 + 8 + 8)
static inline TERP_HOST_DEVICE unsigned
cuda_carrier_head_nbytes(enum terp_type type)
{
    return terp_type_is_plain(type)     ? 0
           : terp_type_is_integer(type) ? 1 + (unsigned)terp_part_nbytes(type)
                                        : 1 + 8;
}

/* Bytes of the scale, from the head's first byte. */
static constexpr TERP_HOST_DEVICE unsigned
cuda_scale_nbytes_of_head(unsigned byte)
{
    return ((byte & TERP_CARRIER_SCALE) >> TERP_CARRIER_SCALE_SHIFT) + 1;
}

/* The type of coded values, for own values of `type`. */
static constexpr TERP_HOST_DEVICE enum terp_type
cuda_form_type(enum cuda_form form, enum terp_type type)
{
    return !cuda_form_has_logarithms(form) ? cuda_carrier_type(form, type)
           : form == CUDA_LOG_F32 || form == CUDA_FLOORED_F32 ? TERP_FLOAT32
                                                              : TERP_FLOAT64;
}

/* Bytes of the head of a pointwise form; 0 for other forms. */
#define CUDA_HEAD_MAX_NBYTES (1 + 8 + 2 + 8 + 8)
static constexpr TERP_HOST_DEVICE unsigned
cuda_form_head_nbytes(enum cuda_form form)
{
    return !cuda_form_is_pointwise(form) ? 0
           : form == CUDA_ROUNDED        ? 1 + 8
           : cuda_form_is_floored(form)  ? CUDA_HEAD_MAX_NBYTES
                                         : 1 + 8 + 2;
}

/* ---- for the host ---- */

/* The form that a caller's bound gives to most chunks of floats: chunks whose
 * magnitudes span up to some sixty powers of two. */
static inline enum cuda_form
cuda_form_of_floats(const struct terp_params *params, int value_nbytes)
{
    const int mantissa_nbits = terp_mantissa_nbits(value_nbytes);
    const uint64_t one = (uint64_t)(value_nbytes == 4 ? 127 : 1023)
                         << mantissa_nbits;
    const uint64_t span = UINT64_C(30) << mantissa_nbits;
    const struct terp_magnitudes usual = {one - span, one + span, true, false};

    if (params->bound_mode != TERP_BOUND_POINTWISE)
        return CUDA_VALUES;
    const double joint = terp_pointwise_joint(params->floor, params->bound);
    if (params->floor > 0 &&
        terp_pointwise_joint_is_large(joint, value_nbytes) &&
        terp_pointwise_joint_is_small(joint, value_nbytes)) {
        const int above = terp_exponent_of(joint) - 1023 + 20;
        const int most = value_nbytes == 4 ? 127 : 1023;
        const struct terp_magnitudes some = {
            one,
            one + ((uint64_t)(int64_t)(above < most ? above : most)
                   << mantissa_nbits),
            true, true};
        const struct terp_pointwise how = terp_pointwise_floored_of(
            params->bound, params->floor, some, value_nbytes);
        return cuda_form_of(how.form, how.joint > 0);
    }
    return cuda_form_of(
        terp_pointwise_of(params->bound, usual, value_nbytes).form, false);
}

/* The parameters for coding a form, from the caller's: an absolute bound, which
 * is 0 if coded values must be lossless; otherwise its value does not matter.
 */
static inline struct terp_params
cuda_coded_params(const struct terp_params *params, enum cuda_form form)
{
    struct terp_params coded = *params;

    if (cuda_form_is_of_integers(form)) {
        coded.bound_mode = TERP_BOUND_ABSOLUTE;
        coded.bound = form == CUDA_INTS_BITS ? 0 : 0.5;
        coded.has_fill = coded.has_missing = false;
        return coded;
    }
    if (params->bound_mode != TERP_BOUND_POINTWISE)
        return coded;
    coded.bound_mode = TERP_BOUND_ABSOLUTE;
    coded.bound = form == CUDA_VALUES    ? params->floor
                  : form == CUDA_ROUNDED ? 0
                                         : params->bound;
    return coded;
}
