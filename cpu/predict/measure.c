/* The range of a chunk's valid values, and how far others are from them. Sums
 * are added up in the order of codec/model/psnr.h, whatever the number of
 * threads. */
#include <stdlib.h>

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
    double *sums; /* of blocks */
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

    work->sums = malloc((size_t)nblocks * sizeof *work->sums);
    if (work->sums == NULL)
        return TERP_ERR_MEMORY;
    terp_cpu_pool_each(pool, measure_block, work, nblocks, 16);
    for (uint64_t b = 0; b < nblocks; b++)
        lanes[b % TERP_SQUARES_NLANES] += work->sums[b];
    *square_ret = terp_sum_lanes(lanes) / (double)nvalid;
    free(work->sums);
    return TERP_OK;
}

/* `values` and `others` are in the host's byte order. */
static enum terp_status
measure(const struct terp_params *params, const struct terp_chunk *chunk,
        struct cpu_pool *pool, const void *values, const void *others,
        struct terp_measure *measure_ret)
{
    const struct cpu_stages *stages = cpu_stages_of(chunk->type);
    struct cpu_fills fills = cpu_fills_of(stages, params);
    const uint64_t nvalues =
        terp_chunk_nbytes(chunk) / (uint64_t)stages->value_nbytes;
    struct cpu_stats stats;

    terp_cpu_scan(stages, pool, values, nvalues, &fills, &stats);
    struct work work = {.stages = stages,
                        .values = values,
                        .others = others,
                        .fills = &fills,
                        .nvalues = nvalues,
                        .half_range = terp_half_range(stats.min, stats.max)};
    measure_ret->half_range = work.half_range;
    measure_ret->square = 0;
    measure_ret->min = stats.min;
    measure_ret->max = stats.max;
    return others == NULL || work.half_range == 0
               ? TERP_OK
               : find_mean_square(pool, &work, nvalues - stats.nspecials,
                                  &measure_ret->square);
}

enum terp_status
terp_cpu_measure(struct terp_session *session, const struct terp_params *params,
                 const struct terp_chunk *chunk, const void *src, void *other,
                 struct terp_measure *measure_ret)
{
    struct cpu_pool *pool = cpu_pool_of(session);
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const int value_nbytes = chunk->type == TERP_FLOAT32 ? 4 : 8;
    const uint64_t nvalues = nbytes / (uint64_t)value_nbytes;
    void *swapped = NULL;

    if (chunk->big_endian != TERP_HOST_IS_BIG_ENDIAN) {
        swapped = terp_cpu_memory_make(pool, nbytes);
        if (swapped == NULL)
            return TERP_ERR_MEMORY;
        memcpy(swapped, src, nbytes);
        terp_swap_values(swapped, nvalues, value_nbytes);
        src = swapped;
        if (other != NULL)
            terp_swap_values(other, nvalues, value_nbytes);
    }
    const enum terp_status st =
        measure(params, chunk, pool, src, other, measure_ret);
    terp_cpu_memory_free(pool, swapped);
    return st;
}
