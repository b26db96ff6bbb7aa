/* terp repack: the state of a copy: the objects and links of the input, and
 * their counterparts in the output. */
#pragma once

#include <hdf5.h>
#include <stdatomic.h>

#include "tools/common/coordinates.h"
#include "tools/common/h5file.h"
#include "tools/common/lost.h"
#include "tools/common/progress.h"
#include "tools/repack/amrex.h"
#include "tools/repack/request.h"

struct repack_mask;

/* How a dataset is copied. */
struct repack_plan {
    struct repack_bound bound; /* REPACK_KEEP: not compressed */
    const char *reason;        /* why it is not compressed; static */
    bool unwanted;             /* the user requested no other filters */
    const char *coordinate;    /* the kind of a coordinate, else NULL; static */
    bool spared; /* compound values that stay lossless under a lossy bound */
    bool whole;  /* preview keeps all values */
    hsize_t chunk_dims[H5S_MAX_RANK];
    hsize_t unit_dims[H5S_MAX_RANK]; /* chunks to encode together */
    struct amrex_level *level;       /* owned; NULL for other data */
    const struct repack_mask *mask;  /* masks some of its values; or NULL */
};

/* The damaged chunks of a dataset, for --salvage. */
struct repack_losses {
    uint64_t nchunks, cap;
    struct tool_grid *boxes; /* the values of each chunk */
    struct tool_lost noted;  /* losses of earlier runs, then of this one */
    void *fill;              /* one value of the dataset's type */
};

/* A group, dataset or committed type of the input. */
struct repack_object {
    haddr_t address;     /* in the input; the key */
    haddr_t out_address; /* valid where made is true */
    H5O_type_t type;
    char *path;
    const struct repack_rule *rule; /* the last rule that matches */
    struct repack_plan plan;        /* for a dataset */
    struct repack_losses losses;    /* for a dataset */
    bool made;                      /* the output has it */
    bool left_out;                  /* with --salvage: impossible to copy */
    bool deferred;  /* values are written after all objects exist */
    hid_t unlinked; /* an open committed type that has no link yet; else -1 */
    struct repack_object *next;
};

/* A link of the input. The list has the order in which links are created. */
struct repack_link {
    struct repack_object *parent, *target; /* target: for a hard link */
    char *name;
    H5L_type_t type;
    H5T_cset_t charset;
    struct repack_link *next;
};

/* Whether this process can use the GPU. */
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
    struct repack_mask *masks; /* one for each of request.masks, or NULL */
    struct tool_progress progress;
    uint64_t nlost;     /* damaged chunks */
    uint64_t nleft_out; /* objects that were impossible to copy */
    uint64_t nlost_references;
    bool has_notes;     /* datasets have notes of CF's attributes */
    bool engine_warned; /* the user was told that the CPU compresses */
    _Atomic(enum repack_device) device;
    char reason[256]; /* of HDF5's latest failure */
    char *error_path; /* object of the first failure */
    char error[1024]; /* reason of the first failure; "" if none */
};

/* Records the first failure; later ones are ignored. The reason is HDF5's where
 * `format` is NULL. Returns false. */
__attribute__((format(printf, 3, 4))) bool
repack_fail(struct repack *repack, const char *path, const char *format, ...);

/* NULL where the input has no object at this address. */
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
