/* Streams of this and earlier versions decode to the bytes they always
 * decoded to. The folder is this program's argument; h5tests/support/golden.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/golden.h"

static const char *dir;

static FILE *
open_in_dir(const char *name, const char *mode)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);

    assert_true(n > 0 && (size_t)n < sizeof path);
    FILE *file = fopen(path, mode);
    if (file == NULL)
        fail_msg("%s cannot be opened", path);
    return file;
}

static struct terp_stream
read_stream(const char *name, uint64_t nbytes)
{
    struct terp_stream stream = {terp_case_alloc(nbytes), nbytes};
    FILE *file = open_in_dir(name, "rb");

    if (fread(stream.bytes, 1, nbytes, file) != nbytes || fgetc(file) != EOF)
        fail_msg("%s is not %" PRIu64 " bytes long", name, nbytes);
    fclose(file);
    return stream;
}

static void
check_stream(const char *name, uint64_t stream_nbytes, uint64_t nbytes,
             uint64_t digest)
{
    struct terp_stream stream = read_stream(name, stream_nbytes);
    uint8_t *decoded = terp_case_alloc(nbytes);

    for (int nthreads = 1; nthreads <= 2; nthreads++) {
        uint64_t got = 0;
        enum terp_status st = terp_decode(stream.bytes, stream.nbytes, decoded,
                                          nbytes, &got, nthreads);
        if (st != TERP_OK)
            fail_msg("%s: %s", name, terp_status_text(st));
        assert_int_equal(got, nbytes);
        if (XXH3_64bits(decoded, nbytes) != digest)
            fail_msg("%s decodes to other bytes", name);
    }
    free(stream.bytes);
    free(decoded);
}

static void
every_golden_stream_decodes_to_its_bytes(void **state)
{
    FILE *list = open_in_dir(TERP_GOLDEN_LIST, "r");
    char line[TERP_GOLDEN_NAME_CAP + 64], name[TERP_GOLDEN_NAME_CAP];
    uint64_t stream_nbytes, nbytes, digest;
    int nstreams = 0;

    (void)state;
    while (fgets(line, sizeof line, list) != NULL) {
        assert_int_equal(sscanf(line, "%127s %" SCNu64 " %" SCNu64 " %" SCNx64,
                                name, &stream_nbytes, &nbytes, &digest),
                         4);
        check_stream(name, stream_nbytes, nbytes, digest);
        nstreams++;
    }
    fclose(list);
    assert_true(nstreams > 0);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_golden_stream_decodes_to_its_bytes),
    };
    if (argc != 2) {
        fputs("usage: test_golden DIR\n", stderr);
        return EXIT_FAILURE;
    }
    dir = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
