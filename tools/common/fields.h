/* Finds datasets that hold several fields, such as records of particles with
 * position, velocity and mass. A bound relative to the range of all values
 * destroys fields of small range. */
#pragma once

#include "tools/common/h5file.h"

/* Limit of fields. A longer period or last dimension counts as one field; each
 * field needs enough values in the sample. */
#define TOOL_MAX_NFIELDS 64

/* Ranges of fields, from a sample. */
struct tool_fields {
    int n;      /* 0: the dataset seems to be one field */
    bool outer; /* fields are slices of the first dimension; else they are
                   interleaved along the last one */
    uint64_t nsampled[TOOL_MAX_NFIELDS];
    double min[TOOL_MAX_NFIELDS], max[TOOL_MAX_NFIELDS];
};

/* Samples some ten thousand values of a dataset of floats. Interleaved fields
 * are found if their magnitudes differ: in one dimension by their period, else
 * as a last dimension of at most TOOL_MAX_NFIELDS. Slices of a short first
 * dimension are fields if the dimension cannot grow and magnitudes jump between
 * slices. A dataset with dimension scales, such as a netCDF variable, is one
 * field. */
struct tool_fields
tool_fields_find(const struct tool_dataset *dataset);

/* The smallest range above 0 of all fields; infinite if there is none, or if
 * all ranges are similar. */
double
tool_fields_least(const struct tool_fields *fields);

/* Writes ranges such as "density 1.5, Temp 3e+07 and phi 2e-09"; `names` may be
 * NULL. A long list loses its middle. */
#define TOOL_MAX_RANGES_NBYTES 1024
void
tool_ranges_text(int n, const double *ranges, const char *const *names,
                 char text_ret[TOOL_MAX_RANGES_NBYTES]);

/* Writes the ranges of the fields. */
void
tool_fields_text(const struct tool_fields *fields,
                 char text_ret[TOOL_MAX_RANGES_NBYTES]);
