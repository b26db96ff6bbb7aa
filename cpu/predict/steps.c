/* Shares the values of a chunk among threads. */
#include "cpu/predict/steps.h"

/* Fewer blocks are not worth waking the pool for. */
#define MIN_NBLOCKS_SHARED 16

void
terp_cpu_steps_run(cpu_task *task, struct cpu_steps *steps)
{
    const struct cpu_prediction *prediction = steps->prediction;

    terp_cpu_pool_run(prediction->pool, task, steps,
                      div_up(prediction->layout->nvalues, CPU_STEPS_NVALUES),
                      MIN_NBLOCKS_SHARED);
}
