/* How values of a picture are placed. */
#pragma once

#include <math.h>

/* As they are where `floor` is 0, else by how many decades their magnitude is
 * above it, with their sign; what is not is 0. */
struct plot_scale {
    double floor;
};

static inline double
plot_scale_position(const struct plot_scale *scale, double value)
{
    if (scale->floor == 0 || !isfinite(value))
        return value;
    return fabs(value) <= scale->floor
               ? 0
               : copysign(log10(fabs(value) / scale->floor), value);
}

/* The value at a place: the floor, where many are. */
static inline double
plot_scale_value(const struct plot_scale *scale, double place)
{
    return scale->floor == 0
               ? place
               : copysign(scale->floor * pow(10, fabs(place)), place);
}
