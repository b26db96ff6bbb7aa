/* What the parts of a stream of ranks are. */
#include "codec/format/ranks.h"

struct terp_chunk
terp_ranks_chunk(const struct terp_chunk *chunk, enum terp_ranks_part part,
                 uint64_t ntable, int number_nbytes)
{
    struct terp_chunk ranks = *chunk;

    if (part == TERP_RANKS_TABLE)
        return (struct terp_chunk){
            .type = chunk->type, .rank = 1, .dims = {ntable}};
    ranks.type = number_nbytes == 2   ? TERP_UINT16
                 : number_nbytes == 4 ? TERP_UINT32
                                      : TERP_UINT64;
    ranks.big_endian = false;
    return ranks;
}
