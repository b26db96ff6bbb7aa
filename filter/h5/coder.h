/* Codes the chunks of blocks in a thread, while the program does other things.
 *
 * The thread calls no function of HDF5, which most builds of HDF5 would not
 * allow. The threads that call the functions below fetch and store streams,
 * which wait in memory between. Jobs are coded in the order in which they were
 * made. The thread ends when no job is left. After a fork the child has none of
 * its parent's jobs: they count as lost. */
#pragma once

#include "filter/h5/block.h"

/* The values of a block that are encoded or decoded. */
struct terp_h5_job;

/* Makes a job that encodes the values at `src`, as terp_h5_batch_move does.
 * With `copies` the values are copied before the call returns; otherwise they
 * must stay unchanged until terp_h5_job_wait returns true. Values on the device
 * are copied there; with gaps, or where that takes too much memory, they are
 * encoded before the call returns instead. The block's storage is called by
 * terp_h5_job_finish; its context must live as long as the job.
 *
 * TERP_ERR_LIMIT: TERP_MAX_MEMORY, or an eighth of the machine's memory, does
 * not allow as much memory for the values and streams of all jobs. */
enum terp_status
terp_h5_job_encode(const struct terp_run_options *options,
                   const struct terp_h5_block *block,
                   const struct terp_params *params, const void *src,
                   bool copies, struct terp_h5_job **job_ret);

/* Makes a job that decodes the block to `dst`, which must stay in place until
 * terp_h5_job_wait returns true. Fetches the streams. TERP_ERR_ARGUMENT: HDF5
 * must read a chunk. */
enum terp_status
terp_h5_job_decode(const struct terp_run_options *options,
                   const struct terp_h5_block *block, void *dst,
                   struct terp_h5_job **job_ret);

#define TERP_H5_FOREVER UINT64_MAX

/* Waits for at most `timeout_ns` nanoseconds. Returns whether the thread is
 * done with the job. */
bool
terp_h5_job_wait(struct terp_h5_job *job, uint64_t timeout_ns);

/* Whether a parent process made the job. */
bool
terp_h5_job_is_lost(const struct terp_h5_job *job);

/* Of a job whose wait returned true: stores the streams if the job encodes.
 * Returns the job's status; *result_ret as for terp_h5_write, whose reason
 * lives as long as the job. After TERP_ERR_HDF5 HDF5's error stack has the
 * reason. */
enum terp_status
terp_h5_job_finish(struct terp_h5_job *job, struct terp_run_result *result_ret);

/* The values of a job that encodes, in memory without gaps if they were copied.
 * Copies on the device are in host memory after a failure; NULL: they are lost.
 */
const void *
terp_h5_job_values(const struct terp_h5_job *job);

/* Nanoseconds since 1970. */
uint64_t
terp_h5_job_clock(void);

/* When the thread began the job, by terp_h5_job_clock, and how many nanoseconds
 * it took. */
void
terp_h5_job_times(const struct terp_h5_job *job, uint64_t *begin_ret,
                  uint64_t *nanoseconds_ret);

/* Stops the job, if the thread has not finished it, and frees it. NULL is
 * allowed. */
void
terp_h5_job_free(struct terp_h5_job *job);
