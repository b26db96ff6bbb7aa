/* Containers of compound values: every type of member, any size, and bytes that
 * no encoder writes. The test limits the decoder's memory; sanitizers check its
 * accesses. */
#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "codec/format/frame.h"
#include "filter/container.h"
#include "h5tests/support/allocations.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Places in the head. doc/format.md. */
enum {
    VERSION_AT = 5,
    NVALUES_AT = 16,
    NMEMBERS_AT = 24,
    VALUE_NBYTES_AT = 28,
    MEMBERS_AT = 32,
    STREAM_NBYTES_AT = 4, /* in an entry */
    ENTRY_NBYTES = 12
};

/* Bounds what decoding a chunk of these tests takes: codebooks, and some times
 * the bytes of a member. */
#define MAX_WORKING_NBYTES ((uint64_t)4 << 20)

static uint64_t state;

static uint64_t
draw(uint64_t end)
{
    return terp_field_mix(++state) % end;
}

static void
add(struct terp_cd *cd, enum terp_type type, bool big_endian, int rule,
    uint32_t length)
{
    const struct terp_member member = {.type = type,
                                       .big_endian = big_endian,
                                       .rule = rule,
                                       .rank = length > 0,
                                       .dims = {length}};

    assert_true(terp_compound_add(&cd->compound, &member));
}

/* A dataset of compound values with a bound of 1e-3 of each member's range. */
static struct terp_cd
new_cd(enum terp_bound_mode mode, double bound)
{
    return (struct terp_cd){.params = {.size = sizeof(struct terp_params),
                                       .bound_mode = mode,
                                       .bound = bound}};
}

/* A value of `member` from a smooth curve. */
static void
put_member(const struct terp_member *member, uint64_t i, uint8_t *at)
{
    const struct terp_chunk one = {
        member->type, member->big_endian, false, 1, {512}};
    static uint8_t curve[512 * 16];
    static struct terp_chunk of_curve;

    if (!terp_chunks_are_alike(&one, &of_curve))
        terp_field_make(TERP_FIELD_ROUGH, &one, curve);
    of_curve = one;
    const uint64_t nbytes = terp_chunk_nbytes(&one) / 512;
    memcpy(at, curve + i % 512 * nbytes, nbytes);
}

static uint8_t *
make_values(const struct terp_cd *cd)
{
    const uint64_t nvalues = terp_compound_nvalues(&cd->compound);
    const uint32_t value_nbytes = cd->compound.value_nbytes;
    uint8_t *values = terp_case_alloc(nvalues * value_nbytes);
    struct terp_member_walk walk = {.at = 0};

    while (terp_member_next(&cd->compound, &walk)) {
        struct terp_member one = walk.member;
        one.rank = 0;
        const uint32_t n = walk.nbytes / terp_member_nbytes(&one);
        for (uint64_t i = 0; i < nvalues; i++)
            for (uint32_t k = 0; k < n; k++)
                put_member(&one, i + 5 * k,
                           values + i * value_nbytes + walk.at +
                               k * terp_member_nbytes(&one));
    }
    return values;
}

/* The container, in memory that ends with it. */
static struct terp_stream
encode(const struct terp_cd *cd, const uint8_t *values,
       const struct terp_container *before)
{
    struct terp_stream coded = {
        terp_case_alloc(terp_container_bound(&cd->compound)), 0};
    struct terp_run run;
    bool is_rewrite;

    assert_int_equal(terp_run_begin(NULL, NULL, &run), TERP_OK);
    assert_int_equal(terp_container_encode(&run, cd, values, before,
                                           coded.bytes, &coded.nbytes,
                                           &is_rewrite),
                     TERP_OK);
    assert_true(coded.nbytes <= terp_container_bound(&cd->compound));
    coded.bytes = realloc(coded.bytes, coded.nbytes);
    assert_non_null(coded.bytes);
    return coded;
}

/* Decodes as a reader of a dataset with these cd_values does; `cd` NULL: as one
 * without cd_values. */
static enum terp_status
decode(const struct terp_stream *coded, const struct terp_cd *cd,
       uint64_t chunk_nbytes, uint8_t *values)
{
    struct terp_container container;
    struct terp_run run;
    enum terp_status st =
        terp_container_read(coded->bytes, coded->nbytes, &container);

    if (st != TERP_OK)
        return st;
    if (terp_container_chunk_nbytes(&container) != chunk_nbytes)
        return TERP_ERR_CORRUPT;
    terp_allocations_start(UINT64_MAX, MAX_WORKING_NBYTES);
    (void)terp_run_begin(NULL, NULL, &run);
    st = terp_container_decode(&run, &container,
                               cd == NULL ? NULL : &cd->compound, values);
    st = terp_run_end(&run, st, NULL);
    const struct terp_allocations used = terp_allocations_stop();
    assert_int_equal(used.nleaked, 0);
    assert_true(used.peak_nbytes <= MAX_WORKING_NBYTES);
    return st;
}

static void
gather(const uint8_t *values, const struct terp_compound *compound,
       const struct terp_member_walk *walk, uint8_t *member_ret)
{
    const uint64_t nvalues = terp_compound_nvalues(compound);

    for (uint64_t i = 0; i < nvalues; i++)
        memcpy(member_ret + i * walk->nbytes,
               values + i * compound->value_nbytes + walk->at, walk->nbytes);
}

static void
compare_integers(const struct terp_chunk *chunk, const uint8_t *a,
                 const uint8_t *b, uint64_t bound)
{
    const int nbits = 8 * value_nbytes(chunk->type);
    const uint64_t mask = UINT64_MAX >> (64 - nbits);

    for (uint64_t i = 0; i < chunk_nvalues(chunk); i++) {
        const uint64_t difference =
            value_bits(chunk, a, i) - value_bits(chunk, b, i);
        assert_true(min_u64(difference & mask, -difference & mask) <= bound);
    }
}

/* Each member keeps its bound. */
static void
check_members(const struct terp_cd *cd, const uint8_t *values,
              const uint8_t *decoded)
{
    struct terp_member_walk walk = {.at = 0};
    struct terp_chunk chunk;

    while (terp_member_next(&cd->compound, &walk)) {
        const struct terp_params params =
            terp_cd_member_params(cd, &walk.member);
        assert_int_equal(terp_member_chunk(&cd->compound, &walk.member, &chunk),
                         TERP_OK);
        uint8_t *a = terp_case_alloc(terp_chunk_nbytes(&chunk));
        uint8_t *b = terp_case_alloc(terp_chunk_nbytes(&chunk));
        gather(values, &cd->compound, &walk, a);
        gather(decoded, &cd->compound, &walk, b);
        /* The parts of complex values are numbers of a longer line. */
        chunk.dims[chunk.rank - 1] *= (uint64_t)terp_type_nparts(chunk.type);
        chunk.type = terp_type_of_part(chunk.type);
        if (terp_type_is_integer(chunk.type))
            compare_integers(&chunk, a, b,
                             params.bound_mode == TERP_BOUND_ABSOLUTE
                                 ? (uint64_t)params.bound
                                 : 0);
        else
            terp_case_compare(terp_type_name(chunk.type), &params, &chunk, a, b,
                              terp_case_bound(&params, &chunk, a));
        free(a);
        free(b);
    }
}

static void
check(const struct terp_cd *cd)
{
    const uint64_t nbytes = terp_chunk_nbytes(&cd->chunk);
    uint8_t *values = make_values(cd), *decoded = terp_case_alloc(nbytes);
    struct terp_stream coded = encode(cd, values, NULL);

    assert_true(terp_container_is(coded.bytes, coded.nbytes));
    assert_int_equal(decode(&coded, cd, nbytes, decoded), TERP_OK);
    check_members(cd, values, decoded);
    memset(decoded, 0xA5, nbytes);
    assert_int_equal(decode(&coded, NULL, nbytes, decoded), TERP_OK);
    check_members(cd, values, decoded);
    free(values);
    free(decoded);
    free(coded.bytes);
}

static void
every_type_keeps_its_bound(void **unused)
{
    static const uint64_t dims[][3] = {
        {1, 1, 1}, {2, 1, 1}, {700, 1, 1}, {9, 8, 1}, {5, 6, 7}};
    static const int ndims[] = {1, 1, 1, 2, 3};

    (void)unused;
    for (size_t d = 0; d < COUNT(dims); d++) {
        struct terp_cd cd = new_cd(TERP_BOUND_RELATIVE, 1e-3);
        for (int type = 0; type < TERP_NTYPES; type++) {
            if (type == TERP_BYTES)
                continue;
            add(&cd, (enum terp_type)type, type % 2 == 1, 0, 0);
            add(&cd, (enum terp_type)type, type % 2 == 0, 0,
                (uint32_t)type % 3);
        }
        terp_cd_apply_compound(&cd, ndims[d], dims[d]);
        assert_int_equal(cd.pass, TERP_PASS_BY_MEMBER);
        check(&cd);
    }
}

/* Members of odd sizes in any order, and rules. */
static void
drawn_members_keep_their_bounds(void **unused)
{
    (void)unused;
    for (int i = 0; i < 60; i++) {
        struct terp_cd cd = new_cd(TERP_BOUND_ABSOLUTE, 0.01);
        const uint64_t nvalues = 1 + draw(200);
        cd.nrules = 2;
        cd.rules[0] = (struct terp_cd_rule){1, TERP_BOUND_RELATIVE, 1e-2};
        cd.rules[1] = (struct terp_cd_rule){2, TERP_BOUND_ABSOLUTE, 3};
        for (uint64_t n = 1 + draw(12); n > 0; n--) {
            enum terp_type type = (enum terp_type)draw(TERP_NTYPES);
            if (type == TERP_BYTES)
                type = TERP_UINT8;
            add(&cd, type, draw(2), (int)draw(3), (uint32_t)draw(9));
        }
        terp_cd_apply_compound(&cd, 1, &nvalues);
        check(&cd);
    }
}

/* A chunk that ends in zeros or in equal values, as HDF5 pads it: the range of
 * a member is that of the other values. */
static void
padding_widens_no_range(void **unused)
{
    const uint64_t nvalues = 400, nwritten = 300;

    (void)unused;
    for (int fill = 0; fill < 2; fill++) {
        struct terp_cd cd = new_cd(TERP_BOUND_RELATIVE, 1e-3);
        add(&cd, TERP_FLOAT64, fill == 1, 0, 0);
        add(&cd, TERP_INT32, false, 0, 0);
        terp_cd_apply_compound(&cd, 1, &nvalues);
        const uint32_t value_nbytes = cd.compound.value_nbytes;
        uint8_t *values = make_values(&cd);
        uint8_t *decoded = terp_case_alloc(nvalues * value_nbytes);
        for (uint64_t i = 0; i < nvalues; i++) {
            uint64_t bits;
            double value = i < nwritten ? 1e9 + (double)i / 300
                           : fill == 1  ? -1e30
                                        : 0;
            memcpy(&bits, &value, sizeof bits);
            if (fill == 1)
                bits = __builtin_bswap64(bits);
            memcpy(values + i * value_nbytes, &bits, sizeof bits);
            if (i >= nwritten)
                memset(values + i * value_nbytes + 8, 0, 4);
        }
        struct terp_stream coded = encode(&cd, values, NULL);
        assert_int_equal(decode(&coded, &cd, nvalues * value_nbytes, decoded),
                         TERP_OK);
        for (uint64_t i = 0; i < nvalues; i++) {
            uint64_t bits;
            double value;
            memcpy(&bits, decoded + i * value_nbytes, sizeof bits);
            if (fill == 1)
                bits = __builtin_bswap64(bits);
            memcpy(&value, &bits, sizeof bits);
            if (i < nwritten)
                assert_true(fabs(value - (1e9 + (double)i / 300)) <= 1.01e-3);
            else
                assert_true(value == (fill == 1 ? -1e30 : 0));
        }
        free(values);
        free(decoded);
        free(coded.bytes);
    }
}

/* ---- hostile bytes ---- */

/* A container of three members, one of them an array. */
static struct terp_cd
small_cd(void)
{
    static const uint64_t nvalues = 40;
    struct terp_cd cd = new_cd(TERP_BOUND_RELATIVE, 1e-3);

    add(&cd, TERP_FLOAT32, false, 0, 0);
    add(&cd, TERP_UINT16, false, 0, 0);
    add(&cd, TERP_FLOAT64, true, 0, 3);
    terp_cd_apply_compound(&cd, 1, &nvalues);
    return cd;
}

static void
seal(struct terp_stream *coded)
{
    const uint64_t nbytes =
        MEMBERS_AT + ENTRY_NBYTES * load_le(coded->bytes + NMEMBERS_AT, 4);

    if (nbytes <= coded->nbytes)
        terp_frame_seal(coded->bytes, nbytes);
}

static void
changed_heads_are_refused(void **unused)
{
    static const struct {
        const char *what;
        int at, nbytes;
        uint64_t word;
        enum terp_status st;
    } cases[] = {
        {"a newer version", VERSION_AT, 1, 2, TERP_ERR_VERSION},
        {"a reserved byte", 7, 1, 1, TERP_ERR_CORRUPT},
        {"no values", NVALUES_AT, 8, 0, TERP_ERR_CORRUPT},
        {"fewer values", NVALUES_AT, 8, 39, TERP_ERR_CORRUPT},
        {"more values", NVALUES_AT, 8, 41, TERP_ERR_CORRUPT},
        {"too many values", NVALUES_AT, 8, UINT64_MAX, TERP_ERR_CORRUPT},
        {"no members", NMEMBERS_AT, 4, 0, TERP_ERR_CORRUPT},
        {"one member", NMEMBERS_AT, 4, 1, TERP_ERR_CORRUPT},
        {"too many members", NMEMBERS_AT, 4, UINT32_MAX, TERP_ERR_CORRUPT},
        {"members beyond the end", NMEMBERS_AT, 4, 4096, TERP_ERR_TRUNCATED},
        {"larger values", VALUE_NBYTES_AT, 4, 31, TERP_ERR_CORRUPT},
        {"values of no bytes", VALUE_NBYTES_AT, 4, 0, TERP_ERR_CORRUPT},
        {"a member of no bytes", MEMBERS_AT, 4, 0, TERP_ERR_CORRUPT},
        {"a larger member", MEMBERS_AT, 4, 8, TERP_ERR_CORRUPT},
        {"a member beyond the value", MEMBERS_AT, 4, UINT32_MAX,
         TERP_ERR_CORRUPT},
        {"a stream of no bytes", MEMBERS_AT + STREAM_NBYTES_AT, 8, 0,
         TERP_ERR_CORRUPT},
        {"a stream beyond the end", MEMBERS_AT + STREAM_NBYTES_AT, 8,
         UINT64_MAX, TERP_ERR_CORRUPT},
    };
    const struct terp_cd cd = small_cd();
    const uint64_t nbytes = terp_chunk_nbytes(&cd.chunk);
    uint8_t *values = make_values(&cd), *decoded = terp_case_alloc(nbytes);

    (void)unused;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct terp_stream coded = encode(&cd, values, NULL);
        store_le(coded.bytes + cases[i].at, cases[i].word, cases[i].nbytes);
        assert_int_not_equal(decode(&coded, &cd, nbytes, decoded), TERP_OK);
        seal(&coded);
        if (decode(&coded, &cd, nbytes, decoded) != cases[i].st)
            fail_msg("%s", cases[i].what);
        free(coded.bytes);
    }
    free(values);
    free(decoded);
}

static uint64_t
word_at(const struct terp_stream *coded, int at, int nbytes)
{
    return load_le(coded->bytes + at, nbytes);
}

/* Sizes that fit together, but not the streams. */
static void
sizes_that_deceive_are_refused(void **unused)
{
    const int size_at = MEMBERS_AT, next_at = MEMBERS_AT + ENTRY_NBYTES;
    const struct terp_cd cd = small_cd();
    const uint64_t nbytes = terp_chunk_nbytes(&cd.chunk);
    uint8_t *values = make_values(&cd), *decoded = terp_case_alloc(nbytes);

    (void)unused;
    for (int more = -2; more <= 1; more++) {
        struct terp_stream coded = encode(&cd, values, NULL);
        if (more == 0) { /* the sum of the streams' bytes wraps around */
            const uint64_t first = word_at(&coded, size_at + 4, 8);
            const uint64_t second = word_at(&coded, next_at + 4, 8);
            store_le(coded.bytes + size_at + 4, UINT64_MAX, 8);
            store_le(coded.bytes + next_at + 4, first + second + 1, 8);
        } else { /* one member has bytes of another */
            store_le(coded.bytes + size_at,
                     word_at(&coded, size_at, 4) + (uint64_t)more, 4);
            store_le(coded.bytes + next_at,
                     word_at(&coded, next_at, 4) - (uint64_t)more, 4);
        }
        seal(&coded);
        assert_int_equal(decode(&coded, NULL, nbytes, decoded),
                         TERP_ERR_CORRUPT);
        free(coded.bytes);
    }
    free(values);
    free(decoded);
}

/* Each changed byte is noticed: the head has a checksum, and each stream. */
static void
changed_bytes_are_refused(void **unused)
{
    const struct terp_cd cd = small_cd();
    const uint64_t nbytes = terp_chunk_nbytes(&cd.chunk);
    uint8_t *values = make_values(&cd), *decoded = terp_case_alloc(nbytes);
    struct terp_stream coded = encode(&cd, values, NULL);

    (void)unused;
    for (uint64_t i = 0; i < coded.nbytes; i++) {
        coded.bytes[i] ^= 1 << draw(8);
        assert_int_not_equal(decode(&coded, &cd, nbytes, decoded), TERP_OK);
        free(coded.bytes);
        coded = encode(&cd, values, NULL);
    }
    free(values);
    free(decoded);
    free(coded.bytes);
}

/* Heads with random changes and the right checksum decode, or are refused. */
static void
sealed_changes_are_safe(void **unused)
{
    const struct terp_cd cd = small_cd();
    const uint64_t nbytes = terp_chunk_nbytes(&cd.chunk);
    uint8_t *values = make_values(&cd), *decoded = terp_case_alloc(nbytes);

    (void)unused;
    for (int i = 0; i < 3000; i++) {
        struct terp_stream coded = encode(&cd, values, NULL);
        for (uint64_t n = 1 + draw(3); n > 0; n--)
            coded.bytes[5 + draw(MEMBERS_AT + 3 * ENTRY_NBYTES - 5)] =
                (uint8_t)draw(256);
        seal(&coded);
        (void)decode(&coded, draw(2) ? &cd : NULL, nbytes, decoded);
        free(coded.bytes);
    }
    free(values);
    free(decoded);
}

static void
every_truncation_is_refused(void **unused)
{
    const struct terp_cd cd = small_cd();
    const uint64_t nbytes = terp_chunk_nbytes(&cd.chunk);
    uint8_t *values = make_values(&cd), *decoded = terp_case_alloc(nbytes);
    struct terp_stream coded = encode(&cd, values, NULL);

    (void)unused;
    for (uint64_t n = 0; n < coded.nbytes; n++) {
        struct terp_stream shorter = {terp_case_alloc(n + 1), n};
        memcpy(shorter.bytes, coded.bytes, n);
        assert_int_not_equal(decode(&shorter, &cd, nbytes, decoded), TERP_OK);
        free(shorter.bytes);
    }
    free(values);
    free(decoded);
    free(coded.bytes);
}

/* Streams that fit the container's own head, but not the dataset's table:
 * another type, byte order or shape of a member, and members in another
 * order. */
static void
other_members_than_the_table_are_refused(void **unused)
{
    static const struct terp_member first[] = {
        {TERP_FLOAT32, false, 0, 0, {0}}, /* as the table says */
        {TERP_UINT32, false, 0, 0, {0}},  /* another type */
        {TERP_FLOAT32, true, 0, 0, {0}},  /* another byte order */
        {TERP_FLOAT16, false, 0, 1, {2}}, /* two values */
        {TERP_UINT16, false, 0, 0, {0}},  /* fewer bytes */
    };
    static const uint64_t dims[][2] = {{40, 1}, {8, 5}};
    struct terp_cd cd = new_cd(TERP_BOUND_ABSOLUTE, 0);
    uint8_t decoded[40 * 8];

    (void)unused;
    add(&cd, TERP_FLOAT32, false, 0, 0);
    add(&cd, TERP_UINT32, false, 0, 0);
    terp_cd_apply_compound(&cd, 1, dims[0]);
    for (size_t i = 0; i < COUNT(first); i++)
        for (int d = 0; d < 2; d++) {
            struct terp_cd other = new_cd(TERP_BOUND_ABSOLUTE, 0);
            assert_true(terp_compound_add(&other.compound, &first[i]));
            add(&other, TERP_UINT32, false, 0, 0);
            if (other.compound.value_nbytes < 8)
                add(&other, TERP_UINT16, false, 0, 0);
            terp_cd_apply_compound(&other, 1 + d, dims[d]);
            uint8_t *values = make_values(&other);
            struct terp_stream coded = encode(&other, values, NULL);
            assert_int_equal(decode(&coded, &cd, sizeof decoded, decoded),
                             i == 0 && d == 0 ? TERP_OK : TERP_ERR_CORRUPT);
            assert_int_equal(decode(&coded, NULL, sizeof decoded, decoded),
                             TERP_OK);
            assert_memory_equal(values, decoded, sizeof decoded);
            free(values);
            free(coded.bytes);
        }
}

/* Readers of streams name the reason: a newer version of terp. */
static void
readers_of_streams_refuse_containers(void **unused)
{
    const struct terp_cd cd = small_cd();
    uint8_t *values = make_values(&cd);
    struct terp_stream coded = encode(&cd, values, NULL);
    struct terp_info info = {.size = sizeof info};

    (void)unused;
    assert_int_equal(terp_inspect(coded.bytes, coded.nbytes, &info),
                     TERP_ERR_VERSION);
    free(values);
    free(coded.bytes);
}

/* Without memory the functions fail, and leave nothing behind. */
static void
failing_allocations_are_errors(void **unused)
{
    const struct terp_cd cd = small_cd();
    uint8_t *values = make_values(&cd);
    struct terp_stream coded = encode(&cd, values, NULL);
    uint8_t *other = terp_case_alloc(terp_container_bound(&cd.compound));
    struct terp_container container;
    struct terp_run run;
    uint64_t nbytes;
    bool is_rewrite;

    (void)unused;
    assert_int_equal(terp_container_read(coded.bytes, coded.nbytes, &container),
                     TERP_OK);
    for (int decodes = 0; decodes < 2; decodes++)
        for (uint64_t fail_at = 0;; fail_at++) {
            terp_allocations_start(fail_at, UINT64_MAX);
            (void)terp_run_begin(NULL, NULL, &run);
            const enum terp_status st =
                decodes ? terp_container_decode(&run, &container, &cd.compound,
                                                other)
                        : terp_container_encode(&run, &cd, values, NULL, other,
                                                &nbytes, &is_rewrite);
            const struct terp_allocations used = terp_allocations_stop();
            assert_int_equal(used.nleaked, 0);
            if (used.ncalls <= fail_at)
                break;
            assert_true(st == TERP_OK || st == TERP_ERR_MEMORY);
            assert_true(fail_at > 0 || st == TERP_ERR_MEMORY);
        }
    free(values);
    free(other);
    free(coded.bytes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_keeps_its_bound),
        cmocka_unit_test(drawn_members_keep_their_bounds),
        cmocka_unit_test(padding_widens_no_range),
        cmocka_unit_test(changed_heads_are_refused),
        cmocka_unit_test(sizes_that_deceive_are_refused),
        cmocka_unit_test(changed_bytes_are_refused),
        cmocka_unit_test(sealed_changes_are_safe),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(other_members_than_the_table_are_refused),
        cmocka_unit_test(readers_of_streams_refuse_containers),
        cmocka_unit_test(failing_allocations_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
