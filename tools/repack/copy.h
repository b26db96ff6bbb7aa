/* terp repack and terp preview: copies one file. */
#pragma once

#include <stdatomic.h>

#include "tools/repack/objects.h"

/* What became of a file. */
enum repack_state {
    REPACK_STOPPED,   /* the run ended before the file's turn */
    REPACK_COPIED,    /* the copy is complete */
    REPACK_DONE,      /* an earlier run has made the same copy */
    REPACK_UNCHANGED, /* in place: nothing in it to compress */
    REPACK_FAILED,
    REPACK_NSTATES
};

/* The end of a copy. Another process may watch nhundredths. */
struct repack_outcome {
    enum repack_state state;
    uint64_t in_nbytes, out_nbytes; /* sizes of the files; 0 if unknown */
    uint64_t nlost;                 /* damaged chunks */
    uint64_t nleft_out;             /* objects that were left out */
    atomic_uint nhundredths;        /* of its values that are done */
    char object[512];               /* the file or object that failed */
    char reason[1024];              /* of the failure */
};

/* Copies request->path_in to request->path_out. Prints remarks, but no failure.
 * Marks the rules that were used. A process in which a copy failed keeps files
 * of HDF5 open. */
void
repack_copy(const struct repack_request *request,
            struct repack_outcome *outcome_ret);

/* Marks the rules that would be used, and copies nothing. The outcome is
 * REPACK_UNCHANGED, or REPACK_FAILED if the file cannot be read. */
void
repack_match(const struct repack_request *request,
             struct repack_outcome *outcome_ret);
