/* Finds coordinates: datasets that tell where and when the values of others
 * are. They are small beside those, and of use only while they are exact: an
 * interval holds its time, a longitude is below 360, cells of a mesh meet. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>

/* What attributes of a file have told so far. One thread at a time uses it. */
struct tool_coordinates;

/* NULL without memory. Free with tool_coordinates_free. */
struct tool_coordinates *
tool_coordinates_new(void);

void
tool_coordinates_free(struct tool_coordinates *known);

/* Notes what the attributes of a group or dataset say by the conventions CF and
 * UGRID: that it is a coordinate (axis, standard_name, units), and which other
 * datasets are coordinates, their bounds, nodes of a mesh, or areas and volumes
 * of cells. Names are looked for in the object's group and in those above it;
 * they may also be paths. Data that a formula takes, such as surface pressure,
 * and ancillary data are no coordinates. False without memory. */
bool
tool_coordinates_note(struct tool_coordinates *known, hid_t object,
                      const char *path);

/* What kind of coordinate a dataset is, such as "a latitude": static; NULL
 * where nothing that was noted says that it is one. */
const char *
tool_coordinates_kind(const struct tool_coordinates *known, hid_t dataset);

/* Whether an object has latitudes, by its units or its standard name. */
bool
tool_is_latitude(hid_t object);
