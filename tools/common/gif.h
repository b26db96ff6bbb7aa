/* Pictures of at most 256 colours as GIF files: browsers and mail programs show
 * them, and no library is needed to write them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Encodes nx x ny pixels, first row on top; each is an index in the palette of
 * ncolours colours, 0xRRGGBB. nx and ny are 1 to 65535, ncolours 2 to 256.
 * Returns the file's bytes, which the caller frees; NULL without memory. */
uint8_t *
tool_gif_make(int nx, int ny, const uint8_t *pixels, const uint32_t *palette,
              int ncolours, size_t *nbytes_ret);
