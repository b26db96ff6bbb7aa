/* One libhdf5 of the process, and its functions that the connector calls.
 *
 * A process may hold several libhdf5, of different versions, which all load the
 * same connector. So each object of the connector points to its library. */
#pragma once

#include <stdbool.h>

#include "vol/abi.h"

/* The functions that pass a call on, as a list: VOL_PASS_FUNCTIONS(X) is
 * X(result, name, parameters) for each. Example: with VOL_DECLARE as X, the
 * first line declares the member hid_t
 * (*H5VLget_connector_id_by_value)(int). */
#define VOL_PASS_FUNCTIONS(X)                                                  \
    X(hid_t, H5VLget_connector_id_by_value, (int))                             \
    X(hid_t, H5VLregister_connector_by_value, (int, hid_t))                    \
    X(herr_t, H5VLget_value, (hid_t, int *))                                   \
    X(herr_t, H5VLget_cap_flags, (hid_t, uint64_t *))                          \
    X(herr_t, H5VLcopy_connector_info, (hid_t, void **, void *))               \
    X(herr_t, H5VLcmp_connector_cls, (int *, hid_t, hid_t))                    \
    X(herr_t, H5VLcmp_connector_info,                                          \
      (int *, hid_t, const void *, const void *))                              \
    X(herr_t, H5VLfree_connector_info, (hid_t, void *))                        \
    X(herr_t, H5VLconnector_info_to_str, (const void *, hid_t, char **))       \
    X(herr_t, H5VLconnector_str_to_info, (const char *, hid_t, void **))       \
    X(void *, H5VLget_object, (void *, hid_t))                                 \
    X(herr_t, H5VLget_wrap_ctx, (void *, hid_t, void **))                      \
    X(void *, H5VLwrap_object, (void *, H5I_type_t, hid_t, void *))            \
    X(void *, H5VLunwrap_object, (void *, hid_t))                              \
    X(herr_t, H5VLfree_wrap_ctx, (void *, hid_t))                              \
    X(hid_t, H5VLwrap_register, (void *, H5I_type_t))                          \
    X(void *, H5VLattr_create,                                                 \
      (void *, const struct vol_loc *, hid_t, const char *, hid_t, hid_t,      \
       hid_t, hid_t, hid_t, void **))                                          \
    X(void *, H5VLattr_open,                                                   \
      (void *, const struct vol_loc *, hid_t, const char *, hid_t, hid_t,      \
       void **))                                                               \
    X(herr_t, H5VLattr_read, (void *, hid_t, hid_t, void *, hid_t, void **))   \
    X(herr_t, H5VLattr_write,                                                  \
      (void *, hid_t, hid_t, const void *, hid_t, void **))                    \
    X(herr_t, H5VLattr_get, (void *, hid_t, void *, hid_t, void **))           \
    X(herr_t, H5VLattr_specific,                                               \
      (void *, const struct vol_loc *, hid_t, void *, hid_t, void **))         \
    X(herr_t, H5VLattr_optional, (void *, hid_t, void *, hid_t, void **))      \
    X(herr_t, H5VLattr_close, (void *, hid_t, hid_t, void **))                 \
    X(void *, H5VLdataset_create,                                              \
      (void *, const struct vol_loc *, hid_t, const char *, hid_t, hid_t,      \
       hid_t, hid_t, hid_t, hid_t, void **))                                   \
    X(void *, H5VLdataset_open,                                                \
      (void *, const struct vol_loc *, hid_t, const char *, hid_t, hid_t,      \
       void **))                                                               \
    X(herr_t, H5VLdataset_read,                                                \
      (size_t, void **, hid_t, hid_t *, hid_t *, hid_t *, hid_t, void **,      \
       void **))                                                               \
    X(herr_t, H5VLdataset_write,                                               \
      (size_t, void **, hid_t, hid_t *, hid_t *, hid_t *, hid_t,               \
       const void **, void **))                                                \
    X(herr_t, H5VLdataset_get, (void *, hid_t, void *, hid_t, void **))        \
    X(herr_t, H5VLdataset_specific, (void *, hid_t, void *, hid_t, void **))   \
    X(herr_t, H5VLdataset_optional, (void *, hid_t, void *, hid_t, void **))   \
    X(herr_t, H5VLdataset_close, (void *, hid_t, hid_t, void **))              \
    X(void *, H5VLdatatype_commit,                                             \
      (void *, const struct vol_loc *, hid_t, const char *, hid_t, hid_t,      \
       hid_t, hid_t, hid_t, void **))                                          \
    X(void *, H5VLdatatype_open,                                               \
      (void *, const struct vol_loc *, hid_t, const char *, hid_t, hid_t,      \
       void **))                                                               \
    X(herr_t, H5VLdatatype_get, (void *, hid_t, void *, hid_t, void **))       \
    X(herr_t, H5VLdatatype_specific, (void *, hid_t, void *, hid_t, void **))  \
    X(herr_t, H5VLdatatype_optional, (void *, hid_t, void *, hid_t, void **))  \
    X(herr_t, H5VLdatatype_close, (void *, hid_t, hid_t, void **))             \
    X(void *, H5VLfile_create,                                                 \
      (const char *, unsigned, hid_t, hid_t, hid_t, void **))                  \
    X(void *, H5VLfile_open, (const char *, unsigned, hid_t, hid_t, void **))  \
    X(herr_t, H5VLfile_get, (void *, hid_t, void *, hid_t, void **))           \
    X(herr_t, H5VLfile_specific, (void *, hid_t, void *, hid_t, void **))      \
    X(herr_t, H5VLfile_optional, (void *, hid_t, void *, hid_t, void **))      \
    X(herr_t, H5VLfile_close, (void *, hid_t, hid_t, void **))                 \
    X(void *, H5VLgroup_create,                                                \
      (void *, const struct vol_loc *, hid_t, const char *, hid_t, hid_t,      \
       hid_t, hid_t, void **))                                                 \
    X(void *, H5VLgroup_open,                                                  \
      (void *, const struct vol_loc *, hid_t, const char *, hid_t, hid_t,      \
       void **))                                                               \
    X(herr_t, H5VLgroup_get, (void *, hid_t, void *, hid_t, void **))          \
    X(herr_t, H5VLgroup_specific, (void *, hid_t, void *, hid_t, void **))     \
    X(herr_t, H5VLgroup_optional, (void *, hid_t, void *, hid_t, void **))     \
    X(herr_t, H5VLgroup_close, (void *, hid_t, hid_t, void **))                \
    X(herr_t, H5VLlink_create,                                                 \
      (void *, void *, const struct vol_loc *, hid_t, hid_t, hid_t, hid_t,     \
       void **))                                                               \
    X(herr_t, H5VLlink_copy,                                                   \
      (void *, const struct vol_loc *, void *, const struct vol_loc *, hid_t,  \
       hid_t, hid_t, hid_t, void **))                                          \
    X(herr_t, H5VLlink_move,                                                   \
      (void *, const struct vol_loc *, void *, const struct vol_loc *, hid_t,  \
       hid_t, hid_t, hid_t, void **))                                          \
    X(herr_t, H5VLlink_get,                                                    \
      (void *, const struct vol_loc *, hid_t, void *, hid_t, void **))         \
    X(herr_t, H5VLlink_specific,                                               \
      (void *, const struct vol_loc *, hid_t, void *, hid_t, void **))         \
    X(herr_t, H5VLlink_optional,                                               \
      (void *, const struct vol_loc *, hid_t, void *, hid_t, void **))         \
    X(void *, H5VLobject_open,                                                 \
      (void *, const struct vol_loc *, hid_t, H5I_type_t *, hid_t, void **))   \
    X(herr_t, H5VLobject_copy,                                                 \
      (void *, const struct vol_loc *, const char *, void *,                   \
       const struct vol_loc *, const char *, hid_t, hid_t, hid_t, hid_t,       \
       void **))                                                               \
    X(herr_t, H5VLobject_get,                                                  \
      (void *, const struct vol_loc *, hid_t, void *, hid_t, void **))         \
    X(herr_t, H5VLobject_specific,                                             \
      (void *, const struct vol_loc *, hid_t, void *, hid_t, void **))         \
    X(herr_t, H5VLobject_optional,                                             \
      (void *, const struct vol_loc *, hid_t, void *, hid_t, void **))         \
    X(herr_t, H5VLintrospect_get_conn_cls,                                     \
      (void *, hid_t, int, const struct vol_class **))                         \
    X(herr_t, H5VLintrospect_get_cap_flags, (const void *, hid_t, uint64_t *)) \
    X(herr_t, H5VLintrospect_opt_query, (void *, hid_t, int, int, uint64_t *)) \
    X(herr_t, H5VLrequest_wait, (void *, hid_t, uint64_t, int *))              \
    X(herr_t, H5VLrequest_notify, (void *, hid_t, void (*)(void), void *))     \
    X(herr_t, H5VLrequest_cancel, (void *, hid_t, int *))                      \
    X(herr_t, H5VLrequest_specific, (void *, hid_t, void *))                   \
    X(herr_t, H5VLrequest_optional, (void *, hid_t, void *))                   \
    X(herr_t, H5VLrequest_free, (void *, hid_t))                               \
    X(herr_t, H5VLblob_put,                                                    \
      (void *, hid_t, const void *, size_t, void *, void *))                   \
    X(herr_t, H5VLblob_get,                                                    \
      (void *, hid_t, const void *, void *, size_t, void *))                   \
    X(herr_t, H5VLblob_specific, (void *, hid_t, void *, void *))              \
    X(herr_t, H5VLblob_optional, (void *, hid_t, void *, void *))              \
    X(herr_t, H5VLtoken_cmp,                                                   \
      (void *, hid_t, const void *, const void *, int *))                      \
    X(herr_t, H5VLtoken_to_str,                                                \
      (void *, H5I_type_t, hid_t, const void *, char **))                      \
    X(herr_t, H5VLtoken_from_str,                                              \
      (void *, H5I_type_t, hid_t, const char *, void *))                       \
    X(herr_t, H5VLoptional, (void *, hid_t, void *, hid_t, void **))

/* The other functions: X(result, name, parameters), as above. */
#define VOL_PLAIN_FUNCTIONS(X)                                                 \
    X(herr_t, H5get_libversion, (unsigned *, unsigned *, unsigned *))          \
    X(void *, H5allocate_memory, (size_t, hbool_t))                            \
    X(herr_t, H5free_memory, (void *))                                         \
    X(herr_t, H5Eauto_is_v2, (hid_t, unsigned *))                              \
    X(herr_t, H5Eget_auto2, (hid_t, H5E_auto2_t *, void **))                   \
    X(herr_t, H5Eset_auto2, (hid_t, H5E_auto2_t, void *))                      \
    X(herr_t, H5Eclear2, (hid_t))                                              \
    X(hid_t, H5Eget_current_stack, (void))                                     \
    X(herr_t, H5Eset_current_stack, (hid_t))                                   \
    X(herr_t, H5Eappend_stack, (hid_t, hid_t, hbool_t))                        \
    X(htri_t, H5Iis_valid, (hid_t))                                            \
    X(int, H5Iinc_ref, (hid_t))                                                \
    X(int, H5Idec_ref, (hid_t))                                                \
    X(hid_t, H5Pcopy, (hid_t))                                                 \
    X(herr_t, H5Pclose, (hid_t))                                               \
    X(herr_t, H5Pset_vol, (hid_t, hid_t, const void *))                        \
    X(herr_t, H5Pget_vol_info, (hid_t, void **))                               \
    X(ssize_t, H5Pget_data_transform, (hid_t, char *, size_t))                 \
    X(herr_t, H5FDdriver_query, (hid_t, unsigned long *))                      \
    X(hid_t, H5Pget_driver, (hid_t))                                           \
    X(H5D_layout_t, H5Pget_layout, (hid_t))                                    \
    X(herr_t, H5Pset_layout, (hid_t, H5D_layout_t))                            \
    X(int, H5Pget_chunk, (hid_t, int, hsize_t *))                              \
    X(herr_t, H5Pset_chunk, (hid_t, int, const hsize_t *))                     \
    X(int, H5Pget_external_count, (hid_t))                                     \
    X(int, H5Pget_nfilters, (hid_t))                                           \
    X(H5Z_filter_t, H5Pget_filter2,                                            \
      (hid_t, unsigned, unsigned *, size_t *, unsigned *, size_t, char *,      \
       unsigned *))                                                            \
    X(herr_t, H5Pset_filter,                                                   \
      (hid_t, H5Z_filter_t, unsigned, size_t, const unsigned *))               \
    X(herr_t, H5Premove_filter, (hid_t, H5Z_filter_t))                         \
    X(htri_t, H5Zfilter_avail, (H5Z_filter_t))                                 \
    X(herr_t, H5Zregister, (const void *))                                     \
    X(herr_t, H5Pget_chunk_cache, (hid_t, size_t *, size_t *, double *))       \
    X(herr_t, H5Pset_chunk_cache, (hid_t, size_t, size_t, double))             \
    X(herr_t, H5Sclose, (hid_t))                                               \
    X(hid_t, H5Scopy, (hid_t))                                                 \
    X(hid_t, H5Screate_simple, (int, const hsize_t *, const hsize_t *))        \
    X(int, H5Sget_simple_extent_ndims, (hid_t))                                \
    X(hssize_t, H5Sget_simple_extent_npoints, (hid_t))                         \
    X(int, H5Sget_simple_extent_dims, (hid_t, hsize_t *, hsize_t *))           \
    X(H5S_class_t, H5Sget_simple_extent_type, (hid_t))                         \
    X(H5S_sel_type, H5Sget_select_type, (hid_t))                               \
    X(hssize_t, H5Sget_select_npoints, (hid_t))                                \
    X(htri_t, H5Sselect_valid, (hid_t))                                        \
    X(herr_t, H5Sselect_none, (hid_t))                                         \
    X(herr_t, H5Sget_select_bounds, (hid_t, hsize_t *, hsize_t *))             \
    X(herr_t, H5Sselect_hyperslab,                                             \
      (hid_t, H5S_seloper_t, const hsize_t *, const hsize_t *,                 \
       const hsize_t *, const hsize_t *))                                      \
    X(htri_t, H5Sis_regular_hyperslab, (hid_t))                                \
    X(herr_t, H5Sget_regular_hyperslab,                                        \
      (hid_t, hsize_t *, hsize_t *, hsize_t *, hsize_t *))                     \
    X(herr_t, H5Tclose, (hid_t))                                               \
    X(hid_t, H5Tcopy, (hid_t))                                                 \
    X(herr_t, H5Tconvert, (hid_t, hid_t, size_t, void *, void *, hid_t))       \
    X(herr_t, H5Dgather,                                                       \
      (hid_t, const void *, hid_t, size_t, void *, H5D_gather_func_t, void *)) \
    X(htri_t, H5Tequal, (hid_t, hid_t))                                        \
    X(size_t, H5Tget_size, (hid_t))

#define VOL_DECLARE(result, name, parameters) result(*name) parameters;

struct vol_library {
    const void *base; /* the address at which it is loaded */
    hid_t native;     /* HDF5's own connector, which writes files */
    unsigned major;   /* version */
    bool is_parallel; /* built for MPI */
    VOL_PASS_FUNCTIONS(VOL_DECLARE)
    VOL_PLAIN_FUNCTIONS(VOL_DECLARE)
    /* NULL: HDF5 2, which has the other two. */
    herr_t (*H5VLstart_lib_state)(void);
    herr_t (*H5VLfinish_lib_state)(void);
    herr_t (*H5VLopen_lib_context)(void **);
    herr_t (*H5VLclose_lib_context)(void *);
};

/* Finds the functions of the library that contains `caller`, the return address
 * of a callback. Called when a library registers the connector. Silent if a
 * function is missing, because the library may never use the connector. */
void
vol_library_open(const void *caller);

/* The library that contains `caller`. NULL if a function is missing; the reason
 * is then on HDF5's error stack. */
const struct vol_library *
vol_library_of(const void *caller);

/* Whether `caller` is in a libhdf5 that supports connectors like this one. If
 * not, *version_ret is its version; zeros if a program hides HDF5's functions,
 * so that the connector cannot call them. */
bool
vol_library_suits(const void *caller, unsigned version_ret[3]);

/* Registers terp's filter with a library that does not find it: the program, or
 * netCDF, may have removed the plugin's folder from HDF5's search path. Also
 * with a library that is built for MPI: only the filter in this shared object
 * gets streams that are encoded ahead (vol/ahead.h). */
void
vol_library_add_filter(const struct vol_library *library);

/* Puts the reason of a failing call on HDF5's error stack. */
void
vol_library_push(const void *caller, const char *function, unsigned line,
                 const char *text);

/* A state of HDF5 of its own, for calls of the connector below within a call of
 * the program. HDF5 keeps the properties of a transfer in its state once it has
 * read them. Without a state of its own, the connector's call would leave its
 * properties to the program's transfer: a collective transfer would continue
 * as an independent one, and a conversion without the program's callback. */
struct vol_state {
    const struct vol_library *library;
    void *context; /* HDF5 2 */
};

/* False, and nothing to close: HDF5 fails. */
bool
vol_state_open(const struct vol_library *library, struct vol_state *state_ret);
void
vol_state_close(const struct vol_state *state);

/* The program's callback for errors. */
struct vol_errors {
    H5E_auto2_t call;
    void *data;
    bool known;
};

/* Silences HDF5 before calls that may fail. After a failure either HDF5 repeats
 * the work and reports its own error, or the connector reports the error when
 * the program's call ends. */
void
vol_errors_silence(const struct vol_library *library,
                   struct vol_errors *errors_ret);

/* Ends the silence. Clears the error stack, unless errors `are_kept`. */
void
vol_errors_restore(const struct vol_library *library,
                   const struct vol_errors *errors, bool are_kept);
