/* Differences of integers along dimensions, and their sums. */
#include "cpu/predict/differences.h"

#include "codec/format/base.h"

struct cpu_axis
terp_cpu_axis_of(const struct terp_layout *layout, int d)
{
    struct cpu_axis axis = {.extent = layout->dims[d], .ninner = 1};

    for (int e = 0; e < d; e++)
        axis.ninner *= layout->dims[e];
    axis.nouter = layout->nvalues / (axis.extent * axis.ninner);
    return axis;
}

/* Whether differences along d are taken so often. */
static bool
is_taken(unsigned dims, int d, int order)
{
    return dims >> (d + (order - 1) * TERP_LOSSLESS_TWICE_SHIFT) & 1;
}

/* Special points, 0 where a line begins, take the last integer before them that
 * is not special's: differences then are 0 there, and elsewhere to this
 * integer. */
static void
repeat_along(const struct cpu_stages *stages, const struct cpu_axis *axis,
             const uint64_t *mask, void *quants)
{
    const uint64_t nvalues = axis->extent * axis->ninner;
    const uint64_t first = (axis->first + 1) * axis->ninner;

    for (uint64_t o = 0; o < axis->nouter && first < nvalues; o++)
        stages->repeat(quants, mask, o * nvalues + first, (o + 1) * nvalues,
                       axis->ninner);
}

void
terp_cpu_differences_take(const struct cpu_stages *stages,
                          const struct terp_layout *layout,
                          const uint64_t *mask, unsigned dims, void *quants)
{
    for (int d = TERP_NDIMS - 1; d >= 0; d--) {
        struct cpu_axis axis = terp_cpu_axis_of(layout, d);
        for (int order = 1; order <= TERP_LOSSLESS_MAX_ORDER; order++) {
            axis.first = (uint64_t)order - 1;
            if (!is_taken(dims, d, order))
                continue;
            if (mask != NULL)
                repeat_along(stages, &axis, mask, quants);
            stages->difference(quants, axis);
        }
    }
}

void
terp_cpu_differences_sum(const struct cpu_stages *stages,
                         const struct terp_layout *layout, const uint64_t *mask,
                         unsigned dims, void *quants)
{
    for (int d = 0; d < TERP_NDIMS; d++) {
        struct cpu_axis axis = terp_cpu_axis_of(layout, d);
        for (int order = TERP_LOSSLESS_MAX_ORDER; order > 0; order--) {
            axis.first = (uint64_t)order - 1;
            if (!is_taken(dims, d, order))
                continue;
            if (mask != NULL)
                stages->clear(quants, mask, layout->nvalues);
            stages->accumulate(quants, axis);
        }
    }
}
