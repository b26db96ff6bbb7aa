/* The values of a chunk on the device: wraps the arithmetic of codec/model with
 * the state of a chunk (struct cuda_chunk). */
#pragma once

#include "codec/format/bytes.h"
#include "codec/model/quantizer.h"
#include "gpu/engine/state.cuh"

template <typename T> using word_of = typename value_traits<T>::WORD;
template <typename T> using int_of = typename value_traits<T>::INT;

template <typename T>
static __device__ __forceinline__ T
smaller(T a, T b)
{
    if constexpr (sizeof(T) == 4)
        return fminf(a, b);
    else
        return a < b ? a : b;
}

template <typename T>
static __device__ __forceinline__ T
larger(T a, T b)
{
    if constexpr (sizeof(T) == 4)
        return fmaxf(a, b);
    else
        return a > b ? a : b;
}

/* Only the bits of 16-bit floats, and of integers of 8 and 16 bits, are needed.
 */
template <> struct value_traits<uint16_t> {
    typedef uint16_t WORD;
};
template <> struct value_traits<uint8_t> {
    typedef uint8_t WORD;
};

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

/* A chunk's fill values, in the registers of a thread. */
template <typename T> struct fill_words {
    word_of<T> at[TERP_NFILLS];
};

template <typename T>
static __device__ __forceinline__ fill_words<T>
fills_of(const uint64_t bits[TERP_NFILLS])
{
    fill_words<T> fills;
    for (int i = 0; i < TERP_NFILLS; i++)
        fills.at[i] = (word_of<T>)bits[i];
    return fills;
}

template <typename T>
static __device__ __forceinline__ fill_words<T>
fills_of(const struct cuda_chunk &chunk)
{
    return fills_of<T>(chunk.fills);
}

template <typename T>
static __device__ __forceinline__ bool
is_special(T value, const fill_words<T> &fills)
{
    return is_special(value, fills.at);
}

/* Returns the constants with which a level is quantized. */
template <typename T>
static __device__ __forceinline__ constants<T>
level_constants(const struct cuda_chunk &chunk,
                const struct terp_level_plan &plan)
{
    return constants_of<T>(chunk.model.step * terp_bound_factor(&plan),
                           chunk.bound, terp_max_code_of(chunk.model.wide));
}

/* ---- Lorenzo's quants: multiples of a step, or exact quants ---- */

template <typename T>
static __device__ __forceinline__ exact_quants<T>
exact_quants_of(const struct cuda_chunk &chunk)
{
    return exact_quants_of<T>(chunk.model.exact, chunk.bound);
}

/* Returns the quant of a value, and in *fits_ret whether the quant reproduces
 * the value within the bound. */
template <typename T>
static __device__ __forceinline__ int_of<T>
quant_of(T value, const constants<T> &k, bool *fits_ret)
{
    return (int_of<T>)nearest_quant(value, k, fits_ret);
}

template <typename T>
static __device__ __forceinline__ int_of<T>
quant_of(T value, const exact_quants<T> &k, bool *fits_ret)
{
    return nearest_exact_quant(value, k, fits_ret);
}

/* Returns the value that a quant stands for. */
template <typename T>
static __device__ __forceinline__ T
value_of_quant(int_of<T> quant, const constants<T> &k)
{
    return (T)quant * k.step;
}

template <typename T>
static __device__ __forceinline__ T
value_of_quant(int_of<T> quant, const exact_quants<T> &k)
{
    return value_of_exact_quant(quant, k);
}

/* ---- escapes ---- */

/* Returns the grid of a chunk that is being encoded. */
template <typename T>
static __device__ __forceinline__ value_grid<T>
grid_of(const struct cuda_chunk &chunk, T limit)
{
    return {(T)chunk.model.reference, (T)chunk.grid_step, (T)chunk.grid_inverse,
            limit};
}

/* Records how many bytes the number of an escape takes, or that the escape has
 * no number. Returns true if no thread has recorded that before. A caller that
 * works on a copy of the state in shared memory then records it in device
 * memory too; few threads have to. */
static __device__ __forceinline__ bool
note_number(struct cuda_chunk *chunk, bool exists, uint64_t number)
{
    const unsigned bit =
        exists ? 1u << ((unsigned)bit_width(number | 1) + 7) / 8 : 1;
    const bool is_new =
        !(*(const volatile unsigned *)&chunk->numbers_nbytes & bit);

    if (is_new)
        atomicOr(&chunk->numbers_nbytes, bit);
    return is_new;
}
