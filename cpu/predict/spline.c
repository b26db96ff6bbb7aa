/* The spline predictor over all levels of a chunk. */
#include "cpu/predict/spline.h"

#include <string.h>

#include "codec/format/base.h"

/* ---- prediction, level by level ---- */

struct pass {
    const struct cpu_prediction *spline;
    const struct cpu_class *cls;
    struct cpu_quantizer quantizer;
    bool decode;
};

static void
pass_runs(void *arg, struct cpu_share share)
{
    const struct pass *pass = arg;
    const struct cpu_stages *stages = pass->spline->stages;

    (pass->decode ? stages->reconstruct : stages->quantize)(
        pass->cls, &pass->quantizer, share.first, share.end,
        cpu_prediction_scratch(pass->spline, share.worker));
}

static void
pass_level(const struct cpu_prediction *spline, int l, bool decode)
{
    const struct terp_level_plan *plan = &spline->plan[l];
    struct cpu_class cls;
    struct pass pass = {.spline = spline,
                        .cls = &cls,
                        .quantizer = terp_cpu_spline_quantizer(spline, l),
                        .decode = decode};

    for (int i = 0; i < TERP_NCLASSES - 1; i++) {
        if (terp_cpu_spline_planned_class(spline, l, terp_nth_class(i), plan,
                                          &cls))
            terp_cpu_pool_run(spline->pool, pass_runs, &pass,
                              cls.nrows * cls.nruns_per_row,
                              terp_cpu_spline_min_nitems(
                                  min_u64(cls.extent[0], CPU_RUN_NVALUES)));
    }
}

/* Copies anchors to the coarsest lattice. */
static void
place_anchors(const struct cpu_prediction *spline)
{
    int nlevels = spline->layout->nlevels;

    if (nlevels > 0)
        memcpy(terp_cpu_spline_class_values(spline, nlevels, 0), spline->work,
               spline->layout->nbricks *
                   (uint64_t)spline->stages->value_nbytes);
}

static void
quantize(struct cpu_prediction *spline)
{
    struct cpu_quantizer quantizer = spline->quantizer;
    uint64_t nbricks = spline->layout->nbricks;

    spline->stages->quantize_chain(spline->work, spline->before, nbricks,
                                   &quantizer, spline->symbols);
    place_anchors(spline);
    for (int l = spline->layout->nlevels; l >= 1; l--) {
        pass_level(spline, l, false);
        if (l > 1)
            terp_cpu_spline_interleave(
                spline, l, terp_cpu_spline_class_values(spline, l - 1, 0));
    }
}

static void
reconstruct(struct cpu_prediction *spline, void *values)
{
    uint64_t nbricks = spline->layout->nbricks;

    spline->stages->reconstruct_chain(spline->work, nbricks, &spline->quantizer,
                                      spline->symbols);
    place_anchors(spline);
    for (int l = spline->layout->nlevels; l >= 1; l--) {
        pass_level(spline, l, true);
        terp_cpu_spline_interleave(
            spline, l,
            l > 1 ? terp_cpu_spline_class_values(spline, l - 1, 0) : values);
    }
    if (spline->layout->nlevels == 0)
        memcpy(values, spline->work,
               nbricks * (uint64_t)spline->stages->value_nbytes);
}

/* ---- the model ---- */

static void
write_model(const struct cpu_prediction *spline, struct writer *writer)
{
    const struct cpu_stages *stages = spline->stages;

    write_le(writer, cpu_value_bits(stages, spline->quantizer.reference),
             stages->value_nbytes);
    for (int l = spline->layout->nlevels; l >= 1; l--) {
        uint8_t *at = writer_take(writer, TERP_PLAN_NBYTES);
        if (at != NULL)
            terp_plan_store(&spline->plan[l], at);
    }
}

static enum terp_status
read_model(struct cpu_prediction *spline, struct reader *reader)
{
    const struct cpu_stages *stages = spline->stages;

    spline->quantizer.reference =
        cpu_value_of_bits(stages, read_le(reader, stages->value_nbytes));
    for (int l = spline->layout->nlevels; l >= 1; l--) {
        const uint8_t *at = reader_take(reader, TERP_PLAN_NBYTES);
        if (at == NULL)
            return TERP_ERR_CORRUPT;
        terp_plan_load(at, &spline->plan[l]);
    }
    return reader->underflow ? TERP_ERR_CORRUPT : TERP_OK;
}

const struct cpu_predictor terp_cpu_spline = {.tune = terp_cpu_spline_tune,
                                              .quantize = quantize,
                                              .write_model = write_model,
                                              .read_model = read_model,
                                              .reconstruct = reconstruct};
