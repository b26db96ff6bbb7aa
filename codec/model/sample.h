/* The samples by which an encoder's tuner chooses. A decoder does not need
 * these numbers, but both engines must choose alike, to the byte.
 * doc/design/03-tuner.md. */
#pragma once

#include "codec/format/base.h"

/* A class is sampled in runs of this many values along dimension 0. */
#define TERP_SAMPLE_RUN_NVALUES 512

/* One value in TERP_SAMPLE_EVERY of a class is sampled, within these limits.
 * More samples gain little; fewer than 2048 lose up to 5 % of ratio in chunks
 * of 64^3. */
#define TERP_SAMPLE_EVERY 64
#define TERP_MIN_NSAMPLES 2048
#define TERP_MAX_NSAMPLES 32768

static inline TERP_HOST_DEVICE uint64_t
terp_nsamples_of(uint64_t nvalues)
{
    uint64_t nwanted = nvalues / TERP_SAMPLE_EVERY;
    nwanted = nwanted < TERP_MIN_NSAMPLES ? TERP_MIN_NSAMPLES : nwanted;
    return min_u64(nwanted, TERP_MAX_NSAMPLES);
}

/* One run in this many of a class is sampled, at least a handful however long
 * they are. The distance is odd: a power of two would give all samples of a
 * chunk with such dims the same coordinates. */
static inline TERP_HOST_DEVICE uint64_t
terp_sample_distance(uint64_t nvalues, uint64_t nruns)
{
    uint64_t every = div_up(nvalues, terp_nsamples_of(nvalues));
    return min_u64(every, div_up(nruns, 4)) | 1;
}

/* Lorenzo samples stretches of this many values of a row; terp_lorenzo_distance
 * tells their distance. */
#define TERP_LORENZO_NVALUES 512

static inline TERP_HOST_DEVICE uint64_t
terp_lorenzo_distance(uint64_t nvalues)
{
    return div_up(nvalues, 2 * terp_nsamples_of(nvalues)) | 1;
}

/* The first value that counts in a stretch that begins at coordinate x of its
 * row: the value before x is not sampled. A row's first value has no
 * predecessor and counts at its full cost: differences along rows alone do not
 * make it smaller. */
static inline TERP_HOST_DEVICE uint64_t
terp_lorenzo_first(uint64_t x)
{
    return x > 0;
}

/* Levels with at most this many points do not gain by blending. */
#define TERP_BLEND_MIN_NVALUES 4096

/* Samples are predicted from original values; a decoder predicts from values
 * that are up to half a step off. A fixed noise stands for that error, in
 * steps. Its amplitude is the root of the sum of the squares of the predictor's
 * weights. An average shares that of the cubic spline, 0.64. Blending has three
 * quarters of the root, because many of the surrounding points belong to
 * coarser levels with tighter bounds, and because samples do not blend at
 * borders. Samples blend long splines in two dimensions only. */
static inline TERP_HOST_DEVICE double
terp_noise_amplitude(int npredicting, int blend_order, bool is_long)
{
    const double steps = blend_order > 1    ? is_long            ? 0.95
                                              : npredicting == 2 ? 0.84
                                              : blend_order == 2 ? 0.65
                                                                 : 1.16
                         : npredicting == 1 ? 0.8
                         : npredicting == 2 ? 0.566
                         : npredicting == 3 ? 0.462
                                            : 0.4;
    return steps / 16; /* for each sixteenth of terp_noise_at */
}

/* The noise in sixteenths of its amplitude, by the point's coordinate along
 * dimension 0: eight evenly spread numbers. */
static inline TERP_HOST_DEVICE int
terp_noise_at(uint64_t x)
{
    /* -7 1 5 -3 7 -1 -5 3, each stored plus 8. */
    return (int)(0xB37F5D91u >> (4 * (x % 8)) & 15) - 8;
}
