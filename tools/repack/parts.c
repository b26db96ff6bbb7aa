/* Deals the values of a dataset out in parts, to all threads. */
#define _GNU_SOURCE /* madvise */
#include <omp.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "codec/format/base.h"
#include "tools/repack/job.h"

/* Values of a part: the last ones to be done should take no time to speak of,
 * but what is read should be long runs of the file, such as rows of units. */
#define PARTS_PER_THREAD 8
#define MAX_PART_NBYTES ((uint64_t)16 << 20)
#define MAX_ROW_NBYTES ((uint64_t)64 << 20)
/* Memory of all parts, each of which has its values up to three times: as
 * read, as chunks, and as streams. */
#define PARTS_NBYTES ((uint64_t)768 << 20)
/* Parts that the device does while a thread does one. */
#define DEVICE_NPARTS 16
#define LARGE_PAGE_NBYTES ((uint64_t)2 << 20)

static uint64_t
count_boxes(const struct tool_grid *grid, uint64_t *box_nvalues_ret)
{
    uint64_t nboxes = 1;

    *box_nvalues_ret = 1;
    for (int d = 0; d < grid->rank; d++) {
        nboxes *= div_up(grid->dims[d], grid->step[d]);
        *box_nvalues_ret *= min_u64(grid->step[d], grid->dims[d]);
    }
    return nboxes;
}

void
repack_split(const struct repack_request *request, int rank,
             const hsize_t *dims, const hsize_t *unit_dims,
             uint64_t value_nbytes, bool with_device,
             struct repack_split *split_ret)
{
    const uint64_t nthreads = (uint64_t)request->nthreads;
    uint64_t nbytes = value_nbytes, row_nbytes = value_nbytes, part_nbytes;
    uint64_t nslots = nthreads + 2;

    for (int d = 0; d < rank; d++) {
        nbytes *= dims[d];
        row_nbytes *= d < rank - 1 ? unit_dims[d] : dims[d];
    }
    if (with_device)
        nslots += DEVICE_NPARTS;
    part_nbytes = min_u64(nbytes / (PARTS_PER_THREAD * nthreads),
                          PARTS_NBYTES / (3 * nslots));
    part_nbytes = min_u64(part_nbytes, MAX_PART_NBYTES);
    if (part_nbytes < row_nbytes && row_nbytes <= MAX_ROW_NBYTES)
        part_nbytes = row_nbytes;
    repack_grid(rank, dims, unit_dims, value_nbytes, part_nbytes,
                &split_ret->grid);
    split_ret->nparts = count_boxes(&split_ret->grid, &part_nbytes);
    part_nbytes *= value_nbytes;

    nslots = min_u64(nslots, PARTS_NBYTES / (3 * part_nbytes));
    nslots = min_u64(nslots, split_ret->nparts);
    split_ret->nslots = nslots > 0 ? nslots : 1;
    uint64_t nworkers = min_u64(nthreads, split_ret->nslots);
    split_ret->nworkers = (int)nworkers;
    split_ret->nthreads = (int)(nthreads / nworkers);
    split_ret->ndevice_threads = (int)nworkers;
    if (request->engine == TERP_ENGINE_AUTO)
        split_ret->ndevice_threads -= split_ret->nworkers / 4;
}

/* The system clears a few large pages sooner than many small ones. */
static void *
make_room(uint64_t nbytes)
{
    uint64_t npages = div_up(nbytes, LARGE_PAGE_NBYTES);
    void *room = aligned_alloc(LARGE_PAGE_NBYTES, npages * LARGE_PAGE_NBYTES);

#ifdef MADV_HUGEPAGE
    /* Without them it serves as well. */
    if (room != NULL)
        (void)madvise(room, nbytes, MADV_HUGEPAGE);
#endif
    return room;
}

bool
repack_parts_make(struct repack_job *job)
{
    uint64_t nvalues;

    count_boxes(&job->split.grid, &nvalues);
    job->parts = calloc(job->split.nslots, sizeof *job->parts);
    for (uint64_t i = 0; job->parts != NULL && i < job->split.nslots; i++) {
        struct repack_part *part = &job->parts[i];
        part->values = make_room(nvalues * job->value_nbytes);
        part->range = calloc(job->ncomponents, sizeof *part->range);
        part->known = calloc(job->ncomponents, sizeof *part->known);
        if (part->values == NULL || part->range == NULL || part->known == NULL)
            return false;
    }
    return job->parts != NULL;
}

void
repack_parts_free(struct repack_job *job)
{
    for (uint64_t i = 0; job->parts != NULL && i < job->split.nslots; i++) {
        free(job->parts[i].values);
        free(job->parts[i].range);
        free(job->parts[i].known);
    }
    free(job->parts);
}

static bool
begin_part(struct repack_job *job, struct repack_part *part, hid_t type,
           const struct repack_steps *steps)
{
    part->box = job->split.grid;
    part->nvalues = 1;
    for (int d = 0; d < part->box.rank; d++)
        part->nvalues *= part->box.count[d];
    part->status = TERP_OK;
    sem_init(&part->done, 0, 0);
    return (job->has_all || job->file >= 0 || repack_read(job, part, type)) &&
           steps->begin(job, part);
}

static void
work_part(struct repack_job *job, struct repack_part *part,
          const struct repack_steps *steps)
{
    part->unread =
        !job->has_all && job->file >= 0 && !repack_read_direct(job, part);
    if (part->unread)
        part->status = TERP_ERR_HDF5;
    else
        steps->work(job, part);
    sem_post(&part->done);
}

/* Waits until the part is done by whoever has it. Not by a dependence of tasks,
 * for which GCC's threads wait busily. */
static bool
finish_part(struct repack_job *job, struct repack_part *part,
            const struct repack_steps *steps)
{
    while (sem_wait(&part->done) != 0)
        continue; /* a signal was handled */
    sem_destroy(&part->done);
    if (part->unread)
        repack_fail(job->repack, job->object->path,
                    "its values cannot all be read");
    if (!job->has_all)
        tool_progress_add(&job->repack->progress,
                          part->nvalues * job->value_nbytes);
    return steps->finish(job, part);
}

/* Parts are finished in their order, whatever the order in which they are
 * done, so that files do not depend on it. */
static bool
deal_parts(struct repack_job *job, hid_t type, const struct repack_steps *steps)
{
    const uint64_t nslots = job->split.nslots;
    uint64_t nbegun = 0, nfinished = 0;
    bool ok = true;

    while (ok && tool_grid_next(&job->split.grid)) {
        struct repack_part *part = &job->parts[nbegun % nslots];
        if (nbegun - nfinished == nslots)
            ok = finish_part(job, &job->parts[nfinished++ % nslots], steps);
        ok = ok && begin_part(job, part, type, steps);
        if (!ok)
            break;
        nbegun++;
        /* The system may refuse all threads but this one. */
#pragma omp task firstprivate(part) if (omp_get_num_threads() > 1)
        work_part(job, part, steps);
    }
    while (nfinished < nbegun)
        ok &= finish_part(job, &job->parts[nfinished++ % nslots], steps);
    job->split.grid.started = false;
    return ok;
}

bool
repack_parts_do(struct repack_job *job, hid_t type,
                const struct repack_steps *steps)
{
    bool ok = false;

    /* One thread more for HDF5: it waits most of the time. */
#pragma omp parallel num_threads(job->split.nworkers + 1)
#pragma omp master
    ok = deal_parts(job, type, steps);
    return ok;
}
