/* Shared by the programs of scripts/load.sh: random choices, a row of output
 * for each minute, and a check that the process's memory does not grow. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "codec/api/terp.h"

/* Random words. A seed gives the same words on every machine. */
struct load_random {
    uint64_t seed, n;
};

uint64_t
load_word(struct load_random *random);

/* From 0 to n - 1. */
uint64_t
load_below(struct load_random *random, uint64_t n);

/* True with the probability 1 / n. */
bool
load_once_in(struct load_random *random, uint64_t n);

/* About log-uniform, from 1 to 2^max_nbits. */
uint64_t
load_size(struct load_random *random, int max_nbits);

/* Chooses `rank` dims whose product is at most `nvalues`. */
void
load_dims(struct load_random *random, int rank, uint64_t nvalues,
          uint64_t *dims_ret);

/* Options of the command line: --seconds N --threads N --seed N --first N, and
 * a path. */
struct load_options {
    uint64_t nseconds, nthreads, seed;
    uint64_t first;   /* number of the first case, to repeat a failed one */
    const char *path; /* NULL if missing */
};

/* Parses the command line. Ends the program on other arguments. */
struct load_options
load_options_of(int argc, char **argv);

/* Counts finished work, from any thread. */
void
load_count(uint64_t ncases, uint64_t nvalues);

/* The engine for batches, as TERP_ENGINE says: "cuda", or the CPU. */
enum terp_engine_kind
load_engine(void);

/* Counts which engine ran a batch. If TERP_ENGINE wants the device: the first
 * time that the CPU runs a batch, prints why, and ends the process after many
 * of these. Thread-safe. */
void
load_note(const struct terp_run_result *result);

/* Whether the device ran most batches, if TERP_ENGINE wants it. Prints how many
 * the device and the CPU ran: "device,batches,batches". */
bool
load_engine_is_used(void);

/* Prints what is wrong with a case, and exits with code 1. */
void
load_fail(uint64_t number, const char *what);

/* Sleeps until the time is over. Each minute, prints the cases and values of
 * that minute and the resident memory in MiB:
 * "minute,cases,values,mean,max". */
void
load_watch(const struct load_options *options);

/* Whether the time is over. */
bool
load_is_over(void);

/* Prints the mean resident memory of the first and of the last third of the
 * time. Returns false if the last exceeds the first by more than a quarter and
 * 16 MiB. The first five minutes do not count, because memory still grows then.
 * Runs below ten minutes always pass. */
bool
load_memory_is_flat(void);
