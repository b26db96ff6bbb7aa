/* Writes GIF files, version 87a (CompuServe, "Graphics Interchange Format",
 * 1987). The codes of the pixels follow T. A. Welch, "A technique for
 * high-performance data compression", IEEE Computer 17 (1984). */
#include "tools/common/gif.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_WIDTH = 12, /* of a code, in bits */
    MAX_NCODES = 1 << MAX_WIDTH,
    MAX_BLOCK_NBYTES = 255,
    HEADER_NBYTES = 13,
    DESCRIPTOR_NBYTES = 10
};

/* The output: codes are collected in bits, and these in blocks. */
struct gif {
    uint8_t *bytes;
    size_t nbytes;
    size_t block_at; /* of the length of the current block */
    uint32_t bits;
    int nbits;
};

static void
put_byte(struct gif *gif, unsigned byte)
{
    gif->bytes[gif->nbytes++] = (uint8_t)byte;
}

static void
put_number(struct gif *gif, unsigned number)
{
    put_byte(gif, number & 255);
    put_byte(gif, number >> 8);
}

/* Adds a byte to the current block; a full block starts another. */
static void
put_data(struct gif *gif, unsigned byte)
{
    if (gif->bytes[gif->block_at] == MAX_BLOCK_NBYTES) {
        gif->block_at = gif->nbytes;
        put_byte(gif, 0);
    }
    put_byte(gif, byte);
    gif->bytes[gif->block_at]++;
}

static void
put_code(struct gif *gif, uint32_t code, int width)
{
    gif->bits |= code << gif->nbits;
    gif->nbits += width;
    for (; gif->nbits >= 8; gif->nbits -= 8, gif->bits >>= 8)
        put_data(gif, gif->bits & 255);
}

/* Known strings of pixels: a string is another one and a pixel. */
struct strings {
    uint16_t *next; /* [MAX_NCODES * ncolours]; 0: not known */
    int ncolours, ncodes, width;
};

static void
forget_strings(struct strings *strings, int depth)
{
    memset(strings->next, 0,
           (size_t)MAX_NCODES * (size_t)strings->ncolours *
               sizeof *strings->next);
    strings->ncodes = (1 << depth) + 2; /* pixels, clear and end */
    strings->width = depth + 1;
}

static void
put_pixels(struct gif *gif, struct strings *strings, int depth,
           const uint8_t *pixels, size_t npixels)
{
    const uint32_t clear = 1u << depth, end = clear + 1;
    uint32_t code = pixels[0];

    forget_strings(strings, depth);
    put_code(gif, clear, strings->width);
    for (size_t i = 1; i < npixels; i++) {
        uint16_t *next =
            &strings->next[code * (uint32_t)strings->ncolours + pixels[i]];
        if (*next != 0) {
            code = *next;
            continue;
        }
        put_code(gif, code, strings->width);
        if (strings->ncodes == MAX_NCODES) {
            put_code(gif, clear, strings->width);
            forget_strings(strings, depth);
        } else {
            *next = (uint16_t)strings->ncodes++;
            /* The reader knows a string one code later than the writer. */
            if (strings->ncodes > 1 << strings->width)
                strings->width++;
        }
        code = pixels[i];
    }
    put_code(gif, code, strings->width);
    if (strings->ncodes == 1 << strings->width && strings->width < MAX_WIDTH)
        strings->width++;
    put_code(gif, end, strings->width);
    if (gif->nbits > 0)
        put_data(gif, gif->bits & 255);
}

static void
put_header(struct gif *gif, int nx, int ny, int depth, const uint32_t *palette,
           int ncolours)
{
    memcpy(gif->bytes, "GIF87a", 6);
    gif->nbytes = 6;
    put_number(gif, (unsigned)nx);
    put_number(gif, (unsigned)ny);
    /* A palette of 2^depth colours. */
    put_byte(gif, 0x80u | (unsigned)(depth - 1) << 4 | (unsigned)(depth - 1));
    put_byte(gif, 0); /* background */
    put_byte(gif, 0); /* square pixels */
    for (int i = 0; i < 1 << depth; i++) {
        const uint32_t colour = i < ncolours ? palette[i] : 0;
        put_byte(gif, colour >> 16 & 255);
        put_byte(gif, colour >> 8 & 255);
        put_byte(gif, colour & 255);
    }
    put_byte(gif, ','); /* one image that fills the screen */
    put_number(gif, 0);
    put_number(gif, 0);
    put_number(gif, (unsigned)nx);
    put_number(gif, (unsigned)ny);
    put_byte(gif, 0);
}

uint8_t *
tool_gif_make(int nx, int ny, const uint8_t *pixels, const uint32_t *palette,
              int ncolours, size_t *nbytes_ret)
{
    const size_t npixels = (size_t)nx * (size_t)ny;
    struct strings strings = {.ncolours = ncolours};
    struct gif gif = {0};
    int depth = 2; /* pixels of one bit need another form of codes */

    while (1 << depth < ncolours)
        depth++;
    /* A pixel takes at most one code; clear and end come on top. Blocks add
     * less than a percent. */
    const size_t ncodes = npixels + npixels / 1024 + 4;
    const size_t cap = HEADER_NBYTES + 3 * ((size_t)1 << depth) +
                       DESCRIPTOR_NBYTES + ncodes * 3 / 2 +
                       ncodes * 3 / 2 / 64 + 64;
    gif.bytes = malloc(cap);
    strings.next =
        malloc((size_t)MAX_NCODES * (size_t)ncolours * sizeof *strings.next);
    if (gif.bytes == NULL || strings.next == NULL) {
        free(gif.bytes);
        free(strings.next);
        return NULL;
    }
    put_header(&gif, nx, ny, depth, palette, ncolours);
    put_byte(&gif, (unsigned)depth);
    gif.block_at = gif.nbytes;
    put_byte(&gif, 0);
    put_pixels(&gif, &strings, depth, pixels, npixels);
    put_byte(&gif, 0); /* no further block */
    put_byte(&gif, ';');
    free(strings.next);
    *nbytes_ret = gif.nbytes;
    return gif.bytes;
}
