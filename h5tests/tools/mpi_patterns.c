/* MPI processes write one dataset in a pattern of simulations:
 *
 *     mpi_patterns FILE PATTERN [CUDART]
 *
 * PATTERN is a name of `patterns` below. Prints "refused" where HDF5 refuses
 * the write. The values do not depend on the number of processes. With CUDART,
 * the CUDA runtime or "none" for the host, the dataset is smaller, because
 * devices are emulated, and H5Dwrite and H5Dread get device memory. */
#include <hdf5.h>
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/cuda_memory.h"
#include "h5z_terp.h"

#define RANK 3

static hsize_t dims[RANK] = {150, 70, 90};
static const hsize_t small_dims[RANK] = {70, 40, 40}; /* on the device */
static const hsize_t chunk[RANK] = {16, 32, 32};

static bool uses_device;

static const struct pattern {
    const char *name;
    bool has_filter; /* the program sets chunks and the filter */
    bool is_shared;  /* processes have parts of the same chunks */
    bool is_alone;   /* the first process has all values */
    bool is_double;  /* in memory */
    bool is_independent;
    bool is_repeated; /* every process writes all values */
    int nwrites;
} patterns[] = {
    {"chunks", true, false, false, false, false, false, 1},
    {"shared", true, true, false, false, false, false, 1},
    {"alone", true, false, true, false, false, false, 1},
    {"double", true, false, false, true, false, false, 1},
    {"again", true, false, false, false, false, false, 3},
    {"plain", false, false, false, false, false, false, 1},
    {"independent", false, false, false, false, true, false, 1},
    {"repeated", true, false, false, false, false, true, 1},
};

static void
need(long long result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "mpi_patterns: cannot %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static const struct pattern *
find_pattern(const char *name)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(patterns[i].name, name) == 0)
            return &patterns[i];
    need(-1, "find the pattern");
    return NULL;
}

/* The first layer of a process's values. */
static hsize_t
layer_of(const struct pattern *pattern, int rank)
{
    const hsize_t unit = pattern->is_shared ? 7 : chunk[0];
    const hsize_t nunits = (dims[0] + unit - 1) / unit;
    int nranks;

    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    if (pattern->is_repeated)
        return 0;
    if (pattern->is_alone)
        return rank == 0 ? 0 : dims[0];
    const hsize_t layer = nunits * (hsize_t)rank / (hsize_t)nranks * unit;
    return layer > dims[0] ? dims[0] : layer;
}

static void *
make_values(const struct pattern *pattern, hsize_t first, hsize_t nlayers,
            int number)
{
    const size_t layer_nvalues = (size_t)(dims[1] * dims[2]);
    const size_t n = (size_t)nlayers * layer_nvalues;
    double *wide = calloc(n + 1, sizeof *wide);
    float *narrow = calloc(n + 1, sizeof *narrow);

    if (wide == NULL || narrow == NULL)
        need(-1, "get memory");
    for (size_t i = 0; i < n; i++) {
        const double z = (double)first + (double)(i / layer_nvalues);
        const double y = (double)(i % layer_nvalues / dims[2]);
        wide[i] = sin(0.1 * z + 0.3 * (double)number) * cos(0.07 * y) +
                  0.2 * sin(0.05 * (double)(i % dims[2]) + z);
        narrow[i] = (float)wide[i];
    }
    free(pattern->is_double ? (void *)narrow : (void *)wide);
    return pattern->is_double ? (void *)wide : (void *)narrow;
}

static hid_t
create(hid_t file, const struct pattern *pattern)
{
    hid_t space = H5Screate_simple(RANK, dims, NULL);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);

    H5Pset_obj_track_times(dcpl, false); /* files of two runs are equal */
    if (pattern->has_filter) {
        H5Pset_chunk(dcpl, RANK, chunk);
        need(H5Pset_terp_abs(dcpl, 1e-3), "add the terp filter");
    }
    hid_t dataset = H5Dcreate2(file, "field", H5T_IEEE_F32LE, space,
                               H5P_DEFAULT, dcpl, H5P_DEFAULT);
    need(dataset, "create the dataset");
    H5Pclose(dcpl);
    H5Sclose(space);
    return dataset;
}

/* The layers of a process, and how it moves them. */
struct share {
    hsize_t first[RANK], count[RANK];
    hid_t memory, space, dxpl;
};

static struct share
open_share(hid_t dataset, const struct pattern *pattern)
{
    int rank, nranks;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    const hsize_t first = layer_of(pattern, rank);
    const hsize_t end =
        rank == nranks - 1 || pattern->is_alone || pattern->is_repeated
            ? dims[0]
            : layer_of(pattern, rank + 1);
    struct share share = {.first = {first, 0, 0},
                          .count = {end - first, dims[1], dims[2]},
                          .space = H5Dget_space(dataset),
                          .dxpl = H5Pcreate(H5P_DATASET_XFER)};
    share.memory = H5Screate_simple(RANK, share.count, NULL);
    if (end > first) {
        H5Sselect_hyperslab(share.space, H5S_SELECT_SET, share.first, NULL,
                            share.count, NULL);
    } else {
        H5Sselect_none(share.space);
        H5Sselect_none(share.memory);
    }
    H5Pset_dxpl_mpio(share.dxpl, pattern->is_independent
                                     ? H5FD_MPIO_INDEPENDENT
                                     : H5FD_MPIO_COLLECTIVE);
    return share;
}

static void
close_share(const struct share *share)
{
    H5Pclose(share->dxpl);
    H5Sclose(share->space);
    H5Sclose(share->memory);
}

/* A copy of values in device memory, if the program uses it. */
static void *
to_device(void *values, size_t nbytes)
{
    void *at = uses_device ? cuda_make(values, nbytes) : values;

    if (at == NULL)
        need(-1, "get device memory");
    return at;
}

/* Frees the copy, if `at` is one, after it was copied to `values`. */
static void
from_device(void *at, void *values, size_t nbytes)
{
    if (!uses_device)
        return;
    if (!cuda_copy(values, at, nbytes))
        need(-1, "copy from the device");
    cuda.free(at);
}

static herr_t
write_values(hid_t dataset, const struct pattern *pattern, int number)
{
    const struct share share = open_share(dataset, pattern);
    const size_t n = (size_t)(share.count[0] * share.count[1] * share.count[2]);
    const size_t nbytes =
        (n + 1) * (pattern->is_double ? sizeof(double) : sizeof(float));
    void *values = make_values(pattern, share.first[0], share.count[0], number);
    void *at = to_device(values, nbytes);
    const herr_t result = H5Dwrite(
        dataset, pattern->is_double ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT,
        share.memory, share.space, share.dxpl, at);

    from_device(at, values, nbytes);
    free(values);
    close_share(&share);
    return result;
}

static void
read_values(hid_t dataset, const struct pattern *pattern)
{
    const struct share share = open_share(dataset, pattern);
    const size_t n = (size_t)(share.count[0] * share.count[1] * share.count[2]);
    const size_t first = (size_t)(share.first[0] * dims[1] * dims[2]);
    float *values = calloc(n + 1, sizeof *values);
    unsigned long long sum = 0;
    int rank;

    if (values == NULL)
        need(-1, "get memory");
    float *at = to_device(values, (n + 1) * sizeof *values);
    need(H5Dread(dataset, H5T_NATIVE_FLOAT, share.memory, share.space,
                 share.dxpl, at),
         "read the dataset");
    from_device(at, values, (n + 1) * sizeof *values);
    for (size_t i = 0; i < n; i++) {
        unsigned bits;
        memcpy(&bits, &values[i], sizeof bits);
        sum += bits * (unsigned long long)(first + i + 1);
    }
    free(values);
    close_share(&share);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM,
                  MPI_COMM_WORLD);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("sum %llu\n", sum);
}

int
main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 3 && argc != 4)
        need(-1, "read the command line: FILE PATTERN [CUDART]");
    if (argc == 4) {
        memcpy(dims, small_dims, sizeof dims);
        uses_device = strcmp(argv[3], "none") != 0;
        if (uses_device && !cuda_open(argv[3]))
            need(-1, "open the CUDA runtime and a device");
    }
    const struct pattern *pattern = find_pattern(argv[2]);
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(fapl, MPI_COMM_WORLD, MPI_INFO_NULL);
    hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    need(file, "create the file");
    hid_t dataset = create(file, pattern);
    for (int i = 0; i < pattern->nwrites; i++)
        if (write_values(dataset, pattern, i) < 0)
            puts("refused");
    read_values(dataset, pattern);
    H5Dclose(dataset);
    H5Pclose(fapl);
    need(H5Fclose(file), "close the file");
    MPI_Finalize();
    return 0;
}
