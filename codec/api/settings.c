/* The meaning of settings. */
#include "codec/api/settings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert(TERP_SETTING_ABS == 1 &&
                   TERP_SETTING_FLOOR == (int)TERP_NBOUND_MODES,
               "each bound mode has a setting, behind TERP_SETTING_LOSSLESS");

static const char *const setting_names[TERP_NSETTINGS] = {
    [TERP_SETTING_LOSSLESS] = "lossless",
    [TERP_SETTING_ABS] = "abs",
    [TERP_SETTING_REL] = "rel",
    [TERP_SETTING_PWR] = "pwr",
    [TERP_SETTING_PSNR] = "psnr",
    [TERP_SETTING_FLOOR] = "floor",
    [TERP_SETTING_KEEP_SIGN] = "keep_sign",
    [TERP_SETTING_VALID_RANGE] = "valid_range",
    [TERP_SETTING_MISSING] = "missing",
    [TERP_SETTING_PIPELINE] = "pipeline",
    [TERP_SETTING_PREDICTOR] = "predictor",
    [TERP_SETTING_EFFORT] = "effort",
    [TERP_SETTING_DIMS] = "dims",
    [TERP_SETTING_FORMAT] = "format",
};

const char *
terp_setting_name(enum terp_setting setting)
{
    return setting_names[setting];
}

/* ---- names of values ---- */

/* enum terp_keep_sign */
static const char *const keep_sign_names[TERP_NKEEP_SIGNS] = {"none", "chunk",
                                                              "values"};

static const char *
name_of(enum terp_setting setting, unsigned number)
{
    switch (setting) {
    case TERP_SETTING_KEEP_SIGN:
        return number < TERP_NKEEP_SIGNS ? keep_sign_names[number] : NULL;
    case TERP_SETTING_PIPELINE:
        return terp_pipeline_name((enum terp_pipeline)number);
    case TERP_SETTING_PREDICTOR:
        return terp_predictor_name((enum terp_predictor)number);
    case TERP_SETTING_EFFORT:
        return terp_effort_name((enum terp_effort)number);
    default:
        return NULL;
    }
}

/* More numbers than any setting has names. */
#define MAX_NNAMES 16

static bool
number_of(enum terp_setting setting, const struct terp_setting_value *value,
          unsigned *number_ret)
{
    for (unsigned i = 0; i < MAX_NNAMES; i++) {
        const char *name = name_of(setting, i);
        if (value->kind == TERP_KIND_STRING && name != NULL &&
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
is_number_or_null(const struct terp_setting_value *value)
{
    return value->kind == TERP_KIND_NUMBER || value->kind == TERP_KIND_NULL;
}

static bool
take_limits(const struct terp_setting_value *value, struct terp_params *params)
{
    const struct terp_setting_item *ends = value->items;

    params->has_valid_range = false;
    if (value->kind == TERP_KIND_NULL)
        return true;
    if (value->kind != TERP_KIND_ARRAY || value->nitems != 2)
        return false;
    params->valid_min = ends[0].is_null ? -INFINITY : ends[0].number;
    params->valid_max = ends[1].is_null ? INFINITY : ends[1].number;
    params->has_valid_range = !ends[0].is_null || !ends[1].is_null;
    return params->valid_min <= params->valid_max;
}

static bool
take_dims(const struct terp_setting_value *value, struct terp_cd *cd)
{
    if (value->kind != TERP_KIND_ARRAY)
        return false;
    cd->nlogical = value->nitems;
    for (int i = 0; i < value->nitems; i++) {
        const double dim = value->items[i].number;
        /* A null has the number 0. */
        if (!(dim >= 1 && dim <= UINT32_MAX) || dim != (uint32_t)dim)
            return false;
        cd->logical[i] = (uint32_t)dim;
    }
    return true;
}

/* Takes over a bound; null counts as absent. */
static bool
take_bound(enum terp_setting setting, const struct terp_setting_value *value,
           struct terp_settings *settings)
{
    const bool is_given = value->kind == TERP_KIND_NUMBER;

    settings->has_bound[setting] = is_given;
    if (is_given) {
        settings->cd.params.bound_mode = (enum terp_bound_mode)setting;
        settings->cd.params.bound = value->number;
    }
    return is_number_or_null(value);
}

/* Takes over a setting whose value is one of some names. */
static bool
take_name(enum terp_setting setting, const struct terp_setting_value *value,
          struct terp_params *params)
{
    unsigned number = 0;

    if (!number_of(setting, value, &number))
        return false;
    if (setting == TERP_SETTING_KEEP_SIGN)
        params->keep_sign = (enum terp_keep_sign)number;
    else if (setting == TERP_SETTING_PIPELINE)
        params->pipeline = (enum terp_pipeline)number;
    else if (setting == TERP_SETTING_PREDICTOR)
        params->predictor = (enum terp_predictor)number;
    else
        params->effort = (enum terp_effort)number;
    return true;
}

bool
terp_settings_take(struct terp_settings *settings, const char *name,
                   const struct terp_setting_value *value,
                   const char **reason_ret)
{
    struct terp_cd *cd = &settings->cd;
    int setting = 0;

    while (setting < TERP_NSETTINGS &&
           strcmp(name, setting_names[setting]) != 0)
        setting++;
    switch ((enum terp_setting)setting) {
    case TERP_SETTING_LOSSLESS:
        settings->has_bound[TERP_SETTING_LOSSLESS] = value->is_true;
        return value->kind == TERP_KIND_BOOL ||
               refuse(reason_ret, "lossless must be true or false");
    case TERP_SETTING_ABS:
    case TERP_SETTING_REL:
    case TERP_SETTING_PWR:
    case TERP_SETTING_PSNR:
        return take_bound((enum terp_setting)setting, value, settings) ||
               refuse(reason_ret, "abs, rel, pwr and psnr must be numbers");
    case TERP_SETTING_FLOOR:
        cd->params.floor = value->number; /* null has the number 0: no floor */
        return is_number_or_null(value) ||
               refuse(reason_ret, "floor must be a number");
    case TERP_SETTING_VALID_RANGE:
        return take_limits(value, &cd->params) ||
               refuse(reason_ret,
                      "valid_range must be a pair of numbers, the smaller one "
                      "first; one of them may be missing");
    case TERP_SETTING_MISSING:
        cd->has_missing = value->kind == TERP_KIND_NUMBER;
        cd->missing = value->number;
        return is_number_or_null(value) ||
               refuse(reason_ret, "missing must be a number");
    case TERP_SETTING_FORMAT:
        cd->params.format = value->kind == TERP_KIND_NUMBER;
        return value->kind == TERP_KIND_NULL ||
               (value->kind == TERP_KIND_NUMBER && value->number == 1) ||
               refuse(reason_ret, "format must be 1");
    case TERP_SETTING_DIMS:
        return take_dims(value, cd) ||
               refuse(reason_ret, "dims must be one to three positive numbers");
    case TERP_SETTING_KEEP_SIGN:
        return take_name(TERP_SETTING_KEEP_SIGN, value, &cd->params) ||
               refuse(reason_ret,
                      "keep_sign must be \"none\", \"chunk\" or \"values\"");
    case TERP_SETTING_PIPELINE:
        return take_name(TERP_SETTING_PIPELINE, value, &cd->params) ||
               refuse(reason_ret, "pipeline must be \"auto\", \"ratio\", "
                                  "\"huffman\" or \"speed\"");
    case TERP_SETTING_PREDICTOR:
        return take_name(TERP_SETTING_PREDICTOR, value, &cd->params) ||
               refuse(reason_ret, "predictor must be \"auto\", \"spline\" or "
                                  "\"lorenzo\"");
    case TERP_SETTING_EFFORT:
        return take_name(TERP_SETTING_EFFORT, value, &cd->params) ||
               refuse(reason_ret,
                      "effort must be \"default\", \"fast\" or \"best\"");
    case TERP_NSETTINGS:
        break;
    }
    return refuse(reason_ret, "this version of terp knows no such setting");
}

int
terp_settings_nbounds(const struct terp_settings *settings)
{
    int n = 0;

    for (int i = 0; i < TERP_NBOUND_MODES; i++)
        n += settings->has_bound[i];
    return n;
}

size_t
terp_settings_end(const struct terp_settings *settings, bool exact,
                  unsigned words_ret[TERP_CD_MAX_NUSER_WORDS],
                  const char **reason_ret)
{
    struct terp_cd cd = settings->cd, read;

    if (terp_settings_nbounds(settings) != 1) {
        *reason_ret = "give one of abs, rel, pwr, psnr and lossless";
        return 0;
    }
    if (settings->has_bound[TERP_SETTING_LOSSLESS]) {
        cd.params.bound_mode = TERP_BOUND_ABSOLUTE;
        cd.params.bound = 0;
    }
    if (cd.params.floor < 0 ||
        (cd.params.floor > 0 && !settings->has_bound[TERP_SETTING_PWR])) {
        *reason_ret = "floor must be positive, and needs the bound pwr";
        return 0;
    }
    const size_t nwords = terp_cd_write(&cd, exact, words_ret);
    if (terp_cd_parse(nwords, words_ret, &read, reason_ret) != TERP_OK) {
        *reason_ret = "the bound must be finite and positive; abs may be 0, "
                      "and pwr must be below 1";
        return 0;
    }
    return nwords;
}

/* ---- listing ---- */

/* The settings listed so far. */
struct list {
    struct terp_listed_setting *at;
    size_t n;
};

static struct terp_setting_value *
add(struct list *list, enum terp_setting setting, enum terp_setting_kind kind)
{
    struct terp_listed_setting *listed = &list->at[list->n++];

    *listed = (struct terp_listed_setting){setting, {.kind = kind}};
    return &listed->value;
}

static void
add_number(struct list *list, enum terp_setting setting, double number)
{
    add(list, setting, TERP_KIND_NUMBER)->number = number;
}

/* The name with the number 0 is the default. */
static void
add_name(struct list *list, enum terp_setting setting, unsigned number)
{
    if (number != 0)
        snprintf(add(list, setting, TERP_KIND_STRING)->string,
                 TERP_SETTING_MAX_STRING, "%s", name_of(setting, number));
}

size_t
terp_settings_list(const struct terp_cd *cd,
                   struct terp_listed_setting listed_ret[TERP_NSETTINGS])
{
    const struct terp_params *params = &cd->params;
    struct list list = {listed_ret, 0};
    struct terp_setting_value *value;

    if (params->bound_mode == TERP_BOUND_ABSOLUTE && params->bound == 0)
        add(&list, TERP_SETTING_LOSSLESS, TERP_KIND_BOOL)->is_true = true;
    else
        add_number(&list, (enum terp_setting)params->bound_mode, params->bound);
    if (params->floor > 0)
        add_number(&list, TERP_SETTING_FLOOR, params->floor);
    add_name(&list, TERP_SETTING_KEEP_SIGN, params->keep_sign);
    if (params->has_valid_range &&
        !(isinf(params->valid_min) && isinf(params->valid_max))) {
        const double ends[] = {params->valid_min, params->valid_max};
        value = add(&list, TERP_SETTING_VALID_RANGE, TERP_KIND_ARRAY);
        value->nitems = 2;
        for (int i = 0; i < 2; i++)
            value->items[i] = (struct terp_setting_item){
                isinf(ends[i]), isinf(ends[i]) ? 0 : ends[i]};
    }
    /* NaN and infinities come back exactly without it. */
    if (cd->has_missing && isfinite(cd->missing))
        add_number(&list, TERP_SETTING_MISSING, cd->missing);
    add_name(&list, TERP_SETTING_PIPELINE, params->pipeline);
    add_name(&list, TERP_SETTING_PREDICTOR, params->predictor);
    add_name(&list, TERP_SETTING_EFFORT, params->effort);
    if (cd->nlogical > 0) {
        value = add(&list, TERP_SETTING_DIMS, TERP_KIND_ARRAY);
        value->nitems = cd->nlogical;
        for (int i = 0; i < cd->nlogical; i++)
            value->items[i].number = (double)cd->logical[i];
    }
    if (params->format == 1)
        add_number(&list, TERP_SETTING_FORMAT, 1);
    return list.n;
}

const char *
terp_setting_number(double number, char text_ret[TERP_TEXT_NUMBER_NBYTES])
{
    if (!(fabs(number) < 1e16) || number != (double)(int64_t)number)
        return terp_text_shortest(number, text_ret);
    terp_text_number(number, 17, text_ret);
    return strcat(text_ret, ".0");
}
