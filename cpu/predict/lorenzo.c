#include "cpu/predict/lorenzo.h"

#include "codec/format/base.h"

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

/* Whether means are smaller than differences along dimension d, of stretches as
 * the tuner samples them. */
static bool
means_are_smaller(const struct cpu_lorenzo *lorenzo, int d, const void *levels)
{
    const struct terp_layout *layout = lorenzo->layout;
    const struct axis axis = axis_of(layout, d);
    uint64_t nx = layout->dims[0];
    uint64_t nper_row = div_up(nx, TERP_LORENZO_NVALUES);
    uint64_t nstretches = layout->nvalues / nx * nper_row;
    uint64_t every = terp_lorenzo_distance(layout->nvalues);
    uint64_t differences = 0, means = 0;

    for (uint64_t k = every / 2; k < nstretches; k += every) {
        uint64_t x = k % nper_row * TERP_LORENZO_NVALUES;
        uint64_t at = k / nper_row * nx + x;
        uint64_t i = at / axis.ninner % axis.extent;
        const uint8_t *line =
            (const uint8_t *)levels +
            (at - i * axis.ninner) * (uint64_t)lorenzo->stages->value_nbytes;
        lorenzo->stages->weigh_means(line, i, axis.extent, axis.ninner,
                                     min_u64(TERP_LORENZO_NVALUES, nx - x),
                                     &differences, &means);
    }
    return means < differences;
}

/* Differences along all dimensions but d, where no point is special. */
static void
take_other_differences(const struct cpu_lorenzo *lorenzo, int d, void *levels)
{
    for (int e = TERP_NDIMS - 1; e >= 0; e--) {
        struct axis axis = axis_of(lorenzo->layout, e);
        if (e != d && lorenzo->dims >> e & 1)
            lorenzo->stages->difference(levels, axis.nouter, axis.extent,
                                        axis.ninner);
    }
}

static void
take_differences(const struct cpu_lorenzo *lorenzo, const uint64_t *mask,
                 void *levels)
{
    for (int d = TERP_NDIMS - 1; d >= 0; d--) {
        struct axis axis = axis_of(lorenzo->layout, d);
        if (!(lorenzo->dims >> d & 1))
            continue;
        if (mask != NULL)
            repeat_along(lorenzo->stages, &axis, mask, levels);
        lorenzo->stages->difference(levels, axis.nouter, axis.extent,
                                    axis.ninner);
    }
}

void
terp_cpu_lorenzo_quantize(struct cpu_lorenzo *lorenzo, const void *values,
                          uint64_t *mask, uint64_t *nspecials, void *levels,
                          uint16_t *symbols)
{
    const struct cpu_stages *stages = lorenzo->stages;
    uint64_t nvalues = lorenzo->layout->nvalues;

    *nspecials +=
        stages->prequantize(values, nvalues, &lorenzo->quantizer, mask, levels);
    if (terp_means_are_possible(lorenzo->layout, lorenzo->dims,
                                *nspecials > 0)) {
        int d = terp_means_dim(lorenzo->layout);
        struct axis axis = axis_of(lorenzo->layout, d);
        take_other_differences(lorenzo, d, levels);
        if (means_are_smaller(lorenzo, d, levels)) {
            lorenzo->dims |= TERP_LORENZO_MEANS;
            stages->difference_means(levels, axis.nouter, axis.extent,
                                     axis.ninner);
        } else {
            stages->difference(levels, axis.nouter, axis.extent, axis.ninner);
        }
    } else {
        take_differences(lorenzo, *nspecials > 0 ? mask : NULL, levels);
    }
    stages->symbols_of(levels, nvalues, lorenzo->quantizer.max_code, symbols);
}

void
terp_cpu_lorenzo_reconstruct(const struct cpu_lorenzo *lorenzo,
                             const uint64_t *mask, const uint16_t *symbols,
                             void *levels, void *values)
{
    const struct cpu_stages *stages = lorenzo->stages;
    uint64_t nvalues = lorenzo->layout->nvalues;
    unsigned dims = lorenzo->dims;

    stages->of_symbols(symbols, nvalues, levels);
    if (dims & TERP_LORENZO_MEANS) {
        int d = terp_means_dim(lorenzo->layout);
        struct axis axis = axis_of(lorenzo->layout, d);
        stages->accumulate_means(levels, axis.nouter, axis.extent, axis.ninner);
        dims &= ~(1u << d);
    }
    for (int d = 0; d < TERP_NDIMS; d++) {
        struct axis axis = axis_of(lorenzo->layout, d);
        if (!(dims >> d & 1))
            continue;
        if (mask != NULL)
            stages->clear(levels, mask, nvalues);
        stages->accumulate(levels, axis.nouter, axis.extent, axis.ninner);
    }
    stages->dequantize(levels, nvalues, &lorenzo->quantizer, values);
}
