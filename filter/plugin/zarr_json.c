/* Reads and writes the JSON of terp's Zarr codec. */
#include "filter/plugin/zarr_json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "codec/api/text.h"
#include "codec/format/environment.h"
#include "filter/plugin/h5z_terp.h"

/* ---- JSON ---- */

/* Every string and every array that terp knows is shorter. */
#define MAX_STRING_NBYTES 16
#define MAX_NITEMS 3

enum kind {
    KIND_NULL,
    KIND_BOOL,
    KIND_NUMBER,
    KIND_STRING,
    KIND_ARRAY /* of numbers and nulls */
};

struct item {
    bool is_null;
    double number;
};

struct value {
    enum kind kind;
    bool is_true;
    double number;
    char string[MAX_STRING_NBYTES];
    int nitems;
    struct item items[MAX_NITEMS];
};

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
read_string(const char **at, char string_ret[MAX_STRING_NBYTES])
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
        if (n + 1 < MAX_STRING_NBYTES)
            string_ret[n++] = c;
    }
    string_ret[n] = '\0';
    ++*at;
    return true;
}

static bool
read_item(const char **at, struct item *item_ret)
{
    *item_ret = (struct item){false, 0};
    skip_blanks(at);
    item_ret->is_null = take_word(at, "null");
    return item_ret->is_null || read_number(at, &item_ret->number);
}

static bool
read_array(const char **at, struct value *value_ret)
{
    value_ret->kind = KIND_ARRAY;
    ++*at;
    if (take(at, ']'))
        return true;
    do {
        if (value_ret->nitems == MAX_NITEMS ||
            !read_item(at, &value_ret->items[value_ret->nitems++]))
            return false;
    } while (take(at, ','));
    return take(at, ']');
}

static bool
read_value(const char **at, struct value *value_ret)
{
    *value_ret = (struct value){.kind = KIND_NULL};
    skip_blanks(at);
    if (take_word(at, "null"))
        return true;
    if (take_word(at, "true")) {
        value_ret->kind = KIND_BOOL;
        value_ret->is_true = true;
        return true;
    }
    if (take_word(at, "false")) {
        value_ret->kind = KIND_BOOL;
        return true;
    }
    if (**at == '"') {
        value_ret->kind = KIND_STRING;
        return read_string(at, value_ret->string);
    }
    if (**at == '[')
        return read_array(at, value_ret);
    value_ret->kind = KIND_NUMBER;
    return read_number(at, &value_ret->number);
}

/* ---- members ---- */

/* The bounds have the numbers of their modes. */
enum member {
    MEMBER_LOSSLESS,
    MEMBER_ABS = TERP_BOUND_ABSOLUTE,
    MEMBER_REL = TERP_BOUND_RELATIVE,
    MEMBER_PWR = TERP_BOUND_POINTWISE,
    MEMBER_PSNR = TERP_BOUND_PSNR,
    MEMBER_FLOOR,
    MEMBER_KEEP_SIGN,
    MEMBER_VALID_RANGE,
    MEMBER_MISSING,
    MEMBER_PIPELINE,
    MEMBER_PREDICTOR,
    MEMBER_EFFORT,
    MEMBER_DIMS,
    MEMBER_FORMAT,
    MEMBER_ID,
    NMEMBERS
};
_Static_assert(MEMBER_ABS == 1 && MEMBER_FLOOR == (int)TERP_NBOUND_MODES,
               "each bound mode has a member, behind MEMBER_LOSSLESS");

static const char *const member_names[NMEMBERS] = {
    [MEMBER_LOSSLESS] = "lossless",
    [MEMBER_ABS] = "abs",
    [MEMBER_REL] = "rel",
    [MEMBER_PWR] = "pwr",
    [MEMBER_PSNR] = "psnr",
    [MEMBER_FLOOR] = "floor",
    [MEMBER_KEEP_SIGN] = "keep_sign",
    [MEMBER_VALID_RANGE] = "valid_range",
    [MEMBER_MISSING] = "missing",
    [MEMBER_PIPELINE] = "pipeline",
    [MEMBER_PREDICTOR] = "predictor",
    [MEMBER_EFFORT] = "effort",
    [MEMBER_DIMS] = "dims",
    [MEMBER_FORMAT] = "format",
    [MEMBER_ID] = "id",
};

/* enum terp_keep_sign */
static const char *const keep_sign_names[TERP_NKEEP_SIGNS] = {"none", "chunk",
                                                              "values"};

static const char *
name_of(enum member member, unsigned number)
{
    switch (member) {
    case MEMBER_KEEP_SIGN:
        return number < TERP_NKEEP_SIGNS ? keep_sign_names[number] : NULL;
    case MEMBER_PIPELINE:
        return terp_pipeline_name((enum terp_pipeline)number);
    case MEMBER_PREDICTOR:
        return terp_predictor_name((enum terp_predictor)number);
    case MEMBER_EFFORT:
        return terp_effort_name((enum terp_effort)number);
    default:
        return NULL;
    }
}

/* More numbers than any member has names. */
#define MAX_NNAMES 16

static bool
number_of(enum member member, const struct value *value, unsigned *number_ret)
{
    for (unsigned i = 0; i < MAX_NNAMES; i++) {
        const char *name = name_of(member, i);
        if (value->kind == KIND_STRING && name != NULL &&
            strcmp(value->string, name) == 0) {
            *number_ret = i;
            return true;
        }
    }
    return false;
}

/* ---- reading ---- */

static bool
refuse(const char **reason_ret, const char *reason)
{
    *reason_ret = reason;
    return false;
}

static bool
read_limits(const struct value *value, struct H5Z_terp_config *config)
{
    const struct item *ends = value->items;

    config->has_valid_range = 0;
    if (value->kind == KIND_NULL)
        return true;
    if (value->kind != KIND_ARRAY || value->nitems != 2)
        return false;
    config->valid_min = ends[0].is_null ? -INFINITY : ends[0].number;
    config->valid_max = ends[1].is_null ? INFINITY : ends[1].number;
    config->has_valid_range = !ends[0].is_null || !ends[1].is_null;
    return config->valid_min <= config->valid_max;
}

static bool
read_dims(const struct value *value, struct H5Z_terp_config *config)
{
    if (value->kind != KIND_ARRAY)
        return false;
    config->nlogical = (unsigned)value->nitems;
    for (int i = 0; i < value->nitems; i++) {
        const double dim = value->items[i].number;
        /* A null has the number 0. */
        if (!(dim >= 1 && dim <= UINT32_MAX) || dim != (uint32_t)dim)
            return false;
        config->logical[i] = (uint32_t)dim;
    }
    return true;
}

/* What the members of an object say. */
struct configuration {
    struct H5Z_terp_config config;
    bool has[TERP_NBOUND_MODES]; /* bounds; the first is lossless */
    bool has_id;
};

/* Takes over a bound; null counts as absent. */
static bool
read_bound(enum member member, const struct value *value,
           struct configuration *found)
{
    const bool is_given = value->kind == KIND_NUMBER;

    found->has[member] = is_given;
    if (is_given) {
        found->config.bound_mode = (unsigned)member;
        found->config.bound = value->number;
    }
    return is_given || value->kind == KIND_NULL;
}

static bool
read_member(enum member member, const struct value *value,
            struct configuration *found, const char **reason_ret)
{
    struct H5Z_terp_config *config = &found->config;

    switch (member) {
    case MEMBER_ID:
        found->has_id =
            value->kind == KIND_STRING && strcmp(value->string, "terp") == 0;
        return found->has_id || refuse(reason_ret, "id must be \"terp\"");
    case MEMBER_LOSSLESS:
        found->has[MEMBER_LOSSLESS] = value->is_true;
        return value->kind == KIND_BOOL ||
               refuse(reason_ret, "lossless must be true or false");
    case MEMBER_ABS:
    case MEMBER_REL:
    case MEMBER_PWR:
    case MEMBER_PSNR:
        return read_bound(member, value, found) ||
               refuse(reason_ret, "abs, rel, pwr and psnr must be numbers");
    case MEMBER_FLOOR:
        config->floor = value->number; /* null has the number 0: no floor */
        return value->kind == KIND_NUMBER || value->kind == KIND_NULL ||
               refuse(reason_ret, "floor must be a number");
    case MEMBER_VALID_RANGE:
        return read_limits(value, config) ||
               refuse(reason_ret,
                      "valid_range must be a pair of numbers, the smaller one "
                      "first; one of them may be null");
    case MEMBER_MISSING:
        config->has_missing = value->kind == KIND_NUMBER;
        config->missing = value->number;
        return value->kind == KIND_NUMBER || value->kind == KIND_NULL ||
               refuse(reason_ret, "missing must be a number");
    case MEMBER_FORMAT:
        config->format = value->kind == KIND_NUMBER;
        return value->kind == KIND_NULL ||
               (value->kind == KIND_NUMBER && value->number == 1) ||
               refuse(reason_ret, "format must be 1");
    case MEMBER_DIMS:
        return read_dims(value, config) ||
               refuse(reason_ret, "dims must be one to three positive numbers");
    case MEMBER_KEEP_SIGN:
        return number_of(member, value, &config->keep_sign) ||
               refuse(reason_ret,
                      "keep_sign must be \"none\", \"chunk\" or \"values\"");
    case MEMBER_PIPELINE:
        return number_of(member, value, &config->pipeline) ||
               refuse(reason_ret, "pipeline must be \"auto\", \"ratio\", "
                                  "\"huffman\" or \"speed\"");
    case MEMBER_PREDICTOR:
        return number_of(member, value, &config->predictor) ||
               refuse(reason_ret, "predictor must be \"auto\", \"spline\" or "
                                  "\"lorenzo\"");
    case MEMBER_EFFORT:
        return number_of(member, value, &config->effort) ||
               refuse(reason_ret,
                      "effort must be \"default\", \"fast\" or \"best\"");
    case NMEMBERS:
        break;
    }
    return refuse(reason_ret,
                  "there is a member that this version of terp does not know");
}

static bool
read_object(const char *at, struct configuration *found,
            const char **reason_ret)
{
    static const char not_json[] =
        "it must be a JSON object of numbers, strings and short arrays";
    char name[MAX_STRING_NBYTES];
    struct value value;

    if (!take(&at, '{'))
        return refuse(reason_ret, not_json);
    if (take(&at, '}'))
        return true;
    do {
        if (!read_string(&at, name) || !take(&at, ':'))
            return refuse(reason_ret, not_json);
        int member = 0;
        while (member < NMEMBERS && strcmp(name, member_names[member]) != 0)
            member++;
        if (!read_value(&at, &value))
            return refuse(reason_ret,
                          member == MEMBER_DIMS
                              ? "dims must be one to three positive numbers"
                              : not_json);
        if (!read_member((enum member)member, &value, found, reason_ret))
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
    struct configuration found = {.has_id = false};
    struct terp_cd cd;
    int nbounds = 0;

    *nwords_ret = 0;
    if (!read_object(json, &found, reason_ret))
        return false;
    if (!found.has_id)
        return refuse(reason_ret, "id must be \"terp\"");
    for (int i = 0; i < TERP_NBOUND_MODES; i++)
        nbounds += found.has[i];
    if (nbounds > 1)
        return refuse(reason_ret,
                      "it must have one of abs, rel, pwr, psnr and lossless");
    if (nbounds == 0)
        return true;
    if (found.has[MEMBER_LOSSLESS]) {
        found.config.bound_mode = H5Z_TERP_ABSOLUTE;
        found.config.bound = 0;
    }
    if (found.config.floor < 0 ||
        (found.config.floor > 0 && !found.has[MEMBER_PWR]))
        return refuse(reason_ret,
                      "floor must be positive, and needs the bound pwr");
    const size_t n = H5Z_terp_cd_values(&found.config, words_ret);
    if (n == 0 || terp_cd_parse(n, words_ret, &cd, reason_ret) != TERP_OK)
        return refuse(reason_ret, "the bound must be finite and positive; abs "
                                  "may be 0, and pwr must be below 1");
    /* The last word says that no logical dims follow. */
    *nwords_ret = found.config.nlogical == 0 ? n - 1 : n;
    return true;
}

bool
terp_zarr_json_read(const char *json, unsigned words_ret[TERP_CD_MAX_NWORDS],
                    size_t *nwords_ret, const char **reason_ret)
{
    struct terp_environment host;

    _Static_assert(H5Z_TERP_MAX_NWORDS <= TERP_CD_MAX_NWORDS,
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

/* Python's json writes 2.0 and 0.001, with as many digits as a reader needs. */
static void
put_number(struct writer *writer, double number)
{
    char text[TERP_TEXT_NUMBER_NBYTES];
    double read = 0;
    int ndigits = 1;

    if (isinf(number)) { /* an end of a valid range */
        put(writer, "null");
        return;
    }
    if (fabs(number) < 1e16 && number == (double)(int64_t)number) {
        put(writer, "%s.0", terp_text_number(number, 17, text));
        return;
    }
    for (; ndigits <= 17; ndigits++)
        if (terp_text_read_number(terp_text_number(number, ndigits, text),
                                  &read) &&
            read == number)
            break;
    put(writer, "%s", text);
}

static void
put_member(struct writer *writer, enum member member)
{
    put(writer, ", \"%s\": ", member_names[member]);
}

static void
put_name(struct writer *writer, enum member member, unsigned number)
{
    if (number == 0)
        return;
    put_member(writer, member);
    put(writer, "\"%s\"", name_of(member, number));
}

TERP_GUARDED void
write_guarded(const struct terp_cd *cd, struct writer *writer)
{
    const struct terp_params *params = &cd->params;

    put(writer, "{\"id\": \"terp\"");
    if (params->bound_mode == TERP_BOUND_ABSOLUTE && params->bound == 0) {
        put_member(writer, MEMBER_LOSSLESS);
        put(writer, "true");
    } else {
        put_member(writer, (enum member)params->bound_mode);
        put_number(writer, params->bound);
    }
    if (params->floor > 0) {
        put_member(writer, MEMBER_FLOOR);
        put_number(writer, params->floor);
    }
    put_name(writer, MEMBER_KEEP_SIGN, params->keep_sign);
    if (params->has_valid_range &&
        !(isinf(params->valid_min) && isinf(params->valid_max))) {
        put_member(writer, MEMBER_VALID_RANGE);
        put(writer, "[");
        put_number(writer, params->valid_min);
        put(writer, ", ");
        put_number(writer, params->valid_max);
        put(writer, "]");
    }
    /* NaN and infinities come back exactly without it. */
    if (cd->has_missing && isfinite(cd->missing)) {
        put_member(writer, MEMBER_MISSING);
        put_number(writer, cd->missing);
    }
    put_name(writer, MEMBER_PIPELINE, params->pipeline);
    put_name(writer, MEMBER_PREDICTOR, params->predictor);
    put_name(writer, MEMBER_EFFORT, params->effort);
    if (cd->nlogical > 0) {
        put_member(writer, MEMBER_DIMS);
        for (int i = 0; i < cd->nlogical; i++)
            put(writer, "%s%llu", i == 0 ? "[" : ", ",
                (unsigned long long)cd->logical[i]);
        put(writer, "]");
    }
    if (params->format == 1) {
        put_member(writer, MEMBER_FORMAT);
        put(writer, "1");
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
