/* Asks HDF5 how a block is stored, and moves streams and values through HDF5.
 *
 * This file is for programs that are linked with HDF5, not for the plugin. */
#include "filter/h5/block.h"

#include <stdlib.h>

#include "codec/format/types.h"
#include "filter/container.h"
#include "filter/dcpl.h"

_Static_assert(TERP_ARRAY_MAX_RANK >= H5S_MAX_RANK,
               "an array can have the rank of any dataset");

/* ---- HDF5's direct chunk I/O ---- */

static enum terp_status
store_stream(const struct terp_h5_block *block, const hsize_t *offset,
             const void *stream, uint64_t stream_nbytes)
{
    return H5Dwrite_chunk(block->dataset, H5P_DEFAULT, 0, offset, stream_nbytes,
                          stream) < 0
               ? TERP_ERR_HDF5
               : TERP_OK;
}

static enum terp_status
fetch_stream(const struct terp_h5_block *block, const hsize_t *offset,
             void *stream, uint64_t stream_cap_nbytes, uint64_t *nbytes_ret)
{
    hsize_t nbytes = 0;
    uint32_t skipped;
    herr_t known;

    *nbytes_ret = 0;
    /* The size is 0, or the call fails, where the chunk was never written. */
    H5E_BEGIN_TRY
    {
        known = H5Dget_chunk_storage_size(block->dataset, offset, &nbytes);
    }
    H5E_END_TRY
    if (known < 0 || nbytes == 0 || nbytes > stream_cap_nbytes)
        return TERP_OK;
    if (H5Dread_chunk(block->dataset, H5P_DEFAULT, offset, &skipped, stream) <
        0)
        return TERP_ERR_HDF5;
    if (skipped != 0 && nbytes < terp_chunk_nbytes(&block->cd.chunk))
        return TERP_ERR_CORRUPT; /* HDF5 would read beyond its end */
    /* The filter decodes containers. */
    *nbytes_ret =
        skipped == 0 && !terp_container_is(stream, nbytes) ? nbytes : 0;
    return TERP_OK;
}

static enum terp_status
read_part(const struct terp_h5_block *block, const hsize_t *offset,
          const hsize_t *count, const hsize_t *dims, void *dst)
{
    return terp_h5_block_transfer_part(block, offset, NULL, count, dims, NULL,
                                       dst);
}

static const struct terp_h5_storage storage = {store_stream, fetch_stream,
                                               read_part};

/* ---- how the dataset is stored ---- */

static enum terp_status
read_extent(struct terp_h5_block *block, const hsize_t *offset,
            const hsize_t *count)
{
    block->rank = H5Sget_simple_extent_ndims(block->space);
    if (block->rank < 0 ||
        H5Sget_simple_extent_dims(block->space, block->dims, NULL) < 0)
        return TERP_ERR_HDF5;
    for (int d = 0; d < block->rank; d++) {
        hsize_t begin = offset == NULL ? 0 : offset[d];
        if (begin > block->dims[d])
            return TERP_ERR_ARGUMENT;
        hsize_t available = block->dims[d] - begin;
        block->offset[d] = begin;
        block->count[d] = count == NULL ? available : count[d];
        if (block->count[d] > available)
            return TERP_ERR_ARGUMENT;
    }
    return TERP_OK;
}

bool
terp_h5_block_is_empty(const struct terp_h5_block *block)
{
    for (int d = 0; d < block->rank; d++)
        if (block->count[d] == 0)
            return true;
    return false;
}

/* Describes the block for the codec, or sets the reason why HDF5 must move
 * it. */
static enum terp_status
read_chunks(struct terp_h5_block *block)
{
    struct terp_array *array = &block->array;
    const H5D_layout_t layout = H5Pget_layout(block->dcpl);
    struct terp_host host;

    if (layout == H5D_LAYOUT_ERROR)
        return TERP_ERR_HDF5;
    if (layout != H5D_CHUNKED) {
        block->reason = "the dataset has no chunks";
        return TERP_OK;
    }
    block->is_chunked = true;
    if (H5Pget_chunk(block->dcpl, block->rank, block->chunk) != block->rank)
        return TERP_ERR_HDF5;
    block->is_whole = true;
    array->rank = block->rank;
    for (int d = 0; d < block->rank; d++) {
        hsize_t end = block->offset[d] + block->count[d];
        if (block->offset[d] % block->chunk[d] != 0 ||
            (block->count[d] % block->chunk[d] != 0 && end != block->dims[d]))
            block->is_whole = false;
        array->dims[d] = block->count[d];
        array->chunk[d] = block->chunk[d];
    }
    terp_array_make_dense(array);
    terp_host_open(NULL, &host);
    block->reason = terp_dcpl_read_streams(&host, block->dcpl, &block->cd);
    if (block->reason != NULL)
        return TERP_OK;
    if (!block->is_whole) {
        block->reason = "the block is not made of whole chunks";
        return TERP_OK;
    }
    array->value_nbytes = (uint32_t)terp_value_nbytes(block->cd.chunk.type);
    if (array->value_nbytes != H5Tget_size(block->type) ||
        terp_chunk_nbytes(&block->cd.chunk) !=
            terp_array_chunk_nvalues(array) * array->value_nbytes) {
        block->reason = "the cd_values are of another dataset";
        return TERP_OK;
    }
    return terp_dcpl_read_padding(&host, block->dcpl, block->type, array->pad)
               ? TERP_OK
               : TERP_ERR_HDF5;
}

/* The caller reads the error stack; closing objects would have cleared it. */
static void
restore_errors(hid_t errors)
{
    if (errors >= 0)
        H5Eset_current_stack(errors);
}

void
terp_h5_block_close(struct terp_h5_block *block)
{
    const hid_t errors = H5Eget_current_stack();

    if (block->dcpl >= 0)
        H5Pclose(block->dcpl);
    if (block->space >= 0)
        H5Sclose(block->space);
    if (block->type >= 0)
        H5Tclose(block->type);
    restore_errors(errors);
}

enum terp_status
terp_h5_block_open(hid_t dataset, const hsize_t *offset, const hsize_t *count,
                   struct terp_h5_block *block)
{
    memset(block, 0, sizeof *block);
    block->storage = &storage;
    block->dataset = dataset;
    block->type = H5Dget_type(dataset);
    block->space = block->type < 0 ? -1 : H5Dget_space(dataset);
    block->dcpl = block->space < 0 ? -1 : H5Dget_create_plist(dataset);
    if (block->dcpl < 0)
        return TERP_ERR_HDF5;
    enum terp_status st = read_extent(block, offset, count);
    if (st != TERP_OK || terp_h5_block_is_empty(block))
        return st;
    return read_chunks(block);
}

/* ---- values that HDF5 moves ---- */

enum terp_status
terp_h5_block_transfer_part(const struct terp_h5_block *block,
                            const hsize_t *offset, const hsize_t *stride,
                            const hsize_t *count, const hsize_t *dims,
                            const void *src, void *dst)
{
    static const hsize_t start[H5S_MAX_RANK];
    hid_t memory = H5S_ALL, space = H5S_ALL;
    herr_t result = 0;

    if (block->rank > 0) {
        space = block->space;
        memory = H5Screate_simple(block->rank, dims, NULL);
        if (memory < 0)
            return TERP_ERR_HDF5;
        result = H5Sselect_hyperslab(memory, H5S_SELECT_SET, start, NULL, count,
                                     NULL);
        if (result >= 0)
            result = H5Sselect_hyperslab(space, H5S_SELECT_SET, offset, stride,
                                         count, NULL);
    }
    if (result >= 0)
        result = src != NULL ? H5Dwrite(block->dataset, block->type, memory,
                                        space, H5P_DEFAULT, src)
                             : H5Dread(block->dataset, block->type, memory,
                                       space, H5P_DEFAULT, dst);
    const hid_t errors = H5Eget_current_stack();
    if (memory != H5S_ALL)
        H5Sclose(memory);
    restore_errors(errors);
    return result < 0 ? TERP_ERR_HDF5 : TERP_OK;
}

/* Moves the block between device memory and HDF5 in slabs of host memory. A
 * slab is a number of rows of the slowest dim, in whole chunks; or the one
 * value of a scalar dataset. */
static enum terp_status
transfer_slabs(struct terp_run *run, const struct terp_h5_block *block,
               const void *src, void *dst)
{
    hsize_t offset[H5S_MAX_RANK], count[H5S_MAX_RANK];
    hsize_t nrows, all_nrows = block->rank > 0 ? block->count[0] : 1;
    uint64_t row_nbytes = H5Tget_size(block->type), slab_nbytes;
    enum terp_status st = TERP_OK;

    for (int d = 1; d < block->rank; d++)
        row_nbytes *= block->count[d];
    if (row_nbytes == 0)
        return TERP_ERR_HDF5;
    hsize_t cap_nrows = TERP_H5_BATCH_NBYTES / row_nbytes + 1;
    if (block->is_chunked)
        cap_nrows = div_up(cap_nrows, block->chunk[0]) * block->chunk[0];
    cap_nrows = min_u64(cap_nrows, all_nrows);
    if (!mul_fits(cap_nrows, row_nbytes, &slab_nbytes) || slab_nbytes == 0)
        return TERP_ERR_MEMORY;
    void *slab = malloc(slab_nbytes);
    if (slab == NULL)
        return TERP_ERR_MEMORY;
    memcpy(offset, block->offset, sizeof offset);
    memcpy(count, block->count, sizeof count);
    for (hsize_t row = 0; st == TERP_OK && row < all_nrows; row += nrows) {
        nrows = min_u64(cap_nrows, all_nrows - row);
        uint64_t nbytes = nrows * row_nbytes, at = row * row_nbytes;
        const void *from = src != NULL ? (const uint8_t *)src + at : slab;
        void *to = src != NULL ? slab : (uint8_t *)dst + at;
        offset[0] = block->offset[0] + row;
        count[0] = nrows;
        if (src == NULL)
            st = terp_h5_block_transfer_part(block, offset, NULL, count, count,
                                             NULL, slab);
        if (st == TERP_OK)
            st = terp_memory_copy(run, 1, &to, &from, &nbytes);
        if (st == TERP_OK && src != NULL)
            st = terp_h5_block_transfer_part(block, offset, NULL, count, count,
                                             slab, NULL);
    }
    free(slab);
    return st;
}

enum terp_status
terp_h5_block_transfer(struct terp_run *run, const struct terp_h5_block *block,
                       const void *src, void *dst)
{
    return run->call.memory == TERP_MEMORY_HOST
               ? terp_h5_block_transfer_part(block, block->offset, NULL,
                                             block->count, block->count, src,
                                             dst)
               : transfer_slabs(run, block, src, dst);
}
