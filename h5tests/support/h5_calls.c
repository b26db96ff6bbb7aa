/* Counts calls of HDF5 and makes them fail; the linker redirects the calls
 * here. */
#include "h5tests/support/h5_calls.h"

#include <hdf5.h>
#include <stdbool.h>

static struct h5_calls seen;
static uint64_t fail_call;
static bool counting;

static bool
must_fail(const char *name)
{
    if (!counting || seen.ncalls++ != fail_call)
        return false;
    seen.failed = name;
    return true;
}

/* The linker's --wrap gives these names. __real names are HDF5's. */
#define CALL(result, name, failure, parameters, arguments)             \
    result __real_##name parameters;                                   \
    result __wrap_##name parameters;                                   \
    result __wrap_##name parameters                                    \
    {                                                                  \
        return must_fail(#name) ? (failure) : __real_##name arguments; \
    }

#define MAKE(name, parameters, arguments)         \
    hid_t __real_##name parameters;               \
    hid_t __wrap_##name parameters;               \
    hid_t __wrap_##name parameters                \
    {                                             \
        if (must_fail(#name))                     \
            return H5I_INVALID_HID;               \
        const hid_t id = __real_##name arguments; \
        seen.nleaked += counting && id >= 0;      \
        return id;                                \
    }

#define CLOSE(name)                \
    herr_t __real_##name(hid_t);   \
    herr_t __wrap_##name(hid_t);   \
    herr_t __wrap_##name(hid_t id) \
    {                              \
        seen.nleaked -= counting;  \
        return __real_##name(id);  \
    }

MAKE(H5Dget_type, (hid_t dataset), (dataset))
MAKE(H5Dget_space, (hid_t dataset), (dataset))
MAKE(H5Dget_create_plist, (hid_t dataset), (dataset))
MAKE(H5Screate_simple, (int rank, const hsize_t *dims, const hsize_t *max_dims),
     (rank, dims, max_dims))
CLOSE(H5Pclose)
CLOSE(H5Sclose)
CLOSE(H5Tclose)

CALL(herr_t, H5Dread, -1,
     (hid_t dataset, hid_t type, hid_t memory, hid_t space, hid_t dxpl,
      void *dst),
     (dataset, type, memory, space, dxpl, dst))
CALL(herr_t, H5Dwrite, -1,
     (hid_t dataset, hid_t type, hid_t memory, hid_t space, hid_t dxpl,
      const void *src),
     (dataset, type, memory, space, dxpl, src))
CALL(herr_t, H5Dwrite_chunk, -1,
     (hid_t dataset, hid_t dxpl, uint32_t filters, const hsize_t *place,
      size_t nbytes, const void *src),
     (dataset, dxpl, filters, place, nbytes, src))
CALL(herr_t, H5Dread_chunk, -1,
     (hid_t dataset, hid_t dxpl, const hsize_t *place, uint32_t *filters_ret,
      void *dst),
     (dataset, dxpl, place, filters_ret, dst))
CALL(herr_t, H5Dget_chunk_storage_size, -1,
     (hid_t dataset, const hsize_t *place, hsize_t *nbytes_ret),
     (dataset, place, nbytes_ret))
CALL(int, H5Sget_simple_extent_ndims, -1, (hid_t space), (space))
CALL(int, H5Sget_simple_extent_dims, -1,
     (hid_t space, hsize_t *dims_ret, hsize_t *max_dims_ret),
     (space, dims_ret, max_dims_ret))
CALL(herr_t, H5Sselect_hyperslab, -1,
     (hid_t space, H5S_seloper_t op, const hsize_t *start,
      const hsize_t *stride, const hsize_t *count, const hsize_t *block),
     (space, op, start, stride, count, block))
CALL(H5D_layout_t, H5Pget_layout, H5D_LAYOUT_ERROR, (hid_t dcpl), (dcpl))
CALL(int, H5Pget_chunk, -1, (hid_t dcpl, int rank, hsize_t *chunk_ret),
     (dcpl, rank, chunk_ret))
CALL(herr_t, H5Pget_chunk_opts, -1, (hid_t dcpl, unsigned *options_ret),
     (dcpl, options_ret))
CALL(int, H5Pget_nfilters, -1, (hid_t dcpl), (dcpl))
CALL(H5Z_filter_t, H5Pget_filter2, H5Z_FILTER_ERROR,
     (hid_t dcpl, unsigned at, unsigned *flags_ret, size_t *nwords,
      unsigned *words_ret, size_t name_nbytes, char *name_ret,
      unsigned *config_ret),
     (dcpl, at, flags_ret, nwords, words_ret, name_nbytes, name_ret,
      config_ret))
CALL(herr_t, H5Pfill_value_defined, -1,
     (hid_t dcpl, H5D_fill_value_t *status_ret), (dcpl, status_ret))
CALL(herr_t, H5Pget_fill_time, -1, (hid_t dcpl, H5D_fill_time_t *time_ret),
     (dcpl, time_ret))
CALL(herr_t, H5Pget_fill_value, -1, (hid_t dcpl, hid_t type, void *value_ret),
     (dcpl, type, value_ret))
CALL(size_t, H5Tget_size, 0, (hid_t type), (type))

void
h5_calls_start(uint64_t fail_at)
{
    seen = (struct h5_calls){.ncalls = 0};
    fail_call = fail_at;
    counting = true;
}

struct h5_calls
h5_calls_stop(void)
{
    counting = false;
    return seen;
}
