/* The search for values that repeat earlier values, exactly or nearly, up to
 * the sign. */
#pragma once

#include "codec/model/reference_search.h"
#include "cpu/pool/pool.h"

/* Inputs of the search, like those of struct terp_repeats. */
struct cpu_repeats {
    const uint64_t *words;
    const uint8_t *usable;
    uint64_t nvalues; /* fewer than TERP_NO_SOURCE */
    int word_nbits;
    uint64_t nbits; /* of the whole stream without references */
    int near_nbits; /* words that differ by less are equal at no cost; negative:
                     * only equal words are */
};

/* Finds for each point the point that it refers to, which is itself no
 * reference. Returns roughly how many bits the references save; 0: no sources
 * were looked for. `sources_ret` holds an entry per value. TERP_ERR_MEMORY or
 * TERP_OK. */
enum terp_status
terp_cpu_repeats_find(struct cpu_pool *pool, const struct cpu_repeats *repeats,
                      uint32_t *sources_ret, uint64_t *saved_nbits_ret);
