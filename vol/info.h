/* The connector's information for HDF5: the connector below it. A file has no
 * information if HDF5's native connector is below. */
#pragma once

#include "vol/library.h"

struct vol_info {
    const struct vol_library *library;
    hid_t vol;
    void *under; /* information of the connector below, or NULL */
};

void *
vol_info_copy(const void *info);
herr_t
vol_info_cmp(int *result, const void *a, const void *b);
herr_t
vol_info_free(void *info);
herr_t
vol_info_to_str(const void *info, char **text_ret);
herr_t
vol_info_from_str(const char *text, void **info_ret);
