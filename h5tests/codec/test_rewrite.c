/* Chunks that are encoded again after some values have changed. Unchanged
 * values keep every bit, however often this happens. */
#include <stdlib.h>
#include <string.h>

#include "codec/api/rewrite.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NREWRITES 50

static enum terp_status
encode_again_in(const struct terp_run_options *options,
                const struct terp_params *params,
                const struct terp_chunk *chunk,
                const struct terp_stream *before, const void *src,
                struct terp_stream *stream_ret, bool *is_rewrite_ret)
{
    struct terp_run run;

    assert_int_equal(terp_run_begin(options, NULL, &run), TERP_OK);
    stream_ret->bytes = terp_case_alloc(terp_encode_bound(chunk));
    return terp_run_end(
        &run,
        terp_rewrite_encode(&run, params, chunk, before->bytes, before->nbytes,
                            src, stream_ret->bytes, &stream_ret->nbytes,
                            is_rewrite_ret),
        NULL);
}

static enum terp_status
encode_again(const struct terp_params *params, const struct terp_chunk *chunk,
             const struct terp_stream *before, const void *src,
             struct terp_stream *stream_ret, bool *is_rewrite_ret)
{
    return encode_again_in(NULL, params, chunk, before, src, stream_ret,
                           is_rewrite_ret);
}

static void
decode(const struct terp_chunk *chunk, const struct terp_stream *stream,
       uint8_t *values)
{
    uint64_t got;

    assert_int_equal(terp_decode(stream->bytes, stream->nbytes, values,
                                 terp_chunk_nbytes(chunk), &got, 1),
                     TERP_OK);
}

/* What HDF5 does when a program writes a part of a chunk. `given` holds all
 * written values; `decoded` holds the values that a reader gets. Returns the
 * largest stream. */
static uint64_t
rewrite(const char *name, const struct terp_params *params,
        const struct terp_chunk *chunk, const uint8_t *source)
{
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const uint64_t nvalues = chunk_nvalues(chunk);
    uint8_t *given = terp_case_alloc(nbytes),
            *decoded = terp_case_alloc(nbytes);
    uint8_t *changed = terp_case_alloc(nbytes);
    struct terp_stream stream;
    uint64_t largest = 0;

    memcpy(given, source, nbytes);
    memset(given + nbytes / 4, 0, (size_t)(nbytes - nbytes / 4));
    stream = terp_case_encode(params, chunk, given, 1);
    for (uint64_t k = 0; k < NREWRITES; k++) {
        const uint64_t first = terp_field_mix(k) % nvalues;
        const uint64_t end = min_u64(nvalues, first + 1 + nvalues / 10);
        const uint64_t from = terp_field_mix(k + 1000) % (nvalues / 2 + 1);
        struct terp_stream next;
        bool is_rewrite = false;
        decode(chunk, &stream, decoded);
        memcpy(changed, decoded, nbytes);
        for (uint64_t i = first; i < end; i++) {
            const uint64_t bits =
                value_bits(chunk, source, (i + from) % nvalues);
            value_put(chunk, given, i, bits);
            value_put(chunk, changed, i, bits);
        }
        assert_int_equal(
            encode_again(params, chunk, &stream, changed, &next, &is_rewrite),
            TERP_OK);
        decode(chunk, &next, changed);
        for (uint64_t i = 0; i < nvalues; i++)
            if ((i < first || i >= end) &&
                value_bits(chunk, changed, i) != value_bits(chunk, decoded, i))
                fail_msg("%s: write %llu: value %llu has changed", name,
                         (unsigned long long)k, (unsigned long long)i);
        free(stream.bytes);
        stream = next;
        largest = next.nbytes > largest ? next.nbytes : largest;
    }
    decode(chunk, &stream, decoded);
    if (params->bound_mode == TERP_BOUND_ABSOLUTE ||
        params->bound_mode == TERP_BOUND_POINTWISE)
        terp_case_compare(name, params, chunk, given, decoded,
                          terp_case_bound(params, chunk, given));
    free(stream.bytes);
    free(given);
    free(decoded);
    free(changed);
    return largest;
}

static void
values_that_are_not_written_keep_every_bit(void **state)
{
    static const struct terp_chunk shapes[] = {
        {TERP_FLOAT32, false, false, 1, {3000}},
        {TERP_FLOAT64, true, false, 2, {31, 43}},
        {TERP_FLOAT32, false, false, 3, {16, 17, 18}},
        {TERP_FLOAT16, false, false, 2, {40, 50}},
        {TERP_INT32, false, false, 2, {40, 50}},
        {TERP_COMPLEX64, false, false, 2, {20, 30}},
    };
    static const struct terp_params bounds[] = {
        {.bound_mode = TERP_BOUND_ABSOLUTE, .bound = 1e-2},
        {.bound_mode = TERP_BOUND_ABSOLUTE, .bound = 1e-5},
        {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-3},
        {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-3},
        {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-2, .floor = 1e-2},
        {.bound_mode = TERP_BOUND_PSNR, .bound = 60},
    };
    static const enum terp_field fields[] = {TERP_FIELD_SMOOTH,
                                             TERP_FIELD_ROUGH, TERP_FIELD_NOISE,
                                             TERP_FIELD_GAPS, TERP_FIELD_COAST};

    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (size_t f = 0; f < COUNT(fields); f++) {
            uint8_t *source = terp_case_alloc(terp_chunk_nbytes(&shapes[s]));
            terp_field_make(fields[f], &shapes[s], source);
            for (size_t b = 0; b < COUNT(bounds); b++) {
                struct terp_params params = bounds[b];
                if (!terp_case_taken(3))
                    continue;
                params.predictor = (enum terp_predictor)((s + f + b) % 3);
                if (terp_type_is_integer(shapes[s].type) &&
                    params.bound_mode == TERP_BOUND_ABSOLUTE)
                    params.bound *= 1000;
                rewrite(terp_field_name[fields[f]], &params, &shapes[s],
                        source);
            }
            free(source);
        }
}

/* Also with limits of decoded values. */
static void
values_that_are_written_keep_limits(void **state)
{
    const struct terp_chunk chunk = {
        TERP_FLOAT32, false, false, 3, {16, 17, 18}};
    const struct terp_params params = {.size = sizeof params,
                                       .bound_mode = TERP_BOUND_ABSOLUTE,
                                       .bound = 0.1,
                                       .keep_sign = TERP_KEEP_SIGN_OF_VALUES,
                                       .has_valid_range = true,
                                       .valid_min = -0.5,
                                       .valid_max = 0.75};
    const uint64_t nbytes = terp_chunk_nbytes(&chunk);
    uint8_t *source = terp_case_alloc(nbytes),
            *values = terp_case_alloc(nbytes);
    bool is_rewrite;

    (void)state;
    terp_field_make(TERP_FIELD_ROUGH, &chunk, source);
    struct terp_stream before = terp_case_encode(&params, &chunk, source, 1);
    struct terp_stream after;
    decode(&chunk, &before, values);
    memcpy(values, source, nbytes / 3);
    assert_int_equal(
        encode_again(&params, &chunk, &before, values, &after, &is_rewrite),
        TERP_OK);
    decode(&chunk, &after, values);
    for (uint64_t i = 0; i < chunk_nvalues(&chunk); i++) {
        const double x =
            value_of_bits(chunk.type, value_bits(&chunk, source, i));
        const double y =
            value_of_bits(chunk.type, value_bits(&chunk, values, i));
        assert_true(fabs(x - y) <= 0.1);
        assert_false((x >= 0 && y < 0) || (x <= 0 && y > 0));
        assert_false((x >= -0.5 && y < -0.5) || (x <= 0.75 && y > 0.75));
    }
    free(before.bytes);
    free(after.bytes);
    free(source);
    free(values);
}

/* A few changed values cost much less than a lossless chunk. */
static void
small_changes_stay_small(void **state)
{
    const struct terp_chunk chunk = {
        TERP_FLOAT32, false, false, 3, {64, 64, 64}};
    const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                       .bound = 1e-3};
    const struct terp_params lossless = {.bound_mode = TERP_BOUND_ABSOLUTE};
    const uint64_t nbytes = terp_chunk_nbytes(&chunk);
    uint8_t *source = terp_case_alloc(nbytes),
            *values = terp_case_alloc(nbytes);
    bool is_rewrite;

    (void)state;
    terp_field_make(TERP_FIELD_SMOOTH, &chunk, source);
    struct terp_stream before = terp_case_encode(&params, &chunk, source, 1);
    decode(&chunk, &before, values);
    struct terp_stream exact = terp_case_encode(&lossless, &chunk, values, 1);
    struct terp_stream after;
    memcpy(values + nbytes / 2, source + nbytes / 2, 64 * 4);
    assert_int_equal(
        encode_again(&params, &chunk, &before, values, &after, &is_rewrite),
        TERP_OK);
    assert_true(is_rewrite);
    assert_true(after.nbytes < exact.nbytes / 4);
    free(after.bytes);
    free(exact.bytes);
    free(before.bytes);
    free(source);
    free(values);
}

/* An unchanged chunk keeps its earlier stream. A chunk in which all has changed
 * gets the stream of a new chunk. */
static void
other_chunks_are_no_rewrites(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 2, {64, 64}};
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                       .bound = 1e-2};
    const uint64_t nbytes = terp_chunk_nbytes(&chunk);
    uint8_t *source = terp_case_alloc(nbytes),
            *values = terp_case_alloc(nbytes);
    struct terp_stream again;
    bool is_rewrite;

    (void)state;
    terp_field_make(TERP_FIELD_ROUGH, &chunk, source);
    struct terp_stream before = terp_case_encode(&params, &chunk, source, 1);
    decode(&chunk, &before, values);
    assert_int_equal(
        encode_again(&params, &chunk, &before, values, &again, &is_rewrite),
        TERP_OK);
    assert_true(is_rewrite);
    assert_int_equal(again.nbytes, before.nbytes);
    assert_memory_equal(again.bytes, before.bytes, before.nbytes);
    free(again.bytes);

    terp_field_make(TERP_FIELD_NOISE, &chunk, source);
    struct terp_stream plain = terp_case_encode(&params, &chunk, source, 1);
    assert_int_equal(
        encode_again(&params, &chunk, &before, source, &again, &is_rewrite),
        TERP_OK);
    assert_false(is_rewrite);
    assert_int_equal(again.nbytes, plain.nbytes);
    assert_memory_equal(again.bytes, plain.bytes, plain.nbytes);
    free(again.bytes);
    free(plain.bytes);
    free(before.bytes);
    free(source);
    free(values);
}

/* A damaged earlier stream is ignored. */
static void
damaged_stream_is_let_pass(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 2, {64, 64}};
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                       .bound = 1e-2};
    uint8_t *source = terp_case_alloc(terp_chunk_nbytes(&chunk));
    struct terp_stream again;
    bool is_rewrite;

    (void)state;
    terp_field_make(TERP_FIELD_ROUGH, &chunk, source);
    struct terp_stream before = terp_case_encode(&params, &chunk, source, 1);
    before.bytes[before.nbytes / 2] ^= 1;
    assert_int_equal(
        encode_again(&params, &chunk, &before, source, &again, &is_rewrite),
        TERP_OK);
    assert_false(is_rewrite);
    free(again.bytes);
    free(before.bytes);
    free(source);
}

/* ---- memory ---- */

static void *
allocate(void *arg, size_t nbytes)
{
    uint64_t *nleft = arg;

    return (*nleft)-- == 0 ? NULL : malloc(nbytes);
}

static void
release(void *arg, void *at)
{
    (void)arg;
    free(at);
}

/* Without memory for the earlier stream's values a chunk that was written
 * before is not taken for a new one: that would change its other values. */
static void
short_memory_is_an_error(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 2, {64, 64}};
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                       .bound = 1e-2};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    uint64_t nleft = UINT64_MAX;
    const struct terp_context_options context_options = {
        .size = sizeof context_options,
        .device = -1,
        .allocate = allocate,
        .release = release,
        .allocator_arg = &nleft};
    struct terp_run_options options = {
        .size = sizeof options, .engine = TERP_ENGINE_CPU, .nthreads = 1};
    enum terp_status st = TERP_ERR_MEMORY;
    struct terp_stream expected, again;
    bool is_rewrite;

    (void)state;
    assert_int_equal(terp_context_make(&context_options, &options.context),
                     TERP_OK);
    terp_field_make(TERP_FIELD_ROUGH, &chunk, values);
    struct terp_stream before = terp_case_encode(&params, &chunk, values, 1);
    decode(&chunk, &before, values);
    memset(values, 0, 64);
    assert_int_equal(encode_again_in(&options, &params, &chunk, &before, values,
                                     &expected, &is_rewrite),
                     TERP_OK);
    assert_true(is_rewrite);
    for (uint64_t n = 0; st != TERP_OK; n++) {
        nleft = n;
        st = encode_again_in(&options, &params, &chunk, &before, values, &again,
                             &is_rewrite);
        if (st == TERP_OK) {
            assert_true(n > 4);
            assert_int_equal(again.nbytes, expected.nbytes);
            assert_memory_equal(again.bytes, expected.bytes, expected.nbytes);
        } else {
            assert_int_equal(st, TERP_ERR_MEMORY);
        }
        free(again.bytes);
    }
    terp_context_destroy(options.context);
    free(expected.bytes);
    free(before.bytes);
    free(values);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_that_are_not_written_keep_every_bit),
        cmocka_unit_test(values_that_are_written_keep_limits),
        cmocka_unit_test(small_changes_stay_small),
        cmocka_unit_test(other_chunks_are_no_rewrites),
        cmocka_unit_test(damaged_stream_is_let_pass),
        cmocka_unit_test(short_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
