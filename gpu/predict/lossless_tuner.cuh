/* The lossless tuner's results for a chunk, in the region `lossless_tuner`,
 * which is zero when a call begins. */
#pragma once

#include "codec/model/lossless_samples.h"

/* The bits of the samples' differences under each order along each dimension.
 */
struct cuda_order_weights {
    unsigned long long nbits[TERP_LOSSLESS_NORDERS];
    unsigned long long nsampled;
};

/* A step that is tried. */
struct cuda_lossless_trial {
    struct terp_lossless_step step;
    int64_t center;
    struct cuda_order_weights weights;
    uint64_t more_nbits;
    unsigned long long cost;
};

struct cuda_lossless_tuner {
    int nsteps, best;
    struct cuda_lossless_trial trial[TERP_LOSSLESS_MAX_NSTEPS];
    /* Weights of the step that is used, with its center and without a center.
     */
    struct cuda_order_weights choice, of_zero;
    unsigned long long choice_cost; /* if splines may cost less */
};
