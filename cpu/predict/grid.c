/* Replaces the values of a chunk by numbers on a grid. */
#include "codec/model/grid.h"

#include <string.h>

#include "cpu/engine.h"

enum terp_status
terp_cpu_grid_sample(struct terp_session *session,
                     const struct terp_chunk *chunk, uint64_t n,
                     const void *const *src, uint64_t *keys_ret)
{
    const uint64_t nvalues = terp_chunk_nvalues(chunk);

    (void)session;
    for (uint64_t k = 0; k < n; k++)
        for (uint64_t i = 0; i < TERP_GRID_NSAMPLES; i++)
            *keys_ret++ = terp_grid_sampled_key(chunk, src[k], nvalues, i);
    return TERP_OK;
}

/* Stands for a value that is not on the grid. */
#define MISS INT64_MIN

/* The values of a chunk as integers, and the others. */
struct numbering {
    const struct terp_chunk *chunk;
    const void *values;
    uint64_t nvalues;
    int64_t *integers;
    uint64_t nmisses, max_nmisses;
    uint64_t *keys; /* of misses */
    int64_t low, high;
    uint64_t gap;
};

static uint64_t
bits_at(const struct numbering *it, uint64_t i)
{
    const int nbytes = terp_value_nbytes(it->chunk->type);
    const uint64_t bits =
        load_value((const uint8_t *)it->values + i * (uint64_t)nbytes, nbytes);

    return it->chunk->big_endian != TERP_HOST_IS_BIG_ENDIAN
               ? __builtin_bswap64(bits) >> (64 - 8 * nbytes)
               : bits;
}

static uint64_t
common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Makes integers of values. False: too many are not on the grid. */
static bool
make_integers(struct numbering *it, const struct terp_grid *grid)
{
    const int nbytes = terp_value_nbytes(it->chunk->type);
    const double inverse = terp_grid_inverse(grid);

    for (uint64_t i = 0; i < it->nvalues; i++) {
        const uint64_t bits = bits_at(it, i);
        int64_t k;
        if (!terp_grid_integer(grid, inverse, nbytes, bits, &k)) {
            const uint64_t key = terp_rank_key(it->chunk->type, nbytes, bits);
            it->integers[i] = MISS;
            /* A fill value stands there again and again. */
            if (it->nmisses > 0 && it->keys[it->nmisses - 1] == key)
                continue;
            if (it->nmisses == it->max_nmisses)
                return false;
            it->keys[it->nmisses++] = key;
            continue;
        }
        it->integers[i] = k;
    }
    return true;
}

/* Whether the last integer is at least half as far from the first one as the
 * drift predicts. Otherwise the integers often go back, and may repeat. */
static bool
is_far(const struct numbering *it, int64_t drift)
{
    uint64_t first = 0, last = it->nvalues - 1;

    while (first < last && it->integers[first] == MISS)
        first++;
    while (first < last && it->integers[last] == MISS)
        last--;
    const int64_t way = it->integers[last] - it->integers[first];
    const int64_t half = drift * (int64_t)(last - first) / 2;
    return drift > 0 ? way >= half : way <= half;
}

/* Returns the drift: by how much the integers of a chunk of one dimension, such
 * as times, mostly grow from one index to the next. Returns 0 without drift. */
static int64_t
find_drift(const struct numbering *it)
{
    int64_t differences[TERP_GRID_NDIFFERENCES];
    int n = 0;

    if (it->chunk->rank > 1)
        return 0;
    for (uint64_t d = 0; d < TERP_GRID_NDIFFERENCES; d++) {
        const int64_t *at =
            it->integers + terp_grid_difference_at(it->nvalues, d);
        if (at[0] != MISS && at[1] != MISS)
            differences[n++] = at[1] - at[0];
    }
    const int64_t drift = terp_grid_drift(n, differences);
    return terp_grid_may_drift(it->chunk->rank, it->nvalues, drift) &&
                   is_far(it, drift)
               ? drift
               : 0;
}

/* Subtracts the drift. Finds the range of the results and the common divisor of
 * their differences. Returns false if no value has an integer, or if all
 * integers are equal and the drift is 0. */
static bool
limit_integers(struct numbering *it, int64_t drift)
{
    it->low = INT64_MAX;
    it->high = INT64_MIN;
    for (uint64_t i = 0; i < it->nvalues; i++) {
        int64_t *k = &it->integers[i];
        if (*k == MISS)
            continue;
        *k -= drift * (int64_t)i;
        it->low = *k < it->low ? *k : it->low;
        it->high = *k > it->high ? *k : it->high;
    }
    for (uint64_t i = 0; i < it->nvalues && it->gap != 1; i++)
        if (it->integers[i] != MISS)
            it->gap = common_divisor(it->gap, (uint64_t)it->integers[i] -
                                                  (uint64_t)it->low);
    it->gap += it->gap == 0;
    return it->low < it->high || (drift != 0 && it->low == it->high);
}

/* The place of a key in the sorted table. */
static uint64_t
find_key(uint64_t n, const uint64_t *keys, uint64_t key)
{
    uint64_t first = 0;

    while (n > 1) {
        const uint64_t half = n / 2;
        if (keys[first + half] <= key)
            first += half;
        n -= half;
    }
    return first;
}

/* Sorts the keys of misses, each once. A table has at least one value. */
static uint64_t
sort_keys(struct numbering *it, uint64_t *scratch)
{
    const int nbytes = terp_value_nbytes(it->chunk->type);
    uint64_t n = 0;

    if (it->nmisses == 0)
        it->keys[it->nmisses++] = terp_rank_key(it->chunk->type, nbytes, 0);
    terp_ranks_sort(it->nmisses, nbytes, it->keys, scratch, NULL, NULL);
    for (uint64_t i = 0; i < it->nmisses; i++)
        if (i == 0 || it->keys[i] != it->keys[i - 1])
            it->keys[n++] = it->keys[i];
    return n;
}

static void
write_numbers(const struct numbering *it, const struct terp_found_ranks *found)
{
    const int nbytes = terp_value_nbytes(it->chunk->type);
    const int number_nbytes = found->grid.number_nbytes;
    uint8_t *table = found->table, *numbers = found->ranks;

    for (uint64_t i = 0; i < found->ntable; i++)
        store_le(table + i * (uint64_t)nbytes,
                 terp_rank_float_bits(nbytes, it->keys[i]), nbytes);
    for (uint64_t i = 0; i < it->nvalues; i++) {
        const int64_t k = it->integers[i];
        const uint64_t number =
            k == MISS
                ? find_key(
                      found->ntable, it->keys,
                      terp_rank_key(it->chunk->type, nbytes, bits_at(it, i)))
                : found->ntable + ((uint64_t)k - (uint64_t)it->low) / it->gap;
        store_le(numbers + i * (uint64_t)number_nbytes, number, number_nbytes);
    }
}

static enum terp_status
make_numbers(struct numbering *it, struct cpu_pool *pool,
             struct terp_found_ranks *found)
{
    const int nbytes = terp_value_nbytes(it->chunk->type);
    uint64_t *scratch = terp_cpu_memory_make(pool, (it->nmisses + 1) * 8);

    if (scratch == NULL)
        return TERP_ERR_MEMORY;
    const uint64_t n = sort_keys(it, scratch);
    const uint64_t largest =
        n + ((uint64_t)it->high - (uint64_t)it->low) / it->gap;
    terp_cpu_memory_free(pool, scratch);
    found->nnumbers = largest + 1;
    found->grid.first = it->low;
    found->grid.gap = it->gap;
    found->grid.number_nbytes = largest <= UINT16_MAX   ? 2
                                : largest <= UINT32_MAX ? 4
                                                        : 8;
    found->table = terp_cpu_memory_make(pool, n * (uint64_t)nbytes);
    found->ranks = terp_cpu_memory_make(
        pool, it->nvalues * (uint64_t)found->grid.number_nbytes);
    if (found->table == NULL || found->ranks == NULL)
        return TERP_ERR_MEMORY;
    found->ntable = n;
    write_numbers(it, found);
    return TERP_OK;
}

enum terp_status
terp_cpu_grid_number(struct terp_session *session,
                     const struct terp_chunk *chunk, const void *src,
                     struct terp_found_ranks *found)
{
    struct cpu_pool *pool = cpu_pool_of(session);
    const uint64_t nvalues = terp_chunk_nvalues(chunk);
    struct numbering it = {.chunk = chunk,
                           .values = src,
                           .nvalues = nvalues,
                           .max_nmisses = nvalues / TERP_GRID_FITS_OF};
    enum terp_status st = TERP_ERR_MEMORY;

    it.integers = terp_cpu_memory_make(pool, nvalues * sizeof *it.integers);
    it.keys =
        terp_cpu_memory_make(pool, (it.max_nmisses + 1) * sizeof *it.keys);
    if (it.integers != NULL && it.keys != NULL)
        st = TERP_OK;
    if (st == TERP_OK && make_integers(&it, &found->grid)) {
        found->grid.drift = find_drift(&it);
        if (limit_integers(&it, found->grid.drift))
            st = make_numbers(&it, pool, found);
    }
    terp_cpu_memory_free(pool, it.keys);
    terp_cpu_memory_free(pool, it.integers);
    return st;
}
