/* A program that cannot find the plugin, because nothing names its folder. */
#define _GNU_SOURCE /* for setenv */
#include <stdlib.h>

#include "filter/plugin/h5z_terp.h"
#include "h5tests/support/cmocka_all.h"

static hid_t dcpl;

static int
make_dcpl(void **state)
{
    const hsize_t chunk = 1024;

    (void)state;
    setenv("HDF5_PLUGIN_PATH", "/nonexistent", 1);
    dcpl = H5Pcreate(H5P_DATASET_CREATE);
    return H5Pset_chunk(dcpl, 1, &chunk) < 0;
}

static int
close_dcpl(void **state)
{
    (void)state;
    return H5Pclose(dcpl) < 0;
}

static void
mandatory_filter_is_refused_at_once(void **state)
{
    herr_t result;

    (void)state;
    H5E_BEGIN_TRY
    {
        result = H5Pset_terp_rel(dcpl, 1e-3);
    }
    H5E_END_TRY
    assert_true(result < 0);
    assert_int_equal(H5Pget_nfilters(dcpl), 0);
}

static void
optional_filter_is_set(void **state)
{
    const struct H5Z_terp_config config = {.bound_mode = H5Z_TERP_RELATIVE,
                                           .bound = 1e-3,
                                           .flags = H5Z_FLAG_OPTIONAL};

    (void)state;
    assert_true(H5Pset_terp(dcpl, &config) >= 0);
    assert_int_equal(H5Pget_nfilters(dcpl), 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mandatory_filter_is_refused_at_once),
        cmocka_unit_test(optional_filter_is_set),
    };
    return cmocka_run_group_tests(tests, make_dcpl, close_dcpl);
}
