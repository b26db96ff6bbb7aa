/* Attributes in which terp repack --record describes the compression of a
 * dataset. terp info shows them; doc/record.md defines them. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>

struct tool_record {
    char implementation[64]; /* program and version */
    char bound_kind[16];     /* as the user gave it: "relative" */
    double bound;
    double absolute_bound; /* NAN: varies; also for the members below: */
    double floor;          /* of a pointwise bound */
    double max_error, psnr;
};

/* False without a record. Missing numbers are NAN. */
bool
tool_record_read(hid_t dataset, struct tool_record *record_ret);

/* Leaves out numbers that are not finite. False where HDF5 fails. */
bool
tool_record_write(hid_t dataset, const struct tool_record *record);

/* Removes the record, if there is one. False where HDF5 fails. */
bool
tool_record_remove(hid_t dataset);
