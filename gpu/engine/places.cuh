/* Places in memory that are given out one behind the other. */
#pragma once

#include <stdint.h>

static inline uint64_t
place_aligned(uint64_t nbytes)
{
    return (nbytes + 255) / 256 * 256;
}

static inline uint64_t
place_take(uint64_t *at, uint64_t nbytes)
{
    const uint64_t begin = *at;

    *at += place_aligned(nbytes);
    return begin;
}
