/* Reads and writes CF's attributes of lossy compression. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "tools/common/cf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/terp.h"
#include "tools/common/attribute.h"
#include "tools/common/h5file.h"

static const char CONTAINER[] = "terp_compression_info";
static const char FAMILY[] = "terp";
static const char ALGORITHM[] = "terp";
static const char IMPLEMENTATION[] =
    "terp version " TERP_VERSION " (HDF5 filter 46117)";

/* Attributes of a variable. */
static const char LOSSY[] = "lossy_compression";
static const char ABSOLUTE[] = "lossy_compression_maximum_absolute_error";
static const char RELATIVE[] = "lossy_compression_maximum_relative_error";
static const char QUANTIZATION[] = "quantization";
static const char QUANTIZED_RELATIVE[] = "quantization_maximum_relative_error";
static const char QUANTIZED_ABSOLUTE[] = "quantization_maximum_absolute_error";

/* ---- attributes ---- */

/* Whether an attribute is this text. */
static bool
is_text(hid_t object, const char *name, const char *expected)
{
    char *text = tool_attribute_text(object, name);
    const bool is = text != NULL && strcmp(text, expected) == 0;

    free(text);
    return is;
}

static double
read_number(hid_t object, const char *name)
{
    double number;

    return tool_attribute_numbers(object, name, 1, &number) == 1 ? number
                                                                 : (double)NAN;
}

bool
tool_cf_is_file(hid_t file)
{
    hid_t root = H5Gopen2(file, "/", H5P_DEFAULT);
    char *text = root < 0 ? NULL : tool_attribute_text(root, "Conventions");
    const bool is = text != NULL && strstr(text, "CF-") != NULL;

    free(text);
    tool_close(root);
    return is;
}

bool
tool_cf_is_container(hid_t object)
{
    return is_text(object, "family", FAMILY) &&
           is_text(object, "algorithm", ALGORITHM);
}

bool
tool_cf_is_of_others(hid_t dataset)
{
    return H5Aexists(dataset, LOSSY) > 0 && !is_text(dataset, LOSSY, CONTAINER);
}

/* A note without numbers says that the errors are unknown. */
bool
tool_cf_read(hid_t dataset, struct tool_cf_errors *errors_ret)
{
    struct tool_cf_errors errors = {read_number(dataset, ABSOLUTE),
                                    read_number(dataset, RELATIVE)};

    if (!is_text(dataset, LOSSY, CONTAINER))
        return false;
    if (!isnan(errors.absolute) || !isnan(errors.relative)) {
        errors.absolute = isnan(errors.absolute) ? 0 : errors.absolute;
        errors.relative = isnan(errors.relative) ? 0 : errors.relative;
    }
    *errors_ret = errors;
    return true;
}

static bool
write_error(hid_t dataset, const char *name, double error)
{
    return tool_attribute_remove(dataset, name) &&
           (!(error > 0) || !isfinite(error) ||
            tool_attribute_write_number(dataset, name, error));
}

bool
tool_cf_write(hid_t dataset, struct tool_cf_errors errors)
{
    return tool_attribute_remove(dataset, LOSSY) &&
           tool_attribute_write_text(dataset, LOSSY, CONTAINER) &&
           write_error(dataset, ABSOLUTE, errors.absolute) &&
           write_error(dataset, RELATIVE, errors.relative);
}

/* ---- the container ---- */

/* Creates a scalar character, as netCDF programs do for variables that only
 * carry attributes. */
static hid_t
create_container(hid_t file, bool has_order)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    hid_t container = -1;

    if (!has_order ||
        H5Pset_attr_creation_order(dcpl, H5P_CRT_ORDER_TRACKED |
                                             H5P_CRT_ORDER_INDEXED) >= 0)
        container = H5Dcreate2(file, CONTAINER, H5T_C_S1, space, H5P_DEFAULT,
                               dcpl, H5P_DEFAULT);
    if (container >= 0 &&
        !(tool_attribute_write_text(container, "family", FAMILY) &&
          tool_attribute_write_text(container, "algorithm", ALGORITHM))) {
        H5Dclose(container);
        container = -1;
    }
    H5Pclose(dcpl);
    H5Sclose(space);
    return container;
}

bool
tool_cf_make_container(hid_t file, bool has_order)
{
    const bool exists = H5Lexists(file, CONTAINER, H5P_DEFAULT) > 0;
    hid_t container = exists ? H5Dopen2(file, CONTAINER, H5P_DEFAULT)
                             : create_container(file, has_order);
    const bool ok =
        container >= 0 && tool_cf_is_container(container) &&
        tool_attribute_remove(container, "implementation") &&
        tool_attribute_write_text(container, "implementation", IMPLEMENTATION);

    tool_close(container);
    return ok;
}

/* ---- what a file says ---- */

/* Opens the variable `name` in the group of `path`, or in the nearest group
 * above, as CF searches for it. */
static hid_t
open_nearest(hid_t file, const char *path, const char *name)
{
    char *at = malloc(strlen(path) + strlen(name) + 2);
    hid_t found = -1;

    if (at == NULL)
        return -1;
    strcpy(at, path);
    for (char *slash = strrchr(at, '/'); found < 0 && slash != NULL;
         slash = strrchr(at, '/')) {
        strcpy(slash + 1, name);
        if (H5Lexists(file, at, H5P_DEFAULT) > 0)
            found = H5Oopen(file, at, H5P_DEFAULT);
        *slash = '\0';
    }
    free(at);
    return found;
}

bool
tool_cf_describe(hid_t dataset, const char *path, struct tool_cf_note *note_ret)
{
    struct tool_cf_note *note = note_ret;
    char *name = tool_attribute_text(dataset, LOSSY);

    *note = (struct tool_cf_note){
        .is_quantized = name == NULL, .bits = NAN, .digits = NAN};
    if (name == NULL)
        name = tool_attribute_text(dataset, QUANTIZATION);
    if (name == NULL)
        return false;
    note->errors.absolute = read_number(
        dataset, note->is_quantized ? QUANTIZED_ABSOLUTE : ABSOLUTE);
    note->errors.relative = read_number(
        dataset, note->is_quantized ? QUANTIZED_RELATIVE : RELATIVE);
    if (note->is_quantized) {
        note->bits = read_number(dataset, "quantization_nsb");
        note->digits = read_number(dataset, "quantization_nsd");
    }
    hid_t file = H5Iget_file_id(dataset);
    hid_t container = file < 0 || strchr(name, '/') != NULL
                          ? -1
                          : open_nearest(file, path, name);
    if (container >= 0) {
        note->algorithm = tool_attribute_text(container, "algorithm");
        note->implementation = tool_attribute_text(container, "implementation");
    }
    tool_close(container);
    if (file >= 0)
        H5Fclose(file);
    free(name);
    return true;
}

void
tool_cf_free(struct tool_cf_note *note)
{
    free(note->algorithm);
    free(note->implementation);
}
