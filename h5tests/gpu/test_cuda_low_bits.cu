/* Compares low bits on the device with the CPU engine: their number, their
 * section, and splitting and joining symbols. */
#include "gpu/engine/tables.cuh"
#include "gpu/sections/low_bits.cuh"
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "cpu/predict/stages.h"
#include "cpu/sections/low_bits.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A batch: a chunk, and one that has failed before. */
#define NCHUNKS 2
#define UNTOUCHED 0x5C

struct bench {
    uint64_t nvalues, section_nbytes;
    uint8_t *d_tables;
    /* The CPU's results: symbols of predictors, symbols left for tiles, and the
     * section. */
    uint16_t *wide, *split;
    uint8_t *section;
    struct cuda_batch batch;
    struct cuda_chunk state[NCHUNKS];
};

static uint64_t
place_region(uint64_t *end, uint64_t nbytes)
{
    uint64_t at = *end;
    *end += (nbytes + 255) / 256 * 256;
    return at;
}

static uint8_t *
region_of(const struct bench *b, int chunk, uint64_t at)
{
    return b->batch.d_scratch + (uint64_t)chunk * b->batch.at.stride + at;
}

static uint64_t
section_cap_nbytes(uint64_t nvalues)
{
    return 3 * nvalues + 64;
}

static void
make_bench(struct bench *b, uint64_t nvalues)
{
    struct cuda_batch *batch = &b->batch;
    const uint64_t ntiles = div_up(nvalues, TERP_TILE_NSYMBOLS);
    uint64_t end = 0;
    void *memory;

    memset(b, 0, sizeof *b);
    b->nvalues = nvalues;
    b->wide = (uint16_t *)terp_case_alloc(2 * nvalues);
    b->split = (uint16_t *)terp_case_alloc(2 * nvalues);
    b->section = (uint8_t *)terp_case_alloc(section_cap_nbytes(nvalues));
    batch->nchunks = NCHUNKS;
    batch->may_have_low_bits = true;
    batch->nvalues = nvalues;
    batch->ntiles = ntiles;
    assert_int_equal(cuda_tables_make(&batch->tables, &b->d_tables, nullptr),
                     cudaSuccess);
    batch->at.coded = place_region(&end, 2 * nvalues);
    batch->at.low_tiles =
        place_region(&end, sizeof(struct cuda_low_tile) * ntiles);
    batch->at.low_bits = place_region(&end, LOW_SLOT_NBYTES * ntiles);
    batch->at.stride = end;
    assert_int_equal(cudaMalloc(&memory, NCHUNKS * end), cudaSuccess);
    batch->d_scratch = (uint8_t *)memory;
    batch->d_chunks = b->state;
}

static void
free_bench(struct bench *b)
{
    free(b->wide);
    free(b->split);
    free(b->section);
    cudaFree(b->batch.d_scratch);
    cudaFree(b->d_tables);
}

/* Kinds of tiles. */
enum style {
    STYLE_WIDE,   /* codes of all widths by group, and escapes */
    STYLE_SPIKES, /* narrow codes, and rare codes of any width */
    STYLE_SPIKES_AND_ESCAPES,
    STYLE_ESCAPES, /* zeros and escapes only */
    STYLE_NARROW,
    NSTYLES
};

static uint16_t
symbol_of_style(enum style style, uint64_t group_seed, uint64_t r)
{
    const bool is_rare = (r >> 40) % 50 == 0;
    const bool is_spike = (r >> 48) % 20 == 0;
    int width = (int)(terp_field_mix(group_seed) % 16);

    if (style != STYLE_WIDE)
        width = is_spike && style < STYLE_ESCAPES ? (int)(r >> 56) % 16
                : style == STYLE_ESCAPES          ? 0
                                                  : 3;
    const int code =
        width == 15 ? TERP_WIDE_MAX_CODE : (int)(r & ((1u << width) - 1));
    if (is_rare && style != STYLE_SPIKES && style != STYLE_NARROW)
        return TERP_ESCAPE;
    return (uint16_t)((r >> 32 & 1 ? -code : code) + TERP_WIDE_RADIUS);
}

static void
make_symbols(struct bench *b, uint64_t seed)
{
    for (uint64_t i = 0; i < b->nvalues; i++) {
        const uint64_t tile = i / TERP_TILE_NSYMBOLS;
        const uint64_t group = i / TERP_LOW_GROUP_NNUMBERS;
        b->wide[i] =
            symbol_of_style((enum style)((seed + tile) % NSTYLES),
                            seed ^ group << 20, terp_field_mix(seed << 32 | i));
    }
    struct writer writer = {b->section,
                            b->section + section_cap_nbytes(b->nvalues), false};
    memcpy(b->split, b->wide, 2 * b->nvalues);
    assert_int_equal(
        terp_cpu_low_bits_split(NULL, b->nvalues, b->split, &writer), TERP_OK);
    assert_false(writer.overflow);
    b->section_nbytes = (uint64_t)(writer.at - b->section);
}

/* Whether codes are wide. */
static void
begin_call(struct bench *b, int wide, const uint16_t *symbols)
{
    memset((void *)b->state, 0, sizeof b->state);
    for (int i = 0; i < NCHUNKS; i++) {
        b->state[i].status = i == 0 ? TERP_OK : TERP_ERR_CAPACITY;
        b->state[i].coding = TERP_CODING_RATIO;
        b->state[i].prediction = TERP_PREDICTION_SPLINE;
        b->state[i].model.wide = wide;
        memcpy(region_of(b, i, b->batch.at.coded), symbols, 2 * b->nvalues);
    }
}

static void
check_symbols(const struct bench *b, const uint16_t *symbols,
              const uint16_t *before)
{
    assert_memory_equal(region_of(b, 0, b->batch.at.coded), symbols,
                        2 * b->nvalues);
    assert_memory_equal(region_of(b, 1, b->batch.at.coded), before,
                        2 * b->nvalues);
}

/* The section follows `begin` bytes of a stream, and ends it. */
static void
check_section(struct bench *b, uint64_t begin)
{
    uint8_t *stream = (uint8_t *)terp_case_alloc(begin + b->section_nbytes + 8);

    memset(stream, UNTOUCHED, begin + b->section_nbytes + 8);
    assert_true(b->state[0].low_bits_nbytes == b->section_nbytes);
    assert_int_equal(b->state[1].low_bits_nbytes, 0);
    b->state[0].dst = b->state[1].dst = stream;
    b->state[0].escapes_end = begin;
    assert_int_equal(cuda_low_bits_write(&b->batch, nullptr), cudaSuccess);
    assert_memory_equal(stream + begin, b->section, b->section_nbytes);
    for (uint64_t i = 0; i < begin; i++)
        assert_int_equal(stream[i], UNTOUCHED);
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(stream[begin + b->section_nbytes + i], UNTOUCHED);
    free(stream);
}

static void
symbols_are_split_and_joined_as_the_cpu_does(void **state)
{
    static const uint64_t nvalues[] = {1,    2,    255,  256,   257,
                                       3840, 3841, 4096, 12345, 70001};
    uint64_t seed = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(nvalues); i++) {
        struct bench b;
        make_bench(&b, nvalues[i]);
        for (int k = 0; k < 2 * NSTYLES; k++) {
            make_symbols(&b, ++seed);
            begin_call(&b, 1 + k, b.wide);
            assert_int_equal(cuda_low_bits_split(&b.batch, nullptr),
                             cudaSuccess);
            assert_int_equal(cuda_low_bits_place(&b.batch, nullptr),
                             cudaSuccess);
            check_symbols(&b, b.split, b.wide);
            check_section(&b, seed % 4);
            const uint64_t records_nbytes = b.state[0].low_records_nbytes;
            begin_call(&b, 1 + k, b.split);
            b.state[0].src = b.section;
            b.state[0].low_records_nbytes = records_nbytes;
            assert_int_equal(cuda_low_bits_join(&b.batch, nullptr),
                             cudaSuccess);
            assert_int_equal(b.state[0].status, TERP_OK);
            check_symbols(&b, b.wide, b.split);
        }
        free_bench(&b);
    }
}

static void
narrow_codes_stay_what_they_are(void **state)
{
    struct bench b;

    (void)state;
    make_bench(&b, 5000);
    make_symbols(&b, 1);
    begin_call(&b, 0, b.wide);
    assert_int_equal(cuda_low_bits_split(&b.batch, nullptr), cudaSuccess);
    assert_int_equal(cuda_low_bits_place(&b.batch, nullptr), cudaSuccess);
    assert_int_equal(cuda_low_bits_join(&b.batch, nullptr), cudaSuccess);
    check_symbols(&b, b.wide, b.wide);
    assert_int_equal(b.state[0].low_bits_nbytes, 0);
    free_bench(&b);
}

/* ---- the number of low bits ---- */

static const struct terp_chunk shapes[] = {
    {TERP_FLOAT32, false, false, 1, {1}},
    {TERP_FLOAT32, false, false, 1, {2}},
    {TERP_FLOAT64, false, false, 1, {70001}},
    {TERP_FLOAT32, false, false, 2, {2, 700}},
    {TERP_FLOAT64, false, false, 2, {129, 130}},
    {TERP_FLOAT32, false, false, 3, {33, 34, 35}},
    {TERP_FLOAT64, false, false, 3, {64, 64, 64}},
    {TERP_FLOAT32, false, true, 3, {5, 40, 41}},
    {TERP_FLOAT64, false, false, 4, {9, 2, 11, 12}},
};

/* Returns the number of low bits, which the CPU finds by interpolation. */
static int
check_nbits_below(const struct terp_chunk *chunk, enum terp_field field,
                  double bound)
{
    const struct cpu_stages *stages = chunk->type == TERP_FLOAT32
                                          ? &terp_cpu_stages_f32
                                          : &terp_cpu_stages_f64;
    uint8_t *values = (uint8_t *)terp_case_alloc(terp_chunk_nbytes(chunk));
    struct terp_code_widths widths;
    struct terp_layout layout;
    struct cuda_batch batch = {};
    struct cuda_chunk state[NCHUNKS] = {};
    struct cpu_fills fills;
    struct cpu_stats stats;
    struct terp_exact exact = {};
    int nbits_below = 0, wide = 0;

    terp_layout_make(chunk, &layout);
    terp_field_make(field, chunk, values);
    for (int i = 0; i < TERP_NFILLS; i++)
        fills.bits[i] = stages->negative_zero_bits;
    stages->scan(values, layout.nvalues, &fills, &stats);
    bound = terp_bound_of_range(bound, stats.min, stats.max);
    batch.nchunks = NCHUNKS;
    batch.may_have_low_bits = true;
    batch.value_nbytes = stages->value_nbytes;
    batch.nvalues = layout.nvalues;
    batch.d_layout = &layout;
    batch.d_chunks = state;
    for (int i = 0; i < NCHUNKS; i++) {
        state[i].src = values;
        state[i].status = i == 0 ? TERP_OK : TERP_ERR_CAPACITY;
        state[i].coding = TERP_CODING_HUFFMAN;
        state[i].min = stats.min;
        state[i].max = stats.max;
        state[i].bound = bound;
        state[i].model.step = terp_step_of(bound, 10);
        state[i].escape_nbytes = 3;
        memcpy(state[i].fills, fills.bits, sizeof fills.bits);
    }
    if (is_bound(bound)) {
        double step = state[0].model.step;
        if (terp_may_be_wide(terp_nsteps_of(stats.min, stats.max, step))) {
            int exponent, nzeros;
            stages->common_bits(values, layout.nvalues, &fills, &exponent,
                                &nzeros);
            exact = terp_exact_of(bound, stats.min, stats.max,
                                  stages->value_nbytes, exponent, nzeros);
            if (exact.significand > 0 && terp_exact_step(exact) > step)
                step = terp_exact_step(exact);
            stages->code_widths(values, &layout, &fills, 1 / step, exact.nzeros,
                                &widths);
            nbits_below = terp_nbits_below_of_interpolants(
                &widths,
                terp_below_max_nbits(stages->value_nbytes, TERP_PREDICTOR_AUTO),
                state[0].escape_nbytes);
            wide = terp_low_of(nbits_below) + 1;
        }
        assert_int_equal(cuda_low_bits_find(&batch, nullptr), cudaSuccess);
        assert_int_equal(state[0].model.wide, wide);
        assert_int_equal(state[0].model.tail_nbits,
                         nbits_below - terp_low_of(nbits_below));
        assert_memory_equal(&state[0].model.exact, &exact, sizeof exact);
        assert_int_equal(state[1].model.wide, 0);
    }
    free(values);
    return nbits_below;
}

static void
as_many_bits_are_low_as_the_cpu_finds(void **state)
{
    static const double bounds[] = {1e-3, 1e-4, 3e-6, 1e-8, 1e-12};
    int nfound[TERP_BELOW_MAX_NBITS + 1] = {0}, ndifferent = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (int field = 0; field < TERP_NFIELDS; field++)
            for (size_t k = 0; k < COUNT(bounds); k++)
                nfound[check_nbits_below(&shapes[i], (enum terp_field)field,
                                         bounds[k])]++;
    for (int n = 0; n <= TERP_BELOW_MAX_NBITS; n++)
        ndifferent += nfound[n] > 0;
    assert_true(ndifferent > 16);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_are_split_and_joined_as_the_cpu_does),
        cmocka_unit_test(narrow_codes_stay_what_they_are),
        cmocka_unit_test(as_many_bits_are_low_as_the_cpu_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
