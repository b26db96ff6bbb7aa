/* Copies types and dataspaces independently of their file. */
#include "tools/common/copies.h"

#include <stdlib.h>

hid_t
tool_type_copy(hid_t type)
{
    hid_t plain = H5Tcopy(type); /* not committed, so that the encoding is not
                                    either */
    hid_t copy = -1;
    size_t nbytes = 0;
    void *bytes = NULL;

    if (plain >= 0 && H5Tencode(plain, NULL, &nbytes) >= 0)
        bytes = malloc(nbytes);
    if (bytes != NULL && H5Tencode(plain, bytes, &nbytes) >= 0)
        copy = H5Tdecode(bytes);
    free(bytes);
    if (plain >= 0)
        H5Tclose(plain);
    return copy;
}

hid_t
tool_space_copy(hid_t space)
{
    const H5S_class_t class = H5Sget_simple_extent_type(space);
    hsize_t dims[H5S_MAX_RANK], max_dims[H5S_MAX_RANK];

    if (class != H5S_SIMPLE)
        return H5Screate(class);
    const int rank = H5Sget_simple_extent_dims(space, dims, max_dims);
    return rank < 0 ? -1 : H5Screate_simple(rank, dims, max_dims);
}
