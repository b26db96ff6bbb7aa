/* terp report: the section of a dataset. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter/plugin/h5z_terp.h"
#include "tools/common/attribute.h"
#include "tools/common/lost.h"
#include "tools/common/record.h"
#include "tools/report/report.h"

/* Longer units lose their middle. */
#define MAX_UNITS_NBYTES 40
/* The same for names of filters, which files can choose. */
#define MAX_FILTER_NBYTES 40

/* Smaller datasets always get metrics, and larger ones of which at least one
 * value in HOLLOW_SHARE is stored. */
#define HOLLOW_NBYTES ((uint64_t)64 << 20)
#define HOLLOW_SHARE 4

/* A dataset, and what the section reads of it. */
struct section {
    struct html *html;
    const struct report_pair *pair;
    const struct compare_bounds *bounds;
    const struct compare_result *result;
    char *units;
    struct compare_bins bins;
    bool has_bins;
};

/* ---- units ---- */

char *
report_units(const struct tool_dataset *dataset)
{
    char *text = tool_attribute_text(dataset->id, "units");

    if (text == NULL || strcmp(text, "1") == 0 || *text == '\0') {
        free(text);
        return calloc(1, 1);
    }
    return text;
}

void
report_put_units(struct html *html, const char *units)
{
    if (units == NULL || *units == '\0')
        return;
    html_put(html, " ");
    html_text(html, units, MAX_UNITS_NBYTES);
}

static void
put_value(const struct section *section, const char *class, double value,
          int ndigits)
{
    html_data(section->html, class, value, ndigits);
    report_put_units(section->html, section->units);
}

/* ---- verdicts ---- */

const char *
report_verdict_text(const struct report_pair *pair)
{
    static const char *const texts[] = {[COMPARE_OK] = "bound kept",
                                        [COMPARE_UNJUDGED] = "no known bound",
                                        [COMPARE_SKIPPED] = "not compared",
                                        [COMPARE_EXTRA] = "only in the copy",
                                        [COMPARE_EXCEEDED] = "bound exceeded",
                                        [COMPARE_SPECIALS] =
                                            "special values changed",
                                        [COMPARE_DIFFERENT] = "values differ",
                                        [COMPARE_UNREADABLE] = "cannot be read",
                                        [COMPARE_TYPE] = "types differ",
                                        [COMPARE_SHAPE] = "shapes differ",
                                        [COMPARE_MISSING] = "not in the copy"};
    const struct compare_result *result = pair->result;

    if (result->verdict != COMPARE_OK)
        return texts[result->verdict];
    return !pair->has_original                            ? "read"
           : result->is_bytes || !(result->max_error > 0) ? "identical"
                                                          : texts[COMPARE_OK];
}

const char *
report_reason(const struct report_pair *pair)
{
    switch (pair->result->verdict) {
    case COMPARE_UNJUDGED:
    case COMPARE_EXTRA:
    case COMPARE_TYPE:
    case COMPARE_SHAPE:
    case COMPARE_MISSING:
        return "";
    default:
        return pair->result->reason;
    }
}

void
report_put_verdict(struct html *html, const struct report_pair *pair,
                   bool fails)
{
    const bool ok = pair->result->verdict == COMPARE_OK;

    html_printf(html,
                "<span class=\"verdict %s\" data-verdict=\"%s\">%s %s</span>",
                fails ? "bad"
                : ok  ? "good"
                      : "open",
                compare_verdict_text(pair->result->verdict),
                fails ? "&#10007;"
                : ok  ? "&#10003;"
                      : "?",
                report_verdict_text(pair));
}

/* ---- facts ---- */

static void
begin_fact(struct html *html, const char *name)
{
    html_printf(html, "<tr><th scope=\"row\">%s</th><td>", name);
}

static void
end_fact(struct html *html)
{
    html_put(html, "</td></tr>\n");
}

static void
put_filter(struct html *html, const struct tool_dataset *dataset, unsigned nth)
{
    unsigned flags, config, word = 0;
    size_t nwords = 1;
    char name[256] = "";
    const H5Z_filter_t id = H5Pget_filter2(dataset->dcpl, nth, &flags, &nwords,
                                           &word, sizeof name, name, &config);

    name[sizeof name - 1] = '\0';
    switch (id) {
    case H5Z_FILTER_TERP:
        html_put(html, "terp");
        break;
    case H5Z_FILTER_DEFLATE:
        html_printf(html, "deflate %u", word);
        break;
    case H5Z_FILTER_SHUFFLE:
        html_put(html, "shuffle");
        break;
    case H5Z_FILTER_FLETCHER32:
        html_put(html, "fletcher32");
        break;
    default:
        html_printf(html, "number %d", (int)id);
        if (name[0] != '\0') {
            html_put(html, " (");
            html_text(html, name, MAX_FILTER_NBYTES);
            html_put(html, ")");
        }
    }
}

static void
put_filters(struct html *html, const struct tool_dataset *dataset)
{
    const int nfilters = H5Pget_nfilters(dataset->dcpl);

    if (nfilters <= 0)
        html_put(html, "none");
    for (int i = 0; i < nfilters; i++) {
        html_put(html, i > 0 ? ", " : "");
        put_filter(html, dataset, (unsigned)i);
    }
}

/* Whether all filters are known to keep every bit. */
static bool
filters_lose_nothing(const struct tool_dataset *dataset)
{
    const int nfilters = H5Pget_nfilters(dataset->dcpl);
    unsigned flags, config;

    for (int i = 0; i < nfilters; i++) {
        size_t nwords = 0;
        const H5Z_filter_t id =
            H5Pget_filter2(dataset->dcpl, (unsigned)i, &flags, &nwords, NULL, 0,
                           NULL, &config);
        if (id != H5Z_FILTER_DEFLATE && id != H5Z_FILTER_SHUFFLE &&
            id != H5Z_FILTER_FLETCHER32 && id != H5Z_FILTER_SZIP &&
            !(id == H5Z_FILTER_TERP && tool_is_lossless(dataset)))
            return false;
    }
    return true;
}

static void
put_chunks(struct html *html, const struct tool_dataset *dataset)
{
    if (!dataset->chunked) {
        html_put(html, "none");
        return;
    }
    const struct tool_grid grid = tool_grid_of(dataset, dataset->chunk_dims);
    const uint64_t nchunks = tool_grid_nboxes(&grid);
    html_dims(html, dataset->rank, dataset->chunk_dims);
    html_put(html, " (");
    html_count(html, nchunks);
    html_put(html, nchunks == 1 ? " chunk of " : " chunks of ");
    html_nbytes(html, dataset->chunk_nbytes);
    html_put(html, ")");
}

/* Adds what `put` says of the original and of the copy, once where both say the
 * same. */
static void
put_both(const struct section *section,
         void (*put)(struct html *html, const struct tool_dataset *dataset))
{
    const struct report_pair *pair = section->pair;
    struct html a = {0}, b = {0};

    put(&a, pair->a);
    put(&b, pair->b);
    if (pair->has_original && a.bytes != NULL && b.bytes != NULL &&
        strcmp(a.bytes, b.bytes) != 0) {
        html_append(section->html, &a);
        html_put(section->html, " &rarr; ");
    }
    html_append(section->html, &b);
    html_free(&a);
    html_free(&b);
}

static void
put_layout(const struct section *section)
{
    struct html *html = section->html;
    const struct tool_dataset *b = section->pair->b;
    char type[64];

    tool_dataset_type_name(b, type, sizeof type);
    begin_fact(html, "Type");
    html_text(html, type, 0);
    end_fact(html);
    begin_fact(html, "Shape");
    html_dims(html, b->rank, b->dims);
    if (b->rank == 1)
        html_put(html, " values");
    if (b->rank > 1) {
        html_put(html, " (");
        html_count(html, b->nvalues);
        html_put(html, " values)");
    }
    end_fact(html);
    begin_fact(html, "Chunks");
    put_both(section, put_chunks);
    end_fact(html);
    begin_fact(html, "Filters");
    put_both(section, put_filters);
    end_fact(html);
}

static void
put_bytes(const struct section *section)
{
    struct html *html = section->html;
    const struct report_pair *pair = section->pair;
    const struct compare_result *result = section->result;

    begin_fact(html, "Stored");
    html_nbytes(html, result->nbytes);
    html_put(html, " of values");
    if (pair->has_original) {
        html_put(html, "; in the original ");
        html_nbytes(html, H5Dget_storage_size(pair->a->id));
    }
    html_put(html, pair->has_original ? ", in the copy " : "; in the file ");
    html_nbytes(html, result->stored_nbytes);
    end_fact(html);
    begin_fact(html, "Ratio");
    html_fixed(html, "ratio", tool_ratio(result->nbytes, result->stored_nbytes),
               2);
    end_fact(html);
}

/* Adds the bound that the command line gives. */
static void
put_given(const struct section *section)
{
    const struct compare_bounds *bounds = section->bounds;
    struct html *html = section->html;

    if (bounds->absolute > 0) {
        put_value(section, "bound", bounds->absolute, 4);
    } else if (bounds->relative > 0) {
        html_number(html, bounds->relative, 4);
        html_put(html, " of the range: ");
        put_value(section, "bound", section->result->bound, 4);
    } else {
        html_number(html, bounds->pointwise, 4);
        html_put(html, " of each value");
        if (bounds->floor > 0) {
            html_put(html, ", at least ");
            put_value(section, "floor", bounds->floor, 4);
        }
    }
    html_put(html, " (given for this report)");
}

/* Adds the range of the bounds of all chunks. */
static void
put_chunk_bounds(const struct section *section)
{
    const struct compare_bins *bins = &section->bins;
    struct html *html = section->html;

    if (!section->has_bins || !(bins->max_bound > 0))
        return;
    html_put(html, ", which is ");
    if (bins->min_bound < bins->max_bound) {
        html_data(html, "least_bound", bins->min_bound, 4);
        html_put(html, " to ");
    }
    put_value(section, "largest_bound", bins->max_bound, 4);
}

/* Adds the bound of the filter's parameters. */
static void
put_own(const struct section *section)
{
    const struct tool_dataset *b = section->pair->b;
    const struct terp_params *params = &b->cd.params;
    struct html *html = section->html;

    if (section->pair->has_original ? section->result->is_lossless
                                    : filters_lose_nothing(b)) {
        html_put(html, "none: the filters keep every bit");
    } else if (!b->has_terp) {
        html_put(html, "unknown: terp did not compress the dataset");
    } else {
        switch (params->bound_mode) {
        case TERP_BOUND_RELATIVE:
            html_number(html, params->bound, 4);
            html_put(html, " of the range of each chunk");
            put_chunk_bounds(section);
            break;
        case TERP_BOUND_POINTWISE:
            html_number(html, params->bound, 4);
            html_put(html, " of each value");
            if (params->floor > 0) {
                html_put(html, ", at least ");
                put_value(section, "floor", params->floor, 4);
            }
            break;
        case TERP_BOUND_PSNR:
            html_put(html, "a PSNR of ");
            html_number(html, params->bound, 4);
            html_put(html, " dB in each chunk");
            put_chunk_bounds(section);
            break;
        default:
            put_value(section, "bound", params->bound, 4);
        }
    }
}

static void
put_kept(const struct section *section)
{
    const struct compare_result *result = section->result;
    struct html *html = section->html;

    if (!section->pair->has_original && filters_lose_nothing(section->pair->b))
        return;
    begin_fact(html, "Bound kept");
    if (!section->pair->has_original)
        html_put(html, "not measured: that needs the original");
    else if (result->verdict == COMPARE_EXCEEDED)
        html_put(html, "<strong>no</strong>");
    else if (isnan(result->error_of_bound) && result->max_error > 0)
        html_put(html, "unknown: no bound is known");
    else
        html_put(html, result->max_error > 0 ? "yes" : "yes: nothing differs");
    if (section->pair->has_original && result->nchunks > 0) {
        html_put(html, "; chunks above their bound: ");
        html_printf(html,
                    "<data class=\"chunks_exceeded\" value=\"%" PRIu64 "\">",
                    result->nchunks_exceeded);
        html_count(html, result->nchunks_exceeded);
        html_put(html, "</data> of ");
        html_count(html, result->nchunks);
    }
    end_fact(html);
}

/* The lowest PSNR that a copy within its bound can have. The range of the
 * original may be less than that of the copy by twice the bound. */
static void
put_least_psnr(const struct section *section)
{
    const struct compare_result *result = section->result;
    const double bound = section->has_bins ? section->bins.max_bound : 0;
    const double range = result->max - result->min - 2 * bound;

    if (!section->pair->b->has_terp || result->is_lossless || !(bound > 0) ||
        !(range > 0))
        return;
    begin_fact(section->html, "PSNR");
    html_put(section->html, "at least ");
    html_fixed(section->html, "least_psnr", 20 * log10(range / bound), 2);
    html_put(section->html, " dB, if the bound is kept");
    end_fact(section->html);
}

static void
put_errors(const struct section *section)
{
    const struct compare_result *result = section->result;
    const struct compare_metrics *metrics = result->metrics;
    struct html *html = section->html;

    begin_fact(html, "Largest error");
    put_value(section, "max_error", result->max_error, 4);
    if (!isnan(result->error_of_bound)) {
        html_put(html, ", which is ");
        html_fixed(html, "error_of_bound", result->error_of_bound, 6);
        html_put(html, " of the bound");
    }
    end_fact(html);
    begin_fact(html, "PSNR");
    html_fixed(html, "psnr", result->psnr, 2);
    html_put(html, !isnan(result->psnr)  ? " dB"
                   : result->nvalid == 0 ? " (no valid values)"
                                         : " (all values are the same)");
    end_fact(html);
    if (metrics == NULL || result->max_error == 0)
        return;
    begin_fact(html, "SSIM");
    html_fixed(html, "ssim", metrics->ssim, 6);
    if (metrics->nslices > 1) {
        html_put(html, "; the lowest slice has ");
        html_fixed(html, "ssim_min", metrics->ssim_min, 6);
    } else if (metrics->nslices == 0) {
        html_put(html, " (no slices of 11 &times; 11 values)");
    }
    end_fact(html);
    begin_fact(html, "RMS error");
    put_value(section, "rmse", metrics->rmse, 4);
    end_fact(html);
    begin_fact(html, "Drift of the mean");
    put_value(section, "drift", metrics->drift, 3);
    end_fact(html);
}

static void
put_values(const struct section *section)
{
    const struct compare_result *result = section->result;
    struct html *html = section->html;

    begin_fact(html, "Values");
    if (result->nvalid > 0) {
        html_data(html, "min", result->min, 5);
        html_put(html, " to ");
        put_value(section, "max", result->max, 5);
    } else {
        html_put(html, "only special values, such as NaN or fill values");
    }
    if (result->metrics != NULL) {
        html_put(html, ", mean ");
        put_value(section, "mean_a", result->metrics->mean_a, 5);
    }
    end_fact(html);
    if (result->nspecials > 0) {
        begin_fact(html, "Special values");
        html_count(html, result->nspecials);
        html_put(html, " (NaN, infinite, fill values)");
        if (section->pair->has_original) {
            html_put(html, ", of which ");
            html_count(html, result->nspecials_changed);
            html_put(html, " changed");
        }
        end_fact(html);
    }
    if (result->nleft_out > 0) {
        begin_fact(html, "Left out");
        html_count(html, result->nleft_out);
        html_put(html, " values, taken for a fill value, do not count for "
                       "range and PSNR");
        end_fact(html);
    }
}

/* Adds what the file itself says of its compression. */
static void
put_record(const struct section *section)
{
    struct html *html = section->html;
    struct tool_record record;
    struct tool_lost lost;

    if (tool_record_read(section->pair->b->id, &record)) {
        begin_fact(html, "The file says");
        html_text(html, record.implementation, 0);
        html_put(html, " measured the largest error ");
        put_value(section, "record_max_error", record.max_error, 4);
        if (!isnan(record.psnr)) {
            html_put(html, " and the PSNR ");
            html_fixed(html, "record_psnr", record.psnr, 2);
            html_put(html, " dB");
        }
        html_put(html, " when it compressed the dataset");
        end_fact(html);
    }
    if (tool_lost_read(section->pair->b->id, &lost)) {
        begin_fact(html, "Lost");
        html_count(html, lost.n);
        html_put(html, " chunks were damaged; <code>terp repack "
                       "--salvage</code> replaced them by fill values");
        end_fact(html);
    }
    tool_lost_free(&lost);
}

static void
put_facts(const struct section *section)
{
    struct html *html = section->html;

    html_put(html, "<table class=\"facts\"><tbody>\n");
    put_layout(section);
    put_bytes(section);
    begin_fact(html, "Bound");
    if (compare_bounds_are_given(section->bounds))
        put_given(section);
    else
        put_own(section);
    end_fact(html);
    put_kept(section);
    if (section->pair->has_original)
        put_errors(section);
    else
        put_least_psnr(section);
    put_values(section);
    put_record(section);
    html_put(html, "</tbody></table>\n");
}

/* ---- the section ---- */

static void
put_title(const struct section *section, uint64_t number)
{
    struct html *html = section->html;
    char *name = tool_attribute_text(section->pair->b->id, "long_name");

    html_printf(html, "<section class=\"dataset\" id=\"d%" PRIu64 "\">\n<h2>",
                number);
    html_put(html, "<bdi>");
    html_text(html, section->result->path, 0);
    html_put(html, "</bdi> ");
    report_put_verdict(html, section->pair,
                       section->result->verdict >= COMPARE_EXCEEDED);
    html_put(html, "</h2>\n");
    if (report_reason(section->pair)[0] != '\0') {
        html_put(html, "<p class=\"trouble\">");
        html_text(html, report_reason(section->pair), 0);
        html_put(html, ".</p>\n");
    }
    if (name != NULL && *name != '\0') {
        html_put(html, "<p><bdi>");
        html_text(html, name, 0);
        html_put(html, "</bdi></p>\n");
    }
    free(name);
}

static void
put_trouble(struct html *html, const char *thing, const char *reason)
{
    html_printf(html, "<p class=\"trouble\">No %s: ", thing);
    html_text(html, reason, 0);
    html_put(html, ".</p>\n");
}

/* Adds the pictures. False where they cannot be read. */
static bool
put_picture(const struct section *section)
{
    const struct report_pair *pair = section->pair;
    struct compare_picture picture;
    char reason[512];
    const bool ok = compare_picture_read(
        &picture, pair->a, pair->b, section->result, reason, sizeof reason);

    if (!ok)
        put_trouble(section->html, "picture", reason);
    else if (picture.rank == 2)
        report_images(section->html, &picture, pair->has_original,
                      section->units);
    else if (picture.rank == 1)
        report_curves(section->html, &picture, pair->has_original,
                      section->units);
    compare_picture_free(&picture);
    return ok;
}

static void
put_charts(const struct section *section)
{
    const struct compare_result *result = section->result;
    const bool has_errors =
        section->pair->has_original && result->max_error > 0;

    html_put(section->html, "<div class=\"charts\">\n");
    if (has_errors && section->has_bins)
        report_bins(section->html, &section->bins);
    if (result->metrics != NULL && result->metrics->nwaves > 2)
        report_spectra(section->html, result->metrics, has_errors);
    html_put(section->html, "</div>\n");
}

/* Whether most values were never written. A file of some kB can claim any
 * number of them, and metrics would visit each. */
static bool
is_hollow(const struct tool_dataset *dataset)
{
    const uint64_t nbytes = dataset->nvalues * dataset->value_nbytes;
    hsize_t nchunks = 0;

    if (nbytes <= HOLLOW_NBYTES)
        return false;
    if (!dataset->chunked)
        return H5Pget_layout(dataset->dcpl) == H5D_CONTIGUOUS &&
               H5Pget_external_count(dataset->dcpl) == 0 &&
               H5Dget_storage_size(dataset->id) == 0;
    return H5Dget_num_chunks(dataset->id, dataset->space, &nchunks) >= 0 &&
           nchunks < nbytes / HOLLOW_SHARE / dataset->chunk_nbytes;
}

/* Computes what the section shows, and adds to `notes` what it lacks. False
 * where something fails. */
static bool
measure(struct section *section, struct html *notes)
{
    const struct report_pair *pair = section->pair;
    char reason[512];
    bool ok = true;

    if (section->result->nvalid == 0)
        return true;
    const bool hollow = is_hollow(pair->a) && is_hollow(pair->b);
    if (hollow)
        html_put(notes, "<p class=\"note\">Most values were never written: "
                        "SSIM, RMS error, means and spectra are left "
                        "out.</p>\n");
    else
        pair->result->metrics = compare_metrics_measure(
            pair->a, pair->b, section->result, reason, sizeof reason);
    if (pair->result->metrics == NULL && !hollow) {
        put_trouble(notes, "metrics", reason);
        ok = false;
    }
    section->has_bins =
        compare_bins_read(&section->bins, pair->a, pair->b, section->bounds,
                          section->result, reason, sizeof reason);
    if (!section->has_bins) {
        put_trouble(notes, "histogram", reason);
        ok = false;
    }
    return ok;
}

/* The bound for the advice on chunks; NAN where none is known. */
static double
bound_of(const struct section *section)
{
    return section->has_bins ? section->bins.max_bound : (double)NAN;
}

bool
report_section(struct html *html, uint64_t number,
               const struct report_pair *pair,
               const struct compare_bounds *bounds)
{
    struct section section = {.html = html,
                              .pair = pair,
                              .bounds = bounds,
                              .result = pair->result,
                              .units = report_units(pair->b)};
    struct html notes = {0};
    bool ok = measure(&section, &notes);

    put_title(&section, number);
    html_append(html, &notes);
    html_free(&notes);
    if (pair->b->nvalues > 0)
        ok &= put_picture(&section);
    html_put(html, "<div class=\"columns\">\n");
    put_facts(&section);
    put_charts(&section);
    html_put(html, "</div>\n");
    if (section.result->nvalid > 0)
        report_chunks(html, pair, bound_of(&section));
    if (!pair->has_original && filters_lose_nothing(pair->b))
        report_choices(html, pair->b, section.units);
    html_put(html, "</section>\n");
    compare_metrics_free(pair->result->metrics);
    pair->result->metrics = NULL;
    free(section.units);
    return ok;
}
