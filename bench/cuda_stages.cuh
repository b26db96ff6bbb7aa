/* Stages of the CUDA engine, run and timed one by one. Its objects are linked
 * into the benchmark, for libterp_cuda.so does not show them. */
#pragma once

#include "bench/cuda_bench.h"
#include "gpu/engine/context.cuh"

typedef cudaError_t
bench_stage(const struct cuda_batch *batch, cudaStream_t stream);

/* One chunk in device memory on its way through the stages; `d_saved` is its
 * state after those that were run. */
struct bench_stages {
    struct cuda_visit visit;
    struct cuda_slot *slot;
    const struct cuda_batch *batch;
    struct cuda_chunk *d_saved;
};

/* Begins with item 0 of `chunks`, which are in device memory; decoding needs
 * its stream. One at a time. */
struct bench_stages
bench_stages_begin(const struct bench_chunks *chunks, bool decode);

/* Runs stages up to NULL, and saves the state. */
void
bench_stages_run(struct bench_stages *stages, bench_stage *const *stage);

void
bench_stages_end(struct bench_stages *stages);

/* Median seconds of the device for `launches`(arg, stream), each time from the
 * saved state. */
double
bench_stages_time(const struct bench_stages *stages,
                  void (*launches)(const void *arg, cudaStream_t stream),
                  const void *arg);

/* The same for stages up to NULL. */
double
bench_stages_time_all(const struct bench_stages *stages,
                      bench_stage *const *stage);

/* Copies a region of the chunk's memory to the host; the caller frees. */
void *
bench_stages_region(const struct bench_stages *stages, uint64_t at,
                    uint64_t nbytes);
