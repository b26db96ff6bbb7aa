/* Encodes the real and the imaginary parts of complex values, and assembles
 * their streams. */
#include "codec/compose/complex.h"

#include <stdlib.h>

#include "codec/compose/pieces.h"
#include "codec/compose/speed.h"
#include "codec/compose/values.h"
#include "codec/format/parts.h"
#include "codec/model/bound.h"
#include "codec/model/carrier.h"

/* Chunks [first, first + n) of a batch and their parts. Part k of chunk i of
 * the portion has index TERP_NPARTS * i + k. */
struct portion {
    const struct terp_coder *coder;
    const struct terp_batch *batch;
    uint64_t first, n;
    struct terp_chunk part;
    uint64_t part_nbytes, stride_nbytes; /* of one part's values; from one
                                          * part's stream to the next */
    uint8_t *values, *streams;
    /* One per part, but `bounds`: one per chunk. */
    double *bounds, *part_bounds;
    uint64_t *nbytes;
    struct terp_measure *measures;
    const void **src;
    void **dst;
    /* One per chunk: its parts' values, one part after the other; its stream.
     */
    void **joined;
    struct terp_pieces *pieces;
};

static bool
make_portion(struct portion *portion)
{
    const size_t nparts = (size_t)(TERP_NPARTS * portion->n);
    uint8_t *memory = terp_items_allocate(
        nparts, 2 * sizeof(double) + sizeof(uint64_t) +
                    sizeof *portion->measures + sizeof(const void *) +
                    2 * sizeof(void *) + sizeof *portion->pieces);

    portion->part = terp_chunk_of_part(portion->batch->source.chunk);
    portion->part_nbytes = terp_chunk_nbytes(&portion->part);
    portion->stride_nbytes =
        terp_aligned_nbytes(terp_encode_bound(&portion->part));
    portion->bounds = (double *)memory;
    portion->values =
        terp_coder_allocate(portion->coder, nparts * portion->part_nbytes);
    portion->streams =
        terp_coder_allocate(portion->coder, nparts * portion->stride_nbytes);
    if (memory == NULL || portion->values == NULL || portion->streams == NULL)
        return false;
    portion->part_bounds = portion->bounds + nparts;
    portion->nbytes = (uint64_t *)(portion->part_bounds + nparts);
    portion->measures = (struct terp_measure *)(portion->nbytes + nparts);
    portion->src = (const void **)(portion->measures + nparts);
    portion->dst = (void **)(portion->src + nparts);
    portion->joined = portion->dst + nparts;
    portion->pieces = (struct terp_pieces *)(portion->joined + nparts);
    for (uint64_t i = 0; i < portion->n; i++)
        portion->joined[i] =
            portion->values + TERP_NPARTS * i * portion->part_nbytes;
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

/* The absolute bound of a chunk's complex values under a relative bound, from
 * the ranges of its parts. */
static double
bound_of_ranges(const struct portion *portion, uint64_t i)
{
    const struct terp_measure *measures = &portion->measures[TERP_NPARTS * i];
    double min[TERP_NPARTS], max[TERP_NPARTS];

    for (uint64_t k = 0; k < TERP_NPARTS; k++) {
        min[k] = measures[k].min;
        max[k] = measures[k].max;
    }
    return terp_bound_of_parts(portion->batch->source.params->bound, min, max);
}

/* Finds the bound of each chunk's complex values and the bound of their parts.
 * If no part has a range, a relative bound yields 0 for both. */
static enum terp_status
find_bounds(const struct portion *portion)
{
    const struct terp_params *params = portion->batch->source.params;
    const bool is_relative = params->bound_mode == TERP_BOUND_RELATIVE;
    const struct terp_coder *coder = portion->coder;
    enum terp_status st = TERP_OK;

    if (is_relative)
        st = coder->engine->measure(coder->session, params, &portion->part,
                                    TERP_NPARTS * portion->n, portion->src,
                                    portion->measures);
    for (uint64_t i = 0; st == TERP_OK && i < portion->n; i++) {
        double bound =
            is_relative ? bound_of_ranges(portion, i) : params->bound;
        double of_part = 0;
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

/* The parts as a batch. */
static struct terp_batch
batch_of_parts(const struct portion *portion)
{
    const struct terp_batch parts = {{.chunk = &portion->part,
                                      .params = portion->batch->source.params,
                                      .bounds = portion->part_bounds,
                                      .is_part = true,
                                      .n = TERP_NPARTS * portion->n,
                                      .src = portion->src},
                                     portion->dst,
                                     portion->nbytes};

    return parts;
}

static enum terp_status
encode_parts(const struct portion *portion)
{
    const struct terp_batch parts = batch_of_parts(portion);

    return terp_values_encode(portion->coder, &parts);
}

/* Lists the pieces of a chunk's stream, unless it is no smaller than the stored
 * chunk. */
static void
list_pieces(struct portion *portion, uint64_t i)
{
    const struct terp_batch *batch = portion->batch;
    const uint64_t at = portion->first + i;
    const struct terp_batch parts = batch_of_parts(portion);
    struct terp_frame frame = {.chunk = *batch->source.chunk,
                               .coding = TERP_CODING_PARTS};
    struct terp_pieces *pieces = &portion->pieces[i];
    const uint64_t *part_nbytes = &portion->nbytes[TERP_NPARTS * i];

    batch->nbytes[at] = TERP_LEFT_NBYTES;
    if (part_nbytes[0] == TERP_LEFT_NBYTES ||
        part_nbytes[1] == TERP_LEFT_NBYTES)
        return;
    if (terp_batch_has_speed(&parts) && part_nbytes[0] + part_nbytes[1] > 0)
        frame.version = TERP_FORMAT_VERSION;
    terp_pieces_begin(pieces);
    terp_pieces_add_frame(pieces, &frame);
    terp_parts_write_bound(&pieces->writer, portion->bounds[i]);
    for (uint64_t k = 0; k < TERP_NPARTS; k++) {
        const uint64_t number = TERP_NPARTS * i + k;
        const uint64_t nbytes = portion->nbytes[number];
        const struct terp_coded_part part = {
            nbytes == 0 ? portion->src[number] : portion->dst[number], nbytes};
        terp_pieces_raise_version(portion->coder, pieces, part);
        terp_pieces_add_part(pieces, &portion->part, part,
                             k == TERP_NPARTS - 1);
    }
    batch->nbytes[at] = 0;
    if (terp_pieces_end(pieces) >= (uint64_t)terp_frame_nbytes(&frame) +
                                       TERP_NPARTS * portion->part_nbytes)
        return;
    batch->nbytes[at] = pieces->nbytes;
    pieces->dst = batch->dst[at];
}

static enum terp_status
write_streams(struct portion *portion)
{
    for (uint64_t i = 0; i < portion->n; i++)
        list_pieces(portion, i);
    return terp_pieces_write(portion->coder, portion->n, portion->pieces);
}

static enum terp_status
encode_portion(struct portion *portion)
{
    const struct terp_coder *coder = portion->coder;
    const struct terp_source *source = &portion->batch->source;
    enum terp_status st = make_portion(portion) ? TERP_OK : TERP_ERR_MEMORY;

    if (st == TERP_OK)
        st =
            coder->engine->split(coder->session, source->chunk, portion->n,
                                 source->src + portion->first, portion->joined);
    if (st == TERP_OK)
        st = find_bounds(portion);
    if (st == TERP_OK)
        st = encode_parts(portion);
    if (st == TERP_OK)
        st = write_streams(portion);
    free_portion(portion);
    return st;
}

enum terp_status
terp_complex_encode(const struct terp_coder *coder,
                    const struct terp_batch *batch)
{
    uint64_t most = terp_portion_nchunks(batch->source.chunk);
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0; st == TERP_OK && i < batch->source.n;) {
        struct portion portion = {.coder = coder,
                                  .batch = batch,
                                  .first = i,
                                  .n = min_u64(most, batch->source.n - i)};
        st = encode_portion(&portion);
        if (st == TERP_ERR_MEMORY && portion.n > 1) {
            most = portion.n / 2;
            st = TERP_OK;
        } else {
            i += portion.n;
        }
    }
    return st;
}
