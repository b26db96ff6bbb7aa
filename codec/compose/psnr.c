/* Encodes chunks under the bounds that a search for a PSNR tries. In each round
 * all unfinished chunks are encoded, decoded and measured, each under its own
 * bound. */
#include "codec/compose/psnr.h"

#include <stdlib.h>

#include "codec/compose/decode.h"
#include "codec/compose/encode.h"
#include "codec/model/bound.h"
#include "codec/model/psnr.h"

/* The search for one chunk's bound. Streams go to the batch's dst until one has
 * the PSNR, then to `other`. */
struct quest {
    struct terp_psnr_search search;
    struct terp_measure measure;
    bool goes_on;
    uint8_t *other, *decoded;
};

struct quests {
    const struct terp_coder *coder;
    const struct terp_batch *batch;
    struct terp_params params; /* with an absolute bound that `bounds` overrides
                                */
    struct quest *quests;
    uint8_t *buffer, *decoded;
    /* The chunks of a round: their indices, sizes, bounds, values, places of
     * streams, decoded values, measures, frames and status. */
    uint64_t n, *at, *nbytes;
    double *bounds;
    const void **src;
    void **dst, **values;
    struct terp_measure *measures;
    struct terp_open_stream *streams;
    enum terp_status *status;
};

static bool
make_quests(struct quests *quests)
{
    const size_t n = (size_t)quests->batch->source.n;

    quests->quests = terp_items_allocate(
        n, sizeof *quests->quests + sizeof *quests->streams +
               sizeof *quests->measures + 2 * sizeof(uint64_t) +
               sizeof(double) + 3 * sizeof(void *) + sizeof *quests->status);
    if (quests->quests == NULL)
        return false;
    quests->streams = (struct terp_open_stream *)(quests->quests + n);
    quests->measures = (struct terp_measure *)(quests->streams + n);
    quests->at = (uint64_t *)(quests->measures + n);
    quests->nbytes = quests->at + n;
    quests->bounds = (double *)(quests->nbytes + n);
    quests->src = (const void **)(quests->bounds + n);
    quests->dst = (void **)(quests->src + n);
    quests->values = quests->dst + n;
    quests->status = (enum terp_status *)(quests->values + n);
    return true;
}

static void
list(struct quests *quests, uint64_t i, void *dst)
{
    quests->at[quests->n] = i;
    quests->src[quests->n] = quests->batch->source.src[i];
    quests->dst[quests->n++] = dst;
}

/* Leaves a listed chunk to the CPU. */
static void
leave(struct quests *quests, uint64_t i)
{
    quests->batch->nbytes[i] = TERP_LEFT_NBYTES;
    quests->quests[i].goes_on = false;
}

/* Encodes the listed chunks, and removes those that are left to the CPU from
 * the list. */
static enum terp_status
encode_listed(struct quests *quests, const struct terp_params *params,
              const double *bounds)
{
    struct terp_batch listed = {quests->batch->source, quests->dst,
                                quests->nbytes};
    uint64_t n = 0;

    listed.source.params = params;
    listed.source.bounds = bounds;
    listed.source.n = quests->n;
    listed.source.src = quests->src;
    const enum terp_status st =
        quests->n == 0 ? TERP_OK : terp_chunks_encode(quests->coder, &listed);
    for (uint64_t k = 0; st == TERP_OK && k < quests->n; k++) {
        if (terp_is_left(&listed, k)) {
            leave(quests, quests->at[k]);
            continue;
        }
        quests->at[n] = quests->at[k];
        quests->src[n] = quests->src[k];
        quests->dst[n] = quests->dst[k];
        quests->nbytes[n++] = quests->nbytes[k];
    }
    quests->n = n;
    return st;
}

/* Decodes the listed streams and measures their errors. */
static enum terp_status
measure_listed(struct quests *quests)
{
    const struct terp_coder *coder = quests->coder;
    const uint64_t n = quests->n;

    for (uint64_t k = 0; k < n; k++) {
        const struct quest *quest = &quests->quests[quests->at[k]];
        quests->values[k] = quest->decoded;
        quests->measures[k] = quest->measure;
    }
    enum terp_status st =
        terp_frames_read(coder, n, (const void *const *)quests->dst,
                         quests->nbytes, quests->streams);
    if (st == TERP_OK)
        st = terp_chunks_decode(coder, n, quests->streams, 1, quests->values,
                                quests->status);
    for (uint64_t k = 0; st == TERP_OK && k < n; k++)
        if (quests->status[k] != TERP_ERR_DEVICE)
            st = quests->status[k];
    return st == TERP_OK
               ? coder->engine->compare(coder->session, &quests->params,
                                        quests->batch->source.chunk, n,
                                        quests->src, quests->values,
                                        quests->measures)
               : st;
}

/* Tells a chunk's search the error of its stream. Returns whether the stream is
 * the smallest so far that has the PSNR. */
static bool
note_stream(struct quests *quests, uint64_t k)
{
    const uint64_t i = quests->at[k], nbytes = quests->nbytes[k];
    uint64_t *least_nbytes = &quests->batch->nbytes[i];
    struct quest *quest = &quests->quests[i];
    const bool found = quest->search.found;

    if (quests->status[k] == TERP_ERR_DEVICE) {
        leave(quests, i);
        return false;
    }
    if (!terp_psnr_note(&quest->search, quests->measures[k].square) ||
        (found && nbytes >= *least_nbytes))
        return false;
    *least_nbytes = nbytes;
    return true;
}

/* Keeps a round's streams that are the smallest so far with the PSNR. */
static enum terp_status
note_listed(struct quests *quests)
{
    const struct terp_coder *coder = quests->coder;
    uint64_t nkept = 0;

    for (uint64_t k = 0; k < quests->n; k++) {
        const uint64_t i = quests->at[k];
        const uint64_t nbytes = quests->nbytes[k];
        if (!note_stream(quests, k) || quests->dst[k] == quests->batch->dst[i])
            continue;
        quests->src[nkept] = quests->quests[i].other;
        quests->dst[nkept] = quests->batch->dst[i];
        quests->nbytes[nkept++] = nbytes;
    }
    return coder->engine->copy(coder->session, nkept, quests->dst, quests->src,
                               quests->nbytes);
}

/* Lists the chunks whose search has another bound to try. */
static void
list_round(struct quests *quests)
{
    quests->n = 0;
    for (uint64_t i = 0; i < quests->batch->source.n; i++) {
        struct quest *quest = &quests->quests[i];
        if (!quest->goes_on || quest->search.is_done) {
            quest->goes_on = false;
            continue;
        }
        const double bound = terp_psnr_bound(quest->measure.half_range,
                                             terp_psnr_factor(&quest->search));
        quest->goes_on = is_bound(bound);
        if (!quest->goes_on)
            continue;
        quests->bounds[quests->n] = bound;
        list(quests, i,
             quest->search.found ? quest->other : quests->batch->dst[i]);
    }
}

/* Allocates the second streams and the decoded values, and runs the search. */
static enum terp_status
search_bounds(struct quests *quests)
{
    const struct terp_coder *coder = quests->coder;
    const struct terp_source *source = &quests->batch->source;
    const uint64_t stride =
        terp_aligned_nbytes(terp_encode_bound(source->chunk));
    const uint64_t value_stride =
        terp_aligned_nbytes(terp_chunk_nbytes(source->chunk));
    enum terp_status st = TERP_OK;
    uint64_t n = 0;

    for (uint64_t i = 0; i < source->n; i++)
        n += quests->quests[i].goes_on;
    if (n == 0)
        return TERP_OK;
    quests->buffer = terp_coder_allocate(coder, n * stride);
    quests->decoded = terp_coder_allocate(coder, n * value_stride);
    if (quests->buffer == NULL || quests->decoded == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t i = 0, k = 0; i < source->n; i++) {
        if (!quests->quests[i].goes_on)
            continue;
        quests->quests[i].other = quests->buffer + k * stride;
        quests->quests[i].decoded = quests->decoded + k++ * value_stride;
    }
    quests->n = n;
    for (bool goes_on = true; st == TERP_OK && goes_on;) {
        list_round(quests);
        goes_on = quests->n > 0;
        st = encode_listed(quests, &quests->params, quests->bounds);
        if (st == TERP_OK && quests->n > 0)
            st = measure_listed(quests);
        if (st == TERP_OK && quests->n > 0)
            st = note_listed(quests);
    }
    return st;
}

/* Encodes the chunks for which the search found no bound: those that have a
 * range, or those that have none. */
static enum terp_status
encode_others(struct quests *quests, bool has_range)
{
    const struct terp_batch *batch = quests->batch;
    const struct terp_params params =
        terp_params_without_psnr(batch->source.params, has_range ? 1 : 0);

    quests->n = 0;
    for (uint64_t i = 0; i < batch->source.n; i++)
        if (!terp_is_left(batch, i) && !quests->quests[i].search.found &&
            (quests->quests[i].measure.half_range != 0) == has_range)
            list(quests, i, batch->dst[i]);
    const enum terp_status st = encode_listed(quests, &params, NULL);
    for (uint64_t k = 0; st == TERP_OK && k < quests->n; k++)
        batch->nbytes[quests->at[k]] = quests->nbytes[k];
    return st;
}

static enum terp_status
begin_quests(struct quests *quests)
{
    const struct terp_coder *coder = quests->coder;
    const struct terp_source *source = &quests->batch->source;
    const double psnr = source->params->bound;
    const enum terp_status st =
        coder->engine->measure(coder->session, source->params, source->chunk,
                               source->n, source->src, quests->measures);

    quests->params = terp_params_under(source->params, 1);
    for (uint64_t i = 0; st == TERP_OK && i < source->n; i++) {
        struct quest *quest = &quests->quests[i];
        quests->batch->nbytes[i] = 0;
        quest->measure = quests->measures[i];
        quest->goes_on = terp_range_has_psnr(quest->measure.half_range) &&
                         psnr <= TERP_MAX_PSNR;
        terp_psnr_begin(psnr, &quest->search);
    }
    return st;
}

static enum terp_status
encode_portion(const struct terp_coder *coder, const struct terp_batch *batch)
{
    struct quests quests = {.coder = coder, .batch = batch};
    enum terp_status st =
        make_quests(&quests) ? begin_quests(&quests) : TERP_ERR_MEMORY;

    if (st == TERP_OK)
        st = search_bounds(&quests);
    terp_coder_release(coder, quests.decoded);
    terp_coder_release(coder, quests.buffer);
    if (st == TERP_OK)
        st = encode_others(&quests, false);
    if (st == TERP_OK)
        st = encode_others(&quests, true);
    free(quests.quests);
    return st;
}

/* Copies chunks that are not in the device's memory there, and encodes the
 * copies: each round reads the values and the streams again. */
static enum terp_status
encode_in_memory(const struct terp_coder *coder, const struct terp_batch *batch)
{
    const struct terp_source *source = &batch->source;
    const size_t n = (size_t)source->n;
    const uint64_t value_nbytes = terp_chunk_nbytes(source->chunk);
    const uint64_t value_stride = terp_aligned_nbytes(value_nbytes);
    const uint64_t stride =
        terp_aligned_nbytes(terp_encode_bound(source->chunk));
    void **values =
        terp_items_allocate(n, 2 * sizeof *values + sizeof(uint64_t));
    uint8_t *memory = terp_coder_allocate(coder, n * (value_stride + stride));
    struct terp_batch inside = *batch;
    enum terp_status st = TERP_ERR_MEMORY;

    if (values != NULL && memory != NULL) {
        void **streams = values + n;
        uint64_t *nbytes = (uint64_t *)(streams + n);
        for (size_t k = 0; k < n; k++) {
            values[k] = memory + k * value_stride;
            streams[k] = memory + n * value_stride + k * stride;
            nbytes[k] = value_nbytes;
        }
        inside.source.src = (const void *const *)values;
        inside.dst = streams;
        st =
            coder->engine->copy(coder->session, n, values, source->src, nbytes);
        if (st == TERP_OK)
            st = encode_portion(coder, &inside);
        for (size_t k = 0; k < n; k++)
            nbytes[k] = terp_is_left(batch, k) ? 0 : batch->nbytes[k];
        if (st == TERP_OK)
            st = coder->engine->copy(coder->session, n, batch->dst,
                                     (const void *const *)streams, nbytes);
    }
    terp_coder_release(coder, memory);
    free(values);
    return st;
}

enum terp_status
terp_psnr_encode(const struct terp_coder *coder, const struct terp_batch *batch)
{
    const bool is_elsewhere =
        coder->engine->is_device &&
        !coder->engine->has(coder->session, batch->source.src[0]);
    uint64_t most = terp_portion_nchunks(batch->source.chunk);
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0, n; st == TERP_OK && i < batch->source.n;) {
        struct terp_batch portion = *batch;
        n = portion.source.n = min_u64(most, batch->source.n - i);
        portion.source.src += i;
        portion.dst += i;
        portion.nbytes += i;
        st = is_elsewhere ? encode_in_memory(coder, &portion)
                          : encode_portion(coder, &portion);
        if (st == TERP_ERR_MEMORY && n > 1) {
            most = n / 2;
            st = TERP_OK;
        } else {
            i += n;
        }
    }
    return st;
}
