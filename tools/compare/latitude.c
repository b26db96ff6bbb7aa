/* terp compare --png: which way the rows of a map run, by the scale of their
 * dimension, as netCDF files have one. */
#include <stdlib.h>
#include <string.h>

#include "tools/compare/plot.h"

enum {
    MAX_TEXT_NBYTES = 32
};

/* The text of an attribute, if that is short; else "". */
static void
read_text(hid_t object, const char *name, char text[MAX_TEXT_NBYTES])
{
    char *longer = NULL;

    text[0] = '\0';
    if (H5Aexists(object, name) <= 0)
        return;
    hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    hid_t in_memory = H5Tcopy(H5T_C_S1);
    const bool varies = H5Tis_variable_str(type) > 0;
    H5Tset_size(in_memory, varies ? H5T_VARIABLE : MAX_TEXT_NBYTES);
    H5Tset_cset(in_memory, H5Tget_cset(type));
    if (H5Tget_class(type) == H5T_STRING &&
        H5Sget_simple_extent_npoints(space) == 1 &&
        H5Aread(attribute, in_memory, varies ? (void *)&longer : text) >= 0 &&
        longer != NULL && strlen(longer) < MAX_TEXT_NBYTES)
        memcpy(text, longer, strlen(longer) + 1);
    H5free_memory(longer);
    H5Tclose(in_memory);
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(attribute);
}

/* By what the CF conventions ask for (4.1, "Latitude Coordinate"). */
static bool
is_latitude(hid_t scale)
{
    static const char *const all_units[] = {"degrees_north", "degree_north",
                                            "degree_N",      "degrees_N",
                                            "degreeN",       "degreesN"};
    char text[MAX_TEXT_NBYTES];

    read_text(scale, "standard_name", text);
    if (strcmp(text, "latitude") == 0)
        return true;
    read_text(scale, "units", text);
    for (size_t i = 0; i < sizeof all_units / sizeof *all_units; i++)
        if (strcmp(text, all_units[i]) == 0)
            return true;
    return false;
}

/* The scale of a dimension, or -1. */
static hid_t
open_scale(const struct tool_dataset *dataset, int axis)
{
    static const char *const name = "DIMENSION_LIST";
    hvl_t scales[H5S_MAX_RANK];
    hid_t scale = -1;

    if (H5Aexists(dataset->id, name) <= 0)
        return -1;
    hid_t attribute = H5Aopen(dataset->id, name, H5P_DEFAULT);
    hid_t type = H5Tvlen_create(H5T_STD_REF_OBJ);
    hid_t space = H5Aget_space(attribute);
    if (H5Sget_simple_extent_npoints(space) == dataset->rank &&
        H5Aread(attribute, type, scales) >= 0) {
        if (scales[axis].len > 0)
            scale = H5Rdereference2(dataset->id, H5P_DEFAULT, H5R_OBJECT,
                                    scales[axis].p);
        H5Dvlen_reclaim(type, space, H5P_DEFAULT, scales);
    }
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(attribute);
    return scale;
}

static bool
rises(hid_t scale, hsize_t n)
{
    double *values = malloc(n * sizeof *values);
    hid_t space = H5Dget_space(scale);
    const bool ok = values != NULL &&
                    H5Sget_simple_extent_npoints(space) == (hssize_t)n &&
                    H5Dread(scale, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL,
                            H5P_DEFAULT, values) >= 0 &&
                    values[0] < values[n - 1];

    H5Sclose(space);
    free(values);
    return ok;
}

bool
plot_runs_north(const struct tool_dataset *dataset, int axis)
{
    hid_t scale = open_scale(dataset, axis);

    if (scale < 0)
        return false;
    const bool north = H5Iget_type(scale) == H5I_DATASET &&
                       is_latitude(scale) && rises(scale, dataset->dims[axis]);
    H5Oclose(scale);
    return north;
}
