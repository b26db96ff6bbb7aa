/* terp report: writes a page about a file, or about a file and its compressed
 * copy. */
#define _XOPEN_SOURCE 700 /* fileno, S_ISREG */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec/api/text.h"
#include "codec/format/types.h"
#include "filter/plugin/h5z_terp.h"
#include "tools/common/limit.h"
#include "tools/common/options.h"
#include "tools/common/text.h"
#include "tools/common/tool.h"
#include "tools/common/unfinished.h"
#include "tools/common/walk.h"
#include "tools/compare/pairs.h"
#include "tools/report/report.h"

/* Datasets in detail: even with pictures of noise, of 400 kB each, the page
 * stays below the 20 MB that many mail servers take. */
#define DEFAULT_LIMIT 40
#define MAX_LIMIT 100000

enum {
    KEY_HTML = 400, /* has no letter */
    KEY_LIMIT
};

static const struct argp_option options[] = {
    {"html", KEY_HTML, "FILE", 0, "Write the page to FILE (required)", 1},
    {"dataset", 'd', "GLOB", 0,
     "Show only datasets whose name matches GLOB, or whose path does if GLOB "
     "has a slash; may be given more than once",
     1},
    {"limit", KEY_LIMIT, "N", 0,
     "Show at most N datasets in detail (default: 40): those with most values, "
     "and at most N others that fail",
     1},
    COMPARE_OPTIONS(2, "IN", "OUT"),
    {"trusted", TOOL_KEY_TRUSTED, NULL, 0, TOOL_HELP_TRUSTED, 3},
    {0}};

static const char doc[] =
    "Writes a page about the compressed copy OUT of IN, or about IN alone: one "
    "HTML file for a browser or a mail."
    "\v"
    "Examples:\n"
    "  terp report in.h5 out.h5 --html report.html\n"
    "  terp report out.h5 --html report.html\n"
    "  terp report in.h5 out.h5 --html rho.html --dataset rho\n"
    "\n"
    "The page has no scripts and needs no network. It begins with the totals "
    "and a table of all datasets. For each dataset of floating-point values "
    "follow a slice of IN, OUT and their difference, the errors relative to "
    "the bound, the power spectra, PSNR, SSIM, whether the bound is kept, as "
    "`terp compare` judges it, and what other chunks would save. Without OUT, "
    "the page shows what IN alone tells, and, where IN is not compressed with "
    "loss, what terp would reach with several bounds.\n"
    "\n"
    "Exit codes: as for `terp compare`; the page is written in all cases where "
    "it can be. Without OUT: 0 done; 1 a dataset cannot be read; 2 wrong "
    "usage, the file cannot be opened, or the page is incomplete.";

/* The command line, the page, and what was found. */
struct run {
    struct report_request request;
    struct report_page page;
    struct nested_files *files; /* for the references of one file */

    /* Datasets with at least this many bytes are shown in detail. */
    uint64_t least_nbytes;
    uint64_t nleft;         /* of those with exactly this many */
    uint64_t nfailing_left; /* of smaller ones that fail */
    uint64_t *sizes;        /* of float datasets */
    size_t nsizes, cap_sizes;
    bool lacks_memory;
    int code;
};

static error_t
parse_option(int key, char *arg, struct argp_state *state)
{
    struct report_request *request = state->input;

    if (compare_options_parse(key, arg, state, &request->given))
        return 0;
    switch (key) {
    case KEY_HTML:
        request->path_html = arg;
        return 0;
    case KEY_LIMIT:
        request->limit = (uint64_t)tool_option_count(
            state, arg, "datasets in detail", MAX_LIMIT);
        return 0;
    case 'd':
        request->globs[request->nglobs++] = arg;
        return 0;
    case TOOL_KEY_TRUSTED:
        request->is_trusted = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 1)
            argp_error(state, "too many files; give IN, or IN and OUT");
        *(state->arg_num == 0 ? &request->path_a : &request->path_b) = arg;
        return 0;
    case ARGP_KEY_END:
        if (request->path_a == NULL)
            argp_error(state, "give a file");
        if (request->path_html == NULL)
            argp_error(state, "give --html FILE, the page to write");
        if (request->path_b == NULL &&
            compare_bounds_are_given(&request->given.bounds))
            argp_error(state, "--abs, --rel and --pwr need IN and OUT");
        compare_options_check(state, &request->given);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- which datasets to show ---- */

static bool
is_wanted(void *context, const char *path)
{
    struct report_request *request = &((struct run *)context)->request;
    bool wanted = request->nglobs == 0;

    for (int i = 0; i < request->nglobs; i++)
        if (terp_text_matches(request->globs[i], path))
            wanted = request->used[i] = true;
    return wanted;
}

/* Whether a section can show the dataset: values of one component, compared as
 * numbers. */
static bool
has_section(const struct tool_dataset *dataset)
{
    return terp_type_nparts(tool_coded_type(dataset->type)) == 1 &&
           compare_type_of_values(dataset, dataset) != TERP_BYTES;
}

static void
note_size(const char *path, const struct tool_dataset *dataset,
          const struct tool_trouble *trouble, void *context)
{
    struct run *run = context;

    (void)trouble;
    if (dataset == NULL || !is_wanted(run, path) || !has_section(dataset) ||
        dataset->nvalues == 0)
        return;
    if (run->nsizes == run->cap_sizes) {
        const size_t cap = run->cap_sizes > 0 ? 2 * run->cap_sizes : 64;
        uint64_t *more = realloc(run->sizes, cap * sizeof *more);
        if (more == NULL) {
            run->lacks_memory = true;
            return;
        }
        run->sizes = more;
        run->cap_sizes = cap;
    }
    run->sizes[run->nsizes++] = dataset->nvalues * dataset->value_nbytes;
}

/* Larger sizes first. */
static int
compare_sizes(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x < y) - (x > y);
}

/* Finds the least size of the datasets that are shown in detail. */
static void
choose_sections(struct run *run, hid_t file)
{
    const uint64_t limit = run->request.limit;

    run->nleft = run->nfailing_left = limit;
    (void)tool_file_visit(file, note_size, run);
    if (run->nsizes <= limit)
        return;
    qsort(run->sizes, run->nsizes, sizeof *run->sizes, compare_sizes);
    run->least_nbytes = run->sizes[limit - 1];
    for (uint64_t i = 0; i < limit; i++)
        run->nleft -= run->sizes[i] > run->least_nbytes;
}

static bool
takes_section(struct run *run, const struct report_pair *pair)
{
    const struct compare_result *result = pair->result;
    const uint64_t nbytes = result->nbytes;

    if (!result->compared || result->type == TERP_BYTES || nbytes == 0 ||
        pair->a == NULL || pair->a->is_member)
        return false;
    if (nbytes > run->least_nbytes)
        return true;
    if (nbytes == run->least_nbytes && run->nleft > 0) {
        run->nleft--;
        return true;
    }
    if (compare_verdict_fails(result->verdict,
                              run->request.given.allows_unjudged) &&
        run->nfailing_left > 0) {
        run->nfailing_left--;
        return true;
    }
    return false;
}

/* ---- datasets ---- */

static void
add_pair(struct run *run, const struct report_pair *pair)
{
    if (!report_page_add(&run->page, pair, takes_section(run, pair)))
        run->code = TOOL_TROUBLE;
    if (run->code == TOOL_OK &&
        compare_verdict_fails(pair->result->verdict,
                              run->request.given.allows_unjudged))
        run->code = TOOL_FOUND;
}

static void
add_compared(void *context, const struct tool_dataset *a,
             const struct tool_dataset *b, struct compare_result *result)
{
    const struct report_pair pair = {a, b, result, true};

    add_pair(context, &pair);
}

static void
find_trouble(struct run *run, const char *path, const char *reason)
{
    report_page_trouble(&run->page, path, reason);
    run->code = TOOL_TROUBLE;
}

/* Adds a dataset of one file. It is compared with itself, because the
 * comparison reads all values and finds their range and numbers. */
static void
add_alone(const char *path, const struct tool_dataset *dataset,
          const struct tool_trouble *trouble, void *context)
{
    static const struct compare_bounds none;
    struct run *run = context;
    struct compare_result result = compare_new_result(path);
    const struct report_pair pair = {dataset, dataset, &result, false};
    const char *reason = NULL;

    if (!is_wanted(run, path))
        return;
    if (dataset == NULL)
        reason = trouble->reason;
    else if (dataset->has_terp && dataset->params_error != NULL)
        reason = dataset->params_error;
    else if (dataset->has_terp && H5Zfilter_avail(H5Z_FILTER_TERP) <= 0)
        reason = TOOL_NO_PLUGIN;
    result.verdict = COMPARE_UNREADABLE;
    if (reason != NULL) {
        snprintf(result.reason, sizeof result.reason, "%s", reason);
        if (dataset == NULL ? trouble->is_newer : dataset->params_error == NULL)
            run->code = TOOL_TROUBLE;
    } else if (!tool_limit_take(dataset, TOOL_LIMIT_ALL, result.reason,
                                sizeof result.reason)) {
        result.verdict = COMPARE_SKIPPED;
    } else {
        result.verdict = COMPARE_OK;
        compare_values(dataset, dataset, &none, run->files, &result);
    }
    add_pair(run, &pair);
}

/* ---- files ---- */

static void
visit_pair(struct run *run, hid_t file_a, hid_t file_b)
{
    const struct report_request *request = &run->request;
    struct compare_pairs pairs = {.file_a = file_a,
                                  .file_b = file_b,
                                  .path_a = request->path_a,
                                  .path_b = request->path_b,
                                  .bounds = request->given.bounds,
                                  .context = run,
                                  .wants = is_wanted,
                                  .add = add_compared};

    choose_sections(run, file_b);
    compare_pairs_visit(&pairs);
    if (pairs.lacks_plugin)
        find_trouble(run, request->path_b, TOOL_NO_PLUGIN);
    if (pairs.lacks_hdf5)
        run->code = TOOL_TROUBLE;
}

static void
visit_alone(struct run *run, hid_t file)
{
    choose_sections(run, file);
    run->files = nested_files_open(file, file);
    if (!tool_file_visit(file, add_alone, run)) {
        report_page_trouble(&run->page, run->request.path_a,
                            "some of the file's groups cannot be read");
        if (run->code == TOOL_OK)
            run->code = TOOL_FOUND;
    }
    nested_files_close(run->files);
}

/* Opens a file, or records why that fails. */
static hid_t
open_file(struct run *run, const char *path, uint64_t *nbytes_ret)
{
    char reason[256];
    const hid_t file = tool_file_try(path, reason, sizeof reason);

    *nbytes_ret = tool_limit_file_nbytes(file);
    if (file < 0) {
        fprintf(stderr, "terp report: %s: %s\n", tool_shown(path),
                tool_shown(reason));
        find_trouble(run, path, reason);
    }
    return file;
}

/* Reports patterns that match nothing. */
static void
check_globs(struct run *run)
{
    const struct report_request *request = &run->request;

    for (int i = 0; i < request->nglobs; i++)
        if (!request->used[i]) {
            fprintf(stderr, "terp report: no dataset matches '%s'\n",
                    tool_shown(request->globs[i]));
            find_trouble(run, request->globs[i], "no dataset has this name");
        }
}

static void
visit(struct run *run)
{
    const struct report_request *request = &run->request;
    const bool has_original = request->path_b != NULL;
    struct report_page *page = &run->page;

    run->code = TOOL_OK;
    hid_t file_a = open_file(run, request->path_a, &page->a_nbytes);
    hid_t file_b =
        has_original ? open_file(run, request->path_b, &page->b_nbytes) : -1;
    tool_limit_begin(page->a_nbytes + page->b_nbytes, request->is_trusted);
    if (has_original && file_a >= 0 && file_b >= 0)
        visit_pair(run, file_a, file_b);
    else if (!has_original && file_a >= 0)
        visit_alone(run, file_a);
    if (file_a >= 0 && (file_b >= 0 || !has_original))
        check_globs(run);
    tool_close(file_a);
    tool_close(file_b);
}

/* ---- the page's file ---- */

static bool
fail(const struct run *run, const char *reason)
{
    fprintf(stderr, "terp report: %s: %s\n", tool_shown(run->request.path_html),
            reason);
    return false;
}

static bool
is_same_file(const struct stat *found, const char *path)
{
    struct stat other;

    return path != NULL && stat(path, &other) == 0 &&
           found->st_dev == other.st_dev && found->st_ino == other.st_ino &&
           S_ISREG(found->st_mode);
}

/* Whether the page can be written, before the work for it. */
static bool
check_output(const struct run *run)
{
    const struct report_request *request = &run->request;
    char unfinished[4096];
    struct stat found;

    if (stat(request->path_html, &found) == 0) {
        if (is_same_file(&found, request->path_a) ||
            is_same_file(&found, request->path_b))
            return fail(run, "the page would replace a file that it describes");
        if (S_ISDIR(found.st_mode))
            return fail(run, "a directory");
        if (!S_ISREG(found.st_mode))
            return true;
    }
    const int file =
        tool_unfinished_make(request->path_html, unfinished, sizeof unfinished);
    if (file < 0)
        return fail(run, strerror(errno));
    close(file);
    unlink(unfinished);
    return true;
}

static bool
write_all(FILE *file, const struct html *html)
{
    return fwrite(html->bytes, 1, html->nbytes, file) == html->nbytes &&
           fflush(file) == 0;
}

/* Writes to a device or a pipe. */
static bool
write_directly(const struct run *run, const struct html *html)
{
    FILE *file = fopen(run->request.path_html, "wb");

    if (file == NULL)
        return fail(run, strerror(errno));
    const bool ok = write_all(file, html);
    const int error = errno;
    if (fclose(file) != 0 || !ok)
        return fail(run, strerror(ok ? errno : error));
    return true;
}

/* Gives the page's file the usual permissions: a new file of this kind has
 * only its owner's. */
static void
set_rights(int file, const struct stat *old)
{
#ifndef _WIN32
    const mode_t mask = umask(0);

    (void)umask(mask);
    (void)fchmod(file, old != NULL ? old->st_mode & 0777 : 0666 & ~mask);
#else
    (void)file;
    (void)old;
#endif
}

/* Writes beside the page's file, and replaces the file at once. */
static bool
write_page(const struct run *run, const struct html *html)
{
    const char *path = run->request.path_html;
    char unfinished[4096];
    struct stat old;
    const bool exists = stat(path, &old) == 0;

    if (exists && !S_ISREG(old.st_mode))
        return write_directly(run, html);
    char *target = exists ? realpath(path, NULL) : NULL;
    if (target != NULL)
        path = target;
    const int descriptor =
        tool_unfinished_make(path, unfinished, sizeof unfinished);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
    bool ok = file != NULL && write_all(file, html);
    int error = errno;
    if (ok)
        set_rights(descriptor, exists ? &old : NULL);
    if (file != NULL && fclose(file) != 0 && ok) {
        ok = false;
        error = errno;
    }
    if (ok && rename(unfinished, path) != 0) {
        ok = false;
        error = errno;
    }
    if (!ok && descriptor >= 0)
        unlink(unfinished);
    free(target);
    return ok || fail(run, strerror(error));
}

static void
make_page(struct run *run)
{
    struct html html = {0};

    report_page_end(&run->page, &html);
    if (html.failed || run->lacks_memory) {
        (void)fail(run, "not enough memory for the page");
        run->code = TOOL_TROUBLE;
    } else if (!write_page(run, &html)) {
        run->code = TOOL_TROUBLE;
    } else {
        fprintf(stderr,
                "terp report: %s: datasets: %" PRIu64 ", failing: %" PRIu64
                ", in detail: %" PRIu64 "\n",
                tool_shown(run->request.path_html), run->page.ndatasets,
                run->page.nfailing, run->page.nsections);
    }
    html_free(&html);
}

int
tool_report(int argc, char **argv)
{
    static const struct argp parser = {.options = options,
                                       .parser = parse_option,
                                       .args_doc = "IN [OUT]",
                                       .doc = doc};
    struct run run = {.request.limit = DEFAULT_LIMIT, .code = TOOL_TROUBLE};
    struct report_request *request = &run.request;

    request->globs = calloc((size_t)argc, sizeof *request->globs);
    request->used = calloc((size_t)argc, sizeof *request->used);
    if (request->globs == NULL || request->used == NULL) {
        fprintf(stderr, "terp report: not enough memory\n");
        goto out;
    }
    argp_parse(&parser, argc, argv, 0, NULL, request);
    tool_plugin_dirs_add();
    report_page_begin(&run.page, request);
    if (check_output(&run)) {
        visit(&run);
        make_page(&run);
    }
    report_page_free(&run.page);
out:
    free(run.sizes);
    free(request->globs);
    free(request->used);
    return run.code;
}
