/* The text of a page, in memory: escaped names, numbers and images. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text that grows. Without memory it stays as it was and `failed` is set. */
struct html {
    char *bytes;
    size_t nbytes, cap;
    bool failed;
};

void
html_free(struct html *html);

/* Adds text that is HTML already. */
void
html_put(struct html *html, const char *text);

__attribute__((format(printf, 2, 3))) void
html_printf(struct html *html, const char *format, ...);

void
html_append(struct html *html, const struct html *other);

/* Adds text from a file: shown as tool_shown shows it, and escaped for elements
 * and for attributes in double quotes. A text of more than `max` bytes loses
 * its middle, and "..." stands there; 0: HTML_MAX_NAME. */
#define HTML_MAX_NAME 400
#define HTML_MAX_SHORT_NAME 80
void
html_text(struct html *html, const char *text, size_t max);

/* Adds a number for people, with at most `ndigits` digits: 1.2 x 10^-5, as
 * HTML; a dash for NAN. */
void
html_number(struct html *html, double number, int ndigits);

/* The same in `text_ret`. */
#define HTML_NUMBER_NBYTES 128
const char *
html_number_text(double number, int ndigits, char text_ret[HTML_NUMBER_NBYTES]);

/* A power of ten in `text_ret`. */
const char *
html_power_text(int exponent, char text_ret[HTML_NUMBER_NBYTES]);

/* Adds <data class="..." value="...">, with all digits for programs and few for
 * people. */
void
html_data(struct html *html, const char *class, double number, int ndigits);

/* The same with this number of decimals, 1 to 6. */
void
html_fixed(struct html *html, const char *class, double number, int ndecimals);

/* Adds a count with thin spaces between groups of three digits. */
void
html_count(struct html *html, uint64_t count);

/* Adds a size such as 3.42 MB. */
void
html_nbytes(struct html *html, uint64_t nbytes);

/* Adds dims such as 64 x 64 x 32; "one value" for rank 0. */
void
html_dims(struct html *html, int rank, const hsize_t *dims);

/* Adds a coordinate of a picture, with one decimal. */
void
html_coordinate(struct html *html, double coordinate);

/* Adds bytes as a URI of this media type. */
void
html_data_uri(struct html *html, const char *type, const uint8_t *bytes,
              size_t nbytes);
