/* HDF5's error stack. */
#include "filter/plugin/host.h"

/* Whether HDF5 prints its error stack when one of its functions fails. */
static bool
prints_errors(const struct terp_host *host)
{
    herr_t (*is_v2)(hid_t, unsigned *);
    herr_t (*get_auto)(hid_t, H5E_auto2_t *, void **);
    unsigned version;
    H5E_auto2_t print;
    void *data;

    if (!terp_host_find(host, "H5Eauto_is_v2", &is_v2) ||
        !terp_host_find(host, "H5Eget_auto2", &get_auto) ||
        is_v2(H5E_DEFAULT, &version) < 0)
        return false;
    /* H5Eget_auto2 fails for a callback of HDF5 1.6's kind, version 0. */
    return version == 0 ||
           (get_auto(H5E_DEFAULT, &print, &data) >= 0 && print != NULL);
}

bool
terp_host_push(const struct terp_host *host, const char *file,
               const char *function, unsigned line, const char *minor,
               const char *text)
{
    herr_t (*push)(hid_t, const char *, const char *, unsigned, hid_t, hid_t,
                   hid_t, const char *, ...);
    ssize_t (*count)(hid_t);
    hid_t class_id, major_id, minor_id;

    if (!terp_host_find(host, "H5Epush2", &push) ||
        !terp_host_find(host, "H5Eget_num", &count) ||
        !terp_host_find_id(host, "H5E_ERR_CLS_g", &class_id) ||
        !terp_host_find_id(host, "H5E_PLINE_g", &major_id) ||
        !terp_host_find_id(host, minor, &minor_id))
        return false;
    /* Before the push, because old versions clear the stack here. */
    bool is_printed = prints_errors(host);
    ssize_t nbefore = count(H5E_DEFAULT);
    push(H5E_DEFAULT, file, function, line, class_id, major_id, minor_id,
         "H5Z-TERP: %s", text);
    return is_printed && count(H5E_DEFAULT) > nbefore;
}
