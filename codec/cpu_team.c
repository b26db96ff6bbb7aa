#include "cpu_team.h"

#include <fenv.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct member {
    struct cpu_team *team;
    int id;
    pthread_t thread;
};

struct cpu_team {
    pthread_mutex_t lock;
    pthread_cond_t work_ready, work_done;
    uint64_t round;  /* of the task at hand; 0 before the first */
    int nunfinished; /* members still at it, the caller not counted */
    bool stop;
    cpu_task *task;
    void *arg;
    uint64_t nitems;
    int nmembers;
    struct member members[];
};

static void
do_share(struct cpu_team *team, int id)
{
    uint64_t share = team->nitems / (uint64_t)team->nmembers;
    uint64_t rest = team->nitems % (uint64_t)team->nmembers;
    uint64_t i = (uint64_t)id;
    uint64_t first = i * share + (i < rest ? i : rest);
    uint64_t end = first + share + (i < rest ? 1 : 0);

    if (first < end)
        team->task(team->arg, id, first, end);
}

static void *
work(void *arg)
{
    struct member *member = arg;
    struct cpu_team *team = member->team;
    uint64_t round = 0;

    fesetenv(FE_DFL_ENV);
    pthread_mutex_lock(&team->lock);
    for (;;) {
        while (!team->stop && team->round == round)
            pthread_cond_wait(&team->work_ready, &team->lock);
        if (team->stop)
            break;
        round = team->round;
        pthread_mutex_unlock(&team->lock);
        do_share(team, member->id);
        pthread_mutex_lock(&team->lock);
        if (--team->nunfinished == 0)
            pthread_cond_signal(&team->work_done);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

struct cpu_team *
cpu_team_make(int nthreads)
{
    if (nthreads <= 1)
        return NULL;
    struct cpu_team *team =
        calloc(1, sizeof *team + (size_t)nthreads * sizeof team->members[0]);
    if (team == NULL)
        return NULL;
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

void
cpu_team_free(struct cpu_team *team)
{
    if (team == NULL)
        return;
    pthread_mutex_lock(&team->lock);
    team->stop = true;
    pthread_cond_broadcast(&team->work_ready);
    pthread_mutex_unlock(&team->lock);
    for (int id = 1; id < team->nmembers; id++)
        pthread_join(team->members[id].thread, NULL);
    pthread_cond_destroy(&team->work_done);
    pthread_cond_destroy(&team->work_ready);
    pthread_mutex_destroy(&team->lock);
    free(team);
}

int
cpu_team_nmembers(const struct cpu_team *team)
{
    return team == NULL ? 1 : team->nmembers;
}

void
cpu_team_run(struct cpu_team *team, cpu_task *task, void *arg, uint64_t nitems,
             uint64_t min_nitems)
{
    if (cpu_team_nmembers(team) == 1 || nitems < min_nitems) {
        if (nitems > 0)
            task(arg, 0, 0, nitems);
        return;
    }
    pthread_mutex_lock(&team->lock);
    team->task = task;
    team->arg = arg;
    team->nitems = nitems;
    team->nunfinished = team->nmembers - 1;
    team->round++;
    pthread_cond_broadcast(&team->work_ready);
    pthread_mutex_unlock(&team->lock);
    do_share(team, 0);
    pthread_mutex_lock(&team->lock);
    while (team->nunfinished > 0)
        pthread_cond_wait(&team->work_done, &team->lock);
    pthread_mutex_unlock(&team->lock);
}
