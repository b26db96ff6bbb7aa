/* Counts numbers in four histograms at once, and sums these. */
#include "cpu/entropy/histogram.h"

#include <string.h>

enum {
    NLANES = CPU_HISTOGRAM_NLANES
};

void
terp_cpu_histogram(const uint16_t *numbers, uint64_t nnumbers, int end,
                   uint16_t common, struct cpu_histogram *histogram,
                   uint32_t *counts_ret)
{
    uint16_t(*lane)[TERP_NSYMBOLS] = histogram->lane;
    uint64_t i = 0, n = 0;
    uint32_t ncommon = 0;

    for (int j = 0; j < NLANES; j++)
        memset(lane[j], 0, (size_t)end * sizeof lane[j][0]);
    for (; i + 64 <= nnumbers; i += 64) {
        uint64_t others = cpu_find_others(numbers + i, common);
        const uint32_t nothers = (uint32_t)__builtin_popcountll(others);
        if (nothers > 32) {
            for (uint64_t k = i; k < i + 64; k += NLANES)
                for (uint64_t j = 0; j < NLANES; j++)
                    lane[j][numbers[k + j]]++;
            continue;
        }
        ncommon += 64 - nothers;
        for (; others != 0; others &= others - 1)
            lane[n++ % NLANES]
                [numbers[i + (uint64_t)__builtin_ctzll(others)]]++;
    }
    for (; i < nnumbers; i++)
        lane[i % NLANES][numbers[i]]++;
    for (int number = 0; number < end; number++) {
        counts_ret[number] = 0;
        for (int j = 0; j < NLANES; j++)
            counts_ret[number] += lane[j][number];
    }
    counts_ret[common] += ncommon;
}
