/* Begins and ends a call of the API, and gives it the device. */
#include "codec/api/run.h"

#include <stdio.h>

#define MAX_REASON_NBYTES 256

/* The engine's reason is valid only until its next call, which the same call of
 * the API may make. So it is copied here. */
static _Thread_local char reason_text[MAX_REASON_NBYTES];

static const char *
reason_to_refuse(const struct terp_run_options *options,
                 const struct terp_run_result *result)
{
    if (!terp_size_is_known(options->size, sizeof *options))
        return "terp_run_options.size does not match a known version";
    if (result != NULL && !terp_size_is_known(result->size, sizeof *result))
        return "terp_run_result.size does not match a known version";
    if ((unsigned)options->engine > TERP_ENGINE_AUTO)
        return "terp_run_options.engine is unknown";
    if ((unsigned)options->memory > TERP_MEMORY_DEVICE)
        return "terp_run_options.memory is unknown";
    if (options->nthreads < 0)
        return "terp_run_options.nthreads is negative";
    if (options->engine == TERP_ENGINE_CPU &&
        options->memory == TERP_MEMORY_DEVICE)
        return "terp_run_options.engine is the CPU, but .memory is the "
               "device's";
    return NULL;
}

enum terp_status
terp_run_begin(const struct terp_run_options *options,
               const struct terp_run_result *result, struct terp_run *run_ret)
{
    static const struct terp_run_options defaults = {.size = 0};

    if (options == NULL)
        options = &defaults;
    const char *reason = reason_to_refuse(options, result);
    struct terp_context *context = terp_context_of(options->context);
    *run_ret = (struct terp_run){
        .context = context,
        .engine = options->engine,
        .call = {.memory = options->memory,
                 .has_stream = options->has_stream,
                 .stream = options->stream},
        .result = {.used = TERP_ENGINE_CPU, .reason = reason}};
    run_ret->budget = &run_ret->own_budget;
    run_ret->cpu =
        terp_context_cpu_call(context, options->nthreads, run_ret->budget);
    run_ret->call.allocator = run_ret->cpu.allocator;
    return reason == NULL ? TERP_OK : TERP_ERR_ARGUMENT;
}

void
terp_run_branch(const struct terp_run *run, struct terp_run *branch_ret)
{
    *branch_ret = (struct terp_run){.context = run->context,
                                    .engine = run->engine,
                                    .call = run->call,
                                    .cpu = run->cpu,
                                    .result = {.used = TERP_ENGINE_CPU},
                                    .budget = run->budget};
}

enum terp_status
terp_run_end(const struct terp_run *run, enum terp_status st,
             struct terp_run_result *result_ret)
{
    if (result_ret != NULL &&
        terp_size_is_known(result_ret->size, sizeof *result_ret)) {
        size_t size = result_ret->size;
        *result_ret = run->result;
        result_ret->size = size;
    }
    return terp_budget_status(run->budget, st);
}

void
terp_run_share(const struct terp_run *run, terp_cpu_batch_task *task, void *arg,
               uint64_t n)
{
    terp_cpu_batch(task, arg, n, run->cpu.nthreads);
}

const struct terp_device *
terp_run_device(struct terp_run *run, enum terp_status *st_ret)
{
    return terp_context_open(run->context, st_ret, &run->result.reason);
}

enum terp_status
terp_run_note(struct terp_run *run, const struct terp_device *device,
              enum terp_status st)
{
    if (st == TERP_OK)
        return st;
    snprintf(reason_text, sizeof reason_text, "%s", device->engine->reason());
    run->result.reason = reason_text;
    if (device->engine->is_lost(device->opened))
        terp_context_lose(run->context, reason_text);
    return st;
}
