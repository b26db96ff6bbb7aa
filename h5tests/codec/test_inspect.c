/* What terp_inspect tells of streams within streams, whole and damaged ones. */
#include <stdlib.h>
#include <string.h>

#include "codec/api/inspect.h"
#include "codec/format/base.h"
#include "codec/format/frame.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"

/* A stream that is written byte by byte. */
struct written {
    uint8_t bytes[256];
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

/* Half a GiB of two constants, of which special values are told by how they
 * differ from those of the brick before: they would take a mask to count. */
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
    /* The other part alone is damaged. */
    stream.bytes[stream.nbytes - 8] = 57;
    assert_int_equal(inspect(&stream, &info), TERP_ERR_CORRUPT);
    stream.bytes[stream.nbytes - 8] = 8;
    stream.bytes[stream.nbytes - 8 - sizeof part] = 57;
    assert_int_equal(inspect(&stream, &info), TERP_ERR_CORRUPT);
}

/* What is told of complex values: the sums of both parts' counts, and all else
 * of the first that is predicted. */
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
        cmocka_unit_test(parts_are_told_together),
        cmocka_unit_test(entries_have_families),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
