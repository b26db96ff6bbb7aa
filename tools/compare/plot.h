/* Pictures of a dataset beside its compressed copy. Only in builds with cairo.
 */
#pragma once

#include "tools/common/plot_scale.h"
#include "tools/compare/compare.h"

/* Draws a slice of both datasets, the error and its histogram into a PNG file
 * in `directory`. result->picture is its path, or NULL where there is nothing
 * to draw, as for a single value. False: *reason_ret says why. */
compare_plot plot_compared;
