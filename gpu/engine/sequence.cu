/* The steps of encoding and decoding, and their graphs.
 *
 * Graphs are made node by node, not captured from a stream: while any stream is
 * being captured, a cudaDeviceSynchronize or cudaMemcpy of another thread fails
 * and spoils the capture, whatever the capture's mode. The host application is
 * free to call both. */
#include "gpu/engine/sequence.cuh"

#include <string.h>

#include "gpu/engine/chunks.cuh"

/* ---- the steps ---- */

/* Where a step runs, which streams it waits for, and which batches run it. A
 * step without SIDE or APART runs on the slot's own stream. A side stream waits
 * for the work that the slot's stream has when the step is reached, then runs
 * beside later steps. A step with a JOIN flag first lets the slot's stream wait
 * for a side stream. Example: {cuda_specials_write, JOIN | SIDE} lets the
 * slot's stream wait for the first side stream, and then runs on that side
 * stream. */
enum {
    SIDE = 1,        /* runs on the first side stream */
    JOIN = 2,        /* waits for the first side stream */
    JOIN_RATIO = 4,  /* the same, if the batch may have ratio streams */
    LARGE = 8,       /* only chunks of many partitions */
    APART = 16,      /* runs on the second side stream */
    JOIN_APART = 32, /* waits for the second side stream */
    JOIN_WIDE = 64,  /* waits for the first side stream, if codes may be wide
                        and are in tile order */
    JOIN_LOSSLESS = 128, /* the same, if streams may be lossless */
    TILES = 256,         /* if levels are left out, works on slot->tiles */
    LATTICE = 512,       /* if levels are left out, works on slot->lattice */
    WIDE = 1024,         /* only if codes may be wide */
    LOSSLESS = 2048,     /* only if streams may be lossless */
    BOUNDED = 4096,      /* only if streams may have a bound above 0 */
    LORENZO = 8192,      /* only if chunks may have this prediction */
    SPLINES = 16384,
    TELL = 32768, /* only if kernels are launched in two goes (run_in_two) */
    LATER = 65536 /* in the second of two goes */
};

struct sequence_step {
    cuda_stage *run;
    unsigned where;
};

/* If the form of a batch leaves the prediction open, all three kinds of
 * prediction stages run, and each chunk takes part in those of its own
 * prediction. */
static const struct sequence_step encode_steps[] = {
    {cuda_swap_src, 0},
    {cuda_carry, 0},
    {cuda_scan, 0},
    {cuda_pointwise_code, 0},
    {cuda_lossless_find_common, LOSSLESS},
    {cuda_find_domains, BOUNDED | APART},
    {cuda_low_bits_find, WIDE},
    {cuda_tune, BOUNDED},
    {cuda_lossless_tune, LOSSLESS},
    {cuda_plans_tell, TELL | SIDE},
    {cuda_lorenzo_low_bits, LATER | LORENZO | WIDE | SIDE},
    {cuda_lorenzo_quantize, LATER | LORENZO | BOUNDED | SIDE},
    {cuda_spline_begin, BOUNDED},
    {cuda_spline_quantize, LATER | SPLINES | BOUNDED},
    {cuda_lossless_quantize, LATER | LOSSLESS},
    {cuda_specials_write, LATER | JOIN | SIDE},
    {cuda_shifts_find, LATER | LOSSLESS},
    {cuda_signs_write, LATER | SIDE},
    {cuda_tails_write, LATER | WIDE | SIDE},
    {cuda_shifts_write, LATER | LOSSLESS | SIDE},
    {cuda_remainders_write, LATER | LOSSLESS | SIDE},
    {cuda_escapes_write, LATER | SIDE},
    {cuda_context_sort, LATER},
    {cuda_low_bits_split, LATER | WIDE | JOIN_WIDE},
    {cuda_low_bits_place, LATER | SIDE | WIDE},
    {cuda_tiles_encode, LATER},
    {cuda_partitions_encode, LATER | JOIN},
    {cuda_stream_write, LATER | JOIN_APART},
    {cuda_low_bits_write, LATER | WIDE | LARGE},
    {cuda_references_find, LATER | LOSSLESS},
    {cuda_seal, LATER | LARGE},
    {NULL, 0}};

static const struct sequence_step measure_steps[] = {
    {cuda_swap_src, 0}, {cuda_scan, 0}, {NULL, 0}};

/* All stages are safe with any bytes, so no stage waits for the checksum. */
static const struct sequence_step decode_steps[] = {
    {cuda_verify, APART},
    {cuda_model_read, 0},
    {cuda_coarsen, 0},
    {cuda_plans_tell, TELL | SIDE},
    {cuda_specials_mask, SIDE},
    {cuda_signs_read, SIDE},
    {cuda_coarsen_bits, SIDE},
    {cuda_lossless_read, LOSSLESS | JOIN_LOSSLESS},
    {cuda_tiles_decode, TILES},
    {cuda_low_bits_join, WIDE | TILES},
    {cuda_context_restore, JOIN_RATIO | LATTICE},
    {cuda_tails_place, WIDE | LATTICE},
    {cuda_shifts_place, LOSSLESS | LATTICE},
    {cuda_spline_begin, LATTICE},
    {cuda_escapes_place, LATTICE},
    {cuda_lorenzo_reconstruct, LATER | LORENZO | SIDE | LATTICE},
    {cuda_lossless_reconstruct, LATER | LOSSLESS | SIDE | LATTICE},
    {cuda_remainders_place, LATER | LOSSLESS | SIDE | LATTICE},
    {cuda_spline_reconstruct, LATER | SPLINES | LATTICE},
    {cuda_pointwise_decode, LATER | JOIN | LATTICE},
    {cuda_uncarry, LATER | LATTICE},
    {cuda_specials_read, LATER},
    {cuda_swap_dst, LATER | JOIN_APART | LATTICE},
    {cuda_wanted_gather, LATER},
    {NULL, 0}};

/* ---- a graph in the making ---- */

/* The most predecessors of a node: the last node of its own stream, and one for
 * each fork or join since. `join` fails above this number, and the kernels are
 * then launched one by one. */
#define MAX_NAFTER 8

/* A stream while a graph is made: the predecessors of its next node. */
struct branch {
    int nafter;
    cudaGraphNode_t after[MAX_NAFTER];
    /* true: the next node starts after the predecessor has ended; false: when
     * the predecessor calls let_next_kernel_come. */
    bool is_whole[MAX_NAFTER];
};

/* Receives a slot's launches. `recorder` is the first member: add_kernel casts
 * its address to that of the whole. */
struct recording {
    struct launch_recorder recorder;
    cudaGraph_t graph;
    const struct cuda_slot *slot;
    struct branch main, side[CUDA_NSIDES];
};

static cudaError_t
add_edges(cudaGraph_t graph, const struct branch *branch, cudaGraphNode_t node)
{
    cudaGraphNode_t to[MAX_NAFTER];

    if (branch->nafter == 0)
        return cudaSuccess;
    for (int i = 0; i < branch->nafter; i++)
        to[i] = node;
#if CUDART_VERSION >= 12030
    cudaGraphEdgeData edges[MAX_NAFTER] = {};
    for (int i = 0; i < branch->nafter; i++)
        if (!branch->is_whole[i]) {
            edges[i].type = cudaGraphDependencyTypeProgrammatic;
            edges[i].from_port = cudaGraphKernelNodePortProgrammatic;
        }
#if CUDART_VERSION >= 13000
    return cudaGraphAddDependencies(graph, branch->after, to, edges,
                                    (size_t)branch->nafter);
#else
    return cudaGraphAddDependencies_v2(graph, branch->after, to, edges,
                                       (size_t)branch->nafter);
#endif
#else
    return cudaGraphAddDependencies(graph, branch->after, to,
                                    (size_t)branch->nafter);
#endif
}

static cudaError_t
add_kernel(struct launch_recorder *recorder, cudaStream_t stream,
           const cudaKernelNodeParams *kernel)
{
    struct recording *recording = (struct recording *)recorder;
    struct branch *branch = &recording->main;
    cudaGraphNode_t node;

    for (int i = 0; i < CUDA_NSIDES; i++)
        if (stream == recording->slot->side[i].stream)
            branch = &recording->side[i];
    cudaError_t error =
        cudaGraphAddKernelNode(&node, recording->graph, NULL, 0, kernel);
    if (error == cudaSuccess)
        error = add_edges(recording->graph, branch, node);
    branch->nafter = 1;
    branch->after[0] = node;
    branch->is_whole[0] = !kernels_wait;
    return error;
}

/* Makes the next node of `waiting` a successor of all current predecessors of
 * `branch`. */
static cudaError_t
join(struct branch *waiting, const struct branch *branch)
{
    for (int i = 0; i < branch->nafter; i++) {
        int at = 0;
        while (at < waiting->nafter && waiting->after[at] != branch->after[i])
            at++;
        if (at == MAX_NAFTER)
            return cudaErrorInvalidValue;
        waiting->after[at] = branch->after[i];
        waiting->is_whole[at] = true;
        if (at == waiting->nafter)
            waiting->nafter++;
    }
    return cudaSuccess;
}

/* ---- launching ---- */

/* Lets a side wait for the slot's stream. */
static cudaError_t
fork_side(const struct cuda_slot *slot, int i, struct recording *recording)
{
    if (recording != NULL)
        return join(&recording->side[i], &recording->main);
    cudaError_t error = cudaEventRecord(slot->side[i].forked, slot->stream);
    return error == cudaSuccess ? cudaStreamWaitEvent(slot->side[i].stream,
                                                      slot->side[i].forked, 0)
                                : error;
}

/* Lets the slot's stream wait for a side. */
static cudaError_t
join_side(const struct cuda_slot *slot, int i, struct recording *recording)
{
    if (recording != NULL)
        return join(&recording->main, &recording->side[i]);
    cudaError_t error =
        cudaEventRecord(slot->side[i].joined, slot->side[i].stream);
    return error == cudaSuccess
               ? cudaStreamWaitEvent(slot->stream, slot->side[i].joined, 0)
               : error;
}

static const struct cuda_batch *
batch_of_step(const struct cuda_slot *slot, const struct sequence_step *step)
{
    return slot->batch.decoding.nskipped == 0 ? &slot->batch
           : step->where & TILES              ? &slot->tiles
           : step->where & LATTICE            ? &slot->lattice
                                              : &slot->batch;
}

/* The kinds of steps that a batch does not need, among LARGE, WIDE, LOSSLESS,
 * BOUNDED, LORENZO and SPLINES. */
static unsigned
needless_kinds(const struct cuda_batch *batch)
{
    const struct cuda_plans &plans = batch->plans;

    return (batch->npartitions > CUDA_SMALL_CHUNK_NPARTITIONS ? 0 : LARGE) |
           (batch->may_have_low_bits ? 0 : WIDE) |
           (batch->may_be_lossless ? 0 : LOSSLESS) |
           (batch->may_be_lossless && !batch->may_have_low_bits ? BOUNDED : 0) |
           (cuda_plans_may_have(plans, plans.lorenzo, 1) ? 0 : LORENZO) |
           (cuda_plans_may_have(plans, plans.splines, 1) ? 0 : SPLINES);
}

/* Launches kernels of the slot's batch. `recording` is the graph
 * that receives them, or NULL. */
static cudaError_t
enqueue(const struct cuda_slot *slot, enum cuda_launches which,
        struct recording *recording)
{
    const bool ratio = slot->batch.coding == TERP_CODING_RATIO;
    unsigned joins = JOIN;
    const unsigned others = needless_kinds(&slot->batch) |
                            (which == CUDA_LAUNCH_EARLY ? LATER : TELL);
    const struct sequence_step *step = slot->batch.decodes ? decode_steps
                                       : slot->batch.encoding.measures
                                           ? measure_steps
                                           : encode_steps;

    if (ratio)
        joins |= JOIN_RATIO;
    else if (slot->batch.may_have_low_bits)
        joins |= JOIN_WIDE;
    if (slot->batch.may_be_lossless)
        joins |= JOIN_LOSSLESS;
    /* the side has received kernels since its last join */
    bool works[CUDA_NSIDES] = {};
    cudaError_t error =
        which == CUDA_LAUNCH_LATER ? cudaSuccess : cuda_chunks_begin(slot);
    for (; error == cudaSuccess && step->run != NULL; step++) {
        cudaStream_t stream = slot->stream;
        if (step->where & others ||
            (which == CUDA_LAUNCH_LATER && !(step->where & LATER)))
            continue;
        const bool is_joined[CUDA_NSIDES] = {(step->where & joins) != 0,
                                             (step->where & JOIN_APART) != 0};
        for (int side = 0; side < CUDA_NSIDES; side++)
            if (error == cudaSuccess && is_joined[side] && works[side]) {
                error = join_side(slot, side, recording);
                works[side] = false;
            }
        if (error == cudaSuccess && step->where & (SIDE | APART)) {
            int side = step->where & SIDE ? 0 : 1;
            stream = slot->side[side].stream;
            error = fork_side(slot, side, recording);
            works[side] = true;
        }
        if (error == cudaSuccess)
            error = step->run(batch_of_step(slot, step), stream);
    }
    for (int side = 0; side < CUDA_NSIDES; side++)
        if (error == cudaSuccess && which == CUDA_LAUNCH_EARLY && works[side])
            error = join_side(slot, side, recording);
    return error == cudaSuccess && which != CUDA_LAUNCH_EARLY
               ? cuda_chunks_end(slot)
               : error;
}

/* Instantiating a graph sets a flag of the primary context
 * (CU_CTX_LMEM_RESIZE_TO_MAX). The host application may use the same context,
 * so the flags are restored. */
static cudaError_t
instantiate(const struct cuda_driver *driver, cudaGraph_t graph,
            cudaGraphExec_t *executable_ret)
{
    /* Without the mutex, a thread could read flags that another has changed. */
    static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;
    const cuda_lock lock(&alone);
    unsigned before, after;

    cudaError_t error = (cudaError_t)driver->context_flags(&before);
    if (error == cudaSuccess)
        error = cudaGraphInstantiate(executable_ret, graph, 0);
    if (error != cudaSuccess)
        *executable_ret = NULL;
    else if (driver->set_context_flags != NULL &&
             driver->context_flags(&after) == CUDA_SUCCESS && after != before)
        driver->set_context_flags(before);
    return error;
}

static cudaError_t
make_graph(const struct terp_cuda_device *device, const struct cuda_slot *slot,
           enum cuda_launches which, cudaGraphExec_t *executable_ret)
{
    struct recording recording = {};

    recording.recorder.add = add_kernel;
    recording.slot = slot;
    cudaError_t error = cudaGraphCreate(&recording.graph, 0);
    if (error != cudaSuccess)
        return error;
    thread_recorder = &recording.recorder;
    error = enqueue(slot, which, &recording);
    thread_recorder = NULL;
    if (error == cudaSuccess)
        error = instantiate(&device->driver, recording.graph, executable_ret);
    cudaGraphDestroy(recording.graph);
    return error;
}

static void
drop(struct cuda_sequence *sequence)
{
    if (sequence->graph != NULL)
        cudaGraphExecDestroy(sequence->graph);
    sequence->graph = NULL;
    sequence->seen = false;
}

void
cuda_sequences_drop(struct cuda_sequences *sequences)
{
    drop(&sequences->first);
    for (struct cuda_sequence &later : sequences->later)
        drop(&later);
}

/* Whether the sequence has these kernels of the slot's batch. */
static bool
is_of(const struct cuda_sequence *sequence, const struct cuda_slot *slot,
      enum cuda_launches which)
{
    if (!sequence->seen || sequence->which != which)
        return false;
    /* If only padding bytes differed, a new graph would be made; no harm. */
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-*)
    return memcmp(&sequence->batch, &slot->batch, sizeof slot->batch) == 0;
}

/* Launches kernels, as a graph if `sequence` has had the same ones before. */
static cudaError_t
run_launches(const struct terp_cuda_device *device,
             const struct cuda_slot *slot, enum cuda_launches which,
             struct cuda_sequence *sequence)
{
    cudaError_t error = cudaSuccess;

    if (!is_of(sequence, slot, which)) {
        drop(sequence);
        sequence->seen = true;
        sequence->which = which;
        sequence->batch = slot->batch;
        return enqueue(slot, which, NULL);
    }
    if (sequence->graph == NULL)
        error = make_graph(device, slot, which, &sequence->graph);
    if (error == cudaSuccess)
        error = cudaGraphLaunch(sequence->graph, slot->stream);
    if (error == cudaSuccess)
        return error;
    /* Perhaps memory was short. If the device is lost, enqueue fails too. */
    cudaGetLastError();
    drop(sequence);
    sequence->seen = true;
    return enqueue(slot, which, NULL);
}

/* How often the host looks for the plans before it asks CUDA whether the
 * kernels still run: some milliseconds, so that it asks only if they failed or
 * run unusually long. */
#define MAX_NTURNS (1 << 20)

/* Waits until cuda_plans_tell has told the plans, or all kernels have ended. */
static cudaError_t
await_plans(struct cuda_slot *slot)
{
    const volatile unsigned *is_known = &slot->batch.h_plans->is_known;
    cudaError_t error = cudaErrorNotReady;

    while (*is_known == 0 && error == cudaErrorNotReady) {
        for (int i = 0; i < MAX_NTURNS && *is_known == 0; i++)
            ;
        if (*is_known == 0)
            error = cudaStreamQuery(slot->stream);
        /* CUDA keeps this as the thread's last error: the host must not see
         * it. */
        if (cudaPeekAtLastError() == cudaErrorNotReady)
            cudaGetLastError();
    }
    if (error != cudaSuccess && error != cudaErrorNotReady)
        return error;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    slot->batch.plans = *slot->batch.h_plans;
    return cudaSuccess;
}

/* Launches the batch in two goes. The first one tells the host the plans, so
 * that the second one leaves out kernels that would find nothing to do: about
 * half of the 57 that encode a chunk of 512^3, at one microsecond each. While
 * the host waits and launches, the device goes on with the coarse levels
 * (encode) or the tiles (decode). */
static cudaError_t
run_in_two(const struct terp_cuda_device *device, struct cuda_slot *slot,
           struct cuda_sequences *sequences)
{
    struct cuda_sequence *later = sequences->later;
    const struct cuda_sequence *end = later + CUDA_NLATER;

    slot->batch.h_plans->is_known = 0;
    cudaError_t error =
        run_launches(device, slot, CUDA_LAUNCH_EARLY, &sequences->first);
    if (error == cudaSuccess)
        error = await_plans(slot);
    if (error != cudaSuccess)
        return error;
    while (later < end && !is_of(later, slot, CUDA_LAUNCH_LATER))
        later++;
    if (later == end)
        later = &sequences->later[sequences->nlater++ % CUDA_NLATER];
    return run_launches(device, slot, CUDA_LAUNCH_LATER, later);
}

/* Whether the kernels that two goes leave out take more time than the wait
 * between them. Chunks of fewer than CUDA_TOLD_MIN_NPARTITIONS have few levels
 * with kernels of their own; more than TOLD_MAX_NCHUNKS chunks may need most
 * kernels, and keep the device busy. Lossless encoding has no plans. Tests set
 * a smaller number of partitions. */
#ifndef CUDA_TOLD_MIN_NPARTITIONS
#define CUDA_TOLD_MIN_NPARTITIONS (CUDA_SMALL_CHUNK_NPARTITIONS + 1)
#endif
#define TOLD_MAX_NCHUNKS 16
static bool
gains_by_two(const struct cuda_batch *batch)
{
    return batch->npartitions >= CUDA_TOLD_MIN_NPARTITIONS &&
           batch->nchunks <= TOLD_MAX_NCHUNKS && !batch->encoding.measures &&
           batch->decoding.nskipped == 0 &&
           (batch->decodes || (needless_kinds(batch) & BOUNDED) == 0);
}

cudaError_t
cuda_sequence_run(const struct terp_cuda_device *device, struct cuda_slot *slot,
                  bool may_wait)
{
    struct cuda_sequences *sequences = &slot->sequences[slot->batch.decodes];

    return may_wait && gains_by_two(&slot->batch)
               ? run_in_two(device, slot, sequences)
               : run_launches(device, slot, CUDA_LAUNCH_ALL, &sequences->first);
}
