/* Encodes the groups of columns of tables. */
#include "codec/compose/columns.h"

#include <stdlib.h>

#include "codec/compose/pieces.h"
#include "codec/format/columns.h"
#include "codec/model/columns.h"

/* ---- a table ---- */

/* A table that is coded as groups of columns. */
struct table {
    const struct terp_coder *coder;
    const struct terp_chunk *chunk;
    struct terp_params params; /* of all groups */
    const struct terp_limits *limits;
    terp_columns_encoder *encode;
    bool has_no_references;
    unsigned mask;
    int ngroups;
    uint8_t *values; /* the columns, one after the other */
    uint8_t *body;   /* as far as it is written */
    uint64_t body_nbytes, cap_nbytes;
};

/* The bytes before a group's values or stream: its size, the two bytes that its
 * frame keeps. */
#define HEAD_NBYTES (9 + TERP_PART_NKEPT)

static void
add_group(struct table *table, const struct terp_chunk *group,
          const uint8_t *values, const uint8_t *stream, uint64_t nbytes,
          bool is_last)
{
    const uint64_t values_nbytes = terp_chunk_nbytes(group);
    struct writer writer = {table->body + table->body_nbytes,
                            table->body + table->cap_nbytes, false};

    if (nbytes > 0) {
        terp_parts_write(&writer, group, stream, nbytes, is_last);
    } else {
        if (!is_last)
            terp_part_write_nbytes(&writer, group, terp_stored_nbytes(group));
        write_le(&writer, TERP_CODING_RAW, TERP_PART_NKEPT);
        write_raw(&writer, values, values_nbytes);
    }
    table->body_nbytes = (uint64_t)(writer.at - table->body);
}

/* Encodes a group, and adds it to the body. */
static enum terp_status
encode_group(struct table *table, int number, const uint8_t *values)
{
    const struct terp_coder *coder = table->coder;
    const struct terp_chunk group =
        terp_columns_chunk(table->chunk, table->mask, number);
    void *stream = terp_coder_allocate(coder, terp_encode_bound(&group));
    const void *src = values;
    uint64_t nbytes = 0;
    const struct terp_batch batch = {
        {.chunk = &group,
         .params = &table->params,
         .limits = table->limits,
         .is_part = true,
         .is_of_columns = true,
         .has_no_references = table->has_no_references,
         .n = 1,
         .src = &src},
        &stream,
        &nbytes};
    enum terp_status st =
        stream == NULL ? TERP_ERR_MEMORY : table->encode(coder, &batch);

    if (st == TERP_OK)
        add_group(table, &group, values, stream, nbytes,
                  number == table->ngroups - 1);
    terp_coder_release(coder, stream);
    return st;
}

static enum terp_status
write_stream(const struct table *table, const struct terp_batch *batch,
             uint64_t i, uint64_t most)
{
    const struct terp_frame frame = {.chunk = *table->chunk,
                                     .coding = TERP_CODING_COLUMNS,
                                     .version = TERP_FORMAT_VERSION};
    struct terp_pieces pieces;

    terp_pieces_begin(&pieces);
    terp_pieces_add_frame(&pieces, &frame);
    write_le(&pieces.writer, table->mask, TERP_COLUMNS_MASK_NBYTES);
    terp_pieces_add(&pieces, table->body, table->body_nbytes);
    if (terp_pieces_end(&pieces) > most)
        return TERP_OK;
    batch->nbytes[i] = pieces.nbytes;
    pieces.dst = batch->dst[i];
    return terp_pieces_write(table->coder, 1, &pieces);
}

/* Encodes groups until their streams take more than `most` bytes, and returns
 * the bytes of each. */
static enum terp_status
encode_groups(struct table *table, uint64_t most,
              uint64_t nbytes_ret[TERP_COLUMNS_MAX_N])
{
    const uint8_t *values = table->values;
    enum terp_status st = TERP_OK;

    table->body_nbytes = 0;
    for (int g = 0; st == TERP_OK && g < table->ngroups; g++) {
        const struct terp_chunk group =
            terp_columns_chunk(table->chunk, table->mask, g);
        const uint64_t before = table->body_nbytes;
        if (before > most)
            break;
        st = encode_group(table, g, values);
        nbytes_ret[g] = table->body_nbytes - before;
        values += terp_chunk_nbytes(&group);
    }
    return st;
}

/* ---- trials that cannot pay ---- */

/* Estimates the bits that references of groups would save. */
static enum terp_status
estimate_references(const struct table *table, const uint64_t *group_nbytes,
                    uint64_t *nbits_ret)
{
    const struct terp_coder *coder = table->coder;
    const struct terp_reference_bound bound = {.bound = table->params.bound};
    const uint8_t *values = table->values;
    enum terp_status st = TERP_OK;

    *nbits_ret = 0;
    for (int g = 0; st == TERP_OK && g < table->ngroups; g++) {
        const struct terp_chunk group =
            terp_columns_chunk(table->chunk, table->mask, g);
        struct terp_found_references found;
        st = coder->engine->search(coder->session, &group, &table->params,
                                   bound, values, group_nbytes[g], &found);
        *nbits_ret += found.saved_nbits;
        coder->engine->forget(coder->session, &found);
        values += terp_chunk_nbytes(&group);
    }
    return st;
}

/* Whether columns may make a chunk smaller that has references. If a sample
 * does not tell that columns save bits, they may still have cheaper codes, as
 * groups without references show, or references that save more. Both are known
 * in less than half the time of a trial. */
static enum terp_status
estimate_groups(struct table *table, const struct terp_facts *facts,
                bool *may_pay_ret)
{
    uint64_t group_nbytes[TERP_COLUMNS_MAX_N], nbits = 0;
    const uint64_t most =
        terp_columns_most_unreferred(facts->unreferred_nbytes);

    *may_pay_ret = true;
    if (facts->unreferred_nbytes == 0)
        return TERP_OK;
    table->has_no_references = true;
    enum terp_status st = encode_groups(table, UINT64_MAX, group_nbytes);
    table->has_no_references = false;
    if (st == TERP_OK && table->body_nbytes > most) {
        st = estimate_references(table, group_nbytes, &nbits);
        *may_pay_ret = terp_columns_refer_more(nbits, facts->reference_nbits);
    }
    return st;
}

/* ---- a chunk ---- */

static enum terp_status
encode_chunk(const struct terp_coder *coder, const struct terp_batch *batch,
             uint64_t i, const struct terp_facts *facts, unsigned mask,
             bool are_cheaper, terp_columns_encoder *encode)
{
    const struct terp_chunk *chunk = batch->source.chunk;
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const struct terp_params *whole = batch->source.params;
    const uint64_t most = terp_columns_most(terp_least_nbytes(batch, i));
    struct table table = {.coder = coder,
                          .chunk = chunk,
                          .params = facts->bound > 0
                                        ? terp_params_of_rest(whole, facts)
                                        : terp_params_under(whole, 0),
                          .limits = batch->source.limits,
                          .encode = encode,
                          .mask = mask,
                          .ngroups = terp_columns_ngroups(mask)};
    enum terp_status st = TERP_ERR_MEMORY;
    uint64_t group_nbytes[TERP_COLUMNS_MAX_N];
    bool may_pay = true;

    table.cap_nbytes = nbytes + (uint64_t)table.ngroups * HEAD_NBYTES;
    table.values = terp_coder_allocate(coder, nbytes);
    table.body = terp_coder_allocate(coder, table.cap_nbytes);
    if (table.values != NULL && table.body != NULL)
        st = coder->engine->take_apart(coder->session, chunk,
                                       batch->source.src[i], table.values);
    if (st == TERP_OK && !are_cheaper)
        st = estimate_groups(&table, facts, &may_pay);
    if (st == TERP_OK && may_pay)
        st = encode_groups(&table, most, group_nbytes);
    if (st == TERP_OK && may_pay && table.body_nbytes <= most)
        st = write_stream(&table, batch, i, most);
    terp_coder_release(coder, table.body);
    terp_coder_release(coder, table.values);
    return st;
}

/* ---- chunks ---- */

/* So many sampled values at most are on the host at once. */
#define MAX_NKEYS (UINT64_C(1) << 21)

static enum terp_status
encode_sampled(const struct terp_coder *coder, const struct terp_batch *batch,
               const struct terp_facts *facts, uint64_t n, const uint64_t *at,
               uint64_t *keys, terp_columns_encoder *encode)
{
    const struct terp_chunk *chunk = batch->source.chunk;
    const uint64_t nvalues = terp_chunk_nvalues(chunk);
    const uint64_t nkeys = terp_columns_nkeys(chunk, nvalues);
    const void **src = (const void **)(keys + n * nkeys);

    for (uint64_t k = 0; k < n; k++)
        src[k] = batch->source.src[at[k]];
    enum terp_status st =
        coder->engine->sample_rows(coder->session, chunk, n, src, keys);
    for (uint64_t k = 0; st == TERP_OK && k < n; k++) {
        bool are_cheaper;
        const unsigned mask =
            terp_columns_groups(chunk, nvalues, keys + k * nkeys, &are_cheaper);
        if (mask == 0)
            continue;
        if (coder->engine->is_device)
            batch->nbytes[at[k]] = TERP_LEFT_NBYTES;
        else
            st = encode_chunk(coder, batch, at[k], &facts[at[k]], mask,
                              are_cheaper, encode);
    }
    return st;
}

enum terp_status
terp_columns_encode(const struct terp_coder *coder,
                    const struct terp_batch *batch,
                    const struct terp_facts *facts, uint64_t n,
                    const uint64_t *at, terp_columns_encoder *encode)
{
    enum terp_status st = TERP_OK;

    if (n == 0)
        return TERP_OK;
    const uint64_t nkeys = terp_columns_nkeys(
        batch->source.chunk, terp_chunk_nvalues(batch->source.chunk));
    const uint64_t most = min_u64(n, MAX_NKEYS / nkeys);
    uint64_t *keys = malloc(most * (nkeys * sizeof *keys + sizeof(void *)));
    if (keys == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t k = 0; st == TERP_OK && k < n; k += most)
        st = encode_sampled(coder, batch, facts, min_u64(most, n - k), at + k,
                            keys, encode);
    free(keys);
    return st;
}
