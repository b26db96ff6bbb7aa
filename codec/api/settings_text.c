/* Reads and writes settings as text. */
#include "codec/api/settings_text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "codec/format/environment.h"

_Static_assert(TERP_SETTINGS_MAX_NWORDS == TERP_CD_MAX_NUSER_WORDS,
               "terp.h gives callers room for every form");

static bool
refuse(const char **reason_ret, const char *reason)
{
    *reason_ret = reason;
    return false;
}

/* ---- words ---- */

#define MAX_NDIGITS 15
#define MAX_NBITS 52

/* A whole number from 1 to `most`; 0: another word. */
static int
count_of(const char *word, int most)
{
    double number;

    return terp_text_read_number(word, &number) && number >= 1 &&
                   number <= most && number == (int)number
               ? (int)number
               : 0;
}

/* The pointwise bounds of h5z_terp.h: half a unit of the last digit or bit. */
static double
bound_of_digits(int ndigits)
{
    char text[TERP_TEXT_NUMBER_NBYTES];
    double bound;

    snprintf(text, sizeof text, "5e-%d", ndigits + 1);
    return terp_text_read_number(text, &bound) ? bound : 0;
}

static bool
is_word(const char *word, const char *lower, const char *capital)
{
    return strcmp(word, lower) == 0 || strcmp(word, capital) == 0;
}

static struct terp_setting_value
value_of_number(double number)
{
    return (struct terp_setting_value){.kind = TERP_KIND_NUMBER,
                                       .number = number};
}

/* Numbers between separators; a missing number is a null. Returns false if
 * there are too many, or one is not a number. */
static bool
read_items(const char *word, const char *separators,
           struct terp_setting_value *value_ret)
{
    *value_ret = (struct terp_setting_value){.kind = TERP_KIND_ARRAY};
    for (bool is_last = false; !is_last;) {
        const size_t n = strcspn(word, separators);
        struct terp_setting_item *item = &value_ret->items[value_ret->nitems];
        if (value_ret->nitems++ == TERP_SETTING_MAX_NITEMS)
            return false;
        item->is_null = n == 0;
        if (n > 0 && !terp_text_read_number_of(word, n, &item->number))
            return false;
        is_last = word[n] == '\0';
        word += n + 1;
    }
    return true;
}

/* Reads a word as `setting` takes it. False: the word is not a value of any
 * setting. */
static bool
read_word(const char *name, const char *word,
          struct terp_setting_value *value_ret)
{
    double number;

    *value_ret = (struct terp_setting_value){.kind = TERP_KIND_STRING};
    if (strcmp(name, terp_setting_name(TERP_SETTING_VALID_RANGE)) == 0)
        return read_items(word, ":", value_ret);
    if (strcmp(name, terp_setting_name(TERP_SETTING_DIMS)) == 0)
        return read_items(word, "x", value_ret);
    value_ret->is_true = is_word(word, "true", "True");
    if (value_ret->is_true || is_word(word, "false", "False")) {
        value_ret->kind = TERP_KIND_BOOL;
        return true;
    }
    if (terp_text_read_number(word, &number)) {
        *value_ret = value_of_number(number);
        return true;
    }
    const int n =
        snprintf(value_ret->string, sizeof value_ret->string, "%s", word);
    return n >= 0 && (size_t)n < sizeof value_ret->string;
}

/* Takes over "abs", "lossless" and so on. */
static bool
take_mode(struct terp_worded_settings *worded, const char *word,
          const char **reason_ret)
{
    for (int mode = 0; mode < TERP_NBOUND_MODES; mode++)
        if (strcmp(word, terp_setting_name((enum terp_setting)mode)) == 0) {
            worded->mode = (enum terp_setting)mode;
            worded->has_mode = true;
            return true;
        }
    return refuse(reason_ret, "mode must be \"abs\", \"rel\", \"pwr\", "
                              "\"psnr\" or \"lossless\"");
}

static const char one_pointwise[] = "give one of pwr, digits and bits";

static bool
take_pointwise(struct terp_worded_settings *worded, double bound,
               const char **reason_ret)
{
    const struct terp_setting_value value = value_of_number(bound);

    if (worded->settings.has_bound[TERP_SETTING_PWR])
        return refuse(reason_ret, one_pointwise);
    return terp_settings_take(&worded->settings,
                              terp_setting_name(TERP_SETTING_PWR), &value,
                              reason_ret);
}

TERP_GUARDED bool
take_guarded(struct terp_worded_settings *worded, const char *name,
             const char *word, const char **reason_ret)
{
    struct terp_setting_value value;

    if (strcmp(name, "mode") == 0)
        return take_mode(worded, word, reason_ret);
    if (strcmp(name, "bound") == 0) {
        worded->has_bound = terp_text_read_number(word, &worded->bound);
        return worded->has_bound ||
               refuse(reason_ret, "bound must be a number");
    }
    if (strcmp(name, "digits") == 0) {
        const int ndigits = count_of(word, MAX_NDIGITS);
        return ndigits == 0
                   ? refuse(reason_ret, "digits must be a number from 1 to 15")
                   : take_pointwise(worded, bound_of_digits(ndigits),
                                    reason_ret);
    }
    if (strcmp(name, "bits") == 0) {
        const int nbits = count_of(word, MAX_NBITS);
        return nbits == 0
                   ? refuse(reason_ret, "bits must be a number from 1 to 52")
                   : take_pointwise(worded, ldexp(1, -nbits - 1), reason_ret);
    }
    if (strcmp(name, terp_setting_name(TERP_SETTING_PWR)) == 0 &&
        worded->settings.has_bound[TERP_SETTING_PWR])
        return refuse(reason_ret, one_pointwise);
    /* No setting takes the empty string. */
    if (!read_word(name, word, &value))
        value = (struct terp_setting_value){.kind = TERP_KIND_STRING};
    if (strcmp(name, terp_setting_name(TERP_SETTING_LOSSLESS)) == 0 &&
        !value.is_true)
        return refuse(reason_ret, "lossless must be true");
    return terp_settings_take(&worded->settings, name, &value, reason_ret);
}

bool
terp_settings_take_word(struct terp_worded_settings *worded, const char *name,
                        const char *word, const char **reason_ret)
{
    struct terp_environment host;

    terp_environment_enter(&host);
    const bool is_taken = take_guarded(worded, name, word, reason_ret);
    terp_environment_leave(&host);
    return is_taken;
}

TERP_GUARDED size_t
end_guarded(const struct terp_worded_settings *worded, bool exact,
            unsigned *words_ret, const char **reason_ret)
{
    struct terp_settings settings = worded->settings;
    const bool needs_bound =
        worded->has_mode && worded->mode != TERP_SETTING_LOSSLESS;

    if (worded->has_bound != needs_bound) {
        *reason_ret = worded->has_bound
                          ? "bound needs a mode: abs, rel, pwr or psnr"
                          : "mode needs a bound";
        return 0;
    }
    if (terp_settings_nbounds(&settings) + worded->has_mode > 1) {
        *reason_ret = "give one bound";
        return 0;
    }
    if (worded->has_mode) {
        settings.has_bound[worded->mode] = true;
        settings.cd.params.bound_mode = (enum terp_bound_mode)worded->mode;
        settings.cd.params.bound = worded->bound;
    }
    if (terp_settings_nbounds(&settings) == 0)
        settings.has_bound[TERP_SETTING_LOSSLESS] = true;
    return terp_settings_end(&settings, exact, words_ret, reason_ret);
}

size_t
terp_settings_end_words(const struct terp_worded_settings *worded, bool exact,
                        unsigned words_ret[TERP_CD_MAX_NUSER_WORDS],
                        const char **reason_ret)
{
    struct terp_environment host;

    terp_environment_enter(&host);
    const size_t nwords = end_guarded(worded, exact, words_ret, reason_ret);
    terp_environment_leave(&host);
    return nwords;
}

/* ---- reading ---- */

/* The longest name or word: two numbers of 17 digits and a colon. */
#define MAX_TOKEN (2 * TERP_TEXT_NUMBER_NBYTES)
#define BLANKS " \t\r\n"
#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyz_"
#define WORD_CHARACTERS \
    NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-:"

static bool
take(const char **at, char c)
{
    *at += strspn(*at, BLANKS);
    if (**at != c)
        return false;
    ++*at;
    return true;
}

/* Takes `n` characters, which must be at least one. */
static bool
take_characters(const char **at, size_t n, char token_ret[MAX_TOKEN])
{
    if (n == 0 || n >= MAX_TOKEN)
        return false;
    memcpy(token_ret, *at, n);
    token_ret[n] = '\0';
    *at += n;
    return true;
}

/* Takes a bare word, or a string in quotes of either kind. */
static bool
take_word(const char **at, char token_ret[MAX_TOKEN])
{
    *at += strspn(*at, BLANKS);
    const char quote = **at;
    if (quote != '"' && quote != '\'')
        return take_characters(at, strspn(*at, WORD_CHARACTERS), token_ret);
    ++*at;
    const char *const end = strchr(*at, quote);
    return end != NULL && take_characters(at, (size_t)(end - *at), token_ret) &&
           take(at, quote);
}

/* The names that no other host has. */
static const char *const more_names[] = {"mode", "bound", "digits", "bits"};
#define NMORE_NAMES (int)(sizeof more_names / sizeof *more_names)

/* Returns false if the text has named the setting before. */
static bool
is_first(const char *name, uint32_t *seen)
{
    int i = 0;

    while (i < TERP_NSETTINGS &&
           strcmp(name, terp_setting_name((enum terp_setting)i)) != 0)
        i++;
    while (i >= TERP_NSETTINGS && i < TERP_NSETTINGS + NMORE_NAMES &&
           strcmp(name, more_names[i - TERP_NSETTINGS]) != 0)
        i++;
    const bool is_known = *seen >> i & 1;
    *seen |= UINT32_C(1) << i;
    return !is_known;
}

static bool
read_pairs(const char *at, struct terp_worded_settings *worded,
           const char **reason_ret)
{
    static const char not_text[] =
        "the text must be pairs such as mode=\"rel\", bound=1e-3";
    const bool is_braced = take(&at, '{');
    uint32_t seen = 0;
    char name[MAX_TOKEN], word[MAX_TOKEN];

    at += strspn(at, BLANKS);
    for (bool more = *at != '\0' && *at != '}'; more; more = take(&at, ',')) {
        at += strspn(at, BLANKS);
        if (!take_characters(&at, strspn(at, NAME_CHARACTERS), name) ||
            !take(&at, '=') || !take_word(&at, word))
            return refuse(reason_ret, not_text);
        if (!is_first(name, &seen))
            return refuse(reason_ret, "a setting occurs twice");
        if (!take_guarded(worded, name, word, reason_ret))
            return false;
    }
    if (is_braced && !take(&at, '}'))
        return refuse(reason_ret, not_text);
    at += strspn(at, BLANKS);
    return *at == '\0' || refuse(reason_ret, not_text);
}

TERP_GUARDED enum terp_status
read_guarded(const char *text, unsigned *words_ret, size_t *nwords_ret,
             const char **reason_ret)
{
    struct terp_worded_settings worded = {.has_mode = false};

    *nwords_ret = 0;
    if (!read_pairs(text, &worded, reason_ret))
        return TERP_ERR_PARAMS;
    *nwords_ret = end_guarded(&worded, false, words_ret, reason_ret);
    return *nwords_ret == 0 ? TERP_ERR_PARAMS : TERP_OK;
}

enum terp_status
terp_settings_read(const char *text,
                   unsigned cd_values_ret[TERP_SETTINGS_MAX_NWORDS],
                   size_t *cd_nelmts_ret, const char **reason_ret)
{
    struct terp_environment host;
    const char *unused;

    terp_environment_enter(&host);
    const enum terp_status st =
        read_guarded(text, cd_values_ret, cd_nelmts_ret,
                     reason_ret != NULL ? reason_ret : &unused);
    terp_environment_leave(&host);
    return st;
}

/* ---- writing ---- */

struct writer {
    char *text;
    size_t n;
};

__attribute__((format(printf, 2, 3))) static void
put(struct writer *writer, const char *format, ...)
{
    va_list arguments;
    int n;

    va_start(arguments, format);
    n = vsnprintf(writer->text + writer->n,
                  TERP_SETTINGS_TEXT_NBYTES - writer->n, format, arguments);
    va_end(arguments);
    writer->n += n < 0 ? 0 : (size_t)n;
}

static void
put_items(struct writer *writer, enum terp_setting setting,
          const struct terp_setting_value *value)
{
    char text[TERP_TEXT_NUMBER_NBYTES];

    for (int i = 0; i < value->nitems; i++) {
        if (i > 0)
            put(writer, "%s", setting == TERP_SETTING_DIMS ? "x" : ":");
        if (!value->items[i].is_null)
            put(writer, "%s", terp_text_shortest(value->items[i].number, text));
    }
}

static void
put_setting(struct writer *writer, const struct terp_listed_setting *listed)
{
    const struct terp_setting_value *value = &listed->value;
    char text[TERP_TEXT_NUMBER_NBYTES];

    put(writer, ", %s=", terp_setting_name(listed->setting));
    if (listed->setting == TERP_SETTING_FORMAT)
        put(writer, "1");
    else if (value->kind == TERP_KIND_NUMBER)
        put(writer, "%s", terp_setting_number(value->number, text));
    else if (value->kind == TERP_KIND_STRING)
        put(writer, "\"%s\"", value->string);
    else {
        put(writer, "\"");
        put_items(writer, listed->setting, value);
        put(writer, "\"");
    }
}

TERP_GUARDED void
write_guarded(const struct terp_cd *cd, struct writer *writer)
{
    struct terp_listed_setting listed[TERP_NSETTINGS];
    const size_t n = terp_settings_list(cd, listed);
    char text[TERP_TEXT_NUMBER_NBYTES];

    put(writer, "mode=\"%s\"", terp_setting_name(listed[0].setting));
    if (listed[0].setting != TERP_SETTING_LOSSLESS)
        put(writer, ", bound=%s",
            terp_setting_number(listed[0].value.number, text));
    for (size_t i = 1; i < n; i++)
        put_setting(writer, &listed[i]);
}

enum terp_status
terp_settings_write(size_t cd_nelmts, const unsigned *cd_values,
                    char text_ret[TERP_SETTINGS_TEXT_NBYTES],
                    const char **reason_ret)
{
    struct writer writer = {text_ret, 0};
    const char *unused;
    struct terp_environment host;
    struct terp_cd cd;

    text_ret[0] = '\0';
    const enum terp_status st =
        terp_cd_parse(cd_nelmts, cd_values, &cd, reason_ret);
    if (st != TERP_OK)
        return st;
    if (cd.nrules > 0) {
        refuse(reason_ret != NULL ? reason_ret : &unused,
               "a text cannot hold the bounds of members");
        return TERP_ERR_PARAMS;
    }
    terp_environment_enter(&host);
    write_guarded(&cd, &writer);
    terp_environment_leave(&host);
    return TERP_OK;
}
