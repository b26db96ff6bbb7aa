/* The lossless prediction: values become integers and remainders, and
 * differences of integers are taken along dimensions. Groups of these
 * differences, and remainders, are sections of the stream. */
#include "cpu/predict/differences.h"
#include "cpu/predict/predictor.h"

static void
quantize(struct cpu_prediction *lossless)
{
    const struct cpu_stages *stages = lossless->stages;
    void *quants = lossless->work;

    /* Shifts replace the section of low bits. */
    lossless->quantizer.may_be_wide = false;
    cpu_set_nbits_below(&lossless->quantizer, 0);
    lossless->nspecials +=
        stages->lossless_quantize(lossless->values, lossless->layout->nvalues,
                                  &lossless->lossless, lossless->mask, quants);
    terp_cpu_differences_take(lossless->pool, stages, lossless->layout,
                              lossless->nspecials > 0 ? lossless->mask : NULL,
                              lossless->lossless.dims, quants);
}

static void
reconstruct(struct cpu_prediction *lossless, void *values)
{
    const struct cpu_stages *stages = lossless->stages;

    terp_cpu_differences_sum(lossless->pool, stages, lossless->layout,
                             lossless->mask, lossless->lossless.dims,
                             lossless->work);
    if (lossless->lossless.form != TERP_LOSSLESS_REMAINDERS)
        stages->lossless_restore(lossless->work, lossless->layout->nvalues,
                                 &lossless->lossless, values);
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
