/* What a kernel knows of a value, once per type. The same as in
 * cpu/predict/stages_impl.h, expression by expression. */
#ifndef TERP_GPU_PREDICT_VALUES_CUH
#define TERP_GPU_PREDICT_VALUES_CUH

#include <float.h>
#include <math.h>

#include "codec/format/bytes.h"
#include "gpu/engine/state.cuh"

/* WORD and INT are integers of the value's width; ROUNDER, 1.5 * 2^(mantissa
 * bits), rounds to an integer when it is added, up to MAX_LEVEL; T_MAX is the
 * largest value. */
template <typename T> struct value_traits;

template <> struct value_traits<float> {
    typedef uint32_t WORD;
    typedef int32_t INT;
    static constexpr float ROUNDER = 12582912.0f;
    static constexpr float MAX_LEVEL = 4194303;
    static constexpr float T_MAX = FLT_MAX;
    static constexpr WORD NEGATIVE_ZERO = UINT32_C(1) << 31;
    static constexpr int MANTISSA_NBITS = 23;
};

template <> struct value_traits<double> {
    typedef uint64_t WORD;
    typedef int64_t INT;
    static constexpr double ROUNDER = 6755399441055744.0;
    static constexpr double MAX_LEVEL = 2251799813685247;
    static constexpr double T_MAX = DBL_MAX;
    static constexpr WORD NEGATIVE_ZERO = UINT64_C(1) << 63;
    static constexpr int MANTISSA_NBITS = 52;
};

template <typename T> using word_of = typename value_traits<T>::WORD;
template <typename T> using int_of = typename value_traits<T>::INT;

static __device__ __forceinline__ float
smaller(float a, float b)
{
    return fminf(a, b);
}

static __device__ __forceinline__ float
larger(float a, float b)
{
    return fmaxf(a, b);
}

static __device__ __forceinline__ double
smaller(double a, double b)
{
    return a < b ? a : b;
}

static __device__ __forceinline__ double
larger(double a, double b)
{
    return a > b ? a : b;
}

static __device__ __forceinline__ float
absolute(float value)
{
    return fabsf(value);
}

static __device__ __forceinline__ double
absolute(double value)
{
    return fabs(value);
}

static __device__ __forceinline__ uint32_t
bits_of(float value)
{
    return __float_as_uint(value);
}

static __device__ __forceinline__ uint64_t
bits_of(double value)
{
    return (uint64_t)__double_as_longlong(value);
}

static __device__ __forceinline__ float
value_of_bits(uint32_t bits)
{
    return __uint_as_float(bits);
}

static __device__ __forceinline__ double
value_of_bits(uint64_t bits)
{
    return __longlong_as_double((long long)bits);
}

/* ---- special values ---- */

/* A chunk's fill values, in registers. */
template <typename T> struct fill_words {
    word_of<T> at[TERP_NFILLS];
};

template <typename T>
static __device__ __forceinline__ fill_words<T>
fills_of(const struct cuda_chunk &chunk)
{
    fill_words<T> fills;
    for (int i = 0; i < TERP_NFILLS; i++)
        fills.at[i] = (word_of<T>)chunk.fills[i];
    return fills;
}

template <typename T>
static __device__ __forceinline__ bool
is_special(T value, const fill_words<T> &fills)
{
    word_of<T> bits = bits_of(value);
    bool special = !(absolute(value) <= value_traits<T>::T_MAX) |
                   (bits == value_traits<T>::NEGATIVE_ZERO);
    for (int i = 0; i < TERP_NFILLS; i++)
        special |= bits == fills.at[i];
    return special;
}

/* ---- the quantizer ---- */

/* The largest T that does not exceed the bound. */
template <typename T>
static __device__ __forceinline__ T
limit_of(double bound)
{
    const T largest = value_traits<T>::T_MAX;
    T limit = bound < largest ? (T)bound : largest;
    return (double)limit > bound ? value_of_bits(bits_of(limit) - 1) : limit;
}

template <typename T> struct constants {
    T step, inverse, limit, max_code;
};

template <typename T>
static __device__ __forceinline__ constants<T>
constants_of(double step, double bound, int max_code)
{
    /* No code times the step may overflow. */
    const double largest = value_traits<T>::T_MAX / (4 * TERP_RADIUS);
    constants<T> k;
    k.step = (T)(step < largest ? step : largest);
    k.inverse = (T)1 / k.step;
    k.limit = limit_of<T>(bound);
    k.max_code = (T)max_code;
    return k;
}

/* ---- escapes ---- */

/* Where escaped values are put: whole steps of ratio one from the reference
 * value. */
template <typename T> struct value_grid {
    T reference, step, inverse, limit;
};

/* That of a chunk which is encoded. */
template <typename T>
static __device__ __forceinline__ struct value_grid<T>
grid_of(const struct cuda_chunk &chunk, T limit) {
    return {(T)chunk.reference, (T)chunk.grid_step, (T)chunk.grid_inverse,
            limit};
}

template <typename T>
struct grid_point {
    T nsteps, value;
    bool fits; /* within the bound, and its value tells the steps to it */
};

template <typename T>
static __device__ __forceinline__ T
nsteps_to(const struct value_grid<T> &grid, T value)
{
    const T rounder = value_traits<T>::ROUNDER;
    return ((value - grid.reference) * grid.inverse + rounder) - rounder;
}

/* The point of the grid next to `value`. */
template <typename T>
static __device__ __forceinline__ struct grid_point<T>
find_on_grid(const struct value_grid<T> &grid, T value) {
    struct grid_point<T> point;

    point.nsteps = nsteps_to(grid, value);
    point.value = grid.reference + point.nsteps * grid.step;
    point.fits = absolute(point.nsteps) <= value_traits<T>::MAX_LEVEL &&
                 absolute(value - point.value) < grid.limit &&
                 nsteps_to(grid, point.value) == point.nsteps;
    return point;
}

/* The escape of a chunk has this number, or none. Few threads find something
 * new: only these have to write. */
static __device__ __forceinline__ void
note_number(struct cuda_chunk *chunk, bool exists, uint64_t number)
{
    const unsigned bit =
        exists ? 1u << ((unsigned)bit_width(number | 1) + 7) / 8 : 1;

    if (!(*(const volatile unsigned *)&chunk->numbers_nbytes & bit))
        atomicOr(&chunk->numbers_nbytes, bit);
}

#endif
