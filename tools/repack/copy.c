/* terp repack: copies one file: opens input and GPU, runs the copy and reports
 * its end. */
#include "tools/repack/copy.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "codec/api/memory.h"
#include "codec/format/thread.h"
#include "tools/common/h5file.h"
#include "tools/common/limit.h"
#include "tools/common/text.h"
#include "tools/common/tool.h"
#include "tools/repack/done.h"
#include "tools/repack/mask.h"
#include "tools/repack/output.h"
#include "tools/repack/plan.h"
#include "tools/repack/structure.h"

/* Opening the GPU takes some tenths of a second; it pays if each thread has
 * this many bytes to compress. */
#define DEVICE_NBYTES ((uint64_t)256 << 20)

/* Keeps freed memory in the process: the next slab needs as much, and the
 * system clears each page that it hands out. glibc accepts no threshold above
 * 32 MiB. */
static void
keep_memory(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

/* HDF5 calls this for each failure. Copies the reason, because the next call of
 * HDF5 clears the error stack. */
static herr_t
note_reason(hid_t stack, void *context)
{
    struct repack *repack = context;

    (void)stack;
    tool_hdf5_reason(repack->reason, sizeof repack->reason);
    return 0;
}

/* Whether a dataset is data of a level. The plan has no level for data that is
 * copied, such as a dataset of few values. */
static bool
is_level(const struct repack *repack, const struct repack_object *object)
{
    struct tool_dataset dataset;
    const char *reason;

    if (object->type != H5O_TYPE_DATASET)
        return false;
    if (object->plan.level != NULL)
        return true;
    if (!tool_dataset_open(repack->in, object->path, &dataset))
        return false;
    struct amrex_level *level =
        amrex_level_open(repack->in, object->path, &dataset, &reason);
    const bool found = level != NULL;
    amrex_level_free(level);
    tool_dataset_close(&dataset);
    return found;
}

/* --amrex demands at least one level. */
static bool
check_levels(struct repack *repack)
{
    bool found = repack->request.levels != REPACK_LEVELS_NEEDED;

    for (const struct repack_object *object = repack->first_object;
         !found && object != NULL; object = object->next)
        found = is_level(repack, object);
    return found ||
           repack_fail(repack, repack->request.path_in,
                       "--amrex: terp found no level of an AMReX plotfile or "
                       "a Chombo file: a group with data:datatype=0, boxes "
                       "and data:offsets=0");
}

/* Extent of a chunk with the kernels of most datasets. */
#define USUAL_EXTENT 64

/* Lets the GPU encode a chunk: the first call loads its kernels, for some tens
 * of milliseconds. Failures show in the calls that follow. */
static void
load_kernels(const struct repack_request *request)
{
    const struct terp_run_options options = {.engine = TERP_ENGINE_CUDA};
    const struct terp_chunk chunk = {
        .type = TERP_FLOAT32,
        .rank = 3,
        .dims = {USUAL_EXTENT, USUAL_EXTENT, USUAL_EXTENT}};
    const struct repack_bound bound = {.mode = REPACK_ABS, .number = 1};
    const struct terp_params params = repack_params(request, &bound);
    const void *values = calloc(1, terp_chunk_nbytes(&chunk));
    void *stream = malloc(terp_encode_bound(&chunk));
    uint64_t nbytes;

    if (values != NULL && stream != NULL)
        (void)terp_encode_batch(&options, &params, &chunk, 1, &values, &stream,
                                &nbytes, NULL);
    free((void *)values);
    free(stream);
}

/* Opens the GPU in a thread of its own, while the CPU finds ranges and, unless
 * the user requested the GPU alone, starts to compress. Opening takes some
 * tenths of a second. */
static void *
open_device(void *context)
{
    struct repack *repack = context;
    const struct terp_run_options options = {.engine = TERP_ENGINE_CUDA,
                                             .memory = TERP_MEMORY_DEVICE};
    struct terp_run run;
    void *at;

    (void)terp_run_begin(&options, NULL, &run);
    bool works = terp_memory_make(&run, 1, &at) == TERP_OK;
    if (works) {
        terp_memory_free(&run, at);
        load_kernels(&repack->request);
    }
    if (repack->request.engine == TERP_ENGINE_AUTO)
        atomic_store(&repack->device,
                     works ? REPACK_DEVICE_OPEN : REPACK_DEVICE_NONE);
    return NULL;
}

static bool
make_out(struct repack *repack)
{
    const struct repack_request *request = &repack->request;
    const uint64_t nthreads = (uint64_t)request->nthreads;
    pthread_t opener;
    bool opens = false;

    if (request->engine == TERP_ENGINE_CUDA) {
        atomic_store(&repack->device, REPACK_DEVICE_OPEN);
        opens = repack->progress.total_nbytes > 0 &&
                terp_thread_start(&opener, open_device, repack) == 0;
    } else if (request->engine == TERP_ENGINE_AUTO &&
               repack->progress.total_nbytes / DEVICE_NBYTES >= nthreads) {
        atomic_store(&repack->device, REPACK_DEVICE_OPENING);
        opens = terp_thread_start(&opener, open_device, repack) == 0;
    }
    bool ok = repack_make(repack);
    if (opens)
        pthread_join(opener, NULL);
    return ok;
}

/* Whether terp compresses something in the file. */
static bool
has_work(const struct repack *repack)
{
    const struct repack_object *object = repack->first_object;

    while (object != NULL && (object->type != H5O_TYPE_DATASET ||
                              object->plan.bound.mode == REPACK_KEEP))
        object = object->next;
    return object != NULL || repack->request.deflates_rest;
}

/* Prints the sizes of both files, and what was lost. */
static void
report(const struct repack *repack, const struct repack_outcome *outcome,
       double start_s)
{
    const struct repack_request *request = &repack->request;

    tool_progress_sum(start_s, tool_shown(request->path_in), outcome->in_nbytes,
                      tool_shown(request->path_out), outcome->out_nbytes);
    if (repack->nlost > 0)
        fprintf(stderr,
                "terp repack: %s: damaged chunks: %llu; their values are lost; "
                "the attribute terp_lost of each dataset lists them\n",
                tool_shown(request->path_in),
                (unsigned long long)repack->nlost);
    if (repack->nlost_references > 0)
        fprintf(stderr,
                "terp %s: %s: references that became null because the copy "
                "lacks their target: %llu\n",
                request->command, tool_shown(request->path_in),
                (unsigned long long)repack->nlost_references);
}

/* Writes the copy. In place, a file without anything to compress stays. */
static enum repack_state
make_copy(struct repack *repack, const struct stat *stat_in,
          struct repack_outcome *outcome)
{
    const bool in_place = repack->request.target == REPACK_IN_PLACE;

    if (!repack_output_begin(repack, stat_in) || !repack_list(repack) ||
        !check_levels(repack))
        return REPACK_FAILED;
    if (in_place && !has_work(repack))
        return REPACK_UNCHANGED;
    repack->progress.nhundredths = &outcome->nhundredths;
    if (!repack_output_create(repack) || !make_out(repack))
        return REPACK_FAILED;
    if (in_place && !has_work(repack))
        return REPACK_UNCHANGED;
    return repack_done_note(repack, stat_in) &&
                   repack_output_finish(repack, stat_in)
               ? REPACK_COPIED
               : REPACK_FAILED;
}

/* Whether an earlier run with the same options has made the copy. */
static bool
is_done(const struct repack *repack, const struct stat *stat_in,
        struct repack_outcome *outcome)
{
    const struct repack_request *request = &repack->request;
    const bool in_place = request->target == REPACK_IN_PLACE;
    char reason[256];
    struct stat stat_out;

    if (!repack_is_of_many(request) || request->redo ||
        stat(request->path_out, &stat_out) != 0)
        return false;
    hid_t out = in_place
                    ? repack->in
                    : tool_file_try(request->path_out, reason, sizeof reason);
    const bool done =
        out >= 0 && repack_done_check(request, out, in_place ? NULL : stat_in,
                                      &outcome->in_nbytes);
    if (!in_place && out >= 0)
        H5Fclose(out);
    outcome->out_nbytes = (uint64_t)stat_out.st_size;
    return done;
}

static enum repack_state
run(struct repack *repack, struct repack_outcome *outcome)
{
    const struct repack_request *request = &repack->request;
    const double start_s = tool_seconds();
    struct stat stat_in, stat_out;

    if (stat(request->path_in, &stat_in) != 0) {
        repack_fail(repack, request->path_in, "%s", strerror(errno));
        return REPACK_FAILED;
    }
    outcome->in_nbytes = (uint64_t)stat_in.st_size;
    if (is_done(repack, &stat_in, outcome))
        return REPACK_DONE;
    const enum repack_state state = make_copy(repack, &stat_in, outcome);
    outcome->out_nbytes = outcome->in_nbytes;
    tool_progress_end(&repack->progress);
    if (state == REPACK_COPIED && stat(request->path_out, &stat_out) == 0) {
        outcome->out_nbytes = (uint64_t)stat_out.st_size;
        report(repack, outcome, start_s);
    }
    repack_output_remove();
    return state;
}

/* Opens the input, and copies it or only lists it. */
static void
use_input(struct repack *repack, const struct repack_request *request,
          bool copies, struct repack_outcome *outcome)
{
    const char *path = request->path_in;

    *repack = (struct repack){.request = *request, .in = -1, .out = -1};
    repack->end_of_objects = &repack->first_object;
    repack->end_of_links = &repack->first_link;
    *outcome = (struct repack_outcome){.state = REPACK_FAILED};
    /* A failed output stays open, also at exit: HDF5 would try to write again
     * and might not end. */
    H5dont_atexit();
    keep_memory();
    tool_plugin_dirs_add();
    repack->in = tool_file_try(path, outcome->reason, sizeof outcome->reason);
    if (repack->in < 0) {
        snprintf(outcome->object, sizeof outcome->object, "%s", path);
        return;
    }
    tool_limit_begin(tool_limit_file_nbytes(repack->in), request->is_trusted);
    H5Eset_auto2(H5E_DEFAULT, note_reason, repack);
    outcome->state = copies                ? run(repack, outcome)
                     : repack_list(repack) ? REPACK_UNCHANGED
                                           : REPACK_FAILED;
    outcome->nlost = repack->nlost;
    outcome->nleft_out = repack->nleft_out;
    if (outcome->state == REPACK_FAILED) {
        snprintf(outcome->object, sizeof outcome->object, "%s",
                 repack->error_path == NULL ? "?" : repack->error_path);
        snprintf(outcome->reason, sizeof outcome->reason, "%s", repack->error);
    }
    repack_free_objects(repack);
    repack_masks_free(repack);
    tool_close(repack->in);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

void
repack_copy(const struct repack_request *request,
            struct repack_outcome *outcome_ret)
{
    struct repack repack;

    use_input(&repack, request, true, outcome_ret);
}

void
repack_match(const struct repack_request *request,
             struct repack_outcome *outcome_ret)
{
    struct repack repack;

    use_input(&repack, request, false, outcome_ret);
}
