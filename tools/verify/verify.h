/* What the parts of terp verify share: what was found in a dataset. */
#pragma once

#include "tools/common/check.h"
#include "tools/common/walk.h"

/* "whole", "damaged", ... */
extern const char *const verify_kind_names[TOOL_CHECK_NKINDS];

struct verify_sums {
    uint64_t nchunks; /* in the grid */
    uint64_t nof_kind[TOOL_CHECK_NKINDS];
};

/* A way to print the results. `begin` returns the state that the other
 * functions get; `end` frees it. Both may be NULL. */
struct verify_report {
    void *(*begin)(void);
    /* Datasets that follow are of this file; none if it was not opened. */
    void (*file)(void *report, const char *path, bool opened);
    /* Begins a dataset, which is wholly lost if there is `damage`. */
    void (*dataset)(void *report, const char *path, const char *damage);
    /* An object that this HDF5 is too old for, and which is not checked. */
    void (*unreadable)(void *report, const char *path, const char *reason);
    /* A chunk of it that is not whole: the values in `box`. */
    void (*damage)(void *report, const char *path, const struct tool_grid *box,
                   const char *reason);
    /* Ends a dataset that is not lost. */
    void (*sums)(void *report, const char *path,
                 const struct verify_sums *sums);
    /* The file has more datasets, which cannot be found. */
    void (*damaged_file)(void *report, const char *damage);
    void (*end)(void *report);
};

/* A run: who prints what is found, and what has come of it so far. */
struct verify {
    const struct verify_report *report;
    void *state; /* of the report */
    struct tool_checker *checker;
    bool is_trusted;
    bool in_trouble, damaged;
};

/* Checks a dataset; a tool_visit, whose context is a struct verify. */
void
verify_dataset(const char *path, const struct tool_dataset *dataset,
               const struct tool_trouble *trouble, void *context);

extern const struct verify_report verify_report_text;
extern const struct verify_report verify_report_json; /* with jansson only */
