/* Chunks of few different values, which have no step in common: for streams of
 * ranks. Chunks of decimals: for streams of grids. */
#pragma once

#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

/* The bits of one of the values of a type; higher levels have higher values.
 * Of 16 bits there are 1024 levels. */
static inline uint64_t
few_bits(enum terp_type type, uint64_t level)
{
    const uint64_t more = terp_field_mix(level) % 31;
    const int nbits = 8 * value_nbytes(type);
    const uint64_t top =
        terp_type_is_signed(type) ? UINT64_C(1) << (nbits - 1) : 0;

    return nbits == 16 ? (40 * level + more) ^ top
           : terp_type_is_integer(type)
               ? (1000 * level + more) ^ top
               : value_to_bits(type, (double)level / 3.0);
}

/* Levels change slowly along the chunk, and go up and down. Each of them
 * stands there if there are 4 times as many values. */
static inline uint64_t
few_level(uint64_t nlevels, uint64_t i)
{
    const uint64_t at = (i / 3 + terp_field_mix(i) % 2) % (2 * nlevels);

    return i < nlevels ? i : at < nlevels ? at : 2 * nlevels - 1 - at;
}

static inline void
few_make(const struct terp_chunk *chunk, uint64_t nlevels, uint8_t *values)
{
    const uint64_t nvalues = chunk_nvalues(chunk);

    for (uint64_t i = 0; i < nvalues; i++)
        value_put(chunk, values, i,
                  few_bits(chunk->type, few_level(nlevels, i)));
}

/* Rising times in units of 1/1024 s. Neighbours differ by 1 to `nsteps` units.
 */
static inline void
times_make(const struct terp_chunk *chunk, uint64_t nsteps, uint8_t *values)
{
    const uint64_t nvalues = chunk_nvalues(chunk);
    uint64_t k = 0;

    for (uint64_t i = 0; i < nvalues; i++) {
        k += 1 + terp_field_mix(i) % nsteps;
        value_put(chunk, values, i,
                  value_to_bits(chunk->type, 1.7e9 + (double)k / 1024));
    }
}

/* Decimals of a type of floats, which rise and fall: too many different ones
 * for ranks. Every `every`-th value is NaN, -0.0 or another exception; 0: none
 * is. */
static inline void
decimals_make(const struct terp_chunk *chunk, uint64_t every, uint8_t *values)
{
    const uint64_t nvalues = chunk_nvalues(chunk);
    const bool is_wide = value_nbytes(chunk->type) == 8;
    int64_t k = 123456;

    for (uint64_t i = 0; i < nvalues; i++) {
        const uint64_t random = terp_field_mix(i);
        const double value = is_wide ? (double)k / 1e6 : (double)k / 1e3;
        k += (int64_t)(random % 2048) - (k > 600000 ? 1200 : 800);
        if (every > 0 && i % every == every / 2)
            value_put(chunk, values, i,
                      i % 3 == 0   ? value_to_bits(chunk->type, -0.0)
                      : i % 3 == 1 ? value_to_bits(chunk->type, 0.0) - 1
                                   : value_to_bits(chunk->type, 1e30));
        else
            value_put(chunk, values, i, value_to_bits(chunk->type, value));
    }
}
