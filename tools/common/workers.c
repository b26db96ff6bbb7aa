/* A queue of work, and threads that take it. */
#include "tools/common/workers.h"

#include <pthread.h>
#include <stdlib.h>

#include "codec/format/thread.h"

struct tool_workers {
    tool_work_do *do_work;
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t given, done;
    struct tool_work *first, **end; /* work that waits */
    bool is_ending;
    int nthreads;
    pthread_t threads[];
};

static void *
take_work(void *arg)
{
    struct tool_workers *workers = arg;

    pthread_mutex_lock(&workers->lock);
    for (;;) {
        struct tool_work *work = workers->first;
        if (work == NULL && workers->is_ending)
            break;
        if (work == NULL) {
            pthread_cond_wait(&workers->given, &workers->lock);
            continue;
        }
        workers->first = work->next;
        if (workers->first == NULL)
            workers->end = &workers->first;
        pthread_mutex_unlock(&workers->lock);
        workers->do_work(workers->arg, work);
        pthread_mutex_lock(&workers->lock);
        work->is_done = true;
        pthread_cond_signal(&workers->done);
    }
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

struct tool_workers *
tool_workers_start(int nthreads, tool_work_do *do_work, void *arg)
{
    struct tool_workers *workers = calloc(
        1, sizeof *workers + (size_t)nthreads * sizeof workers->threads[0]);

    if (workers == NULL)
        return NULL;
    workers->do_work = do_work;
    workers->arg = arg;
    workers->end = &workers->first;
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->given, NULL);
    pthread_cond_init(&workers->done, NULL);
    while (workers->nthreads < nthreads &&
           terp_thread_start(&workers->threads[workers->nthreads], take_work,
                             workers) == 0)
        workers->nthreads++;
    return workers;
}

void
tool_workers_give(struct tool_workers *workers, struct tool_work *work)
{
    *work = (struct tool_work){NULL, false};
    if (workers->nthreads == 0) {
        workers->do_work(workers->arg, work);
        work->is_done = true;
        return;
    }
    pthread_mutex_lock(&workers->lock);
    *workers->end = work;
    workers->end = &work->next;
    pthread_cond_signal(&workers->given);
    pthread_mutex_unlock(&workers->lock);
}

void
tool_workers_await(struct tool_workers *workers, struct tool_work *work)
{
    pthread_mutex_lock(&workers->lock);
    while (!work->is_done)
        pthread_cond_wait(&workers->done, &workers->lock);
    pthread_mutex_unlock(&workers->lock);
}

void
tool_workers_end(struct tool_workers *workers)
{
    if (workers == NULL)
        return;
    pthread_mutex_lock(&workers->lock);
    workers->is_ending = true;
    pthread_cond_broadcast(&workers->given);
    pthread_mutex_unlock(&workers->lock);
    for (int i = 0; i < workers->nthreads; i++)
        pthread_join(workers->threads[i], NULL);
    pthread_cond_destroy(&workers->done);
    pthread_cond_destroy(&workers->given);
    pthread_mutex_destroy(&workers->lock);
    free(workers);
}
