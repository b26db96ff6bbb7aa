/* Writes a dataset through the installed plugin, and reads it back. Fails
 * unless it became smaller and every error is within the bound. */
#include <h5z_terp.h>
#include <hdf5.h>
#include <math.h>
#include <stdio.h>

#define NVALUES 4096
#define BOUND 1e-3

static float values[NVALUES], values_read[NVALUES];

static int
fail(const char *what)
{
    fprintf(stderr, "%s failed\n", what);
    return 1;
}

int
main(void)
{
    const hsize_t dims[] = {NVALUES};

    for (int i = 0; i < NVALUES; i++)
        values[i] = (float)(i % 256) / 256;
    if (H5PLprepend(PLUGIN_DIR) < 0)
        return fail("H5PLprepend(" PLUGIN_DIR ")");
    hid_t file =
        H5Fcreate("consumer.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(1, dims, NULL);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 1, dims);
    if (H5Pset_terp_abs(dcpl, BOUND) < 0)
        return fail("H5Pset_terp_abs");
    hid_t dataset = H5Dcreate2(file, "values", H5T_NATIVE_FLOAT, space,
                               H5P_DEFAULT, dcpl, H5P_DEFAULT);
    if (H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                 values) < 0 ||
        H5Dclose(dataset) < 0)
        return fail("writing");
    dataset = H5Dopen2(file, "values", H5P_DEFAULT);
    if (H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                values_read) < 0)
        return fail("reading");
    for (int i = 0; i < NVALUES; i++)
        if (!(fabs((double)values[i] - (double)values_read[i]) <= BOUND))
            return fail("the bound");
    if (H5Dget_storage_size(dataset) >= sizeof values)
        return fail("compression");
    H5Dclose(dataset);
    H5Pclose(dcpl);
    H5Sclose(space);
    return H5Fclose(file) < 0 ? fail("H5Fclose") : 0;
}
