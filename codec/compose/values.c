/* Chooses the coding of a chunk of floats or integers. The facts of its plain
 * stream tell which other codings are worth a trial (codec/model/repeats.h). */
#include "codec/compose/values.h"

#include <stdlib.h>

#include "codec/compose/columns.h"
#include "codec/compose/copies.h"
#include "codec/compose/ranks.h"
#include "codec/compose/references.h"
#include "codec/compose/slabs.h"
#include "codec/compose/speed.h"
#include "codec/compose/tight.h"
#include "codec/compose/trials.h"
#include "codec/model/columns.h"
#include "codec/model/grid.h"
#include "codec/model/ranks.h"
#include "codec/model/repeats.h"
#include "codec/model/slab.h"

/* Chunks of a batch that are encoded a second time, as a batch. */
struct retry {
    struct terp_batch batch;
    const void **src;
    void **dst;
    uint64_t *nbytes;
    uint64_t stride_nbytes;
    uint8_t *buffer; /* memory of the second streams */
};

static bool
make_retry(const struct terp_coder *coder, const struct terp_batch *batch,
           uint64_t n, const uint64_t *at, const struct terp_params *params,
           struct retry *retry)
{
    const uint64_t stride =
        terp_aligned_nbytes(terp_encode_bound(batch->source.chunk));

    retry->src = terp_items_allocate(n, 2 * sizeof(void *) + sizeof(uint64_t));
    retry->buffer = terp_coder_allocate(coder, n * stride);
    if (retry->src == NULL || retry->buffer == NULL)
        return false;
    retry->dst = (void **)(retry->src + n);
    retry->nbytes = (uint64_t *)(retry->dst + n);
    for (uint64_t k = 0; k < n; k++) {
        retry->src[k] = batch->source.src[at[k]];
        retry->dst[k] = retry->buffer + k * stride;
    }
    retry->batch =
        (struct terp_batch){batch->source, retry->dst, retry->nbytes};
    retry->batch.source.params = params;
    retry->batch.source.bounds = NULL;
    retry->batch.source.n = n;
    retry->batch.source.src = retry->src;
    return true;
}

/* The most bytes of a stream that replaces that of chunk i. Only readers of
 * version 2 can read some streams; where the chunk's stream is of version 1,
 * they must save as much as columns. On a device all streams have version 1. */
static uint64_t
most_nbytes(const struct terp_coder *coder, const struct terp_batch *batch,
            uint64_t i, const uint8_t *stream)
{
    const uint64_t least = terp_least_nbytes(batch, i);
    const uint8_t *before = batch->dst[i];

    if (coder->engine->is_device ||
        stream[TERP_FRAME_VERSION_AT] == TERP_FORMAT_FIRST_VERSION ||
        (batch->nbytes[i] != 0 &&
         before[TERP_FRAME_VERSION_AT] != TERP_FORMAT_FIRST_VERSION))
        return least - 1;
    return terp_columns_most(least);
}

/* Keeps the smaller of both streams. A chunk whose second stream is left to the
 * CPU is left as a whole. */
static enum terp_status
keep_smaller(const struct terp_coder *coder, const struct terp_batch *batch,
             const uint64_t *at, struct retry *retry)
{
    uint64_t nkept = 0;

    for (uint64_t k = 0; k < retry->batch.source.n; k++) {
        const uint64_t nbytes = retry->nbytes[k];
        if (nbytes == TERP_LEFT_NBYTES)
            batch->nbytes[at[k]] = nbytes;
        if (nbytes == 0 || nbytes == TERP_LEFT_NBYTES ||
            nbytes > most_nbytes(coder, batch, at[k], retry->dst[k]))
            continue;
        batch->nbytes[at[k]] = nbytes;
        retry->src[nkept] = retry->dst[k];
        retry->dst[nkept] = batch->dst[at[k]];
        retry->nbytes[nkept++] = nbytes;
    }
    return coder->engine->copy(coder->session, nkept, retry->dst, retry->src,
                               retry->nbytes);
}

static enum terp_status
encode_portion(const struct terp_coder *coder, const struct terp_batch *batch,
               uint64_t n, const uint64_t *at, const struct terp_params *params,
               terp_batch_encoder *encode)
{
    struct retry retry = {.buffer = NULL};
    enum terp_status st = TERP_ERR_MEMORY;

    if (make_retry(coder, batch, n, at, params, &retry))
        st = encode(coder, &retry.batch);
    if (st == TERP_OK)
        st = keep_smaller(coder, batch, at, &retry);
    terp_coder_release(coder, retry.buffer);
    free(retry.src);
    return st;
}

enum terp_status
terp_encode_if_smaller(const struct terp_coder *coder,
                       const struct terp_batch *batch, uint64_t n,
                       const uint64_t *at, const struct terp_params *params,
                       terp_batch_encoder *encode)
{
    const uint64_t most = terp_portion_nchunks(batch->source.chunk);
    enum terp_status st = TERP_OK;

    for (uint64_t k = 0; st == TERP_OK && k < n; k += most) {
        const uint64_t m = min_u64(most, n - k);
        st = encode_portion(coder, batch, m, at + k, params, encode);
        if (st != TERP_ERR_MEMORY || !coder->engine->is_device)
            continue;
        for (uint64_t l = k; l < k + m; l++)
            batch->nbytes[at[l]] = TERP_LEFT_NBYTES;
        st = TERP_OK;
    }
    return st;
}

/* Lists the chunks that a lossless stream may make smaller; at_ret holds an
 * index for every chunk. */
static uint64_t
list_lossless(const struct terp_batch *batch, const struct terp_facts *facts,
              uint64_t *at_ret)
{
    uint64_t nlisted = 0;

    for (uint64_t i = 0; i < batch->source.n; i++)
        if (!terp_is_left(batch, i) && facts[i].may_be_lossless &&
            facts[i].copied == 0)
            at_ret[nlisted++] = i;
    return nlisted;
}

/* Tries references, and records whether they made the stream smaller. */
static enum terp_status
encode_references(const struct terp_coder *coder,
                  const struct terp_batch *batch, uint64_t i,
                  struct terp_facts *facts)
{
    const struct terp_reference_bound bound = {
        .bound = facts->bound,
        .of_each = batch->source.params->bound_mode == TERP_BOUND_POINTWISE};
    const uint64_t before = terp_least_nbytes(batch, i);
    uint64_t saved_nbits = 0;
    enum terp_status st = TERP_OK;

    if (facts->may_repeat)
        st = terp_references_encode(coder, batch, i, bound, &saved_nbits);
    if (st == TERP_OK)
        st = terp_references_encode_at_lag(coder, batch, i, &saved_nbits);
    if (terp_least_nbytes(batch, i) < before) {
        facts->reference_nbits = saved_nbits;
        facts->unreferred_nbytes = before;
    }
    return st;
}

/* Tries the coding with copies or with references, if the facts suggest one. */
static enum terp_status
encode_composed(const struct terp_coder *coder, const struct terp_batch *batch,
                uint64_t i, struct terp_facts *facts)
{
    facts->reference_nbits = facts->unreferred_nbytes = 0;
    facts->ranks_ntable = facts->ranks_table_nbytes = 0;
    if (terp_is_left(batch, i))
        return TERP_OK;
    if (facts->copied != 0 && !batch->source.is_of_columns)
        return terp_copies_encode(coder, batch, i, facts, terp_values_encode);
    return batch->source.has_no_references
               ? TERP_OK
               : encode_references(coder, batch, i, facts);
}

/* The chunks that may be ranks or on a grid: nothing is lost then. */
static uint64_t
list_ranks(const struct terp_batch *batch, const struct terp_facts *facts,
           uint64_t *at_ret)
{
    const struct terp_chunk *chunk = batch->source.chunk;
    const struct terp_params *params = batch->source.params;
    const bool is_exact = terp_may_refer_exactly(params, chunk->type);
    uint64_t nlisted = 0;

    if (!terp_ranks_are_possible(params, chunk, terp_chunk_nvalues(chunk)))
        return 0;
    for (uint64_t i = 0; i < batch->source.n; i++)
        if (!terp_is_left(batch, i) && facts[i].copied == 0 &&
            (is_exact || facts[i].may_be_lossless) &&
            (batch->nbytes[i] == 0 || batch->nbytes[i] > TERP_RANKS_MIN_NBYTES))
            at_ret[nlisted++] = i;
    return nlisted;
}

/* Encodes chunks as the smallest of all streams but those of ranks. */
static enum terp_status
encode_others(const struct terp_coder *coder, const struct terp_batch *batch,
              struct terp_facts *facts, uint64_t *at);

static enum terp_status
encode_without_ranks(const struct terp_coder *coder,
                     const struct terp_batch *batch)
{
    const uint64_t n = batch->source.n;
    struct terp_facts *facts =
        terp_items_allocate(n, sizeof *facts + sizeof(uint64_t));
    enum terp_status st = TERP_ERR_MEMORY;

    if (facts != NULL)
        st = encode_others(coder, batch, facts, (uint64_t *)(facts + n));
    free(facts);
    return st;
}

static enum terp_status
encode_others(const struct terp_coder *coder, const struct terp_batch *batch,
              struct terp_facts *facts, uint64_t *at)
{
    const struct terp_params *params = batch->source.params;
    const struct terp_params lossless = terp_params_under(params, 0);
    const uint64_t n = batch->source.n;
    struct terp_batch plain = *batch;

    plain.source.wants_more =
        params->bound_mode != TERP_BOUND_POINTWISE || params->floor == 0;
    enum terp_status st = terp_trials_encode(coder, &plain, facts);
    for (uint64_t i = 0; st == TERP_OK && i < n; i++)
        st = encode_composed(coder, batch, i, &facts[i]);
    if (st == TERP_OK)
        st = terp_tight_choose(coder, batch, facts);
    const uint64_t nlisted =
        st == TERP_OK ? list_lossless(batch, facts, at) : 0;
    if (nlisted > 0)
        st = terp_encode_if_smaller(coder, batch, nlisted, at, &lossless,
                                    encode_without_ranks);
    return st;
}

/* The chunks that have a bound above 0, and may have few different values. */
static uint64_t
list_few(const struct terp_batch *batch, const struct terp_facts *facts,
         uint64_t *at_ret)
{
    uint64_t nlisted = 0;

    for (uint64_t i = 0; i < batch->source.n; i++)
        if (!terp_is_left(batch, i) && facts[i].may_be_few &&
            !facts[i].may_be_lossless && facts[i].copied == 0 &&
            (batch->nbytes[i] == 0 || batch->nbytes[i] > TERP_RANKS_MIN_NBYTES))
            at_ret[nlisted++] = i;
    return nlisted;
}

/* Encodes chunks without loss where that may take less than under the bound:
 * where different values are few and far from each other. */
static enum terp_status
encode_few(const struct terp_coder *coder, const struct terp_batch *batch,
           struct terp_facts *facts, uint64_t *at)
{
    const struct terp_chunk *chunk = batch->source.chunk;
    const struct terp_params *params = batch->source.params;
    const struct terp_params lossless = terp_params_under(params, 0);
    const uint64_t nvalues = terp_chunk_nvalues(chunk);
    uint64_t nlisted = list_few(batch, facts, at);
    enum terp_status st = terp_ranks_choose(coder, batch, facts, &nlisted, at);

    if (st == TERP_OK)
        st = terp_encode_if_smaller(coder, batch, nlisted, at, &lossless,
                                    encode_without_ranks);
    if (st != TERP_OK || nlisted == 0 ||
        !terp_ranks_are_possible(params, chunk, nvalues))
        return st;
    uint64_t *ranked = terp_items_allocate(nlisted, sizeof *ranked);
    if (ranked == NULL)
        return TERP_ERR_MEMORY;
    memcpy(ranked, at, nlisted * sizeof *ranked);
    st = terp_ranks_encode(coder, batch, facts, nlisted, ranked);
    free(ranked);
    return st == TERP_OK && terp_grids_are_possible(params, chunk, nvalues)
               ? terp_grids_encode(coder, batch, facts, nlisted, at)
               : st;
}

/* Whether all bits of all values come back, of types without references too. */
static bool
is_exact_for(const struct terp_params *params, enum terp_type type)
{
    return terp_may_refer_exactly(params, type) || terp_is_lossless(params) ||
           (terp_type_is_integer(type) && terp_integer_bound(params) == 0);
}

/* Lists the chunks whose slabs are worth a trial. */
static uint64_t
list_slabs(const struct terp_batch *batch, const struct terp_facts *facts,
           uint64_t *at_ret)
{
    const struct terp_chunk *chunk = batch->source.chunk;
    const struct terp_params *params = batch->source.params;
    const uint64_t nvalues = terp_chunk_nvalues(chunk);
    uint64_t nlisted = 0;

    if (nvalues < TERP_SLAB_MIN_NVALUES || batch->source.has_markers ||
        params->effort == TERP_EFFORT_FAST ||
        params->predictor != TERP_PREDICTOR_AUTO ||
        is_exact_for(params, chunk->type))
        return 0;
    for (uint64_t i = 0; i < batch->source.n; i++)
        if (!terp_is_left(batch, i) && facts[i].copied == 0 &&
            !facts[i].may_be_lossless &&
            terp_slab_is_worth(chunk->type, nvalues, batch->nbytes[i]))
            at_ret[nlisted++] = i;
    return nlisted;
}

/* Encodes chunks without loss where slabs of them suggest it. */
static enum terp_status
encode_by_slabs(const struct terp_coder *coder, const struct terp_batch *batch,
                const struct terp_facts *facts, uint64_t *at)
{
    const struct terp_params lossless =
        terp_params_lossless(batch->source.params);
    uint64_t nlisted = list_slabs(batch, facts, at);
    enum terp_status st = TERP_OK;

    if (nlisted > 0)
        st = terp_slabs_choose(coder, batch, &lossless, terp_values_encode,
                               &nlisted, at);
    return st == TERP_OK && nlisted > 0
               ? terp_encode_if_smaller(coder, batch, nlisted, at, &lossless,
                                        terp_values_encode)
               : st;
}

/* Lists the chunks that may be tables: lossless ones, and ones under a bound
 * that is not pointwise and that the facts name. */
static uint64_t
list_tables(const struct terp_batch *batch, const struct terp_facts *facts,
            uint64_t *at_ret)
{
    const struct terp_chunk *chunk = batch->source.chunk;
    const struct terp_params *params = batch->source.params;
    const bool is_exact = is_exact_for(params, chunk->type);
    const bool is_pointwise = params->bound_mode == TERP_BOUND_POINTWISE;
    uint64_t nlisted = 0;

    if (!terp_columns_are_allowed(params, chunk, terp_chunk_nvalues(chunk)))
        return 0;
    for (uint64_t i = 0; i < batch->source.n; i++)
        if (!terp_is_left(batch, i) && facts[i].copied == 0 &&
            (is_exact || (facts[i].bound > 0 && !is_pointwise)) &&
            (batch->nbytes[i] == 0 ||
             batch->nbytes[i] > TERP_COLUMNS_MIN_NBYTES))
            at_ret[nlisted++] = i;
    return nlisted;
}

/* Encodes chunks as the smallest of all streams, of columns only if
 * `may_be_tables`. */
static enum terp_status
encode_all(const struct terp_coder *coder, const struct terp_batch *batch,
           bool may_be_tables);

static enum terp_status
encode_columns(const struct terp_coder *coder, const struct terp_batch *batch)
{
    return encode_all(coder, batch, false);
}

static enum terp_status
encode_all(const struct terp_coder *coder, const struct terp_batch *batch,
           bool may_be_tables)
{
    const struct terp_chunk *chunk = batch->source.chunk;
    const struct terp_params *params = batch->source.params;
    const uint64_t n = batch->source.n;

    if (terp_batch_has_speed(batch))
        return terp_speed_encode(coder, batch);
    struct terp_facts *facts =
        terp_items_allocate(n, sizeof *facts + sizeof(uint64_t));
    if (facts == NULL)
        return TERP_ERR_MEMORY;
    uint64_t *at = (uint64_t *)(facts + n);
    enum terp_status st = encode_others(coder, batch, facts, at);
    if (st == TERP_OK)
        st = terp_ranks_encode(coder, batch, facts,
                               list_ranks(batch, facts, at), at);
    if (st == TERP_OK &&
        terp_grids_are_possible(params, chunk, terp_chunk_nvalues(chunk)))
        st = terp_grids_encode(coder, batch, facts,
                               list_ranks(batch, facts, at), at);
    if (st == TERP_OK)
        st = encode_few(coder, batch, facts, at);
    if (st == TERP_OK && may_be_tables)
        st = terp_columns_encode(coder, batch, facts,
                                 list_tables(batch, facts, at), at,
                                 encode_columns);
    if (st == TERP_OK && may_be_tables)
        st = encode_by_slabs(coder, batch, facts, at);
    free(facts);
    return st;
}

enum terp_status
terp_values_encode(const struct terp_coder *coder,
                   const struct terp_batch *batch)
{
    return encode_all(coder, batch, true);
}
