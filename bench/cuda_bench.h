/* What the benchmarks of the CUDA engine share: cubes cut out of a field, in
 * host or device memory, coded by batches, and times. Anything that goes wrong
 * ends the program with a message: a benchmark has no other use for it. */
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

/* `nsets` times `nchunks` cubes of a field, their streams, and room for what
 * these decode to, item by item; set s begins at item s * nchunks. */
struct bench_chunks {
    struct terp_chunk chunk;
    struct terp_params params; /* bound: 1e-3 of each chunk's range */
    enum terp_memory memory;
    uint64_t step; /* bench_decode: every so many-th value; at first 1 */
    uint64_t nsets, nchunks, chunk_nbytes;
    void **values, **streams, **decoded;
    uint64_t *stream_nbytes;
    enum terp_status *status;
};

/* Cubes of `extent` follow each other through the field in C order, and begin
 * again when it ends. */
struct bench_chunks
bench_chunks_make(const struct bench_field *field, enum terp_type type,
                  uint64_t extent, uint64_t nchunks, uint64_t nsets,
                  enum terp_memory memory);

void
bench_chunks_free(struct bench_chunks *chunks);

/* One call on a set; it must have been done by `engine`. */
void
bench_encode(struct bench_chunks *chunks, uint64_t set,
             enum terp_engine_kind engine);
void
bench_decode(struct bench_chunks *chunks, uint64_t set,
             enum terp_engine_kind engine);

/* Whether the streams and values of the first set's ends are the CPU's. */
bool
bench_is_right(const struct bench_chunks *chunks);

/* Of all sets that were encoded. */
double
bench_ratio(const struct bench_chunks *chunks);

/* ---- times ---- */

double
bench_now(void);

/* `nreps`, or the smaller number in TERP_BENCH_REPS: to try a benchmark. */
int
bench_nreps(int nreps);

/* Wall-clock seconds of one call, repeated. */
struct bench_times {
    int n;
    double median_s, min_s;
};

/* Calls function(arg, i) for i = 0, 1, ... : some calls that do not count,
 * then at least 20, more of short ones. */
struct bench_times
bench_time(void (*function)(void *arg, uint64_t i), void *arg);
