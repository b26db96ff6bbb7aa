/* Chooses, on the host, how many bits of a chunk's codes lie below symbols. */
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

/* Number of widths, and the most runs. */
#define NWIDTHS 65
#define MAX_NRUNS TERP_DIFFERENCES_NRUNS
_Static_assert(TERP_LOW_BITS_NRUNS <= MAX_NRUNS, "run_widths holds all runs.");

/* Adds the cost of the samples in runs of width `run_width` to `cost`, for each
 * number of bits below symbols. A cost depends only on the widths of a sample
 * and of its run. So samples of the same two widths are priced together; one
 * width of runs at a time takes less memory than all at once. */
static void
add_costs(const int8_t *widths, const uint8_t *run_widths, int nruns,
          int run_width, int all_width, int most, unsigned escape_nbytes,
          uint32_t *cost)
{
    uint16_t count[NWIDTHS] = {0};

    for (int r = 0; r < nruns; r++)
        for (int j = r * RUN; run_widths[r] == run_width && j < (r + 1) * RUN;
             j++)
            if (widths[j] >= 0)
                count[widths[j]]++;
    for (int width = 0; width <= run_width; width++)
        for (int n = 0; count[width] > 0 && n <= most; n++)
            cost[n] +=
                count[width] * terp_cost_of_width(width, run_width, all_width,
                                                  n, escape_nbytes);
}

int
terp_nbits_below(const int8_t *widths, int nwidths, int most,
                 unsigned escape_nbytes)
{
    const int all_width = widest_of(widths, nwidths), nruns = nwidths / RUN;
    uint32_t cost[TERP_BELOW_MAX_NBITS + 1] = {0};
    bool is_present[NWIDTHS] = {false};
    uint8_t run_widths[MAX_NRUNS];
    int nbits_below = 0;

    for (int r = 0; r < nruns; r++) {
        run_widths[r] = (uint8_t)widest_of(widths + r * RUN, RUN);
        is_present[run_widths[r]] = true;
    }
    for (int run_width = 0; run_width <= all_width; run_width++)
        if (is_present[run_width])
            add_costs(widths, run_widths, nruns, run_width, all_width, most,
                      escape_nbytes, cost);
    for (int n = 1; n <= most; n++)
        if (cost[n] < cost[nbits_below])
            nbits_below = n;
    return nbits_below;
}

int
terp_nbits_below_of_interpolants(const struct terp_code_widths *widths,
                                 int most, unsigned escape_nbytes)
{
    uint32_t best_sum = 0, best_n = 0;
    int best = 0;

    for (int interpolant = 0; interpolant < TERP_LOW_BITS_NINTERPOLANTS;
         interpolant++) {
        uint32_t sum = 0, n = 0;
        for (int i = 0; i < TERP_LOW_BITS_NVALUES; i++) {
            const int width = widths->at[interpolant][i];
            sum += (uint32_t)(width < 0 ? 0 : width);
            n += width < 0 ? 0 : 1;
        }
        if (terp_has_fewer_bits(sum, n, best_sum, best_n)) {
            best = interpolant;
            best_sum = sum;
            best_n = n;
        }
    }
    return terp_nbits_below(widths->at[best], TERP_LOW_BITS_NVALUES, most,
                            escape_nbytes);
}
