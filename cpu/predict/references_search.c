/* Searches a chunk for values that repeat earlier values, and lists the
 * distances to these and the differences from them. */
#include <stdlib.h>
#include <string.h>

#include "codec/format/references.h"
#include "codec/format/types.h"
#include "codec/model/bound.h"
#include "codec/model/carrier.h"
#include "codec/model/lag.h"
#include "codec/model/repeats.h"
#include "cpu/engine.h"
#include "cpu/predict/references_find.h"

/* The chunk of a search. */
struct search {
    const struct terp_chunk *chunk;
    const struct terp_params *params;
    struct cpu_pool *pool;
    uint64_t nvalues, nreferences;
    int value_nbytes;
    bool is_float;
    struct terp_reference_bound bound; /* 0: lossless */
    uint64_t marker;
    const uint8_t *from; /* the chunk's values, little-endian */
    uint8_t *values;     /* a copy; NULL until one is needed */
    uint64_t *words;     /* of references: the bits of their values */
    uint8_t *usable;
    uint32_t *sources;
    uint8_t *distances, *differences; /* of references, little-endian */
};

static uint64_t
bits_at(const struct search *s, const uint8_t *values, uint64_t i)
{
    const uint8_t *at = values + i * (uint64_t)s->value_nbytes;

    return s->value_nbytes == 4   ? load_le(at, 4)
           : s->value_nbytes == 8 ? load_le(at, 8)
                                  : load_le(at, 2);
}

static uint64_t
value_at(const struct search *s, uint64_t i)
{
    return bits_at(s, s->from, i);
}

static void
put_value(const struct search *s, uint64_t i, uint64_t bits)
{
    store_le(s->values + i * (uint64_t)s->value_nbytes, bits, s->value_nbytes);
}

/* Copies the values. */
static bool
make_values(struct search *s)
{
    const uint64_t nbytes = s->nvalues * (uint64_t)s->value_nbytes;

    s->values = terp_cpu_memory_make(s->pool, nbytes);
    if (s->values == NULL)
        return false;
    memcpy(s->values, s->from, nbytes);
    return true;
}

static bool
make_arrays(struct search *s)
{
    s->words = terp_cpu_memory_make(s->pool, s->nvalues * 9);
    s->sources = terp_cpu_memory_make(s->pool, s->nvalues * 4);
    if (s->words == NULL || s->sources == NULL)
        return false;
    s->usable = (uint8_t *)(s->words + s->nvalues);
    if (!s->chunk->big_endian)
        return true;
    if (!make_values(s))
        return false;
    terp_swap_values(s->values, s->nvalues, s->value_nbytes);
    s->from = s->values;
    return true;
}

/* Inlined, so that loops are compiled for each size of values. */
#define SEARCH_INLINE static inline __attribute__((always_inline))

SEARCH_INLINE uint64_t
bits_of_size(const uint8_t *values, uint64_t i, int value_nbytes)
{
    const uint8_t *at = values + i * (uint64_t)value_nbytes;

    /* gcc 12 makes no vectors of the loop of load_le. */
    return TERP_HOST_IS_BIG_ENDIAN ? load_le(at, value_nbytes)
                                   : load_value(at, value_nbytes);
}

/* Repeats of fill values do not count. */
SEARCH_INLINE void
make_words(const struct search *s, struct cpu_share share, int value_nbytes,
           bool is_float)
{
    const struct terp_params *params = s->params;
    const uint64_t ones = UINT64_MAX >> (64 - 8 * value_nbytes);
    const uint64_t infinity =
        is_float ? terp_references_infinity(s->chunk->type) : 0;
    const bool has_fill = params->has_fill, has_missing = params->has_missing;
    const uint64_t fill = params->fill_bits & ones;
    const uint64_t missing = params->missing_bits & ones;
    const uint8_t *values = s->from;
    uint64_t *restrict words = s->words;
    uint8_t *restrict usable = s->usable;

    for (uint64_t i = share.first; i < share.end; i++) {
        const uint64_t bits = bits_of_size(values, i, value_nbytes);
        const uint64_t word = terp_reference_word(is_float, value_nbytes, bits);
        words[i] = word;
        usable[i] = (word != 0) & !(has_fill & (bits == fill)) &
                    !(has_missing & (bits == missing)) &
                    (!is_float | (word < infinity));
    }
    /* Another thread may make the word before the first. */
    for (uint64_t i = share.first + (share.first == 0); i < share.end; i++)
        usable[i] &= terp_reference_word(
                         is_float, value_nbytes,
                         bits_of_size(values, i - 1, value_nbytes)) != words[i];
}

static void
make_words_of(void *arg, struct cpu_share share)
{
    const struct search *s = arg;

    if (s->value_nbytes == 4 && s->is_float)
        make_words(s, share, 4, true);
    else if (s->value_nbytes == 8 && s->is_float)
        make_words(s, share, 8, true);
    else
        make_words(s, share, s->value_nbytes, s->is_float);
}

/* Makes the words that the search compares. Zeros, values that are not finite,
 * and values that equal their neighbour are left out: they cost little without
 * references. */
static void
find_words(struct search *s)
{
    terp_cpu_pool_run(s->pool, make_words_of, s, s->nvalues,
                      CPU_THREAD_MIN_NVALUES);
}

/* How near equal values must be; -1: equal bits. */
static int
near_nbits_of(const struct search *s)
{
    double most = 0;

    if (s->bound.bound == 0)
        return -1;
    if (s->bound.of_each)
        return terp_repeats_near_nbits_of_each(s->bound.bound, s->value_nbytes);
    for (uint64_t i = 0; i < s->nvalues; i++)
        if (s->usable[i]) {
            const double magnitude =
                terp_reference_float(s->chunk->type, s->words[i]);
            most = magnitude > most ? magnitude : most;
        }
    return terp_repeats_near_nbits(s->bound.bound, -most, most,
                                   s->value_nbytes);
}

SEARCH_INLINE bool
has_value(const struct search *s, uint64_t bits, int value_nbytes)
{
    const uint8_t *values = s->from;
    const uint64_t end = s->nvalues;
    uint64_t n = 0;

    for (uint64_t i = 0; i < end; i++)
        n += bits_of_size(values, i, value_nbytes) == bits;
    return n > 0;
}

/* Finds a NaN, or an integer, that no value of the chunk equals. Unless all
 * values differ, an integer below the number of values is free. */
static bool
find_marker(struct search *s)
{
    uint8_t *is_there = s->usable;

    if (s->is_float) {
        s->marker = terp_references_marker_of_floats(s->value_nbytes);
        return s->value_nbytes == 4   ? !has_value(s, s->marker, 4)
               : s->value_nbytes == 8 ? !has_value(s, s->marker, 8)
                                      : !has_value(s, s->marker, 2);
    }
    memset(is_there, 0, s->nvalues);
    for (uint64_t i = 0; i < s->nvalues; i++)
        if (value_at(s, i) < s->nvalues)
            is_there[value_at(s, i)] = 1;
    const uint8_t *missing = memchr(is_there, 0, s->nvalues);
    if (missing == NULL)
        return false;
    s->marker = (uint64_t)(missing - is_there);
    return s->marker <= UINT64_MAX >> (64 - 8 * s->value_nbytes);
}

/* Puts markers into a copy of the values, and lists distances. */
static bool
make_references(struct search *s)
{
    uint64_t n = 0;

    if (s->values == NULL && !make_values(s))
        return false;
    for (uint64_t i = 0; i < s->nvalues; i++)
        n += s->sources[i] != TERP_NO_SOURCE;
    s->nreferences = n;
    s->distances = terp_cpu_memory_make(s->pool, 12 * n);
    if (s->distances == NULL)
        return false;
    s->differences = s->distances + 4 * n;
    n = 0;
    for (uint64_t i = 0; i < s->nvalues; i++) {
        const uint32_t source = s->sources[i];
        if (source == TERP_NO_SOURCE)
            continue;
        store_le(s->distances + 4 * n, i - source, 4);
        s->words[i] = value_at(s, i);
        put_value(s, i, s->marker);
        n++;
    }
    return true;
}

/* Lets values refer to the value at the lag before, or to the source of that
 * one, where differences are short. Returns the bits that this saves. */
static uint64_t
refer_by_lag(const struct search *s, uint64_t stream_nbytes)
{
    const uint64_t lag = s->bound.lag;
    const int value_nbits = (int)(8 * stream_nbytes / s->nvalues);
    uint64_t saved = 0;

    for (uint64_t i = 0; i < s->nvalues; i++) {
        s->sources[i] = TERP_NO_SOURCE;
        if (i < lag || !s->usable[i])
            continue;
        const uint64_t before = i - lag;
        const uint64_t source =
            s->sources[before] == TERP_NO_SOURCE ? before : s->sources[before];
        const uint64_t a = s->words[i], b = s->words[source];
        const int nbits = bit_width(a > b ? a - b : b - a);
        if (!s->usable[source] || nbits + TERP_LAG_SAVED_NBITS > value_nbits)
            continue;
        s->sources[i] = (uint32_t)source;
        saved += (uint64_t)(value_nbits - nbits) - TERP_LAG_SAVED_NBITS / 2;
    }
    return saved;
}

/* Finds references if they are worth a stream, and none otherwise. */
static enum terp_status
find_references(struct search *s, uint64_t stream_nbytes,
                uint64_t *saved_nbits_ret)
{

    if (!make_arrays(s))
        return TERP_ERR_MEMORY;
    find_words(s);
    const struct cpu_repeats repeats = {.words = s->words,
                                        .usable = s->usable,
                                        .nvalues = s->nvalues,
                                        .word_nbits =
                                            8 * s->value_nbytes - s->is_float,
                                        .nbits = 8 * stream_nbytes,
                                        .near_nbits = near_nbits_of(s)};
    enum terp_status st = TERP_OK;
    if (s->bound.lag > 0)
        *saved_nbits_ret = refer_by_lag(s, stream_nbytes);
    else
        st = terp_cpu_repeats_find(s->pool, &repeats, s->sources,
                                   saved_nbits_ret);
    if (st != TERP_OK ||
        !terp_references_pay(*saved_nbits_ret, stream_nbytes, s->bound.bound) ||
        !find_marker(s))
        return st;
    return make_references(s) ? TERP_OK : TERP_ERR_MEMORY;
}

enum terp_status
terp_cpu_references_search(struct terp_session *session,
                           const struct terp_chunk *chunk,
                           const struct terp_params *params,
                           struct terp_reference_bound bound, const void *src,
                           uint64_t stream_nbytes,
                           struct terp_found_references *found_ret)
{
    const int value_nbytes = terp_value_nbytes(chunk->type);
    const uint64_t nvalues = terp_chunk_nvalues(chunk);
    const bool is_float = !terp_type_is_integer(chunk->type);

    *found_ret = (struct terp_found_references){0};
    if (nvalues >= TERP_NO_SOURCE || (!is_float && params->has_missing))
        return TERP_OK;
    struct search *own = found_ret->own = malloc(sizeof *own);
    if (own == NULL)
        return TERP_ERR_MEMORY;
    struct search s = {.chunk = chunk,
                       .params = params,
                       .pool = cpu_pool_of(session),
                       .from = src,
                       .nvalues = nvalues,
                       .value_nbytes = value_nbytes,
                       .is_float = is_float,
                       .bound = bound};
    const enum terp_status st =
        find_references(&s, stream_nbytes, &found_ret->saved_nbits);
    *own = s;
    if (st == TERP_OK) {
        found_ret->marker = s.marker;
        found_ret->nreferences = s.nreferences;
        found_ret->values = s.values;
        found_ret->distances = s.distances;
        found_ret->differences = s.differences;
    }
    return st;
}

void
terp_cpu_references_forget(struct terp_session *session,
                           const struct terp_found_references *found)
{
    struct search *s = found->own;

    (void)session;
    if (s == NULL)
        return;
    terp_cpu_memory_free(s->pool, s->values);
    terp_cpu_memory_free(s->pool, s->words);
    terp_cpu_memory_free(s->pool, s->sources);
    terp_cpu_memory_free(s->pool, s->distances);
    free(s);
}

enum terp_status
terp_cpu_references_differ(struct terp_session *session,
                           const struct terp_found_references *found,
                           const void *decoded)
{
    const struct search *s = found->own;
    const void *from = decoded == NULL ? s->values : decoded;
    uint64_t n = 0;

    (void)session;
    for (uint64_t i = 0; i < s->nvalues; i++)
        if (s->sources[i] != TERP_NO_SOURCE)
            store_le(s->differences + 8 * n++,
                     terp_reference_difference_within(
                         s->chunk->type, s->bound, s->words[i],
                         bits_at(s, from, s->sources[i])),
                     8);
    return TERP_OK;
}
