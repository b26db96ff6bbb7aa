#include "cpu_lorenzo.h"

#include "base.h"

/* Differences, or sums, along every dimension in use. */
static void
along_dims(const struct cpu_lorenzo *lorenzo, void *levels,
           void (*step)(void *, uint64_t, uint64_t, uint64_t))
{
    const struct terp_layout *layout = lorenzo->layout;
    uint64_t ninner = 1;

    for (int d = 0; d < TERP_NDIMS; d++) {
        uint64_t extent = layout->dims[d];
        if (lorenzo->dims >> d & 1)
            step(levels, layout->nvalues / (ninner * extent), extent, ninner);
        ninner *= extent;
    }
}

void
cpu_lorenzo_quantize(const struct cpu_lorenzo *lorenzo, const void *values,
                     uint64_t *mask, uint64_t *nspecials, void *levels,
                     uint16_t *symbols)
{
    const struct cpu_stages *stages = lorenzo->stages;
    uint64_t nvalues = lorenzo->layout->nvalues, carry = 0;

    *nspecials += stages->prequantize(values, nvalues, &lorenzo->quantizer,
                                      mask, &carry, levels);
    along_dims(lorenzo, levels, stages->difference);
    stages->symbols_of(levels, nvalues, lorenzo->quantizer.max_code, symbols);
}

void
cpu_lorenzo_reconstruct(const struct cpu_lorenzo *lorenzo,
                        const uint16_t *symbols, void *levels, void *values)
{
    const struct cpu_stages *stages = lorenzo->stages;
    uint64_t nvalues = lorenzo->layout->nvalues;

    stages->of_symbols(symbols, nvalues, levels);
    along_dims(lorenzo, levels, stages->accumulate);
    stages->dequantize(levels, nvalues, &lorenzo->quantizer, values);
}
