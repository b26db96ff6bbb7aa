/* Finds repeats. Fields are often symmetric, by mirrors and transpositions, and
 * parts of them are what other parts were: so points after one another refer to
 * points that are as far from one another, in either direction. */
#include "cpu/references_find.h"

#include <string.h>

#include "codec/format/bytes.h"
#include "codec/model/reference_samples.h"

struct search {
    const struct cpu_repeats *repeats;
    uint32_t *sources;
    uint32_t *table; /* point + 1 by a hash of what stands there, or 0 */
    int table_nbits;
    bool lone;               /* values are told apart by themselves */
    int near_nbits;          /* words that differ by no more bits are alike */
    uint64_t value_nbits;    /* of a value without references, in 1/16 bit */
    uint64_t window_nvalues; /* that have to be alike for a search */

    /* The segment of points that refer, up to the last one. */
    uint64_t begin; /* its first point; nvalues: there is none */
    uint64_t match; /* what the last point was found to repeat */
    int64_t stride; /* from what the one before it repeats */
    int64_t gain;   /* in 1/16 bit */
    uint64_t saved; /* by segments that are done */
};

static uint64_t
hash_of(const struct search *s, uint64_t word)
{
    return (word * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - s->table_nbits);
}

/* Of the points from `i` on, in steps of `step`. False where there are none. */
static bool
window_key(const struct search *s, uint64_t i, int step, uint64_t *key_ret)
{
    const struct cpu_repeats *r = s->repeats;
    uint64_t key = 0;

    for (int j = 0; j < TERP_WINDOW_NVALUES;
         j++, i += (uint64_t)(int64_t)step) {
        if (i >= r->nvalues || !r->usable[i])
            return false;
        key = terp_window_key(key, r->words[i] >> s->near_nbits);
    }
    *key_ret = key;
    return true;
}

static uint64_t
root_of(const struct search *s, uint64_t i)
{
    return s->sources[i] == CPU_NO_SOURCE ? i : s->sources[i];
}

/* The bits in which two words differ. */
static int
difference_nbits(const struct search *s, uint64_t i, uint64_t j)
{
    const uint64_t a = s->repeats->words[i], b = s->repeats->words[j];

    return bit_width(a > b ? a - b : b - a);
}

/* Whether point i may refer to what stands at `match`. */
static bool
fits(const struct search *s, uint64_t i, uint64_t match)
{
    return match < i && s->repeats->usable[match] &&
           difference_nbits(s, i, root_of(s, match)) <= s->near_nbits;
}

static void
insert(const struct search *s, uint64_t i)
{
    uint64_t key;

    if (s->lone) {
        if (s->sources[i] == CPU_NO_SOURCE && s->repeats->usable[i])
            s->table[hash_of(s, s->repeats->words[i] >> s->near_nbits)] =
                (uint32_t)(i + 1);
        return;
    }
    /* A window that ends here, read either way. */
    if (i + 1 < TERP_WINDOW_NVALUES)
        return;
    if (window_key(s, i + 1 - TERP_WINDOW_NVALUES, 1, &key))
        s->table[hash_of(s, key)] = (uint32_t)(i + 1 - TERP_WINDOW_NVALUES + 1);
    if (window_key(s, i, -1, &key))
        s->table[hash_of(s, key ^ 1)] = (uint32_t)(i + 1);
}

static bool
look_up(const struct search *s, uint64_t key, uint64_t i, int64_t stride,
        uint64_t *match_ret, int64_t *stride_ret)
{
    const uint32_t found = s->table[hash_of(s, key)];

    if (found == 0 || !fits(s, i, found - 1))
        return false;
    *match_ret = found - 1;
    *stride_ret = stride;
    return true;
}

/* Some earlier point that i repeats, and where those after it may be; 0: nobody
 * knows. */
static bool
find_anew(const struct search *s, uint64_t i, uint64_t *match_ret,
          int64_t *stride_ret)
{
    const uint64_t word = s->repeats->words[i];
    uint64_t key;

    if (s->lone) {
        key = word >> s->near_nbits;
        return look_up(s, key, i, 0, match_ret, stride_ret) ||
               (s->near_nbits > 0 &&
                look_up(s, word >> (s->near_nbits - 1) & 1 ? key + 1 : key - 1,
                        i, 0, match_ret, stride_ret));
    }
    return window_key(s, i, 1, &key) &&
           (look_up(s, key, i, 1, match_ret, stride_ret) ||
            look_up(s, key ^ 1, i, -1, match_ret, stride_ret));
}

/* ---- whether there are any ---- */

struct samples {
    uint64_t key[TERP_REFERENCE_NSLOTS];
    uint64_t point[TERP_REFERENCE_NSLOTS]; /* plus one; 0: none */
    bool is_repeated[TERP_REFERENCE_NSLOTS];
    uint64_t maybe[TERP_REFERENCE_NSLOTS]; /* 64 bits a slot, by other bits */
};

static uint64_t
bit_of(uint64_t mixed_key)
{
    return UINT64_C(1) << (mixed_key >> 32 & 63);
}

static bool
key_of(const struct search *s, uint64_t i, int step, uint64_t *key_ret)
{
    *key_ret = s->repeats->words[i] >> s->near_nbits;
    return s->lone ? s->repeats->usable[i] : window_key(s, i, step, key_ret);
}

static void
take_samples(const struct search *s, struct samples *samples)
{
    const uint64_t nvalues = s->repeats->nvalues;

    for (uint64_t j = 0; j < TERP_REFERENCE_NSAMPLES; j++) {
        const uint64_t i = terp_reference_sample_at(nvalues, j);
        uint64_t key;
        if (!key_of(s, i, 1, &key))
            continue;
        const uint64_t mixed_key = terp_reference_mixed(key),
                       slot = terp_reference_slot(mixed_key);
        samples->key[slot] = key;
        samples->point[slot] = i + 1;
        samples->maybe[slot] = bit_of(mixed_key);
    }
}

/* Whether the values from `i` on, in steps of `step`, are those of a sample, as
 * many as are worth a reference. */
static bool
is_sample(const struct search *s, uint64_t sample, uint64_t i, int step)
{
    const struct cpu_repeats *r = s->repeats;
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
ask_samples(const struct search *s, struct samples *samples, uint64_t i,
            int step)
{
    uint64_t key;

    if (!key_of(s, i, step, &key))
        return;
    const uint64_t mixed_key = terp_reference_mixed(key),
                   slot = terp_reference_slot(mixed_key);
    if ((samples->maybe[slot] & bit_of(mixed_key)) != 0 &&
        samples->key[slot] == key && samples->point[slot] != i + 1 &&
        !samples->is_repeated[slot])
        samples->is_repeated[slot] =
            s->lone || is_sample(s, samples->point[slot] - 1, i, step);
}

/* Whether so many samples are repeated that a search is worth its time. */
static enum terp_status
ask_all(const struct search *s, struct cpu_pool *pool, bool *worth_ret)
{
    struct samples *samples = terp_cpu_memory_make(pool, sizeof *samples);
    uint64_t nrepeated = 0;

    if (samples == NULL)
        return TERP_ERR_MEMORY;
    memset(samples, 0, sizeof *samples);
    take_samples(s, samples);
    for (uint64_t i = 0; i < s->repeats->nvalues; i++) {
        ask_samples(s, samples, i, 1);
        if (!s->lone)
            ask_samples(s, samples, i, -1);
    }
    for (uint64_t slot = 0; slot < TERP_REFERENCE_NSLOTS; slot++)
        nrepeated += samples->is_repeated[slot];
    terp_cpu_memory_free(pool, samples);
    *worth_ret = nrepeated >= TERP_REFERENCE_MIN_NREPEATED;
    return TERP_OK;
}

/* ---- the search ---- */

static void
end_segment(struct search *s, uint64_t end)
{
    const uint64_t nvalues = s->repeats->nvalues;

    if (s->begin == nvalues)
        return;
    if (s->gain > 0)
        s->saved += (uint64_t)s->gain;
    for (uint64_t i = s->begin; i < end; i++) {
        if (s->gain <= 0)
            s->sources[i] = CPU_NO_SOURCE;
        insert(s, i);
    }
    s->begin = nvalues;
}

/* What a point repeats. */
struct match {
    uint64_t at;
    int64_t stride; /* to where the next one may be; 0: unknown */
    bool found, follows;
};

/* What point i repeats, and whether it follows from what the points before it
 * repeat. */
static struct match
find_match(const struct search *s, uint64_t i)
{
    const int64_t strides[] = {s->stride, 1, -1};
    const bool goes_on = s->begin < s->repeats->nvalues;
    struct match match = {0};

    for (int j = 0; goes_on && j < 3; j++) {
        match = (struct match){s->match + (uint64_t)strides[j], strides[j],
                               true, j == 0};
        if (strides[j] != 0 && fits(s, i, match.at))
            return match;
    }
    match.follows = false;
    match.found = find_anew(s, i, &match.at, &match.stride);
    if (match.found && match.stride == 0 && goes_on)
        match.stride = (int64_t)(match.at - s->match);
    return match;
}

static void
take_point(struct search *s, uint64_t i)
{
    const uint64_t nvalues = s->repeats->nvalues;
    struct match match = {0};

    if (s->repeats->usable[i])
        match = find_match(s, i);
    if (!match.found) {
        end_segment(s, i);
        insert(s, i);
        return;
    }
    const uint64_t root = root_of(s, match.at);
    const int left =
        s->repeats->near_nbits < 0 ? difference_nbits(s, i, root) : 0;
    int64_t gain = (int64_t)s->value_nbits - 16 * (left + (left > 0)) -
                   TERP_REFERENCE_NBITS;
    if (!match.follows)
        gain -= TERP_REFERENCE_JUMP_NBITS + 16 * bit_width(i - root);
    if (s->begin == nvalues) {
        s->begin = i;
        s->gain = 0;
    }
    s->gain += gain;
    s->match = match.at;
    s->stride = match.stride;
    s->sources[i] = (uint32_t)root;
}

/* How values are told apart, by their type and what they cost. */
static void
choose_keys(struct search *s)
{
    const struct cpu_repeats *repeats = s->repeats;

    if (repeats->near_nbits < 0) {
        s->lone = terp_references_are_lone(repeats->word_nbits,
                                           s->value_nbits / 16, &s->near_nbits);
        return;
    }
    s->lone = repeats->word_nbits == TERP_LONE_WORD_NBITS;
    s->near_nbits = repeats->near_nbits;
}

enum terp_status
terp_cpu_repeats_find(struct cpu_pool *pool, const struct cpu_repeats *repeats,
                      uint32_t *sources_ret, uint64_t *saved_nbits_ret)
{
    struct search s = {
        .repeats = repeats, .sources = sources_ret, .begin = repeats->nvalues};
    uint64_t nusable = 0;
    bool worth;

    *saved_nbits_ret = 0;
    for (uint64_t i = 0; i < repeats->nvalues; i++) {
        sources_ret[i] = CPU_NO_SOURCE;
        nusable += repeats->usable[i];
    }
    if (nusable == 0)
        return TERP_OK;
    s.value_nbits = 16 * repeats->nbits / nusable;
    s.window_nvalues = terp_reference_window(s.value_nbits, repeats->nvalues);
    choose_keys(&s);
    /* Under a bound that has been asked before. */
    if (repeats->near_nbits < 0) {
        enum terp_status st = ask_all(&s, pool, &worth);
        if (st != TERP_OK || !worth)
            return st;
    }
    s.table_nbits = bit_width(repeats->nvalues) + 1;
    s.table = terp_cpu_memory_make(pool, UINT64_C(4) << s.table_nbits);
    if (s.table == NULL)
        return TERP_ERR_MEMORY;
    memset(s.table, 0, UINT64_C(4) << s.table_nbits);
    for (uint64_t i = 0; i < repeats->nvalues; i++)
        take_point(&s, i);
    end_segment(&s, repeats->nvalues);
    terp_cpu_memory_free(pool, s.table);
    *saved_nbits_ret = s.saved / 16;
    return TERP_OK;
}
