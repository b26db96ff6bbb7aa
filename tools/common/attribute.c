/* Reads and writes attributes of text or numbers. */
#include "tools/common/attribute.h"

#include <stdlib.h>
#include <string.h>

#include "tools/common/h5file.h"

/* Attributes of names are shorter. The limit bounds the memory that a damaged
 * file can claim. */
#define MAX_TEXT_NBYTES ((size_t)1 << 20)

/* Appends a text of at most `nbytes` at `at`, after a blank unless it is the
 * first. `texts` has capacity for it, and is zeroed from `at` on. Returns the
 * new end. */
static size_t
append(char *texts, size_t at, const char *text, size_t nbytes)
{
    const char *end = memchr(text, '\0', nbytes);
    size_t length = end != NULL ? (size_t)(end - text) : nbytes;

    while (length > 0 && text[length - 1] == ' ')
        length--;
    if (at > 0 && length > 0)
        texts[at++] = ' ';
    memcpy(texts + at, text, length);
    return at + length;
}

static char *
join_fixed(const char *values, size_t n, size_t value_nbytes)
{
    char *texts = calloc(n * (value_nbytes + 1) + 1, 1);
    size_t at = 0;

    for (size_t i = 0; texts != NULL && i < n; i++)
        at = append(texts, at, values + i * value_nbytes, value_nbytes);
    return texts;
}

static char *
join_varying(char *const *values, size_t n)
{
    size_t nbytes = 1, at = 0;

    for (size_t i = 0; i < n; i++)
        nbytes += values[i] != NULL ? strlen(values[i]) + 1 : 0;
    char *texts = nbytes <= MAX_TEXT_NBYTES ? calloc(nbytes, 1) : NULL;
    for (size_t i = 0; texts != NULL && i < n; i++)
        if (values[i] != NULL)
            at = append(texts, at, values[i], strlen(values[i]));
    return texts;
}

/* Reads `n` texts of `type`, the type of the attribute. */
static char *
read_texts(hid_t attribute, hid_t type, hid_t space, size_t n)
{
    const bool varies = H5Tis_variable_str(type) > 0;
    const size_t value_nbytes = H5Tget_size(type);
    char *texts = NULL;

    if (value_nbytes == 0 || n > MAX_TEXT_NBYTES / value_nbytes)
        return NULL;
    void *values = calloc(n, value_nbytes);
    if (values != NULL && H5Aread(attribute, type, values) >= 0) {
        texts = varies ? join_varying(values, n)
                       : join_fixed(values, n, value_nbytes);
        if (varies)
            H5Dvlen_reclaim(type, space, H5P_DEFAULT, values);
    }
    free(values);
    return texts;
}

/* Opens an attribute, its type and its dataspace; close those that are not
 * negative. Returns the number of values, 0 without the attribute. */
static size_t
open_attribute(hid_t object, const char *name, hid_t *attribute_ret,
               hid_t *type_ret, hid_t *space_ret)
{
    *attribute_ret = *type_ret = *space_ret = -1;
    if (H5Aexists(object, name) <= 0)
        return 0;
    *attribute_ret = H5Aopen(object, name, H5P_DEFAULT);
    if (*attribute_ret < 0)
        return 0;
    *type_ret = H5Aget_type(*attribute_ret);
    *space_ret = H5Aget_space(*attribute_ret);
    if (*type_ret < 0 || *space_ret < 0 ||
        H5Sget_simple_extent_type(*space_ret) == H5S_NULL)
        return 0;
    const hssize_t n = H5Sget_simple_extent_npoints(*space_ret);
    return n > 0 ? (size_t)n : 0;
}

char *
tool_attribute_text(hid_t object, const char *name)
{
    hid_t attribute, type, space;
    const size_t n = open_attribute(object, name, &attribute, &type, &space);
    char *texts = n > 0 && H5Tget_class(type) == H5T_STRING
                      ? read_texts(attribute, type, space, n)
                      : NULL;

    tool_close(space);
    tool_close(type);
    tool_close(attribute);
    return texts;
}

int
tool_attribute_numbers(hid_t object, const char *name, int cap,
                       double *values_ret)
{
    hid_t attribute, type, space;
    const size_t n = open_attribute(object, name, &attribute, &type, &space);
    const H5T_class_t class = n > 0 ? H5Tget_class(type) : H5T_NO_CLASS;
    const bool ok = n > 0 && n <= (size_t)cap &&
                    (class == H5T_FLOAT || class == H5T_INTEGER) &&
                    H5Aread(attribute, H5T_NATIVE_DOUBLE, values_ret) >= 0;

    tool_close(space);
    tool_close(type);
    tool_close(attribute);
    return ok ? (int)n : 0;
}

static bool
write_one(hid_t object, const char *name, hid_t type, const void *value)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t attribute =
        H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    const bool ok = attribute >= 0 && H5Awrite(attribute, type, value) >= 0;

    tool_close(attribute);
    tool_close(space);
    return ok;
}

bool
tool_attribute_write_text(hid_t object, const char *name, const char *text)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    const bool ok = H5Tset_size(type, strlen(text) + 1) >= 0 &&
                    write_one(object, name, type, text);

    H5Tclose(type);
    return ok;
}

bool
tool_attribute_write_number(hid_t object, const char *name, double number)
{
    return write_one(object, name, H5T_NATIVE_DOUBLE, &number);
}

bool
tool_attribute_remove(hid_t object, const char *name)
{
    return H5Aexists(object, name) <= 0 || H5Adelete(object, name) >= 0;
}
