/* Blocks as the operator for ADIOS2 stores them, without ADIOS2: shapes, types,
 * pieces, and blocks that are damaged or hostile. */
#define _GNU_SOURCE /* for setenv */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adios2/block.h"
#include "codec/api/settings_text.h"
#include "codec/format/base.h"
#include "codec/format/types.h"
#include "h5tests/support/cmocka_all.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define TABLE_AT 24

static const struct terp_run_options two_threads = {.size = sizeof two_threads,
                                                    .nthreads = 2};

static struct terp_cd
settings(const char *text)
{
    unsigned words[TERP_SETTINGS_MAX_NWORDS];
    struct terp_cd cd;
    size_t nwords;

    assert_int_equal(terp_settings_read(text, words, &nwords, NULL), TERP_OK);
    assert_int_equal(terp_cd_parse(nwords, words, &cd, NULL), TERP_OK);
    return cd;
}

static uint64_t
count_values(const struct terp_block *block)
{
    uint64_t nvalues = 1;

    for (int i = 0; i < block->ndims; i++)
        nvalues *= block->dims[i];
    return nvalues;
}

/* A smooth field, in the type's own units. */
static void
fill(const struct terp_block *block, void *values)
{
    const uint64_t nvalues = count_values(block);

    for (uint64_t i = 0; i < nvalues; i++) {
        const double value = 50 * sin(0.01 * (double)i) + 60;
        switch (block->type) {
        case TERP_FLOAT32:
            ((float *)values)[i] = (float)value;
            break;
        case TERP_FLOAT64:
            ((double *)values)[i] = value;
            break;
        case TERP_COMPLEX64:
            ((float *)values)[2 * i] = (float)value;
            ((float *)values)[2 * i + 1] = (float)-value;
            break;
        case TERP_COMPLEX128:
            ((double *)values)[2 * i] = value;
            ((double *)values)[2 * i + 1] = 2 * value;
            break;
        default:
            store_le((uint8_t *)values + i * block->value_nbytes,
                     (uint64_t)value, (int)min_u64(block->value_nbytes, 8));
            break;
        }
    }
}

static double
number_at(const struct terp_block *block, const void *values, uint64_t i)
{
    switch (terp_type_of_part(block->type)) {
    case TERP_FLOAT32:
        return (double)((const float *)values)[i];
    case TERP_FLOAT64:
        return ((const double *)values)[i];
    default:
        return (double)((const uint8_t *)values)[i];
    }
}

/* Encodes and decodes a block; checks the bound, or every bit if it is 0.
 * Returns the bytes of the encoded block. */
static uint64_t
check_block(const struct terp_block *block, const char *text, double bound)
{
    const uint64_t nvalues = count_values(block);
    const uint64_t nbytes = nvalues * block->value_nbytes;
    const uint64_t cap_nbytes = terp_block_bound(block);
    const struct terp_cd cd = settings(text);
    uint8_t *values = calloc(nbytes + 16, 1), *decoded = malloc(nbytes + 16);
    uint8_t *encoded = malloc(cap_nbytes + 1);
    uint64_t encoded_nbytes = 0, decoded_nbytes = 0;

    assert_true(cap_nbytes > 0);
    fill(block, values);
    encoded[cap_nbytes] = 0xA5;
    assert_int_equal(terp_block_encode(&two_threads, &cd, block, values,
                                       encoded, &encoded_nbytes),
                     TERP_OK);
    assert_in_range(encoded_nbytes, TABLE_AT, cap_nbytes);
    assert_int_equal(encoded[cap_nbytes], 0xA5);
    memset(decoded, 0x5A, nbytes + 16);
    assert_int_equal(terp_block_decode(&two_threads, encoded, encoded_nbytes,
                                       decoded, nbytes, &decoded_nbytes),
                     TERP_OK);
    assert_int_equal(decoded_nbytes, nbytes);
    assert_int_equal(decoded[nbytes], 0x5A);
    if (bound == 0)
        assert_memory_equal(values, decoded, nbytes);
    const uint64_t nparts = nvalues * (uint64_t)terp_type_nparts(block->type);
    for (uint64_t i = 0; bound > 0 && i < nparts; i++)
        assert_true(fabs(number_at(block, values, i) -
                         number_at(block, decoded, i)) <= bound);
    free(values);
    free(decoded);
    free(encoded);
    return encoded_nbytes;
}

static void
all_types_and_ranks_survive(void **state)
{
    static const uint64_t dims[] = {1, 3, 2, 1, 5, 4, 7, 6};

    (void)state;
    for (int type = 0; type < TERP_NTYPES; type++)
        for (int ndims = 0; ndims <= 8; ndims++) {
            const struct terp_block block = {
                .type = (enum terp_type)type,
                .value_nbytes =
                    type == TERP_BYTES
                        ? 16
                        : (uint64_t)terp_value_nbytes((enum terp_type)type),
                .ndims = ndims,
                .dims = dims + 8 - ndims};
            check_block(&block, "lossless=true", 0);
            if (terp_type_is_plain(terp_type_of_part((enum terp_type)type)) &&
                type != TERP_BYTES)
                check_block(&block, "abs=0.01", 0.01);
        }
}

static void
pieces_hold_all_values(void **state)
{
    static const uint64_t limits[] = {1, 2, 13, 56, 57, 113, 840, 839, 100000};
    static const uint64_t dims[] = {15, 7, 8};

    (void)state;
    for (size_t i = 0; i < COUNT(limits); i++)
        for (int ndims = 1; ndims <= 3; ndims++) {
            const struct terp_block block = {.type = TERP_FLOAT64,
                                             .value_nbytes = 8,
                                             .ndims = ndims,
                                             .dims = dims,
                                             .piece_nvalues = limits[i]};
            check_block(&block, "lossless=true", 0);
            /* The range of a piece is at most that of the block, 100. */
            check_block(&block, "rel=1e-3", 0.1);
        }
}

static void
large_blocks_have_few_pieces(void **state)
{
    const uint64_t dims[] = {3000, 70, 90};
    const struct terp_block block = {
        .type = TERP_FLOAT32, .value_nbytes = 4, .ndims = 3, .dims = dims};

    (void)state;
    /* Two pieces of at most 2^24 values. */
    assert_int_equal(terp_block_bound(&block),
                     TABLE_AT + 2 * (8 + 64) + UINT64_C(3000) * 70 * 90 * 4);
    assert_in_range(check_block(&block, "abs=0.5,pipeline=speed", 0.5), 1,
                    UINT64_C(3000) * 70 * 90);
}

static void
blocks_without_values_survive(void **state)
{
    const uint64_t dims[] = {3, 0, 5};
    const struct terp_block block = {
        .type = TERP_FLOAT32, .value_nbytes = 4, .ndims = 3, .dims = dims};

    (void)state;
    assert_int_equal(check_block(&block, "rel=1e-3", 0), TABLE_AT);
}

/* Values that do not compress take no more than the bound says. */
static void
noise_fits_the_bound(void **state)
{
    const uint64_t dims[] = {1000};
    const struct terp_block block = {.type = TERP_UINT64,
                                     .value_nbytes = 8,
                                     .ndims = 1,
                                     .dims = dims,
                                     .piece_nvalues = 10};
    const struct terp_cd cd = settings("lossless=true");
    uint64_t values[1000], decoded[1000], nbytes, seed = 1;
    uint8_t *encoded = malloc(terp_block_bound(&block));

    (void)state;
    for (size_t i = 0; i < COUNT(values); i++)
        values[i] = seed = seed * UINT64_C(6364136223846793005) + 1442695;
    assert_int_equal(
        terp_block_encode(NULL, &cd, &block, values, encoded, &nbytes),
        TERP_OK);
    assert_in_range(nbytes, sizeof values, terp_block_bound(&block));
    assert_int_equal(terp_block_decode(NULL, encoded, nbytes, decoded,
                                       sizeof decoded, &nbytes),
                     TERP_OK);
    assert_memory_equal(values, decoded, sizeof values);
    free(encoded);
}

/* A program may hand over values anywhere in memory. */
static void
values_need_no_alignment(void **state)
{
    const uint64_t dims[] = {6, 50};
    const struct terp_block block = {.type = TERP_FLOAT64,
                                     .value_nbytes = 8,
                                     .ndims = 2,
                                     .dims = dims,
                                     .piece_nvalues = 100};
    const struct terp_cd cd = settings("lossless=true");
    uint8_t *values = malloc(2401), *decoded = malloc(2401);
    uint8_t *encoded = malloc(terp_block_bound(&block));
    uint64_t nbytes;

    (void)state;
    for (int i = 0; i < 300; i++) {
        const double value = sin(i);
        memcpy(values + 1 + 8 * i, &value, 8);
    }
    assert_int_equal(
        terp_block_encode(NULL, &cd, &block, values + 1, encoded, &nbytes),
        TERP_OK);
    assert_int_equal(
        terp_block_decode(NULL, encoded, nbytes, decoded + 1, 2400, &nbytes),
        TERP_OK);
    assert_memory_equal(values + 1, decoded + 1, 2400);
    free(values);
    free(decoded);
    free(encoded);
}

static void
impossible_blocks_are_refused(void **state)
{
    const uint64_t large[] = {UINT64_C(1) << 40, UINT64_C(1) << 23};
    const uint64_t dims[TERP_BLOCK_MAX_NDIMS + 1] = {1};
    const struct terp_cd cd = settings("rel=1e-3");
    struct terp_block block = {
        .type = TERP_FLOAT32, .value_nbytes = 4, .ndims = 2, .dims = large};
    uint64_t nbytes;
    float value = 1;
    uint8_t encoded[200];

    (void)state;
    for (int i = 0; i < 3; i++) {
        if (i == 1) {
            block.dims = dims;
            block.ndims = TERP_BLOCK_MAX_NDIMS + 1;
        } else if (i == 2) {
            block.ndims = 0;
            block.value_nbytes = 8;
        }
        assert_int_equal(terp_block_bound(&block), 0);
        assert_int_equal(
            terp_block_encode(NULL, &cd, &block, &value, encoded, &nbytes),
            TERP_ERR_ARGUMENT);
    }
}

static void
memory_is_limited(void **state)
{
    const uint64_t dims[] = {100, 100};
    const struct terp_block block = {
        .type = TERP_FLOAT32, .value_nbytes = 4, .ndims = 2, .dims = dims};
    const struct terp_cd cd = settings("rel=1e-3");
    static float values[10000];
    uint8_t *encoded = malloc(terp_block_bound(&block));
    uint64_t nbytes;

    (void)state;
    setenv("TERP_MAX_MEMORY", "1K", 1);
    assert_int_equal(
        terp_block_encode(NULL, &cd, &block, values, encoded, &nbytes),
        TERP_ERR_LIMIT);
    unsetenv("TERP_MAX_MEMORY");
    assert_int_equal(
        terp_block_encode(NULL, &cd, &block, values, encoded, &nbytes),
        TERP_OK);
    free(encoded);
}

/* ---- damaged and hostile blocks ---- */

#define NVALUES 600
static uint8_t good[8 * NVALUES];
static uint64_t good_nbytes;

static int
make_good(void **state)
{
    const uint64_t dims[] = {6, NVALUES / 6};
    const struct terp_block block = {.type = TERP_FLOAT32,
                                     .value_nbytes = 4,
                                     .ndims = 2,
                                     .dims = dims,
                                     .piece_nvalues = 200};
    const struct terp_cd cd = settings("rel=1e-3");
    float values[NVALUES];

    (void)state;
    assert_true(terp_block_bound(&block) <= sizeof good);
    fill(&block, values);
    assert_int_equal(
        terp_block_encode(NULL, &cd, &block, values, good, &good_nbytes),
        TERP_OK);
    return 0;
}

/* Decodes a copy of exactly `nbytes`, so that a sanitizer sees each byte that
 * is read beyond; no destination is written beyond its capacity. */
static enum terp_status
decode_copy(const uint8_t *src, uint64_t nbytes, uint64_t cap_nbytes)
{
    uint8_t *copy = malloc(nbytes + (nbytes == 0));
    uint8_t *decoded = malloc(cap_nbytes + 1);
    uint64_t decoded_nbytes;

    memcpy(copy, src, nbytes);
    decoded[cap_nbytes] = 0x5A;
    const enum terp_status st = terp_block_decode(NULL, copy, nbytes, decoded,
                                                  cap_nbytes, &decoded_nbytes);
    assert_int_equal(decoded[cap_nbytes], 0x5A);
    assert_int_equal(decoded_nbytes, st == TERP_OK ? 4 * NVALUES : 0);
    free(copy);
    free(decoded);
    return st;
}

static void
truncated_blocks_are_refused(void **state)
{
    (void)state;
    assert_int_equal(decode_copy(good, good_nbytes, 4 * NVALUES), TERP_OK);
    for (uint64_t n = 0; n < good_nbytes; n++)
        assert_int_not_equal(decode_copy(good, n, 4 * NVALUES), TERP_OK);
}

static void
every_damaged_byte_is_noticed(void **state)
{
    uint8_t damaged[sizeof good];

    (void)state;
    for (uint64_t i = 0; i < good_nbytes; i++) {
        memcpy(damaged, good, good_nbytes);
        damaged[i] ^= (uint8_t)(1 << i % 8);
        assert_int_not_equal(decode_copy(damaged, good_nbytes, 4 * NVALUES),
                             TERP_OK);
    }
}

static void
small_destinations_are_not_written(void **state)
{
    (void)state;
    assert_int_equal(decode_copy(good, good_nbytes, 4 * NVALUES - 1),
                     TERP_ERR_CAPACITY);
    assert_int_equal(decode_copy(good, good_nbytes, 0), TERP_ERR_CAPACITY);
}

static void
contradicting_tables_are_refused(void **state)
{
    static const uint64_t numbers[] = {0,
                                       1,
                                       2,
                                       4,
                                       2401,
                                       2399,
                                       4 * 200,
                                       UINT32_MAX,
                                       UINT64_MAX,
                                       INT64_MAX,
                                       UINT64_MAX / 8 - 2,
                                       UINT64_MAX - 47};
    uint8_t changed[sizeof good];

    (void)state;
    for (int at = 8; at < TABLE_AT + 8 * 3; at += 8)
        for (size_t i = 0; i < COUNT(numbers); i++) {
            memcpy(changed, good, good_nbytes);
            store_le(changed + at, numbers[i], 8);
            assert_int_not_equal(decode_copy(changed, good_nbytes, 4 * NVALUES),
                                 TERP_OK);
        }
    /* Whole pieces that do not belong together: a float64 behind float32. */
    const struct terp_chunk chunk = {
        .type = TERP_FLOAT64, .rank = 1, .dims = {100}};
    struct terp_params params = {.size = sizeof params,
                                 .bound_mode = TERP_BOUND_ABSOLUTE};
    double values[100] = {0};
    uint64_t first_nbytes = load_le(good + TABLE_AT, 8), nbytes;
    memcpy(changed, good, TABLE_AT);
    store_le(changed + 8, 800 + 800, 8);
    store_le(changed + 16, 2, 8);
    store_le(changed + TABLE_AT, first_nbytes, 8);
    memcpy(changed + TABLE_AT + 16, good + TABLE_AT + 24, first_nbytes);
    assert_int_equal(terp_encode(&params, &chunk, values,
                                 changed + TABLE_AT + 16 + first_nbytes, 1000,
                                 &nbytes, 1),
                     TERP_OK);
    store_le(changed + TABLE_AT + 8, nbytes, 8);
    assert_int_equal(
        decode_copy(changed, TABLE_AT + 16 + first_nbytes + nbytes, 1600),
        TERP_ERR_CORRUPT);
}

static void
later_versions_are_named(void **state)
{
    uint8_t changed[sizeof good];

    (void)state;
    memcpy(changed, good, good_nbytes);
    changed[4] = 2;
    assert_int_equal(decode_copy(changed, good_nbytes, 4 * NVALUES),
                     TERP_ERR_VERSION);
    changed[0] = 'T';
    assert_int_equal(decode_copy(changed, good_nbytes, 4 * NVALUES),
                     TERP_ERR_MAGIC);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_types_and_ranks_survive),
        cmocka_unit_test(pieces_hold_all_values),
        cmocka_unit_test(large_blocks_have_few_pieces),
        cmocka_unit_test(blocks_without_values_survive),
        cmocka_unit_test(noise_fits_the_bound),
        cmocka_unit_test(values_need_no_alignment),
        cmocka_unit_test(impossible_blocks_are_refused),
        cmocka_unit_test(memory_is_limited),
        cmocka_unit_test(truncated_blocks_are_refused),
        cmocka_unit_test(every_damaged_byte_is_noticed),
        cmocka_unit_test(small_destinations_are_not_written),
        cmocka_unit_test(contradicting_tables_are_refused),
        cmocka_unit_test(later_versions_are_named),
    };

    return cmocka_run_group_tests(tests, make_good, NULL);
}
