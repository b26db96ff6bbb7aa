/* write_blocks FILE [ROUNDS]
 *
 * Makes FILE with a dataset x of 200x200 float32 in chunks of 100x100, by
 * terp_h5_write with four threads. Value i is sin(i / 100). Then writes the
 * first chunk again, with doubled values. Tests make its writes fail, or kill
 * it. With ROUNDS, makes FILE so many times. Exits with 2 if a call fails, and
 * prints HDF5's errors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "filter/h5/terp_h5.h"
#include "filter/plugin/h5z_terp.h"

#define N 200
#define CHUNK 100

static hid_t
create(const char *path, hid_t *dataset_ret)
{
    const hsize_t dims[] = {N, N}, chunk[] = {CHUNK, CHUNK};
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    hid_t space = H5Screate_simple(2, dims, NULL);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);

    *dataset_ret = -1;
    if (file >= 0 && H5Pset_chunk(dcpl, 2, chunk) >= 0 &&
        H5Pset_terp_rel(dcpl, 1e-3) >= 0)
        *dataset_ret = H5Dcreate2(file, "x", H5T_IEEE_F32LE, space, H5P_DEFAULT,
                                  dcpl, H5P_DEFAULT);
    H5Sclose(space);
    H5Pclose(dcpl);
    return file;
}

static enum terp_status
write_all(hid_t file, hid_t dataset)
{
    static float values[N * N], first[CHUNK * CHUNK];
    const struct terp_run_options run = {.size = sizeof run, .nthreads = 4};
    const hsize_t offset[] = {0, 0}, count[] = {CHUNK, CHUNK};

    for (int i = 0; i < N * N; i++)
        values[i] = (float)sin(i / 100.0);
    for (int i = 0; i < CHUNK * CHUNK; i++)
        first[i] = 2 * values[i / CHUNK * N + i % CHUNK];
    enum terp_status st =
        terp_h5_write(&run, dataset, NULL, NULL, NULL, values, NULL);
    if (st == TERP_OK && H5Fflush(file, H5F_SCOPE_GLOBAL) < 0)
        st = TERP_ERR_HDF5;
    if (st == TERP_OK)
        st = terp_h5_write(&run, dataset, offset, count, NULL, first, NULL);
    return st;
}

int
main(int argc, char **argv)
{
    const int nrounds = argc > 2 ? atoi(argv[2]) : 1;
    enum terp_status st = TERP_OK;

    if (argc < 2)
        return 2;
    for (int i = 0; st == TERP_OK && i < nrounds; i++) {
        hid_t dataset;
        hid_t file = create(argv[1], &dataset);
        st = dataset < 0 ? TERP_ERR_HDF5 : write_all(file, dataset);
        /* HDF5 delays some writes until objects close. */
        if (dataset >= 0 && H5Dclose(dataset) < 0)
            st = TERP_ERR_HDF5;
        if (file >= 0 && H5Fclose(file) < 0)
            st = TERP_ERR_HDF5;
    }
    if (st != TERP_OK)
        fprintf(stderr, "write_blocks: %s\n", terp_status_text(st));
    return st == TERP_OK ? 0 : 2;
}
