/* Patterns of names. */
#include <fnmatch.h>

#include <stdbool.h>
#include <stddef.h>

/* Whether `c` is in the set that begins behind '[', and where that ends; NULL
 * where it has no end, and so is none. */
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

/* The pattern behind the part that matches one character, NULL: none does. */
static const char *
match_one(const char *pattern, char c)
{
    bool found;

    if (*pattern == '?')
        return pattern + 1;
    if (*pattern == '[') {
        const char *behind = match_set(pattern + 1, (unsigned char)c, &found);
        if (behind != NULL)
            return found ? behind : NULL;
    }
    if (*pattern == '\\')
        pattern++;
    return *pattern == c ? pattern + 1 : NULL;
}

int
fnmatch(const char *pattern, const char *text, int flags)
{
    /* Where the last star stands, and what it has been tried with: only that
     * one has to take more. */
    const char *star = NULL, *taken = NULL;

    (void)flags;
    while (*text != '\0') {
        if (*pattern == '*') {
            star = ++pattern;
            taken = text;
            continue;
        }
        const char *behind = match_one(pattern, *text);
        if (behind == NULL && star == NULL)
            return FNM_NOMATCH;
        pattern = behind != NULL ? behind : star;
        text = behind != NULL ? text + 1 : ++taken;
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0' ? 0 : FNM_NOMATCH;
}
