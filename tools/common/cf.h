/* Attributes of the CF conventions that say how a variable was compressed with
 * loss. CF 1.12, section 8.4, has them for quantization, in a closed list of
 * algorithms; terp's attributes have the general form of that section's drafts,
 * whose names begin with lossy_compression. doc/record.md defines them. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>

/* The errors that terp has added to the original values: at most `absolute`
 * plus `relative` times the value. Both are NAN where they are unknown. */
struct tool_cf_errors {
    double absolute, relative;
};

/* Whether the root group's attribute Conventions names CF. */
bool
tool_cf_is_file(hid_t file);

/* Whether the open object is the variable that describes terp. */
bool
tool_cf_is_container(hid_t object);

/* Whether the dataset says that it was compressed with loss, and by another
 * program or convention than terp's. */
bool
tool_cf_is_of_others(hid_t dataset);

/* The errors that terp has noted at the dataset. False without a note. */
bool
tool_cf_read(hid_t dataset, struct tool_cf_errors *errors_ret);

/* Replaces the note. False where HDF5 fails. */
bool
tool_cf_write(hid_t dataset, struct tool_cf_errors errors);

/* Creates the variable that describes terp in the root group, or brings it up
 * to date. `has_order`: objects of the file track the order of attributes, as
 * netCDF demands. False where HDF5 fails, or if another object has its name. */
bool
tool_cf_make_container(hid_t file, bool has_order);

/* What a file says about a variable: who changed its values, and how. Texts are
 * NULL and numbers NAN where the file does not say it. */
struct tool_cf_note {
    char *algorithm, *implementation;
    bool is_quantized;   /* CF's quantization, not terp's note */
    double bits, digits; /* that quantization keeps */
    struct tool_cf_errors errors;
};

/* Reads the note of a dataset of this path, in terp's form, else in CF's. Free
 * it. False without one. */
bool
tool_cf_describe(hid_t dataset, const char *path,
                 struct tool_cf_note *note_ret);

void
tool_cf_free(struct tool_cf_note *note);
