/* Reads and writes the attributes of terp repack --salvage. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "tools/common/lost.h"

#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "tools/common/copies.h"
#include "tools/common/h5file.h"

static const char VALUES[] = "terp_lost";
static const char REASONS[] = "terp_lost_reason";
static const char FILL[] = "terp_lost_value";

bool
tool_lost_add(struct tool_lost *lost, const char *values, const char *reason)
{
    if (lost->n == lost->cap) {
        const uint64_t cap = lost->cap == 0 ? 16 : 2 * lost->cap;
        char **more =
            (char **)realloc((void *)lost->values, cap * sizeof *lost->values);
        if (more != NULL)
            lost->values = more;
        char **more_reasons = (char **)realloc((void *)lost->reasons,
                                               cap * sizeof *lost->reasons);
        if (more_reasons != NULL)
            lost->reasons = more_reasons;
        if (more == NULL || more_reasons == NULL)
            return false;
        lost->cap = cap;
    }
    char *one = strdup(values), *other = strdup(reason);
    if (one == NULL || other == NULL) {
        free(one);
        free(other);
        return false;
    }
    lost->values[lost->n] = one;
    lost->reasons[lost->n++] = other;
    return true;
}

/* Bytes of the longest text, including its end. */
static size_t
width_of(uint64_t n, char *const *texts)
{
    size_t width = 1;

    for (uint64_t i = 0; i < n; i++)
        if (strlen(texts[i]) >= width)
            width = strlen(texts[i]) + 1;
    return width;
}

uint64_t
tool_lost_nbytes(const struct tool_lost *lost)
{
    const size_t values = width_of(lost->n, lost->values);
    const size_t reasons = width_of(lost->n, lost->reasons);

    return lost->n * (values > reasons ? values : reasons);
}

/* Reads an attribute with one dimension of texts, each in `width` bytes with
 * its end. NULL without the attribute. */
static char *
read_texts(hid_t dataset, const char *name, uint64_t *n_ret, size_t *width_ret)
{
    hid_t attribute = -1, type = -1, space = -1, text = -1;
    char *texts = NULL;

    if (H5Aexists(dataset, name) <= 0)
        return NULL;
    attribute = H5Aopen(dataset, name, H5P_DEFAULT);
    type = attribute >= 0 ? H5Aget_type(attribute) : -1;
    space = attribute >= 0 ? H5Aget_space(attribute) : -1;
    if (type >= 0 && space >= 0 && H5Tget_class(type) == H5T_STRING &&
        H5Tis_variable_str(type) == 0 &&
        H5Sget_simple_extent_ndims(space) == 1) {
        *n_ret = (uint64_t)H5Sget_simple_extent_npoints(space);
        *width_ret = H5Tget_size(type) + 1;
        text = H5Tcopy(H5T_C_S1);
        H5Tset_size(text, *width_ret);
        texts = calloc(*n_ret + 1, *width_ret);
    }
    if (texts != NULL && H5Aread(attribute, text, texts) < 0) {
        free(texts);
        texts = NULL;
    }
    tool_close(text);
    tool_close(space);
    tool_close(type);
    tool_close(attribute);
    return texts;
}

bool
tool_lost_read(hid_t dataset, struct tool_lost *lost_ret)
{
    uint64_t nvalues, nreasons;
    size_t values_width, reasons_width;

    *lost_ret = (struct tool_lost){0};
    char *values = read_texts(dataset, VALUES, &nvalues, &values_width);
    char *reasons = read_texts(dataset, REASONS, &nreasons, &reasons_width);
    bool ok = values != NULL && reasons != NULL && nvalues == nreasons;
    for (uint64_t i = 0; ok && i < nvalues; i++)
        ok = tool_lost_add(lost_ret, values + i * values_width,
                           reasons + i * reasons_width);
    free(values);
    free(reasons);
    return ok && nvalues > 0;
}

static bool
write_one(hid_t dataset, const char *name, hid_t type, hid_t space,
          const void *value)
{
    if (H5Aexists(dataset, name) > 0 && H5Adelete(dataset, name) < 0)
        return false;
    if (value == NULL)
        return true;
    hid_t attribute =
        H5Acreate2(dataset, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    const bool ok = attribute >= 0 && H5Awrite(attribute, type, value) >= 0;
    tool_close(attribute);
    return ok;
}

static bool
write_texts(hid_t dataset, const char *name, uint64_t n, char *const *texts)
{
    const size_t width = width_of(n, texts);
    const hsize_t dims[] = {n};
    char *all = calloc(n, width);
    hid_t type = H5Tcopy(H5T_C_S1);
    hid_t space = H5Screate_simple(1, dims, NULL);

    for (uint64_t i = 0; all != NULL && i < n; i++)
        memcpy(all + i * width, texts[i], strlen(texts[i]));
    const bool ok = all != NULL && type >= 0 && space >= 0 &&
                    H5Tset_size(type, width) >= 0 &&
                    write_one(dataset, name, type, space, all);
    tool_close(space);
    tool_close(type);
    free(all);
    return ok;
}

bool
tool_lost_write(hid_t dataset, const struct tool_lost *lost, hid_t type,
                const void *fill)
{
    hid_t scalar = H5Screate(H5S_SCALAR);
    hid_t own = tool_type_copy(type); /* `type` may belong to another file */
    const bool ok = scalar >= 0 && own >= 0 &&
                    write_texts(dataset, VALUES, lost->n, lost->values) &&
                    write_texts(dataset, REASONS, lost->n, lost->reasons) &&
                    write_one(dataset, FILL, own, scalar, fill);

    tool_close(own);
    tool_close(scalar);
    return ok;
}

void
tool_lost_free(struct tool_lost *lost)
{
    for (uint64_t i = 0; i < lost->n; i++) {
        free(lost->values[i]);
        free(lost->reasons[i]);
    }
    free((void *)lost->values);
    free((void *)lost->reasons);
    *lost = (struct tool_lost){0};
}
