/* terp compare: prints a table with a line for each dataset. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "tools/common/text.h"
#include "tools/compare/metrics.h"

static void *
text_begin(const char *path_a, const char *path_b)
{
    (void)path_a;
    (void)path_b;
    printf("%-10s %11s %11s %8s %8s %9s  %s\n", "verdict", "error/bound",
           "max error", "PSNR dB", "ratio", "specials", "dataset");
    return NULL;
}

static void
print_verdict(enum compare_verdict verdict)
{
    const char *text = compare_verdict_text(verdict);
    int width = 0;

    for (; text[width] != '\0'; width++)
        putchar(verdict >= COMPARE_EXCEEDED ? toupper(text[width])
                                            : text[width]);
    printf("%*s", 10 - width, "");
}

static void
print_number(const char *format, int width, double value)
{
    char text[32];
    snprintf(text, sizeof text, format, value);
    printf(" %*s", width, isnan(value) ? "-" : text);
}

static void
print_extreme(const char *name, const struct compare_result *result,
              const struct metrics_extreme *extreme)
{
    hsize_t at[H5S_MAX_RANK];

    compare_metrics_coordinates(result, extreme->index, at);
    printf(" %s %.8g at [", name, extreme->value);
    for (int i = 0; i < result->rank; i++)
        printf("%s%" PRIu64, i > 0 ? ", " : "", (uint64_t)at[i]);
    printf("]");
}

/* Prints the shares of the error's power in long, middle and short waves. */
static void
print_spectrum(const struct compare_metrics *metrics)
{
    const double *power = compare_metrics_spectrum(metrics, METRICS_OF_ERROR);
    double bands[3] = {0}, sum = 0;

    for (int i = 0; i < metrics->nwaves; i++) {
        const double cycles = (double)i / metrics->wave_divisor;
        bands[cycles < 1.0 / 6 ? 0 : cycles < 1.0 / 3 ? 1 : 2] += power[i];
        sum += power[i];
    }
    if (sum > 0)
        printf("  error's power in waves longer than 6 steps %.1f %%, 3 to 6 "
               "steps "
               "%.1f %%, shorter %.1f %%\n",
               100 * bands[0] / sum, 100 * bands[1] / sum,
               100 * bands[2] / sum);
}

static void
print_metrics(const struct compare_result *result)
{
    const struct compare_metrics *metrics = result->metrics;

    printf("  RMSE %.4g, correlation %.10g", metrics->rmse,
           metrics->correlation);
    if (metrics->nslices > 0)
        printf(", SSIM %.6f (lowest of %" PRIu64 " slices %.6f)", metrics->ssim,
               metrics->nslices, metrics->ssim_min);
    printf(
        "\n  drift of the mean %.4g: %.3g of the range, %.3g of the standard "
        "deviation\n",
        metrics->drift, metrics->drift_of_range, metrics->drift_of_deviation);
    printf("  A:");
    print_extreme("min", result, &metrics->min_a);
    print_extreme("max", result, &metrics->max_a);
    printf("\n  B:");
    print_extreme("min", result, &metrics->min_b);
    print_extreme("max", result, &metrics->max_b);
    printf("\n");
    for (int i = 0; i < metrics->ndims; i++) {
        const struct metrics_dim *dim = &metrics->dims[i];
        printf("  dimension %d: gradient RMSE %.4g (%.3g of its RMS), largest "
               "error %.4g; error's autocorrelation %.3f\n",
               dim->axis, dim->gradient_rmse, dim->gradient_of_rms,
               dim->gradient_max, dim->autocorrelation[0]);
    }
    print_spectrum(metrics);
}

static void
text_add(void *report, const struct compare_result *result)
{
    (void)report;
    print_verdict(result->verdict);
    print_number("%.6f", 11, result->error_of_bound);
    print_number("%.4g", 11, result->max_error);
    print_number("%.2f", 8, result->psnr);
    print_number("%.2f", 8, tool_ratio(result->nbytes, result->stored_nbytes));
    print_number("%.0f", 9,
                 result->compared ? (double)result->nspecials : (double)NAN);
    printf("  %s", tool_shown(result->path));
    if (result->reason[0] != '\0')
        printf(": %s", tool_shown(result->reason));
    if (result->nleft_out > 0)
        printf("%s %" PRIu64 " values left out of PSNR",
               result->reason[0] != '\0' ? "," : ":", result->nleft_out);
    printf("\n");
    if (result->metrics != NULL)
        print_metrics(result);
}

const struct compare_report compare_report_text = {.begin = text_begin,
                                                   .add = text_add};
