/* Gathers the values and the bits of a lattice. */
#include "cpu/predict/coarse.h"

#include <stdlib.h>

#include "cpu/entropy/rows.h"

static void
copy_row(const uint8_t *src, uint64_t stride, uint64_t n, int nbytes,
         uint8_t *dst)
{
    for (uint64_t i = 0; i < n; i++)
        store_value(dst + i * (uint64_t)nbytes,
                    load_value(src + i * stride * (uint64_t)nbytes, nbytes),
                    nbytes);
}

/* Copies complex values as pairs of their parts. */
static void
copy_pairs(const uint8_t *src, uint64_t stride, uint64_t n, size_t nbytes,
           uint8_t *dst)
{
    for (uint64_t i = 0; i < n; i++)
        memcpy(dst + i * nbytes, src + i * stride * nbytes, nbytes);
}

void
terp_cpu_coarse_values(const struct terp_coarse *coarse, int value_nbytes,
                       const void *src, void *dst)
{
    const int last = coarse->rank - 1;
    const uint64_t nbytes = (uint64_t)value_nbytes;
    uint64_t nrows = 1;
    uint8_t *to = dst;

    if (coarse->is_all) {
        memcpy(dst, src, coarse->nvalues * nbytes);
        return;
    }
    for (int i = 0; i < last; i++)
        nrows *= coarse->count[i];
    for (uint64_t row = 0; row < nrows; row++) {
        uint64_t left = row, from = 0, size = coarse->dims[last];
        for (int i = last - 1; i >= 0; i--) {
            from += left % coarse->count[i] * coarse->stride[i] * size;
            left /= coarse->count[i];
            size *= coarse->dims[i];
        }
        const uint8_t *at = (const uint8_t *)src + from * nbytes;
        if (value_nbytes > 8)
            copy_pairs(at, coarse->stride[last], coarse->count[last], nbytes,
                       to);
        else
            copy_row(at, coarse->stride[last], coarse->count[last],
                     value_nbytes, to);
        to += coarse->count[last] * nbytes;
    }
}

uint64_t *
terp_cpu_coarse_bits(const struct terp_layout *whole,
                     const struct terp_layout *lattice, int nskipped,
                     const uint64_t *bits)
{
    uint64_t *words = calloc(div_up(lattice->nvalues, 64), 8);
    uint64_t at[TERP_NDIMS], i = 0;

    if (words == NULL)
        return NULL;
    uint64_t brick = cpu_find_row(lattice->dims, 0, at);
    for (; i < lattice->nvalues; brick += cpu_next_row(lattice->dims, at)) {
        uint64_t from = terp_coarse_row_begin(whole, nskipped, brick, at);
        for (uint64_t x = 0; x < lattice->dims[0];
             x++, i++, from += (uint64_t)1 << nskipped)
            words[i / 64] |= (bits[from / 64] >> from % 64 & 1) << i % 64;
    }
    return words;
}
