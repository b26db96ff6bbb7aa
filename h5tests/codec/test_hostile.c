/* Streams that no encoder would write give an error or the right data, and
 * never a crash. The test limits the decoder's memory; sanitizers check its
 * accesses. */
#include <stdio.h>
#include <stdlib.h>

#include "codec/format/frame.h"
#include "codec/format/low_bits.h"
#include "h5tests/support/allocations.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Damaged frames may announce larger chunks than the original; the tests give
 * the decoder a buffer of this size. */
#define ROOM_NBYTES ((uint64_t)1 << 19)

/* For any stream, working memory is at most that of tables plus a multiple of
 * the destination. */
#define MAX_WORKING_NBYTES ((uint64_t)4 << 20)

static const enum terp_field contents[] = {TERP_FIELD_SMOOTH, TERP_FIELD_ROUGH,
                                           TERP_FIELD_GAPS, TERP_FIELD_SPIKES};

static uint64_t random_state;

static uint64_t
random_below(uint64_t end)
{
    return terp_field_mix(++random_state) % end;
}

/* Under the second bound codes are wide, some quants are exact and some
 * differences have tails. Under the last bounds there are logarithms of both
 * types, signs, and values below a floor. */
static const struct {
    enum terp_bound_mode mode;
    double bound, floor;
} bounds[] = {{TERP_BOUND_RELATIVE, 1e-3, 0},
              {TERP_BOUND_RELATIVE, 1e-7, 0},
              {TERP_BOUND_POINTWISE, 1e-2, 0},
              {TERP_BOUND_POINTWISE, 1e-6, 0},
              {TERP_BOUND_POINTWISE, 1e-2, 1e-3}};

static struct terp_stream
make_stream_of(const struct terp_chunk *chunk, enum terp_field content,
               size_t bound, const struct terp_mode *mode)
{
    struct terp_params params = {.bound_mode = bounds[bound].mode,
                                 .bound = bounds[bound].bound,
                                 .floor = bounds[bound].floor,
                                 .pipeline = mode->pipeline,
                                 .predictor = mode->predictor};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));
    terp_field_make(content, chunk, values);
    struct terp_stream stream = terp_case_encode(&params, chunk, values, 1);
    free(values);
    return stream;
}

/* The stream of one of the small chunks that all tests damage. `which` selects
 * the bound, type, content and mode. */
#define NSTREAMS ((int)(COUNT(bounds) * 2 * COUNT(contents) * TERP_NMODES))

static struct terp_stream
make_stream(int which)
{
    static const struct terp_chunk chunks[] = {
        {TERP_FLOAT32, false, false, 3, {5, 6, 7}},
        {TERP_FLOAT64, false, false, 2, {11, 13}},
        {TERP_FLOAT32, true, true, 4, {3, 4, 5, 3}},
        {TERP_FLOAT64, false, false, 1, {300}},
    };
    int content = which / TERP_NMODES % (int)COUNT(contents);
    struct terp_chunk chunk = chunks[which % (int)COUNT(chunks)];

    chunk.type =
        (enum terp_type)(which / TERP_NMODES / (int)COUNT(contents) % 2);
    return make_stream_of(&chunk, contents[content],
                          (size_t)(which * (int)COUNT(bounds) / NSTREAMS),
                          &terp_mode[which % TERP_NMODES]);
}

/* A copy of exactly nbytes, so that a sanitizer detects reads beyond it. */
static struct terp_stream
copy_of(const uint8_t *bytes, uint64_t nbytes)
{
    struct terp_stream copy = {terp_case_alloc(nbytes + (nbytes == 0)), nbytes};
    memcpy(copy.bytes, bytes, nbytes);
    return copy;
}

static void
check_allocations(struct terp_allocations used)
{
    assert_int_equal(used.nleaked, 0);
    assert_true(used.peak_nbytes <= MAX_WORKING_NBYTES);
}

/* Starting threads takes longer than decoding these chunks. */
#define CALLS_PER_TEAM 8

static uint64_t ncalls;

/* The damaged bytes may be unneeded for coarse values, so coarse decoding may
 * still succeed. */
static void
check_coarse_of_refused(const struct terp_stream *stream, uint64_t cap_nbytes)
{
    uint8_t *decoded = terp_case_alloc(cap_nbytes);
    uint64_t nbytes = 0;

    for (uint64_t step = 2; step <= 4; step *= 2) {
        terp_allocations_start(UINT64_MAX, MAX_WORKING_NBYTES);
        enum terp_status st =
            terp_decode_coarse(stream->bytes, stream->nbytes, step, decoded,
                               cap_nbytes, &nbytes, 1);
        check_allocations(terp_allocations_stop());
        assert_int_not_equal(st, TERP_ERR_MEMORY);
        terp_allocations_start(UINT64_MAX, MAX_WORKING_NBYTES);
        st = terp_coarse_nbytes(stream->bytes, stream->nbytes, step, &nbytes);
        check_allocations(terp_allocations_stop());
        assert_int_not_equal(st, TERP_ERR_MEMORY);
    }
    free(decoded);
}

/* A full decode ignores the table of prefixes, so damage there may show in
 * coarse decoding only. */
static void
check_coarse_of_taken(const struct terp_stream *stream, const uint8_t *decoded)
{
    uint64_t needed = 0;

    assert_int_equal(
        terp_coarse_nbytes(stream->bytes, stream->nbytes, 2, &needed), TERP_OK);
    if (needed == UINT64_MAX ||
        terp_case_check_coarse("hostile", stream, NULL, 2, 1) == TERP_OK)
        terp_case_check_coarse("hostile", stream, decoded, 2, 1);
}

/* Decodes twice, into buffers with different contents. Both give the same
 * result and, on success, the same bytes, all of them written. The second time
 * sometimes uses threads. Also inspects the stream. */
static enum terp_status
decode(const struct terp_stream *stream)
{
    int nthreads[2] = {1, ++ncalls % CALLS_PER_TEAM == 0 ? 3 : 1};
    uint64_t cap_nbytes = 0, nbytes[2] = {0, 0};
    enum terp_status st[2];
    uint8_t *decoded[2];
    struct terp_info info = {.size = sizeof info};

    if (terp_decoded_nbytes(stream->bytes, stream->nbytes, &cap_nbytes) !=
            TERP_OK ||
        cap_nbytes > ROOM_NBYTES)
        cap_nbytes = 64;
    for (int i = 0; i < 2; i++) {
        decoded[i] = terp_case_alloc(cap_nbytes);
        memset(decoded[i], i == 0 ? 0 : 0xA5, cap_nbytes);
        terp_allocations_start(UINT64_MAX, MAX_WORKING_NBYTES);
        st[i] = terp_decode(stream->bytes, stream->nbytes, decoded[i],
                            cap_nbytes, &nbytes[i], nthreads[i]);
        check_allocations(terp_allocations_stop());
    }
    assert_int_equal(st[0], st[1]);
    if (st[0] == TERP_OK) {
        assert_int_equal(nbytes[0], cap_nbytes);
        assert_int_equal(nbytes[1], cap_nbytes);
        assert_memory_equal(decoded[0], decoded[1], cap_nbytes);
        check_coarse_of_taken(stream, decoded[0]);
    } else {
        assert_true(st[0] >= TERP_ERR_ARGUMENT && st[0] <= TERP_ERR_CORRUPT);
        assert_int_not_equal(st[0], TERP_ERR_MEMORY);
        check_coarse_of_refused(stream, cap_nbytes);
    }
    terp_allocations_start(UINT64_MAX, MAX_WORKING_NBYTES);
    assert_int_not_equal(terp_inspect(stream->bytes, stream->nbytes, &info),
                         TERP_ERR_MEMORY);
    check_allocations(terp_allocations_stop());
    free(decoded[0]);
    free(decoded[1]);
    return st[0];
}

/* Corrects the checksum of `stream`, decodes it, and frees it. */
static enum terp_status
decode_sealed(struct terp_stream stream)
{
    if (stream.nbytes >= TERP_FRAME_DIMS_AT)
        terp_case_seal(&stream);
    enum terp_status st = decode(&stream);
    free(stream.bytes);
    return st;
}

static void
every_truncation_is_refused(void **state)
{
    (void)state;
    for (int which = 0; which < NSTREAMS; which++) {
        if (!terp_case_taken(4))
            continue;
        struct terp_stream stream = make_stream(which);
        for (uint64_t left = 0; left < stream.nbytes; left++) {
            struct terp_stream cut = copy_of(stream.bytes, left);
            assert_int_not_equal(decode(&cut), TERP_OK);
            free(cut.bytes);
        }
        free(stream.bytes);
    }
}

static void
every_flipped_bit_is_refused(void **state)
{
    (void)state;
    for (int which = 0; which < NSTREAMS; which++) {
        if (!terp_case_taken(4))
            continue;
        struct terp_stream stream = make_stream(which);
        for (uint64_t bit = 0; bit < 8 * stream.nbytes; bit++) {
            stream.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_int_not_equal(decode(&stream), TERP_OK);
            stream.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        assert_int_equal(decode(&stream), TERP_OK);
        free(stream.bytes);
    }
}

/* From here on the checksum is right, so only the decoder's other checks
 * protect the memory. */
static void
sealed_truncation_is_refused(void **state)
{
    (void)state;
    for (int which = 0; which < NSTREAMS; which++) {
        if (!terp_case_taken(4))
            continue;
        struct terp_stream stream = make_stream(which);
        for (uint64_t left = 0; left < stream.nbytes; left++)
            assert_int_not_equal(decode_sealed(copy_of(stream.bytes, left)),
                                 TERP_OK);
        free(stream.bytes);
    }
}

static void
sealed_trailing_bytes_are_refused(void **state)
{
    (void)state;
    for (int which = 0; which < NSTREAMS; which++) {
        if (!terp_case_taken(4))
            continue;
        struct terp_stream stream = make_stream(which);
        for (int more = 1; more <= 9; more += 4)
            for (int fill = 0; fill <= 0xFF; fill += 0xFF) {
                uint64_t nbytes = stream.nbytes + (uint64_t)more;
                uint8_t *longer = terp_case_alloc(nbytes);
                memset(longer, fill, nbytes);
                memcpy(longer, stream.bytes, stream.nbytes);
                assert_int_not_equal(
                    decode_sealed((struct terp_stream){longer, nbytes}),
                    TERP_OK);
            }
        free(stream.bytes);
    }
}

static void
sealed_flipped_bit_is_survived(void **state)
{
    (void)state;
    for (int which = 0; which < NSTREAMS; which++) {
        if (!terp_case_taken(4))
            continue;
        struct terp_stream stream = make_stream(which);
        /* For a long stream, each run tries some bits only. */
        uint64_t step = 1 + 8 * stream.nbytes / 1000;
        for (uint64_t bit = (uint64_t)which % step; bit < 8 * stream.nbytes;
             bit += step) {
            struct terp_stream bad = copy_of(stream.bytes, stream.nbytes);
            bad.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            decode_sealed(bad);
        }
        free(stream.bytes);
    }
}

/* Applies one kind of damage. */
static struct terp_stream
damage(struct terp_stream stream)
{
    static const uint8_t edges[] = {0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF};
    uint64_t at = random_below(stream.nbytes);
    uint64_t n = 1 + random_below(16), left = stream.nbytes - at;

    n = n < left ? n : left;
    switch (random_below(6)) {
    case 0:
        stream.bytes[at] = (uint8_t)random_below(256);
        break;
    case 1:
        stream.bytes[at] = edges[random_below(COUNT(edges))];
        break;
    case 2:
        memset(stream.bytes + at, edges[random_below(COUNT(edges))], n);
        break;
    case 3: /* lost bytes: the rest moves up */
        memmove(stream.bytes + at, stream.bytes + at + n, left - n);
        stream.nbytes -= n;
        break;
    case 4: /* bytes from elsewhere in the stream */
        memmove(stream.bytes + at,
                stream.bytes + random_below(stream.nbytes - n + 1), n);
        break;
    default:
        stream.bytes[at] =
            (uint8_t)(stream.bytes[at] + 1 - 2 * random_below(2));
        break;
    }
    return stream;
}

static void
survive_damage(const struct terp_stream *stream, int ntimes)
{
    for (int i = 0; i < ntimes; i++) {
        struct terp_stream bad = copy_of(stream->bytes, stream->nbytes);
        for (uint64_t n = random_below(4) + 1; n > 0 && bad.nbytes > 0; n--)
            bad = damage(bad);
        /* Copies to a buffer of the exact size again. */
        struct terp_stream exact = copy_of(bad.bytes, bad.nbytes);
        free(bad.bytes);
        /* Damage to magic and version would be noticed at once. */
        if (exact.nbytes >= 5)
            memcpy(exact.bytes, stream->bytes, 5);
        decode_sealed(exact);
    }
}

static void
sealed_random_damage_is_survived(void **state)
{
    (void)state;
    random_state = 0;
    for (int which = 0; which < NSTREAMS; which++) {
        if (!terp_case_taken(4))
            continue;
        struct terp_stream stream = make_stream(which);
        survive_damage(&stream, 500);
        free(stream.bytes);
    }
}

/* A stream of spikes, and the position of its section of escapes: it follows
 * the model, because no value is special. */
static struct terp_stream
make_escapes(enum terp_type type, enum terp_predictor predictor,
             uint64_t *at_ret)
{
    struct terp_chunk chunk = {type, false, false, 1, {300}};
    struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                 .bound = 1e-5,
                                 .pipeline = TERP_PIPELINE_HUFFMAN,
                                 .predictor = predictor};
    uint64_t nbytes = terp_chunk_nbytes(&chunk);
    uint8_t *values = terp_case_alloc(nbytes);
    const uint64_t nlevels = 9; /* 2^9 is the first power of two above 300 */
    struct terp_frame frame;
    int frame_nbytes;

    terp_field_make(TERP_FIELD_SPIKES, &chunk, values);
    struct terp_stream stream = terp_case_encode(&params, &chunk, values, 1);
    assert_int_equal(
        terp_frame_read(stream.bytes, stream.nbytes, &frame, &frame_nbytes),
        TERP_OK);
    assert_int_equal(frame.prediction, predictor == TERP_PREDICTOR_SPLINE
                                           ? TERP_PREDICTION_SPLINE
                                           : TERP_PREDICTION_LORENZO);
    assert_false(frame.has_specials);
    uint64_t model_nbytes = predictor == TERP_PREDICTOR_SPLINE
                                ? 1 + nbytes / chunk.dims[0] + 2 * nlevels
                                : 2;
    *at_ret = (uint64_t)frame_nbytes + model_nbytes;
    free(values);
    return stream;
}

/* Decodes the stream with another section of escapes: n numbers of so many
 * bytes (or words, for 0), all of them `fill`. */
static enum terp_status
decode_escapes(const struct terp_stream *stream, uint64_t at,
               uint64_t value_nbytes, uint8_t n, uint8_t number_nbytes,
               int fill)
{
    const uint8_t *old = stream->bytes + at;
    uint64_t old_nbytes = 2 + (uint64_t)old[0] * old[1];
    uint64_t each_nbytes = number_nbytes == 0 ? value_nbytes : number_nbytes;
    uint64_t nbytes = 2 + n * each_nbytes;
    uint64_t rest_nbytes = stream->nbytes - at - old_nbytes;
    struct terp_stream made = {terp_case_alloc(at + nbytes + rest_nbytes),
                               at + nbytes + rest_nbytes};

    memcpy(made.bytes, stream->bytes, at);
    memset(made.bytes + at, fill, nbytes);
    made.bytes[at] = n;
    made.bytes[at + 1] = number_nbytes;
    memcpy(made.bytes + at + nbytes, old + old_nbytes, rest_nbytes);
    return decode_sealed(made);
}

static void
escapes_are_as_many_as_symbols_say_and_no_longer_than_values(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++) {
        enum terp_type type = which % 2 == 0 ? TERP_FLOAT32 : TERP_FLOAT64;
        int value_nbytes = type == TERP_FLOAT32 ? 4 : 8;
        uint64_t at, room = (uint64_t)value_nbytes;
        struct terp_stream stream = make_escapes(
            type, which < 2 ? TERP_PREDICTOR_SPLINE : TERP_PREDICTOR_LORENZO,
            &at);
        uint8_t n = stream.bytes[at];

        assert_in_range(n, 2, 0x7E); /* one byte holds it */
        assert_in_range(stream.bytes[at + 1], 1, value_nbytes);
        for (int number_nbytes = 0; number_nbytes <= 0xFF; number_nbytes++)
            for (int fill = 0; fill <= 0xFF; fill += 0x55)
                assert_int_equal(
                    decode_escapes(&stream, at, room, n, (uint8_t)number_nbytes,
                                   fill),
                    number_nbytes <= value_nbytes ? TERP_OK : TERP_ERR_CORRUPT);
        for (int more = -1; more <= 1; more += 2)
            assert_int_equal(
                decode_escapes(&stream, at, room, (uint8_t)(n + more), 1, 0),
                TERP_ERR_CORRUPT);
        free(stream.bytes);
    }
}

/* doc/format.md, "Lorenzo". */
static void
means_are_refused_where_none_may_be(void **state)
{
    static const struct {
        struct terp_chunk chunk;
        enum terp_field field;
        unsigned needed; /* dimensions; 0: means are not possible */
    } cases[] = {
        {{TERP_FLOAT32, false, false, 2, {16, 40}}, TERP_FIELD_NOISE, 2},
        {{TERP_FLOAT64, false, false, 4, {1, 8, 1, 9}}, TERP_FIELD_NOISE, 4},
        {{TERP_FLOAT32, false, true, 3, {2, 9, 5}}, TERP_FIELD_NOISE, 2},
        {{TERP_FLOAT64, false, false, 2, {16, 40}}, TERP_FIELD_GAPS, 0},
        {{TERP_FLOAT32, false, false, 2, {7, 90}}, TERP_FIELD_NOISE, 0},
        {{TERP_FLOAT64, false, true, 2, {16, 40}}, TERP_FIELD_NOISE, 0},
        {{TERP_FLOAT32, false, false, 3, {1, 1, 640}}, TERP_FIELD_NOISE, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct terp_mode mode = {TERP_PIPELINE_RATIO,
                                       TERP_PREDICTOR_LORENZO, "lorenzo"};
        struct terp_stream stream =
            make_stream_of(&cases[i].chunk, cases[i].field, 0, &mode);
        struct terp_frame frame;
        int model_at;

        assert_int_equal(
            terp_frame_read(stream.bytes, stream.nbytes, &frame, &model_at),
            TERP_OK);
        assert_int_equal(frame.prediction, TERP_PREDICTION_LORENZO);
        for (unsigned byte = 0; byte <= 0xFF; byte++) {
            static const uint8_t exact[] = {1, 0, 0, 0};
            bool is_exact = (byte & 32) != 0, means = (byte & 16) != 0;
            /* Codes have no low bits here, but tails require them. */
            bool valid = byte < 64 && (!means || (byte & cases[i].needed) != 0);
            uint64_t more = is_exact ? sizeof exact : 0;
            uint64_t at = (uint64_t)model_at + 2;
            struct terp_stream made = {terp_case_alloc(stream.nbytes + more),
                                       stream.nbytes + more};
            memcpy(made.bytes, stream.bytes, at);
            memcpy(made.bytes + at, exact, more);
            memcpy(made.bytes + at + more, stream.bytes + at,
                   stream.nbytes - at);
            made.bytes[model_at + 1] = (uint8_t)byte;
            assert_int_equal(decode_sealed(made),
                             valid ? TERP_OK : TERP_ERR_CORRUPT);
        }
        free(stream.bytes);
    }
}

/* Decodes the stream with one byte replaced. */
static enum terp_status
decode_with(const struct terp_stream *stream, uint64_t at, unsigned byte)
{
    struct terp_stream made = copy_of(stream->bytes, stream->nbytes);

    made.bytes[at] = (uint8_t)byte;
    return decode_sealed(made);
}

/* Noise of integers below a limit; lorenzo reproduces all of them. */
static struct terp_stream
make_noise(enum terp_type type, uint64_t limit, uint64_t *model_at_ret)
{
    const struct terp_chunk chunk = {type, false, false, 2, {30, 30}};
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                       .bound = 0.25,
                                       .pipeline = TERP_PIPELINE_HUFFMAN,
                                       .predictor = TERP_PREDICTOR_LORENZO};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    struct terp_frame frame;
    int frame_nbytes;

    for (uint64_t i = 0; i < 900; i++)
        value_put(&chunk, values, i,
                  value_to_bits(type, (double)(terp_field_mix(i) % limit)));
    struct terp_stream stream = terp_case_encode(&params, &chunk, values, 1);
    assert_int_equal(
        terp_frame_read(stream.bytes, stream.nbytes, &frame, &frame_nbytes),
        TERP_OK);
    assert_int_equal(frame.prediction, TERP_PREDICTION_LORENZO);
    assert_false(frame.has_specials);
    *model_at_ret = (uint64_t)frame_nbytes;
    free(values);
    return stream;
}

/* The stream has low bits and exact quants. The model has 6 bytes. No value is
 * special or escapes, so the kind of the one tile follows the zero of the
 * escapes. Then comes the tile's record. No code is listed. */
static struct terp_stream
make_integers(enum terp_type type, uint64_t *model_at_ret)
{
    struct terp_stream stream = make_noise(type, 5003, model_at_ret);

    assert_int_equal(stream.bytes[*model_at_ret + 6], 0);
    return stream;
}

/* doc/format.md, "Model" and "Low bits". */
static void
low_bits_and_exact_quants_are_refused_where_they_cannot_be(void **state)
{
    (void)state;
    for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++) {
        const int max_nzeros = type == TERP_FLOAT32 ? 23 : 52;
        const int min_exponent = type == TERP_FLOAT32 ? -126 : -1022;
        const int max_exponent = type == TERP_FLOAT32 ? 103 : 970;
        const int least_exponent = type == TERP_FLOAT32 ? -149 : -1074;
        uint64_t at;
        struct terp_stream stream = make_integers((enum terp_type)type, &at);
        const uint64_t exact = at + 2, kinds = at + 7, low = at + 8;
        const uint64_t widths = at + 9;
        int widest = 0;

        assert_int_equal(stream.bytes[kinds], TERP_LOW_HAS_BITS);
        for (unsigned g = 0; g < 4; g++) {
            const int width = stream.bytes[widths + g / 2] >> g % 2 * 4 & 0xF;
            widest = width > widest ? width : widest;
        }
        assert_in_range(widest, 1, TERP_LOW_MAX_NBITS - 1);
        assert_int_equal(stream.bytes[at + 1] & 0x30, 0x20);
        for (int byte = 0; byte <= 0xFF; byte++) {
            const int slack = byte & 0xF, wide = byte >> 4;
            assert_int_equal(decode_with(&stream, at, (unsigned)byte),
                             slack >= 1 && slack <= 12 && wide >= 1 &&
                                     wide <= TERP_WIDE_MAX
                                 ? TERP_OK
                                 : TERP_ERR_CORRUPT);
            assert_int_equal(
                decode_with(&stream, kinds, (unsigned)byte),
                (byte & 3) == TERP_LOW_HAS_BITS ? TERP_OK : TERP_ERR_CORRUPT);
            assert_int_equal(decode_with(&stream, low, (unsigned)byte),
                             byte >= widest && byte <= TERP_LOW_MAX_NBITS
                                 ? TERP_OK
                                 : TERP_ERR_CORRUPT);
            assert_int_equal(decode_with(&stream, exact, (unsigned)byte),
                             byte > 0 ? TERP_OK : TERP_ERR_CORRUPT);
            assert_int_equal(decode_with(&stream, exact + 1, (unsigned)byte),
                             byte <= max_nzeros ? TERP_OK : TERP_ERR_CORRUPT);
            /* The width of the first group: unchanged, or refused. */
            assert_int_equal(decode_with(&stream, widths, (unsigned)byte) ==
                                 TERP_OK,
                             byte == stream.bytes[widths]);
        }
        for (int exponent = -1100; exponent <= 1100; exponent++) {
            uint8_t *bytes = stream.bytes + exact + 2;
            uint8_t kept[2] = {bytes[0], bytes[1]};
            bool valid =
                (exponent >= min_exponent && exponent <= max_exponent) ||
                exponent == least_exponent;
            bytes[0] = (uint8_t)exponent;
            bytes[1] = (uint8_t)((unsigned)exponent >> 8);
            assert_int_equal(
                decode_sealed(copy_of(stream.bytes, stream.nbytes)),
                valid ? TERP_OK : TERP_ERR_CORRUPT);
            memcpy(bytes, kept, sizeof kept);
        }
        survive_damage(&stream, 2000);
        free(stream.bytes);
    }
}

/* Noise of integers, whose differences have tails. The model has 7 bytes. No
 * value is special or escapes, so the widths of four groups of tails follow the
 * model. */
static struct terp_stream
make_tails(enum terp_type type, uint64_t *model_at_ret)
{
    const int nbits = type == TERP_FLOAT32 ? 24 : 50;
    struct terp_stream stream =
        make_noise(type, UINT64_C(1) << nbits, model_at_ret);

    assert_int_equal(stream.bytes[*model_at_ret] >> 4, TERP_WIDE_MAX);
    assert_int_equal(stream.bytes[*model_at_ret + 1] & 0x60, 0x60);
    return stream;
}

#define NTAIL_GROUPS 4 /* groups of 256 values, the last of 132 */

static uint64_t
group_nbytes(uint64_t group, unsigned width)
{
    return ((group < NTAIL_GROUPS - 1 ? 256 : 132) * width + 7) / 8;
}

/* The position of the end of tails. */
static uint64_t
end_of_tails(const struct terp_stream *stream, uint64_t widths_at)
{
    uint64_t end = widths_at + NTAIL_GROUPS;

    for (uint64_t g = 0; g < NTAIL_GROUPS; g++)
        end += group_nbytes(g, stream->bytes[widths_at + g]);
    return end;
}

/* doc/format.md, "Model" and "Tails". */
static void
tails_are_refused_where_they_cannot_be(void **state)
{
    (void)state;
    for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++) {
        const int max_nbits = type == TERP_FLOAT32 ? 16 : 48;
        uint64_t at;
        struct terp_stream stream = make_tails((enum terp_type)type, &at);
        const uint64_t nbits_at = at + 6, widths_at = at + 7;
        const uint64_t end = end_of_tails(&stream, widths_at);
        int least = 0;

        for (uint64_t g = 0; g < NTAIL_GROUPS; g++)
            if (stream.bytes[widths_at + g] > least)
                least = stream.bytes[widths_at + g];
        assert_in_range(least, 1, stream.bytes[nbits_at]);
        assert_in_range(stream.bytes[nbits_at], least, max_nbits);
        for (int byte = 0; byte <= 0xFF; byte++) {
            const int slack = byte & 0xF, wide = byte >> 4;
            assert_int_equal(decode_with(&stream, at, (unsigned)byte),
                             slack >= 1 && slack <= 12 && wide == TERP_WIDE_MAX
                                 ? TERP_OK
                                 : TERP_ERR_CORRUPT);
            assert_int_equal(decode_with(&stream, nbits_at, (unsigned)byte),
                             byte >= least && byte <= max_nbits
                                 ? TERP_OK
                                 : TERP_ERR_CORRUPT);
            /* The width of any group: unchanged, or refused. */
            for (uint64_t g = 0; g < NTAIL_GROUPS; g++)
                assert_int_equal(decode_with(&stream, widths_at + g,
                                             (unsigned)byte) == TERP_OK,
                                 byte == stream.bytes[widths_at + g]);
        }
        for (unsigned bit = 0x40; bit <= 0x80; bit *= 2)
            assert_int_equal(
                decode_with(&stream, at + 1, stream.bytes[at + 1] ^ bit),
                TERP_ERR_CORRUPT);
        assert_int_equal(stream.bytes[end], 0); /* the count of escapes */
        for (uint64_t left = nbits_at; left <= end; left++)
            assert_int_equal(decode_sealed(copy_of(stream.bytes, left)),
                             TERP_ERR_CORRUPT);
        /* Any tail numbers are valid. */
        for (uint64_t i = widths_at + NTAIL_GROUPS; i < end; i++)
            assert_int_equal(decode_with(&stream, i, stream.bytes[i] ^ 0xFFu),
                             TERP_OK);
        survive_damage(&stream, 2000);
        free(stream.bytes);
    }
}

/* Several partitions of tiles, so that damage hits their index. */
static void
sealed_random_damage_of_many_tiles_is_survived(void **state)
{
    (void)state;
    random_state = 0;
    for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++)
        for (size_t content = 0; content < COUNT(contents); content++)
            for (int mode = 0; mode < TERP_NMODES; mode++) {
                struct terp_chunk chunk = {
                    (enum terp_type)type, false, false, 3, {35, 36, 40}};
                struct terp_stream stream = make_stream_of(
                    &chunk, contents[content], (size_t)mode % COUNT(bounds),
                    &terp_mode[mode]);
                survive_damage(&stream, 15);
                free(stream.bytes);
            }
}

/* The body of one stream behind the frame of another. */
static void
sealed_foreign_body_is_survived(void **state)
{
    (void)state;
    for (int one = 0; one < NSTREAMS; one += 3)
        for (int other = 1; other < NSTREAMS; other += 5) {
            if (!terp_case_taken(4))
                continue;
            struct terp_stream a = make_stream(one);
            struct terp_stream b = make_stream(other);
            struct terp_frame frame;
            int a_at, b_at;
            assert_int_equal(terp_frame_read(a.bytes, a.nbytes, &frame, &a_at),
                             TERP_OK);
            assert_int_equal(terp_frame_read(b.bytes, b.nbytes, &frame, &b_at),
                             TERP_OK);
            uint64_t nbytes = (uint64_t)(a_at - b_at) + b.nbytes;
            uint8_t *mixed = terp_case_alloc(nbytes);
            memcpy(mixed, a.bytes, (size_t)a_at);
            memcpy(mixed + a_at, b.bytes + b_at, b.nbytes - (uint64_t)b_at);
            decode_sealed((struct terp_stream){mixed, nbytes});
            free(a.bytes);
            free(b.bytes);
        }
}

/* Frames that announce far more than their body can hold. The destination is
 * too small for them. Finding that out, and inspecting them, takes no more
 * memory than for other streams. */
static void
enormous_dims_with_a_tiny_body_are_refused(void **state)
{
    static const uint64_t dims[][3] = {{1 << 20, 1 << 20, 1 << 19},
                                       {1 << 14, 1 << 14, 1 << 6},
                                       {1, 1, 1 << 30}};
    static const enum terp_coding codings[] = {TERP_CODING_HUFFMAN,
                                               TERP_CODING_RATIO};

    (void)state;
    for (int which = 0; which < (int)COUNT(dims) * 2 * 2 * 41 * 16; which++) {
        if (!terp_case_taken(4))
            continue;
        int body_nbytes = which % 41, fill = which / 41 % 16 * 0x11;
        int prediction = which / 41 / 32 % 2;
        const uint64_t *dim = dims[which / 41 / 64];
        struct terp_frame frame = {
            .chunk = {TERP_FLOAT32, false, false, 3, {dim[0], dim[1], dim[2]}},
            .coding = codings[which / 41 / 16 % 2],
            .prediction = (enum terp_prediction)(1 + prediction),
            .bound = 1,
        };
        uint8_t bytes[TERP_FRAME_MAX_NBYTES + 40];
        memset(bytes, fill, sizeof bytes);
        uint64_t nbytes = (uint64_t)terp_frame_write(&frame, bytes);
        assert_int_equal(
            decode_sealed(copy_of(bytes, nbytes + (uint64_t)body_nbytes)),
            TERP_ERR_CAPACITY);
    }
}

/* A sealed huffman stream by lorenzo whose codes are all zero, with one special
 * value and the mask delta `lag`. */
static struct terp_info
inspect_specials(int rank, const uint64_t *dims, int lag)
{
    struct terp_frame frame = {
        .chunk = terp_case_chunk(TERP_FLOAT32, rank, dims),
        .coding = TERP_CODING_HUFFMAN,
        .prediction = TERP_PREDICTION_LORENZO,
        .has_specials = true,
        .bound = 1,
    };
    const uint8_t body[] = {
        0x0C,                       /* step slack */
        0x00,                       /* no dimension of lorenzo */
        0x01,                       /* one run of specials */
        (uint8_t)(0x01 | lag << 4), /* of one color, with a mask delta */
        0x00,
        0x00, /* no value before it; its length is one */
        0x00,
        0x00,
        0x00,
        0x00, /* the color */
        0x00, /* no escapes */
        0x00,
        0x00,
        0x00,
        0x00,
        0x00, /* only zero tiles: a bit map */
        0x00,
        0x00,
        0x00,
        0x00,
        0x00, /* whose length the caller chooses */
    };
    struct terp_stream stream = {
        terp_case_alloc(TERP_FRAME_MAX_NBYTES + sizeof body), 0};
    struct terp_info info = {.size = sizeof info};
    enum terp_status st = TERP_ERR_CORRUPT;

    int frame_nbytes = terp_frame_write(&frame, stream.bytes);
    memcpy(stream.bytes + frame_nbytes, body, sizeof body);
    for (uint64_t nbytes = 11; nbytes <= sizeof body && st != TERP_OK;
         nbytes++) {
        stream.nbytes = (uint64_t)frame_nbytes + nbytes;
        terp_frame_seal(stream.bytes, stream.nbytes);
        terp_allocations_start(UINT64_MAX, MAX_WORKING_NBYTES);
        st = terp_inspect(stream.bytes, stream.nbytes, &info);
        check_allocations(terp_allocations_stop());
    }
    assert_int_equal(st, TERP_OK);
    assert_int_equal(info.chunk_nbytes, terp_chunk_nbytes(&frame.chunk));
    free(stream.bytes);
    return info;
}

/* A mask or an index of tiles of the announced dims would take GiB. Inspection
 * counts without them. */
static void
announced_dims_do_not_decide_what_inspect_takes(void **state)
{
    static const uint64_t lines[] = {UINT64_C(1) << 27, 64};
    static const uint64_t more_lines[] = {UINT64_C(1) << 32, 64};
    static const uint64_t some_lines[] = {1 << 10, 64};

    (void)state;
    struct terp_info info = inspect_specials(2, lines, 1);
    assert_true(info.nspecials == TERP_COUNT_UNKNOWN);
    assert_int_equal(info.ntiles, UINT64_C(1) << 21);
    assert_true(info.ntiles_zero == TERP_COUNT_UNKNOWN);
    info = inspect_specials(2, more_lines, 1);
    assert_true(info.nspecials == TERP_COUNT_UNKNOWN);
    assert_int_equal(info.ntiles, UINT64_C(1) << 26);
    info = inspect_specials(2, more_lines, 0);
    assert_int_equal(info.nspecials, 1);
    /* If there are few values, the special value is repeated in each line. */
    info = inspect_specials(2, some_lines, 1);
    assert_int_equal(info.nspecials, 1 << 10);
    assert_int_equal(info.ntiles, 16);
    assert_int_equal(info.ntiles_zero, 16);
}

/* A section of shifts without shifts and zeros is one byte, for any number of
 * groups. */
static void
announced_groups_without_shifts_are_not_counted(void **state)
{
    struct terp_frame frame = {
        .chunk = {TERP_FLOAT32, false, false, 1, {UINT64_C(1) << 60}},
        .coding = TERP_CODING_HUFFMAN,
        .prediction = TERP_PREDICTION_LOSSLESS,
        .bound = 1,
    };
    static const uint8_t model[] = {
        0x0C,       /* step slack */
        0x00, 0x00, /* no dimension; form 0, steps */
        0x00,       /* no zeros */
        0x6B, 0xFF, /* the least exponent, -149 */
        0x00        /* no shifts or zeros of groups */
    };
    enum {
        MAX_LEFT_NBYTES = 16
    };
    uint8_t bytes[TERP_FRAME_MAX_NBYTES + sizeof model + MAX_LEFT_NBYTES] = {0};
    enum terp_status st = TERP_ERR_CORRUPT;

    (void)state;
    const uint64_t at = (uint64_t)terp_frame_write(&frame, bytes);
    memcpy(bytes + at, model, sizeof model);
    /* No escapes, and zero tiles: zero bytes, whose number the caller
     * chooses. */
    for (uint64_t left = 0; left < MAX_LEFT_NBYTES && st != TERP_OK; left++) {
        struct terp_info info = {.size = sizeof info};
        terp_frame_seal(bytes, at + sizeof model + left);
        st = terp_inspect(bytes, at + sizeof model + left, &info);
    }
    assert_int_equal(st, TERP_OK);
}

static void
other_bytes_are_told_from_streams(void **state)
{
    static const uint8_t hdf5[64] = "\211HDF\r\n\032\n";
    struct terp_stream stream = make_stream(1);
    struct terp_stream other = copy_of(hdf5, sizeof hdf5);

    (void)state;
    assert_int_equal(decode(&other), TERP_ERR_MAGIC);
    stream.bytes[4] = TERP_FORMAT_VERSION + 1;
    assert_int_equal(decode(&stream), TERP_ERR_VERSION);
    terp_frame_seal(stream.bytes, stream.nbytes);
    assert_int_equal(decode(&stream), TERP_ERR_VERSION);
    free(other.bytes);
    free(stream.bytes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(sealed_truncation_is_refused),
        cmocka_unit_test(sealed_trailing_bytes_are_refused),
        cmocka_unit_test(sealed_flipped_bit_is_survived),
        cmocka_unit_test(sealed_random_damage_is_survived),
        cmocka_unit_test(
            escapes_are_as_many_as_symbols_say_and_no_longer_than_values),
        cmocka_unit_test(means_are_refused_where_none_may_be),
        cmocka_unit_test(
            low_bits_and_exact_quants_are_refused_where_they_cannot_be),
        cmocka_unit_test(tails_are_refused_where_they_cannot_be),
        cmocka_unit_test(sealed_random_damage_of_many_tiles_is_survived),
        cmocka_unit_test(sealed_foreign_body_is_survived),
        cmocka_unit_test(enormous_dims_with_a_tiny_body_are_refused),
        cmocka_unit_test(announced_dims_do_not_decide_what_inspect_takes),
        cmocka_unit_test(announced_groups_without_shifts_are_not_counted),
        cmocka_unit_test(other_bytes_are_told_from_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
