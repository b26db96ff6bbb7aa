/* terp info --verbose: prints a paragraph for each dataset. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "codec/api/inspect.h"
#include "codec/model/bound.h"
#include "tools/common/cf.h"
#include "tools/common/lost.h"
#include "tools/common/options.h"
#include "tools/common/record.h"
#include "tools/common/text.h"
#include "tools/info/info.h"

/* The most frequent entries, which fit a line. */
#define NENTRIES_SHOWN 3

static double
percent(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : 100.0 * (double)part / (double)whole;
}

static void
print_params(const struct tool_dataset *dataset)
{
    const struct terp_cd *cd = &dataset->cd;
    const struct terp_params *params = &cd->params;

    printf("  parameters  ");
    if (terp_is_lossless(params))
        printf("lossless");
    else
        printf("%s bound %.17g", terp_bound_mode_name(params->bound_mode),
               params->bound);
    if (params->floor > 0)
        printf(", floor %.17g", params->floor);
    printf(", pipeline %s, predictor %s", terp_pipeline_name(params->pipeline),
           terp_predictor_name(params->predictor));
    if (params->effort != TERP_EFFORT_DEFAULT)
        printf(", effort %s", terp_effort_name(params->effort));
    if (params->format != 0)
        printf(", format %d", params->format);
    if (cd->nlogical > 0)
        printf(", bricks ");
    for (int i = 0; i < cd->nlogical; i++)
        printf("%s%" PRIu64, i == 0 ? "" : "x", cd->logical[i]);
    if (params->has_fill)
        printf(", fill value kept");
    if (cd->has_missing)
        printf(", missing value %.17g kept", cd->missing);
    if (params->has_valid_range)
        printf(", valid range %.17g to %.17g", params->valid_min,
               params->valid_max);
    if (params->keep_sign != TERP_KEEP_SIGN_NONE)
        printf(", signs of %s kept",
               tool_keep_sign_name((int)params->keep_sign));
    printf("\n");
    if (!terp_cd_is_coded(cd))
        printf("  passed      uncompressed: %s\n", info_pass_text(dataset));
}

static void
print_record(const struct tool_dataset *dataset)
{
    struct tool_record record;

    if (!tool_record_read(dataset->id, &record))
        return;
    printf("  record      %s, ", tool_shown(record.implementation));
    if (strcmp(record.bound_kind, "lossless") == 0)
        printf("lossless");
    else
        printf("%s bound %.17g", tool_shown(record.bound_kind), record.bound);
    if (!isnan(record.floor))
        printf(", floor %.17g", record.floor);
    printf(", largest error %.6g", record.max_error);
    if (!isnan(record.psnr))
        printf(", PSNR %.2f dB", record.psnr);
    printf("\n");
}

/* Prints a bound of "0.05" or "0.05 + 0.01 of the value". */
static void
print_errors(struct tool_cf_errors errors)
{
    if (!isnan(errors.absolute))
        printf(", errors up to %.6g", errors.absolute);
    if (!isnan(errors.relative))
        printf("%s%.6g of the value",
               isnan(errors.absolute) ? ", errors up to " : " + ",
               errors.relative);
}

static void
print_note(const char *path, const struct tool_dataset *dataset)
{
    struct tool_cf_note note;

    if (!tool_cf_describe(dataset->id, path, &note))
        return;
    printf("  %s   %s", note.is_quantized ? "quantized" : "CF note  ",
           note.implementation == NULL ? "an unknown program"
                                       : tool_shown(note.implementation));
    if (note.is_quantized && note.algorithm != NULL)
        printf(", %s", tool_shown(note.algorithm));
    if (!isnan(note.bits))
        printf(", %g bits", note.bits);
    if (!isnan(note.digits))
        printf(", %g digits", note.digits);
    print_errors(note.errors);
    printf("\n");
    tool_cf_free(&note);
}

static bool
any(const uint64_t *counts, int ncounts)
{
    for (int i = 0; i < ncounts; i++)
        if (counts[i] > 0)
            return true;
    return false;
}

/* Prints counts that are not 0: "3 huffman, 1 raw". */
static void
print_counts(const char *name_of(int), const uint64_t *counts, int ncounts)
{
    const char *separator = "";
    for (int i = 0; i < ncounts; i++)
        if (counts[i] > 0) {
            printf("%s%" PRIu64 " %s", separator, counts[i], name_of(i));
            separator = ", ";
        }
    printf("\n");
}

/* Prints "12 of 40 chunks", or of the members' streams. */
static void
print_share(const struct info_summary *sum, uint64_t n)
{
    const bool of_members = sum->nof_members > 0;

    printf("%" PRIu64 " of %" PRIu64 " %s", n,
           of_members ? sum->nof_members : sum->nchunks,
           of_members ? "members' streams" : "chunks");
}

/* "12 of 40 chunks, 9 of them as 24 x (256x256)", or 100x360. */
static void
print_domains(const struct info_summary *sum)
{
    const struct info_domain *most = info_main_domain(sum);
    const struct terp_chunk *shape = &most->shape;

    printf("  domains     ");
    print_share(sum, sum->nwith_domain);
    printf(", ");
    if (most->nchunks < sum->nwith_domain)
        printf("%" PRIu64 " of them ", most->nchunks);
    printf("as ");
    for (int i = 0; i < shape->rank; i++)
        printf("%s%" PRIu64,
               i == 0                   ? ""
               : i == 1 && shape->stack ? " x ("
                                        : "x",
               shape->dims[i]);
    printf("%s\n", shape->stack ? ")" : "");
}

/* "6 of 8 chunks, step 2 in 24 % of their bytes, step 4 in 6.1 %, ..." */
static void
print_prefixes(const struct info_summary *sum)
{
    printf("  prefixes    ");
    print_share(sum, sum->nwith_prefixes);
    for (int i = 0; i < INFO_NPREFIXES; i++)
        printf(", step %u in %.3g %%%s", INFO_STEP_OF_PREFIX(i),
               percent(sum->prefix_nbytes[i], sum->prefixed_nbytes),
               i == 0 ? " of their bytes" : "");
    printf("\n");
}

static void
print_entries(const struct info_summary *sum)
{
    bool shown[256] = {0};
    int place;

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
        const char *family = terp_entry_family(best, &place);
        if (family != NULL)
            printf("%s %d", family, place);
        else
            printf("entry %d", best);
        printf(" %.3g %%", percent(sum->ntiles_with_entry[best], sum->ntiles));
    }
    printf(" of tiles\n");
}

/* Prints the losses that terp repack --salvage lists. */
static void
print_lost(const struct tool_dataset *dataset)
{
    struct tool_lost lost;

    if (tool_lost_read(dataset->id, &lost))
        printf("  LOST        chunks: %" PRIu64
               ", replaced by fill values; the first one [%s]: %s\n",
               lost.n, tool_shown(lost.values[0]), tool_shown(lost.reasons[0]));
    tool_lost_free(&lost);
}

/* The ratio of each member. */
static void
print_members(const struct tool_dataset *dataset,
              const struct info_members *members)
{
    const struct terp_cd *cd = &dataset->cd;

    printf("  members     ");
    for (int i = 0; i < members->n; i++) {
        const struct info_member *member = &members->member[i];
        printf("%s%s", i == 0 ? "" : ", ",
               member->at == SIZE_MAX    ? "(padding)"
               : member->path[0] == '\0' ? "(values)"
                                         : tool_shown(member->path));
        if (member->stored_nbytes > 0)
            printf(" %.2f", tool_ratio(member->nbytes, member->stored_nbytes));
    }
    printf("\n");
    if (cd->nrules > 0)
        printf("  own bounds  %d members\n", cd->nrules);
}

static void
print_summary(const struct tool_dataset *dataset,
              const struct info_summary *sum)
{
    printf("  chunks      %" PRIu64 ": ", sum->nchunks);
    print_counts(info_kind_name, sum->nof_kind, INFO_NKINDS);
    if (any(sum->nwith_predictor + 1, INFO_NPREDICTORS - 1)) {
        printf("  predictors  ");
        print_counts(info_predictor_name, sum->nwith_predictor,
                     INFO_NPREDICTORS);
    }
    if (sum->nof_version_2 > 0) {
        printf("  version 2   ");
        print_share(sum, sum->nof_version_2);
        printf(", which terp 1 does not read: ");
        print_counts(info_coding_name, sum->nwith_coding, INFO_NCODINGS);
    }
    if (sum->nwith_domain > 0)
        print_domains(sum);
    if (sum->nvalues > 0)
        printf("  values      %.3g %% escapes, %.3g %% special\n",
               percent(sum->nescapes, sum->nvalues),
               percent(sum->nspecials, sum->nvalues));
    for (int i = 0; i < sum->undeclared.n; i++)
        printf(
            "  undeclared  %.9g is taken for a fill value and does not count "
            "for the range\n",
            sum->undeclared.at[i]);
    if (sum->ntiles > 0)
        printf("  tiles       %" PRIu64 ", %.3g %% of them zero, index %" PRIu64
               " bytes\n",
               sum->ntiles, percent(sum->ntiles_zero, sum->ntiles),
               sum->index_nbytes);
    if (any(sum->ntiles_with_entry, 256))
        print_entries(sum);
    if (sum->nwith_prefixes > 0)
        print_prefixes(sum);
    if (sum->nof_kind[INFO_DAMAGED] > 0) {
        printf("  DAMAGED     first damaged chunk at ");
        tool_dims_print(dataset->rank, sum->damaged_at);
        printf(": %s\n", sum->damage);
    }
}

static void
print_head(const struct tool_dataset *dataset)
{
    char type[64];

    tool_dataset_type_name(dataset, type, sizeof type);
    printf("  type        %s, ", type);
    if (dataset->nvalues == 0 && dataset->rank == 0)
        printf("null");
    else
        tool_dims_print(dataset->rank, dataset->dims);
    printf(dataset->chunked ? ", chunks " : ", not chunked");
    if (dataset->chunked)
        tool_dims_print(dataset->rank, dataset->chunk_dims);
    printf("\n");

    uint64_t nbytes = dataset->nvalues * dataset->value_nbytes;
    uint64_t stored_nbytes = H5Dget_storage_size(dataset->id);
    printf("  stored      %" PRIu64 " bytes of %" PRIu64, stored_nbytes,
           nbytes);
    if (stored_nbytes > 0)
        printf(", ratio %.2f", tool_ratio(nbytes, stored_nbytes));
    printf("%s\n", dataset->has_terp ? "" : ", no terp filter");
}

static void
text_file(void *report, int nth, const char *path, bool opened)
{
    (void)report;
    if (opened)
        printf("%s%s\n", nth > 0 ? "\n" : "", tool_shown(path));
}

static void
text_add(void *report, const char *path, const struct tool_dataset *dataset,
         const struct info_summary *summary, const char *damage)
{
    (void)report;
    printf("%s\n", tool_shown(path));
    print_head(dataset);
    if (damage != NULL) {
        printf("  DAMAGED     parameters: %s\n", damage);
        return;
    }
    if (dataset->has_terp)
        print_params(dataset);
    if (summary->members.n > 0)
        print_members(dataset, &summary->members);
    print_record(dataset);
    print_note(path, dataset);
    print_lost(dataset);
    if (summary->nchunks > 0)
        print_summary(dataset, summary);
}

static void
text_add_trouble(void *report, const char *path,
                 const struct tool_trouble *trouble)
{
    (void)report;
    printf("%s\n  %-10s  %s\n", tool_shown(path),
           trouble->is_newer ? "UNREADABLE" : "DAMAGED",
           tool_shown(trouble->reason));
}

static void
text_damaged_file(void *report, const char *damage)
{
    (void)report;
    printf("DAMAGED: %s\n", damage);
}

const struct info_report info_report_text = {.file = text_file,
                                             .add = text_add,
                                             .add_trouble = text_add_trouble,
                                             .damaged_file = text_damaged_file};
