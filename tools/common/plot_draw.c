/* Draws pictures with cairo: files, images, curves, bars and numbers. */
#define _POSIX_C_SOURCE 200809L /* lstat */
#include "tools/common/plot_draw.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/colours.h"

#define INK 0x202020u
#define GREY TOOL_COLOUR_KEPT
#define LIGHT 0xDDDDDDu
#define BLACK TOOL_COLOUR_CHANGED
#define INSIDE 0x3B6FB6u
#define OUTSIDE 0xD55E00u

/* In pixels. */
#define TEXT_SIZE 12
/* Steps of a colour bar; more steps look the same. */
#define BAR_NSTEPS 160
/* Limit for the aspect of an image; longer images would become lines. */
#define MAX_ASPECT 4.0
#define RADIANS_PER_DEGREE 0.017453292519943295

/* ---- files ---- */

/* File names keep letters, digits and these characters; '/' becomes '+', other
 * bytes become %XX. Different datasets get different files; names longer than
 * MAX_NAME_NBYTES end in a hash. */
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

/* An open file, and the error of its first failed write. */
struct output {
    FILE *file;
    int error;
};

static cairo_status_t
write_bytes(void *context, const unsigned char *bytes, unsigned nbytes)
{
    struct output *output = context;

    if (fwrite(bytes, 1, nbytes, output->file) == nbytes)
        return CAIRO_STATUS_SUCCESS;
    output->error = errno;
    return CAIRO_STATUS_WRITE_ERROR;
}

/* Removes an incomplete picture. Leaves devices and links alone. */
static void
remove_file(const char *path)
{
    struct stat found;

    if (lstat(path, &found) == 0 && S_ISREG(found.st_mode))
        unlink(path);
}

/* Writes the picture. Returns NULL, or why it failed. */
static const char *
write_file(cairo_surface_t *surface, const char *path)
{
    struct output output = {.file = fopen(path, "wb")};

    if (output.file == NULL)
        return strerror(errno);
#ifdef SIGXFSZ
    /* Without the signal, fwrite fails at the limit of a file's size. */
    signal(SIGXFSZ, SIG_IGN);
#endif
    const cairo_status_t status =
        cairo_surface_write_to_png_stream(surface, write_bytes, &output);
    if (fclose(output.file) != 0 && output.error == 0)
        output.error = errno;
    if (status == CAIRO_STATUS_SUCCESS && output.error == 0)
        return NULL;
    remove_file(path);
    return output.error != 0 ? strerror(output.error)
                             : cairo_status_to_string(status);
}

char *
plot_draw_file(const char *directory, const char *dataset, int width,
               int height, void (*draw)(cairo_t *cairo, const void *context),
               const void *context, char *reason_ret, size_t reason_cap)
{
    char *path = file_path(directory, dataset);
    cairo_surface_t *surface =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
    cairo_t *cairo = cairo_create(surface);

    cairo_set_source_rgb(cairo, 1, 1, 1);
    cairo_paint(cairo);
    draw(cairo, context);
    cairo_status_t status =
        path == NULL ? CAIRO_STATUS_NO_MEMORY : cairo_status(cairo);
    cairo_destroy(cairo);
    const char *reason = status == CAIRO_STATUS_SUCCESS
                             ? write_file(surface, path)
                             : cairo_status_to_string(status);
    cairo_surface_destroy(surface);
    if (reason == NULL)
        return path;
    snprintf(reason_ret, reason_cap, "%s: %s", path != NULL ? path : directory,
             reason);
    free(path);
    return NULL;
}

/* ---- colours ---- */

static uint32_t
colour_of(const struct plot_image *image, double value)
{
    double position = (value - image->min) / (image->max - image->min);

    if (isnan(value))
        return GREY;
    if (isinf(value))
        return BLACK;
    if (!(image->max > image->min))
        position = 0.5;
    return image->sequential ? tool_colour_sequential(position)
                             : tool_colour_diverging(2 * position - 1);
}

/* ---- elements of pictures ---- */

static void
set_colour(cairo_t *cairo, uint32_t colour)
{
    cairo_set_source_rgb(cairo, (colour >> 16 & 255) / 255.0,
                         (colour >> 8 & 255) / 255.0, (colour & 255) / 255.0);
}

void
plot_draw_text(cairo_t *cairo, double x, double y, double size, bool bold,
               const char *text)
{
    char shown[160];
    size_t length = strlen(text);

    snprintf(shown, sizeof shown, "%s", text);
    if (length >= sizeof shown)
        strcpy(shown + sizeof shown - 4, "...");
    /* Cairo needs UTF-8; names may be other bytes. */
    for (char *c = shown; *c != '\0'; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    cairo_select_font_face(cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD
                                : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, size);
    set_colour(cairo, INK);
    cairo_move_to(cairo, x, y);
    cairo_show_text(cairo, shown);
}

/* Draws a number that begins or, with `ends`, ends at `x`. */
static void
draw_number(cairo_t *cairo, double x, double y, double value, bool ends)
{
    cairo_text_extents_t extents = {0};
    char text[32];

    snprintf(text, sizeof text, "%.4g", value == 0 ? 0 : value); /* no -0 */
    cairo_set_font_size(cairo, TEXT_SIZE);
    if (ends)
        cairo_text_extents(cairo, text, &extents);
    plot_draw_text(cairo, x - extents.x_advance, y, TEXT_SIZE, false, text);
}

static void
draw_caption(cairo_t *cairo, struct plot_box box, const char *text)
{
    plot_draw_text(cairo, box.x, box.y - 8, TEXT_SIZE, false, text);
}

static cairo_surface_t *
paint_values(const struct plot_image *image)
{
    cairo_surface_t *surface =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, image->nx, image->ny);
    unsigned char *pixels = cairo_image_surface_get_data(surface);
    int stride = cairo_image_surface_get_stride(surface);

    for (int y = 0; pixels != NULL && y < image->ny; y++)
        for (int x = 0; x < image->nx; x++) {
            uint32_t pixel = colour_of(image, image->values[y * image->nx + x]);
            memcpy(pixels + (ptrdiff_t)y * stride + 4 * (ptrdiff_t)x, &pixel,
                   sizeof pixel);
        }
    cairo_surface_mark_dirty(surface);
    return surface;
}

void
plot_draw_image(cairo_t *cairo, struct plot_box box, const char *caption,
                const struct plot_image *image)
{
    double aspect = fmin(fmax(image->aspect, 1 / MAX_ASPECT), MAX_ASPECT);
    double width = aspect >= 1 ? box.width : round(box.height * aspect);
    double height = aspect >= 1 ? round(box.width / aspect) : box.height;
    cairo_surface_t *surface = paint_values(image);

    draw_caption(cairo, box, caption);
    cairo_save(cairo);
    cairo_translate(cairo, box.x, box.y);
    cairo_rectangle(cairo, 0, 0, width, height);
    cairo_clip(cairo);
    cairo_scale(cairo, width / image->nx, height / image->ny);
    cairo_set_source_surface(cairo, surface, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(cairo), CAIRO_FILTER_NEAREST);
    cairo_paint(cairo);
    cairo_restore(cairo);
    cairo_surface_destroy(surface);
}

void
plot_draw_bar(cairo_t *cairo, struct plot_box box,
              const struct plot_image *image)
{
    double x = box.x + box.width + 5, height = box.height / BAR_NSTEPS;

    for (int i = 0; i < BAR_NSTEPS; i++) {
        double value =
            image->max - (image->max - image->min) * i / (BAR_NSTEPS - 1);
        set_colour(cairo, colour_of(image, value));
        cairo_rectangle(cairo, box.x, box.y + i * height, box.width, height);
        cairo_fill(cairo);
    }
    if (!isfinite(image->min) || !isfinite(image->max))
        return;
    draw_number(
        cairo, x, box.y + box.height / 2 + TEXT_SIZE / 2.0,
        plot_scale_value(&image->scale, image->min / 2 + image->max / 2),
        false);
    if (!(image->max > image->min))
        return;
    draw_number(cairo, x, box.y + TEXT_SIZE,
                plot_scale_value(&image->scale, image->max), false);
    draw_number(cairo, x, box.y + box.height,
                plot_scale_value(&image->scale, image->min), false);
}

static void
draw_line(cairo_t *cairo, double x0, double y0, double x1, double y1)
{
    set_colour(cairo, INK);
    cairo_set_line_width(cairo, 1);
    cairo_move_to(cairo, x0, y0);
    cairo_line_to(cairo, x1, y1);
    cairo_stroke(cairo);
}

void
plot_draw_frame(cairo_t *cairo, struct plot_box box, const char *caption,
                double min, double max)
{
    draw_caption(cairo, box, caption);
    set_colour(cairo, GREY);
    cairo_set_line_width(cairo, 1);
    cairo_rectangle(cairo, box.x - 0.5, box.y - 0.5, box.width + 1,
                    box.height + 1);
    cairo_stroke(cairo);
    if (!isfinite(min) || !isfinite(max))
        return;
    if (!(max > min)) {
        draw_number(cairo, box.x - 5, box.y + box.height / 2 + TEXT_SIZE / 2.0,
                    max, true);
        return;
    }
    draw_number(cairo, box.x - 5, box.y + TEXT_SIZE, max, true);
    draw_number(cairo, box.x - 5, box.y + box.height, min, true);
}

void
plot_draw_curve(cairo_t *cairo, struct plot_box box, const double *values,
                int nvalues, double min, double max, uint32_t colour)
{
    bool down = false;

    cairo_save(cairo);
    cairo_rectangle(cairo, box.x, box.y, box.width, box.height);
    cairo_clip(cairo);
    for (int i = 0; i < nvalues; i++) {
        double position = max > min ? (values[i] - min) / (max - min) : 0.5;
        double x = box.x + box.width * (i + 0.5) / nvalues;
        double y = box.y + box.height * (1 - fmin(fmax(position, -1), 2));
        bool drawn = isfinite(values[i]);
        if (drawn && down)
            cairo_line_to(cairo, x, y);
        else if (drawn)
            cairo_move_to(cairo, x, y);
        down = drawn;
    }
    set_colour(cairo, colour);
    cairo_set_line_width(cairo, 1.2);
    cairo_set_line_join(cairo, CAIRO_LINE_JOIN_ROUND);
    cairo_set_line_cap(cairo, CAIRO_LINE_CAP_ROUND);
    cairo_stroke(cairo);
    cairo_restore(cairo);
}

void
plot_draw_tick(cairo_t *cairo, struct plot_box box, double position,
               bool across, const char *label)
{
    const double x = box.x + box.width * position;
    const double y = box.y + box.height * (1 - position);
    cairo_text_extents_t extents;

    set_colour(cairo, LIGHT);
    cairo_set_line_width(cairo, 1);
    cairo_move_to(cairo, across ? box.x : x, across ? y : box.y);
    cairo_line_to(cairo, across ? box.x + box.width : x,
                  across ? y : box.y + box.height);
    cairo_stroke(cairo);
    cairo_set_font_size(cairo, TEXT_SIZE);
    cairo_text_extents(cairo, label, &extents);
    if (across)
        plot_draw_text(cairo, box.x - 6 - extents.x_advance,
                       y + TEXT_SIZE / 3.0, TEXT_SIZE, false, label);
    else
        plot_draw_text(cairo, x - extents.x_advance / 2,
                       box.y + box.height + TEXT_SIZE + 6, TEXT_SIZE, false,
                       label);
}

static void
draw_mark(cairo_t *cairo, double x, double y, int series)
{
    if (series == 0) {
        cairo_arc(cairo, x, y, 4, 0, 360 * RADIANS_PER_DEGREE);
    } else if (series == 1) {
        cairo_rectangle(cairo, x - 4, y - 4, 8, 8);
    } else {
        cairo_move_to(cairo, x, y - 5);
        cairo_line_to(cairo, x + 5, y + 4);
        cairo_line_to(cairo, x - 5, y + 4);
        cairo_close_path(cairo);
    }
    cairo_fill(cairo);
}

void
plot_draw_series(cairo_t *cairo, struct plot_box box, const double *x,
                 const double *y, int nmarks, int series)
{
    /* Colours that people with colour blindness distinguish, and dashes for
     * print: M. Okabe and K. Ito, "Color universal design", 2008. */
    static const uint32_t colours[PLOT_NSERIES] = {0x0072B2, 0xD55E00};
    static const double dashes[PLOT_NSERIES][2] = {{1, 0}, {7, 4}};
    bool down = false;

    set_colour(cairo, colours[series]);
    cairo_set_line_width(cairo, 1.6);
    cairo_set_dash(cairo, dashes[series], series == 0 ? 0 : 2, 0);
    for (int layer = 0; layer < 2; layer++) {
        for (int i = 0; i < nmarks; i++) {
            const double at_x = box.x + box.width * x[i];
            const double at_y = box.y + box.height * (1 - y[i]);
            const bool drawn = y[i] >= 0 && y[i] <= 1;
            if (drawn && layer == 1)
                draw_mark(cairo, at_x, at_y, series);
            else if (drawn && down)
                cairo_line_to(cairo, at_x, at_y);
            else if (drawn)
                cairo_move_to(cairo, at_x, at_y);
            down = drawn;
        }
        if (layer == 0)
            cairo_stroke(cairo);
    }
    cairo_set_dash(cairo, NULL, 0, 0);
}

/* Draws the lines of the bound, their numbers, and the number of values in the
 * bars. */
static void
label_bins(cairo_t *cairo, struct plot_box box, const uint64_t *bins, int nbins,
           int ninside)
{
    double middle = box.x + box.width / 2, bottom = box.y + box.height;
    double bound = box.width / nbins * (ninside + 0.5);
    uint64_t noutside = 0, nvalues = 0;
    char text[96];

    for (int sign = -1; sign <= 1; sign++) {
        draw_line(cairo, middle + sign * bound, box.y, middle + sign * bound,
                  bottom + 4);
        draw_number(cairo, middle + sign * bound - 5, bottom + 18, sign, false);
    }
    for (int i = 0; i < nbins; i++) {
        nvalues += bins[i];
        if (i < nbins / 2 - ninside || i > nbins / 2 + ninside)
            noutside += bins[i];
    }
    snprintf(text, sizeof text,
             "%" PRIu64 " values, %" PRIu64 " of them outside -1 .. 1", nvalues,
             noutside);
    plot_draw_text(cairo, box.x, bottom + 40, TEXT_SIZE, false, text);
}

void
plot_draw_bins(cairo_t *cairo, struct plot_box box, const char *caption,
               const uint64_t *bins, int nbins, int ninside)
{
    double width = box.width / nbins;
    uint64_t most = 1;

    draw_caption(cairo, box, caption);
    for (int i = 0; i < nbins; i++)
        most = bins[i] > most ? bins[i] : most;
    for (int i = 0; i < nbins; i++) {
        bool inside = i >= nbins / 2 - ninside && i <= nbins / 2 + ninside;
        double height = box.height * (double)bins[i] / (double)most;
        if (bins[i] == 0)
            continue;
        if (!inside)
            height = fmax(height, 3);
        set_colour(cairo, inside ? INSIDE : OUTSIDE);
        cairo_rectangle(cairo, box.x + i * width + 1, box.y + box.height,
                        width - 2, -height);
        cairo_fill(cairo);
    }
    draw_line(cairo, box.x, box.y + box.height + 0.5, box.x + box.width,
              box.y + box.height + 0.5);
    label_bins(cairo, box, bins, nbins, ninside);
}
