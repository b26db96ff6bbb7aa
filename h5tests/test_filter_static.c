/* The plugin in a program that holds HDF5 itself and shows its functions.
 * TEST_PLUGIN names the plugin. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "cd_values.h"
#include "cmocka_all.h"
#include "fake_host.h"

extern struct fake_host fake_host;
static const H5Z_class2_t *filter;

static void
functions_inside_the_program_are_found(void **state)
{
    static const unsigned typed[] = {1, 1, 2};
    struct terp_cd cd;
    const char *reason;

    (void)state;
    memcpy(fake_host.words, typed, sizeof typed);
    fake_host.nwords = 3;
    assert_true(fake_host.set_local(filter) >= 0);
    assert_int_equal(
        terp_cd_parse(fake_host.nwords, fake_host.words, &cd, &reason),
        TERP_OK);
    assert_true(cd.persisted);
    assert_int_equal(cd.pass, TERP_PASS_NO);
    assert_int_equal(cd.chunk.rank, 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_inside_the_program_are_found),
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
