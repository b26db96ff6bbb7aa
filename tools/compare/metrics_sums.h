/* terp compare --metrics: a block of up to three dimensions, and the sums over
 * blocks. */
#pragma once

#include "tools/compare/metrics.h"

/* Blocks are read with this many more values in each dimension, up to the
 * dataset's edge: enough for the longest lag and for the rest of an SSIM
 * window. */
#define METRICS_HALO METRICS_NLAGS

/* Arrays of count[0] x count[1] x count[2] values. The first core[i] indices
 * belong to the block, the others are neighbours. */
struct metrics_block {
    uint64_t core[METRICS_NDIMS], count[METRICS_NDIMS];
    uint64_t stride[METRICS_NDIMS]; /* distance of neighbours in the arrays */
    uint64_t first_slice;           /* number of the 2-D slice where it
                                       starts */
    double *a, *b;                  /* `a` is NAN where a value is missing */
    double *errors;                 /* b - a; 0 where missing */
    bool whole;                     /* no value is missing */
};

/* The index in the arrays of the first value of row (z, y). */
static inline uint64_t
metrics_row(const struct metrics_block *block, uint64_t z, uint64_t y)
{
    return z * block->stride[0] + y * block->stride[1];
}

/* Sums over pairs of neighbours in one dimension. */
struct metrics_near_sum {
    double products[METRICS_NLAGS]; /* of errors minus their mean */
    uint64_t npairs[METRICS_NLAGS];
    double gradient_errors, gradients; /* squares */
    double gradient_max;
    uint64_t ngradients;
};

/* Adds the pairs in dimension `dim` that begin in the block: differences of
 * neighbours, and products of errors minus their mean. */
void
metrics_near_gradients(struct metrics_near_sum *sum,
                       const struct metrics_block *block, int dim);

void
metrics_near_products(struct metrics_near_sum *sum,
                      const struct metrics_block *block, int dim, int nlags);

/* The data SSIM of 2-D slices. */
struct metrics_ssim_slice {
    double low, high; /* of the valid values of A and B */
    double sum;       /* over windows */
    uint64_t nwindows;
};

struct metrics_ssim {
    struct metrics_ssim_slice *slices; /* NULL: slices are smaller than a
                                          window */
    uint64_t nslices;
    double *rows; /* a ring of WINDOW filtered rows */
    double *scaled;
    uint64_t cap; /* values of a row */
};

/* False without memory. Free in any case. */
bool
metrics_ssim_open(struct metrics_ssim *ssim, uint64_t nslices, uint64_t height,
                  uint64_t width, uint64_t cap);

void
metrics_ssim_free(struct metrics_ssim *ssim);

/* Call metrics_ssim_range for all blocks, then metrics_ssim_add for all. */
void
metrics_ssim_range(struct metrics_ssim *ssim,
                   const struct metrics_block *block);

void
metrics_ssim_add(struct metrics_ssim *ssim, const struct metrics_block *block);

void
metrics_ssim_end(const struct metrics_ssim *ssim,
                 struct compare_metrics *metrics);

/* The power spectra of blocks of one shape. */
struct metrics_fourier;

/* NULL without memory. */
struct metrics_fourier *
metrics_fourier_open(const uint64_t shape[METRICS_NDIMS]);

void
metrics_fourier_free(struct metrics_fourier *fourier);

/* Call it before metrics_fourier_add. The mean, the range and the root mean
 * square error make values and errors similar in size, so that one transform
 * serves both. */
void
metrics_fourier_begin(struct metrics_fourier *fourier, double mean_a,
                      double range_a, double rmse);

/* Adds the values and errors of a block, unless the dataset's edge cuts the
 * block. */
void
metrics_fourier_add(struct metrics_fourier *fourier,
                    const struct metrics_block *block);

/* False without memory. */
bool
metrics_fourier_end(const struct metrics_fourier *fourier,
                    struct compare_metrics *metrics);
