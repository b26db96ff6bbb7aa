/* Every value of any chunk comes back within the bound. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

struct shape {
    int rank;
    bool stack;
    uint64_t dims[TERP_MAX_RANK];
};

struct bound {
    enum terp_bound_mode mode;
    double bound;
};

/* Chunks of at most some thousand values, for all combinations or for one in
 * five of them. */
static const struct shape small_shapes[] = {
    {1, false, {1}},          {1, false, {2}},
    {1, false, {3}},          {1, false, {5}},
    {1, false, {31}},         {1, false, {1009}},
    {2, false, {1, 1}},       {2, false, {2, 3}},
    {2, false, {17, 19}},     {2, false, {1, 257}},
    {2, false, {64, 9}},      {3, false, {2, 2, 2}},
    {3, false, {7, 1, 13}},   {3, false, {5, 11, 3}},
    {3, false, {9, 8, 17}},   {3, false, {13, 13, 1}},
    {4, false, {2, 3, 2, 5}}, {4, false, {3, 5, 7, 4}},
    {4, false, {1, 1, 2, 1}}, {2, true, {1, 7}},
    {2, true, {5, 33}},       {3, true, {3, 4, 6}},
    {4, true, {1, 6, 6, 6}},  {4, true, {5, 5, 5, 5}},
    {4, true, {4, 8, 8, 8}},  {4, true, {300, 1, 1, 1}},
};

/* Large enough for many tiles, several levels, and partial last tiles. */
static const struct shape large_shapes[] = {
    {1, false, {100003}},        {2, false, {1, 1000003}},
    {2, false, {3, 100003}},     {2, false, {100003, 3}},
    {2, false, {257, 511}},      {3, false, {64, 64, 64}},
    {3, false, {65, 67, 33}},    {3, false, {2, 300, 129}},
    {4, false, {9, 17, 33, 20}}, {4, true, {7, 32, 32, 32}},
    {4, true, {40, 15, 15, 15}}, {4, true, {2, 20, 45, 45}},
};

/* Relative bounds, then absolute ones from above any range to below the
 * distance of any two values. */
static const struct bound bounds[] = {
    {TERP_BOUND_RELATIVE, 1e-1},    {TERP_BOUND_RELATIVE, 1e-2},
    {TERP_BOUND_RELATIVE, 1e-3},    {TERP_BOUND_RELATIVE, 1e-4},
    {TERP_BOUND_RELATIVE, 1e-5},    {TERP_BOUND_RELATIVE, 1e-6},
    {TERP_BOUND_RELATIVE, 1e-7},    {TERP_BOUND_RELATIVE, 3.0},
    {TERP_BOUND_ABSOLUTE, 1e300},   {TERP_BOUND_ABSOLUTE, 1e20},
    {TERP_BOUND_ABSOLUTE, 1.0},     {TERP_BOUND_ABSOLUTE, 0.5},
    {TERP_BOUND_ABSOLUTE, 0x1p-24}, {TERP_BOUND_ABSOLUTE, 0x1p-25},
    {TERP_BOUND_ABSOLUTE, 0x1p-53}, {TERP_BOUND_ABSOLUTE, 0x1p-54},
    {TERP_BOUND_ABSOLUTE, FLT_MIN}, {TERP_BOUND_ABSOLUTE, 0x1p-149},
    {TERP_BOUND_ABSOLUTE, DBL_MIN}, {TERP_BOUND_ABSOLUTE, 0x1p-1074},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct terp_chunk
chunk_of(const struct shape *shape, enum terp_type type)
{
    struct terp_chunk chunk = terp_case_chunk(type, shape->rank, shape->dims);
    chunk.stack = shape->stack;
    return chunk;
}

static uint8_t *
make_field(enum terp_field field, const struct terp_chunk *chunk)
{
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));
    terp_field_make(field, chunk, values);
    return values;
}

static uint64_t
check(enum terp_field field, const struct terp_chunk *chunk,
      const struct bound *bound, const struct terp_mode *mode,
      const uint8_t *values)
{
    struct terp_params params = {.bound_mode = bound->mode,
                                 .bound = bound->bound,
                                 .pipeline = mode->pipeline,
                                 .predictor = mode->predictor};
    char name[256];

    snprintf(name, sizeof name,
             "%s %s%s %" PRIu64 "x%" PRIu64 "x%" PRIu64 "x%" PRIu64
             " of rank %d, %s %g, %s",
             chunk->type == TERP_FLOAT64 ? "float64" : "float32",
             terp_field_name[field], chunk->stack ? ", stack" : "",
             chunk->dims[0], chunk->dims[1], chunk->dims[2], chunk->dims[3],
             chunk->rank,
             bound->mode == TERP_BOUND_RELATIVE ? "relative" : "absolute",
             bound->bound, mode->name);
    return terp_case_check(name, &params, chunk, values);
}

static void
small_chunks_of(enum terp_type type)
{
    for (size_t s = 0; s < COUNT(small_shapes); s++) {
        struct terp_chunk chunk = chunk_of(&small_shapes[s], type);
        for (int field = 0; field < TERP_NFIELDS; field++) {
            uint8_t *values = make_field((enum terp_field)field, &chunk);
            for (size_t b = 0; b < COUNT(bounds); b++)
                for (int mode = 0; mode < TERP_NMODES; mode++)
                    if (terp_case_taken(5))
                        check((enum terp_field)field, &chunk, &bounds[b],
                              &terp_mode[mode], values);
            free(values);
        }
    }
}

static void
small_float32_chunks_keep_every_bound(void **state)
{
    (void)state;
    small_chunks_of(TERP_FLOAT32);
}

static void
small_float64_chunks_keep_every_bound(void **state)
{
    (void)state;
    small_chunks_of(TERP_FLOAT64);
}

/* Bounds and modes take turns: each pair of shape and field gets some, and each
 * shape gets every bound and mode. Under a sanitizer, the test takes some
 * turns, chosen by the date. */
static void
large_chunks_keep_rotating_bounds(void **state)
{
    const uint64_t every = terp_case_fewer() / 16;
    size_t turn = 0;

    (void)state;
    for (size_t s = 0; s < COUNT(large_shapes); s++)
        for (int field = 0; field < TERP_NFIELDS; field++, turn++) {
            if (!terp_case_is_drawn(turn, every))
                continue;
            enum terp_type type = (enum terp_type)(turn % 2);
            struct terp_chunk chunk = chunk_of(&large_shapes[s], type);
            uint8_t *values = make_field((enum terp_field)field, &chunk);
            check((enum terp_field)field, &chunk,
                  &bounds[turn * 7 % COUNT(bounds)],
                  &terp_mode[turn % TERP_NMODES], values);
            free(values);
        }
}

/* Near the largest finite value, the nearest step may lead to infinity. Only
 * the check of the decoded value can tell. */
static void
values_next_to_the_largest_keep_the_bound(void **state)
{
    static const uint64_t dims[] = {100};

    (void)state;
    for (uint64_t turn = 0; turn < 3000; turn++) {
        enum terp_type type = turn % 2 == 0 ? TERP_FLOAT32 : TERP_FLOAT64;
        struct terp_chunk chunk = terp_case_chunk(type, 1, dims);
        double largest = type == TERP_FLOAT32 ? FLT_MAX : DBL_MAX;
        double range = ldexp(largest, -(int)(turn / 12 % 20));
        struct bound bound = {TERP_BOUND_ABSOLUTE,
                              ldexp(range, -(int)(turn / 240))};
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
        for (uint64_t i = 0; i < dims[0]; i++) {
            uint64_t bits = terp_field_mix(turn * dims[0] + i);
            double below =
                i > 0 && bits % 4 == 0 ? 0 : (double)(bits >> 11) * 0x1p-54;
            value_put(&chunk, values, i,
                      value_to_bits(type, largest - below * range));
        }
        check(TERP_FIELD_NOISE, &chunk, &bound,
              &terp_mode[turn / 2 % TERP_NMODES], values);
        free(values);
    }
}

static void
high_ranks_are_folded_and_keep_the_bound(void **state)
{
    static const struct {
        int ndims, rank;
        uint64_t dims[8], folded[TERP_MAX_RANK];
    } cases[] = {
        {5, 4, {2, 3, 4, 5, 6}, {6, 4, 5, 6}},
        {6, 4, {2, 3, 2, 3, 4, 5}, {12, 3, 4, 5}},
        {6, 3, {1, 7, 1, 13, 1, 4}, {7, 13, 4}},
        {8, 4, {2, 1, 2, 2, 1, 3, 3, 3}, {8, 3, 3, 3}},
        {3, 1, {1, 1, 1}, {1}},
        {1, 1, {11}, {11}},
        {0, 1, {0}, {1}},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct terp_chunk chunk;
        assert_int_equal(terp_chunk_make(TERP_FLOAT32, cases[i].ndims,
                                         cases[i].dims, &chunk),
                         TERP_OK);
        assert_int_equal(chunk.rank, cases[i].rank);
        for (int d = 0; d < chunk.rank; d++)
            assert_int_equal(chunk.dims[d], cases[i].folded[d]);
        uint8_t *values = make_field(TERP_FIELD_ROUGH, &chunk);
        for (int mode = 0; mode < TERP_NMODES; mode++)
            check(TERP_FIELD_ROUGH, &chunk, &bounds[2], &terp_mode[mode],
                  values);
        free(values);
    }
}

/* Chunks whose dims are those of arrays in HDF5 and numpy. */
static void
dims_that_make_no_chunk_are_refused(void **state)
{
    static const uint64_t none[] = {3, 0, 5};
    static const uint64_t many[] = {UINT64_C(1) << 40, UINT64_C(1) << 40, 2, 2,
                                    2};
    static const uint64_t large[] = {UINT64_C(1) << 62};
    struct terp_chunk chunk;

    (void)state;
    assert_int_equal(terp_chunk_make(TERP_FLOAT32, -1, none, &chunk),
                     TERP_ERR_ARGUMENT);
    assert_int_equal(terp_chunk_make(TERP_FLOAT32, 3, none, &chunk),
                     TERP_ERR_ARGUMENT);
    assert_int_equal(terp_chunk_make(TERP_FLOAT32, 5, many, &chunk),
                     TERP_ERR_ARGUMENT);
    assert_int_equal(terp_chunk_make(TERP_FLOAT32, 1, large, &chunk),
                     TERP_ERR_ARGUMENT);
    assert_int_equal(terp_chunk_make((enum terp_type)99, 1, many, &chunk),
                     TERP_ERR_ARGUMENT);
}

/* Big-endian memory gives the same codes: streams have the same size, and
 * decoded values are the little-endian ones with swapped bytes. */
static void
big_endian_memory_decodes_to_swapped_bytes(void **state)
{
    static const uint64_t dims[] = {11, 20, 13};

    (void)state;
    for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++)
        for (int field = 0; field < TERP_NFIELDS; field++)
            for (int mode = 0; mode < TERP_NMODES; mode++) {
                struct terp_chunk little =
                    terp_case_chunk((enum terp_type)type, 3, dims);
                struct terp_chunk big = little;
                struct terp_params params = {
                    .bound_mode = TERP_BOUND_RELATIVE,
                    .bound = 1e-3,
                    .pipeline = terp_mode[mode].pipeline,
                    .predictor = terp_mode[mode].predictor};
                uint64_t nbytes = terp_chunk_nbytes(&little), got;
                big.big_endian = true;
                uint8_t *values = make_field((enum terp_field)field, &little);
                uint8_t *swapped = make_field((enum terp_field)field, &big);
                struct terp_stream a =
                    terp_case_encode(&params, &little, values, 1);
                struct terp_stream b =
                    terp_case_encode(&params, &big, swapped, 1);
                assert_int_equal(a.nbytes, b.nbytes);
                assert_int_equal(
                    terp_decode(a.bytes, a.nbytes, values, nbytes, &got, 1),
                    TERP_OK);
                assert_int_equal(
                    terp_decode(b.bytes, b.nbytes, swapped, nbytes, &got, 1),
                    TERP_OK);
                for (uint64_t i = 0; i < chunk_nvalues(&little); i++)
                    assert_int_equal(value_bits(&little, values, i),
                                     value_bits(&big, swapped, i));
                free(a.bytes);
                free(b.bytes);
                free(values);
                free(swapped);
            }
}

static void
bytes_of_any_kind_are_stored(void **state)
{
    static const uint64_t dims[] = {1001};
    struct terp_chunk chunk = terp_case_chunk(TERP_BYTES, 1, dims);
    struct terp_params params = {0};
    uint8_t values[1001], decoded[1001];
    uint64_t nbytes;

    (void)state;
    for (size_t i = 0; i < sizeof values; i++)
        values[i] = (uint8_t)terp_field_mix(i);
    struct terp_stream stream = terp_case_encode(&params, &chunk, values, 1);
    assert_int_equal(terp_decode(stream.bytes, stream.nbytes, decoded,
                                 sizeof decoded, &nbytes, 1),
                     TERP_OK);
    assert_int_equal(nbytes, sizeof decoded);
    assert_memory_equal(decoded, values, sizeof values);
    free(stream.bytes);
}

static void
bound_that_is_no_bound_is_refused(void **state)
{
    static const double wrong[] = {-1e-3, -0x1p-1074, INFINITY, -INFINITY,
                                   NAN,   0.0,        -0.0};
    static const uint64_t dims[] = {100};
    struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT32, 1, dims);
    uint8_t values[400] = {0}, encoded[464];

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++)
        for (int mode = TERP_BOUND_ABSOLUTE; mode <= TERP_BOUND_RELATIVE;
             mode++) {
            struct terp_params params = {
                .bound_mode = (enum terp_bound_mode)mode, .bound = wrong[i]};
            uint64_t nbytes = 7;
            if (wrong[i] == 0 && mode == TERP_BOUND_ABSOLUTE)
                continue; /* lossless */
            assert_int_equal(terp_encode(&params, &chunk, values, encoded,
                                         sizeof encoded, &nbytes, 1),
                             TERP_ERR_BOUND);
            assert_int_equal(nbytes, 7);
        }
}

static void
wrong_arguments_are_refused(void **state)
{
    static const uint64_t dims[] = {10, 10};
    const struct terp_chunk good = terp_case_chunk(TERP_FLOAT32, 2, dims);
    struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE, .bound = 1};
    uint8_t values[400] = {0}, encoded[464];
    uint64_t nbytes;

    (void)state;
    assert_int_equal(terp_encode_bound(&good), sizeof encoded);
    assert_int_equal(terp_encode(&params, &good, values, encoded,
                                 sizeof encoded - 1, &nbytes, 1),
                     TERP_ERR_CAPACITY);
    assert_int_equal(terp_encode(&params, &good, values, encoded,
                                 sizeof encoded, &nbytes, 0),
                     TERP_ERR_ARGUMENT);
    struct terp_chunk bad[] = {good, good, good, good, good, good};
    bad[0].rank = 0;
    bad[1].rank = TERP_MAX_RANK + 1;
    bad[2].dims[1] = 0;
    bad[3].dims[0] = UINT64_C(1) << 62;
    bad[4].type = TERP_NTYPES;
    bad[5].type = TERP_BYTES;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(terp_chunk_nbytes(&bad[i]), 0);
        assert_int_equal(terp_encode_bound(&bad[i]), 0);
        assert_int_equal(terp_encode(&params, &bad[i], values, encoded,
                                     sizeof encoded, &nbytes, 1),
                         TERP_ERR_ARGUMENT);
    }
}

static void
small_destination_is_refused_by_decode(void **state)
{
    static const uint64_t dims[] = {30};
    struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT64, 1, dims);
    struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                 .bound = 1e-3};
    uint8_t *values = make_field(TERP_FIELD_SMOOTH, &chunk);
    uint64_t nbytes;

    (void)state;
    struct terp_stream stream = terp_case_encode(&params, &chunk, values, 1);
    assert_int_equal(terp_decode(stream.bytes, stream.nbytes, values,
                                 terp_chunk_nbytes(&chunk) - 1, &nbytes, 1),
                     TERP_ERR_CAPACITY);
    assert_int_equal(terp_decode(stream.bytes, stream.nbytes, values,
                                 terp_chunk_nbytes(&chunk), &nbytes, 0),
                     TERP_ERR_ARGUMENT);
    free(stream.bytes);
    free(values);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_float32_chunks_keep_every_bound),
        cmocka_unit_test(small_float64_chunks_keep_every_bound),
        cmocka_unit_test(large_chunks_keep_rotating_bounds),
        cmocka_unit_test(values_next_to_the_largest_keep_the_bound),
        cmocka_unit_test(high_ranks_are_folded_and_keep_the_bound),
        cmocka_unit_test(dims_that_make_no_chunk_are_refused),
        cmocka_unit_test(big_endian_memory_decodes_to_swapped_bytes),
        cmocka_unit_test(bytes_of_any_kind_are_stored),
        cmocka_unit_test(bound_that_is_no_bound_is_refused),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(small_destination_is_refused_by_decode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
