/* Codes the parts of complex values, and puts them together. */
#include "codec/compose/complex.h"

#include <stdlib.h>

#include "codec/compose/pieces.h"
#include "codec/compose/values.h"
#include "codec/format/parts.h"
#include "codec/model/bound.h"
#include "codec/model/carrier.h"

/* ---- encoding ---- */

/* Chunks that are split at once hold so many bytes, unless it is one. */
#define PORTION_NBYTES (UINT64_C(256) << 20)

/* Chunks [first, first + n) of a batch, and their parts: part k of chunk i is
 * number TERP_NPARTS * i + k. */
struct portion {
    const struct terp_coder *coder;
    const struct terp_batch *batch;
    uint64_t first, n;
    struct terp_chunk part;
    uint64_t part_nbytes, stride_nbytes; /* of values, of streams */
    uint8_t *values, *streams;
    /* Of each part; `bounds`: of a chunk's values, then of parts. */
    double *bounds, *part_bounds;
    uint64_t *nbytes;
    const void **src;
    void **dst;
};

static bool
make_portion(struct portion *portion)
{
    const size_t nparts = (size_t)(TERP_NPARTS * portion->n);
    uint8_t *memory = calloc(nparts, 2 * sizeof(double) + sizeof(uint64_t) +
                                         sizeof(const void *) + sizeof(void *));

    portion->part = terp_chunk_of_part(portion->batch->source.chunk);
    portion->part_nbytes = terp_chunk_nbytes(&portion->part);
    portion->stride_nbytes = (terp_encode_bound(&portion->part) + 15) / 16 * 16;
    portion->bounds = (double *)memory;
    portion->values =
        terp_coder_allocate(portion->coder, nparts * portion->part_nbytes);
    portion->streams =
        terp_coder_allocate(portion->coder, nparts * portion->stride_nbytes);
    if (memory == NULL || portion->values == NULL || portion->streams == NULL)
        return false;
    portion->part_bounds = portion->bounds + nparts;
    portion->nbytes = (uint64_t *)(portion->part_bounds + nparts);
    portion->src = (const void **)(portion->nbytes + nparts);
    portion->dst = (void **)(portion->src + nparts);
    for (size_t k = 0; k < nparts; k++) {
        portion->src[k] = portion->values + k * portion->part_nbytes;
        portion->dst[k] = portion->streams + k * portion->stride_nbytes;
    }
    return true;
}

static void
free_portion(struct portion *portion)
{
    terp_coder_release(portion->coder, portion->streams);
    terp_coder_release(portion->coder, portion->values);
    free(portion->bounds);
}

static enum terp_status
split_chunks(const struct portion *portion)
{
    const struct terp_coder *coder = portion->coder;
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0; st == TERP_OK && i < portion->n; i++)
        st = coder->engine->split(
            coder->session, portion->batch->source.chunk,
            portion->batch->source.src[portion->first + i],
            portion->values + TERP_NPARTS * i * portion->part_nbytes);
    return st;
}

/* What a relative bound means for the ranges of a chunk's parts. */
static enum terp_status
find_bound_of_ranges(const struct portion *portion, uint64_t i,
                     double *bound_ret)
{
    const struct terp_coder *coder = portion->coder;
    const struct terp_params *params = portion->batch->source.params;
    double min[TERP_NPARTS], max[TERP_NPARTS];
    enum terp_status st = TERP_OK;

    for (uint64_t k = 0; st == TERP_OK && k < TERP_NPARTS; k++) {
        struct terp_measure measure;
        st = coder->engine->measure(coder->session, params, &portion->part,
                                    portion->src[TERP_NPARTS * i + k], NULL,
                                    &measure);
        min[k] = measure.min;
        max[k] = measure.max;
    }
    if (st == TERP_OK)
        *bound_ret = terp_bound_of_parts(params->bound, min, max);
    return st;
}

/* The bound of a chunk's values, and what it means for parts. Where no part has
 * a range a relative bound is none, and stays what it is. */
static enum terp_status
find_bounds(const struct portion *portion)
{
    const struct terp_params *params = portion->batch->source.params;
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0; st == TERP_OK && i < portion->n; i++) {
        double bound = params->bound, of_part = 0;
        if (params->bound_mode == TERP_BOUND_RELATIVE)
            st = find_bound_of_ranges(portion, i, &bound);
        if (params->bound_mode != TERP_BOUND_POINTWISE) {
            bound = is_bound(bound) ? bound : 0;
            of_part = bound > 0 ? terp_part_bound_of(bound) : 0;
        }
        portion->bounds[i] = bound;
        for (uint64_t k = 0; k < TERP_NPARTS; k++)
            portion->part_bounds[TERP_NPARTS * i + k] = of_part;
    }
    return st;
}

static enum terp_status
encode_parts(const struct portion *portion)
{
    const struct terp_batch parts = {{.chunk = &portion->part,
                                      .params = portion->batch->source.params,
                                      .bounds = portion->part_bounds,
                                      .is_part = true,
                                      .n = TERP_NPARTS * portion->n,
                                      .src = portion->src},
                                     portion->dst,
                                     portion->nbytes};

    return terp_values_encode(portion->coder, &parts);
}

/* Puts the stream of a chunk together, unless it is no smaller than a raw one.
 */
static enum terp_status
write_stream(const struct portion *portion, uint64_t i)
{
    const struct terp_batch *batch = portion->batch;
    const uint64_t at = portion->first + i;
    const struct terp_frame frame = {.chunk = *batch->source.chunk,
                                     .coding = TERP_CODING_PARTS};
    struct terp_pieces pieces;

    terp_pieces_begin(&pieces);
    terp_pieces_add_frame(&pieces, &frame);
    terp_parts_write_bound(&pieces.writer, portion->bounds[i]);
    for (uint64_t k = 0; k < TERP_NPARTS; k++) {
        const uint64_t number = TERP_NPARTS * i + k;
        const bool is_stored = portion->nbytes[number] == 0;
        const struct terp_coded_part part = {is_stored ? portion->src[number]
                                                       : portion->dst[number],
                                             portion->nbytes[number]};
        terp_pieces_add_part(&pieces, &portion->part, part,
                             k == TERP_NPARTS - 1);
    }
    batch->nbytes[at] = 0;
    if (terp_pieces_end(&pieces) >= (uint64_t)terp_frame_nbytes(&frame) +
                                        TERP_NPARTS * portion->part_nbytes)
        return TERP_OK;
    batch->nbytes[at] = pieces.nbytes;
    return terp_pieces_seal(portion->coder, &pieces, batch->dst[at]);
}

static enum terp_status
encode_portion(struct portion *portion)
{
    enum terp_status st =
        make_portion(portion) ? split_chunks(portion) : TERP_ERR_MEMORY;

    if (st == TERP_OK)
        st = find_bounds(portion);
    if (st == TERP_OK)
        st = encode_parts(portion);
    for (uint64_t i = 0; st == TERP_OK && i < portion->n; i++)
        st = write_stream(portion, i);
    free_portion(portion);
    return st;
}

enum terp_status
terp_complex_encode(const struct terp_coder *coder,
                    const struct terp_batch *batch)
{
    const uint64_t most =
        PORTION_NBYTES / terp_chunk_nbytes(batch->source.chunk) + 1;
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0; st == TERP_OK && i < batch->source.n; i += most) {
        struct portion portion = {.coder = coder,
                                  .batch = batch,
                                  .first = i,
                                  .n = min_u64(most, batch->source.n - i)};
        st = encode_portion(&portion);
    }
    return st;
}

/* ---- decoding ---- */

enum terp_status
terp_complex_decode(const struct terp_coder *coder,
                    const struct terp_open_stream *stream, uint64_t step,
                    void *dst, terp_stream_decoder *decode)
{
    const struct terp_chunk *chunk = &stream->frame.chunk;
    const struct terp_chunk coarse = terp_coarse_chunk_of(chunk, step);
    const uint64_t nbytes = terp_chunk_nbytes(&coarse);
    struct terp_part parts[TERP_NPARTS];
    double bound;
    enum terp_status st = terp_parts_read(chunk, stream->body,
                                          stream->body_nbytes, &bound, parts);

    if (st != TERP_OK)
        return st;
    uint8_t *values = terp_coder_allocate(coder, nbytes);
    if (values == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t k = 0; st == TERP_OK && k < TERP_NPARTS; k++) {
        const struct terp_open_stream part = {parts[k].frame, parts[k].body,
                                              parts[k].body_nbytes};
        st = decode(coder, &part, step, values + k * (nbytes / TERP_NPARTS));
    }
    if (st == TERP_OK)
        st = coder->engine->join(coder->session, &coarse, values, dst);
    terp_coder_release(coder, values);
    return st;
}
