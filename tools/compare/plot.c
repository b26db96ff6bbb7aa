/* terp compare --png: layout of a picture. */
#include "tools/compare/plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/common/plot_draw.h"
#include "tools/compare/metrics.h"
#include "tools/compare/picture.h"

/* Positions in pixels. h5tests/tools/test_tool_png.py uses them too. */
enum {
    WIDTH = 1240,
    HEIGHT = 720,
    MARGIN = 20,
    TITLE_Y = 34,
    IMAGE_Y = 100,
    IMAGE_SIDE = 320,
    ORIGINAL_X = MARGIN,
    COPY_X = ORIGINAL_X + IMAGE_SIDE + 16,
    VALUE_BAR_X = COPY_X + IMAGE_SIDE + 12,
    ERROR_X = 800,
    ERROR_BAR_X = ERROR_X + IMAGE_SIDE + 12,
    CHART_X = 80,
    CHART_WIDTH = 1060,
    CURVE_HEIGHT = 170,
    ERROR_CURVE_Y = 310,
    ERROR_CURVE_HEIGHT = 110,
    BINS_Y = 480,
    BINS_HEIGHT = 170,
    /* For --metrics. */
    METRICS_HEIGHT = 240,
    METRICS_Y = 750,
    METRICS_PANEL_HEIGHT = 150,
    METRICS_PANEL_WIDTH = 480,
    LAGS_X = CHART_X + CHART_WIDTH - METRICS_PANEL_WIDTH,
    SPECTRUM_DECADES = 8
};

static const char *
error_caption(const struct compare_picture *picture)
{
    return picture->is_relative
               ? "relative error: (reconstruction - original) / |original|"
               : "error: reconstruction - original";
}

static void
draw_images(cairo_t *cairo, const struct compare_picture *picture)
{
    double scale = picture->error_scale;
    struct plot_box box = {ORIGINAL_X, IMAGE_Y, IMAGE_SIDE, IMAGE_SIDE};
    struct plot_box bar = {VALUE_BAR_X, IMAGE_Y, 14, IMAGE_SIDE};

    struct plot_image image = {
        .nx = picture->nx,
        .ny = picture->ny,
        .aspect = (double)picture->nx * (double)picture->step_x /
                  ((double)picture->ny * (double)picture->step_y),
        .values = picture->a,
        .min = picture->min,
        .max = picture->max,
        .scale = picture->scale,
        .sequential = true};
    plot_draw_image(cairo, box,
                    picture->scale.floor > 0 ? "original, logarithmic"
                                             : "original",
                    &image);
    box.x = COPY_X;
    image.values = picture->b;
    plot_draw_image(cairo, box, "reconstruction", &image);
    plot_draw_bar(cairo, bar, &image);

    image.values = picture->errors;
    image.min = -scale;
    image.max = scale;
    image.sequential = false;
    image.scale = (struct plot_scale){0};
    box.x = ERROR_X;
    bar.x = ERROR_BAR_X;
    plot_draw_image(cairo, box, error_caption(picture), &image);
    plot_draw_bar(cairo, bar, &image);
}

static void
draw_curves(cairo_t *cairo, const struct compare_picture *picture)
{
    double min = picture->min, max = picture->max, scale = picture->error_scale;
    struct plot_box box = {CHART_X, IMAGE_Y, CHART_WIDTH, CURVE_HEIGHT};

    plot_draw_frame(cairo, box,
                    picture->scale.floor > 0
                        ? "original (black), reconstruction (red), logarithmic"
                        : "original (black), reconstruction (red)",
                    plot_scale_value(&picture->scale, min),
                    plot_scale_value(&picture->scale, max));
    plot_draw_curve(cairo, box, picture->a, picture->nx, min, max, 0x202020);
    plot_draw_curve(cairo, box, picture->b, picture->nx, min, max, 0xD55E00);
    box.y = ERROR_CURVE_Y;
    box.height = ERROR_CURVE_HEIGHT;
    plot_draw_frame(cairo, box, error_caption(picture), -scale, scale);
    plot_draw_curve(cairo, box, picture->errors, picture->nx, -scale, scale,
                    0xD55E00);
}

static void
draw_bins(cairo_t *cairo, const struct compare_bins *bins)
{
    struct plot_box box = {CHART_X, BINS_Y, CHART_WIDTH, BINS_HEIGHT};

    plot_draw_bins(cairo, box,
                   bins->of_bound
                       ? "errors of all values, in units of the bound"
                       : "errors of all values, in units of the largest error",
                   bins->counts, PICTURE_NBINS, PICTURE_NBINS_INSIDE);
}

/* Draws the logarithm of the power, SPECTRUM_DECADES down from the largest. */
static void
draw_spectrum(cairo_t *cairo, const struct compare_metrics *metrics)
{
    const struct plot_box box = {CHART_X, METRICS_Y, METRICS_PANEL_WIDTH,
                                 METRICS_PANEL_HEIGHT};
    const double *power = compare_metrics_spectrum(metrics, METRICS_OF_ERROR);
    double *powers = malloc((size_t)metrics->nwaves * sizeof *powers);
    double top = -INFINITY;
    char text[64];

    for (int i = 0; powers != NULL && i < metrics->nwaves; i++) {
        powers[i] = log10(power[i]);
        top = fmax(top, powers[i]);
    }
    if (isfinite(top)) {
        top = ceil(top);
        plot_draw_frame(cairo, box, "log10 of the error's power by wave number",
                        top - SPECTRUM_DECADES, top);
        plot_draw_curve(cairo, box, powers, metrics->nwaves,
                        top - SPECTRUM_DECADES, top, 0x0072B2);
        snprintf(text, sizeof text, "0 to %.3g cycles per step",
                 (double)(metrics->nwaves - 1) / metrics->wave_divisor);
        plot_draw_text(cairo, box.x, box.y + box.height + 18, 12, false, text);
    }
    free(powers);
}

static void
draw_lags(cairo_t *cairo, const struct compare_metrics *metrics)
{
    static const uint32_t colours[METRICS_NDIMS] = {0x0072B2, 0xD55E00,
                                                    0x009E73};
    static const char *const names[METRICS_NDIMS] = {"blue", "orange", "green"};
    const struct plot_box box = {LAGS_X, METRICS_Y, METRICS_PANEL_WIDTH,
                                 METRICS_PANEL_HEIGHT};
    char text[160];
    size_t at = (size_t)snprintf(text, sizeof text,
                                 "lags 1 to %d along dimension", METRICS_NLAGS);

    plot_draw_frame(cairo, box, "the error's autocorrelation", -1, 1);
    for (int i = 0; i < metrics->ndims; i++) {
        const struct metrics_dim *dim = &metrics->dims[i];
        double lags[METRICS_NLAGS];
        for (int k = 0; k < METRICS_NLAGS; k++)
            lags[k] = k < dim->nlags ? dim->autocorrelation[k] : (double)NAN;
        plot_draw_curve(cairo, box, lags, METRICS_NLAGS, -1, 1, colours[i]);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s %d (%s)",
                               i > 0 ? "," : "", dim->axis, names[i]);
    }
    plot_draw_text(cairo, box.x, box.y + box.height + 18, 12, false, text);
}

/* Adds the PSNR, or why there is none. Returns the length of the text. */
static size_t
add_psnr(const struct compare_result *result, char *text, size_t cap)
{
    const char *reason = result->nvalid == 0      ? "no valid values"
                         : result->max_error == 0 ? "no error"
                         : isnan(result->psnr)
                             ? "no PSNR: all values are the same"
                             : NULL;

    return (size_t)(reason != NULL ? snprintf(text, cap, "    %s", reason)
                                   : snprintf(text, cap, "    PSNR %.2f dB",
                                              result->psnr));
}

static void
draw_title(cairo_t *cairo, const struct tool_dataset *b,
           const struct compare_result *result,
           const struct compare_picture *picture)
{
    char line[512], type[64];
    size_t at, cap = sizeof line;

    plot_draw_text(cairo, MARGIN, TITLE_Y, 16, true, result->path);
    tool_dataset_type_name(b, type, sizeof type);
    at = (size_t)snprintf(line, cap, "%s %s", type, picture->slice);
    if (result->stored_nbytes > 0)
        at +=
            (size_t)snprintf(line + at, cap - at, "    ratio %.4g",
                             tool_ratio(result->nbytes, result->stored_nbytes));
    at += add_psnr(result, line + at, cap - at);
    if (result->nvalid > 0 && result->max_error > 0)
        at += (size_t)snprintf(line + at, cap - at, "    largest error %.4g",
                               result->max_error);
    if (result->max_error > 0 && !isnan(result->error_of_bound))
        snprintf(line + at, cap - at, ", %.6g of the bound",
                 result->error_of_bound);
    plot_draw_text(cairo, MARGIN, TITLE_Y + 24, 13, false, line);
}

/* The arguments of draw(). */
struct plot {
    const struct tool_dataset *b;
    const struct compare_result *result;
    const struct compare_picture *picture;
    const struct compare_bins *bins;
};

static void
draw(cairo_t *cairo, const void *context)
{
    const struct plot *plot = context;

    draw_title(cairo, plot->b, plot->result, plot->picture);
    if (plot->picture->rank == 2)
        draw_images(cairo, plot->picture);
    else
        draw_curves(cairo, plot->picture);
    draw_bins(cairo, plot->bins);
    if (plot->result->metrics != NULL) {
        draw_spectrum(cairo, plot->result->metrics);
        draw_lags(cairo, plot->result->metrics);
    }
}

bool
plot_compared(const char *directory, const struct tool_dataset *a,
              const struct tool_dataset *b, const struct compare_bounds *bounds,
              struct compare_result *result, char *reason_ret,
              size_t reason_cap)
{
    struct compare_picture picture;
    struct compare_bins bins;
    const struct plot plot = {b, result, &picture, &bins};
    bool ok =
        compare_picture_read(&picture, a, b, result, reason_ret, reason_cap);

    if (ok && picture.rank > 0)
        ok = compare_bins_read(&bins, a, b, bounds, result, reason_ret,
                               reason_cap);
    if (ok && picture.rank > 0) {
        result->picture = plot_draw_file(
            directory, result->path, WIDTH,
            HEIGHT + (result->metrics != NULL ? METRICS_HEIGHT : 0), draw,
            &plot, reason_ret, reason_cap);
        ok = result->picture != NULL;
    }
    compare_picture_free(&picture);
    return ok;
}
