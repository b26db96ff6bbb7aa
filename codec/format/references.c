/* The inner streams of a stream with references. */
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
