/* Limits of decoded values beside the bound, for terp repack and terp advise:
 * those that a command line asks for, and those that a dataset has. */
#pragma once

#include <argp.h>

#include "tools/common/h5file.h"

/* Whose valid range counts. */
enum repack_valid {
    REPACK_VALID_OF_ATTRIBUTES, /* that of each dataset */
    REPACK_VALID_GIVEN,         /* one for all */
    REPACK_VALID_NONE
};

struct repack_limits {
    enum terp_keep_sign keep_sign;
    enum repack_valid valid;
    double valid_min, valid_max; /* of REPACK_VALID_GIVEN */
};

/* What counts where the command line says nothing: quantities that are never
 * negative stay so. */
#define REPACK_LIMITS_DEFAULT \
    ((struct repack_limits){.keep_sign = TERP_KEEP_SIGN_OF_CHUNK})

#define REPACK_HELP_KEEP_SIGN                                                 \
    "Keep signs beside the bound: of a \"chunk\" whose values have one sign " \
    "(if not given), of all \"values\" (if given without WHICH), or \"none\""
#define REPACK_HELP_VALID_RANGE                                             \
    "Let no value from MIN to MAX, of which one may be left out, become "   \
    "one below MIN or above MAX; if not given, attributes of each dataset " \
    "tell; \"none\": no such limits"

/* The text of --valid-range; where it is wrong, says so and exits. */
void
repack_limits_read_range(struct argp_state *state, const char *text,
                         struct repack_limits *limits);

/* Sets the limits of a dataset's values in parameters whose bound is set; none
 * where the bound keeps them anyway, and for complex values. */
void
repack_limits_set(const struct repack_limits *limits,
                  const struct tool_dataset *dataset,
                  struct terp_params *params);
