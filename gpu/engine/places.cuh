/* Lays out arrays in one block of memory, one behind the other, at multiples of
 * 256 bytes. */
#pragma once

#include <stdint.h>

static inline uint64_t
place_aligned(uint64_t nbytes)
{
    return (nbytes + 255) / 256 * 256;
}

/* Reserves `nbytes` at offset *at, and moves *at behind them. Returns where
 * they begin. */
static inline uint64_t
place_take(uint64_t *at, uint64_t nbytes)
{
    const uint64_t begin = *at;

    *at += place_aligned(nbytes);
    return begin;
}
