/* The CPU engine: a chunk's way from values to a stream, and back, as tables of
 * steps. doc/format.md describes what is written. */
#include <fenv.h>
#include <stdlib.h>

#include "codec/engine.h"
#include "codec/format/bytes.h"
#include "cpu/entropy/contexts.h"
#include "cpu/entropy/tiles.h"
#include "cpu/pool/memory.h"
#include "cpu/predict/deinterleave.h"
#include "cpu/predict/predictor.h"
#include "cpu/predict/scan.h"
#include "cpu/sections/escapes.h"
#include "cpu/sections/specials.h"

static const struct cpu_stages *
stages_of(enum terp_type type)
{
    return type == TERP_FLOAT32 ? &terp_cpu_stages_f32 : &terp_cpu_stages_f64;
}

static uint64_t
nvalues_of(const struct terp_chunk *chunk)
{
    return terp_chunk_nbytes(chunk) /
           (uint64_t)stages_of(chunk->type)->value_nbytes;
}

/* A thread that has fewer values to decode than this, 0.2 ms of work, waits
 * longer than it works. */
#define THREAD_MIN_NVALUES (UINT64_C(1) << 17)

static struct cpu_pool *
make_pool(const struct terp_chunk *chunk, const struct terp_cpu_call *call)
{
    return terp_cpu_pool_make(
        (int)min_u64((uint64_t)call->nthreads,
                     nvalues_of(chunk) / THREAD_MIN_NVALUES),
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
    struct cpu_pool *pool;
    uint64_t nvalues;
    const void *values; /* in the host's byte order */
    void *swapped;
    struct cpu_fills fills;
    struct cpu_stats stats;
    double bound;    /* absolute */
    bool is_constant;
    double constant; /* of a constant chunk */
    int step_slack_log2;
    struct terp_chunk domain;
    enum terp_domain_verdict verdict;

    /* of one stream of the chunk, in one domain */
    struct terp_frame frame;
    struct terp_layout layout;
    const struct cpu_predictor *predictor; /* NULL: the chunk is constant */
    struct cpu_prediction prediction;
    struct writer writer;
};

typedef enum terp_status
encode_step(struct encode *e);

static enum terp_status
swap_source(struct encode *e)
{
    uint64_t chunk_nbytes = terp_chunk_nbytes(e->chunk);

    if (!e->chunk->big_endian)
        return TERP_OK;
    e->swapped = malloc(chunk_nbytes);
    if (e->swapped == NULL)
        return TERP_ERR_MEMORY;
    memcpy(e->swapped, e->values, chunk_nbytes);
    swap_values(e->swapped, e->nvalues, e->stages->value_nbytes);
    e->values = e->swapped;
    return TERP_OK;
}

/* Special values, the range of the others, and the bound that follows. */
static enum terp_status
scan(struct encode *e)
{
    const struct terp_params *params = e->params;
    const struct cpu_stats *stats = &e->stats;
    int value_nbytes = e->stages->value_nbytes;

    for (int i = 0; i < TERP_NFILLS; i++)
        e->fills.bits[i] = e->stages->negative_zero_bits;
    if (params->has_fill)
        e->fills.bits[0] = params->fill_bits;
    terp_cpu_scan(e->pool, e->stages, e->values, e->nvalues, &e->fills,
                  &e->stats);
    e->bound = terp_absolute_bound(params->bound_mode, params->bound,
                                   stats->min, stats->max);
    e->is_constant = terp_find_constant(stats->min, stats->max,
                                        stats->nspecials == e->nvalues,
                                        e->bound, value_nbytes, &e->constant);
    if (e->is_constant)
        return TERP_OK;
    e->step_slack_log2 =
        terp_step_slack_of(e->bound, stats->min, stats->max, value_nbytes);
    /* A range may be larger than any double. */
    return is_bound(e->bound) ? TERP_OK : TERP_ERR_CAPACITY;
}

static double
step_of(const struct encode *e)
{
    return terp_step_of(e->bound, e->step_slack_log2);
}

static void
lag_errors(void *arg, uint64_t lag,
           struct terp_lag_errors errors_ret[TERP_DOMAIN_NSAMPLES])
{
    const struct encode *e = arg;

    e->stages->lag_errors(e->values, e->nvalues, &e->fills, 1 / step_of(e), lag,
                          errors_ret);
}

static enum terp_status
find_domain(struct encode *e)
{
    e->domain = *e->chunk;
    return e->is_constant ||
                   !terp_domain_is_open(e->chunk, e->nvalues, e->params)
               ? TERP_OK
               : terp_domain_find(e->chunk,
                                  terp_price_of_anchor(e->stats.min,
                                                       e->stats.max,
                                                       step_of(e)),
                                  lag_errors, e, &e->domain, &e->verdict);
}

static enum terp_status
make_mask(struct encode *e)
{
    if (e->is_constant && !e->frame.has_specials)
        return TERP_OK;
    e->prediction.mask = calloc(div_up(e->nvalues, 64), 8);
    if (e->prediction.mask == NULL)
        return TERP_ERR_MEMORY;
    if (e->stats.nspecials > 0)
        e->stages->mask(e->values, 0, e->nvalues, &e->fills,
                        e->prediction.mask);
    return TERP_OK;
}

static double
reference_of(const struct encode *e)
{
    struct cpu_stats first;

    e->stages->scan(e->values, 1, &e->fills, &first);
    return terp_reference_of(first.min, first.nspecials > 0, e->stats.min,
                             e->stats.max, e->stages->value_nbytes);
}

static enum terp_status
choose_predictor(struct encode *e)
{
    const struct cpu_stats *stats = &e->stats;
    double step = step_of(e);

    if (e->is_constant)
        return TERP_OK;
    e->prediction = (struct cpu_prediction){
        .stages = e->stages,
        .layout = &e->layout,
        .pool = e->pool,
        .quantizer = {.step = step,
                      .grid_step = step,
                      .bound = e->bound,
                      .max_code = terp_coding_max_code(e->frame.coding),
                      .has_specials = stats->nspecials > 0,
                      .reference = reference_of(e)},
        .values = e->values,
        .fills = stats->nspecials > 0 ? &e->fills : NULL,
        .mask = e->prediction.mask,
        .nspecials = stats->nspecials};
    enum terp_status st = terp_cpu_prediction_make(&e->prediction);
    if (st == TERP_OK)
        st = terp_cpu_predictor_choose(&e->prediction, e->params->predictor,
                                       &e->frame.prediction);
    e->predictor = terp_cpu_predictors[e->frame.prediction];
    return st;
}

static enum terp_status
quantize(struct encode *e)
{
    if (e->predictor == NULL)
        return TERP_OK;
    e->predictor->quantize(&e->prediction);
    e->frame.has_specials = e->prediction.nspecials > 0;
    return TERP_OK;
}

/* The frame, and the model or the constant. */
static enum terp_status
write_head(struct encode *e)
{
    uint8_t frame[TERP_FRAME_MAX_NBYTES];
    int nbytes = terp_frame_write(&e->frame, frame);
    uint8_t *at = writer_take(&e->writer, (uint64_t)nbytes);

    if (at != NULL)
        memcpy(at, frame, (size_t)nbytes);
    if (e->predictor == NULL) {
        write_le(&e->writer, cpu_value_bits(e->stages, e->constant),
                 e->stages->value_nbytes);
        return TERP_OK;
    }
    write_le(&e->writer, (uint64_t)e->step_slack_log2, 1);
    e->predictor->write_model(&e->prediction, &e->writer);
    return TERP_OK;
}

static enum terp_status
write_specials(struct encode *e)
{
    return e->frame.has_specials
               ? terp_cpu_specials_write(&e->writer, e->prediction.mask,
                                         e->values, &e->layout,
                                         e->stages->value_nbytes)
               : TERP_OK;
}

/* A chunk's symbols, with the words beside them that escaped. */
static struct cpu_escapes
escapes_of(const struct cpu_prediction *prediction,
           const struct cpu_predictor *predictor)
{
    return (struct cpu_escapes){
        .pool = prediction->pool,
        .stages = prediction->stages,
        .quantizer = predictor->has_grid ? &prediction->quantizer : NULL,
        .symbols = prediction->symbols,
        .nvalues = prediction->layout->nvalues,
        .raw = prediction->work};
}

static enum terp_status
write_escapes(struct encode *e)
{
    if (e->predictor != NULL) {
        struct cpu_escapes escapes = escapes_of(&e->prediction, e->predictor);
        terp_cpu_escapes_write(&escapes, &e->writer);
    }
    return TERP_OK;
}

/* Symbols to tile order, or context order. The values have served: symbols in
 * another order take their place. */
static enum terp_status
write_tiles(struct encode *e)
{
    uint16_t *symbols = e->prediction.symbols, *tiled = e->prediction.work;
    enum terp_status st = TERP_OK;

    if (e->predictor == NULL)
        return TERP_OK;
    uint8_t *scratch = (uint8_t *)(tiled + e->layout.nvalues);
    if (terp_coding_has_contexts(e->frame.coding)) {
        if (e->predictor->order == CPU_ORDER_RASTER) {
            terp_cpu_deinterleave_symbols(e->pool, &e->layout, symbols, tiled);
            symbols = tiled;
            tiled = e->prediction.symbols;
        }
        st = terp_cpu_context_sort(e->pool, &e->layout,
                                   e->frame.has_specials ? e->prediction.mask
                                                         : NULL,
                                   symbols, scratch, tiled);
    } else {
        terp_cpu_order_into_tiles(e->pool, &e->layout, e->predictor->order,
                                  symbols, tiled);
    }
    return st == TERP_OK
               ? terp_cpu_tiles_encode(e->pool, e->frame.coding, tiled,
                                       e->layout.nvalues, &e->writer)
               : st;
}

static encode_step *const chunk_steps[] = {swap_source, scan, find_domain,
                                           NULL};

/* A step does nothing where it does not apply to a constant chunk. */
static encode_step *const stream_steps[] = {
    make_mask,      choose_predictor, quantize,    write_head,
    write_specials, write_escapes,    write_tiles, NULL};

static enum terp_status
run_steps(struct encode *e, encode_step *const *steps)
{
    enum terp_status st = TERP_OK;

    for (int i = 0; st == TERP_OK && steps[i] != NULL; i++)
        st = steps[i](e);
    return st;
}

/* Codes the chunk in a domain, in less than `cap_nbytes`. */
static enum terp_status
encode_in(struct encode *e, const struct terp_chunk *domain, uint8_t *dst,
          uint64_t cap_nbytes, uint64_t *dst_nbytes_ret)
{
    e->frame = (struct terp_frame){.chunk = *e->chunk,
                                   .domain = *domain,
                                   .coding =
                                       e->is_constant
                                           ? TERP_CODING_CONSTANT
                                           : terp_coding_of(e->params->pipeline),
                                   .has_specials = e->stats.nspecials > 0,
                                   .bound = e->bound};
    e->predictor = NULL;
    e->prediction = (struct cpu_prediction){.mask = NULL};
    e->writer = (struct writer){dst, dst + cap_nbytes - 1, false};
    terp_layout_make(domain, &e->layout);
    enum terp_status st = run_steps(e, stream_steps);
    if (st == TERP_OK && e->writer.overflow)
        st = TERP_ERR_CAPACITY;
    *dst_nbytes_ret = (uint64_t)(e->writer.at - dst);
    terp_cpu_prediction_free(&e->prediction);
    free(e->prediction.mask);
    return st;
}

/* In the domain that was found, and if that is not sure, in the chunk's own:
 * the smaller stream is kept. */
static enum terp_status
encode_domains(struct encode *e, uint8_t *dst, uint64_t cap_nbytes,
               uint64_t *dst_nbytes_ret)
{
    uint64_t own_nbytes = cap_nbytes, other_nbytes;

    if (e->verdict != TERP_DOMAIN_TRY)
        return encode_in(e, &e->domain, dst, cap_nbytes, dst_nbytes_ret);
    enum terp_status st = encode_in(e, e->chunk, dst, cap_nbytes, &own_nbytes);
    if (st == TERP_ERR_CAPACITY)
        own_nbytes = cap_nbytes;
    else if (st != TERP_OK)
        return st;
    uint8_t *other = terp_cpu_memory_make(e->pool, own_nbytes);
    if (other == NULL)
        return TERP_ERR_MEMORY;
    enum terp_status tried =
        encode_in(e, &e->domain, other, own_nbytes, &other_nbytes);
    if (tried == TERP_OK)
        memcpy(dst, other, other_nbytes);
    terp_cpu_memory_free(e->pool, other);
    *dst_nbytes_ret = tried == TERP_OK ? other_nbytes : own_nbytes;
    return tried == TERP_ERR_CAPACITY ? st : tried;
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
    e->nvalues = nvalues_of(chunk);
    e->values = src;
    e->pool = make_pool(chunk, call);
    enum terp_status st = run_steps(e, chunk_steps);
    if (st == TERP_OK)
        st = encode_domains(e, dst, raw_nbytes, dst_nbytes_ret);
    if (st == TERP_OK)
        terp_frame_seal(dst, *dst_nbytes_ret);
    terp_cpu_memory_free(e->pool, e->swapped);
    terp_cpu_pool_free(e->pool);
    free(e);
    fesetenv(&host);
    return st;
}

/* ---- decoding ---- */

struct decode {
    const struct terp_frame *frame;
    const struct cpu_stages *stages;
    struct terp_layout layout;
    struct reader reader;
    void *dst;
    const uint8_t *constant; /* of a constant chunk */
    struct reader specials;  /* its section, whose values are placed last */
    struct cpu_escape_section escapes;
    const struct cpu_predictor *predictor; /* NULL: the chunk is constant */
    struct cpu_prediction prediction;
};

typedef enum terp_status
decode_step(struct decode *d);

/* What an encoder's write_head has written behind the frame. */
static enum terp_status
read_head(struct decode *d)
{
    int value_nbytes = d->stages->value_nbytes;

    if (d->predictor == NULL) {
        d->constant = reader_take(&d->reader, (uint64_t)value_nbytes);
        return d->constant == NULL ? TERP_ERR_CORRUPT : TERP_OK;
    }
    int step_slack_log2 = (int)read_le(&d->reader, 1);
    if (d->reader.underflow || step_slack_log2 < TERP_MIN_STEP_SLACK_LOG2 ||
        step_slack_log2 > TERP_MAX_STEP_SLACK_LOG2)
        return TERP_ERR_CORRUPT;
    double step = terp_step_of(d->frame->bound, step_slack_log2);
    d->prediction.quantizer =
        (struct cpu_quantizer){.step = step,
                               .grid_step = step,
                               .bound = d->frame->bound,
                               .has_specials = d->frame->has_specials};
    return d->predictor->read_model(&d->prediction, &d->reader);
}

/* Where specials are; leaves the reader behind the section. */
static enum terp_status
read_specials(struct decode *d)
{
    d->specials = d->reader;
    return d->frame->has_specials
               ? terp_cpu_specials_read(
                     &d->reader, &d->layout, d->stages->value_nbytes,
                     &d->prediction.mask, &d->prediction.nspecials)
               : TERP_OK;
}

static enum terp_status
read_escapes(struct decode *d)
{
    return d->predictor == NULL
               ? TERP_OK
               : terp_cpu_escapes_read(&d->reader, d->layout.nvalues,
                                       d->stages->value_nbytes, &d->escapes);
}

/* Symbols in the predictor's order. In another order they stand where values
 * will. */
static enum terp_status
read_tiles(struct decode *d)
{
    struct cpu_prediction *prediction = &d->prediction;
    bool contexts = terp_coding_has_contexts(d->frame->coding);
    enum terp_status st = TERP_OK;

    if (d->predictor == NULL)
        return d->reader.at == d->reader.end ? TERP_OK : TERP_ERR_CORRUPT;
    st = terp_cpu_prediction_make(prediction);
    if (st != TERP_OK)
        return st;
    bool raster = d->predictor->order == CPU_ORDER_RASTER;
    uint16_t *work = prediction->work, *symbols = prediction->symbols;
    uint16_t *tiled = contexts && raster ? symbols : work;
    uint16_t *level_order = contexts && raster ? work : symbols;
    st = terp_cpu_tiles_decode(prediction->pool, d->frame->coding, &d->reader,
                               tiled, d->layout.nvalues);
    if (st != TERP_OK)
        return st;
    if (!contexts) {
        terp_cpu_order_from_tiles(prediction->pool, &d->layout,
                                  d->predictor->order, tiled, symbols);
        return TERP_OK;
    }
    st = terp_cpu_context_restore(
        prediction->pool, &d->layout, prediction->mask, tiled,
        (uint8_t *)(work + d->layout.nvalues), level_order);
    if (st == TERP_OK && raster)
        terp_cpu_interleave_symbols(prediction->pool, &d->layout, level_order,
                                    symbols);
    return st;
}

static enum terp_status
place_escapes(struct decode *d)
{
    if (d->predictor == NULL)
        return TERP_OK;
    struct cpu_escapes escapes = escapes_of(&d->prediction, d->predictor);
    return terp_cpu_escapes_place(&escapes, &d->escapes);
}

static enum terp_status
reconstruct(struct decode *d)
{
    size_t nbytes = (size_t)d->stages->value_nbytes;

    if (d->predictor != NULL)
        d->predictor->reconstruct(&d->prediction, d->dst);
    for (uint64_t i = 0; d->predictor == NULL && i < d->layout.nvalues; i++)
        memcpy((uint8_t *)d->dst + i * nbytes, d->constant, nbytes);
    return TERP_OK;
}

static enum terp_status
place_specials(struct decode *d)
{
    if (d->prediction.mask != NULL)
        terp_cpu_specials_place(&d->specials, &d->layout,
                                d->stages->value_nbytes, d->prediction.mask,
                                d->dst);
    return TERP_OK;
}

static enum terp_status
swap_destination(struct decode *d)
{
    if (d->frame->chunk.big_endian)
        swap_values(d->dst, d->layout.nvalues, d->stages->value_nbytes);
    return TERP_OK;
}

/* A step does nothing where it does not apply to a constant chunk. */
static decode_step *const decode_steps[] = {
    read_head,   read_specials,  read_escapes,     read_tiles, place_escapes,
    reconstruct, place_specials, swap_destination, NULL};

static struct decode *
make_decode(const struct terp_frame *frame, const uint8_t *body,
            uint64_t body_nbytes)
{
    struct decode *d = calloc(1, sizeof *d);

    if (d == NULL)
        return NULL;
    d->frame = frame;
    d->stages = stages_of(frame->chunk.type);
    d->reader = (struct reader){body, body + body_nbytes, false};
    d->predictor = terp_cpu_predictors[frame->prediction];
    d->prediction.stages = d->stages;
    d->prediction.layout = &d->layout;
    terp_layout_make(&frame->domain, &d->layout);
    return d;
}

enum terp_status
terp_cpu_decode(const struct terp_cpu_call *call,
                const struct terp_frame *frame, const uint8_t *body,
                uint64_t body_nbytes, void *dst)
{
    struct decode *d = make_decode(frame, body, body_nbytes);
    enum terp_status st = TERP_OK;
    fenv_t host;

    if (d == NULL)
        return TERP_ERR_MEMORY;
    fegetenv(&host);
    fesetenv(FE_DFL_ENV);
    d->dst = dst;
    d->prediction.pool = make_pool(&frame->chunk, call);
    for (int i = 0; st == TERP_OK && decode_steps[i] != NULL; i++)
        st = decode_steps[i](d);
    terp_cpu_prediction_free(&d->prediction);
    terp_cpu_pool_free(d->prediction.pool);
    free(d->prediction.mask);
    free(d);
    fesetenv(&host);
    return st;
}

enum terp_status
terp_cpu_inspect(const struct terp_frame *frame, const uint8_t *body,
                 uint64_t body_nbytes, struct terp_info *info)
{
    struct decode *d = make_decode(frame, body, body_nbytes);

    if (d == NULL)
        return TERP_ERR_MEMORY;
    info->nspecials = 0;
    enum terp_status st = read_head(d);
    if (st == TERP_OK && frame->has_specials)
        st = terp_cpu_specials_read(&d->reader, &d->layout,
                                    d->stages->value_nbytes, NULL,
                                    &info->nspecials);
    if (st == TERP_OK)
        st = read_escapes(d);
    if (st == TERP_OK && d->predictor != NULL) {
        info->nescapes = d->escapes.nescapes;
        st = terp_cpu_tiles_inspect(frame->coding, &d->reader,
                                    d->layout.nvalues, info);
    }
    free(d);
    return st;
}
