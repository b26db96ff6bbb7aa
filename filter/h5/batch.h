/* Codes and moves the chunks of a block, one batch after another. */
#pragma once

#include "filter/h5/block.h"

struct terp_h5_batch {
    struct terp_run *run;
    uint64_t cap_nchunks, chunk_nbytes, stream_stride;
    uint64_t cap_nvalued;      /* chunks whose values `chunks` can hold */
    uint8_t *chunks, *streams; /* in the run's memory */
    uint8_t *host_streams;     /* in host memory; there equal to `streams` */
    struct terp_pinned pinned; /* holds `chunks` and `streams`, if any */
    uint8_t *host_chunk;       /* one chunk, if `chunks` are on the device */
    /* Of each chunk of the batch, [cap_nchunks]: */
    void **chunk, **stream, **host_stream;
    uint64_t *stream_nbytes, *number;
    enum terp_status *status;
};

/* Bytes of values of a batch. On the device enough for all of it. CPU threads
 * get the same number of chunks each, and enough of them to end at about the
 * same time; the values of only one chunk for each thread are in memory. */
uint64_t
terp_h5_batch_nbytes(const struct terp_run *run,
                     const struct terp_h5_block *block);

/* Allocates a batch for the streams of about `nbytes` of values; of fewer where
 * memory is short, as on a device. The values of at most `max_nvalued` chunks
 * are in memory at a time. The block's reason must be NULL. The caller frees
 * the batch, whatever the result. */
enum terp_status
terp_h5_batch_make(struct terp_run *run, const struct terp_h5_block *block,
                   uint64_t nbytes, uint64_t max_nvalued,
                   struct terp_h5_batch *batch);
void
terp_h5_batch_free(struct terp_h5_batch *batch);

/* Sets chunk j of the batch to chunk `number` of the block, with the memory of
 * slot i. */
void
terp_h5_batch_take(struct terp_h5_batch *batch, uint64_t i, uint64_t number,
                   uint64_t j);

/* Encodes chunks [first, first + n) of the block, whose values are at `values`.
 * Does not call HDF5, so that another thread may. On the CPU each thread
 * encodes one chunk after another in memory of its own, which stays in its
 * cache: the batch must hold the values of at least one chunk for each thread.
 */
enum terp_status
terp_h5_batch_encode(struct terp_h5_batch *batch,
                     const struct terp_h5_block *block,
                     const struct terp_params *params, uint64_t first,
                     uint64_t n, const void *values);

/* Whether a batch that holds all chunks of the block takes its values in slices
 * along dimension `dim`. Each slice is taken, in any order, as
 * terp_array_gather_slice does; then terp_h5_batch_encode gets NULL for
 * `values`. */
bool
terp_h5_batch_takes_slices(const struct terp_h5_batch *batch,
                           const struct terp_h5_block *block, int dim);
void
terp_h5_batch_take_slice(struct terp_h5_batch *batch,
                         const struct terp_h5_block *block, int dim,
                         uint64_t begin, uint64_t end, const void *values);

/* Gives pinned memory back: moves the streams of the batch's first `n` chunks
 * to memory of their size, if there is enough. The batch then serves for
 * storing alone. */
void
terp_h5_batch_unpin(struct terp_h5_batch *batch, uint64_t n);

/* Stores the streams of the batch's first `n` chunks. */
enum terp_status
terp_h5_batch_store(const struct terp_h5_batch *batch,
                    const struct terp_h5_block *block, uint64_t n);

/* Moves the whole block: encodes and stores the values at `src`; or, where
 * `src` is NULL, fetches streams and decodes them to `dst`. `params` NULL: the
 * dataset's. */
enum terp_status
terp_h5_batch_move(struct terp_run *run, const struct terp_h5_block *block,
                   const struct terp_params *params, const void *src,
                   void *dst);
