/* terp repack: options, and the care for input and output file. */
#define _GNU_SOURCE /* realpath, mkstemp, sched_getaffinity */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec/api/memory.h"
#include "tools/common/options.h"
#include "tools/common/tool.h"
#include "tools/repack/repack.h"

enum {
    KEY_ABS = 'a',
    KEY_REL = 'r',
    KEY_PSNR = 's',
    KEY_DATASET = 'd',
    KEY_CHUNK = 'c',
    KEY_PIPELINE = 'p',
    KEY_THREADS = 't',
    KEY_ENGINE = 'e',
    KEY_VERBOSE = 'v',
    KEY_AMREX = 256, /* no letter */
    MAX_NTHREADS = 1024
};

static const struct argp_option options[] = {
    {"rel", KEY_REL, "X", 0,
     "Bound every error by X times the range of the dataset's valid values", 1},
    {"abs", KEY_ABS, "X", 0, "Bound every error by X", 1},
    {"psnr", KEY_PSNR, "DB", 0,
     "Bound errors so that the PSNR is DB when they are spread evenly", 1},
    {"dataset", KEY_DATASET, "GLOB=BOUND", 0,
     "Another bound for datasets whose path matches GLOB: rel:X, abs:X, "
     "psnr:DB, X (as rel:X), or none; the last match counts",
     1},
    {"chunk", KEY_CHUNK, "auto|AxBxC", 0,
     "New chunks for datasets that have chunks, too: chosen, or of this shape "
     "where the rank is the same",
     2},
    {"amrex", KEY_AMREX, NULL, 0,
     "IN is an AMReX plotfile: compress its levels box by box, relative bounds "
     "being of each component's range on a level",
     2},
    {"pipeline", KEY_PIPELINE, "NAME", 0,
     "auto, huffman, custom, speed or ratio", 2},
    {"threads", KEY_THREADS, "N", 0,
     "Threads that compress; as many as CPUs if not given", 3},
    {"engine", KEY_ENGINE, "NAME", 0,
     "cpu, cuda, or auto (if not given): the GPU beside the CPU, where a file "
     "is worth it",
     3},
    {"verbose", KEY_VERBOSE, NULL, 0, "Say what becomes of each dataset", 4},
    {0}};

static const char doc[] =
    "Copies the HDF5 file IN to OUT, with its float datasets compressed."
    "\v"
    "Examples:\n"
    "  terp repack in.h5 out.h5 --rel 1e-3\n"
    "      no error above a thousandth of each dataset's range\n"
    "  terp repack in.h5 out.h5 --psnr 70 --dataset '*/mask=none'\n"
    "      about 70 dB, and datasets named mask as they are\n"
    "  terp repack in.h5 out.h5 --dataset rho=abs:0.05 -d 'fields/*=1e-4'\n"
    "      only what is named\n"
    "  terp repack in.h5 out.h5 --rel 1e-3 --chunk auto --verbose\n"
    "      chunks that compress well, whatever they were\n"
    "  terp repack plt00100.h5 small.h5 --amrex --rel 1e-3\n"
    "      each component of an AMReX plotfile by its own range\n"
    "\n"
    "Groups, links, attributes, types, dimension scales and references are "
    "kept. Copied as they are: what is not float32 or float64; datasets "
    "without values, of fewer than 4096, virtual ones, and those in external "
    "files; and dimension scales. --dataset compresses small ones and scales, "
    "too. A dataset with filters is decompressed, and its filters give way to "
    "terp. Chunks stay as they are; a dataset without gets chunks of "
    "about 64x64x64 values.\n"
    "\n"
    "Values that are not finite and fill values come back bit for bit, and do "
    "not count for the range. --psnr takes the bound from the range and the "
    "mean square of errors spread evenly within the bound, bound^2 / 3.\n"
    "\n"
    "OUT appears when all is written; until then, and after any failure, it "
    "is what it was.\n"
    "\n"
    "Exit codes: 0 done; 2 wrong usage, or a file cannot be read or written.";

static struct repack_bound
read_rel(struct argp_state *state, const char *text)
{
    struct repack_bound bound = {REPACK_REL, tool_option_number(state, text)};
    if (bound.number >= 1)
        argp_error(state, "a relative bound of %s leaves nothing of the data",
                   text);
    return bound;
}

static struct repack_bound
read_abs(struct argp_state *state, const char *text)
{
    return (struct repack_bound){REPACK_ABS, tool_option_number(state, text)};
}

/* Errors spread evenly in [-b, b] have the mean square b^2 / 3; so PSNR =
 * 20 log10(range / (b / sqrt(3))). */
static struct repack_bound
read_psnr(struct argp_state *state, const char *text)
{
    double psnr = tool_option_number(state, text);
    double rel = sqrt(3) * pow(10, -psnr / 20);

    if (rel >= 1 || rel < 1e-300)
        argp_error(state, "a PSNR of %s dB makes no sense", text);
    return (struct repack_bound){REPACK_REL, rel};
}

static struct repack_bound
read_any(struct argp_state *state, const char *text)
{
    if (strncmp(text, "abs:", 4) == 0)
        return read_abs(state, text + 4);
    if (strncmp(text, "rel:", 4) == 0)
        return read_rel(state, text + 4);
    if (strncmp(text, "psnr:", 5) == 0)
        return read_psnr(state, text + 5);
    if (strcmp(text, "none") == 0)
        return (struct repack_bound){REPACK_KEEP, 0};
    return read_rel(state, text);
}

static void
set_bound(struct argp_state *state, struct repack_bound bound)
{
    struct repack_request *request = state->input;
    if (request->bound.mode != REPACK_KEEP)
        argp_error(state, "give one of --rel, --abs and --psnr, once");
    request->bound = bound;
}

static void
add_rule(struct argp_state *state, char *text)
{
    struct repack_request *request = state->input;
    struct repack_rule *rule = &request->rules[request->nrules++];
    /* Names may hold '='. */
    char *equals = strrchr(text, '=');

    if (equals == NULL || equals == text) {
        argp_error(state, "'%s' is not GLOB=BOUND", text);
        return;
    }
    rule->text = text;
    rule->glob = strndup(text, (size_t)(equals - text));
    if (rule->glob == NULL)
        argp_failure(state, TOOL_TROUBLE, ENOMEM, "--dataset");
    rule->bound = read_any(state, equals + 1);
}

static int
read_nthreads(struct argp_state *state, const char *text)
{
    char *end;
    long nthreads = strtol(text, &end, 10);
    if (end == text || *end != '\0' || nthreads < 1 || nthreads > MAX_NTHREADS)
        argp_error(state, "'%s' is no number of threads", text);
    return (int)nthreads;
}

static void
check_request(struct argp_state *state, const struct repack_request *request)
{
    if (request->path_out == NULL)
        argp_error(state, "two files are needed, IN and OUT");
    if (request->bound.mode == REPACK_KEEP && request->nrules == 0)
        argp_error(state, "a bound is needed: --rel, --abs, --psnr or "
                          "--dataset");
}

static error_t
parse_option(int key, char *arg, struct argp_state *state)
{
    static const char *const engines[] = {"cpu", "cuda", "auto", NULL};
    struct repack_request *request = state->input;

    switch (key) {
    case KEY_REL:
        set_bound(state, read_rel(state, arg));
        return 0;
    case KEY_ABS:
        set_bound(state, read_abs(state, arg));
        return 0;
    case KEY_PSNR:
        set_bound(state, read_psnr(state, arg));
        return 0;
    case KEY_DATASET:
        add_rule(state, arg);
        return 0;
    case KEY_CHUNK:
        request->chunk.rank = 0;
        request->chunk_auto = strcmp(arg, "auto") == 0;
        if (!request->chunk_auto)
            tool_option_shape(state, arg, H5S_MAX_RANK, &request->chunk);
        return 0;
    case KEY_PIPELINE:
        request->pipeline =
            tool_option_name(state, "pipeline", arg, tool_pipelines);
        return 0;
    case KEY_THREADS:
        request->nthreads = read_nthreads(state, arg);
        return 0;
    case KEY_ENGINE:
        request->engine = tool_option_name(state, "engine", arg, engines);
        return 0;
    case KEY_AMREX:
        request->amrex = true;
        return 0;
    case KEY_VERBOSE:
        request->verbose = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            request->path_in = arg;
        else if (state->arg_num == 1)
            request->path_out = arg;
        else
            argp_error(state, "two files are needed, not more");
        return 0;
    case ARGP_KEY_END:
        check_request(state, request);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int
all_cpus(void)
{
    cpu_set_t cpus;
    int ncpus =
        sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
    return ncpus > 0 ? ncpus : 1;
}

/* The file that is written until it gets OUT's name. It is removed when the
 * program ends otherwise, by a signal or by OpenMP, which exits where it cannot
 * have threads. */
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
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    struct sigaction action = {.sa_handler = end_by_signal};

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
    /* A file that may not grow further is an error of write(). */
    signal(SIGXFSZ, SIG_IGN);
    atexit(remove_part);
}

/* What a block needs, the next one needs again: memory is not given back to
 * the system in between, which would have to clean it. 32 MiB is the most that
 * glibc takes. */
static void
keep_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

bool
repack_fail(struct repack *repack, const char *path, const char *format, ...)
{
    char reason[256];
    va_list arguments;

    if (repack->error[0] != '\0')
        return false;
    if (format == NULL) {
        snprintf(reason, sizeof reason, "%s", repack->reason);
    } else {
        va_start(arguments, format);
        vsnprintf(reason, sizeof reason, format, arguments);
        va_end(arguments);
    }
    snprintf(repack->error, sizeof repack->error, "%s: %s", path, reason);
    return false;
}

/* Takes down why a call of HDF5 fails, before the next call forgets it. */
static herr_t
note_reason(hid_t stack, void *context)
{
    struct repack *repack = context;

    (void)stack;
    tool_hdf5_reason(repack->reason, sizeof repack->reason);
    return 0;
}

/* The name of a file beside OUT, which is created empty. Sets `out_ret` to
 * OUT's own path, symbolic links followed. */
static bool
make_part(struct repack *repack, const struct stat *stat_in, char **out_ret)
{
    const char *path = repack->request->path_out;
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
    int length =
        snprintf(part_path, sizeof part_path, "%s.part-XXXXXX", *out_ret);
    if (length < 0 || (size_t)length >= sizeof part_path)
        return repack_fail(repack, path, "%s", strerror(ENAMETOOLONG));
    int file = mkstemp(part_path);
    if (file < 0)
        return repack_fail(repack, path, "%s", strerror(errno));
    has_part = 1;
    mode_t mask = umask(0);
    umask(mask);
    fchmod(file, exists ? found.st_mode & 0777 : 0666 & ~mask);
    close(file);
    return true;
}

/* The input file's creation properties, with those of its root group, which
 * HDF5 leaves out. */
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

/* The output has the input's creation properties, and object headers as old
 * as its. */
static bool
create_out(struct repack *repack)
{
    hid_t fcpl = copy_fcpl(repack->in);
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5F_info2_t info;
    H5F_libver_t low = H5F_LIBVER_EARLIEST;

    if (H5Fget_info2(repack->in, &info) >= 0 && info.super.version >= 2)
        low = info.super.version == 2 ? H5F_LIBVER_V18 : H5F_LIBVER_V110;
    H5Pset_libver_bounds(fapl, low, H5F_LIBVER_LATEST);
    H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG);
    repack->out = H5Fcreate(part_path, H5F_ACC_TRUNC, fcpl, fapl);
    H5Pclose(fapl);
    H5Pclose(fcpl);
    return repack->out >= 0 ||
           repack_fail(repack, repack->request->path_out, NULL);
}

/* Bytes in front of the HDF5 file, which are its user's. */
static bool
copy_userblock(struct repack *repack, hsize_t nbytes)
{
    const struct repack_request *request = repack->request;
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

/* Brings what was written to the disk, under the name of OUT. */
static bool
finish_out(struct repack *repack, const struct stat *stat_in, const char *out)
{
    const struct repack_request *request = repack->request;
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
    bool found = !repack->request->amrex;

    for (const struct repack_object *object = repack->first_object;
         object != NULL; object = object->next)
        found |= object->plan.level != NULL;
    return found || repack_fail(repack, repack->request->path_in,
                                "no level of an AMReX plotfile is in it: no "
                                "data:datatype=0 with boxes and "
                                "data:offsets=0");
}

/* Opening the device takes some tenths of a second, in which the CPU starts. */
static void *
open_device(void *context)
{
    struct repack *repack = context;
    struct terp_run run = {.engine = TERP_ENGINE_CUDA,
                           .memory = TERP_MEMORY_DEVICE,
                           .nthreads = 1};
    void *at;

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
    const struct repack_request *request = repack->request;
    const uint64_t nthreads = (uint64_t)request->nthreads;
    pthread_t opener;
    bool opens = false;

    if (request->engine == TERP_ENGINE_CUDA) {
        atomic_store(&repack->device, REPACK_DEVICE_OPEN);
    } else if (request->engine == TERP_ENGINE_AUTO &&
               repack->progress.total_nbytes / REPACK_DEVICE_NBYTES >=
                   nthreads) {
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
    struct stat stat_in;
    char *out = NULL;

    if (stat(repack->request->path_in, &stat_in) != 0)
        return repack_fail(repack, repack->request->path_in, "%s",
                           strerror(errno));
    bool ok = make_part(repack, &stat_in, &out) && repack_list(repack) &&
              check_levels(repack) && create_out(repack) && make_out(repack) &&
              finish_out(repack, &stat_in, out);
    tool_progress_end(&repack->progress);
    remove_part();
    free(out);
    return ok;
}

int
tool_repack(int argc, char **argv)
{
    static const struct argp parser = {.options = options,
                                       .parser = parse_option,
                                       .args_doc = "IN OUT",
                                       .doc = doc};
    struct repack_request request = {.nthreads = all_cpus(),
                                     .engine = TERP_ENGINE_AUTO};
    struct repack repack = {.request = &request, .in = -1, .out = -1};
    bool ok = false;

    request.rules = calloc((size_t)argc, sizeof *request.rules);
    if (request.rules == NULL) {
        perror("terp repack");
        return TOOL_TROUBLE;
    }
    argp_parse(&parser, argc, argv, 0, NULL, &request);
    /* A file that cannot be written to is not closed either; HDF5 would try
     * at exit again, and may not come to an end. */
    H5dont_atexit();
    watch_ends();
    keep_memory();
    tool_plugin_dirs_add();
    repack.in = tool_file_open("repack", request.path_in);
    if (repack.in >= 0) {
        H5Eset_auto2(H5E_DEFAULT, note_reason, &repack);
        ok = run(&repack);
        if (!ok)
            fprintf(stderr, "terp repack: %s\n", repack.error);
        repack_free(&repack);
        H5Fclose(repack.in);
    }
    for (int i = 0; i < request.nrules; i++)
        free((char *)request.rules[i].glob);
    free(request.rules);
    return ok ? TOOL_OK : TOOL_TROUBLE;
}
