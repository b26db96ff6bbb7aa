/* Threads write and read files of their own through the connector:
 *
 *     vol_threads FILE_PREFIX NTHREADS [events]
 *
 * Each thread needs an HDF5 that is built thread-safe. With `events` the
 * transfers are asynchronous. Exits with 1 where a call fails or a value is out
 * of bound. */
#include <hdf5.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5z_terp.h"

#define SIDE 64
#define NVALUES (SIDE * SIDE * SIDE)
#define BOUND 1e-3
#define MAX_NTHREADS 8

static const char *prefix;
static bool uses_events;

static void
need(bool is_good, const char *what)
{
    if (is_good)
        return;
    fprintf(stderr, "vol_threads: cannot %s\n", what);
    exit(1);
}

static void
wait_for(hid_t events)
{
    size_t nleft;
    hbool_t failed;

    need(H5ESwait(events, H5ES_WAIT_FOREVER, &nleft, &failed) >= 0 && !failed,
         "wait for the events");
}

/* Writes twice, so that transfers of a dataset keep their order, and reads. */
static void
move_with_events(hid_t dataset, const float *values, float *got, bool waits)
{
    hid_t events = H5EScreate();

    for (int i = 0; i < 2; i++)
        need(H5Dwrite_async(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL,
                            H5P_DEFAULT, values, events) >= 0,
             "write");
    if (waits)
        wait_for(events);
    need(H5Dread_async(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                       got, events) >= 0,
         "read");
    wait_for(events);
    H5ESclose(events);
}

static void
move(hid_t dataset, const float *values, float *got)
{
    for (int i = 0; i < 2; i++)
        need(H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                      values) >= 0,
             "write");
    need(H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                 got) >= 0,
         "read");
}

static void
move_dataset(hid_t file, int number, float *values, float *got)
{
    static const hsize_t dims[] = {SIDE, SIDE, SIDE};
    static const hsize_t chunk[] = {SIDE / 2, SIDE / 2, SIDE / 2};
    hid_t space = H5Screate_simple(3, dims, NULL);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    char name[16];

    for (int i = 0; i < NVALUES; i++)
        values[i] = sinf((float)i / 997 + (float)number) * cosf((float)i / 91);
    H5Pset_chunk(dcpl, 3, chunk);
    need(H5Pset_terp_abs(dcpl, BOUND) >= 0, "add the filter");
    snprintf(name, sizeof name, "%d", number);
    hid_t dataset = H5Dcreate2(file, name, H5T_NATIVE_FLOAT, space, H5P_DEFAULT,
                               dcpl, H5P_DEFAULT);
    need(dataset >= 0, "create a dataset");
    if (uses_events)
        move_with_events(dataset, values, got, number % 2 == 0);
    else
        move(dataset, values, got);
    for (int i = 0; i < NVALUES; i++)
        need(fabs((double)values[i] - (double)got[i]) <= BOUND,
             "keep the bound");
    H5Dclose(dataset);
    H5Pclose(dcpl);
    H5Sclose(space);
}

static void *
work(void *arg)
{
    const int *thread = arg;
    float *values = malloc(NVALUES * sizeof *values);
    float *got = malloc(NVALUES * sizeof *got);
    char path[4096];

    need(values != NULL && got != NULL, "get memory");
    snprintf(path, sizeof path, "%s%d.h5", prefix, *thread);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    need(file >= 0, "create a file");
    for (int i = 0; i < 3; i++)
        move_dataset(file, i, values, got);
    need(H5Fclose(file) >= 0, "close a file");
    free(values);
    free(got);
    return NULL;
}

int
main(int argc, char **argv)
{
    pthread_t threads[MAX_NTHREADS];
    int numbers[MAX_NTHREADS];
    hbool_t is_safe;

    need(argc == 3 || argc == 4, "read the command line");
    prefix = argv[1];
    int nthreads = atoi(argv[2]);
    uses_events = argc == 4 && strcmp(argv[3], "events") == 0;
    if (H5is_library_threadsafe(&is_safe) < 0 || !is_safe)
        nthreads = 1;
    need(nthreads > 0 && nthreads <= MAX_NTHREADS, "start so many threads");
    for (int i = 0; i < nthreads; i++) {
        numbers[i] = i;
        need(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0,
             "start a thread");
    }
    for (int i = 0; i < nthreads; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
