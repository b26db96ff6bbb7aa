/* terp compare --metrics: measures of a copy beside its largest error.
 * doc/metrics.md defines each number. */
#pragma once

#include "tools/compare/compare.h"

enum {
    METRICS_NDIMS = 3,    /* dimensions with neighbours and lags */
    METRICS_NLAGS = 16,   /* of the autocorrelation */
    METRICS_NWAVES = 1024 /* lower limit 1 / METRICS_NWAVES for the width of a
                             spectrum's bins */
};

enum metrics_spectrum {
    METRICS_OF_ERROR, /* the sum of its bins is the mean square error */
    METRICS_OF_A,     /* of A's values minus their mean */
    METRICS_OF_B,     /* of B's values minus the mean of A */
    METRICS_NSPECTRA
};

/* A minimum or maximum, and its first occurrence in C order. */
struct metrics_extreme {
    double value;
    uint64_t index;
};

/* Metrics of one dimension. NAN: undefined. */
struct metrics_dim {
    int axis;       /* its number in the dataset */
    uint64_t block; /* length of the transformed blocks */
    double gradient_rmse, gradient_max;
    double gradient_of_rms; /* gradient_rmse over the RMS of A's gradient */
    int nlags;
    double autocorrelation[METRICS_NLAGS]; /* lag 1 first */
};

/* All metrics. NAN: undefined. */
struct compare_metrics {
    uint64_t nvalues; /* valid values, see doc/metrics.md */
    double rmse, correlation;
    double mean_a, mean_b;
    double drift, drift_of_range, drift_of_deviation;
    struct metrics_extreme min_a, max_a, min_b, max_b;

    uint64_t nslices; /* slices that have an SSIM */
    double ssim, ssim_min;

    int ndims; /* the last dimensions longer than 1 */
    struct metrics_dim dims[METRICS_NDIMS];

    int nwaves;       /* 0 if no block was transformed */
    int wave_divisor; /* bin k is for k / wave_divisor cycles per step */
    double *power;    /* METRICS_NSPECTRA times nwaves bins */
};

/* The power in each of metrics->nwaves bins. */
static inline const double *
compare_metrics_spectrum(const struct compare_metrics *metrics,
                         enum metrics_spectrum which)
{
    return metrics->power + (size_t)which * (size_t)metrics->nwaves;
}

/* Measures a compared pair; `result` gives the range of A. Free the metrics
 * with compare_metrics_free. NULL: *reason_ret says why. */
struct compare_metrics *
compare_metrics_measure(const struct tool_dataset *a,
                        const struct tool_dataset *b,
                        const struct compare_result *result, char *reason_ret,
                        size_t reason_cap);

void
compare_metrics_free(struct compare_metrics *metrics);

/* Converts the index of a value into coordinates. */
void
compare_metrics_coordinates(const struct compare_result *result, uint64_t index,
                            hsize_t *at_ret);
