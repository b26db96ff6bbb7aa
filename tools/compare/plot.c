/* terp compare --png: names the file of a picture, and lays the picture out. */
#include "tools/compare/plot.h"

#include <cairo.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/compare/plot_draw.h"

/* Pixels. h5tests/tools/test_tool_png.py finds the images at these places. */
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
    BINS_HEIGHT = 170
};

/* File names: letters, digits and these stay, '/' becomes '+', and other bytes
 * %XX, so that no two datasets share a file. */
#define KEPT_IN_NAMES "_-=,@."
#define MAX_NAME_NBYTES 200

static char *
file_path(const char *directory, const char *dataset)
{
    const char *name = dataset + (*dataset == '/');
    size_t cap = strlen(directory) + 3 * strlen(name) + 32;
    char *path = malloc(cap);
    uint64_t hash = 0xCBF29CE484222325; /* FNV-1a */
    size_t start, at;

    if (path == NULL)
        return NULL;
    start = at = (size_t)snprintf(path, cap, "%s/", directory);
    for (const char *c = name; *c != '\0'; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                      (*c >= '0' && *c <= '9');
        hash = (hash ^ (unsigned char)*c) * 0x100000001B3;
        if (letter ||
            (strchr(KEPT_IN_NAMES, *c) != NULL && !(*c == '.' && at == start)))
            path[at++] = *c;
        else if (*c == '/')
            path[at++] = '+';
        else
            at += (size_t)snprintf(path + at, cap - at, "%%%02X",
                                   (unsigned)(unsigned char)*c);
    }
    if (at - start > MAX_NAME_NBYTES) {
        at = start + MAX_NAME_NBYTES;
        at += (size_t)snprintf(path + at, cap - at, "%%%016" PRIX64, hash);
    }
    snprintf(path + at, cap - at, ".png");
    return path;
}

static void
draw_images(cairo_t *cairo, const struct plot_data *data)
{
    double scale = data->error_scale;
    struct plot_box box = {ORIGINAL_X, IMAGE_Y, IMAGE_SIDE, IMAGE_SIDE};
    struct plot_box bar = {VALUE_BAR_X, IMAGE_Y, 14, IMAGE_SIDE};

    struct plot_image image = {.nx = data->nx,
                               .ny = data->ny,
                               .aspect =
                                   (double)data->nx * (double)data->step_x /
                                   ((double)data->ny * (double)data->step_y),
                               .values = data->a,
                               .min = data->min,
                               .max = data->max,
                               .sequential = true};
    plot_draw_image(cairo, box, "original", &image);
    box.x = COPY_X;
    image.values = data->b;
    plot_draw_image(cairo, box, "reconstruction", &image);
    plot_draw_bar(cairo, bar, &image);

    image.values = data->errors;
    image.min = -scale;
    image.max = scale;
    image.sequential = false;
    box.x = ERROR_X;
    bar.x = ERROR_BAR_X;
    plot_draw_image(cairo, box, "error: reconstruction - original", &image);
    plot_draw_bar(cairo, bar, &image);
}

static void
draw_curves(cairo_t *cairo, const struct plot_data *data)
{
    double min = data->min, max = data->max, scale = data->error_scale;
    struct plot_box box = {CHART_X, IMAGE_Y, CHART_WIDTH, CURVE_HEIGHT};

    plot_draw_frame(cairo, box, "original (black), reconstruction (red)", min,
                    max);
    plot_draw_curve(cairo, box, data->a, data->nx, min, max, 0x202020);
    plot_draw_curve(cairo, box, data->b, data->nx, min, max, 0xD55E00);
    box.y = ERROR_CURVE_Y;
    box.height = ERROR_CURVE_HEIGHT;
    plot_draw_frame(cairo, box, "error: reconstruction - original", -scale,
                    scale);
    plot_draw_curve(cairo, box, data->errors, data->nx, -scale, scale,
                    0xD55E00);
}

static void
draw_bins(cairo_t *cairo, const struct plot_data *data)
{
    struct plot_box box = {CHART_X, BINS_Y, CHART_WIDTH, BINS_HEIGHT};

    plot_draw_bins(cairo, box,
                   data->of_bound
                       ? "errors of all values, in units of the bound"
                       : "errors of all values, in units of the largest one",
                   data->bins, PLOT_NBINS, PLOT_NBINS_INSIDE);
}

static void
draw_title(cairo_t *cairo, const struct tool_dataset *b,
           const struct compare_result *result, const struct plot_data *data)
{
    char line[512], type[64];
    size_t at, cap = sizeof line;

    plot_draw_text(cairo, MARGIN, TITLE_Y, 16, true, result->path);
    tool_dataset_type_name(b, type, sizeof type);
    at = (size_t)snprintf(line, cap, "%s %s", type, data->slice);
    if (result->stored_nbytes > 0)
        at +=
            (size_t)snprintf(line + at, cap - at, "    ratio %.4g",
                             tool_ratio(result->nbytes, result->stored_nbytes));
    at +=
        (size_t)snprintf(line + at, cap - at, "    PSNR %.2f dB", result->psnr);
    at += (size_t)snprintf(line + at, cap - at, "    largest error %.4g",
                           result->max_error);
    if (!isnan(result->error_of_bound))
        snprintf(line + at, cap - at, ", %.6g of the bound",
                 result->error_of_bound);
    plot_draw_text(cairo, MARGIN, TITLE_Y + 24, 13, false, line);
}

static cairo_status_t
draw(const char *path, const struct tool_dataset *b,
     const struct compare_result *result, const struct plot_data *data)
{
    cairo_surface_t *surface =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, WIDTH, HEIGHT);
    cairo_t *cairo = cairo_create(surface);

    cairo_set_source_rgb(cairo, 1, 1, 1);
    cairo_paint(cairo);
    draw_title(cairo, b, result, data);
    if (data->rank == 2)
        draw_images(cairo, data);
    else
        draw_curves(cairo, data);
    draw_bins(cairo, data);
    cairo_status_t status = cairo_status(cairo);
    cairo_destroy(cairo);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_write_to_png(surface, path);
    cairo_surface_destroy(surface);
    return status;
}

bool
plot_compared(const char *directory, const struct tool_dataset *a,
              const struct tool_dataset *b, struct compare_result *result,
              char *reason_ret, size_t reason_cap)
{
    struct plot_data data;
    bool ok = plot_data_read(&data, a, b, result, reason_ret, reason_cap);

    if (ok && data.rank > 0) {
        char *path = file_path(directory, result->path);
        cairo_status_t status = path == NULL ? CAIRO_STATUS_NO_MEMORY
                                             : draw(path, b, result, &data);
        ok = status == CAIRO_STATUS_SUCCESS;
        if (ok) {
            result->picture = path;
        } else {
            snprintf(reason_ret, reason_cap, "%s: %s",
                     path != NULL ? path : directory,
                     cairo_status_to_string(status));
            free(path);
        }
    }
    plot_data_free(&data);
    return ok;
}
