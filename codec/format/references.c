/* What the parts of a stream with references are. */
#include "codec/format/references.h"

#include "codec/format/held.h"
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
    const struct terp_frame frame = {.chunk = *chunk,
                                     .coding = TERP_CODING_REFERENCES};
    struct terp_held held;
    enum terp_status st = TERP_OK;

    terp_held_begin(&frame, &held);
    for (int i = 0; st == TERP_OK && i < TERP_REFERENCES_NPARTS; i++) {
        uint64_t nbytes = 0;
        st = terp_held_read(&held, body, body_nbytes, &ret->part[i], &nbytes);
        body += nbytes;
        body_nbytes -= nbytes;
    }
    ret->marker = held.marker;
    ret->nreferences = held.nreferences;
    return st;
}
