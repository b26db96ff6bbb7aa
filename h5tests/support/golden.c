#include "h5tests/support/golden.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "h5tests/support/cmocka_all.h"

static FILE *
open_in(const char *folder, const char *name, const char *mode)
{
    char path[4096];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);

    assert_true(n > 0 && (size_t)n < sizeof path);
    FILE *file = fopen(path, mode);
    if (file == NULL)
        fail_msg("%s cannot be opened", path);
    return file;
}

static void
read_stream(const char *folder, struct terp_golden *golden)
{
    const uint64_t nbytes = golden->stream.nbytes;
    FILE *file = open_in(folder, golden->name, "rb");

    golden->stream.bytes = terp_case_alloc(nbytes);
    if (fread(golden->stream.bytes, 1, nbytes, file) != nbytes ||
        fgetc(file) != EOF)
        fail_msg("%s is not %" PRIu64 " bytes long", golden->name, nbytes);
    fclose(file);
}

void
terp_golden_read(const char *folder, struct terp_golden golden[], size_t *n)
{
    FILE *list = open_in(folder, TERP_GOLDEN_LIST, "r");
    char line[TERP_GOLDEN_NAME_CAP + 64];

    while (fgets(line, sizeof line, list) != NULL) {
        assert_true(*n < TERP_MAX_NGOLDEN);
        struct terp_golden *own = &golden[*n];
        assert_int_equal(sscanf(line, "%127s %" SCNu64 " %" SCNu64 " %" SCNx64,
                                own->name, &own->stream.nbytes, &own->nbytes,
                                &own->digest),
                         4);
        read_stream(folder, own);
        ++*n;
    }
    fclose(list);
}

void
terp_golden_forget(struct terp_golden golden[], size_t *n)
{
    while (*n > 0)
        free(golden[--*n].stream.bytes);
}
