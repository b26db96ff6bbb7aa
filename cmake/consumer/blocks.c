/* Writes a dataset by the installed terp::h5. Fails unless HDF5 and terp::h5
 * read the same values, which must be within the bound. */
#include <h5z_terp.h>
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <terp/terp_h5.h>

#define NVALUES 5000
#define CHUNK_NVALUES 1024
#define BOUND 1e-3

static float values[NVALUES], by_hdf5[NVALUES], by_terp[NVALUES];

static int
fail(const char *what)
{
    fprintf(stderr, "%s failed\n", what);
    return 1;
}

int
main(void)
{
    const hsize_t dims[] = {NVALUES}, chunk_dims[] = {CHUNK_NVALUES};
    struct terp_run_options run = {.size = sizeof run, .nthreads = 2};
    struct terp_run_result result = {.size = sizeof result};

    for (int i = 0; i < NVALUES; i++)
        values[i] = (float)(i % 256) / 256;
    if (H5PLprepend(PLUGIN_DIR) < 0)
        return fail("H5PLprepend(" PLUGIN_DIR ")");
    hid_t file =
        H5Fcreate("blocks.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(1, dims, NULL);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 1, chunk_dims);
    if (H5Pset_terp_abs(dcpl, BOUND) < 0)
        return fail("H5Pset_terp_abs");
    hid_t dataset = H5Dcreate2(file, "values", H5T_NATIVE_FLOAT, space,
                               H5P_DEFAULT, dcpl, H5P_DEFAULT);
    if (terp_h5_write(&run, dataset, NULL, NULL, NULL, values, &result) !=
            TERP_OK ||
        result.reason != NULL)
        return fail("terp_h5_write");
    if (H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                by_hdf5) < 0)
        return fail("H5Dread");
    if (terp_h5_read(&run, dataset, NULL, NULL, by_terp, NULL) != TERP_OK)
        return fail("terp_h5_read");
    if (memcmp(by_hdf5, by_terp, sizeof by_terp) != 0)
        return fail("the comparison");
    for (int i = 0; i < NVALUES; i++)
        if (!(fabs((double)values[i] - (double)by_terp[i]) <= BOUND))
            return fail("the bound");
    H5Dclose(dataset);
    H5Pclose(dcpl);
    H5Sclose(space);
    return H5Fclose(file) < 0 ? fail("H5Fclose") : 0;
}
