/* Parses TERP_RULES, the rules for new datasets:
 *
 *     PATTERN=BOUND[,OPTION ...]; PATTERN=BOUND[,OPTION ...]; ...
 *
 * or @FILE. The file holds the same text; a line end may stand for a semicolon,
 * and # begins a comment. The first pattern that matches a dataset decides
 * (codec/api/text.h defines patterns). BOUND is abs:NUMBER,
 * rel:NUMBER, pwr:NUMBER, pwr:NUMBER:FLOOR, digits:NUMBER, bits:NUMBER,
 * lossless, or none without options. OPTION is chunk, chunk:AxBxC,
 * replace-filters, small, keep-sign, keep-sign:chunk, keep-sign:values,
 * valid-range:MIN:MAX, where MIN or MAX may be empty, components, compound, or
 * member:NAME:BOUND, where BOUND has no floor. */
#pragma once

#include <stdbool.h>

#include "filter/plugin/h5z_terp.h"

enum vol_rule {
    VOL_RULE_NONE,      /* TERP_RULES has no rules */
    VOL_RULE_UNMATCHED, /* no rule matches */
    VOL_RULE_LEAVE,     /* the rule's bound is "none" */
    VOL_RULE_APPLY,     /* *choice_ret tells how to compress */
    VOL_RULE_WRONG      /* a rule is invalid; reason_ret tells which */
};

/* The bound and the options of a rule. */
struct vol_choice {
    struct H5Z_terp_config config;
    bool has_small;        /* also compress datasets of few values */
    bool replaces_filters; /* replace the program's filters */
    bool replaces_chunks;  /* replace the program's chunks */
    bool has_compounds;    /* also compress compound values and arrays */
    bool has_components;   /* also lines of AMReX that may hold several */
    /* The bounds of members, as cd_values. */
    int nmembers;
    unsigned members[H5Z_TERP_MAX_NBOUNDED][H5Z_TERP_MEMBER_NWORDS];
    int rank; /* of `chunk`; 0: terp chooses the chunk */
    hsize_t chunk[H5S_MAX_RANK];
};

/* Holds the longest reason, which lists all bounds and options (rules.c). */
#define VOL_REASON_NBYTES 640

/* Finds the rule for the dataset at `path` (NULL: an anonymous dataset) in
 * `rules`, the value of TERP_RULES or NULL. Reads the file in every call.
 * Parses all rules, so that an invalid rule is reported at the first
 * dataset. */
enum vol_rule
vol_rules_find(const char *rules, const char *path,
               struct vol_choice *choice_ret,
               char reason_ret[VOL_REASON_NBYTES]);
