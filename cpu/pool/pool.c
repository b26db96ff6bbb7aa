#include "cpu/pool/pool.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* Ranges that a member takes of a task, one after another, so that nobody
 * waits long where work is spread unevenly. */
#define NRANGES_PER_MEMBER 32

/* How often a member looks for work, or for the end of it, before it sleeps:
 * some 50 us, about what it takes to wake a thread. In between it yields. */
#define SPIN_COUNT 200

struct member {
    struct cpu_pool *team;
    int id;
    pthread_t thread;
};

/* A task is open while `round` is odd. Members join it by counting themselves
 * active before they look at `round` again, and the caller closes it before it
 * waits for active ones: so nobody waits for a member that sleeps, and none
 * looks at a task that changes. */
struct cpu_pool {
    pthread_mutex_t lock;
    pthread_cond_t work_ready, work_done;
    atomic_uint round;
    atomic_int nactive; /* the caller not counted */
    atomic_bool stop;
    atomic_uint_fast64_t next; /* range that nobody took */
    const struct terp_allocator *allocator;
    cpu_task *task;
    void *arg;
    uint64_t nitems, nranges;
    int nmembers;
    struct member members[];
};

static void
do_ranges(struct cpu_pool *team, int id)
{
    uint64_t share = team->nitems / team->nranges;
    uint64_t rest = team->nitems % team->nranges;
    uint64_t i;

    while ((i = atomic_fetch_add(&team->next, 1)) < team->nranges) {
        uint64_t first = i * share + (i < rest ? i : rest);
        team->task(team->arg, id, first, first + share + (i < rest ? 1 : 0));
    }
}

/* Whether a member that did `round` has something to do. */
static bool
is_called(struct cpu_pool *team, unsigned round)
{
    unsigned now = atomic_load(&team->round);

    return (now % 2 == 1 && now != round) || atomic_load(&team->stop);
}

static void
await_call(struct cpu_pool *team, unsigned round)
{
    for (int i = 0; i < SPIN_COUNT; i++) {
        if (is_called(team, round))
            return;
        sched_yield();
    }
    pthread_mutex_lock(&team->lock);
    while (!is_called(team, round))
        pthread_cond_wait(&team->work_ready, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

static void
await_members(struct cpu_pool *team)
{
    for (int i = 0; i < SPIN_COUNT; i++) {
        if (atomic_load(&team->nactive) == 0)
            return;
        sched_yield();
    }
    pthread_mutex_lock(&team->lock);
    while (atomic_load(&team->nactive) > 0)
        pthread_cond_wait(&team->work_done, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

static void *
work(void *arg)
{
    struct member *member = arg;
    struct cpu_pool *team = member->team;
    unsigned round = 0;

    fesetenv(FE_DFL_ENV);
    while (!atomic_load(&team->stop)) {
        unsigned now = atomic_load(&team->round);
        if (now % 2 == 0 || now == round) {
            await_call(team, round);
            continue;
        }
        atomic_fetch_add(&team->nactive, 1);
        if (atomic_load(&team->round) == now) {
            do_ranges(team, member->id);
            round = now;
        }
        if (atomic_fetch_sub(&team->nactive, 1) == 1) {
            pthread_mutex_lock(&team->lock);
            pthread_cond_signal(&team->work_done);
            pthread_mutex_unlock(&team->lock);
        }
    }
    return NULL;
}

struct cpu_pool *
terp_cpu_pool_make(int nthreads, const struct terp_allocator *allocator)
{
    if (nthreads <= 1 && allocator == NULL)
        return NULL;
    struct cpu_pool *team =
        calloc(1, sizeof *team + (size_t)nthreads * sizeof team->members[0]);
    if (team == NULL)
        return NULL;
    team->allocator = allocator;
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->work_ready, NULL);
    pthread_cond_init(&team->work_done, NULL);
    for (team->nmembers = 1; team->nmembers < nthreads; team->nmembers++) {
        struct member *member = &team->members[team->nmembers];
        member->team = team;
        member->id = team->nmembers;
        if (pthread_create(&member->thread, NULL, work, member) != 0)
            break;
    }
    return team;
}

/* Also wakes who sleeps. */
static void
call(struct cpu_pool *team, bool stop)
{
    pthread_mutex_lock(&team->lock);
    if (stop)
        atomic_store(&team->stop, true);
    else
        atomic_fetch_add(&team->round, 1);
    pthread_cond_broadcast(&team->work_ready);
    pthread_mutex_unlock(&team->lock);
}

void
terp_cpu_pool_free(struct cpu_pool *team)
{
    if (team == NULL)
        return;
    call(team, true);
    for (int id = 1; id < team->nmembers; id++)
        pthread_join(team->members[id].thread, NULL);
    pthread_cond_destroy(&team->work_done);
    pthread_cond_destroy(&team->work_ready);
    pthread_mutex_destroy(&team->lock);
    free(team);
}

int
terp_cpu_pool_nworkers(const struct cpu_pool *team)
{
    return team == NULL ? 1 : team->nmembers;
}

const struct terp_allocator *
terp_cpu_pool_allocator(const struct cpu_pool *team)
{
    return team == NULL ? NULL : team->allocator;
}

void
terp_cpu_pool_run(struct cpu_pool *team, cpu_task *task, void *arg,
                  uint64_t nitems, uint64_t min_nitems)
{
    if (terp_cpu_pool_nworkers(team) == 1 || nitems < min_nitems ||
        nitems <= 1) {
        if (nitems > 0)
            task(arg, 0, 0, nitems);
        return;
    }
    team->task = task;
    team->arg = arg;
    team->nitems = nitems;
    team->nranges = (uint64_t)team->nmembers * NRANGES_PER_MEMBER;
    if (team->nranges > nitems)
        team->nranges = nitems;
    atomic_store(&team->next, 0);
    call(team, false);
    do_ranges(team, 0);
    atomic_fetch_add(&team->round, 1); /* closed */
    await_members(team);
}
