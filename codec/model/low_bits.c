/* How many bits of a chunk's codes are below symbols, on the host. */
#include "codec/model/low_bits.h"

#define NVALUES TERP_LOW_BITS_NVALUES
#define RUN TERP_LOW_BITS_RUN_NVALUES

static int
larger(int a, int b)
{
    return a > b ? a : b;
}

int
terp_nbits_below(const struct terp_code_widths *widths, int max_code,
                 unsigned escape_nbytes, int value_nbytes)
{
    const int most = terp_below_max_nbits(value_nbytes);
    uint32_t cost[TERP_BELOW_MAX_NBITS + 1] = {0}, best_sum = 0, best_n = 0;
    int best = 0, all_width = 0, nbits_below = 0;

    for (int form = 0; form < TERP_LOW_BITS_NFORMS; form++) {
        uint32_t sum = 0, n = 0;
        for (int i = 0; i < NVALUES; i++) {
            const int width = widths->at[form][i];
            sum += (uint32_t)(width < 0 ? 0 : width);
            n += width < 0 ? 0 : 1;
        }
        if (terp_has_fewer_bits(sum, n, best_sum, best_n)) {
            best = form;
            best_sum = sum;
            best_n = n;
        }
    }
    for (int i = 0; i < NVALUES; i++)
        all_width = larger(all_width, widths->at[best][i]);
    for (int i = 0; i < NVALUES; i++) {
        const int8_t *run = widths->at[best] + i / RUN * RUN;
        int run_width = 0;
        for (int j = 0; j < RUN; j++)
            run_width = larger(run_width, run[j]);
        for (int n = 0; widths->at[best][i] >= 0 && n <= most; n++)
            cost[n] +=
                terp_cost_of_width(widths->at[best][i], run_width, all_width, n,
                                   max_code, escape_nbytes);
    }
    for (int n = 1; n <= most; n++)
        if (cost[n] < cost[nbits_below])
            nbits_below = n;
    return nbits_below;
}
