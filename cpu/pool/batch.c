/* Many chunks at once. */
#include "codec/engine.h"
#include "cpu/pool/pool.h"

struct batch {
    terp_cpu_batch_task *task;
    void *batch;
    int nthreads; /* of each chunk */
};

static void
do_chunks(void *arg, int id, uint64_t first, uint64_t end)
{
    struct batch *batch = arg;

    (void)id;
    batch->task(batch->batch, first, end, batch->nthreads);
}

void
terp_cpu_batch(terp_cpu_batch_task *task, void *batch, uint64_t nchunks,
               int nthreads)
{
    int nmembers = (uint64_t)nthreads < nchunks ? nthreads : (int)nchunks;
    struct batch shared = {task, batch, nmembers > 0 ? nthreads / nmembers : 1};
    struct cpu_pool *team = terp_cpu_pool_make(nmembers, NULL);

    terp_cpu_pool_run(team, do_chunks, &shared, nchunks, 0);
    terp_cpu_pool_free(team);
}
