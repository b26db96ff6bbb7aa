/* The engine compresses its intended data in each mode. The limits are about
 * half of the ratios of version 0: they detect a broken stage, and leave exact
 * figures to bench/. */
#include <stdlib.h>
#include <string.h>

#include "codec/format/frame.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const uint64_t cube[] = {64, 64, 64};

/* Encodes a cube of float32 under 1e-3 of its range. */
static struct terp_info
inspect_cube(enum terp_field field, int mode)
{
    struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT32, 3, cube);
    struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                 .bound = 1e-3,
                                 .pipeline = terp_mode[mode].pipeline,
                                 .predictor = terp_mode[mode].predictor};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    struct terp_info info = {.size = sizeof info};

    terp_field_make(field, &chunk, values);
    struct terp_stream stream = terp_case_encode(&params, &chunk, values, 1);
    assert_int_equal(terp_inspect(stream.bytes, stream.nbytes, &info), TERP_OK);
    free(stream.bytes);
    free(values);
    return info;
}

/* Ratios by mode, in the order of terp_mode. */
static const struct {
    enum terp_field field;
    double ratio[TERP_NMODES];
} floors[] = {
    {TERP_FIELD_RAMP, {5000, 5000, 15, 5000, 15}},
    {TERP_FIELD_SMOOTH, {50, 50, 8, 60, 10}},
    {TERP_FIELD_ROUGH, {3.5, 3.5, 3, 3.5, 3}},
    {TERP_FIELD_SPIKES, {15, 12, 15, 12, 15}},
    {TERP_FIELD_STEPS, {50, 3.5, 50, 3.5, 50}},
    {TERP_FIELD_COAST, {12, 12, 7, 12, 7}},
};

static void
each_mode_compresses_what_it_can(void **state)
{
    (void)state;
    for (size_t f = 0; f < COUNT(floors); f++)
        for (int mode = 0; mode < TERP_NMODES; mode++) {
            struct terp_info info = inspect_cube(floors[f].field, mode);
            double ratio =
                (double)info.chunk_nbytes / (double)info.stream_nbytes;
            if (ratio < floors[f].ratio[mode])
                fail_msg("%s, %s: ratio %.1f", terp_field_name[floors[f].field],
                         terp_mode[mode].name, ratio);
        }
}

static void
forced_mode_is_the_one_in_the_stream(void **state)
{
    (void)state;
    for (int mode = 1; mode < TERP_NMODES; mode++) {
        struct terp_info info = inspect_cube(TERP_FIELD_ROUGH, mode);
        size_t n = strlen(info.pipeline);
        assert_memory_equal(terp_mode[mode].name, info.pipeline, n);
        if (terp_mode[mode].pipeline == TERP_PIPELINE_SPEED) {
            assert_string_equal(info.predictor, "none");
            continue;
        }
        assert_int_equal(terp_mode[mode].name[n], '/');
        assert_string_equal(terp_mode[mode].name + n + 1, info.predictor);
    }
}

static void
automatic_choice_fits_the_data(void **state)
{
    (void)state;
    assert_string_equal(inspect_cube(TERP_FIELD_SMOOTH, 0).predictor, "spline");
    assert_string_equal(inspect_cube(TERP_FIELD_STEPS, 0).predictor, "lorenzo");
}

static void
constant_cube_takes_at_most_96_bytes(void **state)
{
    (void)state;
    for (int mode = 0; mode < TERP_NMODES; mode++)
        if (terp_mode[mode].pipeline != TERP_PIPELINE_SPEED)
            assert_true(inspect_cube(TERP_FIELD_CONSTANT, mode).stream_nbytes <=
                        96);
}

/* A chunk of an ocean model that is all land. */
static void
cube_of_one_special_takes_at_most_96_bytes(void **state)
{
    struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT64, 3, cube);
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    uint64_t fill_bits = value_to_bits(TERP_FLOAT64, 1e20);
    const uint64_t bits[] = {UINT64_C(0x7FF8000000000000), fill_bits,
                             UINT64_C(0x8000000000000000)};

    (void)state;
    for (size_t b = 0; b < COUNT(bits); b++) {
        struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                     .bound = 1e-3,
                                     .has_fill = true,
                                     .fill_bits = fill_bits};
        for (uint64_t i = 0; i < chunk_nvalues(&chunk); i++)
            value_put(&chunk, values, i, bits[b]);
        assert_true(terp_case_check("one special", &params, &chunk, values) <=
                    96);
    }
    free(values);
}

/* The stream's bound follows from the ocean's range, without land. */
static void
found_fill_is_left_out_of_the_range(void **state)
{
    struct terp_info info = inspect_cube(TERP_FIELD_COAST, 0);

    (void)state;
    assert_true(info.nspecials > info.chunk_nbytes / 4 / 4);
    assert_true(info.bound > 1e-4 && info.bound < 2e-3);
}

static void
noise_at_a_tight_bound_is_stored(void **state)
{
    struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT32, 3, cube);
    struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                 .bound = 0x1p-60};
    uint64_t nbytes = terp_chunk_nbytes(&chunk);
    uint8_t *values = terp_case_alloc(nbytes);

    (void)state;
    terp_field_make(TERP_FIELD_NOISE, &chunk, values);
    for (int mode = 0; mode < TERP_NMODES; mode++) {
        params.pipeline = terp_mode[mode].pipeline;
        params.predictor = terp_mode[mode].predictor;
        uint64_t stream_nbytes =
            terp_case_check("noise", &params, &chunk, values);
        assert_true(stream_nbytes <= nbytes + TERP_MAX_FRAME_NBYTES);
    }
    free(values);
}

/* The sizes of the sections sum to the stream's size. */
static void
inspection_counts_tiles(void **state)
{
    (void)state;
    for (int mode = 1; mode < TERP_NMODES; mode++) {
        struct terp_info info = inspect_cube(TERP_FIELD_SMOOTH, mode);
        uint64_t nwith_entry = 0;
        for (int id = 0; id < 256; id++)
            nwith_entry += info.ntiles_with_entry[id];
        assert_true(info.ntiles > 0);
        assert_true(info.ntiles_zero <= info.ntiles);
        bool selects = strcmp(info.pipeline, "huffman") == 0 ||
                       strcmp(info.pipeline, "ratio") == 0;
        assert_int_equal(nwith_entry,
                         selects ? info.ntiles - info.ntiles_zero : 0);
        /* The index takes at most a hundredth of the stream, or a fiftieth of a
         * shorter one. */
        uint64_t share = strcmp(info.pipeline, "ratio") == 0 ? 50 : 100;
        assert_true(share * info.index_nbytes <= info.stream_nbytes);
        assert_true(info.nescapes < info.chunk_nbytes / 4 / 10);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mode_compresses_what_it_can),
        cmocka_unit_test(forced_mode_is_the_one_in_the_stream),
        cmocka_unit_test(automatic_choice_fits_the_data),
        cmocka_unit_test(constant_cube_takes_at_most_96_bytes),
        cmocka_unit_test(cube_of_one_special_takes_at_most_96_bytes),
        cmocka_unit_test(found_fill_is_left_out_of_the_range),
        cmocka_unit_test(noise_at_a_tight_bound_is_stored),
        cmocka_unit_test(inspection_counts_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
