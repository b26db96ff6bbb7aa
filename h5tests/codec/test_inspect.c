/* What terp_inspect says of streams that contain streams, whole and damaged. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/inspect.h"
#include "codec/format/base.h"
#include "codec/format/frame.h"
#include "codec/format/sections.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"

/* A stream that the test writes byte by byte. */
struct written {
    uint8_t bytes[1 << 16];
    uint64_t nbytes;
};

static void
write_bytes(struct written *to, const void *bytes, uint64_t nbytes)
{
    assert_true(to->nbytes + nbytes <= sizeof to->bytes);
    memcpy(to->bytes + to->nbytes, bytes, nbytes);
    to->nbytes += nbytes;
}

static struct written
begin_stream(const struct terp_chunk *chunk, enum terp_coding coding)
{
    const struct terp_frame frame = {.chunk = *chunk, .coding = coding};
    struct written stream = {{0}, 0};

    stream.nbytes = (uint64_t)terp_frame_write(&frame, stream.bytes);
    return stream;
}

static enum terp_status
inspect(struct written *stream, struct terp_info *info)
{
    terp_frame_seal(stream->bytes, stream->nbytes);
    *info = (struct terp_info){.size = sizeof *info};
    return terp_inspect(stream->bytes, stream->nbytes, info);
}

/* Two constants of 256 MiB each. Their special values are given as differences
 * from the brick before, so counting them needs a mask. */
static void
specials_of_huge_parts_are_not_counted(void **state)
{
    static const uint8_t part[] = {1, 0x10, 0, 0, 128, 63, /* 1.0 */
                                   1, 0x11, 8, 3, /* a run, one color */
                                   8, 1,    9, 9, 9,   9};
    const struct terp_chunk chunk = {
        TERP_COMPLEX64, false, true, 2, {UINT64_C(1) << 20, 64}};
    const double bound = 0.5;
    uint8_t bits[9];
    struct terp_info info;
    struct written stream = begin_stream(&chunk, TERP_CODING_PARTS);

    (void)state;
    store_le(bits, double_bits(bound), 8);
    bits[8] = sizeof part;
    write_bytes(&stream, bits, sizeof bits);
    write_bytes(&stream, part, sizeof part);
    write_bytes(&stream, part, sizeof part);
    assert_int_equal(inspect(&stream, &info), TERP_OK);
    assert_true(info.nspecials == TERP_COUNT_UNKNOWN);
    assert_true(info.nescapes == 0 && info.ntiles == 0);
    assert_string_equal(info.pipeline, "constant");
    /* Damages only the other part. */
    stream.bytes[stream.nbytes - 8] = 57;
    assert_int_equal(inspect(&stream, &info), TERP_ERR_CORRUPT);
    stream.bytes[stream.nbytes - 8] = 8;
    stream.bytes[stream.nbytes - 8 - sizeof part] = 57;
    assert_int_equal(inspect(&stream, &info), TERP_ERR_CORRUPT);
}

/* Above 2^24 values, specials are counted only if the stream has at least as
 * many bytes as their mask. Here it has: runs of one value each, adjacent, that
 * say how a row differs from the row before. */
static void
specials_of_large_streams_are_counted(void **state)
{
    enum {
        NROWS = (1 << 14) + 1,
        ROW = 1 << 10,
        NRUNS = 20000
    };
    static const uint8_t one[] = {0, 0, 128, 63}, nan[] = {1, 0, 192, 127};
    static bool is_special[ROW];
    struct terp_chunk chunk = {TERP_FLOAT32, false, false, 2, {NROWS, ROW}};
    const struct terp_frame frame = {
        .chunk = chunk, .coding = TERP_CODING_CONSTANT, .has_specials = true};
    const uint8_t head[] = {0x80 | NRUNS % 128, 0x80 | NRUNS / 128 % 128,
                            NRUNS >> 14, 0x11}; /* one color, delta of rows */
    const uint8_t width = 8, zero = 0;
    struct written stream = {{0}, 0};
    struct terp_info info;
    uint64_t nspecials = 0;

    (void)state;
    stream.nbytes = (uint64_t)terp_frame_write(&frame, stream.bytes);
    write_bytes(&stream, one, sizeof one);
    write_bytes(&stream, head, sizeof head);
    for (int field = 0; field < 2; field++) /* gaps, and lengths less one */
        for (int i = 0; i < NRUNS; i++) {
            if (i % TERP_SPECIALS_GROUP_NNUMBERS == 0)
                write_bytes(&stream, &width, 1);
            write_bytes(&stream, &zero, 1);
        }
    write_bytes(&stream, nan, sizeof nan);
    for (int row = 0; row < NROWS; row++)
        for (int x = 0; x < ROW; x++) {
            is_special[x] ^= row * ROW + x < NRUNS;
            nspecials += is_special[x];
        }
    assert_int_equal(inspect(&stream, &info), TERP_OK);
    assert_int_equal(info.nspecials, nspecials);
}

/* terp_inspect reports the properties of the inner stream. */
static void
copies_and_references_without_values_are_refused(void **state)
{
    static const struct {
        enum terp_coding coding;
        uint8_t body[5];
        uint64_t nbytes;
        enum terp_status st;
    } cases[] = {
        {TERP_CODING_COPIES, {0}, 0, TERP_ERR_TRUNCATED},
        {TERP_CODING_COPIES, {0}, 1, TERP_ERR_CORRUPT}, /* no dimension */
        {TERP_CODING_REFERENCES, {1, 0, 192, 127}, 4, TERP_ERR_TRUNCATED},
        {TERP_CODING_REFERENCES, {1, 0, 192, 127, 0}, 5, TERP_ERR_CORRUPT}};
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 2, {30, 40}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct written stream = begin_stream(&chunk, cases[i].coding);
        struct terp_info info;
        write_bytes(&stream, cases[i].body, cases[i].nbytes);
        assert_int_equal(inspect(&stream, &info), cases[i].st);
    }
}

/* An integer bound is a whole number, however large. A bound above all values
 * may not fit an integer; no encoder writes it. */
static void
bounds_of_integers_are_told(void **state)
{
    const struct terp_chunk chunk = {TERP_INT64, false, false, 1, {5000}};
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                       .bound = 3,
                                       .predictor = TERP_PREDICTOR_LORENZO};
    int64_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    struct terp_info info = {.size = sizeof info};
    struct terp_frame frame;
    int frame_nbytes;

    (void)state;
    for (uint64_t i = 0; i < chunk.dims[0]; i++)
        values[i] = 2 * (int64_t)(terp_field_mix(i) % 1000);
    struct terp_stream stream =
        terp_case_encode(&params, &chunk, (uint8_t *)values, 1);
    assert_int_equal(terp_inspect(stream.bytes, stream.nbytes, &info), TERP_OK);
    assert_true(info.bound == 2); /* all values are even */
    assert_int_equal(
        terp_frame_read(stream.bytes, stream.nbytes, &frame, &frame_nbytes),
        TERP_OK);
    frame.bound = 0x1p70;
    assert_int_equal(terp_frame_write(&frame, stream.bytes), frame_nbytes);
    terp_case_seal(&stream);
    assert_int_equal(terp_inspect(stream.bytes, stream.nbytes, &info), TERP_OK);
    assert_true(info.bound == 0x1p71);
    free(stream.bytes);
    free(values);
}

/* In copies and references streams the inner stream has the bound. */
static void
bounds_of_streams_within_are_told(void **state)
{
    static const enum terp_coding codings[] = {TERP_CODING_COPIES,
                                               TERP_CODING_REFERENCES};
    const struct terp_chunk chunk = {TERP_FLOAT64, false, false, 2, {300, 251}};
    const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                       .bound = 1e-3};
    double *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct terp_info info = {.size = sizeof info};
        double min = INFINITY, max = -INFINITY;
        terp_field_make(TERP_FIELD_MIRRORS, &chunk, (uint8_t *)values);
        for (uint64_t k = 0; k < 300 * 251; k++) {
            if (codings[i] == TERP_CODING_COPIES)
                values[k] = values[k / 251 * 251];
            min = fmin(min, values[k]);
            max = fmax(max, values[k]);
        }
        struct terp_stream stream =
            terp_case_encode(&params, &chunk, (uint8_t *)values, 1);
        assert_int_equal(stream.bytes[TERP_FRAME_CODING_AT], codings[i]);
        assert_int_equal(terp_inspect(stream.bytes, stream.nbytes, &info),
                         TERP_OK);
        assert_true(info.bound == 1e-3 * (max - min));
        free(stream.bytes);
    }
    free(values);
}

/* For complex values, counts are the sums over both parts. All else is that of
 * the first part that has a prediction. */
static void
parts_are_told_together(void **state)
{
    const struct terp_chunk chunk = {
        TERP_COMPLEX128, false, false, 2, {40, 50}};
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                       .bound = 1e-3};
    double *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    for (int constant = 0; constant < 3; constant++) {
        struct terp_info info = {.size = sizeof info};
        terp_field_make(TERP_FIELD_GAPS, &chunk, (uint8_t *)values);
        for (uint64_t i = 0; constant < 2 && i < 40 * 50; i++)
            values[2 * i + (uint64_t)constant] = 2.5;
        struct terp_stream stream =
            terp_case_encode(&params, &chunk, (uint8_t *)values, 1);
        assert_int_equal(terp_inspect(stream.bytes, stream.nbytes, &info),
                         TERP_OK);
        assert_string_not_equal(info.pipeline, "constant");
        assert_string_not_equal(info.predictor, "none");
        assert_true(info.bound == 1e-3);
        assert_int_equal(info.ntiles, constant < 2 ? 1 : 2);
        assert_true(info.nspecials > 0);
        free(stream.bytes);
    }
    free(values);
}

static void
every_status_has_a_text(void **state)
{
    (void)state;
    for (int st = TERP_OK; st <= TERP_ERR_LIMIT; st++)
        assert_string_not_equal(terp_status_text((enum terp_status)st),
                                "unknown status");
    assert_string_equal(
        terp_status_text((enum terp_status)(TERP_ERR_LIMIT + 1)),
        "unknown status");
}

static void
entries_have_families(void **state)
{
    int place = -1;

    (void)state;
    assert_null(terp_entry_family(-1, &place));
    assert_null(terp_entry_family(75, &place));
    assert_int_equal(place, -1);
    assert_string_equal(terp_entry_family(74, &place), "gaussian");
    assert_int_equal(place, 24);
    assert_string_equal(terp_entry_family(25, &place), "laplace");
    assert_int_equal(place, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(specials_of_huge_parts_are_not_counted),
        cmocka_unit_test(specials_of_large_streams_are_counted),
        cmocka_unit_test(copies_and_references_without_values_are_refused),
        cmocka_unit_test(bounds_of_integers_are_told),
        cmocka_unit_test(bounds_of_streams_within_are_told),
        cmocka_unit_test(parts_are_told_together),
        cmocka_unit_test(every_status_has_a_text),
        cmocka_unit_test(entries_have_families),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
