/* The plan of a level, and the choices that the tuner makes by costs:
 * priorities of dimensions, a level's bound, the predictor. */
#pragma once

#include "codec/format/frame.h"
#include "codec/model/cost.h"
#include "codec/model/low_bits.h"
#include "codec/model/spline.h"

#define TERP_BOUND_RATIO_ONE 64

/* The prediction of a level, and its bound. */
struct terp_level_plan {
    uint8_t spline;
    uint8_t priorities;  /* terp_predicting_dims */
    uint8_t bound_ratio; /* 1 .. TERP_BOUND_RATIO_ONE, which is the whole
                            bound */
};

/* Bytes of a plan in a stream. A stream stores the mean, whose priorities are
 * all 0, as the long spline that blends in pairs, a combination that does not
 * exist. */
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

/* Priorities are canonical if they use 0 .. k without a gap and are 0 for
 * inactive dimensions. */
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

/* The price of a level under a spline. A spline that reaches far must save
 * enough to pay for its time, and for errors beside edges, which samples rarely
 * show. */
static inline TERP_HOST_DEVICE uint64_t
terp_price_under_spline(uint64_t cost, int spline)
{
    return spline == TERP_SPLINE_LONG   ? cost + cost / 24
           : spline == TERP_SPLINE_MEAN ? cost + cost / 96
                                        : cost;
}

/* The priorities of a level when `spline` replaces the spline for which they
 * were found: the mean has none. */
static inline TERP_HOST_DEVICE unsigned
terp_priorities_under_spline(unsigned priorities, int spline)
{
    return spline == TERP_SPLINE_MEAN ? 0 : priorities;
}

/* Estimated costs of a level whose points are blended. */
struct terp_blend_costs {
    uint64_t single[TERP_NSPLINES];   /* classes of one odd dimension */
    uint64_t two, two_long;           /* classes of two, linear and long */
    uint64_t three_pairs, three_full; /* classes of three, linear */
    uint64_t average;                 /* classes of four, which are not
                                         blended */
    int ndims;                        /* dimensions that have odd points */
};

/* Whether a plan averages predictions along several dimensions: the priorities
 * of two dimensions are equal. */
static inline TERP_HOST_DEVICE bool
terp_averages_dims(unsigned priorities, int ndims)
{
    unsigned most = 0;

    for (int d = 0; d < 4; d++)
        if ((priorities >> (2 * d) & 3) > most)
            most = priorities >> (2 * d) & 3;
    return (int)most + 1 < ndims;
}

/* Blending is sampled; the average of long splines is not. The price of the
 * average follows from the gain of long splines in one dimension, and is too
 * low if one dimension is smoother than the other. So in levels of at least 1
 * KiB the tuner takes blending if its price exceeds that of the average by at
 * most one part in TERP_BLEND_LEAD. */
#define TERP_BLEND_LEAD 32
#define TERP_BLEND_LEAD_MIN_COST (UINT64_C(8192) << TERP_COST_FRACTION_NBITS)
static inline TERP_HOST_DEVICE uint64_t
terp_blend_lead(uint64_t best, const struct terp_level_plan *plan, int ndims)
{
    return plan->spline == TERP_SPLINE_LONG &&
                   terp_averages_dims(plan->priorities, ndims) &&
                   best >= TERP_BLEND_LEAD_MIN_COST
               ? best / TERP_BLEND_LEAD
               : 0;
}

/* Chooses blending if it is cheaper than `best`. Returns the price of the
 * level. A long spline is assumed to gain as much in three dimensions as in
 * two. */
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
    if (of_long < best + terp_blend_lead(best, plan, costs->ndims)) {
        best = of_long;
        plan->spline = TERP_SPLINE_LONG;
        plan->priorities = TERP_BLEND_FULL;
    }
    return best;
}

/* Codes count as few, or as some, below this many bits for each value: 1.5 and
 * 2.5. */
#define TERP_FEW_COST (UINT64_C(3) << TERP_COST_FRACTION_NBITS >> 1)
#define TERP_SOME_COST (UINT64_C(5) << TERP_COST_FRACTION_NBITS >> 1)

/* A chunk counts as small if its stream is estimated below 2 KiB and an eighth
 * of a bit for each value: its stream is mostly fixed cost, and more precision
 * is cheap. That fails for two dimensions, and if there is next to nothing to
 * code (below 32 bytes). */
#define TERP_SMALL_COST (UINT64_C(16384) << TERP_COST_FRACTION_NBITS)
#define TERP_SMALL_MIN_COST (UINT64_C(256) << TERP_COST_FRACTION_NBITS)
#define TERP_SMALL_VALUE_COST (UINT64_C(1) << TERP_COST_FRACTION_NBITS >> 3)

/* The bound of level l as bound_ratio, from the estimated cost of all levels.
 * Each level's bound is tighter than that of the next finer level by a factor,
 * up to a limit. If codes are few, most of a prediction's error comes from
 * errors of coarser values (QoZ, Liu et al., SC 2022). If codes are many, a
 * tighter bound only makes more of them. In one dimension, coarse levels hold a
 * half, a quarter and so on of the points, so the factor is 1.1. `ndims`: the
 * dimensions of a brick with more than one value. */
static inline TERP_HOST_DEVICE int
terp_bound_ratio_of(int l, int ndims, uint64_t cost, uint64_t nvalues)
{
    /* One byte for each level: 64 / x^(l - 1). */
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

static inline TERP_HOST_DEVICE double
terp_bound_factor(const struct terp_level_plan *plan)
{
    return (double)plan->bound_ratio / TERP_BOUND_RATIO_ONE;
}

/* Whether Lorenzo is cheap enough to be chosen. Its error is about as large as
 * the bound; a spline's error is smaller if codes are few. So Lorenzo must be
 * cheaper by an eighth below 1.5 bits for each value, and by three eighths
 * below 0.75. If codes are many, contexts help Lorenzo more than splines, which
 * is not estimated. Values that Lorenzo reproduces nearly exactly, such as
 * zeros and other constants, do not count as values. */
static inline TERP_HOST_DEVICE bool
terp_prefers_lorenzo(struct terp_price lorenzo, uint64_t spline_cost,
                     uint64_t nvalues)
{
    /* A further section weighs more in a small chunk. */
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

/* Whether a chunk for which splines were chosen may be smaller with Lorenzo, so
 * that coding it twice pays. Where codes are few, the estimates of splines are
 * too low, because errors of decoded values add to those of the prediction. A
 * small chunk is coded twice if Lorenzo's estimate is below 5/4 of that of
 * splines. A larger chunk is coded twice if Lorenzo's estimate is below 17/16
 * and splines take fewer than three bits for each value: two larger chunks in a
 * hundred are. */
#define TERP_CLOSE_MAX_NVALUES (UINT64_C(1) << 16)
static inline TERP_HOST_DEVICE bool
terp_costs_are_close(uint64_t spline_cost, uint64_t lorenzo_cost,
                     uint64_t nvalues)
{
    const uint64_t three = UINT64_C(3) << TERP_COST_FRACTION_NBITS;

    return nvalues <= TERP_CLOSE_MAX_NVALUES
               ? lorenzo_cost / 5 * 4 < spline_cost
               : lorenzo_cost / 17 * 16 < spline_cost &&
                     spline_cost < three * nvalues;
}

/* Whether a larger chunk for which Lorenzo was chosen may be smaller with
 * splines, so that coding it twice pays. Where the scale of values varies, as
 * between levels of the atmosphere, contexts help splines more than the
 * estimates tell. The chunk is coded twice if the estimate of splines is below
 * 33/32 of Lorenzo's, and Lorenzo's stream takes fewer than five bits for each
 * value: four larger chunks in a hundred. */
static inline TERP_HOST_DEVICE bool
terp_splines_are_close(uint64_t spline_cost, uint64_t lorenzo_cost,
                       uint64_t nbytes, uint64_t nvalues)
{
    return nvalues > TERP_CLOSE_MAX_NVALUES &&
           spline_cost / 33 * 32 < lorenzo_cost && 8 * nbytes < 5 * nvalues;
}

/* Whether integers for which the lossless prediction was chosen may be smaller
 * with splines, so that coding them twice pays. The estimate of splines counts
 * the unit's bits below the symbols for each value, though tiles of small codes
 * have fewer; where the unit is wide it is up to 1.7 times the truth. It is so
 * only where these bits are most of it: where the symbols take at most two
 * thirds as many. Small chunks stay as they were. */
#define TERP_SPLINES_MIN_UNIT_NBITS 6
static inline TERP_HOST_DEVICE bool
terp_may_be_splines(uint64_t spline_cost, uint64_t lossless_cost,
                    int unit_nbits, uint64_t nvalues)
{
    const uint64_t of_unit = terp_cost_with_low_bits(0, nvalues, unit_nbits);

    return nvalues > TERP_CLOSE_MAX_NVALUES &&
           unit_nbits >= TERP_SPLINES_MIN_UNIT_NBITS &&
           spline_cost / 5 * 3 < of_unit &&
           spline_cost / 13 * 10 < lossless_cost;
}

/* Whether the caller's choice allows a predictor. */
static inline TERP_HOST_DEVICE bool
terp_may_take(enum terp_predictor wanted, enum terp_prediction prediction)
{
    return wanted == TERP_PREDICTOR_AUTO
               ? prediction != TERP_PREDICTION_LOSSLESS
               : (int)wanted == (int)prediction;
}
_Static_assert((int)TERP_PREDICTION_SPLINE == TERP_PREDICTOR_SPLINE &&
                   (int)TERP_PREDICTION_LOSSLESS == TERP_NPREDICTORS,
               "A predictor has one number for callers and in streams.");

/* Whether the caller's choice allows a predictor for lossless coding of
 * integers. Floats have the lossless predictor only. */
static inline TERP_HOST_DEVICE bool
terp_may_take_losslessly(enum terp_predictor wanted,
                         enum terp_prediction prediction)
{
    return (prediction == TERP_PREDICTION_SPLINE &&
            wanted != TERP_PREDICTOR_LORENZO) ||
           (prediction == TERP_PREDICTION_LOSSLESS &&
            wanted != TERP_PREDICTOR_SPLINE);
}

/* Chooses the predictor of a chunk by prices. */
static inline TERP_HOST_DEVICE enum terp_prediction
terp_choose_prediction(enum terp_predictor wanted,
                       const struct terp_price price[TERP_NPREDICTIONS],
                       uint64_t nvalues)
{
    if (wanted != TERP_PREDICTOR_AUTO)
        return (enum terp_prediction)wanted;
    return terp_prefers_lorenzo(price[TERP_PREDICTION_LORENZO],
                                price[TERP_PREDICTION_SPLINE].cost, nvalues)
               ? TERP_PREDICTION_LORENZO
               : TERP_PREDICTION_SPLINE;
}
