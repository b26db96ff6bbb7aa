/* terp compare --metrics: the data SSIM of A. H. Baker, A. Pinard and
 * D. M. Hammerling, "On a structural similarity index approach for
 * floating-point data", IEEE TVCG 2023, doi:10.1109/TVCG.2022.3201112. */
#include <math.h>
#include <stdlib.h>

#include "codec/format/base.h"
#include "tools/compare/metrics_sums.h"

enum {
    WINDOW = 11,
    MIDDLE = WINDOW / 2,
    NLEVELS = 256,
    NSUMS = 6 /* of the weights, a, b, a^2, b^2, a b */
};
static const double SIGMA = 1.5;
static const double STABLE = 1e-8; /* both constants of the index */
_Static_assert(METRICS_HALO >= WINDOW - 1, "a window leaves its block");

bool
metrics_ssim_open(struct metrics_ssim *ssim, uint64_t nslices, uint64_t height,
                  uint64_t width, uint64_t cap)
{
    *ssim = (struct metrics_ssim){.nslices = nslices, .cap = cap};
    if (height < WINDOW || width < WINDOW)
        return true;
    ssim->slices = malloc(nslices * sizeof *ssim->slices);
    ssim->rows = malloc(WINDOW * NSUMS * cap * sizeof *ssim->rows);
    ssim->scaled = malloc(NSUMS * cap * sizeof *ssim->scaled);
    if (ssim->slices == NULL || ssim->rows == NULL || ssim->scaled == NULL)
        return false;
    for (uint64_t i = 0; i < nslices; i++)
        ssim->slices[i] =
            (struct metrics_ssim_slice){.low = INFINITY, .high = -INFINITY};
    return true;
}

void
metrics_ssim_free(struct metrics_ssim *ssim)
{
    free(ssim->slices);
    free(ssim->rows);
    free(ssim->scaled);
}

void
metrics_ssim_range(struct metrics_ssim *ssim, const struct metrics_block *block)
{
    for (uint64_t z = 0; ssim->slices != NULL && z < block->core[0]; z++) {
        struct metrics_ssim_slice *slice =
            &ssim->slices[block->first_slice + z];
        for (uint64_t y = 0; y < block->core[1]; y++) {
            const uint64_t row = metrics_row(block, z, y);
            for (uint64_t i = row; i < row + block->core[2]; i++) {
                if (isnan(block->a[i]))
                    continue;
                slice->low = fmin(slice->low, fmin(block->a[i], block->b[i]));
                slice->high = fmax(slice->high, fmax(block->a[i], block->b[i]));
            }
        }
    }
}

/* Maps a value to one of 256 levels from 0 to 1 in the slice's range. In a
 * slice of equal values the result is 1, or 0 for zeros. */
static double
scale(const struct metrics_ssim_slice *slice, double value)
{
    const double range = slice->high - slice->low;
    const double scaled = range > 0          ? (value - slice->low) / range
                          : slice->high != 0 ? value / slice->high
                                             : value;

    return rint(scaled * (NLEVELS - 1)) / (NLEVELS - 1);
}

/* Computes the terms of the window sums for each value of a row; 0 for missing
 * values. */
static void
scale_row(const struct metrics_ssim *ssim,
          const struct metrics_ssim_slice *slice,
          const struct metrics_block *block, uint64_t row)
{
    double *const sums = ssim->scaled;
    const uint64_t cap = ssim->cap;

    for (uint64_t x = 0; x < block->count[2]; x++) {
        const bool valid = !isnan(block->a[row + x]);
        const double a = valid ? scale(slice, block->a[row + x]) : 0;
        const double b = valid ? scale(slice, block->b[row + x]) : 0;
        const double of[NSUMS] = {valid, a, b, a * a, b * b, a * b};
        for (int k = 0; k < NSUMS; k++)
            sums[(uint64_t)k * cap + x] = of[k];
    }
}

static void
make_weights(double weights[WINDOW])
{
    double sum = 0;

    for (int i = 0; i < WINDOW; i++)
        sum += weights[i] =
            exp(-(i - MIDDLE) * (i - MIDDLE) / (2 * SIGMA * SIGMA));
    for (int i = 0; i < WINDOW; i++)
        weights[i] /= sum;
}

/* Filters along the row; windows begin at its first `nwindows` values. */
static void
filter_row(const struct metrics_ssim *ssim, const double weights[WINDOW],
           uint64_t nwindows, uint64_t y)
{
    for (uint64_t k = 0; k < NSUMS; k++) {
        const double *from = ssim->scaled + k * ssim->cap;
        double *to = ssim->rows + (y % WINDOW * NSUMS + k) * ssim->cap;
        for (uint64_t x = 0; x < nwindows; x++) {
            double sum = 0;
            for (int i = 0; i < WINDOW; i++)
                sum += weights[i] * from[x + (uint64_t)i];
            to[x] = sum;
        }
    }
}

static double
index_of(const double sums[NSUMS])
{
    const double a = sums[1] / sums[0], b = sums[2] / sums[0];
    const double of_a = sums[3] / sums[0] - a * a;
    const double of_b = sums[4] / sums[0] - b * b;
    const double of_both = sums[5] / sums[0] - a * b;

    return (2 * a * b + STABLE) / (a * a + b * b + STABLE) *
           (2 * of_both + STABLE) / (of_a + of_b + STABLE);
}

/* Adds the windows that end in row `y` and have a valid middle. */
static void
add_windows(const struct metrics_ssim *ssim, struct metrics_ssim_slice *slice,
            const struct metrics_block *block, const double weights[WINDOW],
            uint64_t nwindows, uint64_t z, uint64_t y)
{
    const uint64_t middle = metrics_row(block, z, y - MIDDLE) + MIDDLE;

    for (uint64_t x = 0; x < nwindows; x++) {
        double sums[NSUMS] = {0};
        if (isnan(block->a[middle + x]))
            continue;
        for (uint64_t i = 0; i < WINDOW; i++) {
            const double *row =
                ssim->rows + (y + 1 + i) % WINDOW * NSUMS * ssim->cap;
            for (uint64_t k = 0; k < NSUMS; k++)
                sums[k] += weights[i] * row[k * ssim->cap + x];
        }
        slice->sum += index_of(sums);
        slice->nwindows++;
    }
}

void
metrics_ssim_add(struct metrics_ssim *ssim, const struct metrics_block *block)
{
    const uint64_t height = block->count[1], width = block->count[2];
    double weights[WINDOW];

    if (ssim->slices == NULL || height < WINDOW || width < WINDOW)
        return;
    make_weights(weights);
    const uint64_t nrows = min_u64(block->core[1] + WINDOW - 1, height);
    const uint64_t nwindows = min_u64(block->core[2], width - (WINDOW - 1));
    for (uint64_t z = 0; z < block->core[0]; z++) {
        struct metrics_ssim_slice *slice =
            &ssim->slices[block->first_slice + z];
        for (uint64_t y = 0; y < nrows; y++) {
            scale_row(ssim, slice, block, metrics_row(block, z, y));
            filter_row(ssim, weights, nwindows, y);
            if (y >= WINDOW - 1)
                add_windows(ssim, slice, block, weights, nwindows, z, y);
        }
    }
}

void
metrics_ssim_end(const struct metrics_ssim *ssim,
                 struct compare_metrics *metrics)
{
    double sum = 0;

    for (uint64_t i = 0; ssim->slices != NULL && i < ssim->nslices; i++) {
        const struct metrics_ssim_slice *slice = &ssim->slices[i];
        if (slice->nwindows == 0)
            continue;
        const double index = slice->sum / (double)slice->nwindows;
        sum += index;
        metrics->ssim_min = fmin(metrics->ssim_min, index);
        metrics->nslices++;
    }
    if (metrics->nslices > 0)
        metrics->ssim = sum / (double)metrics->nslices;
}
