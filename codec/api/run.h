/* One call of a batch, within the library: its options, checked and completed,
 * and what it tells of itself. */
#pragma once

#include "codec/api/context.h"

struct terp_run {
    struct terp_context *context; /* never NULL */
    enum terp_engine_kind engine;
    struct terp_cuda_call call;
    struct terp_cpu_call cpu;
    struct terp_run_result result;
    struct terp_budget *budget; /* of the CPU's memory, which threads share */
    struct terp_budget own_budget;
};

/* Begins a call, of which `run_ret` stays where it is; `options` NULL: the
 * default ones. TERP_ERR_ARGUMENT, with a
 * reason: this call cannot be. Either way the result can be told. */
enum terp_status
terp_run_begin(const struct terp_run_options *options,
               const struct terp_run_result *result, struct terp_run *run_ret);

/* Has a run of the same call for one of its threads, which may change it: it
 * counts its memory in the same budget, and has a result of its own. A struct
 * is not copied, since other threads change its budget. */
void
terp_run_branch(const struct terp_run *run, struct terp_run *branch_ret);

/* Tells the result, unless `result_ret` is NULL; returns `st`, or
 * TERP_ERR_LIMIT where that is why memory was wanting. */
enum terp_status
terp_run_end(const struct terp_run *run, enum terp_status st,
             struct terp_run_result *result_ret);

/* Shares `n` parts of a work out among the threads of the CPU that the call
 * has.
 */
void
terp_run_share(const struct terp_run *run, terp_cpu_batch_task *task, void *arg,
               uint64_t n);

/* The context's device; or NULL with the status, and the run's reason. */
const struct terp_device *
terp_run_device(struct terp_run *run, enum terp_status *st_ret);

/* What became of a call of the device, `st`: where it failed, this is noted in
 * the run, and a device that is lost is not used again. Returns `st`. */
enum terp_status
terp_run_note(struct terp_run *run, const struct terp_device *device,
              enum terp_status st);

/* As terp_encode_batch and terp_decode_coarse_batch, in a call that has begun.
 * `frame` is that of the only stream where it was read; else NULL. */
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
