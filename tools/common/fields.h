/* Finds datasets that hold several fields, such as records of particles whose
 * position, velocity and mass stand one after another. A bound that is relative
 * to the range of all values means nothing for fields of small range. */
#pragma once

#include "tools/common/h5file.h"

#define TOOL_MAX_NFIELDS 64

/* Ranges of fields, from a sample of each. */
struct tool_fields {
    int n;      /* 0: the dataset seems to be one field */
    bool outer; /* a field is a slice of the first dimension; else the fields
                   take turns along the last one */
    uint64_t nsampled[TOOL_MAX_NFIELDS];
    double min[TOOL_MAX_NFIELDS], max[TOOL_MAX_NFIELDS];
};

/* Reads some ten thousand values of a dataset of floats. Fields that take turns
 * are found where their values are of different magnitude: in a dataset of one
 * dimension by the period, else as its last dimension, where that is short.
 * Slices of a short first dimension count as fields where it cannot grow, and
 * where magnitudes differ much from one to the next.
 * Datasets whose dimensions have scales, as netCDF's variables do, are one
 * field each. */
struct tool_fields
tool_fields_find(const struct tool_dataset *dataset);

/* The smallest range above 0 that a field has; infinite where there is none, or
 * where all ranges are about the same. */
double
tool_fields_least(const struct tool_fields *fields);

/* Writes ranges, such as "density 1.5, Temp 3e+07 and phi 2e-09"; `names` may
 * be NULL. Of many those in the middle are left out. */
#define TOOL_MAX_RANGES_NBYTES 1024
void
tool_ranges_text(int n, const double *ranges, const char *const *names,
                 char text_ret[TOOL_MAX_RANGES_NBYTES]);

/* The same of the fields. */
void
tool_fields_text(const struct tool_fields *fields,
                 char text_ret[TOOL_MAX_RANGES_NBYTES]);
