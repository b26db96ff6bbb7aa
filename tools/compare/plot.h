/* Pictures of a dataset beside its compressed copy. Only in builds with
 * cairo. */
#pragma once

#include "tools/common/plot_scale.h"
#include "tools/compare/compare.h"

/* Draws a slice of both, their error and its histogram into a PNG file in
 * `directory`, named after the dataset: result->picture, NULL where there is
 * nothing to draw, a single value, say. False with a reason. */
compare_plot plot_compared;

enum {
    PLOT_MAX_SIDE = 320,    /* values of an image's row or column */
    PLOT_MAX_CURVE = 1024,  /* values of a curve */
    PLOT_NBINS_INSIDE = 20, /* between 0 and the bound, and half a bin */
    PLOT_NBINS_OUTSIDE = 4,
    PLOT_NBINS = 2 * (PLOT_NBINS_INSIDE + PLOT_NBINS_OUTSIDE) + 1
};

/* What is drawn. */
struct plot_data {
    int rank;   /* 1: curves; 2: images; 0: nothing */
    int nx, ny; /* values across and down */
    int axis_y; /* the dimension of what is down */
    uint64_t step_x, step_y;
    char slice[256]; /* such as "[128, :, :]" */
    /* ny rows of nx values, the northern ones first. NAN: kept bit for bit;
     * INFINITY, in `b` only: not kept, but should have been. */
    double *a, *b;
    double *errors;  /* b - a, or like `b` where values are kept or should be */
    double min, max; /* of the valid values of `a` */
    /* Of what is above as long as it is drawn: `a`, `b`, `min` and `max` are
     * places on it. */
    struct plot_scale scale;
    bool is_relative; /* errors are over the magnitude of `a` */

    double error_scale;        /* errors are drawn up to here */
    bool of_bound;             /* bins are of error / bound, else of error / */
    uint64_t bins[PLOT_NBINS]; /* the largest error */
};

/* Reads what is to be drawn. It is freed with plot_data_free in any case. */
bool
plot_data_read(struct plot_data *data, const struct tool_dataset *a,
               const struct tool_dataset *b,
               const struct compare_bounds *bounds,
               const struct compare_result *result, char *reason_ret,
               size_t reason_cap);

void
plot_data_free(struct plot_data *data);

/* Whether values of the dimension `axis` are at latitudes that rise. */
bool
plot_runs_north(const struct tool_dataset *dataset, int axis);
