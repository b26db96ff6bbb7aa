/* The steps of a prediction that take values one by one: the pool's threads
 * share the values of a chunk. */
#pragma once

#include <stdatomic.h>

#include "codec/format/base.h"
#include "cpu/predict/predictor.h"

/* The values that a worker takes, whole words of the mask. */
#define CPU_STEPS_NVALUES UINT64_C(4096)

/* What the threads share. */
struct cpu_steps {
    const struct cpu_prediction *prediction;
    void *values; /* the decoded values */
    atomic_uint_fast64_t nunpredictable;
};

/* The values of a share, their place in bytes, and their integers. */
struct cpu_steps_range {
    uint64_t at, n, offset;
    void *quants;
};

static inline struct cpu_steps_range
cpu_steps_range_of(const struct cpu_prediction *prediction,
                   struct cpu_share share)
{
    const uint64_t at = share.first * CPU_STEPS_NVALUES;
    const uint64_t end =
        min_u64(share.end * CPU_STEPS_NVALUES, prediction->layout->nvalues);
    const uint64_t offset = at * (uint64_t)prediction->stages->value_nbytes;

    return (struct cpu_steps_range){at, end - at, offset,
                                    (uint8_t *)prediction->work + offset};
}

/* Runs a task over all values, in blocks. */
void
terp_cpu_steps_run(cpu_task *task, struct cpu_steps *steps);
