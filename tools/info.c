/* terp info: what a file's datasets hold, read from their streams. */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5file.h"
#include "tool.h"

enum {
    NFAMILY_SCALES = 25, /* dictionary entries of one distribution */
    NENTRIES_SHOWN = 3,
    DIMS_TEXT_CAP = 21 * H5S_MAX_RANK
};

/* What a chunk can be: the pipelines of streams, then everything else. */
enum kind {
    KIND_HUFFMAN = 2,
    KIND_RATIO = 5,
    KIND_PLAIN,
    KIND_ABSENT,
    KIND_HIDDEN,
    KIND_DAMAGED,
    NKINDS
};
static const char *const kinds[NKINDS] = {
    "raw",          "constant",    "huffman",
    "custom",       "speed",       "ratio",
    "stored plain", "not written", "behind another filter",
    "damaged"};

enum {
    NPREDICTORS = 3
};
static const char *const predictors[NPREDICTORS] = {"none", "spline",
                                                    "lorenzo"};

/* What the streams of one dataset add up to. */
struct summary {
    uint64_t nchunks; /* in the grid */
    uint64_t nof_kind[NKINDS];
    uint64_t nwith_predictor[NPREDICTORS];
    uint64_t nvalues, nescapes, nspecials;
    uint64_t ntiles, ntiles_zero, index_nbytes;
    uint64_t ntiles_with_entry[256];
    const char *damage; /* of the first damaged chunk */
    hsize_t damaged_at[H5S_MAX_RANK];
};

static void
count_name(const char *name, const char *const *names, int nnames,
           uint64_t *counts)
{
    for (int i = 0; i < nnames; i++)
        if (strcmp(name, names[i]) == 0)
            counts[i]++;
}

static void
add_stream(struct summary *sum, const struct terp_info *info)
{
    uint64_t nvalues = 1;

    if (info->chunk.type == TERP_BYTES)
        nvalues = 0;
    for (int i = 0; i < info->chunk.rank; i++)
        nvalues *= info->chunk.dims[i];
    sum->nvalues += nvalues;
    sum->nescapes += info->nescapes;
    sum->nspecials += info->nspecials;
    sum->ntiles += info->ntiles;
    sum->ntiles_zero += info->ntiles_zero;
    sum->index_nbytes += info->index_nbytes;
    for (int i = 0; i < 256; i++)
        sum->ntiles_with_entry[i] += info->ntiles_with_entry[i];
    count_name(info->pipeline, kinds, KIND_PLAIN, sum->nof_kind);
    count_name(info->predictor, predictors, NPREDICTORS, sum->nwith_predictor);
}

static void
add_damage(struct summary *sum, const struct tool_grid *grid,
           const char *damage)
{
    if (sum->nof_kind[KIND_DAMAGED]++ > 0)
        return;
    sum->damage = damage;
    memcpy(sum->damaged_at, grid->at, sizeof sum->damaged_at);
}

static void
sum_chunks(const struct tool_dataset *dataset, struct summary *sum)
{
    struct tool_chunk chunk = {0};
    struct tool_grid grid;
    struct terp_info info;

    tool_dataset_grid(dataset, &grid);
    while (tool_grid_next(&grid)) {
        sum->nchunks++;
        tool_chunk_read(dataset, &grid, &chunk);
        switch (chunk.kind) {
        case TOOL_CHUNK_ABSENT:
            sum->nof_kind[KIND_ABSENT]++;
            break;
        case TOOL_CHUNK_PLAIN:
            sum->nof_kind[KIND_PLAIN]++;
            break;
        case TOOL_CHUNK_HIDDEN:
            sum->nof_kind[KIND_HIDDEN]++;
            break;
        case TOOL_CHUNK_UNREADABLE:
            add_damage(sum, &grid, "its bytes cannot be read");
            break;
        case TOOL_CHUNK_STREAM: {
            enum terp_status st =
                terp_inspect(chunk.bytes, chunk.nbytes, &info);
            if (st != TERP_OK)
                add_damage(sum, &grid, terp_status_text(st));
            else if (dataset->chunk_nbytes != info.chunk_nbytes)
                add_damage(sum, &grid, "it holds a chunk of another size");
            else
                add_stream(sum, &info);
            break;
        }
        }
    }
    tool_chunk_free(&chunk);
}

static double
percent(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : 100.0 * (double)part / (double)whole;
}

static void
print_params(const struct tool_dataset *dataset)
{
    static const char *const names_pipeline[] = {"auto", "huffman", "custom",
                                                 "speed", "ratio"};
    static const char *const names_predictor[] = {"auto", "spline", "lorenzo"};
    static const char *const reasons[] = {
        [TERP_PASS_NO] = "",
        [TERP_PASS_NOT_FLOAT] = "not a floating-point type",
        [TERP_PASS_FLOAT_FORMAT] = "not an IEEE float of 32 or 64 bits",
        [TERP_PASS_UNKNOWN_LAYOUT] = "the library did not tell the layout",
        [TERP_PASS_TOO_LARGE] = "the chunk is too large"};
    const struct terp_cd *cd = &dataset->cd;
    const struct terp_params *params = &cd->params;

    printf("  parameters  %s bound %.17g, pipeline %s, predictor %s",
           params->bound_mode == TERP_BOUND_RELATIVE ? "relative" : "absolute",
           params->bound, names_pipeline[params->pipeline],
           names_predictor[params->predictor]);
    if (cd->nlogical > 0)
        printf(", bricks ");
    for (int i = 0; i < cd->nlogical; i++)
        printf("%s%" PRIu64, i == 0 ? "" : "x", cd->logical[i]);
    if (params->has_fill)
        printf(", fill value kept");
    printf("\n");
    if (cd->pass != TERP_PASS_NO)
        printf("  passed      through uncompressed: %s\n", reasons[cd->pass]);
}

/* "3 huffman, 1 raw" of the counts that are not 0. */
static void
print_counts(const char *const *names, const uint64_t *counts, int ncounts)
{
    const char *separator = "";
    for (int i = 0; i < ncounts; i++)
        if (counts[i] > 0) {
            printf("%s%" PRIu64 " %s", separator, counts[i], names[i]);
            separator = ", ";
        }
    printf("\n");
}

static void
print_entries(const struct summary *sum)
{
    static const char *const families[] = {"cauchy", "laplace", "gaussian"};
    bool shown[256] = {0};

    for (int n = 0; n < NENTRIES_SHOWN; n++) {
        int best = -1;
        for (int i = 0; i < 256; i++)
            if (!shown[i] && sum->ntiles_with_entry[i] > 0 &&
                (best < 0 ||
                 sum->ntiles_with_entry[i] > sum->ntiles_with_entry[best]))
                best = i;
        if (best < 0)
            break;
        shown[best] = true;
        printf("%s", n == 0 ? "  dictionary  " : ", ");
        if (best / NFAMILY_SCALES < 3)
            printf("%s %d", families[best / NFAMILY_SCALES],
                   best % NFAMILY_SCALES);
        else
            printf("entry %d", best);
        printf(" %.3g %%", percent(sum->ntiles_with_entry[best], sum->ntiles));
    }
    printf(" of tiles\n");
}

static void
print_summary(const struct tool_dataset *dataset, const struct summary *sum)
{
    char at[DIMS_TEXT_CAP];

    printf("  chunks      %" PRIu64 ": ", sum->nchunks);
    print_counts(kinds, sum->nof_kind, NKINDS);
    if (sum->nwith_predictor[1] + sum->nwith_predictor[2] > 0) {
        printf("  predictors  ");
        print_counts(predictors, sum->nwith_predictor, NPREDICTORS);
    }
    if (sum->nvalues > 0)
        printf("  values      %.3g %% escapes, %.3g %% special\n",
               percent(sum->nescapes, sum->nvalues),
               percent(sum->nspecials, sum->nvalues));
    if (sum->ntiles > 0)
        printf("  tiles       %" PRIu64 ", %.3g %% of them zero, index %" PRIu64
               " bytes\n",
               sum->ntiles, percent(sum->ntiles_zero, sum->ntiles),
               sum->index_nbytes);
    if (sum->nof_kind[KIND_HUFFMAN] + sum->nof_kind[KIND_RATIO] > 0 &&
        sum->ntiles > sum->ntiles_zero)
        print_entries(sum);
    if (sum->nof_kind[KIND_DAMAGED] > 0) {
        tool_dims_text(dataset->rank, sum->damaged_at, at, sizeof at);
        printf("  DAMAGED     the first damaged chunk, at %s: %s\n", at,
               sum->damage);
    }
}

static void
print_head(const struct tool_dataset *dataset)
{
    char type[64], dims[DIMS_TEXT_CAP], chunks[DIMS_TEXT_CAP];

    tool_dataset_type_name(dataset, type, sizeof type);
    tool_dims_text(dataset->rank, dataset->dims, dims, sizeof dims);
    tool_dims_text(dataset->rank, dataset->chunk_dims, chunks, sizeof chunks);
    printf("  type        %s, %s", type,
           dataset->empty && dataset->rank == 0 ? "null" : dims);
    printf("%s%s\n", dataset->chunked ? ", chunks " : ", not chunked",
           dataset->chunked ? chunks : "");

    uint64_t nbytes = dataset->nvalues * dataset->value_nbytes;
    uint64_t stored_nbytes = H5Dget_storage_size(dataset->id);
    printf("  stored      %" PRIu64 " bytes of %" PRIu64, stored_nbytes,
           nbytes);
    if (stored_nbytes > 0)
        printf(", ratio %.2f", (double)nbytes / (double)stored_nbytes);
    printf("%s\n", dataset->has_terp ? "" : ", no terp filter");
}

static void
show_dataset(hid_t file, const char *path, void *context)
{
    int *code = context;
    struct tool_dataset dataset;
    struct summary sum = {0};
    char reason[256];

    printf("%s\n", path);
    if (!tool_dataset_open(file, path, &dataset)) {
        tool_hdf5_reason(reason, sizeof reason);
        printf("  DAMAGED     %s\n", reason);
        *code = TOOL_FOUND;
        return;
    }
    print_head(&dataset);
    if (dataset.has_terp && dataset.params_error != NULL) {
        printf("  DAMAGED     parameters: %s\n", dataset.params_error);
        *code = TOOL_FOUND;
    } else if (dataset.has_terp) {
        print_params(&dataset);
        sum_chunks(&dataset, &sum);
        if (sum.nchunks > 0)
            print_summary(&dataset, &sum);
        if (sum.nof_kind[KIND_DAMAGED] > 0)
            *code = TOOL_FOUND;
    }
    tool_dataset_close(&dataset);
}

struct request {
    int nfiles;
    char **files;
};

static error_t
parse_option(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;

    (void)arg;
    switch (key) {
    case ARGP_KEY_ARGS:
        request->files = state->argv + state->next;
        request->nfiles = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "a file is needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int
tool_info(int argc, char **argv)
{
    static const struct argp parser = {
        .parser = parse_option,
        .args_doc = "FILE...",
        .doc = "Shows how the datasets of HDF5 files are compressed."
               "\v"
               "Reads the streams themselves; the filter plugin is not "
               "needed. A chunk that is damaged makes the exit code 1."};
    struct request request = {0};
    int code = TOOL_OK;

    argp_parse(&parser, argc, argv, 0, NULL, &request);
    for (int i = 0; i < request.nfiles; i++) {
        hid_t file = tool_file_open("info", request.files[i]);
        if (file < 0) {
            code = TOOL_TROUBLE;
            continue;
        }
        printf("%s%s\n", i == 0 ? "" : "\n", request.files[i]);
        int found = TOOL_OK;
        if (!tool_file_visit(file, show_dataset, &found)) {
            printf("DAMAGED: the file's structure cannot be followed\n");
            found = TOOL_FOUND;
        }
        if (code == TOOL_OK)
            code = found;
        H5Fclose(file);
    }
    return code;
}
