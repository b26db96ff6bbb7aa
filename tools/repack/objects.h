/* terp repack: the state of a copy, above all the objects and links of the
 * input, and what has become of them in the output. */
#pragma once

#include <hdf5.h>
#include <stdatomic.h>

#include "tools/common/coordinates.h"
#include "tools/common/h5file.h"
#include "tools/common/lost.h"
#include "tools/common/progress.h"
#include "tools/repack/amrex.h"
#include "tools/repack/request.h"

/* What becomes of a dataset. */
struct repack_plan {
    struct repack_bound bound; /* REPACK_KEEP: copied as it is */
    const char *reason;        /* why it is copied; static */
    bool unwanted;             /* nobody asked for other filters */
    const char *coordinate;    /* which kind, where it is one: static */
    bool whole;                /* preview keeps all its values */
    hsize_t chunk_dims[H5S_MAX_RANK];
    hsize_t unit_dims[H5S_MAX_RANK]; /* chunks that are best coded together */
    struct amrex_level *level;       /* NULL for other data; of the plan */
};

/* The damaged chunks of a dataset, with --salvage. */
struct repack_losses {
    uint64_t nchunks, cap;
    struct tool_grid *boxes; /* the values of each */
    struct tool_lost noted;  /* these, after those of earlier runs */
    void *fill;              /* a value of the dataset's type */
};

/* A group, dataset or committed type of the input. */
struct repack_object {
    haddr_t address;     /* in the input, where it is the key */
    haddr_t out_address; /* valid when it is made */
    H5O_type_t type;
    char *path;
    const struct repack_rule *rule; /* the last one that names it */
    struct repack_plan plan;        /* of a dataset */
    struct repack_losses losses;    /* likewise */
    bool made;                      /* it is in the output */
    bool left_out;                  /* with --salvage: it cannot be copied */
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

/* Whether the GPU can take part in this process. */
enum repack_device {
    REPACK_DEVICE_NONE,
    REPACK_DEVICE_OPENING,
    REPACK_DEVICE_OPEN
};

struct repack {
    struct repack_request request;
    hid_t in, out;
    struct repack_object *first_object, **end_of_objects;
    struct repack_link *first_link, **end_of_links;
    void *objects_by_address; /* a tree of tsearch() */
    struct tool_coordinates *coordinates;
    struct tool_progress progress;
    uint64_t nlost;     /* damaged chunks */
    uint64_t nleft_out; /* objects */
    uint64_t nlost_references;
    bool engine_told; /* the user knows that the CPU codes instead */
    _Atomic(enum repack_device) device;
    atomic_int ndevice_threads; /* which use the GPU now */
    char reason[256];           /* why HDF5 failed most recently */
    char *error_path;           /* of the first failure */
    char error[1024];           /* why; "" without one */
};

/* Notes why the work fails, with HDF5's reason when `format` is NULL; the
 * first failure counts. Returns false. */
__attribute__((format(printf, 3, 4))) bool
repack_fail(struct repack *repack, const char *path, const char *format, ...);

/* NULL when the input has no such object. */
struct repack_object *
repack_find_object(const struct repack *repack, haddr_t address);

/* Both return NULL without memory. */
struct repack_object *
repack_add_object(struct repack *repack, const H5O_info_t *info,
                  const char *path);

struct repack_link *
repack_add_link(struct repack *repack, struct repack_object *parent,
                const char *name, const H5L_info_t *info);

void
repack_free_objects(struct repack *repack);
