/* Samples that tell whether values of a chunk repeat others. An encoder takes
 * them before it searches for references (cpu/predict/references_find.c). */
#pragma once

#include "codec/format/bytes.h"

/* When a point matches another. Values of 64 bits are compared alone: they
 * match if their difference has at most near_nbits bits, 20 fewer than a value
 * costs and at most 28. Other values are compared in windows of
 * TERP_WINDOW_NVALUES neighbours, which must be equal. */
#define TERP_LONE_WORD_NBITS 63
#define TERP_NEAR_MAX_NBITS 28
#define TERP_NEAR_SAVED_NBITS 20
#define TERP_WINDOW_NVALUES 3

/* Returns whether values are compared alone, from the bits of a word and the
 * bits that a value costs. */
static inline TERP_HOST_DEVICE bool
terp_references_are_lone(int word_nbits, uint64_t value_nbits,
                         int *near_nbits_ret)
{
    const int near_nbits = (int)value_nbits - TERP_NEAR_SAVED_NBITS;
    const bool lone = word_nbits == TERP_LONE_WORD_NBITS && near_nbits >= 0;

    *near_nbits_ret = !lone                              ? 0
                      : near_nbits < TERP_NEAR_MAX_NBITS ? near_nbits
                                                         : TERP_NEAR_MAX_NBITS;
    return lone;
}

/* Adds a word to the key of a window. */
static inline TERP_HOST_DEVICE uint64_t
terp_window_key(uint64_t key, uint64_t word)
{
    key = (key ^ word) * UINT64_C(0xD6E8FEB86659FD93);
    return key ^ key >> 32;
}

/* The price of a reference, and the additional price of one that does not
 * follow from the reference before it, without the bits of its distance. In
 * 1/16 bit. */
#define TERP_REFERENCE_NBITS 8
#define TERP_REFERENCE_JUMP_NBITS (16 * 6)

/* The length of a sample window. A few consecutive values match by chance, the
 * more often the fewer bits they cost. So a window must cost twice the bits of
 * the reference that would replace it. `value_nbits` is in 1/16 bit. Returns
 * more than `nvalues` if values cost less than references. */
static inline TERP_HOST_DEVICE uint64_t
terp_reference_window(uint64_t value_nbits, uint64_t nvalues)
{
    const uint64_t cost =
        TERP_REFERENCE_JUMP_NBITS + 16 * (uint64_t)bit_width(nvalues);

    if (value_nbits <= TERP_REFERENCE_NBITS)
        return nvalues + 1;
    const uint64_t n = 2 * cost / (value_nbits - TERP_REFERENCE_NBITS) + 1;
    return n > TERP_WINDOW_NVALUES ? n : TERP_WINDOW_NVALUES;
}

/* Number of sampled points, and how many must be repeated before an encoder
 * searches. */
#define TERP_REFERENCE_NSAMPLES 1024
#define TERP_REFERENCE_MIN_NREPEATED (TERP_REFERENCE_NSAMPLES / 32)
#define TERP_REFERENCE_SLOTS_NBITS 12
#define TERP_REFERENCE_NSLOTS (1 << TERP_REFERENCE_SLOTS_NBITS)
_Static_assert(4 * TERP_REFERENCE_NSAMPLES <= TERP_REFERENCE_NSLOTS,
               "Most slots stay empty, so most lookups fail at once.");

static inline TERP_HOST_DEVICE uint64_t
terp_reference_sample_at(uint64_t nvalues, uint64_t j)
{
    const uint64_t distance = nvalues / TERP_REFERENCE_NSAMPLES + 1;

    return (j * distance + j * 7919 % distance) % nvalues;
}

/* Mixes a key; its upper bits select a slot. */
static inline TERP_HOST_DEVICE uint64_t
terp_reference_mixed(uint64_t key)
{
    return key * UINT64_C(0x9E3779B97F4A7C15);
}

static inline TERP_HOST_DEVICE uint64_t
terp_reference_slot(uint64_t mixed_key)
{
    return mixed_key >> (64 - TERP_REFERENCE_SLOTS_NBITS);
}
