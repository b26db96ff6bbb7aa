/* terp compare: compares a compressed file with its original. */
#define _XOPEN_SOURCE 700 /* tsearch */
#include <argp.h>
#include <inttypes.h>
#include <math.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>

#include "filter/plugin/h5z_terp.h"
#include "tools/common/limit.h"
#include "tools/common/options.h"
#include "tools/common/text.h"
#include "tools/common/tool.h"
#include "tools/common/walk.h"
#include "tools/compare/compare.h"
#include "tools/compare/metrics.h"
#include "tools/compare/plot.h"

enum {
    KEY_ALLOW_UNJUDGED = 256, /* has no letter */
    KEY_FLOOR,
    KEY_PWR
};

static const struct argp_option options[] = {
    {"abs", 'a', "X", 0,
     "Limit each error to X in all float datasets, in place of B's bounds", 1},
    {"rel", 'r', "X", 0,
     "Limit each error to X times the range of the dataset's values in A", 1},
    {"pwr", KEY_PWR, "X", 0, "Limit each error to X times its value in A", 1},
    {"floor", KEY_FLOOR, "X", 0, TOOL_HELP_FLOOR, 1},
    {"allow-unjudged", KEY_ALLOW_UNJUDGED, NULL, 0,
     "Accept datasets without a known bound, datasets that terp cannot "
     "compare, and datasets that only B has",
     1},
    {"trusted", TOOL_KEY_TRUSTED, NULL, 0, TOOL_HELP_TRUSTED, 3},
    {"json", 'j', NULL, 0, "Print JSON; `man terp` has the keys", 2},
    {"metrics", 'm', NULL, 0,
     "Print more about float datasets: RMSE, correlation, SSIM, drift of the "
     "mean, extremes, gradients, the error's autocorrelation and spectrum",
     2},
    {"png", 'p', "DIR", 0,
     "Draw each float dataset that terp compressed, or that differs, into a "
     "PNG file in DIR: a slice of both, the error, and a histogram of all "
     "errors",
     2},
    {0}};

static const char doc[] =
    "Compares the datasets of A with the datasets of its compressed copy B. "
    "Attributes are not compared."
    "\v"
    "Examples:\n"
    "  terp compare in.h5 out.h5\n"
    "  terp compare in.h5 out.h5 --png pictures\n"
    "  terp compare in.h5 other.h5 --rel 1e-3\n"
    "      with this bound, whatever program compressed other.h5\n"
    "  terp compare in.h5 out.h5 --json | jq '.datasets[].psnr'\n"
    "  terp compare in.h5 out.h5 --metrics\n"
    "\n"
    "Without --abs, --rel and --pwr, the bound of a chunk of B is the one in "
    "its stream. Streams of lossless and of constant chunks have none; their "
    "bound is the one in B's parameters. In lossless datasets zeros must keep "
    "their sign. NaN, infinite values and fill values must be equal bit for "
    "bit. So must all values that are neither float nor complex, and integers "
    "without a bound. Strings and sequences of varying length are compared by "
    "content, references by the path of their target. An \"error/bound\" above "
    "1 means that an error exceeds the bound.\n"
    "\n"
    "PSNR refers to the range of A's values, without undeclared fill values: "
    "the smallest or largest value, if it is a usual one, such as -999 or "
    "1e20, occurs more than once, is equal in B, and is more than eight times "
    "as far from the other values as they are from each other.\n"
    "\n"
    "Exit codes: 0 all values are equal or within their bound; 1 an error "
    "exceeds its bound, a special value changed, or a dataset is missing in B, "
    "differs in type or shape, or cannot be read; without --allow-unjudged "
    "also: a dataset differs and has no known bound, cannot be compared, or "
    "exists only in B; 2 wrong usage, a file cannot be opened or needs a newer "
    "HDF5, or metrics or a picture failed.";

/* The parsed command line, and the state of the comparison. */
struct request {
    const char *path_a, *path_b;
    struct compare_bounds bounds;
    const struct compare_report *report;
    bool allows_unjudged, is_trusted, wants_metrics;
    const char *png_directory;
    compare_plot *plot; /* NULL: no pictures */

    hid_t file_a, file_b;
    struct nested_files *files;
    void *compared; /* addresses in B of compared datasets; a tree of
                       tsearch() */
    uint64_t nunjudged;
    void *state; /* of the report */
    bool lacks_plugin, lacks_metrics, lacks_picture, lacks_hdf5;
    int code;
};

static error_t
parse_option(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;

    switch (key) {
    case 'a':
        request->bounds.absolute = tool_option_number(state, arg);
        return 0;
    case 'r':
        request->bounds.relative = tool_option_number(state, arg);
        return 0;
    case KEY_PWR:
        request->bounds.pointwise = tool_option_pointwise(state, arg);
        return 0;
    case KEY_FLOOR:
        request->bounds.floor = tool_option_number(state, arg);
        return 0;
    case KEY_ALLOW_UNJUDGED:
        request->allows_unjudged = true;
        return 0;
    case TOOL_KEY_TRUSTED:
        request->is_trusted = true;
        return 0;
    case 'j':
#ifdef TERP_HAVE_JANSSON
        request->report = &compare_report_json;
#else
        tool_option_missing(state, "--json", "jansson");
#endif
        return 0;
    case 'm':
        request->wants_metrics = true;
        return 0;
    case 'p':
        request->png_directory = arg;
#ifdef TERP_HAVE_CAIRO
        request->plot = plot_compared;
#else
        tool_option_missing(state, "--png", "cairo");
#endif
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 1)
            argp_error(state, "too many files; give A and B");
        *(state->arg_num == 0 ? &request->path_a : &request->path_b) = arg;
        return 0;
    case ARGP_KEY_END:
        if (request->path_b == NULL)
            argp_error(state, "give two files, A and B");
        if ((request->bounds.absolute > 0) + (request->bounds.relative > 0) +
                (request->bounds.pointwise > 0) >
            1)
            argp_error(state, "give only one of --abs, --rel and --pwr");
        if (request->bounds.floor > 0 && request->bounds.pointwise == 0)
            argp_error(state, "--floor needs --pwr");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const char *
compare_verdict_text(enum compare_verdict verdict)
{
    static const char *const texts[] = {[COMPARE_OK] = "ok",
                                        [COMPARE_UNJUDGED] = "unjudged",
                                        [COMPARE_SKIPPED] = "skipped",
                                        [COMPARE_EXTRA] = "extra",
                                        [COMPARE_EXCEEDED] = "exceeded",
                                        [COMPARE_SPECIALS] = "specials",
                                        [COMPARE_DIFFERENT] = "different",
                                        [COMPARE_UNREADABLE] = "unreadable",
                                        [COMPARE_TYPE] = "type",
                                        [COMPARE_SHAPE] = "shape",
                                        [COMPARE_MISSING] = "missing"};
    return texts[verdict];
}

static void
conclude(struct compare_result *result, enum compare_verdict verdict,
         const char *reason)
{
    result->verdict = verdict;
    snprintf(result->reason, sizeof result->reason, "%s", reason);
}

static void
compare_open(struct request *request, const struct tool_dataset *a,
             const struct tool_dataset *b, struct compare_result *result)
{
    char reason[sizeof result->reason];

    if (H5Tequal(a->type, b->type) <= 0)
        conclude(result, COMPARE_TYPE, "the types differ");
    else if (a->rank != b->rank || a->nvalues != b->nvalues ||
             memcmp(a->dims, b->dims, sizeof a->dims) != 0)
        conclude(result, COMPARE_SHAPE, "the shapes differ");
    else if (b->has_terp && b->params_error != NULL)
        conclude(result, COMPARE_UNREADABLE, b->params_error);
    else if ((a->has_terp || b->has_terp) &&
             H5Zfilter_avail(H5Z_FILTER_TERP) <= 0)
        request->lacks_plugin = true;
    else if (!tool_limit_take(a, TOOL_LIMIT_ALL, reason, sizeof reason) ||
             !tool_limit_take(b, TOOL_LIMIT_ALL, reason, sizeof reason))
        conclude(result, COMPARE_SKIPPED, reason);
    else
        compare_values(a, b, &request->bounds, request->files, result);
}

static void
measure(struct request *request, const struct tool_dataset *a,
        const struct tool_dataset *b, struct compare_result *result)
{
    char reason[512];

    if (!request->wants_metrics || !result->compared ||
        result->type == TERP_BYTES || result->nvalid == 0)
        return;
    result->metrics =
        compare_metrics_measure(a, b, result, reason, sizeof reason);
    if (result->metrics == NULL) {
        fprintf(stderr, "terp compare: no metrics of %s: %s\n",
                tool_shown(result->path), tool_shown(reason));
        request->lacks_metrics = true;
    }
}

/* Draws float datasets that terp compressed or that differ. */
static void
plot(struct request *request, const struct tool_dataset *a,
     const struct tool_dataset *b, struct compare_result *result)
{
    char reason[512];

    if (request->plot == NULL || !result->compared || a->nvalues == 0 ||
        result->type == TERP_BYTES ||
        !(b->has_terp || result->max_error > 0 ||
          result->nspecials_changed > 0))
        return;
    if (!request->plot(request->png_directory, a, b, &request->bounds, result,
                       reason, sizeof reason)) {
        fprintf(stderr, "terp compare: no picture of %s: %s\n",
                tool_shown(result->path), tool_shown(reason));
        request->lacks_picture = true;
    }
}

static void
add_result(struct request *request, const struct compare_result *result)
{
    if (request->lacks_plugin)
        return;
    request->report->add(request->state, result);
    if (result->verdict != COMPARE_OK && result->verdict < COMPARE_EXCEEDED)
        request->nunjudged++;
    if (result->verdict >= COMPARE_EXCEEDED ||
        (result->verdict != COMPARE_OK && !request->allows_unjudged))
        request->code = TOOL_FOUND;
}

/* ---- compared datasets of B ---- */

static int
compare_addresses(const void *a, const void *b)
{
    const haddr_t x = *(const haddr_t *)a, y = *(const haddr_t *)b;

    return (x > y) - (x < y);
}

static haddr_t
address_of(const struct tool_dataset *dataset)
{
    H5O_info_t info;

    return H5Oget_info2(dataset->id, &info, H5O_INFO_BASIC) >= 0 ? info.addr
                                                                 : HADDR_UNDEF;
}

/* Without memory to record it, the dataset is compared twice. */
static void
note_compared(struct request *request, const struct tool_dataset *b)
{
    haddr_t *address = malloc(sizeof *address);

    if (address == NULL)
        return;
    *address = address_of(b);
    haddr_t **found = tsearch(address, &request->compared, compare_addresses);
    if (found == NULL || *found != address)
        free(address);
}

static bool
was_compared(const struct request *request, const struct tool_dataset *b)
{
    const haddr_t address = address_of(b);

    return tfind(&address, &request->compared, compare_addresses) != NULL;
}

static void
forget_compared(struct request *request)
{
    while (request->compared != NULL) {
        haddr_t *address = *(haddr_t **)request->compared;
        tdelete(address, &request->compared, compare_addresses);
        free(address);
    }
}

/* ---- datasets ---- */

static void
compare_pair(struct request *request, const struct tool_dataset *a,
             const struct tool_dataset *b, struct compare_result *result)
{
    note_compared(request, b);
    compare_open(request, a, b, result);
    measure(request, a, b, result);
    plot(request, a, b, result);
    add_result(request, result);
    compare_metrics_free(result->metrics);
    free(result->picture);
}

/* Reports a verdict without a comparison. */
static void
find(struct request *request, const char *path, enum compare_verdict verdict,
     const char *reason)
{
    struct compare_result result = compare_new_result(path);

    conclude(&result, verdict, reason);
    add_result(request, &result);
}

static void
find_trouble(struct request *request, const char *path,
             const struct tool_trouble *trouble)
{
    find(request, path, COMPARE_UNREADABLE, trouble->reason);
    request->lacks_hdf5 |= trouble->is_newer;
}

/* Reports a path of A that leads to nothing in B, or to an object that HDF5
 * cannot open. */
static void
find_no_dataset(struct request *request, const char *path)
{
    const struct tool_trouble trouble = tool_hdf5_trouble();

    if (H5Oexists_by_name(request->file_b, path, H5P_DEFAULT) > 0)
        find_trouble(request, path, &trouble);
    else
        find(request, path, COMPARE_MISSING, "not in B");
}

static void
compare_dataset(const char *path, const struct tool_dataset *a,
                const struct tool_trouble *trouble, void *context)
{
    struct request *request = context;
    struct compare_result result = compare_new_result(path);
    struct tool_dataset b;

    if (request->lacks_plugin)
        return;
    if (a == NULL) {
        find_trouble(request, path, trouble);
    } else if (!tool_dataset_open(request->file_b, path, &b)) {
        find_no_dataset(request, path);
    } else {
        compare_pair(request, a, &b, &result);
        tool_dataset_close(&b);
    }
}

/* Compares a dataset of B, unless the walk over A has compared it under another
 * path. */
static void
look_at_dataset(const char *path, const struct tool_dataset *b,
                const struct tool_trouble *trouble, void *context)
{
    struct request *request = context;
    struct compare_result result = compare_new_result(path);
    struct tool_dataset a;
    H5O_info_t info;

    (void)trouble; /* the walk over A has reported it */
    if (request->lacks_plugin || (b != NULL && was_compared(request, b)))
        return;
    if (!tool_dataset_open(request->file_a, path, &a)) {
        /* The walk over A has reported objects that cannot be opened. */
        if (H5Oget_info_by_name2(request->file_a, path, &info, H5O_INFO_BASIC,
                                 H5P_DEFAULT) < 0 ||
            info.type != H5O_TYPE_DATASET)
            find(request, path, COMPARE_EXTRA, "not in A");
        return;
    }
    if (b != NULL)
        compare_pair(request, &a, b, &result);
    tool_dataset_close(&a);
}

static void
compare_structure(struct request *request)
{
    if (!tool_file_visit(request->file_a, compare_dataset, request))
        find(request, request->path_a, COMPARE_UNREADABLE,
             "some of the file's groups cannot be read");
    if (!tool_file_visit(request->file_b, look_at_dataset, request))
        find(request, request->path_b, COMPARE_UNREADABLE,
             "some of the file's groups cannot be read");
}

static void
compare_files(struct request *request)
{
    request->code = TOOL_OK;
    tool_limit_begin(tool_limit_file_nbytes(request->file_a) +
                         tool_limit_file_nbytes(request->file_b),
                     request->is_trusted);
    request->files = nested_files_open(request->file_a, request->file_b);
    request->state = request->report->begin(request->path_a, request->path_b);
    compare_structure(request);
    nested_files_close(request->files);
    forget_compared(request);
    if (request->nunjudged > 0 && !request->allows_unjudged)
        fprintf(stderr,
                "terp compare: datasets without a known bound, not compared, "
                "or only in B: %" PRIu64
                "; give a bound (--abs, --rel or --pwr), or "
                "--allow-unjudged\n",
                request->nunjudged);
    if (request->lacks_plugin) {
        fprintf(stderr,
                "terp compare: HDF5 does not find the terp filter plugin; set "
                "HDF5_PLUGIN_PATH to the directory that holds it\n");
        request->code = TOOL_TROUBLE;
    }
    if (request->lacks_metrics || request->lacks_picture || request->lacks_hdf5)
        request->code = TOOL_TROUBLE;
    if (request->report->end != NULL)
        request->report->end(request->state, request->code);
}

int
tool_compare(int argc, char **argv)
{
    static const struct argp parser = {.options = options,
                                       .parser = parse_option,
                                       .args_doc = "A B",
                                       .doc = doc};
    struct request request = {.report = &compare_report_text,
                              .code = TOOL_TROUBLE};

    argp_parse(&parser, argc, argv, 0, NULL, &request);
    tool_plugin_dirs_add();
    request.file_a = tool_file_open("compare", request.path_a);
    request.file_b = tool_file_open("compare", request.path_b);
    if (request.file_a >= 0 && request.file_b >= 0 &&
        tool_directory_make("compare", request.png_directory))
        compare_files(&request);
    tool_close(request.file_a);
    tool_close(request.file_b);
    return request.code;
}
