/* terp repack: one dataset at work. Its values are read in parts, by HDF5 or
 * by all threads at once, and each part is handed to a thread. */
#pragma once

#include "filter/h5/batch.h"
#include "tools/common/range.h"
#include "tools/common/workers.h"
#include "tools/repack/objects.h"
#include "tools/repack/split.h"

#define REPACK_MAX_NFILLS (1 + TOOL_MAX_NMISSING)

/* A box of the dataset, from reading to storing. A part's memory is used again
 * for a later part. */
struct repack_part {
    struct tool_work work;      /* all that other threads do; first */
    struct tool_grid box;       /* where the values are in the dataset */
    void *values;               /* large enough for any part */
    struct tool_range *range;   /* of its values, for each component */
    struct tool_range *known;   /* of earlier parts */
    struct terp_h5_block block; /* its place in the output */
    struct terp_h5_batch batch;
    struct terp_run run;
    enum terp_status status;
    bool unread; /* the values could not be read */
};

struct repack_job {
    struct repack *repack;
    const struct repack_object *object;
    struct tool_dataset in;
    hid_t out;      /* of the same type */
    hid_t native;   /* that type in this machine's byte order, or as it
                       is where no range is looked for */
    bool wide;      /* values are doubles, else floats */
    bool has_range; /* they are either */
    bool written;   /* the input holds values at all */
    int file;       /* to be read without HDF5, from file_offset on; else -1 */
    uint64_t file_offset;
    struct repack_split split;
    struct repack_part *parts; /* [split.nslots] */
    /* Parts that may have chunks; NULL: all. The others are nothing but the
     * fill value, and stay unwritten. */
    bool *has_chunks;
    uint64_t fill_bits; /* that value, as `native`, where that is a float */
    bool has_all;       /* the parts hold all values, as `native` */
    int npasses;        /* in which the values are read: each is a part of the
                           progress */
    uint64_t ndevice;   /* parts that the device has coded */
    uint64_t in_nbytes, out_nbytes; /* stored of the input, and so far */
    bool may_stay;  /* the input can be copied in place of larger streams */
    bool is_larger; /* it should be: out_nbytes is not below in_nbytes */
    uint64_t fills[REPACK_MAX_NFILLS];
    int nfills;
    /* A level of an AMReX plotfile has a range and a bound for each component;
     * other data counts as one component. */
    const struct amrex_level *level;
    uint64_t ncomponents;
    struct tool_range *ranges;
    struct terp_params *params;
};

/* Notes that something failed with that status; returns false. */
bool
repack_job_fails(const struct repack_job *job, enum terp_status st);

/* Opens the object's dataset, and makes room for its parts and what is known
 * of it. Close in any case; job->out then remains open. */
bool
repack_job_open(struct repack *repack, const struct repack_object *object,
                struct repack_job *job_ret);

void
repack_job_close(struct repack_job *job);

/* What is done with a part. `absent`, which may be NULL, is called instead of
 * the others for a part without chunks, of which box alone is set. `begin` and
 * `finish` are called by the calling thread, the only one that uses HDF5, for
 * one part after the other. `work` is called by any thread, for several parts
 * at once, when their values have been read. A part that was begun is finished
 * even after a failure. */
struct repack_steps {
    bool (*begin)(struct repack_job *job, struct repack_part *part);
    void (*work)(struct repack_job *job, struct repack_part *part);
    bool (*finish)(struct repack_job *job, struct repack_part *part);
    void (*absent)(struct repack_job *job, const struct tool_grid *box);
};

/* Reads all parts, as values of `type` in memory, and takes them through the
 * steps. Where job->has_all is set, the parts hold the values already. */
bool
repack_job_do(struct repack_job *job, hid_t type,
              const struct repack_steps *steps);
