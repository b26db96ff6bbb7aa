/* What the parts of terp compare share: pairs of datasets, read side by side,
 * and what is known of them. */
#pragma once

#include "tools/common/heap.h"
#include "tools/common/range.h"
#include "tools/common/stored.h"
#include "tools/compare/nested.h"

struct compare_metrics;

enum compare_verdict {
    COMPARE_OK,
    COMPARE_UNJUDGED, /* no bound is known; this and those that follow may be
                         allowed */
    COMPARE_SKIPPED,  /* of a type whose values cannot be compared */
    COMPARE_EXTRA,    /* in B only */
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
    char reason[512]; /* of the verdict; "" where that says it all */

    bool compared; /* what follows is known */
    enum terp_type type;
    uint64_t nvalid, nspecials, nspecials_changed;
    double max_error;       /* NAN without valid values, as these: */
    double error_of_bound;  /* NAN too where no bound is known */
    double bound;           /* if the same for all values, else NAN */
    double pointwise_bound; /* relative to each value; 0: it is not */
    double floor;           /* of that */
    bool is_bytes;          /* values have to be the same */
    bool is_lossless;       /* B's parameters say so */
    /* Chunks of B, and those in which an error is above their bound; 0 where
     * one bound is that of all values. */
    uint64_t nchunks, nchunks_exceeded;
    double min, max;    /* of A, as PSNR takes them */
    uint64_t nleft_out; /* values outside min .. max: undeclared fill */
    double psnr;        /* NAN also for a range of 0; may be infinite */
    uint64_t nbytes, stored_nbytes; /* of B */
    int rank;
    const hsize_t *dims;             /* of A, as long as it is open */
    struct compare_metrics *metrics; /* to be freed, or NULL */
    char *picture; /* path of its PNG file, to be freed, or NULL */
};

/* Bounds from the command line, which judge whatever B is; 0: not given. */
struct compare_bounds {
    double absolute, relative, pointwise, floor;
};

/* Whether one of them is given. */
bool
compare_bounds_are_given(const struct compare_bounds *bounds);

/* A walk over two datasets of one shape and type in steps that fit memory:
 * the chunks of B, of A, or whole rows. What neither has written is one step of
 * a single value. */
struct compare_walk {
    const struct tool_dataset *a, *b;
    enum terp_type type;
    uint64_t nparts;            /* of a value: 2 of complex ones */
    hid_t pair_type;            /* of these in memory; -1 of others */
    hid_t value_type;           /* as which values are read; not to be closed */
    uint64_t value_nbytes;      /* of that */
    struct nested_type *nested; /* what values hold that are none of both */
    struct nested_files *files; /* in which references are looked up */
    struct tool_heap heap_a, heap_b; /* of those */
    bool has_fill; /* of A's creator: kept like NaN and infinities */
    uint64_t fill_bits;
    bool has_missing; /* the second one, of B's parameters */
    double missing;
    bool clears; /* values that were never written become 0 in memory */
    struct tool_grid grid; /* its box is the current step */
    struct tool_boxes boxes;
    uint64_t next_box; /* of these */
    uint64_t nread, nboxes_read;
    bool has_unwritten, is_done;
    uint64_t unwritten; /* number of the first such box */
    uint64_t nsame;     /* values that each value of the step stands for: 1, but
                           for those that neither has written */
    uint64_t nboxes;    /* of which the step is one, likewise */
    struct tool_chunk chunk;
    void *values_a, *values_b; /* of the current step */
    const char *trouble; /* why the walk ended early, NULL if it did not */
    bool cannot_compare; /* since values of this type cannot be */
    char reason[256];
};

/* Before the first call of those that open it, so that it can be closed. */
#define COMPARE_WALK_NONE   \
    ((struct compare_walk){ \
        .pair_type = -1, .heap_a = {.dxpl = -1}, .heap_b = {.dxpl = -1}})

/* `files` may be NULL where values have no references. False, with `trouble`
 * set, without enough memory. Close in any case. */
bool
compare_walk_open(struct compare_walk *walk, const struct tool_dataset *a,
                  const struct tool_dataset *b, struct nested_files *files);

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

/* Whether the values of the current step are the same, of other types. */
bool
compare_walk_is_same(struct compare_walk *walk);

/* What errors the current step may have. */
struct compare_bound {
    double absolute;  /* NAN: none is known; where of_range is not 0, it is */
    double of_range;  /* that, times the range of the step's values in A */
    double pointwise; /* not 0: relative to each value, */
    double floor;     /* and not below this */
    bool is_own;      /* it is that of the chunk, and not of all of B */
    /* The chunk of B is one value in the middle of those that it had, within a
     * bound that only B's parameters tell. */
    bool is_constant;
};

/* The one that is given, or that of the stream, or where the stream has none,
 * of B's parameters. False, with `trouble` set, if it cannot be read. */
bool
compare_walk_bound(struct compare_walk *walk,
                   const struct compare_bounds *bounds,
                   struct compare_bound *bound_ret);

/* Sets bound->absolute where it follows from the range of the step. */
void
compare_bound_resolve(struct compare_bound *bound,
                      const struct tool_range *range);

/* A bound relative to a range, without values that look like fill values.
 * Values that are all the same have the bound 0, which asks for the same in B.
 */
double
compare_relative_bound(double relative, const struct tool_range *range);

/* As what the values of both are compared: integers that B has within a bound
 * as doubles, 16-bit floats as floats, and what is neither float by its
 * bytes. */
enum terp_type
compare_type_of_values(const struct tool_dataset *a,
                       const struct tool_dataset *b);

/* With nothing compared yet. The path is kept. */
struct compare_result
compare_new_result(const char *path);

/* Compares all values of datasets that have the same type and shape, into a
 * new result. */
void
compare_values(const struct tool_dataset *a, const struct tool_dataset *b,
               const struct compare_bounds *bounds, struct nested_files *files,
               struct compare_result *result);

/* Draws two datasets, see plot.h. */
typedef bool
compare_plot(const char *directory, const struct tool_dataset *a,
             const struct tool_dataset *b, const struct compare_bounds *bounds,
             struct compare_result *result, char *reason_ret,
             size_t reason_cap);

/* A way to print the results. `begin` returns the state that the other
 * functions get; `end`, which may be NULL, frees it. */
struct compare_report {
    void *(*begin)(const char *path_a, const char *path_b);
    void (*add)(void *report, const struct compare_result *result);
    void (*end)(void *report, int code);
};

extern const struct compare_report compare_report_text;
extern const struct compare_report compare_report_json; /* with jansson only */
