/* Writes and reads blocks of datasets, one batch of chunks after another. */
#include "filter/h5/terp_h5.h"

#include <stdio.h>
#include <stdlib.h>

#include "filter/h5/batch.h"
#include "filter/h5/coder.h"
#include "filter/h5/strided.h"

/* Whether the dataset's file is open for writing, which HDF5 does not check
 * when it stores a stream. False where HDF5 does not tell; HDF5 then does the
 * writing. */
static bool
may_write(hid_t dataset)
{
    unsigned intent = H5F_ACC_RDONLY;
    const hid_t file = H5Iget_file_id(dataset);
    const bool is_known = file >= 0 && H5Fget_intent(file, &intent) >= 0;

    if (file >= 0)
        H5Fclose(file);
    return is_known && (intent & H5F_ACC_RDWR) != 0;
}

/* Moves an open block that has values. */
static enum terp_status
move_open(struct terp_run *run, hid_t dataset, const struct terp_params *params,
          const void *src, void *dst, struct terp_h5_block *block)
{
    if (src != NULL && !may_write(dataset)) {
        block->reason = "the file is open for reading";
        return terp_h5_block_transfer(run, block, src, dst);
    }
    if ((src != NULL && block->is_chunked && !block->is_whole) ||
        (params != NULL && block->reason != NULL))
        return TERP_ERR_ARGUMENT;
    return block->reason != NULL
               ? terp_h5_block_transfer(run, block, src, dst)
               : terp_h5_batch_move(run, block, params, src, dst);
}

/* Writes the values at `src`; or, where `src` is NULL, reads values to `dst`.
 * The block is large, and HDF5 may call the filter above it on the stack. */
static enum terp_status
move_block(const struct terp_run_options *options, hid_t dataset,
           const hsize_t *offset, const hsize_t *count,
           const struct terp_params *params, const void *src, void *dst,
           struct terp_run_result *result)
{
    struct terp_h5_block *block = malloc(sizeof *block);
    struct terp_run run;
    enum terp_status st = terp_run_begin(options, result, &run);

    if (st == TERP_OK && block == NULL)
        st = TERP_ERR_MEMORY;
    if (st == TERP_OK) {
        st = terp_h5_block_open(dataset, offset, count, block);
        if (st == TERP_OK && !terp_h5_block_is_empty(block)) {
            st = move_open(&run, dataset, params, src, dst, block);
            if (run.result.reason == NULL)
                run.result.reason = block->reason;
        }
        terp_h5_block_close(block);
    }
    free(block);
    return terp_run_end(&run, st, result);
}

enum terp_status
terp_h5_write(const struct terp_run_options *options, hid_t dataset,
              const hsize_t *offset, const hsize_t *count,
              const struct terp_params *params, const void *values,
              struct terp_run_result *result)
{
    return move_block(options, dataset, offset, count, params, values, NULL,
                      result);
}

enum terp_status
terp_h5_read(const struct terp_run_options *options, hid_t dataset,
             const hsize_t *offset, const hsize_t *count, void *values,
             struct terp_run_result *result)
{
    return move_block(options, dataset, offset, count, NULL, NULL, values,
                      result);
}

/* ---- writes that go on after the call ---- */

/* A job's reason ends with the job, but the caller's copy must be valid until
 * the thread's next call. */
static _Thread_local char reason_text[256];

struct terp_h5_writing {
    struct terp_h5_block block;
    struct terp_h5_job *job; /* NULL: everything is written */
    struct terp_run_result result;
};

/* Begins a write of an open block that has values. Where terp does not encode
 * them, or memory is short, they are written now. */
static enum terp_status
begin_open(const struct terp_run_options *options, hid_t dataset,
           const struct terp_params *params, const void *values, bool copies,
           struct terp_h5_writing *writing)
{
    struct terp_h5_block *block = &writing->block;
    struct terp_run run;

    if (block->reason == NULL && may_write(dataset) &&
        terp_h5_job_encode(options, block, params, values, copies,
                           &writing->job) == TERP_OK)
        return TERP_OK;
    enum terp_status st = terp_run_begin(options, NULL, &run);
    if (st == TERP_OK)
        st = move_open(&run, dataset, params, values, NULL, block);
    if (run.result.reason == NULL)
        run.result.reason = block->reason;
    writing->result.size = sizeof writing->result;
    return terp_run_end(&run, st, &writing->result);
}

static void
free_writing(struct terp_h5_writing *writing)
{
    terp_h5_job_free(writing->job);
    terp_h5_block_close(&writing->block);
    free(writing);
}

enum terp_status
terp_h5_write_begin(const struct terp_run_options *options, hid_t dataset,
                    const hsize_t *offset, const hsize_t *count,
                    const struct terp_params *params, const void *values,
                    bool copies, struct terp_h5_writing **writing_ret)
{
    struct terp_h5_writing *writing = calloc(1, sizeof *writing);
    struct terp_run run;

    *writing_ret = NULL;
    if (writing == NULL)
        return TERP_ERR_MEMORY;
    enum terp_status st =
        terp_run_end(&run, terp_run_begin(options, NULL, &run), NULL);
    if (st != TERP_OK) {
        free(writing);
        return st;
    }
    st = terp_h5_block_open(dataset, offset, count, &writing->block);
    if (st == TERP_OK && !terp_h5_block_is_empty(&writing->block))
        st = begin_open(options, dataset, params, values, copies, writing);
    if (st == TERP_OK)
        *writing_ret = writing;
    else
        free_writing(writing);
    return st;
}

enum terp_status
terp_h5_write_wait(struct terp_h5_writing *writing,
                   struct terp_run_result *result)
{
    struct terp_h5_job *job = writing->job;
    enum terp_status st = TERP_OK;

    if (job != NULL && terp_h5_job_is_lost(job))
        return TERP_ERR_ARGUMENT;
    if (job != NULL) {
        (void)terp_h5_job_wait(job, TERP_H5_FOREVER);
        writing->result.size = sizeof writing->result;
        st = terp_h5_job_finish(job, &writing->result);
    }
    if (result != NULL && terp_size_is_known(result->size, sizeof *result)) {
        const size_t size = result->size;
        *result = writing->result;
        result->size = size;
        if (result->reason != NULL) {
            snprintf(reason_text, sizeof reason_text, "%s", result->reason);
            result->reason = reason_text;
        }
    }
    free_writing(writing);
    return st;
}

/* ---- every n-th value ---- */

/* Fills in the defaults; false where a value is not in the dataset. */
static bool
make_strided(const struct terp_h5_block *block, const hsize_t *offset,
             const hsize_t *stride, const hsize_t *count,
             struct terp_h5_strided *strided, uint64_t *nvalues_ret)
{
    uint64_t nvalues = 1;

    for (int d = 0; d < block->rank; d++) {
        const hsize_t start = offset == NULL ? 0 : offset[d];
        if (stride[d] == 0 || start > block->dims[d])
            return false;
        const hsize_t n = div_up(block->dims[d] - start, stride[d]);
        strided->start[d] = start;
        strided->stride[d] = stride[d];
        strided->count[d] = count == NULL ? n : count[d];
        if (strided->count[d] > n)
            return false;
        nvalues *= strided->count[d];
    }
    *nvalues_ret = nvalues;
    return true;
}

/* Reads to host memory, and copies from there where the caller's memory is on
 * the device. */
static enum terp_status
read_strided(struct terp_run *run, const struct terp_h5_block *block,
             const struct terp_h5_strided *strided, uint64_t nvalues,
             void *values)
{
    const bool on_host = run->call.memory == TERP_MEMORY_HOST;
    const uint64_t value_nbytes = H5Tget_size(block->type);
    uint64_t nbytes = nvalues * value_nbytes;
    if (value_nbytes == 0)
        return TERP_ERR_HDF5;
    void *dst = on_host ? values : malloc(nbytes);
    const void *src = dst;
    enum terp_status st = TERP_ERR_MEMORY;

    if (dst != NULL)
        st = block->reason != NULL
                 ? terp_h5_block_transfer_part(block, strided->start,
                                               strided->stride, strided->count,
                                               strided->count, NULL, dst)
                 : terp_h5_strided_read(run, block, strided, dst);
    if (st == TERP_OK && !on_host)
        st = terp_memory_copy(run, 1, &values, &src, &nbytes);
    if (!on_host)
        free(dst);
    return st;
}

enum terp_status
terp_h5_read_strided(const struct terp_run_options *options, hid_t dataset,
                     const hsize_t *offset, const hsize_t *stride,
                     const hsize_t *count, void *values,
                     struct terp_run_result *result)
{
    struct terp_h5_strided strided;
    struct terp_h5_block block;
    struct terp_run run;
    uint64_t nvalues = 0;
    enum terp_status st = terp_run_begin(options, result, &run);

    if (st != TERP_OK)
        return terp_run_end(&run, st, result);
    st = terp_h5_block_open(dataset, NULL, NULL, &block);
    if (st == TERP_OK &&
        !make_strided(&block, offset, stride, count, &strided, &nvalues))
        st = TERP_ERR_ARGUMENT;
    if (st == TERP_OK && nvalues > 0)
        st = read_strided(&run, &block, &strided, nvalues, values);
    if (run.result.reason == NULL)
        run.result.reason = block.reason;
    terp_h5_block_close(&block);
    return terp_run_end(&run, st, result);
}
