/* Many chunks at once: each worker of a pool takes one chunk after another. */
#include "codec/engine.h"
#include "cpu/pool/pool.h"

struct batch {
    terp_cpu_batch_task *task;
    void *batch;
    int nthreads; /* per chunk */
};

static void
do_chunks(void *arg, struct cpu_share share)
{
    struct batch *batch = arg;

    batch->task(batch->batch,
                (struct terp_cpu_batch_part){share.first, share.end,
                                             batch->nthreads, share.worker});
}

void
terp_cpu_batch(terp_cpu_batch_task *task, void *batch, uint64_t nchunks,
               int nthreads)
{
    int nworkers = (uint64_t)nthreads < nchunks ? nthreads : (int)nchunks;
    struct batch shared = {task, batch, nworkers > 0 ? nthreads / nworkers : 1};
    struct cpu_pool *pool = terp_cpu_pool_make(nworkers, NULL);

    terp_cpu_pool_run(pool, do_chunks, &shared, nchunks, 0);
    terp_cpu_pool_free(pool);
}
