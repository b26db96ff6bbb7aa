/* What options of several commands have in common. */
#ifndef TERP_OPTIONS_H
#define TERP_OPTIONS_H

#include <argp.h>

/* Names in the order of enum terp_pipeline and enum terp_predictor; NULL ends
 * them. */
extern const char *const tool_pipelines[];
extern const char *const tool_predictors[];

/* Place of `text` in a list of names; otherwise says that there is no such
 * `what`, and exits. */
unsigned
tool_option_name(struct argp_state *state, const char *what, const char *text,
                 const char *const *names);

/* A finite number above zero; otherwise says so, and exits. */
double
tool_option_number(struct argp_state *state, const char *text);

/* For an option that this program was built without: says so, and exits. */
void
tool_option_missing(struct argp_state *state, const char *option,
                    const char *library);

#endif
