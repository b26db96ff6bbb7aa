/* Levels of AMReX plotfiles and of Chombo files in HDF5: one dataset of one
 * dimension, in which box comes after box, in a box component after component,
 * x fastest. */
#pragma once

#include <hdf5.h>
#include <stdint.h>

#include "codec/api/terp.h"
#include "filter/h5/batch.h"
#include "tools/common/h5file.h"

/* The cells of a box, ghost cells among them; `dims` slowest first, 1 where
 * space has less than three dimensions. */
struct amrex_box {
    uint64_t begin; /* of its first component, in the dataset */
    uint64_t dims[3];
    uint64_t nvalues; /* of each component */
};

struct amrex_level {
    uint64_t nboxes, ncomponents, nvalues;
    uint64_t chunk_nvalues; /* how long chunks are to be */
    uint64_t first;         /* number of its first component in the file */
    struct amrex_box *boxes;
};

/* Reads which boxes the dataset at `path`, of floats, holds; chunk_nvalues
 * stays 0. NULL where it is no level's data, with *reason_ret NULL; or where it
 * should be but its boxes cannot be made out, with a static clause. Free with
 * amrex_level_free. */
struct amrex_level *
amrex_level_open(hid_t file, const char *path,
                 const struct tool_dataset *dataset, const char **reason_ret);

/* How components are coded. */
enum amrex_bounds {
    AMREX_OWN,      /* each by a bound or by signs of its own */
    AMREX_ONE,      /* all by the same */
    AMREX_LOSSLESS, /* all bit for bit */
};

/* Sets chunk_nvalues. A chunk has one bound, and so values of one component
 * where each has its own. */
void
amrex_level_choose_chunk(struct amrex_level *level, enum amrex_bounds bounds);

/* Whether the dataset at `path` is data of a level, or tells of its boxes. */
bool
amrex_is_of_level(hid_t file, const char *path);

/* Whether it is of a level whose components are in one dataset. */
bool
amrex_is_of_components(hid_t file, const char *path);

/* What the file calls a component: "density", or "component 3". */
#define AMREX_MAX_NAME_NBYTES 64
void
amrex_component_name(hid_t file, const struct amrex_level *level,
                     uint64_t component, char name_ret[AMREX_MAX_NAME_NBYTES]);

void
amrex_level_free(struct amrex_level *level);

/* Successive values of one component of one box. */
struct amrex_piece {
    const struct amrex_box *box;
    uint64_t component;
    uint64_t at; /* of its first value, in the component */
    uint64_t nvalues;
};

/* The piece that begins at value `at` of the dataset, at most `nvalues` long.
 * `at` is below level->nvalues. */
struct amrex_piece
amrex_level_piece(const struct amrex_level *level, uint64_t at,
                  uint64_t nvalues);

/* The shape that all boxes' parts in chunks have, as logical dims for
 * cd_values; returns how many, 0 where shapes differ. */
unsigned
amrex_level_brick(const struct amrex_level *level, unsigned *dims_ret);

/* The shape in which a chunk that begins at value `at`, level->chunk_nvalues
 * long, is coded. */
void
amrex_level_shape(const struct amrex_level *level, enum terp_type type,
                  uint64_t at, struct terp_chunk *chunk_ret);

/* Codes all chunks of a block of the level's dataset, whose chunks are
 * level->chunk_nvalues long; params[c] is for component c. A chunk that has
 * several takes the smallest bound, an absolute one if there is one. The fill
 * value is the dataset's. `batch` has room for all chunks. Errors: those of
 * terp_encode_batch. */
enum terp_status
amrex_level_encode(const struct amrex_level *level, struct terp_h5_batch *batch,
                   const struct terp_h5_block *block,
                   const struct terp_params *params, const void *values);
