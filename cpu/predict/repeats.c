/* Finds, removes and restores copies; follows references. */
#include "cpu/predict/repeats.h"

#include <string.h>

#include "codec/format/copies.h"
#include "codec/format/references.h"
#include "codec/format/types.h"
#include "cpu/engine.h"

/* ---- copies ---- */

/* A dimension of an array as [nouter][extent][inner_nbytes]. */
struct axis {
    uint64_t nouter, extent, inner_nbytes;
};

/* Dimension d of the array in which the dimensions of `single` have one
 * point. */
static struct axis
axis_of(const struct terp_chunk *chunk, int d, unsigned single)
{
    struct axis axis = {1, terp_extent_of(chunk, d),
                        (uint64_t)terp_value_nbytes(chunk->type)};

    for (int e = 0; e < chunk->rank; e++)
        if ((single >> e & 1) == 0 && e < d)
            axis.inner_nbytes *= terp_extent_of(chunk, e);
        else if ((single >> e & 1) == 0 && e > d)
            axis.nouter *= terp_extent_of(chunk, e);
    return axis;
}

static bool
is_copied(const struct axis *axis, const uint8_t *values)
{
    for (uint64_t o = 0; o < axis->nouter; o++) {
        const uint8_t *first = values + o * axis->extent * axis->inner_nbytes;
        for (uint64_t j = 1; j < axis->extent; j++)
            if (memcmp(first, first + j * axis->inner_nbytes,
                       axis->inner_nbytes) != 0)
                return false;
    }
    return true;
}

unsigned
terp_cpu_copies_find(const struct terp_chunk *chunk, const void *src)
{
    unsigned dims = 0;

    for (int d = 0; d < chunk->rank && !chunk->stack; d++) {
        const struct axis axis = axis_of(chunk, d, 0);
        if (axis.extent > 1 && is_copied(&axis, src))
            dims |= 1u << d;
    }
    return dims;
}

/* Keeps the first point along each of some dimensions. */
static void
leave_out(const struct terp_chunk *chunk, unsigned dims, const void *src,
          void *left)
{
    const uint8_t *from = src;
    uint8_t *to = left;
    unsigned single = 0;

    for (int d = 0; d < chunk->rank; d++) {
        if ((dims >> d & 1) == 0)
            continue;
        const struct axis axis = axis_of(chunk, d, single);
        for (uint64_t o = 0; o < axis.nouter; o++)
            memmove(to + o * axis.inner_nbytes,
                    from + o * axis.extent * axis.inner_nbytes,
                    axis.inner_nbytes);
        from = left;
        single |= 1u << d;
    }
}

enum terp_status
terp_cpu_copies_leave_out(struct terp_session *session,
                          const struct terp_chunk *chunk, unsigned dims,
                          uint64_t n, const void *const *src, void *const *left)
{
    (void)session;
    for (uint64_t k = 0; k < n; k++)
        leave_out(chunk, dims, src[k], left[k]);
    return TERP_OK;
}

/* Restores copies along some dimensions, the last value first, so that no value
 * is overwritten before it is read. */
static void
put_back(const struct terp_chunk *chunk, unsigned dims, void *values)
{
    unsigned single = dims;
    uint8_t *first = values;

    for (int d = 0; d < chunk->rank; d++) {
        if ((dims >> d & 1) == 0)
            continue;
        const struct axis axis = axis_of(chunk, d, single);
        for (uint64_t o = axis.nouter; o-- > 0;) {
            const uint8_t *from = first + o * axis.inner_nbytes;
            uint8_t *to = first + o * axis.extent * axis.inner_nbytes;
            for (uint64_t j = axis.extent; j-- > 0;)
                if (to + j * axis.inner_nbytes != from)
                    memcpy(to + j * axis.inner_nbytes, from, axis.inner_nbytes);
        }
        single &= ~(1u << d);
    }
}

enum terp_status
terp_cpu_copies_put_back(struct terp_session *session,
                         const struct terp_chunk *chunk, unsigned dims,
                         uint64_t n, void *const *values)
{
    (void)session;
    for (uint64_t k = 0; k < n; k++)
        put_back(chunk, dims, values[k]);
    return TERP_OK;
}

/* ---- references ---- */

/* A chunk with markers, little-endian, and its references. */
struct followed {
    uint64_t nvalues, nreferences, marker;
    int value_nbytes;
    bool is_float;
    const uint8_t *distances, *differences;
    uint8_t *values;
    uint64_t *words; /* values of the markers */
};

static uint64_t
value_at(const struct followed *it, uint64_t i)
{
    const uint8_t *at = it->values + i * (uint64_t)it->value_nbytes;

    return it->value_nbytes == 4   ? load_le(at, 4)
           : it->value_nbytes == 8 ? load_le(at, 8)
                                   : load_le(at, 2);
}

/* Returns false unless there are as many markers as references, and the source
 * of each lies before it and is no marker. */
static bool
follow(const struct followed *it)
{
    uint64_t n = 0;
    bool valid = true;

    for (uint64_t i = 0; i < it->nvalues; i++) {
        if (value_at(it, i) != it->marker)
            continue;
        const uint64_t distance =
            n < it->nreferences ? load_le(it->distances + 4 * n, 4) : 0;
        valid &= distance > 0 && distance <= i;
        it->words[i] = 0;
        if (valid)
            valid = value_at(it, i - distance) != it->marker;
        if (valid)
            it->words[i] = terp_reference_value(
                it->is_float, it->value_nbytes, value_at(it, i - distance),
                load_le(it->differences + 8 * n, 8));
        n++;
    }
    for (uint64_t i = 0; i < it->nvalues; i++)
        if (value_at(it, i) == it->marker)
            store_le(it->values + i * (uint64_t)it->value_nbytes, it->words[i],
                     it->value_nbytes);
    return valid && n == it->nreferences;
}

static enum terp_status
follow_all(struct cpu_pool *pool, const struct terp_chunk *chunk,
           const struct terp_followed *followed)
{
    const int value_nbytes = terp_value_nbytes(chunk->type);
    struct followed it = {.nvalues =
                              terp_chunk_nbytes(chunk) / (uint64_t)value_nbytes,
                          .nreferences = followed->nreferences,
                          .marker = followed->marker,
                          .value_nbytes = value_nbytes,
                          .is_float = !terp_type_is_integer(chunk->type),
                          .distances = followed->distances,
                          .differences = followed->differences,
                          .values = followed->values};

    it.words = terp_cpu_memory_make(pool, 8 * it.nvalues);
    if (it.words == NULL)
        return TERP_ERR_MEMORY;
    const bool valid = follow(&it);
    terp_cpu_memory_free(pool, it.words);
    if (valid && chunk->big_endian)
        terp_swap_values(it.values, it.nvalues, value_nbytes);
    return valid ? TERP_OK : TERP_ERR_CORRUPT;
}

enum terp_status
terp_cpu_references_follow(struct terp_session *session,
                           const struct terp_chunk *chunk, uint64_t n,
                           const struct terp_followed *followed,
                           enum terp_status *status_ret)
{
    for (uint64_t k = 0; k < n; k++)
        status_ret[k] = follow_all(cpu_pool_of(session), chunk, &followed[k]);
    return TERP_OK;
}
