/* One attempt at a chunk's stream: predicts, quantizes, and writes the sections
 * in the order of doc/format.md. */
#include <stdlib.h>

#include "codec/model/coarse.h"
#include "cpu/encoder.h"
#include "cpu/entropy/contexts.h"
#include "cpu/entropy/order.h"
#include "cpu/predict/deinterleave.h"
#include "cpu/predict/spline.h"
#include "cpu/sections/escapes.h"
#include "cpu/sections/low_bits.h"
#include "cpu/sections/remainders.h"
#include "cpu/sections/shifts.h"
#include "cpu/sections/signs.h"
#include "cpu/sections/specials.h"
#include "cpu/sections/tails.h"

/* ---- prediction ---- */

static enum terp_status
make_mask(struct cpu_encoder *enc)
{
    struct cpu_prediction *p = &enc->body.prediction;
    uint64_t nvalues = enc->body.layout.nvalues;

    if (enc->body.frame.coding == TERP_CODING_CONSTANT && p->nspecials == 0)
        return TERP_OK;
    p->mask = calloc(div_up(nvalues, 64), 8);
    if (p->mask == NULL)
        return TERP_ERR_MEMORY;
    if (p->nspecials > 0)
        p->stages->mask(p->values, 0, nvalues, &enc->survey.fills, p->mask);
    return TERP_OK;
}

static double
reference_of(const struct cpu_encoder *enc)
{
    const struct cpu_prediction *p = &enc->body.prediction;
    struct cpu_stats first;

    if (enc->source.is_limited && !isnan(enc->source.limits.anchor))
        return enc->source.limits.anchor;

    p->stages->scan(p->values, 1, &enc->survey.fills, &first);
    return terp_reference_of(first.min, first.nspecials > 0,
                             enc->survey.stats.min, enc->survey.stats.max,
                             p->stages->value_nbytes);
}

/* The number of low bits of codes that symbols do not hold. */
static int
find_nbits_below(struct cpu_encoder *enc)
{
    const struct cpu_prediction *p = &enc->body.prediction;
    const double step = terp_coding_step(enc->survey.step, enc->survey.exact);

    if (!enc->survey.may_be_wide)
        return 0;
    p->stages->code_widths(p->values, &enc->body.layout, &enc->survey.fills,
                           1 / step, enc->survey.exact.nzeros,
                           &enc->attempt.widths);
    return terp_nbits_below_of_interpolants(
        &enc->attempt.widths,
        terp_below_max_nbits(p->stages->value_nbytes, enc->attempt.predictor),
        enc->survey.escape_nbytes);
}

static enum terp_status
choose_predictor(struct cpu_encoder *enc)
{
    struct cpu_prediction *p = &enc->body.prediction;

    if (enc->body.frame.coding == TERP_CODING_CONSTANT)
        return TERP_OK;
    p->quantizer = (struct cpu_quantizer){
        .step = enc->survey.step,
        .grid_step = enc->survey.step,
        .bound = enc->body.frame.bound,
        .may_be_wide = enc->survey.may_be_wide,
        .escape_nbytes = enc->survey.escape_nbytes,
        .exact = enc->survey.exact,
        .limits = enc->source.is_limited ? &enc->source.limits : NULL,
        .has_exact_escapes = enc->source.is_limited,
        .has_specials = p->nspecials > 0,
        .reference = reference_of(enc)};
    cpu_set_nbits_below(&p->quantizer, find_nbits_below(enc));
    p->fills = p->nspecials > 0 ? &enc->survey.fills : NULL;
    enum terp_status st = terp_cpu_prediction_make(p);
    if (st == TERP_OK)
        st = terp_cpu_predictor_choose(p, enc->attempt.predictor,
                                       &enc->body.frame.prediction);
    enc->body.predictor = terp_cpu_predictors[enc->body.frame.prediction];
    return st;
}

static enum terp_status
quantize(struct cpu_encoder *enc)
{
    if (enc->body.predictor == NULL)
        return TERP_OK;
    enc->body.predictor->quantize(&enc->body.prediction);
    enc->body.frame.has_specials = enc->body.prediction.nspecials > 0;
    return TERP_OK;
}

/* Writes the frame, and then the model or the constant. The capacity always
 * suffices for a frame. */
static enum terp_status
write_head(struct cpu_encoder *enc)
{
    const struct cpu_stages *stages = enc->body.chunk_stages;
    struct writer *writer = &enc->attempt.writer;

    writer_take(writer,
                (uint64_t)terp_frame_write(&enc->body.frame, writer->at));
    if (!terp_type_is_plain(enc->body.frame.chunk.type))
        terp_carrier_write_head(writer, enc->body.frame.chunk.type,
                                &enc->body.carrier);
    if (enc->body.predictor == NULL) {
        write_le(writer, cpu_value_bits(stages, enc->survey.constant),
                 stages->value_nbytes);
        return TERP_OK;
    }
    if (enc->body.frame.is_pointwise)
        terp_pointwise_write_head(writer, &enc->body.pointwise);
    write_le(writer,
             (uint64_t)(enc->body.step_slack_log2 | cpu_body_wide(&enc->body)
                                                        << TERP_WIDE_SHIFT),
             1);
    enc->body.predictor->write_model(&enc->body.prediction, writer);
    return TERP_OK;
}

/* Writes the sections that precede low bits and tiles. */
static enum terp_status
write_sections(struct cpu_encoder *enc)
{
    struct cpu_prediction *p = &enc->body.prediction;
    struct writer *writer = &enc->attempt.writer;
    enum terp_status st = TERP_OK;

    if (enc->body.frame.has_specials)
        st = terp_cpu_specials_write(writer, p->mask, enc->source.parts,
                                     &enc->body.layout, enc->body.part_nbytes);
    if (st == TERP_OK && enc->body.predictor != NULL && enc->body.signs != NULL)
        st = terp_cpu_signs_write(p->pool, &enc->body.layout, enc->body.signs,
                                  writer);
    if (st == TERP_OK && cpu_body_has_tails(&enc->body))
        st = terp_cpu_tails_write(p, writer);
    if (st == TERP_OK && cpu_body_has_shifts(&enc->body))
        st = terp_cpu_shifts_write(p, writer);
    if (st == TERP_OK && cpu_body_has_remainders(&enc->body))
        st = terp_cpu_remainders_write(p, writer);
    if (st == TERP_OK && enc->body.predictor != NULL)
        terp_cpu_escapes_write(
            p, terp_prediction_has_grid(enc->body.frame.prediction), writer);
    return st;
}

/* Reorders symbols to tile order or context order, splits off the low bits of
 * wide codes, and writes the tiles. The values are no longer needed: reordered
 * symbols overwrite them. */
static enum terp_status
write_tiles(struct cpu_encoder *enc)
{
    const struct cpu_prediction *p = &enc->body.prediction;
    const struct terp_frame *frame = &enc->body.frame;
    uint16_t *symbols = p->symbols, *tiled = p->work;
    enum terp_status st = TERP_OK;

    if (enc->body.predictor == NULL)
        return TERP_OK;
    if (!terp_coding_has_contexts(frame->coding)) {
        terp_cpu_order_tiles(p->pool, &enc->body.layout, frame->prediction,
                             symbols, tiled, true);
    } else {
        uint8_t *scratch = (uint8_t *)(tiled + enc->body.layout.nvalues);
        if (terp_prediction_is_raster(frame->prediction)) {
            terp_cpu_order_levels(p->pool, &enc->body.layout, symbols, tiled,
                                  true);
            symbols = tiled;
            tiled = p->symbols;
        }
        st = terp_cpu_order_contexts(
            p->pool, &enc->body.layout, frame->has_specials ? p->mask : NULL,
            symbols, cpu_body_wide(&enc->body), 0, scratch, tiled, true);
    }
    if (st == TERP_OK && cpu_body_wide(&enc->body) > 0)
        st = terp_cpu_low_bits_split(p->pool, enc->body.layout.nvalues, tiled,
                                     &enc->attempt.writer);
    if (st != TERP_OK)
        return st;
    enc->attempt.may_have_prefixes =
        !enc->source.is_part && terp_may_have_prefixes(frame);
    for (int i = 0; i < TERP_NPREFIXES && enc->attempt.may_have_prefixes; i++)
        enc->attempt.found.ntiles[i] = terp_prefix_ntiles(frame, i);
    return terp_cpu_tiles_encode(
        p->pool, frame->coding, tiled, enc->body.layout.nvalues,
        enc->attempt.may_have_prefixes ? &enc->attempt.found : NULL,
        &enc->attempt.writer);
}

/* ---- the stream ---- */

/* Inserts a table of prefixes after the frame, if the stream is large enough to
 * have one, and finds the table's sizes. */
static enum terp_status
add_prefixes(struct cpu_encoder *enc, uint8_t *dst, uint64_t cap_nbytes,
             uint64_t *nbytes)
{
    const int frame_nbytes = terp_frame_nbytes(&enc->body.frame);
    struct cpu_encoder_attempt *attempt = &enc->attempt;
    uint8_t *body = dst + frame_nbytes;

    if (!attempt->may_have_prefixes ||
        *nbytes < TERP_PREFIXES_MIN_STREAM_NBYTES)
        return TERP_OK;
    if (*nbytes + TERP_PREFIXES_NBYTES >= cap_nbytes)
        return TERP_ERR_CAPACITY;
    memmove(body + TERP_PREFIXES_NBYTES, body,
            *nbytes - (uint64_t)frame_nbytes);
    memset(body, 0, TERP_PREFIXES_NBYTES);
    dst[TERP_FRAME_PREDICTION_AT] |= TERP_FRAME_PREFIXES;
    attempt->prefixed_nbytes = frame_nbytes + TERP_PREFIXES_NBYTES;
    for (int i = 0; i < TERP_NPREFIXES; i++)
        attempt->prefix_nbytes[i] = terp_prefix_nbytes(
            (uint64_t)(attempt->found.end[i] - dst) + TERP_PREFIXES_NBYTES);
    *nbytes += TERP_PREFIXES_NBYTES;
    return TERP_OK;
}

static void
seal(const struct cpu_encoder *enc, uint8_t *dst, uint64_t nbytes)
{
    if (enc->source.is_part)
        return;
    if (enc->attempt.prefixed_nbytes > 0)
        terp_frame_seal_prefixes(dst, enc->attempt.prefixed_nbytes,
                                 enc->attempt.prefix_nbytes);
    terp_frame_seal(dst, nbytes);
}

/* Predicts a chunk before its stream is written. */
typedef enum terp_status
predict_function(struct cpu_encoder *enc);

static enum terp_status
write_stream(struct cpu_encoder *enc, predict_function *predict, uint8_t *dst,
             uint64_t cap_nbytes, uint64_t *nbytes_ret)
{
    struct cpu_encoder_attempt *attempt = &enc->attempt;

    enc->body.frame.has_specials = enc->survey.stats.nspecials > 0;
    enc->body.prediction.nspecials = enc->survey.stats.nspecials;
    enc->body.prediction.has_markers = enc->source.has_markers;
    attempt->may_have_prefixes = false;
    attempt->prefixed_nbytes = 0;
    attempt->writer = (struct writer){dst, dst + cap_nbytes - 1, false};
    enum terp_status st = make_mask(enc);
    if (st == TERP_OK)
        st = predict(enc);
    if (st == TERP_OK)
        quantize(enc);
    if (st == TERP_OK) {
        write_head(enc);
        st = write_sections(enc);
    }
    if (st == TERP_OK)
        st = write_tiles(enc);
    terp_cpu_body_free_prediction(&enc->body);
    *nbytes_ret = (uint64_t)(attempt->writer.at - dst);
    if (st == TERP_OK && attempt->writer.overflow)
        st = TERP_ERR_CAPACITY;
    if (st == TERP_OK)
        st = add_prefixes(enc, dst, cap_nbytes, nbytes_ret);
    if (st == TERP_OK)
        seal(enc, dst, *nbytes_ret);
    return st;
}

enum terp_status
terp_cpu_attempt(struct cpu_encoder *enc, const struct terp_trial *trial,
                 uint8_t *dst, uint64_t cap_nbytes, uint64_t *nbytes_ret)
{
    struct cpu_body *body = &enc->body;

    terp_layout_make(&trial->domain, &body->layout);
    body->frame.domain = trial->domain;
    if (body->frame.coding != TERP_CODING_CONSTANT)
        body->frame.coding = terp_coding_of(trial->pipeline);
    enc->attempt.predictor = terp_is_lossless(enc->source.params)
                                 ? TERP_PREDICTOR_LORENZO
                                 : trial->predictor;
    body->predictor = NULL;
    return write_stream(enc, choose_predictor, dst, cap_nbytes, nbytes_ret);
}

/* Prepares a chunk to be predicted by the model of its earlier stream. */
static enum terp_status
predict_as_before(struct cpu_encoder *enc)
{
    struct cpu_prediction *p = &enc->body.prediction;

    p->fills = p->nspecials > 0 ? &enc->survey.fills : NULL;
    const enum terp_status st = terp_cpu_prediction_make(p);
    if (st == TERP_OK)
        terp_cpu_spline_deinterleave(p);
    return st;
}

enum terp_status
terp_cpu_attempt_as_before(struct cpu_encoder *enc, uint8_t *dst,
                           uint64_t cap_nbytes, uint64_t *nbytes_ret)
{
    return write_stream(enc, predict_as_before, dst, cap_nbytes, nbytes_ret);
}
