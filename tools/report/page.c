/* terp report: the page: totals, a table of all datasets, and their sections.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/report/report.h"

enum {
    /* Rows of the table; failing datasets may take as many more. */
    MAX_NROWS = 1000,
    /* Names of failing datasets above the table. */
    MAX_NFAILURES = 20
};

/* Nothing outside the page may load or run, whatever its names contain. */
static const char POLICY[] =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
    "'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'\">\n";

void
report_page_begin(struct report_page *page,
                  const struct report_request *request)
{
    *page = (struct report_page){.request = request, .worst = NAN};
}

void
report_page_free(struct report_page *page)
{
    html_free(&page->rows);
    html_free(&page->sections);
    html_free(&page->worst_name);
    html_free(&page->failures);
    html_free(&page->troubles);
}

/* The last name of a file's path. */
static const char *
name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

/* Adds the name of a dataset, as a link where it has a section. */
static void
put_name(struct html *html, const char *path, uint64_t number)
{
    if (number > 0)
        html_printf(html, "<a href=\"#d%" PRIu64 "\">", number);
    html_put(html, "<bdi>");
    html_text(html, path, HTML_MAX_SHORT_NAME);
    html_put(html, "</bdi>");
    if (number > 0)
        html_put(html, "</a>");
}

/* ---- the table ---- */

static void
put_kind(struct html *html, const struct report_pair *pair)
{
    const struct tool_dataset *dataset = pair->b != NULL ? pair->b : pair->a;
    char type[64];

    html_put(html, "<td data-name=\"Type\">");
    if (dataset != NULL) {
        tool_dataset_type_name(dataset, type, sizeof type);
        html_text(html, type, 0);
        html_put(html, ", ");
        if (dataset->nvalues == 0)
            html_put(html, "empty");
        else
            html_dims(html, dataset->rank, dataset->dims);
    }
    html_put(html, "</td>");
}

static void
put_number_cell(struct html *html, const char *name, const char *class,
                double number, int ndecimals)
{
    html_printf(html, "<td class=\"number\" data-name=\"%s\">", name);
    html_fixed(html, class, number, ndecimals);
    html_put(html, "</td>");
}

static void
put_row(struct report_page *page, const struct report_pair *pair,
        uint64_t number, bool fails)
{
    const struct compare_result *result = pair->result;
    struct html *html = &page->rows;

    html_put(html, "<tr><th scope=\"row\">");
    put_name(html, result->path, number);
    html_put(html, "</th>");
    put_kind(html, pair);
    put_number_cell(html, "Ratio", "ratio",
                    result->compared
                        ? tool_ratio(result->nbytes, result->stored_nbytes)
                        : (double)NAN,
                    2);
    if (pair->has_original) {
        put_number_cell(html, "PSNR, dB", "psnr", result->psnr, 2);
        put_number_cell(html, "Error / bound", "error_of_bound",
                        result->error_of_bound, 6);
    }
    html_put(html, "<td data-name=\"Result\">");
    report_put_verdict(html, pair, fails);
    if (report_reason(pair)[0] != '\0' && number == 0) {
        html_put(html, " <span class=\"reason\">");
        html_text(html, report_reason(pair), 0);
        html_put(html, "</span>");
    }
    html_put(html, "</td></tr>\n");
    page->nrows++;
}

static void
put_failure(struct report_page *page, const struct report_pair *pair,
            uint64_t number)
{
    if (page->nfailing++ >= MAX_NFAILURES)
        return;
    html_put(&page->failures, "<li>");
    put_name(&page->failures, pair->result->path, number);
    html_printf(&page->failures, ": %s", report_verdict_text(pair));
    if (report_reason(pair)[0] != '\0') {
        html_put(&page->failures, " (");
        html_text(&page->failures, report_reason(pair), 0);
        html_put(&page->failures, ")");
    }
    html_put(&page->failures, "</li>\n");
}

static void
add_sums(struct report_page *page, const struct report_pair *pair,
         uint64_t number)
{
    const struct compare_result *result = pair->result;

    if (!result->compared || result->type == TERP_BYTES || result->nbytes == 0)
        return;
    page->nfloats++;
    /* The stored bytes of one member are not known. */
    if (!pair->a->is_member) {
        page->nbytes += result->nbytes;
        page->a_stored_nbytes += H5Dget_storage_size(pair->a->id);
        page->b_stored_nbytes += result->stored_nbytes;
    }
    if (!(result->error_of_bound <= page->worst) &&
        !isnan(result->error_of_bound)) {
        page->worst = result->error_of_bound;
        page->worst_number = number;
        html_free(&page->worst_name);
        put_name(&page->worst_name, result->path, number);
    }
}

bool
report_page_add(struct report_page *page, const struct report_pair *pair,
                bool detail)
{
    const struct compare_result *result = pair->result;
    const struct compare_options *given = &page->request->given;
    const enum compare_verdict verdict = result->verdict;
    const bool fails = compare_verdict_fails(verdict, given->allows_unjudged);
    const uint64_t number = detail ? ++page->nsections : 0;
    bool ok = true;

    page->ndatasets++;
    page->nexceeded += verdict == COMPARE_EXCEEDED;
    page->nfailed += verdict > COMPARE_EXCEEDED;
    page->nunjudged += verdict != COMPARE_OK && verdict < COMPARE_EXCEEDED;
    add_sums(page, pair, number);
    if (detail)
        ok = report_section(&page->sections, number, pair, &given->bounds);
    if (fails)
        put_failure(page, pair, number);
    if (page->nrows < MAX_NROWS || (fails && page->nrows < 2 * MAX_NROWS))
        put_row(page, pair, number, fails);
    else
        page->nhidden++;
    return ok;
}

void
report_page_trouble(struct report_page *page, const char *path,
                    const char *reason)
{
    html_put(&page->troubles, "<li><bdi>");
    html_text(&page->troubles, path, 0);
    html_put(&page->troubles, "</bdi>: ");
    html_text(&page->troubles, reason, 0);
    html_put(&page->troubles, "</li>\n");
}

/* ---- the first part ---- */

static void
put_head(const struct report_page *page, struct html *html)
{
    const struct report_request *request = page->request;

    html_put(html, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
                   "<meta charset=\"utf-8\">\n");
    html_put(html, POLICY);
    html_put(html, "<meta name=\"viewport\" content=\"width=device-width, "
                   "initial-scale=1\">\n"
                   "<meta name=\"color-scheme\" content=\"light dark\">\n"
                   "<title>terp report: ");
    html_text(
        html,
        name_of(request->path_b != NULL ? request->path_b : request->path_a),
        0);
    html_put(html, "</title>\n<style>\n");
    report_put_style(html);
    html_put(html, "</style>\n</head>\n<body>\n<main>\n");
    html_put(html, request->path_b != NULL
                       ? "<h1>A file and its compressed copy</h1>\n"
                       : "<h1>A file and how it is compressed</h1>\n");
}

static void
put_file(struct html *html, const char *name, const char *path, uint64_t nbytes)
{
    html_printf(html, "<tr><th scope=\"row\">%s</th><td><bdi>", name);
    html_text(html, path, 0);
    html_put(html, "</bdi>");
    if (nbytes > 0) {
        html_printf(html, ", <data class=\"file_bytes\" value=\"%" PRIu64 "\">",
                    nbytes);
        html_nbytes(html, nbytes);
        html_put(html, "</data>");
    }
    html_put(html, "</td></tr>\n");
}

/* Whether the page has something bad to say, in one sentence. */
static void
put_judgement(const struct report_page *page, struct html *html)
{
    const bool has_original = page->request->path_b != NULL;
    const bool fails = page->nfailing > 0 || page->troubles.nbytes > 0;

    html_printf(html, "<p class=\"judgement %s\">", fails ? "bad" : "good");
    if (page->ndatasets == 0) {
        html_put(html, "The page shows no dataset.");
    } else if (page->nfailing > 0) {
        html_count(html, page->nfailing);
        html_put(html, " of ");
        html_count(html, page->ndatasets);
        html_put(html, page->ndatasets == 1 ? " dataset" : " datasets");
        html_put(html, page->nfailing == 1 ? " fails" : " fail");
        html_put(html, has_original ? " the comparison." : " to be read.");
    } else if (page->nunjudged > 0) {
        html_put(html, "No dataset fails the comparison, but ");
        html_count(html, page->nunjudged);
        html_put(html, " of ");
        html_count(html, page->ndatasets);
        html_put(html, " have no known bound, or were not compared.");
    } else if (has_original) {
        html_put(html, "Every dataset of the copy is identical or keeps its "
                       "bound.");
    } else {
        html_put(html, "Every dataset can be read. How far the values are from "
                       "their original is not measured: that needs the "
                       "original, as in <code>terp report IN OUT</code>.");
    }
    html_put(html, "</p>\n");
    if (page->troubles.nbytes > 0) {
        html_put(html, "<ul class=\"trouble\">\n");
        html_append(html, &page->troubles);
        html_put(html, "</ul>\n");
    }
    if (page->failures.nbytes > 0) {
        html_put(html, "<ul class=\"trouble\">\n");
        html_append(html, &page->failures);
        if (page->nfailing > MAX_NFAILURES) {
            html_put(html, "<li>and ");
            html_count(html, page->nfailing - MAX_NFAILURES);
            html_put(html, " more</li>\n");
        }
        html_put(html, "</ul>\n");
    }
}

static void
put_float_sums(const struct report_page *page, struct html *html)
{
    const bool has_original = page->request->path_b != NULL;

    html_put(html, "<tr><th scope=\"row\">Floating-point values</th><td>");
    html_nbytes(html, page->nbytes);
    html_put(html, has_original ? "; stored before: " : "; stored: ");
    if (has_original) {
        html_printf(html, "<data class=\"bytes_before\" value=\"%" PRIu64 "\">",
                    page->a_stored_nbytes);
        html_nbytes(html, page->a_stored_nbytes);
        html_put(html, "</data>, after: ");
    }
    html_printf(html, "<data class=\"bytes_after\" value=\"%" PRIu64 "\">",
                page->b_stored_nbytes);
    html_nbytes(html, page->b_stored_nbytes);
    html_put(html, "</data></td></tr>\n<tr><th scope=\"row\">Ratio</th><td>");
    html_fixed(html, "total_ratio",
               tool_ratio(page->nbytes, page->b_stored_nbytes), 2);
    html_put(html, " (bytes of values over bytes stored");
    html_put(html, has_original ? " in the copy)" : ")");
    html_put(html, "</td></tr>\n");
}

static void
put_totals(const struct report_page *page, struct html *html)
{
    const struct report_request *request = page->request;

    html_put(html, "<table class=\"facts totals\"><tbody>\n");
    put_file(html, request->path_b != NULL ? "Original" : "File",
             request->path_a, page->a_nbytes);
    if (request->path_b != NULL)
        put_file(html, "Copy", request->path_b, page->b_nbytes);
    html_put(html, "<tr><th scope=\"row\">Datasets</th><td>");
    html_count(html, page->ndatasets);
    html_put(html, ", of which ");
    html_count(html, page->nfloats);
    html_put(html, " hold floating-point values</td></tr>\n");
    if (page->nfloats > 0)
        put_float_sums(page, html);
    if (request->path_b != NULL) {
        html_put(html, "<tr><th scope=\"row\">Largest error over its "
                       "bound</th><td>");
        html_fixed(html, "worst", page->worst, 6);
        if (isnan(page->worst))
            html_put(html, ": no bound is known");
        else {
            html_put(html, ", in ");
            html_append(html, &page->worst_name);
        }
        html_put(html, "</td></tr>\n<tr><th scope=\"row\">All bounds "
                       "kept</th><td>");
        html_put(html, page->nexceeded > 0 ? "<strong>no</strong>"
                       : page->nfailed + page->nunjudged > 0
                           ? "yes, where a bound could be judged"
                           : "yes");
        html_put(html, "</td></tr>\n");
    }
    html_put(html, "</tbody></table>\n");
}

static void
put_table(const struct report_page *page, struct html *html)
{
    if (page->nrows == 0)
        return;
    html_put(html, "<h2>Datasets</h2>\n<table class=\"contents\"><thead><tr>"
                   "<th scope=\"col\">Dataset</th><th scope=\"col\">Type</th>"
                   "<th scope=\"col\" class=\"number\">Ratio</th>");
    if (page->request->path_b != NULL)
        html_put(html, "<th scope=\"col\" class=\"number\">PSNR, dB</th>"
                       "<th scope=\"col\" class=\"number\">Error / "
                       "bound</th>");
    html_put(html, "<th scope=\"col\">Result</th></tr></thead><tbody>\n");
    html_append(html, &page->rows);
    html_put(html, "</tbody></table>\n");
    if (page->nhidden > 0) {
        html_put(html, "<p class=\"note hidden-rows\">");
        html_count(html, page->nhidden);
        html_put(html, " more datasets are not listed. They count in the "
                       "totals; <code>terp compare</code> and <code>terp "
                       "info</code> list all.</p>\n");
    }
    if (page->nsections < page->nfloats) {
        html_put(html, "<p class=\"note hidden-sections\">");
        html_printf(html,
                    "The %s %" PRIu64 " of %" PRIu64 " datasets with "
                    "floating-point values follow in detail; ",
                    page->nfailing > 0 ? "failing and the largest," : "largest",
                    page->nsections, page->nfloats);
        html_put(html, "<code>--limit</code> and <code>--dataset</code> choose "
                       "others.</p>\n");
    }
}

/* ---- the last part ---- */

static void
put_words(const struct report_page *page, struct html *html)
{
    html_put(html, "<h2>Words</h2>\n<dl>\n"
                   "<dt>Bound</dt><dd>The largest error that a value may "
                   "have. terp stores it with the data; some datasets have "
                   "one for each chunk.</dd>\n"
                   "<dt>Chunk</dt><dd>A block of values that is compressed by "
                   "itself.</dd>\n"
                   "<dt>Ratio</dt><dd>The bytes of the values over the bytes "
                   "that they take in the file.</dd>\n");
    if (page->request->path_b != NULL)
        html_put(html, "<dt>PSNR</dt><dd>The range of the values over the root "
                       "mean square (RMS) error, in decibels: 60 dB is a "
                       "thousandth of the range, 80 dB a ten-thousandth.</dd>\n"
                       "<dt>SSIM</dt><dd>How alike two pictures look, averaged "
                       "over slices; 1 is identical.</dd>\n");
    html_put(html, "<dt>Power spectrum</dt><dd>How much waves of each length "
                   "contribute to the variance of the values.</dd>\n</dl>\n");
}

static void
put_foot(const struct report_page *page, struct html *html)
{
    const time_t now = time(NULL);
    const struct tm *utc = gmtime(&now);
    char date[32] = "";

    if (utc != NULL)
        (void)strftime(date, sizeof date, ", %Y-%m-%d %H:%M UTC", utc);
    html_put(html, "<footer><p>");
    if (page->request->path_b != NULL)
        html_put(html, "<code>terp compare IN OUT --metrics</code> prints "
                       "these figures with more digits. ");
    html_put(html, "Programs that read data which terp compressed need the "
                   "HDF5 filter plugin of terp, number 46117.</p>");
    html_printf(html, "<p>Made by terp %s%s.</p></footer>\n", TERP_VERSION,
                date);
}

void
report_page_end(struct report_page *page, struct html *html)
{
    put_head(page, html);
    put_judgement(page, html);
    put_totals(page, html);
    put_table(page, html);
    html_append(html, &page->sections);
    if (page->nsections > 0)
        put_words(page, html);
    put_foot(page, html);
    html_put(html, "</main>\n</body>\n</html>\n");
    html->failed |= page->rows.failed || page->sections.failed ||
                    page->failures.failed || page->troubles.failed ||
                    page->worst_name.failed;
}
