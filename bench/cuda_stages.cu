#include "bench/cuda_stages.cuh"

#include <stdlib.h>

#include "gpu/engine/batch.cuh"
#include "gpu/engine/chunks.cuh"

#define MAX_NREPS 41

static struct terp_cuda_device *device;

static void
open_device(void)
{
    const struct terp_cuda_options options = {-1, 0};
    const char *name, *reason = "failed";

    if (device == NULL &&
        cuda_device_open(&options, &device, &name, &reason) != TERP_OK)
        bench_fail("opening the device", reason);
}

/* Restores the saved state. */
static void
reset(const struct cuda_batch *batch, const struct cuda_chunk *from,
      cudaStream_t stream)
{
    bench_check("cudaMemcpyAsync",
                cudaMemcpyAsync(batch->d_chunks, from, sizeof *from,
                                cudaMemcpyDefault, stream));
    bench_check(
        "cudaMemsetAsync",
        cudaMemsetAsync(batch->d_scratch, 0, batch->at.zeroed_nbytes, stream));
}

struct bench_stages
bench_stages_begin(const struct bench_chunks *chunks, bool decode)
{
    struct cuda_call call = {};
    struct cuda_request request = {
        &call,
        1,
        {chunks->params.pipeline == TERP_PIPELINE_RATIO, true, false}};
    struct bench_stages stages;

    call.chunk = &chunks->chunk;
    call.params = decode ? NULL : &chunks->params;
    call.form = CUDA_VALUES;
    call.caller_bound = chunks->params.bound;
    call.step = 1;
    open_device();
    if (cuda_device_enter(device, &stages.visit) != TERP_OK)
        bench_fail("the device", cuda_reason());
    stages.slot = cuda_slot_take(device, false);
    bench_check("memory", cuda_slot_reserve(device, stages.slot, &request));
    bench_check("preparing", cuda_slot_prepare(device, stages.slot, &request));
    stages.batch = &stages.slot->batch;
    struct cuda_chunk *chunk = stages.batch->h_chunks;
    cuda_chunk_clear(chunk);
    chunk->src = decode ? chunks->streams[0] : chunks->values[0];
    chunk->original = chunk->src;
    chunk->dst = decode ? chunks->decoded[0] : chunks->streams[0];
    chunk->values = decode ? chunk->dst : (void *)chunk->src;
    chunk->src_nbytes = chunks->stream_nbytes[0];
    bench_check("cudaMalloc",
                cudaMalloc((void **)&stages.d_saved, sizeof *chunk));
    bench_check("beginning", cuda_chunks_begin(stages.slot));
    return stages;
}

void
bench_stages_run(struct bench_stages *stages, bench_stage *const *stage)
{
    cudaStream_t stream = stages->slot->stream;

    for (; *stage != NULL; stage++)
        bench_check("a stage", (*stage)(stages->batch, stream));
    bench_check("cudaMemcpyAsync",
                cudaMemcpyAsync(stages->d_saved, stages->batch->d_chunks,
                                sizeof *stages->d_saved, cudaMemcpyDefault,
                                stream));
    bench_check("stages", cudaStreamSynchronize(stream));
}

void
bench_stages_end(struct bench_stages *stages)
{
    bench_check("cudaFree", cudaFree(stages->d_saved));
    cuda_slot_give(device, stages->slot);
    cuda_device_leave(device, &stages->visit);
}

/* ---- times ---- */

static int
compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Median seconds of a graph that restores the state and, unless NULL, runs the
 * launches. */
static double
time_graph(const struct bench_stages *stages,
           void (*launches)(const void *arg, cudaStream_t stream),
           const void *arg)
{
    cudaStream_t stream = stages->slot->stream;
    float ms[MAX_NREPS];
    int nreps = bench_nreps(MAX_NREPS);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaEvent_t begin, end;

    bench_check("cudaEventCreate", cudaEventCreate(&begin));
    bench_check("cudaEventCreate", cudaEventCreate(&end));
    bench_check("capture", cudaStreamBeginCapture(
                               stream, cudaStreamCaptureModeThreadLocal));
    reset(stages->batch, stages->d_saved, stream);
    if (launches != NULL)
        launches(arg, stream);
    bench_check("capture", cudaStreamEndCapture(stream, &graph));
    bench_check("graph", cudaGraphInstantiate(&executable, graph, 0));
    for (int i = -3; i < nreps; i++) {
        bench_check("event", cudaEventRecord(begin, stream));
        bench_check("graph", cudaGraphLaunch(executable, stream));
        bench_check("event", cudaEventRecord(end, stream));
        bench_check("stages", cudaEventSynchronize(end));
        if (i >= 0)
            bench_check("event", cudaEventElapsedTime(&ms[i], begin, end));
    }
    bench_check("graph", cudaGraphExecDestroy(executable));
    bench_check("graph", cudaGraphDestroy(graph));
    bench_check("event", cudaEventDestroy(begin));
    bench_check("event", cudaEventDestroy(end));
    qsort(ms, (size_t)nreps, sizeof *ms, compare_floats);
    return (double)ms[nreps / 2] * 1e-3;
}

double
bench_stages_time(const struct bench_stages *stages,
                  void (*launches)(const void *arg, cudaStream_t stream),
                  const void *arg)
{
    return time_graph(stages, launches, arg) - time_graph(stages, NULL, NULL);
}

struct stage_list {
    const struct cuda_batch *batch;
    bench_stage *const *stage;
};

static void
launch_stages(const void *arg, cudaStream_t stream)
{
    const struct stage_list *list = (const struct stage_list *)arg;

    for (bench_stage *const *stage = list->stage; *stage != NULL; stage++)
        bench_check("a stage", (*stage)(list->batch, stream));
}

double
bench_stages_time_all(const struct bench_stages *stages,
                      bench_stage *const *stage)
{
    struct stage_list list = {stages->batch, stage};

    return bench_stages_time(stages, launch_stages, &list);
}

void *
bench_stages_region(const struct bench_stages *stages, uint64_t at,
                    uint64_t nbytes)
{
    void *copy = bench_alloc(TERP_MEMORY_HOST, nbytes);

    bench_check("cudaMemcpy", cudaMemcpy(copy, stages->batch->d_scratch + at,
                                         nbytes, cudaMemcpyDeviceToHost));
    return copy;
}
