/* Options of terp compare and terp report: the bounds to judge by. */
#include "tools/compare/options.h"

bool
compare_options_parse(int key, const char *arg, struct argp_state *state,
                      struct compare_options *options)
{
    switch (key) {
    case 'a':
        options->bounds.absolute =
            tool_option_number(state, arg, "absolute bound");
        return true;
    case 'r':
        options->bounds.relative =
            tool_option_number(state, arg, "relative bound");
        return true;
    case COMPARE_KEY_PWR:
        options->bounds.pointwise = tool_option_pointwise(state, arg);
        return true;
    case COMPARE_KEY_FLOOR:
        options->bounds.floor = tool_option_number(state, arg, "floor");
        return true;
    case COMPARE_KEY_ALLOW_UNJUDGED:
        options->allows_unjudged = true;
        return true;
    default:
        return false;
    }
}

void
compare_options_check(struct argp_state *state,
                      const struct compare_options *options)
{
    const struct compare_bounds *bounds = &options->bounds;

    if ((bounds->absolute > 0) + (bounds->relative > 0) +
            (bounds->pointwise > 0) >
        1)
        argp_error(state, "give only one of --abs, --rel and --pwr");
    if (bounds->floor > 0 && bounds->pointwise == 0)
        argp_error(state, "--floor needs --pwr");
}
