/* Levels of AMReX plotfiles and of Chombo files in HDF5. A level is one dataset
 * of one dimension: box after box, in each box component after component, x
 * fastest. */
#pragma once

#include <hdf5.h>
#include <stdint.h>

#include "codec/api/terp.h"
#include "filter/h5/batch.h"
#include "tools/common/h5file.h"

/* The cells of a box, including ghost cells. `dims` has the slowest dimension
 * first, and 1 for dimensions that the simulation lacks. */
struct amrex_box {
    uint64_t begin; /* position of its first component in the dataset */
    uint64_t dims[3];
    uint64_t nvalues; /* of each component */
};

struct amrex_level {
    uint64_t nboxes, ncomponents, nvalues;
    uint64_t chunk_nvalues; /* length of the chunks */
    bool has_parts;         /* chunks are containers (amrex_parts.h) */
    uint64_t nstacked;      /* equal boxes in a container; 0: others */
    uint64_t first;         /* number in the file of the first component */
    struct amrex_box *boxes;
};

/* Reads the boxes of the dataset of floats at `path`; chunk_nvalues stays 0.
 * Free the level with amrex_level_free. NULL where the dataset is not data of a
 * level (*reason_ret is NULL), or where its boxes cannot be read (*reason_ret
 * says why and is static). */
struct amrex_level *
amrex_level_open(hid_t file, const char *path,
                 const struct tool_dataset *dataset, const char **reason_ret);

/* Which bounds the components of a level have. */
enum amrex_bounds {
    AMREX_OWN,      /* each component has its own bound or signs */
    AMREX_ONE,      /* all components have the same bound */
    AMREX_LOSSLESS, /* all components are lossless */
};

bool
amrex_level_has_one_shape(const struct amrex_level *level);

/* The greatest common divisor of the numbers of values of all boxes. */
uint64_t
amrex_level_common_divisor(const struct amrex_level *level);

/* Sets chunk_nvalues, and what belongs to it. A stream has one bound; with
 * AMREX_OWN it therefore holds values of one component. `format` is as in
 * terp_params: with 1 no chunk is a container, because terp 1 does not read
 * containers. */
void
amrex_level_choose_chunk(struct amrex_level *level, enum amrex_bounds bounds,
                         uint64_t value_nbytes, unsigned format);

/* Whether the dataset at `path` belongs to a level: its data, boxes or offsets.
 */
bool
amrex_is_of_level(hid_t file, const char *path);

/* Whether the dataset belongs to a level that has all components in one
 * dataset. */
bool
amrex_is_of_components(hid_t file, const char *path);

/* The name of a component in the file: "density", or "component 3". */
#define AMREX_MAX_NAME_NBYTES 64
void
amrex_component_name(hid_t file, const struct amrex_level *level,
                     uint64_t component, char name_ret[AMREX_MAX_NAME_NBYTES]);

void
amrex_level_free(struct amrex_level *level);

/* Successive values of one component of one box. */
struct amrex_span {
    const struct amrex_box *box;
    uint64_t component;
    uint64_t at; /* position of its first value in the component */
    uint64_t nvalues;
};

/* The values from position `at` of the dataset to the end of the component, at
 * most `nvalues`. `at` is below level->nvalues. */
struct amrex_span
amrex_level_span(const struct amrex_level *level, uint64_t at,
                 uint64_t nvalues);

/* The shape that the values of a box have in every chunk, as logical dims for
 * cd_values. Returns the rank, 0 where shapes differ. */
unsigned
amrex_level_brick(const struct amrex_level *level, unsigned *dims_ret);

/* The shape in which the chunk at position `at` is encoded, unless
 * level->has_parts. */
void
amrex_level_shape(const struct amrex_level *level, enum terp_type type,
                  uint64_t at, struct terp_chunk *chunk_ret);

/* Encodes all chunks of a block of the level's dataset; params[c] is for
 * component c. A chunk of several components takes the smallest absolute bound,
 * or the smallest relative one if no bound is absolute. The fill value is that
 * of the dataset. `batch` has capacity for all chunks. Errors: see
 * terp_encode_batch. */
enum terp_status
amrex_level_encode(const struct amrex_level *level, struct terp_h5_batch *batch,
                   const struct terp_h5_block *block,
                   const struct terp_params *params, const void *values);
