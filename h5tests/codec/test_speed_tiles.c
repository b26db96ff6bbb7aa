/* Streams of coding SPEED, of version 2: tiles of integers. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/frame.h"
#include "codec/format/speed.h"
#include "codec/model/bound.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/reader.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct terp_params lossless = {.size = sizeof lossless,
                                            .bound_mode = TERP_BOUND_ABSOLUTE,
                                            .pipeline = TERP_PIPELINE_SPEED};

static struct terp_params
params_of(enum terp_bound_mode mode, double bound)
{
    struct terp_params params = lossless;

    params.bound_mode = mode;
    params.bound = bound;
    return params;
}

static enum terp_coding
coding_of(const struct terp_stream *stream)
{
    return (enum terp_coding)stream->bytes[TERP_FRAME_CODING_AT];
}

/* A number below n of a sequence. */
static uint64_t
drawn(uint64_t *state, uint64_t n)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (*state >> 33) % n;
}

/* Waves and some noise. */
static uint8_t *
make_values(const struct terp_chunk *chunk, double scale, double noise)
{
    const uint64_t nx = chunk->dims[chunk->rank - 1];
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));
    uint64_t state = nx;

    for (uint64_t i = 0; i < chunk_nvalues(chunk); i++) {
        const double x = (double)(i % nx), y = (double)(i / nx);
        const double value =
            scale * (sin(x / 9) + cos(y / 11) +
                     noise * ((double)drawn(&state, 2001) / 1000 - 1));
        value_put(chunk, values, i, value_to_bits(chunk->type, value));
    }
    return values;
}

/* Integers have only absolute bounds above 0. */
static void
check_integers(const char *name, const struct terp_params *params,
               const struct terp_chunk *chunk, const uint8_t *values)
{
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const double bound =
        params->bound_mode == TERP_BOUND_ABSOLUTE && params->bound >= 1
            ? params->bound
            : 0;
    const struct terp_stream stream =
        terp_case_encode(params, chunk, values, 1);
    uint8_t *decoded = terp_case_alloc(nbytes);
    uint64_t got;

    assert_int_equal(
        terp_decode(stream.bytes, stream.nbytes, decoded, nbytes, &got, 1),
        TERP_OK);
    for (uint64_t i = 0; i < chunk_nvalues(chunk); i++) {
        const uint64_t bits = value_bits(chunk, values, i);
        const uint64_t x = terp_integer_of_word(chunk->type, bits);
        const uint64_t y =
            terp_integer_of_word(chunk->type, value_bits(chunk, decoded, i));
        const bool is_above =
            terp_type_is_signed(chunk->type) ? (int64_t)x > (int64_t)y : x > y;
        const bool is_fill =
            (params->has_fill && bits == params->fill_bits) ||
            (params->has_missing && bits == params->missing_bits);
        if ((double)(is_above ? x - y : y - x) > (is_fill ? 0 : bound))
            fail_msg("%s: value %d", name, (int)i);
    }
    free(decoded);
    free(stream.bytes);
}

static void
check(const char *name, const struct terp_params *params,
      const struct terp_chunk *chunk, const uint8_t *values)
{
    if (terp_type_is_integer(chunk->type))
        check_integers(name, params, chunk, values);
    else if (terp_type_nparts(chunk->type) == 1) /* test_types has complex */
        terp_case_check(name, params, chunk, values);
}

/* Encodes a chunk as a stream of `coding`; checks all promises. */
static struct terp_stream
check_as(const char *name, const struct terp_params *params,
         const struct terp_chunk *chunk, const uint8_t *values,
         enum terp_coding coding)
{
    const struct terp_stream stream =
        terp_case_encode(params, chunk, values, 1);
    bool both;

    if (coding_of(&stream) != coding)
        fail_msg("%s: coding %d", name, (int)coding_of(&stream));
    if (coding == TERP_CODING_SPEED)
        assert_int_equal(stream.bytes[TERP_FRAME_VERSION_AT], 2);
    check(name, params, chunk, values);
    terp_case_check_threads(params, chunk, values);
    assert_true(
        reader_agrees(stream.bytes, stream.nbytes, UINT64_MAX, true, &both));
    assert_true(both);
    return stream;
}

/* ---- types, shapes and bounds ---- */

static void
all_types_and_shapes_keep_their_bounds(void **state)
{
    static const enum terp_type types[] = {
        TERP_FLOAT32, TERP_FLOAT64, TERP_FLOAT16,   TERP_BFLOAT16,  TERP_INT8,
        TERP_INT16,   TERP_INT32,   TERP_INT64,     TERP_UINT8,     TERP_UINT16,
        TERP_UINT32,  TERP_UINT64,  TERP_COMPLEX64, TERP_COMPLEX128};
    static const struct terp_chunk shapes[] = {
        {TERP_FLOAT32, false, false, 1, {4096}},
        {TERP_FLOAT32, false, false, 1, {4097}},
        {TERP_FLOAT32, false, false, 1, {9300}},
        {TERP_FLOAT32, false, false, 2, {64, 64}},
        {TERP_FLOAT32, false, false, 2, {71, 131}},
        {TERP_FLOAT32, false, false, 2, {900, 3}},
        {TERP_FLOAT32, false, false, 3, {4, 16, 64}},
        {TERP_FLOAT32, false, false, 3, {9, 17, 65}},
        {TERP_FLOAT32, false, false, 3, {3, 9, 130}},
        {TERP_FLOAT32, false, false, 3, {300, 3, 3}},
        {TERP_FLOAT32, false, false, 4, {3, 5, 9, 40}},
        {TERP_FLOAT32, false, true, 4, {2, 6, 18, 33}},
        {TERP_FLOAT32, false, true, 3, {3, 33, 70}}};
    static const struct {
        enum terp_bound_mode mode;
        double bound;
    } bounds[] = {{TERP_BOUND_ABSOLUTE, 0},
                  {TERP_BOUND_ABSOLUTE, 3},
                  {TERP_BOUND_RELATIVE, 1e-3}};

    (void)state;
    for (size_t t = 0; t < COUNT(types); t++)
        for (size_t s = 0; s < COUNT(shapes); s++)
            for (size_t b = 0; b < COUNT(bounds); b++) {
                const struct terp_params params =
                    params_of(bounds[b].mode, bounds[b].bound);
                struct terp_chunk chunk = shapes[s];
                char name[80];
                if (!terp_case_taken(2))
                    continue;
                chunk.type = types[t];
                chunk.big_endian = (t + s + b) % 2 > 0;
                snprintf(name, sizeof name, "%s, shape %d, bound %d",
                         terp_type_name(chunk.type), (int)s, (int)b);
                const bool is_integer = terp_type_is_integer(chunk.type);
                uint8_t *values = make_values(
                    &chunk,
                    is_integer && terp_value_nbytes(chunk.type) == 1 ? 0.03
                    : is_integer                                     ? 9
                                                                     : 300,
                    b == 0 ? 0 : 0.01);
                const struct terp_stream stream =
                    terp_case_encode(&params, &chunk, values, 1);
                const enum terp_coding coding = coding_of(&stream);
                free(stream.bytes);
                if (coding != TERP_CODING_RAW)
                    free(check_as(name, &params, &chunk, values,
                                  terp_type_nparts(chunk.type) > 1
                                      ? TERP_CODING_PARTS
                                      : TERP_CODING_SPEED)
                             .bytes);
                free(values);
            }
}

/* Bounds from coarse to below the last bits of values: steps get smaller, and
 * then tiles exact. */
static void
tight_bounds_are_kept(void **state)
{
    static const enum terp_type types[] = {TERP_FLOAT32, TERP_FLOAT64,
                                           TERP_FLOAT16, TERP_BFLOAT16};

    (void)state;
    for (size_t t = 0; t < COUNT(types); t++)
        for (int exponent = 4; exponent > -60; exponent -= 3) {
            const struct terp_params params =
                params_of(TERP_BOUND_ABSOLUTE, 1.7 * ldexp(1, exponent));
            const struct terp_chunk chunk = {
                types[t], exponent % 2 != 0, false, 3, {4, 17, 70}};
            char name[80];
            snprintf(name, sizeof name, "%s, 2^%d", terp_type_name(types[t]),
                     exponent);
            uint8_t *values = make_values(&chunk, 300, 0.001);
            check(name, &params, &chunk, values);
            free(values);
        }
}

/* Steps of the type's extremes. */
static void
bounds_at_the_ends_of_types_are_kept(void **state)
{
    static const double bounds[] = {DBL_MAX,  FLT_MAX, 0x1p127,   0x1p-126,
                                    0x1p-149, DBL_MIN, 0x1p-1074, 1e300};
    static const double scales[] = {1e-310, 1e-42, 1e-38, 1, 1e38, 1e300};

    (void)state;
    for (size_t b = 0; b < COUNT(bounds); b++)
        for (size_t s = 0; s < COUNT(scales); s++)
            for (int t = 0; t < 2; t++) {
                const struct terp_params params =
                    params_of(TERP_BOUND_ABSOLUTE, bounds[b]);
                const struct terp_chunk chunk = {
                    (enum terp_type)t, false, false, 2, {20, 70}};
                uint8_t *values = make_values(&chunk, scales[s], 0.1);
                check("extremes", &params, &chunk, values);
                free(values);
            }
}

/* Integers whose steps leave the type's range, and differences that overflow.
 */
static void
integers_at_the_ends_of_types_keep_bounds(void **state)
{
    static const double bounds[] = {0, 1, 2.5, 100, 1e9, 1e18, 1e19};

    (void)state;
    for (int t = TERP_INT8; t <= TERP_UINT64; t++)
        for (size_t b = 0; b < COUNT(bounds); b++) {
            const struct terp_params params =
                params_of(TERP_BOUND_ABSOLUTE, bounds[b]);
            const struct terp_chunk chunk = {
                (enum terp_type)t, false, false, 2, {40, 70}};
            uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
            uint64_t random = b;
            for (uint64_t i = 0; i < chunk_nvalues(&chunk); i++)
                value_put(&chunk, values, i,
                          i % 70 < 30 ? i % 2 * UINT64_MAX + i % 3
                          : i % 70 < 60
                              ? (UINT64_MAX >>
                                 (i % 2 + 64 -
                                  8 * (uint64_t)value_nbytes(chunk.type)))
                              : drawn(&random, UINT64_MAX));
            check(terp_type_name(chunk.type), &params, &chunk, values);
            free(values);
        }
}

/* ---- exceptions ---- */

/* Values that steps cannot stand for: one kind is a fill value, others are
 * listed, many make a tile exact. */
static void
special_values_come_back(void **state)
{
    static const double specials[] = {1e20, INFINITY, -INFINITY, 3e38, -1e25};
    static const uint64_t shares[] = {2, 30, 1000, 100000};

    (void)state;
    for (int t = 0; t < 2; t++)
        for (size_t s = 0; s < COUNT(shares); s++)
            for (size_t nkinds = 1; nkinds <= COUNT(specials) + 1; nkinds++)
                for (int rank = 1; rank <= 3; rank++) {
                    const struct terp_chunk chunk = {
                        t == 0 ? TERP_FLOAT32 : TERP_FLOAT64,
                        s % 2 > 0,
                        false,
                        rank,
                        {rank == 1 ? 9001 : 6, 35, 67}};
                    const struct terp_params params =
                        params_of(TERP_BOUND_ABSOLUTE, 0.01);
                    uint8_t *values = make_values(&chunk, 1, 0.1);
                    uint64_t random = nkinds;
                    if (!terp_case_taken(2)) {
                        free(values);
                        continue;
                    }
                    for (uint64_t i = 0; i < chunk_nvalues(&chunk); i++) {
                        const uint64_t kind = drawn(&random, nkinds);
                        if (drawn(&random, shares[s]) != 0)
                            continue;
                        value_put(
                            &chunk, values, i,
                            kind == COUNT(specials)
                                ? value_to_bits(chunk.type, NAN) + i % 7
                                : value_to_bits(chunk.type, specials[kind]));
                    }
                    check("specials", &params, &chunk, values);
                    free(values);
                }
}

/* Fill values that the caller names stay, whatever the bound. */
static void
named_fill_values_come_back(void **state)
{
    (void)state;
    for (int t = 0; t < 3; t++) {
        const struct terp_chunk chunk = {t == 0   ? TERP_FLOAT32
                                         : t == 1 ? TERP_FLOAT16
                                                  : TERP_INT16,
                                         false,
                                         false,
                                         3,
                                         {5, 20, 66}};
        struct terp_params params = params_of(TERP_BOUND_ABSOLUTE, 2);
        uint8_t *values = make_values(&chunk, 9, 0.1);
        params.has_fill = params.has_missing = true;
        params.fill_bits = value_to_bits(chunk.type, 1.125);
        params.missing_bits = value_to_bits(chunk.type, 0);
        for (uint64_t i = 0; i < chunk_nvalues(&chunk); i++)
            if (i / 66 % 3 == 0 || i % 51 == 0)
                value_put(&chunk, values, i,
                          i % 2 == 0 ? params.fill_bits : params.missing_bits);
        check("fill", &params, &chunk, values);
        params.bound_mode = TERP_BOUND_RELATIVE;
        params.bound = 0.1;
        check("fill", &params, &chunk, values);
        free(values);
    }
}

/* ---- without a coding of its own ---- */

static void
check_like_huffman(struct terp_params params)
{
    const struct terp_chunk chunk = {
        TERP_FLOAT32, false, false, 3, {9, 20, 30}};
    uint8_t *values = make_values(&chunk, 3, 0.01);
    const struct terp_stream speed =
        terp_case_encode(&params, &chunk, values, 1);

    params.pipeline = TERP_PIPELINE_HUFFMAN;
    const struct terp_stream huffman =
        terp_case_encode(&params, &chunk, values, 1);
    assert_int_equal(coding_of(&speed), TERP_CODING_HUFFMAN);
    assert_int_equal(speed.nbytes, huffman.nbytes);
    assert_memory_equal(speed.bytes, huffman.bytes, speed.nbytes);
    free(speed.bytes);
    free(huffman.bytes);
    free(values);
}

static void
speed_is_huffman_where_it_has_no_coding(void **state)
{
    struct terp_params first = params_of(TERP_BOUND_ABSOLUTE, 0.01);
    struct terp_params limited = first;

    (void)state;
    first.format = 1;
    check_like_huffman(first);
    limited.keep_sign = TERP_KEEP_SIGN_OF_VALUES;
    check_like_huffman(limited);
    check_like_huffman(params_of(TERP_BOUND_POINTWISE, 0.01));
    check_like_huffman(params_of(TERP_BOUND_PSNR, 60));
}

/* ---- damaged streams ---- */

static const struct terp_chunk damaged_chunk = {
    TERP_FLOAT32, false, false, 3, {5, 18, 70}};

static struct terp_stream
make_stream(double bound, bool has_specials)
{
    const struct terp_params params = params_of(TERP_BOUND_ABSOLUTE, bound);
    uint8_t *values = make_values(&damaged_chunk, 3, 0.1);

    for (uint64_t i = 0; bound == 0 && i < chunk_nvalues(&damaged_chunk); i++)
        value_put(&damaged_chunk, values, i,
                  value_to_bits(TERP_FLOAT32, (double)(i / 70 + i % 9 / 8)));
    for (uint64_t i = 0; has_specials && i < chunk_nvalues(&damaged_chunk);
         i += 13)
        value_put(&damaged_chunk, values, i,
                  value_to_bits(TERP_FLOAT32, i % 5 == 0 ? 1e20 : 1e21));
    const struct terp_stream stream =
        terp_case_encode(&params, &damaged_chunk, values, 1);
    assert_int_equal(coding_of(&stream), TERP_CODING_SPEED);
    free(values);
    return stream;
}

static enum terp_status
decode(const struct terp_stream *stream)
{
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&damaged_chunk));
    uint64_t got;
    const enum terp_status st =
        terp_decode(stream->bytes, stream->nbytes, values,
                    terp_chunk_nbytes(&damaged_chunk), &got, 1);

    free(values);
    return st;
}

/* Both decoders refuse a stream after a byte was changed and the checksum
 * corrected. */
static void
check_refused(struct terp_stream *stream, const char *name, uint64_t at,
              uint8_t byte)
{
    const uint8_t before = stream->bytes[at];
    bool both;

    stream->bytes[at] = byte;
    terp_case_seal(stream);
    if (decode(stream) == TERP_OK)
        fail_msg("%s: decoded", name);
    assert_true(
        reader_agrees(stream->bytes, stream->nbytes, UINT64_MAX, false, &both));
    assert_false(both);
    stream->bytes[at] = before;
    terp_case_seal(stream);
    assert_int_equal(decode(stream), TERP_OK);
}

static void
wrong_fields_are_refused(void **state)
{
    struct terp_stream stream = make_stream(0.01, false);
    struct terp_read_frame frame;
    struct terp_speed_body body;

    (void)state;
    assert_int_equal(terp_frame_read(stream.bytes, stream.nbytes, &frame.frame,
                                     &frame.nbytes),
                     TERP_OK);
    const uint64_t frame_nbytes = (uint64_t)frame.nbytes;
    assert_int_equal(terp_speed_body_read(&damaged_chunk, frame_nbytes,
                                          stream.bytes + frame_nbytes,
                                          stream.nbytes - frame_nbytes, &body),
                     TERP_OK);
    const uint64_t index_at = (uint64_t)(body.index - stream.bytes);
    const uint64_t tiles_at = (uint64_t)(body.tiles - stream.bytes);
    assert_int_equal(stream.bytes[tiles_at], TERP_SPEED_WIDTHS_OF_4);
    check_refused(&stream, "version 1", TERP_FRAME_VERSION_AT, 1);
    check_refused(&stream, "a prediction", TERP_FRAME_PREDICTION_AT, 1);
    check_refused(&stream, "a flag", TERP_FRAME_PREDICTION_AT, 0x10);
    check_refused(&stream, "another kind", frame_nbytes, 2);
    check_refused(&stream, "bits for steps", frame_nbytes, 0);
    check_refused(&stream, "a byte before the step", frame_nbytes + 1, 1);
    check_refused(&stream, "a step with too many bits", index_at - 8, 1);
    check_refused(&stream, "a negative step", index_at - 1, 0xbf);
    check_refused(&stream, "a first place", index_at, 1);
    check_refused(&stream, "a place that falls", index_at + 4, 0);
    check_refused(&stream, "another place", index_at + 4,
                  (uint8_t)(stream.bytes[index_at + 4] + 1));
    check_refused(&stream, "a place beyond the end", index_at + 4 * 3 + 3, 1);
    check_refused(&stream, "other widths", tiles_at, TERP_SPEED_WIDTHS_OF_8);
    check_refused(&stream, "unknown widths", tiles_at, 3);
    check_refused(&stream, "no widths", tiles_at, 0);
    check_refused(&stream, "a bit", tiles_at, TERP_SPEED_WIDTHS_OF_4 | 0x40);
    check_refused(&stream, "an exact tile with a level", tiles_at,
                  TERP_SPEED_WIDTHS_OF_4 | TERP_SPEED_EXACT | 4);
    check_refused(&stream, "exceptions", tiles_at,
                  TERP_SPEED_WIDTHS_OF_4 | TERP_SPEED_EXCEPTIONS);
    check_refused(&stream, "the second byte", tiles_at + 1, 1);
    check_refused(&stream, "listed values", tiles_at + 2, 1);
    check_refused(&stream, "a width", tiles_at + 8 + 3, 0xff);
    stream.nbytes -= 8;
    terp_case_seal(&stream);
    assert_int_not_equal(decode(&stream), TERP_OK);
    stream.nbytes += 8;
    free(stream.bytes);
}

/* A wrong checksum is found at every byte. */
static void
every_changed_byte_is_found(void **state)
{
    struct terp_stream stream = make_stream(0.3, true);
    uint64_t random = 1;

    (void)state;
    for (uint64_t i = 0; i < 300; i++) {
        const uint64_t at = drawn(&random, stream.nbytes);
        const uint8_t bit = (uint8_t)(1u << i % 8);
        stream.bytes[at] ^= bit;
        assert_int_not_equal(decode(&stream), TERP_OK);
        stream.bytes[at] ^= bit;
    }
    assert_int_equal(decode(&stream), TERP_OK);
    free(stream.bytes);
}

/* Streams with any bytes behind the frame, and valid checksums: both decoders
 * refuse them or agree on values. */
static void
decoders_agree_on_damaged_streams(void **state)
{
    uint64_t random = 7;
    unsigned ndecoded = 0;

    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct terp_stream stream = make_stream(kind == 0   ? 0
                                                : kind == 1 ? 0.01
                                                            : 0.3,
                                                kind == 2);
        uint8_t *whole = terp_case_alloc(stream.nbytes);
        memcpy(whole, stream.bytes, stream.nbytes);
        for (int i = 0; i < 120; i++) {
            const uint64_t nchanged = 1 + drawn(&random, 3);
            bool both;
            for (uint64_t k = 0; k < nchanged; k++)
                stream.bytes[26 + drawn(&random,
                                        k == 0 ? 300 : stream.nbytes - 26)] =
                    (uint8_t)drawn(&random, 256);
            terp_case_seal(&stream);
            assert_true(reader_agrees(stream.bytes, stream.nbytes, UINT64_MAX,
                                      false, &both));
            ndecoded += both;
            memcpy(stream.bytes, whole, stream.nbytes);
        }
        free(whole);
        free(stream.bytes);
    }
    assert_true(ndecoded > 20);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_types_and_shapes_keep_their_bounds),
        cmocka_unit_test(tight_bounds_are_kept),
        cmocka_unit_test(bounds_at_the_ends_of_types_are_kept),
        cmocka_unit_test(integers_at_the_ends_of_types_keep_bounds),
        cmocka_unit_test(special_values_come_back),
        cmocka_unit_test(named_fill_values_come_back),
        cmocka_unit_test(speed_is_huffman_where_it_has_no_coding),
        cmocka_unit_test(wrong_fields_are_refused),
        cmocka_unit_test(every_changed_byte_is_found),
        cmocka_unit_test(decoders_agree_on_damaged_streams)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
