/* terp repack: opens input and GPU, runs the copy and reports its end. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
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
#include "tools/repack/output.h"
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

/* Opens the GPU in a thread of its own, while the CPU starts to compress.
 * Opening takes some tenths of a second. */
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
    if (works)
        terp_memory_free(&run, at);
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

static bool
run(struct repack *repack)
{
    const struct repack_request *request = &repack->request;
    const double start_s = tool_seconds();
    struct stat stat_in, stat_out;

    if (stat(request->path_in, &stat_in) != 0)
        return repack_fail(repack, request->path_in, "%s", strerror(errno));
    bool ok = repack_output_begin(repack, &stat_in) && repack_list(repack) &&
              check_levels(repack) && repack_output_create(repack) &&
              make_out(repack) && repack_output_finish(repack, &stat_in);
    tool_progress_end(&repack->progress);
    if (ok && stat(request->path_out, &stat_out) == 0)
        tool_progress_sum(
            start_s, tool_shown(request->path_in), (uint64_t)stat_in.st_size,
            tool_shown(request->path_out), (uint64_t)stat_out.st_size);
    if (ok && repack->nlost > 0)
        fprintf(stderr,
                "terp repack: %s: damaged chunks: %llu; their values are lost; "
                "the attribute terp_lost of each dataset lists them\n",
                tool_shown(request->path_in),
                (unsigned long long)repack->nlost);
    if (ok && repack->nlost_references > 0)
        fprintf(stderr,
                "terp %s: %s: references that became null because the copy "
                "lacks their target: %llu\n",
                request->command, tool_shown(request->path_in),
                (unsigned long long)repack->nlost_references);
    repack_output_remove();
    return ok;
}

/* Runs the request. */
static int
copy_file(struct repack *repack)
{
    bool ok = false;

    repack->in = repack->out = -1;
    repack->end_of_objects = &repack->first_object;
    repack->end_of_links = &repack->first_link;
    /* A failed output stays open, also at exit: HDF5 would try to write again
     * and might not end. */
    H5dont_atexit();
    keep_memory();
    tool_plugin_dirs_add();
    repack->in =
        tool_file_open(repack->request.command, repack->request.path_in);
    if (repack->in >= 0) {
        tool_limit_begin(tool_limit_file_nbytes(repack->in),
                         repack->request.is_trusted);
        H5Eset_auto2(H5E_DEFAULT, note_reason, repack);
        ok = run(repack);
        if (!ok)
            fprintf(stderr, "terp %s: %s: %s\n", repack->request.command,
                    repack->error_path == NULL ? "?"
                                               : tool_shown(repack->error_path),
                    tool_shown(repack->error));
        repack_free_objects(repack);
        H5Fclose(repack->in);
    }
    repack_request_free(&repack->request);
    return !ok                                          ? TOOL_TROUBLE
           : repack->nlost > 0 || repack->nleft_out > 0 ? TOOL_FOUND
                                                        : TOOL_OK;
}

int
tool_repack(int argc, char **argv)
{
    struct repack repack = {.in = -1};

    if (!repack_request_read(argc, argv, &repack.request)) {
        perror("terp repack");
        return TOOL_TROUBLE;
    }
    return copy_file(&repack);
}

int
tool_preview(int argc, char **argv)
{
    struct repack repack = {.in = -1};

    if (!repack_request_read_preview(argc, argv, &repack.request)) {
        perror("terp preview");
        return TOOL_TROUBLE;
    }
    return copy_file(&repack);
}
