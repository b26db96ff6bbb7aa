/* The levels of the spline predictor, for the predictor and its tuner. */
#pragma once

#include "cpu/predict/predictor.h"

/* Makes a class of a level, with given predicting dimensions or those of a
 * plan. False if the class has no points. */
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

/* The array of a class; class 0 is the even points. */
void *
terp_cpu_spline_class_values(const struct cpu_prediction *spline, int l,
                             unsigned odd);

/* The pool is woken for at least this many items of so many values. */
uint64_t
terp_cpu_spline_min_nitems(uint64_t nvalues_per_item);

/* Merges the classes of a level into `fine`, all its points in C order. */
void
terp_cpu_spline_interleave(const struct cpu_prediction *spline, int l,
                           void *fine);

/* Moves values from C order to level order, into `work` and `lattice`. */
void
terp_cpu_spline_deinterleave(struct cpu_prediction *spline);

/* Plans every level and estimates the chunk's cost. Values are in level order
 * afterwards. */
enum terp_status
terp_cpu_spline_tune(struct cpu_prediction *spline,
                     struct terp_price *price_ret);
