/* terp info: shows how datasets are compressed, from their streams. */
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "codec/api/inspect.h"
#include "codec/format/base.h"
#include "codec/format/coding.h"
#include "codec/format/types.h"
#include "tools/common/limit.h"
#include "tools/common/options.h"
#include "tools/common/stored.h"
#include "tools/common/text.h"
#include "tools/common/tool.h"
#include "tools/info/info.h"

const char *
info_kind_name(int kind)
{
    static const char *const names[INFO_NKINDS] = {
        [INFO_RAW] = "raw",
        [INFO_CONSTANT] = "constant",
        [INFO_HUFFMAN] = "huffman",
        [INFO_RATIO] = "ratio",
        [INFO_SPEED] = "speed",
        [INFO_MEMBERS] = "by member",
        [INFO_PLAIN] = "stored plain",
        [INFO_ABSENT] = "not written",
        [INFO_HIDDEN] = "behind another filter",
        [INFO_DAMAGED] = "damaged"};

    return names[kind];
}

/* For each enum info_coding. */
static const struct {
    enum terp_coding coding;
    const char *name;
} codings[INFO_NCODINGS] = {
    [INFO_CODING_SPEED] = {TERP_CODING_SPEED, "speed"},
    [INFO_CODING_GRID] = {TERP_CODING_GRID, "grid"},
    [INFO_CODING_COLUMNS] = {TERP_CODING_COLUMNS, "columns"},
    [INFO_CODING_RANKS] = {TERP_CODING_RANKS, "ranks"}};

const char *
info_coding_name(int coding)
{
    return codings[coding].name;
}

const char *
info_predictor_name(int predictor)
{
    return predictor == 0                  ? "none"
           : predictor == TERP_NPREDICTORS ? "lossless"
                                           : tool_predictor_name(predictor);
}

const char *
info_pass_text(const struct tool_dataset *dataset)
{
    static const char *const texts[] = {
        [TERP_PASS_NONE] = "",
        [TERP_PASS_NOT_NUMBER] = "terp does not compress values of this type",
        [TERP_PASS_FLOAT_FORMAT] =
            "the float is not IEEE binary16, binary32, binary64 or bfloat16",
        [TERP_PASS_UNKNOWN_LAYOUT] =
            "HDF5 did not tell the type and the dims of the chunk",
        [TERP_PASS_TOO_LARGE] = "the chunk is too large",
        [TERP_PASS_NOT_FIRST] = "another filter comes before terp",
        [TERP_PASS_BEHIND] =
            "a filter after terp does not preserve the bytes of streams",
        [TERP_PASS_BY_MEMBER] = ""};
    return texts[dataset->cd.pass];
}

static void
count_name(const char *name, const char *name_of(int), int nnames,
           uint64_t *counts)
{
    for (int i = 0; i < nnames; i++)
        if (strcmp(name, name_of(i)) == 0)
            counts[i]++;
}

/* Unknown counts add nothing: terp_inspect does not count within chunks of GiB
 * that take few bytes. */
static void
add_count(uint64_t *sum, uint64_t count)
{
    *sum += count == TERP_COUNT_UNKNOWN ? 0 : count;
}

static void
add_domain(struct info_summary *sum, const struct terp_info *info)
{
    if (terp_shapes_are_equal(&info->domain, &info->chunk))
        return;
    sum->nwith_domain++;
    for (int i = 0; i < INFO_MAX_NDOMAINS; i++) {
        struct info_domain *domain = &sum->domains[i];
        if (domain->nchunks == 0)
            domain->shape = info->domain;
        if (terp_shapes_are_equal(&domain->shape, &info->domain)) {
            domain->nchunks++;
            return;
        }
    }
}

const struct info_domain *
info_main_domain(const struct info_summary *summary)
{
    const struct info_domain *most = &summary->domains[0];

    for (int i = 1; i < INFO_MAX_NDOMAINS; i++)
        if (summary->domains[i].nchunks > most->nchunks)
            most = &summary->domains[i];
    return most;
}

static void
add_prefixes(struct info_summary *sum, const struct terp_info *info)
{
    if (info->prefix_nbytes[0] == 0)
        return;
    sum->nwith_prefixes++;
    sum->prefixed_nbytes += info->stream_nbytes;
    for (int i = 0; i < INFO_NPREFIXES; i++)
        sum->prefix_nbytes[i] += info->prefix_nbytes[i];
}

static void
add_codings(struct info_summary *sum, unsigned found)
{
    for (int i = 0; i < INFO_NCODINGS; i++)
        sum->nwith_coding[i] += found >> codings[i].coding & 1;
}

static void
add_stream(struct info_summary *sum, const struct terp_info *info)
{
    uint64_t nvalues = 1;

    if (info->chunk.type == TERP_BYTES)
        nvalues = 0;
    for (int i = 0; i < info->chunk.rank; i++)
        nvalues *= info->chunk.dims[i];
    sum->nvalues += nvalues;
    sum->nof_version_2 += info->version == 2;
    sum->nescapes += info->nescapes;
    add_count(&sum->nspecials, info->nspecials);
    sum->ntiles += info->ntiles;
    add_count(&sum->ntiles_zero, info->ntiles_zero);
    add_count(&sum->index_nbytes, info->index_nbytes);
    for (int i = 0; i < 256; i++)
        sum->ntiles_with_entry[i] += info->ntiles_with_entry[i];
    count_name(info->predictor, info_predictor_name, INFO_NPREDICTORS,
               sum->nwith_predictor);
    add_domain(sum, info);
    add_prefixes(sum, info);
}

/* Whether the dataset names a number as a fill value: HDF5's, netCDF's or that
 * of the parameters. */
static bool
is_declared(const struct tool_dataset *dataset, enum terp_type type,
            double value)
{
    double declared[TOOL_MAX_NMISSING + 2];
    int n = tool_missing_values(dataset, true, declared);
    uint64_t bits;
    bool found = false;

    if (dataset->cd.has_missing)
        declared[n++] = dataset->cd.missing;
    if (tool_fill_bits(dataset, true, &bits))
        declared[n++] = double_of_bits(bits);
    for (int i = 0; i < n; i++)
        found |= terp_is_number(type, value, declared[i]);
    return found;
}

/* Adds usual fill values. Without loss they are nothing special: such streams
 * hold any frequent number apart. */
static void
add_fills(const struct tool_dataset *dataset, enum terp_type type,
          const struct terp_usual_fills *fills, struct info_summary *sum)
{
    for (int i = 0; i < fills->n && !tool_is_lossless(dataset); i++)
        if (!is_declared(dataset, type, fills->at[i]))
            terp_usual_fills_add(&sum->undeclared, fills->at[i]);
}

static void
add_damage(struct info_summary *sum, const struct tool_grid *grid,
           const char *damage)
{
    if (sum->nof_kind[INFO_DAMAGED]++ > 0)
        return;
    sum->damage = damage;
    memcpy(sum->damaged_at, grid->at, sizeof sum->damaged_at);
}

/* The stream of a chunk, or of a member. */
static enum terp_status
sum_stream(const struct tool_dataset *dataset, const uint8_t *bytes,
           uint64_t nbytes, struct terp_info *info, struct info_summary *sum)
{
    struct terp_stream_facts facts;
    const enum terp_status st = terp_inspect_facts(bytes, nbytes, info, &facts);

    if (st == TERP_OK) {
        add_stream(sum, info);
        add_codings(sum, facts.codings);
        add_fills(dataset, terp_type_of_part(info->chunk.type), &facts.fills,
                  sum);
    }
    return st;
}

static const char other_size[] = "it holds a chunk of another size";

/* Returns the damage of a chunk; NULL: none. */
static const char *
sum_chunk(const struct tool_dataset *dataset, const struct tool_chunk *chunk,
          struct info_summary *sum)
{
    struct terp_info info = {.size = sizeof info};
    struct terp_chunk announced;
    enum terp_status st =
        terp_decoded_chunk(chunk->bytes, chunk->nbytes, &announced);

    if (st == TERP_OK &&
        !tool_stream_fits(dataset, terp_chunk_nbytes(&announced)))
        return other_size;
    if (st == TERP_OK)
        st = sum_stream(dataset, chunk->bytes, chunk->nbytes, &info, sum);
    if (st != TERP_OK)
        return terp_status_text(st);
    count_name(info.pipeline, info_kind_name, INFO_MEMBERS, sum->nof_kind);
    return NULL;
}

/* The same of a container: of compound values, or of parts of a chunk of
 * numbers. */
static const char *
sum_container(const struct tool_dataset *dataset,
              const struct tool_chunk *chunk, struct info_summary *sum)
{
    struct terp_info info = {.size = sizeof info};
    struct terp_container container;
    struct terp_container_walk walk = {.next = 0};
    enum terp_status st =
        terp_container_read(chunk->bytes, chunk->nbytes, &container);

    if (st == TERP_OK &&
        !tool_stream_fits(dataset, terp_container_chunk_nbytes(&container)))
        return other_size;
    if (st == TERP_OK && dataset->cd.pass == TERP_PASS_BY_MEMBER &&
        !info_members_add(&sum->members, &dataset->cd.compound, &container))
        return "its members differ from those of the dataset";
    for (; st == TERP_OK && terp_container_next(&container, &walk);
         sum->nof_members++)
        st = sum_stream(dataset, walk.stream, walk.stream_nbytes, &info, sum);
    if (st != TERP_OK)
        return terp_status_text(st);
    sum->nof_kind[INFO_MEMBERS]++;
    return NULL;
}

static void
sum_chunks(const struct tool_dataset *dataset, struct info_summary *sum)
{
    struct tool_grid grid = tool_grid_of(dataset, dataset->chunk_dims);
    struct tool_chunk chunk = {0};
    struct tool_stored stored = tool_stored_find(dataset);

    sum->nchunks = tool_stored_nabsent(&stored);
    sum->nof_kind[INFO_ABSENT] = sum->nchunks;
    while (tool_stored_next(&stored, &grid)) {
        sum->nchunks++;
        tool_chunk_read(dataset, &grid, &chunk);
        switch (chunk.kind) {
        case TOOL_CHUNK_ABSENT:
            sum->nof_kind[INFO_ABSENT]++;
            break;
        case TOOL_CHUNK_PLAIN:
            sum->nof_kind[INFO_PLAIN]++;
            break;
        case TOOL_CHUNK_HIDDEN:
            sum->nof_kind[INFO_HIDDEN]++;
            break;
        case TOOL_CHUNK_UNREADABLE:
            add_damage(sum, &grid, "its bytes cannot be read");
            break;
        case TOOL_CHUNK_MISFIT:
            add_damage(sum, &grid, other_size);
            break;
        case TOOL_CHUNK_STREAM: {
            const char *damage = terp_container_is(chunk.bytes, chunk.nbytes)
                                     ? sum_container(dataset, &chunk, sum)
                                     : sum_chunk(dataset, &chunk, sum);
            if (damage != NULL)
                add_damage(sum, &grid, damage);
            break;
        }
        }
    }
    tool_chunk_free(&chunk);
    tool_stored_free(&stored);
}

static const struct argp_option options[] = {
    {"json", 'j', NULL, 0, "Print JSON; `man terp` has the keys", 0},
    {"trusted", TOOL_KEY_TRUSTED, NULL, 0, TOOL_HELP_TRUSTED, 0},
    {"verbose", 'v', NULL, 0,
     "Print parameters, predictors, codebooks and tiles of each dataset", 0},
    {0}};

/* The parsed command line. */
struct request {
    int nfiles;
    char **files;
    struct info_show show;
};

void
info_show_dataset(const char *path, const struct tool_dataset *dataset,
                  const struct tool_trouble *trouble, void *context)
{
    struct info_show *show = context;
    struct info_summary sum = {0};
    const char *damage = NULL;
    char reason[512];

    if (dataset == NULL) {
        show->report->add_trouble(show->state, path, trouble);
        show->damaged |= !trouble->is_newer;
        show->in_trouble |= trouble->is_newer;
        return;
    }
    if (dataset->has_terp) {
        damage = dataset->params_error;
        if (damage == NULL && dataset->cd.pass == TERP_PASS_BY_MEMBER &&
            !info_members_make(dataset, &sum.members)) {
            fprintf(stderr, "terp info: %s: not enough memory\n",
                    tool_shown(path));
            show->in_trouble = true;
        } else if (damage == NULL && tool_limit_take(dataset, TOOL_LIMIT_LIST,
                                                     reason, sizeof reason)) {
            sum_chunks(dataset, &sum);
        } else if (damage == NULL) {
            fprintf(stderr, "terp info: %s: %s\n", tool_shown(path),
                    tool_shown(reason));
            show->in_trouble = true;
        }
    }
    show->report->add(show->state, path, dataset, &sum, damage);
    if (damage != NULL || sum.nof_kind[INFO_DAMAGED] > 0)
        show->damaged = true;
    info_members_free(&sum.members);
}

static void
show_file(struct request *request, int nth)
{
    struct info_show *show = &request->show;
    const struct info_report *report = show->report;
    hid_t file = tool_file_open("info", request->files[nth]);

    tool_limit_begin(tool_limit_file_nbytes(file), show->is_trusted);
    report->file(show->state, nth, request->files[nth], file >= 0);
    if (file < 0) {
        show->in_trouble = true;
    } else if (!tool_file_visit(file, info_show_dataset, show)) {
        report->damaged_file(show->state,
                             "some of the file's groups cannot be read");
        show->damaged = true;
    }
    tool_close(file);
}

static error_t
parse_option(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;

    (void)arg;
    switch (key) {
    case 'j':
#ifdef TERP_HAVE_JANSSON
        request->show.report = &info_report_json;
#else
        tool_option_missing(state, "--json", "jansson");
#endif
        return 0;
    case TOOL_KEY_TRUSTED:
        request->show.is_trusted = true;
        return 0;
    case 'v':
        if (request->show.report == &info_report_short)
            request->show.report = &info_report_text;
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

int
tool_info(int argc, char **argv)
{
    static const struct argp parser = {
        .options = options,
        .parser = parse_option,
        .args_doc = "FILE...",
        .doc = "Shows how the datasets of HDF5 files are compressed."
               "\v"
               "Examples:\n"
               "  terp info out.h5\n"
               "  terp info -v out.h5\n"
               "  terp info --json run*.h5 | jq "
               "'.files[].datasets[] | [.path, .ratio]'\n"
               "\n"
               "Prints a line for each dataset: its ratio, the bytes that are "
               "stored, the bytes of its values, and what compresses it; then "
               "the sums. --verbose describes each dataset.\n"
               "\n"
               "Needs no filter plugin: terp reads the streams itself.\n"
               "\n"
               "Exit codes: 0 no damage; 1 a chunk or dataset is damaged; 2 "
               "wrong usage, or a file cannot be opened or needs a newer "
               "HDF5."};
    struct request request = {.show.report = &info_report_short};
    struct info_show *show = &request.show;

    argp_parse(&parser, argc, argv, 0, NULL, &request);
    if (show->report->begin != NULL)
        show->state = show->report->begin();
    for (int i = 0; i < request.nfiles; i++)
        show_file(&request, i);
    if (show->report->end != NULL)
        show->report->end(show->state);
    return show->in_trouble ? TOOL_TROUBLE
           : show->damaged  ? TOOL_FOUND
                            : TOOL_OK;
}
