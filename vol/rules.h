/* What TERP_RULES says of datasets that are to be created:
 *
 *     PATTERN=BOUND[,OPTION ...]; PATTERN=BOUND[,OPTION ...]; ...
 *
 * or @FILE, which holds the same, also with line ends for semicolons, and
 * comments from # on. The first pattern that matches a dataset counts
 * (codec/api/text.h tells what a pattern matches). BOUND is abs:NUMBER,
 * rel:NUMBER, pwr:NUMBER, pwr:NUMBER:FLOOR, digits:NUMBER, bits:NUMBER,
 * lossless or none, which has no options. OPTION is chunk, chunk:AxBxC,
 * replace-filters, small, keep-sign, keep-sign:chunk, keep-sign:values or
 * valid-range:MIN:MAX, of which one number may be left out. */
#pragma once

#include <stdbool.h>

#include "filter/plugin/h5z_terp.h"

enum vol_rule {
    VOL_RULE_NONE,      /* there are no rules */
    VOL_RULE_UNMATCHED, /* no rule matches */
    VOL_RULE_LEAVE,     /* the rule says none */
    VOL_RULE_APPLY,     /* *choice_ret tells how to compress */
    VOL_RULE_WRONG      /* reason_ret tells what cannot be read */
};

/* What a rule chooses for a dataset. */
struct vol_choice {
    struct H5Z_terp_config config;
    bool has_small;        /* datasets of few values too */
    bool replaces_filters; /* of the program */
    bool replaces_chunks;  /* of the program, */
    int rank;              /* by chunks of these dims, 0: of terp's choice */
    hsize_t chunk[H5S_MAX_RANK];
};

#define VOL_REASON_NBYTES 512

/* Finds the rule for the dataset at `path`, or NULL of one without name, in
 * `rules`, the variable's value or NULL. Reads the file anew in every call. All
 * rules are read, so that a wrong one does not wait for its dataset. */
enum vol_rule
vol_rules_find(const char *rules, const char *path,
               struct vol_choice *choice_ret,
               char reason_ret[VOL_REASON_NBYTES]);
