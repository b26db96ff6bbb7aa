/* HDF5 files: datasets, their stored chunks, and grids over them. These
 * functions need no filter plugin. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

#include "codec/api/cd_values.h"
#include "tools/common/reason.h"

/* Opens a file for reading. On failure returns a negative number, and
 * *reason_ret says why. Turns off HDF5's own error messages. */
hid_t
tool_file_try(const char *path, char *reason_ret, size_t reason_cap);

/* The same, but prints why. */
hid_t
tool_file_open(const char *command, const char *path);

/* Closes an object of any kind. Does nothing for a negative id. */
void
tool_close(hid_t id);

struct tool_dataset {
    hid_t id, space, dcpl;
    hid_t type; /* in the file */
    int rank;
    bool has_addresses;  /* see tool_type_has_addresses */
    uint64_t nvalues;    /* 0 for a null dataspace */
    size_t value_nbytes; /* in memory; values with addresses have another size
                            in the file */
    hsize_t dims[H5S_MAX_RANK];
    bool chunked;
    hsize_t chunk_dims[H5S_MAX_RANK];
    uint64_t chunk_nbytes;
    bool leaves_gaps;      /* H5Dread leaves unwritten values unset */
    bool edges_unfiltered; /* HDF5 stores partial chunks without filters */

    int nfilters; /* of chunks */
    bool has_terp;
    /* Bits of filters in a chunk's filter mask, where HDF5 marks skipped
     * filters. */
    unsigned terp_mask;
    unsigned unseen_mask;   /* filters after terp that hide its streams */
    unsigned fletcher_mask; /* fletcher32, HDF5's checksum */
    unsigned shuffle_mask;  /* shuffle, which keeps the size */
    struct terp_cd cd;      /* valid if params_error is NULL */
    const char *params_error;

    /* The dataset stands for one member of its compound values: `type` is that
     * of an element, `value_nbytes` that of all elements in a compound value,
     * and cd.params are the member's. */
    bool is_member;
    hid_t whole_type;   /* of the compound values; not owned */
    size_t member_at;   /* tool_member.at */
    uint64_t nelements; /* tool_member.n */
};

/* False if HDF5 cannot open it; tool_hdf5_reason then says why. */
bool
tool_dataset_open(hid_t file, const char *path,
                  struct tool_dataset *dataset_ret);

/* Describes the open dataset `id`, which stays open after tool_dataset_close.
 * False if HDF5 fails; tool_hdf5_reason then says why. */
bool
tool_dataset_of(hid_t id, struct tool_dataset *dataset_ret);

void
tool_dataset_close(struct tool_dataset *dataset);

/* Whether HDF5 has all filters that the chunks need. */
bool
tool_has_filters(const struct tool_dataset *dataset);

/* A grid of boxes of shape `step` that cover an array, and a position in it. */
struct tool_grid {
    int rank;
    hsize_t dims[H5S_MAX_RANK], step[H5S_MAX_RANK];
    uint64_t next;               /* number of the box after the current one */
    hsize_t at[H5S_MAX_RANK];    /* corner of the current box */
    hsize_t count[H5S_MAX_RANK]; /* its shape, cut at the array's edge */
    uint64_t nvalues;            /* in the current box */
};

/* A grid over the dataset, positioned before its first box. */
struct tool_grid
tool_grid_of(const struct tool_dataset *dataset, const hsize_t *step);

/* The number of values in the largest box. */
uint64_t
tool_grid_cap(const struct tool_grid *grid);

uint64_t
tool_grid_nboxes(const struct tool_grid *grid);

/* Moves to the next box; false after the last one. An array of rank 0 has one
 * box, an empty array none. To move to box n in C order, set `next` to n first.
 */
bool
tool_grid_next(struct tool_grid *grid);

/* The current box as a selection of numpy and h5py: "0:20, 40:60", "" for rank
 * 0. */
#define TOOL_MAX_SELECTION_NBYTES (H5S_MAX_RANK * 44)
void
tool_selection_text(const struct tool_grid *box,
                    char text_ret[TOOL_MAX_SELECTION_NBYTES]);

/* TERP_FLOAT32, TERP_FLOAT64, or TERP_BYTES for all other types. */
enum terp_type
tool_type(hid_t type);

/* The type as which the filter encodes values; TERP_BYTES if it does not. */
enum terp_type
tool_coded_type(hid_t type);

/* Whether terp stores every bit of the dataset's values. */
bool
tool_is_lossless(const struct tool_dataset *dataset);

/* Whether stored values of a type contain addresses in their file: sequences
 * and strings of varying length, and references, also within other types. */
bool
tool_type_has_addresses(hid_t type);

/* The fill value that the creator of the dataset has set, as the bits of a
 * double (`wide`) or float. False if none is set. */
bool
tool_fill_bits(const struct tool_dataset *dataset, bool wide,
               uint64_t *bits_ret);

/* The values of netCDF's attributes _FillValue and missing_value, which may be
 * short arrays, converted to the dataset's type. At most TOOL_MAX_NMISSING,
 * without repetitions. Returns their number. */
#define TOOL_MAX_NMISSING 8
int
tool_missing_values(const struct tool_dataset *dataset, bool wide,
                    double values_ret[TOOL_MAX_NMISSING]);

/* The first missing value that differs from the fill value; a stream can keep
 * one such value. False if there is none. */
bool
tool_second_fill(const struct tool_dataset *dataset, bool wide,
                 double *value_ret);

/* Selects the grid's current box in a dataset: `count` values from `at` on,
 * every `stride`-th one (NULL: each); for rank 0 the single value. Close both
 * dataspaces if they are not negative. */
bool
tool_box_select(hid_t dataset, const struct tool_grid *box,
                const hsize_t *stride, hid_t *in_file_ret,
                hid_t *in_memory_ret);

/* Zeroes the values of a box in memory that H5Dread may leave unset. */
void
tool_box_clear(const struct tool_dataset *dataset, hid_t type,
               const struct tool_grid *box, void *values);

/* Reads the selection of tool_box_select; unset values are zeros. On failure
 * HDF5's error stack says why. */
bool
tool_box_read(const struct tool_dataset *dataset, hid_t type,
              const struct tool_grid *box, const hsize_t *stride, void *values);

/* Like tool_box_read, with the transfer property list `dxpl`. */
bool
tool_box_read_by(hid_t dxpl, const struct tool_dataset *dataset, hid_t type,
                 const struct tool_grid *box, const hsize_t *stride,
                 void *values);

/* A name such as "float32", "uint16", "big-endian float64" or "string". */
void
tool_dataset_type_name(const struct tool_dataset *dataset, char *text_ret,
                       size_t text_cap);

enum tool_chunk_kind {
    TOOL_CHUNK_ABSENT, /* never written: reads as the fill value */
    TOOL_CHUNK_PLAIN,  /* stored without terp */
    TOOL_CHUNK_HIDDEN, /* behind another filter */
    TOOL_CHUNK_STREAM, /* a terp stream */
    TOOL_CHUNK_MISFIT, /* without terp, and of a wrong size */
    TOOL_CHUNK_UNREADABLE
};

/* The stored bytes of a chunk. Initialize with zeros; free with
 * tool_chunk_free. */
struct tool_chunk {
    enum tool_chunk_kind kind;
    uint8_t *bytes; /* for TOOL_CHUNK_STREAM the stream */
    uint64_t nbytes, cap_nbytes;
    uint32_t unused_mask; /* filters that HDF5 skipped */
};

/* Whether the chunk where `grid` stands was never written. */
bool
tool_chunk_is_absent(const struct tool_dataset *dataset,
                     const struct tool_grid *grid);

/* Reads the chunk where `grid` stands. Does not read the bytes of a dataset
 * without filters: H5Dread_chunk reads as many bytes as the file claims, while
 * H5Dget_chunk_storage_size gives the correct size. */
void
tool_chunk_read(const struct tool_dataset *dataset,
                const struct tool_grid *grid, struct tool_chunk *chunk);

void
tool_chunk_free(struct tool_chunk *chunk);

/* Whether a chunk's stream can have this many bytes of values. Filters before
 * terp may change the size. */
bool
tool_stream_fits(const struct tool_dataset *dataset, uint64_t values_nbytes);

/* nbytes over stored_nbytes; NAN if nothing is stored. */
double
tool_ratio(uint64_t nbytes, uint64_t stored_nbytes);

/* Prints "16x64x64"; "scalar" for rank 0. */
void
tool_dims_print(int rank, const hsize_t *dims);
