/* Encodes the parts of a stream with references. A value that repeats an
 * earlier one becomes a marker, which predictors treat as a special value. The
 * distance to the earlier value, and the difference from it, are streams of
 * integers. */
#include "codec/compose/references.h"

#include "codec/compose/decode.h"
#include "codec/compose/pieces.h"
#include "codec/compose/trials.h"
#include "codec/format/references.h"
#include "codec/model/lag.h"

/* A chunk that is coded with references. */
struct referring {
    const struct terp_coder *coder;
    const struct terp_batch *batch;
    struct terp_reference_bound bound; /* 0: lossless */
    struct terp_found_references found;
    void *stream[TERP_REFERENCES_NPARTS];
    struct terp_coded_part part[TERP_REFERENCES_NPARTS];
    bool is_coded;
    bool is_left; /* a part is left to the CPU */
};

static struct terp_chunk
chunk_of(const struct referring *referring, enum terp_references_part part)
{
    return terp_references_chunk(referring->batch->source.chunk, part,
                                 referring->found.nreferences);
}

/* Keeps a part's stream in memory of its own size, if it is the smallest so
 * far. */
static enum terp_status
keep_stream(struct referring *referring, enum terp_references_part part,
            const void *buffer, uint64_t nbytes)
{
    const struct terp_coder *coder = referring->coder;
    struct terp_coded_part *coded = &referring->part[part];
    void **stream = &referring->stream[part];

    if (nbytes == 0 || (*stream != NULL && nbytes >= coded->stream_nbytes))
        return TERP_OK;
    terp_coder_release(coder, *stream);
    *stream = terp_coder_allocate(coder, nbytes);
    if (*stream == NULL)
        return TERP_ERR_MEMORY;
    *coded = (struct terp_coded_part){*stream, nbytes};
    return terp_coder_copy(coder, *stream, buffer, nbytes);
}

static enum terp_status
encode_by(struct referring *referring, enum terp_references_part part,
          const struct terp_params *params, void *buffer)
{
    const struct terp_source *whole = &referring->batch->source;
    const struct terp_chunk chunk = chunk_of(referring, part);
    const void *const values[] = {referring->found.distances,
                                  referring->found.differences,
                                  referring->found.values};
    uint64_t nbytes = 0;
    const struct terp_batch batch = {
        {.chunk = &chunk,
         .params = params,
         .limits = part == TERP_REFERENCES_VALUES ? whole->limits : NULL,
         .is_part = true,
         .has_markers = part == TERP_REFERENCES_VALUES,
         .n = 1,
         .src = &values[part]},
        &buffer,
        &nbytes};
    struct terp_facts facts;
    enum terp_status st = terp_trials_encode(referring->coder, &batch, &facts);

    if (st == TERP_OK && nbytes == TERP_LEFT_NBYTES)
        referring->is_left = true;
    else if (st == TERP_OK)
        st = keep_stream(referring, part, buffer, nbytes);
    return st;
}

/* The predictor that the stream of the values does not have; AUTO if there is
 * none, or if another predictor is not worth a trial. */
static enum terp_status
find_other_predictor(const struct referring *referring,
                     const struct terp_params *params,
                     enum terp_predictor *other_ret)
{
    const struct terp_coder *coder = referring->coder;
    const void *at = referring->stream[TERP_REFERENCES_VALUES];
    const uint64_t nbytes = TERP_FRAME_PREDICTION_AT + 1;
    uint8_t buffer[TERP_PEEK_NBYTES];
    const uint8_t *seen;

    *other_ret = TERP_PREDICTOR_AUTO;
    if (at == NULL ||
        !terp_references_try_both(
            params, referring->batch->source.chunk,
            referring->found.nreferences,
            referring->part[TERP_REFERENCES_VALUES].stream_nbytes))
        return TERP_OK;
    const enum terp_status st =
        coder->engine->peek(coder->session, 1, &at, &nbytes, buffer, &seen);
    if (st == TERP_OK)
        *other_ret = terp_other_predictor((enum terp_prediction)(
            seen[TERP_FRAME_PREDICTION_AT] & TERP_FRAME_PREDICTION));
    return st;
}

/* Encodes a part. A list that does not become smaller is stored; if the values
 * do not become smaller, the chunk gets no stream with references. */
static enum terp_status
encode_part(struct referring *referring, enum terp_references_part part)
{
    const struct terp_coder *coder = referring->coder;
    const struct terp_source *whole = &referring->batch->source;
    const struct terp_found_references *found = &referring->found;
    const struct terp_chunk chunk = chunk_of(referring, part);
    const void *const values[] = {found->distances, found->differences,
                                  found->values};
    struct terp_params params = terp_references_params(
        whole->params, !terp_type_is_integer(whole->chunk->type),
        referring->bound, found->marker, part);
    void *buffer = terp_coder_allocate(coder, terp_encode_bound(&chunk));
    enum terp_status st = buffer == NULL ? TERP_ERR_MEMORY : TERP_OK;
    enum terp_predictor other = TERP_PREDICTOR_AUTO;

    referring->part[part] = (struct terp_coded_part){values[part], 0};
    if (st == TERP_OK)
        st = encode_by(referring, part, &params, buffer);
    if (st == TERP_OK && part == TERP_REFERENCES_VALUES)
        st = find_other_predictor(referring, &params, &other);
    if (st == TERP_OK && other != TERP_PREDICTOR_AUTO) {
        params.predictor = other;
        st = encode_by(referring, part, &params, buffer);
    }
    if (referring->is_left || (part == TERP_REFERENCES_VALUES &&
                               referring->part[part].stream_nbytes == 0))
        referring->is_coded = false;
    terp_coder_release(coder, buffer);
    return st;
}

/* Finds the differences of values from the decoded values that they refer to.
 */
static enum terp_status
find_differences(struct referring *referring)
{
    const struct terp_coder *coder = referring->coder;
    const struct terp_chunk chunk = chunk_of(referring, TERP_REFERENCES_VALUES);
    const struct terp_coded_part *values =
        &referring->part[TERP_REFERENCES_VALUES];
    struct terp_open_stream stream;
    void *decoded = NULL;
    enum terp_status st = TERP_OK;

    if (referring->bound.bound != 0) {
        decoded = terp_coder_allocate(coder, terp_chunk_nbytes(&chunk));
        st = decoded == NULL ? TERP_ERR_MEMORY : TERP_OK;
        if (st == TERP_OK)
            st = terp_frames_read(coder, 1, &(const void *){values->at},
                                  &values->stream_nbytes, &stream);
        if (st == TERP_OK)
            st = terp_coder_decode(coder, &stream, 1, decoded);
        referring->is_left = st == TERP_ERR_DEVICE;
    }
    if (st == TERP_OK)
        st = coder->engine->differ(coder->session, &referring->found, decoded);
    terp_coder_release(coder, decoded);
    return st;
}

static enum terp_status
encode_parts(struct referring *referring)
{
    enum terp_status st = encode_part(referring, TERP_REFERENCES_VALUES);

    if (st == TERP_OK && referring->is_coded)
        st = find_differences(referring);
    for (int i = 0;
         st == TERP_OK && referring->is_coded && i < TERP_REFERENCES_VALUES;
         i++)
        st = encode_part(referring, (enum terp_references_part)i);
    return st;
}

/* Keeps the stream if it is shorter than the chunk's stream. */
static enum terp_status
write_stream(const struct referring *referring, uint64_t i)
{
    const struct terp_batch *batch = referring->batch;
    const struct terp_chunk *chunk = batch->source.chunk;
    const struct terp_frame frame = {.chunk = *chunk,
                                     .coding = TERP_CODING_REFERENCES};
    struct terp_pieces pieces;

    terp_pieces_begin(&pieces);
    terp_pieces_add_frame(&pieces, &frame);
    write_le(&pieces.writer, referring->found.marker,
             terp_value_nbytes(chunk->type));
    write_uleb(&pieces.writer, referring->found.nreferences);
    for (int k = 0; k < TERP_REFERENCES_NPARTS; k++) {
        const enum terp_references_part part = (enum terp_references_part)k;
        const struct terp_chunk of_part = chunk_of(referring, part);
        terp_pieces_add_part(&pieces, &of_part, referring->part[k],
                             part == TERP_REFERENCES_VALUES);
    }
    if (terp_pieces_end(&pieces) >= terp_least_nbytes(batch, i))
        return TERP_OK;
    batch->nbytes[i] = pieces.nbytes;
    pieces.dst = batch->dst[i];
    return terp_pieces_write(referring->coder, 1, &pieces);
}

enum terp_status
terp_references_encode(const struct terp_coder *coder,
                       const struct terp_batch *batch, uint64_t i,
                       struct terp_reference_bound bound,
                       uint64_t *saved_nbits_ret)
{
    struct referring referring = {
        .coder = coder, .batch = batch, .bound = bound, .is_coded = true};
    enum terp_status st = coder->engine->search(
        coder->session, batch->source.chunk, batch->source.params, bound,
        batch->source.src[i], terp_least_nbytes(batch, i), &referring.found);

    *saved_nbits_ret = referring.found.saved_nbits;
    if (st == TERP_OK && referring.found.nreferences > 0) {
        st = encode_parts(&referring);
        if (st == TERP_OK && referring.is_coded)
            st = write_stream(&referring, i);
        for (int k = 0; k < TERP_REFERENCES_NPARTS; k++)
            terp_coder_release(coder, referring.stream[k]);
    }
    coder->engine->forget(coder->session, &referring.found);
    if (referring.is_left)
        batch->nbytes[i] = TERP_LEFT_NBYTES;
    return terp_leave_if_short(coder, batch, i, st);
}

/* ---- values that are about as large as earlier ones ---- */

/* Finds the lag of chunk i, from a sample of consecutive values. */
static enum terp_status
find_lag(const struct terp_coder *coder, const struct terp_batch *batch,
         uint64_t i, uint64_t *lag_ret)
{
    enum {
        VALUE_NBYTES = 8,
        PEEK_NVALUES = TERP_PEEK_NBYTES / VALUE_NBYTES,
        NPEEKS = TERP_LAG_NVALUES / PEEK_NVALUES
    };
    const struct terp_chunk *chunk = batch->source.chunk;
    const uint8_t *first =
        (const uint8_t *)batch->source.src[i] +
        terp_lag_sample_at(terp_chunk_nvalues(chunk)) * VALUE_NBYTES;
    uint8_t buffer[NPEEKS * TERP_PEEK_NBYTES];
    const uint8_t *seen[NPEEKS];
    const void *at[NPEEKS];
    uint64_t nbytes[NPEEKS];
    uint32_t tops[TERP_LAG_NVALUES];

    for (int k = 0; k < NPEEKS; k++) {
        at[k] = first + k * TERP_PEEK_NBYTES;
        nbytes[k] = TERP_PEEK_NBYTES;
    }
    const enum terp_status st =
        coder->engine->peek(coder->session, NPEEKS, at, nbytes, buffer, seen);
    for (int j = 0; st == TERP_OK && j < TERP_LAG_NVALUES; j++) {
        const uint8_t *value =
            seen[j / PEEK_NVALUES] + j % PEEK_NVALUES * VALUE_NBYTES;
        uint64_t bits = 0;
        for (int b = 0; b < VALUE_NBYTES; b++)
            bits =
                bits << 8 | value[chunk->big_endian ? b : VALUE_NBYTES - 1 - b];
        tops[j] = (uint32_t)(bits << 1 >> (TERP_LAG_TOP_SHIFT + 1));
    }
    *lag_ret = st == TERP_OK ? terp_lag_find(tops) : 0;
    return st;
}

enum terp_status
terp_references_encode_at_lag(const struct terp_coder *coder,
                              const struct terp_batch *batch, uint64_t i,
                              uint64_t *saved_nbits)
{
    const uint64_t before = terp_least_nbytes(batch, i);
    uint64_t lag, found_nbits;

    if (terp_is_left(batch, i) ||
        !terp_lag_is_possible(batch->source.params, batch->source.chunk,
                              batch->nbytes[i]))
        return TERP_OK;
    enum terp_status st = find_lag(coder, batch, i, &lag);
    if (st != TERP_OK || lag == 0)
        return st;
    if (coder->engine->is_device) {
        batch->nbytes[i] = TERP_LEFT_NBYTES;
        return TERP_OK;
    }
    const struct terp_reference_bound bound = {.lag = lag};
    st = terp_references_encode(coder, batch, i, bound, &found_nbits);
    if (st == TERP_OK && terp_least_nbytes(batch, i) < before)
        *saved_nbits = found_nbits;
    return st;
}
