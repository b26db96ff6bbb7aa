/* Encodes chunks in several attempts. The first round encodes each chunk in its
 * own shape, and the engine reports facts about it. Each later round makes one
 * trial per chunk that the facts suggest. Chunks with the same trial are one
 * attempt. */
#include "codec/compose/trials.h"

#include <stdlib.h>

/* Which stream of the chunk a trial's stream replaces. */
enum purpose {
    NO_TRIAL,
    INSTEAD,   /* always the stream in the chunk's own shape */
    IF_SMALLER /* the chunk's stream if the new one is smaller */
};

struct order {
    enum purpose purpose;
    struct terp_trial trial;
};

struct trials {
    const struct terp_coder *coder;
    const struct terp_batch *batch;
    struct terp_encoding *encoding;
    struct terp_facts *facts;
    struct order *orders; /* of this round */
    /* The chunks of an attempt, and their streams. */
    uint64_t *at, *cap_nbytes, *nbytes;
    struct terp_facts *found;
    void **dst;
};

static bool
make_arrays(struct trials *trials)
{
    const size_t n = (size_t)trials->batch->source.n;
    uint8_t *memory =
        terp_items_allocate(n, sizeof *trials->orders + sizeof *trials->found +
                                   3 * sizeof(uint64_t) + sizeof(void *));

    if (memory == NULL)
        return false;
    trials->orders = (struct order *)memory;
    trials->found = (struct terp_facts *)(trials->orders + n);
    trials->at = (uint64_t *)(trials->found + n);
    trials->cap_nbytes = trials->at + n;
    trials->nbytes = trials->cap_nbytes + n;
    trials->dst = (void **)(trials->nbytes + n);
    return true;
}

static enum terp_status
attempt(struct trials *trials, const struct terp_plan *plan, uint64_t n,
        struct terp_facts *facts_ret)
{
    return trials->coder->engine->encode(trials->encoding, plan, n, trials->at,
                                         trials->dst, trials->cap_nbytes,
                                         trials->nbytes, facts_ret);
}

/* Makes the first attempt at all chunks. */
static enum terp_status
attempt_whole(struct trials *trials, const struct terp_plan *plan)
{
    const struct terp_batch *batch = trials->batch;

    for (uint64_t i = 0; i < batch->source.n; i++) {
        trials->at[i] = i;
        trials->dst[i] = batch->dst[i];
        trials->cap_nbytes[i] = terp_stored_nbytes(batch->source.chunk);
    }
    const enum terp_status st =
        attempt(trials, plan, batch->source.n, trials->facts);
    for (uint64_t i = 0; st == TERP_OK && i < batch->source.n; i++)
        batch->nbytes[i] = trials->nbytes[i];
    return st;
}

/* Encodes all chunks in their own shape. TERP_EFFORT_BEST makes this stream
 * also for chunks whose facts name a domain that is surely better. */
static enum terp_status
attempt_all(struct trials *trials)
{
    const struct terp_source *source = &trials->batch->source;
    const struct terp_params *params = source->params;
    const struct terp_plan plan = {
        {*source->chunk, params->predictor, params->pipeline},
        params->effort != TERP_EFFORT_BEST};

    return attempt_whole(trials, &plan);
}

/* Whether a trial of Lorenzo with `huffman` may follow a trial of Lorenzo. */
static bool
both_may_be_smaller(const struct terp_params *params,
                    const struct terp_facts *facts)
{
    return facts->lorenzo_may_be_smaller &&
           params->pipeline == TERP_PIPELINE_AUTO;
}

/* Whether a trial may be smaller than the smallest stream of chunk i so far. A
 * trial of `huffman` that follows one of Lorenzo may be smaller only where
 * codes are few. */
static bool
is_likely(const struct trials *trials, uint64_t i,
          const struct terp_trial *trial)
{
    const struct terp_source *source = &trials->batch->source;

    return trial->pipeline != TERP_PIPELINE_HUFFMAN ||
           !both_may_be_smaller(source->params, &trials->facts[i]) ||
           terp_huffman_may_be_smaller(source->params, TERP_PREDICTION_LORENZO,
                                       terp_least_nbytes(trials->batch, i),
                                       terp_chunk_nvalues(source->chunk));
}

/* Finds the trial of chunk i in a round. Trial 0 is the chunk's own shape,
 * which is coded already, unless the facts name a better domain. Returns false
 * if no later round has a trial of this chunk. */
static bool
find_order(const struct trials *trials, uint64_t i, int round)
{
    const struct terp_source *source = &trials->batch->source;
    const struct terp_facts *facts = &trials->facts[i];
    const bool is_instead = facts->verdict == TERP_DOMAIN_TAKE &&
                            source->params->effort != TERP_EFFORT_BEST;
    struct terp_params coded = *source->params;
    struct terp_trial list[TERP_MAX_NTRIALS];
    struct order *order = &trials->orders[i];

    order->purpose = NO_TRIAL;
    if (facts->is_settled || terp_is_left(trials->batch, i))
        return false;
    coded.bound_mode = TERP_BOUND_ABSOLUTE;
    coded.bound = facts->is_exact ? 0 : 1;
    int n = terp_trials_make(&coded, source->chunk, facts->is_open,
                             &facts->domain, facts->verdict, list);
    if (facts->lorenzo_may_be_smaller)
        n = terp_trials_add(source->chunk, facts->verdict,
                            TERP_PREDICTOR_LORENZO, source->params->pipeline,
                            list, n);
    if (facts->huffman_may_be_smaller ||
        both_may_be_smaller(source->params, facts))
        n = terp_trials_add(source->chunk, facts->verdict,
                            TERP_PREDICTOR_LORENZO, TERP_PIPELINE_HUFFMAN, list,
                            n);
    if (facts->splines_may_be_smaller)
        n = terp_trials_add(source->chunk, facts->verdict,
                            TERP_PREDICTOR_SPLINE, source->params->pipeline,
                            list, n);
    if (round < n && (round > 0 || is_instead) &&
        is_likely(trials, i, &list[round])) {
        order->purpose = round == 0 ? INSTEAD : IF_SMALLER;
        order->trial = list[round];
    }
    return round + 1 < n;
}

static bool
are_equal(const struct order *a, const struct order *b)
{
    return a->purpose == b->purpose &&
           a->trial.predictor == b->trial.predictor &&
           a->trial.pipeline == b->trial.pipeline &&
           terp_shapes_are_equal(&a->trial.domain, &b->trial.domain);
}

/* Records an attempt's stream as the chunk's. */
static void
take_stream(struct trials *trials, uint64_t k)
{
    const uint64_t i = trials->at[k];

    trials->batch->nbytes[i] = trials->nbytes[k];
    trials->facts[i].may_repeat = trials->found[k].may_repeat;
}

/* Encodes chunks in place of their streams. */
static enum terp_status
attempt_instead(struct trials *trials, const struct terp_plan *plan, uint64_t n)
{
    const struct terp_batch *batch = trials->batch;

    for (uint64_t k = 0; k < n; k++) {
        trials->dst[k] = batch->dst[trials->at[k]];
        trials->cap_nbytes[k] = terp_stored_nbytes(batch->source.chunk);
    }
    const enum terp_status st = attempt(trials, plan, n, trials->found);
    for (uint64_t k = 0; st == TERP_OK && k < n; k++)
        take_stream(trials, k);
    return st;
}

/* Handles a lack of memory for a trial: a device leaves the chunks to the CPU.
 */
static enum terp_status
leave_chunks(struct trials *trials, uint64_t n)
{
    if (!trials->coder->engine->is_device)
        return TERP_ERR_MEMORY;
    for (uint64_t k = 0; k < n; k++)
        trials->batch->nbytes[trials->at[k]] = TERP_LEFT_NBYTES;
    return TERP_OK;
}

/* Keeps those of n new streams that are smaller than the chunks' streams. */
static enum terp_status
keep_smaller(struct trials *trials, uint64_t n)
{
    const struct terp_coder *coder = trials->coder;
    const struct terp_batch *batch = trials->batch;
    const void **src = terp_items_allocate(n, sizeof *src);
    uint64_t nkept = 0;

    if (src == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t k = 0; k < n; k++) {
        const uint64_t i = trials->at[k], nbytes = trials->nbytes[k];
        if (nbytes == TERP_LEFT_NBYTES)
            batch->nbytes[i] = nbytes;
        if (nbytes == 0 || nbytes >= terp_least_nbytes(batch, i))
            continue;
        take_stream(trials, k);
        src[nkept] = trials->dst[k];
        trials->dst[nkept] = batch->dst[i];
        trials->nbytes[nkept++] = nbytes;
    }
    const enum terp_status st = coder->engine->copy(
        coder->session, nkept, trials->dst, src, trials->nbytes);
    free(src);
    return st;
}

/* Encodes chunks beside their streams, and keeps the smaller streams. */
static enum terp_status
attempt_smaller(struct trials *trials, const struct terp_plan *plan, uint64_t n)
{
    const struct terp_coder *coder = trials->coder;
    const struct terp_batch *batch = trials->batch;
    uint64_t buffer_nbytes = 0;

    for (uint64_t k = 0; k < n; k++) {
        trials->cap_nbytes[k] = coder->engine->is_device
                                    ? terp_encode_bound(batch->source.chunk)
                                    : terp_least_nbytes(batch, trials->at[k]) +
                                          TERP_FRAME_MAX_NBYTES;
        buffer_nbytes += terp_aligned_nbytes(trials->cap_nbytes[k]);
    }
    uint8_t *buffer = terp_coder_allocate(coder, buffer_nbytes), *next = buffer;
    if (buffer == NULL)
        return leave_chunks(trials, n);
    for (uint64_t k = 0; k < n; k++) {
        trials->dst[k] = next;
        next += terp_aligned_nbytes(trials->cap_nbytes[k]);
    }
    enum terp_status st = attempt(trials, plan, n, trials->found);
    if (st == TERP_OK)
        st = keep_smaller(trials, n);
    terp_coder_release(coder, buffer);
    return st;
}

/* Encodes the chunks from `first` on that have the same trial; at most one
 * portion if the streams need memory of their own. */
static enum terp_status
do_order(struct trials *trials, uint64_t first)
{
    const struct order like = trials->orders[first];
    const struct terp_plan plan = {like.trial, false};
    const uint64_t most =
        like.purpose == INSTEAD
            ? UINT64_MAX
            : terp_portion_nchunks(trials->batch->source.chunk);
    uint64_t n = 0;

    for (uint64_t i = first; i < trials->batch->source.n && n < most; i++)
        if (are_equal(&trials->orders[i], &like)) {
            trials->at[n++] = i;
            trials->orders[i].purpose = NO_TRIAL;
        }
    return like.purpose == INSTEAD ? attempt_instead(trials, &plan, n)
                                   : attempt_smaller(trials, &plan, n);
}

static enum terp_status
do_rounds(struct trials *trials)
{
    const uint64_t n = trials->batch->source.n;
    enum terp_status st = TERP_OK;
    bool goes_on = true;

    for (int round = 0; st == TERP_OK && goes_on; round++) {
        goes_on = false;
        for (uint64_t i = 0; i < n; i++)
            goes_on |= find_order(trials, i, round);
        for (uint64_t i = 0; st == TERP_OK && i < n; i++)
            if (trials->orders[i].purpose != NO_TRIAL)
                st = do_order(trials, i);
    }
    return st;
}

enum terp_status
terp_trials_encode(const struct terp_coder *coder,
                   const struct terp_batch *batch, struct terp_facts *facts_ret)
{
    struct trials trials = {.coder = coder, .batch = batch, .facts = facts_ret};
    enum terp_status st = TERP_ERR_MEMORY;

    if (make_arrays(&trials))
        st = coder->engine->begin(coder->session, &batch->source,
                                  &trials.encoding);
    if (st == TERP_OK) {
        st = attempt_all(&trials);
        if (st == TERP_OK)
            st = do_rounds(&trials);
        coder->engine->end(trials.encoding);
    }
    free(trials.orders);
    return st;
}

enum terp_status
terp_trial_encode(const struct terp_coder *coder,
                  const struct terp_batch *batch,
                  const struct terp_trial *trial)
{
    const struct terp_plan plan = {*trial, false};
    struct terp_facts *facts =
        terp_items_allocate(batch->source.n, sizeof *facts);
    struct trials trials = {.coder = coder, .batch = batch, .facts = facts};
    enum terp_status st = TERP_ERR_MEMORY;

    if (facts != NULL && make_arrays(&trials))
        st = coder->engine->begin(coder->session, &batch->source,
                                  &trials.encoding);
    if (st == TERP_OK) {
        st = attempt_whole(&trials, &plan);
        coder->engine->end(trials.encoding);
    }
    free(trials.orders);
    free(facts);
    return st;
}
