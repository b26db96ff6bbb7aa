/* Colours of values in pictures, as 0xRRGGBB. Lightness alone tells values
 * apart, so that people who see few colours can read the pictures. */
#pragma once

#include <stdint.h>

/* Special values: unchanged ones, and ones that a copy changed. */
#define TOOL_COLOUR_KEPT 0x808080u
#define TOOL_COLOUR_CHANGED 0x000000u

/* 0 is dark blue, 1 light yellow, with green between them; darker means less.
 */
uint32_t
tool_colour_sequential(double value);

/* -1 is blue, 0 nearly white, 1 red; darker means farther from 0. */
uint32_t
tool_colour_diverging(double value);
