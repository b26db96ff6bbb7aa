/* Streams of columns, of version 2: tables whose columns are unlike. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/columns.h"
#include "codec/format/frame.h"
#include "codec/format/held.h"
#include "codec/model/columns.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/coded_as.h"
#include "h5tests/support/reader.h"
#include "h5tests/support/tables.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct terp_params lossless = {.size = sizeof lossless,
                                            .bound_mode = TERP_BOUND_ABSOLUTE};

/* ---- types and shapes ---- */

static void
tables_of_all_types_come_back(void **state)
{
    static const enum terp_type types[] = {
        TERP_INT8,      TERP_UINT8,     TERP_INT16,   TERP_INT32,
        TERP_INT64,     TERP_UINT16,    TERP_UINT32,  TERP_UINT64,
        TERP_FLOAT16,   TERP_FLOAT32,   TERP_FLOAT64, TERP_BFLOAT16,
        TERP_COMPLEX64, TERP_COMPLEX128};
    static const struct terp_chunk shapes[] = {
        {TERP_FLOAT32, false, false, 2, {4001, 3}},
        {TERP_FLOAT32, false, false, 2, {3001, 16}},
        {TERP_FLOAT32, false, false, 3, {61, 70, 5}},
        {TERP_FLOAT32, false, false, 4, {9, 11, 37, 4}}};

    (void)state;
    for (size_t t = 0; t < COUNT(types); t++)
        for (size_t s = 0; s < COUNT(shapes); s++) {
            struct terp_chunk chunk = shapes[s];
            char name[64];
            if (!terp_case_taken(3))
                continue;
            chunk.type = types[t];
            chunk.big_endian = (t + s) % 2 > 0;
            snprintf(name, sizeof name, "%s, shape %d",
                     terp_type_name(chunk.type), (int)s);
            uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
            table_make(&chunk, values);
            const struct terp_stream stream = check_as(
                name, &lossless, &chunk, values,
                terp_type_nparts(chunk.type) > 1 ? TERP_CODING_PARTS
                                                 : TERP_CODING_COLUMNS);
            assert_int_equal(version_of(&stream), 2);
            terp_case_check_threads(&lossless, &chunk, values);
            free(stream.bytes);
            free(values);
        }
}

/* ---- what is a table ---- */

static void
encode_without_columns(const char *name, const struct terp_params *params,
                       const struct terp_chunk *chunk, const uint8_t *values)
{
    const struct terp_stream stream =
        terp_case_encode(params, chunk, values, 1);

    if (coding_of(&stream) == TERP_CODING_COLUMNS)
        fail_msg("%s: coding %d", name, (int)coding_of(&stream));
    free(stream.bytes);
}

/* Columns that are alike, chunks of another shape, and callers that forbid
 * version 2. */
static void
other_chunks_have_no_columns(void **state)
{
    static const struct terp_chunk alike = {
        TERP_FLOAT32, false, false, 3, {61, 70, 4}};
    static const struct terp_chunk others[] = {
        {TERP_FLOAT32, false, false, 2, {2000, 17}},
        {TERP_FLOAT32, false, false, 1, {8000}},
        {TERP_FLOAT32, false, true, 3, {40, 50, 4}},
        {TERP_FLOAT32, false, false, 2, {255, 4}}};
    const struct terp_chunk table = {TERP_FLOAT32, false, false, 2, {4000, 4}};
    struct terp_params params = lossless;
    uint8_t *values = terp_case_alloc(UINT64_C(4) << 16);

    (void)state;
    terp_field_make(TERP_FIELD_NOISE, &alike, values);
    encode_without_columns("alike", &lossless, &alike, values);
    for (size_t i = 0; i < COUNT(others); i++) {
        table_make(&others[i], values);
        encode_without_columns("shape", &lossless, &others[i], values);
    }
    table_make(&table, values);
    params.format = 1;
    encode_without_columns("format", &params, &table, values);
    params = lossless;
    params.effort = TERP_EFFORT_FAST;
    encode_without_columns("fast", &params, &table, values);
    params.effort = TERP_EFFORT_BEST;
    free(check_as("best", &params, &table, values, TERP_CODING_COLUMNS).bytes);
    free(values);
}

/* A stream of columns is part of a copies stream: the rest has a table. */
static void
columns_are_parts_of_other_streams(void **state)
{
    const struct terp_chunk chunk = {
        TERP_FLOAT32, true, false, 3, {3, 2001, 4}};
    const struct terp_chunk left = {TERP_FLOAT32, true, false, 2, {2001, 4}};
    const uint64_t nbytes = terp_chunk_nbytes(&left);
    struct terp_params params = lossless;
    uint8_t *values = terp_case_alloc(3 * nbytes);
    uint64_t got;

    (void)state;
    table_make(&left, values);
    memcpy(values + nbytes, values, nbytes);
    memcpy(values + 2 * nbytes, values, nbytes);
    params.bound = 1e-10; /* copies are found under bounds alone */
    struct terp_stream stream =
        check_as("copies", &params, &chunk, values, TERP_CODING_COPIES);
    assert_int_equal(version_of(&stream), 2);
    stream.bytes[TERP_FRAME_VERSION_AT] = 1;
    terp_case_seal(&stream);
    assert_int_equal(
        terp_decode(stream.bytes, stream.nbytes, values, 3 * nbytes, &got, 1),
        TERP_ERR_CORRUPT);
    free(stream.bytes);
    free(values);
}

static void
inspection_adds_columns_up(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 2, {4001, 4}};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    struct terp_info info = {.size = sizeof info};

    (void)state;
    table_make(&chunk, values);
    const struct terp_stream stream =
        terp_case_encode(&lossless, &chunk, values, 1);
    assert_int_equal(terp_inspect(stream.bytes, stream.nbytes, &info), TERP_OK);
    assert_int_equal(info.version, 2);
    assert_true(info.bound == 0);
    assert_non_null(info.pipeline);
    assert_true(info.ntiles >= 3);
    free(stream.bytes);
    free(values);
}

/* Columns have the bound of the whole chunk, although the bound is relative and
 * the range of the last column is small. A fill value comes back. */
static void
tables_under_bounds_have_columns(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 2, {4001, 3}};
    const uint64_t nvalues = UINT64_C(3) * 4001;
    const struct terp_params params = {.size = sizeof params,
                                       .bound_mode = TERP_BOUND_RELATIVE,
                                       .bound = 1e-4,
                                       .has_fill = true,
                                       .fill_bits = 0xC479C000}; /* -999 */
    float *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    float *decoded = terp_case_alloc(terp_chunk_nbytes(&chunk));
    struct terp_info info = {.size = sizeof info};
    uint64_t got;

    (void)state;
    for (uint64_t r = 0; r < 4001; r++) {
        const float noise = (float)(terp_field_mix(r) >> 40);
        values[3 * r] = (float)(r * r) / 16000.0f;
        values[3 * r + 1] = noise * 0x1p-24f * 1000.0f;
        values[3 * r + 2] = r % 64 == 0 ? -999.0f : (float)r / 4001.0f;
    }
    const struct terp_stream stream =
        terp_case_encode(&params, &chunk, (const uint8_t *)values, 1);
    assert_int_equal(coding_of(&stream), TERP_CODING_COLUMNS);
    assert_int_equal(terp_decode(stream.bytes, stream.nbytes, decoded,
                                 terp_chunk_nbytes(&chunk), &got, 2),
                     TERP_OK);
    assert_int_equal(terp_inspect(stream.bytes, stream.nbytes, &info), TERP_OK);
    assert_true(info.bound > 0.09 && info.bound < 0.11);
    for (uint64_t i = 0; i < nvalues; i++) {
        const double error = (double)decoded[i] - (double)values[i];
        assert_true(error >= -info.bound && error <= info.bound);
        assert_true(values[i] > -999.0f || decoded[i] == values[i]);
    }
    free(stream.bytes);
    free(decoded);
    free(values);
}

/* Slices may repeat within a group of columns, but not in the whole table. */
static void
groups_hold_no_copies(void **state)
{
    const struct terp_chunk chunk = {
        TERP_FLOAT32, false, false, 4, {91, 24, 7, 4}};
    const struct terp_params params = {.size = sizeof params,
                                       .bound_mode = TERP_BOUND_RELATIVE,
                                       .bound = 0x1p-17};
    const uint64_t nbytes = terp_chunk_nbytes(&chunk);
    uint8_t *values = terp_case_alloc(nbytes);
    uint8_t *decoded = terp_case_alloc(nbytes);

    (void)state;
    for (int field = 0; field < TERP_NNAMED_FIELDS; field++) {
        uint64_t got;
        terp_field_make((enum terp_field)field, &chunk, values);
        const struct terp_stream stream =
            terp_case_encode(&params, &chunk, values, 1);
        assert_int_equal(
            terp_decode(stream.bytes, stream.nbytes, decoded, nbytes, &got, 1),
            TERP_OK);
        terp_case_compare("groups of columns", &params, &chunk, values, decoded,
                          terp_case_bound(&params, &chunk, values));
        free(stream.bytes);
    }
    free(decoded);
    free(values);
}

/* ---- damage ---- */

/* Changes a byte or more; both decoders refuse the stream, or decode it to the
 * same values. */
static void
damaged_streams_are_refused_alike(void **state)
{
    static const struct terp_chunk chunks[] = {
        {TERP_FLOAT32, false, false, 2, {1000, 3}},
        {TERP_INT8, true, false, 2, {700, 16}},
        {TERP_FLOAT64, true, false, 3, {15, 200, 4}},
        {TERP_COMPLEX64, false, false, 2, {2000, 5}}};
    unsigned nrefused = 0, ntried = 0;

    (void)state;
    for (size_t c = 0; c < COUNT(chunks); c++) {
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunks[c]));
        table_make(&chunks[c], values);
        const struct terp_stream good =
            terp_case_encode(&lossless, &chunks[c], values, 1);
        assert_int_equal(version_of(&good), 2);
        for (uint64_t i = 0; i < 1000; i++) {
            if (!terp_case_is_drawn(1000 * c + i, terp_case_fewer() / 16))
                continue;
            struct terp_stream bad = {terp_case_alloc(good.nbytes),
                                      good.nbytes};
            const uint64_t random = terp_field_mix(1000 * c + i);
            const uint64_t most =
                i % 2 == 0 && good.nbytes > 48 ? 48 : good.nbytes;
            bool decoded;
            memcpy(bad.bytes, good.bytes, good.nbytes);
            bad.bytes[4 + random % (most - 4)] ^=
                (uint8_t)(1u << (random >> 60) % 8);
            if (i % 3 == 0)
                bad.bytes[4 + (random >> 20) % (most - 4)] =
                    (uint8_t)(random >> 40);
            terp_frame_seal(bad.bytes, bad.nbytes);
            if (!reader_agrees(bad.bytes, bad.nbytes, 1u << 16, false,
                               &decoded))
                fail_msg("chunk %zu, damage %d", c, (int)i);
            nrefused += !decoded;
            ntried++;
            free(bad.bytes);
        }
        free(good.bytes);
        free(values);
    }
    assert_true(nrefused > ntried / 8 && nrefused < ntried);
}

/* ---- the sample ---- */

static unsigned
groups_of(const struct terp_chunk *chunk, const uint8_t *values)
{
    const uint64_t nvalues =
        terp_chunk_nbytes(chunk) / (uint64_t)terp_value_nbytes(chunk->type);
    const uint64_t nkeys = terp_columns_nkeys(chunk, nvalues);
    uint64_t *keys = terp_case_alloc(nkeys * sizeof *keys);

    terp_columns_sample(chunk, values, nvalues, keys);
    bool are_cheaper;
    const unsigned mask =
        terp_columns_groups(chunk, nvalues, keys, &are_cheaper);
    free(keys);
    return mask;
}

/* Columns that go together are a group. */
static void
samples_tell_groups(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT64, true, false, 2, {3000, 5}};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    for (uint64_t r = 0; r < 3000; r++) {
        const double common = (double)(terp_field_mix(r) % 1000000) / 7.0;
        const double more = (double)(terp_field_mix(r + 5000) % 1000000) / 7.0;
        const double row[] = {common, common + 1e-9, common + 2e-9, more,
                              more + 1e-9};
        for (uint64_t c = 0; c < 5; c++)
            value_put(&chunk, values, 5 * r + c, double_bits(row[c]));
    }
    assert_int_equal(groups_of(&chunk, values), 1 | 1u << 3);
    free(check_as("groups", &lossless, &chunk, values, TERP_CODING_COLUMNS)
             .bytes);
    for (uint64_t i = 0; i < 15000; i++)
        value_put(&chunk, values, i,
                  double_bits((double)(terp_field_mix(i) >> 20)));
    assert_int_equal(groups_of(&chunk, values), 0);
    free(values);
}

/* The rows of a sample are those of the table, and no row begins two pairs. */
static void
samples_are_within_the_table(void **state)
{
    static const uint64_t sizes[] = {128, 129, 1023, 1024, 1025, 1028, 1000003};

    (void)state;
    for (size_t k = 0; k < COUNT(sizes); k++) {
        const struct terp_chunk chunk = {
            TERP_UINT8, false, false, 2, {sizes[k], 2}};
        const uint64_t nkeys = terp_columns_nkeys(&chunk, 2 * sizes[k]);
        const uint64_t npairs = nkeys / 4;
        uint64_t next = 0;
        for (uint64_t p = 0; p < npairs; p++) {
            const uint64_t row = terp_columns_sampled_row(sizes[k], p);
            assert_true(row >= next && row + 1 < sizes[k]);
            next = row + 1;
        }
        assert_int_equal(npairs, sizes[k] / 4 < 256 ? sizes[k] / 4 : 256);
    }
}

/* ---- what the format allows ---- */

static void
groups_have_chunks(void **state)
{
    const struct terp_chunk chunk = {TERP_INT16, true, false, 3, {7, 11, 5}};
    const struct terp_chunk pair =
        terp_columns_chunk(&chunk, 1 | 1u << 2 | 1u << 3, 2);
    const struct terp_chunk one =
        terp_columns_chunk(&chunk, 1 | 1u << 2 | 1u << 3, 1);
    const uint64_t dims[] = {2, 7, 11};

    (void)state;
    assert_int_equal(pair.rank, 3);
    assert_int_equal(one.rank, 2);
    assert_false(pair.big_endian);
    assert_memory_equal(pair.dims, dims, sizeof dims);
    assert_memory_equal(one.dims, dims + 1, 2 * sizeof *dims);
    assert_true(terp_columns_are_valid(5, 31));
    assert_false(terp_columns_are_valid(5, 33));
    assert_false(terp_columns_are_valid(5, 30));
    assert_true(terp_columns_are_valid(16, 65535));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_of_all_types_come_back),
        cmocka_unit_test(other_chunks_have_no_columns),
        cmocka_unit_test(columns_are_parts_of_other_streams),
        cmocka_unit_test(inspection_adds_columns_up),
        cmocka_unit_test(tables_under_bounds_have_columns),
        cmocka_unit_test(groups_hold_no_copies),
        cmocka_unit_test(damaged_streams_are_refused_alike),
        cmocka_unit_test(samples_tell_groups),
        cmocka_unit_test(samples_are_within_the_table),
        cmocka_unit_test(groups_have_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
