/* Differences of integers along dimensions, which are exact, and sums, which
 * undo them. Differences do not see special points: along a dimension each is
 * to the last point before it that is not special. */
#pragma once

#include "cpu/pool/pool.h"
#include "cpu/predict/stages.h"

struct cpu_axis
terp_cpu_axis_of(const struct terp_layout *layout, int d);

/* Takes one of the stages along an axis, or undoes it. */
typedef void
cpu_axis_stage(void *quants, struct cpu_axis axis);
void
terp_cpu_axis_run(struct cpu_pool *pool, cpu_axis_stage *stage,
                  struct cpu_axis axis, int value_nbytes, void *quants);

/* Along the dimensions of `dims`, and once more along those of the bits above
 * (codec/format/lossless.h). `mask` is NULL where no point is special; else
 * special points are 0. */
void
terp_cpu_differences_take(struct cpu_pool *pool,
                          const struct cpu_stages *stages,
                          const struct terp_layout *layout,
                          const uint64_t *mask, unsigned dims, void *quants);

/* Special points may be anything. */
void
terp_cpu_differences_sum(struct cpu_pool *pool, const struct cpu_stages *stages,
                         const struct terp_layout *layout, const uint64_t *mask,
                         unsigned dims, void *quants);
