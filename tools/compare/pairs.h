/* terp compare and terp report: the pairs of datasets of two files. */
#pragma once

#include "tools/compare/compare.h"

/* A comparison of two open files: what to compare, who receives the results,
 * and what was found. */
struct compare_pairs {
    hid_t file_a, file_b;
    const char *path_a, *path_b;
    struct compare_bounds bounds;
    void *context; /* of the functions below */
    /* Whether to compare the datasets of this path; NULL: all datasets. */
    bool (*wants)(void *context, const char *path);
    /* Receives each result. `a` and `b` are open; NULL where the file has no
     * such dataset, or HDF5 cannot open it. */
    void (*add)(void *context, const struct tool_dataset *a,
                const struct tool_dataset *b, struct compare_result *result);

    bool lacks_plugin; /* a dataset needs the terp plugin; no result came after
                          that */
    bool lacks_hdf5;   /* a dataset needs a newer HDF5 */
};

/* Compares the datasets of A with those of B, then those that only B has. */
void
compare_pairs_visit(struct compare_pairs *pairs);
