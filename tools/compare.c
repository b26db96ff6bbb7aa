/* terp compare: holds a compressed file against its original. */
#define _DEFAULT_SOURCE /* readlink */
#include <argp.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"
#include "h5file.h"
#include "h5z_terp.h"
#include "tool.h"

enum {
    KEY_ABS = 'a',
    KEY_REL = 'r'
};

/* Values read at once where no chunk says otherwise. */
#define SLAB_NVALUES ((uint64_t)1 << 22)

static const struct argp_option options[] = {
    {"abs", KEY_ABS, "X", 0,
     "Bound for datasets of B that terp did not compress", 0},
    {"rel", KEY_REL, "X", 0,
     "The same, times the range of the dataset's values in A", 0},
    {0}};

static const char doc[] =
    "Compares the datasets of A with those of B, its compressed copy."
    "\v"
    "The bound is the one in B's parameters; a relative one is taken from "
    "the stream of each chunk. NaN, infinities and fill values must be the "
    "same bit for bit, and so must data that is not floating-point. "
    "\"error/bound\" above 1 means that the bound is exceeded. PSNR refers to "
    "the range of A's values.\n"
    "\n"
    "Exit codes: 0 all within the bound; 1 a bound is exceeded, a special "
    "value changed, a dataset is missing in B, differs in type or shape, or "
    "cannot be read; 2 wrong usage, or a file cannot be opened.";

struct request {
    const char *path_a, *path_b;
    double absolute, relative; /* 0: not given */
};

static double
read_number(struct argp_state *state, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value > 0) || isinf(value))
        argp_error(state, "'%s' is not a finite number above zero", text);
    return value;
}

static error_t
parse_option(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;

    switch (key) {
    case KEY_ABS:
        request->absolute = read_number(state, arg);
        return 0;
    case KEY_REL:
        request->relative = read_number(state, arg);
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            request->path_a = arg;
        else if (state->arg_num == 1)
            request->path_b = arg;
        else
            argp_error(state, "two files are needed, not more");
        return 0;
    case ARGP_KEY_END:
        if (request->path_b == NULL)
            argp_error(state, "two files are needed");
        if (request->absolute > 0 && request->relative > 0)
            argp_error(state, "give only one of --abs and --rel");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The exact |a - b| as high + low: high is the rounded difference and low
 * what rounding left out, so that no error hides within half an ulp. */
struct error {
    double high, low;
};

static struct error
error_of(double a, double b)
{
    double difference = a - b;
    if (!isfinite(difference))
        return (struct error){INFINITY, 0};
    double back = difference - a;
    double left = (a - (difference - back)) - (b + back);
    if (difference < 0)
        return (struct error){-difference, -left};
    return (struct error){difference, left};
}

static bool
error_is_larger(struct error error, struct error other)
{
    return error.high > other.high ||
           (error.high == other.high && error.low > other.low);
}

static bool
error_exceeds(struct error error, double bound)
{
    return error_is_larger(error, (struct error){bound, 0});
}

/* What is known of one pair of datasets after reading it. */
struct verdict {
    enum terp_type type;
    uint64_t exact_bits[2]; /* values to be kept besides NaN and infinities */
    int nexact_bits;

    struct error worst;
    bool judged;
    double worst_of_bound; /* largest error / bound of any slab */
    bool exceeded;
    uint64_t nvalid, nspecials, nspecials_wrong;
    double min, max, sum_squares; /* of the valid values */
    bool bytes_differ;            /* TERP_BYTES */
    char trouble[256];            /* why reading failed */
};

static uint64_t
value_bits(enum terp_type type, const void *values, uint64_t i)
{
    uint64_t wide;
    uint32_t narrow;

    if (type == TERP_FLOAT64) {
        memcpy(&wide, (const uint8_t *)values + 8 * i, 8);
        return wide;
    }
    memcpy(&narrow, (const uint8_t *)values + 4 * i, 4);
    return narrow;
}

static double
value_at(enum terp_type type, const void *values, uint64_t i)
{
    return type == TERP_FLOAT64 ? ((const double *)values)[i]
                                : (double)((const float *)values)[i];
}

static bool
is_special(const struct verdict *verdict, double value, uint64_t bits)
{
    bool special = !isfinite(value);
    for (int i = 0; i < verdict->nexact_bits; i++)
        special |= bits == verdict->exact_bits[i];
    return special;
}

/* The valid values of one slab. */
struct slab {
    struct error worst;
    uint64_t nvalid;
    double min, max, sum_squares;
};

static void
add_values(struct verdict *verdict, const void *values_a, const void *values_b,
           uint64_t nvalues, struct slab *slab_ret)
{
    enum terp_type type = verdict->type;
    struct slab slab = {.min = INFINITY, .max = -INFINITY};

    for (uint64_t i = 0; i < nvalues; i++) {
        double a = value_at(type, values_a, i);
        uint64_t bits = value_bits(type, values_a, i);
        if (is_special(verdict, a, bits)) {
            verdict->nspecials++;
            verdict->nspecials_wrong += bits != value_bits(type, values_b, i);
            continue;
        }
        struct error error = error_of(a, value_at(type, values_b, i));
        if (error_is_larger(error, slab.worst))
            slab.worst = error;
        slab.nvalid++;
        slab.min = a < slab.min ? a : slab.min;
        slab.max = a > slab.max ? a : slab.max;
        slab.sum_squares += error.high * error.high;
    }
    if (error_is_larger(slab.worst, verdict->worst))
        verdict->worst = slab.worst;
    verdict->nvalid += slab.nvalid;
    verdict->min = fmin(verdict->min, slab.min);
    verdict->max = fmax(verdict->max, slab.max);
    verdict->sum_squares += slab.sum_squares;
    *slab_ret = slab;
}

/* A part of the range; 0 when there is none. */
static double
relative_bound(double relative, double min, double max)
{
    double range = max - min;
    if (!(min < max))
        return 0;
    return isfinite(range) ? relative * range : relative * max - relative * min;
}

/* Holds the worst error so far against a bound; 0 means exact. */
static void
judge(struct verdict *verdict, struct error error, double bound)
{
    double of_bound = error.high == 0 ? 0 : error.high / bound;

    verdict->judged = true;
    if (error_exceeds(error, bound))
        verdict->exceeded = true;
    if (of_bound > verdict->worst_of_bound)
        verdict->worst_of_bound = of_bound;
}

static bool
read_slab(const struct tool_dataset *dataset, hid_t type,
          const struct tool_grid *grid, void *values)
{
    bool ok = false;
    hid_t in_file = H5S_ALL, in_memory = H5S_ALL;

    if (grid->rank > 0) {
        in_file = H5Dget_space(dataset->id);
        in_memory = H5Screate_simple(grid->rank, grid->count, NULL);
        ok = H5Sselect_hyperslab(in_file, H5S_SELECT_SET, grid->at, NULL,
                                 grid->count, NULL) >= 0;
    }
    if (ok || grid->rank == 0)
        ok = H5Dread(dataset->id, type, in_memory, in_file, H5P_DEFAULT,
                     values) >= 0;
    if (grid->rank > 0) {
        H5Sclose(in_file);
        H5Sclose(in_memory);
    }
    return ok;
}

/* Slabs are the chunks of B, or of A, or else whole rows. */
static void
plan_slabs(const struct tool_dataset *a, const struct tool_dataset *b,
           struct tool_grid *grid)
{
    uint64_t nvalues = SLAB_NVALUES;

    if (b->chunked || a->chunked) {
        tool_dataset_grid(b->chunked ? b : a, grid);
        return;
    }
    tool_dataset_grid(b, grid);
    for (int i = grid->rank - 1; i >= 0; i--) {
        grid->step[i] = min_u64(grid->dims[i], nvalues);
        nvalues /= grid->step[i];
        if (nvalues == 0)
            nvalues = 1;
    }
}

/* The absolute bound that holds for the chunk of B where `grid` stands, whose
 * values `slab` summarizes. */
static bool
chunk_bound(const struct tool_dataset *b, const struct tool_grid *grid,
            const struct slab *slab, struct tool_chunk *chunk,
            double *bound_ret)
{
    struct terp_info info;

    *bound_ret = 0;
    if (b->cd.pass != TERP_PASS_NO)
        return true;
    if (b->cd.params.bound_mode == TERP_BOUND_ABSOLUTE) {
        *bound_ret = b->cd.params.bound;
        return true;
    }
    tool_chunk_read(b, grid, chunk);
    if (chunk->kind == TOOL_CHUNK_ABSENT || chunk->kind == TOOL_CHUNK_PLAIN)
        return true;
    if (chunk->kind != TOOL_CHUNK_STREAM ||
        terp_inspect(chunk->bytes, chunk->nbytes, &info) != TERP_OK)
        return false;
    *bound_ret = info.bound;
    /* A constant that is within the bound of all values: the stream does not
     * hold the bound then. */
    if (strcmp(info.pipeline, "constant") == 0)
        *bound_ret = relative_bound(b->cd.params.bound, slab->min, slab->max);
    return true;
}

/* Reads both datasets slab by slab. False, with a reason in `trouble`, when
 * that fails. */
static bool
compare_slabs(const struct tool_dataset *a, const struct tool_dataset *b,
              const struct request *request, struct verdict *verdict)
{
    enum terp_type type = verdict->type;
    hid_t memory_type = type == TERP_FLOAT32   ? H5T_NATIVE_FLOAT
                        : type == TERP_FLOAT64 ? H5T_NATIVE_DOUBLE
                                               : a->type;
    struct tool_chunk chunk = {0};
    struct tool_grid grid;
    uint64_t slab_nvalues = 1;
    bool ok = false;

    plan_slabs(a, b, &grid);
    for (int i = 0; i < grid.rank; i++)
        slab_nvalues *= min_u64(grid.step[i], grid.dims[i]);
    void *values_a = calloc(slab_nvalues, a->value_nbytes);
    void *values_b = calloc(slab_nvalues, a->value_nbytes);
    if (values_a == NULL || values_b == NULL) {
        snprintf(verdict->trouble, sizeof verdict->trouble,
                 "not enough memory for a chunk");
        goto out;
    }
    while (tool_grid_next(&grid)) {
        uint64_t nvalues = 1;
        double bound;
        for (int i = 0; i < grid.rank; i++)
            nvalues *= grid.count[i];
        if (!read_slab(a, memory_type, &grid, values_a) ||
            !read_slab(b, memory_type, &grid, values_b)) {
            tool_hdf5_reason(verdict->trouble, sizeof verdict->trouble);
            goto out;
        }
        if (type == TERP_BYTES) {
            if (memcmp(values_a, values_b, nvalues * a->value_nbytes) != 0)
                verdict->bytes_differ = true;
            continue;
        }
        struct slab slab;
        add_values(verdict, values_a, values_b, nvalues, &slab);
        if (!b->has_terp)
            continue;
        if (!chunk_bound(b, &grid, &slab, &chunk, &bound)) {
            snprintf(verdict->trouble, sizeof verdict->trouble,
                     "the bound of a chunk of B cannot be read");
            goto out;
        }
        judge(verdict, slab.worst, bound);
    }
    if (!b->has_terp && request->absolute > 0)
        judge(verdict, verdict->worst, request->absolute);
    if (!b->has_terp && request->relative > 0)
        judge(verdict, verdict->worst,
              relative_bound(request->relative, verdict->min, verdict->max));
    ok = true;
out:
    tool_chunk_free(&chunk);
    free(values_a);
    free(values_b);
    return ok;
}

/* Fill values of A's creator, and -0.0, which terp promises to keep. */
static void
find_exact_values(const struct tool_dataset *a, const struct tool_dataset *b,
                  struct verdict *verdict)
{
    hid_t dcpl = H5Dget_create_plist(a->id);
    bool wide = verdict->type == TERP_FLOAT64;
    H5D_fill_value_t defined;
    double value = 0;

    if (b->has_terp)
        verdict->exact_bits[verdict->nexact_bits++] =
            wide ? double_bits(-0.0) : 0x80000000u;
    if (H5Pfill_value_defined(dcpl, &defined) >= 0 &&
        defined == H5D_FILL_VALUE_USER_DEFINED &&
        H5Pget_fill_value(dcpl, wide ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT,
                          &value) >= 0)
        verdict->exact_bits[verdict->nexact_bits++] =
            value_bits(verdict->type, &value, 0);
    H5Pclose(dcpl);
}

struct comparison {
    const struct request *request;
    hid_t file_a, file_b;
    bool header_printed;
    bool lacks_plugin;
    int code;
};

static void
print_header(struct comparison *comparison)
{
    if (!comparison->header_printed)
        printf("%-10s %11s %11s %8s %8s %9s  %s\n", "verdict", "error/bound",
               "max error", "PSNR dB", "ratio", "specials", "dataset");
    comparison->header_printed = true;
}

/* A row for datasets of which no values could be compared. */
static void
print_failure(struct comparison *comparison, const char *word, const char *path,
              const char *reason)
{
    print_header(comparison);
    printf("%-10s %11s %11s %8s %8s %9s  %s: %s\n", word, "-", "-", "-", "-",
           "-", path, reason);
    comparison->code = TOOL_FOUND;
}

static void
print_number(const char *format, int width, bool known, double value)
{
    char text[32];
    snprintf(text, sizeof text, format, value);
    printf(" %*s", width, known ? text : "-");
}

static void
print_verdict(struct comparison *comparison, const char *path,
              const struct tool_dataset *b, const struct verdict *verdict)
{
    bool values = verdict->nvalid > 0;
    double range = verdict->max - verdict->min;
    double rmse =
        values ? sqrt(verdict->sum_squares / (double)verdict->nvalid) : 0;
    uint64_t stored_nbytes = H5Dget_storage_size(b->id);
    const char *word = verdict->bytes_differ      ? "DIFFERENT"
                       : verdict->exceeded        ? "EXCEEDED"
                       : verdict->nspecials_wrong ? "SPECIALS"
                       : verdict->type == TERP_BYTES || verdict->judged ||
                               verdict->worst.high == 0
                           ? "ok"
                           : "unjudged";

    print_header(comparison);
    printf("%-10s", word);
    print_number("%.6f", 11, values && verdict->judged,
                 verdict->worst_of_bound);
    print_number("%.4g", 11, values, verdict->worst.high);
    print_number("%.2f", 8, values && range > 0, 20 * log10(range / rmse));
    print_number("%.2f", 8, stored_nbytes > 0,
                 (double)(b->nvalues * b->value_nbytes) /
                     (double)stored_nbytes);
    printf(" %9" PRIu64 "  %s", verdict->nspecials, path);
    if (verdict->nspecials_wrong > 0)
        printf(": %" PRIu64 " special values changed",
               verdict->nspecials_wrong);
    printf("\n");
    if (verdict->bytes_differ || verdict->exceeded ||
        verdict->nspecials_wrong > 0)
        comparison->code = TOOL_FOUND;
}

/* Values that are only addresses cannot be compared as bytes. */
static bool
has_pointers(hid_t type)
{
    return H5Tdetect_class(type, H5T_VLEN) > 0 ||
           H5Tdetect_class(type, H5T_REFERENCE) > 0 ||
           H5Tis_variable_str(type) > 0;
}

static void
compare_open(struct comparison *comparison, const char *path,
             const struct tool_dataset *a, const struct tool_dataset *b)
{
    struct verdict verdict = {
        .type = tool_dataset_type(a), .min = INFINITY, .max = -INFINITY};

    if (H5Tequal(a->type, b->type) <= 0) {
        print_failure(comparison, "TYPE", path, "the types differ");
        return;
    }
    if (a->rank != b->rank || a->empty != b->empty ||
        memcmp(a->dims, b->dims, sizeof a->dims) != 0) {
        print_failure(comparison, "SHAPE", path, "the shapes differ");
        return;
    }
    if (b->has_terp && b->params_error != NULL) {
        print_failure(comparison, "UNREADABLE", path, b->params_error);
        return;
    }
    if ((a->has_terp || b->has_terp) && H5Zfilter_avail(H5Z_FILTER_TERP) <= 0) {
        comparison->lacks_plugin = true;
        return;
    }
    if (has_pointers(a->type)) {
        print_header(comparison);
        printf("%-10s %11s %11s %8s %8s %9s  %s: its type is not compared\n",
               "-", "-", "-", "-", "-", "-", path);
        return;
    }
    if (verdict.type != TERP_BYTES)
        find_exact_values(a, b, &verdict);
    if (a->empty || compare_slabs(a, b, comparison->request, &verdict))
        print_verdict(comparison, path, b, &verdict);
    else
        print_failure(comparison, "UNREADABLE", path, verdict.trouble);
}

static void
compare_dataset(hid_t file_a, const char *path, void *context)
{
    struct comparison *comparison = context;
    struct tool_dataset a, b;
    char reason[256];

    if (comparison->lacks_plugin)
        return;
    if (!tool_dataset_open(file_a, path, &a)) {
        tool_hdf5_reason(reason, sizeof reason);
        print_failure(comparison, "UNREADABLE", path, reason);
        return;
    }
    if (!tool_dataset_open(comparison->file_b, path, &b)) {
        print_failure(comparison, "MISSING", path, "not in B");
    } else {
        compare_open(comparison, path, &a, &b);
        tool_dataset_close(&b);
    }
    tool_dataset_close(&a);
}

static bool
is_directory(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

/* Lets HDF5 find the plugin that was built or installed with this program,
 * after HDF5_PLUGIN_PATH. HDF5 ends its search at a directory that does not
 * exist, so those are taken out. */
static void
add_plugin_dirs(void)
{
    static const char *const beside[] = {"/../plugin",
                                         "/../" TERP_PLUGIN_SUBDIR};
    char path[4096], program[2048];
    unsigned npaths = 0;

    H5PLsize(&npaths);
    for (unsigned i = npaths; i-- > 0;)
        if (H5PLget(i, path, sizeof path) > 0 && !is_directory(path))
            H5PLremove(i);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0)
        return;
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) {
        snprintf(path, sizeof path, "%s%s", program, beside[i]);
        if (is_directory(path))
            H5PLappend(path);
    }
}

int
tool_compare(int argc, char **argv)
{
    static const struct argp parser = {.options = options,
                                       .parser = parse_option,
                                       .args_doc = "A B",
                                       .doc = doc};
    struct request request = {0};
    struct comparison comparison = {.request = &request, .code = TOOL_TROUBLE};

    argp_parse(&parser, argc, argv, 0, NULL, &request);
    add_plugin_dirs();
    comparison.file_a = tool_file_open("compare", request.path_a);
    comparison.file_b = tool_file_open("compare", request.path_b);
    if (comparison.file_a >= 0 && comparison.file_b >= 0) {
        comparison.code = TOOL_OK;
        if (!tool_file_visit(comparison.file_a, compare_dataset, &comparison))
            print_failure(&comparison, "UNREADABLE", request.path_a,
                          "the file's structure cannot be followed");
    }
    if (comparison.lacks_plugin) {
        fprintf(stderr,
                "terp compare: HDF5 does not find the terp filter plugin; set "
                "HDF5_PLUGIN_PATH to the directory that holds it\n");
        comparison.code = TOOL_TROUBLE;
    }
    if (comparison.file_a >= 0)
        H5Fclose(comparison.file_a);
    if (comparison.file_b >= 0)
        H5Fclose(comparison.file_b);
    return comparison.code;
}
