/* What the spline predictor and its tuner share: the levels. */
#pragma once

#include "cpu/predict/predictor.h"

/* One class of one level, as these dimensions predict it, or as a plan has it.
 * False when it has no points. */
bool
terp_cpu_spline_class(const struct cpu_prediction *spline, int l, unsigned odd,
                      unsigned predicting, enum terp_spline kind,
                      struct cpu_class *cls_ret);
bool
terp_cpu_spline_planned_class(const struct cpu_prediction *spline, int l,
                              unsigned odd, const struct terp_level_plan *plan,
                              struct cpu_class *cls_ret);

struct cpu_quantizer
terp_cpu_spline_quantizer(const struct cpu_prediction *spline, int l);

/* The array of a class; the even points are class 0. */
void *
terp_cpu_spline_class_values(const struct cpu_prediction *spline, int l,
                             unsigned odd);

/* How many items of so many values are worth waking the pool for. */
uint64_t
terp_cpu_spline_min_nitems(uint64_t nvalues_per_item);

/* The classes of a level to all its points, `fine`, in C order. */
void
terp_cpu_spline_interleave(const struct cpu_prediction *spline, int l,
                           void *fine);

/* Values in C order to level order, in `work` and `lattice`. */
void
terp_cpu_spline_deinterleave(struct cpu_prediction *spline);

/* Plans every level and estimates the chunk's cost. Leaves the values in level
 * order. */
enum terp_status
terp_cpu_spline_tune(struct cpu_prediction *spline,
                     struct terp_price *price_ret);
