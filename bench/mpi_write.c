/* Measures collective writes of a field by MPI processes.
 *
 *     mpi_write FILE FIELD EXTENT CHUNK UNIT BOUND STEPS [double]
 *
 * FIELD has EXTENT^3 float32 values. Each process has about the same number of
 * layers, a multiple of UNIT. If CHUNK does not divide UNIT, several processes
 * have parts of one chunk. With "double" the values are doubles in memory. Each
 * step writes a new dataset. The program prints the seconds that the slowest
 * process takes for it. */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5z_terp.h"

#define RANK 3

static void
need(long long result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "mpi_write: cannot %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* The layers of a process, in all of the other dimensions. */
struct layers {
    hsize_t begin[RANK], count[RANK];
    void *values;
    hid_t type;
};

static void
read_layers(const char *path, hsize_t extent, hsize_t unit, bool is_double,
            struct layers *layers_ret)
{
    const hsize_t nunits = (extent + unit - 1) / unit;
    int process, nprocesses;

    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    MPI_Comm_size(MPI_COMM_WORLD, &nprocesses);
    hsize_t begin = nunits * (hsize_t)process / (hsize_t)nprocesses * unit;
    hsize_t end = nunits * ((hsize_t)process + 1) / (hsize_t)nprocesses * unit;
    if (end > extent)
        end = extent;
    const size_t n = (size_t)((end - begin) * extent * extent);
    float *values = malloc((n + 1) * sizeof *values);
    double *wide = malloc((n + 1) * sizeof *wide);
    FILE *file = fopen(path, "rb");
    need(file == NULL || values == NULL || wide == NULL ||
                 fseek(file, (long)(begin * extent * extent * sizeof *values),
                       SEEK_SET) != 0 ||
                 fread(values, sizeof *values, n, file) != n
             ? -1
             : 0,
         "read the field");
    fclose(file);
    for (size_t i = 0; i < n; i++)
        wide[i] = (double)values[i];
    *layers_ret = (struct layers){
        .begin = {begin, 0, 0},
        .count = {end - begin, extent, extent},
        .values = is_double ? (void *)wide : (void *)values,
        .type = is_double ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT};
    free(is_double ? (void *)values : (void *)wide);
}

/* Writes the field once; returns the seconds of the slowest process. */
static double
write_once(const char *path, hsize_t extent, hsize_t chunk_dim, double bound,
           const struct layers *layers)
{
    const hsize_t dims[RANK] = {extent, extent, extent};
    const hsize_t chunk[RANK] = {chunk_dim, chunk_dim, chunk_dim};
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), dxpl = H5Pcreate(H5P_DATASET_XFER);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    hid_t space = H5Screate_simple(RANK, dims, NULL);
    hid_t memory = H5Screate_simple(RANK, layers->count, NULL);

    H5Pset_fapl_mpio(fapl, MPI_COMM_WORLD, MPI_INFO_NULL);
    H5Pset_dxpl_mpio(dxpl, H5FD_MPIO_COLLECTIVE);
    H5Pset_chunk(dcpl, RANK, chunk);
    H5Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER);
    need(H5Pset_terp_abs(dcpl, bound), "add the filter");
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    need(file, "create the file");
    hid_t dataset = H5Dcreate2(file, "field", H5T_IEEE_F32LE, space,
                               H5P_DEFAULT, dcpl, H5P_DEFAULT);
    need(dataset, "create the dataset");
    if (layers->count[0] > 0) {
        H5Sselect_hyperslab(space, H5S_SELECT_SET, layers->begin, NULL,
                            layers->count, NULL);
    } else {
        H5Sselect_none(space);
        H5Sselect_none(memory);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    need(H5Dwrite(dataset, layers->type, memory, space, dxpl, layers->values),
         "write the dataset");
    double seconds = MPI_Wtime() - begin;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
    H5Dclose(dataset);
    need(H5Fclose(file), "close the file");
    H5Sclose(space);
    H5Sclose(memory);
    H5Pclose(dcpl);
    H5Pclose(dxpl);
    H5Pclose(fapl);
    return seconds;
}

int
main(int argc, char **argv)
{
    struct layers layers;
    int process;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    if (argc < 8)
        need(-1, "read the command line");
    const hsize_t extent = strtoull(argv[3], NULL, 10);
    read_layers(argv[2], extent, strtoull(argv[5], NULL, 10), argc > 8,
                &layers);
    for (int i = 0; i < atoi(argv[7]); i++) {
        const double seconds =
            write_once(argv[1], extent, strtoull(argv[4], NULL, 10),
                       strtod(argv[6], NULL), &layers);
        if (process == 0)
            printf("%.4f\n", seconds);
    }
    free(layers.values);
    MPI_Finalize();
    return 0;
}
