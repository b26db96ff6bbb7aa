/* MPI processes write one dataset in a pattern of simulations:
 *
 *     mpi_patterns FILE PATTERN [CUDART]
 *
 * PATTERN is a name of `patterns` below, or several joined by "+". Prints
 * "refused" where HDF5 refuses the write. The values do not depend on the
 * number of processes. With CUDART, the CUDA runtime or "none" for the host,
 * the dataset is smaller, because devices are emulated, and H5Dwrite and
 * H5Dread get device memory.
 *
 * Patterns with a fault write another dataset, /before, and flush it first.
 * With TEST_EVENTS, writes and reads are H5Dwrite_async and H5Dread_async, and
 * the program prints how many the event set still has after the calls. */
#define _GNU_SOURCE /* setenv, setitimer and dladdr */

#include <dlfcn.h>
#include <hdf5.h>
#include <limits.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "examples/cuda_memory.h"
#include "h5z_terp.h"

#define RANK 3

static hsize_t dims[RANK] = {150, 70, 90};
static const hsize_t small_dims[RANK] = {70, 40, 40}; /* on the device */
static hsize_t chunk[RANK] = {16, 32, 32};
/* 40 chunks of 1.2 MB */
static const hsize_t large_dims[RANK] = {320, 140, 270};
static const hsize_t large_chunk[RANK] = {8, 140, 270};

static bool uses_device;

enum {
    FILTERED = 1 << 0, /* the program sets chunks and the filter */
    DEFLATED = 1 << 1, /* the same with deflate */
    OPTIONAL = 1 << 2, /* the filter may fail */
    SHARED = 1 << 3,   /* processes have parts of the same chunks */
    ALONE = 1 << 4,    /* the first process has all values */
    WIDE = 1 << 5,     /* double in memory */
    SPACED = 1 << 6,   /* in memory with gaps */
    GROWN = 1 << 7,    /* one dimension is unlimited, and grows first */
    UNFILLED = 1 << 8, /* chunks get no fill value */
    PAIR = 1 << 9,     /* a call for two datasets */
    INDEPENDENT = 1 << 10,
    REPEATED = 1 << 11, /* every process writes all values */
    /* Faults. */
    POOR = 1 << 12, /* the last process has little memory */
    FULL = 1 << 13, /* no file may grow */
    KILLED =
        1 << 14, /* the last process dies after TEST_KILL_US microseconds */
    /* processes read metadata together, also after a flush */
    TOGETHER = 1 << 15,
    LAST = 1 << 16,   /* the last process has all values */
    BLOCKS = 1 << 17, /* pairs of processes have parts of the same layers */
    GAP = 1 << 18,    /* no process has the last layers */
    IDLE = 1 << 19,   /* the first of several processes has no values */
    LARGE = 1 << 20,  /* large chunks, and malloc tells of mapped memory */
    STARVED = 1 << 21 /* terp's allocations fail in the last process */
};
#define FAULTS (POOR | FULL | KILLED)

struct pattern {
    const char *name;
    unsigned is;
    int nwrites;
};

static const struct pattern patterns[] = {
    {"chunks", FILTERED, 1},
    {"shared", FILTERED | SHARED, 1},
    {"blocks", FILTERED | SHARED | BLOCKS, 1},
    {"gap", FILTERED | SHARED | GAP, 1},
    {"idle", FILTERED | IDLE, 1},
    {"alone", FILTERED | ALONE, 1},
    {"double", FILTERED | WIDE, 1},
    {"spaced", FILTERED | SPACED, 1},
    {"again", FILTERED, 3},
    {"grown", FILTERED | GROWN, 1},
    {"unfilled", FILTERED | UNFILLED, 1},
    {"pair", FILTERED | PAIR, 1},
    {"plain", 0, 1},
    {"deflated", DEFLATED, 1},
    {"independent", INDEPENDENT, 1},
    {"repeated", FILTERED | REPEATED, 1},
    {"together", FILTERED | ALONE | TOGETHER, 1},
    {"last", FILTERED | LAST | TOGETHER, 1},
    {"poor", FILTERED | OPTIONAL | POOR, 1},
    {"full", FILTERED | FULL, 1},
    {"killed", FILTERED | KILLED, 8},
    {"large", FILTERED | UNFILLED | LARGE, 1},
    {"starved", FILTERED | OPTIONAL | STARVED, 1},
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

/* ---- allocations that fail ---- */

/* Counts the allocations of terp's libraries, and lets one of them fail. */
static struct {
    atomic_bool is_on;
    atomic_ullong ncalls;
    unsigned long long fail_at;
} starving = {.fail_at = ULLONG_MAX};

/* Begins before a call and ends after it; no number: nothing fails. */
static void
starve(bool is_on)
{
    starving.is_on = is_on && starving.fail_at != ULLONG_MAX;
}

static void
starve_from(unsigned long long fail_at)
{
    starving.fail_at = fail_at;
    starving.ncalls = 0;
}

/* These replace the C library's functions in the whole program. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *
__libc_realloc(void *, size_t);

static bool
must_fail(const void *caller)
{
    Dl_info info;

    if (!starving.is_on || dladdr(caller, &info) == 0)
        return false;
    const char *name = strrchr(info.dli_fname, '/');
    return name != NULL && strncmp(name, "/libh5", 6) == 0 &&
           strstr(name, "terp.so") != NULL &&
           atomic_fetch_add(&starving.ncalls, 1) == starving.fail_at;
}

void *
malloc(size_t nbytes)
{
    return must_fail(__builtin_return_address(0)) ? NULL
                                                  : __libc_malloc(nbytes);
}

void *
calloc(size_t n, size_t nbytes)
{
    return must_fail(__builtin_return_address(0)) ? NULL
                                                  : __libc_calloc(n, nbytes);
}

void *
realloc(void *block, size_t nbytes)
{
    return must_fail(__builtin_return_address(0))
               ? NULL
               : __libc_realloc(block, nbytes);
}
#endif

/* All that the patterns in the list are. */
static struct pattern
find_patterns(const char *names)
{
    struct pattern found = {.name = names};

    for (size_t n = 0; *names != '\0'; names += n + (names[n] == '+')) {
        size_t i = 0;
        n = strcspn(names, "+");
        while (i < sizeof patterns / sizeof *patterns &&
               (strlen(patterns[i].name) != n ||
                strncmp(patterns[i].name, names, n) != 0))
            i++;
        need(i < sizeof patterns / sizeof *patterns ? 0 : -1,
             "find the pattern");
        found.is |= patterns[i].is;
        if (patterns[i].nwrites > found.nwrites)
            found.nwrites = patterns[i].nwrites;
    }
    return found;
}

/* The first layer of a process's values. */
static hsize_t
layer_of(const struct pattern *pattern, int rank)
{
    const hsize_t unit = (pattern->is & SHARED) != 0 ? 7 : chunk[0];
    const hsize_t nunits = (dims[0] + unit - 1) / unit;
    int nranks;

    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    if ((pattern->is & IDLE) != 0 && nranks > 1) {
        rank = rank == 0 ? 0 : rank - 1;
        nranks--;
    }
    if ((pattern->is & BLOCKS) != 0) {
        rank /= 2;
        nranks = (nranks + 1) / 2;
    }
    if ((pattern->is & REPEATED) != 0)
        return 0;
    if ((pattern->is & ALONE) != 0)
        return rank == 0 ? 0 : dims[0];
    if ((pattern->is & LAST) != 0)
        return rank == nranks - 1 ? 0 : dims[0];
    const hsize_t layer = nunits * (hsize_t)rank / (hsize_t)nranks * unit;
    return layer > dims[0] ? dims[0] : layer;
}

/* The place in the dataset of value i of a box. */
static size_t
place_of(const hsize_t *first, const hsize_t *count, size_t i)
{
    const size_t x = i % count[2], y = i / count[2] % count[1];
    const size_t z = i / count[2] / count[1];

    return ((first[0] + z) * dims[1] + first[1] + y) * dims[2] + first[2] + x;
}

static void *
make_values(const struct pattern *pattern, const hsize_t *first,
            const hsize_t *count, int number)
{
    const size_t layer_nvalues = (size_t)(dims[1] * dims[2]);
    const size_t n = (size_t)(count[0] * count[1] * count[2]);
    double *wide = calloc(n + 1, sizeof *wide);
    float *narrow = calloc(n + 1, sizeof *narrow);

    if (wide == NULL || narrow == NULL)
        need(-1, "get memory");
    for (size_t i = 0; i < n; i++) {
        const size_t at = place_of(first, count, i);
        const double z = (double)(at / layer_nvalues);
        const double y = (double)(at % layer_nvalues / dims[2]);
        wide[i] = sin(0.1 * z + 0.3 * (double)number) * cos(0.07 * y) +
                  0.2 * sin(0.05 * (double)(at % dims[2]) + z);
        narrow[i] = (float)wide[i];
    }
    if ((pattern->is & SPACED) != 0) {
        float *spaced = calloc(2 * n + 2, sizeof *spaced);
        double *spaced_wide = calloc(2 * n + 2, sizeof *spaced_wide);
        if (spaced == NULL || spaced_wide == NULL)
            need(-1, "get memory");
        for (size_t i = 0; i < n; i++) {
            spaced[2 * i] = narrow[i];
            spaced_wide[2 * i] = wide[i];
        }
        free(narrow);
        free(wide);
        narrow = spaced;
        wide = spaced_wide;
    }
    free((pattern->is & WIDE) != 0 ? (void *)narrow : (void *)wide);
    return (pattern->is & WIDE) != 0 ? (void *)wide : (void *)narrow;
}

static hid_t
create(hid_t file, const char *name, const struct pattern *pattern)
{
    const bool grows = (pattern->is & GROWN) != 0;
    const hsize_t begin[RANK] = {grows ? chunk[0] : dims[0], dims[1], dims[2]};
    const hsize_t max[RANK] = {grows ? H5S_UNLIMITED : dims[0], dims[1],
                               dims[2]};
    hid_t space = H5Screate_simple(RANK, begin, max);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);

    H5Pset_obj_track_times(dcpl, false); /* files of two runs are equal */
    if ((pattern->is & (FILTERED | DEFLATED)) != 0)
        H5Pset_chunk(dcpl, RANK, chunk);
    if ((pattern->is & FILTERED) != 0)
        need(H5Pset_terp_abs(dcpl, 1e-3), "add the terp filter");
    if ((pattern->is & OPTIONAL) != 0)
        need(H5Pmodify_filter(dcpl, H5Z_FILTER_TERP, H5Z_FLAG_OPTIONAL, 3,
                              (const unsigned[]){1, 1, 3}),
             "make the filter optional");
    if ((pattern->is & DEFLATED) != 0)
        need(H5Pset_deflate(dcpl, 1), "add deflate");
    if ((pattern->is & UNFILLED) != 0)
        H5Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER);
    hid_t dataset = H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT,
                               dcpl, H5P_DEFAULT);
    need(dataset, "create the dataset");
    if (grows)
        need(H5Dset_extent(dataset, dims), "extend the dataset");
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
    const bool is_idle = (pattern->is & IDLE) != 0 && nranks > 1 && rank == 0;
    const bool is_half =
        (pattern->is & BLOCKS) != 0 && rank / 2 * 2 + 1 < nranks;
    const int last =
        (pattern->is & BLOCKS) != 0 ? (nranks - 1) / 2 * 2 : nranks - 1;
    const int next = (pattern->is & BLOCKS) != 0 ? rank / 2 * 2 + 2 : rank + 1;
    const hsize_t first = layer_of(pattern, rank);
    hsize_t end = rank >= last || (pattern->is & (ALONE | LAST | REPEATED)) != 0
                      ? dims[0]
                      : layer_of(pattern, next);
    if ((pattern->is & GAP) != 0 && end == dims[0])
        end -= 5;
    if (is_idle)
        end = first;
    struct share share = {.first = {first, 0, 0},
                          .count = {end - first, dims[1], dims[2]},
                          .space = H5Dget_space(dataset),
                          .dxpl = H5Pcreate(H5P_DATASET_XFER)};
    if (is_half) {
        share.first[1] = rank % 2 == 0 ? 0 : dims[1] / 2 + 2;
        share.count[1] = rank % 2 == 0 ? dims[1] / 2 + 2 : dims[1] / 2 - 2;
    }
    share.memory = H5Screate_simple(RANK, share.count, NULL);
    if (end > first) {
        H5Sselect_hyperslab(share.space, H5S_SELECT_SET, share.first, NULL,
                            share.count, NULL);
    } else {
        H5Sselect_none(share.space);
        H5Sselect_none(share.memory);
    }
    H5Pset_dxpl_mpio(share.dxpl, (pattern->is & INDEPENDENT) != 0
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

/* The values of a process in memory where each is followed by a gap. */
static void
space_memory(struct share *share)
{
    static const hsize_t start[RANK] = {0}, stride[RANK] = {1, 1, 2};
    const hsize_t spaced[RANK] = {share->count[0], share->count[1],
                                  2 * share->count[2]};

    H5Sclose(share->memory);
    share->memory = H5Screate_simple(RANK, spaced, NULL);
    if (share->count[0] > 0)
        H5Sselect_hyperslab(share->memory, H5S_SELECT_SET, start, stride,
                            share->count, NULL);
    else
        H5Sselect_none(share->memory);
}

/* Where the program uses event sets, one for the next call; else negative. */
static hid_t
open_events(void)
{
#if H5_VERSION_GE(1, 14, 0)
    return getenv("TEST_EVENTS") == NULL ? H5I_INVALID_HID : H5EScreate();
#else
    return H5I_INVALID_HID;
#endif
}

/* Says how many calls are not complete, and waits for them. */
static herr_t
close_events(hid_t events, herr_t result)
{
#if H5_VERSION_GE(1, 14, 0)
    size_t npending = 0;
    hbool_t failed = false;

    if (events < 0)
        return result;
    need(H5ESget_count(events, &npending), "count events");
    printf("pending %zu\n", npending);
    need(H5ESwait(events, H5ES_WAIT_FOREVER, &npending, &failed), "wait");
    need(H5ESclose(events), "close the event set");
    return failed ? -1 : result;
#else
    (void)events;
    return result;
#endif
}

static herr_t
write_one(hid_t dataset, hid_t type, const struct share *share,
          const void *values)
{
    hid_t events = open_events();
#if H5_VERSION_GE(1, 14, 0)
    if (events >= 0)
        return close_events(events, H5Dwrite_async(dataset, type, share->memory,
                                                   share->space, share->dxpl,
                                                   values, events));
#endif
    return close_events(events, H5Dwrite(dataset, type, share->memory,
                                         share->space, share->dxpl, values));
}

static herr_t
read_one(hid_t dataset, const struct share *share, void *values)
{
    hid_t events = open_events();
#if H5_VERSION_GE(1, 14, 0)
    if (events >= 0)
        return close_events(events, H5Dread_async(dataset, H5T_NATIVE_FLOAT,
                                                  share->memory, share->space,
                                                  share->dxpl, values, events));
#endif
    return close_events(events,
                        H5Dread(dataset, H5T_NATIVE_FLOAT, share->memory,
                                share->space, share->dxpl, values));
}

/* One call for both datasets, where HDF5 has it. */
static herr_t
write_pair(const hid_t *datasets, hid_t type, const struct share *share,
           const void *values)
{
#if H5_VERSION_GE(1, 14, 0)
    hid_t ids[] = {datasets[0], datasets[1]}, types[] = {type, type};
    hid_t memory[] = {share->memory, share->memory};
    hid_t space[] = {share->space, share->space};
    const void *from[] = {values, values};

    return H5Dwrite_multi(2, ids, types, memory, space, share->dxpl, from);
#else
    return H5Dwrite(datasets[1], type, share->memory, share->space, share->dxpl,
                    values) < 0
               ? -1
               : H5Dwrite(datasets[0], type, share->memory, share->space,
                          share->dxpl, values);
#endif
}

static herr_t
write_values(const hid_t *datasets, const struct pattern *pattern, int number)
{
    struct share share = open_share(datasets[0], pattern);
    const bool is_wide = (pattern->is & WIDE) != 0;
    const size_t n = (size_t)(share.count[0] * share.count[1] * share.count[2]);
    const size_t nbytes = ((pattern->is & SPACED) != 0 ? 2 : 1) * (n + 1) *
                          (is_wide ? sizeof(double) : sizeof(float));
    const hid_t type = is_wide ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT;
    void *values = make_values(pattern, share.first, share.count, number);
    void *at = to_device(values, nbytes);

    if ((pattern->is & SPACED) != 0)
        space_memory(&share);
    starve(true);
    const herr_t result = (pattern->is & PAIR) != 0
                              ? write_pair(datasets, type, &share, at)
                              : write_one(datasets[0], type, &share, at);
    starve(false);
    from_device(at, values, nbytes);
    free(values);
    close_share(&share);
    return result;
}

/* ---- faults ---- */

/* Kills this process later, even within a call of MPI. */
static void
die_later(void)
{
    const char *text = getenv("TEST_KILL_US");
    const long delay_us = text == NULL ? 0 : atol(text);
    const struct itimerval timer = {
        .it_value = {delay_us / 1000000, delay_us % 1000000}};

    if (delay_us == 0)
        raise(SIGKILL);
    setitimer(ITIMER_REAL, &timer, NULL); /* SIGALRM ends the process */
}

/* No write may end beyond what the file has now. */
static void
fill_disk(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct rlimit limit;

    need(file == NULL || fseek(file, 0, SEEK_END) != 0 ? -1 : 0,
         "measure the file");
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = (rlim_t)ftell(file);
    fclose(file);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void
empty_disk(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
}

/* Writes /before, and lets the fault begin. */
static void
begin_fault(hid_t file, const char *path, const struct pattern *pattern)
{
    static const struct pattern good = {"", FILTERED, 1};
    hid_t before = create(file, "before", &good);
    int rank, nranks;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    need(write_values(&before, &good, 0), "write /before");
    H5Dclose(before);
    need(H5Fflush(file, H5F_SCOPE_GLOBAL), "flush");
    MPI_Barrier(MPI_COMM_WORLD);
    if ((pattern->is & FULL) != 0)
        fill_disk(path);
    if (rank < nranks - 1)
        return;
    if ((pattern->is & POOR) != 0)
        setenv("TERP_MAX_MEMORY", "1K", 1);
    if ((pattern->is & KILLED) != 0)
        die_later();
}

/* ---- reading ---- */

static void
read_values(hid_t dataset, const struct pattern *pattern)
{
    const struct share share = open_share(dataset, pattern);
    const size_t n = (size_t)(share.count[0] * share.count[1] * share.count[2]);
    float *values = calloc(n + 1, sizeof *values);
    unsigned long long sum = 0;
    int rank;

    if (values == NULL)
        need(-1, "get memory");
    float *at = to_device(values, (n + 1) * sizeof *values);
    need(read_one(dataset, &share, at), "read the dataset");
    from_device(at, values, (n + 1) * sizeof *values);
    for (size_t i = 0; i < n; i++) {
        unsigned bits;
        memcpy(&bits, &values[i], sizeof bits);
        sum += bits *
               (unsigned long long)(place_of(share.first, share.count, i) + 1);
    }
    free(values);
    close_share(&share);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM,
                  MPI_COMM_WORLD);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("sum %llu\n", sum);
}

/* Creates a file while terp's first allocation fails, and writes it. */
static void
starve_file(const char *path, hid_t fapl, bool is_last,
            const struct pattern *pattern)
{
    char name[4096];

    snprintf(name, sizeof name, "%s.starved", path);
    starve_from(is_last ? 0 : ULLONG_MAX);
    starve(true);
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    starve(false);
    starve_from(ULLONG_MAX);
    need(file, "create another file");
    hid_t dataset = create(file, "field", pattern);
    need(write_values(&dataset, pattern, 0), "write another file");
    read_values(dataset, pattern);
    H5Dclose(dataset);
    need(H5Fclose(file), "close another file");
}

/* Writes and reads a dataset again and again, while each of terp's allocations
 * fails in turn in the last process. Prints in how many rounds a process was
 * refused. */
static void
starve_in_turn(hid_t file, const char *path, hid_t fapl,
               const struct pattern *pattern)
{
    unsigned long long most = 1;
    int rank, nranks, nrefused = 0;
    char name[32];

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    const bool is_last = rank == nranks - 1;
    starve_file(path, fapl, is_last, pattern);
    for (unsigned long long n = 0; n < most; n += 1 + n / 8) {
        snprintf(name, sizeof name, "starved%llu", n);
        hid_t dataset = create(file, name, pattern);
        starve_from(is_last ? n : ULLONG_MAX);
        int refused = write_values(&dataset, pattern, 0) < 0;
        most = starving.ncalls;
        starve_from(ULLONG_MAX);
        MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX,
                      MPI_COMM_WORLD);
        MPI_Allreduce(MPI_IN_PLACE, &refused, 1, MPI_INT, MPI_MAX,
                      MPI_COMM_WORLD);
        if (!refused)
            read_values(dataset, pattern);
        nrefused += refused;
        H5Dclose(dataset);
    }
    if (rank == 0)
        printf("%d refused, %llu allocations\n", nrefused, most);
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
    const struct pattern found = find_patterns(argv[2]), *pattern = &found;
    if ((pattern->is & LARGE) != 0) {
        memcpy(dims, large_dims, sizeof dims);
        memcpy(chunk, large_chunk, sizeof chunk);
    }
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(fapl, MPI_COMM_WORLD, MPI_INFO_NULL);
    if ((pattern->is & TOGETHER) != 0)
        H5Pset_all_coll_metadata_ops(fapl, true);
    hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    need(file, "create the file");
    const bool has_fault = (pattern->is & FAULTS) != 0;
    hid_t datasets[2] = {create(file, "field", pattern), -1};
    if ((pattern->is & PAIR) != 0)
        datasets[1] = create(file, "second", pattern);
    if (has_fault)
        begin_fault(file, argv[1], pattern);
    bool is_written = true;
    for (int i = 0; i < pattern->nwrites; i++)
        if (write_values(datasets, pattern, i) < 0) {
            puts("refused");
            is_written = false;
        }
    if ((pattern->is & STARVED) != 0)
        starve_in_turn(file, argv[1], fapl, pattern);
    if ((pattern->is & FULL) != 0)
        empty_disk();
#ifdef __GLIBC__
    if ((pattern->is & LARGE) != 0)
        malloc_stats();
#endif
    struct pattern reads = *pattern;
    if ((pattern->is & TOGETHER) != 0) {
        need(H5Fflush(file, H5F_SCOPE_GLOBAL), "flush");
        reads.is &= ~(unsigned)ALONE;
    }
    if (is_written || !has_fault)
        read_values(datasets[0], &reads);
    if ((pattern->is & PAIR) != 0) {
        read_values(datasets[1], pattern);
        H5Dclose(datasets[1]);
    }
    H5Dclose(datasets[0]);
    H5Pclose(fapl);
    need(H5Fclose(file), "close the file");
    MPI_Finalize();
    return 0;
}
