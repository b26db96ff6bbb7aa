/* Reads and writes the JSON of terp's Zarr codec. */
#include "filter/plugin/zarr_json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "codec/api/settings.h"
#include "codec/format/environment.h"

/* ---- JSON ---- */

static void
skip_blanks(const char **at)
{
    *at += strspn(*at, " \t\r\n");
}

/* Skips blanks, and `c` if it is next. */
static bool
take(const char **at, char c)
{
    skip_blanks(at);
    if (**at != c)
        return false;
    ++*at;
    return true;
}

static bool
take_word(const char **at, const char *word)
{
    const size_t n = strlen(word);

    if (strncmp(*at, word, n) != 0)
        return false;
    *at += n;
    return true;
}

static size_t
count_digits(const char *text)
{
    return strspn(text, "0123456789");
}

/* A number as JSON writes it: no hexadecimal digits, no leading +, . or 0. */
static bool
read_number(const char **at, double *number_ret)
{
    const char *const begin = *at;
    const char *end = begin + (*begin == '-');
    const size_t nwhole = count_digits(end);

    if (nwhole == 0 || (*end == '0' && nwhole > 1))
        return false;
    end += nwhole;
    if (*end == '.') {
        const size_t nmore = count_digits(end + 1);
        if (nmore == 0)
            return false;
        end += 1 + nmore;
    }
    if (*end == 'e' || *end == 'E') {
        const char *digits = end + 1 + (end[1] == '+' || end[1] == '-');
        if (count_digits(digits) == 0)
            return false;
        end = digits + count_digits(digits);
    }
    *at = end;
    return terp_text_read_number_of(begin, (size_t)(end - begin), number_ret);
}

/* Cuts a long string: terp knows none that is as long. An escaped character
 * reads as ?, because no string that terp knows has one. */
static bool
read_string(const char **at, char string_ret[TERP_SETTING_MAX_STRING])
{
    size_t n = 0;

    if (!take(at, '"'))
        return false;
    for (; **at != '"'; ++*at) {
        char c = **at;
        if ((unsigned char)c < 0x20)
            return false;
        if (c == '\\') {
            c = '?';
            ++*at;
            if (**at == '\0')
                return false;
        }
        if (n + 1 < TERP_SETTING_MAX_STRING)
            string_ret[n++] = c;
    }
    string_ret[n] = '\0';
    ++*at;
    return true;
}

static bool
read_item(const char **at, struct terp_setting_item *item_ret)
{
    *item_ret = (struct terp_setting_item){false, 0};
    skip_blanks(at);
    item_ret->is_null = take_word(at, "null");
    return item_ret->is_null || read_number(at, &item_ret->number);
}

static bool
read_array(const char **at, struct terp_setting_value *value_ret)
{
    value_ret->kind = TERP_KIND_ARRAY;
    ++*at;
    if (take(at, ']'))
        return true;
    do {
        if (value_ret->nitems == TERP_SETTING_MAX_NITEMS ||
            !read_item(at, &value_ret->items[value_ret->nitems++]))
            return false;
    } while (take(at, ','));
    return take(at, ']');
}

static bool
read_value(const char **at, struct terp_setting_value *value_ret)
{
    *value_ret = (struct terp_setting_value){.kind = TERP_KIND_NULL};
    skip_blanks(at);
    if (take_word(at, "null"))
        return true;
    if (take_word(at, "true")) {
        value_ret->kind = TERP_KIND_BOOL;
        value_ret->is_true = true;
        return true;
    }
    if (take_word(at, "false")) {
        value_ret->kind = TERP_KIND_BOOL;
        return true;
    }
    if (**at == '"') {
        value_ret->kind = TERP_KIND_STRING;
        return read_string(at, value_ret->string);
    }
    if (**at == '[')
        return read_array(at, value_ret);
    value_ret->kind = TERP_KIND_NUMBER;
    return read_number(at, &value_ret->number);
}

/* ---- reading ---- */

static bool
refuse(const char **reason_ret, const char *reason)
{
    *reason_ret = reason;
    return false;
}

static bool
read_id(const struct terp_setting_value *value, bool *has_id_ret,
        const char **reason_ret)
{
    *has_id_ret =
        value->kind == TERP_KIND_STRING && strcmp(value->string, "terp") == 0;
    return *has_id_ret || refuse(reason_ret, "id must be \"terp\"");
}

static bool
read_object(const char *at, struct terp_settings *settings, bool *has_id_ret,
            const char **reason_ret)
{
    static const char not_json[] =
        "it must be a JSON object of numbers, strings and short arrays";
    char name[TERP_SETTING_MAX_STRING];
    struct terp_setting_value value;

    *has_id_ret = false;
    if (!take(&at, '{'))
        return refuse(reason_ret, not_json);
    if (take(&at, '}'))
        return true;
    do {
        if (!read_string(&at, name) || !take(&at, ':'))
            return refuse(reason_ret, not_json);
        if (!read_value(&at, &value))
            return refuse(reason_ret,
                          strcmp(name, terp_setting_name(TERP_SETTING_DIMS)) ==
                                  0
                              ? "dims must be one to three positive numbers"
                              : not_json);
        if (strcmp(name, "id") == 0
                ? !read_id(&value, has_id_ret, reason_ret)
                : !terp_settings_take(settings, name, &value, reason_ret))
            return false;
    } while (take(&at, ','));
    if (!take(&at, '}'))
        return refuse(reason_ret, not_json);
    skip_blanks(&at);
    return *at == '\0' || refuse(reason_ret, not_json);
}

TERP_GUARDED bool
read_guarded(const char *json, unsigned *words_ret, size_t *nwords_ret,
             const char **reason_ret)
{
    struct terp_settings settings = {.cd = {.nlogical = 0}};
    bool has_id;

    *nwords_ret = 0;
    if (!read_object(json, &settings, &has_id, reason_ret))
        return false;
    if (!has_id)
        return refuse(reason_ret, "id must be \"terp\"");
    if (terp_settings_nbounds(&settings) == 0)
        return true;
    *nwords_ret = terp_settings_end(&settings, true, words_ret, reason_ret);
    return *nwords_ret > 0;
}

bool
terp_zarr_json_read(const char *json, unsigned words_ret[TERP_CD_MAX_NWORDS],
                    size_t *nwords_ret, const char **reason_ret)
{
    struct terp_environment host;

    _Static_assert(TERP_CD_MAX_NUSER_WORDS <= TERP_CD_MAX_NWORDS,
                   "the caller's words hold every exact form");
    terp_environment_enter(&host);
    const bool is_valid = read_guarded(json, words_ret, nwords_ret, reason_ret);
    terp_environment_leave(&host);
    return is_valid;
}

/* ---- writing ---- */

struct writer {
    char *json;
    size_t n;
};

__attribute__((format(printf, 2, 3))) static void
put(struct writer *writer, const char *format, ...)
{
    char *const end = writer->json + writer->n;
    va_list arguments;
    int n;

    va_start(arguments, format);
    /* clang-tidy loses track in a file that is built more than once. */
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
    n = vsnprintf(end, TERP_ZARR_JSON_NBYTES - writer->n, format, arguments);
    va_end(arguments);
    writer->n += n < 0 ? 0 : (size_t)n;
}

/* Numbers as Python's json writes them; dims and the format are whole. */
static void
put_number(struct writer *writer, enum terp_setting setting, double number)
{
    char text[TERP_TEXT_NUMBER_NBYTES];

    if (setting == TERP_SETTING_DIMS || setting == TERP_SETTING_FORMAT)
        put(writer, "%.0f", number);
    else
        put(writer, "%s", terp_setting_number(number, text));
}

static void
put_array(struct writer *writer, enum terp_setting setting,
          const struct terp_setting_value *value)
{
    for (int i = 0; i < value->nitems; i++) {
        put(writer, i == 0 ? "[" : ", ");
        if (value->items[i].is_null)
            put(writer, "null");
        else
            put_number(writer, setting, value->items[i].number);
    }
    put(writer, "]");
}

TERP_GUARDED void
write_guarded(const struct terp_cd *cd, struct writer *writer)
{
    struct terp_listed_setting listed[TERP_NSETTINGS];
    const size_t n = terp_settings_list(cd, listed);

    put(writer, "{\"id\": \"terp\"");
    for (size_t i = 0; i < n; i++) {
        const enum terp_setting setting = listed[i].setting;
        const struct terp_setting_value *value = &listed[i].value;
        put(writer, ", \"%s\": ", terp_setting_name(setting));
        if (value->kind == TERP_KIND_BOOL)
            put(writer, "true");
        else if (value->kind == TERP_KIND_STRING)
            put(writer, "\"%s\"", value->string);
        else if (value->kind == TERP_KIND_NUMBER)
            put_number(writer, setting, value->number);
        else
            put_array(writer, setting, value);
    }
    put(writer, "}");
}

void
terp_zarr_json_write(const struct terp_cd *cd,
                     char json_ret[TERP_ZARR_JSON_NBYTES])
{
    struct writer writer = {json_ret, 0};
    struct terp_environment host;

    terp_environment_enter(&host);
    write_guarded(cd, &writer);
    terp_environment_leave(&host);
}
