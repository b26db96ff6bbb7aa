/* terp compare: results, and walks that read two datasets side by side. */
#pragma once

#include "filter/container.h"
#include "tools/common/heap.h"
#include "tools/common/members.h"
#include "tools/common/range.h"
#include "tools/common/stored.h"
#include "tools/compare/nested.h"

struct compare_metrics;

enum compare_verdict {
    COMPARE_OK,
    COMPARE_UNJUDGED, /* no bound is known; --allow-unjudged accepts this
                         verdict and the next two */
    COMPARE_SKIPPED,  /* terp cannot compare values of this type */
    COMPARE_EXTRA,    /* only in B */
    COMPARE_EXCEEDED, /* this verdict and the next ones are failures */
    COMPARE_SPECIALS,
    COMPARE_DIFFERENT,
    COMPARE_UNREADABLE,
    COMPARE_TYPE,
    COMPARE_SHAPE,
    COMPARE_MISSING
};

/* Names such as "ok" and "exceeded". */
const char *
compare_verdict_text(enum compare_verdict verdict);

/* Whether the verdict makes a comparison fail. */
bool
compare_verdict_fails(enum compare_verdict verdict, bool allows_unjudged);

/* The result for one pair of datasets. Unknown numbers are NAN. */
struct compare_result {
    const char *path;
    enum compare_verdict verdict;
    char reason[512]; /* explains the verdict; may be "" */

    bool compared; /* the members below are set */
    enum terp_type type;
    uint64_t nvalid, nspecials, nspecials_changed;
    double max_error;       /* NAN without valid values */
    double error_of_bound;  /* NAN without valid values or bound */
    double bound;           /* NAN unless all values have the same one */
    double pointwise_bound; /* relative to each value; 0: none */
    double floor;           /* of pointwise_bound */
    bool is_bytes;          /* values must be identical */
    bool is_lossless;       /* by B's parameters */
    /* Number of chunks of B, and of chunks with an error above their bound; 0
     * where one bound applies to all values. */
    uint64_t nchunks, nchunks_exceeded;
    double min, max;    /* of A, as used for PSNR */
    uint64_t nleft_out; /* values outside min .. max: undeclared fill
                           values */
    double psnr;        /* NAN also for a range of 0; may be infinite */
    uint64_t nbytes, stored_nbytes; /* of B */
    int rank;
    const hsize_t *dims;             /* of A, valid while A is open */
    struct compare_metrics *metrics; /* owned, or NULL */
    char *picture;                   /* path of its PNG file, owned, or NULL */
};

/* Values of B that may differ: sets a flag for each value of a box of A. */
typedef void
compare_exempt(void *context, const struct tool_grid *box, uint8_t *flags_ret);

/* Bounds from the command line; they override B's bounds. 0: not given. */
struct compare_bounds {
    double absolute, relative, pointwise, floor;
    compare_exempt *exempt; /* for floats only; NULL: none */
    void *context;          /* of exempt */
};

/* Whether the command line gives a bound. */
bool
compare_bounds_are_given(const struct compare_bounds *bounds);

/* A walk over two datasets of one shape and type, in steps that fit into
 * memory: chunks of B, chunks of A, or whole rows. One step of a single value
 * represents all values that neither dataset stores. */
struct compare_walk {
    const struct tool_dataset *a, *b;
    enum terp_type type;
    uint64_t ncomponents;       /* of a value: 2 for complex values; more for
                                   arrays that are members */
    hid_t pair_type;            /* complex values in memory, else -1 */
    hid_t member_type;          /* a compound with one member, else -1 */
    hid_t value_type;           /* type of values in memory; not owned */
    uint64_t value_nbytes;      /* of value_type */
    struct nested_type *nested; /* for values other than floats, integers and
                                   complex values */
    struct nested_files *files; /* where references are looked up */
    struct tool_heap heap_a, heap_b; /* memory of strings and sequences */
    bool has_fill; /* the fill value of A; must stay bit for bit, like NaN */
    uint64_t fill_bits;
    bool has_missing; /* the missing value of B's parameters */
    double missing;
    struct tool_grid grid; /* its box is the current step */
    struct tool_boxes boxes;
    uint64_t next_box; /* index in boxes */
    uint64_t nread, nboxes_read;
    bool has_unwritten, is_done;
    uint64_t unwritten; /* number of the first such box */
    uint64_t nsame;     /* values that each value of the step represents; above
                           1 only for unwritten values */
    uint64_t nboxes;    /* boxes that the step represents; above 1 only for
                           unwritten values */
    struct tool_chunk chunk;
    void *values_a, *values_b; /* of the current step */
    const char *trouble;       /* why the walk ended early, else NULL */
    bool cannot_compare;       /* values of this type cannot be compared */
    char reason[256];
};

/* The initial state; makes compare_walk_close valid. */
#define COMPARE_WALK_NONE                          \
    ((struct compare_walk){.pair_type = -1,        \
                           .member_type = -1,      \
                           .heap_a = {.dxpl = -1}, \
                           .heap_b = {.dxpl = -1}})

/* `files` may be NULL where values have no references. False, with `trouble`
 * set, without memory. Close in any case. */
bool
compare_walk_open(struct compare_walk *walk, const struct tool_dataset *a,
                  const struct tool_dataset *b, struct nested_files *files);

bool
compare_walk_next(struct compare_walk *walk);

/* A walk of one step: slice->count values from slice->at on, every
 * slice->step-th one. Close in any case. */
bool
compare_walk_slice(struct compare_walk *walk, const struct tool_dataset *a,
                   const struct tool_dataset *b, const struct tool_grid *slice);

/* Prepares reading boxes of at most `nvalues` values with compare_walk_box.
 * Close in any case. */
bool
compare_walk_open_boxes(struct compare_walk *walk, const struct tool_dataset *a,
                        const struct tool_dataset *b, uint64_t nvalues);

bool
compare_walk_box(struct compare_walk *walk, const struct tool_grid *box);

void
compare_walk_close(struct compare_walk *walk);

/* Value `i` of A and of B, for float types. False for special values, which
 * must stay bit for bit; then *changed_ret tells whether the value changed. */
bool
compare_walk_value(const struct compare_walk *walk, uint64_t i, double *a_ret,
                   double *b_ret, bool *changed_ret);

/* Whether the values of the current step are identical, for other types. */
bool
compare_walk_is_same(struct compare_walk *walk);

/* The bound of the current step. */
struct compare_bound {
    double absolute;  /* NAN: unknown. Unresolved while of_range is not 0 */
    double of_range;  /* not 0: absolute is this times the range of the step's
                         values in A */
    double pointwise; /* not 0: the bound is this times each value, */
    double floor;     /* but at least this */
    bool is_own;      /* the bound of this chunk, not of all of B */
    /* B's chunk is constant, the middle of its original values, and only B's
     * parameters have the bound. */
    bool is_constant;
};

/* Values of the current step that have one bound: `n` runs of `length` values,
 * `stride` apart, from value `first` on. Where B's chunk is a container, each
 * of its members is a part; else there is one part. Initialize with zeros. */
struct compare_part {
    struct compare_bound bound;
    uint64_t first, length, stride, n;
    struct terp_container container;
    struct terp_container_walk walk;
    bool has_begun;
};

/* Goes to the next part of the step. Its bound is that of the command line, of
 * the stream, or of B's parameters, in this order. False behind the last part,
 * or, with `trouble` set, if the bound cannot be read. */
bool
compare_walk_part(struct compare_walk *walk,
                  const struct compare_bounds *bounds,
                  struct compare_part *part);

/* The values [*begin_ret, *end_ret) of the part's run `i`. */
void
compare_part_run(const struct compare_walk *walk,
                 const struct compare_part *part, uint64_t i,
                 uint64_t *begin_ret, uint64_t *end_ret);

/* Sets bound->absolute where it depends on the range of the step. */
void
compare_bound_resolve(struct compare_bound *bound,
                      const struct tool_range *range);

/* The absolute bound for a relative one, without usual fill values in the
 * range. Equal values have the bound 0: B must have them
 * unchanged. */
double
compare_relative_bound(double relative, const struct tool_range *range);

/* The type in which values are compared. Integers for which B has a bound:
 * doubles. 16-bit floats: floats. Other types: bytes. */
enum terp_type
compare_type_of_values(const struct tool_dataset *a,
                       const struct tool_dataset *b);

/* A result without a comparison. Keeps `path`. */
struct compare_result
compare_new_result(const char *path);

/* Compares all values of datasets of the same type and shape; `result` must be
 * new. Both datasets may stand for a member. */
void
compare_values(const struct tool_dataset *a, const struct tool_dataset *b,
               const struct compare_bounds *bounds, struct nested_files *files,
               struct compare_result *result);

/* Whether the datasets are compared member by member: they have one compound
 * type, and B's values are coded by member. */
bool
compare_has_members(const struct tool_dataset *a, const struct tool_dataset *b);

/* Makes copies of `a` and `b`, which compare_has_members, that stand for the
 * member whose first byte `listed` is, and writes the member's path. False
 * where no member begins there. Close `b_ret->type`, which is that of both. */
bool
compare_member(const struct tool_dataset *a, const struct tool_dataset *b,
               const struct terp_member_walk *listed,
               struct tool_dataset *a_ret, struct tool_dataset *b_ret,
               char path_ret[TOOL_MEMBER_PATH_NBYTES]);

/* Draws two datasets, see plot.h. */
typedef bool
compare_plot(const char *directory, const struct tool_dataset *a,
             const struct tool_dataset *b, const struct compare_bounds *bounds,
             struct compare_result *result, char *reason_ret,
             size_t reason_cap);

/* An output format. `begin` returns the state for the other functions; `end`,
 * which may be NULL, frees it. */
struct compare_report {
    void *(*begin)(const char *path_a, const char *path_b);
    void (*add)(void *report, const struct compare_result *result);
    void (*end)(void *report, int code);
};

extern const struct compare_report compare_report_text;
extern const struct compare_report compare_report_json; /* with jansson only */
