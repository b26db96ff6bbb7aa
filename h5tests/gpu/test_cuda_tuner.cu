/* Compares the tuner on the device with the CPU: the cost of both predictors,
 * every level's plan, lorenzo's dimensions, and the chosen predictor. */
#include "gpu/engine/state.cuh"
#include <math.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "cpu/predict/predictor.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/exact_quants.h"
#include "h5tests/support/fields.h"
}

struct shape {
    int rank;
    uint64_t dims[TERP_MAX_RANK];
    bool stack;
};

struct bench {
    struct terp_chunk chunk;
    struct terp_layout layout;
    const struct cpu_stages *stages;
    uint8_t *values;
    uint64_t nbytes;
    struct cuda_batch batch;
    struct cuda_chunk *state; /* of the batch's chunks */
};

static uint64_t
place_region(uint64_t *end, uint64_t nbytes)
{
    uint64_t at = *end;
    *end += (nbytes + 255) / 256 * 256;
    return at;
}

static void *
device_memory(uint64_t nbytes)
{
    void *memory;
    assert_int_equal(cudaMalloc(&memory, nbytes), cudaSuccess);
    return memory;
}

/* A batch of equal chunks, in the state after cuda_scan. */
static void
make_bench(struct bench *b, enum terp_type type, const struct shape *shape,
           enum terp_field field, double bound, int nbits_below, int nchunks)
{
    struct cuda_batch *batch = &b->batch;
    struct cpu_fills fills;
    struct cpu_stats stats;
    uint64_t end = 0;

    memset(b, 0, sizeof *b);
    b->chunk.type = type;
    b->chunk.rank = shape->rank;
    b->chunk.stack = shape->stack;
    memcpy(b->chunk.dims, shape->dims, sizeof b->chunk.dims);
    terp_layout_make(&b->chunk, &b->layout);
    b->stages =
        type == TERP_FLOAT32 ? &terp_cpu_stages_f32 : &terp_cpu_stages_f64;
    b->nbytes = terp_chunk_nbytes(&b->chunk);
    b->values = (uint8_t *)malloc(b->nbytes);
    assert_non_null(b->values);
    terp_field_make(field, &b->chunk, b->values);

    for (int i = 0; i < TERP_NFILLS; i++)
        fills.bits[i] = b->stages->negative_zero_bits;
    if (field == TERP_FIELD_COAST) {
        double fill = 1e20;
        float narrow = 1e20F;
        memcpy(&fills.bits[2],
               type == TERP_FLOAT32 ? (const void *)&narrow : &fill,
               (size_t)b->stages->value_nbytes);
    }
    b->stages->scan(b->values, b->layout.nvalues, &fills, &stats);
    bound = terp_bound_of_range(bound, stats.min, stats.max);

    batch->nchunks = nchunks;
    batch->chunk = b->chunk;
    batch->coding = TERP_CODING_HUFFMAN;
    batch->value_nbytes = b->stages->value_nbytes;
    batch->nvalues = b->layout.nvalues;
    batch->ntiles = div_up(batch->nvalues, TERP_TILE_NSYMBOLS);
    batch->npartitions = div_up(batch->ntiles, TERP_PARTITION_NTILES);
    batch->h_layout = batch->d_layout = &b->layout;
    batch->tables.d_cost = &terp_entry_cost[0][0];
    batch->at.frequency = place_region(&end, 8 * TERP_NSYMBOLS);
    batch->at.tune = place_region(&end, 8 * CUDA_LEVEL_NCOSTS *
                                            ((uint64_t)b->layout.nlevels + 1));
    batch->at.staging =
        place_region(&end, batch->npartitions * CUDA_PARTITION_MAX_NBYTES);
    batch->at.stride = end;
    batch->d_scratch = (uint8_t *)device_memory(end * (uint64_t)nchunks);
    for (int i = 0; i < nchunks; i++)
        memset(batch->d_scratch + (uint64_t)i * end, 0, 8 * TERP_NSYMBOLS);
    b->state = (struct cuda_chunk *)device_memory(sizeof *b->state *
                                                  (uint64_t)nchunks);
    batch->d_chunks = b->state;
    memset(b->state, 0, sizeof *b->state * (uint64_t)nchunks);
    for (int i = 0; i < nchunks; i++) {
        struct cuda_chunk *state = &b->state[i];
        state->src = b->values;
        state->coding = TERP_CODING_HUFFMAN;
        state->bound = bound;
        state->model.step_slack_log2 = terp_step_slack_of(
            bound, stats.min, stats.max, b->stages->value_nbytes);
        state->model.step = terp_step_of(bound, state->model.step_slack_log2);
        state->model.wide = nbits_below > 0 ? terp_low_of(nbits_below) + 1 : 0;
        state->model.tail_nbits = nbits_below - terp_low_of(nbits_below);
        state->model.exact =
            exact_quants_of_kind((enum exact_kind)(nbits_below % EXACT_NKINDS),
                                 state->model.step, b->stages->value_nbytes);
        state->escape_nbytes = 2 + (unsigned)nbits_below % 3;
        state->has_specials = stats.nspecials > 0;
        memcpy(state->fills, fills.bits, sizeof state->fills);
    }
}

static void
free_bench(struct bench *b)
{
    free(b->values);
    cudaFree(b->batch.d_scratch);
    cudaFree(b->state);
}

/* The CPU's results for the batch's chunks. */
struct answer {
    struct cpu_prediction prediction;
    struct terp_price price[TERP_NPREDICTIONS];
};

static void
ask_cpu(const struct bench *b, struct answer *answer)
{
    const struct cuda_chunk *state = &b->state[0];
    struct cpu_prediction *cpu = &answer->prediction;
    struct cpu_fills fills;

    memset(answer, 0, sizeof *answer);
    memcpy(fills.bits, state->fills, sizeof fills.bits);
    cpu->stages = b->stages;
    cpu->layout = &b->layout;
    cpu->quantizer.step = state->model.step;
    cpu->quantizer.bound = state->bound;
    cpu->quantizer.wide = state->model.wide;
    cpu->quantizer.tail_nbits = state->model.tail_nbits;
    cpu->quantizer.exact = state->model.exact;
    cpu->quantizer.escape_nbytes = state->escape_nbytes;
    cpu->quantizer.radius = terp_radius_of(cpu->quantizer.wide);
    cpu->quantizer.max_code = terp_max_code_of(cpu->quantizer.wide);
    cpu->quantizer.has_specials = state->has_specials;
    cpu->values = b->values;
    cpu->fills = state->has_specials ? &fills : NULL;
    assert_int_equal(terp_cpu_prediction_make(cpu), TERP_OK);
    for (int i = TERP_PREDICTION_SPLINE; i < TERP_NPREDICTIONS; i++)
        assert_int_equal(terp_cpu_predictors[i]->tune(cpu, &answer->price[i]),
                         TERP_OK);
    terp_cpu_prediction_free(cpu);
}

static void
tune(struct bench *b, enum terp_predictor predictor)
{
    for (int i = 0; i < b->batch.nchunks; i++)
        memset(b->state[i].progress, 0, sizeof b->state[i].progress);
    b->batch.encoding.params.predictor = predictor;
    assert_int_equal(cuda_tune(&b->batch, nullptr), cudaSuccess);
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
}

/* The numbers of planned levels, by rank and terp_blend_order; those of long
 * splines, and those of the mean. */
static int nplanned[TERP_NDIMS + 1][4], nlong, nmean;

static void
check_chunk(const struct bench *b, int i, const struct answer *answer)
{
    const struct cuda_chunk *state = &b->state[i];
    enum terp_predictor asked = b->batch.encoding.params.predictor;

    const uint64_t *frequency =
        region<uint64_t>(b->batch, (unsigned)i, b->batch.at.frequency);
    for (int s = 0; s < TERP_NSYMBOLS; s++)
        assert_int_equal(frequency[s], 0);
    assert_int_equal(state->status, TERP_OK);
    assert_int_equal(
        state->prediction,
        terp_choose_prediction(asked, answer->price, b->layout.nvalues));
    if (asked != TERP_PREDICTOR_SPLINE) {
        assert_int_equal(state->lorenzo_cost,
                         answer->price[TERP_PREDICTION_LORENZO].cost);
        assert_int_equal(state->model.lorenzo_dims,
                         answer->prediction.lorenzo_dims);
    }
    if (asked == TERP_PREDICTOR_LORENZO)
        return;
    assert_int_equal(state->spline_cost,
                     answer->price[TERP_PREDICTION_SPLINE].cost);
    for (int l = 1; l <= b->layout.nlevels; l++) {
        const struct terp_level_plan *plan = &answer->prediction.plan[l];
        assert_int_equal(state->model.plan[l].priorities, plan->priorities);
        assert_int_equal(state->model.plan[l].spline, plan->spline);
        assert_int_equal(state->model.plan[l].bound_ratio, plan->bound_ratio);
        nplanned[b->layout.rank][terp_blend_order(plan->priorities)]++;
        nlong += plan->spline == TERP_SPLINE_LONG;
        nmean += plan->spline == TERP_SPLINE_MEAN;
    }
}

static void
check_batch(enum terp_type type, const struct shape *shape,
            enum terp_field field, double bound, int nbits_below, int nchunks)
{
    struct bench b;
    struct answer answer;

    make_bench(&b, type, shape, field, bound, nbits_below, nchunks);
    if (is_bound(b.state[0].bound)) {
        ask_cpu(&b, &answer);
        for (int predictor = TERP_PREDICTOR_AUTO;
             predictor <= TERP_PREDICTOR_LORENZO; predictor++) {
            tune(&b, (enum terp_predictor)predictor);
            for (int i = 0; i < nchunks; i++)
                check_chunk(&b, i, &answer);
        }
    }
    free_bench(&b);
}

static const struct shape shapes[] = {
    {1, {1}, false},
    {1, {2}, false},
    {1, {3}, false},
    {1, {514}, false},
    {1, {5000}, false},
    {1, {70001}, false},
    {2, {1, 7}, false},
    {2, {9, 1}, false},
    {2, {5, 1}, true},
    {2, {33, 65}, false},
    {2, {7, 1026}, false},
    {2, {2048, 3}, false},
    {2, {40, 100}, true},
    {3, {5, 6, 7}, false},
    {3, {64, 32, 48}, false},
    {3, {16, 1, 16}, false},
    {3, {6, 12, 20}, true},
    {4, {3, 4, 5, 6}, false},
    {4, {9, 8, 17, 10}, false},
    {4, {3, 9, 10, 12}, true},
    {4, {20, 2, 1, 30}, false},
};
#define NSHAPES (sizeof shapes / sizeof shapes[0])

static void
any_shape_is_planned_as_by_the_cpu(void **)
{
    static const enum terp_field fields[] = {
        TERP_FIELD_SMOOTH, TERP_FIELD_ROUGH, TERP_FIELD_INTEGERS};

    for (size_t i = 0; i < NSHAPES; i++) {
        if (!terp_case_taken(2))
            continue;
        enum terp_type type = i % 2 ? TERP_FLOAT64 : TERP_FLOAT32;
        check_batch(type, &shapes[i], fields[i % 3], 1e-3, 0, 1);
        type = i % 2 ? TERP_FLOAT32 : TERP_FLOAT64;
        check_batch(type, &shapes[i], fields[(i + 1) % 3], 1e-5,
                    (int)i % (TERP_LOW_MAX_NBITS + 5), 2);
    }
}

static void
any_values_are_planned_as_by_the_cpu(void **)
{
    static const struct shape shape = {3, {17, 20, 31}, false};
    static const double bounds[] = {0.2, 1e-2, 1e-6};

    for (int field = 0; field < TERP_NFIELDS; field++) {
        for (int i = 0; i < 3; i++) {
            if (!terp_case_taken(2))
                continue;
            const int nbits_below =
                i < 2 ? 0 : field % (TERP_LOW_MAX_NBITS + 5);
            check_batch(TERP_FLOAT32, &shape, (enum terp_field)field, bounds[i],
                        nbits_below, 1);
            check_batch(TERP_FLOAT64, &shape, (enum terp_field)field, bounds[i],
                        nbits_below, 1);
        }
    }
}

static void
special_values_in_any_rank_are_planned_as_by_the_cpu(void **)
{
    for (size_t i = 0; i < NSHAPES; i++) {
        if (!terp_case_taken(2))
            continue;
        check_batch(i % 2 ? TERP_FLOAT64 : TERP_FLOAT32, &shapes[i],
                    TERP_FIELD_GAPS, 1e-3, 0, 1);
        check_batch(i % 2 ? TERP_FLOAT32 : TERP_FLOAT64, &shapes[i],
                    TERP_FIELD_COAST, 1e-3, 2, 1);
    }
}

/* For a single chunk, as many blocks as possible share the classes of the first
 * levels; in a batch they do not. */
static void
a_large_chunk_is_planned_alike_alone_and_in_a_batch(void **)
{
    static const struct shape large = {3, {104, 108, 112}, false};
    static const struct shape rows = {2, {700, 1025}, false};

    check_batch(TERP_FLOAT32, &large, TERP_FIELD_ROUGH, 1e-3, 0, 1);
    check_batch(TERP_FLOAT32, &large, TERP_FIELD_ROUGH, 1e-3, 0, 9);
    nmean = 0;
    check_batch(TERP_FLOAT64, &rows, TERP_FIELD_NOISE, 1e-4, 7, 1);
    assert_true(nmean > 0);
    check_batch(TERP_FLOAT64, &rows, TERP_FIELD_NOISE, 1e-4, 7, 8);
}

/* All ranks that can blend, and long splines, which alone blend two dimensions
 * fully. For other splines both orders are the same, and pairs come first. */
static void
levels_are_blended_as_by_the_cpu(void **)
{
    static const struct shape blended[] = {
        {2, {70, 131}, false},       {3, {20, 33, 18}, false},
        {3, {104, 108, 112}, false}, {4, {2, 19, 18, 17}, true},
        {4, {9, 10, 11, 12}, false},
    };
    static const struct {
        enum terp_field field;
        double bound;
    } contents[] = {{TERP_FIELD_SINES, 1e-4},
                    {TERP_FIELD_SMOOTH, 1e-4},
                    {TERP_FIELD_STEPS, 0.1},
                    {TERP_FIELD_STEPS, 1e-4},
                    {TERP_FIELD_GAPS, 1e-5}};

    memset(nplanned, 0, sizeof nplanned);
    nlong = 0;
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++)
            check_batch((i + j) % 2 ? TERP_FLOAT64 : TERP_FLOAT32, &blended[i],
                        contents[j].field, contents[j].bound, 0, 1 + j % 2);
    for (int rank = 2; rank <= TERP_NDIMS; rank++)
        for (int order = 1; order <= 3; order++)
            assert_true(nplanned[rank][order] > 0);
    assert_true(nlong > 0);
}

static void
a_chunk_that_failed_or_is_constant_is_left_alone(void **)
{
    static const struct shape shape = {2, {30, 40}, false};
    struct bench b;
    struct answer answer;

    make_bench(&b, TERP_FLOAT32, &shape, TERP_FIELD_SMOOTH, 1e-3, 0, 3);
    b.state[0].status = TERP_ERR_DEVICE;
    b.state[1].coding = TERP_CODING_CONSTANT;
    struct cuda_chunk before[2] = {b.state[0], b.state[1]};
    ask_cpu(&b, &answer);
    tune(&b, TERP_PREDICTOR_AUTO);
    assert_memory_equal(before, b.state, sizeof before);
    check_chunk(&b, 2, &answer);
    free_bench(&b);
}

/* Means of lorenzo's codes, from only zeros to only escapes. */
static void
a_run_costs_the_logarithm_of_its_mean(void **)
{
    for (uint32_t sum = 0; sum <= 32 * TERP_ROW_ESCAPE; sum++) {
        double cost = 32 * log2(1 + 2 * exp(1.0) * sum / 32);
        double of_run = terp_cost_of_run(sum, 32) / 1024.0;
        assert_true(fabs(of_run - cost) <= 32 * 0.011);
        assert_true(of_run * 1024 < 32 * TERP_MAX_RUN_COST);
        assert_true(terp_cost_of_sum(1000 * (uint64_t)sum, 32000) ==
                    1000 * (uint64_t)terp_cost_of_run(sum, 32));
    }
    assert_int_equal(terp_cost_of_run(0, 0), 0);
    assert_int_equal(terp_cost_of_sum(0, 0), 0);
}

/* The first and the second half of a row's values. */
static void
runs_that_differ_make_lorenzo_cheaper_within_limits(void **)
{
    uint64_t alike = terp_cost_of_sum(200, 200);
    uint64_t apart = terp_cost_of_sum(20, 100) + terp_cost_of_sum(180, 100);

    assert_int_equal(terp_cost_in_runs(18000, alike, alike), 18000);
    assert_int_equal(terp_cost_in_runs(18000, alike + 1, alike), 18000);
    assert_in_range(terp_cost_in_runs(18000, 2 * apart, 2 * alike), 17000,
                    17999);
    assert_int_equal(terp_cost_in_runs(18000, 0, alike), 17000);
    assert_int_equal(terp_cost_in_runs(18000, 0, 0), 18000);
}

/* 100 codes, some without a symbol. */
static uint64_t
cost_of_100(unsigned bits_each, unsigned nescapes, int wide)
{
    const struct terp_beyond beyond = {wide, 3};

    return terp_cost_of_codes(100 * bits_each << TERP_COST_FRACTION_NBITS, 100,
                              nescapes, beyond) >>
           TERP_COST_FRACTION_NBITS;
}

static void
codes_without_a_symbol_cost_what_a_tile_of_such_does(void **)
{
    /* Without wide codes escapes have numbers; so do codes over 16 bits. */
    assert_int_equal(cost_of_100(5, 50, 0), 500 + 50 * 24);
    assert_int_equal(cost_of_100(5, 50, 8), 500 + 50 * 24);
    /* A few large codes among zeros are listed; many, or some among large
     * codes, are not. */
    assert_int_equal(cost_of_100(1, 5, 1), 100 + 5 * 24);
    assert_int_equal(cost_of_100(5, 50, 1), 750 + 50 * 8);
    assert_int_equal(cost_of_100(9, 5, 1), 900 + 5 * 8);
    assert_int_equal(cost_of_100(9, 5, 4), 900 + 5 * 11);
    for (unsigned nescapes = 0; nescapes < 100; nescapes++)
        assert_true(cost_of_100(2, nescapes, 1) <
                    cost_of_100(2, nescapes + 1, 1));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_costs_the_logarithm_of_its_mean),
        cmocka_unit_test(runs_that_differ_make_lorenzo_cheaper_within_limits),
        cmocka_unit_test(codes_without_a_symbol_cost_what_a_tile_of_such_does),
        cmocka_unit_test(any_shape_is_planned_as_by_the_cpu),
        cmocka_unit_test(any_values_are_planned_as_by_the_cpu),
        cmocka_unit_test(special_values_in_any_rank_are_planned_as_by_the_cpu),
        cmocka_unit_test(a_large_chunk_is_planned_alike_alone_and_in_a_batch),
        cmocka_unit_test(levels_are_blended_as_by_the_cpu),
        cmocka_unit_test(a_chunk_that_failed_or_is_constant_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
