/* What the Lorenzo predictor and its tuner share. */
#ifndef TERP_CPU_PREDICT_LORENZO_H
#define TERP_CPU_PREDICT_LORENZO_H

#include "cpu/predict/predictor.h"

/* Chooses the dimensions along which differences are taken, without means, and
 * estimates the chunk's cost. */
enum terp_status
terp_cpu_lorenzo_tune(struct cpu_prediction *lorenzo, uint64_t *cost_ret);

#endif
