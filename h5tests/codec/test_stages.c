/* The quantizer's check by itself. With ordinary data the codec never needs the
 * check, because the step leaves space for rounding. Here the step is too wide
 * for the bound, so only the check keeps the bound. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "cpu/predict/stages.h"
#include "h5tests/support/cmocka_all.h"

#define NVALUES 4096
#define BOUND 0.01

static const struct cpu_quantizer wide = {.step = 6 * BOUND,
                                          .grid_step = 6 * BOUND,
                                          .bound = BOUND,
                                          .max_code = TERP_MAX_CODE,
                                          .radius = TERP_RADIUS};

static double
pseudo_random(uint64_t i)
{
    i = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    return (double)(i >> 40) / (1 << 24);
}

static void
fill(double *doubles, float *floats)
{
    for (uint64_t i = 0; i < NVALUES; i++) {
        doubles[i] = pseudo_random(i);
        floats[i] = (float)doubles[i];
    }
}

/* Codes within the bound, escapes that keep their value, and both mixed. */
static void
check(const double *before, const double *after, const uint16_t *symbols)
{
    int nescapes = 0;

    for (int i = 0; i < NVALUES; i++) {
        assert_true(fabs(before[i] - after[i]) <= BOUND);
        nescapes += symbols[i] == TERP_ESCAPE;
        if (symbols[i] == TERP_ESCAPE)
            assert_true(before[i] == after[i]);
    }
    assert_in_range(nescapes, NVALUES / 2, NVALUES - 100);
}

static void
widen(const float *from, double *to)
{
    for (int i = 0; i < NVALUES; i++)
        to[i] = (double)from[i];
}

/* A class of points between the even points of a row. */
static struct cpu_class
row(void *values, const void *even, uint16_t *symbols)
{
    struct cpu_class cls = {.predicting = 1,
                            .extent = {NVALUES, 1, 1, 1},
                            .nrows = 1,
                            .nruns_per_row = NVALUES / CPU_RUN_NVALUES,
                            .values = values,
                            .symbols = symbols};
    cpu_set_source(&cls, 1, even, cls.extent);
    return cls;
}

static double scratch[CPU_RUN_SCRATCH_NVALUES];

static void
step_too_wide_escapes_in_a_class(void **state)
{
    static double doubles[NVALUES], before[NVALUES], even64[NVALUES];
    static float floats[NVALUES], even32[NVALUES];
    static uint16_t symbols[NVALUES];
    const uint64_t nruns = NVALUES / CPU_RUN_NVALUES;

    (void)state;
    for (int masked = 0; masked < 2; masked++) {
        struct cpu_quantizer quantizer = wide;
        quantizer.has_specials = masked;
        fill(before, floats);
        fill(doubles, floats);
        struct cpu_class cls = row(doubles, even64, symbols);
        terp_cpu_stages_f64.quantize(&cls, &quantizer, 0, nruns, scratch);
        check(before, doubles, symbols);

        widen(floats, before);
        cls = row(floats, even32, symbols);
        terp_cpu_stages_f32.quantize(&cls, &quantizer, 0, nruns, scratch);
        widen(floats, doubles);
        check(before, doubles, symbols);
    }
}

static void
step_too_wide_makes_specials_for_lorenzo(void **state)
{
    static double before[NVALUES], after[NVALUES];
    static float floats[NVALUES];
    static int64_t quants[NVALUES];
    uint64_t mask[NVALUES / 64] = {0};

    (void)state;
    fill(before, floats);
    uint64_t nunpredictable =
        terp_cpu_stages_f64.prequantize(before, NVALUES, &wide, mask, quants);
    assert_in_range(nunpredictable, NVALUES / 2, NVALUES - 100);
    terp_cpu_stages_f64.dequantize(quants, NVALUES, &wide, after);
    for (int i = 0; i < NVALUES; i++)
        if (!(mask[i / 64] >> (i % 64) & 1))
            assert_true(fabs(before[i] - after[i]) <= BOUND);
}

/* Values that no code reaches, under a step that fits the bound. Each becomes a
 * value of the grid, stored as a number of steps. An enormous value stays as it
 * is. */
static void
escapes_are_put_on_the_grid(void **state)
{
    static double doubles[NVALUES], before[NVALUES], even64[NVALUES];
    static float floats[NVALUES], even32[NVALUES];
    static uint16_t symbols[NVALUES];
    const struct cpu_quantizer quantizer = {.step = BOUND / 2,
                                            .grid_step = 1.9 * BOUND,
                                            .bound = BOUND,
                                            .max_code = TERP_MAX_CODE,
                                            .radius = TERP_RADIUS,
                                            .reference = 0.25};

    (void)state;
    for (int wide_type = 0; wide_type < 2; wide_type++) {
        const struct cpu_stages *stages =
            wide_type ? &terp_cpu_stages_f64 : &terp_cpu_stages_f32;
        fill(before, floats);
        for (int i = 0; i < NVALUES; i++) {
            floats[i] = i == 7 ? 1e30F : 1000 * floats[i] + 10;
            doubles[i] = before[i] = (double)floats[i];
        }
        struct cpu_class cls = wide_type ? row(doubles, even64, symbols)
                                         : row(floats, even32, symbols);
        struct cpu_grid grid = stages->grid(&quantizer);
        stages->quantize(&cls, &quantizer, 0, NVALUES / CPU_RUN_NVALUES,
                         scratch);
        for (int i = 0; i < NVALUES; i++) {
            union {
                float narrow;
                double wide;
            } value, again;
            int64_t nsteps;
            if (wide_type)
                value.wide = doubles[i];
            else
                value.narrow = floats[i];
            double after = wide_type ? value.wide : (double)value.narrow;
            assert_int_equal(symbols[i], TERP_ESCAPE);
            assert_int_equal(stages->to_grid(&value, &grid, &nsteps), i != 7);
            if (i == 7) {
                assert_true(after == before[i]);
                continue;
            }
            stages->from_grid(nsteps, &grid, &again);
            assert_memory_equal(&again, &value, (size_t)stages->value_nbytes);
            assert_true(fabs(after - before[i]) <= BOUND);
            assert_true(fabs((after - 0.25) / quantizer.grid_step -
                             (double)nsteps) < 0.01);
        }
    }
}

/* Marked integers get the integer before them, one after the other, at
 * distances below and above a vector. */
static void
marked_integers_repeat_those_before_them(void **state)
{
    enum {
        N = 500
    };
    uint64_t mask[N / 64 + 1], after64[N], expected64[N];
    uint32_t after32[N], expected32[N];

    (void)state;
    for (uint64_t distance = 1; distance < 70; distance++)
        for (int every = 1; every < 4; every++) {
            for (size_t i = 0; i < sizeof mask / sizeof *mask; i++)
                mask[i] = 0;
            for (uint64_t i = 0; i < N; i++) {
                after64[i] = expected64[i] = 1000 + i;
                after32[i] = expected32[i] = (uint32_t)(1000 + i);
                /* In runs that are longer than some distances. */
                if (pseudo_random(i / (uint64_t)(11 * every)) < 0.5 ||
                    i % 7 == 0)
                    mask[i / 64] |= UINT64_C(1) << i % 64;
            }
            for (uint64_t i = distance; i < N; i++)
                if (mask[i / 64] >> i % 64 & 1) {
                    expected64[i] = expected64[i - distance];
                    expected32[i] = expected32[i - distance];
                }
            cpu_stages_of(TERP_FLOAT32)
                ->repeat(after32, mask, distance, N, distance);
            cpu_stages_of(TERP_FLOAT64)
                ->repeat(after64, mask, distance, N, distance);
            assert_memory_equal(after32, expected32, sizeof after32);
            assert_memory_equal(after64, expected64, sizeof after64);
        }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_too_wide_escapes_in_a_class),
        cmocka_unit_test(escapes_are_put_on_the_grid),
        cmocka_unit_test(marked_integers_repeat_those_before_them),
        cmocka_unit_test(step_too_wide_makes_specials_for_lorenzo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
