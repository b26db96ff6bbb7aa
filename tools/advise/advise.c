/* terp advise: shows the effect of bounds and pipelines on a file's datasets.
 */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/processor.h"
#include "codec/api/text.h"
#include "tools/advise/advise.h"
#include "tools/common/chunk_shape.h"
#include "tools/common/coordinates.h"
#include "tools/common/limit.h"
#include "tools/common/options.h"
#include "tools/common/text.h"
#include "tools/common/tool.h"
#include "tools/common/walk.h"
#include "tools/repack/limits.h"

enum {
    KEY_FLOOR = 256, /* has no letter */
    KEY_KEEP_SIGN,
    KEY_PWR,
    KEY_VALID_RANGE
};

static const struct argp_option options[] = {
    {"dataset", 'd', "GLOB", 0,
     "Measure only datasets whose name matches GLOB, or whose path does if "
     "GLOB has a slash; may be given more than once",
     0},
    {"pwr", KEY_PWR, NULL, 0, "Measure bounds relative to each value", 0},
    {"floor", KEY_FLOOR, "X", 0, TOOL_HELP_FLOOR, 0},
    {"threads", 't', "N", 0,
     "Measure the speed of N threads (default: the number of CPUs, as repack "
     "takes)",
     0},
    {"keep-sign", KEY_KEEP_SIGN, "WHICH", OPTION_ARG_OPTIONAL,
     REPACK_HELP_KEEP_SIGN, 0},
    {"valid-range", KEY_VALID_RANGE, "MIN:MAX", 0, REPACK_HELP_VALID_RANGE, 0},
    {"json", 'j', NULL, 0, "Print JSON; `man terp` has the keys", 0},
    {"trusted", TOOL_KEY_TRUSTED, NULL, 0, TOOL_HELP_TRUSTED, 0},
    {"png", 'p', "DIR", 0,
     "Draw ratio and PSNR over the bound, with a curve for each pipeline, into "
     "a PNG file in DIR for each dataset",
     0},
    {0}};

static const char doc[] =
    "Measures ratio, PSNR and speed of several bounds and pipelines on a "
    "sample of each float dataset of FILE."
    "\v"
    "Examples:\n"
    "  terp advise in.h5\n"
    "  terp advise in.h5 --dataset 'fields/*' --dataset rho\n"
    "  terp advise in.h5 --png pictures\n"
    "  terp advise in.h5 --json | jq '.datasets[].choices[0].ratio'\n"
    "\n"
    "A sample is about a million values in whole chunks, or in the chunks that "
    "`terp repack` would make, spread over the stored values of the dataset. "
    "Its measurement takes about a second. Bounds are 1e-2 to 1e-5 times the "
    "range of the sample, or with --pwr times each value. Datasets of fewer "
    "than 4096 values are measured only where --dataset names them.\n"
    "\n"
    "Exit codes: 0 done; 1 a dataset cannot be read; 2 wrong usage, the file "
    "cannot be opened or needs a newer HDF5, --dataset matches no float "
    "dataset, or a picture failed.";

/* The parsed command line, and the state of the run. */
struct request {
    const char *path;
    const char **globs; /* capacity: argc */
    bool *used;         /* which globs match a dataset */
    int nglobs, nthreads;
    bool pointwise, is_trusted;
    double floor;
    struct repack_limits limits;
    struct tool_coordinates *coordinates;
    const struct advise_report *report;
    const char *png_directory;
    advise_plot *plot; /* NULL: no pictures */
    void *state;       /* of the report */
    int code;
};

static error_t
parse_option(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;

    switch (key) {
    case 'd':
        request->globs[request->nglobs++] = arg;
        return 0;
    case KEY_PWR:
        request->pointwise = true;
        return 0;
    case KEY_FLOOR:
        request->floor = tool_option_number(state, arg, "floor");
        return 0;
    case TOOL_KEY_TRUSTED:
        request->is_trusted = true;
        return 0;
    case 't':
        request->nthreads = tool_option_nthreads(state, arg);
        return 0;
    case KEY_KEEP_SIGN:
        request->limits.keep_sign =
            (enum terp_keep_sign)tool_option_keep_sign(state, arg);
        return 0;
    case KEY_VALID_RANGE:
        repack_limits_read_range(state, arg, &request->limits);
        return 0;
    case 'j':
#ifdef TERP_HAVE_JANSSON
        request->report = &advise_report_json;
#else
        tool_option_missing(state, "--json", "jansson");
#endif
        return 0;
    case 'p':
        request->png_directory = arg;
#ifdef TERP_HAVE_CAIRO
        request->plot = advise_plot_choices;
#else
        tool_option_missing(state, "--png", "cairo");
#endif
        return 0;
    case ARGP_KEY_ARG:
        if (request->path != NULL)
            argp_error(state, "too many files; give one");
        request->path = arg;
        return 0;
    case ARGP_KEY_END:
        if (request->path == NULL)
            argp_error(state, "give a file");
        if (request->floor > 0 && !request->pointwise)
            argp_error(state, "--floor needs --pwr");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static bool
is_wanted(struct request *request, const char *path)
{
    bool wanted = request->nglobs == 0;

    for (int i = 0; i < request->nglobs; i++)
        if (terp_text_matches(request->globs[i], path))
            wanted = request->used[i] = true;
    return wanted;
}

/* Records that a dataset cannot be read; a worse exit code stays. */
static void
find(struct request *request)
{
    if (request->code == TOOL_OK)
        request->code = TOOL_FOUND;
}

/* Draws a picture. Returns its path, which the caller frees, or NULL. */
static char *
plot(struct request *request, const char *path,
     const struct advise_sample *sample, const struct advise_choice *choices)
{
    char reason[512], name[4096];

    if (request->plot == NULL)
        return NULL;
    snprintf(name, sizeof name, "%s%s%s", path,
             sample->component[0] != '\0' ? ", " : "", sample->component);
    char *picture = request->plot(request->png_directory, name, sample, choices,
                                  reason, sizeof reason);
    if (picture == NULL) {
        fprintf(stderr, "terp advise: no picture of %s: %s\n", tool_shown(name),
                tool_shown(reason));
        request->code = TOOL_TROUBLE;
    }
    return picture;
}

/* Appends how to lift the limit that the reason names. */
static void
add_hint(struct advise_sample *sample)
{
    char *end = sample->reason + strlen(sample->reason);

    snprintf(end, (size_t)(sample->reason + sizeof sample->reason - end), "%s",
             tool_limit_hint(sample->reason));
}

/* Sets the parameters that all choices share; they differ in the bound. */
static void
set_params(const struct request *request, const struct tool_dataset *dataset,
           struct terp_params *params)
{
    params->bound_mode =
        request->pointwise ? TERP_BOUND_POINTWISE : TERP_BOUND_ABSOLUTE;
    params->bound = 1e-2;
    params->floor = request->floor;
    repack_limits_set(&request->limits, dataset, params);
}

/* Measures a sample, reports the result, and frees the sample. */
static void
advise_sampled(struct request *request, const char *path,
               const struct tool_dataset *dataset, struct advise_sample *sample)
{
    struct advise_choice choices[ADVISE_NCHOICES];

    set_params(request, dataset, &sample->params);
    add_hint(sample);
    bool measured =
        sample->reason[0] == '\0' &&
        advise_measure(sample, request->pointwise, request->nthreads, choices);
    char *picture = measured ? plot(request, path, sample, choices) : NULL;
    request->report->add(request->state, path, dataset, sample,
                         measured ? choices : NULL, picture, sample->reason);
    free(picture);
    if (sample->damaged)
        find(request);
    advise_sample_free(sample);
}

/* Measures each component of a level. False where the dataset is not a level.
 */
static bool
advise_level(struct request *request, const char *path,
             const struct tool_dataset *dataset)
{
    struct advise_sample sample;
    const char *reason;
    hid_t file = H5Iget_file_id(dataset->id);
    struct amrex_level *level =
        file < 0 ? NULL : amrex_level_open(file, path, dataset, &reason);

    if (level != NULL)
        amrex_level_choose_chunk(
            level,
            request->pointwise && request->floor == 0 ? AMREX_ONE : AMREX_OWN,
            dataset->value_nbytes, 0);
    for (uint64_t c = 0; level != NULL && c < level->ncomponents; c++) {
        advise_sample_read_component(dataset, level, c, &sample);
        amrex_component_name(file, level, c, sample.component);
        advise_sampled(request, path, dataset, &sample);
    }
    const bool is_level = level != NULL;
    amrex_level_free(level);
    if (file >= 0)
        H5Fclose(file);
    return is_level;
}

static void
advise_dataset(const char *path, const struct tool_dataset *dataset,
               const struct tool_trouble *trouble, void *context)
{
    struct request *request = context;
    struct advise_sample sample;
    const char *kind, *reason = NULL;
    char text[128], why[512];

    if (dataset == NULL) {
        request->report->add(request->state, path, NULL, NULL, NULL, NULL,
                             trouble->reason);
        if (trouble->is_newer)
            request->code = TOOL_TROUBLE;
        else
            find(request);
        return;
    }
    if (tool_type(dataset->type) == TERP_BYTES || dataset->nvalues == 0 ||
        dataset->rank == 0 || !is_wanted(request, path))
        return;
    if (request->nglobs == 0 && dataset->nvalues < TOOL_MIN_NVALUES)
        reason = "few values";
    else if (request->nglobs == 0 && request->coordinates != NULL &&
             (kind = tool_coordinates_kind(request->coordinates,
                                           dataset->id)) != NULL) {
        snprintf(text, sizeof text, "%s, which terp repack keeps lossless",
                 kind);
        reason = text;
    }
    if (reason != NULL) {
        request->report->add(request->state, path, dataset, NULL, NULL, NULL,
                             reason);
        return;
    }
    if (!tool_limit_take(dataset, TOOL_LIMIT_SOME, why, sizeof why)) {
        request->report->add(request->state, path, dataset, NULL, NULL, NULL,
                             why);
        find(request);
        return;
    }
    if (advise_level(request, path, dataset))
        return;
    advise_sample_read(dataset, &sample);
    advise_sampled(request, path, dataset, &sample);
}

/* Records coordinates: terp repack keeps them lossless, so that advise measures
 * them only where --dataset names them. */
static void
note_coordinates(const char *path, const struct tool_dataset *dataset,
                 const struct tool_trouble *trouble, void *context)
{
    struct request *request = context;

    (void)trouble;
    if (dataset != NULL)
        (void)tool_coordinates_note(request->coordinates, dataset->id, path);
}

static void
advise_file(struct request *request, hid_t file)
{
    request->code = TOOL_OK;
    tool_limit_begin(tool_limit_file_nbytes(file), request->is_trusted);
    request->state = request->report->begin(request->path, request->nthreads);
    if (request->nglobs == 0)
        request->coordinates = tool_coordinates_new();
    if (request->coordinates != NULL)
        (void)tool_file_visit(file, note_coordinates, request);
    if (!tool_file_visit(file, advise_dataset, request)) {
        fprintf(stderr,
                "terp advise: %s: some of the file's groups cannot be read\n",
                tool_shown(request->path));
        find(request);
    }
    request->report->end(request->state, request->nthreads);
    for (int i = 0; i < request->nglobs; i++)
        if (!request->used[i]) {
            fprintf(stderr, "terp advise: no float dataset matches '%s'\n",
                    tool_shown(request->globs[i]));
            request->code = TOOL_TROUBLE;
        }
}

int
tool_advise(int argc, char **argv)
{
    static const struct argp parser = {.options = options,
                                       .parser = parse_option,
                                       .args_doc = "FILE",
                                       .doc = doc};
    struct request request = {.report = &advise_report_text,
                              .nthreads = terp_processor_count(),
                              .limits = REPACK_LIMITS_DEFAULT,
                              .code = TOOL_TROUBLE};

    request.globs = calloc((size_t)argc, sizeof *request.globs);
    request.used = calloc((size_t)argc, sizeof *request.used);
    if (request.globs == NULL || request.used == NULL) {
        fprintf(stderr, "terp advise: not enough memory\n");
        goto out;
    }
    argp_parse(&parser, argc, argv, 0, NULL, &request);
    tool_plugin_dirs_add();
    hid_t file = tool_file_open("advise", request.path);
    if (file >= 0 && tool_directory_make("advise", request.png_directory))
        advise_file(&request, file);
    tool_close(file);
out:
    tool_coordinates_free(request.coordinates);
    free(request.globs);
    free(request.used);
    return request.code;
}
