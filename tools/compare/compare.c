/* terp compare: compares a compressed file with its original. */
#include <argp.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/common/limit.h"
#include "tools/common/options.h"
#include "tools/common/text.h"
#include "tools/common/tool.h"
#include "tools/compare/metrics.h"
#include "tools/compare/options.h"
#include "tools/compare/pairs.h"
#include "tools/compare/plot.h"

static const struct argp_option options[] = {
    COMPARE_OPTIONS(1, "A", "B"),
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
    struct compare_options given;
    const struct compare_report *report;
    bool is_trusted, wants_metrics;
    const char *png_directory;
    compare_plot *plot; /* NULL: no pictures */

    uint64_t nunjudged;
    void *state; /* of the report */
    bool lacks_metrics, lacks_picture;
    int code;
};

static error_t
parse_option(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;

    if (compare_options_parse(key, arg, state, &request->given))
        return 0;
    switch (key) {
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
        compare_options_check(state, &request->given);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void
measure(struct request *request, const struct tool_dataset *a,
        const struct tool_dataset *b, struct compare_result *result)
{
    char reason[512];

    if (!request->wants_metrics || !result->compared || b->is_member ||
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
        b->is_member || result->type == TERP_BYTES ||
        !(b->has_terp || result->max_error > 0 ||
          result->nspecials_changed > 0))
        return;
    if (!request->plot(request->png_directory, a, b, &request->given.bounds,
                       result, reason, sizeof reason)) {
        fprintf(stderr, "terp compare: no picture of %s: %s\n",
                tool_shown(result->path), tool_shown(reason));
        request->lacks_picture = true;
    }
}

static void
add(void *context, const struct tool_dataset *a, const struct tool_dataset *b,
    struct compare_result *result)
{
    struct request *request = context;

    measure(request, a, b, result);
    plot(request, a, b, result);
    request->report->add(request->state, result);
    if (result->verdict != COMPARE_OK && result->verdict < COMPARE_EXCEEDED)
        request->nunjudged++;
    if (compare_verdict_fails(result->verdict, request->given.allows_unjudged))
        request->code = TOOL_FOUND;
    compare_metrics_free(result->metrics);
    free(result->picture);
}

static void
compare_files(struct request *request, hid_t file_a, hid_t file_b)
{
    struct compare_pairs pairs = {.file_a = file_a,
                                  .file_b = file_b,
                                  .path_a = request->path_a,
                                  .path_b = request->path_b,
                                  .bounds = request->given.bounds,
                                  .context = request,
                                  .add = add};

    request->code = TOOL_OK;
    tool_limit_begin(tool_limit_file_nbytes(file_a) +
                         tool_limit_file_nbytes(file_b),
                     request->is_trusted);
    request->state = request->report->begin(request->path_a, request->path_b);
    compare_pairs_visit(&pairs);
    if (request->nunjudged > 0 && !request->given.allows_unjudged)
        fprintf(stderr,
                "terp compare: datasets without a known bound, not compared, "
                "or only in B: %" PRIu64
                "; give a bound (--abs, --rel or --pwr), or "
                "--allow-unjudged\n",
                request->nunjudged);
    if (pairs.lacks_plugin)
        fprintf(stderr, "terp compare: " TOOL_NO_PLUGIN "\n");
    if (pairs.lacks_plugin || pairs.lacks_hdf5 || request->lacks_metrics ||
        request->lacks_picture)
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
    hid_t file_a = tool_file_open("compare", request.path_a);
    hid_t file_b = tool_file_open("compare", request.path_b);
    if (file_a >= 0 && file_b >= 0 &&
        tool_directory_make("compare", request.png_directory))
        compare_files(&request, file_a, file_b);
    tool_close(file_a);
    tool_close(file_b);
    return request.code;
}
