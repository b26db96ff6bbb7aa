/* The search for values that repeat earlier ones. Every engine searches alike.
 * Fields are often symmetric under mirrors and transpositions, or repeat their
 * own regions. So consecutive points refer to points that are equally far
 * apart, in either direction.
 *
 * Points that may match have the same key. Each point gets a hint: the first
 * point with its key. Then tiles of values are searched independently of each
 * other, in any order. Last, a point that refers to a referring point takes
 * that point's source. */
#pragma once

#include <math.h>
#include <string.h>

#include "codec/format/references.h"
#include "codec/model/carrier.h"
#include "codec/model/reference_samples.h"

/* Marks a point without a source. */
#define TERP_NO_SOURCE UINT32_MAX

/* A thread searches sources for the values of a tile. It begins with the values
 * before the tile, so that it enters the tile with a current reference. */
#define TERP_REFERENCE_TILE_NVALUES 1024
#define TERP_REFERENCE_WARM_UP_NVALUES 256

/* The values in the form in which they are compared: magnitudes by their bits,
 * or distances from the least integer. An unusable point neither refers nor is
 * referred to. */
struct terp_repeats {
    const uint64_t *words;
    const uint8_t *usable;
    uint64_t nvalues;     /* fewer than TERP_NO_SOURCE */
    uint64_t value_nbits; /* cost of a value without references, in 1/16 bit */
    int near_nbits;       /* words match if their difference has at most so many
                             bits */
    bool lone;            /* values are compared alone, without neighbours */
    bool exact;           /* the difference must be stored */
    const uint32_t *hints;
    uint32_t *sources;
};

/* Sets how values are compared; all other members of *repeats must be set.
 * `near`: under a bound above 0, the bits in which words may differ at no cost;
 * negative: lossless. */
static inline TERP_HOST_DEVICE void
terp_repeats_set_bits(struct terp_repeats *repeats, int word_nbits, int near)
{
    repeats->exact = near < 0;
    repeats->near_nbits = near;
    repeats->lone = word_nbits == TERP_LONE_WORD_NBITS;
    if (repeats->exact)
        repeats->lone = terp_references_are_lone(
            word_nbits, repeats->value_nbits / 16, &repeats->near_nbits);
}

/* ---- keys ---- */

/* The key of a point: of its value and, unless values are compared alone, of
 * both neighbours in either order. 0: no key. */
static inline TERP_HOST_DEVICE uint32_t
terp_reference_key(const struct terp_repeats *r, uint64_t i)
{
    uint64_t key = 0;

    if (!r->usable[i])
        return 0;
    key = terp_window_key(key, r->words[i] >> r->near_nbits);
    if (!r->lone) {
        if (i == 0 || i + 1 == r->nvalues || !r->usable[i - 1] ||
            !r->usable[i + 1])
            return 0;
        const uint64_t a = r->words[i - 1] >> r->near_nbits;
        const uint64_t b = r->words[i + 1] >> r->near_nbits;
        key = terp_window_key(key, a < b ? a : b);
        key = terp_window_key(key, a < b ? b : a);
    }
    return (uint32_t)(terp_reference_mixed(key) >> 32) | 1;
}

/* ---- matches ---- */

/* The width of the difference of two words. */
static inline TERP_HOST_DEVICE int
terp_reference_difference_nbits(const struct terp_repeats *r, uint64_t i,
                                uint64_t j)
{
    const uint64_t a = r->words[i], b = r->words[j];

    return bit_width(a > b ? a - b : b - a);
}

/* Whether point i may refer to point `match`. */
static inline TERP_HOST_DEVICE bool
terp_reference_fits(const struct terp_repeats *r, uint64_t i, uint64_t match)
{
    return match < i && r->usable[match] &&
           terp_reference_difference_nbits(r, i, match) <= r->near_nbits;
}

/* The source of a point. */
struct terp_match {
    uint64_t at;
    int64_t stride; /* distance to the next point's likely source; 0: unknown */
    int64_t stride_before;
    bool found, follows;
};

/* Finds the source of point i, and whether it follows from the source of the
 * point before. Strides may alternate: in mirrored complex values, parts lead 1
 * forward and 3 back. */
static inline TERP_HOST_DEVICE struct terp_match
terp_reference_match(const struct terp_repeats *r, uint64_t i,
                     const struct terp_match *before)
{
    const int64_t strides[] = {before->stride, before->stride_before, 1, -1};
    struct terp_match match = {0, 0, before->stride, false, false};

    if (!r->usable[i])
        return match;
    for (int j = 0; before->found && j < 4; j++) {
        match.at = before->at + (uint64_t)strides[j];
        match.stride = strides[j];
        match.found = true;
        match.follows = j < 2;
        if (strides[j] != 0 && terp_reference_fits(r, i, match.at))
            return match;
    }
    match.at = r->hints[i];
    match.found = terp_reference_fits(r, i, match.at);
    match.follows = false;
    if (!match.found)
        return match;
    if (!r->lone)
        match.stride = terp_reference_fits(r, i + 1, match.at + 1) ? 1 : -1;
    else
        match.stride = before->found ? (int64_t)(match.at - before->at) : 0;
    return match;
}

/* Bits that a reference saves, in 1/16 bit. */
static inline TERP_HOST_DEVICE int64_t
terp_reference_gain(const struct terp_repeats *r, uint64_t i,
                    const struct terp_match *match)
{
    const int left =
        r->exact ? terp_reference_difference_nbits(r, i, match->at) : 0;
    const int64_t gain = (int64_t)r->value_nbits - 16 * (left + (left > 0)) -
                         TERP_REFERENCE_NBITS;

    return match->follows ? gain
                          : gain - TERP_REFERENCE_JUMP_NBITS -
                                16 * bit_width(i - match->at);
}

/* Consecutive referring points of a tile are a run. A run is kept if it saves
 * more than it costs. The runs at both ends of a tile may continue in the
 * neighbouring tiles. */
struct terp_reference_tile {
    uint64_t lead_nvalues;  /* run at the start, or the whole tile */
    uint64_t trail_nvalues; /* run at the end, unless it is the whole tile */
    int64_t lead_gain, trail_gain; /* in 1/16 bit */
    uint64_t saved;                /* by the runs in between */
    bool is_lead_kept, is_trail_kept;
};

static inline TERP_HOST_DEVICE uint64_t
terp_reference_tile_nvalues(const struct terp_repeats *r, uint64_t tile)
{
    return min_u64(r->nvalues - tile * TERP_REFERENCE_TILE_NVALUES,
                   TERP_REFERENCE_TILE_NVALUES);
}

static inline TERP_HOST_DEVICE void
terp_reference_drop(const struct terp_repeats *r, uint64_t first, uint64_t n)
{
    for (uint64_t i = first; i < first + n; i++)
        r->sources[i] = TERP_NO_SOURCE;
}

/* Finds sources for the points of a tile. A source may itself be a referring
 * point. */
static inline TERP_HOST_DEVICE struct terp_reference_tile
terp_reference_search_tile(const struct terp_repeats *r, uint64_t tile)
{
    const uint64_t first = tile * TERP_REFERENCE_TILE_NVALUES;
    const uint64_t n = terp_reference_tile_nvalues(r, tile);
    struct terp_reference_tile t = {0, 0, 0, 0, 0, false, false};
    struct terp_match match = {0, 0, 0, false, false};
    uint64_t run_nvalues = 0;
    int64_t gain = 0;

    for (uint64_t i = first - min_u64(first, TERP_REFERENCE_WARM_UP_NVALUES);
         i < first; i++)
        match = terp_reference_match(r, i, &match);
    for (uint64_t k = 0; k < n; k++) {
        const uint64_t i = first + k;
        const bool goes_on = match.found;
        match = terp_reference_match(r, i, &match);
        if (match.found && !goes_on && k > 0 && match.stride != 0 &&
            r->usable[i - 1] &&
            terp_reference_fits(r, i - 1, match.at - (uint64_t)match.stride)) {
            /* Keys find a run only at its second point. */
            r->sources[i - 1] = (uint32_t)(match.at - (uint64_t)match.stride);
            gain += (int64_t)r->value_nbits - TERP_REFERENCE_NBITS;
            run_nvalues++;
        }
        r->sources[i] = match.found ? (uint32_t)match.at : TERP_NO_SOURCE;
        if (match.found) {
            gain += terp_reference_gain(r, i, &match);
            run_nvalues++;
        }
        if (match.found && k + 1 < n)
            continue;
        if (run_nvalues == k + match.found) {
            t.lead_nvalues = run_nvalues;
            t.lead_gain = gain;
        } else if (match.found) {
            t.trail_nvalues = run_nvalues;
            t.trail_gain = gain;
        } else if (gain > 0) {
            t.saved += (uint64_t)gain;
        } else {
            terp_reference_drop(r, i - run_nvalues, run_nvalues);
        }
        run_nvalues = 0;
        gain = 0;
    }
    return t;
}

/* Decides which runs at the ends of tiles are kept; runs are joined across
 * tiles. Returns the size that all runs save, in 1/16 bit. */
static inline TERP_HOST_DEVICE uint64_t
terp_reference_join_tiles(const struct terp_repeats *r, uint64_t ntiles,
                          struct terp_reference_tile *tiles)
{
    uint64_t saved = 0, begin = 0;
    int64_t gain = 0;

    /* A run that ends in tile i consists of the end of tile begin - 1, of whole
     * tiles, and of the start of tile i. */
    for (uint64_t i = 0; i <= ntiles; i++) {
        if (i < ntiles) {
            saved += tiles[i].saved;
            gain += tiles[i].lead_gain;
            if (tiles[i].lead_nvalues == terp_reference_tile_nvalues(r, i))
                continue;
        }
        for (uint64_t k = begin; k <= i && gain > 0; k++) {
            if (k < ntiles)
                tiles[k].is_lead_kept = true;
            if (k > 0)
                tiles[k - 1].is_trail_kept = true;
        }
        saved += gain > 0 ? (uint64_t)gain : 0;
        begin = i + 1;
        gain = i < ntiles ? tiles[i].trail_gain : 0;
    }
    return saved;
}

static inline TERP_HOST_DEVICE void
terp_reference_drop_ends(const struct terp_repeats *r, uint64_t tile,
                         const struct terp_reference_tile *t)
{
    const uint64_t first = tile * TERP_REFERENCE_TILE_NVALUES;
    const uint64_t n = terp_reference_tile_nvalues(r, tile);

    if (!t->is_lead_kept)
        terp_reference_drop(r, first, t->lead_nvalues);
    if (!t->is_trail_kept)
        terp_reference_drop(r, first + n - t->trail_nvalues, t->trail_nvalues);
}

/* ---- differences ---- */

/* A float value from its bits. */
static inline TERP_HOST_DEVICE double
terp_reference_float(enum terp_type type, uint64_t bits)
{
    const uint32_t narrow_bits =
        terp_type_is_half(type) ? terp_f32_bits_of_half(type, (uint16_t)bits)
                                : (uint32_t)bits;
    double wide;
    float narrow;

    memcpy(&wide, &bits, sizeof wide);
    memcpy(&narrow, &narrow_bits, sizeof narrow);
    return type == TERP_FLOAT64 ? wide : (double)narrow;
}

/* The largest distance of a value from its source. Only floats have bounds
 * above 0. */
struct terp_reference_bound {
    double bound;
    bool of_each; /* relative to each value */
    /* CPU, lossless: values refer to the value so far before, or to its source;
     * 0: the search finds sources (codec/model/lag.h) */
    uint64_t lag;
};

/* The bound of a value, a little reduced. */
static inline TERP_HOST_DEVICE double
terp_reference_bound_of(struct terp_reference_bound bound, double value)
{
    return bound.of_each ? bound.bound * (1 - 0x1p-50) * fabs(value)
                         : bound.bound;
}

/* The difference that turns the decoded source into the value. Under a bound
 * above 0 it is the sign alone, if that keeps the bound. */
static inline TERP_HOST_DEVICE uint64_t
terp_reference_difference_within(enum terp_type type,
                                 struct terp_reference_bound bound,
                                 uint64_t value, uint64_t source)
{
    const bool is_float = !terp_type_is_integer(type);
    const int value_nbytes = terp_value_nbytes(type);
    const uint64_t sign_bit = terp_reference_sign_bit(value_nbytes);
    const uint64_t sign = (value ^ source) & sign_bit ? 1 : 0;

    if (bound.bound > 0) {
        const uint64_t other =
            terp_reference_value(true, value_nbytes, source, sign);
        const double wanted = terp_reference_float(type, value);
        const double error = terp_reference_float(type, other) - wanted;
        if (fabs(error) < terp_reference_bound_of(bound, wanted))
            return sign;
    }
    return terp_reference_difference(is_float, value_nbytes, value, source);
}

/* ---- streams ---- */

/* The bits of infinity. */
static inline uint64_t
terp_references_infinity(enum terp_type type)
{
    return terp_type_is_half(type) ? terp_half_infinity(type)
           : type == TERP_FLOAT32  ? 0x7F800000
                                   : UINT64_C(0x7FF0000000000000);
}

/* The usual marker of floats, a NaN. If a value of the chunk has these bits,
 * another marker is chosen. */
static inline uint64_t
terp_references_marker_of_floats(int value_nbytes)
{
    return terp_reference_sign_bit(value_nbytes) - 2;
}

/* Whether references save enough bits to be worth the time of coding them. */
static inline bool
terp_references_pay(uint64_t saved_nbits, uint64_t stream_nbytes, double bound)
{
    return saved_nbits / 8 > stream_nbytes / (bound > 0 ? 8 : 50);
}

/* The parameters under which an inner stream is coded. */
static inline struct terp_params
terp_references_params(const struct terp_params *params, bool is_float,
                       struct terp_reference_bound bound, uint64_t marker,
                       enum terp_references_part part)
{
    struct terp_params own = *params;

    if (part != TERP_REFERENCES_VALUES) {
        memset(&own, 0, sizeof own);
        own.size = params->size;
        own.bound_mode = TERP_BOUND_ABSOLUTE;
        return own;
    }
    if (bound.bound > 0 && !bound.of_each) {
        own.bound_mode = TERP_BOUND_ABSOLUTE;
        own.bound = bound.bound;
    }
    if (!is_float) {
        own.has_missing = true;
        own.missing_bits = marker;
    }
    return own;
}

/* Whether both predictors are tried for the values: where at least half of them
 * are markers. Markers tell nothing of their neighbours, so estimates of the
 * better predictor are often wrong. Floats without a loss have one predictor.
 * Integers that take many bits gain nothing: `stream_nbytes` is what the values
 * take by one predictor. Smaller chunks would gain about a percent; their
 * streams stay as they were. */
#define TERP_BOTH_MIN_NVALUES (UINT64_C(1) << 16)
#define TERP_BOTH_MAX_NBITS 12
static inline bool
terp_references_try_both(const struct terp_params *params,
                         const struct terp_chunk *chunk, uint64_t nreferences,
                         uint64_t stream_nbytes)
{
    const uint64_t nvalues = terp_chunk_nvalues(chunk);
    const bool is_narrow =
        8 * stream_nbytes <= TERP_BOTH_MAX_NBITS * (nvalues - nreferences);

    return nvalues >= TERP_BOTH_MIN_NVALUES && nreferences >= nvalues / 2 &&
           params->predictor == TERP_PREDICTOR_AUTO &&
           params->effort == TERP_EFFORT_DEFAULT &&
           (terp_type_is_integer(chunk->type) ? is_narrow
                                              : !terp_is_lossless(params));
}

/* The predictor to try beside a prediction; AUTO: none. */
static inline enum terp_predictor
terp_other_predictor(enum terp_prediction prediction)
{
    return prediction == TERP_PREDICTION_NONE     ? TERP_PREDICTOR_AUTO
           : prediction == TERP_PREDICTION_SPLINE ? TERP_PREDICTOR_LORENZO
                                                  : TERP_PREDICTOR_SPLINE;
}
