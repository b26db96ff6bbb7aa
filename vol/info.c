/* Reads and writes "under_vol=VALUE;under_info={TEXT}", the syntax of HDF5's
 * own pass-through connector, so that HDF5_VOL_CONNECTOR can name a connector
 * below this one. */
#define _POSIX_C_SOURCE 200809L /* strndup */
#include "vol/info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNDER_INFO ";under_info={"

static struct vol_info *
make(const struct vol_library *library, hid_t vol)
{
    struct vol_info *info = calloc(1, sizeof *info);

    if (info != NULL) {
        info->library = library;
        info->vol = vol;
    }
    return info;
}

void *
vol_info_copy(const void *src)
{
    const struct vol_info *info = src;
    struct vol_info *copy = make(info->library, info->vol);

    if (copy == NULL)
        return NULL;
    info->library->H5Iinc_ref(info->vol);
    if (info->under != NULL && info->library->H5VLcopy_connector_info(
                                   info->vol, &copy->under, info->under) < 0) {
        vol_info_free(copy);
        return NULL;
    }
    return copy;
}

herr_t
vol_info_cmp(int *result, const void *a, const void *b)
{
    const struct vol_info *x = a, *y = b;

    if (x == NULL || y == NULL) {
        *result = (x != NULL) - (y != NULL);
        return 0;
    }
    if (x->library->H5VLcmp_connector_cls(result, x->vol, y->vol) < 0)
        return -1;
    return *result != 0 ? 0
                        : x->library->H5VLcmp_connector_info(
                              result, x->vol, x->under, y->under);
}

herr_t
vol_info_free(void *at)
{
    struct vol_info *info = at;
    const struct vol_library *library = info->library;
    herr_t result = 0;

    /* HDF5 may call this while it handles an error: keep the error stack. */
    hid_t errors = library->H5Eget_current_stack();
    if (info->under != NULL)
        result = library->H5VLfree_connector_info(info->vol, info->under);
    if (library->H5Idec_ref(info->vol) < 0)
        result = -1;
    library->H5Eset_current_stack(errors);
    free(info);
    return result;
}

herr_t
vol_info_to_str(const void *at, char **text_ret)
{
    const struct vol_info *info = at;
    const struct vol_library *library = info->library;
    char *under = NULL;
    int value;

    *text_ret = NULL;
    if (library->H5VLget_value(info->vol, &value) < 0 ||
        library->H5VLconnector_info_to_str(info->under, info->vol, &under) < 0)
        return -1;
    const char *inside = under == NULL ? "" : under;
    size_t nbytes = strlen(inside) + 64;
    /* HDF5 frees the text. */
    *text_ret = library->H5allocate_memory(nbytes, 0);
    if (*text_ret != NULL)
        snprintf(*text_ret, nbytes, "under_vol=%d" UNDER_INFO "%s}", value,
                 inside);
    if (under != NULL)
        library->H5free_memory(under);
    return *text_ret == NULL ? -1 : 0;
}

/* Copies the text between the braces, which the caller frees; NULL if there are
 * no braces, or nothing between them. */
static char *
read_under_text(const char *text, bool *valid_ret)
{
    const size_t before = sizeof UNDER_INFO - 1;
    size_t length = strlen(text);

    *valid_ret = length == 0 || (length > before && text[length - 1] == '}' &&
                                 strncmp(text, UNDER_INFO, before) == 0);
    return !*valid_ret || length <= before + 1
               ? NULL
               : strndup(text + before, length - before - 1);
}

herr_t
vol_info_from_str(const char *text, void **info_ret)
{
    const void *caller = __builtin_return_address(0);
    const struct vol_library *library = vol_library_of(caller);
    struct vol_info *info = NULL;
    bool valid = false;
    char *under = NULL, *end;
    int after = 0;

    *info_ret = NULL;
    if (library == NULL)
        return -1;
    if (text == NULL || *text == '\0')
        return 0;
    long value = 0;
    if (sscanf(text, "under_vol=%n", &after) == 0 && after > 0) {
        value = strtol(text + after, &end, 10);
        valid = end != text + after && value >= 0 && value <= UINT16_MAX;
    }
    if (valid)
        under = read_under_text(end, &valid);
    if (!valid) {
        vol_library_push(caller, __func__, __LINE__,
                         "the connector's text is not "
                         "under_vol=VALUE;under_info={...}");
        return -1;
    }
    hid_t vol =
        library->H5VLregister_connector_by_value((int)value, H5P_DEFAULT);
    if (vol >= 0)
        info = make(library, vol);
    if (vol >= 0 && info == NULL)
        library->H5Idec_ref(vol);
    if (info != NULL && under != NULL &&
        library->H5VLconnector_str_to_info(under, vol, &info->under) < 0) {
        vol_info_free(info);
        info = NULL;
    }
    free(under);
    *info_ret = info;
    return info == NULL ? -1 : 0;
}
