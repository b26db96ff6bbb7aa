/* Datasets whole or in parts, from and to host or device memory, many chunks
 * at once: the chunks are coded by the codec, and HDF5 stores and fetches
 * streams only. The files are like those that the filter writes.
 *
 * Link with terp::h5 and the HDF5 library (1.10.3 or newer) that the program
 * uses anyway. HDF5's own rule for threads holds, so unless it was built
 * thread-safe one thread at a time. Not for files that several processes have
 * open through MPI. */
#ifndef TERP_H5_H
#define TERP_H5_H

#include <hdf5.h>

#include "terp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes `values`, a block of `count` values in C order and of the dataset's
 * own type (in its byte order), to `dataset` from `offset` on. `offset` NULL:
 * from its beginning; `count` NULL: up to its end.
 *
 * Where the dataset is chunked, the block consists of whole chunks: `offset` is
 * a multiple of the chunk's dims, `count` too or reaches the dataset's end.
 * Where terp is the dataset's only filter, the chunks are what H5Dwrite would
 * store in a new dataset, byte for byte, and the plugin is not called. Any
 * other dataset is left to H5Dwrite; result->reason says why.
 *
 * `params` NULL: what the dataset's cd_values say. Otherwise these chunks are
 * coded with `params` instead, but for the fill value, which is the dataset's;
 * TERP_ERR_ARGUMENT where H5Dwrite has to do it.
 *
 * `options`, `result` and the memory of `values` are as for terp_encode_batch;
 * result->used is of the last chunks. Values on the device are cut into chunks
 * there, and only streams come to the host. The call takes some 128 MiB of
 * memory for itself (of the device's 512 MiB), or twice the size of a chunk
 * that is larger. Errors: those of terp_encode_batch, TERP_ERR_ARGUMENT (a
 * block that is not in the dataset, or not of whole chunks), TERP_ERR_HDF5,
 * with the reason on HDF5's error stack: of a file that is open for reading it
 * is H5Dwrite's own. On an error some chunks may have been written. */
enum terp_status
terp_h5_write(const struct terp_run_options *options, hid_t dataset,
              const hsize_t *offset, const hsize_t *count,
              const struct terp_params *params, const void *values,
              struct terp_run_result *result);

/* Reads a block of any dataset into `values`, as above.
 *
 * Streams of terp are decoded without the plugin. What HDF5 has to read, it
 * does: blocks that are not of whole chunks, datasets with other filters or
 * none, chunks that were never written (they are the fill value) or for which
 * the filter was skipped. Errors: as above, and those of terp_decode for a
 * stream that is damaged; `values` is unspecified then. */
enum terp_status
terp_h5_read(const struct terp_run_options *options, hid_t dataset,
             const hsize_t *offset, const hsize_t *count, void *values,
             struct terp_run_result *result);

/* Reads `count` values of each dimension, which are `stride` apart from
 * `offset` on, as H5Sselect_hyperslab selects them, into `values`, an array of
 * `count`. `offset` NULL: from the dataset's beginning; `count` NULL: as many
 * as there are. Strides are at least 1.
 *
 * Where all these values are those of a chunk's coarse levels, as with offsets
 * of 0, strides of 4 and chunks of 64, no more of it is decoded than that
 * (terp_decode_coarse). The CPU does the work. Errors, and what HDF5 reads: as
 * above, but for blocks, which may be of parts of chunks. */
enum terp_status
terp_h5_read_strided(const struct terp_run_options *options, hid_t dataset,
                     const hsize_t *offset, const hsize_t *stride,
                     const hsize_t *count, void *values,
                     struct terp_run_result *result);

#ifdef __cplusplus
}
#endif

#endif
