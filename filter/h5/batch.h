/* Chunks of a block and their streams, some at a time. */
#pragma once

#include "filter/h5/block.h"

struct terp_h5_batch {
    struct terp_run *run;
    uint64_t cap_nchunks, chunk_nbytes, stream_stride;
    uint64_t cap_nvalued;      /* of those the chunks whose values have room */
    uint8_t *chunks, *streams; /* where the run has its memory */
    uint8_t *host_streams;     /* the same as `streams` on the host */
    uint8_t *host_chunk;       /* one, where `chunks` are on the device */
    /* Of those that are coded, [cap_nchunks]: */
    void **chunk, **stream, **host_stream;
    uint64_t *stream_nbytes, *number;
    enum terp_status *status;
};

/* Room for streams of the block's chunks, about `nbytes` of values; for less
 * where there is little memory, as on a device. Of their values no more than
 * `max_nvalued` chunks have room at a time. The block's reason is NULL. Must be
 * freed, whatever the result. */
enum terp_status
terp_h5_batch_make(struct terp_run *run, const struct terp_h5_block *block,
                   uint64_t nbytes, uint64_t max_nvalued,
                   struct terp_h5_batch *batch);
void
terp_h5_batch_free(struct terp_h5_batch *batch);

/* Takes chunk i of those in `batch`, which is number `number` of the block, as
 * the j-th to be coded. */
void
terp_h5_batch_take(struct terp_h5_batch *batch, uint64_t i, uint64_t number,
                   uint64_t j);

/* Codes chunks [first, first + n) of the block, whose values are at `values`.
 * Nothing of HDF5 is called: another thread may do so. The CPU's threads take
 * one after the other, each in room of its own that stays in its cache: there
 * is room for one a thread, at least, and for more it takes pages of memory and
 * time to get them. */
enum terp_status
terp_h5_batch_encode(struct terp_h5_batch *batch,
                     const struct terp_h5_block *block,
                     const struct terp_params *params, uint64_t first,
                     uint64_t n, const void *values);

/* Stores the streams of the first `n` chunks that were taken and coded. */
enum terp_status
terp_h5_batch_store(const struct terp_h5_batch *batch,
                    const struct terp_h5_block *block, uint64_t n);

/* Reads chunks [first, first + n) of the block into `values`. */
enum terp_status
terp_h5_batch_read(struct terp_h5_batch *batch,
                   const struct terp_h5_block *block, uint64_t first,
                   uint64_t n, void *values);

/* All of the block, one batch after the other: codes and stores the values at
 * `src`, or where that is NULL fetches and decodes them to `dst`. `params`
 * NULL: the dataset's. */
enum terp_status
terp_h5_batch_move(struct terp_run *run, const struct terp_h5_block *block,
                   const struct terp_params *params, const void *src,
                   void *dst);
