/* Encodes chunks that were decoded before and of which some values have
 * changed.
 *
 * To code a decoded value again adds a second error, unless the encoder finds
 * the same code for it. The usual stream is kept in two cases: all unchanged
 * values keep their bits in it (Lorenzo's grid does that while the step stays
 * the same); or so few values equal the earlier ones that the earlier stream
 * must belong to another chunk. Otherwise three streams are made, and the
 * smallest is kept:
 *
 * - one by the predictions of the earlier stream;
 * - one by Lorenzo with the step of the earlier stream;
 * - a lossless one, whose changed values are first rounded to few bits within
 *   the bound. Rounded values are cheap, also when the chunk is written the
 *   next time. */
#include "codec/api/rewrite.h"

#include <float.h>
#include <string.h>

#include "codec/api/calls.h"
#include "codec/compose/limits.h"
#include "codec/compose/stream.h"
#include "codec/format/types.h"
#include "codec/model/bound.h"
#include "codec/model/range.h"

/* When is_same_chunk trusts that equal values are unchanged ones: at least
 * ENOUGH values that are 1/SMALL_PART of all; or runs of ENOUGH values; or
 * 1/LARGE_PART of all values; or NOT_BY_CHANCE times as many as are equal by
 * chance. With smaller numbers other chunks are mistaken for rewritten ones,
 * which costs bytes. With larger ones rewritten chunks with few unchanged
 * values are missed, and their values get one more error of up to the bound. */
#define ENOUGH 8
#define SMALL_PART 16
#define LARGE_PART 2
#define NOT_BY_CHANCE 2

/* A chunk, its earlier values, and counts that compare them. */
struct rewrite {
    struct terp_run *run;
    const struct terp_params *params;
    const struct terp_chunk *chunk;
    const uint8_t *src;
    uint8_t *before;            /* the earlier values */
    uint8_t *decoded, *rounded; /* buffers for values */
    uint8_t *other;             /* buffer for a stream */
    uint64_t nvalues, nsame;
    /* Nonzero values that the usual stream changes; how many of them are equal
     * to the earlier value; and in how many runs the equal ones stand. */
    uint64_t nchanged, nchanged_same, nruns;
    /* Nonzero finite values: how many the usual stream keeps exactly, by
     * chance; and how many are equal to the earlier value. */
    uint64_t nexact, nordinary_same;
    int value_nbytes;
    bool is_one_value; /* all values of nchanged_same are equal */
    uint64_t same_at;  /* the index of one of them */
};

static const uint8_t *
value_at(const struct rewrite *rewrite, const uint8_t *values, uint64_t i)
{
    return values + i * (uint64_t)rewrite->value_nbytes;
}

static bool
are_equal(const struct rewrite *rewrite, const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, (size_t)rewrite->value_nbytes) == 0;
}

static bool
is_same(const struct rewrite *rewrite, uint64_t i)
{
    return are_equal(rewrite, value_at(rewrite, rewrite->src, i),
                     value_at(rewrite, rewrite->before, i));
}

static void
count_same(struct rewrite *rewrite)
{
    for (uint64_t i = 0; i < rewrite->nvalues; i++)
        rewrite->nsame += is_same(rewrite, i);
}

static bool
is_zero(const struct rewrite *rewrite, const uint8_t *value)
{
    static const uint8_t zero[16];

    return are_equal(rewrite, value, zero);
}

/* The bits of a value of one part, in the host's byte order. */
static uint64_t
bits_of(const struct rewrite *rewrite, const uint8_t *value)
{
    uint8_t bytes[8] = {0};

    memcpy(bytes, value, (size_t)rewrite->value_nbytes);
    if (rewrite->chunk->big_endian != TERP_HOST_IS_BIG_ENDIAN)
        terp_swap_values(bytes, 1, rewrite->value_nbytes);
    return load_value(bytes, rewrite->value_nbytes);
}

/* Whether a value is a fill value, which the codec keeps bit for bit. */
static bool
is_fill(const struct terp_params *params, uint64_t bits)
{
    return (params->has_fill && bits == params->fill_bits) ||
           (params->has_missing && bits == params->missing_bits);
}

/* Whether a value may lose bits: NaN, infinities and fill values do not. */
static bool
is_ordinary(const struct rewrite *rewrite, const uint8_t *value)
{
    const enum terp_type type = rewrite->chunk->type;

    if (terp_type_nparts(type) != 1)
        return true;
    const uint64_t bits = bits_of(rewrite, value);
    if (is_fill(rewrite->params, bits))
        return false;
    return type == TERP_FLOAT32   ? (bits >> 23 & 0xFF) != 0xFF
           : type == TERP_FLOAT64 ? (bits >> 52 & 0x7FF) != 0x7FF
                                  : true;
}

/* Counts the values that the usual stream changes; `decoded` holds its decoded
 * values. Zeros do not count: unwritten values and the padding of chunks at the
 * edge are 0 in every chunk. */
static void
count_changed(struct rewrite *rewrite)
{
    bool was_same = false;

    rewrite->is_one_value = true;
    for (uint64_t i = 0; i < rewrite->nvalues; i++) {
        const uint8_t *value = value_at(rewrite, rewrite->src, i);
        const bool same = is_same(rewrite, i);
        if (is_zero(rewrite, value))
            continue;
        const bool exact =
            are_equal(rewrite, value, value_at(rewrite, rewrite->decoded, i));
        const bool ordinary = is_ordinary(rewrite, value);
        rewrite->nexact += ordinary && exact;
        rewrite->nordinary_same += ordinary && same;
        if (exact)
            continue;
        rewrite->nchanged++;
        rewrite->nruns += same && !was_same;
        was_same = same;
        if (!same)
            continue;
        if (rewrite->nchanged_same++ == 0)
            rewrite->same_at = i;
        rewrite->is_one_value &= are_equal(
            rewrite, value, value_at(rewrite, rewrite->src, rewrite->same_at));
    }
}

/* Whether equal values are equal because no write has changed them. Values of
 * another chunk are equal by chance, about as often as the usual stream keeps a
 * value exactly. Values that a write leaves alone are more numerous, or stand
 * next to each other. */
static bool
is_same_chunk(const struct rewrite *rewrite)
{
    const uint64_t n = rewrite->nchanged_same;

    return n > 0 &&
           (rewrite->nordinary_same > 1 + NOT_BY_CHANCE * rewrite->nexact ||
            (n >= ENOUGH && n >= rewrite->nchanged / SMALL_PART) ||
            n >= ENOUGH * rewrite->nruns ||
            n >= rewrite->nchanged / LARGE_PART);
}

static enum terp_status
encode(const struct rewrite *rewrite, const struct terp_params *params,
       const void *src, void *dst, uint64_t *nbytes_ret)
{
    return terp_do_run_encode(rewrite->run, params, rewrite->chunk, 1, &src,
                              &dst, nbytes_ret);
}

static enum terp_status
decode(const struct rewrite *rewrite, const void *stream, uint64_t nbytes,
       void *values)
{
    enum terp_status status;
    const enum terp_status st =
        terp_do_run_decode(rewrite->run, rewrite->chunk, NULL, 1, 1, &stream,
                           &nbytes, &values, &status);

    return st == TERP_OK ? status : st;
}

/* Whether a stream keeps every bit of the unchanged values. */
static enum terp_status
keeps_values(const struct rewrite *rewrite, const void *stream, uint64_t nbytes,
             bool *keeps_ret)
{
    const enum terp_status st =
        decode(rewrite, stream, nbytes, rewrite->decoded);

    *keeps_ret = st == TERP_OK;
    for (uint64_t i = 0; *keeps_ret && i < rewrite->nvalues; i++)
        *keeps_ret = !is_same(rewrite, i) ||
                     are_equal(rewrite, value_at(rewrite, rewrite->src, i),
                               value_at(rewrite, rewrite->decoded, i));
    return st;
}

/* ---- the step of the earlier stream ---- */

/* Parameters by which Lorenzo codes with the step of the earlier stream. False
 * if that stream has another predictor, or its bound is larger than `bound`.
 * Not inline: terp_info must not take stack while the chunk is encoded. */
static __attribute__((noinline)) bool
params_of_stream(const struct rewrite *rewrite, const void *stream,
                 uint64_t nbytes, double bound, struct terp_params *params_ret)
{
    struct terp_info info = {.size = sizeof info};
    struct terp_stream_facts facts;
    struct terp_open_stream opened;

    if (terp_stream_open(stream, nbytes, 1, &opened) != TERP_OK ||
        terp_do_inspect(&opened, stream, nbytes, &info, &facts) != TERP_OK ||
        strcmp(info.predictor, terp_predictor_name(TERP_PREDICTOR_LORENZO)) !=
            0 ||
        !is_bound(info.bound) || !(info.bound <= bound))
        return false;
    *params_ret = *rewrite->params;
    params_ret->bound_mode = TERP_BOUND_ABSOLUTE;
    params_ret->bound = info.bound;
    params_ret->floor = 0;
    params_ret->predictor = TERP_PREDICTOR_LORENZO;
    return true;
}

/* ---- the predictions of the earlier stream ---- */

/* Encodes with the predictions and the step of the earlier stream.
 * TERP_ERR_CAPACITY: the earlier stream has no predictions of that kind. */
static enum terp_status
encode_as_before(const struct rewrite *rewrite, const void *stream,
                 uint64_t stream_nbytes, const struct terp_limits *limits,
                 uint64_t *nbytes_ret)
{
    const void *const src[] = {rewrite->src};
    struct terp_source source = {
        .chunk = rewrite->chunk, .params = rewrite->params, .n = 1, .src = src};
    struct terp_open_stream before;

    if (terp_params_have_limits(rewrite->chunk->type, rewrite->params))
        source.limits = limits;
    enum terp_status st = terp_stream_open(stream, stream_nbytes, 1, &before);
    if (st != TERP_OK)
        return st;
    const struct terp_coder coder =
        terp_coder_open(&rewrite->run->cpu, rewrite->nvalues);
    st = coder.engine->encode_changed(coder.session, &source, &before,
                                      rewrite->other, nbytes_ret);
    terp_coder_close(&coder);
    return st;
}

/* ---- rounding ---- */

/* How far values may be rounded. */
struct rounding {
    double bound;    /* of each value, absolute; 0: none */
    double relative; /* of each value, relative to it; 0: none */
    struct terp_limits limits;
};

/* Finds how far the chunk's values may be rounded: by an absolute bound, by a
 * pointwise bound with its floor, or (bounds 0) not at all. */
static enum terp_status
find_rounding(const struct rewrite *rewrite, struct rounding *rounding_ret)
{
    const struct terp_params *params = rewrite->params;
    const bool is_relative = params->bound_mode == TERP_BOUND_RELATIVE;
    double min, max;

    *rounding_ret = (struct rounding){0, 0, terp_no_limits()};
    if (!terp_type_is_plain(rewrite->chunk->type) ||
        params->bound_mode == TERP_BOUND_PSNR)
        return TERP_OK;
    const struct terp_coder coder =
        terp_coder_open(&rewrite->run->cpu, rewrite->nvalues);
    const enum terp_status st =
        terp_limits_find(&coder, params, rewrite->chunk, rewrite->src, &min,
                         &max, &rounding_ret->limits);
    terp_coder_close(&coder);
    if (params->bound_mode == TERP_BOUND_POINTWISE) {
        rounding_ret->relative = params->bound;
        rounding_ret->bound = params->floor;
    } else if (!is_relative || min < max) {
        rounding_ret->bound = is_relative
                                  ? terp_bound_of_range(params->bound, min, max)
                                  : params->bound;
    }
    if (!is_bound(rounding_ret->bound))
        rounding_ret->bound = 0;
    return st;
}

/* The nearest multiple of a power of two that is at most twice the bound, so
 * the result is within the bound. Division and product are exact: a value whose
 * last bit is above that power already is a multiple. */
static double
round_to_step(double value, double bound)
{
    int exponent;

    (void)frexp(bound, &exponent);
    const double step = ldexp(1, exponent);
    const double nsteps = value / step;
    return fabs(nsteps) < 0x1p52 && step > 0 && isfinite(nsteps)
               ? rint(nsteps) * step
               : value;
}

/* Rounds the mantissa to as many bits as `relative` needs. */
static double
round_mantissa(double value, double relative)
{
    int exponent, of_relative;

    (void)frexp(relative, &of_relative);
    (void)frexp(value, &exponent);
    return round_to_step(value, ldexp(1, exponent + of_relative - 2));
}

static double
rounded(double value, int value_nbytes, const struct rounding *rounding)
{
    const double of_value = rounding->relative * fabs(value);
    const double bound =
        rounding->bound > of_value ? rounding->bound : of_value;
    const double smallest = 2 * (value_nbytes == 4 ? (double)FLT_MIN : DBL_MIN);
    double found = value;

    if (!isfinite(value))
        return value;
    if (rounding->bound > 0 && rounding->bound >= of_value)
        found = round_to_step(value, rounding->bound);
    else if (rounding->relative > 0 && fabs(value) >= smallest)
        found = round_mantissa(value, rounding->relative);
    if (value_nbytes == 4)
        found = fabs(found) <= FLT_MAX ? (double)(float)found : value;
    return fabs(found - value) <= bound &&
                   terp_keeps_limits(value, found, &rounding->limits)
               ? found
               : value;
}

/* Copies the values, and rounds the changed ones. */
static void
round_values(const struct rewrite *rewrite, const struct rounding *rounding,
             uint8_t *values)
{
    const int nbytes = rewrite->value_nbytes;
    const bool swaps = rewrite->chunk->big_endian != TERP_HOST_IS_BIG_ENDIAN;

    memcpy(values, rewrite->src, rewrite->nvalues * (uint64_t)nbytes);
    if (rounding->bound == 0 && rounding->relative == 0)
        return;
    for (uint64_t i = 0; i < rewrite->nvalues; i++) {
        uint8_t *at = values + i * (uint64_t)nbytes;
        float narrow;
        double value;
        if (is_same(rewrite, i))
            continue;
        if (swaps)
            terp_swap_values(at, 1, nbytes);
        if (nbytes == 4)
            memcpy(&narrow, at, 4);
        else
            memcpy(&value, at, 8);
        if (nbytes == 4)
            value = (double)narrow;
        if (!is_fill(rewrite->params, load_value(at, nbytes)))
            value = rounded(value, nbytes, rounding);
        narrow = (float)value;
        if (nbytes == 4 && isfinite(value))
            memcpy(at, &narrow, 4);
        else if (nbytes == 8 && isfinite(value))
            memcpy(at, &value, 8);
        if (swaps)
            terp_swap_values(at, 1, nbytes);
    }
}

/* ---- streams ---- */

/* Replaces the stream of `*nbytes` at `dst` by rewrite->other, of
 * `other_nbytes`, if that was made (`st`), is smaller, and keeps the unchanged
 * values. */
static enum terp_status
take_if_better(const struct rewrite *rewrite, enum terp_status st,
               uint64_t other_nbytes, void *dst, uint64_t *nbytes)
{
    bool keeps;

    if (st != TERP_OK || other_nbytes >= *nbytes)
        return st == TERP_ERR_CAPACITY ? TERP_OK : st;
    st = keeps_values(rewrite, rewrite->other, other_nbytes, &keeps);
    if (st == TERP_OK && keeps) {
        memcpy(dst, rewrite->other, other_nbytes);
        *nbytes = other_nbytes;
    }
    return st;
}

/* Encodes a chunk that was written before. */
static enum terp_status
encode_changed(const struct rewrite *rewrite, const void *stream,
               uint64_t stream_nbytes, void *dst, uint64_t *nbytes)
{
    struct terp_params params;
    struct rounding rounding;
    uint64_t other_nbytes = 0;

    enum terp_status st = find_rounding(rewrite, &rounding);
    if (st != TERP_OK)
        return st;
    *nbytes = UINT64_MAX;
    st = encode_as_before(rewrite, stream, stream_nbytes, &rounding.limits,
                          &other_nbytes);
    st = take_if_better(rewrite, st, other_nbytes, dst, nbytes);
    if (st == TERP_OK && params_of_stream(rewrite, stream, stream_nbytes,
                                          rounding.bound, &params)) {
        st = encode(rewrite, &params, rewrite->src, rewrite->other,
                    &other_nbytes);
        st = take_if_better(rewrite, st, other_nbytes, dst, nbytes);
    }
    if (st != TERP_OK)
        return st;
    params = *rewrite->params;
    params.bound_mode = TERP_BOUND_ABSOLUTE;
    params.bound = params.floor = 0;
    round_values(rewrite, &rounding, rewrite->rounded);
    st = encode(rewrite, &params, rewrite->rounded, rewrite->other,
                &other_nbytes);
    return take_if_better(rewrite, st, other_nbytes, dst, nbytes);
}

/* If all equal values are one and the same value, they may also be of another
 * chunk. They are then coded as a fill value, which is exact and costs little.
 */
static enum terp_status
encode_with_one_value(const struct rewrite *rewrite, void *dst,
                      uint64_t *nbytes)
{
    struct terp_params params = *rewrite->params;

    if (!params.has_missing && terp_type_nparts(rewrite->chunk->type) == 1) {
        params.has_missing = true;
        params.missing_bits =
            bits_of(rewrite, value_at(rewrite, rewrite->src, rewrite->same_at));
    }
    return encode(rewrite, &params, rewrite->src, dst, nbytes);
}

static enum terp_status
encode_rewritten(struct rewrite *rewrite, const void *stream,
                 uint64_t stream_nbytes, void *dst, uint64_t *nbytes,
                 bool *is_rewrite_ret)
{
    enum terp_status st =
        decode(rewrite, stream, stream_nbytes, rewrite->before);

    if (st == TERP_ERR_MEMORY || st == TERP_ERR_LIMIT)
        return st;
    if (st == TERP_OK)
        count_same(rewrite);
    if (rewrite->nsame == rewrite->nvalues) {
        *is_rewrite_ret = true;
        memcpy(dst, stream, stream_nbytes);
        *nbytes = stream_nbytes;
        return TERP_OK;
    }
    st = encode(rewrite, rewrite->params, rewrite->src, dst, nbytes);
    if (st != TERP_OK || rewrite->nsame == 0)
        return st;
    st = decode(rewrite, dst, *nbytes, rewrite->decoded);
    if (st != TERP_OK)
        return st;
    count_changed(rewrite);
    if (!is_same_chunk(rewrite))
        return st;
    *is_rewrite_ret = true;
    return rewrite->is_one_value
               ? encode_with_one_value(rewrite, dst, nbytes)
               : encode_changed(rewrite, stream, stream_nbytes, dst, nbytes);
}

enum terp_status
terp_do_rewrite_encode(struct terp_run *run, const struct terp_params *params,
                       const struct terp_chunk *chunk, const void *stream,
                       uint64_t stream_nbytes, const void *src, void *dst,
                       uint64_t *dst_nbytes_ret, bool *is_rewrite_ret)
{
    const struct terp_allocator *allocator = run->cpu.allocator;
    const uint64_t chunk_nbytes = terp_chunk_nbytes(chunk);
    const int value_nbytes = terp_value_nbytes(chunk->type);
    struct rewrite rewrite = {
        .run = run,
        .params = params,
        .chunk = chunk,
        .src = src,
        .before = terp_allocate(allocator, chunk_nbytes),
        .decoded = terp_allocate(allocator, chunk_nbytes),
        .rounded = terp_allocate(allocator, chunk_nbytes),
        .other = terp_allocate(allocator, terp_encode_bound(chunk)),
        .nvalues = chunk_nbytes / (uint64_t)value_nbytes,
        .value_nbytes = value_nbytes};

    *is_rewrite_ret = false;
    const enum terp_status st =
        rewrite.before == NULL || rewrite.decoded == NULL ||
                rewrite.rounded == NULL || rewrite.other == NULL
            ? TERP_ERR_MEMORY
            : encode_rewritten(&rewrite, stream, stream_nbytes, dst,
                               dst_nbytes_ret, is_rewrite_ret);
    terp_release(allocator, rewrite.before);
    terp_release(allocator, rewrite.decoded);
    terp_release(allocator, rewrite.rounded);
    terp_release(allocator, rewrite.other);
    return st;
}
