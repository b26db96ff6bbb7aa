/* terp info: prints a line for each dataset, and sums. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "codec/model/bound.h"
#include "tools/common/lost.h"
#include "tools/common/progress.h"
#include "tools/common/text.h"
#include "tools/common/tool.h"
#include "tools/info/info.h"

/* Names of filters beyond this length are cut. */
#define MAX_FILTER_NBYTES 32

struct sums {
    uint64_t ndatasets, nwith_terp;
    uint64_t nbytes, stored_nbytes; /* of datasets */
    uint64_t file_nbytes;
};

struct state {
    struct sums file, all;
    uint64_t nfiles; /* that were opened */
    bool is_open;    /* the sums of a file are still to be printed */
};

static void *
short_begin(void)
{
    struct state *state = calloc(1, sizeof *state);

    if (state == NULL) {
        fprintf(stderr, "terp: not enough memory\n");
        exit(TOOL_TROUBLE);
    }
    return state;
}

/* Prints ratio, stored bytes and bytes of values. */
static void
print_sizes(uint64_t nbytes, uint64_t stored_nbytes)
{
    char ratio[32] = "-", stored[16], whole[16];

    tool_nbytes_text((double)stored_nbytes, stored);
    tool_nbytes_text((double)nbytes, whole);
    if (stored_nbytes > 0)
        snprintf(ratio, sizeof ratio, "%.2f",
                 tool_ratio(nbytes, stored_nbytes));
    printf("%8s %8s %8s  ", ratio, stored, whole);
}

static void
print_sums(const struct sums *sums, const char *name)
{
    char file[16];

    tool_nbytes_text((double)sums->file_nbytes, file);
    print_sizes(sums->nbytes, sums->stored_nbytes);
    printf("%s: %" PRIu64 " dataset%s, %" PRIu64 " with terp; %s on disk\n",
           name, sums->ndatasets, sums->ndatasets == 1 ? "" : "s",
           sums->nwith_terp, file);
}

static void
end_file(struct state *state)
{
    const struct sums *file = &state->file;

    if (!state->is_open)
        return;
    state->is_open = false;
    state->nfiles++;
    print_sums(file, "total");
    state->all.ndatasets += file->ndatasets;
    state->all.nwith_terp += file->nwith_terp;
    state->all.nbytes += file->nbytes;
    state->all.stored_nbytes += file->stored_nbytes;
    state->all.file_nbytes += file->file_nbytes;
}

static void
short_file(void *report, int nth, const char *path, bool opened)
{
    struct state *state = report;
    struct stat found;

    end_file(state);
    if (!opened)
        return;
    state->is_open = true;
    state->file = (struct sums){0};
    if (stat(path, &found) == 0)
        state->file.file_nbytes = (uint64_t)found.st_size;
    printf("%s%s\n%8s %8s %8s  %-28s %-24s %s\n", nth > 0 ? "\n" : "",
           tool_shown(path), "ratio", "stored", "values", "compression",
           "type and shape", "dataset");
}

/* Appends to a text and cuts what does not fit. */
__attribute__((format(printf, 3, 4))) static void
append(char *text, size_t cap, const char *format, ...)
{
    const size_t n = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text + n, cap - n, format, arguments);
    va_end(arguments);
}

/* "relative bound 0.001", "lossless", ... the number of members with bounds of
 * their own, and codings of version 2. */
static void
describe_terp(const struct tool_dataset *dataset,
              const struct info_summary *summary, char *text, size_t cap)
{
    const struct terp_params *params = &dataset->cd.params;

    if (!terp_cd_is_coded(&dataset->cd))
        append(text, cap, "passed through");
    else if (tool_is_lossless(dataset) || terp_is_lossless(params))
        append(text, cap, "lossless");
    else
        append(text, cap, "%s bound %.6g",
               terp_bound_mode_name(params->bound_mode), params->bound);
    if (params->floor > 0)
        append(text, cap, ", floor %.6g", params->floor);
    if (dataset->cd.nrules > 0)
        append(text, cap, ", %d own bound%s", dataset->cd.nrules,
               dataset->cd.nrules == 1 ? "" : "s");
    for (int i = 0; i < INFO_NCODINGS; i++)
        if (summary->nwith_coding[i] > 0)
            append(text, cap, ", %s", info_coding_name(i));
}

/* "shuffle, deflate"; "-" without filters. */
static void
describe_filters(const struct tool_dataset *dataset, char *text, size_t cap)
{
    char name[MAX_FILTER_NBYTES];
    unsigned flags, config;

    for (int i = 0; i < dataset->nfilters; i++) {
        size_t nwords = 0;
        name[0] = '\0';
        const H5Z_filter_t filter =
            H5Pget_filter2(dataset->dcpl, (unsigned)i, &flags, &nwords, NULL,
                           sizeof name, name, &config);
        name[sizeof name - 1] = '\0';
        if (name[0] == '\0')
            snprintf(name, sizeof name, "filter %d", filter);
        append(text, cap, "%s%s", i == 0 ? "" : ", ", name);
    }
    if (dataset->nfilters == 0)
        append(text, cap, "-");
}

static void
describe_shape(const struct tool_dataset *dataset, char *text, size_t cap)
{
    tool_dataset_type_name(dataset, text, cap);
    if (dataset->rank == 0)
        append(text, cap, dataset->nvalues == 0 ? " null" : " scalar");
    for (int i = 0; i < dataset->rank; i++)
        append(text, cap, "%s%" PRIu64, i == 0 ? " " : "x",
               (uint64_t)dataset->dims[i]);
}

static void
print_damage(const struct tool_dataset *dataset,
             const struct info_summary *summary, const char *damage)
{
    struct tool_lost lost;

    if (damage != NULL)
        printf("  DAMAGED     parameters: %s\n", damage);
    if (summary->nof_kind[INFO_DAMAGED] > 0) {
        printf("  DAMAGED     %" PRIu64 " of %" PRIu64
               " chunks, the first one at ",
               summary->nof_kind[INFO_DAMAGED], summary->nchunks);
        tool_dims_print(dataset->rank, summary->damaged_at);
        printf(": %s\n", summary->damage);
    }
    if (tool_lost_read(dataset->id, &lost))
        printf("  LOST        chunks: %" PRIu64 ", replaced by fill values\n",
               lost.n);
    tool_lost_free(&lost);
}

static void
short_add(void *report, const char *path, const struct tool_dataset *dataset,
          const struct info_summary *summary, const char *damage)
{
    struct state *state = report;
    const uint64_t nbytes = dataset->nvalues * dataset->value_nbytes;
    const uint64_t stored_nbytes = H5Dget_storage_size(dataset->id);
    char compression[160] = "", shape[160] = "";

    if (dataset->has_terp && damage == NULL)
        describe_terp(dataset, summary, compression, sizeof compression);
    else
        describe_filters(dataset, compression, sizeof compression);
    describe_shape(dataset, shape, sizeof shape);
    print_sizes(nbytes, stored_nbytes);
    printf("%-28s %-24s %s\n", tool_shown(compression), shape,
           tool_shown(path));
    print_damage(dataset, summary, damage);
    state->file.ndatasets++;
    state->file.nwith_terp += dataset->has_terp;
    state->file.nbytes += nbytes;
    state->file.stored_nbytes += stored_nbytes;
}

static void
short_add_trouble(void *report, const char *path,
                  const struct tool_trouble *trouble)
{
    (void)report;
    printf("%8s %8s %8s  %-53s %s\n  %-10s  %s\n", "-", "-", "-", "-",
           tool_shown(path), trouble->is_newer ? "UNREADABLE" : "DAMAGED",
           tool_shown(trouble->reason));
}

static void
short_damaged_file(void *report, const char *damage)
{
    (void)report;
    printf("DAMAGED: %s\n", damage);
}

static void
short_end(void *report)
{
    struct state *state = report;

    end_file(state);
    if (state->nfiles > 1) {
        printf("\n");
        print_sums(&state->all, "all files");
    }
    free(state);
}

const struct info_report info_report_short = {
    short_begin,       short_file,         short_add,
    short_add_trouble, short_damaged_file, short_end};
