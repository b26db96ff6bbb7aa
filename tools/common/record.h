/* What terp repack --record notes beside a dataset, as attributes of it, and
 * terp info shows. doc/record.md defines them. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>

struct tool_record {
    char implementation[64]; /* program and version */
    char bound_kind[16];     /* as it was asked for: "relative" */
    double bound;
    double absolute_bound; /* NAN: not the same for all values; as these: */
    double floor;          /* of a pointwise bound */
    double max_error, psnr;
};

/* False without a record. What is not in it is NAN. */
bool
tool_record_read(hid_t dataset, struct tool_record *record_ret);

/* Numbers that are not finite are left out. False when HDF5 fails. */
bool
tool_record_write(hid_t dataset, const struct tool_record *record);

/* Removes a record, if there is one. False when HDF5 fails. */
bool
tool_record_remove(hid_t dataset);
