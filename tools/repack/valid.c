/* Reads the attributes that give the valid range of a variable. */
#include "tools/repack/valid.h"

#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "tools/common/attribute.h"
#include "tools/common/h5file.h"

/* The type of a numeric attribute; nbytes is 0 for other attributes. */
struct kind {
    bool is_float;
    size_t nbytes;
};

static struct kind
kind_of(hid_t type)
{
    const H5T_class_t class = type < 0 ? H5T_NO_CLASS : H5Tget_class(type);

    return class == H5T_FLOAT || class == H5T_INTEGER
               ? (struct kind){class == H5T_FLOAT, H5Tget_size(type)}
               : (struct kind){false, 0};
}

static struct kind
kind_of_attribute(hid_t dataset, const char *name)
{
    hid_t attribute =
        H5Aexists(dataset, name) > 0 ? H5Aopen(dataset, name, H5P_DEFAULT) : -1;
    hid_t type = attribute < 0 ? -1 : H5Aget_type(attribute);
    const struct kind kind = kind_of(type);

    tool_close(type);
    tool_close(attribute);
    return kind;
}

static bool
is_wider(struct kind a, struct kind b)
{
    return a.is_float != b.is_float ? a.is_float : a.nbytes > b.nbytes;
}

/* How netCDF unpacks stored values: value * scale + offset. */
struct packing {
    struct kind kind; /* of unpacked values; 0 bytes: values are not packed */
    double scale, offset;
};

static struct packing
packing_of(hid_t dataset)
{
    static const char scale[] = "scale_factor", offset[] = "add_offset";
    struct packing packing = {.scale = 1};

    if (tool_attribute_numbers(dataset, scale, 1, &packing.scale) > 0)
        packing.kind = kind_of_attribute(dataset, scale);
    if (tool_attribute_numbers(dataset, offset, 1, &packing.offset) > 0 &&
        is_wider(kind_of_attribute(dataset, offset), packing.kind))
        packing.kind = kind_of_attribute(dataset, offset);
    return packing;
}

/* Whether an attribute refers to unpacked values. By netCDF's rule it then has
 * the type of unpacked values, which is wider than that of stored ones. */
static bool
is_unpacked(hid_t dataset, const char *name, const struct packing *packing,
            struct kind stored)
{
    const struct kind kind = kind_of_attribute(dataset, name);

    return packing->kind.nbytes > 0 && kind.nbytes == packing->kind.nbytes &&
           kind.is_float == packing->kind.is_float && is_wider(kind, stored);
}

static bool
is_unsigned_in_disguise(hid_t dataset)
{
    char *text = tool_attribute_text(dataset, "_Unsigned");
    const bool is_unsigned = text != NULL && strcasecmp(text, "true") == 0;

    free(text);
    return is_unsigned;
}

/* Reads the ends of the range as packed values. An end without attribute is
 * NAN. */
static void
read_ends(hid_t dataset, struct kind stored, double ends_ret[2])
{
    static const char *const names[] = {"valid_min", "valid_max"};
    const struct packing packing = packing_of(dataset);
    double *ends = ends_ret;
    bool unpacked[2];

    if (tool_attribute_numbers(dataset, "valid_range", 2, ends) == 2) {
        unpacked[0] = unpacked[1] =
            is_unpacked(dataset, "valid_range", &packing, stored);
    } else {
        for (int i = 0; i < 2; i++) {
            if (tool_attribute_numbers(dataset, names[i], 1, &ends[i]) != 1)
                ends[i] = NAN;
            unpacked[i] = is_unpacked(dataset, names[i], &packing, stored);
        }
    }
    for (int i = 0; i < 2; i++)
        if (unpacked[i])
            ends[i] = (ends[i] - packing.offset) / packing.scale;
    /* A negative scale swaps the ends. */
    if (packing.scale < 0 && (unpacked[0] || unpacked[1])) {
        const double end = ends[0];
        ends[0] = ends[1];
        ends[1] = end;
    }
}

unsigned
repack_valid_range(hid_t dataset, double *min_ret, double *max_ret)
{
    hid_t type = H5Dget_type(dataset);
    const struct kind stored = kind_of(type);
    double ends[2];
    unsigned found = 0;

    tool_close(type);
    *min_ret = -INFINITY;
    *max_ret = INFINITY;
    if (stored.nbytes == 0 || is_unsigned_in_disguise(dataset))
        return 0;
    read_ends(dataset, stored, ends);
    if (isfinite(ends[0]) && isfinite(ends[1]) && ends[0] > ends[1])
        return 0;
    if (isfinite(ends[0])) {
        *min_ret = ends[0];
        found |= REPACK_VALID_MIN;
    }
    if (isfinite(ends[1])) {
        *max_ret = ends[1];
        found |= REPACK_VALID_MAX;
    }
    return found;
}
