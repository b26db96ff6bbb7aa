/* The HDF5 library that a program is linked with, in place of host.c: for
 * terp::h5, the tool, and a filter that is linked into a fully static program,
 * which cannot load a plugin. */
#include "filter/plugin/host.h"

#include <string.h>

typedef void
function(void);

/* All functions that filter/ calls by name. */
#define FUNCTIONS(X)              \
    X(H5Dget_create_plist)        \
    X(H5Dget_type)                \
    X(H5Eauto_is_v2)              \
    X(H5Eget_auto2)               \
    X(H5Eget_num)                 \
    X(H5Epush2)                   \
    X(H5Fget_obj_ids)             \
    X(H5Pclose)                   \
    X(H5Pfill_value_defined)      \
    X(H5Pget_chunk)               \
    X(H5Pget_chunk_opts)          \
    X(H5Pget_fill_time)           \
    X(H5Pget_fill_value)          \
    X(H5Pget_filter2)             \
    X(H5Pget_filter_by_id2)       \
    X(H5Pget_layout)              \
    X(H5Pget_nfilters)            \
    X(H5Pmodify_filter)           \
    X(H5Premove_filter)           \
    X(H5Pset_filter)              \
    X(H5Sget_simple_extent_dims)  \
    X(H5Sget_simple_extent_ndims) \
    X(H5Tclose)                   \
    X(H5Tdetect_class)            \
    X(H5Tequal)                   \
    X(H5Tget_array_dims2)         \
    X(H5Tget_array_ndims)         \
    X(H5Tget_class)               \
    X(H5Tget_ebias)               \
    X(H5Tget_fields)              \
    X(H5Tget_member_index)        \
    X(H5Tget_member_name)         \
    X(H5Tget_member_offset)       \
    X(H5Tget_member_type)         \
    X(H5Tget_nmembers)            \
    X(H5Tget_norm)                \
    X(H5Tget_order)               \
    X(H5Tget_precision)           \
    X(H5Tget_size)                \
    X(H5Tget_super)               \
    X(H5Tis_variable_str)         \
    X(H5free_memory)

#if H5_VERSION_GE(1, 12, 0)
#define LATER_FUNCTIONS(X)    \
    X(H5Iiterate)             \
    X(H5VLget_connector_name) \
    X(H5VLquery_optional)
#else
#define LATER_FUNCTIONS(X)
#endif

/* HDF5 pauses the error stack since 1.14.5 (errors.c). */
#if H5_VERSION_GE(1, 14, 5)
#define STACK_FUNCTIONS(X) \
    X(H5Eclose_stack)      \
    X(H5Ecreate_stack)     \
    X(H5Eis_paused)        \
    X(H5Eset_current_stack)
#else
#define STACK_FUNCTIONS(X)
#endif

#define VARIABLES(X)    \
    X(H5E_CANTFILTER_g) \
    X(H5E_ERR_CLS_g)    \
    X(H5E_PLINE_g)      \
    X(H5E_SETLOCAL_g)   \
    X(H5T_IEEE_F32BE_g) \
    X(H5T_IEEE_F32LE_g) \
    X(H5T_IEEE_F64BE_g) \
    X(H5T_IEEE_F64LE_g) \
    X(H5T_STD_I8BE_g)   \
    X(H5T_STD_I8LE_g)   \
    X(H5T_STD_I16BE_g)  \
    X(H5T_STD_I16LE_g)  \
    X(H5T_STD_I32BE_g)  \
    X(H5T_STD_I32LE_g)  \
    X(H5T_STD_I64BE_g)  \
    X(H5T_STD_I64LE_g)  \
    X(H5T_STD_U8BE_g)   \
    X(H5T_STD_U8LE_g)   \
    X(H5T_STD_U16BE_g)  \
    X(H5T_STD_U16LE_g)  \
    X(H5T_STD_U32BE_g)  \
    X(H5T_STD_U32LE_g)  \
    X(H5T_STD_U64BE_g)  \
    X(H5T_STD_U64LE_g)

void
terp_host_open(const void *caller, struct terp_host *host_ret)
{
    (void)caller;
    *host_ret = (struct terp_host){NULL, true, "this program"};
}

void
terp_host_close(struct terp_host *host)
{
    (void)host;
}

/* Compares names in code, because a static table cannot hold the address of a
 * function in a Windows DLL. */
static function *
find_function(const char *name)
{
#define FIND(known)                \
    if (strcmp(name, #known) == 0) \
        return (function *)known;
    FUNCTIONS(FIND)
    LATER_FUNCTIONS(FIND)
    STACK_FUNCTIONS(FIND)
#undef FIND
    return NULL;
}

bool
terp_host_find(const struct terp_host *host, const char *name,
               void *function_ret)
{
    function *const found = find_function(name);

    (void)host;
    memcpy(function_ret, &found, sizeof found);
    return found != NULL;
}

bool
terp_host_exports(const struct terp_host *host, const char *name)
{
    (void)host;
    return find_function(name) != NULL;
}

bool
terp_host_find_id(const struct terp_host *host, const char *variable,
                  hid_t *id_ret)
{
    (void)host;
#define FIND(known)                      \
    if (strcmp(variable, #known) == 0) { \
        *id_ret = known;                 \
        return *id_ret > 0;              \
    }
    VARIABLES(FIND)
#undef FIND
    return false;
}

void *
terp_host_allocate(const struct terp_host *host, size_t nbytes)
{
    (void)host;
    return H5allocate_memory(nbytes, 0);
}

void
terp_host_release(const struct terp_host *host, void *memory)
{
    (void)host;
    H5free_memory(memory);
}
