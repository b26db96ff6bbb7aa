/* Writes and reads whole datasets or blocks of them, from and to host or device
 * memory, many chunks at once. The codec codes the chunks; HDF5 only stores and
 * fetches streams. The files are the same as through the filter.
 *
 * Link with terp::h5 and with the HDF5 library of the program, 1.10.3 or newer.
 * HDF5's own rule for threads holds: one thread at a time, unless HDF5 was
 * built thread-safe. Not for files that several processes have open through
 * MPI. */
#ifndef TERP_H5_H
#define TERP_H5_H

#include <hdf5.h>

#include "terp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes `values`, a block of `count` values in C order, of the dataset's own
 * type and byte order, to `dataset` from `offset` on. `offset` NULL: from the
 * dataset's beginning. `count` NULL: up to the dataset's end.
 *
 * A block of a chunked dataset must consist of whole chunks: `offset` is a
 * multiple of the chunk's dims, and `count` is too, or reaches the dataset's
 * end. Where terp is the dataset's only filter, the stored chunks are byte for
 * byte what H5Dwrite would store in a new dataset, and the plugin is not
 * called. Any other dataset is written by H5Dwrite; result->reason says why.
 *
 * `params` NULL: chunks are coded as the dataset's cd_values say. Otherwise
 * they are coded with `params`, except for the fill value, which is the
 * dataset's; TERP_ERR_ARGUMENT where H5Dwrite would have to write the dataset.
 *
 * `options`, `result` and the memory of `values` are as for terp_encode_batch;
 * result->used tells the engine of the last chunks. Values on the device are
 * cut into chunks there, and only streams are copied to the host. The call
 * itself takes about 128 MiB of memory (512 MiB of the device's), or twice the
 * size of a chunk that is larger.
 *
 * Errors: those of terp_encode_batch; TERP_ERR_ARGUMENT for a block that is not
 * in the dataset or not made of whole chunks; TERP_ERR_HDF5, with the reason on
 * HDF5's error stack. A file that is open for reading gives H5Dwrite's own
 * error. After an error some chunks may have been written. */
enum terp_status
terp_h5_write(const struct terp_run_options *options, hid_t dataset,
              const hsize_t *offset, const hsize_t *count,
              const struct terp_params *params, const void *values,
              struct terp_run_result *result);

/* A write that terp_h5_write_begin has begun. */
struct terp_h5_writing;

/* Begins what terp_h5_write does, with its arguments, and returns while a
 * thread of the library encodes. On success *writing_ret belongs to the caller,
 * who must pass it to terp_h5_write_wait, which stores the chunks; until then
 * the file may keep its old chunks. Otherwise *writing_ret is NULL.
 *
 * `copies` true: the values are copied before the call returns, by all threads
 * of `options`, and the program may change them; values on the device are
 * copied there, and with gaps or beyond 4 GiB they are encoded before the call
 * returns, in place of a copy. False: nothing is copied, and the values must
 * stay unchanged until terp_h5_write_wait returns.
 *
 * The dataset must stay open until terp_h5_write_wait returns, and `options`'
 * context must live as long. Several writes may be pending. They are encoded in
 * the order in which they began, and stored in the order of the waits. After
 * the wait, reads return the written values.
 *
 * The library's thread calls no function of HDF5. It uses as many threads as
 * `options` allows, and ends when nothing is left to encode. After a fork only
 * the parent may wait. A program that ends without a wait loses the write.
 *
 * The call writes the values itself before it returns where H5Dwrite must write
 * them, and where copies and streams of all writes would take more than half of
 * TERP_MAX_MEMORY, or without that variable an eighth of the machine's memory.
 *
 * Errors: those of terp_h5_write that are known before encoding, and all of
 * them where the call writes the values itself. */
enum terp_status
terp_h5_write_begin(const struct terp_run_options *options, hid_t dataset,
                    const hsize_t *offset, const hsize_t *count,
                    const struct terp_params *params, const void *values,
                    bool copies, struct terp_h5_writing **writing_ret);

/* Waits until the values are encoded, stores them from the calling thread, and
 * frees `writing`, whatever the result. `result` may be NULL. Errors: those of
 * terp_h5_write; after an error some chunks may have been written. In a child
 * process of the one that began the write: TERP_ERR_ARGUMENT, and nothing is
 * stored or freed. */
enum terp_status
terp_h5_write_wait(struct terp_h5_writing *writing,
                   struct terp_run_result *result);

/* Reads a block of any dataset into `values`, with the arguments of
 * terp_h5_write.
 *
 * Streams of terp are decoded without the plugin. HDF5 reads everything else:
 * blocks that are not made of whole chunks; datasets with other filters or
 * none; chunks that were never written, which read as the fill value; and
 * chunks for which the filter was skipped. Errors: as for terp_h5_write, and
 * those of terp_decode for a damaged stream. After an error `values` is
 * unspecified. */
enum terp_status
terp_h5_read(const struct terp_run_options *options, hid_t dataset,
             const hsize_t *offset, const hsize_t *count, void *values,
             struct terp_run_result *result);

/* Reads `count` values along each dimension, `stride` apart from `offset` on,
 * as H5Sselect_hyperslab selects them, into `values`, an array with the dims
 * `count`. `offset` NULL: from the dataset's beginning. `count` NULL: up to the
 * dataset's end. Strides are at least 1.
 *
 * Where all selected values lie on a chunk's coarse levels, as with offsets of
 * 0, strides of 4 and chunks of 64, only these levels are decoded
 * (terp_decode_coarse). The CPU decodes. Errors, and the chunks that HDF5
 * reads: as for terp_h5_read; but the selection need not consist of whole
 * chunks. */
enum terp_status
terp_h5_read_strided(const struct terp_run_options *options, hid_t dataset,
                     const hsize_t *offset, const hsize_t *stride,
                     const hsize_t *count, void *values,
                     struct terp_run_result *result);

#ifdef __cplusplus
}
#endif

#endif
