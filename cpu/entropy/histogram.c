/* Counts numbers in four histograms at once, which are added up. */
#include "cpu/entropy/histogram.h"

#include <string.h>

void
terp_cpu_histogram(const uint16_t *numbers, uint64_t nnumbers, int end,
                   uint32_t *counts_ret)
{
    /* Equal neighbours go to different counters, which need not wait for each
     * other. */
    uint16_t lane[4][TERP_NSYMBOLS];
    uint64_t i = 0;

    for (int j = 0; j < 4; j++)
        memset(lane[j], 0, (size_t)end * sizeof lane[j][0]);
    for (; i + 4 <= nnumbers; i += 4)
        for (int j = 0; j < 4; j++)
            lane[j][numbers[i + (uint64_t)j]]++;
    for (; i < nnumbers; i++)
        lane[0][numbers[i]]++;
    for (int n = 0; n < end; n++)
        counts_ret[n] =
            (uint32_t)lane[0][n] + lane[1][n] + lane[2][n] + lane[3][n];
}
