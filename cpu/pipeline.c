/* The CPU engine. doc/format.md describes what it writes. */
#include <fenv.h>
#include <stdlib.h>

#include "codec/engine.h"
#include "codec/format/bytes.h"
#include "cpu/entropy/contexts.h"
#include "cpu/entropy/order.h"
#include "cpu/entropy/tiles.h"
#include "cpu/pool/memory.h"
#include "cpu/predict/deinterleave.h"
#include "cpu/predict/lorenzo.h"
#include "cpu/predict/scan.h"
#include "cpu/predict/spline.h"
#include "cpu/predict/tuner.h"
#include "cpu/sections/escapes.h"
#include "cpu/sections/specials.h"

static const struct cpu_stages *
stages_of(enum terp_type type)
{
    return type == TERP_FLOAT32 ? &terp_cpu_stages_f32 : &terp_cpu_stages_f64;
}

/* With fewer a member would wait longer than it works: 0.2 ms of decoding. */
#define MEMBER_NVALUES (UINT64_C(1) << 17)

static struct cpu_pool *
make_team(const struct terp_layout *layout, const struct terp_cpu_call *call)
{
    return terp_cpu_pool_make((int)min_u64((uint64_t)call->nthreads,
                                           layout->nvalues / MEMBER_NVALUES),
                              call->allocator);
}

/* By memcpy: the values are of a floating type, and may be anywhere. */
static void
swap_values(void *values, uint64_t nvalues, int value_nbytes)
{
    uint8_t *bytes = values;
    uint32_t word32;
    uint64_t word64;

    for (uint64_t i = 0; value_nbytes == 4 && i < nvalues; i++) {
        memcpy(&word32, bytes + 4 * i, 4);
        word32 = __builtin_bswap32(word32);
        memcpy(bytes + 4 * i, &word32, 4);
    }
    for (uint64_t i = 0; value_nbytes == 8 && i < nvalues; i++) {
        memcpy(&word64, bytes + 8 * i, 8);
        word64 = __builtin_bswap64(word64);
        memcpy(bytes + 8 * i, &word64, 8);
    }
}

/* ---- encoding ---- */

struct encode {
    const struct terp_params *params;
    const struct terp_chunk *chunk;
    const struct cpu_stages *stages;
    struct cpu_pool *team;
    struct terp_layout layout;
    const void *values; /* in the host's byte order */
    void *swapped;
    struct cpu_fills fills;
    struct cpu_stats stats;
    double bound;
    int step_slack_log2;
    int max_code;
    struct cpu_spline spline;
    struct cpu_lorenzo lorenzo;
    uint64_t *mask;
    uint16_t *symbols;
    struct terp_frame frame;
    struct writer writer;
};

static double
absolute_bound(const struct encode *e)
{
    double bound = e->params->bound;
    return e->params->bound_mode == TERP_BOUND_ABSOLUTE
               ? bound
               : terp_bound_of_range(bound, e->stats.min, e->stats.max);
}

/* A value that is near enough to all valid ones, if there is one. */
static bool
find_constant(const struct encode *e, double *value_ret)
{
    const struct cpu_stats *stats = &e->stats;
    double value = stats->min;

    if (stats->nspecials == e->layout.nvalues) {
        *value_ret = 0;
        return true;
    }
    if (stats->min != stats->max) {
        value = stats->min + (stats->max - stats->min) / 2;
        if (e->stages->value_nbytes == 4)
            value = (double)(float)value;
        if (!terp_is_constant(value, stats->min, stats->max, e->bound))
            return false;
    }
    *value_ret = value;
    return true;
}

static enum terp_status
make_mask(struct encode *e)
{
    uint64_t nvalues = e->layout.nvalues;

    e->mask = calloc(div_up(nvalues, 64), 8);
    if (e->mask == NULL)
        return TERP_ERR_MEMORY;
    if (e->stats.nspecials > 0)
        e->stages->mask(e->values, 0, nvalues, &e->fills, e->mask);
    return TERP_OK;
}

static enum terp_status
write_specials(struct encode *e)
{
    return terp_cpu_specials_write(&e->writer, e->mask, e->values, &e->layout,
                                   e->stages->value_nbytes);
}

static void
write_frame(struct encode *e)
{
    uint8_t frame[TERP_FRAME_MAX_NBYTES];
    int nbytes = terp_frame_write(&e->frame, frame);
    uint8_t *at = writer_take(&e->writer, (uint64_t)nbytes);
    if (at != NULL)
        memcpy(at, frame, (size_t)nbytes);
}

static void
write_value(struct encode *e, double value)
{
    write_le(&e->writer, cpu_value_bits(e->stages, value),
             e->stages->value_nbytes);
}

static enum terp_status
encode_constant(struct encode *e, double value)
{
    e->frame.coding = TERP_CODING_CONSTANT;
    e->frame.has_specials = e->stats.nspecials > 0;
    write_frame(e);
    write_value(e, value);
    if (!e->frame.has_specials)
        return TERP_OK;
    enum terp_status st = make_mask(e);
    return st == TERP_OK ? write_specials(e) : st;
}

static void
write_plans(struct encode *e)
{
    for (int l = e->layout.nlevels; l >= 1; l--) {
        const struct cpu_level_plan *plan = &e->spline.plan[l];
        write_le(&e->writer,
                 (uint64_t)(plan->ratio - 1) | (uint64_t)plan->spline << 6, 1);
        write_le(&e->writer, plan->priorities, 1);
    }
}

static enum terp_status
choose_predictor(struct encode *e)
{
    uint64_t spline_cost, lorenzo_cost = UINT64_MAX;
    enum terp_predictor asked = e->params->predictor;
    enum terp_status st = TERP_OK;

    e->lorenzo = (struct cpu_lorenzo){.stages = e->stages,
                                      .layout = &e->layout,
                                      .team = e->team,
                                      .quantizer = e->spline.quantizer};
    terp_cpu_spline_deinterleave(&e->spline, e->values,
                                 e->stats.nspecials > 0 ? &e->fills : NULL);
    st = terp_cpu_tune_spline(&e->spline, &spline_cost);
    if (st == TERP_OK && asked != TERP_PREDICTOR_SPLINE)
        st = terp_cpu_tune_lorenzo(&e->lorenzo, e->values, &e->fills,
                                   &lorenzo_cost);
    bool lorenzo =
        asked == TERP_PREDICTOR_LORENZO ||
        (asked == TERP_PREDICTOR_AUTO &&
         terp_prefers_lorenzo(lorenzo_cost, spline_cost, e->layout.nvalues));
    e->frame.prediction =
        lorenzo ? TERP_PREDICTION_LORENZO : TERP_PREDICTION_SPLINE;
    return st;
}

/* The first value, which makes its code 0, or one in the middle of the valid
 * ones. */
static double
choose_reference(const struct encode *e)
{
    const struct cpu_stats *stats = &e->stats;
    struct cpu_stats first;

    e->stages->scan(e->values, 1, &e->fills, &first);
    double middle = stats->min + (stats->max - stats->min) / 2;
    return first.nspecials == 0
               ? first.min
               : cpu_value_of_bits(e->stages,
                                   cpu_value_bits(e->stages, middle));
}

static enum terp_status
encode_predicted(struct encode *e)
{
    e->step_slack_log2 =
        terp_step_slack_of(e->bound, e->stats.min, e->stats.max,
                           e->stages->value_nbytes == 4 ? 23 : 52);
    e->spline = (struct cpu_spline){
        .stages = e->stages,
        .layout = &e->layout,
        .team = e->team,
        .quantizer = {.step = terp_step_of(e->bound, e->step_slack_log2),
                      .grid_step = terp_step_of(e->bound, e->step_slack_log2),
                      .bound = e->bound,
                      .max_code = e->max_code,
                      .has_specials = e->stats.nspecials > 0,
                      .reference = choose_reference(e)}};
    enum terp_status st = terp_cpu_spline_make(&e->spline);
    e->symbols = e->spline.symbols;
    if (st == TERP_OK)
        st = make_mask(e);
    if (st == TERP_OK)
        st = choose_predictor(e);
    if (st != TERP_OK)
        return st;
    bool lorenzo = e->frame.prediction == TERP_PREDICTION_LORENZO;
    struct cpu_escapes escapes = {.team = e->team,
                                  .stages = e->stages,
                                  .quantizer =
                                      lorenzo ? NULL : &e->spline.quantizer,
                                  .symbols = e->symbols,
                                  .nvalues = e->layout.nvalues,
                                  .words = e->spline.work};
    if (lorenzo)
        terp_cpu_lorenzo_quantize(&e->lorenzo, e->values, e->mask,
                                  &e->stats.nspecials, e->spline.work,
                                  e->symbols);
    else
        terp_cpu_spline_quantize(&e->spline);
    e->frame.has_specials = e->stats.nspecials > 0;
    write_frame(e);
    write_le(&e->writer, (uint64_t)e->step_slack_log2, 1);
    if (lorenzo) {
        write_le(&e->writer, e->lorenzo.dims, 1);
    } else {
        write_value(e, e->spline.quantizer.reference);
        write_plans(e);
    }
    if (e->frame.has_specials)
        st = write_specials(e);
    if (st != TERP_OK)
        return st;
    terp_cpu_escapes_write(&escapes, &e->writer);
    /* The values have served: symbols in another order take their place. */
    uint16_t *tiled = e->spline.work;
    if (e->frame.coding == TERP_CODING_RATIO) {
        uint16_t *from = e->symbols;
        uint8_t *scratch = (uint8_t *)(tiled + e->layout.nvalues);
        if (lorenzo) {
            terp_cpu_deinterleave_symbols(e->team, &e->layout, from, tiled);
            from = tiled;
            tiled = e->symbols;
        }
        st = terp_cpu_context_sort(e->team, &e->layout,
                                   e->frame.has_specials ? e->mask : NULL, from,
                                   scratch, tiled);
        if (st != TERP_OK)
            return st;
    } else {
        terp_cpu_order_into_tiles(
            e->team, &e->layout, lorenzo ? CPU_ORDER_RASTER : CPU_ORDER_CLASSES,
            e->symbols, tiled);
    }
    return terp_cpu_tiles_encode(e->team, e->frame.coding, tiled,
                                 e->layout.nvalues, &e->writer);
}

static enum terp_status
encode_chunk(struct encode *e)
{
    uint64_t chunk_nbytes = terp_chunk_nbytes(e->chunk);
    double constant;

    if (e->chunk->big_endian) {
        e->swapped = terp_cpu_memory_make(e->team, chunk_nbytes);
        if (e->swapped == NULL)
            return TERP_ERR_MEMORY;
        memcpy(e->swapped, e->values, chunk_nbytes);
        swap_values(e->swapped, e->layout.nvalues, e->stages->value_nbytes);
        e->values = e->swapped;
    }
    for (int i = 0; i < TERP_NFILLS; i++)
        e->fills.bits[i] = e->stages->negative_zero_bits;
    if (e->params->has_fill)
        e->fills.bits[0] = e->params->fill_bits;
    terp_cpu_scan(e->team, e->stages, e->values, e->layout.nvalues, &e->fills,
                  &e->stats);
    e->bound = absolute_bound(e);
    e->frame = (struct terp_frame){.chunk = *e->chunk, .bound = e->bound};
    if (find_constant(e, &constant))
        return encode_constant(e, constant);
    if (!is_bound(e->bound))
        return TERP_ERR_CAPACITY; /* a range that no double holds */
    e->frame.coding = terp_coding_of(e->params->pipeline);
    e->max_code = e->frame.coding == TERP_CODING_SPEED ? TERP_SPEED_MAX_CODE
                                                       : TERP_MAX_CODE;
    return encode_predicted(e);
}

enum terp_status
terp_cpu_encode(const struct terp_cpu_call *call,
                const struct terp_params *params,
                const struct terp_chunk *chunk, const void *src, uint8_t *dst,
                uint64_t *dst_nbytes_ret)
{
    struct encode *e = calloc(1, sizeof *e);
    struct terp_frame raw = {.chunk = *chunk, .coding = TERP_CODING_RAW};
    uint64_t raw_nbytes =
        (uint64_t)terp_frame_nbytes(&raw) + terp_chunk_nbytes(chunk);
    fenv_t host;

    if (e == NULL)
        return TERP_ERR_MEMORY;
    fegetenv(&host);
    fesetenv(FE_DFL_ENV);
    e->params = params;
    e->chunk = chunk;
    e->stages = stages_of(chunk->type);
    e->values = src;
    e->writer = (struct writer){dst, dst + raw_nbytes - 1, false};
    terp_layout_make(chunk, &e->layout);
    e->team = make_team(&e->layout, call);
    enum terp_status st = encode_chunk(e);
    if (st == TERP_OK && e->writer.overflow)
        st = TERP_ERR_CAPACITY;
    if (st == TERP_OK) {
        *dst_nbytes_ret = (uint64_t)(e->writer.at - dst);
        terp_frame_seal(dst, *dst_nbytes_ret);
    }
    terp_cpu_spline_free(&e->spline);
    terp_cpu_memory_free(e->team, e->swapped);
    terp_cpu_pool_free(e->team);
    free(e->mask);
    free(e);
    fesetenv(&host);
    return st;
}

/* ---- decoding ---- */

struct decode {
    const struct terp_frame *frame;
    const struct cpu_stages *stages;
    struct cpu_pool *team;
    struct terp_layout layout;
    struct reader reader;
    struct reader specials; /* its section, whose values are placed last */
    uint64_t *mask;         /* NULL where there are none */
    struct cpu_spline spline;
    unsigned dims;
    uint16_t *symbols;
};

static enum terp_status
read_plans(struct decode *d)
{
    for (int l = d->layout.nlevels; l >= 1; l--) {
        struct cpu_level_plan *plan = &d->spline.plan[l];
        uint64_t byte = read_le(&d->reader, 1);
        plan->ratio = (uint8_t)((byte & 63) + 1);
        plan->spline = (uint8_t)(byte >> 6);
        plan->priorities = (uint8_t)read_le(&d->reader, 1);
        if (plan->spline >= TERP_NSPLINES)
            return TERP_ERR_CORRUPT;
    }
    return d->reader.underflow ? TERP_ERR_CORRUPT : TERP_OK;
}

/* Where specials are; leaves the reader behind the section. */
static enum terp_status
read_specials(struct decode *d)
{
    uint64_t nspecials;

    d->specials = d->reader;
    return d->frame->has_specials
               ? terp_cpu_specials_read(&d->reader, &d->layout,
                                        d->stages->value_nbytes, &d->mask,
                                        &nspecials)
               : TERP_OK;
}

static void
place_specials(struct decode *d, void *dst)
{
    if (d->mask != NULL)
        terp_cpu_specials_place(&d->specials, &d->layout,
                                d->stages->value_nbytes, d->mask, dst);
}

static enum terp_status
read_model(struct decode *d)
{
    int step_slack_log2 = (int)read_le(&d->reader, 1);

    if (d->reader.underflow || step_slack_log2 < TERP_MIN_STEP_SLACK_LOG2 ||
        step_slack_log2 > TERP_MAX_STEP_SLACK_LOG2)
        return TERP_ERR_CORRUPT;
    d->spline.stages = d->stages;
    d->spline.layout = &d->layout;
    d->spline.team = d->team;
    d->spline.quantizer = (struct cpu_quantizer){
        .step = terp_step_of(d->frame->bound, step_slack_log2),
        .grid_step = terp_step_of(d->frame->bound, step_slack_log2),
        .bound = d->frame->bound};
    if (d->frame->prediction == TERP_PREDICTION_SPLINE) {
        d->spline.quantizer.reference = cpu_value_of_bits(
            d->stages, read_le(&d->reader, d->stages->value_nbytes));
        return read_plans(d);
    }
    d->dims = (unsigned)read_le(&d->reader, 1);
    bool valid = terp_lorenzo_dims_are_valid(&d->layout, d->dims,
                                             d->frame->has_specials);
    return d->reader.underflow || !valid ? TERP_ERR_CORRUPT : TERP_OK;
}

static enum terp_status
decode_predicted(struct decode *d, void *dst)
{
    struct cpu_escape_section section;

    enum terp_status st = read_model(d);
    if (st == TERP_OK)
        st = read_specials(d);
    if (st == TERP_OK)
        st = terp_cpu_escapes_read(&d->reader, d->layout.nvalues,
                                   d->stages->value_nbytes, &section);
    if (st != TERP_OK)
        return st;
    bool lorenzo = d->frame->prediction == TERP_PREDICTION_LORENZO;
    st = terp_cpu_spline_make(&d->spline);
    if (st != TERP_OK)
        return st;
    d->symbols = d->spline.symbols;
    /* Symbols in another order stand where values will. */
    uint16_t *tiled = d->spline.work, *to = d->symbols;
    if (d->frame->coding == TERP_CODING_RATIO && lorenzo) {
        to = tiled;
        tiled = d->symbols;
    }
    st = terp_cpu_tiles_decode(d->team, d->frame->coding, &d->reader, tiled,
                               d->layout.nvalues);
    if (st != TERP_OK)
        return st;
    if (d->frame->coding == TERP_CODING_RATIO) {
        uint16_t *work = d->spline.work;
        uint8_t *scratch = (uint8_t *)(work + d->layout.nvalues);
        st = terp_cpu_context_restore(d->team, &d->layout, d->mask, tiled,
                                      scratch, to);
        if (st == TERP_OK && lorenzo)
            terp_cpu_interleave_symbols(d->team, &d->layout, to, d->symbols);
    } else {
        terp_cpu_order_from_tiles(
            d->team, &d->layout, lorenzo ? CPU_ORDER_RASTER : CPU_ORDER_CLASSES,
            tiled, to);
    }
    if (st != TERP_OK)
        return st;
    struct cpu_escapes escapes = {.team = d->team,
                                  .stages = d->stages,
                                  .quantizer =
                                      lorenzo ? NULL : &d->spline.quantizer,
                                  .symbols = d->symbols,
                                  .nvalues = d->layout.nvalues,
                                  .words = d->spline.work};
    st = terp_cpu_escapes_place(&escapes, &section);
    if (st != TERP_OK)
        return st;
    if (!lorenzo) {
        terp_cpu_spline_reconstruct(&d->spline, dst);
    } else {
        struct cpu_lorenzo model = {.stages = d->stages,
                                    .layout = &d->layout,
                                    .quantizer = d->spline.quantizer,
                                    .dims = d->dims};
        terp_cpu_lorenzo_reconstruct(&model, d->mask, d->symbols,
                                     d->spline.work, dst);
    }
    place_specials(d, dst);
    return TERP_OK;
}

static enum terp_status
decode_constant(struct decode *d, void *dst)
{
    size_t nbytes = (size_t)d->stages->value_nbytes;
    const uint8_t *value = reader_take(&d->reader, nbytes);

    if (value == NULL)
        return TERP_ERR_CORRUPT;
    enum terp_status st = read_specials(d);
    if (st != TERP_OK)
        return st;
    if (d->reader.at != d->reader.end)
        return TERP_ERR_CORRUPT;
    for (uint64_t i = 0; i < d->layout.nvalues; i++)
        memcpy((uint8_t *)dst + i * nbytes, value, nbytes);
    place_specials(d, dst);
    return TERP_OK;
}

enum terp_status
terp_cpu_decode(const struct terp_cpu_call *call,
                const struct terp_frame *frame, const uint8_t *body,
                uint64_t body_nbytes, void *dst)
{
    struct decode *d = calloc(1, sizeof *d);
    enum terp_status st;
    fenv_t host;

    if (d == NULL)
        return TERP_ERR_MEMORY;
    fegetenv(&host);
    fesetenv(FE_DFL_ENV);
    d->frame = frame;
    d->stages = stages_of(frame->chunk.type);
    d->reader = (struct reader){body, body + body_nbytes, false};
    terp_layout_make(&frame->chunk, &d->layout);
    d->team = make_team(&d->layout, call);
    st = frame->coding == TERP_CODING_CONSTANT ? decode_constant(d, dst)
                                               : decode_predicted(d, dst);
    if (st == TERP_OK && frame->chunk.big_endian)
        swap_values(dst, d->layout.nvalues, d->stages->value_nbytes);
    terp_cpu_spline_free(&d->spline);
    terp_cpu_pool_free(d->team);
    free(d->mask);
    free(d);
    fesetenv(&host);
    return st;
}

enum terp_status
terp_cpu_inspect(const struct terp_frame *frame, const uint8_t *body,
                 uint64_t body_nbytes, struct terp_info *info)
{
    struct decode *d = calloc(1, sizeof *d);
    enum terp_status st = TERP_OK;

    if (d == NULL)
        return TERP_ERR_MEMORY;
    d->frame = frame;
    d->stages = stages_of(frame->chunk.type);
    d->reader = (struct reader){body, body + body_nbytes, false};
    terp_layout_make(&frame->chunk, &d->layout);
    if (frame->coding != TERP_CODING_CONSTANT)
        st = read_model(d);
    else if (reader_take(&d->reader, (uint64_t)d->stages->value_nbytes) == NULL)
        st = TERP_ERR_CORRUPT;
    info->nspecials = 0;
    if (st == TERP_OK && frame->has_specials)
        st = terp_cpu_specials_read(&d->reader, &d->layout,
                                    d->stages->value_nbytes, NULL,
                                    &info->nspecials);
    if (st == TERP_OK && frame->coding != TERP_CODING_CONSTANT) {
        struct cpu_escape_section section = {.nescapes = 0};
        st = terp_cpu_escapes_read(&d->reader, d->layout.nvalues,
                                   d->stages->value_nbytes, &section);
        info->nescapes = section.nescapes;
        if (st == TERP_OK)
            st = terp_cpu_tiles_inspect(frame->coding, &d->reader,
                                        d->layout.nvalues, info);
    }
    free(d);
    return st;
}
