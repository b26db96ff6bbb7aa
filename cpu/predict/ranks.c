/* Finds the different values of a chunk, and replaces ranks and numbers of
 * grids by values. */
#include "codec/model/ranks.h"

#include <string.h>

#include "cpu/engine.h"

/* The value at `i`, little-endian or big-endian. */
static inline __attribute__((always_inline)) uint64_t
load_bits(const void *values, uint64_t i, int nbytes, bool swaps)
{
    const uint64_t bits =
        load_value((const uint8_t *)values + i * (uint64_t)nbytes, nbytes);

    return swaps ? __builtin_bswap64(bits) >> (64 - 8 * nbytes) : bits;
}

static bool
swaps_values(const struct terp_chunk *chunk)
{
    return chunk->big_endian != TERP_HOST_IS_BIG_ENDIAN;
}

enum terp_status
terp_cpu_ranks_sample(struct terp_session *session,
                      const struct terp_chunk *chunk, uint64_t n,
                      const void *const *src, uint64_t *keys_ret,
                      bool *maybe_ret)
{
    const uint64_t nvalues = terp_chunk_nvalues(chunk);
    const uint64_t nsamples = terp_ranks_nsamples(nvalues);

    (void)session;
    for (uint64_t k = 0; k < n; k++) {
        maybe_ret[k] = true;
        for (uint64_t i = 0; i < nsamples; i++)
            *keys_ret++ = terp_ranks_sampled_key(chunk, src[k], nvalues, i);
    }
    return TERP_OK;
}

/* ---- ranks ---- */

/* The different values of a chunk in the order of their first occurrence, and a
 * hash table of them. */
struct distinct {
    struct cpu_pool *pool;
    uint64_t n, cap, max;
    uint64_t *keys;
    uint32_t *slots; /* numbers of keys, plus one; 0: none */
    int slots_nbits;
};

#define FIRST_SLOTS_NBITS 10

static uint64_t
slot_of(const struct distinct *d, uint64_t key)
{
    return key * UINT64_C(0x9E3779B97F4A7C15) >> (64 - d->slots_nbits);
}

/* The slot of a key, or the free slot where it belongs. */
static inline uint64_t
find(const struct distinct *d, uint64_t key)
{
    const uint64_t mask = (UINT64_C(1) << d->slots_nbits) - 1;
    uint64_t slot = slot_of(d, key);

    while (d->slots[slot] != 0 && d->keys[d->slots[slot] - 1] != key)
        slot = (slot + 1) & mask;
    return slot;
}

/* Doubles the size of the table, or makes the first one. */
static bool
grow(struct distinct *d)
{
    const int nbits = d->keys == NULL ? FIRST_SLOTS_NBITS : d->slots_nbits + 1;
    const uint64_t nslots = UINT64_C(1) << nbits, cap = nslots / 2;
    uint64_t *keys = terp_cpu_memory_make(d->pool, cap * sizeof *keys);
    uint32_t *slots = terp_cpu_memory_make(d->pool, nslots * sizeof *slots);

    if (keys == NULL || slots == NULL) {
        terp_cpu_memory_free(d->pool, keys);
        terp_cpu_memory_free(d->pool, slots);
        return false;
    }
    if (d->n > 0)
        memcpy(keys, d->keys, d->n * sizeof *keys);
    memset(slots, 0, nslots * sizeof *slots);
    terp_cpu_memory_free(d->pool, d->keys);
    terp_cpu_memory_free(d->pool, d->slots);
    d->keys = keys;
    d->slots = slots;
    d->slots_nbits = nbits;
    d->cap = cap;
    for (uint64_t i = 0; i < d->n; i++)
        slots[find(d, keys[i])] = (uint32_t)i + 1;
    return true;
}

/* Numbers all values. *fits_ret is false if there are more different values
 * than a table may have. */
static enum terp_status
number_values(struct distinct *d, const struct terp_chunk *chunk,
              uint64_t nvalues, const void *values, uint32_t *numbers,
              bool *fits_ret)
{
    const int nbytes = terp_value_nbytes(chunk->type);
    const bool swaps = swaps_values(chunk);

    *fits_ret = false;
    for (uint64_t i = 0; i < nvalues; i++) {
        const uint64_t key = terp_rank_key(chunk->type, nbytes,
                                           load_bits(values, i, nbytes, swaps));
        uint64_t slot = find(d, key);
        if (d->slots[slot] == 0) {
            if (d->n == d->max)
                return TERP_OK;
            if (d->n == d->cap) {
                if (!grow(d))
                    return TERP_ERR_MEMORY;
                slot = find(d, key);
            }
            d->keys[d->n++] = key;
            d->slots[slot] = (uint32_t)d->n;
        }
        numbers[i] = d->slots[slot] - 1;
    }
    *fits_ret = true;
    return TERP_OK;
}

/* Converts a key back to the bits of its value. */
static uint64_t
bits_of_key(enum terp_type type, int nbytes, uint64_t key)
{
    const uint64_t top = UINT64_C(1) << (8 * nbytes - 1);

    if (terp_type_is_integer(type))
        return terp_type_is_signed(type) ? key ^ top : key;
    return key & top ? key ^ top : key ^ (top | (top - 1));
}

/* Sorts the different values, writes the table, and converts numbers to ranks.
 */
static enum terp_status
make_table(struct distinct *d, const struct terp_chunk *chunk, uint64_t nvalues,
           const uint32_t *numbers, struct terp_found_ranks *found)
{
    const int nbytes = terp_value_nbytes(chunk->type);
    const int rank_nbytes = terp_rank_nbytes(d->n);
    uint32_t *order = terp_cpu_memory_make(d->pool, d->n * 3 * sizeof *order);
    uint64_t *key_scratch =
        terp_cpu_memory_make(d->pool, d->n * sizeof *key_scratch);
    uint8_t *table = terp_cpu_memory_make(d->pool, d->n * (uint64_t)nbytes);
    uint8_t *ranks = NULL;
    uint64_t ncommon = 0;
    bool has_memory = order != NULL && key_scratch != NULL && table != NULL;

    if (has_memory) {
        uint32_t *counts = order;
        memset(counts, 0, d->n * sizeof *counts);
        for (uint64_t i = 0; i < nvalues; i++)
            counts[numbers[i]]++;
        ncommon = terp_ranks_ncommon(d->n, counts);
        for (uint64_t i = 0; i < d->n; i++)
            order[i] = (uint32_t)i;
        terp_ranks_sort(d->n, nbytes, d->keys, key_scratch, order,
                        order + d->n);
    }
    terp_cpu_memory_free(d->pool, key_scratch);
    found->table = table;
    if (has_memory &&
        terp_ranks_are_worth(chunk->type, nvalues, ncommon, d->n, d->keys)) {
        uint32_t *rank_of = order + 2 * d->n;
        found->ranks = ranks =
            terp_cpu_memory_make(d->pool, nvalues * (uint64_t)rank_nbytes);
        has_memory = ranks != NULL;
        found->ntable = has_memory ? d->n : 0;
        for (uint64_t i = 0; has_memory && i < d->n; i++) {
            rank_of[order[i]] = (uint32_t)i;
            store_le(table + i * (uint64_t)nbytes,
                     bits_of_key(chunk->type, nbytes, d->keys[i]), nbytes);
        }
        for (uint64_t i = 0; has_memory && i < nvalues; i++)
            store_le(ranks + i * (uint64_t)rank_nbytes, rank_of[numbers[i]],
                     rank_nbytes);
    }
    terp_cpu_memory_free(d->pool, order);
    return has_memory ? TERP_OK : TERP_ERR_MEMORY;
}

enum terp_status
terp_cpu_ranks_find(struct terp_session *session,
                    const struct terp_chunk *chunk, const void *src,
                    struct terp_found_ranks *found_ret)
{
    const uint64_t nvalues = terp_chunk_nvalues(chunk);
    struct distinct d = {.pool = cpu_pool_of(session),
                         .max = terp_ranks_max_ntable(nvalues)};
    uint32_t *numbers = terp_cpu_memory_make(d.pool, nvalues * sizeof *numbers);
    enum terp_status st =
        numbers != NULL && grow(&d) ? TERP_OK : TERP_ERR_MEMORY;
    bool fits = false;

    *found_ret = (struct terp_found_ranks){0};
    if (st == TERP_OK)
        st = number_values(&d, chunk, nvalues, src, numbers, &fits);
    terp_cpu_memory_free(d.pool, d.slots);
    if (st == TERP_OK && fits)
        st = make_table(&d, chunk, nvalues, numbers, found_ret);
    terp_cpu_memory_free(d.pool, d.keys);
    terp_cpu_memory_free(d.pool, numbers);
    return st;
}

/* ---- values ---- */

/* Whether a table is ascending. */
static bool
rises(const struct terp_chunk *chunk, const struct terp_ranked *ranked)
{
    const int nbytes = terp_value_nbytes(chunk->type);
    const uint8_t *at = ranked->table;
    uint64_t before = 0;

    for (uint64_t i = 0; i < ranked->ntable; i++, at += nbytes) {
        const uint64_t key =
            terp_rank_key(chunk->type, nbytes, load_le(at, nbytes));
        if (i > 0 && key <= before)
            return false;
        before = key;
    }
    return true;
}

/* Fills in values of the table and of a grid. */
static inline __attribute__((always_inline)) bool
place(const struct terp_ranked *ranked, uint64_t nvalues, int nbytes,
      bool swaps)
{
    const int number_nbytes = ranked->number_nbytes;
    const uint8_t *numbers = ranked->ranks;
    uint8_t *values = ranked->values;

    for (uint64_t i = 0; i < nvalues; i++) {
        const uint64_t number =
            load_le(numbers + i * (uint64_t)number_nbytes, number_nbytes);
        uint64_t bits;
        if (number < ranked->ntable)
            bits = load_le((const uint8_t *)ranked->table +
                               number * (uint64_t)nbytes,
                           nbytes);
        else if (!terp_grid_value(&ranked->grid, number - ranked->ntable,
                                  i * ranked->step, nbytes, &bits))
            return false;
        if (swaps)
            bits = __builtin_bswap64(bits) >> (64 - 8 * nbytes);
        store_le(values + i * (uint64_t)nbytes, bits, nbytes);
    }
    return true;
}

static inline __attribute__((always_inline)) bool
look_up(const struct terp_ranked *ranked, uint64_t nvalues, int nbytes,
        int rank_nbytes, bool swaps)
{
    const uint8_t *ranks = ranked->ranks;
    uint8_t *values = ranked->values;

    for (uint64_t i = 0; i < nvalues; i++) {
        const uint64_t rank =
            load_le(ranks + i * (uint64_t)rank_nbytes, rank_nbytes);
        if (rank >= ranked->ntable)
            return false;
        store_value(values + i * (uint64_t)nbytes,
                    load_bits(ranked->table, rank, nbytes, swaps), nbytes);
    }
    return true;
}

static bool
look_up_values(const struct terp_ranked *ranked, uint64_t nvalues, int nbytes,
               bool swaps)
{
    const int rank_nbytes = ranked->number_nbytes;

    if (ranked->grid.number_nbytes > 0)
        return nbytes == 8 ? place(ranked, nvalues, 8, swaps)
                           : place(ranked, nvalues, 4, swaps);
    return nbytes == 2        ? look_up(ranked, nvalues, 2, rank_nbytes, swaps)
           : nbytes == 8      ? look_up(ranked, nvalues, 8, rank_nbytes, swaps)
           : rank_nbytes == 2 ? look_up(ranked, nvalues, 4, 2, swaps)
                              : look_up(ranked, nvalues, 4, 4, swaps);
}

/* The table is little-endian, values have the chunk's byte order. */
enum terp_status
terp_cpu_ranks_follow(struct terp_session *session,
                      const struct terp_chunk *chunk, uint64_t n,
                      const struct terp_ranked *ranked,
                      enum terp_status *status_ret)
{
    const int nbytes = terp_value_nbytes(chunk->type);
    const uint64_t nvalues = terp_chunk_nbytes(chunk) / (uint64_t)nbytes;

    (void)session;
    for (uint64_t k = 0; k < n; k++)
        status_ret[k] = rises(chunk, &ranked[k]) &&
                                look_up_values(&ranked[k], nvalues, nbytes,
                                               chunk->big_endian)
                            ? TERP_OK
                            : TERP_ERR_CORRUPT;
    return TERP_OK;
}
