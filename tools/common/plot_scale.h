/* The scale of a picture's values. */
#pragma once

#include <math.h>

/* With floor 0 a position is the value. Else it is the number of decades of the
 * magnitude above the floor, with the sign of the value; smaller values have
 * position 0. */
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

/* The value at a position; for position 0 of a logarithmic scale, the floor. */
static inline double
plot_scale_value(const struct plot_scale *scale, double position)
{
    return scale->floor == 0
               ? position
               : copysign(scale->floor * pow(10, fabs(position)), position);
}
