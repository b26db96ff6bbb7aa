/* What the parts of a stream with references are. */
#include "codec/format/references.h"

#include "codec/format/types.h"

struct terp_chunk
terp_references_chunk(const struct terp_chunk *chunk,
                      enum terp_references_part part, uint64_t nreferences)
{
    struct terp_chunk of_part = *chunk;

    of_part.big_endian = false;
    if (part == TERP_REFERENCES_VALUES)
        return of_part;
    return (struct terp_chunk){
        .type = part == TERP_REFERENCES_DISTANCES ? TERP_UINT32 : TERP_INT64,
        .rank = 1,
        .dims = {nreferences}};
}

enum terp_status
terp_references_read(const struct terp_chunk *chunk, const uint8_t *body,
                     uint64_t body_nbytes, struct terp_references *ret)
{
    const int value_nbytes = terp_value_nbytes(chunk->type);
    const uint64_t nvalues = terp_chunk_nbytes(chunk) / (uint64_t)value_nbytes;
    struct reader reader = {body, body + body_nbytes, false};
    enum terp_status st = TERP_OK;

    ret->marker = read_le(&reader, value_nbytes);
    ret->nreferences = read_uleb(&reader);
    if (reader.underflow)
        return TERP_ERR_TRUNCATED;
    if (ret->nreferences == 0 || ret->nreferences > nvalues)
        return TERP_ERR_CORRUPT;
    for (int i = 0; st == TERP_OK && i < TERP_REFERENCES_NPARTS; i++) {
        const enum terp_references_part part = (enum terp_references_part)i;
        const struct terp_chunk of_part =
            terp_references_chunk(chunk, part, ret->nreferences);
        const uint64_t nbytes = part == TERP_REFERENCES_VALUES
                                    ? (uint64_t)(reader.end - reader.at)
                                    : read_uleb(&reader);
        const uint8_t *at = reader_take(&reader, nbytes);
        st = at == NULL ? TERP_ERR_TRUNCATED
                        : terp_part_read(&of_part, at, nbytes, &ret->part[i]);
        if (st == TERP_OK &&
            (ret->part[i].frame.coding == TERP_CODING_COPIES ||
             ret->part[i].frame.coding == TERP_CODING_REFERENCES))
            st = TERP_ERR_CORRUPT;
    }
    return st;
}
