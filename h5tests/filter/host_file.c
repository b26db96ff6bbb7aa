/* A host of the plugin that is a C program. It is linked with libhdf5.so, with
 * libhdf5.a, and with a libhdf5.a that has VTK's names.
 *
 *   host_file write|read FILE...
 *   host_file threads|fork FILE...
 *
 * A file holds each field twice: uncompressed in the group "plain", and
 * compressed in "terp". So any host can check the file of any other;
 * h5tests/hosts/host_file.py does the same with h5py. The other two commands
 * write and read the files in as many threads at once, or in a process and then
 * in its child. */
#include <hdf5.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "filter/plugin/h5z_terp.h"

#define BOUND 1e-3
#define N0 30
#define N1 31
#define N2 32
#define NVALUES (N0 * N1 * N2)

/* Ends a child that waits for ever for a thread that only the parent has. */
#define MAX_SECONDS 60

static const char *const names[] = {"<f4", ">f4", "<f8", ">f8", "integer"};

#define NNAMES (sizeof names / sizeof *names)

/* Only for failures of HDF5 itself, which has printed its errors by then. */
#define OR_EXIT(call)                               \
    do {                                            \
        if ((call) < 0) {                           \
            fprintf(stderr, "failed: " #call "\n"); \
            exit(1);                                \
        }                                           \
    } while (0)

static hid_t
file_type(size_t i)
{
    const hid_t types[] = {H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE,
                           H5T_IEEE_F64BE, H5T_STD_I32LE};
    return types[i];
}

/* A smooth field with some NaN and infinities; whole numbers if `i` is the
 * integer field. */
static double
value(size_t i, size_t at)
{
    double smooth = sin((double)(at % N2) / 9.0 + (double)i) *
                    cos((double)(at / N2 % N1) / 7.0) *
                    sin((double)(at / N2 / N1) / 8.0);

    if (names[i][0] == 'i')
        return floor(1e6 * smooth);
    if (at % 101 == 0)
        return NAN;
    return at % 101 == 7 ? -INFINITY : smooth;
}

static void
write_field(hid_t file, const char *group, size_t i, hid_t dcpl)
{
    static const hsize_t dims[] = {N0, N1, N2};
    double *values = malloc(NVALUES * sizeof *values);
    hid_t parent, space, dataset;

    if (values == NULL)
        exit(1);
    for (size_t at = 0; at < NVALUES; at++)
        values[at] = value(i, at);
    OR_EXIT(parent = H5Gopen2(file, group, H5P_DEFAULT));
    OR_EXIT(space = H5Screate_simple(3, dims, NULL));
    OR_EXIT(dataset = H5Dcreate2(parent, names[i], file_type(i), space,
                                 H5P_DEFAULT, dcpl, H5P_DEFAULT));
    OR_EXIT(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                     values));
    OR_EXIT(H5Dclose(dataset));
    OR_EXIT(H5Sclose(space));
    OR_EXIT(H5Gclose(parent));
    free(values);
}

static void
write_file(const char *path)
{
    static const hsize_t chunk[] = {15, 16, 16};
    static const unsigned words[] = {H5Z_TERP_ABSOLUTE, 1, 3};
    hid_t file, group, dcpl;

    OR_EXIT(file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    OR_EXIT(dcpl = H5Pcreate(H5P_DATASET_CREATE));
    OR_EXIT(H5Pset_chunk(dcpl, 3, chunk));
    OR_EXIT(H5Pset_filter(dcpl, H5Z_FILTER_TERP, H5Z_FLAG_MANDATORY, 3, words));
    OR_EXIT(group = H5Gcreate2(file, "plain", H5P_DEFAULT, H5P_DEFAULT,
                               H5P_DEFAULT));
    OR_EXIT(H5Gclose(group));
    OR_EXIT(group = H5Gcreate2(file, "terp", H5P_DEFAULT, H5P_DEFAULT,
                               H5P_DEFAULT));
    OR_EXIT(H5Gclose(group));
    for (size_t i = 0; i < NNAMES; i++) {
        write_field(file, "plain", i, H5P_DEFAULT);
        write_field(file, "terp", i, dcpl);
    }
    OR_EXIT(H5Pclose(dcpl));
    OR_EXIT(H5Fclose(file));
}

static double *
read_field(hid_t file, const char *group, const char *name,
           hsize_t *stored_nbytes_ret)
{
    double *values = malloc(NVALUES * sizeof *values);
    hid_t parent, dataset;

    if (values == NULL)
        exit(1);
    OR_EXIT(parent = H5Gopen2(file, group, H5P_DEFAULT));
    OR_EXIT(dataset = H5Dopen2(parent, name, H5P_DEFAULT));
    OR_EXIT(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                    values));
    *stored_nbytes_ret = H5Dget_storage_size(dataset);
    OR_EXIT(H5Dclose(dataset));
    OR_EXIT(H5Gclose(parent));
    return values;
}

static uint64_t
bits_of(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static bool
is_near(double want, double got)
{
    if (!isfinite(want))
        return bits_of(want) == bits_of(got);
    /* In a wider type, so that the difference is exact. */
    return isfinite(got) && fabsl((long double)want - got) <= BOUND;
}

static void
check_field(hid_t file, const char *path, const char *name)
{
    hsize_t plain_nbytes, stored_nbytes;
    double *want = read_field(file, "plain", name, &plain_nbytes);
    double *got = read_field(file, "terp", name, &stored_nbytes);
    bool is_float = name[0] != 'i';

    for (size_t at = 0; at < NVALUES; at++)
        if (is_float ? !is_near(want[at], got[at]) : want[at] != got[at]) {
            fprintf(stderr, "%s: %s: value %zu is %.17g, not %.17g\n", path,
                    name, at, got[at], want[at]);
            exit(1);
        }
    if (is_float && stored_nbytes > plain_nbytes / 2) {
        fprintf(stderr, "%s: %s: is not compressed\n", path, name);
        exit(1);
    }
    free(want);
    free(got);
}

static void
read_file(const char *path)
{
    hid_t file;

    OR_EXIT(file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT));
    for (size_t i = 0; i < NNAMES; i++)
        check_field(file, path, names[i]);
    OR_EXIT(H5Fclose(file));
}

static void *
write_and_read(void *path)
{
    write_file(path);
    read_file(path);
    return NULL;
}

static void
in_threads(int npaths, char **paths)
{
    pthread_t *threads = malloc((size_t)npaths * sizeof *threads);

    if (threads == NULL)
        exit(1);
    for (int i = 0; i < npaths; i++)
        if (pthread_create(&threads[i], NULL, write_and_read, paths[i]) != 0)
            exit(1);
    for (int i = 0; i < npaths; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

/* Each process is a child of the one before. */
static void
in_children(int npaths, char **paths)
{
    write_and_read(paths[0]);
    if (npaths == 1)
        return;
#ifdef _WIN32
    exit(2); /* this system has no fork */
#else
    int status;
    pid_t child = fork();
    if (child == 0) {
        alarm(MAX_SECONDS);
        read_file(paths[0]);
        in_children(npaths - 1, paths + 1);
        exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "the child has failed\n");
        exit(1);
    }
#endif
}

int
main(int argc, char **argv)
{
    unsigned major, minor, release;
    const char *action = argc > 2 ? argv[1] : "";

    /* Before the threads start, because a program that links libhdf5 may need
     * it. */
    OR_EXIT(H5get_libversion(&major, &minor, &release));
#ifdef TERP_LINKED
    OR_EXIT(H5Z_terp_register());
#endif
    if (strcmp(action, "threads") == 0)
        in_threads(argc - 2, argv + 2);
    else if (strcmp(action, "fork") == 0)
        in_children(argc - 2, argv + 2);
    else
        for (int i = 2; i < argc; i++) {
            if (strcmp(action, "write") == 0)
                write_file(argv[i]);
            else if (strcmp(action, "read") == 0)
                read_file(argv[i]);
            else
                return 2;
        }
    printf("HDF5 %u.%u.%u\n", major, minor, release);
    return action[0] == '\0' ? 2 : 0;
}
