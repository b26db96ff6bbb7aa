/* Datasets for the targets that read HDF5 files: the structure is sound, HDF5
 * has made it, and all that terp makes sense of is what an input says: types,
 * extents, chunks, filters and their cd_values, attributes, and the bytes of
 * chunks as they are stored.
 * fuzz/choices.h tells how an input says so. */
#pragma once

#include <hdf5.h>

#include "fuzz/choices.h"
#include "fuzz/streams.h"

/* Filters behind terp give the stream, notice that it was changed, or may
 * either. */
enum fuzz_behind {
    FUZZ_BEHIND_GIVES,
    FUZZ_BEHIND_NOTICES,
    FUZZ_BEHIND_UNKNOWN
};

/* A chunk as the file has it. */
struct fuzz_stored {
    hsize_t at[H5S_MAX_RANK];
    uint32_t mask;
    uint8_t *stream; /* what terp wrote there, to be freed */
    uint64_t stream_nbytes;
    enum fuzz_behind behind;
};

struct fuzz_dataset {
    hid_t file, id; /* id: negative where HDF5 makes no such dataset */
    struct fuzz_stream stream;
    const uint8_t *choices; /* [FUZZ_NCHOICES] */
    size_t chunk_nbytes;    /* or more than datasets.c makes of it */
    int nstored;
    struct fuzz_stored stored[FUZZ_MAX_NSTORED];
};

/* What each process does once. Silences HDF5, and what is printed. */
void
fuzz_datasets_begin(void);

/* Makes the dataset, named `name`, or without a name if that is NULL. False,
 * and nothing to free, of an input that is too short. */
bool
fuzz_dataset_make(const uint8_t *data, size_t nbytes, const char *name,
                  struct fuzz_dataset *dataset_ret);

/* Whether terp is the first filter, and of others behind it nothing but what
 * datasets.c applies, too. */
bool
fuzz_dataset_begins_with_terp(const struct fuzz_dataset *dataset);

/* Whether terp is the only filter. */
bool
fuzz_dataset_is_plain(const struct fuzz_dataset *dataset);

/* Whether values that were never written are always the same. */
bool
fuzz_dataset_has_fill(const struct fuzz_dataset *dataset);

/* Checks that nothing has been left open. */
void
fuzz_dataset_free(struct fuzz_dataset *dataset);
