/* Promises of the CUDA emulator: collectives give the results of a serial loop,
 * and it detects kernels that diverge or lack a barrier. */
#include "gpu/block/scan.cuh"
#include <cub/block/block_radix_sort.cuh>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include "h5tests/emulator/emulator_failures.h"
#include "h5tests/support/cmocka_all.h"
}

static const int NTHREADS = 96;
static const int NITEMS = 3;
static const int NVALUES = NTHREADS * NITEMS;
static const unsigned ALL = 0xFFFFFFFF;

/* Device memory is host memory, so tests read it directly. */
template <typename T>
static T *
make_array(int nvalues)
{
    T *array;
    assert_int_equal(cudaMalloc(&array, (size_t)nvalues * sizeof *array), 0);
    return array;
}

static unsigned
value_at(int i)
{
    return (unsigned)i * 2654435761U >> 20;
}

static __global__ void
scan_values(unsigned *d_sums, unsigned *d_totals)
{
    __shared__ struct block_scan<unsigned, NTHREADS> s_scan;

    d_sums[threadIdx.x] =
        scan_block(s_scan, value_at((int)threadIdx.x), &d_totals[threadIdx.x]);
}

static void
block_scan_equals_serial_sum(void **state)
{
    (void)state;
    unsigned *sums = make_array<unsigned>(NTHREADS);
    unsigned *totals = make_array<unsigned>(NTHREADS);
    assert_int_equal(launch(scan_values, 1, NTHREADS, 0, 0, sums, totals), 0);
    unsigned sum = 0;
    for (int i = 0; i < NTHREADS; i++) {
        assert_int_equal(sums[i], sum);
        sum += value_at(i);
    }
    for (int i = 0; i < NTHREADS; i++)
        assert_int_equal(totals[i], sum);
    cudaFree(sums);
    cudaFree(totals);
}

static __global__ void
sort_values(unsigned *d_keys, unsigned *d_places)
{
    using sort = cub::BlockRadixSort<unsigned, NTHREADS, NITEMS, unsigned>;
    __shared__ typename sort::TempStorage s_storage;
    int first = (int)threadIdx.x * NITEMS;
    unsigned keys[NITEMS];
    unsigned places[NITEMS];
    for (int i = 0; i < NITEMS; i++) {
        keys[i] = value_at(first + i) % 16;
        places[i] = (unsigned)(first + i);
    }
    sort(s_storage).SortDescending(keys, places, 0, 4);
    for (int i = 0; i < NITEMS; i++) {
        d_keys[first + i] = keys[i];
        d_places[first + i] = places[i];
    }
}

static void
block_sort_is_ordered_and_stable(void **state)
{
    (void)state;
    unsigned *keys = make_array<unsigned>(NVALUES);
    unsigned *places = make_array<unsigned>(NVALUES);
    assert_int_equal(launch(sort_values, 1, NTHREADS, 0, 0, keys, places), 0);
    for (int i = 0; i < NVALUES; i++) {
        assert_int_equal(keys[i], value_at((int)places[i]) % 16);
        if (i > 0)
            assert_true(keys[i - 1] > keys[i] ||
                        (keys[i - 1] == keys[i] && places[i - 1] < places[i]));
    }
    cudaFree(keys);
    cudaFree(places);
}

/* Each bit stands for a primitive with the right result. */
static __global__ void
try_warp_primitives(unsigned *d_passed)
{
    unsigned lane = threadIdx.x % 32;
    unsigned base = threadIdx.x - lane;
    bool third = threadIdx.x % 3 == 0;
    unsigned thirds = 0;
    for (unsigned i = 0; i < 32; i++)
        thirds |= (unsigned)((base + i) % 3 == 0) << i;
    unsigned passed = 0;
    passed |= (unsigned)(__shfl_sync(ALL, threadIdx.x, 5) == base + 5) << 0;
    passed |= (unsigned)(__shfl_sync(ALL, lane, 3, 8) == lane / 8 * 8 + 3) << 1;
    passed |=
        (unsigned)(__shfl_up_sync(ALL, lane, 2) == (lane < 2 ? lane : lane - 2))
        << 2;
    passed |= (unsigned)(__shfl_down_sync(ALL, lane, 2) ==
                         (lane > 29 ? lane : lane + 2))
              << 3;
    passed |= (unsigned)(__shfl_xor_sync(ALL, lane, 9) == (lane ^ 9)) << 4;
    passed |= (unsigned)(__ballot_sync(ALL, third) == thirds) << 5;
    passed |= (unsigned)(__any_sync(ALL, third) && !__any_sync(ALL, 0)) << 6;
    passed |= (unsigned)(__all_sync(ALL, 1) && !__all_sync(ALL, third)) << 7;
    passed |=
        (unsigned)(__match_any_sync(ALL, third) == (third ? thirds : ~thirds))
        << 8;
    passed |= (unsigned)(__syncthreads_count(third) == NTHREADS / 3) << 9;
    passed |= (unsigned)(__syncthreads_or(threadIdx.x == 7) != 0) << 10;
    passed |= (unsigned)(__syncthreads_and(threadIdx.x != 7) == 0) << 11;
    passed |= (unsigned)(__reduce_add_sync(ALL, lane) == 31 * 32 / 2) << 12;
    passed |= (unsigned)(__reduce_min_sync(ALL, lane | 2) == 2) << 13;
    __syncwarp();
    d_passed[threadIdx.x] = passed;
}

static void
warp_primitives_follow_their_definition(void **state)
{
    (void)state;
    unsigned *passed = make_array<unsigned>(NTHREADS);
    assert_int_equal(launch(try_warp_primitives, 1, NTHREADS, 0, 0, passed), 0);
    for (int i = 0; i < NTHREADS; i++)
        assert_int_equal(passed[i], 0x3FFF);
    cudaFree(passed);
}

static __global__ void
reverse(int *d_to, bool has_barrier)
{
    int *s_values = dynamic_shared<int>();
    s_values[threadIdx.x] = (int)threadIdx.x;
    if (has_barrier)
        __syncthreads();
    d_to[threadIdx.x] = s_values[NTHREADS - 1 - (int)threadIdx.x];
}

/* Whether both orders of threads reverse the numbers. */
static bool
reverses(bool has_barrier)
{
    bool is_reversed = true;
    int *to = make_array<int>(NTHREADS);
    for (int order = 0; order < 2; order++) {
        assert_int_equal(launch(reverse, 1, NTHREADS, NTHREADS * sizeof(int), 0,
                                to, has_barrier),
                         0);
        for (int i = 0; i < NTHREADS; i++)
            is_reversed &= to[i] == NTHREADS - 1 - i;
    }
    cudaFree(to);
    return is_reversed;
}

static void
missing_barrier_changes_results(void **state)
{
    (void)state;
    assert_true(reverses(true));
    assert_false(reverses(false));
}

static __global__ void
take_first_block(int *d_first)
{
    if (threadIdx.x == 0)
        atomicCAS(d_first, -1, (int)blockIdx.x);
}

static void
order_of_blocks_alternates(void **state)
{
    (void)state;
    int *firsts = make_array<int>(2);
    for (int i = 0; i < 2; i++) {
        firsts[i] = -1;
        assert_int_equal(launch(take_first_block, 9, 32, 0, 0, firsts + i), 0);
    }
    assert_int_equal(firsts[0] + firsts[1], 8);
    cudaFree(firsts);
}

static __global__ void
diverge_at_a_barrier(void)
{
    if (threadIdx.x >= 32)
        __syncthreads();
    if (threadIdx.x < 32)
        __syncthreads();
}

static __global__ void
diverge_in_a_warp(void)
{
    if (threadIdx.x % 2 == 0)
        __syncwarp();
    else
        __syncthreads();
}

static __global__ void
name_half_of_the_warp(void)
{
    if (threadIdx.x % 32 < 16)
        __syncwarp(0xFFFF);
}

static __global__ void
use_storage_twice(void)
{
    using sort = cub::BlockRadixSort<unsigned, NTHREADS, 1>;
    __shared__ typename sort::TempStorage s_storage;
    unsigned key[1] = {threadIdx.x};
    sort(s_storage).Sort(key);
    sort(s_storage).Sort(key);
}

/* Writes one value beyond the end. */
static __global__ void
write_beyond_shared(void)
{
    dynamic_shared<int>()[threadIdx.x + 1] = 1;
}

/* The emulator or the system ends the program. */
static void
assert_kernel_ends(void (*kernel)(void), size_t shared_nbytes, int by_signal)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(by_signal, SIG_DFL);
        (void)!freopen("/dev/null", "w", stderr);
        (void)launch(kernel, 1, NTHREADS, shared_nbytes, 0);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == by_signal);
}

static void
assert_kernel_aborts(void (*kernel)(void))
{
    assert_kernel_ends(kernel, 0, SIGABRT);
}

static void
divergent_barriers_abort(void **state)
{
    (void)state;
    assert_kernel_aborts(diverge_at_a_barrier);
    assert_kernel_aborts(diverge_in_a_warp);
    assert_kernel_aborts(name_half_of_the_warp);
}

static void
storage_without_a_barrier_between_aborts(void **state)
{
    (void)state;
    assert_kernel_aborts(use_storage_twice);
}

static void
dynamic_shared_memory_has_an_end(void **state)
{
    (void)state;
    assert_kernel_ends(write_beyond_shared, NTHREADS * sizeof(int), SIGSEGV);
}

static __global__ void
count(int *d_count, int by)
{
    atomicAdd(d_count, by);
}

static __global__ void
double_and_add(int *d_count, int by)
{
    *d_count = *d_count * 2 + by;
}

/* Captures launches into a graph, one after the other if `is_chained`. */
struct test_recorder {
    struct launch_recorder recorder;
    cudaGraph_t graph;
    bool is_chained;
    cudaGraphNode_t last;
};

static cudaError_t
record(struct launch_recorder *recorder, cudaStream_t,
       const cudaKernelNodeParams *kernel)
{
    struct test_recorder *self = (struct test_recorder *)recorder;
    bool has_last = self->is_chained && self->last != NULL;
    cudaGraphNode_t before = self->last;

    return cudaGraphAddKernelNode(&self->last, self->graph, &before,
                                  has_last ? 1 : 0, kernel);
}

/* The result of the graph for 0. */
static int
run_graph(bool is_chained)
{
    struct test_recorder recorder = {{record}, NULL, is_chained, NULL};
    cudaGraphExec_t executable;
    int *counter = make_array<int>(1);

    *counter = 0;
    assert_int_equal(cudaGraphCreate(&recorder.graph, 0), 0);
    thread_recorder = &recorder.recorder;
    assert_int_equal(launch(double_and_add, 1, 1, 0, NULL, counter, 1), 0);
    assert_int_equal(launch(double_and_add, 1, 1, 0, NULL, counter, 5), 0);
    thread_recorder = NULL;
    assert_int_equal(*counter, 0);
    assert_int_equal(cudaGraphInstantiate(&executable, recorder.graph), 0);
    assert_int_equal(cudaGraphDestroy(recorder.graph), 0);
    assert_int_equal(cudaGraphLaunch(executable, NULL), 0);
    assert_int_equal(cudaGraphExecDestroy(executable), 0);
    int result = *counter;
    cudaFree(counter);
    return result;
}

static void
graph_keeps_to_its_edges_and_to_nothing_else(void **state)
{
    int64_t nlive = emulator_nlive();

    (void)state;
    assert_int_equal(run_graph(true), 1 * 2 + 5);
    assert_int_equal(run_graph(false), 5 * 2 + 1);
    assert_int_equal(emulator_nlive(), nlive);
}

static void
asked_for_failures_happen(void **state)
{
    (void)state;
    int *at;
    emulator_fail_after(1, cudaErrorMemoryAllocation, 0);
    assert_int_equal(cudaDeviceSynchronize(), 0);
    assert_int_equal(cudaMalloc(&at, 4), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), 0);
    assert_int_equal(cudaMalloc(&at, 4), 0);
    emulator_fail_after(0, cudaErrorLaunchFailure, 1);
    assert_int_equal(launch(count, 1, 32, 0, 0, at, 1), cudaErrorLaunchFailure);
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    assert_int_equal(cudaFree(at), cudaErrorLaunchFailure);
    emulator_fail_never();
    assert_int_equal(cudaDeviceSynchronize(), 0);
}

static void
wrong_launches_and_copies_are_refused(void **state)
{
    (void)state;
    int *at = make_array<int>(4);
    int host[4] = {0};
    size_t large = 64 << 10;
    assert_int_equal(launch(count, 1, 1025, 0, 0, at, 1),
                     cudaErrorInvalidConfiguration);
    assert_int_equal(launch(count, 0, 32, 0, 0, at, 1),
                     cudaErrorInvalidConfiguration);
    assert_int_equal(launch(count, 1, 32, large, 0, at, 1),
                     cudaErrorInvalidConfiguration);
    assert_int_equal(
        cudaFuncSetAttribute(count, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)large),
        0);
    assert_int_equal(launch(count, 1, 32, large, 0, at, 1), 0);
    assert_int_equal(cudaMemcpy(at, host, sizeof host, cudaMemcpyDeviceToHost),
                     cudaErrorInvalidValue);
    assert_int_equal(
        cudaMemcpy(at + 1, host, sizeof host, cudaMemcpyHostToDevice),
        cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(at, host, sizeof host, cudaMemcpyHostToDevice),
                     0);
    assert_int_equal(at[3], 0);
    cudaFree(at);
    (void)cudaGetLastError();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_scan_equals_serial_sum),
        cmocka_unit_test(block_sort_is_ordered_and_stable),
        cmocka_unit_test(warp_primitives_follow_their_definition),
        cmocka_unit_test(missing_barrier_changes_results),
        cmocka_unit_test(order_of_blocks_alternates),
        cmocka_unit_test(divergent_barriers_abort),
        cmocka_unit_test(storage_without_a_barrier_between_aborts),
        cmocka_unit_test(dynamic_shared_memory_has_an_end),
        cmocka_unit_test(graph_keeps_to_its_edges_and_to_nothing_else),
        cmocka_unit_test(asked_for_failures_happen),
        cmocka_unit_test(wrong_launches_and_copies_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
