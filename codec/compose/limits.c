/* Encodes chunks whose decoded values keep limits.
 *
 * The stream that was made without limits keeps them for most chunks. For the
 * other chunks several streams are tried. Where a smooth field stays near a
 * limit, the spline predictor pays much for escapes, which a smaller bound
 * avoids; values on lorenzo's grid never change their sign. Every stream that
 * is kept was decoded and compared. */
#include "codec/compose/limits.h"

#include <float.h>
#include <string.h>

#include "codec/compose/bounds.h"
#include "codec/compose/decode.h"
#include "codec/format/types.h"
#include "codec/model/bound.h"
#include "codec/model/carrier.h"
#include "codec/model/fills.h"

/* Values are converted to doubles and compared in blocks of this size. */
#define BLOCK_NVALUES 128

/* Values that has_both_signs looks at: far fewer than those of a usual chunk.
 */
#define NSAMPLES 128

/* Which streams encode_within_limits() tries, by the size of the stream that
 * was made without limits. CHEAP_PART: a stream at most 1/20 larger is good
 * enough, and the trials end. DEAR_FACTOR: if the stream is more than twice as
 * large, a smaller bound is tried too, SMALLER_BOUND times the caller's. */
#define CHEAP_PART 20
#define DEAR_FACTOR 2
#define SMALLER_BOUND 0.25

/* ---- values as doubles ---- */

/* NaN for values that are not finite. Integers beyond 2^53 are rounded, which
 * keeps their order. */
static double
number_of(enum terp_type type, uint64_t bits)
{
    float f32;
    double f64;
    uint32_t word = (uint32_t)bits;

    switch (type) {
    case TERP_INT8:
        return (int8_t)bits;
    case TERP_INT16:
        return (int16_t)bits;
    case TERP_INT32:
        return (int32_t)bits;
    case TERP_INT64:
        return (double)(int64_t)bits;
    case TERP_FLOAT16:
    case TERP_BFLOAT16:
        word = terp_carried_half(type, (uint16_t)bits, false);
        /* fall through */
    case TERP_FLOAT32:
        memcpy(&f32, &word, sizeof f32);
        return f32 - f32 == 0 ? (double)f32 : (double)NAN;
    case TERP_FLOAT64:
        memcpy(&f64, &bits, sizeof f64);
        return f64 - f64 == 0 ? f64 : (double)NAN;
    default:
        return (double)bits;
    }
}

static void
read_numbers(const struct terp_chunk *chunk, const void *values, uint64_t at,
             uint64_t n, double *numbers)
{
    const int nbytes = terp_part_nbytes(chunk->type);
    const uint8_t *from = (const uint8_t *)values + at * (uint64_t)nbytes;

    for (uint64_t i = 0; i < n; i++, from += nbytes) {
        uint8_t bytes[8];
        for (int b = 0; b < nbytes; b++)
            bytes[b] = from[chunk->big_endian ? nbytes - 1 - b : b];
        numbers[i] = number_of(chunk->type, load_le(bytes, nbytes));
    }
}

/* A declared fill value; NAN, which equals no value, without one. */
static double
declared(const struct terp_chunk *chunk, bool has_bits, uint64_t bits)
{
    return has_bits ? number_of(chunk->type, bits) : NAN;
}

/* The extremes of the finite values that are not fill values. */
static enum terp_status
find_extremes(const struct terp_coder *coder, const struct terp_params *params,
              const struct terp_chunk *chunk, const void *src, double *min_ret,
              double *max_ret)
{
    const uint64_t nvalues = terp_chunk_nvalues(chunk);
    const double fill = declared(chunk, params->has_fill, params->fill_bits);
    const double missing =
        declared(chunk, params->has_missing, params->missing_bits);
    double numbers[BLOCK_NVALUES];
    struct terp_measure measure;

    *min_ret = INFINITY;
    *max_ret = -INFINITY;
    if (terp_type_is_plain(chunk->type)) {
        const enum terp_status st = coder->engine->measure(
            coder->session, params, chunk, 1, &src, &measure);
        *min_ret = measure.min;
        *max_ret = measure.max;
        return st;
    }
    for (uint64_t at = 0; at < nvalues; at += BLOCK_NVALUES) {
        const uint64_t n = min_u64(BLOCK_NVALUES, nvalues - at);
        read_numbers(chunk, src, at, n, numbers);
        for (uint64_t i = 0; i < n; i++) {
            const double value = numbers[i];
            if (value == fill || value == missing)
                continue;
            *min_ret = value < *min_ret ? value : *min_ret;
            *max_ret = value > *max_ret ? value : *max_ret;
        }
    }
    return TERP_OK;
}

/* ---- limits ---- */

/* The least float32 that is at least `low`; -INFINITY if `low` exceeds the
 * range of float32, as then it limits no float32. */
static double
float_above(double low)
{
    if (!(low >= -FLT_MAX && low <= FLT_MAX))
        return -INFINITY;
    const float nearest = (float)low;
    return (double)nearest < low ? (double)nextafterf(nearest, INFINITY)
                                 : (double)nearest;
}

static struct terp_limits
limits_of(const struct terp_params *params, const struct terp_chunk *chunk,
          double min, double max)
{
    const bool of_values = params->keep_sign == TERP_KEEP_SIGN_OF_VALUES;
    const bool of_chunk = params->keep_sign == TERP_KEEP_SIGN_OF_CHUNK;
    struct terp_limits limits = terp_no_limits();
    double low = params->has_valid_range ? params->valid_min : -INFINITY;
    double high = params->has_valid_range ? params->valid_max : INFINITY;

    if (chunk->type != TERP_FLOAT64 && !terp_type_is_integer(chunk->type)) {
        low = float_above(low);
        high = -float_above(-high);
    }
    limits.low[0] = terp_limit_at(low);
    limits.high[0] = terp_limit_at(high);
    if (of_values || (of_chunk && min >= 0))
        limits.low[low < 0 && isinf(low) ? 0 : 1] = terp_limit_at(0);
    if (of_values || (of_chunk && max <= 0))
        limits.high[high > 0 && isinf(high) ? 0 : 1] = terp_limit_at(0);
    return limits;
}

enum terp_status
terp_limits_find(const struct terp_coder *coder,
                 const struct terp_params *params,
                 const struct terp_chunk *chunk, const void *src,
                 double *min_ret, double *max_ret,
                 struct terp_limits *limits_ret)
{
    const enum terp_status st =
        find_extremes(coder, params, chunk, src, min_ret, max_ret);

    if (st == TERP_OK)
        *limits_ret = limits_of(params, chunk, *min_ret, *max_ret);
    return st;
}

/* Whether a few values show that the chunk has both signs. The encoder then
 * keeps no sign and needs no limits. The search for the extremes of all values,
 * which takes longer than a GPU needs to encode the chunk, is then left out. A
 * usual fill value does not count as a sign. */
static bool
has_both_signs(const struct terp_params *params, const struct terp_chunk *chunk,
               const void *src)
{
    const uint64_t nvalues = terp_chunk_nvalues(chunk);
    const uint64_t stride = nvalues / NSAMPLES;
    bool has_negative = false, has_positive = false;
    double value;

    if (params->keep_sign != TERP_KEEP_SIGN_OF_CHUNK ||
        params->has_valid_range || stride == 0)
        return false;
    const double fill = declared(chunk, params->has_fill, params->fill_bits);
    const double missing =
        declared(chunk, params->has_missing, params->missing_bits);
    /* 37: positions differ along rows whose length divides the stride. */
    for (uint64_t i = 0; i < NSAMPLES && !(has_negative && has_positive); i++) {
        read_numbers(chunk, src, i * stride + i * 37 % stride, 1, &value);
        const bool is_new =
            (value < 0 && !has_negative) || (value > 0 && !has_positive);
        if (!is_new || value == fill || value == missing ||
            terp_is_usual_fill(chunk->type, value))
            continue;
        has_negative |= value < 0;
        has_positive |= value > 0;
    }
    return has_negative && has_positive;
}

/* Whether a value that is off by the bound can pass a limit. */
static bool
may_pass(const struct terp_params *params, const struct terp_limits *limits,
         double min, double max)
{
    const double bound = params->bound_mode == TERP_BOUND_ABSOLUTE
                             ? params->bound
                         : params->bound_mode == TERP_BOUND_RELATIVE
                             ? terp_bound_of_range(params->bound, min, max)
                             : INFINITY;
    bool may = false;

    for (int i = 0; i < TERP_NLIMITS; i++) {
        const double low = limits->low[i].at, high = limits->high[i].at;
        may |= min - bound < low && max >= low;
        may |= max + bound > high && min <= high;
    }
    return may && min <= max;
}

/* ---- trials ---- */

struct trial {
    const struct terp_coder *coder;
    const struct terp_chunk *chunk;
    const void *const *src; /* points to one chunk */
    void *decoded;
    struct terp_limits limits;
    bool passes_low, passes_high; /* by the stream that was decoded last */
};

/* Decodes a stream and finds the limits that its values pass. */
static enum terp_status
check_stream(struct trial *trial, const uint8_t *stream, uint64_t nbytes)
{
    const uint64_t nvalues = terp_chunk_nvalues(trial->chunk);
    double values[BLOCK_NVALUES], decoded[BLOCK_NVALUES];
    struct terp_open_stream opened;
    const struct terp_coder *coder = trial->coder;

    trial->passes_low = trial->passes_high = false;
    enum terp_status st =
        terp_frames_read(coder, 1, &(const void *){stream}, &nbytes, &opened);
    if (st == TERP_OK)
        st = terp_chunk_decode(coder, &opened, 1, trial->decoded);
    for (uint64_t at = 0; st == TERP_OK && at < nvalues; at += BLOCK_NVALUES) {
        const uint64_t n = min_u64(BLOCK_NVALUES, nvalues - at);
        read_numbers(trial->chunk, *trial->src, at, n, values);
        read_numbers(trial->chunk, trial->decoded, at, n, decoded);
        for (uint64_t i = 0; i < n; i++) {
            const bool keeps =
                terp_keeps_limits(values[i], decoded[i], &trial->limits);
            trial->passes_low |= !keeps && decoded[i] < values[i];
            trial->passes_high |= !keeps && decoded[i] > values[i];
        }
    }
    return st;
}

static enum terp_status
encode(const struct trial *trial, const struct terp_params *params,
       const struct terp_limits *limits, uint8_t *dst, uint64_t *nbytes_ret)
{
    void *const to[] = {dst};
    const struct terp_batch batch = {{.chunk = trial->chunk,
                                      .params = params,
                                      .limits = limits,
                                      .n = 1,
                                      .src = trial->src},
                                     to,
                                     nbytes_ret};

    return terp_bounded_encode(trial->coder, &batch);
}

/* Encodes into `other` within limits. If the stream is smaller than the one in
 * `dst`, of `*nbytes` bytes, and keeps the limits, replaces it. */
static enum terp_status
try_params(struct trial *trial, const struct terp_params *params, double anchor,
           uint8_t *dst, uint8_t *other, uint64_t *nbytes)
{
    struct terp_limits limits = trial->limits;
    uint64_t other_nbytes;

    limits.anchor = anchor;
    enum terp_status st = encode(trial, params, &limits, other, &other_nbytes);
    if (st != TERP_OK || other_nbytes >= *nbytes)
        return st;
    st = check_stream(trial, other, other_nbytes);
    if (st == TERP_OK && !trial->passes_low && !trial->passes_high) {
        memcpy(dst, other, other_nbytes);
        *nbytes = other_nbytes;
    }
    return st;
}

/* Replaces a stream that passes limits, of `free_nbytes` bytes, by the smallest
 * of several that keep them. The trials end as soon as a stream is nearly as
 * small as the one without limits. If no trial keeps the limits, the chunk is
 * coded without loss. */
static enum terp_status
encode_within_limits(struct trial *trial, const struct terp_params *params,
                     uint64_t free_nbytes, uint8_t *dst, uint8_t *other,
                     uint64_t *nbytes)
{
    const double anchor =
        (trial->passes_low ? trial->limits.low : trial->limits.high)->at;
    const uint64_t cheap_nbytes = free_nbytes + free_nbytes / CHEAP_PART;
    const bool is_pointwise = params->bound_mode == TERP_BOUND_POINTWISE;
    const struct terp_params lossless = terp_params_lossless(params);
    struct terp_params lorenzo = *params, smaller = *params;

    lorenzo.predictor = TERP_PREDICTOR_LORENZO;
    smaller.bound *= SMALLER_BOUND;
    *nbytes = UINT64_MAX;
    enum terp_status st = try_params(trial, params, anchor, dst, other, nbytes);
    if (st == TERP_OK && *nbytes > cheap_nbytes && !is_pointwise &&
        params->predictor == TERP_PREDICTOR_AUTO)
        st = try_params(trial, &lorenzo, anchor, dst, other, nbytes);
    if (st == TERP_OK && *nbytes > cheap_nbytes)
        st = try_params(trial, params, NAN, dst, other, nbytes);
    if (st == TERP_OK && *nbytes / DEAR_FACTOR > free_nbytes && !is_pointwise &&
        params->bound_mode != TERP_BOUND_PSNR && is_bound(smaller.bound))
        st = try_params(trial, &smaller, NAN, dst, other, nbytes);
    return st == TERP_OK && *nbytes == UINT64_MAX
               ? encode(trial, &lossless, NULL, dst, nbytes)
               : st;
}

enum terp_status
terp_limits_keep(const struct terp_coder *coder,
                 const struct terp_batch *chunk_stream)
{
    const struct terp_params *params = chunk_stream->source.params;
    const struct terp_chunk *chunk = chunk_stream->source.chunk;
    struct trial trial = {
        .coder = coder, .chunk = chunk, .src = chunk_stream->source.src};
    uint8_t *dst = *chunk_stream->dst, *other = NULL;
    uint64_t *nbytes = chunk_stream->nbytes;
    double min, max;

    if (has_both_signs(params, chunk, *trial.src))
        return TERP_OK;
    enum terp_status st = terp_limits_find(coder, params, chunk, *trial.src,
                                           &min, &max, &trial.limits);
    if (st != TERP_OK)
        return st;
    if (!may_pass(params, &trial.limits, min, max))
        return TERP_OK;
    trial.decoded = terp_coder_allocate(coder, terp_chunk_nbytes(chunk));
    if (trial.decoded == NULL)
        return TERP_ERR_MEMORY;
    st = check_stream(&trial, dst, *nbytes);
    if (st == TERP_OK && (trial.passes_low || trial.passes_high)) {
        other = terp_coder_allocate(coder, terp_encode_bound(chunk));
        st = other == NULL ? TERP_ERR_MEMORY
                           : encode_within_limits(&trial, params, *nbytes, dst,
                                                  other, nbytes);
    }
    terp_coder_release(coder, other);
    terp_coder_release(coder, trial.decoded);
    return st;
}
