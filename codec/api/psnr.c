/* The search for the bound of a PSNR: chunks are encoded, decoded and measured
 * until their mean square error is at most what was asked for, and not much
 * less. All numbers are logarithms to base 2, of which errors are parts of the
 * range; there is no libm in it, as the bytes must not depend on one. */
#include "codec/api/psnr.h"

#include <fenv.h>
#include <string.h>

#include "codec/api/processor.h"

#define TERP_VALUE_NBYTES 8
#include "codec/model/logarithm.h"

#define LOG2_10 0x1.a934f0979a371p+1
#define LOG2_3 0x1.95c01a39fbd68p+0

/* 0.5 dB, and what is aimed at, 0.15 dB, of a square. */
#define TOLERANCE (0.05 * LOG2_10)
#define AIM (0.015 * LOG2_10)

/* Beyond this, in dB, no double of the range's magnitude may change. */
#define MAX_PSNR 640

/* Encodings of a chunk. Most need two. */
#define MAX_NTRIALS 8

/* Bounds that are closer make no difference. */
#define MIN_STEP (1.0 / 64)
/* The most that a bound is changed at once where nothing is on its other side,
 * or nothing is lost. */
#define MAX_STEP 4
#define STEP_OF_NOTHING_LOST 2

/* A bound, and the mean square error under it. */
struct point {
    bool exists;
    bool nothing_lost; /* no error: `square` says nothing */
    double bound, square;
};

struct search {
    double wanted;                 /* square */
    struct point low, lower, high; /* what suffices, twice, and what does not */
};

static double
log2_of(double value)
{
    return terp_log_of_f64(value, 0, 0);
}

static double
clamped(double value, double low, double high)
{
    return terp_clamp_f64(value, low, high);
}

/* How fast squares grow with bounds: errors that are spread evenly are 2. */
static double
slope_between(struct point a, struct point b)
{
    if (!a.exists || !b.exists || a.nothing_lost || b.nothing_lost ||
        a.bound == b.bound)
        return 2;
    return clamped((b.square - a.square) / (b.bound - a.bound), 0.5, 3);
}

/* The bound to be tried next. False: there is none. */
static bool
next_bound(const struct search *search, double *bound_ret)
{
    const struct point *low = &search->low, *high = &search->high;
    const double aim = search->wanted - AIM;

    if (low->exists && high->exists) {
        const double width = high->bound - low->bound;
        const double part =
            low->nothing_lost
                ? 0.5
                : (aim - low->square) / (high->square - low->square);
        *bound_ret = low->bound + clamped(part, 0.125, 0.875) * width;
        return width > MIN_STEP;
    }
    const struct point *only = low->exists ? low : high;
    const double slope = slope_between(search->lower, *low);
    const double step = only->nothing_lost ? STEP_OF_NOTHING_LOST
                                           : (aim - only->square) / slope;

    *bound_ret =
        only->bound + (low->exists ? clamped(step, 2 * MIN_STEP, MAX_STEP)
                                   : clamped(step, -MAX_STEP, -2 * MIN_STEP));
    /* Beyond the range there is nothing to gain. */
    return high->exists || only->bound < 0;
}

/* Notes what a bound has given. True: this suffices. */
static bool
note(struct search *search, double bound, double square)
{
    const bool nothing_lost = !(square >= 0x1p-1000);
    const struct point point = {true, nothing_lost, bound,
                                nothing_lost ? 0 : log2_of(square)};

    if (!nothing_lost && point.square > search->wanted) {
        search->high = point;
        return false;
    }
    if (!search->low.exists || bound > search->low.bound) {
        search->lower = search->low;
        search->low = point;
    }
    return true;
}

/* What a search works in. */
struct trial {
    terp_psnr_encode *encode;
    const struct terp_cpu_call *call;
    const struct terp_chunk *chunk;
    const void *src;
    void *decoded;
    struct terp_params params;
};

/* Encodes into `dst` under the bound of the trial; the square of the error. */
static enum terp_status
try_bound(struct trial *trial, uint8_t *dst, uint64_t *nbytes_ret,
          double *square_ret)
{
    struct terp_stream stream;
    struct terp_measure measure;
    enum terp_status st = trial->encode(
        trial->call, &trial->params, trial->chunk, trial->src, dst, nbytes_ret);

    if (st == TERP_OK)
        st = terp_stream_open(dst, *nbytes_ret, 1, &stream);
    if (st == TERP_OK)
        st = terp_stream_decode(trial->call, &stream, 1, trial->decoded);
    if (st == TERP_OK)
        st = terp_processor_engine()->measure(trial->call, &trial->params,
                                              trial->chunk, trial->src,
                                              trial->decoded, &measure);
    *square_ret = st == TERP_OK ? measure.square : 0;
    return st;
}

/* Encodes into `dst` the smallest stream found, by way of `other`. */
static enum terp_status
search_bound(struct trial *trial, double psnr, double half_range, uint8_t *dst,
             uint8_t *other, uint64_t *dst_nbytes_ret)
{
    struct search search = {.wanted = -psnr / 10 * LOG2_10};
    double bound = (search.wanted - AIM + LOG2_3) / 2, square;
    enum terp_status st = TERP_OK;
    bool found = false, more = true;

    for (int i = 0; st == TERP_OK && more && i < MAX_NTRIALS; i++) {
        uint64_t nbytes = 0;
        trial->params.bound = 2 * (half_range * terp_f64_of_log(bound, 0));
        if (!is_bound(trial->params.bound))
            break;
        st = try_bound(trial, found ? other : dst, &nbytes, &square);
        if (st != TERP_OK)
            return st;
        const bool suffices = note(&search, bound, square);
        if (suffices && found && nbytes < *dst_nbytes_ret)
            memcpy(dst, other, nbytes);
        if (suffices && (!found || nbytes < *dst_nbytes_ret))
            *dst_nbytes_ret = nbytes;
        found |= suffices;
        more = !(suffices && !search.low.nothing_lost &&
                 search.low.square >= search.wanted - TOLERANCE) &&
               next_bound(&search, &bound);
    }
    trial->params.bound = 0;
    return found ? TERP_OK
                 : trial->encode(trial->call, &trial->params, trial->chunk,
                                 trial->src, dst, dst_nbytes_ret);
}

static enum terp_status
search_in_default_environment(terp_psnr_encode *encode,
                              const struct terp_cpu_call *call,
                              const struct terp_params *params,
                              const struct terp_chunk *chunk, const void *src,
                              uint8_t *dst, uint64_t *dst_nbytes_ret)
{
    struct trial trial = {.encode = encode,
                          .call = call,
                          .chunk = chunk,
                          .src = src,
                          .params = *params};
    struct terp_measure measure;
    enum terp_status st = terp_processor_engine()->measure(call, params, chunk,
                                                           src, NULL, &measure);
    uint8_t *other = NULL;

    if (st != TERP_OK)
        return st;
    trial.params.bound_mode = TERP_BOUND_ABSOLUTE;
    trial.params.bound = 0;
    /* Values that are all the same, or none, have no range to compare with. */
    if (measure.half_range == 0) {
        trial.params.bound_mode = TERP_BOUND_RELATIVE;
        trial.params.bound = 0.5;
    }
    if (!(measure.half_range >= DBL_MIN) || params->bound > MAX_PSNR)
        return encode(call, &trial.params, chunk, src, dst, dst_nbytes_ret);
    other = terp_allocate(call->allocator, terp_encode_bound(chunk));
    trial.decoded = terp_allocate(call->allocator, terp_chunk_nbytes(chunk));
    st = other == NULL || trial.decoded == NULL
             ? TERP_ERR_MEMORY
             : search_bound(&trial, params->bound, measure.half_range, dst,
                            other, dst_nbytes_ret);
    terp_release(call->allocator, trial.decoded);
    terp_release(call->allocator, other);
    return st;
}

enum terp_status
terp_psnr_search(terp_psnr_encode *encode, const struct terp_cpu_call *call,
                 const struct terp_params *params,
                 const struct terp_chunk *chunk, const void *src, uint8_t *dst,
                 uint64_t *dst_nbytes_ret)
{
    fenv_t host;

    fegetenv(&host);
    fesetenv(FE_DFL_ENV);
    enum terp_status st = search_in_default_environment(
        encode, call, params, chunk, src, dst, dst_nbytes_ret);
    fesetenv(&host);
    return st;
}
