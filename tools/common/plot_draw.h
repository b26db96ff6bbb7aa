/* Elements of pictures, drawn with cairo. Only in builds with cairo. */
#pragma once

#include <cairo.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/common/plot_scale.h"

/* Draws a white picture of width x height pixels into a PNG file in
 * `directory`, named after the dataset. Returns the file's path, which the
 * caller frees; or NULL: *reason_ret says why. */
char *
plot_draw_file(const char *directory, const char *dataset, int width,
               int height, void (*draw)(cairo_t *cairo, const void *context),
               const void *context, char *reason_ret, size_t reason_cap);

/* In pixels, from the top left corner. */
struct plot_box {
    double x, y, width, height;
};

/* `ny` rows of `nx` values, first row on top, coloured from min to max; NAN is
 * grey, INFINITY black. `aspect` is the width of the image over its height. */
struct plot_image {
    int nx, ny;
    double aspect;
    const double *values; /* positions on the scale, like min and max */
    double min, max;
    struct plot_scale scale; /* for the numbers of the colour bar */
    bool sequential;         /* else diverging */
};

/* `y` is the base line. */
void
plot_draw_text(cairo_t *cairo, double x, double y, double size, bool bold,
               const char *text);

/* As large as the box allows; the caption is above the box. */
void
plot_draw_image(cairo_t *cairo, struct plot_box box, const char *caption,
                const struct plot_image *image);

/* The colours of an image, with numbers beside them. */
void
plot_draw_bar(cairo_t *cairo, struct plot_box box,
              const struct plot_image *image);

/* A box for curves, with the numbers of its lower and upper edge. */
void
plot_draw_frame(cairo_t *cairo, struct plot_box box, const char *caption,
                double min, double max);

/* Values that are not finite interrupt the curve. */
void
plot_draw_curve(cairo_t *cairo, struct plot_box box, const double *values,
                int nvalues, double min, double max, uint32_t colour);

/* A grid line with its label: `across` the box, at `position` of its height
 * from the lower edge, or else vertical, at `position` of its width. */
void
plot_draw_tick(cairo_t *cairo, struct plot_box box, double position,
               bool across, const char *label);

/* Lines between marks at positions 0 to 1 in the box. Marks outside are left
 * out. Series differ in colour, dashes and marks. */
enum {
    PLOT_NSERIES = 2
};
void
plot_draw_series(cairo_t *cairo, struct plot_box box, const double *x,
                 const double *y, int nmarks, int series);

/* Bars. Those more than `ninside` bins from the middle are red, and always
 * visible. */
void
plot_draw_bins(cairo_t *cairo, struct plot_box box, const char *caption,
               const uint64_t *bins, int nbins, int ninside);
