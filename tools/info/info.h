/* What the parts of terp info share: what is known of a dataset. */
#pragma once

#include "tools/common/walk.h"

/* What a chunk can be: a stream that was not predicted, one of a pipeline, and
 * everything else. */
enum info_kind {
    INFO_RAW,
    INFO_CONSTANT,
    INFO_HUFFMAN,
    INFO_RATIO,
    INFO_PLAIN,
    INFO_ABSENT,
    INFO_HIDDEN,
    INFO_DAMAGED,
    INFO_NKINDS
};

/* What chunks may be predicted by: what a caller may ask for, and "lossless".
 */
#define INFO_NPREDICTORS (TERP_NPREDICTORS + 1)

/* Names of kinds, and of predictors, "none" for 0. */
const char *
info_kind_name(int kind);
const char *
info_predictor_name(int predictor);

/* A shape in which the encoder predicted chunks that have another. */
struct info_domain {
    struct terp_chunk shape;
    uint64_t nchunks;
};

/* Different ones that are counted each; few datasets have more than two. */
#define INFO_MAX_NDOMAINS 64

/* Prefixes of streams are those for steps of 2, 4 and 8. */
#define INFO_NPREFIXES 3
#define INFO_STEP_OF_PREFIX(i) (2u << (i))

/* Sums over the streams of a dataset. */
struct info_summary {
    uint64_t nchunks; /* in the grid */
    uint64_t nof_kind[INFO_NKINDS];
    uint64_t nwith_predictor[INFO_NPREDICTORS];
    uint64_t nwith_domain; /* streams of chunks with another domain */
    struct info_domain domains[INFO_MAX_NDOMAINS];
    uint64_t nvalues, nescapes, nspecials;
    uint64_t ntiles, ntiles_zero, index_nbytes;
    uint64_t ntiles_with_entry[256];
    /* Streams that tell the lengths of their prefixes, and sums of both. */
    uint64_t nwith_prefixes, prefixed_nbytes;
    uint64_t prefix_nbytes[INFO_NPREFIXES];
    const char *damage; /* of the first damaged chunk */
    hsize_t damaged_at[H5S_MAX_RANK];
};

/* Why terp lets the dataset pass through uncompressed; "" if it does not. */
const char *
info_pass_text(const struct tool_dataset *dataset);

/* The domain that most chunks have; `nchunks` is 0 where there is none. */
const struct info_domain *
info_main_domain(const struct info_summary *summary);

/* A way to print the results. `begin` returns the state that the other
 * functions get; `end` frees it. Both may be NULL. */
struct info_report {
    void *(*begin)(void);
    /* Datasets that follow are of this file, the `nth` from 0; none if it was
     * not opened. */
    void (*file)(void *report, int nth, const char *path, bool opened);
    /* The summary is all zero where no streams were read, because of `damage`.
     */
    void (*add)(void *report, const char *path,
                const struct tool_dataset *dataset,
                const struct info_summary *summary, const char *damage);
    /* An object that cannot be opened. */
    void (*add_trouble)(void *report, const char *path,
                        const struct tool_trouble *trouble);
    /* The file has more datasets, which cannot be found. */
    void (*damaged_file)(void *report, const char *damage);
    void (*end)(void *report);
};

/* A run: who prints the datasets, and whether any was damaged. */
struct info_show {
    const struct info_report *report;
    void *state; /* of the report */
    bool is_trusted;
    bool damaged;
    bool in_trouble; /* something cannot be looked at, but may be whole */
};

/* Shows a dataset; a tool_visit, whose context is a struct info_show. */
void
info_show_dataset(const char *path, const struct tool_dataset *dataset,
                  const struct tool_trouble *trouble, void *context);

extern const struct info_report info_report_text;
extern const struct info_report info_report_json; /* with jansson only */
