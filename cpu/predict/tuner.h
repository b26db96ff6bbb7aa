/* What to predict with, estimated on samples of the original values.
 * All costs are integers, in the units of the dictionary's cost table; ties
 * go to the candidate tried first. */
#ifndef TERP_CPU_PREDICT_TUNER_H
#define TERP_CPU_PREDICT_TUNER_H

#include "cpu/predict/lorenzo.h"
#include "cpu/predict/spline.h"

/* Plans every level of `spline`, whose values were dealt. The estimated cost
 * of the chunk in *cost_ret. */
enum terp_status
terp_cpu_tune_spline(struct cpu_spline *spline, uint64_t *cost_ret);

/* Chooses the dimensions for `lorenzo` and estimates its cost. */
enum terp_status
terp_cpu_tune_lorenzo(struct cpu_lorenzo *lorenzo, const void *values,
                      const struct cpu_fills *fills, uint64_t *cost_ret);

#endif
