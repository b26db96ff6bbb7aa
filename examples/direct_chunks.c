/* Compresses many chunks in one call, on a GPU if there is one, and hands the
 * streams to HDF5, which then runs no filter (direct chunk I/O). The file is
 * the same as through the filter: the program lets HDF5 read it with the
 * filter.
 *
 *     direct_chunks FILE
 *
 * The program links the codec (terp::codec). Where a simulation keeps its data
 * on the device, `src` and `streams` are device pointers, and `memory` is
 * TERP_MEMORY_DEVICE: only streams are then copied to the host, not values. */
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "h5z_terp.h"
#include "terp.h"

#define CHUNK_DIM 32  /* values along each dimension of a chunk */
#define NCHUNKS_DIM 3 /* chunks along each of three dimensions */
#define NCHUNKS (NCHUNKS_DIM * NCHUNKS_DIM * NCHUNKS_DIM)
#define CHUNK_NVALUES (CHUNK_DIM * CHUNK_DIM * CHUNK_DIM)
#define BOUND 1e-3 /* absolute */

/* values[c]: the values of chunk c, as in a simulation that works in boxes. */
static float values[NCHUNKS][CHUNK_NVALUES], values_read[CHUNK_NVALUES];
static const void *src[NCHUNKS];
static void *streams[NCHUNKS];
static uint64_t nbytes[NCHUNKS];

static void
offset_of(int c, hsize_t *offset)
{
    offset[0] = (hsize_t)(c / (NCHUNKS_DIM * NCHUNKS_DIM)) * CHUNK_DIM;
    offset[1] = (hsize_t)(c / NCHUNKS_DIM % NCHUNKS_DIM) * CHUNK_DIM;
    offset[2] = (hsize_t)(c % NCHUNKS_DIM) * CHUNK_DIM;
}

static void
simulate(void)
{
    for (int c = 0; c < NCHUNKS; c++) {
        hsize_t offset[3];
        offset_of(c, offset);
        for (int i = 0; i < CHUNK_NVALUES; i++) {
            double z = (double)offset[0] + i / (CHUNK_DIM * CHUNK_DIM);
            double y = (double)offset[1] + i / CHUNK_DIM % CHUNK_DIM;
            double x = (double)offset[2] + i % CHUNK_DIM;
            values[c][i] = (float)(sin(0.1 * x) * sin(0.07 * y + 0.05 * z));
        }
    }
}

/* Encodes all chunks in one call. Returns the bytes of all streams; 0: error.
 */
static uint64_t
compress(void)
{
    const uint64_t dims[] = {CHUNK_DIM, CHUNK_DIM, CHUNK_DIM};
    const struct terp_params params = {.size = sizeof params,
                                       .bound_mode = TERP_BOUND_ABSOLUTE,
                                       .bound = BOUND};
    const struct terp_run_options options = {
        .size = sizeof options, .engine = TERP_ENGINE_CUDA, .nthreads = 4};
    struct terp_run_result result = {.size = sizeof result};
    struct terp_chunk chunk;
    uint64_t total_nbytes = 0;

    enum terp_status st = terp_chunk_make(TERP_FLOAT32, 3, dims, &chunk);
    for (int c = 0; st == TERP_OK && c < NCHUNKS; c++) {
        src[c] = values[c];
        streams[c] = malloc(terp_encode_bound(&chunk));
        if (streams[c] == NULL)
            st = TERP_ERR_MEMORY;
    }
    if (st == TERP_OK)
        st = terp_encode_batch(&options, &params, &chunk, NCHUNKS, src, streams,
                               nbytes, &result);
    if (st != TERP_OK) {
        fprintf(stderr, "compressing: %s\n", terp_status_text(st));
        return 0;
    }
    if (result.used == TERP_ENGINE_CPU)
        printf("compressed by the CPU (%s)\n", result.reason);
    else
        printf("compressed by the GPU\n");
    for (int c = 0; c < NCHUNKS; c++)
        total_nbytes += nbytes[c];
    return total_nbytes;
}

/* Creates the dataset as for the filter: readers find the filter's cd_values.
 */
static hid_t
create(hid_t file, hid_t space)
{
    const hsize_t chunk_dims[] = {CHUNK_DIM, CHUNK_DIM, CHUNK_DIM};
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE), dataset = -1;

    if (H5Pset_chunk(dcpl, 3, chunk_dims) >= 0 &&
        H5Pset_terp_abs(dcpl, BOUND) >= 0)
        dataset = H5Dcreate2(file, "field", H5T_NATIVE_FLOAT, space,
                             H5P_DEFAULT, dcpl, H5P_DEFAULT);
    H5Pclose(dcpl);
    return dataset;
}

/* Reads a chunk through the filter, and returns the chunk's largest error. */
static double
read_back(hid_t dataset, hid_t space, int c)
{
    const hsize_t count[] = {CHUNK_DIM, CHUNK_DIM, CHUNK_DIM};
    hid_t memory = H5Screate_simple(3, count, NULL);
    hsize_t offset[3];
    double largest = 0;

    offset_of(c, offset);
    if (H5Sselect_hyperslab(space, H5S_SELECT_SET, offset, NULL, count, NULL) <
            0 ||
        H5Dread(dataset, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT,
                values_read) < 0)
        largest = INFINITY;
    for (int i = 0; i < CHUNK_NVALUES; i++)
        largest =
            fmax(largest, fabs((double)values[c][i] - (double)values_read[i]));
    H5Sclose(memory);
    return largest;
}

int
main(int argc, char **argv)
{
    const hsize_t dims[] = {NCHUNKS_DIM * CHUNK_DIM, NCHUNKS_DIM * CHUNK_DIM,
                            NCHUNKS_DIM * CHUNK_DIM};
    double largest = 0;
    hsize_t offset[3];

    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE\n", argv[0]);
        return 1;
    }
    simulate();
    uint64_t total_nbytes = compress();
    if (total_nbytes == 0)
        return 1;
    hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(3, dims, NULL);
    hid_t dataset = create(file, space);
    if (dataset < 0)
        return 1;
    for (int c = 0; c < NCHUNKS; c++) {
        offset_of(c, offset);
        if (H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, offset, (size_t)nbytes[c],
                           streams[c]) < 0)
            return 1;
        free(streams[c]);
    }
    for (int c = 0; c < NCHUNKS; c++)
        largest = fmax(largest, read_back(dataset, space, c));
    printf("%zu bytes became %llu; the largest error is %g\n", sizeof values,
           (unsigned long long)total_nbytes, largest);
    H5Dclose(dataset);
    H5Sclose(space);
    return H5Fclose(file) < 0 || !(largest <= BOUND);
}
