/* terp compare --metrics: how a copy differs from its original, beyond the
 * largest error. doc/metrics.md defines each number. */
#pragma once

#include "tools/compare/compare.h"

enum {
    METRICS_NDIMS = 3,    /* dimensions along which neighbours are looked at */
    METRICS_NLAGS = 16,   /* of the autocorrelation */
    METRICS_NWAVES = 1024 /* a spectrum's bins are no narrower than 1 / this */
};

/* A smallest or largest value and its place, the first one in C order. */
struct metrics_extreme {
    double value;
    uint64_t index;
};

/* Of one dimension. NAN: not defined. */
struct metrics_dim {
    int axis;       /* its number in the dataset */
    uint64_t block; /* values of it that are transformed at a time */
    double gradient_rmse, gradient_max;
    double gradient_of_rms; /* gradient_rmse over the RMS of A's */
    int nlags;
    double autocorrelation[METRICS_NLAGS]; /* of lag 1 first */
};

/* Numbers that are not defined are NAN. */
struct compare_metrics {
    uint64_t nvalues; /* that count: see doc/metrics.md */
    double rmse, correlation;
    double mean_a, mean_b;
    double drift, drift_of_range, drift_of_deviation;
    struct metrics_extreme min_a, max_a, min_b, max_b;

    uint64_t nslices; /* that have a SSIM */
    double ssim, ssim_min;

    int ndims; /* the last ones of those longer than 1 */
    struct metrics_dim dims[METRICS_NDIMS];

    int nwaves;       /* 0 where no block was transformed */
    int wave_divisor; /* bin k is of k / this cycles a step */
    double
        *spectrum; /* power of each bin; their sum is the mean square error */
};

/* Measures a pair that was compared, whose result tells the range of A. NULL
 * with a reason; free with compare_metrics_free. */
struct compare_metrics *
compare_metrics_measure(const struct tool_dataset *a,
                        const struct tool_dataset *b,
                        const struct compare_result *result, char *reason_ret,
                        size_t reason_cap);

void
compare_metrics_free(struct compare_metrics *metrics);

/* The place of a value as coordinates. */
void
compare_metrics_place(const struct compare_result *result, uint64_t index,
                      hsize_t *at_ret);
