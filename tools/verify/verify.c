/* terp verify: looks for damage in the chunks of files. */
#include <argp.h>
#include <stdio.h>

#include "codec/api/processor.h"
#include "codec/api/terp.h"
#include "tools/common/limit.h"
#include "tools/common/options.h"
#include "tools/common/text.h"
#include "tools/common/tool.h"
#include "tools/verify/verify.h"

const char *const verify_kind_names[TOOL_CHECK_NKINDS] = {
    [TOOL_CHECK_WHOLE] = "whole",
    [TOOL_CHECK_DAMAGED] = "damaged",
    [TOOL_CHECK_ABSENT] = "not written",
    [TOOL_CHECK_UNCHECKED] = "not checked",
    [TOOL_CHECK_UNTRIED] = "not checked for lack of memory"};

/* The parsed command line. */
struct request {
    int nfiles;
    char **files;
    int nthreads;
    struct verify verify;
};

/* The check of one dataset. */
struct verification {
    struct verify *verify;
    const char *path;
    struct verify_sums sums;
};

static void
add_chunk(void *context, const struct tool_grid *box, enum tool_check_kind kind,
          const char *reason)
{
    struct verification *verification = context;
    struct verify *verify = verification->verify;

    verification->sums.nchunks++;
    verification->sums.nof_kind[kind]++;
    verify->damaged |= kind == TOOL_CHECK_DAMAGED;
    if (kind == TOOL_CHECK_UNTRIED) {
        verify->in_trouble = true;
        if (verification->sums.nof_kind[kind] == 1)
            fprintf(stderr, "terp verify: %s: %s%s\n",
                    tool_shown(verification->path), tool_shown(reason),
                    tool_limit_hint(reason));
    }
    if (kind == TOOL_CHECK_DAMAGED)
        verify->report->damage(verify->state, verification->path, box, reason);
}

static void
check_chunks(struct verification *verification,
             const struct tool_dataset *dataset)
{
    struct verify_sums *sums = &verification->sums;
    const uint64_t nabsent = tool_check_chunks(
        verification->verify->checker, dataset, add_chunk, verification);

    sums->nchunks += nabsent;
    sums->nof_kind[TOOL_CHECK_ABSENT] += nabsent;
}

/* Reports why the dataset is not checked. */
static void
skip_chunks(struct verification *verification,
            const struct tool_dataset *dataset, const char *reason)
{
    const struct tool_grid grid = tool_grid_of(dataset, dataset->chunk_dims);

    fprintf(stderr, "terp verify: %s: %s\n", tool_shown(verification->path),
            tool_shown(reason));
    verification->sums.nchunks = tool_grid_nboxes(&grid);
    verification->sums.nof_kind[TOOL_CHECK_UNTRIED] =
        verification->sums.nchunks;
    verification->verify->in_trouble = true;
}

void
verify_dataset(const char *path, const struct tool_dataset *dataset,
               const struct tool_trouble *trouble, void *context)
{
    struct verify *verify = context;
    struct verification verification = {verify, path, {0}};
    const char *damage = trouble != NULL ? trouble->reason : NULL;
    char reason[512];

    if (trouble != NULL && trouble->is_newer) {
        verify->report->unreadable(verify->state, path, damage);
        verify->in_trouble = true;
        return;
    }
    if (damage == NULL && dataset->has_terp)
        damage = dataset->params_error;
    verify->report->dataset(verify->state, path, damage);
    if (damage != NULL) {
        verify->damaged = true;
        return;
    }
    if (tool_limit_take(dataset, TOOL_LIMIT_ALL, reason, sizeof reason))
        check_chunks(&verification, dataset);
    else
        skip_chunks(&verification, dataset, reason);
    verify->report->sums(verify->state, path, &verification.sums);
}

static void
check_file(struct verify *verify, const char *path)
{
    const struct verify_report *report = verify->report;
    hid_t file = tool_file_open("verify", path);

    tool_limit_begin(tool_limit_file_nbytes(file), verify->is_trusted);
    report->file(verify->state, path, file >= 0);
    if (file < 0) {
        verify->in_trouble = true;
    } else if (!tool_file_visit(file, verify_dataset, verify)) {
        report->damaged_file(verify->state,
                             "some of the file's groups cannot be read");
        verify->damaged = true;
    }
    tool_close(file);
}

static const struct argp_option options[] = {
    {"json", 'j', NULL, 0, "Print JSON; `man terp` has the keys", 0},
    {"threads", 't', "N", 0,
     "Number of threads that decode (default: the number of CPUs)", 0},
    {"trusted", TOOL_KEY_TRUSTED, NULL, 0, TOOL_HELP_TRUSTED, 0},
    {0}};

static error_t
parse_option(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;

    switch (key) {
    case 'j':
#ifdef TERP_HAVE_JANSSON
        request->verify.report = &verify_report_json;
#else
        tool_option_missing(state, "--json", "jansson");
#endif
        return 0;
    case 't':
        request->nthreads = tool_option_nthreads(state, arg);
        return 0;
    case TOOL_KEY_TRUSTED:
        request->verify.is_trusted = true;
        return 0;
    case ARGP_KEY_ARGS:
        request->files = state->argv + state->next;
        request->nfiles = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "give at least one file");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void
check_files(struct request *request)
{
    struct verify *verify = &request->verify;

    if (verify->report->begin != NULL)
        verify->state = verify->report->begin();
    for (int i = 0; i < request->nfiles; i++)
        check_file(verify, request->files[i]);
    if (verify->report->end != NULL)
        verify->report->end(verify->state);
}

int
tool_verify(int argc, char **argv)
{
    static const struct argp parser = {
        .options = options,
        .parser = parse_option,
        .args_doc = "FILE...",
        .doc = "Looks for damage in the datasets of HDF5 files, without their "
               "originals."
               "\v"
               "Examples:\n"
               "  terp verify out.h5\n"
               "  terp verify --json run*.h5 | jq '.files[].datasets[] | "
               "select(.damaged > 0) | [.path, .damaged_chunks]'\n"
               "\n"
               "Decodes every chunk that terp compressed. Of other chunks it "
               "checks those that have HDF5's fletcher32.\n"
               "\n"
               "Exit codes: 0 no damage; 1 a chunk or dataset is damaged; 2 "
               "wrong usage, or a file cannot be opened or checked, for "
               "example because it needs a newer HDF5."};
    struct request request = {.verify.report = &verify_report_text,
                              .nthreads = terp_processor_count()};

    argp_parse(&parser, argc, argv, 0, NULL, &request);
    tool_plugin_dirs_add();
    request.verify.checker =
        tool_checker_start(request.nthreads, TOOL_CHECK_SKIPS_REST);
    if (request.verify.checker != NULL) {
        check_files(&request);
    } else {
        fprintf(stderr, "terp verify: %s\n", terp_status_text(TERP_ERR_MEMORY));
        request.verify.in_trouble = true;
    }
    tool_checker_end(request.verify.checker);
    return request.verify.in_trouble ? TOOL_TROUBLE
           : request.verify.damaged  ? TOOL_FOUND
                                     : TOOL_OK;
}
