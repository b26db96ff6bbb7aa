/* In place of host.c in programs that have the filter linked into them, with
 * HDF5: its functions are those of the program. For fully static programs,
 * where no plugin can be loaded. */
#include "filter/plugin/host.h"

#include <stdlib.h>
#include <string.h>

typedef void
function(void);

#define FUNCTION(name)          \
    {                           \
#name, (function *)name \
    }
#define VARIABLE(name) \
    {                  \
#name, &name   \
    }

static const struct {
    const char *name;
    function *function;
} functions[] = {
    FUNCTION(H5Dget_create_plist),
    FUNCTION(H5Dget_type),
    FUNCTION(H5Eauto_is_v2),
    FUNCTION(H5Eget_auto2),
    FUNCTION(H5Eget_num),
    FUNCTION(H5Epush2),
    FUNCTION(H5Fget_obj_ids),
#if H5_VERSION_GE(1, 12, 0)
    FUNCTION(H5Iiterate),
#endif
    FUNCTION(H5Pclose),
    FUNCTION(H5Pfill_value_defined),
    FUNCTION(H5Pget_chunk),
    FUNCTION(H5Pget_fill_value),
    FUNCTION(H5Pget_filter2),
    FUNCTION(H5Pget_filter_by_id2),
    FUNCTION(H5Pget_layout),
    FUNCTION(H5Pget_nfilters),
    FUNCTION(H5Pmodify_filter),
    FUNCTION(H5Premove_filter),
    FUNCTION(H5Pset_filter),
    FUNCTION(H5Sget_simple_extent_dims),
    FUNCTION(H5Sget_simple_extent_ndims),
    FUNCTION(H5Tclose),
    FUNCTION(H5Tdetect_class),
    FUNCTION(H5Tequal),
    FUNCTION(H5Tget_class),
    FUNCTION(H5Tget_ebias),
    FUNCTION(H5Tget_fields),
    FUNCTION(H5Tget_member_index),
    FUNCTION(H5Tget_member_offset),
    FUNCTION(H5Tget_member_type),
    FUNCTION(H5Tget_nmembers),
    FUNCTION(H5Tget_norm),
    FUNCTION(H5Tget_order),
    FUNCTION(H5Tget_precision),
    FUNCTION(H5Tget_size),
    FUNCTION(H5Tget_super),
    FUNCTION(H5Tis_variable_str),
#if H5_VERSION_GE(1, 12, 0)
    FUNCTION(H5VLget_connector_name),
    FUNCTION(H5VLquery_optional),
#endif
};

static const struct {
    const char *name;
    const hid_t *id;
} variables[] = {
    VARIABLE(H5E_CANTFILTER_g), VARIABLE(H5E_ERR_CLS_g),
    VARIABLE(H5E_PLINE_g),      VARIABLE(H5E_SETLOCAL_g),
    VARIABLE(H5T_IEEE_F32BE_g), VARIABLE(H5T_IEEE_F32LE_g),
    VARIABLE(H5T_IEEE_F64BE_g), VARIABLE(H5T_IEEE_F64LE_g),
    VARIABLE(H5T_STD_I8BE_g),   VARIABLE(H5T_STD_I8LE_g),
    VARIABLE(H5T_STD_I16BE_g),  VARIABLE(H5T_STD_I16LE_g),
    VARIABLE(H5T_STD_I32BE_g),  VARIABLE(H5T_STD_I32LE_g),
    VARIABLE(H5T_STD_I64BE_g),  VARIABLE(H5T_STD_I64LE_g),
    VARIABLE(H5T_STD_U8BE_g),   VARIABLE(H5T_STD_U8LE_g),
    VARIABLE(H5T_STD_U16BE_g),  VARIABLE(H5T_STD_U16LE_g),
    VARIABLE(H5T_STD_U32BE_g),  VARIABLE(H5T_STD_U32LE_g),
    VARIABLE(H5T_STD_U64BE_g),  VARIABLE(H5T_STD_U64LE_g),
};

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

bool
terp_host_find(const struct terp_host *host, const char *name,
               void *function_ret)
{
    function *found = NULL;

    (void)host;
    for (size_t i = 0;
         found == NULL && i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0)
            found = functions[i].function;
    memcpy(function_ret, &found, sizeof found);
    return found != NULL;
}

bool
terp_host_exports(const struct terp_host *host, const char *name)
{
    function *found;

    return terp_host_find(host, name, &found);
}

bool
terp_host_find_id(const struct terp_host *host, const char *variable,
                  hid_t *id_ret)
{
    (void)host;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (strcmp(variables[i].name, variable) == 0) {
            *id_ret = *variables[i].id;
            return *id_ret > 0;
        }
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

int
H5Z_terp_register(void)
{
    return H5Zregister(terp_filter_class()) < 0 ? -1 : 0;
}
