/* Parses rules. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "vol/rules.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/text.h"
#include "codec/format/environment.h"

/* Bounds the text of the rules, and so the memory for it. The longest known
 * list, of a simulation with a bound for each variable, has 3 KB. */
#define MAX_FILE_NBYTES 65536

static bool
is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Reads `text`, digits only, as a number from 1 to `max`. */
static bool
read_count(const char *text, uint64_t max, uint64_t *count_ret)
{
    uint64_t count = 0;

    if (*text == '\0')
        return false;
    for (; *text >= '0' && *text <= '9' && count <= max; text++)
        count = 10 * count + (uint64_t)(*text - '0');
    *count_ret = count;
    return *text == '\0' && count > 0 && count <= max;
}

static bool
read_absolute(const char *text, struct H5Z_terp_config *config)
{
    config->bound_mode = H5Z_TERP_ABSOLUTE;
    return terp_text_read_number(text, &config->bound) && config->bound > 0;
}

static bool
read_relative(const char *text, struct H5Z_terp_config *config)
{
    config->bound_mode = H5Z_TERP_RELATIVE;
    return terp_text_read_number(text, &config->bound) && config->bound > 0;
}

/* NUMBER or NUMBER:FLOOR. */
static bool
read_pointwise(const char *text, struct H5Z_terp_config *config)
{
    const size_t length = strcspn(text, ":");

    config->bound_mode = H5Z_TERP_POINTWISE;
    return terp_text_read_number_of(text, length, &config->bound) &&
           config->bound > 0 && config->bound < 1 &&
           (text[length] == '\0' ||
            (terp_text_read_number(text + length + 1, &config->floor) &&
             config->floor > 0));
}

static bool
read_digits(const char *text, struct H5Z_terp_config *config)
{
    uint64_t n;

    if (!read_count(text, H5Z_TERP_MAX_NDIGITS, &n))
        return false;
    config->bound_mode = H5Z_TERP_POINTWISE;
    config->bound = H5Z_terp_bound_of_digits((unsigned)n);
    return true;
}

static bool
read_bits(const char *text, struct H5Z_terp_config *config)
{
    uint64_t n;

    if (!read_count(text, H5Z_TERP_MAX_NBITS, &n))
        return false;
    config->bound_mode = H5Z_TERP_POINTWISE;
    config->bound = H5Z_terp_bound_of_bits((unsigned)n);
    return true;
}

/* Reads BOUND; returns VOL_RULE_LEAVE for "none". */
static enum vol_rule
read_bound(const char *text, struct H5Z_terp_config *config)
{
    static const struct {
        const char *name;
        bool (*read)(const char *text, struct H5Z_terp_config *config);
    } kinds[] = {{"abs:", read_absolute},
                 {"rel:", read_relative},
                 {"pwr:", read_pointwise},
                 {"digits:", read_digits},
                 {"bits:", read_bits}};

    /* Optional, so that a chunk that cannot be coded is stored uncompressed. */
    *config = (struct H5Z_terp_config){.bound_mode = H5Z_TERP_ABSOLUTE,
                                       .flags = H5Z_FLAG_OPTIONAL};
    if (strcmp(text, "none") == 0)
        return VOL_RULE_LEAVE;
    if (strcmp(text, "lossless") == 0)
        return VOL_RULE_APPLY;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t length = strlen(kinds[i].name);
        if (strncmp(text, kinds[i].name, length) == 0)
            return kinds[i].read(text + length, config) ? VOL_RULE_APPLY
                                                        : VOL_RULE_WRONG;
    }
    return VOL_RULE_WRONG;
}

/* Cuts off the spaces around the text [*begin, end), and ends it with a 0. */
static void
trim(char **begin, char *end)
{
    while (*begin < end && is_space(**begin))
        ++*begin;
    while (end > *begin && is_space(end[-1]))
        end--;
    *end = '\0';
}

/* Reads AxBxC, and writes zeros into the text. */
static bool
read_chunk(char *text, struct vol_choice *choice)
{
    while (text != NULL) {
        char *next = strchr(text, 'x');
        uint64_t dim;
        if (next != NULL)
            *next++ = '\0';
        if (choice->rank == H5S_MAX_RANK || !read_count(text, UINT32_MAX, &dim))
            return false;
        choice->chunk[choice->rank++] = dim;
        text = next;
    }
    return true;
}

/* The names are the same as for the tool's --keep-sign. */
static bool
read_keep_sign(const char *text, struct H5Z_terp_config *config)
{
    const bool of_chunk = strcmp(text, ":chunk") == 0;

    config->keep_sign =
        of_chunk ? H5Z_TERP_KEEP_SIGN_OF_CHUNK : H5Z_TERP_KEEP_SIGN_OF_VALUES;
    return of_chunk || *text == '\0' || strcmp(text, ":values") == 0;
}

/* Reads MIN:MAX; one of the numbers may be empty. */
static bool
read_valid_range(const char *text, struct H5Z_terp_config *config)
{
    const size_t length = strcspn(text, ":");
    const char *end = text + length;

    config->has_valid_range = 1;
    config->valid_min = -INFINITY;
    config->valid_max = INFINITY;
    return *end == ':' && text[1] != '\0' &&
           (length == 0 ||
            terp_text_read_number_of(text, length, &config->valid_min)) &&
           (end[1] == '\0' ||
            terp_text_read_number(end + 1, &config->valid_max)) &&
           config->valid_min <= config->valid_max;
}

/* Reads NAME:BOUND. The bound begins where its name first appears. */
static bool
read_member(char *text, struct vol_choice *choice)
{
    static const char *const bounds[] = {
        ":abs:", ":rel:", ":pwr:", ":digits:", ":bits:", ":lossless"};
    unsigned words[H5Z_TERP_MAX_ALL_NWORDS] = {0};
    struct H5Z_terp_config config;
    char *bound = NULL;

    for (size_t i = 0; i < sizeof bounds / sizeof *bounds && bound == NULL; i++)
        bound = strstr(text, bounds[i]);
    if (bound == NULL || bound == text ||
        choice->nmembers == H5Z_TERP_MAX_NBOUNDED)
        return false;
    *bound = '\0';
    const bool is_good = read_bound(bound + 1, &config) == VOL_RULE_APPLY &&
                         config.floor == 0 &&
                         H5Z_terp_add_member(text, &config, words, 1) > 0;
    *bound = ':';
    memcpy(choice->members[choice->nmembers++], words + 1,
           sizeof choice->members[0]);
    choice->has_compounds = true;
    return is_good;
}

static bool
read_option(char *text, struct vol_choice *choice)
{
    if (strncmp(text, "member:", 7) == 0)
        return read_member(text + 7, choice);
    if (strncmp(text, "keep-sign", 9) == 0)
        return read_keep_sign(text + 9, &choice->config);
    if (strncmp(text, "valid-range:", 12) == 0)
        return read_valid_range(text + 12, &choice->config);
    if (strcmp(text, "small") == 0) {
        choice->has_small = true;
    } else if (strcmp(text, "replace-filters") == 0) {
        choice->replaces_filters = true;
    } else if (strcmp(text, "components") == 0) {
        choice->has_components = true;
    } else if (strcmp(text, "compound") == 0) {
        choice->has_compounds = true;
    } else if (strcmp(text, "chunk") == 0 || strncmp(text, "chunk:", 6) == 0) {
        const bool is_first = !choice->replaces_chunks;
        choice->replaces_chunks = true;
        return is_first && (text[5] == '\0' || read_chunk(text + 6, choice));
    } else {
        return false;
    }
    return true;
}

/* Reads BOUND[,OPTION ...], and writes zeros into the text. *wrong_ret is the
 * bound or option that was read last. */
TERP_GUARDED enum vol_rule
read_choice(char *text, struct vol_choice *choice, const char **wrong_ret)
{
    char *next = strchr(text, ',');

    *choice = (struct vol_choice){0};
    if (next != NULL)
        *next++ = '\0';
    trim(&text, text + strlen(text));
    *wrong_ret = text;
    enum vol_rule found = read_bound(text, &choice->config);
    if (found == VOL_RULE_LEAVE && next != NULL)
        return VOL_RULE_WRONG;
    while (found == VOL_RULE_APPLY && next != NULL) {
        text = next;
        next = strchr(text, ',');
        if (next != NULL)
            *next++ = '\0';
        trim(&text, text + strlen(text));
        *wrong_ret = text;
        if (!read_option(text, choice))
            found = VOL_RULE_WRONG;
    }
    return found;
}

/* Reads one rule without spaces around it, and writes zeros into the text. */
static enum vol_rule
read_rule(char *rule, const char *path, struct vol_choice *choice, char *reason)
{
    struct vol_choice read;
    const char *wrong;
    struct terp_environment host;

    /* A pattern may contain =; a bound or an option never does. */
    char *equal = strrchr(rule, '=');
    if (equal == NULL || equal == rule) {
        snprintf(reason, VOL_REASON_NBYTES,
                 "rule \"%.100s\" must have the form "
                 "PATTERN=BOUND[,OPTION...]",
                 rule);
        return VOL_RULE_WRONG;
    }
    *equal = '\0';
    trim(&rule, equal);
    terp_environment_enter(&host);
    enum vol_rule found = read_choice(equal + 1, &read, &wrong);
    terp_environment_leave(&host);
    if (found == VOL_RULE_WRONG) {
        snprintf(reason, VOL_REASON_NBYTES,
                 "in the rule for \"%.40s\", \"%.40s\" must be a bound "
                 "(abs:X, rel:X, pwr:X below 1, pwr:X:FLOOR, digits:N, bits:N, "
                 "lossless, or none without options) or, after a bound, an "
                 "option (chunk, chunk:AxBxC, replace-filters, small, "
                 "keep-sign, keep-sign:chunk, valid-range:MIN:MAX, "
                 "components, compound, member:NAME:BOUND)",
                 rule, wrong);
        return VOL_RULE_WRONG;
    }
    if (path == NULL || !terp_text_matches(rule, path))
        return VOL_RULE_NONE;
    *choice = read;
    return found;
}

/* Reads all rules in `text`, and writes zeros into it. For an anonymous dataset
 * only the first rule counts, and only if its pattern matches every name. */
static enum vol_rule
read_rules(char *text, const char *path, struct vol_choice *choice,
           char *reason)
{
    struct vol_choice ignored;
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
                text, path, found == VOL_RULE_NONE ? choice : &ignored, reason);
            if (is_nameless)
                path = NULL;
        }
        if (rule == VOL_RULE_WRONG)
            return rule;
        if (found == VOL_RULE_NONE)
            found = rule;
        text = next;
    }
    return found == VOL_RULE_NONE ? VOL_RULE_UNMATCHED : found;
}

static void
blank_comments(char *text)
{
    for (char *at = strchr(text, '#'); at != NULL; at = strchr(at, '#'))
        memset(at, ' ', strcspn(at, "\n"));
}

/* The file's text, which the caller frees; NULL, with the reason, on failure.
 */
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
                 file == NULL ? strerror(errno)
                              : "it must be text of at most 64 KiB");
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
               struct vol_choice *choice_ret,
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
    if (text == NULL && *rules != '@')
        snprintf(reason_ret, VOL_REASON_NBYTES, "out of memory");
    if (text == NULL)
        return VOL_RULE_WRONG;
    enum vol_rule found = read_rules(text, path, choice_ret, reason_ret);
    free(text);
    return found;
}
