/* terp repack: opens a dataset of the input, reads it in slabs and gives slabs
 * to the threads. */
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

/* Bytes of a part of a slab: it stays in a thread's cache from reading to use.
 */
#define PART_NBYTES ((uint64_t)256 << 10)

/* The size of Linux's large pages on x86-64; elsewhere only an alignment. */
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

/* The descriptor of the input where HDF5 uses one plain file, else -1. */
static int
find_file(hid_t in)
{
#ifdef _WIN32 /* HDF5's C library has its own numbers */
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

/* Finds out whether the file stores the values as they are in memory. Then all
 * threads read them directly; HDF5 admits one thread at a time. */
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

/* Finds slabs that hold the fill value alone, because none of their chunks was
 * ever written. Slabs of a level are not distinguished: each has values of
 * several components. */
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

/* Allocates large pages: the system clears few large pages faster than many
 * small ones. */
static void *
allocate(uint64_t nbytes)
{
#ifdef MADV_HUGEPAGE
    uint64_t npages = div_up(nbytes, LARGE_PAGE_NBYTES);
    void *memory = aligned_alloc(LARGE_PAGE_NBYTES, npages * LARGE_PAGE_NBYTES);

    /* A failure does no harm: pages stay small. */
    if (memory != NULL)
        (void)madvise(memory, nbytes, MADV_HUGEPAGE);
    return memory;
#else
    return malloc(nbytes);
#endif
}

static bool
make_slabs(struct repack_job *job)
{
    const uint64_t nvalues = tool_grid_cap(&job->split.grid);

    job->slabs = calloc(job->split.nslots, sizeof *job->slabs);
    for (uint64_t i = 0; job->slabs != NULL && i < job->split.nslots; i++) {
        struct repack_slab *slab = &job->slabs[i];
        slab->values = allocate(nvalues * job->in.value_nbytes);
        slab->range = calloc(job->ncomponents, sizeof *slab->range);
        slab->known = calloc(job->ncomponents, sizeof *slab->known);
        if (job->mask != NULL)
            slab->masked = malloc(nvalues);
        if ((job->mask != NULL && slab->masked == NULL) ||
            slab->values == NULL || slab->range == NULL || slab->known == NULL)
            return false;
    }
    job->ranges = calloc(job->ncomponents, sizeof *job->ranges);
    job->params = calloc(job->ncomponents, sizeof *job->params);
    return job->slabs != NULL && job->ranges != NULL && job->params != NULL;
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
        .mask = object->plan.mask,
        .in = {.id = -1, .space = -1, .dcpl = -1, .type = -1},
        .out = -1,
        .nreadings = 1};
    if (!tool_dataset_open(repack->in, object->path, &job->in))
        return repack_job_fails(job, TERP_ERR_HDF5);
    /* With --salvage the dataset has been counted before. */
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
    return make_slabs(job) || repack_job_fails(job, TERP_ERR_MEMORY);
}

void
repack_job_close(struct repack_job *job)
{
    for (uint64_t i = 0; job->slabs != NULL && i < job->split.nslots; i++) {
        free(job->slabs[i].values);
        free(job->slabs[i].range);
        free(job->slabs[i].known);
        free(job->slabs[i].masked);
    }
    free(job->slabs);
    free(job->has_chunks);
    free(job->ranges);
    free(job->params);
    free(job->mask_fill);
    tool_dataset_close(&job->in);
}

/* ---- slabs ---- */

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

/* Reads the values of slab->part from job->file. Any thread may call this. */
static bool
read_direct(const struct repack_job *job, struct repack_slab *slab)
{
    const struct tool_grid *box = &slab->part;
    uint64_t run_nvalues = 1, at[H5S_MAX_RANK] = {0};
    uint8_t *to = slab->values;
    int nouter = box->rank;

    /* A run is a series of values that are contiguous in the file. */
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
begin_slab(struct repack_job *job, struct repack_slab *slab, hid_t type,
           const struct repack_steps *steps)
{
    slab->box = job->split.grid;
    slab->status = TERP_OK;
    bool has_values = job->has_all || job->file >= 0 ||
                      repack_salvage_read(job->object, &job->in, type,
                                          &slab->box, slab->values);
    return has_values ? steps->begin(job, slab)
                      : repack_job_fails(job, TERP_ERR_HDF5);
}

/* What the threads of a job share. */
struct crew {
    struct repack_job *job;
    const struct repack_steps *steps;
    struct tool_workers *workers;
};

static void
work_part(const struct crew *crew, struct repack_slab *slab)
{
    struct repack_job *job = crew->job;

    if (job->mask != NULL)
        repack_mask_box(job->mask, &slab->part, slab->masked);
    slab->unread = !job->has_all && job->file >= 0 && !read_direct(job, slab);
    if (slab->unread)
        slab->status = TERP_ERR_HDF5;
    else
        crew->steps->work(job, slab);
}

/* Divides the slab along slab->part_dim. */
static void
work_parts(const struct crew *crew, struct repack_slab *slab)
{
    const struct tool_grid *box = &slab->box;
    const int d = slab->part_dim;
    const uint64_t row_nvalues = box->nvalues / box->count[d];
    const uint64_t nrows =
        PART_NBYTES / (row_nvalues * crew->job->in.value_nbytes) + 1;

    for (uint64_t row = 0; row < box->count[d] && slab->status == TERP_OK;
         row += nrows) {
        slab->part.at[d] = box->at[d] + row;
        slab->part.count[d] = min_u64(nrows, box->count[d] - row);
        slab->part.nvalues = row_nvalues * slab->part.count[d];
        work_part(crew, slab);
    }
}

static void
work_slab(void *arg, struct tool_work *work)
{
    const struct crew *crew = arg;
    struct repack_job *job = crew->job;
    struct repack_slab *slab = (struct repack_slab *)work;

    slab->part = slab->box;
    slab->unread = false;
    slab->part_dim = 0;
    while (slab->part_dim < slab->box.rank - 1 &&
           slab->box.count[slab->part_dim] == 1)
        slab->part_dim++;
    slab->in_parts = crew->steps->takes_parts(job, slab) && job->file >= 0 &&
                     !job->has_all && slab->box.rank > 0;
    if (slab->in_parts)
        work_parts(crew, slab);
    else if (slab->status == TERP_OK)
        work_part(crew, slab);
    if (crew->steps->end != NULL)
        crew->steps->end(job, slab);
}

/* Counts the values that were read. Where all values are read twice, each
 * reading counts half. */
static void
add_progress(struct repack_job *job, const struct tool_grid *box)
{
    if (!job->has_all)
        tool_progress_add(&job->repack->progress, box->nvalues *
                                                      job->in.value_nbytes /
                                                      (uint64_t)job->nreadings);
}

/* Waits for the thread that works on the slab. */
static bool
finish_slab(struct crew *crew, struct repack_slab *slab)
{
    struct repack_job *job = crew->job;

    tool_workers_await(crew->workers, &slab->work);
    if (slab->unread)
        repack_fail(job->repack, job->object->path,
                    "some of its values cannot be read");
    add_progress(job, &slab->box);
    return crew->steps->finish(job, slab);
}

/* Skips a slab that has no chunks. */
static void
skip_slab(const struct crew *crew)
{
    struct repack_job *job = crew->job;
    const struct tool_grid *box = &job->split.grid;

    if (crew->steps->absent != NULL)
        crew->steps->absent(job, box);
    add_progress(job, box);
}

/* Begins slabs, which other threads work on, and finishes them in the order of
 * the dataset. This order makes the bytes of the file independent of the
 * threads. */
static bool
run_slabs(struct crew *crew, hid_t type)
{
    struct repack_job *job = crew->job;
    const uint64_t nslots = job->split.nslots;
    uint64_t nbegun = 0, nfinished = 0;
    bool ok = true;

    while (ok) {
        struct repack_slab *slab = &job->slabs[nbegun % nslots];
        const uint64_t number = job->split.grid.next;
        if (!tool_grid_next(&job->split.grid))
            break;
        if (job->has_chunks != NULL && !job->has_chunks[number]) {
            skip_slab(crew);
            continue;
        }
        if (nbegun - nfinished == nslots)
            ok = finish_slab(crew, &job->slabs[nfinished++ % nslots]);
        ok = ok && begin_slab(job, slab, type, crew->steps);
        if (!ok)
            break;
        nbegun++;
        tool_workers_give(crew->workers, &slab->work);
    }
    while (nfinished < nbegun)
        ok &= finish_slab(crew, &job->slabs[nfinished++ % nslots]);
    job->split.grid.next = 0;
    return ok;
}

bool
repack_job_do(struct repack_job *job, hid_t type,
              const struct repack_steps *steps)
{
    struct crew crew = {job, steps, NULL};

    /* The thread that calls HDF5 comes in addition to the workers: it waits
     * most of the time. */
    crew.workers = tool_workers_start(job->split.nworkers, work_slab, &crew);
    bool ok = crew.workers != NULL ? run_slabs(&crew, type)
                                   : repack_job_fails(job, TERP_ERR_MEMORY);
    tool_workers_end(crew.workers);
    return ok;
}
