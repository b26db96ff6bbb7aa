/* The bytes of a stream before its body. doc/format.md, "Frame". */
#include <math.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codec/format/base.h"
#include "codec/format/frame.h"
#include "h5tests/support/cmocka_all.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct terp_frame huffman_frame = {
    .chunk = {TERP_FLOAT32, false, false, 3, {64, 300, 7}},
    .coding = TERP_CODING_HUFFMAN,
    .prediction = TERP_PREDICTION_SPLINE,
    .bound = 0.5,
};

static void
frame_with_bound_has_the_documented_bytes(void **state)
{
    static const uint8_t expected[30] = {
        'T',  'E', 'R', 'P', /* magic */
        1,                   /* version */
        0x06,                /* rank - 1 = 2, dims of two bytes, float32 */
        2,                   /* coding: huffman */
        1,                   /* prediction: spline, no specials */
        0,    0,   0,   0,   0, 0, 0,    0,   /* checksum, still open */
        64,   0,                              /* dims[0] */
        0x2C, 1,                              /* dims[1] = 300 */
        7,    0,                              /* dims[2] */
        0,    0,   0,   0,   0, 0, 0xE0, 0x3F /* bound: 0.5 as binary64 */
    };
    uint8_t bytes[TERP_FRAME_MAX_NBYTES] = {0};

    (void)state;
    assert_int_equal(terp_frame_nbytes(&huffman_frame), sizeof expected);
    assert_int_equal(terp_frame_write(&huffman_frame, bytes), sizeof expected);
    assert_memory_equal(bytes, expected, sizeof expected);
}

static void
flags_have_the_documented_bits(void **state)
{
    struct terp_frame frame = {
        .chunk = {TERP_FLOAT64, true, true, 2, {3, 200}},
        .coding = TERP_CODING_RATIO,
        .prediction = TERP_PREDICTION_LORENZO,
        .has_specials = true,
        .bound = 1,
    };
    uint8_t bytes[TERP_FRAME_MAX_NBYTES] = {0};

    (void)state;
    assert_int_equal(terp_frame_write(&frame, bytes), 16 + 2 + 8);
    /* rank - 1 = 1, dims of one byte, float64, big-endian, stack */
    assert_int_equal(bytes[5], 0x01 | 0x10 | 0x40 | 0x80);
    assert_int_equal(bytes[6], 5);
    assert_int_equal(bytes[7], 2 | 0x10);
    assert_int_equal(bytes[17], 200);
}

/* The largest dim decides the width of all dims. */
static void
dims_take_the_least_width_that_fits(void **state)
{
    static const struct {
        uint64_t dim;
        int width;
    } cases[] = {{1, 1},
                 {0xFF, 1},
                 {0x100, 2},
                 {0xFFFF, 2},
                 {0x10000, 4},
                 {0xFFFFFFFF, 4},
                 {UINT64_C(0x100000000), 8},
                 {UINT64_C(1) << 59, 8}};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct terp_frame frame = {
            .chunk = {TERP_FLOAT32, false, false, 4, {1, 2, cases[i].dim, 1}},
            .coding = TERP_CODING_CONSTANT,
        };
        uint8_t bytes[TERP_FRAME_MAX_NBYTES];
        assert_int_equal(terp_frame_write(&frame, bytes),
                         TERP_FRAME_DIMS_AT + 4 * cases[i].width);
    }
}

static void
written_frame_reads_back(void **state)
{
    (void)state;
    for (int type = TERP_FLOAT32; type <= TERP_BYTES; type++)
        for (int rank = 1; rank <= (type == TERP_BYTES ? 1 : 4); rank++)
            for (unsigned coding = 0; coding <= TERP_CODING_RATIO; coding++)
                for (int flags = 0; flags < 8; flags++) {
                    if (!terp_coding_is_valid(coding))
                        continue;
                    const bool is_new =
                        terp_coding_is_new((enum terp_coding)coding);
                    const bool is_predicted =
                        coding >= TERP_CODING_HUFFMAN && !is_new;
                    const bool has_bound = is_predicted || is_new;
                    struct terp_frame frame = {
                        .chunk = {(enum terp_type)type,
                                  flags & 1,
                                  (flags & 2) && rank > 1,
                                  rank,
                                  {1000, 1, 70000, 2}},
                        .coding = (enum terp_coding)coding,
                        .prediction = (enum terp_prediction)(
                            is_predicted ? 1 + flags % 2 : 0),
                        .has_specials =
                            coding != TERP_CODING_RAW && !is_new && (flags & 4),
                        .bound = has_bound ? 1e-300 : 0,
                        .version = is_new ? TERP_FORMAT_VERSION : 0,
                    };
                    struct terp_frame got;
                    uint8_t bytes[TERP_FRAME_MAX_NBYTES];
                    int nbytes = terp_frame_write(&frame, bytes), got_nbytes;
                    if (type == TERP_BYTES && coding != TERP_CODING_RAW)
                        continue;
                    for (int i = rank; i < TERP_MAX_RANK; i++)
                        frame.chunk.dims[i] = 0;
                    assert_int_equal(terp_frame_read(bytes, (uint64_t)nbytes,
                                                     &got, &got_nbytes),
                                     TERP_OK);
                    assert_int_equal(got_nbytes, nbytes);
                    assert_int_equal(got.chunk.type, frame.chunk.type);
                    assert_int_equal(got.chunk.big_endian,
                                     frame.chunk.big_endian);
                    assert_int_equal(got.chunk.stack, frame.chunk.stack);
                    assert_int_equal(got.chunk.rank, rank);
                    assert_memory_equal(got.chunk.dims, frame.chunk.dims,
                                        sizeof got.chunk.dims);
                    assert_int_equal(got.coding, frame.coding);
                    assert_int_equal(got.prediction, frame.prediction);
                    assert_int_equal(got.has_specials, frame.has_specials);
                    assert_true(got.bound == frame.bound);
                }
}

/* huffman_frame with the byte at `at` replaced. */
static enum terp_status
status_with_byte(int at, uint8_t byte)
{
    uint8_t bytes[TERP_FRAME_MAX_NBYTES] = {0};
    struct terp_frame frame;
    int nbytes = terp_frame_write(&huffman_frame, bytes);

    bytes[at] = byte;
    return terp_frame_read(bytes, (uint64_t)nbytes, &frame, &nbytes);
}

static void
wrong_fields_are_refused(void **state)
{
    (void)state;
    for (int at = 0; at < 4; at++)
        assert_int_equal(status_with_byte(at, 't'), TERP_ERR_MAGIC);
    for (int version = TERP_FORMAT_VERSION + 1; version < 256; version++)
        assert_int_equal(status_with_byte(4, (uint8_t)version),
                         TERP_ERR_VERSION);
    /* type 2 is bytes, without a bound and of rank 1; type 3 needs a type
     * byte */
    assert_int_equal(status_with_byte(5, 0x26), TERP_ERR_CORRUPT);
    assert_int_equal(status_with_byte(5, 0x36), TERP_ERR_CORRUPT);
    /* a wider layout than the stream has bytes */
    assert_int_equal(status_with_byte(5, 0x0E), TERP_ERR_TRUNCATED);
    for (int coding = TERP_CODING_HUFFMAN + 1; coding < 256; coding++)
        if (coding != TERP_CODING_RATIO) /* codings 14 and 15 have no bound */
            assert_int_equal(status_with_byte(6, (uint8_t)coding),
                             TERP_ERR_CORRUPT);
    /* raw and constant have no prediction */
    assert_int_equal(status_with_byte(6, TERP_CODING_RAW), TERP_ERR_CORRUPT);
    assert_int_equal(status_with_byte(6, TERP_CODING_CONSTANT),
                     TERP_ERR_CORRUPT);
    /* no prediction, an unknown one, unknown flags */
    assert_int_equal(status_with_byte(7, 0), TERP_ERR_CORRUPT);
    assert_int_equal(status_with_byte(7, 4), TERP_ERR_CORRUPT);
    /* With the flag of a domain, the bytes of the bound are read as a
     * domain. */
    assert_int_equal(status_with_byte(7, 1 | 0x20), TERP_ERR_CORRUPT);
    /* With the flag of prefixes, the table is missing, or the prediction is not
     * spline. */
    assert_int_equal(status_with_byte(7, 1 | 0x80), TERP_ERR_TRUNCATED);
    assert_int_equal(status_with_byte(7, 2 | 0x80), TERP_ERR_CORRUPT);
    /* The bytes of a pointwise bound are part of the body. */
    assert_int_equal(status_with_byte(7, 1 | 0x40), TERP_OK);
    /* dims[0] = 0 */
    assert_int_equal(status_with_byte(16, 0), TERP_ERR_CORRUPT);
}

/* huffman_frame with a domain, and with the byte at `at` replaced if `at` is
 * not 0. */
static enum terp_status
status_in_domain(struct terp_chunk domain, int at, uint8_t byte,
                 struct terp_frame *got)
{
    uint8_t bytes[TERP_FRAME_MAX_NBYTES] = {0};
    struct terp_frame frame = huffman_frame;

    frame.domain = domain;
    int nbytes = terp_frame_write(&frame, bytes);
    assert_int_equal(terp_frame_nbytes(&frame), nbytes);
    if (at != 0)
        bytes[at] = byte;
    return terp_frame_read(bytes, (uint64_t)nbytes, got, &nbytes);
}

static void
domain_follows_the_dims(void **state)
{
    static const uint8_t expected[] = {
        0x80 | 0x04 | 2, /* a stack, rank - 1 = 2, dims of two bytes */
        64,
        0,
        0x2C,
        1,
        7,
        0};
    const struct terp_chunk domain = {
        TERP_FLOAT32, false, true, 3, {64, 300, 7}};
    struct terp_frame frame = huffman_frame, got;
    uint8_t bytes[TERP_FRAME_MAX_NBYTES] = {0};

    (void)state;
    frame.domain = domain;
    assert_int_equal(terp_frame_write(&frame, bytes), 30 + sizeof expected);
    assert_int_equal(bytes[7], 1 | 0x20);
    assert_memory_equal(bytes + 22, expected, sizeof expected);
    assert_int_equal(bytes[22 + sizeof expected + 7], 0x3F); /* the bound */
    assert_int_equal(status_in_domain(domain, 0, 0, &got), TERP_OK);
    assert_true(got.domain.stack &&
                terp_shapes_are_equal(&got.domain, &domain));
    assert_true(terp_shapes_are_equal(&got.chunk, &huffman_frame.chunk));
    /* A domain must not be the chunk's own shape. */
    frame.domain = frame.chunk;
    assert_int_equal(terp_frame_write(&frame, bytes), 30);
    assert_int_equal(bytes[7], 1);
}

static void
domains_that_are_none_are_refused(void **state)
{
    const struct terp_chunk
        domain = {TERP_FLOAT32, false, true, 3, {64, 300, 7}},
        larger = {TERP_FLOAT32, false, false, 2, {64 * 300, 8}},
        flat = {TERP_FLOAT32, false, true, 1, {64 * 300 * 7}};
    struct terp_frame got;

    (void)state;
    assert_int_equal(status_in_domain(larger, 0, 0, &got), TERP_ERR_CORRUPT);
    assert_int_equal(status_in_domain(flat, 0, 0, &got), TERP_ERR_CORRUPT);
    /* the chunk's own shape; a type; a byte order; dims of four bytes */
    assert_int_equal(status_in_domain(domain, 22, 0x06, &got),
                     TERP_ERR_CORRUPT);
    for (int bit = 0x10; bit <= 0x40; bit <<= 1)
        assert_int_equal(
            status_in_domain(domain, 22, (uint8_t)(0x86 | bit), &got),
            TERP_ERR_CORRUPT);
    assert_int_equal(status_in_domain(domain, 22, 0x8A, &got),
                     TERP_ERR_CORRUPT);
    /* dims of eight bytes: the frame exceeds the stream */
    assert_int_equal(status_in_domain(domain, 22, 0x8E, &got),
                     TERP_ERR_TRUNCATED);
    assert_int_equal(status_in_domain(domain, 23, 0, &got), TERP_ERR_CORRUPT);
    /* constant streams have no domain */
    assert_int_equal(status_in_domain(domain, 6, TERP_CODING_CONSTANT, &got),
                     TERP_ERR_CORRUPT);
}

static void
raw_with_specials_is_refused(void **state)
{
    struct terp_frame frame = {
        .chunk = {TERP_FLOAT32, false, false, 1, {10}},
        .coding = TERP_CODING_RAW,
        .has_specials = true,
    };
    uint8_t bytes[TERP_FRAME_MAX_NBYTES];
    int nbytes = terp_frame_write(&frame, bytes);

    (void)state;
    assert_int_equal(terp_frame_read(bytes, (uint64_t)nbytes, &frame, &nbytes),
                     TERP_ERR_CORRUPT);
}

/* Chunks of bytes cannot be constant. */
static void
bytes_that_are_not_raw_are_refused(void **state)
{
    (void)state;
    for (int coding = TERP_CODING_CONSTANT; coding <= TERP_CODING_RATIO;
         coding++) {
        struct terp_frame frame = {
            .chunk = {TERP_BYTES, false, false, 1, {10}},
            .coding = (enum terp_coding)coding,
            .prediction = coding == TERP_CODING_CONSTANT
                              ? TERP_PREDICTION_NONE
                              : TERP_PREDICTION_LORENZO,
            .bound = 1,
        };
        uint8_t bytes[TERP_FRAME_MAX_NBYTES];
        int nbytes = terp_frame_write(&frame, bytes);
        assert_int_equal(
            terp_frame_read(bytes, (uint64_t)nbytes, &frame, &nbytes),
            TERP_ERR_CORRUPT);
    }
}

static void
impossible_bound_is_refused(void **state)
{
    static const double wrong[] = {0.0, -0.0, -1.0, INFINITY, -INFINITY, NAN};

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct terp_frame frame = huffman_frame;
        uint8_t bytes[TERP_FRAME_MAX_NBYTES];
        frame.bound = wrong[i];
        int nbytes = terp_frame_write(&frame, bytes);
        assert_int_equal(
            terp_frame_read(bytes, (uint64_t)nbytes, &frame, &nbytes),
            TERP_ERR_CORRUPT);
    }
}

static void
dims_beyond_63_bits_are_refused(void **state)
{
    static const uint64_t dims[][2] = {
        {UINT64_C(1) << 61, 1},
        {UINT64_C(1) << 31, UINT64_C(1) << 30},
        {UINT64_MAX, UINT64_MAX},
        {UINT64_C(0xFFFFFFFF), UINT64_C(0xFFFFFFFF)},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(dims); i++) {
        struct terp_frame frame = {
            .chunk = {TERP_FLOAT32, false, false, 2, {dims[i][0], dims[i][1]}},
            .coding = TERP_CODING_CONSTANT,
        };
        uint8_t bytes[TERP_FRAME_MAX_NBYTES];
        int nbytes = terp_frame_write(&frame, bytes);
        assert_int_equal(
            terp_frame_read(bytes, (uint64_t)nbytes, &frame, &nbytes),
            TERP_ERR_CORRUPT);
    }
}

static void
every_truncation_is_refused(void **state)
{
    uint8_t bytes[TERP_FRAME_MAX_NBYTES];
    struct terp_frame frame;
    int nbytes = terp_frame_write(&huffman_frame, bytes), got_nbytes;

    (void)state;
    for (int left = 0; left < nbytes; left++)
        assert_int_equal(
            terp_frame_read(bytes, (uint64_t)left, &frame, &got_nbytes),
            TERP_ERR_TRUNCATED);
}

static void
checksum_covers_every_bit_but_its_own_place(void **state)
{
    uint8_t stream[TERP_FRAME_MAX_NBYTES + 40] = {0};
    uint64_t nbytes = (uint64_t)terp_frame_write(&huffman_frame, stream) + 40;

    (void)state;
    terp_frame_seal(stream, nbytes);
    assert_int_equal(terp_frame_verify(stream, nbytes), TERP_OK);
    for (uint64_t bit = 0; bit < 8 * nbytes; bit++) {
        stream[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(terp_frame_verify(stream, nbytes), TERP_ERR_CHECKSUM);
        stream[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (uint64_t left = TERP_FRAME_DIMS_AT; left < nbytes; left++)
        assert_int_equal(terp_frame_verify(stream, left), TERP_ERR_CHECKSUM);
}

/* As doc/format.md says: pieces of 16384, 16384 and 17000 bytes. */
static void
checksum_is_the_sum_of_its_pieces(void **state)
{
    enum {
        PIECE = 16384,
        LAST = 17000,
        NBYTES = 16 + 2 * PIECE + LAST
    };
    uint8_t *stream = malloc(NBYTES);
    uint64_t seed = 0, expected;

    (void)state;
    for (unsigned i = 0; i < NBYTES; i++)
        stream[i] = (uint8_t)(i * i >> 3);
    stream[TERP_FRAME_CODING_AT] = TERP_CODING_RATIO;
    for (int i = 0; i < 8; i++)
        seed |= (uint64_t)stream[i] << (8 * i);
    expected = XXH3_64bits_withSeed(stream + 16, PIECE, seed) +
               3 * XXH3_64bits_withSeed(stream + 16 + PIECE, PIECE, seed) +
               5 * XXH3_64bits_withSeed(stream + 16 + 2 * PIECE, LAST, seed);
    terp_frame_seal(stream, NBYTES);
    for (int i = 0; i < 8; i++)
        assert_int_equal(stream[8 + i], expected >> (8 * i) & 0xFF);
    assert_int_equal(terp_frame_verify(stream, NBYTES), TERP_OK);
    stream[16 + PIECE] ^= 1;
    assert_int_equal(terp_frame_verify(stream, NBYTES), TERP_ERR_CHECKSUM);
    free(stream);
}

/* Pretends that version 77 is the current one. Only one version exists, so the
 * linker (--wrap) replaces the check. */
static bool next_is_version_77;
enum terp_status
__real_terp_frame_read(const uint8_t *src, uint64_t src_nbytes,
                       struct terp_frame *frame_ret, int *frame_nbytes_ret);
enum terp_status
__wrap_terp_frame_read(const uint8_t *src, uint64_t src_nbytes,
                       struct terp_frame *frame_ret, int *frame_nbytes_ret);

enum terp_status
__wrap_terp_frame_read(const uint8_t *src, uint64_t src_nbytes,
                       struct terp_frame *frame_ret, int *frame_nbytes_ret)
{
    uint8_t copy[TERP_FRAME_MAX_NBYTES];
    uint64_t nbytes = src_nbytes < sizeof copy ? src_nbytes : sizeof copy;

    memcpy(copy, src, nbytes);
    if (next_is_version_77)
        copy[TERP_FRAME_VERSION_AT] = TERP_FORMAT_VERSION;
    next_is_version_77 = false;
    return __real_terp_frame_read(copy, nbytes, frame_ret, frame_nbytes_ret);
}

static void
version_that_inspect_tells_is_the_stream_s(void **state)
{
    struct terp_frame frame = {.chunk = {TERP_BYTES, false, false, 1, {10}},
                               .coding = TERP_CODING_RAW};
    uint8_t stream[TERP_FRAME_MAX_NBYTES + 10] = {0};
    struct terp_info info = {.size = sizeof info};
    uint64_t nbytes = (uint64_t)terp_frame_write(&frame, stream) + 10;

    (void)state;
    stream[TERP_FRAME_VERSION_AT] = 77;
    terp_frame_seal(stream, nbytes);
    next_is_version_77 = true;
    assert_int_equal(terp_inspect(stream, nbytes, &info), TERP_OK);
    assert_int_equal(info.version, 77);
    info.size = 1;
    assert_int_equal(terp_inspect(stream, nbytes, &info), TERP_ERR_ARGUMENT);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frame_with_bound_has_the_documented_bytes),
        cmocka_unit_test(flags_have_the_documented_bits),
        cmocka_unit_test(domain_follows_the_dims),
        cmocka_unit_test(domains_that_are_none_are_refused),
        cmocka_unit_test(dims_take_the_least_width_that_fits),
        cmocka_unit_test(written_frame_reads_back),
        cmocka_unit_test(wrong_fields_are_refused),
        cmocka_unit_test(raw_with_specials_is_refused),
        cmocka_unit_test(bytes_that_are_not_raw_are_refused),
        cmocka_unit_test(impossible_bound_is_refused),
        cmocka_unit_test(dims_beyond_63_bits_are_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(checksum_covers_every_bit_but_its_own_place),
        cmocka_unit_test(checksum_is_the_sum_of_its_pieces),
        cmocka_unit_test(version_that_inspect_tells_is_the_stream_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
