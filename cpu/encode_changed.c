/* Encodes a chunk that has changed in part with the steps and predictions of
 * its earlier stream. */
#include "cpu/decoder.h"
#include "cpu/encoder.h"
#include "cpu/engine.h"

/* Decodes the earlier values into level order. */
static enum terp_status
read_before(struct cpu_decoder *before)
{
    struct cpu_prediction *p = &before->body.prediction;
    enum terp_status st = terp_cpu_decoder_read(before);
    void *values = terp_cpu_memory_make(
        p->pool, terp_chunk_nbytes(&before->body.frame.chunk));

    if (st == TERP_OK && values == NULL)
        st = TERP_ERR_MEMORY;
    if (st == TERP_OK)
        before->body.predictor->reconstruct(p, values);
    terp_cpu_memory_free(p->pool, values);
    return st;
}

/* Copies the steps and predictions of the earlier stream. */
static enum terp_status
take_model(struct cpu_encoder *enc, const struct cpu_body *before)
{
    struct cpu_body *body = &enc->body;
    struct cpu_prediction *p = &body->prediction;

    terp_cpu_survey_range(enc);
    if (!(before->frame.bound <= terp_cpu_survey_bound(enc)))
        return TERP_ERR_CAPACITY;
    body->frame.bound = before->frame.bound;
    body->frame.coding = before->frame.coding;
    body->frame.prediction = before->frame.prediction;
    body->predictor = before->predictor;
    body->step_slack_log2 = before->step_slack_log2;
    p->quantizer = before->prediction.quantizer;
    p->quantizer.max_code = terp_max_code_of(p->quantizer.wide);
    p->quantizer.has_specials = enc->survey.stats.nspecials > 0;
    p->quantizer.limits = enc->source.is_limited ? &enc->source.limits : NULL;
    p->quantizer.has_exact_escapes = true;
    memcpy(p->plan, before->prediction.plan, sizeof p->plan);
    p->before = before->prediction.work;
    return TERP_OK;
}

static enum terp_status
encode(struct cpu_encoder *enc, struct cpu_decoder *before, uint8_t *dst,
       uint64_t *nbytes_ret)
{
    const struct terp_frame raw = {.chunk = enc->body.frame.chunk};
    const uint64_t cap_nbytes =
        (uint64_t)terp_frame_nbytes(&raw) + terp_chunk_nbytes(&raw.chunk);
    enum terp_status st = terp_cpu_survey_swap(enc);

    if (st == TERP_OK)
        st = read_before(before);
    if (st == TERP_OK)
        st = take_model(enc, &before->body);
    return st == TERP_OK
               ? terp_cpu_attempt_as_before(enc, dst, cap_nbytes, nbytes_ret)
               : st;
}

enum terp_status
terp_cpu_encode_changed(struct terp_session *session,
                        const struct terp_source *source,
                        const struct terp_open_stream *before, uint8_t *dst,
                        uint64_t *dst_nbytes_ret)
{
    const enum terp_bound_mode mode = source->params->bound_mode;
    struct cpu_pool *pool = cpu_pool_of(session);
    struct cpu_encoder *enc;

    if (!terp_type_is_plain(source->chunk->type) ||
        before->frame.is_pointwise ||
        before->frame.prediction != TERP_PREDICTION_SPLINE ||
        (mode != TERP_BOUND_ABSOLUTE && mode != TERP_BOUND_RELATIVE))
        return TERP_ERR_CAPACITY;
    struct cpu_decoder *earlier = terp_cpu_decoder_make(
        &before->frame, before->body, before->body_nbytes, pool);
    if (earlier == NULL)
        return TERP_ERR_MEMORY;
    enum terp_status st =
        terp_cpu_encoder_make(source, 0, &before->frame.domain, pool, &enc);
    if (st == TERP_OK)
        st = encode(enc, earlier, dst, dst_nbytes_ret);
    terp_cpu_encoder_free(enc);
    terp_cpu_decoder_free(earlier);
    return st;
}
