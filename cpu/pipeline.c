/* The CPU engine: a chunk's way from values to a stream, and back, as tables of
 * steps. doc/format.md describes what is written. */
#include "cpu/pipeline.h"

#include <stdlib.h>

#include "codec/format/bytes.h"
#include "codec/format/references.h"
#include "codec/format/types.h"
#include "codec/model/coarse.h"
#include "codec/model/domain.h"
#include "codec/model/repeats.h"
#include "cpu/coarse.h"
#include "cpu/copies.h"
#include "cpu/entropy/contexts.h"
#include "cpu/entropy/order.h"
#include "cpu/entropy/tiles.h"
#include "cpu/parts.h"
#include "cpu/predict/carrier.h"
#include "cpu/predict/deinterleave.h"
#include "cpu/predict/pointwise.h"
#include "cpu/predict/predictor.h"
#include "cpu/predict/spline.h"
#include "cpu/references.h"
#include "cpu/sections/escapes.h"
#include "cpu/sections/low_bits.h"
#include "cpu/sections/remainders.h"
#include "cpu/sections/shifts.h"
#include "cpu/sections/signs.h"
#include "cpu/sections/specials.h"
#include "cpu/sections/tails.h"

/* In what other streams a chunk's values may be smaller
 * (codec/model/repeats.h).
 */
struct more {
    double bound; /* the absolute one, or one relative to each value */
    bool has_fill[TERP_NFILLS]; /* whether there are fill values */
    struct cpu_fills fills;
    unsigned copied; /* without these dimensions */
    bool repeats;    /* with references */
    bool lossless;
};

/* A chunk on its way. */
struct job {
    struct terp_frame frame;
    struct terp_layout layout;
    const struct cpu_predictor *predictor; /* NULL: the chunk is constant */
    struct cpu_prediction prediction;
    void *dst;

    /* Parts of types that are not plain are carried by values of one that is
     * (codec/model/carrier.h), which is that of the chunk in all that follows.
     * Special values alone are parts. */
    struct terp_carrier_head carrier;
    struct terp_integer_limits limits; /* decode */
    int part_nbytes;
    void *carried; /* the values, where they are not the parts */

    /* Under a bound relative to each value other values may be coded than the
     * chunk's, by another type's stages than its own: special values alone are
     * of the chunk. Elsewhere both are the same. */
    const struct cpu_stages *chunk_stages;
    struct terp_pointwise_head pointwise;
    void *coded;     /* what is coded instead, where that needs memory */
    uint64_t *signs; /* where they are mixed */

    /* encode */
    const struct terp_params *params; /* an absolute bound's, once scanned */
    struct terp_params coded_params;  /* where they are not the caller's */
    void *swapped; /* values in the host's byte order, where they were not */
    const void *parts; /* in the host's byte order */
    struct cpu_fills fills;
    struct cpu_stats stats;
    double constant; /* of a constant chunk */
    int step_slack_log2;
    double step;
    unsigned escape_nbytes; /* likely, of a number */
    bool may_be_wide;       /* codes */
    struct terp_code_widths widths;
    struct terp_trial trials[TERP_MAX_NTRIALS];
    struct terp_exact exact;
    bool is_open; /* to other domains */
    struct terp_chunk domain;
    enum terp_domain_verdict verdict;
    enum terp_predictor asked;
    struct writer writer;
    uint64_t *dst_nbytes;
    bool is_part; /* of another stream */
    bool may_have_prefixes;
    struct cpu_tiles_prefixes found;
    struct job *before; /* decoded: a stream of the chunk's earlier values */
    struct terp_limits kept; /* of what is coded, where `is_limited` */
    bool is_limited;
    struct prefixes {
        int frame_nbytes; /* of a frame that has their table; 0: none has */
        uint32_t nbytes[TERP_NPREFIXES];
    } prefixes;        /* of the stream that was tried last */
    struct more *more; /* NULL: nobody asks */

    /* decode */
    void *values_ret;
    struct reader reader;
    const uint8_t *constant_at;
    struct reader specials; /* its section, whose values are placed last */
    struct cpu_tails_section tails;
    struct cpu_shifts_section shifts;
    struct cpu_remainders_section remainders;
    struct cpu_escape_section escapes;
    struct cpu_low_bits_section low_bits;
    uint64_t nsymbols; /* of the tiles, wanted or not */

    /* decode: what is left out. Once the sections are read, layout, model,
     * mask and signs are those of the lattice that is left, and these are of
     * all. */
    const struct terp_coarse *coarse;
    struct terp_layout whole;
    uint64_t *whole_mask;
};

typedef enum terp_status
job_step(struct job *job);

static int
wide_of(const struct job *job)
{
    return job->prediction.quantizer.wide;
}

/* Of what a chunk's parts are coded as, by float32 where that is still open. */
static enum terp_type
carrier_type_of(const struct job *job)
{
    return terp_carrier_type(job->carrier.form, job->frame.chunk.type);
}

static void
take_stages(struct job *job)
{
    job->chunk_stages = cpu_stages_of(carrier_type_of(job));
    job->prediction.stages = job->chunk_stages;
}

static struct job *
make_job(const struct terp_frame *frame)
{
    struct job *job = calloc(1, sizeof *job);

    if (job == NULL)
        return NULL;
    job->frame = *frame;
    terp_layout_make(&frame->domain, &job->layout);
    job->prediction.layout = &job->layout;
    job->part_nbytes = terp_part_nbytes(frame->chunk.type);
    take_stages(job);
    return job;
}

/* Up to a NULL. */
static enum terp_status
take_steps(struct job *job, job_step *const *steps)
{
    enum terp_status st = TERP_OK;

    for (int i = 0; st == TERP_OK && steps[i] != NULL; i++)
        st = steps[i](job);
    return st;
}

static void
free_prediction(struct cpu_prediction *p)
{
    terp_cpu_prediction_free(p);
    free(p->mask);
    p->mask = NULL;
}

/* Takes the steps and frees the job. */
static enum terp_status
do_steps(struct job *job, job_step *const *steps,
         const struct terp_cpu_call *call)
{
    struct cpu_prediction *p = &job->prediction;
    const uint64_t nvalues =
        job->coarse == NULL ? job->layout.nvalues : job->coarse->nvalues;

    p->pool = terp_cpu_pool_make((int)min_u64((uint64_t)call->nthreads,
                                              nvalues / CPU_THREAD_MIN_NVALUES),
                                 call->allocator);
    enum terp_status st = take_steps(job, steps);
    free_prediction(p);
    if (job->before != NULL) {
        free_prediction(&job->before->prediction);
        free(job->before);
    }
    terp_cpu_memory_free(p->pool, job->swapped);
    terp_cpu_memory_free(p->pool, job->carried);
    terp_cpu_memory_free(p->pool, job->coded);
    free(job->signs);
    free(job->whole_mask);
    terp_cpu_pool_free(p->pool);
    free(job);
    return st;
}

/* ---- encoding ---- */

static enum terp_status
swap_source(struct job *job)
{
    struct cpu_prediction *p = &job->prediction;
    uint64_t chunk_nbytes = terp_chunk_nbytes(&job->frame.chunk);

    job->parts = p->values;
    if (job->frame.chunk.big_endian == TERP_HOST_IS_BIG_ENDIAN)
        return TERP_OK;
    job->swapped = terp_cpu_memory_make(p->pool, chunk_nbytes);
    if (job->swapped == NULL)
        return TERP_ERR_MEMORY;
    memcpy(job->swapped, p->values, chunk_nbytes);
    terp_swap_values(job->swapped, job->layout.nvalues, job->part_nbytes);
    p->values = job->parts = job->swapped;
    return TERP_OK;
}

static struct cpu_parts
parts_of(const struct job *job)
{
    const struct terp_params *params = job->params;
    const uint64_t bits = UINT64_MAX >> (64 - 8 * job->part_nbytes);
    struct cpu_parts parts = {.pool = job->prediction.pool,
                              .type = terp_type_of_part(job->frame.chunk.type),
                              .nparts = job->layout.nvalues};

    if (params != NULL && params->has_fill)
        parts.fill[parts.nfills++] = params->fill_bits & bits;
    if (params != NULL && params->has_missing)
        parts.fill[parts.nfills++] = params->missing_bits & bits;
    return parts;
}

static enum terp_status
make_carried(struct job *job)
{
    job->carried = terp_cpu_memory_make(
        job->prediction.pool,
        job->layout.nvalues * (uint64_t)job->chunk_stages->value_nbytes);
    return job->carried == NULL ? TERP_ERR_MEMORY : TERP_OK;
}

/* The same but for an absolute bound. */
static struct terp_params
params_under(const struct terp_params *params, double bound)
{
    struct terp_params own = *params;

    own.bound_mode = TERP_BOUND_ABSOLUTE;
    own.bound = bound;
    return own;
}

/* A number that is nearer to a whole one than half becomes that. */
#define NEAR_WHOLE 0.49

/* What the limits of integers are for the numbers that stand for them. */
static void
take_carried_limits(struct job *job, enum terp_type type,
                    const struct terp_carrier_head *head)
{
    struct terp_limits *kept = &job->kept;
    const double offset = terp_type_is_signed(type)
                              ? (double)(int64_t)head->offset
                              : (double)head->offset;

    if (head->form == TERP_CARRIER_INTS_BITS)
        job->is_limited = false;
    for (int i = 0; job->is_limited && i < TERP_NLIMITS; i++) {
        const double low = (kept->low[i].at - offset) / (double)head->scale;
        const double high = (kept->high[i].at - offset) / (double)head->scale;
        kept->low[i] = (struct terp_limit){ceil(low), ceil(low) - NEAR_WHOLE};
        kept->high[i] =
            (struct terp_limit){floor(high), floor(high) + NEAR_WHOLE};
    }
    kept->anchor = NAN;
}

/* Has the floats that stand for integers. TERP_ERR_CAPACITY: there are none. */
static enum terp_status
carry_integers(struct job *job)
{
    const struct cpu_parts parts = parts_of(job);
    const enum terp_type type = terp_carried_integer(parts.type);
    struct terp_integers found;

    terp_cpu_integers_measure(&parts, job->parts, &found);
    const struct terp_integer_carrier carrier =
        terp_integer_carrier_of(type, terp_integer_bound(job->params), &found);
    if (!carrier.is_coded)
        return TERP_ERR_CAPACITY;
    job->carrier = carrier.head;
    take_stages(job);
    enum terp_status st = make_carried(job);
    if (st != TERP_OK)
        return st;
    terp_cpu_integers_code(&parts, job->parts, &carrier.head, job->carried);
    job->coded_params = params_under(job->params, carrier.bound);
    job->coded_params.has_fill = job->coded_params.has_missing = false;
    job->params = &job->coded_params;
    job->prediction.values = job->carried;
    take_carried_limits(job, parts.type, &carrier.head);
    return TERP_OK;
}

/* Has the float32 of 16-bit floats. */
static enum terp_status
carry_halves(struct job *job)
{
    const struct cpu_parts parts = parts_of(job);
    enum terp_status st = make_carried(job);
    if (st != TERP_OK)
        return st;
    job->coded_params = terp_params_of_halves(parts.type, job->params);
    job->params = &job->coded_params;
    terp_cpu_halves_code(&parts, job->parts,
                         job->params->bound_mode == TERP_BOUND_POINTWISE,
                         job->carried);
    job->prediction.values = job->carried;
    return TERP_OK;
}

/* Has the values that carry those of a chunk whose type is not plain. */
static enum terp_status
carry(struct job *job)
{
    const enum terp_type type = job->frame.chunk.type;

    if (terp_type_is_plain(type))
        return TERP_OK;
    job->carrier.bound = job->params->bound;
    return terp_type_is_integer(type) ? carry_integers(job) : carry_halves(job);
}

/* The absolute bound of the values that are coded. */
static double
find_bound(struct job *job)
{
    const enum terp_type type = job->frame.chunk.type;
    const struct terp_params *params = job->params;
    const double min = job->stats.min, max = job->stats.max;
    const double bound =
        terp_absolute_bound(params->bound_mode, params->bound, min, max);
    if (terp_type_is_plain(type) || job->carrier.form != TERP_CARRIER_FLOATS)
        return bound;
    job->carrier.bound = is_bound(bound) ? bound : 0;
    return terp_half_bound_of_range(type, bound, min, max);
}

/* Whether values, or the integers that they stand for, come back as they are,
 * and these are too many for all to have symbols. */
static bool
is_lossless(const struct job *job)
{
    return (terp_is_lossless(job->params) && !job->frame.is_pointwise) ||
           (job->carrier.form != TERP_CARRIER_FLOATS && job->frame.bound < 1 &&
            job->may_be_wide);
}

/* Steps of the lossless prediction, and exact quants of lorenzo, by what
 * sampled values have in common. */
static struct terp_exact
find_exact(struct job *job)
{
    struct cpu_prediction *p = &job->prediction;
    int exponent, nzeros;

    p->stages->common_bits(p->values, job->layout.nvalues, &job->fills,
                           &exponent, &nzeros);
    if (is_lossless(job))
        p->nsteps = terp_lossless_steps(job->stats.min, job->stats.max,
                                        p->stages->value_nbytes, exponent,
                                        nzeros, p->steps);
    if (job->carrier.form == TERP_CARRIER_INTS_BITS)
        p->nsteps = 1;
    return terp_exact_of(job->frame.bound, job->stats.min, job->stats.max,
                         p->stages->value_nbytes, exponent, nzeros);
}

static void
clear_fills(struct job *job)
{
    for (int i = 0; i < TERP_NFILLS; i++)
        job->fills.bits[i] = job->prediction.stages->negative_zero_bits;
}

/* What a chunk of nearly equal logarithms decodes to. */
static double
constant_of_pointwise(const struct job *job, const struct cpu_pointwise *chunk,
                      const struct terp_magnitudes *magnitudes)
{
    const struct cpu_stages *stages = job->prediction.stages;
    struct cpu_pointwise one = *chunk;
    uint64_t bits = 0, coded;

    if (job->pointwise.form == TERP_POINTWISE_ROUNDED)
        return job->constant;
    one.nvalues = 1;
    if (job->pointwise.floor == 0 &&
        magnitudes->min_bits == magnitudes->max_bits) {
        bits = magnitudes->min_bits;
    } else {
        store_value(&coded, cpu_value_bits(stages, job->constant),
                    stages->value_nbytes);
        terp_cpu_pointwise_decode(&one, &job->pointwise, NULL, NULL, &coded,
                                  &bits);
        bits = load_value(&bits, job->chunk_stages->value_nbytes);
    }
    const double value = cpu_value_of_bits(job->chunk_stages, bits);
    if (job->pointwise.floor > 0)
        return value;
    return magnitudes->negative && value > 0 ? -value : value;
}

/* Goes on as with an absolute bound. */
static void
take_absolute_bound(struct job *job, double bound)
{
    job->coded_params = params_under(job->params, bound);
    job->params = &job->coded_params;
    job->frame.bound = bound;
}

/* What a floor means for the chunk. */
static enum terp_floor_use
use_of_floor(const struct job *job, const struct terp_magnitudes *magnitudes)
{
    const struct terp_params *params = job->params;

    if (params->floor == 0)
        return TERP_FLOOR_IS_NONE;
    return terp_pointwise_use_of_floor(
        params->bound, params->floor,
        cpu_value_of_bits(job->chunk_stages, magnitudes->max_bits),
        job->chunk_stages->value_nbytes);
}

/* What a limit of values is for what is coded of them. */
static struct terp_limit
coded_limit(const struct job *job, const struct terp_pointwise *how,
            double limit, bool is_low)
{
    return isinf(limit)
               ? terp_limit_at(limit)
               : terp_cpu_pointwise_limit(carrier_type_of(job), how,
                                          &job->pointwise, limit, is_low);
}

/* What the limits of a chunk's values are for what is coded of them: numbers
 * that rise with values where there is a floor, else with magnitudes, whose
 * signs are kept. */
static void
take_coded_limits(struct job *job, const struct terp_pointwise *how)
{
    const struct terp_limits whole = job->kept;
    const double low = whole.low[0].at, high = whole.high[0].at;
    struct terp_limits *kept = &job->kept;

    if (!job->is_limited)
        return;
    *kept = terp_no_limits();
    if (how->form == TERP_POINTWISE_ROUNDED) {
        job->is_limited = false;
        return;
    }
    for (int i = 0; how->joint > 0 && i < TERP_NLIMITS; i++) {
        kept->low[i] = coded_limit(job, how, whole.low[i].at, true);
        kept->high[i] = coded_limit(job, how, whole.high[i].at, false);
    }
    if (how->joint == 0 && how->signs != TERP_SIGNS_NEGATIVE) {
        if (low > 0)
            kept->low[0] = coded_limit(job, how, low, true);
        if (high > 0)
            kept->high[0] = coded_limit(job, how, high, false);
    }
    if (how->joint == 0 && how->signs != TERP_SIGNS_POSITIVE) {
        if (low < 0)
            kept->high[1] = coded_limit(job, how, -low, false);
        if (high < 0)
            kept->low[1] = coded_limit(job, how, -high, true);
    }
    if (!isnan(whole.anchor))
        kept->anchor =
            how->joint > 0 || whole.anchor > 0
                ? (whole.anchor == low ? kept->low : kept->high)->at
                : (whole.anchor == low ? kept->high : kept->low)[1].at;
    if (isinf(kept->anchor))
        kept->anchor = NAN;
}

/* Has what a bound relative to each value codes instead of the values; finds
 * its bound, and the constant that the chunk may be. */
static enum terp_status
code_pointwise(struct job *job, const struct cpu_pointwise *chunk,
               const struct terp_magnitudes *magnitudes, bool is_floored,
               bool *is_constant_ret)
{
    struct cpu_prediction *p = &job->prediction;
    const struct cpu_stats *stats = &job->stats;
    const int value_nbytes = job->chunk_stages->value_nbytes;
    const double bound = job->params->bound;
    const bool all_same = stats->min == stats->max;
    const double value = stats->min;
    const struct terp_pointwise how =
        is_floored ? terp_pointwise_floored_of(bound, job->params->floor,
                                               *magnitudes, value_nbytes)
                   : terp_pointwise_of(bound, *magnitudes, value_nbytes);

    job->pointwise =
        (struct terp_pointwise_head){how.form,
                                     how.signs,
                                     bound,
                                     how.center,
                                     how.joint > 0 ? job->params->floor : 0,
                                     how.shift};
    if (!terp_type_is_plain(job->frame.chunk.type))
        job->pointwise.bound = job->carrier.bound;
    job->frame.is_pointwise = true;
    take_absolute_bound(job, how.bound);
    p->stages = cpu_stages_of(terp_pointwise_type(how.form, chunk->type));
    job->coded = terp_cpu_memory_make(
        p->pool, chunk->nvalues * (uint64_t)p->stages->value_nbytes);
    if (job->coded == NULL)
        return TERP_ERR_MEMORY;
    terp_cpu_pointwise_code(chunk, p->values, &how, job->coded, &job->stats);
    if (how.signs == TERP_SIGNS_MIXED) {
        job->signs = calloc(div_up(chunk->nvalues, 64), 8);
        if (job->signs == NULL)
            return TERP_ERR_MEMORY;
        terp_cpu_pointwise_signs(chunk, p->values, job->signs);
    }
    p->values = job->coded;
    clear_fills(job);
    take_coded_limits(job, &how);
    const bool all_special = stats->nspecials == chunk->nvalues;
    *is_constant_ret =
        terp_find_constant(stats->min, stats->max, all_special, how.bound,
                           terp_is_lossless(job->params),
                           p->stages->value_nbytes, &job->constant) &&
        (all_special || how.joint > 0 ||
         !(magnitudes->positive && magnitudes->negative));
    if (*is_constant_ret && !all_special)
        job->constant = how.joint > 0 && all_same
                            ? value
                            : constant_of_pointwise(job, chunk, magnitudes);
    return TERP_OK;
}

/* The bound, or a little less: that both limits, or a limit and 0, are whole
 * steps apart. */
static double
bound_within_limits(const struct job *job, double bound)
{
    const struct terp_limits *limits = &job->kept;
    const int value_nbytes = job->prediction.stages->value_nbytes;
    const double min = job->stats.min, max = job->stats.max;

    if (!job->is_limited || !terp_type_is_plain(job->frame.chunk.type) ||
        !(max + bound > limits->high[0].at))
        return bound;
    const double distance = min - bound < limits->low[0].at
                                ? limits->high[0].at - limits->low[0].at
                                : fabs(limits->high[0].at);
    const double step =
        terp_step_of(bound, terp_step_slack_of(bound, min, max, value_nbytes));
    return bound * terp_limits_factor(distance, step);
}

/* An absolute bound, and the constant that the chunk may be. */
static enum terp_status
scan_absolute(struct job *job, bool *is_constant_ret)
{
    const struct terp_params *params = job->params;
    const struct cpu_stats *stats = &job->stats;

    job->frame.bound = bound_within_limits(job, find_bound(job));
    *is_constant_ret = terp_find_constant(
        stats->min, stats->max, stats->nspecials == job->layout.nvalues,
        job->frame.bound, terp_is_lossless(params),
        job->prediction.stages->value_nbytes, &job->constant);
    return TERP_OK;
}

static enum terp_status
scan_pointwise(struct job *job, bool *is_constant_ret)
{
    const struct cpu_pointwise chunk = {job->prediction.pool,
                                        carrier_type_of(job),
                                        job->layout.nvalues, &job->fills};
    struct terp_magnitudes magnitudes;

    terp_cpu_pointwise_measure(&chunk, job->prediction.values, &magnitudes);
    const enum terp_floor_use use = use_of_floor(job, &magnitudes);
    if (use != TERP_FLOOR_IS_ALL)
        return code_pointwise(job, &chunk, &magnitudes,
                              use == TERP_FLOOR_IS_JOINED, is_constant_ret);
    take_absolute_bound(job, job->params->floor);
    return scan_absolute(job, is_constant_ret);
}

/* A value that stands in runs, as zeros do where there is nothing, is taken for
 * a fill value where all come back as they are: differences to it are large,
 * and none of what they tell of. */
static void
find_common(struct job *job)
{
    struct cpu_prediction *p = &job->prediction;
    const struct cpu_stages *stages = p->stages;
    struct cpu_stats stats;

    for (int i = 0; i < TERP_NFILLS; i++) {
        const struct cpu_fills before = job->fills;
        if (before.bits[i] != stages->negative_zero_bits)
            continue;
        if (!stages->common_value(p->values, job->layout.nvalues, &before,
                                  &job->fills.bits[i]))
            return;
        stages->scan(p->values, job->layout.nvalues, &job->fills, &stats);
        if (!(stats.min < stats.max)) {
            job->fills = before;
            return;
        }
        job->stats = stats;
    }
}

/* What the scan takes for fill values of integers are none where without them
 * no two differ: flags and masks have no other values. */
static void
find_range(struct job *job)
{
    struct cpu_prediction *p = &job->prediction;
    struct cpu_stats *stats = &job->stats;

    job->fills = cpu_fills_of(p->stages, job->params);
    terp_cpu_scan(p->stages, p->pool, p->values, job->layout.nvalues,
                  &job->fills, stats);
    if (job->carrier.form != TERP_CARRIER_FLOATS &&
        !(stats->min < stats->max)) {
        clear_fills(job);
        p->stages->scan(p->values, job->layout.nvalues, &job->fills, stats);
    }
    if (terp_is_lossless(job->params) ||
        (job->carrier.form != TERP_CARRIER_FLOATS && job->params->bound < 1 &&
         stats->max - stats->min >= TERP_LOW_BITS_MIN_NSTEPS))
        find_common(job);
}

/* Special values, the range of the others, and what follows from it. */
static enum terp_status
scan(struct job *job)
{
    const struct terp_params *params = job->params;
    struct cpu_prediction *p = &job->prediction;
    const struct cpu_stats *stats = &job->stats;
    struct terp_frame *frame = &job->frame;
    bool is_constant;

    find_range(job);
    const enum terp_status st = params->bound_mode == TERP_BOUND_POINTWISE
                                    ? scan_pointwise(job, &is_constant)
                                    : scan_absolute(job, &is_constant);
    if (st != TERP_OK)
        return st;
    params = job->params;
    frame->coding = TERP_CODING_CONSTANT;
    if (is_constant)
        return TERP_OK;
    frame->coding = terp_coding_of(params->pipeline);
    job->step_slack_log2 = terp_step_slack_of(
        frame->bound, stats->min, stats->max, p->stages->value_nbytes);
    job->step = terp_step_of(frame->bound, job->step_slack_log2);
    const double nsteps = terp_nsteps_of(stats->min, stats->max, job->step);
    job->escape_nbytes =
        terp_likely_escape_nbytes(nsteps, p->stages->value_nbytes);
    job->may_be_wide =
        terp_bound_may_have_low_bits(params->bound_mode, params->bound) &&
        terp_may_be_wide(nsteps);
    if (job->may_be_wide || is_lossless(job))
        job->exact = find_exact(job);
    /* A range may be larger than any double. */
    return is_bound(frame->bound) || terp_is_lossless(params)
               ? TERP_OK
               : TERP_ERR_CAPACITY;
}

static void
lag_errors(void *arg, uint64_t lag, uint64_t set,
           struct terp_lag_errors errors_ret[TERP_DOMAIN_NSAMPLES])
{
    const struct job *job = arg;
    const struct cpu_prediction *p = &job->prediction;

    p->stages->lag_errors(p->values, job->layout.nvalues, &job->fills,
                          1 / job->step, lag, set, errors_ret);
}

static enum terp_status
find_domain(struct job *job)
{
    const struct terp_chunk *chunk = &job->frame.chunk;

    job->domain = *chunk;
    job->is_open = job->frame.coding != TERP_CODING_CONSTANT &&
                   terp_domain_is_open(chunk, job->layout.nvalues, job->params);
    if (!job->is_open)
        return TERP_OK;
    uint32_t anchor_price =
        terp_price_of_anchor(job->stats.min, job->stats.max, job->step);
    return terp_domain_find(chunk, anchor_price, lag_errors, job, &job->domain,
                            &job->verdict);
}

/* Of values of these stages. */
static enum terp_status
find_repeats(const struct job *job, const struct cpu_stages *stages,
             const void *values, int near_nbits, bool *repeats_ret)
{
    struct cpu_pool *pool = job->prediction.pool;
    struct cpu_repeats_table *table = terp_cpu_memory_make(pool, sizeof *table);

    if (table == NULL)
        return TERP_ERR_MEMORY;
    *repeats_ret =
        stages->count_repeats(values, job->layout.nvalues,
                              terp_repeats_reach(job->frame.chunk.type),
                              near_nbits, table) >= TERP_REPEATS_MIN_NFOUND;
    terp_cpu_memory_free(pool, table);
    return TERP_OK;
}

/* Whether other streams are worth a trial. */
static enum terp_status
find_more(struct job *job)
{
    const struct cpu_stats *stats = &job->stats;
    const enum terp_type type = job->frame.chunk.type;
    const uint64_t nvalues = job->layout.nvalues;
    struct more *more = job->more;

    if (more == NULL || job->frame.coding == TERP_CODING_CONSTANT ||
        !terp_is_open_to_more(job->params, &job->frame.chunk, nvalues))
        return TERP_OK;
    const bool may_repeat =
        terp_may_repeat(nvalues, stats->min, stats->max, job->step);
    if (job->frame.is_pointwise) {
        more->bound = job->pointwise.bound;
        return may_repeat && !terp_type_is_half(type)
                   ? find_repeats(
                         job, job->chunk_stages, job->parts,
                         terp_repeats_near_nbits_of_each(
                             more->bound, job->chunk_stages->value_nbytes),
                         &more->repeats)
                   : TERP_OK;
    }
    more->bound =
        terp_type_is_half(type) ? job->carrier.bound : job->frame.bound;
    more->fills = job->fills;
    for (int i = 0; i < TERP_NFILLS; i++)
        more->has_fill[i] =
            job->fills.bits[i] != job->prediction.stages->negative_zero_bits;
    more->lossless = terp_may_be_lossless(
        job->params->effort, stats->min, stats->max, job->step,
        terp_type_is_half(type)
            ? terp_half_mantissa_nbits(type)
            : terp_mantissa_nbits(job->prediction.stages->value_nbytes));
    if (!terp_type_is_half(type))
        more->copied = terp_cpu_copies_find(&job->frame.chunk, job->parts);
    if (more->copied != 0 || !may_repeat)
        return TERP_OK;
    return find_repeats(job, job->prediction.stages, job->prediction.values,
                        terp_repeats_near_nbits(job->frame.bound, stats->min,
                                                stats->max,
                                                terp_value_nbytes(type)),
                        &more->repeats);
}

static enum terp_status
make_mask(struct job *job)
{
    struct cpu_prediction *p = &job->prediction;
    uint64_t nvalues = job->layout.nvalues;

    if (job->frame.coding == TERP_CODING_CONSTANT && p->nspecials == 0)
        return TERP_OK;
    p->mask = calloc(div_up(nvalues, 64), 8);
    if (p->mask == NULL)
        return TERP_ERR_MEMORY;
    if (p->nspecials > 0)
        p->stages->mask(p->values, 0, nvalues, &job->fills, p->mask);
    return TERP_OK;
}

static double
reference_of(const struct job *job)
{
    const struct cpu_prediction *p = &job->prediction;
    struct cpu_stats first;

    if (job->is_limited && !isnan(job->kept.anchor))
        return job->kept.anchor;

    p->stages->scan(p->values, 1, &job->fills, &first);
    return terp_reference_of(first.min, first.nspecials > 0, job->stats.min,
                             job->stats.max, p->stages->value_nbytes);
}

/* How many bits of the codes of the domain are below symbols. */
static int
find_nbits_below(struct job *job)
{
    const struct cpu_prediction *p = &job->prediction;
    const double step = terp_coding_step(job->step, job->exact);

    if (!job->may_be_wide)
        return 0;
    p->stages->code_widths(p->values, &job->layout, &job->fills, 1 / step,
                           job->exact.nzeros, &job->widths);
    return terp_nbits_below_of_forms(
        &job->widths, terp_below_max_nbits(p->stages->value_nbytes, job->asked),
        job->escape_nbytes);
}

static enum terp_status
choose_predictor(struct job *job)
{
    struct cpu_prediction *p = &job->prediction;

    if (job->frame.coding == TERP_CODING_CONSTANT)
        return TERP_OK;
    p->quantizer =
        (struct cpu_quantizer){.step = job->step,
                               .grid_step = job->step,
                               .bound = job->frame.bound,
                               .may_be_wide = job->may_be_wide,
                               .escape_nbytes = job->escape_nbytes,
                               .exact = job->exact,
                               .limits = job->is_limited ? &job->kept : NULL,
                               .has_exact_escapes = job->is_limited,
                               .has_specials = p->nspecials > 0,
                               .reference = reference_of(job)};
    cpu_set_nbits_below(&p->quantizer, find_nbits_below(job));
    p->fills = p->nspecials > 0 ? &job->fills : NULL;
    enum terp_status st = terp_cpu_prediction_make(p);
    if (st == TERP_OK)
        st = terp_cpu_predictor_choose(p, job->asked, &job->frame.prediction);
    job->predictor = terp_cpu_predictors[job->frame.prediction];
    return st;
}

static enum terp_status
quantize(struct job *job)
{
    if (job->predictor == NULL)
        return TERP_OK;
    job->predictor->quantize(&job->prediction);
    job->frame.has_specials = job->prediction.nspecials > 0;
    return TERP_OK;
}

/* The frame, and the model or the constant. Any frame fits what a caller has
 * room for. */
static enum terp_status
write_head(struct job *job)
{
    const struct cpu_stages *stages = job->chunk_stages;
    struct writer *writer = &job->writer;

    writer_take(writer, (uint64_t)terp_frame_write(&job->frame, writer->at));
    if (!terp_type_is_plain(job->frame.chunk.type))
        terp_carrier_write_head(writer, job->frame.chunk.type, &job->carrier);
    if (job->predictor == NULL) {
        write_le(writer, cpu_value_bits(stages, job->constant),
                 stages->value_nbytes);
        return TERP_OK;
    }
    if (job->frame.is_pointwise)
        terp_pointwise_write_head(writer, &job->pointwise);
    write_le(writer,
             (uint64_t)(job->step_slack_log2 | wide_of(job) << TERP_WIDE_SHIFT),
             1);
    job->predictor->write_model(&job->prediction, writer);
    return TERP_OK;
}

/* Whether lorenzo's differences have tails. */
static bool
has_tails(const struct job *job)
{
    return job->frame.prediction == TERP_PREDICTION_LORENZO &&
           job->prediction.quantizer.tail_nbits > 0;
}

static bool
has_shifts(const struct job *job)
{
    return job->frame.prediction == TERP_PREDICTION_LOSSLESS;
}

static bool
has_remainders(const struct job *job)
{
    return has_shifts(job) &&
           job->prediction.lossless.form == TERP_LOSSLESS_REMAINDERS;
}

/* Those that come before low bits and tiles, as they follow each other. */
static enum terp_status
write_sections(struct job *job)
{
    struct cpu_prediction *p = &job->prediction;
    struct writer *writer = &job->writer;
    enum terp_status st = TERP_OK;

    if (job->frame.has_specials)
        st = terp_cpu_specials_write(writer, p->mask, job->parts, &job->layout,
                                     job->part_nbytes);
    if (st == TERP_OK && job->predictor != NULL && job->signs != NULL)
        st = terp_cpu_signs_write(p->pool, &job->layout, job->signs, writer);
    if (st == TERP_OK && has_tails(job))
        st = terp_cpu_tails_write(p, writer);
    if (st == TERP_OK && has_shifts(job))
        st = terp_cpu_shifts_write(p, writer);
    if (st == TERP_OK && has_remainders(job))
        st = terp_cpu_remainders_write(p, writer);
    if (st == TERP_OK && job->predictor != NULL)
        terp_cpu_escapes_write(
            p, terp_prediction_has_grid(job->frame.prediction), writer);
    return st;
}

/* Symbols to tile order, or context order, and the low bits of wide codes to
 * their section. The values have served: symbols in another order take their
 * place. */
static enum terp_status
write_tiles(struct job *job)
{
    const struct cpu_prediction *p = &job->prediction;
    const struct terp_frame *frame = &job->frame;
    uint16_t *symbols = p->symbols, *tiled = p->work;
    enum terp_status st = TERP_OK;

    if (job->predictor == NULL)
        return TERP_OK;
    if (!terp_coding_has_contexts(frame->coding)) {
        terp_cpu_order_tiles(p->pool, &job->layout, frame->prediction, symbols,
                             tiled, true);
    } else {
        uint8_t *scratch = (uint8_t *)(tiled + job->layout.nvalues);
        if (terp_prediction_is_raster(frame->prediction)) {
            terp_cpu_order_levels(p->pool, &job->layout, symbols, tiled, true);
            symbols = tiled;
            tiled = p->symbols;
        }
        st = terp_cpu_order_contexts(
            p->pool, &job->layout, frame->has_specials ? p->mask : NULL,
            symbols, wide_of(job), 0, scratch, tiled, true);
    }
    if (st == TERP_OK && wide_of(job) > 0)
        st = terp_cpu_low_bits_split(p->pool, job->layout.nvalues, tiled,
                                     &job->writer);
    if (st != TERP_OK)
        return st;
    job->may_have_prefixes = !job->is_part && terp_may_have_prefixes(frame);
    for (int i = 0; i < TERP_NPREFIXES && job->may_have_prefixes; i++)
        job->found.ntiles[i] = terp_prefix_ntiles(frame, i);
    return terp_cpu_tiles_encode(
        p->pool, frame->coding, tiled, job->layout.nvalues,
        job->may_have_prefixes ? &job->found : NULL, &job->writer);
}

/* Makes room for a table of prefixes behind the frame of a stream that is worth
 * it, and finds what it says. */
static enum terp_status
add_prefixes(struct job *job, uint8_t *dst, uint64_t cap_nbytes)
{
    const int frame_nbytes = terp_frame_nbytes(&job->frame);
    uint64_t *nbytes = job->dst_nbytes;
    uint8_t *body = dst + frame_nbytes;

    job->prefixes.frame_nbytes = 0;
    if (!job->may_have_prefixes || *nbytes < TERP_PREFIXES_MIN_STREAM_NBYTES)
        return TERP_OK;
    if (*nbytes + TERP_PREFIXES_NBYTES >= cap_nbytes)
        return TERP_ERR_CAPACITY;
    memmove(body + TERP_PREFIXES_NBYTES, body,
            *nbytes - (uint64_t)frame_nbytes);
    memset(body, 0, TERP_PREFIXES_NBYTES);
    dst[TERP_FRAME_PREDICTION_AT] |= TERP_FRAME_PREFIXES;
    job->prefixes.frame_nbytes = frame_nbytes + TERP_PREFIXES_NBYTES;
    for (int i = 0; i < TERP_NPREFIXES; i++)
        job->prefixes.nbytes[i] = terp_prefix_nbytes(
            (uint64_t)(job->found.end[i] - dst) + TERP_PREFIXES_NBYTES);
    *nbytes += TERP_PREFIXES_NBYTES;
    return TERP_OK;
}

/* Those of one stream. A step does nothing where it does not apply to a
 * constant chunk. */
static job_step *const stream_steps[] = {
    make_mask,      choose_predictor, quantize, write_head,
    write_sections, write_tiles,      NULL};

/* Writes a stream by these steps, in less than `cap_nbytes`, which a frame
 * fits. */
static enum terp_status
write_stream(struct job *job, job_step *const *steps, uint8_t *dst,
             uint64_t cap_nbytes)
{
    job->frame.has_specials = job->stats.nspecials > 0;
    job->may_have_prefixes = false;
    job->prediction.nspecials = job->stats.nspecials;
    job->writer = (struct writer){dst, dst + cap_nbytes - 1, false};
    enum terp_status st = take_steps(job, steps);
    free_prediction(&job->prediction);
    *job->dst_nbytes = (uint64_t)(job->writer.at - dst);
    if (st != TERP_OK || job->writer.overflow)
        return st == TERP_OK ? TERP_ERR_CAPACITY : st;
    return add_prefixes(job, dst, cap_nbytes);
}

static void
seal(struct job *job, const struct prefixes *prefixes, uint64_t nbytes)
{
    if (prefixes->frame_nbytes > 0)
        terp_frame_seal_prefixes(job->dst, prefixes->frame_nbytes,
                                 prefixes->nbytes);
    terp_frame_seal(job->dst, nbytes);
}

/* Writes a stream of the chunk as a trial says. */
static enum terp_status
encode_trial(struct job *job, const struct terp_trial *trial, uint8_t *dst,
             uint64_t cap_nbytes)
{
    terp_layout_make(&trial->domain, &job->layout);
    job->frame.domain = trial->domain;
    if (job->frame.coding != TERP_CODING_CONSTANT)
        job->frame.coding = terp_coding_of(trial->pipeline);
    job->asked = trial->predictor;
    job->predictor = NULL;
    return write_stream(job, stream_steps, dst, cap_nbytes);
}

/* Keeps the smallest stream of all that are tried. */
static enum terp_status
encode_smallest(struct job *job)
{
    const struct terp_frame raw = {.chunk = job->frame.chunk};
    struct cpu_pool *pool = job->prediction.pool;
    struct terp_trial *trials = job->trials;
    uint64_t least_nbytes =
        (uint64_t)terp_frame_nbytes(&raw) + terp_chunk_nbytes(&raw.chunk);
    int ntrials = terp_trials_make(job->params, &raw.chunk, job->is_open,
                                   &job->domain, job->verdict, trials);
    struct prefixes prefixes;
    uint8_t *other = NULL;

    if (job->frame.coding == TERP_CODING_CONSTANT)
        ntrials = 1;
    enum terp_status least = encode_trial(job, trials, job->dst, least_nbytes);
    enum terp_status st = least == TERP_ERR_CAPACITY ? TERP_OK : least;
    if (least == TERP_OK)
        least_nbytes = *job->dst_nbytes;
    prefixes = job->prefixes;
    if (least == TERP_OK && job->predictor != NULL &&
        terp_asks_for_huffman(job->params, job->frame.prediction, least_nbytes,
                              job->layout.nvalues))
        ntrials =
            terp_trials_add_huffman(&raw.chunk, job->verdict, trials, ntrials);
    if (st == TERP_OK && ntrials > 1) {
        other =
            terp_cpu_memory_make(pool, least_nbytes + TERP_FRAME_MAX_NBYTES);
        st = other == NULL ? TERP_ERR_MEMORY : TERP_OK;
    }
    for (int i = 1; st == TERP_OK && i < ntrials; i++) {
        st = encode_trial(job, &trials[i], other,
                          least_nbytes + TERP_FRAME_MAX_NBYTES);
        if (st == TERP_OK && *job->dst_nbytes < least_nbytes) {
            least = TERP_OK;
            least_nbytes = *job->dst_nbytes;
            prefixes = job->prefixes;
            memcpy(job->dst, other, least_nbytes);
        }
        st = st == TERP_ERR_CAPACITY ? TERP_OK : st;
    }
    terp_cpu_memory_free(pool, other);
    *job->dst_nbytes = least_nbytes;
    st = st == TERP_OK ? least : st;
    if (st == TERP_OK)
        seal(job, &prefixes, least_nbytes);
    return st;
}

static job_step *const encode_steps[] = {
    swap_source, carry, scan, find_domain, find_more, encode_smallest, NULL};

/* What the caller of an encoder gives. */
static void
take_call(struct job *job, const struct terp_cpu_call *call,
          const struct terp_params *params, const void *src, uint8_t *dst,
          uint64_t *dst_nbytes_ret)
{
    job->params = params;
    job->prediction.values = src;
    job->dst = dst;
    job->dst_nbytes = dst_nbytes_ret;
    job->is_part = call->is_part;
    if (call->limits != NULL && !terp_is_lossless(params)) {
        job->is_limited = true;
        job->kept = *call->limits;
    }
}

static enum terp_status
encode_values(const struct terp_cpu_call *call,
              const struct terp_params *params, const struct terp_chunk *chunk,
              const void *src, uint8_t *dst, uint64_t *dst_nbytes_ret,
              struct more *more)
{
    const struct terp_frame frame = {.chunk = *chunk, .domain = *chunk};

    struct job *job = make_job(&frame);
    if (job == NULL)
        return TERP_ERR_MEMORY;
    take_call(job, call, params, src, dst, dst_nbytes_ret);
    job->more = more;
    return do_steps(job, encode_steps, call);
}

enum terp_status
terp_cpu_encode_plainly(const struct terp_cpu_call *call,
                        const struct terp_params *params,
                        const struct terp_chunk *chunk, const void *src,
                        uint8_t *dst, uint64_t *dst_nbytes_ret)
{
    return encode_values(call, params, chunk, src, dst, dst_nbytes_ret, NULL);
}

/* What is left has the bound and the fill values that the whole has. */
static enum terp_status
encode_without_copies(const struct terp_cpu_call *call,
                      const struct terp_params *params,
                      const struct terp_chunk *chunk, const struct more *more,
                      const void *src, uint8_t *dst, uint64_t *nbytes)
{
    struct terp_params own = params_under(params, more->bound);

    own.has_fill = more->has_fill[0];
    own.fill_bits = more->fills.bits[0];
    own.has_missing = more->has_fill[1];
    own.missing_bits = more->fills.bits[1];
    return terp_cpu_copies_encode(call, &own, chunk, more->copied, src, dst,
                                  nbytes);
}

/* Has the stream without a loss, of `nbytes` at most, in place of a stream,
 * where it is smaller. */
static enum terp_status
encode_losslessly(const struct terp_cpu_call *call,
                  const struct terp_params *params,
                  const struct terp_chunk *chunk, const void *src, uint8_t *dst,
                  uint64_t *nbytes)
{
    const struct terp_params lossless = params_under(params, 0);
    uint8_t *other = terp_allocate(call->allocator, terp_encode_bound(chunk));
    uint64_t other_nbytes;

    if (other == NULL)
        return TERP_ERR_MEMORY;
    enum terp_status st =
        terp_cpu_encode(call, &lossless, chunk, src, other, &other_nbytes);
    if (st == TERP_OK && other_nbytes < *nbytes) {
        memcpy(dst, other, other_nbytes);
        *nbytes = other_nbytes;
    }
    terp_release(call->allocator, other);
    return st == TERP_ERR_CAPACITY ? TERP_OK : st;
}

enum terp_status
terp_cpu_encode(const struct terp_cpu_call *call,
                const struct terp_params *params,
                const struct terp_chunk *chunk, const void *src, uint8_t *dst,
                uint64_t *dst_nbytes_ret)
{
    const struct terp_frame raw = {.chunk = *chunk};
    const bool pointwise = params->bound_mode == TERP_BOUND_POINTWISE;
    struct more more = {0};

    if (terp_type_nparts(chunk->type) > 1)
        return terp_cpu_parts_encode(call, params, chunk, src, dst,
                                     dst_nbytes_ret);
    const enum terp_status st =
        encode_values(call, params, chunk, src, dst, dst_nbytes_ret,
                      pointwise && params->floor > 0 ? NULL : &more);
    if (st != TERP_OK && st != TERP_ERR_CAPACITY)
        return st;
    const uint64_t raw_nbytes =
        (uint64_t)terp_frame_nbytes(&raw) + terp_chunk_nbytes(chunk);
    uint64_t nbytes = st == TERP_OK ? *dst_nbytes_ret : raw_nbytes;
    enum terp_status other = TERP_OK;
    if (more.copied != 0)
        other = encode_without_copies(call, params, chunk, &more, src, dst,
                                      &nbytes);
    else if (more.repeats || terp_may_refer_exactly(params, chunk->type))
        other = terp_cpu_references_encode(
            call, params, chunk,
            (struct terp_reference_bound){more.bound, pointwise}, src, dst,
            &nbytes);
    if (other == TERP_OK && more.lossless && more.copied == 0)
        other = encode_losslessly(call, params, chunk, src, dst, &nbytes);
    if (other != TERP_OK)
        return other;
    *dst_nbytes_ret = nbytes;
    return nbytes < raw_nbytes ? TERP_OK : st;
}

/* ---- decoding ---- */

static enum terp_status
read_pointwise(struct job *job)
{
    const enum terp_type type = carrier_type_of(job);

    if (!terp_pointwise_read_head(&job->reader, job->chunk_stages->value_nbytes,
                                  &job->pointwise))
        return TERP_ERR_CORRUPT;
    job->prediction.stages =
        cpu_stages_of(terp_pointwise_type(job->pointwise.form, type));
    return TERP_OK;
}

static enum terp_status
read_carrier(struct job *job)
{
    const enum terp_type type = job->frame.chunk.type;
    struct terp_carrier_head *head = &job->carrier;

    if (!terp_carrier_read_head(&job->reader, type, head))
        return TERP_ERR_CORRUPT;
    take_stages(job);
    return head->form == TERP_CARRIER_FLOATS ||
                   (!job->frame.is_pointwise &&
                    terp_integer_limits_of(terp_carried_integer(type), head,
                                           &job->limits))
               ? TERP_OK
               : TERP_ERR_CORRUPT;
}

/* What an encoder's write_head has written behind the frame. */
static enum terp_status
read_head(struct job *job)
{
    struct cpu_prediction *p = &job->prediction;

    if (!terp_type_is_plain(job->frame.chunk.type) &&
        read_carrier(job) != TERP_OK)
        return TERP_ERR_CORRUPT;
    if (job->predictor == NULL) {
        job->constant_at =
            reader_take(&job->reader, (uint64_t)p->stages->value_nbytes);
        return job->constant_at == NULL ? TERP_ERR_CORRUPT : TERP_OK;
    }
    if (job->frame.is_pointwise && read_pointwise(job) != TERP_OK)
        return TERP_ERR_CORRUPT;
    int byte = (int)read_le(&job->reader, 1);
    int step_slack_log2 = byte & TERP_STEP_SLACK;
    int wide = byte >> TERP_WIDE_SHIFT;
    if (job->reader.underflow || step_slack_log2 < TERP_MIN_STEP_SLACK_LOG2 ||
        step_slack_log2 > TERP_MAX_STEP_SLACK_LOG2 || wide > TERP_WIDE_MAX)
        return TERP_ERR_CORRUPT;
    job->step_slack_log2 = step_slack_log2;
    double step = terp_step_of(job->frame.bound, step_slack_log2);
    p->quantizer =
        (struct cpu_quantizer){.step = step,
                               .grid_step = step,
                               .bound = job->frame.bound,
                               .wide = wide,
                               .radius = terp_radius_of(wide),
                               .has_specials = job->frame.has_specials};
    return job->predictor->read_model(p, &job->reader);
}

/* What stands before the tiles. Specials and signs are decoded unless NULL is
 * given for them; all others tell what they say of themselves. */
static enum terp_status
pass_sections(struct job *job, uint64_t **mask_ret, uint64_t **signs_ret)
{
    struct cpu_prediction *p = &job->prediction;
    struct reader *reader = &job->reader;
    const uint64_t nvalues = job->layout.nvalues;
    const int value_nbytes = p->stages->value_nbytes;
    enum terp_status st = TERP_OK;

    if (job->frame.has_specials)
        st = terp_cpu_specials_read(reader, &job->layout, job->part_nbytes,
                                    mask_ret, &p->nspecials);
    if (st == TERP_OK && job->frame.is_pointwise &&
        job->pointwise.signs == TERP_SIGNS_MIXED)
        st = terp_cpu_signs_read(p->pool, &job->layout, reader, signs_ret);
    if (st == TERP_OK && has_tails(job))
        st = terp_cpu_tails_read(reader, p->quantizer.tail_nbits, nvalues,
                                 &job->tails);
    if (st == TERP_OK && has_shifts(job))
        st = terp_cpu_shifts_read(reader, value_nbytes, nvalues - p->nspecials,
                                  &job->shifts);
    if (st == TERP_OK && has_remainders(job))
        st = terp_cpu_remainders_read(reader, &job->remainders);
    if (st == TERP_OK && job->predictor != NULL)
        st =
            terp_cpu_escapes_read(reader, nvalues, value_nbytes, &job->escapes);
    if (st == TERP_OK && job->predictor != NULL && wide_of(job) > 0)
        st = terp_cpu_low_bits_read(reader, nvalues, &job->low_bits);
    return st;
}

static enum terp_status
read_sections(struct job *job)
{
    job->specials = job->reader;
    return pass_sections(job, &job->prediction.mask, &job->signs);
}

static bool
is_coarse(const struct job *job)
{
    return job->coarse != NULL && job->coarse->nskipped > 0;
}

/* The lattice's bits instead of those of all, which are kept. */
static bool
coarsen_bits(const struct job *job, uint64_t **bits, uint64_t **whole_ret)
{
    *whole_ret = *bits;
    if (*bits != NULL)
        *bits = terp_cpu_coarse_bits(&job->whole, &job->layout,
                                     job->coarse->nskipped, *whole_ret);
    return *whole_ret == NULL || *bits != NULL;
}

/* On with the levels that are not left out, by the numbers that they have in
 * the lattice. */
static enum terp_status
coarsen(struct job *job)
{
    struct cpu_prediction *p = &job->prediction;
    uint64_t *whole_signs;

    job->nsymbols = job->layout.nvalues;
    if (!is_coarse(job))
        return TERP_OK;
    job->whole = job->layout;
    terp_layout_make(&job->coarse->domain, &job->layout);
    for (int l = 1; l <= job->layout.nlevels; l++)
        p->plan[l] = p->plan[l + job->coarse->nskipped];
    job->escapes.goes_on = true;
    bool made = coarsen_bits(job, &p->mask, &job->whole_mask);
    made &= coarsen_bits(job, &job->signs, &whole_signs);
    free(whole_signs);
    return made ? TERP_OK : TERP_ERR_MEMORY;
}

/* Symbols in the predictor's order. In another order they stand where values
 * will. */
static enum terp_status
read_tiles(struct job *job)
{
    struct cpu_prediction *p = &job->prediction;
    const struct terp_frame *frame = &job->frame;
    bool contexts = terp_coding_has_contexts(frame->coding);
    bool raster = terp_prediction_is_raster(frame->prediction);

    if (job->predictor == NULL)
        return job->reader.at == job->reader.end ? TERP_OK : TERP_ERR_CORRUPT;
    enum terp_status st = terp_cpu_prediction_make(p);
    if (st != TERP_OK)
        return st;
    uint16_t *tiled = contexts && raster ? p->symbols : p->work;
    uint16_t *ordered = contexts && raster ? p->work : p->symbols;
    st = terp_cpu_tiles_decode_first(p->pool, frame->coding, &job->reader,
                                     tiled, job->nsymbols, job->layout.nvalues);
    if (st == TERP_OK && wide_of(job) > 0)
        st = terp_cpu_low_bits_join(p->pool, job->nsymbols, job->layout.nvalues,
                                    &job->low_bits, tiled);
    if (st == TERP_OK && !contexts)
        terp_cpu_order_tiles(p->pool, &job->layout, frame->prediction, tiled,
                             ordered, false);
    if (st != TERP_OK || !contexts)
        return st;
    st = terp_cpu_order_contexts(
        p->pool, &job->layout, p->mask, tiled, wide_of(job),
        is_coarse(job) ? job->coarse->nskipped : 0,
        (uint8_t *)p->work + 2 * job->layout.nvalues, ordered, false);
    if (st == TERP_OK && raster)
        terp_cpu_order_levels(p->pool, &job->layout, ordered, p->symbols,
                              false);
    return st;
}

/* What is not in symbols, where the predictor looks for it. */
static enum terp_status
place_sections(struct job *job)
{
    const struct cpu_prediction *p = &job->prediction;
    enum terp_status st = TERP_OK;

    if (has_tails(job))
        st = terp_cpu_tails_place(p, &job->tails);
    if (st == TERP_OK && has_shifts(job))
        st = terp_cpu_shifts_place(p, &job->shifts);
    if (st == TERP_OK && job->predictor != NULL)
        st = terp_cpu_escapes_place(
            p, terp_prediction_has_grid(job->frame.prediction), &job->escapes);
    return st;
}

static enum terp_status
place_remainders(struct job *job)
{
    return has_remainders(job)
               ? terp_cpu_remainders_place(&job->prediction, &job->remainders,
                                           job->values_ret)
               : TERP_OK;
}

/* Logarithms take the place of the values if they are no smaller, which a
 * thread would overtake. */
static enum terp_status
reconstruct_logarithms(struct job *job)
{
    const struct cpu_prediction *p = &job->prediction;
    const struct cpu_pointwise chunk = {p->pool, carrier_type_of(job),
                                        job->layout.nvalues, NULL};
    void *coded = job->values_ret;

    if (p->stages != job->chunk_stages) {
        coded = job->coded = terp_cpu_memory_make(
            p->pool, chunk.nvalues * (uint64_t)p->stages->value_nbytes);
        if (coded == NULL)
            return TERP_ERR_MEMORY;
    }
    job->predictor->reconstruct(&job->prediction, coded);
    terp_cpu_pointwise_decode(&chunk, &job->pointwise, p->mask, job->signs,
                              coded, job->values_ret);
    return TERP_OK;
}

/* Whether the parts are other values than those that carry them. */
static bool
is_carried(const struct job *job)
{
    return job->carrier.form != TERP_CARRIER_FLOATS ||
           terp_type_is_half(job->frame.chunk.type);
}

/* Has room for the values. */
static enum terp_status
place_values(struct job *job)
{
    job->values_ret = job->dst;
    if (!is_carried(job))
        return TERP_OK;
    enum terp_status st = make_carried(job);
    job->values_ret = job->carried;
    return st;
}

static enum terp_status
reconstruct(struct job *job)
{
    const int nbytes = job->prediction.stages->value_nbytes;

    if (job->frame.is_pointwise &&
        job->pointwise.form != TERP_POINTWISE_ROUNDED)
        return reconstruct_logarithms(job);
    if (job->predictor != NULL)
        job->predictor->reconstruct(&job->prediction, job->values_ret);
    else
        for (uint64_t i = 0; i < job->layout.nvalues; i++)
            store_value((uint8_t *)job->values_ret + i * (uint64_t)nbytes,
                        load_le(job->constant_at, nbytes), nbytes);
    return TERP_OK;
}

static enum terp_status
uncarry(struct job *job)
{
    const struct cpu_parts parts = parts_of(job);

    if (job->carrier.form != TERP_CARRIER_FLOATS)
        terp_cpu_integers_decode(&parts, &job->carrier, &job->limits,
                                 job->values_ret, job->dst);
    else if (is_carried(job))
        terp_cpu_halves_decode(&parts, job->values_ret, job->dst);
    return TERP_OK;
}

static enum terp_status
place_specials(struct job *job)
{
    const uint64_t *mask = job->prediction.mask;

    if (mask != NULL && is_coarse(job))
        terp_cpu_specials_place_coarse(
            &job->specials, &job->whole, &job->layout, job->coarse->nskipped,
            job->part_nbytes, job->whole_mask, mask, job->dst);
    else if (mask != NULL)
        terp_cpu_specials_place(&job->specials, &job->layout, job->part_nbytes,
                                mask, job->dst);
    return TERP_OK;
}

static enum terp_status
swap_destination(struct job *job)
{
    if (job->frame.chunk.big_endian != TERP_HOST_IS_BIG_ENDIAN)
        terp_swap_values(job->dst, job->layout.nvalues, job->part_nbytes);
    return TERP_OK;
}

/* A step does nothing where it does not apply to a constant chunk. */
static job_step *const decode_steps[] = {
    read_head,      read_sections,  coarsen,          read_tiles,
    place_sections, place_values,   reconstruct,      place_remainders,
    uncarry,        place_specials, swap_destination, NULL};

static struct job *
make_decode_job(const struct terp_frame *frame, const uint8_t *body,
                uint64_t body_nbytes)
{
    struct job *job = make_job(frame);

    if (job != NULL) {
        job->predictor = terp_cpu_predictors[frame->prediction];
        job->reader = (struct reader){body, body + body_nbytes, false};
    }
    return job;
}

/* Decodes what is not left out of a body. */
static enum terp_status
decode_lattice(const struct terp_cpu_call *call, const struct terp_frame *frame,
               const struct terp_coarse *coarse, const uint8_t *body,
               uint64_t body_nbytes, void *dst)
{
    if (frame->coding == TERP_CODING_COPIES)
        return terp_cpu_copies_decode(call, &frame->chunk, body, body_nbytes,
                                      dst);
    if (frame->coding == TERP_CODING_REFERENCES)
        return terp_cpu_references_decode(call, &frame->chunk, body,
                                          body_nbytes, dst);
    struct job *job = make_decode_job(frame, body, body_nbytes);
    if (job == NULL)
        return TERP_ERR_MEMORY;
    job->coarse = coarse;
    job->dst = dst;
    return do_steps(job, decode_steps, call);
}

enum terp_status
terp_cpu_decode(const struct terp_cpu_call *call,
                const struct terp_frame *frame, const uint8_t *body,
                uint64_t body_nbytes, uint64_t step, void *dst)
{
    const int value_nbytes = terp_value_nbytes(frame->chunk.type);
    struct terp_coarse coarse;

    terp_coarse_make(frame, step, &coarse);
    if (frame->coding == TERP_CODING_RAW) {
        if (body_nbytes != terp_chunk_nbytes(&frame->chunk))
            return TERP_ERR_CORRUPT;
        terp_cpu_coarse_values(&coarse, value_nbytes, body, dst);
        return TERP_OK;
    }
    if (terp_type_nparts(frame->chunk.type) > 1)
        return terp_cpu_parts_decode(call, &frame->chunk, body, body_nbytes,
                                     step, dst);
    if (coarse.is_all)
        return decode_lattice(call, frame, &coarse, body, body_nbytes, dst);
    void *lattice =
        terp_allocate(call->allocator, coarse.nvalues * (uint64_t)value_nbytes);
    if (lattice == NULL)
        return TERP_ERR_MEMORY;
    enum terp_status st =
        decode_lattice(call, frame, &coarse, body, body_nbytes, lattice);
    if (st == TERP_OK)
        terp_cpu_coarse_values(&coarse, value_nbytes, lattice, dst);
    terp_release(call->allocator, lattice);
    return st;
}

/* ---- encoding again ---- */

static job_step *const before_steps[] = {read_head,  read_sections,  coarsen,
                                         read_tiles, place_sections, NULL};

/* Has the earlier values in level order. */
static enum terp_status
read_before(struct job *job)
{
    struct job *before = job->before;
    struct cpu_pool *pool = job->prediction.pool;

    before->prediction.pool = pool;
    enum terp_status st = take_steps(before, before_steps);
    void *values =
        terp_cpu_memory_make(pool, terp_chunk_nbytes(&job->frame.chunk));
    if (st == TERP_OK && values == NULL)
        st = TERP_ERR_MEMORY;
    if (st == TERP_OK)
        before->predictor->reconstruct(&before->prediction, values);
    terp_cpu_memory_free(pool, values);
    return st;
}

/* What the earlier stream has of steps and predictions. */
static enum terp_status
take_model(struct job *job)
{
    const struct job *before = job->before;
    struct cpu_prediction *p = &job->prediction;

    find_range(job);
    if (!(before->frame.bound <= find_bound(job)))
        return TERP_ERR_CAPACITY;
    job->frame.bound = before->frame.bound;
    job->frame.coding = before->frame.coding;
    job->frame.prediction = before->frame.prediction;
    job->predictor = before->predictor;
    job->step_slack_log2 = before->step_slack_log2;
    p->quantizer = before->prediction.quantizer;
    p->quantizer.max_code = terp_max_code_of(p->quantizer.wide);
    p->quantizer.has_specials = job->stats.nspecials > 0;
    p->quantizer.limits = job->is_limited ? &job->kept : NULL;
    p->quantizer.has_exact_escapes = true;
    memcpy(p->plan, before->prediction.plan, sizeof p->plan);
    p->before = before->prediction.work;
    return TERP_OK;
}

static enum terp_status
quantize_as_before(struct job *job)
{
    struct cpu_prediction *p = &job->prediction;

    p->fills = p->nspecials > 0 ? &job->fills : NULL;
    enum terp_status st = terp_cpu_prediction_make(p);
    if (st != TERP_OK)
        return st;
    terp_cpu_spline_deinterleave(p);
    return quantize(job);
}

static job_step *const changed_stream_steps[] = {
    make_mask,      quantize_as_before, write_head,
    write_sections, write_tiles,        NULL};

static enum terp_status
encode_as_before(struct job *job)
{
    const struct terp_frame raw = {.chunk = job->frame.chunk};
    const enum terp_status st = write_stream(
        job, changed_stream_steps, job->dst,
        (uint64_t)terp_frame_nbytes(&raw) + terp_chunk_nbytes(&raw.chunk));

    if (st == TERP_OK)
        seal(job, &job->prefixes, *job->dst_nbytes);
    return st;
}

static job_step *const changed_steps[] = {swap_source, read_before, take_model,
                                          encode_as_before, NULL};

enum terp_status
terp_cpu_encode_changed(const struct terp_cpu_call *call,
                        const struct terp_params *params,
                        const struct terp_chunk *chunk, const void *src,
                        const struct terp_frame *before, const uint8_t *body,
                        uint64_t body_nbytes, uint8_t *dst,
                        uint64_t *dst_nbytes_ret)
{
    const struct terp_frame frame = {.chunk = *chunk, .domain = before->domain};

    if (!terp_type_is_plain(chunk->type) || before->is_pointwise ||
        before->prediction != TERP_PREDICTION_SPLINE ||
        (params->bound_mode != TERP_BOUND_ABSOLUTE &&
         params->bound_mode != TERP_BOUND_RELATIVE))
        return TERP_ERR_CAPACITY;
    struct job *job = make_job(&frame);
    if (job == NULL)
        return TERP_ERR_MEMORY;
    job->before = make_decode_job(before, body, body_nbytes);
    if (job->before == NULL) {
        free(job);
        return TERP_ERR_MEMORY;
    }
    take_call(job, call, params, src, dst, dst_nbytes_ret);
    return do_steps(job, changed_steps, call);
}

/* The bound that a stream of carried values keeps. */
static double
carried_bound(const struct job *job)
{
    const double bound = job->frame.bound;

    return job->predictor == NULL                     ? 0
           : job->carrier.form == TERP_CARRIER_FLOATS ? job->carrier.bound
           : bound < 0x1p53
               ? (double)(uint64_t)bound * (double)job->carrier.scale
               : bound * (double)job->carrier.scale;
}

enum terp_status
terp_cpu_inspect(const struct terp_frame *frame, const uint8_t *body,
                 uint64_t body_nbytes, struct terp_info *info)
{
    struct job *job = make_decode_job(frame, body, body_nbytes);

    if (job == NULL)
        return TERP_ERR_MEMORY;
    enum terp_status st = read_head(job);
    if (st == TERP_OK)
        st = pass_sections(job, NULL, NULL);
    info->nspecials = job->prediction.nspecials;
    if (!terp_type_is_plain(frame->chunk.type))
        info->bound = carried_bound(job);
    if (st == TERP_OK && frame->is_pointwise) {
        info->bound = 0;
        info->pointwise_bound = job->pointwise.bound;
        info->floor = job->pointwise.floor;
    }
    if (st == TERP_OK && job->predictor != NULL) {
        info->nescapes = job->escapes.nescapes;
        st = terp_cpu_tiles_inspect(frame->coding, &job->reader,
                                    job->layout.nvalues, info);
    }
    free(job);
    return st;
}
