/* Pictures of a dataset beside its compressed copy. Only in builds with cairo.
 */
#pragma once

#include "tools/common/plot_scale.h"
#include "tools/compare/compare.h"

/* Draws a slice of both datasets, the error and its histogram into a PNG file
 * in `directory`. result->picture is its path, or NULL where there is nothing
 * to draw, as for a single value. False: *reason_ret says why. */
compare_plot plot_compared;

enum {
    PLOT_MAX_SIDE = 320,   /* values along a side of an image, one pixel
                              each */
    PLOT_MAX_CURVE = 1024, /* values of a curve */
    PLOT_NBINS_INSIDE =
        20, /* between 0 and the bound, beside the half bin at 0 */
    PLOT_NBINS_OUTSIDE = 4,
    PLOT_NBINS = 2 * (PLOT_NBINS_INSIDE + PLOT_NBINS_OUTSIDE) + 1
};

/* The data of a picture. */
struct plot_data {
    int rank;   /* 1: curves; 2: images; 0: nothing */
    int nx, ny; /* values across and down */
    int axis_y; /* dimension that runs down */
    uint64_t step_x, step_y;
    char slice[256]; /* such as "[128, :, :]" */
    /* ny rows of nx values, northern rows first. NAN: special value, unchanged;
     * INFINITY, in `b` only: special value that changed. */
    double *a, *b;
    double *errors;  /* b - a, or like `b` for special values */
    double min, max; /* of the valid values of `a` */
    /* While a picture is drawn, `a`, `b`, `min` and `max` are positions on this
     * scale. */
    struct plot_scale scale;
    bool is_relative; /* errors are divided by the magnitude of `a` */

    double error_scale;        /* limit of the colours for errors */
    bool of_bound;             /* bins hold error / bound, else */
    uint64_t bins[PLOT_NBINS]; /* error / largest error */
};

/* Reads the data of a picture. Free with plot_data_free in any case. */
bool
plot_data_read(struct plot_data *data, const struct tool_dataset *a,
               const struct tool_dataset *b,
               const struct compare_bounds *bounds,
               const struct compare_result *result, char *reason_ret,
               size_t reason_cap);

void
plot_data_free(struct plot_data *data);

/* Whether latitudes rise along the dimension `axis`. */
bool
plot_runs_north(const struct tool_dataset *dataset, int axis);
