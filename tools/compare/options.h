/* Options of terp compare and terp report: the bounds to judge by. */
#pragma once

#include "tools/common/options.h"
#include "tools/compare/compare.h"

struct compare_options {
    struct compare_bounds bounds;
    bool allows_unjudged;
};

enum {
    COMPARE_KEY_ALLOW_UNJUDGED = 300, /* has no letter */
    COMPARE_KEY_FLOOR,
    COMPARE_KEY_PWR
};

/* Rows of a table of struct argp_option; `a` and `b` name the files. */
#define COMPARE_OPTIONS(group, a, b)                                      \
    {"abs",                                                               \
     'a',                                                                 \
     "X",                                                                 \
     0,                                                                   \
     "Limit each error to X in all float datasets, in place of " b        \
     "'s bounds",                                                         \
     group},                                                              \
        {"rel",                                                           \
         'r',                                                             \
         "X",                                                             \
         0,                                                               \
         "Limit each error to X times the range of the dataset's values " \
         "in " a,                                                         \
         group},                                                          \
        {"pwr",                                                           \
         COMPARE_KEY_PWR,                                                 \
         "X",                                                             \
         0,                                                               \
         "Limit each error to X times its value in " a,                   \
         group},                                                          \
        {"floor", COMPARE_KEY_FLOOR, "X", 0, TOOL_HELP_FLOOR, group},     \
    {                                                                     \
        "allow-unjudged", COMPARE_KEY_ALLOW_UNJUDGED, NULL, 0,            \
            "Accept datasets without a known bound, datasets that terp "  \
            "cannot compare, and datasets that only " b " has",           \
            group                                                         \
    }

/* Whether the key belongs to an option of COMPARE_OPTIONS, which it reads. A
 * wrong argument prints an error and exits. */
bool
compare_options_parse(int key, const char *arg, struct argp_state *state,
                      struct compare_options *options);

/* Prints an error and exits if the options contradict each other. */
void
compare_options_check(struct argp_state *state,
                      const struct compare_options *options);
