/* Finds repeats (codec/model/reference_search.h). */
#include "cpu/predict/references_find.h"

#include <stdatomic.h>
#include <string.h>

#include "codec/format/bytes.h"

struct samples;

struct search {
    struct terp_repeats repeats;
    struct cpu_pool *pool;
    uint64_t window_nvalues; /* must be equal for a search to be worthwhile */
    struct terp_reference_tile *tiles;
    uint32_t *keys, *hints;
    struct samples *samples;
};

/* ---- samples: does the chunk have repeats? ---- */

/* The key of the window of points from `i` on, in steps of `step`. False if the
 * window has no key. */
static bool
window_key(const struct terp_repeats *r, uint64_t i, int step,
           uint64_t *key_ret)
{
    uint64_t key = 0;

    for (int j = 0; j < TERP_WINDOW_NVALUES;
         j++, i += (uint64_t)(int64_t)step) {
        if (i >= r->nvalues || !r->usable[i])
            return false;
        key = terp_window_key(key, r->words[i] >> r->near_nbits);
    }
    *key_ret = key;
    return true;
}

/* Few words are the first of a sample, so that nearly all points are passed by
 * their first word alone, which has a bit. */
#define FIRST_NBITS 18

struct samples {
    uint64_t key[TERP_REFERENCE_NSLOTS];
    uint64_t point[TERP_REFERENCE_NSLOTS];          /* plus one; 0: none */
    atomic_bool is_repeated[TERP_REFERENCE_NSLOTS]; /* by any thread */
    uint8_t is_first[1 << FIRST_NBITS >> 3];
};

/* The bit of a word in is_first. */
static uint64_t
first_bit(const struct search *s, uint64_t i)
{
    return terp_reference_mixed(s->repeats.words[i] >> s->repeats.near_nbits) >>
           (64 - FIRST_NBITS);
}

static bool
key_of(const struct search *s, uint64_t i, int step, uint64_t *key_ret)
{
    const struct terp_repeats *r = &s->repeats;

    *key_ret = r->words[i] >> r->near_nbits;
    return r->lone ? r->usable[i] : window_key(r, i, step, key_ret);
}

static void
take_samples(const struct search *s)
{
    const uint64_t nvalues = s->repeats.nvalues;
    struct samples *samples = s->samples;

    for (uint64_t j = 0; j < TERP_REFERENCE_NSAMPLES; j++) {
        const uint64_t i = terp_reference_sample_at(nvalues, j);
        uint64_t key;
        if (!key_of(s, i, 1, &key))
            continue;
        const uint64_t slot = terp_reference_slot(terp_reference_mixed(key));
        samples->key[slot] = key;
        samples->point[slot] = i + 1;
        const uint64_t first = first_bit(s, i);
        samples->is_first[first / 8] |= (uint8_t)(1u << first % 8);
    }
}

/* Whether the values from `i` on, in steps of `step`, equal those of a sample,
 * for as many values as make a reference worthwhile. */
static bool
is_sample(const struct search *s, uint64_t sample, uint64_t i, int step)
{
    const struct terp_repeats *r = &s->repeats;
    uint64_t left = s->window_nvalues;

    while (left > 0 && i < r->nvalues && sample < r->nvalues && r->usable[i] &&
           r->usable[sample] && r->words[i] == r->words[sample]) {
        i += (uint64_t)(int64_t)step;
        sample++;
        left--;
    }
    return left == 0;
}

static void
match_samples(const struct search *s, struct samples *samples, uint64_t i,
              int step)
{
    uint64_t key;

    if (!key_of(s, i, step, &key))
        return;
    const uint64_t slot = terp_reference_slot(terp_reference_mixed(key));
    if (samples->point[slot] != 0 && samples->key[slot] == key &&
        samples->point[slot] != i + 1 &&
        !atomic_load_explicit(&samples->is_repeated[slot],
                              memory_order_relaxed) &&
        (s->repeats.lone || is_sample(s, samples->point[slot] - 1, i, step)))
        atomic_store_explicit(&samples->is_repeated[slot], true,
                              memory_order_relaxed);
}

static void
match_range(void *arg, struct cpu_share share)
{
    const struct search *s = arg;

    for (uint64_t i = share.first; i < share.end; i++) {
        if (!bit_at(s->samples->is_first, first_bit(s, i)))
            continue;
        match_samples(s, s->samples, i, 1);
        if (!s->repeats.lone)
            match_samples(s, s->samples, i, -1);
    }
}

/* Whether enough samples repeat to make a search worth its time. */
static enum terp_status
match_all(struct search *s, bool *worth_ret)
{
    struct samples *samples = terp_cpu_memory_make(s->pool, sizeof *samples);
    uint64_t nrepeated = 0;

    if (samples == NULL)
        return TERP_ERR_MEMORY;
    memset(samples, 0, sizeof *samples);
    s->samples = samples;
    take_samples(s);
    terp_cpu_pool_run(s->pool, match_range, s, s->repeats.nvalues,
                      CPU_THREAD_MIN_NVALUES);
    for (uint64_t slot = 0; slot < TERP_REFERENCE_NSLOTS; slot++)
        nrepeated += samples->is_repeated[slot];
    terp_cpu_memory_free(s->pool, samples);
    *worth_ret = nrepeated >= TERP_REFERENCE_MIN_NREPEATED;
    return TERP_OK;
}

/* ---- the search ---- */

/* Finds for each point the first point with its key. `table` maps the upper
 * bits of a key to the first point that has it. */
static void
find_hints(const struct terp_repeats *r, const uint32_t *keys, uint32_t *table,
           int table_nbits, uint32_t *hints)
{
    const uint32_t mask = (uint32_t)((UINT64_C(1) << table_nbits) - 1);

    memset(table, 0xFF, UINT64_C(4) << table_nbits);
    for (uint64_t i = 0; i < r->nvalues; i++) {
        const uint32_t key = keys[i];
        uint32_t slot = (uint32_t)((uint64_t)key << table_nbits >> 32);
        hints[i] = TERP_NO_SOURCE;
        if (key == 0)
            continue;
        while (table[slot] != TERP_NO_SOURCE && keys[table[slot]] != key)
            slot = (slot + 1) & mask;
        if (table[slot] == TERP_NO_SOURCE)
            table[slot] = (uint32_t)i;
        hints[i] = table[slot];
    }
}

static void
make_keys(void *arg, struct cpu_share share)
{
    const struct search *s = arg;

    for (uint64_t i = share.first; i < share.end; i++)
        s->keys[i] = terp_reference_key(&s->repeats, i);
}

static void
search_tiles(void *arg, struct cpu_share share)
{
    const struct search *s = arg;

    for (uint64_t tile = share.first; tile < share.end; tile++)
        s->tiles[tile] = terp_reference_search_tile(&s->repeats, tile);
}

static void
drop_ends(void *arg, struct cpu_share share)
{
    const struct search *s = arg;

    for (uint64_t tile = share.first; tile < share.end; tile++)
        terp_reference_drop_ends(&s->repeats, tile, &s->tiles[tile]);
}

/* Replaces a source that is itself a reference by its own source. Sources
 * precede their references, so one pass suffices. */
static void
find_roots(const struct terp_repeats *r)
{
    for (uint64_t i = 0; i < r->nvalues; i++) {
        const uint32_t source = r->sources[i];
        if (source != TERP_NO_SOURCE && r->sources[source] != TERP_NO_SOURCE)
            r->sources[i] = r->sources[source];
    }
}

/* Returns the savings in 1/16 bit. */
static enum terp_status
search_all(struct search *s, uint64_t *saved_ret)
{
    struct terp_repeats *r = &s->repeats;
    const uint64_t ntiles = div_up(r->nvalues, TERP_REFERENCE_TILE_NVALUES);
    const int table_nbits = bit_width(r->nvalues) + 1;
    uint32_t *table = terp_cpu_memory_make(s->pool, UINT64_C(4) << table_nbits);
    uint32_t *numbers = terp_cpu_memory_make(s->pool, 8 * r->nvalues);

    s->tiles = terp_cpu_memory_make(s->pool, ntiles * sizeof *s->tiles);
    const bool has_memory =
        table != NULL && numbers != NULL && s->tiles != NULL;
    *saved_ret = 0;
    if (has_memory) {
        s->keys = numbers;
        s->hints = numbers + r->nvalues;
        r->hints = s->hints;
        terp_cpu_pool_run(s->pool, make_keys, s, r->nvalues,
                          CPU_THREAD_MIN_NVALUES);
        find_hints(r, s->keys, table, table_nbits, s->hints);
        terp_cpu_pool_run(s->pool, search_tiles, s, ntiles, 2);
        *saved_ret = terp_reference_join_tiles(r, ntiles, s->tiles);
        terp_cpu_pool_run(s->pool, drop_ends, s, ntiles, 2);
        find_roots(r);
    }
    terp_cpu_memory_free(s->pool, table);
    terp_cpu_memory_free(s->pool, numbers);
    terp_cpu_memory_free(s->pool, s->tiles);
    return has_memory ? TERP_OK : TERP_ERR_MEMORY;
}

enum terp_status
terp_cpu_repeats_find(struct cpu_pool *pool, const struct cpu_repeats *repeats,
                      uint32_t *sources_ret, uint64_t *saved_nbits_ret)
{
    struct search s = {.repeats = {.words = repeats->words,
                                   .usable = repeats->usable,
                                   .nvalues = repeats->nvalues,
                                   .sources = sources_ret},
                       .pool = pool};
    enum terp_status st = TERP_OK;
    uint64_t nusable = 0, saved = 0;
    bool worth = true;

    for (uint64_t i = 0; i < repeats->nvalues; i++)
        nusable += repeats->usable[i];
    if (nusable > 0) {
        s.repeats.value_nbits = 16 * repeats->nbits / nusable;
        s.window_nvalues =
            terp_reference_window(s.repeats.value_nbits, repeats->nvalues);
        terp_repeats_set_bits(&s.repeats, repeats->word_nbits,
                              repeats->near_nbits);
        /* Under a lossy bound the survey has checked samples already. */
        if (s.repeats.exact)
            st = match_all(&s, &worth);
        if (st == TERP_OK && worth)
            st = search_all(&s, &saved);
    }
    *saved_nbits_ret = saved / 16;
    return st;
}
