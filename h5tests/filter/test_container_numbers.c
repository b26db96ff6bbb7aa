/* Containers of numbers: each member is a part of the chunk, with a shape and a
 * bound of its own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "codec/format/frame.h"
#include "filter/container.h"
#include "h5tests/support/allocations.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"

/* A cube and a map of float32 in each of several compound values. The values of
 * the map are a million times as large, and so is their bound. */
#define NMEMBERS 2
static const struct terp_chunk shapes[NMEMBERS] = {
    {TERP_FLOAT32, false, false, 3, {8, 8, 8}},
    {TERP_FLOAT32, false, false, 2, {16, 24}}};
static const float bounds[NMEMBERS] = {1e-3F, 1e3F};
#define LARGEST_NVALUES 512
#define VALUE_NBYTES (4 * (512 + 384))
#define MAX_NVALUES 3

struct numbers {
    uint64_t n; /* compound values */
    float values[MAX_NVALUES * VALUE_NBYTES / 4];
    uint8_t *container;
    uint64_t nbytes;
};

static struct terp_chunk
chunk_of(const struct numbers *numbers)
{
    return (struct terp_chunk){
        TERP_FLOAT32, false, false, 1, {numbers->n * VALUE_NBYTES / 4}};
}

/* Value `k` of member `member` in all compound values. */
static float *
value_at(float *values, int member, uint64_t k)
{
    const uint64_t length = member == 0 ? 512 : 384;

    return values + k / length * (VALUE_NBYTES / 4) + (member == 0 ? 0 : 512) +
           k % length;
}

static uint64_t
count(const struct numbers *numbers, int member)
{
    return numbers->n * (member == 0 ? 512 : 384);
}

static void
make(uint64_t n, struct numbers *numbers)
{
    struct terp_container_member members[NMEMBERS];
    uint8_t *streams[NMEMBERS];

    numbers->n = n;
    for (int i = 0; i < NMEMBERS; i++) {
        struct terp_chunk chunk = shapes[i];
        const struct terp_params params = {.size = sizeof params,
                                           .bound_mode = TERP_BOUND_ABSOLUTE,
                                           .bound = (double)bounds[i]};
        float values[MAX_NVALUES * LARGEST_NVALUES];
        if (n > 1) { /* a stack */
            memmove(chunk.dims + 1, chunk.dims,
                    (size_t)chunk.rank * sizeof *chunk.dims);
            chunk.dims[0] = n;
            chunk.rank++;
            chunk.stack = true;
        }
        terp_field_make(TERP_FIELD_ROUGH, &chunk, (uint8_t *)values);
        for (uint64_t k = 0; k < count(numbers, i); k++) {
            values[k] *= bounds[i] * 1e3F;
            *value_at(numbers->values, i, k) = values[k];
        }
        streams[i] = terp_case_alloc(terp_encode_bound(&chunk));
        members[i] = (struct terp_container_member){
            .nbytes = i == 0 ? 4 * 512 : 4 * 384, .stream = streams[i]};
        assert_int_equal(terp_encode(&params, &chunk, values, streams[i],
                                     terp_encode_bound(&chunk),
                                     &members[i].stream_nbytes, 1),
                         TERP_OK);
    }
    numbers->nbytes = terp_container_join_nbytes(members, NMEMBERS);
    numbers->container = terp_case_alloc(numbers->nbytes);
    terp_container_join(n, members, NMEMBERS, numbers->container);
    for (int i = 0; i < NMEMBERS; i++)
        free(streams[i]);
}

static void
decode(const uint8_t *bytes, uint64_t nbytes, float *values)
{
    struct terp_container container;
    struct terp_run run;

    assert_int_equal(terp_container_read(bytes, nbytes, &container), TERP_OK);
    assert_int_equal(terp_run_begin(NULL, NULL, &run), TERP_OK);
    assert_int_equal(terp_container_decode(&run, &container, NULL, values),
                     TERP_OK);
    assert_int_equal(terp_run_end(&run, TERP_OK, NULL), TERP_OK);
}

static void
members_keep_their_bounds(void **unused)
{
    static struct numbers numbers;
    static float decoded[MAX_NVALUES * VALUE_NBYTES / 4];

    (void)unused;
    for (uint64_t n = 1; n <= MAX_NVALUES; n++) {
        make(n, &numbers);
        decode(numbers.container, numbers.nbytes, decoded);
        for (int i = 0; i < NMEMBERS; i++)
            for (uint64_t k = 0; k < count(&numbers, i); k++)
                assert_true(fabsf(*value_at(decoded, i, k) -
                                  *value_at(numbers.values, i, k)) <=
                            bounds[i]);
        free(numbers.container);
    }
}

/* Changes `values`, which the container was decoded to, by a dataset's bound,
 * which is that of the map, or larger. `keeps`: some values stay. Returns the
 * bytes of the result. */
static uint64_t
change(const struct numbers *numbers, const float *values, bool keeps,
       uint8_t *dst)
{
    const struct terp_params params = {
        .size = sizeof params, .bound_mode = TERP_BOUND_ABSOLUTE, .bound = 1e6};
    const struct terp_chunk chunk = chunk_of(numbers);
    struct terp_container container;
    struct terp_run run;
    uint64_t nbytes;
    bool is_rewrite;

    assert_int_equal(
        terp_container_read(numbers->container, numbers->nbytes, &container),
        TERP_OK);
    assert_int_equal(terp_run_begin(NULL, NULL, &run), TERP_OK);
    assert_int_equal(terp_container_change(&run, &params, &chunk, &container,
                                           values, dst, &nbytes, &is_rewrite),
                     TERP_OK);
    assert_int_equal(terp_run_end(&run, TERP_OK, NULL), TERP_OK);
    assert_true(nbytes <= terp_container_change_bound(&container));
    assert_int_equal(is_rewrite, keeps);
    return nbytes;
}

static void
changed_values_keep_the_bound_of_their_member(void **unused)
{
    static struct numbers numbers;
    static float decoded[MAX_NVALUES * VALUE_NBYTES / 4];
    static float changed[MAX_NVALUES * VALUE_NBYTES / 4];
    static float result[MAX_NVALUES * VALUE_NBYTES / 4];
    static uint8_t dst[2 * MAX_NVALUES * VALUE_NBYTES];

    (void)unused;
    for (uint64_t n = 1; n <= MAX_NVALUES; n++) {
        make(n, &numbers);
        decode(numbers.container, numbers.nbytes, decoded);
        assert_int_equal(change(&numbers, decoded, true, dst), numbers.nbytes);
        assert_memory_equal(dst, numbers.container, numbers.nbytes);
        for (int i = 0; i < NMEMBERS; i++) {
            memcpy(changed, decoded, sizeof changed);
            for (uint64_t k = 100; k < 200; k++)
                *value_at(changed, i, k) += bounds[i] * (float)k;
            decode(dst, change(&numbers, changed, true, dst), result);
            for (int j = 0; j < NMEMBERS; j++)
                for (uint64_t k = 0; k < count(&numbers, j); k++)
                    if (j == i && k >= 100 && k < 200)
                        assert_true(fabsf(*value_at(result, j, k) -
                                          *value_at(changed, j, k)) <=
                                    bounds[j]);
                    else
                        assert_true(*value_at(result, j, k) ==
                                    *value_at(decoded, j, k));
        }
        free(numbers.container);
    }
}

/* The container of another chunk has its members in other places. */
static void
values_unlike_those_before_are_lossless(void **unused)
{
    static struct numbers numbers;
    static float values[MAX_NVALUES * VALUE_NBYTES / 4];
    static float result[MAX_NVALUES * VALUE_NBYTES / 4];
    static uint8_t dst[2 * MAX_NVALUES * VALUE_NBYTES];

    (void)unused;
    for (uint64_t n = 1; n <= MAX_NVALUES; n++) {
        make(n, &numbers);
        for (uint64_t k = 0; k < n * VALUE_NBYTES / 4; k++)
            values[k] = 1e-9F * (float)(k % 100);
        decode(dst, change(&numbers, values, false, dst), result);
        assert_memory_equal(result, values, n * VALUE_NBYTES);
        free(numbers.container);
    }
}

/* The chunk of another dataset. */
static void
other_numbers_are_refused(void **unused)
{
    static struct numbers numbers;
    static uint8_t dst[2 * MAX_NVALUES * VALUE_NBYTES];
    const struct terp_params params = {
        .size = sizeof params, .bound_mode = TERP_BOUND_ABSOLUTE, .bound = 1};
    struct terp_container container;
    struct terp_run run;
    uint64_t nbytes;
    bool is_rewrite;

    (void)unused;
    make(1, &numbers);
    assert_int_equal(
        terp_container_read(numbers.container, numbers.nbytes, &container),
        TERP_OK);
    for (int i = 0; i < 3; i++) {
        struct terp_chunk chunk = chunk_of(&numbers);
        if (i == 0)
            chunk.type = TERP_INT32;
        else if (i == 1)
            chunk.big_endian = true;
        else
            chunk.dims[0]++;
        assert_int_equal(terp_run_begin(NULL, NULL, &run), TERP_OK);
        assert_int_equal(terp_container_change(&run, &params, &chunk,
                                               &container, numbers.values, dst,
                                               &nbytes, &is_rewrite),
                         TERP_ERR_CORRUPT);
        (void)terp_run_end(&run, TERP_OK, NULL);
    }
    free(numbers.container);
}

static void
failing_allocations_are_errors(void **unused)
{
    static struct numbers numbers;
    static uint8_t dst[2 * MAX_NVALUES * VALUE_NBYTES];
    const struct terp_params params = {
        .size = sizeof params, .bound_mode = TERP_BOUND_ABSOLUTE, .bound = 1};
    struct terp_container container;
    uint64_t nbytes;
    bool is_rewrite;

    (void)unused;
    make(2, &numbers);
    const struct terp_chunk chunk = chunk_of(&numbers);
    assert_int_equal(
        terp_container_read(numbers.container, numbers.nbytes, &container),
        TERP_OK);
    for (uint64_t fail_at = 0;; fail_at++) {
        struct terp_run run;
        terp_allocations_start(fail_at, UINT64_MAX);
        (void)terp_run_begin(NULL, NULL, &run);
        const enum terp_status st =
            terp_container_change(&run, &params, &chunk, &container,
                                  numbers.values, dst, &nbytes, &is_rewrite);
        const struct terp_allocations used = terp_allocations_stop();
        assert_int_equal(used.nleaked, 0);
        if (used.ncalls <= fail_at)
            break;
        assert_true(st == TERP_OK || st == TERP_ERR_MEMORY);
        assert_true(fail_at > 0 || st == TERP_ERR_MEMORY);
    }
    free(numbers.container);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_keep_their_bounds),
        cmocka_unit_test(changed_values_keep_the_bound_of_their_member),
        cmocka_unit_test(values_unlike_those_before_are_lossless),
        cmocka_unit_test(other_numbers_are_refused),
        cmocka_unit_test(failing_allocations_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
