/* Random choices and a watch on the process's memory (Linux: /proc). */
#include "h5tests/support/load.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "h5tests/support/fields.h"

#define MIB ((double)(1 << 20))
#define SAMPLES_PER_SECOND 4
#define NS_PER_SECOND 1000000000
/* Samples before this one do not count: memory that the codec keeps for later
 * chunks grows until every arena of the C library has seen the largest
 * chunk. */
#define NWARM (300 * SAMPLES_PER_SECOND)
#define MIN_NSAMPLES (300 * SAMPLES_PER_SECOND) /* fewer prove nothing */
/* So many batches without the device show that the device will not work. */
#define MAX_NIN_VAIN 64

static atomic_uint_fast64_t all_ncases, all_nvalues;
static atomic_uint_fast64_t nby_device, nby_cpu; /* batches */
static atomic_bool over;
static double *samples; /* MiB */
static uint64_t nsamples;

/* ---- choices ---- */

uint64_t
load_word(struct load_random *random)
{
    return terp_field_mix(random->seed + terp_field_mix(random->n++));
}

uint64_t
load_below(struct load_random *random, uint64_t n)
{
    return load_word(random) % n;
}

bool
load_once_in(struct load_random *random, uint64_t n)
{
    return load_below(random, n) == 0;
}

uint64_t
load_size(struct load_random *random, int max_nbits)
{
    const uint64_t limit = UINT64_C(1)
                           << load_below(random, (uint64_t)max_nbits + 1);

    return 1 + load_below(random, limit);
}

void
load_dims(struct load_random *random, int rank, uint64_t nvalues,
          uint64_t *dims_ret)
{
    const uint64_t first = load_below(random, (uint64_t)rank);

    /* The dims are chosen in a cyclic order from a random one on. The last one
     * gets the remaining values. */
    for (int i = 0; i < rank; i++) {
        uint64_t *dim = &dims_ret[(first + (uint64_t)i) % (uint64_t)rank];
        int nbits = 0;
        while (nvalues >> nbits > 1)
            nbits++;
        *dim = i == rank - 1 ? nvalues
                             : load_size(random, 2 * nbits / (rank - i) > nbits
                                                     ? nbits
                                                     : 2 * nbits / (rank - i));
        if (*dim > nvalues)
            *dim = nvalues;
        nvalues /= *dim;
        if (nvalues == 0)
            nvalues = 1;
    }
}

/* ---- the engine ---- */

enum terp_engine_kind
load_engine(void)
{
    const char *wanted = getenv("TERP_ENGINE");

    return wanted != NULL && strcmp(wanted, "cuda") == 0 ? TERP_ENGINE_CUDA
                                                         : TERP_ENGINE_CPU;
}

void
load_note(const struct terp_run_result *result)
{
    if (result->used == TERP_ENGINE_CUDA) {
        atomic_fetch_add(&nby_device, 1);
        return;
    }
    const uint64_t n = atomic_fetch_add(&nby_cpu, 1);
    if (load_engine() != TERP_ENGINE_CUDA)
        return;
    if (n == 0)
        fprintf(stderr, "the CPU did the first one: %s\n",
                result->reason != NULL ? result->reason : "no reason");
    if (n >= MAX_NIN_VAIN && nby_device == 0)
        load_fail(0, "no device is used");
}

bool
load_engine_is_used(void)
{
    if (load_engine() != TERP_ENGINE_CUDA)
        return true;
    printf("device,%" PRIuFAST64 ",%" PRIuFAST64 "\n", nby_device, nby_cpu);
    return nby_device > nby_cpu;
}

/* ---- the command line ---- */

struct load_options
load_options_of(int argc, char **argv)
{
    struct load_options options = {.nseconds = 60, .nthreads = 1, .seed = 1};
    bool ok = true;

    for (int i = 1; i < argc; i++) {
        char *end = argv[i];
        uint64_t number = 0;
        if (argv[i][0] != '-') {
            options.path = argv[i];
            continue;
        }
        if (i + 1 < argc)
            number = strtoull(argv[i + 1], &end, 10);
        ok = ok && i + 1 < argc && *end == '\0' && end != argv[i + 1];
        if (strcmp(argv[i], "--seconds") == 0)
            options.nseconds = number;
        else if (strcmp(argv[i], "--threads") == 0)
            options.nthreads = number;
        else if (strcmp(argv[i], "--seed") == 0)
            options.seed = number;
        else if (strcmp(argv[i], "--first") == 0)
            options.first = number;
        else
            ok = false;
        i++;
    }
    if (!ok || options.nseconds == 0 || options.nthreads == 0) {
        fprintf(stderr,
                "usage: %s [--seconds N] [--threads N] [--seed N] [--first N]"
                " [PATH]\n",
                argv[0]);
        exit(2);
    }
    return options;
}

/* ---- the watch ---- */

void
load_count(uint64_t ncases, uint64_t nvalues)
{
    atomic_fetch_add(&all_ncases, ncases);
    atomic_fetch_add(&all_nvalues, nvalues);
}

void
load_fail(uint64_t number, const char *what)
{
    fflush(stdout);
    fprintf(stderr, "case %" PRIu64 ": %s\n", number, what);
    _exit(1);
}

bool
load_is_over(void)
{
    return atomic_load(&over);
}

/* From /proc/self/statm, in pages: all memory, and resident memory. */
static double
resident_mib(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long all = 0, resident = 0;

    if (file == NULL)
        return 0;
    const int n = fscanf(file, "%lu %lu", &all, &resident);
    fclose(file);
    return n == 2 ? (double)resident * (double)sysconf(_SC_PAGESIZE) / MIB : 0;
}

static double
mean(const double *values, uint64_t n)
{
    double sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += values[i];
    return n > 0 ? sum / (double)n : 0;
}

static void
print_row(uint64_t minute, uint64_t ncases, uint64_t nvalues, uint64_t first)
{
    double most = 0;

    for (uint64_t i = first; i < nsamples; i++)
        most = samples[i] > most ? samples[i] : most;
    printf("%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.1f,%.1f\n", minute, ncases,
           nvalues, mean(samples + first, nsamples - first), most);
    fflush(stdout);
}

void
load_watch(const struct load_options *options)
{
    const uint64_t cap = options->nseconds * SAMPLES_PER_SECOND;
    const uint64_t a_minute = 60 * SAMPLES_PER_SECOND;
    uint64_t ncases = 0, nvalues = 0;
    struct timespec next;

    clock_gettime(CLOCK_MONOTONIC, &next);
    samples = calloc(cap, sizeof *samples);
    if (samples == NULL)
        load_fail(0, "not enough memory");
    while (nsamples < cap) {
        /* Absolute times keep minutes exact when CPUs are busy. */
        next.tv_nsec += NS_PER_SECOND / SAMPLES_PER_SECOND;
        next.tv_sec += next.tv_nsec / NS_PER_SECOND;
        next.tv_nsec %= NS_PER_SECOND;
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        samples[nsamples++] = resident_mib();
        if (nsamples % a_minute != 0 && nsamples != cap)
            continue;
        const uint64_t first = (nsamples - 1) / a_minute * a_minute;
        const uint64_t cases = atomic_load(&all_ncases);
        const uint64_t values = atomic_load(&all_nvalues);
        print_row(first / a_minute + 1, cases - ncases, values - nvalues,
                  first);
        ncases = cases;
        nvalues = values;
    }
    atomic_store(&over, true);
}

bool
load_memory_is_flat(void)
{
    const bool tells = nsamples >= NWARM + MIN_NSAMPLES;
    const uint64_t first = tells ? NWARM : 0, third = (nsamples - first) / 3;
    const double early = mean(samples + first, third);
    const double late = mean(samples + nsamples - third, third);

    printf("memory,%.1f,%.1f\n", early, late);
    free(samples);
    return !tells || late <= 1.25 * early + 16;
}
