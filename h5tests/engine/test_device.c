/* Which device a process uses. */
#define _GNU_SOURCE /* for setenv */
#include <stdlib.h>

#include "gpu/engine/device.h"
#include "h5tests/support/cmocka_all.h"

static const char *const names[] = {
    "TERP_DEVICE",     "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK",
    "PMI_LOCAL_RANK",  "PALS_LOCAL_RANKID",
    "SLURM_LOCALID"};

#define NNAMES ((int)(sizeof names / sizeof *names))

static int
clear(void **state)
{
    (void)state;
    for (int i = 0; i < NNAMES; i++)
        unsetenv(names[i]);
    return 0;
}

static void
process_alone_takes_the_first(void **state)
{
    (void)state;
    assert_int_equal(cuda_device_choose(4), 0);
}

static void
every_launcher_is_understood(void **state)
{
    (void)state;
    for (int i = 1; i < NNAMES; i++) {
        setenv(names[i], "2", 1);
        assert_int_equal(cuda_device_choose(4), 2);
        unsetenv(names[i]);
    }
}

static void
numbers_beyond_the_devices_share_them(void **state)
{
    (void)state;
    setenv("SLURM_LOCALID", "7", 1);
    assert_int_equal(cuda_device_choose(4), 3);
    assert_int_equal(cuda_device_choose(1), 0);
    setenv("SLURM_LOCALID", "127", 1);
    assert_int_equal(cuda_device_choose(8), 7);
}

static void
named_device_comes_before_the_number(void **state)
{
    (void)state;
    setenv("SLURM_LOCALID", "3", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "2", 1);
    setenv("TERP_DEVICE", "1", 1);
    assert_int_equal(cuda_device_choose(4), 1);
    setenv("TERP_DEVICE", "0", 1);
    assert_int_equal(cuda_device_choose(4), 0);
}

static void
launcher_comes_before_the_batch_system(void **state)
{
    (void)state;
    setenv("SLURM_LOCALID", "0", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "3", 1);
    assert_int_equal(cuda_device_choose(4), 3);
}

static void
what_is_no_number_counts_as_unset(void **state)
{
    static const char *const texts[] = {
        "",   "-1",  "gpu",        "1x",
        " 1", "0x1", "4294967297", "99999999999999999999"};

    (void)state;
    setenv("SLURM_LOCALID", "2", 1);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        setenv("TERP_DEVICE", texts[i], 1);
        assert_int_equal(cuda_device_choose(4), 2);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(process_alone_takes_the_first, clear),
        cmocka_unit_test_setup(every_launcher_is_understood, clear),
        cmocka_unit_test_setup(numbers_beyond_the_devices_share_them, clear),
        cmocka_unit_test_setup(named_device_comes_before_the_number, clear),
        cmocka_unit_test_setup(launcher_comes_before_the_batch_system, clear),
        cmocka_unit_test_setup(what_is_no_number_counts_as_unset, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
