/* Histograms. */
#pragma once

#include "codec/format/limits.h"
#include "cpu/sections/mask.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Bit i is set if number i of the next 64 differs from `common`. */
static inline uint64_t
cpu_find_others(const uint16_t *numbers, uint16_t common)
{
    uint64_t others = 0;

#ifdef __SSE2__
    const __m128i all = _mm_set1_epi16((short)common);
    for (int i = 0; i < 64; i += 16) {
        const __m128i *at = (const void *)(numbers + i);
        const __m128i low = _mm_cmpeq_epi16(_mm_loadu_si128(at), all);
        const __m128i high = _mm_cmpeq_epi16(_mm_loadu_si128(at + 1), all);
        const int same = _mm_movemask_epi8(_mm_packs_epi16(low, high));
        others |= (uint64_t)(same ^ 0xFFFF) << i;
    }
#else
    uint8_t differs[64];
    for (int i = 0; i < 64; i++)
        differs[i] = numbers[i] != common;
    others = cpu_word_of_bytes(differs);
#endif
    return others;
}

/* The most numbers that a histogram's 16-bit counters can count at once. */
#define CPU_COUNT_MAX_NNUMBERS (4 * (uint64_t)UINT16_MAX)

/* The counters of a worker. Consecutive numbers go to different lanes of
 * counters, so that the processor need not wait for the same counter twice. */
#define CPU_HISTOGRAM_NLANES 4
struct cpu_histogram {
    uint16_t lane[CPU_HISTOGRAM_NLANES][TERP_NSYMBOLS];
};

/* Counts each number in `numbers`. All are below `end`, which is at most
 * TERP_NSYMBOLS. `common` names a number that may be the most frequent. */
void
terp_cpu_histogram(const uint16_t *numbers, uint64_t nnumbers, int end,
                   uint16_t common, struct cpu_histogram *histogram,
                   uint32_t *counts_ret);
