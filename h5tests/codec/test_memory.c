/* If an allocation fails, the call returns an error or works without the
 * memory. It never crashes or leaks. Working memory has limits. */
#include <stdio.h>
#include <stdlib.h>

#include "codec/format/frame.h"
#include "h5tests/support/allocations.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/few.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/tables.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The limits of working memory for encoding and decoding, in chunks. */
#define MAX_NCHUNKS 6
/* Logarithms take one more, if they are not wider than the values. */
#define POINTWISE_MORE_NCHUNKS 1
/* The search for repeats uses tables of all values, and the encoder makes a
 * stream with references beside the one without. Under a bound above 0 it does
 * so if samples repeat, as in two of the contents, or if the bound is tiny. The
 * reserve keeps blocks of the stream before. */
#define REPEATS_MAX_NCHUNKS 17
/* The search for a PSNR keeps decoded values and two streams. */
#define PSNR_MORE_NCHUNKS 2

static const struct terp_chunk small_chunks[] = {
    {TERP_FLOAT32, false, false, 3, {19, 18, 17}},
    {TERP_FLOAT64, false, false, 2, {61, 67}},
    {TERP_FLOAT32, true, true, 4, {6, 10, 10, 10}},
};

static const enum terp_field contents[] = {TERP_FIELD_SMOOTH, TERP_FIELD_GAPS,
                                           TERP_FIELD_COAST, TERP_FIELD_NOISE};

/* Under the second bound codes have low bits, and lorenzo's differences have
 * tails. Under the third bound there are logarithms, with signs or a floor. */
static const struct bound {
    enum terp_bound_mode mode;
    double bound, floor;
} bounds[] = {
    {TERP_BOUND_RELATIVE, 1e-3, 0},  {TERP_BOUND_RELATIVE, 1e-8, 0},
    {TERP_BOUND_POINTWISE, 1e-3, 0}, {TERP_BOUND_POINTWISE, 1e-3, 1e-4},
    {TERP_BOUND_PSNR, 60, 0},        {TERP_BOUND_ABSOLUTE, 0, 0}};

static struct terp_params
params_of(struct bound bound, int mode)
{
    return (struct terp_params){.bound_mode = bound.mode,
                                .bound = bound.bound,
                                .floor = bound.floor,
                                .pipeline = terp_mode[mode].pipeline,
                                .predictor = terp_mode[mode].predictor};
}

/* Whether the test makes allocation n fail. It does so for each n, and under a
 * sanitizer for some. */
static bool
is_failed(uint64_t n)
{
    return terp_case_is_drawn(n, terp_case_fewer() / 16);
}

/* Encodes once for each allocation that is to fail. */
static void
fail_encode(const struct terp_params *params, const struct terp_chunk *chunk,
            const uint8_t *values, int nthreads,
            const struct terp_stream *expected)
{
    uint64_t cap_nbytes = terp_encode_bound(chunk), nbytes;
    uint8_t *encoded = terp_case_alloc(cap_nbytes);

    for (uint64_t n = 0;; n++) {
        if (!is_failed(n))
            continue;
        terp_allocations_start(n, UINT64_MAX);
        enum terp_status st = terp_encode(params, chunk, values, encoded,
                                          cap_nbytes, &nbytes, nthreads);
        struct terp_allocations used = terp_allocations_stop();
        assert_int_equal(used.nleaked, 0);
        if (st == TERP_OK) {
            assert_int_equal(nbytes, expected->nbytes);
            assert_memory_equal(encoded, expected->bytes, nbytes);
        } else {
            assert_int_equal(st, TERP_ERR_MEMORY);
        }
        if (used.ncalls <= n)
            break;
    }
    free(encoded);
}

static void
fail_decode(const struct terp_stream *stream, const struct terp_chunk *chunk,
            int nthreads)
{
    uint64_t cap_nbytes = terp_chunk_nbytes(chunk), nbytes;
    uint8_t *expected = terp_case_alloc(cap_nbytes);
    uint8_t *decoded = terp_case_alloc(cap_nbytes);

    assert_int_equal(terp_decode(stream->bytes, stream->nbytes, expected,
                                 cap_nbytes, &nbytes, 1),
                     TERP_OK);
    for (uint64_t n = 0;; n++) {
        if (!is_failed(n))
            continue;
        terp_allocations_start(n, UINT64_MAX);
        enum terp_status st =
            terp_decode(stream->bytes, stream->nbytes, decoded, cap_nbytes,
                        &nbytes, nthreads);
        struct terp_allocations used = terp_allocations_stop();
        assert_int_equal(used.nleaked, 0);
        if (st == TERP_OK)
            assert_memory_equal(decoded, expected, cap_nbytes);
        else
            assert_int_equal(st, TERP_ERR_MEMORY);
        if (used.ncalls <= n)
            break;
    }
    free(expected);
    free(decoded);
}

static void
fail_inspect(const struct terp_stream *stream)
{
    for (uint64_t n = 0;; n++) {
        if (!is_failed(n))
            continue;
        struct terp_info info = {.size = sizeof info};
        terp_allocations_start(n, UINT64_MAX);
        enum terp_status st =
            terp_inspect(stream->bytes, stream->nbytes, &info);
        struct terp_allocations used = terp_allocations_stop();
        assert_int_equal(used.nleaked, 0);
        assert_true(st == TERP_OK || st == TERP_ERR_MEMORY);
        if (used.ncalls <= n)
            break;
    }
}

static void
fail_all(const struct terp_chunk *chunk, enum terp_field content,
         struct bound bound, int mode, int nthreads)
{
    struct terp_params params = params_of(bound, mode);
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));

    terp_field_make(content, chunk, values);
    struct terp_stream stream = terp_case_encode(&params, chunk, values, 1);
    fail_encode(&params, chunk, values, nthreads, &stream);
    fail_decode(&stream, chunk, nthreads);
    fail_inspect(&stream);
    free(stream.bytes);
    free(values);
}

static void
failed_allocations_are_reported_and_leak_nothing(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT(small_chunks); c++)
        for (size_t f = 0; f < COUNT(contents); f++)
            for (int mode = 0; mode < TERP_NMODES; mode++)
                for (size_t b = 0; b < COUNT(bounds); b++)
                    if (terp_case_taken(4))
                        fail_all(&small_chunks[c], contents[f], bounds[b], mode,
                                 1);
}

/* Decodes every 2nd value, once for each allocation, which then fails. */
static void
fail_coarse(const struct terp_stream *stream, const struct terp_chunk *chunk)
{
    struct terp_chunk coarse;

    assert_int_equal(terp_coarse_chunk(chunk, 2, &coarse), TERP_OK);
    const uint64_t cap_nbytes = terp_chunk_nbytes(&coarse);
    uint8_t *decoded = terp_case_alloc(cap_nbytes);
    for (uint64_t n = 0;; n++) {
        if (!is_failed(n))
            continue;
        uint64_t got;
        terp_allocations_start(n, UINT64_MAX);
        enum terp_status st = terp_decode_coarse(
            stream->bytes, stream->nbytes, 2, decoded, cap_nbytes, &got, 1);
        struct terp_allocations used = terp_allocations_stop();
        assert_int_equal(used.nleaked, 0);
        assert_true(st == TERP_OK || st == TERP_ERR_MEMORY);
        if (used.ncalls <= n)
            break;
    }
    free(decoded);
}

/* Streams that contain streams: complex values, copies, references. Also
 * integers and 16-bit floats. */
static void
failed_allocations_of_other_types_leak_nothing(void **state)
{
    static const enum terp_type types[] = {
        TERP_COMPLEX64, TERP_COMPLEX128, TERP_INT16,   TERP_UINT64,
        TERP_FLOAT16,   TERP_BFLOAT16,   TERP_FLOAT64, TERP_FLOAT32};
    static const enum terp_field fields[] = {
        TERP_FIELD_ROUGH, TERP_FIELD_PROFILE, TERP_FIELD_MIRRORS,
        TERP_FIELD_GAPS};
    static const struct bound kinds[] = {{TERP_BOUND_RELATIVE, 1e-3, 0},
                                         {TERP_BOUND_POINTWISE, 1e-3, 0},
                                         {TERP_BOUND_ABSOLUTE, 0, 0}};

    (void)state;
    for (size_t t = 0; t < COUNT(types); t++)
        for (size_t f = 0; f < COUNT(fields); f++)
            for (size_t b = 0; b < COUNT(kinds); b++) {
                const struct terp_chunk chunk = {
                    types[t], t % 2 == 0, false, 2, {23, 60}};
                struct terp_params params = params_of(kinds[b], 0);
                if (!terp_case_taken(1))
                    continue;
                uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
                terp_field_make(fields[f], &chunk, values);
                struct terp_stream stream =
                    terp_case_encode(&params, &chunk, values, 1);
                fail_encode(&params, &chunk, values, 1, &stream);
                fail_decode(&stream, &chunk, 1);
                fail_inspect(&stream);
                fail_coarse(&stream, &chunk);
                free(stream.bytes);
                free(values);
            }
}

/* Chunks that an encoder codes twice: without copies, with references that an
 * estimate suggests among many values, lossless. */
static void
failed_allocations_of_second_streams_leak_nothing(void **state)
{
    static const struct {
        struct terp_chunk chunk;
        enum terp_field field;
        double bound;
        enum terp_coding coding;
    } cases[] = {
        {{TERP_FLOAT32, false, false, 2, {61, 70}},
         TERP_FIELD_PROFILE,
         1e-3,
         TERP_CODING_COPIES},
        {{TERP_FLOAT64, false, false, 2, {260, 253}},
         TERP_FIELD_MIRRORS,
         1e-3,
         TERP_CODING_REFERENCES},
        {{TERP_BFLOAT16, false, false, 2, {260, 253}},
         TERP_FIELD_MIRRORS,
         1e-3,
         TERP_CODING_REFERENCES},
        {{TERP_FLOAT64, false, false, 2, {61, 70}},
         TERP_FIELD_FINE,
         1e-17,
         TERP_CODING_RATIO},
    };

    (void)state;
    for (size_t c = 0; c < COUNT(cases); c++) {
        const struct terp_chunk *chunk = &cases[c].chunk;
        const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                           .bound = cases[c].bound};
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));
        terp_field_make(cases[c].field, chunk, values);
        struct terp_stream stream = terp_case_encode(&params, chunk, values, 1);
        assert_int_equal(stream.bytes[TERP_FRAME_CODING_AT], cases[c].coding);
        fail_encode(&params, chunk, values, 1, &stream);
        fail_decode(&stream, chunk, 1);
        free(stream.bytes);
        free(values);
    }
}

/* Chunks of few different values: ranks, also with references, and as what is
 * left without copies. */
static void
failed_allocations_of_ranks_leak_nothing(void **state)
{
    static const struct terp_chunk chunks[] = {
        {TERP_FLOAT32, false, false, 2, {61, 70}},
        {TERP_FLOAT64, true, false, 2, {61, 70}},
        {TERP_COMPLEX64, false, false, 2, {61, 35}}};

    (void)state;
    for (size_t c = 0; c < COUNT(chunks); c++) {
        const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE};
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunks[c]));
        few_make(&chunks[c], c == 2 ? 300 : 1100, values);
        struct terp_stream stream =
            terp_case_encode(&params, &chunks[c], values, 1);
        assert_int_equal(stream.bytes[TERP_FRAME_VERSION_AT], 2);
        fail_encode(&params, &chunks[c], values, 1, &stream);
        fail_decode(&stream, &chunks[c], 1);
        fail_inspect(&stream);
        fail_coarse(&stream, &chunks[c]);
        free(stream.bytes);
        free(values);
    }
}

/* Tables: streams of columns, of which some are ranks. */
static void
failed_allocations_of_columns_leak_nothing(void **state)
{
    static const struct terp_chunk chunks[] = {
        {TERP_FLOAT32, false, false, 2, {700, 3}},
        {TERP_COMPLEX64, true, false, 2, {700, 3}}};

    (void)state;
    for (size_t c = 0; c < COUNT(chunks); c++) {
        const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE};
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunks[c]));
        table_make(&chunks[c], values);
        struct terp_stream stream =
            terp_case_encode(&params, &chunks[c], values, 1);
        assert_int_equal(stream.bytes[TERP_FRAME_VERSION_AT], 2);
        fail_encode(&params, &chunks[c], values, 1, &stream);
        fail_decode(&stream, &chunks[c], 1);
        fail_inspect(&stream);
        fail_coarse(&stream, &chunks[c]);
        free(stream.bytes);
        free(values);
    }
}

/* A context that cannot be created. */
static void
failed_context_is_reported(void **state)
{
    struct terp_context *context = NULL;

    (void)state;
    terp_allocations_start(0, UINT64_MAX);
    assert_int_equal(terp_context_make(NULL, &context), TERP_ERR_MEMORY);
    assert_int_equal(terp_allocations_stop().nleaked, 0);
}

/* A chunk that is large enough for two threads. */
static void
failed_allocations_of_a_team_leak_nothing(void **state)
{
    static const uint64_t dims[] = {64, 64, 65};
    struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT32, 3, dims);

    (void)state;
    for (int mode = 0; mode < TERP_NMODES; mode += 2)
        for (size_t b = 0; b < COUNT(bounds); b++)
            if (terp_case_taken(1))
                fail_all(&chunk, TERP_FIELD_ROUGH, bounds[b], mode, 2);
}

/* If the system refuses threads, the call works without them. */
static void
refused_threads_change_nothing(void **state)
{
    static const uint64_t dims[] = {66, 68, 88};
    struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT32, 3, dims);
    uint64_t nbytes = terp_chunk_nbytes(&chunk), got;
    uint8_t *values = terp_case_alloc(nbytes);
    uint8_t *decoded = terp_case_alloc(nbytes);
    uint8_t *expected = terp_case_alloc(nbytes);

    (void)state;
    terp_field_make(TERP_FIELD_ROUGH, &chunk, values);
    for (int mode = 0; mode < TERP_NMODES; mode++) {
        struct terp_params params =
            params_of(bounds[mode % (int)COUNT(bounds)], mode);
        struct terp_stream one = terp_case_encode(&params, &chunk, values, 1);
        assert_int_equal(
            terp_decode(one.bytes, one.nbytes, expected, nbytes, &got, 1),
            TERP_OK);
        for (int nallowed = 0; nallowed < 2; nallowed++) {
            terp_allocations_limit_threads(nallowed);
            struct terp_stream few =
                terp_case_encode(&params, &chunk, values, 4);
            assert_int_equal(few.nbytes, one.nbytes);
            assert_memory_equal(few.bytes, one.bytes, one.nbytes);
            terp_allocations_limit_threads(nallowed);
            assert_int_equal(
                terp_decode(few.bytes, few.nbytes, decoded, nbytes, &got, 4),
                TERP_OK);
            assert_memory_equal(decoded, expected, nbytes);
            free(few.bytes);
        }
        free(one.bytes);
        terp_allocations_limit_threads(INT32_MAX);
    }
    free(values);
    free(decoded);
    free(expected);
}

/* Two of three values are special, and no two neighbours have the same color:
 * the largest number of runs. */
static void
make_broken_mask(const struct terp_chunk *chunk, uint8_t *values)
{
    uint64_t infinity = value_to_bits(chunk->type, 1e300 * 1e300);

    terp_field_make(TERP_FIELD_ROUGH, chunk, values);
    for (uint64_t i = 0; i < chunk_nvalues(chunk); i++)
        if (i % 3 != 0)
            value_put(chunk, values, i, infinity + i % 3 - 1);
}

static void
check_peak(const char *what, const struct terp_params *params,
           const struct terp_chunk *chunk, const uint8_t *values, bool repeats,
           int nthreads)
{
    uint64_t nbytes = terp_chunk_nbytes(chunk), got;
    uint64_t cap_nbytes = terp_encode_bound(chunk);
    uint8_t *encoded = terp_case_alloc(cap_nbytes);
    uint8_t *decoded = terp_case_alloc(nbytes);
    struct terp_stream stream = {encoded, 0};
    const bool is_pointwise = params->bound_mode == TERP_BOUND_POINTWISE;
    const unsigned max_nchunks =
        (repeats || (params->bound < 1e-7 && !is_pointwise)
             ? REPEATS_MAX_NCHUNKS
             : MAX_NCHUNKS) +
        (is_pointwise ? POINTWISE_MORE_NCHUNKS : 0u) +
        (params->floor > 0 ? 1u : 0u) +
        (params->bound_mode == TERP_BOUND_PSNR ? PSNR_MORE_NCHUNKS : 0u);
    const uint64_t max_nbytes = nbytes * max_nchunks;

    terp_context_trim(NULL);
    terp_allocations_start(UINT64_MAX, UINT64_MAX);
    assert_int_equal(terp_encode(params, chunk, values, encoded, cap_nbytes,
                                 &stream.nbytes, nthreads),
                     TERP_OK);
    struct terp_allocations used = terp_allocations_stop();
    if (used.peak_nbytes > max_nbytes)
        fail_msg("%s: encoding held %.2f chunks", what,
                 (double)used.peak_nbytes / (double)nbytes);
    terp_context_trim(NULL);
    terp_allocations_start(UINT64_MAX, UINT64_MAX);
    assert_int_equal(terp_decode(stream.bytes, stream.nbytes, decoded, nbytes,
                                 &got, nthreads),
                     TERP_OK);
    used = terp_allocations_stop();
    if (used.peak_nbytes > max_nbytes)
        fail_msg("%s: decoding held %.2f chunks", what,
                 (double)used.peak_nbytes / (double)nbytes);
    free(encoded);
    free(decoded);
}

static void
working_memory_is_at_most_some_chunks(void **state)
{
    static const struct terp_chunk chunks[] = {
        {TERP_FLOAT32, false, false, 3, {64, 64, 64}},
        {TERP_FLOAT64, false, false, 3, {51, 51, 51}},
        {TERP_FLOAT32, true, false, 2, {3, 100003}},
        {TERP_FLOAT64, false, false, 1, {131101}},
        {TERP_FLOAT32, false, true, 4, {64, 16, 16, 17}},
        {TERP_FLOAT64, false, true, 2, {65537, 2}},
        {TERP_FLOAT32, false, false, 4, {23, 23, 23, 23}},
    };

    (void)state;
    for (size_t c = 0; c < COUNT(chunks); c++) {
        assert_true(terp_chunk_nbytes(&chunks[c]) >= 1 << 20);
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunks[c]));
        for (size_t f = 0; f <= COUNT(contents); f++) {
            const char *name = "broken mask";
            const bool repeats =
                f < COUNT(contents) && (contents[f] == TERP_FIELD_SMOOTH ||
                                        contents[f] == TERP_FIELD_COAST);
            if (f < COUNT(contents)) {
                name = terp_field_name[contents[f]];
                terp_field_make(contents[f], &chunks[c], values);
            } else {
                make_broken_mask(&chunks[c], values);
            }
            for (int i = 0; i < TERP_NMODES * (int)COUNT(bounds); i++) {
                const int mode = i % TERP_NMODES;
                if (!terp_case_taken(3))
                    continue;
                const struct bound bound = bounds[i / TERP_NMODES];
                struct terp_params params = params_of(bound, mode);
                char what[128];
                snprintf(what, sizeof what, "chunk %zu, %s, %d %g, %s", c, name,
                         (int)bound.mode, bound.bound, terp_mode[mode].name);
                check_peak(what, &params, &chunks[c], values, repeats,
                           mode % 2 == 0 ? 1 : 4);
            }
        }
        free(values);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failed_allocations_are_reported_and_leak_nothing),
        cmocka_unit_test(failed_allocations_of_other_types_leak_nothing),
        cmocka_unit_test(failed_allocations_of_second_streams_leak_nothing),
        cmocka_unit_test(failed_allocations_of_ranks_leak_nothing),
        cmocka_unit_test(failed_allocations_of_columns_leak_nothing),
        cmocka_unit_test(failed_context_is_reported),
        cmocka_unit_test(failed_allocations_of_a_team_leak_nothing),
        cmocka_unit_test(refused_threads_change_nothing),
        cmocka_unit_test(working_memory_is_at_most_some_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
