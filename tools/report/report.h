/* terp report: a page about a file, or about a file and its compressed copy. */
#pragma once

#include "tools/compare/metrics.h"
#include "tools/compare/options.h"
#include "tools/compare/picture.h"
#include "tools/report/html.h"

/* The command line. */
struct report_request {
    const char *path_a, *path_b; /* path_b: NULL with one file */
    const char *path_html;
    struct compare_options given;
    const char **globs; /* of the datasets to show; capacity: argc */
    bool *used;         /* which globs match a dataset */
    int nglobs;
    uint64_t limit; /* of datasets in detail */
    bool is_trusted;
};

/* A dataset, and its comparison. With one file, `a` and `b` are the same
 * dataset, and the comparison has only what describes the values. NULL where
 * the file has no such dataset, or HDF5 cannot open it. */
struct report_pair {
    const struct tool_dataset *a, *b;
    struct compare_result *result;
    bool has_original;
};

/* The unit of a dataset's values, from its attribute "units", after a space; ""
 * without one. The caller frees it. */
char *
report_units(const struct tool_dataset *dataset);

/* Adds a unit. */
void
report_put_units(struct html *html, const char *units);

/* ---- the page, in the order of its parts ---- */

/* The parts that grow with each dataset, and the sums of the first part. */
struct report_page {
    const struct report_request *request;
    uint64_t a_nbytes, b_nbytes; /* of the files */
    struct html rows, sections;
    uint64_t nrows, nhidden; /* datasets in the table, and left out of it */
    uint64_t nsections, nfloats;
    /* Datasets whose bound is exceeded, others that fail in any case, and those
     * that could not be judged. */
    uint64_t ndatasets, nexceeded, nfailed, nunjudged;
    /* Of float datasets: values, and stored bytes. */
    uint64_t nbytes, a_stored_nbytes, b_stored_nbytes;
    double worst;          /* largest error over its bound; NAN: none known */
    uint64_t worst_number; /* number of its section; 0: none */
    struct html worst_name;
    uint64_t nfailing;    /* datasets that make the command fail */
    struct html failures; /* a list of them */
    struct html troubles; /* a list: what is wrong with the files */
};

/* The page starts without datasets. Free it in any case. */
void
report_page_begin(struct report_page *page,
                  const struct report_request *request);

void
report_page_free(struct report_page *page);

/* Adds a dataset to table and sums; with `detail` also a section. False where
 * the section lacks something. */
bool
report_page_add(struct report_page *page, const struct report_pair *pair,
                bool detail);

/* Adds a sentence about the files. */
void
report_page_trouble(struct report_page *page, const char *path,
                    const char *reason);

/* The whole page. */
void
report_page_end(struct report_page *page, struct html *html);

/* ---- a dataset ---- */

/* Adds the section of a compared float dataset; reads the dataset again. False
 * where something could not be read or computed; the section says it. */
bool
report_section(struct html *html, uint64_t number,
               const struct report_pair *pair,
               const struct compare_bounds *bounds);

/* What a verdict means: "bound kept". */
const char *
report_verdict_text(const struct report_pair *pair);

/* The reason of the verdict; "" where the verdict says it all. */
const char *
report_reason(const struct report_pair *pair);

/* Adds the verdict as a coloured word. */
void
report_put_verdict(struct html *html, const struct report_pair *pair,
                   bool fails);

/* ---- pictures and charts ---- */

/* The slice as images: the dataset, its copy and the error. */
void
report_images(struct html *html, const struct compare_picture *picture,
              bool has_original, const char *units);

/* The slice as curves. */
void
report_curves(struct html *html, const struct compare_picture *picture,
              bool has_original, const char *units);

void
report_bins(struct html *html, const struct compare_bins *bins);

void
report_spectra(struct html *html, const struct compare_metrics *metrics,
               bool has_errors);

/* ---- advice ---- */

/* Adds a paragraph about the shape of the dataset's chunks. Encodes a sample of
 * the original in the present shape and in another one; `bound` is an absolute
 * bound for that, NAN: unknown. */
void
report_chunks(struct html *html, const struct report_pair *pair, double bound);

/* Adds a table of bounds and what terp would reach with them, from a sample. */
void
report_choices(struct html *html, const struct tool_dataset *dataset,
               const char *units);

/* Adds the style of the page. */
void
report_put_style(struct html *html);
