/* Encodes the parts of a stream with references. A value that repeats an
 * earlier one becomes a marker, which predictors treat as a special value. The
 * distance to the earlier value, and the difference from it, are streams of
 * integers. */
#include "codec/compose/references.h"

#include "codec/compose/decode.h"
#include "codec/compose/pieces.h"
#include "codec/compose/trials.h"
#include "codec/format/references.h"

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

/* Allocates a stream of just the size of the part's, and copies it from
 * `buffer`. A list that does not become smaller is stored; if the values do not
 * become smaller, the chunk gets no stream with references. */
static enum terp_status
take_part(struct referring *referring, enum terp_references_part part,
          const void *values, const void *buffer, uint64_t nbytes)
{
    const struct terp_coder *coder = referring->coder;
    void *stream = NULL;
    enum terp_status st = TERP_OK;

    if (nbytes > 0) {
        stream = terp_coder_allocate(coder, nbytes);
        st = stream == NULL ? TERP_ERR_MEMORY
                            : terp_coder_copy(coder, stream, buffer, nbytes);
    }
    referring->is_coded &= nbytes > 0 || part != TERP_REFERENCES_VALUES;
    referring->stream[part] = stream;
    referring->part[part] =
        (struct terp_coded_part){nbytes > 0 ? stream : values, nbytes};
    return st;
}

static enum terp_status
encode_part(struct referring *referring, enum terp_references_part part)
{
    const struct terp_coder *coder = referring->coder;
    const struct terp_source *whole = &referring->batch->source;
    const struct terp_found_references *found = &referring->found;
    const struct terp_chunk chunk = chunk_of(referring, part);
    const struct terp_params params = terp_references_params(
        whole->params, !terp_type_is_integer(whole->chunk->type),
        referring->bound, found->marker, part);
    const void *const values[] = {found->distances, found->differences,
                                  found->values};
    void *buffer = terp_coder_allocate(coder, terp_encode_bound(&chunk));
    uint64_t nbytes = 0;
    const struct terp_batch batch = {
        {.chunk = &chunk,
         .params = &params,
         .limits = part == TERP_REFERENCES_VALUES ? whole->limits : NULL,
         .is_part = true,
         .n = 1,
         .src = &values[part]},
        &buffer,
        &nbytes};
    struct terp_facts facts;

    enum terp_status st = buffer == NULL
                              ? TERP_ERR_MEMORY
                              : terp_trials_encode(coder, &batch, &facts);
    referring->is_left = nbytes == TERP_LEFT_NBYTES;
    if (referring->is_left)
        referring->is_coded = false;
    else if (st == TERP_OK)
        st = take_part(referring, part, values[part], buffer, nbytes);
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
