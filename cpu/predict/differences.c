/* Takes differences of integers along dimensions, and sums them. */
#include "cpu/predict/differences.h"

#include "codec/format/base.h"

struct cpu_axis
terp_cpu_axis_of(const struct terp_layout *layout, int d)
{
    struct cpu_axis axis = {.extent = layout->dims[d], .ninner = 1};

    for (int e = 0; e < d; e++)
        axis.ninner *= layout->dims[e];
    axis.nouter = layout->nvalues / (axis.extent * axis.ninner);
    axis.end = axis.ninner;
    return axis;
}

/* STRIP_NVALUES: the lines side by side that a worker takes; one value of each
 * fits into the nearest cache. MIN_NVALUES_SHARED: fewer values are not worth
 * waking the pool for. */
#define STRIP_NVALUES UINT64_C(2048)
#define MIN_NVALUES_SHARED 65536

/* The task that workers share. */
struct axis_run {
    cpu_axis_stage *stage;
    struct cpu_axis axis;
    uint64_t outer_nbytes; /* between sets of lines side by side */
    uint64_t nstrips;      /* of one set */
    uint8_t *quants;
};

/* Handles whole sets of lines, or strips of them. */
static void
run_strips(void *arg, struct cpu_share share)
{
    const struct axis_run *run = arg;
    struct cpu_axis axis = run->axis;

    axis.nouter = run->nstrips == 1 ? share.end - share.first : 1;
    for (uint64_t i = share.first; i < share.end; i += axis.nouter) {
        axis.begin = i % run->nstrips * STRIP_NVALUES;
        axis.end = run->nstrips == 1
                       ? axis.ninner
                       : min_u64(axis.begin + STRIP_NVALUES, axis.ninner);
        run->stage(run->quants + i / run->nstrips * run->outer_nbytes, axis);
    }
}

void
terp_cpu_axis_run(struct cpu_pool *pool, cpu_axis_stage *stage,
                  struct cpu_axis axis, int value_nbytes, void *quants)
{
    const uint64_t outer_nvalues = axis.extent * axis.ninner;
    struct axis_run run = {.stage = stage,
                           .axis = axis,
                           .outer_nbytes =
                               outer_nvalues * (uint64_t)value_nbytes,
                           .nstrips = div_up(axis.ninner, STRIP_NVALUES),
                           .quants = quants};

    terp_cpu_pool_run(
        pool, run_strips, &run, axis.nouter * run.nstrips,
        axis.nouter * outer_nvalues < MIN_NVALUES_SHARED ? UINT64_MAX : 2);
}

/* Whether `dims` has differences of at least this order along d. */
static bool
is_taken(unsigned dims, int d, int order)
{
    return dims >> (d + (order - 1) * TERP_LOSSLESS_TWICE_SHIFT) & 1;
}

/* Gives special points the last integer before them on their line that is not
 * special, or 0 at the begin of a line. The differences at special points are
 * then 0, and the next difference is taken to that integer. */
static void
repeat_along(const struct cpu_stages *stages, const struct cpu_axis *axis,
             const uint64_t *mask, void *quants)
{
    const uint64_t nvalues = axis->extent * axis->ninner;
    const uint64_t first = (axis->first + 1) * axis->ninner;

    for (uint64_t o = 0; o < axis->nouter && first < nvalues; o++)
        stages->repeat(quants, mask, o * nvalues + first, (o + 1) * nvalues,
                       axis->ninner);
}

void
terp_cpu_differences_take(struct cpu_pool *pool,
                          const struct cpu_stages *stages,
                          const struct terp_layout *layout,
                          const uint64_t *mask, unsigned dims, void *quants)
{
    for (int d = TERP_NDIMS - 1; d >= 0; d--) {
        struct cpu_axis axis = terp_cpu_axis_of(layout, d);
        for (int order = 1; order <= TERP_LOSSLESS_MAX_ORDER; order++) {
            axis.first = (uint64_t)order - 1;
            if (!is_taken(dims, d, order))
                continue;
            if (mask != NULL)
                repeat_along(stages, &axis, mask, quants);
            terp_cpu_axis_run(pool, stages->difference, axis,
                              stages->value_nbytes, quants);
        }
    }
}

void
terp_cpu_differences_sum(struct cpu_pool *pool, const struct cpu_stages *stages,
                         const struct terp_layout *layout, const uint64_t *mask,
                         unsigned dims, void *quants)
{
    for (int d = 0; d < TERP_NDIMS; d++) {
        struct cpu_axis axis = terp_cpu_axis_of(layout, d);
        if (mask == NULL && axis.ninner == 1 && is_taken(dims, d, 2)) {
            terp_cpu_axis_run(pool, stages->accumulate_twice, axis,
                              stages->value_nbytes, quants);
            continue;
        }
        for (int order = TERP_LOSSLESS_MAX_ORDER; order > 0; order--) {
            axis.first = (uint64_t)order - 1;
            if (!is_taken(dims, d, order))
                continue;
            if (mask != NULL)
                stages->clear(quants, mask, layout->nvalues);
            terp_cpu_axis_run(pool, stages->accumulate, axis,
                              stages->value_nbytes, quants);
        }
    }
}
