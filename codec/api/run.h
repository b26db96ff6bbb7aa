/* One call of a batch inside the library: its checked and completed options,
 * and its result. */
#pragma once

#include "codec/api/context.h"

struct terp_run {
    struct terp_context *context; /* never NULL */
    enum terp_engine_kind engine;
    struct terp_cuda_call call;
    struct terp_cpu_call cpu;
    struct terp_run_result result;
    struct terp_budget *budget; /* of host memory, shared by the call's
                                   threads */
    struct terp_budget own_budget;
};

/* Begins a call. *run_ret must not move while the call lasts. `options` NULL:
 * the defaults. Returns TERP_ERR_ARGUMENT, with a reason, if the options are
 * invalid. In any case terp_run_end writes the result. */
enum terp_status
terp_run_begin(const struct terp_run_options *options,
               const struct terp_run_result *result, struct terp_run *run_ret);

/* Makes a run for one thread of a call. It counts memory in the call's budget
 * and has a result of its own. The struct must not be copied by assignment,
 * since other threads change its budget. */
void
terp_run_branch(const struct terp_run *run, struct terp_run *branch_ret);

/* Writes the result, unless `result_ret` is NULL. Returns `st`, or
 * TERP_ERR_LIMIT if memory was short because of the limit. */
enum terp_status
terp_run_end(const struct terp_run *run, enum terp_status st,
             struct terp_run_result *result_ret);

/* Distributes `n` units of work over the CPU threads of the call. */
void
terp_run_share(const struct terp_run *run, terp_cpu_batch_task *task, void *arg,
               uint64_t n);

/* The context's device; or NULL, with the status in *st_ret and the reason in
 * the run's result. */
const struct terp_device *
terp_run_device(struct terp_run *run, enum terp_status *st_ret);

/* Records the status of a call of the device: on failure, the reason goes into
 * the run's result, and a lost device is not used again. Returns `st`. */
enum terp_status
terp_run_note(struct terp_run *run, const struct terp_device *device,
              enum terp_status st);

/* As terp_encode_batch and terp_decode_coarse_batch, for a call that has begun.
 * `frame`: the frame of the only stream, if the caller has read it; else
 * NULL. */
enum terp_status
terp_run_encode(struct terp_run *run, const struct terp_params *params,
                const struct terp_chunk *chunk, uint64_t nchunks,
                const void *const *src, void *const *dst,
                uint64_t *dst_nbytes_ret);
enum terp_status
terp_run_decode(struct terp_run *run, const struct terp_chunk *chunk,
                const struct terp_read_frame *frame, uint64_t step,
                uint64_t nchunks, const void *const *src,
                const uint64_t *src_nbytes, void *const *dst,
                enum terp_status *status_ret);
