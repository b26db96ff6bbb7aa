/* terp repack: compression of one dataset. HDF5, or all threads directly, read
 * the dataset in slabs; each slab is the work of one thread. */
#pragma once

#include "filter/h5/batch.h"
#include "tools/common/range.h"
#include "tools/common/workers.h"
#include "tools/repack/mask.h"
#include "tools/repack/objects.h"
#include "tools/repack/split.h"

#define REPACK_MAX_NFILLS (1 + TOOL_MAX_NMISSING)

/* A slab: a box of the dataset, from reading to storing. Later slabs reuse its
 * memory. */
struct repack_slab {
    struct tool_work work;      /* for the other threads; first member */
    struct tool_grid box;       /* position of its values in the dataset */
    struct tool_grid part;      /* of `values`: the box, or a part of it */
    bool in_parts;              /* `values` has one part after another */
    int part_dim;               /* the first with several indices in the box */
    void *values;               /* capacity for any slab */
    struct tool_range *range;   /* of the slab's values, for each component */
    struct tool_range *known;   /* of earlier slabs */
    struct terp_h5_block block; /* its chunks in the output */
    struct terp_h5_batch batch;
    struct terp_run run;
    uint8_t *masked;            /* a flag for each of `values`; NULL: no mask */
    bool has_kept, kept_differ; /* masked values to keep, and their bits */
    uint64_t kept_bits;
    enum terp_status status;
    bool unread; /* reading the values failed */
};

/* A dataset on its way from the input to the output: what threads share while
 * they read, code and store its slabs. */
struct repack_job {
    struct repack *repack;
    const struct repack_object *object;
    struct tool_dataset in;
    hid_t out;      /* its values have the type of the input */
    hid_t native;   /* the type in this machine's byte order; the type itself
                       where has_range is false */
    bool wide;      /* values are doubles, else floats */
    bool has_range; /* values are doubles or floats */
    bool written;   /* the input stores values */
    int file;       /* descriptor to read the values without HDF5, from
                       file_offset on; or -1 */
    uint64_t file_offset;
    struct repack_split split;
    struct repack_slab *slabs; /* [split.nslots] */
    /* For each slab, whether it may have chunks; NULL: all may. Slabs without
     * chunks hold the fill value alone and stay unwritten. */
    bool *has_chunks;
    uint64_t fill_bits; /* the fill value as `native`, where has_range */
    bool has_all;       /* the slabs in memory hold all values, as `native` */
    int nreadings;      /* how often the values are read, for the progress
                         bar */
    uint64_t ndevice;   /* slabs that the device has encoded */
    uint64_t in_nbytes, out_nbytes; /* stored in the input; in streams so far */
    bool may_stay;  /* the input may be copied if streams are not smaller */
    bool is_larger; /* out_nbytes has reached in_nbytes: copy the input */
    uint64_t fills[REPACK_MAX_NFILLS];
    int nfills;
    const struct repack_mask *mask; /* or NULL */
    void *mask_fill; /* replaces masked values: as stored in the input; NULL:
                        masked values stay */
    uint64_t mask_fill_bits; /* the same as `native` */
    /* Masked values that differ from all fill values: a stream can keep one
     * further number bit for bit. */
    bool has_kept, kept_differ;
    uint64_t kept_bits;
    /* A level of an AMReX plotfile has a range and a bound for each component;
     * other data counts as one component. */
    const struct amrex_level *level;
    uint64_t ncomponents;
    struct tool_range *ranges;
    struct terp_params *params;
};

/* Records a failure with the status as its reason; returns false. */
bool
repack_job_fails(const struct repack_job *job, enum terp_status st);

/* Opens the object's dataset and allocates its slabs. Close the job also after
 * a failure; job->out stays open then. */
bool
repack_job_open(struct repack *repack, const struct repack_object *object,
                struct repack_job *job_ret);

void
repack_job_close(struct repack_job *job);

/* The steps of a slab. One thread, the only one that uses HDF5, calls `begin`
 * and `finish` for one slab after the other. Any thread calls the other three,
 * for several slabs at once: `takes_parts`, before the values are read, says
 * whether `work` may get them in parts; then `work`, for each part, and `end`.
 * A slab that has begun is ended and finished even after a failure. `absent`
 * replaces the steps for a slab without chunks and gets only its box. `end` and
 * `absent` may be NULL. */
struct repack_steps {
    bool (*begin)(struct repack_job *job, struct repack_slab *slab);
    bool (*takes_parts)(struct repack_job *job, struct repack_slab *slab);
    void (*work)(struct repack_job *job, struct repack_slab *slab);
    void (*end)(struct repack_job *job, struct repack_slab *slab);
    bool (*finish)(struct repack_job *job, struct repack_slab *slab);
    void (*absent)(struct repack_job *job, const struct tool_grid *box);
};

/* Reads all slabs as values of `type` in memory and takes them through the
 * steps. Where job->has_all is set, the slabs already hold the values. */
bool
repack_job_do(struct repack_job *job, hid_t type,
              const struct repack_steps *steps);
