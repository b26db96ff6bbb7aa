/* Runs jobs, one after another, in a thread. */
#define _DEFAULT_SOURCE /* madvise */
#include "filter/h5/coder.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#ifdef __linux__
#include <sys/mman.h>
#endif
#include <unistd.h>

#include "codec/format/thread.h"
#include "filter/h5/batch.h"

#define MAX_REASON_NBYTES 256
#define NANOSECONDS UINT64_C(1000000000)

/* The size of large pages. They make a copy into new memory about four times as
 * fast. */
#define PAGE_NBYTES (UINT64_C(2) << 20)

/* Bounds the copies of all jobs in device memory, which is the program's.
 * Values beyond it are encoded before the call returns. */
#ifndef TERP_H5_MAX_DEVICE_NBYTES
#define TERP_H5_MAX_DEVICE_NBYTES (UINT64_C(4) << 30)
#endif

/* Bytes that a thread copies at a time. */
#define PIECE_NBYTES PAGE_NBYTES

/* A stream of the job, in the block's order. */
struct stream {
    hsize_t offset[H5S_MAX_RANK];
    uint64_t nbytes;
    void *bytes;
};

enum state {
    WAITING,
    CODING,
    DONE
};

struct terp_h5_job {
    struct terp_h5_job *next;
    unsigned generation; /* of the process */
    enum state state;
    atomic_bool is_stopped;
    bool is_encoded; /* before it was handed to the thread */
    struct terp_h5_block block;
    const struct terp_h5_storage *storage; /* the block's own */
    void *context;
    struct terp_run_options options;
    struct terp_params params;
    bool has_params;
    const void *src; /* NULL: the values are lost */
    void *dst, *copy, *device_copy;
    uint64_t copy_nbytes, held_nbytes; /* of the copy; of copy and streams */
    struct stream *streams;
    uint64_t nstreams, nfetched;
    enum terp_status st;
    struct terp_run_result result;
    char reason[MAX_REASON_NBYTES];
    uint64_t begin, end; /* nanoseconds since 1970 */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct terp_h5_job *first, *last;
    bool is_running; /* the thread */
    unsigned generation;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .changed = PTHREAD_COND_INITIALIZER};

/* Values and streams of all jobs in host memory, and values in device memory.
 */
static atomic_uint_fast64_t held_nbytes, held_device_nbytes;

uint64_t
terp_h5_job_clock(void)
{
    struct timespec time;

    clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_sec * NANOSECONDS + (uint64_t)time.tv_nsec;
}

/* ---- memory ---- */

/* Half of TERP_MAX_MEMORY; the other half is for coding. */
static uint64_t
limit_nbytes(void)
{
    uint64_t nbytes;

    (void)terp_budget_limit(&nbytes);
    if (nbytes != UINT64_MAX)
        return nbytes / 2;
#ifdef _SC_PHYS_PAGES
    const long npages = sysconf(_SC_PHYS_PAGES);
    const long page_nbytes = sysconf(_SC_PAGESIZE);
    if (npages > 0 && page_nbytes > 0)
        return (uint64_t)npages * (uint64_t)page_nbytes / 8;
#endif
    return UINT64_MAX;
}

/* Adds `nbytes` to the bytes that all jobs hold. False, and no change, if the
 * sum exceeds the limit. */
static bool
add_held(atomic_uint_fast64_t *all_nbytes, uint64_t limit, uint64_t nbytes)
{
    uint_fast64_t held = *all_nbytes;

    do {
        if (held > limit || nbytes > limit - held)
            return false;
    } while (!atomic_compare_exchange_weak(all_nbytes, &held, held + nbytes));
    return true;
}

static enum terp_status
hold(struct terp_h5_job *job, uint64_t nbytes)
{
    if (!add_held(&held_nbytes, limit_nbytes(), nbytes))
        return TERP_ERR_LIMIT;
    job->held_nbytes += nbytes;
    return TERP_OK;
}

/* Keeps a copy of a stream. */
static enum terp_status
keep(struct terp_h5_job *job, const hsize_t *offset, const void *bytes,
     uint64_t nbytes)
{
    struct stream *stream = &job->streams[job->nstreams];

    stream->bytes = malloc(nbytes);
    if (stream->bytes == NULL)
        return TERP_ERR_MEMORY;
    memcpy(stream->bytes, bytes, nbytes);
    memcpy(stream->offset, offset,
           (size_t)job->block.rank * sizeof *stream->offset);
    stream->nbytes = nbytes;
    job->nstreams++;
    return TERP_OK;
}

static void
free_streams(struct terp_h5_job *job)
{
    for (uint64_t i = 0; i < job->nstreams; i++)
        free(job->streams[i].bytes);
    free(job->streams);
    job->streams = NULL;
    job->nstreams = 0;
}

/* ---- the storage of a block that the thread codes ---- */

static enum terp_status
keep_stream(const struct terp_h5_block *block, const hsize_t *offset,
            const void *stream, uint64_t stream_nbytes)
{
    struct terp_h5_job *job = block->context;
    enum terp_status st = TERP_ERR_ARGUMENT; /* the job is stopped */

    if (!job->is_stopped)
        st = hold(job, stream_nbytes);
    return st == TERP_OK ? keep(job, offset, stream, stream_nbytes) : st;
}

/* Streams were fetched in the order in which they are decoded. */
static enum terp_status
take_stream(const struct terp_h5_block *block, const hsize_t *offset,
            void *stream, uint64_t stream_cap_nbytes, uint64_t *nbytes_ret)
{
    struct terp_h5_job *job = block->context;
    const struct stream *fetched = &job->streams[job->nfetched++];

    (void)offset;
    (void)stream_cap_nbytes;
    *nbytes_ret = fetched->nbytes;
    memcpy(stream, fetched->bytes, fetched->nbytes);
    return job->is_stopped ? TERP_ERR_ARGUMENT : TERP_OK;
}

/* Only HDF5 can read the chunk, which is not possible in the thread. */
static enum terp_status
read_nothing(const struct terp_h5_block *block, const hsize_t *offset,
             const hsize_t *count, const hsize_t *dims, void *dst)
{
    (void)block, (void)offset, (void)count, (void)dims, (void)dst;
    return TERP_ERR_ARGUMENT;
}

static const struct terp_h5_storage memory_storage = {keep_stream, take_stream,
                                                      read_nothing};

/* ---- copies of values ---- */

static void *
allocate_copy(uint64_t nbytes)
{
#ifdef MADV_HUGEPAGE
    void *copy = NULL;

    if (nbytes >= PAGE_NBYTES &&
        posix_memalign(&copy, PAGE_NBYTES, nbytes) == 0) {
        (void)madvise(copy, nbytes, MADV_HUGEPAGE);
        return copy;
    }
#endif
    return malloc(nbytes);
}

static void
free_device_copy(struct terp_h5_job *job)
{
    struct terp_run run;

    if (job->device_copy == NULL)
        return;
    if (terp_run_begin(&job->options, NULL, &run) == TERP_OK)
        terp_memory_free(&run, job->device_copy);
    held_device_nbytes -= job->copy_nbytes;
    job->device_copy = NULL;
}

/* Copies values that the device did not encode to the host, for HDF5. */
static void
move_to_host(struct terp_h5_job *job)
{
    struct terp_run run;
    const void *src = job->device_copy;
    void *copy = allocate_copy(job->copy_nbytes);

    job->src = NULL;
    if (copy != NULL && terp_run_begin(&job->options, NULL, &run) == TERP_OK &&
        terp_memory_copy(&run, 1, &copy, &src, &job->copy_nbytes) == TERP_OK) {
        job->src = job->copy = copy;
        copy = NULL;
    }
    free(copy);
}

/* ---- the thread ---- */

static void
run_job(struct terp_h5_job *job)
{
    struct terp_run run;
    const struct terp_run_result asked = {.size = sizeof asked};

    job->begin = terp_h5_job_clock();
    job->st = terp_run_begin(&job->options, &asked, &run);
    /* Memory of other jobs that is given back meanwhile stays counted. */
    if (job->st == TERP_OK && run.budget->limit_nbytes != UINT64_MAX)
        job->st = terp_budget_hold(run.budget, held_nbytes);
    if (job->st == TERP_OK)
        job->st = terp_h5_batch_move(&run, &job->block,
                                     job->has_params ? &job->params : NULL,
                                     job->src, job->dst);
    job->result.size = sizeof job->result;
    job->st = terp_run_end(&run, job->st, &job->result);
    /* The reason is the thread's own. */
    if (job->result.reason != NULL) {
        snprintf(job->reason, sizeof job->reason, "%s", job->result.reason);
        job->result.reason = job->reason;
    }
    if (job->st != TERP_OK && job->device_copy != NULL)
        move_to_host(job);
    free_device_copy(job);
    job->end = terp_h5_job_clock();
}

static void *
run_jobs(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&queue.lock);
    while (queue.first != NULL) {
        struct terp_h5_job *job = queue.first;
        queue.first = job->next;
        job->state = CODING;
        pthread_mutex_unlock(&queue.lock);
        run_job(job);
        pthread_mutex_lock(&queue.lock);
        job->state = DONE;
        pthread_cond_broadcast(&queue.changed);
    }
    queue.is_running = false;
    pthread_mutex_unlock(&queue.lock);
    return NULL;
}

#ifndef _WIN32
static void
lock_queue(void)
{
    pthread_mutex_lock(&queue.lock);
}

static void
unlock_queue(void)
{
    pthread_mutex_unlock(&queue.lock);
}

/* The parent stores its jobs, and its thread stays with it. The child begins
 * with an empty queue. */
static void
forget_queue(void)
{
    pthread_mutex_init(&queue.lock, NULL);
    pthread_cond_init(&queue.changed, NULL);
    queue.first = queue.last = NULL;
    queue.is_running = false;
    queue.generation++;
    held_nbytes = held_device_nbytes = 0;
}
#endif

static bool can_fork;

static void
watch_forks(void)
{
#ifndef _WIN32
    can_fork = pthread_atfork(lock_queue, unlock_queue, forget_queue) == 0;
#else
    can_fork = true;
#endif
}

/* Hands the job to the thread. Codes it at once where there can be no
 * thread. */
static void
submit(struct terp_h5_job *job)
{
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    pthread_t thread;

    pthread_once(&watched, watch_forks);
    pthread_mutex_lock(&queue.lock);
    job->generation = queue.generation;
    if (can_fork && !queue.is_running &&
        terp_thread_start(&thread, run_jobs, NULL) == 0) {
        pthread_detach(thread);
        queue.is_running = true;
    }
    const bool has_thread = queue.is_running;
    if (has_thread) {
        if (queue.first == NULL)
            queue.first = job;
        else
            queue.last->next = job;
        queue.last = job;
    }
    pthread_mutex_unlock(&queue.lock);
    if (!has_thread) {
        run_job(job);
        job->state = DONE;
    }
}

bool
terp_h5_job_is_lost(const struct terp_h5_job *job)
{
    return job->generation != queue.generation;
}

bool
terp_h5_job_wait(struct terp_h5_job *job, uint64_t timeout_ns)
{
    uint64_t end = terp_h5_job_clock();
    int error = 0;

    end = timeout_ns > UINT64_MAX / 4 - end ? UINT64_MAX / 4 : end + timeout_ns;
    const struct timespec until = {(time_t)(end / NANOSECONDS),
                                   (long)(end % NANOSECONDS)};
    if (terp_h5_job_is_lost(job))
        return true;
    pthread_mutex_lock(&queue.lock);
    while (job->state != DONE && error == 0) {
        if (timeout_ns == TERP_H5_FOREVER)
            pthread_cond_wait(&queue.changed, &queue.lock);
        else
            error = timeout_ns == 0 ? 1
                                    : pthread_cond_timedwait(
                                          &queue.changed, &queue.lock, &until);
    }
    const bool is_done = job->state == DONE;
    pthread_mutex_unlock(&queue.lock);
    return is_done;
}

/* Takes a job out of the queue, or stops it. */
static void
stop(struct terp_h5_job *job)
{
    struct terp_h5_job **at, *before = NULL;

    job->is_stopped = true;
    pthread_mutex_lock(&queue.lock);
    for (at = &queue.first; *at != NULL && *at != job; at = &(*at)->next)
        before = *at;
    if (*at == job) {
        *at = job->next;
        if (queue.last == job)
            queue.last = before;
        job->state = DONE;
        job->st = TERP_ERR_ARGUMENT;
    }
    pthread_mutex_unlock(&queue.lock);
    (void)terp_h5_job_wait(job, TERP_H5_FOREVER);
}

/* ---- copying ---- */

struct copying {
    const struct terp_array *array;
    const uint8_t *src;
    uint8_t *dst;
    int ndims;       /* leading dims; along the others values are dense */
    uint64_t nbytes; /* of a dense run */
    uint64_t npieces, piece_nbytes; /* of a run */
};

static void
copy_pieces(void *arg, struct terp_cpu_batch_part part)
{
    const struct copying *copying = arg;
    const struct terp_array *array = copying->array;

    for (uint64_t i = part.first; i < part.end; i++) {
        const uint64_t piece = i % copying->npieces * copying->piece_nbytes;
        uint64_t left = i / copying->npieces, at = 0;
        const uint64_t run = left;
        for (int d = copying->ndims - 1; d >= 0; d--) {
            at += left % array->dims[d] * array->stride[d];
            left /= array->dims[d];
        }
        memcpy(copying->dst + run * copying->nbytes + piece,
               copying->src + at * array->value_nbytes + piece,
               min_u64(copying->piece_nbytes, copying->nbytes - piece));
    }
}

/* Copies the block's values, with all threads of the run. */
static void
copy_values(const struct terp_run *run, struct terp_h5_job *job)
{
    struct terp_array *array = &job->block.array;
    struct copying copying = {.array = array,
                              .src = job->src,
                              .dst = job->copy,
                              .ndims = array->rank,
                              .nbytes = array->value_nbytes};
    uint64_t stride = 1, nruns = 1;

    for (; copying.ndims > 0 && (array->stride[copying.ndims - 1] == stride ||
                                 array->dims[copying.ndims - 1] == 1);
         copying.ndims--) {
        stride *= array->dims[copying.ndims - 1];
        copying.nbytes *= array->dims[copying.ndims - 1];
    }
    for (int d = 0; d < copying.ndims; d++)
        nruns *= array->dims[d];
    copying.piece_nbytes = min_u64(PIECE_NBYTES, copying.nbytes);
    copying.npieces = div_up(copying.nbytes, copying.piece_nbytes);
    terp_run_share(run, copy_pieces, &copying, nruns * copying.npieces);
    terp_array_make_dense(array);
    job->src = job->copy;
}

static enum terp_status
take_host_copy(struct terp_h5_job *job)
{
    struct terp_run run;
    enum terp_status st = hold(job, job->copy_nbytes);

    if (st == TERP_OK)
        st = terp_run_begin(&job->options, NULL, &run);
    if (st != TERP_OK)
        return st;
    job->copy = allocate_copy(job->copy_nbytes);
    if (job->copy == NULL)
        return TERP_ERR_MEMORY;
    copy_values(&run, job);
    return TERP_OK;
}

static bool
is_dense(const struct terp_array *array)
{
    struct terp_array dense = *array;

    terp_array_make_dense(&dense);
    return memcmp(dense.stride, array->stride,
                  (size_t)array->rank * sizeof *array->stride) == 0;
}

/* Fails where the values have gaps, or the device has too little memory. */
static enum terp_status
take_device_copy(struct terp_h5_job *job)
{
    struct terp_run run;
    void *copy = NULL;

    if (!is_dense(&job->block.array) ||
        !add_held(&held_device_nbytes, TERP_H5_MAX_DEVICE_NBYTES,
                  job->copy_nbytes))
        return TERP_ERR_LIMIT;
    enum terp_status st = terp_run_begin(&job->options, NULL, &run);
    if (st == TERP_OK)
        st = terp_memory_make(&run, job->copy_nbytes, &copy);
    if (st == TERP_OK)
        st = terp_memory_copy(&run, 1, &copy, &job->src, &job->copy_nbytes);
    if (st != TERP_OK) {
        terp_memory_free(&run, copy);
        held_device_nbytes -= job->copy_nbytes;
        return st;
    }
    job->src = job->device_copy = copy;
    return TERP_OK;
}

/* Copies the values, or encodes them before the program may change them. */
static enum terp_status
take_copy(struct terp_h5_job *job)
{
    uint64_t nbytes = job->block.array.value_nbytes;

    for (int d = 0; d < job->block.rank; d++)
        if (!mul_fits(nbytes, job->block.array.dims[d], &nbytes))
            return TERP_ERR_MEMORY;
    job->copy_nbytes = nbytes;
    if (job->options.memory != TERP_MEMORY_DEVICE)
        return take_host_copy(job);
    if (take_device_copy(job) == TERP_OK)
        return TERP_OK;
    run_job(job);
    job->is_encoded = true;
    return job->st;
}

/* ---- jobs ---- */

static struct terp_h5_job *
make(const struct terp_run_options *options, const struct terp_h5_block *block)
{
    static const struct terp_run_options defaults = {.size = sizeof defaults};
    struct terp_h5_job *job = calloc(1, sizeof *job);

    if (job == NULL)
        return NULL;
    job->block = *block;
    job->storage = block->storage;
    job->context = block->context;
    job->block.storage = &memory_storage;
    job->block.context = job;
    job->options = options == NULL ? defaults : *options;
    job->generation = queue.generation;
    job->state = DONE;
    job->streams =
        calloc(terp_array_nchunks(&block->array), sizeof *job->streams);
    if (job->streams != NULL)
        return job;
    free(job);
    return NULL;
}

enum terp_status
terp_h5_job_encode(const struct terp_run_options *options,
                   const struct terp_h5_block *block,
                   const struct terp_params *params, const void *src,
                   bool copies, struct terp_h5_job **job_ret)
{
    struct terp_h5_job *job = make(options, block);
    enum terp_status st = TERP_OK;

    *job_ret = job;
    if (job == NULL)
        return TERP_ERR_MEMORY;
    job->src = src;
    job->has_params = params != NULL;
    if (params != NULL)
        job->params = *params;
    if (copies)
        st = take_copy(job);
    if (st != TERP_OK) {
        terp_h5_job_free(job);
        *job_ret = NULL;
        return st;
    }
    if (!job->is_encoded) {
        job->state = WAITING;
        submit(job);
    }
    return TERP_OK;
}

/* The first value of chunk `number` of the block, in the dataset. */
static void
find_offset(const struct terp_h5_block *block, uint64_t number,
            hsize_t *offset_ret)
{
    for (int d = block->rank - 1; d >= 0; d--) {
        const uint64_t n = div_up(block->count[d], block->chunk[d]);
        offset_ret[d] = block->offset[d] + number % n * block->chunk[d];
        number /= n;
    }
}

static enum terp_status
fetch_streams(struct terp_h5_job *job, const struct terp_h5_block *block)
{
    const uint64_t nchunks = terp_array_nchunks(&block->array);
    const uint64_t cap_nbytes = terp_encode_bound(&block->cd.chunk);
    hsize_t offset[H5S_MAX_RANK] = {0};
    void *stream = malloc(cap_nbytes);
    enum terp_status st = stream == NULL ? TERP_ERR_MEMORY : TERP_OK;
    uint64_t nbytes;

    for (uint64_t i = 0; st == TERP_OK && i < nchunks; i++) {
        find_offset(block, i, offset);
        st = block->storage->fetch(block, offset, stream, cap_nbytes, &nbytes);
        if (st == TERP_OK && nbytes == 0)
            st = TERP_ERR_ARGUMENT;
        if (st == TERP_OK)
            st = hold(job, nbytes);
        if (st == TERP_OK)
            st = keep(job, offset, stream, nbytes);
    }
    free(stream);
    return st;
}

enum terp_status
terp_h5_job_decode(const struct terp_run_options *options,
                   const struct terp_h5_block *block, void *dst,
                   struct terp_h5_job **job_ret)
{
    struct terp_h5_job *job = make(options, block);

    *job_ret = job;
    if (job == NULL)
        return TERP_ERR_MEMORY;
    job->dst = dst;
    const enum terp_status st = fetch_streams(job, block);
    if (st != TERP_OK) {
        terp_h5_job_free(job);
        *job_ret = NULL;
        return st;
    }
    job->state = WAITING;
    submit(job);
    return TERP_OK;
}

enum terp_status
terp_h5_job_finish(struct terp_h5_job *job, struct terp_run_result *result_ret)
{
    struct terp_h5_block *block = &job->block;

    if (result_ret != NULL &&
        terp_size_is_known(result_ret->size, sizeof *result_ret)) {
        const size_t size = result_ret->size;
        *result_ret = job->result;
        result_ret->size = size;
    }
    if (job->st != TERP_OK || job->dst != NULL)
        return job->st;
    block->storage = job->storage;
    block->context = job->context;
    for (uint64_t i = 0; job->st == TERP_OK && i < job->nstreams; i++) {
        const struct stream *stream = &job->streams[i];
        job->st = block->storage->store(block, stream->offset, stream->bytes,
                                        stream->nbytes);
    }
    return job->st;
}

const void *
terp_h5_job_values(const struct terp_h5_job *job)
{
    return job->src;
}

void
terp_h5_job_times(const struct terp_h5_job *job, uint64_t *begin_ret,
                  uint64_t *nanoseconds_ret)
{
    *begin_ret = job->begin;
    *nanoseconds_ret = job->end - job->begin;
}

void
terp_h5_job_free(struct terp_h5_job *job)
{
    /* The parent's thread may have been writing to the job. */
    if (job == NULL || terp_h5_job_is_lost(job))
        return;
    stop(job);
    free_streams(job);
    free_device_copy(job);
    free(job->copy);
    held_nbytes -= job->held_nbytes;
    free(job);
}
