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

/* HDF5 pushes nothing on a paused stack, but still takes a whole one in its
 * place. Returns an empty stack where HDF5's is paused, else a negative number.
 */
static hid_t
make_stack(const struct terp_host *host)
{
    herr_t (*is_paused)(hid_t, hbool_t *);
    hid_t (*create)(void);
    hbool_t paused = false;

    return terp_host_find(host, "H5Eis_paused", &is_paused) &&
                   terp_host_find(host, "H5Ecreate_stack", &create) &&
                   is_paused(H5E_DEFAULT, &paused) >= 0 && paused
               ? create()
               : H5I_INVALID_HID;
}

/* Replaces HDF5's error stack by `stack`, and closes `stack`. */
static void
put_stack(const struct terp_host *host, hid_t stack)
{
    herr_t (*set)(hid_t), (*close_stack)(hid_t);

    if ((!terp_host_find(host, "H5Eset_current_stack", &set) ||
         set(stack) < 0) &&
        terp_host_find(host, "H5Eclose_stack", &close_stack))
        close_stack(stack);
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
    const bool is_printed = prints_errors(host);
    const hid_t made = make_stack(host);
    const ssize_t nbefore = made >= 0 ? 0 : count(H5E_DEFAULT);
    push(made >= 0 ? made : H5E_DEFAULT, file, function, line, class_id,
         major_id, minor_id, "H5Z-TERP: %s", text);
    if (made >= 0)
        put_stack(host, made);
    return is_printed && count(H5E_DEFAULT) > nbefore;
}
