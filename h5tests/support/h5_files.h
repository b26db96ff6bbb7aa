/* Files in memory with terp datasets, for tests through HDF5. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>

#include "codec/api/cd_values.h"

#define H5_MAX_RANK 5

/* The shape of an array that a test writes. */
struct h5_shape {
    int rank;
    hsize_t dims[H5_MAX_RANK];
    hsize_t chunk[H5_MAX_RANK];
};

/* Makes a new file in memory. HDF5 prints no errors from now on. */
hid_t
h5_file_new(void);

hsize_t
h5_shape_nvalues(const struct h5_shape *shape);

/* Makes a creation property list with the chunk dims of `shape`, and with terp
 * and the given cd_values unless `nwords` is 0. */
hid_t
h5_dcpl_new(const struct h5_shape *shape, unsigned flags, size_t nwords,
            const unsigned *words);

/* Returns a dataset, or a negative value if HDF5 refuses it. */
hid_t
h5_dataset_new(hid_t file, const char *name, hid_t type,
               const struct h5_shape *shape, hid_t dcpl);

void
h5_write(hid_t dataset, hid_t type, const void *values);

void
h5_read(hid_t dataset, hid_t type, void *values_ret);

/* Reads the terp cd_values that a dataset stores. Returns their number. */
size_t
h5_dataset_words(hid_t dataset, unsigned *flags_ret, unsigned *words_ret);

/* Reads and parses a dataset's cd_values. */
void
h5_dataset_cd(hid_t dataset, struct terp_cd *cd_ret);

/* Reads the stored bytes of the chunk at `offset`, which the caller frees, and
 * whether HDF5 skipped the filter for the chunk. */
void *
h5_chunk_bytes(hid_t dataset, const hsize_t *offset, size_t *nbytes_ret,
               bool *skipped_ret);

/* Whether a message on HDF5's error stack contains `text`. Prints all messages
 * if none does. */
bool
h5_error_says(const char *text);
