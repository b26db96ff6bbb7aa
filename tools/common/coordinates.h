/* Finds coordinates: datasets that give position and time of other datasets'
 * values. They are smaller than the other datasets, and useful only while they
 * are exact: an interval contains its time, a longitude is below 360, cells of
 * a mesh meet. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>

/* The coordinates found so far. For one thread at a time. */
struct tool_coordinates;

/* NULL without memory. Free with tool_coordinates_free. */
struct tool_coordinates *
tool_coordinates_new(void);

void
tool_coordinates_free(struct tool_coordinates *known);

/* Records what the attributes of a group or dataset say by the conventions CF
 * and UGRID: that it is a coordinate (axis, standard_name, units), and which
 * other datasets are coordinates, bounds of coordinates, nodes of a mesh, or
 * areas and volumes of cells. Names refer to the object's group and the groups
 * above it; they may be paths. Terms of formulas, such as surface pressure, and
 * ancillary data are not coordinates. False without memory. */
bool
tool_coordinates_note(struct tool_coordinates *known, hid_t object,
                      const char *path);

/* The kind of a coordinate, such as "a latitude": static. NULL if no recorded
 * attribute makes the dataset a coordinate. */
const char *
tool_coordinates_kind(const struct tool_coordinates *known, hid_t dataset);

/* Whether an object has latitudes, by its units or standard name. */
bool
tool_is_latitude(hid_t object);
