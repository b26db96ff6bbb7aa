/* terp report: draws charts as SVG. Colours come from the style of the page, so
 * that they suit a light and a dark page, and print. */
#include <math.h>
#include <stdlib.h>

#include "tools/report/report.h"

/* In units of the picture, which are pixels on the screen of a phone. */
enum {
    WIDTH = 360,
    HEIGHT = 236,
    LEFT = 56,
    RIGHT = 8,
    TOP = 26,
    BOTTOM = 40,
    PLOT_WIDTH = WIDTH - LEFT - RIGHT,
    PLOT_HEIGHT = HEIGHT - TOP - BOTTOM,
    MAX_NTICKS = 12,
    LEGEND_STEP = 92,
    LABEL_Y = 4 /* from the middle of digits to their base line */
};

/* Points of a spectrum: more are closer than pixels. */
#define NPOINTS 160
/* Decades of a spectrum below its largest power. */
#define MAX_NDECADES 18

struct axis {
    double min, max; /* for `logarithmic`: exponents of ten */
    bool logarithmic;
    const struct plot_scale *scale; /* NULL, or what positions mean */
};

static double
place_x(double position)
{
    return LEFT + PLOT_WIDTH * position;
}

static double
place_y(double position)
{
    return TOP + PLOT_HEIGHT * (1 - position);
}

static double
position_on(const struct axis *axis, double value)
{
    if (axis->logarithmic)
        value = log10(value);
    return axis->max > axis->min ? (value - axis->min) / (axis->max - axis->min)
                                 : 0.5;
}

static void
put_coordinate(struct html *html, const char *name, double coordinate)
{
    html_printf(html, " %s=\"", name);
    html_coordinate(html, coordinate);
    html_put(html, "\"");
}

static void
put_label(struct html *html, double x, double y, const char *anchor,
          const char *label)
{
    html_put(html, "<text");
    put_coordinate(html, "x", x);
    put_coordinate(html, "y", y);
    html_printf(html, " text-anchor=\"%s\">%s</text>", anchor, label);
}

static void
put_line(struct html *html, const char *class, double x0, double y0, double x1,
         double y1)
{
    html_printf(html, "<line class=\"%s\"", class);
    put_coordinate(html, "x1", x0);
    put_coordinate(html, "y1", y0);
    put_coordinate(html, "x2", x1);
    put_coordinate(html, "y2", y1);
    html_put(html, "/>");
}

static void
put_tick_x(struct html *html, double position, const char *label)
{
    put_line(html, "grid", place_x(position), TOP, place_x(position),
             TOP + PLOT_HEIGHT + 4);
    put_label(html, place_x(position), TOP + PLOT_HEIGHT + 17, "middle", label);
}

static void
put_tick_y(struct html *html, double position, const char *label)
{
    put_line(html, "grid", LEFT - 4, place_y(position), LEFT + PLOT_WIDTH,
             place_y(position));
    put_label(html, LEFT - 7, place_y(position) + LABEL_Y, "end", label);
}

/* A step of 1, 2 or 5 times a power of ten, for about `n` steps. */
static double
nice_step(double range, int n)
{
    const double decade = pow(10, floor(log10(range / n)));
    const double rest = range / n / decade;

    return decade * (rest <= 1 ? 1 : rest <= 2 ? 2 : rest <= 5 ? 5 : 10);
}

/* The label of a value on an axis. */
static const char *
label_of(const struct axis *axis, double value,
         char text_ret[HTML_NUMBER_NBYTES])
{
    if (axis->logarithmic)
        return html_power_text((int)lround(value), text_ret);
    if (axis->scale != NULL)
        value = plot_scale_value(axis->scale, value);
    return html_number_text(value, 6, text_ret);
}

static void
put_ticks(struct html *html, const struct axis *axis, int n,
          void (*put_tick)(struct html *html, double position,
                           const char *label))
{
    char label[HTML_NUMBER_NBYTES];
    const double range = axis->max - axis->min;

    if (!(range > 0) || !isfinite(range)) {
        put_tick(html, 0.5, label_of(axis, axis->max, label));
        return;
    }
    double step = nice_step(range, n);
    if (axis->logarithmic || (axis->scale != NULL && axis->scale->floor > 0))
        step = fmax(ceil(range / n), 1);
    const double first = ceil(axis->min / step - 1e-9) * step;
    for (int i = 0; i < MAX_NTICKS; i++) {
        const double at = first + i * step;
        if (at > axis->max + range * 1e-9)
            break;
        const double value = fabs(at) < step * 1e-9 ? 0 : at;
        put_tick(html, (value - axis->min) / range,
                 label_of(axis, value, label));
    }
}

static void
begin(struct html *html, const char *label)
{
    html_printf(html,
                "<svg class=\"chart\" viewBox=\"0 0 %d %d\" role=\"img\" "
                "aria-label=\"%s\">",
                WIDTH, HEIGHT, label);
}

/* Ends the chart with its frame and the name of its x axis. */
static void
end(struct html *html, const char *name_x)
{
    html_put(html, "<rect class=\"frame\"");
    put_coordinate(html, "x", LEFT);
    put_coordinate(html, "y", TOP);
    put_coordinate(html, "width", PLOT_WIDTH);
    put_coordinate(html, "height", PLOT_HEIGHT);
    html_put(html, "/>");
    put_label(html, LEFT + PLOT_WIDTH / 2.0, HEIGHT - 5, "middle", name_x);
    html_put(html, "</svg>\n");
}

/* Names a curve above the chart. */
static void
put_legend(struct html *html, int nth, const char *class, const char *name)
{
    const double x = LEFT + nth * LEGEND_STEP;

    put_line(html, class, x, TOP - 14, x + 22, TOP - 14);
    put_label(html, x + 27, TOP - 10, "start", name);
}

/* Draws a curve through points of the axes. Points without a coordinate
 * interrupt it. */
static void
put_curve(struct html *html, const char *class, const struct axis *axis_x,
          const struct axis *axis_y, const double *x, const double *y, int n)
{
    bool down = false, any = false;

    for (int i = 0; i < n; i++) {
        const double to_x = position_on(axis_x, x[i]);
        const double to_y = position_on(axis_y, y[i]);
        if (!isfinite(to_x) || !isfinite(to_y)) {
            down = false;
            continue;
        }
        if (!any)
            html_printf(html, "<path class=\"%s\" d=\"", class);
        html_put(html, down ? "L" : "M");
        html_coordinate(html, place_x(to_x));
        html_put(html, " ");
        html_coordinate(html, place_y(fmin(fmax(to_y, 0), 1)));
        if (!down) /* a single point shows, too */
            html_put(html, "h0");
        down = any = true;
    }
    if (any)
        html_put(html, "\"/>");
}

/* ---- histogram ---- */

void
report_bins(struct html *html, const struct compare_bins *bins)
{
    const int middle = PICTURE_NBINS / 2;
    const double width = (double)PLOT_WIDTH / PICTURE_NBINS;
    const double bound = (PICTURE_NBINS_INSIDE + 0.5) / PICTURE_NBINS;
    uint64_t nvalues = 0, most = 1, noutside = 0;
    char label[HTML_NUMBER_NBYTES];

    for (int i = 0; i < PICTURE_NBINS; i++) {
        nvalues += bins->counts[i];
        most = bins->counts[i] > most ? bins->counts[i] : most;
        if (abs(i - middle) > PICTURE_NBINS_INSIDE)
            noutside += bins->counts[i];
    }
    html_put(html, "<figure>");
    begin(html, "Histogram of the errors");
    const struct axis axis = {
        0, 100 * (double)most / (double)(nvalues > 0 ? nvalues : 1), false,
        NULL};
    put_ticks(html, &axis, 4, put_tick_y);
    put_label(html, LEFT, TOP - 10, "start", "% of all values");
    for (int i = 0; i < PICTURE_NBINS; i++) {
        const bool inside = abs(i - middle) <= PICTURE_NBINS_INSIDE;
        double height = PLOT_HEIGHT * (double)bins->counts[i] / (double)most;
        if (bins->counts[i] == 0)
            continue;
        if (!inside)
            height = fmax(height, 3); /* few values must show */
        html_printf(html, "<rect class=\"%s\"", inside ? "inside" : "outside");
        put_coordinate(html, "x", LEFT + i * width + 0.3);
        put_coordinate(html, "y", TOP + PLOT_HEIGHT - height);
        put_coordinate(html, "width", width - 0.6);
        put_coordinate(html, "height", height);
        html_put(html, "/>");
    }
    for (int sign = -1; sign <= 1; sign++) {
        const double x = place_x(0.5 + sign * bound);
        if (sign != 0)
            put_line(html, "limit", x, TOP, x, TOP + PLOT_HEIGHT);
        put_label(html, x, TOP + PLOT_HEIGHT + 17, "middle",
                  html_number_text(sign, 1, label));
    }
    end(html, bins->of_bound ? "error, divided by the bound"
                             : "error, divided by the largest error");
    html_put(html, "<figcaption>Errors of all ");
    html_count(html, nvalues);
    html_put(html, " values");
    if (bins->of_bound && noutside == 0)
        html_put(html, "; all lie within the bound");
    else if (bins->of_bound) {
        html_put(html, "; <strong>");
        html_count(html, noutside);
        html_put(html, " lie outside the bound</strong>");
    }
    html_put(html, ".</figcaption></figure>\n");
}

/* ---- spectra ---- */

/* A spectrum at NPOINTS wave numbers, evenly spaced on a logarithmic axis: the
 * mean power of the bins near each. */
struct spectrum {
    double x[NPOINTS], y[NPOINTS];
    int n;
    double max, min; /* of the powers above 0 */
};

static void
thin(const struct compare_metrics *metrics, enum metrics_spectrum which,
     struct spectrum *spectrum_ret)
{
    const double *power = compare_metrics_spectrum(metrics, which);
    const int nwaves = metrics->nwaves;
    double from = 1;

    *spectrum_ret = (struct spectrum){.max = -INFINITY, .min = INFINITY};
    for (int i = 0; i < NPOINTS && from < nwaves; i++) {
        const double to =
            fmax(from + 1, floor(pow(nwaves, (i + 1.0) / NPOINTS) + 0.5));
        double sum = 0;
        int n = 0;
        for (int k = (int)from; k < to && k < nwaves; k++, n++)
            sum += power[k];
        const double mean = sum / n;
        spectrum_ret->x[spectrum_ret->n] =
            (from + (n - 1) / 2.0) / metrics->wave_divisor;
        spectrum_ret->y[spectrum_ret->n++] = mean > 0 ? mean : (double)NAN;
        if (mean > 0 && isfinite(mean)) {
            spectrum_ret->max = fmax(spectrum_ret->max, mean);
            spectrum_ret->min = fmin(spectrum_ret->min, mean);
        }
        from = to;
    }
}

/* Labels the x axis by wave lengths in steps: 2, 5, 10, 20 and so on. */
static void
put_lengths(struct html *html, const struct axis *axis)
{
    static const double mantissas[] = {1, 2, 5};
    char label[HTML_NUMBER_NBYTES];
    double last = 2;

    for (int i = 1; i < 24; i++) {
        const double length = mantissas[i % 3] * pow(10, i / 3);
        const double position = position_on(axis, 1 / length);
        if (position < -1e-9 || position > 1 + 1e-9 || last - position < 0.09)
            continue;
        put_tick_x(html, position, html_number_text(length, 4, label));
        last = position;
    }
}

void
report_spectra(struct html *html, const struct compare_metrics *metrics,
               bool has_errors)
{
    struct spectrum before, after, error;
    double max, min;

    thin(metrics, METRICS_OF_A, &before);
    thin(metrics, METRICS_OF_B, &after);
    thin(metrics, METRICS_OF_ERROR, &error);
    max = before.max;
    min = before.min;
    if (has_errors) {
        max = fmax(max, fmax(after.max, error.max));
        min = fmin(min, fmin(after.min, error.min));
    }
    if (before.n < 2 || !isfinite(max) || !isfinite(min))
        return;
    const struct axis axis_x = {log10(before.x[0]),
                                log10(before.x[before.n - 1]), true, NULL};
    struct axis axis_y = {floor(log10(min)), ceil(log10(max)), true, NULL};
    axis_y.min = fmax(axis_y.min, axis_y.max - MAX_NDECADES);
    if (axis_y.min == axis_y.max)
        axis_y.min--;
    html_put(html, "<figure>");
    begin(html, "Power spectrum");
    put_ticks(html, &axis_y, 5, put_tick_y);
    put_lengths(html, &axis_x);
    put_curve(html, "before", &axis_x, &axis_y, before.x, before.y, before.n);
    put_legend(html, 0, "before", has_errors ? "original" : "values");
    if (has_errors) {
        put_curve(html, "after", &axis_x, &axis_y, after.x, after.y, after.n);
        put_legend(html, 1, "after", "copy");
        put_curve(html, "error", &axis_x, &axis_y, error.x, error.y, error.n);
        put_legend(html, 2, "error", "error");
    }
    end(html, "wave length in steps of the grid");
    html_put(html, "<figcaption>Power spectrum");
    html_put(html,
             has_errors
                 ? ": where the error is far below the original, the copy "
                   "keeps the waves of that length.</figcaption>"
                 : " of the values.</figcaption>");
    html_put(html, "</figure>\n");
}

/* ---- curves ---- */

/* Curves over the index of the value. */
struct lines {
    const char *name, *units;
    struct axis axis;
    const double *values; /* drawn with `class` */
    const char *class;
    const double *copy; /* NULL: none */
};

static void
put_lines(struct html *html, const struct compare_picture *picture,
          const struct lines *lines)
{
    double x[PICTURE_MAX_CURVE];
    const int n = picture->nx;
    const double first = (double)picture->at_x;
    const struct axis axis = {first, first + fmax(n - 1, 1), false, NULL};

    for (int i = 0; i < n; i++)
        x[i] = first + i;
    html_put(html, "<figure>");
    begin(html, lines->name);
    put_ticks(html, &lines->axis, 5, put_tick_y);
    put_ticks(html, &axis, 5, put_tick_x);
    put_curve(html, lines->class, &axis, &lines->axis, x, lines->values, n);
    if (lines->copy != NULL) {
        put_curve(html, "after", &axis, &lines->axis, x, lines->copy, n);
        put_legend(html, 0, "before", "original");
        put_legend(html, 1, "after", "copy");
    }
    end(html, "index");
    html_printf(html, "<figcaption>%s", lines->name);
    report_put_units(html, lines->units);
    html_put(html, ".</figcaption></figure>\n");
}

void
report_curves(struct html *html, const struct compare_picture *picture,
              bool has_original, const char *units)
{
    const double limit = picture->error_scale;
    const struct lines values = {
        .name = picture->scale.floor > 0 ? "Values, on a logarithmic axis"
                                         : "Values",
        .units = units,
        .axis = {picture->min, picture->max, false, &picture->scale},
        .values = picture->a,
        .class = "before",
        .copy = has_original ? picture->b : NULL};
    const struct lines errors = {.name = picture->is_relative
                                             ? "Error, divided by the value"
                                             : "Error: copy minus original",
                                 .units = picture->is_relative ? "" : units,
                                 .axis = {-limit, limit, false, NULL},
                                 .values = picture->errors,
                                 .class = "trace"};

    if (!(picture->max >= picture->min)) {
        html_put(html, "<p>The middle of the dataset has only special "
                       "values.</p>\n");
        return;
    }
    html_put(html, "<div class=\"charts\">");
    put_lines(html, picture, &values);
    if (has_original && limit > 0 && isfinite(limit))
        put_lines(html, picture, &errors);
    html_put(html, "</div>\n");
}
