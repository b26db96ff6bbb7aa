/* RRE4-TCMS8-RZE1 and its inverse, for any number of bytes, in a buffer of the
 * exact size. Truncated input is detected. */
#include <stdlib.h>
#include <string.h>

#include "codec/format/reduce.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"

#define GUARD_NBYTES 16
#define GUARD 0xA5

/* Repeated words, zeros, small numbers and noise, in turns. */
static void
make_bytes(unsigned kind, uint64_t nbytes, uint8_t *bytes)
{
    for (uint64_t i = 0; i < nbytes; i++) {
        const uint64_t random = terp_field_mix(i / 4 + 4096 * kind);
        bytes[i] = kind == 0   ? 0
                   : kind == 1 ? (uint8_t)(i / 64)
                   : kind == 2 ? (uint8_t)(i % 4 ? 0 : random % 3)
                   : kind == 3 ? (uint8_t)(random % 5 ? 7 : random >> 8)
                               : (uint8_t)terp_field_mix(i);
    }
}

static void
check(unsigned kind, uint64_t nbytes)
{
    const uint64_t cap_nbytes = 3 * nbytes + 256;
    uint8_t *src = terp_case_alloc(nbytes + 1);
    uint8_t *dst = terp_case_alloc(nbytes + GUARD_NBYTES);
    uint8_t *written = terp_case_alloc(cap_nbytes);
    uint8_t *scratch = terp_case_alloc(terp_reduce_scratch_nbytes(nbytes));
    struct writer writer = {written, written + cap_nbytes, false};

    make_bytes(kind, nbytes, src);
    terp_reduce_write(&writer, src, nbytes, scratch);
    assert_false(writer.overflow);
    const uint64_t n = (uint64_t)(writer.at - written);

    memset(dst, GUARD, nbytes + GUARD_NBYTES);
    struct reader reader = {written, written + n, false};
    terp_reduce_read(&reader, dst, nbytes, scratch);
    assert_false(reader.underflow);
    assert_ptr_equal(reader.at, reader.end);
    assert_memory_equal(dst, src, nbytes);
    for (int i = 0; i < GUARD_NBYTES; i++)
        assert_int_equal(dst[nbytes + (uint64_t)i], GUARD);

    /* Truncates at each byte. */
    for (uint64_t cut = n > 40 ? n - 40 : 0; cut < n; cut++) {
        struct reader shorter = {written, written + cut, false};
        terp_reduce_read(&shorter, dst, nbytes, scratch);
        assert_true(shorter.underflow);
        assert_int_equal(dst[nbytes], GUARD);
    }
    free(src);
    free(dst);
    free(written);
    free(scratch);
}

static void
any_number_of_bytes_comes_back(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 5; kind++) {
        for (uint64_t nbytes = 1; nbytes < 200; nbytes++)
            check(kind, nbytes);
        for (uint64_t nbytes = 4093; nbytes < 4100; nbytes++)
            check(kind, nbytes);
        check(kind, 100001);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_bytes_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
