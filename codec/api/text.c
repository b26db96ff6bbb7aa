/* Reads numbers, writes them, and matches patterns, in any locale. */
#include "codec/api/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

/* The most bytes of a locale's decimal point, which is one character. */
#define MAX_POINT_NBYTES 16

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool
is_hex_digit(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static size_t
count_digits(const char *text, bool is_hex)
{
    size_t n = 0;

    while (is_hex ? is_hex_digit(text[n]) : is_digit(text[n]))
        n++;
    return n;
}

/* Whether `text` is a number. *point_ret points to its decimal point; NULL: no
 * point. */
static bool
find_point(const char *text, const char **point_ret)
{
    *point_ret = NULL;
    text += *text == '+' || *text == '-';
    const bool is_hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    text += is_hex ? 2 : 0;
    size_t ndigits = count_digits(text, is_hex);
    text += ndigits;
    if (*text == '.') {
        *point_ret = text++;
        const size_t nmore = count_digits(text, is_hex);
        ndigits += nmore;
        text += nmore;
    }
    if (ndigits == 0)
        return false;
    if (is_hex ? *text == 'p' || *text == 'P' : *text == 'e' || *text == 'E') {
        text++;
        text += *text == '+' || *text == '-';
        ndigits = count_digits(text, false);
        text += ndigits;
    }
    return ndigits > 0 && *text == '\0';
}

/* The decimal point that strtod expects in this thread's locale. */
static bool
read_point(char point_ret[MAX_POINT_NBYTES])
{
    char half[MAX_POINT_NBYTES + 3];
    const int n = snprintf(half, sizeof half, "%.1f", 0.5);

    if (n < 3 || n > MAX_POINT_NBYTES + 1)
        return false;
    memcpy(point_ret, half + 1, (size_t)n - 2);
    point_ret[n - 2] = '\0';
    return true;
}

bool
terp_text_read_number_of(const char *text, size_t length, double *number_ret)
{
    char copy[TERP_TEXT_MAX_NUMBER], number[sizeof copy + MAX_POINT_NBYTES];
    char point_text[MAX_POINT_NBYTES];
    const char *point;

    *number_ret = 0;
    while (length > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        length--;
    }
    if (length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (!find_point(copy, &point) || !read_point(point_text))
        return false;
    if (point == NULL)
        snprintf(number, sizeof number, "%s", copy);
    else
        snprintf(number, sizeof number, "%.*s%s%s", (int)(point - copy), copy,
                 point_text, point + 1);
    char *end;
    const double value = strtod(number, &end);
    if (*end != '\0' || !isfinite(value))
        return false;
    *number_ret = value;
    return true;
}

bool
terp_text_read_number(const char *text, double *number_ret)
{
    return terp_text_read_number_of(text, strlen(text), number_ret);
}

static bool
is_of_number(char c)
{
    return is_digit(c) || c == '+' || c == '-' || (c >= 'a' && c <= 'z');
}

/* A sequence of characters other than digits, signs and letters is the locale's
 * point. */
const char *
terp_text_number(double number, int ndigits,
                 char text_ret[TERP_TEXT_NUMBER_NBYTES])
{
    char text[TERP_TEXT_NUMBER_NBYTES + MAX_POINT_NBYTES];
    size_t n = 0;

    snprintf(text, sizeof text, "%.*g", ndigits > 17 ? 17 : ndigits, number);
    for (size_t i = 0; text[i] != '\0' && n + 1 < TERP_TEXT_NUMBER_NBYTES; i++)
        if (is_of_number(text[i]))
            text_ret[n++] = text[i];
        else if (is_of_number(text[i + 1]))
            text_ret[n++] = '.';
    text_ret[n] = '\0';
    return text_ret;
}

const char *
terp_text_shortest(double number, char text_ret[TERP_TEXT_NUMBER_NBYTES])
{
    double read;

    for (int ndigits = 1; ndigits <= 17; ndigits++)
        if (terp_text_read_number(terp_text_number(number, ndigits, text_ret),
                                  &read) &&
            read == number)
            break;
    return text_ret;
}

/* ---- patterns ---- */

/* Whether `c` (0 for a character outside ASCII) is in the set that begins
 * behind '['. Returns the position behind the set's ']'; NULL: there is no ']',
 * so '[' is an ordinary character. */
static const char *
match_set(const char *set, unsigned char c, bool *found_ret)
{
    const bool is_negated = *set == '!' || *set == '^';
    bool found = false;

    set += is_negated;
    for (bool is_first = true; *set != ']' || is_first; is_first = false) {
        if (*set == '\\' && set[1] != '\0')
            set++;
        if (*set == '\0')
            return NULL;
        unsigned char low = (unsigned char)*set++, high = low;
        if (set[0] == '-' && set[1] != ']' && set[1] != '\0') {
            set += set[1] == '\\' && set[2] != '\0' ? 2 : 1;
            high = (unsigned char)*set++;
        }
        found |= low <= c && c <= high;
    }
    *found_ret = found != is_negated;
    return set + 1;
}

/* The bytes of the character at `text` in UTF-8: bytes that continue a
 * character belong to it. In invalid UTF-8, a byte that begins no character
 * stands for itself. */
static size_t
character_nbytes(const char *text)
{
    size_t n = 1;

    if ((unsigned char)text[0] >= 0xC0)
        while (n < 4 && ((unsigned char)text[n] & 0xC0) == 0x80)
            n++;
    return n;
}

/* Matches the first character of `text`, of *nbytes_ret bytes. Returns the rest
 * of the pattern; NULL: no match. */
static const char *
match_one(const char *pattern, const char *text, size_t *nbytes_ret)
{
    bool found;

    *nbytes_ret = 1;
    if (*pattern == '?' || *pattern == '[')
        *nbytes_ret = character_nbytes(text);
    if (*pattern == '?')
        return pattern + 1;
    if (*pattern == '[') {
        const unsigned char c = (unsigned char)*text;
        const char *behind = match_set(pattern + 1, c < 0x80 ? c : 0, &found);
        if (behind != NULL)
            return found ? behind : NULL;
        *nbytes_ret = 1;
    }
    if (*pattern == '\\')
        pattern++;
    return *pattern == *text ? pattern + 1 : NULL;
}

static bool
matches(const char *pattern, const char *text)
{
    /* The position behind the last star, and the text that this star has not
     * yet taken. Only the last star ever needs to take more. */
    const char *star = NULL, *taken = NULL;
    size_t nbytes;

    while (*text != '\0') {
        if (*pattern == '*') {
            star = ++pattern;
            taken = text;
            continue;
        }
        const char *behind = match_one(pattern, text, &nbytes);
        if (behind == NULL && star == NULL)
            return false;
        if (behind != NULL) {
            pattern = behind;
            text += nbytes;
        } else {
            pattern = star;
            taken += character_nbytes(taken);
            text = taken;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

bool
terp_text_matches(const char *pattern, const char *path)
{
    const char *slash = strrchr(path, '/');

    if (strchr(pattern, '/') == NULL)
        return matches(pattern, slash == NULL ? path : slash + 1);
    return matches(pattern, path) ||
           (*path == '/' && matches(pattern, path + 1));
}
