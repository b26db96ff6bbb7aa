/* What an encoder's tuner samples of a chunk to choose by. A decoder does not
 * know these numbers, but every engine must choose alike, to the byte. */
#pragma once

#include "codec/format/base.h"

/* Values of a class are sampled in runs of this many along dimension 0. */
#define TERP_SAMPLE_RUN_NVALUES 512

/* Values that are sampled of a class: one in so many, within limits. More
 * gain little, see doc/design/03-tuner.md. */
#define TERP_SAMPLE_EVERY 64
#define TERP_MIN_NSAMPLES 2048
#define TERP_MAX_NSAMPLES 32768

/* How many samples are wanted of so many values. */
static inline TERP_HOST_DEVICE uint64_t
terp_nsamples_of(uint64_t nvalues)
{
    uint64_t nwanted = nvalues / TERP_SAMPLE_EVERY;
    nwanted = nwanted < TERP_MIN_NSAMPLES ? TERP_MIN_NSAMPLES : nwanted;
    return min_u64(nwanted, TERP_MAX_NSAMPLES);
}

/* One in how many of a class's runs is sampled, at least a handful however
 * long they are. An odd distance meets every coordinate of dims that are
 * powers of two. */
static inline TERP_HOST_DEVICE uint64_t
terp_sample_distance(uint64_t nvalues, uint64_t nruns)
{
    uint64_t every = div_up(nvalues, terp_nsamples_of(nvalues));
    return min_u64(every, div_up(nruns, 4)) | 1;
}

/* Lorenzo samples stretches of this many values of a row, one in so many as
 * terp_lorenzo_distance says. */
#define TERP_LORENZO_NVALUES 512

static inline TERP_HOST_DEVICE uint64_t
terp_lorenzo_distance(uint64_t nvalues)
{
    return div_up(nvalues, 2 * terp_nsamples_of(nvalues)) | 1;
}

/* The first value that counts of a stretch that begins at x in its row: the
 * value before x is not sampled. A row's first value has none before it, and
 * counts with what it costs: differences along rows alone leave it whole. */
static inline TERP_HOST_DEVICE uint64_t
terp_lorenzo_first(uint64_t x)
{
    return x > 0;
}

/* Blending pays in levels with more points than this. */
#define TERP_BLEND_MIN_NVALUES 4096

/* Sampled predictions rest on original values; the decoder's rest on values
 * that are up to half a step off. A noise stands for what that adds to an
 * error, in steps. Its amplitude is the root of the sum of the weights'
 * squares; for an average the sum of a cubic spline's, 0.64, is shared; for
 * blending it is three quarters of the root, since many of the points around
 * are of coarser levels, whose bounds are tighter, and since samples blend at
 * no border. Long splines are blended in samples of two dimensions alone. */
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
    return steps / 16; /* for each sixteenth that terp_noise_at tells */
}

/* The noise, in sixteenths of a step of amplitude 1, by the point's place
 * along dimension 0: eight evenly spread numbers. */
static inline TERP_HOST_DEVICE int
terp_noise_at(uint64_t x)
{
    /* -7 1 5 -3 7 -1 -5 3, and 8 of each. */
    return (int)(0xB37F5D91u >> (4 * (x % 8)) & 15) - 8;
}
