/* terp repack: one dataset at work. repack_parts.c deals its values out,
 * repack_range.c finds its bounds, repack_data.c does the rest. */
#ifndef TERP_REPACK_JOB_H
#define TERP_REPACK_JOB_H

#include "h5_batch.h"
#include "range.h"
#include "repack.h"

#define REPACK_MAX_NFILLS 3

/* Some of the values, on their way. */
struct repack_part {
    struct tool_grid box; /* that these are, of the dataset */
    uint64_t nvalues;
    void *values;             /* room for the values of any part */
    struct tool_range *range; /* theirs, of each component */
    struct h5_block block;    /* theirs, in the output */
    struct h5_batch batch;
    struct terp_run run;
    enum terp_status status;
};

struct repack_job {
    struct repack *repack;
    const struct repack_object *object;
    hid_t in, out;
    hid_t type;   /* in both files */
    hid_t native; /* the same in this machine's byte order */
    hid_t space, dcpl;
    uint64_t value_nbytes;
    bool written; /* the input holds values at all */
    struct repack_split split;
    struct repack_part *parts; /* [split.nslots] */
    bool has_all;              /* they hold all values, which are native */
    uint64_t ndevice;          /* parts that the device has coded */
    uint64_t fills[REPACK_MAX_NFILLS];
    int nfills;
    /* A level of boxes has a bound for each of its components, other data has
     * one. */
    const struct amrex_level *level;
    uint64_t ncomponents;
    struct tool_range *ranges;
    struct terp_params *params;
};

/* Notes that HDF5 has failed; returns false. */
bool
repack_job_fails(const struct repack_job *job);

/* Makes room for the parts. */
bool
repack_parts_make(struct repack_job *job);
void
repack_parts_free(struct repack_job *job);

/* What is done with a part. `begin` and `finish` are called for one part after
 * the other, by the calling thread, which is the one that uses HDF5; `work` by
 * any thread, for several parts at once. What was begun is finished, also after
 * a failure. */
struct repack_steps {
    bool (*begin)(struct repack_job *job, struct repack_part *part);
    void (*work)(struct repack_job *job, struct repack_part *part);
    bool (*finish)(struct repack_job *job, struct repack_part *part);
};

/* Takes all parts through the steps. */
bool
repack_parts_do(struct repack_job *job, const struct repack_steps *steps);

/* Reads the values of the part, as `type` has them. */
bool
repack_part_read(struct repack_job *job, struct repack_part *part, hid_t type);

/* Fills in job->params, for which it may have to look at all values. */
bool
repack_find_bounds(struct repack_job *job);

#endif
