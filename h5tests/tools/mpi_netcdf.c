/* MPI processes write and read one variable through netCDF:
 *
 *     mpi_netcdf FILE [filter]
 *
 * With `filter` the program sets chunks and terp itself. Fails where a value is
 * out of bound. */
#include <math.h>
#include <mpi.h>
#include <netcdf.h>
#include <netcdf_filter.h>
#include <netcdf_par.h>
#include <stdio.h>
#include <stdlib.h>

#define RANK 3
#define FILTER 46117
#define BOUND 1e-3

static const size_t dims[RANK] = {192, 64, 96};

static void
need(int status, const char *what)
{
    if (status == NC_NOERR)
        return;
    fprintf(stderr, "mpi_netcdf: cannot %s: %s\n", what, nc_strerror(status));
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static int
define(int file, int has_filter)
{
    static const char *const names[RANK] = {"z", "y", "x"};
    static const size_t chunk[RANK] = {16, 32, 32};
    static const unsigned words[] = {1, 1, 3};
    int dim[RANK], variable;

    for (int i = 0; i < RANK; i++)
        need(nc_def_dim(file, names[i], dims[i], &dim[i]), "define a dim");
    need(nc_def_var(file, "field", NC_FLOAT, RANK, dim, &variable),
         "define the variable");
    if (has_filter) {
        need(nc_def_var_chunking(file, variable, NC_CHUNKED, chunk),
             "set chunks");
        need(nc_def_var_filter(file, variable, FILTER, 3, words),
             "set the filter");
    }
    need(nc_enddef(file), "end the definitions");
    need(nc_var_par_access(file, variable, NC_COLLECTIVE), "be collective");
    return variable;
}

static void
move_values(int file, int variable, int process, int nprocesses)
{
    const size_t first = dims[0] * (size_t)process / (size_t)nprocesses;
    const size_t end = dims[0] * (size_t)(process + 1) / (size_t)nprocesses;
    const size_t start[RANK] = {first, 0, 0};
    const size_t count[RANK] = {end - first, dims[1], dims[2]};
    const size_t n = count[0] * count[1] * count[2];
    float *values = malloc((n + 1) * sizeof *values);
    float *got = malloc((n + 1) * sizeof *got);

    need(values == NULL || got == NULL ? NC_ENOMEM : NC_NOERR, "get memory");
    for (size_t i = 0; i < n; i++) {
        const double z = (double)(first + i / (dims[1] * dims[2]));
        const double y = (double)(i / dims[2] % dims[1]);
        values[i] =
            (float)(sin(z / 9) * cos(y / 13) + (double)(i % dims[2]) / 50);
    }
    need(nc_put_vara_float(file, variable, start, count, values), "write");
    need(nc_get_vara_float(file, variable, start, count, got), "read");
    for (size_t i = 0; i < n; i++)
        need(fabs((double)values[i] - (double)got[i]) <= BOUND ? NC_NOERR
                                                               : NC_ERANGE,
             "keep the bound");
    free(values);
    free(got);
}

int
main(int argc, char **argv)
{
    int process, nprocesses, file;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    MPI_Comm_size(MPI_COMM_WORLD, &nprocesses);
    need(argc == 2 || argc == 3 ? NC_NOERR : NC_EINVAL,
         "read the command line");
    need(nc_create_par(argv[1], NC_NETCDF4 | NC_CLOBBER, MPI_COMM_WORLD,
                       MPI_INFO_NULL, &file),
         "create the file");
    const int variable = define(file, argc == 3);
    move_values(file, variable, process, nprocesses);
    need(nc_close(file), "close the file");
    MPI_Finalize();
    return 0;
}
