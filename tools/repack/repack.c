/* terp repack: opens the input and the GPU, and puts the output in place when
 * all of it is written. */
#define _GNU_SOURCE /* realpath */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "codec/api/memory.h"
#include "tools/common/h5file.h"
#include "tools/common/limit.h"
#include "tools/common/part.h"
#include "tools/common/tool.h"
#include "tools/repack/structure.h"

/* The GPU is worth opening for so many bytes of values for each thread. */
#define DEVICE_NBYTES ((uint64_t)256 << 20)

/* With room for what describes it. */
#define MAX_OLD_ATTRIBUTE_NBYTES 60000

/* The file that is written until it gets OUT's name. It is removed when the
 * program ends otherwise. */
static char part_path[4096];
static volatile sig_atomic_t has_part;

static void
remove_part(void)
{
    if (has_part)
        unlink(part_path);
    has_part = 0;
}

static void
end_by_signal(int number)
{
    remove_part();
    signal(number, SIG_DFL);
    raise(number);
}

static void
watch_ends(void)
{
    signal(SIGINT, end_by_signal);
    signal(SIGTERM, end_by_signal);
#ifndef _WIN32
    signal(SIGHUP, end_by_signal);
    signal(SIGPIPE, end_by_signal);
    /* Without the signal, write() fails where the file may not grow further. */
    signal(SIGXFSZ, SIG_IGN);
#endif
    atexit(remove_part);
}

/* Keeps freed memory in the process, since the next part needs as much again,
 * and the system clears each page that it hands out. glibc takes no threshold
 * above 32 MiB. */
static void
keep_memory(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

/* HDF5 calls this for each failure. The reason is copied here, because the next
 * call of HDF5 clears the error stack. */
static herr_t
note_reason(hid_t stack, void *context)
{
    struct repack *repack = context;

    (void)stack;
    tool_hdf5_reason(repack->reason, sizeof repack->reason);
    return 0;
}

static void
warn_of_part(void *context, const char *path)
{
    const struct repack *repack = context;

    fprintf(stderr,
            "terp %s: %s: a run elsewhere, or before this machine was started, "
            "writes it or has left it; remove it unless that runs\n",
            repack->request.command, path);
}

/* Creates an empty file beside OUT, and sets part_path to its name. *out_ret
 * gets the path of OUT with symbolic links followed, to be freed. */
static bool
make_part(struct repack *repack, const struct stat *stat_in, char **out_ret)
{
    const char *path = repack->request.path_out;
    struct stat found;
    bool exists = stat(path, &found) == 0;

    if (exists && found.st_dev == stat_in->st_dev &&
        found.st_ino == stat_in->st_ino)
        return repack_fail(repack, path, "this is IN itself");
    if (exists && !S_ISREG(found.st_mode))
        return repack_fail(repack, path, "not a regular file");
    if (exists && access(path, W_OK) != 0)
        return repack_fail(repack, path, "%s", strerror(errno));
    *out_ret = exists ? realpath(path, NULL) : strdup(path);
    if (*out_ret == NULL)
        return repack_fail(repack, path, "%s", strerror(errno));
    tool_part_sweep(*out_ret, warn_of_part, repack);
    int file = tool_part_make(*out_ret, part_path, sizeof part_path);
    if (file < 0)
        return repack_fail(repack, path, "%s", strerror(errno));
    has_part = 1;
    mode_t mask = umask(0);
    (void)umask(mask);
    fchmod(file, exists ? found.st_mode & 0777 : 0666 & ~mask);
    close(file);
    return true;
}

/* The input file's creation properties. HDF5 leaves out those of its root
 * group, which are copied one by one. */
static hid_t
copy_fcpl(hid_t in)
{
    hid_t fcpl = H5Fget_create_plist(in);
    hid_t root = H5Gopen2(in, "/", H5P_DEFAULT);
    hid_t gcpl = H5Gget_create_plist(root);
    unsigned order, max_compact, min_dense;

    H5Pget_link_creation_order(gcpl, &order);
    H5Pset_link_creation_order(fcpl, order);
    H5Pget_attr_creation_order(gcpl, &order);
    H5Pset_attr_creation_order(fcpl, order);
    H5Pget_link_phase_change(gcpl, &max_compact, &min_dense);
    H5Pset_link_phase_change(fcpl, max_compact, min_dense);
    H5Pget_attr_phase_change(gcpl, &max_compact, &min_dense);
    H5Pset_attr_phase_change(fcpl, max_compact, min_dense);
    H5Pclose(gcpl);
    H5Gclose(root);
    return fcpl;
}

/* Object headers before HDF5 1.8 have attributes of less than 64 KiB. */
static bool
has_long_notes(const struct repack *repack)
{
    for (const struct repack_object *object = repack->first_object;
         object != NULL; object = object->next)
        if (object->losses.nchunks > 0 &&
            tool_lost_nbytes(&object->losses.noted) > MAX_OLD_ATTRIBUTE_NBYTES)
            return true;
    return false;
}

/* Creates the output with the input's creation properties, and with object
 * headers of the same version, so that the same programs can read it. */
static bool
create_out(struct repack *repack)
{
    hid_t fcpl = copy_fcpl(repack->in);
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5F_info2_t info;
    H5F_libver_t low = H5F_LIBVER_EARLIEST;

    if (H5Fget_info2(repack->in, &info) >= 0 && info.super.version >= 2)
        low = info.super.version == 2 ? H5F_LIBVER_V18 : H5F_LIBVER_V110;
    if (low == H5F_LIBVER_EARLIEST && has_long_notes(repack))
        low = H5F_LIBVER_V18;
    H5Pset_libver_bounds(fapl, low, H5F_LIBVER_LATEST);
    H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG);
    /* Values are written at once: of what a dataset's buffers still have when
     * it is closed, HDF5 1.10.8 does not say that writing it failed. */
    H5Pset_sieve_buf_size(fapl, 0);
    H5Pset_cache(fapl, 0, 0, 0, 0); /* no chunk is kept */
    repack->out = H5Fcreate(part_path, H5F_ACC_TRUNC, fcpl, fapl);
    H5Pclose(fapl);
    H5Pclose(fcpl);
    return repack->out >= 0 ||
           repack_fail(repack, repack->request.path_out, NULL);
}

/* Copies the user block: bytes in front of the HDF5 data, which belong to the
 * user. */
static bool
copy_userblock(struct repack *repack, hsize_t nbytes)
{
    const struct repack_request *request = &repack->request;
    char bytes[512]; /* the smallest userblock; larger ones are multiples */
    bool ok = true;

    FILE *in = fopen(request->path_in, "rb");
    FILE *out = fopen(part_path, "r+b");
    for (hsize_t at = 0; in != NULL && out != NULL && at < nbytes && ok;
         at += sizeof bytes)
        ok = fread(bytes, sizeof bytes, 1, in) == 1 &&
             fwrite(bytes, sizeof bytes, 1, out) == 1;
    ok = ok && in != NULL && out != NULL;
    if (in != NULL)
        fclose(in);
    if (out != NULL && (fflush(out) != 0 || fsync(fileno(out)) != 0))
        ok = false;
    if (out != NULL)
        fclose(out);
    return ok || repack_fail(repack, request->path_out, "%s", strerror(errno));
}

/* Writes all to the disk, checks that the input is still the same, and gives
 * the file the name of OUT. */
static bool
finish_out(struct repack *repack, const struct stat *stat_in, const char *out)
{
    const struct repack_request *request = &repack->request;
    hid_t fcpl = H5Fget_create_plist(repack->out);
    hsize_t userblock_nbytes = 0;
    struct stat now;

    H5Pget_userblock(fcpl, &userblock_nbytes);
    H5Pclose(fcpl);
    if (H5Fflush(repack->out, H5F_SCOPE_GLOBAL) < 0 ||
        H5Fclose(repack->out) < 0)
        return repack_fail(repack, request->path_out, NULL);
    if (!copy_userblock(repack, userblock_nbytes))
        return false;
    if (stat(request->path_in, &now) != 0 || now.st_ino != stat_in->st_ino ||
        now.st_size != stat_in->st_size ||
        now.st_mtim.tv_sec != stat_in->st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != stat_in->st_mtim.tv_nsec)
        return repack_fail(repack, request->path_in,
                           "it has changed while it was read");
    if (rename(part_path, out) != 0)
        return repack_fail(repack, request->path_out, "%s", strerror(errno));
    has_part = 0;
    return true;
}

static bool
check_levels(struct repack *repack)
{
    bool found = !repack->request.amrex;

    for (const struct repack_object *object = repack->first_object;
         object != NULL; object = object->next)
        found |= object->plan.level != NULL;
    return found || repack_fail(repack, repack->request.path_in,
                                "no level of an AMReX plotfile is in it: no "
                                "data:datatype=0 with boxes and "
                                "data:offsets=0");
}

/* Opens the GPU. That takes some tenths of a second, so it is done by a thread
 * of its own while the CPU begins to code. */
static void *
open_device(void *context)
{
    struct repack *repack = context;
    const struct terp_run_options asked = {.engine = TERP_ENGINE_CUDA,
                                           .memory = TERP_MEMORY_DEVICE};
    struct terp_run run;
    void *at;

    (void)terp_run_begin(&asked, NULL, &run);
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
        opens = pthread_create(&opener, NULL, open_device, repack) == 0;
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
    char *out = NULL;

    if (stat(request->path_in, &stat_in) != 0)
        return repack_fail(repack, request->path_in, "%s", strerror(errno));
    bool ok = make_part(repack, &stat_in, &out) && repack_list(repack) &&
              check_levels(repack) && create_out(repack) && make_out(repack) &&
              finish_out(repack, &stat_in, out);
    tool_progress_end(&repack->progress);
    if (ok && stat(request->path_out, &stat_out) == 0)
        tool_progress_sum(start_s, request->path_in, (uint64_t)stat_in.st_size,
                          request->path_out, (uint64_t)stat_out.st_size);
    if (ok && repack->nlost > 0)
        fprintf(stderr,
                "terp repack: %s: damaged chunks: %llu; their values are lost, "
                "and in the attribute terp_lost beside each dataset\n",
                request->path_in, (unsigned long long)repack->nlost);
    remove_part();
    free(out);
    return ok;
}

/* Does what the request asks for. */
static int
copy_file(struct repack *repack)
{
    bool ok = false;

    repack->in = repack->out = -1;
    repack->end_of_objects = &repack->first_object;
    repack->end_of_links = &repack->first_link;
    /* After an error the output is not closed, since HDF5 would try to write
     * again and might not come to an end. It must not do so at exit either. */
    H5dont_atexit();
    watch_ends();
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
            fprintf(stderr, "terp %s: %s\n", repack->request.command,
                    repack->error);
        repack_free_objects(repack);
        H5Fclose(repack->in);
    }
    repack_request_free(&repack->request);
    return !ok ? TOOL_TROUBLE : repack->nlost > 0 ? TOOL_FOUND : TOOL_OK;
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
