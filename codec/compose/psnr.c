/* Encodes chunks under the bounds that a search for a PSNR tries, in rounds:
 * all chunks that are not done are encoded, decoded and measured, each under a
 * bound of its own. */
#include "codec/compose/psnr.h"

#include <stdlib.h>

#include "codec/compose/decode.h"
#include "codec/compose/encode.h"
#include "codec/model/bound.h"
#include "codec/model/psnr.h"

/* A chunk whose bound is searched for. Its streams are made in dst, until one
 * suffices, then in `other`. */
struct quest {
    struct terp_psnr_search search;
    double half_range;
    bool goes_on;
    uint8_t *other;
};

struct quests {
    const struct terp_coder *coder;
    const struct terp_batch *batch;
    struct terp_params params; /* whose bound stands for that of each chunk */
    struct quest *quests;
    uint8_t *room, *decoded;
    /* Chunks that are encoded together: which, under which bounds. */
    uint64_t n, *at, *nbytes;
    double *bounds;
    const void **src;
    void **dst;
};

static bool
make_quests(struct quests *quests)
{
    const size_t n = (size_t)quests->batch->source.n;

    quests->quests =
        calloc(n, sizeof *quests->quests + 2 * sizeof(uint64_t) +
                      sizeof(double) + sizeof(const void *) + sizeof(void *));
    if (quests->quests == NULL)
        return false;
    quests->at = (uint64_t *)(quests->quests + n);
    quests->nbytes = quests->at + n;
    quests->bounds = (double *)(quests->nbytes + n);
    quests->src = (const void **)(quests->bounds + n);
    quests->dst = (void **)(quests->src + n);
    return true;
}

static void
list(struct quests *quests, uint64_t i, void *dst)
{
    quests->at[quests->n] = i;
    quests->src[quests->n] = quests->batch->source.src[i];
    quests->dst[quests->n++] = dst;
}

/* Encodes the chunks of the list. */
static enum terp_status
encode_listed(struct quests *quests, const struct terp_params *params,
              const double *bounds)
{
    struct terp_batch listed = {quests->batch->source, quests->dst,
                                quests->nbytes};

    listed.source.params = params;
    listed.source.bounds = bounds;
    listed.source.n = quests->n;
    listed.source.src = quests->src;
    return quests->n == 0 ? TERP_OK
                          : terp_chunks_encode(quests->coder, &listed);
}

/* The square of the error of a stream. */
static enum terp_status
measure_stream(const struct quests *quests, uint64_t k, double *square_ret)
{
    const struct terp_coder *coder = quests->coder;
    const struct terp_chunk *chunk = quests->batch->source.chunk;
    struct terp_open_stream stream;
    struct terp_measure measure = {0};
    enum terp_status st = coder->engine->read_frame(
        coder->session, quests->dst[k], quests->nbytes[k], &stream);

    if (st == TERP_OK)
        st = terp_chunk_decode(coder, &stream, 1, quests->decoded);
    if (st == TERP_OK)
        st = coder->engine->measure(coder->session, &quests->params, chunk,
                                    quests->src[k], quests->decoded, &measure);
    *square_ret = measure.square;
    return st;
}

/* Tells the search of a chunk what its stream has given, and keeps it if it is
 * the smallest one that suffices. */
static enum terp_status
note_stream(struct quests *quests, uint64_t k)
{
    const struct terp_coder *coder = quests->coder;
    const uint64_t i = quests->at[k], nbytes = quests->nbytes[k];
    uint64_t *least_nbytes = &quests->batch->nbytes[i];
    struct quest *quest = &quests->quests[i];
    const bool found = quest->search.found;
    double square;
    enum terp_status st = measure_stream(quests, k, &square);

    if (st != TERP_OK || !terp_psnr_note(&quest->search, square) ||
        (found && nbytes >= *least_nbytes))
        return st;
    *least_nbytes = nbytes;
    return found ? coder->engine->copy(coder->session, quests->batch->dst[i],
                                       quest->other, nbytes)
                 : TERP_OK;
}

/* Lists the chunks that have another bound to be tried. */
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
        const double bound = terp_psnr_bound(quest->half_range,
                                             terp_psnr_factor(&quest->search));
        quest->goes_on = is_bound(bound);
        if (!quest->goes_on)
            continue;
        quests->bounds[quests->n] = bound;
        list(quests, i,
             quest->search.found ? quest->other : quests->batch->dst[i]);
    }
}

/* Has room for the streams and values of chunks that are searched for. */
static enum terp_status
search_bounds(struct quests *quests)
{
    const struct terp_coder *coder = quests->coder;
    const struct terp_source *source = &quests->batch->source;
    const uint64_t stride = (terp_encode_bound(source->chunk) + 15) / 16 * 16;
    enum terp_status st = TERP_OK;
    uint64_t n = 0;

    for (uint64_t i = 0; i < source->n; i++)
        n += quests->quests[i].goes_on;
    if (n == 0)
        return TERP_OK;
    quests->room = terp_coder_allocate(coder, n * stride);
    quests->decoded =
        terp_coder_allocate(coder, terp_chunk_nbytes(source->chunk));
    if (quests->room == NULL || quests->decoded == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t i = 0, k = 0; i < source->n; i++)
        if (quests->quests[i].goes_on)
            quests->quests[i].other = quests->room + k++ * stride;
    quests->n = n;
    while (st == TERP_OK && quests->n > 0) {
        list_round(quests);
        st = encode_listed(quests, &quests->params, quests->bounds);
        for (uint64_t k = 0; st == TERP_OK && k < quests->n; k++)
            st = note_stream(quests, k);
    }
    return st;
}

/* Encodes the chunks for which no bound suffices, of those that have a range,
 * or have none. */
static enum terp_status
encode_others(struct quests *quests, bool has_range)
{
    const struct terp_batch *batch = quests->batch;
    const struct terp_params params =
        terp_params_without_psnr(batch->source.params, has_range ? 1 : 0);

    quests->n = 0;
    for (uint64_t i = 0; i < batch->source.n; i++)
        if (!quests->quests[i].search.found &&
            (quests->quests[i].half_range != 0) == has_range)
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
    enum terp_status st = TERP_OK;

    quests->params = terp_params_under(source->params, 1);
    for (uint64_t i = 0; st == TERP_OK && i < source->n; i++) {
        struct quest *quest = &quests->quests[i];
        struct terp_measure measure = {0};
        st = coder->engine->measure(coder->session, source->params,
                                    source->chunk, source->src[i], NULL,
                                    &measure);
        quest->half_range = measure.half_range;
        quest->goes_on =
            terp_range_has_psnr(measure.half_range) && psnr <= TERP_MAX_PSNR;
        terp_psnr_begin(psnr, &quest->search);
    }
    return st;
}

enum terp_status
terp_psnr_encode(const struct terp_coder *coder, const struct terp_batch *batch)
{
    struct quests quests = {.coder = coder, .batch = batch};
    enum terp_status st =
        make_quests(&quests) ? begin_quests(&quests) : TERP_ERR_MEMORY;

    if (st == TERP_OK)
        st = search_bounds(&quests);
    terp_coder_release(coder, quests.decoded);
    terp_coder_release(coder, quests.room);
    if (st == TERP_OK)
        st = encode_others(&quests, false);
    if (st == TERP_OK)
        st = encode_others(&quests, true);
    free(quests.quests);
    return st;
}
