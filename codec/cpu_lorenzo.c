#include "cpu_lorenzo.h"

#include "base.h"

/* A dimension as the stages see it: levels[nouter][extent][ninner]. */
struct axis {
    uint64_t nouter, extent, ninner;
};

static struct axis
axis_of(const struct terp_layout *layout, int d)
{
    struct axis axis = {.extent = layout->dims[d], .ninner = 1};

    for (int e = 0; e < d; e++)
        axis.ninner *= layout->dims[e];
    axis.nouter = layout->nvalues / (axis.extent * axis.ninner);
    return axis;
}

/* Special points, 0 at the begin of a line, take the last integer before them
 * that is not special's: differences then are 0 there, and elsewhere to this
 * integer. */
static void
repeat_along(const struct cpu_stages *stages, const struct axis *axis,
             const uint64_t *mask, void *levels)
{
    uint64_t nvalues = axis->extent * axis->ninner;

    for (uint64_t o = 0; o < axis->nouter; o++)
        stages->repeat(levels, mask, o * nvalues + axis->ninner,
                       (o + 1) * nvalues, axis->ninner);
}

void
cpu_lorenzo_quantize(const struct cpu_lorenzo *lorenzo, const void *values,
                     uint64_t *mask, uint64_t *nspecials, void *levels,
                     uint16_t *symbols)
{
    const struct cpu_stages *stages = lorenzo->stages;
    uint64_t nvalues = lorenzo->layout->nvalues;

    *nspecials +=
        stages->prequantize(values, nvalues, &lorenzo->quantizer, mask, levels);
    for (int d = TERP_NDIMS - 1; d >= 0; d--) {
        struct axis axis = axis_of(lorenzo->layout, d);
        if (!(lorenzo->dims >> d & 1))
            continue;
        if (*nspecials > 0)
            repeat_along(stages, &axis, mask, levels);
        stages->difference(levels, axis.nouter, axis.extent, axis.ninner);
    }
    stages->symbols_of(levels, nvalues, lorenzo->quantizer.max_code, symbols);
}

void
cpu_lorenzo_reconstruct(const struct cpu_lorenzo *lorenzo, const uint64_t *mask,
                        const uint16_t *symbols, void *levels, void *values)
{
    const struct cpu_stages *stages = lorenzo->stages;
    uint64_t nvalues = lorenzo->layout->nvalues;

    stages->of_symbols(symbols, nvalues, levels);
    for (int d = 0; d < TERP_NDIMS; d++) {
        struct axis axis = axis_of(lorenzo->layout, d);
        if (!(lorenzo->dims >> d & 1))
            continue;
        if (mask != NULL)
            stages->clear(levels, mask, nvalues);
        stages->accumulate(levels, axis.nouter, axis.extent, axis.ninner);
    }
    stages->dequantize(levels, nvalues, &lorenzo->quantizer, values);
}
