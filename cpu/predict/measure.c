/* Measures the range of a chunk's valid values, and the errors of decoded
 * values. Sums are added in the order of codec/model/psnr.h, whatever the
 * number of threads. */
#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "codec/model/psnr.h"
#include "cpu/engine.h"
#include "cpu/predict/predictor.h"

struct work {
    const struct cpu_stages *stages;
    const uint8_t *values, *others;
    const struct cpu_fills *fills;
    uint64_t nvalues;
    double half_range;
    double *sums; /* of each block */
};

static void
measure_block(void *arg, uint64_t b)
{
    struct work *work = arg;
    const uint64_t value_nbytes = (uint64_t)work->stages->value_nbytes;
    const uint64_t at = b * TERP_SQUARES_BLOCK_NVALUES;
    work->sums[b] = work->stages->squares(
        work->values + at * value_nbytes, work->others + at * value_nbytes,
        min_u64(TERP_SQUARES_BLOCK_NVALUES, work->nvalues - at), work->fills,
        work->half_range);
}

static enum terp_status
find_mean_square(struct cpu_pool *pool, struct work *work, uint64_t nvalid,
                 double *square_ret)
{
    const uint64_t nblocks = div_up(work->nvalues, TERP_SQUARES_BLOCK_NVALUES);
    double lanes[TERP_SQUARES_NLANES] = {0};

    work->sums = malloc(((size_t)nblocks + 1) * sizeof *work->sums);
    if (work->sums == NULL)
        return TERP_ERR_MEMORY;
    terp_cpu_pool_each(pool, measure_block, work, nblocks, 16);
    for (uint64_t b = 0; b < nblocks; b++)
        lanes[b % TERP_SQUARES_NLANES] += work->sums[b];
    *square_ret = terp_sum_lanes(lanes) / (double)nvalid;
    free(work->sums);
    return TERP_OK;
}

/* A chunk, with values in the host's byte order. */
struct measured {
    struct cpu_pool *pool;
    const struct cpu_stages *stages;
    struct cpu_fills fills;
    uint64_t nvalues;
    const void *values;
    void *swapped; /* byte-swapped copy; NULL if not needed */
};

static enum terp_status
make_measured(struct terp_session *session, const struct terp_params *params,
              const struct terp_chunk *chunk, const void *src,
              struct measured *measured)
{
    const uint64_t nbytes = terp_chunk_nbytes(chunk);

    measured->pool = cpu_pool_of(session);
    measured->stages = cpu_stages_of(chunk->type);
    measured->fills = cpu_fills_of(measured->stages, params);
    measured->nvalues = nbytes / (uint64_t)measured->stages->value_nbytes;
    measured->values = src;
    measured->swapped = NULL;
    if (chunk->big_endian == TERP_HOST_IS_BIG_ENDIAN)
        return TERP_OK;
    measured->swapped = terp_cpu_memory_make(measured->pool, nbytes);
    if (measured->swapped == NULL)
        return TERP_ERR_MEMORY;
    memcpy(measured->swapped, src, nbytes);
    terp_swap_values(measured->swapped, measured->nvalues,
                     measured->stages->value_nbytes);
    measured->values = measured->swapped;
    return TERP_OK;
}

static void
free_measured(struct measured *measured)
{
    terp_cpu_memory_free(measured->pool, measured->swapped);
}

enum terp_status
terp_cpu_measure(struct terp_session *session, const struct terp_params *params,
                 const struct terp_chunk *chunk, uint64_t n,
                 const void *const *src, struct terp_measure *measures_ret)
{
    enum terp_status st = TERP_OK;

    for (uint64_t k = 0; st == TERP_OK && k < n; k++) {
        struct measured of;
        struct cpu_stats stats;
        struct terp_bound_range range;
        st = make_measured(session, params, chunk, src[k], &of);
        if (st != TERP_OK)
            return st;
        terp_cpu_scan(of.stages, of.pool, chunk->type, of.values, of.nvalues,
                      &of.fills, &stats, &range);
        measures_ret[k] = (struct terp_measure){
            .half_range = stats.min < stats.max
                              ? terp_half_range(range.min, range.max)
                              : 0,
            .min = range.min,
            .max = range.max,
            .nspecials = stats.nspecials - range.nguessed};
        memcpy(measures_ret[k].fill_bits, of.fills.bits, sizeof of.fills.bits);
        free_measured(&of);
    }
    return st;
}

static enum terp_status
compare(const struct measured *of, const struct terp_chunk *chunk, void *other,
        struct terp_measure *measure)
{
    struct cpu_fills fills;
    struct work work = {.stages = of->stages,
                        .values = of->values,
                        .others = other,
                        .fills = &fills,
                        .nvalues = of->nvalues,
                        .half_range = measure->half_range};

    memcpy(fills.bits, measure->fill_bits, sizeof fills.bits);
    if (chunk->big_endian != TERP_HOST_IS_BIG_ENDIAN)
        terp_swap_values(other, of->nvalues, of->stages->value_nbytes);
    measure->square = 0;
    return work.half_range == 0
               ? TERP_OK
               : find_mean_square(of->pool, &work,
                                  of->nvalues - measure->nspecials,
                                  &measure->square);
}

enum terp_status
terp_cpu_compare(struct terp_session *session, const struct terp_params *params,
                 const struct terp_chunk *chunk, uint64_t n,
                 const void *const *src, void *const *others,
                 struct terp_measure *measures)
{
    enum terp_status st = TERP_OK;

    for (uint64_t k = 0; st == TERP_OK && k < n; k++) {
        struct measured of;
        st = make_measured(session, params, chunk, src[k], &of);
        if (st == TERP_OK)
            st = compare(&of, chunk, others[k], &measures[k]);
        free_measured(&of);
    }
    return st;
}
