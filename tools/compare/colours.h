/* Colour maps whose steps look equally large: straight or evenly curved lines
 * in the OKLab space (B. Ottosson, "A perceptual color space for image
 * processing", 2020). */
#ifndef TERP_TOOLS_COMPARE_COLOURS_H
#define TERP_TOOLS_COMPARE_COLOURS_H

#include <stdint.h>

/* 0xRRGGBB. */
typedef uint32_t
tool_colour_map(double value);

/* 0 dark blue, over green, to 1 light yellow; darker is always less. */
uint32_t
tool_colour_sequential(double value);

/* -1 blue, 0 nearly white, 1 red; as dark as it is far from 0. */
uint32_t
tool_colour_diverging(double value);

#endif
