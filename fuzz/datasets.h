/* Datasets for the targets that read HDF5 files. HDF5 itself writes the file,
 * so its structure is sound. An input chooses everything that terp interprets:
 * types, extents, chunks, filters and their cd_values, attributes, and the
 * stored bytes of chunks. fuzz/choices.h gives the layout of an input. */
#pragma once

#include <hdf5.h>

#include "fuzz/choices.h"
#include "fuzz/streams.h"

/* What the filters behind terp do when a chunk is read: give the stream, detect
 * the damage, or either. */
enum fuzz_behind {
    FUZZ_BEHIND_GIVES,
    FUZZ_BEHIND_NOTICES,
    FUZZ_BEHIND_UNKNOWN
};

/* A chunk that the file stores. */
struct fuzz_stored {
    hsize_t at[H5S_MAX_RANK];
    uint32_t mask;
    uint8_t *stream; /* the stream that terp wrote; the caller frees it */
    uint64_t stream_nbytes;
    enum fuzz_behind behind;
};

struct fuzz_dataset {
    hid_t file, id; /* id is negative if HDF5 refuses the dataset */
    struct fuzz_stream stream;
    const uint8_t *choices; /* [FUZZ_NCHOICES] */
    size_t chunk_nbytes;    /* a lower bound if above 4096 */
    int nstored;
    struct fuzz_stored stored[FUZZ_MAX_NSTORED];
};

/* Prepares the process, once. Silences HDF5 and standard output. */
void
fuzz_datasets_begin(void);

/* Makes the dataset, named `name`, or without a name if that is NULL. Returns
 * false, with nothing to free, if the input is too short. */
bool
fuzz_dataset_make(const uint8_t *data, size_t nbytes, const char *name,
                  struct fuzz_dataset *dataset_ret);

/* Whether terp is the first filter and datasets.c applied all filters behind
 * it. */
bool
fuzz_dataset_begins_with_terp(const struct fuzz_dataset *dataset);

/* Whether terp is the only filter. */
bool
fuzz_dataset_is_plain(const struct fuzz_dataset *dataset);

/* Whether values that were never written are defined. */
bool
fuzz_dataset_has_fill(const struct fuzz_dataset *dataset);

/* Checks that no HDF5 object was left open. */
void
fuzz_dataset_free(struct fuzz_dataset *dataset);
