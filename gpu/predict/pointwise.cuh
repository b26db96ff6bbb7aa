/* Turns one value into its coded value under a bound relative to each value,
 * and back. cpu/predict/pointwise_impl.h takes the same steps. */
#pragma once

#include "codec/model/logarithm.h"
#include "gpu/predict/extremes.cuh"

template <typename V>
static constexpr V smallest_with_logarithm = sizeof(V) == 4 ? (V)TERP_F32_TINY
                                                            : (V)TERP_F64_TINY;

/* Whether the magnitude of a value is finite and not tiny. */
template <typename V>
static TERP_HOST_DEVICE inline bool
has_logarithm(V value)
{
    return TERP_ABS(value) >= smallest_with_logarithm<V> &&
           TERP_ABS(value) <= value_traits<V>::MAX;
}

/* Returns the magnitude of a value that has a logarithm if it is less than
 * `least`, otherwise `least`. */
template <typename V>
static __device__ __forceinline__ V
lesser_magnitude(V value, V least)
{
    const V magnitude = TERP_ABS(value);

    return magnitude >= smallest_with_logarithm<V> && magnitude < least
               ? magnitude
               : least;
}

/* Records the least magnitude of a warp's lanes in the chunk's state. */
template <typename V>
static __device__ __forceinline__ void
note_least(struct cuda_chunk &chunk, V least)
{
#pragma unroll 1
    for (int distance = 16; distance > 0; distance /= 2)
        least =
            smaller(least, __shfl_xor_sync(FULL_WARP_MASK, least, distance));
    if (threadIdx.x % 32 == 0)
        raise_key(&chunk.least_key, ~(unsigned long long)bits_of(least));
}

/* ---- by type: the first parameter only selects the type of the result ---- */

static TERP_HOST_DEVICE inline float
logarithm_in(float, float magnitude, int center, float offset)
{
    float k, m;

    terp_split_f32_in_f32(magnitude, center, &k, &m);
    return terp_log_f32(k, m, offset);
}

static TERP_HOST_DEVICE inline float
logarithm_in(float, double magnitude, int center, float offset)
{
    float k, m;

    terp_split_f64_in_f32(magnitude, center, &k, &m);
    return terp_log_f32(k, m, offset);
}

template <typename V>
static TERP_HOST_DEVICE inline double
logarithm_in(double, V magnitude, int center, double offset)
{
    return terp_log_of_f64((double)magnitude, center, offset);
}

static TERP_HOST_DEVICE inline float
power_in(float, float y, int center)
{
    return terp_f32_of_log(y, center);
}

static TERP_HOST_DEVICE inline float
power_in(float, double y, int center)
{
    return terp_f32_of_log_in_f64(y, center);
}

static TERP_HOST_DEVICE inline double
power_in(double, float y, int center)
{
    return terp_f64_of_log_in_f32(y, center);
}

static TERP_HOST_DEVICE inline double
power_in(double, double y, int center)
{
    return terp_f64_of_log(y, center);
}

/* ---- values to coded values ---- */

/* Takes the logarithm, of type C, of a value that is not special. Returns NaN
 * if the value has none. */
template <typename V, typename C> struct log_coder {
    int center;
    C offset;

    TERP_HOST_DEVICE explicit log_coder(const struct terp_pointwise &how)
        : center(how.center), offset((C)how.offset)
    {
    }

    TERP_HOST_DEVICE C operator()(V value) const
    {
        return has_logarithm(value)
                   ? logarithm_in((C)0, TERP_ABS(value), center, offset)
                   : (C)NAN;
    }
};

/* Codes a value under a floor: linear up to the joint, logarithmic above it. It
 * multiplies in the larger of both types: in float32 if both are float32,
 * otherwise in float64. */
template <typename V, typename C> struct floored_coder {
    typedef std::conditional_t<sizeof(V) == 4 && sizeof(C) == 4, float, double>
        wide;
    int center;
    wide joint, scale;
    C shift;

    TERP_HOST_DEVICE explicit floored_coder(const struct terp_pointwise &how)
        : center(how.center), joint((wide)how.joint),
          scale((wide)terp_floor_scale(how.joint)), shift((C)how.shift)
    {
    }

    TERP_HOST_DEVICE C operator()(V value) const
    {
        const wide magnitude = (wide)TERP_ABS(value);
        const C y = magnitude <= joint
                        ? (C)(magnitude * scale)
                        : logarithm_in((C)0, TERP_ABS(value), center, shift);

        return !(TERP_ABS(value) <= value_traits<V>::MAX) ? (C)NAN
               : value < 0                                ? -y
                                                          : y;
    }
};

/* Rounds a value to the nearest value that ends in `nzeros` zero bits. Values
 * that would become infinite are special. */
template <typename V> struct rounding_coder {
    int nzeros;
    word_of<V> half;

    TERP_HOST_DEVICE explicit rounding_coder(const struct terp_pointwise &how)
        : nzeros(how.nzeros),
          half(how.nzeros > 0 ? (word_of<V>)1 << (how.nzeros - 1) : 0)
    {
    }

    TERP_HOST_DEVICE V operator()(V value) const
    {
        const word_of<V> bits = (bits_of(value) + half) >> nzeros << nzeros;
        V rounded;

        memcpy(&rounded, &bits, sizeof rounded);
        return has_logarithm(value) && has_logarithm(rounded) ? rounded
                                                              : (V)NAN;
    }
};

/* The coder of a form: it codes values of type V as values of type C. Example:
 * coder_of<double, float, CUDA_LOG_F32> is log_coder<double, float>. */
template <typename V, typename C, enum cuda_form form>
using coder_of = std::conditional_t<
    form == CUDA_ROUNDED, rounding_coder<V>,
    std::conditional_t<form == CUDA_FLOORED_F32 || form == CUDA_FLOORED_F64,
                       floored_coder<V, C>, log_coder<V, C>>>;

/* ---- back to values ---- */

template <typename V, typename C> struct log_decoder {
    int center;

    TERP_HOST_DEVICE explicit log_decoder(
        const struct terp_pointwise_head &head)
        : center(head.center)
    {
    }

    /* Returns the magnitude of the value. */
    TERP_HOST_DEVICE V operator()(C y) const
    {
        return power_in((V)0, y, center);
    }
};

template <typename V, typename C> struct floored_decoder {
    typedef std::conditional_t<sizeof(V) == 4 && sizeof(C) == 4, float, double>
        wide;
    int center;
    wide slope;
    C shift;

    TERP_HOST_DEVICE explicit floored_decoder(
        const struct terp_pointwise_head &head)
        : center(head.center),
          slope((wide)terp_floor_slope(
              terp_pointwise_joint(head.floor, head.bound))),
          shift((C)head.shift)
    {
    }

    TERP_HOST_DEVICE V operator()(C coded) const
    {
        const C y = TERP_ABS(coded);
        const V value = y <= (C)TERP_LOG2_E ? (V)((wide)y * slope)
                                            : power_in((V)0, y - shift, center);

        return coded < 0 ? -value : value;
    }
};

template <typename V, typename C, bool floored>
using decoder_of =
    std::conditional_t<floored, floored_decoder<V, C>, log_decoder<V, C>>;
