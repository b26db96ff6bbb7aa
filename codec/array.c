#include "array.h"

uint64_t
terp_array_nchunks(const struct terp_array *array)
{
    uint64_t nchunks = 1;

    for (int d = 0; d < array->rank; d++)
        nchunks *= div_up(array->dims[d], array->chunk[d]);
    return nchunks;
}

uint64_t
terp_array_chunk_nvalues(const struct terp_array *array)
{
    uint64_t nvalues = 1;

    for (int d = 0; d < array->rank; d++)
        nvalues *= array->chunk[d];
    return nvalues;
}

void
terp_array_gather(const struct terp_array *array, uint64_t first, uint64_t n,
                  const void *values, void *chunks)
{
    const uint64_t row_nvalues = array->chunk[array->rank - 1];
    const uint64_t nrows = terp_array_chunk_nvalues(array) / row_nvalues;
    const size_t nbytes = array->value_nbytes;
    const uint8_t *from = values;
    uint8_t *to = chunks;
    uint64_t at;

    for (uint64_t i = 0; i < n; i++)
        for (uint64_t row = 0; row < nrows; row++) {
            uint64_t inside = terp_array_row(array, first + i, row, &at);
            if (inside > 0)
                memcpy(to, from + at * nbytes, inside * nbytes);
            for (uint64_t j = inside; j < row_nvalues; j++)
                memcpy(to + j * nbytes, array->pad, nbytes);
            to += row_nvalues * nbytes;
        }
}

void
terp_array_scatter(const struct terp_array *array, uint64_t first, uint64_t n,
                   const void *chunks, void *values)
{
    const uint64_t row_nvalues = array->chunk[array->rank - 1];
    const uint64_t nrows = terp_array_chunk_nvalues(array) / row_nvalues;
    const size_t nbytes = array->value_nbytes;
    const uint8_t *from = chunks;
    uint8_t *to = values;
    uint64_t at;

    for (uint64_t i = 0; i < n; i++)
        for (uint64_t row = 0; row < nrows; row++) {
            uint64_t inside = terp_array_row(array, first + i, row, &at);
            if (inside > 0)
                memcpy(to + at * nbytes, from, inside * nbytes);
            from += row_nvalues * nbytes;
        }
}
