/* terp verify: checks datasets and prints results. */
#pragma once

#include "tools/common/check.h"
#include "tools/common/walk.h"

/* Names such as "whole" and "damaged". */
extern const char *const verify_kind_names[TOOL_CHECK_NKINDS];

struct verify_sums {
    uint64_t nchunks; /* in the grid */
    uint64_t nof_kind[TOOL_CHECK_NKINDS];
};

/* An output format. `begin` returns the state for the other functions; `end`
 * frees it. Both may be NULL. */
struct verify_report {
    void *(*begin)(void);
    /* Begins a file; no datasets follow if it was not opened. */
    void (*file)(void *report, const char *path, bool opened);
    /* Begins a dataset; with `damage`, all of it is lost. */
    void (*dataset)(void *report, const char *path, const char *damage);
    /* An object that needs a newer HDF5 and is not checked. */
    void (*unreadable)(void *report, const char *path, const char *reason);
    /* A damaged chunk, which has the values in `box`. */
    void (*damage)(void *report, const char *path, const struct tool_grid *box,
                   const char *reason);
    /* Ends a dataset without `damage`. */
    void (*sums)(void *report, const char *path,
                 const struct verify_sums *sums);
    /* Some datasets of the file cannot be found. */
    void (*damaged_file)(void *report, const char *damage);
    void (*end)(void *report);
};

/* A run: the output format, and what was found. */
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
