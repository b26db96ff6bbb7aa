/* terp info: what the streams of a dataset contain. */
#pragma once

#include "codec/model/fills.h"
#include "filter/container.h"
#include "tools/common/members.h"
#include "tools/common/walk.h"

/* Kinds of chunks: streams of the pipelines, and other chunks. */
enum info_kind {
    INFO_RAW,
    INFO_CONSTANT,
    INFO_HUFFMAN,
    INFO_RATIO,
    INFO_SPEED,
    INFO_MEMBERS, /* containers; streams of members count as no kind */
    INFO_PLAIN,
    INFO_ABSENT,
    INFO_HIDDEN,
    INFO_DAMAGED,
    INFO_NKINDS
};

/* Codings that only streams of version 2 have. */
enum info_coding {
    INFO_CODING_SPEED,
    INFO_CODING_GRID,
    INFO_CODING_COLUMNS,
    INFO_CODING_RANKS,
    INFO_NCODINGS
};

/* Predictors of streams: those that callers can choose, and "lossless". */
#define INFO_NPREDICTORS (TERP_NPREDICTORS + 1)

/* Names of kinds, of codings and of predictors; predictor 0 is "none". */
const char *
info_kind_name(int kind);
const char *
info_coding_name(int coding);
const char *
info_predictor_name(int predictor);

/* A domain: the shape in which the encoder predicted chunks of another shape.
 */
struct info_domain {
    struct terp_chunk shape;
    uint64_t nchunks;
};

/* Limit of domains that are counted one by one; few datasets have more than
 * two. Chunks with further domains count only in nwith_domain. */
#define INFO_MAX_NDOMAINS 64

/* Prefixes of streams decode to every 2nd, 4th and 8th value. */
#define INFO_NPREFIXES 3
#define INFO_STEP_OF_PREFIX(i) (2u << (i))

/* A member of compound values, in all containers. */
struct info_member {
    char path[TOOL_MEMBER_PATH_NBYTES]; /* "" for the bytes between members */
    size_t at;
    uint64_t nbytes, stored_nbytes;
};

struct info_members {
    int n;
    struct info_member *member;
    int *of_listed; /* for each member of the cd_values, its index */
};

/* Lists the members of a dataset; false without memory. Free in any case. */
bool
info_members_make(const struct tool_dataset *dataset,
                  struct info_members *members_ret);

/* Adds the bytes of a container. False if it has other members. */
bool
info_members_add(struct info_members *members,
                 const struct terp_compound *compound,
                 const struct terp_container *container);

void
info_members_free(struct info_members *members);

/* Sums over the streams of a dataset. */
struct info_summary {
    uint64_t nchunks; /* in the grid */
    uint64_t nof_kind[INFO_NKINDS];
    uint64_t nwith_predictor[INFO_NPREDICTORS];
    uint64_t nof_members;  /* streams of members */
    uint64_t nwith_domain; /* streams of chunks with another domain */
    struct info_domain domains[INFO_MAX_NDOMAINS];
    uint64_t nof_version_2; /* streams, which terp 1 does not read */
    uint64_t nwith_coding[INFO_NCODINGS]; /* streams, or inner streams of it */
    uint64_t nvalues, nescapes, nspecials;
    /* Numbers that chunks hold as special values, as they are usual fill
     * values, though nobody declared them. */
    struct terp_usual_fills undeclared;
    uint64_t ntiles, ntiles_zero, index_nbytes;
    uint64_t ntiles_with_entry[256];
    /* Streams that store the lengths of their prefixes; bytes of these streams;
     * and bytes of their prefixes. */
    uint64_t nwith_prefixes, prefixed_nbytes;
    uint64_t prefix_nbytes[INFO_NPREFIXES];
    struct info_members members; /* n is 0 if values are no compounds */
    const char *damage;          /* of the first damaged chunk */
    hsize_t damaged_at[H5S_MAX_RANK];
};

/* Why terp does not compress the dataset; "" if it does. */
const char *
info_pass_text(const struct tool_dataset *dataset);

/* The most frequent domain; nchunks is 0 if there is none. */
const struct info_domain *
info_main_domain(const struct info_summary *summary);

/* An output format. `begin` returns the state for the other functions; `end`
 * frees it. Both may be NULL. */
struct info_report {
    void *(*begin)(void);
    /* Begins the `nth` file, counted from 0; no datasets follow if it was not
     * opened. */
    void (*file)(void *report, int nth, const char *path, bool opened);
    /* `damage` is why no streams were read; the summary is zero then. */
    void (*add)(void *report, const char *path,
                const struct tool_dataset *dataset,
                const struct info_summary *summary, const char *damage);
    /* Adds an object that cannot be opened. */
    void (*add_trouble)(void *report, const char *path,
                        const struct tool_trouble *trouble);
    /* Some datasets of the file cannot be found. */
    void (*damaged_file)(void *report, const char *damage);
    void (*end)(void *report);
};

/* A run: the output format, and what was found. */
struct info_show {
    const struct info_report *report;
    void *state; /* of the report */
    bool is_trusted;
    bool damaged;
    bool in_trouble; /* something cannot be read, but may be undamaged */
};

/* Shows a dataset; a tool_visit, whose context is a struct info_show. */
void
info_show_dataset(const char *path, const struct tool_dataset *dataset,
                  const struct tool_trouble *trouble, void *context);

extern const struct info_report info_report_short; /* a line a dataset */
extern const struct info_report info_report_text;
extern const struct info_report info_report_json; /* with jansson only */
