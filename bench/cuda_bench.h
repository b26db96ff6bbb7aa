/* Shared by the benchmarks of the CUDA engine: cubes cut out of a field, in
 * host or device memory; coding them by batches; and times. Every error ends
 * the program with a message. */
#pragma once

#include <cuda_runtime.h>

#include "codec/api/terp.h"

void
bench_fail(const char *what, const char *why);

void
bench_check(const char *what, cudaError_t error);

void *
bench_alloc(enum terp_memory memory, uint64_t nbytes);

void
bench_free(enum terp_memory memory, void *at);

/* ---- fields ---- */

/* A cube of float32 values, in host memory. */
struct bench_field {
    float *values;
    uint64_t extent;
};

/* Reads a file whose name ends in _NxNxN.f32. */
struct bench_field
bench_field_read(const char *path);

/* ---- chunks ---- */

/* nsets * nchunks cubes of a field, their streams, and memory for their decoded
 * values, item by item; set s begins at item s * nchunks. */
struct bench_chunks {
    struct terp_chunk chunk;
    struct terp_params params; /* bound: 1e-3 of each chunk's range */
    enum terp_memory memory;
    uint64_t step; /* bench_decode decodes every step-th value; initially 1 */
    uint64_t nsets, nchunks, chunk_nbytes;
    void **values, **streams, **decoded;
    uint64_t *stream_nbytes;
    enum terp_status *status;
};

/* Allocates chunks whose values are not set. */
struct bench_chunks
bench_chunks_alloc(const struct terp_chunk *chunk, uint64_t nchunks,
                   uint64_t nsets, enum terp_memory memory);

/* Cuts cubes of `extent` out of the field in C order, starting over at the
 * field's end. */
struct bench_chunks
bench_chunks_make(const struct bench_field *field, enum terp_type type,
                  uint64_t extent, uint64_t nchunks, uint64_t nsets,
                  enum terp_memory memory);

void
bench_chunks_free(struct bench_chunks *chunks);

/* Makes one call on a set. The program ends if another engine than `engine` did
 * the work. */
void
bench_encode(struct bench_chunks *chunks, uint64_t set,
             enum terp_engine_kind engine);
void
bench_decode(struct bench_chunks *chunks, uint64_t set,
             enum terp_engine_kind engine);

/* Whether the first and last streams and values of the first set equal the
 * CPU's. */
bool
bench_is_right(const struct bench_chunks *chunks);

/* The ratio of all sets that were encoded. */
double
bench_ratio(const struct bench_chunks *chunks);

/* ---- times ---- */

double
bench_now(void);

/* `nreps`, or TERP_BENCH_REPS if that is smaller, for a quick trial of a
 * benchmark. */
int
bench_nreps(int nreps);

/* Wall-clock seconds of repeated calls. */
struct bench_times {
    int n;
    double median_s, min_s;
};

/* Calls function(arg, i) for i = 0, 1, ...: some calls untimed, then at least
 * 20 timed calls, more if they are short. */
struct bench_times
bench_time(void (*function)(void *arg, uint64_t i), void *arg);
