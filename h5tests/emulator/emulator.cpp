/* Fibers, barriers and their reports. */
#include "emulator.h"
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <fenv.h>
#include <memory>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

__thread uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace
{

using boost::context::fiber;

constexpr unsigned MAX_NTHREADS = 1024;
constexpr unsigned WARP = 32;
constexpr size_t STACK_NBYTES = 128 << 10;

/* A block's dynamic shared memory ends at a protected page. */
class dynamic_shared
{
  public:
    dynamic_shared()
        : guard_nbytes((size_t)sysconf(_SC_PAGESIZE)),
          pages((unsigned char *)mmap(nullptr, MAX_NBYTES + guard_nbytes,
                                      PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
    {
        if (pages == MAP_FAILED ||
            mprotect(pages + MAX_NBYTES, guard_nbytes, PROT_NONE) != 0)
            abort();
    }
    ~dynamic_shared()
    {
        munmap(pages, MAX_NBYTES + guard_nbytes);
    }
    dynamic_shared(const dynamic_shared &) = delete;
    dynamic_shared &operator=(const dynamic_shared &) = delete;

    void resize(size_t n)
    {
        nbytes = (n + 15) / 16 * 16;
    }
    unsigned char *begin() const
    {
        return pages + MAX_NBYTES - nbytes;
    }
    void spoil()
    {
        memset(begin(), 0xA5, nbytes);
    }

  private:
    static constexpr size_t MAX_NBYTES = 256 << 10; /* no device allows more */
    const size_t guard_nbytes;
    unsigned char *const pages;
    size_t nbytes = 0;
};

/* The tops of stacks lie in different sets of the caches, because the threads
 * of a warp take turns: each thread's stack begins `index` times 320 bytes
 * lower. */
class staggered_stack
{
  public:
    explicit staggered_stack(unsigned index) : offset(index % 32 * 320)
    {
    }
    boost::context::stack_context allocate()
    {
        boost::context::stack_context stack = pages.allocate();
        stack.sp = (unsigned char *)stack.sp - offset;
        stack.size -= offset;
        return stack;
    }
    void deallocate(boost::context::stack_context &stack)
    {
        stack.sp = (unsigned char *)stack.sp + offset;
        stack.size += offset;
        pages.deallocate(stack);
    }

  private:
    boost::context::protected_fixedsize_stack pages{STACK_NBYTES};
    size_t offset;
};

struct barrier {
    std::vector<void *> items; /* threads that wait */
    unsigned narrived, nlive;
    uint64_t generation; /* how often all threads have met */
    const char *name;    /* of the first thread to arrive */
    emulator_place place;
    void (*finish)(void *argument, void **items, unsigned nitems);
    void *argument;
};

struct emulated_thread {
    fiber context;
    uint3 index;
    barrier *waits_at; /* null: the thread can run */
    uint64_t generation;
};

/* One for each host thread that launches kernels. Its fibers run every
 * block. */
struct emulated_block {
    std::vector<emulated_thread> threads{MAX_NTHREADS};
    barrier whole, warps[MAX_NTHREADS / WARP];
    unsigned nthreads;
    bool descending;
    unsigned current; /* the running thread */
    fiber *left;      /* where to save the context that ran before it */
    fiber launcher;   /* the host's context that started the block */
    const emulator_work *kernel;
    dynamic_shared shared;
    uint64_t nlaunches;
    /* For each warp, in the order in which threads start, one bit a thread:
     * whether it has not ended, and whether it can run but does not. */
    uint32_t alive[MAX_NTHREADS / WARP], runnable[MAX_NTHREADS / WARP];
    /* The storage of collectives, and the number of the __syncthreads before
     * its last use. */
    std::vector<std::pair<const void *, uint64_t>> storages;
    uint64_t nsyncthreads;
};

thread_local std::unique_ptr<emulated_block> own_block;
__thread emulated_block *block; /* cached, to avoid a guard at each use */

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
        if (thread.waits_at != nullptr &&
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

/* The i-th thread in the order in which a block's threads start. */
unsigned
in_order(const emulated_block *b, unsigned i)
{
    return b->descending ? b->nthreads - 1 - i : i;
}

unsigned
nwarps_of(const emulated_block *b)
{
    return (b->nthreads + WARP - 1) / WARP;
}

uint32_t
bit_of(unsigned lane)
{
    return UINT32_C(1) << lane % WARP;
}

/* Marks all threads that have not ended as able to run, except the running
 * one. */
void
wake(emulated_block *b, const barrier *at)
{
    if (at == &b->whole) {
        for (unsigned w = 0; w < nwarps_of(b); w++)
            b->runnable[w] = b->alive[w];
    } else {
        const unsigned first = WARP * (unsigned)(at - b->warps);
        for (unsigned i = first; i < first + at->items.size(); i++) {
            const unsigned own = in_order(b, i);
            b->runnable[own / WARP] |= b->alive[own / WARP] & bit_of(own);
        }
    }
    const unsigned self = in_order(b, b->current);
    b->runnable[self / WARP] &= ~bit_of(self);
}

void
complete_if_all_are_here(emulated_block *b, barrier *at)
{
    if (at->narrived == 0 || at->narrived < at->nlive)
        return;
    at->finish(at->argument, at->items.data(), (unsigned)at->items.size());
    at->narrived = 0;
    at->generation++;
    wake(b, at);
}

/* The next thread that can run: from the warp of the running one, so that a
 * warp goes on until it waits for other warps; else from the warps after it. */
unsigned
find_next(const emulated_block *b)
{
    const unsigned self = in_order(b, b->current), own = self / WARP;
    const unsigned nwarps = nwarps_of(b);
    const uint32_t behind = b->runnable[own] & ~(bit_of(self) * 2 - 1);

    if (behind != 0)
        return in_order(b, own * WARP + (unsigned)__builtin_ctz(behind));
    for (unsigned k = 0; k < nwarps; k++) {
        const unsigned w = own + k < nwarps ? own + k : own + k - nwarps;
        if (b->runnable[w] != 0)
            return in_order(b,
                            w * WARP + (unsigned)__builtin_ctz(b->runnable[w]));
    }
    fail("no thread can run, barriers diverge", emulator_here());
}

/* Saves the running context in `left` and continues `next`. */
void
switch_to(emulated_block *b, fiber *left, fiber *next)
{
    b->left = left;
    fiber before = std::move(*next).resume();
    *b->left = std::move(before);
}

fiber
run_thread(fiber &&before, emulated_block *b, emulated_thread *thread);

/* The context of a thread that will run next. */
fiber *
make_current(emulated_block *b, unsigned at)
{
    emulated_thread *thread = &b->threads[at];
    const unsigned own = in_order(b, at);

    b->runnable[own / WARP] &= ~bit_of(own);
    thread->waits_at = nullptr;
    if (!thread->context)
        thread->context =
            fiber(std::allocator_arg, staggered_stack(at),
                  [b, thread](fiber &&before) {
                      return run_thread(std::move(before), b, thread);
                  });
    b->current = at;
    threadIdx = thread->index;
    return &thread->context;
}

void
run_next(emulated_block *b, emulated_thread *thread)
{
    switch_to(b, &thread->context, make_current(b, find_next(b)));
}

void
leave_block(emulated_block *b)
{
    const unsigned self = b->current, own = in_order(b, self);
    barrier *warp = &b->warps[self / WARP];

    b->alive[own / WARP] &= ~bit_of(own);
    b->whole.items[self] = warp->items[self % WARP] = nullptr;
    b->whole.nlive--;
    warp->nlive--;
    complete_if_all_are_here(b, &b->whole);
    complete_if_all_are_here(b, warp);
}

/* A fiber's function: runs its thread of one block after another. */
fiber
run_thread(fiber &&before, emulated_block *b, emulated_thread *thread)
{
    *b->left = std::move(before);
    for (;;) {
        b->kernel->run();
        leave_block(b);
        if (b->whole.nlive > 0)
            run_next(b, thread);
        else
            switch_to(b, &thread->context, &b->launcher);
    }
}

void
run_block(emulated_block *b, dim3 size)
{
    b->nthreads = size.x * size.y * size.z;
    for (unsigned i = 0; i < b->nthreads; i++) {
        emulated_thread *thread = &b->threads[i];
        thread->index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
        thread->waits_at = nullptr;
    }
    for (unsigned w = 0; w < nwarps_of(b); w++) {
        const unsigned n = b->nthreads - WARP * w;
        b->alive[w] = n < WARP ? bit_of(n) - 1 : UINT32_MAX;
        b->runnable[w] = b->alive[w];
    }
    reset(&b->whole, b->nthreads);
    for (unsigned first = 0; first < b->nthreads; first += WARP)
        reset(&b->warps[first / WARP],
              b->nthreads - first < WARP ? b->nthreads - first : WARP);
    b->storages.clear();
    b->shared.spoil();
    switch_to(b, &b->launcher, make_current(b, in_order(b, 0)));
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
    emulated_block *b = block;
    unsigned self = b->current;
    emulated_thread *thread = &b->threads[self];
    barrier *at = group == EMULATOR_BLOCK ? &b->whole : &b->warps[self / WARP];
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
    complete_if_all_are_here(b, at);
    if (at->generation == thread->generation)
        run_next(b, thread);
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
    return block->shared.begin();
}

void
emulator_run_grid(dim3 grid, dim3 block_size, size_t shared_nbytes,
                  const emulator_work &kernel)
{
    if (block == nullptr) {
        own_block = std::make_unique<emulated_block>();
        block = own_block.get();
    }
    block->descending = block->nlaunches++ % 2 != 0;
    uint64_t nblocks = (uint64_t)grid.x * grid.y * grid.z;
    block->kernel = &kernel;
    block->shared.resize(shared_nbytes);
    gridDim = {grid.x, grid.y, grid.z};
    blockDim = {block_size.x, block_size.y, block_size.z};
    /* The device does not use the caller's rounding mode and denormal flags. */
    fenv_t callers;
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV);
    for (uint64_t i = 0; i < nblocks; i++) {
        uint64_t at = block->descending ? nblocks - 1 - i : i;
        blockIdx = {(unsigned)(at % grid.x), (unsigned)(at / grid.x % grid.y),
                    (unsigned)(at / grid.x / grid.y)};
        run_block(block, block_size);
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
