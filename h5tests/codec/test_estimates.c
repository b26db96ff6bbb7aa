/* The CPU's stages that give the tuner its estimates from samples. A wrong
 * estimate still gives a valid stream, and often the same one, so round trips
 * and stream digests hardly notice. Here a digest covers all results of each
 * stage for some fields. The CUDA engine must find the same, or its streams
 * would differ. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/model/lossless_samples.h"
#include "cpu/predict/stages.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static uint64_t digest;

static void
add(uint64_t word)
{
    digest = terp_field_digest(digest, word);
}

/* Adds several words, in the same byte order on every machine. */
static void
add_bytes(const void *bytes, size_t nbytes)
{
    uint64_t word = 0;

    for (size_t i = 0; i < nbytes; i++) {
        word = word << 8 | ((const uint8_t *)bytes)[i];
        if (i % 8 == 7 || i + 1 == nbytes)
            add(word);
    }
}

static const struct terp_chunk chunks[] = {
    {TERP_FLOAT32, false, false, 3, {24, 30, 100}},
    {TERP_FLOAT64, false, false, 3, {24, 30, 100}},
    {TERP_FLOAT32, false, false, 4, {7, 11, 13, 70}},
    {TERP_FLOAT64, false, true, 4, {9, 10, 12, 66}},
    {TERP_FLOAT32, false, false, 1, {70001}},
    {TERP_FLOAT64, false, false, 2, {300, 251}},
};

static const enum terp_field fields[] = {
    TERP_FIELD_ROUGH,    TERP_FIELD_FINE,  TERP_FIELD_COAST,
    TERP_FIELD_GAPS,     TERP_FIELD_GRIDS, TERP_FIELD_MIRRORS,
    TERP_FIELD_INTEGERS, TERP_FIELD_SINES, TERP_FIELD_SPIKES};

/* A chunk's values, and the facts that stages need. */
/* of either type */
static uint64_t scratch[CPU_SAMPLE_SCRATCH_NVALUES];
_Static_assert(sizeof scratch >= CPU_LOSSLESS_SCRATCH_NBYTES, "It is enough.");

struct known {
    const struct cpu_stages *stages;
    struct terp_layout layout;
    uint64_t nvalues;
    struct cpu_fills fills;
    struct cpu_stats stats;
    const void *values;
};

static void
scans(struct known *known)
{
    const struct cpu_stages *stages = known->stages;
    struct cpu_stats stats;
    uint64_t bits = 0;
    int exponent, nzeros;

    stages->scan(known->values, known->nvalues, &known->fills, &stats);
    assert_true(stats.min < stats.max);
    add(double_bits(stats.min));
    add(double_bits(stats.max));
    add(stats.nspecials);
    add(stages->common_value(known->values, known->nvalues, &known->fills,
                             &bits));
    add(bits);
    stages->common_bits(known->values, known->nvalues, &known->fills, &exponent,
                        &nzeros);
    add((uint64_t)exponent);
    add((uint64_t)nzeros);
    known->stats = stats;
}

static void
domains(const struct known *known)
{
    static struct terp_lag_errors errors[TERP_DOMAIN_NSAMPLES];
    static const uint64_t lags[] = {1, 2, 37, 100, 3000};
    const double step = 1e-3 * (known->stats.max - known->stats.min);

    for (size_t i = 0; i < COUNT(lags); i++) {
        known->stages->lag_errors(known->values, known->nvalues, &known->fills,
                                  1 / step, lags[i], i, errors);
        add_bytes(errors, sizeof errors);
    }
}

static void
repeats(const struct known *known)
{
    static struct cpu_repeats_table table;

    for (int near_nbits = 0; near_nbits < 6; near_nbits += 5) {
        memset(&table, 0, sizeof table);
        add(known->stages->count_repeats(known->values, known->nvalues, 1,
                                         near_nbits, &table));
    }
}

static struct cpu_quantizer
quantizer_of(const struct known *known, double bound)
{
    struct cpu_quantizer quantizer = {
        .step = 2 * bound, .grid_step = 2 * bound, .bound = bound};

    quantizer.may_be_wide = bound < 1e-4;
    quantizer.reference = known->stats.min;
    cpu_set_nbits_below(&quantizer, bound < 1e-4 ? 3 : 0);
    return quantizer;
}

static void
widths(const struct known *known)
{
    static const double parts[] = {1e-2, 1e-5, 1e-9};
    static struct terp_code_widths of_codes;
    static int8_t of_differences[TERP_DIFFERENCES_NVALUES];
    const double range = known->stats.max - known->stats.min;
    const bool special = known->stats.nspecials > 0;

    for (size_t b = 0; b < COUNT(parts); b++) {
        const struct cpu_quantizer quantizer =
            quantizer_of(known, parts[b] * range);
        for (int nzeros = 0; nzeros < 9; nzeros += 8) {
            known->stages->code_widths(known->values, &known->layout,
                                       &known->fills, 1 / quantizer.step,
                                       nzeros, &of_codes);
            add_bytes(&of_codes, sizeof of_codes);
        }
        for (unsigned dims = 1; dims < TERP_NCLASSES; dims += 2) {
            known->stages->difference_widths(known->values, &known->layout,
                                             special ? &known->fills : NULL,
                                             &quantizer, dims, of_differences);
            add_bytes(of_differences, sizeof of_differences);
        }
    }
}

static void
losslessly(const struct known *known)
{
    struct terp_lossless_step steps[TERP_LOSSLESS_MAX_NSTEPS];
    struct cpu_order_weights weights;
    int exponent, nzeros;

    known->stages->common_bits(known->values, known->nvalues, &known->fills,
                               &exponent, &nzeros);
    const int n = terp_lossless_steps(known->stats.min, known->stats.max,
                                      known->stages->value_nbytes, exponent,
                                      nzeros, steps);
    /* Almost no value ends in so many zeros. */
    const struct cpu_lossless few = {
        {1, 20, (int16_t)terp_least_exponent(known->stages->value_nbytes)},
        TERP_LOSSLESS_STEPS,
        0,
        0};
    add(known->stages->count_unpredictable(known->values, known->nvalues,
                                           &known->fills, &few));
    for (int s = 0; s < n; s++) {
        struct cpu_lossless model = {steps[s].exact, steps[s].form, 0, 0};
        unsigned dims;
        model.center = known->stages->center(known->values, known->nvalues,
                                             &known->fills, &model, scratch);
        add((uint64_t)model.center);
        add(known->stages->count_unpredictable(known->values, known->nvalues,
                                               &known->fills, &model));
        memset(&weights, 0, sizeof weights);
        for (uint64_t i = 0; i < TERP_LOSSLESS_FEW_NRUNS; i++) {
            const struct terp_lossless_run run = terp_lossless_run_at(
                &known->layout, i, TERP_LOSSLESS_FEW_NRUNS);
            known->stages->weigh_orders(known->values, &known->layout,
                                        &known->fills, &model, &run, scratch,
                                        &weights);
            for (int order = (int)i % 9; order < TERP_LOSSLESS_NORDERS;
                 order += 9)
                if (terp_lossless_dims_of(&known->layout, order, &dims)) {
                    model.dims = dims;
                    add(known->stages->cost_of_run(
                        known->values, &known->layout, &known->fills, &model,
                        &run, scratch));
                }
        }
        for (int order = 0; order < TERP_LOSSLESS_NORDERS; order++)
            add(weights.nbits[order]);
        add(weights.remainder_nbits);
        add(weights.nsampled);
    }
}

/* Estimates a class of points that are odd in some dimensions. The chunk's
 * first values are the points, and the following ones are the values around
 * them. Splines take turns, alone and blended. */
static void
classes(const struct known *known)
{
    enum {
        CAPACITY = 6000
    };
    static uint16_t rows[TERP_NCLASSES * CAPACITY];
    static const uint64_t extent[TERP_NDIMS] = {37, 5, 6, 4};
    const uint8_t *values = known->values;
    const size_t nbytes = (size_t)known->stages->value_nbytes;

    for (unsigned odd = 1; odd < TERP_NCLASSES; odd++)
        for (int spline = 0; spline < TERP_NSPLINES; spline++)
            for (int order = 1; order < 4; order++) {
                struct cpu_quantizer quantizer = quantizer_of(
                    known, 1e-3 * (known->stats.max - known->stats.min));
                struct cpu_class cls = {.predicting = odd,
                                        .spline = (enum terp_spline)spline,
                                        .blend_order = order,
                                        .extent = {37, 5, 6, 4},
                                        .nrows = 5 * 6 * 4,
                                        .nruns_per_row = 1};
                const int ndims = __builtin_popcount(odd);
                /* combinations that no plan uses */
                if ((order > 1 && (ndims < 2 || ndims == 4)) ||
                    (order == 2 && spline == TERP_SPLINE_LONG) ||
                    (order > 1 && spline != TERP_SPLINE_LONG &&
                     spline != TERP_SPLINE_CUBIC))
                    continue;
                memcpy(&cls.values, &values, sizeof values); /* read-only */
                for (unsigned lack = 1; lack <= odd; lack++) {
                    uint64_t around[TERP_NDIMS];
                    for (int d = 0; d < TERP_NDIMS; d++)
                        around[d] = extent[d] + (lack >> d & 1);
                    if ((lack & odd) == lack)
                        cpu_set_source(&cls, lack,
                                       values + (4000 + 500 * lack) * nbytes,
                                       around);
                }
                memset(rows, 0, sizeof rows);
                add(known->stages->sample(&cls, &quantizer, 1, CAPACITY,
                                          scratch, rows));
                for (size_t i = 0; i < COUNT(rows); i += 4)
                    add((uint64_t)rows[i] << 48 | (uint64_t)rows[i + 1] << 32 |
                        (uint64_t)rows[i + 2] << 16 | rows[i + 3]);
            }
}

static void
means(const struct known *known)
{
    const struct cpu_quantizer quantizer =
        quantizer_of(known, 1e-4 * (known->stats.max - known->stats.min));
    uint64_t *mask = terp_case_alloc(known->nvalues / 8 + 8);
    void *quants = terp_case_alloc(known->nvalues * 8);
    const uint64_t extent =
        known->layout.dims[1] > 1 ? known->layout.dims[1] : 16;
    const struct cpu_axis axis = {1, extent, known->nvalues / extent,
                                  0, 0,      known->nvalues / extent};

    memset(mask, 0, known->nvalues / 8 + 8);
    known->stages->mask(known->values, 0, known->nvalues, &known->fills, mask);
    add(known->stages->prequantize(known->values, known->nvalues, &quantizer,
                                   mask, quants));
    for (uint64_t i = 0; i < known->nvalues / 64; i++)
        add(mask[i]);
    add(known->stages->count_near(known->values, quants, mask, 0,
                                  TERP_LORENZO_NVALUES, &quantizer));
    for (uint64_t i = 0; i < extent; i++) {
        uint64_t of_differences = 0, of_means = 0;
        const uint64_t n = min_u64(axis.ninner, TERP_LORENZO_NVALUES);
        known->stages->weigh_means(quants, i, axis, n, (int)(i % 5),
                                   &of_differences, &of_means);
        add(of_differences);
        add(of_means);
    }
    free(mask);
    free(quants);
}

static const struct {
    const char *name;
    void (*look)(const struct known *known);
    uint64_t digest;
} looks[] = {
    {"domains", domains, UINT64_C(0x5eeed3bd87029b96)},
    {"repeats", repeats, UINT64_C(0x6d51c6b4b66db4f1)},
    {"widths", widths, UINT64_C(0xc916625d6295b017)},
    {"losslessly", losslessly, UINT64_C(0xaf12d58ec9b5bc7d)},
    {"classes", classes, UINT64_C(0xf0a3798eb587f4cc)},
    {"means", means, UINT64_C(0xcdb39178bd933c04)},
};

/* Runs all stages on a field, and adds their results to the digests. */
static void
look_at(const struct terp_chunk *chunk, enum terp_field field,
        uint64_t digests[COUNT(looks) + 1])
{
    struct terp_params params = {.has_fill = true};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));
    struct known known = {.stages = cpu_stages_of(chunk->type)};

    terp_field_make(field, chunk, values);
    params.fill_bits = cpu_value_bits(known.stages, 1e20);
    terp_layout_make(chunk, &known.layout);
    known.nvalues = known.layout.nvalues;
    known.fills = cpu_fills_of(known.stages, &params);
    known.values = values;
    digest = digests[COUNT(looks)];
    scans(&known);
    digests[COUNT(looks)] = digest;
    for (size_t i = 0; i < COUNT(looks); i++) {
        digest = digests[i];
        looks[i].look(&known);
        digests[i] = digest;
    }
    free(values);
}

static const uint64_t digest_of_scans = UINT64_C(0x2d3ccc773d86da4f);

static void
samples_tell_what_they_always_told(void **state)
{
    uint64_t digests[COUNT(looks) + 1] = {0};
    int nothers = 0;

    (void)state;
    for (size_t c = 0; c < COUNT(chunks); c++)
        for (size_t f = 0; f < COUNT(fields); f++)
            look_at(&chunks[c], fields[f], digests);
    for (size_t i = 0; i <= COUNT(looks); i++) {
        const bool last = i == COUNT(looks);
        if (digests[i] != (last ? digest_of_scans : looks[i].digest)) {
            fprintf(stderr, "%s: 0x%016" PRIx64 "\n",
                    last ? "scans" : looks[i].name, digests[i]);
            nothers++;
        }
    }
    assert_int_equal(nothers, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_tell_what_they_always_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
