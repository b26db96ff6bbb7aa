/* Streams of this and of earlier versions decode to the same bytes as ever.
 * Each argument is a release's folder (h5tests/support/golden.h). */
#include <stdio.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/golden.h"

static struct terp_golden golden[TERP_MAX_NGOLDEN];
static size_t ngolden;

static void
check_stream(const struct terp_golden *own)
{
    uint8_t *decoded = terp_case_alloc(own->nbytes);

    for (int nthreads = 1; nthreads <= 2; nthreads++) {
        uint64_t got = 0;
        enum terp_status st = terp_decode(own->stream.bytes, own->stream.nbytes,
                                          decoded, own->nbytes, &got, nthreads);
        if (st != TERP_OK)
            fail_msg("%s: %s", own->name, terp_status_text(st));
        assert_int_equal(got, own->nbytes);
        if (XXH3_64bits(decoded, own->nbytes) != own->digest)
            fail_msg("%s decodes to other bytes", own->name);
    }
    free(decoded);
}

static void
every_golden_stream_decodes_to_its_bytes(void **state)
{
    (void)state;
    assert_true(ngolden > 0);
    for (size_t i = 0; i < ngolden; i++)
        check_stream(&golden[i]);
}

static int
forget(void **state)
{
    (void)state;
    terp_golden_forget(golden, &ngolden);
    return 0;
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_golden_stream_decodes_to_its_bytes,
                                  forget),
    };

    for (int i = 1; i < argc; i++)
        terp_golden_read(argv[i], golden, &ngolden);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
