/* terp repack: what its files share. repack.c reads the options and cares for
 * the files, repack_copy.c walks through the input, repack_values.c moves
 * references and attributes, repack_plan.c decides, repack_data.c compresses
 * datasets (repack_job.h). */
#ifndef TERP_TOOLS_REPACK_REPACK_H
#define TERP_TOOLS_REPACK_REPACK_H

#include <hdf5.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "codec/api/terp.h"
#include "tools/common/h5file.h"
#include "tools/common/options.h"
#include "tools/common/progress.h"
#include "tools/repack/amrex.h"

/* Values of a unit (struct repack_plan), unless a chunk has more. */
#define REPACK_UNIT_NBYTES ((uint64_t)256 << 20)

/* With so many values for each thread the device is worth opening. */
#define REPACK_DEVICE_NBYTES ((uint64_t)256 << 20)

enum repack_mode {
    REPACK_KEEP, /* do not compress */
    REPACK_ABS,  /* the bound itself */
    REPACK_REL   /* times the range of the dataset's valid values */
};

struct repack_bound {
    enum repack_mode mode;
    double number;
};

/* --dataset GLOB=BOUND. */
struct repack_rule {
    const char *text, *glob;
    struct repack_bound bound;
    bool used;
};

/* Of a process that the device is to code for. */
enum repack_device {
    REPACK_DEVICE_NONE,
    REPACK_DEVICE_OPENING,
    REPACK_DEVICE_OPEN
};

struct repack_request {
    const char *path_in, *path_out;
    struct repack_bound bound; /* where no rule says otherwise */
    struct repack_rule *rules;
    int nrules;
    bool chunk_auto;
    struct tool_shape chunk;
    unsigned pipeline;
    enum terp_engine_kind engine;
    int nthreads;
    bool amrex; /* levels of plotfiles are compressed box by box */
    bool verbose;
};

/* What becomes of a dataset. */
struct repack_plan {
    struct repack_bound bound; /* REPACK_KEEP: copied as it is */
    const char *reason;        /* why it is copied; static */
    hsize_t chunk_dims[H5S_MAX_RANK];
    hsize_t unit_dims[H5S_MAX_RANK]; /* chunks that are best coded together */
    struct amrex_level *level;       /* NULL for other data; of the plan */
};

/* A group, dataset or committed type of the input. */
struct repack_object {
    haddr_t address;     /* in the input, by which it is found */
    haddr_t out_address; /* when it is made */
    H5O_type_t type;
    char *path;
    const struct repack_rule *rule; /* the last one that names it */
    struct repack_plan plan;        /* of a dataset */
    bool made;                      /* it is in the output */
    bool deferred;  /* its values are written when all objects are there */
    hid_t unlinked; /* a committed type without a link so far; else -1 */
    struct repack_object *next;
};

/* A link of the input, in the order in which they are made anew. */
struct repack_link {
    struct repack_object *parent, *target; /* target: of a hard link */
    char *name;
    H5L_type_t type;
    H5T_cset_t charset;
    struct repack_link *next;
};

struct repack {
    const struct repack_request *request;
    hid_t in, out;
    struct repack_object *first_object, *last_object;
    struct repack_link *first_link, *last_link;
    void *objects_by_address; /* a tree of tsearch() */
    struct tool_progress progress;
    bool engine_told; /* that the CPU codes in place of the GPU */
    _Atomic(enum repack_device) device;
    atomic_int ndevice_threads; /* that use it now */
    char reason[256];           /* why HDF5 failed most recently */
    char error[512];            /* of the first failure */
};

/* Notes why the work fails, with HDF5's reason when `format` is NULL; the
 * first failure counts. Returns false. */
__attribute__((format(printf, 3, 4))) bool
repack_fail(struct repack *repack, const char *path, const char *format, ...);

/* NULL when the input has no such object. */
struct repack_object *
repack_find(const struct repack *repack, haddr_t address);

/* Lists objects and links of the input. */
bool
repack_list(struct repack *repack);

/* Makes all of them in the output. */
bool
repack_make(struct repack *repack);

void
repack_free(struct repack *repack);

/* The type for a dataset or attribute of the output that has `type` in the
 * input: where that is committed, the output's committed type. Negative on a
 * failure; to be closed. */
hid_t
repack_type(struct repack *repack, const char *path, hid_t type);

/* Why the dataset can never be compressed: static; NULL when it can. */
const char *
repack_obstacle(hid_t dataset);

/* Fills in the plan of the object, which is a dataset, and adds the bytes
 * that will be read for it. */
bool
repack_plan(struct repack *repack, struct repack_object *object,
            uint64_t *total_nbytes);

/* Creates a dataset that is planned to be compressed, as `name` in `parent`,
 * and writes its values. Returns its id, to be closed, or a negative one. */
hid_t
repack_compress(struct repack *repack, const struct repack_object *object,
                hid_t parent, const char *name, hid_t lcpl);

/* Copies the values of a dataset to one of the same type and layout,
 * references translated. */
bool
repack_copy_values(struct repack *repack, const char *path, hid_t in,
                   hid_t out);

/* Copies all attributes, in the order of their creation if that is known. */
bool
repack_copy_attributes(struct repack *repack, const char *path, hid_t in,
                       hid_t out);

/* A grid of blocks, each of whole units: of as many as `cap_nbytes` hold, at
 * least one. */
void
repack_grid(int rank, const hsize_t *dims, const hsize_t *unit_dims,
            uint64_t value_nbytes, uint64_t cap_nbytes,
            struct tool_grid *grid_ret);

/* How a dataset is dealt out to threads, beside which a device may code. */
struct repack_split {
    struct tool_grid grid; /* a part is a block of this */
    uint64_t nparts;
    uint64_t nslots;     /* parts in memory at a time */
    int nworkers;        /* threads that take parts */
    int nthreads;        /* of each of these, for its part */
    int ndevice_threads; /* workers that may code on the device at a time */
};

void
repack_split(const struct repack_request *request, int rank,
             const hsize_t *dims, const hsize_t *unit_dims,
             uint64_t value_nbytes, bool with_device,
             struct repack_split *split_ret);

/* The part of `dataset` where `grid` stands, as a selection of a new
 * dataspace; the shape in memory likewise. Rank 0: the whole. */
bool
repack_select(hid_t dataset, const struct tool_grid *grid, hid_t *in_file_ret,
              hid_t *in_memory_ret);

#endif
