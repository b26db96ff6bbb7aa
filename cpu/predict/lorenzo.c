/* The Lorenzo predictor with dual quantization (Tian et al., "cuSZ", PACT
 * 2020): values become integers first; then differences of integers are taken,
 * which are exact. Differences skip special points: along a dimension each is
 * taken to the last point before it that is not special. In a chunk without
 * special points, means may replace differences along the slowest dimension. */
#include "cpu/predict/predictor.h"

#include "codec/format/base.h"
#include "cpu/predict/differences.h"
#include "cpu/predict/steps.h"

/* Whether means are smaller than differences along dimension d, in the
 * stretches that the tuner samples. */
static bool
means_are_smaller(const struct cpu_prediction *lorenzo, int d,
                  const void *quants)
{
    const struct terp_layout *layout = lorenzo->layout;
    const struct cpu_axis axis = terp_cpu_axis_of(layout, d);
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
            (const uint8_t *)quants +
            (at - i * axis.ninner) * (uint64_t)lorenzo->stages->value_nbytes;
        lorenzo->stages->weigh_means(
            line, i, axis, min_u64(TERP_LORENZO_NVALUES, nx - x),
            terp_nbits_not_weighed(cpu_nbits_below(&lorenzo->quantizer)),
            &differences, &means);
    }
    return means < differences;
}

/* Finds how many low bits of differences symbols do not hold, if differences
 * may be wide. */
static void
set_nbits_below(struct cpu_prediction *lorenzo)
{
    const struct cpu_stages *stages = lorenzo->stages;
    struct cpu_quantizer *quantizer = &lorenzo->quantizer;
    int8_t widths[TERP_DIFFERENCES_NVALUES];

    if (!quantizer->may_be_wide)
        return;
    stages->difference_widths(lorenzo->values, lorenzo->layout, lorenzo->fills,
                              quantizer, lorenzo->lorenzo_dims, widths);
    const int nbits_below = terp_nbits_below(
        widths, TERP_DIFFERENCES_NVALUES,
        terp_below_max_nbits(stages->value_nbytes, TERP_PREDICTOR_LORENZO),
        quantizer->escape_nbytes);
    cpu_set_nbits_below(quantizer, nbits_below);
}

/* ---- value by value ---- */

static void
prequantize_range(void *arg, struct cpu_share share)
{
    struct cpu_steps *steps = arg;
    const struct cpu_prediction *p = steps->prediction;
    const struct cpu_steps_range r = cpu_steps_range_of(p, share);

    atomic_fetch_add(
        &steps->nunpredictable,
        p->stages->prequantize((const uint8_t *)p->values + r.offset, r.n,
                               &p->quantizer, p->mask + r.at / 64, r.quants));
}

static void
take_symbols(void *arg, struct cpu_share share)
{
    const struct cpu_prediction *p =
        ((const struct cpu_steps *)arg)->prediction;
    const struct cpu_steps_range r = cpu_steps_range_of(p, share);

    p->stages->symbols_of_quants(r.quants, r.n, &p->quantizer,
                                 p->symbols + r.at);
}

static void
place_symbols(void *arg, struct cpu_share share)
{
    const struct cpu_prediction *p =
        ((const struct cpu_steps *)arg)->prediction;
    const struct cpu_steps_range r = cpu_steps_range_of(p, share);

    p->stages->quants_of_symbols(p->symbols + r.at, r.n, &p->quantizer,
                                 r.quants);
}

static void
dequantize_range(void *arg, struct cpu_share share)
{
    const struct cpu_steps *steps = arg;
    const struct cpu_prediction *p = steps->prediction;
    const struct cpu_steps_range r = cpu_steps_range_of(p, share);

    p->stages->dequantize(r.quants, r.n, &p->quantizer,
                          (uint8_t *)steps->values + r.offset);
}

/* ---- the predictor ---- */

static void
quantize(struct cpu_prediction *lorenzo)
{
    const struct cpu_stages *stages = lorenzo->stages;
    struct cpu_steps steps = {.prediction = lorenzo};
    void *quants = lorenzo->work;

    set_nbits_below(lorenzo);
    terp_cpu_steps_run(prequantize_range, &steps);
    lorenzo->nspecials += atomic_load(&steps.nunpredictable);
    bool has_specials = lorenzo->nspecials > 0;
    if (terp_means_are_possible(lorenzo->layout, lorenzo->lorenzo_dims,
                                has_specials)) {
        int d = terp_means_dim(lorenzo->layout);
        struct cpu_axis axis = terp_cpu_axis_of(lorenzo->layout, d);
        terp_cpu_differences_take(lorenzo->pool, stages, lorenzo->layout, NULL,
                                  lorenzo->lorenzo_dims & ~(1u << d), quants);
        const bool by_means = means_are_smaller(lorenzo, d, quants);
        lorenzo->lorenzo_dims |= by_means ? TERP_LORENZO_MEANS : 0;
        terp_cpu_axis_run(lorenzo->pool,
                          by_means ? stages->difference_means
                                   : stages->difference,
                          axis, stages->value_nbytes, quants);
    } else {
        terp_cpu_differences_take(lorenzo->pool, stages, lorenzo->layout,
                                  has_specials ? lorenzo->mask : NULL,
                                  lorenzo->lorenzo_dims, quants);
    }
    terp_cpu_steps_run(take_symbols, &steps);
    if (lorenzo->quantizer.exact.significand > 0)
        lorenzo->lorenzo_dims |= TERP_LORENZO_EXACT;
    if (lorenzo->quantizer.tail_nbits > 0)
        lorenzo->lorenzo_dims |= TERP_LORENZO_TAILS;
}

static void
reconstruct(struct cpu_prediction *lorenzo, void *values)
{
    const struct cpu_stages *stages = lorenzo->stages;
    struct cpu_steps steps = {.prediction = lorenzo, .values = values};
    unsigned dims = lorenzo->lorenzo_dims;
    void *quants = lorenzo->work;

    terp_cpu_steps_run(place_symbols, &steps);
    if (dims & TERP_LORENZO_MEANS) {
        int d = terp_means_dim(lorenzo->layout);
        struct cpu_axis axis = terp_cpu_axis_of(lorenzo->layout, d);
        terp_cpu_axis_run(lorenzo->pool, stages->accumulate_means, axis,
                          stages->value_nbytes, quants);
        dims &= ~(1u << d);
    }
    terp_cpu_differences_sum(lorenzo->pool, stages, lorenzo->layout,
                             lorenzo->mask, dims & TERP_LORENZO_DIMS, quants);
    terp_cpu_steps_run(dequantize_range, &steps);
}

/* ---- the model ---- */

static void
write_model(const struct cpu_prediction *lorenzo, struct writer *writer)
{
    write_le(writer, lorenzo->lorenzo_dims, 1);
    if (lorenzo->lorenzo_dims & TERP_LORENZO_EXACT) {
        uint8_t *at = writer_take(writer, TERP_EXACT_NBYTES);
        if (at != NULL)
            terp_exact_store(lorenzo->quantizer.exact, at);
    }
    if (lorenzo->lorenzo_dims & TERP_LORENZO_TAILS)
        write_le(writer, (uint64_t)lorenzo->quantizer.tail_nbits, 1);
}

static enum terp_status
read_model(struct cpu_prediction *lorenzo, struct reader *reader)
{
    lorenzo->lorenzo_dims = (unsigned)read_le(reader, 1);
    bool valid =
        !reader->underflow &&
        terp_lorenzo_dims_are_valid(lorenzo->layout, lorenzo->lorenzo_dims,
                                    lorenzo->quantizer.has_specials);
    if (valid && (lorenzo->lorenzo_dims & TERP_LORENZO_EXACT) != 0) {
        const uint8_t *at = reader_take(reader, TERP_EXACT_NBYTES);
        valid = at != NULL && terp_exact_load(at, lorenzo->stages->value_nbytes,
                                              &lorenzo->quantizer.exact);
    }
    if (valid && (lorenzo->lorenzo_dims & TERP_LORENZO_TAILS) != 0) {
        lorenzo->quantizer.tail_nbits = (int)read_le(reader, 1);
        valid = !reader->underflow &&
                terp_tail_nbits_are_valid(lorenzo->quantizer.tail_nbits,
                                          lorenzo->quantizer.wide,
                                          lorenzo->stages->value_nbytes);
    }
    valid &= lorenzo->quantizer.exact.significand > 0 ||
             !is_zero_bound(lorenzo->quantizer.bound);
    return valid ? TERP_OK : TERP_ERR_CORRUPT;
}

const struct cpu_predictor terp_cpu_lorenzo = {.tune = terp_cpu_lorenzo_tune,
                                               .quantize = quantize,
                                               .write_model = write_model,
                                               .read_model = read_model,
                                               .reconstruct = reconstruct};
