/* Round trips of one chunk, with every promise checked. */
#include "h5tests/support/cases.h"

#include <float.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "codec/format/frame.h"
#include "codec/format/sections.h"
#include "codec/model/lorenzo.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

void *
terp_case_alloc(uint64_t nbytes)
{
    void *bytes = malloc(nbytes);
    assert_non_null(bytes);
    return bytes;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif

#ifdef TERP_FEWER_CASES /* set by scripts/cross.sh */
#define FEWER TERP_FEWER_CASES
#elif defined(SANITIZED)
#define FEWER 64u /* since each case takes four times as long */
#else
#define FEWER 1u
#endif

/* The number in an environment variable, or another. */
static uint64_t
number_of(const char *variable, uint64_t otherwise)
{
    const char *set = getenv(variable);

    return set != NULL ? strtoull(set, NULL, 10) : otherwise;
}

/* Whether the test tries case i: on average, one case in `every`. */
static bool
draw(uint64_t i, uint64_t every)
{
    static atomic_bool is_printed;
    const uint64_t seed =
        number_of("TERP_TEST_SEED", (uint64_t)time(NULL) / (24 * 60 * 60));

    if (every > 1 && !atomic_exchange(&is_printed, true))
        fprintf(stderr,
                "some cases of many are tried: TERP_TEST_SEED=%" PRIu64
                " tries the same ones again\n",
                seed);
    return every <= 1 || terp_field_mix(terp_field_mix(seed) + i) % every == 0;
}

bool
terp_case_is_drawn(uint64_t i, uint64_t every)
{
    return draw(i, every > 1 ? every * number_of("TERP_TEST_FEWER", 1) : 1);
}

unsigned
terp_case_fewer(void)
{
    return FEWER;
}

bool
terp_case_taken(unsigned every)
{
    static uint64_t ncases;

    return getenv("TERP_TEST_ALL") != NULL ||
           draw(ncases++,
                (uint64_t)every * FEWER * number_of("TERP_TEST_FEWER", 1));
}

struct terp_chunk
terp_case_chunk(enum terp_type type, int rank, const uint64_t *dims)
{
    struct terp_chunk chunk = {.type = type, .rank = rank};
    for (int i = 0; i < rank; i++)
        chunk.dims[i] = dims[i];
    return chunk;
}

struct terp_stream
terp_case_encode(const struct terp_params *params,
                 const struct terp_chunk *chunk, const uint8_t *values,
                 int nthreads)
{
    uint64_t cap_nbytes = terp_encode_bound(chunk);
    uint8_t *encoded = terp_case_alloc(cap_nbytes);
    struct terp_stream stream = {0};

    assert_int_equal(terp_encode(params, chunk, values, encoded, cap_nbytes,
                                 &stream.nbytes, nthreads),
                     TERP_OK);
    assert_true(stream.nbytes <= cap_nbytes);
    stream.bytes = terp_case_alloc(stream.nbytes);
    memcpy(stream.bytes, encoded, stream.nbytes);
    free(encoded);
    return stream;
}

static bool
must_be_exact(const struct terp_params *params, enum terp_type type,
              uint64_t bits)
{
    uint64_t mask = UINT64_MAX >> (64 - 8 * value_nbytes(type));
    return !bits_are_finite(type, bits) ||
           (params->bound_mode == TERP_BOUND_ABSOLUTE && params->bound == 0) ||
           (params->has_fill && bits == (params->fill_bits & mask)) ||
           (params->has_missing && bits == (params->missing_bits & mask));
}

double
terp_case_bound(const struct terp_params *params,
                const struct terp_chunk *chunk, const uint8_t *values)
{
    uint64_t nvalues = chunk_nvalues(chunk);
    double min = 0, max = 0;
    bool seen = false;

    if (params->bound_mode == TERP_BOUND_ABSOLUTE)
        return params->bound;
    if (params->bound_mode == TERP_BOUND_POINTWISE)
        return params->floor;
    for (uint64_t i = 0; i < nvalues; i++) {
        uint64_t bits = value_bits(chunk, values, i);
        double value = value_of_bits(chunk->type, bits);
        if (must_be_exact(params, chunk->type, bits))
            continue;
        min = !seen || value < min ? value : min;
        max = !seen || value > max ? value : max;
        seen = true;
    }
    /* Halves first, because the range of finite values may exceed the largest
     * number. */
    double half = max / 2 - min / 2;
    double bound = half > 0x1p1021 ? half * params->bound * 2
                                   : (max - min) * params->bound;
    return bound < DBL_MAX ? bound : DBL_MAX;
}

void
terp_case_compare(const char *name, const struct terp_params *params,
                  const struct terp_chunk *chunk, const uint8_t *values,
                  const uint8_t *decoded, double bound)
{
    const bool pointwise = params->bound_mode == TERP_BOUND_POINTWISE;
    uint64_t nvalues = chunk_nvalues(chunk);

    for (uint64_t i = 0; i < nvalues; i++) {
        uint64_t bits = value_bits(chunk, values, i);
        uint64_t got_bits = value_bits(chunk, decoded, i);
        if (bits == got_bits)
            continue;
        if (must_be_exact(params, chunk->type, bits))
            fail_msg("%s: value %" PRIu64 " is special, its bits %" PRIx64
                     " became %" PRIx64,
                     name, i, bits, got_bits);
        double value = value_of_bits(chunk->type, bits);
        double got = value_of_bits(chunk->type, got_bits);
        if (!bits_are_finite(chunk->type, got_bits) ||
            !(pointwise ? is_within_pointwise(value, got, params->bound) ||
                              (params->floor > 0 &&
                               is_within(value, got, params->floor))
                        : is_within(value, got, bound)))
            fail_msg("%s: value %" PRIu64 ": %a became %a, bound %a", name, i,
                     value, got, pointwise ? params->bound : bound);
    }
}

int
terp_case_tail_nbits(const struct terp_stream *stream)
{
    struct terp_frame frame;
    int model_at;

    assert_int_equal(
        terp_frame_read(stream->bytes, stream->nbytes, &frame, &model_at),
        TERP_OK);
    if (frame.prediction != TERP_PREDICTION_LORENZO)
        return 0;
    const uint8_t *at = stream->bytes + model_at + 1;
    const unsigned dims = *at++;
    if ((dims & TERP_LORENZO_TAILS) == 0)
        return 0;
    return at[dims & TERP_LORENZO_EXACT ? TERP_EXACT_NBYTES : 0];
}

static void
check_inspection(const char *name, const struct terp_params *params,
                 const struct terp_chunk *chunk,
                 const struct terp_stream *stream, double bound)
{
    struct terp_info info = {.size = sizeof info};
    uint64_t nbytes = 0;

    enum terp_status st = terp_inspect(stream->bytes, stream->nbytes, &info);
    if (st != TERP_OK)
        fail_msg("%s: inspecting: %s", name, terp_status_text(st));
    assert_int_equal(info.chunk.type, chunk->type);
    assert_int_equal(info.chunk.big_endian, chunk->big_endian);
    assert_int_equal(info.chunk.stack, chunk->stack);
    assert_int_equal(info.chunk.rank, chunk->rank);
    for (int i = 0; i < chunk->rank; i++)
        assert_int_equal(info.chunk.dims[i], chunk->dims[i]);
    assert_int_equal(info.chunk_nbytes, terp_chunk_nbytes(chunk));
    assert_int_equal(info.stream_nbytes, stream->nbytes);
    if (info.bound > bound)
        fail_msg("%s: bound %a in the stream, not %a", name, info.bound, bound);
    if (info.pointwise_bound != 0 &&
        (params->bound_mode != TERP_BOUND_POINTWISE ||
         info.pointwise_bound != params->bound ||
         (info.floor != 0 && info.floor != params->floor)))
        fail_msg("%s: pointwise bound %a in the stream", name,
                 info.pointwise_bound);
    assert_int_equal(
        terp_decoded_nbytes(stream->bytes, stream->nbytes, &nbytes), TERP_OK);
    assert_int_equal(nbytes, terp_chunk_nbytes(chunk));
}

uint64_t
terp_case_take(const struct terp_chunk *chunk, const uint8_t *values,
               uint64_t step, uint8_t *taken_ret)
{
    const uint64_t nbytes = (uint64_t)terp_value_nbytes(chunk->type);
    uint64_t nvalues = 1, ntaken = 0;

    for (int i = 0; i < chunk->rank; i++)
        nvalues *= chunk->dims[i];
    for (uint64_t v = 0; v < nvalues; v++) {
        uint64_t left = v;
        bool taken = true;
        for (int i = chunk->rank - 1; i >= 0; left /= chunk->dims[i--])
            taken &= left % chunk->dims[i] % step == 0;
        if (taken)
            memcpy(taken_ret + ntaken++ * nbytes, values + v * nbytes, nbytes);
    }
    return ntaken * nbytes;
}

void
terp_case_seal(struct terp_stream *stream)
{
    uint32_t told[TERP_NPREFIXES];
    struct terp_frame frame;
    int frame_nbytes;
    bool holds = terp_frame_read(stream->bytes, stream->nbytes, &frame,
                                 &frame_nbytes) == TERP_OK &&
                 frame.has_prefixes;

    for (int i = 0; i < TERP_NPREFIXES && holds; i++) {
        told[i] = frame.prefix[i].nbytes;
        holds = told[i] >= TERP_PREFIX_MIN_NBYTES && told[i] <= stream->nbytes;
    }
    if (holds)
        terp_frame_seal_prefixes(stream->bytes, frame_nbytes, told);
    terp_frame_seal(stream->bytes, stream->nbytes);
}

/* Bytes behind the needed ones may have any value or be missing. Without the
 * last needed byte, decoding fails. */
static void
check_needed(const char *name, const struct terp_stream *stream, uint64_t step,
             const uint8_t *expected, uint64_t nbytes)
{
    uint8_t *damaged = terp_case_alloc(stream->nbytes);
    uint8_t *coarse = terp_case_alloc(nbytes);
    uint64_t needed = 0, got;

    assert_int_equal(
        terp_coarse_nbytes(stream->bytes, stream->nbytes, step, &needed),
        TERP_OK);
    if (needed == UINT64_MAX)
        needed = stream->nbytes;
    assert_true(needed <= stream->nbytes);
    memcpy(damaged, stream->bytes, stream->nbytes);
    for (uint64_t i = needed; i < stream->nbytes; i++)
        damaged[i] ^= 0xA5;
    terp_frame_seal(damaged, stream->nbytes);
    enum terp_status st = terp_decode_coarse(damaged, stream->nbytes, step,
                                             coarse, nbytes, &got, 1);
    if (st == TERP_OK)
        st = terp_decode_coarse(damaged, needed, step, coarse, nbytes, &got, 1);
    if (st != TERP_OK || memcmp(coarse, expected, nbytes) != 0)
        fail_msg("%s: step %" PRIu64 " needs more than %" PRIu64 " bytes", name,
                 step, needed);
    assert_int_not_equal(
        terp_decode_coarse(damaged, needed - 1, step, coarse, nbytes, &got, 1),
        TERP_OK);
    free(damaged);
    free(coarse);
}

enum terp_status
terp_case_check_coarse(const char *name, const struct terp_stream *stream,
                       const uint8_t *decoded, uint64_t step, int nthreads)
{
    struct terp_chunk chunk, coarse;
    uint64_t got = 0;

    if (terp_decoded_chunk(stream->bytes, stream->nbytes, &chunk) != TERP_OK)
        return TERP_ERR_CORRUPT;
    assert_int_equal(terp_coarse_chunk(&chunk, step, &coarse), TERP_OK);
    const uint64_t nbytes = terp_chunk_nbytes(&coarse);
    uint8_t *values = terp_case_alloc(nbytes);
    memset(values, 0xA5, nbytes);
    enum terp_status st = terp_decode_coarse(
        stream->bytes, stream->nbytes, step, values, nbytes, &got, nthreads);
    if (decoded != NULL) {
        uint8_t *expected = terp_case_alloc(terp_chunk_nbytes(&chunk));
        if (st != TERP_OK)
            fail_msg("%s: step %" PRIu64 ": %s", name, step,
                     terp_status_text(st));
        assert_int_equal(got, nbytes);
        assert_int_equal(terp_case_take(&chunk, decoded, step, expected),
                         nbytes);
        if (memcmp(values, expected, nbytes) != 0)
            fail_msg("%s: step %" PRIu64 " has other values", name, step);
        check_needed(name, stream, step, expected, nbytes);
        free(expected);
    }
    free(values);
    return st;
}

uint64_t
terp_case_check(const char *name, const struct terp_params *params,
                const struct terp_chunk *chunk, const uint8_t *values)
{
    uint64_t nbytes = terp_chunk_nbytes(chunk), decoded_nbytes = 0;
    double bound = terp_case_bound(params, chunk, values);
    uint8_t *before = terp_case_alloc(nbytes);
    uint8_t *decoded = terp_case_alloc(nbytes);

    memcpy(before, values, nbytes);
    struct terp_stream stream = terp_case_encode(params, chunk, values, 1);
    if (memcmp(before, values, nbytes) != 0)
        fail_msg("%s: encoding altered the original data", name);
    check_inspection(name, params, chunk, &stream, bound);
    enum terp_status st = terp_decode(stream.bytes, stream.nbytes, decoded,
                                      nbytes, &decoded_nbytes, 1);
    if (st != TERP_OK)
        fail_msg("%s: decoding: %s", name, terp_status_text(st));
    assert_int_equal(decoded_nbytes, nbytes);
    terp_case_compare(name, params, chunk, values, decoded, bound);
    terp_case_check_coarse(name, &stream, decoded,
                           UINT64_C(2) << stream.nbytes % 6, 1);
    free(before);
    free(decoded);
    free(stream.bytes);
    return stream.nbytes;
}

void
terp_case_check_threads(const struct terp_params *params,
                        const struct terp_chunk *chunk, const uint8_t *values)
{
    uint64_t nbytes = terp_chunk_nbytes(chunk), got;
    uint8_t *decoded[2] = {terp_case_alloc(nbytes), terp_case_alloc(nbytes)};
    struct terp_stream one = terp_case_encode(params, chunk, values, 1);
    struct terp_stream three = terp_case_encode(params, chunk, values, 3);

    assert_int_equal(three.nbytes, one.nbytes);
    assert_memory_equal(three.bytes, one.bytes, one.nbytes);
    for (int i = 0; i < 2; i++)
        assert_int_equal(terp_decode(one.bytes, one.nbytes, decoded[i], nbytes,
                                     &got, 1 + 2 * i),
                         TERP_OK);
    assert_memory_equal(decoded[0], decoded[1], nbytes);
    free(one.bytes);
    free(three.bytes);
    free(decoded[0]);
    free(decoded[1]);
}
