/* Limits of decoded values beside the bound, for terp repack and terp advise.
 * They come from the command line and from attributes of a dataset. */
#pragma once

#include <argp.h>

#include "tools/common/h5file.h"

/* Where the valid range comes from. */
enum repack_valid {
    REPACK_VALID_OF_ATTRIBUTES, /* attributes of each dataset */
    REPACK_VALID_GIVEN,         /* the command line; one for all */
    REPACK_VALID_NONE
};

struct repack_limits {
    enum terp_keep_sign keep_sign;
    enum repack_valid valid;
    double valid_min, valid_max; /* for REPACK_VALID_GIVEN */
};

/* Default without options: quantities that are never negative stay so. */
#define REPACK_LIMITS_DEFAULT \
    ((struct repack_limits){.keep_sign = TERP_KEEP_SIGN_OF_CHUNK})

#define REPACK_HELP_KEEP_SIGN                                                \
    "Keep signs: \"chunk\" (default) keeps the sign of chunks whose values " \
    "all have one sign; \"values\" (if WHICH is missing) keeps the sign of " \
    "each value; \"none\""
#define REPACK_HELP_VALID_RANGE                                          \
    "Keep values from MIN to MAX within MIN and MAX; MIN or MAX may be " \
    "missing. Default: the attributes of each dataset; \"none\": no limits"

/* Reads the argument of --valid-range. Reports a wrong one and exits. */
void
repack_limits_read_range(struct argp_state *state, const char *text,
                         struct repack_limits *limits);

/* Sets the limits of a dataset's values in parameters whose bound is set. Sets
 * none where the bound implies them, and none for complex values. */
void
repack_limits_set(const struct repack_limits *limits,
                  const struct tool_dataset *dataset,
                  struct terp_params *params);
