/* Samples the rows of tables, takes tables apart, and puts columns together. */
#include "codec/model/columns.h"

#include "cpu/engine.h"

static uint64_t
nvalues_of(const struct terp_chunk *chunk)
{
    return terp_chunk_nbytes(chunk) / (uint64_t)terp_value_nbytes(chunk->type);
}

enum terp_status
terp_cpu_columns_sample(struct terp_session *session,
                        const struct terp_chunk *chunk, uint64_t n,
                        const void *const *src, uint64_t *keys_ret)
{
    const uint64_t nvalues = nvalues_of(chunk);
    const uint64_t nkeys = terp_columns_nkeys(chunk, nvalues);

    (void)session;
    for (uint64_t k = 0; k < n; k++)
        terp_columns_sample(chunk, src[k], nvalues, keys_ret + k * nkeys);
    return TERP_OK;
}

/* Moves values of a table to its columns, or with `joins` back. */
static inline __attribute__((always_inline)) void
move(uint8_t *table, uint8_t *columns, uint64_t nrows, int ncolumns, int nbytes,
     bool swaps, bool joins)
{
    const uint64_t pitch = (uint64_t)ncolumns * (uint64_t)nbytes;

    for (int c = 0; c < ncolumns; c++) {
        uint8_t *column = columns + (uint64_t)c * nrows * (uint64_t)nbytes;
        uint8_t *at = table + (uint64_t)c * (uint64_t)nbytes;
        for (uint64_t r = 0; r < nrows; r++, at += pitch, column += nbytes) {
            const uint64_t bits = load_value(joins ? column : at, nbytes);
            store_value(joins ? at : column,
                        swaps ? __builtin_bswap64(bits) >> (64 - 8 * nbytes)
                              : bits,
                        nbytes);
        }
    }
}

static void
move_all(const struct terp_chunk *chunk, uint8_t *table, uint8_t *columns,
         bool joins)
{
    const int nbytes = terp_value_nbytes(chunk->type);
    const int n = terp_columns_n(chunk);
    const uint64_t nrows = nvalues_of(chunk) / (uint64_t)n;
    const bool swaps =
        nbytes > 1 && chunk->big_endian; /* columns are little-endian */

    if (nbytes == 1)
        move(table, columns, nrows, n, 1, false, joins);
    else if (nbytes == 2)
        move(table, columns, nrows, n, 2, swaps, joins);
    else if (nbytes == 4)
        move(table, columns, nrows, n, 4, swaps, joins);
    else
        move(table, columns, nrows, n, 8, swaps, joins);
}

enum terp_status
terp_cpu_columns_take_apart(struct terp_session *session,
                            const struct terp_chunk *chunk, const void *src,
                            void *columns)
{
    (void)session;
    move_all(chunk, (uint8_t *)src, columns, false);
    return TERP_OK;
}

enum terp_status
terp_cpu_columns_put_together(struct terp_session *session,
                              const struct terp_chunk *chunk, uint64_t n,
                              const void *const *columns, void *const *dst)
{
    (void)session;
    for (uint64_t k = 0; k < n; k++)
        move_all(chunk, dst[k], (uint8_t *)columns[k], true);
    return TERP_OK;
}
