/* What pictures of a dataset and its compressed copy show: a slice of both, and
 * a histogram of all errors. */
#pragma once

#include "tools/common/plot_scale.h"
#include "tools/compare/compare.h"

enum {
    PICTURE_MAX_SIDE = 320,   /* values along a side of an image, one pixel
                                 each */
    PICTURE_MAX_CURVE = 1024, /* values of a curve */
    PICTURE_NBINS_INSIDE =
        20, /* between 0 and the bound, beside the half bin at 0 */
    PICTURE_NBINS_OUTSIDE = 4,
    PICTURE_NBINS = 2 * (PICTURE_NBINS_INSIDE + PICTURE_NBINS_OUTSIDE) + 1
};

/* A slice through the middle. */
struct compare_picture {
    int rank;      /* 1: curves; 2: images; 0: nothing */
    int nx, ny;    /* values across and down */
    int axis_y;    /* dimension that runs down */
    uint64_t at_x; /* index of the first value across */
    uint64_t step_x, step_y;
    char slice[256]; /* such as "[128, :, :]" */
    /* ny rows of nx values, northern rows first. NAN: special value, unchanged;
     * INFINITY, in `b` only: special value that changed, or new one. */
    double *a, *b;
    double *errors;  /* b - a, or like `b` for special values */
    double min, max; /* of the valid values of `a` */
    /* `a`, `b`, `min` and `max` are positions on this scale. */
    struct plot_scale scale;
    bool is_relative;   /* errors are divided by the magnitude of `a` */
    double error_scale; /* limit of the colours for errors */
};

/* Reads a slice of both datasets; `result` must be their comparison. Both may
 * be the same dataset. False: *reason_ret says why. Free with
 * compare_picture_free in any case. */
bool
compare_picture_read(struct compare_picture *picture,
                     const struct tool_dataset *a, const struct tool_dataset *b,
                     const struct compare_result *result, char *reason_ret,
                     size_t reason_cap);

void
compare_picture_free(struct compare_picture *picture);

/* Errors of all values, counted. */
struct compare_bins {
    bool of_bound; /* in units of the bound of the value; else of the largest
                      error */
    uint64_t counts[PICTURE_NBINS];
    double min_bound, max_bound; /* of all chunks; NAN without absolute
                                    bounds */
};

/* Reads all values of both datasets; `result` must be their comparison. False:
 * *reason_ret says why. */
bool
compare_bins_read(struct compare_bins *bins, const struct tool_dataset *a,
                  const struct tool_dataset *b,
                  const struct compare_bounds *bounds,
                  const struct compare_result *result, char *reason_ret,
                  size_t reason_cap);

/* Whether pictures show a value of A: fill values, which PSNR leaves out too,
 * would take the whole colour scale. */
bool
compare_is_drawn(const struct compare_result *result, double a);

/* Whether latitudes rise along the dimension `axis`. */
bool
compare_runs_north(const struct tool_dataset *dataset, int axis);
