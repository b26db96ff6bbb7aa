/* terp repack: finds the fill value of a dataset. */
#include "tools/repack/fill.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The type of the real and imaginary component of a complex value; close it.
 * Negative for other types. */
static hid_t
component_type(hid_t type)
{
    const enum terp_type coded = tool_coded_type(type);

    if (coded != TERP_COMPLEX64 && coded != TERP_COMPLEX128)
        return -1;
    return H5Tget_class(type) == H5T_COMPOUND ? H5Tget_member_type(type, 0)
                                              : H5Tget_super(type);
}

/* The number that replaces values where the creator set no fill value: the
 * number of an attribute, or NaN, or 0 for integers. */
static double
number_for(const struct tool_dataset *in)
{
    const H5T_class_t class = H5Tget_class(in->type);
    double missing[TOOL_MAX_NMISSING];

    if ((class == H5T_FLOAT || class == H5T_INTEGER) &&
        tool_missing_values(in, tool_type(in->type) != TERP_FLOAT32, missing) >
            0)
        return missing[0];
    return class == H5T_INTEGER ? 0 : (double)NAN;
}

/* Sets `value` to the fill value; it is zeroed and has capacity for two
 * doubles. */
static bool
find_fill(const struct tool_dataset *in, void *value)
{
    const H5T_class_t class = H5Tget_class(in->type);
    H5D_fill_value_t status;

    if (H5Pfill_value_defined(in->dcpl, &status) < 0)
        return false;
    if (status == H5D_FILL_VALUE_USER_DEFINED)
        return H5Pget_fill_value(in->dcpl, in->type, value) >= 0;
    const double number = number_for(in);
    const double components[2] = {number, number};
    hid_t component = component_type(in->type);
    bool ok = true;
    if (component >= 0 || class == H5T_FLOAT || class == H5T_INTEGER) {
        memcpy(value, components, sizeof components);
        ok =
            H5Tconvert(H5T_NATIVE_DOUBLE, component >= 0 ? component : in->type,
                       component >= 0 ? 2 : 1, value, NULL, H5P_DEFAULT) >= 0;
    }
    tool_close(component);
    return ok;
}

void *
repack_fill_value(const struct tool_dataset *in)
{
    const size_t nbytes = in->value_nbytes + 2 * sizeof(double);
    void *value = calloc(1, nbytes);

    /* Values with addresses have no replacement but zeros. */
    if (value != NULL && !in->has_addresses && !find_fill(in, value)) {
        free(value);
        return NULL;
    }
    return value;
}
