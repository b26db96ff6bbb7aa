/* Blocks of datasets, one batch of chunks after the other. */
#include "filter/h5/terp_h5.h"

#include "filter/h5/batch.h"

/* Values of a batch on the device: enough to fill it. */
#ifndef TERP_H5_DEVICE_BATCH_NBYTES
#define TERP_H5_DEVICE_BATCH_NBYTES (UINT64_C(256) << 20)
#endif

/* Codes the values at `src`, or where that is NULL decodes streams to `dst`.
 * `params` NULL: the dataset's. */
static enum terp_status
move_streams(struct terp_run *run, const struct terp_h5_block *block,
             const struct terp_params *params, const void *src, void *dst)
{
    uint64_t nchunks = terp_array_nchunks(&block->array), n;
    struct terp_params used = params != NULL ? *params : block->cd.params;
    struct terp_h5_batch batch;

    used.has_fill = block->cd.params.has_fill;
    used.fill_bits = block->cd.params.fill_bits;
    used.has_missing = block->cd.params.has_missing;
    used.missing_bits = block->cd.params.missing_bits;
    enum terp_status st = terp_h5_batch_make(
        run, block,
        run->call.memory == TERP_MEMORY_DEVICE ? TERP_H5_DEVICE_BATCH_NBYTES
                                               : TERP_H5_BATCH_NBYTES,
        &batch);
    for (uint64_t first = 0; st == TERP_OK && first < nchunks; first += n) {
        n = min_u64(batch.cap_nchunks, nchunks - first);
        if (src == NULL) {
            st = terp_h5_batch_read(&batch, block, first, n, dst);
            continue;
        }
        st = terp_h5_batch_encode(&batch, block, &used, first, n, src);
        if (st == TERP_OK)
            st = terp_h5_batch_store(&batch, block, n);
    }
    terp_h5_batch_free(&batch);
    return st;
}

/* Writes the values at `src`, or where that is NULL reads them to `dst`. */
static enum terp_status
move_block(const struct terp_run_options *options, hid_t dataset,
           const hsize_t *offset, const hsize_t *count,
           const struct terp_params *params, const void *src, void *dst,
           struct terp_run_result *result)
{
    struct terp_h5_block block;
    struct terp_run run;
    enum terp_status st = terp_run_begin(options, result, &run);

    if (st != TERP_OK)
        return terp_run_end(&run, st, result);
    st = terp_h5_block_open(dataset, offset, count, &block);
    if (st == TERP_OK && !terp_h5_block_is_empty(&block)) {
        if ((src != NULL && block.is_chunked && !block.is_whole) ||
            (params != NULL && block.reason != NULL))
            st = TERP_ERR_ARGUMENT;
        else if (block.reason != NULL)
            st = terp_h5_block_transfer(&run, &block, src, dst);
        else
            st = move_streams(&run, &block, params, src, dst);
        if (run.result.reason == NULL)
            run.result.reason = block.reason;
    }
    terp_h5_block_close(&block);
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
