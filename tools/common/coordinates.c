/* Finds coordinates by attributes of the conventions CF and UGRID. */
#define _XOPEN_SOURCE 700 /* tsearch, strdup */
#include "tools/common/coordinates.h"

#include <ctype.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/common/attribute.h"
#include "tools/common/walk.h"

/* A dataset, identified by its address in the file. */
struct item {
    haddr_t address;
    const char *kind;
    struct item *next;
};

/* Limit for the names in one attribute; attributes of these conventions have
 * fewer. It bounds the work for a damaged file. */
#define MAX_NNAMES 256

struct tool_coordinates {
    void *by_address; /* a tree of tsearch() */
    struct item *first;
};

struct tool_coordinates *
tool_coordinates_new(void)
{
    return calloc(1, sizeof(struct tool_coordinates));
}

static int
compare_items(const void *a, const void *b)
{
    const haddr_t one = ((const struct item *)a)->address;
    const haddr_t other = ((const struct item *)b)->address;

    return (one > other) - (one < other);
}

void
tool_coordinates_free(struct tool_coordinates *known)
{
    while (known != NULL && known->first != NULL) {
        struct item *item = known->first;
        known->first = item->next;
        tdelete(item, &known->by_address, compare_items);
        free(item);
    }
    free(known);
}

/* ---- attributes about the object itself ---- */

/* Spellings that CF allows (4.1 and 4.2). */
static bool
is_one_of(const char *text, const char *const *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(text, all[i]) == 0)
            return true;
    return false;
}

#define IS_ONE_OF(text, all) is_one_of(text, all, sizeof(all) / sizeof *(all))

static const char *const north[] = {"degrees_north", "degree_north",
                                    "degree_N",      "degrees_N",
                                    "degreeN",       "degreesN"};
static const char *const east[] = {"degrees_east", "degree_east", "degree_E",
                                   "degrees_E",    "degreeE",     "degreesE"};

/* Whether a unit is like "hours since 2000-01-01". */
static bool
is_time_unit(const char *units)
{
    for (const char *at = units; (at = strchr(at, ' ')) != NULL; at++)
        if (at > units && strncasecmp(at, " since ", 7) == 0) {
            at += 7;
            while (*at == ' ')
                at++;
            return isdigit((unsigned char)*at) || *at == '-' || *at == '+';
        }
    return false;
}

static const char *
kind_by_units(hid_t object)
{
    char *units = tool_attribute_text(object, "units");
    const char *kind = units == NULL             ? NULL
                       : IS_ONE_OF(units, north) ? "a latitude"
                       : IS_ONE_OF(units, east)  ? "a longitude"
                       : is_time_unit(units)     ? "a time"
                                                 : NULL;

    free(units);
    return kind;
}

static const char *
kind_by_name(hid_t object)
{
    static const struct {
        const char *name, *kind;
    } all[] = {{"latitude", "a latitude"},
               {"longitude", "a longitude"},
               {"grid_latitude", "a latitude"},
               {"grid_longitude", "a longitude"},
               {"projection_x_coordinate", "a coordinate"},
               {"projection_y_coordinate", "a coordinate"},
               {"projection_x_angular_coordinate", "a coordinate"},
               {"projection_y_angular_coordinate", "a coordinate"},
               {"altitude", "a coordinate"},
               {"depth", "a coordinate"},
               {"height", "a coordinate"},
               {"time", "a time"},
               {"forecast_reference_time", "a time"},
               {"forecast_period", "a time"}};
    char *name = tool_attribute_text(object, "standard_name");
    const char *kind = NULL;

    for (size_t i = 0; name != NULL && i < sizeof all / sizeof *all; i++)
        if (strcmp(name, all[i].name) == 0)
            kind = all[i].kind;
    free(name);
    return kind;
}

/* `positive` does not count: fluxes have it too. */
static const char *
kind_by_axis(hid_t object)
{
    char *axis = tool_attribute_text(object, "axis");
    const bool is_axis = axis != NULL && strlen(axis) == 1 &&
                         strchr("XYZTxyzt", axis[0]) != NULL;

    free(axis);
    return is_axis ? "a coordinate" : NULL;
}

bool
tool_is_latitude(hid_t object)
{
    const char *kind = kind_by_name(object);

    if (kind == NULL)
        kind = kind_by_units(object);
    return kind != NULL && strcmp(kind, "a latitude") == 0;
}

/* ---- attributes about other objects ---- */

/* Records the dataset at this address as a coordinate. The first kind counts.
 */
static bool
add(struct tool_coordinates *known, haddr_t address, const char *kind)
{
    const struct item key = {.address = address};

    if (tfind(&key, &known->by_address, compare_items) != NULL)
        return true;
    struct item *item = malloc(sizeof *item);
    if (item == NULL)
        return false;
    *item = (struct item){address, kind, known->first};
    if (tsearch(item, &known->by_address, compare_items) == NULL) {
        free(item);
        return false;
    }
    known->first = item;
    return true;
}

/* Removes the last name from a path; "/" and "" become "". */
static void
go_up(char *path)
{
    char *slash = strrchr(path, '/');

    *(slash != NULL ? slash : path) = '\0';
}

/* The address of the dataset that `name` denotes in the group at `base` or in a
 * group above it; HADDR_UNDEF if none. */
static haddr_t
find_named(hid_t file, unsigned long fileno, const char *base, const char *name)
{
    const bool is_absolute = name[0] == '/';
    char *group = strdup(is_absolute ? "" : base);
    haddr_t address = HADDR_UNDEF;
    H5O_info_t info;

    while (group != NULL && strncmp(name, "../", 3) == 0) {
        go_up(group);
        name += 3;
    }
    char *path =
        group == NULL ? NULL : malloc(strlen(group) + strlen(name) + 2);
    while (path != NULL) {
        strcpy(path, group);
        strcat(path, name[0] == '/' ? "" : "/");
        strcat(path, name);
        hid_t object = H5Oopen(file, path, H5P_DEFAULT);
        if (object >= 0) {
            if (H5Iget_type(object) == H5I_DATASET &&
                tool_object_info(object, &info) && info.fileno == fileno)
                address = info.addr;
            H5Oclose(object);
        }
        if (address != HADDR_UNDEF || group[0] == '\0')
            break;
        go_up(group);
    }
    free(path);
    free(group);
    return address;
}

/* Records all names in a text, except labels that end in a colon, as in "area:
 * areacella". */
static bool
add_named(struct tool_coordinates *known, hid_t file, unsigned long fileno,
          const char *base, char *text, const char *kind)
{
    static const char blanks[] = " \t\r\n";
    char *rest = NULL, *name = strtok_r(text, blanks, &rest);

    for (int i = 0; name != NULL && i < MAX_NNAMES;
         i++, name = strtok_r(NULL, blanks, &rest)) {
        if (name[strlen(name) - 1] == ':')
            continue;
        const haddr_t address = find_named(file, fileno, base, name);
        if (address != HADDR_UNDEF && !add(known, address, kind))
            return false;
    }
    return true;
}

static bool
add_references(struct tool_coordinates *known, hid_t object,
               unsigned long fileno, const char *base)
{
    static const struct {
        const char *name, *kind;
    } all[] = {
        {"coordinates", "a coordinate"},
        {"bounds", "bounds of a coordinate"},
        {"climatology", "bounds of a coordinate"},
        {"grid_mapping", "a coordinate"},
        {"cell_measures", "a measure of cells"},
        {"node_coordinates", "nodes of a mesh"},
        {"edge_coordinates", "edges of a mesh"},
        {"face_coordinates", "faces of a mesh"},
        {"volume_coordinates", "volumes of a mesh"},
        {"edge_node_connectivity", "the topology of a mesh"},
        {"face_node_connectivity", "the topology of a mesh"},
        {"face_edge_connectivity", "the topology of a mesh"},
        {"face_face_connectivity", "the topology of a mesh"},
        {"edge_face_connectivity", "the topology of a mesh"},
        {"boundary_node_connectivity", "the topology of a mesh"},
        {"volume_node_connectivity", "the topology of a mesh"},
        {"volume_edge_connectivity", "the topology of a mesh"},
        {"volume_face_connectivity", "the topology of a mesh"},
        {"volume_volume_connectivity", "the topology of a mesh"},
    };
    hid_t file = -1;
    bool ok = true;

    for (size_t i = 0; ok && i < sizeof all / sizeof *all; i++) {
        char *text = tool_attribute_text(object, all[i].name);
        if (text != NULL && file < 0)
            file = H5Iget_file_id(object);
        if (text != NULL && file >= 0)
            ok = add_named(known, file, fileno, base, text, all[i].kind);
        free(text);
    }
    if (file >= 0)
        H5Fclose(file);
    return ok;
}

bool
tool_coordinates_note(struct tool_coordinates *known, hid_t object,
                      const char *path)
{
    const bool is_dataset = H5Iget_type(object) == H5I_DATASET;
    H5O_info_t info;

    if (H5Oget_info2(object, &info, H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS) < 0 ||
        info.num_attrs == 0)
        return true;
    if (is_dataset) {
        const char *kind = kind_by_name(object);
        if (kind == NULL)
            kind = kind_by_units(object);
        if (kind == NULL)
            kind = kind_by_axis(object);
        if (kind != NULL && !add(known, info.addr, kind))
            return false;
    }
    char *base = strdup(path);
    if (base == NULL)
        return false;
    if (is_dataset || strcmp(base, "/") == 0)
        go_up(base);
    const bool ok = add_references(known, object, info.fileno, base);
    free(base);
    return ok;
}

const char *
tool_coordinates_kind(const struct tool_coordinates *known, hid_t dataset)
{
    struct item key;
    H5O_info_t info;

    if (!tool_object_info(dataset, &info))
        return NULL;
    key.address = info.addr;
    struct item *const *found = tfind(&key, &known->by_address, compare_items);
    return found == NULL ? NULL : (*found)->kind;
}
