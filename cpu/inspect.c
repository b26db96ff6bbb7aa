/* Counts the escapes, special values and tiles of a plain stream. */
#include "cpu/decoder.h"
#include "cpu/engine.h"
#include "cpu/entropy/tiles.h"
#include "cpu/sections/specials.h"
#include "cpu/speed/decode.h"

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

/* Adds the usual fill values among the special values; the section, which was
 * read before, begins at `section`. */
static void
add_fills(const struct cpu_body *body, struct reader section,
          struct terp_usual_fills *fills)
{
    const enum terp_type type = body->frame.chunk.type;
    uint64_t colors[TERP_SPECIALS_MAX_NCOLORS];

    if (!body->frame.has_specials || terp_type_is_integer(type))
        return;
    const int n = terp_cpu_specials_colors(&section, &body->layout,
                                           body->part_nbytes, colors);
    for (int i = 0; i < n; i++) {
        const uint64_t bits =
            terp_type_is_half(type)
                ? terp_f32_bits_of_half(type, (uint16_t)colors[i])
                : colors[i];
        const double value = cpu_value_of_bits(body->chunk_stages, bits);
        if (terp_is_usual_fill(type, value))
            terp_usual_fills_add(fills, value);
    }
}

enum terp_status
terp_cpu_inspect(const struct terp_frame *frame, const uint8_t *body,
                 uint64_t body_nbytes, struct terp_info *info,
                 struct terp_usual_fills *fills)
{
    if (frame->coding == TERP_CODING_SPEED)
        return terp_cpu_speed_inspect(frame, body, body_nbytes, info);
    struct cpu_decoder *dec =
        terp_cpu_decoder_make(frame, body, body_nbytes, NULL);

    if (dec == NULL)
        return TERP_ERR_MEMORY;
    enum terp_status st = terp_cpu_decoder_read_head(dec);
    const struct reader section = dec->reader;
    if (st == TERP_OK)
        st = terp_cpu_decoder_pass_sections(dec, NULL, NULL);
    if (st == TERP_OK)
        add_fills(&dec->body, section, fills);
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
