/* terp report: draws a slice as images inside the page. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/common/colours.h"
#include "tools/common/gif.h"
#include "tools/report/report.h"

enum {
    /* Colours of each map. Few colours keep the page small enough for a mail;
     * the steps are just visible. The number for errors is odd: 0 is a colour
     * of its own. */
    NVALUES = 64,
    NERRORS = 33,
    KEPT = NVALUES, /* indices of special values, after all others */
    CHANGED,
    NCOLOURS,
    /* Largest side in pixels of a page. */
    SIDE = 340
};

/* Longer images would become lines. */
#define MAX_ASPECT 4.0

/* Values of an image, and what their colours mean. */
struct image {
    const char *name;
    const double *values; /* positions on the scale */
    double min, max;
    bool is_error;
    const struct plot_scale *scale;
    const char *units;
};

static void
fill_palette(uint32_t palette_ret[NCOLOURS], bool is_error)
{
    for (int i = 0; i < NVALUES; i++)
        palette_ret[i] =
            is_error ? tool_colour_diverging(2.0 * i / (NERRORS - 1) - 1)
                     : tool_colour_sequential((double)i / (NVALUES - 1));
    palette_ret[KEPT] = TOOL_COLOUR_KEPT;
    palette_ret[CHANGED] = TOOL_COLOUR_CHANGED;
}

static uint8_t
index_of(const struct image *image, double value)
{
    const int n = image->is_error ? NERRORS : NVALUES;
    const double position =
        image->max > image->min
            ? (value - image->min) / (image->max - image->min)
            : 0.5;

    return isnan(value) ? KEPT
           : isinf(value)
               ? CHANGED
               : (uint8_t)lround(fmin(fmax(position, 0), 1) * (n - 1));
}

/* Adds an <img> of pixels. */
static void
put_gif(struct html *html, int nx, int ny, const uint8_t *pixels, bool is_error,
        const char *attributes, const char *alt)
{
    uint32_t palette[NCOLOURS];
    size_t nbytes;

    fill_palette(palette, is_error);
    uint8_t *gif = tool_gif_make(nx, ny, pixels, palette, NCOLOURS, &nbytes);
    if (gif == NULL) {
        html->failed = true;
        return;
    }
    html_printf(html, "<img %s alt=\"", attributes);
    html_text(html, alt, 0);
    html_put(html, "\" src=\"");
    html_data_uri(html, "image/gif", gif, nbytes);
    html_put(html, "\">");
    free(gif);
}

/* Adds the colours and the numbers at their ends. */
static void
put_key(struct html *html, const struct image *image)
{
    const int n = image->is_error ? NERRORS : NVALUES;
    uint8_t pixels[NVALUES];
    char text[HTML_NUMBER_NBYTES];

    if (!isfinite(image->min) || !isfinite(image->max))
        return;
    for (int i = 0; i < n; i++)
        pixels[i] = (uint8_t)i;
    html_put(html, "<span class=\"key\"><span>");
    html_put(html, html_number_text(plot_scale_value(image->scale, image->min),
                                    4, text));
    html_put(html, "</span>");
    put_gif(html, n, 1, pixels, image->is_error, "class=\"bar\"", "");
    html_put(html, "<span>");
    html_put(html, html_number_text(plot_scale_value(image->scale, image->max),
                                    4, text));
    report_put_units(html, image->units);
    html_put(html, "</span></span>");
}

static void
put_image(struct html *html, const struct compare_picture *picture,
          const struct image *image)
{
    const size_t n = (size_t)picture->nx * (size_t)picture->ny;
    const double shape = (double)picture->nx * (double)picture->step_x /
                         ((double)picture->ny * (double)picture->step_y);
    const double aspect = fmin(fmax(shape, 1 / MAX_ASPECT), MAX_ASPECT);
    const long width = aspect >= 1 ? SIDE : lround(SIDE * aspect);
    const long height = aspect >= 1 ? lround(SIDE / aspect) : SIDE;
    uint8_t *pixels = malloc(n);
    char attributes[128], alt[512];

    if (pixels == NULL) {
        html->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        pixels[i] = index_of(image, image->values[i]);
    snprintf(attributes, sizeof attributes,
             "width=\"%ld\" height=\"%ld\" style=\"aspect-ratio:%ld/%ld\"",
             width, height, width, height);
    snprintf(alt, sizeof alt, "%s, slice %s", image->name, picture->slice);
    html_put(html, "<figure>");
    put_gif(html, picture->nx, picture->ny, pixels, image->is_error, attributes,
            alt);
    put_key(html, image);
    html_printf(html, "<figcaption>%s</figcaption></figure>\n", image->name);
    free(pixels);
}

/* Says what the images show, and what grey and black mean where they have
 * them. */
static void
put_note(struct html *html, const struct compare_picture *picture)
{
    const size_t n = (size_t)picture->nx * (size_t)picture->ny;
    bool has_kept = false, has_changed = false;

    for (size_t i = 0; i < n; i++) {
        has_kept |= isnan(picture->b[i]);
        has_changed |= isinf(picture->b[i]);
    }
    html_put(html, "<p class=\"note\">The slice ");
    html_text(html, picture->slice, 0);
    html_put(html, picture->step_x > 1 || picture->step_y > 1
                       ? ", of which only some values are drawn."
                       : ".");
    if (has_kept)
        html_put(html, " Grey: special values, such as NaN and fill values.");
    if (has_changed)
        html_put(html, " Black: special values that changed.");
    html_put(html, "</p>\n");
}

/* The limit of the colours for errors. An infinite error must not take all of
 * them. */
static double
limit_of(const struct compare_picture *picture)
{
    const size_t n = (size_t)picture->nx * (size_t)picture->ny;
    double limit = 0;

    if (isfinite(picture->error_scale))
        return picture->error_scale;
    for (size_t i = 0; i < n; i++)
        if (isfinite(picture->errors[i]))
            limit = fmax(limit, fabs(picture->errors[i]));
    return limit;
}

/* Whether original and copy look the same, because no value differs. */
static bool
is_equal(const struct compare_picture *picture)
{
    const size_t n = (size_t)picture->nx * (size_t)picture->ny;

    for (size_t i = 0; i < n; i++)
        if (picture->errors[i] != 0 && !isnan(picture->errors[i]))
            return false;
    return true;
}

void
report_images(struct html *html, const struct compare_picture *picture,
              bool has_original, const char *units)
{
    static const struct plot_scale linear = {0};
    const bool logarithmic = picture->scale.floor > 0;
    const bool is_one = !has_original || is_equal(picture);
    struct image image = {.values = picture->a,
                          .min = picture->min,
                          .max = picture->max,
                          .scale = &picture->scale,
                          .units = units};

    if (!has_original)
        image.name = logarithmic ? "Values, logarithmic" : "Values";
    else if (is_one)
        image.name = logarithmic ? "Original and copy are equal; logarithmic"
                                 : "Original and copy are equal";
    else
        image.name = logarithmic ? "Original, logarithmic" : "Original";
    html_put(html, "<div class=\"images\">");
    put_image(html, picture, &image);
    if (!is_one) {
        image.name = logarithmic ? "Copy, logarithmic" : "Copy";
        image.values = picture->b;
        put_image(html, picture, &image);
        image = (struct image){.name = picture->is_relative
                                           ? "Error, divided by the value"
                                           : "Error: copy minus original",
                               .values = picture->errors,
                               .min = -limit_of(picture),
                               .max = limit_of(picture),
                               .is_error = true,
                               .scale = &linear,
                               .units = picture->is_relative ? "" : units};
        put_image(html, picture, &image);
    }
    html_put(html, "</div>\n");
    put_note(html, picture);
}
