/* terp compare --metrics: gradients, and the autocorrelation of errors. */
#include <math.h>

#include "codec/format/base.h"
#include "tools/compare/metrics_sums.h"

/* The number of core indices in `dim` that have a neighbour at distance `lag`.
 */
static uint64_t
nfirst(const struct metrics_block *block, int dim, uint64_t lag)
{
    const uint64_t count = block->count[dim];
    const uint64_t nhere = count > lag ? count - lag : 0;

    return min_u64(nhere, block->core[dim]);
}

void
metrics_near_gradients(struct metrics_near_sum *sum,
                       const struct metrics_block *block, int dim)
{
    const uint64_t step = block->stride[dim];
    uint64_t n[METRICS_NDIMS] = {block->core[0], block->core[1],
                                 block->core[2]};
    n[dim] = nfirst(block, dim, 1);

    for (uint64_t z = 0; z < n[0]; z++)
        for (uint64_t y = 0; y < n[1]; y++) {
            const uint64_t row = metrics_row(block, z, y);
            for (uint64_t i = row; i < row + n[2]; i++) {
                const double of_a = block->a[i + step] - block->a[i];
                const double of_b = block->b[i + step] - block->b[i];
                if (isnan(of_a))
                    continue;
                sum->gradients += of_a * of_a;
                sum->gradient_errors += (of_b - of_a) * (of_b - of_a);
                sum->gradient_max = fmax(sum->gradient_max, fabs(of_b - of_a));
                sum->ngradients++;
            }
        }
}

static uint64_t
count_pairs(const struct metrics_block *block, const uint64_t *n, uint64_t step)
{
    uint64_t npairs = 0;

    if (block->whole)
        return n[0] * n[1] * n[2];
    for (uint64_t z = 0; z < n[0]; z++)
        for (uint64_t y = 0; y < n[1]; y++) {
            const uint64_t row = metrics_row(block, z, y);
            for (uint64_t i = row; i < row + n[2]; i++)
                npairs += !isnan(block->a[i]) && !isnan(block->a[i + step]);
        }
    return npairs;
}

void
metrics_near_products(struct metrics_near_sum *sum,
                      const struct metrics_block *block, int dim, int nlags)
{
    for (int lag = 1; lag <= nlags; lag++) {
        const uint64_t step = (uint64_t)lag * block->stride[dim];
        double products = 0;
        uint64_t n[METRICS_NDIMS] = {block->core[0], block->core[1],
                                     block->core[2]};
        n[dim] = nfirst(block, dim, (uint64_t)lag);
        for (uint64_t z = 0; z < n[0]; z++)
            for (uint64_t y = 0; y < n[1]; y++) {
                const double *row = block->errors + metrics_row(block, z, y);
                for (uint64_t x = 0; x < n[2]; x++)
                    products += row[x] * row[x + step];
            }
        sum->products[lag - 1] += products;
        sum->npairs[lag - 1] += count_pairs(block, n, step);
    }
}
