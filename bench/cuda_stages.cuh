/* Runs and times single stages of the CUDA engine. The engine's objects are
 * linked into the benchmark, because libterp_cuda.so does not export them. */
#pragma once

#include "bench/cuda_bench.h"
#include "gpu/engine/context.cuh"

typedef cudaError_t
bench_stage(const struct cuda_batch *batch, cudaStream_t stream);

/* A chunk in device memory between stages. `d_saved` is its state after the
 * stages that have run. */
struct bench_stages {
    struct cuda_visit visit;
    struct cuda_slot *slot;
    const struct cuda_batch *batch;
    struct cuda_chunk *d_saved;
};

/* Begins with item 0 of `chunks`, which must be in device memory; decoding
 * needs its stream. At most one struct may be in use. */
struct bench_stages
bench_stages_begin(const struct bench_chunks *chunks, bool decode);

/* Runs the stages of a list that ends with NULL, and saves the state. */
void
bench_stages_run(struct bench_stages *stages, bench_stage *const *stage);

void
bench_stages_end(struct bench_stages *stages);

/* Median device seconds of `launches`(arg, stream), which always start from the
 * saved state. */
double
bench_stages_time(const struct bench_stages *stages,
                  void (*launches)(const void *arg, cudaStream_t stream),
                  const void *arg);

/* The same for the stages of a list that ends with NULL. */
double
bench_stages_time_all(const struct bench_stages *stages,
                      bench_stage *const *stage);

/* Copies a region of the chunk's memory to the host; the caller frees it. */
void *
bench_stages_region(const struct bench_stages *stages, uint64_t at,
                    uint64_t nbytes);
