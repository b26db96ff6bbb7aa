/* Text that users type, in variables, options and files of rules. What it means
 * depends on no locale: programs set one for their users, and a bound of 0.5 is
 * a bound of 0.5 in all of them. Safe for threads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Longer numbers are refused. */
#define TERP_TEXT_MAX_NUMBER 512

/* Room for a float64 of 17 digits. */
#define TERP_TEXT_NUMBER_NBYTES 32

/* Reads all of `text` as a number with a point, such as 1e-3, .5 or, as C
 * writes an exact one, 0x1.8p-4; blanks may stand before it. False, and 0,
 * where it is none or not finite. */
bool
terp_text_read_number(const char *text, double *number_ret);

/* Reads the first `length` bytes of `text` likewise. */
bool
terp_text_read_number_of(const char *text, size_t length, double *number_ret);

/* Writes a number with a point, as printf's %.*g does in the C locale, with at
 * most 17 digits. Returns `text_ret`. */
const char *
terp_text_number(double number, int ndigits,
                 char text_ret[TERP_TEXT_NUMBER_NBYTES]);

/* Whether `pattern` means the dataset at `path`, which begins with a slash.
 *
 * A pattern without a slash has to match the dataset's own name, in any group.
 * One with a slash has to match the whole path, whose first slash it may leave
 * out. * stands for any characters, slashes too, ? for one, and [abc], [a-c] or
 * [!abc] for one of these or another one; a backslash takes the meaning from
 * the next character. A character is one of UTF-8; in brackets ASCII alone. */
bool
terp_text_matches(const char *pattern, const char *path);
