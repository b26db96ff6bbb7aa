/* Streams of ranks, of version 2: chunks of few different values. */
#define _POSIX_C_SOURCE 200809L /* for setenv */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/frame.h"
#include "codec/format/held.h"
#include "codec/format/ranks.h"
#include "codec/model/ranks.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/coded_as.h"
#include "h5tests/support/few.h"
#include "h5tests/support/reader.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct terp_params lossless = {.size = sizeof lossless,
                                            .bound_mode = TERP_BOUND_ABSOLUTE};

/* ---- types and shapes ---- */

static void
few_values_of_all_types_come_back_by_their_ranks(void **state)
{
    static const enum terp_type types[] = {
        TERP_INT16,   TERP_INT32,   TERP_INT64,     TERP_UINT16,
        TERP_UINT32,  TERP_UINT64,  TERP_FLOAT16,   TERP_BFLOAT16,
        TERP_FLOAT32, TERP_FLOAT64, TERP_COMPLEX64, TERP_COMPLEX128};
    static const struct terp_chunk shapes[] = {
        {TERP_FLOAT32, false, false, 1, {20011}},
        {TERP_FLOAT32, false, false, 2, {61, 331}},
        {TERP_FLOAT32, false, false, 3, {17, 35, 37}},
        {TERP_FLOAT32, false, false, 4, {9, 11, 13, 15}},
        {TERP_FLOAT32, false, true, 3, {17, 35, 37}}};
    static const uint64_t nlevels[] = {7, 300, 900};

    (void)state;
    for (size_t t = 0; t < COUNT(types); t++)
        for (size_t s = 0; s < COUNT(shapes); s++)
            for (size_t n = 0; n < COUNT(nlevels); n++) {
                struct terp_chunk chunk = shapes[s];
                char name[64];
                if (!terp_case_taken(3))
                    continue;
                chunk.type = types[t];
                chunk.big_endian = (t + s + n) % 2 > 0;
                snprintf(name, sizeof name, "%s, shape %d, %d levels",
                         terp_type_name(chunk.type), (int)s, (int)nlevels[n]);
                uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
                few_make(&chunk, nlevels[n], values);
                const struct terp_stream stream = check_as(
                    name, &lossless, &chunk, values,
                    terp_type_nparts(chunk.type) > 1 ? TERP_CODING_PARTS
                                                     : TERP_CODING_RANKS);
                assert_int_equal(version_of(&stream), 2);
                terp_case_check_threads(&lossless, &chunk, values);
                free(stream.bytes);
                free(values);
            }
}

/* Bits that stand for nothing, both zeros, NaNs with payloads: ranks are of
 * bits. */
static void
all_bits_come_back(void **state)
{
    static const uint32_t bits[] = {
        0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7fc00001,
        0xffc12345, 0x7f800001, 0x00000001, 0x80000001, 0x7f7fffff, 0xc61c3c00,
        0x7cf0bdc2, 0xffffffff, 0x7fffffff, 0x3f800000};
    struct terp_chunk chunk = {TERP_FLOAT32, false, false, 2, {60, 83}};
    struct terp_params params = lossless;
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    params.has_fill = true;
    params.fill_bits = 0xc61c3c00;
    for (int order = 0; order < 2; order++) {
        chunk.big_endian = order > 0;
        for (uint64_t i = 0; i < chunk_nvalues(&chunk); i++)
            value_put(&chunk, values, i, bits[few_level(COUNT(bits), i)]);
        free(
            check_as("bits", &params, &chunk, values, TERP_CODING_RANKS).bytes);
    }
    free(values);
}

/* ---- numbers of values ---- */

/* Reads the frame of an inner stream, and returns the number of values in the
 * table. */
static uint64_t
read_part(const struct terp_stream *stream, enum terp_ranks_part wanted,
          struct terp_frame *frame_ret)
{
    struct terp_frame frame;
    struct terp_held held;
    struct terp_part part;
    uint64_t read_nbytes;
    int nbytes;

    assert_int_equal(
        terp_frame_read(stream->bytes, stream->nbytes, &frame, &nbytes),
        TERP_OK);
    uint64_t at = (uint64_t)nbytes;
    terp_held_begin(&frame, &held);
    for (int i = 0; i <= (int)wanted; i++, at += read_nbytes)
        assert_int_equal(terp_held_read(&held, stream->bytes + at,
                                        stream->nbytes - at, &part,
                                        &read_nbytes),
                         TERP_OK);
    *frame_ret = part.frame;
    return held.ntable;
}

static uint64_t
ntable_of(const struct terp_stream *stream)
{
    struct terp_frame frame;

    return read_part(stream, TERP_RANKS_TABLE, &frame);
}

static void
tables_have_all_values(void **state)
{
    static const uint64_t nlevels[] = {2,   3,     255,   256,
                                       257, 65535, 65536, 65537};

    (void)state;
    for (int wide = 0; wide < 2; wide++)
        for (size_t n = 0; n < COUNT(nlevels); n++) {
            if (!terp_case_is_drawn((size_t)wide * COUNT(nlevels) + n,
                                    terp_case_fewer() / 16))
                continue;
            const struct terp_chunk chunk = {wide ? TERP_FLOAT64 : TERP_FLOAT32,
                                             false,
                                             false,
                                             2,
                                             {520, 517}};
            uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
            few_make(&chunk, nlevels[n], values);
            const struct terp_stream stream =
                check_as("table", &lossless, &chunk, values, TERP_CODING_RANKS);
            assert_int_equal(ntable_of(&stream), nlevels[n]);
            free(stream.bytes);
            free(values);
        }
}

/* Categories that fill large regions, and others that take turns. */
static void
ranks_of_regions_are_lines(void **state)
{
    const struct terp_chunk shapes[] = {
        {TERP_FLOAT32, false, false, 2, {300, 300}},
        {TERP_INT32, false, false, 3, {20, 100, 100}},
        {TERP_FLOAT64, false, false, 1, {90000}}};

    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (int regions = 0; regions < 2; regions++) {
            const struct terp_chunk *chunk = &shapes[s];
            const uint64_t nrow = chunk->dims[chunk->rank - 1];
            uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));
            struct terp_frame frame;
            for (uint64_t i = 0; i < chunk_nvalues(chunk); i++) {
                const uint64_t x = i % nrow, y = i / nrow % 300;
                const uint64_t far = (x * x + 2 * y * y) / 20000;
                value_put(
                    chunk, values, i,
                    few_bits(chunk->type, regions ? far % 5 : few_level(5, i)));
            }
            const struct terp_stream stream = check_as(
                "regions", &lossless, chunk, values, TERP_CODING_RANKS);
            read_part(&stream, TERP_RANKS_RANKS, &frame);
            assert_true(frame.domain.stack == (regions && chunk->rank > 1));
            if (frame.domain.stack) {
                assert_int_equal(frame.domain.rank, 2);
                assert_int_equal(frame.domain.dims[1], nrow);
            }
            free(stream.bytes);
            free(values);
        }
}

/* One value; one value in small chunks; more values than a table may have. */
static void
other_chunks_stay_version_1(void **state)
{
    static const enum terp_field fields[] = {
        TERP_FIELD_SMOOTH, TERP_FIELD_ROUGH,   TERP_FIELD_NOISE,
        TERP_FIELD_COAST,  TERP_FIELD_GAPS,    TERP_FIELD_MAPS,
        TERP_FIELD_FINE,   TERP_FIELD_ROUNDED, TERP_FIELD_DECADES};
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 2, {61, 331}};
    const struct terp_chunk small = {TERP_FLOAT32, false, false, 1, {1023}};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    few_make(&chunk, 1, values);
    free(
        check_as("one", &lossless, &chunk, values, TERP_CODING_CONSTANT).bytes);
    for (size_t f = 0; f < COUNT(fields); f++) {
        terp_field_make(fields[f], &chunk, values);
        const struct terp_stream stream =
            terp_case_encode(&lossless, &chunk, values, 1);
        if (version_of(&stream) != 1)
            fail_msg("%s: version %d", terp_field_name[fields[f]],
                     version_of(&stream));
        free(stream.bytes);
    }
    few_make(&small, 50, values);
    const struct terp_stream stream =
        terp_case_encode(&lossless, &small, values, 1);
    assert_int_equal(version_of(&stream), 1);
    free(stream.bytes);
    free(values);
}

/* ---- bounds, and who forbids version 2 ---- */

static void
bounds_that_lose_nothing_have_ranks(void **state)
{
    const struct terp_chunk floats = {TERP_FLOAT32, false, false, 2, {61, 331}};
    const struct terp_chunk integers = {TERP_INT32, true, false, 2, {61, 331}};
    struct terp_params params = lossless;
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&floats));

    (void)state;
    few_make(&floats, 300, values);
    params.bound = 1e-7;
    free(check_as("tight", &params, &floats, values, TERP_CODING_RANKS).bytes);
    params.bound = 1;
    const struct terp_stream loose =
        terp_case_encode(&params, &floats, values, 1);
    assert_int_equal(version_of(&loose), 1);
    free(loose.bytes);
    few_make(&integers, 300, values);
    params.bound_mode = TERP_BOUND_RELATIVE;
    params.bound = 1e-2;
    free(check_as("integers", &params, &integers, values, TERP_CODING_RANKS)
             .bytes);
    free(values);
}

static void
version_2_can_be_forbidden(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 2, {61, 331}};
    struct terp_params params = lossless;
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    struct terp_stream first, newest;

    (void)state;
    few_make(&chunk, 300, values);
    newest = terp_case_encode(&params, &chunk, values, 1);
    params.format = 1;
    first = terp_case_encode(&params, &chunk, values, 1);
    assert_int_equal(version_of(&first), 1);
    assert_true(50 * newest.nbytes < 49 * first.nbytes);
    for (int i = 0; i < 4; i++) {
        static const char *const texts[] = {"1", "1", "2", ""};
        static const int formats[] = {0, 2, 0, 0};
        static const int versions[] = {1, 2, 2, 2};
        params.format = formats[i];
        setenv("TERP_FORMAT", texts[i], 1);
        const struct terp_stream stream =
            terp_case_encode(&params, &chunk, values, 1);
        unsetenv("TERP_FORMAT");
        const struct terp_stream *same = versions[i] == 1 ? &first : &newest;
        assert_int_equal(version_of(&stream), versions[i]);
        assert_int_equal(stream.nbytes, same->nbytes);
        assert_memory_equal(stream.bytes, same->bytes, same->nbytes);
        free(stream.bytes);
    }
    for (int format = -1; format <= 3; format += 4) {
        const char *reason;
        params.format = format;
        assert_int_equal(terp_params_check(&params, &reason),
                         TERP_ERR_ARGUMENT);
        assert_non_null(strstr(reason, "format"));
    }
    free(first.bytes);
    free(newest.bytes);
    free(values);
}

/* The effort `fast` tries no ranks. `best` does. */
static void
effort_decides(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT64, false, false, 2, {61, 331}};
    struct terp_params params = lossless;
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    few_make(&chunk, 300, values);
    const struct terp_stream usual =
        terp_case_encode(&params, &chunk, values, 1);
    params.effort = TERP_EFFORT_FAST;
    const struct terp_stream fast =
        terp_case_encode(&params, &chunk, values, 1);
    assert_int_equal(version_of(&fast), 1);
    params.effort = TERP_EFFORT_BEST;
    const struct terp_stream best =
        check_as("best", &params, &chunk, values, TERP_CODING_RANKS);
    assert_true(best.nbytes <= usual.nbytes);
    free(usual.bytes);
    free(fast.bytes);
    free(best.bytes);
    free(values);
}

/* What is left without copies, and parts of complex values, have ranks of
 * their own. */
static void
ranks_are_parts_of_other_streams(void **state)
{
    const struct terp_chunk chunk = {
        TERP_FLOAT32, true, false, 3, {61, 331, 3}};
    const struct terp_chunk left = {TERP_FLOAT32, true, false, 2, {61, 331}};
    const struct terp_chunk complex = {
        TERP_COMPLEX64, true, false, 2, {40, 83}};
    struct terp_params params = lossless;
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    uint8_t *other = terp_case_alloc(terp_chunk_nbytes(&left));

    (void)state;
    few_make(&left, 300, other);
    for (uint64_t i = 0; i < chunk_nvalues(&chunk); i++)
        value_put(&chunk, values, i, value_bits(&left, other, i / 3));
    params.bound = 1e-10; /* copies are found under bounds alone */
    struct terp_stream stream =
        check_as("copies", &params, &chunk, values, TERP_CODING_COPIES);
    assert_int_equal(version_of(&stream), 2);
    stream.bytes[TERP_FRAME_VERSION_AT] = 1;
    terp_case_seal(&stream);
    uint64_t got;
    assert_int_equal(terp_decode(stream.bytes, stream.nbytes, values,
                                 terp_chunk_nbytes(&chunk), &got, 1),
                     TERP_ERR_CORRUPT);
    free(stream.bytes);
    few_make(&complex, 300, values);
    stream = check_as("parts", &lossless, &complex, values, TERP_CODING_PARTS);
    assert_int_equal(version_of(&stream), 2);
    free(stream.bytes);
    free(other);
    free(values);
}

/* ---- what a stream tells ---- */

static void
inspection_tells_the_version(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 2, {61, 331}};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    struct terp_info info = {.size = sizeof info};

    (void)state;
    few_make(&chunk, 300, values);
    const struct terp_stream stream =
        terp_case_encode(&lossless, &chunk, values, 1);
    assert_int_equal(terp_inspect(stream.bytes, stream.nbytes, &info), TERP_OK);
    assert_int_equal(info.version, 2);
    assert_true(info.bound == 0);
    assert_true(info.ntiles > 0);
    free(stream.bytes);
    free(values);
}

/* ---- damage ---- */

/* Changes a byte or more; both decoders refuse the stream, or decode it to the
 * same values. */
static void
damaged_streams_are_refused_alike(void **state)
{
    static const struct terp_chunk chunks[] = {
        {TERP_FLOAT32, false, false, 2, {40, 83}},
        {TERP_INT16, true, false, 1, {3001}},
        {TERP_FLOAT64, true, true, 3, {5, 20, 33}},
        {TERP_COMPLEX64, false, false, 2, {40, 43}}};
    unsigned nrefused = 0, ntried = 0;

    (void)state;
    for (size_t c = 0; c < COUNT(chunks); c++) {
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunks[c]));
        few_make(&chunks[c], c == 0 ? 4 : 100, values);
        const struct terp_stream good =
            terp_case_encode(&lossless, &chunks[c], values, 1);
        assert_int_equal(version_of(&good), 2);
        for (uint64_t i = 0; i < 1500; i++) {
            if (!terp_case_is_drawn(1500 * c + i, terp_case_fewer() / 16))
                continue;
            struct terp_stream bad = {terp_case_alloc(good.nbytes),
                                      good.nbytes};
            const uint64_t random = terp_field_mix(1500 * c + i);
            const uint64_t most =
                i % 2 == 0 && good.nbytes > 96 ? 96 : good.nbytes;
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

/* A stream of a few bytes announces a table that is as large as its chunk. */
static void
announced_tables_take_no_more_than_the_chunk(void **state)
{
    static const uint8_t head[] = {
        'T', 'E', 'R', 'P', 2, 0x08, 12, 0, 0, 0,
        0,   0,   0,   0,   0, 0,    0,  0, 0, 1};          /* 2^24 float32 */
    static const uint8_t more[] = {0x81, 0x80, 0x80, 0x08}; /* 2^24 + 1 */
    uint8_t stream[64];
    uint64_t got;
    uint8_t *values = terp_case_alloc(UINT64_C(4) << 24);

    (void)state;
    memcpy(stream, head, sizeof head);
    memcpy(stream + sizeof head, more, sizeof more);
    memset(stream + sizeof head + sizeof more, 0, 12);
    const uint64_t nbytes = sizeof head + sizeof more + 12;
    terp_frame_seal(stream, nbytes);
    assert_int_equal(
        terp_decode(stream, nbytes, values, UINT64_C(4) << 24, &got, 1),
        TERP_ERR_CORRUPT);
    free(values);
}

/* ---- the sample ---- */

static void
samples_are_within_the_chunk_and_differ(void **state)
{
    static const uint64_t sizes[] = {1024,    1025,    32767,   32768,
                                     32769,   262144,  1000003, 1048576,
                                     1048577, 16777216};

    (void)state;
    for (size_t k = 0; k < COUNT(sizes); k++) {
        const uint64_t n = terp_ranks_nsamples(sizes[k]);
        uint64_t before = 0;
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t at = terp_ranks_sample_at(sizes[k], i);
            assert_true(at < sizes[k] && (i == 0 || at > before));
            before = at;
        }
    }
}

static void
keys_rise_with_values(void **state)
{
    static const double rising[] = {-1e300, -3.5,   -1, -1e-300, -0.0,
                                    0.0,    1e-300, 1,  3,       1e300};
    static const int64_t integers[] = {INT32_MIN, -7, -1, 0, 1, INT32_MAX};

    (void)state;
    for (size_t i = 1; i < COUNT(rising); i++)
        assert_true(terp_rank_key(TERP_FLOAT64, 8, double_bits(rising[i - 1])) <
                    terp_rank_key(TERP_FLOAT64, 8, double_bits(rising[i])));
    for (size_t i = 1; i < COUNT(integers); i++)
        assert_true(terp_rank_key(TERP_INT32, 4, (uint32_t)integers[i - 1]) <
                    terp_rank_key(TERP_INT32, 4, (uint32_t)integers[i]));
}

static void
sorting_moves_numbers_along(void **state)
{
    enum {
        N = 5000
    };
    static uint64_t keys[N], key_scratch[N];
    static uint32_t order[N], order_scratch[N];

    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        keys[i] = terp_field_mix(i % 4000) >> 24;
        order[i] = i;
    }
    terp_ranks_sort(N, 8, keys, key_scratch, order, order_scratch);
    for (uint32_t i = 0; i < N; i++) {
        assert_true(keys[i] == terp_field_mix(order[i] % 4000) >> 24);
        assert_true(i == 0 || keys[i - 1] < keys[i] ||
                    (keys[i - 1] == keys[i] && order[i - 1] < order[i]));
    }
}

/* Values of a grid of which each number is a value gain nothing by ranks. */
static void
prices_count_gaps(void **state)
{
    static uint64_t keys[1000];

    (void)state;
    for (uint64_t i = 0; i < COUNT(keys); i++)
        keys[i] = i << 20;
    assert_false(
        terp_ranks_are_worth(TERP_FLOAT32, 100000, 0, COUNT(keys), keys));
    assert_true(
        terp_ranks_are_worth(TERP_FLOAT16, 100000, 0, COUNT(keys), keys));
    assert_true(terp_ranks_are_worth(TERP_FLOAT32, 100000, 0, 256, keys));
    assert_false(terp_ranks_are_worth(TERP_INT32, 100000, 0, 256, keys));
    /* every fourth distance is 16 values */
    for (uint64_t i = 0; i < COUNT(keys); i++)
        keys[i] = i + i / 4 * 15;
    assert_true(terp_ranks_are_worth(TERP_INT32, 100000, 0, 256, keys));
    assert_false(terp_ranks_are_worth(TERP_INT32, 100000, 0, 257, keys));
    for (uint64_t i = 0; i < COUNT(keys); i++)
        keys[i] = 100 * i + i % 7;
    assert_true(terp_ranks_are_worth(TERP_INT32, 100000, 0, COUNT(keys), keys));
    assert_false(
        terp_ranks_are_worth(TERP_INT32, 100000, 99000, COUNT(keys), keys));
    assert_false(terp_ranks_are_worth(TERP_INT32, COUNT(keys) + 1, 0,
                                      COUNT(keys), keys));
    assert_false(terp_ranks_are_worth(TERP_FLOAT32, 100000, 0, 1, keys));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_values_of_all_types_come_back_by_their_ranks),
        cmocka_unit_test(all_bits_come_back),
        cmocka_unit_test(tables_have_all_values),
        cmocka_unit_test(ranks_of_regions_are_lines),
        cmocka_unit_test(other_chunks_stay_version_1),
        cmocka_unit_test(bounds_that_lose_nothing_have_ranks),
        cmocka_unit_test(version_2_can_be_forbidden),
        cmocka_unit_test(effort_decides),
        cmocka_unit_test(ranks_are_parts_of_other_streams),
        cmocka_unit_test(inspection_tells_the_version),
        cmocka_unit_test(damaged_streams_are_refused_alike),
        cmocka_unit_test(announced_tables_take_no_more_than_the_chunk),
        cmocka_unit_test(samples_are_within_the_chunk_and_differ),
        cmocka_unit_test(keys_rise_with_values),
        cmocka_unit_test(sorting_moves_numbers_along),
        cmocka_unit_test(prices_count_gaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
