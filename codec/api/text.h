/* Text that users type in variables, options and files of rules. Its meaning
 * does not depend on the locale: programs set a locale for their users, and 0.5
 * must remain 0.5 in all of them. Safe for threads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Longer numbers are refused. */
#define TERP_TEXT_MAX_NUMBER 512

/* Buffer for a float64 of 17 digits. */
#define TERP_TEXT_NUMBER_NBYTES 32

/* Reads all of `text` as a number with a decimal point, such as 1e-3, .5 or C's
 * exact notation 0x1.8p-4; leading blanks are allowed. Returns false, and the
 * number 0, if `text` is not a finite number. */
bool
terp_text_read_number(const char *text, double *number_ret);

/* Reads the first `length` bytes of `text` in the same way. */
bool
terp_text_read_number_of(const char *text, size_t length, double *number_ret);

/* Writes a number with a decimal point, as printf's %.*g does in the C locale,
 * with at most 17 digits. Returns `text_ret`. */
const char *
terp_text_number(double number, int ndigits,
                 char text_ret[TERP_TEXT_NUMBER_NBYTES]);

/* Writes a finite number with as few digits as give the same float64 again.
 * Returns `text_ret`. */
const char *
terp_text_shortest(double number, char text_ret[TERP_TEXT_NUMBER_NBYTES]);

/* Whether `pattern` matches the dataset at `path`, which begins with a slash.
 *
 * A pattern without a slash must match the dataset's own name, in any group. A
 * pattern with a slash must match the whole path; its leading slash may be
 * omitted. * matches any characters, also slashes; ? matches one character;
 * [abc] and [a-c] match one of the characters, [!abc] any other character; a
 * backslash makes the next character an ordinary one. Characters are those of
 * UTF-8, but brackets may contain ASCII only. */
bool
terp_text_matches(const char *pattern, const char *path);
