/* The lossless prediction: values become integers and remainders, and
 * differences of integers are taken along dimensions. Groups of these
 * differences, and remainders, are sections of the stream. */
#include "codec/format/base.h"
#include "cpu/predict/differences.h"
#include "cpu/predict/predictor.h"
#include "cpu/predict/steps.h"

static void
quantize_range(void *arg, struct cpu_share share)
{
    struct cpu_steps *steps = arg;
    const struct cpu_prediction *p = steps->prediction;
    const struct cpu_steps_range r = cpu_steps_range_of(p, share);

    atomic_fetch_add(&steps->nunpredictable,
                     p->stages->lossless_quantize(
                         (const uint8_t *)p->values + r.offset, r.n,
                         &p->lossless, p->mask + r.at / 64, r.quants));
}

static void
restore_range(void *arg, struct cpu_share share)
{
    const struct cpu_steps *steps = arg;
    const struct cpu_prediction *p = steps->prediction;
    const struct cpu_steps_range r = cpu_steps_range_of(p, share);

    p->stages->lossless_restore(r.quants, r.n, &p->lossless,
                                (uint8_t *)steps->values + r.offset);
}

static void
quantize(struct cpu_prediction *lossless)
{
    struct cpu_steps steps = {.prediction = lossless};

    /* Shifts replace the section of low bits. */
    lossless->quantizer.may_be_wide = false;
    cpu_set_nbits_below(&lossless->quantizer, 0);
    terp_cpu_steps_run(quantize_range, &steps);
    lossless->nspecials += atomic_load(&steps.nunpredictable);
    terp_cpu_differences_take(lossless->pool, lossless->stages,
                              lossless->layout,
                              lossless->nspecials > 0 ? lossless->mask : NULL,
                              lossless->lossless.dims, lossless->work);
}

static void
reconstruct(struct cpu_prediction *lossless, void *values)
{
    struct cpu_steps steps = {.prediction = lossless, .values = values};

    terp_cpu_differences_sum(lossless->pool, lossless->stages, lossless->layout,
                             lossless->mask, lossless->lossless.dims,
                             lossless->work);
    if (lossless->lossless.form != TERP_LOSSLESS_REMAINDERS)
        terp_cpu_steps_run(restore_range, &steps);
}

static void
write_model(const struct cpu_prediction *lossless, struct writer *writer)
{
    const struct cpu_lossless *model = &lossless->lossless;

    write_le(writer, model->dims, 1);
    write_le(writer,
             (unsigned)model->form |
                 (model->center != 0 ? TERP_LOSSLESS_CENTER : 0),
             1);
    write_le(writer, model->exact.nzeros, 1);
    write_le(writer, (uint64_t)model->exact.exponent, 2);
    if (model->center != 0)
        write_le(writer, (uint64_t)model->center,
                 lossless->stages->value_nbytes);
}

static enum terp_status
read_model(struct cpu_prediction *lossless, struct reader *reader)
{
    struct cpu_lossless *model = &lossless->lossless;
    const int value_nbytes = lossless->stages->value_nbytes;

    model->dims = (unsigned)read_le(reader, 1);
    const unsigned byte = (unsigned)read_le(reader, 1);
    model->form = (enum terp_lossless_form)(byte & TERP_LOSSLESS_FORM);
    model->exact.significand = 1;
    model->exact.nzeros = (uint8_t)read_le(reader, 1);
    model->exact.exponent = (int16_t)read_le(reader, 2);
    model->center = byte & TERP_LOSSLESS_CENTER
                        ? (int64_t)read_le(reader, value_nbytes)
                        : 0;
    return !reader->underflow &&
                   (byte & ~(TERP_LOSSLESS_FORM | TERP_LOSSLESS_CENTER)) == 0 &&
                   model->form < TERP_LOSSLESS_NFORMS &&
                   terp_lossless_dims_are_valid(model->dims) &&
                   terp_exact_is_valid(model->exact, value_nbytes) &&
                   lossless->quantizer.wide == 0
               ? TERP_OK
               : TERP_ERR_CORRUPT;
}

const struct cpu_predictor terp_cpu_lossless = {.tune = terp_cpu_lossless_tune,
                                                .quantize = quantize,
                                                .write_model = write_model,
                                                .read_model = read_model,
                                                .reconstruct = reconstruct};
