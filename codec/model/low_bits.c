/* How many bits of a chunk's codes are below symbols, on the host. */
#include "codec/model/low_bits.h"

#define RUN TERP_LOW_BITS_RUN_NVALUES

static int
widest_of(const int8_t *widths, int nwidths)
{
    int widest = 0;

    for (int i = 0; i < nwidths; i++)
        widest = widths[i] > widest ? widths[i] : widest;
    return widest;
}

/* What a sample costs follows from its width and that of its run: so samples of
 * which both are the same are priced together. */
#define NWIDTHS 65

int
terp_nbits_below(const int8_t *widths, int nwidths, int most,
                 unsigned escape_nbytes)
{
    const int all_width = widest_of(widths, nwidths);
    uint32_t cost[TERP_BELOW_MAX_NBITS + 1] = {0};
    uint16_t count[NWIDTHS][NWIDTHS] = {{0}}; /* [run's][own] */
    int nbits_below = 0;

    for (int i = 0; i < nwidths; i += RUN) {
        const int run_width = widest_of(widths + i, RUN);
        for (int j = i; j < i + RUN; j++)
            if (widths[j] >= 0)
                count[run_width][widths[j]]++;
    }
    for (int run_width = 0; run_width <= all_width; run_width++)
        for (int width = 0; width <= run_width; width++)
            for (int n = 0; count[run_width][width] > 0 && n <= most; n++)
                cost[n] += count[run_width][width] *
                           terp_cost_of_width(width, run_width, all_width, n,
                                              escape_nbytes);
    for (int n = 1; n <= most; n++)
        if (cost[n] < cost[nbits_below])
            nbits_below = n;
    return nbits_below;
}

int
terp_nbits_below_of_forms(const struct terp_code_widths *widths, int most,
                          unsigned escape_nbytes)
{
    uint32_t best_sum = 0, best_n = 0;
    int best = 0;

    for (int form = 0; form < TERP_LOW_BITS_NFORMS; form++) {
        uint32_t sum = 0, n = 0;
        for (int i = 0; i < TERP_LOW_BITS_NVALUES; i++) {
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
    return terp_nbits_below(widths->at[best], TERP_LOW_BITS_NVALUES, most,
                            escape_nbytes);
}
