/* Finds the facts about a chunk before it is coded: the values that carry it,
 * the bound, the range, and which other streams are worth a trial. */
#include <stdlib.h>

#include "codec/model/bound.h"
#include "codec/model/ranks.h"
#include "codec/model/repeats.h"
#include "cpu/encoder.h"
#include "cpu/predict/carrier.h"
#include "cpu/predict/pointwise.h"
#include "cpu/predict/repeats.h"

/* ---- carried values ---- */

enum terp_status
terp_cpu_survey_swap(struct cpu_encoder *enc)
{
    struct cpu_prediction *p = &enc->body.prediction;
    uint64_t chunk_nbytes = terp_chunk_nbytes(&enc->body.frame.chunk);

    enc->source.parts = p->values;
    if (enc->body.frame.chunk.big_endian == TERP_HOST_IS_BIG_ENDIAN)
        return TERP_OK;
    enc->source.swapped = terp_cpu_memory_make(p->pool, chunk_nbytes);
    if (enc->source.swapped == NULL)
        return TERP_ERR_MEMORY;
    memcpy(enc->source.swapped, p->values, chunk_nbytes);
    terp_swap_values(enc->source.swapped, enc->body.layout.nvalues,
                     enc->body.part_nbytes);
    p->values = enc->source.parts = enc->source.swapped;
    return TERP_OK;
}

static struct cpu_parts
parts_of(const struct cpu_encoder *enc)
{
    const struct terp_params *params = enc->source.params;
    const uint64_t bits = UINT64_MAX >> (64 - 8 * enc->body.part_nbytes);
    struct cpu_parts parts = {.pool = enc->body.prediction.pool,
                              .type =
                                  terp_type_of_part(enc->body.frame.chunk.type),
                              .nparts = enc->body.layout.nvalues};

    if (params != NULL && params->has_fill)
        parts.fill[parts.nfills++] = params->fill_bits & bits;
    if (params != NULL && params->has_missing)
        parts.fill[parts.nfills++] = params->missing_bits & bits;
    return parts;
}

/* A number less than 1/2 from an integer decodes to that integer. 0.49 stays
 * clear of the tie. */
#define NEAR_WHOLE 0.49

/* Converts limits of integers to limits of the floats that carry them. */
static void
take_carried_limits(struct cpu_encoder *enc, enum terp_type type,
                    const struct terp_carrier_head *head)
{
    struct terp_limits *kept = &enc->source.limits;
    const double offset = terp_type_is_signed(type)
                              ? (double)(int64_t)head->offset
                              : (double)head->offset;

    if (head->form == TERP_CARRIER_INTS_BITS)
        enc->source.is_limited = false;
    for (int i = 0; enc->source.is_limited && i < TERP_NLIMITS; i++) {
        const double low = (kept->low[i].at - offset) / (double)head->scale;
        const double high = (kept->high[i].at - offset) / (double)head->scale;
        kept->low[i] = (struct terp_limit){ceil(low), ceil(low) - NEAR_WHOLE};
        kept->high[i] =
            (struct terp_limit){floor(high), floor(high) + NEAR_WHOLE};
    }
    kept->anchor = NAN;
}

/* Makes the floats that carry integers. TERP_ERR_CAPACITY: the integers cannot
 * be carried. */
static enum terp_status
carry_integers(struct cpu_encoder *enc)
{
    const struct cpu_parts parts = parts_of(enc);
    const enum terp_type type = terp_carried_integer(parts.type);
    struct terp_integers found;

    terp_cpu_integers_measure(&parts, enc->source.parts, &found);
    const struct terp_integer_carrier carrier = terp_integer_carrier_of(
        type, terp_integer_bound(enc->source.params), &found);
    if (!carrier.is_coded)
        return TERP_ERR_CAPACITY;
    enc->body.carrier = carrier.head;
    terp_cpu_body_take_stages(&enc->body);
    enum terp_status st = terp_cpu_body_make_carried(&enc->body);
    if (st != TERP_OK)
        return st;
    terp_cpu_integers_code(&parts, enc->source.parts, &carrier.head,
                           enc->body.carried);
    enc->source.coded = terp_params_under(enc->source.params, carrier.bound);
    enc->source.coded.has_fill = enc->source.coded.has_missing = false;
    enc->source.params = &enc->source.coded;
    enc->body.prediction.values = enc->body.carried;
    take_carried_limits(enc, parts.type, &carrier.head);
    return TERP_OK;
}

/* Makes the float32 that carry 16-bit floats. */
static enum terp_status
carry_halves(struct cpu_encoder *enc)
{
    const struct cpu_parts parts = parts_of(enc);
    enum terp_status st = terp_cpu_body_make_carried(&enc->body);
    if (st != TERP_OK)
        return st;
    enc->source.coded = terp_params_of_halves(parts.type, enc->source.params);
    enc->source.params = &enc->source.coded;
    terp_cpu_halves_code(&parts, enc->source.parts,
                         enc->source.params->bound_mode == TERP_BOUND_POINTWISE,
                         enc->body.carried);
    enc->body.prediction.values = enc->body.carried;
    return TERP_OK;
}

/* Makes the carrying values of a chunk whose type is neither float32 nor
 * float64. */
static enum terp_status
carry(struct cpu_encoder *enc)
{
    const enum terp_type type = enc->body.frame.chunk.type;

    if (terp_type_is_plain(type))
        return TERP_OK;
    enc->body.carrier.bound = enc->source.params->bound;
    return terp_type_is_integer(type) ? carry_integers(enc) : carry_halves(enc);
}

double
terp_cpu_survey_bound(struct cpu_encoder *enc)
{
    const enum terp_type type = enc->body.frame.chunk.type;
    const struct terp_params *params = enc->source.params;
    const double bound =
        terp_absolute_bound(params->bound_mode, params->bound,
                            enc->survey.range.min, enc->survey.range.max);
    if (terp_type_is_plain(type) ||
        enc->body.carrier.form != TERP_CARRIER_FLOATS)
        return bound;
    enc->body.carrier.bound = is_bound(bound) ? bound : 0;
    return terp_half_bound_of_range(type, bound, enc->survey.stats.min,
                                    enc->survey.stats.max);
}

/* Whether values, or the integers that they carry, are coded without loss, and
 * these integers are too many for each to have a symbol. */
static bool
is_lossless(const struct cpu_encoder *enc)
{
    return (terp_is_lossless(enc->source.params) &&
            !enc->body.frame.is_pointwise) ||
           (enc->body.carrier.form != TERP_CARRIER_FLOATS &&
            enc->body.frame.bound < 1 && enc->survey.may_be_wide);
}

/* Finds the steps of the lossless prediction, and lorenzo's exact integers,
 * from what sampled values have in common. */
static struct terp_exact
find_exact(struct cpu_encoder *enc)
{
    struct cpu_prediction *p = &enc->body.prediction;
    int exponent, nzeros;

    p->stages->common_bits(p->values, enc->body.layout.nvalues,
                           &enc->survey.fills, &exponent, &nzeros);
    if (is_lossless(enc))
        p->nsteps = terp_lossless_steps(
            enc->survey.stats.min, enc->survey.stats.max,
            p->stages->value_nbytes, exponent, nzeros, p->steps);
    if (enc->body.carrier.form == TERP_CARRIER_INTS_BITS)
        p->nsteps = 1;
    return terp_exact_of(enc->body.frame.bound, enc->survey.stats.min,
                         enc->survey.stats.max, p->stages->value_nbytes,
                         exponent, nzeros);
}

static void
clear_fills(struct cpu_encoder *enc)
{
    for (int i = 0; i < TERP_NFILLS; i++)
        enc->survey.fills.bits[i] =
            enc->body.prediction.stages->negative_zero_bits;
}

/* The value that a chunk of nearly equal logarithms decodes to. */
static double
constant_of_pointwise(const struct cpu_encoder *enc,
                      const struct cpu_pointwise *chunk,
                      const struct terp_magnitudes *magnitudes)
{
    const struct cpu_stages *stages = enc->body.prediction.stages;
    struct cpu_pointwise one = *chunk;
    uint64_t bits = 0, coded;

    if (enc->body.pointwise.form == TERP_POINTWISE_ROUNDED)
        return enc->survey.constant;
    one.nvalues = 1;
    if (enc->body.pointwise.floor == 0 &&
        magnitudes->min_bits == magnitudes->max_bits) {
        bits = magnitudes->min_bits;
    } else {
        store_value(&coded, cpu_value_bits(stages, enc->survey.constant),
                    stages->value_nbytes);
        terp_cpu_pointwise_decode(&one, &enc->body.pointwise, NULL, NULL,
                                  &coded, &bits);
        bits = load_value(&bits, enc->body.chunk_stages->value_nbytes);
    }
    const double value = cpu_value_of_bits(enc->body.chunk_stages, bits);
    if (enc->body.pointwise.floor > 0)
        return value;
    return magnitudes->negative && value > 0 ? -value : value;
}

/* Replaces the bound by an absolute one. */
static void
take_absolute_bound(struct cpu_encoder *enc, double bound)
{
    enc->source.coded = terp_params_under(enc->source.params, bound);
    enc->source.params = &enc->source.coded;
    enc->body.frame.bound = bound;
}

/* How the chunk uses the floor. */
static enum terp_floor_use
use_of_floor(const struct cpu_encoder *enc,
             const struct terp_magnitudes *magnitudes)
{
    const struct terp_params *params = enc->source.params;

    if (params->floor == 0)
        return TERP_FLOOR_IS_NONE;
    return terp_pointwise_use_of_floor(
        params->bound, params->floor,
        cpu_value_of_bits(enc->body.chunk_stages, magnitudes->max_bits),
        enc->body.chunk_stages->value_nbytes);
}

/* The limit of coded values that a limit of values becomes. */
static struct terp_limit
coded_limit(const struct cpu_encoder *enc, const struct terp_pointwise *how,
            double limit, bool is_low)
{
    return isinf(limit)
               ? terp_limit_at(limit)
               : terp_cpu_pointwise_limit(cpu_body_carrier_type(&enc->body),
                                          how, &enc->body.pointwise, limit,
                                          is_low);
}

/* Converts limits of a chunk's values to limits of its coded values. With a
 * floor, coded values rise with values; without a floor they rise with
 * magnitudes, and signs are kept separately. */
static void
take_coded_limits(struct cpu_encoder *enc, const struct terp_pointwise *how)
{
    const struct terp_limits whole = enc->source.limits;
    const double low = whole.low[0].at, high = whole.high[0].at;
    struct terp_limits *kept = &enc->source.limits;

    if (!enc->source.is_limited)
        return;
    *kept = terp_no_limits();
    if (how->form == TERP_POINTWISE_ROUNDED) {
        enc->source.is_limited = false;
        return;
    }
    for (int i = 0; how->joint > 0 && i < TERP_NLIMITS; i++) {
        kept->low[i] = coded_limit(enc, how, whole.low[i].at, true);
        kept->high[i] = coded_limit(enc, how, whole.high[i].at, false);
    }
    if (how->joint == 0 && how->signs != TERP_SIGNS_NEGATIVE) {
        if (low > 0)
            kept->low[0] = coded_limit(enc, how, low, true);
        if (high > 0)
            kept->high[0] = coded_limit(enc, how, high, false);
    }
    if (how->joint == 0 && how->signs != TERP_SIGNS_POSITIVE) {
        if (low < 0)
            kept->high[1] = coded_limit(enc, how, -low, false);
        if (high < 0)
            kept->low[1] = coded_limit(enc, how, -high, true);
    }
    if (!isnan(whole.anchor))
        kept->anchor =
            how->joint > 0 || whole.anchor > 0
                ? (whole.anchor == low ? kept->low : kept->high)->at
                : (whole.anchor == low ? kept->high : kept->low)[1].at;
    if (isinf(kept->anchor))
        kept->anchor = NAN;
}

/* Makes the values that a pointwise bound codes in place of the chunk's, and
 * finds their absolute bound and, for a constant chunk, its constant. */
static enum terp_status
code_pointwise(struct cpu_encoder *enc, const struct cpu_pointwise *chunk,
               const struct terp_magnitudes *magnitudes, bool is_floored,
               bool *is_constant_ret)
{
    struct cpu_prediction *p = &enc->body.prediction;
    const struct cpu_stats *stats = &enc->survey.stats;
    const int value_nbytes = enc->body.chunk_stages->value_nbytes;
    const double bound = enc->source.params->bound;
    const bool all_same = stats->min == stats->max;
    const double value = stats->min;
    const struct terp_pointwise how =
        is_floored ? terp_pointwise_floored_of(bound, enc->source.params->floor,
                                               *magnitudes, value_nbytes)
                   : terp_pointwise_of(bound, *magnitudes, value_nbytes);

    enc->body.pointwise = (struct terp_pointwise_head){
        how.form,
        how.signs,
        bound,
        how.center,
        how.joint > 0 ? enc->source.params->floor : 0,
        how.shift};
    if (!terp_type_is_plain(enc->body.frame.chunk.type))
        enc->body.pointwise.bound = enc->body.carrier.bound;
    enc->body.frame.is_pointwise = true;
    take_absolute_bound(enc, how.bound);
    p->stages = cpu_stages_of(terp_pointwise_type(how.form, chunk->type));
    enc->body.coded = terp_cpu_memory_make(
        p->pool, chunk->nvalues * (uint64_t)p->stages->value_nbytes);
    if (enc->body.coded == NULL)
        return TERP_ERR_MEMORY;
    terp_cpu_pointwise_code(chunk, p->values, &how, enc->body.coded,
                            &enc->survey.stats);
    if (how.signs == TERP_SIGNS_MIXED) {
        enc->body.signs = calloc(div_up(chunk->nvalues, 64), 8);
        if (enc->body.signs == NULL)
            return TERP_ERR_MEMORY;
        terp_cpu_pointwise_signs(chunk, p->values, enc->body.signs);
    }
    p->values = enc->body.coded;
    clear_fills(enc);
    take_coded_limits(enc, &how);
    const bool all_special = stats->nspecials == chunk->nvalues;
    *is_constant_ret =
        terp_find_constant(stats->min, stats->max, all_special, how.bound,
                           terp_is_lossless(enc->source.params),
                           p->stages->value_nbytes, &enc->survey.constant) &&
        (all_special || how.joint > 0 ||
         !(magnitudes->positive && magnitudes->negative));
    if (*is_constant_ret && !all_special)
        enc->survey.constant =
            how.joint > 0 && all_same
                ? value
                : constant_of_pointwise(enc, chunk, magnitudes);
    return TERP_OK;
}

/* The bound, or a little less: both limits, or a limit and 0, are then a whole
 * number of steps apart. */
static double
bound_within_limits(const struct cpu_encoder *enc, double bound)
{
    const struct terp_limits *limits = &enc->source.limits;
    const int value_nbytes = enc->body.prediction.stages->value_nbytes;
    const double min = enc->survey.stats.min, max = enc->survey.stats.max;

    if (!enc->source.is_limited ||
        !terp_type_is_plain(enc->body.frame.chunk.type) ||
        !(max + bound > limits->high[0].at))
        return bound;
    const double distance = min - bound < limits->low[0].at
                                ? limits->high[0].at - limits->low[0].at
                                : fabs(limits->high[0].at);
    const double step =
        terp_step_of(bound, terp_step_slack_of(bound, min, max, value_nbytes));
    return bound * terp_limits_factor(distance, step);
}

/* Finds the absolute bound and, for a constant chunk, its constant. */
static enum terp_status
scan_absolute(struct cpu_encoder *enc, bool *is_constant_ret)
{
    const struct terp_params *params = enc->source.params;
    const struct cpu_stats *stats = &enc->survey.stats;

    enc->body.frame.bound =
        bound_within_limits(enc, terp_cpu_survey_bound(enc));
    *is_constant_ret = terp_find_constant(
        stats->min, stats->max, stats->nspecials == enc->body.layout.nvalues,
        enc->body.frame.bound, terp_is_lossless(params),
        enc->body.prediction.stages->value_nbytes, &enc->survey.constant);
    return TERP_OK;
}

static enum terp_status
scan_pointwise(struct cpu_encoder *enc, bool *is_constant_ret)
{
    const struct cpu_pointwise chunk = {
        enc->body.prediction.pool, cpu_body_carrier_type(&enc->body),
        enc->body.layout.nvalues, &enc->survey.fills};
    struct terp_magnitudes magnitudes;

    terp_cpu_pointwise_measure(&chunk, enc->body.prediction.values,
                               &magnitudes);
    const enum terp_floor_use use = use_of_floor(enc, &magnitudes);
    if (use != TERP_FLOOR_IS_ALL)
        return code_pointwise(enc, &chunk, &magnitudes,
                              use == TERP_FLOOR_IS_JOINED, is_constant_ret);
    take_absolute_bound(enc, enc->source.params->floor);
    return scan_absolute(enc, is_constant_ret);
}

/* Stores a value that fills long runs, such as 0 outside of the measured area,
 * as a fill value if the coding is lossless. Differences across the ends of
 * such a run would be large. */
static void
find_common(struct cpu_encoder *enc)
{
    struct cpu_prediction *p = &enc->body.prediction;
    const struct cpu_stages *stages = p->stages;
    struct cpu_stats stats;

    for (int i = 0; i < TERP_NFILLS; i++) {
        const struct cpu_fills before = enc->survey.fills;
        if (before.bits[i] != stages->negative_zero_bits)
            continue;
        if (!stages->common_value(p->values, enc->body.layout.nvalues, &before,
                                  &enc->survey.fills.bits[i]))
            return;
        stages->scan(p->values, enc->body.layout.nvalues, &enc->survey.fills,
                     &stats);
        if (!(stats.min < stats.max)) {
            enc->survey.fills = before;
            return;
        }
        enc->survey.stats = stats;
    }
}

/* Finds special values and the range. The scan may take extremes of integers
 * for fill values. If all other integers are equal, they are no fill values but
 * the data of a flag or a mask. */
void
terp_cpu_survey_range(struct cpu_encoder *enc)
{
    struct cpu_prediction *p = &enc->body.prediction;
    struct cpu_stats *stats = &enc->survey.stats;

    enc->survey.fills = cpu_fills_of(p->stages, enc->source.params);
    terp_cpu_scan(p->stages, p->pool, enc->body.frame.chunk.type, p->values,
                  enc->body.layout.nvalues, &enc->survey.fills, stats,
                  &enc->survey.range);
    if (enc->body.carrier.form != TERP_CARRIER_FLOATS &&
        !(stats->min < stats->max)) {
        clear_fills(enc);
        p->stages->scan(p->values, enc->body.layout.nvalues, &enc->survey.fills,
                        stats);
    }
    if (terp_is_lossless(enc->source.params) ||
        (enc->body.carrier.form != TERP_CARRIER_FLOATS &&
         enc->source.params->bound < 1 &&
         stats->max - stats->min >= TERP_LOW_BITS_MIN_NSTEPS))
        find_common(enc);
}

/* Finds special values, the range of all other values, and the step. */
static enum terp_status
scan(struct cpu_encoder *enc)
{
    const struct terp_params *params = enc->source.params;
    struct cpu_prediction *p = &enc->body.prediction;
    const struct cpu_stats *stats = &enc->survey.stats;
    struct terp_frame *frame = &enc->body.frame;
    bool is_constant;

    terp_cpu_survey_range(enc);
    const enum terp_status st = params->bound_mode == TERP_BOUND_POINTWISE
                                    ? scan_pointwise(enc, &is_constant)
                                    : scan_absolute(enc, &is_constant);
    if (st != TERP_OK)
        return st;
    params = enc->source.params;
    frame->coding = TERP_CODING_CONSTANT;
    if (is_constant)
        return TERP_OK;
    frame->coding = terp_coding_of(params->pipeline);
    enc->body.step_slack_log2 = terp_step_slack_of(
        frame->bound, stats->min, stats->max, p->stages->value_nbytes);
    enc->survey.step = terp_step_of(frame->bound, enc->body.step_slack_log2);
    const double nsteps =
        terp_nsteps_of(stats->min, stats->max, enc->survey.step);
    enc->survey.escape_nbytes =
        terp_likely_escape_nbytes(nsteps, p->stages->value_nbytes);
    enc->survey.may_be_wide =
        terp_bound_may_have_low_bits(params->bound_mode, params->bound) &&
        terp_may_be_wide(nsteps);
    if (enc->survey.may_be_wide || is_lossless(enc))
        enc->survey.exact = find_exact(enc);
    /* The range may be too large for a double. */
    return is_bound(frame->bound) || terp_is_lossless(params)
               ? TERP_OK
               : TERP_ERR_CAPACITY;
}

static void
lag_errors(void *arg, uint64_t lag, uint64_t set,
           struct terp_lag_errors errors_ret[TERP_DOMAIN_NSAMPLES])
{
    const struct cpu_encoder *enc = arg;
    const struct cpu_prediction *p = &enc->body.prediction;

    p->stages->lag_errors(p->values, enc->body.layout.nvalues,
                          &enc->survey.fills, 1 / enc->survey.step, lag, set,
                          errors_ret);
}

static enum terp_status
find_domain(struct cpu_encoder *enc)
{
    const struct terp_chunk *chunk = &enc->body.frame.chunk;

    enc->facts.domain = *chunk;
    enc->facts.is_open = enc->body.frame.coding != TERP_CODING_CONSTANT &&
                         terp_domain_is_open(chunk, enc->body.layout.nvalues,
                                             enc->source.params);
    if (!enc->facts.is_open)
        return TERP_OK;
    uint32_t anchor_price = terp_price_of_anchor(
        enc->survey.stats.min, enc->survey.stats.max, enc->survey.step);
    return terp_domain_find(chunk, anchor_price, lag_errors, enc,
                            &enc->facts.domain, &enc->facts.verdict);
}

/* Counts repeated values. `values` has the type of `stages`. */
static enum terp_status
find_repeats(const struct cpu_encoder *enc, const struct cpu_stages *stages,
             const void *values, int near_nbits, bool *repeats_ret)
{
    struct cpu_pool *pool = enc->body.prediction.pool;
    struct cpu_repeats_table *table = terp_cpu_memory_make(pool, sizeof *table);

    if (table == NULL)
        return TERP_ERR_MEMORY;
    *repeats_ret |=
        stages->count_repeats(values, enc->body.layout.nvalues,
                              terp_repeats_reach(enc->body.frame.chunk.type),
                              near_nbits, table) >= TERP_REPEATS_MIN_NFOUND;
    terp_cpu_memory_free(pool, table);
    return TERP_OK;
}

static enum terp_status
find_few(struct cpu_encoder *enc)
{
    struct terp_chunk chunk = enc->body.frame.chunk;
    struct cpu_pool *pool = enc->body.prediction.pool;
    const uint64_t nvalues = enc->body.layout.nvalues;

    if (!terp_few_are_possible(&chunk, nvalues))
        return TERP_OK;
    uint64_t *scratch = terp_cpu_memory_make(
        pool, terp_few_scratch_nwords(nvalues) * sizeof *scratch);
    if (scratch == NULL)
        return TERP_ERR_MEMORY;
    chunk.big_endian = TERP_HOST_IS_BIG_ENDIAN;
    enc->facts.may_be_few =
        terp_may_be_few(&chunk, enc->source.parts, nvalues, scratch);
    terp_cpu_memory_free(pool, scratch);
    return TERP_OK;
}

/* Finds whether copies, references or a lossless stream are worth a trial. */
static enum terp_status
find_more(struct cpu_encoder *enc)
{
    const struct cpu_stats *stats = &enc->survey.stats;
    const struct cpu_body *body = &enc->body;
    const enum terp_type type = body->frame.chunk.type;
    const bool is_half = terp_type_is_half(type);
    const uint64_t nvalues = body->layout.nvalues;
    struct terp_facts *facts = &enc->facts;

    if (!enc->source.wants_more || body->frame.coding == TERP_CODING_CONSTANT ||
        !terp_is_open_to_more(enc->source.params, &body->frame.chunk, nvalues))
        return TERP_OK;
    const enum terp_status st = find_few(enc);
    if (st != TERP_OK)
        return st;
    const bool may_repeat =
        terp_may_repeat(nvalues, stats->min, stats->max, enc->survey.step);
    if (body->frame.is_pointwise) {
        facts->bound = body->pointwise.bound;
        return may_repeat && !is_half
                   ? find_repeats(
                         enc, body->chunk_stages, enc->source.parts,
                         terp_repeats_near_nbits_of_each(
                             facts->bound, body->chunk_stages->value_nbytes),
                         &facts->may_repeat)
                   : TERP_OK;
    }
    facts->bound = is_half ? body->carrier.bound : body->frame.bound;
    for (int i = 0; i < TERP_NFILLS; i++) {
        facts->fill_bits[i] = enc->survey.fills.bits[i];
        facts->has_fill[i] = enc->survey.fills.bits[i] !=
                             body->prediction.stages->negative_zero_bits;
    }
    facts->may_be_lossless = terp_may_be_lossless(
        enc->source.params->effort, stats->min, stats->max, enc->survey.step,
        is_half ? terp_half_mantissa_nbits(type)
                : terp_mantissa_nbits(body->prediction.stages->value_nbytes));
    if (!is_half)
        facts->copied =
            terp_cpu_copies_find(&body->frame.chunk, enc->source.parts);
    if (facts->copied != 0 || !may_repeat)
        return TERP_OK;
    return find_repeats(enc, body->prediction.stages, body->prediction.values,
                        terp_repeats_near_nbits(body->frame.bound, stats->min,
                                                stats->max,
                                                terp_value_nbytes(type)),
                        &facts->may_repeat);
}

enum terp_status
terp_cpu_survey(struct cpu_encoder *enc)
{
    struct terp_facts *facts = &enc->facts;
    enum terp_status st = terp_cpu_survey_swap(enc);

    facts->is_settled = true; /* until every step has succeeded */
    if (st == TERP_OK)
        st = carry(enc);
    if (st == TERP_OK)
        st = scan(enc);
    if (st == TERP_OK)
        st = find_domain(enc);
    if (st == TERP_OK)
        st = find_more(enc);
    if (st == TERP_OK) {
        facts->is_settled = enc->body.frame.coding == TERP_CODING_CONSTANT;
        facts->is_exact = terp_is_lossless(enc->source.params);
    }
    return st;
}
