/* The tool's view of HDF5 files: datasets, their chunks as stored, and walks
 * over these. Nothing here needs the filter plugin. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

#include "codec/api/cd_values.h"
#include "tools/common/reason.h"

/* Opens a file to read; on failure says why on standard error and returns a
 * negative number. Silences HDF5's own error printing. */
hid_t
tool_file_open(const char *command, const char *path);

/* Closes whatever the id is of, unless it is negative. */
void
tool_close(hid_t id);

struct tool_dataset {
    hid_t id, space, dcpl;
    hid_t type; /* as stored in the file */
    int rank;
    bool has_addresses;  /* as tool_type_has_addresses tells */
    uint64_t nvalues;    /* 0 also of a null dataspace */
    size_t value_nbytes; /* in memory; that in the file is another one where
                            values have addresses */
    hsize_t dims[H5S_MAX_RANK];
    bool chunked;
    hsize_t chunk_dims[H5S_MAX_RANK];
    uint64_t chunk_nbytes;
    bool edges_unfiltered; /* HDF5 leaves partial chunks unfiltered */

    int nfilters; /* of chunks */
    bool has_terp;
    /* Bits in a chunk's filter mask, where HDF5 notes which filters it left
     * out. */
    unsigned terp_mask;
    unsigned unseen_mask;   /* filters behind terp that hide its streams */
    unsigned fletcher_mask; /* all that are HDF5's fletcher32, a checksum */
    unsigned shuffle_mask;  /* that are its shuffle, which keeps the size */
    struct terp_cd cd;      /* valid when params_error is NULL */
    const char *params_error;
};

/* False when HDF5 cannot open it; tool_hdf5_reason then says why. */
bool
tool_dataset_open(hid_t file, const char *path,
                  struct tool_dataset *dataset_ret);

/* The same for a dataset that is open, and stays open when this is closed. */
bool
tool_dataset_of(hid_t id, struct tool_dataset *dataset_ret);

void
tool_dataset_close(struct tool_dataset *dataset);

/* Whether HDF5 has all filters that its chunks need. */
bool
tool_has_filters(const struct tool_dataset *dataset);

/* Steps through the boxes of shape `step` that cover an array. */
struct tool_grid {
    int rank;
    hsize_t dims[H5S_MAX_RANK], step[H5S_MAX_RANK];
    uint64_t next;               /* number of the box after the current one */
    hsize_t at[H5S_MAX_RANK];    /* corner of the current box */
    hsize_t count[H5S_MAX_RANK]; /* its shape, cut at the array's edge */
    uint64_t nvalues;            /* in it */
};

/* A grid over the dataset, before its first box. */
struct tool_grid
tool_grid_of(const struct tool_dataset *dataset, const hsize_t *step);

/* Values of the largest box. */
uint64_t
tool_grid_cap(const struct tool_grid *grid);

uint64_t
tool_grid_nboxes(const struct tool_grid *grid);

/* Moves to the next box, at first to the first one; false past the last. An
 * array of rank 0 has one box, an empty one has none. To go to box number n in
 * C order, set `next` to n before. */
bool
tool_grid_next(struct tool_grid *grid);

/* The current box as numpy and h5py select its values: "0:20, 40:60", "" for
 * rank 0. */
#define TOOL_MAX_SELECTION_NBYTES (H5S_MAX_RANK * 44)
void
tool_selection_text(const struct tool_grid *box,
                    char text_ret[TOOL_MAX_SELECTION_NBYTES]);

/* TERP_FLOAT32, TERP_FLOAT64, or TERP_BYTES for all other types. */
enum terp_type
tool_type(hid_t type);

/* The type as which the filter codes values, TERP_BYTES where it does not. */
enum terp_type
tool_coded_type(hid_t type);

/* Whether terp gives back every bit of what it was given. */
bool
tool_is_lossless(const struct tool_dataset *dataset);

/* Whether values of a type in a file hold addresses in that file: sequences and
 * texts of varying length, and references, also within others. */
bool
tool_type_has_addresses(hid_t type);

/* The fill value that the creator of a dataset has set, as the bits of a
 * double (`wide`) or float. False where there is none. */
bool
tool_fill_bits(const struct tool_dataset *dataset, bool wide,
               uint64_t *bits_ret);

/* The values that attributes of netCDF's conventions name, _FillValue and
 * missing_value, which may be short arrays: at most TOOL_MAX_NMISSING, without
 * those that come twice, converted to the dataset's type. Returns how many. */
#define TOOL_MAX_NMISSING 8
int
tool_missing_values(const struct tool_dataset *dataset, bool wide,
                    double values_ret[TOOL_MAX_NMISSING]);

/* The first of these that is not the fill value: the one that a stream can know
 * beside it. False where there is none. */
bool
tool_second_fill(const struct tool_dataset *dataset, bool wide,
                 double *value_ret);

/* Selects the grid's current box in a dataset: `count` values from `at` on,
 * every `stride`th (NULL: each); of rank 0, its value. Both dataspaces are to
 * be closed where they are not negative. */
bool
tool_box_select(hid_t dataset, const struct tool_grid *box,
                const hsize_t *stride, hid_t *in_file_ret,
                hid_t *in_memory_ret);

/* Reads what that selects. Where it fails, HDF5's error stack tells why. */
bool
tool_box_read(hid_t dataset, hid_t type, const struct tool_grid *box,
              const hsize_t *stride, void *values);

/* The same with other properties than the default ones. */
bool
tool_box_read_by(hid_t dxpl, hid_t dataset, hid_t type,
                 const struct tool_grid *box, const hsize_t *stride,
                 void *values);

/* Such as "float32", "uint16", "big-endian float64", "string". */
void
tool_dataset_type_name(const struct tool_dataset *dataset, char *text_ret,
                       size_t text_cap);

enum tool_chunk_kind {
    TOOL_CHUNK_ABSENT, /* never written: reads as the fill value */
    TOOL_CHUNK_PLAIN,  /* stored without terp */
    TOOL_CHUNK_HIDDEN, /* behind another filter */
    TOOL_CHUNK_STREAM, /* a terp stream */
    TOOL_CHUNK_MISFIT, /* plain, and not as long as a chunk is */
    TOOL_CHUNK_UNREADABLE
};

/* One chunk's bytes as stored; start from zeros, free with
 * tool_chunk_free. */
struct tool_chunk {
    enum tool_chunk_kind kind;
    uint8_t *bytes; /* the stream, for TOOL_CHUNK_STREAM */
    uint64_t nbytes, cap_nbytes;
    uint32_t unused_mask; /* filters that HDF5 left out */
};

/* Whether the chunk where `grid` stands was never written. */
bool
tool_chunk_is_absent(const struct tool_dataset *dataset,
                     const struct tool_grid *grid);

/* Reads the chunk where `grid` stands; of a dataset without filters not its
 * bytes: H5Dget_chunk_storage_size then tells the size that it should have, and
 * H5Dread_chunk reads as much as the file says. */
void
tool_chunk_read(const struct tool_dataset *dataset,
                const struct tool_grid *grid, struct tool_chunk *chunk);

void
tool_chunk_free(struct tool_chunk *chunk);

/* Whether a stream of so many bytes of values can be that of a chunk: only
 * filters in front of terp make it another one. */
bool
tool_stream_fits(const struct tool_dataset *dataset, uint64_t values_nbytes);

/* How often smaller `stored_nbytes` are; NAN where nothing is stored. */
double
tool_ratio(uint64_t nbytes, uint64_t stored_nbytes);

/* Prints "16x64x64"; "scalar" for rank 0. */
void
tool_dims_print(int rank, const hsize_t *dims);
