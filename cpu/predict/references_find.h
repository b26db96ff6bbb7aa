/* The search for values that repeat earlier ones: all bits of them, or nearly,
 * but for the sign. */
#pragma once

#include "codec/model/reference_search.h"
#include "cpu/pool/pool.h"

/* As those of struct terp_repeats. */
struct cpu_repeats {
    const uint64_t *words;
    const uint8_t *usable;
    uint64_t nvalues; /* fewer than TERP_NO_SOURCE */
    int word_nbits;
    uint64_t nbits; /* of a stream without references, in all */
    int near_nbits; /* words that differ by less stand for each other, at no
                       cost; negative: all bits have to come back */
};

/* Has for each point the one that it refers to, which itself refers to none.
 * Returns roughly how many bits that saves, 0 where sources were not looked
 * for; `sources_ret` is to have room for all. TERP_ERR_MEMORY or TERP_OK. */
enum terp_status
terp_cpu_repeats_find(struct cpu_pool *pool, const struct cpu_repeats *repeats,
                      uint32_t *sources_ret, uint64_t *saved_nbits_ret);
