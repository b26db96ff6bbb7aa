/* Writes and reads the section of signs. Bytes of eight signs, or of eight
 * differences from the signs some values before, are coded as symbols of
 * tiles. */
#include "cpu/sections/signs.h"

#include <stdlib.h>

#include "codec/format/pointwise.h"
#include "codec/format/sections.h"
#include "cpu/entropy/tiles.h"
#include "cpu/sections/mask.h"

static uint64_t
differences_at(const struct cpu_mask *mask, uint64_t i)
{
    const uint64_t last = (mask->nvalues - 1) / 64;
    const uint64_t word = cpu_mask_word(mask, i);

    return i < last ? word
                    : word & UINT64_MAX >> (63 - (mask->nvalues - 1) % 64);
}

static uint64_t
count_set(const struct cpu_mask *mask)
{
    uint64_t nset = 0;

    for (uint64_t i = 0; i < div_up(mask->nvalues, 64); i++)
        nset += (uint64_t)__builtin_popcountll(differences_at(mask, i));
    return nset;
}

/* The dimension along which the fewest signs differ; 0 if the signs themselves
 * are more alike. */
static int
choose_delta(const struct terp_layout *layout, struct cpu_mask *mask)
{
    const uint64_t nnegative = count_set(mask);
    uint64_t least = min_u64(nnegative, mask->nvalues - nnegative);
    struct cpu_mask tried = *mask;
    int best = 0;

    for (int d = 1; d <= TERP_NDIMS; d++) {
        tried.mask_delta = terp_mask_delta_distance(layout, d);
        uint64_t nset = tried.mask_delta == 0 ? UINT64_MAX : count_set(&tried);
        if (nset >= least)
            continue;
        least = nset;
        mask->mask_delta = tried.mask_delta;
        best = d;
    }
    return best;
}

enum terp_status
terp_cpu_signs_write(struct cpu_pool *pool, const struct terp_layout *layout,
                     const uint64_t *signs, struct writer *writer)
{
    struct cpu_mask mask = {signs, layout->nvalues, 0};
    const uint64_t nbytes = div_up(layout->nvalues, 8);
    uint16_t *symbols = malloc(nbytes * sizeof *symbols);

    if (symbols == NULL)
        return TERP_ERR_MEMORY;
    write_le(writer, (uint64_t)choose_delta(layout, &mask), 1);
    for (uint64_t i = 0; i < nbytes; i++)
        symbols[i] = (uint16_t)terp_sign_symbol(
            (uint8_t)(differences_at(&mask, i / 8) >> 8 * (i % 8)));
    uint8_t *length = writer_take(writer, TERP_SIGNS_LENGTH_NBYTES);
    enum terp_status st = terp_cpu_tiles_encode(pool, TERP_SIGNS_CODING,
                                                symbols, nbytes, NULL, writer);
    free(symbols);
    if (st == TERP_OK && !writer->overflow)
        store_le(length,
                 (uint64_t)(writer->at - length) - TERP_SIGNS_LENGTH_NBYTES,
                 TERP_SIGNS_LENGTH_NBYTES);
    return st == TERP_OK && writer->overflow ? TERP_ERR_CAPACITY : st;
}

/* Packs symbols, a byte each, into the words of a mask. */
static bool
join_symbols(const uint16_t *symbols, uint64_t nbytes, uint64_t *words)
{
    bool valid = true;

    for (uint64_t i = 0; i < nbytes; i++) {
        valid &= terp_sign_symbol_is_valid(symbols[i]);
        words[i / 8] |= (uint64_t)terp_sign_byte(symbols[i]) << 8 * (i % 8);
    }
    return valid;
}

static enum terp_status
decode_signs(struct cpu_pool *pool, uint64_t nvalues, uint64_t mask_delta,
             struct reader *section, uint64_t *words)
{
    const uint64_t nbytes = div_up(nvalues, 8);
    uint16_t *symbols = malloc(nbytes * sizeof *symbols);

    if (symbols == NULL)
        return TERP_ERR_MEMORY;
    enum terp_status st = terp_cpu_tiles_decode(pool, TERP_SIGNS_CODING,
                                                section, symbols, nbytes);
    if (st == TERP_OK && !join_symbols(symbols, nbytes, words))
        st = TERP_ERR_CORRUPT;
    free(symbols);
    if (st == TERP_OK)
        cpu_mask_sum_up(words, nvalues, mask_delta);
    return st;
}

enum terp_status
terp_cpu_signs_read(struct cpu_pool *pool, const struct terp_layout *layout,
                    struct reader *reader, uint64_t **signs_ret)
{
    const uint64_t d = read_le(reader, 1);
    const uint64_t length = read_le(reader, TERP_SIGNS_LENGTH_NBYTES);
    const uint8_t *at = reader_take(reader, length);

    if (at == NULL || d > TERP_NDIMS)
        return TERP_ERR_CORRUPT;
    const uint64_t mask_delta =
        d == 0 ? 0 : terp_mask_delta_distance(layout, (int)d);
    if (d > 0 && mask_delta == 0)
        return TERP_ERR_CORRUPT;
    if (signs_ret == NULL)
        return TERP_OK;
    uint64_t *words = calloc(div_up(layout->nvalues, 64), 8);
    if (words == NULL)
        return TERP_ERR_MEMORY;
    struct reader section = {at, at + length, false};
    enum terp_status st =
        decode_signs(pool, layout->nvalues, mask_delta, &section, words);
    if (st == TERP_OK)
        *signs_ret = words;
    else
        free(words);
    return st;
}
