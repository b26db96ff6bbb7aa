/* A pool of threads that share one task at a time, and large blocks of memory,
 * in large pages that the pool has touched. */
#define _GNU_SOURCE /* madvise */

#include "cpu/pool/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "codec/format/environment.h"
#include "codec/format/thread.h"

/* The ranges that a task is cut into, per worker. More ranges balance uneven
 * work better: a worker that is done takes the next range. */
#define NRANGES_PER_WORKER 32

/* How often a worker checks for a task, or the caller for the task's end,
 * before it sleeps. It yields between checks: some 50 us in all, about the time
 * that waking a thread takes. */
#define SPIN_COUNT 200

struct worker {
    struct cpu_pool *pool;
    int id;
    pthread_t thread;
};

/* A task is open while `epoch` is odd. A worker joins it by incrementing
 * `nactive` and then reading `epoch` a second time; the caller closes the task
 * and then waits for `nactive` to be 0. So the caller never waits for a
 * sleeping worker, and no worker reads a task that changes. */
struct cpu_pool {
    pthread_mutex_t lock;
    pthread_cond_t work_ready, work_done;
    atomic_uint epoch;
    atomic_int nactive; /* workers at the task, without the caller */
    atomic_bool stop;
    atomic_uint_fast64_t next; /* first range that no worker has taken */
    const struct terp_allocator *allocator;
    struct terp_reserved large[TERP_RESERVE_NBLOCKS]; /* for the reserve */
    size_t held_nbytes[TERP_RESERVE_NBLOCKS]; /* what the allocator counts for
                                               * each */
    cpu_task *task;
    void *arg;
    uint64_t nitems, nranges;
    int nworkers;
    struct worker workers[];
};

static void
do_ranges(struct cpu_pool *pool, int id)
{
    uint64_t least = pool->nitems / pool->nranges;
    uint64_t rest = pool->nitems % pool->nranges;
    uint64_t i;

    while ((i = atomic_fetch_add(&pool->next, 1)) < pool->nranges) {
        uint64_t first = i * least + (i < rest ? i : rest);
        pool->task(
            pool->arg,
            (struct cpu_share){id, first, first + least + (i < rest ? 1 : 0)});
    }
}

/* Whether a worker whose last task was `epoch` has something to do. */
static bool
is_called(struct cpu_pool *pool, unsigned epoch)
{
    unsigned now = atomic_load(&pool->epoch);

    return (now % 2 == 1 && now != epoch) || atomic_load(&pool->stop);
}

static bool
is_idle(struct cpu_pool *pool, unsigned epoch)
{
    (void)epoch;
    return atomic_load(&pool->nactive) == 0;
}

static void
await(struct cpu_pool *pool, bool (*has_come)(struct cpu_pool *, unsigned),
      unsigned epoch, pthread_cond_t *condition)
{
    for (int i = 0; i < SPIN_COUNT; i++) {
        if (has_come(pool, epoch))
            return;
        sched_yield();
    }
    pthread_mutex_lock(&pool->lock);
    while (!has_come(pool, epoch))
        pthread_cond_wait(condition, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

static void *
work(void *arg)
{
    struct worker *worker = arg;
    struct cpu_pool *pool = worker->pool;
    struct terp_environment inherited;
    unsigned epoch = 0;

    terp_environment_enter(&inherited);
    while (!atomic_load(&pool->stop)) {
        unsigned now = atomic_load(&pool->epoch);
        if (now % 2 == 0 || now == epoch) {
            await(pool, is_called, epoch, &pool->work_ready);
            continue;
        }
        atomic_fetch_add(&pool->nactive, 1);
        if (atomic_load(&pool->epoch) == now) {
            do_ranges(pool, worker->id);
            epoch = now;
        }
        if (atomic_fetch_sub(&pool->nactive, 1) == 1) {
            pthread_mutex_lock(&pool->lock);
            pthread_cond_signal(&pool->work_done);
            pthread_mutex_unlock(&pool->lock);
        }
    }
    return NULL;
}

struct cpu_pool *
terp_cpu_pool_make(int nthreads, const struct terp_allocator *allocator)
{
    if (nthreads <= 1 && allocator == NULL)
        return NULL;
    struct cpu_pool *pool =
        calloc(1, sizeof *pool + (size_t)nthreads * sizeof pool->workers[0]);
    if (pool == NULL)
        return NULL;
    pool->allocator = allocator;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work_ready, NULL);
    pthread_cond_init(&pool->work_done, NULL);
    for (pool->nworkers = 1; pool->nworkers < nthreads; pool->nworkers++) {
        struct worker *worker = &pool->workers[pool->nworkers];
        worker->pool = pool;
        worker->id = pool->nworkers;
        if (terp_thread_start(&worker->thread, work, worker) != 0)
            break;
    }
    return pool;
}

/* Opens a task, or stops the pool, and wakes sleeping workers. */
static void
call(struct cpu_pool *pool, bool stop)
{
    pthread_mutex_lock(&pool->lock);
    if (stop)
        atomic_store(&pool->stop, true);
    else
        atomic_fetch_add(&pool->epoch, 1);
    pthread_cond_broadcast(&pool->work_ready);
    pthread_mutex_unlock(&pool->lock);
}

void
terp_cpu_pool_free(struct cpu_pool *pool)
{
    if (pool == NULL)
        return;
    call(pool, true);
    for (int id = 1; id < pool->nworkers; id++)
        pthread_join(pool->workers[id].thread, NULL);
    pthread_cond_destroy(&pool->work_done);
    pthread_cond_destroy(&pool->work_ready);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

int
terp_cpu_pool_nworkers(const struct cpu_pool *pool)
{
    return pool == NULL ? 1 : pool->nworkers;
}

void
terp_cpu_pool_run(struct cpu_pool *pool, cpu_task *task, void *arg,
                  uint64_t nitems, uint64_t min_nitems)
{
    if (terp_cpu_pool_nworkers(pool) == 1 || nitems < min_nitems ||
        nitems <= 1) {
        if (nitems > 0)
            task(arg, (struct cpu_share){0, 0, nitems});
        return;
    }
    pool->task = task;
    pool->arg = arg;
    pool->nitems = nitems;
    pool->nranges = (uint64_t)pool->nworkers * NRANGES_PER_WORKER;
    if (pool->nranges > nitems)
        pool->nranges = nitems;
    atomic_store(&pool->next, 0);
    call(pool, false);
    do_ranges(pool, 0);
    atomic_fetch_add(&pool->epoch, 1); /* closed */
    await(pool, is_idle, 0, &pool->work_done);
}

/* A task that handles items one by one. */
struct each {
    cpu_item *item;
    void *arg;
};

static void
do_each(void *arg, struct cpu_share share)
{
    const struct each *each = arg;

    for (uint64_t i = share.first; i < share.end; i++)
        each->item(each->arg, i);
}

void
terp_cpu_pool_each(struct cpu_pool *pool, cpu_item *item, void *arg,
                   uint64_t nitems, uint64_t min_nitems)
{
    struct each each = {item, arg};

    terp_cpu_pool_run(pool, do_each, &each, nitems, min_nitems);
}

/* ---- memory ---- */

#define LARGE_PAGE_NBYTES ((size_t)2 << 20)

/* Smaller blocks come from the heap, whose memory the process keeps. */
#define MIN_NBYTES (2 * LARGE_PAGE_NBYTES)

/* Touches large pages, each by one worker: two workers that touch the same
 * missing page would both clear it. */
static void
touch_pages(void *arg, struct cpu_share share)
{
    volatile char *memory = arg;

    for (uint64_t page = share.first; page < share.end; page++)
        memory[page * LARGE_PAGE_NBYTES] = 0;
}

/* ---- the reserve ---- */

/* Removes block i. */
static struct terp_reserved
remove_reserved(struct terp_reserve *reserve, int i)
{
    const struct terp_reserved block = reserve->block[i];

    reserve->nblocks--;
    reserve->nbytes -= block.nbytes;
    for (; i < reserve->nblocks; i++)
        reserve->block[i] = reserve->block[i + 1];
    return block;
}

static void
trim(struct terp_reserve *reserve, int nblocks, uint64_t nbytes)
{
    while (reserve->nblocks > 0 &&
           (reserve->nblocks > nblocks || reserve->nbytes > nbytes))
        free(remove_reserved(reserve, 0).at);
}

/* Takes the smallest block of at least block->nbytes that is at most a third
 * larger. Without such a block, releases all: the call then holds hardly more
 * than it would without a reserve. */
static void
take_reserved(struct terp_reserve *reserve, struct terp_reserved *block)
{
    const struct terp_reserved *kept = reserve->block;
    int best = -1;

    if (pthread_mutex_trylock(&reserve->lock) != 0)
        return;
    for (int i = 0; i < reserve->nblocks; i++)
        if (kept[i].nbytes >= block->nbytes &&
            kept[i].nbytes / 4 * 3 <= block->nbytes &&
            (best < 0 || kept[i].nbytes < kept[best].nbytes))
            best = i;
    if (best >= 0)
        *block = remove_reserved(reserve, best);
    else
        trim(reserve, 0, 0);
    pthread_mutex_unlock(&reserve->lock);
}

static void
give_reserved(struct terp_reserve *reserve, struct terp_reserved block)
{
    if (block.nbytes > reserve->limit_nbytes ||
        pthread_mutex_trylock(&reserve->lock) != 0) {
        free(block.at);
        return;
    }
    trim(reserve, TERP_RESERVE_NBLOCKS - 1,
         reserve->limit_nbytes - block.nbytes);
    reserve->block[reserve->nblocks++] = block;
    reserve->nbytes += block.nbytes;
    pthread_mutex_unlock(&reserve->lock);
}

void
terp_cpu_reserve_trim(struct terp_reserve *reserve)
{
    if (pthread_mutex_trylock(&reserve->lock) != 0)
        return;
    trim(reserve, 0, 0);
    pthread_mutex_unlock(&reserve->lock);
}

/* ---- blocks of a call ---- */

static const struct terp_allocator *
allocator_of(const struct cpu_pool *pool)
{
    return pool == NULL ? NULL : pool->allocator;
}

static struct terp_reserve *
reserve_of(const struct cpu_pool *pool)
{
    const struct terp_allocator *allocator = allocator_of(pool);

    return allocator == NULL ||
                   (terp_allocator_is_own(allocator) && allocator->hold == NULL)
               ? NULL
               : allocator->reserve;
}

/* Reports memory that the allocator did not hand out itself to an allocator
 * that counts. */
static bool
hold(const struct cpu_pool *pool, size_t nbytes)
{
    const struct terp_allocator *allocator = allocator_of(pool);

    return allocator == NULL || allocator->hold == NULL ||
           allocator->hold(allocator->arg, nbytes);
}

static void
give(const struct cpu_pool *pool, size_t nbytes)
{
    const struct terp_allocator *allocator = allocator_of(pool);

    if (allocator != NULL && allocator->hold != NULL)
        allocator->give(allocator->arg, nbytes);
}

/* Allocates a fresh block, in large pages if the system has them. */
static void *
make_large(struct cpu_pool *pool, size_t nbytes)
{
    uint8_t *memory = malloc(nbytes);

#ifdef MADV_HUGEPAGE
    if (memory == NULL)
        return NULL;
    const size_t before =
        LARGE_PAGE_NBYTES - (uintptr_t)memory % LARGE_PAGE_NBYTES;
    const size_t npages = (nbytes - before) / LARGE_PAGE_NBYTES;
    if (madvise(memory + before, npages * LARGE_PAGE_NBYTES, MADV_HUGEPAGE) ==
            0 &&
        terp_cpu_pool_nworkers(pool) > 1)
        terp_cpu_pool_run(pool, touch_pages, memory + before, npages, 2);
#endif
    return memory;
}

/* The pool's record of a block that returns to the reserve; of NULL, a free
 * record. NULL: there is none. */
static struct terp_reserved *
slot_of(struct cpu_pool *pool, const void *at)
{
    for (int i = 0; reserve_of(pool) != NULL && i < TERP_RESERVE_NBLOCKS; i++)
        if (pool->large[i].at == at)
            return &pool->large[i];
    return NULL;
}

void *
terp_cpu_memory_make(struct cpu_pool *pool, size_t nbytes)
{
    const struct terp_allocator *allocator = allocator_of(pool);
    struct terp_reserved block = {NULL, nbytes};
    struct terp_reserved *slot =
        nbytes < MIN_NBYTES ? NULL : slot_of(pool, NULL);

    if (nbytes < MIN_NBYTES ||
        (slot == NULL && terp_allocator_is_own(allocator)))
        return terp_allocate(allocator, nbytes);
    if (!hold(pool, nbytes))
        return NULL;
    if (slot != NULL)
        take_reserved(reserve_of(pool), &block);
    if (block.at == NULL)
        block.at = make_large(pool, nbytes);
    if (block.at == NULL)
        give(pool, nbytes);
    if (slot != NULL && block.at != NULL) {
        *slot = block;
        pool->held_nbytes[slot - pool->large] = nbytes;
    }
    return block.at;
}

void
terp_cpu_memory_free(struct cpu_pool *pool, void *memory)
{
    struct terp_reserved *slot = memory == NULL ? NULL : slot_of(pool, memory);

    if (slot == NULL) {
        terp_release(allocator_of(pool), memory);
        return;
    }
    give_reserved(reserve_of(pool), *slot);
    give(pool, pool->held_nbytes[slot - pool->large]);
    slot->at = NULL;
}
