/* Pictures and their parts, drawn with cairo. Only in builds with it. */
#pragma once

#include <cairo.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/common/plot_scale.h"

/* Draws a white picture of so many pixels into a PNG file in `directory`, which
 * is named after the dataset. Returns the file's path, which the caller frees,
 * or NULL with a reason. */
char *
plot_draw_file(const char *directory, const char *dataset, int width,
               int height, void (*draw)(cairo_t *cairo, const void *context),
               const void *context, char *reason_ret, size_t reason_cap);

/* In pixels, from the top left. */
struct plot_box {
    double x, y, width, height;
};

/* `ny` rows of `nx` values, first row on top, coloured from min to max; NAN is
 * grey and INFINITY black. `aspect`: width over height of what the values
 * cover. */
struct plot_image {
    int nx, ny;
    double aspect;
    const double *values; /* places on the scale, as these: */
    double min, max;
    struct plot_scale scale; /* for the numbers of its bar */
    bool sequential;         /* else diverging */
};

/* `y` is the base line. */
void
plot_draw_text(cairo_t *cairo, double x, double y, double size, bool bold,
               const char *text);

/* As large as the box allows, with a caption above the box. */
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

/* Interrupted at values that are not finite. */
void
plot_draw_curve(cairo_t *cairo, struct plot_box box, const double *values,
                int nvalues, double min, double max, uint32_t colour);

/* A grid line with its label: across the box at `place` of its height, 0 being
 * the lower edge, or up the box at `place` of its width. */
void
plot_draw_tick(cairo_t *cairo, struct plot_box box, double place, bool across,
               const char *label);

/* Lines from one mark to the next, at places of the box from 0 to 1; a mark
 * that is at none of them is left out. Series differ in colour, dashes and
 * marks. */
enum {
    PLOT_NSERIES = 2
};
void
plot_draw_series(cairo_t *cairo, struct plot_box box, const double *x,
                 const double *y, int nmarks, int series);

/* Bars; those more than `ninside` away from the middle are red, and never
 * lower than can be seen. */
void
plot_draw_bins(cairo_t *cairo, struct plot_box box, const char *caption,
               const uint64_t *bins, int nbins, int ninside);
