/* A level's plan, and the choices that a tuner makes by costs: priorities of
 * dimensions, a level's bound, the predictor. */
#pragma once

#include "codec/format/frame.h"
#include "codec/model/cost.h"
#include "codec/model/spline.h"

#define TERP_BOUND_RATIO_ONE 64

/* How one level is predicted and how tight its bound is. */
struct terp_level_plan {
    uint8_t spline;
    uint8_t priorities;  /* terp_predicting_dims */
    uint8_t bound_ratio; /* 1 .. TERP_BOUND_RATIO_ONE, in units of that */
};

/* The bytes that a stream tells a plan by. There, the mean is the long spline
 * that blends in pairs, which there is not; its priorities are all equal. */
#define TERP_PLAN_NBYTES 2

static inline TERP_HOST_DEVICE void
terp_plan_store(const struct terp_level_plan *plan, uint8_t *dst)
{
    const bool is_mean = plan->spline == TERP_SPLINE_MEAN;
    const int spline = is_mean ? (int)TERP_SPLINE_LONG : plan->spline;

    dst[0] = (uint8_t)((plan->bound_ratio - 1) | spline << 6);
    dst[1] = is_mean ? TERP_BLEND_PAIRS : plan->priorities;
}

static inline TERP_HOST_DEVICE void
terp_plan_load(const uint8_t *src, struct terp_level_plan *plan_ret)
{
    const int spline = src[0] >> 6;
    const bool is_mean =
        spline == TERP_SPLINE_LONG && src[1] == TERP_BLEND_PAIRS;

    plan_ret->bound_ratio = (uint8_t)((src[0] & 63) + 1);
    plan_ret->spline = (uint8_t)(is_mean ? TERP_SPLINE_MEAN : spline);
    plan_ret->priorities = is_mean ? 0 : src[1];
}

/* ---- an encoder's choices ---- */

/* A vector of priorities is canonical when it uses 0 .. k without a gap and
 * leaves idle dimensions at 0. */
static inline TERP_HOST_DEVICE bool
terp_priorities_are_canonical(unsigned priorities, unsigned active)
{
    unsigned used = 0;

    for (int d = 0; d < 4; d++) {
        unsigned priority = priorities >> (2 * d) & 3;
        if (active >> d & 1)
            used |= 1u << priority;
        else if (priority != 0)
            return false;
    }
    return (used & (used + 1)) == 0;
}

/* What a level under a spline is compared by: one that reaches far must be
 * worth its time, and errors beside edges, which are where samples seldom are.
 */
static inline TERP_HOST_DEVICE uint64_t
terp_price_under_spline(uint64_t cost, int spline)
{
    return spline == TERP_SPLINE_LONG   ? cost + cost / 24
           : spline == TERP_SPLINE_MEAN ? cost + cost / 96
                                        : cost;
}

/* The priorities of a level that the mean predicts, if it is taken in place of
 * another spline with these. */
static inline TERP_HOST_DEVICE unsigned
terp_priorities_under_spline(unsigned priorities, int spline)
{
    return spline == TERP_SPLINE_MEAN ? 0 : priorities;
}

/* Estimated costs of a level whose points are blended. */
struct terp_blend_costs {
    uint64_t single[TERP_NSPLINES];   /* of classes of one odd dimension */
    uint64_t two, two_long;           /* of two, linear and long */
    uint64_t three_pairs, three_full; /* of three, linear */
    uint64_t average;                 /* of four, which are not blended */
};

/* Blends if that costs less than `best`; returns what the level costs. Three
 * dimensions gain by a long spline what two do. */
static inline TERP_HOST_DEVICE uint64_t
terp_choose_blending(const struct terp_blend_costs *costs, uint64_t best,
                     struct terp_level_plan *plan)
{
    const uint64_t of_long = terp_price_under_spline(
        costs->single[TERP_SPLINE_LONG] + costs->two_long +
            terp_cost_under_spline(costs->three_full, costs->two_long,
                                   costs->two) +
            costs->average,
        TERP_SPLINE_LONG);
    int left = TERP_SPLINE_CUBIC;

    for (int kind = 1; kind < TERP_SPLINE_LONG; kind++)
        if (costs->single[kind] < costs->single[left])
            left = kind;
    const uint64_t linear = costs->single[left] + costs->two + costs->average;
    if (linear + costs->three_pairs < best) {
        best = linear + costs->three_pairs;
        plan->spline = (uint8_t)left;
        plan->priorities = TERP_BLEND_PAIRS;
    }
    if (linear + costs->three_full < best) {
        best = linear + costs->three_full;
        plan->spline = (uint8_t)left;
        plan->priorities = TERP_BLEND_FULL;
    }
    if (of_long < best) {
        best = of_long;
        plan->spline = TERP_SPLINE_LONG;
        plan->priorities = TERP_BLEND_FULL;
    }
    return best;
}

/* Codes are few, or some, below so many bits a value. */
#define TERP_FEW_COST (UINT64_C(3) << TERP_COST_FRACTION_NBITS >> 1)
#define TERP_SOME_COST (UINT64_C(5) << TERP_COST_FRACTION_NBITS >> 1)

/* A stream that costs less than this, in all and by the value, is mostly what
 * any chunk's stream has: more precision costs little. It does cost where a
 * chunk has two dimensions, or where there is next to nothing to code. */
#define TERP_SMALL_COST (UINT64_C(16384) << TERP_COST_FRACTION_NBITS)
#define TERP_SMALL_MIN_COST (UINT64_C(256) << TERP_COST_FRACTION_NBITS)
#define TERP_SMALL_VALUE_COST (UINT64_C(1) << TERP_COST_FRACTION_NBITS >> 3)

/* Coarse levels have a tighter bound, each level's so many times the next finer
 * one's up to a limit, where codes are few: there most of the prediction error
 * is the error of what was decoded before (QoZ, Liu et al., SC 2022). Where
 * codes are many a tighter bound only makes more of them. Of one dimension
 * coarse levels hold a half, a quarter and so on of the points: there it is 1.1
 * times. This is the bound of level l as bound_ratio, by the estimated cost of
 * all levels. Bricks have `ndims` dimensions of more than one value. */
static inline TERP_HOST_DEVICE int
terp_bound_ratio_of(int l, int ndims, uint64_t cost, uint64_t nvalues)
{
    /* A byte a level, 64 / x^(l - 1). */
    const uint64_t by_1_1 = UINT64_C(0x2124282C30353A40);
    const uint64_t by_1_15 = UINT64_C(0x2B2B2B2B2B303840);
    const uint64_t by_1_33 = UINT64_C(0x101010141B243040);
    const uint64_t by_1_5 = UINT64_C(0x10101010131C2B40);
    const uint64_t of_value = cost / nvalues;
    uint64_t falling = by_1_33;

    if (ndims < 2) {
        if (of_value >= TERP_FEW_COST)
            return TERP_BOUND_RATIO_ONE - 4;
        falling = by_1_1;
    } else if (of_value >= TERP_SOME_COST) {
        return TERP_BOUND_RATIO_ONE;
    } else if (of_value >= TERP_FEW_COST) {
        falling = by_1_15;
    } else if (ndims > 2 && cost >= TERP_SMALL_MIN_COST &&
               cost < TERP_SMALL_COST && of_value < TERP_SMALL_VALUE_COST) {
        falling = by_1_5;
    }
    return (int)(falling >> (8 * (l < 8 ? l - 1 : 7)) & 0xFF);
}

/* What a level's step or bound is multiplied by. */
static inline TERP_HOST_DEVICE double
terp_bound_factor(const struct terp_level_plan *plan)
{
    return (double)plan->bound_ratio / TERP_BOUND_RATIO_ONE;
}

/* Whether lorenzo is cheap enough to be taken. Where codes are few the spline's
 * error is below that of lorenzo, which is as large as the bound: there it must
 * be cheaper by an eighth, or where they are fewer still, and the spline's
 * error is far below, by three. Where they are many, contexts help it by more
 * than the splines, which is not estimated. Values that lorenzo reproduces
 * nearly exactly, as zeros and other constants, do not count: what the codes
 * are of is left. */
static inline TERP_HOST_DEVICE bool
terp_prefers_lorenzo(struct terp_price lorenzo, uint64_t spline_cost,
                     uint64_t nvalues)
{
    /* A section of its own weighs more in a small chunk. */
    const uint64_t lead = UINT64_C(64 * 8) << TERP_COST_FRACTION_NBITS;
    const uint64_t fewest = UINT64_C(3) << TERP_COST_FRACTION_NBITS >> 2;
    const uint64_t ncounted = nvalues - lorenzo.nnear;

    if (spline_cost >= TERP_FEW_COST * ncounted)
        return lorenzo.cost - lorenzo.cost / 64 < spline_cost;
    if (lorenzo.cost >= spline_cost)
        return false;
    if (spline_cost >= fewest * ncounted)
        return lorenzo.cost < spline_cost / 8 * 7;
    return lorenzo.cost + lead < spline_cost / 8 * 5;
}

/* Whether a predictor may be taken where the caller has asked for this. */
static inline TERP_HOST_DEVICE bool
terp_may_take(enum terp_predictor asked, enum terp_prediction prediction)
{
    return asked == TERP_PREDICTOR_AUTO ? prediction != TERP_PREDICTION_LOSSLESS
                                        : (int)asked == (int)prediction;
}
_Static_assert((int)TERP_PREDICTION_SPLINE == TERP_PREDICTOR_SPLINE &&
                   (int)TERP_PREDICTION_LOSSLESS == TERP_NPREDICTORS,
               "A predictor has one number for callers and in streams.");

/* The same where integers are to come back as they are. Nothing but lossless
 * prediction gives every bit of a float back. */
static inline TERP_HOST_DEVICE bool
terp_may_take_losslessly(enum terp_predictor asked,
                         enum terp_prediction prediction)
{
    return (prediction == TERP_PREDICTION_SPLINE &&
            asked != TERP_PREDICTOR_LORENZO) ||
           (prediction == TERP_PREDICTION_LOSSLESS &&
            asked != TERP_PREDICTOR_SPLINE);
}

/* What a chunk is predicted by, by the predictors' prices. */
static inline TERP_HOST_DEVICE enum terp_prediction
terp_choose_prediction(enum terp_predictor asked,
                       const struct terp_price price[TERP_NPREDICTIONS],
                       uint64_t nvalues)
{
    if (asked != TERP_PREDICTOR_AUTO)
        return (enum terp_prediction)asked;
    return terp_prefers_lorenzo(price[TERP_PREDICTION_LORENZO],
                                price[TERP_PREDICTION_SPLINE].cost, nvalues)
               ? TERP_PREDICTION_LORENZO
               : TERP_PREDICTION_SPLINE;
}
