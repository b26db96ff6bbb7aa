/* What the groups of a stream of columns are. */
#include "codec/format/columns.h"

struct terp_chunk
terp_columns_chunk(const struct terp_chunk *chunk, unsigned mask, int group)
{
    const int n = terp_columns_n(chunk);
    struct terp_chunk columns = {.type = chunk->type};
    int first = 0;

    for (int g = 0; g < group; g++)
        do
            first++;
        while ((mask >> first & 1) == 0);
    int end = first + 1;
    while (end < n && (mask >> end & 1) == 0)
        end++;
    if (end - first > 1)
        columns.dims[columns.rank++] = (uint64_t)(end - first);
    for (int d = 0; d < chunk->rank - 1; d++)
        columns.dims[columns.rank++] = chunk->dims[d];
    return columns;
}
