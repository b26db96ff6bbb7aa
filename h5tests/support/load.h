/* What the programs of scripts/load.sh share: random choices, a row for each
 * minute, and whether the process's memory stays what it is. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "codec/api/terp.h"

/* Random words: the same for the same seed, on every machine. */
struct load_random {
    uint64_t seed, n;
};

uint64_t
load_word(struct load_random *random);

/* From 0 to n - 1. */
uint64_t
load_below(struct load_random *random, uint64_t n);

/* True once in n times. */
bool
load_once_in(struct load_random *random, uint64_t n);

/* About log-uniform, from 1 to 2^max_nbits. */
uint64_t
load_size(struct load_random *random, int max_nbits);

/* `rank` dims, whose product is at most `nvalues`. */
void
load_dims(struct load_random *random, int rank, uint64_t nvalues,
          uint64_t *dims_ret);

/* What the command line says: --seconds N --threads N --seed N --first N, and a
 * path. */
struct load_options {
    uint64_t nseconds, nthreads, seed;
    uint64_t first;   /* case, by number: what failed comes again at once */
    const char *path; /* NULL: not given */
};

/* Ends the program where the line says something else. */
struct load_options
load_options_of(int argc, char **argv);

/* Work that was done, by any thread. */
void
load_count(uint64_t ncases, uint64_t nvalues);

/* Who is to code batches: what TERP_ENGINE asks for, "cuda", or the CPU. */
enum terp_engine_kind
load_engine(void);

/* Notes who did a batch. Where a device is asked for, says why it was the CPU,
 * the first time, and ends the process where it is the CPU again and again. Any
 * thread's. */
void
load_note(const struct terp_run_result *result);

/* Whether a device did most batches, where one is asked for; prints how many
 * it did, and the CPU: "device,batches,batches". */
bool
load_engine_is_used(void);

/* Says what is wrong with a case, and ends the program with exit code 1. */
void
load_fail(uint64_t number, const char *what);

/* Sleeps until the time is up, and prints for each minute the cases and values
 * of it, and the resident memory in MiB: "minute,cases,values,mean,max". */
void
load_watch(const struct load_options *options);

/* Whether the last time has come. */
bool
load_is_over(void);

/* Prints the mean of the resident memory in the first and in the last third of
 * the time; false where the last has more than a quarter and 16 MiB beyond the
 * first. The first five minutes do not count, in which memory comes to be what
 * it is, and shorter runs than ten tell nothing. */
bool
load_memory_is_flat(void);
