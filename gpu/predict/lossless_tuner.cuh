/* What the lossless prediction's tuner knows of a chunk, in the region
 * `lossless_tuner`, which is zero when a call begins. */
#pragma once

#include "codec/model/lossless_samples.h"

/* The bits of samples' differences of each order along each dimension. */
struct cuda_order_weights {
    unsigned long long nbits[TERP_LOSSLESS_NORDERS];
    unsigned long long nsampled;
};

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
    /* Of the step that is taken; of the same without a center. */
    struct cuda_order_weights choice, of_zero;
    unsigned long long choice_cost; /* where splines may cost less */
};
