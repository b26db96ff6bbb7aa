/* Counts the keys of samples in a hash table, by a block of threads. */
#pragma once

#include "codec/model/ranks.h"
#include "gpu/engine/platform.cuh"

/* The number of different keys, and how many of them occur more than once. */
struct key_counts {
    unsigned ndistinct, nrepeated;
};

/* Returns a thread's share of the counts of n keys, which do not depend on the
 * order of the threads. NTHREADS threads call it together. The slots, 2 to the
 * power of slots_nbits, must be 0 before. A used slot holds twice a key's
 * number plus 2, and one more after the key has occurred again. */
template <unsigned NTHREADS>
static __device__ __forceinline__ struct key_counts
count_keys(const uint64_t *keys, uint64_t n, unsigned *slots, int slots_nbits)
{
    const uint64_t nslots = UINT64_C(1) << slots_nbits;
    struct key_counts own = {0, 0};

    for (uint64_t i = threadIdx.x; i < n; i += NTHREADS) {
        const uint64_t key = keys[i];
        uint64_t slot = terp_ranks_slot(key, slots_nbits);
        for (;;) {
            const unsigned found =
                atomicCAS(&slots[slot], 0u, 2 * (unsigned)i + 2);
            if (found == 0) {
                own.ndistinct++;
                break;
            }
            if (keys[found / 2 - 1] == key) {
                own.nrepeated += (atomicOr(&slots[slot], 1u) & 1) == 0;
                break;
            }
            slot = (slot + 1) & (nslots - 1);
        }
    }
    return own;
}
