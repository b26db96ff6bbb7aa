/* The processes of an MPI program write one compressed dataset together.
 *
 *     mpirun -n 4 parallel_write FILE NZ NY NX [CHUNK [STEPS [CUDART]]]
 *
 * CHUNK: the side of the cubic chunks, 32 by default. STEPS: how many times the
 * file is written and read, 1 by default; the first time a device starts, too.
 * CUDART: the CUDA runtime, such as libcudart.so. The values are then in device
 * memory. terp's connector (HDF5_VOL_CONNECTOR=terp) takes them from there;
 * without it the program copies them to the host, because HDF5 must.
 *
 * Each process has whole layers of the field's chunks, and HDF5 lets each
 * process compress its own chunks. Apart from the positions of chunks in the
 * file, the file does not depend on the number of processes. With
 * TERP_ENGINE=cuda the processes of a machine share its GPUs by their number on
 * the machine (TERP_DEVICE in doc/cd_values.md).
 *
 * The program links no library of terp. HDF5 requires that writes through a
 * filter are collective: every process calls H5Dwrite, even one without values.
 */
#include <hdf5.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_memory.h"
#include "h5z_terp.h"

#define RANK 3
#define MAX_EXTENT 4096     /* bounds two rows on the stack (simulate) */
#define RELATIVE_BOUND 1e-3 /* of the range of the whole field */

static hsize_t chunk_dim = 32;

/* The layers of the field that this process has, in all of y and x. */
struct layers {
    hsize_t begin[RANK], count[RANK];
    size_t nvalues;
    float *values, *values_read;
    float *d_values, *d_values_read; /* in device memory; NULL: not used */
};

static void
need(long long result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "parallel_write: cannot %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* Shares the layers of chunks out as evenly as possible. */
static void
take_layers(const hsize_t *dims, struct layers *layers_ret)
{
    hsize_t nlayers = (dims[0] + chunk_dim - 1) / chunk_dim;
    int process, nprocesses;

    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    MPI_Comm_size(MPI_COMM_WORLD, &nprocesses);
    hsize_t first = nlayers * (hsize_t)process / (hsize_t)nprocesses;
    hsize_t last = nlayers * ((hsize_t)process + 1) / (hsize_t)nprocesses;
    hsize_t begin = first * chunk_dim, end = last * chunk_dim;
    if (end > dims[0])
        end = dims[0];
    *layers_ret = (struct layers){.begin = {begin, 0, 0},
                                  .count = {end - begin, dims[1], dims[2]}};
    layers_ret->nvalues = (size_t)((end - begin) * dims[1] * dims[2]);
    /* One value more, so that a process without values gets memory, too. */
    layers_ret->values = malloc((layers_ret->nvalues + 1) * sizeof(float));
    layers_ret->values_read = malloc((layers_ret->nvalues + 1) * sizeof(float));
    if (layers_ret->values == NULL || layers_ret->values_read == NULL)
        need(-1, "get memory");
}

/* Copies the layers to the device. */
static void
move_to_device(const char *runtime, struct layers *layers)
{
    const size_t nbytes = (layers->nvalues + 1) * sizeof(float);

    if (!cuda_open(runtime))
        need(-1, "open the CUDA runtime and a device");
    memset(layers->values_read, 0, nbytes);
    layers->d_values = cuda_make(layers->values, nbytes);
    layers->d_values_read = cuda_make(layers->values_read, nbytes);
    if (layers->d_values == NULL || layers->d_values_read == NULL)
        need(-1, "get device memory");
}

/* Between host and device. */
static void
copy_values(void *dst, const void *src, const struct layers *layers)
{
    if (!cuda_copy(dst, src, layers->nvalues * sizeof(float)))
        need(-1, "copy values between host and device");
}

/* f(x, z) cos(0.07 y) + g(x, z) */
static void
simulate(struct layers *layers)
{
    size_t nx = layers->count[2];
    double f[MAX_EXTENT], g[MAX_EXTENT];
    float *value = layers->values;

    for (hsize_t k = 0; k < layers->count[0]; k++) {
        double z = (double)(layers->begin[0] + k);
        for (size_t i = 0; i < nx; i++) {
            double x = (double)i;
            f[i] = sin(0.11 * x + 0.02 * z);
            g[i] = 0.3 * sin(0.09 * z * cos(0.01 * x));
        }
        for (hsize_t j = 0; j < layers->count[1]; j++) {
            double wave = cos(0.07 * (double)j);
            for (size_t i = 0; i < nx; i++)
                *value++ = (float)(f[i] * wave + g[i]);
        }
    }
}

/* The bound in the unit of the data: RELATIVE_BOUND times the range of the
 * whole field, over all processes. */
static double
find_bound(const struct layers *layers)
{
    double extremes[2] = {-INFINITY, -INFINITY}; /* of -x and x */

    for (size_t i = 0; i < layers->nvalues; i++) {
        extremes[0] = fmax(extremes[0], -(double)layers->values[i]);
        extremes[1] = fmax(extremes[1], (double)layers->values[i]);
    }
    MPI_Allreduce(MPI_IN_PLACE, extremes, 2, MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
    return RELATIVE_BOUND * (extremes[1] + extremes[0]);
}

static hid_t
create(hid_t file, const hsize_t *dims, double bound)
{
    hsize_t chunk[RANK];
    hid_t space = H5Screate_simple(RANK, dims, NULL);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);

    for (int d = 0; d < RANK; d++)
        chunk[d] = dims[d] < chunk_dim ? dims[d] : chunk_dim;
    H5Pset_chunk(dcpl, RANK, chunk);
    /* Every value is written. */
    H5Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER);
    need(H5Zfilter_avail(H5Z_FILTER_TERP) > 0 ? 0 : -1,
         "find the terp filter: HDF5_PLUGIN_PATH must name the directory that "
         "holds it");
    need(H5Pset_terp_abs(dcpl, bound), "add the terp filter");
    hid_t dataset = H5Dcreate2(file, "field", H5T_IEEE_F32LE, space,
                               H5P_DEFAULT, dcpl, H5P_DEFAULT);
    need(dataset, "create the dataset");
    H5Pclose(dcpl);
    H5Sclose(space);
    return dataset;
}

/* The time now; all processes call this at the same time. */
static double
start(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime();
}

static void
write_values(hid_t dataset, const hid_t spaces[2], hid_t dxpl,
             const struct layers *layers, bool takes_device)
{
    const bool is_copied = layers->d_values != NULL && !takes_device;

    if (is_copied)
        copy_values(layers->values, layers->d_values, layers);
    need(H5Dwrite(dataset, H5T_NATIVE_FLOAT, spaces[0], spaces[1], dxpl,
                  layers->d_values == NULL || is_copied ? layers->values
                                                        : layers->d_values),
         "write the dataset");
}

static void
read_values(hid_t dataset, const hid_t spaces[2], hid_t dxpl,
            const struct layers *layers, bool takes_device)
{
    const bool is_copied = layers->d_values != NULL && !takes_device;

    need(H5Dread(dataset, H5T_NATIVE_FLOAT, spaces[0], spaces[1], dxpl,
                 layers->d_values == NULL || is_copied ? layers->values_read
                                                       : layers->d_values_read),
         "read the dataset");
    if (is_copied)
        copy_values(layers->d_values_read, layers->values_read, layers);
}

/* Returns the seconds that the slowest process takes to write and to read. */
static void
write_and_read(hid_t dataset, const struct layers *layers, double *seconds_ret)
{
    const bool takes_device = getenv("HDF5_VOL_CONNECTOR") != NULL;
    const hid_t spaces[2] = {H5Screate_simple(RANK, layers->count, NULL),
                             H5Dget_space(dataset)};
    hid_t dxpl = H5Pcreate(H5P_DATASET_XFER);

    if (layers->nvalues > 0) {
        H5Sselect_hyperslab(spaces[1], H5S_SELECT_SET, layers->begin, NULL,
                            layers->count, NULL);
    } else {
        H5Sselect_none(spaces[1]);
        H5Sselect_none(spaces[0]);
    }
    H5Pset_dxpl_mpio(dxpl, H5FD_MPIO_COLLECTIVE);
    double begin = start();
    write_values(dataset, spaces, dxpl, layers, takes_device);
    seconds_ret[0] = MPI_Wtime() - begin;
    /* Touches the memory, so that reading does not pay for it. */
    memset(layers->values_read, 0, layers->nvalues * sizeof(float));
    begin = start();
    read_values(dataset, spaces, dxpl, layers, takes_device);
    seconds_ret[1] = MPI_Wtime() - begin;
    if (layers->d_values != NULL)
        copy_values(layers->values_read, layers->d_values_read, layers);
    MPI_Allreduce(MPI_IN_PLACE, seconds_ret, 2, MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
    H5Pclose(dxpl);
    H5Sclose(spaces[1]);
    H5Sclose(spaces[0]);
}

static double
find_largest_error(const struct layers *layers)
{
    double largest = 0;

    for (size_t i = 0; i < layers->nvalues; i++)
        largest = fmax(largest, fabs((double)layers->values[i] -
                                     (double)layers->values_read[i]));
    MPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
    return largest;
}

static hsize_t
read_extent(int argc, char **argv, int at)
{
    hsize_t extent = at < argc ? strtoull(argv[at], NULL, 10) : 0;

    if (extent < 1 || extent > MAX_EXTENT || argc > 5 + RANK)
        need(-1, "read the command line: FILE NZ NY NX [CHUNK [STEPS "
                 "[CUDART]]], numbers of 1 to 4096");
    return extent;
}

/* Writes and reads the file once. Returns whether the bound holds. */
static bool
run_step(const char *path, const hsize_t *dims, double bound,
         const struct layers *layers)
{
    double seconds[2];
    int process, nprocesses;

    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    MPI_Comm_size(MPI_COMM_WORLD, &nprocesses);
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(fapl, MPI_COMM_WORLD, MPI_INFO_NULL);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    need(file, "create the file");
    hid_t dataset = create(file, dims, bound);
    write_and_read(dataset, layers, seconds);
    double error = find_largest_error(layers);
    if (process == 0)
        printf("%d processes: ratio %.1f, the largest error is %g, the bound "
               "%g; %.4f s to write, %.4f s to read\n",
               nprocesses,
               (double)(dims[0] * dims[1] * dims[2] * sizeof(float)) /
                   (double)H5Dget_storage_size(dataset),
               error, bound, seconds[0], seconds[1]);
    H5Dclose(dataset);
    need(H5Fclose(file), "complete the file");
    H5Pclose(fapl);
    return error <= bound;
}

int
main(int argc, char **argv)
{
    hsize_t dims[RANK], nsteps = 1;
    struct layers layers;
    bool holds = true;

    MPI_Init(&argc, &argv);
    for (int d = 0; d < RANK; d++)
        dims[d] = read_extent(argc, argv, 2 + d);
    if (argc > 2 + RANK)
        chunk_dim = read_extent(argc, argv, 2 + RANK);
    if (argc > 3 + RANK)
        nsteps = read_extent(argc, argv, 3 + RANK);
    take_layers(dims, &layers);
    simulate(&layers);
    double bound = find_bound(&layers);
    if (argc > 4 + RANK)
        move_to_device(argv[4 + RANK], &layers);
    for (hsize_t step = 0; step < nsteps; step++)
        holds &= run_step(argv[1], dims, bound, &layers);
    if (layers.d_values != NULL) {
        cuda.free(layers.d_values);
        cuda.free(layers.d_values_read);
    }
    free(layers.values);
    free(layers.values_read);
    MPI_Finalize();
    return !holds;
}
