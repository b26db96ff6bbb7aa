/* What a byte of dimensions may say to the Lorenzo predictor, and its
 * means: along the slowest dimension an integer may be predicted by the mean of
 * those nearest to it that a hierarchy knows already, in place of the one
 * before it. The hierarchy is that of splines: the i-th is of the step h, the
 * largest power of two that divides i, and rests on those at odd multiples of h
 * from it, which are of larger steps. The first rests on nothing. */
#pragma once

#include "codec/format/layout.h"

/* The bits of the dimensions. */
#define TERP_LORENZO_DIMS ((1u << TERP_NDIMS) - 1)

/* A bit above those of the dimensions. */
#define TERP_LORENZO_MEANS (1u << TERP_NDIMS)

/* Another one: quants are exact, and the model goes on to say how. */
#define TERP_LORENZO_EXACT (2u << TERP_NDIMS)

/* And another: differences have tails, and the model says of how many bits. */
#define TERP_LORENZO_TAILS (4u << TERP_NDIMS)

/* A mean is of those at 1, 3, 5 and 7 steps, before and after, that exist. */
#define TERP_MEANS_REACH 8

#define TERP_MEANS_MIN_EXTENT 8

/* The dimension along which means may be taken: the slowest of a brick that has
 * more than one value, if it has enough; 0: none, not along rows. */
static inline TERP_HOST_DEVICE int
terp_means_dim(const struct terp_layout *layout)
{
    int d = TERP_NDIMS - 1;

    while (d > 0 && layout->dims[d] == 1)
        d--;
    return layout->dims[d] >= TERP_MEANS_MIN_EXTENT ? d : 0;
}

/* Whether means may be taken beside differences along the dimensions of
 * `dims`. They are where no value is special. */
static inline TERP_HOST_DEVICE bool
terp_means_are_possible(const struct terp_layout *layout, unsigned dims,
                        bool has_specials)
{
    return !has_specials && (dims & ~1u) >> terp_means_dim(layout) & 1;
}

/* Of a stream. */
static inline TERP_HOST_DEVICE bool
terp_lorenzo_dims_are_valid(const struct terp_layout *layout, unsigned dims,
                            bool has_specials)
{
    return dims < 2 * TERP_LORENZO_TAILS &&
           ((dims & TERP_LORENZO_MEANS) == 0 ||
            terp_means_are_possible(layout, dims, has_specials));
}

/* An integer that is not the first one's step. */
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

/* Means are taken if sampled differences would be larger in sum, none counting
 * for more than this. */
#define TERP_MEANS_MAX_MAGNITUDE 512
