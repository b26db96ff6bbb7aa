/* Page faults of a program that writes and reads many chunks. HDF5 and the
 * filter allocate buffers as large as a chunk for each chunk; the system must
 * not hand out their memory again each time. */
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "h5tests/support/cmocka_all.h"

#include "filter/plugin/h5z_terp.h"
#include "h5tests/support/h5_files.h"

#define NCHUNKS 64
#define CHUNK_NVALUES ((size_t)1 << 18)
#define PAGE_NBYTES 4096

static const char path[] = "test_filter_heap.h5";
static const struct h5_shape shape = {
    1, {NCHUNKS * CHUNK_NVALUES}, {CHUNK_NVALUES}};

static long
nfaults(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_minflt;
}

/* Writes the values to a new file, and reads them back. */
static void
write_and_read(const float *values, float *values_ret)
{
    const unsigned words[] = {H5Z_TERP_RELATIVE, 1, 3};
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t dcpl = h5_dcpl_new(&shape, 0, sizeof words / sizeof *words, words);
    hid_t dataset = h5_dataset_new(file, "field", H5T_IEEE_F32LE, &shape, dcpl);

    assert_true(dataset >= 0);
    h5_write(dataset, H5T_NATIVE_FLOAT, values);
    h5_read(dataset, H5T_NATIVE_FLOAT, values_ret);
    H5Pclose(dcpl);
    H5Dclose(dataset);
    H5Fclose(file);
}

static void
chunks_use_the_memory_of_chunks_before(void **state)
{
    const size_t nvalues = NCHUNKS * CHUNK_NVALUES;
    float *values = malloc(nvalues * sizeof *values);
    float *read = malloc(nvalues * sizeof *read);

    (void)state;
#ifndef __GLIBC__
    skip(); /* another allocator */
#endif
    assert_non_null(values);
    assert_non_null(read);
    for (size_t i = 0; i < nvalues; i++)
        values[i] = (float)(i % 1000) + (float)(i * 2654435761u % 4096) / 4096;
    write_and_read(values, read);
    const long before = nfaults();
    write_and_read(values, read);
    /* One chunk has 256 pages, and each of its buffers as many. */
    const long nfaults_of_pages =
        (long)(nvalues * sizeof *values / PAGE_NBYTES);
    assert_in_range(nfaults() - before, 0, nfaults_of_pages / 4);
    unlink(path);
    free(values);
    free(read);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_use_the_memory_of_chunks_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
