/* Encodes or decodes one chunk. Encoding may use a stream that the connector
 * has made ahead, or the stream from which the chunk was decoded before the
 * program changed it. */
#include "filter/plugin/coding.h"

#include "codec/api/memory.h"
#include "codec/api/rewrite.h"
#include "filter/plugin/history.h"
#include "filter/plugin/prepared.h"

/* ---- chunks that were decoded before ---- */

/* The chunk for the history, which compares some of its values: of compound
 * values, words of eight bytes. */
static struct terp_chunk
chunk_to_compare(const struct terp_cd *cd)
{
    struct terp_chunk chunk = cd->chunk;

    if (cd->pass == TERP_PASS_BY_MEMBER && chunk.dims[0] >= 8) {
        chunk.type = TERP_UINT64;
        chunk.dims[0] /= 8;
    }
    return chunk;
}

void
terp_coding_remember(const struct terp_words *words, const struct terp_cd *cd,
                     const struct terp_coded *coded, const void *values)
{
    const struct terp_chunk chunk = chunk_to_compare(cd);

    /* Chunks of other sizes are stored as bytes, without loss. */
    if (terp_cd_may_lose(cd) &&
        coded->chunk_nbytes == terp_chunk_nbytes(&cd->chunk))
        terp_history_add(words->n, words->at, &chunk, coded->src, coded->nbytes,
                         values);
}

/* ---- encoding ---- */

/* What encodes a chunk. */
struct encoding {
    const struct terp_words *words;
    const struct terp_cd *cd;
    const void *values;
    struct terp_run *run;
    void *dst;
    uint64_t nbytes;
    bool is_rewrite;
};

/* Encodes a chunk as if it was never decoded. */
static enum terp_status
encode_new(struct encoding *encoding)
{
    const struct terp_cd *cd = encoding->cd;

    if (cd->pass == TERP_PASS_BY_MEMBER)
        return terp_container_encode(encoding->run, cd, encoding->values, NULL,
                                     encoding->dst, &encoding->nbytes,
                                     &encoding->is_rewrite);
    if (terp_prepared_take(encoding->words->n, encoding->words->at,
                           encoding->values, encoding->dst, &encoding->nbytes))
        return TERP_OK;
    const struct terp_params params = terp_cd_new_params(cd);
    return terp_run_encode(encoding->run, &params, &cd->chunk, 1,
                           &encoding->values, &encoding->dst,
                           &encoding->nbytes);
}

/* The same of numbers whose chunk is a container. Its members keep bounds that
 * the cd_values do not have: a chunk that does not fit is stored as it is. */
static enum terp_status
encode_changed_parts(struct encoding *encoding,
                     const struct terp_container *before)
{
    const struct terp_cd *cd = encoding->cd;
    uint64_t nbytes;
    void *buffer;

    enum terp_status st = terp_memory_make(
        encoding->run, terp_container_change_bound(before), &buffer);
    if (st != TERP_OK)
        return st;
    st = terp_container_change(encoding->run, &cd->params, &cd->chunk, before,
                               encoding->values, buffer, &nbytes,
                               &encoding->is_rewrite);
    if (st == TERP_OK && nbytes <= terp_encode_bound(&cd->chunk)) {
        memcpy(encoding->dst, buffer, nbytes);
        encoding->nbytes = nbytes;
    } else if (st == TERP_OK) {
        terp_coding_store_raw(&cd->chunk, encoding->values, encoding->dst,
                              &encoding->nbytes);
    }
    terp_memory_free(encoding->run, buffer);
    return st == TERP_ERR_CORRUPT ? encode_new(encoding) : st;
}

/* Encodes a chunk that was decoded from `before`. */
static enum terp_status
encode_changed(struct encoding *encoding, const void *before,
               uint64_t before_nbytes)
{
    const struct terp_cd *cd = encoding->cd;
    const bool by_member = cd->pass == TERP_PASS_BY_MEMBER;
    struct terp_container container;

    const struct terp_params params = terp_cd_new_params(cd);

    if (!by_member && !terp_container_is(before, before_nbytes))
        return terp_rewrite_encode(encoding->run, &params, &cd->chunk, before,
                                   before_nbytes, encoding->values,
                                   encoding->dst, &encoding->nbytes,
                                   &encoding->is_rewrite);
    if (terp_container_read(before, before_nbytes, &container) != TERP_OK)
        return encode_new(encoding);
    if (!by_member)
        return encode_changed_parts(encoding, &container);
    return terp_container_encode(encoding->run, cd, encoding->values,
                                 &container, encoding->dst, &encoding->nbytes,
                                 &encoding->is_rewrite);
}

static enum terp_status
encode(struct encoding *encoding)
{
    const struct terp_words *words = encoding->words;
    const struct terp_chunk chunk = chunk_to_compare(encoding->cd);
    struct terp_remembered *before =
        terp_cd_may_lose(encoding->cd)
            ? terp_history_find(words->n, words->at, &chunk, encoding->values)
            : NULL;
    uint64_t before_nbytes;

    if (before == NULL)
        return encode_new(encoding);
    const void *stream = terp_history_stream(before, &before_nbytes);
    const enum terp_status st = encode_changed(encoding, stream, before_nbytes);
    terp_history_end(before, encoding->values);
    return st;
}

enum terp_status
terp_coding_encode(const struct terp_call *call, const struct terp_words *words,
                   const struct terp_cd *cd, const void *values,
                   void **coded_ret, uint64_t *nbytes_ret, bool *is_rewrite_ret,
                   struct terp_run_result *result)
{
    const uint64_t cap_nbytes = cd->pass == TERP_PASS_BY_MEMBER
                                    ? terp_container_bound(&cd->compound)
                                    : terp_encode_bound(&cd->chunk);
    struct terp_run run;
    struct encoding encoding = {
        .words = words, .cd = cd, .values = values, .run = &run};

    *coded_ret = NULL;
    *is_rewrite_ret = false;
    if (cap_nbytes == 0)
        return TERP_ERR_ARGUMENT;
    if (cap_nbytes > SIZE_MAX)
        return TERP_ERR_MEMORY;
    enum terp_status st = terp_run_begin(&call->options, result, &run);
    if (st == TERP_OK)
        st = terp_budget_hold(run.budget,
                              terp_prepared_held_nbytes() + cap_nbytes);
    if (st != TERP_OK)
        return st;
    encoding.dst = terp_host_allocate(&call->host, cap_nbytes);
    if (encoding.dst == NULL)
        return TERP_ERR_MEMORY;
    st = encode(&encoding);
    /* Members have overhead of their own. */
    if (st == TERP_OK && cd->pass == TERP_PASS_BY_MEMBER &&
        encoding.nbytes >= terp_chunk_nbytes(&cd->chunk))
        terp_coding_store_raw(&cd->chunk, values, encoding.dst,
                              &encoding.nbytes);
    st = terp_run_end(&run, st, result);
    if (st != TERP_OK) {
        terp_host_release(&call->host, encoding.dst);
        return st;
    }
    *coded_ret = encoding.dst;
    *nbytes_ret = encoding.nbytes;
    *is_rewrite_ret = encoding.is_rewrite;
    return TERP_OK;
}

void
terp_coding_store_raw(const struct terp_chunk *chunk, const void *values,
                      void *coded, uint64_t *nbytes_ret)
{
    const struct terp_frame frame = {.chunk = *chunk,
                                     .coding = TERP_CODING_RAW,
                                     .prediction = TERP_PREDICTION_NONE};
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const int frame_nbytes = terp_frame_write(&frame, coded);

    memcpy((uint8_t *)coded + frame_nbytes, values, nbytes);
    *nbytes_ret = (uint64_t)frame_nbytes + nbytes;
    terp_frame_seal(coded, *nbytes_ret);
}

/* ---- decoding ---- */

enum terp_status
terp_coding_read(const void *src, uint64_t nbytes, struct terp_coded *coded_ret)
{
    struct terp_coded *coded = coded_ret;
    enum terp_status st;

    *coded =
        (struct terp_coded){.src = src,
                            .nbytes = nbytes,
                            .is_container = terp_container_is(src, nbytes)};
    if (coded->is_container) {
        st = terp_container_read(src, nbytes, &coded->container);
        coded->chunk = (struct terp_chunk){
            .type = TERP_BYTES,
            .rank = 1,
            .dims = {terp_container_chunk_nbytes(&coded->container)}};
    } else {
        st = terp_frame_read(src, nbytes, &coded->frame.frame,
                             &coded->frame.nbytes);
        coded->chunk = coded->frame.frame.chunk;
    }
    if (st == TERP_OK)
        coded->chunk_nbytes = terp_chunk_nbytes(&coded->chunk);
    return st;
}

static enum terp_status
decode(struct terp_run *run, const struct terp_coded *coded,
       const struct terp_cd *cd, void *values)
{
    enum terp_status status; /* of the only chunk, as the result is */

    if (coded->is_container)
        return terp_container_decode(
            run, &coded->container,
            cd != NULL && cd->pass == TERP_PASS_BY_MEMBER ? &cd->compound
                                                          : NULL,
            values);
    return terp_run_decode(run, &coded->chunk, &coded->frame, 1, 1, &coded->src,
                           &coded->nbytes, &values, &status);
}

enum terp_status
terp_coding_decode(const struct terp_call *call, const struct terp_coded *coded,
                   const struct terp_cd *cd, uint64_t buffer_nbytes,
                   void **values_ret, struct terp_run_result *result)
{
    struct terp_run run;
    uint8_t *values = NULL;

    *values_ret = NULL;
    enum terp_status st = terp_run_begin(&call->options, result, &run);
    if (st == TERP_OK)
        st = terp_budget_hold(run.budget,
                              terp_prepared_held_nbytes() + buffer_nbytes);
    if (st == TERP_OK && buffer_nbytes <= SIZE_MAX)
        values = terp_host_allocate(&call->host, buffer_nbytes);
    if (st == TERP_OK && values == NULL)
        st = TERP_ERR_MEMORY;
    if (st == TERP_OK) {
        memset(values + coded->chunk_nbytes, 0,
               buffer_nbytes - coded->chunk_nbytes);
        st = decode(&run, coded, cd, values);
        st = terp_run_end(&run, st, result);
    }
    if (st != TERP_OK && values != NULL)
        terp_host_release(&call->host, values);
    else
        *values_ret = values;
    return st;
}
