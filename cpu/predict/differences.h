/* Differences of integers along dimensions, which are exact, and sums, which
 * undo them. Differences skip special points: along a dimension each is taken
 * to the last point before it that is not special. */
#pragma once

#include "cpu/pool/pool.h"
#include "cpu/predict/stages.h"

struct cpu_axis
terp_cpu_axis_of(const struct terp_layout *layout, int d);

/* Takes differences along an axis, or sums them. */
typedef void
cpu_axis_stage(void *quants, struct cpu_axis axis);
void
terp_cpu_axis_run(struct cpu_pool *pool, cpu_axis_stage *stage,
                  struct cpu_axis axis, int value_nbytes, void *quants);

/* Takes differences along the dimensions of `dims`, and second differences
 * along those of its upper bits (codec/format/lossless.h). `mask` is NULL if no
 * point is special; special points of `quants` must be 0. */
void
terp_cpu_differences_take(struct cpu_pool *pool,
                          const struct cpu_stages *stages,
                          const struct terp_layout *layout,
                          const uint64_t *mask, unsigned dims, void *quants);

/* Sums differences. Special points of `quants` may have any value. */
void
terp_cpu_differences_sum(struct cpu_pool *pool, const struct cpu_stages *stages,
                         const struct terp_layout *layout, const uint64_t *mask,
                         unsigned dims, void *quants);
