/* The range of a chunk's valid values, and how far others are from them. Sums
 * are added up part by part, whatever the number of threads. */
#include <fenv.h>

#include "codec/format/base.h"
#include "cpu/pipeline.h"
#include "cpu/predict/predictor.h"

/* Parts that the pool takes. */
#define NPARTS 64

struct work {
    const struct cpu_stages *stages;
    const uint8_t *values, *others;
    const struct cpu_fills *fills;
    uint64_t nvalues, part_nvalues;
    double half_range;
    double squares[NPARTS];
};

static void
measure_parts(void *arg, struct cpu_share share)
{
    struct work *work = arg;
    const uint64_t value_nbytes = (uint64_t)work->stages->value_nbytes;

    for (uint64_t p = share.first; p < share.end; p++) {
        const uint64_t at = p * work->part_nvalues;
        work->squares[p] = work->stages->squares(
            work->values + at * value_nbytes, work->others + at * value_nbytes,
            min_u64(work->part_nvalues, work->nvalues - at), work->fills,
            work->half_range);
    }
}

static double
mean_square(struct cpu_pool *pool, struct work *work, uint64_t nvalid)
{
    const uint64_t nparts = div_up(work->nvalues, work->part_nvalues);
    double sum = 0;

    terp_cpu_pool_run(pool, measure_parts, work, nparts, 2);
    for (uint64_t p = 0; p < nparts; p++)
        sum += work->squares[p];
    return sum / (double)nvalid;
}

/* `values` and `others` are in the host's byte order. */
static void
measure(const struct terp_params *params, const struct terp_chunk *chunk,
        struct cpu_pool *pool, const void *values, const void *others,
        struct terp_measure *measure_ret)
{
    const struct cpu_stages *stages = chunk->type == TERP_FLOAT32
                                          ? &terp_cpu_stages_f32
                                          : &terp_cpu_stages_f64;
    const uint64_t none = stages->negative_zero_bits;
    struct cpu_fills fills = {{none, none, none}};
    struct terp_layout layout;
    struct cpu_stats stats;

    terp_layout_make(chunk, &layout);
    fills.bits[0] = terp_fill_of(params, stages->value_nbytes);
    fills.bits[1] = terp_missing_of(params, stages->value_nbytes);
    const struct cpu_prediction prediction = {
        .stages = stages, .layout = &layout, .pool = pool, .values = values};
    terp_cpu_scan(&prediction, &fills, &stats);
    struct work work = {.stages = stages,
                        .values = values,
                        .others = others,
                        .fills = &fills,
                        .nvalues = layout.nvalues,
                        .part_nvalues = div_up(layout.nvalues, NPARTS),
                        .half_range = stats.min < stats.max
                                          ? stats.max / 2 - stats.min / 2
                                          : 0};
    measure_ret->half_range = work.half_range;
    measure_ret->square =
        others == NULL || work.half_range == 0
            ? 0
            : mean_square(pool, &work, layout.nvalues - stats.nspecials);
}

enum terp_status
terp_cpu_measure(const struct terp_cpu_call *call,
                 const struct terp_params *params,
                 const struct terp_chunk *chunk, const void *src, void *other,
                 struct terp_measure *measure_ret)
{
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const int value_nbytes = chunk->type == TERP_FLOAT32 ? 4 : 8;
    const uint64_t nvalues = nbytes / (uint64_t)value_nbytes;
    void *swapped = NULL;
    fenv_t host;

    if (chunk->big_endian != TERP_HOST_IS_BIG_ENDIAN) {
        swapped = terp_allocate(call->allocator, nbytes);
        if (swapped == NULL)
            return TERP_ERR_MEMORY;
        memcpy(swapped, src, nbytes);
        terp_swap_values(swapped, nvalues, value_nbytes);
        src = swapped;
        if (other != NULL)
            terp_swap_values(other, nvalues, value_nbytes);
    }
    fegetenv(&host);
    fesetenv(FE_DFL_ENV);
    struct cpu_pool *pool =
        terp_cpu_pool_make((int)min_u64((uint64_t)call->nthreads,
                                        nvalues / CPU_THREAD_MIN_NVALUES),
                           call->allocator);
    measure(params, chunk, pool, src, other, measure_ret);
    terp_cpu_pool_free(pool);
    fesetenv(&host);
    terp_release(call->allocator, swapped);
    return TERP_OK;
}
