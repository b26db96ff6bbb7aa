/* Decodes a plain stream. */
#include <stdlib.h>

#include "cpu/decoder.h"
#include "cpu/engine.h"
#include "cpu/entropy/contexts.h"
#include "cpu/entropy/order.h"
#include "cpu/entropy/tiles.h"
#include "cpu/predict/carrier.h"
#include "cpu/predict/coarse.h"
#include "cpu/predict/deinterleave.h"
#include "cpu/predict/pointwise.h"
#include "cpu/sections/signs.h"
#include "cpu/sections/specials.h"
#include "cpu/speed/decode.h"

struct cpu_decoder *
terp_cpu_decoder_make(const struct terp_frame *frame, const uint8_t *body,
                      uint64_t body_nbytes, struct cpu_pool *pool)
{
    struct cpu_decoder *dec = calloc(1, sizeof *dec);

    if (dec == NULL)
        return NULL;
    terp_cpu_body_make(frame, pool, &dec->body);
    dec->body.predictor = terp_cpu_predictors[frame->prediction];
    dec->reader = (struct reader){body, body + body_nbytes, false};
    return dec;
}

void
terp_cpu_decoder_free(struct cpu_decoder *dec)
{
    terp_cpu_body_free(&dec->body);
    free(dec->whole.mask);
    free(dec);
}

/* ---- sections ---- */

static enum terp_status
read_pointwise(struct cpu_decoder *dec)
{
    const enum terp_type type = cpu_body_carrier_type(&dec->body);

    if (!terp_pointwise_read_head(&dec->reader,
                                  dec->body.chunk_stages->value_nbytes,
                                  &dec->body.pointwise))
        return TERP_ERR_CORRUPT;
    dec->body.prediction.stages =
        cpu_stages_of(terp_pointwise_type(dec->body.pointwise.form, type));
    return TERP_OK;
}

static enum terp_status
read_carrier(struct cpu_decoder *dec)
{
    const enum terp_type type = dec->body.frame.chunk.type;
    struct terp_carrier_head *head = &dec->body.carrier;

    if (!terp_carrier_read_head(&dec->reader, type, head))
        return TERP_ERR_CORRUPT;
    terp_cpu_body_take_stages(&dec->body);
    return head->form == TERP_CARRIER_FLOATS ||
                   (!dec->body.frame.is_pointwise &&
                    terp_integer_limits_of(terp_carried_integer(type), head,
                                           &dec->limits))
               ? TERP_OK
               : TERP_ERR_CORRUPT;
}

enum terp_status
terp_cpu_decoder_read_head(struct cpu_decoder *dec)
{
    struct cpu_prediction *p = &dec->body.prediction;

    if (!terp_type_is_plain(dec->body.frame.chunk.type) &&
        read_carrier(dec) != TERP_OK)
        return TERP_ERR_CORRUPT;
    if (dec->body.predictor == NULL) {
        dec->constant_at =
            reader_take(&dec->reader, (uint64_t)p->stages->value_nbytes);
        return dec->constant_at == NULL ? TERP_ERR_CORRUPT : TERP_OK;
    }
    if (dec->body.frame.is_pointwise && read_pointwise(dec) != TERP_OK)
        return TERP_ERR_CORRUPT;
    int byte = (int)read_le(&dec->reader, 1);
    int step_slack_log2 = byte & TERP_STEP_SLACK;
    int wide = byte >> TERP_WIDE_SHIFT;
    if (dec->reader.underflow || step_slack_log2 < TERP_MIN_STEP_SLACK_LOG2 ||
        step_slack_log2 > TERP_MAX_STEP_SLACK_LOG2 || wide > TERP_WIDE_MAX)
        return TERP_ERR_CORRUPT;
    dec->body.step_slack_log2 = step_slack_log2;
    double step = terp_step_of(dec->body.frame.bound, step_slack_log2);
    p->quantizer =
        (struct cpu_quantizer){.step = step,
                               .grid_step = step,
                               .bound = dec->body.frame.bound,
                               .wide = wide,
                               .radius = terp_radius_of(wide),
                               .has_specials = dec->body.frame.has_specials};
    return dec->body.predictor->read_model(p, &dec->reader);
}

enum terp_status
terp_cpu_decoder_pass_sections(struct cpu_decoder *dec, uint64_t **mask_ret,
                               uint64_t **signs_ret)
{
    struct cpu_prediction *p = &dec->body.prediction;
    struct reader *reader = &dec->reader;
    const uint64_t nvalues = dec->body.layout.nvalues;
    const int value_nbytes = p->stages->value_nbytes;
    enum terp_status st = TERP_OK;

    if (dec->body.frame.has_specials)
        st = terp_cpu_specials_read(reader, &dec->body.layout,
                                    dec->body.part_nbytes, mask_ret,
                                    &p->nspecials);
    if (st == TERP_OK && dec->body.frame.is_pointwise &&
        dec->body.pointwise.signs == TERP_SIGNS_MIXED)
        st = terp_cpu_signs_read(p->pool, &dec->body.layout, reader, signs_ret);
    if (st == TERP_OK && cpu_body_has_tails(&dec->body))
        st = terp_cpu_tails_read(reader, p->quantizer.tail_nbits, nvalues,
                                 &dec->sections.tails);
    if (st == TERP_OK && cpu_body_has_shifts(&dec->body))
        st = terp_cpu_shifts_read(reader, value_nbytes, nvalues - p->nspecials,
                                  &dec->sections.shifts);
    if (st == TERP_OK && cpu_body_has_remainders(&dec->body))
        st = terp_cpu_remainders_read(reader, &dec->sections.remainders);
    if (st == TERP_OK && dec->body.predictor != NULL)
        st = terp_cpu_escapes_read(reader, nvalues, value_nbytes,
                                   &dec->sections.escapes);
    if (st == TERP_OK && dec->body.predictor != NULL &&
        cpu_body_wide(&dec->body) > 0)
        st = terp_cpu_low_bits_read(reader, nvalues, &dec->sections.low_bits);
    return st;
}

static enum terp_status
read_sections(struct cpu_decoder *dec)
{
    dec->sections.specials = dec->reader;
    return terp_cpu_decoder_pass_sections(dec, &dec->body.prediction.mask,
                                          &dec->body.signs);
}

static bool
is_coarse(const struct cpu_decoder *dec)
{
    return dec->coarse != NULL && dec->coarse->nskipped > 0;
}

/* Replaces the bits of all values by the bits of the lattice's values. The bits
 * of all values go to *whole_ret. */
static bool
coarsen_bits(const struct cpu_decoder *dec, uint64_t **bits,
             uint64_t **whole_ret)
{
    *whole_ret = *bits;
    if (*bits != NULL)
        *bits = terp_cpu_coarse_bits(&dec->whole.layout, &dec->body.layout,
                                     dec->coarse->nskipped, *whole_ret);
    return *whole_ret == NULL || *bits != NULL;
}

/* Replaces the whole chunk by the lattice that a coarse decode fills: drops the
 * finest levels, and renumbers the others. */
static enum terp_status
coarsen(struct cpu_decoder *dec)
{
    struct cpu_prediction *p = &dec->body.prediction;
    uint64_t *whole_signs;

    dec->whole.nsymbols = dec->body.layout.nvalues;
    if (!is_coarse(dec))
        return TERP_OK;
    dec->whole.layout = dec->body.layout;
    terp_layout_make(&dec->coarse->domain, &dec->body.layout);
    for (int l = 1; l <= dec->body.layout.nlevels; l++)
        p->plan[l] = p->plan[l + dec->coarse->nskipped];
    dec->sections.escapes.goes_on = true;
    bool made = coarsen_bits(dec, &p->mask, &dec->whole.mask);
    made &= coarsen_bits(dec, &dec->body.signs, &whole_signs);
    free(whole_signs);
    return made ? TERP_OK : TERP_ERR_MEMORY;
}

/* Decodes the symbols and puts them into the predictor's order. Until then,
 * `work` holds the symbols in another order; values replace them later. */
static enum terp_status
read_tiles(struct cpu_decoder *dec)
{
    struct cpu_prediction *p = &dec->body.prediction;
    const struct terp_frame *frame = &dec->body.frame;
    bool contexts = terp_coding_has_contexts(frame->coding);
    bool raster = terp_prediction_is_raster(frame->prediction);

    if (dec->body.predictor == NULL)
        return dec->reader.at == dec->reader.end ? TERP_OK : TERP_ERR_CORRUPT;
    enum terp_status st = terp_cpu_prediction_make(p);
    if (st != TERP_OK)
        return st;
    uint16_t *tiled = contexts && raster ? p->symbols : p->work;
    uint16_t *ordered = contexts && raster ? p->work : p->symbols;
    st = terp_cpu_tiles_decode_first(p->pool, frame->coding, &dec->reader,
                                     tiled, dec->whole.nsymbols,
                                     dec->body.layout.nvalues);
    if (st == TERP_OK && cpu_body_wide(&dec->body) > 0)
        st = terp_cpu_low_bits_join(p->pool, dec->whole.nsymbols,
                                    dec->body.layout.nvalues,
                                    &dec->sections.low_bits, tiled);
    if (st == TERP_OK && !contexts)
        terp_cpu_order_tiles(p->pool, &dec->body.layout, frame->prediction,
                             tiled, ordered, false);
    if (st != TERP_OK || !contexts)
        return st;
    st = terp_cpu_order_contexts(
        p->pool, &dec->body.layout, p->mask, tiled, cpu_body_wide(&dec->body),
        is_coarse(dec) ? dec->coarse->nskipped : 0,
        (uint8_t *)p->work + 2 * dec->body.layout.nvalues, ordered, false);
    if (st == TERP_OK && raster)
        terp_cpu_order_levels(p->pool, &dec->body.layout, ordered, p->symbols,
                              false);
    return st;
}

/* Places tails, shifts and escapes where the predictor reads them. */
static enum terp_status
place_sections(struct cpu_decoder *dec)
{
    const struct cpu_prediction *p = &dec->body.prediction;
    enum terp_status st = TERP_OK;

    if (cpu_body_has_tails(&dec->body))
        st = terp_cpu_tails_place(p, &dec->sections.tails);
    if (st == TERP_OK && cpu_body_has_shifts(&dec->body))
        st = terp_cpu_shifts_place(p, &dec->sections.shifts);
    if (st == TERP_OK && dec->body.predictor != NULL)
        st = terp_cpu_escapes_place(
            p, terp_prediction_has_grid(dec->body.frame.prediction),
            &dec->sections.escapes);
    return st;
}

static enum terp_status
place_remainders(struct cpu_decoder *dec)
{
    return cpu_body_has_remainders(&dec->body)
               ? terp_cpu_remainders_place(&dec->body.prediction,
                                           &dec->sections.remainders,
                                           dec->values)
               : TERP_OK;
}

/* Reconstructs the coded logarithms, and values from them. The logarithms share
 * memory with the values if both have the same type. Otherwise they need memory
 * of their own: a thread's values would overwrite another's logarithms. */
static enum terp_status
reconstruct_logarithms(struct cpu_decoder *dec)
{
    const struct cpu_prediction *p = &dec->body.prediction;
    const struct cpu_pointwise chunk = {p->pool,
                                        cpu_body_carrier_type(&dec->body),
                                        dec->body.layout.nvalues, NULL};
    void *coded = dec->values;

    if (p->stages != dec->body.chunk_stages) {
        coded = dec->body.coded = terp_cpu_memory_make(
            p->pool, chunk.nvalues * (uint64_t)p->stages->value_nbytes);
        if (coded == NULL)
            return TERP_ERR_MEMORY;
    }
    dec->body.predictor->reconstruct(&dec->body.prediction, coded);
    terp_cpu_pointwise_decode(&chunk, &dec->body.pointwise, p->mask,
                              dec->body.signs, coded, dec->values);
    return TERP_OK;
}

/* Whether the chunk's values are carried by values of another type. */
static bool
is_carried(const struct cpu_decoder *dec)
{
    return dec->body.carrier.form != TERP_CARRIER_FLOATS ||
           terp_type_is_half(dec->body.frame.chunk.type);
}

/* Finds the place of the reconstructed values. */
static enum terp_status
place_values(struct cpu_decoder *dec)
{
    dec->values = dec->dst;
    if (!is_carried(dec))
        return TERP_OK;
    enum terp_status st = terp_cpu_body_make_carried(&dec->body);
    dec->values = dec->body.carried;
    return st;
}

static enum terp_status
reconstruct(struct cpu_decoder *dec)
{
    const int nbytes = dec->body.prediction.stages->value_nbytes;

    if (dec->body.frame.is_pointwise &&
        dec->body.pointwise.form != TERP_POINTWISE_ROUNDED)
        return reconstruct_logarithms(dec);
    if (dec->body.predictor != NULL) {
        dec->body.predictor->reconstruct(&dec->body.prediction, dec->values);
        return TERP_OK;
    }
    const uint64_t bits = load_le(dec->constant_at, nbytes);
    const uint64_t nvalues = dec->body.layout.nvalues;
    uint8_t *values = dec->values;
    for (uint64_t i = 0; i < nvalues; i++)
        store_value(values + i * (uint64_t)nbytes, bits, nbytes);
    return TERP_OK;
}

static enum terp_status
uncarry(struct cpu_decoder *dec)
{
    const struct cpu_parts parts = {
        .pool = dec->body.prediction.pool,
        .type = terp_type_of_part(dec->body.frame.chunk.type),
        .nparts = dec->body.layout.nvalues};

    if (dec->body.carrier.form != TERP_CARRIER_FLOATS)
        terp_cpu_integers_decode(&parts, &dec->body.carrier, &dec->limits,
                                 dec->values, dec->dst);
    else if (is_carried(dec))
        terp_cpu_halves_decode(&parts, dec->values, dec->dst);
    return TERP_OK;
}

static enum terp_status
place_specials(struct cpu_decoder *dec)
{
    const uint64_t *mask = dec->body.prediction.mask;

    if (mask != NULL && is_coarse(dec))
        terp_cpu_specials_place_coarse(
            &dec->sections.specials, &dec->whole.layout, &dec->body.layout,
            dec->coarse->nskipped, dec->body.part_nbytes, dec->whole.mask, mask,
            dec->dst);
    else if (mask != NULL)
        terp_cpu_specials_place(&dec->sections.specials, &dec->body.layout,
                                dec->body.part_nbytes, mask, dec->dst);
    return TERP_OK;
}

static enum terp_status
swap_destination(struct cpu_decoder *dec)
{
    if (dec->body.frame.chunk.big_endian != TERP_HOST_IS_BIG_ENDIAN)
        terp_swap_values(dec->dst, dec->body.layout.nvalues,
                         dec->body.part_nbytes);
    return TERP_OK;
}

/* ---- a stream ---- */

enum terp_status
terp_cpu_decoder_read(struct cpu_decoder *dec)
{
    enum terp_status st = terp_cpu_decoder_read_head(dec);

    if (st == TERP_OK)
        st = read_sections(dec);
    if (st == TERP_OK)
        st = coarsen(dec);
    if (st == TERP_OK)
        st = read_tiles(dec);
    return st == TERP_OK ? place_sections(dec) : st;
}

/* Decodes every step of a stream. A step that does not apply to a constant
 * chunk does nothing. */
static enum terp_status
decode_values(struct cpu_decoder *dec)
{
    enum terp_status st = terp_cpu_decoder_read(dec);

    if (st == TERP_OK)
        st = place_values(dec);
    if (st == TERP_OK)
        st = reconstruct(dec);
    if (st == TERP_OK)
        st = place_remainders(dec);
    if (st == TERP_OK) {
        uncarry(dec);
        place_specials(dec);
        swap_destination(dec);
    }
    return st;
}

/* Decodes the values on the lattice of a coarse decode. */
static enum terp_status
decode_lattice(struct cpu_pool *pool, const struct terp_open_stream *stream,
               const struct terp_coarse *coarse, void *dst)
{
    struct cpu_decoder *dec = terp_cpu_decoder_make(
        &stream->frame, stream->body, stream->body_nbytes, pool);

    if (dec == NULL)
        return TERP_ERR_MEMORY;
    dec->coarse = coarse;
    dec->dst = dst;
    const enum terp_status st = decode_values(dec);
    terp_cpu_decoder_free(dec);
    return st;
}

static enum terp_status
decode_stream(struct cpu_pool *pool, const struct terp_open_stream *stream,
              uint64_t step, void *dst)
{
    const struct terp_frame *frame = &stream->frame;
    const int value_nbytes = terp_value_nbytes(frame->chunk.type);
    struct terp_coarse coarse;

    terp_coarse_make(frame, step, &coarse);
    if (frame->coding == TERP_CODING_RAW) {
        if (stream->body_nbytes != terp_chunk_nbytes(&frame->chunk))
            return TERP_ERR_CORRUPT;
        terp_cpu_coarse_values(&coarse, value_nbytes, stream->body, dst);
        return TERP_OK;
    }
    if (frame->coding == TERP_CODING_SPEED)
        return terp_cpu_speed_decode(pool, stream, &coarse, dst);
    if (coarse.is_all)
        return decode_lattice(pool, stream, &coarse, dst);
    void *lattice =
        terp_cpu_memory_make(pool, coarse.nvalues * (uint64_t)value_nbytes);
    if (lattice == NULL)
        return TERP_ERR_MEMORY;
    const enum terp_status st = decode_lattice(pool, stream, &coarse, lattice);
    if (st == TERP_OK)
        terp_cpu_coarse_values(&coarse, value_nbytes, lattice, dst);
    terp_cpu_memory_free(pool, lattice);
    return st;
}

enum terp_status
terp_cpu_decode(struct terp_session *session, uint64_t step, uint64_t n,
                const struct terp_open_stream *streams, void *const *dst,
                enum terp_status *status_ret)
{
    for (uint64_t k = 0; k < n; k++)
        status_ret[k] =
            decode_stream(cpu_pool_of(session), &streams[k], step, dst[k]);
    return TERP_OK;
}
