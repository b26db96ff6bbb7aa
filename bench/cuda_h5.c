/* Measures writing an array in device memory to a file, and reading it back: by
 * terp_h5_write and terp_h5_read; and as other programs do, through host
 * memory, H5Dwrite, H5Dread and the filter. Also an array in host memory by
 * terp_h5_write and terp_h5_read with the device. Fails unless all files have
 * the same chunks and all reads the same values.
 *
 *     cuda_h5 FIELD_NxNxN.f32 CHUNK_EXTENT FOLDER [WAY]
 *
 * WAY: the name of the only way to measure.
 * FOLDER, preferably in memory (/dev/shm), gets two files, which are removed at
 * the end. HDF5_PLUGIN_PATH names the plugin's folder, TERP_CUDA_LIBRARY the
 * engine. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, setenv */
#include <hdf5.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codec/api/memory.h"
#include "codec/api/processor.h"
#include "filter/h5/terp_h5.h"
#include "filter/plugin/h5z_terp.h"

#define BOUND 1e-3 /* relative to each chunk's range */
#define MAX_NREPS 9
#define MAX_PATH_NBYTES 4096

static struct way {
    const char *name;
    bool direct;             /* uses terp_h5_write and terp_h5_read */
    enum terp_memory memory; /* where the array is */
    const char *engine;      /* the filter's engine */
    const char *nthreads;    /* 0: all CPUs */
    const char *threads;     /* text for the number of threads */
    int nreps;               /* fewer for slow ways */
} ways[] = {
    {"filter", false, TERP_MEMORY_DEVICE, "cpu", "1", "1", 3},
    {"filter", false, TERP_MEMORY_DEVICE, "cpu", "0", "all", 3},
    {"filter", false, TERP_MEMORY_DEVICE, "cuda", "1", "1", 5},
    {"terp_h5_host", true, TERP_MEMORY_HOST, "cuda", "1", "1", MAX_NREPS},
    {"terp_h5_host", true, TERP_MEMORY_HOST, "cuda", "0", "all", MAX_NREPS},
    {"terp_h5", true, TERP_MEMORY_DEVICE, "cuda", "1", "1", MAX_NREPS},
};

#define NWAYS (sizeof ways / sizeof *ways)

static uint64_t extent, nbytes;
static hsize_t dims[3], chunk_dims[3];
static float *h_values, *h_expected;
static void *d_values, *d_read;
static char first_path[MAX_PATH_NBYTES], path[MAX_PATH_NBYTES];
static struct terp_run device;         /* allocates and copies memory */
static struct terp_run_result written; /* result of the last call */

static void
fail(const char *what, const char *why)
{
    fprintf(stderr, "cuda_h5: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static void
check(const char *what, enum terp_status st)
{
    if (st != TERP_OK)
        fail(what, device.result.reason != NULL ? device.result.reason
                   : written.reason != NULL     ? written.reason
                                                : terp_status_text(st));
}

static void
check_id(const char *what, int64_t result)
{
    if (result < 0)
        fail(what, "HDF5 failed");
}

static void *
allocate(uint64_t n)
{
    void *at = malloc(n);

    if (at == NULL)
        fail("host memory", "there is not enough");
    return at;
}

static void
copy(void *dst, const void *src)
{
    check("copying", terp_memory_copy(&device, 1, &dst, &src, &nbytes));
}

static void
read_field(const char *name)
{
    const char *end = strrchr(name, '_');
    FILE *file = fopen(name, "rb");

    if (file == NULL || end == NULL)
        fail(name, "is no file NAME_NxNxN.f32");
    extent = strtoull(end + 1, NULL, 10);
    nbytes = extent * extent * extent * sizeof *h_values;
    if (nbytes == 0)
        fail(name, "does not tell its extent");
    h_values = allocate(nbytes);
    h_expected = allocate(nbytes);
    if (fread(h_values, 1, nbytes, file) != nbytes)
        fail(name, "is too short");
    fclose(file);
    for (int d = 0; d < 3; d++)
        dims[d] = extent;
}

static double
now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static hid_t
create_dataset(hid_t file)
{
    hid_t space = H5Screate_simple(3, dims, NULL);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);

    check_id("H5Pset_chunk", H5Pset_chunk(dcpl, 3, chunk_dims));
    check_id("H5Pset_terp_rel", H5Pset_terp_rel(dcpl, BOUND));
    hid_t dataset = H5Dcreate2(file, "field", H5T_IEEE_F32LE, space,
                               H5P_DEFAULT, dcpl, H5P_DEFAULT);
    check_id("H5Dcreate", dataset);
    H5Pclose(dcpl);
    H5Sclose(space);
    return dataset;
}

static struct terp_run_options
options_of(const struct way *way)
{
    return (struct terp_run_options){
        .engine = TERP_ENGINE_CUDA,
        .memory = way->memory,
        .nthreads = *way->nthreads == '0' ? terp_processor_count() : 1};
}

/* Writes the array to a file, and closes the file. */
static void
write_file(const struct way *way, const char *name)
{
    struct terp_run_options options = options_of(way);
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);

    check_id(name, file);
    hid_t dataset = create_dataset(file);
    if (way->direct) {
        check(
            "terp_h5_write",
            terp_h5_write(&options, dataset, NULL, NULL, NULL,
                          way->memory == TERP_MEMORY_HOST ? h_values : d_values,
                          &written));
        if (written.reason != NULL)
            fail("terp_h5_write", written.reason);
    } else {
        copy(h_values, d_values);
        check_id("H5Dwrite", H5Dwrite(dataset, H5T_IEEE_F32LE, H5S_ALL, H5S_ALL,
                                      H5P_DEFAULT, h_values));
    }
    check_id("H5Dclose", H5Dclose(dataset));
    check_id("H5Fclose", H5Fclose(file));
}

/* Reads the array from a file. */
static void
read_file(const struct way *way, const char *name)
{
    struct terp_run_options options = options_of(way);
    hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);

    check_id(name, file);
    hid_t dataset = H5Dopen2(file, "field", H5P_DEFAULT);
    check_id("H5Dopen", dataset);
    if (way->direct) {
        check("terp_h5_read",
              terp_h5_read(&options, dataset, NULL, NULL,
                           way->memory == TERP_MEMORY_HOST ? h_values : d_read,
                           &written));
    } else {
        check_id("H5Dread", H5Dread(dataset, H5T_IEEE_F32LE, H5S_ALL, H5S_ALL,
                                    H5P_DEFAULT, h_values));
        copy(d_read, h_values);
    }
    H5Dclose(dataset);
    H5Fclose(file);
}

/* Reads the stored bytes of a chunk, which the caller frees. */
static void *
stored_chunk(hid_t dataset, const hsize_t *place, hsize_t *nbytes_ret)
{
    uint32_t mask;

    check_id("H5Dget_chunk_storage_size",
             H5Dget_chunk_storage_size(dataset, place, nbytes_ret));
    void *bytes = allocate(*nbytes_ret);
    check_id("H5Dread_chunk",
             H5Dread_chunk(dataset, H5P_DEFAULT, place, &mask, bytes));
    return bytes;
}

/* Fails unless both files have the same chunks. Returns their ratio. */
static double
compare_files(void)
{
    hid_t first = H5Fopen(first_path, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t second = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t a = H5Dopen2(first, "field", H5P_DEFAULT);
    hid_t b = H5Dopen2(second, "field", H5P_DEFAULT);
    uint64_t all_nbytes = 0;
    hsize_t place[3], na, nb;

    for (place[0] = 0; place[0] < extent; place[0] += chunk_dims[0])
        for (place[1] = 0; place[1] < extent; place[1] += chunk_dims[1])
            for (place[2] = 0; place[2] < extent; place[2] += chunk_dims[2]) {
                void *x = stored_chunk(a, place, &na);
                void *y = stored_chunk(b, place, &nb);
                if (na != nb || memcmp(x, y, na) != 0)
                    fail("the files", "have different chunks");
                all_nbytes += na;
                free(x);
                free(y);
            }
    H5Dclose(a);
    H5Dclose(b);
    H5Fclose(first);
    H5Fclose(second);
    return (double)nbytes / (double)all_nbytes;
}

static int
compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Calls once untimed, since a first call does more work; then times calls. */
static void
measure(const struct way *way, bool is_read, double ratio, int max_nreps)
{
    double times[MAX_NREPS] = {0};
    int nreps = way->nreps < max_nreps ? way->nreps : max_nreps;

    for (int i = -1; i < nreps; i++) {
        double begin = now();
        if (is_read)
            read_file(way, first_path);
        else
            write_file(way, path);
        if (i >= 0)
            times[i] = now() - begin;
    }
    if (!is_read)
        ratio = compare_files();
    qsort(times, (size_t)nreps, sizeof *times, compare_times);
    double median = times[nreps / 2];
    printf("%s,%s,%s,%s,%" PRIu64 ",%llu,%.3f,%.3f,%.3f,%.2f\n", way->name,
           is_read ? "read" : "write", way->engine, way->threads, extent,
           (unsigned long long)chunk_dims[0], 1e3 * median, 1e3 * times[0],
           1e-9 * (double)nbytes / median, ratio);
    fflush(stdout);
}

static int
count_reps(void)
{
    const char *text = getenv("TERP_BENCH_REPS");
    int nreps = text == NULL ? MAX_NREPS : (int)strtol(text, NULL, 10);

    return nreps < 1 || nreps > MAX_NREPS ? MAX_NREPS : nreps;
}

static void
use(const struct way *way)
{
    setenv("TERP_ENGINE", way->engine, 1);
    setenv("TERP_NUM_THREADS", way->nthreads, 1);
}

int
main(int argc, char **argv)
{
    int max_nreps = count_reps();

    if (argc != 4 && argc != 5) {
        fputs("usage: cuda_h5 FIELD_NxNxN.f32 CHUNK_EXTENT FOLDER [WAY]\n",
              stderr);
        return EXIT_FAILURE;
    }
    read_field(argv[1]);
    for (int d = 0; d < 3; d++)
        chunk_dims[d] = strtoull(argv[2], NULL, 10);
    snprintf(first_path, sizeof first_path, "%s/cuda_h5_first.h5", argv[3]);
    snprintf(path, sizeof path, "%s/cuda_h5.h5", argv[3]);
    struct terp_run_options options = {.engine = TERP_ENGINE_CUDA,
                                       .memory = TERP_MEMORY_DEVICE};
    check("the device", terp_run_begin(&options, NULL, &device));
    check("device memory", terp_memory_make(&device, nbytes, &d_values));
    check("device memory", terp_memory_make(&device, nbytes, &d_read));
    copy(d_values, h_values);

    puts("what,direction,engine,threads,extent,chunk,median_ms,min_ms,"
         "gb_per_s,ratio");
    /* The file that all other files are compared with. */
    use(&ways[0]);
    write_file(&ways[0], first_path);
    for (size_t w = 0; w < NWAYS; w++) {
        if (argc == 5 && strcmp(ways[w].name, argv[4]) != 0)
            continue;
        use(&ways[w]);
        measure(&ways[w], false, 0, max_nreps);
    }
    double ratio = compare_files();
    for (size_t w = 0; w < NWAYS; w++) {
        /* The first way reads the values that others must read. */
        if (argc == 5 && w > 0 && strcmp(ways[w].name, argv[4]) != 0)
            continue;
        use(&ways[w]);
        measure(&ways[w], true, ratio, max_nreps);
        if (ways[w].memory == TERP_MEMORY_DEVICE)
            copy(h_values, d_read);
        if (w == 0)
            memcpy(h_expected, h_values, nbytes);
        else if (memcmp(h_expected, h_values, nbytes) != 0)
            fail("the values", "are others than H5Dread's");
    }
    terp_memory_free(&device, d_values);
    terp_memory_free(&device, d_read);
    free(h_values);
    free(h_expected);
    remove(first_path);
    remove(path);
    return EXIT_SUCCESS;
}
