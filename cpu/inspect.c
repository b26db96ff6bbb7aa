/* Counts the escapes, special values and tiles of a plain stream. */
#include "cpu/decoder.h"
#include "cpu/engine.h"
#include "cpu/entropy/tiles.h"

/* The bound of the chunk's own values in a stream of carried values. */
static double
carried_bound(const struct cpu_body *body)
{
    const double bound = body->frame.bound;

    return body->predictor == NULL                     ? 0
           : body->carrier.form == TERP_CARRIER_FLOATS ? body->carrier.bound
           : bound < 0x1p53
               ? (double)(uint64_t)bound * (double)body->carrier.scale
               : bound * (double)body->carrier.scale;
}

enum terp_status
terp_cpu_inspect(const struct terp_frame *frame, const uint8_t *body,
                 uint64_t body_nbytes, struct terp_info *info)
{
    struct cpu_decoder *dec =
        terp_cpu_decoder_make(frame, body, body_nbytes, NULL);

    if (dec == NULL)
        return TERP_ERR_MEMORY;
    enum terp_status st = terp_cpu_decoder_read_head(dec);
    if (st == TERP_OK)
        st = terp_cpu_decoder_pass_sections(dec, NULL, NULL);
    info->nspecials = dec->body.prediction.nspecials;
    if (!terp_type_is_plain(frame->chunk.type))
        info->bound = carried_bound(&dec->body);
    if (st == TERP_OK && frame->is_pointwise) {
        info->bound = 0;
        info->pointwise_bound = dec->body.pointwise.bound;
        info->floor = dec->body.pointwise.floor;
    }
    if (st == TERP_OK && dec->body.predictor != NULL) {
        info->nescapes = dec->sections.escapes.nescapes;
        st = terp_cpu_tiles_inspect(frame->coding, &dec->reader,
                                    dec->body.layout.nvalues, info);
    }
    terp_cpu_decoder_free(dec);
    return st;
}
