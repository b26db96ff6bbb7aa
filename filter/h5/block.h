/* A block of a dataset's values, and how HDF5 stores it. */
#pragma once

#include <hdf5.h>

#include "codec/api/cd_values.h"
#include "codec/api/memory.h"

/* Bounds the values that are in host memory at a time, in a batch or a slab:
 * enough chunks for many threads, and little beside the memory of the program
 * itself. batch.c and strided.c derive the size of their batches from it; tests
 * set a small value. */
#ifndef TERP_H5_BATCH_NBYTES
#define TERP_H5_BATCH_NBYTES (UINT64_C(64) << 20)
#endif

struct terp_h5_block;

/* How streams get into a dataset's file and back. `offset` is a chunk's first
 * value in the dataset. */
struct terp_h5_storage {
    enum terp_status (*store)(const struct terp_h5_block *block,
                              const hsize_t *offset, const void *stream,
                              uint64_t stream_nbytes);
    /* *nbytes_ret is 0 where HDF5 must read the chunk. */
    enum terp_status (*fetch)(const struct terp_h5_block *block,
                              const hsize_t *offset, void *stream,
                              uint64_t stream_cap_nbytes, uint64_t *nbytes_ret);
    /* Lets HDF5 read `count` values from `offset` on into the first places of
     * an array of `dims`, in host memory. */
    enum terp_status (*read)(const struct terp_h5_block *block,
                             const hsize_t *offset, const hsize_t *count,
                             const hsize_t *dims, void *dst);
};

struct terp_h5_block {
    const struct terp_h5_storage *storage;
    void *context; /* for the storage's functions */
    hid_t dataset, type, space, dcpl;
    int rank;
    hsize_t dims[H5S_MAX_RANK]; /* of the dataset */
    hsize_t offset[H5S_MAX_RANK], count[H5S_MAX_RANK];
    hsize_t chunk[H5S_MAX_RANK]; /* dims of a chunk; only if is_chunked */
    bool is_chunked;
    bool is_whole;      /* made of whole chunks */
    const char *reason; /* why HDF5 must move the values; NULL: terp does */
    struct terp_cd cd;  /* only if `reason` is NULL, as `array` */
    struct terp_array array;
};

/* Describes the block of `count` values from `offset` on; both as for
 * terp_h5_write. The caller closes the block, whatever the result. */
enum terp_status
terp_h5_block_open(hid_t dataset, const hsize_t *offset, const hsize_t *count,
                   struct terp_h5_block *block);
void
terp_h5_block_close(struct terp_h5_block *block);

/* TERP_ERR_CORRUPT where a stream that the filter would decode announces
 * another size than a chunk's. HDF5 does not compare sizes, and would read
 * beyond the end of the decoded values. */
static inline enum terp_status
terp_h5_block_check_size(const struct terp_h5_block *block, const void *stream,
                         uint64_t stream_nbytes)
{
    uint64_t nbytes;
    const enum terp_status st =
        terp_decoded_nbytes(stream, stream_nbytes, &nbytes);

    return st == TERP_OK && nbytes != terp_chunk_nbytes(&block->cd.chunk)
               ? TERP_ERR_CORRUPT
               : st;
}

bool
terp_h5_block_is_empty(const struct terp_h5_block *block);

/* Lets HDF5 read `count` values from `offset` on, `stride` apart (NULL: 1),
 * into the first places of an array of `dims` at `dst`; or, where `src` is not
 * NULL, write them from such an array at `src`. In host memory. */
enum terp_status
terp_h5_block_transfer_part(const struct terp_h5_block *block,
                            const hsize_t *offset, const hsize_t *stride,
                            const hsize_t *count, const hsize_t *dims,
                            const void *src, void *dst);

/* Lets HDF5 move the whole block, from `src` or to `dst`, in the run's memory.
 */
enum terp_status
terp_h5_block_transfer(struct terp_run *run, const struct terp_h5_block *block,
                       const void *src, void *dst);
