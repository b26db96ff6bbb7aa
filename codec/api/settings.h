/* Settings by name, such as rel = 0.001 and pipeline = "huffman". Zarr's JSON,
 * the text form and the parameters of other hosts have these names, which
 * doc/cd_values.md describes. This file gives them their meaning; the syntax is
 * that of settings_text.h and of the filter's zarr_json.h. Safe for threads, in
 * any locale. */
#pragma once

#include "codec/api/cd_values.h"
#include "codec/api/text.h"

/* The bounds have the numbers of their modes. */
enum terp_setting {
    TERP_SETTING_LOSSLESS,
    TERP_SETTING_ABS = TERP_BOUND_ABSOLUTE,
    TERP_SETTING_REL = TERP_BOUND_RELATIVE,
    TERP_SETTING_PWR = TERP_BOUND_POINTWISE,
    TERP_SETTING_PSNR = TERP_BOUND_PSNR,
    TERP_SETTING_FLOOR,
    TERP_SETTING_KEEP_SIGN,
    TERP_SETTING_VALID_RANGE,
    TERP_SETTING_MISSING,
    TERP_SETTING_PIPELINE,
    TERP_SETTING_PREDICTOR,
    TERP_SETTING_EFFORT,
    TERP_SETTING_DIMS,
    TERP_SETTING_FORMAT,
    TERP_NSETTINGS
};

const char *
terp_setting_name(enum terp_setting setting);

/* Every string and every array of a setting is shorter. */
#define TERP_SETTING_MAX_STRING 16
#define TERP_SETTING_MAX_NITEMS 3

enum terp_setting_kind {
    TERP_KIND_NULL, /* as if the setting were absent */
    TERP_KIND_BOOL,
    TERP_KIND_NUMBER,
    TERP_KIND_STRING,
    TERP_KIND_ARRAY /* of numbers and nulls */
};

struct terp_setting_item {
    bool is_null; /* no limit; `number` is 0 */
    double number;
};

struct terp_setting_value {
    enum terp_setting_kind kind;
    bool is_true;
    double number;
    char string[TERP_SETTING_MAX_STRING]; /* a longer one is cut */
    int nitems;
    struct terp_setting_item items[TERP_SETTING_MAX_NITEMS];
};

/* What settings have said so far; begin with zeros. */
struct terp_settings {
    struct terp_cd cd;
    bool has_bound[TERP_NBOUND_MODES]; /* the first is lossless */
};

/* Takes over the setting `name`. Returns false, with *reason_ret set to a
 * static English sentence, if there is no such setting or no such value. */
bool
terp_settings_take(struct terp_settings *settings, const char *name,
                   const struct terp_setting_value *value,
                   const char **reason_ret);

/* The number of bounds. */
int
terp_settings_nbounds(const struct terp_settings *settings);

/* Writes the settings, which must have one bound, as cd_values: in the exact
 * form if `exact`, otherwise as terp_cd_write does. Returns their number, or 0
 * with *reason_ret set. */
size_t
terp_settings_end(const struct terp_settings *settings, bool exact,
                  unsigned words_ret[TERP_CD_MAX_NUSER_WORDS],
                  const char **reason_ret);

/* Lists the settings of `cd` that are not the default, the bound first. The
 * fill value and the chunk are no settings. Returns their number. */
struct terp_listed_setting {
    enum terp_setting setting;
    struct terp_setting_value value;
};
size_t
terp_settings_list(const struct terp_cd *cd,
                   struct terp_listed_setting listed_ret[TERP_NSETTINGS]);

/* Writes a number as Python's repr does: 2.0, 0.001, 1e-05. Returns
 * `text_ret`. */
const char *
terp_setting_number(double number, char text_ret[TERP_TEXT_NUMBER_NBYTES]);
