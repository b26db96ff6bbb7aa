/* Chooses the limits of decoded values from options and attributes. */
#include "tools/repack/limits.h"

#include <math.h>
#include <string.h>

#include "codec/format/types.h"
#include "codec/model/bound.h"
#include "tools/common/options.h"
#include "tools/repack/valid.h"

void
repack_limits_read_range(struct argp_state *state, const char *text,
                         struct repack_limits *limits)
{
    if (strcmp(text, "none") == 0) {
        limits->valid = REPACK_VALID_NONE;
        return;
    }
    limits->valid = REPACK_VALID_GIVEN;
    tool_option_valid_range(state, text, &limits->valid_min,
                            &limits->valid_max);
}

/* Rounds a limit to the dataset's type. Attributes often have a wider type, and
 * programs that mask values round in the same way. */
static double
round_to(hid_t type, double limit)
{
    union {
        double number;
        char bytes[64];
    } value = {limit};

    if (H5Tget_class(type) != H5T_FLOAT ||
        H5Tget_size(type) > sizeof value.bytes ||
        H5Tconvert(H5T_NATIVE_DOUBLE, type, 1, value.bytes, NULL, H5P_DEFAULT) <
            0 ||
        H5Tconvert(type, H5T_NATIVE_DOUBLE, 1, value.bytes, NULL, H5P_DEFAULT) <
            0)
        return limit;
    return value.number;
}

static void
set_valid_range(const struct repack_limits *limits,
                const struct tool_dataset *dataset, struct terp_params *params)
{
    double min = limits->valid_min, max = limits->valid_max;

    if (limits->valid == REPACK_VALID_NONE ||
        (limits->valid == REPACK_VALID_OF_ATTRIBUTES &&
         repack_valid_range(dataset->id, &min, &max) == 0))
        return;
    min = round_to(dataset->type, min);
    max = round_to(dataset->type, max);
    params->has_valid_range = isfinite(min) || isfinite(max);
    params->valid_min = params->has_valid_range ? min : 0;
    params->valid_max = params->has_valid_range ? max : 0;
}

/* A pointwise bound without a floor implies that signs stay. */
static bool
keeps_signs(const struct terp_params *params)
{
    return params->bound_mode == TERP_BOUND_POINTWISE && params->floor == 0;
}

void
repack_limits_set(const struct repack_limits *limits,
                  const struct tool_dataset *dataset,
                  struct terp_params *params)
{
    const enum terp_type type = tool_coded_type(dataset->type);

    if (type == TERP_BYTES || terp_type_nparts(type) != 1 ||
        terp_is_lossless(params))
        return;
    params->keep_sign =
        keeps_signs(params) ? TERP_KEEP_SIGN_NONE : limits->keep_sign;
    set_valid_range(limits, dataset, params);
}
