/* What the parts of terp compare share: pairs of datasets, read side by side,
 * and what is known of them. */
#pragma once

#include "tools/common/h5file.h"

struct compare_metrics;

enum compare_verdict {
    COMPARE_OK,
    COMPARE_UNJUDGED, /* no bound is known */
    COMPARE_SKIPPED,  /* of a type whose values cannot be compared */
    COMPARE_EXCEEDED, /* from here on, something was found */
    COMPARE_SPECIALS,
    COMPARE_DIFFERENT,
    COMPARE_UNREADABLE,
    COMPARE_TYPE,
    COMPARE_SHAPE,
    COMPARE_MISSING
};

/* "ok", "exceeded" and so on. */
const char *
compare_verdict_text(enum compare_verdict verdict);

/* What is known of one pair of datasets. Numbers that are not known are
 * NAN. */
struct compare_result {
    const char *path;
    enum compare_verdict verdict;
    char reason[256]; /* of the verdict; "" where that says it all */

    bool compared; /* what follows is known */
    enum terp_type type;
    uint64_t nvalid, nspecials, nspecials_changed;
    double max_error;       /* NAN without valid values, as these: */
    double error_of_bound;  /* NAN too where no bound is known */
    double bound;           /* if the same for all values, else NAN */
    double pointwise_bound; /* relative to each value; 0: it is not */
    double floor;           /* of that */
    double min, max;        /* of A, as PSNR takes them */
    uint64_t nleft_out;     /* values outside min .. max: undeclared fill */
    double psnr;            /* NAN also for a range of 0; may be infinite */
    uint64_t nbytes, stored_nbytes; /* of B */
    int rank;
    const hsize_t *dims;             /* of A, as long as it is open */
    struct compare_metrics *metrics; /* to be freed, or NULL */
    char *picture; /* path of its PNG file, to be freed, or NULL */
};

/* Bounds from the command line for datasets without terp; 0: not given. */
struct compare_bounds {
    double absolute, relative, pointwise, floor;
};

/* A walk over two datasets of one shape and type in steps that fit memory:
 * the chunks of B, of A, or whole rows. */
struct compare_walk {
    const struct tool_dataset *a, *b;
    enum terp_type type;
    uint64_t nparts; /* of a value: 2 of complex ones */
    hid_t pair_type; /* of these in memory; -1 of others */
    bool has_fill;   /* of A's creator: kept like NaN and infinities */
    uint64_t fill_bits;
    bool has_missing; /* the second one, of B's parameters */
    double missing;
    struct tool_grid grid; /* its box is the current step */
    struct tool_chunk chunk;
    void *values_a, *values_b; /* of the current step */
    const char *trouble; /* why the walk ended early, NULL if it did not */
    char reason[256];
};

/* False, with `trouble` set, without enough memory. Close in any case. */
bool
compare_walk_open(struct compare_walk *walk, const struct tool_dataset *a,
                  const struct tool_dataset *b);

bool
compare_walk_next(struct compare_walk *walk);

/* Instead of a walk, one step: slice->count values from slice->at on, every
 * slice->step'th. Close in any case. */
bool
compare_walk_slice(struct compare_walk *walk, const struct tool_dataset *a,
                   const struct tool_dataset *b, const struct tool_grid *slice);

/* For boxes of at most `nvalues` values, each read by compare_walk_box: what
 * `box` stands at. Close in any case. */
bool
compare_walk_open_boxes(struct compare_walk *walk, const struct tool_dataset *a,
                        const struct tool_dataset *b, uint64_t nvalues);

bool
compare_walk_box(struct compare_walk *walk, const struct tool_grid *box);

void
compare_walk_close(struct compare_walk *walk);

/* Value `i` of A and of B, for float types. False if it must be kept bit for
 * bit; *changed_ret then tells whether it was not. */
bool
compare_walk_value(const struct compare_walk *walk, uint64_t i, double *a_ret,
                   double *b_ret, bool *changed_ret);

/* Absolute bound that terp had for the current step, whose valid values are
 * in min .. max; not for a bound relative to each value. False, with `trouble`
 * set, if it cannot be read. */
bool
compare_walk_bound(struct compare_walk *walk, double min, double max,
                   double *bound_ret);

/* With nothing compared yet. The path is kept. */
struct compare_result
compare_new_result(const char *path);

/* Compares all values of datasets that have the same type and shape, into a
 * new result. */
void
compare_values(const struct tool_dataset *a, const struct tool_dataset *b,
               const struct compare_bounds *bounds,
               struct compare_result *result);

/* Draws two datasets, see plot.h. */
typedef bool
compare_plot(const char *directory, const struct tool_dataset *a,
             const struct tool_dataset *b, struct compare_result *result,
             char *reason_ret, size_t reason_cap);

/* A way to print the results. `begin` returns the state that the other
 * functions get; `end`, which may be NULL, frees it. */
struct compare_report {
    void *(*begin)(const char *path_a, const char *path_b);
    void (*add)(void *report, const struct compare_result *result);
    void (*end)(void *report, int code);
};

extern const struct compare_report compare_report_text;
extern const struct compare_report compare_report_json; /* with jansson only */
