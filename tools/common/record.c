/* Reads and writes the attributes of terp repack --record. */
#include "tools/common/record.h"

#include <math.h>
#include <string.h>

#include "tools/common/attribute.h"
#include "tools/common/h5file.h"

enum {
    NNUMBERS = 5
};
static const char IMPLEMENTATION[] = "terp_implementation";
static const char KIND[] = "terp_bound_kind";
static const char *const numbers[NNUMBERS] = {
    "terp_bound", "terp_absolute_bound", "terp_floor", "terp_max_error",
    "terp_psnr"};

static double *
number_of(struct tool_record *record, int i)
{
    double *const fields[NNUMBERS] = {&record->bound, &record->absolute_bound,
                                      &record->floor, &record->max_error,
                                      &record->psnr};
    return fields[i];
}

/* A text of at most `nbytes` bytes, including its end. */
static hid_t
text_type(size_t nbytes)
{
    hid_t type = H5Tcopy(H5T_C_S1);

    H5Tset_size(type, nbytes);
    return type;
}

/* Reads an attribute of one value. False if it is missing or of another type.
 */
static bool
read_one(hid_t dataset, const char *name, hid_t type, void *value)
{
    if (H5Aexists(dataset, name) <= 0)
        return false;
    hid_t attribute = H5Aopen(dataset, name, H5P_DEFAULT);
    hid_t space = attribute >= 0 ? H5Aget_space(attribute) : -1;
    bool ok = space >= 0 && H5Sget_simple_extent_npoints(space) == 1 &&
              H5Aread(attribute, type, value) >= 0;

    tool_close(space);
    tool_close(attribute);
    return ok;
}

static bool
read_text(hid_t dataset, const char *name, char *text, size_t nbytes)
{
    hid_t type = text_type(nbytes);
    bool ok = read_one(dataset, name, type, text);

    H5Tclose(type);
    return ok;
}

bool
tool_record_read(hid_t dataset, struct tool_record *record_ret)
{
    struct tool_record *record = record_ret;

    *record = (struct tool_record){.bound = NAN};
    for (int i = 0; i < NNUMBERS; i++)
        if (!read_one(dataset, numbers[i], H5T_NATIVE_DOUBLE,
                      number_of(record, i)))
            *number_of(record, i) = NAN;
    return read_text(dataset, IMPLEMENTATION, record->implementation,
                     sizeof record->implementation) &&
           read_text(dataset, KIND, record->bound_kind,
                     sizeof record->bound_kind);
}

bool
tool_record_write(hid_t dataset, const struct tool_record *record)
{
    struct tool_record copy = *record;
    bool ok = tool_attribute_write_text(dataset, IMPLEMENTATION,
                                        record->implementation) &&
              tool_attribute_write_text(dataset, KIND, record->bound_kind);

    for (int i = 0; ok && i < NNUMBERS; i++)
        if (isfinite(*number_of(&copy, i)))
            ok = tool_attribute_write_number(dataset, numbers[i],
                                             *number_of(&copy, i));
    return ok;
}

bool
tool_record_remove(hid_t dataset)
{
    bool ok = tool_attribute_remove(dataset, IMPLEMENTATION) &&
              tool_attribute_remove(dataset, KIND);

    for (int i = 0; ok && i < NNUMBERS; i++)
        ok = tool_attribute_remove(dataset, numbers[i]);
    return ok;
}
