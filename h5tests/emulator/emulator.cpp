/* Fibers, barriers and their reports. */
#include "emulator.h"
#include "emulator_failures.h"
#include <atomic>
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
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

/* A block's dynamic shared memory ends where a page begins that nothing may
 * touch. */
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
    static constexpr size_t MAX_NBYTES = 256 << 10; /* no device has more */
    const size_t guard_nbytes;
    unsigned char *const pages;
    size_t nbytes = 0;
};

/* Stacks whose tops lie apart in the caches' sets, as the threads of a warp
 * take turns: a thread's first bytes lie `index` times 320 bytes lower. Those
 * of a cluster's other blocks would be too many with a page between them that
 * nothing may touch: a process has 2^16 mappings. */
class staggered_stack
{
  public:
    staggered_stack(unsigned index, bool is_guarded_)
        : offset(index % 32 * 320), is_guarded(is_guarded_)
    {
    }
    boost::context::stack_context allocate()
    {
        boost::context::stack_context stack =
            is_guarded ? guarded.allocate() : plain.allocate();
        stack.sp = (unsigned char *)stack.sp - offset;
        stack.size -= offset;
        return stack;
    }
    void deallocate(boost::context::stack_context &stack)
    {
        stack.sp = (unsigned char *)stack.sp + offset;
        stack.size += offset;
        if (is_guarded)
            guarded.deallocate(stack);
        else
            plain.deallocate(stack);
    }

  private:
    boost::context::protected_fixedsize_stack guarded{STACK_NBYTES};
    boost::context::fixedsize_stack plain{STACK_NBYTES};
    size_t offset;
    bool is_guarded;
};

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
    bool has_arrived; /* at its cluster, in this generation of its barrier */
    uint64_t arrived;
};

/* Its fibers run one block after another. */
struct emulated_block {
    std::vector<emulated_thread> threads{MAX_NTHREADS};
    barrier whole, warps[MAX_NTHREADS / WARP];
    unsigned rank; /* in its cluster */
    uint3 index;
    unsigned current; /* thread that runs, or ran last */
    dynamic_shared shared;
    /* Storage of collectives, and the __syncthreads before its last use. */
    std::vector<std::pair<const void *, uint64_t>> storages;
    uint64_t nsyncthreads;
};

/* One for each host thread that launches: the blocks of the cluster that runs,
 * which is one block where a launch does not ask for more. */
struct emulated_cluster {
    std::vector<std::unique_ptr<emulated_block>> blocks; /* as many as ever */
    unsigned nblocks, nthreads;                          /* of a block */
    bool descending;
    barrier whole;
    fiber *left;    /* where to keep the context that ran before */
    fiber launcher; /* what began the cluster */
    const std::function<void()> *kernel;
    uint64_t nlaunches;
};

thread_local std::unique_ptr<emulated_cluster> own_cluster;
__thread emulated_cluster *cluster; /* the same: no guard at each use */
__thread emulated_block *block;     /* that runs */

/* Of all host threads. */
std::atomic<uint64_t> nlaunches;

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
    for (unsigned i = 0; i < cluster->nblocks; i++)
        for (const emulated_thread &thread : cluster->blocks[i]->threads)
            if (thread.is_alive && thread.waits_at != nullptr &&
                thread.waits_at->generation == thread.generation &&
                nreported++ < 8)
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

bool
can_run(const emulated_thread *thread)
{
    return thread->is_alive &&
           (thread->waits_at == nullptr ||
            thread->waits_at->generation != thread->generation);
}

/* Thread `i` in the order in which a block's threads start, and block `i` of a
 * cluster. */
unsigned
in_order(unsigned i, unsigned n)
{
    return cluster->descending ? n - 1 - i : i;
}

/* The thread of a block that can run and comes next: of the warp of the one
 * that ran, so that a warp goes on until it waits for others, else of those
 * after it. -1: none can. */
int
find_next_of(const emulated_block *b)
{
    const unsigned nthreads = cluster->nthreads;
    const unsigned self = in_order(b->current, nthreads);
    const unsigned lane = self % WARP, first = self - lane;

    for (unsigned k = 0; k < WARP; k++) {
        const unsigned i = first + (lane + k) % WARP;
        if (i < nthreads && can_run(&b->threads[in_order(i, nthreads)]))
            return (int)in_order(i, nthreads);
    }
    for (unsigned k = WARP; k < nthreads; k++) {
        const unsigned i =
            first + k < nthreads ? first + k : first + k - nthreads;
        if (can_run(&b->threads[in_order(i, nthreads)]))
            return (int)in_order(i, nthreads);
    }
    return -1;
}

/* Leaves the running context in `left` and goes on with `next`. */
void
switch_to(fiber *left, fiber *next)
{
    cluster->left = left;
    fiber before = std::move(*next).resume();
    *cluster->left = std::move(before);
}

fiber
run_thread(fiber &&before, emulated_block *b, emulated_thread *thread);

/* The context of a thread that is to run. */
fiber *
make_current(emulated_block *b, unsigned at)
{
    emulated_thread *thread = &b->threads[at];

    thread->waits_at = nullptr;
    if (!thread->context)
        thread->context =
            fiber(std::allocator_arg, staggered_stack(at, b->rank == 0),
                  [b, thread](fiber &&before) {
                      return run_thread(std::move(before), b, thread);
                  });
    b->current = at;
    block = b;
    blockIdx = b->index;
    threadIdx = thread->index;
    return &thread->context;
}

/* A block goes on until it waits for others of its cluster. */
void
run_next(fiber *left)
{
    const unsigned first = in_order(block->rank, cluster->nblocks);

    for (unsigned k = 0; k < cluster->nblocks; k++) {
        const unsigned i = (first + k) % cluster->nblocks;
        emulated_block *b =
            cluster->blocks[in_order(i, cluster->nblocks)].get();
        const int next = find_next_of(b);
        if (next >= 0) {
            switch_to(left, make_current(b, (unsigned)next));
            return;
        }
    }
    fail("no thread can run, barriers diverge", emulator_here());
}

void
leave_block(emulated_block *b, emulated_thread *thread)
{
    thread->is_alive = false;
    for (barrier *at :
         {&cluster->whole, &b->whole, &b->warps[b->current / WARP]}) {
        at->nlive--;
        complete_if_all_are_here(at);
    }
}

/* A fiber: runs its thread of one block after another. */
fiber
run_thread(fiber &&before, emulated_block *b, emulated_thread *thread)
{
    *cluster->left = std::move(before);
    for (;;) {
        (*cluster->kernel)();
        leave_block(b, thread);
        if (cluster->whole.nlive > 0)
            run_next(&thread->context);
        else
            switch_to(&thread->context, &cluster->launcher);
    }
}

void
begin_block(emulated_block *b, uint3 index, dim3 size)
{
    const unsigned nthreads = cluster->nthreads;

    b->index = index;
    b->current = in_order(0, nthreads);
    for (unsigned i = 0; i < nthreads; i++) {
        emulated_thread *thread = &b->threads[i];
        thread->index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
        thread->is_alive = true;
        thread->has_arrived = false;
        thread->waits_at = nullptr;
    }
    reset(&b->whole, nthreads);
    for (unsigned first = 0; first < nthreads; first += WARP)
        reset(&b->warps[first / WARP],
              nthreads - first < WARP ? nthreads - first : WARP);
    b->storages.clear();
    b->shared.spoil();
}

/* A barrier of all blocks orders uses of storage too. */
void
order_collectives(void *, void **, unsigned)
{
    for (unsigned i = 0; i < cluster->nblocks; i++)
        cluster->blocks[i]->nsyncthreads++;
}

/* The blocks from `first` of the grid on. */
void
run_cluster(uint64_t first, dim3 grid, dim3 block_size)
{
    for (unsigned i = 0; i < cluster->nblocks; i++) {
        const uint64_t at = first + i;
        begin_block(cluster->blocks[i].get(),
                    {(unsigned)(at % grid.x), (unsigned)(at / grid.x % grid.y),
                     (unsigned)(at / grid.x / grid.y)},
                    block_size);
    }
    cluster->whole.narrived = 0;
    cluster->whole.nlive = cluster->nblocks * cluster->nthreads;
    cluster->whole.finish = order_collectives;
    emulated_block *b = cluster->blocks[in_order(0, cluster->nblocks)].get();
    switch_to(&cluster->launcher, make_current(b, b->current));
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
        run_next(&thread->context);
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
                  const std::function<void()> &kernel, unsigned cluster_nblocks)
{
    if (cluster == nullptr) {
        own_cluster = std::make_unique<emulated_cluster>();
        cluster = own_cluster.get();
    }
    nlaunches++;
    cluster->descending = cluster->nlaunches++ % 2 != 0;
    uint64_t nblocks = (uint64_t)grid.x * grid.y * grid.z;
    cluster->kernel = &kernel;
    cluster->nblocks = cluster_nblocks;
    cluster->nthreads = block_size.x * block_size.y * block_size.z;
    while (cluster->blocks.size() < cluster_nblocks) {
        cluster->blocks.push_back(std::make_unique<emulated_block>());
        cluster->blocks.back()->rank = (unsigned)cluster->blocks.size() - 1;
    }
    for (unsigned i = 0; i < cluster_nblocks; i++)
        cluster->blocks[i]->shared.resize(shared_nbytes);
    gridDim = {grid.x, grid.y, grid.z};
    blockDim = {block_size.x, block_size.y, block_size.z};
    /* The caller's rounding and denormals are not the device's. */
    fenv_t callers;
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV);
    for (uint64_t i = 0; i < nblocks; i += cluster_nblocks)
        run_cluster(cluster->descending ? nblocks - cluster_nblocks - i : i,
                    grid, block_size);
    fesetenv(&callers);
}

uint64_t
emulator_nlaunches(void)
{
    return nlaunches;
}

void
arrive_at_cluster(emulator_place place)
{
    barrier *at = &cluster->whole;
    emulated_thread *thread = &block->threads[block->current];
    if (thread->has_arrived)
        fail("a thread has not waited for its cluster", place);
    thread->has_arrived = true;
    thread->arrived = at->generation;
    at->name = "wait_for_cluster";
    at->narrived++;
    complete_if_all_are_here(at);
}

void
wait_for_cluster(emulator_place place)
{
    barrier *at = &cluster->whole;
    emulated_thread *thread = &block->threads[block->current];
    if (!thread->has_arrived)
        fail("a thread has not arrived where it waits for its cluster", place);
    thread->has_arrived = false;
    at->place = place;
    thread->waits_at = at;
    thread->generation = thread->arrived;
    if (at->generation == thread->generation)
        run_next(&thread->context);
    thread->waits_at = nullptr;
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
