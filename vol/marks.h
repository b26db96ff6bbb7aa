/* Collective writes in which HDF5 copies no values (filter/plugin/marks.h), for
 * programs whose processes write disjoint chunks. */
#pragma once

#include "vol/batches.h"

/* Whether the user says that no two processes write to the same chunk in one
 * call (TERP_MPI_WRITES=disjoint). */
bool
vol_marks_are_wanted(void);

struct vol_marks;

/* Encodes the chunks of a collective write, so that HDF5 needs their marks
 * only. Where nothing can be encoded, the result has no marks, but notices
 * those of other processes. NULL: memory is short. */
struct vol_marks *
vol_marks_make(const void *caller, const struct vol_transfer *transfer);

/* The values that HDF5 writes in place of the transfer's, and where they are in
 * memory and in the dataset; NULL: HDF5 writes the transfer's own values. */
const void *
vol_marks_values(const struct vol_marks *marks, hid_t *memory_ret,
                 hid_t *file_ret);

/* Offers the streams to the filter's calls in this thread, and returns the
 * bytes of the streams. HDF5's buffers for new chunks are mapped until
 * vol_marks_end. NULL is allowed. */
uint64_t
vol_marks_begin(struct vol_marks *marks);

enum vol_marked {
    VOL_MARKED,    /* the streams are stored, or there were no marks */
    VOL_UNMARKED,  /* HDF5 must write the values: it did not write collectively,
                      which it does for a single process only */
    VOL_OVERLAPPED /* processes have written to the same chunk; an error is on
                      HDF5's stack */
};

/* Ends the offer and frees the marks. NULL is allowed. `is_written`: HDF5's
 * call succeeded, `is_collective`: collectively. */
enum vol_marked
vol_marks_end(const void *caller, const struct vol_library *library,
              bool is_written, bool is_collective, struct vol_marks *marks);
