/* Pictures: finds out whether latitudes rise along the rows of a map,
 * from the dimension scales that netCDF writes. */
#include <stdlib.h>

#include "tools/common/coordinates.h"
#include "tools/compare/picture.h"

/* Opens the scale of a dimension; negative without one. */
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
compare_runs_north(const struct tool_dataset *dataset, int axis)
{
    hid_t scale = open_scale(dataset, axis);

    if (scale < 0)
        return false;
    const bool north = H5Iget_type(scale) == H5I_DATASET &&
                       tool_is_latitude(scale) &&
                       rises(scale, dataset->dims[axis]);
    H5Oclose(scale);
    return north;
}
