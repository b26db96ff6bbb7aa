/* png_pixels FILE: prints the pixels of a PNG file for
 * h5tests/tools/test_tool_png.py: a line with width and height, then red, green
 * and blue bytes row by row. */
#include <cairo.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int
main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    cairo_surface_t *surface = cairo_image_surface_create_from_png(argv[1]);
    if (cairo_surface_status(surface) != CAIRO_STATUS_SUCCESS ||
        cairo_image_surface_get_format(surface) != CAIRO_FORMAT_RGB24) {
        fprintf(stderr, "png_pixels: cannot read %s\n", argv[1]);
        return 1;
    }
    const unsigned char *row = cairo_image_surface_get_data(surface);
    int width = cairo_image_surface_get_width(surface);
    int height = cairo_image_surface_get_height(surface);
    printf("%d %d\n", width, height);
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            uint32_t pixel;
            memcpy(&pixel, row + 4 * (size_t)x, sizeof pixel);
            putchar((int)(pixel >> 16 & 255));
            putchar((int)(pixel >> 8 & 255));
            putchar((int)(pixel & 255));
        }
        row += cairo_image_surface_get_stride(surface);
    }
    cairo_surface_destroy(surface);
    return ferror(stdout) ? 1 : 0;
}
