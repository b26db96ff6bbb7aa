/* terp advise --png: draws ratio and PSNR over the bound, with a curve for each
 * pipeline. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "tools/advise/advise.h"
#include "tools/common/plot_draw.h"

_Static_assert((int)ADVISE_NPIPELINES <= (int)PLOT_NSERIES,
               "Each has its own series.");

/* Positions in pixels. */
enum {
    WIDTH = 1000,
    HEIGHT = 480,
    MARGIN = 20,
    TITLE_Y = 34,
    CHART_Y = 120,
    CHART_WIDTH = 400,
    CHART_HEIGHT = 280,
    RATIO_X = 70,
    PSNR_X = 560,
    LEGEND_Y = 84,
    LEGEND_STEP = 120
};

struct plot {
    const char *path;
    const struct advise_sample *sample;
    const struct advise_choice *choices;
};

struct axis {
    double min, max;
    bool logarithmic;
};

/* The position of a value, 0 to 1 on the axis. */
static double
position_on(const struct axis *axis, double value)
{
    return axis->logarithmic
               ? log(value / axis->min) / log(axis->max / axis->min)
               : (value - axis->min) / (axis->max - axis->min);
}

/* The next number of the series 1, 2, 5, 10, 20 and so on. */
static double
next_step(double value)
{
    const double decade = pow(10, floor(log10(value) + 1e-9));

    return value < 1.5 * decade ? 2 * decade
           : value < 3 * decade ? 5 * decade
                                : 10 * decade;
}

/* An axis for all finite values, which begins and ends at a step. */
static struct axis
make_axis(const double *values, bool logarithmic)
{
    const double step = 20; /* dB */
    double min = INFINITY, max = -INFINITY;

    for (int i = 0; i < ADVISE_NCHOICES; i++)
        if (isfinite(values[i])) {
            min = fmin(min, values[i]);
            max = fmax(max, values[i]);
        }
    if (!(min <= max))
        min = max = 1;
    if (!logarithmic)
        return (struct axis){step * floor(min / step),
                             step * (floor(max / step) + 1), false};
    struct axis axis = {pow(10, floor(log10(min))), 0, true};
    while (next_step(axis.min) <= min)
        axis.min = next_step(axis.min);
    for (axis.max = axis.min; axis.max <= max;)
        axis.max = next_step(axis.max);
    return axis;
}

static bool
has_finite(const double *values)
{
    bool found = false;

    for (int i = 0; i < ADVISE_NCHOICES; i++)
        found |= isfinite(values[i]);
    return found;
}

static void
draw_axis(cairo_t *cairo, struct plot_box box, const struct axis *axis)
{
    double step = 20, at = axis->min;
    char label[32];

    while ((axis->max - axis->min) / step > 10)
        step *= 2;
    while (at <= axis->max * (1 + 1e-9)) {
        snprintf(label, sizeof label, "%.4g", at);
        plot_draw_tick(cairo, box, position_on(axis, at), true, label);
        at = axis->logarithmic ? next_step(at) : at + step;
    }
}

/* Draws one number of all choices; `values` has the order of the choices. */
static void
draw_chart(cairo_t *cairo, struct plot_box box, const char *caption,
           const struct plot *plot, const double *values, bool logarithmic)
{
    const struct axis axis = make_axis(values, logarithmic);
    const bool pointwise = plot->choices->pointwise > 0;
    double x[ADVISE_NBOUNDS], y[ADVISE_NBOUNDS];
    char label[32];

    draw_axis(cairo, box, &axis);
    for (int i = 0; i < ADVISE_NBOUNDS; i++) {
        const struct advise_choice *choice =
            &plot->choices[i * ADVISE_NPIPELINES];
        x[i] = (i + 0.5) / ADVISE_NBOUNDS;
        snprintf(label, sizeof label, "%.0e",
                 pointwise ? choice->pointwise : choice->relative);
        plot_draw_tick(cairo, box, x[i], false, label);
    }
    plot_draw_frame(cairo, box, caption, NAN, NAN);
    if (!has_finite(values))
        plot_draw_text(cairo, box.x + 20, box.y + box.height / 2, 12, false,
                       "infinite: no value changes");
    plot_draw_text(cairo, box.x, box.y + box.height + 40, 12, false,
                   pointwise ? "bound, relative to each value"
                             : "bound, relative to the range of the sample");
    for (int k = 0; k < ADVISE_NPIPELINES; k++) {
        for (int i = 0; i < ADVISE_NBOUNDS; i++)
            y[i] = position_on(&axis, values[i * ADVISE_NPIPELINES + k]);
        plot_draw_series(cairo, box, x, y, ADVISE_NBOUNDS, k);
    }
}

static void
draw_legend(cairo_t *cairo, const struct plot *plot)
{
    static const double x[] = {0, 1}, y[] = {0, 0};

    for (int k = 0; k < ADVISE_NPIPELINES; k++) {
        const struct plot_box line = {RATIO_X + k * LEGEND_STEP, LEGEND_Y - 4,
                                      30, 0};
        plot_draw_series(cairo, line, x, y, 2, k);
        plot_draw_text(cairo, line.x + line.width + 8, LEGEND_Y, 12, false,
                       terp_pipeline_name(plot->choices[k].pipeline));
    }
}

static void
draw(cairo_t *cairo, const void *context)
{
    const struct plot *plot = context;
    const struct advise_sample *sample = plot->sample;
    struct plot_box box = {RATIO_X, CHART_Y, CHART_WIDTH, CHART_HEIGHT};
    double ratios[ADVISE_NCHOICES], psnrs[ADVISE_NCHOICES];
    char line[160];

    plot_draw_text(cairo, MARGIN, TITLE_Y, 16, true, plot->path);
    snprintf(line, sizeof line,
             "measured on %" PRIu64 " values, from %.4g to %.4g",
             sample->nvalues, sample->min, sample->max);
    plot_draw_text(cairo, MARGIN, TITLE_Y + 22, 13, false, line);
    draw_legend(cairo, plot);
    for (int i = 0; i < ADVISE_NCHOICES; i++) {
        ratios[i] = plot->choices[i].ratio;
        psnrs[i] = plot->choices[i].psnr;
    }
    draw_chart(cairo, box, "ratio", plot, ratios, true);
    box.x = PSNR_X;
    draw_chart(cairo, box, "PSNR, dB", plot, psnrs, false);
}

char *
advise_plot_choices(const char *directory, const char *path,
                    const struct advise_sample *sample,
                    const struct advise_choice choices[ADVISE_NCHOICES],
                    char *reason_ret, size_t reason_cap)
{
    const struct plot plot = {path, sample, choices};

    return plot_draw_file(directory, path, WIDTH, HEIGHT, draw, &plot,
                          reason_ret, reason_cap);
}
