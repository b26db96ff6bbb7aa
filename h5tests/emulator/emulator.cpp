/* Fibers, barriers and their reports. */
#include "emulator.h"
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <fenv.h>
#include <memory>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utility>
#include <vector>

__thread uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace
{

using boost::context::fiber;

constexpr unsigned MAX_NTHREADS = 1024;
constexpr unsigned WARP = 32;
constexpr size_t STACK_NBYTES = 128 << 10;

struct barrier {
    std::vector<void *> items; /* of those that wait */
    unsigned narrived, nlive;
    uint64_t generation; /* how often all have met */
    const char *name;    /* of the first to arrive, like the rest */
    emulator_place place;
    void (*finish)(void *argument, void **items, unsigned nitems);
    void *argument;
};

struct emulated_thread {
    fiber context;
    uint3 index;
    bool is_alive;
    barrier *waits_at; /* null: can run */
    uint64_t generation;
};

/* One for each host thread that launches; its fibers run every block. */
struct emulated_block {
    std::vector<emulated_thread> threads{MAX_NTHREADS};
    barrier whole, warps[MAX_NTHREADS / WARP];
    unsigned current; /* thread that runs */
    fiber scheduler;
    const std::function<void()> *kernel;
    std::vector<unsigned char> dynamic_shared;
    uint64_t nlaunches;
    /* Storage of collectives, and the __syncthreads before its last use. */
    std::vector<std::pair<const void *, uint64_t>> storages;
    uint64_t nsyncthreads;
};

thread_local std::unique_ptr<emulated_block> block;

void
report_waiting(const barrier *at, const emulated_thread *thread)
{
    fprintf(stderr, "  thread (%u, %u, %u) waits in %s at %s:%d\n",
            thread->index.x, thread->index.y, thread->index.z, at->name,
            at->place.file, at->place.line);
}

[[noreturn]] void
fail(const char *problem, emulator_place place)
{
    fprintf(stderr,
            "CUDA emulator: %s at %s:%d, block (%u, %u, %u), "
            "thread (%u, %u, %u)\n",
            problem, place.file, place.line, blockIdx.x, blockIdx.y, blockIdx.z,
            threadIdx.x, threadIdx.y, threadIdx.z);
    unsigned nreported = 0;
    for (const emulated_thread &thread : block->threads)
        if (thread.is_alive && thread.waits_at != nullptr &&
            thread.waits_at->generation == thread.generation && nreported++ < 8)
            report_waiting(thread.waits_at, &thread);
    fprintf(stderr, "  %u threads wait\n", nreported);
    abort();
}

void
reset(barrier *at, unsigned nthreads)
{
    at->items.assign(nthreads, nullptr);
    at->narrived = 0;
    at->nlive = nthreads;
}

void
complete_if_all_are_here(barrier *at)
{
    if (at->narrived == 0 || at->narrived < at->nlive)
        return;
    at->finish(at->argument, at->items.data(), (unsigned)at->items.size());
    std::fill(at->items.begin(), at->items.end(), nullptr);
    at->narrived = 0;
    at->generation++;
}

void
leave_block(emulated_thread *thread)
{
    barrier *warp = &block->warps[block->current / WARP];
    thread->is_alive = false;
    block->whole.nlive--;
    warp->nlive--;
    complete_if_all_are_here(&block->whole);
    complete_if_all_are_here(warp);
}

/* A fiber: runs its thread of one block after another. */
fiber
run_thread(fiber &&scheduler, emulated_thread *thread)
{
    block->scheduler = std::move(scheduler);
    for (;;) {
        (*block->kernel)();
        leave_block(thread);
        block->scheduler = std::move(block->scheduler).resume();
    }
}

bool
resume(unsigned at)
{
    emulated_thread *thread = &block->threads[at];
    if (!thread->is_alive)
        return false;
    if (thread->waits_at != nullptr &&
        thread->waits_at->generation == thread->generation)
        return false;
    thread->waits_at = nullptr;
    if (!thread->context)
        thread->context =
            fiber(std::allocator_arg,
                  boost::context::protected_fixedsize_stack(STACK_NBYTES),
                  [thread](fiber &&scheduler) {
                      return run_thread(std::move(scheduler), thread);
                  });
    block->current = at;
    threadIdx = thread->index;
    thread->context = std::move(thread->context).resume();
    return true;
}

void
run_block(dim3 size, bool descending)
{
    unsigned nthreads = size.x * size.y * size.z;
    for (unsigned i = 0; i < nthreads; i++) {
        emulated_thread *thread = &block->threads[i];
        thread->index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
        thread->is_alive = true;
        thread->waits_at = nullptr;
    }
    reset(&block->whole, nthreads);
    for (unsigned first = 0; first < nthreads; first += WARP)
        reset(&block->warps[first / WARP],
              nthreads - first < WARP ? nthreads - first : WARP);
    block->storages.clear();
    memset(block->dynamic_shared.data(), 0xA5, block->dynamic_shared.size());

    while (block->whole.nlive > 0) {
        bool progressed = false;
        for (unsigned i = 0; i < nthreads; i++)
            progressed |= resume(descending ? nthreads - 1 - i : i);
        if (!progressed)
            fail("no thread can run, barriers diverge", emulator_here());
    }
}

bool
is_same(const char *a, const char *b)
{
    return a == b || strcmp(a, b) == 0;
}

} // namespace

void
emulator_meet(emulator_group group, const char *name, emulator_place place,
              void *item,
              void (*finish)(void *argument, void **items, unsigned nitems),
              void *argument)
{
    unsigned self = block->current;
    emulated_thread *thread = &block->threads[self];
    barrier *at =
        group == EMULATOR_BLOCK ? &block->whole : &block->warps[self / WARP];
    if (at->narrived == 0) {
        at->name = name;
        at->place = place;
        at->finish = finish;
        at->argument = argument;
    } else if (!is_same(at->name, name) || at->place.line != place.line ||
               !is_same(at->place.file, place.file)) {
        fail("this thread is at another barrier than the rest", place);
    }
    at->items[group == EMULATOR_BLOCK ? self : self % WARP] = item;
    at->narrived++;
    thread->waits_at = at;
    thread->generation = at->generation;
    complete_if_all_are_here(at);
    if (at->generation == thread->generation)
        block->scheduler = std::move(block->scheduler).resume();
    thread->waits_at = nullptr;
}

void
emulator_use_storage(const void *storage, emulator_place place)
{
    for (auto &use : block->storages) {
        if (use.first != storage)
            continue;
        if (use.second == block->nsyncthreads)
            fail("storage is used again without __syncthreads", place);
        use.second = block->nsyncthreads;
        return;
    }
    block->storages.push_back({storage, block->nsyncthreads});
}

unsigned char *
emulator_dynamic_shared(void)
{
    unsigned char *at = block->dynamic_shared.data();
    return at + (16 - (uintptr_t)at % 16) % 16;
}

void
emulator_run_grid(dim3 grid, dim3 block_size, size_t shared_nbytes,
                  const std::function<void()> &kernel)
{
    if (block == nullptr)
        block = std::make_unique<emulated_block>();
    bool descending = block->nlaunches++ % 2 != 0;
    uint64_t nblocks = (uint64_t)grid.x * grid.y * grid.z;
    block->kernel = &kernel;
    block->dynamic_shared.resize(shared_nbytes + 15);
    gridDim = {grid.x, grid.y, grid.z};
    blockDim = {block_size.x, block_size.y, block_size.z};
    /* The caller's rounding and denormals are not the device's. */
    fenv_t callers;
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV);
    for (uint64_t i = 0; i < nblocks; i++) {
        uint64_t at = descending ? nblocks - 1 - i : i;
        blockIdx = {(unsigned)(at % grid.x), (unsigned)(at / grid.x % grid.y),
                    (unsigned)(at / grid.x / grid.y)};
        run_block(block_size, descending);
    }
    fesetenv(&callers);
}

void
__syncthreads(emulator_place place)
{
    char nothing = 0;
    emulator_meet(EMULATOR_BLOCK, "__syncthreads", place, nothing,
                  [](char **, unsigned) { block->nsyncthreads++; });
}

int
__syncthreads_count(int predicate, emulator_place place)
{
    int any, all;
    int ntrue = emulator_vote(EMULATOR_BLOCK, "__syncthreads_count", place,
                              predicate != 0, &any, &all);
    __syncthreads(place);
    return ntrue;
}

int
__syncthreads_or(int predicate, emulator_place place)
{
    return __syncthreads_count(predicate, place) > 0;
}

int
__syncthreads_and(int predicate, emulator_place place)
{
    return __syncthreads_count(!predicate, place) == 0;
}

void
emulator_check_mask(unsigned mask, emulator_place place)
{
    if (mask != 0xFFFFFFFF)
        fail("a warp primitive without the full mask", place);
}

void
__syncwarp(unsigned mask, emulator_place place)
{
    char nothing = 0;
    emulator_check_mask(mask, place);
    emulator_meet(EMULATOR_WARP, "__syncwarp", place, nothing,
                  [](char **, unsigned) {});
}

unsigned
__ballot_sync(unsigned mask, int predicate, emulator_place place)
{
    struct ballot {
        bool predicate;
        unsigned lanes;
    } mine = {predicate != 0, 0};
    emulator_check_mask(mask, place);
    emulator_meet(EMULATOR_WARP, "__ballot_sync", place, mine,
                  [](ballot **items, unsigned n) {
                      unsigned lanes = 0;
                      for (unsigned i = 0; i < n; i++)
                          if (items[i] != nullptr && items[i]->predicate)
                              lanes |= 1U << i;
                      for (unsigned i = 0; i < n; i++)
                          if (items[i] != nullptr)
                              items[i]->lanes = lanes;
                  });
    return mine.lanes;
}
