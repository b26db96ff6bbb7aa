/* Tables whose columns are unlike each other, for streams of columns. */
#pragma once

#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

/* The bits of row r of a column: of a slow walk, of a few values, of noise, or
 * of a copy of the first column with a little noise. Integers wrap. */
static inline uint64_t
table_bits(enum terp_type type, uint64_t column, uint64_t r)
{
    const uint64_t random = terp_field_mix(17 * r + column);
    if (terp_type_is_integer(type))
        return column % 4 == 0   ? r / 9
               : column % 4 == 1 ? random % 7 * 13
               : column % 4 == 2 ? random >> 20 & UINT32_MAX
                                 : r / 9 + (random & 1);
    const double walk = 8 + (double)(r % 997) / 64.0;

    return column % 4 == 0   ? value_to_bits(type, walk)
           : column % 4 == 1 ? value_to_bits(type, (double)(random % 7) / 3.0)
           : column % 4 == 2
               ? value_to_bits(type, (double)(random >> 11) * 0x1p-43)
               : value_to_bits(type, walk + (double)column) ^ (random & 1);
}

/* A complex value has two values of a part in a row. */
static inline void
table_make(const struct terp_chunk *chunk, uint8_t *values)
{
    const uint64_t nparts = (uint64_t)terp_type_nparts(chunk->type);
    const uint64_t ncolumns = chunk->dims[chunk->rank - 1];
    const uint64_t nvalues = chunk_nvalues(chunk);

    for (uint64_t i = 0; i < nvalues; i++) {
        const uint64_t at = i / nparts;
        value_put(chunk, values, i,
                  table_bits(terp_type_of_part(chunk->type), at % ncolumns,
                             at / ncolumns));
    }
}
