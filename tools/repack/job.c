/* terp repack: opens a dataset of the input, reads its parts and shares them
 * out among the threads. */
#define _GNU_SOURCE /* madvise, pread */
#include "tools/repack/job.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "codec/api/budget.h"
#include "codec/format/base.h"
#include "tools/common/limit.h"
#include "tools/common/stored.h"
#include "tools/repack/salvage.h"

#define LARGE_PAGE_NBYTES ((uint64_t)2 << 20)

bool
repack_job_fails(const struct repack_job *job, enum terp_status st)
{
    return st == TERP_ERR_HDF5
               ? repack_fail(job->repack, job->object->path, NULL)
               : repack_fail(job->repack, job->object->path, "%s",
                             terp_status_text(st));
}

/* ---- a dataset ---- */

/* The descriptor of HDF5's file, where that is one file on its own; else
 * -1. */
static int
find_file(hid_t in)
{
#ifdef _WIN32 /* the number is one of HDF5's own C library */
    (void)in;
    return -1;
#else
    hid_t fapl = H5Fget_access_plist(in);
    void *file = NULL;
    bool found = fapl >= 0 && H5Pget_driver(fapl) == H5FD_SEC2 &&
                 H5Fget_vfd_handle(in, fapl, &file) >= 0 && file != NULL;

    tool_close(fapl);
    return found ? *(const int *)file : -1;
#endif
}

/* Finds out whether the values stand in the file as they are in memory. All
 * threads can read them then, without HDF5, which lets in one at a time. */
static void
find_values(struct repack_job *job)
{
    const struct tool_dataset *in = &job->in;

    job->file = -1;
    if (H5Pget_layout(in->dcpl) != H5D_CONTIGUOUS ||
        H5Tequal(in->type, job->native) <= 0 ||
        H5Dget_storage_size(in->id) != in->nvalues * in->value_nbytes)
        return;
    job->file_offset = H5Dget_offset(in->id);
    if (job->file_offset != HADDR_UNDEF)
        job->file = find_file(job->repack->in);
}

/* Finds the parts that have nothing but a fill value, which HDF5 gives for a
 * chunk that was never written. A level's parts are not told apart: each has
 * values of several components. */
static void
find_chunks(struct repack_job *job)
{
    H5D_fill_value_t status;
    H5D_fill_time_t when;
    const hid_t dcpl = job->in.dcpl;

    if (job->level != NULL || H5Pfill_value_defined(dcpl, &status) < 0 ||
        status == H5D_FILL_VALUE_UNDEFINED ||
        H5Pget_fill_time(dcpl, &when) < 0 || when == H5D_FILL_TIME_NEVER ||
        (job->has_range &&
         H5Pget_fill_value(dcpl, job->native, &job->fill_bits) < 0))
        return;
    job->has_chunks = tool_stored_boxes(&job->in, &job->split.grid);
}

/* Allocates large pages, since the system clears a few large pages sooner than
 * many small ones. */
static void *
allocate(uint64_t nbytes)
{
#ifdef MADV_HUGEPAGE
    uint64_t npages = div_up(nbytes, LARGE_PAGE_NBYTES);
    void *memory = aligned_alloc(LARGE_PAGE_NBYTES, npages * LARGE_PAGE_NBYTES);

    /* Small pages do as well, so a failure does not matter. */
    if (memory != NULL)
        (void)madvise(memory, nbytes, MADV_HUGEPAGE);
    return memory;
#else
    return malloc(nbytes);
#endif
}

static bool
make_parts(struct repack_job *job)
{
    const uint64_t nvalues = tool_grid_cap(&job->split.grid);

    job->parts = calloc(job->split.nslots, sizeof *job->parts);
    for (uint64_t i = 0; job->parts != NULL && i < job->split.nslots; i++) {
        struct repack_part *part = &job->parts[i];
        part->values = allocate(nvalues * job->in.value_nbytes);
        part->range = calloc(job->ncomponents, sizeof *part->range);
        part->known = calloc(job->ncomponents, sizeof *part->known);
        if (part->values == NULL || part->range == NULL || part->known == NULL)
            return false;
    }
    job->ranges = calloc(job->ncomponents, sizeof *job->ranges);
    job->params = calloc(job->ncomponents, sizeof *job->params);
    return job->parts != NULL && job->ranges != NULL && job->params != NULL;
}

bool
repack_job_open(struct repack *repack, const struct repack_object *object,
                struct repack_job *job_ret)
{
    struct repack_job *job = job_ret;
    char reason[512];

    *job = (struct repack_job){
        .repack = repack,
        .object = object,
        .level = object->plan.level,
        .in = {.id = -1, .space = -1, .dcpl = -1, .type = -1},
        .out = -1,
        .npasses = 1};
    if (!tool_dataset_open(repack->in, object->path, &job->in))
        return repack_job_fails(job, TERP_ERR_HDF5);
    /* Salvage has counted it. */
    if (!repack->request.salvage &&
        !tool_limit_take(&job->in, TOOL_LIMIT_ALL, reason, sizeof reason))
        return repack_fail(repack, object->path, "%s", reason);
    const enum terp_type type = tool_type(job->in.type);
    job->wide = type == TERP_FLOAT64;
    job->has_range = type != TERP_BYTES;
    job->native = job->wide              ? H5T_NATIVE_DOUBLE
                  : type == TERP_FLOAT32 ? H5T_NATIVE_FLOAT
                                         : job->in.type;
    job->in_nbytes = H5Dget_storage_size(job->in.id);
    job->written = job->in_nbytes > 0;
    job->ncomponents = job->level != NULL ? job->level->ncomponents : 1;
    job->split =
        repack_split(&repack->request, &job->in, object->plan.unit_dims,
                     atomic_load(&repack->device) != REPACK_DEVICE_NONE);
    find_values(job);
    find_chunks(job);
    const enum terp_status st = terp_budget_check(
        tool_grid_cap(&job->split.grid) * job->in.value_nbytes);
    if (st != TERP_OK)
        return repack_job_fails(job, st);
    return make_parts(job) || repack_job_fails(job, TERP_ERR_MEMORY);
}

void
repack_job_close(struct repack_job *job)
{
    for (uint64_t i = 0; job->parts != NULL && i < job->split.nslots; i++) {
        free(job->parts[i].values);
        free(job->parts[i].range);
        free(job->parts[i].known);
    }
    free(job->parts);
    free(job->has_chunks);
    free(job->ranges);
    free(job->params);
    tool_dataset_close(&job->in);
}

/* ---- its parts ---- */

static bool
read_run(int file, uint64_t offset, uint64_t nbytes, uint8_t *to)
{
    while (nbytes > 0) {
        ssize_t n = pread(file, to, nbytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) /* 0: the file has become shorter */
            return false;
        to += n;
        offset += (uint64_t)n;
        nbytes -= (uint64_t)n;
    }
    return true;
}

/* Reads the values of a part from job->file; any thread may do so. */
static bool
read_direct(const struct repack_job *job, struct repack_part *part)
{
    const struct tool_grid *box = &part->box;
    uint64_t run_nvalues = 1, at[H5S_MAX_RANK] = {0};
    uint8_t *to = part->values;
    int nouter = box->rank;

    /* A run is a series of values that follow each other in the file. */
    while (nouter > 0) {
        nouter--;
        run_nvalues *= box->count[nouter];
        if (box->count[nouter] < box->dims[nouter])
            break;
    }
    const uint64_t run_nbytes = run_nvalues * job->in.value_nbytes;
    for (uint64_t run = 0; run < box->nvalues / run_nvalues; run++) {
        uint64_t left = run, first = 0, stride = 1;
        for (int d = nouter - 1; d >= 0; d--) {
            at[d] = left % box->count[d];
            left /= box->count[d];
        }
        for (int d = box->rank - 1; d >= 0; d--) {
            first += (box->at[d] + at[d]) * stride;
            stride *= box->dims[d];
        }
        if (!read_run(job->file,
                      job->file_offset + first * job->in.value_nbytes,
                      run_nbytes, to))
            return false;
        to += run_nbytes;
    }
    return true;
}

static bool
begin_part(struct repack_job *job, struct repack_part *part, hid_t type,
           const struct repack_steps *steps)
{
    part->box = job->split.grid;
    part->status = TERP_OK;
    bool has_values = job->has_all || job->file >= 0 ||
                      repack_salvage_read(job->object, &job->in, type,
                                          &part->box, part->values);
    return has_values ? steps->begin(job, part)
                      : repack_job_fails(job, TERP_ERR_HDF5);
}

/* What threads share that work on a job. */
struct crew {
    struct repack_job *job;
    const struct repack_steps *steps;
    struct tool_workers *workers;
};

static void
work_part(void *arg, struct tool_work *work)
{
    const struct crew *crew = arg;
    struct repack_job *job = crew->job;
    struct repack_part *part = (struct repack_part *)work;

    part->unread = !job->has_all && job->file >= 0 && !read_direct(job, part);
    if (part->unread)
        part->status = TERP_ERR_HDF5;
    else
        crew->steps->work(job, part);
}

/* Counts what was read. Where the values are read twice, each time counts
 * half. */
static void
add_progress(struct repack_job *job, const struct tool_grid *box)
{
    if (!job->has_all)
        tool_progress_add(&job->repack->progress, box->nvalues *
                                                      job->in.value_nbytes /
                                                      (uint64_t)job->npasses);
}

/* Waits until the thread that has the part is done with it. */
static bool
finish_part(struct crew *crew, struct repack_part *part)
{
    struct repack_job *job = crew->job;

    tool_workers_await(crew->workers, &part->work);
    if (part->unread)
        repack_fail(job->repack, job->object->path,
                    "its values cannot all be read");
    add_progress(job, &part->box);
    return crew->steps->finish(job, part);
}

/* Passes over a part that has no chunks. */
static void
pass_part(const struct crew *crew)
{
    struct repack_job *job = crew->job;
    const struct tool_grid *box = &job->split.grid;

    if (crew->steps->absent != NULL)
        crew->steps->absent(job, box);
    add_progress(job, box);
}

/* Begins parts, which are work for the other threads, and finishes them in the
 * order of the dataset, whichever is done first: so the bytes of the file do
 * not depend on the threads. */
static bool
run_parts(struct crew *crew, hid_t type)
{
    struct repack_job *job = crew->job;
    const uint64_t nslots = job->split.nslots;
    uint64_t nbegun = 0, nfinished = 0;
    bool ok = true;

    while (ok) {
        struct repack_part *part = &job->parts[nbegun % nslots];
        const uint64_t number = job->split.grid.next;
        if (!tool_grid_next(&job->split.grid))
            break;
        if (job->has_chunks != NULL && !job->has_chunks[number]) {
            pass_part(crew);
            continue;
        }
        if (nbegun - nfinished == nslots)
            ok = finish_part(crew, &job->parts[nfinished++ % nslots]);
        ok = ok && begin_part(job, part, type, crew->steps);
        if (!ok)
            break;
        nbegun++;
        tool_workers_give(crew->workers, &part->work);
    }
    while (nfinished < nbegun)
        ok &= finish_part(crew, &job->parts[nfinished++ % nslots]);
    job->split.grid.next = 0;
    return ok;
}

bool
repack_job_do(struct repack_job *job, hid_t type,
              const struct repack_steps *steps)
{
    struct crew crew = {job, steps, NULL};

    /* The thread that calls HDF5 comes on top of the workers, since it waits
     * most of the time. */
    crew.workers = tool_workers_start(job->split.nworkers, work_part, &crew);
    bool ok = crew.workers != NULL ? run_parts(&crew, type)
                                   : repack_job_fails(job, TERP_ERR_MEMORY);
    tool_workers_end(crew.workers);
    return ok;
}
