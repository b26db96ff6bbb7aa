/* Encodes chunks of a source, attempt by attempt. */
#include <stdlib.h>

#include "codec/model/bound.h"
#include "codec/model/repeats.h"
#include "cpu/encoder.h"
#include "cpu/engine.h"

/* ---- a chunk ---- */

enum terp_status
terp_cpu_encoder_make(const struct terp_source *source, uint64_t i,
                      const struct terp_chunk *domain, struct cpu_pool *pool,
                      struct cpu_encoder **enc_ret)
{
    const struct terp_frame frame = {.chunk = *source->chunk,
                                     .domain = *domain};
    const double bound = source->bounds == NULL ? 0 : source->bounds[i];
    struct cpu_encoder *enc = *enc_ret = calloc(1, sizeof *enc);

    if (enc == NULL)
        return TERP_ERR_MEMORY;
    terp_cpu_body_make(&frame, pool, &enc->body);
    enc->body.prediction.values = source->src[i];
    enc->source.params = source->params;
    if (bound > 0) {
        enc->source.given = terp_params_under(source->params, bound);
        enc->source.params = &enc->source.given;
    }
    enc->facts.may_repeat =
        terp_may_refer_exactly(enc->source.params, source->chunk->type);
    enc->source.is_part = source->is_part;
    enc->source.has_markers = source->has_markers;
    enc->source.wants_more = source->wants_more;
    if (source->limits != NULL && !terp_is_lossless(source->params)) {
        enc->source.is_limited = true;
        enc->source.limits = *source->limits;
    }
    return TERP_OK;
}

void
terp_cpu_encoder_free(struct cpu_encoder *enc)
{
    if (enc == NULL)
        return;
    terp_cpu_memory_free(enc->body.prediction.pool, enc->source.swapped);
    terp_cpu_body_free(&enc->body);
    free(enc);
}

/* ---- chunks ---- */

/* An encoder for each chunk that had an attempt. */
struct terp_encoding {
    struct cpu_pool *pool;
    const struct terp_source *source;
    struct cpu_encoder *encoders[];
};

enum terp_status
terp_cpu_begin(struct terp_session *session, const struct terp_source *source,
               struct terp_encoding **encoding_ret)
{
    struct terp_encoding *encoding =
        calloc(1, sizeof *encoding + (size_t)source->n * sizeof(void *));

    if (encoding == NULL)
        return TERP_ERR_MEMORY;
    encoding->pool = cpu_pool_of(session);
    encoding->source = source;
    *encoding_ret = encoding;
    return TERP_OK;
}

void
terp_cpu_end(struct terp_encoding *encoding)
{
    for (uint64_t i = 0; i < encoding->source->n; i++)
        terp_cpu_encoder_free(encoding->encoders[i]);
    free(encoding);
}

/* Makes an attempt at a chunk after its survey. */
static enum terp_status
attempt(struct cpu_encoder *enc, const struct terp_plan *plan, uint8_t *dst,
        uint64_t cap_nbytes, uint64_t *nbytes_ret)
{
    if (plan->yields && enc->facts.verdict == TERP_DOMAIN_TAKE)
        return TERP_ERR_CAPACITY;
    return terp_cpu_attempt(enc, &plan->trial, dst, cap_nbytes, nbytes_ret);
}

/* Finds the facts that need the first stream: further trials. */
static void
find_further_trials(struct cpu_encoder *enc, const struct terp_params *params,
                    uint64_t nbytes)
{
    const struct cpu_prediction *p = &enc->body.prediction;
    const enum terp_prediction prediction = enc->body.frame.prediction;
    const uint64_t nvalues = enc->body.layout.nvalues;

    enc->facts.huffman_may_be_smaller =
        terp_huffman_may_be_smaller(params, prediction, nbytes, nvalues);
    enc->facts.lorenzo_may_be_smaller =
        !enc->facts.is_exact &&
        terp_lorenzo_may_be_smaller(
            params, prediction,
            terp_costs_are_close(p->spline_cost, p->lorenzo_cost, nvalues));
    enc->facts.splines_may_be_smaller = terp_splines_may_be_smaller(
        params, prediction, p->may_be_splines,
        terp_splines_are_close(p->spline_cost, p->lorenzo_cost, nbytes,
                               nvalues));
}

static enum terp_status
encode_chunk(struct terp_encoding *encoding, const struct terp_plan *plan,
             uint64_t i, uint8_t *dst, uint64_t cap_nbytes,
             uint64_t *nbytes_ret, struct terp_facts *facts_ret)
{
    const struct terp_source *source = encoding->source;
    struct cpu_encoder **enc = &encoding->encoders[i];
    const bool is_first = *enc == NULL;
    enum terp_status st = TERP_OK;

    if (is_first) {
        st = terp_cpu_encoder_make(source, i, source->chunk, encoding->pool,
                                   enc);
        if (st == TERP_OK)
            st = terp_cpu_survey(*enc);
    }
    if (st == TERP_OK)
        st = attempt(*enc, plan, dst, cap_nbytes, nbytes_ret);
    if (st == TERP_OK && is_first && (*enc)->body.predictor != NULL)
        find_further_trials(*enc, source->params, *nbytes_ret);
    if (st != TERP_OK)
        *nbytes_ret = 0;
    if (*enc != NULL)
        *facts_ret = (*enc)->facts;
    return st == TERP_ERR_CAPACITY ? TERP_OK : st;
}

enum terp_status
terp_cpu_encode(struct terp_encoding *encoding, const struct terp_plan *plan,
                uint64_t n, const uint64_t *at, void *const *dst,
                const uint64_t *cap_nbytes, uint64_t *nbytes_ret,
                struct terp_facts *facts_ret)
{
    enum terp_status st = TERP_OK;

    for (uint64_t k = 0; st == TERP_OK && k < n; k++)
        st = encode_chunk(encoding, plan, at[k], dst[k], cap_nbytes[k],
                          &nbytes_ret[k], &facts_ret[k]);
    return st;
}
