/* The plugin in a program that contains HDF5 and exports its functions, or
 * hides them, or (STRIPPED) has no symbols of them at all. TEST_PLUGIN names
 * the plugin. */
#define _GNU_SOURCE /* for dup2 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/cd_values.h"
#include "h5tests/filter/fake_host.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/stderr_text.h"

extern struct fake_host fake_host;
static const H5Z_class2_t *filter;
static const unsigned typed[] = {1, 1, 2};

static void
words_reset(void)
{
    memcpy(fake_host.words, typed, sizeof typed);
    fake_host.nwords = 3;
}

#ifdef STRIPPED
/* The chunk is framed, because the plugin cannot know its type and dims. */
static void
data_passes_through_without_functions(void **state)
{
    size_t nbytes = 8 * 8 * 8 * 4, buf_size = nbytes;
    void *buf = calloc(1, nbytes);

    (void)state;
    assert_non_null(buf);
    words_reset();
    assert_true(fake_host.set_local(filter) >= 0);
    assert_int_equal(fake_host.nwords, 3);
    size_t stored = fake_host.filter(filter, 0, nbytes, &buf_size, &buf);
    assert_in_range(stored, nbytes + 1, nbytes + 64);
    assert_int_equal(
        fake_host.filter(filter, H5Z_FLAG_REVERSE, stored, &buf_size, &buf),
        nbytes);
    free(buf);
}

/* The plugin cannot reach the error stack either. */
static void
errors_are_printed_without_functions(void **state)
{
    size_t nbytes = 100, buf_size = nbytes;
    void *buf = calloc(1, nbytes);
    char text[4096];
    FILE *file;

    (void)state;
    assert_non_null(buf);
    words_reset();
    int kept = redirect_stderr(&file);
    size_t result =
        fake_host.filter(filter, H5Z_FLAG_REVERSE, nbytes, &buf_size, &buf);
    restore_stderr(kept, file, text, sizeof text);
    assert_int_equal(result, 0);
    assert_non_null(strstr(text, "H5Z-TERP: "));
    assert_non_null(strstr(text, "not a terp stream"));
    free(buf);
}
#else
static void
functions_inside_the_program_are_found(void **state)
{
    struct terp_cd cd;
    const char *reason;

    (void)state;
    words_reset();
    assert_true(fake_host.set_local(filter) >= 0);
    assert_int_equal(
        terp_cd_parse(fake_host.nwords, fake_host.words, &cd, &reason),
        TERP_OK);
    assert_true(cd.persisted);
    assert_int_equal(cd.pass, TERP_PASS_NONE);
    assert_int_equal(cd.chunk.rank, 3);
}

static void
errors_inside_the_program_are_pushed(void **state)
{
    (void)state;
    words_reset();
    fake_host.words[0] = TERP_BOUND_RELATIVE;
    fake_host.words[1] = 0;
    fake_host.error[0] = '\0';
    assert_true(fake_host.set_local(filter) < 0);
    assert_non_null(strstr(fake_host.error, "(bound)"));
}
#endif

int
main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef STRIPPED
        cmocka_unit_test(data_passes_through_without_functions),
        cmocka_unit_test(errors_are_printed_without_functions),
#else
        cmocka_unit_test(functions_inside_the_program_are_found),
        cmocka_unit_test(errors_inside_the_program_are_pushed),
#endif
    };
    const void *(*get_info)(void);
    const char *path = getenv("TEST_PLUGIN");
    void *plugin = path == NULL ? NULL : dlopen(path, RTLD_LAZY);

    if (plugin == NULL)
        return 1;
    void *symbol = dlsym(plugin, "H5PLget_plugin_info");
    memcpy(&get_info, &symbol, sizeof symbol);
    filter = get_info();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
