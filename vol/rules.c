/* Reads rules and matches patterns. */
#define _POSIX_C_SOURCE 200809L /* fnmatch, strdup */
#include "vol/rules.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More is not meant: the longest known list, of a simulation with a bound for
 * each of its variables, has 3 KB. */
#define MAX_FILE_NBYTES 65536

static bool
matches_dataset(const char *pattern, const char *path)
{
    const char *slash = strrchr(path, '/');
    bool is_whole = strchr(pattern, '/') != NULL;

    return fnmatch(pattern, is_whole || slash == NULL ? path : slash + 1, 0) ==
           0;
}

static bool
is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Reads BOUND, of which VOL_RULE_LEAVE is `none`. */
static enum vol_rule
read_bound(const char *text, struct H5Z_terp_config *config)
{
    static const struct {
        const char *name;
        unsigned mode;
    } kinds[] = {{"abs:", H5Z_TERP_ABSOLUTE},
                 {"rel:", H5Z_TERP_RELATIVE},
                 {"pwr:", H5Z_TERP_POINTWISE}};
    char *end;

    /* Optional, so that a chunk that cannot be coded is stored as it is. */
    *config = (struct H5Z_terp_config){.bound_mode = H5Z_TERP_ABSOLUTE,
                                       .flags = H5Z_FLAG_OPTIONAL};
    if (strcmp(text, "none") == 0)
        return VOL_RULE_LEAVE;
    if (strcmp(text, "lossless") == 0)
        return VOL_RULE_APPLY;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t length = strlen(kinds[i].name);
        if (strncmp(text, kinds[i].name, length) != 0)
            continue;
        config->bound_mode = kinds[i].mode;
        config->bound = strtod(text + length, &end);
        return end != text + length && *end == '\0' &&
                       isfinite(config->bound) && config->bound > 0 &&
                       (kinds[i].mode != H5Z_TERP_POINTWISE ||
                        config->bound < 1)
                   ? VOL_RULE_APPLY
                   : VOL_RULE_WRONG;
    }
    return VOL_RULE_WRONG;
}

/* Cuts the spaces around [*begin, end) off, ending the text there. */
static void
trim(char **begin, char *end)
{
    while (*begin < end && is_space(**begin))
        ++*begin;
    while (end > *begin && is_space(end[-1]))
        end--;
    *end = '\0';
}

/* One rule, which is cut up and has no spaces around it. */
static enum vol_rule
read_rule(char *rule, const char *path, struct H5Z_terp_config *config,
          char *reason)
{
    struct H5Z_terp_config bound;

    /* Names hold = now and then, bounds never. */
    char *equal = strrchr(rule, '=');
    if (equal == NULL || equal == rule) {
        snprintf(reason, VOL_REASON_NBYTES,
                 "rule \"%.100s\" is no "
                 "PATTERN=BOUND",
                 rule);
        return VOL_RULE_WRONG;
    }
    char *text = equal + 1;
    *equal = '\0';
    trim(&text, text + strlen(text));
    trim(&rule, equal);
    enum vol_rule found = read_bound(text, &bound);
    if (found == VOL_RULE_WRONG) {
        snprintf(reason, VOL_REASON_NBYTES,
                 "bound \"%.60s\" of rule \"%.60s\" is none of abs:NUMBER, "
                 "rel:NUMBER, pwr:NUMBER below 1, lossless, none",
                 text, rule);
        return VOL_RULE_WRONG;
    }
    if (path == NULL || !matches_dataset(rule, path))
        return VOL_RULE_NONE;
    *config = bound;
    return found;
}

/* All rules in `text`, which is cut up. What has no name yet may be meant by
 * any rule: the first decides, if it is for every name. */
static enum vol_rule
read_rules(char *text, const char *path, struct H5Z_terp_config *config,
           char *reason)
{
    struct H5Z_terp_config ignored;
    enum vol_rule found = VOL_RULE_NONE;
    bool is_nameless = path == NULL;

    if (is_nameless)
        path = "";
    while (text != NULL) {
        char *next = strpbrk(text, ";\n");
        if (next != NULL)
            *next++ = '\0';
        trim(&text, text + strlen(text));
        enum vol_rule rule = VOL_RULE_NONE;
        if (*text != '\0') {
            rule = read_rule(
                text, path, found == VOL_RULE_NONE ? config : &ignored, reason);
            if (is_nameless)
                path = NULL;
        }
        if (rule == VOL_RULE_WRONG)
            return rule;
        if (found == VOL_RULE_NONE)
            found = rule;
        text = next;
    }
    return found == VOL_RULE_NONE ? VOL_RULE_LEAVE : found;
}

static void
blank_comments(char *text)
{
    for (char *at = strchr(text, '#'); at != NULL; at = strchr(at, '#'))
        memset(at, ' ', strcspn(at, "\n"));
}

/* The file's text, which the caller frees; NULL with the reason. */
static char *
read_file(const char *name, char *reason)
{
    char *text = malloc(MAX_FILE_NBYTES + 1);
    FILE *file = text == NULL ? NULL : fopen(name, "re");
    size_t nbytes = 0;

    if (file != NULL)
        nbytes = fread(text, 1, MAX_FILE_NBYTES + 1, file);
    if (file == NULL || ferror(file) || nbytes > MAX_FILE_NBYTES ||
        memchr(text, '\0', nbytes) != NULL) {
        snprintf(reason, VOL_REASON_NBYTES,
                 "rules cannot be read from %.160s: %s", name,
                 file == NULL ? strerror(errno) : "it is no short text");
        free(text);
        text = NULL;
    }
    if (file != NULL)
        fclose(file);
    if (text != NULL) {
        text[nbytes] = '\0';
        blank_comments(text);
    }
    return text;
}

enum vol_rule
vol_rules_find(const char *rules, const char *path,
               struct H5Z_terp_config *config_ret,
               char reason_ret[VOL_REASON_NBYTES])
{
    if (rules == NULL || *rules == '\0')
        return VOL_RULE_NONE;
    if (*rules != '@' && strlen(rules) > MAX_FILE_NBYTES) {
        snprintf(reason_ret, VOL_REASON_NBYTES, "TERP_RULES is too long");
        return VOL_RULE_WRONG;
    }
    char *text =
        *rules == '@' ? read_file(rules + 1, reason_ret) : strdup(rules);
    if (text == NULL)
        return VOL_RULE_WRONG;
    enum vol_rule found = read_rules(text, path, config_ret, reason_ret);
    free(text);
    return found;
}
