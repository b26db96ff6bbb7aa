/* What TERP_RULES says of datasets that are to be created:
 *
 *     PATTERN=BOUND; PATTERN=BOUND; ...
 *
 * or @FILE, which holds the same, also with line ends for semicolons, and
 * comments from # on. The first pattern that matches a dataset counts. BOUND is
 * abs:NUMBER, rel:NUMBER, pwr:NUMBER, lossless or none. In a PATTERN, * stands
 * for any characters and ? for one; with a / it has to match the whole path,
 * without one the dataset's own name. */
#pragma once

#include <stdbool.h>

#include "filter/plugin/h5z_terp.h"

enum vol_rule {
    VOL_RULE_NONE,  /* nothing is asked */
    VOL_RULE_LEAVE, /* no rule matches, or one says none */
    VOL_RULE_APPLY, /* *config_ret tells how to compress */
    VOL_RULE_WRONG  /* reason_ret tells what cannot be read */
};

#define VOL_REASON_NBYTES 256

/* Finds the rule for the dataset at `path`, or NULL of one without name, in
 * `rules`, the variable's value or NULL. Reads the file anew in every call. All
 * rules are read, so that a wrong one does not wait for its dataset. */
enum vol_rule
vol_rules_find(const char *rules, const char *path,
               struct H5Z_terp_config *config_ret,
               char reason_ret[VOL_REASON_NBYTES]);
