/* Defines functions of HDF5 1.10 for later versions that renamed them. Only for
 * the Python package's tool, which is compiled with the headers of one HDF5 and
 * runs with the HDF5 of any h5py wheel. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <hdf5.h>
#include <string.h>

/* HDF5 2.0 added other versions of H5Dread_chunk and H5Tdecode, and removed
 * H5FD_sec2_init. */
#undef H5Dread_chunk
#undef H5Tdecode

herr_t
H5Dread_chunk(hid_t dataset, hid_t dxpl, const hsize_t *offset,
              uint32_t *filters, void *chunk)
{
    herr_t (*read)(hid_t, hid_t, const hsize_t *, uint32_t *, void *);
    void *symbol = dlsym(RTLD_DEFAULT, "H5Dread_chunk1");

    if (symbol == NULL)
        symbol = dlsym(RTLD_DEFAULT, "H5Dread_chunk");
    if (symbol == NULL)
        return -1;
    /* ISO C forbids casts from object pointers to function pointers. */
    memcpy(&read, &symbol, sizeof symbol);
    return read(dataset, dxpl, offset, filters, chunk);
}

hid_t
H5Tdecode(const void *bytes)
{
    hid_t (*decode)(const void *);
    void *symbol = dlsym(RTLD_DEFAULT, "H5Tdecode1");

    if (symbol == NULL)
        symbol = dlsym(RTLD_DEFAULT, "H5Tdecode");
    if (symbol == NULL)
        return H5I_INVALID_HID;
    memcpy(&decode, &symbol, sizeof symbol);
    return decode(bytes);
}

hid_t
H5FD_sec2_init(void)
{
    hid_t (*init)(void);
    const hid_t *id = dlsym(RTLD_DEFAULT, "H5FD_SEC2_id_g");
    void *symbol = dlsym(RTLD_DEFAULT, "H5FD_sec2_init");

    if (symbol == NULL)
        return id == NULL ? H5I_INVALID_HID : *id;
    memcpy(&init, &symbol, sizeof symbol);
    return init();
}
