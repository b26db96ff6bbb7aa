/* TERP_MAX_MEMORY: a call takes no more memory, or fails and says so. Memory
 * that a stream announces does not exceed the limit either. */
#define _POSIX_C_SOURCE 200809L /* for setenv */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/api/budget.h"
#include "codec/api/run.h"
#include "codec/format/frame.h"
#include "h5tests/support/allocations.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CONST(pointers) ((const void *const *)(pointers))

/* Tables and masks are not counted. */
#define TABLES_NBYTES ((uint64_t)1 << 20)

static void
set_limit(const char *text)
{
    if (text == NULL)
        unsetenv("TERP_MAX_MEMORY");
    else
        setenv("TERP_MAX_MEMORY", text, 1);
}

static void
set_nbytes(uint64_t nbytes)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRIu64, nbytes);
    set_limit(text);
}

static int
remove_limit(void **state)
{
    (void)state;
    set_limit(NULL);
    return 0;
}

static void
sizes_have_units_and_what_is_none_allows_nothing(void **state)
{
    static const struct {
        const char *text;
        uint64_t nbytes;
        bool is_size;
    } cases[] = {
        {NULL, UINT64_MAX, true},
        {"", UINT64_MAX, true},
        {"0", 0, true},
        {"1", 1, true},
        {"65536", 65536, true},
        {"3K", 3 << 10, true},
        {"3k", 3 << 10, true},
        {"500M", UINT64_C(500) << 20, true},
        {"500m", UINT64_C(500) << 20, true},
        {"2G", UINT64_C(2) << 30, true},
        {"2g", UINT64_C(2) << 30, true},
        {"17179869183G", UINT64_C(17179869183) << 30, true},
        {"17179869184G", 0, false}, /* 2^64 */
        {"18446744073709551615", UINT64_MAX, true},
        {"18446744073709551616", 0, false},
        {"99999999999999999999999", 0, false},
        {"-1", 0, false},
        {" 1", 0, false},
        {"1 ", 0, false},
        {"1T", 0, false},
        {"1KB", 0, false},
        {"1.5G", 0, false},
        {"M", 0, false},
        {"none", 0, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t nbytes = 1234;
        set_limit(cases[i].text);
        assert_int_equal(terp_budget_limit(&nbytes), cases[i].is_size);
        assert_true(nbytes == cases[i].nbytes);
    }
}

static struct terp_stream
make_stream(const struct terp_params *params, const struct terp_chunk *chunk,
            enum terp_field field, uint8_t **values_ret)
{
    *values_ret = terp_case_alloc(terp_chunk_nbytes(chunk));
    terp_field_make(field, chunk, *values_ret);
    return terp_case_encode(params, chunk, *values_ret, 1);
}

/* Encodes and decodes with limits from too little to plenty. */
static void
check_limits(const struct terp_params *params, const struct terp_chunk *chunk,
             enum terp_field field, int nthreads)
{
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const uint64_t cap_nbytes = terp_encode_bound(chunk);
    uint8_t *values, *encoded = terp_case_alloc(cap_nbytes);
    struct terp_stream stream = make_stream(params, chunk, field, &values);
    uint8_t *decoded = terp_case_alloc(nbytes);
    uint8_t *expected = terp_case_alloc(nbytes);
    bool encodes = false, decodes = false;
    uint64_t limit = 0, got;

    assert_int_equal(
        terp_decode(stream.bytes, stream.nbytes, expected, nbytes, &got, 1),
        TERP_OK);
    for (; limit < 40 * nbytes; limit += limit / 4 + nbytes / 8) {
        set_nbytes(limit);
        /* Blocks that an earlier call kept must not replace counted ones. */
        terp_context_trim(NULL);
        terp_allocations_start(UINT64_MAX, UINT64_MAX);
        enum terp_status st = terp_encode(params, chunk, values, encoded,
                                          cap_nbytes, &got, nthreads);
        terp_context_trim(NULL);
        struct terp_allocations used = terp_allocations_stop();
        assert_int_equal(used.nleaked, 0);
        if (used.peak_nbytes > limit + limit / 8 + TABLES_NBYTES)
            fail_msg("encoding held %" PRIu64 " bytes, of %" PRIu64 " allowed",
                     used.peak_nbytes, limit);
        assert_int_equal(st,
                         st == TERP_OK || encodes ? TERP_OK : TERP_ERR_LIMIT);
        encodes = st == TERP_OK;
        if (encodes) {
            assert_int_equal(got, stream.nbytes);
            assert_memory_equal(encoded, stream.bytes, got);
        }
        terp_allocations_start(UINT64_MAX, UINT64_MAX);
        st = terp_decode(stream.bytes, stream.nbytes, decoded, nbytes, &got,
                         nthreads);
        terp_context_trim(NULL);
        used = terp_allocations_stop();
        assert_int_equal(used.nleaked, 0);
        if (used.peak_nbytes > limit + limit / 8 + TABLES_NBYTES)
            fail_msg("decoding held %" PRIu64 " bytes, of %" PRIu64 " allowed",
                     used.peak_nbytes, limit);
        assert_int_equal(st,
                         st == TERP_OK || decodes ? TERP_OK : TERP_ERR_LIMIT);
        decodes = st == TERP_OK;
        if (decodes)
            assert_memory_equal(decoded, expected, nbytes);
        if (limit < nbytes)
            assert_true(!encodes && !decodes);
    }
    assert_true(encodes && decodes);
    set_limit(NULL);
    free(stream.bytes);
    free(values);
    free(encoded);
    free(decoded);
    free(expected);
}

static void
call_takes_no_more_than_the_limit(void **state)
{
    static const struct terp_chunk chunks[] = {
        {TERP_FLOAT32, false, false, 3, {64, 64, 64}},
        {TERP_FLOAT64, true, false, 2, {300, 400}},
        {TERP_INT32, false, false, 3, {50, 60, 70}},
        /* The blocks are large enough to be kept for later calls. */
        {TERP_FLOAT32, false, false, 3, {96, 128, 128}},
    };
    static const struct terp_params all[] = {
        {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-3},
        {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-3},
        {.bound_mode = TERP_BOUND_PSNR, .bound = 60},
        {.bound_mode = TERP_BOUND_ABSOLUTE, .bound = 0},
    };
    static const enum terp_field fields[] = {TERP_FIELD_SMOOTH, TERP_FIELD_GAPS,
                                             TERP_FIELD_NOISE};

    (void)state;
    for (size_t c = 0; c < COUNT(chunks); c++)
        for (size_t p = 0; p < COUNT(all); p++)
            for (size_t f = 0; f < COUNT(fields); f++)
                if (terp_case_taken(3))
                    check_limits(&all[p], &chunks[c], fields[f],
                                 f % 2 == 0 ? 1 : 3);
}

/* A chunk of 4 TiB. A coarse decoder returns few values, however large the
 * stream's masks and tables would be. */
static void
chunk_beyond_the_limit_costs_nothing(void **state)
{
    struct terp_frame frame = {
        .coding = TERP_CODING_CONSTANT,
        .chunk = {TERP_FLOAT32, false, false, 1, {UINT64_C(1) << 40}}};
    uint8_t stream[TERP_FRAME_MAX_NBYTES + 8] = {0};
    uint64_t nbytes = (uint64_t)terp_frame_write(&frame, stream) + 4, got;
    float few[4];
    const uint64_t step = UINT64_C(1) << 39;
    const void *src[] = {stream};
    void *dst[] = {few};
    enum terp_status status = TERP_OK;

    (void)state;
    terp_frame_seal(stream, nbytes);
    set_limit("64M");
    terp_allocations_start(UINT64_MAX, UINT64_MAX);
    assert_int_equal(
        terp_decode_coarse(stream, nbytes, step, few, sizeof few, &got, 1),
        TERP_ERR_LIMIT);
    assert_int_equal(terp_decode_coarse_batch(NULL, &frame.chunk, step, 1, src,
                                              &nbytes, dst, &status, NULL),
                     TERP_ERR_LIMIT);
    assert_int_equal(status, TERP_ERR_LIMIT);
    assert_int_equal(terp_allocations_stop().peak_nbytes, 0);
    assert_non_null(
        strstr(terp_status_text(TERP_ERR_LIMIT), "TERP_MAX_MEMORY"));
}

struct pool {
    uint64_t held_nbytes, peak_nbytes;
};

static void *
pool_allocate(void *arg, size_t nbytes)
{
    struct pool *pool = arg;
    uint8_t *at = malloc(nbytes + 64);

    assert_non_null(at);
    memcpy(at, &nbytes, sizeof nbytes);
    pool->held_nbytes += nbytes;
    if (pool->held_nbytes > pool->peak_nbytes)
        pool->peak_nbytes = pool->held_nbytes;
    return at + 64;
}

static void
pool_release(void *arg, void *at)
{
    struct pool *pool = arg;
    size_t nbytes;

    memcpy(&nbytes, (uint8_t *)at - 64, sizeof nbytes);
    pool->held_nbytes -= nbytes;
    free((uint8_t *)at - 64);
}

/* The chunks of a batch share the limit. The context's own allocator allocates
 * the memory within it. */
static void
batch_and_allocator_of_a_context_are_within_the_limit(void **state)
{
    static const struct terp_chunk chunk = {
        TERP_FLOAT32, false, false, 3, {32, 32, 32}};
    static const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                              .bound = 1e-4};
    struct pool pool = {0};
    struct terp_context_options shared = {.size = sizeof shared,
                                          .nthreads = 1,
                                          .device = -1,
                                          .allocate = pool_allocate,
                                          .release = pool_release,
                                          .allocator_arg = &pool};
    struct terp_run_options options = {.size = sizeof options};
    uint8_t *values;
    struct terp_stream stream =
        make_stream(&params, &chunk, TERP_FIELD_ROUGH, &values);
    uint8_t *decoded = terp_case_alloc(2 * terp_chunk_nbytes(&chunk));
    const void *src[] = {stream.bytes, stream.bytes};
    const uint64_t src_nbytes[] = {stream.nbytes, stream.nbytes};
    void *dst[] = {decoded, decoded + terp_chunk_nbytes(&chunk)};
    enum terp_status status[2];

    (void)state;
    assert_int_equal(terp_context_make(&shared, &options.context), TERP_OK);
    set_limit("1G");
    assert_int_equal(terp_decode_batch(&options, &chunk, 2, src, src_nbytes,
                                       dst, status, NULL),
                     TERP_OK);
    assert_true(pool.peak_nbytes > terp_chunk_nbytes(&chunk));
    assert_int_equal(pool.held_nbytes, 0);
    /* The memory of one chunk suffices for two, one after the other; less
     * memory does not. */
    const uint64_t peak_nbytes = pool.peak_nbytes;
    for (uint64_t less = 0; less < 2; less++) {
        set_nbytes(peak_nbytes - less);
        const enum terp_status wanted = less == 0 ? TERP_OK : TERP_ERR_LIMIT;
        assert_int_equal(terp_decode_batch(&options, &chunk, 2, src, src_nbytes,
                                           dst, status, NULL),
                         wanted);
        assert_int_equal(status[0], wanted);
        assert_int_equal(status[1], wanted);
        assert_true(pool.peak_nbytes == peak_nbytes);
        assert_int_equal(pool.held_nbytes, 0);
    }
    terp_context_destroy(options.context);
    free(stream.bytes);
    free(values);
    free(decoded);
}

static void
want_of_memory_stays_what_it_is(void **state)
{
    static const struct terp_chunk chunk = {
        TERP_FLOAT32, false, false, 3, {64, 64, 64}};
    static const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                              .bound = 1e-3};
    const uint64_t nbytes = terp_chunk_nbytes(&chunk);
    uint8_t *values, *decoded = terp_case_alloc(nbytes);
    struct terp_stream stream =
        make_stream(&params, &chunk, TERP_FIELD_SMOOTH, &values);
    uint64_t got;

    (void)state;
    set_limit("1G");
    terp_allocations_start(UINT64_MAX, nbytes / 4);
    assert_int_equal(
        terp_decode(stream.bytes, stream.nbytes, decoded, nbytes, &got, 1),
        TERP_ERR_MEMORY);
    assert_int_equal(terp_allocations_stop().nleaked, 0);
    free(stream.bytes);
    free(values);
    free(decoded);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(
            sizes_have_units_and_what_is_none_allows_nothing, remove_limit),
        cmocka_unit_test_teardown(call_takes_no_more_than_the_limit,
                                  remove_limit),
        cmocka_unit_test_teardown(chunk_beyond_the_limit_costs_nothing,
                                  remove_limit),
        cmocka_unit_test_teardown(
            batch_and_allocator_of_a_context_are_within_the_limit,
            remove_limit),
        cmocka_unit_test_teardown(want_of_memory_stays_what_it_is,
                                  remove_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
