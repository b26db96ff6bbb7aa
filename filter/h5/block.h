/* A part of a dataset, and how HDF5 stores it. */
#pragma once

#include <hdf5.h>

#include "codec/api/cd_values.h"
#include "codec/api/memory.h"

/* Values that go through the host's memory at a time: enough for many threads
 * to share, few enough to be of no weight beside what the program itself has
 * in memory. */
#ifndef TERP_H5_BATCH_NBYTES
#define TERP_H5_BATCH_NBYTES (UINT64_C(64) << 20)
#endif

struct terp_h5_block;

/* How streams get into a dataset's file and back, at a chunk's `place`. */
struct terp_h5_storage {
    enum terp_status (*store)(const struct terp_h5_block *block,
                              const hsize_t *place, const void *stream,
                              uint64_t stream_nbytes);
    /* *nbytes_ret is 0 where HDF5 has to read the chunk. */
    enum terp_status (*fetch)(const struct terp_h5_block *block,
                              const hsize_t *place, void *stream,
                              uint64_t stream_cap_nbytes, uint64_t *nbytes_ret);
    /* Reads by HDF5: `count` values from `place` on into the beginning of an
     * array of `dims`, on the host. */
    enum terp_status (*read)(const struct terp_h5_block *block,
                             const hsize_t *place, const hsize_t *count,
                             const hsize_t *dims, void *dst);
};

struct terp_h5_block {
    const struct terp_h5_storage *storage;
    void *context; /* of another storage than HDF5's own functions */
    hid_t dataset, type, space, dcpl;
    int rank;
    hsize_t dims[H5S_MAX_RANK]; /* of the dataset */
    hsize_t offset[H5S_MAX_RANK], count[H5S_MAX_RANK];
    hsize_t chunk[H5S_MAX_RANK]; /* dims of the chunks, where there are any */
    bool is_chunked;
    bool is_whole;      /* made of whole chunks */
    const char *reason; /* why HDF5 has to move the values; NULL: it need not */
    /* Where it need not: */
    struct terp_cd cd;
    struct terp_array array;
};

/* Looks at the block of `count` values from `offset` on, as terp_h5_write has
 * them. Must be closed, whatever the result. */
enum terp_status
terp_h5_block_open(hid_t dataset, const hsize_t *offset, const hsize_t *count,
                   struct terp_h5_block *block);
void
terp_h5_block_close(struct terp_h5_block *block);

/* TERP_ERR_CORRUPT where a stream, which the filter has to read, has not the
 * size of a chunk: HDF5, which compares no sizes, would read beyond it. */
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

/* Reads `count` values from `offset` on, `stride` apart where that is not NULL,
 * into the beginning of an array of `dims`, or with `src` writes them from
 * there, by HDF5. All on the host. */
enum terp_status
terp_h5_block_transfer_part(const struct terp_h5_block *block,
                            const hsize_t *offset, const hsize_t *stride,
                            const hsize_t *count, const hsize_t *dims,
                            const void *src, void *dst);

/* All of the block by HDF5, from `src` or to `dst`, in the run's memory. */
enum terp_status
terp_h5_block_transfer(struct terp_run *run, const struct terp_h5_block *block,
                       const void *src, void *dst);
