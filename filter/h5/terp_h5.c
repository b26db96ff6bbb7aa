/* Blocks of datasets, one batch of chunks after the other. */
#include "filter/h5/terp_h5.h"

#include "filter/h5/batch.h"

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
            st = terp_h5_batch_move(&run, &block, params, src, dst);
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
