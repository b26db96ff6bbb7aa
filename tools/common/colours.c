/* Colour maps in which equal steps look equal: straight or evenly curved lines
 * in the OKLab space (B. Ottosson, "A perceptual color space for image
 * processing", 2020). */
#include "tools/common/colours.h"

#include <math.h>

#define RADIANS_PER_DEGREE 0.017453292519943295

static uint32_t
channel(double linear)
{
    double clipped = fmin(fmax(linear, 0), 1);
    double value = clipped <= 0.0031308 ? 12.92 * clipped
                                        : 1.055 * pow(clipped, 1 / 2.4) - 0.055;
    return (uint32_t)lround(255 * value);
}

/* Converts lightness 0 to 1, chroma 0 to about 0.3 and hue in degrees to sRGB,
 * 0xRRGGBB. */
static uint32_t
colour(double lightness, double chroma, double hue)
{
    double a = chroma * cos(hue * RADIANS_PER_DEGREE);
    double b = chroma * sin(hue * RADIANS_PER_DEGREE);
    double l = pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
    double m = pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
    double s = pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);

    return channel(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s)
               << 16 |
           channel(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s)
               << 8 |
           channel(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s);
}

uint32_t
tool_colour_sequential(double value)
{
    double t = fmin(fmax(value, 0), 1);
    return colour(0.22 + 0.73 * t, 0.11, 285 - 180 * t);
}

uint32_t
tool_colour_diverging(double value)
{
    double t = fmin(fmax(value, -1), 1);
    return colour(0.97 - 0.5 * fabs(t), 0.17 * fabs(t), t < 0 ? 255 : 35);
}
