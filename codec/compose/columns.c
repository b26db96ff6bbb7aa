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
    const struct terp_limits *limits;
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
encode_group(struct table *table, int number, const uint8_t *values,
             const struct terp_params *params, terp_columns_encoder *encode)
{
    const struct terp_coder *coder = table->coder;
    const struct terp_chunk group =
        terp_columns_chunk(table->chunk, table->mask, number);
    void *stream = terp_coder_allocate(coder, terp_encode_bound(&group));
    const void *src = values;
    uint64_t nbytes = 0;
    const struct terp_batch batch = {{.chunk = &group,
                                      .params = params,
                                      .limits = table->limits,
                                      .is_part = true,
                                      .is_of_columns = true,
                                      .n = 1,
                                      .src = &src},
                                     &stream,
                                     &nbytes};
    enum terp_status st =
        stream == NULL ? TERP_ERR_MEMORY : encode(coder, &batch);

    if (st == TERP_OK)
        add_group(table, &group, values, stream, nbytes,
                  number == table->ngroups - 1);
    terp_coder_release(coder, stream);
    return st;
}

/* ---- a chunk ---- */

static bool
is_worth(const struct terp_batch *batch, uint64_t i, uint64_t nbytes)
{
    return nbytes * TERP_COLUMNS_WORTH_DENOMINATOR <
           terp_least_nbytes(batch, i) * TERP_COLUMNS_WORTH_NUMERATOR;
}

static enum terp_status
write_stream(const struct table *table, const struct terp_batch *batch,
             uint64_t i)
{
    const struct terp_frame frame = {.chunk = *table->chunk,
                                     .coding = TERP_CODING_COLUMNS,
                                     .version = TERP_FORMAT_VERSION};
    struct terp_pieces pieces;

    terp_pieces_begin(&pieces);
    terp_pieces_add_frame(&pieces, &frame);
    write_le(&pieces.writer, table->mask, TERP_COLUMNS_MASK_NBYTES);
    terp_pieces_add(&pieces, table->body, table->body_nbytes);
    if (!is_worth(batch, i, terp_pieces_end(&pieces)))
        return TERP_OK;
    batch->nbytes[i] = pieces.nbytes;
    pieces.dst = batch->dst[i];
    return terp_pieces_write(table->coder, 1, &pieces);
}

/* Encodes groups until their streams are too large. */
static enum terp_status
encode_groups(struct table *table, const struct terp_batch *batch, uint64_t i,
              const struct terp_facts *facts, terp_columns_encoder *encode)
{
    const struct terp_params *whole = batch->source.params;
    const struct terp_params params = facts->bound > 0
                                          ? terp_params_of_rest(whole, facts)
                                          : terp_params_under(whole, 0);
    const uint8_t *values = table->values;
    enum terp_status st = TERP_OK;

    for (int g = 0; g < table->ngroups; g++) {
        const struct terp_chunk group =
            terp_columns_chunk(table->chunk, table->mask, g);
        st = encode_group(table, g, values, &params, encode);
        if (st != TERP_OK || !is_worth(batch, i, table->body_nbytes))
            return st;
        values += terp_chunk_nbytes(&group);
    }
    return write_stream(table, batch, i);
}

static enum terp_status
encode_chunk(const struct terp_coder *coder, const struct terp_batch *batch,
             uint64_t i, const struct terp_facts *facts, unsigned mask,
             terp_columns_encoder *encode)
{
    const struct terp_chunk *chunk = batch->source.chunk;
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    struct table table = {.coder = coder,
                          .chunk = chunk,
                          .limits = batch->source.limits,
                          .mask = mask,
                          .ngroups = terp_columns_ngroups(mask)};
    enum terp_status st = TERP_ERR_MEMORY;

    table.cap_nbytes = nbytes + (uint64_t)table.ngroups * HEAD_NBYTES;
    table.values = terp_coder_allocate(coder, nbytes);
    table.body = terp_coder_allocate(coder, table.cap_nbytes);
    if (table.values != NULL && table.body != NULL)
        st = coder->engine->take_apart(coder->session, chunk,
                                       batch->source.src[i], table.values);
    if (st == TERP_OK)
        st = encode_groups(&table, batch, i, facts, encode);
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
        const unsigned mask =
            terp_columns_groups(chunk, nvalues, keys + k * nkeys);
        if (mask == 0)
            continue;
        if (coder->engine->is_device)
            batch->nbytes[at[k]] = TERP_LEFT_NBYTES;
        else
            st = encode_chunk(coder, batch, at[k], &facts[at[k]], mask, encode);
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
