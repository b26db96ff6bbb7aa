/* The Lorenzo predictor's byte of dimensions, and its means. Along the slowest
 * dimension, the mean of the nearest decoded integers may predict an integer in
 * place of the integer before it. Means follow a hierarchy like that of
 * splines: integer i has the step h, the largest power of two that divides i.
 * Its mean is over the integers at odd multiples of h from it, which have
 * larger steps. Nothing predicts the first integer. */
#pragma once

#include "codec/format/layout.h"

/* Bits of dimensions. */
#define TERP_LORENZO_DIMS ((1u << TERP_NDIMS) - 1)

/* Flag: means are taken. */
#define TERP_LORENZO_MEANS (1u << TERP_NDIMS)

/* Flag: quants are exact, and the model describes them. */
#define TERP_LORENZO_EXACT (2u << TERP_NDIMS)

/* Flag: differences have tails, and the model holds their number of bits. */
#define TERP_LORENZO_TAILS (4u << TERP_NDIMS)

/* A mean is over the integers 1, 3, 5 and 7 steps before and after, as far as
 * they exist. */
#define TERP_MEANS_REACH 8

#define TERP_MEANS_MIN_EXTENT 8

/* The dimension along which means may be taken: the slowest dimension of a
 * brick with more than one value, if it has at least TERP_MEANS_MIN_EXTENT. 0:
 * none; means are never taken along rows. */
static inline TERP_HOST_DEVICE int
terp_means_dim(const struct terp_layout *layout)
{
    int d = TERP_NDIMS - 1;

    while (d > 0 && layout->dims[d] == 1)
        d--;
    return layout->dims[d] >= TERP_MEANS_MIN_EXTENT ? d : 0;
}

/* Whether means may be taken beside differences along `dims`. A chunk with
 * special values has no means. */
static inline TERP_HOST_DEVICE bool
terp_means_are_possible(const struct terp_layout *layout, unsigned dims,
                        bool has_specials)
{
    return !has_specials && (dims & ~1u) >> terp_means_dim(layout) & 1;
}

/* Whether a stream's byte of dimensions is valid. */
static inline TERP_HOST_DEVICE bool
terp_lorenzo_dims_are_valid(const struct terp_layout *layout, unsigned dims,
                            bool has_specials)
{
    return dims < 2 * TERP_LORENZO_TAILS &&
           ((dims & TERP_LORENZO_MEANS) == 0 ||
            terp_means_are_possible(layout, dims, has_specials));
}

/* The step of integer i, which is not the first. */
static inline TERP_HOST_DEVICE uint64_t
terp_means_step(uint64_t i)
{
    return i & (0 - i);
}

/* The largest step of `extent` integers. */
static inline TERP_HOST_DEVICE uint64_t
terp_means_first_step(uint64_t extent)
{
    uint64_t step = 1;

    while (step < extent - step)
        step *= 2;
    return step;
}

/* ---- an encoder's choice ---- */

/* Means are taken if they make the sum of sampled magnitudes smaller. A
 * magnitude counts as this at most. */
#define TERP_MEANS_MAX_MAGNITUDE 512
